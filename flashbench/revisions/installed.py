"""An installed package as an import root, for `aa` to load twice."""

import shutil
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

import flashbench
from flashbench.builds.content import library_hash
from flashbench.errors import NotMeasuredError
from flashbench.inputs import reason
from flashbench.runfile import BuildIdentity


def copy_installed(
    spec: str, directory: Path, roots: Sequence[str] = ()
) -> tuple[Path, BuildIdentity]:
    """An import root in `directory` with the package or module of `module:function`, copied, not
    imported.

    roots: searched before the working directory and Python's path. flashbench itself is the
    measuring one, as in a worker, not sources in the working directory. Raises NotMeasuredError if
    it is not found.
    """
    name = spec.partition(":")[0].partition(".")[0]
    if name == flashbench.__name__:
        roots = [str(Path(flashbench.__file__).parents[1])]
    found = PathFinder.find_spec(name, [*roots, str(Path.cwd()), *sys.path])
    if found is None or found.origin is None:
        raise NotMeasuredError(f"{name} cannot be imported: no such package here")
    import_root = directory / "site"
    import_root.mkdir()
    origin = Path(found.origin)
    try:
        if found.submodule_search_locations:
            shutil.copytree(
                origin.parent, import_root / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy2(origin, import_root)
    except (OSError, shutil.Error) as error:
        raise NotMeasuredError(f"{origin}: cannot be copied: {reason(error)}") from None
    return import_root, BuildIdentity(library_hash=library_hash(import_root))
