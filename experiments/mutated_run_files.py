"""Fuzz run files, and give them to every command that reads one.

    python experiments/mutated_run_files.py [FILES] [SEED]

Flips bits, cuts ends, inserts impossible and huge numbers, NaN, wrong types and deep nesting,
doubles and drops parts. For an unreadable file every command must exit with 2, for others with a
documented code, never with a traceback or a hang.
"""

import contextlib
import copy
import io
import json
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from synthetic import make_cases, make_pair, make_run

from flashbench import cli, run_reader, runfile
from flashbench.errors import Exit, InvalidInputError
from flashbench.measuring.scheduler import Scheduler

SECONDS = 20  # that a command may take
COMMANDS = (
    ("show",),
    ("show", "--view", "detail", "--format", "json"),
    ("compare",),
    ("report",),
    ("compare", "good.json"),
    ("merge", "--force", "-o", "merged.json"),
    ("record", "--commit", "HEAD"),
    ("run", "--format", "none", "--resume"),
)
_MARK = "\x00here\x00"
# Written as they are, as some are no JSON.
_VALUES = (
    "1e308", "-1e308", "1" + "0" * 400, "-1", "0", "9007199254740993", "18446744073709551616",
    "1e-320", "NaN", "Infinity", "-Infinity", "null", "true", '""', '"x"', "[]", "{}", "[null]",
    '"\\u0000\\u001b[2J\\u202e"', '"\\ud800"', "[" * 100_000, "[" * 2000 + "]" * 2000,
    '{"a":' * 2000 + "1" + "}" * 2000, '"' + "x" * 100_000 + '"', "-0.0", "1.5", '"2/4"', "01",
)  # fmt: skip


class HungError(Exception):
    """A command did not end."""


def documents() -> list[bytes]:
    """Valid run files: of candidates beside SDPA, and of two builds."""
    rng = np.random.default_rng(0)
    made = [
        maker(rng, cases=make_cases(2), launches=3, samples=4) for maker in (make_run, make_pair)
    ]
    return [runfile.encode(run) for run in made]


def mutated(document: bytes, rng: random.Random) -> bytes:
    """The document with one to three faults."""
    for _ in range(rng.randint(1, 3)):
        document = rng.choice((_flip, _cut, _value, _value, _value, _double, _drop))(document, rng)
    return document


def run(arguments: tuple[str, ...]) -> tuple[int, str]:
    """Exit code and stderr of a command, in this process. Raises HungError."""
    errors = io.StringIO()

    def hung(number: int, frame: object) -> None:
        raise HungError

    before = signal.signal(signal.SIGALRM, hung)
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            cli.main(list(arguments))
    except SystemExit as end:
        return int(end.code or 0), errors.getvalue()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    raise AssertionError("main always exits")


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """A repository with a valid run file, where no worker can start."""

    def start(scheduler: Scheduler) -> None:
        raise InvalidInputError("a worker would start")

    whole, Scheduler._start_worker = Scheduler._start_worker, start  # type: ignore[method-assign,assignment]
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
            subprocess.run([*git, "init", "-q"], check=True)
            subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "1"], check=True)
            Path("good.json").write_bytes(documents()[0])
            yield Path(folder)
    finally:
        Scheduler._start_worker = whole  # type: ignore[method-assign]


def faults(document: bytes) -> list[str]:
    """The commands' wrong reactions to one document; empty if all are right.

    First checks that both readers agree on whether it is a run file.
    """
    readable = []
    for read in (runfile.decode, run_reader.decode_for_analysis):
        with contextlib.suppress(InvalidInputError):
            read(document, "bad.json")
            readable.append(read)
    found = [] if len(readable) in (0, 2) else ["the two ways of reading do not agree"]
    allowed = {code.value for code in Exit} if readable else {Exit.USAGE.value}
    for command in COMMANDS:
        Path("bad.json").write_bytes(document)
        try:
            code, errors = run((*command, "bad.json"))
        except HungError:
            found.append(f"{command}: did not end within {SECONDS} s")
            continue
        if code not in allowed or "Traceback" in errors or "a bug in" in errors:
            found.append(f"{command}: exit code {code}: {errors[-2000:]}")
        elif code == Exit.USAGE and errors.count("\n") > 3:
            found.append(f"{command}: more than a line: {errors[-500:]}")
    return found


def _flip(document: bytes, rng: random.Random) -> bytes:
    changed = bytearray(document)
    for _ in range(rng.choice((1, 1, 5))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(document: bytes, rng: random.Random) -> bytes:
    begin, end = sorted(rng.randrange(len(document) + 1) for _ in range(2))
    return rng.choice((document[:end], document[begin:], document[:begin] + document[end:]))


def _value(document: bytes, rng: random.Random) -> bytes:
    def change(holder: Any, key: Any) -> None:
        holder[key] = _MARK

    text = _edited(document, rng, change)
    return text.replace(json.dumps(_MARK).encode(), rng.choice(_VALUES).encode())


def _double(document: bytes, rng: random.Random) -> bytes:
    def change(holder: Any, key: Any) -> None:
        if isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        else:
            holder[f"{key} "] = holder[key]

    return _edited(document, rng, change)


def _drop(document: bytes, rng: random.Random) -> bytes:
    def change(holder: Any, key: Any) -> None:
        del holder[key]

    return _edited(document, rng, change)


def _edited(document: bytes, rng: random.Random, change: Any) -> bytes:
    """Change one place of the JSON value; a document that is not JSON any more stays unchanged."""
    try:
        value = json.loads(document)
    except (ValueError, RecursionError):
        return document
    holder, key = None, None
    at = value
    while isinstance(at, dict | list) and at and (holder is None or rng.random() < 0.85):
        holder, key = at, rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
        at = holder[key]
    if holder is None:
        return document
    change(holder, key)
    try:
        return json.dumps(value).encode()
    except (ValueError, RecursionError):
        return document


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    whole = documents()
    count: Counter[str] = Counter()
    with workplace():
        for index in range(number):
            document = mutated(rng.choice(whole), rng)
            found = faults(document)
            with contextlib.suppress(InvalidInputError):
                runfile.decode(document, "bad.json")
                count["still run files"] += 1
            count["files"] += 1
            count["faults"] += len(found)
            for fault in found:
                print(f"{index}: {fault}", flush=True)
    print(f"{dict(count)}, {len(COMMANDS)} commands each")


if __name__ == "__main__":
    main()
