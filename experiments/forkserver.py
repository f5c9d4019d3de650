"""How multiprocessing's forkserver copes with misbehaving revisions, for
docs/decisions/own-fork-server.md: `python experiments/forkserver.py`.

Each revision is a function that runs as `Checker` would run an import: in a process forked by the
fork server after it imported torch, with JSON over a pipe and a time limit.
"""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

LIMIT_SECONDS, STARTING_SECONDS = 2.0, 60.0  # the start imports torch
LEFT = Path(f"/tmp/forkserver-{os.getuid()}")  # noqa: S108 (pids, read back by this script)
Revision = Callable[[], object]


def right() -> None:
    """Import torch, which the server did before the fork."""
    import torch

    torch.ones(1).add(1)


def segfault() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def leave_session() -> None:
    """Leave a process in its own session."""
    if not os.fork():
        os.setsid()
        LEFT.write_text(str(os.getpid()))
        time.sleep(10)
        os._exit(0)
    time.sleep(0.5)


def kill_server() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(10)


def hang() -> None:
    LEFT.write_text(str(os.getpid()))
    time.sleep(10)


REVISIONS: dict[str, Revision] = {
    "first": right,
    "right": right,
    "exit 7": lambda: os._exit(7),
    "SIGSEGV": segfault,
    "abort": os.abort,
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "hang": hang,
    "print": lambda: os.write(1, b"noise " * 3),
    "leave a process": leave_session,
    "kill the server": kill_server,
    "the next one": right,
}


def child(name: str, pipe: Connection) -> None:
    REVISIONS[name]()
    pipe.send_bytes(b"{}")  # JSON; `send` would pickle, and `recv` run what a revision pickled


def tried(name: str, seconds: float = LIMIT_SECONDS) -> str:
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(name, theirs))
    process.start()
    theirs.close()
    said = b""
    try:
        with contextlib.suppress(EOFError):
            said = ours.recv_bytes() if ours.poll(seconds) else b"nothing in time"
    finally:
        process.join(0.5)
        process.kill()
        process.join()
    return f"exit code {process.exitcode}, said {said.decode() or 'nothing'}"


def left() -> str:
    running = subprocess.run(["ps", "-o", "stat=", "-p", LEFT.read_text()], stdout=-1, text=True)
    return "still runs" if running.stdout.strip("Z \n") else "has ended"


def main() -> None:
    multiprocessing.set_forkserver_preload(["torch"])
    if sys.argv[1:] == ["hang"]:
        tried("hang", STARTING_SECONDS)
        return
    for name in REVISIONS:
        seconds = STARTING_SECONDS if name == "first" else LIMIT_SECONDS
        start = time.monotonic()
        print(f"{name}: {tried(name, seconds)}, {time.monotonic() - start:.2f} s", flush=True)
        if name == "leave a process":
            print(f"  what it left {left()}")
    command = subprocess.Popen([sys.executable, __file__, "hang"])
    LEFT.unlink()
    while not LEFT.exists():
        time.sleep(0.1)
    command.kill()
    command.wait()
    time.sleep(2)
    print(f"the command that asks is killed: its revision {left()}")


if __name__ == "__main__":
    main()
