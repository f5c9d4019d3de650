"""Run a long command and show its progress: `progress.py COMMAND...`.

Shows the latest line of pip, CMake or ninja that names a step, on one line of a terminal or every
few seconds in a log. If the command fails, shows its whole output.
"""

import re
import subprocess
import sys
import time
from pathlib import Path

# ninja's "[3/40] Building CXX object cpu/fp32.o", pip's "Collecting torch>=2.5".
STEP = re.compile(r"\[\d+/\d+\]|(Collecting|Downloading|Installing collected packages)\b")
SECONDS = {True: 0.1, False: 5.0}  # seconds between lines, on a terminal and elsewhere
WIDTH = 100


def run(
    command: list[str], directory: Path | None = None, environment: dict[str, str] | None = None
) -> int:
    """Run it and return its exit code; prints its steps, or on failure all its output, on
    stderr."""
    terminal = sys.stderr.isatty()
    lines, shown = [], time.monotonic()
    with subprocess.Popen(
        command,
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if STEP.match(line.strip()) and time.monotonic() - shown >= SECONDS[terminal]:
                shown = time.monotonic()
                text = line.strip()[:WIDTH]
                sys.stderr.write(f"\r\x1b[K  {text}" if terminal else f"  {text}\n")
                sys.stderr.flush()
    if terminal:
        sys.stderr.write("\r\x1b[K")
    if process.returncode:
        sys.stderr.writelines(lines)
    return process.returncode


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
