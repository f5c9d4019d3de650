"""Try settings and an adapter on the working tree and on commits."""

import re
from dataclasses import dataclass
from pathlib import Path

from flashbench.builds import cache_directory
from flashbench.callables import OPERATIONS
from flashbench.errors import InvalidInputError
from flashbench.init import adapter_text
from flashbench.init.attention_functions import Function
from flashbench.init.build_system import FoundBuild, cases_table, settings
from flashbench.revisions import WORKTREE, Built, read, resolve
from flashbench.revisions.check import Checker
from flashbench.revisions.prepare import prepare

_MISSING = re.compile(r"No module named '(\w+)")
_DTYPE = re.compile(r"\b(?:fp32|fp16|bf16)\b")


@dataclass
class Trial:
    """A repository, what was found in it, and what is written for it. checker: for all tries."""

    root: Path
    function: Function
    build: FoundBuild
    checker: Checker

    def __post_init__(self) -> None:
        file = self.root / "pyproject.toml"
        self._before = file.read_text(encoding="utf-8") if file.exists() else ""
        self._made = not self.adapter.parent.exists()

    @property
    def adapter(self) -> Path:
        return self.root / self._path / "fb.py"

    @property
    def _path(self) -> str:
        return self.build.path or self.function.path

    @property
    def unknown(self) -> list[str]:
        """Parameters that the adapter cannot pass before an edit."""
        return adapter_text.unknown(self.function)

    @property
    def is_likely(self) -> bool:
        """Whether to try it without an edit: it is no function of a test or benchmark."""
        return not self.unknown and not self.function.is_test_or_example

    def write_for_an_edit(self) -> None:
        """Write the files without a try: cases are those that the adapter does not refuse."""
        self.write(adapter_text.cases(self.function))

    def write(self, cases: dict[str, list[str] | str], *, transposed: bool = False) -> None:
        """Write the adapter and the settings, after what pyproject.toml says already."""
        text = adapter_text.adapter(self.function, self.build.shared_object, transposed=transposed)
        self.adapter.parent.mkdir(exist_ok=True)
        self.adapter.write_text(text, encoding="utf-8")
        name = self.build.path or self.adapter.relative_to(self.root).as_posix()
        table = settings(self.build, self._path, name, cases)
        before = self._before.rstrip("\n") + "\n\n" if self._before.strip() else ""
        (self.root / "pyproject.toml").write_text(before + table, encoding="utf-8")

    def measurable(self) -> Built:
        """The working tree, built and checked: with inputs in SDPA's layout, else as (batch,
        length, heads, head dim), else in the first as it failed. Writes the files accordingly;
        an error leaves none."""
        try:
            return self._measurable()
        except BaseException:  # also Ctrl-C
            self.undo()
            raise

    def _measurable(self) -> Built:
        self.write({})
        first = build_and_check(self.root, WORKTREE, self.checker)
        layout: dict[str, list[str] | str] = {}
        found = first
        if first.status == "wrong result" and self.function.module:
            layout = {"layout": "bshd"}
            self.write(layout, transposed=True)
            found = build_and_check(self.root, WORKTREE, self.checker)
        if found.status != "built":
            self.write_for_an_edit()
            return first
        cases = {**_cases(found), **layout}
        if cases != layout:
            self.write(cases, transposed=bool(layout))
        return found

    def undo(self) -> None:
        """Leave the repository as it was found."""
        self.adapter.unlink(missing_ok=True)
        if self._made:
            self.adapter.parent.rmdir()
        file = self.root / "pyproject.toml"
        if self._before:
            file.write_text(self._before, encoding="utf-8")
        else:
            file.unlink(missing_ok=True)


def at(root: Path, text: str, checker: Checker) -> Built | None:
    """A commit, built and checked; None if there is none."""
    try:
        return build_and_check(root, text, checker)
    except InvalidInputError:
        return None


def build_and_check(root: Path, text: str, checker: Checker) -> Built:
    """A revision, built and checked by the settings of the working tree."""
    project = read(root)
    revision = resolve(project.repository, text)
    return prepare(project, revision, cache_directory(), stage="correct", checker=checker)


def complete(root: Path, built: Built) -> None:
    """Write the cases that the working tree takes after settings that have none."""
    project, file = built.project, root / "pyproject.toml"
    cases = _cases(built)
    if cases and project.operation == OPERATIONS[0] and not project.cases.given:
        before = file.read_text(encoding="utf-8").rstrip("\n")
        file.write_text(f"{before}\n\n{cases_table(cases)}", encoding="utf-8")


def lacks(built: Built) -> str:
    """The package that its import misses; "" if none, or if it is the project's own."""
    found = _MISSING.search(built.reason)
    name = found[1] if found and built.status == "import error" else ""
    folders = built.project.import_root, built.project.repository
    own = any((folder / one).exists() for folder in folders for one in (name, f"{name}.py"))
    return "" if own else name


def _cases(built: Built) -> dict[str, list[str] | str]:
    """What it refuses is not measured: its dtypes and masks, if not all were right."""
    right, _, refused = built.outcome.checked.partition("; refused: ")
    found: dict[str, list[str] | str] = {}
    if dtypes := sorted(set(_DTYPE.findall(refused)) - set(_DTYPE.findall(right))):
        kept = [one for one in ("fp32", "fp16", "bf16") if one in right and one not in dtypes]
        found["dtype"] = kept
    if "causal" not in right:
        found["causal"] = "full"
    return found
