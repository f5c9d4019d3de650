"""`flashbench gate` on a project whose kernel is torch's own attention, or not."""

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import forks
import pytest
from revisions.repository import Repository

_RIGHT = """\
import torch.nn.functional as F

def attention(q, k, v, is_causal=False, enable_gqa=False):
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=enable_gqa)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "cache"))
    made = Repository(tmp_path / "fast")
    made.write("fast.py", _RIGHT)
    made.write(
        "pyproject.toml",
        '[tool.flashbench.project]\ncallable = "fast:attention"\nbuild = []\n'
        "[tool.flashbench.gate]\nat-least = [0.01]\n",
    )
    made.commit("A kernel")
    return made


def _gate(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forks.run(["gate", *arguments], root)


@pytest.mark.slow
def test_every_level_passes(project: Repository) -> None:
    """Levels and thresholds come from the settings; stderr has a line per level; the measurements
    are kept."""
    few = ["--shape", "1,1,16,16", "--dtype", "fp32", "--causal", "full", "--samples", "2"]
    done = _gate(project.root, *few, "--run-file", "gate-run.json", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["summary"]["device_seconds"] > 0
    rows = found["rows"]
    assert [row["case"] for row in rows] == [
        "builds",
        "resources fit",
        "correct",
        "at least 0.01x",
    ]
    assert {row["verdict"] for row in rows} == {"PASSED"}
    assert "flashbench: builds: PASSED: " in done.stderr
    assert (project.root / "gate-run.json").is_file()


def test_stops_at_the_first_level_that_fails(project: Repository) -> None:
    """A wrong result: exit 1, the step that follows, and nothing is timed."""
    project.edit("fast.py", "return F.", "return 2 * F.")
    done = _gate(project.root, "--format", "junit")
    assert done.returncode == 1, done.stderr
    document = ElementTree.fromstring(done.stdout.partition("?>")[2])  # noqa: S314 - ours
    suite = document.find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "1", "1")
    assert "flashbench bisect --for correct" in done.stdout


def test_a_partial_clone_is_not_measured(project: Repository) -> None:
    """A commit that git cannot read is exit code 4, and the next step is the fix."""
    project.edit("fast.py", "return F.", "return 1 * F.")
    project.commit("Another")
    project.git("config", "uploadpack.allowFilter", "true")
    clone = project.root.with_name("clone")
    project.git("clone", "-q", "--filter=blob:none", f"file://{project.root}", str(clone))
    done = _gate(clone, "HEAD~1", "--no-speed")
    assert done.returncode == 4, done.stderr
    assert "NOT MEASURED: builds" in done.stdout
    following = next(line for line in done.stdout.splitlines() if line.startswith("next: "))
    assert following.endswith("fetch the rest with: git fetch --refetch --no-filter")


@pytest.mark.parametrize(
    ("script", "flags", "following"),
    [
        ("kill -9 $PPID", [], "killed the process that supervises the build"),
        ("echo 'cc: No space left on device'; exit 1", [], "for lack of memory or disk"),
        ("clang-99 -c a.c", [], "for lack of a tool on PATH"),
        ("sleep 60", ["--build-timeout", "1s"], "allow more with --build-timeout"),
        ("echo 'a.c:1:1: error: no'; exit 1", None, "bisect --for build"),
    ],
)
def test_only_the_sources_fail_a_build(
    project: Repository, script: str, flags: list[str] | None, following: str
) -> None:
    """A build that is killed, lacks disk, time or a compiler is exit code 4; a refused one is 1."""
    project.write("b.sh", f"{script}\n")
    project.edit("pyproject.toml", "build = []", 'build = ["sh", "b.sh"]')
    done = _gate(project.root, "--no-speed", *(flags or []))
    assert done.returncode == (1 if flags is None else 4), done.stderr
    assert following in done.stdout


def test_a_launch_that_every_chip_refuses_does_not_fit(project: Repository) -> None:
    """Known from the working tree's text, before anything is launched."""
    kernel = "__global__ void f(float* x) { x[0] = 1; }\nvoid g() { f<<<1, 2048>>>(nullptr); }\n"
    project.write("kernels/f.cu", kernel)
    done = _gate(project.root, "--no-speed", "--format", "json")
    assert done.returncode == 1, done.stderr
    fits = json.loads(done.stdout)["rows"][1]
    assert (fits["case"], fits["verdict"]) == ("resources fit", "FAILED")
    assert fits["reason"].startswith("kernels/f.cu:2 launches 2048 threads a block")
    assert fits["next"] == '"${EDITOR:-vi}" +2 kernels/f.cu  # at most 1024 threads a block'


def test_github_log(project: Repository) -> None:
    """One annotation for the level that failed, titled with it."""
    project.edit("fast.py", "import torch", "import no_such_module, torch")
    done = _gate(project.root, "--no-speed", "--format", "github")
    assert done.returncode == 1, done.stderr
    assert "::error title=FAILED: builds::import error: " in done.stdout.replace("%3A", ":")


def test_a_threshold_that_is_given_twice_is_one_level(project: Repository) -> None:
    """A gate that passed does not end with a level that was not reached."""
    few = ["--shape", "1,1,16,16", "--dtype", "fp32", "--causal", "full", "--samples", "2"]
    twice = ["--at-least", "0.01", "--at-least", "0.01"]
    done = _gate(project.root, *few, *twice, "--run-file", "r.json", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [row["verdict"] for row in json.loads(done.stdout)["rows"]] == ["PASSED"] * 4


def test_too_few_launches_are_refused_before_anything_is_measured(project: Repository) -> None:
    """Three launches leave every speed level undecided: the least number is said."""
    done = _gate(project.root, "--launches", "3")
    assert (done.returncode, done.stdout) == (2, "")
    assert "use --launches 6 or more" in done.stderr
    assert done.stderr.count("\n") == 1


def test_next_step_of_a_kernel_that_raises(project: Repository) -> None:
    """The search is for the very case that raises."""
    project.edit("fast.py", "return F.", 'raise IndexError("row 3")\n    return F.')
    done = _gate(project.root, "--no-speed", "--format", "json")
    correct = json.loads(done.stdout)["rows"][2]
    case = correct["reason"].partition(":")[0]
    assert correct["reason"] == f"{case}: raises IndexError: row 3"
    assert correct["next"] == f"flashbench bisect --for correct --good COMMIT --case {case}"
