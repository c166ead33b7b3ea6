# cython: wraparound=True, boundscheck=True
"""``par_bincount``, ``par_histogram``."""
import operator

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t, uint64_t
from numpy cimport ndarray

from pyblitz.arrays.common cimport number_of, run, run_fn
from pyblitz.arrays.copy cimport cast_to, native_row
from pyblitz.arrays.evaluate cimport apply
from pyblitz.arrays.fold cimport extremes_of, reduce_node
from pyblitz.arrays.front cimport (
    BIN_NS, COUNT_NS, Left, count_left, left, left_dtype, no_value, private_copy, too_small)
from pyblitz.arrays.front import operation
from pyblitz.arrays.nodes cimport cast, node_of
from pyblitz.kernels.count cimport (
    BIN_ITEM, BIN_SEARCH, BIN_WIDTH_F32, BIN_WIDTH_F64, Count, count_bits, count_blocks, count_run)
from pyblitz.kernels.numbers cimport NUMBER_F64
from pyblitz.runtime.atomic cimport u32_load_relaxed

cnp.import_array()

cdef enum:
    # Items that are looked at to guess how many bins there are.
    SAMPLES = 512
    # More of them no memory has.
    MOST_BINS = 1099511627776

# Integers below it are doubles, too.
cdef double exact = 2.0 ** 53


cdef bint take_items(Count* c, ndarray a) except -1:
    """Whether there is a kernel for the items of a, which is a native row."""
    c.kind = number_of(a.dtype)
    if c.kind > NUMBER_F64 or sizeof(Py_ssize_t) != 8:
        return False
    c.items = <const char*>cnp.PyArray_DATA(a)
    c.n = cnp.PyArray_SIZE(a)
    return True


cdef ndarray counts_in_bins(Count* c, ndarray weights):
    """The counts, or the sums of the weights; None: there are too many bins, or an
    item lies outside."""
    cdef ndarray result
    c.weights = NULL if weights is None else <double*>cnp.PyArray_DATA(weights)
    if count_blocks(c) < 1:
        return None
    result = (np.zeros if c.direct else np.empty)(c.bins, np.intp if weights is None else np.float64)
    c.counts = <int64_t*>cnp.PyArray_DATA(result)
    c.sums = <double*>cnp.PyArray_DATA(result)
    run(<run_fn>count_run, c, "the tables")
    return None if u32_load_relaxed(&c.outside) else result


cdef ndarray doubles(object weights):
    return native_row(cast_to(weights, np.dtype(np.float64)))


# ---- bincount ---------------------------------------------------------------

cdef object bincount(ndarray x, object weights, object minlength):
    """The result, or what is left to NumPy."""
    cdef Count c
    cdef ndarray result
    cdef cnp.dtype dtype = x.descr
    cdef int64_t step
    cdef uint64_t bits
    cdef int attempt
    if dtype.kind not in b"biu" or (dtype.kind == b"u" and dtype.itemsize == 8) or not take_items(&c, x):
        return left_dtype(dtype)
    c.binning = BIN_ITEM
    step = max(<int64_t>1, c.n // SAMPLES)
    for attempt in range(3):
        bits = count_bits(&c, step)
        if bits >> 62:
            # In NumPy's words; the array, if another thread writes it, is not safe with them.  Nor is it if
            # it has the greatest integer: the length of the result is one more.
            np.bincount(np.full(1, -1 if bits >> 63 else 1 << 62))
        c.bins = 1
        while c.bins < <int64_t>MOST_BINS and <uint64_t>c.bins <= bits:
            c.bins *= 2
        result = counts_in_bins(&c, weights)
        if result is not None:
            break
        if c.blocks < 1:
            count_left("par_bincount", "few items for each bin", cnp.PyArray_NBYTES(x))
            return np.bincount(private_copy(x), weights, minlength)
        if attempt:
            # Another thread writes the items, but does not know the copy.
            x = x.copy()
            take_items(&c, x)
        step = 1
    if minlength <= c.bins:
        result.resize(max(c.top + 1, minlength), refcheck=False)
        return result
    # Memory that nobody touches costs nothing.
    longer = np.zeros(minlength, result.dtype)
    longer[:c.top + 1] = result[:c.top + 1]
    return longer


@operation("x weights", np.bincount, ns=BIN_NS, twice="x")
def par_bincount(x, /, weights=None, minlength=0):
    """How often each number occurs, on all cores: ``np.bincount``.

    Parameters
    ----------
    x : 1-D array_like of int
        Not negative.
    weights : array_like, optional
        What each item counts, instead of one.
    minlength : int, optional
        The least length of the result.

    Returns
    -------
    ndarray of int, or of float with weights

    Notes
    -----
    O(n + bins) work.  Blocks of items are counted in tables of their own, at most 64,
    which are then added up; their number depends on the number of items and of bins
    alone, so sums of weights have the same bits for any number of threads, though they
    may be rounded otherwise than NumPy's.  With few items for each
    bin one thread counts, and with several bins for each item NumPy does.

    Examples
    --------
    >>> pb.par_bincount([0, 1, 1, 3, 2, 1])
    array([1, 3, 1, 1])
    """
    if not cnp.PyArray_CheckExact(x) or cnp.PyArray_NDIM(<ndarray>x) != 1 or not hasattr(minlength, "__index__"):
        return left("arguments that it refuses")
    least = operator.index(minlength)
    if not 0 <= least < 1 << 60:
        return left("arguments that it refuses")
    if weights is not None:
        if (not cnp.PyArray_CheckExact(weights) or weights.shape != x.shape
                or not np.can_cast(weights.dtype, np.float64)):
            return left("weights that it refuses")
        weights = doubles(weights)
    return bincount(native_row(x), weights, least)


# ---- histogram --------------------------------------------------------------

cdef bint is_exact(ndarray a, object edges) except -1:
    """Whether items and edges compare as doubles as they do themselves."""
    if a.dtype.itemsize < 8 or a.dtype.kind == "f":
        return edges.dtype.kind == "f" or edges.dtype.itemsize < 8 or (
            -exact < edges[0] and edges[-1] < exact)
    return -exact < edges[0] and edges[-1] < exact


cdef Left not_apart = left("edges that doubles do not tell apart")


cdef object of_one_width(Count* c, ndarray a, object dtype, object bins, object limits, list kept):
    """Sets bins of one width, and returns their edges, or what is left to NumPy.  dtype: of the
    items as they were given; kept: what must live on."""
    cdef ndarray typed
    cdef bint rounds = False
    if isinstance(bins, str):
        edges = np.histogram_bin_edges(a.astype(dtype, copy=False), bins, limits)
    elif limits is None:
        outer = np.array(extremes_of(a), a.dtype)
        if not np.isfinite(outer).all():
            # Another thread may write the items, but does not know the copy.
            a = a.copy()
            kept.append(a)
            take_items(c, a)
            outer = np.array(extremes_of(a), a.dtype)
        # NumPy, too, compares such integers with the edges as doubles, but for the outer ones.
        rounds = a.dtype.itemsize == 8 and a.dtype.kind != "f" and not (-exact < outer[0] and outer[1] < exact)
        edges = np.histogram_bin_edges(outer.astype(dtype), bins)
    else:
        edges = np.histogram_bin_edges(a[:1].astype(dtype), bins, limits)
    # A computed bin must not be wrong by more than one: a width of all bins that
    # is finite, and of one that is many roundings of any edge.
    rounding = 64 * np.finfo(edges.dtype).eps
    if edges.dtype == np.float16:
        edges, given = edges.astype(np.float32), edges
    else:
        given = edges
    if edges.dtype == np.float64:
        c.binning = BIN_WIDTH_F64
    elif edges.dtype == np.float32 and a.dtype == np.float32:
        c.binning = BIN_WIDTH_F32
    else:
        return left_dtype(edges.dtype)
    c.bins = edges.size - 1
    span = float(edges[-1]) - float(edges[0])
    if not (c.bins * rounding < 1 and abs(edges[[0, -1]]).max() * rounding < span / c.bins
            and 1e-30 < span < 1e30 and (edges[:-1] < edges[1:]).all()):
        return left("bins of few roundings")
    c.scale = c.bins / span
    if not rounds and not is_exact(a, edges):
        return not_apart
    # The last bin has both its edges.
    typed = np.concatenate([
        [-np.inf], edges[:-1], [np.nextafter(edges[-1], edges.dtype.type(np.inf)), np.nan]
    ]).astype(edges.dtype)
    c.edges = <const char*>cnp.PyArray_DATA(typed)
    kept.append(typed)
    return given


cdef object between_edges(Count* c, ndarray a, object dtype, object bins, object limits, list kept):
    """The same for given edges."""
    cdef ndarray typed
    # NumPy's opinion of the bins, and what it says of them.
    edges = np.histogram(np.empty(0, dtype), bins, limits)[1]
    if not cnp.PyArray_CheckExact(edges) or edges.dtype.kind not in "iuf" or edges.dtype.itemsize > 8:
        return left("edges that are no numbers of eight bytes")
    if edges.size < 2 or (edges.dtype.kind == "f" and np.isnan(edges).any()) or not is_exact(a, edges):
        return not_apart
    typed = edges.astype(np.float64)
    # The last bin has both its edges; all numbers are before NaN.
    (<object>typed)[-1] = np.nextafter(typed[-1], np.inf) if typed[-1] < np.inf else np.nan
    c.binning = BIN_SEARCH
    c.bins = edges.size - 1
    c.search.kind = NUMBER_F64
    c.search.right = True
    c.search.row = <const char*>cnp.PyArray_DATA(typed)
    c.search.n = edges.size
    kept.append(typed)
    return edges


cdef object why_no_weights(object weights, object bins):
    """Why sums of them as doubles are not NumPy's; None: they are."""
    cdef object d = weights.dtype
    if isinstance(bins, str):
        return left("weights with bins by a rule")
    if d.kind not in "biufc" or d.itemsize > (16 if d.kind == "c" else 8):
        return left_dtype(d)
    if d.kind == "b" and np.ndim(bins) != 0:
        return left("weights of booleans between edges")
    if d.kind in "iu" and d.itemsize >= 4:
        node = node_of(weights.reshape(-1))
        most = max(int(reduce_node(np.maximum, node, no_value, None)),
                   -int(reduce_node(np.minimum, node, no_value, None)))
        if most * weights.size >= exact:
            return left("weights whose sum is no double")
    if d.kind in "fc" and np.ndim(bins) != 0:
        # It sums up all of them, and takes differences.  (Halves overflow there, and not here.)
        sizes = cast(apply(np.absolute, [weights.reshape(-1)], {}), np.float64)
        total = np.inf
        with np.errstate(all="ignore"):
            total = reduce_node(np.add, sizes, no_value, None)
        if not total < np.inf or (d.itemsize > 2 and total > np.finfo(d).max):
            return left("weights between edges whose sum is no number")
    return None


cdef object weighed(Count* c, object weights):
    """The counts, or the sums of the weights in their own type; None: there are too many bins."""
    cdef object d
    if weights is None:
        return counts_in_bins(c, None)
    # Between given edges NumPy subtracts, which gives the machine's byte order.
    d = weights.dtype.newbyteorder("=") if c.binning == BIN_SEARCH else weights.dtype
    if d.kind == "c":
        real, imag = counts_in_bins(c, doubles(weights.real)), counts_in_bins(c, doubles(weights.imag))
        if real is None or imag is None:
            return None
        result = np.empty(c.bins, d)
        result.real, result.imag = real, imag
        return result
    sums = counts_in_bins(c, doubles(weights))
    if sums is None or d.kind == "f":
        return sums if sums is None else sums.astype(d, copy=False)
    # Integers wrap.
    return (sums != 0) if d.kind == "b" else sums.astype(np.int64).astype(d)


cdef object histogram(ndarray a, object bins, object limits, object weights):
    """Counts and edges, or what is left to NumPy."""
    cdef Count c
    cdef list kept = []
    cdef object dtype = a.dtype.newbyteorder("=")
    if a.dtype.kind not in "iuf" or a.dtype.itemsize > 8:
        return left_dtype(a.dtype)
    # Halves are counted as floats: that changes none.
    a = native_row(cast_to(a, np.dtype(np.float32)) if dtype == np.float16 else a).reshape(-1)
    if not take_items(&c, a):
        return left_dtype(a.dtype)
    if weights is not None:
        why = why_no_weights(weights, bins)
        if why is not None:
            return why
    if isinstance(bins, str) or np.ndim(bins) == 0:
        edges = of_one_width(&c, a, dtype, bins, limits, kept)
    else:
        edges = between_edges(&c, a, dtype, bins, limits, kept)
    if type(edges) is Left:
        return edges
    counts = weighed(&c, weights)
    return left("few items for each bin") if counts is None else (counts, edges)


@operation("a weights", np.histogram, ns=COUNT_NS)
def par_histogram(a, bins=10, range=None, density=None, weights=None):
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
        What each value counts, instead of one; the counts are of their type.

    Returns
    -------
    hist : ndarray
    bin_edges : ndarray

    Notes
    -----
    O(n) work for bins of one width, O(n log(bins)) for given edges.  Counts and edges
    are exactly NumPy's.  Weights are summed as doubles; complex ones in two passes.  Blocks
    of values are counted in tables of their own, at most 64, which are then added up;
    sums of weights have the same bits for any number of threads, but may be rounded
    otherwise than NumPy's.

    Examples
    --------
    >>> pb.par_histogram([1, 2, 1], bins=[0, 1, 2, 3])
    (array([0, 2, 1]), array([0, 1, 2, 3]))
    """
    if not cnp.PyArray_CheckExact(a):
        return too_small
    if weights is not None and (not cnp.PyArray_CheckExact(weights) or weights.shape != a.shape):
        return left("weights that it refuses")
    result = histogram(a, bins, range, weights)
    if type(result) is not Left and density:
        counts, edges = result
        return counts / np.array(np.diff(edges), float) / counts.sum(), edges
    return result
