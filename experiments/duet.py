"""Both sides at once on two cores (a duet), or in turns: which tells a ratio more precisely in the
same time on a shared CPU? (Bulej et al. 2020, Duet Benchmarking, arXiv 2001.05811.)

python experiments/duet.py [launches] [seed]

Two processes make the same attention call, so the true ratio is 1. A launch is two fresh processes
and eight rounds of four slots of five samples, A/B/B/A: in turns one side has a slot to itself,
where the system puts it; in a duet both share it, a core each, and change cores after each. Prints
the spread of the launches' log-ratios, in turns and as a duet by turns of launches, so that both
meet the same neighbours: of the medians over two slots of either side of the differences of mean
log times, and over all pairs of samples in them, as in `launches.speedups`.
"""

import math
import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from time import perf_counter

import numpy as np
import torch

ROUNDS = 8
SLOTS = (0, 1, 1, 0)  # whose slot it is in turns, and where side 0 runs in a duet
SAMPLES = 5  # in a slot
SAMPLE_SECONDS = 0.002


def side(which: int, duet: bool, barrier: Barrier, answer: Connection) -> None:
    """Sends the seconds of a call, by slot that this side had and sample."""
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))[:2]
    q, k, v = torch.randn(3, 1, 8, 128, 64).unbind()

    def call() -> None:
        torch.nn.functional.scaled_dot_product_attention(q, k, v)

    def seconds_of(calls: int) -> float:
        begin = perf_counter()
        for _ in range(calls):
            call()
        return (perf_counter() - begin) / calls

    calls = max(1, round(SAMPLE_SECONDS / min(seconds_of(3) for _ in range(5))))
    found = []
    for slot in SLOTS * ROUNDS:
        barrier.wait()
        if duet or slot == which:
            if duet:
                os.sched_setaffinity(0, {cores[(slot + which) % 2]})
            call()  # caches of the new core
            found.append([seconds_of(calls) for _ in range(SAMPLES)])
    answer.send(found)


def launch(duet: bool) -> tuple[float, float, float]:
    """The log-ratio of the sides' times, by means and by pairs, and seconds."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(2)
    ends, workers = [], []
    for which in (0, 1):
        here, there = context.Pipe()
        workers.append(context.Process(target=side, args=(which, duet, barrier, there)))
        ends.append(here)
    begin = perf_counter()
    for worker in workers:
        worker.start()
    times = [np.log(end.recv()) for end in ends]
    for worker in workers:
        worker.join()
    # Neighbouring slots of a side, A B B A, are two cores in a duet, and drift in turns.
    old, new = (of.reshape(-1, 2 * SAMPLES) for of in times)
    by_means = np.median(new.mean(axis=1) - old.mean(axis=1))
    by_pairs = np.median(new[:, :, None] - old[:, None, :])
    return float(by_means), float(by_pairs), perf_counter() - begin


def main() -> None:
    launches = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    kinds = {"in turns": False, "duet": True}
    found: dict[str, list[tuple[float, float, float]]] = {kind: [] for kind in kinds}
    for _ in range(launches):
        for kind, duet in kinds.items():
            found[kind].append(launch(duet))
    print(f"load {os.getloadavg()[0]:.1f}, {launches} launches each")
    print("| | | sd % | 1.4826 MAD % | mean % | seconds a launch |\n|---|---|---|---|---|---|")
    for kind, values in found.items():
        *numbers, seconds = np.array(values).T
        for name, ratios in zip(("means", "pairs"), numbers, strict=True):
            usual = 1.4826 * float(np.median(np.abs(ratios - np.median(ratios))))
            row = [float(np.std(ratios, ddof=1)), usual, float(ratios.mean())]
            assert all(map(math.isfinite, row))
            shown = " | ".join(f"{100 * number:.2f}" for number in row)
            print(f"| {kind} | {name} | {shown} | {np.median(seconds):.2f} |")


if __name__ == "__main__":
    main()
