"""The import root of a revision: assembled from its files and its build, and checked."""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from flashbench import locks
from flashbench.builds import Build, BuildStatus, diagnosis, missing_symbol, pruning, toolchain
from flashbench.builds.content import content_hash, library_hash, modules_hash
from flashbench.builds.delivered import copy_delivered
from flashbench.builds.recipe import read_log
from flashbench.errors import NotMeasuredError
from flashbench.files import remove_tree, replace_file
from flashbench.revisions import jit
from flashbench.revisions.check import Checker
from flashbench.revisions.computed import ATTENTION_BY_DEFAULT, WhatIsComputed
from flashbench.revisions.fingerprint import is_document
from flashbench.revisions.project import Project


class CheckResult(msgspec.Struct, frozen=True, array_like=True):
    """Whether an import root computes correctly ("built": it does), and where that was tried, as in
    ImportRecord. checked: the cases on which it is correct; "" in a record of an older flashbench,
    which did not distinguish that from refusing all. gpus: those available for the check."""

    status: BuildStatus
    reason: str
    environment: str
    limit: float
    checked: str = ""
    gpus: str = ""


class ImportRecord(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """What is known about an import root. status: whether its callable imports, None if not tried
    yet; environment: the packages it was tried with; results: by named cases, "" for the small
    ones."""

    status: BuildStatus = "built"
    reason: str = ""
    library_hash: str = ""
    modules_hash: str = ""  # of its Python sources; "": put together by an older flashbench
    source_hash: str = ""  # of the build's sources and the revision's own files
    loaded: bool = False  # whether `status` was tried
    environment: str = ""
    limit: float = 0.0  # of a time-out: the seconds that it was allowed
    compilers: tuple[str, ...] = ()  # modules that it imported to compile, perhaps when called
    warm: tuple[str, ...] = ()  # cases and threads for which it was called, to compile
    results: dict[str, CheckResult] = {}
    # Not stored: nothing was tried for this call; whether it is an answer about the sources.
    reused: bool = False
    kept: bool = True


_RECORD = msgspec.json.Decoder(ImportRecord)


def put_together(project: Project, checkout: Path, scratch: Path, made: Build, cache: Path) -> str:
    """Create the import root of a checkout in the cache, unless it exists; returns its key.

    scratch: a directory on the cache's file system that is removed later. Raises OSError, and
    NotMeasuredError if the library in the cache is not the one that was built.
    """
    if library_hash(Path(made.directory) / made.library) != made.library_hash:
        raise NotMeasuredError(
            f"the library in {made.directory} is not the one that was built; remove it and build "
            "again"
        )
    assembled = scratch / "site"
    _copy_files(project, checkout, assembled)
    own = content_hash(assembled)
    copy_delivered(Path(made.directory) / "lib", assembled)
    described = [project.callable, made.key, content_hash(assembled)]
    key = hashlib.sha256(msgspec.json.encode(described)).hexdigest()[:32]
    directory = cache / f"site-{key}"
    with locks.exclusive(cache / f"site-{key}.lock"):
        if not is_whole(directory):
            source = hashlib.sha256(f"{made.source_hash} {own}".encode()).hexdigest()
            record = ImportRecord(
                library_hash=library_hash(assembled),
                modules_hash=modules_hash(assembled),
                source_hash=source,
            )
            remove_tree(directory)
            kept = scratch / "kept"
            kept.mkdir()
            assembled.rename(kept / "site")
            (kept / "site.json").write_bytes(msgspec.json.encode(record))
            kept.rename(directory)
    return key


def is_whole(directory: Path) -> bool:
    """Whether an import root is in place, with the library and the Python sources it was created
    with: a callable that rewrites a source of its own writes into the cache, to which launches link
    theirs."""
    record = read(directory)
    if record is None:
        return False
    with contextlib.suppress(OSError):
        if record.modules_hash not in ("", modules_hash(directory / "site")):
            return False
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
    tree: str = "",
    operation: WhatIsComputed = ATTENTION_BY_DEFAULT,
) -> ImportRecord:
    """The record of an import root whose callable was loaded and, if `correct`, called on these
    cases. tree: the working tree, which must not be imported from.

    Known results are reused; a failure is retried with other packages in this Python or with
    `retry_failed`. Raises OSError if the cache cannot be written.
    """
    import_root, lock = directory / "site", directory.with_name(f"{directory.name}.lock")
    here = toolchain.environment_digest()
    names, gpus = named(cases, operation), _gpus()

    def known() -> ImportRecord:
        record = read(directory)
        if record is None:
            raise FileNotFoundError(f"{directory} was removed while it was in use")
        return record

    def again(failed: ImportRecord | CheckResult) -> bool:
        """Whether a failure is to be retried."""
        cut_short = failed.status == "timeout" and checker.timeout > failed.limit
        return retry_failed or failed.environment != here or cut_short

    def is_to_load(record: ImportRecord) -> bool:
        return not record.loaded or (record.status != "built" and again(record))

    def is_to_compute(record: ImportRecord) -> bool:
        if not correct or record.status != "built":
            return False
        found = record.results.get(names)
        if found is None or (found.status == "built" and not found.checked):
            return True
        if found.status in ("built", "unchecked") and gpus and found.gpus != gpus:
            return True
        return found.status != "built" and again(found)

    def limit_of(status: BuildStatus) -> float:
        return checker.timeout if status == "timeout" else 0.0

    pruning.touch(directory)
    with contextlib.suppress(OSError):
        jit.release(import_root)
    record = known()
    if not is_to_load(record) and not is_to_compute(record):  # also where nothing can be written
        return msgspec.structs.replace(record, reused=True)
    with locks.exclusive(lock):
        record = known()
        log, why = directory / "log.txt", []
        if is_to_load(record):
            status, reason, compilers = checker.loads(import_root, spec, log, tree)
            why.append(reason)
            record = msgspec.structs.replace(
                record,
                status=status,
                reason=reason,
                loaded=True,
                environment=here,
                limit=limit_of(status),
                compilers=compilers,
                warm=(),
                results={},
            )
        if is_to_compute(record):
            status, reason, right_on = checker.computes(import_root, spec, log, cases, operation)
            why.append(reason)
            result = CheckResult(status, reason, here, limit_of(status), right_on, gpus)
            record = msgspec.structs.replace(record, results=record.results | {names: result})
        if why and diagnosis.passing("\n".join(why)):
            return msgspec.structs.replace(record, kept=False)
        if why:
            replace_file(directory / "site.json", msgspec.json.encode(record))
    return msgspec.structs.replace(record, reused=not why)


def named(cases: Sequence[str], operation: WhatIsComputed = ATTENTION_BY_DEFAULT) -> str:
    """The name of their result in a record."""
    return " ".join([*operation.key, *cases])


def located(directory: Path, record: ImportRecord, checkout: Path, made: Build) -> ImportRecord:
    """The record with the unit that should define the undefined symbol. Raises OSError."""
    held = missing_symbol.should_have_held(record.reason, checkout, read_log(Path(made.directory)))
    if not held:
        return record
    found = msgspec.structs.replace(record, reason=f"{record.reason}\n{held}", reused=False)
    replace_file(directory / "site.json", msgspec.json.encode(found))
    return found


def read(directory: Path) -> ImportRecord | None:
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return _RECORD.decode((directory / "site.json").read_bytes())
    return None


def note_warm(directory: Path, named: Sequence[str]) -> None:
    """Record that the callable was called for these, to compile. Raises OSError."""
    with locks.exclusive(directory.with_name(f"{directory.name}.lock")):
        if record := read(directory):
            warm = tuple(dict.fromkeys([*record.warm, *named]))
            found = msgspec.structs.replace(record, warm=warm)
            replace_file(directory / "site.json", msgspec.json.encode(found))


def _gpus() -> str:
    """The GPUs that a process here can see, without asking a driver; "" for none."""
    found = sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*"))
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None and chosen.strip() in ("", "-1", "NoDevFiles"):
        return ""
    return " ".join([*found, f"of which {chosen}"]) if found and chosen else " ".join(found)


def _copy_files(project: Project, checkout: Path, target: Path) -> None:
    """Copy what can be imported into the import root.

    Directories that are not packages (sources, documentation) are left out, unless the callable's
    module is in them, or they are sources of a project without a build, which compiles them when it
    is imported; so are documents. `fingerprint.py` knows the same rule for the names in git.
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
    for source in project.sources if project.build == () else ():  # compiled when it is imported
        place = _real(everything / project.directory / source)
        if place.is_relative_to(root) and place.exists():
            copy = target / place.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if place.is_dir():
                shutil.copytree(place, copy, symlinks=True, dirs_exist_ok=True)
                _replace_links(place, copy, everything)
            else:
                shutil.copy2(place, copy)


def _replace_links(root: Path, target: Path, everything: Path) -> None:
    """Replace links into the checkout by their targets, which might not be copied otherwise. Keep
    other links, and links to a folder that contains them."""
    for folder, folders, files in os.walk(target):
        for name in [*folders, *files]:
            link = Path(folder) / name
            if not link.is_symlink():
                continue
            place = root / link.relative_to(target)
            real = _real(place)
            if not real.is_relative_to(everything):
                continue
            if real.is_file():
                link.unlink()
                shutil.copy2(real, link)
            elif real.is_dir() and not any(_real(above) == real for above in place.parents):
                link.unlink()
                shutil.copytree(real, link, symlinks=True)


def _real(path: Path) -> Path:
    """The path without links; for a loop of links, a path that does not exist."""
    return Path(os.path.realpath(path))
