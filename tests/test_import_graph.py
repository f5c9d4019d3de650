"""The folders of the package import one another in one direction."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
PACKAGE = ROOT / "flashbench"

# What each folder imports of the others. "" is the modules beside them, which all may import.
ALLOWED = {
    "stats": "",
    "render": "",
    "builds": "",
    "operations": "",
    "kernels": "",
    "cost": "builds operations stats",
    "": "operations stats",
    "measuring": "builds cost operations render",
    "revisions": "builds cost measuring operations",
    "fleet": "measuring",
    "bisect": "builds cost measuring revisions",
    "preflight": "builds revisions",
    "init": "builds other_tools preflight revisions",
    "profile": "cost measuring operations revisions",
    "gate": "builds cost measuring preflight revisions stats",
    "other_tools": "operations stats",
    "history": "builds cost measuring operations other_tools profile revisions stats",
    "views": "bisect builds cost gate history operations other_tools preflight profile render "
    "revisions stats",
    "figures": "cost operations profile render stats views",
    "suites": "builds measuring other_tools revisions stats",
    "comparing": "cost measuring other_tools revisions suites",
    # cli: arguments are checked by the types of the commands' options
    "api": "cli comparing cost measuring operations render figures revisions suites views",
    "site": "builds cost history operations other_tools profile render figures revisions stats "
    "views",
    "pytest_plugin": "measuring operations other_tools",
    "cloud": "cost fleet profile render revisions",  # whose files come home
    "cli": "bisect builds cloud comparing cost fleet gate history init measuring operations "
    "other_tools preflight profile render figures revisions site suites views",
}
# Single modules that import more, each for one reason.
EXCEPTIONS = {
    "flashbench.__main__": "cli preflight views",  # the command line, and preflight without click
    "flashbench.extension": "builds",  # explains why the library does not load
    "flashbench.run_plan": "cost measuring revisions",  # enters measuring; revisions may compile
    "flashbench.until_decided": "cost measuring",
    "flashbench.worker_main": "measuring revisions",  # gives a worker what loads revisions
}


def imported(path: Path) -> Iterator[str]:
    """Names that a file imports when it runs: without what only type checkers read."""
    pending: list[ast.AST] = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            pending += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        statements = ast.stmt, ast.ExceptHandler, ast.match_case
        pending += [one for one in ast.iter_child_nodes(node) if isinstance(one, statements)]


def folder(name: str) -> str:
    """The folder of a dotted name in the package; "" for a module beside the folders."""
    first = name.partition(".")[2].partition(".")[0]
    return first if first and (PACKAGE / first).is_dir() else ""


@cache
def names() -> dict[str, set[str]]:
    """By module: the dotted names that it imports of the package."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): {
            name for name in imported(path) if name.startswith("flashbench.")
        }
        for path in PACKAGE.rglob("*.py")
    }


def imports() -> dict[tuple[str, str], set[str]]:
    """By module and each other folder that it imports from: the names."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for module, wanted in names().items():
        for name in wanted:
            if folder(name) not in ("", folder(module)):
                found[module, folder(name)].add(name)
    return found


def test_folders_import_only_what_they_may() -> None:
    """An import that is in neither table runs back up, or needs a line here and its reason."""
    forbidden = [
        f"{module} imports {', '.join(sorted(names))}"
        for (module, other), names in imports().items()
        if other not in ALLOWED[folder(module)].split() + EXCEPTIONS.get(module, "").split()
    ]
    assert not forbidden


def test_the_tables_allow_no_more_than_is_used() -> None:
    """A permission that nothing uses is removed, so that the tables show the real graph."""
    found = imports()
    used: dict[str, set[str]] = defaultdict(set)
    for module, other in found:
        if other not in EXCEPTIONS.get(module, "").split():
            used[folder(module)].add(other)
    assert {name: set(others.split()) for name, others in ALLOWED.items()} == {
        name: used[name] for name in ALLOWED
    }
    excepted = [(module, one) for module, others in EXCEPTIONS.items() for one in others.split()]
    assert all(pair in found for pair in excepted)


def test_the_functions_of_the_api_take_only_types_from_the_commands() -> None:
    """What a call does is below the command line; cli says how arguments are read."""
    taken = {name for module, others in names().items() if ".api." in module for name in others}
    from_cli = {name for name in taken if folder(name) == "cli"}
    assert {name.rpartition(".")[0] for name in from_cli} == {"flashbench.cli.parameter_types"}


def test_no_folder_imports_itself_through_others() -> None:
    """The folders can be put in an order in which each imports only what comes before it."""
    graph = {name: others.split() for name, others in ALLOWED.items()}
    assert len(list(TopologicalSorter(graph).static_order())) == len(ALLOWED)


def test_no_module_imports_itself_through_others() -> None:
    """Nor do the modules of a folder form a circle, in functions that import late either."""
    modules = names().keys() - {"flashbench"}  # which loads what it offers on request
    graph = {
        module: {name if name in modules else name.rpartition(".")[0] for name in names()[module]}
        - {module, "flashbench"}
        for module in modules
    }
    assert len(list(TopologicalSorter(graph).static_order())) == len(modules)


def test_the_layers_of_contributing_are_those_of_the_graph() -> None:
    """What is drawn for readers names every folder once, each below all that it imports."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    drawn = text.partition("checks these lines.\n\n```\n")[2].partition("```")[0]
    layer = {name: place for place, line in enumerate(drawn.split("\n")) for name in line.split()}
    assert layer.keys() == ALLOWED.keys() - {""}
    assert not [
        (name, other)
        for name in layer
        for other in ALLOWED[name].split()
        if layer[other] >= layer[name]
    ]
    assert all(f"\n  {name}/" in text for name in layer)
