"""Kernel projects that are not ours, in real git repositories, and their revisions."""

import json
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

from flashbench.revisions import Built

HERE = Path(__file__).parent
IDENTITY = ("-c", "user.name=Toy", "-c", "user.email=toy@example.org")
# Called with a repository, a cache and a revision's name, by default HEAD: the fixture `prepared`.
Prepared = Callable[..., Built]


class Repository:
    """A git repository with a small C++ project of another layout and other names than ours."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        self.git("init", "-q", "-b", "main", "--template=")  # no hooks to copy

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.root), *IDENTITY, *arguments]
        done = subprocess.run(command, capture_output=True, check=True)
        return done.stdout.decode(errors="surrogateescape").strip()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text()
        assert old in text
        self.write(name, text.replace(old, new))

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def state(self) -> dict[str, str]:
        """All that must not be touched: the files, the index, the refs, the stash, the objects."""
        index = (self.root / ".git" / "index").read_bytes().hex()
        everything = sorted(
            f"{path.relative_to(self.root)} {path.lstat().st_mtime_ns}"
            for path in self.root.rglob("*")
        )
        return {
            "files": "\n".join(everything),
            "index": index,
            "head": (self.root / ".git" / "HEAD").read_text(),
            "refs": self.git("for-each-ref"),
            "stash": self.git("stash", "list"),
        }


def fastattn(root: Path, *, by_setuptools: bool = False) -> Repository:
    """The project of tests/revisions/fastattn, with one good commit. by_setuptools: built as by
    most projects, which takes more than twice as long as the compiler alone."""
    repository = Repository(root)
    shutil.copytree(HERE / "fastattn", root, dirs_exist_ok=True)
    (root / "gitignore.txt").rename(root / ".gitignore")
    if not by_setuptools:
        compiled = f"g++ -v -O2 -shared -fPIC -I{sysconfig.get_path('include')} csrc/kernels.cpp"
        command = [*compiled.split(), "-o", "src/fastattn/_kernels.so"]
        old = '["python", "setup.py", "build_ext", "--inplace"]'
        repository.edit("pyproject.toml", old, json.dumps(command))
    repository.commit("A kernel")
    return repository
