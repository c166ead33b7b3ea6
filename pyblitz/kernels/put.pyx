"""Scattering by indices; see put.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from pyblitz.kernels.blocks cimport Pair, Unit, leaf_items, run_blocks, sum_counts, unit_of
from pyblitz.runtime.atomic cimport atomic_u32, u32_load_relaxed, u32_store_relaxed
from pyblitz.runtime.pool cimport must_stop

# One pass of radix sort by destination (see radix.pyx) keeps the order of equal
# indices, and makes the writes to each bucket's range local.

cdef enum:
    PUT_BUCKETS = 256
    PUT_BLOCKS = 64
    PUT_BLOCK_ITEMS = 16384


cdef int put_count_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Put* p = <Put*>ctx
    cdef int64_t* counts = p.offsets + (lo // p.block) * p.buckets
    cdef int64_t i
    for i in range(lo, hi):
        counts[p.index[i] >> p.shift] += 1
    return 0


cdef void put_records(Put* p, int64_t lo, int64_t hi, const Unit* values, int64_t* to) noexcept nogil:
    cdef int64_t i, k, at = lo % p.period, b
    for i in range(lo, hi):
        b = p.index[i] >> p.shift
        k = to[b]
        to[b] = k + 1
        p.records[k].index = p.index[i]
        if Unit is Pair:
            p.records[k].value = at
        else:
            p.records[k].value = values[at]
        at += 1
        if at == p.period:
            at = 0


cdef int put_scatter_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Put* p = <Put*>ctx
    cdef int64_t* to = p.offsets + (lo // p.block) * p.buckets
    cdef int unit = put_unit(p)
    if unit == 8:
        put_records(p, lo, hi, <const uint64_t*>p.values, to)
    elif unit == 4:
        put_records(p, lo, hi, <const uint32_t*>p.values, to)
    elif unit == 2:
        put_records(p, lo, hi, <const uint16_t*>p.values, to)
    elif unit == 1:
        put_records(p, lo, hi, <const uint8_t*>p.values, to)
    else:
        put_records(p, lo, hi, <const Pair*>p.values, to)
    return 0


cdef inline int put_unit(const Put* p) noexcept nogil:
    return unit_of(p.itemsize, <intptr_t>p.dst | <intptr_t>p.values)


cdef void put_units(const Put* p, int64_t lo, int64_t hi, Unit* dst) noexcept nogil:
    cdef int64_t i
    for i in range(lo, hi):
        if Unit is Pair:
            memcpy(<char*>dst + p.records[i].index * p.itemsize,
                   p.values + <int64_t>p.records[i].value * p.itemsize, p.itemsize)
        else:
            dst[p.records[i].index] = <Unit>p.records[i].value


cdef int put_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    """Buckets lo .. hi, each in the order of the indices."""
    cdef Put* p = <Put*>ctx
    cdef int unit = put_unit(p)
    lo = p.ends[lo - 1] if lo > 0 else 0
    hi = p.ends[hi - 1]
    if unit == 8:
        put_units(p, lo, hi, <uint64_t*>p.dst)
    elif unit == 4:
        put_units(p, lo, hi, <uint32_t*>p.dst)
    elif unit == 2:
        put_units(p, lo, hi, <uint16_t*>p.dst)
    elif unit == 1:
        put_units(p, lo, hi, <uint8_t*>p.dst)
    else:
        put_units(p, lo, hi, <Pair*>p.dst)
    return 0


cdef struct PutOrder:
    const int64_t* index
    atomic_u32 broken


cdef int ascending_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef PutOrder* x = <PutOrder*>ctx
    cdef int64_t i
    cdef bint broken = False
    for i in range(lo if lo > 0 else 1, hi):
        broken |= x.index[i - 1] >= x.index[i]
    if broken:
        u32_store_relaxed(&x.broken, 1)
    return 0


cdef int indices_ascend(Worker* w, const int64_t* index, int64_t n, bint* answer) noexcept nogil:
    """Whether they rise, each above the last: none occurs twice."""
    cdef PutOrder x
    cdef int64_t i, step = n // 64 + 1
    cdef int rc
    answer[0] = False
    # Most that do not are found out here.
    i = step
    while i < n:
        if index[i - 1] >= index[i]:
            return 0
        i += step
    x.index = index
    u32_store_relaxed(&x.broken, 0)
    rc = run_blocks(w, ascending_leaf, &x, leaf_items(8), n)
    answer[0] = u32_load_relaxed(&x.broken) == 0
    return rc


cdef void put_straight(const Put* p, int64_t lo, int64_t hi, Unit* dst, const Unit* values) noexcept nogil:
    cdef int64_t i, at = lo % p.period
    for i in range(lo, hi):
        if Unit is Pair:
            memcpy(<char*>dst + p.index[i] * p.itemsize, <const char*>values + at * p.itemsize,
                   p.itemsize)
        else:
            dst[p.index[i]] = values[at]
        at += 1
        if at == p.period:
            at = 0


cdef int put_straight_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Put* p = <Put*>ctx
    cdef int unit = put_unit(p)
    if unit == 8:
        put_straight(p, lo, hi, <uint64_t*>p.dst, <const uint64_t*>p.values)
    elif unit == 4:
        put_straight(p, lo, hi, <uint32_t*>p.dst, <const uint32_t*>p.values)
    elif unit == 2:
        put_straight(p, lo, hi, <uint16_t*>p.dst, <const uint16_t*>p.values)
    elif unit == 1:
        put_straight(p, lo, hi, <uint8_t*>p.dst, <const uint8_t*>p.values)
    else:
        put_straight(p, lo, hi, <Pair*>p.dst, <const Pair*>p.values)
    return 0


cdef int put_ascending(Worker* w, Put* p, bint* done) noexcept nogil:
    cdef int rc = indices_ascend(w, p.index, p.count, done)
    if rc == 0 and done[0]:
        rc = run_blocks(w, put_straight_leaf, p, leaf_items(p.itemsize + 16), p.count)
    return rc


cdef int put_serially(Worker* w, Put* p) noexcept nogil:
    cdef int64_t lo = 0, until
    while lo < p.count:
        if must_stop(w, 0):
            return -1
        until = min(p.count, lo + 64 * PUT_BLOCK_ITEMS)
        put_straight_leaf(w, p, lo, until)
        lo = until
    return 0


cdef int put_run(Worker* w, Put* p) noexcept nogil:
    cdef int64_t blocks
    cdef int rc
    if p.length * p.itemsize <= PUT_CACHED_BYTES:
        return put_serially(w, p)
    p.shift = 0
    while (p.length - 1) >> p.shift >= PUT_BUCKETS:
        p.shift += 1
    p.buckets = ((p.length - 1) >> p.shift) + 1
    p.block = max((p.count + PUT_BLOCKS - 1) // PUT_BLOCKS, <int64_t>PUT_BLOCK_ITEMS)
    blocks = (p.count + p.block - 1) // p.block
    p.offsets = <int64_t*>calloc((blocks + 1) * p.buckets, sizeof(int64_t))
    if p.offsets == NULL:
        return ENOMEM
    p.ends = p.offsets + blocks * p.buckets
    rc = run_blocks(w, put_count_leaf, p, p.block, p.count)
    if rc == 0:
        sum_counts(p.offsets, blocks, p.buckets)
        rc = run_blocks(w, put_scatter_leaf, p, p.block, p.count)
    if rc == 0:
        rc = run_blocks(w, put_leaf, p, 1, p.buckets)
    free(p.offsets)
    return rc
