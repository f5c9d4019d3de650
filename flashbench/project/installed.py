"""A package that is installed here, as a site: what `aa` loads twice."""

import shutil
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from flashbench.build.content import library_hash
from flashbench.errors import NotMeasuredError
from flashbench.runfile import BuildIdentity


def copy_installed(spec: str, directory: Path) -> tuple[Path, BuildIdentity]:
    """A site in `directory` with the package or module of `module:function`, copied, not imported.

    Raises NotMeasuredError when there is none in the working directory or on Python's path.
    """
    name = spec.partition(":")[0].partition(".")[0]
    found = PathFinder.find_spec(name, [str(Path.cwd()), *sys.path])
    if found is None or found.origin is None:
        raise NotMeasuredError(f"{name} cannot be imported: no such package here")
    site = directory / "site"
    site.mkdir()
    origin = Path(found.origin)
    try:
        if found.submodule_search_locations:
            shutil.copytree(
                origin.parent, site / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy2(origin, site)
    except (OSError, shutil.Error) as error:
        raise NotMeasuredError(f"{origin}: cannot be copied: {error}") from None
    return site, BuildIdentity(library_hash=library_hash(site))
