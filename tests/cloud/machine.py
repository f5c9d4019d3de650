"""A machine to reach by ssh: a real sshd on loopback, with its own keys and its own home."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from flashbench.files import remove_tree

SSHD = shutil.which("sshd", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"]))
needs_sshd = pytest.mark.skipif(SSHD is None, reason="no sshd here")


class Machine:
    """sshd as the user who tests, on a port of its own; `home` is what its jobs find as $HOME.
    name: in its ssh configuration."""

    def __init__(self, root: Path, name: str = "machine") -> None:
        self.root, self.home = root, root / "home"
        self.home.mkdir(parents=True)
        root.chmod(0o700)
        for key in ("host", "user"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(root / key))
        shutil.copy(root / "user.pub", root / "authorized")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        # At its second level bash reads no ~/.bashrc, which is that of the user who tests.
        (root / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {root}/host\n"
            f"AuthorizedKeysFile {root}/authorized\nPidFile none\nUsePAM no\nStrictModes no\n"
            f"PasswordAuthentication no\nPermitRootLogin yes\nSetEnv SHLVL=2\n"
            f"ForceCommand cd {self.home} && "
            f'HOME={self.home} PATH={root}/bin:$PATH exec sh -c "$SSH_ORIGINAL_COMMAND"\n'
        )
        (root / "bin").mkdir()
        # They note when the machine would end, and which jobs it has then; `stays-on` forbids it.
        for program in ("sudo", "shutdown"):
            (root / "bin" / program).write_text(
                "#!/bin/sh\n[ ! -e ~/stays-on ] || exit 1\n"
                'echo "$0" "$@": $(ls ~/flashbench-cloud) >>~/off\n'
            )
            (root / "bin" / program).chmod(0o755)
        self._shared = tempfile.mkdtemp()  # in which the path of a socket is short enough
        self.config = root / "ssh_config"
        self.config.write_text(
            f"Host {name}\n  HostName 127.0.0.1\n  Port {self.port}\n  IdentityFile {root}/user\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {root}/known\n"
            "  StrictHostKeyChecking accept-new\n"
            # The default, against quantum computers, took a quarter of the time of these tests.
            "  KexAlgorithms curve25519-sha256\n"
            # Queries share a connection while it lasts: a fifth of the time.
            f"  ControlMaster auto\n  ControlPersist 60\n  ControlPath {self._shared}/%C\n"
        )
        self._sshd: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Until it answers."""
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # sshd of root wants it
        assert SSHD is not None
        log = (self.root / "sshd.log").open("ab")
        self._sshd = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", str(self.root / "sshd_config")], stderr=log
        )
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError((self.root / "sshd.log").read_text())

    def kill(self) -> None:
        """Kill sshd and all its connections at once; their child processes live on."""
        assert self._sshd is not None
        for pid in _descendants(self._sshd.pid):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                if "sshd" in Path(f"/proc/{pid}/comm").read_text():
                    os.kill(pid, signal.SIGKILL)
        self._sshd.kill()
        self._sshd.wait()
        self._sshd = None

    def close(self) -> None:
        if self._sshd is not None:
            self.kill()
        remove_tree(self._shared)  # also where a job that has just ended removes its files


def _descendants(pid: int) -> list[int]:
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            children += map(int, task.read_text().split())
    return [*children, *(far for child in children for far in _descendants(child))]


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
