"""Fixes as commands: what only a person can write opens an editor at its place, with what to write
as the comment; a word that is known to be wrong is replaced by `sed`."""

import re
import shlex
from collections.abc import Iterable

_EDITOR = '"${EDITOR:-vi}"'


def edit(where: str, what: str) -> str:
    """The command that opens a place, given as `file` or `file:line`."""
    file, _, line = where.rpartition(":")
    if not line.isdigit():
        file, line = where, ""
    at = f"+{line} " if line else ""
    return f"{_EDITOR} {at}{shlex.quote(file)}  # {' '.join(what.split())}"


def write(file: str, instead: str = "correct what names it") -> str:
    """The command that makes a file that git never had, and adds it."""
    folder, name = file.rpartition("/")[0], shlex.quote(file)
    made = f"mkdir -p {shlex.quote(folder)} && " if folder else ""
    return f"{made}{_EDITOR} {name} && git add {name}  # or {instead}"


def replace(text: str, where: str, old: str, new: str, *, everywhere: bool = False) -> str:
    """The command that replaces a word. text: of the file; where: `file:line`. If the line does not
    hold the word once, as where a script computes it, an editor opens. everywhere: in the whole
    file, which may use what the line names."""
    file, _, line = where.rpartition(":")
    word = re.compile(rf"(?<![\w./-]){re.escape(old)}(?![\w/-])")
    lines = text.splitlines()
    found = word.findall(lines[int(line) - 1]) if int(line) <= len(lines) else []
    if len(found) != 1 or "\n" in new:
        return edit(where, f"write {new} in place of {old}")
    if everywhere and len(word.findall(text)) > 1:
        return rename(old, new, [file])
    return _sed(old, new, line, "", [file])


def rename(old: str, new: str, files: Iterable[str]) -> str:
    """The command that replaces a word throughout these files."""
    return _sed(old, new, "", "g", files)


def _sed(old: str, new: str, line: str, flag: str, files: Iterable[str]) -> str:
    before, after = re.sub(r"([][\\.*^$|])", r"\\\1", old), re.sub(r"([\\&|])", r"\\\1", new)
    begin, end = (r"\b" if re.match(r"\w", sign) else "" for sign in (old[:1], old[-1:]))
    change = f"{line}s|{begin}{before}{end}|{after}|{flag}"
    return f"sed -i {shlex.quote(change)} {shlex.join(files)}"
