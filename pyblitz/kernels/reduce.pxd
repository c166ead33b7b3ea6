"""Reduction of a strided row of items by a binary loop, in fixed blocks.

The blocks and the tree that joins their results depend on the length alone, so
the bits of a floating-point sum do not depend on the number of threads.  Inside
a block it is NumPy's own loop (pairwise for sums), and the tree above is
pairwise too, so the error bound is that of one pairwise sum.  No Python, no
NumPy.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.kernels.map cimport loop_fn
from pyblitz.runtime.atomic cimport atomic_u32
from pyblitz.runtime.pool cimport Worker

cdef struct Reduce:
    loop_fn loop            # (accumulator, items, accumulator)
    void* data
    char* items
    intptr_t stride
    intptr_t itemsize       # of the items and of the accumulator
    int64_t grain           # items of a block
    char* partials          # one accumulator for each block; the result is the first
    atomic_u32 flags

cdef int64_t reduce_blocks(int64_t n, intptr_t itemsize, int64_t* grain) noexcept nogil
cdef int reduce_run(Worker* w, Reduce* r, int64_t n) noexcept nogil
