"""Checks that read only the sources: no compiler, torch or build, and git only if it is there.

They reason from text, as `builds.missing_symbol` does: they leave to the build level what only a
compiler can tell, and stay silent where text is ambiguous (macros, generated files).
"""

from collections.abc import Callable, Iterable, Iterator

from flashbench.preflight.finding import CannotCheck, Check, Finding, in_short
from flashbench.preflight.source.called_names import name_not_bound
from flashbench.preflight.source.clean_clone import file_not_in_git
from flashbench.preflight.source.conflicts import merge_conflict
from flashbench.preflight.source.constants import macro_against_constant
from flashbench.preflight.source.damaged_repository import damaged_repository
from flashbench.preflight.source.defines import macros_of_the_build
from flashbench.preflight.source.headers import header_not_in_git, missing_header
from flashbench.preflight.source.instantiations import missing_instantiation
from flashbench.preflight.source.libraries import library_not_built
from flashbench.preflight.source.modules import wrong_module_name
from flashbench.preflight.source.project_settings import project_settings
from flashbench.preflight.source.symbols import bound_but_not_built
from flashbench.preflight.source.tree import SourceTree
from flashbench.preflight.source.units import listed_but_missing, submodule_not_as_recorded

Look = Callable[[SourceTree], Iterable[Finding | CannotCheck]]


def _reading(look: Look) -> Look:
    """Wrap a check that reads sources so that it reports those it could not read."""

    def looked(tree: SourceTree) -> Iterator[Finding | CannotCheck]:
        yield from look(tree)
        for file in tree.sources:
            tree.read(file)
        doubts = [f"{file}: {why}" for file, why in sorted(tree.unread.items())]
        yield from in_short(doubts)

    return looked


CHECKS: tuple[Check[SourceTree], ...] = (
    Check("project settings", "without them no revision can be built or called", project_settings),
    Check(
        "repository", "no clean clone can be made of it, and no revision built", damaged_repository
    ),
    Check(
        "submodules",
        "their headers are missing, or are others, in a clean clone",
        submodule_not_as_recorded,
    ),
    Check("merge conflicts", "no compiler and no build tool takes the marks", merge_conflict),
    Check(
        "missing headers",
        "the build dies minutes in, on a machine that is already paid for",
        _reading(missing_header),
    ),
    Check("headers in git", "it builds here and in no clean clone", _reading(header_not_in_git)),
    Check("files in git", "no clean clone can be built or imported without it", file_not_in_git),
    Check("listed sources", "the build names a file that no clean clone has", listed_but_missing),
    Check(
        "macros against constants",
        "the macro rewrites the constant's declaration into a syntax error",
        _reading(macro_against_constant),
    ),
    Check(
        "macros of the build",
        "what is measured depends on which of the builds made it, or nothing compiles",
        _reading(macros_of_the_build),
    ),
    Check(
        "bindings against units",
        "the library links and then does not load: undefined symbol",
        _reading(bound_but_not_built),
    ),
    Check(
        "explicit instantiations",
        "the library links and then does not load: undefined symbol",
        _reading(missing_instantiation),
    ),
    Check(
        "module name",
        "Python looks for PyInit_<name> and does not find it",
        _reading(wrong_module_name),
    ),
    Check("called names", "the first import or call fails", _reading(name_not_bound)),
    Check("loaded libraries", "the first call fails: cannot open shared object", library_not_built),
)
