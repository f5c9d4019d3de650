"""Real asv over real git repositories whose commits build real C++ extensions."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asv.util import load_json

import flashbench.source_hash
from flashbench import runfile
from flashbench.history import commit_record, suite
from flashbench.revisions import Built, ledger, resolve
from flashbench.revisions import Project as Settings
from flashbench.revisions.export import export
from flashbench.revisions.prepare import prepare

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MACHINE = "toybox"


class Project:
    """A git repository of toy commits, and the directory where asv runs with our plugin."""

    def __init__(self, root: Path, cache: Path | None = None, suite: Path = HERE / "suite") -> None:
        self.repository = root / "toy"
        self.asv = root / "asv"
        self.cache = cache or root / "cache"
        self.python = sys.executable
        shutil.copytree(HERE / "toy", self.repository)
        shutil.copy(str(flashbench.source_hash.__file__), self.repository / "flashbench")
        self.git("init", "-q", "-b", "main")
        self.asv.mkdir()
        (self.asv / "flashbench").symlink_to(ROOT / "flashbench")
        shutil.copytree(suite, self.asv / "suite")
        conf = load_json(str(ROOT / "asv.conf.json"), js_comments=True)
        conf |= {"repo": str(self.repository), "benchmark_dir": "suite"}
        (self.asv / "asv.conf.json").write_text(json.dumps(conf))
        # Answers asv's questions about the machine before it asks them.
        machine = {"machine": MACHINE, "arch": "", "cpu": "", "num_cpu": "", "os": "", "ram": ""}
        home = json.dumps({MACHINE: machine, "version": 1})
        (root / ".asv-machine.json").write_text(home)
        self.environment = os.environ | {
            "HOME": str(root),
            "FLASHBENCH_CACHE": str(self.cache),
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=Toy", "-c", "user.email=toy@example.org"]
        command = ["git", "-C", str(self.repository), *identity, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.repository / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python, "-m", "asv", *arguments],
            cwd=self.asv,
            env=self.environment,
            capture_output=True,
            text=True,
        )

    def measure(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("run", "--record-samples", "-m", MACHINE, *arguments)

    def prepared(self, commit: str, stage: ledger.Stage = "load") -> Built:
        """As `flashbench build` finds or builds it."""
        settings = Settings(self.repository, "flashbench:attention")
        revision = resolve(self.repository, commit)
        return prepare(settings, revision, self.cache / "builds", stage=stage)

    def results(self, commit: str, benchmark: str = "scale.Scale.track_scale") -> dict[str, Any]:
        """asv's columns of a benchmark, by name."""
        (path,) = (self.asv / ".asv" / "results" / MACHINE).glob(f"{commit[:8]}-*.json")
        document = json.loads(path.read_text())
        row = document["results"][benchmark]
        return dict(zip(document["result_columns"], row, strict=False))

    def record(self, commit: str) -> commit_record.CommitRecord:
        (path,) = (
            path
            for path in (self.asv / ".asv" / "flashbench" / MACHINE).glob(f"{commit}-*.json")
            if path.suffixes[-2:] != [".cpu", ".json"]
        )
        return commit_record.read(path)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, dict[str, str], str]:
    """Six commits (good, only documentation, a missing header, a package that cannot be imported,
    good and changed, built by flashbench before), measured."""
    project = Project(tmp_path_factory.mktemp("history"))
    commits = {"good": project.commit("A kernel")}
    (project.repository / "README").write_text("what it is\n")
    project.edit("flashbench/attention.py", "Right when", "It is right when")
    commits["documented"] = project.commit("Say what it is; sources are the same")
    project.edit("csrc/kernel.cpp", "scale.h", "build_config.h")
    commits["broken"] = project.commit("Include a header that only I have")
    project.edit("csrc/kernel.cpp", "build_config.h", "scale.h")
    project.edit("csrc/scale.h", "1.0", "3.0")
    project.edit("flashbench/attention.py", "flashbench import _C", "flashbench import _D")
    commits["renamed"] = project.commit("Repair it, with another scale; import what is not there")
    project.edit("flashbench/attention.py", "flashbench import _D", "flashbench import _C")
    commits["changed"] = project.commit("Import what is there")
    project.edit("csrc/scale.h", "3.0", "4.0")
    commits["known"] = project.commit("A third scale")
    assert not project.prepared(commits["known"], "build").build.reused
    done = project.measure("ALL")
    assert done.returncode == 2, done.stdout + done.stderr  # asv's word for "some failed"
    return project, commits, done.stdout + done.stderr


def test_each_commit_is_measured_with_its_own_library(history) -> None:
    """Good commits have the samples of their own library; the broken ones have none."""
    project, commits, _ = history
    scales = {"good": 1.0, "documented": 1.0, "changed": 3.0, "known": 4.0}
    for name, scale in scales.items():
        row = project.results(commits[name])
        assert row["result"] == [scale, 2 * scale]
        assert row["samples"] == [[scale, scale], [2 * scale, 2 * scale]]
    for name in ("broken", "renamed"):
        assert project.results(commits[name])["result"] is None


def test_unchanged_sources_are_not_built_again(history) -> None:
    """The commit that changes documentation and Python only takes the build of its parent."""
    project, commits, output = history
    good, documented = (project.record(commits[name]).build for name in ("good", "documented"))
    assert documented.key == good.key
    assert f"{commits['documented'][:8]}" in output
    assert sum("built " in line for line in output.splitlines()) == 2
    assert sum("reused, same sources" in line for line in output.splitlines()) >= 2
    assert len(list((project.cache / "builds").glob("*/build.json"))) == 4


def test_builds_are_shared_with_the_other_commands(history) -> None:
    """What `asv run` built, or could not build, `flashbench build` does not build again; and what
    that built, asv does not."""
    project, commits, output = history
    for commit in commits.values():
        assert project.prepared(commit).build.reused
    assert f"{commits['known'][:8]} <main>: build" in output


def test_reason_of_a_failed_build_is_told_and_kept(history) -> None:
    """One line on the screen, and the record, say that the header is missing."""
    project, commits, output = history
    broken = project.record(commits["broken"])
    assert broken.build.status == "missing header"
    assert "build_config.h" in broken.build.reason
    listed = next(
        tried
        for tried in ledger.everything(project.cache / "builds", project.repository)
        if tried.commit == commits["broken"]
    )
    assert (listed.status, listed.reason) == (broken.build.status, broken.build.reason)
    line = line_of_failure(output, commits["broken"])
    assert "missing header" in line
    assert "build_config.h" in line


def test_reason_of_a_failed_import_is_told_and_kept(history) -> None:
    """Importing something else than was built counts as a failed build."""
    project, commits, output = history
    renamed = project.record(commits["renamed"])
    assert (renamed.outcome.status, renamed.build.status) == ("wrong module name", "built")
    assert "expected flashbench._D, got flashbench/_C" in renamed.outcome.failure
    assert renamed.outcome.failure in line_of_failure(output, commits["renamed"])


def line_of_failure(output: str, commit: str) -> str:
    """The one line that says of a commit why it does not build."""
    found = [line for line in output.splitlines() if "does not build" in line]
    (line,) = (line for line in found if commit[:8] in line)
    return line


def test_proof_is_kept(history, tmp_path: Path) -> None:
    """Each measured commit keeps which library was built, and that it is the commit's."""
    project, commits, _ = history
    for name in ("good", "documented", "changed"):
        kept = project.record(commits[name])
        assert (kept.outcome.status, kept.outcome.failure) == ("built", "")
        library = Path(kept.build.directory) / kept.build.library
        assert hashlib.sha256(library.read_bytes()).hexdigest() == kept.build.library_hash
        export(project.repository, resolve(project.repository, commits[name]), tmp_path / name)
        expected = flashbench.source_hash.of_tree(tmp_path / name)
        assert kept.build.stated_source_hash == kept.build.source_hash == expected


def test_asv_compares_and_publishes(history) -> None:
    """asv's own commands work on the results."""
    project, commits, _ = history
    compared = project.run("compare", "-m", MACHINE, commits["good"], commits["changed"])
    assert compared.returncode == 0, compared.stderr
    assert "scale.Scale.track_scale" in compared.stdout
    published = project.run("publish")
    assert published.returncode == 0, published.stdout + published.stderr
    graphs = list((project.asv / ".asv" / "html" / "graphs").rglob("*.json"))
    assert any(json.loads(path.read_text()) for path in graphs if "track_scale" in path.name)


def test_wrong_library_is_not_measured(history) -> None:
    """A library of other sources, planted where the commit is imported from, is replaced by the
    commit's; planted in its build as well, it ends the run by name."""
    project, commits, _ = history
    root = project.prepared(commits["good"]).require()
    build, other = (project.record(commits[name]).build for name in ("good", "changed"))
    planted = Path(other.directory) / other.library
    (library,) = root.glob("flashbench/_C*.so")
    shutil.copy(planted, library)
    assert project.measure(f"{commits['good']}^!").returncode == 0
    assert project.results(commits["good"])["result"] == [1.0, 2.0]
    (built,) = Path(build.directory).rglob("_C*.so")
    right = built.read_bytes()
    shutil.copy(planted, built)
    shutil.rmtree(root)
    try:
        done = project.measure(f"{commits['good']}^!")
    finally:
        built.write_bytes(right)
    assert done.returncode == 1
    assert f"{build.key} is not the one that was built" in done.stdout + done.stderr


DECOY = "raise ImportError('the copy of the host was imported')\n"
FINDER = """
import importlib.util, sys
class Editable:
    def find_spec(self, name, path=None, target=None):
        if name == "flashbench":
            return importlib.util.spec_from_file_location(name, {decoy!r})
sys.meta_path.append(Editable())
"""


@pytest.mark.thorough
def test_host_copy_does_not_shadow_the_commit(history, tmp_path: Path) -> None:
    """asv does not measure a flashbench installed in its own Python, as a copy or editable."""
    host = tmp_path / "host"
    venv.create(host, with_pip=False, symlinks=True)
    (site,) = host.glob("lib/python*/site-packages")
    packages = [path for path in sys.path if Path(path).name.endswith("-packages")]
    (site / "packages.pth").write_text("\n".join(packages))
    for home in (site, tmp_path / "checkout"):
        (home / "flashbench").mkdir(parents=True)
        (home / "flashbench" / "__init__.py").write_text(DECOY)
    decoy = str(tmp_path / "checkout" / "flashbench" / "__init__.py")
    (site / "_editable_finder.py").write_text(FINDER.format(decoy=decoy))
    (site / "__editable__.flashbench.pth").write_text("import _editable_finder")
    project = Project(tmp_path, history[0].cache)
    project.python = str(host / "bin" / "python")
    commit = project.commit("A kernel")
    done = project.measure("ALL")
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.results(commit)["result"] == [1.0, 2.0]


# Each number that asv asks for is a process: the real suites, on one case instead of four.
SMALL = """
from flashbench.history import suite as measured
measured.HISTORY_GRID["cpu"].shapes[1:] = []
measured.HISTORY_GRID["cpu"].dtypes[1:] = []
measured.SAMPLES = 4
"""


@pytest.mark.thorough
def test_suites_measure_commits_against_sdpa(
    history, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real suites: a right kernel has samples and a ratio; a wrong one a reason, no time."""
    project = Project(tmp_path, history[0].cache, ROOT / "benchmarks")
    with (project.asv / "suite" / "__init__.py").open("a") as package:
        package.write(SMALL)
    known = suite.HISTORY_GRID["cpu"]
    small = replace(known, shapes=known.shapes[:1], dtypes=known.dtypes[:1])
    monkeypatch.setitem(suite.HISTORY_GRID, "cpu", small)
    project.environment["FLASHBENCH_HISTORY_LAUNCHES"] = "1"
    right = project.commit("A kernel")
    project.edit("csrc/scale.h", "1.0", "3.0")
    wrong = project.commit("A kernel that is wrong")
    done = project.measure("-b", "^cpu", "ALL")
    output = done.stdout + done.stderr
    assert done.returncode == 2, output
    names = [case.id for case in suite.cases("cpu")]

    ratio = project.results(right, "cpu.Ratio.track_ratio")
    seconds = project.results(right, "cpu.Seconds.track_seconds")
    assert all(value > 0 for value in ratio["result"])
    assert all(value > 0 for value in seconds["result"])
    assert len(seconds["samples"][0]) == 1  # of the one launch
    assert project.record(right).outcome.status == "built"

    ratio = project.results(wrong, "cpu.Ratio.track_ratio")
    assert not any(ratio["result"] or [])  # asv writes one null where all are
    times = project.results(wrong, "cpu.Seconds.track_seconds")["result"]
    assert [value is None for value in times] == [True, False] * len(names)
    project.measure("-b", "^cpu", "--skip-existing", "ALL")  # looks for the suites in a commit
    kept = project.record(wrong)
    assert kept.outcome.status == "wrong result"
    assert "exceeds the bound" in kept.outcome.failure
    assert any("not measured: " in line and "wrong" in line for line in output.splitlines())

    (path,) = (project.asv / ".asv" / "flashbench" / MACHINE).glob(f"{right}-*.cpu.json")
    run = runfile.read(path)
    builds = {candidate.name: candidate.build for candidate in run.candidates}
    assert builds[suite.KERNEL].commit == right
    assert builds[suite.KERNEL].library_hash == project.record(right).build.library_hash


def test_unusable_cache_is_told(tmp_path: Path) -> None:
    """A cache that cannot be written ends the run with the place and the way out."""
    project = Project(tmp_path)
    project.commit("A kernel")
    project.cache.write_text("a file is in the way")
    done = project.measure("ALL")
    assert done.returncode == 1
    assert "set FLASHBENCH_CACHE" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
