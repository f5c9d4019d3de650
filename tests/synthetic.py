"""Run files made of simulated noise, for tests and experiments.

pytest has tests/ and experiments/ on its path: `from synthetic import make_run`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from simulated_noise import Noise, normal

from flashbench.case import Case, DtypeName
from flashbench.operations.attention.operation import attention_case
from flashbench.operations.attention.shapes import Shape
from flashbench.outcome import Outcome
from flashbench.runfile import (
    BuildIdentity,
    Candidate,
    Environment,
    Launch,
    Pair,
    Result,
    RunFile,
    RunSettings,
    Timing,
)
from flashbench.verdict import Verdict


def make_cases(
    count: int, dtypes: Sequence[DtypeName] = ("fp16",), device: str = "cpu"
) -> list[Case]:
    """`count` different cases."""
    return [
        attention_case(
            Shape(1, 8, 8, 64 * (i + 1), 64 * (i + 1), 64), dtypes[i % len(dtypes)], False, device
        )
        for i in range(count)
    ]


def make_run(
    rng: np.random.Generator,
    *,
    cases: Sequence[Case],
    launches: int = 20,
    samples: int = 20,
    speedup: float | Sequence[float] = 1.0,
    between: float = 0.005,
    within: float = 0.005,
    noise: Noise = normal,
    machine: float = 0.0,
    metrics: Sequence[str] = ("wall",),
    backends: Sequence[str] = (),
    candidate: str = "ours",
    baseline_seconds: float = 1e-3,
) -> RunFile:
    """A complete run file: SDPA at `baseline_seconds` a case index + 1, the candidate faster.

    speedup: SDPA time / candidate time, one or one a case. between, within: standard deviation of
    log times of launches and of samples. machine: standard deviation of what a launch does to
    every candidate alike. backends: more SDPA baselines, 10 % slower than the default.
    """
    wanted = np.broadcast_to(np.asarray(speedup, dtype=float), len(cases))
    names = [candidate, "sdpa", *backends]
    candidates = [
        Candidate(
            name=name,
            spec=name if name.startswith("sdpa") else "flashbench",
            baseline=name.startswith("sdpa"),
            build=BuildIdentity(commit="0123456789abcdef")
            if name == candidate
            else BuildIdentity(),
        )
        for name in names
    ]
    block = [i // 2 for i in range(samples)]
    factors = {candidate: None, "sdpa": 1.0} | {
        name: 1.1 if name.startswith("sdpa") else 1.0 for name in backends
    }
    offsets = {
        (name, i): between * noise(rng, (launches,)) for name in names for i in range(len(cases))
    }
    made = []
    for index in range(launches):
        shared = machine * rng.standard_normal()
        results = []
        for i, case in enumerate(cases):
            for name in names:
                factor = factors[name] or 1 / wanted[i]
                centre = np.log(baseline_seconds * (i + 1) * factor) + shared
                centre += offsets[name, i][index]
                timings = [
                    Timing(
                        metric=metric,
                        calls=1,
                        seconds=np.exp(centre + within * rng.standard_normal(samples)).tolist(),
                        block=block,
                    )
                    for metric in metrics
                ]
                results.append(
                    Result(
                        case=case.id,
                        candidate=name,
                        status="ok",
                        timings=timings,
                        peak_memory_bytes=1_000_000,
                    )
                )
        made.append(
            Launch(index=index, seed=index, complete=True, device_seconds=2.0, results=results)
        )
    return RunFile(
        flashbench="0.1.0",
        created="2025-01-01T00:00:00Z",
        environment=Environment(cpu="Test CPU", threads=2, torch="2.9.0"),
        settings=RunSettings(
            launches=launches, samples=samples, seed=0, min_sample_seconds=0.0, timeout_seconds=60.0
        ),
        candidates=candidates,
        cases=list(cases),
        launches=made,
    )


def make_pair(rng: np.random.Generator, **settings: Any) -> RunFile:
    """A run file of the builds A and B: `make_run` whose candidate is B, at the speed-up over A."""
    run = make_run(rng, candidate="B", backends=["A"], **settings)
    run.pair = Pair(old="A", new="B", tolerance=0.01, confidence=0.95)
    return run


def small_run(seed: int, **options: object) -> RunFile:
    """Three cases of twelve launches, or as asked."""
    defaults: dict[str, object] = {"cases": make_cases(3), "launches": 12, "samples": 4}
    return make_run(np.random.default_rng(seed), **(defaults | options))  # type: ignore[arg-type]


def outcomes_of(verdicts: Sequence[Verdict]) -> list[Outcome]:
    return [verdict.outcome for verdict in verdicts]


# The verdict of a ratio's inverse; the others stay.
TURNED = {
    Outcome.FASTER: Outcome.SLOWER,
    Outcome.SLOWER: Outcome.FASTER,
    Outcome.PERHAPS_FASTER: Outcome.PERHAPS_SLOWER,
    Outcome.PERHAPS_SLOWER: Outcome.PERHAPS_FASTER,
}
