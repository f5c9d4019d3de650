"""Copy the output of a build over a revision's own files."""

import os
import shutil
from pathlib import Path


def copy_delivered(delivered: Path, target: Path) -> None:
    """Copy the files below one directory into another, replacing existing ones. Never writes
    through a link that comes with the revision: the link is replaced."""
    for folder, _, files in os.walk(delivered):
        for name in files:
            source = Path(folder) / name
            place = target / source.relative_to(delivered)
            for parent in reversed(place.relative_to(target).parents):
                if parent.name and (target / parent).is_symlink():
                    (target / parent).unlink()
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            shutil.copy2(source, place)
