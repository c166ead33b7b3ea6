"""Sorts of numbers; see keys.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from pyblitz.kernels.blocks cimport combine_blocks, run_blocks, sum_counts
from pyblitz.kernels.numbers cimport Word
from pyblitz.kernels.radix cimport BLOCK_WORDS, LEAF_WORDS, Words, leaves_of, sort_fn, sort_words
from pyblitz.kernels.simd.levels cimport simd
from pyblitz.runtime.os cimport alloc_array

cdef enum:
    MAX_BLOCKS = 64         # with a table of counts each


# ---- as words ---------------------------------------------------------------

cdef inline uint64_t last_key(KeyKind kind, int size) noexcept nogil:
    """The greatest key of a number; what is greater is none."""
    cdef uint64_t all = ~<uint64_t>0 >> (64 - 8 * size)
    if kind == KEY_TIME:
        return all - 1
    if kind == KEY_FLOAT:
        # Twice the infinity's bits, for both signs, and zero.
        if size == 8:
            return 2 * 0x7FF0000000000000u + 1
        return 2 * 0x7F800000u + 1 if size == 4 else 2 * 0x7C00 + 1
    return all


cdef inline Word turned(Word key, Word last) noexcept nogil:
    """Descending: what is no number stays where it is."""
    return last - key if key <= last else key


cdef void encode(const Keys* k, const Word* x, int64_t n, Word* out) noexcept nogil:
    """Words whose unsigned order is the order of the items; no two items share one."""
    cdef Word last = <Word>last_key(k.kind, sizeof(Word)), sign = <Word>1 << (8 * sizeof(Word) - 1)
    cdef int64_t i
    if k.kind == KEY_UNSIGNED:
        memcpy(out, x, n * sizeof(Word))
    elif k.kind == KEY_SIGNED:
        for i in range(n):
            out[i] = x[i] ^ sign
    elif k.kind == KEY_TIME:
        for i in range(n):
            out[i] = (x[i] ^ sign) - 1      # the least wraps to the greatest
    elif Word is uint64_t:
        simd.encode_wide(x, n, out)
    else:
        simd.encode_narrow(x, n, out)
    if k.descending:
        for i in range(n):
            out[i] = turned(out[i], last)


cdef void decode(const Keys* k, const Word* x, int64_t n, Word* out) noexcept nogil:
    cdef Word last = <Word>last_key(k.kind, sizeof(Word)), sign = <Word>1 << (8 * sizeof(Word) - 1)
    cdef int64_t i
    if k.descending:
        for i in range(n):
            out[i] = turned(x[i], last)
        x = out
    if k.kind == KEY_UNSIGNED:
        if out != x:
            memcpy(out, x, n * sizeof(Word))
    elif k.kind == KEY_SIGNED:
        for i in range(n):
            out[i] = x[i] ^ sign
    elif k.kind == KEY_TIME:
        for i in range(n):
            out[i] = (x[i] + 1) ^ sign
    elif Word is uint64_t:
        simd.decode_wide(x, n, out)
    else:
        simd.decode_narrow(x, n, out)


cdef void load_keys(void* ctx, int64_t lo, int64_t hi, void* words) noexcept nogil:
    cdef Keys* k = <Keys*>ctx
    if k.itemsize == 8:
        encode[uint64_t](k, <const uint64_t*>k.src + lo, hi - lo, <uint64_t*>words)
    else:
        encode[uint32_t](k, <const uint32_t*>k.src + lo, hi - lo, <uint32_t*>words)


cdef void store_keys(void* ctx, const void* words, int64_t n, int64_t at) noexcept nogil:
    cdef Keys* k = <Keys*>ctx
    if k.itemsize == 8:
        decode[uint64_t](k, <const uint64_t*>words, n, <uint64_t*>k.dst + at)
    else:
        decode[uint32_t](k, <const uint32_t*>words, n, <uint32_t*>k.dst + at)


# ---- zeros and NaNs ---------------------------------------------------------
# Zeros of both signs are equal, and so are NaNs; as words they are not.  A stable
# sort puts them back in the order in which they came.

cdef struct Restore:
    Keys* keys
    bint zeros              # or NaNs
    int64_t* before         # [block]: counts, then sums
    int64_t begin           # of their run in the result
    int64_t end


cdef inline bint is_meant(const Restore* r, Word x) noexcept nogil:
    cdef Word magnitude = x << 1
    if r.zeros:
        return magnitude == 0
    return magnitude > <Word>last_key(KEY_FLOAT, sizeof(Word)) - 1


cdef int64_t count_equals(const Restore* r, const Word* x, int64_t n) noexcept nogil:
    cdef int64_t i, count = 0
    for i in range(n):
        count += is_meant(r, x[i])
    return count


cdef void write_equals(const Restore* r, const Word* x, int64_t n, Word* out, int64_t most) noexcept nogil:
    """No more than were counted, though another thread may have written since."""
    cdef int64_t i, k = 0
    for i in range(n):
        if k < most and is_meant(r, x[i]):
            out[k] = x[i]
            k += 1


cdef int count_equals_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Restore* r = <Restore*>ctx
    if r.keys.itemsize == 8:
        r.before[lo // BLOCK_WORDS] = count_equals[uint64_t](r, <uint64_t*>r.keys.src + lo, hi - lo)
    else:
        r.before[lo // BLOCK_WORDS] = count_equals[uint32_t](r, <uint32_t*>r.keys.src + lo, hi - lo)
    return 0


cdef int write_equals_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Restore* r = <Restore*>ctx
    cdef int64_t to = r.begin + r.before[lo // BLOCK_WORDS]
    cdef int64_t most = min(r.begin + r.before[lo // BLOCK_WORDS + 1], r.end) - to
    if r.keys.itemsize == 8:
        write_equals[uint64_t](r, <uint64_t*>r.keys.src + lo, hi - lo, <uint64_t*>r.keys.dst + to, most)
    else:
        write_equals[uint32_t](r, <uint32_t*>r.keys.src + lo, hi - lo, <uint32_t*>r.keys.dst + to, most)
    return 0


cdef uint64_t key_of_item(const Keys* k, const char* items, int64_t i) noexcept nogil:
    cdef uint64_t wide
    cdef uint32_t narrow
    if k.itemsize == 8:
        encode[uint64_t](k, <const uint64_t*>items + i, 1, &wide)
        return wide
    encode[uint32_t](k, <const uint32_t*>items + i, 1, &narrow)
    return narrow


cdef int64_t first_from(const Keys* k, uint64_t key) noexcept nogil:
    """The place of the first item of the result that is not before a key."""
    cdef int64_t low = 0, high = k.n, i
    while low < high:
        i = (low + high) >> 1
        if key_of_item(k, k.dst, i) < key:
            low = i + 1
        else:
            high = i
    return low


cdef int restore(Worker* w, Keys* k, bint zeros) noexcept nogil:
    cdef Restore r
    cdef uint64_t last = last_key(KEY_FLOAT, k.itemsize), least = last + 1
    cdef int64_t end = k.n, blocks = (k.n + BLOCK_WORDS - 1) // BLOCK_WORDS
    cdef int rc
    if zeros:
        # The two are in the middle of the numbers, which are even in number.
        least = last // 2
        end = first_from(k, least + 2)
    r.keys = k
    r.zeros = zeros
    r.begin = first_from(k, least)
    if r.begin >= end or key_of_item(k, k.dst, r.begin) == key_of_item(k, k.dst, end - 1):
        return 0            # all the same
    r.end = end
    r.before = <int64_t*>malloc((blocks + 1) * sizeof(int64_t))
    if r.before == NULL:
        return ENOMEM
    rc = run_blocks(w, count_equals_leaf, &r, BLOCK_WORDS, k.n)
    if rc == 0:
        sum_counts(r.before, blocks)
        rc = run_blocks(w, write_equals_leaf, &r, BLOCK_WORDS, k.n)
    free(r.before)
    return rc


# ---- one or two bytes -------------------------------------------------------

cdef struct Counting:
    Keys* keys
    int64_t values          # 256 or 65536
    int64_t block
    int64_t* counts         # [block][bit pattern]; the sum is in block 0
    int64_t* ends           # [rank]: where the run of the rank-th value ends


cdef inline int64_t pattern_of(const Counting* c, int64_t rank) noexcept nogil:
    """The bits of the rank-th value in sorted order."""
    cdef int64_t half = c.values >> 1, key = rank, last
    if c.keys.descending:
        last = last_key(c.keys.kind, c.keys.itemsize)
        if key <= last:
            key = last - key
    if c.keys.kind == KEY_UNSIGNED:
        return key
    if c.keys.kind == KEY_SIGNED:
        return key ^ half
    # Half precision; see simd/keys.h.
    key = (key + 0x03FF) & 0xFFFF
    return key ^ half if key & half else key ^ 0xFFFF


cdef int histogram_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Counting* c = <Counting*>ctx
    cdef int64_t* counts = c.counts + (lo // c.block) * c.values
    cdef int64_t i
    if c.values == 256:
        for i in range(lo, hi):
            counts[(<const uint8_t*>c.keys.src)[i]] += 1
    else:
        for i in range(lo, hi):
            counts[(<const uint16_t*>c.keys.src)[i]] += 1
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
    cdef uint16_t pattern
    while first < last:         # the first run that ends past lo
        rank = (first + last) >> 1
        if c.ends[rank] > lo:
            last = rank
        else:
            first = rank + 1
    rank = first
    while lo < hi:
        end = min(hi, c.ends[rank])
        if end > lo:
            pattern = pattern_of(c, rank)
            if c.values == 256:
                memset(c.keys.dst + lo, pattern, end - lo)
            else:
                for i in range(lo, end):
                    (<uint16_t*>c.keys.dst)[i] = pattern
            lo = end
        rank += 1
    return 0


cdef int sort_bytes(Worker* w, Keys* k) noexcept nogil:
    cdef Counting c
    cdef int64_t blocks = 1, rank, sum = 0
    cdef int rc = ENOMEM
    c.keys = k
    c.values = 256 if k.itemsize == 1 else 65536
    if w != NULL:
        # A block is some times larger than its histogram.
        blocks = max(<int64_t>1, min(<int64_t>MAX_BLOCKS, k.n // (16 * c.values)))
    c.block = (k.n + blocks - 1) // blocks
    blocks = (k.n + c.block - 1) // c.block
    c.counts = <int64_t*>calloc(blocks * c.values, sizeof(int64_t))
    c.ends = <int64_t*>malloc(c.values * sizeof(int64_t))
    if c.counts != NULL and c.ends != NULL:
        if w == NULL:
            rc = histogram_leaf(NULL, &c, 0, k.n)
        else:
            rc = combine_blocks(w, histogram_leaf, histogram_combine, &c, c.block, k.n)
        if rc == 0:
            for rank in range(c.values):
                sum += c.counts[pattern_of(&c, rank)]
                c.ends[rank] = sum
            rc = run_blocks(w, runs_leaf, &c, BLOCK_WORDS, k.n)
            if rc != 0 and k.src == k.dst:
                # Half written, and what was there is only in the counts.
                runs_leaf(NULL, &c, 0, k.n)
    free(c.counts)
    free(c.ends)
    return rc


# ---- sorts ------------------------------------------------------------------

cdef struct Copy:
    char* to
    const char* source
    int size


cdef int copy_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Copy* c = <Copy*>ctx
    memcpy(c.to + lo * c.size, c.source + lo * c.size, (hi - lo) * c.size)
    return 0


cdef int copy_items(Worker* w, void* to, const void* source, int64_t n, int size) noexcept nogil:
    cdef Copy c
    c.to = <char*>to
    c.source = <const char*>source
    c.size = size
    return run_blocks(w, copy_leaf, &c, BLOCK_WORDS, n)


cdef sort_fn leaf_of_items(const Keys* k) noexcept nogil:
    """One that sorts integers as they are."""
    if k.descending or k.kind not in (KEY_UNSIGNED, KEY_SIGNED):
        return NULL
    return leaves_of(k.itemsize == 8).words if k.kind == KEY_UNSIGNED else leaves_of(k.itemsize == 8).signed


cdef int sort_words_of(Worker* w, Keys* k) noexcept nogil:
    cdef Words s
    cdef int rc
    s.load = load_keys
    s.store = store_keys
    s.ctx = k
    s.wide = k.itemsize == 8
    s.slow = False
    s.n = k.n
    s.dst = k.dst
    s.src = k.src
    s.whole = leaf_of_items(k)
    s.floats = k.kind == KEY_FLOAT and not k.descending
    s.spare = NULL
    if k.src == k.dst and k.n > LEAF_WORDS:
        s.spare = <char*>alloc_array(k.n * k.itemsize)
        if s.spare == NULL:
            return ENOMEM
    rc = sort_words(w, &s)
    free(s.spare)
    return rc


cdef int sort_keys(Worker* w, Keys* k) noexcept nogil:
    cdef Keys apart
    cdef void* copy
    cdef int rc
    if k.itemsize <= 2:
        return sort_bytes(w, k)
    if k.kind != KEY_FLOAT or not k.stable:
        return sort_words_of(w, k)
    apart = k[0]
    copy = NULL
    rc = 0
    if k.src == k.dst:
        # What was there says what the order of equals was.
        copy = alloc_array(k.n * k.itemsize)
        if copy == NULL:
            return ENOMEM
        rc = copy_items(w, copy, k.src, k.n, k.itemsize)
        apart.src = <const char*>copy
    if rc == 0:
        rc = sort_words_of(w, &apart)
        if rc == 0:
            rc = restore(w, &apart, True)
        if rc == 0:
            rc = restore(w, &apart, False)
        if rc != 0 and copy != NULL:
            memcpy(k.dst, copy, k.n * k.itemsize)
    free(copy)
    return rc


cdef int rows_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Keys k
    cdef int64_t i, bytes
    cdef int rc
    for i in range(lo, hi):
        k = (<Keys*>ctx)[0]
        bytes = i * k.n * k.itemsize
        k.src += bytes
        k.dst += bytes
        rc = sort_keys(NULL, &k)
        if rc != 0:
            return rc
    return 0


cdef int sort_rows_of_keys(Worker* w, Keys* k, int64_t rows) noexcept nogil:
    # Leaves of some thousand items, so that short rows are not a leaf each.
    return run_blocks(w, rows_leaf, k, 1 + 4096 // (k.n + 1), rows)


cdef int sort_in_place(Worker* w, KeyKind kind, int itemsize, void* a, int64_t n) noexcept nogil:
    cdef Keys k
    k.src = k.dst = <char*>a
    k.n = n
    k.itemsize = itemsize
    k.kind = kind
    k.descending = False
    k.stable = False
    return sort_keys(w, &k) if n > 1 else 0
