"""`flashbench init`: settings and an adapter for a repository that has none, tried at once."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashbench.callables import is_function
from flashbench.errors import Exit, InvalidInputError
from flashbench.pyproject import read_pyproject, table_of
from flashbench.render.escape import printable

if TYPE_CHECKING:
    from flashbench.init.trial import Trial
    from flashbench.revisions import Built

_TRIED = 4  # functions, if the likelier ones cannot be built or called
_OTHER = (
    "for another kernel write an operation (docs/operations.md), then [tool.flashbench.project] "
    'with callable = "module:function" and operation = "module:name"'
)


@click.command(
    "init",
    epilog="Exit codes: 0 the working tree builds and is correct, or a suite of asv is there to "
    "compare; 1 it computes something else; 2 settings are there already, or nothing was found; 4 "
    "it does not build, or refuses every case.",
)
@click.option(
    "--callable",
    "wanted",
    metavar="MODULE:FUNCTION",
    help="The function to measure, with parameters q, k, v.  [default: the likeliest]",
)
def command(wanted: str | None) -> int:
    """Set up this repository: find the attention and its build, write [tool.flashbench.project] and
    an adapter, and try the working tree and HEAD.

    The adapter, fb.py, translates SDPA's signature. Where inputs are expected as (batch, length,
    heads, head dim), a try finds out. Nothing else is touched, and no file is replaced.
    """
    from flashbench.init.attention_functions import functions
    from flashbench.init.build_system import build_of, has_asv
    from flashbench.init.trial import Trial
    from flashbench.preflight.source.tree import read_tree
    from flashbench.revisions import git
    from flashbench.revisions.check import Checker

    root = git.root_of(Path.cwd())
    _refuse_settings(root)
    tree = read_tree(root)
    found = [one for one in functions(tree) if wanted in (None, f"{one.module}:{one.name}")]
    if not found:
        return _nothing(wanted, has_asv(tree))
    with Checker() as checker:
        first, *others = (Trial(root, one, build_of(tree, one), checker) for one in found[:_TRIED])
        for trial in (first, *others):
            if trial.adapter.exists():
                raise InvalidInputError(
                    f"{trial.adapter}: exists; move it, init writes an adapter there"
                )
        return _finish(*_measurable(first, [one for one in others if one.is_likely]))


def _refuse_settings(root: Path) -> None:
    file = root / "pyproject.toml"
    if file.exists() and table_of(file, read_pyproject(file), "project"):
        raise InvalidInputError(
            f"{file}: has [tool.flashbench.project] already; try it: flashbench build WORKTREE HEAD"
        )


def _nothing(wanted: str | None, asv: str) -> int:
    if wanted is not None:
        form = "" if is_function(wanted) else "; write module:function"
        raise InvalidInputError(f"--callable {wanted}: no such function with q, k, v{form}")
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
    if only an edit would tell, the likeliest."""
    for trial in (first, *others):
        function = trial.function
        _say("found", f"{function.label}, {function.file}:{function.line}")
        _say("build", " ".join(trial.build.command) or "nothing to build before it is imported")
        if trial.unknown:
            trial.write({})
            return trial, None
        built = trial.measurable()
        _tell_outcome("WORKTREE", built)
        if built.status in ("built", "wrong result"):
            return trial, built
        trial.undo()
    first.write({})
    return first, built


def _finish(trial: "Trial", built: "Built | None") -> int:
    """Say what is next, if anything works after trying commits. built: the working tree's."""
    name = trial.adapter.relative_to(trial.root)
    _say("wrote", f"{name}, [tool.flashbench.project]")
    if built is None or built.status != "built":
        what = f": say what {', '.join(trial.unknown)} is" if built is None else ", or the settings"
        _say("edit", f"{name}{what}")
        _say("next", "flashbench build WORKTREE HEAD")
        wrong = built is not None and built.status == "wrong result"
        return Exit.REGRESSION if wrong else Exit.NOT_MEASURED
    commits = {text: trial.at(text) for text in ("HEAD", "HEAD~1")}
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
