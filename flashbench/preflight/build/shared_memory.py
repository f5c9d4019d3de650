"""Shared memory no chip has: static arrays that ptxas refuses, dynamic sizes as written."""

import re
from collections.abc import Iterator, Sequence

from flashbench.preflight.build.kernel_launches import Asked, SharedSize, shown, sizes_of
from flashbench.preflight.build.resources import DYNAMIC_SHARED, STATIC_SHARED, KernelUse
from flashbench.preflight.build.subject import BuildSubject
from flashbench.preflight.finding import CannotCheck, Finding
from flashbench.preflight.fixes import edit
from flashbench.preflight.source.arithmetic import Constants
from flashbench.preflight.source.tree import SourceTree

TOO_MUCH_STATIC = re.compile(r"uses too much shared data|ptxas error.*shared")


def shared_memory(subject: BuildSubject) -> Iterator[Finding | CannotCheck]:
    """Find static shared memory no chip has, and dynamic that one of the build's chips lacks."""
    reason = subject.built.reason
    if match := TOO_MUCH_STATIC.search(reason):
        line = next(one for one in reason.splitlines() if match[0] in one)
        yield Finding(
            "HEAD",
            line.strip(),
            "git grep -n __shared__  # make it `extern`, and ask for it by cudaFuncSetAttribute",
        )
        return
    kernels = list[KernelUse]()
    try:
        kernels = subject.kernels
    except CannotCheck as unknown:
        yield unknown  # sources alone show a size that no chip has
    yield from dynamic(subject.tree, kernels)


def dynamic(tree: SourceTree, kernels: Sequence[KernelUse] = ()) -> Iterator[Finding | CannotCheck]:
    """Find sizes that, with the kernel's static arrays, exceed a block's limit on a target chip.

    Also find launches beyond 48 KiB that nothing requests. kernels: of the build; without them a
    size is too large if no chip has it. A size is judged if its text states it under no
    preprocessor condition.
    """
    asked, unknown = Asked(tree), list[str]()
    for name in tree.units + tree.headers:
        source, constants, reported = tree.read(name), Constants(tree, name), set()
        for shared in sorted(sizes_of(source), key=lambda shared: shared.place):
            size, line = constants.value(shared.size), source.line_of(shared.place)
            one = (size, shared.kernels & asked.kernels)
            where = f"{name}:{line}"
            if size is None or source.is_conditional(line):
                unknown.append(where)
                continue
            if one in reported:
                continue
            reported.add(one)
            if too_much := _beyond(size, shared, kernels):
                yield Finding(
                    where,
                    too_much[0],
                    edit(where, "make the tile, or the number of stages, smaller"),
                    "error" if too_much[1] else "warning",
                )
            elif shared.is_launch and not asked.may_be(shared):
                static = min(_static(shared, kernels).values(), default=0)
                if size + static > STATIC_SHARED:
                    yield Finding(
                        where,
                        f"launches with {_said(size, static)} a block; without "
                        f"cudaFuncSetAttribute {STATIC_SHARED} are the most",
                        edit(
                            where,
                            "before it cudaFuncSetAttribute(KERNEL, "
                            f"cudaFuncAttributeMaxDynamicSharedMemorySize, {size})",
                        ),
                    )
    if unknown:
        yield CannotCheck(f"{shown(unknown)}: the text leaves the number of bytes open")


def _beyond(size: int, shared: SharedSize, kernels: Sequence[KernelUse]) -> tuple[str, bool] | None:
    """Say what exceeds a chip's limit, and whether it exceeds every chip's: a kernel meant for one
    chip may be compiled for the others, and never launched there."""
    static = _static(shared, kernels)
    archs = set(static) or {one.arch for one in kernels if one.arch in DYNAMIC_SHARED}
    if not archs:
        most = max(DYNAMIC_SHARED.values())
        said = f"asks for {size} bytes a block; no chip has more than {most}"
        return (said, True) if size > most else None
    over = [arch for arch in archs if size + static.get(arch, 0) > DYNAMIC_SHARED[arch]]
    if not over:
        return None
    arch = min(over, key=lambda arch: (DYNAMIC_SHARED[arch], arch))
    said = f"asks for {_said(size, static.get(arch, 0))} a block"
    if len(over) == len(archs):
        most = max(DYNAMIC_SHARED[arch] for arch in archs)
        return f"{said}; the chips built for have {most}", True
    return f"{said}; sm_{arch}, which it is built for too, has {DYNAMIC_SHARED[arch]}", False


def _static(shared: SharedSize, kernels: Sequence[KernelUse]) -> dict[int, int]:
    """Bytes of static arrays for each chip, the fewest if a template has several kernels."""
    found: dict[int, int] = {}
    for kernel in kernels:
        named = any(f"{len(name)}{name}" in kernel.name for name in shared.kernels)
        if named and kernel.arch in DYNAMIC_SHARED:
            found[kernel.arch] = min(kernel.asked, found.get(kernel.arch, kernel.asked))
    return found


def _said(size: int, static: int) -> str:
    return f"{size} bytes and {static} of static arrays" if static else f"{size} bytes"
