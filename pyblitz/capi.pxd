"""The binary interface of the cimport API: opaque types and plain functions.

Authors write ``from pyblitz cimport join``; ``pyblitz/__init__.pxd`` gives the
functions below their names.  Each carries the number of the interface, so that
an extension that was built against another one gets an ImportError which names
it, never a wrong read; Cython checks the signatures as well.

A kernel returns 0, or raises (Cython's ``except? -1``, which it adds to every
``cdef int`` function by itself), or returns a code of its own other than 0 and
-1, which the call that ran it returns.  ``noexcept`` kernels are as good.
"""

cdef extern from *:
    """
    #ifndef PYBLITZ_CAPI
    #define PYBLITZ_CAPI
    typedef struct pyblitz_worker pyblitz_worker;
    typedef struct pyblitz_scope pyblitz_scope;
    #endif
    """
    ctypedef struct Worker "pyblitz_worker":
        pass
    ctypedef struct Scope "pyblitz_scope":
        pass

ctypedef int (*task_fn)(Worker* w, void* ctx) except? -1 nogil
ctypedef int (*range_fn)(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) except? -1 nogil
ctypedef int (*scope_fn)(Worker* w, Scope* s, void* ctx) except? -1 nogil
# Adds items lo .. hi to acc.
ctypedef int (*reduce_fn)(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi,
                          void* acc) except? -1 nogil
# Adds `right`, the result of later items, to `left`.
ctypedef int (*combine_fn)(Worker* w, void* ctx, void* left, const void* right) except? -1 nogil

cdef int run_abi1(task_fn fn, void* ctx) except? -1 nogil
cdef int join_abi1(Worker* w, task_fn a, void* actx, task_fn b, void* bctx) except? -1 nogil
cdef int parallel_for_abi1(Worker* w, Py_ssize_t n, range_fn body, void* ctx,
                           Py_ssize_t grain) except? -1 nogil
cdef int parallel_reduce_abi1(Worker* w, Py_ssize_t n, reduce_fn leaf,
                              combine_fn combine, void* ctx, void* acc,
                              size_t acc_size, Py_ssize_t grain) except? -1 nogil
cdef int scope_abi1(Worker* w, scope_fn body, void* ctx) except? -1 nogil
cdef int spawn_abi1(Worker* w, Scope* s, task_fn fn, void* ctx) except? -1 nogil
cdef int broadcast_abi1(Worker* w, task_fn fn, void* ctx) except? -1 nogil
cdef int submit_abi1(task_fn fn, void* ctx) except? -1 nogil
cdef Worker* current_worker_abi1() noexcept nogil
cdef int num_workers_abi1(Worker* w) noexcept nogil
cdef int worker_index_abi1(Worker* w) noexcept nogil
