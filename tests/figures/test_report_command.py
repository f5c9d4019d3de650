"""`flashbench report`: a page and folders of figures, made of real and of hostile run files."""

import csv
import importlib.util
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import forks
import msgspec
import numpy as np
import pytest
from synthetic import make_cases, make_run

from flashbench import machine
from flashbench.figures.chapter import chapter
from flashbench.figures.folder import file_names
from flashbench.figures.side_by_side import side_by_side
from flashbench.operations.attention.operation import attention_case
from flashbench.operations.attention.shapes import Shape
from flashbench.report import report_one
from flashbench.runfile import Ceilings, Result, RunFile, read, save

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden"
HOSTILE = "</style><script>broken = 1</script><img src=x onerror=alert(1)>\u202e\x1b[31m'\" 核"
FIGURES = {"speedups", "scaling-rate", "scaling-time", "distributions"}
FIGURES |= {"roofline", "memory"}


def hostile() -> RunFile:
    """A run file whose every text is markup."""
    run = make_run(np.random.default_rng(0), cases=make_cases(3), launches=9, candidate=HOSTILE)
    e = run.environment
    e.cpu = e.hostname = e.torch = e.python = e.system = e.driver = HOSTILE
    run.command, run.created, run.flashbench = [HOSTILE], HOSTILE, HOSTILE
    run.candidates[0].spec = run.candidates[0].build.commit = HOSTILE
    for launch in run.launches:
        launch.results[0] = Result(
            case=run.cases[0].id, candidate=HOSTILE, status="wrong", reason=HOSTILE
        )
    return run


def many() -> RunFile:
    """504 cases: 84 shapes, two masks, three dtypes."""
    shapes = [
        Shape(batch, heads, heads, length, length, dim)
        for dim in (64, 128, 256)
        for length in (128, 256, 512, 1024, 2048, 4096, 8192)
        for batch, heads in ((1, 8), (1, 16), (4, 16), (2, 32))
    ]
    cases = [
        attention_case(shape, dtype, causal, "cpu")
        for shape in shapes
        for dtype in ("fp32", "fp16", "bf16")
        for causal in (False, True)
    ]
    speeds = [0.9 + 0.003 * (i % 200) for i in range(len(cases))]
    rng = np.random.default_rng(3)
    return make_run(rng, cases=cases, launches=16, samples=4, speedup=speeds)


class Tags(HTMLParser):
    """Elements, attributes and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    done = forks.run(("report", GOLDEN / "a.json", GOLDEN / "gpu.json", "-o", "r.html"), folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return (folder / "r.html").read_text(encoding="utf-8")


def test_a_page_is_one_file(page: str) -> None:
    """Nothing is loaded, nothing runs; links lead to places in the page."""
    found = Tags(page)
    assert not found.tags & {"script", "img", "link", "iframe", "object", "form"}
    assert not [name for name in found.attributes if name.startswith("on")]
    assert "url(" not in page
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert len(found.ids) == len(set(found.ids))
    assert {link.removeprefix("#") for link in found.links} <= set(found.ids)


def test_a_page_has_all_parts(page: str) -> None:
    """For each run file: figures, tables, facts and methods; for each panel words."""
    ids = Tags(page).ids
    for number in (1, 2):
        parts = {f"run{number}-{name}" for name in FIGURES | {"tables", "facts", "methods"}}
        assert parts <= set(ids)
    assert page.count('role="img" aria-label="') == page.count('class="panel" role="img"') == 19
    assert (
        '<p class="answer">ours is a little slower than SDPA: 0.990 [0.989, 0.991] in the '
        "geometric mean; of 4 cases 1 FASTER, 1 SLOWER, 2 SAME; worst "
        "b1-h8-q128-d64-fp32-full-cpu, 0.800 [0.799, 0.801]</p>"
    ) in page
    assert "We measured ours against sdpa" in page
    assert "joint confidence of 95 % for 4 comparisons" in page
    assert "No roof for cpu fp16, fp32: the peaks of Test CPU with 2 threads are not known" in page


@pytest.mark.parametrize(
    ("name", "answer", "opened"),
    [
        ("failures", "ours, WRONG on 1 case, is faster than SDPA: 1.100 [", "NOT MEASURED: "),
        ("one_launch", "ours is undecided against SDPA: 1.001 [?, ?] in", "UNDECIDED: "),
        ("baseline", "Nothing is judged: times alone.", ""),
    ],
)
def test_the_answer_comes_first(tmp_path: Path, name: str, answer: str, opened: str) -> None:
    """Is it faster, by how much; then what is open. What cannot be judged is shown all the same."""
    done = forks.run(("report", GOLDEN / f"{name}.json"), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    above = done.stdout[: done.stdout.index('<p class="soft">')]
    first, *others = re.findall(r"<p(?: class=.answer.)?>(.*)</p>", above)
    assert first.startswith(answer)
    assert [text.startswith(opened) for text in others] == [True] * bool(opened)
    assert "run1-methods" in done.stdout


def test_run_files_stand_side_by_side(tmp_path: Path) -> None:
    """Several files: a row for each with its machine, the cases that they share in one figure with
    a legend of file and machine, and what they do not share in neither."""
    run = make_run(np.random.default_rng(1), cases=make_cases(3), launches=9, speedup=1.5)
    run.environment.cpu = "Other CPU"
    save(run, tmp_path / "other.json")
    text = forks.run(("report", GOLDEN / "a.json", "other.json"), tmp_path).stdout
    together = text[text.index('<section id="together"') : text.index('<section id="run1"')]
    assert re.findall(r'<th scope="row"[^>]*>(\w+)</th><td class="">([^<]+)</td>', together) == [
        ("a", "Test CPU with 2 threads"),
        ("other", "Other CPU with 2 threads"),
    ]
    assert "a (Test CPU with 2 threads)</li>" in together
    assert "other (Other CPU with 2 threads)</li>" in together
    shared = {case.id for case in read(GOLDEN / "a.json").cases} & {case.id for case in run.cases}
    assert shared
    drawn = re.findall(r"<title>(b\S+): [\d.]+ \[", together)
    assert sorted(drawn) == sorted([*shared, *shared])
    assert 'id="together' not in forks.run(("report", "other.json"), tmp_path).stdout
    two_candidates = read(GOLDEN.parents[1] / "results" / "h200-fa4.json")
    files = [("fa4", report_one(two_candidates)), ("other", report_one(run))]
    assert side_by_side(files).figure is None
    done = forks.run(("report", GOLDEN / "a.json", GOLDEN / "gpu.json"), tmp_path)
    assert "No case is in more than one of these files." in done.stdout


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    """Markup in names, labels, reasons and machines is shown; no file leaves the folder."""
    save(hostile(), tmp_path / "run.json")
    assert forks.run(("report", "run.json", "-o", "r.html"), tmp_path).returncode == 0
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    found = Tags(text)
    assert not found.tags & {"script", "img"}
    assert "broken = 1" in found.text
    assert not set("\u202e\x1b") & set(text)
    assert forks.run(("report", "run.json", "--format", "svg", "-o", "f"), tmp_path).returncode == 0
    assert {path.suffix for path in (tmp_path / "f").iterdir()} == {".svg", ".csv", ".txt"}
    for path in (tmp_path / "f").glob("*.svg"):
        root = ElementTree.parse(path).getroot()  # noqa: S314 (ours)
        assert not [e for e in root.iter() if e.tag.endswith(("script", "image", "foreignObject"))]
        assert not set("\u202e\x1b") & set(path.read_text(encoding="utf-8"))


def test_a_folder_has_picture_data_and_command(tmp_path: Path) -> None:
    """Each figure is a picture, its numbers as CSV, its caption and the command that made it."""
    arguments = ("report", GOLDEN / "a.json", "--format", "svg", "-o", "figures")
    assert forks.run(arguments, tmp_path).returncode == 0
    folder = tmp_path / "figures"
    assert {path.stem for path in folder.iterdir()} == FIGURES
    rows = list(csv.DictReader((folder / "speedups.csv").open()))
    assert [row["verdict"] for row in rows] == ["FASTER", "SLOWER", "SAME", "SAME"]
    assert (
        float(rows[0]["speedup_low"]) < float(rows[0]["speedup"]) < float(rows[0]["speedup_high"])
    )
    for name in FIGURES:
        root = ElementTree.parse(folder / f"{name}.svg").getroot()  # noqa: S314 (ours)
        assert root.tag.endswith("svg")
        words = (folder / f"{name}.txt").read_text()
        assert "$ flashbench report" in words
        assert "\n\ndevice time " in words
        assert len((folder / f"{name}.csv").read_text().splitlines()) > 4


def test_each_run_file_has_its_pictures() -> None:
    """Also of files whose names differ only in what no file name of ours has."""
    found = file_names(["a b", "a-b", "a/b", "..", "a-b-2"])
    assert found == ["a-b", "a-b-2", "a-b-3", "run", "a-b-2-2"]


@pytest.mark.parametrize(("form", "magic"), [("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_paper(tmp_path: Path, form: str, magic: bytes) -> None:
    """matplotlib draws the same figures, whatever the names."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    save(hostile(), tmp_path / "run.json")
    done = forks.run(("report", "run.json", "--format", form, "-o", "f"), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    pictures = list((tmp_path / "f").glob(f"*.{form}"))
    assert {path.stem for path in pictures} == FIGURES
    assert all(path.read_bytes().startswith(magic) for path in pictures)


@pytest.mark.parametrize(("name", "intervals"), [("a", 4), ("one_launch", 0)])
def test_paper_draws_the_intervals_that_are_known(name: str, intervals: int) -> None:
    """Too few launches for one leave the mark alone, and no line across the panel."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from flashbench.figures.paper import sheet

    found = chapter(name, read(GOLDEN / f"{name}.json")).figures[0]
    lines = [lines for axes in sheet(found).axes for lines in axes.collections]
    assert sum(len(one.get_paths()) for one in lines) == intervals


@pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is not None, reason="matplotlib is installed"
)
def test_paper_without_matplotlib(tmp_path: Path) -> None:
    """One line says what to install."""
    done = forks.run(("report", GOLDEN / "a.json", "--format", "pdf", "-o", "f"), tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pip install 'flashbench[figures]'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("report", "nowhere.json"), "nowhere.json"),
        (("report", HERE / "test_report_command.py"), "not a JSON run file"),
        (("report", GOLDEN / "a.json", "--format", "svg"), "name a folder with -o"),
        (("report", GOLDEN / "a.json", "-o", GOLDEN / "b.json"), "holds measurements"),
        (("report", GOLDEN / "a.json", "--roofs", GOLDEN / "a.json"), "no measured peaks"),
        (
            ("report", GOLDEN / "a.json", "--roofs", HERE / "../conftest.py"),
            "not a file with peaks",
        ),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, arguments: tuple[object, ...], said: str) -> None:
    """What is wrong, where, and exit code 2; nothing is written."""
    done = forks.run(arguments, tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


PEAKS = Ceilings(
    device="cpu",
    name="Test CPU",
    threads=2,
    measured="2026-01-02",
    flops={"fp16": 1e11, "fp32": 2e11},
    bytes_per_second=2e10,
)


def test_measured_roofs_are_drawn(tmp_path: Path) -> None:
    """Peaks from a file, or of the run file itself, stand in the figure and in its note; those of
    another processor, or of another number of threads, do not, nor does one that a case exceeds."""
    others = [
        msgspec.structs.replace(PEAKS, name="Other"),
        msgspec.structs.replace(PEAKS, threads=4),
    ]
    for name, ceilings in (("peaks", [*others, PEAKS]), ("others", others)):
        (tmp_path / f"{name}.json").write_bytes(msgspec.json.encode({"ceilings": ceilings}))
    run = read(GOLDEN / "a.json")
    run.ceilings = [PEAKS]
    save(run, tmp_path / "with.json")
    for arguments in ((GOLDEN / "a.json", "--roofs", "peaks.json"), ("with.json",)):
        text = forks.run(("report", *arguments), tmp_path).stdout
        assert "Roofs of cpu, measured on Test CPU with 2 threads at 2026-01-02: fp16 0.1" in text
        assert "No roof" not in text
        assert '<polyline class="f"' in text
        assert "dashed" not in text
    busy = msgspec.structs.replace(PEAKS, flops={"fp16": 1e8, "fp32": 2e11})
    run.ceilings = [msgspec.structs.replace(busy, cached_bytes_per_second=123e9)]
    save(run, tmp_path / "busy.json")
    text = forks.run(("report", "busy.json"), tmp_path).stdout
    assert re.search(
        r"No roof for cpu fp16 \([\d.]+ over 0.0001000 TFLOP/s\): a case ran above", text
    )
    assert "at 2026-01-02: fp32 0.2" in text
    assert "in a copy; dashed: 123.0 GB/s from cache." in text
    assert text.count('<polyline class="f"') == 2  # of memory, and dashed of the cache
    text = forks.run(("report", GOLDEN / "a.json", "--roofs", "others.json"), tmp_path).stdout
    assert "No roof for cpu fp16, fp32: the peaks of Test CPU with 2 threads are not known" in text
    assert '<polyline class="f"' not in text


def test_roofs_beside_a_run_file_are_drawn(tmp_path: Path) -> None:
    """Those of a machine profile in its folder, and the figure says that they are not the file's;
    another program's machine.json is none."""
    save(read(GOLDEN / "a.json"), tmp_path / "run.json")
    beside = tmp_path / "machine.json"
    beside.write_text('{"machine": "box", "version": 1}')  # asv's
    assert "No roof for cpu fp16, fp32" in forks.run(("report", "run.json"), tmp_path).stdout
    beside.unlink()
    machine.keep(PEAKS, beside)
    text = forks.run(("report", "run.json"), tmp_path).stdout
    assert text.count('<polyline class="f"') == 2
    assert "The run file has none: these may be of another machine of that kind." in text


def test_500_cases_can_be_read(tmp_path: Path) -> None:
    """All have their mark with its words, grouped by mask and head dim; the page stays small."""
    save(many(), tmp_path / "run.json")
    text = forks.run(("report", "run.json"), tmp_path).stdout
    assert len(text) < 3e6
    by_shape = text[text.index('id="run1-speedups"') :]
    by_shape = by_shape[: by_shape.index("</figure>")]
    assert by_shape.count("<title>b") == 504
    assert len(re.findall(r"cpu, (full|causal), head dim (?:64|128|256)\. ", by_shape)) == 6
    assert "24 of 504 cases are drawn" in text
    assert "<details><summary>Speed-ups: 504 rows" in text


def test_no_case_is_nothing_to_show(tmp_path: Path) -> None:
    """Exit code 4, as whenever nothing was measured."""
    save(make_run(np.random.default_rng(0), cases=[], launches=1), tmp_path / "run.json")
    done = forks.run(("report", "run.json"), tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1)
