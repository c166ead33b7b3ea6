"""Selection: a three-way split of a row around two of its values, or of rows around one of their
positions, and the first items of short rows.  No Python, no NumPy.

What each gives depends on the data alone, never on the number of threads.
"""
from libc.stdint cimport int64_t, intptr_t, uint64_t
from pyblitz.kernels.numbers cimport KeyKind
from pyblitz.runtime.atomic cimport atomic_u32
from pyblitz.runtime.pool cimport Worker

# Copies `samples` items of 4 or 8 bytes, one from each of as many stretches of the row.  Which ones
# depends on n and samples alone.
cdef void split_sample(const char* src, intptr_t itemsize, int64_t n, int64_t samples,
                       char* out) noexcept nogil

cdef enum:
    ALL_BUT_SURE = 4        # standard deviations

# Ranks in a sample between which the k-th item is, if it is no more standard deviations of a binomial
# distribution away; first may be less than 0, and last not less than `samples`.  Returns its likeliest
# rank, which is one of the sample's.
cdef int64_t ranks_around(int64_t k, int64_t n, int64_t samples, int deviations, int64_t* first,
                          int64_t* last) noexcept nogil

cdef struct Split:
    KeyKind kind
    intptr_t itemsize   # 4 or 8
    const char* src     # [n]
    int64_t n
    uint64_t low        # two keys; see split_between
    uint64_t high
    # [split_blocks(n) + 1][3], to be filled: the last row is where the thirds end.
    int64_t* counts
    # Where the items are put, or their indices: first those less than low, then those from
    # low to high, then the greater ones.  Each third keeps its order, but for what goes inwards.
    char* dst
    bint indices        # whether it is their indices
    bint inwards        # for items, by vectors: whether the last third goes from its end on
    # A result: whether another thread has changed items since they were counted.
    # Then nothing was written out of bounds, but not everything was written.
    atomic_u32 changed

cdef int64_t split_blocks(int64_t n) noexcept nogil
# Around two values, low <= high, neither NaN; kind and itemsize are set.
cdef void split_between(Split* s, const char* low, const char* high) noexcept nogil
# 0, ENOMEM, or -1 with an exception set.
cdef int split_run(Worker* w, Split* s) noexcept nogil

cdef struct Parts:
    const char* src     # [rows][n]: 4 or 8 bytes each
    int64_t rows
    int64_t n           # 1 or more
    intptr_t itemsize
    KeyKind kind
    int64_t k           # 0 .. n - 1
    bint indices        # whether indices in the row are written, as int64; else the items
    # [rows][n], to be filled: first the items less than the k-th of their row, then those equal to it,
    # then the greater ones.  Indices keep their order in each part; in which order items are, n and they
    # decide.
    char* out
    int64_t* equals     # [2], to be filled: where the second part of an only row begins and ends; or NULL

# Each row by one thread, but the items of an only row by all; for processors with vectors (simd.sort_wide).
# 0, or what stopped it.
cdef int parts_run(Worker* w, Parts* p) noexcept nogil

cdef struct First:
    const char* src     # [rows][n]: 1, 2, 4 or 8 bytes each
    int64_t n
    int64_t k           # 1 .. n
    intptr_t itemsize
    KeyKind kind
    bint greatest       # finds the greatest items, from the greatest down
    int64_t* out        # [rows][k]: the items' indices in their row

# Finds the k least (or greatest) items of each row, in sorted order; of equal items, the
# first ones.  A NaN is neither less nor greater than any item: it is never taken while
# there is a number.
cdef int first_run(Worker* w, First* f, int64_t rows) noexcept nogil
