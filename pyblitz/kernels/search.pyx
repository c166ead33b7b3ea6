"""Binary searches; see search.pxd."""
from libc.stdint cimport int32_t, uint32_t, uint64_t
from pyblitz.kernels.blocks cimport run_blocks
from pyblitz.kernels.numbers cimport (
    NUMBER_F32, NUMBER_F64, NUMBER_I32, NUMBER_I64, NUMBER_U32, NUMBER_U64, Wide)
from pyblitz.kernels.prefetch cimport prefetch

cdef enum:
    # Keys that are searched together: as many as misses of one core overlap.
    LANES = 16
    LEAF_KEYS = 2048

cdef inline int64_t is_before(Wide item, Wide key, bint right) noexcept nogil:
    return item <= key if right else item < key


cdef inline void search_lanes(const Wide* row, int64_t n, const Wide* keys, int64_t* out,
                              int lanes, bint right) noexcept nogil:
    """n > 0."""
    cdef const Wide* base[LANES]
    cdef int64_t half
    cdef int k
    for k in range(lanes):
        base[k] = row
    while n > 1:
        half = n >> 1
        n -= half
        for k in range(lanes):
            # A mask, so that no compiler makes a branch of it.
            base[k] += half & -is_before(base[k][half - 1], keys[k], right)
            prefetch(base[k] + ((n >> 1) - 1 if n > 1 else 0))
    for k in range(lanes):
        out[k] = (base[k] - row) + is_before(base[k][0], keys[k], right)


cdef inline void search_keys(const SortedSearch* s, const Wide* row, const Wide* keys, int64_t n,
                             int64_t* out, bint right) noexcept nogil:
    cdef int64_t i = 0
    if s.numbers > 0:
        while i + LANES <= n:
            search_lanes(row, s.numbers, keys + i, out + i, LANES, right)
            i += LANES
        while i < n:
            search_lanes(row, s.numbers, keys + i, out + i, 1, right)
            i += 1
    else:
        for i in range(n):
            out[i] = 0
    if Wide is float or Wide is double:
        for i in range(n):
            if keys[i] != keys[i]:
                out[i] = s.n if right else s.numbers


cdef void search_typed(const SortedSearch* s, const Wide* row, int64_t lo, int64_t hi,
                       int64_t* out) noexcept nogil:
    if s.right:
        search_keys(s, row, <const Wide*>s.keys + lo, hi - lo, out, True)
    else:
        search_keys(s, row, <const Wide*>s.keys + lo, hi - lo, out, False)


cdef void search_block(const SortedSearch* s, int64_t lo, int64_t hi, int64_t* out) noexcept nogil:
    if s.kind == NUMBER_I32:
        search_typed(s, <const int32_t*>s.row, lo, hi, out)
    elif s.kind == NUMBER_U32:
        search_typed(s, <const uint32_t*>s.row, lo, hi, out)
    elif s.kind == NUMBER_I64:
        search_typed(s, <const int64_t*>s.row, lo, hi, out)
    elif s.kind == NUMBER_U64:
        search_typed(s, <const uint64_t*>s.row, lo, hi, out)
    elif s.kind == NUMBER_F32:
        search_typed(s, <const float*>s.row, lo, hi, out)
    else:
        search_typed(s, <const double*>s.row, lo, hi, out)


cdef int64_t count_numbers(Wide* row, int64_t n) noexcept nogil:
    """Items before the NaNs at the end."""
    cdef int64_t lo = 0, mid
    while lo < n:
        mid = (lo + n) >> 1
        if row[mid] == row[mid]:
            lo = mid + 1
        else:
            n = mid
    return lo


cdef void search_prepare(SortedSearch* s) noexcept nogil:
    if s.kind == NUMBER_F32:
        s.numbers = count_numbers(<float*>s.row, s.n)
    elif s.kind == NUMBER_F64:
        s.numbers = count_numbers(<double*>s.row, s.n)
    else:
        s.numbers = s.n


cdef int search_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef SortedSearch* s = <SortedSearch*>ctx
    search_block(s, lo, hi, s.out + lo)
    return 0


cdef int search_run(Worker* w, SortedSearch* s) noexcept nogil:
    search_prepare(s)
    return run_blocks(w, search_leaf, s, LEAF_KEYS, s.count)
