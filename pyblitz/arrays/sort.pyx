# cython: wraparound=True, boundscheck=True
"""``par_sort``."""
import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.string cimport memcpy
from numpy cimport ndarray

from pyblitz._progress import with_progress
from pyblitz._python cimport Entry, enter, leave
from pyblitz.arrays.common cimport check, is_plain, may_overlap
from pyblitz.arrays.merge cimport sort_by_kernel
from pyblitz.kernels.merge cimport (
    ORDER_COMPARE, MergeSort, compare_fn, compare_half, merge_sort, order_by, sort_fn, sort_rows)
from pyblitz.kernels.sort cimport (
    KEY_FLOAT, KEY_SIGNED, KEY_TIME, KEY_UNSIGNED, SORT_MIN_ITEMS, Sort, counting_sort,
    radix_sort)

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyArray_ArrFuncs:
        sort_fn sort[3]
        compare_fn compare
    PyArray_ArrFuncs* PyDataType_GetArrFuncs(cnp.PyArray_Descr*)

cdef dict key_kinds = {
    "b": KEY_UNSIGNED, "u": KEY_UNSIGNED, "i": KEY_SIGNED, "f": KEY_FLOAT,
    "m": KEY_TIME, "M": KEY_TIME,
}


cdef bint wants_stable(object kind, object stable):
    return bool(stable) or (kind is not None and str(kind)[:1].lower() in "sm")


cdef object sort_into(ndarray source, ndarray result, bint stable, bint in_place):
    """Sorts the rows of a contiguous array along its last axis into another, or
    in place when both are one.  ``in_place``: the caller has no other copy."""
    cdef Sort s
    cdef MergeSort m
    cdef Entry e
    cdef int rc = 0
    cdef int64_t rows, row
    cdef PyArray_ArrFuncs* f = PyDataType_GetArrFuncs(cnp.PyArray_DESCR(result))
    cdef object copy = None
    cdef str kind = result.dtype.kind
    cdef int ndim = cnp.PyArray_NDIM(result)
    cdef bint counts, radix, by_row
    s.n = cnp.PyArray_DIM(result, ndim - 1)
    s.itemsize = cnp.PyArray_ITEMSIZE(result)
    s.arr = <void*>result
    s.leaf = f.sort[2] if stable or half_is_wrong(kind, s.itemsize) else f.sort[0]
    rows = cnp.PyArray_SIZE(result) // s.n
    # Equal keys of these types cannot be told apart, so any order is stable;
    # floats can, by the sign of zero.
    radix = kind in key_kinds and (kind != "f" or not stable) and s.leaf != NULL
    counts = radix and s.itemsize <= 2 and s.n >= (16384 if s.itemsize == 1 else 1048576)
    radix = radix and (s.itemsize == 4 or s.itemsize == 8)
    if radix or counts:
        s.kind = key_kinds[kind]
    by_row = (rows >= 16 or s.n < SORT_MIN_ITEMS) and not counts
    if source is result and not by_row and (radix or (counts and in_place)):
        copy = source.copy()
        source = copy
    s.src = <const char*>cnp.PyArray_DATA(source)
    s.dst = <char*>cnp.PyArray_DATA(result)
    m.src, m.dst, m.n, m.leaf, m.arr = s.src, s.dst, s.n, s.leaf, s.arr
    order_by(&m.order, ORDER_COMPARE,
             <void*>(compare_half if kind == "f" and s.itemsize == 2 else f.compare), s.arr, s.itemsize)
    with nogil:
        enter(&e)
        if by_row:
            rc = sort_rows(e.worker, &m, rows)
        else:
            for row in range(rows):
                if counts:
                    rc = counting_sort(e.worker, &s)
                elif radix:
                    rc = radix_sort(e.worker, &s)
                else:
                    rc = merge_sort(e.worker, &m)
                if rc != 0:
                    break
                s.src += s.n * s.itemsize
                s.dst += s.n * s.itemsize
                m.src, m.dst = s.src, s.dst
        if rc != 0 and in_place and (radix or counts) and not by_row:
            # In the middle items are here twice and there not at all.
            memcpy(cnp.PyArray_DATA(result), cnp.PyArray_DATA(source), cnp.PyArray_NBYTES(result))
        rc = leave(&e, rc)
    check(rc, "the sort")


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
        Fields to compare, for structured arrays.
    stable : bool, optional
        True is ``kind='stable'``.
    out : ndarray, optional
        Where the result goes, of the shape and dtype of the result; ``out=a``
        sorts in place.  When the sort fails (no memory, Ctrl-C, a CancelScope), another
        ``out`` than ``a`` may hold anything, and ``a`` its own elements in some order.
    less : compiled function, optional
        ``int less(const void* a, const void* b, void* user)``: not 0 when the item that
        ``a`` points to goes before ``b``'s; the last argument may be left out, and the
        result be a bool. A Cython ``cdef`` function that raises ends the sort. The sort is
        stable then, whatever ``kind`` says.
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
        shape or dtype, or read-only.

    Notes
    -----
    O(n log n) work.  Not-a-number and not-a-time go last, as in NumPy.

    - Integers, times and floats of 4 or 8 bytes: one parallel pass of
      most-significant-digit radix sort into buckets that fit into a cache, each
      then sorted by NumPy's own kernel.
    - Booleans, integers and floats of 1 or 2 bytes: counting sort.
    - Complex numbers, fixed-width strings, and floats when a stable sort is
      asked for: merge sort, its merges cut into equal parts by co-ranking.
    - Many rows: one after another by NumPy's kernel, the rows shared.
    - Structured, object and variable-width string arrays: NumPy, alone.

    Extra memory: one copy of a row in place or merging, otherwise none of the
    size of the array; ``axis`` other than the last needs one copy.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_sort([3.0, np.nan, 1.0])
    array([ 1.,  3., nan])
    """
    cdef ndarray x, result, rows
    cdef int ndim, along
    if progress is not None:
        return with_progress(
            progress, par_sort, (a, axis, kind, order),
            {"stable": stable, "descending": descending, "out": out, "less": less})
    if less is not None:
        if order is not None:
            raise ValueError("less: cannot be combined with order")
        np.sort(np.empty(0), -1, kind, stable=stable)       # NumPy's opinion of them
        return sort_by_kernel(np.asarray(a), axis, less, bool(descending), out, False)
    if descending is not None:
        raise NotImplementedError("descending: not yet without less")
    if not cnp.PyArray_CheckExact(a):
        if out is not None and a is not out and not is_plain(a):
            a = np.asarray(a)
        elif not is_plain(a):
            return sorted_by_numpy(a, axis, kind, order, stable, out)
        else:
            a = np.asarray(a)
    x = a
    if out is not None:
        check_sort_out(x, axis, out)
    ndim = cnp.PyArray_NDIM(x)
    if (cnp.PyArray_SIZE(x) * cnp.PyArray_ITEMSIZE(x) < SORT_MIN_ITEMS
            or x.dtype.hasobject or x.dtype.kind not in "biufcmMSU" or x.dtype.itemsize == 0
            or order is not None):
        return sorted_by_numpy(x, axis, kind, order, stable, out)
    # What is wrong with the arguments, in NumPy's words.
    np.sort(np.empty((1,) * ndim, x.dtype), axis, kind, stable=stable)
    if axis is None:
        x = x.reshape(-1) if x.flags.c_contiguous else x.ravel()
        ndim, along = 1, 0
    else:
        along = axis if axis >= 0 else axis + ndim
    if cnp.PyArray_SIZE(x) < SORT_MIN_ITEMS:
        return sorted_by_numpy(a, axis, kind, order, stable, out)
    native = x.dtype.newbyteorder("=")
    is_stable = wants_stable(kind, stable)
    if native.kind in "SUc" or native.itemsize > 8:
        if PyDataType_GetArrFuncs(<cnp.PyArray_Descr*>native).compare == NULL:
            return sorted_by_numpy(a, axis, kind, order, stable, out)
    target = out
    if (out is not None and along == ndim - 1 and out.dtype.isnative
            and cnp.PyArray_IS_C_CONTIGUOUS(out) and cnp.PyArray_ISALIGNED(out)):
        result = out
    else:
        # The layout of np.sort's copy, if the rows are contiguous in it.
        result = np.empty(np.moveaxis(x, along, -1).shape, native)
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
    sort_into(rows, result, is_stable, rows is target)
    if result is target:
        return target
    sorted_ = result if along == ndim - 1 else np.moveaxis(result, -1, along)
    if target is not None:
        target[...] = sorted_
        return target
    if axis is None:
        return sorted_.astype(x.dtype, copy=False)
    # As np.sort's copy: in the array's own layout and byte order.
    target = np.empty_like(x)
    if target.dtype == sorted_.dtype and target.strides == sorted_.strides:
        return sorted_
    target[...] = sorted_
    return target


cdef bint half_is_wrong(str kind, int64_t itemsize):
    """Half precision: NumPy's default kernel (seen in 2.4.6 with AVX-512) leaves
    arrays of some 10,000 items and more out of order; its stable one is right."""
    return kind == "f" and itemsize == 2


cdef object sorted_by_numpy(object a, object axis, object kind, object order, object stable, object out):
    if cnp.PyArray_CheckExact(a) and half_is_wrong(a.dtype.kind, a.dtype.itemsize):
        if stable is None and kind in (None, "quicksort", "heapsort"):
            kind = "stable"
    if out is None:
        return np.sort(a, axis, kind, order, stable=stable)
    if out is a and axis is not None:
        out.sort(axis, kind, order, stable=stable)
    else:
        out[...] = np.sort(a, axis, kind, order, stable=stable)
    return out


cdef object check_sort_out(object a, object axis, object out):
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out: must be an array, not {type(out).__name__}")
    shape = (a.size,) if axis is None else a.shape
    if out.shape != shape:
        raise ValueError(f"out: shape {out.shape} does not match that of the result, {shape}")
    if out.dtype != a.dtype:
        raise TypeError(f"out: dtype {out.dtype} does not match that of the result, {a.dtype}")
    if not out.flags.writeable:
        raise ValueError("out: output array is read-only")
