"""Parallel sorts of one contiguous row.  No Python, no NumPy: leaves are
functions that the caller hands in (NumPy's own SIMD kernels).

radix_sort     keys of 4 or 8 bytes: one most-significant-digit partition into
               buckets that fit into a cache, then the leaf sort on each
counting_sort  keys of 1 or 2 bytes: a histogram, then runs
merge_sort     anything with a comparison; stable if the leaf is

What each gives depends on the data alone, never on the number of threads.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.runtime.pool cimport Worker

# NumPy's: 0, or negative without memory.  `arr` is handed through.
ctypedef int (*sort_fn)(void* start, intptr_t n, void* arr) noexcept nogil
ctypedef int (*compare_fn)(const void* a, const void* b, void* arr) noexcept nogil

cdef enum KeyKind:
    KEY_UNSIGNED
    KEY_SIGNED
    KEY_FLOAT       # IEEE 754; not-a-numbers last
    KEY_TIME        # signed, with the least value (not-a-time) last

cdef struct Sort:
    const char* src     # what to sort; merge_sort may have it equal to dst
    char* dst           # where the result goes
    int64_t n           # items
    intptr_t itemsize   # bytes
    KeyKind kind        # not for merge_sort
    sort_fn leaf        # NULL: merge_sort then uses `compare` alone
    compare_fn compare  # merge_sort only
    void* arr           # for leaf and compare

# Rows of fewer items are one leaf.
cdef enum:
    SORT_MIN_ITEMS = 32768

# For half-precision floats, whose compare function in NumPy puts NaN first.
cdef int compare_half(const void* a, const void* b, void* arr) noexcept nogil

# 0, ENOMEM, or -1 with an exception set (a signal).
cdef int radix_sort(Worker* w, Sort* s) noexcept nogil
cdef int counting_sort(Worker* w, Sort* s) noexcept nogil
cdef int merge_sort(Worker* w, Sort* s) noexcept nogil
cdef int sort_rows(Worker* w, Sort* s, int64_t rows) noexcept nogil
