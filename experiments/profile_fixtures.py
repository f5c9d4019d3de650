"""Profile kernels on a GPU and store ncu's output, for tests to replay.

    python experiments/profile_fixtures.py FOLDER [STEP...]

A failure affects no other profile; `log.txt` has the outcome of each.
"""

import csv
import io
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from flashbench.measuring.protocol import Setup
from flashbench.operations import parse_case
from flashbench.profile import counters, gpu_ceilings, ncu, target, timing
from flashbench.runfile import Candidate

ROOT = Path(__file__).resolve().parent
LARGE, SMALL = "b1-h16-q4096-d128-bf16-full-cuda", "b1-h1-q128-d64-bf16-full-cuda"
# (name, candidate, case, cold)
PROFILES = (
    ("ours", "flashbench", LARGE, False),
    ("ours_cold", "flashbench", LARGE, True),
    ("ours_small", "flashbench", SMALL, False),
    ("ours_decode", "flashbench", "b16-h32-g8-q1-k4096-d128-bf16-full-cuda", True),
    ("ours_two_kernels", "flashbench", "b1-h16-q2048-d128-bf16-full-cuda", False),
    ("sdpa", "sdpa", LARGE, False),
    ("sdpa_flash", "sdpa:flash", LARGE, False),
    ("sdpa_small", "sdpa", SMALL, False),
    ("triton", "bound_kernels:triton_attention", LARGE, False),
    ("sdpa_math", "sdpa:math", "b1-h8-q512-d64-bf16-full-cuda", False),
)


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    found = ncu.find()
    steps: list[tuple[str, Callable[[], object]]] = [
        ("version", lambda: (out / "version.txt").write_text(ncu.version(found))),
        ("ceilings", lambda: _ceilings(out)),
        ("times", lambda: (out / "times.txt").write_text(_times())),
        ("bound", lambda: _profile(out, "bound", found, [sys.executable, _bound()])),
        *((p[0], lambda p=p: _one(out, found, *p)) for p in PROFILES),
        ("full set", lambda: _odd(out, "full", found, ["--set", "full"])),
        ("unknown metric", lambda: _odd(out, "unknown", found, ["--metrics", "no__such.sum"])),
        ("nobody", lambda: _nobody(out, found)),
        ("pages", lambda: _pages(out, found)),
    ]
    chosen = sys.argv[2:] or [name for name, _ in steps]
    with (out / "log.txt").open("w") as log:
        for name, step in steps:
            if name not in chosen:
                continue
            start = time.perf_counter()
            try:
                step()
                said = "done"
            except BaseException:
                said = traceback.format_exc()
            log.write(f"{name}: {time.perf_counter() - start:.1f} s: {said}\n")
            log.flush()


def _bound() -> str:
    return str(ROOT / "bound_kernels.py")


def _ceilings(out: Path) -> None:
    (out / "ceilings.json").write_bytes(msgspec.json.encode(gpu_ceilings.measure()))


def _times() -> str:
    done = subprocess.run([sys.executable, _bound()], capture_output=True, text=True, timeout=90)
    return done.stdout + done.stderr


def _profile(out: Path, name: str, found: str, command: list[str], *, cold: bool = False) -> None:
    metrics = ncu.offered(found)
    said = ncu.collect(found, out / f"{name}.ncu-rep", command, metrics, 120, cold=cold)
    (out / f"{name}.csv").write_text(trimmed(said))


def trimmed(text: str) -> str:
    """The page `raw` without the columns that describe the device or the tool."""
    dropped = ("device__attribute", "launch__", "nvlink__", "numa__", "c2clink__", "profiler__")
    kept = [name for names in counters.NAMES.values() for name in names]
    rows = list(csv.reader(text.splitlines()))
    at = [
        column
        for column, name in enumerate(rows[0])
        if name in kept or not name.startswith(dropped)
    ]
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([[row[column] for column in at] for row in rows])
    return out.getvalue()


def _one(out: Path, found: str, name: str, candidate: str, case: str, cold: bool) -> None:
    path = out / f"{name}.job"
    setup = Setup(
        device="cuda",
        candidates=[]
        if candidate.startswith("sdpa")
        else [Candidate(name=candidate, spec=candidate)],
        backends="all",
        threads=None,
        samples=2,
        min_sample_seconds=None,
        import_root=str(ROOT),
    )
    job = target.Job(setup=setup, candidate=candidate, case=parse_case(case), seed=0, cold=cold)
    target.write(job, path)
    timed = timing.time_case(setup, candidate, job.case, 0, 60)
    (out / f"{name}.timed.json").write_bytes(msgspec.json.encode(timed))
    _profile(out, name, found, target.command(path), cold=cold)


def _odd(out: Path, name: str, found: str, options: list[str]) -> None:
    marked = [found, "--profile-from-start", "off", "--clock-control", "none", *options]
    report = out / f"{name}.ncu-rep"
    command = [*marked, "-f", "-o", str(report), sys.executable, _bound(), "conflicts"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    (out / f"{name}.txt").write_text(f"{done.returncode}\n{done.stdout}\n{done.stderr}")


def _nobody(out: Path, found: str) -> None:
    """Profile without root, which some drivers refuse."""
    metrics = ",".join(counters.wanted(()))
    command = ["setpriv", "--reuid", "65534", "--clear-groups", "--inh-caps=-all", found]
    command += ["--metrics", metrics, sys.executable, "-c"]
    command += ["import torch; torch.zeros(9, device='cuda')"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    (out / "nobody.txt").write_text(f"{done.returncode}\n{done.stdout[:4000]}\n{done.stderr}")


def _pages(out: Path, found: str) -> None:
    """Print the same report as other pages and in other units."""
    for name, options in {
        "auto": ["--page", "raw"],
        "details": ["--page", "details"],
        "instances": ["--page", "raw", "--print-metric-instances", "values"],
    }.items():
        for report in ("full", "bound"):
            path = str(out / f"{report}.ncu-rep")
            done = subprocess.run(
                [found, "--import", path, "--csv", *options],
                capture_output=True,
                text=True,
                timeout=60,
            )
            (out / f"{report}_{name}.csv").write_text(done.stdout or done.stderr)


if __name__ == "__main__":
    main()
