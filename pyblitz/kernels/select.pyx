"""Selection; see select.pxd."""
from libc.errno cimport ENOMEM
from libc.math cimport sqrt
from libc.stdint cimport (
    INT64_MAX, UINT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t)
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from pyblitz.kernels.blocks cimport SAMPLE_SEED, run_blocks, sample_place, sum_counts
from pyblitz.kernels.numbers cimport (
    KEY_FLOAT, KEY_SIGNED, KEY_TIME, KEY_UNSIGNED, NUMBER_F32, NUMBER_F64, NUMBER_I32, NUMBER_TIME,
    NUMBER_U32, NUMBER_U64, Raw, Wide, key_of, last_key, sign_bit, turned)
from pyblitz.kernels.simd.levels cimport simd
from pyblitz.runtime.atomic cimport u32_store_relaxed

cdef enum:
    # Items of a block, which is counted and then written by one leaf each.
    BLOCK = 16384
    # Items that are parted at a time, in L1.
    CHUNK = 128
    LEAF_ITEMS = 16384
    # Bytes of items of whose extremes one may come before the first ones of a row so far.
    LOOK_BYTES = 512
    # A sample says where to begin, in rows of so many items; of which rank in it, at most.
    SAMPLED_ITEMS = 512
    FEW_SAMPLES = 256
    MANY_SAMPLES = 1024
    MAX_RANK = 64

# ---- a split ----------------------------------------------------------------
# The splitters come from a sample, as in Floyd and Rivest, "Expected time bounds for
# selection" (1975); the pass is a count of each block and a write where the prefix
# sums say, as everywhere here.

cdef void split_sample(const char* src, intptr_t itemsize, int64_t n, int64_t samples,
                       char* out) noexcept nogil:
    cdef uint64_t state = SAMPLE_SEED
    cdef int64_t stretch = n // samples, i, at
    for i in range(samples):
        at = sample_place(&state, i, stretch)
        memcpy(out + i * itemsize, src + at * itemsize, itemsize)


cdef int64_t split_blocks(int64_t n) noexcept nogil:
    return (n + BLOCK - 1) // BLOCK


cdef inline Wide biased(Wide x, uint64_t bias) noexcept nogil:
    """bias: 1 wraps the least of int64 to the greatest."""
    if Wide is int64_t:
        return <int64_t>(<uint64_t>x - bias)
    else:
        return x


cdef void count_thirds(const Split* s, const Wide* src, uint64_t bias, int64_t n,
                       int64_t* counts) noexcept nogil:
    cdef Wide low = biased((<const Wide*>s.low)[0], bias)
    cdef Wide high = biased((<const Wide*>s.high)[0], bias)
    cdef Wide x
    cdef int64_t less = 0, upto = 0, i
    # Lanes as wide as the items: a block's counts fit.
    cdef int32_t less_32 = 0, upto_32 = 0
    for i in range(n):
        x = biased(src[i], bias)
        if Wide is int64_t or Wide is uint64_t or Wide is double:
            less += x < low
            upto += x <= high
        else:
            less_32 += x < low
            upto_32 += x <= high
    counts[0] = less + less_32
    counts[1] = upto + upto_32 - counts[0]
    counts[2] = n - upto - upto_32


cdef inline bint write_items(const Split* s, const Wide* src, uint64_t bias, int64_t first,
                             int64_t n, const int64_t* begins, Wide* dst,
                             int64_t* indices) noexcept nogil:
    """begins: of the block's parts, followed by those of the next block.  Every item is stored to all
    three, and the next one over it where it does not belong: to a buffer, because past the end is what
    another worker writes.  False: the parts are not of the sizes that were counted."""
    cdef Wide low = biased((<const Wide*>s.low)[0], bias)
    cdef Wide high = biased((<const Wide*>s.high)[0], bias)
    cdef Wide items[3][CHUNK]
    cdef int64_t places[3][CHUNK]
    cdef int64_t[3] to = [begins[0], begins[1], begins[2]]
    cdef const int64_t* ends = begins + 3
    cdef int64_t less, upto, at = 0, m, i, a, b, c
    cdef Wide item, x
    while at < n:
        m = min(n - at, <int64_t>CHUNK)
        a = b = c = 0
        for i in range(m):
            item = src[at + i]
            x = biased(item, bias)
            less = x < low
            upto = x <= high
            if indices == NULL:
                items[0][a] = items[1][b] = items[2][c] = item
            else:
                places[0][a] = places[1][b] = places[2][c] = first + at + i
            a += less
            b += upto - less
            c += 1 - upto
        if a > ends[0] - to[0] or b > ends[1] - to[1] or c > ends[2] - to[2]:
            return False
        if indices == NULL:
            memcpy(dst + to[0], items[0], a * sizeof(Wide))
            memcpy(dst + to[1], items[1], b * sizeof(Wide))
            memcpy(dst + to[2], items[2], c * sizeof(Wide))
        else:
            memcpy(indices + to[0], places[0], a * sizeof(int64_t))
            memcpy(indices + to[1], places[1], b * sizeof(int64_t))
            memcpy(indices + to[2], places[2], c * sizeof(int64_t))
        to[0] += a
        to[1] += b
        to[2] += c
        at += m
    return True         # there is room for as many as there are


cdef bint split_block(const Split* s, const Wide* src, uint64_t bias, int64_t lo, int64_t hi,
                      bint writes) noexcept nogil:
    cdef int64_t* counts = s.counts + 3 * (lo // BLOCK)
    if not writes:
        count_thirds(s, src + lo, bias, hi - lo, counts)
        return True
    if s.indices:
        return write_items(s, src + lo, bias, lo, hi - lo, counts, <Wide*>NULL, <int64_t*>s.dst)
    return write_items(s, src + lo, bias, lo, hi - lo, counts, <Wide*>s.dst, NULL)


cdef bint split_any(const Split* s, int64_t lo, int64_t hi, bint writes) noexcept nogil:
    """One block.  False: the parts are not of the sizes that were counted."""
    if s.kind == NUMBER_F64:
        return split_block(s, <const double*>s.src, 0, lo, hi, writes)
    if s.kind == NUMBER_F32:
        return split_block(s, <const float*>s.src, 0, lo, hi, writes)
    if s.kind == NUMBER_I32:
        return split_block(s, <const int32_t*>s.src, 0, lo, hi, writes)
    if s.kind == NUMBER_U32:
        return split_block(s, <const uint32_t*>s.src, 0, lo, hi, writes)
    if s.kind == NUMBER_U64:
        return split_block(s, <const uint64_t*>s.src, 0, lo, hi, writes)
    return split_block(s, <const int64_t*>s.src, s.kind == NUMBER_TIME, lo, hi, writes)


cdef int split_count_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Split* s = <Split*>ctx
    cdef int64_t block
    for block in range(lo, hi):
        split_any(s, block * BLOCK, min(s.n, (block + 1) * BLOCK), False)
    return 0


cdef int split_write_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Split* s = <Split*>ctx
    cdef int64_t block
    for block in range(lo, hi):
        if not split_any(s, block * BLOCK, min(s.n, (block + 1) * BLOCK), True):
            # relaxed: read after the join
            u32_store_relaxed(&s.changed, 1)
    return 0


cdef int split_count(Worker* w, Split* s) noexcept nogil:
    cdef int rc = run_blocks(w, split_count_leaf, s, 1, split_blocks(s.n))
    if rc == 0:
        sum_counts(s.counts, split_blocks(s.n), 3)
    return rc


cdef int split_write(Worker* w, Split* s) noexcept nogil:
    u32_store_relaxed(&s.changed, 0)
    return run_blocks(w, split_write_leaf, s, 1, split_blocks(s.n))


# ---- the first of a row -----------------------------------------------------
# A heap of the k first so far, the last of them at its root (Williams, "Algorithm 232:
# Heapsort", 1964).  Most items of a long row are only compared with the root: many at once by
# their extremes.

cdef struct HeapItem:
    uint64_t key
    int64_t index


cdef inline uint64_t rank_of(Raw x, KeyKind kind, bint greatest) noexcept nogil:
    """The key for the order that is asked for."""
    cdef Raw key = key_of(x, kind)
    return turned(key, last_key(kind, key)) if greatest else key


cdef inline bint comes_before(const HeapItem* a, const HeapItem* b) noexcept nogil:
    return a.key < b.key or (a.key == b.key and a.index < b.index)


cdef inline void sift(HeapItem* heap, int64_t at, int64_t n) noexcept nogil:
    """Restores the heap below `at`."""
    cdef HeapItem moved = heap[at]
    cdef int64_t child = 2 * at + 1
    while child < n:
        if child + 1 < n and comes_before(heap + child, heap + child + 1):
            child += 1
        if not comes_before(&moved, heap + child):
            break
        heap[at] = heap[child]
        at = child
        child = 2 * at + 1
    heap[at] = moved


cdef bint may_come(const Raw* row, int64_t n, KeyKind kind, bint greatest, uint64_t root) noexcept nogil:
    """Whether one of n items may come before that key; by vectors, where there are some for it."""
    cdef Raw ends[2]
    cdef uint64_t words[2]
    ends[0] = ends[1] = row[0]
    if kind == KEY_UNSIGNED and sizeof(Raw) >= 4:
        if Raw is uint32_t:
            simd.range_narrow(row, n, words, words + 1)
        elif Raw is uint64_t:
            simd.range_wide(row, n, words, words + 1)
        ends[greatest] = <Raw>words[greatest]
    elif kind == KEY_FLOAT and sizeof(Raw) == 4:
        if simd.extremes_floats(<const float*>row, n, <float*>ends, <float*>ends + 1):
            return True
    elif kind == KEY_FLOAT and sizeof(Raw) == 8:
        if simd.extremes_doubles(<const double*>row, n, <double*>ends, <double*>ends + 1):
            return True
    elif kind == KEY_SIGNED and sizeof(Raw) == 4 and simd.extremes_narrow != NULL:
        simd.extremes_narrow(<const int32_t*>row, n, <int32_t*>ends, <int32_t*>ends + 1)
    elif (kind == KEY_SIGNED or kind == KEY_TIME) and sizeof(Raw) == 8 and simd.extremes_wide != NULL:
        simd.extremes_wide(<const int64_t*>row, n, <int64_t*>ends, <int64_t*>ends + 1)
        if kind == KEY_TIME and ends[0] == sign_bit(ends[0]):
            return True         # NaT, which is not the least
    else:
        return True
    return rank_of(ends[greatest], kind, greatest) < root


cdef uint64_t sampled_limit(const Raw* row, int64_t n, int64_t k, KeyKind kind, bint greatest) noexcept nogil:
    """A key before which k items or more are, all but surely, and not many more: the heap of a row in
    order would take in each item.  k is at most n / 8."""
    cdef uint64_t best[MAX_RANK]
    cdef uint64_t state = SAMPLE_SEED, key
    cdef int64_t samples = FEW_SAMPLES if n < 64 * MANY_SAMPLES else MANY_SAMPLES
    cdef double share = <double>(samples * k) / <double>n
    # Four standard deviations more than are expected, as in ranks_around of arrays/partition.
    cdef int rank = min(MAX_RANK, <int>(share + 4 * sqrt(share)) + 5), at, i
    for i in range(rank):
        best[i] = UINT64_MAX
    for i in range(samples):
        key = rank_of(row[sample_place(&state, i, n // samples)], kind, greatest)
        if key < best[rank - 1]:
            at = rank - 1
            while at > 0 and key < best[at - 1]:
                best[at] = best[at - 1]
                at -= 1
            best[at] = key
    return best[rank - 1]


cdef void look_through(const Raw* row, int64_t begin, int64_t n, int64_t k, KeyKind kind, bint greatest,
                       HeapItem* heap) noexcept nogil:
    """Takes into a heap of k what comes before its root."""
    cdef int64_t i, end, look = LOOK_BYTES // sizeof(Raw)
    cdef uint64_t key
    end = min(n, begin + <int64_t>(-<uintptr_t>(row + begin) % 64 // sizeof(Raw)))   # vectors of whole lines
    while begin < n:
        if end - begin < look or may_come(row + begin, look, kind, greatest, heap[0].key):
            for i in range(begin, end):
                key = rank_of(row[i], kind, greatest)
                # An equal one comes later.
                if key < heap[0].key:
                    heap[0].key = key
                    heap[0].index = i
                    sift(heap, 0, k)
        begin, end = end, min(end + look, n)


cdef void first_of(const Raw* row, int64_t n, int64_t k, KeyKind kind, bint greatest,
                   HeapItem* heap, int64_t* out) noexcept nogil:
    cdef int64_t i
    cdef HeapItem last
    heap[0].index = INT64_MAX
    if n >= SAMPLED_ITEMS:
        heap[0].key = sampled_limit(row, n, k, kind, greatest)
        for i in range(1, k):
            heap[i] = heap[0]
        look_through(row, 0, n, k, kind, greatest, heap)
    if heap[0].index == INT64_MAX:      # no sample, or too few items before its limit
        for i in range(k):
            heap[i].key = rank_of(row[i], kind, greatest)
            heap[i].index = i
        for i in range(k // 2 - 1, -1, -1):
            sift(heap, i, k)
        look_through(row, k, n, k, kind, greatest, heap)
    for i in range(k - 1, 0, -1):
        last = heap[0]
        heap[0] = heap[i]
        heap[i] = last
        sift(heap, 0, i)
    for i in range(k):
        out[i] = heap[i].index


cdef void first_words(const First* f, const Raw* src, int64_t lo, int64_t hi,
                      HeapItem* heap) noexcept nogil:
    cdef int64_t row
    for row in range(lo, hi):
        first_of(src + row * f.n, f.n, f.k, f.kind, f.greatest, heap, f.out + row * f.k)


cdef int first_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef First* f = <First*>ctx
    cdef HeapItem* heap = <HeapItem*>malloc(f.k * sizeof(HeapItem))
    if heap == NULL:
        return ENOMEM
    if f.itemsize == 8:
        first_words(f, <const uint64_t*>f.src, lo, hi, heap)
    elif f.itemsize == 4:
        first_words(f, <const uint32_t*>f.src, lo, hi, heap)
    elif f.itemsize == 2:
        first_words(f, <const uint16_t*>f.src, lo, hi, heap)
    else:
        first_words(f, <const uint8_t*>f.src, lo, hi, heap)
    free(heap)
    return 0


cdef int first_run(Worker* w, First* f, int64_t rows) noexcept nogil:
    return run_blocks(w, first_leaf, f, 1 + LEAF_ITEMS // (f.n + 1), rows)
