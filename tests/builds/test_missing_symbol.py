"""The unit that should define a symbol, found from the sources' text and the log."""

from pathlib import Path

import pytest

from flashbench.builds.missing_symbol import should_have_held

LOG = "c++ -c csrc/bind.cpp\nc++ -c csrc/compiled.cpp\n"


@pytest.mark.parametrize(
    ("symbol", "text", "says"),
    [
        (
            "fast::launch(int, float const*)",
            "void\nlaunch(\n    int n,\n    const float* x)\n{\n}",
            1,
        ),
        ("MARKER", "long MARKER = 1;", 1),
        ("fast::table", "const int fast::table[4] = {1, 2};", 1),
        ("Plan::~Plan()", "Plan::~Plan() {}", 1),
        ("Plan::Plan(int)", "Plan::Plan(int m)\n    : n(m) {}", 1),
        ("void launch<half>(half*)", "template void launch<float>(float*);", 1),
        ("K<double, 128>::run(double)", "template struct K<float, 64>;  // run", 1),
        ("launch(int)", "extern void launch(int);\nint f() { return launch(1); }", 0),
        ("MARKER", "extern long MARKER;\nlong f() { return MARKER; }", 0),
        ("MARKER", "long f() {\n    return MARKER;\n}", 0),
        ("Plan::operator()(int) const", "bool Plan::operator()(int) const { return true; }", 0),
    ],
)
def test_unit_that_was_not_compiled(tmp_path: Path, symbol: str, text: str, says: int) -> None:
    """A function, member, variable or instantiation is found where it is defined, not where it is
    declared or used."""
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "left_out.cu").write_text(f"// x\n{text}\n")
    found = should_have_held(f"undefined symbol: {symbol}", tmp_path, LOG)
    assert found == ("csrc/left_out.cu should hold it, and was not compiled" if says else "")


def test_unit_that_instantiates_others(tmp_path: Path) -> None:
    """A compiled unit that instantiates the class for other arguments is reported as such."""
    (tmp_path / "compiled.cpp").write_text("void K<T>::run() {}\ntemplate struct K<float>;\n")
    found = should_have_held("undefined symbol: K<double>::run()", tmp_path, LOG)
    assert found == "compiled.cpp should hold it: it instantiates run for others"


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("", False),
        ("/usr/bin/ld: bind.cpp:(.text+0x1f): undefined reference to `K<double>::run()'\n", False),
        ("csrc/bind.cpp:3:1: warning: unused\nld: x/bind.cpp.o: in function `f':\n", False),
        ("[ 50%] Building CXX object CMakeFiles/x.dir/csrc/bind.cpp.o\n", True),
        ("ccache c++ -c csrc/bind.cpp", True),
    ],
)
@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("template struct K<float>;  // run", "instantiates run for others"),
        ("void run(int) {}", "defines another run"),
    ],
)
def test_a_log_that_names_no_unit(
    tmp_path: Path, log: str, told: bool, text: str, does: str
) -> None:
    """Where the log names what is compiled nowhere but in diagnostics, no unit is said to be left
    out for certain."""
    (tmp_path / "bind.cpp").write_text("int main();\n")
    (tmp_path / "core.cpp").write_text(f"{text}\n")
    found = should_have_held("undefined symbol: K<double>::run()", tmp_path, log)
    unsure = f"it {does}, or was not compiled (the build's log does not say)"
    sure = "core.cpp should hold it, and was not compiled"
    assert found == (sure if told else f"core.cpp should hold it: {unsure}")
