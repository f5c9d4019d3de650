"""Both sides at once on two cores (a duet), or in turns: which tells a ratio more precisely in the
same time on a shared CPU? (Bulej et al. 2020, Duet Benchmarking, arXiv 2001.05811.)

python experiments/duet.py [launches] [seed]

Two processes make the same attention call, so the true ratio is 1. A launch is two fresh processes
and eight rounds of four slots, A/B/B/A: in turns one side has a slot to itself, on either core; in
a duet both share it and change cores after each. Prints the spread of the launches' log-ratios, in
turns and as a duet by turns of launches, so that both meet the same neighbours.
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
SLOT_SECONDS = 0.02


def side(which: int, duet: bool, barrier: Barrier, answer: Connection) -> None:
    """Sends the seconds of a call in each slot that this side had."""
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

    calls = max(1, round(SLOT_SECONDS / min(seconds_of(3) for _ in range(5))))
    found = []
    for slot in SLOTS * ROUNDS:
        barrier.wait()
        if duet or slot == which:
            os.sched_setaffinity(0, {cores[(slot + which) % 2 if duet else which]})
            call()  # caches of the new core
            found.append(seconds_of(calls))
    answer.send(found)


def launch(duet: bool) -> tuple[float, float]:
    """The log-ratio of the sides' times: the median over slots or pairs of slots; and seconds."""
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
    means = [of.reshape(-1, 2).mean(axis=1) for of in times]
    return float(np.median(means[1] - means[0])), perf_counter() - begin


def main() -> None:
    launches = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    kinds = {"in turns": False, "duet": True}
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for _ in range(launches):
        for kind, duet in kinds.items():
            found[kind].append(launch(duet))
    print(f"load {os.getloadavg()[0]:.1f}, {launches} launches each")
    print("| | sd % | 1.4826 MAD % | mean % | seconds a launch |\n|---|---|---|---|---|")
    for kind, values in found.items():
        ratios, seconds = np.array(values).T
        usual = 1.4826 * float(np.median(np.abs(ratios - np.median(ratios))))
        numbers = [float(np.std(ratios, ddof=1)), usual, float(ratios.mean())]
        assert all(map(math.isfinite, numbers))
        shown = " | ".join(f"{100 * number:.2f}" for number in numbers)
        print(f"| {kind} | {shown} | {np.median(seconds):.2f} |")


if __name__ == "__main__":
    main()
