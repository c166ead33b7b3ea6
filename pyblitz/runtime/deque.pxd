"""A growable Chase-Lev deque: the owner pushes and pops at the bottom, any
other thread takes from the top, and nobody ever waits.

Algorithm: Chase and Lev, "Dynamic circular work-stealing deque" (SPAA 2005),
with the C11 orders of Le, Pop, Cohen and Zappa Nardelli, "Correct and
efficient work-stealing for weak memory models" (PPoPP 2013).  Two changes:

- Push publishes with a release *store* of ``bottom`` instead of a release
  fence, so that ThreadSanitizer can follow it.
- A cell holds a *tag* beside the job: what the job is a part of.  A thief may
  ask for a tag and then takes nothing else.  Both words are read before the
  compare-and-swap of ``top`` and are valid when it succeeds: the job at index
  ``top`` can only leave by moving ``top``, the owner's pop of the last one
  included.

Invariants: ``top`` never decreases; the jobs are those at ``top <= i <
bottom``; ``bottom >= top`` except inside ``deque_pop``; ``bottom - top <=
mask + 1``.  Only the owner writes ``bottom``, ``ring`` and cells.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from pyblitz.runtime.atomic cimport (
    DEQUE_CAPACITY, atomic_i64, atomic_ptr, fence_seq_cst, i64_cas_seq_cst,
    i64_load_acquire, i64_load_relaxed, i64_store_relaxed, i64_store_release,
    likely, ptr_load_acquire, ptr_load_relaxed, ptr_store_relaxed,
    ptr_store_release, unlikely)
from pyblitz.runtime.job cimport Job

cdef struct Cell:
    atomic_ptr job
    atomic_ptr tag

cdef struct Ring:
    int64_t mask        # capacity - 1; the capacity is a power of two
    Ring* older         # retired rings, freed with the deque
    Cell* cells         # directly behind this header

cdef struct Deque:
    # Owner's cache line: thieves read it too, but seldom beside the owner.
    atomic_i64 bottom
    int64_t top_seen    # owner only: some earlier value of top, so top_seen <= top
    atomic_ptr ring
    char _pad0[128 - 24]
    # Thieves' cache line.
    atomic_i64 top
    char _pad1[128 - 8]

cdef enum StealResult:
    STEAL_EMPTY         # nothing there, or not of the tag asked for
    STEAL_TAKEN
    STEAL_RETRY         # lost a race: there may be more

cdef inline Ring* ring_new(int64_t capacity, Ring* older) noexcept nogil:
    cdef Ring* r = <Ring*>malloc(sizeof(Ring) + <size_t>capacity * sizeof(Cell))
    if r != NULL:
        r.mask = capacity - 1
        r.older = older
        r.cells = <Cell*>(r + 1)
    return r

cdef inline bint deque_init(Deque* d) noexcept nogil:
    """Makes an empty deque; false when there is no memory for its ring."""
    cdef Ring* r = ring_new(DEQUE_CAPACITY, NULL)
    i64_store_relaxed(&d.bottom, 0)
    i64_store_relaxed(&d.top, 0)
    d.top_seen = 0
    ptr_store_relaxed(&d.ring, r)
    return r != NULL

cdef inline void deque_destroy(Deque* d) noexcept nogil:
    """Frees the rings.  Nobody may use the deque any more."""
    cdef Ring* r = <Ring*>ptr_load_relaxed(&d.ring)
    cdef Ring* older
    while r != NULL:
        older = r.older
        free(r)
        r = older

cdef inline bint deque_grow(Deque* d, int64_t b, int64_t t) noexcept nogil:
    """Doubles the ring.  A thief may still read the old one, at indices that
    it holds unchanged, so it is kept until the deque goes."""
    cdef Ring* old = <Ring*>ptr_load_relaxed(&d.ring)
    cdef Ring* r = ring_new(2 * (old.mask + 1), old)
    cdef Cell* to
    cdef Cell* source
    cdef int64_t i
    if r == NULL:
        return False
    for i in range(t, b):
        to = &r.cells[i & r.mask]
        source = &old.cells[i & old.mask]
        ptr_store_relaxed(&to.job, ptr_load_relaxed(&source.job))
        ptr_store_relaxed(&to.tag, ptr_load_relaxed(&source.tag))
    # release: partner is the acquire load of ring in deque_steal
    ptr_store_release(&d.ring, r)
    return True

cdef inline bint deque_push(Deque* d, Job* job, void* tag) noexcept nogil:
    """Owner: adds a job at the bottom.  False when the ring is full and there
    is no memory for a larger one; the job is then not in the deque."""
    cdef int64_t b = i64_load_relaxed(&d.bottom)
    cdef Ring* r = <Ring*>ptr_load_relaxed(&d.ring)
    cdef Cell* cell
    if unlikely(b - d.top_seen > r.mask):
        # acquire: partner is the compare-and-swap of top in deque_steal; a
        # cell is written again only after the thief that took it has read it
        d.top_seen = i64_load_acquire(&d.top)
        if b - d.top_seen > r.mask:
            if not deque_grow(d, b, d.top_seen):
                return False
            r = <Ring*>ptr_load_relaxed(&d.ring)
    cell = &r.cells[b & r.mask]
    # relaxed: published by the next line
    ptr_store_relaxed(&cell.job, job)
    ptr_store_relaxed(&cell.tag, tag)
    # release: partner is the acquire load of bottom in deque_steal
    i64_store_release(&d.bottom, b + 1)
    return True

cdef inline void owner_fence() noexcept nogil:
    """Orders the owner's store of bottom before its load of top in deque_pop.
    Partner: the fence in deque_steal."""
    fence_seq_cst()

cdef inline Job* deque_pop(Deque* d) noexcept nogil:
    """Owner: takes the newest job, or NULL when there is none."""
    cdef int64_t b = i64_load_relaxed(&d.bottom) - 1
    cdef Ring* r = <Ring*>ptr_load_relaxed(&d.ring)
    cdef int64_t t
    cdef Job* job
    # relaxed: ordered by the fence, and nothing is published by it
    i64_store_relaxed(&d.bottom, b)
    owner_fence()
    t = i64_load_relaxed(&d.top)
    if likely(t < b):
        return <Job*>ptr_load_relaxed(&r.cells[b & r.mask].job)
    job = NULL
    if t == b:
        # The last job: race thieves for it, as one of them.
        job = <Job*>ptr_load_relaxed(&r.cells[b & r.mask].job)
        if not i64_cas_seq_cst(&d.top, t, t + 1):
            job = NULL
    # relaxed: the job at b is gone, nothing new becomes visible
    i64_store_relaxed(&d.bottom, b + 1)
    return job

cdef inline void* deque_bottom_tag(Deque* d) noexcept nogil:
    """Owner: the tag of the newest job.  The deque may not look empty."""
    cdef int64_t b = i64_load_relaxed(&d.bottom) - 1
    cdef Ring* r = <Ring*>ptr_load_relaxed(&d.ring)
    return ptr_load_relaxed(&r.cells[b & r.mask].tag)

cdef inline int64_t deque_looks(Deque* d) noexcept nogil:
    """How many jobs there seem to be: exact for the owner in the absence of
    thieves, a hint for everybody else."""
    # relaxed: no decision that must be right rests on it alone
    return i64_load_relaxed(&d.bottom) - i64_load_relaxed(&d.top)

cdef inline bint deque_offers(Deque* d, void* tag) noexcept nogil:
    """Any thread: whether the oldest job seems to have this tag.  A hint."""
    cdef int64_t t = i64_load_relaxed(&d.top)
    cdef Ring* r
    # acquire, twice: partners as in deque_steal
    if t >= i64_load_acquire(&d.bottom):
        return False
    r = <Ring*>ptr_load_acquire(&d.ring)
    return ptr_load_relaxed(&r.cells[t & r.mask].tag) == tag

cdef inline StealResult deque_steal(Deque* d, void* tag, Job** out,
                                    void** out_tag) noexcept nogil:
    """Any other thread: takes the oldest job, if its tag is ``tag``; NULL
    takes any."""
    # acquire: partner is the successful compare-and-swap of an earlier thief
    cdef int64_t t = i64_load_acquire(&d.top)
    cdef int64_t b
    cdef Ring* r
    cdef Cell* cell
    cdef Job* job
    cdef void* found
    # Between the loads of top and bottom; partner: owner_fence.  Either the
    # owner's pop sees our top, or we see its bottom.
    fence_seq_cst()
    # acquire: partner is the release store of bottom in deque_push
    b = i64_load_acquire(&d.bottom)
    if t >= b:
        return STEAL_EMPTY
    # acquire: partner is the release store of ring in deque_grow
    r = <Ring*>ptr_load_acquire(&d.ring)
    cell = &r.cells[t & r.mask]
    # relaxed, and perhaps torn apart by an owner who wraps around: both are
    # thrown away unless the compare-and-swap shows that top has not moved
    job = <Job*>ptr_load_relaxed(&cell.job)
    found = ptr_load_relaxed(&cell.tag)
    if tag != NULL and found != tag:
        return STEAL_EMPTY
    if not i64_cas_seq_cst(&d.top, t, t + 1):
        return STEAL_RETRY
    out[0] = job
    out_tag[0] = found
    return STEAL_TAKEN
