"""Includes that a macro names: `#include HEADER_OF(ISA)` with ISA from the command line."""

import os
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

from flashbench.preflight.finding import Finding
from flashbench.preflight.fixes import edit
from flashbench.preflight.source.cxx import Macro, split_arguments
from flashbench.preflight.source.in_git import found_in_git
from flashbench.preflight.source.references import broken_files, missing_references
from flashbench.preflight.source.removed import removed_files
from flashbench.preflight.source.tree import SourceTree

_DEEPEST = 12  # macros within macros
_CALL = re.compile(r"([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?")
_WORD = re.compile(r"[A-Za-z_]\w*")


def computed_includes(tree: SourceTree) -> Iterator[Finding]:
    """Find a computed include that no file satisfies, or that lost one a build file asks for."""
    if missing_references(tree) or broken_files(tree):
        return  # they may define the macros
    reported = set()
    for file in tree.sources:
        for line, macro in tree.read(file).computed:
            if macro in reported or (missing := _missing(tree, file, macro)) is None:
                continue
            reported.add(macro)
            name, gone = missing
            more = f" and {len(gone) - 3} more" if len(gone) > 3 else ""
            had = f"; git had {', '.join(gone[:3])}{more}" if gone else " or in git"
            yield Finding(
                f"{file}:{line}",
                f"#include {macro} is {name}: no such file here{had}",
                _restore(tree, gone) or edit(f"{file}:{line}", f"write {name}, or correct {macro}"),
            )


def _restore(tree: SourceTree, files: list[str]) -> str:
    """One command for all files of a revision."""
    together: dict[str, list[str]] = defaultdict(list)
    for file in files:
        together[removed_files(tree).get(file, "")].append(file)
    commands = list[list[str]]()
    for at, those in together.items():
        commands.append(["git", "checkout", *filter(None, [at]), "--", *those])
        if at.endswith("^"):  # else HEAD still has them
            commands.append(["git", "commit", "-m", "Restore headers", "--", *those])
    return " && ".join(map(shlex.join, commands))


def _missing(tree: SourceTree, file: str, macro: str) -> tuple[str, list[str]] | None:
    """The name that a macro computes, as `isa/*.h`, and the removed files that it may mean; None if
    it misses none."""
    text, given = _expanded(tree, macro)
    words = _WORD.findall(text)
    if not re.fullmatch(r"[\w./+-]+\.\w+", text) or text in given:
        return None
    if not any(word in given for word in words):
        return None if tree.ending(text) else (text, found_in_git(tree, text))
    part = next(word for word in words if word in given)
    pattern = re.compile(rf"(?:.*/)?{re.escape(text).replace(part, '([^/]+)')}")
    folder = os.path.dirname(file)  # noqa: PTH120
    here = {one for one in tree.headers if pattern.fullmatch(f"{folder}/{one}".lstrip("/"))}
    here |= {one for one in tree.headers if pattern.fullmatch(one)}
    asked = _words_beside(tree, part)
    gone = [
        one
        for one in removed_files(tree)
        if (found := pattern.fullmatch(one)) is not None and (found[1] in asked or not here)
    ]
    return (text.replace(part, "*"), gone) if gone or not here else None


def _expanded(tree: SourceTree, text: str) -> tuple[str, set[str]]:
    """Expand macros as the preprocessor does; the names that only the build defines stay, and are
    returned, too."""
    macros, given = _macros(tree), set[str]()
    for _ in range(_DEEPEST):
        before, parts, last = text, list[str](), 0
        for call in _CALL.finditer(text):
            bodies = macros.get(call[1], [])
            if len(bodies) != 1:
                continue
            (parameters, body), end = bodies[0], call.end()
            if parameters is None:
                end = call.end(1)
            elif call[2] is None:
                continue
            else:
                values = dict(zip(parameters, split_arguments(call[2], ("(", ")")), strict=False))
                body = _WORD.sub(lambda one, values=values: values.get(one[0], one[0]), body)  # type: ignore[misc]
            if call.start() >= last:
                parts += [text[last : call.start()], body]
                last = end
        text = "".join([*parts, text[last:]])
        if text == before:
            break
    text = re.sub(r"[\s#\"<>]", "", text)
    given.update(word for word in _WORD.findall(text) if _is_given(tree, word))
    return text, given


def _is_given(tree: SourceTree, word: str) -> bool:
    return len(word) > 1 and word.isupper() and bool(_words_beside(tree, word))


@lru_cache(maxsize=256)
def _words_beside(tree: SourceTree, macro: str) -> frozenset[str]:
    """Words of the build files that define a macro: its values are among them."""
    texts = (tree.read(file).text for file in tree.build_files)
    return frozenset(word for text in texts if macro in text for word in _WORD.findall(text))


@lru_cache(maxsize=1)
def _macros(tree: SourceTree) -> dict[str, list[Macro]]:
    """All macros of the tree, by name."""
    found: dict[str, list[Macro]] = defaultdict(list)
    for file in tree.sources:
        for name, bodies in tree.read(file).bodies.items():
            found[name] += bodies
    return found
