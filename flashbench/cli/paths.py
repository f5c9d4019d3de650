"""Paths of the command line."""

from pathlib import Path
from typing import Any

import click


class PathType(click.Path):
    """A path that is not empty: `Path("")` would be the working directory."""

    def __init__(self, *, file: bool = True, folder: bool = True) -> None:
        super().__init__(path_type=Path, file_okay=file, dir_okay=folder)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value):  # a variable of a script that is not set
            self.fail("an empty path names no file", param, ctx)
        return super().convert(value, param, ctx)
