"""Scattering by indices; see put.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from pyblitz.kernels.blocks cimport Index, Pair, Unit, leaf_items, run_blocks, sum_counts, unit_of
from pyblitz.kernels.prefetch cimport prefetch_write
from pyblitz.runtime.atomic cimport atomic_u32, u32_load_relaxed, u32_store_relaxed, unlikely
from pyblitz.runtime.pool cimport must_stop

# One pass of radix sort by destination (see radix.pyx) keeps the order of equal
# indices, and makes the writes to each bucket's range local.

cdef enum:
    PUT_BUCKETS = 256
    PUT_BLOCKS = 64
    PUT_BLOCK_ITEMS = 16384
    # How many items ahead the place of one is asked for.
    AHEAD = 16


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
    const Put* put
    atomic_u32 broken


cdef bint is_broken(const Index* index, int64_t lo, int64_t hi) noexcept nogil:
    cdef int64_t i
    cdef bint broken = False
    for i in range(lo, hi):
        broken |= index[i - 1] >= index[i]
    return broken


cdef inline bint some_broken(const Put* p, int64_t lo, int64_t hi) noexcept nogil:
    if p.index_size == 4:
        return is_broken(<const int32_t*>p.raw, lo, hi)
    return is_broken(<const int64_t*>p.raw, lo, hi)


cdef inline int64_t first_index(const Put* p) noexcept nogil:
    if p.index_size == 4:
        return (<const int32_t*>p.raw)[0]
    return (<const int64_t*>p.raw)[0]


cdef int ascending_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef PutOrder* x = <PutOrder*>ctx
    if some_broken(x.put, lo if lo > 0 else 1, hi):
        u32_store_relaxed(&x.broken, 1)
    return 0


cdef int indices_ascend(Worker* w, const Put* p, bint* answer) noexcept nogil:
    """Whether they rise from 0 or more, each above the last: none occurs twice."""
    cdef PutOrder x
    cdef int64_t step = p.count // 64 + 1, i = step
    cdef int rc
    answer[0] = False
    if first_index(p) < 0:
        return 0
    # Most that do not are found out here.
    while i < p.count:
        if some_broken(p, i, i + 1):
            return 0
        i += step
    x.put = p
    u32_store_relaxed(&x.broken, 0)
    rc = run_blocks(w, ascending_leaf, &x, leaf_items(8), p.count)
    answer[0] = u32_load_relaxed(&x.broken) == 0
    return rc


cdef bint put_straight(const Put* p, const Index* index, int64_t lo, int64_t hi, Unit* dst,
                       const Unit* values) noexcept nogil:
    """Items lo .. hi.  Another thread may write to the indices: False, if one is bad now."""
    cdef uint64_t length = p.length
    cdef int64_t i, to, at = lo % p.period
    for i in range(lo, hi):
        to = index[min(i + AHEAD, hi - 1)]
        prefetch_write(<char*>dst + (to + (<int64_t>length & (to >> 63))) * p.itemsize)
        to = index[i]
        to += <int64_t>length & (to >> 63)
        if unlikely(<uint64_t>to >= length):
            return False
        if Unit is Pair:
            memcpy(<char*>dst + to * p.itemsize, <const char*>values + at * p.itemsize, p.itemsize)
        else:
            dst[to] = values[at]
        at += 1
        if at == p.period:
            at = 0
    return True


cdef bint put_some(const Put* p, const Index* index, int64_t lo, int64_t hi) noexcept nogil:
    cdef int unit = put_unit(p)
    if unit == 8:
        return put_straight(p, index, lo, hi, <uint64_t*>p.dst, <const uint64_t*>p.values)
    if unit == 4:
        return put_straight(p, index, lo, hi, <uint32_t*>p.dst, <const uint32_t*>p.values)
    if unit == 2:
        return put_straight(p, index, lo, hi, <uint16_t*>p.dst, <const uint16_t*>p.values)
    if unit == 1:
        return put_straight(p, index, lo, hi, <uint8_t*>p.dst, <const uint8_t*>p.values)
    return put_straight(p, index, lo, hi, <Pair*>p.dst, <const Pair*>p.values)


cdef int put_straight_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Put* p = <Put*>ctx
    cdef bint good
    if p.index_size == 4:
        good = put_some(p, <const int32_t*>p.raw, lo, hi)
    else:
        good = put_some(p, <const int64_t*>p.raw, lo, hi)
    if not good:
        # relaxed: read after the join
        u32_store_relaxed(&p.bad, 1)
    return 0


cdef int put_ascending(Worker* w, Put* p, bint* done) noexcept nogil:
    cdef int rc = indices_ascend(w, p, done)
    if rc == 0 and done[0]:
        rc = run_blocks(w, put_straight_leaf, p, leaf_items(p.itemsize + 16), p.count)
    return rc


cdef void put_few(Put* p) noexcept nogil:
    put_straight_leaf(NULL, p, 0, p.count)


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
