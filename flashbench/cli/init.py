"""`flashbench init`: settings and an adapter for a repository that has none, tried at once."""

from pathlib import Path

import click

from flashbench.callables import is_function
from flashbench.errors import Exit, InvalidInputError
from flashbench.pyproject import read_pyproject, table_of
from flashbench.render.escape import printable

_TRIED = 4  # functions, if the likelier ones cannot be built or called
_OTHER = (
    "for another kernel write an operation (docs/operations.md), then [tool.flashbench.project] "
    'with callable = "module:function" and operation = "module:name"'
)


@click.command(
    "init",
    epilog="Exit codes: 0 the working tree builds and is correct, or there is an asv suite to "
    "compare; 1 it gives a wrong result; 2 nothing was found; 4 it does not build, lacks a "
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

    The adapter, fb.py, translates SDPA's signature; a trial call finds out whether inputs are
    expected as (batch, length, heads, head dim). Nothing else is touched, and no file is replaced.
    If settings exist, `init` only tries them, for example after an edit of the adapter.
    """
    from flashbench.init.adapter_text import unknown
    from flashbench.init.attention_functions import functions
    from flashbench.init.build_system import build_of, has_asv
    from flashbench.init.steps import finish, measurable, tell_outcome
    from flashbench.init.trial import Trial, build_and_check, complete
    from flashbench.preflight.source.tree import read_tree
    from flashbench.revisions import git
    from flashbench.revisions.check import Checker

    root = git.root_of(Path.cwd())
    if _has_settings(root, wanted):
        with Checker() as checker:
            there = build_and_check(root, "WORKTREE", checker)
            tell_outcome("WORKTREE", there, _say)
            if there.status == "built":
                complete(root, there)
            return finish(root, checker, there, _say)
    tree = read_tree(root)
    found = [one for one in functions(tree) if wanted in (None, one.spec)]
    if not found:
        return _nothing(wanted, has_asv(tree))
    found.sort(key=lambda one: (one.is_test_or_example, bool(unknown(one))))  # the rest is in order
    with Checker() as checker:
        first, *others = (Trial(root, one, build_of(tree, one), checker) for one in found[:_TRIED])
        for trial in (first, *others):
            if trial.adapter.exists():
                raise InvalidInputError(
                    f"{trial.adapter}: exists; move it, init writes an adapter there"
                )
        trial, built = measurable(first, [one for one in others if one.is_likely], _say)
        _say("wrote", f"{trial.adapter.relative_to(root)}, [tool.flashbench.project]")
        return finish(root, checker, built, _say, trial.unknown)


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


def _say(what: str, text: str) -> None:
    click.echo(f"{what:<9}{printable(text)}")
