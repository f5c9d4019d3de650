"""Revisions of one package in one process: each one's modules are its own, now and later."""

import ctypes
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import flashbench
from flashbench.builds.content import library_hash
from flashbench.errors import NotMeasuredError
from flashbench.revisions import elf, load
from flashbench.revisions.load import load_callable, load_copy
from flashbench.runfile import BuildIdentity, Candidate


def import_root(root: Path, **modules: str) -> Path:
    """An import root with a package `fastattn` of these modules."""
    for name, text in modules.items():
        path = root / "fastattn" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


# How a function may import what it needs only when it is called.
LAZY = {
    "from_absolute": "from fastattn.late import VALUE; return VALUE",
    "absolute": "import fastattn.late; return fastattn.late.VALUE",
    "absolute_as": "import fastattn.late as late; return late.VALUE",
    "from_package": "from fastattn import late; return late.VALUE",
    "relative": "from .late import VALUE; return VALUE",
    "from_relative": "from . import late; return late.VALUE",
    "built_in_function": "return __import__('fastattn.late').late.VALUE",
    "importlib": "import importlib; return importlib.import_module('fastattn.late').VALUE",
    "importlib_relative": "from importlib import import_module as load\n"
    "    return load('.late', __package__).VALUE",
    "deeper": "from fastattn.inner.deep import value; return value()",
    "exec": "names = {}; exec('from fastattn.late import VALUE', globals(), names); "
    "return names['VALUE']",
}


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("how", LAZY)
def test_imports_of_a_call_are_the_revisions_own(tmp_path: Path, how: str, calls: int) -> None:
    """Whatever form an import inside a function has, it finds the function's own revision."""
    functions = []
    for value in (1, 2):
        root = import_root(
            tmp_path / str(value),
            __init__="",
            api=f"def attention():\n    {LAZY[how]}\n",
            late=f"VALUE = {value}",
        )
        inner = root / "fastattn" / "inner"
        inner.mkdir()
        (inner / "__init__.py").write_text("")
        (inner / "deep.py").write_text(
            "def value():\n    from ..late import VALUE\n    return VALUE"
        )
        functions.append(load_callable(root, "fastattn.api:attention").call)
    before, path = dict(sys.modules), list(sys.path)
    for _ in range(calls):
        assert [function() for function in functions] == [1, 2]
    assert sys.modules == before
    assert sys.path == path
    assert not [name for name in sys.modules if name.startswith("fastattn")]


def test_module_attribute_that_imports_is_the_revisions_own(tmp_path: Path) -> None:
    """A package whose `__getattr__` imports on demand does so in its own revision."""
    lazy = "def __getattr__(name):\n    from .api import attention\n    return attention\n"
    calls = [
        load_callable(
            import_root(
                tmp_path / str(value),
                __init__=lazy,
                api=f"import fastattn\ndef attention(): return {value}\ndef again():\n"
                "    return fastattn.attention()\n",
            ),
            f"fastattn{'' if value == 1 else '.api'}:{'attention' if value == 1 else 'again'}",
        ).call
        for value in (1, 2)
    ]
    assert [call() for call in calls] == [1, 2]


def test_other_packages_are_shared(tmp_path: Path) -> None:
    """What is not of the revision, torch before all, is the one module of the process."""
    text = (
        "import msgspec\ndef attention():\n    import msgspec as late\n    return msgspec, late\n"
    )
    call = load_callable(
        import_root(tmp_path, __init__="", api=text), "fastattn.api:attention"
    ).call
    import msgspec

    assert all(module is msgspec for module in call())


def test_modules_beside_the_package_are_the_revisions_own(tmp_path: Path) -> None:
    """A second top-level module of the project is isolated too."""
    calls = []
    for value in (1, 2):
        root = import_root(
            tmp_path / str(value), __init__="", api="from fast_helper import attention\n"
        )
        (root / "fast_helper.py").write_text(f"def attention(): return {value}\n")
        calls.append(load_callable(root, "fastattn.api:attention").call)
    assert [call() for call in calls] == [1, 2]
    assert "fast_helper" not in sys.modules


def test_package_without_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A namespace package is the revision's own directory, whatever else has that name."""
    calls = []
    for value in (1, 2):
        root = import_root(tmp_path / str(value), api="from fastattn.late import VALUE as value\n")
        late = f"VALUE = int\ndef attention():\n    import fastattn.more\n    return {value}\n"
        (root / "fastattn" / "late.py").write_text(late)
        (root / "fastattn" / "more.py").write_text("")
        calls.append(load_callable(root, "fastattn.late:attention").call)
    installed = import_root(tmp_path / "installed", extra="")
    monkeypatch.syspath_prepend(str(installed))
    assert [call() for call in calls] == [1, 2]
    with pytest.raises(NotMeasuredError, match=r"No module named 'fastattn\.extra'"):
        load_callable(tmp_path / "1", "fastattn.extra:attention")


def test_a_module_of_the_process_is_not_replaced(tmp_path: Path) -> None:
    """Files at the import root named like modules of Python do not stand in for them."""
    root = import_root(tmp_path, __init__="import json\nfrom json import dumps as attention\n")
    (root / "json.py").write_text("def dumps(*_): return 'not Python\\'s'\n")
    assert load_callable(root, "fastattn:attention").call(1) == "1"


def test_installed_package_does_not_stand_in(tmp_path: Path) -> None:
    """A submodule that the revision lacks is not taken from an installed package of that name."""
    (tmp_path / "flashbench").mkdir()
    (tmp_path / "flashbench" / "__init__.py").write_text("from flashbench.case import Case\n")
    with pytest.raises(NotMeasuredError, match=r"No module named 'flashbench\.case'"):
        load_callable(tmp_path, "flashbench:Case")
    assert sys.modules["flashbench"] is flashbench


SHARED = "int value() { return %d; }\n"
EXTENSION = """\
#include <Python.h>
int value();
static PyObject* attention(PyObject*, PyObject*) { return PyLong_FromLong(value()); }
static PyMethodDef methods[] = {{"attention", attention, METH_VARARGS, nullptr}, {}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "fast", nullptr, -1, methods};
PyMODINIT_FUNC PyInit_fast() { return PyModule_Create(&module); }
"""


STATIC = """\
template <class T> struct Tuning { static int turns; };
template <class T> int Tuning<T>::turns = %d;
inline int& kept() { static int turns = Tuning<int>::turns; return turns; }
int value() { return Tuning<int>::turns == kept() ? kept() : -1; }
"""


SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
INCLUDE = f"-I{sysconfig.get_path('include')}"


def gxx(root: Path, *arguments: object) -> None:
    subprocess.run(["g++", "-fPIC", *map(str, arguments)], cwd=root, check=True)


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The object file of a bare extension that returns the value of another one."""
    root = tmp_path_factory.mktemp("extension")
    (root / "fast.cpp").write_text(EXTENSION)
    gxx(root, "-c", INCLUDE, "fast.cpp")
    return root / "fast.o"


def link_site(
    root: Path, value: int, extension: Path, *, shared: bool = False, code: str = SHARED
) -> Path:
    """A bare extension that returns the value, from a library beside it if `shared`."""
    root.mkdir()
    (root / "value.cpp").write_text(code % value)
    link = ["value.cpp"]
    if shared:
        gxx(root, "-shared", "value.cpp", "-o", "libvalue.so")
        link = ["-L.", "-lvalue", "-Wl,-rpath,$ORIGIN"]
    gxx(root, "-shared", extension, *link, "-o", f"fast{SUFFIX}")
    return root


@pytest.mark.slow
def test_extensions_of_one_name(tmp_path: Path, extension: Path) -> None:
    """Two bare extension modules of one name are both loaded, each with its own code."""
    import_roots = [link_site(tmp_path / str(value), value, extension) for value in (1, 2)]
    assert [load_callable(root, "fast:attention").call() for root in import_roots] == [1, 2]


@pytest.mark.slow
def test_borrowed_library_is_refused(
    tmp_path: Path, extension: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second revision that would run the first one's shared library is not measured."""
    monkeypatch.setattr(load, "_kept", [])
    import_roots = [
        link_site(tmp_path / str(value), value, extension, shared=True) for value in (1, 2)
    ]
    assert load_callable(import_roots[0], "fast:attention").call() == 1
    with pytest.raises(NotMeasuredError, match=r"libvalue\.so of another revision"):
        load_callable(import_roots[1], "fast:attention")


@pytest.mark.slow
def test_static_variables_are_not_shared(tmp_path: Path, extension: Path) -> None:
    """Static members of templates and of inline functions, which one process would share, differ.

    This is what GCC marks as unique; without our change the second revision has the first's.
    """
    import_roots = [
        link_site(tmp_path / str(value), value, extension, code=STATIC) for value in (1, 2)
    ]
    digest = library_hash(import_roots[0])
    copies = tmp_path / "copies"
    copies.mkdir()
    calls = []
    for root in import_roots:
        build = BuildIdentity(library_hash=library_hash(root))
        candidate = Candidate(name="a", spec="fast:attention", build=build)
        calls.append(load_copy(root, copies, candidate, alone=False).call)
    assert [call() for call in calls] == [1, 2]
    assert library_hash(import_roots[0]) == digest
    joined = [load_callable(root, "fast:attention").call for root in import_roots]
    assert [call() for call in joined] == [1, 1]


@pytest.mark.slow
def test_only_what_no_other_library_defines_is_changed(tmp_path: Path, extension: Path) -> None:
    """Unique symbols that a loaded library of the process defines too stay joined with it."""
    root = link_site(tmp_path / "1", 1, extension, code=STATIC)
    (library,) = root.glob("*.so")
    other = tmp_path / "other.so"
    shutil.copy(library, other)
    ctypes.CDLL(str(other))
    before = library.read_bytes()
    assert elf.make_ordinary([library], [str(other), "/proc/self/exe", "[heap]"]) == []
    assert library.read_bytes() == before
    assert len(elf.make_ordinary([library], [])) == 3  # both variables and the guard of one
    assert elf.make_ordinary([library], []) == []


@pytest.mark.parametrize("length", [0, 4, 6, 64, 300, 5000])
def test_damaged_library_is_left_to_the_loader(tmp_path: Path, length: int) -> None:
    """A cut file, or one that is no library, is neither changed nor an error."""
    path = tmp_path / "cut.so"
    content = Path(sys.modules["msgspec._core"].__file__ or "").read_bytes()[:length]
    path.write_bytes(content)
    assert elf.make_ordinary([path], []) == []
    assert path.read_bytes() == content


PYBIND11 = """\
#include <pybind11/pybind11.h>
int value();
PYBIND11_MODULE(_C, module) { module.def("attention", value); }
"""


@pytest.mark.slow
@pytest.mark.thorough
def test_pybind11_modules_of_one_name(tmp_path: Path) -> None:
    """pybind11, which keeps modules by their name, gives each revision its own functions."""
    pybind11 = pytest.importorskip("pybind11", reason="pybind11 is not installed")
    (tmp_path / "bound.cpp").write_text(PYBIND11)  # compiled once, as that takes long
    gxx(tmp_path, "-c", INCLUDE, f"-I{pybind11.get_include()}", "bound.cpp")
    import_roots = []
    for value in (1, 2):
        root = import_root(tmp_path / str(value), __init__="from fastattn._C import attention\n")
        (root / "value.cpp").write_text(SHARED % value)
        library = root / "fastattn" / f"_C{SUFFIX}"
        gxx(root, "-shared", tmp_path / "bound.o", "value.cpp", "-o", library)
        import_roots.append(root)
    loaded = [load_callable(root, "fastattn:attention") for root in import_roots]
    assert [one.call() for one in loaded] == [1, 2]
    files = [Path(str(one.modules["fastattn._C"].__file__)) for one in loaded]
    assert [file.parents[1] for file in files] == import_roots


def test_module_from_elsewhere_is_refused(tmp_path: Path) -> None:
    """A revision whose import gives another one's module is not measured in its name."""
    borrowed = (
        "import sys\nmine = sys.modules[__name__]\nmine.__file__ = '/elsewhere/fastattn.py'\n"
        "def attention(): return 0\n"
    )
    root = import_root(tmp_path, __init__=borrowed)
    with pytest.raises(NotMeasuredError, match="not loaded from the revision"):
        load_callable(root, "fastattn:attention")


def test_working_tree_is_not_the_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that is found in the working tree alone is no part of any revision: neither an
    import of it nor a call is taken for the revision's."""
    tree = tmp_path / "repository"
    (tree / "kernels_of_tree").mkdir(parents=True)
    (tree / "kernels_of_tree" / "impl.py").write_text("def wait():\n    return 1\n")
    monkeypatch.syspath_prepend(str(tree))
    late = "def attention():\n    from kernels_of_tree import impl\n    return impl.wait()\n"
    loaded = load_callable(
        import_root(tree / ".cache" / "a", __init__=late), "fastattn:attention", str(tree)
    )
    told = r"kernels_of_tree/impl\.py of the working tree.*add kernels_of_tree/__init__\.py"
    assert re.search(told, loaded.witness.disproof(loaded.call))
    for name in [name for name in sys.modules if name.startswith("kernels_of_tree")]:
        del sys.modules[name]
    early = "from kernels_of_tree import impl\nattention = impl.wait\n"
    root = import_root(tmp_path / "b", __init__=early)
    with pytest.raises(NotMeasuredError, match=told):
        load_callable(root, "fastattn:attention", str(tree))
