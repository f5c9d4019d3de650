"""Time and memory of `flashbench compare` on 512 cases x 20 launches x 100 samples, beside
scipy.stats.bootstrap, which computes each case's interval by resampling.

python experiments/compare_speed.py       (seeds 8 and 9; one file, then two; best of three)
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RESAMPLES = 9999  # scipy's default


def write(folder: Path) -> None:
    """Write two run files, in a separate process whose memory does not count."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    import numpy as np
    from synthetic import make_cases, make_run

    from flashbench.runfile import save

    for name, seed in (("a.json", 8), ("b.json", 9)):
        rng = np.random.default_rng(seed)
        save(make_run(rng, cases=make_cases(512), launches=20, samples=100), folder / name)


def bootstrap(*paths: str) -> None:
    """The same files with json, numpy and scipy only: by case, the percentile interval of the ratio
    of the candidate's medians over launch medians, B to A."""
    import numpy as np
    from scipy import stats

    sides = []
    for path in paths:
        document = json.loads(Path(path).read_bytes())
        medians: dict[str, list[float]] = {}
        for launch in document["launches"]:
            for result in launch["results"]:
                if result["candidate"] == "ours":
                    seconds = result["timings"][0]["seconds"]
                    medians.setdefault(result["case"], []).append(float(np.median(seconds)))
        sides.append(medians)

    def ratio(a: np.ndarray, b: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.median(a, axis=axis) / np.median(b, axis=axis)

    rng = np.random.default_rng(0)
    for case, old in sides[0].items():
        found = stats.bootstrap(
            (old, sides[1][case]), ratio, n_resamples=RESAMPLES, method="percentile", rng=rng
        )
        print(case, *found.confidence_interval)


def main() -> None:
    print(f"load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, __file__, "write", folder], check=True)
        a, b = str(Path(folder) / "a.json"), str(Path(folder) / "b.json")
        flashbench = [sys.executable, "-m", "flashbench"]
        rows = {
            "--help": ([*flashbench, "--help"], 3),
            "one file": ([*flashbench, "compare", a], 3),
            "two files": ([*flashbench, "compare", a, b], 3),
            "scipy.stats.bootstrap": ([sys.executable, __file__, "bootstrap", a, b], 1),
        }
        best: dict[str, tuple[float, float]] = {}
        for title, (command, times) in rows.items():
            measured = [_measured(command) for _ in range(times)]
            best[title] = elapsed, processor, megabytes = tuple(
                map(min, zip(*measured, strict=True))
            )
            print(
                f"{title}: {elapsed:.2f} s, {processor:.2f} s of processor time, {megabytes:.0f} MB"
            )
        ours, theirs = best["two files"], best["scipy.stats.bootstrap"]
        print(
            f"two files take 1/{theirs[0] / ours[0]:.0f} of bootstrap's time, "
            f"1/{theirs[1] / ours[1]:.0f} of its processor time"
        )


def _measured(command: list[str]) -> tuple[float, float, float]:
    """Seconds, seconds of processor time and the largest memory in megabytes of a process."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    elapsed = time.perf_counter() - start
    # Linux counts in KiB, macOS in bytes.
    size = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return elapsed, usage.ru_utime + usage.ru_stime, size / 1e6


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["bootstrap"]:
        bootstrap(*sys.argv[2:])
    else:
        main()
