"""Diagnose a failed build: one status from a short list, and the first lines that explain it."""

import re
import shutil
import subprocess
import textwrap
from typing import Literal, get_args

BuildStatus = Literal[
    "built",
    "missing header",
    "compile error",
    "link error",
    "undefined symbol",  # at import: it linked, but a unit that defines the symbol was left out
    "wrong module name",
    "import error",
    "wrong result",  # wrong numbers or a failing call; set by callers, not by a build
    "unchecked",  # it refuses every case tried: neither right nor wrong
    "build error",  # anything else: no setup.py, CMake's own complaints, a missing tool
    "timeout",
]
STATUSES: tuple[BuildStatus, ...] = get_args(BuildStatus)

REASON_LINES = 6

_COMPILER = r"(?:[^\s:]*/)?(?:[\w.]+-)*(?:c\+\+|g\+\+|gcc|cc1plus|cc1|clang\+\+|clang)(?:-\d+)?"
# Ordered: an undefined symbol is also reported as an import error, a missing header is also a
# compile error. Each pattern finds the line where the reason begins.
_SIGNS: tuple[tuple[BuildStatus, str], ...] = (
    ("timeout", r"\Atimeout: "),
    ("undefined symbol", r"(?<!\berror: )undefined symbol: "),
    ("wrong module name", r"wrong module name|does not define module export function"),
    ("import error", r"import error: |does not load: |\bImportError: "),
    ("missing header", r"^[^\n:]+:\d.*fatal error: .*(No such file or directory|file not found)"),
    ("missing header", r"(cannot open source file|could not open source file)"),
    ("link error", r"undefined reference to|multiple definition of|\bld: cannot find"),
    ("link error", r"^(?:[\w/.+-]*\bld(?:\.\w+)?): (?![^\n]*(?:\bwarning\b|note:|in function))"),
    ("link error", r"collect2: error|linker command failed"),
    ("compile error", r"^[^\n:]+:\d+(:\d+)?: (fatal )?error: |^[^\n]+\(\d+\): error"),
    ("compile error", r"^[\w./+-]+:\d+: Error: "),
    ("compile error", rf"^(?:{_COMPILER}): (fatal )?error: "),
    ("compile error", r"^[\w./+-]+: (fatal )?error: .*\n+compilation terminated"),
    ("compile error", r"ptxas (fatal|error)|nvcc (fatal|error)|internal compiler error"),
    ("build error", r"CMake Error|^[\w./-]*\bmeson\.build:\d+:\d+: ERROR: |^[\w-]+: error: "),
    ("build error", r"^(flashbench: |error: |[\w.]*(Error|Exception)(: |$))"),
)

# What compilers and linkers print: the first of these in the log is the reason, later ones may
# follow from it or come from other units.
_OF_TOOLS = frozenset[BuildStatus]({"missing header", "link error", "compile error"})

# The machine's fault, not the sources': such a failure says nothing about the commit. Tools print
# these after a colon or in brackets; in program text the same words are followed by more.
_PASSING = re.compile(
    r"(^\s*|[:\](] ?)'?(No space left on device|Cannot allocate memory|Disk quota exceeded|"
    r"Resource temporarily unavailable|File too large|File size limit exceeded|"
    r"Too many open files)($|[^\w\"\\])|"
    r"^([^\"\n]*: )?(virtual memory exhausted|out of memory allocating|Killed[ \t\r]*$)|"
    r": Killed signal terminated program|\bended with SIGKILL|died with <Signals.SIGKILL|"
    r"^MemoryError|Error: (CUDA out of memory|std::bad_alloc)|^\s*what\(\):\s+std::bad_alloc|"
    r"^([^\"\n]*: )?terminate called after throwing an instance of 'std::bad_alloc'",
    re.MULTILINE,
)
# A compiler's message about a source line, and that line.
_ABOUT_SOURCES = re.compile(
    r"\s*\d* \| |[^\s:]+:\d+(:\d+)?: (error|warning|note): |[^\s(]+\(\d+\): (error|warning|note)"
)

_TOOL = (
    r"(?:[^\s':`]*/)?(?:\w+-)*(?:c\+\+|g\+\+|gcc|cc|clang\+\+|clang|nvcc|cmake|ninja|make)(?:-\d+)?"
)
# How a shell, Python, setuptools, make and our own recipe report a missing program.
_NO_TOOL = re.compile(
    rf"(?:^|: )({_TOOL}): (?:command )?not found$|No such file or directory: '({_TOOL})'|"
    rf"command '({_TOOL})' failed: No such file|^make[^:\n]*: ({_TOOL}): No such file|"
    rf"^({_TOOL}): cannot be run: No such file|No CMAKE_(C|CXX|CUDA)_COMPILER could be found|"
    r"build program corresponding to \"(Ninja|Unix Makefiles)\"",
    re.MULTILINE,
)
# "CMake Error at FILE:LINE (COMMAND):" and the indented lines that say what is wrong, or "CMake
# Error: Error in cmake code at", the place and what is wrong.
_OF_CMAKE_ERROR = re.compile(
    r"^(CMake Error\b[^\n]*[:t])\n+((?:[ \t]+\S[^\n]*\n+)+|\S[^\n]*:\d+:[ \t]*\n[^\n]+\n)",
    re.MULTILINE,
)
# What a backend has printed, which pip sets apart from its own words.
_OF_BACKEND = re.compile(
    r"╰─> \[\d+ lines of output\]\n(.*?)^ *\[end of output\]", re.M | re.DOTALL
)
# Languages and generators.
_OF_CMAKE = {
    "C": ("cc", "gcc", "clang"),
    "CXX": ("c++", "g++", "clang++"),
    "CUDA": ("nvcc",),
    "Ninja": ("ninja",),
    "Unix Makefiles": ("make",),
}


def diagnose(log: str) -> tuple[BuildStatus, str]:
    """The status of a failed build and the first lines that explain it, from its whole output."""
    if inner := _OF_BACKEND.search(log):
        log = textwrap.dedent(inner[1])
    found = [
        (status, log.rfind("\n", 0, match.start()) + 1)
        for status, pattern in _SIGNS
        if (match := re.search(pattern, log, re.MULTILINE))
    ]
    if not found:
        return "build error", _lines("\n".join(log.strip().splitlines()[-REASON_LINES:]))
    status, start = found[0]
    if status in _OF_TOOLS:
        of_tools = (one for one in found if one[0] in _OF_TOOLS)
        status, start = min(of_tools, key=lambda one: one[1])
    return status, _place(log, start) + _lines(log[start:].lstrip())


def passing(log: str) -> str:
    """The line showing that it failed for lack of memory or disk, and deserves another try; "" if
    there is none."""
    for found in _PASSING.finditer(log):
        line = _line_at(log, found.end() - 1)
        if not _ABOUT_SOURCES.match(line):
            return line.strip()[:300]
    return ""


def missing_tool(log: str) -> str:
    """The line showing that a compiler, or a tool that runs it, is not on this machine's PATH; ""
    without one. That is no fault of the sources, and the tool may be installed next time."""
    for found in _NO_TOOL.finditer(log):
        line = _line_at(log, found.start() + 1)
        name = next(filter(None, found.groups()))
        there = any(shutil.which(tool) for tool in _OF_CMAKE.get(name, (name,)))
        if not there and not _ABOUT_SOURCES.match(line):
            return line.strip()[:300]
    return ""


def _place(log: str, start: int) -> str:
    """`setup.py:3: ` for the last frame of a traceback that ends at `start`; "" without one."""
    if not re.match(r"[\w.]+(?:Error|Exception)(?::|$)", log[start:]):
        return ""
    frames = re.findall(r'^ +File "([^"\n]+)", line (\d+)', log[:start], re.MULTILINE)
    return f"{frames[-1][0]}:{frames[-1][1]}: " if frames else ""


def _joined(found: re.Match[str]) -> str:
    """Put what CMake says in the line that says where."""
    return f"{found[1]} {' '.join(found[2].split())}\n"


def _line_at(log: str, place: int) -> str:
    end = log.find("\n", place)
    return log[log.rfind("\n", 0, place) + 1 : end if end >= 0 else None]


def _lines(text: str) -> str:
    text = _OF_CMAKE_ERROR.sub(_joined, text)
    kept = [line.rstrip()[:300] for line in text.splitlines() if line.strip()][:REASON_LINES]
    return demangle("\n".join(kept))


def demangle(text: str) -> str:
    """Demangle C++ names if the machine has c++filt."""
    tool = shutil.which("c++filt")
    if tool is None:
        return text
    done = subprocess.run([tool], input=text, capture_output=True, text=True)
    return done.stdout.rstrip("\n") if done.returncode == 0 else text
