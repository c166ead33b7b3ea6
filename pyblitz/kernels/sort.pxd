"""Parallel sorts of one contiguous row.  No Python, no NumPy: leaves are
functions that the caller hands in (NumPy's own SIMD kernels).

merge_sort     anything with a comparison; stable if the leaf is

What each gives depends on the data alone, never on the number of threads.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.kernels.radix cimport sort_fn
from pyblitz.runtime.pool cimport Worker

ctypedef int (*compare_fn)(const void* a, const void* b, void* arr) noexcept nogil

cdef struct Sort:
    const char* src     # what to sort; merge_sort may have it equal to dst
    char* dst           # where the result goes
    int64_t n           # items
    intptr_t itemsize   # bytes
    sort_fn leaf        # NULL: merge_sort then uses `compare` alone
    compare_fn compare  # merge_sort only
    void* arr           # for leaf and compare

# Rows of fewer items are one leaf.
cdef enum:
    SORT_MIN_ITEMS = 32768

# 0, ENOMEM, or -1 with an exception set (a signal).
cdef int merge_sort(Worker* w, Sort* s) noexcept nogil
cdef int sort_rows(Worker* w, Sort* s, int64_t rows) noexcept nogil
