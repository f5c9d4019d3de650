"""Types that plain text gives other names: `using real_t = float;`, `typedef float real_t;`."""

import re
from collections import defaultdict
from functools import lru_cache

from flashbench.preflight.source.tree import SourceTree

# Bounded, so that matching takes linear time on any text.
_USING = re.compile(r"using(?<=\busing)\s+(\w{1,100})\s*=([^;{}]{1,200});")
_TYPEDEF = re.compile(r"typedef(?<=\btypedef)\s([^;{}()]{1,200});")


def resolved(tree: SourceTree, unit: str, name: str) -> str:
    """The text of the type that a name in a unit is an alias of; the name, if that is not sure."""
    found = _aliases(tree).get(name, [])
    if not found or tree.closure(unit).isdisjoint(file for file, _, _ in found):
        return name
    return _meaning(tree, name) or name


@lru_cache(maxsize=64)
def _meaning(tree: SourceTree, name: str) -> str:
    """The type if the name has one meaning in all of the tree: at namespace level, under no
    condition, and never a macro, a template, its parameter or a type of its own."""
    found = _aliases(tree)[name]
    if len({text for _, _, text in found}) > 1:
        return ""
    for file, place, _ in found:
        source = tree.read(file)
        is_template = source.plain[max(0, place - 200) : place].rstrip().endswith(">")
        hidden = source.outer[place] != source.plain[place]
        if is_template or hidden or source.is_conditional(source.line_of(place)):
            return ""
    other = re.compile(rf"\b(?:typename|class|struct|enum)\s+{name}\b")
    for file in tree.sources:
        source = tree.read(file)
        if name in source.text and (name in source.bodies or other.search(source.plain)):
            return ""
    return found[0][2]


@lru_cache(maxsize=1)
def _aliases(tree: SourceTree) -> dict[str, list[tuple[str, int, str]]]:
    """Aliases by name, each with its file, its place in `plain` and the text of its type."""
    found = defaultdict[str, list[tuple[str, int, str]]](list)
    for file in tree.sources:
        plain = tree.read(file).plain
        for match in _USING.finditer(plain):
            found[match[1]].append((file, match.start(), match[2].strip()))
        for match in _TYPEDEF.finditer(plain):
            text, _, name = " ".join(match[1].split()).rpartition(" ")
            found[name].append((file, match.start(), text))
    return found
