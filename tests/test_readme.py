"""The README: one screen, with numbers that follow from run files."""

import re
from pathlib import Path
from xml.etree import ElementTree

import absolute_links
import forks
import pytest
import readme_pictures
import update_tables

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def printed(*command: str) -> str:
    """What `-m flashbench ...` prints."""
    done = forks.run(command[2:], ROOT, {"COLUMNS": ""})  # readline sets it behind our back
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_line_of_geometric_means_follows_from_the_run_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a change of results: python scripts/update_tables.py."""
    assert "<!-- means: " in README
    monkeypatch.setattr(update_tables, "printed", printed)
    assert update_tables.updated(README) == README


def test_measured_rows_are_those_of_the_run_files() -> None:
    """Each row of a case in the README is one that `show` prints of the file named above it."""
    shown = "".join(
        printed("-m", "flashbench", "show", name)
        for name in ("results/cpu.json", "results/machines/cpu-planted-5.json")
    )
    rows = re.findall(r"^b\d+-h.*$", README, re.MULTILINE)
    assert len(rows) >= 4
    assert [row for row in rows if f"{row}\n" not in shown] == []


@pytest.mark.parametrize("name", readme_pictures.PICTURES)
def test_pictures_follow_from_the_run_files(name: str) -> None:
    """After a change of results or of the table: python scripts/readme_pictures.py."""
    drawn = readme_pictures.PICTURES[name]()
    assert (ROOT / "docs" / "images" / name).read_text(encoding="utf-8") == drawn
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(drawn).iter()}  # noqa: S314 (ours)
    assert not tags & {"script", "foreignObject", "image"}
    assert f"](docs/images/{name})" in README


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
