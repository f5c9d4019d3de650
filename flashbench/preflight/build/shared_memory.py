"""Shared memory that no chip gives: static arrays that ptxas refuses, dynamic sizes as written."""

import re
from collections.abc import Iterator

from flashbench.preflight.build.resources import DYNAMIC_SHARED, STATIC_SHARED
from flashbench.preflight.build.subject import BuildSubject
from flashbench.preflight.finding import CannotCheck, Finding
from flashbench.preflight.source.arithmetic import Constants
from flashbench.preflight.source.cxx import SourceText
from flashbench.preflight.source.tree import SourceTree

TOO_MUCH_STATIC = re.compile(r"uses too much shared data|ptxas error.*shared")
_ASKS = re.compile(
    r"\b(?:cudaFuncAttributeMaxDynamicSharedMemorySize|"
    r"CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)\s*,"
)
_LAUNCH = re.compile(r"<<<(.*?)>>>", re.DOTALL)
_LONGEST = 600  # characters of the arguments of a launch


def shared_memory(subject: BuildSubject) -> Iterator[Finding]:
    """Static shared memory that no chip gives, and dynamic that none of those built for gives."""
    reason = subject.built.reason
    if match := TOO_MUCH_STATIC.search(reason):
        line = next(one for one in reason.splitlines() if match[0] in one)
        yield Finding(
            "HEAD",
            line.strip(),
            "make it dynamic: `extern __shared__`, and ask by cudaFuncSetAttribute",
        )
        return
    archs = {kernel.arch for kernel in subject.kernels}
    limits = [DYNAMIC_SHARED[arch] for arch in archs if arch in DYNAMIC_SHARED]
    if not limits:
        raise CannotCheck("the build has no CUDA kernels")
    yield from dynamic(subject.tree, max(limits))


def dynamic(tree: SourceTree, limit: int) -> Iterator[Finding]:
    """Sizes beyond `limit` bytes a block, and launches beyond 48 KiB where nothing asks for more.

    A size is judged where its text tells it and it stands under no condition of the preprocessor.
    """
    files = tree.units + tree.headers
    asks = any("MaxDynamicSharedMemorySize" in tree.read(name).text for name in files) or any(
        "MAX_DYNAMIC_SHARED" in tree.read(name).text for name in files
    )
    for name in files:
        source, constants, reported = tree.read(name), Constants(tree, name), set()
        for place, text in sorted(_sizes(source)):
            size, line = constants.value(text), source.line_of(place)
            if size is None or size in reported or source.is_conditional(line):
                continue
            reported.add(size)
            if size > limit:
                yield Finding(
                    f"{name}:{line}",
                    f"asks for {size} bytes a block; the chips built for have {limit}",
                    "make the tile, or the number of stages, smaller",
                )
            elif size > STATIC_SHARED and not asks:
                yield Finding(
                    f"{name}:{line}",
                    f"launches with {size} bytes a block; without cudaFuncSetAttribute "
                    f"{STATIC_SHARED} are the most",
                    "cudaFuncSetAttribute(KERNEL, cudaFuncAttributeMaxDynamicSharedMemorySize, "
                    f"{size}) before the launch",
                )


def _sizes(source: SourceText) -> Iterator[tuple[int, str]]:
    """Where a size is given, and its text: to an attribute, or as a launch's third argument."""
    plain = source.plain
    for match in _ASKS.finditer(plain):
        depth = 0
        for place in range(match.end(), min(match.end() + _LONGEST, len(plain))):
            depth += {"(": 1, ")": -1}.get(plain[place], 0)
            if depth < 0:
                yield match.start(), plain[match.end() : place]
                break
    for match in _LAUNCH.finditer(plain):
        arguments = _split(match[1]) if len(match[1]) <= _LONGEST else []
        if len(arguments) > 2:
            yield match.start(), arguments[2]


def _split(text: str) -> list[str]:
    """Arguments between the commas outside of parentheses; none where a template's list of
    arguments has commas of its own."""
    parts, depth = [""], 0
    for sign in text:
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    angles = [re.sub(r"<<|>>", "", part) for part in parts]
    return parts if all(part.count("<") == part.count(">") for part in angles) else []
