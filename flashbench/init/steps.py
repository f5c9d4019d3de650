"""The steps of `init` that try: functions until one can be measured, then the newest commits."""

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from flashbench.errors import Exit, NotMeasuredError
from flashbench.init.trial import Trial, at, lacks
from flashbench.revisions import Built, read
from flashbench.revisions.check import Checker

Say = Callable[[str, str], None]  # prints a line: what, and the text


def measurable(first: Trial, others: Sequence[Trial], say: Say) -> tuple[Trial, Built | None]:
    """Returns the first function that can be built and called, with its build. If there is none, or
    only the user's edit could tell, returns the likeliest one. Raises NotMeasuredError for a
    package that it lacks.
    """
    outcomes: list[Built] = []
    lacking: list[str] = []
    for trial in (first, *others):
        function = trial.function
        say("found", f"{function.label}, {function.file}:{function.line}")
        say("build", " ".join(trial.build.command) or "nothing to build before it is imported")
        if trial.unknown:
            trial.write_for_an_edit()
            return trial, None
        built = trial.measurable()
        tell_outcome("WORKTREE", built, say)
        if built.status == "built" or (
            built.status == "wrong result" and ": raises " not in built.reason
        ):
            return trial, built
        trial.undo()
        outcomes.append(built)
        lacking.append(lacks(built))
        if lacking[-1] and lacking[-1] in lacking[:-1]:
            break  # the others would fail alike
    if lacking[0]:
        python = shlex.quote(sys.executable)
        raise NotMeasuredError(
            f"{first.function.spec} needs {lacking[0]}, which this Python lacks; install it, then "
            f"init again: {python} -m pip install {lacking[0]}"
        )
    first.write_for_an_edit()
    return first, outcomes[0]


def finish(
    root: Path, checker: Checker, built: Built | None, say: Say, unknown: Sequence[str] = ()
) -> Exit:
    """Try commits, if the working tree works, and print the next steps. built: the working tree's;
    None: not tried, because the adapter cannot pass the unknown parameters."""
    project = read(root)
    name = project.adapter
    if built is None or built.status != "built":
        what = f": say what {', '.join(unknown)} is" if built is None else ", or the settings"
        say("edit", f"{name or 'the kernel'}{what}")
        say("next", "flashbench init")
        wrong = built is not None and built.status == "wrong result"
        return Exit.REGRESSION if wrong else Exit.NOT_MEASURED
    commits = {text: at(root, text, checker) for text in ("HEAD", "HEAD~1")}
    for text, found in commits.items():
        if found is not None:
            tell_outcome(text, found, say)
    older = "compare HEAD WORKTREE" if commits["HEAD~1"] is None else "compare HEAD~1 HEAD"
    say("next", f"flashbench {'run' if commits['HEAD'] is None else older}")
    say("", f"git add pyproject.toml {name}")
    return Exit.PASS


def tell_outcome(name: str, built: Built, say: Say) -> None:
    """Print the outcome of trying a revision."""
    if built.status != "built":
        say(name, built.headline.partition(": ")[2])
        return
    right, _, refused = built.outcome.checked.partition("; refused: ")
    say(name, f"correct on {right}")
    if refused:
        say("", f"refused: {refused}; to take them, change fb.py or the kernel")
