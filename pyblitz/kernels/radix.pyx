"""Parallel radix sorts; see radix.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport INT32_MAX, UINT32_MAX, uint8_t
from libc.math cimport INFINITY, log2
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from pyblitz.kernels.blocks cimport SAMPLE_SEED, copy_bytes, next_random, run_blocks, sample_place
from pyblitz.kernels.numbers cimport Word
from pyblitz.kernels.prefetch cimport prefetch_write
from pyblitz.kernels.simd.levels cimport (
    MAX_PARTS, NARROW_INFINITY, WIDE_INFINITY, NarrowSplitters, SortCheck, WideSplitters, simd)
from pyblitz.runtime.atomic cimport (
    atomic_i64, atomic_u32, i64_load_relaxed, i64_store_relaxed, u32_load_relaxed, u32_store_relaxed)
from pyblitz.runtime.bridge cimport (
    Bridge, bridge_init, bridge_limit, bridge_run, bridge_wants)
from pyblitz.runtime.os cimport alloc_array, denormals_are_zero, now_ns
from pyblitz.runtime.pool cimport must_stop

cdef enum:
    LINE_BYTES = 64
    SAMPLES = 1024
    FEW_SAMPLES = 256
    FEW_SAMPLES_BELOW = 262144
    BUCKET_BYTES = 131072    # aimed at
    MIN_BUCKETS = 16
    MAX_BUCKETS = 2048
    MAX_BLOCKS = 64
    MAX_DEPTH = 4
    # Sorts in this module also return these: another thread has changed the words; there is a NaN.
    CHANGED = -2
    HAS_NANS = -3
    MAX_PIECES = 1024       # that a bucket is cut into
    PIECE_WORDS = 96       # at most, on average
    OCTAVES = 128           # pieces that are enough for one per octave
    # Words by which a leaf sort is timed, and the logarithm of their number.
    TIMED_WORDS = 8192
    TIMED_LEVELS = 13
    TIMED_RUNS = 4          # at least, and for so long:
    TIMED_NS = 500_000
    MIN_BLOCK_WORDS = 4096
    FEW_PARTS = 4
    MIN_PARTS = 16
    MANY_PARTS = 64
    FAR_BYTES = 1 << 24     # words of more do not stay in a cache between two halvings
    MAX_STEPS = 128         # where more parts are cheap, steps are not cheaper
    PART_WORDS = 32768      # between two splitters, aimed at
    MAX_PART_WORDS = 1048576    # where more splitters cost more
    PARTS_OF_A_THREAD = 4   # so that none waits long for the last

# Nanoseconds that a word takes one thread; what differs most from processor to processor is timed
# where it runs.
cdef double EQUAL_NS = 0.3      # of a part whose words are all equal
# Pieces take up to so many times as long where words are not evenly distributed, or many are equal.
cdef double UNEVEN = 2.5
# Parts are made for what occurs often if that is so much of a sample, as a part.
cdef double MOSTLY_OFTEN = 0.5
# There are few parts only if no more than that occurs often: else one could have nearly all words.
cdef double SELDOM_OFTEN = 0.25
# Words are not repeated much if so many of a sample, as a part, occur in it once.
cdef double MOSTLY = 0.9
# What it costs besides to share a sort, in nanoseconds: threads wake up, and are waited for.
cdef double SHARED_SORT_NS = 25e3
# One call of a leaf sort that nothing can stop, which is NumPy's, may take so many nanoseconds at most; and
# one of ours, which can be stopped between steps, of which none takes a quarter of it.
cdef double ALONE_NS = 100e6
cdef double ALONE_IN_STEPS_NS = 400e6
# To share must be estimated to take less than this part of what the leaf sort takes alone: estimates
# are no better.
cdef double SURELY = 0.85
# What a halving of words that occur more than once costs, as a part of a usual one; and what it takes
# at least where no cache holds them, for each byte of a word: there are few halvings then, each of all
# words.
cdef double REPEATED = 1.0
cdef double FAR_NS = 0.12

cdef Leaves leaves_narrow
cdef Leaves leaves_wide


cdef struct Paces:
    # Picoseconds a word, of TIMED_WORDS; 0: not timed yet.
    atomic_i64 ours         # our leaf sort, all at once
    atomic_i64 leaf         # NumPy's
    atomic_i64 floats       # floats_leaf, all at once
    atomic_i64 pieces       # cut into pieces
    atomic_i64 counts       # put between splitters, and counted
    atomic_i64 counts_few   # the same, between the fewest splitters
    atomic_i64 moves        # between as many as for `counts`, and moved there
    atomic_i64 few          # both, by vectors, for each of few parts
    atomic_i64 steps        # both, to parts in equal steps

cdef Paces narrow_paces
cdef Paces wide_paces


cdef Leaves* leaves_of(bint wide) noexcept nogil:
    return &leaves_wide if wide else &leaves_narrow


cdef void use_leaves(Leaves narrow, Leaves wide) noexcept nogil:
    global leaves_narrow, leaves_wide
    leaves_narrow = narrow
    leaves_wide = wide
    set_paces(0, 0, 0, 0)


cdef inline Paces* paces_of(bint wide) noexcept nogil:
    return &wide_paces if wide else &narrow_paces


cdef void set_paces(int64_t ours, int64_t leaf, int64_t pieces, int64_t floats) noexcept nogil:
    cdef Paces* paces
    cdef int wide
    for wide in range(2):
        paces = paces_of(wide)
        i64_store_relaxed(&paces.ours, ours)
        i64_store_relaxed(&paces.leaf, leaf)
        i64_store_relaxed(&paces.pieces, pieces)
        i64_store_relaxed(&paces.floats, floats)
        i64_store_relaxed(&paces.counts, 0)
        i64_store_relaxed(&paces.counts_few, 0)
        i64_store_relaxed(&paces.moves, 0)
        i64_store_relaxed(&paces.few, 0)
        i64_store_relaxed(&paces.steps, 0)


cdef void sort_timed(Word* a, Word* room, sort_fn leaf) noexcept nogil:
    cdef Words s
    cdef uint64_t low, high
    if leaf != NULL:
        leaf(a, TIMED_WORDS, NULL)
        return
    s.wide = Word is uint64_t
    s.store = store_plain
    s.ctx = a
    range_of(a, TIMED_WORDS, &low, &high)
    sort_by_pieces(&s, a, room, TIMED_WORDS, low, high, 0, False)


cdef void random_words(uint64_t* words, bint wide, uint64_t* state) noexcept nogil:
    # As many in each step of their range, and none is a NaN as a float.
    cdef uint64_t numbers = ~(<uint64_t>3 << 62) if wide else 0x3fffffff3fffffffu
    cdef int i
    for i in range(TIMED_WORDS):
        next_random(state)
        words[i] = (state[0] ^ (state[0] >> 32)) & numbers


cdef int64_t time_sort(bint wide, sort_fn leaf) noexcept nogil:
    """How many picoseconds a word takes `leaf`, or the sort by pieces if leaf is NULL.  The fastest of
    several runs counts: the first ones are slower."""
    cdef uint64_t* words = <uint64_t*>malloc(2 * TIMED_WORDS * sizeof(uint64_t))
    cdef uint64_t state = 1
    cdef int64_t best = INT32_MAX, end = now_ns() + TIMED_NS, begun
    cdef int runs = 0
    if words == NULL:
        return best
    while runs < TIMED_RUNS or now_ns() < end:
        runs += 1
        random_words(words, wide, &state)
        begun = now_ns()
        if wide:
            sort_timed[uint64_t](words, words + TIMED_WORDS, leaf)
        else:
            sort_timed[uint32_t](<uint32_t*>words, <uint32_t*>(words + TIMED_WORDS), leaf)
        best = min(best, (now_ns() - begun) * 1000 // TIMED_WORDS)
    free(words)
    return max(best, <int64_t>1)


cdef int64_t pace(bint wide, sort_fn leaf, atomic_i64* kept) noexcept nogil:
    # relaxed: any measurement is as good as another
    cdef int64_t found = i64_load_relaxed(kept)
    if found == 0:
        found = time_sort(wide, leaf)
        if found < INT32_MAX:   # else there was no memory to time it
            i64_store_relaxed(kept, found)
    return found


cdef inline sort_fn our_leaf(bint wide) noexcept nogil:
    return simd.sort_wide if wide else simd.sort_narrow


cdef bint ours_is_faster(bint wide) noexcept nogil:
    """Than NumPy's leaf sort."""
    cdef Paces* paces = paces_of(wide)
    cdef sort_fn ours = our_leaf(wide), other = leaves_of(wide).words
    return ours != NULL and (
        other == NULL or pace(wide, ours, &paces.ours) <= pace(wide, other, &paces.leaf))


cdef inline sort_fn faster_leaf(bint wide) noexcept nogil:
    """NULL: there is none."""
    return our_leaf(wide) if ours_is_faster(wide) else leaves_of(wide).words


cdef double timed_level_ns(bint wide, sort_fn leaf, atomic_i64* kept) noexcept nogil:
    return INT32_MAX if leaf == NULL else pace(wide, leaf, kept) / (1000.0 * TIMED_LEVELS)


cdef double level_ns(bint wide) noexcept nogil:
    """What a word takes the leaf sort for each halving of what is to be sorted."""
    if ours_is_faster(wide):
        return timed_level_ns(wide, our_leaf(wide), &paces_of(wide).ours)
    return timed_level_ns(wide, leaves_of(wide).words, &paces_of(wide).leaf)


cdef sort_fn leaf_of_integers(bint wide, bint signed) noexcept nogil:
    if not signed:
        return faster_leaf(wide)
    if ours_is_faster(wide):
        return simd.sort_int64 if wide else simd.sort_int32
    return leaves_of(wide).signed


cdef inline sort_fn floats_leaf(bint wide) noexcept nogil:
    """NULL: there is none."""
    return simd.sort_doubles if wide and simd.sort_doubles != NULL else leaves_of(wide).floats


cdef double floats_level_ns(bint wide) noexcept nogil:
    return timed_level_ns(wide, floats_leaf(wide), &paces_of(wide).floats)


cdef double whole_level_ns(const Words* s) noexcept nogil:
    """The same for all items at once, for which the leaf sort of floats may be the faster one."""
    return min(level_ns(s.wide), floats_level_ns(s.wide)) if s.floats else level_ns(s.wide)


cdef inline bint floats_are_faster(const Words* s) noexcept nogil:
    """Whether the leaf sort of floats is to sort the items themselves."""
    return s.floats and floats_level_ns(s.wide) < level_ns(s.wide) and not denormals_are_zero()


cdef inline bint parts_are_floats(const Words* s) noexcept nogil:
    """Whether it sorts parts of few, too, where the result goes: with a spare, others may write there."""
    return s.spare == NULL and floats_are_faster(s)


cdef double leaf_ns(bint wide, int64_t n) noexcept nogil:
    """What a word takes the leaf sort, of n at once."""
    return level_ns(wide) * log2_of(n | 1)


cdef double pieces_ns(bint wide, int64_t n, bint even) noexcept nogil:
    """What a word takes in pieces, in a bucket of n; even: see sort_bucket."""
    if n > MAX_PIECES * PIECE_WORDS and simd.sort_wide != NULL:
        # Larger pieces than were timed, of more than a cache holds: vectors are faster.
        return INFINITY
    return pace(wide, NULL, &paces_of(wide).pieces) / 1000.0 * (1 if even else UNEVEN)


# ---- from keys to buckets ---------------------------------------------------

cdef struct Cut:
    # Keys above `low` in equal steps; or, in pieces of a bucket, bent: in steps that double with
    # each octave, for keys of all magnitudes (as the buckets of an HDR histogram).
    uint64_t low            # the least key of step 0
    uint64_t last           # step
    int shift               # of a step; or what is left of an octave, in bits
    bint bent               # whether steps double with each octave


cdef inline int64_t words_of_bucket(bint wide) noexcept nogil:
    return BUCKET_BYTES // (8 if wide else 4)


cdef inline int64_t bucket_of(const Cut* c, uint64_t key) noexcept nogil:
    """0 below the first step, which is bucket 1; what is past the last step is in its bucket."""
    cdef uint64_t d = (key - c.low) >> c.shift
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
    """The keys of one that is neither the first nor the last, in equal steps."""
    low[0] = c.low + ((b - 1) << c.shift)
    high[0] = low[0] + ((<uint64_t>1 << c.shift) - 1)


# ---- one bucket, alone ------------------------------------------------------

cdef inline bint words_ascend(const Word* a, int64_t n) noexcept nogil:
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
    cdef sort_fn leaf = faster_leaf(sizeof(Word) == 8)
    if n < 12 or leaf == NULL:
        insertion_sort(a, n)
    else:
        leaf(a, n, NULL)


cdef inline bint is_ours(sort_fn leaf) noexcept nogil:
    return leaf != NULL and leaf in (simd.sort_narrow, simd.sort_wide, simd.sort_int32, simd.sort_int64,
                                     simd.sort_doubles)


cdef int worker_must_stop(void* w) noexcept nogil:
    return must_stop(<Worker*>w, 0)


cdef int run_leaf(Worker* w, sort_fn leaf, void* a, int64_t n) noexcept nogil:
    """0, ENOMEM, or -1 with an exception set; after a failure, the words are in some order."""
    cdef SortCheck check
    if w != NULL and is_ours(leaf):
        check.must_stop = worker_must_stop
        check.ctx = w
        return -1 if leaf(a, n, &check) != 0 else 0
    return ENOMEM if leaf(a, n, NULL) < 0 else 0


cdef void range_of(const Word* a, int64_t n, uint64_t* low, uint64_t* high) noexcept nogil:
    if Word is uint64_t:
        simd.range_wide(a, n, low, high)
    else:
        simd.range_narrow(a, n, low, high)


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


cdef void sort_by_pieces(const Words* s, Word* a, Word* b, int64_t n, uint64_t low, uint64_t high,
                         int64_t at, bint bent) noexcept nogil:
    """Sorts a[0 .. n], all between low and high, with b as room for as many, and stores them
    at place `at` of the result, which may be a or b."""
    # Few on the stack, which may be that of a small Python thread.
    cdef uint32_t few_ends[OCTAVES]
    cdef uint32_t* ends = few_ends
    cdef Cut c
    cdef int64_t pieces = OCTAVES if bent else 2, i, m, begin = 0, waiting = 0
    cdef uint64_t least, most
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
                sort_crowd(s, b + begin, a + begin, m, least, most, at + begin, not bent)
                waiting = begin + m
        begin += m
    if n > waiting:
        s.store(s.ctx, b + waiting, n - waiting, at + waiting)
    if ends != few_ends:
        free(ends)


cdef void sort_crowd(const Words* s, Word* a, Word* b, int64_t n, uint64_t low, uint64_t high,
                     int64_t at, bint bent) noexcept nogil:
    if n <= LEAF_WORDS:
        sort_few(a, n)
        s.store(s.ctx, a, n, at)
    elif low == high or words_ascend(a, n):
        s.store(s.ctx, a, n, at)
    else:
        sort_by_pieces(s, a, b, n, low, high, at, bent)


cdef void sort_bucket(const Words* s, Word* a, Word* b, int64_t n, uint64_t low, uint64_t high,
                      int64_t at, bint even) noexcept nogil:
    """As sort_by_pieces, in the way that is faster here.  even: whether there are about as many
    words in one piece as in another."""
    if (n > LEAF_WORDS and low != high and leaf_ns(s.wide, n) < pieces_ns(s.wide, n, even)
            and run_leaf(NULL, faster_leaf(s.wide), a, n) == 0):
        s.store(s.ctx, a, n, at)
    else:
        sort_crowd(s, a, b, n, low, high, at, False)


cdef void load_words(const Words* s, int64_t lo, int64_t hi, char* to) noexcept nogil:
    """Items lo .. hi as words, to their places behind ``to``."""
    cdef int64_t until
    while lo < hi:
        until = min(hi, lo + RADIX_CHUNK)
        s.load(s.ctx, lo, until, to + lo * (8 if s.wide else 4))
        lo = until


cdef void sort_alone(const Words* s, Word* a, Word* b) noexcept nogil:
    cdef uint64_t low, high
    load_words(s, 0, s.n, <char*>a)
    range_of(a, s.n, &low, &high)
    sort_bucket(s, a, b, s.n, low, high, 0, False)


cdef int sort_floats(Worker* w, Word* a, int64_t n) noexcept nogil:
    """Sorts floats in place by the leaf sort, then puts -0.0 before 0.0.  With a NaN it returns HAS_NANS
    and sorts nothing: the leaf sort changes a NaN's bits."""
    cdef Word sign = <Word>1 << (8 * sizeof(Word) - 1)
    cdef int64_t nans = 0, negative = 0, low = 0, high = n, i
    cdef int rc
    if Word is uint64_t:
        simd.look_wide(a, n, &nans, &negative)
    else:
        simd.look_narrow(a, n, &nans, &negative)
    if nans > 0:
        return HAS_NANS
    rc = run_leaf(w, floats_leaf(sizeof(Word) == 8), a, n)
    if rc == 0 and negative > 0:
        while low < high:
            i = (low + high) >> 1
            if a[i] > sign:     # a negative number
                low = i + 1
            else:
                high = i
        for i in range(min(negative, n - low)):
            a[low + i] = sign
        i = low + negative
        while i < n and a[i] << 1 == 0:
            a[i] = 0
            i += 1
    return rc


cdef int sort_unturned(Worker* w, const Words* s, char* room) noexcept nogil:
    """Sorts the items themselves, not their words, where that gives the same bits.  HAS_NANS: nothing
    was sorted."""
    cdef int64_t bytes = s.n * (8 if s.wide else 4)
    cdef int rc
    copy_bytes(room, s.src, bytes)
    if not s.floats:
        rc = run_leaf(w, s.whole, room, s.n)
    elif s.wide:
        rc = sort_floats(w, <uint64_t*>room, s.n)
    else:
        rc = sort_floats(w, <uint32_t*>room, s.n)
    if rc == 0 and room != s.dst:
        copy_bytes(s.dst, room, bytes)
    return rc


cdef int sort_by_leaf(Worker* w, const Words* s) noexcept nogil:
    # Where the items are in dst, there is a spare: what another thread may write while it is
    # sorted would lead NumPy's leaf sort astray, and be an item that nobody wrote after ours.
    cdef char* room = s.spare if s.spare != NULL else s.dst
    cdef sort_fn leaf = faster_leaf(s.wide)
    cdef int rc = HAS_NANS
    if s.whole != NULL or (leaf != NULL and floats_are_faster(s)):
        rc = sort_unturned(w, s, room)
    if rc != HAS_NANS:
        return rc
    load_words(s, 0, s.n, room)
    rc = run_leaf(w, leaf, room, s.n)
    if rc == 0:
        s.store(s.ctx, room, s.n, 0)
    return rc


cdef int sort_small(const Words* s) noexcept nogil:
    cdef uint64_t few[LEAF_WORDS]
    cdef char* room = <char*>few
    cdef char* other = s.dst
    if s.n == 0:
        return 0
    few[0] = 0
    if s.n > LEAF_WORDS:
        if whole_level_ns(s) * log2_of(s.n) < pieces_ns(s.wide, s.n, False):
            return sort_by_leaf(NULL, s)
        room = <char*>alloc_array(s.n * (8 if s.wide else 4))
        if room == NULL:
            return ENOMEM
        if s.spare != NULL:
            # Another thread may write what is in dst.
            other = s.spare
    # To the room first: what load reads may be dst.
    if s.wide:
        sort_alone[uint64_t](s, <uint64_t*>room, <uint64_t*>other)
    else:
        sort_alone[uint32_t](s, <uint32_t*>room, <uint32_t*>other)
    if s.n > LEAF_WORDS:
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

cdef struct OrderCheck:
    Words* words
    bint down               # whether they descend; else ascend
    bint checks             # whether the leaf checks
    bint stores             # whether the leaf stores
    Bridge bridge


cdef bint chunk_in_order(const OrderCheck* o, const Word* a, int64_t n) noexcept nogil:
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


cdef void store_chunk(OrderCheck* o, uint64_t* chunk, int64_t lo, int64_t n) noexcept nogil:
    cdef Words* s = o.words
    cdef uint64_t turned_words[RADIX_CHUNK]
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
    cdef OrderCheck* o = <OrderCheck*>ctx
    cdef Words* s = o.words
    cdef uint64_t chunk[RADIX_CHUNK]
    cdef int64_t n, more
    cdef bint good
    while lo < hi and bridge_wants(&o.bridge, 0):
        n = min(hi - lo, <int64_t>RADIX_CHUNK - 1)
        more = 1 if lo + n < s.n and o.checks else 0
        s.load(s.ctx, lo, lo + n + more, chunk)
        if o.checks:
            if s.wide:
                good = chunk_in_order[uint64_t](o, chunk, n + more)
            else:
                good = chunk_in_order[uint32_t](o, <uint32_t*>chunk, n + more)
            if not good:
                bridge_limit(&o.bridge, 0)
                return 0
        if o.stores:
            store_chunk(o, chunk, lo, n)
        lo += n
    return 0


cdef int mirror_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    """Exchanges each chunk of the first half with its mirror image in the second: the result goes where
    the words come from."""
    cdef OrderCheck* o = <OrderCheck*>ctx
    cdef Words* s = o.words
    cdef uint64_t one[RADIX_CHUNK]
    cdef uint64_t other[RADIX_CHUNK]
    cdef int64_t n
    while lo < hi:
        n = min(hi - lo, <int64_t>RADIX_CHUNK)
        s.load(s.ctx, lo, lo + n, one)
        s.load(s.ctx, s.n - lo - n, s.n - lo, other)
        store_chunk(o, one, lo, n)
        store_chunk(o, other, s.n - lo - n, n)
        lo += n
    return 0


cdef int store_as_it_is(Worker* w, Words* s) noexcept nogil:
    cdef OrderCheck o
    o.words = s
    o.down = False
    o.checks = False
    o.stores = True
    bridge_init(&o.bridge, order_leaf, NULL, &o, BLOCK_WORDS)
    return bridge_run(w, &o.bridge, s.n)


cdef int find_order(Worker* w, Words* s, bint in_place, bint* found) noexcept nogil:
    """Stores the words if they ascend or descend as they are."""
    cdef OrderCheck o
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
        return run_blocks(w, mirror_leaf, &o, BLOCK_WORDS, (s.n + 1) // 2)
    return store_as_it_is(w, s)


# ---- shared -----------------------------------------------------------------
# One pass that moves each word to its bucket, after the histogram and scatter of Zagha and
# Blelloch, "Radix sort for vector multiprocessors" (1991).  Where a sample shows that the words
# lie evenly, a bucket is a step of the range it shows, and what lies outside goes to the first
# and last one.  Else it is what lies between two splitters from the sample, after Sanders and
# Winkel, "Super scalar sample sort" (2004); and a word of which there are many has a bucket of
# its own, which needs no sort, as in Axtmann, Witt, Ferizovic and Sanders, "In-place parallel
# super scalar samplesort" (2017).

cdef struct Splitters:
    # Of words of 4 or of 8 bytes: of these alone.
    NarrowSplitters narrow
    WideSplitters wide


cdef struct Radix:
    Words* words            # the sort
    int depth               # how many heavy buckets it is within
    char* mid               # where the buckets are: dst or spare
    Cut cut                 # which bucket a word goes to
    Splitters* split        # the splitters, if these decide and not the cut; else NULL
    bint moves              # whether vector instructions move the words to a few parts
    uint8_t equal[MAX_PARTS]    # of a part between splitters: whether all its words are equal
    bint skips              # whether there is such a part
    uint8_t* parts          # of each word, where there are splitters, and NULL if it moves
    int64_t buckets         # how many
    bint even               # whether few words are there more than once
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
    for i in range(n):
        counts[bucket_of(&c, chunk[i])] += 1


cdef inline void put_word(Word* to, Word word) noexcept nogil:
    """Stores are done in order: without the hint, those to other buckets wait for this one's next
    line to come."""
    to[0] = word
    prefetch_write(to + LINE_BYTES // sizeof(Word))


cdef bint scatter_chunk(const Cut* cut, const Word* chunk, int64_t n, int64_t* to,
                        const int64_t* ends, Word* mid) noexcept nogil:
    """False: more words for a bucket than were counted."""
    cdef Cut c = cut[0]
    cdef int64_t i, b, at
    for i in range(n):
        b = bucket_of(&c, chunk[i])
        at = to[b]
        if at >= ends[b]:
            return False
        to[b] = at + 1
        put_word(mid + at, chunk[i])
    return True


cdef void count_bytes(const uint8_t* parts, int64_t n, int64_t buckets, int64_t* counts) noexcept nogil:
    """In four tables: where many are the same, each count would wait for the one before."""
    cdef uint16_t some[3][MAX_PARTS]
    cdef int64_t i = 0, k
    for k in range(buckets):
        some[0][k] = some[1][k] = some[2][k] = 0
    while i + 4 <= n:
        counts[parts[i]] += 1
        some[0][parts[i + 1]] += 1
        some[1][parts[i + 2]] += 1
        some[2][parts[i + 3]] += 1
        i += 4
    while i < n:
        counts[parts[i]] += 1
        i += 1
    for k in range(buckets):
        counts[k] += some[0][k] + some[1][k] + some[2][k]


cdef void count_parts(const Radix* r, const Word* chunk, int64_t lo, int64_t n, int64_t* counts) noexcept nogil:
    cdef uint8_t* parts = r.parts + lo
    if Word is uint64_t:
        simd.split_wide(chunk, n, &r.split.wide, parts)
    else:
        simd.split_narrow(chunk, n, &r.split.narrow, parts)
    count_bytes(parts, n, r.buckets, counts)


cdef void scatter_parts(const Radix* r, const Word* chunk, int64_t lo, int64_t n, int64_t* to) noexcept nogil:
    """As they were counted, whatever the words are now; but for what store_equal does."""
    cdef const uint8_t* parts = r.parts + lo
    cdef Word* mid = <Word*>r.mid
    cdef uint8_t unequal[RADIX_CHUNK]
    cdef int64_t i, k, at, some = n
    if r.skips:
        some = 0
        for i in range(n):
            unequal[some] = <uint8_t>i
            some += not r.equal[parts[i]]
    for k in range(some):
        i = unequal[k] if r.skips else k
        at = to[parts[i]]
        to[parts[i]] = at + 1
        put_word(mid + at, chunk[i])


cdef void count_few(const Radix* r, const Word* chunk, int64_t n, int64_t* counts) noexcept nogil:
    if Word is uint64_t:
        simd.count_wide(chunk, n, &r.split.wide, counts)
    else:
        simd.count_narrow(chunk, n, &r.split.narrow, counts)


cdef bint scatter_few(const Radix* r, const Word* chunk, int64_t n, int64_t* to,
                      const int64_t* ends) noexcept nogil:
    """As scatter_chunk."""
    if Word is uint64_t:
        return simd.move_wide(chunk, n, &r.split.wide, to, ends, <uint64_t*>r.mid)
    else:
        return simd.move_narrow(chunk, n, &r.split.narrow, to, ends, <uint32_t*>r.mid)


cdef int radix_count_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Radix* r = <Radix*>ctx
    cdef Words* s = r.words
    cdef int64_t* counts = r.offsets + (lo // r.block) * r.buckets
    cdef uint64_t chunk[RADIX_CHUNK]
    cdef int64_t end
    while lo < hi:
        end = min(hi, lo + RADIX_CHUNK)
        s.load(s.ctx, lo, end, chunk)
        if r.moves:
            if s.wide:
                count_few[uint64_t](r, chunk, end - lo, counts)
            else:
                count_few[uint32_t](r, <uint32_t*>chunk, end - lo, counts)
        elif r.split != NULL:
            if s.wide:
                count_parts[uint64_t](r, chunk, lo, end - lo, counts)
            else:
                count_parts[uint32_t](r, <uint32_t*>chunk, lo, end - lo, counts)
        elif s.wide:
            count_chunk[uint64_t](&r.cut, chunk, end - lo, counts)
        else:
            count_chunk[uint32_t](&r.cut, <uint32_t*>chunk, end - lo, counts)
        lo = end
    return 0


cdef int scatter_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Radix* r = <Radix*>ctx
    cdef Words* s = r.words
    cdef int64_t row = (lo // r.block) * r.buckets
    cdef uint64_t chunk[RADIX_CHUNK]
    cdef int64_t end
    cdef bint good = True
    while lo < hi:
        end = min(hi, lo + RADIX_CHUNK)
        s.load(s.ctx, lo, end, chunk)
        if r.moves:
            if s.wide:
                good = scatter_few[uint64_t](r, chunk, end - lo, r.offsets + row, r.ends + row)
            else:
                good = scatter_few[uint32_t](
                    r, <uint32_t*>chunk, end - lo, r.offsets + row, r.ends + row)
        elif r.split != NULL:
            if s.wide:
                scatter_parts[uint64_t](r, chunk, lo, end - lo, r.offsets + row)
            else:
                scatter_parts[uint32_t](r, <uint32_t*>chunk, lo, end - lo, r.offsets + row)
        elif s.wide:
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
    const char* src         # its words
    int64_t base            # where they begin in the outer result
    uint64_t key            # what the words are, for load_equal: it does not read src


cdef void load_inner(void* ctx, int64_t lo, int64_t hi, void* words) noexcept nogil:
    cdef Inner* i = <Inner*>ctx
    cdef int size = 8 if i.outer.wide else 4
    copy_bytes(words, i.src + lo * size, (hi - lo) * size)


cdef void fill_words(Word* to, int64_t n, Word key) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        to[i] = key


cdef void load_equal(void* ctx, int64_t lo, int64_t hi, void* words) noexcept nogil:
    cdef Inner* i = <Inner*>ctx
    if i.outer.wide:
        fill_words(<uint64_t*>words, hi - lo, i.key)
    else:
        fill_words(<uint32_t*>words, hi - lo, <uint32_t>i.key)


cdef void store_inner(void* ctx, const void* words, int64_t n, int64_t at) noexcept nogil:
    cdef Inner* i = <Inner*>ctx
    i.outer.store(i.outer.ctx, words, n, i.base + at)


cdef int sort_heavy(Worker* w, const Radix* r, int64_t start, int64_t n, bint equal,
                    uint64_t key) noexcept nogil:
    """Sorts a bucket that is too large for one worker: it is shared like a whole sort."""
    cdef Words* s = r.words
    cdef int size = 8 if s.wide else 4
    cdef Words words
    cdef Inner inner
    cdef bint found
    cdef int rc
    inner.outer = s
    inner.src = r.mid + start * size
    inner.base = start
    inner.key = key
    words.load = load_inner
    words.store = store_inner
    words.ctx = &inner
    words.wide = s.wide
    words.slow = False
    words.n = n
    words.dst = s.dst + start * size
    words.spare = NULL
    words.whole = NULL
    words.floats = False
    if equal:
        words.load = load_equal
        return store_as_it_is(w, &words)
    # One value, or indices below one value.
    rc = find_order(w, &words, True, &found)
    if rc != 0 or found:
        return rc
    # Neither where they are, nor where the caller's items are, which another thread may write.
    words.spare = <char*>alloc_array(n * size)
    if words.spare == NULL:
        return ENOMEM
    rc = sort_shared(w, &words, NULL, r.depth + 1)
    free(words.spare)
    return rc


cdef bint keys_of_bucket(const Radix* r, int64_t b, uint64_t* low, uint64_t* high) noexcept nogil:
    """False: what keys it has is not known; those at the ends have any, but of the greatest word."""
    cdef uint64_t last = ~<uint64_t>0 if r.words.wide else UINT32_MAX
    if b == 0 or (b == r.buckets - 1 and r.split == NULL):
        return False
    if b == r.buckets - 1:
        low[0] = high[0] = last
        return r.split.wide.in_order[b - 1] == last
    if r.split == NULL:
        range_of_bucket(&r.cut, b, low, high)
    elif r.words.wide:
        low[0] = r.split.wide.in_order[b - 1]
        high[0] = r.split.wide.in_order[b] - 1
    else:
        low[0] = r.split.narrow.in_order[b - 1]
        high[0] = r.split.narrow.in_order[b] - 1
    return True


cdef bint store_equal(const Radix* r, int64_t b) noexcept nogil:
    """Words that are all equal may not have been scattered: as many are stored as were counted.  False:
    they are not equal."""
    cdef Words* s = r.words
    cdef uint64_t chunk[RADIX_CHUNK]
    cdef uint64_t low = 0, high = 0
    cdef int64_t at = r.starts[b], end = r.starts[b + 1]
    if not keys_of_bucket(r, b, &low, &high) or low != high:
        return False
    if s.wide:
        fill_words(chunk, RADIX_CHUNK, low)
    else:
        fill_words(<uint32_t*>chunk, RADIX_CHUNK, <uint32_t>low)
    while at < end:
        s.store(s.ctx, chunk, min(end - at, <int64_t>RADIX_CHUNK), at)
        at += RADIX_CHUNK
    return True


cdef int bucket_alone(Worker* w, const Radix* r, int64_t b, int64_t start, int64_t n, Word* room) noexcept nogil:
    cdef Words* s = r.words
    cdef Word* a = <Word*>r.mid + start
    cdef uint64_t low = 0, high = 0
    cdef bint known = keys_of_bucket(r, b, &low, &high)
    # What is greater is a NaN.
    cdef uint64_t infinity = WIDE_INFINITY if Word is uint64_t else NARROW_INFINITY
    cdef int rc
    if store_equal(r, b):
        return 0
    if n > LEAF_WORDS and (r.split != NULL or not known):
        # By splitters a word goes where it was counted, even if another thread has written since.
        range_of(a, n, &low, &high)
    # few_parts_ns counted on the leaf sort: a part of this size would need too many pieces, or too large
    # ones.
    if r.moves and n > LEAF_WORDS and high <= infinity and parts_are_floats(s):
        s.store(s.ctx, a, n, start)
        rc = sort_floats(w, <Word*>s.dst + start, n)
        # A NaN is not theirs: another thread writes into the result.
        return rc if rc != HAS_NANS else 0
    rc = run_leaf(w, faster_leaf(s.wide), a, n) if r.moves else ENOMEM
    if rc == 0:
        s.store(s.ctx, a, n, start)
    if rc != ENOMEM:
        return rc
    sort_bucket(s, a, room, n, low, high, start, r.even)
    return 0


cdef int bucket_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Radix* r = <Radix*>ctx
    cdef Words* s = r.words
    cdef int size = 8 if s.wide else 4
    cdef char* room
    cdef int64_t b, n
    cdef uint64_t low = 0, high = 0
    cdef bint equal
    cdef int rc
    # Of few parts none has 16 times its share.
    cdef int64_t crowded = s.n if r.moves else min(16 * (s.n // r.buckets), s.n // 4)
    for b in range(lo, hi):
        n = r.starts[b + 1] - r.starts[b]
        if n == 0:
            continue
        if n > 8 * words_of_bucket(s.wide) and n > crowded and (r.depth < MAX_DEPTH or n > INT32_MAX):
            equal = keys_of_bucket(r, b, &low, &high) and low == high
            rc = sort_heavy(w, r, r.starts[b], n, equal, low)
            if rc != 0:
                return rc
        else:
            room = NULL
            if n > LEAF_WORDS:
                room = <char*>alloc_array(n * size)
                if room == NULL:
                    return ENOMEM
            if s.wide:
                rc = bucket_alone[uint64_t](w, r, b, r.starts[b], n, <uint64_t*>room)
            else:
                rc = bucket_alone[uint32_t](w, r, b, r.starts[b], n, <uint32_t*>room)
            free(room)
            if rc != 0:
                return rc
        r.done[b] = 1
    return 0


cdef struct KeySample:
    int64_t n                   # how many keys
    uint64_t keys[SAMPLES]      # in order
    double once                 # what part of them occur once
    double often                # what part of them so often that they get a part of their own
    double levels               # see halvings
    Cut cut                     # equal steps
    bint uneven                 # whether these would not be equal parts


cdef KeySample* take_sample(const Words* s) noexcept nogil:
    """NULL: no memory.  Always the same one of the same length."""
    cdef KeySample* sample = <KeySample*>malloc(sizeof(KeySample))
    cdef uint64_t room[SAMPLES]
    cdef uint64_t state = SAMPLE_SEED
    cdef int64_t stretch, i
    if sample == NULL:
        return NULL
    sample.n = FEW_SAMPLES if s.n < FEW_SAMPLES_BELOW else SAMPLES
    stretch = s.n // sample.n
    for i in range(sample.n):
        sample.keys[i] = word_at(s, sample_place(&state, i, stretch))
    sort_plain(sample.keys, room, sample.n)
    halvings(sample, s.n, 8 if s.wide else 4, whole_level_ns(s))
    choose_steps(sample, buckets_for(s))
    return sample


cdef inline bint is_often(const KeySample* a, int64_t count) noexcept nogil:
    """Whether a key that a sample has so often gets a part of its own."""
    return count * MANY_PARTS >= a.n


cdef void halvings(KeySample* a, int64_t n, int size, double level) noexcept nogil:
    """What n words such as these take the leaf sort, in halvings of a usual word, each of so many
    nanoseconds: the entropy of the sample, if keys that it has once are there once.  And what part of
    them is there once, and often."""
    cdef int64_t i = 0, j, once = 0, often = 0
    # To be loaded and stored costs as much as a halving there.
    cdef bint far = n * size > FAR_BYTES
    cdef double sum = 0, repeated = max(REPEATED, FAR_NS * size / level) if far else REPEATED
    while i < a.n:
        j = i + 1
        while j < a.n and a.keys[j] == a.keys[i]:
            j += 1
        if is_often(a, j - i):
            often += j - i
        if j - i == 1:
            once += 1
        else:
            sum += repeated * (j - i) * (log2(<double>a.n / (j - i)) + far)
        i = j
    a.levels = (sum + once * log2(<double>n)) / a.n
    a.once = <double>once / a.n
    a.often = <double>often / a.n


cdef int64_t worst_load(const KeySample* a) noexcept nogil:
    """The most sampled keys in one bucket, but for buckets of one key."""
    cdef int64_t i = 0, j, worst = 0, bucket
    while i < a.n:
        bucket = bucket_of(&a.cut, a.keys[i])
        j = i + 1
        while j < a.n and bucket_of(&a.cut, a.keys[j]) == bucket:
            j += 1
        if j - i > worst and a.keys[i] != a.keys[j - 1]:
            worst = j - i
        i = j
    return worst


cdef void choose_steps(KeySample* a, int64_t steps) noexcept nogil:
    """Between the 0.5 and 99.5 percent quantiles, so that outliers do not stretch the range."""
    cdef int64_t worst
    make_cut(&a.cut, a.keys[a.n // 200], a.keys[a.n - 1 - a.n // 200], steps, False)
    worst = worst_load(a)
    # More than four times the mean: with few buckets, each has a good part of the sample.
    a.uneven = a.once < MOSTLY or (worst * 32 > a.n and worst * steps > 4 * a.n)


cdef inline bint needs_splitters(const Words* s, const KeySample* a) noexcept nogil:
    return a.uneven or (not s.wide and simd.few_narrow > MAX_STEPS)


cdef void exact_range(const Words* s, uint64_t* low, uint64_t* high) noexcept nogil:
    cdef uint64_t chunk[RADIX_CHUNK]
    cdef uint64_t least, most
    cdef int64_t lo = 0, end
    low[0] = high[0] = word_at(s, 0)
    while lo < s.n:
        end = min(s.n, lo + RADIX_CHUNK)
        s.load(s.ctx, lo, end, chunk)
        if s.wide:
            range_of[uint64_t](chunk, end - lo, &least, &most)
        else:
            range_of[uint32_t](<uint32_t*>chunk, end - lo, &least, &most)
        low[0] = min(low[0], least)
        high[0] = max(high[0], most)
        lo = end


cdef int64_t set_apart(const Words* s, const KeySample* a, int64_t others, uint64_t* chosen) noexcept nogil:
    """Splitters for each word that occurs often, and that many between all others, in equal parts of
    the sample.  Returns how many there are; more than MANY_PARTS - 1: some are missing."""
    cdef uint64_t last = ~<uint64_t>0 if s.wide else UINT32_MAX
    cdef int64_t left = a.n - <int64_t>(a.often * a.n + 0.5), seen = 0, count = 0, i = 0, j
    while i < a.n and count < MANY_PARTS:
        j = i + 1
        while j < a.n and a.keys[j] == a.keys[i]:
            j += 1
        if is_often(a, j - i):
            if count == 0 or chosen[count - 1] < a.keys[i]:
                chosen[count] = a.keys[i]
                count += 1
            if a.keys[i] < last:
                chosen[count] = a.keys[i] + 1
                count += 1
        else:
            # Whether one of the others' limits is among these.
            if ((seen + j - i) * (others + 1) // left > seen * (others + 1) // left and seen + j - i < left
                    and (count == 0 or chosen[count - 1] < a.keys[i])):
                chosen[count] = a.keys[i]
                count += 1
            seen += j - i
        i = j
    return count


cdef int64_t choose_often(const Words* s, const KeySample* a, int threads, uint64_t* chosen) noexcept nogil:
    """Where most words are among a few that occur often: as few parts as these need, and the others to be
    shared.  Returns how many; 0: too many, or there are no such words."""
    cdef int64_t others = max(<int64_t>2 * threads, <int64_t>((1 - a.often) * s.n) // (MAX_PART_WORDS // 2))
    cdef int64_t count, parts = MIN_PARTS
    if a.often < MOSTLY_OFTEN or others >= MANY_PARTS:
        return 0
    count = set_apart(s, a, others, chosen)
    if count >= MANY_PARTS:
        return 0
    while parts <= count:
        parts *= 2
    while count < parts - 1:
        # These have no words between them.
        chosen[count] = chosen[count - 1]
        count += 1
    return parts


cdef int64_t equal_parts(const Words* s, const KeySample* a, int threads) noexcept nogil:
    """How many parts of the sample get a splitter between them."""
    cdef int64_t parts = MIN_PARTS, few = simd.few_wide if s.wide else simd.few_narrow
    if a.once < MOSTLY:
        # Enough of them for what is there often to have two splitters.
        parts = few = MANY_PARTS
    while parts < MAX_PARTS and (parts * (PART_WORDS if parts < few else MAX_PART_WORDS) < s.n
                                 or parts < PARTS_OF_A_THREAD * threads):
        parts *= 2
    return parts


cdef void choose_equal(const Words* s, const KeySample* a, int64_t parts, uint64_t* chosen) noexcept nogil:
    """Splitters between so many equal parts of the sample."""
    cdef uint64_t key, before = 0, last = ~<uint64_t>0 if s.wide else UINT32_MAX
    cdef int64_t i
    for i in range(1, parts):
        key = a.keys[i * a.n // parts]
        # Behind a key of which there are many: the next greater one, if there is one.
        if i > 1 and key <= chosen[i - 2]:
            key = chosen[i - 2] + (chosen[i - 2] == before and before < last)
        chosen[i - 1] = key
        before = a.keys[i * a.n // parts]


cdef void choose_splitters(const Words* s, const KeySample* a, int64_t moves_to, int threads,
                           Splitters* split) noexcept nogil:
    """A word that occurs often gets a part of its own: its splitters are the word and the next greater
    one."""
    cdef uint64_t chosen[MAX_PARTS]
    cdef int64_t parts = 0 if moves_to else choose_often(s, a, threads, chosen), i, node, step
    cdef int levels = 0, k
    if parts == 0:
        parts = moves_to if moves_to else equal_parts(s, a, threads)
        choose_equal(s, a, parts, chosen)
    while 1 << levels < parts:
        levels += 1
    split.narrow.levels = split.wide.levels = levels
    for i in range(1, parts):
        split.wide.in_order[i - 1] = chosen[i - 1]
        split.narrow.in_order[i - 1] = <uint32_t>chosen[i - 1]
    # Node by node, row by row: the root has the one in the middle.
    for k in range(levels):
        step = parts >> k
        for node in range(1 << k):
            i = step // 2 + node * step - 1
            split.wide.tree[(1 << k) + node] = chosen[i]
            split.narrow.tree[(1 << k) + node] = <uint32_t>chosen[i]


cdef int choose_cut(const Words* s, const KeySample* a, int64_t moves_to, int threads, Cut* c,
                    Splitters** split) noexcept nogil:
    """Equal steps; or splitters, where these would not be equal parts, or to a few parts."""
    c[0] = a.cut
    split[0] = NULL
    if moves_to or needs_splitters(s, a):
        split[0] = <Splitters*>malloc(sizeof(Splitters))
        if split[0] == NULL:
            return ENOMEM
        choose_splitters(s, a, moves_to, threads, split[0])
    return 0


cdef void store_plain(void* ctx, const void* words, int64_t n, int64_t at) noexcept nogil:
    if <uint64_t*>ctx + at != words:
        memcpy(<uint64_t*>ctx + at, words, n * 8)


cdef void sort_plain(uint64_t* a, uint64_t* room, int64_t n) noexcept nogil:
    cdef Words s
    cdef uint64_t low, high
    s.wide = True
    s.store = store_plain
    s.ctx = a
    range_of(a, n, &low, &high)
    sort_bucket(&s, a, room, n, low, high, 0, False)


cdef int64_t buckets_for(const Words* s) noexcept nogil:
    cdef int64_t buckets = MIN_BUCKETS
    while buckets * words_of_bucket(s.wide) < s.n and buckets < MAX_BUCKETS:
        buckets *= 2
    return buckets


cdef int choose_buckets(Worker* w, Radix* r, const KeySample* sample) noexcept nogil:
    """By the sample; NULL: by one that is taken now."""
    cdef Words* s = r.words
    cdef KeySample* taken = NULL
    cdef uint64_t low, high
    cdef int rc
    r.split = NULL
    r.moves = False
    r.even = False
    r.parts = NULL
    r.buckets = buckets_for(s)
    if r.depth < 2:
        if sample == NULL:
            sample = taken = take_sample(s)
            if sample == NULL:
                return ENOMEM
        r.even = sample.once >= MOSTLY
        r.moves = few_are_faster(w, s, sample)
        rc = choose_cut(s, sample, few_parts(w) if r.moves else 0, w.pool.n_background + 1, &r.cut, &r.split)
        free(taken)
        if rc != 0:
            return rc
    else:
        # Two samples have misled this sort.  The exact range is certain to separate some words.
        exact_range(s, &low, &high)
        make_cut(&r.cut, low, high, r.buckets, False)
    r.buckets = r.cut.last + 2
    if r.split != NULL:
        r.buckets = <int64_t>1 << r.split.wide.levels
        if not r.moves:
            r.parts = <uint8_t*>alloc_array(s.n)
            if r.parts == NULL:
                return ENOMEM
    return 0


cdef int64_t choose_blocks(const Worker* w, Radix* r) noexcept nogil:
    """How many: some for each thread, so that one that comes late has less to do."""
    cdef int64_t n = r.words.n
    cdef int64_t blocks = max((n + BLOCK_WORDS - 1) // BLOCK_WORDS,
                              min(<int64_t>4 * (w.pool.n_background + 1), n // MIN_BLOCK_WORDS))
    blocks = max(<int64_t>1, min(<int64_t>MAX_BLOCKS, blocks))
    r.block = (n + blocks - 1) // blocks
    return (n + r.block - 1) // r.block


cdef void counts_to_offsets(Radix* r, int64_t blocks) noexcept nogil:
    # As sum_counts, and ends and starts in the same pass.
    cdef int64_t b, k, count, sum = 0
    for b in range(r.buckets):
        r.starts[b] = sum
        for k in range(blocks):
            count = r.offsets[k * r.buckets + b]
            r.offsets[k * r.buckets + b] = sum
            sum += count
            r.ends[k * r.buckets + b] = sum
    r.starts[r.buckets] = sum


cdef void store_unsorted(const Radix* r) noexcept nogil:
    """What was not sorted goes back as it is."""
    cdef const Words* s = r.words
    cdef int64_t b
    for b in range(r.buckets):
        if not r.done[b] and not store_equal(r, b):
            s.store(s.ctx, r.mid + r.starts[b] * (8 if s.wide else 4),
                    r.starts[b + 1] - r.starts[b], r.starts[b])


cdef int count_scatter_sort(Worker* w, Radix* r, int64_t blocks) noexcept nogil:
    cdef Words* s = r.words
    cdef int rc = run_blocks(w, radix_count_leaf, r, r.block, s.n)
    if rc != 0:
        return rc
    counts_to_offsets(r, blocks)
    u32_store_relaxed(&r.changed, 0)
    if find_equal(r):
        bridge_init(&r.bridge, scatter_leaf, NULL, r, r.block)
        rc = bridge_run(w, &r.bridge, s.n)
    if rc == 0 and u32_load_relaxed(&r.changed):
        rc = CHANGED
    if rc != 0:
        return rc
    rc = run_blocks(w, bucket_leaf, r, 1, r.buckets)
    if rc != 0 and s.spare != NULL:
        store_unsorted(r)
    return rc


cdef int sort_shared(Worker* w, Words* s, const KeySample* sample, int depth) noexcept nogil:
    """sample: NULL, if none was taken."""
    cdef Radix r
    cdef int64_t blocks
    cdef bint sharing = w.sharing
    cdef int rc
    r.words = s
    r.depth = depth
    r.mid = s.spare if s.spare != NULL else s.dst
    rc = choose_buckets(w, &r, sample)
    if rc == 0:
        blocks = choose_blocks(w, &r)
        r.offsets = <int64_t*>calloc(blocks * r.buckets, sizeof(int64_t))
        r.ends = <int64_t*>malloc(blocks * r.buckets * sizeof(int64_t))
        r.starts = <int64_t*>malloc((r.buckets + 1) * sizeof(int64_t))
        r.done = <uint8_t*>calloc(r.buckets, 1)
        rc = ENOMEM
        if r.offsets != NULL and r.ends != NULL and r.starts != NULL and r.done != NULL:
            # Of few leaves none may wait for the end of the first.
            w.sharing = w.pool.n_background > 0
            rc = count_scatter_sort(w, &r, blocks)
            w.sharing = sharing
        free(r.offsets)
        free(r.ends)
        free(r.starts)
        free(r.done)
    free(r.split)
    free(r.parts)
    return rc


cdef bint find_equal(Radix* r) noexcept nogil:
    """Which parts have words that are all equal.  Returns whether there are others."""
    cdef uint64_t low = 0, high = 0
    cdef int64_t b
    cdef bint equal, others = False
    r.skips = False
    for b in range(r.buckets):
        equal = keys_of_bucket(r, b, &low, &high) and low == high
        if r.split != NULL:
            r.equal[b] = equal
            r.skips |= equal
        others |= r.starts[b + 1] > r.starts[b] and not equal
    return others


cdef int pack_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Inner* i = <Inner*>ctx
    load_words(i.outer, lo, hi, <char*>i.src)
    return 0


cdef int sort_once_packed(Worker* w, Words* s, const KeySample* sample) noexcept nogil:
    """From a copy of the words, each loaded once."""
    cdef Words words = s[0]
    cdef Inner inner
    cdef int rc
    inner.outer = s
    inner.base = 0
    inner.src = <char*>alloc_array(s.n * (8 if s.wide else 4))
    if inner.src == NULL:
        return ENOMEM
    rc = run_blocks(w, pack_leaf, &inner, BLOCK_WORDS, s.n)
    if rc == 0:
        words.load = load_inner
        words.store = store_inner
        words.ctx = &inner
        rc = sort_shared(w, &words, sample, 0)
    free(<void*>inner.src)
    return rc


cdef int64_t time_pass(Radix* r, int64_t* counts) noexcept nogil:
    """Counts and moves TIMED_WORDS words, to parts none of which is skipped.  Returns how many picoseconds
    a word took; counts[0]: how many of these the counting took."""
    cdef int64_t begun = now_ns()
    memset(r.offsets, 0, r.buckets * sizeof(int64_t))
    radix_count_leaf(NULL, r, 0, TIMED_WORDS)
    counts[0] = (now_ns() - begun) * 1000 // TIMED_WORDS
    counts_to_offsets(r, 1)
    scatter_leaf(NULL, r, 0, TIMED_WORDS)
    return max((now_ns() - begun) * 1000 // TIMED_WORDS, <int64_t>1)


cdef struct Trial:
    # Of time_moves: too much for a small stack.
    uint64_t words[TIMED_WORDS]
    uint64_t moved[TIMED_WORDS]
    uint8_t parts[TIMED_WORDS]
    int64_t offsets[MAX_PARTS]
    int64_t ends[MAX_PARTS]
    int64_t starts[MAX_PARTS + 1]
    Splitters split


cdef void time_moves(bint wide, Paces* paces) noexcept nogil:
    """As ``time_sort``, of what sort_shared does before it sorts parts."""
    cdef Trial* t = <Trial*>malloc(sizeof(Trial))
    cdef int64_t counts = INT32_MAX, both = INT32_MAX, few = INT32_MAX, steps = INT32_MAX, some = 0
    cdef int64_t counts_few = INT32_MAX
    cdef int64_t end = now_ns() + TIMED_NS
    cdef uint64_t state = 1
    cdef KeySample* sample
    cdef Inner inner
    cdef Words s
    cdef Radix r
    cdef int runs = 0
    memset(&r, 0, sizeof(r))
    s.wide = wide
    s.floats = False
    s.n = TIMED_WORDS
    s.load = load_inner
    s.ctx = &inner
    inner.outer = &s
    r.words = &s
    r.block = TIMED_WORDS
    if t != NULL:
        inner.src = <char*>t.words
        r.mid = <char*>t.moved
        r.parts = t.parts
        r.offsets = t.offsets
        r.ends = t.ends
        r.starts = t.starts
    while t != NULL and (runs < TIMED_RUNS or now_ns() < end):
        runs += 1
        random_words(t.words, wide, &state)
        sample = take_sample(&s)
        if sample == NULL:
            break
        r.split = NULL
        make_cut(&r.cut, sample.keys[0], sample.keys[sample.n - 1], MANY_PARTS, False)
        r.buckets = r.cut.last + 2
        steps = min(steps, time_pass(&r, &some))
        r.split = &t.split
        sample.once = 0     # many parts
        choose_splitters(&s, sample, 0, 1, &t.split)
        r.buckets = <int64_t>1 << t.split.wide.levels
        both = min(both, time_pass(&r, &some))
        counts = min(counts, max(some, <int64_t>1))
        choose_splitters(&s, sample, MIN_PARTS, 1, &t.split)
        r.buckets = MIN_PARTS
        time_pass(&r, &some)
        counts_few = min(counts_few, max(some, <int64_t>1))
        if simd.move_wide != NULL:
            r.moves = True
            choose_splitters(&s, sample, FEW_PARTS, 1, &t.split)
            r.buckets = FEW_PARTS
            few = min(few, time_pass(&r, &some))
            r.moves = False
        free(sample)
    free(t)
    if steps == INT32_MAX:
        return      # no memory: it is timed when there is some
    # relaxed: as in pace
    i64_store_relaxed(&paces.steps, steps)
    i64_store_relaxed(&paces.few, (few + FEW_PARTS - 1) // FEW_PARTS)
    i64_store_relaxed(&paces.moves, both)
    i64_store_relaxed(&paces.counts, counts)
    i64_store_relaxed(&paces.counts_few, counts_few)


cdef double moves_ns(bint wide, atomic_i64* kept) noexcept nogil:
    """Of what time_moves finds, in nanoseconds."""
    # relaxed: as in pace
    if i64_load_relaxed(kept) == 0:
        time_moves(wide, paces_of(wide))
    cdef int64_t took = i64_load_relaxed(kept)
    return (took if took > 0 else INT32_MAX) / 1000.0


cdef inline double halvings_of_part(const KeySample* a, int64_t parts) noexcept nogil:
    """Of one of so many: what is left of `levels`."""
    return max(a.levels - log2(<double>parts), 1)


cdef double parts_ns(Worker* w, const Words* s, const KeySample* a) noexcept nogil:
    """What a word takes, put into parts each of which one thread sorts."""
    cdef Paces* paces = paces_of(s.wide)
    cdef int threads = w.pool.n_background + 1
    cdef bint even = a.once >= MOSTLY, by_steps = not needs_splitters(s, a)
    cdef double counts = moves_ns(s.wide, &paces.counts), leaf
    cdef double pass_ = moves_ns(s.wide, &paces.steps if by_steps else &paces.moves)
    cdef uint64_t chosen[MAX_PARTS]
    cdef int64_t words = words_of_bucket(s.wide), parts = choose_often(s, a, threads, chosen)
    leaf = leaf_ns(s.wide, words)
    if parts == 0 and not by_steps:
        parts = equal_parts(s, a, threads)
        words = s.n // parts
        leaf = level_ns(s.wide) * halvings_of_part(a, parts)
    if not by_steps:
        # What has a part of its own is counted, and only the others are moved.
        pass_ = ((moves_ns(s.wide, &paces.counts_few) if parts == MIN_PARTS else counts)
                 + (1 - a.often) * (pass_ - counts))
    leaf = min(leaf, pieces_ns(s.wide, words, even))
    return (pass_ + (1 - a.often) * leaf + a.often * EQUAL_NS) / threads


cdef int few_parts(const Worker* w) noexcept nogil:
    """4 parts for up to two threads, 8 for more."""
    return FEW_PARTS if w.pool.n_background < 2 else 2 * FEW_PARTS


cdef inline double may_take_ns(sort_fn leaf) noexcept nogil:
    return ALONE_IN_STEPS_NS if is_ours(leaf) else ALONE_NS


cdef double few_parts_ns(Worker* w, const Words* s, const KeySample* a) noexcept nogil:
    """The same of so few parts, each by the leaf sort."""
    cdef int threads = w.pool.n_background + 1, parts = few_parts(w)
    cdef double level = whole_level_ns(s) if parts_are_floats(s) else level_ns(s.wide)
    cdef double leaf = level * halvings_of_part(a, parts)
    # Wherever vectors move words, they sort them, too: there is a leaf sort.
    if a.often > SELDOM_OFTEN or simd.move_wide == NULL or s.n * leaf > may_take_ns(
            floats_leaf(s.wide) if parts_are_floats(s) else faster_leaf(s.wide)) * parts:
        return INFINITY
    return (parts * moves_ns(s.wide, &paces_of(s.wide).few) / threads
            + leaf / min(threads, parts))


cdef bint few_are_faster(Worker* w, const Words* s, const KeySample* a) noexcept nogil:
    return few_parts_ns(w, s, a) < parts_ns(w, s, a)


cdef bint alone_is_faster(Worker* w, const Words* s, const KeySample* a) noexcept nogil:
    """By the leaf sort, all at once."""
    cdef double whole = whole_level_ns(s) * a.levels
    cdef double shared = min(parts_ns(w, s, a), few_parts_ns(w, s, a))
    cdef double most = may_take_ns(floats_leaf(s.wide) if floats_are_faster(s) else faster_leaf(s.wide))
    return s.n * whole < most and SURELY * s.n * whole < s.n * shared + SHARED_SORT_NS


cdef int sort_words(Worker* w, Words* s) noexcept nogil:
    cdef KeySample* sample
    cdef bint found
    cdef int rc
    if w == NULL or s.n < SHARED_WORDS:
        return sort_small(s)
    rc = find_order(w, s, s.spare != NULL, &found)
    if rc != 0 or found:
        return rc
    if s.n * whole_level_ns(s) * log2_of(s.n) < 3 * SHARED_SORT_NS:
        # A sample would take longer than it could save.
        return sort_by_leaf(w, s)
    sample = take_sample(s)
    if sample == NULL:
        return ENOMEM
    if alone_is_faster(w, s, sample):
        rc = sort_by_leaf(w, s)
    else:
        rc = sort_once_packed(w, s, sample) if s.slow else sort_shared(w, s, sample, 0)
        if rc == CHANGED:
            # Another thread writes what is being sorted.  The result is nothing to rely on,
            # but it is of items that were there.
            rc = sort_once_packed(w, s, sample)
    free(sample)
    return rc
