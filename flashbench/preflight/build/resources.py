"""Resources that compiled kernels use, read from a library by cuobjdump, and each chip's limits."""

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flashbench.preflight.build.fatbin import has_device_code
from flashbench.preflight.finding import CannotCheck
from flashbench.preflight.programs import ask, cuda_program

# Bytes of shared memory that a block may request through cudaFuncSetAttribute: CUDA C++ Programming
# Guide 13.0, table "Technical Specifications per Compute Capability". Without a request: 48 KiB.
STATIC_SHARED = 48 << 10
DYNAMIC_SHARED = {
    70: 96 << 10,
    75: 64 << 10,
    80: 163 << 10,
    86: 99 << 10,
    87: 163 << 10,
    89: 99 << 10,
    90: 227 << 10,
    100: 227 << 10,
    103: 227 << 10,
    110: 227 << 10,
    120: 99 << 10,
    121: 99 << 10,
}
# From sm_90 on, cuobjdump's static size includes the system's own, beyond what a block may request.
_RESERVED = 1 << 10
_SECONDS = 60.0  # per call of cuobjdump
_NO_TOOL = (
    "cuobjdump is not installed: it is in CUDA's toolkit, and in its pip package "
    "nvidia-cuda-cuobjdump"
)

_FILE = re.compile(r"arch = sm_(\d+)(\w?)")
_FUNCTION = re.compile(r"Function (\S+):")
_USED = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")


@dataclass(frozen=True)
class KernelUse:
    """One kernel for one chip: registers per thread, bytes of static shared memory per block, bytes
    of stack per thread (spills, and arrays indexed at run time)."""

    name: str
    arch: int
    registers: int
    shared: int
    stack: int

    @property
    def asked(self) -> int:
        """Bytes of `shared` that the source requests."""
        return max(0, self.shared - _RESERVED) if self.arch >= 90 else self.shared


def read_kernels(libraries: Sequence[Path]) -> list[KernelUse]:
    """Read all kernels of the libraries, from cuobjdump or from the report our own build leaves
    beside the library; none if no library has GPU code. CannotCheck if nothing here reads the
    code."""
    reports = {library.with_name("_build.json") for library in libraries}
    if reports and all(report.is_file() for report in reports):
        return [kernel for report in reports for kernel in _reported(report)]
    found = []
    for library in filter(has_device_code, libraries):
        text = _cuobjdump("--dump-resource-usage", library)
        kernels = parse(text)
        if not kernels and "ptx code:" in text and "elf code:" not in text:
            raise CannotCheck(
                f"{library.name} has PTX alone: what its kernels use is known when a driver "
                "compiles them; build for the architecture of a chip"
            )
        found += kernels
    return found


def _cuobjdump(option: str, library: Path) -> str:
    tool = shutil.which("cuobjdump") or cuda_program("cuobjdump")
    if tool is None:
        raise CannotCheck(_NO_TOOL)
    answer = ask([str(tool), option, str(library)], _SECONDS)
    if answer.code:
        raise CannotCheck(f"cuobjdump {option} {library.name} failed: {answer.first_line}")
    return answer.output


def _reported(report: Path) -> Iterator[KernelUse]:
    for entry in json.loads(report.read_text())["kernels"]:
        arch, shared = re.sub(r"\D", "", entry["arch"]), entry["static_shared_bytes"]
        yield KernelUse(entry["name"], int(arch), entry["registers"], shared, entry["stack_bytes"])


def parse(text: str) -> list[KernelUse]:
    """Parse the output of `cuobjdump --dump-resource-usage`; names stay mangled."""
    found, arch, name = [], 0, ""
    for line in text.splitlines():
        if match := _FILE.search(line):
            arch = int(match[1])
        elif match := _FUNCTION.search(line):
            name = match[1]
        if name and (match := _USED.search(line)):
            registers, stack, shared, local = map(int, match.groups())
            found.append(KernelUse(name, arch, registers, shared, stack + local))
            name = ""
    return found
