"""Parse and check the flashbench command that will run remotely, before it is sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from flashbench.errors import InvalidInputError
from flashbench.revisions.revision import WORKTREE

# The option that names the run file, which the command also resumes.
_RUN_FILE = {
    "run": "--output",
    "backfill": "--output",
    "compare": "--run-file",
    "aa": "--run-file",
    "gate": "--run-file",
}
# Options that measure nothing, or start other machines themselves.
_AT_HOME = {"cloud", "show", "merge", "record", "history", "publish", "report", "plan", "profile"}
_ELSEWHERE = {"slurm", "resume", "force"}


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
    command = group.get_command(context, name)
    if command is None or name in _AT_HOME:
        raise InvalidInputError(f"{name!r} is no command to run on another machine")
    flag = _RUN_FILE.get(name, "")
    inner = command.make_context(name, list(rest), parent=context)
    options = inner.params
    key = flag.removeprefix("--").replace("-", "_")
    for parameter in command.params:
        _refuse_files(parameter, inner, key)
    given = options.get(key) if flag else None
    texts = _texts(options)
    tree = _needs_worktree(name, options, texts)
    gate = ""
    if name == "compare" and options.get("a"):
        gate = options["b"] or WORKTREE
    return RemoteCommand(
        words=[name, *_without(rest, command, key)],
        flag=flag,
        run_file=given if isinstance(given, Path) else None,
        texts=[text for text in texts if text not in (WORKTREE, ".")],
        worktree=tree,
        gate=gate,
        budget="budget" in options and options["budget"] is None,
        context=inner,
    )


def _refuse_files(parameter: click.Parameter, inner: click.Context, run_file: str) -> None:
    name = parameter.name or ""
    if inner.get_parameter_source(name) is not ParameterSource.COMMANDLINE or name == run_file:
        return
    value = inner.params.get(name)
    if (
        name in _ELSEWHERE
        or isinstance(value, Path)
        or type(parameter.type).__name__
        in (
            "ReportFile",
            "PathType",
        )
    ):
        raise InvalidInputError(
            f"{parameter.opts[0]} names something of this machine; drop it: a run file comes home, "
            "is resumed by the same command, and its table goes to stdout"
        )


def _texts(options: dict[str, Any]) -> list[str]:
    """The arguments, with the ends of ranges separated."""
    found = []
    for name in ("a", "b", "revision", "revisions", "good", "bad"):
        value = options.get(name) or ()
        for text in [value] if isinstance(value, str) else value:
            found += [end for end in str(text).split("..") if end] or [str(text)]
    return found


def _needs_worktree(name: str, options: dict[str, Any], texts: Sequence[str]) -> bool:
    if WORKTREE in texts or "." in texts:
        return True
    if name == "compare":
        return options["b"] is None
    return name in ("run", "preflight", "info", "profile") or (
        name in ("aa", "build") and not texts
    )


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
