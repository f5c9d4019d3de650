"""Types and values that a macro around a call gives to a name: `DISPATCH(x.dtype(), [&] { ... })`.

The macro writes `using scalar_t = float; __VA_ARGS__();` once for each type, or
`constexpr bool IS_CAUSAL = true;`, perhaps by a name that is its argument.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from flashbench.preflight.source.cxx import split_arguments
from flashbench.preflight.source.tree import SourceTree

_FARTHEST = 10_000  # characters from a macro to a call in its lambda
_DEEPEST = 4  # macros that stand for others
_BRACKET = re.compile(r"[()]")
_NAME = re.compile(r"([A-Za-z_]\w*)\s*\Z")
_GIVES = re.compile(
    r"\busing\s+(\w+)\s*=\s*([^;{}]+);|\btypedef\s+([^;{}]+?)\s+(\w+)\s*;"
    r"|\bconst(?:expr)?\b[\w\s:]*?\b(\w+)\s*=\s*([^;{}]+);"
)
_PLACES = {2: (1, 2), 4: (4, 3), 6: (5, 6)}  # of name and text, by the last group
_TORCH = re.compile(r"AT_DISPATCH_FLOATING_TYPES(?:_AND(_HALF|2|))?")
_Values = dict[str, list[str]]


@dataclass
class Dispatched:
    """Texts of the names that macros give, and the macro that gives each."""

    texts: _Values = field(default_factory=dict)
    by: dict[str, str] = field(default_factory=dict)


def dispatched(tree: SourceTree, user: str, place: int) -> Dispatched | None:
    """What the macros around a place of a file's `plain` give; None if the text does not tell which
    calls are compiled, or for which of them together."""
    plain, found = tree.read(user).plain, Dispatched()
    for opened, name in _around(plain, place):
        given = _given(tree, user, name, _arguments(plain, opened))
        if given is None or found.texts.keys() & given.keys() or len(given) > 1:
            return None  # the inner name hides the outer one, or one branch chooses both
        found.texts |= given
        found.by |= dict.fromkeys(given, name)
    begun = min((opened for opened, _ in _around(plain, place)), default=place)
    inside = plain[begun:place]
    hidden = {one for match in _GIVES.finditer(inside) for one in match.groups() if one}
    return None if "constexpr" in inside or found.texts.keys() & hidden else found


def _around(plain: str, place: int) -> Iterator[tuple[int, str]]:
    """Brackets that are open at a place, innermost first, each with the name before it."""
    opened = list[int]()
    for bracket in _BRACKET.finditer(plain, max(0, place - _FARTHEST), place):
        if bracket[0] == "(":
            opened.append(bracket.start())
        elif opened:
            opened.pop()
    for at in reversed(opened):
        if name := _NAME.search(plain, max(0, at - 200), at):
            yield at, name[1]


def _arguments(plain: str, opened: int) -> list[str]:
    """The arguments of a call before the one that is a lambda."""
    text = re.split(r"\[[&=]?\]|\{", plain[opened + 1 : opened + 1000], maxsplit=1)[0]
    return [one.strip() for one in split_arguments(text, ("(", ")"))]


def _given(tree: SourceTree, user: str, name: str, arguments: list[str]) -> _Values | None:
    """What a macro gives to which name, nothing if it is none; None if it is defined twice."""
    if torch := _TORCH.fullmatch(name):
        more = {"_HALF": ["Half"], "": arguments[:1], "2": arguments[:2], None: []}[torch[1]]
        kinds = (re.sub(r"\A.*::k?|\Ak", "", one) for one in more)
        return {"scalar_t": ["double", "float", *kinds]}
    for _ in range(_DEEPEST):
        bodies = {
            one for file in tree.closure(user) for one in tree.read(file).bodies.get(name, ())
        }
        if len(bodies) != 1:
            return None if bodies else {}
        ((parameters, body),) = bodies
        if parameters is not None:
            break
        name = body.strip()
    else:
        return {}
    names = dict(zip(parameters, arguments, strict=False))
    given = _Values()
    for match in _GIVES.finditer(body):
        alias, text = (str(match[one]).strip() for one in _PLACES[match.lastindex or 0])
        given.setdefault(names.get(alias, alias), []).append(names.get(text, text))
    return given
