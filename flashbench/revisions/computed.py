"""What a project's callable computes, for the processes that check it."""

import contextlib
import hashlib
from dataclasses import dataclass
from pathlib import Path

from flashbench import operations
from flashbench.revisions.project import Project


@dataclass(frozen=True)
class WhatIsComputed:
    """name: of the operation. import_root: where a project's own is searched first."""

    name: str
    import_root: str = ""

    @property
    def key(self) -> list[str]:
        """Of a result; empty for attention. The module's own source is part of it."""
        if self == ATTENTION:
            return []
        parts = [self.name]
        if ":" in self.name:
            module = self.name.partition(":")[0].replace(".", "/")
            with contextlib.suppress(OSError):
                source = (Path(self.import_root) / f"{module}.py").read_bytes()
                parts.append(hashlib.sha256(source).hexdigest()[:16])
        return parts


ATTENTION = WhatIsComputed(operations.DEFAULT)


def of_project(project: Project) -> WhatIsComputed:
    """Of its settings."""
    if ":" not in project.operation:
        return WhatIsComputed(project.operation)
    return WhatIsComputed(project.operation, str(project.import_root))
