"""Each level of the gate, judged from its evidence."""

from pathlib import Path

import numpy as np
import pytest
from synthetic import make_cases, make_run

from flashbench.builds import Build, BuildStatus
from flashbench.gate import (
    Level,
    LevelState,
    built_level,
    correct_level,
    resources_level,
    speed_level,
)
from flashbench.gate.ladder import taken
from flashbench.preflight.build.resources import KernelUse
from flashbench.preflight.finding import CannotCheck
from flashbench.report import report_one
from flashbench.revisions import Built, Project, Revision
from flashbench.revisions.ledger import RevisionOutcome
from flashbench.runfile import BuildIdentity


def _built(
    status: BuildStatus,
    reason: str = "",
    *,
    of_build: BuildStatus = "built",
    kept: bool = True,
    import_root: Path | None = None,
    worktree: bool = False,
) -> Built:
    return Built(
        project=Project(repository=Path("/project"), callable="m:f"),
        revision=Revision(text="HEAD", commit="0" * 40, worktree=worktree),
        outcome=RevisionOutcome(
            commit="0" * 40,
            status=status,
            reason=reason,
            stage="load",
            build="k",
            toolchain="",
            checked="fp32 2x4x33x33x64" if status == "built" else "",
        ),
        build=Build(key="k", status=of_build, source_hash="", toolchain={}),
        identity=BuildIdentity(),
        kept=kept,
        import_root=import_root,
    )


@pytest.mark.parametrize(
    ("status", "of_build", "state", "following"),
    [
        ("built", "built", LevelState.PASSED, ""),
        ("wrong result", "built", LevelState.PASSED, ""),
        ("unchecked", "built", LevelState.PASSED, ""),
        ("missing header", "missing header", LevelState.FAILED, "bisect --for build"),
        ("compile error", "compile error", LevelState.FAILED, "bisect --for build"),
        ("undefined symbol", "built", LevelState.FAILED, "bisect --for load"),
    ],
)
def test_builds(
    status: BuildStatus, of_build: BuildStatus, state: LevelState, following: str
) -> None:
    """A build that loads passes, whatever it computes; each failure has its next step."""
    level = built_level(_built(status, "the reason\nand more", of_build=of_build))
    assert level.state is state
    assert following in level.next
    assert (level.state is LevelState.PASSED) or "the reason" in level.evidence


def test_preflight_is_of_the_working_tree() -> None:
    """It is the next step there, and says nothing of a commit."""
    built = _built("missing header", "x.h", of_build="missing header", worktree=True)
    assert built_level(built).next == "flashbench preflight"


@pytest.mark.parametrize(
    ("status", "of_build", "kept", "following"),
    [
        ("build error", "build error", False, "run the same command again: the reason; and more"),
        ("import error", "built", False, "run the same command again: the reason; and more"),
        ("timeout", "timeout", True, "the reason; and more; allow more with --build-timeout"),
        ("timeout", "built", True, "flashbench bisect --for load"),
    ],
)
def test_a_failure_that_is_not_of_the_sources(
    status: BuildStatus, of_build: BuildStatus, kept: bool, following: str
) -> None:
    """Want of memory, disk, time or objects of git is not measured; next has the whole reason."""
    level = built_level(_built(status, "the reason\nand more", of_build=of_build, kept=kept))
    assert (level.name, level.state) == ("builds", LevelState.NOT_MEASURED)
    assert following in level.next


@pytest.mark.parametrize(("status", "kept"), [("wrong result", False), ("timeout", True)])
def test_a_check_that_did_not_end(status: BuildStatus, kept: bool) -> None:
    """A call that was killed, or hangs: it builds, and is neither right nor wrong."""
    built = _built(status, "a call ended", kept=kept, import_root=Path("/site"))
    assert built_level(built).state is LevelState.PASSED
    level = correct_level(built)
    assert (level.name, level.state) == ("correct", LevelState.NOT_MEASURED)
    assert "a call ended" in level.next


def test_resources() -> None:
    """Stack beyond the limit fails, named with its kernel; none at all is fine."""
    fits = KernelUse("_Z4fitsv", 90, 168, 1024, 0)
    spills = KernelUse("_Z6spillsv", 80, 255, 2048, 512)
    assert resources_level([], 256).state is LevelState.PASSED
    assert "168 registers" in resources_level([fits], 256).evidence
    level = resources_level([fits, spills], 256)
    assert level.state is LevelState.FAILED
    assert "512 bytes of stack per thread, 255 registers; at most 256" in level.evidence
    assert resources_level([fits, spills], 512).state is LevelState.PASSED


def test_resources_that_nothing_tells_are_not_measured() -> None:
    """No tool to look with is no pass, and the reason is the next step."""
    level = resources_level(CannotCheck("cuobjdump is not installed"), 256)
    assert level.state is LevelState.NOT_MEASURED
    assert level.evidence == "cuobjdump is not installed"
    assert level.next.endswith("cuobjdump is not installed")


def test_correct() -> None:
    """Wrong fails, unchecked is not measured, right says on what."""
    assert correct_level(_built("wrong result", "off by 2")).state is LevelState.FAILED
    unchecked = correct_level(_built("unchecked", "takes head dim 128"))
    assert unchecked.state is LevelState.NOT_MEASURED
    assert unchecked.next.endswith("flashbench build HEAD --for correct --case CASE")
    assert "fp32 2x4x33x33x64" in correct_level(_built("built")).evidence


@pytest.mark.parametrize(
    ("speedup", "threshold", "state"),
    [
        (0.3, 0.5, LevelState.FAILED),
        (0.7, 0.5, LevelState.PASSED),
        (0.7, 1.0, LevelState.FAILED),
        (1.3, 1.0, LevelState.PASSED),
        ([1.5, 1.5, 1.5, 0.8], 1.0, LevelState.FAILED),  # one case is below beyond doubt
        (1.0, 1.0, LevelState.UNDECIDED),
    ],
)
def test_speed(speedup: float | list[float], threshold: float, state: LevelState) -> None:
    """A verdict on the family of cases: one case beyond doubt fails it, noise leaves it open."""
    run = make_run(np.random.default_rng(1), cases=make_cases(4), speedup=speedup)
    level = speed_level(report_one(run), threshold, "v1")
    assert level.state is state
    assert level.name == f"at least {threshold:g}x"
    assert "geometric mean" in level.evidence
    if state is LevelState.FAILED:
        assert "flashbench profile b1-h8-q" in level.next
        assert "--candidate v1" in level.next


def test_speed_of_a_wrong_result_is_none() -> None:
    """A wrong result in a launch is reported as such, not as a speed."""
    run = make_run(np.random.default_rng(1), cases=make_cases(2), speedup=2.0)
    for launch in run.launches:
        wrong = next(one for one in launch.results if one.candidate == "ours")
        wrong.status, wrong.reason, wrong.timings = "wrong", "off by 2", []
    level = speed_level(report_one(run), 1.0, "WORKTREE")
    assert (level.name, level.state) == ("correct", LevelState.FAILED)
    assert "off by 2" in level.evidence
    assert f"--case {make_cases(2)[0].id}" in level.next


def test_too_few_launches_are_undecided() -> None:
    """Two launches carry no interval: neither level of speed is passed or failed."""
    run = make_run(np.random.default_rng(1), cases=make_cases(2), speedup=2.0, launches=2)
    level = speed_level(report_one(run), 1.0, "WORKTREE")
    assert level.state is LevelState.UNDECIDED
    assert level.next == "about 13 launches would decide: --launches 13"


@pytest.mark.parametrize(
    ("slowest", "state"), [(0.9, LevelState.PASSED), (0.4, LevelState.UNDECIDED)]
)
def test_a_mean_that_is_above(slowest: float, state: LevelState) -> None:
    """Six launches bound the mean of four cases and no case: the level passes by the mean, unless
    a case lies below by what is known of it."""
    speedup = [1.0, 1.0, 1.0, slowest]
    run = make_run(np.random.default_rng(1), cases=make_cases(4), speedup=speedup, launches=6)
    report = report_one(run)
    assert not any(one.shift.bounded for one in report.comparisons if one.shift)
    assert speed_level(report, 0.5, "WORKTREE").state is state


def test_a_level_has_one_row() -> None:
    """What a launch finds wrong replaces that the check found it right."""
    passed, failed = (Level("correct", state) for state in (LevelState.PASSED, LevelState.FAILED))
    built = Level("builds", LevelState.PASSED)
    assert taken([built, passed], failed) == [built, failed]


def test_next_step_of_a_kernel_that_raises() -> None:
    """The case that has no time is named in the command that calls the kernel on it alone."""
    run = make_run(np.random.default_rng(1), cases=make_cases(2), speedup=2.0)
    case = make_cases(2)[0].id
    for launch in run.launches:
        failed = next(r for r in launch.results if (r.candidate, r.case) == ("ours", case))
        failed.status, failed.reason, failed.timings = "error", "raises IndexError", []
    level = speed_level(report_one(run), 1.0, "v1")
    assert level.state is LevelState.NOT_MEASURED
    assert level.next == f"see why: flashbench build v1 --for correct --case {case}"
