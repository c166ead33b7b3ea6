"""What the public API does not show: early exit in the bridge, the pool's queues."""
from libc.stdint cimport INT64_MAX, int64_t, uint32_t
from pyblitz.host.pools cimport Entry, enter, leave
from pyblitz.runtime.atomic cimport (
    atomic_i64, i64_cas_relaxed, i64_fetch_add_relaxed, i64_load_relaxed,
    i64_store_relaxed)
from pyblitz.runtime.bridge cimport (
    Bridge, bridge_init, bridge_limit, bridge_run, bridge_wants)
from pyblitz.runtime.counters cimport count_sleeping, counters_load
from pyblitz.runtime.deque cimport deque_looks
from pyblitz.runtime.join cimport join
from pyblitz.runtime.os cimport now_ns
from pyblitz.runtime.pool cimport Worker, current_worker, pool_places

cdef extern from *:
    """
    #if defined(__linux__)
    #include <sched.h>
    #define this_cpu sched_getcpu
    #else
    #define this_cpu() -1
    #endif
    """
    int this_cpu() nogil


cdef struct Find:
    Bridge bridge
    const unsigned char* x
    atomic_i64 found
    atomic_i64 looked

cdef int find_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Find* f = <Find*>ctx
    cdef int64_t i, seen
    for i in range(lo, hi):
        if not bridge_wants(&f.bridge, i):
            return 0
        i64_fetch_add_relaxed(&f.looked, 1)
        if f.x[i]:
            seen = i64_load_relaxed(&f.found)
            while i < seen and not i64_cas_relaxed(&f.found, seen, i):
                seen = i64_load_relaxed(&f.found)
            bridge_limit(&f.bridge, i)
            return 0
    return 0


def find_first(bytes x, int64_t grain):
    """(index of the first byte that is not 0, or None; how many were looked at)"""
    cdef Find f
    cdef Entry e
    cdef int64_t n = len(x)
    cdef int rc
    bridge_init(&f.bridge, find_leaf, NULL, &f, grain)
    f.x = x
    i64_store_relaxed(&f.found, INT64_MAX)
    i64_store_relaxed(&f.looked, 0)
    with nogil:
        enter(&e)
        rc = bridge_run(e.worker, &f.bridge, n)
        leave(&e, rc)
    found = i64_load_relaxed(&f.found)
    return None if found == INT64_MAX else found, i64_load_relaxed(&f.looked)


def limit_sinks(values):
    cdef Bridge b
    bridge_init(&b, NULL, NULL, NULL, 1)
    seen = []
    for v in values:
        bridge_limit(&b, v)
        seen.append(i64_load_relaxed(&b.limit))
    return seen


def guest():
    """(whether this thread is a guest, its index, jobs in its deques)"""
    cdef Worker* w = current_worker()
    if w == NULL:
        return None
    return (not w.background, w.index,
            deque_looks(&w.forks) + deque_looks(&w.tasks))


def places():
    """How many workers this pool has memory for."""
    return pool_places(current_worker().pool)


cdef struct Halves:
    int left
    atomic_i64 right

cdef int left_half(Worker* w, void* ctx) noexcept nogil:
    cdef Halves* h = <Halves*>ctx
    cdef int64_t until = now_ns() + 1000000000
    h.left = this_cpu()
    while i64_load_relaxed(&h.right) < 0 and now_ns() < until:
        pass
    return 0

cdef int right_half(Worker* w, void* ctx) noexcept nogil:
    i64_store_relaxed(&(<Halves*>ctx).right, this_cpu())
    return 0


def halves():
    """The CPUs on which the halves of a join began, of which the left one waits for the right one."""
    cdef Halves h
    cdef Entry e
    cdef int rc
    i64_store_relaxed(&h.right, -1)
    with nogil:
        enter(&e)
        rc = join(e.worker, left_half, &h, right_half, &h)
        leave(&e, rc)
    return h.left, i64_load_relaxed(&h.right)


def all_sleep():
    """Whether all threads of the pool do."""
    cdef Entry e
    cdef bint asleep
    enter(&e)
    asleep = count_sleeping(counters_load(&e.worker.pool.sleep.counters)) == <uint32_t>e.worker.pool.n_background
    leave(&e, 0)
    return asleep


cdef struct Leaves:
    atomic_i64 second   # whether the second one has begun
    bint seen           # whether it has while the first one waited

cdef int leaf_of_two(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Leaves* l = <Leaves*>ctx
    cdef int64_t until = now_ns() + 20000000
    if lo == 1:
        i64_store_relaxed(&l.second, 1)
        return 0
    while i64_load_relaxed(&l.second) == 0 and now_ns() < until:
        pass
    l.seen = i64_load_relaxed(&l.second)
    return 0


def second_leaf_begins_beside_the_first(double least_ns):
    """With a worker that has just run half of a join, and looks for more unless it sleeps again."""
    cdef Bridge b
    cdef Leaves l
    cdef Halves h
    cdef Entry e
    cdef int64_t until
    cdef int rc
    i64_store_relaxed(&h.right, -1)
    i64_store_relaxed(&l.second, 0)
    bridge_init(&b, leaf_of_two, NULL, &l, 1)
    b.least_ns = least_ns
    with nogil:
        enter(&e)
        rc = join(e.worker, left_half, &h, right_half, &h)
        # It is done with that half, but may not yet be looking.
        until = now_ns() + 2000
        while now_ns() < until:
            pass
        if rc == 0:
            rc = bridge_run(e.worker, &b, 2)
        leave(&e, rc)
    return l.seen
