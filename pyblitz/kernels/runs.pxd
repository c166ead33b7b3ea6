"""The runs of equal items of a sorted row: where they begin, and what follows from that.

Two passes, as for a selection (filter.pxd), without the mask in between: the runs
that begin in each block of fixed size are counted, then each block is written where the
prefix sums say.  No Python, no NumPy.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.kernels.numbers cimport NumberKind
from pyblitz.runtime.pool cimport Worker

cdef struct Runs:
    NumberKind kind
    const char* items
    intptr_t itemsize
    int64_t n
    int64_t numbers         # items from this one on are NaN or NaT
    bint equal_nan          # whether those are one run; if not, each is a run of its own
    int64_t* before         # [runs_blocks + 1]: how many runs begin before each block
    # What runs_write writes, where it is not NULL.
    char* values            # the first item of each run
    int64_t* starts         # where each run begins
    const int64_t* order    # for the next two: which item of another row each item here was
    int64_t* index          # for each run, which item of that row was its first
    int64_t* inverse        # for each item of that row, the number of its run

cdef int64_t runs_blocks(const Runs* r) noexcept nogil
# Fills before, whose last entry is the number of runs.
cdef int runs_count(Worker* w, Runs* r) noexcept nogil
cdef int runs_write(Worker* w, Runs* r) noexcept nogil
