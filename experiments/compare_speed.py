"""How long `flashbench compare` takes on 512 cases x 20 launches x 100 samples, and its memory.

python experiments/compare_speed.py       (seed 8; one file, then two; best of three)
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from synthetic import make_cases, make_run

from flashbench.runfile import save


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("a.json", "b.json")]
        for seed, path in enumerate(paths, start=8):
            rng = np.random.default_rng(seed)
            save(make_run(rng, cases=make_cases(512), launches=20, samples=100), path)
        for arguments in (["--help"], paths[:1], paths):
            best = min(_seconds(["compare", *map(str, arguments)]) for _ in range(3))
            megabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            print(f"{len(arguments)} x {Path(arguments[0]).name}: {best:.2f} s, {megabytes:.0f} MB")


def _seconds(arguments: list[str]) -> float:
    start = time.perf_counter()
    command = [sys.executable, "-m", "flashbench", *arguments]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
