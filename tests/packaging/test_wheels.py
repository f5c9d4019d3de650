"""Wheels as they are installed: outside of the tree, beside a torch they know nothing of."""

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import build_wheels
import pytest

pytest.importorskip("auditwheel", reason="auditwheel is not installed")
from elftools.elf.elffile import ELFFile

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
VERSIONS = sorted({HERE, "3.13"})
# One query of ones and two keys, through addresses alone: softmax weighs both values alike.
PLAIN_CALL = """
import array, sys
from flashbench import _C
q, k = array.array("f", [1.0] * 32), array.array("f", [1.0] * 64)
v, out = array.array("f", [1.0] * 32 + [3.0] * 32), array.array("f", [0.0] * 32)
address = [x.buffer_info()[0] for x in (q, k, v, out)]
one, two = (32, 32, 32, 1), (64, 64, 32, 1)
_C.cpu_attention(*address, 0, (1, 1, 1, 1, 2, 32), one, two, two, one, 0.5, False, 0, 0, 1)
assert out.tolist() == [2.0] * 32, out
assert "torch" not in sys.modules
print("computed", _C.__file__)
"""
BESIDE_TORCH = """
import torch, flashbench
q, k, v = (torch.randn(2, 3, 70, 64) for _ in range(3))
expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
print((flashbench.attention(q, k, v, is_causal=True) - expected).abs().max().item() < 1e-5)
"""


class Environment:
    """A fresh virtual environment with the wheel, and no pip, compiler or tree in sight."""

    def __init__(self, python: str, directory: Path, wheel: Path) -> None:
        self.directory = directory
        made = [python, "-m", "venv", "--without-pip", str(directory / "env")]
        subprocess.run(made, check=True)
        self.bin = directory / "env" / "bin"
        assert self.pip("--no-index", str(wheel))

    def pip(self, *arguments: str) -> bool:
        """Whether pip installs this, without dependencies."""
        flags = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile"]
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install"]
        return subprocess.run([*pip, *flags, *arguments]).returncode == 0

    def see(self, packages: str) -> None:
        """Also import from there, as with packages that are installed already."""
        (site,) = self.directory.glob("env/lib/python*/site-packages")
        (site / "packages.pth").write_text(packages + "\n")

    def run(
        self, program: str, *arguments: str, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, with nothing else on PATH but git."""
        tools = self.directory / "tools"
        tools.mkdir(exist_ok=True)
        if not (tools / "git").exists():
            (tools / "git").symlink_to(str(shutil.which("git")))
        environment = {"PATH": f"{self.bin}:{tools}", "HOME": str(self.directory)}
        command = [str(self.bin / program), *arguments]
        return subprocess.run(
            command, cwd=cwd or self.directory, env=environment, capture_output=True, text=True
        )


def _made(wheels: dict[str, Path], version: str) -> Path:
    if version not in wheels:
        assert version == "3.13"  # the one besides that of the suite
        pytest.skip("no Python 3.13 here")
    return wheels[version]


@pytest.fixture(scope="module")
def installed(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel for this Python beside this Python's torch."""
    made = Environment(sys.executable, tmp_path_factory.mktemp("installed"), wheels[HERE])
    made.see(sysconfig.get_paths()["purelib"])
    return made


@pytest.mark.parametrize("version", VERSIONS)
def test_the_library_is_linked_with_neither_torch_nor_python(
    wheels: dict[str, Path], version: str
) -> None:
    """It needs the system's C and C++ libraries alone, and brings none along."""
    with zipfile.ZipFile(_made(wheels, version)) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".so")]
        assert not [name for name in archive.namelist() if ".libs/" in name]
        with archive.open(name) as file:
            dynamic = ELFFile(file).get_section_by_name(".dynamic")
            needed = {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}
    loader = {name for name in needed if name.startswith("ld-linux")}
    system = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1"}
    assert needed - loader <= system | {"libdl.so.2", "libpthread.so.0", "librt.so.1"}


@pytest.fixture(
    scope="module",
    params=[HERE, *(pytest.param(v, marks=pytest.mark.thorough) for v in VERSIONS if v != HERE)],
)
def bare(
    wheels: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Environment:
    """The wheel for each Python, and nothing that it depends on."""
    wheel = _made(wheels, request.param)
    python = str(build_wheels.find_python(request.param))
    return Environment(python, tmp_path_factory.mktemp("bare"), wheel)


def test_kernels_run_without_torch(bare: Environment) -> None:
    """On every Python the library of the wheel computes from plain addresses."""
    done = bare.run("python", "-c", PLAIN_CALL)
    assert done.stdout.startswith(f"computed {bare.directory}"), done.stderr


def test_the_command_answers_without_torch(bare: Environment) -> None:
    """`--help` and `info` need neither torch nor numpy, on every Python."""
    if not bare.pip("click", "msgspec"):
        pytest.skip("no index of packages here")
    assert "Exit codes" in bare.run("flashbench", "--help").stdout
    done = bare.run("flashbench", "info")
    assert done.stdout.startswith(f"library      {bare.directory}"), done.stderr


def test_kernels_run_beside_a_torch_that_the_wheel_was_not_built_with(
    installed: Environment,
) -> None:
    """What SDPA computes, outside of the source tree."""
    done = installed.run("python", "-c", BESIDE_TORCH)
    assert done.stdout == "True\n", done.stderr


def test_measuring_needs_no_compiler(installed: Environment) -> None:
    """`info`, `run` and `compare` of run files work where PATH has no compiler."""
    assert shutil.which("g++", path=str(installed.bin)) is None
    assert "no checkout here" in installed.run("flashbench", "info").stdout
    case = ["--shape", "1,1,32,64", "--dtype", "fp32", "--causal", "full"]
    run = installed.run(
        "flashbench", "run", *case, "--launches", "1", "--samples", "2", "-o", "a.json"
    )
    assert run.returncode in (0, 3), run.stderr
    done = installed.run("flashbench", "compare", "a.json", "a.json")
    assert done.returncode in (0, 3), done.stderr


def test_what_needs_a_compiler_says_so(installed: Environment, wheels: dict[str, Path]) -> None:
    """Building a commit without one ends with one line that names it, and exit code 4."""
    clone = wheels[HERE].parents[1]
    done = installed.run("flashbench", "build", "HEAD", cwd=clone)
    assert done.returncode == 4
    assert "no C++ compiler" in done.stdout + done.stderr
