"""Items where a mask is true; see filter.pxd."""
from libc.stdint cimport intptr_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from pyblitz.kernels.blocks cimport Pair, Unit, copy_bytes, leaf_items, run_blocks, sum_counts, unit_of
from pyblitz.kernels.simd.levels cimport simd
from pyblitz.runtime.atomic cimport u32_store_relaxed

cdef enum:
    MOST_ITEMS = 32768      # of a block
    COUNT_BYTES = 131072

# What is kept of an item: its bits, or as int64_t its index.
ctypedef fused Kept:
    Unit
    int64_t


cdef int64_t filter_block(int64_t n, intptr_t itemsize) noexcept nogil:
    return min(leaf_items(itemsize + 1), <int64_t>MOST_ITEMS)


cdef int64_t filter_blocks(const Filter* f) noexcept nogil:
    return (f.n + f.block - 1) // f.block


cdef int filter_count_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Filter* f = <Filter*>ctx
    cdef int64_t b
    for b in range(lo, hi):
        f.before[b] = simd.nonzero_bytes(f.mask + b * f.block, min(f.block, f.n - b * f.block))
    return 0


cdef int filter_count(Worker* w, Filter* f) noexcept nogil:
    cdef int64_t blocks = filter_blocks(f)
    cdef int rc = run_blocks(w, filter_count_leaf, f, 1 + COUNT_BYTES // f.block, blocks)
    sum_counts(f.before, blocks, 1)
    return rc


cdef inline Kept item_at(const Kept* src, int64_t first, int64_t i) noexcept nogil:
    if Kept is int64_t:
        return first + i
    else:
        return src[i]


cdef inline intptr_t kept_by_vectors(const Kept* src, int64_t first, const uint8_t* mask, int64_t n, Kept* to,
                                     Kept* end, intptr_t* kept) noexcept nogil:
    """How many items they looked at."""
    kept[0] = 0
    if Kept is uint32_t:
        if simd.keep_narrow != NULL:
            return simd.keep_narrow(src, mask, n, to, end - to, kept)
    elif Kept is uint64_t:
        if simd.keep_wide != NULL:
            return simd.keep_wide(src, mask, n, to, end - to, kept)
    elif Kept is int64_t:
        if simd.keep_indices != NULL:
            return simd.keep_indices(mask, n, first, to, end - to, kept)
    return 0


cdef bint keep_items(const Kept* src, int64_t first, const uint8_t* mask, int64_t n, Kept* to,
                     Kept* end) noexcept nogil:
    """first: the index of the first item.  Every item is stored, and the next one over it if it was
    not selected.  So eight are taken at once only while there is room for eight: past `end` is what
    another worker writes.  False: those selected do not end there."""
    cdef uint64_t word
    cdef intptr_t kept
    cdef int64_t i = kept_by_vectors(src, first, mask, n, to, end, &kept)
    cdef int k
    to += kept
    while n - i >= 8:
        memcpy(&word, mask + i, 8)
        if word == 0:
            i += 8
            continue
        if end - to < 8:
            for k in range(8):
                if mask[i + k]:
                    if to == end:
                        return False
                    to[0] = item_at(src, first, i + k)
                    to += 1
        elif Kept is not int64_t and word == 0x0101010101010101u:
            memcpy(to, src + i, 8 * sizeof(Kept))
            to += 8
        else:
            for k in range(8):
                to[0] = item_at(src, first, i + k)
                to += mask[i + k] != 0
        i += 8
    while i < n:
        if mask[i]:
            if to == end:
                return False
            to[0] = item_at(src, first, i)
            to += 1
        i += 1
    return to == end


cdef inline int64_t compress_units(Unit* to, const char* items, intptr_t step, const uint8_t* mask,
                                   int64_t n) noexcept nogil:
    cdef intptr_t kept = 0
    cdef int64_t i = 0
    if step == sizeof(Unit):
        i = kept_by_vectors(<const Unit*>items, 0, mask, n, to, to + n + 1, &kept)
    while i < n:
        to[kept] = (<const Unit*>(items + i * step))[0]
        kept += mask[i] != 0
        i += 1
    return kept


cdef int64_t compress(char* to, const char* items, intptr_t step, intptr_t itemsize, const uint8_t* mask,
                      int64_t n) noexcept nogil:
    cdef int unit = unit_of(itemsize, <intptr_t>to | <intptr_t>items | step)
    cdef int64_t i, kept = 0
    if unit == 8:
        return compress_units(<uint64_t*>to, items, step, mask, n)
    if unit == 4:
        return compress_units(<uint32_t*>to, items, step, mask, n)
    if unit == 1:
        return compress_units(<uint8_t*>to, items, step, mask, n)
    if unit == 2:
        return compress_units(<uint16_t*>to, items, step, mask, n)
    if unit == 16:
        return compress_units(<Pair*>to, items, step, mask, n)
    for i in range(n):
        if mask[i]:
            memcpy(to + kept * itemsize, items + i * step, itemsize)
            kept += 1
    return kept


cdef bint split_units(const Unit* src, const uint8_t* mask, int64_t n, Unit* yes, Unit* yes_end,
                      Unit* no, Unit* no_end) noexcept nogil:
    """Every item is stored to both, and the next one over it where it was not
    wanted: see keep_items."""
    cdef intptr_t t = 0
    cdef int64_t i = 0, yeses = yes_end - yes, noes = no_end - no
    cdef int k
    if Unit is uint32_t:
        if simd.keep_both_narrow != NULL:
            i = simd.keep_both_narrow(src, mask, n, yes, yeses, no, noes, &t)
    elif Unit is uint64_t:
        if simd.keep_both_wide != NULL:
            i = simd.keep_both_wide(src, mask, n, yes, yeses, no, noes, &t)
    # t of the first i are selected.
    while n - i >= 8 and yeses - t >= 8 and noes - (i - t) >= 8:
        for k in range(8):
            yes[t] = src[i]
            no[i - t] = src[i]
            t += mask[i] != 0
            i += 1
    yes += t
    no += i - t
    while i < n:
        if mask[i]:
            if yes == yes_end:
                return False
            yes[0] = src[i]
            yes += 1
        else:
            if no == no_end:
                return False
            no[0] = src[i]
            no += 1
        i += 1
    return True         # there is room for as many as there are


cdef bint split_bytes(const Filter* f, int64_t lo, int64_t hi, char* yes, char* yes_end,
                      char* no, char* no_end) noexcept nogil:
    """Items of any size."""
    cdef int64_t i
    for i in range(lo, hi):
        if f.mask[i]:
            if yes == yes_end:
                return False
            memcpy(yes, f.src + i * f.itemsize, f.itemsize)
            yes += f.itemsize
        elif f.no != NULL:
            if no == no_end:
                return False
            memcpy(no, f.src + i * f.itemsize, f.itemsize)
            no += f.itemsize
    return yes == yes_end


cdef bint filter_units(const Filter* f, int64_t lo, int64_t hi, Unit* yes, Unit* yes_end,
                       Unit* no, Unit* no_end) noexcept nogil:
    cdef const Unit* src = <const Unit*>f.src + lo
    if f.no == NULL:
        return keep_items(src, lo, f.mask + lo, hi - lo, yes, yes_end)
    return split_units(src, f.mask + lo, hi - lo, yes, yes_end, no, no_end)


cdef bint filter_items(const Filter* f, int64_t lo, int64_t hi) noexcept nogil:
    cdef int64_t b = lo // f.block
    cdef int64_t first = f.before[b], last = f.before[b + 1]
    cdef intptr_t size = f.itemsize
    cdef char* yes = f.yes + first * size
    cdef char* yes_end = f.yes + last * size
    cdef char* no = NULL
    cdef char* no_end = NULL
    cdef int unit
    if f.src == NULL:
        return keep_items(<const int64_t*>NULL, lo, f.mask + lo, hi - lo, <int64_t*>yes, <int64_t*>yes_end)
    if f.no != NULL:
        no = f.no + (lo - first) * size
        no_end = f.no + (hi - last) * size
    if last - first == hi - lo:
        copy_bytes(yes, f.src + lo * size, (hi - lo) * size)
        return True
    if last == first:
        if f.no != NULL:
            copy_bytes(no, f.src + lo * size, (hi - lo) * size)
        return True
    unit = unit_of(size, <intptr_t>f.src | <intptr_t>f.yes | <intptr_t>f.no)
    if unit == 8:
        return filter_units[uint64_t](f, lo, hi, <uint64_t*>yes, <uint64_t*>yes_end,
                                      <uint64_t*>no, <uint64_t*>no_end)
    if unit == 4:
        return filter_units[uint32_t](f, lo, hi, <uint32_t*>yes, <uint32_t*>yes_end,
                                      <uint32_t*>no, <uint32_t*>no_end)
    if unit == 1:
        return filter_units[uint8_t](f, lo, hi, <uint8_t*>yes, <uint8_t*>yes_end,
                                     <uint8_t*>no, <uint8_t*>no_end)
    if unit == 2:
        return filter_units[uint16_t](f, lo, hi, <uint16_t*>yes, <uint16_t*>yes_end,
                                      <uint16_t*>no, <uint16_t*>no_end)
    if unit == 16:
        return filter_units[Pair](f, lo, hi, <Pair*>yes, <Pair*>yes_end, <Pair*>no, <Pair*>no_end)
    return split_bytes(f, lo, hi, yes, yes_end, no, no_end)


cdef int filter_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Filter* f = <Filter*>ctx
    if not filter_items(f, lo, hi):
        # relaxed: read after the join
        u32_store_relaxed(&f.changed, 1)
    return 0


cdef int filter_write(Worker* w, Filter* f) noexcept nogil:
    u32_store_relaxed(&f.changed, 0)
    return run_blocks(w, filter_leaf, f, f.block, f.n)


cdef int unravel_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Unravel* u = <Unravel*>ctx
    cdef int last = u.dims - 1, d
    cdef int64_t row = 0, row_end = 0, i, rest, f
    for i in range(lo, hi):
        f = u.flat[i]
        if f >= row_end or f < row:
            # Another row: they are sorted, so that is seldom, if rows are long.
            rest = f // u.shape[last]
            row = rest * u.shape[last]
            row_end = row + u.shape[last]
            for d in range(last - 1, -1, -1):
                u.columns[d * u.n + i] = rest % u.shape[d]
                rest = rest // u.shape[d]
        else:
            for d in range(last):
                u.columns[d * u.n + i] = u.columns[d * u.n + i - 1]
        u.columns[last * u.n + i] = f - row
    return 0


cdef int unravel_run(Worker* w, Unravel* u) noexcept nogil:
    return run_blocks(w, unravel_leaf, u, leaf_items(8 + 8 * u.dims), u.n)
