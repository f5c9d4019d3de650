"""Files as they are read: pipes, devices, sockets and folders are refused, and never waited for."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import forks
import numpy as np
import pytest
from synthetic import make_cases, make_run

from flashbench import runfile
from flashbench.errors import InvalidInputError
from flashbench.history import commit_record
from flashbench.history.read_cache import key_of
from flashbench.machine import read as load_profile
from flashbench.other_tools import untrusted_json

ROOT = Path(__file__).parents[1]


def no_file(kind: str, path: Path) -> str:
    """Make something that is not a regular file; returns its kind in messages."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
        return "a directory"
    elif kind == "socket":
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(os.path.relpath(path))
        return "No such device"
    else:
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))  # endless zeros
        except PermissionError as error:
            pytest.skip(f"making devices is not permitted here: {error}")
        return "a device"
    return "a pipe"


def flashbench(
    *arguments: object, cwd: Path = ROOT, **streams: int
) -> subprocess.CompletedProcess[str]:
    return forks.run(arguments, cwd, **streams)


def flashbench_fed(*arguments: object, file: Path) -> subprocess.CompletedProcess[str]:
    """`cat FILE | flashbench ARGUMENTS`."""
    with subprocess.Popen(["cat", file], stdout=subprocess.PIPE) as cat:
        assert cat.stdout
        return flashbench(*arguments, stdin=cat.stdout.fileno())


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    run = make_run(np.random.default_rng(0), cases=make_cases(2), launches=2, samples=4)
    runfile.save(run, tmp_path / "measured.json")
    return tmp_path / "measured.json"


@pytest.mark.parametrize("kind", ["pipe", "folder", "socket", "device"])
@pytest.mark.parametrize(
    "read",
    [runfile.content, untrusted_json.content, commit_record.read, load_profile],
    ids=lambda f: f.__module__,
)
def test_readers_refuse_what_is_no_file(tmp_path, monkeypatch, kind, read):
    """Every reader of untrusted files reports the kind in one line, and never waits."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "it.json"
    words = no_file(kind, path)
    with pytest.raises(InvalidInputError, match=words):
        read(path)
    assert key_of(path) == ""


COMMANDS = [
    ["show"],
    ["compare"],
    ["merge", "-o", "merged.json"],
    ["record"],
    ["run", "--resume"],
    ["aa", "--resume"],
    ["compare", "HEAD", "HEAD", "--resume"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_commands_refuse_a_pipe(tmp_path, arguments):
    """A named pipe without a writer hangs no command."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    os.mkfifo(tmp_path / "it.json")
    done = flashbench(*arguments, "it.json", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr == (
        "flashbench: it.json: cannot be read: it is a pipe, not a regular file\n"
    )


@pytest.mark.parametrize("arguments", [["f1"], ["measured.json", "f1"], ["f1", "measured.json"]])
def test_compare_says_that_a_name_is_a_pipe(measured, arguments):
    """Also where the name has no ending of a run file: it is there, so it is no revision."""
    os.mkfifo(measured.parent / "f1")
    done = flashbench("compare", *arguments, cwd=measured.parent)
    assert done.returncode == 2
    assert done.stderr == "flashbench: f1: cannot be read: it is a pipe, not a regular file\n"


EMPTY = ["show", "merge -o m.json", "merge a.json -o", "record", "record a.json --results"]
EMPTY += ["run --resume", "run -o", "show a.json -o", "aa --run-file", "aa --resume", "aa -o"]
EMPTY += ["compare a b --run-file", "compare a b --resume", "gate -o", "gate --run-file"]
EMPTY += ["history -o", "history --results", "publish -o", "publish --results"]
EMPTY += ["backfill -o", "backfill --list", "backfill --results"]


@pytest.mark.parametrize("arguments", EMPTY)
def test_an_empty_path_is_refused(tmp_path, arguments):
    """A variable that is not set names no file, and never the working directory."""
    done = flashbench(*arguments.split(), "", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith(": an empty path names no file\n"), done.stderr
    assert done.stderr.count("\n") == 1


def test_pipes_in_a_results_folder_hide_nothing(tmp_path):
    """history and publish note a pipe among the results, and go on."""
    git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    machine = tmp_path / "results" / "box"
    machine.mkdir(parents=True)
    for name in ("abc.json", "machine.json", "../benchmarks.json"):
        os.mkfifo(machine / name)
    for command in ("history", "publish"):
        done = flashbench(command, "--results", "results", cwd=tmp_path)
        assert done.returncode == 4, done.stderr
        assert "Traceback" not in done.stderr
        assert "abc.json: cannot be read: it is a pipe" in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["show", "compare"])
def test_a_pipe_that_the_user_opened_is_read(measured, command):
    """`cat run.json | flashbench show /dev/stdin` and `show <(cat run.json)` print the table."""
    expected = flashbench(command, measured)
    assert expected.stdout
    script = f"{sys.executable} -m flashbench {command} <(cat {measured})"
    with measured.open() as file:
        for done in (
            flashbench_fed(command, "/dev/stdin", file=measured),
            flashbench(command, "/dev/stdin", stdin=file.fileno()),
            subprocess.run(
                ["bash", "-c", script], env=dict(os.environ), capture_output=True, text=True
            ),
        ):
            found = (done.returncode, done.stdout)
            assert found == (expected.returncode, expected.stdout), done.stderr


def test_other_tools_files_are_read_from_a_pipe():
    """The tool is recognised from a pipe's bytes, which can be read only once."""
    file = ROOT / "tests" / "other_tools" / "inputs" / "pytest_a.json"
    done = flashbench_fed("show", "/dev/stdin", "--format", "csv", file=file)
    assert done.stdout == flashbench("show", file, "--format", "csv").stdout
    assert done.returncode == 0, done.stderr
