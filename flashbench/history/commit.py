"""The commit of an asv environment as a candidate: `flashbench.history.commit:attention`.

Importing this module loads the commit's package and proves that its library is the commit's, in
the very process that measures. Works in processes that asv starts in our environment only.
"""

import os
from pathlib import Path

from flashbench.errors import NotMeasuredError
from flashbench.history import package, record
from flashbench.history.proof import prove


def site_of(environment: Path) -> Path:
    """Where the commit's package is installed in an asv environment."""
    (site,) = environment.glob("lib/python*/site-packages")
    return site


def load_proven() -> package.CommitPackage:
    """Load the installed commit's package; NotMeasuredError when it is not proven to be that.

    The proof, or the failure, is kept in the commit's record.
    """
    try:
        environment = Path(os.environ["ASV_ENV_DIR"])
        commit = os.environ["ASV_COMMIT"]
        path = Path(os.environ[record.VARIABLE])
    except KeyError as missing:
        raise NotMeasuredError(
            f"{missing.args[0]} is not set: a commit is measured by `asv run` in the environment "
            "of flashbench.history.asv_env"
        ) from None
    known = record.read(path)
    if known.status == "import error":  # so it was the last time
        known.status, known.failure = known.build.status, ""
    try:
        site = site_of(environment)
        loaded = package.load(site)
        known.proof = prove(loaded.extension, site, environment / "project", commit, known.build)
        if not known.proof.holds:
            raise NotMeasuredError(f"not the library of {commit[:12]}: {known.proof.reason}")
    except NotMeasuredError as error:
        known.status, known.failure = "import error", str(error)
        raise
    finally:
        record.write(path, known)
    return loaded


loaded = load_proven()
attention = loaded.attention
