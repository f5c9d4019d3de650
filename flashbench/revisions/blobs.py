"""Read the contents of a repository's files through one git process, whole or not at all."""

import subprocess
from pathlib import Path
from typing import IO

from flashbench.revisions import git

_CHUNK = 1 << 20  # a huge file is never in memory as a whole


class Blobs:
    """Reads blobs. Use as a context manager. Everything raises GitError if git does not deliver a
    whole blob: the object is missing or damaged, or git was killed."""

    def __init__(self, repository: Path) -> None:
        self._repository = repository

    def __enter__(self) -> "Blobs":
        self._process = git.start(
            self._repository, "cat-file", "--batch", stderr=subprocess.DEVNULL
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._process.kill()
        self._process.communicate()  # git ends when its input does
        if kind is None and self._process.returncode:
            raise git.GitError(f"git cat-file ended with {self._process.returncode}")

    def whole(self, thing: str) -> bytes:
        answer, size = self._ask(thing)
        content = answer.read(size)
        self._require_end(thing, answer, size - len(content))
        return content

    def into(self, thing: str, place: Path) -> None:
        """Write a blob into a new file."""
        answer, left = self._ask(thing)
        with place.open("wb") as file:
            while left and (part := answer.read(min(left, _CHUNK))):
                file.write(part)
                left -= len(part)
        self._require_end(thing, answer, left)

    def _ask(self, thing: str) -> tuple[IO[bytes], int]:
        ask, answer = self._process.stdin, self._process.stdout
        assert ask is not None
        assert answer is not None
        try:
            ask.write(thing.encode() + b"\n")
            ask.flush()
        except BrokenPipeError:
            raise git.GitError(f"git cat-file ended before object {thing}") from None
        head = answer.readline().split()
        if len(head) != 3 or head[1] != b"blob":
            raise git.GitError(f"object {thing} is missing; {git.how_to_fetch(self._repository)}")
        return answer, int(head[2])

    def _require_end(self, thing: str, answer: IO[bytes], left: int) -> None:
        if left or answer.read(1) != b"\n":
            raise git.GitError(
                f"object {thing} was cut short; `git fsck` shows whether it is damaged"
            )
