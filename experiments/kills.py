"""Kill measuring commands repeatedly, and check that the run file stays whole and resumes
losslessly.

    python experiments/kills.py run|aa|compare|backfill [KILLS] [SEED] [FOLDER]

A process is ended by SIGINT, SIGTERM, SIGHUP or SIGKILL after some saves of its run file, or during
one. The same command then resumes. compare and backfill measure commits of a small project, which
FOLDER may keep with its builds.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from flashbench import runfile
from flashbench.runfile import Result

ROOT = Path(__file__).parents[1]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
TINY = ["--shape", "1,1,8,32", "--shape", "1,1,16,32", "--dtype", "fp32", "--causal", "full"]
TINY += ["--device", "cpu", "--threads", "1", "--min-sample", "0.1ms", "--samples", "2"]
CORRECT = "tests.measuring.candidates_for_tests:correct"
_WAIT_SECONDS = 300.0

Measured = dict[tuple[int, str], list[Result]]


@dataclass(frozen=True)
class Event:
    """When to kill: after this many saves of the run file; writing: during the next one."""

    saved: int
    writing: bool


class LostError(Exception):
    """Measurements were lost: this must never happen."""


def measured(path: Path) -> Measured:
    """By launch and case, the measurements of all its candidates. Raises LostError."""
    if not path.exists():
        return {}
    run = runfile.read(path)
    found: Measured = {}
    for launch in run.launches:
        for case in run.cases:
            results = [r for r in launch.results if r.case == case.id and r.status == "ok"]
            if len(results) == len(run.candidates):
                # Looked at when the launch ends, so that it may come later.
                for result in results:
                    result.peak_memory_bytes, result.kernels = None, []
                found[launch.index, case.id] = sorted(results, key=lambda r: r.candidate)
    return found


def started(command: list[str], cwd: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "flashbench", *command],
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill(
    process: "subprocess.Popen[str]", path: Path, number: signal.Signals, event: Event
) -> tuple[int, str]:
    """End a command at an event; its exit status and stderr. One that ends first is not killed."""
    last, saved = _inode(path), 0
    end = time.monotonic() + _WAIT_SECONDS
    while process.poll() is None and time.monotonic() < end:
        now = _inode(path)
        saved += now != last
        last = now
        if saved >= event.saved and (not event.writing or _is_written(path)):
            process.send_signal(number)
            break
        time.sleep(0.0005 if saved >= event.saved else 0.01)
    _, errors = process.communicate(timeout=_WAIT_SECONDS)
    return process.returncode, errors


def check(before: Measured, path: Path, code: int, errors: str) -> Measured:
    """The current measurements. Raises LostError if any are missing or the command ended
    wrongly."""
    after = measured(path)
    for key, results in before.items():
        if after.get(key) != results:
            raise LostError(f"launch {key[0]}, {key[1]}: {path} has it no more, or another")
    if "Traceback" in errors or code not in (0, 1, 3, 4, *(-number for number in SIGNALS)):
        raise LostError(f"exit status {code}: {errors}")
    if code == 4 and "interrupted" not in errors:
        raise LostError(f"it was not interrupted: {errors}")
    return after


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0


def _is_written(path: Path) -> bool:
    return any(entry.suffix == ".part" for entry in path.parent.iterdir())


def commands(name: str, folder: Path) -> tuple[list[str], Path]:
    """The arguments up to the run file's flag, and the working directory."""
    if name == "run":
        return [name, *TINY, "--candidate", CORRECT, "--launches", "6", "-o"], ROOT
    if name == "aa":
        flags = ["--launches", "3", "--comparisons", "2"]
        return [name, *TINY, *flags, "--run-file"], ROOT
    sys.path.insert(0, str(ROOT / "tests"))
    from revisions.repository import fastattn

    os.environ["FLASHBENCH_CACHE"] = str(folder / "cache")
    root = folder / "fastattn"
    if not root.exists():
        repository = fastattn(root)
        repository.edit("csrc/config.h", "DELAY = 0", "DELAY = 20000")
        repository.commit("Wait")
    if name == "compare":
        return [name, "HEAD~1", "HEAD", *TINY, "--launches", "6", "--run-file"], root
    return [name, "HEAD~1", "HEAD", *TINY, "--launches", "4", "-o"], root


def main() -> None:
    name = sys.argv[1]
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 25
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    folder = Path(sys.argv[4]) if len(sys.argv) > 4 else Path(tempfile.mkdtemp())
    command, cwd = commands(name, folder.absolute())
    os.environ["PYTHONPATH"] = str(ROOT)
    files = folder.absolute() / name
    files.mkdir(parents=True, exist_ok=True)
    count: Counter[str] = Counter()
    number, before = 0, Measured()
    while count["killed"] < kills:
        path = files / f"{number}.json"
        ending = rng.choice(SIGNALS)
        event = Event(rng.randint(0, 3), rng.random() < 0.5)
        code, errors = kill(started([*command, str(path)], cwd), path, ending, event)
        before = check(before, path, code, errors)
        if code in (4, *(-one for one in SIGNALS)):
            count["killed"] += 1
            count[f"{ending.name}{', while writing' if event.writing else ''}: {code}"] += 1
        else:
            count["ended"] += 1
            run = runfile.read(path)
            if name != "compare" and not all(launch.complete for launch in run.launches):
                raise LostError(f"{path}: unfinished, and exit status {code}")
            number, before = number + 1, {}
    for what, times in sorted(count.items()):
        print(f"{what}: {times}")


if __name__ == "__main__":
    main()
