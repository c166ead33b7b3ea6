# cython: wraparound=True, boundscheck=True
"""``par_sort``."""
import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.string cimport memcpy
from numpy cimport ndarray

from pyblitz.host.interpreter cimport check
from pyblitz.arrays.common cimport (
    PyArray_ArrFuncs, PyDataType_GetArrFuncs, may_overlap, numpys, run, run_fn)
from pyblitz.arrays.front cimport SORT_NS, left, left_dtype, too_small
from pyblitz.arrays.front import operation
from pyblitz.arrays.sorting cimport (
    Fields, Rows, are_halves, array_to_sort, check_sorted_out, each_row_alone, goes_down, key_kinds, merge_rows,
    rows_of, sort_by, sort_by_numpy, sort_fields, wants_stable)
from pyblitz.kernels.blocks cimport sort_fn
from pyblitz.kernels.merge cimport ORDER_COMPARE, MergeSort, order_by
from pyblitz.kernels.gather cimport INDEX_READY, Take, take_run
from pyblitz.kernels.keys cimport NumberSort, sort_keys, sort_rows_of_keys
from pyblitz.kernels.radix cimport SHARED_WORDS, Leaves, use_leaves
from pyblitz.runtime.atomic cimport u32_store_relaxed
from pyblitz.runtime.pool cimport Worker

cnp.import_array()

cdef enum:
    # Rows of fewer are not counted: a histogram has as many places as there are values.
    COUNTED_BYTES = 512
    COUNTED_PAIRS = 131072

# NumPy's sort of a dtype, which needs no GIL.
cdef sort_fn leaf_of(str name):
    cdef cnp.dtype dtype = np.dtype(name)
    return PyDataType_GetArrFuncs(<cnp.PyArray_Descr*>dtype).sort[0]


use_leaves(Leaves(leaf_of("u4"), leaf_of("i4"), leaf_of("f4")),
           Leaves(leaf_of("u8"), leaf_of("i8"), leaf_of("f8")))


cdef struct RowsOfKeys:
    NumberSort k
    int64_t rows


cdef int run_key_rows(Worker* w, RowsOfKeys* r) noexcept nogil:
    cdef int64_t row
    cdef int rc
    if each_row_alone(r.rows, r.k.n):
        return sort_rows_of_keys(w, &r.k, r.rows)
    for row in range(r.rows):
        rc = sort_keys(w, &r.k)
        if rc != 0:
            return rc
        r.k.src += r.k.n * r.k.itemsize
        r.k.dst += r.k.n * r.k.itemsize
    return 0


cdef int sort_numbers(ndarray source, ndarray result, bint stable, bint descending) except -1:
    """Rows of numbers of 1, 2, 4 or 8 bytes, both contiguous, the same or apart."""
    cdef RowsOfKeys r
    cdef int rc
    r.k.src = <const char*>cnp.PyArray_DATA(source)
    r.k.dst = <char*>cnp.PyArray_DATA(result)
    r.k.n = cnp.PyArray_DIM(result, cnp.PyArray_NDIM(result) - 1)
    r.k.itemsize = cnp.PyArray_ITEMSIZE(result)
    r.k.kind = key_kinds[result.dtype.kind]
    r.k.stable = stable
    r.k.descending = descending
    r.rows = cnp.PyArray_SIZE(result) // r.k.n
    if r.rows == 1 and r.k.n < SHARED_WORDS:
        # No other thread is wanted: the caller goes nowhere.
        with nogil:
            rc = sort_keys(NULL, &r.k)
        return check(rc, "the sort")
    return run(<run_fn>run_key_rows, &r, "the sort")


cdef int sort_by_order(list parts, ndarray source, ndarray result, bint descending) except -1:
    """Rows of what is sorted by fields: their order first, then all items once."""
    cdef Fields fields = Fields()
    cdef Take t
    cdef int64_t n = cnp.PyArray_DIM(result, cnp.PyArray_NDIM(result) - 1)
    cdef ndarray order = np.empty((cnp.PyArray_SIZE(result) // n, n), np.intp)
    cdef ndarray to = result
    for part in parts:
        fields.add(part.reshape(-1, n), descending)
    fields.order(1, order, None)
    if order.shape[0] > 1:
        order += np.arange(0, order.size, n)[:, None]
    if may_overlap(source, result):
        to = np.empty_like(result)
    t.src = <const char*>cnp.PyArray_DATA(source)
    t.dst = <char*>cnp.PyArray_DATA(to)
    t.index = cnp.PyArray_DATA(order)
    t.index_size = 8
    t.mode = INDEX_READY
    t.outer = 1
    t.length = t.count = cnp.PyArray_SIZE(result)
    t.itemsize = cnp.PyArray_ITEMSIZE(result)
    u32_store_relaxed(&t.bad, 0)
    run(<run_fn>take_run, &t, "the sort")
    if to is not result:
        memcpy(cnp.PyArray_DATA(result), cnp.PyArray_DATA(to), cnp.PyArray_NBYTES(to))
    return 0


cdef int sort_by_merging(ndarray source, ndarray result, bint stable) except -1:
    """Rows that NumPy's own kernels sort, and its comparison merges."""
    cdef MergeSort s
    cdef PyArray_ArrFuncs* f = PyDataType_GetArrFuncs(cnp.PyArray_DESCR(result))
    s.n = cnp.PyArray_DIM(result, cnp.PyArray_NDIM(result) - 1)
    s.arr = <void*>result
    s.leaf = f.sort[2] if stable else f.sort[0]
    order_by(&s.order, ORDER_COMPARE, <void*>f.compare, s.arr, cnp.PyArray_ITEMSIZE(result))
    s.src = <const char*>cnp.PyArray_DATA(source)
    s.dst = <char*>cnp.PyArray_DATA(result)
    return merge_rows(&s, cnp.PyArray_SIZE(result) // s.n)


cdef str by_key = "keys"
cdef str by_merge = "merges"
cdef str by_fields = "fields"


cdef object road_of(object dtype, int64_t n, int64_t rows, object order, bint stable, bint descending):
    """How rows of n are sorted, or what is left to NumPy."""
    cdef str kind = dtype.kind
    cdef int64_t size = dtype.itemsize
    if order is not None or kind == "V":
        if descending or sort_fields(np.empty(0, dtype), order) is None:
            return left_dtype(dtype)
        return by_fields
    if kind in "SU" or (kind == "c" and size <= 16):
        return by_fields
    if kind not in key_kinds and kind != "c":
        return left_dtype(dtype)
    if size > 8:
        return left("extended precision, descending") if descending else by_merge
    if size > 2:
        return by_key
    if kind == "f" and stable:
        return by_fields        # which keeps the order of zeros
    if n >= (COUNTED_BYTES if size == 1 else COUNTED_PAIRS):
        return by_key
    # NumPy's kernel has no other direction, and errs in half precision.
    if descending or kind == "f":
        return by_fields
    return by_merge if rows > 1 else too_small


cdef object sort(ndarray x, object axis, object order, bint stable, bint descending, object out):
    """Along an axis, or None for all, of at least one item; or what is left to NumPy."""
    cdef ndarray source, target
    cdef Rows r = rows_of(x, axis, out)
    cdef int64_t n = cnp.PyArray_DIM(r.rows, r.ndim - 1)
    road = road_of(x.dtype, n, cnp.PyArray_SIZE(x) // n, order, stable, descending)
    if type(road) is not str:
        return road
    if sizeof(Py_ssize_t) != 8:
        return left("indices of 32 bits")
    target = r.target(x.dtype if x.dtype.isnative else x.dtype.newbyteorder("="), [])
    source = r.source(target)
    if road is by_key:
        sort_numbers(source, target, stable, descending)
    elif road is by_merge:
        sort_by_merging(source, target, stable)
    else:
        sort_by_order(sort_fields(source, order), source, target, descending)
    return r.give(target, False)


# ---- np.sort ----------------------------------------------------------------

def sorted_by_numpy(a, axis=-1, kind=None, order=None, *, stable=None, descending=None, out=None, less=None):
    """The namesake."""
    if less is not None:
        return sort_by(a, axis, kind, order, stable, descending, out, less, False)
    down = goes_down(descending, kind)
    check_sorted_out(out, a, axis, False)
    # Of halves NumPy's default kernel (seen in 2.4.6 with AVX-512) leaves arrays of some 1,000 items
    # and more out of order; its stable one is right.
    if are_halves(a):
        if stable is None and (kind is None or kind == "quicksort" or kind == "heapsort"):
            # By its name, or by the keyword that goes with descending= (from NumPy 2.5 on).
            kind, stable = (None, True) if down else ("stable", None)
    if out is not None and out is a and axis is not None and not down:
        out.sort(axis, kind, order, stable=stable)
        return out
    result = sort_by_numpy(numpys.sort, a, axis, kind, order, stable, down)
    if out is None:
        return result
    out[...] = result
    return out


@operation("a out", sorted_by_numpy, gives="same", ns=SORT_NS)
def par_sort(a, axis=-1, kind=None, order=None, *, stable=None, descending=None, out=None, less=None):
    """A sorted copy of an array, on all cores: ``np.sort``.

    Parameters
    ----------
    kind : {'quicksort', 'mergesort', 'heapsort', 'stable'}, optional
        As for ``np.sort``: 'mergesort' and 'stable' keep equal elements in
        their order, the others need not.
    out : ndarray, optional
        Where the result goes, of the shape and dtype of the result; ``out=a``
        sorts in place.  When the sort fails (no memory, Ctrl-C, a CancelScope), another
        ``out`` than ``a`` may hold anything, and ``a`` its own elements in some order.

    Notes
    -----
    O(n log n) work at most.  NaN and NaT go last, as in NumPy.

    - Integers, times and floats of 4 or 8 bytes: one thread sorts all of them by a quicksort
      with vector instructions (after Bramas, 2017, and Blacher et al., 2022), or by NumPy's
      where that is faster.  Or one parallel pass moves them, as words, to buckets that fit into
      a cache (steps of the range that a sample shows, after Zagha and Blelloch, 1991, or between
      splitters, after Sanders and Winkel, 2004), and that sort sorts each, whole or in pieces;
      buckets that hold too much are shared in turn.  Or, with AVX2 or AVX-512, they move to 4
      or 8 parts.  The speeds are measured once in a process.  All ways give the same bits.  What is
      sorted already, up or down, is only copied.
    - Booleans and integers of 1 byte, and of 2 bytes from 131,072 on: counting sort.
    - Complex numbers, fixed-width strings, structured arrays, stable half precision: the
      order of ``par_argsort``, then every element is moved once.
    - Extended precision: merge sort, its merges cut into equal parts by co-ranking.
    - Many rows: one after another, the rows shared; short ones of integers of 1 or 2 bytes
      are sorted by NumPy's kernels.
    - Objects, variable-width strings, extended precision from the greatest down, and records
      with fields of several items, of half or of extended precision: NumPy, alone.

    Extra memory: for numbers of up to 8 bytes at most n elements, and n more in place.  Where
    the order comes first, the order and what ``par_argsort`` needs, and one copy in place.
    An ``axis`` other than the last needs one copy.

    Examples
    --------
    >>> pb.par_sort([3.0, np.nan, 1.0])
    array([ 1.,  3., nan])
    >>> pb.par_sort([3.0, np.nan, 1.0], descending=True)
    array([ 3.,  1., nan])
    """
    cdef ndarray x
    cdef bint down
    if less is not None:
        return sort_by(a, axis, kind, order, stable, descending, out, less, False)
    down = goes_down(descending, kind)
    x = array_to_sort(numpys.sort, a, axis, kind, order, stable, out)
    if x is None:
        return too_small
    return sort(x, axis, order, wants_stable(kind, stable), down, out)
