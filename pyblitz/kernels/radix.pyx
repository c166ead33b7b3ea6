"""Parallel radix sorts; see radix.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport INT32_MAX, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from pyblitz.kernels.merge cimport MergeTwo, Order as MergeOrder, merge_two, order_numbers
from pyblitz.runtime.atomic cimport (
    atomic_i64, atomic_u32, i64_load_relaxed, i64_store_relaxed, u32_load_relaxed, u32_store_relaxed)
from pyblitz.runtime.bridge cimport bridge_limit, bridge_wants
from pyblitz.runtime.os cimport alloc_array, now_ns

cdef enum:
    SAMPLES = 1024
    BUCKET_WORDS = 16384     # aimed at
    MIN_BUCKETS = 16
    MAX_BUCKETS = 2048
    MAX_BLOCKS = 64
    BLOCK_WORDS = 65536
    MAX_DEPTH = 4
    CHANGED = -2            # a code of its own
    # What a leaf sort takes at once: SIMD sorts of so many are networks in registers.
    LEAF_WORDS = 256
    MAX_PIECES = 1024       # that a bucket is cut into
    PIECE_WORDS = 96       # at most, on average
    OCTAVES = 128           # pieces that are enough for one per octave
    # Words by which a leaf sort is timed, and the logarithm of their number.
    TIMED_WORDS = 8192
    TIMED_LEVELS = 13
    MAX_LEVELS = 8          # of merges
    RUN_WORDS = 16384       # of a run that is merged, at least
    MAX_RUN_WORDS = 2097152     # at most: nothing stops a leaf sort

# Nanoseconds that a word takes one thread.  The leaf sort is timed where it runs, for it
# differs most from processor to processor; the rest was measured on a Zen 5, and nowhere else.
cdef double RUNS_NS = 0.5       # to be loaded and stored
cdef double MERGE_NS = 1.2      # in each merge
cdef double ALONE_NS = 9.0      # in a radix sort by one thread
# In a radix sort by all, of 4 and of 8 bytes: of keys that lie evenly, and of others.
cdef double NARROW_NS = 3.7
cdef double NARROW_SKEWED_NS = 5.5
cdef double WIDE_NS = 4.8
cdef double WIDE_SKEWED_NS = 10.0

cdef sort_fn leaf_narrow = NULL
cdef sort_fn leaf_wide = NULL
# Picoseconds a word takes the leaf sort, of TIMED_WORDS; 0: not timed yet.
cdef atomic_i64 narrow_pace
cdef atomic_i64 wide_pace


cdef void use_leaves(sort_fn narrow, sort_fn wide) noexcept nogil:
    global leaf_narrow, leaf_wide
    leaf_narrow = narrow
    leaf_wide = wide
    set_paces(0, 0)


cdef void set_paces(int64_t narrow, int64_t wide) noexcept nogil:
    i64_store_relaxed(&narrow_pace, narrow)
    i64_store_relaxed(&wide_pace, wide)


cdef int64_t timed(sort_fn leaf, bint wide) noexcept nogil:
    """Picoseconds a word: the faster of two runs, for the first one warms up."""
    cdef intptr_t size = 8 if wide else 4
    cdef char* words = <char*>malloc(TIMED_WORDS * size)
    cdef uint64_t state = 1
    cdef int64_t best = INT32_MAX, begun
    cdef int i, turn
    if words == NULL:
        return best
    for turn in range(2):
        for i in range(TIMED_WORDS * size // 8):
            state = state * 6364136223846793005u + 1442695040888963407u
            (<uint64_t*>words)[i] = state ^ (state >> 32)
        begun = now_ns()
        leaf(words, TIMED_WORDS, NULL)
        best = min(best, (now_ns() - begun) * 1000 // TIMED_WORDS)
    free(words)
    return max(best, <int64_t>1)


cdef double leaf_ns(bint wide, int64_t n) noexcept nogil:
    """What a word takes the leaf sort, of n at once: processors differ by a factor of twenty."""
    cdef sort_fn leaf = leaf_wide if wide else leaf_narrow
    cdef atomic_i64* kept = &wide_pace if wide else &narrow_pace
    # relaxed: any measurement is as good as another
    cdef int64_t pace = i64_load_relaxed(kept)
    cdef int levels = 0
    if leaf == NULL:
        return INT32_MAX
    if pace == 0:
        pace = timed(leaf, wide)
        i64_store_relaxed(kept, pace)
    while n >> levels > 1:
        levels += 1
    return pace * levels / (1000.0 * TIMED_LEVELS)


cdef int each(Worker* w, leaf_fn leaf, void* ctx, int64_t grain, int64_t n) noexcept nogil:
    cdef int64_t lo = 0
    cdef int rc = 0
    if w != NULL:
        return bridged(w, leaf, NULL, ctx, grain, n)
    while lo < n and rc == 0:
        rc = leaf(NULL, ctx, lo, min(n, lo + grain))
        lo += grain
    return rc


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
    return each(w, copy_leaf, &c, BLOCK_WORDS, n)


# ---- from keys to buckets ---------------------------------------------------

cdef struct Cut:
    # Keys above `low` in equal steps; or bent: in steps that double with each octave, for
    # keys of all magnitudes (as the buckets of an HDR histogram).
    uint64_t low            # the least key of step 0
    uint64_t last           # step
    int shift               # of a step; or what is left of an octave, in bits
    bint bent


cdef inline int64_t bucket_of(const Cut* c, uint64_t key) noexcept nogil:
    """0 below the first step, which is bucket 1; what is past the last step is in its bucket."""
    cdef uint64_t d = key - c.low
    d = bent_step(d, c.shift) if c.bent else d >> c.shift
    d = d + 1 if d < c.last else c.last + 1
    return d if key >= c.low else 0


cdef void make_cut(Cut* c, uint64_t low, uint64_t high, int64_t steps, bint bent) noexcept nogil:
    cdef uint64_t d = high - low
    c.low = low
    c.last = steps - 1
    c.bent = bent
    c.shift = 0
    if bent:
        while bent_step(d, c.shift + 1) < <uint64_t>steps and c.shift < 16:
            c.shift += 1
    else:
        # At a multiple of the step, so that where indices stand below keys one bucket does
        # not have the end of a key and the beginning of the next.
        while (high - c.low) >> c.shift >= <uint64_t>steps:
            c.shift += 1
            c.low = low & ~((<uint64_t>1 << c.shift) - 1)


cdef void range_of_bucket(const Cut* c, uint64_t b, uint64_t* low, uint64_t* high) noexcept nogil:
    """The keys of one that is neither the first nor the last."""
    cdef uint64_t octave = 0
    b -= 1
    if not c.bent:
        low[0] = c.low + (b << c.shift)
        high[0] = low[0] + ((<uint64_t>1 << c.shift) - 1)
        return
    if b >> c.shift > 1:
        octave = (b >> c.shift) - 1
        b -= octave << c.shift
    low[0] = c.low + (b << octave)
    high[0] = low[0] + ((<uint64_t>1 << octave) - 1)


# ---- one bucket, alone ------------------------------------------------------

cdef inline bint ascending(const Word* a, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(1, n):
        if a[i] < a[i - 1]:
            return False
    return True


cdef void insertion_sort(Word* a, int64_t n) noexcept nogil:
    cdef int64_t i, j
    cdef Word x
    for i in range(1, n):
        x = a[i]
        j = i
        while j > 0 and a[j - 1] > x:
            a[j] = a[j - 1]
            j -= 1
        a[j] = x


cdef void sort_few(Word* a, int64_t n) noexcept nogil:
    """No more than LEAF_WORDS."""
    cdef sort_fn leaf = leaf_wide if Word is uint64_t else leaf_narrow
    if n < 12 or leaf == NULL:
        insertion_sort(a, n)
    else:
        leaf(a, n, NULL)


cdef void range_of(const Word* a, int64_t n, uint64_t* low, uint64_t* high) noexcept nogil:
    cdef int64_t i
    cdef Word lo = a[0], hi = a[0]
    for i in range(1, n):
        if a[i] < lo:
            lo = a[i]
        if a[i] > hi:
            hi = a[i]
    low[0] = lo
    high[0] = hi


cdef void cut_bucket(const Word* a, Word* b, int64_t n, const Cut* c, uint32_t* ends) noexcept nogil:
    """a's words to b, piece by piece; where each piece ends."""
    cdef int64_t i, m
    cdef uint32_t sum = 0, count
    memset(ends, 0, (c.last + 1) * sizeof(uint32_t))
    if c.bent:
        for i in range(n):
            ends[bent_step(a[i] - c.low, c.shift)] += 1
    else:
        for i in range(n):
            ends[(a[i] - c.low) >> c.shift] += 1
    for i in range(<int64_t>c.last + 1):
        count = ends[i]
        ends[i] = sum
        sum += count
    for i in range(n):
        m = bent_step(a[i] - c.low, c.shift) if c.bent else (a[i] - c.low) >> c.shift
        b[ends[m]] = a[i]
        ends[m] += 1


cdef void sort_bucket(const Words* s, Word* a, Word* b, int64_t n, uint64_t low, uint64_t high,
                      int64_t at, bint bent) noexcept nogil:
    """Sorts a[0 .. n], all between low and high, with b as room for as many, and stores them
    at place `at` of the result, which may be a or b."""
    # Few on the stack, which may be that of a small Python thread.
    cdef uint32_t few_ends[OCTAVES]
    cdef uint32_t* ends = few_ends
    cdef Cut c
    cdef int64_t pieces = OCTAVES if bent else 2, i, m, begin = 0, waiting = 0
    cdef uint64_t least, most
    if n <= LEAF_WORDS:
        sort_few(a, n)
        s.store(s.ctx, a, n, at)
        return
    if low == high or ascending(a, n):
        s.store(s.ctx, a, n, at)
        return
    while pieces < MAX_PIECES and pieces * PIECE_WORDS < n:
        pieces *= 2
    if pieces > OCTAVES:
        ends = <uint32_t*>malloc(pieces * sizeof(uint32_t))
        if ends == NULL:
            ends = few_ends
            pieces = OCTAVES
    make_cut(&c, low, high, pieces, bent)
    cut_bucket(a, b, n, &c, ends)
    for i in range(pieces):
        m = ends[i] - begin
        if m <= LEAF_WORDS:
            if m > 1 and (bent or c.shift > 0):
                sort_few(b + begin, m)
        elif bent or c.shift > 0:
            range_of(b + begin, m, &least, &most)
            if least != most:
                # Too many keys in one piece lie close together: closer to its least?
                if begin > waiting:
                    s.store(s.ctx, b + waiting, begin - waiting, at + waiting)
                sort_bucket(s, b + begin, a + begin, m, least, most, at + begin, not bent)
                waiting = begin + m
        begin += m
    if n > waiting:
        s.store(s.ctx, b + waiting, n - waiting, at + waiting)
    if ends != few_ends:
        free(ends)


cdef void load_words(const Words* s, int64_t lo, int64_t hi, char* to) noexcept nogil:
    """Items lo .. hi as words, to their places behind ``to``."""
    cdef int64_t until
    while lo < hi:
        until = min(hi, lo + CHUNK)
        s.load(s.ctx, lo, until, to + lo * (8 if s.wide else 4))
        lo = until


cdef void sort_alone(const Words* s, Word* a, Word* b) noexcept nogil:
    cdef uint64_t low, high
    load_words(s, 0, s.n, <char*>a)
    range_of(a, s.n, &low, &high)
    sort_bucket(s, a, b, s.n, low, high, 0, False)


cdef int sort_by_leaf(const Words* s, char* room) noexcept nogil:
    cdef sort_fn leaf = leaf_wide if s.wide else leaf_narrow
    load_words(s, 0, s.n, room)
    if leaf(room, s.n, NULL) < 0:
        return ENOMEM
    s.store(s.ctx, room, s.n, 0)
    return 0


cdef int sort_small(const Words* s) noexcept nogil:
    cdef uint64_t few[LEAF_WORDS]
    cdef char* room = <char*>few
    if s.n == 0:
        return 0
    few[0] = 0
    if s.n > LEAF_WORDS and leaf_ns(s.wide, s.n) < ALONE_NS:
        # Where load reads dst, there is a spare.
        room = s.spare if s.spare != NULL else s.dst
        return sort_by_leaf(s, room)
    if s.n > LEAF_WORDS:
        room = s.spare if s.spare != NULL else <char*>alloc_array(s.n * (8 if s.wide else 4))
        if room == NULL:
            return ENOMEM
    # To the room first: what load reads may be dst.
    if s.wide:
        sort_alone[uint64_t](s, <uint64_t*>room, <uint64_t*>s.dst)
    else:
        sort_alone[uint32_t](s, <uint32_t*>room, <uint32_t*>s.dst)
    if s.n > LEAF_WORDS and room != s.spare:
        free(room)
    return 0


cdef uint64_t word_at(const Words* s, int64_t i) noexcept nogil:
    cdef uint64_t wide
    cdef uint32_t narrow
    if s.wide:
        s.load(s.ctx, i, i + 1, &wide)
        return wide
    s.load(s.ctx, i, i + 1, &narrow)
    return narrow


# ---- in order already -------------------------------------------------------

cdef struct Order:
    Words* words
    bint down               # whether they descend; else ascend
    bint checks
    bint stores
    Bridge bridge


cdef bint in_order(const Order* o, const Word* a, int64_t n) noexcept nogil:
    cdef int64_t i
    cdef bint wrong = False
    if o.down:
        for i in range(1, n):
            wrong |= a[i] > a[i - 1]
    else:
        for i in range(1, n):
            wrong |= a[i] < a[i - 1]
    return not wrong


cdef void turn(const Word* a, int64_t n, Word* to) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        to[i] = a[n - 1 - i]


cdef void put_in_order(Order* o, uint64_t* chunk, int64_t lo, int64_t n) noexcept nogil:
    cdef Words* s = o.words
    cdef uint64_t turned_words[CHUNK]
    if o.down:
        if s.wide:
            turn[uint64_t](chunk, n, turned_words)
        else:
            turn[uint32_t](<uint32_t*>chunk, n, <uint32_t*>turned_words)
        s.store(s.ctx, turned_words, n, s.n - lo - n)
    else:
        s.store(s.ctx, chunk, n, lo)


cdef int order_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    """Checks items lo .. hi and the successor of the last, and stores them at once, in the
    hope that it was worth while."""
    cdef Order* o = <Order*>ctx
    cdef Words* s = o.words
    cdef uint64_t chunk[CHUNK]
    cdef int64_t n, more
    cdef bint good
    while lo < hi and bridge_wants(&o.bridge, 0):
        n = min(hi - lo, <int64_t>CHUNK - 1)
        more = 1 if lo + n < s.n and o.checks else 0
        s.load(s.ctx, lo, lo + n + more, chunk)
        if o.checks:
            if s.wide:
                good = in_order[uint64_t](o, chunk, n + more)
            else:
                good = in_order[uint32_t](o, <uint32_t*>chunk, n + more)
            if not good:
                bridge_limit(&o.bridge, 0)
                return 0
        if o.stores:
            put_in_order(o, chunk, lo, n)
        lo += n
    return 0


cdef int mirror_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    """Of the first half, each chunk with its mirror image, as the result is where the words
    come from."""
    cdef Order* o = <Order*>ctx
    cdef Words* s = o.words
    cdef uint64_t one[CHUNK]
    cdef uint64_t other[CHUNK]
    cdef int64_t n
    while lo < hi:
        n = min(hi - lo, <int64_t>CHUNK)
        s.load(s.ctx, lo, lo + n, one)
        s.load(s.ctx, s.n - lo - n, s.n - lo, other)
        put_in_order(o, one, lo, n)
        put_in_order(o, other, s.n - lo - n, n)
        lo += n
    return 0


cdef int store_as_it_is(Worker* w, Words* s) noexcept nogil:
    cdef Order o
    o.words = s
    o.down = False
    o.checks = False
    o.stores = True
    bridge_init(&o.bridge, order_leaf, NULL, &o, BLOCK_WORDS)
    return bridge_run(w, &o.bridge, s.n)


cdef int find_order(Worker* w, Words* s, bint in_place, bint* found) noexcept nogil:
    """Stores the words if they ascend or descend as they are."""
    cdef Order o
    cdef int rc
    o.words = s
    o.down = word_at(s, 0) > word_at(s, 1)
    o.checks = True
    o.stores = not in_place
    bridge_init(&o.bridge, order_leaf, NULL, &o, BLOCK_WORDS)
    rc = bridge_run(w, &o.bridge, s.n)
    found[0] = rc == 0 and bridge_wants(&o.bridge, 0)
    if not found[0] or not in_place:
        return rc
    if o.down:
        return bridged(w, mirror_leaf, NULL, &o, BLOCK_WORDS, (s.n + 1) // 2)
    return store_as_it_is(w, s)


# ---- shared -----------------------------------------------------------------
# One pass of most-significant-digit radix sort, after the histogram and scatter
# of Zagha and Blelloch, "Radix sort for vector multiprocessors" (1991).  The
# digit is taken from the range that a sample shows, so that it tells keys apart
# wherever they lie; what lies outside goes to the first and last bucket.

cdef struct Radix:
    Words* words
    int depth
    char* mid               # where the buckets are: dst or spare
    int64_t base            # of the words in the whole result
    Cut cut
    int64_t buckets
    int64_t block           # words
    int64_t* offsets        # [block][bucket]: counts, then where to write
    int64_t* ends           # [block][bucket]: and where not any more
    Bridge bridge           # of the scattering, which ends early when
    atomic_u32 changed      # the words are not those that were counted
    int64_t* starts         # [bucket + 1]
    uint8_t* done           # [bucket]: stored


cdef void count_chunk(const Cut* cut, const Word* chunk, int64_t n, int64_t* counts) noexcept nogil:
    cdef Cut c = cut[0]
    cdef int64_t i
    if c.bent:
        for i in range(n):
            counts[bucket_of(&c, chunk[i])] += 1
    else:
        for i in range(n):
            counts[bucket_of(&c, chunk[i])] += 1


cdef bint scatter_chunk(const Cut* cut, const Word* chunk, int64_t n, int64_t* to,
                        const int64_t* ends, Word* mid) noexcept nogil:
    """False: more words for a bucket than were counted."""
    cdef Cut c = cut[0]
    cdef int64_t i, b
    if c.bent:
        for i in range(n):
            b = bucket_of(&c, chunk[i])
            if to[b] >= ends[b]:
                return False
            mid[to[b]] = chunk[i]
            to[b] += 1
    else:
        for i in range(n):
            b = bucket_of(&c, chunk[i])
            if to[b] >= ends[b]:
                return False
            mid[to[b]] = chunk[i]
            to[b] += 1
    return True


cdef int count_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Radix* r = <Radix*>ctx
    cdef Words* s = r.words
    cdef int64_t* counts = r.offsets + (lo // r.block) * r.buckets
    cdef uint64_t chunk[CHUNK]
    cdef int64_t end
    while lo < hi:
        end = min(hi, lo + CHUNK)
        s.load(s.ctx, lo, end, chunk)
        if s.wide:
            count_chunk[uint64_t](&r.cut, chunk, end - lo, counts)
        else:
            count_chunk[uint32_t](&r.cut, <uint32_t*>chunk, end - lo, counts)
        lo = end
    return 0


cdef int scatter_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Radix* r = <Radix*>ctx
    cdef Words* s = r.words
    cdef int64_t row = (lo // r.block) * r.buckets
    cdef uint64_t chunk[CHUNK]
    cdef int64_t end
    cdef bint good
    while lo < hi:
        end = min(hi, lo + CHUNK)
        s.load(s.ctx, lo, end, chunk)
        if s.wide:
            good = scatter_chunk[uint64_t](
                &r.cut, chunk, end - lo, r.offsets + row, r.ends + row, <uint64_t*>r.mid)
        else:
            good = scatter_chunk[uint32_t](
                &r.cut, <uint32_t*>chunk, end - lo, r.offsets + row, r.ends + row, <uint32_t*>r.mid)
        if not good:
            # relaxed: read after the join
            u32_store_relaxed(&r.changed, 1)
            bridge_limit(&r.bridge, 0)
            return 0
        lo = end
    return 0


cdef struct Inner:
    # The words of a heavy bucket, and the sort they belong to.
    const Words* outer
    const char* src
    int64_t base


cdef void load_inner(void* ctx, int64_t lo, int64_t hi, void* words) noexcept nogil:
    cdef Inner* i = <Inner*>ctx
    cdef int size = 8 if i.outer.wide else 4
    memcpy(words, i.src + lo * size, (hi - lo) * size)


cdef void store_inner(void* ctx, const void* words, int64_t n, int64_t at) noexcept nogil:
    cdef Inner* i = <Inner*>ctx
    i.outer.store(i.outer.ctx, words, n, i.base + at)


cdef int sort_heavy(Worker* w, const Radix* r, int64_t start, int64_t n, bint equal) noexcept nogil:
    """A bucket that would leave one worker with the lot, shared in turn."""
    cdef Words* s = r.words
    cdef int size = 8 if s.wide else 4
    cdef Words words
    cdef Inner inner
    cdef bint found
    cdef int rc
    inner.outer = s
    inner.src = r.mid + start * size
    inner.base = start
    words.load = load_inner
    words.store = store_inner
    words.ctx = &inner
    words.wide = s.wide
    words.slow = False
    words.n = n
    words.dst = s.dst + start * size
    words.spare = NULL
    if equal:
        return store_as_it_is(w, &words)
    # One value, or indices below one value.
    rc = find_order(w, &words, True, &found)
    if rc != 0 or found:
        return rc
    if r.mid == s.dst:
        words.spare = <char*>alloc_array(n * size)
        if words.spare == NULL:
            return ENOMEM
    rc = sort_shared(w, &words, NULL, r.depth + 1)
    free(words.spare)
    return rc


cdef int bucket_alone(const Radix* r, int64_t b, int64_t start, int64_t n, Word* room) noexcept nogil:
    cdef Words* s = r.words
    cdef Word* a = <Word*>r.mid + start
    cdef uint64_t low = 0, high = 0
    if n > LEAF_WORDS:
        if b > 0 and b < r.buckets - 1:
            range_of_bucket(&r.cut, b, &low, &high)
        else:
            range_of(a, n, &low, &high)
    sort_bucket(s, a, <Word*>s.dst + start if r.mid != s.dst else room, n, low, high, start, False)
    return 0


cdef int bucket_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Radix* r = <Radix*>ctx
    cdef Words* s = r.words
    cdef int size = 8 if s.wide else 4
    cdef char* room
    cdef int64_t b, n
    cdef uint64_t low, high
    cdef int rc
    for b in range(lo, hi):
        n = r.starts[b + 1] - r.starts[b]
        if n == 0:
            continue
        if n > 8 * BUCKET_WORDS and n > 16 * (s.n // r.buckets) and (r.depth < MAX_DEPTH or n > INT32_MAX):
            low = 0
            high = 1
            if b > 0 and b < r.buckets - 1:
                range_of_bucket(&r.cut, b, &low, &high)
            rc = sort_heavy(w, r, r.starts[b], n, low == high)
            if rc != 0:
                return rc
        else:
            room = NULL
            if r.mid == s.dst and n > LEAF_WORDS:
                room = <char*>alloc_array(n * size)
                if room == NULL:
                    return ENOMEM
            if s.wide:
                bucket_alone[uint64_t](r, b, r.starts[b], n, <uint64_t*>room)
            else:
                bucket_alone[uint32_t](r, b, r.starts[b], n, <uint32_t*>room)
            free(room)
        r.done[b] = 1
    return 0


cdef int64_t worst_load(const Cut* c, const uint64_t* keys) noexcept nogil:
    """The most sampled keys in one bucket, but for buckets of one key."""
    cdef int64_t i = 0, j, worst = 0, bucket
    while i < SAMPLES:
        bucket = bucket_of(c, keys[i])
        j = i + 1
        while j < SAMPLES and bucket_of(c, keys[j]) == bucket:
            j += 1
        if j - i > worst and keys[i] != keys[j - 1]:
            worst = j - i
        i = j
    return worst


cdef void exact_range(const Words* s, uint64_t* low, uint64_t* high) noexcept nogil:
    cdef uint64_t chunk[CHUNK]
    cdef uint64_t least, most
    cdef int64_t lo = 0, end
    low[0] = high[0] = word_at(s, 0)
    while lo < s.n:
        end = min(s.n, lo + CHUNK)
        s.load(s.ctx, lo, end, chunk)
        if s.wide:
            range_of[uint64_t](chunk, end - lo, &least, &most)
        else:
            range_of[uint32_t](<uint32_t*>chunk, end - lo, &least, &most)
        low[0] = min(low[0], least)
        high[0] = max(high[0], most)
        lo = end


cdef int sample_cut(const Words* s, int64_t steps, Cut* c, bint* skewed) noexcept nogil:
    """Between the 0.5 and 99.5 percent quantiles of a sample, so that outliers do not
    stretch the range.  Always the same sample of the same length."""
    cdef uint64_t* keys = <uint64_t*>malloc(2 * SAMPLES * sizeof(uint64_t))
    cdef uint64_t low, high, state = 0x9E3779B97F4A7C15u
    cdef int64_t stretch = s.n // SAMPLES, worst
    cdef Cut bent
    cdef int i
    if keys == NULL:
        return ENOMEM
    for i in range(SAMPLES):
        # one from each stretch, anywhere in it: no period of the data matters
        state = state * 6364136223846793005u + 1442695040888963407u
        keys[i] = word_at(s, i * stretch + <int64_t>((state >> 33) % <uint64_t>stretch))
    sort_plain(keys, keys + SAMPLES, SAMPLES)
    low = keys[SAMPLES // 200]
    high = keys[SAMPLES - 1 - SAMPLES // 200]
    make_cut(c, low, high, steps, False)
    worst = worst_load(c, keys)
    # More than four times the mean: with few buckets, each has a good part of the sample.
    skewed[0] = worst * 32 > SAMPLES and worst * steps > 4 * SAMPLES
    if skewed[0]:
        # Skewed.  Most skew is towards the least key.
        make_cut(&bent, keys[0], high, MAX_BUCKETS, True)
        if worst_load(&bent, keys) * 2 < worst:
            c[0] = bent
    free(keys)
    return 0


cdef void store_plain(void* ctx, const void* words, int64_t n, int64_t at) noexcept nogil:
    if <uint64_t*>ctx + at != words:
        memcpy(<uint64_t*>ctx + at, words, n * 8)


cdef void sort_plain(uint64_t* a, uint64_t* room, int64_t n) noexcept nogil:
    cdef Words s
    cdef uint64_t low, high
    s.store = store_plain
    s.ctx = a
    range_of(a, n, &low, &high)
    sort_bucket(&s, a, room, n, low, high, 0, False)


cdef int64_t buckets_for(int64_t n) noexcept nogil:
    cdef int64_t buckets = MIN_BUCKETS
    while buckets * BUCKET_WORDS < n and buckets < MAX_BUCKETS:
        buckets *= 2
    return buckets


cdef int sort_shared(Worker* w, Words* s, const Cut* cut, int depth) noexcept nogil:
    """cut: NULL, if no sample was taken."""
    cdef Radix r
    cdef int64_t blocks, b, k, sum, count
    cdef uint64_t low, high
    cdef bint skewed
    cdef int rc = ENOMEM
    r.words = s
    r.depth = depth
    r.mid = s.spare if s.spare != NULL else s.dst
    r.buckets = buckets_for(s.n)
    if cut != NULL:
        r.cut = cut[0]
    elif depth < 2:
        if sample_cut(s, r.buckets, &r.cut, &skewed) != 0:
            return ENOMEM
    else:
        # Samples have misled twice: by what is certain to tell some apart.
        exact_range(s, &low, &high)
        make_cut(&r.cut, low, high, r.buckets, False)
    r.buckets = r.cut.last + 2
    blocks = min(<int64_t>MAX_BLOCKS, (s.n + BLOCK_WORDS - 1) // BLOCK_WORDS)
    r.block = (s.n + blocks - 1) // blocks
    blocks = (s.n + r.block - 1) // r.block
    r.offsets = <int64_t*>calloc(blocks * r.buckets, sizeof(int64_t))
    r.ends = <int64_t*>malloc(blocks * r.buckets * sizeof(int64_t))
    r.starts = <int64_t*>malloc((r.buckets + 1) * sizeof(int64_t))
    u32_store_relaxed(&r.changed, 0)
    r.done = <uint8_t*>calloc(r.buckets, 1)
    if r.offsets != NULL and r.ends != NULL and r.starts != NULL and r.done != NULL:
        rc = bridged(w, count_leaf, NULL, &r, r.block, s.n)
        if rc == 0:
            sum = 0
            for b in range(r.buckets):
                r.starts[b] = sum
                for k in range(blocks):
                    count = r.offsets[k * r.buckets + b]
                    r.offsets[k * r.buckets + b] = sum
                    sum += count
                    r.ends[k * r.buckets + b] = sum
            r.starts[r.buckets] = sum
            bridge_init(&r.bridge, scatter_leaf, NULL, &r, r.block)
            rc = bridge_run(w, &r.bridge, s.n)
            if rc == 0 and u32_load_relaxed(&r.changed):
                rc = CHANGED
        if rc == 0:
            rc = bridged(w, bucket_leaf, NULL, &r, 1, r.buckets)
            if rc != 0 and s.spare != NULL:
                # What was not sorted goes back as it is.
                for b in range(r.buckets):
                    if not r.done[b]:
                        s.store(s.ctx, r.mid + r.starts[b] * (8 if s.wide else 4),
                                r.starts[b + 1] - r.starts[b], r.starts[b])
    free(r.offsets)
    free(r.ends)
    free(r.starts)
    free(r.done)
    return rc


cdef int pack_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Inner* i = <Inner*>ctx
    load_words(i.outer, lo, hi, <char*>i.src)
    return 0


cdef int sort_once_packed(Worker* w, Words* s, const Cut* cut) noexcept nogil:
    """From a copy of the words, each loaded once."""
    cdef Words words = s[0]
    cdef Inner inner
    cdef int rc
    inner.outer = s
    inner.base = 0
    inner.src = <char*>alloc_array(s.n * (8 if s.wide else 4))
    if inner.src == NULL:
        return ENOMEM
    rc = bridged(w, pack_leaf, NULL, &inner, BLOCK_WORDS, s.n)
    if rc == 0:
        words.load = load_inner
        words.store = store_inner
        words.ctx = &inner
        rc = sort_shared(w, &words, cut, 0)
    free(<void*>inner.src)
    return rc


# ---- runs, and their merges --------------------------------------------------
# Where the leaf sort is fast: a run for each thread, all sorted at once, and merged two by
# two; each merge is shared.  The words are in a total order, so that the result is the same.

cdef struct Runs:
    Words* s
    sort_fn leaf
    int levels
    char* first             # the runs
    char* last              # their last merge
    MergeOrder order
    int (*merge)(Worker* w, const MergeOrder* o, const char* a, const char* a_end,
                 const char* b, const char* b_end, char* out) noexcept nogil


cdef inline int64_t run_start(const Runs* r, int64_t i) noexcept nogil:
    return (r.s.n * i) >> r.levels


cdef int run_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Runs* r = <Runs*>ctx
    cdef intptr_t size = r.order.itemsize
    cdef int64_t begin = run_start(r, lo), end = run_start(r, lo + 1)
    load_words(r.s, begin, end, r.first)
    return ENOMEM if r.leaf(r.first + begin * size, end - begin, NULL) < 0 else 0


cdef int merge_and_store(Worker* w, const MergeOrder* o, const char* a, const char* a_end,
                         const char* b, const char* b_end, char* out) noexcept nogil:
    """The last merge: what is stored is in the cache still."""
    cdef Runs* r = <Runs*>o.arg
    cdef int rc = r.merge(w, o, a, a_end, b, b_end, out)
    if rc == 0:
        r.s.store(r.s.ctx, out, ((a_end - a) + (b_end - b)) // o.itemsize, (out - r.last) // o.itemsize)
    return rc


cdef int levels_for(Worker* w, const Words* s, bint skewed) noexcept nogil:
    """A run for each thread, or more; -1: the radix sort is faster."""
    cdef int levels = 0, threads = w.pool.n_background + 1
    cdef double ours = WIDE_NS if s.wide else NARROW_NS
    if skewed:
        ours = WIDE_SKEWED_NS if s.wide else NARROW_SKEWED_NS
    while levels < MAX_LEVELS and (s.n >> levels > MAX_RUN_WORDS or (
            1 << levels < threads and s.n >> (levels + 1) >= RUN_WORDS)):
        levels += 1
    return levels if leaf_ns(s.wide, s.n >> levels) + RUNS_NS + levels * MERGE_NS < ours else -1


cdef int sort_by_runs(Worker* w, Words* s, int levels) noexcept nogil:
    cdef Runs r
    cdef MergeTwo t
    cdef intptr_t size = 8 if s.wide else 4
    cdef char* other = <char*>alloc_array(s.n * size)
    cdef char* words = s.spare if s.spare != NULL else s.dst
    cdef char* begin
    cdef char* to
    cdef bint sharing = w.sharing
    cdef int64_t width = 1, i
    cdef int rc
    if other == NULL:
        return ENOMEM
    r.s = s
    r.leaf = leaf_wide if s.wide else leaf_narrow
    r.levels = levels
    order_numbers(&r.order, b"u", size)
    # Each merge goes to the other place, the last one to dst if that is one of them.
    r.first = words if levels % 2 == 0 else other
    r.last = words
    # Of few leaves none may wait for the end of the first.
    w.sharing = w.pool.n_background > 0
    rc = bridged(w, run_leaf, NULL, &r, 1, <int64_t>1 << levels)
    begin = r.first
    t.order = &r.order
    while rc == 0 and width < <int64_t>1 << levels:
        to = words if begin == other else other
        if 2 * width == <int64_t>1 << levels:
            r.merge = r.order.merge
            r.order.merge = merge_and_store
            r.order.arg = <void*>&r
        i = 0
        while rc == 0 and i < <int64_t>1 << levels:
            t.a = begin + run_start(&r, i) * size
            t.b = begin + run_start(&r, i + width) * size
            t.na = (t.b - t.a) // size
            t.nb = run_start(&r, i + 2 * width) - run_start(&r, i + width)
            t.out = to + run_start(&r, i) * size
            rc = merge_two(w, &t)
            i += 2 * width
        if rc != 0 and r.order.merge == merge_and_store and s.spare != NULL:
            # Some of them are stored, and all of them are here.
            s.store(s.ctx, begin, s.n, 0)
        begin = to
        width *= 2
    w.sharing = sharing
    free(other)
    return rc


cdef int sort_words(Worker* w, Words* s) noexcept nogil:
    cdef Cut cut
    cdef bint found, skewed
    cdef int rc, levels
    if w == NULL or s.n < SHARED_WORDS:
        return sort_small(s)
    rc = find_order(w, s, s.spare != NULL, &found)
    if rc != 0 or found:
        return rc
    if sample_cut(s, buckets_for(s.n), &cut, &skewed) != 0:
        return ENOMEM
    levels = levels_for(w, s, skewed)
    if levels == 0:
        rc = sort_by_leaf(s, s.spare if s.spare != NULL else s.dst)
    elif levels > 0:
        rc = sort_by_runs(w, s, levels)
    else:
        rc = sort_once_packed(w, s, &cut) if s.slow else sort_shared(w, s, &cut, 0)
        if rc == CHANGED:
            # Another thread writes what is being sorted.  The result is nothing to rely on,
            # but it is of items that were there.
            rc = sort_once_packed(w, s, &cut)
    return rc


# ---- numbers ----------------------------------------------------------------

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


cdef inline uint64_t key_shift(int size) noexcept nogil:
    """The key of minus infinity before it was moved to 0, and what is below it to the end."""
    if size == 8:
        return 0x000FFFFFFFFFFFFFu
    return 0x007FFFFFu if size == 4 else 0x03FF


cdef inline Word key_of(Word x, KeyKind kind) noexcept nogil:
    """Bits whose unsigned order is the order of the items; no two share one."""
    cdef Word sign = <Word>1 << (8 * sizeof(Word) - 1)
    if kind == KEY_UNSIGNED:
        return x
    if kind == KEY_SIGNED:
        return x ^ sign
    if kind == KEY_TIME:
        return (x ^ sign) - 1       # the least wraps to the greatest
    # NaNs with a sign would be below minus infinity: all wrap to the end.
    return (x ^ (sign | (<Word>0 - (x >> (8 * sizeof(Word) - 1))))) - <Word>key_shift(sizeof(Word))


cdef inline Word of_key(Word key, KeyKind kind) noexcept nogil:
    cdef Word sign = <Word>1 << (8 * sizeof(Word) - 1)
    if kind == KEY_UNSIGNED:
        return key
    if kind == KEY_SIGNED:
        return key ^ sign
    if kind == KEY_TIME:
        return (key + 1) ^ sign
    key = key + <Word>key_shift(sizeof(Word))
    return key ^ (sign | ((key >> (8 * sizeof(Word) - 1)) - <Word>1))


cdef inline Word turned(Word key, Word last) noexcept nogil:
    """Descending: what is no number stays where it is."""
    return last - key if key <= last else key


cdef void encode(const Keys* k, const Word* x, int64_t n, Word* out) noexcept nogil:
    cdef Word last = <Word>last_key(k.kind, sizeof(Word))
    cdef int64_t i
    if k.kind == KEY_UNSIGNED:
        memcpy(out, x, n * sizeof(Word))
    elif k.kind == KEY_SIGNED:
        for i in range(n):
            out[i] = key_of(x[i], KEY_SIGNED)
    elif k.kind == KEY_TIME:
        for i in range(n):
            out[i] = key_of(x[i], KEY_TIME)
    else:
        for i in range(n):
            out[i] = key_of(x[i], KEY_FLOAT)
    if k.descending:
        for i in range(n):
            out[i] = turned(out[i], last)


cdef void decode(const Keys* k, const Word* x, int64_t n, Word* out) noexcept nogil:
    cdef Word last = <Word>last_key(k.kind, sizeof(Word))
    cdef int64_t i
    if k.descending:
        for i in range(n):
            out[i] = of_key(turned(x[i], last), k.kind)
    elif k.kind == KEY_UNSIGNED:
        if out != x:
            memcpy(out, x, n * sizeof(Word))
    elif k.kind == KEY_SIGNED:
        for i in range(n):
            out[i] = of_key(x[i], KEY_SIGNED)
    elif k.kind == KEY_TIME:
        for i in range(n):
            out[i] = of_key(x[i], KEY_TIME)
    else:
        for i in range(n):
            out[i] = of_key(x[i], KEY_FLOAT)


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
    cdef int64_t end = k.n, blocks = (k.n + BLOCK_WORDS - 1) // BLOCK_WORDS, b, sum = 0, count
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
    rc = each(w, count_equals_leaf, &r, BLOCK_WORDS, k.n)
    if rc == 0:
        for b in range(blocks):
            count = r.before[b]
            r.before[b] = sum
            sum += count
        r.before[blocks] = sum
        rc = each(w, write_equals_leaf, &r, BLOCK_WORDS, k.n)
    free(r.before)
    return rc


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
    return bridged(w, rows_leaf, NULL, k, 1 + 4096 // (k.n + 1), rows)


cdef int sort_in_place(Worker* w, KeyKind kind, int itemsize, void* a, int64_t n) noexcept nogil:
    cdef Keys k
    k.src = k.dst = <char*>a
    k.n = n
    k.itemsize = itemsize
    k.kind = kind
    k.descending = False
    k.stable = False
    return sort_keys(w, &k) if n > 1 else 0


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
    # Half precision; see of_key.
    key = (key + <int64_t>key_shift(2)) & 0xFFFF
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
            rc = bridged(w, histogram_leaf, histogram_combine, &c, c.block, k.n)
        if rc == 0:
            for rank in range(c.values):
                sum += c.counts[pattern_of(&c, rank)]
                c.ends[rank] = sum
            rc = each(w, runs_leaf, &c, BLOCK_WORDS, k.n)
            if rc != 0 and k.src == k.dst:
                # Half written, and what was there is only in the counts.
                runs_leaf(NULL, &c, 0, k.n)
    free(c.counts)
    free(c.ends)
    return rc
