"""What was read of result files is kept by their content, and is never wrong."""

import os
import random
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from history.project import make_repository, measure

from flashbench import file_facts
from flashbench.builds import pruning
from flashbench.history import folder, read_cache
from flashbench.history.asv_result import Reader
from flashbench.history.axis import axis
from flashbench.history.model import History
from flashbench.history.read import read
from flashbench.history.read_cache import ReadCache


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twelve measured commits, which counts as many here; one file is not strict JSON."""
    monkeypatch.setattr(folder, "_MANY", 5)
    root = tmp_path / "project"
    commits = make_repository(root, [f"Change {number}" for number in range(12)])
    measure(root / "results", commits, lambda index, case: 1.0)
    path = _files(root)[3]
    path.write_text(path.read_text().replace('"result_columns"', '"odd": NaN, "result_columns"'))
    return root


def _files(root: Path) -> list[Path]:
    return sorted((root / "results/box").glob("*-*.json"))


def _entries(root: Path) -> list[Path]:
    return sorted((root / "cache/results").glob("*/[0-9a-f]*"))


def _load(root: Path, *, cached: bool) -> History:
    return read(root / "results", axis(root), cache=root / "cache" if cached else None)


def _same(root: Path) -> bool:
    """Whether the history is the same with the cache and without."""
    known, fresh = _load(root, cached=True), _load(root, cached=False)
    assert fresh.series
    return repr(known) == repr(fresh)


def _decodings(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Record the files decoded from now on."""
    seen: list[Path] = []
    decode = Reader.decode

    def watched(self: Reader, content: bytes, path: Path):
        seen.append(path)
        return decode(self, content, path)

    monkeypatch.setattr(Reader, "decode", watched)
    return seen


def test_a_file_is_decoded_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time nothing is decoded, then only the file that is new, whatever its name."""
    assert _same(root)
    assert len(_entries(root)) == 12
    seen = _decodings(monkeypatch)
    first = _load(root, cached=True)
    assert not seen
    old = _files(root)[0]
    new = old.with_name(f"{old.stem}-again.json")
    new.write_bytes(old.read_bytes().replace(b"flashbench-py3.11", b"flashbench-py3.12"))
    assert len(_load(root, cached=True).series) > len(first.series)
    assert seen == [new]
    old.rename(old.with_name(f"{old.stem}-renamed.json"))
    assert _same(root)
    assert seen.count(new) == 2  # the second time without the cache


def test_other_content_of_the_same_size_and_time_is_seen(root: Path) -> None:
    """Only a file's content matters, not its size or times; entries of removed files are
    removed."""
    before = _load(root, cached=True)
    path = _files(root)[6]
    known, text = path.stat(), path.read_text()
    place = text.index(": [[") + len(": [[0.000")
    path.write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])
    os.utime(path, ns=(known.st_atime_ns, known.st_mtime_ns))
    assert path.stat().st_size == known.st_size
    assert repr(_load(root, cached=True)) != repr(before)
    assert _same(root)
    assert len(_entries(root)) == 12
    path.unlink()
    assert _same(root)
    assert len(_entries(root)) == 11


def test_a_file_that_did_not_change_is_not_hashed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are known by size and times, if these are old enough to show the next change, unless
    the list of them is damaged or of other code."""
    hashed: list[Path] = []
    key_of = read_cache.key_of
    monkeypatch.setattr(read_cache, "key_of", lambda path: hashed.append(path) or key_of(path))

    def reads() -> list[Path]:
        hashed.clear()
        assert _same(root)
        return sorted(hashed)

    every = _files(root)
    monkeypatch.setattr(file_facts, "SETTLED", 1000.0)
    assert reads() == reads() == every
    monkeypatch.setattr(file_facts, "SETTLED", 0.0)
    assert reads() == every
    assert reads() == []
    every[4].write_text(every[4].read_text().replace("0.0", "0.1"))
    os.utime(every[5])
    every[6].unlink()
    assert reads() == every[4:6]
    assert reads() == []
    (known,) = (root / "cache/results").glob("*/list")
    whole = known.read_bytes()
    for damaged in (b"", whole[:-9], _checked(b"\x93"), _checked(msgspec.msgpack.encode(["", {}]))):
        known.write_bytes(damaged)
        assert reads() == _files(root)
        assert known.read_bytes() == whole
    read(root / "results", axis(root), machine="box", cache=root / "cache")
    assert reads() == []


def test_reading_one_machine_forgets_no_other(root: Path) -> None:
    """Entries of machines that were not requested stay."""
    box = root / "results/box"
    (root / "results/other").mkdir()
    for path in _files(root):
        text = path.read_text().replace("flashbench-py3.11", "flashbench-py3.12")
        (root / "results/other" / path.name).write_text(text)
    _load(root, cached=True)
    assert len(_entries(root)) == 24
    read(root / "results", axis(root), machine="other", cache=root / "cache")
    assert len(_entries(root)) == 24
    shutil.rmtree(box)
    _load(root, cached=True)
    assert len(_entries(root)) == 12


def _cut(content: bytes) -> bytes:
    return content[:-9]


def _flip(content: bytes) -> bytes:
    place = random.Random(len(content)).randrange(len(content))
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


def _empty(content: bytes) -> bytes:
    return b""


def _other(content: bytes) -> bytes:
    """With a good checksum, and more numbers than the parameters have."""
    entry = msgspec.msgpack.decode(content[4:])
    entry[3] = [one and one + np.zeros(1).tobytes() for one in entry[3]]
    entry[4] += b"\0"
    return _checked(msgspec.msgpack.encode(entry))


def _bare(content: bytes) -> bytes:
    return _checked(msgspec.msgpack.encode([1, 2]))


def _odd(content: bytes) -> bytes:
    """A column with a number too few."""
    entry = msgspec.msgpack.decode(content[4:])
    entry[3][0] = entry[3][0][:-8]
    return _checked(msgspec.msgpack.encode(entry))


def _checked(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(4) + content


def _fewer(content: bytes) -> bytes:
    """A column too few."""
    entry = msgspec.msgpack.decode(content[4:])
    return _checked(msgspec.msgpack.encode([*entry[:3], entry[3][1:], *entry[4:]]))


def _rows(content: bytes) -> bytes:
    """Rows that cannot be unpacked."""
    entry = msgspec.msgpack.decode(content[4:])
    entry[2] = entry[2][:-9]
    return _checked(msgspec.msgpack.encode(entry))


@pytest.mark.parametrize("damage", [_cut, _flip, _empty, _other, _bare, _odd, _fewer, _rows])
def test_a_damaged_entry_counts_as_none(
    root: Path, damage: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is read again, and the entry is good after that."""
    _load(root, cached=True)
    for path in _entries(root)[::3]:
        path.write_bytes(damage(path.read_bytes()))
    seen = _decodings(monkeypatch)
    monkeypatch.setattr(folder, "spread", lambda work, count, least: [*map(work, range(count))])
    known = _load(root, cached=True)
    assert len(seen) == 4
    _load(root, cached=True)
    assert len(seen) == 4
    assert repr(known) == repr(_load(root, cached=False))


def test_a_cache_that_cannot_be_written_is_done_without(root: Path) -> None:
    """Where its folder cannot be made, and where a folder lies in the place of an entry."""
    (root / "cache").write_text("a file")
    assert _same(root)
    (root / "cache").unlink()
    _load(root, cached=True)
    entry = _entries(root)[0]
    entry.unlink()
    entry.mkdir()
    assert _same(root)


def test_damaged_files_are_told_each_time(root: Path) -> None:
    """A file that cannot be read is no entry, and has its note whenever the history is read."""
    path = _files(root)[2]
    path.write_text(path.read_text()[:-9])
    for _ in range(2):
        (note,) = _load(root, cached=True).notes
        assert note.startswith(f"{path}: damaged asv result file")
    assert len(_entries(root)) == 11


def test_what_a_killed_reader_left_goes(root: Path) -> None:
    """Half-written entries and those of files that are gone are removed, nothing else."""
    _load(root, cached=True)
    entry = _entries(root)[0]
    half = entry.with_name(f".{entry.name}.abc123")
    half.write_bytes(b"half")
    another = ReadCache(root / "cache", root / "another")
    another.put(b"content", Reader().read(_files(root)[0]))
    _load(root, cached=True)
    assert not half.exists()
    assert len(_entries(root)) == 13


def test_builds_can_be_pruned_with_it(root: Path) -> None:
    """`flashbench builds` counts it, and prunes it if it was unused for long."""
    _load(root, cached=True)
    (entry,) = pruning.entries(root / "cache")
    assert entry.size > sum(path.stat().st_size for path in _entries(root)) / 2
    os.utime(entry.path, (1e9, 1e9))
    _load(root, cached=True)
    assert pruning.prune(root / "cache", 3600, 1e12) == []
    os.utime(entry.path, (1e9, 1e9))
    assert len(pruning.prune(root / "cache", 3600, 1e12)) == 1
    assert _same(root)


def test_files_in_use_hold_none_open(root: Path) -> None:
    """A long history has more files than a process may have open (often 1024)."""
    _load(root, cached=True)
    cache = ReadCache(root / "cache", root / "results")
    before = sorted(Path("/proc/self/fd").iterdir())
    used = [cache.get(path.name) for path in _entries(root)]
    assert len(used) == 12
    assert None not in used
    assert sorted(Path("/proc/self/fd").iterdir()) == before
