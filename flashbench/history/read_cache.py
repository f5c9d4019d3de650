"""A content-addressed cache of decoded result files: of a long history, only new files are decoded.

An entry's name is the hash of the file's bytes and of the reading code, so entries are never stale.
Damaged or impossible entries are ignored; entries without a file in the history are removed. A list
of the files' facts and keys saves hashing those that did not change.
"""

import contextlib
import hashlib
import os
import time
import zlib
from collections.abc import Container, Sequence
from functools import cache
from pathlib import Path

import msgspec
import numpy as np

from flashbench import __version__
from flashbench.builds import pruning
from flashbench.file_facts import FileFacts, facts_of
from flashbench.files import replace_file
from flashbench.history import asv_result
from flashbench.history.asv_result import READ_COLUMNS, ResultFile, ResultRow
from flashbench.inputs import open_input
from flashbench.other_tools import asv_file, untrusted_json
from flashbench.parallel import in_threads

_CHECKSUM = 4  # bytes before an entry
_PART = 2**16  # bytes per read of a file


class _Entry(msgspec.Struct, array_like=True):
    commit: str
    environment: str
    rows: bytes  # compressed
    numbers: list[memoryview]  # by column; empty where there are none
    failed: memoryview
    samples: list[tuple[int, memoryview]]  # launches of a combination, and the numbers
    measuring_seconds: float
    build_seconds: float


class _List(msgspec.Struct, array_like=True):
    """The facts and key of each file. reader: the hash of the code that the keys are of."""

    reader: str = ""
    files: dict[bytes, tuple[FileFacts, str]] = {}


_LIST_NAME = "list"
_NO_SAMPLES = np.empty((0, 0), np.float32)
_ROWS = msgspec.msgpack.Decoder(list[ResultRow])
_ENTRY = msgspec.msgpack.Decoder(_Entry)
_LIST = msgspec.msgpack.Decoder(_List)
_UNREADABLE = (OSError, msgspec.MsgspecError, UnicodeDecodeError, ValueError, zlib.error)
_ENCODER = msgspec.msgpack.Encoder()


class ReadCache:
    """The entries of one results folder; several processes may use them at once."""

    def __init__(self, cache: Path, results: Path) -> None:
        """cache: the build cache; pruning it prunes the entries."""
        name = hashlib.sha256(os.fsencode(results.resolve())).hexdigest()[:32]
        self._folder = cache / "results" / name
        self._rows: tuple[bytes, list[ResultRow]] = b"", []  # files of a history share these
        pruning.touch(self._folder)

    def keys(self, paths: Sequence[Path], *, everything: bool) -> list[str]:
        """`key_of` each file, which is read only if it is new or has changed. everything: these are
        all files of the results folder, so others are forgotten."""
        known, now = self._listed(), time.time()
        names = [os.fsencode(f"{path.parent.name}/{path.name}") for path in paths]
        facts = [_facts(path) for path in paths]
        keys = [
            known[name][1] if name in known and known[name][0] == one else ""
            for name, one in zip(names, facts, strict=True)
        ]
        new = [place for place, key in enumerate(keys) if not key]
        found = in_threads(key_of, [paths[place] for place in new])
        for place, key in zip(new, found, strict=True):
            keys[place] = key
        listed = {} if everything else dict(known)
        for name, one, key in zip(names, facts, keys, strict=True):
            if key and one is not None and one.settled(now):
                listed[name] = one, key
        if listed != known:
            self._save(_LIST_NAME, _ENCODER.encode(_List(_reader().hexdigest(), listed)))
        return keys

    def get(self, key: str) -> ResultFile | None:
        """The decoded file with this key; None if unknown."""
        with contextlib.suppress(*_UNREADABLE):
            # Not mapped: a mapping keeps a file descriptor for as long as its numbers are used.
            return self._decoded(_checked((self._folder / key).read_bytes()))
        return None

    def put(self, content: bytes, file: ResultFile) -> None:
        """Store a decoded file; does nothing if the cache cannot be written."""
        digest = _reader().copy()
        digest.update(content)
        entry = _Entry(
            file.commit,
            file.environment,
            self._described(file.rows),
            [memoryview(b"" if one is None else one.tobytes()) for one in file.numbers],
            memoryview(file.failed.tobytes()),
            [(one.shape[1], memoryview(one.tobytes())) for one in file.samples],
            file.measuring_seconds,
            file.build_seconds,
        )
        self._save(digest.hexdigest(), _ENCODER.encode(entry))

    def keep_only(self, keys: Container[str]) -> None:
        """Remove all other entries and leftovers of killed processes."""
        with contextlib.suppress(OSError):
            for path in self._folder.iterdir():
                if path.name not in keys and path.name != _LIST_NAME:
                    path.unlink()

    def _save(self, name: str, content: bytes) -> None:
        checksum = zlib.crc32(content).to_bytes(_CHECKSUM)
        with contextlib.suppress(OSError):
            replace_file(self._folder / name, checksum + content, durable=False)

    def _listed(self) -> dict[bytes, tuple[FileFacts, str]]:
        with contextlib.suppress(*_UNREADABLE):
            found = _LIST.decode(_checked((self._folder / _LIST_NAME).read_bytes()))
            if found.reader == _reader().hexdigest():
                return found.files
        return {}

    def _described(self, rows: list[ResultRow]) -> bytes:
        """The rows as an entry has them."""
        described, known = self._rows
        if known != rows:
            described = zlib.compress(_ENCODER.encode(rows), 1)
            self._rows = described, rows
        return described

    def _decoded(self, content: memoryview) -> ResultFile:
        entry = _ENTRY.decode(content)
        described, known = self._rows
        if described != entry.rows:
            described, known = entry.rows, _ROWS.decode(zlib.decompress(entry.rows))
            self._rows = described, known
        failed = np.frombuffer(entry.failed, dtype=np.bool_)
        numbers = [np.frombuffer(one, dtype=np.float64) if one else None for one in entry.numbers]
        sizes = {len(one) for one in (failed, *numbers) if one is not None}
        if len(numbers) != len(READ_COLUMNS) or sizes != {sum(row.combinations for row in known)}:
            raise ValueError("numbers do not match combinations")
        samples = [
            np.frombuffer(one, dtype=np.float32).reshape(-1, width) if width else _NO_SAMPLES
            for width, one in entry.samples
        ]
        taken = entry.measuring_seconds, entry.build_seconds
        return ResultFile(entry.commit, entry.environment, known, numbers, failed, samples, *taken)


def _facts(path: Path) -> FileFacts | None:
    with contextlib.suppress(OSError):
        return facts_of(path)
    return None


def _checked(content: bytes) -> memoryview:
    """An entry without its checksum. Raises ValueError if it is damaged."""
    view = memoryview(content)
    if zlib.crc32(view[_CHECKSUM:]) != int.from_bytes(view[:_CHECKSUM]):
        raise ValueError("damaged")
    return view[_CHECKSUM:]


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
