"""Few distinct items; see distinct.pxd."""
from libc.errno cimport ENOMEM
from libc.math cimport expm1
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from pyblitz.kernels.blocks cimport SAMPLE_SEED, run_blocks, sample_place
from pyblitz.kernels.numbers cimport Word, canonical
from pyblitz.runtime.atomic cimport atomic_u32, u32_load_relaxed, u32_store_relaxed
from pyblitz.runtime.bridge cimport Bridge, bridge_init, bridge_limit, bridge_run, bridge_wants

cdef enum:
    MAX_BLOCKS = 32
    MIN_BLOCK_ITEMS = 65536
    # Places of a block are 32 bits.
    MOST_BLOCK_ITEMS = 1 << 30
    # Items between two looks at whether others gave up.
    CHUNK = 8192
    FIRST_BITS = 9
    # A table has at least so many slots for each key.  Then few keys lie more than one slot behind
    # their own, and a processor predicts that.
    ROOM = 4
    # Steps to a free slot that are as good as too many keys: these were chosen to
    # have one hash.
    MAX_STEPS = 128
    LEAF_ITEMS = 16384
    SAMPLES = 1024
    # So many distinct ones among SAMPLES items mean some 10,000 equally frequent values.
    SAMPLE_LIMIT = 976
    # Three standard deviations of how many equally frequent ones, however many, are in a sample.
    SAMPLE_ERROR = 50

ctypedef fused Small:
    uint8_t
    uint16_t

cdef struct DistinctRun:
    Distinct* d
    atomic_u32 failed       # 0, MANY or ENOMEM
    Bridge bridge
    int64_t* out

cdef enum:
    MANY = -2


# ---- a table ----------------------------------------------------------------

cdef int table_slots(Table* t, int bits) noexcept nogil:
    """Gives it 1 << bits slots, without any key.  Keys that run over the end need no
    turn to the begin."""
    cdef int64_t capacity = <int64_t>1 << bits
    t.slots = <Slot*>calloc(capacity + t.limit + 2, sizeof(Slot))
    if t.slots == NULL:
        return ENOMEM
    t.shift = 64 - bits
    t.slots[0].key = t.slots[1].key = 1
    return 0


cdef int table_init(Table* t, int64_t limit) noexcept nogil:
    t.slots = NULL
    t.limit = limit
    t.used = 0
    t.keys = <uint64_t*>malloc(limit * sizeof(uint64_t))
    t.first = <int64_t*>malloc(limit * sizeof(int64_t))
    if t.keys == NULL or t.first == NULL:
        return ENOMEM
    return table_slots(t, FIRST_BITS)


cdef void table_free(Table* t) noexcept nogil:
    free(t.slots)
    free(t.keys)
    free(t.first)
    t.slots = NULL
    t.keys = NULL
    t.first = NULL


cdef inline int64_t table_search(const Table* t, uint64_t key) noexcept nogil:
    """The slot of a key, or the one that it would be put into."""
    cdef int64_t i
    if key == 0:
        return 0
    i = <int64_t>(hash_key(key) >> t.shift)
    i = i if i > 1 else 2
    while t.slots[i].key != key and t.slots[i].key != 0:
        i += 1
    return i


cdef int table_grow(Table* t) noexcept nogil:
    cdef Slot* old = t.slots
    cdef Table before = t[0]
    cdef int64_t k, i
    if table_slots(t, 64 - t.shift + 1) != 0:
        t.slots = old
        return ENOMEM
    for k in range(t.used):
        i = table_search(&before, t.keys[k])
        t.slots[table_search(t, t.keys[k])] = old[i]
    free(old)
    return 0


cdef int64_t table_put(Table* t, uint64_t key, int64_t at) noexcept nogil:
    """The slot of a key that the fast look did not find; MANY or -ENOMEM."""
    cdef int64_t i = table_search(t, key)
    if t.slots[i].key == key:
        return i
    if t.used == t.limit or i - <int64_t>(hash_key(key) >> t.shift) > MAX_STEPS:
        return MANY
    if (t.used + 1) * ROOM > <int64_t>1 << (64 - t.shift):
        if table_grow(t) != 0:
            return -ENOMEM
        i = table_search(t, key)
    t.slots[i].key = key
    t.keys[t.used] = key
    t.first[t.used] = at
    t.used += 1
    return i


cdef int64_t table_number(Table* t, uint64_t key, int64_t at) noexcept nogil:
    """As table_put, of keys that have their numbers beside them."""
    cdef int64_t before = t.used, i = table_put(t, key, at)
    if t.used > before:
        t.slots[i].value[0] = <uint32_t>before
    return i


# ---- counting ---------------------------------------------------------------

cdef inline int64_t likely_slot(const Slot* slots, int shift, uint64_t key) noexcept nogil:
    """Where it is, if it is in its own slot or the next one; else any."""
    cdef int64_t i = <int64_t>(hash_key(key) >> shift)
    return i + (slots[i].key != key)


cdef inline int count_key(Table* t, uint64_t key, int64_t at, uint16_t* numbers) noexcept nogil:
    cdef int64_t i = likely_slot(t.slots, t.shift, key)
    if t.slots[i].key != key:
        i = table_number(t, key, at) if numbers != NULL else table_put(t, key, at)
        if i < 0:
            return <int>i
    if numbers != NULL:
        numbers[at] = <uint16_t>t.slots[i].value[0]
    else:
        t.slots[i].value[0] += 1
    return 0


cdef inline int count_keys(Table* t, const Word* items, int64_t lo, int64_t hi, bint floats,
                           bint counting, uint16_t* numbers) noexcept nogil:
    cdef Slot* slots = t.slots
    cdef int shift = t.shift
    cdef int64_t at = lo, i0, i1, i2, i3
    cdef uint64_t k0, k1, k2, k3
    cdef int k, rc
    while at + 4 <= hi:
        k0 = distinct_key(items[at], floats)
        k1 = distinct_key(items[at + 1], floats)
        k2 = distinct_key(items[at + 2], floats)
        k3 = distinct_key(items[at + 3], floats)
        i0 = likely_slot(slots, shift, k0)
        i1 = likely_slot(slots, shift, k1)
        i2 = likely_slot(slots, shift, k2)
        i3 = likely_slot(slots, shift, k3)
        if ((slots[i0].key ^ k0) | (slots[i1].key ^ k1) | (slots[i2].key ^ k2)
                | (slots[i3].key ^ k3)) == 0:
            if counting:
                slots[i0].value[0] += 1
                slots[i1].value[1] += 1
                slots[i2].value[0] += 1
                slots[i3].value[1] += 1
            if numbers != NULL:
                numbers[at] = <uint16_t>slots[i0].value[0]
                numbers[at + 1] = <uint16_t>slots[i1].value[0]
                numbers[at + 2] = <uint16_t>slots[i2].value[0]
                numbers[at + 3] = <uint16_t>slots[i3].value[0]
        else:
            for k in range(4):
                rc = count_key(t, distinct_key(items[at + k], floats), at + k, numbers)
                if rc != 0:
                    return rc
            slots = t.slots
            shift = t.shift
        at += 4
    while at < hi:
        rc = count_key(t, distinct_key(items[at], floats), at, numbers)
        if rc != 0:
            return rc
        at += 1
    return 0


cdef int count_typed(Table* t, const Distinct* d, const Word* items, int64_t lo, int64_t hi) noexcept nogil:
    if d.floats:
        if d.numbers != NULL:
            return count_keys(t, items, lo, hi, True, False, d.numbers)
        if d.counting:
            return count_keys(t, items, lo, hi, True, True, NULL)
        return count_keys(t, items, lo, hi, True, False, NULL)
    if d.numbers != NULL:
        return count_keys(t, items, lo, hi, False, False, d.numbers)
    if d.counting:
        return count_keys(t, items, lo, hi, False, True, NULL)
    return count_keys(t, items, lo, hi, False, False, NULL)


cdef void fail(DistinctRun* leaf, int code) noexcept nogil:
    # relaxed: read after the join.  ENOMEM wins over MANY: whether another block has met too many by
    # then depends on timing.
    if u32_load_relaxed(&leaf.failed) != ENOMEM:
        u32_store_relaxed(&leaf.failed, <uint32_t>code)
    bridge_limit(&leaf.bridge, 0)


cdef int distinct_count_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef DistinctRun* leaf = <DistinctRun*>ctx
    cdef Distinct* d = leaf.d
    cdef Table* t = d.tables + lo
    cdef int64_t at = lo * d.block, end = min((lo + 1) * d.block, d.n), to
    cdef int rc
    if table_init(t, d.limit) != 0:
        fail(leaf, ENOMEM)
        return 0
    while at < end and bridge_wants(&leaf.bridge, lo):
        to = min(at + CHUNK, end)
        if d.size == 8:
            rc = count_typed(t, d, <const uint64_t*>d.items, at, to)
        else:
            rc = count_typed(t, d, <const uint32_t*>d.items, at, to)
        if rc != 0:
            fail(leaf, MANY if rc == MANY else ENOMEM)
            return 0
        at = to
    return 0


cdef int merge_tables(Distinct* d) noexcept nogil:
    """0, MANY or ENOMEM."""
    cdef Table* m = &d.merged
    cdef Table* t
    cdef Slot* slot
    cdef int64_t b, k, i
    if table_init(m, d.limit) != 0:
        return ENOMEM
    d.counts = <int64_t*>calloc(d.limit, sizeof(int64_t))
    if d.counts == NULL:
        return ENOMEM
    for b in range(d.blocks):
        t = d.tables + b
        for k in range(t.used):
            i = likely_slot(m.slots, m.shift, t.keys[k])
            if m.slots[i].key != t.keys[k]:
                i = table_number(m, t.keys[k], t.first[k])
                if i < 0:
                    return MANY if i == MANY else ENOMEM
            if d.counting:
                slot = t.slots + table_search(t, t.keys[k])
                d.counts[m.slots[i].value[0]] += <int64_t>slot.value[0] + slot.value[1]
    d.count = m.used
    d.keys = m.keys
    d.first = m.first
    return 0


# ---- one and two bytes ------------------------------------------------------

cdef inline int64_t lanes_of(const Distinct* d) noexcept nogil:
    return 4 if d.size == 1 else 1


cdef inline void place_one(uint32_t* counts, int64_t all_of, int64_t place, int64_t at) noexcept nogil:
    if counts[place] == 0:
        counts[all_of + place] = <uint32_t>at
    counts[place] += 1


cdef void place_items(const Small* items, int64_t n, uint32_t* counts, int64_t all_of) noexcept nogil:
    """all_of: from a count to its first place."""
    cdef int64_t i = 0
    if Small is uint8_t:
        while i + 4 <= n:
            place_one(counts, all_of, items[i], i)
            place_one(counts, all_of, 256 + items[i + 1], i + 1)
            place_one(counts, all_of, 512 + items[i + 2], i + 2)
            place_one(counts, all_of, 768 + items[i + 3], i + 3)
            i += 4
    while i < n:
        place_one(counts, all_of, items[i], i)
        i += 1


cdef int place_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Distinct* d = (<DistinctRun*>ctx).d
    cdef int64_t at = lo * d.block, end = min((lo + 1) * d.block, d.n)
    cdef int64_t table = lanes_of(d) << (8 * d.size)
    cdef uint32_t* counts = d.places + lo * table
    if d.size == 1:
        place_items(<const uint8_t*>d.items + at, end - at, counts, d.blocks * table)
    else:
        place_items(<const uint16_t*>d.items + at, end - at, counts, d.blocks * table)
    return 0


cdef int merge_places(Distinct* d) noexcept nogil:
    cdef int64_t entries = <int64_t>1 << (8 * d.size), lanes = lanes_of(d)
    cdef int64_t all_of = d.blocks * lanes * entries
    cdef int64_t b, table, k, at, where, id
    cdef int64_t* counts = <int64_t*>calloc(entries, sizeof(int64_t))
    cdef int64_t* first = <int64_t*>malloc(entries * sizeof(int64_t))
    d.counts = counts
    d.first = first
    d.keys = <uint64_t*>malloc(entries * sizeof(uint64_t))
    # Zeros for what comes only later, when another thread writes the items: a rank as well.
    d.ranks = <uint32_t*>calloc(entries, sizeof(uint32_t))
    if counts == NULL or first == NULL or d.keys == NULL or d.ranks == NULL:
        return ENOMEM
    for table in range(d.blocks * lanes):
        b = table // lanes * d.block
        for k in range(entries):
            if d.places[table * entries + k] != 0:
                where = canonical[uint16_t](<uint16_t>k) if d.floats and d.size == 2 else k
                at = b + d.places[all_of + table * entries + k]
                if counts[where] == 0 or at < first[where]:
                    first[where] = at
                counts[where] += d.places[table * entries + k]
    # Those that are there move to the front.
    for k in range(entries):
        if counts[k] != 0:
            id = d.count
            d.keys[id] = <uint64_t>k
            first[id] = first[k]
            counts[id] = counts[k]
            d.ranks[k] = <uint32_t>id
            d.count += 1
    return 0


# ---- the whole --------------------------------------------------------------

cdef bint distinct_may_be_few(const Distinct* d) noexcept nogil:
    cdef Table t
    cdef uint64_t state = SAMPLE_SEED, key
    cdef int64_t i, at, step, most
    cdef bint few = True
    if d.size < 4:
        return True
    # As many as `limit` equally frequent values leave in a sample, nearly always.
    most = <int64_t>(-d.limit * expm1(-<double>SAMPLES / d.limit)) + SAMPLE_ERROR
    most = min(min(most, d.limit), <int64_t>SAMPLE_LIMIT)
    if table_init(&t, most) == 0:
        step = max(d.n // SAMPLES, <int64_t>1)
        for i in range(min(<int64_t>SAMPLES, d.n)):
            at = sample_place(&state, i, step)
            if d.size == 8:
                key = distinct_key((<const uint64_t*>d.items)[at], d.floats)
            else:
                key = distinct_key((<const uint32_t*>d.items)[at], d.floats)
            if table_put(&t, key, at) < 0:
                few = False
                break
    table_free(&t)
    return few


cdef int distinct_run(Worker* w, Distinct* d) noexcept nogil:
    cdef DistinctRun leaf
    cdef int64_t b, table
    cdef int rc
    d.many = False
    d.count = 0
    d.keys = NULL
    d.first = NULL
    d.counts = NULL
    d.tables = NULL
    d.places = NULL
    d.ranks = NULL
    d.merged.slots = NULL
    d.merged.keys = NULL
    d.merged.first = NULL
    d.limit = min(d.limit, <int64_t>DISTINCT_LIMIT)
    leaf.d = d
    u32_store_relaxed(&leaf.failed, 0)
    # A block of two bytes has to be worth its table.
    b = MIN_BLOCK_ITEMS if d.size != 2 else 8 * MIN_BLOCK_ITEMS
    d.blocks = max(min(<int64_t>MAX_BLOCKS, d.n // b), (d.n - 1) // MOST_BLOCK_ITEMS + 1)
    d.block = (d.n - 1) // d.blocks + 1
    if d.size < 4:
        table = lanes_of(d) << (8 * d.size)
        d.places = <uint32_t*>calloc(2 * d.blocks * table, sizeof(uint32_t))
        if d.places == NULL:
            return ENOMEM
        bridge_init(&leaf.bridge, place_leaf, NULL, &leaf, 1)
        rc = bridge_run(w, &leaf.bridge, d.blocks)
        return merge_places(d) if rc == 0 else rc
    d.tables = <Table*>calloc(d.blocks, sizeof(Table))
    if d.tables == NULL:
        return ENOMEM
    bridge_init(&leaf.bridge, distinct_count_leaf, NULL, &leaf, 1)
    rc = bridge_run(w, &leaf.bridge, d.blocks)
    if rc == 0:
        rc = <int>u32_load_relaxed(&leaf.failed)
    if rc == 0:
        rc = merge_tables(d)
    if rc == MANY:
        d.many = True
        rc = 0
    return rc


cdef void distinct_free(Distinct* d) noexcept nogil:
    cdef int64_t b
    if d.tables != NULL:
        for b in range(d.blocks):
            table_free(d.tables + b)
    free(d.tables)
    if d.size < 4:
        free(d.keys)
        free(d.first)
    else:
        table_free(&d.merged)
    free(d.counts)
    free(d.places)
    free(d.ranks)


# ---- the inverse ------------------------------------------------------------

cdef inline void rank_items(const Table* t, const Word* items, int64_t lo, int64_t hi,
                            bint floats, int64_t* out) noexcept nogil:
    cdef const Slot* slots = t.slots
    cdef int64_t at, i
    cdef uint64_t key
    for at in range(lo, hi):
        key = distinct_key(items[at], floats)
        i = likely_slot(slots, t.shift, key)
        if slots[i].key != key:
            i = table_search(t, key)
        out[at] = slots[i].value[0]


cdef void rank_typed(const Table* t, const Word* items, int64_t lo, int64_t hi, bint floats,
                     int64_t* out) noexcept nogil:
    if floats:
        rank_items(t, items, lo, hi, True, out)
    else:
        rank_items(t, items, lo, hi, False, out)


cdef int inverse_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef DistinctRun* leaf = <DistinctRun*>ctx
    cdef Distinct* d = leaf.d
    cdef int64_t i
    if d.size == 8:
        rank_typed(&d.merged, <const uint64_t*>d.items, lo, hi, d.floats, leaf.out)
    elif d.size == 4:
        rank_typed(&d.merged, <const uint32_t*>d.items, lo, hi, d.floats, leaf.out)
    elif d.size == 2:
        for i in range(lo, hi):
            leaf.out[i] = d.ranks[(<const uint16_t*>d.items)[i]]
    else:
        for i in range(lo, hi):
            leaf.out[i] = d.ranks[(<const uint8_t*>d.items)[i]]
    return 0


cdef int distinct_inverse(Worker* w, Distinct* d, const int64_t* ranks, int64_t* out) noexcept nogil:
    cdef DistinctRun leaf
    cdef int64_t i, half
    leaf.d = d
    leaf.out = out
    for i in range(d.count):
        if d.size < 4:
            d.ranks[d.keys[i]] = <uint32_t>ranks[i]
        else:
            d.merged.slots[table_search(&d.merged, d.keys[i])].value[0] = <uint32_t>ranks[i]
    if d.floats and d.size == 2:
        for half in range(65536):
            d.ranks[half] = d.ranks[canonical[uint16_t](<uint16_t>half)]
    return run_blocks(w, inverse_leaf, &leaf, LEAF_ITEMS, d.n)


cdef void distinct_ranks(const Distinct* d, int64_t block, const int64_t* ranks, uint16_t* out) noexcept nogil:
    cdef const Table* t = d.tables + block
    cdef int64_t k
    for k in range(t.used):
        out[k] = <uint16_t>ranks[d.merged.slots[table_search(&d.merged, t.keys[k])].value[0]]
