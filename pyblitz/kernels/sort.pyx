"""Parallel sorts; see sort.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport (
    int64_t, uint8_t, uint16_t, uint32_t, uint64_t)
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from pyblitz.runtime.bridge cimport (
    Bridge, bridge_init, bridge_run, combine_fn, leaf_fn)
from pyblitz.kernels.merge cimport MergeSort, merge_sort, order_numbers


cdef inline int bridged(Worker* w, leaf_fn leaf, combine_fn combine, void* ctx,
                        int64_t grain, int64_t n) noexcept nogil:
    cdef Bridge b
    bridge_init(&b, leaf, combine, ctx, grain)
    return bridge_run(w, &b, n)


# ---- radix ------------------------------------------------------------------
# One pass of most-significant-digit radix sort, after the histogram and scatter
# of Zagha and Blelloch, "Radix sort for vector multiprocessors" (1991).  The
# digit is taken from the range that a sample shows, so that it tells keys apart
# wherever they lie; what lies outside goes to the first and last bucket.

cdef enum:
    SAMPLES = 1024
    BUCKET_ITEMS = 4096    # aimed at: measured, against 8,192 and 16,384
    MIN_BUCKETS = 16
    MAX_BUCKETS = 2048
    MAX_BLOCKS = 64
    BLOCK_ITEMS = 65536
    MAX_DEPTH = 4

cdef struct Radix:
    Sort* sort
    int depth
    uint64_t low            # the least key of bucket 1, about
    int shift
    int64_t buckets
    int64_t block           # items
    int64_t* offsets        # [block][bucket]: counts, then where to write
    int64_t* starts         # [bucket + 1]

ctypedef fused Word:
    uint32_t
    uint64_t


cdef inline Word key_of(Word x, KeyKind kind) noexcept nogil:
    """Bits whose unsigned order is the order of the items."""
    cdef Word sign = <Word>1 << (8 * sizeof(Word) - 1)
    cdef Word inf
    if kind == KEY_UNSIGNED:
        return x
    if kind == KEY_SIGNED:
        return x ^ sign
    if kind == KEY_TIME:
        return (x ^ sign) - 1       # the least wraps to the greatest
    if Word is uint64_t:
        inf = 0x7FF0000000000000u
    else:
        inf = 0x7F800000u
    if (x & ~sign) > inf:
        return ~<Word>0             # not a number, of either sign
    return ~x if x & sign else x | sign


cdef inline int64_t bucket_of(const Radix* r, uint64_t key) noexcept nogil:
    cdef uint64_t b = (key - r.low) >> r.shift if key > r.low else 0
    return b if b < <uint64_t>r.buckets else r.buckets - 1


cdef void count_block(Radix* r, const Word* src, int64_t lo, int64_t hi, int64_t* counts) noexcept nogil:
    cdef KeyKind kind = r.sort.kind
    cdef int64_t i
    for i in range(lo, hi):
        counts[bucket_of(r, key_of(src[i], kind))] += 1


cdef void scatter_block(Radix* r, const Word* src, Word* dst, int64_t lo, int64_t hi,
                        int64_t* to) noexcept nogil:
    cdef KeyKind kind = r.sort.kind
    cdef int64_t i, b
    cdef Word x
    for i in range(lo, hi):
        x = src[i]
        b = bucket_of(r, key_of(x, kind))
        dst[to[b]] = x
        to[b] += 1


cdef int count_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Radix* r = <Radix*>ctx
    cdef int64_t* counts = r.offsets + (lo // r.block) * r.buckets
    if r.sort.itemsize == 8:
        count_block[uint64_t](r, <const uint64_t*>r.sort.src, lo, hi, counts)
    else:
        count_block[uint32_t](r, <const uint32_t*>r.sort.src, lo, hi, counts)
    return 0


cdef int scatter_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Radix* r = <Radix*>ctx
    cdef int64_t* to = r.offsets + (lo // r.block) * r.buckets
    if r.sort.itemsize == 8:
        scatter_block[uint64_t](r, <const uint64_t*>r.sort.src, <uint64_t*>r.sort.dst, lo, hi, to)
    else:
        scatter_block[uint32_t](r, <const uint32_t*>r.sort.src, <uint32_t*>r.sort.dst, lo, hi, to)
    return 0


cdef int bucket_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Radix* r = <Radix*>ctx
    cdef Sort* s = r.sort
    cdef Sort inner
    cdef char* start
    cdef char* copy
    cdef int64_t b, n
    cdef int rc
    for b in range(lo, hi):
        n = r.starts[b + 1] - r.starts[b]
        start = s.dst + r.starts[b] * s.itemsize
        if n < 2:
            continue
        if n > 4 * BUCKET_ITEMS and n * 8 > s.n and r.depth < MAX_DEPTH:
            # A heavy bucket would leave one worker with the lot.
            copy = <char*>malloc(n * s.itemsize)
            if copy != NULL:
                memcpy(copy, start, n * s.itemsize)
                inner = s[0]
                inner.src = copy
                inner.dst = start
                inner.n = n
                rc = radix_pass(w, &inner, r.depth + 1)
                free(copy)
                if rc != 0:
                    return rc
                continue
        if s.leaf(start, n, s.arr) < 0:
            return ENOMEM
    return 0


cdef inline uint64_t key_at(const Sort* s, int64_t i) noexcept nogil:
    if s.itemsize == 8:
        return key_of((<const uint64_t*>s.src)[i], s.kind)
    return key_of((<const uint32_t*>s.src)[i], s.kind)


cdef void sample_range(const Sort* s, uint64_t* low, uint64_t* high) noexcept nogil:
    """The 0.5 and 99.5 percent quantiles of a sample: outliers do not stretch
    the range.  Always the same sample of the same length."""
    cdef uint64_t keys[SAMPLES]
    cdef uint64_t key, state = 0x9E3779B97F4A7C15u
    cdef int64_t stretch = s.n // SAMPLES
    cdef int i, j, gap = SAMPLES // 2
    for i in range(SAMPLES):
        # one from each stretch, anywhere in it: no period of the data matters
        state = state * 6364136223846793005u + 1442695040888963407u
        keys[i] = key_at(s, i * stretch + <int64_t>((state >> 33) % <uint64_t>stretch))
    while gap > 0:              # Shell's
        for i in range(gap, SAMPLES):
            key = keys[i]
            j = i
            while j >= gap and keys[j - gap] > key:
                keys[j] = keys[j - gap]
                j -= gap
            keys[j] = key
        gap = gap // 2 if gap > 2 else gap - 1
    low[0] = keys[SAMPLES // 200]
    high[0] = keys[SAMPLES - 1 - SAMPLES // 200]


cdef int radix_pass(Worker* w, Sort* s, int depth) noexcept nogil:
    """From src to dst, which must not overlap."""
    cdef Radix r
    cdef uint64_t high
    cdef int64_t blocks, b, k, sum, count
    cdef int rc = ENOMEM
    r.sort = s
    r.depth = depth
    r.buckets = MIN_BUCKETS
    while r.buckets * BUCKET_ITEMS < s.n and r.buckets < MAX_BUCKETS:
        r.buckets *= 2
    sample_range(s, &r.low, &high)
    r.shift = 0
    while ((high - r.low) >> r.shift) >= <uint64_t>r.buckets:
        r.shift += 1
    blocks = min(<int64_t>MAX_BLOCKS, (s.n + BLOCK_ITEMS - 1) // BLOCK_ITEMS)
    r.block = (s.n + blocks - 1) // blocks
    blocks = (s.n + r.block - 1) // r.block
    r.offsets = <int64_t*>calloc(blocks * r.buckets, sizeof(int64_t))
    r.starts = <int64_t*>malloc((r.buckets + 1) * sizeof(int64_t))
    if r.offsets != NULL and r.starts != NULL:
        rc = bridged(w, count_leaf, NULL, &r, r.block, s.n)
        if rc == 0:
            sum = 0
            for b in range(r.buckets):
                r.starts[b] = sum
                for k in range(blocks):
                    count = r.offsets[k * r.buckets + b]
                    r.offsets[k * r.buckets + b] = sum
                    sum += count
            r.starts[r.buckets] = sum
            rc = bridged(w, scatter_leaf, NULL, &r, r.block, s.n)
        if rc == 0:
            rc = bridged(w, bucket_leaf, NULL, &r, 1, r.buckets)
    free(r.offsets)
    free(r.starts)
    return rc


cdef int radix_sort(Worker* w, Sort* s) noexcept nogil:
    """Keys of 4 or 8 bytes, from src to dst, which must not overlap."""
    return radix_pass(w, s, 0)


# ---- counting ---------------------------------------------------------------

cdef struct Counting:
    Sort* sort
    int64_t values          # 256 or 65536
    int64_t block
    int64_t* counts         # [block][bit pattern]; the sum is in block 0
    int64_t* ends           # [rank]: where the run of the rank-th value ends


cdef inline int64_t pattern_of(const Counting* c, int64_t rank) noexcept nogil:
    """The bits of the rank-th value in sorted order."""
    cdef int64_t half = c.values >> 1
    if c.sort.kind == KEY_UNSIGNED:
        return rank
    if c.sort.kind == KEY_SIGNED:
        return rank ^ half
    # Half precision: -inf .. -0, 0 .. inf, and what is not a number.
    if rank <= 0x7C00:
        return 0xFC00 - rank
    if rank <= 2 * 0x7C00 + 1:
        return rank - 0x7C01
    return rank - 0x7C01 if rank <= 0x7FFF + 0x7C01 else rank


cdef int histogram_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Counting* c = <Counting*>ctx
    cdef int64_t* counts = c.counts + (lo // c.block) * c.values
    cdef int64_t i
    if c.values == 256:
        for i in range(lo, hi):
            counts[(<const uint8_t*>c.sort.src)[i]] += 1
    else:
        for i in range(lo, hi):
            counts[(<const uint16_t*>c.sort.src)[i]] += 1
    return 0


cdef int histogram_combine(Worker* w, void* ctx, int64_t lo, int64_t mid, int64_t hi) noexcept nogil:
    cdef Counting* c = <Counting*>ctx
    cdef int64_t* into = c.counts + (lo // c.block) * c.values
    cdef int64_t* other = c.counts + (mid // c.block) * c.values
    cdef int64_t i
    for i in range(c.values):
        into[i] += other[i]
    return 0


cdef int runs_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    """Writes items lo .. hi of the result."""
    cdef Counting* c = <Counting*>ctx
    cdef int64_t first = 0, last = c.values - 1, rank, end, i
    while first < last:         # the first run that ends past lo
        rank = (first + last) >> 1
        if c.ends[rank] > lo:
            last = rank
        else:
            first = rank + 1
    rank = first
    while lo < hi:
        end = min(hi, c.ends[rank])
        if c.values == 256:
            memset(c.sort.dst + lo, pattern_of(c, rank), end - lo)
        else:
            for i in range(lo, end):
                (<uint16_t*>c.sort.dst)[i] = pattern_of(c, rank)
        lo = end
        rank += 1
    return 0


cdef int counting_sort(Worker* w, Sort* s) noexcept nogil:
    """Items of 1 or 2 bytes; src may be dst."""
    cdef Counting c
    cdef int64_t blocks, rank, sum = 0
    cdef int rc = ENOMEM
    c.sort = s
    c.values = 256 if s.itemsize == 1 else 65536
    # A block is some times larger than its histogram.
    blocks = max(<int64_t>1, min(<int64_t>MAX_BLOCKS, s.n // (16 * c.values)))
    c.block = (s.n + blocks - 1) // blocks
    blocks = (s.n + c.block - 1) // c.block
    c.counts = <int64_t*>calloc(blocks * c.values, sizeof(int64_t))
    c.ends = <int64_t*>malloc(c.values * sizeof(int64_t))
    if c.counts != NULL and c.ends != NULL:
        rc = bridged(w, histogram_leaf, histogram_combine, &c, c.block, s.n)
        if rc == 0:
            for rank in range(c.values):
                sum += c.counts[pattern_of(&c, rank)]
                c.ends[rank] = sum
            rc = bridged(w, runs_leaf, NULL, &c, BLOCK_ITEMS, s.n)
    free(c.counts)
    free(c.ends)
    return rc


# ---- a stand-in ---------------------------------------------------------------

cdef int sort_in_place(Worker* w, KeyKind kind, int itemsize, void* a, int64_t n) noexcept nogil:
    cdef MergeSort s
    s.src = <const char*>a
    s.dst = <char*>a
    s.n = n
    s.leaf = NULL
    order_numbers(&s.order, b"uifm"[<int>kind], itemsize)
    return merge_sort(w, &s)
