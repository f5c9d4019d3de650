"""Read the kept ptxas reports: registers, shared memory and spills of each kernel and arch."""

import re
import shutil
import subprocess
from pathlib import Path

_COMPILING = re.compile(r"Compiling entry function '(\S+)' for 'sm_(\w+)'")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


def collect(build_directory: Path) -> list[dict[str, object]]:
    """One entry per kernel and arch; reports without an object file are left out."""
    entries: list[dict[str, object]] = []
    for report in sorted(build_directory.rglob("*.ptxas")):
        if report.with_suffix("").exists():
            entries += parse(report.read_text(errors="replace"))
    names = _demangle([str(entry["name"]) for entry in entries])
    for entry, name in zip(entries, names, strict=True):
        entry["name"] = name
    return sorted(entries, key=lambda entry: (str(entry["name"]), str(entry["arch"])))


def parse(text: str) -> list[dict[str, object]]:
    """Read the lines of `ptxas -v`; names stay mangled."""
    entries: list[dict[str, object]] = []
    for line in text.splitlines():
        if found := _COMPILING.search(line):
            entries.append({"name": found[1], "arch": found[2]})
        elif entries and (found := _FRAME.search(line)):
            stack, stores, loads = (int(number) for number in found.groups())
            entries[-1] |= {
                "stack_bytes": stack,
                "spill_store_bytes": stores,
                "spill_load_bytes": loads,
            }
        elif entries and (found := _USED.search(line)):
            entries[-1] |= {
                "registers": int(found[1]),
                "static_shared_bytes": int(found[2] or 0),
            }
    return entries


def _demangle(names: list[str]) -> list[str]:
    tool = shutil.which("cu++filt") or shutil.which("c++filt")
    if not names or not tool:
        return names
    done = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True)
    demangled = done.stdout.splitlines()
    return demangled if len(demangled) == len(names) else names
