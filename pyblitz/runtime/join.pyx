"""Fork and join, the part that runs when somebody else is involved: promotion,
theft, waiting.  See join.pxd."""
from libc.stdint cimport uint32_t, uint64_t
from pyblitz.runtime.atomic cimport (
    fence_seq_cst, i64_store_relaxed, ptr_load_acquire, ptr_load_relaxed, ptr_store_release,
    u32_load_relaxed, u32_store_relaxed)
from pyblitz.runtime.call cimport STOP_FORKED
from pyblitz.runtime.chaos cimport chaos
from pyblitz.runtime.counters cimport count_inactive, count_sleeping, counters_load
from pyblitz.runtime.deque cimport (
    STEAL_TAKEN, deque_bottom, deque_looks, deque_newest, deque_offers, deque_steal)
from pyblitz.runtime.injector cimport injector_has_jobs
from pyblitz.runtime.latch cimport (
    latch_fall_asleep, latch_get_sleepy, latch_is_set, latch_wake_up, spin_latch_set)
from pyblitz.runtime.lazy cimport fuse_store, lazy_any, lazy_drop_oldest
from pyblitz.runtime.os cimport now_ns, park, wait_a_little
from pyblitz.runtime.stats cimport BUSY, WAITING, add_one, note
from pyblitz.runtime.pool cimport (
    POLL_INTERVAL_NS, SPIN_ROUNDS, execute_waiting, has_mail, hooks, is_mark, must_stop_waiting,
    pool_is_stale, push_fork, serve_mailbox, tell_of_fork, wake_worker)

# Mixed with a fork's own address, so that memory which was never a published
# fork does not look like one.
cdef uint64_t FORK_PUBLISHED = 0x9E3779B97F4A7C15u


# ---- theft and waiting ------------------------------------------------------

cdef void run_stolen_fork(void* worker, Job* job) noexcept nogil:
    cdef Worker* w = <Worker*>worker
    cdef Fork* f = <Fork*>job
    cdef void* waiter
    # relaxed: published with the fork
    w.mark_of_call = ptr_load_relaxed(&f.runner)
    chaos(b"stolen: begins")
    # release: partner is the acquire load in wait_for_fork
    ptr_store_release(&f.runner, w)
    w.awaited = &f.latch
    f.rc = (<fork_fn>f.lazy.fn)(w, f.lazy.ctx)
    f.error = hooks().capture() if f.rc == -1 else NULL
    chaos(b"stolen: done")
    # Publishes rc and error; f may be gone after it.
    waiter = spin_latch_set(&f.latch)
    chaos(b"stolen: set")
    if waiter != NULL:
        wake_worker(<Worker*>waiter)


cdef bint wait_for_fork(Worker* w, Fork* f, atomic_i64* limit) noexcept nogil:
    """Until a stolen fork is done.  Whether this worker must stop: an exception
    that says why is then set, and the fork is done all the same, the sooner for
    ``limit`` (or NULL) having been made 0 at once."""
    cdef Worker* thief
    cdef Job* job
    cdef void* tag
    cdef int rounds = 0
    cdef bint stop = False
    cdef void* error = NULL
    while not latch_is_set(&f.latch.core):
        if unlikely(pool_is_stale(w.pool)):
            # Nobody is left who would write them.
            f.rc = -1
            f.error = NULL
            hooks().stop(STOP_FORKED)
            return True
        # acquire: partner is the release in run_stolen_fork
        thief = <Worker*>ptr_load_acquire(&f.runner)
        if is_mark(thief):
            thief = NULL
        if thief != NULL and deque_offers(&thief.forks, f):
            if deque_steal(&thief.forks, f, &job, &tag) == STEAL_TAKEN:
                add_one(&w.sleeper.stats.steals)
                waited(w, &rounds)
                execute_waiting(w, job)
                continue
        if has_mail(w):
            waited(w, &rounds)
            serve_mailbox(w)
            continue
        if rounds == 0:
            note(&w.sleeper.stats, BUSY, WAITING)
        rounds += 1
        if rounds < SPIN_ROUNDS:
            wait_a_little(rounds, 1)
        elif must_stop_waiting(w, stop):
            stop = True
            error = hooks().capture()
            if limit != NULL:
                # relaxed: a hint to stop early
                i64_store_relaxed(limit, 0)
        elif latch_get_sleepy(&f.latch.core) and latch_fall_asleep(&f.latch.core):
            sleep_on_latch(w, &f.latch, thief != NULL and deque_offers(&thief.forks, f), NULL)
    waited(w, &rounds)
    if stop:
        hooks().restore(error)
    return stop


cdef void sleep_on_latch(Worker* w, SpinLatch* latch, bint work,
                         const Injector* also) noexcept nogil:
    """With the latch SLEEPING: blocks once, until it is set, or there is mail,
    or something in ``also``; not at all if there is ``work``.  The caller looks
    again.  The worker is not counted as idle: nobody but those who post to
    these can use it."""
    cdef void* held
    # Between falling asleep and the last look; partners: fence 1 in post_mail
    # and the fence in put_away, both of which leave a token.
    fence_seq_cst()
    chaos(b"wait: falling asleep")
    if not (work or injector_has_jobs(&w.sleeper.mailbox)
            or (also != NULL and injector_has_jobs(also))):
        add_one(&w.sleeper.stats.sleeps)
        # Whoever has our other half may need it to end that.
        held = hooks().let_go()
        park(&w.sleeper.parker, POLL_INTERVAL_NS if w.poll_at else -1)
        hooks().take_back(held)
    latch_wake_up(&latch.core)


cdef int join_slow(Worker* w, fork_fn a, void* actx, fork_fn b, void* bctx) noexcept nogil:
    """A join that finds lazy forks, or a full deque."""
    cdef Fork f
    cdef int ra
    fork_init(&f, w, b, bctx)
    if promote_all(w) and push_fork(w, deque_bottom(&w.forks), &f.lazy.job):
        return join_rest(w, &f, a(w, actx))
    # No memory for the deque: nothing is lost but parallelism.
    ra = a(w, actx)
    return ra if ra else b(w, bctx)


cdef int join_told(Worker* w, Fork* f, fork_fn a, void* actx) noexcept nogil:
    """A join whose fork, in the deque, others are to be told of."""
    tell_of_fork(w)
    return join_rest(w, f, a(w, actx))


cdef int join_rest(Worker* w, Fork* f, int ra) noexcept nogil:
    if fork_back(w, f, deque_bottom(&w.forks) - 1):
        return ra if ra else (<fork_fn>f.lazy.fn)(w, f.lazy.ctx)
    return join_stolen(w, f, ra)


cdef int join_stolen(Worker* w, Fork* f, int ra) noexcept nogil:
    """The end of a join whose second half was stolen; ra: what the first half
    returned."""
    cdef bint stop
    cdef void* error = NULL
    # No exception may be set while this worker helps.
    if ra == -1:
        error = hooks().capture()
    stop = wait_for_fork(w, f, NULL)
    if ra == 0:
        if stop:
            if f.error != NULL:
                hooks().drop(f.error)
            return -1
        if f.error != NULL:
            hooks().restore(f.error)
        return f.rc
    if stop:
        # a's own failure came first.
        hooks().drop(hooks().capture())
    if f.error != NULL:
        hooks().drop(f.error)
    if ra == -1:
        hooks().restore(error)
    return ra


# ---- forks that only their owner knows, until it promotes them --------------

cdef int was_seen(Worker* w, void* ctx) noexcept nogil:
    """Stands for the function of a lazy fork that a beat has met: so that a fork
    is marked without a field of its own, which every fork would have to clear."""
    return 0


cdef bint lazy_promote(Worker* w) noexcept nogil:
    """Makes the oldest, hence the largest, stealable.  False without memory."""
    cdef Fork* f = <Fork*>w.lazy.root.newer
    if f.lazy.fn == <void*>was_seen:
        f.lazy.fn = f.waiting_fn
    fork_init(f, w, <fork_fn>f.lazy.fn, f.lazy.ctx)
    f.published = FORK_PUBLISHED ^ <uint64_t>f
    if not push_fork(w, deque_bottom(&w.forks), &f.lazy.job):
        f.published = 0
        return False
    # f may be running elsewhere by now; its links are the owner's alone.
    lazy_drop_oldest(&w.lazy)
    add_one(&w.sleeper.stats.promotions)
    return True


cdef bint promote_all(Worker* w) noexcept nogil:
    """False when memory ran out before all lazy forks were promoted."""
    while lazy_any(&w.lazy):
        if not lazy_promote(w):
            return False
    return True


cdef void fuse_burnt(Worker* w) noexcept nogil:
    """Forks and ticks have used up the fuse, or somebody asked.  A new fuse is as
    long as forks and ticks of one beat at their present rate."""
    cdef int64_t now = now_ns()
    cdef int64_t took = now - w.last_beat
    cdef int64_t length = w.fuse_length
    # When somebody asked, the fuse did not burn down: its length says nothing.
    if u32_load_relaxed(&w.asked) == 0 and not w.fresh:
        length = min(length * BEAT_NS // (took + 1), 4 * length, <int64_t>FUSE_MAX)
        if length < 1:
            length = 1
        w.fuse_length = <uint32_t>length
    w.last_beat = now
    beat(w, now)
    # relaxed, both: hints.  Cleared after the fuse is set: one who asks between
    # the two is asked for nothing until the fuse burns down.
    fuse_store(&w.lazy.fuse, <unsigned int>length)
    u32_store_relaxed(&w.asked, 0)


cdef void beat(Worker* w, int64_t now) noexcept nogil:
    """Promotes the oldest lazy fork, unless thieves have something to take as it
    is: at once in a job that was stolen, for somebody was hungry; else when it
    has waited for a beat."""
    cdef Fork* f = <Fork*>w.lazy.root.newer
    cdef uint64_t c
    cdef int64_t enough
    if not lazy_any(&w.lazy) or w.pool.n_background == 0:
        return
    if deque_looks(&w.forks) > 0:
        return
    c = counters_load(&w.pool.sleep.counters)
    if w.fresh:
        w.fresh = False
        if count_inactive(c) != 0:
            lazy_promote(w)
            return
    if f.lazy.fn != <void*>was_seen:
        f.waiting_fn = f.lazy.fn
        f.lazy.fn = <void*>was_seen
        f.waiting_since = now
        return
    enough = WAITED_AWAKE_NS if count_inactive(c) > count_sleeping(c) else WAITED_ASLEEP_NS
    if now - f.waiting_since >= enough:
        lazy_promote(w)


cdef bint take_published(Fork* f) noexcept nogil:
    """Whether this is a fork that was promoted and not yet joined."""
    if f.published != FORK_PUBLISHED ^ <uint64_t>f:
        return False
    f.published = 0
    return True


cdef int lazy_join_slow(Worker* w, Fork* f, int ra) noexcept nogil:
    """The end of a join whose second half was promoted."""
    cdef bint published = take_published(f)
    invariant(published, "a lazy fork is the newest, or was promoted")
    return join_rest(w, f, ra)


cdef int try_join_slow(Worker* w, Fork* f, int* rc) noexcept nogil:
    """1: another worker ran this fork, and rc is what it returned, or -1 with its
    exception set.  0: nobody did, nor will.  -1: it is no fork, or was joined
    before, or one that was made after it was not."""
    cdef void* error
    # The newest in the deque, if thieves have left any, is the newest promoted.
    if (lazy_any(&w.lazy) or (deque_looks(&w.forks) > 0
                              and deque_newest(&w.forks) != &f.lazy.job)
            or not take_published(f)):
        return -1
    if fork_back(w, f, deque_bottom(&w.forks) - 1):
        return 0
    # A sibling's exception may be set; it came first.
    error = hooks().capture()
    rc[0] = join_stolen(w, f, 0 if error == NULL else -1)
    if error != NULL:
        hooks().restore(error)
    return 1
