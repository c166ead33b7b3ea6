"""Searches; see find.pxd."""
from libc.stdint cimport INT64_MAX, uint8_t, uint32_t, uint64_t
from pyblitz.kernels.map cimport Block, map_begin, map_blocks, map_walk
from pyblitz.kernels.simd.levels cimport simd
from pyblitz.runtime.atomic cimport (
    i64_cas_relaxed, i64_load_relaxed, i64_store_relaxed)
from pyblitz.runtime.bridge cimport Bridge, bridge_init, bridge_limit, bridge_run

cdef enum:
    # Blocks of the first stretch that is searched; each further one has GROWTH times as
    # many.  So all workers are near the front, and read little that lies behind a hit.
    FIRST_BLOCKS = 32
    GROWTH = 4
    # Between two looks whether one has been met.
    LOOK_BYTES = 8192

cdef struct Search:
    Find* find
    Bridge bridge
    int64_t begin           # of the stretch

cdef struct Look:
    Search* search
    int64_t found           # in this leaf; -1: nothing


cdef bint is_some(const Items* items, const char* at, int64_t n) noexcept nogil:
    """Whether one of these is equal to the value, or true: NumPy takes any byte that is not 0 for that."""
    if not items.equal:
        return simd.any_byte(<const uint8_t*>at, n)
    if items.size == 4:
        if items.floats:
            return simd.equal_floats(<const float*>at, n, items.value.single)
        return simd.equal_narrow(<const uint32_t*>at, n, items.value.narrow)
    if items.floats:
        return simd.equal_doubles(<const double*>at, n, items.value.real)
    return simd.equal_wide(<const uint64_t*>at, n, items.value.wide)


cdef int64_t some_at(const Items* items, const char* at, int64_t n, FindWhich which) noexcept nogil:
    cdef int64_t i = 0, half, size = items.size
    cdef bint last = which == FIND_LAST
    # Most blocks have none: vectors look at all, and then at halves.
    if not is_some(items, at, n):
        return -1
    while n > 32:
        half = n // 2
        if last:
            if is_some(items, at + (i + n - half) * size, half):
                i += n - half
                n = half
            else:
                n -= half
        elif is_some(items, at + i * size, half):
            n = half
        else:
            i += half
            n -= half
    if last:
        i += n - 1
    # Another thread may write to them: no further than they go.
    while n > 0 and not is_some(items, at + i * size, 1):
        i += -1 if last else 1
        n -= 1
    return i if n > 0 else -1


cdef int64_t true_at(const uint8_t* mask, int64_t n, FindWhich which) noexcept nogil:
    cdef Items items
    items.size = 1
    items.equal = False
    return some_at(&items, <const char*>mask, n, which)


cdef inline int64_t nonzero(const Items* items, const char* at, int64_t n) noexcept nogil:
    if items.size == 1:
        return simd.nonzero_bytes(<const uint8_t*>at, n)
    if items.size == 4:
        return simd.nonzero_narrow(<const uint32_t*>at, n, items.floats)
    return simd.nonzero_wide(<const uint64_t*>at, n, items.floats)


cdef inline bint is_met(const Find* f, const char* at, int64_t n) noexcept nogil:
    """Whether one of these elements is what FIND_NONZERO or FIND_ZERO asks for."""
    if f.items.equal:
        return is_some(&f.items, at, n)
    if f.which == FIND_ZERO:
        return nonzero(&f.items, at, n) < n if f.items.size > 1 else not simd.all_bytes(<const uint8_t*>at, n)
    # Bytes say it in fewer steps, but for zeros with a sign.
    return simd.any_byte(<const uint8_t*>at, n * f.items.size) and (
        not f.items.floats or nonzero(&f.items, at, n) > 0)


cdef int look_for_one(Look* l, const Block* b) noexcept nogil:
    cdef const Find* f = l.search.find
    cdef const char* at = b.at[f.items.slot]
    cdef int64_t i = 0, n = LOOK_BYTES // f.items.size
    while i < b.n:
        if is_met(f, at + i * f.items.size, min(b.n - i, n)):
            l.found = b.lo + i
            return 1
        i += n
    return 0


cdef int look_at_block(void* state, const Block* b) noexcept nogil:
    cdef Look* l = <Look*>state
    cdef const Items* items = &l.search.find.items
    cdef int64_t i
    if l.search.find.which >= FIND_NONZERO:
        return look_for_one(l, b)
    i = some_at(items, b.at[items.slot], b.n, l.search.find.which)
    if i < 0:
        return 0
    l.found = b.lo + i
    return l.search.find.which != FIND_LAST


cdef int find_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Search* s = <Search*>ctx
    cdef Find* f = s.find
    cdef int64_t n = f.map.size, at, seen
    cdef Look l
    cdef int rc
    l.search = s
    l.found = -1
    lo += s.begin
    hi += s.begin
    if f.which == FIND_LAST:
        # The bridge goes from the end: its item i is element n - 1 - i.
        rc = map_walk(w, f.map, n - hi, n - lo, look_at_block, &l)
    else:
        rc = map_walk(w, f.map, lo, hi, look_at_block, &l)
    if l.found < 0:
        return rc
    at = n - 1 - l.found if f.which == FIND_LAST else l.found
    # relaxed: the caller reads after the join, which orders it behind this
    seen = i64_load_relaxed(&f.hit)
    while at < seen and not i64_cas_relaxed(&f.hit, seen, at):
        seen = i64_load_relaxed(&f.hit)
    # For any hit nothing more is wanted at all.
    bridge_limit(&s.bridge, at - s.begin if f.which < FIND_ANY else 0)
    return 0


cdef int find_run(Worker* w, Find* f) noexcept nogil:
    """Leaves the hit's position in f.hit, or -1."""
    cdef Search s
    cdef int64_t at, n = f.map.size, stretch = FIRST_BLOCKS * f.grain
    cdef int rc = 0
    s.find = f
    i64_store_relaxed(&f.hit, INT64_MAX)
    map_begin(f.map)
    s.begin = 0
    while s.begin < n and rc == 0 and i64_load_relaxed(&f.hit) == INT64_MAX:
        bridge_init(&s.bridge, find_leaf, NULL, &s, f.grain)
        rc = bridge_run(w, &s.bridge, min(stretch, n - s.begin))
        s.begin += stretch
        stretch *= GROWTH
    at = i64_load_relaxed(&f.hit)
    if at == INT64_MAX:
        at = -1
    elif f.which == FIND_LAST:
        at = n - 1 - at
    i64_store_relaxed(&f.hit, at)
    return rc


# ---- counting ---------------------------------------------------------------

cdef struct Tally:
    const CountNonzero* c
    int64_t count


cdef int tally(void* state, const Block* b) noexcept nogil:
    cdef Tally* t = <Tally*>state
    t.count += nonzero(&t.c.items, b.at[t.c.items.slot], b.n)
    return 0


cdef int nonzero_count_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef CountNonzero* c = <CountNonzero*>ctx
    cdef Tally t
    cdef int rc
    t.c = c
    t.count = 0
    rc = map_walk(w, c.map, lo, hi, tally, &t)
    c.counts[lo // c.grain] = t.count
    return rc


cdef int count_nonzero_run(Worker* w, CountNonzero* c) noexcept nogil:
    return map_blocks(w, c.map, nonzero_count_leaf, NULL, c, c.grain, c.grain)
