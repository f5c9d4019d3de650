"""Files as they are written: replaced whole, with links, devices, modes and owners kept."""

import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import forks
import numpy as np
import pytest
from synthetic import make_cases, make_run

from flashbench import runfile
from flashbench.files import replace_file, write_file

ROOT = Path(__file__).parents[1]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def device(path: Path, minor: int) -> Path:
    """A device of our own, as that of the system may not be risked: 3 is null, 7 is full."""
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
        path.write_bytes(b"" if minor == 7 else b"x")
    except PermissionError as error:
        pytest.skip(f"making devices is not permitted here: {error}")
    return path


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    run = make_run(np.random.default_rng(0), cases=make_cases(2), launches=2, samples=4)
    runfile.save(run, tmp_path / "measured.json")
    return tmp_path / "measured.json"


def show(*arguments: object, **streams: int) -> subprocess.CompletedProcess[str]:
    return forks.run(["show", *arguments], ROOT, **streams)


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
@pytest.mark.parametrize("write", [write_file, replace_file])
def test_new_file_has_the_mode_of_the_umask(tmp_path, write, umask):
    """A file is made as any program makes one, in a folder that is made for it."""
    before = os.umask(umask)
    try:
        write(tmp_path / "new" / "file", b"1")
    finally:
        os.umask(before)
    assert mode(tmp_path / "new" / "file") == 0o666 & ~umask


@pytest.mark.parametrize("write", [write_file, replace_file])
def test_mode_and_owner_of_a_file_stay(tmp_path, write):
    """A replaced file keeps its readers: no more and no fewer users can read it."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o640)
    if os.getuid() == 0:
        os.chown(path, 1234, 4321)
    before = path.stat()
    write(path, b"new")
    after = path.stat()
    assert path.read_bytes() == b"new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode, before.st_uid, before.st_gid,
    )  # fmt: skip
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("there", [True, False])
def test_link_stays_and_its_target_is_replaced(tmp_path, there):
    """What a user names may be a link to a link, to a file that is there or not yet."""
    (tmp_path / "far").mkdir()
    target = tmp_path / "far" / "file"
    if there:
        target.write_bytes(b"old")
    (tmp_path / "far" / "link").symlink_to("file")
    (tmp_path / "link").symlink_to(Path("far") / "link")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "far" / "link").is_symlink()
    assert target.read_bytes() == b"new"


def test_links_in_our_own_folders_are_not_followed(tmp_path):
    """A link in a results folder may have come with a repository: neither it nor its target go."""
    (tmp_path / "secret").write_bytes(b"mine")
    (tmp_path / "link").symlink_to("secret")
    with pytest.raises(OSError, match="symbolic link"):
        replace_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "secret").read_bytes() == b"mine"


def test_loop_of_links_is_refused(tmp_path):
    """It leads nowhere, and is reported so."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        write_file(tmp_path / "a", b"new")


def test_device_is_written_to_and_stays(tmp_path, measured):
    """A null device takes the table and is a null device after; a full one is reported."""
    null = device(tmp_path / "null", 3)
    done = show(measured, "-o", null)
    assert (done.returncode, done.stderr) == (0, "")
    assert stat.S_ISCHR(null.stat().st_mode)
    full = device(tmp_path / "full", 7)
    done = show(measured, "-o", full)
    assert done.returncode == 2
    assert done.stderr == f"flashbench: {full}: cannot be written: No space left on device\n"
    assert stat.S_ISCHR(full.stat().st_mode)


def test_pipe_gets_the_table(tmp_path, measured):
    """A reader of a named pipe gets what stdout would have; without one nothing waits."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = show(measured, "-o", pipe)
    assert done.returncode == 2
    assert "this pipe has no reader" in done.stderr
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    done = show(measured, "--format", "csv", "-o", pipe)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert os.read(reader, 1 << 16).decode() == show(measured, "--format", "csv").stdout
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_stdout_by_its_name_adds_to_a_log(tmp_path, measured, name):
    """`-o /dev/stdout >> log` adds the table to the log, as stdout would."""
    log = tmp_path / "log"
    log.write_text("before\n")
    link = tmp_path / "link"
    link.symlink_to(name)
    for named in (name, link):
        with log.open("a") as stdout:
            assert show(measured, "-o", named, stdout=stdout.fileno()).returncode == 0
    text = log.read_text()
    assert text.startswith("before\n")
    assert text.count("b1-h1-q128") == 2 * show(measured).stdout.count("b1-h1-q128")


def test_a_report_replaces_a_report_and_no_measurement(tmp_path, measured):
    """A table is made again as often as one likes; never in the place of a run file."""
    before = measured.read_bytes()
    for output_format in ("markdown", "json", "json", "text"):
        done = show(measured, "-o", tmp_path / "table", "--format", output_format)
        assert done.returncode == 0, done.stderr
    (tmp_path / "link").symlink_to("measured.json")
    inputs = ROOT / "tests" / "other_tools" / "inputs"
    for path in (measured, tmp_path / "link", inputs / "pytest_a.json"):
        done = show(measured, "-o", path)
        assert done.returncode == 2
        assert done.stderr == (
            f"flashbench: {path}: holds measurements, which no report replaces; name another file "
            "with -o\n"
        )
    assert measured.read_bytes() == before


def test_what_cannot_be_written_is_told(tmp_path, measured):
    """A folder, a read-only file, a file in a folder's place, a full disk: one line, code 2."""
    table = tmp_path / "table.txt"
    table.write_text("old")
    refused = [(tmp_path, "irectory"), (measured / "x", "Not a directory")]
    if os.getuid() != 0:
        table.chmod(0o444)
        refused.append((table, "Permission denied"))
    for path, words in refused:
        done = show(measured, "-o", path)
        assert done.returncode == 2
        assert words in done.stderr
        assert done.stderr.count("\n") <= 2
    table.chmod(0o644)
    small = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # noqa: E731
    command = [sys.executable, "-m", "flashbench", "show", measured, "-o", table]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, preexec_fn=small)
    assert done.returncode == 2
    assert done.stderr == f"flashbench: {table}: cannot be written: File too large\n"
    assert table.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["measured.json", "table.txt"]
