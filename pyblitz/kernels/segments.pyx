"""Segments; see segments.pxd."""
from libc.string cimport memcpy
from pyblitz.kernels.blocks cimport gather_flags, run_blocks
from pyblitz.kernels.map cimport run_fold, run_unary
from pyblitz.runtime.atomic cimport u32_store_relaxed
from pyblitz.runtime.os cimport fe_clear

cdef enum:
    LEAF_ITEMS = 16384
    CAST_ITEMS = 256


cdef void reduce_segment(const Segments* s, int64_t first, int64_t end, char* into) noexcept nogil:
    """The first item, and those from there to the end, if it is not that of an empty one."""
    cdef double some[4 * CAST_ITEMS]
    cdef int64_t lo = first + 1, hi
    if s.cast == NULL:
        memcpy(into, s.src + first * s.stride, s.itemsize)
        if end - first > 1:
            run_fold(s.loop, s.data, into, s.src + (first + 1) * s.stride, s.stride, into, 0, end - first - 1)
        return
    run_unary(s.cast, s.src + first * s.stride, s.stride, into, s.itemsize, 1)
    while lo < end:
        hi = min(lo + CAST_ITEMS, end)
        run_unary(s.cast, s.src + lo * s.stride, s.stride, <char*>some, s.itemsize, hi - lo)
        run_fold(s.loop, s.data, into, <char*>some, s.itemsize, into, 0, hi - lo)
        lo = hi


cdef int64_t segment_from(const Segments* s, int64_t item) noexcept nogil:
    """The first that begins at or after an item."""
    cdef int64_t lo = 0, hi = s.segments, mid
    while lo < hi:
        mid = (lo + hi) >> 1
        if s.starts[mid] < item:
            lo = mid + 1
        else:
            hi = mid
    return lo


cdef int segments_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Segments* s = <Segments*>ctx
    cdef int64_t i = segment_from(s, lo), end
    fe_clear()
    while i < s.segments and s.starts[i] < hi:
        end = s.starts[i + 1] if i + 1 < s.segments else s.n
        reduce_segment(s, s.starts[i], end, s.dst + i * s.dst_stride)
        i += 1
    gather_flags(&s.flags)
    return 0


cdef int segments_run(Worker* w, Segments* s) noexcept nogil:
    u32_store_relaxed(&s.flags, 0)
    return run_blocks(w, segments_leaf, s, LEAF_ITEMS, s.n)
