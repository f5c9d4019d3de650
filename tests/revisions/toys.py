"""Projects whose revisions one process cannot hold, by where it would keep what both then find.

Revision `fast` waits 0.5 ms in each call, `slow` 5 ms.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from revisions.repository import Repository

SETTINGS = """\
[project]
name = "toy"
version = "0"

[tool.flashbench.project]
callable = "toy:attention"
build = {build}
"""
HEAD = """\
import sys, time
import torch
import torch.nn.functional as F
SECONDS = 0.0005
"""
CALL = "def attention(q, k, v, *, is_causal=False, enable_gqa=False):\n"
OPERATOR = """\
@torch.library.custom_op("toy::wait", mutates_args=())
def wait(q: torch.Tensor) -> torch.Tensor:
    time.sleep(SECONDS)
    return q.clone()
"""


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


ATTENDS = "    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)\n"
WAITS = f"{CALL}    q = torch.ops.toy.wait(q)\n{ATTENDS}"
# Packages in Python alone, by where the process keeps what is called.
REGISTERED = HEAD + OPERATOR + WAITS
PACKAGES = {
    "an operator, registered at the first call": HEAD
    + CALL
    + "    if not hasattr(torch.ops.toy, 'wait'):\n"
    + indented(indented(OPERATOR))
    + "    q = torch.ops.toy.wait(q)\n"
    + ATTENDS,
    "an override of torch's operator": HEAD
    + "library = torch.library.Library('aten', 'IMPL')\n"
    + "def wait(q):\n    time.sleep(SECONDS)\n    return q.clone()\n"
    + "library.impl('hardswish', wait, 'CPU')\n"
    + CALL
    + "    return F.scaled_dot_product_attention(torch.ops.aten.hardswish(q), k, v)\n",
    "sys.modules": HEAD
    + "def wait():\n    time.sleep(SECONDS)\n"
    + CALL
    + "    sys.modules['toy'].wait()\n    return F.scaled_dot_product_attention(q, k, v)\n",
    "torch's module": HEAD
    + "plain = F.scaled_dot_product_attention\n"
    + "def waiting(q, k, v):\n    time.sleep(SECONDS)\n    return plain(q, k, v)\n"
    + "F.waiting_attention = waiting\n"
    + f"{CALL}    return F.waiting_attention(q, k, v)\n",
    "torch's function": HEAD
    + "plain = F.logsigmoid\n"
    + "def waiting(q):\n    time.sleep(SECONDS)\n    return plain(q)\n"
    + "F.logsigmoid = waiting\n"
    + CALL
    + "    F.logsigmoid(q)\n    return F.scaled_dot_product_attention(q, k, v)\n",
    "an installed registry": HEAD
    + "import kernelhub\n"
    + "@kernelhub.register('wait')\ndef wait():\n    time.sleep(SECONDS)\n"
    + CALL
    + "    kernelhub.get('wait')()\n    return F.scaled_dot_product_attention(q, k, v)\n",
    "an installed setting": HEAD
    + "import kernelhub\nkernelhub.settings.seconds = SECONDS\n"
    + CALL
    + "    time.sleep(kernelhub.settings.seconds)\n"
    + "    return F.scaled_dot_product_attention(q, k, v)\n",
}
KERNELHUB = """\
class Settings:
    seconds = 0.0
settings = Settings()
class _Registry:
    def __init__(self):
        self.found = {}
_registry = _Registry()
def register(name):
    def add(function):
        _registry.found[name] = function
        return function
    return add
def get(name):
    return _registry.found[name]
"""
# A library in C++, with the seconds, and what it registers, from an object file of its own: so one
# compilation of torch's headers serves both. TorchLibraryInit is what the macros make.
OPERATOR_LIBRARY = """\
#include <ATen/core/Tensor.h>
#include <torch/library.h>
#include <unistd.h>
int microseconds();
bool overrides();
static at::Tensor wait(const at::Tensor& q) {
    usleep(microseconds());
    return q.clone();
}
static void define(torch::Library& m) { m.def("wait(Tensor q) -> Tensor", wait); }
static void implement(torch::Library& m) { m.impl("hardswish", wait); }
using Init = torch::detail::TorchLibraryInit;
static const Init* const registered = overrides()
    ? new Init(torch::Library::IMPL, implement, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__)
    : new Init(torch::Library::DEF, define, "toy", {}, __FILE__, __LINE__);
"""
OVERRIDES = "bool overrides() {{ return {}; }}\n"
MICROSECONDS = "int microseconds() { return 500; }\n"
LOADED = """\
import os
import torch
import torch.nn.functional as F
torch.ops.load_library(os.path.join(os.path.dirname(__file__), "liboperator.so"))
def attention(q, k, v, *, is_causal=False, enable_gqa=False):
    return F.scaled_dot_product_attention(torch.ops.{operator}(q), k, v)
"""
EXTENSION = """\
#include <Python.h>
#include <unistd.h>
int microseconds();
static PyObject* nap(PyObject*, PyObject*) { usleep(microseconds()); Py_RETURN_NONE; }
static PyMethodDef methods[] = {{"nap", nap, METH_NOARGS, nullptr}, {}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, methods};
PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&module); }
"""
# A library of each kind, and an operator in Python.
EVERYTHING = f"""\
{HEAD}{OPERATOR}\
import os
from toy import _C
torch.ops.load_library(os.path.join(os.path.dirname(__file__), "liboperator.so"))
{CALL}    _C.nap()
    q = torch.ops.aten.hardswish(torch.ops.toy.wait(q))
{ATTENDS}"""
EXTENDED = f"""\
import torch.nn.functional as F
from toy import _C
{CALL}    _C.nap()
    return F.scaled_dot_product_attention(q, k, v)
"""
BESIDE = """\
set -e
g++ -shared -fPIC -Wl,-soname,libtoy.so microseconds.cpp -o toy/libtoy.so
g++ -shared -fPIC -I{include} extension.cpp -o toy/_C.so -Ltoy -ltoy -Wl,-rpath,'$ORIGIN'
"""


def toy(root: Path, files: Mapping[str, str], build: list[str]) -> Repository:
    """A repository with the tags fast and slow, and `between`, which is as fast as fast."""
    repository = Repository(root)
    repository.write("pyproject.toml", SETTINGS.format(build=json.dumps(build)))
    for name, text in files.items():
        repository.write(name, text)
    repository.commit("Wait a little")
    repository.git("tag", "fast")
    for name, text in files.items():
        repository.write(name, text + ("# more words\n" if name.endswith(".py") else ""))
    repository.git("commit", "--allow-empty", "-aqm", "Say more")
    repository.git("tag", "between")
    for name, text in files.items():
        slow = text.replace("SECONDS = 0.0005", "SECONDS = 0.005").replace(
            "return 500", "return 5000"
        )
        repository.write(name, slow)
    repository.commit("Wait longer")
    repository.git("tag", "slow")
    return repository
