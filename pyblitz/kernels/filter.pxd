"""Filters: the items where a mask is true, or their indices; and the items where it is false.

Two passes: count the mask by blocks, then write each block where the prefix sums
say.  The second is Blelloch's pack ("Prefix sums and their applications", 1990)
without the flags' array of offsets, which would cost more than the items.
"""
from libc.stdint cimport int64_t, intptr_t, uint8_t
from pyblitz.runtime.atomic cimport atomic_u32
from pyblitz.runtime.pool cimport Worker

cdef struct Filter:
    const char* src         # items; NULL: their indices (int64) are selected
    const uint8_t* mask     # a byte for each; any but 0 selects
    char* yes               # where the selected go
    char* no                # where the others go; NULL: nowhere
    int64_t n
    intptr_t itemsize       # 8 for indices
    int64_t block           # how many items a block has
    int64_t* before         # how many are selected before each block; the last entry: of all
    # The result of filter_write: whether another thread has changed the mask since it was counted.
    # Then nothing was written out of bounds, but not everything was written.
    atomic_u32 changed

cdef int64_t filter_block(int64_t n, intptr_t itemsize) noexcept nogil
cdef int64_t filter_blocks(const Filter* f) noexcept nogil
# Fills `before`, which has one entry more than there are blocks.
cdef int filter_count(Worker* w, Filter* f) noexcept nogil
cdef int filter_write(Worker* w, Filter* f) noexcept nogil
# One block, in the bounds that its count set.  False: its mask is another now.
cdef bint filter_items(const Filter* f, int64_t lo, int64_t hi) noexcept nogil

# Copies the items, `step` bytes from each other, whose mask is true, to where there is room for one more
# than n; their number.
cdef int64_t compress(char* to, const char* items, intptr_t step, intptr_t itemsize, const uint8_t* mask,
                      int64_t n) noexcept nogil

# The coordinates of sorted flat indices, one column for each axis.
cdef struct Unravel:
    const int64_t* flat
    int64_t* columns        # those of the first axis first
    int64_t n
    int dims
    const int64_t* shape

cdef int unravel_run(Worker* w, Unravel* u) noexcept nogil
