"""Thin: build_ext calls CMake, which builds everything in csrc/. Metadata is in pyproject.toml.

Settings from the environment: FLASHBENCH_CUDA=auto|ON|OFF, FLASHBENCH_DTYPES="fp32;fp16;bf16;fp8",
FLASHBENCH_CUDA_ARCHS="80;90a-real", FLASHBENCH_CUDA_DRAFT="fp16" (dtypes whose CUDA units are only
checked: compiled in half the time, to slow code), FLASHBENCH_BUILD_DIR, FLASHBENCH_JOBS, and
FLASHBENCH_WERROR=ON, for which a warning of any compiler, ptxas included, ends the build.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
COMMIT_FILE = "commit.json"  # in a source distribution, which has no git
REPORT_FILE = "_build.json"  # beside the library: what ptxas said of each kernel


def _load(path):
    """Import a file of this project by its path: the package itself is not installed yet."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _fail(message):
    sys.exit(f"flashbench: {message}")


def _git(*arguments):
    try:
        done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def identity():
    """The commit the sources are from, whether they differ from it, and their hash."""
    source_hash = _load(ROOT / "flashbench/source_hash.py")
    found = {"commit": "", "dirty": False}
    if (ROOT / COMMIT_FILE).exists():
        found = json.loads((ROOT / COMMIT_FILE).read_text())
    elif _git("rev-parse", "--show-toplevel") == str(ROOT):
        changed = _git("status", "--porcelain", "--", *source_hash.SOURCES)
        found = {"commit": _git("rev-parse", "HEAD") or "", "dirty": bool(changed)}
    return {**found, "source_hash": source_hash.of_tree(ROOT)}


def _nvcc():
    """nvcc on PATH, or where CUDA puts it when PATH was forgotten."""
    places = [os.environ.get("CUDACXX"), "nvcc", os.environ.get("CUDA_HOME", "") + "/bin/nvcc"]
    for place in [*places, "/usr/local/cuda/bin/nvcc"]:
        if place and shutil.which(place):
            return shutil.which(place)
    return None


def _ninja():
    return shutil.which("ninja") or _fail("ninja is not on PATH: run `pip install ninja`")


class CMakeBuild(build_ext):
    def build_extension(self, ext):
        for line in _load(ROOT / "build_support/prerequisites.py").missing():
            _fail(line)
        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        # Kept from build to build, so that a second build is quick: one a Python, and one for the
        # CPU alone, so that a build without the CUDA objects does not drop those of another.
        cpu_only = "-cpu" if os.environ.get("FLASHBENCH_CUDA", "").upper() == "OFF" else ""
        default = ROOT / "build" / f"cmake-{sys.implementation.cache_tag}{cpu_only}"
        directory = Path(os.environ.get("FLASHBENCH_BUILD_DIR", default))
        directory.mkdir(parents=True, exist_ok=True)
        self._configure(directory)
        # Objects of units that are gone would leave their ptxas reports behind.
        subprocess.run([_ninja(), "-C", directory, "-t", "cleandead"], capture_output=True)
        jobs = os.environ.get("FLASHBENCH_JOBS", str(os.cpu_count() or 1))
        self._cmake("--build", directory, "--parallel", jobs)
        shutil.rmtree(directory / "install", ignore_errors=True)
        self._cmake("--install", directory, "--strip", "--prefix", directory / "install")
        self._deliver(directory, target)

    def _configure(self, directory):
        import pybind11

        about = identity()
        settings = {
            "CMAKE_BUILD_TYPE": "Release",
            "CMAKE_MAKE_PROGRAM": _ninja(),
            "Python_EXECUTABLE": sys.executable,
            "pybind11_DIR": pybind11.get_cmake_dir(),
            "FLASHBENCH_CUDA": os.environ.get("FLASHBENCH_CUDA", "auto"),
            "FLASHBENCH_DTYPES": os.environ.get("FLASHBENCH_DTYPES", "fp32;fp16;bf16;fp8"),
            "FLASHBENCH_CUDA_ARCHS": os.environ.get("FLASHBENCH_CUDA_ARCHS", "80;90a-real"),
            "FLASHBENCH_CUDA_DRAFT": os.environ.get("FLASHBENCH_CUDA_DRAFT", ""),
            "CMAKE_COMPILE_WARNING_AS_ERROR": os.environ.get("FLASHBENCH_WERROR", "OFF"),
            "FLASHBENCH_COMMIT": about["commit"],
            "FLASHBENCH_DIRTY": "true" if about["dirty"] else "false",
            "FLASHBENCH_SOURCE_HASH": about["source_hash"],
        }
        if _nvcc():
            settings["CMAKE_CUDA_COMPILER"] = _nvcc()
        if shutil.which("ccache"):
            settings["FLASHBENCH_CCACHE"] = shutil.which("ccache")
        flags = [f"-D{name}={value}" for name, value in settings.items()]
        self._cmake("-S", ROOT / "csrc", "-B", directory, "-G", "Ninja", *flags)

    def _cmake(self, *arguments):
        cmake = shutil.which("cmake") or _fail("cmake is not on PATH: run `pip install cmake`")
        command = [cmake, *map(str, arguments)]
        # So ccache knows a source again in another clone: every commit is built in its own folder.
        variables = {"CCACHE_BASEDIR": str(ROOT), **os.environ}
        # Line by line where it is shown: `pip install -v` then shows how far the compiler is.
        shown = None if self.verbose else subprocess.PIPE
        sys.stdout.flush()
        done = subprocess.run(
            command, stdout=shown, stderr=subprocess.STDOUT, text=True, env=variables
        )
        if done.returncode:
            sys.stdout.write(done.stdout or "")
        if done.returncode:
            _fail(f"the build failed in `cmake {arguments[0]}`; the compiler's words are above")

    def _deliver(self, directory, target):
        """Check that the library loads under its one name, then copy it with its report."""
        (library,) = (directory / "install").glob("_C*")
        check = [sys.executable, ROOT / "build_support/check_import.py", library, "flashbench._C"]
        done = subprocess.run(check, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            _fail(f"the library was built but does not load: {done.stdout.strip()}")
        report = _load(ROOT / "build_support/ptxas_report.py").collect(directory)
        target.parent.mkdir(parents=True, exist_ok=True)
        # A new file, not new content: a process that has the old library loaded keeps it.
        fresh = target.with_name(target.name + ".new")
        shutil.copy2(library, fresh)
        fresh.replace(target)
        document = json.dumps({"kernels": report}, indent=1)
        target.with_name(REPORT_FILE).write_text(document + "\n")

    def copy_extensions_to_source(self):
        """In an editable install the report goes beside the library, into the source tree."""
        super().copy_extensions_to_source()
        built = Path(self.build_lib) / "flashbench" / REPORT_FILE
        shutil.copy2(built, ROOT / "flashbench" / REPORT_FILE)


class SourceDistribution(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        about = {name: value for name, value in identity().items() if name != "source_hash"}
        (Path(base_dir) / COMMIT_FILE).write_text(json.dumps(about) + "\n")


setup(
    ext_modules=[Extension("flashbench._C", sources=[])],
    cmdclass={"build_ext": CMakeBuild, "sdist": SourceDistribution},
)
