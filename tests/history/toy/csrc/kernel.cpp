#include <Python.h>

#include "scale.h"

static PyObject* scale(PyObject*, PyObject*) { return PyFloat_FromDouble(SCALE); }

static PyObject* build_info(PyObject*, PyObject*) {
    return Py_BuildValue("{s:s}", "source_hash", SOURCE_HASH);
}

static PyMethodDef methods[] = {{"scale", scale, METH_NOARGS, nullptr},
                                {"build_info", build_info, METH_NOARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, methods,
                             nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&module); }
