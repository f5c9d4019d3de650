"""Prove that a call runs its own revision's code, by watching an untimed call.

Python's profiler sees every frame of the call, on this thread and on those that it starts. The
kernel reports which libraries' code was touched (`Referenced` in /proc/self/smaps, after
/proc/self/clear_refs). That covers native code however it was reached: by a registered operator, a
symbol resolved elsewhere, or a pointer in another library's table.
"""

import contextlib
import gc
import importlib.metadata
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from flashbench.builds.content import libraries
from flashbench.operations.attention import backward
from flashbench.revisions import isolated_imports, outside
from flashbench.revisions.isolated_imports import IsolatedModules

_OF_MODULES = tuple(suffix for suffix in EXTENSION_SUFFIXES if suffix != ".so")
# What measures around the call, though it may be flashbench that is measured: the watch itself, and
# what calls a candidate and then its gradients.
_OURS = frozenset({__file__, isolated_imports.__file__, backward.__file__})
_SETTLE_SECONDS = 2e-3  # after this, idle threads sleep instead of spinning
_CLEAR_REFERENCED = "1"  # man 5 proc_pid_clear_refs
_FLUSHED_PAGES = 1024  # from 33 (x86) or 512 (Arm) on Linux flushes the whole TLB, not page by page


@dataclass
class Witness:
    """Watches calls of a function from one import root. all_isolated: the import roots of this
    process. tree: the working tree, whose code belongs to no revision; empty if unknown."""

    isolated: IsolatedModules
    all_isolated: Sequence[IsolatedModules]
    tree: str = ""
    # By id, and kept alive: code objects of different files can compare equal.
    _judged: dict[int, CodeType] = field(default_factory=dict)
    _found: list[str] = field(default_factory=list)

    def disproof(self, call: Callable[[], Any]) -> str:
        """Make the call and return the evidence that it ran other code than the import root's, ""
        without any. Exceptions of the call pass through."""
        self._found.clear()
        self._judged.clear()
        watched = bool(self._other_libraries())
        with _native_code_watched(watched) as touched, self._frames_watched():
            call()
        others = self._other_libraries()
        self._found += [
            f"{Path(file).name} of another revision" for file in touched if file in others
        ]
        self._found += [f"{file}, which is not the revision's" for file in self._stand_ins()]
        return f"ran {self._found[0]}" if self._found else ""

    @property
    def _others(self) -> list[IsolatedModules]:
        return [isolated for isolated in self.all_isolated if isolated is not self.isolated]

    def _other_libraries(self) -> set[str]:
        """The mapped files of other revisions."""
        return {file for file in mapped_files() if any(one.holds(file) for one in self._others)}

    @cached_property
    def _names(self) -> frozenset[str]:
        """Top-level names of the project: those of the import root and of an installed copy."""
        by_name = _distributions()
        installed = {one for name in self.isolated.names for one in by_name.get(name, ())}
        beside = {name for name, owners in by_name.items() if installed & owners}
        return self.isolated.names | beside

    @contextlib.contextmanager
    def _frames_watched(self) -> Iterator[None]:
        before = sys.getprofile(), threading.getprofile()
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        try:
            yield
        finally:
            sys.setprofile(before[0])
            threading.setprofile(before[1])

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and id(frame.f_code) not in self._judged:
            self._judged[id(frame.f_code)] = frame.f_code
            if wrong := self._wrong(frame):
                self._found.append(wrong)

    def _wrong(self, frame: FrameType) -> str:
        """Describe a frame that must not run here; "" for others."""
        file = frame.f_code.co_filename
        owner = getattr(frame.f_builtins.get("__import__"), "__self__", None)
        if owner is self.isolated or self.isolated.holds(file) or file in _OURS:
            return ""
        if any(owner is other or other.holds(file) for other in self._others):
            return f"{frame.f_code.co_qualname} of another revision"
        name = str(frame.f_globals.get("__name__") or "")
        if name.partition(".")[0] in self._names:
            return f"{name} from {file}, which is not the revision's"
        if outside.lies_in(self.tree, file):
            return outside.describe(self.tree, file)
        return ""

    def _stand_ins(self) -> list[str]:
        """Libraries loaded from elsewhere in place of one in the import root.

        Extension modules are excluded by their modules' names, as many packages have a `_C`.
        """
        mapped = mapped_files()
        absent = {
            path.name
            for path in libraries(self.isolated.directory)
            if str(path.resolve()) not in mapped and not path.name.endswith(_OF_MODULES)
        }
        return sorted(
            file
            for file in mapped
            if Path(file).name in absent and not any(one.holds(file) for one in self.all_isolated)
        )


@cache
def _distributions() -> Mapping[str, set[int]]:
    """The installed distributions, by number, of each top-level name.

    As packages_distributions() of importlib.metadata finds them, in a tenth of its .4 s, which each
    launch of a revision would spend: nothing is parsed but the names.
    """
    found: dict[str, set[int]] = {}
    for number, one in enumerate(importlib.metadata.distributions()):
        names = (one.read_text("top_level.txt") or "").split()
        if not names:
            record = one.read_text("RECORD")
            paths = map(str, one.files or ()) if record is None else record.splitlines()
            files = [path.partition(",")[0] for path in paths]
            names = [f.partition("/")[0].removesuffix(".py") for f in files if f.endswith(".py")]
        for name in names:
            found.setdefault(name, set()).add(number)
    return found


def mapped_files() -> set[str]:
    """The files mapped by this process, mainly libraries; empty if the system does not list
    them."""
    if sys.platform != "linux":
        return set()
    lines = Path("/proc/self/maps").read_bytes().splitlines()
    fields = [line.split(maxsplit=5) for line in lines]
    return {os.fsdecode(field[5]) for field in fields if len(field) == 6}


@contextlib.contextmanager
def _native_code_watched(wanted: bool) -> Iterator[list[str]]:
    """Collect the libraries whose code is touched inside the context; filled in when it ends.

    Raises OSError if the kernel does not report them.
    """
    touched: list[str] = []
    if not wanted:
        yield touched
        return
    collecting = gc.isenabled()
    gc.disable()  # a collection would call into any library that owns an object
    try:
        time.sleep(_SETTLE_SECONDS)
        Path("/proc/self/clear_refs").write_text(_CLEAR_REFERENCED)
        _flush_tlb()
        yield touched
        touched += _referenced()
    finally:
        if collecting:
            gc.enable()


def _flush_tlb() -> None:
    """Make all threads of this process look their pages up anew, by unmapping many at once.

    A page is marked as referenced when it is looked up. clear_refs leaves the TLB alone, so code
    that ran shortly before would run unmarked.
    """
    with mmap.mmap(-1, _FLUSHED_PAGES * mmap.PAGESIZE) as pages:
        with contextlib.suppress(OSError):  # a kernel without huge pages
            pages.madvise(mmap.MADV_NOHUGEPAGE)
        for start in range(0, len(pages), mmap.PAGESIZE):
            pages[start] = 1


def _referenced() -> Iterator[str]:
    file = ""
    for line in Path("/proc/self/smaps").read_bytes().splitlines():
        words = line.split(maxsplit=5)
        if not words[0].endswith(b":"):  # the head of a mapping: addresses, rights, ..., file
            executable = len(words) == 6 and b"x" in words[1]
            file = os.fsdecode(words[5]) if executable else ""
        elif file and words[0] == b"Referenced:" and words[1] != b"0":
            yield file
