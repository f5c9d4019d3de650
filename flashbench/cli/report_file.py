"""The -o option of reports: refuse an unwritable file before anything is measured."""

import errno
import os
import shlex
from pathlib import Path
from typing import Any

import click

from flashbench.cli.parameter_types import PathType
from flashbench.errors import InvalidInputError
from flashbench.files import regular_target, write_file


class ReportFile(PathType):
    """A file for a report. It may replace another report, but never measurements."""

    def __init__(self) -> None:
        super().__init__(folder=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(str(super().convert(value, param, ctx)))
        require_writable(path)
        return path


def write_report(path: Path, text: str | bytes) -> None:
    """Write or replace a report. Raises InvalidInputError if that fails."""
    require_writable(path)
    try:
        write_file(path, text.encode() if isinstance(text, str) else text)
    except OSError as error:
        raise _not_writable(path, error.strerror) from None


def refuse_run_file(output: Path | None, run_file: Path) -> None:
    """Raise InvalidInputError if the report would overwrite the run file, even through links. A
    device may take both."""
    if output is None:
        return
    try:
        target = regular_target(output)
        same = target is not None and target == regular_target(run_file)
    except OSError:
        return  # reported when the run file is opened
    if same:
        raise InvalidInputError(
            f"{output}: will hold the measurements; name another file for the report with -o"
        )


def require_writable(path: Path) -> None:
    """Raise InvalidInputError if no report can be written there."""
    try:
        target = regular_target(path)
    except OSError as error:  # e.g. a loop of links, or a name that is too long
        raise _not_writable(path, error.strerror) from None
    if target is None:  # a device or a pipe
        return
    if not target.parent.is_dir():  # it may be mistyped, so do not create it
        folder = target.parent if path.parent.is_dir() else path.parent
        raise _not_writable(
            path, f"no folder {folder}; make it with: mkdir -p {shlex.quote(str(folder))}"
        )
    if not os.access(target.parent, os.W_OK | os.X_OK) or (
        target.exists() and not os.access(target, os.W_OK)
    ):
        raise _not_writable(path, os.strerror(errno.EACCES))
    if target.exists():
        _refuse_measurements(path)


def _refuse_measurements(path: Path) -> None:
    """Refuse to replace measurements, which cannot be regenerated."""
    from flashbench.other_tools.detect import holds_measurements

    if holds_measurements(path):
        raise InvalidInputError(
            f"{path}: holds measurements, which no report replaces; name another file with -o"
        )


def _not_writable(path: Path, why: str | None) -> InvalidInputError:
    return InvalidInputError(f"{path}: cannot be written: {why}")
