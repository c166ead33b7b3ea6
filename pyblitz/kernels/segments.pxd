"""Reductions of segments of one row by a binary loop.  No Python, no NumPy.

A segment is one thread's, and is reduced as NumPy does it: its first item is copied, and one
call of the loop adds the others.  So it has NumPy's bits.  Whoever has a range of items does the
segments that begin in it.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.kernels.map cimport loop_fn
from pyblitz.runtime.atomic cimport atomic_u32
from pyblitz.runtime.pool cimport Worker

cdef struct Segments:
    loop_fn loop            # (result before, item, result)
    void* data
    # NULL, or makes items of integers of what is in src, some at a time; it raises no flags.
    loop_fn cast
    const char* src
    intptr_t stride
    int64_t n               # items
    const intptr_t* starts  # [segments]: none falls, or is below 0 or at n or above
    int64_t segments
    char* dst               # [segments]
    intptr_t dst_stride
    intptr_t itemsize       # at most 32 bytes
    atomic_u32 flags        # the floating-point flags that were raised

# 0, or -1 with an exception set.
cdef int segments_run(Worker* w, Segments* s) noexcept nogil
