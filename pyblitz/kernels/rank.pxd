"""Ranks of items from their sorted order.  No Python, no NumPy."""
from libc.stdint cimport int64_t
from pyblitz.runtime.pool cimport Worker

cdef enum RankKind:
    RANK_AVERAGE            # doubles; the others are int64
    RANK_LEAST
    RANK_GREATEST
    RANK_DENSE
    RANK_ORDINAL

cdef struct Ranks:
    RankKind kind
    const int64_t* order    # [n]
    int64_t n
    const int64_t* starts   # [runs]: where each run of equal items begins; not for RANK_ORDINAL
    int64_t runs
    char* out               # [n], 8 bytes each

cdef int ranks_write(Worker* w, Ranks* r) noexcept nogil
