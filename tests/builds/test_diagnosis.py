"""The diagnosis of a failed build distinguishes the machine's fault from the sources'."""

import subprocess
from pathlib import Path

import pytest

from flashbench.builds.diagnosis import diagnose, missing_tool, passing


@pytest.mark.parametrize(
    "line",
    [
        "virtual memory exhausted: Cannot allocate memory",
        "cc1plus: out of memory allocating 65536 bytes after a total of 1048576 bytes",
        "x.cpp:9:1: fatal error: error writing to /tmp/a.s: No space left on device",
        "a.s: Fatal error: can't write 4 bytes to section .text: 'No space left on device'",
        "ld: final link failed: No space left on device",
        "python: cannot be run: Too many open files",
        "OSError: [Errno 28] No space left on device: 'a b'",
        "  file failed to open for writing (No space left on device):",
        "g++: fatal error: Killed signal terminated program cc1plus",
        "/bin/sh: line 1: fork: Resource temporarily unavailable",
        "as: BFD: Disk quota exceeded",
        "Killed",
        "MemoryError",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "  what():  std::bad_alloc",
        "fast.api cannot be imported: MemoryError: std::bad_alloc",
        "a call raised torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "setup.py ended with SIGKILL, as for lack of memory",
    ],
)
def test_want_of_memory_or_disk(line: str) -> None:
    """What tools print for lack of memory or disk is found among what else they print."""
    assert passing(f"c++ -c x.cpp\n{line}\nmake: *** [x.o] Error 1\n") == line.strip()


@pytest.mark.parametrize(
    "line",
    [
        "   12 |   } catch (const std::bad_alloc& error) {",
        "  } catch (const std::bad_alloc& error) {",
        'x.cpp:3:13: warning: unused variable in throw Error("CUDA out of memory")',
        '    3 |   throw Error("RuntimeError: CUDA out of memory");',
        '  throw Error("write: No space left on device");',
        '  throw Error("write: No space left on device\\n");',
        "x.cpp:5:2: error: #error Cannot allocate memory",
        "x.cpp:5:2: error: static assertion failed: File too large",
        "x.cu(12): error: no suitable conversion: Cannot allocate memory",
        "x.cpp:7:1: note: candidate: void virtual_memory_exhausted()",
    ],
)
def test_sources_that_speak_of_memory(line: str) -> None:
    """A line of the sources, or what a compiler says of it, is no want of memory."""
    assert passing(f"c++ -c x.cpp\n{line}\nmake: *** [x.o] Error 1\n") == ""


def test_compiler_that_quotes_such_a_line(tmp_path: Path) -> None:
    """A real error, whose message and lines around it speak of memory, is one of the sources."""
    (tmp_path / "x.cpp").write_text(
        "#include <new>\n#warning CUDA out of memory: No space left on device\n"
        'static const char *said = "RuntimeError: CUDA out of memory";\n'
        "int f() { try { return 1; } catch (const std::bad_alloc& e) { return e; } }\n"
    )
    command = ["c++", "-Wall", "-c", "x.cpp", "-o", "x.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "std::bad_alloc" in done.stderr
    assert "CUDA out of memory" in done.stderr
    assert passing(done.stderr) == ""


_NO_TOOLS = [
    "build.sh: 2: nvcc: not found",
    "bash: line 1: g++: command not found",
    "error: command 'x86_64-linux-gnu-g++' failed: No such file or directory",
    "error: [Errno 2] No such file or directory: 'g++'",
    "make[1]: g++: No such file or directory",
    "ninja: cannot be run: No such file or directory",
    "  No CMAKE_CUDA_COMPILER could be found.",
    'CMake Error: CMake was unable to find a build program corresponding to "Ninja".',
]


@pytest.mark.parametrize("line", _NO_TOOLS)
def test_tool_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str) -> None:
    """A compiler that is not on PATH is the machine's; the same words with it there are not."""
    log = f"building\n{line}\nError 127\n"
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert missing_tool(log) == ""
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert missing_tool(log) == line.strip()


@pytest.mark.parametrize(
    "line", ["build.sh: 2: nvc: not found", "x.cpp:1:1: error: bash: g++: command not found"]
)
def test_what_sources_get_wrong_is_no_missing_tool(
    monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """A program that is no compiler may be a slip of the build's script."""
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert missing_tool(f"{line}\n") == ""


_RELOCATION = "/usr/bin/ld: a.o: relocation R_X86_64_32 against `.rodata' can not be used"
_SYNTAX = '  File "setup.py", line 3\n    setup(\n         ^\n'

_PIP = (
    "  error: subprocess-exited-with-error\n  ╰─> [2 lines of output]\n      + meson setup .\n"
    "      {}\n      [end of output]\nerror: metadata-generation-failed\n"
)


@pytest.mark.parametrize(
    ("log", "status", "line"),
    [
        (f"{_RELOCATION}\ncollect2: error: ld returned 1", "link error", _RELOCATION),
        (
            "ld.lld: error: undefined symbol: f()\n>>> referenced by a.cpp:3\n",
            "link error",
            "ld.lld: error: undefined symbol: f()",
        ),
        (
            "/usr/bin/ld: a.o: warning: no stack note\na.cpp:9:2: error: expected '}'\n",
            "compile error",
            "a.cpp:9:2: error: expected '}'",
        ),
        (
            "g++: error: a.cpp: No such file or directory\ng++: fatal error: no input files\n"
            "compilation terminated.\n",
            "compile error",
            "g++: error: a.cpp: No such file or directory",
        ),
        (
            "g++: error: unrecognized command-line option '-fwrong'\n"
            "error: command '/usr/bin/g++' failed with exit code 1\n",
            "compile error",
            "g++: error: unrecognized command-line option '-fwrong'",
        ),
        (
            "cc.s: Assembler messages:\ncc.s:12: Error: no such instruction: `foo'\n",
            "compile error",
            "cc.s:12: Error: no such instruction: `foo'",
        ),
        (
            "CMake Error at CMakeLists.txt:5 (add_library):\n  Cannot find source file:\n\n"
            "    missing.cpp\n\n\nCMake Generate step failed.\n",
            "build error",
            "CMake Error at CMakeLists.txt:5 (add_library): Cannot find source file: missing.cpp",
        ),
        (
            "CMake Error: Error in cmake code at\n/src/CMakeLists.txt:3:\n"
            'Parse error.  Expected "(", got newline with text "\n".\n-- Configuring incomplete\n',
            "build error",
            "CMake Error: Error in cmake code at /src/CMakeLists.txt:3: Parse error. Expected",
        ),
        (
            'a.cu(7): error: identifier "kTile" is undefined\n'
            "b.cpp:1:10: fatal error: tile.h: No such file or directory\ncompilation terminated.\n",
            "compile error",
            'a.cu(7): error: identifier "kTile" is undefined',
        ),
        (
            "b.cpp:1:10: fatal error: tile.h: No such file or directory\ncompilation terminated.\n"
            "a.cpp:7:1: error: 'kTile' was not declared in this scope\n",
            "missing header",
            "b.cpp:1:10: fatal error: tile.h",
        ),
        (
            f"{_SYNTAX}SyntaxError: '(' was never closed\n",
            "build error",
            "setup.py:3: SyntaxError:",
        ),
        (
            "  Building wheel for x did not run successfully.\n"
            "      a.cpp:3:1: error: 'y' does not name a type\n",
            "compile error",
            "a.cpp:3:1: error: 'y' does not name a type",
        ),
        (
            _PIP.format('meson-python: error: Field "project.authors[0]" has an invalid type'),
            "build error",
            'meson-python: error: Field "project.authors[0]" has an invalid type',
        ),
        (
            _PIP.format("../meson.build:3:0: ERROR: Unknown compiler(s): [['cython']]"),
            "build error",
            "../meson.build:3:0: ERROR: Unknown compiler",
        ),
    ],
)
def test_first_line_says_what_is_wrong_and_where(log: str, status: str, line: str) -> None:
    """The first line is the tool's own first error with its place, not a summary of a wrapper."""
    found, reason = diagnose(log)
    assert (found, reason.splitlines()[0][: len(line)]) == (status, line)
