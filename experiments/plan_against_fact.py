"""What `flashbench plan` says, and what the command then takes, in a cache of its own.

    python experiments/plan_against_fact.py [-o FILE] [--rounds 3] [--device cuda] [--ours]

A toy project of eight commits, of which the fifth is clearly slower (or, with --ours, this
repository): in each round every command is planned and run, so the first round is planned without a
history. A row has device seconds and time by the clock, planned with the range, taken, and taken
over planned; and the launches with the seconds of each part. -o adds each row to a file as soon as
it is measured; --seconds ends between two commands. The last lines sum up the plans with a
history.

--stored measures nothing: run files of an H200 in results/ are planned from their own first half,
and each from the others, most of whose cases are different ones.
"""

import argparse
import copy
import csv
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STORED = ("h200-models", "h200-chunks", "h200-fa4", "h200-fa4-head-dims", "h200-head-dims")
GRID = {
    "cpu": ["--shape", "1,4,128,64", "--dtype", "fp32", "--device", "cpu"],
    "cuda": ["--shape", "1,4,1024,64", "--dtype", "fp16", "--causal", "full", "--device", "cuda"],
}
CASE = {"cpu": "b1-h4-q128-d64-fp32-full-cpu", "cuda": "b1-h4-q1024-d64-fp16-full-cuda"}
EFFORT = {"cpu": ["--samples", "20", "--threads", "1"], "cuda": ["--samples", "8"]}
AT_MOST = ["--tolerance", "10%", "--launches", "8"]

# The toy on a GPU: nothing to compile.
PYTHON_TOY = {
    "pyproject.toml": """[project]
name = "toy"
version = "0"

[tool.flashbench.project]
callable = "toy.api:attend"
build = []
path = "src"
sources = ["src"]
""",
    "src/toy/__init__.py": "",
    "src/toy/api.py": """import torch

from toy.config import COPIES


def attend(q, k, v, is_causal=False):
    if is_causal:
        raise NotImplementedError("without a mask")
    for _ in range(COPIES):
        q = q.clone()
    return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v
""",
}


def toy(folder: Path, device: str) -> Path:
    """The toy project of the tests, or one of Python, with commits that change what is built."""
    sys.path.insert(0, str(ROOT / "tests"))
    from revisions.repository import Repository, fastattn

    if device == "cpu":
        repository = fastattn(folder / "toy")
    else:
        repository = Repository(folder / "toy")
        for name, text in PYTHON_TOY.items():
            repository.write(name, text)
        repository.write("src/toy/config.py", "COPIES, MARKER = 0, 1\n")
        repository.commit("A kernel")
    for marker in range(2, 9):
        slower = marker >= 5
        if device == "cpu":
            delay = 4_000_000 * slower
            text = f"#define SCALE 1.0f\n#define DELAY {delay}\n#define MARKER {marker}\n"
            repository.write("csrc/config.h", text)
        else:
            repository.write("src/toy/config.py", f"COPIES, MARKER = {20 * slower}, {marker}\n")
        repository.commit(f"Change {marker}")
    return folder / "toy"


def commands(folder: Path, round_: int, good: str, device: str) -> list[list[str]]:
    """Each as its words, fresh in every round."""

    def file(name: str) -> str:
        return str(folder / f"{name}-{round_}.json")

    effort = EFFORT[device]
    grid = [*GRID[device], *effort]
    commits = ["HEAD", f"HEAD~{1 + round_ % 3}", good]
    return [
        ["run", *grid, "--launches", "6", "-o", file("run")],
        ["run", "--baseline-only", *grid, "--launches", "6", "-o", file("sdpa")],
        ["compare", good, "HEAD", *grid, *AT_MOST, "--run-file", file("changed")],
        ["compare", "HEAD~1", "HEAD", *grid, *AT_MOST, "--run-file", file("same")],
        ["bisect", "--good", good, "--for", "correct"],
        ["bisect", "--good", good, "--for", "speed", "--force", "--case", CASE[device], *effort],
        ["backfill", *commits, *grid, "--launches", "3", "-o", file("backfill")],
    ]


def called(words: list[str], place: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """One command in the repository, with the private cache."""
    own = {"FLASHBENCH_CACHE": str(folder / "cache" / "builds"), "XDG_CONFIG_HOME": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", "flashbench", *words],
        cwd=place,
        env=os.environ | own,
        capture_output=True,
        text=True,
    )


def launches_since(folder: Path, before: float) -> list[dict[str, Any]]:
    """The launches of run files written since then, in the order measured."""
    found: list[dict[str, Any]] = []
    for path in folder.rglob("*.json"):
        if path.stat().st_mtime >= before:
            found += json.loads(path.read_text()).get("launches", [])
    return sorted(found, key=lambda one: str(one["started"]))


def row_of(
    words: list[str], plan: dict[str, Any], launches: list[dict[str, Any]], clock: float
) -> dict[str, Any]:
    """What was planned and taken. first and later: launches at the beginning of a file, and others;
    start: until the process could measure."""
    summary = plan["summary"]
    parts = {one["what"]: one["count"] for one in plan["rows"]}
    first = [one for one in launches if one["index"] == 0]
    later = [one for one in launches if one["index"]]
    row = {"command": " ".join(words[:3]), "based_on": summary["based_on"] or ""}
    for name, key in (("device", "device_seconds"), ("wall", "wall_seconds")):
        row |= {f"{name}{end}": round(summary[key + end], 2) for end in ("", "_low", "_high")}
    row["device_taken"] = round(sum(one["device_seconds"] for one in launches), 2)
    row["wall_taken"] = round(clock, 2)
    row["starts"] = round(sum(n for part, n in parts.items() if n and "start" in part), 1)
    for name, some in (("first", first), ("later", later)):
        row[name] = len(some)
        for key in ("start_seconds", "device_seconds"):
            row[f"{name}_{key}"] = round(fmean(one[key] for one in some), 3) if some else ""
    return row


def rows(folder: Path, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Plan and run every command, until the time is over."""
    begun = time.monotonic()
    place = ROOT if arguments.ours else toy(folder, arguments.device)
    good = "HEAD~3" if arguments.ours else "HEAD~7"
    for round_ in range(arguments.rounds):
        for words in commands(folder, round_, good, arguments.device):
            if words[0] not in arguments.commands:
                continue
            if time.monotonic() - begun > arguments.seconds:
                return
            plan = called(["plan", *words, "--format", "json"], place, folder)
            if plan.returncode:
                sys.exit(plan.stderr)
            before, now = time.time(), time.monotonic()
            done = called(words, place, folder)
            if done.returncode not in (0, 1, 3):
                sys.exit(done.stderr)
            clock = time.monotonic() - now
            found = row_of(words, json.loads(plan.stdout), launches_since(folder, before), clock)
            yield {"round": round_} | found


def measured(arguments: argparse.Namespace) -> None:
    """Print each row, and add it to the file."""
    print(f"{'command':<24}{'from':<7}{'device: planned, taken':>38}{'clock: planned, taken':>38}")
    found = []
    with tempfile.TemporaryDirectory() as text:
        for row in rows(Path(text), arguments):
            found.append(row)
            cells = [cell(row, row[f"{key}_taken"], key) for key in ("device", "wall")]
            shown = f"{row['command']:<24.23}{row['based_on']:<7}{cells[0]:>38}{cells[1]:>38}"
            print(shown, flush=True)
            if arguments.output:
                new = not arguments.output.exists()
                with arguments.output.open("a", newline="") as file:
                    writer = csv.DictWriter(file, row)
                    if new:
                        writer.writeheader()
                    writer.writerow(row)
    sum_up([row for row in found if row["based_on"] == "known" and row["device_taken"]])


def sum_up(known: list[dict[str, Any]]) -> None:
    """How far plans with a history were off."""
    for command in dict.fromkeys(row["command"].split()[0] for row in known):
        mine = [row for row in known if row["command"].startswith(command)]
        ratios = [row["device_taken"] / row["device"] for row in mine]
        mean = math.exp(fmean(map(math.log, ratios)))
        close = sum(0.75 <= ratio <= 1.25 for ratio in ratios)
        told = sum(row["device_low"] <= row["device_taken"] <= row["device_high"] for row in mine)
        print(
            f"{command}: {len(mine)} known plans; device seconds taken / planned {mean:.2f} in the "
            f"geometric mean; {close} within 25 %, {told} inside the range told"
        )


def stored() -> None:
    """Device seconds of run files, planned from half of their launches and from other files."""
    from flashbench.cost import store
    from flashbench.cost.estimate import Work
    from flashbench.cost.known import Experience
    from flashbench.cost.learn import learn
    from flashbench.run_reader import read_for_analysis

    runs = {name: read_for_analysis(ROOT / "results" / f"{name}.json") for name in STORED}
    for planned, run in runs.items():
        for halved in (True, False):
            half = len(run.launches) // 2 if halved else 0
            sources = [copy.copy(run)] if halved else [o for o in runs.values() if o is not run]
            if halved:
                sources[0].launches = run.launches[:half]
            with tempfile.TemporaryDirectory() as cache:
                os.environ["FLASHBENCH_CACHE"] = f"{cache}/builds"
                for source in sources:
                    learn(source, before=[])
                known = Experience("cuda", store.read().find("cuda", "", None))
            metrics = {timing.metric for one in run.launches[0].results for timing in one.timings}
            launches = len(run.launches) - half
            work = Work(
                run.cases,
                [one.spec for one in run.candidates],
                launches=launches,
                samples=run.settings.samples,
                min_sample_seconds=run.settings.min_sample_seconds,
                metrics=len(metrics),
                first=not half,
                fresh=launches if run.settings.workers == "fresh" else int(not half),
            )
            found = known.seconds(work)
            plan = {"device_low": found.low, "device": found.likely, "device_high": found.high}
            fact = sum(launch.device_seconds for launch in run.launches[half:])
            where = "its first half" if half else "the others"
            shown = cell(plan, fact, "device")
            print(f"{planned:<19}from {where:<15}{known.level_of(work):<7}{shown}")


def cell(planned: dict[str, float], taken: float, key: str) -> str:
    """Planned with its range, taken, and the quotient of both."""
    likely, low, high = (planned[key + end] for end in ("", "_low", "_high"))
    ratio = f"{taken / likely:.2f}" if likely else ""
    return f"{likely:.1f} [{low:.1f}, {high:.1f}] {taken:8.1f} {ratio:>6}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--commands", help="words, by commas: run,compare,bisect,backfill")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin nothing afterwards")
    parser.add_argument("-o", "--output", type=Path, help="a csv file, to which rows are added")
    parser.add_argument("--ours", action="store_true", help="this repository, its last commits")
    parser.add_argument("--stored", action="store_true", help="stored run files; measure nothing")
    arguments = parser.parse_args()
    usual = "run,compare,bisect,backfill" if arguments.device == "cpu" else "run,compare"
    arguments.commands = (arguments.commands or usual).split(",")
    if arguments.stored:
        stored()
    else:
        measured(arguments)


if __name__ == "__main__":
    main()
