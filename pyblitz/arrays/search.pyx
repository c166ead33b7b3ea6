# cython: wraparound=True, boundscheck=True
"""``par_searchsorted``, ``par_digitize``."""
import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from numpy cimport ndarray

from pyblitz._progress import with_progress
from pyblitz._python cimport Entry, enter, leave
from pyblitz.arrays.common cimport Slices, at, check, is_plain, longest_axis
from pyblitz.kernels.search cimport (
    SEARCH_F32, SEARCH_F64, SEARCH_I32, SEARCH_I64, SEARCH_U32, SEARCH_U64, Search, search_run)

cnp.import_array()

cdef enum:
    # Fewer keys are found before another thread could help.
    FEW_KEYS = 2048
    # Keys of a slice that is worth taking the GIL for.
    SLICE_KEYS = 8192

cdef dict search_kinds = {
    "i4": SEARCH_I32, "u4": SEARCH_U32, "i8": SEARCH_I64, "u8": SEARCH_U64,
    "f4": SEARCH_F32, "f8": SEARCH_F64,
}
cdef dict sides = {"left": False, "right": True}


cdef class SlicedSearch(Slices):
    """np.searchsorted for slices of the keys."""
    cdef ndarray a
    cdef ndarray v
    cdef object side
    cdef object sorter
    cdef ndarray out
    cdef int axis

    cdef object part(self, int64_t lo, int64_t hi):
        index = at(self.axis, lo, hi)
        self.out[index] = np.searchsorted(self.a, self.v[index], self.side, self.sorter)


cdef object search(ndarray a, ndarray v, object side, object sorter):
    """The result, or None: NumPy is to do it alone.  For v that is not small."""
    cdef Search s
    cdef Entry e
    cdef SlicedSearch sliced
    cdef int rc
    cdef int64_t keys = cnp.PyArray_SIZE(v)
    cdef ndarray result
    if cnp.PyArray_NDIM(a) != 1 or type(side) is not str or side not in sides:
        return None
    dtype = a.dtype
    if v.dtype != dtype:
        try:
            dtype = np.promote_types(dtype, v.dtype)
        except TypeError:
            return None
    # Numbers in order are in none as strings.
    if dtype.hasobject or (dtype.kind in "SUT" and dtype.kind != a.dtype.kind):
        return None
    if sorter is not None:
        if not cnp.PyArray_CheckExact(sorter) or sorter.dtype != np.intp or sorter.shape != (<object>a).shape:
            return None
        if sorter.size and (sorter.min() < 0 or sorter.max() >= sorter.size):
            return None
    kind = search_kinds.get(dtype.str[1:]) if dtype.isnative else None
    shape = (<object>v).shape
    if kind is not None and v.dtype == dtype and cnp.PyArray_ISALIGNED(v) and (
            cnp.PyArray_IS_C_CONTIGUOUS(v)):
        if sorter is not None:
            a = a[sorter]
        a = np.require(a, dtype, "CA")
        result = np.empty(shape, np.intp)
        if sizeof(Py_ssize_t) == 8:
            s.kind = kind
            s.right = sides[side]
            s.row = <const char*>cnp.PyArray_DATA(a)
            s.n = cnp.PyArray_SIZE(a)
            s.keys = <const char*>cnp.PyArray_DATA(v)
            s.out = <int64_t*>cnp.PyArray_DATA(result)
            with nogil:
                enter(&e)
                rc = search_run(e.worker, &s, keys)
                rc = leave(&e, rc)
            check(rc, "the search")
            return result
    sliced = SlicedSearch("searchsorted", False)
    # What each slice would convert for itself.
    sliced.a = np.require(a, dtype, "CA")
    sliced.v = v
    sliced.side = side
    sliced.sorter = sorter
    sliced.out = result = np.empty(shape, np.intp)
    sliced.axis = longest_axis(shape, range(len(shape)))
    sliced.run(max(1, SLICE_KEYS * shape[sliced.axis] // keys), shape[sliced.axis], False)
    return result


cdef bint is_text(object a):
    return cnp.PyArray_CheckExact(a) and a.dtype.kind == "T" and not hasattr(a.dtype, "na_object")


def par_searchsorted(a, v, side="left", sorter=None, *, progress=None):
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
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    int or ndarray of int
        Of the shape of ``v``.

    Raises
    ------
    TypeError, ValueError
        What ``np.searchsorted`` raises for the same mistake.

    Notes
    -----
    O(len(v) log(len(a))) work.  Of numbers of four or eight bytes, sixteen keys at a
    time take the steps of their binary searches together, so that they wait for
    memory together; of other types NumPy finds slices.  With ``sorter``, a sorted
    copy of ``a`` is made, or NumPy searches through it.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_searchsorted([1, 2, 3], [0, 2, 9])
    array([0, 1, 3])
    """
    if progress is not None:
        return with_progress(progress, par_searchsorted, (a, v, side, sorter), {})
    if is_text(a) and is_text(v):
        # Of these NumPy (2.4.6, its issue 31533) reads beyond what it copied.
        a, v = a.astype(object), v.astype(object)
    if (not cnp.PyArray_CheckExact(v) or cnp.PyArray_SIZE(<ndarray>v) < FEW_KEYS
            or not (cnp.PyArray_CheckExact(a) or type(a) is list or type(a) is tuple)):
        return np.searchsorted(a, v, side, sorter)
    x = np.asarray(a)
    result = search(x, v, side, np.asarray(sorter) if type(sorter) is list else sorter)
    return np.searchsorted(a, v, side, sorter) if result is None else result


def par_digitize(x, bins, right=False, *, progress=None):
    """Which bin each value falls into, on all cores: ``np.digitize``.

    Parameters
    ----------
    x : array_like
    bins : 1-D array_like
        The edges, in increasing or decreasing order.
    right : bool, optional
        Whether a bin includes its right edge instead of its left one.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    int or ndarray of int
        Of the shape of ``x``.

    Raises
    ------
    TypeError, ValueError
        What ``np.digitize`` raises for the same mistake.

    Notes
    -----
    As ``par_searchsorted``: O(len(x) log(len(bins))) work.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_digitize([0.2, 6.4, 3.0], [0.0, 1.0, 2.5, 4.0])
    array([1, 4, 3])
    """
    if progress is not None:
        return with_progress(progress, par_digitize, (x, bins, right), {})
    if (not cnp.PyArray_CheckExact(x) or cnp.PyArray_SIZE(<ndarray>x) < FEW_KEYS
            or not is_plain(bins) or x.dtype.kind not in "biuf"):
        return np.digitize(x, bins, right)
    edges = np.asarray(bins)
    if edges.ndim != 1 or edges.size == 0 or edges.dtype.kind not in "biuf":
        return np.digitize(x, bins, right)
    # NumPy's opinion of the bins, and what it says of them.
    np.digitize(np.empty(0, x.dtype), edges, right)
    if edges.dtype.kind == "f" and np.isnan(edges).any():
        return np.digitize(x, bins, right)
    side = "left" if right else "right"
    if edges[0] > edges[-1]:
        result = search(edges[::-1], x, side, None)
        if result is not None:
            np.subtract(edges.size, result, out=result)
    else:
        result = search(edges, x, side, None)
    return np.digitize(x, bins, right) if result is None else result
