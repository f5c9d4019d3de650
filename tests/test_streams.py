"""Closed, full or unread standard streams leave exit codes correct."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import forks
import numpy as np
import pytest
from fleet.test_merge import split
from history.project import make_repository, measure
from synthetic import make_cases, make_pair, make_run

from flashbench import runfile
from flashbench.cli import COMMANDS
from flashbench.runfile import BuildIdentity
from flashbench.shard import Shard

_TINY = "--baseline-only --backends default --shape 1,1,16,16 --dtype fp32 --causal full"
# One way of each command that is quick, and that goes through all of its messages; its exit code.
WAYS = {
    "info": (0, "info"),
    "init": (4, "init"),  # tries the settings that are there, which build nothing
    "run": (0, f"run {_TINY} --launches 1 --samples 2 --min-sample 1us -o NEW"),
    "run without a kernel": (4, "run --candidate x=nosuch:f --shape 1,1,16,16 --dtype fp32 -o NEW"),
    "plan": (0, f"plan run {_TINY} --launches 1 --samples 2"),
    "profile": (4, "profile b1-h1-q16-d16-fp32-full-cpu --candidate x=nosuch:f -o NEW"),
    "cloud": (2, "cloud fetch nosuch"),
    "show": (0, "show run.json"),
    "report": (0, "report run.json -o NEW"),
    "compare": (1, "compare slower.json"),
    "compare revisions": (4, "compare HEAD~1 HEAD --format json"),
    "aa": (0, "aa --resume pair.json --launches 6 --comparisons 2"),
    "build": (0, "build HEAD~2..HEAD -j 2 --for build"),
    "builds": (0, "builds"),
    "bisect": (0, "bisect --good HEAD~2 --for build"),
    "publish": (0, "publish -o NEW"),
    "merge": (0, "merge part-1.json part-2.json -o NEW"),
    "record": (0, "record run.json --machine box --results NEW"),
    "backfill": (4, "backfill HEAD~1..HEAD --shape 1,1,16,16 --dtype fp32 -o NEW"),
    "history": (3, "history"),
    "preflight": (0, "preflight"),
    "gate": (1, "gate --no-speed"),
    "wrong usage": (2, "show nosuch.json"),
    "help": (0, "compare --help"),
}
STDIN, STDOUT, STDERR = range(3)
BROKEN = [
    (stream, how)
    for stream in (STDIN, STDOUT, STDERR)
    for how in ("closed", "full", "broken pipe")
    if (stream, how) != (STDIN, "full")
]
FEW = [(STDOUT, "full"), (STDERR, "broken pipe")]
# All commands have the same streams: each way to break one is tried on a table, a report of builds
# and an error, which a shell starts; stdout and stderr on the others, which are forks, and on those
# that import torch what is their own.
ALL = ("show", "builds", "wrong usage")
OWN = {
    "run": [(STDIN, "closed"), *FEW],
    "build": [(STDIN, "closed"), *FEW],  # its compilers inherit stdin
    "gate": [(STDOUT, "full")],
    "run without a kernel": [(STDERR, "broken pipe")],
    "compare revisions": [(STDOUT, "full")],
    "backfill": [(STDERR, "broken pipe")],
}
TRIED = [(way, *broken) for way in WAYS for broken in (BROKEN if way in ALL else OWN.get(way, FEW))]


@dataclass
class Workspace:
    """A repository with a history, and run files."""

    root: Path
    numbers: Iterator[int] = field(default_factory=count)
    prints: dict[str, bool] = field(default_factory=dict)

    def call(
        self, way: str, redirections: str | None = None, **streams: int
    ) -> subprocess.CompletedProcess[str]:
        """redirections: of a shell that starts the command, where it is not to be a fork."""
        new = str(self.root / f"new-{next(self.numbers)}.json")
        words = [new if word == "NEW" else word for word in WAYS[way][1].split()]
        kept = {name: str(self.root / name) for name in ("HOME", "FLASHBENCH_CACHE")}
        kept["FLASHBENCH_MACHINE"] = str(self.root / "machine.json")
        if redirections is None:
            return forks.run(words, self.root, kept, **streams)
        shell = ["sh", "-c", f'exec "$@" {redirections}', "sh"]
        return subprocess.run(
            [*shell, sys.executable, "-m", "flashbench", *words],
            cwd=self.root,
            env=os.environ | kept,
            text=True,
            **{"stdin": subprocess.DEVNULL, "stdout": -1, "stderr": -1, **streams},
        )

    def prints_result(self, way: str) -> bool:
        """Whether anything goes to stdout, where all streams are whole."""
        if way not in self.prints:
            done = self.call(way)
            assert done.returncode == WAYS[way][0], done.stderr
            self.prints[way] = bool(done.stdout)
        return self.prints[way]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("streams")
    commits = make_repository(root, ["One", "Two", "Three"])
    (root / "pyproject.toml").write_text(
        '[tool.flashbench.project]\ncallable = "nosuch:f"\nbuild = []\n'
    )
    measure(root / ".asv" / "results", commits, lambda index, case: 1.0)
    rng, cases = np.random.default_rng(1), make_cases(2)
    run = make_run(rng, cases=cases, launches=12)
    run.candidates[0].build.commit = commits[-1]
    runfile.save(run, root / "run.json")
    runfile.save(make_run(rng, cases=cases, launches=12, speedup=0.5), root / "slower.json")
    pair = make_pair(rng, cases=cases[:1], launches=12)  # an analysis costs most of a second a case
    for one in pair.candidates:
        if one.name in ("A", "B"):
            one.spec, one.baseline, one.build = "json:dumps", False, BuildIdentity()
    runfile.save(pair, root / "pair.json")
    for number, part in enumerate(split(run, [Shard(1, 2), Shard(2, 2)]), 1):
        runfile.save(part, root / f"part-{number}.json")
    return Workspace(root)


def test_every_command_is_tried() -> None:
    """A new command comes with a line here."""
    assert {words.split()[0] for _, words in WAYS.values()} == set(COMMANDS)


@pytest.mark.parametrize(("way", "stream", "how"), TRIED)
def test_the_exit_code_stands(workspace: Workspace, way: str, stream: int, how: str) -> None:
    """stdin and stderr change nothing; a result that stdout does not take is exit 2, except to a
    reader who left."""
    prints = stream == STDOUT and workspace.prints_result(way)
    name, sign = ("stdin", "stdout", "stderr")[stream], "<>>"[stream]
    redirections = "" if way in ALL else None
    if how == "broken pipe":
        reader, writer = os.pipe()
        os.close(writer if stream == STDIN else reader)
        end = reader if stream == STDIN else writer
        done = workspace.call(way, redirections, **{name: end})
        os.close(end)
    elif way in ALL:
        done = workspace.call(way, f"{stream}{sign}{'&-' if how == 'closed' else '/dev/full'}")
    elif how == "closed":
        done = workspace.call(way, **{name: forks.CLOSED})
    else:
        with Path("/dev/full").open("w") as full:
            done = workspace.call(way, **{name: full.fileno()})
    assert "Traceback" not in (done.stderr or "")
    if prints and how != "broken pipe":
        # Where nothing could be measured, that stays the error.
        assert done.returncode == (4 if way == "compare revisions" else 2)
        assert "flashbench: stdout: cannot be written: " in done.stderr
    else:
        assert done.returncode == WAYS[way][0], done.stderr


def test_all_streams_closed(workspace: Workspace) -> None:
    """`run` without stdin, stdout and stderr measures, and says that its table went nowhere."""
    before = set(workspace.root.glob("new-*.json"))
    assert workspace.call("run", "<&- >&- 2>&-").returncode == 2
    (path,) = set(workspace.root.glob("new-*.json")) - before
    assert runfile.read(path).launches[0].results[0].status == "ok"
