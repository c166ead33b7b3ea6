"""Fork and join: a job on the forker's stack, run inline unless stolen.

``join`` pushes b, runs a, pops b back and runs it.  ``join_lazy`` keeps b in a
list that only its owner knows of, and publishes the oldest of the list now and
then, when a beat has passed (after Spice).  If b was stolen, the waiter
helps only where that cannot run unrelated work: it takes forks from the thief
that were made below b (leapfrogging: Wagner and Calder, PPoPP 1993), which the
tags of the thief's deque tell exactly; else it sleeps on b's latch.  So a
waiting caller never runs a stranger's job under a lock that it holds, and its stack
is as deep as the program is; a waiting thread of the pool also serves mail (pool.pxd).

The invariant behind ``deque_take_back`` here: forks are strictly last in, first out.
The newest fork in the deque is the one being joined, or it was stolen, and
then everything older was stolen before it.
"""
from libc.stdint cimport int64_t
from pyblitz.runtime.atomic cimport (
    CHECKED, atomic_i64, invariant, likely, ptr_store_relaxed, unlikely)
from pyblitz.runtime.deque cimport (
    deque_bottom, deque_has_room, deque_looks, deque_newest, deque_put, deque_take_back)
from pyblitz.runtime.injector cimport Injector
from pyblitz.runtime.job cimport Job
from pyblitz.runtime.lazy cimport lazy_any
from pyblitz.runtime.latch cimport SpinLatch, spin_latch_init
from pyblitz.runtime.pool cimport Fork, Worker, fork_fn
from pyblitz.runtime.sleep cimport must_post
from pyblitz.runtime.stats cimport BUSY, WAITING, note

cdef enum:
    # Forks and ticks between two looks at the clock, at most: it takes 1/256 of
    # the 30 ns that a look costs, and a fork is a nanosecond or two.
    FUSE_MAX = 256
    # Run time between two looks, about.
    BEAT_NS = 5000
    # How long a fork must have waited for its sibling until it is promoted:
    # what has waited so long is about as much work.  When all sleep, it must
    # also be worth a wake.
    WAITED_AWAKE_NS = 5000
    WAITED_ASLEEP_NS = 10000

cdef void run_stolen_fork(void* worker, Job* job) noexcept nogil
cdef bint wait_for_fork(Worker* w, Fork* f, atomic_i64* limit) noexcept nogil
cdef void sleep_on_latch(Worker* w, SpinLatch* latch, bint work,
                         const Injector* also) noexcept nogil
cdef bint promote_all(Worker* w) noexcept nogil
cdef void beat(Worker* w, int64_t now) noexcept nogil
cdef void fuse_burnt(Worker* w) noexcept nogil
cdef int lazy_join_slow(Worker* w, Fork* f, int ra) noexcept nogil
cdef int try_join_slow(Worker* w, Fork* f, int* rc) noexcept nogil
cdef int join_slow(Worker* w, fork_fn a, void* actx, fork_fn b, void* bctx) noexcept nogil
cdef int join_told(Worker* w, Fork* f, fork_fn a, void* actx) noexcept nogil
cdef int join_stolen(Worker* w, Fork* f, int ra) noexcept nogil

cdef inline void waited(Worker* w, int* rounds) noexcept nogil:
    """The wait is over, or there is something to do."""
    if rounds[0] > 0:
        note(&w.sleeper.stats, WAITING, BUSY)
    rounds[0] = 0

# ---- forks in the deque -----------------------------------------------------

cdef inline void fork_init(Fork* f, Worker* w, fork_fn fn, void* ctx) noexcept nogil:
    f.lazy.job.run = run_stolen_fork
    f.lazy.fn = <void*>fn
    f.lazy.ctx = ctx
    spin_latch_init(&f.latch, w)
    ptr_store_relaxed(&f.runner, w.mark_of_call)

cdef inline bint fork_back(Worker* w, Fork* f, int64_t b) noexcept nogil:
    """Takes the newest fork back, which was pushed at b; false when it was
    stolen."""
    if CHECKED:
        invariant(b < deque_bottom(&w.forks), "a fork is joined once")
        invariant(deque_looks(&w.forks) <= 0 or deque_newest(&w.forks) == &f.lazy.job,
                  "forks are last in, first out")
    return deque_take_back(&w.forks, b)

# ---- join -------------------------------------------------------------------

cdef inline int join(Worker* w, fork_fn a, void* actx, fork_fn b, void* bctx) noexcept nogil:
    """Runs a and b, in parallel if another worker takes b.  0, or what the
    first of them that failed returned; when a fails and b was not begun, b does
    not run.

    Whatever is unusual before a runs leaves through a call that does the rest, so
    that a's arguments need not be saved from it."""
    cdef Fork f
    cdef int64_t at = deque_bottom(&w.forks)
    cdef int ra
    # Older forks first: see Worker.lazy.
    if unlikely(lazy_any(&w.lazy) or not deque_has_room(&w.forks, at)):
        return join_slow(w, a, actx, b, bctx)
    fork_init(&f, w, b, bctx)
    deque_put(&w.forks, at, &f.lazy.job, w.base)
    if unlikely(must_post(&w.pool.sleep) or w.awaited != NULL):
        return join_told(w, &f, a, actx)
    ra = a(w, actx)
    if likely(fork_back(w, &f, at)):
        return ra if ra else b(w, bctx)
    return join_stolen(w, &f, ra)
