"""Two revisions in one worker process, measured beside SDPA."""

from pathlib import Path

import pytest
from revisions.repository import Prepared, fastattn

from flashbench.builds import cache_directory
from flashbench.measuring.forks import Fresh
from flashbench.measuring.process import Worker
from flashbench.measuring.protocol import Audit, Audited, Done, Measure, Ready, Setup
from flashbench.operations.attention.operation import attention_case
from flashbench.operations.attention.shapes import parse_shape
from flashbench.revisions import Built

pytestmark = pytest.mark.slow

CASE = attention_case(parse_shape("1,2,16,8"), "fp32", True, "cpu")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, prepared: Prepared) -> dict[str, Built]:
    """Commits of one project: good, slower, and with a wrong result."""
    root = tmp_path_factory.mktemp("side-by-side")
    repository = fastattn(root / "fastattn")
    repository.git("tag", "good")
    repository.edit("csrc/config.h", "DELAY = 0", "DELAY = 10000000")
    repository.edit("csrc/config.h", "MARKER = 1", "MARKER = 2")
    repository.commit("Wait a while in each call")
    repository.git("tag", "slower")
    repository.edit("csrc/config.h", "DELAY = 10000000", "DELAY = 0")
    repository.edit("csrc/config.h", "SCALE = 1.0f", "SCALE = 1.1f")
    repository.commit("Scale as one should not")
    repository.git("tag", "wrong")
    return {
        name: prepared(repository, root / "cache", name) for name in ("good", "slower", "wrong")
    }


def setup(built: dict[str, Built], order: list[str]) -> Setup:
    return Setup(
        device="cpu",
        candidates=[built[name].candidate(name) for name in order],
        backends="default",
        threads=1,
        samples=2,
        min_sample_seconds=1e-4,
        import_roots={name: str(built[name].require()) for name in order},
    )


@pytest.fixture(autouse=True)
def _private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a link, as a cache that was moved to a larger disk."""
    (tmp_path / "launches").mkdir()
    (tmp_path / "link").symlink_to("launches")
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "link"))


def copies() -> list[Path]:
    return list(cache_directory().glob(".scratch.*/files/*/site"))


def loaded_files(worker: Worker) -> set[str]:
    assert isinstance(worker._process, Fresh)
    pid = worker._process._process.pid
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[5] for line in maps if "/fastattn/_kernels" in line}


def test_each_revision_runs_its_own_code(built: dict[str, Built]) -> None:
    """Whichever is loaded first, good is right, slower far slower, and wrong is found wrong. No
    launch loads a file that another one loaded, nor one in the cache."""
    seen: list[str] = []
    for order in (["good", "slower", "wrong"], ["wrong", "slower", "good"]):
        with Worker(timeout=60) as worker:
            ready = worker.ask(setup(built, order))
            assert isinstance(ready, Ready)
            assert ready.failures == {}
            assert [c.name for c in ready.candidates] == ["sdpa", *order]
            identities = [built[name].identity for name in order]
            assert [c.build for c in ready.candidates[1:]] == identities
            assert len(copies()) == len(order)
            for name in (path for copy in copies() for path in copy.rglob("*.*")):
                assert (name.stat().st_nlink > 1) == (name.suffix == ".py")  # or it takes long
            seen += loaded_files(worker)
            done = worker.ask(Measure(case=CASE, candidates=order, seed=1, full_check=True))
            assert worker.ask(Audit()) == Audited("")
        assert isinstance(done, Done)
        results = {result.candidate: result for result in done.results}
        assert {name: result.status for name, result in results.items()} == {
            "good": "ok",
            "slower": "ok",
            "wrong": "wrong",
        }
        fast, slow = (min(results[name].timings[0].seconds) for name in ("good", "slower"))
        assert slow > 10 * fast  # microseconds against milliseconds of an empty loop
        assert copies() == []
    assert len(seen) == len(set(seen)) == 6
    import_roots = tuple(str(one.require()) for one in built.values())
    assert not any(path.startswith(import_roots) for path in seen)


def test_other_library_than_built_is_refused(built: dict[str, Built]) -> None:
    """A library that is not the one whose hash the run file will tell is not measured."""
    request = setup(built, ["good", "slower"])
    request.candidates[1].build.library_hash = built["good"].identity.library_hash
    with Worker(timeout=60) as worker:
        ready = worker.ask(request)
    assert isinstance(ready, Ready)
    assert list(ready.failures) == ["slower"]
    assert "not the one that was built" in ready.failures["slower"]
