"""`flashbench init`: settings and an adapter for a repository that has none, tried at once."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashbench.callables import is_function
from flashbench.errors import Exit, InvalidInputError, NotMeasuredError
from flashbench.pyproject import read_pyproject, table_of
from flashbench.render.escape import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashbench.init.trial import Trial
    from flashbench.revisions import Built
    from flashbench.revisions.check import Checker

_TRIED = 4  # functions, if the likelier ones cannot be built or called
_OTHER = (
    "for another kernel write an operation (docs/operations.md), then [tool.flashbench.project] "
    'with callable = "module:function" and operation = "module:name"'
)


@click.command(
    "init",
    epilog="Exit codes: 0 the working tree builds and is correct, or a suite of asv is there to "
    "compare; 1 it computes something else; 2 nothing was found; 4 it does not build, lacks a "
    "package, or refuses every case.",
)
@click.option(
    "--callable",
    "wanted",
    metavar="MODULE:FUNCTION",
    help="The function to measure, with parameters q, k, v; of C: FILE:FUNCTION.  [default: the "
    "likeliest]",
)
def command(wanted: str | None) -> int:
    """Set up this repository: find the attention and its build, write [tool.flashbench.project] and
    an adapter, and try the working tree and HEAD.

    The adapter, fb.py, translates SDPA's signature. Where inputs are expected as (batch, length,
    heads, head dim), a try finds out. Nothing else is touched, and no file is replaced. Where
    settings are there, only tries them, as after an edit of the adapter.
    """
    from flashbench.init.adapter_text import unknown
    from flashbench.init.attention_functions import functions
    from flashbench.init.build_system import build_of, has_asv
    from flashbench.init.trial import Trial, complete, tried
    from flashbench.preflight.source.tree import read_tree
    from flashbench.revisions import git
    from flashbench.revisions.check import Checker

    root = git.root_of(Path.cwd())
    if _has_settings(root, wanted):
        with Checker() as checker:
            there = tried(root, "WORKTREE", checker)
            _tell_outcome("WORKTREE", there)
            if there.status == "built":
                complete(root, there)
            return _finish(root, checker, there)
    tree = read_tree(root)
    found = [one for one in functions(tree) if wanted in (None, one.spec)]
    if not found:
        return _nothing(wanted, has_asv(tree))
    found.sort(key=lambda one: (one.is_aside, bool(unknown(one))))  # the rest is in order
    with Checker() as checker:
        first, *others = (Trial(root, one, build_of(tree, one), checker) for one in found[:_TRIED])
        for trial in (first, *others):
            if trial.adapter.exists():
                raise InvalidInputError(
                    f"{trial.adapter}: exists; move it, init writes an adapter there"
                )
        trial, built = _measurable(first, [one for one in others if one.is_likely])
        _say("wrote", f"{trial.adapter.relative_to(root)}, [tool.flashbench.project]")
        return _finish(root, checker, built, trial.unknown)


def _has_settings(root: Path, wanted: str | None) -> bool:
    file = root / "pyproject.toml"
    found = file.exists() and bool(table_of(file, read_pyproject(file), "project"))
    if found and wanted is not None:
        raise InvalidInputError(
            f"--callable {wanted}: {file} has [tool.flashbench.project] already; remove it, or try "
            "it without --callable"
        )
    return found


def _nothing(wanted: str | None, asv: str) -> int:
    if wanted is not None:
        form = "" if is_function(wanted) else "write module:function, or file:function of C; "
        raise InvalidInputError(
            f"--callable {wanted}: no such function with q, k, v; {form}{_OTHER}"
        )
    if not asv:
        raise InvalidInputError(
            f"no function with parameters q, k, v was found; name one with --callable, or {_OTHER}"
        )
    _say("found", f"no attention, but a suite of asv: {asv}")
    _say("next", "flashbench compare HEAD~1 HEAD --asv '.*'")
    _say("", _OTHER)
    return Exit.PASS


def _measurable(first: "Trial", others: "list[Trial]") -> "tuple[Trial, Built | None]":
    """The first function that can be built and called, with what a try says; if there is none, or
    if only an edit would tell, the likeliest. Raises NotMeasuredError for a package that it lacks.
    """
    from flashbench.init.trial import lacks

    outcomes: list[Built] = []
    lacking: list[str] = []
    for trial in (first, *others):
        function = trial.function
        _say("found", f"{function.label}, {function.file}:{function.line}")
        _say("build", " ".join(trial.build.command) or "nothing to build before it is imported")
        if trial.unknown:
            trial.write_for_an_edit()
            return trial, None
        built = trial.measurable()
        _tell_outcome("WORKTREE", built)
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


def _finish(
    root: Path, checker: "Checker", built: "Built | None", unknown: "Sequence[str]" = ()
) -> int:
    """Say what is next, if anything works after trying commits. built: the working tree's; None:
    not tried, because the adapter cannot pass the unknown parameters."""
    from flashbench.init.trial import at
    from flashbench.revisions import read

    project = read(root)
    name = project.adapter
    if built is None or built.status != "built":
        what = f": say what {', '.join(unknown)} is" if built is None else ", or the settings"
        _say("edit", f"{name or 'the kernel'}{what}")
        _say("next", "flashbench init")
        wrong = built is not None and built.status == "wrong result"
        return Exit.REGRESSION if wrong else Exit.NOT_MEASURED
    commits = {text: at(root, text, checker) for text in ("HEAD", "HEAD~1")}
    for text, found in commits.items():
        if found is not None:
            _tell_outcome(text, found)
    older = "compare HEAD WORKTREE" if commits["HEAD~1"] is None else "compare HEAD~1 HEAD"
    _say("next", f"flashbench {'run' if commits['HEAD'] is None else older}")
    _say("", f"git add pyproject.toml {name}")
    return Exit.PASS


def _tell_outcome(name: str, built: "Built") -> None:
    if built.status != "built":
        _say(name, built.headline.partition(": ")[2])
        return
    right, _, refused = built.outcome.checked.partition("; refused: ")
    _say(name, f"correct on {right}")
    if refused:
        _say("", f"refused: {refused}; to take them, change fb.py or the kernel")


def _say(what: str, text: str) -> None:
    click.echo(f"{what:<9}{printable(text)}")
