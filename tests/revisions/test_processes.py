"""Revisions that one process cannot hold: each is measured by its own code, or not at all.

Commands run in forks of one process that has torch (forked.py), and one, with every kind of trace,
as users run it.
"""

import fcntl
import os
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import forks
import pytest
import torch
from revisions.repository import Repository
from revisions.toys import (
    ATTENDS,
    BESIDE,
    CALL,
    EVERYTHING,
    EXTENDED,
    EXTENSION,
    HEAD,
    KERNELHUB,
    LOADED,
    MICROSECONDS,
    OPERATOR_LIBRARY,
    OVERRIDES,
    PACKAGES,
    REGISTERED,
    toy,
)

from flashbench import runfile
from flashbench.errors import Exit
from flashbench.launches import launch_data

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TORCH = Path(torch.__file__).parent
Command = Callable[..., subprocess.CompletedProcess[str]]


def _environment(repository: Repository) -> dict[str, str]:
    return {
        "FLASHBENCH_CACHE": str(repository.root.parent / "cache"),
        "FLASHBENCH_MACHINE": str(repository.root.parent / "machine.json"),
    }


def start(repository: Repository, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in the repository, as a user runs it."""
    command = [sys.executable, "-m", "flashbench", *arguments]
    return subprocess.run(
        command,
        cwd=repository.root,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | _environment(repository),
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def flashbench() -> Command:
    """Run a command in a repository."""

    def run(
        repository: Repository, *arguments: str, path: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        # What the first call of an operator made in Python imports, for 1.3 s in each process.
        imported = "torch._dynamo"
        return forks.run(arguments, repository.root, _environment(repository), path, imported)

    return run


CASE = ["--shape", "1,1,16,8", "--dtype", "fp32", "--causal", "full"]
FAST = [*CASE, "--samples", "4", "--min-sample", "1ms", "--threads", "1", "--seed", "1"]
# Few launches, since the two are ten times apart.
BRIEF = ["--launches", "2"]
QUICK = [*FAST, "--launches", "6", "--tolerance", "50%", "--confidence", "60%"]


def assert_told_apart(
    flashbench: Command, repository: Repository, path: Path | None = None
) -> None:
    """`compare fast slow` times each revision's own code, in paired processes unasked; too few
    launches for a verdict, as each takes seconds."""
    file = repository.root.parent / "run.json"
    done = flashbench(
        repository, "compare", "fast", "slow", *FAST, *BRIEF, "--run-file", str(file), path=path
    )
    assert done.returncode == Exit.UNDECIDED, done.stdout + done.stderr
    assert_paired(file)


def assert_paired(file: Path, waits: int = 1) -> None:
    """Both revisions ran their own code, which waits so often, in paired processes."""
    run = runfile.read(file)
    assert run.settings.processes == "paired"
    data = launch_data(run)
    own = [candidate.name for candidate in run.candidates if not candidate.baseline]
    fast, slow = (data.median_us(data.candidate_index[name], 0) for name in own)
    assert fast is not None
    assert slow is not None
    assert fast > 500 * waits
    assert slow > 5000 * waits
    assert fast < slow


@pytest.mark.parametrize("where", PACKAGES)
def test_what_python_keeps_once(flashbench: Command, tmp_path: Path, where: str) -> None:
    """Revisions that both leave something at the same place of a process are told apart; in one
    process there is no verdict."""
    installed = tmp_path / "installed"
    installed.mkdir()
    (installed / "kernelhub.py").write_text(KERNELHUB)
    repository = toy(tmp_path / "toy", {"toy/__init__.py": PACKAGES[where]}, [])
    assert_told_apart(flashbench, repository, installed)
    shared = flashbench(
        repository, "compare", "fast", "slow", *FAST, *BRIEF, "--processes", "shared",
        "--run-file", str(tmp_path / "shared.json"), path=installed,
    )  # fmt: skip
    assert shared.returncode == Exit.NOT_MEASURED, shared.stdout + shared.stderr


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An object file that includes torch's headers, which takes long: once for all tests."""
    shared = "PYTEST_XDIST_WORKER" in os.environ
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if shared else base) / "operators"
    root.mkdir(exist_ok=True)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / "operator.o").exists():
            (root / "operator.cpp").write_text(OPERATOR_LIBRARY)
            abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
            flags = ["-std=c++20", "-fPIC", abi, f"-I{TORCH}/include", "-c", "operator.cpp"]
            subprocess.run(["g++", *flags, "-o", "new.o"], cwd=root, check=True)
            (root / "new.o").rename(root / "operator.o")
    return root / "operator.o"


def of_operator(compiled: Path, *, overrides: bool) -> tuple[dict[str, str], str]:
    """The sources of a library with an operator, and the command that builds it."""
    link = f"-L{TORCH}/lib -Wl,-rpath,{TORCH}/lib -ltorch_cpu -lc10"
    sources = f"{shlex.quote(str(compiled))} microseconds.cpp overrides.cpp"
    files = {
        "microseconds.cpp": MICROSECONDS,
        "overrides.cpp": OVERRIDES.format(str(overrides).lower()),
    }
    return files, f"g++ -shared -fPIC {sources} -o toy/liboperator.so {link}"


def toy_in_cpp(root: Path, compiled: Path, operator: str) -> Repository:
    files, build = of_operator(compiled, overrides=operator == "aten.hardswish")
    files["toy/__init__.py"] = LOADED.format(operator=operator)
    return toy(root, files, ["sh", "-c", build])


@pytest.mark.thorough
def test_override_in_cpp(flashbench: Command, tmp_path: Path, compiled: Path) -> None:
    """TORCH_LIBRARY_IMPL, where the last one counts, is each revision's own."""
    assert_told_apart(flashbench, toy_in_cpp(tmp_path / "toy", compiled, "aten.hardswish"))


def test_operator_in_cpp(flashbench: Command, tmp_path: Path, compiled: Path) -> None:
    """TORCH_LIBRARY, which torch refuses twice, is each revision's own."""
    assert_told_apart(flashbench, toy_in_cpp(tmp_path / "toy", compiled, "toy.wait"))


BESIDE_EXTENSION = {
    "extension.cpp": EXTENSION,
    "microseconds.cpp": MICROSECONDS,
    "build.sh": BESIDE.format(include=sysconfig.get_path("include")),
}


def test_library_beside_the_extension(flashbench: Command, tmp_path: Path) -> None:
    """A shared library that the linker knows by its name is each revision's own."""
    files = {"toy/__init__.py": EXTENDED, **BESIDE_EXTENSION}
    assert_told_apart(flashbench, toy(tmp_path / "toy", files, ["sh", "build.sh"]))


@pytest.mark.thorough
def test_everything_as_a_user_runs_it(tmp_path: Path, compiled: Path) -> None:
    """In new processes as in forks: an operator in Python, an override in C++ and a library beside
    the extension, all in one package, are each revision's own."""
    files, build = of_operator(compiled, overrides=True)
    files |= {"toy/__init__.py": EVERYTHING, **BESIDE_EXTENSION}
    files["build.sh"] += build
    repository = toy(tmp_path / "toy", files, ["sh", "build.sh"])
    file = tmp_path / "run.json"
    # `compare` makes two launches at least, and each process imports torch and its compiler.
    done = start(repository, "backfill", "fast", "slow", *FAST, "--launches", "1", "-o", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert_paired(file, waits=3)


def test_operator_in_python(flashbench: Command, registered: Repository, tmp_path: Path) -> None:
    """With enough launches the verdict is SLOWER."""
    file = tmp_path / "run.json"
    done = flashbench(registered, "compare", "fast", "slow", *QUICK, "--run-file", str(file))
    assert done.returncode == Exit.REGRESSION, done.stdout + done.stderr
    assert_paired(file)


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """With an operator registered at import; its builds are cached."""
    root = tmp_path_factory.mktemp("registered")
    return toy(root / "toy", {"toy/__init__.py": REGISTERED}, [])


def test_one_process_is_refused_where_it_proves_nothing(
    flashbench: Command, registered: Repository, tmp_path: Path
) -> None:
    """With --processes shared there is no verdict, no run file, and the reason in one line."""
    file = tmp_path / "run.json"
    done = flashbench(
        registered,
        "compare",
        "fast",
        "slow",
        *FAST,
        "--processes",
        "shared",
        "--run-file",
        str(file),
    )
    assert done.returncode == Exit.NOT_MEASURED
    assert "no proof that revisions in one process run their own code" in done.stderr
    assert "toy::wait" in done.stderr
    assert not file.exists()


def test_an_installed_copy_is_no_revision(flashbench: Command, tmp_path: Path) -> None:
    """Where both revisions run an installed copy's code, there is no verdict."""
    installed = tmp_path / "installed"
    (installed / "toy_kernels").mkdir(parents=True)
    (installed / "toy_kernels" / "__init__.py").write_text("def wait(): pass\n")
    (installed / "toy").mkdir()
    (installed / "toy" / "__init__.py").write_text("")
    described = installed / "toy-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
    (described / "top_level.txt").write_text("toy\ntoy_kernels\n")
    package = HEAD + "import toy_kernels\n" + CALL
    package += "    toy_kernels.wait()\n    return F.scaled_dot_product_attention(q, k, v)\n"
    repository = toy(tmp_path / "toy", {"toy/__init__.py": package}, [])
    done = flashbench(
        repository, "compare", "fast", "slow", *FAST, "--launches", "2",
        "--run-file", str(tmp_path / "run.json"), path=installed,
    )  # fmt: skip
    assert done.returncode == Exit.NOT_MEASURED, done.stdout + done.stderr
    told = " ".join(done.stdout.split())
    assert "not proven to run its own code: ran toy_kernels from" in told


def test_a_crash_is_the_revisions_own(flashbench: Command, tmp_path: Path) -> None:
    """A paired process that ends costs the other nothing, and a resumed run stays paired."""
    ends = "    import os\n    os._exit(3) if SECONDS > 0.001 else time.sleep(SECONDS)\n"
    repository = toy(tmp_path / "toy", {"toy/__init__.py": HEAD + CALL + ends + ATTENDS}, [])
    file = str(tmp_path / "run.json")
    paired = ["--processes", "paired", "--launches", "2", "--run-file", file]
    done = flashbench(repository, "compare", "fast", "slow", *FAST, *paired)
    assert done.returncode == Exit.NOT_MEASURED, done.stdout + done.stderr
    assert "exit status 3" in done.stdout
    more = ["--launches", "3", "--resume", file]
    flashbench(repository, "compare", "fast", "slow", *more)
    run = runfile.read(Path(file))
    assert run.settings.processes == "paired"
    assert len(run.launches) >= 2
    for launch in run.launches:
        statuses = {result.candidate: result.status for result in launch.results}
        assert statuses == {"A": "ok", "B": "crashed", "sdpa/A": "ok", "sdpa/B": "ok"}


def test_backfill(flashbench: Command, registered: Repository, tmp_path: Path) -> None:
    """Each commit of a backfill has its own process, and its own SDPA beside it."""
    file = tmp_path / "run.json"
    done = flashbench(
        registered, "backfill", "fast", "between", "slow", *FAST, "--launches", "1", "-o", str(file)
    )
    assert done.returncode == 0, done.stderr
    run = runfile.read(file)
    assert run.settings.processes == "paired"
    own = [candidate.name for candidate in run.candidates if not candidate.baseline]
    assert sorted(c.beside for c in run.candidates if c.baseline) == sorted(own)
    data = launch_data(run)
    fast, between, slow = (data.median_us(data.candidate_index[name], 0) for name in own)
    assert fast is not None
    assert between is not None
    assert slow is not None
    assert max(fast, between) < 5000 < slow
    again = flashbench(
        registered, "backfill", "fast", "between", "slow", *FAST, "--launches", "2", "-o", str(file)
    )
    assert again.returncode == 0, again.stderr
    assert len(runfile.read(file).launches) == 2
    assert "cannot hold" not in again.stderr


def test_bisect(flashbench: Command, registered: Repository) -> None:
    """The commit that waits longer is found, by paired launches from the first one on."""
    done = flashbench(
        registered, "bisect", "--good", "fast", "--bad", "slow", "--for", "speed", *FAST,
        "--launches", "6", "--tolerance", "50%", "--confidence", "60%", "--format", "json",
    )  # fmt: skip
    assert done.returncode == Exit.REGRESSION, done.stdout + done.stderr
    assert registered.git("rev-parse", "slow") in done.stdout
    files = list((registered.root.parent / "cache").rglob("bisect/*/*.json"))
    assert files
    assert {runfile.read(file).settings.processes for file in files} == {"paired"}


def test_a_failure_is_told_as_what_it_is(flashbench: Command, tmp_path: Path) -> None:
    """A kernel that raises in its own process is named with its error; nothing is called shared."""
    raises = "    if SECONDS > 0.001: raise RuntimeError('no such tile')\n"
    repository = toy(tmp_path / "toy", {"toy/__init__.py": HEAD + CALL + raises + ATTENDS}, [])
    done = flashbench(
        repository, "compare", "fast", "slow", *FAST, "--launches", "2",
        "--run-file", str(tmp_path / "run.json"),
    )  # fmt: skip
    assert done.returncode == Exit.NOT_MEASURED, done.stdout + done.stderr
    assert "cannot hold" not in done.stderr
    assert "no such tile" in done.stdout
