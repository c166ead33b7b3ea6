"""Lanes; see lane.pxd."""
from libc.stdlib cimport calloc, free
from pyblitz.runtime.atomic cimport (
    ptr_cas_acq_rel, ptr_exchange_acquire, ptr_load_relaxed,
    u32_load_seq_cst)
from pyblitz.runtime.chaos cimport chaos_fails
from pyblitz.runtime.injector cimport inbox_push, injector_push
from pyblitz.runtime.pool cimport (
    Worker, execute, job_done, look_after_orphans, pool_is_stale, pool_post, pool_run_here,
    share_inside)
from pyblitz.runtime.sleep cimport SLEEPER_DEAD, post_bound

cdef void* LANE_BUSY = <void*>1


cdef Lane* lanes_new() noexcept nogil:
    """All idle; NULL without memory."""
    return <Lane*>calloc(LANES, sizeof(Lane))


cdef void lanes_free(Lane* lanes) noexcept nogil:
    free(lanes)


cdef void lane_submit(Pool* p, uint64_t hash, Job* job) noexcept nogil:
    """Adds a job behind the others of its key.  The caller is a user of the pool.
    Where the pool has no thread of its own the lane runs here, now, unless
    another thread runs it already."""
    # Fibonacci hashing (Knuth, TAOCP 3, 6.4), for hashes of small integers are
    # the integers: the upper 12 bits of the product.
    cdef uint64_t i = (hash * 0x9E3779B97F4A7C15u) >> 52
    cdef Lane* lane = <Lane*>p.lanes + i
    if not lane_push(lane, job):
        return
    # It was idle: it is ours until we have handed it on.
    lane.job.run = run_lane
    lane.pool = p
    share_inside(p)
    lane_schedule(lane, i)
    share_inside(p)
    look_after_orphans(p)


cdef bint lane_push(Lane* lane, Job* job) noexcept nogil:
    """Whether the lane was idle; then it belongs to the caller."""
    cdef void* head
    while True:
        # relaxed: only compared and linked
        head = ptr_load_relaxed(&lane.head)
        job.next = NULL if head == LANE_BUSY else <Job*>head
        # acq_rel: releases the job to the exchange in lane_take; where the lane
        # was idle, acquires what its last runner left (partner: its CAS to NULL)
        if not chaos_fails(b"lane") and ptr_cas_acq_rel(&lane.head, head, job):
            return head == NULL


cdef void lane_schedule(Lane* lane, uint64_t i) noexcept nogil:
    """Hands the lane to its worker, always the same: lane i of a pool of n workers
    belongs to worker i % n."""
    cdef Pool* p = lane.pool
    cdef int owner
    if p.n_background == 0:
        pool_run_here(p, &lane.job)
        return
    owner = <int>(i % <uint64_t>p.n_background)
    if u32_load_seq_cst(&p.sleepers[owner].asleep) == SLEEPER_DEAD:
        pool_post(p, &lane.job)
        return
    # If that one turns out dead, run_lane is called without a worker.
    if injector_push(&p.sleepers[owner].bound, &lane.job):
        post_bound(&p.sleep, owner, False)


cdef Job* lane_take(Lane* lane) noexcept nogil:
    """The oldest job, or NULL."""
    cdef Job* job = lane.rest
    cdef Job* older
    cdef Job* younger
    # relaxed look first, so that the line stays where it is while nothing comes
    if job == NULL and ptr_load_relaxed(&lane.head) != LANE_BUSY:
        # acquire: partner is lane_push
        older = <Job*>ptr_exchange_acquire(&lane.head, LANE_BUSY)
        # Turn the chain around: the oldest first.
        while older != NULL:
            younger, older = older, older.next
            younger.next = job
            job = younger
    if job != NULL:
        lane.rest = job.next
    return job


cdef void run_lane(void* worker, Job* job) noexcept nogil:
    """One turn.  Without a worker: the system refused the one that it was bound to
    a thread, and any may run it, still one at a time."""
    cdef Worker* w = <Worker*>worker
    cdef Lane* lane = <Lane*>job
    cdef Pool* p = lane.pool        # read before the lane is idle
    cdef int turn = 0
    if w == NULL:
        # Whoever says so looks at the inbox afterwards.  The lane's share of the
        # pool's users is the job's.
        inbox_push(&p.inbox, job)
        return
    while turn < LANE_TURN or not w.background:
        job = lane_take(lane)
        if job != NULL:
            execute(w, job)
            if pool_is_stale(p):
                return      # the job forked, and this is the child
            turn += 1
        # acq_rel: whoever schedules the lane next sees it as we leave it
        elif not chaos_fails(b"lane: idle") and ptr_cas_acq_rel(&lane.head, LANE_BUSY, NULL):
            job_done(p)
            return
    # Behind this worker's other lanes.  It looks there before it sleeps.
    injector_push(&w.sleeper.bound, &lane.job)
