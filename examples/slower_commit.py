"""Makes a git repository with a history of pure_python/: one commit breaks it, one makes it slower.

python examples/slower_commit.py toy && cd toy
flashbench bisect --good v1 --for speed
"""

import os
import subprocess
import sys
from pathlib import Path

START = Path(__file__).parent / "pure_python"
# One small case on one thread, so that the answer takes seconds.
SETTINGS = 'shape = ["1,2,256,64"]\ncausal = "full"\n\n[tool.flashbench.bisect]\nthreads = 1\n'
# Subject, and what is replaced by what in blocks.py.
COMMITS = [
    ("Name the size of a step", "KEYS = 32  # of a block", "KEYS = 32  # of a step"),
    ("Move the size out", "KEYS = 32  # of a step", "from sizes import KEYS"),
    ("Move it back, sizes.py is missing", "from sizes import KEYS", "KEYS = 32  # of a step"),
    ("Take smaller steps", "KEYS = 32", "KEYS = 16"),
    ("Note what is next", "import torch\n", "# Next: steps of rows.\nimport torch\n"),
]


def main(folder: str) -> None:
    root = Path(folder)
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    for name, more in (("blocks.py", ""), ("pyproject.toml", SETTINGS)):
        (root / name).write_text((START / name).read_text() + more)
    commit(root, "Take keys in steps", 0)
    git(root, "tag", "v1")
    file = root / "blocks.py"
    for day, (subject, old, new) in enumerate(COMMITS, 1):
        text = file.read_text()
        assert text.count(old) == 1, f"{subject}: {old!r} is {text.count(old)} times in {file}"
        file.write_text(text.replace(old, new))
        commit(root, subject, day)


def commit(root: Path, subject: str, day: int) -> None:
    """Commit everything, with the same hash wherever this runs."""
    git(root, "add", "--all")
    at = f"{1_767_225_600 + 86_400 * day} +0000"
    git(root, "commit", "-q", "--no-gpg-sign", "-m", subject, date=at)


def git(root: Path, *arguments: str, date: str = "") -> None:
    said = {"NAME": "Toy", "EMAIL": "toy@example.org", "DATE": date}
    made = {
        f"GIT_{who}_{key}": text for who in ("AUTHOR", "COMMITTER") for key, text in said.items()
    }
    subprocess.run(["git", *arguments], cwd=root, check=True, env=os.environ | made)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python examples/slower_commit.py FOLDER")
    main(sys.argv[1])
