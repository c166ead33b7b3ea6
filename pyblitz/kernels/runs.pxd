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
    # Items from here on are NaNs or NaTs: one run, or each one its own.
    int64_t numbers
    bint equal_nan
    int64_t* before         # [runs_blocks + 1]: runs that begin before each block
    # What runs_write writes; NULL: not.
    char* values            # the first item of each
    int64_t* starts         # where it begins
    const int64_t* order    # for the two below: which item of another row this one was
    int64_t* index          # that of the first item of each
    int64_t* inverse        # for each item of that other row, its run here

cdef int64_t runs_blocks(const Runs* r) noexcept nogil
# Fills before; its last one is how many runs there are.
cdef int runs_count(Worker* w, Runs* r) noexcept nogil
cdef int runs_write(Worker* w, Runs* r) noexcept nogil
