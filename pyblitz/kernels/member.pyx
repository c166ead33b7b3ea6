"""Members of sets; see member.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t)
from libc.stdlib cimport calloc, free
from pyblitz.kernels.blocks cimport run_blocks
from pyblitz.kernels.distinct cimport distinct_key, hash_key
from pyblitz.kernels.numbers cimport (
    NUMBER_F32, NUMBER_F64, NUMBER_I16, NUMBER_I32, NUMBER_I64, NUMBER_I8, NUMBER_TIME, NUMBER_U16,
    NUMBER_U32, NUMBER_U8, Integer, NumberKind, Word, sign_bit, usual_nan)
from pyblitz.kernels.prefetch cimport prefetch
from pyblitz.runtime.atomic cimport (
    atomic_i64, i64_cas_relaxed, i64_load_relaxed, u32_fetch_or_relaxed,
    u32_load_relaxed, u32_store_relaxed)
from pyblitz.runtime.bridge cimport Bridge, bridge_init, bridge_limit, bridge_run

cdef enum:
    LEAF_ITEMS = 16384
    # Keys that are asked for together: more than misses of one core overlap.
    LANES = 64
    # Steps to a free slot after which the table is given up: more than any set has
    # that was not made for it.
    MAX_STEPS = 256

cdef struct MemberRun:
    Bits* bits              # the table: either this one
    Keys* keys              # or this one is used
    const void* items       # what is put in or asked for
    NumberKind kind
    bint invert
    uint8_t* out            # where answers go; of bits, NULL: items are put in
    Bridge bridge           # the loop that puts keys in, which ends early when there is no room


# ---- bits -------------------------------------------------------------------

cdef void put_bits(Bits* bits, const Integer* items, int64_t n) noexcept nogil:
    cdef uint64_t place
    cdef uint32_t bit
    cdef int64_t i
    for i in range(n):
        place = <uint64_t><int64_t>items[i] - bits.low
        if place <= bits.range:
            bit = <uint32_t>1 << (place & 31)
            # relaxed: asked after the join.  An atomic or is dear, and repeats are many.
            if u32_load_relaxed(bits.words + (place >> 5)) & bit == 0:
                u32_fetch_or_relaxed(bits.words + (place >> 5), bit)


cdef void ask_bits(Bits* bits, const Integer* items, int64_t n, uint32_t invert,
                   uint8_t* out) noexcept nogil:
    cdef uint64_t place, inside
    cdef int64_t i
    for i in range(n):
        place = <uint64_t><int64_t>items[i] - bits.low
        inside = place <= bits.range
        # Without a branch: an item outside the range reads the first bit, and the result is masked.
        place = place & (0 - inside)
        out[i] = <uint8_t>(
            ((u32_load_relaxed(bits.words + (place >> 5)) >> (place & 31)) & <uint32_t>inside)
            ^ invert)


cdef void bits_of_items(const MemberRun* leaf, const Integer* items, int64_t lo, int64_t hi) noexcept nogil:
    if leaf.out == NULL:
        put_bits(leaf.bits, items + lo, hi - lo)
    else:
        ask_bits(leaf.bits, items + lo, hi - lo, leaf.invert, leaf.out + lo)


cdef int bits_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef const MemberRun* leaf = <const MemberRun*>ctx
    if leaf.kind == NUMBER_I8:
        bits_of_items(leaf, <const int8_t*>leaf.items, lo, hi)
    elif leaf.kind == NUMBER_U8:
        bits_of_items(leaf, <const uint8_t*>leaf.items, lo, hi)
    elif leaf.kind == NUMBER_I16:
        bits_of_items(leaf, <const int16_t*>leaf.items, lo, hi)
    elif leaf.kind == NUMBER_U16:
        bits_of_items(leaf, <const uint16_t*>leaf.items, lo, hi)
    elif leaf.kind == NUMBER_I32:
        bits_of_items(leaf, <const int32_t*>leaf.items, lo, hi)
    elif leaf.kind == NUMBER_U32:
        bits_of_items(leaf, <const uint32_t*>leaf.items, lo, hi)
    elif leaf.kind == NUMBER_I64:
        bits_of_items(leaf, <const int64_t*>leaf.items, lo, hi)
    else:
        bits_of_items(leaf, <const uint64_t*>leaf.items, lo, hi)
    return 0


cdef int bits_put(Worker* w, Bits* bits, const void* items, int64_t n, NumberKind kind) noexcept nogil:
    return bits_ask(w, bits, items, n, kind, False, NULL)


cdef int bits_ask(Worker* w, Bits* bits, const void* items, int64_t n, NumberKind kind,
                  bint invert, uint8_t* out) noexcept nogil:
    cdef MemberRun leaf
    leaf.bits = bits
    leaf.items = items
    leaf.kind = kind
    leaf.invert = invert
    leaf.out = out
    return run_blocks(w, bits_leaf, &leaf, LEAF_ITEMS, n)


# ---- keys -------------------------------------------------------------------

cdef inline bint is_none(uint64_t key, NumberKind kind) noexcept nogil:
    """Whether this is the key of NaN or NaT, which equal nothing."""
    if kind == NUMBER_F64:
        return key == usual_nan[uint64_t](0)
    if kind == NUMBER_F32:
        return key == usual_nan[uint32_t](0)
    return kind == NUMBER_TIME and key == sign_bit[uint64_t](0)


cdef bint put_key(Keys* keys, uint64_t key) noexcept nogil:
    """False: there is no free slot near."""
    cdef atomic_i64* slot = keys.slots + (hash_key(key) >> keys.shift)
    cdef atomic_i64* end = slot + MAX_STEPS
    cdef int64_t seen
    # relaxed: asked after the join
    while slot < end:
        seen = i64_load_relaxed(slot)
        if seen == <int64_t>key or (seen == 0 and i64_cas_relaxed(slot, 0, <int64_t>key)):
            return True
        # If seen is 0, another thread has just taken the slot: look again, it may hold this key.
        if seen != 0:
            slot += 1
    return False


cdef bint put_keys(Keys* keys, const Word* items, int64_t n, bint floats) noexcept nogil:
    cdef uint64_t key[LANES]
    cdef int64_t at = 0, lanes, k
    while at < n:
        lanes = min(<int64_t>LANES, n - at)
        for k in range(lanes):
            key[k] = distinct_key(items[at + k], floats)
            prefetch(keys.slots + (hash_key(key[k]) >> keys.shift))
        for k in range(lanes):
            if key[k] == 0:
                u32_store_relaxed(&keys.zero, 1)
            elif not is_none(key[k], keys.kind) and not put_key(keys, key[k]):
                return False
        at += lanes
    return True


cdef bint has_key(const Keys* keys, uint64_t key) noexcept nogil:
    cdef const atomic_i64* slot = keys.slots + (hash_key(key) >> keys.shift)
    cdef int64_t seen = i64_load_relaxed(slot)
    while seen != 0 and seen != <int64_t>key:
        slot += 1
        seen = i64_load_relaxed(slot)
    return seen == <int64_t>key


cdef inline void ask_keys(const Keys* keys, const Word* items, int64_t n, bint floats,
                          uint8_t invert, uint8_t* out) noexcept nogil:
    cdef const atomic_i64* slots = keys.slots
    cdef uint8_t zero = u32_load_relaxed(&keys.zero) != 0, found
    cdef uint64_t key[LANES]
    cdef uint64_t slot[LANES]
    cdef int64_t at = 0, lanes, k, first, second
    while at < n:
        lanes = min(<int64_t>LANES, n - at)
        for k in range(lanes):
            key[k] = distinct_key(items[at + k], floats)
            slot[k] = hash_key(key[k]) >> keys.shift
            prefetch(slots + slot[k])
        for k in range(lanes):
            first = i64_load_relaxed(slots + slot[k])
            second = i64_load_relaxed(slots + slot[k] + 1)
            # Nearly all are told by two slots, without a branch that depends on
            # whether they are members.
            found = (first == <int64_t>key[k]) | (second == <int64_t>key[k])
            if (first != 0) & (second != 0) & (found == 0):
                found = has_key(keys, key[k])
            found = found if key[k] != 0 else zero
            out[at + k] = found ^ invert
        at += lanes


cdef inline bint is_float(NumberKind kind) noexcept nogil:
    return kind == NUMBER_F32 or kind == NUMBER_F64


cdef inline bint is_wide(NumberKind kind) noexcept nogil:
    return kind != NUMBER_I32 and kind != NUMBER_U32 and kind != NUMBER_F32


cdef int put_keys_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef MemberRun* leaf = <MemberRun*>ctx
    cdef Keys* keys = leaf.keys
    cdef bint done
    if is_wide(keys.kind):
        done = put_keys(keys, <const uint64_t*>leaf.items + lo, hi - lo, is_float(keys.kind))
    else:
        done = put_keys(keys, <const uint32_t*>leaf.items + lo, hi - lo, is_float(keys.kind))
    if not done:
        u32_store_relaxed(&keys.full, 1)
        bridge_limit(&leaf.bridge, 0)
    return 0


cdef void ask_typed(const Keys* keys, const Word* items, int64_t n, bint floats, uint8_t invert,
                    uint8_t* out) noexcept nogil:
    if floats:
        ask_keys(keys, items, n, True, invert, out)
    else:
        ask_keys(keys, items, n, False, invert, out)


cdef int ask_keys_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef MemberRun* leaf = <MemberRun*>ctx
    cdef Keys* keys = leaf.keys
    if is_wide(keys.kind):
        ask_typed(keys, <const uint64_t*>leaf.items + lo, hi - lo, is_float(keys.kind),
                  leaf.invert, leaf.out + lo)
    else:
        ask_typed(keys, <const uint32_t*>leaf.items + lo, hi - lo, is_float(keys.kind),
                  leaf.invert, leaf.out + lo)
    return 0


cdef int keys_put(Worker* w, Keys* keys, const void* items) noexcept nogil:
    cdef MemberRun leaf
    cdef int64_t room
    cdef int bits = 6, rc
    # A quarter full at most while it fits into a cache, half full at most after that.
    room = keys.n * (4 if keys.n <= 65536 else 2)
    while <int64_t>1 << bits < room:
        bits += 1
    u32_store_relaxed(&keys.zero, 0)
    u32_store_relaxed(&keys.full, 0)
    keys.crowded = False
    keys.shift = 64 - bits
    # What runs over the end needs no turn to the begin; the last one is always free.
    keys.slots = <atomic_i64*>calloc((<int64_t>1 << bits) + MAX_STEPS + 2, sizeof(atomic_i64))
    if keys.slots == NULL:
        return ENOMEM
    leaf.keys = keys
    leaf.items = items
    bridge_init(&leaf.bridge, put_keys_leaf, NULL, &leaf, LEAF_ITEMS)
    rc = bridge_run(w, &leaf.bridge, keys.n)
    keys.crowded = u32_load_relaxed(&keys.full) != 0
    return rc


cdef int keys_ask(Worker* w, Keys* keys, const void* items, int64_t n, bint invert,
                  uint8_t* out) noexcept nogil:
    cdef MemberRun leaf
    leaf.keys = keys
    leaf.items = items
    leaf.invert = invert
    leaf.out = out
    return run_blocks(w, ask_keys_leaf, &leaf, LEAF_ITEMS, n)


cdef void keys_free(Keys* keys) noexcept nogil:
    free(keys.slots)
