"""Sorts of numbers; see keys.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from pyblitz.kernels.blocks cimport combine_blocks, copy_shared, run_blocks, sum_counts
from pyblitz.kernels.numbers cimport (
    KEY_FLOAT, KEY_SIGNED, KEY_TIME, KEY_UNSIGNED, KeyKind, Word, infinity, sign_bit,
    signed_key, time_key, turned)
from pyblitz.kernels.radix cimport BLOCK_WORDS, LEAF_WORDS, Words, leaf_of_integers, sort_words
from pyblitz.kernels.simd.levels cimport simd
from pyblitz.runtime.os cimport alloc_array

cdef enum:
    MAX_BLOCKS = 64         # with a table of counts each


# ---- as words ---------------------------------------------------------------

# Unlike keys (numbers.pxd), from which the item cannot be had back: two zeros, or two NaNs, with other
# bits are two words.  Integers and times have the same words as keys.

cdef void encode(KeyKind kind, bint descending, const Word* x, int64_t n, Word* out) noexcept nogil:
    cdef Word last = last_word[Word](kind, 0)
    cdef int64_t i
    if kind == KEY_UNSIGNED:
        memcpy(out, x, n * sizeof(Word))
    elif kind == KEY_SIGNED:
        for i in range(n):
            out[i] = signed_key(x[i])
    elif kind == KEY_TIME:
        for i in range(n):
            out[i] = time_key(x[i])
    elif Word is uint64_t:
        simd.encode_wide(x, n, out)
    else:
        simd.encode_narrow(x, n, out)
    if descending:
        for i in range(n):
            out[i] = turned(out[i], last)


cdef void decode(KeyKind kind, bint descending, const Word* x, int64_t n, Word* out) noexcept nogil:
    cdef Word last = last_word[Word](kind, 0)
    cdef int64_t i
    if descending:
        for i in range(n):
            out[i] = turned(x[i], last)
        x = out
    if kind == KEY_UNSIGNED:
        if out != x:
            memcpy(out, x, n * sizeof(Word))
    elif kind == KEY_SIGNED:
        for i in range(n):
            out[i] = signed_key(x[i])
    elif kind == KEY_TIME:
        for i in range(n):
            out[i] = signed_key(x[i] + 1)
    elif Word is uint64_t:
        simd.decode_wide(x, n, out)
    else:
        simd.decode_narrow(x, n, out)


cdef void load_keys(void* ctx, int64_t lo, int64_t hi, void* words) noexcept nogil:
    cdef NumberSort* k = <NumberSort*>ctx
    if k.itemsize == 8:
        encode[uint64_t](k.kind, k.descending, <const uint64_t*>k.src + lo, hi - lo, <uint64_t*>words)
    else:
        encode[uint32_t](k.kind, k.descending, <const uint32_t*>k.src + lo, hi - lo, <uint32_t*>words)


cdef void store_keys(void* ctx, const void* words, int64_t n, int64_t at) noexcept nogil:
    cdef NumberSort* k = <NumberSort*>ctx
    if k.itemsize == 8:
        decode[uint64_t](k.kind, k.descending, <const uint64_t*>words, n, <uint64_t*>k.dst + at)
    else:
        decode[uint32_t](k.kind, k.descending, <const uint32_t*>words, n, <uint32_t*>k.dst + at)


# ---- zeros and NaNs ---------------------------------------------------------
# Zeros of both signs are equal, and so are NaNs; as words they are not.  A stable
# sort puts them back in the order in which they came.

cdef struct Restore:
    NumberSort* keys
    bint zeros              # whether zeros are restored; else NaNs
    int64_t* before         # [block]: counts, then sums
    int64_t begin           # of their run in the result
    int64_t end             # where that run ends


cdef inline bint is_meant(const Restore* r, Word x) noexcept nogil:
    cdef Word magnitude = x << 1
    if r.zeros:
        return magnitude == 0
    return magnitude > 2 * infinity(x)


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


cdef uint64_t key_of_item(const NumberSort* k, const char* items, int64_t i) noexcept nogil:
    cdef uint64_t wide
    cdef uint32_t narrow
    if k.itemsize == 8:
        encode[uint64_t](k.kind, k.descending, <const uint64_t*>items + i, 1, &wide)
        return wide
    encode[uint32_t](k.kind, k.descending, <const uint32_t*>items + i, 1, &narrow)
    return narrow


cdef int64_t first_from(const NumberSort* k, uint64_t key) noexcept nogil:
    """The place of the first item of the result that is not before a key."""
    cdef int64_t low = 0, high = k.n, i
    while low < high:
        i = (low + high) >> 1
        if key_of_item(k, k.dst, i) < key:
            low = i + 1
        else:
            high = i
    return low


cdef int restore_equals(Worker* w, NumberSort* k, bint zeros) noexcept nogil:
    cdef Restore r
    cdef uint64_t last, least
    cdef int64_t end = k.n, blocks = (k.n + BLOCK_WORDS - 1) // BLOCK_WORDS
    cdef int rc
    if k.itemsize == 8:
        last = last_word[uint64_t](KEY_FLOAT, 0)
    else:
        last = last_word[uint32_t](KEY_FLOAT, 0)
    least = last + 1
    if zeros:
        # -0.0 and 0.0 are the two middle ones of all words of numbers, of which there is an even number.
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
        sum_counts(r.before, blocks, 1)
        rc = run_blocks(w, write_equals_leaf, &r, BLOCK_WORDS, k.n)
    free(r.before)
    return rc


# ---- one or two bytes -------------------------------------------------------

cdef struct Counting:
    NumberSort* keys
    int64_t values          # 256 or 65536
    int64_t block           # items of a block
    int64_t* counts         # [block][bit pattern]; the sum is in block 0
    int64_t* ends           # [rank]: where the run of the rank-th value ends


# One or two bytes.
ctypedef fused Short:
    uint8_t
    uint16_t


cdef inline Short pattern_of_word(const NumberSort* k, Short word) noexcept nogil:
    cdef Short sign = sign_bit(word)
    if k.descending:
        word = turned(word, last_word(k.kind, word))
    if k.kind == KEY_UNSIGNED:
        return word
    if k.kind == KEY_SIGNED:
        return signed_key(word)
    # Half precision; see simd/keys.h.
    word += ~infinity(word) ^ sign
    return word ^ sign if word & sign else ~word


cdef inline int64_t pattern_of(const Counting* c, int64_t rank) noexcept nogil:
    """The bits of the rank-th value in sorted order."""
    if c.values == 256:
        return pattern_of_word[uint8_t](c.keys, <uint8_t>rank)
    return pattern_of_word[uint16_t](c.keys, <uint16_t>rank)


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


cdef int sort_bytes(Worker* w, NumberSort* k) noexcept nogil:
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
                # dst is half written, and the items are known only from their counts: write the rest.
                runs_leaf(NULL, &c, 0, k.n)
    free(c.counts)
    free(c.ends)
    return rc


# ---- sorts ------------------------------------------------------------------

cdef int sort_words_of(Worker* w, NumberSort* k) noexcept nogil:
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
    s.whole = NULL
    if k.n > LEAF_WORDS and not k.descending and k.kind in (KEY_UNSIGNED, KEY_SIGNED):
        s.whole = leaf_of_integers(s.wide, k.kind == KEY_SIGNED)
    s.floats = k.kind == KEY_FLOAT and not k.descending
    s.spare = NULL
    if k.src == k.dst and k.n > LEAF_WORDS:
        s.spare = <char*>alloc_array(k.n * k.itemsize)
        if s.spare == NULL:
            return ENOMEM
    rc = sort_words(w, &s)
    free(s.spare)
    return rc


cdef int sort_keys(Worker* w, NumberSort* k) noexcept nogil:
    cdef NumberSort apart
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
        # Only a copy of the items still tells in which order equal ones came.
        copy = alloc_array(k.n * k.itemsize)
        if copy == NULL:
            return ENOMEM
        rc = copy_shared(w, copy, k.src, k.n * k.itemsize)
        apart.src = <const char*>copy
    if rc == 0:
        rc = sort_words_of(w, &apart)
        if rc == 0:
            rc = restore_equals(w, &apart, True)
        if rc == 0:
            rc = restore_equals(w, &apart, False)
        if rc != 0 and copy != NULL:
            memcpy(k.dst, copy, k.n * k.itemsize)
    free(copy)
    return rc


cdef int sort_rows_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef NumberSort k
    cdef int64_t i, bytes
    cdef int rc
    for i in range(lo, hi):
        k = (<NumberSort*>ctx)[0]
        bytes = i * k.n * k.itemsize
        k.src += bytes
        k.dst += bytes
        rc = sort_keys(NULL, &k)
        if rc != 0:
            return rc
    return 0


cdef int sort_rows_of_keys(Worker* w, NumberSort* k, int64_t rows) noexcept nogil:
    # Leaves of some thousand items, so that short rows are not a leaf each.
    return run_blocks(w, sort_rows_leaf, k, 1 + 4096 // (k.n + 1), rows)


cdef int sort_in_place(Worker* w, KeyKind kind, int itemsize, void* a, int64_t n) noexcept nogil:
    cdef NumberSort k
    k.src = k.dst = <char*>a
    k.n = n
    k.itemsize = itemsize
    k.kind = kind
    k.descending = False
    k.stable = False
    return sort_keys(w, &k) if n > 1 else 0
