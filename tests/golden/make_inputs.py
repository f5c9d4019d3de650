"""Write the run files that the golden commands read: python tests/golden/make_inputs.py.

They are kept in git, so that an update of numpy's random numbers changes no golden output.
"""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "experiments")]

from synthetic import make_cases, make_run  # noqa: E402

from flashbench.runfile import Result, RunFile, save  # noqa: E402


def _measured(seed: int, **options: object) -> RunFile:
    defaults: dict[str, object] = {
        "cases": make_cases(4, ("fp16", "fp32")),
        "launches": 10,
        "samples": 8,
        "backends": ("sdpa:math",),
        "between": 0.001,
        "within": 0.002,
    }
    run = make_run(np.random.default_rng(seed), **(defaults | options))  # type: ignore[arg-type]
    for launch in run.launches:
        for result in launch.results:
            for timing in result.timings:  # nanoseconds: small files, readable diffs
                timing.seconds = [round(seconds, 9) for seconds in timing.seconds]
    return run


def _with_failures() -> RunFile:
    run = _measured(3, speedup=1.1)
    run.hourly_rate = 3.6
    run.candidates[0].build.dirty = True
    for launch in run.launches:
        for index, result in enumerate(launch.results):
            if result.candidate != "ours":
                continue
            case = [c.id for c in run.cases].index(result.case)
            if case == 1 and launch.index == 4:
                bad = ("wrong", "max error 0.5 exceeds the bound 0.01")
            elif case == 2:
                bad = ("timeout", "no answer for 60 s")
            elif case == 3 and launch.index == 7:
                bad = ("crashed", "the worker died of signal 11")
            else:
                continue
            launch.results[index] = Result(
                case=result.case,
                candidate="ours",
                status=bad[0],  # type: ignore[arg-type]
                reason=bad[1],
            )
    run.launches[-1].complete = False
    return run


def main() -> None:
    baseline = _measured(4)
    baseline.candidates = baseline.candidates[1:]
    for launch in baseline.launches:
        launch.results = [r for r in launch.results if r.candidate != "ours"]
    gpu = _measured(
        5,
        cases=make_cases(2, ("bf16",), "cuda"),
        metrics=("gpu_warm", "gpu_cold", "wall"),
        baseline_seconds=2e-5,
        speedup=[1.3, 0.7],
    )
    gpu.environment.gpu = "NVIDIA Test GPU"
    future = _measured(6, launches=1)
    future.version = 99
    files = {
        "a": _measured(1, speedup=[1.2, 0.8, 1.0, 1.0]),
        "b": _measured(2, speedup=[1.2, 0.76, 1.0, 1.04], machine=0.01),
        "equal": _measured(1, speedup=1.5),
        "one_launch": _measured(1, launches=1),
        "failures": _with_failures(),
        "baseline": baseline,
        "gpu": gpu,
        "other_cases": _measured(1, cases=make_cases(2, ("bf16",))),
        "future": future,
    }
    for name, run in files.items():
        save(run, HERE / f"{name}.json")
    whole = (HERE / "one_launch.json").read_bytes()
    (HERE / "truncated.json").write_bytes(whole[: len(whole) // 2])


if __name__ == "__main__":
    main()
