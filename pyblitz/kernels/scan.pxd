"""Inclusive scans (running results) of one row by an associative binary loop.

The row is cut into blocks of a fixed size.  Whoever takes the next block first
reduces it, publishes that total, and then accumulates the block, while it is in
cache, from the combined totals of all blocks before: each element comes from
memory once (the single pass of Merrill and Garland, "Single-pass parallel prefix
scan with decoupled look-back", 2016).  Totals are combined from left to right,
so the bits depend on the row alone, never on the number of threads.  Who misses a
total that is late, because its thread was preempted, computes it once more.  No
Python, no NumPy.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.kernels.map cimport loop_fn
from pyblitz.runtime.atomic cimport atomic_i64, atomic_u32
from pyblitz.runtime.pool cimport Worker

cdef enum ScanKind:
    SCAN_LOOP       # any loop, any strides
    # Sums or products of contiguous items: of integers by vectors or four at a time, of floats in several
    # chains.
    SCAN_U32        # and signed
    SCAN_U64
    SCAN_F32
    SCAN_F64

cdef struct ScanCell:
    # 32 bytes are enough for any item that has a loop here.
    double total[4]         # the block's own total
    double last[4]          # the total of all blocks up to this one, which is included
    atomic_u32 state        # which of the two others may read
    int64_t pad             # makes the size a multiple of 16 bytes: totals of any type are aligned

cdef struct Scan:
    ScanKind kind
    bint product            # not with SCAN_LOOP: a product, not a sum
    bint exact              # of integers: one thread alone does one pass without totals
    loop_fn loop            # (result before, item, result)
    void* data
    const char* src
    char* dst               # may be src
    # NULL, or a cast from what is in src to items, for a block at a time; it raises no flags.
    loop_fn cast
    intptr_t src_stride
    intptr_t dst_stride
    intptr_t itemsize       # at most 32 bytes
    # The first floating-point errors that any step met, also one that combines totals, as bits.  If
    # not 0, the scan stopped there, and dst holds a part of it.
    atomic_u32 flags
    int64_t n               # the number of items
    # -- the rest is the scan's own
    int64_t block           # how many items a block has
    intptr_t stride         # how many bytes lie between two items that are scanned
    atomic_i64 ticket       # the number of the next block that nobody has taken
    ScanCell* cells         # one for each block

# 0, ENOMEM, or -1 with an exception set.
cdef int scan_run(Worker* w, Scan* s) noexcept nogil
