"""Files that are whole at any moment, and directories that go whatever is in them."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path


def replace_file(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write `path` in one step: a kill at any moment leaves the old or the new file, whole.

    durable: so does a machine that goes down; slow, and not for what can be made again. Makes the
    directory if there is none. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def remove_tree(path: Path) -> None:
    """Remove a directory with whatever a build left there; what cannot be removed stays."""
    if not os.path.lexists(path):
        return
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError):  # directories without permissions, or nested by the thousand
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*command, "--", str(path)], capture_output=True)
