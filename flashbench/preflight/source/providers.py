"""What may bring a header that the tree lacks: a package or a folder that build files name."""

import re
from functools import lru_cache

from flashbench.preflight.source.cmake import cmake_file, is_cmake
from flashbench.preflight.source.lines import line_of
from flashbench.preflight.source.listings import is_build
from flashbench.preflight.source.python_modules import built
from flashbench.preflight.source.tree import SourceTree, is_test

_NAMES_PACKAGES = re.compile(
    r"(^|/)(pyproject\.toml|setup\.cfg|requirements[^/]*\.txt|environment[^/]*\.ya?ml|"
    r"conanfile\.(txt|py)|vcpkg\.json|\.gitmodules|meson\.build|WORKSPACE|MODULE\.bazel)$"
)
_COMMENT = re.compile(r"#[^\n]*")
_MAKES = re.compile(r"project|add_(?:library|executable)|\w+_add_(?:module|library)")
# Packages whose headers are known by name, or that have none for a kernel project.
_KNOWN = (
    r"(?:Torch|CUDA\w*|Python\w*|pybind11|nanobind|OpenMP|Threads|Git|MPI|NVTX|NCCL|HIP|GTest|"
    r"Doxygen|benchmark|TBB|BLAS|LAPACK|MKL)\b"
)
_TAKES = re.compile(
    rf"\bfind_package\s*\(\s*(?!{_KNOWN})\w+|\bpkg_(?:check|search)_modules?\b|\bpkg-config\b|"
    r"\bFetchContent_Declare\b|\bCPMAddPackage\b|\bExternalProject_Add\b|\bdependency\s*\(\s*['\"]"
    rf"(?!(?i:{_KNOWN}))\w+|\b(?:environ\b|getenv|ENV\{{)[^\n]{{0,40}}?(?<!CUDA)(?<!CUDNN)(?<!TORCH)"
    r"_(?:INC|INCLUDE\w*|HOME|ROOT|PREFIX)\b"
)


@lru_cache(maxsize=1)
def own_names(tree: SourceTree) -> frozenset[str]:
    """Names of what this build makes: its projects, CMake targets and modules. Folders of these
    names are the project's own."""
    found = {name.partition(".")[0] for name in built(tree).modules}
    for file in filter(is_cmake, tree.build_files):
        for command in cmake_file(tree, file).commands if not is_test(file) else ():
            if _MAKES.fullmatch(command.name) and "IMPORTED" not in command.texts:
                found.update(command.texts[:1])
    return frozenset(found)


def provider(tree: SourceTree, name: str) -> str:
    """Say what may bring the header `folder/name`: the build file that names the folder, or one
    that takes headers from outside; "" if there is none."""
    folder = name.partition("/")[0]
    spelled = re.escape(folder).replace("_", "[-_]").replace(r"\-", "[-_]")
    word = re.compile(rf"(?<![\w-]){spelled}(?![\w-])", re.IGNORECASE)
    for file, text in _texts(tree):
        if found := word.search(text):
            return f"{file}:{line_of(text, found.start())} names {folder}"
    return outside(tree)


@lru_cache(maxsize=1)
def outside(tree: SourceTree) -> str:
    """The first place of a build file that takes headers from outside of the project."""
    for file, text in _texts(tree):
        if is_build(file) and (found := _TAKES.search(text)):
            return f"{file}:{line_of(text, found.start())} takes headers from elsewhere"
    return ""


@lru_cache(maxsize=1)
def _texts(tree: SourceTree) -> list[tuple[str, str]]:
    return [
        (file, _COMMENT.sub("", tree.read(file).text))
        for file in tree.files
        if (is_build(file) or _NAMES_PACKAGES.search(file)) and not is_test(file)
    ]
