"""Blocks no chip launches: more threads than any chip has, or than its registers suffice for."""

import re
from collections.abc import Iterator, Sequence

from flashbench.preflight.build.kernel_launches import (
    LAUNCH,
    Asked,
    KernelLaunch,
    launches_of,
    shown,
)
from flashbench.preflight.build.resources import DYNAMIC_SHARED, KernelUse
from flashbench.preflight.build.subject import BuildSubject
from flashbench.preflight.finding import CannotCheck, Finding
from flashbench.preflight.fixes import edit
from flashbench.preflight.source.arithmetic import Constants
from flashbench.preflight.source.cxx import SourceText
from flashbench.preflight.source.tree import SourceTree

# Limits of every chip since sm_70: CUDA C++ Programming Guide 13.0, as DYNAMIC_SHARED. A warp gets
# its registers in units of 256.
THREADS = 1024
REGISTERS = 65536
_UNIT = 256
_DIM3 = re.compile(r"\bdim3\s*[({]([^;{}]*)[)}]\s*\Z")


def block_size(subject: BuildSubject) -> Iterator[Finding | CannotCheck]:
    """Find a launch whose block has too many threads for the chip, or for the kernel's
    registers."""
    kernels = list[KernelUse]()
    try:
        kernels = subject.kernels
    except CannotCheck as unknown:
        yield unknown  # sources alone show a size that no chip has
    yield from too_large(subject.tree, kernels)


def too_large(
    tree: SourceTree, kernels: Sequence[KernelUse] = ()
) -> Iterator[Finding | CannotCheck]:
    """Judge launches whose text states the block's threads, under no preprocessor condition.

    kernels: of the build; a template is judged by its variant with the fewest registers. With
    `__launch_bounds__`, ptxas keeps to what the block can have.
    """
    declared, unknown = Asked(tree).kernels, list[str]()
    for name in tree.units + tree.headers:
        source, constants = tree.read(name), Constants(tree, name)
        for launch in launches_of(source):
            line = source.line_of(launch.place)
            threads = _threads(source, constants, launch)
            if threads is None or source.is_conditional(line):
                unknown.append(f"{name}:{line}")
                continue
            said = _refused(threads, [one for one in kernels if _is_of(one, launch, declared)])
            if said is not None:
                found, fix, everywhere = said
                yield Finding(
                    f"{name}:{line}",
                    found,
                    edit(f"{name}:{line}", fix),
                    "error" if everywhere else "warning",
                )
    if unknown:
        yield CannotCheck(f"{shown(unknown)}: the text leaves the number of threads open")


def _is_of(kernel: KernelUse, launch: KernelLaunch, declared: frozenset[str]) -> bool:
    """Whether a compiled kernel is one the launch names."""
    named = launch.kernels & declared
    return kernel.arch in DYNAMIC_SHARED and any(f"{len(n)}{n}" in kernel.name for n in named)


def _refused(threads: int, kernels: Sequence[KernelUse]) -> tuple[str, str, bool] | None:
    """Say what is wrong with a block, what helps, and whether all chips of the build refuse it."""
    if threads > THREADS:
        found = f"launches {threads} threads a block; no chip has more than {THREADS}"
        return found, f"at most {THREADS} threads a block", True
    fewest: dict[int, int] = {}
    for kernel in kernels:
        fewest[kernel.arch] = min(kernel.registers, fewest.get(kernel.arch, kernel.registers))
    most = {arch: _most_threads(registers) for arch, registers in fewest.items()}
    over = sorted(arch for arch in most if threads > most[arch])
    if not over:
        return None
    arch = over[0]
    on = "" if len(over) == len(most) else f" on sm_{arch}"
    return (
        f"launches {threads} threads of {fewest[arch]} registers{on}; a block has {REGISTERS}, "
        f"enough for {most[arch]}",
        f"__launch_bounds__({threads}) at the kernel, or a smaller block",
        not on,
    )


def _most_threads(registers: int) -> int:
    """Threads of whole warps that fit a block."""
    a_warp = -(-max(registers, 1) * 32 // _UNIT) * _UNIT
    return REGISTERS // a_warp * 32


def _threads(source: SourceText, constants: Constants, launch: KernelLaunch) -> int | None:
    """Threads of one block: a number, `dim3(x, y, z)`, or a variable that one `dim3` defines."""
    text = launch.block.strip()
    if re.fullmatch(r"[A-Za-z_]\w*", text):
        text = _variable(source.plain, text) or text
    match = _DIM3.match(text)
    total = 1
    for part in match[1].split(",") if match else [text]:
        value = constants.value(part)
        if value is None:
            return None
        total *= value
    return total


def _variable(plain: str, name: str) -> str | None:
    """The `dim3(...)` that defines a variable; None if the file uses its name for more than
    launches."""
    made = re.findall(rf"\bdim3\s+{name}\s*[({{]([^;{{}}]*)[)}}]\s*;", plain)
    uses = len(re.findall(rf"\b{name}\b", LAUNCH.sub("", plain)))
    return f"dim3({made[0]})" if len(set(made)) == 1 and len(made) == uses else None
