"""Binary searches of many keys in one sorted row.

A search in a row that no cache holds waits for memory at each step, so several
keys take each step together, and what the next step reads is fetched ahead.
The steps are the same for all keys and have no branches that depend on data.
No Python, no NumPy.
"""
from libc.stdint cimport int64_t
from pyblitz.kernels.numbers cimport NumberKind
from pyblitz.runtime.pool cimport Worker

cdef struct Search:
    NumberKind kind
    bint right              # after equal items instead of before them
    const char* row         # sorted, NaNs last
    int64_t n
    int64_t numbers         # items before the first NaN; search_prepare's
    const char* keys
    int64_t count           # keys
    int64_t* out

cdef void search_prepare(Search* s) noexcept nogil
# Where keys lo .. hi belong, to out[0 .. hi - lo].
cdef void search_block(const Search* s, int64_t lo, int64_t hi, int64_t* out) noexcept nogil
# 0, or -1 with an exception set.
cdef int search_run(Worker* w, Search* s) noexcept nogil
