"""Fork and join: a job on the forker's stack, run inline unless stolen.

``join`` pushes b, runs a, pops b back and runs it.  If b was stolen, the waiter
helps only where that cannot run unrelated work: it takes forks from the thief
that were made below b (leapfrogging: Wagner and Calder, PPoPP 1993), which the
tags of the thief's deque tell exactly; else it sleeps on b's latch.  So a
waiting thread never runs a stranger's job under a lock that its caller holds,
and its stack is as deep as the program is.

The invariant behind ``deque_pop`` here: forks are strictly last in, first out.
The newest fork in the deque is the one being joined, or it was stolen, and
then everything older was stolen before it.
"""
from libc.stdint cimport int64_t
from pyblitz.runtime.atomic cimport (
    atomic_i64, atomic_ptr, fence_seq_cst, i64_store_relaxed, invariant, likely, ptr_load_acquire,
    ptr_store_relaxed, ptr_store_release, spin_hint)
from pyblitz.runtime.deque cimport (
    STEAL_TAKEN, deque_looks, deque_offers, deque_pop, deque_steal)
from pyblitz.runtime.injector cimport Injector, injector_has_jobs
from pyblitz.runtime.job cimport Job
from pyblitz.runtime.latch cimport (
    SpinLatch, latch_fall_asleep, latch_get_sleepy, latch_is_set,
    latch_wake_up, spin_latch_init, spin_latch_set)
from pyblitz.runtime.os cimport now_ns, park, yield_thread
from pyblitz.runtime.pool cimport (
    POLL_INTERVAL_NS, SPIN_ROUNDS, Worker, execute, hooks, poll_signals,
    push_fork, put_away_above, serve_mailbox, tasks_mark, wake_worker)
from pyblitz.runtime.stats cimport count_promotions, count_steals

# What a fork runs.  0 is success; -1 says that an exception was raised, as
# Cython's `except? -1` does; any other value is the kernel's own code.
ctypedef int (*fork_fn)(Worker* w, void* ctx) noexcept nogil

cdef struct Fork:
    Job job                 # first: a Job* of this fork is its Fork*
    fork_fn fn
    void* ctx
    SpinLatch latch
    atomic_ptr thief        # the Worker that runs it, once it was stolen
    int rc                  # written by the thief before it sets the latch
    void* error             # the exception, when rc is -1
    # Place in the owner's list of forks that it has not shown to anyone.
    Fork* older
    Fork* newer
    bint promoted

cdef inline void fork_init(Fork* f, Worker* w, fork_fn fn, void* ctx) noexcept nogil:
    f.job.run = run_stolen_fork
    f.fn = fn
    f.ctx = ctx
    f.error = NULL
    spin_latch_init(&f.latch, w)
    ptr_store_relaxed(&f.thief, NULL)

cdef inline void run_stolen_fork(void* worker, Job* job) noexcept nogil:
    cdef Worker* w = <Worker*>worker
    cdef Fork* f = <Fork*>job
    cdef void* waiter
    # release: partner is the acquire load in wait_for_fork
    ptr_store_release(&f.thief, w)
    w.awaited = &f.latch
    f.rc = f.fn(w, f.ctx)
    if f.rc == -1:
        f.error = hooks().capture()
    # Publishes rc and error; f may be gone after it.
    waiter = spin_latch_set(&f.latch)
    if waiter != NULL:
        wake_worker(<Worker*>waiter)

cdef inline int wait_for_fork(Worker* w, Fork* f, atomic_i64* limit) noexcept nogil:
    """Until a stolen fork is done.  -1 when a signal handler raised meanwhile:
    the exception is then set, and the fork is done all the same, the sooner for
    ``limit`` (or NULL) having been made 0 at once."""
    cdef Worker* thief
    cdef Job* job
    cdef void* tag
    cdef int rounds = 0
    cdef int interrupted = 0
    cdef int64_t mark
    cdef void* error = NULL
    while not latch_is_set(&f.latch.core):
        # acquire: partner is the release in run_stolen_fork
        thief = <Worker*>ptr_load_acquire(&f.thief)
        if thief != NULL and deque_looks(&thief.forks) > 0:
            if deque_steal(&thief.forks, f, &job, &tag) == STEAL_TAKEN:
                count_steals(&w.stats)
                mark = tasks_mark(w)
                execute(w, job)
                put_away_above(w, mark)
                rounds = 0
                continue
        mark = tasks_mark(w)
        if serve_mailbox(w):
            put_away_above(w, mark)
            rounds = 0
            continue
        rounds += 1
        if rounds < SPIN_ROUNDS:
            wait_a_little(rounds)
        elif not interrupted and poll_signals(w, now_ns()):
            interrupted = -1
            error = hooks().capture()
            if limit != NULL:
                # relaxed: a hint to stop early
                i64_store_relaxed(limit, 0)
        elif latch_get_sleepy(&f.latch.core) and latch_fall_asleep(&f.latch.core):
            sleep_on_latch(w, &f.latch, thief != NULL and deque_offers(&thief.forks, f), NULL)
    if interrupted:
        hooks().restore(error)
    return interrupted

cdef inline void wait_a_little(int rounds) noexcept nogil:
    """Between two looks of a worker that waits and does not sleep yet."""
    if rounds & 7 == 0:
        yield_thread()
    else:
        spin_hint()

cdef inline void sleep_on_latch(Worker* w, SpinLatch* latch, bint work,
                                const Injector* also) noexcept nogil:
    """With the latch SLEEPING: blocks once, until it is set, or there is mail,
    or something in ``also``; not at all if there is ``work``.  The caller looks
    again.  The worker is not counted as idle: nobody but those who post to
    these can use it."""
    # Between falling asleep and the last look; partners: fence 1 in post_mail
    # and the fence in put_away, both of which leave a token.
    fence_seq_cst()
    if not (work or injector_has_jobs(&w.sleeper.mailbox)
            or (also != NULL and injector_has_jobs(also))):
        park(&w.sleeper.parker, POLL_INTERVAL_NS if w.poll_at else -1)
    latch_wake_up(&latch.core)

# ---- forks that only their owner knows --------------------------------------

cdef inline void lazy_push(Worker* w, Fork* f) noexcept nogil:
    """Remembers a fork without telling anyone: no atomic operation."""
    f.promoted = False
    f.newer = NULL
    f.older = <Fork*>w.lazy_newest
    if f.older != NULL:
        f.older.newer = f
    else:
        w.lazy_oldest = f
    w.lazy_newest = f

cdef inline bint lazy_pop(Worker* w, Fork* f) noexcept nogil:
    """Takes back the newest; false when it was promoted."""
    if f.promoted:
        return False
    invariant(w.lazy_newest == f, "lazy forks are last in, first out")
    w.lazy_newest = f.older
    if f.older != NULL:
        f.older.newer = NULL
    else:
        w.lazy_oldest = NULL
    return True

cdef inline bint lazy_promote(Worker* w) noexcept nogil:
    """Makes the oldest, hence the largest, stealable.  False without memory."""
    cdef Fork* f = <Fork*>w.lazy_oldest
    cdef Fork* newer = f.newer
    f.promoted = True
    if not push_fork(w, &f.job):
        f.promoted = False
        return False
    # f may be running elsewhere by now; its links are the owner's alone.
    w.lazy_oldest = newer
    if newer != NULL:
        newer.older = NULL
    else:
        w.lazy_newest = NULL
    count_promotions(&w.stats)
    return True

cdef inline bint fork_back(Worker* w, Fork* f) noexcept nogil:
    """Takes a pushed fork back; false when it was stolen."""
    cdef Job* job = deque_pop(&w.forks)
    invariant(job == NULL or job == &f.job, "forks are last in, first out")
    return job != NULL

# ---- join -------------------------------------------------------------------

cdef inline int join(Worker* w, fork_fn a, void* actx, fork_fn b, void* bctx) noexcept nogil:
    """Runs a and b, in parallel if another worker takes b.  0, or what the
    first of them that failed returned; when a fails and b was not begun, b does
    not run."""
    cdef Fork f
    cdef int ra, rb
    cdef void* error = NULL
    # Older forks first: see Worker.lazy_oldest.
    while w.lazy_oldest != NULL:
        if not lazy_promote(w):
            break
    fork_init(&f, w, b, bctx)
    if w.lazy_oldest != NULL or not push_fork(w, &f.job):
        # No memory for the deque: nothing is lost but parallelism.
        ra = a(w, actx)
        return ra if ra else b(w, bctx)
    ra = a(w, actx)
    if likely(fork_back(w, &f)):
        return ra if ra else b(w, bctx)
    # Stolen.  No exception may be set while this worker helps.
    if ra == -1:
        error = hooks().capture()
    rb = wait_for_fork(w, &f, NULL)
    if ra == 0:
        if rb != 0:                     # interrupted
            if f.error != NULL:
                hooks().drop(f.error)
            return rb
        if f.error != NULL:
            hooks().restore(f.error)
        return f.rc
    if rb != 0:
        # a's own failure came first.
        hooks().drop(hooks().capture())
    if f.error != NULL:
        hooks().drop(f.error)
    if ra == -1:
        hooks().restore(error)
    return ra
