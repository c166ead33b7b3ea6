"""The functions behind ``from pyblitz cimport ...``: see capi.pxd.

join, parallel_for, parallel_reduce, scope and broadcast take the Worker that the
caller was handed, or NULL: "whatever this thread is", which enters the pool from
outside when it is no worker yet.  The others need a Worker.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from pyblitz._python cimport Entry, borrow, enter, leave
from pyblitz.kernels.merge cimport ORDER_LESS, MergeSort, merge_sort, order_by
from pyblitz.kernels.radix cimport (
    KEY_FLOAT, KEY_SIGNED, KEY_UNSIGNED, KeyKind, sort_in_place)
from pyblitz.runtime.atomic cimport likely
from pyblitz.runtime.bridge cimport Bridge, bridge_init, bridge_run
from pyblitz.runtime.job cimport Job, job_fn
from pyblitz.runtime.lazy cimport lazy_any
from pyblitz.runtime.os cimport now_ns
from pyblitz.runtime cimport join as rt
from pyblitz.runtime cimport lane as rl
from pyblitz.runtime cimport pool as rp
from pyblitz.runtime cimport scope as rs

# Cython wants the GIL for a cast from an `except? -1` function; the runtime
# looks at the result itself.
ctypedef rp.fork_fn raw_fn
ctypedef int (*raw_range_fn)(Worker*, void*, Py_ssize_t, Py_ssize_t) noexcept nogil
ctypedef int (*raw_reduce_fn)(Worker*, void*, Py_ssize_t, Py_ssize_t, void*) noexcept nogil
ctypedef int (*raw_combine_fn)(Worker*, void*, void*, const void*) noexcept nogil
ctypedef int (*raw_scope_fn)(Worker*, Scope*, void*) noexcept nogil


cdef int run_abi1(task_fn fn, void* ctx) except? -1 nogil:
    """Runs fn(w, ctx) in this thread as a worker of its pool, the global one
    if it is none yet."""
    cdef Entry e
    cdef int rc
    enter(&e)
    rc = (<raw_fn>fn)(e.worker, ctx)
    return leave(&e, rc)


cdef struct JoinCall:
    raw_fn a
    void* actx
    raw_fn b
    void* bctx


cdef int join_from_outside(rp.Worker* w, void* ctx) noexcept nogil:
    cdef JoinCall* c = <JoinCall*>ctx
    return rt.join(w, c.a, c.actx, c.b, c.bctx)


cdef int join_abi1(Worker* w, task_fn a, void* actx, task_fn b, void* bctx) except? -1 nogil:
    """Runs a and b, in parallel if another worker is free, and returns when
    both are done.  0, or the failure of the first of them that failed."""
    cdef JoinCall c
    if likely(w != NULL):
        return rt.join(<rp.Worker*>w, <raw_fn>a, actx, <raw_fn>b, bctx)
    c.a, c.actx, c.b, c.bctx = <raw_fn>a, actx, <raw_fn>b, bctx
    return run_abi1(<task_fn>join_from_outside, &c)


if (sizeof(Fork) < sizeof(rp.Fork) or sizeof(Task) != sizeof(rs.Task)
        or &(<Task*>NULL).memory != &(<rs.Task*>NULL).memory):
    raise ImportError("pyblitz was built wrongly: capi.pxd does not fit the runtime")


cdef int no_worker_abi1(const char* name) except -1 nogil:
    with gil:
        raise RuntimeError(f"{name.decode()}: w is NULL, which is no worker: "
                           "call it from a job, for instance one that run() runs")


cdef void fuse_burnt_abi1(Worker* w) noexcept nogil:
    rt.fuse_burnt(<rp.Worker*>w)


cdef int lazy_join_slow_abi1(Worker* w, Fork* f, int ra) except? -1 nogil:
    return rt.lazy_join_slow(<rp.Worker*>w, <rp.Fork*>f, ra)


cdef bint try_join_slow_abi1(Worker* w, Fork* f, int* rc) except -1 nogil:
    cdef int mine = 0
    cdef int found = rt.try_join_slow(<rp.Worker*>w, <rp.Fork*>f, &mine)
    if found == 0:
        return False
    if found < 0:
        with gil:
            raise RuntimeError("try_join: f is not the newest fork that this worker "
                               "has made and not yet joined")
    rc[0] = mine
    # Without an exception -1 is a code like any other.
    if mine == -1 and rp.hooks().is_raised():
        return -1
    return True


cdef struct ForCall:
    raw_range_fn body
    void* ctx


cdef int for_leaf(rp.Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef ForCall* c = <ForCall*>ctx
    return c.body(<Worker*>w, c.ctx, lo, hi)


cdef int bridge_from(Worker* w, Bridge* b, Py_ssize_t n) except? -1 nogil:
    cdef Entry e
    cdef int rc
    if w != NULL:
        return bridge_run(<rp.Worker*>w, b, n)
    enter(&e)
    rc = bridge_run(e.worker, b, n)
    return leave(&e, rc)


cdef int parallel_for_abi1(Worker* w, Py_ssize_t n, range_fn body, void* ctx,
                           Py_ssize_t grain) except? -1 nogil:
    """body(w, ctx, lo, hi) on ranges that cover 0 .. n.  grain: items of one
    range at most; 0: found while running.  0, or the failure with the lowest
    index; ranges before it have run."""
    cdef ForCall c
    cdef Bridge b
    c.body = <raw_range_fn>body
    c.ctx = ctx
    if grain < 0:
        with gil:
            raise ValueError(f"parallel_for: grain must not be negative, not {grain}")
    bridge_init(&b, for_leaf, NULL, &c, grain)
    return bridge_from(w, &b, n)


cdef struct ReduceCall:
    raw_reduce_fn leaf
    raw_combine_fn combine
    void* ctx
    char* partials
    size_t size
    int64_t grain


cdef int reduce_leaf(rp.Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef ReduceCall* c = <ReduceCall*>ctx
    return c.leaf(<Worker*>w, c.ctx, lo, hi, c.partials + (lo // c.grain) * c.size)


cdef int reduce_combine(rp.Worker* w, void* ctx, int64_t lo, int64_t mid,
                        int64_t hi) noexcept nogil:
    cdef ReduceCall* c = <ReduceCall*>ctx
    return c.combine(<Worker*>w, c.ctx, c.partials + (lo // c.grain) * c.size,
                     c.partials + (mid // c.grain) * c.size)


cdef int parallel_reduce_abi1(Worker* w, Py_ssize_t n, reduce_fn leaf,
                              combine_fn combine, void* ctx, void* acc,
                              size_t acc_size, Py_ssize_t grain) except? -1 nogil:
    """Reduces items 0 .. n into acc, which holds the identity before.  Every
    range of `grain` items starts from a copy of it; they are combined in a tree
    whose shape depends on n and grain alone.  grain 0: n / 1024, at least 1."""
    cdef ReduceCall c
    cdef Bridge b
    cdef Py_ssize_t i, leaves
    cdef int rc
    if grain < 0:
        with gil:
            raise ValueError(f"parallel_reduce: grain must not be negative, not {grain}")
    if n <= 0:
        return 0
    if grain == 0:
        grain = 1 + (n - 1) // 1024
    leaves = 1 + (n - 1) // grain
    c.leaf = <raw_reduce_fn>leaf
    c.combine = <raw_combine_fn>combine
    c.ctx = ctx
    c.size = acc_size
    c.grain = grain
    c.partials = <char*>calloc(leaves, acc_size)
    if c.partials == NULL:
        with gil:
            raise MemoryError(f"parallel_reduce: no memory for {leaves} partial results")
    for i in range(leaves):
        memcpy(c.partials + i * acc_size, acc, acc_size)
    bridge_init(&b, reduce_leaf, reduce_combine, &c, grain)
    try:
        rc = bridge_from(w, &b, n)
        if rc == 0:
            memcpy(acc, c.partials, acc_size)
    finally:
        free(c.partials)
    return rc


cdef int scope_abi1(Worker* w, scope_fn body, void* ctx) except? -1 nogil:
    """Calls body(w, s, ctx), then waits for all tasks that were spawned into s.
    0, or the failure of body, or the first in time of a task."""
    cdef rs.Scope s
    cdef Entry e
    cdef int rc
    e.worker = <rp.Worker*>w
    if w == NULL:
        enter(&e)
    rs.scope_begin(e.worker, &s)
    rc = (<raw_scope_fn>body)(<Worker*>e.worker, <Scope*>&s, ctx)
    if rc != 0:
        rs.scope_fail(&s, rc)
    rc = rs.scope_end(e.worker, &s)
    return rc if w != NULL else leave(&e, rc)


cdef int spawn_abi1(Worker* w, Scope* s, task_fn fn, void* ctx) except? -1 nogil:
    """Adds fn(w', ctx) to the scope, from anywhere below it.  It runs once,
    before the scope ends; not at all if another task of it failed before."""
    if w == NULL:
        return no_worker_abi1("spawn")
    rs.spawn(<rp.Worker*>w, <rs.Scope*>s, <raw_fn>fn, ctx, 0, 1)
    return 0


cdef int check_count(const char* name, Py_ssize_t n) except -1 nogil:
    if n < 0:
        with gil:
            raise ValueError(f"{name.decode()}: n must not be negative, not {n}")
    return 0


cdef int spawn_many_abi1(Worker* w, Scope* s, Task* tasks, Py_ssize_t n) except -1 nogil:
    """Adds tasks[0 .. n] to the scope, with one push and one notification, and no
    allocation.  Each runs once, as if it had been spawned; its memory is in use
    until then.  Each was given its function by task_init, and is published once
    at a time."""
    if w == NULL:
        return no_worker_abi1("spawn_many")
    check_count("spawn_many", n)
    rs.spawn_tasks(<rp.Worker*>w, <rs.Scope*>s, <rs.Task*>tasks, n)
    return 0


cdef int scope_map_abi1(Worker* w, Scope* s, task_fn fn, void* ctx, size_t stride,
                        Py_ssize_t n) except -1 nogil:
    """Adds fn(w', ctx + i * stride), i in 0 .. n, to the scope, with one push and
    one notification."""
    if w == NULL:
        return no_worker_abi1("scope_map")
    check_count("scope_map", n)
    rs.spawn(<rp.Worker*>w, <rs.Scope*>s, <raw_fn>fn, ctx, stride, n)
    return 0


cdef int spawn_on_abi1(Worker* w, Scope* s, int index, task_fn fn, void* ctx) except -1 nogil:
    """Adds fn(w', ctx) to the scope, on the pool's thread with this worker_index:
    as soon as it has finished its present job, or waits within it.  Without
    memory for it the scope fails with ENOMEM."""
    cdef int n
    if w == NULL:
        return no_worker_abi1("spawn_on")
    n = (<rp.Worker*>w).pool.n_background
    if not 0 <= index < n:
        with gil:
            raise ValueError(f"spawn_on: index must be from 0 to {n - 1}, the pool's own "
                             f"threads, not {index}" if n else
                             f"spawn_on: a pool of one thread has no thread {index}")
    rs.spawn_on(<rp.Worker*>w, <rs.Scope*>s, index, <raw_fn>fn, ctx)
    return 0


cdef int broadcast_abi1(Worker* w, task_fn fn, void* ctx) except? -1 nogil:
    """fn(w', ctx) once on every background thread of the pool, and once here if this
    thread called in."""
    cdef Entry e
    cdef int rc
    e.worker = <rp.Worker*>w
    if w == NULL:
        enter(&e)
    rc = rs.broadcast(e.worker, <raw_fn>fn, ctx)
    return rc if w != NULL else leave(&e, rc)


cdef struct Submitted:
    Job job             # first: a Job* of this is its Submitted*
    raw_fn fn
    void* ctx
    rp.Pool* pool


cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX
    void PyErr_WriteUnraisable(void*)


cdef int run_detached(rp.Worker* w, void* ctx) noexcept nogil:
    """Nobody waits for it: an exception goes to sys.unraisablehook."""
    cdef Submitted* s = <Submitted*>ctx
    if s.fn(w, s.ctx) == -1:
        with gil:
            PyErr_WriteUnraisable(NULL)
    return 0


cdef void run_keyed(void* w, Job* job) noexcept nogil:
    cdef Submitted s = (<Submitted*>job)[0]
    free(job)
    run_detached(<rp.Worker*>w, &s)


cdef void run_submitted(void* w, Job* job) noexcept nogil:
    cdef rp.Pool* p = (<Submitted*>job).pool
    run_keyed(w, job)
    rp.job_done(p)


cdef Submitted* submitted(rp.Pool* p, job_fn run, task_fn fn, void* ctx) except NULL nogil:
    cdef Submitted* s = <Submitted*>malloc(sizeof(Submitted))
    if s == NULL:
        rp.job_done(p)
        with gil:
            raise MemoryError("no memory for a job")
    s.job.run = run
    s.fn = <raw_fn>fn
    s.ctx = ctx
    s.pool = p
    return s


cdef int submit_abi1(task_fn fn, void* ctx) except? -1 nogil:
    """Hands fn(w, ctx) to the pool and returns at once.  In a pool of one
    thread it runs here, first."""
    cdef rp.Pool* p = borrow()
    cdef Submitted* s = submitted(p, run_submitted, fn, ctx)
    # The job takes over our share of the pool's users.
    if p.n_background == 0:
        rp.pool_run_here(p, &s.job)
    else:
        rp.pool_post(p, &s.job)
    return 0


cdef int submit_keyed_abi1(uint64_t key, task_fn fn, void* ctx) except? -1 nogil:
    """Hands fn(w, ctx) to the pool and returns at once.  Jobs of one key run one at
    a time, in the order in which they were submitted, on one thread of the pool.
    In a pool of one thread they run here, unless jobs of this key are being run
    at the moment, by another thread or further out in this one: whoever runs them
    then runs this one, too."""
    cdef rp.Pool* p = borrow()
    cdef Submitted* s = submitted(p, run_keyed, fn, ctx)
    rl.lane_submit(p, key, &s.job)
    rp.job_done(p)
    return 0


# ---- sorting ----------------------------------------------------------------

cdef int sorted_or_raised(const char* name, int rc, Py_ssize_t n) except? -1 nogil:
    if rc > 0:
        with gil:
            raise MemoryError(f"{name.decode()}: no memory for {n} more items")
    return rc


cdef int sort_numbers(Worker* w, const char* name, KeyKind kind, int itemsize, void* a,
                      Py_ssize_t n) except? -1 nogil:
    if w == NULL:
        return no_worker_abi1(name)
    check_count(name, n)
    if n < 2:
        return 0
    return sorted_or_raised(name, sort_in_place(<rp.Worker*>w, kind, itemsize, a, n), n)


cdef int sort_abi1(Worker* w, void* base, Py_ssize_t n, size_t size, less_fn less,
                   void* ctx) except? -1 nogil:
    """Sorts n items of `size` bytes in place, stably, in the order of less(a, b, ctx): not
    0 when a goes before b.  With n extra items.  0, or what less raised; the items are
    then in some order, as they are after a less that contradicts itself."""
    cdef MergeSort s
    if w == NULL:
        return no_worker_abi1("sort")
    check_count("sort", n)
    if n < 2 or size == 0:
        return 0
    if <size_t>n > <size_t>PY_SSIZE_T_MAX // size:
        return sorted_or_raised("sort", 1, n)
    s.src = <const char*>base
    s.dst = <char*>base
    s.n = n
    s.leaf = NULL
    s.arr = NULL
    order_by(&s.order, ORDER_LESS, <void*>less, ctx, size)
    return sorted_or_raised("sort", merge_sort(<rp.Worker*>w, &s), n)


cdef int sort_i32_abi1(Worker* w, int32_t* a, Py_ssize_t n) except? -1 nogil:
    """Sorts in place, with n extra items.  Of floats, not-a-numbers are last."""
    return sort_numbers(w, "sort_i32", KEY_SIGNED, 4, a, n)


cdef int sort_i64_abi1(Worker* w, int64_t* a, Py_ssize_t n) except? -1 nogil:
    return sort_numbers(w, "sort_i64", KEY_SIGNED, 8, a, n)


cdef int sort_u32_abi1(Worker* w, uint32_t* a, Py_ssize_t n) except? -1 nogil:
    return sort_numbers(w, "sort_u32", KEY_UNSIGNED, 4, a, n)


cdef int sort_u64_abi1(Worker* w, uint64_t* a, Py_ssize_t n) except? -1 nogil:
    return sort_numbers(w, "sort_u64", KEY_UNSIGNED, 8, a, n)


cdef int sort_f32_abi1(Worker* w, float* a, Py_ssize_t n) except? -1 nogil:
    return sort_numbers(w, "sort_f32", KEY_FLOAT, 4, a, n)


cdef int sort_f64_abi1(Worker* w, double* a, Py_ssize_t n) except? -1 nogil:
    return sort_numbers(w, "sort_f64", KEY_FLOAT, 8, a, n)


cdef int poll_abi1(Worker* w) except -1 nogil:
    """From time to time in a long kernel (every few microseconds is often enough):
    raises when what it does is not wanted any more, and lets other workers have forks
    that wait above it, as tick does."""
    cdef rp.Worker* me = <rp.Worker*>w
    cdef int64_t now = 0
    if w == NULL:
        return no_worker_abi1("poll")
    if lazy_any(&me.lazy):
        now = now_ns()
        rt.beat(me, now)
    return -1 if rp.must_stop(me, now) else 0


cdef Worker* current_worker_abi1() noexcept nogil:
    """The worker that this thread is, or NULL."""
    return <Worker*>rp.current_worker()


cdef int num_workers_abi1(Worker* w) noexcept nogil:
    """Threads of w's pool, the caller included."""
    return (<rp.Worker*>w).pool.n_background + 1


cdef int worker_index_abi1(Worker* w) noexcept nogil:
    """0 .. num_workers - 2 for the pool's own threads, more for a thread that
    called in; no two at a time have the same."""
    cdef rp.Worker* me = <rp.Worker*>w
    return me.index if me.background else me.pool.n_background + me.index
