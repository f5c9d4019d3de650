"""Parse and check the flashbench command that will run remotely, before it is sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from flashbench.errors import InvalidInputError
from flashbench.revisions.revision import WORKTREE


@dataclass(frozen=True)
class _Command:
    """A command that measures. run_file: the option of its run file, which it also resumes, ""
    without one. revisions: its parameters that name revisions; if fewer than `all_named` are given,
    it measures the working tree."""

    run_file: str = ""
    revisions: tuple[str, ...] = ()
    all_named: int = 0


_COMMANDS = {
    "run": _Command("--output", all_named=1),
    "compare": _Command("--run-file", ("a", "b"), all_named=2),
    "gate": _Command("--run-file", ("revision",)),
    "aa": _Command("--run-file", all_named=1),
    "bisect": _Command(revisions=("good", "bad")),
    "backfill": _Command("--output", ("revisions",)),
    "build": _Command(revisions=("revisions",), all_named=1),
    "preflight": _Command(all_named=1),
    "info": _Command(all_named=1),
}
_REFUSED = {"slurm", "resume", "force"}  # options that start other machines, or name files of ours


@dataclass(frozen=True)
class RemoteCommand:
    """A parsed command. words: as typed, without its run file. flag: the option of its run file, ""
    without one; run_file: the user's path for it. texts: arguments that may name revisions;
    worktree: whether it measures the working tree. gate: the revision to gate first. budget:
    whether a --budget may be added. context: of the command, with its options."""

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
    key = known.run_file.removeprefix("--").replace("-", "_")
    for parameter in command.params:
        _refuse_files(parameter, inner, key)
    given = options.get(key)
    texts = _texts(options, known.revisions)
    gate = ""
    if name == "compare" and options.get("a"):
        gate = options["b"] or WORKTREE
    return RemoteCommand(
        words=[name, *_without(rest, command, key)],
        flag=known.run_file,
        run_file=given if isinstance(given, Path) else None,
        texts=[text for text in texts if text not in (WORKTREE, ".")],
        worktree=len(texts) < known.all_named or WORKTREE in texts or "." in texts,
        gate=gate,
        budget="budget" in options and options["budget"] is None,
        context=inner,
    )


def _refuse_files(parameter: click.Parameter, inner: click.Context, run_file: str) -> None:
    name = parameter.name or ""
    if inner.get_parameter_source(name) is not ParameterSource.COMMANDLINE or name == run_file:
        return
    is_file = type(parameter.type).__name__ in ("ReportFile", "PathType")
    if name in _REFUSED or is_file or isinstance(inner.params.get(name), Path):
        raise InvalidInputError(
            f"{parameter.opts[0]} names something of this machine; drop it: a run file comes home, "
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


def _without(rest: Sequence[str], command: click.Command, key: str) -> list[str]:
    """The words without the run file's option and value."""
    flags = next((p.opts for p in command.params if p.name == key), [])
    kept, words = [], list(rest)
    while words:
        word = words.pop(0)
        if word in flags:
            words = words[1:]
        elif not any(f.startswith("--") and word.startswith(f"{f}=") for f in flags):
            kept.append(word)
    return kept
