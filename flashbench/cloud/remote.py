"""A machine reached by ssh: start a job there, ask how it is, bring its results home.

All of it is the user's own ssh with the user's own configuration: no key, password or agent is
read here. One connection a question, none that has to last.
"""

import io
import os
import shlex
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.files import replace_file

_OPTIONS = (
    *("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"),
    *("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3"),
)
_FAILED = 255  # ssh's own failure, as opposed to the command's
_MOST_BYTES = 1 << 30  # of results that come home
_ABSENT = 3


class ConnectionLostError(NotMeasuredError):
    """ssh did not reach the machine, or lost it: the job goes on without us."""


@dataclass(frozen=True)
class Status:
    """What a job says. last: its last line. ended: exit code and reason, None while it runs or
    where it died. running: whether a process of it is there."""

    last: str
    ended: tuple[int, str] | None
    running: bool


@dataclass(frozen=True)
class Remote:
    """A folder on a host. host: as ssh takes it; config: a configuration file in the place of the
    user's own. timeout: seconds for one question."""

    host: str
    folder: str
    config: Path | None = None
    timeout: float = 600.0

    def __post_init__(self) -> None:
        if not self.host or self.host.startswith("-") or not self.host.isprintable():
            raise InvalidInputError(f"--ssh {self.host!r} names no host; write user@host")

    def command(self, script: str) -> list[str]:
        """What is run here to have `script` run there, by sh in the home directory."""
        config = ["-F", str(self.config)] if self.config else []
        return ["ssh", *_OPTIONS, *config, "--", self.host, f"sh -c {shlex.quote(script)}"]

    def send(self, payload: Path) -> None:
        """Put a packed job there, whole or not at all; one that is there stays."""
        there = shlex.quote(self.folder)
        with tempfile.TemporaryFile() as packed:
            with tarfile.open(fileobj=packed, mode="w") as tar:
                tar.add(payload, ".")
            packed.seek(0)
            self._ask(
                f"set -e; umask 077; [ ! -e {there} ] || exit 0; rm -rf {there}.part; "
                f"mkdir -p {there}.part; tar -xf - -C {there}.part; mv {there}.part {there}",
                packed,
            )

    @property
    def starting(self) -> str:
        """The script that starts the job, in a session of its own, so that nothing here ends it."""
        there = shlex.quote(self.folder)
        return f"cd {there} && {{ setsid nohup bash ./job.sh </dev/null >job.log 2>&1 & }}"

    def start(self) -> None:
        """Start the job; one that runs or has ended stays as it is."""
        self._ask(self.starting)

    def status(self) -> Status | None:
        """How the job is; None where it is not there."""
        said = self._ask(
            f"cd {shlex.quote(self.folder)} 2>/dev/null || exit {_ABSENT}; "
            "if flock -n lock true 2>/dev/null; then echo no; else echo yes; fi; "
            "{ tail -n 1 results/stderr.txt | head -c 300; } 2>/dev/null; echo; "
            "head -c 300 ended 2>/dev/null; true",
            absent=True,
        )
        if said is None:
            return None
        running, _, rest = said.decode(errors="replace").partition("\n")
        last, _, end = rest.partition("\n")
        code, _, why = end.strip().partition(" ")
        ended = (int(code), why.strip()) if code.isdecimal() else None
        return Status(last.strip().removeprefix("flashbench: "), ended, running == "yes")

    def stop(self) -> None:
        """Have the job save and end."""
        self._ask(
            f"cd {shlex.quote(self.folder)} 2>/dev/null || exit 0; "
            "flock -n lock true || kill -TERM $(cat pid)"
        )

    def fetch(self, target: Path) -> list[Path]:
        """Bring the files of results/ into the folder `target`; those that came. Nothing else that
        an archive can hold is taken: no links, no folders, no names that lead elsewhere."""
        said = self._ask(f"cd {shlex.quote(self.folder)} && mkdir -p results && tar -cf - results")
        assert said is not None
        found = []
        try:
            with tarfile.open(fileobj=io.BytesIO(said)) as tar:
                for member in tar:
                    path = PurePosixPath(member.name)
                    if not member.isreg() or len(path.parts) != 2 or ".." in path.parts:
                        continue
                    file = tar.extractfile(member)
                    assert file is not None
                    replace_file(target / path.name, file.read())
                    found.append(target / path.name)
        except (tarfile.TarError, EOFError) as error:
            raise ConnectionLostError(
                f"{self.host}: the results did not come whole: {error}"
            ) from None
        return found

    def remove(self) -> None:
        """Remove the job's folder."""
        there = shlex.quote(self.folder)
        self._ask(f"chmod -R u+rwX {there} 2>/dev/null; rm -rf {there}")

    def _ask(
        self, script: str, sent: IO[bytes] | None = None, *, absent: bool = False
    ) -> bytes | None:
        """What a script prints. absent: whether it may say that the job is not there: None."""
        try:
            with tempfile.TemporaryFile() as printed:
                done = subprocess.run(
                    self.command(script),
                    stdin=sent or subprocess.DEVNULL,
                    stdout=printed,
                    stderr=subprocess.PIPE,
                    timeout=self.timeout,
                )
                size = printed.seek(0, os.SEEK_END)
                printed.seek(0)
                text = printed.read(_MOST_BYTES)
        except FileNotFoundError:
            raise NotMeasuredError("ssh is not on PATH; install an OpenSSH client") from None
        except subprocess.TimeoutExpired:
            raise ConnectionLostError(f"{self.host}: no answer within {self.timeout:g} s") from None
        if size > _MOST_BYTES:
            raise NotMeasuredError(f"{self.host}: more than {_MOST_BYTES >> 30} GiB of results")
        words = done.stderr.decode(errors="replace").strip().splitlines()
        said = words[-1] if words else f"exit code {done.returncode}"
        if done.returncode == _FAILED:
            raise ConnectionLostError(f"{self.host}: {said}")
        if absent and done.returncode == _ABSENT:
            return None
        if done.returncode:
            raise NotMeasuredError(f"{self.host}: {said}")
        return text
