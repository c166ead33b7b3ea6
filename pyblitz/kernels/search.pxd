"""Binary searches of many keys in one sorted row.

A search in a row that no cache holds waits for memory at each step, so several
keys take each step together, and what the next step reads is fetched ahead.
The steps are the same for all keys and have no branches that depend on data.
No Python, no NumPy.
"""
from libc.stdint cimport int64_t
from pyblitz.kernels.numbers cimport NumberKind
from pyblitz.runtime.pool cimport Worker

cdef struct SortedSearch:
    NumberKind kind
    bint right              # whether a key belongs after items that are equal to it
    const char* row         # the sorted items, NaNs last
    int64_t n               # the number of items
    int64_t numbers         # how many are no NaN; search_prepare finds it
    const char* keys        # what is searched for
    int64_t count           # the number of keys
    int64_t* out            # [count], where each key belongs

cdef void search_prepare(SortedSearch* s) noexcept nogil
# Writes to out[0 .. hi - lo] where keys lo .. hi belong.
cdef void search_block(const SortedSearch* s, int64_t lo, int64_t hi, int64_t* out) noexcept nogil
# 0, or -1 with an exception set.
cdef int search_run(Worker* w, SortedSearch* s) noexcept nogil
