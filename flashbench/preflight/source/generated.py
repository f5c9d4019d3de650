"""What the build writes: headers, units and functions absent from the repository."""

import re
from functools import lru_cache
from pathlib import PurePosixPath

from flashbench.preflight.source.cmake import is_cmake
from flashbench.preflight.source.tree import SourceTree, is_test

_HEADER_TEMPLATES = (".in", ".cmake", ".tmpl", ".j2")
_TEMPLATES = (".in", ".j2", ".jinja", ".jinja2", ".tpl", ".tmpl", ".template", ".mako")
_SCRIPTS = (".py", ".sh", ".cmake", ".pl")
# Writes a file, on a line that names it (Python, shell).
_WRITES = re.compile(
    r"write_(text|bytes)\(|\.write\(|open\(.*['\"][wax]b?t?\+?['\"]|"
    r"\w*([gG]enerate|write|render|copy|save|emit)\w*\s*\(|shutil\.\w+\(|\bcp\s|\bmv\s|\s-o\s"
)
_FETCHES = re.compile(
    r"\b(urlopen|urlretrieve|url_?join|requests\.get|\w*(download|artifact)\w*\()"
)
# CMake, Meson and Bazel commands that make files, or look for those of other packages.
_COMMAND = (
    r"(configure_file|file\s*\(\s*(WRITE|GENERATE|APPEND|CONFIGURE|COPY|RENAME|DOWNLOAD)|"
    r"add_custom_(command|target)|custom_target|execute_process|genrule|"
    r"mlir_tablegen|tablegen|find_path|find_file|check_include_files?(_cxx)?|\w*[gG]enerate\w*)"
)


_WORD = re.compile(r"[A-Za-z_]\w*")
_OPEN = re.compile(rf"\b{_COMMAND}\s*[( ]")


def generated(tree: SourceTree, name: str) -> bool:
    """Whether the build makes a header of this name, from a template or by a statement."""
    name = PurePosixPath(name).name
    stem = PurePosixPath(name).stem
    sources = [f"{name}{suffix}" for suffix in _HEADER_TEMPLATES]
    sources += [f"{stem}.{kind}" for kind in ("proto", "td", "fbs")]
    if any(tree.ending(source) for source in sources):
        return True
    texts = _naming(tree, PurePosixPath(name).suffix)
    if any(_written(text, name) for text in texts if name in text):
        return True
    # Functions of CMake's packages; CMake's own names a header after its target.
    exports = "|generate_export_header" if stem.endswith("_export") else ""
    made = re.compile(rf"(?m)^\s*(?:make|create)_{re.escape(stem)}\s*\({exports}")
    files = (file for file in tree.build_files if is_cmake(file) and not is_test(file))
    return any(made.search(tree.read(file).text) for file in files)


@lru_cache(maxsize=64)
def _naming(tree: SourceTree, suffix: str) -> list[str]:
    """Texts of the build files that name a file with this suffix."""
    named = re.compile(rf"{re.escape(suffix)}\b")
    texts = (tree.read(file).text for file in tree.build_files if not is_test(file))
    return [text for text in texts if named.search(text)]


def _written(text: str, name: str) -> bool:
    whole = rf"(?<![\w-]){re.escape(name)}(?!\w)"
    for match in re.finditer(whole, text):
        # The command that holds the name, if it is still open.
        end = match.start()
        if _OPEN.search(text, max(text.rfind(")", 0, end), end - 2000), end):
            return True
    if re.search(rf"(?m)^[^\s#:]*{whole}\s*:", text):  # the target of a rule
        return True
    for line in text.splitlines():
        place = re.search(whole, line)
        if place is None or re.search(r"^\s*#|include\s*\\?[\"<]", line[: place.start()]):
            continue
        if _WRITES.search(line) or re.search(rf">\s*\S*{whole}", line):
            return True
        held = re.match(r"\s*(\w+)\s*(?::\s*\w+\s*)?[:?]?=(?!=)", line)
        if held and _writes_to(text, held[1]):
            return True
    return False


def may_be_fetched(tree: SourceTree, name: str) -> str:
    """Find the script that names a header in quotes and fetches files when it runs; "" if there is
    none. A setup.py fetches packages, and names headers for other reasons."""
    name = PurePosixPath(name).name
    quoted = re.compile(rf"[\"'](?:[\w./-]*/)?{re.escape(name)}[\"']")
    for file in tree.build_files:
        if not file.endswith(".py") or file.endswith("setup.py") or is_test(file):
            continue
        text = tree.read(file).text
        if name in text and quoted.search(text) and _FETCHES.search(text):
            return file
    return ""


def _writes_to(text: str, variable: str) -> bool:
    """Whether the text writes a file whose path the variable holds."""
    return bool(
        re.search(
            rf"\b{variable}\.(write_|open\(\s*['\"][wax])|open\(\s*{variable}\s*,\s*['\"][wax]|"
            rf"\bwrite\w*\(\s*{variable}\s*,|>\s*\"?\$\{{?{variable}\b|"
            rf"^\$[({{]{variable}[)}}][^=\n]*:(?!=)",
            text,
            re.MULTILINE,
        )
    )


def written_by_a_generator(tree: SourceTree, name: str) -> bool:
    """Whether a template names a function, or a script holds its declaration."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    declared = re.compile(
        rf"\b(?:void|bool|int|float|double|auto|Tensor|\w+_t)\b[\s&*>]+(?:\w+::)*{re.escape(name)}"
        r"\s*[(<]"
    )
    return any(
        name in (text := tree.read(file).text)
        and (word if file.endswith(_TEMPLATES) else declared).search(text)
        for file in tree.files
        if file.endswith((*_TEMPLATES, *_SCRIPTS))
    )


def may_be_generated(tree: SourceTree, unit: str, lister: str) -> bool:
    """Whether a file other than the one that lists a unit names it or its template, as the script
    that writes it does; Python counts only in quotes, not in prose."""
    path = PurePosixPath(unit)
    word = re.compile(rf"(?<![\w.]){re.escape(path.name)}(?![\w.])")
    quoted = re.compile(rf"[\"'](?:[\w./{{}}-]*/)?{re.escape(path.name)}[\"']")
    for file in tree.files:
        if PurePosixPath(file).stem == path.name and file.endswith(_TEMPLATES):
            return True
        if file.endswith(".pyx") and PurePosixPath(file).stem == path.stem:
            return True  # Cython
        script = file != lister and file.endswith((*_SCRIPTS, *_TEMPLATES)) and not is_test(file)
        wanted = quoted if file.endswith(".py") else word
        if script and path.name in (text := tree.read(file).text) and wanted.search(text):
            return True
    return False


def macro_with(tree: SourceTree, name: str) -> str:
    """Name a macro whose body has a name, or whose call outside of functions does; "" if there is
    none."""
    if name in (words := words_of_macros(tree)):
        return f"a macro of {words[name]}"
    call = re.compile(rf"^[ \t]*[A-Z][A-Z0-9_]*\s*\([^;{{}}]*\b{name}\b", re.MULTILINE)
    named = (file for file in tree.naming(name) if call.search(tree.read(file).outer))
    return next((f"a macro in {file}" for file in named), "")


@lru_cache(maxsize=1)
def words_of_macros(tree: SourceTree) -> dict[str, str]:
    """Words in the bodies of all macros, each with one file that has it."""
    words: dict[str, str] = {}
    for file in tree.sources:
        for word in _WORD.findall(tree.read(file).macros):
            words.setdefault(word, file)
    return words
