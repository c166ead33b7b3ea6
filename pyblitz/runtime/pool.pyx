"""Workers and the pool; see pool.pxd for what they promise."""
from libc.stdint cimport INT64_MAX, INT64_MIN
from libc.stdlib cimport calloc, free
from pyblitz.runtime.atomic cimport (
    fence_seq_cst, i64_cas_acquire, i64_fetch_add_acquire, i64_fetch_add_relaxed,
    i64_fetch_or_acq_rel, i64_fetch_sub_acq_rel, i64_load_acquire, i64_load_relaxed,
    i64_store_relaxed, invariant, likely, ptr_cas_acq_rel, ptr_load_acquire,
    u32_load_relaxed, u32_load_seq_cst, u32_store_relaxed, u32_store_release,
    u64_cas_acquire,
    u64_fetch_and_release, u64_load_relaxed, u64_store_relaxed, unlikely)
from pyblitz.runtime.call cimport (
    GO_ON, STOP_INTERRUPTED, STOP_NOT_WANTED, STOP_TIME_IS_UP, Call, Part, Stop, call_init,
    call_stop, call_stopped, part_wanted)
from pyblitz.runtime.chaos cimport chaos
from pyblitz.runtime.counters cimport (
    count_inactive, count_sleeping, counters_load, sub_inactive)
from pyblitz.runtime.deque cimport (
    STEAL_RETRY, STEAL_TAKEN, StealResult, deque_bottom_tag, deque_destroy,
    deque_init, deque_looks, deque_offers, deque_steal)
from pyblitz.runtime.injector cimport (
    inbox_has_jobs, inbox_init, inbox_push, inbox_take, injector_has_jobs, injector_push,
    injector_take)
from pyblitz.runtime.lazy cimport fuse_store, lazy_any, lazy_init
from pyblitz.runtime.latch cimport latch_is_set, latch_set
from pyblitz.runtime.stats cimport BUSY, ELSEWHERE, SEARCHING, SLEEPING, add_one, note
from pyblitz.runtime.os cimport (
    LockLatch, alloc_aligned, atfork_child, lock_latch_destroy, lock_latch_init,
    lock_latch_is_set, lock_latch_set, lock_latch_wait, membarrier_register, now_ns,
    thread_create, thread_join, wait_for_memory, yield_thread)
from pyblitz.runtime.sleep cimport (
    THREAD_NONE, THREAD_RETIRED, THREAD_RUNS, Idle, came_late, idle_init, no_work_found,
    post_injected, post_moved, retire, revive, sleep_init, sleeper_destroy, sleeper_init,
    spin_after_sleep, start_looking, wake_any, wake_sleeper)

cdef extern from *:
    """
    /* The worker that this thread is.  In a .pyx, so that there is one. */
    static _Thread_local void *pb_current = NULL;
    /* The innermost CancelScope of a thread that is no worker. */
    static _Thread_local void *pb_call = NULL;
    static void *pb_get_current(void) { return pb_current; }
    static void pb_set_current(void *w) { pb_current = w; }
    static void *pb_get_call(void) { return pb_call; }
    static void pb_set_call(void *c) { pb_call = c; }
    static int pb_ctz64(uint64_t x) { return __builtin_ctzll(x); }
    """
    void* get_current "pb_get_current"() nogil
    void set_current "pb_set_current"(void*) nogil
    void* get_call "pb_get_call"() nogil
    void set_call "pb_set_call"(void*) nogil
    int ctz64 "pb_ctz64"(uint64_t) nogil


# ---- the language above, and forks of the process ---------------------------

cdef const Hooks* the_hooks = NULL
cdef atomic_i64 forks_seen


cdef const Hooks* hooks() noexcept nogil:
    return the_hooks


cdef void set_hooks(const Hooks* h) noexcept nogil:
    global the_hooks
    the_hooks = h


cdef void after_fork() noexcept nogil:
    # relaxed: the child has one thread
    i64_store_relaxed(&forks_seen, i64_load_relaxed(&forks_seen) + 1)


i64_store_relaxed(&forks_seen, 0)
if atfork_child(after_fork) != 0:
    raise MemoryError("pthread_atfork")


cdef int64_t process_generation() noexcept nogil:
    """How many forks of the process led here."""
    return i64_load_relaxed(&forks_seen)


cdef bint pool_is_stale(const Pool* p) noexcept nogil:
    """Whether the pool belongs to the process that this one was forked from:
    its threads are not here, and its memory is to be left alone."""
    return p.generation != i64_load_relaxed(&forks_seen)


# ---- making and ending a pool -----------------------------------------------

cdef Worker* worker_new(Pool* p, int index, bint background) noexcept nogil:
    """NULL without memory."""
    cdef Worker* w = <Worker*>alloc_aligned(sizeof(Worker))
    cdef bint ok
    if w == NULL:
        return NULL
    w.pool = p
    w.index = index
    w.background = background
    w.sharing = background
    w.mark_of_call = mark_of(NULL)
    w.cpu = -1
    # Any seed but 0 does for xorshift.
    w.rng = (<uint64_t>now_ns() ^ (<uint64_t>index * 0x9E3779B97F4A7C15u)) | 1
    lazy_init(&w.lazy)
    sleeper_init(&w.sleeper, background)
    ok = deque_init(&w.forks, p.asymmetric)
    ok &= deque_init(&w.tasks, p.asymmetric)
    if not ok:
        worker_free(w)
        return NULL
    return w


cdef void worker_free(Worker* w) noexcept nogil:
    cdef Job* task
    if w != NULL:
        while w.free_tasks != NULL:
            task = w.free_tasks
            w.free_tasks = task.next
            free(task)
        deque_destroy(&w.forks)
        deque_destroy(&w.tasks)
        sleeper_destroy(&w.sleeper)
        free(w)


cdef Pool* pool_new(int num_threads, bint asymmetric, void* lanes) noexcept nogil:
    """A pool whose threads start when they are first woken; NULL when there is
    no memory.  ``asymmetric``: thieves may pay for the owners' fences, where the
    system can do that."""
    cdef Pool* p = <Pool*>alloc_aligned(sizeof(Pool))
    cdef int i
    cdef bint ok
    if p == NULL:
        return NULL
    p.n_background = num_threads - 1
    # Without background workers there are no thieves.
    p.asymmetric = asymmetric and (p.n_background == 0 or membarrier_register())
    # One more: without memory calloc says so, and not that none was asked for.
    p.workers = <Worker**>calloc(p.n_background + 1, sizeof(Worker*))
    p.sleepers = <Sleeper**>calloc(p.n_background + 1, sizeof(Sleeper*))
    ok = p.workers != NULL and p.sleepers != NULL and add_guests(p, 0) != NULL
    if ok:
        for i in range(p.n_background):
            p.workers[i] = worker_new(p, i, True)
            if p.workers[i] == NULL:
                ok = False
                break
            p.sleepers[i] = &p.workers[i].sleeper
    p.lanes = lanes
    p.generation = i64_load_relaxed(&forks_seen)
    inbox_init(&p.inbox)
    i64_store_relaxed(&p.users, 0)
    i64_store_relaxed(&p.threads, 0)
    lock_latch_init(&p.quiet)
    sleep_init(&p.sleep, &p.inbox, p.sleepers, p.n_background, start_thread, p)
    if not ok:
        pool_free(p)
        return NULL
    return p


cdef void pool_free(Pool* p) noexcept nogil:
    """After pool_join, or on a pool that nobody else has seen."""
    cdef int i
    if p.workers != NULL:
        for i in range(p.n_background):
            worker_free(p.workers[i])
    for i in range(GUEST_BLOCKS):
        free_guests(guest_block(p, i))
    free(p.workers)
    free(p.sleepers)
    lock_latch_destroy(&p.quiet)
    free(p)


# ---- guests -----------------------------------------------------------------

cdef inline GuestBlock* guest_block(const Pool* p, int k) noexcept nogil:
    """NULL: there is none, nor any behind it."""
    # acquire: partner is the compare-and-swap in add_guests
    return <GuestBlock*>ptr_load_acquire(&p.guests[k]) if k < GUEST_BLOCKS else NULL


cdef void free_guests(GuestBlock* block) noexcept nogil:
    cdef int i
    if block != NULL:
        for i in range(GUEST_SLOTS):
            worker_free(block.guests[i])
        free(block)


cdef GuestBlock* add_guests(Pool* p, int k) noexcept nogil:
    """Block k, made by us or by one who was faster; NULL without memory."""
    cdef GuestBlock* block = <GuestBlock*>alloc_aligned(sizeof(GuestBlock))
    cdef int i
    if block == NULL:
        return NULL
    u64_store_relaxed(&block.taken, 0)
    for i in range(GUEST_SLOTS):
        block.guests[i] = worker_new(p, k * GUEST_SLOTS + i, False)
        if block.guests[i] == NULL:
            free_guests(block)
            return NULL
    chaos(b"guests: made")
    # acq_rel: partner is the load in guest_block
    if not ptr_cas_acq_rel(&p.guests[k], NULL, block):
        free_guests(block)
    return guest_block(p, k)


cdef Worker* take_guest(Pool* p) noexcept nogil:
    """A worker for a thread that calls in: the first that is free.  NULL without
    memory, or with all GUEST_BLOCKS full."""
    cdef GuestBlock* block
    cdef uint64_t taken
    cdef int k, i
    for k in range(GUEST_BLOCKS):
        block = guest_block(p, k)
        if block == NULL:
            block = add_guests(p, k)
            if block == NULL:
                return NULL
        taken = u64_load_relaxed(&block.taken)
        while ~taken:
            i = ctz64(~taken)
            # acquire: partner is the release in pool_leave, so that we see the
            # worker as its last guest left it
            if u64_cas_acquire(&block.taken, taken, taken | (<uint64_t>1 << i)):
                return block.guests[i]
            taken = u64_load_relaxed(&block.taken)
    return NULL


cdef Worker* next_guest(Pool* p, int* k, uint64_t* taken) noexcept nogil:
    """Each guest that is inside, beginning with k = -1 and taken = 0; then NULL."""
    cdef GuestBlock* block
    cdef int i
    while taken[0] == 0:
        k[0] += 1
        block = guest_block(p, k[0])
        if block == NULL:
            return NULL
        # relaxed: one that is missed, or left by now, is like one that was looked at
        # earlier; all workers live as long as the pool
        taken[0] = u64_load_relaxed(&block.taken)
    i = ctz64(taken[0])
    taken[0] &= taken[0] - 1
    return guest_block(p, k[0]).guests[i]


cdef int pool_places(Pool* p) noexcept nogil:
    """How many workers there are by now, of guests that are inside or may come."""
    cdef int k = 0
    while guest_block(p, k) != NULL:
        k += 1
    return p.n_background + k * GUEST_SLOTS


cdef Worker* pool_worker(Pool* p, int i) noexcept nogil:
    """Of those: the background workers, then the guests."""
    if i < p.n_background:
        return p.workers[i]
    i -= p.n_background
    return guest_block(p, i // GUEST_SLOTS).guests[i % GUEST_SLOTS]


cdef void users_gone(Pool* p) noexcept nogil:
    """Closed, and nobody inside: tell the threads to end."""
    cdef int i
    if pool_is_stale(p):
        return      # the parent's: another thread may have held the mutex of `quiet` at the fork
    for i in range(p.n_background):
        chaos(b"close")
        if latch_set(&p.sleepers[i].terminate):
            # Between setting and the load of `asleep`; partner: fence 2.
            fence_seq_cst()
            wake_sleeper(&p.sleep, i, False)
    lock_latch_set(&p.quiet)


cdef void pool_retire(Pool* p) noexcept nogil:
    """Refuses new users; the threads end when the last user leaves.  Does not
    wait, so that a user may call it.  Twice is harmless."""
    # acq_rel: partner is the fetch_add of add_user, so that either the newcomer
    # sees the bit or we see the newcomer
    if i64_fetch_or_acq_rel(&p.users, POOL_CLOSED) == 0:
        users_gone(p)


cdef void pool_join(Pool* p) noexcept nogil:
    """Waits for the last user and for the threads.  After pool_retire, from a
    thread that is no user; again is harmless, at the same time is not."""
    cdef int i
    lock_latch_wait(&p.quiet)
    for i in range(p.n_background):
        # relaxed: whoever created it was a user, and is gone
        if u32_load_relaxed(&p.sleepers[i].joinable):
            thread_join(p.workers[i].thread)
            u32_store_relaxed(&p.sleepers[i].joinable, 0)


cdef bint pool_ended(Pool* p) noexcept nogil:
    """Whether pool_join would not wait."""
    # In this order: users_gone may still start a thread, to end it.
    # acquire: partner is the end of worker_main
    return lock_latch_is_set(&p.quiet) and i64_load_acquire(&p.threads) == 0


cdef bint add_user(Pool* p) noexcept nogil:
    # No thread counts itself in a closed pool, not even to take that back: it could be the last user a
    # second time, with the pool freed meanwhile.
    cdef int64_t users
    while True:
        # relaxed: only compared
        users = i64_load_relaxed(&p.users)
        if users & POOL_CLOSED:
            return False
        # acquire: partner is pool_retire's fetch_or
        if i64_cas_acquire(&p.users, users, users + 1):
            return True


cdef void share_inside(Pool* p) noexcept nogil:
    """One more user, by one who is: the pool cannot end meanwhile, though it may
    be closed."""
    # acquire: as in add_user
    i64_fetch_add_acquire(&p.users, 1)


cdef void job_done(Pool* p) noexcept nogil:
    """A user is gone; the last one out of a closed pool ends its threads."""
    chaos(b"pool: leaving")
    # acq_rel: whoever sees zero sees all that the users did
    if i64_fetch_sub_acq_rel(&p.users, 1) == POOL_CLOSED + 1:
        users_gone(p)


# ---- threads ----------------------------------------------------------------

cdef struct Beginning:
    Worker* worker
    bint began          # it has what the language above keeps for each thread
    LockLatch known     # set when `began` says so


cdef bint start_thread(void* pool, int i) noexcept nogil:
    """By the claimer of worker i's wake.  False: the system has no place for a thread, or the language
    above no memory."""
    cdef Worker* w = (<Pool*>pool).workers[i]
    cdef Beginning b
    cdef void* held
    if w.sleeper.thread == THREAD_RETIRED:
        # It is past its last look: this does not wait for anything.
        thread_join(w.thread)
        u32_store_relaxed(&w.sleeper.joinable, 0)
    w.sleeper.thread = THREAD_RUNS
    # relaxed: whoever starts it is counted, as a user or as a thread
    i64_fetch_add_relaxed(&w.pool.threads, 1)
    b.worker = w
    b.began = False
    lock_latch_init(&b.known)
    if thread_create(&w.thread, worker_main, &b, i + 1, w.cpu) == 0:
        # Not later: a job that is bound to a thread without memory would wait as long as that lasts.  It
        # does not need the GIL; but free-threaded Python may stop this thread for it.
        held = hooks().let_go()
        lock_latch_wait(&b.known)
        if not b.began:
            thread_join(w.thread)
        hooks().take_back(held)
    lock_latch_destroy(&b.known)
    if not b.began:
        i64_fetch_sub_acq_rel(&w.pool.threads, 1)
        w.sleeper.thread = THREAD_NONE
        return False
    # Where the new thread may run before `w.thread` is written, it may not end
    # before that.  release: partner is the load in fall_asleep
    u32_store_release(&w.sleeper.joinable, 1)
    return True


cdef void worker_main(void* arg) noexcept nogil:
    cdef Worker* w = (<Beginning*>arg).worker
    cdef Pool* p = w.pool
    cdef Sleep* s = &p.sleep
    cdef Idle idle
    cdef Job* job
    cdef bint began, more = False
    set_current(w)
    began = hooks().thread_start()
    (<Beginning*>arg).began = began
    # arg is gone after this.
    lock_latch_set(&(<Beginning*>arg).known)
    if not began:
        return
    note(&w.sleeper.stats, SLEEPING, SEARCHING)
    # Whoever started this thread left it counted as inactive: it searches.
    idle_init(&idle)
    # It is as one that slept.
    spin_after_sleep(s, &idle, INT64_MAX, now_ns())
    while True:
        job = find_work(w, &more)
        if job != NULL:
            if idle.begun > 0:
                came_late(s, &idle, now_ns())
            work_found(w, more)
            note(&w.sleeper.stats, SEARCHING, BUSY)
            while job != NULL:
                execute(w, job)
                if pool_is_stale(w.pool):
                    # The job forked, and this is the child: what was a pool's thread
                    # is its main one now, and has nothing left to do.
                    hooks().exit_child()
                job = find_work(w, &more)
            note(&w.sleeper.stats, BUSY, SEARCHING)
            start_looking(s, &idle)
        elif latch_is_set(&w.sleeper.terminate):
            note(&w.sleeper.stats, SEARCHING, ELSEWHERE)
            sub_inactive(&s.counters)
            stop_thread()
            break
        elif no_work_found(s, w.index, &idle):
            # Before others may start a thread in our place, and wait for us.
            stop_thread()
            note(&w.sleeper.stats, SEARCHING, SLEEPING)
            if retire(s, w.index, &idle):
                break
            note(&w.sleeper.stats, SLEEPING, SEARCHING)
            begin_again(w)
    # acq_rel: partner is pool_ended.  The pool may be gone after this.
    i64_fetch_sub_acq_rel(&p.threads, 1)


cdef void begin_again(Worker* w) noexcept nogil:
    """After a `stop_thread` that was too early: somebody took the memory that this gave back, and it is
    waited for.  Who is told to end meanwhile has no job left to run: its pool is closed, and has no
    users."""
    set_current(w)
    while not hooks().thread_start() and not latch_is_set(&w.sleeper.terminate):
        wait_for_memory()


cdef void stop_thread() noexcept nogil:
    # First: what Python destroys with this thread's state may call in again.
    set_current(NULL)
    hooks().thread_stop()


cdef void work_found(Worker* w, bint more) noexcept nogil:
    """The search is over.  Wakes another if there is more where the job came
    from, or anywhere, and nobody is left to look for it: posters relied on this
    searcher."""
    cdef Sleep* s = &w.pool.sleep
    cdef uint64_t before = sub_inactive(&s.counters)
    if count_sleeping(before) == 0:
        return
    chaos(b"found work")
    if not more and count_inactive(before) - 1 == count_sleeping(before):
        # Between leaving the searchers and the look; partner: fence 1.
        fence_seq_cst()
        more = inbox_has_jobs(&w.pool.inbox) or work_in_sight(w.pool)
    if more:
        wake_any(s, True)


cdef bint work_in_sight(Pool* p) noexcept nogil:
    cdef int i, k = -1
    cdef uint64_t taken = 0
    cdef Worker* guest = next_guest(p, &k, &taken)
    for i in range(p.n_background):
        if deque_looks(&p.workers[i].forks) > 0 or deque_looks(&p.workers[i].tasks) > 0:
            return True
    while guest != NULL:
        if deque_looks(&guest.forks) > 0 or deque_looks(&guest.tasks) > 0:
            return True
        guest = next_guest(p, &k, &taken)
    return False


cdef Job* find_work(Worker* w, bint* more) noexcept nogil:
    """The next job of a background worker with nothing on its stack.  Every other
    search begins with what is bound to it, every fourth with the inbox; otherwise
    it takes its own tasks, newest first, and then another's, oldest first.  So
    none of these kinds of work starves behind another.  (Its own forks: none, for
    join pops or waits for each before it returns.)"""
    cdef Job* job = NULL
    cdef uint32_t turn
    invariant(deque_looks(&w.forks) <= 0, "no fork outlives its join")
    more[0] = False
    w.searches += 1
    turn = w.searches & 3
    if turn & 1 == 0:
        job = take_own(w)
    if job == NULL and turn == 1:
        job = take_injected(w, more)
    if job != NULL:
        # It may wait for what waits for them.
        put_tasks_away(w, INT64_MIN)
    else:
        job = pop_task(w)
        more[0] = deque_looks(&w.tasks) > 0
    if job == NULL:
        job = steal_any(w, more)
    if job == NULL:
        job = take_injected(w, more)
    if job == NULL and turn & 1 == 1:
        job = take_own(w)
    return job


cdef Job* take_own(Worker* w) noexcept nogil:
    # In turn, so that a task which always spawns the next one here does not keep
    # the lanes waiting.
    cdef Job* job = take_bound(w) if w.searches & 2 else take_mail(w, 0)
    if job == NULL:
        job = take_mail(w, 0) if w.searches & 2 else take_bound(w)
    return job


cdef inline int level_of(const Job* mail) noexcept nogil:
    return (<const Task*>mail).group.level


cdef void sort_mail(Worker* w) noexcept nogil:
    """Puts what lies in the mailbox where it belongs in the list."""
    cdef Job* job = injector_take(&w.sleeper.mailbox)
    cdef Job* before = NULL         # which went into the list last
    cdef Job* next
    cdef Job** at
    while job != NULL:
        next = job.next
        if before != NULL and level_of(before) == level_of(job):
            at = &before.next
        elif w.mail != NULL and level_of(job) <= level_of(w.last_mail):
            at = &w.last_mail.next
        else:
            at = &w.mail
            while at[0] != NULL and level_of(at[0]) >= level_of(job):
                at = &at[0].next
        job.next = at[0]
        at[0] = job
        if job.next == NULL:
            w.last_mail = job
        before = job
        job = next


cdef Job* take_mail(Worker* w, int above) noexcept nogil:
    """The oldest job of the highest level in the mailbox, if that is above this one;
    or NULL."""
    cdef Job* job
    sort_mail(w)
    job = w.mail
    if job == NULL or level_of(job) <= above:
        return NULL
    w.mail = job.next
    return job


cdef Job* take_bound(Worker* w) noexcept nogil:
    """The lane that has waited longest for its turn, or NULL."""
    cdef Job* job = w.bound
    if job == NULL:
        job = injector_take(&w.sleeper.bound)
    if job != NULL:
        w.bound = job.next
    return job


cdef Job* take_injected(Worker* w, bint* more) noexcept nogil:
    """The oldest injected job.  The others stay where every worker finds them,
    in their order: on a deque, each batch would hide the one before it."""
    cdef bint moved = False
    cdef Job* job = inbox_take(&w.pool.inbox, more, &moved)
    if moved:
        post_moved(&w.pool.sleep)
    return job


cdef inline uint64_t worker_random(Worker* w) noexcept nogil:
    # xorshift64 (Marsaglia 2003)
    w.rng ^= w.rng << 13
    w.rng ^= w.rng >> 7
    w.rng ^= w.rng << 17
    return w.rng


cdef Job* steal_from(Worker* w, Worker* victim, bint* more, bint* retry) noexcept nogil:
    cdef Job* job = NULL
    cdef void* tag
    cdef StealResult r = STEAL_RETRY
    # A cheap look before the fence of a real try.
    if deque_looks(&victim.forks) > 0:
        r = deque_steal(&victim.forks, NULL, &job, &tag)
        if r == STEAL_TAKEN:
            more[0] = deque_looks(&victim.forks) > 0 or deque_looks(&victim.tasks) > 0
            add_one(&w.sleeper.stats.steals)
            return job
        add_one(&w.sleeper.stats.failed_steals)
        retry[0] |= r == STEAL_RETRY
    if deque_looks(&victim.tasks) > 0:
        r = deque_steal(&victim.tasks, NULL, &job, &tag)
        if r == STEAL_TAKEN:
            more[0] = deque_looks(&victim.tasks) > 0
            add_one(&w.sleeper.stats.steals)
            return job
        add_one(&w.sleeper.stats.failed_steals)
        retry[0] |= r == STEAL_RETRY
    return NULL


cdef Job* steal_from_guests(Worker* w, bint* more, bint* retry) noexcept nogil:
    """One sweep, in each block from a random start."""
    cdef int i, turn, k = 0
    cdef GuestBlock* block = guest_block(w.pool, 0)
    cdef uint64_t taken
    cdef Job* job
    while block != NULL:
        # relaxed: as in next_guest
        taken = u64_load_relaxed(&block.taken)
        if taken:
            turn = <int>(worker_random(w) & 63)
            taken = (taken >> turn) | (taken << ((64 - turn) & 63))
            while taken:
                i = (ctz64(taken) + turn) & 63
                taken &= taken - 1
                job = steal_from(w, block.guests[i], more, retry)
                if job != NULL:
                    return job
        k += 1
        block = guest_block(w.pool, k)
    return NULL


cdef Job* steal_any(Worker* w, bint* more) noexcept nogil:
    """One sweep over guests, where roots are, and then background workers,
    each from a random start; again while a race was lost."""
    cdef Pool* p = w.pool
    cdef int i, k, turn, n = p.n_background
    cdef bint retry = True
    cdef Job* job
    while retry:
        retry = False
        job = steal_from_guests(w, more, &retry)
        if job != NULL:
            return job
        if n > 1:
            turn = <int>(worker_random(w) % <uint64_t>n)
            for k in range(n):
                i = turn + k if turn + k < n else turn + k - n
                if i != w.index:
                    job = steal_from(w, p.workers[i], more, &retry)
                    if job != NULL:
                        return job
    if w.searches & 7 == 0:
        ask_all(w)
    return NULL


cdef void ask_all(Worker* w) noexcept nogil:
    """Nothing to steal: asks whoever may have lazy forks to promote one.  Each eighth time, about once
    in a microsecond: who is asked looks at the clock."""
    cdef Pool* p = w.pool
    cdef uint64_t taken = 0
    cdef int i, k = -1
    cdef Worker* guest = next_guest(p, &k, &taken)
    while guest != NULL:
        ask(guest)
        guest = next_guest(p, &k, &taken)
    # Whoever is not inactive runs something.
    if count_inactive(counters_load(&p.sleep.counters)) < <uint32_t>p.n_background:
        for i in range(p.n_background):
            if i != w.index:
                ask(p.workers[i])


cdef inline void ask(Worker* busy) noexcept nogil:
    # relaxed, all: hints.  The owner clears `asked` when it has answered: until
    # then others do not disturb it, however many they are.  If it overwrites
    # the fuse at this moment, it answers when that has burnt down.
    if u32_load_relaxed(&busy.asked) == 0:
        u32_store_relaxed(&busy.asked, 1)
        fuse_store(&busy.lazy.fuse, 0)


cdef Job* steal_task(Worker* w, Group* group) noexcept nogil:
    """A task of this group from another worker, where it is the oldest."""
    cdef Pool* p = w.pool
    cdef uint64_t taken = 0
    cdef Worker* victim
    cdef Job* job
    cdef void* tag
    cdef int i = 0, k = -1
    if p.n_background == 0:
        return NULL     # nobody steals, so nobody fences
    while True:
        victim = p.workers[i] if i < p.n_background else next_guest(p, &k, &taken)
        i += 1
        if victim == NULL:
            return NULL
        if victim != w and deque_offers(&victim.tasks, group):
            if deque_steal(&victim.tasks, group, &job, &tag) == STEAL_TAKEN:
                add_one(&w.sleeper.stats.steals)
                return job


cdef void put_away(Job* job, Group* other) noexcept nogil:
    """Lays aside a task that this worker must not run now, where the owner of
    its group finds it."""
    # The group lives, for its task is in our hands; not after the push.
    cdef Worker* owner = other.owner
    injector_push(&other.put_away, job)
    chaos(b"put away")
    # Between the push and the token; partner: the fence in sleep_on_latch.
    fence_seq_cst()
    wake_worker(owner)


cdef void put_tasks_away(Worker* w, int64_t end) noexcept nogil:
    """Puts away this worker's tasks, down to where they end at ``end`` or below."""
    cdef Job* job
    cdef void* tag
    while tasks_end(w) > end and deque_looks(&w.tasks) > 0:
        tag = deque_bottom_tag(&w.tasks)
        job = pop_task(w)
        if job == NULL:
            return
        put_away(job, <Group*>tag)
        if w.tasks_kept < end:
            end = w.tasks_kept


cdef void execute_waiting(Worker* w, Job* job) noexcept nogil:
    """Runs a job on top of a wait, and puts away the tasks that it left on this
    worker: under the wait nobody but thieves would reach them."""
    cdef int64_t kept = w.tasks_kept
    w.tasks_kept = tasks_end(w)
    execute(w, job)
    put_tasks_away(w, w.tasks_kept)
    # What was taken from below is no longer there for the waits below, either.
    if kept < w.tasks_kept:
        w.tasks_kept = kept


cdef void execute(Worker* w, Job* job) noexcept nogil:
    """Runs a job that this worker took from a queue."""
    cdef Job* base = w.base
    cdef SpinLatch* awaited = w.awaited
    cdef bint sharing = w.sharing
    cdef void* mark = w.mark_of_call
    cdef Part* part = w.part
    invariant(not lazy_any(&w.lazy), "no lazy fork is older than a taken job")
    add_one(&w.sleeper.stats.jobs)
    w.base = job
    # run_stolen_fork, and run_task, set them.
    w.awaited = NULL
    w.mark_of_call = mark_of(NULL)
    w.part = NULL
    # It was taken because somebody was hungry: its first fork is shared at once.
    w.sharing = True
    w.fresh = True
    fuse_store(&w.lazy.fuse, 0)
    job.run(w, job)
    note(&w.sleeper.stats, BUSY, BUSY)
    invariant(not lazy_any(&w.lazy), "a job joins what it forks")
    w.base = base
    w.awaited = awaited
    w.sharing = sharing
    w.mark_of_call = mark
    w.part = part
    w.fresh = False


cdef bint has_mail(Worker* w) noexcept nogil:
    """Whether there is mail for a worker that waits, or some that nobody looked at."""
    return ((w.mail != NULL and level_of(w.mail) > mail_level(w))
            or injector_has_jobs(&w.sleeper.mailbox))


cdef void serve_mailbox(Worker* w) noexcept nogil:
    """While it waits: runs the mail that what it waits for may need, see Group.  Two
    workers that broadcast at once, or one that waits for a job which broadcasts, would
    wait for each other otherwise."""
    cdef Job* job = take_mail(w, mail_level(w))
    while job != NULL:
        execute_waiting(w, job)
        job = take_mail(w, mail_level(w))


cdef void serve_broadcasts(Worker* w) noexcept nogil:
    """While it waits for what levels say nothing about (a future, say): runs parts of
    broadcasts of any level.  There are no more of them than callers that wait for one,
    so this is as deep as those are many."""
    cdef int level = mail_level(w)
    cdef Job* job = take_broadcast(w)
    while job != NULL:
        # Who waits for what is under it serves what it leads to only at a level above this one.
        w.least_level = level
        execute_waiting(w, job)
        job = take_broadcast(w)


cdef Job* take_broadcast(Worker* w) noexcept nogil:
    cdef Job** at = &w.mail
    cdef Job* before = NULL
    cdef Job* job
    sort_mail(w)
    while at[0] != NULL and (<Task*>at[0]).mail != MAIL_OR_NOBODY:
        before = at[0]
        at = &before.next
    job = at[0]
    if job != NULL:
        at[0] = job.next
        if job.next == NULL:
            w.last_mail = before
    return job


cdef void wake_worker(Worker* w) noexcept nogil:
    """Discharges the duty that setting a latch returned."""
    unpark(&w.sleeper.parker)


cdef Stop why_stop(Worker* w, int64_t now) noexcept nogil:
    cdef Call* c = current_call(w)
    cdef Stop why = call_stopped(c)
    if now == 0 and (w.poll_at != 0 or (c != NULL and c.deadline != INT64_MAX)):
        now = now_ns()
    if why == GO_ON and c != NULL and now >= c.deadline:
        why = STOP_TIME_IS_UP
        # For those that have no clock at hand.
        call_stop(c, why)
    # In Python's main thread (poll_at is set), every 20 ms; also when the reason is known, for what it
    # waits for may go on for long.
    if w.poll_at != 0 and now >= w.poll_at:
        if w.poll_at != POLL_LATER and hooks().poll() != 0:
            if w.interrupt != NULL:
                hooks().drop(w.interrupt)
            w.interrupt = hooks().capture()
            if why == GO_ON:
                why = STOP_INTERRUPTED
            call_stop(&w.call, STOP_INTERRUPTED)
        w.poll_at = now + POLL_INTERVAL_NS
    if why == GO_ON and not part_wanted(w.part):
        why = STOP_NOT_WANTED
    return why


cdef bint must_stop(Worker* w, int64_t now) noexcept nogil:
    """Whether what this worker runs is not wanted any more: cancelled, out of time,
    interrupted by a signal, or in vain, for a sibling failed.  An exception that
    says so is then set.  now: 0 if the time is not known."""
    cdef Stop why = why_stop(w, now)
    if likely(why == GO_ON):
        return False
    hooks().stop(why)
    return True


cdef bint must_stop_waiting(Worker* w, bint told) noexcept nogil:
    """The same for one that waits for what must end, and is told once.  Handlers of signals run as long
    as it waits: what one raises then comes out where the operation ends (`leave`)."""
    cdef Stop why = why_stop(w, now_ns())
    if likely(why == GO_ON) or told:
        return False
    hooks().stop(why)
    return True


# ---- entering from outside --------------------------------------------------

cdef Worker* current_worker() noexcept nogil:
    """The worker that this thread is, or NULL."""
    cdef Worker* w = <Worker*>get_current()
    if w != NULL and pool_is_stale(w.pool):
        return NULL
    return w


cdef Call* thread_call() noexcept nogil:
    """What a call that begins now in this thread is a part of, or NULL."""
    cdef Worker* w = current_worker()
    return current_call(w) if w != NULL else <Call*>get_call()


cdef void set_thread_call(Call* c) noexcept nogil:
    """For calls that begin in this thread from now on, which is no worker."""
    set_call(c)


cdef Worker* pool_enter(Pool* p) noexcept nogil:
    """Makes this thread a worker of the pool until pool_leave; NULL when the
    pool is closed, or there is no memory."""
    if not add_user(p):
        return NULL
    return enter_as_user(p)


cdef Worker* enter_as_user(Pool* p) noexcept nogil:
    """pool_enter by one who is a user: the share is taken over, also on failure."""
    cdef Worker* w = take_guest(p)
    cdef Call* outer
    if w == NULL:
        job_done(p)
        return NULL
    w.sharing = False
    w.base = NULL
    w.outer = current_worker()
    w.poll_at = 0
    w.operations = 0
    w.interrupt = NULL
    w.part = NULL
    outer = thread_call()
    call_init(&w.call, INT64_MAX, outer)
    w.mark_of_call = mark_of(NULL)
    if hooks().is_main_thread():
        w.poll_at = POLL_LATER
    if outer != NULL or w.poll_at != 0:
        w.mark_of_call = mark_of(&w.call)
    set_current(w)
    note(&w.sleeper.stats, ELSEWHERE, BUSY)
    return w


cdef void pool_leave(Worker* w) noexcept nogil:
    cdef Pool* p = w.pool
    invariant(deque_looks(&w.forks) <= 0 and deque_looks(&w.tasks) <= 0
              and not lazy_any(&w.lazy), "a guest leaves nothing behind")
    run_orphans(w)
    if w.interrupt != NULL:
        hooks().drop(w.interrupt)
    set_current(w.outer)
    note(&w.sleeper.stats, BUSY, ELSEWHERE)
    # release: partner is the compare-and-swap in take_guest
    u64_fetch_and_release(&guest_block(p, w.index // GUEST_SLOTS).taken,
                          ~(<uint64_t>1 << (w.index % GUEST_SLOTS)))
    job_done(p)


cdef int threads_refused(const Pool* p) noexcept nogil:
    """How many of its threads the system refused when they were last tried."""
    cdef int n = <int>u32_load_seq_cst(&p.sleep.dead)
    # For a moment one too small, when a thread is tried again that is just being
    # counted: see `revive`.
    return n if n > 0 else 0


cdef bint is_orphaned(const Pool* p) noexcept nogil:
    """Whether no thread of the pool could be started."""
    return threads_refused(p) == p.n_background and p.n_background != 0


cdef Worker* runner_here(Pool* p) noexcept nogil:
    """The worker as which this thread runs jobs that no thread of the pool would run,
    now or further out; or NULL."""
    cdef Worker* w = current_worker()
    while w != NULL and not (w.pool == p and w.runs_here):
        w = w.outer
    return w


cdef void run_orphans(Worker* w) noexcept nogil:
    """Runs injected jobs when no thread of the pool could be started.  Whoever
    met the last refusal is a guest and comes through here; whoever injects
    later sees that all are dead and comes too."""
    cdef Pool* p = w.pool
    if likely(threads_refused(p) == 0) or pool_is_stale(p):
        return
    revive(&p.sleep)
    # Jobs that they submit are this loop's, too.
    if is_orphaned(p) and runner_here(p) == NULL:
        w.runs_here = True
        take_orphans(w)
        w.runs_here = False


cdef void take_orphans(Worker* w) noexcept nogil:
    """In the middle of whatever this thread does: without its GIL, which a job may wait for, and
    without the exception that is set."""
    cdef Job* job = next_orphan(w.pool)
    cdef void* held
    cdef void* error
    if job == NULL:
        return
    held = hooks().let_go()
    error = hooks().capture()
    while job != NULL:
        execute(w, job)
        job = next_orphan(w.pool)
    hooks().restore(error)
    hooks().take_back(held)


cdef Job* next_orphan(Pool* p) noexcept nogil:
    """Of the inbox of a pool whose threads were all refused."""
    cdef Job* job = NULL
    cdef bint more, moved
    # Between the load of `dead` and the look at the inbox; partner: fence 1.
    fence_seq_cst()
    while job == NULL and inbox_has_jobs(&p.inbox) and not pool_is_stale(p):
        job = inbox_take(&p.inbox, &more, &moved)
        if job == NULL:
            yield_thread()
    return job


cdef void pool_post(Pool* p, Job* job) noexcept nogil:
    """Puts a job that holds a share of the pool's users, which it gives back with job_done, into
    the inbox.  The pool has threads, or had some."""
    # A second share for this thread: the job may be done, and the pool closed,
    # before the next line is reached.
    share_inside(p)
    chaos(b"pool: shared")
    inbox_push(&p.inbox, job)
    post_injected(&p.sleep)
    look_after_orphans(p)


cdef void look_after_orphans(Pool* p) noexcept nogil:
    """By a user who may have met the refusal of the last thread, or relied on it; the
    share is taken over."""
    cdef Worker* w = NULL
    if unlikely(threads_refused(p) != 0):
        revive(&p.sleep)
        if is_orphaned(p) and runner_here(p) == NULL:
            w = enter_as_user(p)        # takes the share over
            if w != NULL:
                pool_leave(w)
            return
    job_done(p)


cdef void pool_run_here(Pool* p, Job* job) noexcept nogil:
    """Runs a job in this thread, because the pool has no thread of its own: as a
    guest, since this thread may be in the middle of something.  A job that such a job
    submits is run after it, not on top of it.  The caller is a user of the pool, and
    the job is another."""
    cdef Worker* w = runner_here(p)
    job.next = NULL
    if w != NULL:
        if w.queued == NULL:
            w.queued = job
        else:
            w.last_queued.next = job
        w.last_queued = job
        return
    share_inside(p)
    w = enter_as_user(p)                # takes the share over
    while w == NULL:
        # No memory for a guest: there will be when another leaves.
        share_inside(p)
        yield_thread()
        w = enter_as_user(p)
    w.runs_here = True
    w.queued = job
    w.last_queued = job
    while run_queued(w, w):
        pass
    w.runs_here = False
    pool_leave(w)


cdef bint run_queued(Worker* w, Worker* runner) noexcept nogil:
    """Runs on w the next job that lies in the runner's queue, or in the inbox if no thread takes it
    from there; False: there is none."""
    cdef Job* job = runner.queued
    # After a fork by a job, in the child: the others are the parent's.
    if pool_is_stale(w.pool):
        return False
    if job != NULL:
        runner.queued = job.next
    elif is_orphaned(w.pool):
        job = next_orphan(w.pool)
    if job != NULL:
        execute(w, job)
    return job != NULL


cdef bint pool_help_here(Pool* p) noexcept nogil:
    """By a job that waits for another one which may lie in this thread's own queue: runs the next that
    lies there; False: there is none.  The GIL is not held, and no exception is set."""
    cdef Worker* runner = runner_here(p)
    cdef Worker* w
    cdef bint ran
    if runner == NULL or not (runner.queued != NULL or is_orphaned(p)):
        return False
    share_inside(p)
    w = enter_as_user(p)                # takes the share over
    if w == NULL:
        return False
    ran = run_queued(w, runner)
    pool_leave(w)
    return ran
