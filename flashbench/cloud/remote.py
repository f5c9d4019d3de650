"""A machine reached by ssh: start a job, query its status, download its results.

Uses the user's own ssh and configuration, and reads no key, password or agent. Each query is one
connection; none has to last.
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
_MOST_BYTES = 1 << 30  # of downloaded results
_ABSENT = 3


class ConnectionLostError(NotMeasuredError):
    """ssh did not reach the machine, or lost the connection; the job continues."""


@dataclass(frozen=True)
class JobStatus:
    """A job's status. measured: seconds since it began to measure. last: its last line. ended: exit
    code and reason, None while it runs or if it died. running: whether a process of it exists."""

    measured: int
    last: str
    ended: tuple[int, str] | None
    running: bool


@dataclass(frozen=True)
class Remote:
    """A folder on a host. host: as for ssh; config: a configuration file instead of the user's.
    timeout: seconds per query."""

    host: str
    folder: str
    config: Path | None = None
    timeout: float = 600.0

    def __post_init__(self) -> None:
        if not self.host or self.host.startswith("-") or not self.host.isprintable():
            raise InvalidInputError(f"--ssh {self.host!r} names no host; write user@host")

    def command(self, script: str) -> list[str]:
        """The local command that runs `script` there, with sh in the home directory."""
        config = ["-F", str(self.config)] if self.config else []
        return ["ssh", *_OPTIONS, *config, "--", self.host, f"sh -c {shlex.quote(script)}"]

    def send(self, payload: Path) -> None:
        """Upload a packed job atomically; keeps an existing one."""
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
        """The script that starts the job in its own session, so that nothing here can end it."""
        there = shlex.quote(self.folder)
        return f"cd {there} && {{ setsid nohup bash ./job.sh </dev/null >job.log 2>&1 & }}"

    def start(self) -> None:
        """Start the job; does nothing if it runs or has ended."""
        self._ask(self.starting)

    def status(self) -> JobStatus | None:
        """The job's status; None if it does not exist."""
        said = self._ask(
            f"cd {shlex.quote(self.folder)} 2>/dev/null || exit {_ABSENT}; "
            "if flock -n lock true 2>/dev/null; then echo no; else echo yes; fi; "
            # The line first: the seconds are then no older than what it says.
            "last=$(tail -n 1 results/stderr.txt 2>/dev/null | head -c 300); "
            "since=$(cat measuring 2>/dev/null); now=$(date +%s); echo $((now - ${since:-$now})); "
            "printf '%s\\n' \"$last\"; "
            "head -c 300 ended 2>/dev/null; true",
            absent=True,
        )
        if said is None:
            return None
        running, _, rest = said.decode(errors="replace").partition("\n")
        seconds, _, rest = rest.partition("\n")
        last, _, end = rest.partition("\n")
        measured = int(seconds) if seconds.isdecimal() else 0
        code, _, why = end.strip().partition(" ")
        ended = (int(code), why.strip()) if code.isdecimal() else None
        return JobStatus(
            measured, last.strip().removeprefix("flashbench: "), ended, running == "yes"
        )

    def stop(self) -> None:
        """Tell the job to save and end."""
        self._ask(
            f"cd {shlex.quote(self.folder)} 2>/dev/null || exit 0; "
            "flock -n lock true || kill -TERM $(cat pid)"
        )

    def fetch(self, target: Path) -> list[Path]:
        """Download the files of results/ into the folder `target`; returns those that arrived.
        Takes only plain files from the archive: no links, folders, or names that lead elsewhere."""
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
        """A script's output. absent: whether it may report a missing job, as None."""
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
