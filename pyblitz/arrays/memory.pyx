"""Where results lie; see memory.pxd."""
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_New
from libc.stddef cimport size_t
from libc.stdint cimport uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, strcpy

cimport numpy as cnp
from numpy cimport ndarray

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    object PyArray_Empty(int ndim, cnp.npy_intp* shape, cnp.dtype, int fortran)
    object PyDataMem_SetHandler(object handler)
    PyObject* default_handler "PyDataMem_DefaultHandler"
    ctypedef struct Allocator "PyDataMemAllocator":
        void* ctx
        void* (*malloc)(void* ctx, size_t size) noexcept nogil
        void* (*calloc)(void* ctx, size_t items, size_t size) noexcept nogil
        void* (*realloc)(void* ctx, void* p, size_t size) noexcept nogil
        void (*free)(void* ctx, void* p, size_t size) noexcept nogil
    ctypedef struct Handler "PyDataMem_Handler":
        char name[127]
        unsigned char version
        Allocator allocator

cdef extern from *:
    """
    /* PyArray_Empty steals the descriptor. */
    #define pb_incref_dtype(d) Py_INCREF((PyObject *)(d))
    """
    void Py_INCREF_dtype "pb_incref_dtype"(object)

cdef enum:
    LINE = 64

# ---- NumPy's handler of memory (NEP 49) -------------------------------------

cdef struct Head:
    # In front of what is given out.
    void* begin
    size_t size


cdef void* given(char* begin, size_t size) noexcept nogil:
    cdef Head* head
    if begin == NULL:
        return NULL
    head = <Head*>((<uintptr_t>begin + sizeof(Head) + LINE - 1) & ~<uintptr_t>(LINE - 1)) - 1
    head.begin = begin
    head.size = size
    return head + 1


cdef void* lines_malloc(void* ctx, size_t size) noexcept nogil:
    cdef size_t more = size + sizeof(Head) + LINE
    return given(<char*>malloc(more), size) if more > size else NULL


cdef void* lines_calloc(void* ctx, size_t items, size_t size) noexcept nogil:
    cdef size_t bytes = items * size
    if size != 0 and bytes // size != items or bytes + sizeof(Head) + LINE < bytes:
        return NULL
    return given(<char*>calloc(bytes + sizeof(Head) + LINE, 1), bytes)


cdef void lines_free(void* ctx, void* p, size_t size) noexcept nogil:
    if p != NULL:
        free((<Head*>p - 1).begin)


cdef void* lines_realloc(void* ctx, void* p, size_t size) noexcept nogil:
    cdef void* q = lines_malloc(ctx, size)
    if p != NULL and q != NULL:
        memcpy(q, p, min(size, (<Head*>p - 1).size))
        lines_free(ctx, p, 0)
    return q


cdef Handler lines
strcpy(lines.name, b"pyblitz_cache_lines")
lines.version = 1
lines.allocator.ctx = NULL
lines.allocator.malloc = lines_malloc
lines.allocator.calloc = lines_calloc
lines.allocator.realloc = lines_realloc
lines.allocator.free = lines_free

# NumPy gives memory back through the handler that it is of, at whatever time: it is never freed.
cdef object lines_handler = PyCapsule_New(&lines, "mem_handler", NULL)


# ---- empty ------------------------------------------------------------------

cdef ndarray empty(int ndim, cnp.npy_intp* shape, object dtype, bint fortran):
    cdef cnp.npy_intp bytes = (<cnp.dtype>dtype).itemsize
    cdef int d
    cdef object before
    for d in range(ndim):
        if bytes >= ALIGNED_TO:
            break
        bytes *= shape[d]
    Py_INCREF_dtype(dtype)
    if not ALIGNED_FROM <= bytes < ALIGNED_TO:
        return PyArray_Empty(ndim, shape, dtype, fortran)
    before = PyDataMem_SetHandler(lines_handler)
    if <PyObject*>before != default_handler:
        # Somebody has another wish.
        PyDataMem_SetHandler(before)
        return PyArray_Empty(ndim, shape, dtype, fortran)
    try:
        return PyArray_Empty(ndim, shape, dtype, fortran)
    finally:
        PyDataMem_SetHandler(before)


cdef ndarray empty_of(object shape, object dtype):
    cdef cnp.npy_intp dims[64]
    cdef int d, ndim = len(shape)
    for d in range(ndim):
        dims[d] = shape[d]
    return empty(ndim, dims, dtype, False)
