"""Locks between real processes: one holder, named to others, and none that outlives its process."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flashbench import locks

HOLD = """
import os, sys, time
from pathlib import Path
from flashbench import locks
with locks.exclusive(Path(sys.argv[1])):
    if sys.argv[2] == "fork":
        ours, theirs = os.pipe()
        if os.fork() == 0:
            os.write(theirs, b"1")
            time.sleep(60)
        os.read(ours, 1)  # the child runs
    print(os.getpid(), flush=True)
    time.sleep(60)
"""


def holding(path: Path, how: str = "") -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, path, how], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


def take(path: Path) -> None:
    with locks.exclusive(path, wait=False):
        pass


def test_a_second_holder_hears_who_and_since_when(tmp_path):
    """The message has the process and its time, by which it can be found and ended."""
    process = holding(tmp_path / "lock")
    with pytest.raises(locks.BusyError, match=rf"^process {process.pid} since 20..-..-.. ..:..:.."):
        take(tmp_path / "lock")
    process.kill()
    process.wait()
    take(tmp_path / "lock")
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_holds_nothing(tmp_path):
    """A child that outlives its killed parent does not keep the lock."""
    process = holding(tmp_path / "lock", "fork")
    process.kill()
    process.wait()
    take(tmp_path / "lock")


def test_a_forked_child_that_leaves_the_block_releases_nothing(tmp_path):
    """The end of the block in a child is not that of its parent."""
    with locks.exclusive(tmp_path / "lock"):
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            assert (tmp_path / "lock").exists()
            with pytest.raises(locks.BusyError):
                take(tmp_path / "lock")
    if not child:
        os._exit(0)


def test_a_lock_that_waits_gets_its_turn(tmp_path):
    """A lock's file is removed with its holder; a waiting process then holds the new one alone."""
    script = (
        "import sys; from pathlib import Path; from flashbench import locks\n"
        "for _ in range(50):\n"
        "    with locks.exclusive(Path(sys.argv[1]) / 'lock'):\n"
        "        count = Path(sys.argv[1]) / 'count'\n"
        "        count.write_text(str(int(count.read_text()) + 1))\n"
    )
    (tmp_path / "count").write_text("0")
    command = [sys.executable, "-c", script, tmp_path]
    for process in [subprocess.Popen(command) for _ in range(4)]:
        assert process.wait() == 0
    assert (tmp_path / "count").read_text() == "200"


def test_shared_locks_keep_an_exclusive_one_out(tmp_path):
    """Who uses the build cache shares its lock until the process ends."""
    script = (
        "import sys; from pathlib import Path; from flashbench import locks\n"
        "locks.share_until_exit(Path(sys.argv[1])); print(flush=True); input()\n"
    )
    processes = []
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", script, tmp_path / "lock"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        process.stdout.readline()
        processes.append(process)
    for process in processes:
        with pytest.raises(locks.BusyError):
            take(tmp_path / "lock")
        process.communicate("\n")
    take(tmp_path / "lock")


@pytest.mark.parametrize("junk", [b"", b"junk", b'{"pid": "x"}', b"\xff" * 5000])
def test_whatever_a_lock_file_says(tmp_path, junk):
    """What stands in it is for the message alone: it is not trusted."""
    with (tmp_path / "lock").open("wb") as file:
        file.write(junk)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(locks.BusyError, match=r"^another process$"):
            take(tmp_path / "lock")


def test_a_link_in_the_place_of_a_lock_is_refused(tmp_path):
    """It may have come with a repository: its target is neither made nor written."""
    (tmp_path / "lock").symlink_to("target")
    with pytest.raises(OSError, match="symbolic links"):
        take(tmp_path / "lock")
    assert not (tmp_path / "target").exists()


def test_no_locks_here_is_an_error(tmp_path, monkeypatch):
    """A file system without locks says so; nothing stays open."""

    def none(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    with pytest.raises(OSError, match="No locks available") as caught:
        take(tmp_path / "lock")
    assert caught.value.errno in locks.UNSUPPORTED
    assert len(os.listdir("/proc/self/fd")) == len(before)  # noqa: PTH208
