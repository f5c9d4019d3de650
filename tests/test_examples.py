"""examples/: each runs as docs/examples.md says; skipped is what needs a GPU or a compiler."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import forks
import pytest
import torch
from revisions.repository import Repository

from flashbench import runfile
from flashbench.errors import Exit
from flashbench.fates import Fate, fate_of

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[1] / "examples"
PAGE = (EXAMPLES.parent / "docs/examples.md").read_text()
QUICK = ["--launches", "1", "--samples", "2", "--min-sample", "0.1ms", "-o", "run.json"]
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")


def project(name: str, tmp_path: Path) -> Repository:
    """A copy in a git repository, committed."""
    found = Repository(tmp_path / name)
    shutil.copytree(EXAMPLES / name, found.root, dirs_exist_ok=True)
    found.commit("Begin")
    return found


def command(name: str) -> list[str]:
    """What the page says about a folder."""
    (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| `{name}/`"))
    return shlex.split(line.split("`")[-2])[1:]


def measured(name: str, tmp_path: Path) -> runfile.RunFile:
    """Run the example's command, shortened; its candidate is right wherever it is measured."""
    place, cache = project(name, tmp_path).root, {"FLASHBENCH_CACHE": str(tmp_path / "cache")}
    done = forks.run([*command(name), *QUICK], place, cache)
    assert done.returncode == 0, done.stderr
    run = runfile.read(place / "run.json")
    (mine,) = (one.name for one in run.candidates if not one.baseline)
    assert fate_of(run, mine).fate is Fate.MEASURED
    return run


def test_pure_python(tmp_path: Path) -> None:
    """The callable of the settings is checked against float64 and timed."""
    measured("pure_python", tmp_path)


def test_the_history_with_a_slower_commit(tmp_path: Path) -> None:
    """It is the one of README.md and docs/bisecting.md, commit by commit, wherever it is made."""
    script = [sys.executable, EXAMPLES / "slower_commit.py", tmp_path / "toy"]
    subprocess.run(script, check=True)
    done = subprocess.run([*script[:2], "--help"], cwd=tmp_path, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr[:6]) == (1, b"usage:")
    assert not (tmp_path / "--help").exists()
    asked = ["build", "v1^0", "v1..HEAD", "--for", "load", "--format", "json"]
    done = forks.run(asked, tmp_path / "toy", {"FLASHBENCH_CACHE": str(tmp_path / "cache")})
    assert done.returncode == Exit.NOT_MEASURED, done.stderr
    rows = json.loads(done.stdout)["rows"]
    made = {(row["commit"][:12], row["status"], row["subject"]) for row in rows}
    text = (EXAMPLES.parent / "docs" / "bisecting.md").read_text()
    said = re.findall(r"^([0-9a-f]{12}) {2}(.*?) {2,}.* {2}(\S.*)$", text, re.MULTILINE)
    assert len(said) == 5
    assert made >= {*said}
    (slower,) = (commit for commit, _, subject in made if subject == "Take smaller steps")
    for page in (text, (EXAMPLES.parent / "README.md").read_text()):
        assert f"FOUND: {slower} made " in page


@GPU
@pytest.mark.parametrize("name", ["torch_compile", "triton_softmax"])
def test_what_is_compiled_at_run_time(name: str, tmp_path: Path) -> None:
    """It is right. (torch.compile works on CPUs, too, after half a minute of g++.)"""
    measured(name, tmp_path)


def test_the_cuda_kernel_builds(tmp_path: Path) -> None:
    """nvcc makes a library that loads on a machine without a GPU, too."""
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc here")
    place, cache = project("cuda_kernel", tmp_path).root, {"FLASHBENCH_CACHE": str(tmp_path / "c")}
    done = forks.run(["build", "HEAD", "--for", "load"], place, cache)
    assert (done.returncode, "built" in done.stdout) == (0, True), done.stdout + done.stderr


@GPU
def test_the_cuda_kernel_is_compared(tmp_path: Path) -> None:
    """A commit with half the threads is measured beside it."""
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc here")
    there = project("cuda_kernel", tmp_path)
    there.edit("rms_norm.cu", "kThreads = 256", "kThreads = 32")
    asked = [*command("cuda_kernel"), "--launches", "3", "--run-file", "run.json"]
    done = forks.run(asked, there.root, {"FLASHBENCH_CACHE": str(tmp_path / "cache")})
    assert done.returncode in (0, 1, 3), done.stderr
    run = runfile.read(there.root / "run.json")
    assert fate_of(run, "A").fate is fate_of(run, "B").fate is Fate.MEASURED


def test_the_asv_suite_is_compared(tmp_path: Path) -> None:
    """A slower working tree has both parameters measured, by asv_runner."""
    pytest.importorskip("asv", reason="no asv")
    there = project("asv_suite", tmp_path)
    slower = "    for _ in range(50):\n        sorted(following)\n    return abs"
    there.edit("polygons/__init__.py", "    return abs", slower)
    asked = [*command("asv_suite"), "--launches", "2", "--format", "json"]
    done = forks.run(asked, there.root, {"FLASHBENCH_CACHE": str(tmp_path / "cache")})
    rows = json.loads(done.stdout)["rows"]
    assert [row["case"] for row in rows] == [f"bench_area.Area.time_area({n})" for n in (16, 1024)]
    assert all(row["launches"] == 2 and row["speedup"] < 1 for row in rows), done.stdout


@pytest.mark.thorough
def test_the_notebook_runs(tmp_path: Path) -> None:
    """Its cells, one after another, as a kernel runs them; the wrong candidate is found out."""
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text())
    assert notebook["nbformat"] == 4
    program = ["values = []"]
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        magic, _, rest = text.partition("\n")
        if magic.startswith("%%writefile "):
            (tmp_path / magic.split()[1]).write_text(f"{rest}\n")
        elif cell["cell_type"] == "code":
            last = text.splitlines()[-1]
            program += [text.removesuffix(last), f"values.append({last})"]
    program.append("print(values[0].compare().rows[-1].outcome)")
    program.append("assert '<table>' in values[0]._repr_html_()")
    program.append("assert values[-1]._repr_png_()")
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(program)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(EXAMPLES.parent)},
    )
    assert done.stdout.splitlines()[-1:] == ["WRONG"], done.stderr
