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
from pathlib import Path
from typing import Self

import forked

ROOT = Path(__file__).parents[1]


class Forks:
    """Use as a context manager; the process starts with the first command."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            assert self._process.stdin
            self._process.stdin.close()
            self._process.wait()

    def run(
        self,
        arguments: Sequence[object],
        cwd: Path,
        environment: Mapping[str, str] = {},
        packages: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """`flashbench ARGUMENTS` in `cwd`. environment: besides this process's; packages: a folder
        of packages that are installed, as it were."""
        if self._process is None:
            command = [sys.executable, "-P", forked.__file__, str(ROOT)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert self._process.stdin
        assert self._process.stdout
        path = [str(packages)] if packages else []
        with tempfile.TemporaryDirectory() as output:
            request = {
                "arguments": list(map(str, arguments)),
                "directory": str(cwd),
                "environment": os.environ
                | {"PYTHONPATH": os.pathsep.join([str(ROOT), *path])}
                | environment,
                "path": path,
                "output": output,
            }
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            said = [(Path(output) / name).read_text() for name in ("stdout", "stderr")]
        return subprocess.CompletedProcess(arguments, code, *said)
