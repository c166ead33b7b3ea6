"""The one recursion; see bridge.pxd for how it works."""
from libc.errno cimport ENOMEM
from libc.stdint cimport INT64_MAX, uint64_t
from libc.stdlib cimport free, malloc
from pyblitz.runtime.atomic cimport (
    i64_fetch_add_relaxed, i64_load_relaxed, i64_store_relaxed, likely, ptr_cas_release,
    ptr_load_acquire, ptr_load_relaxed, ptr_store_relaxed, u32_exchange_acquire, u32_store_relaxed,
    unlikely)
from pyblitz.runtime.counters cimport (
    count_inactive, count_sleeping, counters_load)
from pyblitz.runtime.deque cimport deque_bottom
from pyblitz.runtime.join cimport (
    beat, fork_back, promote_all, wait_for_fork)
from pyblitz.runtime.lazy cimport lazy_any, lazy_pop, lazy_push
from pyblitz.runtime.os cimport now_ns
from pyblitz.runtime.call cimport Part, lower_limit, progress_made, progress_of, progress_told
from pyblitz.runtime.pool cimport Fork, current_call, has_left_open, hooks, must_stop
from pyblitz.runtime.sleep cimport wake_any, wished_for

cdef enum:
    # How long a leaf without a fixed size should take: some fifty times the
    # bookkeeping around it.
    LEAF_NS = 4000
    # What must be left to do before others are called in: when one of them is
    # awake, and when one must be woken (it arrives some 50 us later, on a CPU that had
    # halted, and the wake costs the caller 3 to 15 us).
    SHARE_AWAKE_NS = 5000
    SHARE_ASLEEP_NS = 80000
    # What an operation must be known to take for others to be called in before its
    # first leaf: one half must pay for the theft, as above.
    SHARE_AT_ONCE_NS = 2 * SHARE_AWAKE_NS

cdef struct BridgeNode:
    Fork fork           # first: the fork's context is the node
    Bridge* bridge      # the operation
    int64_t lo          # the items of the right half: lo .. hi
    int64_t hi


cdef void bridge_init(Bridge* b, leaf_fn leaf, combine_halves_fn combine, void* ctx,
                      int64_t grain) noexcept nogil:
    b.leaf = leaf
    b.combine = combine
    b.ctx = ctx
    b.grain = grain
    b.most = grain
    b.leaf_ns = LEAF_NS
    b.least_ns = 0
    i64_store_relaxed(&b.limit, INT64_MAX)
    i64_store_relaxed(&b.span, 1)
    ptr_store_relaxed(&b.failures, NULL)
    u32_store_relaxed(&b.spare_taken, 0)
    i64_store_relaxed(&b.lost, INT64_MAX)


cdef int bridge_run(Worker* w, Bridge* b, int64_t n) noexcept nogil:
    """Runs items 0 .. n; 0, or the failure with the lowest index (for -1 its
    exception is set)."""
    # An outermost operation of a guest begins alone, each time.
    cdef bint sharing = w.sharing
    b.outer = w.part
    b.progress = progress_of(current_call(w), w.part)
    if b.progress != NULL and n > 0:
        # relaxed: whoever counts one of them as done got it from here
        i64_fetch_add_relaxed(&b.progress.total, n)
    b.n = n
    b.done = 0
    b.beats = lazy_any(&w.lazy)
    b.start = now_ns()
    if b.least_ns >= SHARE_AT_ONCE_NS and not sharing:
        w.sharing = is_somebody_awake(w)
    if n > 0:
        bridge_node(w, b, 0, n)
    w.sharing = sharing
    # relaxed: whoever failed has been waited for
    if likely(ptr_load_relaxed(&b.failures) == NULL):
        return 0
    return first_failure(b)


cdef int first_failure(Bridge* b) noexcept nogil:
    """What the failure with the lowest index returned; for -1 its exception is set."""
    # acquire: partner is the compare-and-swap in bridge_fail
    cdef Failure* f = <Failure*>ptr_load_acquire(&b.failures)
    cdef Failure* older
    # A failure behind the limit is one of items that nobody wanted: it was told to
    # stop, or began before the first hit was found.
    cdef int64_t at = i64_load_relaxed(&b.limit)
    cdef int rc = 0
    cdef void* error = NULL
    cdef void* loser
    # relaxed: as in bridge_run
    if i64_load_relaxed(&b.lost) <= at:
        at = i64_load_relaxed(&b.lost)
        rc = ENOMEM
    while f != NULL:
        loser = f.error
        # Of one index the first in time, which is the last in the list.
        if f.at <= at:
            loser = error
            at, rc, error = f.at, f.rc, f.error
        if loser != NULL:
            hooks().drop(loser)
        older = f.older
        if f != &b.spare:
            free(f)
        f = older
    if error != NULL:
        hooks().restore(error)
    return rc


cdef void bridge_fail(Bridge* b, int64_t at, int rc) noexcept nogil:
    """Item ``at`` failed with ``rc``; for -1, takes the exception that is set.
    The failure with the lowest index stays."""
    cdef Failure* f = <Failure*>malloc(sizeof(Failure))
    cdef void* error = hooks().capture() if rc == -1 else NULL
    cdef void* head
    bridge_limit(b, at)
    # acquire: nobody gives it back; who wins is alone
    if f == NULL and u32_exchange_acquire(&b.spare_taken, 1) == 0:
        f = &b.spare
    if f == NULL:
        # No memory to tell of more than one, but for that.
        lower_limit(&b.lost, at)
        if error != NULL:
            hooks().drop(error)
        return
    f.at = at
    f.rc = rc
    f.error = error
    while True:
        # relaxed: only compared and linked
        head = ptr_load_relaxed(&b.failures)
        f.older = <Failure*>head
        # release: partner is the load in first_failure.  A list and no lock, whose
        # holder could be preempted for good by one that spins at a higher priority.
        if ptr_cas_release(&b.failures, head, f):
            return


cdef int run_right_half(Worker* w, void* ctx) noexcept nogil:
    cdef BridgeNode* node = <BridgeNode*>ctx
    bridge_node(w, node.bridge, node.lo, node.hi)
    return 0


cdef void bridge_node(Worker* w, Bridge* b, int64_t lo, int64_t hi) noexcept nogil:
    cdef BridgeNode right
    cdef int64_t mid
    cdef void* mark
    cdef Part* part
    cdef int rc
    if not bridge_wants(b, lo):
        return
    if b.grain > 0:
        if hi - lo <= b.most:
            run_leaf(w, b, lo, hi)
            after_leaf(w, b, hi - lo, 0)
            return
        mid = bridge_middle(lo, hi, b.grain)
    else:
        if hi - lo <= i64_load_relaxed(&b.span):
            run_timed_leaf(w, b, lo, hi)
            return
        mid = lo + ((hi - lo + 1) >> 1)
    right.bridge = b
    right.lo = mid
    right.hi = hi
    lazy_push(&w.lazy, &right.fork.lazy, <void*>run_right_half, &right)
    if w.sharing:
        # At once, not after the leaf: were this thread preempted now, others
        # could still do everything that it has not begun.
        promote_all(w)
    bridge_node(w, b, lo, mid)
    right.fork.published = 0        # see take_published
    if (lazy_pop(&w.lazy, &right.fork.lazy)
            or fork_back(w, &right.fork, deque_bottom(&w.forks) - 1)):
        bridge_node(w, b, mid, hi)
    elif wait_for_fork(w, &right.fork, &b.limit):
        bridge_fail(b, 0, -1)
    if b.combine != NULL and bridge_wants(b, mid):
        mark, part = w.mark_of_call, w.part
        rc = after_call(w, part, mark, b.combine(w, b.ctx, lo, mid, hi))
        if rc != 0:
            bridge_fail(b, lo, rc)


cdef inline int after_call(Worker* w, Part* part, void* mark, int rc) noexcept nogil:
    """What this frame's function, or a block that it has left open, failed with."""
    if unlikely(has_left_open(w, part, mark)) and hooks().end_left_open(w, part, mark) != 0:
        return -1
    return rc


cdef inline void run_leaf(Worker* w, Bridge* b, int64_t lo, int64_t hi) noexcept nogil:
    cdef Part part
    cdef void* mark = w.mark_of_call
    cdef int rc
    part.limit = &b.limit
    part.at = lo
    part.outer = b.outer
    w.part = &part
    rc = after_call(w, &part, mark, b.leaf(w, b.ctx, lo, hi))
    w.part = b.outer
    if rc != 0:
        bridge_fail(b, lo, rc)


cdef void run_timed_leaf(Worker* w, Bridge* b, int64_t lo, int64_t hi) noexcept nogil:
    """A leaf that also finds out how large the next ones should be."""
    cdef int64_t begun, now, took
    # The clock takes a hundredth of a leaf, so of leaves of several items, whose
    # time is known from others, one in four is timed.
    w.leaves += 1
    if w.sharing and hi - lo > 1 and w.leaves & 3:
        run_leaf(w, b, lo, hi)
        if unlikely(b.progress != NULL):
            count_progress(w, b, hi - lo)
        return
    begun = now_ns()
    run_leaf(w, b, lo, hi)
    now = now_ns()
    after_leaf(w, b, hi - lo, now)
    took = now - begun
    # relaxed: any recent size is as good as another
    if took < b.leaf_ns / 2:
        if 2 * (hi - lo) > i64_load_relaxed(&b.span):
            i64_store_relaxed(&b.span, 2 * (hi - lo))
    elif took > 4 * b.leaf_ns and hi - lo > 1:
        i64_store_relaxed(&b.span, (hi - lo) >> 1)


cdef inline void after_leaf(Worker* w, Bridge* b, int64_t items, int64_t now) noexcept nogil:
    """Between leaves: looks whether the rest is wanted, and after the hungry.  now:
    0 if the time is not known."""
    cdef bint alone = lazy_any(&w.lazy) and not w.sharing
    if not alone and current_call(w) == NULL and b.outer == NULL:
        return
    if unlikely(b.progress != NULL):
        count_progress(w, b, items)
    if now == 0 and alone:
        now = now_ns()
    # Unless it stops already.
    if bridge_wants(b, 0) and must_stop(w, now):
        bridge_fail(b, 0, -1)
    if alone:
        b.done += items
        if worth_sharing(w, b, now):
            w.sharing = True
            # The oldest, hence the largest, first.
            promote_all(w)
        elif b.beats or now - b.start >= SHARE_ASLEEP_NS:
            # Forks of its callers (join_lazy) may have waited long enough; or its own, in calls in
            # close succession, or where the last items take longer than the pace of the first ones said.
            beat(w, now)


cdef void count_progress(Worker* w, Bridge* b, int64_t items) noexcept nogil:
    """A leaf has ended, and somebody wants to know.  What that one raises ends the
    operation."""
    cdef Part part
    cdef void* mark = w.mark_of_call
    cdef int rc
    if not progress_made(b.progress, items):
        return
    # The listener runs as a part of its own: loops inside it do not count as progress.
    part.limit = &b.limit
    part.at = 0
    part.outer = b.outer
    w.part = &part
    rc = after_call(w, &part, mark, b.progress.tell(b.progress.listener))
    w.part = b.outer
    if rc != 0:
        bridge_fail(b, 0, rc)   # `telling` stays taken: it is not called again
    else:
        progress_told(b.progress, True)


cdef bint is_somebody_awake(Worker* w) noexcept nogil:
    """Whether a worker looks for something to do."""
    cdef uint64_t c = counters_load(&w.pool.sleep.counters)
    return count_inactive(c) != count_sleeping(c)


cdef bint worth_sharing(Worker* w, Bridge* b, int64_t now) noexcept nogil:
    cdef double rest
    cdef bint lately = False
    if w.pool.n_background == 0:
        return False
    # The time that the rest would take, at the pace of what is done, times b.done.
    rest = (now - b.start) * <double>(b.n - b.done)
    if rest < SHARE_AWAKE_NS * <double>b.done:
        return False
    if is_somebody_awake(w) or rest >= SHARE_ASLEEP_NS * <double>b.done:
        return True
    if wished_for(&w.pool.sleep, b.start, now, &lately):
        wake_any(&w.pool.sleep, True)
    b.beats = b.beats or lately
    return False
