"""`flashbench init` in repositories that do not know flashbench, up to a comparison that works."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import forks
import pytest
from init import sample_projects
from revisions.repository import Repository

from flashbench.errors import Exit

pytestmark = pytest.mark.slow

FAST = ["--shape", "1,2,32,32", "--dtype", "fp32", "--samples", "2", "--min-sample", "200us"]
FAST += ["--causal", "full", "--device", "cpu", "--launches", "2"]
Flashbench = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


def flashbench(
    repository: Repository, cache: str, *words: object
) -> subprocess.CompletedProcess[str]:
    return forks.run(words, repository.root, {"FLASHBENCH_CACHE": cache})


def compared(repository: Repository, cache: str) -> subprocess.CompletedProcess[str]:
    """As init says at its end, with less effort: too few launches to decide."""
    done = flashbench(repository, cache, "compare", "HEAD~1", "HEAD", *FAST)
    assert done.returncode in (Exit.PASS, Exit.REGRESSION, Exit.UNDECIDED), done.stderr
    return done


@pytest.mark.parametrize(
    ("make", "found", "wrote"),
    [
        (
            sample_projects.by_cmake,
            "attention_forward(q, k, v, out, bh, seq_len, kv_len, head_dim, scale, causal), "
            "src/attention.c:10",
            'build"]\nadapter = "fb.py"\n\n[tool.flashbench.cases]\ndtype = ["fp32"]\n',
        ),
        pytest.param(
            sample_projects.by_backend,
            "fastc:attention(query, key, value, causal), src/fastc/__init__.py:9",
            '"--target", "fb", "."]\npath = "fb"\nadapter = "fb"\n\n[tool.flashbench.cases]\n',
            marks=pytest.mark.thorough,
        ),
        (
            sample_projects.in_python,
            "blocks.core:block_attention(query, key, value, causal), src/blocks/core.py:8",
            'path = "src"\nadapter = "src/fb.py"\n\n[tool.flashbench.cases]\nlayout = "bshd"\n',
        ),
        (
            sample_projects.compiled_at_import,
            "fastcpp:attend(q, k, v, is_causal), fastcpp/__init__.py:11",
            'build = []\nsources = ["csrc"]\nadapter = "fb.py"\n\n[tool.flashbench.cases]\n',
        ),
        pytest.param(
            sample_projects.in_cpp,
            "fastcpp:attend(q, k, v, is_causal), fastcpp/__init__.py:9",
            'build = ["python", "setup.py", "build_ext", "--inplace"]\nadapter = "fb.py"\n',
            marks=pytest.mark.thorough,
        ),
    ],
    ids=["cmake", "backend", "python", "jit", "cpp"],
)
def test_a_comparison_works_after_init(
    make: Callable[[Path], Repository], found: str, wrote: str, cache: str, tmp_path: Path
) -> None:
    """The function, its build, its layout and dtypes are found; both commits, which know nothing of
    it, are built and correct, and are then compared without an edit."""
    repository = make(tmp_path / "theirs")
    done = flashbench(repository, cache, "init")
    assert done.returncode == Exit.PASS, done.stdout + done.stderr
    assert f"found    {found}\n" in done.stdout
    assert wrote in (repository.root / "pyproject.toml").read_text()
    for revision in ("WORKTREE", "HEAD  ", "HEAD~1"):
        assert f"{revision:<9}correct on b1-h2-q64-d64-" in done.stdout
    assert "next     flashbench compare HEAD~1 HEAD\n" in done.stdout
    assert "geometric mean of B" in compared(repository, cache).stdout


def test_a_suite_of_asv_is_pointed_at(cache: str, tmp_path: Path) -> None:
    """Without an attention nothing is written, and the comparison that fits is named; it works,
    with either name of asv's settings."""
    repository = sample_projects.with_asv(tmp_path / "theirs")
    repository.git("mv", "asv.conf.json", "asv.conf.jsonc")
    repository.commit("A name that editors know")
    done = flashbench(repository, cache, "init")
    assert done.returncode == Exit.PASS, done.stderr
    assert "flashbench compare HEAD~1 HEAD --asv '.*'" in done.stdout
    assert 'operation = "module:name"' in done.stdout
    assert repository.git("status", "--porcelain") == ""
    asv = ["--asv", ".*", "--launches", "4"]
    compared = flashbench(repository, cache, "compare", "HEAD~1", "HEAD", *asv)
    assert "time_total" in compared.stdout, compared.stderr
    assert compared.returncode in (Exit.PASS, Exit.UNDECIDED), compared.stderr


def test_what_cannot_be_guessed_is_one_edit(cache: str, tmp_path: Path) -> None:
    """A parameter of C that no name explains is marked in the adapter; with it written, the
    comparison works."""
    repository = sample_projects.in_c(tmp_path / "theirs")
    repository.edit("src/attention.c", "int causal)", "int causal, int magic)")
    repository.edit("src/attention.c", "= causal ?", "= magic && causal ?")
    repository.commit("A parameter that only its author understands")
    repository.edit("src/attention.c", "REPEAT 1", "REPEAT 1  // same")
    repository.commit("A comment")
    done = flashbench(repository, cache, "init")
    assert done.returncode == Exit.NOT_MEASURED
    assert "edit     fb.py: say what magic is" in done.stdout
    repository.edit("fb.py", "magic,  # EDIT: what is int magic?", "1,")
    again = flashbench(repository, cache, "init")
    assert again.returncode == Exit.PASS, again.stdout + again.stderr
    assert "next     flashbench compare HEAD~1 HEAD\n" in again.stdout
    compared(repository, cache)


def test_after_an_edit_the_cases_are_those_of_the_adapter(cache: str, tmp_path: Path) -> None:
    """Where the try failed, the cases are what the adapter does not refuse, or what a later try of
    the edited one finds; only settings are written then, and only without cases."""
    repository = sample_projects.in_python(tmp_path / "theirs")
    repository.edit("src/blocks/core.py", "import torch\n", "import numpy\nimport torch\n")
    repository.edit("src/blocks/core.py", "import torch\n", "")
    repository.edit("src/blocks/core.py", "causal=False", "mode")
    repository.edit("src/blocks/core.py", "if causal:", "if False:")
    done = flashbench(repository, cache, "init")
    assert done.returncode == Exit.NOT_MEASURED, done.stdout + done.stderr
    assert "edit     src/fb.py: say what mode is" in done.stdout
    assert "function(q.numpy(), k.numpy(), v.numpy(), mode=EDIT_mode)" in adapter(repository)
    settings = repository.root / "pyproject.toml"
    cases = '\n[tool.flashbench.cases]\ndtype = ["fp32"]\ncausal = "full"\n'
    written = settings.read_text()
    assert written.endswith(cases)
    settings.write_text(written.removesuffix(cases))
    scaled = "torch.nn.functional.scaled_dot_product_attention"
    repository.edit("src/fb.py", "from blocks.core import block_attention as", f"# {scaled}")
    repository.edit("src/fb.py", "torch.from_numpy(out)", "out")
    call = "function(q.numpy(), k.numpy(), v.numpy(), mode=EDIT_mode)"
    repository.edit("src/fb.py", call, f"{scaled}(q, k, v)")
    assert flashbench(repository, cache, "init").returncode == Exit.PASS
    assert settings.read_text() == written
    named = flashbench(repository, cache, "init", "--callable", "a:b")
    assert named.returncode == Exit.USAGE
    assert "has [tool.flashbench.project] already" in named.stderr


def adapter(repository: Repository) -> str:
    return next(repository.root.rglob("fb.py")).read_text()


@pytest.mark.parametrize("where", ["build", "import"])
def test_a_missing_package_leaves_the_repository_alone(
    where: str, cache: str, tmp_path: Path
) -> None:
    """What to install is said in one line, once, and init can be called again."""
    repository = sample_projects.in_python(tmp_path / "theirs")
    for name in ("core", "other", "third"):
        text = f"import nowhere.deep\n\n\ndef attention_{name}(q, k, v):\n    return v\n"
        repository.write(f"src/blocks/{name}.py", text)
    if where == "build":
        system = '[build-system]\nrequires = ["nowhere"]\nbuild-backend = "setuptools.build_meta"\n'
        repository.write("pyproject.toml", system)
        repository.write("setup.py", sample_projects.SETUP)
    repository.commit("Needs another package")
    done = flashbench(repository, cache, "init")
    assert done.returncode == Exit.NOT_MEASURED
    assert done.stderr.endswith("-m pip install nowhere\n")
    assert done.stdout.count("found ") == {"build": 1, "import": 2}[where]
    assert repository.git("status", "--porcelain", "--ignored") == ""


def test_a_wrong_kernel_is_told_so(cache: str, tmp_path: Path) -> None:
    """The working tree is tried; the files stay, for an edit."""
    repository = sample_projects.in_python(tmp_path / "theirs")
    repository.edit("src/blocks/core.py", "** -0.5", "** -0.4")
    done = flashbench(repository, cache, "init")
    assert done.returncode == Exit.REGRESSION
    assert "WORKTREE wrong result: b1-h2-q64-d64-fp32-full-cpu: max error" in done.stdout
    assert "edit     src/fb.py, or the settings" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no function with parameters q, k, v was found"),
        (["--callable", "nothing"], "--callable nothing: no such function with q, k, v; write"),
        (["--callable", "norms:rms"], "with q, k, v; for another kernel write an operation"),
    ],
)
def test_nothing_to_find_is_a_usage_error(words: list[str], said: str, tmp_path: Path) -> None:
    """One line, with what to do."""
    repository = Repository(tmp_path / "empty")
    done = flashbench(repository, os.devnull, "init", *words)
    assert done.returncode == Exit.USAGE
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
