"""Commands of flashbench in forks of one process that has imported torch (forked.py).

For tests of what commands measure and decide. Tests of signals, streams, start and end of processes
start them as users do.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import forked

ROOT = Path(__file__).parents[1]


def run(
    arguments: Sequence[object],
    cwd: Path,
    environment: Mapping[str, str] = {},
    packages: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """`flashbench ARGUMENTS` in `cwd`. environment: besides this process's; packages: a folder of
    packages that are installed, as it were."""
    path = [str(packages)] if packages else []
    ours = {"PYTHONPATH": os.pathsep.join([str(ROOT), *path])}
    process = _server()
    assert process.stdin
    assert process.stdout
    with tempfile.TemporaryDirectory() as output:
        request = {
            "arguments": list(map(str, arguments)),
            "directory": str(cwd),
            "environment": os.environ | ours | environment,
            "output": output,
        }
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        code = int(process.stdout.readline())
        said = [(Path(output) / name).read_text() for name in ("stdout", "stderr")]
    return subprocess.CompletedProcess(arguments, code, *said)


@cache
def _server() -> "subprocess.Popen[str]":
    """It ends with this process, which holds the other end of its stdin."""
    command = [sys.executable, "-P", forked.__file__, str(ROOT)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
