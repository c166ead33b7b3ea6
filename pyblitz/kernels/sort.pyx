"""Parallel sorts; see sort.pxd."""
from libc.errno cimport ENOMEM
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from pyblitz.kernels.radix cimport bridged


# ---- many rows --------------------------------------------------------------

cdef int rows_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Sort* s = <Sort*>ctx
    cdef intptr_t bytes = s.n * s.itemsize
    cdef int64_t i
    for i in range(lo, hi):
        if s.dst != s.src:
            memcpy(s.dst + i * bytes, s.src + i * bytes, bytes)
        if sort_chunk(s, s.dst + i * bytes, s.n) != 0:
            return ENOMEM
    return 0


cdef int sort_rows(Worker* w, Sort* s, int64_t rows) noexcept nogil:
    """Each row by itself, one after another in one leaf."""
    # Leaves of some thousand items, so that short rows are not a leaf each.
    return bridged(w, rows_leaf, NULL, s, 1 + 4096 // (s.n + 1), rows)


# ---- merge ------------------------------------------------------------------
# A perfect binary tree over 2^levels chunks: the leaf sorts a chunk, combining
# merges two neighbours into the other of two buffers.  Each merge is cut into
# pieces of equal output by co-ranking (Siebert and Traff, "Efficient MPI
# implementation of a parallel, stable merge algorithm", 2012), so that no piece
# depends on the data's skew.

cdef enum:
    MERGE_PIECE = 32768     # items
    MAX_LEVELS = 4

cdef struct Merge:
    Sort* sort
    char* scratch
    int levels

cdef struct MergeTwo:
    Sort* sort
    const char* a
    const char* b
    int64_t na
    int64_t nb
    char* out


cdef inline int64_t chunk_start(const Merge* m, int64_t i) noexcept nogil:
    return (m.sort.n * i) >> m.levels


cdef inline char* buffer_of(const Merge* m, int level) noexcept nogil:
    """Where the result of a level is: the last one's is dst."""
    return m.sort.dst if (m.levels - level) & 1 == 0 else m.scratch


cdef inline void move(char* to, const char* source, intptr_t size) noexcept nogil:
    if size == 16:
        memcpy(to, source, 16)
    elif size == 8:
        memcpy(to, source, 8)
    else:
        memcpy(to, source, size)


cdef void merge_into(const Sort* s, const char* a, const char* a_end, const char* b,
                     const char* b_end, char* out) noexcept nogil:
    """Stable: of equal items, a's come first."""
    cdef intptr_t size = s.itemsize
    while a < a_end and b < b_end:
        if s.compare(b, a, s.arr) < 0:
            move(out, b, size)
            b += size
        else:
            move(out, a, size)
            a += size
        out += size
    memcpy(out, a, a_end - a)
    memcpy(out + (a_end - a), b, b_end - b)


cdef int sort_by_comparing(const Sort* s, char* items, int64_t n) noexcept nogil:
    """Stable, for types that have no leaf: insertion sort on short runs, then
    merges."""
    cdef intptr_t size = s.itemsize
    cdef char* other = <char*>malloc(n * size)
    cdef char* x
    cdef int64_t i, j, width = 8
    cdef char* a = items
    cdef char* b = other
    if other == NULL:
        return ENOMEM
    for i in range(n):
        # `other` is free: its first item holds the one that is moved
        x = items + i * size
        j = i
        while j & (width - 1) and s.compare(x, items + (j - 1) * size, s.arr) < 0:
            j -= 1
        if j < i:
            memcpy(other, x, size)
            while i > j:
                memcpy(items + i * size, items + (i - 1) * size, size)
                i -= 1
            memcpy(items + j * size, other, size)
    while width < n:
        i = 0
        while i < n:
            j = min(i + width, n)
            merge_into(s, a + i * size, a + j * size, a + j * size,
                       a + min(i + 2 * width, n) * size, b + i * size)
            i += 2 * width
        a, b = b, a
        width *= 2
    if a != items:
        memcpy(items, a, n * size)
    free(other)
    return 0


cdef inline int sort_chunk(const Sort* s, char* items, int64_t n) noexcept nogil:
    if s.leaf == NULL:
        return sort_by_comparing(s, items, n)
    return ENOMEM if s.leaf(items, n, s.arr) < 0 else 0


cdef int chunk_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Merge* m = <Merge*>ctx
    cdef Sort* s = m.sort
    cdef int64_t begin = chunk_start(m, lo) * s.itemsize
    cdef int64_t end = chunk_start(m, lo + 1) * s.itemsize
    cdef char* to = buffer_of(m, 0) + begin
    if to != s.src + begin:
        memcpy(to, s.src + begin, end - begin)
    return sort_chunk(s, to, (end - begin) // s.itemsize)


cdef int64_t co_rank(const MergeTwo* t, int64_t k) noexcept nogil:
    """How many of the first k items of the merge are a's."""
    cdef intptr_t size = t.sort.itemsize
    cdef int64_t low = k - t.nb if k > t.nb else 0
    cdef int64_t high = k if k < t.na else t.na
    cdef int64_t i
    while low < high:
        i = (low + high) >> 1
        # Is a[i] among the first k?  It is unless b[k - i - 1] goes before it.
        if t.sort.compare(t.b + (k - i - 1) * size, t.a + i * size, t.sort.arr) < 0:
            high = i
        else:
            low = i + 1
    return low


cdef int piece_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef MergeTwo* t = <MergeTwo*>ctx
    cdef intptr_t size = t.sort.itemsize
    cdef int64_t i = co_rank(t, lo)
    cdef int64_t j = co_rank(t, hi)
    merge_into(t.sort, t.a + i * size, t.a + j * size, t.b + (lo - i) * size,
               t.b + (hi - j) * size, t.out + lo * size)
    return 0


cdef int merge_combine(Worker* w, void* ctx, int64_t lo, int64_t mid, int64_t hi) noexcept nogil:
    cdef Merge* m = <Merge*>ctx
    cdef MergeTwo t
    cdef int level = 0
    cdef int64_t begin = chunk_start(m, lo)
    while (1 << level) < hi - lo:
        level += 1
    t.sort = m.sort
    t.na = chunk_start(m, mid) - begin
    t.nb = chunk_start(m, hi) - begin - t.na
    t.a = buffer_of(m, level - 1) + begin * m.sort.itemsize
    t.b = t.a + t.na * m.sort.itemsize
    t.out = buffer_of(m, level) + begin * m.sort.itemsize
    return bridged(w, piece_leaf, NULL, &t, MERGE_PIECE, t.na + t.nb)


cdef int merge_sort(Worker* w, Sort* s) noexcept nogil:
    """With n items of extra memory; src may be dst."""
    cdef Merge m
    cdef int rc
    m.sort = s
    m.levels = 1
    while m.levels < MAX_LEVELS and (s.n >> m.levels) > SORT_MIN_ITEMS:
        m.levels += 1
    m.scratch = <char*>malloc(s.n * s.itemsize)
    if m.scratch == NULL:
        return ENOMEM
    rc = bridged(w, chunk_leaf, merge_combine, &m, 1, 1 << m.levels)
    free(m.scratch)
    return rc
