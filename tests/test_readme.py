"""The README: one screen, with numbers that follow from run files."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import absolute_links
import forks
import pytest
import readme_pictures
import update_tables

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PLANTED = "results/machines/cpu-planted-5.json"
# The lines that can be seen so many milliseconds after the first frame.
SHOWN = """moment => {
  for (const one of document.getAnimations()) {
    one.pause();
    one.currentTime = moment || 0;
  }
  const seen = one => getComputedStyle(one.parentNode).opacity > 0;
  return [...document.querySelectorAll('text')].filter(seen).map(one => one.textContent);
}"""


def printed(*command: str) -> str:
    """What `-m flashbench ...` prints."""
    done = forks.run(command[2:], ROOT, {"COLUMNS": ""})  # readline sets it behind our back
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_geometric_means_and_the_best_rate_follow_from_the_run_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a change of results: python scripts/update_tables.py."""
    assert "<!-- means: " in README
    assert update_tables.BEST.search(README)
    monkeypatch.setattr(update_tables, "printed", printed)
    assert update_tables.updated(README) == README


def test_examples_are_what_the_commands_print() -> None:
    """Line by line, but for those that three dots stand for. The two branches were compared once:
    their file prints the same."""
    examples = re.findall(r"^```\n\$ (flashbench .*)\n((?:.*\n)+?)```", README, re.MULTILINE)
    assert len(examples) == 3
    kept = {"flashbench compare main WORKTREE": f"flashbench compare {PLANTED}"}
    assert f"(`{PLANTED}`)" in README
    for command, lines in examples:
        if "bisect" in command:  # takes a minute
            continue
        found = kept.get(command.partition(" --")[0], command)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = os.environ | {"PATH": path}
        shown = subprocess.run(
            ["bash", "-c", found], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        )
        pattern = re.escape(lines).replace(re.escape("...\n"), r"(?:.*\n)+")
        assert re.fullmatch(pattern, shown.stdout), found


@pytest.mark.parametrize("name", readme_pictures.PICTURES)
def test_pictures_follow_from_the_run_files(name: str) -> None:
    """After a change of results or of the table: python scripts/readme_pictures.py."""
    drawn = readme_pictures.PICTURES[name]()
    assert (ROOT / "docs" / "images" / name).read_text(encoding="utf-8") == drawn
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(drawn).iter()}  # noqa: S314 (ours)
    assert not tags & {"script", "foreignObject", "image"}
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md")]
    assert any(f"images/{name})" in page.read_text(encoding="utf-8") for page in pages)


def test_the_readme_has_one_picture() -> None:
    """More would push its first use below the screen."""
    assert README.count("](docs/images/") == 1


def test_the_recording_is_never_empty(browser: "Browser") -> None:
    """Its first frame is the still picture: a finished command; one stands there at any moment."""
    page = browser.new_page(reduced_motion="reduce")
    page.goto((ROOT / "docs" / "images" / "recording.svg").as_uri())
    still = page.evaluate(SHOWN)
    assert still[-1] == "1"  # the exit code of a regression
    page.emulate_media(reduced_motion="no-preference")
    moving = [page.evaluate(SHOWN, 100 * moment) for moment in range(0, 160, 4)]
    assert moving[0] == still
    assert all("$ echo $?" in texts for texts in moving)
    assert len({*map(tuple, moving)}) == 2 * len(readme_pictures.COMMANDS)
    page.close()


def test_links_lead_somewhere_from_an_index_page() -> None:
    """In a release each link is absolute, to a file that is there, and a picture is its bytes."""
    url, tag = "https://git.example/us/flashbench", "v1.0.0"
    text = absolute_links.absolute(README, url, tag)
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", text)
    assert len(links) > 10
    for image, target in links:
        base = f"{url}/{'raw' if image else 'blob'}/{tag}/"
        assert target.startswith(base)
        assert (ROOT / target.removeprefix(base)).is_file()
    assert absolute_links.absolute(text, url, tag) == text
    assert not re.search(r"<(?!!--)[a-z/]", README)  # HTML, which an index may drop


def test_the_readme_fits_on_a_screen() -> None:
    """What flashbench is, two commands, three uses, verdicts, links: no more."""
    assert len(README.splitlines()) <= 61
