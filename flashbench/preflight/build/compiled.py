"""HEAD builds from a clean export, loads, and its kernels fit the chips that they are built for."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flashbench.builds.diagnosis import demangle
from flashbench.builds.missing_symbol import first_line
from flashbench.preflight.build import tools
from flashbench.preflight.build.shared_memory import TOO_MUCH_STATIC
from flashbench.preflight.build.subject import BuildSubject
from flashbench.preflight.finding import CannotCheck, Finding

if TYPE_CHECKING:
    from flashbench.revisions import Built

# What follows from each status of a build (flashbench/builds/diagnosis.py).
_NEXT = {
    "missing header": "flashbench preflight --level source",
    "undefined symbol": "flashbench bisect --for load --good COMMIT",
    "wrong module name": "flashbench preflight --level source",
    "import error": "flashbench bisect --for load --good COMMIT",
    "timeout": "flashbench preflight --level build --timeout 1h",
}
_LOCAL = 256  # bytes of stack a thread, from which spills cost more than they save


def clean_build(subject: BuildSubject) -> Iterator[Finding]:
    """HEAD from a clean export, in a directory of its own, as every revision is built."""
    built = subject.built
    if built.status in ("built", "unchecked") or TOO_MUCH_STATIC.search(built.reason):
        return
    if missing := _caused_by(subject, built):
        raise CannotCheck(f"HEAD does not build here: fix {missing} first")
    following = _NEXT.get(built.status, "flashbench bisect --for build --good COMMIT")
    yield Finding(
        f"HEAD ({built.revision.commit[:12]})",
        f"{built.status}: {first_line(built.reason)}",
        following if built.kept else "mend this machine, and the same command tries again",
    )


# What a build that fails without one of the tools has in its reason.
_TRACES = {
    "C++ compiler": (tools.compiler, r"C\+\+|c\+\+|g\+\+|gcc|\bcc\b|clang|compiler|CXX"),
    "Python headers": (tools.python_headers, r"Python\.h|Python\w*_INCLUDE|Development"),
    "nvcc": (tools.nvcc, r"nvcc|CUDA|cuda"),
    "torch": (tools.torch, r"torch|Torch|CUDA"),
}


def _caused_by(subject: BuildSubject, built: "Built") -> str:
    """The check of a missing tool that explains a failed build; "" if none does."""
    for name, (look, trace) in _TRACES.items():
        if not built.kept or re.search(trace, built.reason):
            try:
                if any(one.severity == "error" for one in look(subject)):
                    return name
            except CannotCheck:
                continue
    return ""


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
