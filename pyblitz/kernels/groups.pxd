"""Runs of equal keys in a sorted order, and what is said of their items.  No Python,
no NumPy.
"""
from libc.stdint cimport int64_t, intptr_t, uint8_t
from pyblitz.runtime.pool cimport Worker

# What makes two keys equal.
cdef enum EqualKind:
    EQUAL_BYTES         # the same bytes
    # The same value; all not-a-numbers are one, and so are both zeros.
    EQUAL_HALF
    EQUAL_FLOAT
    EQUAL_DOUBLE
    # Pairs; one is not a number if a part of it is not.
    EQUAL_FLOAT_PAIR
    EQUAL_DOUBLE_PAIR

cdef struct Column:
    EqualKind kind
    const char* items       # aligned
    intptr_t itemsize

cdef struct Runs:
    const int64_t* order    # [n]: where the items are, in sorted order
    int64_t n
    const Column* columns
    int count               # of columns, at least 1
    uint8_t* begins         # [n], the result: whether a run begins here

# 0, ENOMEM, or -1 with an exception set.
cdef int runs_find(Worker* w, Runs* r) noexcept nogil

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
    const int64_t* starts   # [runs]: where they begin in the order; not for RANK_ORDINAL
    int64_t runs
    char* out               # [n], 8 bytes each

cdef int ranks_write(Worker* w, Ranks* r) noexcept nogil
