"""What helps when HEAD does not build: the check that names the cause, or the fix."""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from flashbench.builds.missing_symbol import first_line
from flashbench.preflight.build.subject import BuildSubject
from flashbench.preflight.fixes import edit
from flashbench.preflight.source.in_git import found_in_git, how_to_get
from flashbench.preflight.source.listings import add_to_build
from flashbench.preflight.source.tree import SourceTree
from flashbench.revisions import git

if TYPE_CHECKING:
    from flashbench.revisions import Built

# Earlier checks, each with what a failed build's reason contains if their defect caused it.
_TRACES = {
    "C++ compiler": r"C\+\+|c\+\+|g\+\+|gcc|\bcc\b|clang|compiler|CXX",
    "Python headers": r"Python\.h|Python\w*_INCLUDE|Development",
    "nvcc": r"nvcc|CUDA|cuda",
    "torch": r"torch|Torch|CUDA",
}
# The same, by the build's status.
_CAUSES: Mapping[str, tuple[str, ...]] = {
    "missing header": ("missing headers", "headers in git", "files in git", "submodules"),
    "compile error": ("macros against constants", "headers in git", "files in git", "submodules"),
    "undefined symbol": (
        "bindings against units",
        "explicit instantiations",
        "listed sources",
        "files in git",
    ),
    "link error": (
        "bindings against units",
        "explicit instantiations",
        "listed sources",
        "files in git",
    ),
    "wrong module name": ("module name",),
    "import error": ("project settings", "files in git", "module name"),
    "build error": ("listed sources", "files in git", "project settings", "submodules"),
}
_PROGRAMS = {"make": "apt-get install make", "cc": "apt-get install gcc"}


def cause(built: "Built", named: Iterable[str]) -> str:
    """Find the check with an error that explains a failed build; "" if none does."""
    found = [
        name for name, trace in _TRACES.items() if not built.kept or re.search(trace, built.reason)
    ]
    found += _CAUSES.get(built.status, ())
    return next((name for name in found if name in named), "")


def fix(subject: BuildSubject, built: "Built") -> str:
    """The command that helps."""
    for pattern, say in _FIXES:
        if found := re.search(pattern, first_line(built.reason)):
            return say(subject, found)
    if not built.kept:
        return "flashbench preflight --level build  # again, once this machine is corrected"
    if built.status == "timeout" and built.build.status == "built":
        name = subject.project.callable.partition(":")[0]
        import_it = f"import faulthandler; faulthandler.dump_traceback_later(10); import {name}"
        return f"python -c '{import_it}'  # says where the import hangs"
    if built.status == "timeout":
        return "flashbench preflight --level build --timeout 1h"
    purpose = "build" if built.build.status != "built" else "load"
    if not (good := _earlier(subject, built.revision.commit)):
        return f"flashbench build HEAD  # the reason; no earlier commit to bisect for {purpose}"
    return f"flashbench bisect --for {purpose} --good {good}"


def _earlier(subject: BuildSubject, commit: str) -> str:
    """The revision to bisect from: the latest tag before a commit, else the first commit; "" if
    there is none before it."""
    asked = (
        ("describe", "--tags", "--abbrev=0", f"{commit}^"),
        ("rev-list", "--max-parents=0", "--abbrev-commit", f"{commit}^"),
    )
    for arguments in asked:
        try:
            return git.ask(subject.tree.root, *arguments).decode().split()[0]
        except git.GitError:
            continue
    return ""


def _install(subject: BuildSubject, found: re.Match[str]) -> str:
    name = found[1]
    if name in ("cmake", "ninja"):
        return f"python -m pip install {name}"
    return _PROGRAMS.get(name, f"apt-get install {name}  # or put its folder on PATH")


def _install_ninja(subject: BuildSubject, found: re.Match[str]) -> str:
    return "python -m pip install ninja"


def _install_module(subject: BuildSubject, found: re.Match[str]) -> str:
    """Install a package that is not the project's own."""
    if found[1] == subject.project.callable.partition(":")[0]:
        return edit("pyproject.toml", f"correct `callable`: it names {found[1]}")
    name, here = found[1].partition(".")[0], subject.project.path
    if any((subject.tree.root / here / f"{name}{end}").exists() for end in ("", ".py")):
        return f"git grep -n {shlex.quote(found[1])}  # write it, or correct what imports it"
    return f"python -m pip install {name}"


def _architecture(subject: BuildSubject, found: re.Match[str]) -> str:
    number = re.sub(r"\D", "", found[1])
    for variable in ("CUDAARCHS", "TORCH_CUDA_ARCH_LIST"):
        if number in os.environ.get(variable, "").replace(".", ""):
            return f"unset {variable}"
    setting = subject.setting
    what = f"remove {number} from {setting.name}, or install an older nvcc"
    return edit(setting.place, what) if setting.place else f"git grep -n {number}  # {what}"


def _rename(subject: BuildSubject, found: re.Match[str]) -> str:
    """`expected fast._C, got fast/kernels.cpython-311-x86_64-linux-gnu.so`."""
    built = found[2].partition(".")[0].replace("/", ".")
    return (
        f"git grep -n {shlex.quote(built.rpartition('.')[2])}  # name the module {found[1]} there"
    )


def _initialise(subject: BuildSubject, found: re.Match[str]) -> str:
    return f"git grep -n -e _MODULE -e PyInit_  # write PYBIND11_MODULE({found[1]}, m)"


def _get_header(tree: SourceTree, name: str) -> str:
    """Get a missing header from git, or name the package that may have it."""
    if known := found_in_git(tree, name):
        return how_to_get(tree, known[0])[1]
    return f"apt-file search {shlex.quote(name)}  # install what has it, or write it and git add it"


_Say = Callable[[BuildSubject, re.Match[str]], str]

# What a reason's first line contains, and what helps; the first match counts.
_FIXES: tuple[tuple[str, _Say], ...] = (
    (r"\b(\w+): (?:command )?not found", _install),
    (r"\b(cmake|ninja|make): cannot be run", _install),
    (r"corresponding to \"Ninja\"|Ninja is required", _install_ninja),
    (r"corresponding to \"Unix Makefiles\"", lambda subject, found: _PROGRAMS["make"]),
    (r"Unknown CUDA arch", lambda subject, found: "unset TORCH_CUDA_ARCH_LIST"),
    (r"Unsupported gpu architecture '(\w+)'", _architecture),
    (
        r"(?:error: |source file \")([\w./+-]+\.(?:h|hpp|cuh|hh|inl))\b",
        lambda subject, found: _get_header(subject.tree, found[1]),
    ),
    (r"expected ([\w.]+), got ([^,]+)", _rename),
    (r"\(PyInit_(\w+)\)", _initialise),
    (
        r"; ([\w./+-]+)\S* should hold it, and was not compiled",
        lambda subject, found: add_to_build(subject.tree, found[1]),
    ),
    (
        r"no function ([\w.]+)\.\w+",
        lambda subject, found: edit("pyproject.toml", f"callable = a function of {found[1]}"),
    ),
    (r"No module named '([\w.]+)'", _install_module),
)
