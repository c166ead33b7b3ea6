"""The deque, the part that seldom runs: see deque.pxd.

Nothing here depends on the macros that shrink a deque in tests, so that tests
which are built with them run this very code.
"""
from libc.stdint cimport int64_t, uint32_t
from pyblitz.runtime.atomic cimport (
    fence_seq_cst, i64_cas_seq_cst, i64_load_acquire, i64_load_relaxed, i64_store_relaxed,
    ptr_load_relaxed, ptr_store_relaxed, u32_cas_seq_cst, u32_load_relaxed, u32_store_relaxed,
    u32_store_release)
from pyblitz.runtime.chaos cimport chaos
from pyblitz.runtime.os cimport membarrier


cdef bint deque_make_room(Deque* d, int64_t b) noexcept nogil:
    """Owner: finds room for one more, or doubles the ring.  A thief may still
    read the old one, at indices that it holds unchanged, so it is kept until the
    deque goes."""
    # acquire: partner is the compare-and-swap of top in deque_steal; a cell is
    # written again only after the thief that took it has read it
    cdef int64_t t = i64_load_acquire(&d.top)
    cdef Ring* r
    cdef Cell* to
    cdef Cell* source
    cdef int64_t i
    d.full = t + d.mask + 1
    if b < d.full:
        return True
    r = ring_new(2 * (d.mask + 1), <Ring*>ptr_load_relaxed(&d.ring))
    if r == NULL:
        return False
    for i in range(t, b):
        to = &ring_cells(r)[i & r.mask]
        source = &d.cells[i & d.mask]
        ptr_store_relaxed(&to.job, ptr_load_relaxed(&source.job))
        ptr_store_relaxed(&to.tag, ptr_load_relaxed(&source.tag))
    chaos(b"grow: copied")
    deque_use(d, r, t)
    return True


cdef bint deque_take_back_slow(Deque* d, int64_t b) noexcept nogil:
    """The rest of deque_take_back when the deque is not biased, or has one job at
    most."""
    cdef int64_t t
    cdef bint mine
    # relaxed: the owner alone makes it OWNER
    cdef uint32_t bias = u32_load_relaxed(&d.bias)
    if bias != BIAS_OWNER:
        if d.bias_after != 0:
            d.until_biased -= 1
        if d.until_biased < 0:
            d.until_biased = d.bias_after
            # A thief that revokes is left to finish.
            if bias == BIAS_FENCED:
                # relaxed: ordered by the fence.  A thief that misses it loaded
                # top before our fence, so that our pops see that top.
                u32_store_relaxed(&d.bias, BIAS_OWNER)
        # Between the store of bottom and the load of top; partner: the fence in
        # deque_steal.
        fence_seq_cst()
        if bias == BIAS_REFUSED:
            # Every pop without a fence lies before this fence.
            d.bias_after = 0
            d.until_biased = 0
            # release: partner is the acquire load of bias in deque_steal
            u32_store_release(&d.bias, BIAS_FENCED)
    chaos(b"pop: fenced")
    t = i64_load_relaxed(&d.top)
    if t < b:
        return True
    # The last job: race thieves for it, as one of them.
    mine = t == b and i64_cas_seq_cst(&d.top, t, t + 1)
    # Empty: bottom is where top is, which may be past b + 1: newer jobs were taken
    # as the last one, or stolen.
    # relaxed: nothing new becomes visible
    i64_store_relaxed(&d.bottom, b + 1 if t == b else t)
    return mine


cdef bint deque_revoke(Deque* d) noexcept nogil:
    """Any other thread: makes the owner fence its pops again.  False when another
    thread is at it."""
    # seq_cst: one thief revokes
    if not u32_cas_seq_cst(&d.bias, BIAS_OWNER, BIAS_REVOKING):
        return False
    # A pop that read OWNER before this has stored its bottom before, which is
    # seen from here on; a later one reads REVOKING, and fences.  Partner:
    # deque_take_back.
    if membarrier():
        chaos(b"revoke: fenced")
        # release: partner is the acquire load of bias in deque_steal
        u32_store_release(&d.bias, BIAS_FENCED)
        return True
    # A sandbox that was put up after the start forbids it.
    # relaxed: the owner fences when it reads it
    u32_store_relaxed(&d.bias, BIAS_REFUSED)
    return False
