"""Time `flashbench publish` and weigh its site on a large generated history.

`python experiments/publish_speed.py FOLDER [--commits 2000] [--cases 500]` makes a git repository
with that many commits and asv results of each in FOLDER: for every case, times of a kernel and of
SDPA, and their ratio. Every 40th commit does not build, and one case in five gets slower once. It
publishes, publishes again, adds a commit, and publishes that; FOLDER also holds the cache. Then it
disables each cache in turn. With a browser (see tests/pages/browser.py) it also opens the largest
pages. docs/lab/site.md quotes the figures.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from flashbench.history import names
from flashbench.operations.attention.operation import grid
from flashbench.operations.attention.shapes import PRESETS

MACHINE, ENVIRONMENT = "box", "flashbench-py3.11"
COLUMNS = [
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b",
    "stats_q_25", "stats_q_75", "stats_number", "stats_repeat", "samples", "profile",
]  # fmt: skip
LAUNCHES, NOISE, STEP = 10, 0.01, 0.03
BROKEN = 40  # one in this many commits
OPENED = 5  # times for each page
WITHOUT = {
    "decoded results": "import flashbench.history.folder as f; f._MANY = 10**9",
    "keys of graphs": "import flashbench.site.encode as e; e.graph_key = lambda one: str(id(one))",
    "keys of commits": "from flashbench.site.commit_pages import CommitPages as C; "
    "C.key = lambda self, commit: str(id(self))",
}


class History:
    """A repository and its results, commit by commit."""

    def __init__(self, folder: Path, cases: int, seed: int = 0) -> None:
        self.folder = folder
        self._random = np.random.default_rng(seed)
        every = grid(PRESETS["grid"], ["fp32", "fp16", "bf16"], [False, True], "cpu")
        # The presets have fewer cases: repeat their shapes at other batch sizes.
        self._cases = [
            case.id.replace(f"b{case.sizes['batch']}-", f"b{case.sizes['batch'] + 100 * i}-", 1)
            for i in range(cases // len(every) + 1)
            for case in every
        ][:cases]
        self._base = np.exp(self._random.uniform(np.log(1e-5), np.log(1e-2), cases))
        self._ratio = self._random.uniform(0.6, 1.1, cases)
        self.results = folder / ".asv" / "results" / MACHINE
        self.results.mkdir(parents=True)
        (self.results / "machine.json").write_text(json.dumps({"cpu": "made up", "version": 1}))

    def commits(self, first: int, count: int) -> list[str]:
        """Make empty commits with a subject each; their hashes, oldest first."""
        if first == 0:
            self._git("init", "-q", "-b", "main")
        stream = []
        for number in range(first, first + count):
            message = f"Change the kernel, {number}"
            who = f"A. Uthor <a@example.org> {1_700_000_000 + 3600 * number} +0000"
            parent = "from refs/heads/main^0\n" if number == first and first else ""
            stream.append(
                f"commit refs/heads/main\ncommitter {who}\ndata {len(message)}\n{message}\n{parent}"
            )
        self._git("fast-import", "--quiet", stdin="".join(stream))
        hashes = self._git("rev-list", "--reverse", f"-{count}", "main").split()
        for number, commit in enumerate(hashes, first):
            if number % BROKEN:
                self._measure(number, commit)
        return hashes

    def _measure(self, number: int, commit: str) -> None:
        slower = (np.arange(len(self._cases)) % 5 == 0) & (
            number > 50 + 10 * np.arange(len(self._cases)) % 1500
        )
        ratio = self._ratio * np.where(slower, 1 + STEP, 1.0)
        sdpa = self._base * np.exp(0.02 * self._random.normal())
        kernel = sdpa * ratio
        times = np.stack([kernel, sdpa], axis=1).ravel()
        device = "cpu"
        seconds, quotient = (
            str(names.Name(device, "wall", quantity)) for quantity in (names.SECONDS, names.RATIO)
        )
        document = {
            "version": 2,
            "commit_hash": commit,
            "env_name": ENVIRONMENT,
            "date": 1_700_000_000_000 + number,
            "params": {"machine": MACHINE},
            "python": "3.11",
            "requirements": {},
            "env_vars": {},
            "durations": {},
            "result_columns": COLUMNS,
            "results": {
                seconds: self._row(times, [self._cases, ["kernel", "sdpa"]]),
                quotient: self._row(ratio, [self._cases, ["kernel"]]),
            },
        }
        path = self.results / f"{commit[:8]}-{ENVIRONMENT}.json"
        path.write_text(json.dumps(document))

    def _row(self, centre: np.ndarray, params: list[list[str]]) -> list[object]:
        drawn = centre[:, None] * np.exp(NOISE * self._random.normal(size=(len(centre), LAUNCHES)))
        drawn.sort(axis=1)
        quantiles = np.quantile(drawn, [0.5, 0, 1, 0.25, 0.75], axis=1)
        middle, low, high, q25, q75 = (
            [float(f"{value:.7g}") for value in column] for column in quantiles
        )
        count = [LAUNCHES] * len(centre)
        written = [[repr(text) for text in values] for values in params]
        return [
            middle,
            written,
            names.VERSION,
            0,
            1.0,
            low,
            high,
            q25,
            q75,
            [1] * len(count),
            count,
        ]

    def _git(self, *arguments: str, stdin: str | None = None) -> str:
        command = ["git", "-C", str(self.folder), *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=True)
        return done.stdout


def publish(history: History, change: str = "") -> None:
    code = f"{change}\nfrom flashbench.cli import main; main()"
    command = [sys.executable, "-P", "-c", code, "publish"]
    environment = os.environ | {"FLASHBENCH_CACHE": str(cache_of(history.folder).absolute())}
    load, started, used = os.getloadavg()[0], time.perf_counter(), processor_time()
    done = subprocess.run(
        command, cwd=history.folder, env=environment, capture_output=True, text=True, check=True
    )
    taken, used = time.perf_counter() - started, processor_time() - used
    print(f"  {taken:.1f} s, {used:.1f} s of processor time, load {load:.1f}: ", end="")
    print(done.stderr.strip(), flush=True)


def processor_time() -> float:
    """CPU seconds of ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cache_of(folder: Path) -> Path:
    return folder / "cache"


def weigh(site: Path) -> None:
    sizes = {path: path.stat().st_size for path in site.rglob("*") if path.is_file()}
    print(f"  {sum(sizes.values()) / 1e6:.0f} MB in {len(sizes)} files", flush=True)
    for folder in ("commits", "cases", "data/graphs", "data/earlier", "data/heat"):
        found = [size for path, size in sizes.items() if path.parent == site / folder]
        print(f"  {folder}: {len(found)} files of {np.mean(found) / 1e3:.0f} kB at the mean")
    for name in ("index.html", "graphs.html", "commits.html", "changes.html", "data/site.js"):
        print(f"  {name}: {sizes[site / name] / 1e3:.0f} kB")


def browse(site: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    try:
        from pages.browser import Visit, chromium
    except BaseException as missing:  # pytest's skip is no Exception
        print(f"  no browser: {missing}")
        return
    # What is there, and when, by the page's own clock.
    figure = "document.querySelector('figure[data-drawn]')"
    eight = "document.querySelectorAll('figure[data-drawn]').length === 8"
    with chromium() as browser:
        for path, done in (
            ("index.html", figure),
            ("index.html", "document.querySelector('#heat[data-drawn]')"),
            ("graphs.html", figure),
            ("graphs.html", eight),
            ("commits.html", "document.querySelector('tbody tr')"),
        ):
            taken = []
            for _ in range(OPENED):
                visit = Visit(browser, site)
                there = visit.open(path).wait_for_function(f"() => {done} && performance.now()")
                taken.append(there.json_value() / 1e3)
                visit.close()
            median, load = statistics.median(taken), os.getloadavg()[0]
            said = f"median {median:.2f} s, {min(taken):.2f} to {max(taken):.2f}; load {load:.1f}"
            print(f"  {path}: {done}: {said}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--commits", type=int, default=2000)
    parser.add_argument("--cases", type=int, default=500)
    chosen = parser.parse_args()
    history = History(chosen.folder, chosen.cases)
    history.commits(0, chosen.commits)
    site = chosen.folder / ".asv" / "site"
    print("first")
    publish(history)
    weigh(site)
    kept = [path.stat().st_size for path in cache_of(chosen.folder).rglob("*") if path.is_file()]
    print(f"  kept beside it: {sum(kept) / 1e6:.0f} MB in {len(kept)} files")
    print("again")
    publish(history)
    print("after one commit more")
    history.commits(chosen.commits + 1, 1)
    publish(history)
    for number, (name, change) in enumerate(WITHOUT.items(), 2):
        print(f"after one commit more, without {name}")
        history.commits(chosen.commits + number, 1)
        publish(history, change)
    print("in a browser")
    browse(site)


if __name__ == "__main__":
    main()
