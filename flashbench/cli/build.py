"""`flashbench build`: build revisions once; report each one's status, with reasons for failures."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.cli.building import preparer_of
from flashbench.cli.measuring import tell
from flashbench.cli.options import (
    build_options,
    case_option,
    first_parent_option,
    jobs_option,
    stage_option,
    table_options,
)
from flashbench.cli.output import deliver
from flashbench.cli.settings import SettingsCommand
from flashbench.errors import Exit, InvalidInputError

if TYPE_CHECKING:
    from flashbench.builds import BuildStatus


@click.command(
    "build",
    cls=SettingsCommand,
    epilog="Exit codes: 0 all are built, and correct if that was asked; 1 any gives a wrong "
    "result; else 4 any is not built, or refuses every case that was tried (unchecked), or the "
    "cache cannot be written; 2 usage. [tool.flashbench.project] says how a project is built. "
    "The cache: $FLASHBENCH_CACHE.",
)
@click.argument("revisions", nargs=-1, metavar="REV|A..B|. ...")
@jobs_option()
@stage_option(
    "stage",
    ["build", "load", "correct"],
    "How far to check: it builds, its callable imports, it is correct on small cases.",
    "correct",
)
@case_option(
    "For correct: check this case instead of small ones, such as "
    "b1-h8-q512-d128-fp16-full-cuda. Repeatable.",
)
@build_options("--timeout", "--retry")
@first_parent_option
@table_options
def command(revisions: tuple[str, ...], **options: Any) -> int:
    """Build revisions, ranges of them (A..B, without A) or the working tree (`.`, the default).

    Each is built in its own checkout and cached; commits with equal sources share one build. A
    failure is cached with the lines that explain it, and retried when the toolchain changes, or
    with --retry. `flashbench builds` lists all results.
    """
    from flashbench.builds.running import StoppedError
    from flashbench.operations import parse_case
    from flashbench.revisions import Built, read
    from flashbench.revisions.commits import commits_of, known_commits
    from flashbench.revisions.preparer import refuse_interrupted
    from flashbench.run_plan import signals_as_interrupt
    from flashbench.views import builds

    if options["cases"] and options["stage"] != "correct":
        raise InvalidInputError("--case is for --for correct; drop it")
    cases = [parse_case(text).id for text in options["cases"]]
    project = read(Path.cwd())
    first_parent = options["first_parent"]
    chosen = [
        revision
        for text in revisions or (".",)
        for revision in commits_of(project.repository, text, first_parent=first_parent)
    ]
    chosen = list({(r.commit, r.worktree): r for r in chosen}.values())
    started = time.monotonic()
    ready: list[Built] = []

    def done(built: Built) -> None:
        ready.append(built)
        if not built.reused:
            how = f"built in {built.build.seconds:.1f} s" if not built.build.reused else "checked"
            said = built.headline if built.status != "built" else f"{built.revision.label}: {how}"
            tell(f"{len(ready)}/{len(chosen)}: {said}")

    try:
        with (
            signals_as_interrupt(),
            preparer_of(project, options, cases=cases, flag="--timeout") as preparer,
        ):
            found = preparer.prepare(chosen, options["stage"], done)
    except (KeyboardInterrupt, StoppedError):
        raise refuse_interrupted() from None
    subjects = {
        commit.id: commit.subject
        for commit in known_commits(project.repository, [r.commit for r in chosen if r.commit])
    }
    rows = [builds.row_of(built, subjects) for built in found]
    new = {built.build.key for built in found if not built.build.reused} - {""}
    keys = {built.build.key for built in found} - {""}
    cost = (
        f"{len(found)} revisions, {len(keys)} different builds, {len(new)} made now, "
        f"{time.monotonic() - started:.1f} s"
    )
    tell(cost)
    table = builds.document(f"builds of {project.repository.name}", rows)
    deliver(table, options["output_format"], options["output"])
    return _exit_code({built.status for built in found})


def _exit_code(statuses: "set[BuildStatus]") -> Exit:
    """The worst of all, as in `verdict.exit_code`: wrong results, then unknown ones."""
    if "wrong result" in statuses:
        return Exit.REGRESSION
    return Exit.NOT_MEASURED if statuses - {"built"} else Exit.PASS
