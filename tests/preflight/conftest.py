"""Every fix that a test of preflight meets is a command, whichever check proposes it."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache

import pytest

from flashbench.preflight import Finding

# Programs of a machine with a GPU, or of a system's owner, and what a shell does itself.
_ELSEWHERE = {"nvidia-smi", "nvcc", "ncu", "cuobjdump", "docker", "sudo", "apt-get", "apt-file"}
_OF_SHELL = {"cd", "export", "unset", "echo"}
_SH, _PATH = shutil.which("sh"), os.environ["PATH"]  # tests change PATH
_OPERATORS = {"&&", "||", "|", ";"}


@cache
def _why_no_command(fix: str) -> str:
    """Why a text is no command; "" if it is one."""
    if "\n" in fix or subprocess.run([str(_SH), "-n", "-c", fix], capture_output=True).returncode:
        return "no shell parses it"
    tokens = shlex.shlex(fix, posix=True, punctuation_chars=True)
    words, begins = list(tokens), True
    for word in words:
        if begins and "=" not in word:
            known = _ELSEWHERE | _OF_SHELL | {"${EDITOR:-vi}", "flashbench"}
            if word not in known and shutil.which(word, path=_PATH) is None:
                return f"there is no program {word}"
            begins = False
        begins = begins or word in _OPERATORS
    return "" if words else "it is empty"


@pytest.fixture(autouse=True)
def fixes_are_commands(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Look at each finding that is made, and fail the test if a fix is none."""
    wrong, make = list[str](), Finding.__init__

    def made(self: Finding, *values: object, **named: object) -> None:
        make(self, *values, **named)  # type: ignore[arg-type]
        if why := _why_no_command(self.fix):
            wrong.append(f"{self.fix}: {why}")

    monkeypatch.setattr(Finding, "__init__", made)
    yield
    assert wrong == []
