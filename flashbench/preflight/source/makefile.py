"""What a makefile compiles: its variables, rules and includes, evaluated without running make.

`ANY` replaces the part of a text that is known only when make runs, as in `setup_script`.
"""

import fnmatch
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import PurePosixPath

from flashbench.builds.content import UNITS
from flashbench.preflight.source.setup_script import ANY
from flashbench.preflight.source.tree import SourceTree

MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_OBJECTS = (".o", ".obj")
_IMPLICIT = (".cpp", ".cc", ".c", ".C", ".s", ".S", ".f")  # make's own rules
_ASSIGNED = re.compile(
    r"\s*(?:(?:override|export|private)\s+)*([^\s:#=+?!]+)\s*(\+|\?|!|:{1,3})?=(.*)"
)
_CONDITION = re.compile(r"\s*(ifn?eq|ifn?def|else|endif|define|endef)\b")
_INCLUDE = re.compile(r"\s*(-include|sinclude|include)\s+(.*)")
_COMPILES = re.compile(
    r"[@+-]*\s*(?:\$[({](?:NVCC|CXX|CC|HIPCC|CUDACXX|LD)[)}]|\S*(?:nvcc|g\+\+|gcc|clang(?:\+\+)?|hipcc))\s"
)
_INTERPRETER = re.compile(r"(?:.*/)?(?:python[\d.]*|bash|sh|perl)")
_SCRIPT = re.compile(r"(?!/)(?:\./)?[\w][\w./+-]*\.(?:py|sh|pl)")
_INCLUDE_FLAG = re.compile(r"(?:^|\s)-(?:I|isystem|iquote)\s*(\S+)")
_DEEPEST = 30  # nested references
_LONGEST = 100_000  # characters of a value


@dataclass(frozen=True, slots=True)
class MakeLine:
    """A line, its continuations joined. conditional: under `ifdef` or the like."""

    file: str
    number: int
    text: str
    conditional: bool


@dataclass(frozen=True, slots=True)
class MakeRule:
    """A rule; static ones (`$(OBJS): %.o: %.cu`) have a pattern of their targets, too."""

    line: MakeLine
    targets: tuple[str, ...]
    pattern: str
    needs: tuple[str, ...]
    recipe: list[MakeLine] = field(default_factory=list)

    def sources_of(self, target: str) -> list[str] | None:
        """Units that make the target by this rule; None if the rule does not make it."""
        patterns = [self.pattern] if self.pattern else [one for one in self.targets if "%" in one]
        if target in self.targets:
            patterns = [self.pattern] if self.pattern else [target]
        elif self.pattern:
            return None
        for pattern in patterns:
            begin, _, end = pattern.partition("%")
            if target.startswith(begin) and target.endswith(end):
                stem = target[len(begin) : len(target) - len(end)] if "%" in pattern else ""
                needs = (one.replace("%", stem, 1) for one in self.needs)
                return [one for one in needs if one.endswith(UNITS)]
        return None


class Makefile:
    """A makefile with the makefiles that it includes."""

    def __init__(self, tree: SourceTree, file: str) -> None:
        self.tree, self.folder = tree, PurePosixPath(file).parent
        self.includes: list[
            tuple[MakeLine, str, bool]
        ] = []  # what is named, and whether it must exist
        self.rules: list[MakeRule] = []
        self.files = set[str]()  # it and those that it includes
        self.unclear: MakeLine | None = None  # the first that may write rules when make runs
        self._assigned: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._values: list[tuple[str, str, MakeLine]] = []
        self._parse(file)

    def words(self, left_out: re.Pattern[str]) -> Iterator[tuple[str, MakeLine]]:
        """Words of variables, prerequisites and compilers' commands, each with its line, without
        variables of these names."""
        for name, value, line in self._values:
            if not left_out.search(name):
                yield from ((word, line) for word in self.expand(value).split())
        for rule in self.rules:
            for word in rule.needs:
                yield word, rule.line
            for line in rule.recipe:
                if _COMPILES.match(line.text.strip()) and "cd " not in line.text:
                    command = re.sub(r"-o\s+\S+|>\s*\S+", "", self.expand(line.text))
                    yield from ((word, line) for word in command.split() if word.endswith(UNITS))

    def is_whole(self) -> bool:
        """Whether its text lists all prerequisites of rules and all values of variables."""
        words = (one for rule in self.rules for one in rule.needs)
        return not (self.unclear or any(ANY in one for one in words))

    def include_flags(self) -> Iterator[tuple[str, MakeLine]]:
        """Include directories in variables and commands, each with its line; `ANY` stands
        for what its text leaves open."""
        texts = [(value, line) for _, value, line in self._values]
        texts += [(line.text, line) for rule in self.rules for line in rule.recipe]
        for text, line in texts:
            for flag in _INCLUDE_FLAG.findall(text):
                yield self.expand(flag), line

    def scripts(self, goals: list[str]) -> Iterator[tuple[str, MakeLine]]:
        """Scripts of its folder that recipes run on the way to targets, each with its line."""
        for rule in self._reached(goals):
            for line in rule.recipe:
                text = self.expand(re.sub(r"^[\s@+-]+", "", line.text))
                for command in () if "cd " in text else re.split(r"&&|\|\||;", text):
                    if script := script_run(command.split()):
                        yield os.path.normpath(self.folder / script), line

    def _reached(self, goals: list[str]) -> list[MakeRule]:
        """The rules that targets need, by default the first one's."""
        named = (one for rule in self.rules for one in rule.targets if one[0] not in ".%")
        todo, found = goals or [next(named, "")], list[MakeRule]()
        while todo:
            target = todo.pop()
            for rule in self.rules:
                if rule not in found and (target in rule.targets or rule.sources_of(target)):
                    found.append(rule)
                    todo += rule.needs
        return found

    def makes(self, file: str) -> bool:
        """Whether a rule has this target."""
        return any(rule.sources_of(file) is not None for rule in self.rules)

    def listed(self, left_out: re.Pattern[str]) -> Iterator[tuple[str, MakeLine]]:
        """Units that it compiles, relative to its folder; `ANY` in those that its text does not
        tell."""
        for word, line in self.words(left_out):
            if word.endswith(UNITS) and not (word.endswith(ANY) or self.makes(word)):
                yield word, line
            elif word.endswith(_OBJECTS) and "%" not in word:
                yield from ((unit, line) for unit in self._source_of(word))

    def _source_of(self, made: str) -> list[str]:
        """The unit that makes an object, the likeliest if there is none; [] if other things do."""
        found = [units for rule in self.rules if (units := rule.sources_of(made)) is not None]
        by_recipe = any(
            made in rule.targets and rule.recipe and not rule.pattern for rule in self.rules
        )
        if by_recipe or self._is_here(made) or (found and not any(found)):
            return []
        units = [one for some in found for one in some]
        if not units:
            units = [f"{made.rpartition('.')[0]}{end}" for end in _IMPLICIT]
            if self.unclear and not any(map(self._is_here, units)):
                return [f"{ANY}{UNITS[0]}"]
        if any(map(self.makes, units)):
            return []
        return [next(filter(self._is_here, units), units[0])]

    def _is_here(self, file: str) -> bool:
        there = self.tree.ending(file.rpartition("/")[2] if self._searches else file)
        return bool(there) or (ANY not in file and (self.tree.root / self.folder / file).is_file())

    @cached_property
    def _searches(self) -> bool:
        """Whether make looks for files in other folders, too."""
        texts = (self.tree.read(one).text for one in self.files)
        return any(re.search(r"\bvpath\b|\bVPATH\b", text) for text in texts)

    def expand(self, text: str, depth: int = 0) -> str:
        """The text with its references replaced."""
        parts, at = [], 0
        while (place := text.find("$", at)) >= 0 and len(text) < _LONGEST:
            parts.append(text[at:place])
            sign, at = text[place + 1 : place + 2], place + 2
            if sign == "$":
                parts.append("$")
            elif sign in ("(", "{") and (end := _closing(text, place + 1)) > 0:
                parts.append(self._reference(text[place + 2 : end], depth + 1))
                at = end + 1
            else:
                parts.append(ANY)
        return "".join([*parts, text[at:]])

    def _reference(self, text: str, depth: int) -> str:
        if depth > _DEEPEST:
            return ANY
        name, blank, rest = text.partition(" ")
        if blank:
            return self._called(name, rest, depth)
        if changed := re.fullmatch(r"([^:]+):([^=]*)=(.*)", text):
            old, new = self.expand(changed[2], depth), self.expand(changed[3], depth)
            if "%" not in old:
                old, new = f"%{old}", f"%{new}"
            return _patsubst(old, new, self._reference(changed[1], depth))
        name = self.expand(text, depth)
        if name in ("CURDIR", "srcdir"):
            return "."
        assigned = self._assigned.get(name, [])
        settled = {value for kind, value in assigned if kind != "+"}
        if not assigned or len(settled) > 1 or any(kind == "!" for kind, _ in assigned):
            return ANY
        values = dict.fromkeys(value for _, value in assigned)
        return " ".join(self.expand(value, depth + 1).strip() for value in values)

    def _called(self, name: str, text: str, depth: int) -> str:
        """The value of a function of make."""
        texts = _arguments(text)
        given = [self.expand(one, depth) for one in texts]
        last = given[-1].split()
        match name:
            case "strip" | "sort" | "abspath" | "realpath":
                return " ".join(last)
            case "patsubst" if len(given) == 3:
                return _patsubst(given[0].strip(), given[1].strip(), given[2])
            case "subst" if len(given) == 3 and given[0]:
                return given[2].replace(given[0], given[1])
            case "addprefix":
                return " ".join(f"{given[0].strip()}{one}" for one in last)
            case "addsuffix":
                return " ".join(f"{one}{given[0].strip()}" for one in last)
            case "notdir":
                return " ".join(one.rpartition("/")[2] for one in last)
            case "dir":
                return " ".join(_folder(one) for one in last)
            case "basename":
                return " ".join(os.path.splitext(one)[0] for one in last)  # noqa: PTH122
            case "filter" | "filter-out" if len(given) == 2:
                kinds = [one.replace("%", "*") for one in given[0].split()]
                keep = name == "filter"
                if any(ANY in one for one in kinds):
                    return ANY
                return " ".join(
                    one for one in last if any(fnmatch.fnmatchcase(one, k) for k in kinds) == keep
                )
            case "wildcard":
                return ""  # what it finds is here
            case "foreach" if len(given) == 3:
                name = re.escape(given[0].strip())
                spelled = re.compile(rf"\$(?:\({name}\)|\{{{name}\}})")
                each = (one.join(spelled.split(texts[2])) for one in given[1].split())
                return " ".join(self.expand(one, depth) for one in each)
        return "" if name in ("info", "warning", "error", "eval") else ANY

    def _parse(self, file: str) -> None:
        rule: MakeRule | None = None
        self.files.add(file)
        for line in _lines(self.tree, file):
            if line.text.startswith("\t"):
                if rule is not None:
                    rule.recipe.append(line)
                continue
            text = re.sub(r"(?<!\\)#.*", "", line.text)
            if "$(eval" in text or "${eval" in text:
                self.unclear = self.unclear or line
            if found := _INCLUDE.match(text):
                self._include(line, found[1] == "include", self.expand(found[2]).split())
            elif found := _ASSIGNED.match(text):
                kind, value = found[2] or "", found[3].strip()
                itself = rf"\$[({{]{re.escape(found[1])}"
                if re.search(rf"{itself}\b", value):
                    value, grown = re.subn(rf"^{itself}[)}}]\s", "", value)
                    kind = "+" if grown and not re.search(rf"{itself}\b", value) else "!"
                self._assigned[found[1]].append((kind, value))
                self._values.append((found[1], value, line))
            elif (place := _colon(text)) > 0:
                rule = self._rule(line, text, place)
                self.rules.append(rule)

    def _rule(self, line: MakeLine, text: str, place: int) -> MakeRule:
        rest, _, first = text[place:].lstrip(":").partition(";")
        pattern = ""
        if (second := _colon(rest)) > 0:
            pattern, rest = self.expand(rest[:second]).strip(), rest[second + 1 :]
        if _ASSIGNED.match(rest):
            rest = ""  # a variable of the target alone
        targets = tuple(self.expand(text[:place].rstrip("&")).split())
        needs = [one for one in self.expand(rest).split() if one != "|"]
        if (old := re.fullmatch(r"(\.\w+)(\.\w+)", "".join(targets))) and not needs:
            targets, needs = (f"%{old[2]}",), [f"%{old[1]}"]  # a suffix rule
        recipe = [MakeLine(line.file, line.number, first, line.conditional)] if first else []
        return MakeRule(line, targets, pattern, tuple(needs), recipe)

    def _include(self, line: MakeLine, needed: bool, names: list[str]) -> None:
        for name in names:
            # Paths are relative to the folder in which make runs.
            file = os.path.normpath(self.folder / name)
            self.includes.append((line, file, needed and not line.conditional))
            if ANY in file or not (self.tree.root / file).is_file():
                self.unclear = self.unclear or line
            elif file not in self.files and len(self.files) < 100:
                self._parse(file)


def script_run(words: list[str]) -> str:
    """The script that a command runs by an interpreter or by itself; "" if it runs none."""
    program, *rest = words or [""]
    if _INTERPRETER.fullmatch(program):
        program = next((one for one in rest if not one.startswith("-")), "")
    elif program.startswith(ANY):
        program = rest[0] if rest else ""  # $(PYTHON) or sys.executable
    return program if _SCRIPT.fullmatch(program) else ""


@lru_cache(maxsize=256)
def makefile_of(tree: SourceTree, file: str) -> Makefile:
    """Parse a makefile once for all checks."""
    return Makefile(tree, file)


def _lines(tree: SourceTree, file: str) -> Iterator[MakeLine]:
    """Logical lines, without the bodies of `define`."""
    depth, held, begun, defining = 0, "", 0, False
    for number, text in enumerate(tree.read(file).text.splitlines(), 1):
        begun = begun if held else number
        if text.endswith("\\"):
            held += f"{text[:-1]} "
            continue
        whole, held = held + text, ""
        found = None if whole.startswith("\t") else _CONDITION.match(whole)
        if found is None:
            if not defining:
                yield MakeLine(file, begun, whole, depth > 0)
        elif found[1] in ("define", "endef"):
            defining = found[1] == "define"
        elif found[1] != "else":
            depth = max(0, depth + (-1 if found[1] == "endif" else 1))


def _closing(text: str, opened: int) -> int:
    """Where the bracket that opens at a place closes; -1 if it does not."""
    pair, depth = {"(": "()", "{": "{}"}[text[opened]], 0
    for at in range(opened, len(text)):
        depth += (text[at] == pair[0]) - (text[at] == pair[1])
        if depth == 0:
            return at
    return -1


def _outside(text: str, wanted: str) -> Iterator[int]:
    """Places of a character that are in no reference."""
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign in "({") - (sign in ")}")
        if sign == wanted and depth == 0:
            yield at


def _folder(word: str) -> str:
    folder, slash, last = word.rpartition("/")
    return f"{folder}/" if slash else ANY if ANY in last else "./"


def _colon(text: str) -> int:
    return next(_outside(text, ":"), -1)


def _arguments(text: str) -> list[str]:
    cuts = [-1, *_outside(text, ","), len(text)]
    return [text[begin + 1 : end] for begin, end in pairwise(cuts)]


def _patsubst(old: str, new: str, text: str) -> str:
    begin, _, end = old.partition("%")
    changed = []
    for word in text.split():
        fits = len(word) >= len(begin) + len(end) and word.startswith(begin) and word.endswith(end)
        if word == ANY:  # several unknown words
            changed.append(ANY)
        elif fits and "%" in old:
            changed.append(new.replace("%", word[len(begin) : len(word) - len(end)], 1))
        else:
            changed.append(new if word == old else word)
    return " ".join(changed)
