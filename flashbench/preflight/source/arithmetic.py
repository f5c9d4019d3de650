"""Integers that sources state by constants: arithmetic of literals, constexpr, #define and sizeof.

Nothing is guessed: a name has no value if a file and its includes define it twice, under a
condition, as a parameter or as a variable; nor has an expression that uses it.
"""

import ast
import operator
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from flashbench.preflight.source.layout import SIZES, layout
from flashbench.preflight.source.tree import SourceTree

_LONGEST = 400  # characters of an expression
_LARGEST = 1 << 48
_INTEGER = (
    r"(?:std::)?(?:unsigned\s+long\s+long|unsigned\s+long|unsigned\s+int|long\s+long|unsigned|int|"
    r"long|short|size_t|auto|u?int(?:8|16|32|64)_t)"
)
_CONSTANT = re.compile(
    rf"\b(?:constexpr|const)\s+(?:static\s+|inline\s+|__device__\s+)*{_INTEGER}\s+"
    r"(?P<name>\w+)\s*(?:=\s*(?P<value>[^;{}]+?)|\{(?P<braced>[^;{}]*)\})\s*;"
)
# What may precede a name that is used, not declared.
_BEFORE_USE = ("return", "case", "else", "sizeof", "alignas", "co_return", "throw", "goto")
_SUFFIX = re.compile(
    r"\b(0[xX][0-9a-fA-F']+?|[0-9][0-9']*?)(?:[uU][lL]{0,2}|[lL]{1,2}[uU]?|[zZ][uU]?)\b"
)
_SIZEOF = re.compile(r"\bsizeof\s*\(\s*([\w:\s*]+?)\s*\)")
_CAST = re.compile(
    rf"\bstatic_cast\s*<\s*{_INTEGER}\s*>|\(\s*{_INTEGER}\s*\)(?=\s*[\w(])|\b{_INTEGER}\s*(?=\()"
)
_NAME = re.compile(r"(?<![\w'])(?:::)?[A-Za-z_]\w*(?:::\w+)*")
_LIMITS = {"std::max": "max", "std::min": "min", "max": "max", "min": "min"}
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}


class _Unknown(Exception):  # noqa: N818 - an outcome, not an error
    """The text does not determine the value."""


@dataclass
class Constants:
    """What one file, and all it includes, says about names."""

    tree: SourceTree
    file: str
    _busy: set[str] = field(default_factory=set)

    def value(self, expression: str) -> int | None:
        """Evaluate an integer expression of C++; None if it cannot be known."""
        try:
            return self._value(expression)
        except (_Unknown, SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
            return None

    def size_of(self, name: str) -> tuple[int, int] | None:
        """Bytes and alignment of a type: built in, a pointer, an alias or a plain struct."""
        name = " ".join(name.removeprefix("const ").split())
        if name.endswith("*"):
            return 8, 8
        last = name.rpartition("::")[2]
        if last in SIZES:
            return SIZES[last]
        if f"sizeof {last}" in self._busy:
            return None
        parameter = re.compile(rf"\b(?:typename|class)\s+{re.escape(last)}\s*[,>=]")
        if any(parameter.search(text) for text in self._texts):
            return None  # a template's: any type
        self._busy.add(f"sizeof {last}")
        try:
            alias = {match[1] for match in self._aliases if match[0] == last}
            if alias:
                return self.size_of(alias.pop()) if len(alias) == 1 else None
            return layout(last, self._texts, self.size_of, self.value)
        finally:
            self._busy.discard(f"sizeof {last}")

    @cached_property
    def _files(self) -> list[str]:
        return list(self.tree.closure(self.file))

    @cached_property
    def _texts(self) -> list[str]:
        return [self.tree.read(file).plain for file in self._files]

    @cached_property
    def _aliases(self) -> list[tuple[str, str]]:
        using = re.compile(r"\busing\s+(\w+)\s*=\s*([\w:\s*]+?)\s*;")
        typedef = re.compile(r"\btypedef\s+([\w:\s*]+?)\s+(\w+)\s*;")
        found = [(m[1], m[2]) for text in self._texts for m in using.finditer(text)]
        return found + [(m[2], m[1]) for text in self._texts for m in typedef.finditer(text)]

    @cached_property
    def _stated(self) -> dict[str, set[str | None]]:
        """Expressions that define each name; None for one under a condition."""
        found: dict[str, set[str | None]] = defaultdict(set)
        for file, text in zip(self._files, self._texts, strict=True):
            for match in _CONSTANT.finditer(text):
                found[match["name"]].add(" ".join((match["value"] or match["braced"]).split()))
            for define in self.tree.read(file).defines:
                found[define.name].add(None if define.conditional else define.value.strip())
        return found

    def _value(self, expression: str) -> int:
        if len(expression) > _LONGEST:
            raise _Unknown
        text = _SIZEOF.sub(self._bytes, expression)
        text = _CAST.sub("", _SUFFIX.sub(r"\1", text)).replace("'", "")
        text = _NAME.sub(self._number, text).strip()
        return _evaluated(ast.parse(text, mode="eval").body)

    def _bytes(self, match: "re.Match[str]") -> str:
        size = self.size_of(match[1])
        if size is None:
            raise _Unknown
        return str(size[0])

    def _number(self, match: "re.Match[str]") -> str:
        name = match[0]
        if name in _LIMITS:
            return _LIMITS[name]
        scope, _, last = name.removeprefix("::").rpartition("::")
        # The members of a template's parameter are unknown here.
        if scope and not self._is_scope(scope.rpartition("::")[2]):
            raise _Unknown
        stated = self._stated.get(last, {None})
        if len(stated) != 1 or last in self._busy or self._is_variable(last):
            raise _Unknown
        (expression,) = stated
        if expression is None:
            raise _Unknown
        self._busy.add(last)
        try:
            return f"({self._value(expression)})"
        finally:
            self._busy.discard(last)

    def _is_variable(self, name: str) -> bool:
        """Whether it is also declared as something else: a parameter, a member, a variable."""
        declared = re.compile(
            rf"\b(\w+)(?:\s+|\s*&\s*)(?:const\s+)?({re.escape(name)})\s*(?=[=;,)>\[{{:])"
        )
        for text in self._texts:
            constants = {match.start("name") for match in _CONSTANT.finditer(text)}
            for match in declared.finditer(text):
                if match.start(2) not in constants and match[1] not in _BEFORE_USE:
                    return True
        return False

    def _is_scope(self, name: str) -> bool:
        heading = re.compile(rf"\b(?:namespace\b[\w\s:]*|struct\s+|class\s+)\b{re.escape(name)}\b")
        return any(heading.search(text) for text in self._texts)


def _evaluated(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            found = number
        case ast.BinOp(left, kind, right) if type(kind) in _OPERATORS:
            first, second = _evaluated(left), _evaluated(right)
            if isinstance(kind, ast.LShift | ast.RShift) and not 0 <= second < 48:
                raise _Unknown
            # C++ rounds towards zero, Python down.
            if isinstance(kind, ast.Div | ast.Mod) and min(first, second) < 0:
                raise _Unknown
            found = _OPERATORS[type(kind)](first, second)
        case ast.UnaryOp(ast.USub(), operand):
            found = -_evaluated(operand)
        case ast.Call(ast.Name(id=("max" | "min") as name), [first_one, *others], []):
            values = [_evaluated(one) for one in (first_one, *others)]
            found = max(values) if name == "max" else min(values)
        case _:
            raise _Unknown
    if abs(found) > _LARGEST:
        raise _Unknown
    return found
