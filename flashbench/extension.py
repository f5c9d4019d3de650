"""Load `flashbench._C` and read what it reports about itself.

If it does not load, a one-line error names the missing file or symbol.
"""

import importlib
import os
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from flashbench.damaged_files import UNREADABLE, damage
from flashbench.errors import InvalidInputError, NotMeasuredError

_UNDEFINED = re.compile(r"undefined symbol: (\S+)")


class Kernel(msgspec.Struct):
    """What ptxas reports of one kernel and arch: registers a thread, bytes a block or thread."""

    name: str
    arch: str
    registers: int
    static_shared_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int


class BuildInfo(msgspec.Struct):
    """What the library contains and what it was built from."""

    commit: str
    dirty: bool
    source_hash: str
    compiler: str
    cuda_compiler: str
    cpu_dtypes: list[str]
    cpu_isas: list[str]
    usable_isas: list[str]
    selected_isa: str
    cuda_dtypes: list[str]
    cuda_archs: list[str]
    path: str


class _Report(msgspec.Struct):
    kernels: list[Kernel]


_REPORT = msgspec.json.Decoder(_Report)


def load() -> ModuleType:
    """Import `flashbench._C`; NotMeasuredError gives the reason and the fix."""
    try:
        return importlib.import_module("flashbench._C")
    except ImportError as error:
        raise NotMeasuredError(_why(error)) from error


def _why(error: ImportError) -> str:
    undefined = _UNDEFINED.search(str(error))
    if undefined:
        from flashbench.builds.diagnosis import demangle  # only a failed load pays for it

        return (
            f"flashbench._C does not load: undefined symbol {demangle(undefined[1])}; its unit "
            "was not compiled: build again from a clean tree"
        )
    if isinstance(error, ModuleNotFoundError) and error.name == "flashbench._C":
        return "flashbench._C is not built; run `pip install -e .` in the project"
    return f"flashbench._C does not load: {error}; build it again with `pip install -e .`"


def build_info() -> BuildInfo:
    """The loaded library's own description."""
    library = load()
    try:
        stated: dict[str, Any] = library.build_info()
    except ValueError as error:  # FLASHBENCH_CPU_ISA names a set this CPU cannot run
        raise InvalidInputError(str(error)) from None
    return BuildInfo(path=str(library.__file__), **stated)


def kernels() -> list[Kernel]:
    """The ptxas report kept beside the library; empty for a build without CUDA kernels."""
    report = Path(str(load().__file__)).with_name("_build.json")
    try:
        return _REPORT.decode(report.read_bytes()).kernels
    except (OSError, *UNREADABLE) as error:
        raise NotMeasuredError(
            f"{report}: the build report is missing or damaged ({damage(error)}); build again"
        ) from None


def cpu_peaks(dtypes: list[str]) -> dict[str, dict[int, float]]:
    """By dtype, on one and on all threads: the floating-point operations per second that this CPU
    reaches from registers, with the multiplications of that dtype's kernel.

    A ceiling for attention; each takes about 0.1 s to measure.
    """
    module = load()
    counts = sorted({1, len(os.sched_getaffinity(0))})
    codes = {"fp32": 0, "fp16": 1, "bf16": 2}  # the order of `enum class Dtype`
    return {
        dtype: {count: module.cpu_peak(codes[dtype], count) for count in counts} for dtype in dtypes
    }
