# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What counts.py counts.  Unlike an author's module it looks into the runtime."""
from libc.stdint cimport int64_t, uint64_t
from pyblitz cimport Worker, join, join_lazy, parallel_for, run, submit
from pyblitz.runtime.atomic cimport (
    atomic_i64, i64_fetch_sub_acq_rel, i64_load_acquire, i64_store_relaxed, u32_store_relaxed)
from pyblitz.runtime.counters cimport counters_init
from pyblitz.runtime.deque cimport (
    Deque, deque_bottom, deque_init, deque_push, deque_steal)
from pyblitz.runtime.injector cimport Inbox, inbox_init
from pyblitz.runtime.job cimport Job
from pyblitz.runtime.os cimport alloc_aligned, yield_thread
from pyblitz.runtime.sleep cimport (
    SLEEPER_ASLEEP, THREAD_RUNS, Sleep, Sleeper, sleep_init, sleeper_init, wake_sleeper)


cdef int nothing(Worker* w, void* ctx) noexcept nogil:
    return 0


# ---- instructions: one function each, so that callgrind names them ------------

ctypedef void (*measured_fn)(Worker* w, int64_t n) noexcept nogil
ctypedef int (*leaf_fn)(Worker* w, void* ctx) noexcept nogil

# Read at run time, so that the compiler inlines no leaf.
cdef leaf_fn leaf = nothing


cdef void measured_call(Worker* w, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        leaf(w, NULL)
        leaf(w, NULL)


cdef void measured_join(Worker* w, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        join(w, leaf, NULL, leaf, NULL)


cdef void measured_join_lazy(Worker* w, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        join_lazy(w, leaf, NULL, leaf, NULL)


cdef Deque* a_deque = <Deque*>alloc_aligned(sizeof(Deque))
deque_init(a_deque, False)


cdef void measured_push(Worker* w, int64_t n) noexcept nogil:
    cdef Job job
    cdef int64_t i
    for i in range(n):
        deque_push(a_deque, deque_bottom(a_deque), &job, NULL)


cdef void measured_steal(Worker* w, int64_t n) noexcept nogil:
    """Of the jobs that measured_push pushed; the deque is not biased."""
    cdef Job* job
    cdef void* tag
    cdef int64_t i
    for i in range(n):
        deque_steal(a_deque, NULL, &job, &tag)


cdef bint no_thread(void* pool, int i) noexcept nogil:
    return False


cdef Sleep* a_sleep = <Sleep*>alloc_aligned(sizeof(Sleep))
cdef Inbox* an_inbox = <Inbox*>alloc_aligned(sizeof(Inbox))
cdef Sleeper* a_sleeper = <Sleeper*>alloc_aligned(sizeof(Sleeper))
inbox_init(an_inbox)
sleeper_init(a_sleeper, True)
sleep_init(a_sleep, an_inbox, &a_sleeper, 1, no_thread, NULL)
a_sleeper.thread = THREAD_RUNS


cdef void measured_wake(Worker* w, int64_t n) noexcept nogil:
    """Claims of a sleeper and its token, without the system call that follows when it
    is blocked."""
    cdef int64_t i
    for i in range(n):
        counters_init(&a_sleep.counters, 1)
        u32_store_relaxed(&a_sleeper.asleep, SLEEPER_ASLEEP)
        wake_sleeper(a_sleep, 0, False)


cdef measured_fn[6] measured
measured[:] = [measured_call, measured_join, measured_join_lazy, measured_push, measured_steal,
               measured_wake]


cdef struct Measurement:
    int which
    int64_t n


cdef int measure_kernel(Worker* w, void* ctx) noexcept nogil:
    cdef Measurement* m = <Measurement*>ctx
    measured[m.which](w, m.n)
    return 0


cdef int below_a_fork(Worker* w, void* ctx) nogil:
    """As most forks are: the last job of a deque costs a compare-and-swap more."""
    return join(w, measure_kernel, ctx, nothing, NULL)


def measure(int which, int64_t n):
    cdef Measurement m
    m.which, m.n = which, n
    with nogil:
        run(below_a_fork, &m)


# ---- work that is counted ------------------------------------------------------

cdef int some_work(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) noexcept nogil:
    cdef uint64_t x = lo + 1
    cdef int64_t i
    for i in range(400 * (hi - lo)):
        x ^= x << 13
        x ^= x >> 7
        x ^= x << 17
    return <int>(x == 0)


def loop(Py_ssize_t n):
    """A loop of n iterations of some 0.7 microseconds."""
    with nogil:
        parallel_for(NULL, n, some_work, NULL, 0)


cdef struct Tree:
    int depth
    bint lazy


cdef int tree(Worker* w, void* ctx) nogil:
    cdef Tree* t = <Tree*>ctx
    cdef Tree below
    if t.depth == 0:
        return some_work(w, NULL, 0, 1)
    below.depth = t.depth - 1
    below.lazy = t.lazy
    if t.lazy:
        return join_lazy(w, tree, &below, tree, &below)
    return join(w, tree, &below, tree, &below)


def forks(int depth, bint lazy):
    """A full tree of forks with leaves of some 0.7 microseconds."""
    cdef Tree t
    t.depth, t.lazy = depth, lazy
    with nogil:
        run(tree, &t)


cdef int count_down(Worker* w, void* ctx) noexcept nogil:
    i64_fetch_sub_acq_rel(<atomic_i64*>ctx, 1)
    return 0


def burst(int64_t n):
    """n jobs from outside, one after the other without a pause, and a wait for all."""
    cdef atomic_i64 left
    cdef int64_t i
    i64_store_relaxed(&left, n)
    with nogil:
        for i in range(n):
            submit(count_down, &left)
        while i64_load_acquire(&left) > 0:
            yield_thread()
