"""What does preflight report on healthy public projects, and how long does its source level take?

Seconds are CPU time of its one thread, so other work on the machine does not count.

python experiments/preflight_public.py FOLDER...       (clones, submodules not fetched)
"""

import json
import resource
import subprocess
import sys
from pathlib import Path

from flashbench.preflight.source.tree import read_tree


def line(folder: Path) -> tuple[str, int]:
    """One line for a clone, and the number of errors. files: units and headers."""
    command = [sys.executable, "-m", "flashbench", "preflight", "--level", "source"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*command, "--format", "json"], cwd=folder, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    if done.returncode not in (0, 1):
        sys.exit(f"{folder}: preflight ended with {done.returncode}: {done.stderr.decode()}")
    found = json.loads(done.stdout)
    tree = read_tree(folder.absolute())
    asked = ["git", "-C", str(folder), "rev-parse", "--short=10", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    files = len(tree.units) + len(tree.headers)
    row = f"{files:5} {seconds:7.1f} {found['errors']:6} {found['warnings']:8}"
    return f"{folder.absolute().name:16} {commit or 'no git':10} {row}", found["errors"]


def main() -> None:
    """Exit with 1 if any clone has an error."""
    print(f"{'project':16} {'commit':10} files seconds errors warnings")
    errors = 0
    for folder in map(Path, sys.argv[1:]):
        text, count = line(folder)
        print(text, flush=True)
        errors += count
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
