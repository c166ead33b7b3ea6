"""Selection; see select.pxd."""
from libc.errno cimport ENOMEM
from libc.math cimport sqrt
from libc.stdint cimport (
    INT64_MAX, UINT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t)
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from pyblitz.kernels.blocks cimport SAMPLE_SEED, run_blocks, sample_place, sum_counts
from pyblitz.kernels.keys cimport decode, encode, last_word
from pyblitz.kernels.numbers cimport (
    KEY_FLOAT, KEY_SIGNED, KEY_TIME, KEY_UNSIGNED, Raw, Word, key_of, last_key, sign_bit, turned)
from pyblitz.kernels.simd.levels cimport simd
from pyblitz.runtime.atomic cimport u32_load_relaxed, u32_store_relaxed
from pyblitz.runtime.pool cimport must_stop

cdef enum:
    # Items of a block, which is counted and then written by one leaf each.
    BLOCK = 16384
    # Items that are parted at a time, in L1.
    CHUNK = 256
    # A row is narrowed by samples, in MAX_ROUNDS rounds at most, until so few words are left that they are
    # sorted.
    SORTED_WORDS = 256
    MAX_ROUNDS = 16
    # So many words are a sample; of MANY_WORDS twice as many, of four times MANY_WORDS four times as many, and
    # of 128 times sixteen times as many.
    WORD_SAMPLES = 128
    MANY_WORDS = 8192
    MOST_SAMPLES = 2048
    # Standard deviations of a sample's ranks: of few words another sample costs little.
    LIKELY = 2
    MORE_LIKELY = 3
    LEAF_ITEMS = 16384
    # Bytes of a row from which on it is parted by all threads.
    SHARED_BYTES = 1048576
    # Items that one thread parts before it looks whether they are still wanted.
    POLLED_ITEMS = 1048576
    # Two vectors of simd.around_.
    TWO_VECTORS = 64
    # Bytes of items of whose extremes one may come before the first ones of a row so far.
    LOOK_BYTES = 512
    # A sample says where to begin, in rows of so many items; of which rank in it, at most.
    SAMPLED_ITEMS = 512
    FEW_SAMPLES = 256
    MANY_SAMPLES = 1024
    MAX_RANK = 64
    # How far apart in the row two samples are that are looked at one after the other, in samples.  It is
    # odd, and the numbers of samples are powers of two: each comes once.
    SAMPLE_STEP = 633

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


cdef int64_t ranks_around(int64_t k, int64_t n, int64_t samples, int deviations, int64_t* first,
                          int64_t* last) noexcept nogil:
    cdef double share = (<double>k + 0.5) / <double>n
    cdef double gap = deviations * sqrt(<double>samples * share * (1.0 - share)) + deviations
    cdef double middle = share * <double>samples
    first[0] = <int64_t>(middle - gap)
    last[0] = <int64_t>(middle + gap) + 1
    return <int64_t>middle


cdef int64_t split_blocks(int64_t n) noexcept nogil:
    return (n + BLOCK - 1) // BLOCK


cdef inline const Word* keys_of(KeyKind kind, const Word* items, int64_t n, Word* room, Word* flip) noexcept nogil:
    """Of items, but for the bits of `flip`; in `room`, where they differ in more: of up to CHUNK then."""
    flip[0] = sign_bit(<Word>0) if kind == KEY_SIGNED else 0
    if kind == KEY_SIGNED or kind == KEY_UNSIGNED:
        return items
    encode(kind, False, items, n, room)
    return room


cdef inline void count_thirds(const Word* items, int64_t n, Word low, Word high, KeyKind kind,
                              int64_t* counts) noexcept nogil:
    cdef Word room[CHUNK]
    cdef Word flip
    cdef const Word* keys = keys_of(kind, items, n, <Word*>room, &flip)
    if Word is uint64_t:
        simd.thirds_wide(keys, n, flip, low, high, counts)
    else:
        simd.thirds_narrow(keys, n, flip, low, high, counts)


cdef inline bint write_items(const Word* items, int64_t n, Word low, Word high, KeyKind kind, Word* out, int64_t* to,
                             const int64_t* ends) noexcept nogil:
    """Of up to CHUNK items; moves `to`.  False: a third would not end where it was said to."""
    cdef Word here[CHUNK]
    cdef Word room[CHUNK]
    cdef Word flip, key
    cdef const Word* keys
    cdef int64_t i
    cdef int k
    # Read once: another thread may write there.
    memcpy(here, items, n * sizeof(Word))
    keys = keys_of(kind, <const Word*>here, n, <Word*>room, &flip)
    for i in range(n):
        key = keys[i] ^ flip
        k = (key >= low) + (key > high)
        if to[k] >= ends[k]:
            return False
        out[to[k]] = here[i]
        to[k] += 1
    return True


cdef inline bint write_around(KeyKind kind, const Word* src, int64_t lo, int64_t hi, int64_t n, Word low, Word high,
                              Word* out, Word* some, int64_t* to, const int64_t* ends) noexcept nogil:
    """Of n items those from lo to hi, the last third from its end on, by simd.around_; the same in parts that
    are wholes of chunks.  False: as in write_items."""
    cdef Word here[CHUNK]
    cdef Word room[CHUNK]
    cdef Word flip
    cdef const Word* keys
    cdef int64_t m, wide
    while lo < hi:
        m = min(hi - lo, <int64_t>CHUNK)
        # Two vectors have room between the ends until they meet; which items go by vectors n alone decides.
        wide = min(m, n - lo - TWO_VECTORS // <int64_t>sizeof(Word))
        memcpy(here, src + lo, m * sizeof(Word))        # as in write_items
        keys = keys_of(kind, <const Word*>here, m, <Word*>room, &flip)
        if Word is uint64_t:
            if not simd.around_wide(keys, here, m, wide, flip, low, high, out, some, to, ends):
                return False
        else:
            if not simd.around_narrow(keys, here, m, wide, flip, low, high, out, some, to, ends):
                return False
        lo += m
    return True


cdef inline bint write_places(const Word* words, int64_t n, Word low, Word high, int64_t first, int64_t* out,
                              int64_t* to, const int64_t* ends) noexcept nogil:
    """As write_items, of the indices of words.  By way of a buffer, because past the end is what another worker
    writes."""
    cdef int64_t room[3][CHUNK]
    cdef int64_t sizes[3]
    cdef int64_t* at[3]
    cdef int k
    for k in range(3):
        at[k] = room[k]
    if Word is uint64_t:
        simd.places_wide(words, n, low, high, at, sizes, first)
    else:
        simd.places_narrow(words, n, low, high, at, sizes, first)
    for k in range(3):
        if sizes[k] > ends[k] - to[k]:
            return False
    for k in range(3):
        memcpy(out + to[k], at[k], sizes[k] * sizeof(int64_t))
        to[k] += sizes[k]
    return True


cdef inline void widen(KeyKind kind, Word* low, Word* high) noexcept nogil:
    """To all words of numbers that are equal to these: there are two zeros, and many NaNs."""
    cdef Word zero = 0, last = last_word[Word](kind, 0)
    if kind == KEY_FLOAT:
        encode(kind, False, <const Word*>&zero, 1, &zero)
        low[0] = zero - 1 if low[0] == zero else min(low[0], <Word>(last + 1))
        high[0] = zero if high[0] == zero - 1 else ~<Word>0 if high[0] > last else high[0]


cdef inline void set_keys(Split* s, const Word* low, const Word* high) noexcept nogil:
    cdef Word[2] keys = [low[0], high[0]]
    encode(s.kind, False, <const Word*>keys, 2, <Word*>keys)
    widen(s.kind, <Word*>keys, <Word*>keys + 1)
    s.low, s.high = keys[0], keys[1]


cdef void split_between(Split* s, const char* low, const char* high) noexcept nogil:
    if s.itemsize == 8:
        set_keys(s, <const uint64_t*>low, <const uint64_t*>high)
    else:
        set_keys(s, <const uint32_t*>low, <const uint32_t*>high)


cdef inline bint write_block(const Split* s, const Word* src, int64_t lo, int64_t hi) noexcept nogil:
    cdef Word words[CHUNK]
    cdef Word low = <Word>s.low, high = <Word>s.high
    cdef const int64_t* counts = s.counts + 3 * (lo // BLOCK)
    cdef int64_t[3] to = [counts[0], counts[1], counts[2]]
    cdef int64_t[3] ends = [counts[3], counts[4], counts[5]]
    cdef int64_t last = s.counts[2], m
    cdef bint fits
    if s.inwards:
        to[2] = s.n - (to[2] - last)
        ends[2] = s.n - (ends[2] - last)
        return write_around(s.kind, src, lo, hi, s.n, low, high, <Word*>s.dst, <Word*>s.dst, to, ends)
    while lo < hi:
        m = min(hi - lo, <int64_t>CHUNK)
        if not s.indices:
            fits = write_items(src + lo, m, low, high, s.kind, <Word*>s.dst, to, ends)
        else:
            encode(s.kind, False, src + lo, m, <Word*>words)
            fits = write_places(<const Word*>words, m, low, high, lo, <int64_t*>s.dst, to, ends)
        if not fits:
            return False
        lo += m
    return True


cdef inline void count_block(const Split* s, const Word* src, int64_t lo, int64_t hi) noexcept nogil:
    cdef int64_t* counts = s.counts + 3 * (lo // BLOCK)
    cdef int64_t n = hi - lo, m
    counts[0] = counts[1] = 0
    while lo < hi:
        m = min(hi - lo, <int64_t>CHUNK)
        count_thirds(src + lo, m, <Word>s.low, <Word>s.high, s.kind, counts)
        lo += m
    counts[2] = n - counts[0] - counts[1]


cdef int split_count_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Split* s = <Split*>ctx
    cdef int64_t block, begin, end
    for block in range(lo, hi):
        begin = block * BLOCK
        end = min(s.n, begin + BLOCK)
        if s.itemsize == 8:
            count_block(s, <const uint64_t*>s.src, begin, end)
        else:
            count_block(s, <const uint32_t*>s.src, begin, end)
    return 0


cdef int split_write_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Split* s = <Split*>ctx
    cdef int64_t block, begin, end
    cdef bint fits
    for block in range(lo, hi):
        begin = block * BLOCK
        end = min(s.n, begin + BLOCK)
        if s.itemsize == 8:
            fits = write_block(s, <const uint64_t*>s.src, begin, end)
        else:
            fits = write_block(s, <const uint32_t*>s.src, begin, end)
        if not fits:
            # relaxed: read after the join
            u32_store_relaxed(&s.changed, 1)
    return 0


cdef int split_run(Worker* w, Split* s) noexcept nogil:
    cdef int64_t blocks = split_blocks(s.n)
    cdef int rc = run_blocks(w, split_count_leaf, s, 1, blocks)
    u32_store_relaxed(&s.changed, 0)
    if rc == 0:
        sum_counts(s.counts, blocks, 3)
        rc = run_blocks(w, split_write_leaf, s, 1, blocks)
    return rc


# ---- parts of rows -----------------------------------------------------------
# By samples, again (Floyd and Rivest).  Items are put around two of a sample, and what is between those is
# such a row; for indices the k-th word is found first, and then the indices of what is less, equal and
# greater are written.

cdef inline void sort_words(Word* words, int64_t n) noexcept nogil:
    if Word is uint64_t:
        simd.sort_wide(words, n, NULL)
    else:
        simd.sort_narrow(words, n, NULL)


cdef inline int64_t within(const Word* words, int64_t n, Word low, Word high, Word* some,
                           int64_t* less) noexcept nogil:
    less[0] = 0
    if Word is uint64_t:
        return simd.within_wide(words, n, low, high, some, less)
    else:
        return simd.within_narrow(words, n, low, high, some, less)


cdef inline Word equal_ones(const Word* sorted, int64_t n, int64_t k, int64_t before, int64_t* equals) noexcept nogil:
    """The k-th, and where those equal to it begin and end; `before` are less than all of these."""
    cdef int64_t first = k, last = k
    while first > 0 and sorted[first - 1] == sorted[k]:
        first -= 1
    while last < n and sorted[last] == sorted[k]:
        last += 1
    equals[0] = before + first
    equals[1] = before + last
    return sorted[k]


cdef inline void range_in_sample(KeyKind kind, const Word* src, int64_t n, int64_t k, bint narrowed, uint64_t* state,
                                 Word least, Word most, Word* low, Word* high) noexcept nogil:
    """Two keys around the k-th of n items, all but surely, from `least` to `most`; not narrowed: one, twice."""
    cdef Word sample[MOST_SAMPLES]
    cdef int64_t samples = WORD_SAMPLES, first, middle, last, i
    if n >= MANY_WORDS:
        samples *= 2 if n < 4 * MANY_WORDS else 4 if n < 128 * MANY_WORDS else 16
    for i in range(samples):
        sample[i] = src[sample_place(state, i, n // samples)]
    encode(kind, False, <const Word*>sample, samples, <Word*>sample)
    sort_words(<Word*>sample, samples)
    middle = ranks_around(k, n, samples, LIKELY if n < MANY_WORDS else MORE_LIKELY, &first, &last)
    if narrowed:
        low[0] = sample[first] if first > 0 else least
        high[0] = sample[last] if last < samples else most
    else:
        # A few words are most of them, and two on either side of the k-th: one of them is found, or gone.
        low[0] = high[0] = sample[middle]


cdef Word kth_word(const Word* words, int64_t n, int64_t k, Word* some, int64_t* equals) noexcept nogil:
    """The k-th of words in order, and where in the order those equal to it begin and end.  some: [n]."""
    # What is still looked at is from `least` to `most`, and `before` words are less.
    cdef Word least = 0, most = ~<Word>0, low, high
    cdef const Word* src = words
    cdef int64_t m = n, before = 0, less, found
    cdef uint64_t state = SAMPLE_SEED
    cdef int rounds = 0
    cdef bint narrowed = True
    while m > SORTED_WORDS and rounds < MAX_ROUNDS:
        rounds += 1
        range_in_sample(KEY_UNSIGNED, src, m, k - before, narrowed, &state, least, most, &low, &high)
        found = within(src, m, low, high, some, &less)
        if before + less <= k < before + less + found:
            before += less
            least = low
            most = high
            narrowed = 2 * found <= m
        else:
            # What was looked at was perhaps in `some`: from all words anew.
            if k < before + less:
                most = low - 1
            else:
                least = high + 1
            found = within(words, n, least, most, some, &before)
            narrowed = True
        m = found
        src = some
        if least == most:
            equals[0] = before
            equals[1] = before + m
            return least
    if src == words:
        memcpy(some, words, n * sizeof(Word))
    sort_words(some, m)
    return equal_ones(some, m, k - before, before, equals)


cdef inline void places_row(const Parts* p, const Word* src, Word* words, int64_t* equals,
                            int64_t* out) noexcept nogil:
    """words: [2][n]."""
    cdef Word low, high
    cdef int64_t to[3]
    cdef int64_t ends[3]
    cdef int64_t lo = 0, m
    # Read once: another thread may write there.
    encode(p.kind, False, src, p.n, words)
    low = high = kth_word(words, p.n, p.k, words + p.n, equals)
    widen(p.kind, &low, &high)
    if low < high:
        to[0] = to[1] = 0
        count_thirds(words, p.n, low, high, KEY_UNSIGNED, to)
        equals[0] = to[0]
        equals[1] = to[0] + to[1]
    to[0] = 0
    to[1] = ends[0] = equals[0]
    to[2] = ends[1] = equals[1]
    ends[2] = p.n
    while lo < p.n:
        m = min(p.n - lo, <int64_t>CHUNK)
        write_places(words + lo, m, low, high, lo, out, to, ends)
        lo += m


cdef inline bint is_shared(Worker* w, int64_t bytes) noexcept nogil:
    return w != NULL and w.pool.n_background > 0 and bytes >= SHARED_BYTES


cdef struct Room:
    void* words
    int64_t bytes


cdef int make_room(Room* room, int64_t bytes) noexcept nogil:
    """What was there is gone where it was too small."""
    if room.bytes < bytes:
        free(room.words)
        room.words = malloc(bytes)
        room.bytes = 0 if room.words == NULL else bytes
    return 0 if room.words != NULL else ENOMEM


cdef inline int put_counted(Worker* w, KeyKind kind, const Word* src, int64_t n, Word low, Word high, Word* out,
                            int64_t* sizes, bint* put) noexcept nogil:
    """As put_around does, by all threads.  put: False, if another thread has changed items meanwhile."""
    cdef Split s
    cdef const int64_t* ends
    cdef int rc
    s.kind, s.itemsize, s.src, s.n = kind, sizeof(Word), <const char*>src, n
    s.low, s.high, s.dst = low, high, <char*>out
    s.indices, s.inwards = False, True
    s.counts = <int64_t*>malloc(3 * (split_blocks(n) + 1) * sizeof(int64_t))
    if s.counts == NULL:
        return ENOMEM
    rc = split_run(w, &s)
    if rc == 0:
        ends = s.counts + 3 * split_blocks(n)
        sizes[0], sizes[1] = ends[0], ends[1] - ends[0]
        put[0] = not u32_load_relaxed(&s.changed)
    free(s.counts)
    return rc


cdef inline int put_alone(Worker* w, KeyKind kind, const Word* src, int64_t n, Word low, Word high, Word* out,
                          Room* room, int64_t* sizes, bint* fits) noexcept nogil:
    """As put_around does, by this thread.  fits: whether the second third does."""
    cdef int64_t[3] to = [0, 0, n]
    cdef int64_t[3] ends = [n, room.bytes // <int64_t>sizeof(Word), 0]
    cdef int64_t lo = 0, hi
    fits[0] = True
    while lo < n and fits[0]:
        if lo > 0 and w != NULL and must_stop(w, 0):
            return -1
        hi = min(n, lo + POLLED_ITEMS)
        fits[0] = write_around(kind, src, lo, hi, n, low, high, out, <Word*>room.words, to, ends)
        lo = hi
    sizes[0], sizes[1] = to[0], to[1]
    return 0


cdef inline int put_around(Worker* w, bint shares, KeyKind kind, const Word* src, int64_t n, Word low, Word high,
                           Word* out, Room* room, int64_t* sizes, bint* put) noexcept nogil:
    """The first third where out begins, the last one where it ends; the second one to the room, where src may
    be, or, if `put`, where it belongs.  sizes: of the first two."""
    cdef bint fits
    cdef int rc = 0
    put[0] = False
    if shares and is_shared(w, n * sizeof(Word)):
        rc = put_counted(w, kind, src, n, low, high, out, sizes, put)
    if rc != 0 or put[0]:
        return rc
    rc = put_alone(w, kind, src, n, low, high, out, room, sizes, &fits)
    if rc != 0 or fits:
        return rc
    # Half of the items or more are between two of a sample: few are distinct.  (Then src is not in the room.)
    rc = make_room(room, n * sizeof(Word))
    return put_alone(w, kind, src, n, low, high, out, room, sizes, &fits) if rc == 0 else rc


cdef inline int part_items(Worker* w, bint shares, KeyKind kind, const Word* src, int64_t n, int64_t k, Word* out,
                           Room* room, int64_t* equals) noexcept nogil:
    """Each pass puts what is sure in its place, before or behind what the k-th is among."""
    cdef int64_t sizes[2]
    cdef int64_t begin, before = 0
    cdef uint64_t state = SAMPLE_SEED
    cdef int rounds = 0, rc
    cdef bint narrowed = True, put = False
    cdef Word low, high
    while n > SORTED_WORDS and rounds < MAX_ROUNDS:
        rounds += 1
        range_in_sample(kind, src, n, k, narrowed, &state, 0, ~<Word>0, &low, &high)
        rc = put_around(w, shares, kind, src, n, low, high, out, room, sizes, &put)
        if rc != 0:
            return rc
        begin = sizes[0]
        if begin <= k < begin + sizes[1]:
            narrowed = 2 * sizes[1] <= n
            n = sizes[1]
            if low == high:
                if not put:
                    memcpy(out + begin, room.words, n * sizeof(Word))
                equals[0] = before + begin
                equals[1] = before + begin + n
                return 0
        else:
            # Not likely.
            if not put:
                memcpy(out + begin, room.words, sizes[1] * sizeof(Word))
            narrowed = put = True
            if k < begin:
                begin, n = 0, sizes[0]
            else:
                begin += sizes[1]
                n -= begin
        out += begin
        if put:
            rc = make_room(room, n * sizeof(Word))
            if rc != 0:
                return rc
            memcpy(room.words, out, n * sizeof(Word))
        k -= begin
        before += begin
        src = <const Word*>room.words
    encode(kind, False, src, n, out)
    sort_words(out, n)
    equal_ones(<const Word*>out, n, k, before, equals)
    decode(kind, False, <const Word*>out, n, out)
    return 0


cdef inline int part_row(Worker* w, const Parts* p, const Word* src, Room* room, int64_t* equals,
                         char* out) noexcept nogil:
    # For items, half a row: of as many bytes as the result has, glibc gives and takes the pages anew each time.
    cdef int rc = make_room(room, (2 * p.n if p.indices else (p.n + 1) // 2) * sizeof(Word))
    if rc != 0:
        return rc
    if p.indices:
        places_row(p, src, <Word*>room.words, equals, <int64_t*>out)
        return 0
    return part_items(w, p.rows == 1, p.kind, src, p.n, p.k, <Word*>out, room, equals)


cdef int part_rows(Worker* w, const Parts* p, int64_t lo, int64_t hi) noexcept nogil:
    cdef intptr_t outsize = sizeof(int64_t) if p.indices else p.itemsize
    cdef Room room
    cdef int64_t equals[2]
    cdef const char* src
    cdef char* out
    cdef int64_t row
    cdef int rc = 0
    room.words, room.bytes = NULL, 0
    for row in range(lo, hi):
        src = p.src + row * p.n * p.itemsize
        out = p.out + row * p.n * outsize
        if p.itemsize == 8:
            rc = part_row(w, p, <const uint64_t*>src, &room, equals, out)
        else:
            rc = part_row(w, p, <const uint32_t*>src, &room, equals, out)
        if rc != 0:
            break
    if rc == 0 and p.equals != NULL:
        memcpy(p.equals, equals, sizeof(equals))
    free(room.words)
    return rc


cdef int parts_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    return part_rows(w, <const Parts*>ctx, lo, hi)


cdef int parts_run(Worker* w, Parts* p) noexcept nogil:
    if p.rows == 1 and not p.indices and is_shared(w, p.n * p.itemsize):
        return part_rows(w, p, 0, 1)    # its blocks are what is counted as done
    return run_blocks(w, parts_leaf, p, 1 + LEAF_ITEMS // p.n, p.rows)


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
    cdef uint64_t[2] words = [0, 0]
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
    cdef int64_t first, last, i, at
    cdef int rank
    ranks_around(k - 1, n, samples, ALL_BUT_SURE, &first, &last)
    rank = min(MAX_RANK, <int>last)
    for i in range(rank):
        best[i] = UINT64_MAX
    for i in range(samples):
        # Not in their order: in a row from the last to the first, each would come before all so far.
        at = sample_place(&state, (i * SAMPLE_STEP) & (samples - 1), n // samples)
        key = rank_of(row[at], kind, greatest)
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
