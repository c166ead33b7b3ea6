"""Moving items; see move.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport int32_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from pyblitz.kernels.map cimport LEAF_BYTES, map_grain, map_of_loop, map_run
from pyblitz.kernels.prefetch cimport prefetch_l2
from pyblitz.runtime.atomic cimport atomic_u32, u32_load_relaxed, u32_store_relaxed
from pyblitz.runtime.bridge cimport Bridge, bridge_init, bridge_run, leaf_fn
from pyblitz.runtime.pool cimport must_stop

cdef extern from *:
    bint unlikely(bint) noexcept nogil      # Cython's own

ctypedef struct Pair:
    uint64_t a
    uint64_t b

ctypedef fused Word:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    Pair

ctypedef fused Index:
    int32_t
    int64_t


cdef inline int bridged(Worker* w, leaf_fn leaf, void* ctx, int64_t grain, int64_t n) noexcept nogil:
    cdef Bridge b
    bridge_init(&b, leaf, NULL, ctx, grain)
    return bridge_run(w, &b, n)


cdef inline int word_of(intptr_t itemsize, intptr_t bits) noexcept nogil:
    """The size of the word that an item is; 0: it is not, or not aligned as one.
    bits: addresses and strides, or-ed."""
    if itemsize == 1:
        return 1
    if itemsize == 2 or itemsize == 4 or itemsize == 8:
        return 0 if bits & (itemsize - 1) else itemsize
    if itemsize == 16:
        return 0 if bits & 7 else 16
    return 0


cdef inline int64_t leaf_items(int64_t bytes_per_item) noexcept nogil:
    """Items of a leaf; one, if they are large."""
    cdef int64_t n = LEAF_BYTES // bytes_per_item if bytes_per_item > 0 else LEAF_BYTES
    return n if n > 0 else 1


# ---- selection by a mask ----------------------------------------------------
# Two passes: count the mask by blocks, then write each block where the prefix sums
# say.  The second is Blelloch's pack ("Prefix sums and their applications", 1990)
# without the flags' array of offsets, which would cost more than the items.

cdef enum:
    SELECT_BLOCK = 32768
    COUNT_BYTES = 131072
    # Mask bytes whose count fits into a byte for each of eight lanes.
    LANE_BYTES = 1024


cdef inline uint64_t truths(uint64_t word) noexcept nogil:
    """1 in each byte that is not 0."""
    cdef uint64_t low = 0x7F7F7F7F7F7F7F7Fu
    return ((((word & low) + low) | word) >> 7) & 0x0101010101010101u


cdef int64_t count_true(const uint8_t* mask, int64_t n) noexcept nogil:
    cdef int64_t i = 0, k, words, total = 0
    cdef uint64_t word, lanes
    while n - i >= 8:
        words = min(n - i, <int64_t>LANE_BYTES) >> 3
        lanes = 0
        for k in range(words):
            memcpy(&word, mask + i + 8 * k, 8)
            lanes += truths(word)
        lanes = (lanes & 0x00FF00FF00FF00FFu) + ((lanes >> 8) & 0x00FF00FF00FF00FFu)
        total += (lanes * 0x0001000100010001u) >> 48
        i += 8 * words
    while i < n:
        total += mask[i] != 0
        i += 1
    return total


cdef int64_t select_block(int64_t n, intptr_t itemsize) noexcept nogil:
    return min(leaf_items(itemsize + 1), <int64_t>SELECT_BLOCK)


cdef int64_t select_blocks(const Select* s) noexcept nogil:
    return (s.n + s.block - 1) // s.block


cdef int count_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Select* s = <Select*>ctx
    cdef int64_t b
    for b in range(lo, hi):
        s.before[b + 1] = count_true(s.mask + b * s.block, min(s.block, s.n - b * s.block))
    return 0


cdef int select_count(Worker* w, Select* s) noexcept nogil:
    cdef int64_t b, blocks = select_blocks(s)
    cdef int rc = bridged(w, count_leaf, s, 1 + COUNT_BYTES // s.block, blocks)
    s.before[0] = 0
    for b in range(blocks):
        s.before[b + 1] += s.before[b]
    return rc


cdef bint filter_words(const Word* src, const uint8_t* mask, int64_t n, Word* to,
                       Word* end) noexcept nogil:
    """Every item is stored, and the next one over it if it was not selected.  So
    eight are taken at once only while there is room for eight: past `end` is what
    another worker writes.  False: those selected do not end there."""
    cdef uint64_t word
    cdef int64_t i = 0
    cdef int k
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
                    to[0] = src[i + k]
                    to += 1
        elif word == 0x0101010101010101u:
            memcpy(to, src + i, 8 * sizeof(Word))
            to += 8
        else:
            for k in range(8):
                to[0] = src[i + k]
                to += mask[i + k] != 0
        i += 8
    while i < n:
        if mask[i]:
            if to == end:
                return False
            to[0] = src[i]
            to += 1
        i += 1
    return to == end


cdef bint filter_indices(const uint8_t* mask, int64_t first, int64_t n, int64_t* to,
                         int64_t* end) noexcept nogil:
    """As filter_words."""
    cdef uint64_t word
    cdef int64_t i = 0
    cdef int k
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
                    to[0] = first + i + k
                    to += 1
        else:
            for k in range(8):
                to[0] = first + i + k
                to += mask[i + k] != 0
        i += 8
    while i < n:
        if mask[i]:
            if to == end:
                return False
            to[0] = first + i
            to += 1
        i += 1
    return to == end


cdef bint split_words(const Word* src, const uint8_t* mask, int64_t n, Word* yes, Word* yes_end,
                      Word* no, Word* no_end) noexcept nogil:
    """Every item is stored to both, and the next one over it where it was not
    wanted: see filter_words."""
    cdef int64_t i = 0, t = 0, yeses = yes_end - yes, noes = no_end - no
    cdef int k
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


cdef bint split_bytes(const Select* s, int64_t lo, int64_t hi, char* yes, char* yes_end,
                      char* no, char* no_end) noexcept nogil:
    """Items of any size."""
    cdef int64_t i
    for i in range(lo, hi):
        if s.mask[i]:
            if yes == yes_end:
                return False
            memcpy(yes, s.src + i * s.itemsize, s.itemsize)
            yes += s.itemsize
        elif s.no != NULL:
            if no == no_end:
                return False
            memcpy(no, s.src + i * s.itemsize, s.itemsize)
            no += s.itemsize
    return yes == yes_end


cdef bint select_words(const Select* s, int64_t lo, int64_t hi, Word* yes, Word* yes_end,
                       Word* no, Word* no_end) noexcept nogil:
    cdef const Word* src = <const Word*>s.src + lo
    if s.no == NULL:
        return filter_words(src, s.mask + lo, hi - lo, yes, yes_end)
    return split_words(src, s.mask + lo, hi - lo, yes, yes_end, no, no_end)


cdef bint select_items(const Select* s, int64_t lo, int64_t hi) noexcept nogil:
    """One block, in the bounds that its count set.  False: its mask is another now."""
    cdef int64_t b = lo // s.block
    cdef int64_t first = s.before[b], last = s.before[b + 1]
    cdef intptr_t size = s.itemsize
    cdef char* yes = s.yes + first * size
    cdef char* yes_end = s.yes + last * size
    cdef char* no = NULL
    cdef char* no_end = NULL
    cdef int word
    if s.src == NULL:
        return filter_indices(s.mask + lo, lo, hi - lo, <int64_t*>yes, <int64_t*>yes_end)
    if s.no != NULL:
        no = s.no + (lo - first) * size
        no_end = s.no + (hi - last) * size
    if last - first == hi - lo:
        memcpy(yes, s.src + lo * size, (hi - lo) * size)
        return True
    if last == first:
        if s.no != NULL:
            memcpy(no, s.src + lo * size, (hi - lo) * size)
        return True
    word = word_of(size, <intptr_t>s.src | <intptr_t>s.yes | <intptr_t>s.no)
    if word == 8:
        return select_words[uint64_t](s, lo, hi, <uint64_t*>yes, <uint64_t*>yes_end,
                                      <uint64_t*>no, <uint64_t*>no_end)
    if word == 4:
        return select_words[uint32_t](s, lo, hi, <uint32_t*>yes, <uint32_t*>yes_end,
                                      <uint32_t*>no, <uint32_t*>no_end)
    if word == 1:
        return select_words[uint8_t](s, lo, hi, <uint8_t*>yes, <uint8_t*>yes_end,
                                     <uint8_t*>no, <uint8_t*>no_end)
    if word == 2:
        return select_words[uint16_t](s, lo, hi, <uint16_t*>yes, <uint16_t*>yes_end,
                                      <uint16_t*>no, <uint16_t*>no_end)
    if word == 16:
        return select_words[Pair](s, lo, hi, <Pair*>yes, <Pair*>yes_end, <Pair*>no, <Pair*>no_end)
    return split_bytes(s, lo, hi, yes, yes_end, no, no_end)


cdef int select_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Select* s = <Select*>ctx
    if not select_items(s, lo, hi):
        # relaxed: read after the join
        u32_store_relaxed(&s.changed, 1)
    return 0


cdef int select_write(Worker* w, Select* s) noexcept nogil:
    u32_store_relaxed(&s.changed, 0)
    return bridged(w, select_leaf, s, s.block, s.n)


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
    return bridged(w, unravel_leaf, u, leaf_items(8 + 8 * u.dims), u.n)


# ---- gathering --------------------------------------------------------------

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


cdef inline bint ready(const Take* t, int64_t lo, int64_t count, int64_t* to) noexcept nogil:
    if t.index_size == 4:
        return make_ready(<const int32_t*>t.index + lo, count, t.length, t.mode, to)
    return make_ready(<const int64_t*>t.index + lo, count, t.length, t.mode, to)


cdef void gather(const Word* src, const int64_t* index, int64_t count, Word* dst) noexcept nogil:
    cdef int64_t k, ahead = max(count - AHEAD, <int64_t>0)
    for k in range(ahead):
        prefetch_l2(src + index[k + AHEAD])
        dst[k] = src[index[k]]
    for k in range(ahead, count):
        dst[k] = src[index[k]]


cdef void gather_rows(const Take* t, const Word* src, Word* dst, int64_t lo, int64_t hi,
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
    cdef int word = word_of(t.itemsize, <intptr_t>t.src | <intptr_t>t.dst)
    if word == 8:
        gather_rows(t, <const uint64_t*>t.src, <uint64_t*>t.dst, lo, hi, row, at, index)
    elif word == 4:
        gather_rows(t, <const uint32_t*>t.src, <uint32_t*>t.dst, lo, hi, row, at, index)
    elif word == 1:
        gather_rows(t, <const uint8_t*>t.src, <uint8_t*>t.dst, lo, hi, row, at, index)
    elif word == 2:
        gather_rows(t, <const uint16_t*>t.src, <uint16_t*>t.dst, lo, hi, row, at, index)
    elif word == 16:
        gather_rows(t, <const Pair*>t.src, <Pair*>t.dst, lo, hi, row, at, index)
    else:
        gather_bytes(t, lo, hi, row, at, index)


cdef bint gather_checked(const Take* t, const Index* index, const Word* src, Word* dst,
                         int64_t lo, int64_t hi) noexcept nogil:
    """From a source that a cache holds, each index checked where it is used."""
    cdef uint64_t length = t.length
    cdef int64_t k, i
    for k in range(lo, hi):
        i = index[k]
        i += <int64_t>length & (i >> 63)
        if unlikely(<uint64_t>i >= length):
            return False
        dst[k] = src[i]
    return True


cdef bint take_checked(const Take* t, int64_t lo, int64_t hi, bint* good) noexcept nogil:
    """False: it is not for such items."""
    cdef int word = word_of(t.itemsize, <intptr_t>t.src | <intptr_t>t.dst)
    if t.mode != INDEX_RAISE or t.length * t.itemsize > CACHED_BYTES:
        return False
    if word == 8 and t.index_size == 8:
        good[0] = gather_checked(t, <const int64_t*>t.index, <const uint64_t*>t.src, <uint64_t*>t.dst, lo, hi)
    elif word == 8:
        good[0] = gather_checked(t, <const int32_t*>t.index, <const uint64_t*>t.src, <uint64_t*>t.dst, lo, hi)
    elif word == 4 and t.index_size == 8:
        good[0] = gather_checked(t, <const int64_t*>t.index, <const uint32_t*>t.src, <uint32_t*>t.dst, lo, hi)
    elif word == 4:
        good[0] = gather_checked(t, <const int32_t*>t.index, <const uint32_t*>t.src, <uint32_t*>t.dst, lo, hi)
    else:
        return False
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
    return bridged(w, take_leaf, t, leaf_items(t.itemsize + 8), t.outer * t.count)


cdef bint index_is_ready(Take* t) noexcept nogil:
    cdef int64_t buffer[READY]
    cdef int64_t lo = 0, n
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
    return bridged(w, index_leaf, &x, leaf_items(8), t.count)


# ---- repetition -------------------------------------------------------------

cdef inline void repeat_each(const Word* src, Word* dst, int64_t items, int each) noexcept nogil:
    cdef int64_t i
    cdef int k
    for i in range(items):
        for k in range(each):
            dst[each * i + k] = src[i]


cdef int64_t repeat_few(const Word* src, Word* dst, int64_t items, int64_t each) noexcept nogil:
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


cdef void repeat_words(const Repeat* r, const Word* src, Word* dst, int64_t item, int64_t lo,
                       int64_t hi) noexcept nogil:
    """Results lo .. hi of one row; the first is of `item`."""
    cdef int64_t k, end
    cdef Word x
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


cdef int64_t part_at(const int64_t* ends, int64_t parts, int64_t at) noexcept nogil:
    """The first part that ends past `at`."""
    cdef int64_t low = 0, high = parts, mid
    while low < high:
        mid = (low + high) >> 1
        if ends[mid] > at:
            high = mid
        else:
            low = mid + 1
    return low


cdef int repeat_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Repeat* r = <Repeat*>ctx
    cdef int64_t row = lo // r.total, at = lo % r.total, n, item
    cdef const char* src
    cdef char* dst
    cdef int word = word_of(r.itemsize, <intptr_t>r.src | <intptr_t>r.dst)
    while lo < hi:
        n = min(hi - lo, r.total - at)
        item = at // r.each if r.ends == NULL else part_at(r.ends, r.length, at)
        src = r.src + row * r.length * r.itemsize
        dst = r.dst + row * r.total * r.itemsize
        if word == 8:
            repeat_words(r, <const uint64_t*>src, <uint64_t*>dst, item, at, at + n)
        elif word == 4:
            repeat_words(r, <const uint32_t*>src, <uint32_t*>dst, item, at, at + n)
        elif word == 1:
            repeat_words(r, <const uint8_t*>src, <uint8_t*>dst, item, at, at + n)
        elif word == 2:
            repeat_words(r, <const uint16_t*>src, <uint16_t*>dst, item, at, at + n)
        elif word == 16:
            repeat_words(r, <const Pair*>src, <Pair*>dst, item, at, at + n)
        else:
            repeat_bytes(r, src, dst, item, at, at + n)
        lo += n
        at = 0
        row += 1
    return 0


cdef int repeat_run(Worker* w, Repeat* r) noexcept nogil:
    return bridged(w, repeat_leaf, r, leaf_items(r.itemsize), r.outer * r.total)


cdef struct Ends:
    const int64_t* counts
    int64_t* ends
    int64_t block
    # [block + 1]: the sum of its counts, then of those before it
    int64_t* before
    int64_t* bits       # [block]
    atomic_u32 changed


cdef int ends_sum_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Ends* x = <Ends*>ctx
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
    cdef Ends* x = <Ends*>ctx
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
    cdef Ends x
    cdef int64_t b, blocks, own, sum = 0
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
    rc = bridged(w, ends_sum_leaf, &x, x.block, n)
    for b in range(blocks):
        bits[0] |= x.bits[b]
    if rc == 0 and are_counts(bits[0]):
        for b in range(blocks):
            own = x.before[b]
            x.before[b] = sum
            sum += own
        x.before[blocks] = sum
        rc = bridged(w, ends_leaf, &x, x.block, n)
    changed[0] = u32_load_relaxed(&x.changed) != 0
    free(x.before)
    return rc


# ---- joining ----------------------------------------------------------------

cdef enum:
    RUN_BYTES = 4194304

cdef int join_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    """Bytes lo .. hi of the result."""
    cdef Join* j = <Join*>ctx
    cdef int64_t total = j.ends[j.parts - 1]
    cdef int64_t row = lo // total, at = lo % total, n, begin, size
    cdef int64_t part = part_at(j.ends, j.parts, at)
    while lo < hi:
        begin = j.ends[part - 1] if part > 0 else 0
        size = j.ends[part] - begin
        n = min(j.ends[part] - at, hi - lo)
        memcpy(j.dst + lo, j.src[part] + row * size + (at - begin), n)
        lo += n
        at += n
        part += 1
        if part == j.parts:
            part = at = 0
            row += 1
    return 0


cdef inline int64_t run_bytes(int64_t bytes) noexcept nogil:
    """Of a leaf that is one memcpy, which is faster on long runs."""
    return min(max(bytes >> 5, <int64_t>LEAF_BYTES), <int64_t>RUN_BYTES)


cdef int join_run(Worker* w, Join* j) noexcept nogil:
    cdef int64_t bytes = j.outer * j.ends[j.parts - 1]
    return bridged(w, join_leaf, j, run_bytes(bytes), bytes)


# ---- elementwise ------------------------------------------------------------

cdef void copy_words(char** args, const intptr_t* dims, const intptr_t* steps,
                     Word* data) noexcept nogil:
    """`data` only names the type."""
    cdef intptr_t i, n = dims[0], s = steps[0], d = steps[1]
    cdef const char* src = args[0]
    cdef char* dst = args[1]
    cdef Word x
    if d == <intptr_t>sizeof(Word) and s == d:
        memcpy(dst, src, n * s)
    elif d == <intptr_t>sizeof(Word) and s == 0:
        x = (<const Word*>src)[0]
        for i in range(n):
            (<Word*>dst)[i] = x
    elif d == <intptr_t>sizeof(Word):
        for i in range(n):
            (<Word*>dst)[i] = (<const Word*>(src + i * s))[0]
    else:
        for i in range(n):
            (<Word*>(dst + i * d))[0] = (<const Word*>(src + i * s))[0]


cdef void copy_bytes(char** args, const intptr_t* dims, const intptr_t* steps,
                     void* data) noexcept nogil:
    cdef intptr_t i, n = dims[0], s = steps[0], d = steps[1], size = <intptr_t>data
    if s == size and d == size:
        memcpy(args[1], args[0], n * size)
        return
    for i in range(n):
        memcpy(args[1] + i * d, args[0] + i * s, size)


cdef loop_fn copy_loop(intptr_t itemsize, intptr_t bits) noexcept nogil:
    cdef int word = word_of(itemsize, bits)
    if word == 8:
        return <loop_fn>(copy_words[uint64_t])
    if word == 4:
        return <loop_fn>(copy_words[uint32_t])
    if word == 1:
        return <loop_fn>(copy_words[uint8_t])
    if word == 2:
        return <loop_fn>(copy_words[uint16_t])
    if word == 16:
        return <loop_fn>(copy_words[Pair])
    return copy_bytes


cdef inline Word choose(uint8_t c, Word x, Word y) noexcept nogil:
    cdef Word bits
    if Word is Pair:
        return x if c else y
    else:
        # Without a branch, and in a form that is vectorised.
        bits = <Word>0 - <Word>(c != 0)
        return (x & bits) | (y & ~bits)


cdef void where_words(char** args, const intptr_t* dims, const intptr_t* steps,
                      Word* data) noexcept nogil:
    cdef intptr_t i, n = dims[0], size = sizeof(Word)
    cdef const uint8_t* mask = <const uint8_t*>args[0]
    cdef const Word* x = <const Word*>args[1]
    cdef const Word* y = <const Word*>args[2]
    cdef Word* to = <Word*>args[3]
    cdef Word x0 = x[0], y0 = y[0]
    cdef const char* one
    if steps[0] == 1 and steps[3] == size and steps[1] == size and steps[2] == size:
        for i in range(n):
            to[i] = choose(mask[i], x[i], y[i])
    elif steps[0] == 1 and steps[3] == size and steps[1] == size and steps[2] == 0:
        for i in range(n):
            to[i] = choose(mask[i], x[i], y0)
    elif steps[0] == 1 and steps[3] == size and steps[1] == 0 and steps[2] == size:
        for i in range(n):
            to[i] = choose(mask[i], x0, y[i])
    elif steps[0] == 1 and steps[3] == size and steps[1] == 0 and steps[2] == 0:
        for i in range(n):
            to[i] = choose(mask[i], x0, y0)
    else:
        for i in range(n):
            one = args[1] + i * steps[1] if mask[i * steps[0]] else args[2] + i * steps[2]
            (<Word*>(args[3] + i * steps[3]))[0] = (<const Word*>one)[0]


cdef void where_bytes(char** args, const intptr_t* dims, const intptr_t* steps,
                      void* data) noexcept nogil:
    cdef intptr_t i, size = <intptr_t>data
    cdef const char* one
    for i in range(dims[0]):
        one = args[1] + i * steps[1] if args[0][i * steps[0]] else args[2] + i * steps[2]
        memcpy(args[3] + i * steps[3], one, size)


cdef loop_fn where_loop(intptr_t itemsize, intptr_t bits) noexcept nogil:
    cdef int word = word_of(itemsize, bits)
    if word == 8:
        return <loop_fn>(where_words[uint64_t])
    if word == 4:
        return <loop_fn>(where_words[uint32_t])
    if word == 1:
        return <loop_fn>(where_words[uint8_t])
    if word == 2:
        return <loop_fn>(where_words[uint16_t])
    if word == 16:
        return <loop_fn>(where_words[Pair])
    return where_bytes


cdef intptr_t map_bits(const Map* m, int first) noexcept nogil:
    cdef intptr_t bits = 0
    cdef int k, d
    for k in range(first, m.operands):
        bits |= <intptr_t>m.base[k]
        for d in range(m.dims):
            bits |= m.strides[d][k]
    return bits


# ---- copying between orders -------------------------------------------------
# In tiles, each read along the source's order into a contiguous buffer and written
# along the target's: every cache line of both is used at once, and none is fetched
# twice, also where strides are powers of two and lines of a tile exclude each other.

cdef enum:
    TILE_WORDS = 2048       # of 8 bytes

cdef struct Tiles:
    Map* map
    int word
    int along           # the axis in which the source is densest; the target: the last
    int64_t high        # items of a tile along the last axis
    int64_t wide        # and along the other
    int64_t across      # tiles along the last axis
    int64_t down        # and along the other


cdef void tile_words(const char* src, intptr_t src_row, intptr_t src_item, char* dst,
                     intptr_t dst_row, intptr_t dst_item, int64_t rows, int64_t items,
                     Word* buffer) noexcept nogil:
    """Transposes: row r of the source is item r of every row of the target."""
    cdef int64_t r, i
    for r in range(rows):
        if src_item == <intptr_t>sizeof(Word):
            memcpy(buffer + r * items, src + r * src_row, items * sizeof(Word))
        else:
            for i in range(items):
                buffer[r * items + i] = (<const Word*>(src + r * src_row + i * src_item))[0]
    for i in range(items):
        if dst_item == <intptr_t>sizeof(Word):
            for r in range(rows):
                (<Word*>(dst + i * dst_row))[r] = buffer[r * items + i]
        else:
            for r in range(rows):
                (<Word*>(dst + i * dst_row + r * dst_item))[0] = buffer[r * items + i]


cdef int tile_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Tiles* t = <Tiles*>ctx
    cdef Map* m = t.map
    cdef uint64_t buffer[TILE_WORDS]
    cdef int last = m.dims - 1, d
    cdef int64_t i, rest, r, c, rows, items, k
    cdef const char* src
    cdef char* dst
    for i in range(lo, hi):
        c = (i % t.across) * t.high
        rest = i // t.across
        r = (rest % t.down) * t.wide
        rest = rest // t.down
        rows = min(t.high, m.shape[last] - c)
        items = min(t.wide, m.shape[t.along] - r)
        src = m.base[0] + c * m.strides[last][0] + r * m.strides[t.along][0]
        dst = m.base[1] + c * m.strides[last][1] + r * m.strides[t.along][1]
        for d in range(last - 1, -1, -1):
            if d != t.along:
                k = rest % m.shape[d]
                rest = rest // m.shape[d]
                src += k * m.strides[d][0]
                dst += k * m.strides[d][1]
        if t.word == 8:
            tile_words(src, m.strides[last][0], m.strides[t.along][0], dst,
                       m.strides[t.along][1], m.strides[last][1], rows, items, <uint64_t*>buffer)
        elif t.word == 4:
            tile_words(src, m.strides[last][0], m.strides[t.along][0], dst,
                       m.strides[t.along][1], m.strides[last][1], rows, items, <uint32_t*>buffer)
        elif t.word == 2:
            tile_words(src, m.strides[last][0], m.strides[t.along][0], dst,
                       m.strides[t.along][1], m.strides[last][1], rows, items, <uint16_t*>buffer)
        elif t.word == 1:
            tile_words(src, m.strides[last][0], m.strides[t.along][0], dst,
                       m.strides[t.along][1], m.strides[last][1], rows, items, <uint8_t*>buffer)
        else:
            tile_words(src, m.strides[last][0], m.strides[t.along][0], dst,
                       m.strides[t.along][1], m.strides[last][1], rows, items, <Pair*>buffer)
    return 0


cdef inline int64_t size_of(int64_t stride) noexcept nogil:
    return stride if stride >= 0 else -stride


cdef int copy_run(Worker* w, Map* m, intptr_t itemsize) noexcept nogil:
    cdef Tiles t
    cdef int last = m.dims - 1, d
    cdef int64_t tiles, edge
    cdef intptr_t bits = map_bits(m, 0)
    map_of_loop(m, copy_loop(itemsize, bits), <void*>itemsize)
    if m.dims == 1 and m.strides[0][0] == itemsize and m.strides[0][1] == itemsize:
        return map_run(w, m, run_bytes(m.size * itemsize) // itemsize + 1)
    t.word = word_of(itemsize, bits)
    t.along = last
    for d in range(last):
        if m.strides[d][0] != 0 and size_of(m.strides[d][0]) < size_of(m.strides[t.along][0]):
            t.along = d
    # Where neighbours in the target are within a cache line of the source, or there
    # are few of them to lose lines for, a loop is faster.
    if (t.word == 0 or t.along == last or size_of(m.strides[last][0]) < 64
            or m.shape[t.along] < 4):
        return map_run(w, m, map_grain(2 * itemsize))
    t.map = m
    edge = 32 if itemsize >= 8 else 64
    t.high = min(edge, m.shape[last])
    t.wide = min(edge * edge // t.high, m.shape[t.along])
    t.high = min(edge * edge // t.wide, m.shape[last])
    t.across = (m.shape[last] + t.high - 1) // t.high
    t.down = (m.shape[t.along] + t.wide - 1) // t.wide
    tiles = t.across * t.down
    for d in range(last):
        if d != t.along:
            tiles *= m.shape[d]
    return bridged(w, tile_leaf, &t, leaf_items(2 * itemsize * t.high * t.wide), tiles)


# ---- scattering -------------------------------------------------------------
# One pass of radix sort by destination (see sort.pyx) keeps the order of equal
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


cdef void put_records(Put* p, int64_t lo, int64_t hi, const Word* values, int64_t* to) noexcept nogil:
    cdef int64_t i, k, at = lo % p.period, b
    for i in range(lo, hi):
        b = p.index[i] >> p.shift
        k = to[b]
        to[b] = k + 1
        p.records[k].index = p.index[i]
        if Word is Pair:
            p.records[k].value = at
        else:
            p.records[k].value = values[at]
        at += 1
        if at == p.period:
            at = 0


cdef int put_scatter_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Put* p = <Put*>ctx
    cdef int64_t* to = p.offsets + (lo // p.block) * p.buckets
    cdef int word = put_word(p)
    if word == 8:
        put_records(p, lo, hi, <const uint64_t*>p.values, to)
    elif word == 4:
        put_records(p, lo, hi, <const uint32_t*>p.values, to)
    elif word == 2:
        put_records(p, lo, hi, <const uint16_t*>p.values, to)
    elif word == 1:
        put_records(p, lo, hi, <const uint8_t*>p.values, to)
    else:
        put_records(p, lo, hi, <const Pair*>p.values, to)
    return 0


cdef inline int put_word(const Put* p) noexcept nogil:
    return word_of(p.itemsize, <intptr_t>p.dst | <intptr_t>p.values)


cdef void put_words(const Put* p, int64_t lo, int64_t hi, Word* dst) noexcept nogil:
    cdef int64_t i
    for i in range(lo, hi):
        if Word is Pair:
            memcpy(<char*>dst + p.records[i].index * p.itemsize,
                   p.values + <int64_t>p.records[i].value * p.itemsize, p.itemsize)
        else:
            dst[p.records[i].index] = <Word>p.records[i].value


cdef int put_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    """Buckets lo .. hi, each in the order of the indices."""
    cdef Put* p = <Put*>ctx
    cdef int word = put_word(p)
    lo = p.starts[lo]
    hi = p.starts[hi]
    if word == 8:
        put_words(p, lo, hi, <uint64_t*>p.dst)
    elif word == 4:
        put_words(p, lo, hi, <uint32_t*>p.dst)
    elif word == 2:
        put_words(p, lo, hi, <uint16_t*>p.dst)
    elif word == 1:
        put_words(p, lo, hi, <uint8_t*>p.dst)
    else:
        put_words(p, lo, hi, <Pair*>p.dst)
    return 0


cdef struct Ascending:
    const int64_t* index
    atomic_u32 broken


cdef int ascending_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Ascending* x = <Ascending*>ctx
    cdef int64_t i
    cdef bint broken = False
    for i in range(lo if lo > 0 else 1, hi):
        broken |= x.index[i - 1] >= x.index[i]
    if broken:
        u32_store_relaxed(&x.broken, 1)
    return 0


cdef int ascending(Worker* w, const int64_t* index, int64_t n, bint* answer) noexcept nogil:
    """Whether they rise, each above the last: none occurs twice."""
    cdef Ascending x
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
    rc = bridged(w, ascending_leaf, &x, leaf_items(8), n)
    answer[0] = u32_load_relaxed(&x.broken) == 0
    return rc


cdef void put_straight(const Put* p, int64_t lo, int64_t hi, Word* dst, const Word* values) noexcept nogil:
    cdef int64_t i, at = lo % p.period
    for i in range(lo, hi):
        if Word is Pair:
            memcpy(<char*>dst + p.index[i] * p.itemsize, <const char*>values + at * p.itemsize,
                   p.itemsize)
        else:
            dst[p.index[i]] = values[at]
        at += 1
        if at == p.period:
            at = 0


cdef int put_straight_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Put* p = <Put*>ctx
    cdef int word = put_word(p)
    if word == 8:
        put_straight(p, lo, hi, <uint64_t*>p.dst, <const uint64_t*>p.values)
    elif word == 4:
        put_straight(p, lo, hi, <uint32_t*>p.dst, <const uint32_t*>p.values)
    elif word == 2:
        put_straight(p, lo, hi, <uint16_t*>p.dst, <const uint16_t*>p.values)
    elif word == 1:
        put_straight(p, lo, hi, <uint8_t*>p.dst, <const uint8_t*>p.values)
    else:
        put_straight(p, lo, hi, <Pair*>p.dst, <const Pair*>p.values)
    return 0


cdef int put_ascending(Worker* w, Put* p, bint* done) noexcept nogil:
    cdef int rc = ascending(w, p.index, p.count, done)
    if rc == 0 and done[0]:
        rc = bridged(w, put_straight_leaf, p, leaf_items(p.itemsize + 16), p.count)
    return rc


cdef int put_in_order(Worker* w, Put* p) noexcept nogil:
    cdef int64_t lo = 0, until
    while lo < p.count:
        if must_stop(w, 0):
            return -1
        until = min(p.count, lo + 64 * PUT_BLOCK_ITEMS)
        put_straight_leaf(w, p, lo, until)
        lo = until
    return 0


cdef int put_run(Worker* w, Put* p) noexcept nogil:
    cdef int64_t blocks, block, b, n, sum = 0
    cdef int rc
    if p.length * p.itemsize <= PUT_CACHED_BYTES:
        return put_in_order(w, p)
    p.shift = 0
    while (p.length - 1) >> p.shift >= PUT_BUCKETS:
        p.shift += 1
    p.buckets = ((p.length - 1) >> p.shift) + 1
    p.block = max((p.count + PUT_BLOCKS - 1) // PUT_BLOCKS, <int64_t>PUT_BLOCK_ITEMS)
    blocks = (p.count + p.block - 1) // p.block
    p.offsets = <int64_t*>calloc(blocks * p.buckets + p.buckets + 1, sizeof(int64_t))
    if p.offsets == NULL:
        return ENOMEM
    p.starts = p.offsets + blocks * p.buckets
    rc = bridged(w, put_count_leaf, p, p.block, p.count)
    if rc == 0:
        for b in range(p.buckets):
            p.starts[b] = sum
            for block in range(blocks):
                n = p.offsets[block * p.buckets + b]
                p.offsets[block * p.buckets + b] = sum
                sum += n
        p.starts[p.buckets] = sum
        rc = bridged(w, put_scatter_leaf, p, p.block, p.count)
    if rc == 0:
        rc = bridged(w, put_leaf, p, 1, p.buckets)
    free(p.offsets)
    return rc
