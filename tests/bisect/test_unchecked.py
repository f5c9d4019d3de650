"""What no check could decide is said to be unchecked, by `build`, `builds` and `bisect` alike."""

import json
import subprocess

import forks
import pytest
from revisions.repository import Repository

from flashbench.errors import Exit

pytestmark = pytest.mark.slow

SETTINGS = '[tool.flashbench.project]\ncallable = "kernel:attention"\nbuild = []\n'
KERNEL = (
    "from torch.nn.functional import scaled_dot_product_attention as sdpa\n"
    "def attention(q, k, v, is_causal=False, enable_gqa=False):\n"
    "    if q.shape[-1] in {refused}:\n"
    "        raise NotImplementedError(f'head dim {{q.shape[-1]}}')\n"
    "    return {factor} * sdpa(q, k, v, is_causal=is_causal)\n"
)
SMALL = (32, 64, 96, 128, 256)  # every head dim of the small cases
TAKEN = "b1-h2-q16-d80-fp32-full-cpu"
REFUSED = "b1-h2-q16-d64-fp32-full-cpu"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Right everywhere; right, but refusing every small case; wrong and refusing; wrong."""
    repository = Repository(tmp_path_factory.mktemp("unchecked") / "project")
    repository.write("pyproject.toml", SETTINGS)
    for name, refused, factor in (
        ("right", (), 1),
        ("refuses", SMALL, 1),
        ("hidden", SMALL, 0),
        ("wrong", (), 0),
    ):
        repository.write("kernel.py", KERNEL.format(refused=refused, factor=factor))
        repository.commit(name)
        repository.git("tag", name)
    return repository


@pytest.fixture(scope="module")
def flashbench(project: Repository):  # type: ignore[no-untyped-def]
    environment = {"FLASHBENCH_CACHE": str(project.root.parent / "cache")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return forks.run([*arguments, "--format", "json"], project.root, environment)

    return run


def test_build_of_what_refuses_everything_is_unchecked(flashbench) -> None:  # type: ignore[no-untyped-def]
    """It exits with 4, not 0, and names the refusal; a case that the build accepts decides."""
    done = flashbench("build", "refuses")
    assert done.returncode == Exit.NOT_MEASURED
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["status"], row["right_on"]) == ("unchecked", "")
    refusal = "b1-h2-q64-d64-fp32-full-cpu is refused, as 5 more cases are: NotImplementedError"
    assert refusal in row["reason"]
    assert "unchecked" in done.stderr
    assert flashbench("build", "refuses", "--for", "load").returncode == Exit.PASS
    done = flashbench("build", "refuses", "--case", TAKEN)
    assert done.returncode == Exit.PASS
    assert json.loads(done.stdout)["rows"][0]["right_on"] == TAKEN
    assert flashbench("build", "hidden", "--case", TAKEN).returncode == Exit.REGRESSION
    assert flashbench("build", "hidden", "--case", REFUSED).returncode == Exit.NOT_MEASURED
    done = flashbench("build", "right..wrong")
    assert done.returncode == Exit.REGRESSION
    assert json.loads(done.stdout)["summary"]["statuses"] == {"unchecked": 2, "wrong result": 1}
    listed = json.loads(flashbench("builds", "refuses").stdout)
    assert listed["rows"][0]["status"] == "unchecked"
    assert "flashbench build --case" in listed["notes"][-1]["message"]


def test_bisect_takes_unchecked_commits_for_neither(flashbench, project: Repository) -> None:  # type: ignore[no-untyped-def]
    """They are skipped: candidates before the first that is wrong, and no end of a range."""
    done = flashbench("bisect", "--for", "correct", "--good", "right", "--bad", "wrong")
    assert done.returncode == Exit.UNDECIDED, done.stderr
    found = json.loads(done.stdout)["summary"]
    assert found["last_working"] == project.git("rev-parse", "right")
    assert len(found["candidates"]) == 3
    assert "; 2 of them could not be tested" in found["answer"]
    for good, bad in (("refuses", "wrong"), ("right", "hidden")):
        done = flashbench("bisect", "--for", "correct", "--good", good, "--bad", bad)
        assert done.returncode == Exit.NOT_MEASURED
        assert "unchecked: b1-h2-q64-d64-fp32-full-cpu is refused" in done.stderr
        assert "name a case that it supports with --case" in done.stderr.splitlines()[-1]
    named = ["bisect", "--for", "correct", "--good", "right", "--bad", "wrong", "--case"]
    done = flashbench(*named, TAKEN)
    assert done.returncode == Exit.REGRESSION
    assert json.loads(done.stdout)["summary"]["culprit"] == project.git("rev-parse", "hidden")
    done = flashbench(*named, REFUSED)
    answer = json.loads(done.stdout)["summary"]["answer"]
    assert "first that is wrong on a named case or refuses it: " in answer
    assert project.git("rev-parse", "refuses")[:12] in answer


def test_records_that_do_not_say_what_was_checked_are_checked_again(  # type: ignore[no-untyped-def]
    flashbench, project: Repository
) -> None:
    """An older flashbench took a refusal of everything for right: its import roots are tried again,
    and its ledger is read and said to be old."""
    assert flashbench("build", "refuses").returncode == Exit.NOT_MEASURED
    cache = project.root.parent / "cache"
    for path in cache.rglob("site.json"):
        record = json.loads(path.read_text())
        record["results"] = {
            name: ["built", "", *one[2:4]] for name, one in record["results"].items()
        }
        path.write_text(json.dumps(record))
    commit = project.git("rev-parse", "refuses")
    (ledger,) = cache.rglob(f"{commit}.json")
    known = json.loads(ledger.read_text()) | {"status": "built", "reason": ""}
    ledger.write_text(json.dumps(known))
    listed = json.loads(flashbench("builds", "refuses").stdout)
    assert listed["rows"][0]["status"] == "built"
    assert "checked by an older flashbench" in listed["notes"][-1]["message"]
    assert flashbench("build", "refuses").returncode == Exit.NOT_MEASURED
    listed = json.loads(flashbench("builds", "refuses").stdout)
    assert listed["rows"][0]["status"] == "unchecked"
