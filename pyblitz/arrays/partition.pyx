# cython: wraparound=True, boundscheck=True
"""What is before what, without sorting all: ``par_partition``, ``par_argpartition``,
``par_topk``."""
import importlib
import operator
from collections import namedtuple
from functools import partial

import numpy as np

cimport numpy as cnp
from libc.stdint cimport INT64_MAX, int64_t
from numpy cimport ndarray

from pyblitz.arrays.common cimport at, axis_of, longest_axis, number_of, run, run_fn, slices
from pyblitz.arrays.front cimport (
    FIRST_NS, PARTITION_NS, SHARE_NS, as_array, Left, left, left_dtype, pays, private_copy, too_small)
from pyblitz.arrays.front import operation
from pyblitz.arrays.argsort import par_argsort
from pyblitz.arrays.map import par_map
from pyblitz.arrays.copy import par_copy
from pyblitz.arrays.gather import par_take
from pyblitz.arrays.select import par_flatnonzero
from pyblitz.arrays.order cimport is_sortable, order_by_columns, plain_column
from pyblitz.arrays.reduce import par_count_nonzero
from pyblitz.arrays.sort cimport sort
from pyblitz.arrays.sorting cimport MANY_ROWS, key_kinds, sort_fields
from pyblitz.kernels.numbers cimport NUMBER_TIME
from pyblitz.kernels.select cimport (
    ALL_BUT_SURE, First, Parts, Split, first_run, parts_run, ranks_around, split_between,
    split_blocks, split_run, split_sample)
from pyblitz.kernels.simd.levels cimport simd, slow_compress
from pyblitz.runtime.atomic cimport u32_load_relaxed
from pyblitz.runtime.pool cimport Worker

cnp.import_array()

cdef enum:
    # Items of a row that NumPy partitions by vectors as fast as two threads do (those of floats measured on a
    # Zen 4, NumPy held to AVX2); see is_numpys.
    FAST_FLOATS = 1048576
    FAST_INTEGERS = 2097152
    FAST_NARROW = 33554432
    FAST_ORDERS = 524288
    # Items of a part that NumPy ends alone.
    PART_ITEMS = 8192
    # Items of a part whose order is ended by a sort.
    SORTED_PART = 1024
    # A row is parted by vectors from so many items on, or, where NumPy has AVX2 for it, from more on (Zen 3);
    # one of a few, and one whose indices are wanted, up to so many bytes, because a thread does it alone.
    LEAST_ITEMS = 256
    LEAST_WIDE = 65536
    LEAST_NARROW = 131072
    ALONE_BYTES = 8388608
    # Two-byte items of so many are sorted by counting; of fewer, NumPy's kernel is faster.
    COUNTED_ITEMS = 1048576
    MAX_SAMPLES = 16384
    # How many items there are for each of a sample: to read it takes a cache miss, and what is between two of
    # its items is looked at again.
    SPLIT_SHARE = 512
    FIRST_SHARE = 128
    # For more positions than these, far from each other, to sort takes no more passes.
    MAX_KTHS = 3
    # Splits of splits; what is left then is NumPy's.
    MAX_DEPTH = 8
    # A larger part of so many than one in so many is sorted faster than kept in a heap; of more, one in
    # MANY_SHARE.  Of fewer than ANY_SHARE, no part is.
    ANY_SHARE = 64
    FEW_ITEMS = 1024
    FEW_SHARE = 8
    MANY_SHARE = 32
    # So few first ones of a long row are found in blocks of so many items: 30 us of one thread.
    FEW_FIRST = 32
    FIRST_BLOCK = 131072


cdef bint can_split(ndarray a) noexcept:
    """Whether there is a kernel for its items."""
    return number_of(a.descr) <= NUMBER_TIME and cnp.PyArray_ITEMSIZE(a) >= 4


# ---- splits -----------------------------------------------------------------

cdef tuple bounds_of(object dtype):
    """The value that no item sorts before, and the one that only NaNs sort after."""
    if dtype.kind == "f":
        return dtype.type(-np.inf), dtype.type(np.inf)
    if dtype.kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    # NaT has the least bits, and sorts last.
    return np.array(np.iinfo(np.int64).min + 1).view(dtype), np.array("NaT", dtype)


cdef ndarray sampled(ndarray a, int64_t share):
    """Of one in so many items, or more."""
    cdef int64_t n = cnp.PyArray_SIZE(a), samples = 256
    while samples < MAX_SAMPLES and samples * share < n:
        samples *= 2
    while samples > n:
        samples //= 2
    cdef ndarray result = np.empty(samples, a.dtype)
    cdef char* out = <char*>cnp.PyArray_DATA(result)
    cdef const char* src = <const char*>cnp.PyArray_DATA(a)
    split_sample(src, cnp.PyArray_ITEMSIZE(a), n, samples, out)
    return result


cdef object splitters(ndarray a, int64_t k):
    """Two values, as an array, between which the k-th is, all but surely."""
    cdef ndarray sample = sampled(a, SPLIT_SHARE)
    cdef int64_t samples = cnp.PyArray_SIZE(sample), first, middle, last
    middle = ranks_around(k, cnp.PyArray_SIZE(a), samples, ALL_BUT_SURE, &first, &last)
    least, greatest = bounds_of(a.dtype)
    wanted = [r for r in (first, middle, last) if 0 <= r < samples]
    sample.partition(wanted)
    result = np.empty(2, a.dtype)
    result[0] = sample[first] if first >= 0 else least
    result[1] = sample[last] if last < samples else greatest
    if a.dtype.kind == "f":
        # All numbers are less than NaN: it splits nothing.
        result[np.isnan(result)] = greatest
    if 0 <= first and last < samples:
        pivot = sample[middle]
        # The items equal to it are many: then they alone are the middle.
        if np.count_nonzero(sample == pivot) > 2 * (last - first):
            result[...] = pivot
    return result


cdef list split(ndarray a, ndarray dst, bint indices, object around):
    """Around two values; returns where the thirds end."""
    cdef Split s
    cdef ndarray low = around[:1], high = around[1:]
    cdef ndarray counts
    s.kind = key_kinds[a.dtype.kind]
    s.itemsize = cnp.PyArray_ITEMSIZE(a)
    s.src = <const char*>cnp.PyArray_DATA(a)
    s.n = cnp.PyArray_SIZE(a)
    split_between(&s, <const char*>cnp.PyArray_DATA(low), <const char*>cnp.PyArray_DATA(high))
    counts = np.empty((split_blocks(s.n) + 1, 3), np.int64)
    s.counts = <int64_t*>cnp.PyArray_DATA(counts)
    s.dst = <char*>cnp.PyArray_DATA(dst)
    s.indices = indices
    s.inwards = False
    run(<run_fn>split_run, &s, "the partition")
    if u32_load_relaxed(&s.changed):
        # By another thread, which does not know the copy.
        return split(a.copy(), dst, indices, around)
    return (<object>counts)[-1].tolist()


cdef int parts_of_rows(ndarray a, ndarray out, bint indices, int64_t k, int64_t* equals) except -1:
    """Along the last axis of contiguous arrays: what is less than the k-th, equal to it, and greater;
    and where the second part begins and ends."""
    cdef Parts p
    p.src = <const char*>cnp.PyArray_DATA(a)
    p.n = cnp.PyArray_DIM(a, cnp.PyArray_NDIM(a) - 1)
    p.rows = cnp.PyArray_SIZE(a) // p.n
    p.itemsize = cnp.PyArray_ITEMSIZE(a)
    p.kind = key_kinds[a.dtype.kind]
    p.k = k
    p.indices = indices
    p.out = <char*>cnp.PyArray_DATA(out)
    p.equals = equals
    run(<run_fn>parts_run, &p, "the partition")
    return 0


cdef NumpysVectors find_vectors_of_numpy() except *:
    """The names are those of NumPy 2.4, and before.  Its partition takes several times as long without
    vectors as with AVX2 or AVX-512 (two of Intel's processors, Zen 4 and Zen 5); but on Zen 4 it takes as
    long with AVX-512 as without, 5 to 10 ns an item."""
    features = getattr(importlib.import_module("numpy._core._multiarray_umath"), "__cpu_features__", {})
    # Of a level that is held down, what it is made of is still said to be there.
    if features.get("X86_V4", features.get("AVX512_SKX")):
        return NUMPYS_ARE_SLOW if slow_compress() else NUMPYS_ARE_AVX512
    return NUMPYS_ARE_AVX2 if features.get("X86_V3", features.get("AVX2")) else NUMPYS_ARE_SLOW


vectors_of_numpy = find_vectors_of_numpy()


cdef bint has_vectors_of_numpy(ndarray a) noexcept:
    """Whether NumPy partitions such items by vectors."""
    cdef cnp.dtype d = a.descr
    return (vectors_of_numpy != NUMPYS_ARE_SLOW and d.kind in b"iuf" and (d.itemsize == 4 or d.itemsize == 8)
            and cnp.PyArray_ISNOTSWAPPED(a))


cdef bint has_vectors(ndarray a) noexcept:
    """Whether we part such items of 4 or 8 bytes by vectors."""
    return (simd.sort_wide if cnp.PyArray_ITEMSIZE(a) == 8 else simd.sort_narrow) != NULL


cdef int64_t least_items(ndarray a, bint indices) noexcept:
    """From how many items of a row on our vectors part them sooner than NumPy does.  Those that give indices
    do so beside any of NumPy's (Zen 3, Zen 4)."""
    if not has_vectors(a):
        return INT64_MAX
    if indices or not has_vectors_of_numpy(a):
        return LEAST_ITEMS
    if vectors_of_numpy == NUMPYS_ARE_AVX512:
        return INT64_MAX
    if cnp.PyArray_ITEMSIZE(a) == 8:
        return LEAST_WIDE
    return LEAST_ITEMS if a.descr.kind == c"f" else LEAST_NARROW


cdef bint may_be_alone(ndarray a, int64_t n) noexcept:
    return n * cnp.PyArray_ITEMSIZE(a) <= ALONE_BYTES


cdef bint is_fast(ndarray a, int64_t n, bint indices) noexcept:
    """Whether we part n items of one row by vectors, sooner than NumPy does."""
    return least_items(a, indices) <= n and (not indices or may_be_alone(a, n))


cdef list thirds_of(ndarray a, ndarray dst, bint indices, list kths):
    """Splits a into dst; returns what is not in order yet: (begin, end, kths in it).
    The middle one of the kths, which rise, is in a small part, all but surely."""
    cdef int64_t begin, end, middle = kths[len(kths) // 2], n = cnp.PyArray_SIZE(a)
    cdef int64_t equals[2]
    cdef bint equal = True, nans = False     # what the second part and the last one are
    cdef list result = []
    if has_vectors(a) and (not indices or may_be_alone(a, n)):
        parts_of_rows(a, dst, indices, middle, equals)
        ends = [0, equals[0], equals[1], n]
    else:
        around = splitters(a, middle)
        ends = [0, *split(a, dst, indices, around)]
        equal = around[0] == around[1] or (a.dtype.kind in "mM" and np.isnat(around).all())
        nans = a.dtype.kind == "f" and around[1] == np.inf
    for i in range(3):
        begin, end = ends[i], ends[i + 1]
        inside = [k - begin for k in kths if begin <= k < end]
        if inside and not (i == 1 and equal) and not (i == 2 and nans):
            result.append((begin, end, inside))
    return result


cdef int partition_into(ndarray a, ndarray dst, list kths, int depth) except -1:
    """Contiguous, no overlap."""
    cdef ndarray part
    for begin, end, inside in thirds_of(a, dst, False, kths):
        part = dst[begin:end]
        if (end - begin <= PART_ITEMS and not is_fast(part, end - begin, False)) or depth == MAX_DEPTH:
            part.partition(inside)
        else:
            partition_into(par_copy(part), part, inside, depth + 1)
    return 0


cdef ndarray order_around(ndarray a, list kths, int depth):
    """np.argpartition, with equal items in their order.  Fewer than LEAST_ITEMS are no user's array, which
    another thread may write, but a part of one."""
    cdef ndarray order, part
    cdef int64_t n = cnp.PyArray_SIZE(a)
    if n < LEAST_ITEMS or (n < SORTED_PART and not has_vectors(a)) or depth == MAX_DEPTH:
        return np.argsort(a, kind="stable").astype(np.int64, copy=False)
    order = np.empty(n, np.int64)
    for begin, end, inside in thirds_of(a, order, True, kths):
        part = order[begin:end]
        part[...] = par_take(part, order_around(par_take(a, part), inside, depth + 1))
    return order


# ---- np.partition -----------------------------------------------------------

cdef object position_of(object k):
    """An integer of NumPy's, or an array of one, as one of Python's; None: it is neither."""
    if isinstance(k, np.ndarray) and k.ndim <= 1 and k.size == 1:
        k = k.reshape(-1)[0]
    return int(k) if isinstance(k, np.integer) and not isinstance(k, np.timedelta64) else None


cdef list kths_of(object kth, int64_t n):
    """The positions, rising, each once."""
    kths = [operator.index(kth)] if np.ndim(kth) == 0 else np.asarray(kth).tolist()
    return sorted({k + n if k < 0 else k for k in kths})


def partition_part(x, out, kths, indices, axis, along, lo, hi):
    """In place, or the order of it."""
    index = at(along, lo, hi)
    if indices:
        out[index] = np.argpartition(private_copy(x[index]), kths, axis)
    else:
        out[index].partition(kths, axis)


cdef object partition_rows(ndarray x, list kths, int axis, bint indices):
    """Rows along an axis, several of them."""
    cdef ndarray out
    cdef int64_t n = cnp.PyArray_DIM(x, axis), size = cnp.PyArray_SIZE(x)
    shape = (<object>x).shape
    if pays(n, PARTITION_NS) and size < MANY_ROWS * n and can_split(x):
        out = np.empty(shape, np.intp) if indices else np.empty_like(x)
        rows, to = np.moveaxis(x, axis, -1), np.moveaxis(out, axis, -1)
        for index in np.ndindex(to.shape[:-1]):
            row = partition_row(rows[index], kths, indices)
            if type(row) is Left:
                return row
            to[index] = row
        return out
    out = np.empty(shape, np.intp) if indices else par_copy(x)
    along = longest_axis(shape, [d for d in range(len(shape)) if d != axis])
    slices("partition", partial(partition_part, x, out, kths, indices, axis, along),
           max(1, PART_ITEMS * shape[along] // size), shape[along], None)
    return out


cdef object partition_row(ndarray x, list kths, bint indices):
    """Of many items."""
    cdef ndarray out
    cdef int64_t n = cnp.PyArray_SIZE(x)
    if n <= PART_ITEMS and not (can_split(x) and is_fast(x, n, indices)):
        return too_small
    if not can_split(x):
        if x.dtype.itemsize == 2 and n < COUNTED_ITEMS:
            return left("one row of two-byte items, which it does as fast")
        if x.dtype.kind == "c":
            return left("one row of complex numbers")       # all sort them in twice its time
        return sorted_instead(x, -1, None, indices)
    if len(kths) > MAX_KTHS:
        return sorted_instead(x, -1, None, indices)
    if not cnp.PyArray_ISCARRAY_RO(x):
        x = par_copy(x, order="C")
    if indices:
        return order_around(x, kths, 0).astype(np.intp, copy=False)
    out = np.empty(n, x.dtype)
    partition_into(x, out, kths, 0)
    return out


cdef bint is_numpys(ndarray a, bint indices) noexcept:
    """One row: where NumPy's partition has fast vectors, it is over before two threads have sampled, counted
    and moved.  The number of threads has no say: both leave other items in other places."""
    cdef int64_t limit = FAST_ORDERS if indices else FAST_NARROW, n = cnp.PyArray_SIZE(a)
    if SHARE_NS == 0 or not has_vectors_of_numpy(a) or is_fast(a, n, indices):
        return False
    if not indices and a.descr.kind == c"f":
        limit = FAST_FLOATS
    elif not indices and cnp.PyArray_ITEMSIZE(a) == 8:
        limit = FAST_INTEGERS
    return n < limit


cdef bint has_fast_rows(ndarray x, int axis, bint indices) noexcept:
    """Whether we part each sooner than NumPy does, and several rows by a thread each."""
    cdef int64_t n = cnp.PyArray_DIM(x, axis), size = cnp.PyArray_SIZE(x)
    return (n >= LEAST_ITEMS and can_split(x) and n >= least_items(x, indices)
            and (may_be_alone(x, n) or size >= MANY_ROWS * n or (size == n and not indices)))


cdef object fast_rows(ndarray x, int64_t k, int axis, bint indices):
    """None: what NumPy gives would lie otherwise in memory."""
    cdef ndarray rows = x, out
    cdef bint moved = axis != cnp.PyArray_NDIM(x) - 1
    if moved:
        rows = np.moveaxis(x, axis, -1)
    if not cnp.PyArray_ISCARRAY_RO(rows):
        # Partitioned items have the memory order of the array, indices C order.
        if not indices and not cnp.PyArray_IS_C_CONTIGUOUS(x):
            return None
        rows = par_copy(rows, order="C")
    out = np.empty((<object>rows).shape, np.int64 if indices else x.dtype)
    parts_of_rows(rows, out, indices, k, NULL)
    if indices:
        out = out.astype(np.intp, copy=False)
    if not moved:
        return out
    made = np.moveaxis(out, -1, axis)
    return par_copy(made, order="C") if indices or cnp.PyArray_IS_C_CONTIGUOUS(x) else made


cdef object sorted_instead(ndarray x, object axis, object order, bint indices):
    """Sorting partitions, too."""
    if indices:
        return par_argsort(x, axis, order=order)
    return sort(x, axis, order, False, False, None)


cdef object partition(object a, object kth, object axis, object kind, object order, bint indices):
    """np.partition or np.argpartition, or what is left to it."""
    cdef ndarray x = as_array(a)
    cdef int64_t n
    cdef list kths
    cdef int last = cnp.PyArray_NDIM(x) - 1
    if ((type(axis) is int and (axis == -1 or axis == last)) or (axis is None and last == 0)) and (
            last >= 0 and order is None and type(kind) is str and kind == "introselect"
            and cnp.PyArray_ISNOTSWAPPED(x) and has_fast_rows(x, last, indices)):
        # The same as below, in less time than NumPy takes.
        k = kth[0] if (type(kth) is list or type(kth) is tuple) and len(kth) == 1 else kth
        n = cnp.PyArray_DIM(x, last)
        if type(k) is not int:
            k = position_of(k)
        if k is not None and -n <= k < n:
            made = fast_rows(x, k + n if k < 0 else k, last, indices)
            if made is not None:
                return made
    if not pays(cnp.PyArray_SIZE(x), PARTITION_NS):
        return too_small
    if (last == 0 or axis is None) and is_numpys(x, indices):
        return left("one row that its vector instructions partition")
    dtype = x.dtype
    if dtype.hasobject or sort_fields(x, order) is None:
        return left_dtype(dtype)
    if np.asarray(kth).dtype.kind not in "iu" or np.ndim(kth) > 1 or np.size(kth) == 0:
        return left("positions that it may refuse")
    if axis is None:
        x, axis = x.reshape(-1), 0
    # What is wrong with the arguments, in NumPy's words.
    (np.argpartition if indices else np.partition)(np.empty((1,) * x.ndim, dtype), 0, axis, kind, order)
    axis = axis_of(axis, x.ndim)
    n = cnp.PyArray_DIM(x, axis)
    if np.min(kth) < -n or np.max(kth) >= n:
        return left("positions that it may refuse")
    kths = kths_of(kth, n)
    if dtype.kind in "SUV":
        # NumPy, too, sorts such.
        return sorted_instead(x, axis, order, indices)
    if not dtype.isnative:
        x = par_copy(x, dtype=dtype.newbyteorder("="))
    made = None
    if len(kths) == 1 and has_fast_rows(x, axis, indices):
        made = fast_rows(x, kths[0], axis, indices)
    if made is None:
        made = partition_row(x, kths, indices) if x.ndim == 1 else partition_rows(x, kths, axis, indices)
    if type(made) is Left or indices or dtype.isnative:
        return made
    return par_copy(made, dtype=dtype)


@operation("a", np.partition, gives="same")
def par_partition(a, kth, axis=-1, kind="introselect", order=None):
    """A partitioned copy of an array, on all cores: ``np.partition``.

    Returns
    -------
    ndarray
        What is before, between and after the positions is in some order, not NumPy's;
        the same for any number of threads.

    Notes
    -----
    O(n) work.  A row of numbers or times of four or eight bytes is split around two items
    of a sample that have the position between them, all but surely (Floyd and Rivest,
    1975).  One pass, by vectors, writes what is before the two items from the front on
    and what is after them from the end on; what is between them, a few percent, is split
    the same way, until it is sorted.  Of a row of 1 MB or more each thread does some blocks,
    which are counted first, so that each is written where one thread would have put it.
    Each of 16 rows or more is one thread's.  NumPy's own vectors do it where they are as fast:
    AVX2 for fewer than 65,536 items of eight bytes or 131,072 integers of four, and AVX-512,
    but not on Zen 4, for up to a million floats, two million integers of eight bytes or
    32 million of four.  Without AVX2 all threads count and write three parts, and NumPy
    ends the part between the two items.  Long rows of items of one or two bytes are sorted by
    counting, those with more than three positions by ``par_sort``, as strings and records are.
    Other short rows are shared, each partitioned by NumPy.  NaN and NaT go last.  Objects,
    variable-width strings, extended precision and one row of complex numbers: NumPy, alone.

    Extra memory: half a row for each thread that has rows of its own, or for all, of which
    a few percent is touched, and all of it only where few items are distinct; or what sorting takes.

    Examples
    --------
    >>> pb.par_partition([7, 1, 5, 9], 1)[1]
    np.int64(5)
    """
    return partition(a, kth, axis, kind, order, False)


@operation("a", np.argpartition, method="argpartition", gives="same", twice="a")
def par_argpartition(a, kth, axis=-1, kind="introselect", order=None):
    """The indices that partition an array, on all cores: ``np.argpartition``.

    Returns
    -------
    ndarray of int
        What is before, between and after the positions is in some order, not NumPy's;
        the same for any number of threads.

    Notes
    -----
    As ``par_partition``, with indices written instead of items; NumPy's vectors do it for fewer than 256 items.
    For indices the item at the position is found first, and then what is less, equal and greater is
    written; a row of more than 8 MB is split by all threads, which count first.
    Equal items are in their order.  What is NumPy's is in an order of its own: arrays of some 32,000 items
    or fewer (but of rows along the last axis, of four or eight bytes, with one position, only those of
    fewer than 256 items, where there is AVX2), one row of two-byte items or of complex numbers, several
    rows of complex numbers or of items of one or two bytes, and rows with several positions if they are 16 or
    more, or short.

    Examples
    --------
    >>> pb.par_argpartition([7, 1, 5, 9], 0)[0]
    np.int64(1)
    """
    return partition(a, kth, axis, kind, order, True)


# ---- the first few ----------------------------------------------------------

TopK = namedtuple("TopK", ["values", "indices"], module="pyblitz")
TopK.__doc__ = """What ``par_topk`` gives.

Attributes
----------
values : ndarray
    The items, the first ones first.
indices : ndarray of int
    Where they are along the axis.

Examples
--------
>>> import pyblitz as pb
>>> pb.par_topk([4, 9, 6], 1).indices
array([1])
"""


cdef struct FirstRows:
    First f
    int64_t rows


cdef int run_first(Worker* w, FirstRows* r) noexcept nogil:
    return first_run(w, &r.f, r.rows)


cdef inline bint is_for_heap(int64_t k, int64_t n) noexcept:
    return n <= ANY_SHARE or (FEW_SHARE if n <= FEW_ITEMS else MANY_SHARE) * k <= n


cdef object first_of_rows(ndarray x, int64_t k, bint largest):
    """Indices along the last axis of a contiguous array, by a heap for each row."""
    cdef FirstRows r
    cdef ndarray out = np.empty((<object>x).shape[:-1] + (k,), np.int64)
    r.f.n = cnp.PyArray_DIM(x, cnp.PyArray_NDIM(x) - 1)
    r.f.k = k
    r.f.src = <const char*>cnp.PyArray_DATA(x)
    r.f.itemsize = cnp.PyArray_ITEMSIZE(x)
    r.f.kind = key_kinds[x.dtype.kind]
    r.f.greatest = largest
    r.f.out = <int64_t*>cnp.PyArray_DATA(out)
    r.rows = cnp.PyArray_SIZE(x) // r.f.n
    run(<run_fn>run_first, &r, "the first items")
    return out


cdef bint is_for_blocks(ndarray x, int64_t k):
    """Whether heaps of its blocks look at many items at once."""
    cdef cnp.dtype dtype = x.descr
    return k <= FEW_FIRST and dtype.itemsize >= 4 and (
        dtype.kind in b"fu" or (simd.extremes_narrow if dtype.itemsize == 4 else <void*>simd.extremes_wide) != NULL)


cdef object first_by_blocks(ndarray x, int64_t k, bint largest):
    """Indices of the first k of a long row: the first of those of each block."""
    cdef int64_t n = cnp.PyArray_SIZE(x), rows = n // FIRST_BLOCK, length = n // rows
    found = first_of_rows((<object>x)[: rows * length].reshape(rows, length), k, largest)
    found += length * np.arange(rows)[:, np.newaxis]
    found = np.concatenate([found.reshape(-1), np.arange(rows * length, n)])
    # Equal ones of a block are in their order, and so are blocks.
    return found[first_of_rows(x[found], k, largest)]


cdef object first_by_sample(ndarray x, int64_t k, bint largest, bint in_order):
    """Indices of the first k of a long row, out of the items that a sample says are
    enough.  None: they were not."""
    cdef int64_t n = cnp.PyArray_SIZE(x), samples, first, last, rank
    cdef ndarray sample = sampled(x, FIRST_SHARE), found
    samples = cnp.PyArray_SIZE(sample)
    ranks_around(n - k if largest else k - 1, n, samples, ALL_BUT_SURE, &first, &last)
    rank = first if largest else last       # beyond which there are k, all but surely
    if not 0 <= rank < samples:
        return None
    sample.partition(rank)
    limit = sample[rank : rank + 1]
    mask = par_map(np.greater_equal if largest else np.less_equal, x, limit)
    found = par_flatnonzero(mask)
    if cnp.PyArray_SIZE(found) < k:
        return None
    items = par_take(x, found)
    if in_order:
        return par_take(found, order_by_columns([items], [largest], True)[:k])
    # All that are beyond the last one, and the first ones that are equal to it.
    place = cnp.PyArray_SIZE(found) - k if largest else k - 1
    parted = partition_row(items, [place], False) if pays(items.size, PARTITION_NS) else too_small
    if type(parted) is Left:
        parted = np.partition(items, place)
    ends = parted[place : place + 1]
    mask = par_map(np.greater if largest else np.less, items, ends)
    equal = par_flatnonzero(par_map(np.equal, items, ends))
    mask[equal[: k - par_count_nonzero(mask)]] = True
    chosen = par_flatnonzero(mask)
    # Another thread may have put NaNs among the items.
    return par_take(found, chosen) if cnp.PyArray_SIZE(chosen) == k else None


cdef object first_of_row(ndarray x, int64_t k, bint largest, bint in_order):
    """Indices of the first k of a row."""
    cdef int64_t n = cnp.PyArray_SIZE(x)
    if k == 0:
        return np.empty(0, np.intp)
    x = plain_column(x)
    if x.dtype.kind in key_kinds and x.dtype.itemsize <= 8:
        if n >= 2 * FIRST_BLOCK and is_for_blocks(x, k):
            return first_by_blocks(x, k, largest)
        if (is_for_blocks(x, k) or not pays(n, FIRST_NS)) and is_for_heap(k, n):
            return first_of_rows(x, k, largest)
        if pays(n, FIRST_NS) and (4 * k <= n or not in_order) and x.dtype.itemsize >= 4:
            found = first_by_sample(x, k, largest, in_order)
            if found is not None:
                return found
    return order_by_columns([x], [largest], True)[:k]


cdef object topk(object a, object k, object axis, object largest, object in_order, bint alone):
    cdef ndarray x, out
    cdef int64_t n, count
    x = np.asarray(a)
    if axis is None:
        x = x.reshape(-1)
    along = 0 if axis is None else axis_of(axis, x.ndim)
    n = x.shape[along]
    wanted = operator.index(k)
    if not 0 <= wanted <= n:
        raise ValueError(f"k: must be from 0 to {n}, the length of the axis, not {wanted}")
    if not alone and not is_sortable(x) and x.dtype.names is None:
        return left_dtype(x.dtype)
    count = wanted
    if x.ndim == 1:
        found = first_of_row(x, count, bool(largest), bool(in_order)).astype(np.intp, copy=False)
        return TopK(par_take(x, found), found)
    rows = np.moveaxis(x, along, -1)
    shape = rows.shape[:-1]
    if rows.size == 0 or count == 0:
        out = np.empty((*shape, count), np.intp)
    elif pays(n, FIRST_NS) or x.dtype.kind not in key_kinds or x.dtype.itemsize > 8:
        out = np.empty((*shape, count), np.intp)
        for index in np.ndindex(shape):
            out[index] = first_of_row(rows[index], count, bool(largest), bool(in_order))
    elif not is_for_heap(count, n):
        out = np.ascontiguousarray(par_argsort(rows, descending=bool(largest))[..., :count])
    else:
        out = first_of_rows(plain_column(rows), count, bool(largest)).astype(np.intp, copy=False)
    found = np.ascontiguousarray(np.moveaxis(out, -1, along))
    return TopK(np.take_along_axis(x, found, along), found)


def topk_alone(a, k, axis=-1, *, largest=True, sorted=True):
    """What NumPy alone can compare; arrays that only other libraries compute with."""
    return topk(a, k, axis, largest, sorted, True)


@operation("a", topk_alone, masked=False)
def par_topk(a, k, axis=-1, *, largest=True, sorted=True):
    """The k greatest items, or the least, and where they are, on all cores.

    Parameters
    ----------
    k : int
    largest : bool, optional
        The greatest, from the greatest down; otherwise the least, from the least up.
    sorted : bool, optional
        False: in what order is left open, though it is always the same; faster when
        ``k`` is a large part of a long row.

    Returns
    -------
    TopK
        A named tuple of two arrays: ``values``, and ``indices`` along the axis.  Of
        equal items the first ones, in their order; NaN and NaT only
        when there is nothing else.

    Raises
    ------
    ValueError
        ``k`` is negative or greater than the length of the axis, as a position may not be
        for ``np.partition``.
    TypeError
        ``k`` is no integer, NumPy cannot sort the items, or they are masked.
    numpy.exceptions.AxisError
        There is no such axis.

    Notes
    -----
    O(n + k log k) work.  Rows are shared, each with a heap of the k first so far; for few items
    a long row is cut into some.  For more of a long row of numbers a sample says beyond which
    value there are k items, or a few more; these are picked, and sorted as by
    ``par_argsort``.  When k is a large part of n, or items are no numbers of up to eight bytes,
    all are sorted; objects, variable-width strings and extended precision by NumPy, alone.

    Examples
    --------
    >>> pb.par_topk([4, 9, 6, 9], 3)
    TopK(values=array([9, 9, 6]), indices=array([1, 3, 2]))
    """
    return topk(a, k, axis, largest, sorted, False)
