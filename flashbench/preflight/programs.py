"""Programs on this machine: find CUDA's, and ask one that must answer in time."""

import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flashbench.inputs import reason
from flashbench.preflight.finding import CannotCheck

_REAP_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A program's exit status and output."""

    code: int
    output: str
    errors: str

    @property
    def first_line(self) -> str:
        """First line of the errors if there are any, else of the output."""
        lines = (line.strip() for line in f"{self.errors}\n{self.output}".splitlines())
        return next(filter(None, lines), "no answer")[:200]


def ask(command: Sequence[str], seconds: float) -> Answer:
    """Run a program. CannotCheck if it cannot be run, or does not end in time.

    It is then killed but not waited for: a hung driver keeps its callers in the kernel, where no
    signal reaches them.
    """
    name = Path(command[0]).name
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            raise CannotCheck(f"{name} cannot be run: {reason(error)}") from None
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_REAP_SECONDS)
            raise CannotCheck(f"{name} did not answer in {seconds:g} s") from None
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Answer(code, *texts)


def cuda_program(name: str) -> Path | None:
    """Find a CUDA program, on PATH or not: in a toolkit or a pip package."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [Path(home) for home in homes if home]
    places += sorted(Path("/usr/local").glob("cuda-*"), reverse=True)
    places += sorted(Path(sysconfig.get_paths()["purelib"]).glob("nvidia/cu*"), reverse=True)
    return next((p / "bin" / name for p in places if (p / "bin" / name).exists()), None)
