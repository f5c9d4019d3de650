"""Parse and check the flashbench command that will run remotely, before it is sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from flashbench.baseline_names import is_baseline_name
from flashbench.candidates import OURS, is_function
from flashbench.errors import InvalidInputError
from flashbench.revisions.revision import WORKTREE


@dataclass(frozen=True)
class _Command:
    """A command that measures. revisions: its parameters that name revisions; if fewer than
    `all_named` are given, it measures the working tree. functions: it measures a --candidate, which
    like these may name a function of the working tree, or a baseline."""

    revisions: tuple[str, ...] = ()
    all_named: int = 0
    functions: bool = False


_COMMANDS = {
    "run": _Command(all_named=1),
    "compare": _Command(("a", "b"), all_named=2),
    "gate": _Command(("revision",)),
    "aa": _Command(all_named=1),
    "bisect": _Command(("good", "bad")),
    "backfill": _Command(("revisions",)),
    "profile": _Command(("against",), functions=True),
    "build": _Command(("revisions",), all_named=1),
    "preflight": _Command(all_named=1),
    "info": _Command(all_named=1),
}
_REFUSED = {"slurm", "resume", "force"}  # options that start other machines, or name files of ours


@dataclass(frozen=True)
class RemoteCommand:
    """A parsed command. words: as typed, without its run file. flag: the option of its run file, ""
    without one; run_file: the user's path for it. texts: arguments that may name revisions;
    worktree: whether it measures the working tree. gate: the revision to gate first. budget:
    whether it takes a --budget, and so a deadline. context: of the command, with its options."""

    words: list[str]
    flag: str
    run_file: Path | None
    texts: list[str]
    worktree: bool
    gate: str
    budget: bool
    context: click.Context


def parse(group: click.Group, context: click.Context, words: Sequence[str]) -> RemoteCommand:
    """Parse a command line as flashbench itself would. InvalidInputError if it refuses it, or if it
    makes no sense on another machine."""
    if not words:
        raise InvalidInputError("no command; write one after --, as in -- compare main HEAD")
    name, *rest = words
    known, command = _COMMANDS.get(name), group.get_command(context, name)
    if known is None or command is None:
        raise InvalidInputError(
            f"{name!r} is no command to run on another machine; those are {', '.join(_COMMANDS)}"
        )
    inner = command.make_context(name, list(rest), parent=context)
    options = inner.params
    file = next(filter(_is_run_file, command.params), None)
    for parameter in command.params:
        if parameter is not file:
            _refuse_files(parameter, inner)
    given = options[file.name] if file and file.name else None
    texts = _texts(options, known.revisions)
    if known.functions:
        texts = [_tree_of(text) for text in (options["candidate"] or WORKTREE, *texts)]
    gate = ""
    if name == "compare" and options.get("a"):
        gate = options["b"] or WORKTREE
    return RemoteCommand(
        words=[name, *_without(rest, file.opts if file else [])],
        flag=file.opts[-1] if file else "",
        run_file=given if isinstance(given, Path) else None,
        texts=[text for text in texts if text not in (WORKTREE, ".", "")],
        worktree=len(texts) < known.all_named or WORKTREE in texts or "." in texts,
        gate=gate,
        budget="budget" in options,
        context=inner,
    )


def _is_run_file(parameter: click.Parameter) -> bool:
    """Whether it names the file that the command measures into, and resumes; not a report."""
    return parameter.name in ("output", "run_file") and type(parameter.type).__name__ == "PathType"


def _refuse_files(parameter: click.Parameter, inner: click.Context) -> None:
    name = parameter.name or ""
    is_file = isinstance(inner.params.get(name), Path) or (
        name == "case" and str(inner.params[name]).endswith(".json")
    )
    if inner.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
        return
    if name in _REFUSED or is_file:
        flag = parameter.opts[0] if isinstance(parameter, click.Option) else parameter.metavar
        raise InvalidInputError(
            f"{flag} names something of this machine; drop it: a run file comes home, "
            "is resumed by the same command, and its table goes to stdout"
        )


def _texts(options: dict[str, Any], names: Sequence[str]) -> list[str]:
    """The revisions named by these parameters, with the ends of ranges separated."""
    found = []
    for name in names:
        value = options.get(name) or ()
        for text in [value] if isinstance(value, str) else value:
            found += [end for end in str(text).split("..") if end] or [str(text)]
    return found


def _tree_of(text: str) -> str:
    """The revision that must be there for a candidate: of a function the working tree, of a
    baseline none."""
    if is_baseline_name(text):
        return ""
    return WORKTREE if text == OURS or "=" in text or is_function(text) else text


def _without(rest: Sequence[str], flags: Sequence[str]) -> list[str]:
    """The words without an option and its value: -o FILE, -oFILE, --output FILE, --output=FILE."""
    kept, words = [], list(rest)
    attached = tuple(f"{flag}=" if flag.startswith("--") else flag for flag in flags)
    while words:
        word = words.pop(0)
        if word in flags:
            words = words[1:]
        elif not word.startswith(attached):
            kept.append(word)
    return kept
