"""What the hash of our own sources depends on."""

from pathlib import Path

import pytest

from flashbench import source_hash
from flashbench.builds.content import content_hash
from flashbench.builds.recipe import OwnExtension


@pytest.mark.parametrize("link", ["csrc", "csrc/cpu/x.h", "csrc/more", "flashbench"])
def test_no_link_is_followed_out_of_the_checkout(tmp_path: Path, link: str) -> None:
    """What a link among the sources leads to outside makes no other hash; its text does."""
    outside = tmp_path / "outside"
    outside.mkdir()
    file = outside / ("source_hash.py" if link == "flashbench" else "x.h")
    checkout = tmp_path / "checkout"
    place = checkout / link
    place.parent.mkdir(parents=True)
    place.symlink_to(file if link.endswith(".h") else outside)
    hashes = set()
    for text in ("1", "2"):
        file.write_text(text)
        hashes.add(OwnExtension().source_hash(checkout))
    assert len(hashes) == 1
    place.unlink()
    place.symlink_to(tmp_path)
    assert OwnExtension().source_hash(checkout) not in hashes


def test_sources_without_links_hash_as_the_library_says(tmp_path: Path) -> None:
    """Without links the hash is the one that a library is built with."""
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "x.h").write_text("1")
    (tmp_path / "README.md").write_text("words")
    assert OwnExtension().source_hash(tmp_path) == source_hash.of_tree(tmp_path)


def test_what_links_lead_to_decides(tmp_path: Path) -> None:
    """A link among the sources may lead on over others: where any of them leads elsewhere, in the
    checkout or out of it, the hash is another; a file that no source leads to changes none."""
    for name in ("csrc/a.h", "third/x.h", "README"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    (tmp_path / "csrc" / "link").symlink_to("../middle")
    middle, hashes = tmp_path / "middle", []
    for target in ("third", "/usr/include", "/usr/lib", "nowhere", "csrc", "middle"):
        middle.unlink(missing_ok=True)
        middle.symlink_to(target)
        hashes += [content_hash(tmp_path, ["csrc"]), content_hash(tmp_path, ["csrc/link/x.h"])]
    assert len(set(hashes)) == len(hashes)
    before = content_hash(tmp_path, ["csrc"])
    (tmp_path / "README").write_text("2")
    assert content_hash(tmp_path, ["csrc"]) == before
