"""A growable Chase-Lev deque: the owner pushes and pops at the bottom, any other
thread takes from the top.  Nobody waits for anybody: a thief that loses a race, or
meets one that revokes the owner's bias, comes away with nothing.

Algorithm: Chase and Lev, "Dynamic circular work-stealing deque" (SPAA 2005),
with the C11 orders of Le, Pop, Cohen and Zappa Nardelli, "Correct and
efficient work-stealing for weak memory models" (PPoPP 2013).  Three changes:

- Push publishes with a release *store* of ``bottom`` instead of a release
  fence, so that ThreadSanitizer can follow it.
- A cell holds a *tag* beside the job: what the job is a part of.  A thief may
  ask for a tag and then takes nothing else.  Both words are read before the
  compare-and-swap of ``top`` and are valid when it succeeds: the job at index
  ``top`` can only leave by moving ``top``, the owner's pop of the last one
  included.
- The fence in the owner's pop is the price of a fork, and most forks are never
  stolen.  So a deque that was popped often becomes *biased*: its owner then
  pops without a fence, and the next thief first revokes the bias, at the price
  of a fence in every thread (membarrier).  Thieves of a deque that is not
  biased pay nothing more.  After Dice, Moir and Scherer, "Quickly reacquirable
  locks" (2003), and the asymmetric fences of Dice, Huang and Yang (2001).

Invariants: ``top`` never decreases; the jobs are those at ``top <= i <
bottom``; ``bottom >= top`` except inside ``deque_take_back``; ``bottom - top <=
mask + 1``; ``full - mask - 1 <= top``.  Only the owner writes ``bottom``,
``ring`` and cells.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from pyblitz.runtime.atomic cimport (
    BIAS_AFTER, DEQUE_CAPACITY, atomic_i64, atomic_ptr, atomic_u32, compiler_barrier,
    fence_seq_cst, i64_cas_seq_cst, i64_load_acquire, i64_load_relaxed, i64_store_relaxed,
    i64_store_release, likely, ptr_load_acquire, ptr_load_relaxed, ptr_store_relaxed,
    ptr_store_release, u32_load_acquire, u32_load_relaxed, u32_store_relaxed, unlikely)
from pyblitz.runtime.chaos cimport chaos, chaos_fails
from pyblitz.runtime.job cimport Job

cdef struct Cell:
    atomic_ptr job
    atomic_ptr tag

cdef struct Ring:
    int64_t mask        # capacity - 1; the capacity is a power of two
    Ring* older         # retired rings, freed with the deque
    # The cells follow.

cdef enum Bias:
    BIAS_FENCED = 0     # the owner's pops are fenced: steal freely
    BIAS_OWNER = 1      # they are not: only who revokes the bias may steal
    BIAS_REVOKING = 2   # a thief waits until every pop without a fence is seen
    BIAS_REFUSED = 3    # it was refused that: the owner's next pop fences for it

cdef struct Deque:
    # Owner's cache line: thieves read it too, but seldom beside the owner.
    atomic_i64 bottom
    atomic_ptr ring
    # Bias.  Owner: FENCED to OWNER, REFUSED to FENCED; thieves: the other ways
    atomic_u32 bias
    # The owner's only:
    int until_biased    # fenced pops until it becomes biased
    int bias_after      # where that begins; 0: it never does
    int64_t full        # some earlier value of top, plus the capacity
    int64_t mask        # the ring's
    Cell* cells         # the ring's
    char _pad0[128 - 56]  # keeps what others write off these cache lines
    # Thieves' cache line.
    atomic_i64 top
    char _pad1[128 - 8]  # keeps what others write off these cache lines

cdef enum StealResult:
    STEAL_EMPTY         # nothing there, or not of the tag asked for
    STEAL_TAKEN
    STEAL_RETRY         # lost a race: there may be more

cdef bint deque_make_room(Deque* d, int64_t b) noexcept nogil
cdef bint deque_take_back_slow(Deque* d, int64_t b) noexcept nogil
cdef bint deque_revoke(Deque* d) noexcept nogil

cdef inline Cell* ring_cells(Ring* r) noexcept nogil:
    return <Cell*>(r + 1)

cdef inline Ring* ring_new(int64_t capacity, Ring* older) noexcept nogil:
    cdef Ring* r = <Ring*>malloc(sizeof(Ring) + <size_t>capacity * sizeof(Cell))
    if r != NULL:
        r.mask = capacity - 1
        r.older = older
    return r

cdef inline void deque_use(Deque* d, Ring* r, int64_t top) noexcept nogil:
    """Owner: pushes into this ring from now on.  ``top``: not past top."""
    d.mask = r.mask
    d.cells = ring_cells(r)
    d.full = top + r.mask + 1
    # release: partner is the acquire load of ring in deque_steal
    ptr_store_release(&d.ring, r)

cdef inline bint deque_init(Deque* d, bint may_bias) noexcept nogil:
    """Makes an empty deque; false when there is no memory for its ring.
    ``may_bias``: membarrier works, and a thief may be made to pay for it."""
    cdef Ring* r = ring_new(DEQUE_CAPACITY, NULL)
    i64_store_relaxed(&d.bottom, 0)
    i64_store_relaxed(&d.top, 0)
    u32_store_relaxed(&d.bias, BIAS_FENCED)
    d.bias_after = BIAS_AFTER if may_bias else 0
    d.until_biased = d.bias_after
    ptr_store_relaxed(&d.ring, NULL)
    if r != NULL:
        deque_use(d, r, 0)
    return r != NULL

cdef inline void deque_destroy(Deque* d) noexcept nogil:
    """Frees the rings.  Nobody may use the deque any more."""
    cdef Ring* r = <Ring*>ptr_load_relaxed(&d.ring)
    cdef Ring* older
    while r != NULL:
        older = r.older
        free(r)
        r = older

cdef inline int64_t deque_bottom(Deque* d) noexcept nogil:
    """Owner: where the next job goes."""
    return i64_load_relaxed(&d.bottom)

cdef inline bint deque_has_room(Deque* d, int64_t b) noexcept nogil:
    """Owner: false when a push has to look for room first."""
    return b < d.full

cdef inline bint deque_push(Deque* d, int64_t b, Job* job, void* tag) noexcept nogil:
    """Owner: adds a job at the bottom, b = deque_bottom(d).  False when the ring
    is full and there is no memory for a larger one; the job is then not in the
    deque."""
    if unlikely(not deque_has_room(d, b)) and not deque_make_room(d, b):
        return False
    deque_put(d, b, job, tag)
    return True

cdef inline void deque_put(Deque* d, int64_t b, Job* job, void* tag) noexcept nogil:
    """Owner: the same when there is room."""
    cdef Cell* cell = &d.cells[b & d.mask]
    # relaxed: published by the next line
    ptr_store_relaxed(&cell.job, job)
    ptr_store_relaxed(&cell.tag, tag)
    # release: partner is the acquire load of bottom in deque_steal
    i64_store_release(&d.bottom, b + 1)

cdef inline bint deque_take_back(Deque* d, int64_t b) noexcept nogil:
    """Owner: takes the job that it pushed at b, of which all newer ones were
    taken, by whomever; false when it was stolen.  (A fork keeps its b in a
    register: loading what was just stored would add to the latency of a join.)"""
    # relaxed: nothing is published by it (a thief that reads it is with the pushes
    # before, whose release sequence it goes on with: of C11 and C17, not of C++20),
    # and it is ordered before the load of top below: by the membarrier of a thief
    # that revokes the bias, or by the fence in deque_take_back_slow
    i64_store_relaxed(&d.bottom, b)
    # The store stays above the load of bias: a thief whose membarrier comes
    # after that load sees the store.  Partner: deque_revoke.
    compiler_barrier()
    chaos(b"pop: bottom is stored")
    # relaxed: if it is an old value, the membarrier that ends it is yet to come
    if likely(u32_load_relaxed(&d.bias) == BIAS_OWNER):
        compiler_barrier()
        chaos(b"pop: biased")
        if likely(i64_load_relaxed(&d.top) < b):
            return True
    return deque_take_back_slow(d, b)

cdef inline Job* deque_newest(Deque* d) noexcept nogil:
    """Owner: the newest job, which thieves may take.  The deque may not look
    empty."""
    cdef int64_t b = deque_bottom(d) - 1
    return <Job*>ptr_load_relaxed(&d.cells[b & d.mask].job)

cdef inline Job* deque_pop(Deque* d) noexcept nogil:
    """Owner: takes the newest job, or NULL when there is none."""
    # Read first; of an empty deque, anything.
    cdef Job* job = deque_newest(d)
    return job if deque_take_back(d, deque_bottom(d) - 1) else NULL

cdef inline void* deque_bottom_tag(Deque* d) noexcept nogil:
    """Owner: the tag of the newest job.  The deque may not look empty."""
    cdef int64_t b = deque_bottom(d) - 1
    return ptr_load_relaxed(&d.cells[b & d.mask].tag)

cdef inline int64_t deque_looks(Deque* d) noexcept nogil:
    """How many jobs there seem to be: exact for the owner in the absence of
    thieves, a hint for everybody else."""
    # relaxed: no decision that must be right rests on it alone
    return i64_load_relaxed(&d.bottom) - i64_load_relaxed(&d.top)

cdef inline bint deque_offers(Deque* d, void* tag) noexcept nogil:
    """Any thread: whether the oldest job seems to have this tag, and could be stolen.  A hint."""
    cdef int64_t t = i64_load_relaxed(&d.top)
    cdef Ring* r
    # relaxed: until the owner's next pop nobody steals here, and who waits is not to spin for that
    if u32_load_relaxed(&d.bias) == BIAS_REFUSED:
        return False
    # acquire, twice: partners as in deque_steal
    if t >= i64_load_acquire(&d.bottom):
        return False
    r = <Ring*>ptr_load_acquire(&d.ring)
    return ptr_load_relaxed(&ring_cells(r)[t & r.mask].tag) == tag

cdef inline StealResult deque_steal(Deque* d, void* tag, Job** out,
                                    void** out_tag) noexcept nogil:
    """Any other thread: takes the oldest job, if its tag is ``tag``; NULL
    takes any."""
    cdef int64_t t, b
    cdef Ring* r
    cdef Cell* cell
    cdef Job* job
    cdef void* found
    while True:
        # acquire: partner is the successful compare-and-swap of an earlier thief
        t = i64_load_acquire(&d.top)
        # Between the loads of top and bottom; partner: the fence in
        # deque_take_back_slow.  Either the owner's pop sees our top, or we see
        # its bottom.
        fence_seq_cst()
        # acquire: partner is the release store of bias in deque_revoke
        if likely(u32_load_acquire(&d.bias) == BIAS_FENCED):
            break
        # Its own revocation is a thief's to use, before the owner is biased again.
        if not deque_revoke(d):
            return STEAL_EMPTY
    # acquire: partner is the release store of bottom in deque_push
    b = i64_load_acquire(&d.bottom)
    if t >= b:
        return STEAL_EMPTY
    # acquire: partner is the release store of ring in deque_use
    r = <Ring*>ptr_load_acquire(&d.ring)
    cell = &ring_cells(r)[t & r.mask]
    # relaxed, and perhaps torn apart by an owner who wraps around: both are
    # thrown away unless the compare-and-swap shows that top has not moved
    job = <Job*>ptr_load_relaxed(&cell.job)
    found = ptr_load_relaxed(&cell.tag)
    if tag != NULL and found != tag:
        return STEAL_EMPTY
    chaos(b"steal: the cell is read")
    if chaos_fails(b"steal") or not i64_cas_seq_cst(&d.top, t, t + 1):
        return STEAL_RETRY
    out[0] = job
    out_tag[0] = found
    return STEAL_TAKEN
