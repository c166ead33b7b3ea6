# cython: wraparound=True, boundscheck=True
"""``par_argsort``."""
import numpy as np

cimport numpy as cnp
from numpy cimport ndarray

from pyblitz.arrays.common cimport numpys
from pyblitz.arrays.front cimport ARGSORT_NS, left, left_dtype, too_small
from pyblitz.arrays.front import operation
from pyblitz.arrays.sorting cimport (
    Fields, Rows, array_to_sort, check_sorted_out, goes_down, numpy_orders, rows_of, sort_by, sort_by_numpy,
    sort_fields)

cnp.import_array()


cdef object array_argsort = np.ndarray.argsort


def argsorted_by_numpy(a, axis=-1, kind=None, order=None, *, stable=None, descending=None, out=None, less=None):
    """The namesake."""
    if less is not None:
        return sort_by(a, axis, kind, order, stable, descending, out, less, True)
    down = goes_down(descending, kind)
    check_sorted_out(out, a, axis, True)
    if type(a) is list or type(a) is tuple:
        a = np.asarray(a)
    if isinstance(a, np.ndarray) and type(a).argsort is array_argsort and (stable is None or kind is None):
        # As for larger ones, where the engine is stable.
        if kind is not None and not (type(kind) is str and kind == "stable"):
            numpys.argsort(np.empty(1), 0, kind)    # what is wrong with it
        kind, stable = None, True
    result = sort_by_numpy(numpys.argsort, a, axis, kind, order, stable, down)
    if out is None:
        return result
    out[...] = result
    return out


@operation("a out", argsorted_by_numpy, method="argsort", gives="same", ns=ARGSORT_NS, twice="a")
def par_argsort(a, axis=-1, kind=None, order=None, *, stable=None, descending=None, out=None, less=None):
    """The indices that would sort an array, on all cores: ``np.argsort``.

    Parameters
    ----------
    kind : {'quicksort', 'mergesort', 'heapsort', 'stable'}, optional
        As for ``np.argsort``. The result is that of a stable sort for all of them; of
        masked arrays, and of containers that sort themselves, it is what theirs is.
    out : ndarray of intp, optional
        Where the result goes, of its shape.

    Returns
    -------
    ndarray of intp
        ``out`` if it was given.

    Notes
    -----
    O(n log n) work at most. Numbers, times, complex numbers and strings of fixed width
    are not compared: the bits in which the keys differ are packed above the index into
    words of 8 bytes (after Graefe, 2006), which one parallel pass of radix sort and a SIMD
    sort of each cache-sized bucket put into order; keys that tie in a word, because more
    bits vary than it holds, are sorted in turn by what follows. Where no more than 12 bits
    vary, the keys are counted instead: O(n). So are the values of one number of which a
    sample shows few (up to 4,096, and n / 128): hash tables number them first. Other dtypes
    (objects, variable-width strings, extended precision, nested fields): NumPy, alone.

    Extra memory: of one number at most 8 bytes for each element, 2 where keys are counted
    (and up to 13 MB for tables, where values are numbered), and none where many lie evenly; of
    several fields or strings at most 16; three words for each key that ties in the first word.
    The same permutation for any number of threads.

    Examples
    --------
    >>> pb.par_argsort([3.0, np.nan, 1.0, 3.0])
    array([2, 0, 3, 1])
    >>> pb.par_argsort([3.0, np.nan, 1.0, 3.0], descending=True)
    array([0, 3, 2, 1])
    """
    cdef ndarray x, result
    cdef Fields fields
    cdef Rows r
    cdef int across
    cdef bint down
    if less is not None:
        return sort_by(a, axis, kind, order, stable, descending, out, less, True)
    down = goes_down(descending, kind)
    x = array_to_sort(numpys.argsort, a, axis, kind, order, stable, out)
    if x is None or numpy_orders(x, down):
        return too_small
    if sizeof(Py_ssize_t) != 8:
        return left("indices of 32 bits")
    if down and x.dtype.kind == "V":
        return left_dtype(x.dtype)
    parts = sort_fields(x, order)
    if parts is None:
        return left_dtype(x.dtype)
    r = rows_of(x, axis, out)
    # What is read along its axis as it lies: of more axes, a copy.
    across = 0 if r.ndim == 1 else 1
    fields = Fields()
    for part in parts:
        if r.flat:
            part = part.ravel()
        elif cnp.PyArray_NDIM(x) > 2:
            part = np.ascontiguousarray(np.moveaxis(part, r.along, -1)).reshape(-1, part.shape[r.along])
        else:
            across = r.along
        fields.add(part, down)
    result = r.target(np.dtype(np.intp), fields.arrays)
    fields.order(across, result, None)
    return r.give(result, True)
