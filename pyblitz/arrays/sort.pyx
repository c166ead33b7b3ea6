# cython: wraparound=True, boundscheck=True
"""``par_sort``."""
import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.string cimport memcpy
from numpy cimport ndarray

from pyblitz._progress import with_progress
from pyblitz._python cimport Entry, enter, leave
from pyblitz.arrays.argsort cimport Fields, by_numpy, check_out, goes_down, sort_fields, wants_stable
from pyblitz.arrays.common cimport check, is_plain, may_overlap
from pyblitz.arrays.merge cimport sort_by_kernel
from pyblitz.kernels.merge cimport (
    ORDER_COMPARE, MergeSort, compare_fn, merge_sort, order_by, sort_rows)
from pyblitz.kernels.move cimport INDEX_READY, Take, take_run
from pyblitz.kernels.radix cimport (
    KEY_FLOAT, KEY_SIGNED, KEY_TIME, KEY_UNSIGNED, SHARED_WORDS, Keys, sort_fn, sort_keys,
    sort_rows_of_keys, use_leaves)
from pyblitz.runtime.atomic cimport u32_store_relaxed

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyArray_ArrFuncs:
        sort_fn sort[3]
        compare_fn compare
    PyArray_ArrFuncs* PyDataType_GetArrFuncs(cnp.PyArray_Descr*)

cdef enum:
    # Fewer items are sorted by NumPy: nothing to gain.
    FEW_ITEMS = 512
    # Rows of fewer are not counted: a histogram has as many places as there are values.
    COUNTED_BYTES = 512
    COUNTED_PAIRS = 131072
    MANY_ROWS = 16

cdef dict key_kinds = {
    "b": KEY_UNSIGNED, "u": KEY_UNSIGNED, "i": KEY_SIGNED, "f": KEY_FLOAT,
    "m": KEY_TIME, "M": KEY_TIME,
}

# NumPy's SIMD kernels, which need no GIL.
cdef sort_fn leaf_of(cnp.dtype dtype):
    return PyDataType_GetArrFuncs(<cnp.PyArray_Descr*>dtype).sort[0]


use_leaves(leaf_of(np.dtype(np.uint32)), leaf_of(np.dtype(np.uint64)))


cdef int sort_numbers(ndarray source, ndarray result, bint stable, bint descending) except -1:
    """Rows of numbers of 1, 2, 4 or 8 bytes, both contiguous, the same or apart."""
    cdef Keys k
    cdef Entry e
    cdef int rc = 0
    cdef int64_t rows, row
    k.src = <const char*>cnp.PyArray_DATA(source)
    k.dst = <char*>cnp.PyArray_DATA(result)
    k.n = cnp.PyArray_DIM(result, cnp.PyArray_NDIM(result) - 1)
    k.itemsize = cnp.PyArray_ITEMSIZE(result)
    k.kind = key_kinds[result.dtype.kind]
    k.stable = stable
    k.descending = descending
    rows = cnp.PyArray_SIZE(result) // k.n
    if rows == 1 and k.n < SHARED_WORDS:
        with nogil:
            rc = sort_keys(NULL, &k)
        return check(rc, "the sort")
    with nogil:
        enter(&e)
        if rows > 1 and (rows >= MANY_ROWS or k.n < SHARED_WORDS):
            rc = sort_rows_of_keys(e.worker, &k, rows)
        else:
            for row in range(rows):
                rc = sort_keys(e.worker, &k)
                if rc != 0:
                    break
                k.src += k.n * k.itemsize
                k.dst += k.n * k.itemsize
        rc = leave(&e, rc)
    return check(rc, "the sort")


cdef int sort_by_order(list parts, ndarray source, ndarray result, bint descending) except -1:
    """Rows of what is sorted by fields: their order first, then all items once."""
    cdef Fields fields = Fields()
    cdef Take t
    cdef Entry e
    cdef int rc
    cdef int64_t n = cnp.PyArray_DIM(result, cnp.PyArray_NDIM(result) - 1)
    cdef ndarray order = np.empty((cnp.PyArray_SIZE(result) // n, n), np.intp)
    cdef ndarray to = result
    for part in parts:
        if not fields.add(part.reshape(-1, n), descending):
            raise NotImplementedError(f"no order of {part.dtype}")
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
    with nogil:
        enter(&e)
        rc = take_run(e.worker, &t)
        rc = leave(&e, rc)
    check(rc, "the sort")
    if to is not result:
        memcpy(cnp.PyArray_DATA(result), cnp.PyArray_DATA(to), cnp.PyArray_NBYTES(to))
    return 0


cdef int sort_by_merging(ndarray source, ndarray result, bint stable) except -1:
    """Rows of what NumPy compares: extended precision."""
    cdef MergeSort s
    cdef Entry e
    cdef int rc = 0
    cdef int64_t rows, row
    cdef PyArray_ArrFuncs* f = PyDataType_GetArrFuncs(cnp.PyArray_DESCR(result))
    s.n = cnp.PyArray_DIM(result, cnp.PyArray_NDIM(result) - 1)
    s.arr = <void*>result
    s.leaf = f.sort[2] if stable else f.sort[0]
    order_by(&s.order, ORDER_COMPARE, <void*>f.compare, s.arr, cnp.PyArray_ITEMSIZE(result))
    rows = cnp.PyArray_SIZE(result) // s.n
    s.src = <const char*>cnp.PyArray_DATA(source)
    s.dst = <char*>cnp.PyArray_DATA(result)
    with nogil:
        enter(&e)
        if rows >= MANY_ROWS or s.n < SHARED_WORDS:
            rc = sort_rows(e.worker, &s, rows)
        else:
            for row in range(rows):
                rc = merge_sort(e.worker, &s)
                if rc != 0:
                    break
                s.src += s.n * s.order.itemsize
                s.dst += s.n * s.order.itemsize
        rc = leave(&e, rc)
    return check(rc, "the sort")


def par_sort(a, axis=-1, kind=None, order=None, *, stable=None, descending=None, out=None, less=None,
             progress=None):
    """A sorted copy of an array, on all cores: ``np.sort``.

    Parameters
    ----------
    a : array_like
    axis : int or None, optional
        The axis to sort along, the last one by default; None sorts the
        flattened array.
    kind : {'quicksort', 'mergesort', 'heapsort', 'stable'}, optional
        As for ``np.sort``: 'mergesort' and 'stable' keep equal elements in
        their order, the others need not.
    order : str or list of str, optional
        Fields to compare first, for structured arrays.
    stable : bool, optional
        True is ``kind='stable'``.
    descending : bool, optional
        True sorts from the greatest element down; not-a-number and not-a-time are
        last all the same, and a stable sort keeps equal elements in their order. As in
        NumPy 2.5.
    out : ndarray, optional
        Where the result goes, of the shape and dtype of the result; ``out=a``
        sorts in place.  When the sort fails (no memory, Ctrl-C, a CancelScope), another
        ``out`` than ``a`` may hold anything, and ``a`` its own elements in some order.
    less : compiled function, optional
        ``int less(const void *a, const void *b, void *data)``, whether the element at
        ``a`` goes before that at ``b``; see the kernels of ``par_map`` for what it may be.
        The sort is then stable.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.sort`` raises for the same mistake; an ``out`` of another
        shape or dtype, or read-only; as in NumPy 2.5, ``descending`` beside a ``kind``, or of
        objects and records.
    RuntimeError
        As in NumPy 2.5, ``descending`` of variable-width strings.

    Notes
    -----
    O(n log n) work at most.  Not-a-number and not-a-time go last, as in NumPy.

    - Integers, times and floats of 4 or 8 bytes: one parallel pass of
      most-significant-digit radix sort (after Zagha and Blelloch, 1991) into buckets that
      fit into a cache, over the range that a sample shows; each bucket is cut once more
      in the cache, into pieces for NumPy's own SIMD kernel.  Buckets that hold too much
      (skewed keys) are shared in turn.  What is sorted already, up or down, is only copied.
    - Booleans and integers of 1 or 2 bytes: counting sort.
    - Complex numbers, fixed-width strings, structured arrays, stable half precision: the
      order of ``par_argsort``, then every element is moved once.
    - Extended precision: merge sort, its merges cut into equal parts by co-ranking.
    - Many rows: one after another, the rows shared.
    - Objects and variable-width strings: NumPy, alone.

    Extra memory: for numbers of up to 8 bytes none of the size of the array where they lie
    evenly, at most n elements where they do not and in place; where the order comes first, that and what ``par_argsort`` needs, and in place
    one copy.  ``axis`` other than the last needs one copy.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_sort([3.0, np.nan, 1.0])
    array([ 1.,  3., nan])
    >>> pb.par_sort([3.0, np.nan, 1.0], descending=True)
    array([ 3.,  1., nan])
    """
    cdef ndarray x, result, rows
    cdef int ndim, along
    cdef bint down = goes_down(descending, kind), is_stable
    cdef int64_t n
    if progress is not None:
        return with_progress(
            progress, par_sort, (a, axis, kind, order),
            {"stable": stable, "descending": descending, "out": out, "less": less})
    if less is not None:
        if order is not None:
            raise ValueError("less: cannot be combined with order")
        np.sort(np.empty(0), -1, kind, stable=stable)       # NumPy's opinion of them
        return sort_by_kernel(np.asarray(a), axis, less, down, out, False)
    if not cnp.PyArray_CheckExact(a):
        if out is not None and a is not out and not is_plain(a):
            a = np.asarray(a)
        elif not is_plain(a):
            return sorted_by_numpy(a, axis, kind, order, stable, down, out)
        else:
            a = np.asarray(a)
    x = a
    if out is not None:
        check_out(x, axis, out, x.dtype)
    ndim = cnp.PyArray_NDIM(x)
    if cnp.PyArray_SIZE(x) < FEW_ITEMS or cnp.PyArray_ITEMSIZE(x) == 0:
        return sorted_by_numpy(x, axis, kind, order, stable, down, out)
    dtype = x.dtype
    is_stable = wants_stable(kind, stable)
    n = cnp.PyArray_SIZE(x) if axis is None else -1
    if kind is not None or order is not None or stable is not None or ndim != 1 or axis != -1:
        # What is wrong with the arguments, in NumPy's words.
        np.sort(np.empty((1,) * ndim, dtype), axis, kind, order, stable=stable)
    if axis is None:
        along = 0
    else:
        along = axis if axis >= 0 else axis + ndim
        n = cnp.PyArray_DIM(x, along)
    road = road_of(dtype, n, order, is_stable, down)
    if road is None or n == 0 or sizeof(Py_ssize_t) != 8:
        return sorted_by_numpy(x, axis, kind, order, stable, down, out)
    if axis is None:
        x = x.reshape(-1) if x.flags.c_contiguous else x.ravel()
        ndim = 1
    native = dtype.newbyteorder("=")
    target = out
    if (out is not None and along == ndim - 1 and out.dtype.isnative
            and cnp.PyArray_IS_C_CONTIGUOUS(out) and cnp.PyArray_ISALIGNED(out)):
        result = out
    else:
        # The layout of np.sort's copy, if the rows are contiguous in it.
        result = np.empty(np.moveaxis(x, along, -1).shape if ndim > 1 else (n,), native)
    rows = x if along == ndim - 1 else np.moveaxis(x, along, -1)
    if not (rows.dtype == native and cnp.PyArray_IS_C_CONTIGUOUS(rows) and cnp.PyArray_ISALIGNED(rows)):
        if may_overlap(rows, result):
            rows = rows.astype(native, order="C")
        else:
            result[...] = rows
            rows = result
    elif cnp.PyArray_DATA(rows) == cnp.PyArray_DATA(result):
        rows = result
    elif may_overlap(rows, result):
        rows = rows.copy()
    if road is by_key:
        sort_numbers(rows, result, is_stable, down)
    elif road is by_merge:
        sort_by_merging(rows, result, is_stable)
    else:
        sort_by_order(sort_fields(rows, order), rows, result, down)
    if result is target:
        return target
    sorted_ = result if along == ndim - 1 else np.moveaxis(result, -1, along)
    if target is not None:
        target[...] = sorted_
        return target
    if axis is None:
        return sorted_.astype(dtype, copy=False)
    if ndim == 1 and dtype.isnative:
        return sorted_
    # As np.sort's copy: in the array's own layout and byte order.
    target = np.empty_like(x)
    if target.dtype == sorted_.dtype and target.strides == sorted_.strides:
        return sorted_
    target[...] = sorted_
    return target


cdef str by_key = "keys"
cdef str by_merge = "merges"
cdef str by_fields = "fields"


cdef str road_of(object dtype, int64_t n, object order, bint stable, bint descending):
    """How rows of n are sorted; None: by NumPy."""
    cdef str kind = dtype.kind
    cdef int64_t size = dtype.itemsize
    if order is not None or kind == "V":
        if descending:
            return None
        return by_fields if sort_fields(np.empty(0, dtype), order) is not None else None
    if kind in "cSU" and size <= 16 or kind in "SU":
        return by_fields
    if kind not in key_kinds and kind != "c":
        return None
    if size > 8:
        return None if descending or n < 2 else by_merge
    if size <= 2:
        if kind == "f" and stable:
            return by_fields        # which keeps the order of zeros
        if n >= (COUNTED_BYTES if size == 1 else COUNTED_PAIRS):
            return by_key
        # NumPy's kernel, which has no other direction, and errs in half precision.
        return by_fields if descending or kind == "f" else None
    return by_key


cdef bint half_is_wrong(object dtype):
    """Half precision: NumPy's default kernel (seen in 2.4.6 with AVX-512) leaves
    arrays of some 10,000 items and more out of order; its stable one is right."""
    return dtype.kind == "f" and dtype.itemsize == 2


cdef object sorted_by_numpy(object a, object axis, object kind, object order, object stable, bint descending,
                            object out):
    if cnp.PyArray_CheckExact(a) and half_is_wrong(a.dtype):
        if stable is None and kind in (None, "quicksort", "heapsort"):
            kind = "stable"
    if out is not None and out is a and axis is not None and not descending:
        out.sort(axis, kind, order, stable=stable)
        return out
    result = by_numpy(np.sort, a, axis, kind, order, stable, descending)
    if out is None:
        return result
    out[...] = result
    return out
