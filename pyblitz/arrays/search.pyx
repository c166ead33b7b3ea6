# cython: wraparound=True, boundscheck=True
"""``par_searchsorted``, ``par_digitize``."""
from functools import partial

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from numpy cimport ndarray

from pyblitz.arrays.common cimport at, longest_axis, number_of, run, run_fn, slices
from pyblitz.arrays.front cimport KEY_NS, as_array, Left, left, left_dtype, pays, too_small
from pyblitz.arrays.front import operation
from pyblitz.kernels.numbers cimport NUMBER_F64
from pyblitz.kernels.search cimport SortedSearch, search_run

cnp.import_array()

cdef enum:
    # Keys of a slice that is worth taking the GIL for.
    SLICE_KEYS = 8192

cdef dict sides = {"left": False, "right": True}


def search_part(a, v, side, sorter, out, axis, lo, hi):
    """np.searchsorted on a slice of the keys."""
    index = at(axis, lo, hi)
    out[index] = np.searchsorted(a, v[index], side, sorter)


cdef object search(ndarray a, ndarray v, object side, object sorter):
    """``np.searchsorted``, or what is left to it."""
    cdef SortedSearch s
    cdef ndarray result
    cdef int axis
    cdef int64_t keys = cnp.PyArray_SIZE(v)
    if cnp.PyArray_NDIM(a) != 1 or type(side) is not str or side not in sides or keys == 0:
        return left("arguments that it may refuse")
    dtype = a.dtype
    if v.dtype != dtype:
        try:
            dtype = np.promote_types(dtype, v.dtype)
        except TypeError:
            dtype = None
        if dtype is None or (a.dtype.kind != v.dtype.kind and {"m", "M"} & {a.dtype.kind, v.dtype.kind}):
            return left(f"{a.dtype} and {v.dtype}")
    # Numbers in order are in none as strings.
    if dtype.hasobject or (dtype.kind in "SUT" and dtype.kind != a.dtype.kind):
        return left_dtype(dtype)
    if sorter is not None:
        # A copy: what is looked at here is what is read later, whoever writes to the caller's.
        sorter = np.array(sorter)
        if sorter.dtype.kind not in "iu" or sorter.dtype == np.uint64 or sorter.shape != (<object>a).shape:
            return left("a sorter of another shape or dtype")
        if sorter.size and (sorter.min() < 0 or sorter.max() >= sorter.size):
            return left("a sorter out of bounds")
    native = dtype.newbyteorder("=")
    s.kind = number_of(native)
    shape = (<object>v).shape
    result = np.empty(shape, np.intp)
    if s.kind <= NUMBER_F64 and native.itemsize >= 4 and sizeof(Py_ssize_t) == 8:
        # What each slice would convert for itself.
        a = np.require(a if sorter is None else a[sorter], native, "CA")
        v = np.require(v, native, "CA")
        s.right = sides[side]
        s.row = <const char*>cnp.PyArray_DATA(a)
        s.n = cnp.PyArray_SIZE(a)
        s.keys = <const char*>cnp.PyArray_DATA(v)
        s.count = keys
        s.out = <int64_t*>cnp.PyArray_DATA(result)
        run(<run_fn>search_run, &s, "the search")
        return result
    axis = longest_axis(shape, range(len(shape)))
    slices("searchsorted", partial(
        search_part, np.require(a, dtype, "CA"), v, side, sorter, result, axis),
        max(1, SLICE_KEYS * shape[axis] // keys), shape[axis], None)
    return result


cdef bint is_text(object a):
    return cnp.PyArray_CheckExact(a) and a.dtype.kind == "T" and not hasattr(a.dtype, "na_object")


@operation("a v sorter", np.searchsorted, method="searchsorted")
def par_searchsorted(a, v, side="left", sorter=None):
    """Where items belong in a sorted array, on all cores: ``np.searchsorted``.

    Parameters
    ----------
    a : 1-D array_like
        Sorted, or ``sorter`` sorts it.
    v : array_like
        What to insert.
    side : {'left', 'right'}, optional
        Before equal items, or after them.
    sorter : 1-D array_like of int, optional
        Indices that sort ``a``, as from ``np.argsort``.

    Returns
    -------
    int or ndarray of int
        Of the shape of ``v``.

    Notes
    -----
    O(len(v) log(len(a))) work.  Of numbers of four or eight bytes, sixteen keys at a
    time take the steps of their binary searches together, so that they wait for
    memory together; of other types NumPy finds slices.  With ``sorter``, a sorted
    copy of ``a`` is made, or NumPy searches through it.

    Examples
    --------
    >>> pb.par_searchsorted([1, 2, 3], [0, 2, 9])
    array([0, 1, 3])
    """
    x, keys = as_array(a), as_array(v)
    if is_text(x) and is_text(keys):
        # Of StringDType NumPy's (2.4.6, its issue 31533) reads beyond what it copied.
        return np.searchsorted(x.astype(object), keys.astype(object), side, sorter)
    if not pays(cnp.PyArray_SIZE(keys), KEY_NS):
        return too_small
    return search(x, keys, side, sorter)


@operation("x bins", np.digitize, ns=KEY_NS)
def par_digitize(x, bins, right=False):
    """Which bin each value falls into, on all cores: ``np.digitize``.

    Parameters
    ----------
    x : array_like
    bins : 1-D array_like
        The edges, in increasing or decreasing order.
    right : bool, optional
        Whether a bin includes its right edge instead of its left one.

    Returns
    -------
    int or ndarray of int
        Of the shape of ``x``.

    Notes
    -----
    As ``par_searchsorted``: O(len(x) log(len(bins))) work.

    Examples
    --------
    >>> pb.par_digitize([0.2, 6.4, 3.0], [0.0, 1.0, 2.5, 4.0])
    array([1, 4, 3])
    """
    x, edges = as_array(x), np.asarray(bins)
    if x.ndim == 0:
        return too_small
    if x.dtype.kind not in "biuf" or edges.ndim != 1 or edges.size == 0 or edges.dtype.kind not in "biuf":
        return left_dtype(x.dtype)
    # NumPy's opinion of the bins, and what it says of them.
    np.digitize(np.empty(0, x.dtype), edges, right)
    if edges.dtype.kind == "f" and np.isnan(edges).any():
        return left("edges that are no numbers")
    side = "left" if right else "right"
    if edges[0] <= edges[-1]:
        return search(edges, x, side, None)
    result = search(edges[::-1], x, side, None)
    if type(result) is not Left:
        np.subtract(edges.size, result, out=result)
    return result
