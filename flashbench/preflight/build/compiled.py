"""HEAD builds from a clean export, loads, and its kernels fit the chips that they are built for."""

import re
from collections.abc import Iterator

from flashbench.builds.diagnosis import demangle
from flashbench.builds.missing_symbol import first_line
from flashbench.preflight.build.resources import DYNAMIC_SHARED
from flashbench.preflight.build.subject import BuildSubject
from flashbench.preflight.finding import CannotCheck, Finding

# What follows from each status of a build (flashbench/builds/diagnosis.py).
_NEXT = {
    "missing header": "flashbench preflight --level source",
    "undefined symbol": "flashbench bisect --for load --good COMMIT",
    "wrong module name": "flashbench preflight --level source",
    "import error": "flashbench bisect --for load --good COMMIT",
    "timeout": "flashbench preflight --level build --timeout 1h",
}
_TOO_MUCH_SHARED = re.compile(r"uses too much shared data|ptxas error.*shared")
_ASKS = re.compile(
    r"cudaFuncAttributeMaxDynamicSharedMemorySize\s*,\s*(?:static_cast<\w+>\s*)?\(?\s*([\w\s*+()]+?)\)"
)
_LOCAL = 256  # bytes of stack a thread, from which spills cost more than they save


def clean_build(subject: BuildSubject) -> Iterator[Finding]:
    """HEAD from a clean export, in a directory of its own, as every revision is built."""
    built = subject.built
    if built.status in ("built", "unchecked") or _TOO_MUCH_SHARED.search(built.reason):
        return
    yield Finding(
        f"HEAD ({built.revision.commit[:12]})",
        f"{built.status}: {first_line(built.reason)}",
        _NEXT.get(built.status, "flashbench bisect --for build --good COMMIT"),
    )


def shared_memory(subject: BuildSubject) -> Iterator[Finding]:
    """Static shared memory that no chip gives, and dynamic that none of those built for gives."""
    reason = subject.built.reason
    if match := _TOO_MUCH_SHARED.search(reason):
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
    for name in subject.tree.units + subject.tree.headers:
        source = subject.tree.read(name)
        for match in _ASKS.finditer(source.plain):
            size = _value(match[1])
            if size is not None and size > max(limits):
                yield Finding(
                    f"{name}:{source.line_of(match.start())}",
                    f"asks for {size} bytes a block; the chips built for have {max(limits)}",
                    "make the tile, or the number of stages, smaller",
                )


def spills(subject: BuildSubject) -> Iterator[Finding]:
    """Kernels whose threads keep much on the stack."""
    worst = [kernel for kernel in subject.kernels if kernel.stack > _LOCAL]
    for kernel in sorted(worst, key=lambda kernel: -kernel.stack)[:5]:
        yield Finding(
            f"{demangle(kernel.name)[:120]}, sm_{kernel.arch}",
            f"{kernel.stack} bytes of stack a thread, {kernel.registers} registers",
            "cuobjdump --dump-resource-usage LIBRARY  # then fewer registers, or a larger bound",
            "warning",
        )


def _value(text: str) -> int | None:
    """An integer, or a product and sum of some; None for anything that has names in it."""
    if not re.fullmatch(r"[\d\s*+()]+", text):
        return None
    total = 0
    for term in text.replace("(", " ").replace(")", " ").split("+"):
        factors = [int(factor) for factor in term.split("*") if factor.strip().isdigit()]
        if len(factors) != term.count("*") + 1:
            return None
        product = 1
        for factor in factors:
            product *= factor
        total += product
    return total
