"""Others' sorts, shared; see sorts.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from pyblitz.kernels.argsort cimport Field, sort_order
from pyblitz.kernels.blocks cimport copy_shared, run_blocks, sort_fn
from pyblitz.kernels.keys cimport NumberSort, sort_keys
from pyblitz.kernels.loops cimport enter_to_end
from pyblitz.kernels.numbers cimport (
    KEY_FLOAT, FloatBits, KeyKind, infinity, sign_bit, usual_nan)
from pyblitz.kernels.radix cimport log2_of
from pyblitz.runtime.atomic cimport (
    atomic_i64, atomic_u32, i64_fetch_add_relaxed, i64_load_relaxed, i64_store_relaxed, u32_load_relaxed,
    u32_store_relaxed)
from pyblitz.runtime.os cimport alloc_array, now_ns
from pyblitz.runtime.pool cimport Worker

cdef extern from "pyblitz/kernels/sort_stand_ins.h" nogil:
    SharedSort* pb_sorts
    const sort_fn* pb_sort_fns
    const table_argsort_fn* pb_argsort_fns
    int (*pb_sort_shared)(SharedSort*, void*, intptr_t, void*) noexcept nogil
    int (*pb_argsort_shared)(SharedSort*, void*, intptr_t*, intptr_t, void*) noexcept nogil

cdef enum:
    # Of fewer items a sort with vector instructions is tried first.
    SIMD_ITEMS = 1 << 20
    # So many calls find out what the two ways take.
    TRIES = 4
    # One call in so many tries the slower way again: the data may have changed.
    AGAIN = 64
    # Unless it is slower by far.
    MUCH = 4
    SCAN_ITEMS = 65536

cdef bint sorts_forced = False


cdef void sorts_init() noexcept nogil:
    global pb_sort_shared, pb_argsort_shared
    pb_sort_shared = shared_sort
    pb_argsort_shared = shared_argsort


cdef SharedSort* sort_at(int k) noexcept nogil:
    return &pb_sorts[k]


cdef sort_fn sort_stand_in(int k) noexcept nogil:
    return pb_sort_fns[k]


cdef table_argsort_fn argsort_stand_in(int k) noexcept nogil:
    return pb_argsort_fns[k]


cdef void sorts_force(bint always) noexcept nogil:
    global sorts_forced
    sorts_forced = always


# ---- which way ---------------------------------------------------------------

cdef bint ours_first(Pace* p, bint simd, int64_t n) noexcept nogil:
    """Which way to take now.  relaxed, all: any recent number is as good as another."""
    cdef int64_t calls = i64_fetch_add_relaxed(&p.calls, 1)
    cdef int64_t ours = i64_load_relaxed(&p.ours)
    cdef int64_t theirs = i64_load_relaxed(&p.theirs)
    if sorts_forced:
        return True
    if calls < TRIES:
        # In turn.
        return (calls & 1) == (simd and n < SIMD_ITEMS)
    if calls % AGAIN == AGAIN - 1 and max(ours, theirs) < MUCH * min(ours, theirs):
        return ours > theirs
    return ours <= theirs


cdef void note_sort_pace(Pace* p, bint ours, int64_t took, int64_t n) noexcept nogil:
    cdef atomic_i64* kept = &p.ours if ours else &p.theirs
    cdef int64_t pace = max(took * 1000 // n, 1)
    cdef int64_t before = i64_load_relaxed(kept)
    # One call may have been disturbed, and the first one finds threads asleep.
    if before != 0 and pace > before:
        pace = before + (pace - before) // 8
    i64_store_relaxed(kept, pace)


# ---- sorts -------------------------------------------------------------------

cdef struct SortCall:
    SharedSort* sort
    char* items             # what is sorted, in place
    char* sorted            # the result, before it is copied back
    intptr_t n              # the number of items
    intptr_t* order         # where indices go
    uint8_t* begins         # of an order that must have no ties; else NULL
    atomic_u32 seen         # equal items that differ in their bits


cdef inline bint differ(const FloatBits* items, int64_t n) noexcept nogil:
    """Whether there may be equal items with other bits: zeros less than zero, or
    NaNs but the usual one."""
    cdef FloatBits minus = sign_bit(items[0]), inf = infinity(items[0]), usual = usual_nan(items[0])
    cdef FloatBits x
    cdef bint found = False
    cdef int64_t i
    for i in range(n):
        x = items[i]
        found |= x == minus
        found |= (x & ~minus) > inf and x != usual
    return found


cdef int differ_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef SortCall* c = <SortCall*>ctx
    cdef bint found
    if c.sort.size == 8:
        found = differ(<const uint64_t*>c.items + lo, hi - lo)
    elif c.sort.size == 4:
        found = differ(<const uint32_t*>c.items + lo, hi - lo)
    else:
        found = differ(<const uint16_t*>c.items + lo, hi - lo)
    if found:
        # relaxed: read after the join
        u32_store_relaxed(&c.seen, 1)
    return 0


cdef int run_sort(Worker* w, void* ctx) noexcept nogil:
    """Returns 0.  With any other result the items are where they were."""
    cdef SortCall* c = <SortCall*>ctx
    cdef NumberSort k
    cdef int rc
    if c.sort.kind == KEY_FLOAT and (not c.sort.stable or c.sort.size == 2):
        run_blocks(w, differ_leaf, c, SCAN_ITEMS, c.n)
        if u32_load_relaxed(&c.seen):
            return 1
    # A sort in place moves everything once more.
    c.sorted = <char*>alloc_array(c.n * c.sort.size)
    if c.sorted == NULL:
        return 1
    k.src = c.items
    k.dst = c.sorted
    k.n = c.n
    k.itemsize = c.sort.size
    k.kind = <KeyKind>c.sort.kind
    k.descending = False
    k.stable = c.sort.stable
    rc = sort_keys(w, &k)
    if rc == 0:
        copy_shared(w, c.items, c.sorted, c.n * c.sort.size)
    free(c.sorted)
    return rc


cdef int shared_sort(SharedSort* s, void* items, intptr_t n, void* arr) noexcept nogil:
    cdef Pace* p = &s.sorts[log2_of(n)]
    cdef SortCall c
    cdef int64_t began
    cdef bint ran = False, ours
    cdef int rc = 0
    # relaxed: a statistic
    i64_fetch_add_relaxed(&s.calls, 1)
    ours = ours_first(p, s.simd, n)
    began = now_ns()
    if ours:
        c.sort = s
        c.items = <char*>items
        c.n = n
        u32_store_relaxed(&c.seen, 0)
        ours = enter_to_end(run_sort, &c, &ran) == 0 and ran
        if ours:
            i64_fetch_add_relaxed(&s.shared, 1)
        else:
            rc = s.sort(items, n, arr)
        note_sort_pace(p, True, now_ns() - began, n)
        return rc
    rc = s.sort(items, n, arr)
    note_sort_pace(p, False, now_ns() - began, n)
    return rc


# ---- orders ------------------------------------------------------------------

cdef int equal_neighbours_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef SortCall* c = <SortCall*>ctx
    cdef uint8_t all_begin = 1
    cdef int64_t i
    for i in range(lo, hi):
        all_begin &= c.begins[i]
    if not all_begin:
        u32_store_relaxed(&c.seen, 1)
    return 0


cdef int run_argsort(Worker* w, void* ctx) noexcept nogil:
    """0; or else the order is to be made anew."""
    cdef SortCall* c = <SortCall*>ctx
    cdef Field f
    cdef int rc
    f.base = c.items
    f.step = c.sort.size
    f.pitch = 0
    f.kind = <KeyKind>c.sort.kind
    f.size = c.sort.size
    f.descending = False
    rc = sort_order(w, &f, 1, c.n, <int64_t*>c.order, c.begins)
    if rc == 0 and c.begins != NULL:
        run_blocks(w, equal_neighbours_leaf, c, SCAN_ITEMS, c.n)
        rc = u32_load_relaxed(&c.seen)
    return rc


cdef bint is_identity(const intptr_t* order, intptr_t n) noexcept nogil:
    """Whether each index is where it began."""
    cdef intptr_t i
    cdef bint so = True
    for i in range(n):
        so &= order[i] == i
    return so


cdef int shared_argsort(SharedSort* s, void* items, intptr_t* order, intptr_t n, void* arr) noexcept nogil:
    cdef Pace* p = &s.argsorts[log2_of(n)]
    cdef SortCall c
    cdef int64_t began
    cdef intptr_t i
    cdef bint ran = False, ours
    cdef int rc
    i64_fetch_add_relaxed(&s.calls, 1)
    ours = ours_first(p, False, n)
    began = now_ns()
    if ours and is_identity(order, n):
        c.sort = s
        c.items = <char*>items
        c.n = n
        c.order = order
        # Which of two equal items comes first is this sort's own affair: without ties, nobody's.
        c.begins = NULL if s.stable else <uint8_t*>malloc(n)
        u32_store_relaxed(&c.seen, 0)
        if s.stable or c.begins != NULL:
            ours = enter_to_end(run_argsort, &c, &ran) == 0 and ran
            free(c.begins)
            if ours:
                i64_fetch_add_relaxed(&s.shared, 1)
                note_sort_pace(p, True, now_ns() - began, n)
                return 0
            for i in range(n):
                order[i] = i
    rc = s.argsort(items, order, n, arr)
    # If our way began and gave up, this counts as its time: to try costs so much.
    note_sort_pace(p, ran, now_ns() - began, n)
    return rc
