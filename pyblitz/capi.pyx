"""The functions behind ``from pyblitz cimport ...``: see capi.pxd.

join, parallel_for, parallel_reduce (also the commutative one), scope and broadcast take
the Worker that the caller was handed, or NULL: "whatever this thread is", which enters
the pool from outside when it is no worker yet.  The others need a Worker.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from pyblitz.host.interpreter cimport (
    Caller, caller_begin, caller_end, caller_mistaken, let_go, take_back)
from pyblitz.host.pools cimport Entry, borrow, enter, leave
from pyblitz.kernels.keys cimport sort_in_place
from pyblitz.kernels.numbers cimport KEY_FLOAT, KEY_SIGNED, KEY_UNSIGNED, KeyKind
from pyblitz.kernels.merge cimport ORDER_LESS, MergeSort, merge_sort, order_by
from pyblitz.runtime.atomic cimport likely, unlikely
from pyblitz.runtime.bridge cimport Bridge, bridge_init, bridge_run
from pyblitz.runtime.job cimport Job, job_fn
from pyblitz.runtime.lazy cimport lazy_any
from pyblitz.runtime.os cimport CACHE_LINES, alloc_lines, now_ns
from pyblitz.runtime cimport join as rt
from pyblitz.runtime cimport lane as rl
from pyblitz.runtime cimport pool as rp
from pyblitz.runtime cimport scope as rs

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX
    void PyErr_WriteUnraisable(void*)

# Cython wants the GIL for a cast from an `except? -1` function; the runtime
# looks at the result itself.
ctypedef rp.fork_fn raw_fn
ctypedef int (*raw_range_fn)(Worker*, void*, Py_ssize_t, Py_ssize_t) noexcept nogil
ctypedef int (*raw_reduce_fn)(Worker*, void*, Py_ssize_t, Py_ssize_t, void*) noexcept nogil
ctypedef int (*raw_combine_fn)(Worker*, void*, void*, const void*) noexcept nogil
ctypedef int (*raw_scope_fn)(Worker*, Scope*, void*) noexcept nogil


ctypedef int (*raw_enter_fn)(Entry*) noexcept nogil
ctypedef int (*raw_submit_fn)(task_fn, void*) noexcept nogil


cdef int run_abi1(task_fn fn, void* ctx) except? -1 nogil:
    """Runs fn(w, ctx) in this thread as a worker of its pool, the global one
    if it is none yet, and without the GIL.  An exception that nobody above would hear
    of goes to sys.unraisablehook."""
    cdef Caller c
    cdef Entry e
    cdef int rc
    caller_begin(&c, True)
    rc = (<raw_enter_fn>enter)(&e)
    if rc == 0:
        rc = leave(&e, (<raw_fn>fn)(e.worker, ctx))
    return caller_end(&c, rc)


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
    caller_mistaken()
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
    Py_ssize_t n
    Py_ssize_t grain


cdef int for_leaf(rp.Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef ForCall* c = <ForCall*>ctx
    return c.body(<Worker*>w, c.ctx, lo, hi)


cdef int for_from_outside(Worker* w, void* ctx) except? -1 nogil:
    cdef ForCall* c = <ForCall*>ctx
    return parallel_for_abi1(w, c.n, <range_fn>c.body, c.ctx, c.grain)


cdef int check_grain(const char* name, Py_ssize_t grain) except -1 nogil:
    if grain < 0:
        with gil:
            raise ValueError(f"{name.decode()}: grain must not be negative, not {grain}")
    return 0


cdef int parallel_for_abi1(Worker* w, Py_ssize_t n, range_fn body, void* ctx,
                           Py_ssize_t grain) except? -1 nogil:
    """body(w, ctx, lo, hi) on ranges that cover 0 .. n.  grain: items of one
    range at most; 0: found while running.  0, or the failure with the lowest
    index; ranges before it have run."""
    cdef ForCall c
    cdef Bridge b
    c.body = <raw_range_fn>body
    c.ctx = ctx
    if w == NULL:
        c.n, c.grain = n, grain
        return run_abi1(for_from_outside, &c)
    check_grain("parallel_for", grain)
    bridge_init(&b, for_leaf, NULL, &c, grain)
    return bridge_run(<rp.Worker*>w, &b, n)


cdef enum:
    # Blocks of a reduction of grain 0: so many at most, of accumulators that together
    # take no more than this; but a few in any case, for that many threads to share.
    REDUCE_BLOCKS = 1024
    REDUCE_BYTES = 1 << 20
    REDUCE_FEW_BLOCKS = 16

cdef struct ReduceCall:
    raw_reduce_fn leaf
    raw_combine_fn combine
    void* ctx
    void* acc
    size_t size
    char* partials
    size_t stride           # from one of them to the next
    Py_ssize_t n
    Py_ssize_t grain


cdef int author_reduce_leaf(rp.Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef ReduceCall* c = <ReduceCall*>ctx
    cdef char* partial = c.partials + (lo // c.grain) * c.size
    memcpy(partial, c.acc, c.size)
    return c.leaf(<Worker*>w, c.ctx, lo, hi, partial)


cdef int author_reduce_combine(rp.Worker* w, void* ctx, int64_t lo, int64_t mid,
                               int64_t hi) noexcept nogil:
    cdef ReduceCall* c = <ReduceCall*>ctx
    return c.combine(<Worker*>w, c.ctx, c.partials + (lo // c.grain) * c.size,
                     c.partials + (mid // c.grain) * c.size)


cdef int reduce_from_outside(Worker* w, void* ctx) except? -1 nogil:
    cdef ReduceCall* c = <ReduceCall*>ctx
    return parallel_reduce_abi1(w, c.n, <reduce_fn>c.leaf, <combine_fn>c.combine, c.ctx,
                                c.acc, c.size, c.grain)


cdef int no_partials(const char* name, Py_ssize_t n) except -1 nogil:
    with gil:
        raise MemoryError(f"{name.decode()}: no memory for {n} partial results")


cdef void reduce_init(ReduceCall* c, Py_ssize_t n, reduce_fn leaf, combine_fn combine,
                      void* ctx, void* acc, size_t acc_size, Py_ssize_t grain) noexcept nogil:
    c.leaf = <raw_reduce_fn>leaf
    c.combine = <raw_combine_fn>combine
    c.ctx = ctx
    c.acc = acc
    c.size = acc_size
    c.n = n
    c.grain = grain


cdef int parallel_reduce_abi1(Worker* w, Py_ssize_t n, reduce_fn leaf,
                              combine_fn combine, void* ctx, void* acc,
                              size_t acc_size, Py_ssize_t grain) except? -1 nogil:
    """Reduces items 0 .. n into acc, which holds the identity before.  Every
    range of `grain` items starts from a copy of it; they are combined in a tree
    whose shape depends on n and grain alone.  grain 0: found from n and acc_size."""
    cdef ReduceCall c
    cdef Bridge b
    cdef Py_ssize_t blocks
    cdef int rc
    reduce_init(&c, n, leaf, combine, ctx, acc, acc_size, grain)
    if w == NULL:
        return run_abi1(reduce_from_outside, &c)
    check_grain("parallel_reduce", grain)
    if n <= 0:
        return 0
    if grain == 0:
        blocks = REDUCE_BLOCKS
        if acc_size > <size_t>(REDUCE_BYTES // REDUCE_BLOCKS):
            blocks = max(<Py_ssize_t>(<size_t>REDUCE_BYTES // acc_size), REDUCE_FEW_BLOCKS)
        c.grain = 1 + (n - 1) // blocks
    blocks = 1 + (n - 1) // c.grain
    c.partials = NULL
    if acc_size == 0 or <size_t>blocks <= <size_t>PY_SSIZE_T_MAX // acc_size:
        c.partials = <char*>malloc(blocks * acc_size + 1)
    if c.partials == NULL:
        return no_partials("parallel_reduce", blocks)
    bridge_init(&b, author_reduce_leaf, author_reduce_combine, &c, c.grain)
    try:
        rc = bridge_run(<rp.Worker*>w, &b, n)
        if rc == 0:
            memcpy(acc, c.partials, acc_size)
    finally:
        free(c.partials)
    return rc


# Before each participant's accumulator, on a line of its own.
cdef struct Participant:
    bint used

cdef int commutative_leaf(rp.Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef ReduceCall* c = <ReduceCall*>ctx
    # Of threads that are no background workers only the caller takes part; it uses the last place.
    cdef int place = w.index if w.background else w.pool.n_background
    cdef char* partial = c.partials + place * c.stride
    if not (<Participant*>partial).used:
        (<Participant*>partial).used = True
        memcpy(partial + CACHE_LINES, c.acc, c.size)
    return c.leaf(<Worker*>w, c.ctx, lo, hi, partial + CACHE_LINES)


cdef int commutative_from_outside(Worker* w, void* ctx) except? -1 nogil:
    cdef ReduceCall* c = <ReduceCall*>ctx
    return parallel_reduce_commutative_abi1(w, c.n, <reduce_fn>c.leaf,
                                            <combine_fn>c.combine, c.ctx, c.acc, c.size,
                                            c.grain)


cdef int parallel_reduce_commutative_abi1(Worker* w, Py_ssize_t n, reduce_fn leaf,
                                          combine_fn combine, void* ctx, void* acc,
                                          size_t acc_size, Py_ssize_t grain) except? -1 nogil:
    """The same where the order does not matter: with one copy of the identity for each
    thread that takes part.  grain: items of one call of `leaf` at most; 0: found while
    running."""
    cdef ReduceCall c
    cdef Bridge b
    cdef char* first = NULL
    cdef char* partial
    cdef int rc = 0
    cdef Py_ssize_t i, places
    reduce_init(&c, n, leaf, combine, ctx, acc, acc_size, grain)
    if w == NULL:
        return run_abi1(commutative_from_outside, &c)
    check_grain("parallel_reduce_commutative", grain)
    if n <= 0:
        return 0
    places = (<rp.Worker*>w).pool.n_background + 1
    c.stride = ((acc_size + CACHE_LINES - 1) & ~<size_t>(CACHE_LINES - 1)) + CACHE_LINES
    c.partials = NULL
    if acc_size <= <size_t>(PY_SSIZE_T_MAX // places - 2 * CACHE_LINES):
        c.partials = <char*>alloc_lines(places * c.stride)
    if c.partials == NULL:
        return no_partials("parallel_reduce_commutative", places)
    for i in range(places):
        (<Participant*>(c.partials + i * c.stride)).used = False
    bridge_init(&b, commutative_leaf, NULL, &c, grain)
    try:
        rc = bridge_run(<rp.Worker*>w, &b, n)
        for i in range(places):
            partial = c.partials + i * c.stride
            if rc == 0 and (<Participant*>partial).used:
                if first == NULL:
                    first = partial + CACHE_LINES
                else:
                    rc = c.combine(w, ctx, first, partial + CACHE_LINES)
        if rc == 0:
            memcpy(acc, first, acc_size)
    finally:
        free(c.partials)
    return rc


cdef struct ScopeCall:
    raw_scope_fn body
    void* ctx


cdef int scope_from_outside(Worker* w, void* ctx) except? -1 nogil:
    cdef ScopeCall* c = <ScopeCall*>ctx
    return scope_abi1(w, <scope_fn>c.body, c.ctx)


cdef int scope_abi1(Worker* w, scope_fn body, void* ctx) except? -1 nogil:
    """Calls body(w, s, ctx), then waits for all tasks that were spawned into s.
    0, or the failure of body, or the first in time of a task."""
    cdef rs.Scope s
    cdef ScopeCall c
    cdef int rc
    if w == NULL:
        c.body, c.ctx = <raw_scope_fn>body, ctx
        return run_abi1(scope_from_outside, &c)
    rs.scope_begin(<rp.Worker*>w, &s)
    rc = (<raw_scope_fn>body)(w, <Scope*>&s, ctx)
    if rc != 0:
        rs.scope_fail(&s, rc)
    return rs.scope_end(<rp.Worker*>w, &s)


cdef inline int check_scope(const char* name, Worker* w, Scope* s) except -1 nogil:
    """Whether this worker may spawn into it."""
    if unlikely(w == NULL):
        return no_worker_abi1(name)
    if unlikely((<rp.Worker*>w).pool != (<rs.Scope*>s).group.owner.pool):
        with gil:
            raise RuntimeError(f"{name.decode()}: this thread works for another pool than "
                               "the scope's")
    return 0


cdef int spawn_abi1(Worker* w, Scope* s, task_fn fn, void* ctx) except? -1 nogil:
    """Adds fn(w', ctx) to the scope, from anywhere below it.  It runs once,
    before the scope ends; not at all if another task of it failed before."""
    check_scope("spawn", w, s)
    rs.spawn(<rp.Worker*>w, <rs.Scope*>s, <raw_fn>fn, ctx, 0, 1)
    return 0


cdef int check_n(const char* name, Py_ssize_t n) except -1 nogil:
    if n < 0:
        with gil:
            raise ValueError(f"{name.decode()}: n must not be negative, not {n}")
    return 0


cdef int spawn_many_abi1(Worker* w, Scope* s, Task* tasks, Py_ssize_t n) except -1 nogil:
    """Adds tasks[0 .. n] to the scope, with one push and one notification, and no
    allocation.  Each runs once, as if it had been spawned; its memory is in use
    until then.  Each was given its function by task_init, and is published once
    at a time."""
    check_scope("spawn_many", w, s)
    check_n("spawn_many", n)
    rs.spawn_tasks(<rp.Worker*>w, <rs.Scope*>s, <rs.Task*>tasks, n)
    return 0


cdef int scope_map_abi1(Worker* w, Scope* s, task_fn fn, void* ctx, size_t stride,
                        Py_ssize_t n) except -1 nogil:
    """Adds fn(w', ctx + i * stride), i in 0 .. n, to the scope, with one push and
    one notification."""
    check_scope("scope_map", w, s)
    check_n("scope_map", n)
    rs.spawn(<rp.Worker*>w, <rs.Scope*>s, <raw_fn>fn, ctx, stride, n)
    return 0


cdef int spawn_on_abi1(Worker* w, Scope* s, int index, task_fn fn, void* ctx) except -1 nogil:
    """Adds fn(w', ctx) to the scope, on the pool's thread with this worker_index:
    as soon as it has finished its present job, or waits within it.  Without
    memory for it the scope fails with ENOMEM."""
    cdef int n
    check_scope("spawn_on", w, s)
    n = (<rp.Worker*>w).pool.n_background
    if not 0 <= index < n:
        with gil:
            raise ValueError(f"spawn_on: index must be from 0 to {n - 1}, the pool's own "
                             f"threads, not {index}" if n else
                             f"spawn_on: a pool of one thread has no thread {index}")
    rs.spawn_on(<rp.Worker*>w, <rs.Scope*>s, index, <raw_fn>fn, ctx)
    return 0


cdef struct BroadcastCall:
    raw_fn fn
    void* ctx


cdef int broadcast_from_outside(rp.Worker* w, void* ctx) noexcept nogil:
    cdef BroadcastCall* c = <BroadcastCall*>ctx
    return rs.broadcast(w, c.fn, c.ctx)


cdef int broadcast_abi1(Worker* w, task_fn fn, void* ctx) except? -1 nogil:
    """fn(w', ctx) once on every background thread of the pool, and once here if this
    thread called in."""
    cdef BroadcastCall c
    if w != NULL:
        return rs.broadcast(<rp.Worker*>w, <raw_fn>fn, ctx)
    c.fn, c.ctx = <raw_fn>fn, ctx
    return run_abi1(<task_fn>broadcast_from_outside, &c)


cdef struct Submitted:
    Job job             # first: a Job* of this is its Submitted*
    raw_fn fn
    void* ctx
    rp.Pool* pool


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


cdef int submit_here(task_fn fn, void* ctx) except? -1 nogil:
    cdef rp.Pool* p = borrow()
    cdef Submitted* s = submitted(p, run_submitted, fn, ctx)
    cdef void* gil
    # The job takes over our share of the pool's users.
    if p.n_background == 0:
        gil = let_go()
        rp.pool_run_here(p, &s.job)
        take_back(gil)
    else:
        rp.pool_post(p, &s.job)
    return 0


cdef int submit_abi1(task_fn fn, void* ctx) except? -1 nogil:
    """Hands fn(w, ctx) to the pool and returns at once.  In a pool of one
    thread it runs here, first, or after the job that submits it."""
    cdef Caller c
    caller_begin(&c, False)
    return caller_end(&c, (<raw_submit_fn>submit_here)(fn, ctx))


cdef struct KeyedCall:
    uint64_t key
    void* ctx


cdef int submit_keyed_here(task_fn fn, void* call) except? -1 nogil:
    cdef KeyedCall* c = <KeyedCall*>call
    cdef rp.Pool* p = borrow()
    cdef Submitted* s = submitted(p, run_keyed, fn, c.ctx)
    cdef void* gil = let_go() if p.n_background == 0 else NULL
    rl.lane_submit(p, c.key, &s.job)
    rp.job_done(p)
    take_back(gil)
    return 0


cdef int submit_keyed_abi1(uint64_t key, task_fn fn, void* ctx) except? -1 nogil:
    """Hands fn(w, ctx) to the pool and returns at once.  Jobs of one key run one at
    a time, in the order in which they were submitted, on one thread of the pool.
    In a pool of one thread they run here, unless jobs of this key are being run
    at the moment, by another thread or further out in this one: whoever runs them
    then runs this one, too."""
    cdef Caller c
    cdef KeyedCall call
    call.key, call.ctx = key, ctx
    caller_begin(&c, False)
    return caller_end(&c, (<raw_submit_fn>submit_keyed_here)(fn, &call))


# ---- sorting ----------------------------------------------------------------

cdef int sorted_or_raised(const char* name, int rc, Py_ssize_t n) except? -1 nogil:
    if rc > 0:
        with gil:
            raise MemoryError(f"{name.decode()}: no memory for {n} more items")
    return rc


cdef int sort_in_place_as(Worker* w, const char* name, KeyKind kind, int itemsize, void* a,
                          Py_ssize_t n) except? -1 nogil:
    if w == NULL:
        return no_worker_abi1(name)
    check_n(name, n)
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
    check_n("sort", n)
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
    """Sorts in place, with n extra items.  Of floats, NaNs are last."""
    return sort_in_place_as(w, "sort_i32", KEY_SIGNED, 4, a, n)


cdef int sort_i64_abi1(Worker* w, int64_t* a, Py_ssize_t n) except? -1 nogil:
    return sort_in_place_as(w, "sort_i64", KEY_SIGNED, 8, a, n)


cdef int sort_u32_abi1(Worker* w, uint32_t* a, Py_ssize_t n) except? -1 nogil:
    return sort_in_place_as(w, "sort_u32", KEY_UNSIGNED, 4, a, n)


cdef int sort_u64_abi1(Worker* w, uint64_t* a, Py_ssize_t n) except? -1 nogil:
    return sort_in_place_as(w, "sort_u64", KEY_UNSIGNED, 8, a, n)


cdef int sort_f32_abi1(Worker* w, float* a, Py_ssize_t n) except? -1 nogil:
    return sort_in_place_as(w, "sort_f32", KEY_FLOAT, 4, a, n)


cdef int sort_f64_abi1(Worker* w, double* a, Py_ssize_t n) except? -1 nogil:
    return sort_in_place_as(w, "sort_f64", KEY_FLOAT, 8, a, n)


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
