"""Every header that a source includes is there, and git has it."""

import os
import re
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from flashbench.preflight.finding import CannotCheck, Finding
from flashbench.preflight.source.cxx import Include
from flashbench.preflight.source.tree import SourceTree
from flashbench.revisions import git

# Headers of others that are included in quotes, too: by the name, or the folder, they begin with.
_OTHERS = re.compile(
    r"(cuda|cu(blas|dnn|fft|rand|solver|sparse|file|pti|tensor)|nccl|nv|mma|sm_\d|device_|vector_|"
    r"driver_types|host_|library_types|math_constants|cooperative_groups|thrust|cub|cutlass|cute|"
    r"hip|roc|torch|ATen|c10|caffe2|pybind11|nanobind|Python|structmember|numpy|tvm|dlpack|xla|"
    r"tensorflow|jax|mkl|cblas|lapack|omp|mpi|gtest|gmock|benchmark|catch|doctest|fmt|Eigen|"
    r"immintrin|arm_|sycl|level_zero|CL|vulkan|windows|unistd|sys|std|math|string|assert|errno|"
    r"signal|time|limits|float|ctype|inttypes|pthread|dlfcn|fcntl)([./_\w-]|$)",
)
_GENERATES = re.compile(
    r"configure_file|OUTPUT|file\s*\(\s*(WRITE|GENERATE|APPEND|CONFIGURE)|[gG]enerate|\bopen\(|"
    r"write_text|\.write\(|>>?\s|-o\s|custom_target"
)


def missing_header(tree: SourceTree) -> Iterator[Finding]:
    """An include that nothing answers: no file of the tree, no installed package, no generator.

    In angle brackets, or with a folder that the tree does not have, it is another project's.
    """
    unanswered = [
        (name, include)
        for name in (*tree.units, *tree.headers)
        for include in tree.read(name).includes
        if _is_ours(tree, include) and not _answered(tree, name, include.name)
    ]
    if unanswered and not all(tree.modules.values()):
        raise CannotCheck(f"{len(unanswered)} includes may be in submodules that are not fetched")
    for name, include in unanswered:
        kin = _other_case(tree, include.name)
        yield Finding(
            f"{name}:{include.line}",
            f'#include "{include.name}": no such file here or in git'
            + (f"; {kin} differs in case alone" if kin else ""),
            f"write {kin}" if kin else _find_lost(include.name),
            "warning" if include.conditional else "error",
        )


def _find_lost(name: str) -> str:
    """The command that shows the commits which had a file."""
    return f"git log --all --oneline -- '*{PurePosixPath(name).name}'"


def header_not_in_git(tree: SourceTree) -> Iterator[Finding]:
    """An include that is answered by a file which no clean clone of HEAD has."""
    if tree.tracked is None:
        raise CannotCheck(f"git cannot say what it has: {tree.without_git}")
    reported = set()
    for name in (*tree.units, *tree.headers):
        for include in tree.read(name).includes:
            found = tree.resolve(name, include.name) or _ignored(tree, name, include)
            if found is None or found in reported or name not in tree.tracked:
                continue
            if (lacks := _lacks(tree, name, found)) is not None:
                reported.add(found)
                what, fix = lacks
                yield Finding(f"{name}:{include.line}", f"{found} {what}", fix)


def _lacks(tree: SourceTree, includer: str, found: str) -> tuple[str, str] | None:
    """What keeps a header from a clean clone, and the fix; None if it reaches it."""
    assert tree.tracked is not None and tree.committed is not None  # noqa: PT018
    if found not in tree.tracked:
        return "is on this machine alone: git does not track it", f"git add -f {found}"
    path = tree.root / found
    if path.is_symlink() and not path.resolve().is_relative_to(tree.root.resolve()):
        return "is a link out of the repository", f"git rm --cached {found}  # and add the file"
    if tree.read(found).text.startswith("version https://git-lfs"):
        return "is a Git LFS pointer, not the file", f"git lfs pull --include {found}"
    staged = bool(tree.committed) and found not in tree.committed and includer in tree.committed
    # A new include is work in progress; what HEAD's own text includes breaks HEAD.
    name = re.escape(PurePosixPath(found).name)
    if staged and re.search(rf"#\s*include\s*[\"<].*{name}", _at_head(tree, includer)):
        return "is staged, not committed, and HEAD includes it", "git commit"
    return None


def _at_head(tree: SourceTree, name: str) -> str:
    try:
        return git.ask(tree.root, "cat-file", "blob", f"HEAD:./{name}").decode(errors="replace")
    except git.GitError:
        return ""  # a partial clone need not have it


def _is_ours(tree: SourceTree, include: Include) -> bool:
    """Whether this project should have the header: in a folder that it has, or quoted without."""
    if "." not in include.name:
        return False  # <algorithm>, in quotes
    first, slash, _ = include.name.partition("/")
    if slash and first not in (".", ".."):
        return first in tree.directories and not _OTHERS.match(include.name)
    return include.quoted and not _OTHERS.match(include.name)


def _answered(tree: SourceTree, includer: str, name: str) -> bool:
    if tree.resolve(includer, name) is not None or tree.in_submodules(name):
        return True
    if (tree.root / PurePosixPath(includer).parent / name).exists():  # ignored by git
        return True
    if any((place / name).exists() for place in _installed()):
        return True
    return bool(_found_ignored(tree, name)) or _generated(tree, PurePosixPath(name).name)


def _ignored(tree: SourceTree, includer: str, include: Include) -> str | None:
    """The file that answers an include of ours and that git ignores."""
    if not _is_ours(tree, include):
        return None
    beside = os.path.normpath(PurePosixPath(includer).parent / include.name)
    if not beside.startswith("..") and (tree.root / beside).is_file():
        return beside
    if _generated(tree, PurePosixPath(include.name).name):
        return None
    found = _found_ignored(tree, include.name)
    return found[0] if found else None


@cache
def _ignored_files(root: Path) -> tuple[str, ...]:
    """All headers that git ignores, but for those in folders of environments and builds."""
    ignored = git.ask(root, "ls-files", "-z", "--others", "--ignored", "--exclude-standard")
    names = [os.fsdecode(name) for name in ignored.split(b"\0") if name]
    made = re.compile(r"(^|/)(\.?venv[^/]*|build[^/]*|dist|site-packages|node_modules|\.[^/]+)/")
    return tuple(name for name in names if not made.search(name))


def _found_ignored(tree: SourceTree, name: str) -> list[str]:
    if tree.tracked is None:
        return []
    wanted = tuple(part for part in PurePosixPath(name).parts if part not in (".", ".."))
    return [
        known
        for known in _ignored_files(tree.root)
        if PurePosixPath(known).parts[-len(wanted) :] == wanted
    ]


def _generated(tree: SourceTree, name: str) -> bool:
    """Whether a build file makes the header: a template of it, or a line that writes it."""
    stem = PurePosixPath(name).stem
    if any(tree.ending(f"{name}{suffix}") for suffix in (".in", ".cmake", ".tmpl", ".j2")):
        return True
    if tree.ending(f"{stem}.proto") or tree.ending(f"{stem}.td") or tree.ending(f"{stem}.fbs"):
        return True
    for file in tree.build_files:
        text = tree.read(file).text
        for found in re.finditer(re.escape(name), text):
            around = text[max(0, found.start() - 200) : found.end() + 100]
            if _GENERATES.search(around):
                return True
    return False


def _other_case(tree: SourceTree, name: str) -> str:
    last = PurePosixPath(name).name
    for known in tree.headers:
        if PurePosixPath(known).name.lower() == last.lower():
            return known
    return ""


@cache
def _installed() -> tuple[Path, ...]:
    """Where headers of others lie on this machine."""
    places = [Path("/usr/include"), Path("/usr/local/include"), Path("/usr/local/cuda/include")]
    places += [Path(sysconfig.get_paths()["include"])]
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            places.append(Path(os.environ[variable]) / "include")
    for variable in ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"):
        places += [Path(part) for part in os.environ.get(variable, "").split(os.pathsep) if part]
    packages = Path(sysconfig.get_paths()["purelib"])
    for inside in ("torch/include", "torch/include/torch/csrc/api/include", "pybind11/include"):
        places.append(packages / inside)
    places += sorted((packages / "nvidia").glob("*/include")) if packages.is_dir() else []
    return tuple(place for place in places if place.is_dir())
