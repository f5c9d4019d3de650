"""Runs a command and ends it, with all it started, when the process that asked for it is gone.

`supervise.py PARENT COMMAND...`, in a session of its own. Run by its path, with the standard
library alone. Linux only does the latter; elsewhere a killed flashbench leaves its build running.
"""

import ctypes
import os
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: os.killpg(0, signal.SIGKILL))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before we asked
            sys.exit(1)
    code = subprocess.run(command).returncode
    if code < 0:  # end as the command did
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
