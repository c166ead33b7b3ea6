# cython: wraparound=True, boundscheck=True
"""``par_bincount``, ``par_histogram``."""
import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from numpy cimport ndarray

from pyblitz._progress import with_progress
from pyblitz._python cimport Entry, enter, leave
from pyblitz.arrays.common cimport check
from pyblitz.kernels.count cimport (
    BIN_EXTREMES, BIN_ITEM, BIN_SEARCH, BIN_WIDTH_F32, BIN_WIDTH_F64, ITEM_F32, ITEM_F64,
    ITEM_I8, ITEM_I16, ITEM_I32, ITEM_I64, ITEM_U8, ITEM_U16, ITEM_U32, ITEM_U64, Count,
    count_blocks, count_run)
from pyblitz.kernels.search cimport SEARCH_F64
from pyblitz.runtime.atomic cimport u32_load_relaxed

cnp.import_array()

cdef enum:
    # Fewer items are counted before another thread could help.
    FEW_ITEMS = 32768
    # Items that are looked at to guess how many bins there are.
    SAMPLES = 512

cdef dict item_kinds = {
    "b1": ITEM_U8, "i1": ITEM_I8, "u1": ITEM_U8, "i2": ITEM_I16, "u2": ITEM_U16, "i4": ITEM_I32,
    "u4": ITEM_U32, "i8": ITEM_I64, "u8": ITEM_U64, "f4": ITEM_F32, "f8": ITEM_F64,
}
# Integers below it are doubles, too.
cdef double exact = 2.0 ** 53


cdef bint fill(Count* c, ndarray a) except -1:
    """Whether there is a kernel for the items of a."""
    kind = item_kinds.get(a.dtype.str[1:])
    if (kind is None or not a.dtype.isnative or not cnp.PyArray_ISALIGNED(a)
            or not cnp.PyArray_IS_C_CONTIGUOUS(a) or sizeof(Py_ssize_t) != 8):
        return False
    c.kind = kind
    c.items = <const char*>cnp.PyArray_DATA(a)
    c.n = cnp.PyArray_SIZE(a)
    return True


cdef ndarray run(Count* c, ndarray weights):
    """The counts, or the sums of the weights; None: there are too many bins, or an
    item lies outside."""
    cdef Entry e
    cdef int rc
    cdef ndarray result
    c.weights = NULL if weights is None else <double*>cnp.PyArray_DATA(weights)
    if count_blocks(c) < 2:
        return None
    result = np.empty(c.bins, np.intp if weights is None else np.float64)
    c.counts = <int64_t*>cnp.PyArray_DATA(result)
    c.sums = <double*>cnp.PyArray_DATA(result)
    with nogil:
        enter(&e)
        rc = count_run(e.worker, c)
        rc = leave(&e, rc)
    check(rc, "the tables")
    return None if u32_load_relaxed(&c.outside) else result


# ---- bincount ---------------------------------------------------------------

cdef object bincount(ndarray x, object weights, int64_t minlength):
    """The result, or None: NumPy is to do it alone."""
    cdef Count c
    cdef ndarray result
    cdef object low, high
    cdef int64_t length
    cdef int attempt
    if x.dtype.kind not in "biu" or x.dtype == np.uint64 or not fill(&c, x):
        return None
    if weights is not None:
        if (not cnp.PyArray_CheckExact(weights) or weights.shape != (<object>x).shape
                or not np.can_cast(weights.dtype, np.float64)):
            return None
        weights = np.require(weights, np.float64, "CA")
    c.binning = BIN_ITEM
    some = x[::max(<int64_t>1, c.n // SAMPLES)]
    for attempt in range(2):
        low, high = int(some.min()), int(some.max())
        if low < 0:
            return None
        c.bins = max(1 << min(high.bit_length(), 40), 1)
        result = run(&c, weights)
        if result is not None:
            break
        if attempt or u32_load_relaxed(&c.outside) == 0 or c.blocks < 2:
            return None
        some = x
    if weights is None:
        length = np.flatnonzero(result)[-1] + 1
    else:
        length = c.top + 1
    if minlength <= length:
        return result[:length].copy() if length < c.bins else result
    longer = np.zeros(minlength, result.dtype)
    longer[:length] = result[:length]
    return longer


def par_bincount(x, /, weights=None, minlength=0, *, progress=None):
    """How often each number occurs, on all cores: ``np.bincount``.

    Parameters
    ----------
    x : 1-D array_like of int
        Not negative.
    weights : array_like, optional
        What each item counts, instead of one.
    minlength : int, optional
        The least length of the result.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray of int, or of float with weights

    Raises
    ------
    TypeError, ValueError
        What ``np.bincount`` raises for the same mistake.

    Notes
    -----
    O(n + bins) work.  Blocks of items are counted in tables of their own, at most 64,
    which are then added up; their number depends on the number of items and of bins
    alone, so sums of weights have the same bits for any number of threads, though they
    may be rounded otherwise than NumPy's.  Where there are nearly as many bins as
    items, NumPy counts alone.

    Examples
    --------
    >>> import pyblitz as pb
    >>> pb.par_bincount([0, 1, 1, 3, 2, 1])
    array([1, 3, 1, 1])
    """
    if progress is not None:
        return with_progress(progress, par_bincount, (x, weights, minlength), {})
    if (not cnp.PyArray_CheckExact(x) or cnp.PyArray_SIZE(<ndarray>x) < FEW_ITEMS
            or cnp.PyArray_NDIM(<ndarray>x) != 1 or type(minlength) is not int
            or not 0 <= minlength <= cnp.PyArray_SIZE(<ndarray>x)):
        return np.bincount(x, weights, minlength)
    result = bincount(x, weights, minlength)
    return np.bincount(x, weights, minlength) if result is None else result


# ---- histogram --------------------------------------------------------------

cdef bint extremes(Count* c) except -1:
    """Finds the least and the greatest item; false: one is not finite."""
    cdef Entry e
    cdef int rc
    c.binning = BIN_EXTREMES
    c.weights = NULL
    c.bins = 1
    if count_blocks(c) < 1:
        return False
    with nogil:
        enter(&e)
        rc = count_run(e.worker, c)
        rc = leave(&e, rc)
    check(rc, "the tables")
    return u32_load_relaxed(&c.outside) == 0


cdef bint is_exact(ndarray a, object edges) except -1:
    """Whether items and edges compare as doubles as they do themselves."""
    if a.dtype.itemsize < 8 or a.dtype.kind == "f":
        return edges.dtype.kind == "f" or edges.dtype.itemsize < 8 or (
            -exact < edges[0] and edges[-1] < exact)
    return -exact < edges[0] and edges[-1] < exact


cdef object histogram(ndarray a, object bins, object limits, ndarray weights):
    """Counts and edges, or None: NumPy is to do it alone."""
    cdef Count c
    cdef ndarray typed, counts
    if a.dtype.kind not in "iuf" or not fill(&c, a):
        return None
    if isinstance(bins, str) or np.ndim(bins) == 0:
        if isinstance(bins, str):
            if weights is not None:
                return None
            edges = np.histogram_bin_edges(a, bins, limits)
        elif limits is None:
            if not extremes(&c):
                return None
            if a.dtype.itemsize == 8 and a.dtype.kind != "f" and not (
                    -exact < c.low and c.high < exact):
                return None
            edges = np.histogram_bin_edges(np.array([c.low, c.high]).astype(a.dtype), bins)
        else:
            edges = np.histogram_bin_edges(a[:1], bins, limits)
        if edges.dtype == np.float64:
            c.binning = BIN_WIDTH_F64
        elif edges.dtype == np.float32 and a.dtype == np.float32:
            c.binning = BIN_WIDTH_F32
        else:
            return None
        c.bins = edges.size - 1
        # A computed bin must not be wrong by more than one: a width of all bins that
        # is finite, and of one that is many roundings of any edge.
        span = float(edges[-1]) - float(edges[0])
        rounding = 64 * np.finfo(edges.dtype).eps
        if not (c.bins * rounding < 1 and abs(edges[[0, -1]]).max() * rounding < span / c.bins
                and 1e-30 < span < 1e30 and (edges[:-1] < edges[1:]).all()):
            return None
        c.scale = c.bins / span
        if not is_exact(a, edges):
            return None
        # The last bin has both its edges.
        typed = np.concatenate([
            [-np.inf], edges[:-1], [np.nextafter(edges[-1], edges.dtype.type(np.inf)), np.nan]
        ]).astype(edges.dtype)
        c.edges = <const char*>cnp.PyArray_DATA(typed)
    else:
        # NumPy's opinion of the bins, and what it says of them.
        edges = np.histogram(a[:0], bins, limits)[1]
        if (not cnp.PyArray_CheckExact(edges) or edges.size < 2 or edges.dtype.kind not in "iuf"
                or edges.dtype.itemsize > 8 or not is_exact(a, edges)
                or (edges.dtype.kind == "f" and np.isnan(edges).any())):
            return None
        typed = edges.astype(np.float64)
        # The last bin has both its edges; all numbers are before not-a-number.
        (<object>typed)[-1] = np.nextafter(typed[-1], np.inf) if typed[-1] < np.inf else np.nan
        c.binning = BIN_SEARCH
        c.bins = edges.size - 1
        c.search.kind = SEARCH_F64
        c.search.right = True
        c.search.row = <const char*>cnp.PyArray_DATA(typed)
        c.search.n = edges.size
    counts = run(&c, weights)
    return None if counts is None else (counts, edges)


def par_histogram(a, bins=10, range=None, density=None, weights=None, *, progress=None):
    """Counts values in bins, on all cores: ``np.histogram``.

    Parameters
    ----------
    a : array_like
        Counted as one row.
    bins : int or sequence of scalars or str, optional
        The number of bins of one width, all edges, or the name of a rule for their
        number (as for ``np.histogram_bin_edges``, which applies it).
    range : (float, float), optional
        The outer edges; values outside are not counted.  By default the least and the
        greatest value.
    density : bool, optional
        Whether to return densities, whose integral is one, instead of counts.
    weights : array_like, optional
        What each value counts, instead of one.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    hist : ndarray
    bin_edges : ndarray

    Raises
    ------
    TypeError, ValueError
        What ``np.histogram`` raises for the same mistake.

    Notes
    -----
    O(n) work for bins of one width, O(n log(bins)) for given edges.  Counts and edges
    are exactly NumPy's.  Blocks of values are counted in tables of their own, at most
    64, which are then added up; sums of weights have the same bits for any number of
    threads, but may be rounded otherwise than NumPy's.

    Examples
    --------
    >>> import pyblitz as pb
    >>> pb.par_histogram([1, 2, 1], bins=[0, 1, 2, 3])
    (array([0, 2, 1]), array([0, 1, 2, 3]))
    """
    if progress is not None:
        return with_progress(progress, par_histogram, (a, bins, range, density, weights), {})
    if (not cnp.PyArray_CheckExact(a) or cnp.PyArray_SIZE(<ndarray>a) < FEW_ITEMS
            or not (weights is None or (cnp.PyArray_CheckExact(weights)
                                        and weights.dtype == np.float64
                                        and weights.shape == a.shape))):
        return np.histogram(a, bins, range, density, weights)
    result = histogram(
        np.ascontiguousarray(a).reshape(-1), bins, range,
        None if weights is None else np.require(weights, np.float64, "CA").reshape(-1))
    if result is None:
        return np.histogram(a, bins, range, density, weights)
    if density:
        counts, edges = result
        widths = np.array(np.diff(edges), float)
        return counts / widths / counts.sum(), edges
    return result
