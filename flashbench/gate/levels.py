"""The levels before speed: builds, fits, is correct."""

from collections.abc import Sequence

from flashbench.builds.diagnosis import demangle
from flashbench.builds.missing_symbol import first_line
from flashbench.gate.level import Level, LevelState
from flashbench.preflight.build.resources import KernelUse
from flashbench.preflight.finding import CannotCheck, Finding
from flashbench.revisions import Built

BUILDS, RESOURCES, CORRECT = "builds", "resources fit", "correct"
_PREFLIGHT = "flashbench preflight --level build"
BISECT_CORRECT = "flashbench bisect --for correct --good COMMIT"
# Statuses of a build that was made and loaded; `correct_level` judges the rest.
_LOADED = ("built", "unchecked", "wrong result")


def built_level(built: Built) -> Level:
    """Pass if the revision compiles, links and loads; NOT MEASURED if that is unknown."""
    if built.status in _LOADED or (built.status == "timeout" and built.import_root is not None):
        return Level(BUILDS, LevelState.PASSED, f"{built.revision.label} builds and loads")
    if _is_outside_the_sources(built):
        return _not_measured(BUILDS, built)
    purpose = "build" if built.build.status != "built" else "load"
    # For a commit, preflight would look at the working tree instead.
    preflight = built.revision.worktree and built.status in ("missing header", "wrong module name")
    return Level(
        BUILDS,
        LevelState.FAILED,
        f"{built.status}: {first_line(built.reason)}",
        "flashbench preflight" if preflight else f"flashbench bisect --for {purpose} --good COMMIT",
    )


def resources_level(
    kernels: Sequence[KernelUse] | CannotCheck, most_stack: int, refused: Sequence[Finding] = ()
) -> Level:
    """Pass if no launch is refused, and no kernel uses more than `most_stack` bytes of stack per
    thread, which spill to memory.

    kernels: of the build, empty if it has none, or the reason why they are unknown. refused: the
    launches that the build's chips refuse. ptxas itself rejects more static shared memory than a
    chip has.
    """
    if refused:
        first = refused[0]
        return Level(RESOURCES, LevelState.FAILED, f"{first.where} {first.found}", first.fix)
    if isinstance(kernels, CannotCheck):
        return Level(
            RESOURCES,
            LevelState.NOT_MEASURED,
            str(kernels),
            f"fix this and run the same command again: {kernels}",
        )
    if not kernels:
        return Level(RESOURCES, LevelState.PASSED, "no CUDA kernels in this build")
    worst = max(kernels, key=lambda kernel: kernel.stack)
    if worst.stack > most_stack:
        return Level(
            RESOURCES,
            LevelState.FAILED,
            f"{demangle(worst.name)[:100]} (sm_{worst.arch}) has {worst.stack} bytes of stack per "
            f"thread, {worst.registers} registers; at most {most_stack}",
            _PREFLIGHT,
        )
    registers = max(kernel.registers for kernel in kernels)
    shared = max(kernel.shared for kernel in kernels)
    return Level(
        RESOURCES,
        LevelState.PASSED,
        f"{len(kernels)} kernels: at most {registers} registers and {worst.stack} bytes of stack "
        f"per thread, {shared} bytes of static shared memory per block",
    )


def correct_level(built: Built) -> Level:
    """Pass if the results are correct on the checked cases; refusing all of them is NOT
    MEASURED."""
    if _is_outside_the_sources(built):
        return _not_measured(CORRECT, built)
    if built.status == "wrong result":
        return Level(
            CORRECT,
            LevelState.FAILED,
            first_line(built.reason),
            f"{BISECT_CORRECT}{_on_case(built.reason)}",
        )
    if built.status == "unchecked":
        return Level(
            CORRECT,
            LevelState.NOT_MEASURED,
            f"unchecked: {first_line(built.reason)}",
            "mend what raises, or name a case that the kernel supports: "
            f"flashbench build {built.revision.text} --for correct --case CASE",
        )
    return Level(
        CORRECT, LevelState.PASSED, f"right on {built.outcome.checked or 'the cases of the check'}"
    )


def _on_case(reason: str) -> str:
    """The option for the case that a reason begins with; a kernel that raises does so for it."""
    case, _, rest = reason.partition(": ")
    return f" --case {case}" if rest.startswith("raises ") else ""


def _is_outside_the_sources(built: Built) -> bool:
    """Whether something other than the sources failed: memory, disk, time, git objects."""
    return not built.kept or built.status == "timeout"


def _not_measured(level: str, built: Built) -> Level:
    """The next step has the whole reason, because a table cuts the evidence."""
    whole = "; ".join(built.reason.splitlines())
    if built.status != "timeout":
        following = f"fix this and run the same command again: {whole}"
    elif built.build.status == "timeout":
        following = f"{whole}; allow more with --build-timeout, or try again with --retry-build"
    else:
        stage = "load" if level == BUILDS else "correct"
        following = f"{whole}; try again with --retry-build, or find the first such commit: "
        following += f"flashbench bisect --for {stage} --good COMMIT"
    evidence = f"{built.status}: {first_line(built.reason)}"
    return Level(level, LevelState.NOT_MEASURED, evidence, following)
