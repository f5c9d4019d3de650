"""Types that msgspec decodes: prepared when their module is imported, never first in a thread."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import flashbench

PACKAGE = Path(flashbench.__file__).parent
# Values of JSON that is not strict, which has no decoder: read in the main thread alone.
CONVERTING = {"other_tools/untrusted_json.py", "other_tools/asv_file.py"}

# Forks, of which each decodes its first record, as a new process would.
CRASHING = """
import os, sys, threading
from pathlib import Path
from flashbench.builds import builder
from flashbench.revisions import import_root, ledger

cache = Path(sys.argv[1])
sys.setswitchinterval(1e-6)
barrier = threading.Barrier(8)
READERS = {
    "build": lambda: builder.find(cache, "key"),
    "site": lambda: import_root.read(cache / "key"),
    "ledger": lambda: ledger._read(cache / "key" / "tried.json"),
}
read = READERS[sys.argv[2]]
found = []

def first():
    barrier.wait()
    found.append(read())

for _ in range(40):
    child = os.fork()
    if not child:
        threads = [threading.Thread(target=first) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os._exit(0 if len(found) == 8 and None not in found else 1)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_no_type_is_decoded_first_where_it_is_used():
    """Each typed decoder is made at import: `decode(..., type=...)` would make one in a thread."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if called == "msgspec.convert":
                assert name in CONVERTING, f"{name}:{node.lineno}"
            if called in ("msgspec.json.decode", "msgspec.msgpack.decode"):
                assert not any(word.arg == "type" for word in node.keywords), (
                    f"{name}:{node.lineno}: make a Decoder at module level"
                )


@pytest.mark.parametrize("kind", ["build", "site", "ledger"])
def test_the_first_records_may_be_read_by_many_threads(tmp_path, kind):
    """Eight threads read their first record at once, again and again in new processes."""
    folder = tmp_path / "key"
    folder.mkdir()
    (folder / "build.json").write_text(
        '{"key": "key", "status": "build error", "source_hash": "", "toolchain": {"cc": "1"}}'
    )
    (folder / "site.json").write_text('{"results": {"": ["built", "", "", 0.0]}}')
    (folder / "tried.json").write_text(
        '{"commit": "1", "status": "built", "stage": "build", "build": "", "toolchain": "",'
        ' "notes": ["one"]}'
    )
    done = subprocess.run(
        [sys.executable, "-c", CRASHING, str(tmp_path), kind], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
