"""Runs of equal keys; see groups.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp
from pyblitz.runtime.bridge cimport Bridge, bridge_init, bridge_run

cdef extern from *:
    """
    #define pb_prefetch(p) __builtin_prefetch(p)
    #define pb_prefetch_write(p) __builtin_prefetch((p), 1)
    """
    void pb_prefetch(const void*) nogil
    void pb_prefetch_write(void*) nogil

cdef enum:
    LEAF_ITEMS = 16384
    # Keys that are gathered at a time, into L1.
    CHUNK = 1024
    # How many items ahead one is asked for; as in move.pyx.
    AHEAD = 128

ctypedef fused Key:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    float
    double


cdef inline void gather(const Key* items, const int64_t* order, int64_t n, int64_t known,
                        Key* to) noexcept nogil:
    """known: how many entries of the order there are, at least n."""
    cdef int64_t i = 0, ahead = min(n, known - AHEAD)
    while i < ahead:
        pb_prefetch(items + order[i + AHEAD])
        to[i] = items[order[i]]
        i += 1
    while i < n:
        to[i] = items[order[i]]
        i += 1


cdef inline void compare(const Key* keys, int64_t n, uint8_t* begins, bint first) noexcept nogil:
    """keys[1 ..] with those before them."""
    cdef int64_t i
    cdef uint8_t differs
    for i in range(n):
        if Key is float or Key is double:
            differs = (keys[i] != keys[i + 1]) & (
                (keys[i] == keys[i]) | (keys[i + 1] == keys[i + 1]))
        else:
            differs = keys[i] != keys[i + 1]
        begins[i] = differs if first else begins[i] | differs


cdef void run_words(const Runs* r, const Key* items, bint half, bint first, int64_t lo,
                    int64_t hi) noexcept nogil:
    """lo > 0."""
    cdef Key keys[CHUNK + 1]
    cdef int64_t n, i
    while lo < hi:
        n = min(hi - lo, <int64_t>CHUNK)
        gather(items, r.order + lo - 1, n + 1, r.n - lo + 1, keys)
        if Key is uint16_t:
            if half:
                for i in range(n + 1):
                    if keys[i] & 0x7FFF > 0x7C00:
                        keys[i] = 0x7FFF
                    elif keys[i] == 0x8000:
                        keys[i] = 0
        compare(keys, n, r.begins + lo, first)
        lo += n


cdef void run_pairs(const Runs* r, const Key* items, bint first, int64_t lo,
                    int64_t hi) noexcept nogil:
    cdef int64_t i
    cdef const Key* a
    cdef const Key* b
    cdef uint8_t differs
    for i in range(lo, hi):
        if i + AHEAD < r.n:
            pb_prefetch(items + 2 * r.order[i + AHEAD])
        a = items + 2 * r.order[i - 1]
        b = items + 2 * r.order[i]
        differs = (a[0] != b[0]) | (a[1] != b[1])
        differs &= ((a[0] == a[0]) & (a[1] == a[1])) | ((b[0] == b[0]) & (b[1] == b[1]))
        r.begins[i] = differs if first else r.begins[i] | differs


cdef void run_bytes(const Runs* r, const Column* c, bint first, int64_t lo, int64_t hi) noexcept nogil:
    cdef int64_t i
    cdef const char* a
    cdef const char* b
    for i in range(lo, hi):
        if i + AHEAD < r.n:
            pb_prefetch(c.items + r.order[i + AHEAD] * c.itemsize)
        if first or not r.begins[i]:
            a = c.items + r.order[i - 1] * c.itemsize
            b = c.items + r.order[i] * c.itemsize
            r.begins[i] = memcmp(a, b, c.itemsize) != 0


cdef int runs_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Runs* r = <Runs*>ctx
    cdef const Column* c
    cdef int k
    cdef bint first
    if lo == 0:
        r.begins[0] = 1
        lo = 1
    for k in range(r.count):
        c = r.columns + k
        first = k == 0
        if c.kind == EQUAL_DOUBLE:
            run_words(r, <const double*>c.items, False, first, lo, hi)
        elif c.kind == EQUAL_FLOAT:
            run_words(r, <const float*>c.items, False, first, lo, hi)
        elif c.kind == EQUAL_DOUBLE_PAIR:
            run_pairs(r, <const double*>c.items, first, lo, hi)
        elif c.kind == EQUAL_FLOAT_PAIR:
            run_pairs(r, <const float*>c.items, first, lo, hi)
        elif c.itemsize == 8:
            run_words(r, <const uint64_t*>c.items, False, first, lo, hi)
        elif c.itemsize == 4:
            run_words(r, <const uint32_t*>c.items, False, first, lo, hi)
        elif c.itemsize == 2:
            run_words(r, <const uint16_t*>c.items, c.kind == EQUAL_HALF, first, lo, hi)
        elif c.itemsize == 1:
            run_words(r, <const uint8_t*>c.items, False, first, lo, hi)
        else:
            run_bytes(r, c, first, lo, hi)
    return 0


cdef int runs_find(Worker* w, Runs* r) noexcept nogil:
    cdef Bridge b
    bridge_init(&b, runs_leaf, NULL, r, LEAF_ITEMS)
    return bridge_run(w, &b, r.n)


# ---- ranks ------------------------------------------------------------------

cdef inline void write_run(const Ranks* r, int64_t lo, int64_t hi, uint64_t bits) noexcept nogil:
    cdef uint64_t* out = <uint64_t*>r.out
    cdef int64_t i
    for i in range(lo, hi):
        if i + AHEAD < r.n:
            pb_prefetch_write(out + r.order[i + AHEAD])
        out[r.order[i]] = bits


cdef union Rank:
    double average
    uint64_t bits


cdef int ranks_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    """Those at lo .. hi of the order."""
    cdef Ranks* r = <Ranks*>ctx
    cdef int64_t first = 0, last = r.runs, mid, start, end
    cdef uint64_t* out = <uint64_t*>r.out
    cdef Rank rank
    if r.kind == RANK_ORDINAL:
        for start in range(lo, hi):
            if start + AHEAD < r.n:
                pb_prefetch_write(out + r.order[start + AHEAD])
            out[r.order[start]] = start + 1
        return 0
    while last - first > 1:     # the run that lo is in
        mid = (first + last) >> 1
        if r.starts[mid] <= lo:
            first = mid
        else:
            last = mid
    while lo < hi:
        start = r.starts[first]
        end = r.starts[first + 1] if first + 1 < r.runs else r.n
        if r.kind == RANK_AVERAGE:
            rank.average = 0.5 * <double>(start + 1 + end)
        elif r.kind == RANK_LEAST:
            rank.bits = start + 1
        elif r.kind == RANK_GREATEST:
            rank.bits = end
        else:
            rank.bits = first + 1
        write_run(r, lo, min(hi, end), rank.bits)
        lo = end
        first += 1
    return 0


cdef int ranks_write(Worker* w, Ranks* r) noexcept nogil:
    cdef Bridge b
    bridge_init(&b, ranks_leaf, NULL, r, LEAF_ITEMS)
    return bridge_run(w, &b, r.n)
