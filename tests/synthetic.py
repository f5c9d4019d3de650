"""Run files made of simulated noise, for tests and experiments.

Not a test module: `from synthetic import ...` with tests/ on the path (see tests/conftest.py).
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from flashbench.case import Case, DtypeName, Shape
from flashbench.runfile import (
    BuildIdentity,
    Candidate,
    Environment,
    Launch,
    Result,
    RunFile,
    Settings,
    Timing,
)

FloatArray = NDArray[np.float64]
# (generator, launches) -> one log-time offset a launch, standard deviation about 1.
Noise = Callable[[np.random.Generator, int], FloatArray]


def normal(rng: np.random.Generator, n: int) -> FloatArray:
    """Independent launches."""
    return rng.standard_normal(n)


def heavy_tailed(rng: np.random.Generator, n: int) -> FloatArray:
    """Student t with 3 degrees of freedom, scaled to standard deviation 1."""
    return rng.standard_t(3, n) / np.sqrt(3)


def skewed(rng: np.random.Generator, n: int) -> FloatArray:
    """Exponential: mostly fast, sometimes slow, as on a shared machine."""
    return rng.standard_exponential(n) - 1


def bimodal(rng: np.random.Generator, n: int) -> FloatArray:
    """Each launch in one of two equally likely modes, and little noise inside them."""
    return rng.choice([-1.0, 1.0], n) + 0.02 * rng.standard_normal(n)


def quantised(rng: np.random.Generator, n: int) -> FloatArray:
    """Normal noise read off a clock whose tick is one standard deviation."""
    return np.round(rng.standard_normal(n))


def make_cases(
    count: int, dtypes: Sequence[DtypeName] = ("fp16",), device: str = "cpu"
) -> list[Case]:
    """`count` different cases."""
    return [
        Case(Shape(1, 8, 8, 64 * (i + 1), 64 * (i + 1), 64), dtypes[i % len(dtypes)], False, device)
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
    factors = {candidate: None, "sdpa": 1.0} | dict.fromkeys(backends, 1.1)
    offsets = {
        (name, i): between * noise(rng, launches) for name in names for i in range(len(cases))
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
        settings=Settings(
            launches=launches, samples=samples, seed=0, min_sample_seconds=0.0, timeout_seconds=60.0
        ),
        candidates=candidates,
        cases=list(cases),
        launches=made,
    )
