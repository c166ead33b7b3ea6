"""Counting items, or summing their weights, in bins.

The items are cut into blocks, each with tables of its own, which are added up
from left to right.  How many blocks there are follows from the number of items
and of bins alone, so sums of weights have the same bits for any number of
threads.  No Python, no NumPy.
"""
from libc.stdint cimport int64_t, uint64_t
from pyblitz.kernels.numbers cimport NumberKind
from pyblitz.kernels.search cimport SortedSearch
from pyblitz.runtime.atomic cimport atomic_u32
from pyblitz.runtime.pool cimport Worker

cdef enum Binning:
    # The item is its bin.
    BIN_ITEM
    # Bins of one width, with edges of this type: the bin is computed and, where that may be
    # wrong by one, held against the edges.
    BIN_WIDTH_F32
    BIN_WIDTH_F64
    # Any edges: a search for the item as a double; NaNs come last.
    BIN_SEARCH

cdef struct Count:
    Binning binning
    NumberKind kind
    const char* items
    const double* weights   # NULL: counts
    int64_t n
    # BIN_ITEM: a power of two.
    int64_t bins
    # BIN_WIDTH_*: minus infinity, bins + 1 of them, NaN.  Here as in the
    # search, the last one belongs to what comes after.
    const char* edges
    double scale            # BIN_WIDTH_*: bins for each unit
    SortedSearch search     # BIN_SEARCH: its row is the bins + 1 edges; keys go behind equal edges
    int64_t* counts         # the result: [bins]; zeros before, if `direct`
    double* sums            # the same, of weights
    # BIN_ITEM: an item is negative or too great.  The result is then not to be used.
    atomic_u32 outside
    int64_t top             # BIN_ITEM: the greatest item
    # Few items for each bin: they are counted where the result is, in one block.
    bint direct
    # -- the rest is its own
    double apart            # BIN_WIDTH_*: see apart_of
    int64_t before          # entries of a table before those of the bins
    int64_t blocks
    int64_t block           # items
    int64_t lanes           # tables of a block
    int64_t stride          # entries from table to table
    void* tables
    int64_t* tops

# The bits of each step-th item, or-ed: at least those of the greatest one, and the sign's if one is negative.
cdef uint64_t count_bits(const Count* c, int64_t step) noexcept nogil
# How many blocks it takes; none: the bins are too many to be worth it.
cdef int64_t count_blocks(Count* c) noexcept nogil
# 0, ENOMEM, or -1 with an exception set.
cdef int count_run(Worker* w, Count* c) noexcept nogil
