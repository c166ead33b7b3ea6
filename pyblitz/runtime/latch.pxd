"""Latches: set once by one thread, waited for by another.

Setting a latch *returns the duty to wake*: these functions never wake anyone
themselves, so that they need nothing of sleep or pool.  After the store that
sets a latch its memory may be gone, for the waiter may own it; what the setter
still needs is read before.

The core is Rayon's four-state latch:

    UNSET -> SLEEPY      the owner is about to sleep and looks once more
    SLEEPY -> SLEEPING   the owner blocks, or is past its last look
    SLEEPY, SLEEPING -> UNSET   the owner is up again
    any -> SET           once; from SLEEPING it carries the duty to wake
"""
from libc.stdint cimport int64_t
from pyblitz.runtime.atomic cimport (
    atomic_i64, atomic_u32, i64_cas_acquire, i64_fetch_add_relaxed, i64_fetch_sub_acq_rel,
    i64_load_relaxed, i64_store_relaxed, u32_cas_seq_cst, u32_exchange_acq_rel, u32_load_acquire,
    u32_load_relaxed, u32_store_relaxed)

cdef enum LatchState:
    LATCH_UNSET = 0
    LATCH_SLEEPY = 1
    LATCH_SLEEPING = 2
    LATCH_SET = 3

cdef struct CoreLatch:
    atomic_u32 state        # a LatchState

cdef inline void latch_init(CoreLatch* l) noexcept nogil:
    u32_store_relaxed(&l.state, LATCH_UNSET)

cdef inline bint latch_is_set(const CoreLatch* l) noexcept nogil:
    # acquire: partner is the exchange in latch_set
    return u32_load_acquire(&l.state) == LATCH_SET

cdef inline bint latch_get_sleepy(CoreLatch* l) noexcept nogil:
    """Owner: false when the latch is set."""
    return u32_cas_seq_cst(&l.state, LATCH_UNSET, LATCH_SLEEPY)

cdef inline bint latch_fall_asleep(CoreLatch* l) noexcept nogil:
    """Owner: false when the latch is set.  From here on a setter wakes us."""
    return u32_cas_seq_cst(&l.state, LATCH_SLEEPY, LATCH_SLEEPING)

cdef inline void latch_wake_up(CoreLatch* l) noexcept nogil:
    """Owner: back to UNSET, unless the latch is set."""
    # relaxed look, then a try that changes nothing when a setter was faster
    if u32_load_relaxed(&l.state) == LATCH_SLEEPING:
        u32_cas_seq_cst(&l.state, LATCH_SLEEPING, LATCH_UNSET)
    else:
        u32_cas_seq_cst(&l.state, LATCH_SLEEPY, LATCH_UNSET)

cdef inline bint latch_set(CoreLatch* l) noexcept nogil:
    """Sets the latch; true when the owner sleeps and the caller must wake it.
    The latch may be gone when this returns."""
    # acq_rel: releases the setter's writes to latch_is_set
    return u32_exchange_acq_rel(&l.state, LATCH_SET) == LATCH_SLEEPING


cdef struct SpinLatch:
    # A core latch that knows whom to wake: a worker that spins, then sleeps.
    CoreLatch core
    void* owner         # Worker*

cdef inline void spin_latch_init(SpinLatch* l, void* owner) noexcept nogil:
    latch_init(&l.core)
    l.owner = owner

cdef inline void* spin_latch_set(SpinLatch* l) noexcept nogil:
    """Sets the latch; the Worker to wake, or NULL."""
    # Read before the store that may free the latch.
    cdef void* owner = l.owner
    return owner if latch_set(&l.core) else NULL


cdef struct CountLatch:
    # count_up adds to it, count_down takes from it; it starts at 1, for the owner.
    atomic_i64 count
    SpinLatch latch         # set when count becomes 0

cdef inline void count_latch_init(CountLatch* l, void* owner) noexcept nogil:
    i64_store_relaxed(&l.count, 1)
    spin_latch_init(&l.latch, owner)

cdef inline void count_up(CountLatch* l, int64_t n) noexcept nogil:
    # relaxed: the caller's own share keeps the count above zero, and what it
    # counts is published by the queue that it goes through
    i64_fetch_add_relaxed(&l.count, n)

cdef inline bint count_try_up(CountLatch* l) noexcept nogil:
    """One share, by whoever may come too late: false when the latch is set."""
    cdef int64_t n
    while True:
        # relaxed: only compared
        n = i64_load_relaxed(&l.count)
        if n <= 0:
            return False
        # acquire: partner is count_down, so that nothing below moves above it
        if i64_cas_acquire(&l.count, n, n + 1):
            return True

cdef inline void* count_down(CountLatch* l, int64_t n) noexcept nogil:
    """Gives back n shares; the Worker to wake, or NULL.  The latch may be gone
    when this returns."""
    # acq_rel: the last one sees the writes of all others and passes them on
    if i64_fetch_sub_acq_rel(&l.count, n) == n:
        return spin_latch_set(&l.latch)
    return NULL
