"""Functions that a user's Cython module would offer in its ``__pyx_capi__``."""
from libc.stdint cimport int64_t, intptr_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
cimport pyblitz.arrays.partition as partition
from pyblitz.kernels.blocks cimport copy_bytes, sort_fn
from pyblitz.kernels.map cimport map_grain, pace_after
from pyblitz.kernels.reduce cimport block_items
from pyblitz.kernels.radix cimport set_paces
from pyblitz.kernels.simd.levels cimport NarrowSplitters, SortCheck, WideSplitters, simd
from pyblitz.runtime.atomic cimport atomic_i64, i64_fetch_add_relaxed

cdef extern from *:
    """
    #include "pyblitz/kernels/simd/kernels.h"
    #if defined(PB_X86)
    #define few_pivots_narrow(...) pb_narrow_v3_sort_some(__VA_ARGS__, NULL)
    #define few_pivots_wide(...) pb_wide_v3_sort_some(__VA_ARGS__, NULL)
    #define control() __builtin_ia32_stmxcsr()
    #define set_control(bits) __builtin_ia32_ldmxcsr(bits)
    #else
    static void few_pivots_narrow(uint32_t *words, int64_t n, int pivots, uint64_t *state) {}
    static void few_pivots_wide(uint64_t *words, int64_t n, int pivots, uint64_t *state) {}
    #define control() 0
    #define set_control(bits) ((void)(bits))
    #endif
    """
    unsigned int control()
    void set_control(unsigned int bits)
    void prepare_orders "pb_prepare_orders"()
    void sort_some_narrow "few_pivots_narrow"(uint32_t* words, int64_t n, int pivots,
                                              uint64_t* state) nogil
    void sort_some_wide "few_pivots_wide"(uint64_t* words, int64_t n, int pivots,
                                          uint64_t* state) nogil


cdef api double half(double x) noexcept nogil:
    return x / 2


cdef api double complex turn(double complex x) noexcept nogil:
    return x * 1j


cdef api void weighted(const double* a, const double* b, double* o, Py_ssize_t n,
                       void* user) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        o[i] = a[i] + (<double*>user)[0] * b[i]


cdef api int raise_at_seven(Py_ssize_t lo, Py_ssize_t hi) except? -1 nogil:
    if lo <= 7 < hi:
        with gil:
            raise KeyError(7)
    return 0


cdef api int less_of_doubles(const double* a, const double* b, void* user) noexcept nogil:
    return a[0] < b[0]


cdef api bint before_by_magnitude(const double* a, const double* b) noexcept nogil:
    return a[0] * a[0] < b[0] * b[0]


cdef api int less_until(const void* a, const void* b, void* user) except? -1 nogil:
    """Of int64; raises when the number that user points to has sunk to 0."""
    if i64_fetch_add_relaxed(<atomic_i64*>user, -1) <= 0:
        with gil:
            raise ZeroDivisionError("less")
    return (<const long long*>a)[0] < (<const long long*>b)[0]


def grain(bytes_per_item, pace):
    """Items of a leaf of a map."""
    return map_grain(bytes_per_item, pace)


def pace(known, took, threads):
    """Of an element, after a run in which it took so long."""
    return pace_after(known, took, threads)


def copied(bytes source, int64_t difference):
    """source, after a copy from the beginning of a page to so many bytes behind one; and what is beside it."""
    cdef int64_t n = len(source)
    cdef char* room = <char*>malloc(2 * n + 4 * 4096)
    cdef char* of
    cdef char* to
    if room == NULL:
        raise MemoryError()
    of = room + (-<intptr_t>room & 4095)
    to = of + (n + 4096 & ~4095) + difference
    memcpy(of, <char*>source, n)
    (to - 1)[0] = to[n] = 77
    copy_bytes(to, of, n)
    result = to[:n], (to - 1)[0], to[n]
    free(room)
    return result


def reduction_block(n, itemsize, dear):
    """Items of a block of a reduction."""
    return block_items(n, itemsize, dear)


def parts_of(keys, splitters):
    """Which part each word belongs to; 2^k - 1 splitters in order."""
    cdef NarrowSplitters narrow
    cdef WideSplitters wide
    cdef int i, node, level = 0, count = len(splitters) + 1
    cdef const uint32_t[::1] narrow_keys
    cdef const uint64_t[::1] wide_keys
    found = bytearray(len(keys))
    cdef uint8_t[::1] parts = found
    narrow.levels = wide.levels = count.bit_length() - 1
    values = [int(x) for x in splitters]
    for i in range(count - 1):
        wide.in_order[i] = values[i]
        narrow.in_order[i] = values[i] & 0xFFFFFFFF
    while 1 << level < count:
        for node in range(1 << level):
            i = (count >> level) // 2 + node * (count >> level) - 1
            wide.tree[(1 << level) + node] = values[i]
            narrow.tree[(1 << level) + node] = values[i] & 0xFFFFFFFF
        level += 1
    if keys.dtype.itemsize == 8:
        wide_keys = keys
        simd.split_wide(&wide_keys[0], len(keys), &wide, &parts[0])
    else:
        narrow_keys = keys
        simd.split_narrow(&narrow_keys[0], len(keys), &narrow, &parts[0])
    return list(found)


def moved(keys, splitters, to, ends, mid):
    """Whether the words fit into mid, those of part p from to[p] on, which moves, and before
    ends[p]; and how many each part has.  None: no vectors for it."""
    cdef NarrowSplitters narrow
    cdef WideSplitters wide
    cdef int i
    cdef int64_t counts[8]
    cdef int64_t[::1] places = to
    cdef const int64_t[::1] last = ends
    cdef const uint32_t[::1] narrow_keys
    cdef const uint64_t[::1] wide_keys
    cdef uint32_t[::1] narrow_mid
    cdef uint64_t[::1] wide_mid
    narrow.levels = wide.levels = 2 if len(splitters) == 3 else 3
    for i in range(len(splitters)):
        wide.in_order[i] = int(splitters[i])
        narrow.in_order[i] = int(splitters[i]) & 0xFFFFFFFF
    for i in range(8):
        counts[i] = 0
    if simd.move_wide == NULL:
        return None
    if keys.dtype.itemsize == 8:
        wide_keys, wide_mid = keys, mid
        simd.count_wide(&wide_keys[0], len(keys), &wide, counts)
        fit = simd.move_wide(&wide_keys[0], len(keys), &wide, &places[0], &last[0], &wide_mid[0])
    else:
        narrow_keys, narrow_mid = keys, mid
        simd.count_narrow(&narrow_keys[0], len(keys), &narrow, counts)
        fit = simd.move_narrow(&narrow_keys[0], len(keys), &narrow, &places[0], &last[0], &narrow_mid[0])
    return bool(fit), [counts[i] for i in range(len(splitters) + 1)]


def leaves_take(leaf, pieces, floats, ours=None):
    """What a word of 4 or 8 bytes is to take NumPy's sort of words, in pieces, the sort of
    floats, and our sort of words (None: as NumPy's); 0: as timed."""
    set_paces(leaf if ours is None else ours, leaf, pieces, floats)


def numpys_partitions_are(vectors):
    """By which vectors they are to be taken for made: 0 none that are fast, 1 AVX2, 2 AVX-512; returns which
    it were."""
    before = partition.vectors_of_numpy
    partition.vectors_of_numpy = vectors
    return <int>before


cdef sort_fn leaf_for(dtype):
    cdef size_t leaf = {
        "u4": <size_t>simd.sort_narrow, "u8": <size_t>simd.sort_wide, "i4": <size_t>simd.sort_int32,
        "i8": <size_t>simd.sort_int64, "f8": <size_t>simd.sort_doubles}[dtype.str[1:]]
    return <sort_fn>leaf


def leaf_sorted(numbers, lo, hi):
    """Sorts lo .. hi in place by our leaf sort of such numbers.  False: this level has none."""
    cdef sort_fn leaf = leaf_for(numbers.dtype)
    cdef uint8_t[::1] items = numbers.view("u1")
    return leaf != NULL and leaf(&items[<int64_t>lo * numbers.itemsize], hi - lo, NULL) == 0


cdef int count_down(void* left) noexcept nogil:
    cdef int64_t* questions = <int64_t*>left
    questions[0] -= 1
    return questions[0] < 0


def leaf_stopped(numbers, after):
    """Sorts them in the same way, but stops at the question after so many.  Returns whether it stopped, and
    how many questions were left; None: this level has none."""
    cdef sort_fn leaf = leaf_for(numbers.dtype)
    cdef uint8_t[::1] items = numbers.view("u1")
    cdef int64_t left = after
    cdef SortCheck check
    check.must_stop = count_down
    check.ctx = &left
    if leaf == NULL:
        return None
    return leaf(&items[0], len(numbers), &check) == 1, left


def with_subnormals_as_zeros(f):
    """f(), in a thread whose vector instructions take them for such (DAZ)."""
    cdef unsigned int before = control()
    set_control(before | 0x40)
    try:
        return f()
    finally:
        set_control(before)


def sorted_with_few_pivots(words, pivots):
    """In place by vectors of 32 bytes, giving up after so many pivots; without them, by NumPy."""
    cdef uint32_t[::1] narrow
    cdef uint64_t[::1] wide
    cdef uint64_t state = 1
    prepare_orders()     # this module's own table
    if simd.sort_wide == NULL:
        words.sort()
    elif words.dtype.itemsize == 8:
        wide = words
        sort_some_wide(&wide[0], len(words), pivots, &state)
    else:
        narrow = words
        sort_some_narrow(&narrow[0], len(words), pivots, &state)
