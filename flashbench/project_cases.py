"""`[tool.flashbench.cases]` of pyproject.toml: on what a project's callable is measured and
checked, once for all commands. It needs Python alone, as preflight does."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from flashbench.callables import LAYOUTS, MASK_REQUESTS
from flashbench.case import DTYPES
from flashbench.errors import InvalidInputError
from flashbench.pyproject import table_of

NAME = "cases"
_LISTS = ("shape", "preset", "dtype")
_KNOWN = {"dtype": DTYPES, "causal": MASK_REQUESTS, "layout": LAYOUTS}


@dataclass(frozen=True)
class ProjectCases:
    """Keys and values are those of the flags. Empty: as without the setting."""

    shape: tuple[str, ...] = ()
    preset: tuple[str, ...] = ()
    dtype: tuple[str, ...] = ()
    causal: str = ""
    layout: str = ""

    @property
    def given(self) -> dict[str, list[str] | str]:
        """The settings that are not empty, by flag."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value
        }


ANY_CASES = ProjectCases()


def read(path: Path, document: dict[str, Any]) -> ProjectCases:
    """Read the cases of a pyproject.toml. Raises InvalidInputError naming file and key."""
    table = table_of(path, document, NAME)
    known = [one.name for one in fields(ProjectCases)]
    found: dict[str, Any] = {}
    for key, value in table.items():
        where = f"{path}: [tool.flashbench.{NAME}] {key}"
        if key not in known:
            raise InvalidInputError(f"{where}: is no setting; settings are {', '.join(known)}")
        words = value if isinstance(value, list) else [value]
        if isinstance(value, list) != (key in _LISTS) or not all(
            isinstance(word, str) and word and "\0" not in word for word in words
        ):
            kind = "a list of strings" if key in _LISTS else "a string"
            raise InvalidInputError(f"{where}: must be {kind}")
        for word in words:
            if word not in _KNOWN.get(key, (word,)):
                raise InvalidInputError(f"{where}: {word!r} is not one of {', '.join(_KNOWN[key])}")
        found[key] = tuple(value) if key in _LISTS else value
    return ProjectCases(**found)
