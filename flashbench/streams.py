"""The standard streams, which may be closed, full, or a pipe without a reader.

stderr carries progress, which is dropped if it cannot be written. stdout carries the result:
failing to write it is an error, except to a reader that has left (`| head`). Neither changes the
measurement.
"""

import errno
import io
import os
import select
import sys
from collections.abc import Callable
from typing import TextIO

from flashbench.errors import InvalidInputError

Tell = Callable[[str], None]  # prints a line, of progress or a warning


class _Progress(io.FileIO):
    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]
        try:
            return super().write(data) or len(data)
        except OSError:
            return len(data)


class _Result(io.FileIO):
    _is_over = False  # so that buffered output is not tried, and reported, again

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]
        while not self._is_over:
            try:
                # None: a non-blocking pipe is full.
                if (written := super().write(data)) is not None:
                    return written
                select.select([], [self], [])
            except OSError as error:
                self._is_over = True
                if error.errno != errno.EPIPE:
                    raise InvalidInputError(
                        f"stdout: cannot be written: {error.strerror}; send it elsewhere: the "
                        "result was not delivered"
                    ) from None
        return len(data)


def guard() -> None:
    """Replace this process's stdout and stderr with such streams, once, before any thread starts.

    Closed descriptors are opened first: otherwise a file, socket or pipe could get their number and
    be written to as stdout, or be lost to a child process. Streams that were already replaced (by
    pytest) stay.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # the lowest free number: this one
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(_Result(1, "w", closefd=False), sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Progress(2, "w", closefd=False), sys.stderr)


def _text(raw: io.FileIO, replaced: TextIO | None) -> TextIO:
    """A text stream that escapes what its encoding lacks."""
    encoding = replaced.encoding if replaced is not None else "utf-8"
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, errors="backslashreplace", line_buffering=True
    )
