"""Gathering; see gather.pxd."""
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from pyblitz.kernels.blocks cimport Index, Pair, Unit, leaf_items, run_blocks, unit_of
from pyblitz.kernels.prefetch cimport prefetch_l2
from pyblitz.runtime.atomic cimport u32_store_relaxed

cdef extern from *:
    bint unlikely(bint) noexcept nogil      # Cython's own

cdef enum:
    # Indices made ready at a time, in L1.
    READY = 2048
    # How many items ahead one is asked for.  Measured at random over 80 MB: 32 is a
    # third slower, 64 to 256 are the same.
    AHEAD = 128
    # What is no larger is read as it is: asking for it ahead would take longer.
    CACHED_BYTES = 8388608


cdef bint make_ready(const Index* index, int64_t count, int64_t n, IndexMode mode,
                     int64_t* to) noexcept nogil:
    """Writes indices within n, whatever they were; returns whether all were."""
    cdef int64_t k, i
    cdef bint bad = False, out
    if mode == INDEX_RAISE:
        for k in range(count):
            i = index[k]
            i += n & (i >> 63)
            out = <uint64_t>i >= <uint64_t>n
            bad |= out
            to[k] = 0 if out else i
    elif mode == INDEX_CLIP:
        for k in range(count):
            i = index[k]
            i = i if i > 0 else 0
            to[k] = i if i < n else n - 1
    else:
        for k in range(count):
            i = index[k]
            if <uint64_t>i >= <uint64_t>n:
                i %= n
                i += n & (i >> 63)
            to[k] = i
    return not bad


cdef bint are_within(const Index* index, int64_t count, int64_t n) noexcept nogil:
    """The same without writing them, of INDEX_RAISE."""
    cdef uint64_t sign = 0, length = n, i
    cdef int64_t k
    # Bits of sign instead of comparisons: all vectors have these for 8 bytes.
    for k in range(count):
        i = <uint64_t><int64_t>index[k]
        sign |= (i + length) | (length - 1 - i)
    return sign >> 63 == 0


cdef inline bint ready(const Take* t, int64_t lo, int64_t count, int64_t* to) noexcept nogil:
    if t.index_size == 4:
        return make_ready(<const int32_t*>t.index + lo, count, t.length, t.mode, to)
    return make_ready(<const int64_t*>t.index + lo, count, t.length, t.mode, to)


cdef inline bint all_within(const Take* t, int64_t lo, int64_t count) noexcept nogil:
    if t.index_size == 4:
        return are_within(<const int32_t*>t.index + lo, count, t.length)
    return are_within(<const int64_t*>t.index + lo, count, t.length)


cdef void gather(const Unit* src, const int64_t* index, int64_t count, Unit* dst) noexcept nogil:
    cdef int64_t k, ahead = max(count - AHEAD, <int64_t>0)
    for k in range(ahead):
        prefetch_l2(src + index[k + AHEAD])
        dst[k] = src[index[k]]
    for k in range(ahead, count):
        dst[k] = src[index[k]]


cdef void gather_rows(const Take* t, const Unit* src, Unit* dst, int64_t lo, int64_t hi,
                      int64_t row, int64_t at, const int64_t* index) noexcept nogil:
    """Results lo .. hi, the first of `row`, of index[at]."""
    cdef int64_t n, k
    src += row * t.length
    while lo < hi:
        n = min(hi - lo, t.count - at)
        if n > AHEAD:
            gather(src, index + at, n, dst + lo)
        else:
            for k in range(n):
                dst[lo + k] = src[index[at + k]]
        lo += n
        at = 0
        src += t.length


cdef void gather_bytes(const Take* t, int64_t lo, int64_t hi, int64_t row, int64_t at,
                       const int64_t* index) noexcept nogil:
    """As gather_rows, items of any size."""
    cdef int64_t n, k
    cdef intptr_t size = t.itemsize
    cdef const char* src = t.src + row * t.length * size
    while lo < hi:
        n = min(hi - lo, t.count - at)
        for k in range(n):
            if k + 8 < n:
                prefetch_l2(src + index[at + k + 8] * size)
            memcpy(t.dst + (lo + k) * size, src + index[at + k] * size, size)
        lo += n
        at = 0
        src += t.length * size


cdef void gather_any(const Take* t, int64_t lo, int64_t hi, int64_t row, int64_t at,
                     const int64_t* index) noexcept nogil:
    cdef int unit = unit_of(t.itemsize, <intptr_t>t.src | <intptr_t>t.dst)
    if unit == 8:
        gather_rows(t, <const uint64_t*>t.src, <uint64_t*>t.dst, lo, hi, row, at, index)
    elif unit == 4:
        gather_rows(t, <const uint32_t*>t.src, <uint32_t*>t.dst, lo, hi, row, at, index)
    elif unit == 1:
        gather_rows(t, <const uint8_t*>t.src, <uint8_t*>t.dst, lo, hi, row, at, index)
    elif unit == 2:
        gather_rows(t, <const uint16_t*>t.src, <uint16_t*>t.dst, lo, hi, row, at, index)
    elif unit == 16:
        gather_rows(t, <const Pair*>t.src, <Pair*>t.dst, lo, hi, row, at, index)
    else:
        gather_bytes(t, lo, hi, row, at, index)


cdef bint gather_checked(const Take* t, const Index* index, const Unit* src, Unit* dst,
                         int64_t lo, int64_t hi) noexcept nogil:
    """From a source that a cache holds, each index checked where it is used."""
    cdef uint64_t length = t.length
    cdef int64_t k, i
    for k in range(lo, hi):
        i = index[k]
        # Mostly none counts from the end: one comparison beside each load, so that many are on their way.
        if unlikely(<uint64_t>i >= length):
            i = <int64_t>(<uint64_t>i + length)
            if <uint64_t>i >= length:
                return False
        dst[k] = src[i]
    return True


cdef inline bint gather_words(const Take* t, const Index* index, int unit, int64_t lo, int64_t hi) noexcept nogil:
    if unit == 8:
        return gather_checked(t, index, <const uint64_t*>t.src, <uint64_t*>t.dst, lo, hi)
    if unit == 4:
        return gather_checked(t, index, <const uint32_t*>t.src, <uint32_t*>t.dst, lo, hi)
    if unit == 2:
        return gather_checked(t, index, <const uint16_t*>t.src, <uint16_t*>t.dst, lo, hi)
    return gather_checked(t, index, <const uint8_t*>t.src, <uint8_t*>t.dst, lo, hi)


cdef bint take_checked(const Take* t, int64_t lo, int64_t hi, bint* good) noexcept nogil:
    """False: it is not for such items."""
    cdef int unit = unit_of(t.itemsize, <intptr_t>t.src | <intptr_t>t.dst)
    if t.mode != INDEX_RAISE or t.length * t.itemsize > CACHED_BYTES or unit not in (1, 2, 4, 8):
        return False
    if t.index_size == 8:
        good[0] = gather_words(t, <const int64_t*>t.index, unit, lo, hi)
    else:
        good[0] = gather_words(t, <const int32_t*>t.index, unit, lo, hi)
    return True


cdef int take_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Take* t = <Take*>ctx
    cdef int64_t buffer[READY]
    cdef int64_t n
    cdef bint good = True
    if t.mode == INDEX_READY:
        gather_any(t, lo, hi, lo // t.count, lo % t.count, <const int64_t*>t.index)
        return 0
    # There is one row.
    if take_checked(t, lo, hi, &good):
        if not good:
            u32_store_relaxed(&t.bad, 1)
        return 0
    while lo < hi:
        n = min(hi - lo, <int64_t>READY)
        if not ready(t, lo, n, buffer):
            # relaxed: read after the join
            u32_store_relaxed(&t.bad, 1)
        gather_any(t, lo, lo + n, 0, 0, buffer)
        lo += n
    return 0


cdef int take_run(Worker* w, Take* t) noexcept nogil:
    u32_store_relaxed(&t.bad, 0)
    return run_blocks(w, take_leaf, t, leaf_items(t.itemsize + 8), t.outer * t.count)


cdef bint index_is_ready(Take* t) noexcept nogil:
    cdef int64_t buffer[READY]
    cdef int64_t lo = 0, n
    if t.mode == INDEX_RAISE:
        return all_within(t, 0, t.count)
    while lo < t.count:
        n = min(t.count - lo, <int64_t>READY)
        if not ready(t, lo, n, buffer):
            return False
        lo += n
    return True


cdef struct Indices:
    Take* take
    int64_t* to


cdef int index_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Indices* x = <Indices*>ctx
    cdef int64_t buffer[READY]
    cdef int64_t* to = buffer
    cdef int64_t n
    if x.to == NULL and x.take.mode == INDEX_RAISE:
        if not all_within(x.take, lo, hi - lo):
            u32_store_relaxed(&x.take.bad, 1)
        return 0
    while lo < hi:
        n = min(hi - lo, <int64_t>READY)
        if x.to != NULL:
            to = x.to + lo
        if not ready(x.take, lo, n, to):
            u32_store_relaxed(&x.take.bad, 1)
        lo += n
    return 0


cdef int index_run(Worker* w, Take* t, int64_t* to) noexcept nogil:
    cdef Indices x
    x.take = t
    x.to = to
    u32_store_relaxed(&t.bad, 0)
    return run_blocks(w, index_leaf, &x, leaf_items(8), t.count)
