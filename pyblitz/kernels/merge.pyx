"""Merging, and what is sorted by it; see merge.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport (
    int8_t, int16_t, int32_t, uint8_t, uint16_t, uint32_t, uint64_t)
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memmove, memset
from pyblitz.kernels.blocks cimport combine_blocks, run_blocks
from pyblitz.kernels.numbers cimport (
    KEY_FLOAT, KEY_TIME, Number, float_key, last_key, time_key, turned)
from pyblitz.runtime.atomic cimport (
    atomic_u32, u32_load_relaxed, u32_store_relaxed, unlikely)
from pyblitz.runtime.bridge cimport (
    Bridge, bridge_init, bridge_limit, bridge_run)
from pyblitz.runtime.os cimport alloc_array
from pyblitz.kernels.simd.levels cimport simd
from pyblitz.runtime.pool cimport hooks, must_stop

cdef enum:
    LEAF_CHUNK = 32768      # items of a chunk, about, for a leaf
    CHUNK = 8192            # and without: comparisons may be slow
    PIECE = 32768           # items of a merge in one leaf, at least, of known types
    USER_PIECE = 8192       # by a user's comparison
    MAX_LEVELS = 10
    RUN = 8                 # items of an insertion sort
    BOTH_ENDS = 8           # items of both runs, for a merge from both ends
    WORTH_A_LOOK = 32       # items of both runs, to look whether they are in order
    POLL_ITEMS = 1024       # merged between two looks whether they are wanted

# Structs: Cython takes another name of an integer type for that type itself.
cdef struct Time:
    uint64_t bits

cdef struct Half:
    uint16_t bits

# As numbers of their size compare, but for these two.
ctypedef fused Key:
    Number
    Half
    Time

# ---- orders -----------------------------------------------------------------

cdef inline bint precedes(Key x, Key y, bint nans) noexcept nogil:
    """nans: whether a float may be one."""
    if Key is float or Key is double:
        return (x < y) | ((x == x) & (y != y)) if nans else x < y
    elif Key is Half:
        return float_key(x.bits) < float_key(y.bits)
    elif Key is Time:
        return time_key(x.bits) < time_key(y.bits)
    else:
        return x < y


cdef int compare_keys(const Key* a, const Key* b, void* arg) noexcept nogil:
    return precedes[Key](b[0], a[0], True) - precedes[Key](a[0], b[0], True)


cdef int compare_bytes(const void* a, const void* b, void* arg) noexcept nogil:
    return memcmp(a, b, <size_t>arg)


cdef int compare_ucs4(const void* a, const void* b, void* arg) noexcept nogil:
    cdef const uint32_t* x = <const uint32_t*>a
    cdef const uint32_t* y = <const uint32_t*>b
    cdef size_t i
    for i in range(<size_t>arg // 4):
        if x[i] != y[i]:
            return -1 if x[i] < y[i] else 1
    return 0


cdef inline int asked(const Order* o, const void* a, const void* b) noexcept nogil:
    """What a user's comparison says: 0, 1, or -1 when it raised."""
    cdef int rc
    if o.form == ORDER_LESS:
        rc = (<int (*)(const void*, const void*, void*) noexcept nogil>o.fn)(a, b, o.arg)
    elif o.form == ORDER_LESS_ALONE:
        rc = (<int (*)(const void*, const void*) noexcept nogil>o.fn)(a, b)
    elif o.form == ORDER_TRUTH:
        rc = (<int8_t (*)(const void*, const void*, void*) noexcept nogil>o.fn)(a, b, o.arg)
    else:
        rc = (<int8_t (*)(const void*, const void*) noexcept nogil>o.fn)(a, b)
    if unlikely(rc == -1) and hooks().is_raised():
        return -1
    return rc != 0


cdef inline int before(const Order* o, const void* a, const void* b) noexcept nogil:
    """Whether a goes before b; -1 when the comparison raised."""
    cdef int rc
    if o.descending:
        a, b = b, a
    if o.form == ORDER_COMPARE:
        rc = (<compare_fn>o.fn)(a, b, o.arg)
        return rc < 0
    return asked(o, a, b)


ctypedef int (*merge_fn)(Worker* w, const Order* o, const char* a, const char* a_end,
                         const char* b, const char* b_end, char* out) noexcept nogil


cdef void order_by(Order* o, OrderForm form, void* fn, void* arg, intptr_t itemsize) noexcept nogil:
    memset(o, 0, sizeof(Order))
    o.form = form
    o.fn = fn
    o.arg = arg
    o.itemsize = itemsize
    o.merge = merge_asking


# ---- two runs into one ------------------------------------------------------

cdef inline void move(char* to, const char* source, intptr_t size) noexcept nogil:
    if size == 8:
        memcpy(to, source, 8)
    elif size == 16:
        memcpy(to, source, 16)
    elif size == 4:
        memcpy(to, source, 4)
    else:
        memcpy(to, source, size)


cdef inline const void* pick(const void* a, const void* b, size_t second) noexcept nogil:
    """Without a branch, which compilers make of anything simpler."""
    return <const void*>(<size_t>a ^ ((<size_t>a ^ <size_t>b) & (0 - second)))


cdef int merge_asking(Worker* w, const Order* o, const char* a, const char* a_end,
                      const char* b, const char* b_end, char* out) noexcept nogil:
    cdef intptr_t size = o.itemsize
    cdef const char* a0 = a
    cdef const char* a1 = a_end
    cdef const char* b0 = b
    cdef const char* b1 = b_end
    cdef char* out0 = out
    cdef char* out1 = out + (a_end - a) + (b_end - b)
    cdef int64_t until, i
    cdef int front, back
    until = min(a1 - a0, b1 - b0)
    if until >= WORTH_A_LOOK * size:
        # Runs that are in order already, one way or the other, are only moved.
        front = before(o, b0, a1 - size)
        if front < 0:
            return -1
        back = before(o, b1 - size, a0) if front else 0
        if back < 0:
            return -1
        if back:
            memcpy(out, b, b_end - b)
            memcpy(out + (b_end - b), a, a_end - a)
            return 0
        if not front:
            memcpy(out, a, a_end - a)
            memcpy(out + (a_end - a), b, b_end - b)
            return 0
    # From both ends at a time, whose steps do not wait for each other: neither run ends
    # before so many were taken at one end.
    while until >= BOTH_ENDS * size:
        until = min(until // size, <int64_t>POLL_ITEMS)
        for i in range(until):
            front = before(o, b0, a0)
            if unlikely(front < 0):
                return -1
            back = before(o, b1 - size, a1 - size)
            if unlikely(back < 0):
                return -1
            # Without a branch: which one goes first is anybody's guess.
            move(out0, <const char*>pick(a0, b0, front), size)
            b0 += size & -<intptr_t>front
            a0 += size & (<intptr_t>front - 1)
            out0 += size
            out1 -= size
            move(out1, <const char*>pick(b1, a1, back) - size, size)
            a1 -= size & -<intptr_t>back
            b1 -= size & (<intptr_t>back - 1)
        if a0 > a1 or b0 > b1:
            # It contradicts itself: the ends have met, and taken something twice.
            return merge_asking_from_front(w, o, a, a_end, b, b_end, out)
        if until == POLL_ITEMS and unlikely(must_stop(w, 0)):
            return -1
        until = min(a1 - a0, b1 - b0)
    return merge_asking_from_front(w, o, a0, a1, b0, b1, out0)


cdef int merge_asking_from_front(Worker* w, const Order* o, const char* a, const char* a_end,
                                 const char* b, const char* b_end, char* out) noexcept nogil:
    cdef intptr_t size = o.itemsize
    cdef int64_t i = 0
    cdef int second
    while a < a_end and b < b_end:
        second = before(o, b, a)
        if unlikely(second < 0):
            return -1
        move(out, <const char*>pick(a, b, second), size)
        b += size & -<intptr_t>second
        a += size & (<intptr_t>second - 1)
        out += size
        i += 1
        if i % POLL_ITEMS == 0 and unlikely(must_stop(w, 0)):
            return -1
    memcpy(out, a, a_end - a)
    memcpy(out + (a_end - a), b, b_end - b)
    return 0


cdef inline void merge_ordered(const Key* a, const Key* a_end, const Key* b, const Key* b_end, Key* out,
                               bint nans) noexcept nogil:
    cdef const Key* a0 = a
    cdef const Key* a1 = a_end
    cdef const Key* b0 = b
    cdef const Key* b1 = b_end
    cdef Key* start = out
    cdef Key* out1 = out + (a_end - a) + (b_end - b)
    cdef int64_t until, i
    cdef size_t front, back
    # From both ends at a time, whose steps do not wait for each other: neither run ends
    # before so many were taken at one end.
    until = min(a1 - a0, b1 - b0)
    while until >= BOTH_ENDS:
        for i in range(until):
            front = precedes[Key](b0[0], a0[0], nans)
            out[i] = (<const Key*>pick(a0, b0, front))[0]
            b0 += front
            a0 += 1 - front
            back = precedes[Key]((b1 - 1)[0], (a1 - 1)[0], nans)
            (out1 - 1 - i)[0] = (<const Key*>pick(b1 - 1, a1 - 1, back))[0]
            a1 -= back
            b1 -= 1 - back
        if a0 > a1 or b0 > b1:
            # They were not sorted: the ends have met, and taken something twice.
            merge_from_front[Key](a, a_end, b, b_end, start, nans)
            return
        out += until
        out1 -= until
        until = min(a1 - a0, b1 - b0)
    merge_from_front[Key](a0, a1, b0, b1, out, nans)


cdef inline void merge_from_front(const Key* a, const Key* a_end, const Key* b, const Key* b_end,
                                  Key* out, bint nans) noexcept nogil:
    cdef int64_t until, i
    cdef size_t second
    while a < a_end and b < b_end:
        until = min(a_end - a, b_end - b)
        for i in range(until):
            second = precedes[Key](b[0], a[0], nans)
            out[i] = (<const Key*>pick(a, b, second))[0]
            b += second
            a += 1 - second
        out += until
    memcpy(out, a, <const char*>a_end - <const char*>a)
    out += a_end - a
    memcpy(out, b, <const char*>b_end - <const char*>b)


cdef int merge_keys(Worker* w, const Order* o, const Key* a, const Key* a_end,
                    const Key* b, const Key* b_end, Key* out) noexcept nogil:
    if Key is float or Key is double:
        # NaNs are last: where the last item is none, comparisons are simple.  Of a run that is not
        # sorted they give some permutation, as with NaNs.
        if (a < a_end and (a_end - 1)[0] == (a_end - 1)[0]
                and b < b_end and (b_end - 1)[0] == (b_end - 1)[0]):
            merge_ordered[Key](a, a_end, b, b_end, out, False)
            return 0
    merge_ordered[Key](a, a_end, b, b_end, out, True)
    return 0


# Each merge is cut into pieces of equal output by co-ranking (Siebert and Traff,
# "Efficient MPI implementation of a parallel, stable merge algorithm", 2012), so that
# no piece depends on the data's skew.

cdef int64_t co_rank(const MergeTwo* t, int64_t k) noexcept nogil:
    """How many of the first k items of the merge are a's; -1 when asking raised."""
    cdef intptr_t size = t.order.itemsize
    cdef int64_t low = k - t.nb if k > t.nb else 0
    cdef int64_t high = k if k < t.na else t.na
    cdef int64_t i
    cdef int second
    while low < high:
        i = (low + high) >> 1
        # Is a[i] among the first k?  It is unless b[k - i - 1] goes before it.
        second = before(t.order, t.b + (k - i - 1) * size, t.a + i * size)
        if second < 0:
            return -1
        if second:
            high = i
        else:
            low = i + 1
    return low


cdef int merge_ranks_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef MergeTwo* t = <MergeTwo*>ctx
    cdef int64_t p, rank
    for p in range(lo, hi):
        rank = co_rank(t, (p + 1) * t.piece)
        if rank < 0:
            return -1
        t.ranks[p + 1] = rank
    return 0


cdef int pieces_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef MergeTwo* t = <MergeTwo*>ctx
    cdef intptr_t size = t.order.itemsize
    cdef int64_t p = lo // t.piece
    cdef int64_t i = t.ranks[p], j = t.ranks[p + 1]
    return t.order.merge(w, t.order, t.a + i * size, t.a + j * size, t.b + (lo - i) * size,
                         t.b + (hi - j) * size, t.out + lo * size)


cdef int merge_two(Worker* w, MergeTwo* t) noexcept nogil:
    cdef int64_t n = t.na + t.nb, least = PIECE, pieces, p, low, high
    cdef int rc
    if t.order.form != ORDER_COMPARE:
        least = USER_PIECE
    t.piece = max(least, (n + MERGE_PIECES - 1) // MERGE_PIECES)
    pieces = (n + t.piece - 1) // t.piece
    t.ranks[0] = 0
    if pieces > 1:
        rc = run_blocks(w, merge_ranks_leaf, t, 16, pieces - 1)
        if rc != 0:
            return rc
    t.ranks[pieces] = t.na
    # Both neighbours of a cut use one rank, and no piece begins behind its end, in a or
    # in b, whatever the comparison said.
    for p in range(1, pieces):
        low = max(t.ranks[p - 1], p * t.piece - t.nb)
        high = min(t.na, t.ranks[p - 1] + t.piece)
        t.ranks[p] = max(low, min(high, t.ranks[p]))
    return run_blocks(w, pieces_leaf, t, t.piece, n)


# ---- sorting a chunk --------------------------------------------------------

cdef int64_t ordered_prefix(const Order* o, const char* items, int64_t n, bint* falling) noexcept nogil:
    """How many items are in order, or each strictly before the last; -1: asking raised."""
    cdef intptr_t size = o.itemsize
    cdef int64_t i = 1
    cdef int first
    falling[0] = False
    while i < n:
        first = before(o, items + i * size, items + (i - 1) * size)
        if first < 0:
            return -1
        if i == 1:
            falling[0] = first
        elif first != falling[0]:
            break
        i += 1
    return i


cdef void reverse(char* items, char* spare, int64_t n, intptr_t size) noexcept nogil:
    cdef char* last = items + (n - 1) * size
    while items < last:
        memcpy(spare, items, size)
        memcpy(items, last, size)
        memcpy(last, spare, size)
        items += size
        last -= size


cdef int insert_runs(const Order* o, char* items, char* spare, int64_t n) noexcept nogil:
    """Each RUN items in order."""
    cdef intptr_t size = o.itemsize
    cdef int64_t i, j
    cdef int first
    cdef char* x
    for i in range(n):
        x = items + i * size
        j = i
        while j & (RUN - 1):
            first = before(o, x, items + (j - 1) * size)
            if first < 0:
                return -1
            if not first:
                break
            j -= 1
        if j < i:
            move(spare, x, size)
            memmove(items + (j + 1) * size, items + j * size, (i - j) * size)
            move(items + j * size, spare, size)
    return 0


cdef int sort_chunk(Worker* w, const Order* o, char* items, char* spare, int64_t n,
                    bint into_spare) noexcept nogil:
    """Stable: insertion sort on short runs, then merges to and fro.  After a failure
    all items are where they were, in some order."""
    cdef intptr_t size = o.itemsize
    cdef int64_t i, j, width = RUN
    cdef bint falling
    cdef char* a = items
    cdef char* b = spare
    cdef int rc
    i = ordered_prefix(o, items, n, &falling)
    if i < 0:
        return -1
    if i == n:
        if falling:
            reverse(items, spare, n, size)
    else:
        if insert_runs(o, items, spare, n) != 0:
            return -1
        while width < n:
            i = 0
            while i < n:
                j = min(i + width, n)
                rc = o.merge(w, o, a + i * size, a + j * size, a + j * size,
                             a + min(i + 2 * width, n) * size, b + i * size)
                if rc != 0:
                    if a != items:
                        memcpy(items, a, n * size)
                    return rc
                i += 2 * width
            a, b = b, a
            width *= 2
            if unlikely(must_stop(w, 0)):
                if a != items:
                    memcpy(items, a, n * size)
                return -1
    if (a == spare) != into_spare:
        memcpy(b, a, n * size)
    return 0


# ---- many rows --------------------------------------------------------------

cdef int merge_rows_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef MergeSort* s = <MergeSort*>ctx
    cdef intptr_t bytes = s.n * s.order.itemsize
    cdef int64_t i
    cdef char* spare = NULL
    cdef int rc = 0
    if s.leaf == NULL:
        spare = <char*>alloc_array(bytes)
        if spare == NULL:
            return ENOMEM
    for i in range(lo, hi):
        if s.dst != s.src:
            memcpy(s.dst + i * bytes, s.src + i * bytes, bytes)
        if s.leaf == NULL:
            rc = sort_chunk(w, &s.order, s.dst + i * bytes, spare, s.n, False)
        elif s.leaf(s.dst + i * bytes, s.n, s.arr) < 0:
            rc = ENOMEM
        if rc != 0:
            break
    free(spare)
    return rc


cdef int sort_rows(Worker* w, MergeSort* s, int64_t rows) noexcept nogil:
    """Each row by itself, one after another in one leaf."""
    if s.n == 0:
        return 0
    # Leaves of some thousand items, so that short rows are not a leaf each.
    return run_blocks(w, merge_rows_leaf, s, 1 + 4096 // (s.n + 1), rows)


# ---- one row ----------------------------------------------------------------
# A perfect binary tree over 2^levels chunks: the leaf sorts a chunk, combining
# merges two neighbours into the other of two buffers, the row itself and a spare one.
# Neither a leaf nor a merge takes items away from where they are before it is done, so
# it is known of each chunk where its items are whenever something fails.

cdef struct Tree:
    MergeSort* sort
    char* spare                         # room for the row
    int levels                          # log2 of the number of chunks
    uint8_t done[1 << MAX_LEVELS]       # of each chunk: levels that are done


cdef inline int64_t chunk_start(const Tree* m, int64_t i) noexcept nogil:
    # n * i may be more than 64 bits hold
    return (m.sort.n >> m.levels) * i + (((m.sort.n & ((1 << m.levels) - 1)) * i) >> m.levels)


cdef inline bint in_spare(const Tree* m, int done) noexcept nogil:
    """Whether items are in the spare buffer: the last level's are not, and what is not
    done at all is in its place."""
    return done > 0 and (m.levels + 1 - done) & 1


cdef inline char* buffer_of(const Tree* m, int done) noexcept nogil:
    return m.spare if in_spare(m, done) else m.sort.dst


cdef int chunk_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Tree* m = <Tree*>ctx
    cdef MergeSort* s = m.sort
    cdef intptr_t size = s.order.itemsize
    cdef int64_t begin = chunk_start(m, lo)
    cdef int64_t n = chunk_start(m, lo + 1) - begin
    cdef char* items = s.dst + begin * size
    cdef char* spare = m.spare + begin * size
    cdef bint into_spare = in_spare(m, 1)
    cdef int rc
    if s.src != s.dst:
        memcpy(items, s.src + begin * size, n * size)
    if s.leaf == NULL:
        rc = sort_chunk(w, &s.order, items, spare, n, into_spare)
        if rc != 0:
            return rc
    else:
        if s.leaf(items, n, s.arr) < 0:
            return ENOMEM
        if into_spare:
            memcpy(spare, items, n * size)
    m.done[lo] = 1
    return 0


cdef int merge_chunks(Worker* w, void* ctx, int64_t lo, int64_t mid, int64_t hi) noexcept nogil:
    cdef Tree* m = <Tree*>ctx
    cdef intptr_t size = m.sort.order.itemsize
    cdef MergeTwo t
    cdef int done = 1, rc
    cdef int64_t begin = chunk_start(m, lo)
    while (1 << done) < hi - lo:
        done += 1
    # Behind a failure the tree may have gaps.
    if m.done[lo] != done or m.done[mid] != done:
        return 0
    t.order = &m.sort.order
    t.na = chunk_start(m, mid) - begin
    t.nb = chunk_start(m, hi) - begin - t.na
    t.a = buffer_of(m, done) + begin * size
    t.b = t.a + t.na * size
    t.out = buffer_of(m, done + 1) + begin * size
    rc = merge_two(w, &t)
    if rc == 0:
        memset(m.done + lo, done + 1, hi - lo)
    return rc


cdef void bring_back(Tree* m) noexcept nogil:
    """All items into the row, after a failure."""
    cdef intptr_t size = m.sort.order.itemsize
    cdef int64_t i, begin
    for i in range(1 << m.levels):
        if in_spare(m, m.done[i]):
            begin = chunk_start(m, i)
            memcpy(m.sort.dst + begin * size, m.spare + begin * size,
                   (chunk_start(m, i + 1) - begin) * size)


cdef int merge_sort(Worker* w, MergeSort* s) noexcept nogil:
    cdef Tree m
    cdef int64_t chunk = CHUNK if s.leaf == NULL else LEAF_CHUNK
    cdef int rc
    m.sort = s
    m.levels = 0
    while m.levels < MAX_LEVELS and (s.n >> m.levels) > chunk:
        m.levels += 1
    memset(m.done, 0, 1 << m.levels)
    m.spare = <char*>alloc_array(max(s.n * s.order.itemsize, <int64_t>1))
    if m.spare == NULL:
        return ENOMEM
    rc = combine_blocks(w, chunk_leaf, merge_chunks, &m, 1, 1 << m.levels)
    if rc != 0 and s.src == s.dst:
        bring_back(&m)
    free(m.spare)
    return rc


# ---- whether a row is sorted ------------------------------------------------

cdef enum:
    FIRST_LOOK = 256        # pairs of a leaf's first call, which may be the last one
    LOOK = 2048             # and of the others: a call takes 10 ns beside them
    SORTED_PIECE = 16384    # pairs of a leaf

cdef struct Looking:
    IsSorted* s
    Bridge bridge
    atomic_u32 found        # whether a pair is out of order


cdef inline int64_t is_lower(uint64_t x, uint64_t y) noexcept nogil:
    """Whether x < y, by what vectors of every processor can do."""
    return ((~x & y) | (~(x ^ y) & (x - y))) >> 63


cdef inline int64_t wrong(Key x, Key y, bint descending, bint strict) noexcept nogil:
    """Whether y does not belong behind x."""
    cdef uint16_t half_x, half_y
    cdef uint64_t time_x, time_y
    if Key is float or Key is double:
        # Anything may stand in front of a NaN, except, if strict, another NaN.
        if y != y:
            return strict and x != x
        if descending:
            x, y = -x, -y
        return not x < y if strict else not x <= y
    elif Key is Half:
        half_x, half_y = float_key(x.bits), float_key(y.bits)
        if descending:
            half_x = turned(half_x, last_key(KEY_FLOAT, half_x))
            half_y = turned(half_y, last_key(KEY_FLOAT, half_y))
        return half_x >= half_y if strict else half_x > half_y
    elif Key is Time:
        time_x, time_y = time_key(x.bits), time_key(y.bits)
        if descending:
            time_x = turned(time_x, last_key(KEY_TIME, time_x))
            time_y = turned(time_y, last_key(KEY_TIME, time_y))
        return 1 - is_lower(time_x, time_y) if strict else is_lower(time_y, time_x)
    else:
        if descending:
            x, y = y, x
        return not x < y if strict else y < x


cdef inline bint any_wrong(const Key* x, const Key* y, int64_t n, bint descending, bint strict) noexcept nogil:
    """What is summed up is as wide as the keys, for vectors."""
    cdef int64_t wide = 0
    cdef int narrow = 0
    cdef int64_t i
    for i in range(n):
        if sizeof(Key) == 8:
            wide |= wrong[Key](x[i], y[i], descending, strict)
        else:
            narrow |= <int>wrong[Key](x[i], y[i], descending, strict)
    return wide != 0 or narrow != 0


cdef int look_keys(const IsSorted* s, const Key* x, const Key* y, int64_t n) noexcept nogil:
    cdef int64_t i
    if Key is float or Key is double:
        if Key is float:
            if not simd.doubtful_floats(x, y, n, s.descending, s.strict):
                return 0
        elif not simd.doubtful_doubles(x, y, n, s.descending, s.strict):
            return 0
        # There may be NaNs.
        for i in range(n):
            if wrong[Key](x[i], y[i], s.descending, s.strict):
                return 1
        return 0
    elif Key is int64_t:
        return simd.doubtful_signed(x, y, n, s.descending, s.strict)
    elif Key is uint64_t:
        return simd.doubtful_unsigned(x, y, n, s.descending, s.strict)
    else:
        # Loops without what is known before them.
        if s.descending:
            if s.strict:
                return any_wrong[Key](x, y, n, True, True)
            return any_wrong[Key](x, y, n, True, False)
        if s.strict:
            return any_wrong[Key](x, y, n, False, True)
        return any_wrong[Key](x, y, n, False, False)


cdef int look_asking(const IsSorted* s, const char* x, const char* y, int64_t n) noexcept nogil:
    cdef intptr_t size = s.order.itemsize
    cdef int64_t i
    cdef int c
    for i in range(n):
        c = (<compare_fn>s.order.fn)(x + i * size, y + i * size, s.order.arg)
        if s.descending:
            c = -1 if c > 0 else c < 0
        if c > 0 or (c == 0 and s.strict):
            return 1
    return 0


cdef int sorted_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Looking* l = <Looking*>ctx
    cdef IsSorted* s = l.s
    cdef intptr_t size = s.order.itemsize
    cdef int64_t pairs = (s.n - 1) * s.stride       # of a row
    cdef int64_t until, look = FIRST_LOOK
    cdef const char* x
    while lo < hi:
        x = s.row + (lo // pairs * s.n * s.stride + lo % pairs) * size
        until = min(min(look, hi - lo), pairs - lo % pairs)
        look = LOOK
        if s.look(s, x, x + s.stride * size, until):
            # relaxed: read after the join
            u32_store_relaxed(&l.found, 1)
            bridge_limit(&l.bridge, 0)
            return 0
        lo += until
    return 0


cdef int is_sorted(Worker* w, IsSorted* s) noexcept nogil:
    cdef Looking l
    cdef int rc
    s.found = False
    if s.n < 2 or s.rows == 0 or s.stride == 0:
        return 0
    l.s = s
    u32_store_relaxed(&l.found, 0)
    s.look = look_of(s.order)
    bridge_init(&l.bridge, sorted_leaf, NULL, &l, SORTED_PIECE)
    rc = bridge_run(w, &l.bridge, s.rows * (s.n - 1) * s.stride)
    s.found = u32_load_relaxed(&l.found)
    return rc


# ---- the known types --------------------------------------------------------

ctypedef int (*look_fn)(const IsSorted* s, const char* x, const char* y, int64_t n) noexcept nogil

cdef struct Known:
    compare_fn compare
    merge_fn merge
    look_fn look

# [kind: i u f m][log2 of the size]
cdef Known known[4][4]
known[0][0] = Known(<compare_fn>(compare_keys[int8_t]), <merge_fn>(merge_keys[int8_t]),
                    <look_fn>(look_keys[int8_t]))
known[0][1] = Known(<compare_fn>(compare_keys[int16_t]), <merge_fn>(merge_keys[int16_t]),
                    <look_fn>(look_keys[int16_t]))
known[0][2] = Known(<compare_fn>(compare_keys[int32_t]), <merge_fn>(merge_keys[int32_t]),
                    <look_fn>(look_keys[int32_t]))
known[0][3] = Known(<compare_fn>(compare_keys[int64_t]), <merge_fn>(merge_keys[int64_t]),
                    <look_fn>(look_keys[int64_t]))
known[1][0] = Known(<compare_fn>(compare_keys[uint8_t]), <merge_fn>(merge_keys[uint8_t]),
                    <look_fn>(look_keys[uint8_t]))
known[1][1] = Known(<compare_fn>(compare_keys[uint16_t]), <merge_fn>(merge_keys[uint16_t]),
                    <look_fn>(look_keys[uint16_t]))
known[1][2] = Known(<compare_fn>(compare_keys[uint32_t]), <merge_fn>(merge_keys[uint32_t]),
                    <look_fn>(look_keys[uint32_t]))
known[1][3] = Known(<compare_fn>(compare_keys[uint64_t]), <merge_fn>(merge_keys[uint64_t]),
                    <look_fn>(look_keys[uint64_t]))
known[2][1] = Known(<compare_fn>(compare_keys[Half]), <merge_fn>(merge_keys[Half]),
                    <look_fn>(look_keys[Half]))
known[2][2] = Known(<compare_fn>(compare_keys[float]), <merge_fn>(merge_keys[float]),
                    <look_fn>(look_keys[float]))
known[2][3] = Known(<compare_fn>(compare_keys[double]), <merge_fn>(merge_keys[double]),
                    <look_fn>(look_keys[double]))
known[3][3] = Known(<compare_fn>(compare_keys[Time]), <merge_fn>(merge_keys[Time]),
                    <look_fn>(look_keys[Time]))


cdef bint order_numbers(Order* o, char kind, intptr_t itemsize) noexcept nogil:
    cdef int row = 0, column = 0
    if kind == b"b":
        kind = b"u"
    elif kind == b"M":
        kind = b"m"
    while row < 4 and kind != b"iufm"[row]:
        row += 1
    while column < 4 and itemsize != 1 << column:
        column += 1
    if row == 4 or column == 4 or known[row][column].merge == NULL:
        return False
    order_by(o, ORDER_COMPARE, <void*>known[row][column].compare, NULL, itemsize)
    o.merge = known[row][column].merge
    return True


cdef look_fn look_of(const Order* o) noexcept nogil:
    """The loop that goes with the order of a known type, or one by comparing."""
    cdef int row, column
    for row in range(4):
        for column in range(4):
            if known[row][column].merge != NULL and o.merge == known[row][column].merge:
                return known[row][column].look
    return <look_fn>look_asking
