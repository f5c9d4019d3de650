"""What a project's callable computes and on which cases, for the processes that check it."""

import contextlib
import hashlib
from dataclasses import dataclass
from pathlib import Path

from flashbench import operations
from flashbench.callables import LAYOUTS
from flashbench.errors import InvalidInputError
from flashbench.project_cases import ANY_CASES, NAME, ProjectCases
from flashbench.revisions.project import Project


@dataclass(frozen=True)
class WhatIsComputed:
    """name: of the operation. import_root: where a project's own is searched first. cases: those
    of the settings."""

    name: str
    import_root: str = ""
    cases: ProjectCases = ANY_CASES

    @property
    def key(self) -> list[str]:
        """The key of a result; empty for attention. Includes the source of a project's own
        module."""
        if self == ATTENTION_BY_DEFAULT:
            return []
        parts = [self.name, *(f"{name}={value}" for name, value in self.cases.given.items())]
        if ":" in self.name:
            module = self.name.partition(":")[0].replace(".", "/")
            with contextlib.suppress(OSError):
                source = (Path(self.import_root) / f"{module}.py").read_bytes()
                parts.append(hashlib.sha256(source).hexdigest()[:16])
        return parts


ATTENTION_BY_DEFAULT = WhatIsComputed(operations.DEFAULT)


def of_project(project: Project) -> WhatIsComputed:
    """What the project's settings compute. Raises InvalidInputError for cases that a built-in
    operation lacks."""
    if ":" in project.operation:
        return WhatIsComputed(project.operation, str(project.import_root), project.cases)
    try:
        shapes(operations.named(project.operation), project.cases)
    except InvalidInputError as error:
        raise InvalidInputError(f"pyproject.toml [tool.flashbench.{NAME}]: {error}") from None
    return WhatIsComputed(project.operation, cases=project.cases)


def shapes(operation: operations.Operation, cases: ProjectCases) -> list[operations.Sizes]:
    """The shapes that settings name, those of the least work first; none: the operation's small
    ones. Raises InvalidInputError."""
    found = [one for name in cases.preset for one in operation.preset(name)]
    found += [one for text in cases.shape for one in operation.parse(text)]
    options = operation.requested(cases.causal or "both", cases.layout or LAYOUTS[0])[0]
    return sorted(found, key=lambda one: operation.flops(one, options)) or list(
        operation.small_shapes()
    )
