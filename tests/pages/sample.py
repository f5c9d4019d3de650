"""A small history with everything that a page can show, and texts that try to break out of it."""

import math
from functools import cache
from pathlib import Path

import numpy as np

from flashbench.history.model import Change, Gap, History, Machine, Points, Series
from flashbench.revisions.commits import Commit
from flashbench.site.content import Content, Graph, drawn
from flashbench.site.jumps import Jump
from flashbench.site.latest import latest_table
from flashbench.stats.shift import Shift

ROOT = Path(__file__).parents[2]
HOSTILE = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 1'>"
SUBJECTS = {
    3: HOSTILE,
    4: "javascript:window.broken=1 \u2028 \u202e {{ 7 * 7 }} ${window.broken = 1}",
    5: "&lt;b&gt; \"quoted\" 'quoted' `quoted`",
}
BODIES = {
    3: f"Why {HOSTILE}\n\n    indented \u202e\n</pre><b>bold</b>",
    6: "\n".join(f"line {number}" for number in range(2000)),
    9: "long " * 10_000,
}
COMMITS = 40
BROKEN, UNMEASURED, STEP = (7, 8), 20, 25
SPARSE, EVERY = 200, 10
CASES = (
    "b1-h8-q512-d64-fp16-full-cpu",
    "b1-h8-q512-d64-fp16-causal-cpu",
    "b1-h8-q512-d64-bf16-full-cpu",
    "b2-h16-q2048-d128-fp16-full-cpu",
    "b2-h16-q2048-d128-fp16-causal-cpu",
)


def history() -> History:
    """40 commits on two machines: a build that fails twice, a gap, a change, other benchmarks."""
    commits = tuple(
        Commit(
            id=f"{i + 1:02x}" * 20,
            parents=(f"{i:02x}" * 20,) if i else (),
            time=1_760_000_000 + 86_400 * i,
            author=HOSTILE if i == 3 else "A. Uthor",
            subject=SUBJECTS.get(i, f"Change number {i}"),
            body=BODIES.get(i, ""),
        )
        for i in range(COMMITS)
    )
    machines = Machine("box", cpu="A CPU"), Machine(HOSTILE, gpu="NVIDIA H200")
    series = [_kernel(machine.name, case) for machine in machines for case in CASES]
    series += [
        Series(
            machine="box",
            environment="env",
            benchmark="suite.track_size",
            parameters=(("name", HOSTILE),),
            unit="bytes",
            points=_points(_built(), 2048.0, interval=False),
        )
    ]
    gaps = tuple(
        Gap(i, "", "missing header", f"csrc/kernel.cpp:3: fatal error: {HOSTILE}") for i in BROKEN
    )
    return History(commits, machines, tuple(series), gaps)


@cache
def content() -> Content:
    """The history with a change in its first series, between commits that hide it."""
    whole = history()
    shift = Shift(math.log(1.2), math.log(1.15), math.log(1.25), 1e-6)
    change = Change(
        commit=STEP, first=STEP - 2, last=STEP, speedup=shift, before=20, after=15, unmeasured=1
    )
    first, *others = drawn(whole)
    jump = Jump(COMMITS - 2, 0.9, recent=True)
    graphs = (Graph(first, (change,), (jump,)), *map(Graph, others))
    latest = (
        latest_table(ROOT / "results/cpu.json", "box", COMMITS - 1, "cpu"),
        latest_table(ROOT / "results/h200.json", HOSTILE, COMMITS - 2, "cuda"),
    )
    return Content("toy <b>project</b>", whole, graphs, latest, (f"passed over: {HOSTILE}",))


def sparse() -> Content:
    """200 commits of one day, of which every tenth was measured and three do not build; a change
    that may lie in any of those between two measured ones."""
    commits = tuple(
        Commit(f"{i + 1:04x}" * 10, (), 1_760_000_400 + 240 * i, "A", f"Number {i}")
        for i in range(SPARSE)
    )
    one = _kernel("box", CASES[0], np.arange(0, SPARSE, EVERY))
    shift = Shift(math.log(1.2), math.log(1.15), math.log(1.25), 1e-6)
    change = Change(110, first=101, last=110, speedup=shift, before=11, after=9, unmeasured=9)
    gaps = tuple(Gap(i, "", "compile error", "csrc/kernel.cpp:1: error") for i in (33, 34, 105))
    history = History(commits, (Machine("box", cpu="A CPU"),), (one,), gaps)
    return Content("sparse", history, (Graph(one, (change,)),))


def _kernel(machine: str, case: str, measured=None) -> Series:
    good = _built() if measured is None else measured
    good = good[good != UNMEASURED] if measured is None else good
    ratio = np.where(good >= STEP, 0.6, 0.72)
    return Series(
        machine=machine,
        environment="env",
        benchmark="cpu.Seconds.track_seconds",
        parameters=(("case", case), ("candidate", "kernel")),
        unit="seconds",
        points=_points(good, 3e-4 * ratio),
        metric="wall",
        case=case,
        candidate="kernel",
        control=_points(good, 3e-4 + 0 * ratio),
        ratio=_points(good, ratio),
        failed=np.array([UNMEASURED] if measured is None else [], dtype=np.int64),
    )


def _built():
    return np.array([i for i in range(COMMITS) if i not in BROKEN])


def _points(commit, value, *, interval: bool = True) -> Points:
    wiggle = 1 + 0.01 * np.sin(commit * 1.7)
    values = value * wiggle
    none = np.full(len(commit), np.nan)
    spread = 0.02 * values if interval else none
    return Points(
        commit,
        values,
        values - spread,
        values + spread,
        values - spread / 2,
        values + spread / 2,
        np.full(len(commit), 10 if interval else 0),
        values * 1.1 if interval else none,
        values * 1.4 if interval else none,
        values[:, None] * 1.02 ** np.linspace(-1, 1, 10) if interval else np.empty((0, 0)),
    )
