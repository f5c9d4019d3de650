"""Functions that files declare and define, with namespaces and parameters if the text has them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from flashbench.preflight.source.cxx import SourceText, split_arguments

# What stands before the ";" of a declaration: a type, a name, arguments. Templates are left to
# `instantiations`.
_DECLARES = re.compile(
    r"\s*(?!(?:return|using|typedef|template|friend|namespace|asm)\b)"
    r"(?:extern\s+(?:\"\"\s+)?)?(?:[\w:]+(?:<[^;{}()]*>)?[\s*&]+)+([A-Za-z_]\w*)\s*"
    r"\(([^;{}()]*(?:\([^;{}()]*\)[^;{}()]*)*)\)\s*(?:noexcept\s*)?"
)
# The end of a heading, up to the body's brace; class members count too.
_DEFINES = re.compile(
    r"(?<![\w.>])([A-Za-z_]\w*)\s*\(([^;{}()]*(?:\([^;{}()]*\)[^;{}()]*)*)\)\s*"
    r"(?:(?:const|noexcept|override|final|try)\b\s*|->\s*[\w:<>&*\s]+)*(?:\{|:[^;:{}]*\{)"
)
_STOP = re.compile(r"[;{}]")
_EXTERN_C = re.compile(r'extern(?<=\bextern)\s*""\s*\{')
_OBJECT = re.compile(r"\b(static|thread_local|inline|constexpr|weak)\b")
# A parameter that is a literal or a call: the "declaration" constructs an object.
_VALUE = re.compile(r"(^|,)\s*([-+]?\.?\d|\"\"|'|nullptr\b|\w[\w:]*\s*\([^()*&]*\)\s*(,|$))")
_BLANKS = {sign: " " for sign in range(128) if not (chr(sign).isalnum() or chr(sign) == "_")}
_OF_OBJECT = re.compile(r"\s*(?:\.|\[|->)")
_QUALIFIER = re.compile(r"((?:\w+(?P<angled>\s*>)?\s*::\s*)+)\Z")
_BRACKETS = ("<([{", ">)]}")
_BUILT_IN = {
    "void",
    "int",
    "float",
    "double",
    "bool",
    "char",
    "short",
    "long",
    "unsigned",
    "signed",
}
# Types that are the same on 64-bit Linux.
_SAME = {
    "int8_t": "signed char",
    "uint8_t": "unsigned char",
    "int16_t": "short",
    "uint16_t": "unsigned short",
    "int32_t": "int",
    "uint32_t": "unsigned int",
    "int64_t": "long",
    "uint64_t": "unsigned long",
    "size_t": "unsigned long",
}
Scope = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Declaration:
    """place: offset in `plain`. of_library: a C library may define it."""

    name: str
    place: int
    scope: Scope
    parameters: str
    of_library: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """scope: the enclosing namespaces; qualifier: what precedes its name."""

    name: str
    place: int
    scope: Scope
    qualifier: Scope
    parameters: str

    @property
    def qualified(self) -> str:
        return "::".join((*self.scope, *self.qualifier, self.name))


class SourceFile(SourceText):
    """A file with the functions that it declares and defines, each found once."""

    @cached_property
    def words(self) -> frozenset[str]:
        """Names in the file, directives excluded."""
        return frozenset(self.plain.translate(_BLANKS).split())  # twice as fast as an expression

    @cached_property
    def declared(self) -> list[Declaration]:
        """Functions with external linkage, not objects constructed with arguments."""
        return list(_declarations(self))

    @cached_property
    def defined(self) -> list[Definition]:
        """Function definitions, class members included."""
        return list(_definitions(self))


def _declarations(source: SourceText) -> Iterator[Declaration]:
    found = _declared(source)
    opened = [found.end() for found in _EXTERN_C.finditer(source.plain)]
    blocks = [(place, _closed(source.plain, place)) for place in opened]
    for match in found:
        name, place = match[1], match.start(1)
        heading = match[0][: place - match.start()]
        scope = source.scope(place)
        if (
            _OBJECT.search(heading) is not None
            or _VALUE.search(match[2].strip()) is not None
            or "" in scope
            or _is_object(source.plain, name)
        ):
            continue
        in_c = '""' in heading or any(begin <= place < end for begin, end in blocks)
        yield Declaration(name, place, scope, match[2], in_c)


def declared_places(source: SourceText) -> set[int]:
    """Offsets of declared names, objects included."""
    return {match.start(1) for match in _declared(source)}


def _declared(source: SourceText) -> "list[re.Match[str]]":
    """Match what stands at namespace level from one statement's end to the next one's ";"."""
    outer, spans = source.outer, _statements(source.outer, ";")
    matches = (
        _DECLARES.fullmatch(outer, begin, end)
        for begin, end in spans
        if outer[begin - 1 : begin] != "{" and outer.rfind(")", begin, end) > 0
    )
    return [match for match in matches if match is not None]


def _statements(outer: str, closed: str) -> Iterator[tuple[int, int]]:
    """Spans between two of ";{}" where the second is `closed`."""
    last = 0
    for match in _STOP.finditer(outer):
        if match[0] == closed:
            yield last, match.start()
        last = match.end()


def _is_object(plain: str, name: str) -> bool:
    """Whether a name has members or elements anywhere."""
    at = plain.find(name)
    while at >= 0:
        end = at + len(name)
        if _OF_OBJECT.match(plain, end) and not (
            plain[at - 1 : at].isalnum() or plain[at - 1 : at] == "_"
        ):
            return True
        at = plain.find(name, end)
    return False


def _definitions(source: SourceText) -> Iterator[Definition]:
    outer = source.outer
    for begin, end in _statements(outer, "{"):
        parenthesis = outer.find("(", begin, end)
        match = _DEFINES.search(outer, begin, end + 1) if parenthesis > 0 else None
        if match is None:
            continue
        before, qualifier = outer[max(0, match.start() - 200) : match.start()], Scope()
        if before.rstrip().endswith("::"):
            written = _QUALIFIER.search(before)
            plain = written is not None and not written["angled"]
            qualifier = tuple(re.findall(r"\w+", written[1])) if written and plain else ("?",)
        scope = source.scope(match.start())
        yield Definition(match[1], match.start(), scope, qualifier, match[2])


def is_in_scope(declared: Declaration, defined: Definition) -> bool:
    """Whether a definition may be the declared function's, judging by namespace."""
    full = (*defined.scope, *defined.qualifier)
    if "?" in full or any(part.isupper() for part in (*full, *declared.scope)):
        return True  # a macro may stand for any namespace
    if not defined.qualifier:
        return declared.scope == defined.scope
    # Look the qualifier up in each enclosing namespace.
    return any(
        declared.scope == (*defined.scope[:count], *defined.qualifier)
        for count in range(len(defined.scope) + 1)
    )


def may_be_same(first: str, second: str) -> bool:
    """Whether parameters may be the same; only a compiler can compare user-defined types."""
    ours, theirs = _parameters(first), _parameters(second)
    if ours is None or theirs is None:
        return True
    return len(ours) == len(theirs) and all(
        None in (one, other) or one == other for one, other in zip(ours, theirs, strict=True)
    )


def signature(parameters: str) -> tuple[str, ...]:
    """Parameters without their names; the last word of a type that only a compiler knows counts as
    one."""
    texts = split_arguments(parameters, _BRACKETS)
    words = (re.findall(r"[\w:<>*&]+", one)[:-1] for one in texts)
    return tuple(_type(one) or " ".join(rest) for one, rest in zip(texts, words, strict=True))


@lru_cache(maxsize=4096)  # namesakes are compared with each other
def _parameters(text: str) -> tuple[str | None, ...] | None:
    """Type of each parameter, None if the text hides it; None overall if the text hides how
    many."""
    if text.strip() in ("", "void"):
        return ()
    if "..." in text or re.search(r"\b[A-Z][A-Z0-9_]{2,}\b", text):  # a macro
        return None
    return tuple(_type(one) for one in split_arguments(text, _BRACKETS))


def _type(parameter: str) -> str | None:
    text = parameter.partition("=")[0].replace("std::", "").replace("::", " :: ")
    if re.search(r"[(<]|::", text):
        return None
    text = re.sub(r"\b(__restrict__|__restrict|restrict|volatile|struct)\b", "", text)
    text, arrays = re.subn(r"\[[^\[\]]*\]", "", text)
    words = re.findall(r"\w+|[*&]", text)
    stars = [word for word in words if word in "*&"]
    first = words.index(stars[0]) if stars else len(words)
    base, rest = words[:first], words[first:]
    if not stars and len(base) > 1 and not _is_type(base[-1]):
        base.pop()  # the name
    plain = [_SAME.get(word, word) for word in base if word != "const"]
    if not plain or not all(
        word in _BUILT_IN | {"signed"} for one in plain for word in one.split()
    ):
        return None
    kind = sorted(word for one in plain for word in one.split())
    if "int" in kind and len(kind) > 1:
        kind.remove("int")
    if kind == ["unsigned"]:
        kind = ["int", "unsigned"]
    pointers = "".join(word for word in rest if word in "*&") + "*" * arrays
    constant = "const " if pointers and "const" in base else ""
    return f"{constant}{' '.join(kind)}{pointers}"


def _is_type(word: str) -> bool:
    return word in _BUILT_IN or word in _SAME or word == "const"


def _closed(plain: str, place: int) -> int:
    """Find where the brace opened just before `place` closes."""
    depth = 1
    for match in re.compile(r"[{}]").finditer(plain, place):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    return len(plain)
