"""The sleep protocol; see sleep.pxd for its promise and README.md for its
proof."""
from libc.stdint cimport UINT32_MAX, int64_t
from pyblitz.runtime.atomic cimport (
    fence_seq_cst, i64_cas_relaxed, i64_load_relaxed, i64_store_relaxed, u32_cas_seq_cst,
    u32_fetch_add_seq_cst, u32_load_acquire, u32_load_relaxed, u32_load_seq_cst,
    u32_store_relaxed, u32_store_seq_cst)
from pyblitz.runtime.chaos cimport chaos
from pyblitz.runtime.counters cimport (
    add_inactive, add_sleeping, announce_sleepy, count_inactive,
    counters_init, post_event, sub_inactive, sub_sleeping)
from pyblitz.runtime.injector cimport (
    inbox_has_jobs, injector_has_jobs, injector_init, injector_take)
from pyblitz.runtime.job cimport Job
from pyblitz.runtime.latch cimport (
    latch_fall_asleep, latch_get_sleepy, latch_init, latch_is_set,
    latch_wake_up)
from pyblitz.runtime.stats cimport SEARCHING, SLEEPING, add_one, note, stats_destroy
from pyblitz.runtime.os cimport (
    now_ns, park, parker_destroy, parker_init, place_elsewhere, place_note, place_take_back, unpark,
    wait_a_little, yield_thread)

cdef enum Wake:
    NOT_ASLEEP
    WOKEN
    REFUSED             # the system gave its thread no place


cdef void sleep_init(Sleep* s, Inbox* inbox, Sleeper** sleepers, int n,
                     bint (*start)(void*, int) noexcept nogil, void* pool) noexcept nogil:
    counters_init(&s.counters, n)
    s.inbox = inbox
    s.sleepers = sleepers
    s.n_sleepers = n
    u32_store_relaxed(&s.hint, 0)
    u32_store_relaxed(&s.dead, 0)
    i64_store_relaxed(&s.tried, 0)
    s.keep = n
    s.retire_ns = -1
    s.spin_ns = 0
    u32_store_relaxed(&s.places, 0)
    i64_store_relaxed(&s.wished, 0)
    i64_store_relaxed(&s.wishes, 0)
    i64_store_relaxed(&s.patience, PATIENCE)
    i64_store_relaxed(&s.late, -LATE_AGAIN_NS)
    i64_store_relaxed(&s.wanted, -WANTED_NS)
    s.start = start
    s.pool = pool


cdef void sleeper_init(Sleeper* s, bint asleep) noexcept nogil:
    u32_store_relaxed(&s.asleep, SLEEPER_ASLEEP if asleep else SLEEPER_AWAKE)
    s.thread = THREAD_NONE
    u32_store_relaxed(&s.joinable, 0)
    parker_init(&s.parker)
    s.place.narrowed = False
    latch_init(&s.terminate)
    injector_init(&s.mailbox)
    injector_init(&s.bound)


cdef void sleeper_destroy(Sleeper* s) noexcept nogil:
    stats_destroy(&s.stats)
    parker_destroy(&s.parker)


# ---- posting ---------------------------------------------------------------

cdef void post_internal_slow(Sleep* s, bint queue_was_empty, bint works_on) noexcept nogil:
    cdef uint64_t c = post_event(&s.counters)
    cdef uint32_t sleeping = count_sleeping(c)
    # Awake searchers will find the job; a queue that already held one shows
    # that they do not keep up.
    if sleeping != 0 and (count_inactive(c) == sleeping or not queue_was_empty):
        # Between the event and the loads of `asleep`; partner: fence 2, before the last look at the word.
        fence_seq_cst()
        wake_any(s, works_on)


cdef void post_injected(Sleep* s) noexcept nogil:
    """After a push onto the inbox."""
    chaos(b"post: pushed")
    # Fence 1, between the push and the loads of the counters and of `asleep`;
    # partner: fence 2 in fall_asleep.
    fence_seq_cst()
    # The caller may wait for the job: Linux says best on which CPU it runs first.
    post_internal_slow(s, True, False)


cdef void post_moved(Sleep* s) noexcept nogil:
    """After a searcher moved jobs inside the inbox, so that a sleeper may have
    seen them in neither place."""
    fence_seq_cst()
    if count_sleeping(post_event(&s.counters)) != 0:
        wake_any(s, True)


cdef void post_mail(Sleep* s, int i) noexcept nogil:
    """After a push onto the empty mailbox of sleeper i, which only it looks at."""
    if not post_bound(s, i, True):
        # It may be blocked uncounted, on a latch: the token ends that park.
        unpark(&s.sleepers[i].parker)


cdef bint post_bound(Sleep* s, int i, bint works_on) noexcept nogil:
    """After a push onto an empty queue of sleeper i, its bound jobs or its mailbox.  False when it
    is awake: it looks at both before it sleeps."""
    post_event(&s.counters)
    # Fence 1 again: between the push and the load of `asleep`; partners: fence
    # 2 and the fences in sleep_on_latch and return_mail.
    fence_seq_cst()
    if wake_sleeper(s, i, works_on):
        return True
    if u32_load_seq_cst(&s.sleepers[i].asleep) == SLEEPER_DEAD:
        return_mail(s.sleepers[i])
        wake_for_returned(s)
        return True
    return False


cdef void wake_for_returned(Sleep* s) noexcept nogil:
    """After `return_mail`: wakes one for what it may have put into the inbox, and for
    jobs whose posters took the refused worker for one that is awake."""
    fence_seq_cst()
    if inbox_has_jobs(s.inbox):
        wake_any(s, False)


cdef void return_mail(Sleeper* dead) noexcept nogil:
    """The jobs of a worker that has no thread: told so by a NULL worker, they only
    move to other queues.  The poster and whoever failed to start it both come here;
    one take wins."""
    fence_seq_cst()
    return_jobs(injector_take(&dead.mailbox))
    return_jobs(injector_take(&dead.bound))


cdef void return_jobs(Job* job) noexcept nogil:
    cdef Job* next
    while job != NULL:
        next = job.next         # read before the run that may free it
        job.run(NULL, job)
        job = next


cdef Wake try_to_wake(Sleep* s, int i, bint works_on) noexcept nogil:
    """Wakes sleeper i, starting its thread at the first wake.  After REFUSED the
    caller looks at the inbox: until now that worker counted as awake, and a job that
    was posted meanwhile may rely on it."""
    cdef Sleeper* one = s.sleepers[i]
    cdef bint runs
    # seq_cst: the claim.  Partner: the store in fall_asleep.
    if (u32_load_seq_cst(&one.asleep) != SLEEPER_ASLEEP
            or not u32_cas_seq_cst(&one.asleep, SLEEPER_ASLEEP, SLEEPER_CLAIMED)):
        return NOT_ASLEEP
    chaos(b"wake: claimed")
    sub_sleeping(&s.counters)
    add_one(&one.stats.wakes)
    runs = one.thread == THREAD_RUNS
    # relaxed: a policy
    if runs and works_on and u32_load_relaxed(&s.places) and place_elsewhere(&one.place, i):
        u32_store_relaxed(&s.places, 0)
    # From here on the owner may go on, and sleep again: before, it would count
    # itself twice, and after, what is its claimer's is the next one's.
    u32_store_seq_cst(&one.asleep, SLEEPER_AWAKE)
    chaos(b"wake: uncounted")
    if runs:
        unpark(&one.parker)
        return WOKEN
    return start(s, i)


cdef Wake start(Sleep* s, int i) noexcept nogil:
    """Starts the thread of sleeper i, which the caller claimed: it is counted as a
    worker that searches, and nobody else claims it."""
    cdef Sleeper* one = s.sleepers[i]
    if s.start(s.pool, i):
        return WOKEN
    # Neither asleep nor inactive any more: the rest of the pool never waits for it.
    sub_inactive(&s.counters)
    chaos(b"wake: refused")
    u32_store_seq_cst(&one.asleep, SLEEPER_DEAD)
    # seq_cst: partner is the load in run_orphans
    u32_fetch_add_seq_cst(&s.dead, 1)
    return_mail(one)
    return REFUSED


cdef bint wake_sleeper(Sleep* s, int i, bint works_on) noexcept nogil:
    """Wakes sleeper i; false when it is not asleep, or its thread does not start."""
    cdef Wake came = try_to_wake(s, i, works_on)
    if came == REFUSED:
        wake_for_returned(s)
    return came == WOKEN


cdef bint wake_any(Sleep* s, bint works_on) noexcept nogil:
    """Wakes one of those that sleep; false when nobody can be woken."""
    cdef int n = s.n_sleepers
    cdef int k, i
    # relaxed: any start is right; the one woken last, if it sleeps again, has
    # the warmest cache
    cdef int first = u32_load_relaxed(&s.hint)
    cdef bint again = True
    cdef Wake came
    while again:
        again = False
        for k in range(n):
            i = first + k
            if i >= n:
                i -= n
            came = try_to_wake(s, i, works_on)
            if came == WOKEN:
                u32_store_relaxed(&s.hint, i)
                return True
            if came == REFUSED:
                again = True
        if again:
            # A loop and no recursion, for all may be refused.  Each round but the
            # last buries at least one.
            fence_seq_cst()
            again = inbox_has_jobs(s.inbox)
    return False


cdef void revive(Sleep* s) noexcept nogil:
    """Tries again, now and then, to start threads that the system refused.  By a user
    of the pool, who runs what is in the inbox afterwards if all were refused."""
    cdef int64_t now = now_ns()
    # relaxed: only compared
    cdef int64_t last = i64_load_relaxed(&s.tried)
    cdef int i, left = REVIVE_AT_ONCE
    cdef Wake came
    if now - last < REVIVE_NS or not i64_cas_relaxed(&s.tried, last, now):
        return
    for i in range(s.n_sleepers):
        # seq_cst: the claim, as in try_to_wake
        if (u32_load_seq_cst(&s.sleepers[i].asleep) != SLEEPER_DEAD
                or not u32_cas_seq_cst(&s.sleepers[i].asleep, SLEEPER_DEAD, SLEEPER_CLAIMED)):
            continue
        add_inactive(&s.counters)
        chaos(b"revive")
        # Minus one.  seq_cst: partner is the load in run_orphans
        u32_fetch_add_seq_cst(&s.dead, UINT32_MAX)
        u32_store_seq_cst(&s.sleepers[i].asleep, SLEEPER_AWAKE)
        came = start(s, i)
        if came == REFUSED:
            wake_for_returned(s)
        left -= 1
        if came == REFUSED or left == 0:
            return


# ---- searching -------------------------------------------------------------

cdef void idle_init(Idle* idle) noexcept nogil:
    idle.rounds = 0
    idle.jec = 0
    idle.spin = 0
    idle.begun = 0
    idle.looks = 0


cdef void start_looking(Sleep* s, Idle* idle) noexcept nogil:
    add_inactive(&s.counters)
    idle.rounds = 0
    idle.jec = 0
    if idle.begun > 0:
        # It spun when it found the work that is done now.
        idle.spin = s.spin_ns
        i64_store_relaxed(&s.patience, PATIENCE)
    idle.begun = 0


cdef bint came_late(Sleep* s, Idle* idle, int64_t now) noexcept nogil:
    """Whether somebody else had the CPU between two looks of a worker that spins: it stops."""
    cdef int64_t last
    if now - idle.looked <= LATE_NS:
        return False
    idle.spin = 0
    idle.begun = SPUN
    # relaxed, all: see spins_on
    last = i64_load_relaxed(&s.late)
    # Once in a while that is the host of a virtual machine, or an interrupt, and all workers at one time.
    if now - last > LATE_NS:
        i64_store_relaxed(&s.late, now)
        if now - last <= LATE_AGAIN_NS:
            i64_store_relaxed(&s.wanted, now)
    return True


cdef bint spins_on(Sleep* s, Idle* idle, int64_t now) noexcept nogil:
    """Whether to look once more before it gets sleepy."""
    if idle.spin == 0 or idle.begun == SPUN:
        return False
    if idle.begun == 0:
        # relaxed: a policy, for which any recent time does
        if now - i64_load_relaxed(&s.wanted) <= WANTED_NS:
            return False
        idle.begun = now
    elif came_late(s, idle, now):
        return False
    idle.looked = now
    if now - idle.begun < idle.spin:
        return True
    # In vain.
    idle.begun = SPUN
    idle.spin = idle.spin // 2 if idle.spin >= 2 * LEAST_SPIN_NS else 0
    return False


cdef void spin_after_sleep(const Sleep* s, Idle* idle, int64_t slept, int64_t now) noexcept nogil:
    """Lets this worker spin next time, if that would have saved the sleep, or if somebody wished for an
    awake worker lately; but not where somebody else wanted a CPU lately."""
    # relaxed: a policy, for which any recent time does
    if ((slept < s.spin_ns or now - i64_load_relaxed(&s.wished) < s.spin_ns)
            and now - i64_load_relaxed(&s.wanted) > WANTED_NS):
        idle.spin = s.spin_ns


cdef bint wished_for(Sleep* s, int64_t begun, int64_t now, bint* lately) noexcept nogil:
    """All sleep, and there is work, since `begun`, that would be shared if somebody were awake.
    True: one is to be woken, for there was such work often lately, and it spins from then on.
    lately: whether there was some just before."""
    # relaxed, all: a policy, whose numbers may be those of several that race
    cdef int64_t last = i64_load_relaxed(&s.wished)
    cdef int64_t wishes, patience
    if last >= begun:
        return False
    lately[0] = begun - last < LATELY_NS
    i64_store_relaxed(&s.wished, now)
    if s.spin_ns == 0 or now - i64_load_relaxed(&s.wanted) <= WANTED_NS:
        return False
    wishes = i64_load_relaxed(&s.wishes) + 1 if begun - last < s.spin_ns else 0
    patience = i64_load_relaxed(&s.patience)
    if wishes < patience:
        i64_store_relaxed(&s.wishes, wishes)
        return False
    i64_store_relaxed(&s.wishes, 0)
    # Until it pays.
    if patience < MAX_PATIENCE:
        i64_store_relaxed(&s.patience, 2 * patience)
    return True


cdef bint no_work_found(Sleep* s, int i, Idle* idle) noexcept nogil:
    """Waits a little, gets sleepy, or sleeps.  True: this worker has slept so long that
    its thread should end, by `retire`."""
    # A look at many others takes longer, and is felt by them all.
    cdef uint32_t others = <uint32_t>s.n_sleepers
    idle.looks += others
    if idle.rounds < ROUNDS_UNTIL_SLEEPY:
        idle.rounds += min(others, <uint32_t>MOST_ROUNDS_OF_A_LOOK)
        idle.rounds = min(idle.rounds, <uint32_t>ROUNDS_UNTIL_SLEEPY)
        wait_a_little(idle.looks, others)
    elif idle.rounds == ROUNDS_UNTIL_SLEEPY and idle.spin != 0 and spins_on(s, idle, now_ns()):
        wait_a_little(idle.looks, others)
    elif idle.rounds == ROUNDS_UNTIL_SLEEPY:
        idle.jec = announce_sleepy(&s.counters)
        # Between the announcement and the looks that follow; partner: the fence in `spawn` of
        # host/tasks.pyx.
        fence_seq_cst()
        idle.rounds += 1
        yield_thread()
    else:
        return fall_asleep(s, i, idle)
    return False


cdef bint must_look_again(Sleep* s, Sleeper* me, Idle* idle) noexcept nogil:
    """The last look, after fence 2."""
    return (count_jec(counters_load(&s.counters)) != idle.jec
            or inbox_has_jobs(s.inbox)
            or injector_has_jobs(&me.mailbox)
            or injector_has_jobs(&me.bound)
            or latch_is_set(&me.terminate))


cdef bint fall_asleep(Sleep* s, int i, Idle* idle) noexcept nogil:
    cdef Sleeper* me = s.sleepers[i]
    cdef bint retiring = False
    cdef int64_t asleep_at, now
    if not (latch_get_sleepy(&me.terminate) and latch_fall_asleep(&me.terminate)):
        return False    # told to end: the caller sees it
    if not add_sleeping(&s.counters, idle.jec):
        # Something was posted since: look once more, then get sleepy again.
        idle.rounds = ROUNDS_UNTIL_SLEEPY
        latch_wake_up(&me.terminate)
        return False
    place_note(&me.place)
    chaos(b"sleep: counted")
    # seq_cst: from here on a waker can claim us.  Partner: try_to_wake.
    u32_store_seq_cst(&me.asleep, SLEEPER_ASLEEP)
    # Fence 2, between being claimable and the last look; partners: fence 1 in
    # post_injected, post_mail and post_moved, the fence in users_gone, and that of
    # post_internal_slow.
    fence_seq_cst()
    chaos(b"sleep: claimable")
    if must_look_again(s, me, idle):
        # Claim our own wake; if another did already, wait for its token.
        if u32_cas_seq_cst(&me.asleep, SLEEPER_ASLEEP, SLEEPER_AWAKE):
            sub_sleeping(&s.counters)
        while u32_load_seq_cst(&me.asleep) != SLEEPER_AWAKE:
            park(&me.parker, -1)
        idle.rounds = ROUNDS_UNTIL_SLEEPY
    else:
        add_one(&me.stats.sleeps)
        note(&me.stats, SEARCHING, SLEEPING)
        asleep_at = now_ns()
        while not retiring and u32_load_seq_cst(&me.asleep) != SLEEPER_AWAKE:
            if not park(&me.parker, s.retire_ns if i >= s.keep else -1):
                # Claimed by itself, and still counted as sleeping: as a worker
                # is whose thread was never started.
                # acquire: partner is the release in start_thread; who joins this
                # thread reads what its creator wrote
                retiring = (u32_load_acquire(&me.joinable) != 0
                            and u32_cas_seq_cst(&me.asleep, SLEEPER_ASLEEP, SLEEPER_AWAKE))
        note(&me.stats, SLEEPING, SEARCHING)
        if not retiring:
            idle.rounds = 0
            idle.begun = 0
            now = now_ns()
            spin_after_sleep(s, idle, now - asleep_at, now)
    if not retiring:
        place_take_back(&me.place)
    latch_wake_up(&me.terminate)
    return retiring


cdef bint retire(Sleep* s, int i, Idle* idle) noexcept nogil:
    """Leaves the place of sleeper i to a thread that the next wake starts.  False
    when there is work after all: the worker goes on searching.  Afterwards the
    thread touches nothing of the pool."""
    cdef Sleeper* me = s.sleepers[i]
    me.thread = THREAD_RETIRED
    chaos(b"retire")
    # The same steps as in fall_asleep, with the same partners: claimable, fence
    # 2, last look.  Whoever claims sees `thread`, and joins us.
    u32_store_seq_cst(&me.asleep, SLEEPER_ASLEEP)
    fence_seq_cst()
    if must_look_again(s, me, idle):
        if u32_cas_seq_cst(&me.asleep, SLEEPER_ASLEEP, SLEEPER_AWAKE):
            me.thread = THREAD_RUNS
            sub_sleeping(&s.counters)
            idle.rounds = 0
            return False
    return True
