"""A site that is brought up to date is the site that would be made from nothing."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import forks
import pytest
from history.project import CASES, git, make_repository, measure

from flashbench import file_facts, runfile
from flashbench.history import folder
from flashbench.runfile import BuildIdentity
from flashbench.site import encode, source, writer
from flashbench.site.gather import gather
from flashbench.site.publish import publish
from flashbench.site.source import Source

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LOCK = ".flashbench-site.lock"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are trusted at once, so that tests need not wait."""
    monkeypatch.setattr(file_facts, "SETTLED", 0.0)


def contents(site: Path) -> dict[str, bytes]:
    """The files, the list of them without what the whole was made of: a process that finds files
    too new leaves that out."""
    found = {
        str(path.relative_to(site)): path.read_bytes()
        for path in site.rglob("*")
        if path.is_file() and path.name != LOCK
    }
    if (manifest := found.get(writer.MANIFEST)) is not None:
        listed = json.loads(manifest)
        del listed["summary"]
        found[writer.MANIFEST] = json.dumps(listed).encode()
    return found


def update(root: Path, site: Path) -> None:
    """As `flashbench publish`."""
    known = Source(root, root / ".asv/results")
    state = source.source_state(known)
    assert state.key
    if writer.unchanged(site, state.key) is None:
        publish(gather(known), site, state.key_if_same)


def make_history(root: Path, count: int) -> Path:
    """Measured commits; the first case gets slower half way through thirty."""
    commits = make_repository(root, [f"Change {number}" for number in range(count)])
    levels = {CASES[0]: 1.2, CASES[1]: 1.0}
    measure(root / ".asv/results", commits, lambda index, case: 0.5 * levels[case] ** (index >= 15))
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Thirty commits."""
    return make_history(tmp_path / "project", 30)


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """Enough commits for the read cache."""
    return make_history(tmp_path / "project", 120)


def _commit(root: Path, draw: random.Random) -> None:
    """One more, with the results of another."""
    git(root, "reset", "-q", "--hard", "main")
    git(root, "commit", "-q", "--allow-empty", "-m", f"More {draw.random()}")
    tip = git(root, "rev-parse", "HEAD")
    model = draw.choice(_results(root))
    content = json.loads(model.read_text()) | {"commit_hash": tip}
    model.with_name(f"{tip[:8]}{model.name[8:]}").write_text(json.dumps(content))


def _remove(root: Path, draw: random.Random) -> None:
    draw.choice(_results(root)).unlink()


def _rewrite(root: Path, draw: random.Random) -> None:
    """Other numbers, with the size and the times of the old file."""
    path = draw.choice(_results(root))
    text, known = path.read_text(), path.stat()
    place = text.index(": [[") + len(": [[0.000")
    digit = str((int(text[place]) + 1) % 10)
    path.write_text(text[:place] + digit + text[place + 1 :])
    os.utime(path, ns=(known.st_atime_ns, known.st_mtime_ns))
    assert path.stat().st_size == known.st_size


def _damage(root: Path, draw: random.Random) -> None:
    path = draw.choice(_results(root))
    path.write_text(path.read_text()[:-9])


def _damage_cache(root: Path, draw: random.Random) -> None:
    """And a commit, so that there is something new."""
    for path in (root / "cache").glob("builds/results/*/*"):
        content = bytearray(path.read_bytes())
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content[: draw.choice([len(content), draw.randrange(len(content))])])
    _commit(root, draw)


def test_what_was_just_measured_is_known_the_next_time(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files too recent to trust are trusted if they are the same once the site is made."""
    monkeypatch.setenv("FLASHBENCH_CACHE", str(root / "cache"))
    known, site = Source(root, root / ".asv/results"), tmp_path / "site"
    path, *_ = _results(root)
    for changed in (False, True):
        monkeypatch.setattr(file_facts, "SETTLED", 1000.0)
        state = source.source_state(known)
        assert state.key == state.key_if_same() == ""
        assert set(_results(root)) <= state.recent.keys()
        if changed:
            _same_facts(path, path.read_text().replace("0.0", "0.1", 1), monkeypatch)
        monkeypatch.setattr(file_facts, "SETTLED", 0.0)
        assert bool(state.key_if_same()) is not changed
        publish(gather(known), site, state.key_if_same)
        now = source.source_state(known).key
        assert now == state.found
        assert (writer.unchanged(site, now) is None) is changed


def _same_facts(path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a file whose size and times then seem to be the old ones."""
    before, facts_of = file_facts.facts_of(path), file_facts.facts_of
    assert len(text) == before.size
    path.write_text(text)
    monkeypatch.setattr(source, "facts_of", lambda one: before if one == path else facts_of(one))


def _results(root: Path) -> list[Path]:
    return sorted((root / ".asv/results/box").glob("*-*.json"))


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.thorough) for n in (1, 2))]
)
def test_step_by_step_is_what_comes_at_once(
    root: Path, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After commits, results that are removed, rewritten in place or damaged, and damage to what
    was kept of them: byte for byte the site that is made into an empty folder, with no cache."""
    monkeypatch.setattr(folder, "_MANY", 10)
    monkeypatch.setattr(encode, "BLOCK", 16)
    draw = random.Random(seed)
    site = tmp_path / "site"
    steps = [_commit, _remove, _rewrite, _damage, _damage_cache]
    monkeypatch.setenv("FLASHBENCH_CACHE", str(root / "cache"))
    update(root, site)
    assert len(list((root / "cache").glob("builds/results/*/[0-9a-f]*"))) == 30
    for number, step in enumerate(draw.choices(steps, k=8)):
        before = contents(site)
        step(root, draw)
        monkeypatch.setenv("FLASHBENCH_CACHE", str(root / "cache"))
        update(root, site)
        assert contents(site) != before
        fresh = tmp_path / f"fresh-{number}"
        monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / f"cache-{number}"))
        update(root, fresh)
        assert contents(site) == contents(fresh)


def test_killed_at_any_moment(long: Path, tmp_path: Path) -> None:
    """SIGKILL leaves a folder that the next publisher makes right, with no halves in it, whatever
    was kept of the results by then."""
    site, cache = tmp_path / "site", tmp_path / "cache"
    draw = random.Random(1)
    command = ["publish", "-o", site]
    environment = {"FLASHBENCH_CACHE": str(cache)}
    for number in range(9):
        _commit(long, draw)
        if number == 6:  # the second round: pages that are there, and nothing kept
            shutil.rmtree(cache)
        started = time.monotonic()
        publisher = forks.start(command, long, environment)
        while publisher.poll() is None:
            # Some, and the last one, are killed while they write, whatever the machine's speed.
            written = sum(len(files) for place in (cache, site) for *_, files in os.walk(place))
            if written > 30 * number or time.monotonic() - started > 30:
                publisher.kill()
                break
            time.sleep(0.005)  # leave the processor to it
        publisher.wait()
    assert forks.run(command, long, environment).returncode == 0
    assert len(list(cache.glob("builds/results/*/[0-9a-f]*"))) == len(_results(long)) == 129
    from_nothing(long, tmp_path)
    assert contents(site) == contents(tmp_path / "fresh")


def from_nothing(root: Path, tmp_path: Path) -> None:
    """The site in `fresh`, without what was kept of the results."""
    environment = {"FLASHBENCH_CACHE": str(tmp_path / "none")}
    done = forks.run(["publish", "-o", tmp_path / "fresh"], root, environment)
    assert done.returncode == 0, done.stderr


def test_two_at_once(long: Path, tmp_path: Path) -> None:
    """Publishers of one folder wait for each other, share what is kept of the results, and what a
    measurement writes meanwhile is either in the site or comes with the next call."""
    site = tmp_path / "site"
    command = ["publish", "-o", site]
    environment = {"FLASHBENCH_CACHE": str(tmp_path / "cache")}
    draw = random.Random(2)
    publishers = []
    for _ in range(3):
        publishers.append(forks.start(command, long, environment))
        _commit(long, draw)
    for publisher in publishers:
        _, said = publisher.communicate(timeout=120)
        assert publisher.returncode == 0, said
        assert said.count("\n") <= 2  # a file that was being written is passed over with a note
    assert forks.run(command, long, environment).returncode == 0
    from_nothing(long, tmp_path)
    assert contents(site) == contents(tmp_path / "fresh")


# As `sh -c` with the folder of the test: a disk of its own, which goes with the process.
DISK = """
cd "$1" && mkdir disk && mount -t tmpfs -o size=$2 tmpfs disk || exit 77
"""


def on_small_disk(folder: Path, size: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in `folder`, whose folder `disk` is a file system of that size."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare: a small disk cannot be made")
    rights = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    done = subprocess.run(
        ["unshare", *rights, "sh", "-c", DISK + script, "sh", str(folder), size],
        env=ENVIRONMENT | {"FLASHBENCH": f"{sys.executable} -P -m flashbench"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()[:200]}")
    return done


def test_a_full_disk_leaves_a_site_that_opens(root: Path, tmp_path: Path) -> None:
    """One line with the fix and exit code 2; the pages are intact, and publishing continues once
    there is space."""
    update(root, tmp_path / "fresh")
    done = on_small_disk(
        tmp_path,
        "100k",
        """
        cd project && $FLASHBENCH publish -o ../disk/site; echo "code $?"
        cp -r ../disk/site ../half
        mount -o remount,size=50m ../disk
        $FLASHBENCH publish -o ../disk/site >&2; echo "code $?"
        cp -r ../disk/site ../whole
        """,
    )
    assert done.stdout == "code 2\ncode 0\n", done.stderr
    (said, *_) = done.stderr.splitlines()
    assert "No space left on device; free some space and publish again" in said
    fresh, half = contents(tmp_path / "fresh"), contents(tmp_path / "half")
    half.pop(".flashbench-site.json")
    assert 5 < len(half) < len(fresh)
    assert "index.html" not in half  # it comes last
    assert half.items() <= fresh.items()
    assert contents(tmp_path / "whole") == fresh


def test_a_full_disk_for_what_is_kept_is_done_without(long: Path, tmp_path: Path) -> None:
    """Without room for it the site is made all the same, and no half of an entry stays."""
    done = on_small_disk(
        tmp_path,
        "50k",
        """
        cd project && FLASHBENCH_CACHE=../disk $FLASHBENCH publish -o ../site; echo "code $?" >&2
        find ../disk -type f -name '[0-9a-f]*' | wc -l >&2; find ../disk -type f -name '.*'
        """,
    )
    *said, code, entries = done.stderr.splitlines()
    assert code == "code 0", said
    assert 0 < int(entries) < 120
    assert done.stdout == "../site/index.html\n"
    update(long, tmp_path / "fresh")
    assert contents(tmp_path / "site") == contents(tmp_path / "fresh")


def test_a_full_disk_keeps_what_was_recorded(tmp_path: Path) -> None:
    """`record` on a full disk: one line, exit code 2, and the results that were there are whole."""
    root = tmp_path / "project"
    for number, commit in enumerate(make_repository(root, ["One", "Two"])):
        run = runfile.read(ROOT / "results/cpu.json")
        for candidate in run.candidates:
            candidate.build = BuildIdentity(commit="" if candidate.baseline else commit)
        runfile.save(run, root / f"run-{number}.json")
    done = on_small_disk(
        tmp_path,
        "500k",
        """
        cd project
        keep() { $FLASHBENCH record $1 --results ../disk/results --machine box; echo "code $?"; }
        keep run-0.json
        head -c 1000k /dev/zero > ../disk/filler
        cp -r ../disk/results ../before; keep run-1.json; cp -r ../disk/results ../after
        """,
    )
    assert done.stdout == "code 0\ncode 2\n", done.stderr
    assert "No space left on device; fix that and record run-1.json again" in done.stderr
    assert "Traceback" not in done.stderr
    before, after = contents(tmp_path / "before"), contents(tmp_path / "after")
    assert after == before
    assert sum(path.startswith("box/") for path in after) == 2  # machine.json and the commit's


@pytest.mark.parametrize("command", ["publish", "history", "history --format json"])
def test_a_full_standard_output_is_told(root: Path, command: str) -> None:
    """What cannot be written to stdout is one line and exit code 2, not a success."""
    with Path("/dev/full").open("w") as full:
        done = forks.run(command.split(), root, stdout=full.fileno())
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith("flashbench: stdout: cannot be written: No spa")
