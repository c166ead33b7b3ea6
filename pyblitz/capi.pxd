"""The binary interface of the cimport API: opaque types and plain functions.

Authors write ``from pyblitz cimport join``; ``pyblitz/__init__.pxd`` gives the
functions below their names.  Each carries the number of the interface, so that
an extension that was built against another one gets an ImportError which names
it, never a wrong read; Cython checks the signatures as well.

A kernel returns 0, or raises (Cython's ``except? -1``, which it adds to every
``cdef int`` function by itself), or returns a code of its own other than 0 and
-1, which the call that ran it returns.  ``noexcept`` kernels are as good.

What is inline here is compiled into the extension: the fast path of a lazy fork,
over the list in runtime/lazy.pxd that a Worker begins with.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from pyblitz.runtime.job cimport Job
from pyblitz.runtime.lazy cimport (
    Lazy, LazyList, fuse_burns, lazy_likely, lazy_pop, lazy_push, lazy_unlikely)

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

cdef struct Fork:
    # On the stack or wherever it stays in place until it is joined.
    Lazy lazy
    uint64_t own[12]        # the runtime's

cdef struct Task:
    # In the caller's memory until it has run.
    Job job
    void* fn
    void* ctx
    unsigned int memory     # TASK_CALLERS of scope.pxd
    unsigned int bound
    uint64_t own[3]         # the runtime's

ctypedef int (*task_fn)(Worker* w, void* ctx) except? -1 nogil
ctypedef int (*range_fn)(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) except? -1 nogil
ctypedef int (*scope_fn)(Worker* w, Scope* s, void* ctx) except? -1 nogil
# Adds items lo .. hi to acc.
ctypedef int (*reduce_fn)(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi,
                          void* acc) except? -1 nogil
# Adds `right`, the result of later items, to `left`.
ctypedef int (*combine_fn)(Worker* w, void* ctx, void* left, const void* right) except? -1 nogil
# Whether item a goes before item b.
ctypedef int (*less_fn)(const void* a, const void* b, void* ctx) except? -1 nogil

# The same without the check after each call, for calls from here.
ctypedef int (*unchecked_fn)(Worker* w, void* ctx) noexcept nogil

cdef int run_abi1(task_fn fn, void* ctx) except? -1 nogil
cdef int join_abi1(Worker* w, task_fn a, void* actx, task_fn b, void* bctx) except? -1 nogil
cdef int parallel_for_abi1(Worker* w, Py_ssize_t n, range_fn body, void* ctx,
                           Py_ssize_t grain) except? -1 nogil
cdef int parallel_reduce_abi1(Worker* w, Py_ssize_t n, reduce_fn leaf,
                              combine_fn combine, void* ctx, void* acc,
                              size_t acc_size, Py_ssize_t grain) except? -1 nogil
cdef int parallel_reduce_commutative_abi1(Worker* w, Py_ssize_t n, reduce_fn leaf,
                                          combine_fn combine, void* ctx, void* acc,
                                          size_t acc_size, Py_ssize_t grain) except? -1 nogil
cdef int scope_abi1(Worker* w, scope_fn body, void* ctx) except? -1 nogil
cdef int spawn_abi1(Worker* w, Scope* s, task_fn fn, void* ctx) except? -1 nogil
cdef int spawn_many_abi1(Worker* w, Scope* s, Task* tasks, Py_ssize_t n) except -1 nogil
cdef int scope_map_abi1(Worker* w, Scope* s, task_fn fn, void* ctx, size_t stride,
                        Py_ssize_t n) except -1 nogil
cdef int spawn_on_abi1(Worker* w, Scope* s, int index, task_fn fn, void* ctx) except -1 nogil
cdef int broadcast_abi1(Worker* w, task_fn fn, void* ctx) except? -1 nogil
cdef int submit_abi1(task_fn fn, void* ctx) except? -1 nogil
cdef int submit_keyed_abi1(uint64_t key, task_fn fn, void* ctx) except? -1 nogil
cdef int poll_abi1(Worker* w) except -1 nogil
cdef int sort_abi1(Worker* w, void* base, Py_ssize_t n, size_t size, less_fn less,
                   void* ctx) except? -1 nogil
cdef int sort_i32_abi1(Worker* w, int32_t* a, Py_ssize_t n) except? -1 nogil
cdef int sort_i64_abi1(Worker* w, int64_t* a, Py_ssize_t n) except? -1 nogil
cdef int sort_u32_abi1(Worker* w, uint32_t* a, Py_ssize_t n) except? -1 nogil
cdef int sort_u64_abi1(Worker* w, uint64_t* a, Py_ssize_t n) except? -1 nogil
cdef int sort_f32_abi1(Worker* w, float* a, Py_ssize_t n) except? -1 nogil
cdef int sort_f64_abi1(Worker* w, double* a, Py_ssize_t n) except? -1 nogil
cdef Worker* current_worker_abi1() noexcept nogil
cdef int num_workers_abi1(Worker* w) noexcept nogil
cdef int worker_index_abi1(Worker* w) noexcept nogil

cdef int no_worker_abi1(const char* name) except -1 nogil
cdef void fuse_burnt_abi1(Worker* w) noexcept nogil
cdef int lazy_join_slow_abi1(Worker* w, Fork* f, int ra) except? -1 nogil
cdef bint try_join_slow_abi1(Worker* w, Fork* f, int* rc) except -1 nogil

cdef inline int join_lazy(Worker* w, task_fn a, void* actx, task_fn b, void* bctx) except? -1 nogil:
    """As join, for forks that are hardly worth one: b stays in a list of this
    worker until it has waited for some microseconds, and runs here at the price
    of a call if it is reached before.  ``w`` is the caller's own worker.

    RuntimeError when ``w`` is NULL.  After Spice."""
    cdef Fork f
    cdef int ra
    if lazy_unlikely(w == NULL):
        return no_worker_abi1("join_lazy")
    lazy_push(<LazyList*>w, &f.lazy, <void*>b, bctx)
    if lazy_unlikely(fuse_burns(<LazyList*>w)):
        fuse_burnt_abi1(w)
    ra = (<unchecked_fn>a)(w, actx)
    if lazy_likely(lazy_pop(<LazyList*>w, &f.lazy)):
        return ra if ra else (<unchecked_fn>b)(w, bctx)
    return lazy_join_slow_abi1(w, &f, ra)

cdef inline int fork(Worker* w, Fork* f, task_fn fn, void* ctx) except -1 nogil:
    """Lets another worker run fn(w', ctx) if one becomes free.  ``f`` stays where
    it is until try_join, which must follow in this function; forks are joined
    in the opposite order of their making.

    RuntimeError when ``w`` is NULL."""
    if lazy_unlikely(w == NULL):
        return no_worker_abi1("fork")
    lazy_push(<LazyList*>w, &f.lazy, <void*>fn, ctx)
    if lazy_unlikely(fuse_burns(<LazyList*>w)):
        fuse_burnt_abi1(w)
    return 0

cdef inline bint try_join(Worker* w, Fork* f, int* rc) except -1 nogil:
    """Ends a fork.  False: nobody ran it, and nobody will: it is the caller's to
    run.  True: another worker did, and ``rc`` is what it returned.  Raises what
    it raised.

    RuntimeError when ``f`` is not the newest fork of this worker that was not
    joined yet."""
    if lazy_unlikely(w == NULL):
        return no_worker_abi1("try_join")
    if lazy_likely(lazy_pop(<LazyList*>w, &f.lazy)):
        return False
    return try_join_slow_abi1(w, f, rc)

cdef inline void tick(Worker* w) noexcept nogil:
    """From time to time in a long leaf (every microsecond is often enough): lets
    forks that wait above it go to other workers.  NULL does nothing."""
    if w != NULL and lazy_unlikely(fuse_burns(<LazyList*>w)):
        fuse_burnt_abi1(w)

cdef inline void task_init(Task* t, task_fn fn, void* ctx) noexcept nogil:
    """Makes fn(w, ctx) a task for spawn_many."""
    t.fn = <void*>fn
    t.ctx = ctx
    t.memory = 1
