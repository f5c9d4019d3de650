"""What `flashbench plan` says, and what the command then takes, in a cache of its own.

    python experiments/plan_against_fact.py [--rounds 3] [--ours | --stored]

A toy project of eight commits, of which the fifth is slower (or, with --ours, this repository): in
each round every command is planned and run, so the first round is planned without a history. A row
has device seconds and time by the clock: planned with the range, taken, and taken over planned.

--stored measures nothing: run files of an H200 in results/ are planned from their own first half,
and each from the others, most of whose cases are different ones.
"""

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHAPES = ["--shape", "1,4,128,64", "--dtype", "fp32", "--device", "cpu"]
STORED = ("h200-models", "h200-chunks", "h200-fa4", "h200-fa4-head-dims", "h200-head-dims")
EFFORT = ["--samples", "20", "--threads", "1"]
AT_MOST = ["--tolerance", "10%", "--launches", "8"]


def toy(folder: Path) -> Path:
    """The toy project of the tests, with commits that change what is built."""
    sys.path.insert(0, str(ROOT / "tests"))
    from revisions.repository import fastattn

    repository = fastattn(folder / "toy")
    for marker in range(2, 9):
        delay = 0 if marker < 5 else 400_000
        text = f"#define SCALE 1.0f\n#define DELAY {delay}\n#define MARKER {marker}\n"
        repository.write("csrc/config.h", text)
        repository.commit(f"Change {marker}")
    return folder / "toy"


def commands(folder: Path, round_: int, good: str) -> list[list[str]]:
    """Each as its words, fresh in every round."""

    def file(name: str) -> str:
        return str(folder / f"{name}-{round_}.json")

    case = ["--case", "b1-h4-q128-d64-fp32-full-cpu", *EFFORT]
    commits = ["HEAD", f"HEAD~{1 + round_ % 3}", good]
    return [
        ["run", *SHAPES, *EFFORT, "--launches", "6", "-o", file("run")],
        ["run", "--baseline-only", *SHAPES, *EFFORT, "--launches", "6", "-o", file("sdpa")],
        ["compare", good, "HEAD", *SHAPES, *EFFORT, *AT_MOST, "--run-file", file("changed")],
        ["compare", "HEAD~1", "HEAD", *SHAPES, *EFFORT, *AT_MOST, "--run-file", file("same")],
        ["bisect", "--good", good, "--for", "correct"],
        ["bisect", "--good", good, "--for", "speed", "--force", *case],
        ["backfill", *commits, *SHAPES, *EFFORT, "--launches", "3", "-o", file("backfill")],
    ]  # fmt: skip


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


def taken(words: list[str], done: subprocess.CompletedProcess[str]) -> dict[str, float]:
    """Seconds of the summary, or of the run file where a command prints none."""
    if words[0] in ("run", "compare", "bisect"):
        found = json.loads(done.stdout)["summary"]
        return {key: found.get(key) or 0.0 for key in ("device_seconds", "build_seconds")}
    run = json.loads(Path(words[-1]).read_text())
    device = sum(launch["device_seconds"] for launch in run["launches"])
    return {"device_seconds": device, "build_seconds": run["costs"]["build_seconds"]}


def stored() -> None:
    """Device seconds of run files, planned from half of their launches and from other files."""
    from flashbench.cost import store
    from flashbench.cost.estimate import Work
    from flashbench.cost.known import Experience
    from flashbench.cost.learn import learn
    from flashbench.run_reader import load

    runs = {name: load(ROOT / "results" / f"{name}.json") for name in STORED}
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
                known = Experience("cuda", store.load().find("cuda", "", None))
            metrics = {timing.metric for one in run.launches[0].results for timing in one.timings}
            work = Work(
                run.cases,
                [one.spec for one in run.candidates],
                launches=len(run.launches) - half,
                samples=run.settings.samples,
                min_sample_seconds=run.settings.min_sample_seconds,
                metrics=len(metrics),
                first=not half,
            )
            found = known.seconds(work)
            plan = {"_low": found.low, "": found.likely, "_high": found.high}
            fact = {"": sum(launch.device_seconds for launch in run.launches[half:])}
            where = "its first half" if half else "the others"
            print(f"{planned:<19}from {where:<15}{known.level_of(work):<7}{cell(plan, fact, '')}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ours", action="store_true", help="this repository, its last commits")
    parser.add_argument("--stored", action="store_true", help="stored run files; measure nothing")
    arguments = parser.parse_args()
    if arguments.stored:
        stored()
    else:
        measured(ours=arguments.ours, rounds=arguments.rounds)


def measured(*, ours: bool, rounds: int) -> None:
    """Plan and run every command."""
    print(f"{'command':<24}{'from':<7}{'device: planned, taken':>38}{'clock: planned, taken':>38}")
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        place = ROOT if ours else toy(folder)
        good = "HEAD~3" if ours else "HEAD~7"
        for round_ in range(rounds):
            for words in commands(folder, round_, good):
                plan = called(["plan", *words, "--format", "json"], place, folder)
                if plan.returncode:
                    sys.exit(plan.stderr)
                planned = json.loads(plan.stdout)["summary"]
                begun = time.monotonic()
                shown = [] if words[0] == "backfill" else ["--format", "json"]
                done = called([*words, *shown], place, folder)
                fact = taken(words, done) | {"wall_seconds": time.monotonic() - begun}
                cells = [cell(planned, fact, key) for key in ("device_seconds", "wall_seconds")]
                name, basis = " ".join(words[:3]), planned["based_on"] or ""
                print(f"{name:<24.23}{basis:<7}{cells[0]:>38}{cells[1]:>38}", flush=True)


def cell(planned: dict[str, float], fact: dict[str, float], key: str) -> str:
    """Planned with its range, taken, and the quotient of both."""
    likely, low, high = (planned[key + end] for end in ("", "_low", "_high"))
    ratio = f"{fact[key] / likely:.2f}" if likely else ""
    return f"{likely:.1f} [{low:.1f}, {high:.1f}] {fact[key]:8.1f} {ratio:>6}"


if __name__ == "__main__":
    main()
