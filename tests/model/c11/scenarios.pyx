"""What is explored: a few threads that use the runtime's own functions, and what must
hold whatever they do.

A scenario is its setup (alone), its threads, and a final look (alone) at each state
in which no thread can go on.  `final` gets the threads that have ended, as bits.  All
memory comes from malloc in setup or in a thread, so that the checker sees every
access; a race, a use after free or a NULL that is followed breaks a scenario, too.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from pyblitz.runtime.atomic cimport (
    atomic_i64, atomic_u32, fence_seq_cst, i64_cas_acquire, i64_fetch_add_relaxed,
    i64_fetch_sub_acq_rel, i64_load_acquire, i64_load_relaxed, i64_store_relaxed,
    i64_store_release, u32_load_relaxed, u32_load_seq_cst, u32_store_relaxed,
    u32_store_release, u32_store_seq_cst)
from pyblitz.runtime.counters cimport (
    add_inactive, count_inactive, count_sleeping, counters_init, post_event, sub_inactive)
from pyblitz.runtime.deque cimport (
    BIAS_OWNER, STEAL_TAKEN, Deque, deque_bottom, deque_destroy, deque_init, deque_looks, deque_offers,
    deque_pop, deque_push, deque_steal)
from pyblitz.runtime.injector cimport (
    Inbox, Injector, inbox_has_jobs, inbox_init, inbox_push, inbox_take, injector_has_jobs,
    injector_init, injector_push, injector_take)
from pyblitz.runtime.job cimport Job
from pyblitz.runtime.latch cimport (
    CountLatch, SpinLatch, count_down, count_latch_init, count_try_up, count_up,
    latch_fall_asleep, latch_get_sleepy, latch_is_set, latch_set, latch_wake_up, spin_latch_init,
    spin_latch_set)
from pyblitz.runtime.os cimport (
    LockLatch, Parker, lock_latch_init, lock_latch_set, lock_latch_wait, now_ns, park,
    parker_init, unpark)
from pyblitz.runtime.sleep cimport (
    REVIVE_NS, ROUNDS_UNTIL_SLEEPY, THREAD_NONE, THREAD_RETIRED, THREAD_RUNS, SLEEPER_DEAD, Idle, Sleep, Sleeper,
    idle_init, no_work_found, post_bound, post_injected, post_internal, post_mail, post_moved, retire,
    revive, sleep_init, sleeper_init, start_looking, wake_any)
from pyblitz.runtime.stats cimport (
    BUSY, ELSEWHERE, Noted, Span, WorkerTally, note, stats_read, stats_record)

cdef extern from "model.h" nogil:
    ctypedef struct Site:
        const char* file
        int line
        const char* op
        int kind, written, written_fail, order, late
        long hits
        Site* next
    ctypedef struct Scenario:
        void (*setup)() noexcept nogil
        int n_threads
        void (*thread)(int) noexcept nogil
        void (*final)(int) noexcept nogil
        long max_states
        int weaker
        int preemptions
        int history
        int spurious
        int refuses
    ctypedef struct Found:
        long states, transitions, ends
        int depth, complete, forgot
        const char* broken
        char* trace
    void model_explore(const Scenario*, Found*)
    void check "model_check"(bint, const char*)
    void end_with "model_note"(int64_t)
    int64_t* model_notes(int*)
    int model_thread()
    void model_mutate(const char*, int, const char*, int, int)
    Site* model_sites()
    int model_capacity, model_bias_after


# ---- items: jobs that know how often they were taken -------------------------

cdef struct Item:
    Job job
    int64_t value       # written before the job is given away, read by its taker
    int64_t taken       # by the taker

cdef enum:
    ITEMS = 4

cdef Item* items

cdef void items_new() noexcept nogil:
    global items
    items = <Item*>malloc(ITEMS * sizeof(Item))
    memset(items, 0, ITEMS * sizeof(Item))

cdef Job* give(int i) noexcept nogil:
    items[i].value = i + 1
    return &items[i].job

cdef int take(Job* job) noexcept nogil:
    """The number of the item; it must be one that was given, and not taken before."""
    cdef Item* item = <Item*>job
    check(job != NULL, b"a job was taken that is none")
    check(item.value == (item - items) + 1, b"a job was taken before it was written")
    check(item.taken == 0, b"a job was taken twice")
    item.taken += 1
    return <int>(item - items)

cdef int n_taken(int n) noexcept nogil:
    cdef int i, taken = 0
    for i in range(n):
        taken += items[i].taken
    return taken


# ---- the deque ---------------------------------------------------------------

cdef Deque* deque
cdef int n_given = 0

cdef void deque_new(bint may_bias) noexcept nogil:
    global deque
    items_new()
    deque = <Deque*>malloc(sizeof(Deque))
    check(deque_init(deque, may_bias), b"no memory")

cdef void push(int i) noexcept nogil:
    check(deque_push(deque, deque_bottom(deque), give(i), &items[i]), b"no memory")

cdef bint pop() noexcept nogil:
    cdef Job* job = deque_pop(deque)
    if job != NULL:
        take(job)
    return job != NULL

cdef bint steal() noexcept nogil:
    cdef Job* job = NULL
    cdef void* tag = NULL
    cdef int i
    if deque_steal(deque, NULL, &job, &tag) != STEAL_TAKEN:
        return False
    i = take(job)
    check(tag == &items[i], b"a stolen job has another job's tag")
    return True

cdef void drain(int n, int ended) noexcept nogil:
    while deque_looks(deque) > 0:
        check(pop(), b"a job that is alone in the deque cannot be popped")
    check(n_taken(n) == n, b"a job was lost")

cdef void deque_fenced() noexcept nogil:
    deque_new(False)

cdef void deque_pop_2(int t) noexcept nogil:
    if t == 0:
        push(0)
        push(1)
        pop()
        pop()
    else:
        steal()

cdef void drain_2(int ended) noexcept nogil:
    drain(2, ended)

cdef void deque_refill(int t) noexcept nogil:
    """Cells are used again after they were stolen or popped."""
    if t == 0:
        push(0)
        pop()
        push(1)
        push(2)
        pop()
    else:
        steal()
        if t == 1:
            steal()

cdef void drain_3(int ended) noexcept nogil:
    drain(3, ended)

cdef void deque_grow(int t) noexcept nogil:
    if t == 0:
        push(0)
        push(1)
        push(2)
        push(3)
        pop()
    else:
        steal()
        steal()

cdef void drain_4(int ended) noexcept nogil:
    drain(4, ended)

cdef void deque_last(int t) noexcept nogil:
    """One job at a time, for which all race."""
    if t == 0:
        push(0)
        pop()
        push(1)
        pop()
    else:
        steal()

cdef void deque_fork(int t) noexcept nogil:
    """What a thief asks for by its tag is all that it gets; the ring grows meanwhile."""
    cdef Job* job = NULL
    cdef void* tag = NULL
    if t == 0:
        push(0)
        push(1)
        pop()
        push(2)
        push(3)
        pop()
    elif deque_offers(deque, &items[0]):
        if deque_steal(deque, &items[0], &job, &tag) == STEAL_TAKEN:
            check(take(job) == 0, b"another job was stolen than was asked for")
        if deque_steal(deque, &items[2], &job, &tag) == STEAL_TAKEN:
            check(take(job) == 2, b"another job was stolen than was asked for")

cdef void deque_biased() noexcept nogil:
    """Biased from the beginning, and again after the second fenced pop."""
    deque_new(True)
    push(0)
    pop()
    items[0].taken = 0
    push(0)
    pop()
    memset(items, 0, ITEMS * sizeof(Item))
    check(u32_load_relaxed(&deque.bias) == BIAS_OWNER, b"the deque is not biased")

cdef void deque_biased_full() noexcept nogil:
    deque_biased()
    push(0)
    push(1)

cdef void bias_full(int t) noexcept nogil:
    """The jobs are there; the owner pops while thieves revoke and steal."""
    if t == 0:
        pop()
        pop()
    elif t == 1:
        steal()
        steal()
    else:
        steal()

cdef void bias_new() noexcept nogil:
    """One fenced pop from being biased again."""
    deque_new(True)
    push(0)
    pop()
    items[0].taken = 0
    push(0)
    push(1)

cdef void bias_twice(int t) noexcept nogil:
    if t == 0:
        push(0)
        pop()
        push(1)
        pop()
        push(2)
        pop()
    elif not steal():
        steal()


# ---- the injector and the inbox ------------------------------------------------

cdef Injector* injector
cdef Inbox* inbox

cdef void injector_new() noexcept nogil:
    global injector
    items_new()
    injector = <Injector*>malloc(sizeof(Injector))
    injector_init(injector)

cdef void take_chain(Job* job) noexcept nogil:
    """Takes what comes out, in order: of one thread the first pushed before the second."""
    cdef Job* next
    cdef int i, before = -1
    while job != NULL:
        next = job.next
        i = take(job)
        if i < 2:       # thread 0 pushes 0 and 1
            check(before < i, b"jobs of one thread are out of order")
            before = i
        job = next

cdef void injector_use(int t) noexcept nogil:
    if t == 0:
        injector_push(injector, give(0))
        injector_push(injector, give(1))
    elif t == 1:
        injector_push(injector, give(2))
    else:
        take_chain(injector_take(injector))

cdef void injector_share(int t) noexcept nogil:
    if t == 0:
        injector_push(injector, give(0))
        injector_push(injector, give(1))
    elif t == 1:
        injector_push(injector, give(2))
        take_chain(injector_take(injector))
    else:
        take_chain(injector_take(injector))

cdef void injector_end(int ended) noexcept nogil:
    check(ended == 7, b"a thread hangs")
    take_chain(injector_take(injector))
    check(n_taken(3) == 3, b"a job was lost")

cdef void inbox_new() noexcept nogil:
    global inbox
    items_new()
    inbox = <Inbox*>malloc(sizeof(Inbox))
    inbox_init(inbox)

cdef Job* from_inbox() noexcept nogil:
    cdef bint more = False
    cdef bint moved = False
    cdef Job* job = inbox_take(inbox, &more, &moved)
    if job != NULL:
        take(job)
    return job

cdef void inbox_use(int t) noexcept nogil:
    if t == 0:
        inbox_push(inbox, give(0))
        inbox_push(inbox, give(1))
        inbox_push(inbox, give(2))
    else:
        from_inbox()
        from_inbox()

cdef void inbox_end(int ended) noexcept nogil:
    while from_inbox() != NULL:
        pass
    check(n_taken(3) == 3, b"a job was lost")


# ---- latches and the parker ----------------------------------------------------

cdef struct Waiter:
    Parker parker
    int64_t token_data

cdef Waiter* waiter
cdef SpinLatch* latch
cdef CountLatch* counted
cdef LockLatch* locked
cdef int64_t* results

cdef void waiting_new() noexcept nogil:
    global waiter, results
    waiter = <Waiter*>malloc(sizeof(Waiter))
    parker_init(&waiter.parker)
    results = <int64_t*>malloc(4 * sizeof(int64_t))
    memset(results, 0, 4 * sizeof(int64_t))

cdef void latch_new() noexcept nogil:
    global latch
    waiting_new()
    latch = <SpinLatch*>malloc(sizeof(SpinLatch))
    spin_latch_init(latch, waiter)

cdef void wait_for(SpinLatch* l) noexcept nogil:
    """As a worker waits, without anything to do meanwhile."""
    while not latch_is_set(&l.core):
        if latch_get_sleepy(&l.core) and latch_fall_asleep(&l.core):
            fence_seq_cst()
            park(&waiter.parker, -1)
        latch_wake_up(&l.core)

cdef void wake(void* owner) noexcept nogil:
    if owner != NULL:
        check(owner == waiter, b"another worker is to be woken")
        unpark(&(<Waiter*>owner).parker)

cdef void latch_use(int t) noexcept nogil:
    if t == 0:
        wait_for(latch)
        # The latch may go, and what was written before it was set is here.
        free(latch)
        check(results[0] == 7, b"the latch is set before the result is there")
    elif t == 1:
        results[0] = 7
        wake(spin_latch_set(latch))
    else:
        unpark(&waiter.parker)      # mail: a token that ends no wait

cdef void all_ended_3(int ended) noexcept nogil:
    check(ended == 7, b"a thread sleeps for ever")

cdef void all_ended_2(int ended) noexcept nogil:
    check(ended == 3, b"a thread sleeps for ever")

cdef void counted_new() noexcept nogil:
    global counted
    waiting_new()
    counted = <CountLatch*>malloc(sizeof(CountLatch))
    count_latch_init(counted, waiter)
    count_up(counted, 2)

cdef void count_use(int t) noexcept nogil:
    if t == 0:
        wake(count_down(counted, 1))
        wait_for(&counted.latch)
        free(counted)
        check(results[1] == 1 and results[2] == 2, b"the latch is set before all are done")
    else:
        results[t] = t
        wake(count_down(counted, 1))

cdef void count_late(int t) noexcept nogil:
    """Two shares; thread 2 has none, and may come too late: the latch stays."""
    if t == 0:
        results[0] = 1
        wake(count_down(counted, 1))
        wait_for(&counted.latch)
        check(results[1] == 1, b"the latch is set before all are done")
        check(results[2] == results[3], b"the latch is set before a late share is given back")
        results[2] = -1
    elif t == 1:
        results[1] = 1
        wake(count_down(counted, 2))
    elif count_try_up(counted):
        check(results[2] == 0, b"a share of a latch that was set")
        results[2] = 5
        results[3] = 5
        wake(count_down(counted, 1))

cdef void parker_new() noexcept nogil:
    waiting_new()

cdef void park_twice(int t) noexcept nogil:
    """A token ends one park, with what came before it; a second one is needed for the next."""
    if t == 0:
        park(&waiter.parker, -1)
        check(results[1] == 1, b"a park ended without what came before its token")
        unpark(&waiter.parker)      # to itself: never lost
        park(&waiter.parker, -1)
    else:
        results[1] = 1
        unpark(&waiter.parker)

cdef void park_both(int t) noexcept nogil:
    """Two tokens may be one; whoever takes them sees what came before both."""
    if t == 0:
        park(&waiter.parker, -1)
        if i64_load_relaxed(&shared_x[0]) and i64_load_relaxed(&shared_x[1]):
            return
        park(&waiter.parker, -1)
        check(i64_load_relaxed(&shared_x[0]) and i64_load_relaxed(&shared_x[1]),
              b"a park ended without what came before its token")
    else:
        i64_store_relaxed(&shared_x[t - 1], 1)
        unpark(&waiter.parker)

cdef void park_both_new() noexcept nogil:
    waiting_new()
    shared_new()

cdef void park_timed(int t) noexcept nogil:
    """A park that ends in time took no token, or says so; signals that interrupt the wait
    neither end it early nor make it longer."""
    if t == 0:
        if not park(&waiter.parker, 3):
            check(now_ns() == 3, b"a park timed out before its time, or after")
            park(&waiter.parker, -1)
        check(results[1] == 1, b"a park ended without what came before its token")
    else:
        results[1] = 1
        unpark(&waiter.parker)

cdef void locked_new() noexcept nogil:
    global locked
    waiting_new()
    locked = <LockLatch*>malloc(sizeof(LockLatch))
    lock_latch_init(locked)

cdef void lock_use(int t) noexcept nogil:
    if t == 0:
        lock_latch_wait(locked)
        free(locked)
        check(results[0] == 7, b"the latch is set before the result is there")
    else:
        results[0] = 7
        lock_latch_set(locked)


# ---- the sleep protocol ----------------------------------------------------------

cdef Sleep* sleep
cdef Sleeper** sleepers
cdef int n_workers = 1

cdef bint start(void* pool, int i) noexcept nogil:
    check(False, b"a thread was started twice")
    return True

cdef void sleepers_new(int n) noexcept nogil:
    global sleepers, n_workers
    cdef int i
    n_workers = n
    sleepers = <Sleeper**>malloc(n * sizeof(Sleeper*))
    for i in range(n):
        sleepers[i] = <Sleeper*>malloc(sizeof(Sleeper))
        memset(sleepers[i], 0, sizeof(Sleeper))
    sleep.sleepers = sleepers
    sleep.n_sleepers = n

cdef void pool_new(int n) noexcept nogil:
    """Workers that run, and look for work for the first time."""
    global sleep
    cdef int i
    inbox_new()
    sleep = <Sleep*>malloc(sizeof(Sleep))
    sleep_init(sleep, inbox, NULL, 0, start, NULL)
    sleep.keep = n
    sleepers_new(n)
    for i in range(n):
        sleeper_init(sleepers[i], False)
        sleepers[i].thread = THREAD_RUNS
        u32_store_relaxed(&sleepers[i].joinable, 1)
        add_inactive(&sleep.counters)

cdef void pool_1() noexcept nogil:
    pool_new(1)

cdef void pool_2() noexcept nogil:
    pool_new(2)

cdef void found_work(bint more) noexcept nogil:
    """As work_found of pool.pyx."""
    cdef uint64_t before = sub_inactive(&sleep.counters)
    if count_sleeping(before) == 0:
        return
    if not more and count_inactive(before) - 1 == count_sleeping(before):
        fence_seq_cst()
        more = inbox_has_jobs(inbox)
    if more:
        wake_any(sleep, True)

cdef void work(int i, int n) noexcept nogil:
    """A worker until it has done n jobs."""
    cdef Idle idle
    cdef Job* job
    cdef bint more, moved
    idle_init(&idle)
    idle.rounds = ROUNDS_UNTIL_SLEEPY
    while True:
        more = False
        moved = False
        job = inbox_take(inbox, &more, &moved)
        if moved:
            post_moved(sleep)
        if job == NULL:
            job = injector_take(&sleepers[i].mailbox)
        if job != NULL:
            found_work(more)
            take(job)
            n -= 1
            if n == 0:
                return
            start_looking(sleep, &idle)
        else:
            if idle.rounds < ROUNDS_UNTIL_SLEEPY:
                idle.rounds = ROUNDS_UNTIL_SLEEPY
            if no_work_found(sleep, i, &idle) and retire(sleep, i, &idle):
                return

cdef void inject(int i) noexcept nogil:
    inbox_push(inbox, give(i))
    post_injected(sleep)

cdef void sleep_1(int t) noexcept nogil:
    if t == 0:
        work(0, 1)
    else:
        inject(0)

cdef void sleep_2_jobs(int t) noexcept nogil:
    if t == 0:
        work(0, 2)
    else:
        inject(0)
        inject(1)

cdef void sleep_2_posters(int t) noexcept nogil:
    if t == 0:
        work(0, 2)
    else:
        inject(t - 1)

cdef void sleep_2_workers(int t) noexcept nogil:
    if t < 2:
        work(t, 1)
    else:
        inject(0)
        inject(1)

cdef void sleep_either(int t) noexcept nogil:
    """One job for two workers: one of them does it, and the other may sleep."""
    if t < 2:
        work(t, 1)
    else:
        inject(0)

cdef void pool_spawns() noexcept nogil:
    pool_new(1)
    deque_new(False)
    # Of an earlier push: the next one tells nobody, unless it sees the worker get sleepy.
    post_event(&sleep.counters)

cdef void sleep_spawned(int t) noexcept nogil:
    """A task of one who waits for it without helping: see `spawn` of host/tasks.pyx."""
    cdef Idle idle
    if t == 1:
        push(0)
        post_internal(sleep, deque)
        fence_seq_cst()
        post_internal(sleep, deque)
        return
    idle_init(&idle)
    # As steal_from of pool.pyx looks: without a fence, until there seems to be something.
    while not (deque_looks(deque) > 0 and steal()):
        if idle.rounds < ROUNDS_UNTIL_SLEEPY:
            idle.rounds = ROUNDS_UNTIL_SLEEPY
        if no_work_found(sleep, 0, &idle) and retire(sleep, 0, &idle):
            return

cdef void one_done(int ended) noexcept nogil:
    check(n_taken(1) == 1, b"a job is there, and everybody sleeps")

cdef void two_done(int ended) noexcept nogil:
    check(n_taken(2) == 2, b"a job is there, and everybody sleeps")

cdef struct Started:
    atomic_i64 refusals # of the system, before it lets a thread start
    int threads         # of the only worker, one after the other; by their creators
    int64_t handle      # as pthread_create writes it: perhaps after the thread began
    atomic_i64 first    # whether the first one runs

cdef Started* started

cdef bint start_here(void* pool, int i) noexcept nogil:
    """As start_thread of pool.pyx.  The first thread is that of the scenario; who starts
    another is to be it."""
    cdef Sleeper* one = sleepers[i]
    if i64_fetch_add_relaxed(&started.refusals, -1) > 0:
        one.thread = THREAD_NONE
        return False
    if one.thread == THREAD_RETIRED:
        check(u32_load_relaxed(&one.joinable) == 1 and started.handle == started.threads,
              b"a thread is joined that is not there")
        u32_store_relaxed(&one.joinable, 0)
    one.thread = THREAD_RUNS
    started.threads += 1
    if started.threads == 1:
        i64_store_release(&started.first, 1)
    else:
        results[model_thread()] = 1
    started.handle = started.threads
    u32_store_release(&one.joinable, 1)
    return True

cdef void pool_retires() noexcept nogil:
    global started
    pool_new(1)
    waiting_new()
    started = <Started*>malloc(sizeof(Started))
    i64_store_relaxed(&started.refusals, 0)
    started.threads = 1
    started.handle = 1
    i64_store_relaxed(&started.first, 1)
    sleep.start = start_here
    sleep.keep = 0
    sleep.retire_ns = 1

cdef void pool_unstarted() noexcept nogil:
    """No thread yet: the worker sleeps until its first wake."""
    pool_retires()
    started.threads = 0
    i64_store_relaxed(&started.first, 0)
    sleeper_init(sleepers[0], True)
    counters_init(&sleep.counters, 1)

cdef void sleep_retire(int t) noexcept nogil:
    if t == 0:
        work(0, 1)
    else:
        inject(0)
        if results[t]:
            work(0, 1)

cdef void sleep_retire_2(int t) noexcept nogil:
    if t == 0:
        work(0, 2)
    else:
        inject(0)
        inject(1)
        if results[t]:
            work(0, 2 - n_taken(2))

cdef void sleep_start(int t) noexcept nogil:
    """One thread creates the worker's, another joins it when it retired."""
    if t == 0:
        if i64_load_acquire(&started.first) == 0:
            return      # too early: the runs where it is created first are others
        results[t] = 1
        work(0, 2)
    else:
        inject(t - 1)
        if results[t]:
            work(0, 2 - n_taken(2))

cdef void two_done_if_started(int ended) noexcept nogil:
    if results[0]:
        two_done(ended)

cdef void return_one(void* worker, Job* job) noexcept nogil:
    """Run without a worker, for its worker has no thread."""
    check(worker == NULL, b"only mail is run, and only to be returned")
    take(job)

cdef void pool_refused(int refusals) noexcept nogil:
    """No thread yet, and some are refused; `revive` may try again once."""
    pool_unstarted()
    sleep.keep = 1
    i64_store_relaxed(&started.refusals, refusals)
    i64_store_relaxed(&sleep.tried, -REVIVE_NS)
    items[1].job.run = return_one

cdef void pool_refused_1() noexcept nogil:
    pool_refused(1)

cdef void pool_refused_always() noexcept nogil:
    pool_refused(ITEMS)

cdef void run_orphans() noexcept nogil:
    """As run_orphans of pool.pyx."""
    if u32_load_seq_cst(&sleep.dead) == 0:
        return
    revive(sleep)
    if u32_load_seq_cst(&sleep.dead) == <uint32_t>n_workers:
        fence_seq_cst()
        while inbox_has_jobs(inbox):
            from_inbox()

cdef void sleep_refused(int t) noexcept nogil:
    inject(t)
    run_orphans()

cdef void sleep_refused_mail(int t) noexcept nogil:
    """Mail for a worker whose thread is refused meanwhile."""
    if t == 0:
        inject(0)
    elif injector_push(&sleepers[0].mailbox, give(1)):
        post_mail(sleep, 0)
    run_orphans()

cdef void sleep_revived(int t) noexcept nogil:
    if t == 0:
        if i64_load_acquire(&started.first) == 0:
            return      # too early: the runs where it is created first are others
        results[t] = 1
        work(0, 2)
    else:
        inject(t - 1)
        run_orphans()

cdef bint start_either(void* pool, int i) noexcept nogil:
    if i64_fetch_add_relaxed(&started.refusals, -1) > 0:
        sleepers[i].thread = THREAD_NONE
        return False
    check(sleepers[i].thread == THREAD_NONE, b"a thread was started twice")
    sleepers[i].thread = THREAD_RUNS
    i64_store_relaxed(&started.first, 1)
    return True

cdef void pool_refused_two() noexcept nogil:
    """Two workers without threads, of which the system refuses the first two."""
    pool_refused(2)
    sleepers_new(2)
    sleeper_init(sleepers[0], True)
    sleeper_init(sleepers[1], True)
    counters_init(&sleep.counters, 2)
    sleep.start = start_either

cdef void two_done_unless_started(int ended) noexcept nogil:
    """No worker runs here: what is left is for one that was started."""
    if i64_load_relaxed(&started.first) == 0:
        two_done(ended)

cdef void return_to_inbox(void* worker, Job* job) noexcept nogil:
    """As a lane that is bound to a worker without a thread."""
    check(worker == NULL, b"only mail is run, and only to be returned")
    inbox_push(inbox, job)

cdef void pool_refused_lane() noexcept nogil:
    """The first worker has no thread, and the second one looks for work."""
    pool_refused_two()
    sleeper_init(sleepers[1], False)
    sleepers[1].thread = THREAD_RUNS
    counters_init(&sleep.counters, 1)
    add_inactive(&sleep.counters)
    i64_store_relaxed(&started.refusals, ITEMS)
    items[0].job.run = return_to_inbox

cdef void pool_dead_lane() noexcept nogil:
    """The same after the refusal."""
    pool_refused_lane()
    u32_store_relaxed(&sleepers[0].asleep, SLEEPER_DEAD)
    u32_store_relaxed(&sleep.dead, 1)
    counters_init(&sleep.counters, 0)
    add_inactive(&sleep.counters)

cdef void sleep_refused_lane(int t) noexcept nogil:
    if t == 0:
        work(1, 1)
    elif t == 2:
        wake_any(sleep, True)     # as a worker does that leaves jobs behind
    elif injector_push(&sleepers[0].bound, give(0)):
        post_bound(sleep, 0, False)

cdef void two_done_unless_missing(int ended) noexcept nogil:
    if results[0] or i64_load_relaxed(&started.first) == 0:
        two_done(ended)

cdef void pool_posted() noexcept nogil:
    """Two jobs are there, and whoever gets sleepy has not said so yet."""
    pool_new(2)
    inject(0)
    inject(1)

cdef void sleep_moved(int t) noexcept nogil:
    """One worker moves the second job, and the other must not miss it in both places."""
    work(t, 1)

cdef void sleep_mail(int t) noexcept nogil:
    if t == 0:
        work(0, 2)
    elif t == 1:
        if injector_push(&sleepers[0].mailbox, give(0)):
            post_mail(sleep, 0)
    else:
        inject(1)


# ---- what a worker notes, and who reads it meanwhile ------------------------------

cdef WorkerTally* stats

cdef void stats_new() noexcept nogil:
    global stats
    stats = <WorkerTally*>malloc(sizeof(WorkerTally))
    memset(stats, 0, sizeof(WorkerTally))
    # As if there was a recording before: MAX_SPANS are too many here.
    stats.spans = <Span*>malloc(4 * sizeof(Span))
    stats_record(stats, 2, now_ns() - 2000)

cdef void stats_look(uint32_t recording) noexcept nogil:
    """Times add up, of any recording; and spans of this one, which alone are read, follow each
    other from its beginning."""
    cdef Noted noted
    cdef int64_t i, began, end
    if not stats_read(stats, &noted) or noted.recording == 0:
        return
    began = end = now_ns() - 1000 * noted.recording
    check(noted.times[<int>ELSEWHERE] + noted.times[<int>BUSY] == noted.since - began,
          b"times do not add up")
    if noted.recording != recording:
        return
    for i in range(noted.n_spans):
        check(stats.spans[i].begin == end, b"a gap, or an overlap")
        end = stats.spans[i].end
    check(noted.since == end, b"the last span does not begin where the one before ended")
    check(noted.what != stats.spans[noted.n_spans - 1].what, b"not what it does now")

cdef void stats_work() noexcept nogil:
    note(stats, ELSEWHERE, BUSY)
    note(stats, BUSY, ELSEWHERE)

cdef void stats_use(int t) noexcept nogil:
    if t == 0:
        stats_work()
    else:
        stats_look(2)
        stats_look(2)

cdef void stats_next_new() noexcept nogil:
    stats_new()
    note(stats, ELSEWHERE, BUSY)
    # A microsecond ago: the clock stands still here.
    i64_store_relaxed(&stats.times[<int>ELSEWHERE], 1000)
    i64_store_relaxed(&stats.since, i64_load_relaxed(&stats.since) - (1000 << 3))
    stats.spans[0].end -= 1000

cdef void stats_next(int t) noexcept nogil:
    """The next recording begins where it began, whatever the last one has left."""
    if t == 0:
        note(stats, BUSY, ELSEWHERE)
        note(stats, ELSEWHERE, BUSY)
    else:
        stats_look(2)
        stats_record(stats, 0, 0)
        stats_record(stats, 4, now_ns() - 4000)
        stats_look(4)


# ---- what the memory itself allows: the checker's own tests ----------------------

cdef atomic_i64* shared_x
cdef atomic_u32* shared_u

cdef void shared_new() noexcept nogil:
    global shared_x, shared_u, results
    cdef int i
    shared_x = <atomic_i64*>malloc(4 * sizeof(atomic_i64))
    shared_u = <atomic_u32*>malloc(4 * sizeof(uint64_t))
    results = <int64_t*>malloc(8 * sizeof(int64_t))
    memset(results, 0, 8 * sizeof(int64_t))
    for i in range(4):
        i64_store_relaxed(&shared_x[i], 0)
        u32_store_relaxed(&shared_u[i], 0)

cdef void outcome(int ended) noexcept nogil:
    """Four results as the digits of a number."""
    end_with(((results[0] * 10 + results[1]) * 10 + results[2]) * 10 + results[3])

cdef void outcome_memory(int ended) noexcept nogil:
    end_with(i64_load_relaxed(&shared_x[0]) * 10 + i64_load_relaxed(&shared_x[1]))

cdef void litmus_sb(int t) noexcept nogil:
    i64_store_release(&shared_x[t], 1)
    results[t] = i64_load_acquire(&shared_x[1 - t])

cdef void litmus_sb_fences(int t) noexcept nogil:
    i64_store_relaxed(&shared_x[t], 1)
    fence_seq_cst()
    results[t] = i64_load_relaxed(&shared_x[1 - t])

cdef void litmus_sb_sc(int t) noexcept nogil:
    u32_store_seq_cst(&shared_u[t], 1)
    results[t] = u32_load_seq_cst(&shared_u[1 - t])

cdef void litmus_mp(int t) noexcept nogil:
    if t == 0:
        i64_store_relaxed(&shared_x[0], 1)
        i64_store_release(&shared_x[1], 1)
    else:
        results[0] = i64_load_acquire(&shared_x[1])
        results[1] = i64_load_relaxed(&shared_x[0])

cdef void litmus_mp_relaxed(int t) noexcept nogil:
    if t == 0:
        i64_store_relaxed(&shared_x[0], 1)
        i64_store_relaxed(&shared_x[1], 1)
    else:
        results[0] = i64_load_acquire(&shared_x[1])
        results[1] = i64_load_relaxed(&shared_x[0])

cdef void litmus_mp_fences(int t) noexcept nogil:
    """Fences release and acquire, too."""
    if t == 0:
        i64_store_relaxed(&shared_x[0], 1)
        fence_seq_cst()
        i64_store_relaxed(&shared_x[1], 1)
    else:
        results[0] = i64_load_relaxed(&shared_x[1])
        fence_seq_cst()
        results[1] = i64_load_relaxed(&shared_x[0])

cdef void litmus_mp_sequence(int t) noexcept nogil:
    """A read-modify-write between a release and an acquire carries it on."""
    if t == 0:
        i64_store_relaxed(&shared_x[0], 1)
        i64_store_release(&shared_x[1], 1)
    elif t == 1:
        i64_fetch_add_relaxed(&shared_x[1], 1)
    else:
        results[0] = i64_load_acquire(&shared_x[1])
        results[1] = i64_load_relaxed(&shared_x[0])

cdef void litmus_mp_store(int t) noexcept nogil:
    """C11: so does a later store of the same thread.  C++20: it does not."""
    if t == 0:
        i64_store_relaxed(&shared_x[0], 1)
        i64_store_release(&shared_x[1], 1)
        i64_store_relaxed(&shared_x[1], 2)
    else:
        results[0] = i64_load_acquire(&shared_x[1])
        results[1] = i64_load_relaxed(&shared_x[0])

cdef void litmus_iriw(int t) noexcept nogil:
    if t < 2:
        i64_store_release(&shared_x[t], 1)
    else:
        results[2 * (t - 2)] = i64_load_acquire(&shared_x[t - 2])
        results[2 * (t - 2) + 1] = i64_load_acquire(&shared_x[3 - t])

cdef void litmus_iriw_sc(int t) noexcept nogil:
    if t < 2:
        u32_store_seq_cst(&shared_u[t], 1)
    else:
        results[2 * (t - 2)] = u32_load_seq_cst(&shared_u[t - 2])
        results[2 * (t - 2) + 1] = u32_load_seq_cst(&shared_u[3 - t])

cdef void litmus_iriw_fences(int t) noexcept nogil:
    if t < 2:
        i64_store_relaxed(&shared_x[t], 1)
    else:
        results[2 * (t - 2)] = i64_load_relaxed(&shared_x[t - 2])
        fence_seq_cst()
        results[2 * (t - 2) + 1] = i64_load_relaxed(&shared_x[3 - t])

cdef void litmus_coherence(int t) noexcept nogil:
    if t == 0:
        i64_store_relaxed(&shared_x[0], 1)
        i64_store_relaxed(&shared_x[0], 2)
    else:
        results[0] = i64_load_relaxed(&shared_x[0])
        results[1] = i64_load_relaxed(&shared_x[0])

cdef void litmus_2_2w(int t) noexcept nogil:
    i64_store_relaxed(&shared_x[t], 1)
    i64_store_relaxed(&shared_x[1 - t], 2)

cdef void litmus_rmw(int t) noexcept nogil:
    results[t] = i64_fetch_add_relaxed(&shared_x[0], 1)

cdef void litmus_race(int t) noexcept nogil:
    """The flag says that the result is there, but does not publish it."""
    if t == 0:
        results[0] = 1
        i64_store_relaxed(&shared_x[0], 1)
    elif i64_load_acquire(&shared_x[0]):
        results[1] = results[0]

cdef void litmus_wrc(int t) noexcept nogil:
    """Write to read causality: release and acquire pass on what they know."""
    if t == 0:
        i64_store_relaxed(&shared_x[0], 1)
    elif t == 1:
        if i64_load_relaxed(&shared_x[0]):
            i64_store_release(&shared_x[1], 1)
    else:
        results[0] = i64_load_acquire(&shared_x[1])
        results[1] = i64_load_relaxed(&shared_x[0])

cdef void litmus_sc_then_relaxed(int t) noexcept nogil:
    """C11 allows 1 and 0 here, and the checker only where such accesses are taken for
    release and acquire."""
    if t == 0:
        u32_store_seq_cst(&shared_u[0], 1)
        i64_store_relaxed(&shared_x[0], 1)
    else:
        results[0] = i64_load_relaxed(&shared_x[0])
        results[1] = u32_load_seq_cst(&shared_u[0])


# ---- for Python ------------------------------------------------------------------

cdef dict table = {}

cdef class _Row:
    cdef void (*setup)() noexcept nogil
    cdef void (*thread)(int) noexcept nogil
    cdef void (*final)(int) noexcept nogil
    cdef int n_threads, capacity, bias_after, spurious, history, refuses

cdef void add(name, void (*setup)() noexcept nogil, int n_threads,
              void (*thread)(int) noexcept nogil, void (*final)(int) noexcept nogil,
              int capacity=2, int bias_after=0, int spurious=0, int history=0, int refuses=0):
    cdef _Row row = _Row()
    row.setup, row.n_threads, row.thread, row.final = setup, n_threads, thread, final
    row.capacity, row.bias_after, row.spurious = capacity, bias_after, spurious
    row.history, row.refuses = history, refuses
    table[name] = row

add("deque, two pops", deque_fenced, 3, deque_pop_2, drain_2)
add("deque, the last job", deque_fenced, 3, deque_last, drain_2)
add("deque, cells reused", deque_fenced, 3, deque_refill, drain_3, 2)
add("deque, growth", deque_fenced, 2, deque_grow, drain_4, 2)
add("deque, growth, two thieves", deque_fenced, 3, deque_grow, drain_4, 2)
add("deque, tags", deque_fenced, 2, deque_fork, drain_4)
add("deque, biased", deque_biased, 2, deque_pop_2, drain_2, 2, 1)
add("deque, biased and full", deque_biased_full, 2, bias_full, drain_2, 2, 1)
add("deque, bias begins", bias_new, 2, bias_full, drain_2, 2, 1)
add("deque, bias begins, two thieves", bias_new, 3, bias_full, drain_2, 2, 1)
add("deque, biased, two thieves", deque_biased_full, 3, bias_full, drain_2, 2, 1)
add("deque, refused", deque_biased_full, 2, bias_full, drain_2, 2, 1, 0, 0, 1)
add("deque, refused, and more", deque_biased, 2, bias_twice, drain_3, 2, 1, 0, 0, 1)
add("deque, refused, two thieves", deque_biased_full, 3, bias_full, drain_2, 2, 1, 0, 0, 1)
add("deque, biased again", deque_biased, 2, bias_twice, drain_3, 2, 1)
add("injector", injector_new, 3, injector_use, injector_end)
add("injector, two takers", injector_new, 3, injector_share, injector_end)
add("inbox", inbox_new, 3, inbox_use, inbox_end)
add("latch", latch_new, 3, latch_use, all_ended_3)
add("count latch", counted_new, 3, count_use, all_ended_3)
add("count latch, a late share", counted_new, 3, count_late, all_ended_3)
add("parker, tokens", parker_new, 2, park_twice, all_ended_2, 2, 0, 1)
add("parker, two tokens", park_both_new, 3, park_both, all_ended_3, 2, 0, 1)
add("parker, time-outs", parker_new, 2, park_timed, all_ended_2, 2, 0, 1)
add("lock latch", locked_new, 2, lock_use, all_ended_2, 2, 0, 1)
add("sleep, one job", pool_1, 2, sleep_1, one_done, 2, 0, 0, 3)
add("sleep, spawned", pool_spawns, 2, sleep_spawned, one_done, 2, 0, 0, 3)
add("sleep, retirement", pool_retires, 2, sleep_retire, one_done, 2, 0, 0, 3)
add("sleep, retirement, two jobs", pool_retires, 2, sleep_retire_2, two_done, 2, 0, 0, 3)
add("sleep, a start, and retirement", pool_unstarted, 3, sleep_start, two_done_if_started, 2, 0, 0, 3)
add("sleep, refused", pool_refused_always, 2, sleep_refused, two_done, 2, 0, 0, 3)
add("sleep, refused, mail", pool_refused_always, 2, sleep_refused_mail, two_done, 2, 0, 0, 3)
add("sleep, refused, revived", pool_refused_1, 3, sleep_revived, two_done_unless_missing, 2, 0, 0, 3)
add("sleep, refused twice", pool_refused_two, 2, sleep_refused, two_done_unless_started, 2, 0, 0, 3)
add("sleep, refused, a lane", pool_refused_lane, 3, sleep_refused_lane, one_done, 2, 0, 0, 3)
add("sleep, dead, a lane", pool_dead_lane, 2, sleep_refused_lane, one_done, 2, 0, 0, 3)
add("sleep, moved jobs", pool_posted, 2, sleep_moved, two_done, 2, 0, 0, 3)
add("sleep, two jobs", pool_1, 2, sleep_2_jobs, two_done, 2, 0, 0, 3)
add("sleep, two posters", pool_1, 3, sleep_2_posters, two_done, 2, 0, 0, 3)
add("sleep, a job for either", pool_2, 3, sleep_either, one_done, 2, 0, 0, 3)
add("sleep, two workers", pool_2, 3, sleep_2_workers, two_done, 2, 0, 0, 3)
add("sleep, mail", pool_1, 3, sleep_mail, two_done, 2, 0, 0, 3)
add("stats", stats_new, 2, stats_use, all_ended_2)
add("stats, the next recording", stats_next_new, 2, stats_next, all_ended_2)

add("SB", shared_new, 2, litmus_sb, outcome)
add("SB+fences", shared_new, 2, litmus_sb_fences, outcome)
add("SB+sc", shared_new, 2, litmus_sb_sc, outcome)
add("MP", shared_new, 2, litmus_mp, outcome)
add("MP+relaxed", shared_new, 2, litmus_mp_relaxed, outcome)
add("MP+fences", shared_new, 2, litmus_mp_fences, outcome)
add("MP+rmw", shared_new, 3, litmus_mp_sequence, outcome)
add("MP+store", shared_new, 2, litmus_mp_store, outcome)
add("IRIW", shared_new, 4, litmus_iriw, outcome)
add("IRIW+sc", shared_new, 4, litmus_iriw_sc, outcome)
add("IRIW+fences", shared_new, 4, litmus_iriw_fences, outcome)
add("CoRR", shared_new, 2, litmus_coherence, outcome)
add("2+2W", shared_new, 2, litmus_2_2w, outcome_memory)
add("RMW", shared_new, 3, litmus_rmw, outcome)
add("race", shared_new, 2, litmus_race, outcome)
add("WRC", shared_new, 3, litmus_wrc, outcome)
add("SC, then relaxed", shared_new, 2, litmus_sc_then_relaxed, outcome)


def explore(name, mutations=(), long max_states=5_000_000, int weaker=0,
            int preemptions=-1):
    """What was found.  ``mutations``: (file, line, operation, part, order) each."""
    cdef _Row row = table[name]
    cdef Scenario s
    cdef Found found
    cdef Site* site
    cdef int n = 0
    cdef int64_t* notes
    global model_capacity, model_bias_after
    (<int*>&model_capacity)[0] = row.capacity
    (<int*>&model_bias_after)[0] = row.bias_after
    s.setup, s.n_threads, s.thread, s.final = row.setup, row.n_threads, row.thread, row.final
    s.max_states, s.weaker, s.spurious = max_states, weaker, row.spurious
    s.history, s.preemptions, s.refuses = row.history, preemptions, row.refuses
    model_mutate(b"", 0, b"", 0, 0)
    for file, line, op, part, order in mutations:
        model_mutate(file.encode(), line, op.encode(), part, order)
    site = model_sites()
    while site != NULL:
        site.hits = 0
        site = site.next
    with nogil:
        model_explore(&s, &found)
    sites = set()
    site = model_sites()
    while site != NULL:
        if site.hits:
            sites.add((site.file.decode(), site.line, site.op.decode(), site.kind, site.written,
                       site.written_fail))
        site = site.next
    notes = model_notes(&n)
    result = {
        "states": found.states, "transitions": found.transitions, "ends": found.ends,
        "depth": found.depth, "complete": bool(found.complete), "forgot": bool(found.forgot),
        "broken": None if found.broken == NULL else found.broken.decode(),
        "trace": [] if found.trace == NULL else found.trace.decode().splitlines(),
        "sites": sorted(sites), "outcomes": sorted(notes[i] for i in range(n)),
    }
    if found.trace != NULL:
        free(found.trace)
    return result

SCENARIOS = list(table)
