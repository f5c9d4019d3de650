"""`flashbench init`: settings and an adapter for a repository that has none, tried at once."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashbench.callables import is_function
from flashbench.errors import Exit, InvalidInputError
from flashbench.pyproject import read_pyproject, table_of
from flashbench.render.escape import printable

if TYPE_CHECKING:
    from flashbench.init.functions import Function
    from flashbench.init.project import FoundBuild
    from flashbench.init.trial import Trial
    from flashbench.revisions import Built

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
    from flashbench.init.functions import functions
    from flashbench.init.project import build_of, has_asv
    from flashbench.preflight.source.tree import read_tree
    from flashbench.revisions import git

    root = git.root_of(Path.cwd())
    _refuse_settings(root)
    tree = read_tree(root)
    found = [one for one in functions(tree) if wanted in (None, f"{one.module}:{one.name}")]
    if not found:
        return _nothing(wanted, has_asv(tree))
    function, build = found[0], build_of(tree, found[0])
    _say("found", f"{function.label}, {function.file}:{function.line}")
    for other in found[1:4]:
        _say("", f"also {other.label}, {other.file}:{other.line}")
    _say("build", " ".join(build.command) or "nothing to build before it is imported")
    return _finish(root, function, build)


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


def _finish(root: Path, function: "Function", build: "FoundBuild") -> int:
    """Write the files, try them, say what is next."""
    from flashbench.init.adapter_text import unknown
    from flashbench.init.trial import Trial
    from flashbench.revisions.check import Checker

    with Checker() as checker:
        return _tried(Trial(root, function, build, checker), unknown(function))


def _tried(trial: "Trial", unknown: list[str]) -> int:
    """unknown: parameters that the adapter cannot pass before an edit."""
    name = trial.adapter.relative_to(trial.root)
    if trial.adapter.exists():
        raise InvalidInputError(f"{trial.adapter}: exists; move it, init writes an adapter there")
    if unknown:
        trial.write({})
        _say("wrote", f"{name}, [tool.flashbench.project]")
        _say("edit", f"{name}: say what {', '.join(unknown)} is")
        _say("next", "flashbench build WORKTREE HEAD")
        return Exit.NOT_MEASURED
    built = trial.measurable()
    _say("wrote", f"{name}, [tool.flashbench.project]")
    _tell_outcome("WORKTREE", built)
    if built.status != "built":
        _say("edit", f"{name}, or the settings")
        _say("next", "flashbench build WORKTREE HEAD")
        return Exit.REGRESSION if built.status == "wrong result" else Exit.NOT_MEASURED
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
