"""HEAD builds from a clean export, loads, and its kernels fit the chips they are built for."""

import shlex
import shutil
from collections.abc import Iterator

from flashbench.builds.diagnosis import demangle
from flashbench.builds.missing_symbol import first_line
from flashbench.preflight.build import next_step
from flashbench.preflight.build.shared_memory import TOO_MUCH_STATIC
from flashbench.preflight.build.subject import BuildSubject
from flashbench.preflight.finding import CannotCheck, Finding

_LOCAL = 256  # bytes of stack per thread from which spills cost more than they save


def clean_build(subject: BuildSubject) -> Iterator[Finding]:
    """Build HEAD from a clean export, in a directory of its own, as every revision is built."""
    if not subject.tree.committed:
        yield _without_commit(subject)
        return
    built = subject.built
    if built.status in ("built", "unchecked") or TOO_MUCH_STATIC.search(built.reason):
        return
    said = f"{built.status}: {first_line(built.reason)}"
    if named := next_step.cause(built, subject.named()):
        raise CannotCheck(f"HEAD does not build here ({said}): fix {named} first")
    yield Finding(f"HEAD ({built.revision.commit[:12]})", said, next_step.fix(subject, built))


def _without_commit(subject: BuildSubject) -> Finding:
    """Report a project from which nothing can be exported."""
    tree = subject.tree
    if "repository" in subject.named():
        raise CannotCheck("there is no HEAD to build: fix repository first")
    if tree.tracked is not None:
        found, fix = "nothing is committed, so that there is no HEAD to build", "git commit"
    else:
        found = f"there is no HEAD to build: {tree.without_git}"
        fix = "git init && git add . && git commit"
        if shutil.which("git") is None:
            fix = "apt-get install git"
        elif "safe.directory" in found:
            fix = f"git config --global --add safe.directory {shlex.quote(str(tree.root))}"
    return Finding(str(tree.root), found, fix)


def spills(subject: BuildSubject) -> Iterator[Finding]:
    """Find kernels whose threads keep much on the stack."""
    worst = [kernel for kernel in subject.kernels if kernel.stack > _LOCAL]
    for kernel in sorted(worst, key=lambda kernel: -kernel.stack)[:5]:
        yield Finding(
            f"{demangle(kernel.name)[:120]}, sm_{kernel.arch}",
            f"{kernel.stack} bytes of stack a thread, {kernel.registers} registers",
            "cuobjdump --dump-resource-usage LIBRARY  # then fewer registers, or a larger bound",
            "warning",
        )
