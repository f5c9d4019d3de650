"""How long `flashbench compare` takes on 512 cases x 20 launches x 100 samples, and its memory.

python experiments/compare_speed.py       (seeds 8 and 9; one file, then two; best of three)
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def write(folder: Path) -> None:
    """Two run files; in a process of its own, whose memory does not count."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    import numpy as np
    from synthetic import make_cases, make_run

    from flashbench.runfile import save

    for name, seed in (("a.json", 8), ("b.json", 9)):
        rng = np.random.default_rng(seed)
        save(make_run(rng, cases=make_cases(512), launches=20, samples=100), folder / name)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, __file__, folder], check=True)
        a, b = str(Path(folder) / "a.json"), str(Path(folder) / "b.json")
        for title, arguments in (("--help", ["--help"]), ("one file", [a]), ("two files", [a, b])):
            timings = [_timed(["compare", *arguments]) for _ in range(3)]
            elapsed, processor = (min(column) for column in zip(*timings, strict=True))
            print(f"{title}: {elapsed:.2f} s, {processor:.2f} s of processor time")
        # Of the largest child; the one that wrote the files is counted too, and is smaller.
        megabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"at most {megabytes:.0f} MB")


def _timed(arguments: list[str]) -> tuple[float, float]:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "flashbench", *arguments]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, used


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write(Path(sys.argv[1]))
    else:
        main()
