"""`[tool.flashbench.project]` is usable: its callable, path, sources and build command exist."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import PurePosixPath

from flashbench.errors import InvalidInputError
from flashbench.preflight.finding import CannotCheck, Finding
from flashbench.preflight.fixes import edit
from flashbench.preflight.source.conflicts import conflict_line
from flashbench.preflight.source.in_git import how_to_get
from flashbench.preflight.source.lines import line_of
from flashbench.preflight.source.makefile import MAKEFILES
from flashbench.preflight.source.python_modules import bound_names, built
from flashbench.preflight.source.references import callable_files, called_modules
from flashbench.preflight.source.removed import removed_files
from flashbench.preflight.source.setup_script import is_optional, why_unreadable
from flashbench.preflight.source.tree import SourceTree
from flashbench.revisions.project import TABLE, Project, parse

_INTERPRETERS = re.compile(r"(?:.*/)?(?:python[\d.]*|bash|sh|perl)")
_PROGRAM = re.compile(r"[A-Za-z0-9][\w.+-]*")
_SCRIPT = re.compile(r"[^-].*\.(?:py|sh|pl)")


def project_settings(tree: SourceTree) -> Iterator[Finding]:
    """Report what the table names and the tree lacks, or the mistake that makes it unreadable."""
    file = tree.root / "pyproject.toml"
    if not os.path.lexists(file):
        raise CannotCheck(f"no pyproject.toml in {tree.root}")
    if conflict_line(tree, "pyproject.toml"):
        raise CannotCheck("pyproject.toml has the marks of a merge conflict")
    if not file.exists():
        what, fix = how_to_get(tree, "pyproject.toml")
        yield Finding("pyproject.toml", f"is {what}", fix)
        return
    try:
        project = parse(file)
    except InvalidInputError as error:
        said = str(error).removeprefix(f"{file}: ")
        yield Finding("pyproject.toml", said, _edit(tree, said))
        return
    if project is None:
        raise CannotCheck(f"no {TABLE}")
    script = _script(project)
    missing = script if not (tree.root / script).exists() else ""
    yield from _sources(tree, project, missing)
    if (tree.root / project.path).is_dir() or _had_callable(tree, project):
        yield from _callable(tree, project)
        yield from _unreadable(tree)
    elif not project.build or not _may_be_made(tree, project.path):
        yield Finding(
            f"pyproject.toml {TABLE} path",
            f"{project.path} does not exist, and no build file names it",
            _edit(tree, "path = the folder below which Python finds the package"),
        )
    yield from _build(tree, project)


def _sources(tree: SourceTree, project: Project, named: str) -> Iterator[Finding]:
    """Check the paths of `sources`. named: a missing one that another finding names."""
    for name in project.sources:
        if name != named and not (tree.root / name).exists():
            what, fix = _missing(tree, name)
            yield Finding(f"pyproject.toml {TABLE} sources", f"{name} does not exist{what}", fix)


def _callable(tree: SourceTree, project: Project) -> Iterator[Finding]:
    """Check the module, Python source or built, and its attribute."""
    dotted, _, attribute = project.callable.partition(":")
    module, where = dotted.replace(".", "/"), f"pyproject.toml {TABLE} callable"
    root = tree.root / project.path
    files = [f"{module}.py", f"{module}/__init__.py"]
    there = next((file for file in files if (root / file).exists()), None)
    if there is not None:
        name = os.path.normpath(os.path.join(project.path, there))  # noqa: PTH118
        first = attribute.partition(".")[0]
        bound = bound_names(tree, name)
        if bound is not None and first not in bound:
            yield Finding(
                where,
                f"{project.callable}: {name} has no {first}",
                _edit(tree, f"callable = a function of {name}, or define {first} there"),
            )
    elif not _is_built(tree, project, dotted):
        known = [os.path.normpath(f"{project.path}/{file}") for file in files]
        gone = next((file for file in known if file in removed_files(tree)), known[0])
        folders = (str(one) for one in reversed(PurePosixPath(gone).parents[:-1]))
        whole = next((one for one in folders if not (tree.root / one).is_dir()), gone)
        what, fix = _missing(tree, whole if gone in removed_files(tree) else gone)
        found = f"{project.callable}: no module {module}.py below {project.path}{what}"
        yield Finding(where, found, fix)


def _had_callable(tree: SourceTree, project: Project) -> bool:
    """Whether git has or had the callable's module."""
    return any(one in removed_files(tree) for one in callable_files(project))


def _unreadable(tree: SourceTree) -> Iterator[Finding]:
    """Find the modules that the callable's import reaches and that Python cannot parse."""
    reached = called_modules(tree)
    for file in sorted(reached):
        if not (tree.root / file).is_file() or conflict_line(tree, file):
            continue
        if (broken := why_unreadable(tree, file)) is None:
            continue
        imports = [one for pairs in reached.values() for one, answer in pairs if answer == file]
        if not any(is_optional(tree.read(one.file).text, one.line) for one in imports):
            line, why = broken
            fix = edit(f"{file}:{line}", why)
            yield Finding(f"{file}:{line}", f"Python cannot read it: {why}", fix)


def _is_built(tree: SourceTree, project: Project, dotted: str) -> bool:
    """Whether a build may make the module: it exists, or the build files do not tell."""
    module, made = dotted.replace(".", "/"), built(tree)
    parent, _, last = module.rpartition("/")
    folder = tree.root / project.path / parent
    if any(folder.glob(f"{last}.*")):
        return True
    if not project.build:
        # Without a build it must be installed: a package of another name is another project's.
        return not (tree.root / project.path / dotted.partition(".")[0]).is_dir()
    if last in made.last:
        return True
    words = [re.compile(rf"(?<!\w){re.escape(one)}(?!\w)") for one in dotted.split(".")]
    texts = [tree.read(one).text for one in _build_texts(tree)]
    return bool(made.unknown) or any(all(one.search(text) for one in words) for text in texts)


def _may_be_made(tree: SourceTree, path: str) -> bool:
    """Whether a build file or a path git ignores names a folder, so that the build may make it."""
    word = re.compile(rf"(?<![\w-]){re.escape(path.partition('/')[0])}(?![\w-])")
    return any(word.search(tree.read(one).text) for one in (*_build_texts(tree), ".gitignore"))


def _build_texts(tree: SourceTree) -> list[str]:
    """Build files, except the one that names the folder as a setting."""
    return [one for one in tree.build_files if one != "pyproject.toml"]


def _build(tree: SourceTree, project: Project) -> Iterator[Finding]:
    """Check that the program is on PATH or here, and so is the script it runs."""
    if not project.build:
        return
    where = f"pyproject.toml {TABLE} build"
    program, *arguments = project.build
    here = (tree.root / program).exists()
    if program not in ("python", "python3") and not here and shutil.which(program) is None:
        local = "/" in program
        found = f"{program} does not exist" if local else f"{program} is not on PATH"
        what, fix = _missing(tree, program) if local else ("", _get(tree, program))
        yield Finding(where, f"{found}{what}", fix)
        return
    script = _script(project)
    if script and not (tree.root / script).exists():
        what, fix = _missing(tree, script)
        yield Finding(where, f"{script} does not exist{what}", fix)
    elsewhere = any(one.startswith(("-f", "-C")) for one in arguments)
    here = any((tree.root / one).exists() for one in MAKEFILES)
    if program == "make" and not (elsewhere or here):
        gone = next((one for one in MAKEFILES if one in removed_files(tree)), "Makefile")
        what, fix = _missing(tree, gone)
        yield Finding(where, f"make has no Makefile here{what}", fix)


def _script(project: Project) -> str:
    """The script that the build command's interpreter runs; "" if it runs none."""
    program, *arguments = project.build or ("",)
    script = next((one for one in arguments if not one.startswith("-")), "")
    runs = _INTERPRETERS.fullmatch(program) and _SCRIPT.fullmatch(script)
    return os.path.normpath(script) if runs else ""


def _missing(tree: SourceTree, file: str) -> tuple[str, str]:
    """What git knows of a missing file, to end a sentence, and the fix."""
    what, fix = how_to_get(tree, os.path.normpath(file))
    return f", {what}" if what else "", fix


def _get(tree: SourceTree, program: str) -> str:
    """Install a program, or correct a word that is none: nothing fills in `{python}`."""
    if _PROGRAM.fullmatch(program) is None:
        return _edit(tree, "build = a program and its arguments, each a text; `python` is this one")
    return f"apt-get install {program}  # or put its folder on PATH"


def _edit(tree: SourceTree, what: str) -> str:
    """Open pyproject.toml at the line that a parser names, else at our table."""
    text = tree.read("pyproject.toml").text
    named = re.search(r"at line (\d+)", what)
    line = int(named[1]) if named else line_of(text, max(text.find(TABLE), 0))
    return edit(f"pyproject.toml:{line}", what)
