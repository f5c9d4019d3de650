"""What holds for the whole suite."""

import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import forks
import pytest
import skip_reasons
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# A busy machine is no failure.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Without bytecode each of a thousand processes would compile torch's Python again, 3 s, and each
# process of tests hypothesis, and every assertion.
sys.dont_write_bytecode = False

# Processes of tests share the cores: idle threads of torch that spin cost them half. OpenMP
# reads it once, when torch is imported, which a folder's conftest may do before `pytest_configure`.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def pytest_configure() -> None:
    """Take from the environment what would change the output or the speed of the commands that
    tests start."""
    for name in ("COLUMNS", "GITHUB_STEP_SUMMARY", "PYTHONDONTWRITEBYTECODE"):
        os.environ.pop(name, None)


@pytest.fixture(scope="session", autouse=True)
def _processes() -> Iterator[None]:
    """Let what tests start hear each signal, and end what forks.py started.

    A shell starts background jobs deaf to Ctrl-C, nohup starts them deaf to SIGHUP, and children
    inherit that, unlike a handler. The process of xdist that runs no test stays deaf.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    yield
    forks.end()


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """Chromium; Playwright can be entered once in a process."""
    from pages.browser import chromium

    with chromium() as opened:
        yield opened


@pytest.fixture
def without_torch(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that check imports find no torch, and so start at once."""
    none = tmp_path_factory.mktemp("none")
    (none / "torch.py").write_text("raise ImportError('none')\n")
    monkeypatch.setenv("PYTHONPATH", str(none))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin the share of each worker with files of slow tests, whole, as they share builds; so what
    workers steal from each other near the end is short."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow"):
            files.setdefault(item.path, []).append(item)
    slow = sorted(files.values(), key=len, reverse=True)
    fast = [item for item in items if not item.get_closest_marker("slow")]
    items.clear()
    for worker in range(workers):
        items += [item for tests in slow[worker::workers] for item in tests]
        items += fast[worker * len(fast) // workers : (worker + 1) * len(fast) // workers]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that is skipped for no good reason."""
    return _justified((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole file."""
    return _justified((yield))


def _justified(report):  # type: ignore[no-untyped-def]
    if report.skipped and not hasattr(report, "wasxfail"):
        assert isinstance(report.longrepr, tuple)
        if wrong := skip_reasons.fault(report.longrepr[2].removeprefix("Skipped: ")):
            report.outcome, report.longrepr = "failed", wrong
    return report
