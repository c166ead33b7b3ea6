"""Block reduction; see reduce.pxd."""
from libc.string cimport memcpy
from pyblitz.runtime.atomic cimport u32_fetch_or_relaxed, u32_store_relaxed
from pyblitz.runtime.bridge cimport Bridge, bridge_init, bridge_run
from pyblitz.runtime.os cimport fe_clear, fe_test

cdef enum:
    BLOCK_BYTES = 131072


cdef int64_t reduce_blocks(int64_t n, intptr_t itemsize, int64_t* grain) noexcept nogil:
    """The number of blocks, and how many items each has."""
    grain[0] = BLOCK_BYTES // itemsize
    return (n + grain[0] - 1) // grain[0]


cdef inline void fold(Reduce* r, char* into, char* items, intptr_t n, intptr_t stride) noexcept nogil:
    """into = into op items[0] op items[1] ..."""
    cdef char* args[3]
    cdef intptr_t steps[3]
    args[0] = into
    args[1] = items
    args[2] = into
    steps[0] = 0
    steps[1] = stride
    steps[2] = 0
    r.loop(args, &n, steps, r.data)


cdef inline void note_flags(Reduce* r) noexcept nogil:
    cdef int flags = fe_test()
    if flags:
        # relaxed: read after the join
        u32_fetch_or_relaxed(&r.flags, flags)


cdef int reduce_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Reduce* r = <Reduce*>ctx
    # 32 bytes are enough for any item that has a loop here, and the block's
    # accumulator then stays off the line that its neighbours write.
    cdef double acc[4]
    cdef char* items = r.items + lo * r.stride
    cdef int64_t head
    fe_clear()
    memcpy(acc, items, r.itemsize)
    # Up to item 8 first: NumPy's pairwise sum is a fifth slower on memory when
    # its row does not begin at a multiple of eight and end at one.
    head = min(<int64_t>8, hi - lo)
    if head > 1:
        fold(r, <char*>acc, items + r.stride, head - 1, r.stride)
    if hi - lo > head:
        fold(r, <char*>acc, items + head * r.stride, hi - lo - head, r.stride)
    memcpy(r.partials + (lo // r.grain) * r.itemsize, acc, r.itemsize)
    note_flags(r)
    return 0


cdef int reduce_combine(Worker* w, void* ctx, int64_t lo, int64_t mid, int64_t hi) noexcept nogil:
    cdef Reduce* r = <Reduce*>ctx
    fe_clear()
    fold(r, r.partials + (lo // r.grain) * r.itemsize,
         r.partials + (mid // r.grain) * r.itemsize, 1, r.itemsize)
    note_flags(r)
    return 0


cdef int reduce_run(Worker* w, Reduce* r, int64_t n) noexcept nogil:
    cdef Bridge b
    u32_store_relaxed(&r.flags, 0)
    bridge_init(&b, reduce_leaf, reduce_combine, r, r.grain)
    return bridge_run(w, &b, n)
