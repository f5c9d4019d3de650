"""The folder of the site: what is rewritten, what is left alone, what is refused."""

import re
import unicodedata
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages.sample import BROKEN, CASES, COMMITS, HOSTILE, STEP, content

from flashbench.errors import InvalidInputError
from flashbench.figures.roofline import data_sheet
from flashbench.history.model import Points
from flashbench.revisions.commits import Commit
from flashbench.site import encode, pages
from flashbench.site.commit_pages import CommitPages
from flashbench.site.content import (
    Content,
    Graph,
    Latest,
    case_page,
    commit_page,
    drawn,
    machine_page,
    shown,
)
from flashbench.site.project_name import project_name
from flashbench.site.publish import publish
from flashbench.site.standings import standings
from flashbench.site.writer import MANIFEST

SAMPLE = content()
STATIC = Path(encode.__file__).parent / "static"


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def longer(known: Content) -> Content:
    """The same history with one more commit, at which the first series has a number."""
    commit = Commit("ff" * 20, (known.history.commits[-1].id,), 1_770_000_000, "A", "Another")
    first = known.history.series[0]
    grown = {name: _grown(getattr(first, name), COMMITS) for name in ("points", "control", "ratio")}
    history = replace(
        known.history,
        commits=(*known.history.commits, commit),
        series=(replace(first, **grown), *known.history.series[1:]),
    )
    first, *others = drawn(history)
    graphs = (Graph(first, known.graphs[0].changes), *map(Graph, others))
    return replace(known, history=history, graphs=graphs)


def _grown(points: Points, commit: int) -> Points:
    columns = {name: getattr(points, name) for name in Points.__slots__}
    last = {name: column[-1:] for name, column in columns.items()} | {"commit": [commit]}
    return Points(**{name: np.concatenate([columns[name], last[name]]) for name in columns})


def test_the_same_history_writes_nothing(tmp_path: Path) -> None:
    """A second call finds every file as it should be, and the first one is reproduced elsewhere."""
    first = publish(SAMPLE, tmp_path / "a")
    assert (first.written, first.removed) == (first.files, 0)
    assert publish(SAMPLE, tmp_path / "a").written == 0
    publish(content.__wrapped__(), tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_one_commit_more_writes_what_it_changes(tmp_path: Path) -> None:
    """Its page, its neighbour's, its series and the lists; what results is as if made at once."""
    publish(SAMPLE, tmp_path / "a")
    more = longer(SAMPLE)
    made = publish(more, tmp_path / "a")
    # Two pages of commits, one series, its case and the heat map; overview, commits, data/site.js.
    assert made.written == 2 + 1 + 1 + 1 + 3
    publish(more, tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_what_is_no_longer_part_of_it_is_removed(tmp_path: Path) -> None:
    """A commit that is gone takes its page along; other files stay."""
    publish(longer(SAMPLE), tmp_path)
    (tmp_path / "CNAME").write_text("example.org")
    assert publish(SAMPLE, tmp_path).removed == 1
    assert not (tmp_path / commit_page("ff" * 20)).exists()
    assert (tmp_path / "CNAME").read_text() == "example.org"


def test_the_newest_of_many_changes_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as a browser can take; how many more there are is said, and each has its commit."""
    monkeypatch.setattr(pages, "LISTED", 2)
    known = content()
    first, *others = known.graphs
    (change,) = first.changes
    changes = tuple(replace(change, commit=commit) for commit in (5, 15, 25))
    publish(replace(known, graphs=(replace(first, changes=changes), *others)), tmp_path)
    page = (tmp_path / "changes.html").read_text()
    assert "Below are the newest 2 of 3; the others are" in page
    links = [commit_page(known.history.commits[commit].id) in page for commit in (5, 15, 25)]
    assert links == [False, True, True]
    oldest = tmp_path / commit_page(known.history.commits[5].id)
    assert first.id in oldest.read_text()


def test_a_file_that_is_lost_is_made_again(tmp_path: Path) -> None:
    """Removing a page by hand does not leave a hole."""
    publish(SAMPLE, tmp_path)
    (tmp_path / "graphs.html").unlink()
    assert publish(SAMPLE, tmp_path).written == 1


def test_a_publisher_that_dies_leaves_nothing_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was being replaced when it ended is made anew, also where the history went back."""
    publish(SAMPLE, tmp_path / "a")
    replaced = Path.replace
    names = []

    def dies(self: Path, target: Path) -> Path:
        names.append(target.name)
        if len(names) == 4:
            raise KeyboardInterrupt
        return replaced(self, target)

    monkeypatch.setattr(Path, "replace", dies)
    with pytest.raises(KeyboardInterrupt):
        publish(longer(SAMPLE), tmp_path / "a")
    monkeypatch.undo()
    publish(SAMPLE, tmp_path / "a")
    publish(SAMPLE, tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (None, "has files that are no site"),
        (b"{", "damaged list"),
        (b'{"format":"other","version":1,"files":{}}', "damaged list"),
        (b'{"format":"flashbench-site","version":1,"files":{"../precious":""}}', "outside"),
        (b'{"format":"flashbench-site","version":1,"files":{"/precious":""}}', "outside"),
    ],
)
def test_a_folder_that_is_no_site_is_refused(
    tmp_path: Path, manifest: bytes | None, said: str
) -> None:
    """Foreign files, or a list that leads out of the folder: nothing is touched."""
    (tmp_path / "precious").write_text("mine")
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "also mine").write_text("mine")
    if manifest is not None:
        (folder / MANIFEST).write_bytes(manifest)
    before = contents(tmp_path)
    with pytest.raises(InvalidInputError, match=said):
        publish(SAMPLE, folder)
    assert contents(tmp_path) == before


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A file in the place of the folder is one line for the user."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="file: cannot be written"):
        publish(SAMPLE, tmp_path / "file")


class _Markup(HTMLParser):
    """Elements and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_pages_escape_untrusted_markup(tmp_path: Path) -> None:
    """No page has an inline script, style or handler, and every address stays in the folder."""
    publish(SAMPLE, tmp_path)
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) == COMMITS + len(CASES) + 4 + 2
    for path in pages:
        text = path.read_text()
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in text
        for tag, attributes in _Markup(text).found:
            assert tag not in ("img", "style", "iframe", "object", "base")
            assert not any(name == "style" or name.startswith("on") for name in attributes)
            assert tag != "script" or attributes["src"]
            for name in ("href", "src"):
                target = re.split("[#?]", attributes.get(name) or "")[0]
                assert not target or (path.parent / target).is_file(), (path, target)


@given(st.recursive(st.text() | st.integers(0, 9), lambda inner: st.lists(inner, max_size=3)))
def test_data_files_are_calls_with_json(value: object) -> None:
    """Whatever a text holds, the file is one call, ASCII where HTML or JavaScript would care."""
    made = encode.script("flashbench.site", value)
    assert made.startswith(b"flashbench.site(")
    assert made.endswith(b");\n")
    assert not re.search("[<>&\u2028\u2029]", made.decode())
    assert msgspec.json.decode(made[len(b"flashbench.site(") : -3]) == value


@given(st.text())
def test_what_is_shown_has_nothing_invisible(text: str) -> None:
    """Controls, overrides of direction and lone surrogates come out as their names."""
    spaces = {character for character in text if unicodedata.category(character) == "Zs"}
    assert all(character.isprintable() or character in spaces for character in shown(text))


def test_numbers_survive_the_data_file() -> None:
    """Values survive with five digits, and NaN as null."""
    graph = SAMPLE.graphs[0]
    line = next(one for one in encode.graph_data(graph)["lines"] if one["role"] == "speedup")
    back = np.array(line["v"]) * line["scale"]
    np.testing.assert_allclose(back, 1 / graph.series.ratio.value, rtol=1e-4)
    assert line["x"] == graph.series.ratio.commit.tolist()
    ratio = graph.series.ratio
    ratio = replace(ratio, low=np.where(ratio.commit == STEP, np.nan, ratio.low))
    holed = replace(graph, series=replace(graph.series, ratio=ratio))
    line = encode.graph_data(holed)["lines"][-1]
    assert line["hi"].count(None) == 1
    assert encode.graph_key(holed) != encode.graph_key(graph)


@pytest.mark.parametrize("block", [1, 5, COMMITS, COMMITS + 1])
def test_a_new_commit_leaves_earlier_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph's parts have all its points once, and the earlier one no commit of the newest
    block."""
    monkeypatch.setattr(encode, "BLOCK", block)
    start = COMMITS // block * block
    for graph in SAMPLE.graphs:
        made = encode.parts(graph, COMMITS)
        lines = [encode.graph_data(part)["lines"] for part in made.values()]
        assert [[one["role"] for one in part] for part in lines] == [
            [one["role"] for one in lines[0]]
        ] * len(made)
        whole = encode.graph_data(graph)["lines"]
        for number, line in enumerate(whole):
            assert line["x"] == [at for part in lines for at in part[number]["x"]]
        if "earlier" in made:
            assert max(made["earlier"].series.points.commit) < start
            assert not made["earlier"].changes


def test_a_commit_page_says_why_it_does_not_build(tmp_path: Path) -> None:
    """Status and reason of the build, and that nothing was measured."""
    publish(SAMPLE, tmp_path)
    text = (tmp_path / commit_page(SAMPLE.history.commits[BROKEN[0]].id)).read_text()
    assert '<h2 class="broken">missing header</h2>' in text
    assert "csrc/kernel.cpp:3: fatal error: &lt;/script&gt;" in text
    assert "This commit was not measured." in text


def test_a_message_is_shown_as_text_and_cut_where_it_is_long(tmp_path: Path) -> None:
    """The body keeps its lines, none of it is markup, and a page has room for some of it."""
    publish(SAMPLE, tmp_path)
    texts = {
        i: (tmp_path / commit_page(SAMPLE.history.commits[i].id)).read_text() for i in (3, 6, 9, 10)
    }
    assert "Why &lt;/script&gt;&lt;script&gt;" in texts[3]
    assert "\n    indented \\u202e\n&lt;/pre&gt;&lt;b&gt;bold" in texts[3]
    assert "line 499\n[cut here: 18889 characters in all]" in texts[6]
    assert "line 500\n" not in texts[6]
    assert "[cut here: 50000 characters in all]" in texts[9]
    assert texts[9].count("long") == 4000
    assert 'class="message"' not in texts[10]


def test_machines_of_like_names_have_pages_of_their_own() -> None:
    """Names that differ in what a file name cannot have do not collide."""
    names = ["a/b", "a:b", "a b", "", "..", HOSTILE, "x" * 500]
    pages = {machine_page(name) for name in names}
    assert len(pages) == len(names)
    assert all(re.fullmatch(r"machine-[A-Za-z0-9-]*\.html", page) for page in pages)


def test_peaks_are_of_the_device_that_is_meant() -> None:
    """An H200 is no H20, an L40 no L4; of a CPU, whose roofs are not known, nothing is drawn."""
    for name in ("NVIDIA H200", "NVIDIA A100-SXM4-80GB"):
        assert len(data_sheet("cuda", name)) == 1
    assert [*data_sheet("cuda", "NVIDIA H20"), *data_sheet("cuda", "NVIDIA L40S")] == []
    assert data_sheet("cpu", "L4") == []
    for latest in SAMPLE.latest:
        drawn = [figure.name for figure in latest.figures]
        assert drawn == ["speedups", "roofline"][: 1 + (latest.device == "cuda")]


def test_a_machine_page_draws_its_cases() -> None:
    """Every case of the table has a mark with its interval and verdict in words, and a link to its
    page; how the speed-ups of graphs differ is said."""
    for latest in SAMPLE.latest:
        text = _machine_page(latest)
        rows = [row for row in latest.table.rows if row["verdict"].text == "FASTER"]
        for row in rows:
            words = f"<title>{row['case'].text}: {row['speedup'].text} FASTER</title>"
            assert words in text
        with_page = {row["case"].text for row in latest.table.rows} & {*CASES}
        assert {*re.findall(r'"(cases/[^"]*)"', text)} == {*map(case_page, with_page)}
        assert "graphs and the pages of commits have the median of the launches" in text
        assert ("from the data sheet of NVIDIA H200: bf16 989.4" in text) is (
            latest.device == "cuda"
        )


def _machine_page(latest: Latest) -> str:
    """The page of its machine when it is the newest there."""
    known = replace(SAMPLE, latest=(latest,))
    changes = pages.change_rows(known)
    placed = standings(known.graphs)
    made = dict(pages.listing_pages(known, placed, changes, CommitPages(known, changes)))
    return made[machine_page(latest.machine)].decode()


def _luminance(colour: str) -> float:
    digits = colour if len(colour) == 6 else "".join(2 * digit for digit in colour)
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_texts_can_be_read_in_light_and_dark() -> None:
    """Every colour of text has the contrast of WCAG 2 AA, 4.5 to 1, on page and panel."""
    style = (STATIC / "style.css").read_text()
    schemes = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    assert len(schemes) == 2
    for scheme in schemes:
        colours = dict(re.findall(r"--(\w+): #([0-9a-f]{3,6})", scheme))
        for text in ("ink", "soft", "link", "ours", "control", "good", "bad", "gap"):
            for ground in ("page", "panel"):
                pair = sorted(_luminance(colours[name]) for name in (text, ground))
                assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, (text, ground)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (None, "folder"),
        ('{"project": "a // name", // a comment\n "other": [1, /* two */ ], }', "a // name"),
        ('{"project": "<b>"}', "<b>"),
        ('{"project": "  "}', "folder"),
        ('{"project": 3}', "folder"),
        ('["project"]', "folder"),
        ("{", "folder"),
        ("[" * 100_000, "folder"),
        ('"' + '\\"' * 100_000 + "\\", "folder"),
    ],
)
def test_the_project_is_called_as_in_asvs_configuration(
    tmp_path: Path, text: str | None, name: str
) -> None:
    """The name that asv knows, comments or not; of a file that says none, the folder's."""
    folder = tmp_path / "folder"
    folder.mkdir()
    if text is not None:
        (folder / "asv.conf.json").write_text(text)
    assert project_name(folder) == name


def test_a_provisional_slowdown_is_named_and_not_red(tmp_path: Path) -> None:
    """The front page counts a slowdown, and its row is red, only where it is not provisional."""
    first, *others = SAMPLE.graphs
    (change,) = first.changes
    speedup = replace(change.speedup, value=-0.2, low=-0.25, high=-0.15)
    for provisional, said, colour in ((False, "Yes: 1 of", "slower"), (True, "Maybe: 1 of", "")):
        slower = replace(change, speedup=speedup, provisional=provisional)
        graphs = (replace(first, changes=(slower,)), *others)
        folder = tmp_path / str(provisional)
        publish(replace(SAMPLE, graphs=graphs), folder)
        assert said in (folder / "index.html").read_text(encoding="utf-8")
        changes = (folder / "changes.html").read_text(encoding="utf-8")
        assert (f'class="n size {colour or "provisional"}"') in changes
        assert (", provisional</td>" in changes) == provisional
