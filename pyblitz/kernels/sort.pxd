"""Parallel sorts of one contiguous row.  No Python, no NumPy: leaves are
functions that the caller hands in (NumPy's own SIMD kernels).

radix_sort     keys of 4 or 8 bytes: one most-significant-digit partition into
               buckets that fit into a cache, then the leaf sort on each
counting_sort  keys of 1 or 2 bytes: a histogram, then runs

What each gives depends on the data alone, never on the number of threads.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.kernels.merge cimport sort_fn
from pyblitz.runtime.pool cimport Worker

cdef enum KeyKind:
    KEY_UNSIGNED
    KEY_SIGNED
    KEY_FLOAT       # IEEE 754; not-a-numbers last
    KEY_TIME        # signed, with the least value (not-a-time) last

cdef struct Sort:
    const char* src     # what to sort
    char* dst           # where the result goes
    int64_t n           # items
    intptr_t itemsize   # bytes
    KeyKind kind
    sort_fn leaf
    void* arr           # for leaf

# Rows of fewer items are one leaf.
cdef enum:
    SORT_MIN_ITEMS = 32768

# 0, ENOMEM, or -1 with an exception set (a signal).
cdef int radix_sort(Worker* w, Sort* s) noexcept nogil
cdef int counting_sort(Worker* w, Sort* s) noexcept nogil
# A stand-in: stable, in place.
cdef int sort_in_place(Worker* w, KeyKind kind, int itemsize, void* a, int64_t n) noexcept nogil
