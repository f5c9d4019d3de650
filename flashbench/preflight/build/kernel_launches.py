"""Launches that sources state, and the dynamic shared memory that an attribute allows."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from flashbench.preflight.source.cxx import SourceText, split_arguments
from flashbench.preflight.source.tree import SourceTree

_ASKS = re.compile(
    r"\b(?:cudaFuncAttributeMaxDynamicSharedMemorySize|"
    r"CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)\s*,"
)
_SETTER = re.compile(r"FuncSetAttribute\s*\(([^;]*)\Z")
LAUNCH = re.compile(r"<<<(.*?)>>>", re.DOTALL)
_KERNEL = re.compile(
    r"__global__[^;{}()]*(?:__launch_bounds__\s*\([^;{}]*?\)[^;{}()]*)?\b(\w+)\s*\("
)
_LONGEST = 600  # characters of a launch's arguments


@dataclass(frozen=True)
class SharedSize:
    """One stated size. kernels: the names given for the kernel it applies to."""

    place: int
    size: str
    kernels: frozenset[str]
    is_launch: bool


@dataclass(frozen=True)
class KernelLaunch:
    """One `kernel<<<grid, block, shared>>>`. kernels: the names in front; shared: "" if absent."""

    place: int
    kernels: frozenset[str]
    block: str
    shared: str


@dataclass
class Asked:
    """Kernels of a project that some cudaFuncSetAttribute allows more than 48 KiB."""

    tree: SourceTree

    def may_be(self, shared: SharedSize) -> bool:
        """Whether a cudaFuncSetAttribute is for the kernel of a launch, or names no kernel: a
        variable or template parameter may be any."""
        known = shared.kernels & self.kernels
        return any(not names & self.kernels or not known or names & known for names in self._for)

    @cached_property
    def _texts(self) -> list[SourceText]:
        return [self.tree.read(name) for name in self.tree.units + self.tree.headers]

    @cached_property
    def kernels(self) -> frozenset[str]:
        """Names of all kernels the sources declare."""
        return frozenset(name for text in self._texts for name in _KERNEL.findall(text.plain))

    @cached_property
    def _for(self) -> list[frozenset[str]]:
        found = []
        for text in self._texts:
            asked_for = [shared.kernels for shared in sizes_of(text) if not shared.is_launch]
            found += asked_for
            # In a macro, or without its comma: the kernel is unknown.
            found += [frozenset()] * (_mentions(text.code) > len(asked_for))
        return found


def shown(places: Sequence[str]) -> str:
    """Show the first of some places, and how many more there are."""
    return f"{places[0]} and {len(places) - 1} more" if len(places) > 1 else places[0]


def _mentions(code: str) -> int:
    return code.count("MaxDynamicSharedMemorySize") + code.count("MAX_DYNAMIC_SHARED")


def sizes_of(source: SourceText) -> Iterator[SharedSize]:
    """Find sizes that an attribute is set to, and third arguments of launches."""
    plain = source.plain
    for match in _ASKS.finditer(plain):
        depth = 0
        setter = _SETTER.search(plain, max(0, match.start() - _LONGEST), match.start())
        names = frozenset(re.findall(r"\w+", setter[1])) if setter else frozenset()
        for place in range(match.end(), min(match.end() + _LONGEST, len(plain))):
            depth += {"(": 1, ")": -1}.get(plain[place], 0)
            if depth < 0:
                yield SharedSize(match.start(), plain[match.end() : place], names, is_launch=False)
                break
    for launch in launches_of(source):
        if launch.shared:
            yield SharedSize(launch.place, launch.shared, launch.kernels, is_launch=True)


def launches_of(source: SourceText) -> Iterator[KernelLaunch]:
    """Find every `kernel<<<grid, block, ...>>>` whose arguments the text separates."""
    plain = source.plain
    for match in LAUNCH.finditer(plain):
        arguments = _split(match[1]) if len(match[1]) <= _LONGEST else []
        if len(arguments) > 1:
            names = frozenset(_launched(plain[max(0, match.start() - _LONGEST) : match.start()]))
            shared = arguments[2] if len(arguments) > 2 else ""
            yield KernelLaunch(match.start(), names, arguments[1], shared)


def _launched(before: str) -> list[str]:
    """The name in front of `<<<`, without template arguments."""
    text, depth = before.rstrip(), 0
    while text and (depth or text[-1] == ">"):
        depth += {">": 1, "<": -1}.get(text[-1], 0)
        text = text[:-1]
    return re.findall(r"(\w+)\s*\Z", text)


def _split(text: str) -> list[str]:
    """Split at commas outside of parentheses; none if a template argument list has commas of its
    own."""
    parts = split_arguments(text, ("({[", ")}]"))
    angles = [re.sub(r"<<|>>", "", part) for part in parts]
    return parts if all(part.count("<") == part.count(">") for part in angles) else []
