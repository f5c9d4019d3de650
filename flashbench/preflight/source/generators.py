"""What a script or a template of the project may write: then the sources do not show it."""

import re
from pathlib import PurePosixPath

from flashbench.preflight.source.tree import SourceTree

_TEMPLATES = (".in", ".j2", ".jinja", ".jinja2", ".tpl", ".tmpl", ".template", ".mako")
_SCRIPTS = (".py", ".sh", ".cmake", ".pl")


def written_by_a_generator(tree: SourceTree, name: str) -> bool:
    """Whether a template names a function, or a script holds a declaration of it."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    declared = re.compile(
        rf"\b(?:void|bool|int|float|double|auto|Tensor|\w+_t)\b[\s&*>]+(?:\w+::)*{re.escape(name)}"
        r"\s*[(<]"
    )
    for file in tree.files:
        pattern = (
            word if file.endswith(_TEMPLATES) else declared if file.endswith(_SCRIPTS) else None
        )
        if pattern is not None and pattern.search(tree.read(file).text):
            return True
    return False


def may_be_generated(tree: SourceTree, unit: str, lister: str) -> bool:
    """Whether a file other than the one that lists a unit names it or its template, as the script
    that writes it does."""
    path = PurePosixPath(unit)
    word = re.compile(rf"(?<![\w.]){re.escape(path.name)}(?![\w.])")
    for file in tree.files:
        if PurePosixPath(file).stem == path.name and file.endswith(_TEMPLATES):
            return True
        if file.endswith(".pyx") and PurePosixPath(file).stem == path.stem:
            return True  # Cython
        script = file != lister and file.endswith((*_SCRIPTS, *_TEMPLATES))
        if script and word.search(tree.read(file).text):
            return True
    return False
