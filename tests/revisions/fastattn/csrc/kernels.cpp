// Attention as three loops over contiguous fp32, bound with Python's own C interface.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cmath>
#include <vector>

#include "config.h"

static void attend(const float* q, const float* k, const float* v, float* out, long planes,
                   long rows, long keys, long dim, int causal) {
    std::vector<float> weights(keys);
    for (long plane = 0; plane < planes; ++plane) {
        for (long row = 0; row < rows; ++row) {
            const float* query = q + (plane * rows + row) * dim;
            float* result = out + (plane * rows + row) * dim;
            const long seen = causal ? (row + 1 < keys ? row + 1 : keys) : keys;
            float highest = -INFINITY, total = 0;
            for (long key = 0; key < seen; ++key) {
                float dot = 0;
                for (long i = 0; i < dim; ++i) dot += query[i] * k[(plane * keys + key) * dim + i];
                weights[key] = SCALE * dot / std::sqrt(static_cast<float>(dim));
                highest = std::fmax(highest, weights[key]);
            }
            for (long key = 0; key < seen; ++key) {
                weights[key] = std::exp(weights[key] - highest);
                total += weights[key];
            }
            for (long i = 0; i < dim; ++i) result[i] = 0;
            for (long key = 0; key < seen; ++key)
                for (long i = 0; i < dim; ++i)
                    result[i] += weights[key] / total * v[(plane * keys + key) * dim + i];
        }
    }
    for (volatile long turn = 0; turn < DELAY; turn = turn + 1) {
    }
}

static PyObject* forward(PyObject*, PyObject* arguments) {
    Py_ssize_t q, k, v, out;
    long planes, rows, keys, dim;
    int causal;
    if (!PyArg_ParseTuple(arguments, "nnnnllllp", &q, &k, &v, &out, &planes, &rows, &keys, &dim,
                          &causal))
        return nullptr;
    attend(reinterpret_cast<const float*>(q), reinterpret_cast<const float*>(k),
           reinterpret_cast<const float*>(v), reinterpret_cast<float*>(out), planes, rows, keys,
           dim, causal);
    Py_RETURN_NONE;
}

static PyObject* marker(PyObject*, PyObject*) { return PyLong_FromLong(MARKER); }

static PyMethodDef methods[] = {{"forward", forward, METH_VARARGS, nullptr},
                                {"marker", marker, METH_NOARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_kernels", nullptr, -1, methods,
                             nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit__kernels() { return PyModule_Create(&module); }
