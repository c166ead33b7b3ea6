"""Sorted orders; see argsort.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from pyblitz.kernels.blocks cimport SAMPLE_SEED, leaf_fn, run_blocks, sample_place, sum_counts
from pyblitz.kernels.distinct cimport (
    Distinct, distinct_free, distinct_may_be_few, distinct_ranks, distinct_run)
from pyblitz.kernels.numbers cimport (
    KEY_BYTES, KEY_CHARS, KEY_FLOAT, KEY_SIGNED, KEY_TIME, Raw, float_key, last_key, signed_key,
    time_key, turned)
from pyblitz.kernels.prefetch cimport prefetch, prefetch_write
from pyblitz.kernels.radix cimport (
    RADIX_CHUNK, SHARED_WORDS, Words, bent_step, log2_of, sort_plain, sort_words)
from pyblitz.kernels.simd.levels cimport simd
from pyblitz.runtime.os cimport alloc_array

cdef enum:
    AHEAD = 32          # how many items ahead one is asked for
    MAX_DIGITS = 16     # fields in one word
    MAX_GROUPS = 8      # of varying bits in a field
    SAMPLES = 512
    # Of fewer items, a sample takes longer than to sort what ties.
    SAMPLED = 16 * SAMPLES
    FEW = 32            # ties that are inserted one by one
    MAX_DEPTH = 8
    BLOCK = 65536
    # Keys of so many bits are counted, as where the next item of each goes fits into a cache; for each
    # key that they have room for there are so many items at least, and there are so many blocks
    # at most, of which each has counts of its own.
    COUNTED_BITS = 12
    PER_KEY = 16
    MAX_BLOCKS = 256
    # Of fewer items, or fewer for each of their values, the tables take longer to make than it takes
    # to sort the items.
    NUMBERED = 65536
    PER_VALUE = 128

cdef struct Digit:
    # What one field gives to the words.
    const Field* field
    uint64_t low            # the least key; 0 if groups
    int bits                # how many bits the words get from it: of its range, or that vary if groups
    int drop                # how many of these, the lowest, go into the next word
    int bent                # more than 0: of keys of all magnitudes, the leading bits of each
    int groups              # of varying bits; 0: the key less the least one
    int shift[MAX_GROUPS]   # for each group: how far its bits move
    uint64_t mask[MAX_GROUPS]  # for each group: which bits they are then

cdef struct ArgSort:
    const Field* fields
    int n_fields
    const int64_t* items    # NULL: 0 .. n
    int64_t n
    int depth               # how often ties were sorted by this again
    int index_bits          # the bits of an index
    Digit digits[MAX_DIGITS]
    int n_digits
    int tied                # the first field that the words do not hold all of
    uint64_t* words         # sorted; the result's own memory
    int64_t* cuts           # [block + 1]: places between words that do not tie
    uint8_t* begins         # [n]: whether a key differs from the one before; NULL: not asked
    uint64_t* edges         # [block]: the word before each, before it was unpacked
    # -- of the pass over one field
    const Field* field
    uint64_t first          # the key of the first item
    KeyRange* ranges        # [block]
    bint rises              # whether no key is less than the one before
    bint falls              # whether each key is less than the one before

cdef struct KeyRange:
    uint64_t low            # the least key of the block
    uint64_t high           # the greatest key of the block
    uint64_t varying        # bits in which a key differs from the first
    uint64_t begin          # its first key
    uint64_t end            # its last key
    bint rises              # none is less than the one before
    bint falls              # each is less than the one before


cdef inline int bit_length(uint64_t x) noexcept nogil:
    return log2_of(x) + 1 if x != 0 else 0


# ---- keys -------------------------------------------------------------------

cdef void fetch(const char* base, intptr_t step, const int64_t* items, int64_t lo, int64_t n,
                uint64_t* out, Raw _) noexcept nogil:
    cdef int64_t i
    cdef Raw x
    if items != NULL:
        for i in range(n):
            if i + AHEAD < n:
                prefetch(base + items[lo + i + AHEAD] * step)
            memcpy(&x, base + items[lo + i] * step, sizeof(Raw))
            out[i] = x
    elif step == sizeof(Raw):
        base += lo * step
        for i in range(n):
            memcpy(&x, base + i * sizeof(Raw), sizeof(Raw))
            out[i] = x
    else:
        base += lo * step
        for i in range(n):
            memcpy(&x, base, sizeof(Raw))
            out[i] = x
            base += step


cdef void fetch_bytes(const Field* f, const int64_t* items, int64_t lo, int64_t n, uint64_t* out) noexcept nogil:
    cdef const uint8_t* x
    cdef uint64_t key
    cdef int64_t i
    cdef int k
    for i in range(n):
        x = <const uint8_t*>f.base + (items[lo + i] if items != NULL else lo + i) * f.step
        key = 0
        if f.size == 8:
            # One load and a swap of its bytes.
            key = (<uint64_t>x[0] << 56 | <uint64_t>x[1] << 48 | <uint64_t>x[2] << 40
                   | <uint64_t>x[3] << 32 | <uint64_t>x[4] << 24 | <uint64_t>x[5] << 16
                   | <uint64_t>x[6] << 8 | <uint64_t>x[7])
        else:
            for k in range(f.size):
                key |= <uint64_t>x[k] << (56 - 8 * k)
        out[i] = key


cdef void fetch_chars(const Field* f, const int64_t* items, int64_t lo, int64_t n, uint64_t* out) noexcept nogil:
    cdef const char* x
    cdef uint32_t chars[2]
    cdef int64_t i
    chars[1] = 0
    for i in range(n):
        x = f.base + (items[lo + i] if items != NULL else lo + i) * f.step
        if f.size == 8:
            memcpy(chars, x, 8)
        else:
            memcpy(chars, x, 4)
        out[i] = <uint64_t>chars[0] << 32 | chars[1]


cdef void make_keys(const Field* f, uint64_t* x, int64_t n, Raw like) noexcept nogil:
    """Of the bits of n items, in their place."""
    cdef Raw last = last_key(f.kind, like)
    cdef int64_t i
    if f.kind == KEY_SIGNED:
        for i in range(n):
            x[i] = signed_key(<Raw>x[i])
    elif f.kind == KEY_TIME:
        for i in range(n):
            x[i] = time_key(<Raw>x[i])
    elif f.kind == KEY_FLOAT:
        for i in range(n):
            x[i] = float_key(<Raw>x[i])
    if f.descending:
        for i in range(n):
            x[i] = turned(<Raw>x[i], last)


cdef void fetch_keys(const Field* f, const int64_t* items, int64_t lo, int64_t n, uint64_t* out,
                     Raw like) noexcept nogil:
    fetch(f.base, f.step, items, lo, n, out, like)
    make_keys(f, out, n, like)


cdef void keys_of(const Field* f, const int64_t* items, int64_t lo, int64_t n, uint64_t* out) noexcept nogil:
    """Of items lo .. lo + n, which are items[lo] .. if there are any."""
    if f.kind == KEY_BYTES:
        fetch_bytes(f, items, lo, n, out)
        make_keys[uint64_t](f, out, n, 0)
    elif f.kind == KEY_CHARS:
        fetch_chars(f, items, lo, n, out)
        make_keys[uint64_t](f, out, n, 0)
    elif f.size == 8:
        fetch_keys[uint64_t](f, items, lo, n, out, 0)
    elif f.size == 4:
        fetch_keys[uint32_t](f, items, lo, n, out, 0)
    elif f.size == 2:
        fetch_keys[uint16_t](f, items, lo, n, out, 0)
    else:
        fetch_keys[uint8_t](f, items, lo, n, out, 0)


cdef inline uint64_t step_of(const Digit* d, uint64_t key) noexcept nogil:
    """What is left of a key that has no groups of bits."""
    return bent_step(key - d.low, d.bent) if d.bent else (key - d.low) >> d.drop


cdef void steps_of(const Digit* d, const uint64_t* keys, int64_t n, uint64_t* out) noexcept nogil:
    cdef Digit own = d[0]       # which ``out`` does not overlap
    cdef int64_t i
    for i in range(n):
        out[i] = step_of(&own, keys[i])


cdef inline uint64_t key_at(const ArgSort* o, int field, int64_t at) noexcept nogil:
    cdef uint64_t key
    keys_of(&o.fields[field], o.items, at, 1, &key)
    return key


cdef int range_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef ArgSort* o = <ArgSort*>ctx
    cdef KeyRange* r = &o.ranges[lo // BLOCK]
    cdef uint64_t chunk[RADIX_CHUNK]
    cdef uint64_t first = o.first, low = first, high = first, least, most, varying = 0, before = 0
    cdef int64_t i, n
    cdef bint down = False, up = False, same = False, start = True
    while lo < hi:
        n = min(hi - lo, <int64_t>RADIX_CHUNK)
        keys_of(o.field, o.items, lo, n, chunk)
        if start:
            r.begin = before = chunk[0]
        for i in range(n):
            varying |= chunk[i] ^ first
        simd.range_wide(chunk, n, &least, &most)
        low = min(low, least)
        high = max(high, most)
        if not (down and (up or same)):
            # Whether it is in order, for as long as it is.
            for i in range(1 if start else 0, n):
                down |= chunk[i] < before
                up |= chunk[i] > before
                same |= chunk[i] == before
                before = chunk[i]
        start = False
        r.end = chunk[n - 1]
        lo += n
    r.low = low
    r.high = high
    r.varying = varying
    r.rises = not down
    r.falls = not up and not same
    return 0


cdef int plan_digit(Worker* w, ArgSort* o, int field, Digit* d) noexcept nogil:
    """How a field goes into the words."""
    cdef int64_t blocks = (o.n + BLOCK - 1) // BLOCK, b
    cdef uint64_t low, high, varying, rest, run
    cdef int rc, shift, width
    o.field = &o.fields[field]
    o.first = key_at(o, field, 0)
    o.ranges = <KeyRange*>malloc(blocks * sizeof(KeyRange))
    if o.ranges == NULL:
        return ENOMEM
    rc = run_blocks(w, range_leaf, o, BLOCK, o.n)
    low = high = o.first
    varying = 0
    for b in range(blocks if rc == 0 else 0):
        low = min(low, o.ranges[b].low)
        high = max(high, o.ranges[b].high)
        varying |= o.ranges[b].varying
    o.rises = o.falls = rc == 0
    for b in range(blocks if rc == 0 else 0):
        o.rises &= o.ranges[b].rises and (b == 0 or o.ranges[b - 1].end <= o.ranges[b].begin)
        o.falls &= o.ranges[b].falls and (b == 0 or o.ranges[b - 1].end > o.ranges[b].begin)
    free(o.ranges)
    d.field = o.field
    d.low = low
    d.bits = bit_length(high - low)
    d.drop = 0
    d.bent = 0
    d.groups = 0
    # Bits that are the same in all items say nothing, wherever they are.
    width = 0
    rest = varying
    while rest != 0 and d.groups < MAX_GROUPS:
        shift = 0
        while not (rest >> shift) & 1:
            shift += 1
        run = 0
        while shift + <int>run < 64 and (rest >> (shift + <int>run)) & 1:
            run += 1
        d.mask[d.groups] = (~<uint64_t>0 >> (64 - <int>run)) << width
        d.shift[d.groups] = shift - width
        rest &= ~((~<uint64_t>0 >> (64 - <int>run)) << shift)
        width += <int>run
        d.groups += 1
    if rest != 0 or width >= d.bits:
        d.groups = 0
    else:
        d.bits = width
        d.low = 0
    return rc


cdef int count_ties(const Digit* d, const uint64_t* keys, int n) noexcept nogil:
    cdef int i, ties = 0
    for i in range(1, n):
        ties += keys[i] != keys[i - 1] and step_of(d, keys[i]) == step_of(d, keys[i - 1])
    return ties


cdef void bend(const ArgSort* o, Digit* d, int left) noexcept nogil:
    """Keys of all magnitudes: most would tie in the leading bits of the greatest."""
    cdef uint64_t* keys
    cdef uint64_t high = d.low + (~<uint64_t>0 >> (64 - d.bits))
    cdef int64_t stretch = max(<int64_t>1, o.n // SAMPLES)
    cdef uint64_t state = SAMPLE_SEED
    cdef int n = <int>min(o.n, <int64_t>SAMPLES), i, ties
    keys = <uint64_t*>alloc_array(2 * n * sizeof(uint64_t))
    if keys == NULL:
        return              # it would only be faster
    for i in range(n):
        keys_of(d.field, o.items, sample_place(&state, i, stretch), 1, &keys[i])
    sort_plain(keys, keys + n, n)
    ties = count_ties(d, keys, n)
    if ties * 64 > n:
        d.bent = 1
        while bent_step(high - d.low, d.bent + 1) >> left == 0:
            d.bent += 1
        if count_ties(d, keys, n) * 2 >= ties:
            d.bent = 0
    free(keys)


cdef int plan_words(Worker* w, ArgSort* o, int field) noexcept nogil:
    cdef int left = 64 - o.index_bits, rc
    cdef Digit* d
    o.n_digits = 0
    o.tied = field
    while o.tied < o.n_fields and left > 0 and o.n_digits < MAX_DIGITS:
        d = &o.digits[o.n_digits]
        rc = plan_digit(w, o, o.tied, d)
        if rc != 0:
            return rc
        if o.tied == field and (o.falls or (o.rises and field + 1 == o.n_fields)):
            o.n_digits = 0      # nothing to sort
            return 0
        if d.bits > left:
            d.drop = d.bits - left
            o.n_digits += 1
            # In few bits there is no room for the number of the octave.
            if d.groups == 0 and left >= 16 and o.n >= SAMPLED:
                bend(o, d, left)
            return 0
        if d.bits > 0:
            o.n_digits += 1
            left -= d.bits
        o.tied += 1
    return 0


cdef void load_order(void* ctx, int64_t lo, int64_t hi, void* words) noexcept nogil:
    cdef ArgSort* o = <ArgSort*>ctx
    cdef uint64_t* out = <uint64_t*>words
    cdef uint64_t chunk[RADIX_CHUNK]
    cdef uint64_t mask
    cdef const Digit* d
    cdef int64_t i, n = hi - lo
    cdef int index_bits = o.index_bits, k, g, drop, shift
    for k in range(o.n_digits):
        d = &o.digits[k]
        drop = d.drop
        if k == 0 and d.groups == 0:
            keys_of(d.field, o.items, lo, n, out)
            steps_of(d, out, n, out)
            continue
        keys_of(d.field, o.items, lo, n, chunk)
        shift = d.bits - drop
        for i in range(n):
            out[i] = out[i] << shift if k > 0 else 0
        if d.groups == 0:
            steps_of(d, chunk, n, chunk)
            for i in range(n):
                out[i] |= chunk[i]
        for g in range(d.groups):
            mask = d.mask[g]
            shift = d.shift[g]
            for i in range(n):
                out[i] |= ((chunk[i] >> shift) & mask) >> drop
    for i in range(n):
        out[i] = out[i] << index_bits | <uint64_t>(lo + i)


# ---- ties -------------------------------------------------------------------

cdef inline uint64_t index_mask(const ArgSort* o) noexcept nogil:
    return (<uint64_t>1 << o.index_bits) - 1


cdef void store_words(void* ctx, const void* words, int64_t n, int64_t at) noexcept nogil:
    cdef ArgSort* o = <ArgSort*>ctx
    if words != o.words + at:
        memcpy(o.words + at, words, n * 8)


cdef void store_order(void* ctx, const void* words, int64_t n, int64_t at) noexcept nogil:
    cdef ArgSort* o = <ArgSort*>ctx
    cdef const uint64_t* x = <const uint64_t*>words
    cdef uint64_t mask = index_mask(o)
    cdef int64_t i
    for i in range(n):
        o.words[at + i] = x[i] & mask


cdef int compare_fields(const ArgSort* o, int field, int64_t a, int64_t b) noexcept nogil:
    cdef uint64_t x, y
    while field < o.n_fields:
        x = key_at(o, field, a)
        y = key_at(o, field, b)
        if x != y:
            return -1 if x < y else 1
        field += 1
    return 0


cdef void keys_of_words(const ArgSort* o, int field, const uint64_t* words, int64_t n,
                        uint64_t* out) noexcept nogil:
    """Of at most RADIX_CHUNK."""
    cdef int64_t items[RADIX_CHUNK]
    cdef uint64_t mask = index_mask(o)
    cdef int64_t i
    items[0] = 0
    for i in range(n):
        items[i] = words[i] & mask
    if o.items != NULL:
        for i in range(n):
            items[i] = o.items[items[i]]
    keys_of(&o.fields[field], items, 0, n, out)


cdef void insert_ties(const ArgSort* o, uint64_t* words, int64_t n, uint8_t* begins) noexcept nogil:
    """By the tied fields; the words themselves tie.  begins: as ArgSort's, or NULL."""
    cdef uint64_t keys[FEW]
    cdef uint64_t key, word, mask = index_mask(o)
    cdef bint more = o.tied + 1 < o.n_fields
    cdef int64_t i, j
    keys_of_words(o, o.tied, words, n, keys)
    for i in range(1, n):
        key = keys[i]
        word = words[i]
        j = i
        while j > 0 and (keys[j - 1] > key or (
                more and keys[j - 1] == key
                and compare_fields(o, o.tied + 1, words[j - 1] & mask, word & mask) > 0)):
            keys[j] = keys[j - 1]
            words[j] = words[j - 1]
            j -= 1
        keys[j] = key
        words[j] = word
    if begins != NULL:
        begins[0] = 1
        for i in range(1, n):
            begins[i] = keys[i] != keys[i - 1] or (
                more and compare_fields(o, o.tied + 1, words[i - 1] & mask, words[i] & mask) != 0)


cdef bint are_equal(const ArgSort* o, const uint64_t* words, int64_t n) noexcept nogil:
    """Whether words that tie tie in all fields."""
    cdef uint64_t keys[RADIX_CHUNK]
    cdef uint64_t first, differ
    cdef int64_t lo, i, m
    cdef int field
    for field in range(o.tied, o.n_fields):
        keys_of_words(o, field, words, 1, &first)
        lo = 1
        m = 32              # few at first: most that differ do so soon
        while lo < n:
            m = min(n - lo, m)
            keys_of_words(o, field, words + lo, m, keys)
            differ = 0
            for i in range(m):
                differ |= keys[i] ^ first
            if differ != 0:
                return False
            lo += m
            m = RADIX_CHUNK
    return True


cdef void merge_ties(const ArgSort* o, uint64_t* words, uint64_t* room, int64_t n) noexcept nogil:
    """As insert_ties, for any number: merge sort."""
    cdef uint64_t mask = index_mask(o)
    cdef int64_t half = n // 2, i = 0, j = half, k = 0
    if n <= FEW:
        insert_ties(o, words, n, NULL)
        return
    merge_ties(o, words, room, half)
    merge_ties(o, words + half, room, n - half)
    memcpy(room, words, half * 8)
    while i < half:
        if j < n and compare_fields(o, o.tied, words[j] & mask, room[i] & mask) < 0:
            words[k] = words[j]
            j += 1
        else:
            words[k] = room[i]
            i += 1
        k += 1


cdef int sort_ties(Worker* w, const ArgSort* o, uint64_t* words, int64_t n, uint8_t* begins) noexcept nogil:
    """As insert_ties, for any number, shared if there are many."""
    cdef uint64_t mask = index_mask(o)
    cdef int64_t* room
    cdef int64_t* items
    cdef int64_t* order
    cdef uint64_t* sorted_words
    cdef int64_t i
    cdef int rc
    if are_equal(o, words, n):
        if begins != NULL:
            memset(begins, 0, n)
            begins[0] = 1
        return 0
    room = <int64_t*>alloc_array(n * 3 * sizeof(int64_t))
    if room == NULL:
        return ENOMEM
    items = room
    order = room + n
    sorted_words = <uint64_t*>room + 2 * n
    if o.depth >= MAX_DEPTH:
        # Strings whose prefixes split one item off at a time.
        merge_ties(o, words, <uint64_t*>room, n)
        free(room)
        if begins != NULL:
            begins[0] = 1
            for i in range(1, n):
                begins[i] = compare_fields(o, o.tied, words[i - 1] & mask, words[i] & mask) != 0
        return 0
    for i in range(n):
        items[i] = words[i] & mask
        if o.items != NULL:
            items[i] = o.items[items[i]]
    rc = sort_by_fields(w if n >= SHARED_WORDS else NULL, o.fields, o.n_fields, o.tied, items, n,
                        o.depth + 1, order, begins)
    if rc == 0:
        for i in range(n):
            sorted_words[i] = words[order[i]]
        memcpy(words, sorted_words, n * 8)
    free(room)
    return rc


cdef inline void prefetch_key(const ArgSort* o, uint64_t word) noexcept nogil:
    cdef int64_t i = word & index_mask(o)
    if o.items == NULL:
        prefetch(o.fields[o.tied].base + i * o.fields[o.tied].step)


cdef int ties_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef ArgSort* o = <ArgSort*>ctx
    cdef uint64_t* words = o.words
    cdef int64_t begin = o.cuts[lo], end = o.cuts[hi], next, ahead = begin + 1
    cdef uint8_t* begins
    cdef uint64_t prefix
    cdef int rc
    while begin < end:
        prefix = words[begin] >> o.index_bits
        next = begin + 1
        while next < end and words[next] >> o.index_bits == prefix:
            next += 1
        begins = NULL if o.begins == NULL else o.begins + begin
        # Many fields are not compared one after another: most may be the same in all.
        if next - begin > (FEW if o.n_fields - o.tied <= 4 else 4):
            rc = sort_ties(w, o, words + begin, next - begin, begins)
            if rc != 0:
                return rc
        elif next - begin > 1:
            ahead = max(ahead, next)
            while ahead < end and ahead < next + 2 * AHEAD:
                # Only what ties is looked up.
                if words[ahead] >> o.index_bits == words[ahead - 1] >> o.index_bits:
                    prefetch_key(o, words[ahead - 1])
                    prefetch_key(o, words[ahead])
                ahead += 1
            insert_ties(o, words + begin, next - begin, begins)
        elif begins != NULL:
            begins[0] = 1
        begin = next
    return 0


cdef int unpack_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef ArgSort* o = <ArgSort*>ctx
    cdef int64_t i
    if o.begins != NULL and o.tied == o.n_fields:
        o.begins[lo] = lo == 0 or o.words[lo] >> o.index_bits != o.edges[lo // BLOCK] >> o.index_bits
        for i in range(lo + 1, hi):
            o.begins[i] = o.words[i] >> o.index_bits != o.words[i - 1] >> o.index_bits
    store_order(o, o.words + lo, hi - lo, lo)
    return 0


cdef int unpack(Worker* w, ArgSort* o) noexcept nogil:
    """Indices instead of words; where runs begin, unless breaking ties has said so."""
    cdef int64_t blocks = (o.n + BLOCK - 1) // BLOCK, b
    cdef int rc
    o.edges = NULL
    if o.begins != NULL:
        o.edges = <uint64_t*>malloc(blocks * 8)
        if o.edges == NULL:
            return ENOMEM
        o.edges[0] = 0
        for b in range(1, blocks):
            o.edges[b] = o.words[b * BLOCK - 1]
    rc = run_blocks(w, unpack_leaf, o, BLOCK, o.n)
    free(o.edges)
    return rc


cdef int64_t end_of_ties(const ArgSort* o, int64_t at) noexcept nogil:
    """The first place from `at` on where a word differs from the one before `at`."""
    cdef uint64_t prefix = o.words[at - 1] >> o.index_bits
    cdef int64_t low = at, high = o.n, i
    while low < high:
        i = (low + high) >> 1
        if o.words[i] >> o.index_bits == prefix:
            low = i + 1
        else:
            high = i
    return low


cdef int break_ties(Worker* w, ArgSort* o) noexcept nogil:
    cdef int64_t blocks = (o.n + BLOCK - 1) // BLOCK, b
    cdef int rc
    o.cuts = <int64_t*>malloc((blocks + 1) * sizeof(int64_t))
    if o.cuts == NULL:
        return ENOMEM
    o.cuts[0] = 0
    for b in range(1, blocks):
        # No two leaves have a word in common, even if another thread has written keys that
        # were found in order, so that the words are not.
        o.cuts[b] = max(o.cuts[b - 1], end_of_ties(o, b * BLOCK))
    o.cuts[blocks] = o.n
    rc = run_blocks(w, ties_leaf, o, 1, blocks)
    free(o.cuts)
    return rc


cdef int iota_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    """What was in order already, up or down, or is all equal."""
    cdef ArgSort* o = <ArgSort*>ctx
    cdef uint64_t chunk[RADIX_CHUNK]
    cdef int64_t i, n
    for i in range(lo, hi):
        o.words[i] = o.n - 1 - i if o.falls else i
    if o.begins == NULL:
        return 0
    memset(o.begins + lo, o.falls, hi - lo)
    if o.rises and not o.falls:
        while lo < hi:
            # Of one field; the chunk has the key before its first item.
            i = max(lo - 1, <int64_t>0)
            n = min(hi - i, <int64_t>RADIX_CHUNK)
            keys_of(o.field, o.items, i, n, chunk)
            for lo in range(i + 1, i + n):
                o.begins[lo] = chunk[lo - i] != chunk[lo - i - 1]
            lo = i + n
    return 0


# ---- few keys ---------------------------------------------------------------
# Counting sort (Knuth, volume 3, 5.2, algorithm D), of blocks of items.

cdef struct Counting:
    ArgSort* order
    int bits                # of a key
    int64_t block           # items
    uint16_t* keys          # [n]
    int64_t* places         # [block + 1][key]: how many; then where the next one goes
    # -- of few values: until they are counted, keys are the numbers of each block
    Distinct values
    const int64_t* ranks    # [value]


cdef int bits_of_keys(const ArgSort* o) noexcept nogil:
    cdef int k, bits = 0
    for k in range(o.n_digits):
        bits += o.digits[k].bits
    return bits


cdef int count_keys_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Counting* c = <Counting*>ctx
    cdef int64_t* counts = c.places + (lo // c.block << c.bits)
    cdef uint16_t* keys = c.keys
    cdef uint64_t chunk[RADIX_CHUNK]
    cdef uint64_t mask = (<uint64_t>1 << c.bits) - 1, key
    cdef int index_bits = c.order.index_bits
    cdef int64_t i, n
    while lo < hi:
        n = min(hi - lo, <int64_t>RADIX_CHUNK)
        load_order(c.order, lo, lo + n, chunk)
        for i in range(n):
            # Another thread may have written since the range of the keys was found.
            key = chunk[i] >> index_bits & mask
            keys[lo + i] = <uint16_t>key
            counts[key] += 1
        lo += n
    return 0


cdef int count_values_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Counting* c = <Counting*>ctx
    cdef int64_t* counts = c.places + (lo // c.block << c.bits)
    cdef uint16_t* keys = c.keys
    cdef uint16_t ranks[1 << COUNTED_BITS]
    cdef uint16_t key
    cdef int64_t i
    distinct_ranks(&c.values, lo // c.block, c.ranks, ranks)
    for i in range(lo, hi):
        key = ranks[keys[i]]
        keys[i] = key
        counts[key] += 1
    return 0


cdef void begin_runs(const int64_t* ends, int64_t keys, uint8_t* begins) noexcept nogil:
    cdef int64_t key
    begins[0] = 1
    for key in range(keys - 1):
        if ends[key] < ends[keys - 1]:
            begins[ends[key]] = 1


cdef int place_items_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Counting* c = <Counting*>ctx
    cdef int64_t* places = c.places + (lo // c.block << c.bits)
    cdef int64_t* out = <int64_t*>c.order.words
    cdef const uint16_t* keys = c.keys
    cdef int64_t i, at
    for i in range(lo, hi):
        at = places[keys[i]]
        places[keys[i]] = at + 1
        out[at] = i
        # As in a scatter of radix.pyx.
        prefetch_write(out + at + 8)
    return 0


cdef int place_by_counts(Worker* w, Counting* c, leaf_fn count) noexcept nogil:
    """Counts the keys, and puts each item where it goes."""
    cdef ArgSort* o = c.order
    cdef int64_t keys = <int64_t>1 << c.bits, blocks = (o.n - 1) // c.block + 1
    cdef int rc
    c.places = <int64_t*>calloc((blocks + 1) * keys, sizeof(int64_t))
    if c.places == NULL:
        return ENOMEM
    rc = run_blocks(w, count, c, c.block, o.n)
    if rc == 0:
        sum_counts(c.places, blocks, keys)
        if o.begins != NULL:
            memset(o.begins, 0, o.n)
            begin_runs(c.places + blocks * keys, keys, o.begins)
        rc = run_blocks(w, place_items_leaf, c, c.block, o.n)
    free(c.places)
    return rc


cdef int sort_by_counts(Worker* w, ArgSort* o, int bits) noexcept nogil:
    cdef Counting c
    cdef int rc = ENOMEM
    c.order = o
    c.bits = bits
    c.block = max(<int64_t>BLOCK, (o.n + MAX_BLOCKS - 1) // MAX_BLOCKS)
    c.keys = <uint16_t*>alloc_array(o.n * sizeof(uint16_t))
    if c.keys != NULL:
        rc = place_by_counts(w, &c, count_keys_leaf)
    free(c.keys)
    return rc


cdef int place_by_values(Worker* w, Counting* c) noexcept nogil:
    """Ranks the values by an item of each, and then counts the ranks."""
    cdef const Distinct* d = &c.values
    cdef int64_t* ranks = <int64_t*>malloc(2 * d.count * sizeof(int64_t))
    cdef int64_t* order = ranks + d.count
    cdef int64_t k
    cdef int rc
    if ranks == NULL:
        return ENOMEM
    rc = sort_by_fields(NULL, c.order.fields, 1, 0, d.first, d.count, 1, order, NULL)
    if rc == 0:
        for k in range(d.count):
            ranks[order[k]] = k
        c.ranks = ranks
        c.bits = bit_length(d.count - 1)
        c.block = d.block
        rc = place_by_counts(w, c, count_values_leaf)
    free(ranks)
    return rc


cdef inline bint may_have_few_values(Worker* w, const ArgSort* o) noexcept nogil:
    cdef const Field* f = o.fields
    return (w != NULL and o.n_fields == 1 and o.items == NULL and o.n >= NUMBERED and f.size >= 4
            and f.step == f.size and <uintptr_t>f.base % f.size == 0
            and f.kind != KEY_BYTES and f.kind != KEY_CHARS)


cdef int sort_by_values(Worker* w, ArgSort* o, bint* few) noexcept nogil:
    """Of numbers of 4 or 8 bytes that lie in a row.  few: whether they had few enough values, and are in
    order now; if not, nothing was written."""
    cdef Counting c
    cdef Distinct* d = &c.values
    cdef const Field* f = o.fields
    cdef int rc
    few[0] = False
    d.items = f.base
    d.n = o.n
    d.size = f.size
    d.floats = f.kind == KEY_FLOAT
    d.counting = False
    d.limit = min(<int64_t>1 << COUNTED_BITS, o.n // PER_VALUE)
    if not distinct_may_be_few(d):
        return 0
    c.order = o
    c.keys = d.numbers = <uint16_t*>alloc_array(o.n * sizeof(uint16_t))
    if c.keys == NULL:
        return ENOMEM
    rc = distinct_run(w, d)
    if rc == 0 and not d.many:
        few[0] = True
        rc = place_by_values(w, &c)
    distinct_free(d)
    free(c.keys)
    return rc


cdef int sort_by_fields(Worker* w, const Field* fields, int n_fields, int first, const int64_t* items,
                        int64_t n, int depth, int64_t* out, uint8_t* begins) noexcept nogil:
    cdef ArgSort o
    cdef Words s
    cdef int rc, bits
    cdef bint few
    o.fields = fields
    o.n_fields = n_fields
    o.items = items
    o.n = n
    o.depth = depth
    o.index_bits = bit_length(n - 1) if n > 1 else 0
    o.words = <uint64_t*>out
    o.begins = begins
    o.n_digits = 0
    o.falls = o.rises = False
    rc = plan_words(w, &o, first) if n > 0 else 0
    if rc != 0:
        return rc
    if n == 0 or o.n_digits == 0:
        rc = run_blocks(w, iota_leaf, &o, BLOCK, n)
        if n > 0 and begins != NULL:
            begins[0] = 1
        return rc
    bits = bits_of_keys(&o)
    if o.tied == n_fields and bits <= COUNTED_BITS and n >= PER_KEY << bits:
        return sort_by_counts(w, &o, bits)
    if may_have_few_values(w, &o):
        rc = sort_by_values(w, &o, &few)
        if rc != 0 or few:
            return rc
    s.load = load_order
    s.store = store_order if o.tied == n_fields and begins == NULL else store_words
    s.ctx = &o
    s.wide = True
    s.n = n
    s.dst = <char*>out
    s.spare = NULL
    s.whole = NULL
    s.floats = False
    s.slow = items != NULL or o.n_digits > 1 or o.digits[0].groups > 1
    rc = sort_words(w, &s)
    if rc == 0 and o.tied < n_fields:
        rc = break_ties(w, &o)
    if rc == 0 and s.store != store_order:
        rc = unpack(w, &o)
    return rc


cdef int sort_order(Worker* w, const Field* fields, int n_fields, int64_t n,
                    int64_t* out, uint8_t* begins) noexcept nogil:
    return sort_by_fields(w if n >= SHARED_WORDS else NULL, fields, n_fields, 0, NULL, n, 0, out, begins)


cdef struct OrderRows:
    const Field* fields
    int n_fields
    int64_t n
    int64_t* out


cdef int order_rows_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef OrderRows* r = <OrderRows*>ctx
    cdef Field* fields = <Field*>malloc(r.n_fields * sizeof(Field))
    cdef int64_t i
    cdef int k, rc = 0
    if fields == NULL:
        return ENOMEM
    for i in range(lo, hi):
        for k in range(r.n_fields):
            fields[k] = r.fields[k]
            fields[k].base += i * fields[k].pitch
        rc = sort_by_fields(NULL, fields, r.n_fields, 0, NULL, r.n, 0, r.out + i * r.n, NULL)
        if rc != 0:
            break
    free(fields)
    return rc


cdef int sort_order_of_rows(Worker* w, const Field* fields, int n_fields, int64_t n,
                            int64_t rows, int64_t* out) noexcept nogil:
    cdef OrderRows r
    r.fields = fields
    r.n_fields = n_fields
    r.n = n
    r.out = out
    return run_blocks(w, order_rows_leaf, &r, 1 + 4096 // (n + 1), rows)
