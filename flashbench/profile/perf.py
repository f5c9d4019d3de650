"""Run `perf stat` on exactly the measured CPU calls, by enabling counting between two marks."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from flashbench.errors import NotMeasuredError
from flashbench.process_group import run
from flashbench.profile.ncu import CountersUnavailableError

EVENTS = (
    "task-clock",
    "context-switches",
    "page-faults",
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "L1-dcache-load-misses",
    "branch-misses",
)
_HARDWARE = ("cycles", "instructions")
_FIELDS = 3  # value, unit, event, and more


class Calls(msgspec.Struct, kw_only=True):
    """The target's output: its calls between the marks, and their seconds."""

    calls: int
    seconds: float


_CALLS = msgspec.json.Decoder(Calls)


def find() -> str:
    """Path of perf. Raises CountersUnavailableError."""
    found = shutil.which("perf")
    if found is None:
        raise CountersUnavailableError("there is no perf here: install linux-perf (linux-tools)")
    return found


def collect(perf: str, target: Sequence[str], timeout: float) -> tuple[dict[str, float], str]:
    """Counters per call by perf's names, with `task-clock` in seconds and `seconds`, the wall time;
    and why hardware counters are missing ("" if they are not).

    target: a command that takes the names of two FIFOs, to perf and back. Raises
    CountersUnavailableError without permission, NotMeasuredError if the target fails.
    """
    with tempfile.TemporaryDirectory(prefix="flashbench-perf-") as name:
        folder = Path(name)
        control, answer, counted = folder / "control", folder / "answer", folder / "counted"
        os.mkfifo(control)
        os.mkfifo(answer)
        marks = ["--delay", "-1", "--control", f"fifo:{control},{answer}"]
        command = [perf, "stat", "-x", ";", "-e", ",".join(EVENTS), *marks, "-o", str(counted)]
        try:
            done = run([*command, "--", *target, str(control), str(answer)], timeout)
        except (OSError, subprocess.SubprocessError) as error:
            raise NotMeasuredError(f"perf: {error}") from None
        if "perf_event_paranoid" in done.stderr or "No permission" in done.stderr:
            raise CountersUnavailableError(
                "perf is here, but this user may not count: sysctl kernel.perf_event_paranoid=1, "
                "or run with CAP_PERFMON"
            )
        if done.returncode or not counted.is_file():
            last = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
            raise NotMeasuredError(f"perf: {last[:300]}")
        calls = _calls(done.stdout)
        found = parse(counted.read_text())
    values = {event: value / calls.calls for event, value in found.items()}
    values["seconds"] = calls.seconds / calls.calls
    if any(event in found for event in _HARDWARE):
        return values, ""
    return values, "perf is here, but this machine offers it no counters of its CPU (virtual?)"


def _calls(stdout: str) -> Calls:
    """What the target said last, before whatever a candidate prints at its exit. Raises
    NotMeasuredError."""
    for line in reversed(stdout.splitlines()):
        with contextlib.suppress(msgspec.DecodeError):
            return _CALLS.decode(line)
    raise NotMeasuredError("perf: the process ended without saying how many calls it made")


def parse(text: str) -> dict[str, float]:
    """The counted events of `perf stat -x ;`, with task-clock in seconds.

    Lines: value;unit;event;running time;percent of the time. "<not supported>" and "<not counted>"
    are no values. perf itself extrapolates counters that shared the hardware.
    """
    found = {}
    for line in text.splitlines():
        fields = line.split(";")
        if len(fields) < _FIELDS or line.startswith("#"):
            continue
        value, unit, event = fields[:_FIELDS]
        try:
            number = float(value.replace(",", "."))
        except ValueError:
            continue
        name = event.partition(":")[0]  # "cycles:u" if only user space may be counted
        # Without a unit task-clock is in nanoseconds, as perf before 4.19 wrote it.
        scale = {"msec": 1e-3, "ns": 1e-9}.get(unit, 1.0)
        found[name] = number * scale
    return found
