"""Searches for what a mask is true for, what is equal to a value, or what is zero or not, and counts.

The mask is one byte an element, the last thing that a map gives (or an array of bools).
The first and the last hit are exact: whatever lies behind a hit is not looked at
any more, whatever lies before it still is.  No Python, no NumPy.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from pyblitz.kernels.map cimport Map
from pyblitz.runtime.atomic cimport atomic_i64
from pyblitz.runtime.pool cimport Worker

cdef enum FindWhich:
    FIND_FIRST
    FIND_LAST
    # From here on nothing more is wanted after any hit.
    FIND_ANY
    # Whether an element is not zero, or is: the hit lies not far before it.
    FIND_NONZERO
    FIND_ZERO

cdef union Word:
    uint32_t narrow
    uint64_t wide
    float single
    double real

# Elements that are zero or not, or equal to a value or not; they lie side by side.
cdef struct Items:
    int slot            # the map's slot
    int size            # how many bytes one has: 1 (a mask), 4 or 8
    bint floats         # of which -0.0 is zero, too
    bint equal          # to a value, which is asked for in the place of what is not zero
    Word value

cdef struct Find:
    Map* map
    Items items         # of masks, or with a value, where the hit has to be exact
    FindWhich which
    int64_t grain
    atomic_i64 hit      # -1: none

cdef struct CountNonzero:
    Map* map
    Items items
    int64_t grain
    int64_t* counts     # one for each block

cdef int find_run(Worker* w, Find* f) noexcept nogil
# Where the first byte that is not 0 stands, or the last one; -1: nowhere.
cdef int64_t true_at(const uint8_t* mask, int64_t n, FindWhich which) noexcept nogil
cdef int count_nonzero_run(Worker* w, CountNonzero* c) noexcept nogil
