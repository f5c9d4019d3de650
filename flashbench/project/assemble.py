"""Sites: the import root of a revision put together from its files and its build, and checked."""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from flashbench.build import Build, Status, diagnosis, pruning, toolchain, unit
from flashbench.build.builder import locked
from flashbench.build.content import content_hash, library_hash
from flashbench.build.recipe import read_log
from flashbench.files import remove_tree, replace_file
from flashbench.project.check import Checker
from flashbench.project.contents import is_document
from flashbench.project.settings import Project


class SiteRecord(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """What is known of a site. status: whether its callable imports, None before that was tried;
    result: whether it computes the right thing; named: the same for cases that were named, by their
    names; environment: the packages it was tried with."""

    status: Status = "built"
    reason: str = ""
    library_hash: str = ""
    source_hash: str = ""  # of the build's sources and the revision's own files
    loaded: bool = False  # whether `status` was tried
    result: Status | None = None  # "built": right
    result_reason: str = ""
    named: dict[str, tuple[Status, str]] = {}
    environment: str = ""
    limit: float = 0.0  # of a time-out: the seconds that it was allowed
    # Not kept in the record: nothing was tried for this call; it says something of the sources.
    reused: bool = False
    kept: bool = True


def put_together(project: Project, checkout: Path, scratch: Path, made: Build, cache: Path) -> str:
    """Make the site of a checkout in the cache, unless it is there; its key.

    scratch: a directory on the cache's file system that is removed later. Raises OSError.
    """
    assembled = scratch / "site"
    _copy_files(project, checkout, assembled)
    own = content_hash(assembled)
    _copy_delivered(assembled, made)
    described = [project.callable, made.key, content_hash(assembled)]
    key = hashlib.sha256(msgspec.json.encode(described)).hexdigest()[:32]
    directory = cache / f"site-{key}"
    with locked(cache / f"site-{key}.lock"):
        if not is_whole(directory):
            source = hashlib.sha256(f"{made.source_hash} {own}".encode()).hexdigest()
            record = SiteRecord(library_hash=library_hash(assembled), source_hash=source)
            remove_tree(directory)
            kept = scratch / "kept"
            kept.mkdir()
            assembled.rename(kept / "site")
            (kept / "site.json").write_bytes(msgspec.json.encode(record))
            kept.rename(directory)
    return key


def is_whole(directory: Path) -> bool:
    """Whether a site is in its place, with the library that it was made with."""
    record = _read(directory)
    if record is None:
        return False
    with contextlib.suppress(OSError):
        return record.library_hash == library_hash(directory / "site")
    return False


def checked(
    directory: Path,
    spec: str,
    checker: Checker,
    *,
    correct: bool,
    retry_failed: bool,
    cases: Sequence[str] = (),
) -> SiteRecord:
    """The record of a site whose callable was loaded and, if `correct`, called; with the `result`
    of these cases, where cases are named.

    What is known is not tried again; a failure is, with other packages in this Python or with
    `retry_failed`. Raises OSError when the cache cannot be written.
    """
    site, lock = directory / "site", directory.with_name(f"{directory.name}.lock")
    here = toolchain.environment_digest()

    names = " ".join(cases)

    def known() -> SiteRecord:
        record = _read(directory)
        if record is None:
            raise FileNotFoundError(f"{directory} was removed while it was in use")
        if not cases:
            return record
        result, reason = record.named.get(names, (None, ""))
        return msgspec.structs.replace(record, result=result, result_reason=reason)

    def again(record: SiteRecord) -> bool:
        """Whether a failure is tried again."""
        cut_short = "timeout" in (record.status, record.result) and checker.timeout > record.limit
        return retry_failed or record.environment != here or cut_short

    def is_enough(record: SiteRecord) -> bool:
        if not record.loaded:
            return False
        if record.status != "built" or (correct and record.result not in (None, "built")):
            return not again(record)
        return not correct or record.result is not None

    pruning.touch(directory)
    record = known()
    if is_enough(record):  # also where the cache cannot be written
        return msgspec.structs.replace(record, reused=True)
    with locked(lock):
        record = known()
        retried = again(record)
        log, reused = directory / "log.txt", True
        if not record.loaded or (record.status != "built" and retried):
            status, reason = checker.loads(site, spec, log)
            reused = False
            record = msgspec.structs.replace(
                record,
                status=status,
                reason=reason,
                loaded=True,
                result=None,
                result_reason="",
                named={},
            )
        unsure = record.result is None or (record.result != "built" and retried)
        if correct and record.status == "built" and unsure:
            result, reason = checker.computes(site, spec, log, cases)
            reused = False
            record = msgspec.structs.replace(record, result=result, result_reason=reason)
        told = f"{record.reason}\n{record.result_reason}"
        if not reused and diagnosis.passing(told):
            return msgspec.structs.replace(record, kept=False)
        if not reused:
            limit = checker.timeout if "timeout" in (record.status, record.result) else 0.0
            record = msgspec.structs.replace(record, environment=here, limit=limit)
            replace_file(
                directory / "site.json", msgspec.json.encode(_kept(directory, record, names))
            )
    return msgspec.structs.replace(record, reused=reused)


def _kept(directory: Path, record: SiteRecord, names: str) -> SiteRecord:
    """What is written of a record whose result is that of the named cases; none: as it is."""
    before = _read(directory)
    if not names or before is None:
        return record
    named = dict(record.named)
    if record.result is not None:
        named[names] = (record.result, record.result_reason)
    result, reason = (before.result, before.result_reason) if before.loaded else (None, "")
    return msgspec.structs.replace(record, result=result, result_reason=reason, named=named)


def located(directory: Path, record: SiteRecord, checkout: Path, made: Build) -> SiteRecord:
    """The record with the unit that should have held the undefined symbol. Raises OSError."""
    held = unit.should_have_held(record.reason, checkout, read_log(Path(made.directory)))
    if not held:
        return record
    found = msgspec.structs.replace(record, reason=f"{record.reason}\n{held}", reused=False)
    replace_file(directory / "site.json", msgspec.json.encode(found))
    return found


def _read(directory: Path) -> SiteRecord | None:
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode((directory / "site.json").read_bytes(), type=SiteRecord)
    return None


def _copy_files(project: Project, checkout: Path, target: Path) -> None:
    """What can be imported from the import root.

    Directories that are no package (sources, documentation) are left out, unless the callable's
    module lies there; so are documents. `contents.py` knows the same rule for the names in git.
    """
    package = project.callable.partition(":")[0].partition(".")[0]
    target.mkdir()
    everything = checkout.resolve()
    root = _real(everything / project.directory / project.path)
    if not root.is_dir() or not root.is_relative_to(everything):
        return
    for entry in sorted(root.iterdir()):
        inside = _real(entry).is_relative_to(everything)
        if entry.is_dir() and inside:
            if entry.name == package or (entry / "__init__.py").is_file():
                shutil.copytree(entry, target / entry.name, symlinks=True)
                _replace_links(_real(entry), target / entry.name, everything)
        elif not is_document(entry.name):
            shutil.copy2(entry, target / entry.name, follow_symlinks=inside and entry.is_file())


def _replace_links(root: Path, target: Path, everything: Path) -> None:
    """Links to files of the checkout become those files: what they lead to may not come along.
    Others stay as they are."""
    for folder, _, files in os.walk(target):
        for name in files:
            link = Path(folder) / name
            if not link.is_symlink():
                continue
            file = _real(root / link.relative_to(target))
            if file.is_file() and file.is_relative_to(everything):
                link.unlink()
                shutil.copy2(file, link)


def _real(path: Path) -> Path:
    """Without links; of a loop of links, some path that is not there."""
    return Path(os.path.realpath(path))


def _copy_delivered(target: Path, made: Build) -> None:
    delivered = Path(made.directory) / "lib"
    for folder, _, files in os.walk(delivered):
        for name in files:
            source = Path(folder) / name
            place = target / source.relative_to(delivered)
            for parent in reversed(place.relative_to(target).parents):
                if (target / parent).is_symlink():  # nothing is written through one
                    (target / parent).unlink()
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            shutil.copy2(source, place)
