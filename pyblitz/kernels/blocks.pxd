"""What kernels have in common: blocks that workers share, where each of them writes, and the words
that items are moved as.  No Python, no NumPy.
"""
from libc.stdint cimport int64_t, intptr_t, uint8_t, uint16_t, uint32_t, uint64_t
from pyblitz.runtime.bridge cimport combine_fn, leaf_fn
from pyblitz.runtime.pool cimport Worker

cdef enum:
    # What the operands of one leaf take together: fits into L2 beside others,
    # and is some thousand times what a leaf costs around it.
    LEAF_BYTES = 131072

# leaf(w, ctx, lo, hi) for parts of [0, n) of at most `grain` items, one after the other where
# there is no worker.  The first result that is not 0.
cdef int run_blocks(Worker* w, leaf_fn leaf, void* ctx, int64_t grain, int64_t n) noexcept nogil
# The same, and combine(w, ctx, lo, mid, hi) of neighbours that are done; there is a worker.
cdef int combine_blocks(Worker* w, leaf_fn leaf, combine_fn combine, void* ctx, int64_t grain,
                        int64_t n) noexcept nogil

# How many items each block writes becomes where it writes them: counts[b] what is before block b,
# counts[blocks] the sum, which is returned.
cdef int64_t sum_counts(int64_t* counts, int64_t blocks) noexcept nogil

# Items of a leaf that reads or writes so many bytes for each; one, if they are large.
cdef int64_t leaf_items(int64_t bytes_per_item) noexcept nogil
# Bytes of a leaf that is one memcpy, which is faster on long runs.
cdef int64_t run_bytes(int64_t bytes) noexcept nogil

# Where parts lie one after the other: the first that ends past `at`.
cdef int64_t part_at(const int64_t* ends, int64_t parts, int64_t at) noexcept nogil

ctypedef struct Pair:
    uint64_t a
    uint64_t b

# What an item is moved as.
ctypedef fused Unit:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    Pair

cdef inline int unit_of(intptr_t itemsize, intptr_t bits) noexcept nogil:
    """The size of the Unit that an item is; 0: it is none, or not aligned as one.
    bits: addresses and strides, or-ed."""
    if itemsize == 1:
        return 1
    if itemsize == 2 or itemsize == 4 or itemsize == 8:
        return 0 if bits & (itemsize - 1) else itemsize
    if itemsize == 16:
        return 0 if bits & 7 else 16
    return 0
