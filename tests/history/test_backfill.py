"""`flashbench backfill` on a project that is not ours, by real builds and launches."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import forks
import pytest
from revisions.repository import Repository, fastattn

from flashbench import runfile
from flashbench.errors import Exit
from flashbench.history.axis import axis
from flashbench.history.read import read
from flashbench.machine import cpu_name

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
GRID = ["--shape", "1,1,16,8", "--dtype", "fp32", "--causal", "full", "--samples", "2"]
GRID += ["--launches", "2", "--device", "cpu", "--machine", "box", "-o", "run.json"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Commits: good, far slower, wrong, one that does not compile, and the good one again; they are
    listed in commits.txt beside it."""
    repository = fastattn(tmp_path_factory.mktemp("backfill") / "fastattn")
    repository.edit("csrc/config.h", "DELAY = 0", "DELAY = 2000000")
    repository.commit("Wait in each call")
    repository.edit("csrc/config.h", "SCALE = 1.0f", "SCALE = 1.5f")
    repository.commit("Scale as one should not")
    repository.edit("csrc/config.h", "#pragma once", '#pragma once\n#include "local_only.h"')
    repository.commit("Include what only I have")
    repository.git("checkout", "-q", "HEAD~3", "--", "csrc")
    repository.commit("Take all of it back")
    commits = repository.git("log", "--reverse", "--format=%h").split()
    listed = "# why each is there\n\n" + "".join(f"{one}  because\n" for one in commits)
    (repository.root.parent / "commits.txt").write_text(listed)
    return repository


@pytest.fixture(scope="module")
def backfill(project: Repository):  # type: ignore[no-untyped-def]
    """Run it in the project, as another user's machine would; returns the result."""

    def run(*arguments: str, program: str = "") -> subprocess.CompletedProcess[str]:
        command = ["backfill", *arguments]
        if program:
            done = subprocess.run(
                [sys.executable, "-P", "-c", program, *command],
                cwd=project.root,
                env=os.environ | environment(project) | {"PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
            )
        else:
            done = forks.run(command, project.root, environment(project))
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


def environment(project: Repository) -> dict[str, str]:
    cache, profile = project.root.parent / "cache", project.root.parent / "machine.json"
    return {"FLASHBENCH_CACHE": str(cache), "FLASHBENCH_MACHINE": str(profile)}


@pytest.fixture(scope="module")
def first(project: Repository, backfill):  # type: ignore[no-untyped-def]
    """All five commits, from the list."""
    done = backfill("--list", "../commits.txt", *GRID)
    assert done.returncode == Exit.REGRESSION, done.stderr
    return done


def kept(project: Repository) -> Any:
    return read(project.root / ".asv" / "results", axis(project.root))


@pytest.mark.usefixtures("first")
def test_what_works_has_numbers_in_one_series(project: Repository) -> None:
    """The commits that work are points of one series, in the order of the history, beside SDPA."""
    history = kept(project)
    assert not history.notes
    (series,) = [one for one in history.series if not one.baseline]
    assert series.points.commit.tolist() == [0, 1, 4]
    assert series.points.launches.tolist() == [2, 2, 2]
    assert series.control is not None
    assert series.ratio is not None
    good, slower, again = series.ratio.value
    assert slower > 5 * max(good, again)


def test_each_commit_that_lacks_something_is_named(project: Repository, first) -> None:  # type: ignore[no-untyped-def]
    """The wrong commit and the one that does not build are named with their reasons, and counted
    apart from those that were measured; so are the results of each launch."""
    hashes = project.git("log", "--reverse", "--format=%h").split()
    lines = first.stderr.splitlines()
    assert any("launch 2 of 2: 7 measured, 1 wrong, " in line for line in lines)
    warnings = [line for line in lines if "warning: " in line]
    assert any("run.json: 2 launches, fewer than 3" in line for line in warnings)
    wrong, unbuilt = [line for line in warnings if any(one in line for one in hashes)]
    assert hashes[2] in wrong
    assert "wrong on 1 of 1 cases; b1-h1-q16-d8-fp32-full-cpu: max error" in wrong
    assert hashes[3] in unbuilt
    assert "missing header" in unbuilt
    assert "5 commits: 3 measured, 1 wrong, 1 did not build" in first.stderr


@pytest.mark.parametrize(
    ("commits", "code", "said"),
    [
        (["HEAD~4", "HEAD~1"], Exit.PASS, "2 commits: 1 measured, 1 did not build"),
        (["HEAD~2"], Exit.REGRESSION, "1 commit: 0 measured, 1 wrong"),
    ],
)
def test_exit_code(backfill, tmp_path: Path, commits, code, said) -> None:  # type: ignore[no-untyped-def]
    """That a commit does not build is an answer beside one that was measured; that one is wrong is
    exit code 1, also where nothing else was measured."""
    out, results = str(tmp_path / "run.json"), str(tmp_path / "results")
    done = backfill(*commits, *GRID[:-1], out, "--results", results)
    assert done.returncode == code, done.stderr
    assert said in done.stderr


@pytest.mark.usefixtures("first")
def test_what_does_not_work_has_a_reason(project: Repository) -> None:
    """A commit that does not build and one that is wrong cost nobody else anything, and are kept
    with the reason, without a path of this machine."""
    gaps = {gap.commit: gap for gap in kept(project).gaps}
    assert {place: gap.status for place, gap in gaps.items()} == {
        2: "wrong result",
        3: "missing header",
    }
    assert "local_only.h" in gaps[3].reason
    assert gaps[2].reason.startswith("b1-h1-q16-d8-fp32-full-cpu: ")
    records = (project.root / ".asv" / "flashbench" / "box").glob("*.json")
    texts = [path.read_text() for path in records]
    assert len(texts) == 5
    assert not [text for text in texts if str(project.root.parent) in text]


def test_all_are_measured_in_the_same_launches(project: Repository, first) -> None:  # type: ignore[no-untyped-def]
    """Each launch has every commit that builds, each with SDPA beside it."""
    run = runfile.read(project.root / "run.json")
    assert len(run.launches) == 2
    for launch in run.launches:
        measured = {result.candidate for result in launch.results}
        assert len(measured) == 8
        assert sum(name.startswith("sdpa/") for name in measured) == 4


def test_again_it_goes_on(project: Repository, backfill, first) -> None:  # type: ignore[no-untyped-def]
    """The same command with more launches adds them; the same again changes nothing."""
    before = (project.root / "run.json").read_bytes()
    assert backfill("--list", "../commits.txt", *GRID).returncode == Exit.REGRESSION
    assert (project.root / "run.json").read_bytes() == before
    more = backfill("--list", "../commits.txt", *GRID, "--launches", "3", "--exit-zero")
    assert more.returncode == Exit.PASS, more.stderr
    (series,) = [one for one in kept(project).series if not one.baseline]
    assert series.points.launches.tolist() == [3, 3, 3]


ENDED = """
import os, signal
from flashbench.cli import main
from flashbench.history import to_asv as keep
whole = keep.keep
def ended(*arguments, **options):
    os.kill(os.getpid(), signal.SIGTERM)
    return whole(*arguments, **options)
keep.keep = ended
main()
"""


def test_measured_is_kept_whenever_it_ends(project: Repository, backfill, first) -> None:  # type: ignore[no-untyped-def]
    """What is in the run file alone, as after a kill, is kept by the same command."""
    shutil.rmtree(project.root / ".asv")
    done = backfill("--list", "../commits.txt", *GRID, "--launches", "3")
    assert done.returncode == Exit.REGRESSION, done.stderr
    (series,) = [one for one in kept(project).series if not one.baseline]
    assert series.points.launches.tolist() == [3, 3, 3]


def test_a_signal_waits_until_all_is_kept(project: Repository, backfill, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """One that comes while results are kept does not end that."""
    results = tmp_path / "results"
    command = ["HEAD", *GRID[:-1], str(tmp_path / "run.json"), "--results", str(results)]
    for program in ("", ENDED):
        shutil.rmtree(results, ignore_errors=True)
        done = backfill(*command, program=program)
        assert done.returncode == Exit.PASS, done.stderr
        (series,) = [one for one in read(results, axis(project.root)).series if not one.baseline]
        assert series.points.launches.tolist() == [2]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["HEAD", *GRID], "was measured with other commits"),
        (["--list", "../commits.txt", *GRID, "--causal", "both"], "was measured with other cases"),
        (["--list", "../commits.txt", *GRID, "--launches", "1"], "--launches (fewer)"),
        (GRID, "which commits?"),
        ([".", *GRID], "the working tree cannot be in a history"),
        (["nowhere", *GRID], "nowhere"),
        (["--list", "missing.txt", *GRID], "missing.txt: cannot be read"),
    ],
)
def test_refused(project: Repository, backfill, first, arguments, why) -> None:  # type: ignore[no-untyped-def]
    """What cannot be measured, or not into this file, is said in one line, and nothing is lost."""
    before = (project.root / "run.json").read_bytes()
    done = backfill(*arguments)
    assert done.returncode == Exit.USAGE
    assert why in done.stderr.splitlines()[-1]
    assert (project.root / "run.json").read_bytes() == before


def test_a_name_no_machine_can_have_costs_nothing(project: Repository, backfill) -> None:  # type: ignore[no-untyped-def]
    """It is refused in one line before anything is built or measured."""
    done = backfill("HEAD", *GRID[:-1], "name.json", "--machine", "my box")
    assert done.returncode == Exit.USAGE
    (line,) = done.stderr.splitlines()
    assert "'my box' is no valid machine name" in line
    assert not (project.root / "name.json").exists()


@pytest.mark.skipif(not cpu_name(), reason="the CPU does not say what it is")
def test_another_machine_s_name_costs_one_launch(project: Repository, backfill) -> None:  # type: ignore[no-untyped-def]
    """The name of a machine with another CPU is refused after a launch, which is not lost: under
    another name the same command goes on."""
    folder = project.root / ".asv" / "results" / "taken"
    folder.mkdir(parents=True)
    (folder / "machine.json").write_text('{"machine": "taken", "cpu": "another CPU", "version": 1}')
    command = ["HEAD", *GRID[:-1], "taken.json", "--machine"]
    done = backfill(*command, "taken")
    assert done.returncode == Exit.USAGE
    assert "is another CPU; give it another name" in done.stderr.splitlines()[-1]
    measured = runfile.read(project.root / "taken.json")
    assert sum(launch.complete for launch in measured.launches) == 1
    done = backfill(*command, "free")
    assert done.returncode == Exit.PASS, done.stderr
    assert len(runfile.read(project.root / "taken.json").launches) == 2
    shutil.rmtree(project.root / ".asv")


def test_none_that_works_is_no_history(backfill, project: Repository) -> None:  # type: ignore[no-untyped-def]
    """Exit code 4 and the reason of the first, where no commit builds."""
    done = backfill("HEAD~1", *GRID[:-1], "none.json")
    assert done.returncode == Exit.NOT_MEASURED
    assert "missing header" in done.stderr.splitlines()[-1]
    assert not (project.root / "none.json").exists()
