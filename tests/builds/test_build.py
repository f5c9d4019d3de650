"""Builds of a small C++ project: every failure is distinguished, and nothing is built twice."""

import multiprocessing
import shutil
from pathlib import Path

import pytest

import flashbench.source_hash
from flashbench.builds import Build, build

pytestmark = pytest.mark.slow

TOY = Path(__file__).parent.parent / "history" / "toy"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with the toy's sources."""
    root = tmp_path / "project"
    shutil.copytree(TOY, root)
    shutil.copy(str(flashbench.source_hash.__file__), root / "flashbench")
    return root


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_good_sources_are_built_once(
    project: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second build of equal sources is found, also where failures are tried again, and the
    checkout is left as it was. Other sources in csrc, or build settings of the environment, make
    another build."""
    before = files(project)
    first = build(project, cache)
    assert (first.status, first.reused, first.reason) == ("built", False, "")
    assert first.stated_source_hash == first.source_hash
    assert (Path(first.directory) / first.library).is_file()
    (project / "README").write_text("documentation only")
    (project / "flashbench" / "other.py").write_text("x = 1\n")
    second = build(project, cache, retry_failed=True)
    assert second.reused
    assert (second.key, second.library_hash) == (first.key, first.library_hash)
    assert files(project) == before | {"README", "flashbench/other.py"}
    edit(project / "csrc" / "scale.h", "1.0", "2.0")
    third = build(project, cache)
    monkeypatch.setenv("CXXFLAGS", "-O0")
    fourth = build(project, cache)
    assert len({first.key, third.key, fourth.key}) == 3
    assert [one.reused for one in (third, fourth)] == [False, False]


def missing_header(root: Path) -> None:
    edit(root / "csrc/kernel.cpp", "scale.h", "build_config.h")


def compile_error(root: Path) -> None:
    edit(root / "csrc/kernel.cpp", "PyFloat_FromDouble(SCALE)", "WARP_SIZE")


def link_error(root: Path) -> None:
    edit(root / "setup.py", '["csrc/kernel.cpp"],', '["csrc/kernel.cpp"], libraries=["absent"],')


def undefined_symbol(root: Path) -> None:
    edit(root / "csrc/scale.h", "1.0", "launch<float>(2)\ntemplate <class T> double launch(T x);")


def wrong_module_name(root: Path) -> None:
    edit(root / "setup.py", '"flashbench._C"', '"flashbench.flash_attention_science"')


def wrong_init_function(root: Path) -> None:
    edit(root / "csrc/kernel.cpp", "PyInit__C", "PyInit_other")


def import_error(root: Path) -> None:
    edit(
        root / "csrc/kernel.cpp",
        "return PyModule_Create(&module)",
        'return PyErr_SetString(PyExc_ImportError, "needs a GPU"), nullptr',
    )


def crash_at_import(root: Path) -> None:
    edit(root / "csrc/kernel.cpp", "return PyModule_Create(&module)", "__builtin_trap()")


def no_setup(root: Path) -> None:
    (root / "setup.py").unlink()


def broken_setup(root: Path) -> None:
    (root / "setup.py").write_text("raise SystemExit('flashbench: no C++ compiler')\n")


@pytest.mark.parametrize(
    ("damage", "status", "words"),
    [
        (missing_header, "missing header", "build_config.h"),
        (compile_error, "compile error", "WARP_SIZE"),
        (link_error, "link error", "-labsent"),
        (undefined_symbol, "undefined symbol", "double launch<float>(float)"),
        (wrong_module_name, "wrong module name", "flash_attention_science"),
        (wrong_init_function, "wrong module name", "PyInit__C"),
        (import_error, "import error", "needs a GPU"),
        (crash_at_import, "import error", "loading ended with SIG"),
        (no_setup, "build error", "no setup.py"),
        (broken_setup, "build error", "no C++ compiler"),
    ],
)
def test_failures_are_told_apart(project: Path, cache: Path, damage, status, words) -> None:
    """Each way to fail has its status and says why, and is not tried again."""
    damage(project)
    first = build(project, cache)
    assert (first.status, first.reused) == (status, False)
    assert words in first.reason
    assert str(project) not in first.reason
    second = build(project, cache)
    assert second.reused
    assert second.reason == first.reason


def test_a_failure_is_tried_again_where_asked(project: Path, cache: Path) -> None:
    """The answer that is kept does not stand in the way."""
    broken_setup(project)
    build(project, cache)
    assert not build(project, cache, retry_failed=True).reused


def stopped_after(begun: Path, project: Path, cache: Path) -> None:
    """Build with as much time as it takes to reach the moment of the test, and no more."""
    seconds = 0.5
    while True:
        assert build(project, cache, timeout=seconds, retry_failed=True).status == "timeout"
        if begun.exists():
            return
        seconds *= 2  # pytest's time limit ends a wait in vain


def test_hanging_build_is_stopped(project: Path, cache: Path) -> None:
    """A build that hangs ends with its time limit, and none of its processes lives on."""
    pid = project.parent / "pid"
    script = f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 1000"
    (project / "setup.py").write_text(
        f"import subprocess\nsubprocess.run(['sh', '-c', {script!r}])\n"
    )
    stopped_after(pid, project, cache)
    assert not Path("/proc", pid.read_text().strip()).exists()


def test_nothing_outlives_its_build(project: Path, cache: Path) -> None:
    """A process that leaves the build's session ends with it, whether the build hangs or is done;
    one that stops its supervisor is ended as well."""
    pids = project.parent / "pids"
    leave = (
        "import os, signal, time\n"
        "if not os.fork():\n"
        "    os.setsid()\n"
        "    if os.fork():\n"
        "        os._exit(0)\n"
        f"    open({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        "    time.sleep(100)\n"
        f"while not os.path.exists({str(pids)!r}):\n"
        "    time.sleep(0.01)\n"
    )
    setup = (project / "setup.py").read_text()
    (project / "setup.py").write_text(leave + setup)
    assert build(project, cache).status == "built"
    begun = project.parent / "begun"
    stop = f"os.kill(os.getppid(), signal.SIGSTOP)\nopen({str(begun)!r}, 'w')\ntime.sleep(100)\n"
    (project / "setup.py").write_text(leave + stop)
    stopped_after(begun, project, cache)
    for pid in pids.read_text().split():
        assert not Path("/proc", pid).exists()


def test_log_is_bounded(project: Path, cache: Path) -> None:
    """An endless build log keeps its head and its tail, including the last line."""
    (project / "setup.py").write_text(
        "print('first')\nfor _ in range(50_000):\n    print('x' * 99)\n"
        "raise SystemExit('flashbench: the last word')\n"
    )
    made = build(project, cache)
    assert made.reason == "flashbench: the last word"
    log = (Path(made.directory) / "log.txt").read_bytes()
    assert log.startswith(b"first\n")
    assert b"bytes left out" in log
    assert len(log) < 4_000_000


def test_time_out_with_more_time_is_tried_again(project: Path, cache: Path) -> None:
    """A build that was stopped is an answer for as much time, or less, alone."""
    (project / "setup.py").write_text("import time\ntime.sleep(100)\n")
    assert build(project, cache, timeout=0.2).status == "timeout"
    assert build(project, cache, timeout=0.1).reused
    assert not build(project, cache, timeout=0.3).reused


def test_killed_supervisor_is_not_remembered(project: Path, cache: Path) -> None:
    """A build that kills the process above it, or was killed with it, fails in one line."""
    (project / "setup.py").write_text("import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(99)\n")
    made = build(project, cache)
    assert made.status == "build error"
    assert made.reason == (
        "the build, or the system for lack of memory, killed the process that supervises the "
        "build; no process of it is left, so not kept"
    )
    assert not made.directory
    assert not build(project, cache).reused


def test_killed_compiler_is_not_remembered(project: Path, cache: Path) -> None:
    """A killed build, as the kernel does where memory runs out, says nothing."""
    (project / "setup.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    made = build(project, cache)
    assert "SIGKILL" in made.reason or "so not kept" in made.reason
    assert not made.directory
    assert not build(project, cache).reused


def test_full_disk_is_not_remembered(project: Path, cache: Path) -> None:
    """A failure for lack of disk or memory says nothing of the sources: the next call tries."""
    setup = (project / "setup.py").read_text()
    (project / "setup.py").write_text("raise SystemExit('as: No space left on device')\n")
    assert build(project, cache).status == "build error"
    assert not build(project, cache).reused
    (project / "setup.py").write_text(setup)
    assert build(project, cache).status == "built"


def _build_in_process(arguments: tuple[Path, Path]) -> Build:
    return build(*arguments)


def test_two_processes_build_once(project: Path, cache: Path) -> None:
    """When two processes want one build at once, one builds and the other waits for it."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        both = pool.map(_build_in_process, [(project, cache)] * 2)
    assert sorted(b.reused for b in both) == [False, True]
    assert both[0].library_hash == both[1].library_hash


def test_killed_build_leaves_no_trace(project: Path, cache: Path) -> None:
    """What a killed process left of a build is removed by the next one, and is never used."""
    first = build(project, cache)
    left = cache / ".scratch.abc"
    (left / "files" / "build").mkdir(parents=True)
    (left / "lock").touch()
    (cache / first.key / "build.json").write_text('{"key": ')
    second = build(project, cache)
    assert (second.status, second.reused) == ("built", False)
    assert not left.exists()
