"""C++ and CUDA sources as text: without comments, with the conditions around each directive."""

import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

from flashbench.preflight.source.lines import line_of

# A comment, or a literal in which "//" is no comment. Raw strings come first: they hold quotes.
# Patterns here and in other modules begin with a plain character and look behind for what must
# precede it: the engine then skips to that character, ten times as fast.
_RAW = "|".join(rf'(?<=(?<!\w){prefix}R")' for prefix in ("", "u8", "[uUL]"))
_NOT_CODE = re.compile(
    rf'"(?:{_RAW})(?P<tag>[^()\\\s]{{0,16}})\((?:.*?\)(?P=tag)"|.*)'
    r'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|\'(?<!\w\')[^\'\\\n]*(?:\\.[^\'\\\n]*)*\''
    r"|//[^\n]*(?:(?<=\\)\n[^\n]*)*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/|/\*.*",
    re.DOTALL,
)
_LITERAL = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"')
_CONTINUED = re.compile(r"\\\r?\n")
_BRACE = re.compile(r"[{}]")
_NAMESPACE = re.compile(r"\b(namespace\b[\w\s:]*|extern\s*\"\"\s*)\Z")
_DIRECTIVE = re.compile(r"#[ \t]*(\w+)[ \t]*((?:\\\r?\n|[^\n])*)")  # continued lines too
_NEVER = re.compile(r"\(?\s*(?:0|false)\s*\)?")  # conditions that no build fulfils
_ALWAYS = re.compile(r"\(?\s*(?:1|true)\s*\)?")
_BINDS = ("PYBIND11_MODULE", "NB_MODULE", "TORCH_LIBRARY", "PyInit_", "PyModuleDef")
_SPLITS = re.compile(r"[,()<>{}\[\]]")
_MACRO = re.compile(r"([A-Za-z_]\w*)(?:\(([^()]*)\))?\s*(.*)")
_INCLUDE = re.compile(r'"([^"\n]+)"|<([^>\n]+)>')
Macro = tuple[tuple[str, ...] | None, str]  # parameters of a function-like one, and the body


@dataclass(frozen=True, slots=True)
class Include:
    """`#include "name"` or `<name>` (not quoted). conditional: may be left out by design; asked: a
    condition asks by `__has_include` whether a header is there."""

    name: str
    line: int
    quoted: bool
    conditional: bool
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Define:
    """`#define name value` of an object-like macro."""

    name: str
    line: int
    conditional: bool
    value: str


@dataclass
class SourceText:
    """One file. text: its raw content."""

    text: str

    @cached_property
    def code(self) -> str:
        """Text without comments and regions like `#if 0`; literals and the number of lines stay."""
        return self._parsed[0]

    @property
    def _matches(self) -> list["re.Match[str]"]:
        """The directives in `code`."""
        return self._parsed[1]

    @cached_property
    def _parsed(self) -> tuple[str, list["re.Match[str]"]]:
        code = _NOT_CODE.sub(_kept, self.text)
        matches = _directives_in(code)
        if any(one[1] == "if" and _settled(one[2]) for one in matches):
            code = _without_dead(code)
            matches = _directives_in(code)
        return code, matches

    @cached_property
    def plain(self) -> str:
        """`code` without directives and with empty literals, for finding declarations."""
        parts, last = [], 0
        for match in self._matches:
            begin, end = self.code.rfind("\n", 0, match.start()) + 1, match.end()
            parts += [self.code[last:begin], "\n" * self.code.count("\n", begin, end)]
            last = end
        parts.append(self.code[last:])
        return _LITERAL.sub('""', "".join(parts))

    @property
    def outer(self) -> str:
        """`plain` at namespace level: bodies of functions and classes are empty braces.

        It keeps the length of `plain`, so offsets in one are offsets in the other.
        """
        return self._levels[0]

    def scope(self, place: int) -> tuple[str, ...]:
        """Namespaces around a place in `plain`, without inline ones; "" for an unnamed one."""
        around = (name for begin, end, name in self._levels[1] if begin <= place < end)
        return tuple(part for name in around for part in name.split("::"))

    def is_in_template(self, place: int) -> bool:
        """Whether a place in `plain` is in the body of a template."""
        begun = self.outer.rfind("{", 0, place)
        heading = self.outer[max(0, begun - 4000) : begun]
        return "template" in heading[max(heading.rfind(sign) for sign in ";{}") + 1 :]

    @cached_property
    def _levels(self) -> tuple[str, list[tuple[int, int, str]]]:
        """`outer`, and the begin, end and name of each namespace."""
        plain = self.plain
        parts: list[str] = []
        spaces: list[tuple[int, int, str]] = []
        written = 0  # how much of `plain` is in `parts`
        closing: list[int | None] = []  # for each open brace, the namespace it closes
        hidden = 0
        last = 0  # after the latest brace
        for match in _BRACE.finditer(plain):
            place, sign = match.start(), match[0]
            if sign == "{":
                heading = None
                if not hidden:
                    last = max(last, plain.rfind(";", last, place) + 1)
                    heading = _NAMESPACE.search(plain[last:place])
                closing.append(None if heading is None else len(spaces))
                if heading is not None:
                    parts += [plain[written:place], ";"]
                    written = place + 1
                    if (name := _space(plain[last:place], heading)) is None:
                        name = "inline"
                    spaces.append((place, len(plain), name))
                else:
                    hidden += 1
                    if hidden == 1:
                        parts.append(plain[written : place + 1])
                        written = place + 1
            elif sign == "}" and closing:
                if (space := closing.pop()) is not None:
                    parts += [plain[written:place], ";"]
                    written = place + 1
                    spaces[space] = (spaces[space][0], place, spaces[space][2])
                else:
                    hidden -= 1
                    if hidden == 0:
                        lines = plain[written:place].split("\n")
                        parts.append("\n".join(" " * len(line) for line in lines))
                        written = place
            last = place + 1
        parts.append(plain[written:])
        return "".join(parts), [one for one in spaces if one[2] != "inline"]

    @property
    def binds(self) -> bool:
        """Whether it binds functions for Python."""
        return any(one in self.code for one in _BINDS)

    @cached_property
    def macros(self) -> str:
        """Bodies of all macros: code that runs where they are used."""
        return "\n".join(rest for _, name, rest, _ in self._directives if name == "define")

    @cached_property
    def bodies(self) -> dict[str, list[Macro]]:
        """Macros by name."""
        found = defaultdict[str, list[Macro]](list)
        for text in self.macros.split("\n"):
            if match := _MACRO.match(text):
                names = None if match[2] is None else tuple(map(str.strip, match[2].split(",")))
                found[match[1]].append((names, match[3].strip()))
        return found

    @cached_property
    def includes(self) -> list[Include]:
        found = []
        for line, name, rest, conditions in self._directives:
            match = _INCLUDE.match(rest) if name == "include" else None
            if match is None:
                continue
            text = (match[1] or match[2]).strip()
            asked = any("__has_include" in one and "else" not in one for one in conditions)
            found.append(Include(text, line, match[1] is not None, bool(conditions), asked))
        return found

    @property
    def computed(self) -> list[tuple[int, str]]:
        """Unconditional includes of a macro, `#include HEADER`, each with its line."""
        return [
            (line, rest)
            for line, name, rest, conditions in self._directives
            if name == "include" and rest[:1].isalpha() and not conditions
        ]

    @cached_property
    def defines(self) -> list[Define]:
        """Object-like macros, in line order; `undef` removes one."""
        found = []
        for line, name, rest, conditions in self._directives:
            # "(" right after the name makes a function-like macro, which needs a call.
            match = (
                re.match(r"([A-Za-z_]\w*)(?!\w|\()[ \t]+(\S.*)", rest) if name == "define" else None
            )
            if match:
                found.append(Define(match[1], line, bool(conditions), match[2]))
        return found

    @cached_property
    def asked_for(self) -> set[str]:
        """Macros that conditions test or `#undef` removes: the author knows about them."""
        asked: set[str] = set()
        for _, name, rest, _ in self._directives:
            if name in ("undef", "ifdef", "ifndef", "if", "elif"):
                asked.update(re.findall(r"[A-Za-z_]\w*", rest))
        return asked

    @cached_property
    def undefs(self) -> list[tuple[int, str]]:
        """Lines of `#undef`, each with its macro."""
        return [(line, rest.strip()) for line, name, rest, _ in self._directives if name == "undef"]

    def conditions(self, line: int) -> tuple[str, ...]:
        """Preprocessor conditions around a line; one that ends in "else" is an alternative."""
        place = bisect_right(self._directives, line, key=lambda one: one[0])
        return self._directives[place - 1][3] if place else ()

    def is_conditional(self, line: int) -> bool:
        """Whether a line of code is under a preprocessor condition."""
        return bool(self.conditions(line))

    def line_of(self, place: int) -> int:
        """Line number of the character at `place` of `plain`."""
        return line_of(self.plain, place)

    @cached_property
    def _directives(self) -> list[tuple[int, str, str, tuple[str, ...]]]:
        """Line, name and rest of each directive, with the conditions around it.

        A header's include guard is not a condition.
        """
        found = []
        conditions: list[str] = []
        guard = _guard(self.code)
        number, last = 1, 0
        for match in self._matches:
            number += self.code.count("\n", last, match.start())
            last = match.start()
            name, rest = match[1], match[2].strip()
            if "\\" in rest:
                rest = _CONTINUED.sub(" ", rest).strip()
            if name in ("if", "ifdef", "ifndef"):
                known = name == "if" and _settled(rest)
                conditions.append("" if known or rest == guard != "" else f"{name} {rest}")
            elif name in ("else", "elif") and conditions and (conditions[-1] or name == "elif"):
                conditions[-1] = f"{conditions[-1]} {name}"
            elif name == "endif" and conditions:
                conditions.pop()
            found.append((number, name, rest, tuple(filter(None, conditions))))
        return found


def _directives_in(code: str) -> list["re.Match[str]"]:
    """Find each "#" that comes first on its line, after any blanks."""
    found, at = [], code.find("#")
    while at >= 0:
        line = code.rfind("\n", 0, at) + 1
        first = line == at or not code[line:at].strip(" \t")
        match = _DIRECTIVE.match(code, at) if first else None
        if match and not code.endswith(("\\\n", "\\\r\n"), 0, line):
            found.append(match)
            at = code.find("#", match.end())
        else:
            at = code.find("#", at + 1)
    return found


def _settled(condition: str) -> bool:
    """Whether the condition is the same in every build, as `#if 0` is."""
    return bool(_NEVER.fullmatch(condition.strip()) or _ALWAYS.fullmatch(condition.strip()))


def _space(text: str, heading: "re.Match[str]") -> str | None:
    """Name a namespace from its heading; None if it adds nothing to names."""
    if heading[1].startswith("extern") or text[: heading.start()].rstrip().endswith("inline"):
        return None
    words = re.sub(r"\s*::\s*", "::", heading[1].removeprefix("namespace")).split()
    return words[-1] if words else ""  # after a macro or an attribute


def split_arguments(text: str, brackets: tuple[str, str]) -> list[str]:
    """Split at commas outside of these brackets, given as opening and closing characters."""
    parts, depth, last = list[str](), 0, 0
    for match in _SPLITS.finditer(text):
        sign = match[0]
        depth += (sign in brackets[0]) - (sign in brackets[1])
        if sign == "," and depth == 0:
            parts.append(text[last : match.start()])
            last = match.end()
    return [*parts, text[last:]]


def _kept(match: "re.Match[str]") -> str:
    text = match[0]
    if text.startswith(("//", "/*")):
        return "\n" * text.count("\n") or " "
    if match["tag"] is not None:  # a line in it that begins with "#" is no directive
        return re.sub(r"(?m)^([ \t]*)#", r"\1 ", text)
    return text


def _without_dead(code: str) -> str:
    """Blank what `#if 0` leaves out, up to its `#else`, and the `#else` of `#if 1`."""
    lines = code.split("\n")
    # For each open condition: whether it is left out now, and whether all its later branches are.
    branches: list[tuple[bool, bool]] = []
    for number, line in enumerate(lines):
        match = _DIRECTIVE.match(line.lstrip())
        name, rest = (match[1], match[2].strip()) if match else ("", "")
        if name in ("if", "ifdef", "ifndef"):
            plain = name == "if"
            never = plain and _NEVER.fullmatch(rest) is not None
            branches.append((never, plain and _ALWAYS.fullmatch(rest) is not None))
        elif name in ("else", "elif") and branches:
            branches[-1] = branches[-1][1], branches[-1][1]
        elif name == "endif" and branches:
            branches.pop()
        elif any(dead for dead, _ in branches):
            lines[number] = ""
    return "\n".join(lines)


def _guard(code: str) -> str:
    """Macro of `#ifndef X` directly followed by `#define X`; "" without an include guard."""
    match = re.search(r"\A\s*#[ \t]*ifndef[ \t]+(\w+)\s*\n\s*#[ \t]*define[ \t]+(\w+)", code)
    return match[1] if match and match[1] == match[2] else ""
