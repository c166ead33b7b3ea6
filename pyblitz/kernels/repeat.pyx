"""Each item a number of times; see repeat.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from pyblitz.kernels.blocks cimport (
    Pair, Unit, leaf_items, part_at, run_blocks, sum_counts, unit_of)
from pyblitz.runtime.atomic cimport atomic_u32, u32_load_relaxed, u32_store_relaxed


cdef inline void repeat_each(const Unit* src, Unit* dst, int64_t items, int each) noexcept nogil:
    cdef int64_t i
    cdef int k
    for i in range(items):
        for k in range(each):
            dst[each * i + k] = src[i]


cdef int64_t repeat_few(const Unit* src, Unit* dst, int64_t items, int64_t each) noexcept nogil:
    """How many results those are; a few times each."""
    if each == 2:
        repeat_each(src, dst, items, 2)
    elif each == 3:
        repeat_each(src, dst, items, 3)
    elif each == 4:
        repeat_each(src, dst, items, 4)
    else:
        return 0
    return each * items


cdef void repeat_units(const Repeat* r, const Unit* src, Unit* dst, int64_t item, int64_t lo,
                       int64_t hi) noexcept nogil:
    """Results lo .. hi of one row; the first is of `item`."""
    cdef int64_t k, end
    cdef Unit x
    if r.ends == NULL and lo % r.each == 0:
        k = (hi - lo) // r.each
        end = repeat_few(src + item, dst + lo, k, r.each)
        if end > 0:
            lo += end
            item += k
    while lo < hi:
        end = min((item + 1) * r.each if r.ends == NULL else r.ends[item], hi)
        x = src[item]
        if hi - lo >= 4:
            # Few repetitions without a branch: the next items are stored over those
            # that are too many.
            for k in range(4):
                dst[lo + k] = x
            lo += 4
        for k in range(lo, end):
            dst[k] = x
        lo = end
        item += 1


cdef void repeat_bytes(const Repeat* r, const char* src, char* dst, int64_t item, int64_t lo,
                       int64_t hi) noexcept nogil:
    cdef int64_t k, end
    while lo < hi:
        end = min((item + 1) * r.each if r.ends == NULL else r.ends[item], hi)
        for k in range(lo, end):
            memcpy(dst + k * r.itemsize, src + item * r.itemsize, r.itemsize)
        lo = end
        item += 1


cdef int repeat_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Repeat* r = <Repeat*>ctx
    cdef int64_t row = lo // r.total, at = lo % r.total, n, item
    cdef const char* src
    cdef char* dst
    cdef int unit = unit_of(r.itemsize, <intptr_t>r.src | <intptr_t>r.dst)
    while lo < hi:
        n = min(hi - lo, r.total - at)
        item = at // r.each if r.ends == NULL else part_at(r.ends, r.length, at)
        src = r.src + row * r.length * r.itemsize
        dst = r.dst + row * r.total * r.itemsize
        if unit == 8:
            repeat_units(r, <const uint64_t*>src, <uint64_t*>dst, item, at, at + n)
        elif unit == 4:
            repeat_units(r, <const uint32_t*>src, <uint32_t*>dst, item, at, at + n)
        elif unit == 1:
            repeat_units(r, <const uint8_t*>src, <uint8_t*>dst, item, at, at + n)
        elif unit == 2:
            repeat_units(r, <const uint16_t*>src, <uint16_t*>dst, item, at, at + n)
        elif unit == 16:
            repeat_units(r, <const Pair*>src, <Pair*>dst, item, at, at + n)
        else:
            repeat_bytes(r, src, dst, item, at, at + n)
        lo += n
        at = 0
        row += 1
    return 0


cdef int repeat_run(Worker* w, Repeat* r) noexcept nogil:
    return run_blocks(w, repeat_leaf, r, leaf_items(r.itemsize), r.outer * r.total)


cdef struct EndsPass:
    const int64_t* counts   # the input
    int64_t* ends           # the result
    int64_t block           # items of a block
    int64_t* before         # [block + 1]: the sum of a block, then of all before
    int64_t* bits           # [block]: its counts, or-ed
    atomic_u32 changed      # whether another thread has written counts


cdef int ends_sum_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef EndsPass* x = <EndsPass*>ctx
    # Unsigned, as it may wrap.
    cdef uint64_t sum = 0
    cdef int64_t bits = 0, i
    for i in range(lo, hi):
        sum += <uint64_t>x.counts[i]
        bits |= x.counts[i]
    x.before[lo // x.block] = <int64_t>sum
    x.bits[lo // x.block] = bits
    return 0


cdef int ends_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    """Ends that rise from those of the block before it to those of the next, if the counts are
    still good ones of the same sum."""
    cdef EndsPass* x = <EndsPass*>ctx
    cdef int64_t block = lo // x.block, bits = 0, count, i
    cdef uint64_t sum = x.before[block]
    for i in range(lo, hi):
        count = x.counts[i]
        bits |= count
        sum += <uint64_t>count
        x.ends[i] = <int64_t>sum
    if not are_counts(bits) or <int64_t>sum != x.before[block + 1]:
        # relaxed: read after the join
        u32_store_relaxed(&x.changed, 1)
    return 0


cdef inline bint are_counts(int64_t bits) noexcept nogil:
    """Or-ed: none is negative, or so large that a sum wraps."""
    return 0 <= bits < <int64_t>1 << 31


cdef int ends_run(Worker* w, const int64_t* counts, int64_t n, int64_t* ends,
                  int64_t* bits, bint* changed) noexcept nogil:
    cdef EndsPass x
    cdef int64_t b, blocks
    cdef int rc
    x.counts = counts
    x.ends = ends
    x.block = leaf_items(16)
    blocks = (n + x.block - 1) // x.block
    x.before = <int64_t*>calloc(2 * blocks + 1, sizeof(int64_t))
    if x.before == NULL:
        return ENOMEM
    x.bits = x.before + blocks + 1
    u32_store_relaxed(&x.changed, 0)
    bits[0] = 0
    rc = run_blocks(w, ends_sum_leaf, &x, x.block, n)
    for b in range(blocks):
        bits[0] |= x.bits[b]
    if rc == 0 and are_counts(bits[0]):
        sum_counts(x.before, blocks, 1)
        rc = run_blocks(w, ends_leaf, &x, x.block, n)
    changed[0] = u32_load_relaxed(&x.changed) != 0
    free(x.before)
    return rc
