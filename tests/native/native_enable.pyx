# distutils: define_macros=NPY_NO_DEPRECATED_API=NPY_2_0_API_VERSION
"""What others do to NumPy's tables, and what stands there."""
cimport numpy as cnp
from numpy cimport ufunc
from pyblitz.runtime.atomic cimport (
    atomic_i64, i64_fetch_add_relaxed, i64_load_relaxed, i64_store_relaxed)

cnp.import_array()
cnp.import_ufunc()

ctypedef void (*loop_fn)(char**, const cnp.npy_intp*, const cnp.npy_intp*, void*) noexcept nogil

cdef extern from "numpy/ufuncobject.h":
    # NumPy 2.5's own declaration has Python's names of some.
    ctypedef struct PyUFuncObject:
        int ntypes
        loop_fn* functions
        void** data
    int PyUFunc_ReplaceLoopBySignature(ufunc, loop_fn, const int*, loop_fn*)

cdef loop_fn below = NULL
cdef atomic_i64 calls


cdef void counting(char** args, const cnp.npy_intp* dims, const cnp.npy_intp* steps, void* data) noexcept nogil:
    i64_fetch_add_relaxed(&calls, 1)
    below(args, dims, steps, data)


def put_counting(ufunc fn):
    """As another library would: in the place of the loop of doubles."""
    cdef int signature[3]
    global below
    i64_store_relaxed(&calls, 0)
    signature[0] = signature[1] = signature[2] = cnp.NPY_DOUBLE
    assert PyUFunc_ReplaceLoopBySignature(fn, counting, signature, &below) == 0


def take_counting_back(ufunc fn):
    cdef int signature[3]
    cdef loop_fn ours = NULL
    signature[0] = signature[1] = signature[2] = cnp.NPY_DOUBLE
    assert PyUFunc_ReplaceLoopBySignature(fn, below, signature, &ours) == 0
    return ours == counting


def counted():
    return i64_load_relaxed(&calls)


def table(ufunc fn):
    cdef PyUFuncObject* u = <PyUFuncObject*>fn
    return [<size_t><void*>u.functions[i] for i in range(u.ntypes)]


def call_loop(ufunc fn, int i, list arrays, list offsets, list steps, cnp.npy_intp n):
    """The i-th loop itself, of items that begin so many bytes into each array."""
    cdef PyUFuncObject* u = <PyUFuncObject*>fn
    cdef char* args[8]
    cdef cnp.npy_intp strides[8]
    for k, a in enumerate(arrays):
        args[k] = <char*>cnp.PyArray_DATA(<cnp.ndarray>a) + <cnp.npy_intp>offsets[k]
        strides[k] = steps[k]
    with nogil:
        u.functions[i](args, &n, strides, u.data[i] if u.data != NULL else NULL)
