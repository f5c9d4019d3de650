"""The command that an interrupted one prints, given to a shell, resumes it."""

import shlex
import signal
import time
from pathlib import Path

import forks
import pytest
from revisions.repository import Repository

from flashbench import runfile
from flashbench.errors import InvalidInputError

pytestmark = pytest.mark.slow

_RIGHT = """\
import torch.nn.functional as F

def attention(q, k, v, is_causal=False, enable_gqa=False):
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=enable_gqa)
"""
_FEW = ["--shape", "1,1,16,16", "--dtype", "fp32", "--causal", "full", "--samples", "2"]
_FEW += ["--min-sample", "0.1ms"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A project whose commit v1 is right."""
    made = Repository(tmp_path_factory.mktemp("resume") / "fast")
    made.write("fast.py", _RIGHT)
    made.write(
        "pyproject.toml", '[tool.flashbench.project]\ncallable = "fast:attention"\nbuild = []\n'
    )
    made.commit("A kernel")
    made.git("tag", "v1")
    return made


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["gate", "v1", "--at-least", "0.01", "--launches", "8", "--force"], None),
        (["aa", "--launches", "2", "--comparisons", "4"], "my aa.json"),
    ],
)
def test_what_an_interrupt_prints_resumes(
    project: Repository, monkeypatch: pytest.MonkeyPatch, command: list[str], name: str | None
) -> None:
    """The revision and all options are in it, the file quoted; --force, which would replace what
    was measured, is not. Of a file that got no name, its name is added."""
    monkeypatch.setenv("FLASHBENCH_CACHE", str(project.root.with_name("cache")))
    before = set(project.root.glob("*.json"))
    named = ["--run-file", name] if name else []
    process = forks.start([*command, *_FEW, *named], project.root)
    while process.poll() is None and not (_measured(project, before)):
        time.sleep(0.02)
    assert process.poll() is None  # in the middle of its work
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 4, errors
    (file,) = set(project.root.glob("*.json")) - before
    last = errors.strip().splitlines()[-1]
    again = shlex.split(last.partition("; resume with: ")[2])
    assert again[0] == "flashbench", last
    assert "--force" not in again
    assert again[again.index("--run-file") + 1] == file.name
    done = forks.run(again[1:], project.root)
    assert done.returncode in (0, 1, 3), done.stderr  # a verdict
    assert f"flashbench: {file.name}: resumed, with " in done.stderr
    assert len(runfile.read(file).launches) == 8


def _measured(project: Repository, before: set[Path]) -> bool:
    """Whether the new run file has a whole launch."""
    for file in set(project.root.glob("*.json")) - before:
        try:
            return any(launch.complete for launch in runfile.read(file).launches)
        except InvalidInputError:
            return False
    return False
