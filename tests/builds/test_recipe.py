"""What the hash of our own sources depends on."""

from pathlib import Path

import pytest

from flashbench import source_hash
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
