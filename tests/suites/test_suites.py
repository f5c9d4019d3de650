"""`flashbench compare A B --asv` and `--pytest`, on a project that has both kinds of suite."""

import json
import shutil
import signal
import sys
import sysconfig
import time
import venv
from pathlib import Path
from typing import Any

import forks
import pytest
from revisions.repository import Repository

import flashbench
from flashbench.errors import Exit
from flashbench.suites import suite_file
from flashbench.suites.asv_names import modules, with_matches

pytestmark = pytest.mark.slow

ENOUGH = ("--confidence", "80%", "--launches", "30")  # fewer launches decide
MODULE = "def work(n):\n    return sum(range(n * FACTOR))\n\n\nFACTOR, SIZE = 300, 100\n"
SUITE = '''
"""What asv can hold."""
import os
import time

import shapes


class Work:
    params, param_names = [1, 2], ["n"]
    repeat, warmup_time, sample_time = 2, 0, 0.001

    def setup_cache(self):
        with open(os.environ["MADE"], "a") as made:
            made.write("x")
        return 7

    def setup(self, cache, n):
        self.n = n * (cache == 7)

    def time_work(self, cache, n):
        shapes.work(self.n)

    def teardown(self, cache, n):
        del self.n


def track_size():
    return shapes.SIZE


track_size.unit = "items"


def peakmem_list():
    return [0] * (2000 * shapes.SIZE)


def time_skipped():
    raise AssertionError("its setup skips it")


def skip():
    raise NotImplementedError


time_skipped.setup = skip
time_skipped.teardown = lambda: 1 / 0


def time_slow():
    time.sleep(20)


time_slow.timeout = 0.2


def track_zero():
    return 0


def track_odd():
    return float("nan") if shapes.SIZE == 400 else 1


def time_abort():
    os.abort()


def time_raise():
    raise ValueError("of course")
'''
SETTINGS = """
[project]
name = "shapes"

[tool.pytest.ini_options]
addopts = "-x -n 2 --benchmark-disable"
"""
TESTS = """
import shapes


def test_work(benchmark):
    benchmark.pedantic(shapes.work, (1,), rounds=3)


def test_wrong(benchmark):
    assert benchmark.pedantic(shapes.work, (1,), rounds=3) < 0
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A package below the repository's root: code in src/, an asv suite with a module that does not
    import, tests with pytest-benchmark, which its settings turn off, results of asv; two commits,
    of which the second is five times slower."""
    repository = Repository(tmp_path_factory.mktemp("suites") / "shapes")
    repository.write("pkg/pyproject.toml", SETTINGS)
    repository.write("pkg/src/shapes/__init__.py", MODULE)
    repository.write("pkg/asv.conf.json", '{ // of asv\n"benchmark_dir": "bench", }')
    repository.write(".gitignore", "__pycache__\n")
    repository.write("pkg/bench/__init__.py", "")
    repository.write("pkg/bench/bench_shapes.py", SUITE)
    repository.write("pkg/bench/bench_broken.py", "import nonesuch\n\ndef time_nothing(): pass\n")
    repository.write("pkg/tests/bench.py", TESTS)
    repository.write("pkg/.asv/results/mine.json", "{}")
    repository.commit("Work")
    repository.git("tag", "fast")
    repository.edit("pkg/src/shapes/__init__.py", "300, 100", "6000, 400")
    repository.commit("Work more")
    return repository


def compare(
    project: Repository, *arguments: object, python_path: Path | str = "", **streams: int
) -> Any:
    cache = project.root.parent / "cache"
    environment = {"FLASHBENCH_CACHE": str(cache), "MADE": str(cache.parent / "made")}
    if python_path:
        environment["PYTHONPATH"] = str(python_path)
    command = ["compare", "fast", "HEAD", *arguments]
    return forks.run(command, project.root / "pkg", environment, **streams)


@pytest.fixture(scope="module")
def measured(project: Repository) -> Any:
    """The command, and its file."""
    path = project.root.parent / "asv.json"
    asked = ["--asv", "bench_shapes", *ENOUGH, "--run-file", path, "--format", "json"]
    return compare(project, *asked), path


def test_every_kind_of_asv_benchmark_is_judged(measured: Any) -> None:
    """Times, numbers and memory have verdicts, zeros too; what fails has its reason, as what one
    revision alone skips. What both skip is named, and no row. A time-out is the benchmark's own."""
    done, _ = measured
    assert done.returncode == Exit.REGRESSION, done.stderr
    rows = {row["case"]: row for row in json.loads(done.stdout)["rows"]}
    verdicts = {name.removeprefix("bench_shapes."): row["verdict"] for name, row in rows.items()}
    assert verdicts["Work.time_work(1)"] == verdicts["Work.time_work(2)"] == "SLOWER"
    assert verdicts["track_size"] == verdicts["peakmem_list"] == "SLOWER"
    assert rows["bench_shapes.track_size"]["speedup"] == 0.25
    assert verdicts["track_zero"] == "SAME"
    for name, why in (
        ("time_abort", "killed by SIGABRT"),
        ("time_raise", "ValueError: of course"),
        ("time_slow", "no answer within 0.2 s"),
        ("track_odd", "in B: its result is NaN"),
    ):
        assert verdicts[name] == "NOT MEASURED"
        assert why in rows[f"bench_shapes.{name}"]["reason"]
    assert "time_skipped" not in verdicts
    assert "skipped by the suite in both revisions, 1: bench_shapes.time_skipped" in done.stdout


def test_setup_cache_runs_once_a_revision_and_asv_keeps_its_own(
    measured: Any, project: Repository
) -> None:
    """The suite's cache is made twice for all launches; nothing in the repository changes."""
    assert (project.root.parent / "made").read_text() == "xx"
    assert (project.root / "pkg/.asv/results/mine.json").read_text() == "{}"
    assert project.git("status", "--porcelain").strip() == ""
    launches = suite_file.read(measured[1]).launches
    assert [launch.index for launch in launches] == list(range(len(launches)))
    assert max(len(launch.results) for launch in launches[2:]) <= 5  # what fails twice is given up


def test_the_file_is_judged_again_and_only_its_own_comparison_resumes(
    measured: Any, project: Repository
) -> None:
    """`compare FILE` prints the verdicts; the same command finds none open, another is refused."""
    done, path = measured
    again = forks.run(["compare", path, "--format", "json"], project.root)
    assert (again.returncode, again.stdout) == (done.returncode, done.stdout)
    shown = forks.run(["show", path], project.root)
    assert shown.returncode == Exit.PASS
    assert "bench_shapes.track_size" in shown.stdout
    before = path.read_bytes()
    resumed = compare(project, "--asv", "bench_shapes", *ENOUGH, "--run-file", path)
    assert resumed.returncode == Exit.REGRESSION
    assert path.read_bytes() == before
    other = compare(project, "--asv", "track", "--run-file", path)
    assert (other.returncode, other.stdout) == (Exit.USAGE, "")
    assert "holds another comparison" in other.stderr


def test_python_has_the_same(
    measured: Any, project: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`flashbench.compare` resumes the file of the command, and reads it."""
    done, path = measured
    monkeypatch.chdir(project.root / "pkg")
    monkeypatch.setenv("FLASHBENCH_CACHE", str(project.root.parent / "cache"))
    asked = {"asv": "bench_shapes", "path": path, "progress": False}
    judged = flashbench.compare("fast", "HEAD", launches=2, confidence=0.8, **asked)
    assert judged.table("json") == flashbench.compare(path).table("json") == done.stdout
    assert judged.exit_code() == done.returncode


def test_an_interrupt_keeps_the_launches(project: Repository) -> None:
    """Ctrl-C exits with 4 and the command that resumes; it does."""
    path = project.root.parent / "cut it.json"
    asked = ["--asv", "track_size", "--run-file", path]
    cache = {"FLASHBENCH_CACHE": str(project.root.parent / "cache")}
    command = forks.start(["compare", "fast", "HEAD", *asked], project.root / "pkg", cache)
    while not path.exists():
        assert command.poll() is None
        time.sleep(0.02)
    command.send_signal(signal.SIGINT)
    _, said = command.communicate()
    assert command.returncode == Exit.NOT_MEASURED
    assert f"--run-file '{path}'; the verdicts so far: flashbench compare '{path}'" in said
    kept = suite_file.read(path).launches
    assert f"{path}: {len(kept)} launches, " in said
    before = kept[0]
    assert compare(project, *asked, "--launches", 2).returncode == Exit.UNDECIDED
    assert suite_file.read(path).launches[0] == before


def test_pytest_benchmarks_are_measured_in_pairs_of_processes(project: Repository) -> None:
    """Passes A B B A become a launch of either revision; a failing test has pytest's words. Tests
    are named as in the package's folder, and run whatever its addopts turn off."""
    path = project.root.parent / "pytest.json"
    asked = ["--launches", 2, "--format", "json", "--run-file", path]
    done = compare(project, "--pytest", "tests/bench.py", *asked)
    assert done.returncode == Exit.UNDECIDED, done.stderr
    rows = {row["case"]: row for row in json.loads(done.stdout)["rows"]}
    assert list(rows) == ["tests/bench.py::test_work", "tests/bench.py::test_wrong"]
    passes = suite_file.read(path).launches[1].results[0]
    assert (len(passes.a), len(passes.b)) == (2, 2)
    assert rows["tests/bench.py::test_work"]["speedup"] < 0.7


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        (["--asv", "nonesuch"], Exit.NOT_MEASURED, "bench_broken cannot be imported: Module"),
        (["--asv", "a("], Exit.USAGE, "not a regular expression"),
        (["--asv", "x", "--shape", "1,1,1,1"], Exit.USAGE, "--shape is not for --asv"),
        (["--asv", "x", "--pytest", "tests/bench.py"], Exit.USAGE, "two suites"),
        (["--pytest", "tests/none.py::test"], Exit.USAGE, "no such file"),
    ],
)
def test_wrong_requests_are_one_line(
    project: Repository, asked: list[str], code: Exit, said: str
) -> None:
    """The error names the flag and the fix."""
    done = compare(project, *asked)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_code_of_the_working_tree_is_no_revision(project: Repository) -> None:
    """A suite that imports from the working tree measures neither revision: refused. A setup.py
    that compiles, which no setting builds, is named with the setting."""
    tree = project.root / "pkg/src"
    text = (
        f"import sys\nsys.path.insert(0, {str(tree)!r})\nimport shapes\n\ndef track_x(): return 1\n"
    )
    project.write("pkg/bench/bench_tree.py", text)
    project.write("pkg/setup.py", "setup(ext_modules=[Extension('shapes._c', ['c.c'])])")
    try:
        done = compare(project, "--asv", "track_x", "--run-file", project.root.parent / "tree.json")
    finally:
        (project.root / "pkg/bench/bench_tree.py").unlink()
        (project.root / "pkg/setup.py").unlink()
    assert done.returncode == Exit.NOT_MEASURED
    assert "shapes was imported from the working tree" in done.stderr
    assert "setup.py compiles, but no setting builds the revisions; say how in" in done.stderr


def test_an_editable_install_that_comes_first_is_refused(
    project: Repository, tmp_path: Path
) -> None:
    """Those of scikit-build-core and meson-python are found before any path: both revisions would
    be the working tree, and SAME."""
    finder = f"""import sys
from importlib.machinery import PathFinder

class Editable:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "shapes":
            return PathFinder.find_spec(name, [{str(project.root / "pkg/src")!r}])

sys.meta_path.insert(0, Editable)
"""
    (tmp_path / "sitecustomize.py").write_text(finder)
    asked = ["--pytest", "tests/bench.py", "--run-file", tmp_path / "run.json"]
    done = compare(project, *asked, python_path=tmp_path)
    assert done.returncode == Exit.NOT_MEASURED
    assert "B: shapes was imported from the working tree" in done.stderr


def test_an_environment_in_the_working_tree_is_none_of_its_code(
    project: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packages in .venv of the repository may be imported, as people lay it out, and revisions
    from a build cache in it."""
    place = project.root / ".venv"
    venv.create(place, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(place)}))
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib"))
    (packages / "dependency.py").write_text("")
    text = "import dependency, shapes\n\ndef track_own(): return shapes.SIZE\n"
    project.write("pkg/bench/bench_own.py", text)
    monkeypatch.setattr(sys, "executable", str(place / "bin/python"))
    monkeypatch.chdir(project.root / "pkg")
    monkeypatch.setenv("FLASHBENCH_CACHE", str(project.root / ".cache"))
    path = project.root.parent / "own.json"
    try:
        judged = flashbench.compare(
            "fast", "HEAD", asv="track_own", launches=2, path=path, progress=False
        )
    finally:
        (project.root / "pkg/bench/bench_own.py").unlink()
        shutil.rmtree(place)
        shutil.rmtree(project.root / ".cache")
    assert [row.outcome for row in judged] == ["UNDECIDED"]


def test_equal_revisions_are_not_measured(project: Repository) -> None:
    """The same files give the same times: exit code 0 and no file. Files of comparisons in the
    working tree are none of its sources."""
    path = project.root.parent / "same.json"
    cache = {"FLASHBENCH_CACHE": str(project.root.parent / "cache")}
    same = ["compare", "HEAD", "WORKTREE", "--asv", "track", "--run-file", path]
    done = forks.run(same, project.root / "pkg", cache)
    assert (done.returncode, path.exists()) == (Exit.PASS, False)
    assert "same-build" in done.stdout


def test_only_modules_that_may_match_are_imported(tmp_path: Path) -> None:
    """In hundreds of modules: those with the name, with heirs of it, or with anything dynamic."""
    for number in range(300):
        text = f"class Suite{number}:\n    def time_{number}(self): pass\n"
        (tmp_path / f"bench_{number}.py").write_text(text)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/__init__.py").write_text("")
    (tmp_path / "inner/bench_heir.py").write_text("class Heir(Base): pass\n")
    (tmp_path / "bench_loop.py").write_text("for n in range(3):\n    globals()[f'time_{n}'] = n\n")
    (tmp_path / "bench_star.py").write_text("from somewhere import *\n")
    assert len(modules(tmp_path)) == 305
    always = ["bench_loop", "bench_star"]
    assert sorted(with_matches(tmp_path, r"Suite17\.time_17$")) == sorted(["bench_17", *always])
    heirs = with_matches(tmp_path, r"Heir\.time_8$")
    assert sorted(heirs) == sorted(["inner.bench_heir", *always])
    assert "bench_23" in with_matches(tmp_path, r"bench_23.Suite23.time_23\(10\)")
    (tmp_path / "bench_loop.py").unlink()
    (tmp_path / "bench_star.py").unlink()
    assert with_matches(tmp_path, "found by no reading") == modules(tmp_path)
