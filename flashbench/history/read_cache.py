"""A content-addressed cache of decoded result files: of a long history, only new files are decoded.

An entry's name is the hash of the file's bytes and of the reading code, so entries are never stale.
Damaged or impossible entries are ignored; entries without a file in the history are removed.
"""

import contextlib
import hashlib
import os
import zlib
from collections.abc import Container
from functools import cache
from pathlib import Path

import msgspec
import numpy as np

from flashbench import __version__
from flashbench.builds import pruning
from flashbench.files import replace_file
from flashbench.history import asv_result
from flashbench.history.asv_result import READ_COLUMNS, ResultFile, ResultRow
from flashbench.inputs import open_input
from flashbench.other_tools import asv_file, untrusted_json

_CHECKSUM = 4  # bytes before an entry
_PART = 2**16  # bytes per read of a file


class _Entry(msgspec.Struct, array_like=True):
    commit: str
    environment: str
    rows: msgspec.Raw
    numbers: memoryview
    failed: memoryview
    samples: list[tuple[int, memoryview]]  # launches of a combination, and the numbers
    measuring_seconds: float
    build_seconds: float


_NO_SAMPLES = np.empty((0, 0), np.float32)
_ROWS = msgspec.msgpack.Decoder(list[ResultRow])
_ENTRY = msgspec.msgpack.Decoder(_Entry)
_ENCODER = msgspec.msgpack.Encoder()


class ReadCache:
    """The entries of one results folder; several processes may use them at once."""

    def __init__(self, cache: Path, results: Path) -> None:
        """cache: the build cache; pruning it prunes the entries."""
        name = hashlib.sha256(os.fsencode(results.resolve())).hexdigest()[:32]
        self._folder = cache / "results" / name
        self._rows: tuple[bytes, list[ResultRow]] = b"", []  # files of a history share these
        pruning.touch(self._folder)

    def get(self, key: str) -> ResultFile | None:
        """The decoded file with this key; None if unknown."""
        with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError, ValueError):
            # Not mapped: a mapping keeps a file descriptor for as long as its numbers are used.
            return self._read((self._folder / key).read_bytes())
        return None

    def put(self, content: bytes, file: ResultFile) -> None:
        """Store a decoded file; does nothing if the cache cannot be written."""
        digest = _reader().copy()
        digest.update(content)
        entry = _Entry(
            file.commit,
            file.environment,
            msgspec.Raw(_ENCODER.encode(file.rows)),
            memoryview(file.numbers.tobytes()),
            memoryview(file.failed.tobytes()),
            [(one.shape[1], memoryview(one.tobytes())) for one in file.samples],
            file.measuring_seconds,
            file.build_seconds,
        )
        kept = _ENCODER.encode(entry)
        checksum = zlib.crc32(kept).to_bytes(_CHECKSUM)
        with contextlib.suppress(OSError):
            replace_file(self._folder / digest.hexdigest(), checksum + kept, durable=False)

    def keep_only(self, keys: Container[str]) -> None:
        """Remove all other entries and leftovers of killed processes."""
        with contextlib.suppress(OSError):
            for path in self._folder.iterdir():
                if path.name not in keys:
                    path.unlink()

    def _read(self, content: bytes) -> ResultFile:
        view = memoryview(content)
        if zlib.crc32(view[_CHECKSUM:]) != int.from_bytes(view[:_CHECKSUM]):
            raise ValueError("damaged")
        entry = _ENTRY.decode(view[_CHECKSUM:])
        described, known = self._rows
        if described != bytes(entry.rows):
            described = bytes(entry.rows)
            known = _ROWS.decode(described)
            self._rows = described, known
        failed = np.frombuffer(entry.failed, dtype=np.bool_)
        numbers = np.frombuffer(entry.numbers, dtype=np.float64).reshape(len(READ_COLUMNS), -1)
        if len(failed) != sum(row.combinations for row in known) or len(failed) != numbers.shape[1]:
            raise ValueError("numbers do not match combinations")
        samples = [
            np.frombuffer(one, dtype=np.float32).reshape(-1, width) if width else _NO_SAMPLES
            for width, one in entry.samples
        ]
        taken = entry.measuring_seconds, entry.build_seconds
        return ResultFile(entry.commit, entry.environment, known, numbers, failed, samples, *taken)


def key_of(path: Path) -> str:
    """The key of a file's entry; "" if the file cannot be read or is too large."""
    digest, left = _reader().copy(), untrusted_json.MAX_BYTES
    try:
        with open_input(path) as file:
            while part := file.read(_PART):  # read whole, it would need new memory each time
                digest.update(part)
                left -= len(part)
                if left < 0:
                    return ""
    except OSError:
        return ""
    return digest.hexdigest()


@cache
def _reader() -> "hashlib._Hash":
    """The hash of the code that reads result files."""
    files = (asv_file.__file__, asv_result.__file__, __file__)
    code = b"".join(Path(file).read_bytes() for file in files)
    return hashlib.sha256(__version__.encode() + code)
