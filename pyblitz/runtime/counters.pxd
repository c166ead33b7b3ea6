"""The packed counters of the sleep protocol: who sleeps, who searches, and
whether work was posted, in one 64-bit word that changes as a whole.

    bits  0-15   sleeping: workers that block, or will without looking again
    bits 16-31   inactive: workers without a job (searching or sleeping)
    bits 32-63   JEC, the jobs event counter
                 even: no work was posted since somebody got sleepy
                 odd:  work was posted since

Invariant: sleeping <= inactive <= workers, asserted at each transition in
debug builds.  A worker whose thread was not started yet counts as sleeping.
"""
from libc.stdint cimport uint32_t, uint64_t
from pyblitz.runtime.atomic cimport (
    atomic_u64, invariant, u64_cas_seq_cst, u64_fetch_add_seq_cst,
    u64_fetch_sub_seq_cst, u64_load_seq_cst,
    u64_store_relaxed)
from pyblitz.runtime.chaos cimport chaos_fails

cdef struct Counters:
    atomic_u64 word
    char _pad[128 - 8]      # keeps what others write off these cache lines

cdef inline uint32_t count_sleeping(uint64_t c) noexcept nogil:
    return <uint32_t>(c & 0xFFFF)

cdef inline uint32_t count_inactive(uint64_t c) noexcept nogil:
    return <uint32_t>((c >> 16) & 0xFFFF)

cdef inline uint32_t count_jec(uint64_t c) noexcept nogil:
    return <uint32_t>(c >> 32)

cdef inline void counters_init(Counters* k, uint32_t asleep) noexcept nogil:
    u64_store_relaxed(&k.word, (<uint64_t>asleep << 16) | asleep)

cdef inline uint64_t counters_load(const Counters* k) noexcept nogil:
    return u64_load_seq_cst(&k.word)

cdef inline uint32_t announce_sleepy(Counters* k) noexcept nogil:
    """Sleeper: makes the JEC even and returns it.  Partner: post_event."""
    cdef uint64_t c
    while True:
        c = u64_load_seq_cst(&k.word)
        if count_jec(c) & 1 == 0:
            return count_jec(c)
        # The carry out of the JEC leaves the word: it rolls over by itself.
        if not chaos_fails(b"counters") and u64_cas_seq_cst(&k.word, c, c + (<uint64_t>1 << 32)):
            return count_jec(c + (<uint64_t>1 << 32))

cdef inline uint64_t post_event(Counters* k) noexcept nogil:
    """Poster: makes the JEC odd and returns the word.  Partners:
    announce_sleepy, and the look at the JEC before and after add_sleeping."""
    cdef uint64_t c
    while True:
        c = u64_load_seq_cst(&k.word)
        if count_jec(c) & 1 == 1:
            return c
        if not chaos_fails(b"counters") and u64_cas_seq_cst(&k.word, c, c + (<uint64_t>1 << 32)):
            return c + (<uint64_t>1 << 32)

cdef inline bint add_sleeping(Counters* k, uint32_t jec) noexcept nogil:
    """Sleeper: counts itself as sleeping, unless the JEC is no longer
    ``jec``."""
    cdef uint64_t c
    while True:
        c = u64_load_seq_cst(&k.word)
        if count_jec(c) != jec:
            return False
        invariant(count_sleeping(c) < count_inactive(c), "sleeping < inactive")
        if not chaos_fails(b"counters") and u64_cas_seq_cst(&k.word, c, c + 1):
            return True

cdef inline void sub_sleeping(Counters* k) noexcept nogil:
    """Whoever claimed a sleeper: so that the next poster sees at once that
    one fewer sleeps, however long the wake takes."""
    cdef uint64_t c = u64_fetch_sub_seq_cst(&k.word, 1)
    invariant(count_sleeping(c) > 0, "0 < sleeping")

cdef inline void add_inactive(Counters* k) noexcept nogil:
    cdef uint64_t c = u64_fetch_add_seq_cst(&k.word, 1 << 16)
    invariant(count_sleeping(c) <= count_inactive(c), "sleeping <= inactive")

cdef inline uint64_t sub_inactive(Counters* k) noexcept nogil:
    """A searcher that found work, or ends.  The word before."""
    cdef uint64_t c = u64_fetch_sub_seq_cst(&k.word, 1 << 16)
    invariant(count_sleeping(c) < count_inactive(c), "sleeping < inactive")
    return c
