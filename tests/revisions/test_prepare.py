"""Revisions of another project are built, or the reason is given."""

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from revisions import broken
from revisions.repository import Prepared, Repository, fastattn

import flashbench.source_hash
from flashbench.errors import Exit, NotMeasuredError
from flashbench.revisions import WORKTREE, read, resolve
from flashbench.revisions.load import _copied
from flashbench.revisions.prepare import prepare

pytestmark = pytest.mark.slow

TOY = Path(__file__).parent.parent / "history" / "toy"  # in small, a project like flashbench


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return fastattn(tmp_path / "fastattn")


@pytest.fixture
def by_setuptools(tmp_path: Path) -> Repository:
    return fastattn(tmp_path / "fastattn", by_setuptools=True)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests: what has equal sources is compiled once."""
    return tmp_path_factory.mktemp("cache")


def marker(import_root: Path) -> int:
    """What the revision's own library says, in a process of its own, to which torch is a name."""
    code = (
        "import sys, types; sys.path[0] = sys.argv[1]; sys.modules['torch'] = "
        "types.ModuleType('torch'); from fastattn import api; print(api.marker())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(import_root)], capture_output=True, text=True
    )
    return int(done.stdout)


def test_commit_is_built_and_nothing_is_touched(
    by_setuptools: Repository, prepared: Prepared, cache: Path
) -> None:
    """A good commit has an import root with its library; tree, index, HEAD, refs and stash are the
    same."""
    repository = by_setuptools
    repository.edit("csrc/config.h", "MARKER = 1", "MARKER = 99")
    repository.git("stash")
    repository.write("src/fastattn/api.py", "work in progress")
    before = repository.state()
    built = prepared(repository, cache)
    assert built.status == "built"
    assert marker(built.require()) == 1
    assert built.identity.commit == repository.git("rev-parse", "HEAD")
    assert not built.identity.dirty
    assert len(built.identity.source_hash) == len(built.identity.library_hash) == 64
    assert repository.state() == before
    assert built.candidate("a").spec == "fastattn.api:sdpa_like"
    assert str(repository.root) not in str(built.candidate("a"))


def test_equal_sources_share_a_build_and_keep_their_python(
    repository: Repository, prepared: Prepared, cache: Path
) -> None:
    """A commit that differs in Python alone is not compiled again, and has its own Python."""
    first = prepared(repository, cache)
    repository.edit("src/fastattn/api.py", "_kernels.marker()", "_kernels.marker() + 10")
    repository.commit("Another marker, by Python")
    second = prepared(repository, cache)
    assert second.build.reused
    assert second.build.key == first.build.key
    assert second.identity.library_hash == first.identity.library_hash
    assert (marker(first.require()), marker(second.require())) == (1, 11)


def test_working_tree_is_what_lies_there(
    repository: Repository, prepared: Prepared, cache: Path
) -> None:
    """WORKTREE holds uncommitted and new files, is dirty only where it differs from HEAD."""
    clean = prepared(repository, cache, WORKTREE)
    assert (clean.status, clean.identity.dirty) == ("built", False)
    assert clean.import_root == prepared(repository, cache).import_root
    repository.edit("csrc/config.h", "MARKER = 1", "MARKER = 7")
    repository.write("src/fastattn/new.py", "VALUE = 7\n")
    repository.write("build/ignored", "")
    before = repository.state()
    changed = prepared(repository, cache, WORKTREE)
    assert (changed.status, changed.identity.dirty) == ("built", True)
    assert changed.identity.source_hash != clean.identity.source_hash
    assert marker(changed.require()) == 7
    assert (changed.require() / "fastattn" / "new.py").is_file()
    assert repository.state() == before


def test_cache_in_the_working_tree_is_no_part_of_it(
    repository: Repository, prepared: Prepared, cache: Path
) -> None:
    """A cache that lies in the repository neither makes it dirty nor is built with it."""
    elsewhere = prepared(repository, cache, WORKTREE)
    inside = repository.root / "kept" / "cache"
    shutil.copytree(cache, inside)
    shutil.rmtree(inside / elsewhere.require().parent.name)
    first, second = (prepared(repository, inside, WORKTREE) for _ in range(2))
    assert not first.identity.dirty
    assert first.require().is_relative_to(inside)
    assert first.identity == second.identity == elsewhere.identity
    assert first.build.reused
    assert second.reused


@pytest.mark.parametrize(
    ("damage", "status", "words"),
    [
        (broken.missing_header, "missing header", "build_config.h"),
        (broken.undefined_symbol, "undefined symbol", "MARKER"),
        (broken.wrong_module_name, "wrong module name", "expected fastattn._kernels, got"),
        (broken.wrong_function_name, "wrong module name", "PyInit__kernels"),
        (broken.import_error, "import error", "absent_module"),
        (broken.crash_at_import, "import error", "loading ended with SIG"),
        (broken.no_function, "import error", "no function fastattn.api.sdpa_like"),
        (broken.no_module, "import error", "No module named 'fastattn.api'"),
        (broken.no_setup, "build error", "setup.py"),
        (broken.no_import_root, "build error", "path 'src' is not there"),
    ],
)
def test_failures_are_told_apart(
    tmp_path: Path, prepared: Prepared, cache: Path, damage, status: str, words: str
) -> None:
    """Each way to fail is one line and exit code 4, without a path of this machine."""
    repository = fastattn(tmp_path / "fastattn", by_setuptools=damage in broken.OF_SETUPTOOLS)
    damage(repository)
    repository.commit("Break it")
    failed = prepared(repository, cache)
    assert (failed.status, failed.import_root) == (status, None)
    assert words in failed.reason
    with pytest.raises(NotMeasuredError, match=status) as told:
        failed.require()
    assert told.value.exit_code == Exit.NOT_MEASURED
    assert "\n" not in str(told.value)
    for place in (repository.root, cache):
        assert str(place) not in failed.reason


def test_submodule_that_is_not_here_is_another_build(
    tmp_path: Path, prepared: Prepared, cache: Path
) -> None:
    """A commit that lacks a submodule is known the next time, without a checkout, with what it
    lacks; once that was fetched it is built anew."""
    library = Repository(tmp_path / "library")
    library.write("missing_config.h", "")
    library.commit("A header")
    origin = fastattn(tmp_path / "origin", by_setuptools=True)
    allowed = ("-c", "protocol.file.allow=always", "submodule")
    origin.git(*allowed, "add", "-q", str(library.root), "csrc/library")
    origin.edit("csrc/kernels.cpp", '"config.h"', '"config.h"\n#include "library/missing_config.h"')
    origin.commit("Use a library")
    clone = Repository(tmp_path / "clone")
    clone.git("pull", "-q", str(origin.root), "main")
    first, second = (prepared(clone, cache) for _ in range(2))
    assert (first.status, first.reused) == ("missing header", False)
    assert (second.status, second.reused) == ("missing header", True)
    notes = first.outcome.notes
    assert notes == second.outcome.notes == (notes[0],)
    assert "git submodule update --init csrc/library" in notes[0]
    clone.git(*allowed, "update", "-q", "--init")
    fetched = prepared(clone, cache)
    assert (fetched.status, fetched.outcome.notes, fetched.reused) == ("built", (), False)
    assert prepared(clone, cache).reused


def test_damaged_site_is_made_again(
    repository: Repository, prepared: Prepared, cache: Path
) -> None:
    """An import root whose library is not the one that was built is not used."""
    built = prepared(repository, cache)
    (library,) = built.require().rglob("*.so")
    library.write_bytes(library.read_bytes()[:1000])
    again = prepared(repository, cache)
    assert again.identity == built.identity
    assert marker(again.require()) == 1


def test_rewritten_source_is_put_back(
    repository: Repository, prepared: Prepared, cache: Path, tmp_path: Path
) -> None:
    """A launch that rewrites a source of its own in place, to which the cached one is linked,
    changes nothing for the next command; a new file beside it does not matter."""
    built = prepared(repository, cache)
    source = built.require() / "fastattn" / "api.py"
    original = source.read_text()
    source.with_name("written.txt").write_text("by the package itself")
    assert prepared(repository, cache).reused
    copy = _copied(built.require(), tmp_path) / "fastattn" / "api.py"
    copy.write_text(f"{original}raise SystemExit\n")
    assert source.read_text() != original  # why the cache has to look
    again = prepared(repository, cache)
    assert again.identity == built.identity
    assert (again.require() / "fastattn" / "api.py").read_text() == original


def test_unwritable_cache_is_one_line(
    repository: Repository, prepared: Prepared, tmp_path: Path
) -> None:
    """A cache that cannot be written is reported with the variable that moves it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(NotMeasuredError, match="FLASHBENCH_CACHE"):
        prepared(repository, tmp_path / "file" / "cache")


def test_unreadable_file_is_one_line(
    repository: Repository, prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of the working tree that cannot be read is reported by its name; the cache is not
    blamed."""

    def refuse(source: Path, place: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(source))

    monkeypatch.setattr(shutil, "copy2", refuse)
    with pytest.raises(NotMeasuredError, match=r"the working tree .*Permission denied") as told:
        prepared(repository, tmp_path / "cache", WORKTREE)
    assert str(repository.root) in str(told.value)
    assert "cache" not in str(told.value).replace(str(tmp_path), "")


def test_build_sees_no_repository(
    repository: Repository, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build command finds neither the user's repository nor one that lies around the cache."""
    monkeypatch.setenv("GIT_DIR", str(repository.root / ".git"))
    project = replace(
        read(repository.root),
        build=("sh", "-c", "git rev-parse --git-dir && touch src/found; true"),
    )
    head = resolve(project.repository, "HEAD")
    built = prepare(project, head, repository.root / ".cache", stage="build")
    assert built.build.status == "built"
    assert not list(Path(built.build.directory).rglob("found"))


MAKE = """\
SUFFIX := $(shell python -c "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))")
INCLUDE := $(shell python -c "import sysconfig; print(sysconfig.get_path('include'))")
fast$(SUFFIX): fast.cpp
\t$(CXX) -O1 -shared -fPIC -I$(INCLUDE) -o $@ $<
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.24)
project(fast CXX)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
Python_add_library(fast MODULE WITH_SOABI fast.cpp)
"""
BARE = """\
#include <Python.h>
static PyObject* attention(PyObject*, PyObject*) { return PyLong_FromLong(5); }
static PyMethodDef methods[] = {{"attention", attention, METH_VARARGS, nullptr}, {}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "fast", nullptr, -1, methods};
PyMODINIT_FUNC PyInit_fast() { return PyModule_Create(&module); }
"""
TABLE = '[tool.flashbench.project]\ncallable = "fast:attention"\nbuild = {build}\npath = "{path}"\n'
CONFIGURE = (
    '["sh", "-c", "cmake -B out -DPython_EXECUTABLE=$(command -v python) && cmake --build out"]'
)


@pytest.mark.parametrize(
    ("name", "text", "build", "path"),
    [
        ("Makefile", MAKE, '["make"]', "."),
        ("CMakeLists.txt", CMAKE, CONFIGURE, "out"),
    ],
)
def test_bare_extension_by_make_or_cmake(
    tmp_path: Path, prepared: Prepared, cache: Path, name: str, text: str, build: str, path: str
) -> None:
    """An extension at the top level, without a package, built by make or CMake, is prepared."""
    repository = Repository(tmp_path / "fast")
    repository.write("fast.cpp", BARE)
    repository.write(name, text)
    repository.write("docs/guide.md", "not part of a site")
    repository.write("pyproject.toml", TABLE.format(build=build, path=path))
    repository.commit("A kernel")
    built = prepared(repository, cache)
    assert built.status == "built", built.reason
    assert list(built.require().rglob("*.so")) == list(built.require().glob("fast.*.so"))
    assert not list(built.require().rglob("*.o"))
    assert not (built.require() / "docs").exists()


def test_project_in_a_directory_of_its_repository(
    tmp_path: Path, prepared: Prepared, cache: Path
) -> None:
    """pyproject.toml may be below the root: the build runs there and sees the folders above."""
    repository = Repository(tmp_path / "mono")
    repository.write("csrc/value.txt", "4")
    table = TABLE.format(build='["cp", "../csrc/value.txt", "value.txt"]', path=".")
    repository.write("python/pyproject.toml", table)
    read_value = "from pathlib import Path\nV = Path(__file__).with_name('value.txt').read_text()\n"
    repository.write("python/fast.py", read_value + "def attention(*_): return int(V)\n")
    repository.commit("A kernel")
    repository.root /= "python"
    assert read(repository.root).directory == "python"
    built = prepared(repository, cache)
    assert built.status == "built", built.reason
    assert (built.require() / "value.txt").read_text() == "4"
    assert built.identity.library_hash == ""


def test_killed_preparation_leaves_nothing_to_the_next(
    by_setuptools: Repository, prepared: Prepared, tmp_path: Path
) -> None:
    """A process killed in its build leaves no half build, and its files are removed by the next."""
    repository, cache = by_setuptools, tmp_path / "cache"
    wait = "import time; open('started', 'w'); time.sleep(3)\n"
    repository.edit("setup.py", "from setuptools", f"{wait}from setuptools")
    repository.commit("A build that takes long")
    code = (
        "import sys; from pathlib import Path; from flashbench.revisions import *\n"
        "from flashbench.revisions.prepare import prepare\n"
        "project = read(Path(sys.argv[1]))\n"
        "prepare(project, resolve(project.repository, 'HEAD'), Path(sys.argv[2]))\n"
    )
    command = [sys.executable, "-c", code, str(repository.root), str(cache)]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    while not list(cache.glob("**/started")):  # before, a child between fork and exec has its locks
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    repository.git("reset", "-q", "--hard", "HEAD~1")
    assert prepared(repository, cache).status == "built"
    assert not list(cache.glob(".scratch.*/"))


PYTHON_ONLY = "def attention(q, k, v, is_causal=False): return q\n"


def test_environment_and_time_limit(
    tmp_path: Path, prepared: Prepared, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that is named makes another build; one that takes too long is stopped."""
    repository = Repository(tmp_path / "fast")
    repository.write("fast.py", PYTHON_ONLY)
    table = TABLE.format(build='["sh", "-c", "echo $FAST_MATH > mode.txt"]', path=".")
    repository.write("pyproject.toml", table + 'environment = ["FAST_MATH"]\n')
    repository.commit("A kernel")
    modes = []
    for mode in ("on", "off", "on"):
        monkeypatch.setenv("FAST_MATH", mode)
        modes.append(prepared(repository, cache))
    assert [built.build.reused for built in modes] == [False, False, True]
    assert (modes[1].require() / "mode.txt").read_text() == "off\n"
    project = replace(read(repository.root), build=("sleep", "60"))
    stopped = prepare(project, resolve(project.repository, "HEAD"), cache, timeout=0.2)
    assert (stopped.status, stopped.import_root) == ("timeout", None)
    missing = replace(project, build=("./no-such-program",))
    failed = prepare(missing, resolve(project.repository, "HEAD"), cache)
    assert (failed.status, "cannot be run" in failed.reason) == ("build error", True)


def test_our_own_layout_needs_no_settings(tmp_path: Path, prepared: Prepared, cache: Path) -> None:
    """A revision of flashbench is built by its setup.py, and states the hash of its sources."""
    repository = Repository(tmp_path / "flashbench")
    shutil.copytree(TOY, repository.root, dirs_exist_ok=True)
    shutil.copy(str(flashbench.source_hash.__file__), repository.root / "flashbench")
    repository.write("pyproject.toml", '[project]\nname = "flashbench"\nversion = "0"\n')
    repository.commit("A kernel")
    built = prepared(repository, cache)
    assert built.status == "built", built.reason
    assert built.identity.source_hash == built.build.stated_source_hash
    assert built.identity.library_hash == built.build.library_hash
    assert built.candidate("old").spec == "flashbench:attention"
