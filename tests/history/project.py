"""A git repository of fixed hashes and asv results of its commits, for tests of the history."""

import json
import random
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from flashbench.history import names

CASES = ("b1-h1-q128-d64-fp32-full-cpu", "b1-h8-q512-d64-fp32-full-cpu")
ENVIRONMENT = "flashbench-py3.11"
COLUMNS = ["result", "params", "version", "started_at", "duration", "stats_ci_99_a"]
COLUMNS += ["stats_ci_99_b", "stats_q_25", "stats_q_75", "stats_number", "stats_repeat", "samples"]


def make_repository(root: Path, subjects: Sequence[str]) -> list[str]:
    """One commit a subject, in a line; their hashes are the same wherever and whenever."""
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q", "-b", "main")
    stream = ""
    for index, subject in enumerate(subjects):
        stream += f"commit refs/heads/main\nmark :{index + 1}\n"
        stream += f"committer A Kernel <a@example.org> {1_700_000_000 + 3600 * index} +0000\n"
        stream += f"data {len(subject.encode())}\n{subject}\n"
        stream += f"from :{index}\n" if index else ""
    git(root, "fast-import", "--quiet", given=stream)
    return git(root, "log", "--reverse", "--format=%H", "main").split()


def git(root: Path, *arguments: str, given: str = "") -> str:
    done = subprocess.run(
        ["git", "-C", str(root), "-c", "user.name=A", "-c", "user.email=a@b", *arguments],
        input=given,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def row(params: Sequence[Sequence[str]], samples: Sequence[Sequence[float]]) -> list[Any]:
    """One of our benchmarks as asv keeps it; samples: (combinations, launches)."""
    ordered = [sorted(one) for one in samples]
    return [
        [median(one) for one in ordered],
        [[repr(value) for value in axis] for axis in params],
        names.VERSION,
        1_700_000_000_000,
        1.0,
        [one[0] for one in ordered],
        [one[-1] for one in ordered],
        [one[len(one) // 4] for one in ordered],
        [one[-1 - len(one) // 4] for one in ordered],
        [1 for _ in ordered],
        [len(one) for one in ordered],
        [list(one) for one in samples],
    ]


def write_result(results: Path, commit: str, rows: dict[str, list[Any]], machine: str = "box"):
    """asv's file of one commit."""
    folder = results / machine
    folder.mkdir(parents=True, exist_ok=True)
    described = {"machine": machine, "cpu": "a CPU", "os": "", "arch": "", "num_cpu": "", "ram": ""}
    (folder / "machine.json").write_text(json.dumps(described | {"version": 1}))
    content = {
        "commit_hash": commit,
        "env_name": ENVIRONMENT,
        "date": 1_700_000_000_000,
        "params": described | {"python": "3.11"},
        "python": "3.11",
        "requirements": {},
        "env_vars": {},
        "result_columns": COLUMNS,
        "results": rows,
        "durations": {},
        "version": 2,
    }
    path = folder / f"{commit[:8]}-{ENVIRONMENT}.json"
    path.write_text(json.dumps(content))
    return path


def measure(
    results: Path, commits: Sequence[str], level: Callable[[int, str], float], launches: int = 9
) -> None:
    """Results of kernel and SDPA at these commits: 1 % noise, and a machine that wanders by 10 %.

    level: of the ratio to SDPA, by index of the commit and case.
    """
    noise = random.Random(5)
    for index, commit in enumerate(commits):
        machine = 1e-3 * (1 + 0.1 * noise.random())
        times, ratios = [], []
        for case in CASES:
            at = level(index, case) * (1 + noise.gauss(0, 0.01))
            sdpa = [round(machine * (1 + noise.gauss(0, 0.01)), 9) for _ in range(launches)]
            kernel = [round(at * one * (1 + noise.gauss(0, 0.01)), 9) for one in sdpa]
            times += [kernel, sdpa]
            ratios.append([round(ours / one, 6) for ours, one in zip(kernel, sdpa, strict=True)])
        rows = {
            "cpu.Seconds.track_seconds": row([CASES, ["flashbench", "sdpa"]], times),
            "cpu.Ratio.track_ratio": row([CASES, ["flashbench"]], ratios),
        }
        write_result(results, commit, rows)
