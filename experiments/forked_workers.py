"""Launches as forks of one server, and launches started by themselves: are they as spread and as
independent, and what do they cost?

    python experiments/forked_workers.py [--device cuda] [--rounds 12] [--launches 6] [--shape ...]

In each round launches of both kinds alternate; all forks of a round are from one server. For each
case and kind:

    s          seconds of a launch after the first of its round, median
    time       median of the candidate's time in a launch, in us
    sd         of a launch within rounds, in %
    mad        its median absolute deviation within rounds, times 1.4826, in %
    rounds     share of the variance that is between rounds (in forks that of the server is added)
    lag 1      correlation of a launch with the next within a round (expected: -1 / launches)

and p of "equally spread" (Brown-Forsythe on what differs from the round's median), of three numbers
of a launch: the log of the candidate's time, of SDPA's time over it, and of its time over its own
when it is measured once more (A/A).
"""

import argparse
import time
from typing import cast

import numpy as np
from scipy.stats import levene

from flashbench.arrays import FloatArray
from flashbench.case import Case
from flashbench.measuring.forks import Forks
from flashbench.measuring.plan import candidate_order, launch_seed
from flashbench.measuring.process import Worker
from flashbench.measuring.protocol import Done, Measure, Setup
from flashbench.metric import DEFAULT_METRIC
from flashbench.operations.attention.operation import attention_case
from flashbench.operations.attention.shapes import Shape, parse_shape
from flashbench.runfile import Candidate, Result

KINDS = ("fresh", "forked")
NAMES = ("mine", "again", "sdpa")


def launch(setup: Setup, cases: list[Case], forks: Forks | None, index: int) -> FloatArray:
    """One launch: (cases, names) log times, and in a last row the launch's seconds."""
    start = time.monotonic()
    logs = []
    with Worker(60, forks) as worker:
        worker.ask(setup)
        for case in cases:
            names = candidate_order(NAMES, 0, index)
            request = Measure(
                case=case, candidates=names, seed=launch_seed(0, index), full_check=False
            )
            done = cast(Done, worker.ask(request))
            found = {result.candidate: result for result in done.results}
            logs.append([np.log(seconds_of(found[name])) for name in NAMES])
    return np.array([*logs, [time.monotonic() - start] * len(NAMES)])


def seconds_of(result: Result) -> float:
    if result.status != "ok":
        raise SystemExit(f"{result.candidate}: {result.status}: {result.reason}")
    (timing,) = result.timings
    return float(np.median(timing.seconds))


def within(values: FloatArray) -> FloatArray:
    """(rounds, launches) without the median of each round."""
    return values - np.median(values, axis=1, keepdims=True)


def share_between(values: FloatArray) -> float:
    """The share of the variance that is between rounds, from one-way analysis of variance."""
    inside = values.var(axis=1, ddof=1).mean()
    between = values.mean(axis=1).var(ddof=1) - inside / values.shape[1]
    return float(between / (between + inside))


def lag_one(values: FloatArray) -> float:
    centred = values - values.mean(axis=1, keepdims=True)
    return float((centred[:, 1:] * centred[:, :-1]).mean() / (centred**2).mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--candidate", default="flashbench")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--launches", type=int, default=6)
    parser.add_argument("--shape", action="append", type=parse_shape, default=[])
    asked = parser.parse_args()
    dtype = "bf16" if asked.device == "cuda" else "fp32"
    shapes = asked.shape or [Shape(1, 8, 8, 128, 128, 64)]
    cases = [attention_case(shape, dtype, False, asked.device) for shape in shapes]
    setup = Setup(
        device=asked.device,
        candidates=[Candidate(name=name, spec=asked.candidate) for name in NAMES[:2]],
        backends="default",
        threads=None,
        samples=16,
        min_sample_seconds=None,
        metrics=[DEFAULT_METRIC[asked.device]],
    )
    found: dict[str, list[list[FloatArray]]] = {kind: [] for kind in KINDS}
    for _ in range(asked.rounds):
        for kind in KINDS:
            found[kind].append([])
        with Forks() as forks:
            for index in range(asked.launches):
                for kind in KINDS[:: 1 if index % 2 else -1]:
                    one = launch(setup, cases, forks if kind == "forked" else None, index)
                    found[kind][-1].append(one)
    for place, case in enumerate(cases):
        logs = {
            (kind, name): np.array(found[kind])[:, :, place, column]
            for kind in KINDS
            for column, name in enumerate(NAMES)
        }
        print(f"\n{case.id:24}{'s':>7}{'time':>10}{'sd':>8}{'mad':>8}{'rounds':>8}{'lag 1':>8}")
        for title, over in (("time", ""), ("SDPA / candidate", "sdpa"), ("A/A", "again")):
            spread = []
            for kind in KINDS:
                mine = logs[kind, "mine"]
                value = logs[kind, over] - mine if over else mine
                spread.append(within(value).ravel())
                later = np.median(np.array(found[kind])[:, 1:, -1, 0])
                print(
                    f"{title + ', ' + kind:24}{later:7.2f}"
                    f"{1e6 * np.exp(np.median(mine)):10.2f}"
                    f"{100 * np.sqrt(value.var(axis=1, ddof=1).mean()):8.2f}"
                    f"{148.26 * np.median(np.abs(spread[-1])):8.2f}"
                    f"{share_between(value):8.2f}{lag_one(value):8.2f}"
                )
            print(f"{'':24}equally spread: p = {levene(*spread, center='median').pvalue:.2f}")


if __name__ == "__main__":
    main()
