"""CMake compiler launcher for nvcc: keep ptxas's report on each kernel beside the object file.

ptxas prints registers, shared memory and spills only when a unit is compiled; a rebuild that
compiles nothing would lose them. ccache behind this launcher replays the report.
"""

import subprocess
import sys
from pathlib import Path


def main(command: list[str]) -> int:
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace")
    lines = done.stderr.splitlines(keepends=True)
    if done.returncode == 0 and "-o" in command and "-c" in command:
        Path(command[command.index("-o") + 1] + ".ptxas").write_text("".join(lines))
    # Keep reports without showing them; show warnings and errors.
    sys.stderr.writelines(line for line in lines if not _is_report(line))
    return done.returncode


def _is_report(line: str) -> bool:
    return line.startswith("ptxas info") or "bytes stack frame" in line or "Function prop" in line


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
