"""`flashbench run` and `aa` in a project that is not ours measure that project's kernel."""

import os
import subprocess
import sys
from pathlib import Path

import forks
import pytest
from revisions.repository import Repository, fastattn
from stored_profiles import ceilings_of_this_cpu

from flashbench import runfile
from flashbench.errors import Exit
from flashbench.profile import model as profile_file

pytestmark = pytest.mark.slow

FAST = ["--shape", "1,1,16,8", "--dtype", "fp32", "--causal", "full", "--samples", "4"]
FAST += ["--min-sample", "500us", "--device", "cpu"]
PURE = "from torch.nn.functional import scaled_dot_product_attention as attention\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A project whose imports start in src; a module of its root has the name of one there."""
    repository = fastattn(tmp_path_factory.mktemp("run") / "fastattn")
    repository.write("src/pure.py", PURE)
    repository.write("pure.py", "def attention(q, k, v, is_causal=False):\n    return 0 * q\n")
    repository.commit("Attention without a library")
    return repository


@pytest.fixture
def flashbench(project: Repository):  # type: ignore[no-untyped-def]
    environment = {"FLASHBENCH_CACHE": str(project.root.parent / "cache")}
    environment["FLASHBENCH_MACHINE"] = str(project.root.parent / "machine.json")

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return forks.run(arguments, project.root, environment)

    yield run
    project.git("checkout", "-q", ".")


def test_run_measures_the_callable_of_the_working_tree(
    flashbench, project: Repository, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    """Built as it lies there, said on stderr, in the run file; a change that is not committed is
    measured, and a file is resumed with the same build alone."""
    path = tmp_path / "run.json"
    done = flashbench("run", *FAST, "--launches", 1, "-o", path)
    assert done.returncode == Exit.PASS, done.stderr
    assert "fastattn.api:sdpa_like = the working tree" in done.stderr
    (measured,) = (c for c in runfile.read(path).candidates if not c.baseline)
    assert (measured.name, measured.spec) == ("sdpa_like", "fastattn.api:sdpa_like")
    assert (measured.build.revision, measured.build.dirty) == ("WORKTREE", False)
    assert measured.build.commit == project.git("rev-parse", "HEAD")
    assert len(measured.build.library_hash) == 64
    more = flashbench("run", "--resume", path, "--launches", 2)
    assert more.returncode == Exit.PASS, more.stderr
    assert len(runfile.read(path).launches) == 2
    project.edit("csrc/config.h", "SCALE = 1.0f", "SCALE = 1.5f")
    wrong = flashbench("run", *FAST, "--launches", 1, "-o", tmp_path / "wrong.json")
    assert wrong.returncode == Exit.REGRESSION, wrong.stderr
    assert "sdpa_like is wrong on 1 of 1 cases" in wrong.stderr
    (changed,) = (c for c in runfile.read(tmp_path / "wrong.json").candidates if not c.baseline)
    assert changed.build.dirty
    refused = flashbench("run", "--resume", path, "--launches", 3)
    assert refused.returncode == Exit.USAGE
    assert "is not the build that was measured" in refused.stderr.splitlines()[-1]
    assert len(runfile.read(path).launches) == 2
    shown = flashbench("run", "--resume", path)
    assert (shown.returncode, "building" in shown.stderr) == (Exit.PASS, False)


def test_a_working_tree_that_does_not_build_is_not_measured(
    flashbench, project: Repository, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    """Exit code 4 with the reason, and no run file of another kernel; SDPA alone is measured."""
    project.edit("csrc/kernels.cpp", '"config.h"', '"absent.h"')
    for command in ("run", "aa"):
        flag = "-o" if command == "run" else "--run-file"
        done = flashbench(command, *FAST, flag, tmp_path / "run.json")
        assert done.returncode == Exit.NOT_MEASURED
        assert "missing header" in done.stderr.splitlines()[-1]
        assert not (tmp_path / "run.json").exists()
    done = flashbench("run", *FAST, "--baseline-only", "--launches", 1, "-o", tmp_path / "run.json")
    assert done.returncode == Exit.PASS, done.stderr


def test_modules_of_candidates_are_looked_for_in_the_import_root(
    flashbench, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    """`path` of the settings comes before the working directory, for `run` and for `aa`."""
    path = tmp_path / "run.json"
    named = ["--candidate", "mine=pure:attention"]
    done = flashbench("run", *FAST, *named, "--launches", 1, "-o", path)
    assert done.returncode == Exit.PASS, done.stderr
    assert "measuring mine = pure:attention, as it is imported here" in done.stderr
    assert [c.name for c in runfile.read(path).candidates if not c.baseline] == ["mine"]
    effort = ["--launches", 2, "--comparisons", 1, "--run-file", tmp_path / "aa.json"]
    done = flashbench("aa", *FAST, *effort, "--candidate", "pure:attention")
    assert done.returncode == Exit.PASS, done.stderr


def test_aa_compares_the_callable_of_the_working_tree(flashbench, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Both copies are of the build of the working tree."""
    path = tmp_path / "aa.json"
    effort = ["--launches", 2, "--comparisons", 1]
    done = flashbench("aa", *FAST, *effort, "--run-file", path)
    assert done.returncode == Exit.PASS, done.stderr
    sides = [c for c in runfile.read(path).candidates if not c.baseline]
    assert {side.spec for side in sides} == {"fastattn.api:sdpa_like"}
    assert {side.build.revision for side in sides} == {"WORKTREE"}
    again = flashbench("aa", *effort, "--resume", path)
    assert again.returncode == Exit.PASS, again.stderr


def test_run_files_in_the_repository_are_no_sources(tmp_path: Path) -> None:
    """Where every file counts as a source and git ignores none, a run file that lies there can be
    resumed and recorded, and the working tree is still the build of HEAD."""
    repository = Repository(tmp_path / "pure")
    table = '[tool.flashbench.project]\ncallable = "pure:attention"\nbuild = []\n'
    repository.write("pyproject.toml", table)
    repository.write("pure.py", PURE)
    repository.commit("Attention")
    environment = {
        "FLASHBENCH_CACHE": str(tmp_path / "cache"),
        "FLASHBENCH_MACHINE": str(tmp_path / "machine.json"),
    }

    def flashbench(*arguments: object) -> str:
        done = forks.run(arguments, repository.root, environment)
        assert done.returncode == Exit.PASS, done.stderr
        return done.stdout + done.stderr

    flashbench("run", *FAST, "--launches", 1)
    (path,) = repository.root.glob("*.json")
    again = flashbench("run", *FAST, "--launches", 1, "-o", path.name)
    assert "resumed, with 1 of 1 launches" in again
    flashbench("run", "--resume", path.name, "--launches", 2)
    run = runfile.read(path)
    assert len(run.launches) == 2
    assert not any(candidate.build.dirty for candidate in run.candidates)
    assert "same-build:" in flashbench("compare", "HEAD", "WORKTREE", *FAST)
    flashbench("record", path.name, "--machine", "here", "--anyway")
    assert "same-build:" in flashbench("compare", "HEAD", "WORKTREE", *FAST)


@pytest.mark.thorough
def test_aa_measures_the_flashbench_that_runs(tmp_path: Path) -> None:
    """Also among sources of flashbench that are not built, as in a clone after `pip install .`;
    `run` does the same."""
    (tmp_path / "flashbench").mkdir()
    (tmp_path / "flashbench" / "__init__.py").write_text("raise ImportError('not built')\n")
    environment = os.environ | {
        "FLASHBENCH_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    command = [sys.executable, "-P", "-m", "flashbench"]
    effort = ["--launches", "2", "--comparisons", "1", "--run-file", "aa.json"]
    for arguments in (["aa", *effort], ["run", "--launches", "1", "-o", "run.json"]):
        done = subprocess.run(
            [*command, *arguments, "--shape", "1,1,16,64", *FAST[2:]],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode in (Exit.PASS, Exit.REGRESSION), done.stderr


@pytest.mark.thorough
def test_profile_of_two_revisions(project: Repository, flashbench) -> None:  # type: ignore[no-untyped-def]
    """The working tree is profiled beside a commit, each by its own build."""
    ceilings_of_this_cpu(project.root.parent / "machine.json")
    path = project.root.parent / "profile.json"
    case = "b1-h1-q16-d8-fp32-full-cpu"
    done = flashbench("profile", case, "--against", "HEAD", "-o", path)
    assert done.returncode == Exit.PASS, done.stderr
    assert "WORKTREE against HEAD: " in done.stdout
    tree, head = profile_file.read(path).subjects
    assert (tree.candidate.build.revision, head.candidate.build.revision) == ("WORKTREE", "HEAD")
    assert tree.status == head.status == "ok"
    assert tree.times["wall"].median > 0
