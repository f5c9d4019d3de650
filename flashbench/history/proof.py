"""Proof that a loaded library was built from the sources of the commit it is measured for."""

import hashlib
import importlib.util
from pathlib import Path
from types import ModuleType

from flashbench import source_hash
from flashbench.builds import Build
from flashbench.history.record import Proof


def prove(
    extension: ModuleType | None, site: Path, repository: Path, commit: str, build: Build
) -> Proof:
    """Compare the loaded library with the commit's tree in git and with the build's record.

    It has to lie in `site`, to be the file that was built, and to state the source hash of the
    commit. A library that states none is held to the sources that the build recorded.
    """
    if extension is None or not extension.__file__:
        return Proof(holds=False, reason="the commit's package loads no extension flashbench._C")
    library = Path(extension.__file__)
    stated = extension.build_info() if hasattr(extension, "build_info") else {}
    proof = Proof(
        holds=False,
        library=str(library),
        library_hash=hashlib.sha256(library.read_bytes()).hexdigest(),
        stated_source_hash=str(stated.get("source_hash", "")),
    )
    try:
        proof.expected_source_hash = _definition(site).of_revision(repository, commit)
        recorded = source_hash.of_revision(repository, commit)
    except ValueError as error:
        proof.reason = f"the sources of {commit[:12]} cannot be read from git: {error}"
        return proof
    if not library.resolve().is_relative_to(site.resolve()):
        proof.reason = f"{library} was loaded, which is not the commit's ({site})"
    elif proof.stated_source_hash and proof.stated_source_hash != proof.expected_source_hash:
        proof.reason = (
            f"the loaded library was built from sources {proof.stated_source_hash[:12]}, "
            f"{commit[:12]} has {proof.expected_source_hash[:12]}"
        )
    elif build.source_hash != recorded:
        proof.reason = (
            f"the build was made from sources {build.source_hash[:12]}, "
            f"{commit[:12]} has {recorded[:12]}"
        )
    elif proof.library_hash != build.library_hash:
        proof.reason = f"{library} is not the file that was built for {commit[:12]}"
    else:
        proof.holds = True
    return proof


def _definition(site: Path) -> ModuleType:
    """The commit's own way to hash its sources, which is what its library states; else ours."""
    path = site / "flashbench" / "source_hash.py"
    spec = importlib.util.spec_from_file_location("commit_source_hash", path)
    if not path.is_file() or spec is None or spec.loader is None:
        return source_hash
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
