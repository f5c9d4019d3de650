"""Runs a long command and shows how far it is: `progress.py COMMAND...`.

Of what pip, CMake and ninja print, the latest line that names a step is shown, on one line of a
terminal or every few seconds in a log. A command that fails is shown whole.
"""

import re
import subprocess
import sys
import time
from pathlib import Path

# ninja's "[3/40] Building CXX object cpu/fp32.o", pip's "Collecting torch>=2.5".
STEP = re.compile(r"\[\d+/\d+\]|(Collecting|Downloading|Installing collected packages)\b")
SECONDS = {True: 0.1, False: 5.0}  # between two lines shown, on a terminal and elsewhere
WIDTH = 100


def run(
    command: list[str], directory: Path | None = None, environment: dict[str, str] | None = None
) -> int:
    """The command's exit code; its steps, or where it failed all it printed, on stderr."""
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
