# cython: wraparound=True, boundscheck=True
"""What a sorted order is good for: ``par_lexsort``, ``par_sort_by_key``,
``par_group_by``, ``par_rank``."""
from collections import namedtuple
from functools import partial

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from numpy cimport ndarray

from pyblitz._progress import with_progress
from pyblitz._python cimport Entry, enter, leave
from pyblitz.arrays.argsort cimport Fields, by_numpy, sorting_order, sorting_runs
from pyblitz.arrays.common cimport Slices, at, check, is_plain, longest_axis
from pyblitz.arrays.map import par_map
from pyblitz.arrays.move import par_copy, par_flatnonzero, par_take
from pyblitz.arrays.reduce import par_max
from pyblitz.kernels.rank cimport (
    RANK_AVERAGE, RANK_DENSE, RANK_GREATEST, RANK_LEAST, RANK_ORDINAL, Ranks, ranks_write)

cnp.import_array()

cdef enum:
    # Below this NumPy has sorted before another thread could help.
    FEW_ITEMS = 4096
    # Rows of so many are worth all threads, one row after another.
    LONG_ROW = 65536

cdef dict rank_kinds = {
    "average": RANK_AVERAGE, "min": RANK_LEAST, "max": RANK_GREATEST, "dense": RANK_DENSE,
    "ordinal": RANK_ORDINAL,
}


# ---- orders of any keys -----------------------------------------------------

cdef ndarray codes_of(ndarray key):
    """Integers in the order of the items, which NumPy alone can compare."""
    return np.unique(key, return_inverse=True)[1].reshape(-1)


cdef bint is_sortable(ndarray key):
    """Whether its items are bytes alone, in an order that is NumPy's for its kind."""
    return key.dtype.kind in "biufcmMSU"


cdef ndarray order_of(list keys, bint descending):
    order = sorting_order(keys, descending)
    if order is None:
        if descending and keys[0].dtype.kind in "OVT":
            # np.argsort refuses the direction for these.
            order = np.argsort(-codes_of(keys[0]), kind="stable")
        elif len(keys) == 1:
            order = by_numpy(np.argsort, keys[0], -1, None, None, True, descending)
        elif descending:
            raise NotImplementedError
        else:
            order = np.lexsort(keys[::-1])
    return order.astype(np.int64, copy=False)


cdef ndarray plain_column(ndarray key):
    if not is_sortable(key):
        return key
    if cnp.PyArray_ISCARRAY_RO(key):
        return key
    return par_copy(key, key.dtype.newbyteorder("="), "C")


cdef object one_nan(ndarray key):
    """Complex numbers are not-a-numbers if a part of them is, and all are equal."""
    if key.dtype.kind == "c":
        bad = np.isnan(key)
        if bad.any():
            return np.where(bad, np.nan, key).astype(key.dtype, copy=False)
    return key


cdef tuple runs_of(list keys):
    """The order of order_of, and whether a run of equal keys begins at each place in it."""
    cdef list all_keys = [one_nan(key) for key in keys]
    made = sorting_runs(all_keys)
    if made is not None:
        return made
    order = order_of(all_keys, False)
    begins = np.zeros(order.size, np.bool_)
    begins[:1] = True
    for key in all_keys:
        y = par_take(key, order)
        differs = y[1:] != y[:-1]
        if key.dtype.kind in "fc":
            gap = np.isnan(y)
            differs &= ~(gap[1:] & gap[:-1])
        begins[1:] |= np.asarray(differs, np.bool_)
    return order, begins


cdef list rows_of(object keys):
    """The keys of np.lexsort as arrays of one shape; None: NumPy is to see to them."""
    cdef list result
    if cnp.PyArray_CheckExact(keys):
        if keys.ndim < 2:
            return None
        result = list(keys)
    elif type(keys) is tuple or type(keys) is list:
        result = [k if cnp.PyArray_CheckExact(k) else np.asarray(k) if is_plain(k) else None
                  for k in keys]
    else:
        return None
    if not result or result[0] is None or result[0].ndim == 0 or result[0].size < FEW_ITEMS:
        return None
    for k in result:
        if k is None or k.shape != result[0].shape or not is_sortable(k):
            return None
        if k.dtype.kind == "U" and not k.dtype.isnative:
            return None         # np.lexsort (2.4.6) compares the bytes: the same for all sizes
    return result


def par_lexsort(keys, axis=-1, *, progress=None):
    """The order that sorts by several keys, on all cores: ``np.lexsort``.

    Parameters
    ----------
    keys : sequence of array_like, or array
        The last one is compared first; those before it decide between equals.  Of one
        shape; the rows of an array are keys.
    axis : int, optional
        The axis to sort along, the last one by default.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray of int
        Indices along the axis.  Equal items keep their order.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.lexsort`` raises for the same mistake.

    Notes
    -----
    As a stable ``par_argsort``: the keys are sorted together, not one after another.
    Keys of objects, records and variable-width strings: NumPy, alone.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> names, ages = np.array(["Li", "Ada", "Bo"]), np.array([30, 25, 30])
    >>> pb.par_lexsort((names, ages))       # by age, then by name
    array([1, 2, 0])
    """
    cdef Fields fields
    cdef ndarray out
    cdef int along
    if progress is not None:
        return with_progress(progress, par_lexsort, (keys, axis), {})
    if (type(keys) is tuple or type(keys) is list) and keys and (
            cnp.PyArray_CheckExact(keys[0]) and cnp.PyArray_SIZE(<ndarray>keys[0]) < FEW_ITEMS):
        return np.lexsort(keys, axis)
    rows = rows_of(keys)
    if rows is None or type(axis) is not int or sizeof(Py_ssize_t) != 8:
        return np.lexsort(keys, axis)
    shape = rows[0].shape
    ndim = len(shape)
    if not -ndim <= axis < ndim:
        return np.lexsort(keys, axis)
    along = axis if axis >= 0 else axis + ndim
    if ndim == 1:
        order = sorting_order(rows[::-1], False)
        return np.lexsort(keys, axis) if order is None else order
    fields = Fields()
    for key in rows[::-1]:
        if not fields.add(np.moveaxis(key, along, -1).reshape(-1, shape[along]), False):
            return np.lexsort(keys, axis)
    out = np.empty(shape[:along] + shape[along + 1:] + shape[along:along + 1], np.intp)
    fields.order(1, out, None)
    return np.ascontiguousarray(np.moveaxis(out, -1, along))


# ---- records that are columns -----------------------------------------------

def par_sort_by_key(keys, *values, stable=None, descending=None, progress=None):
    """Sorts arrays together by the first of them, on all cores.

    Parameters
    ----------
    keys : 1-D array_like
        What is compared, as ``np.sort`` does.
    *values : array_like
        Each as long as the keys along its first axis.
    stable : bool, optional
        Items of equal keys keep their order, whatever is asked for.
    descending : bool, optional
        From the greatest down; not-a-number and not-a-time still last, and equals
        still in their order.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    tuple of ndarray
        The sorted keys, and each of the values in the same order.

    Raises
    ------
    ValueError
        The keys are not 1-D, or an array is of another length.
    TypeError
        NumPy cannot sort the keys.

    Notes
    -----
    A stable ``par_argsort`` of the keys, and a ``par_take`` for each array.  Extra
    memory: the order, 8 bytes an item, and what sorting it takes.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> keys, names = pb.par_sort_by_key([3, 1, 2], ["c", "a", "b"])
    >>> keys, names
    (array([1, 2, 3]), array(['a', 'b', 'c'], dtype='<U1'))
    """
    cdef ndarray order
    if progress is not None:
        return with_progress(progress, par_sort_by_key, (keys, *values),
                             {"stable": stable, "descending": descending})
    key = np.asanyarray(keys)
    if key.ndim != 1:
        raise ValueError(f"keys: must have one dimension, not {key.ndim}")
    arrays = [key]
    for i, value in enumerate(values):
        value = np.asanyarray(value)
        if value.ndim == 0 or value.shape[0] != key.shape[0]:
            if value.ndim == 0:
                raise ValueError(f"values[{i}]: must have a dimension of the length of the keys")
            length = value.shape[0]
            raise ValueError(
                f"values[{i}]: length {length} does not match that of the keys, {key.shape[0]}")
        arrays.append(value)
    order = order_of([plain_column(np.asarray(key))], bool(descending))
    return tuple([par_take(a, order, axis=0) for a in arrays])


# ---- groups -----------------------------------------------------------------

par_subtract = partial(par_map, np.subtract)

GroupBy = namedtuple("GroupBy", ["order", "starts", "counts"], module="pyblitz")
GroupBy.__doc__ = """What ``par_group_by`` gives.

Attributes
----------
order : ndarray of int
    Indices of the items, those of one group together and in their order.
starts : ndarray of int
    Where each group begins in ``order``.
counts : ndarray of int
    How many items each group has.

Examples
--------
>>> import pyblitz as pb
>>> g = pb.par_group_by([7, 5, 7])
>>> g.order[g.starts[1] : g.starts[1] + g.counts[1]]
array([0, 2])
"""


cdef list keys_of(object keys):
    """The keys of a grouping, 1-D and of one length."""
    cdef list result
    if (type(keys) is tuple or type(keys) is list) and keys and (
            isinstance(keys[0], (np.ndarray, list, tuple)) or hasattr(keys[0], "__array__")
            and np.ndim(keys[0]) > 0):
        result = [np.asarray(key) for key in keys]
    else:
        result = [np.asarray(keys)]
    for i, key in enumerate(result):
        name = "keys" if len(result) == 1 else f"keys[{i}]"
        if key.ndim != 1:
            raise ValueError(f"{name}: must have one dimension, not {key.ndim}")
        if key.size != result[0].size:
            raise ValueError(
                f"{name}: length {key.size} does not match that of keys[0], {result[0].size}")
    return result


cdef object add_columns(list columns, ndarray key):
    """The key, or what has its order and can be sorted together with others."""
    if is_sortable(key):
        columns.append(plain_column(key))
    elif key.dtype.names and all([key.dtype[name].shape == () for name in key.dtype.names]):
        for name in key.dtype.names:
            add_columns(columns, key[name])
    else:
        columns.append(codes_of(key))


def par_group_by(keys, *, progress=None):
    """Which items have equal keys, on all cores.

    Parameters
    ----------
    keys : 1-D array_like, or tuple or list of such
        Of several keys, of one length, the first is compared first.  Not-a-numbers are
        equal to each other, and so are not-a-times.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    GroupBy
        A named tuple of three arrays: ``order``, the indices of the items sorted by
        key, equals in their order; ``starts``, where each group begins in it;
        ``counts``, the number of its items.  Groups are in the order of their keys:
        that of group ``i`` is ``keys[order[starts[i]]]``.

    Raises
    ------
    ValueError
        A key is not 1-D, or of another length than the first.
    TypeError
        NumPy cannot sort a key.

    Notes
    -----
    O(n log n) work at most: a stable ``par_argsort``, which knows where its keys differ
    from those before them, so that no sorted copy of the keys is made.  Records are as many
    keys as they have fields; objects and variable-width strings are first numbered by
    ``np.unique``.
    Extra memory: a byte for each item, and what sorting takes.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> city = np.array(["Oslo", "Rome", "Oslo", "Bonn"])
    >>> sold = np.array([1, 2, 3, 4])
    >>> g = pb.par_group_by(city)
    >>> city[g.order[g.starts]]
    array(['Bonn', 'Oslo', 'Rome'], dtype='<U4')
    >>> np.add.reduceat(sold[g.order], g.starts)
    array([4, 4, 2])
    >>> g.counts
    array([1, 2, 1])
    """
    cdef ndarray order, starts, counts
    cdef int64_t n
    if progress is not None:
        return with_progress(progress, par_group_by, (keys,), {})
    columns = []
    for key in keys_of(keys):
        add_columns(columns, key)
    order, begins = runs_of(columns)
    starts = par_flatnonzero(begins)
    n = cnp.PyArray_SIZE(starts)
    counts = np.empty(n, np.intp)
    if n:
        subtract = np.subtract if n < FEW_ITEMS else par_subtract
        subtract(starts[1:], starts[:-1], out=counts[:-1])
        counts[-1] = cnp.PyArray_SIZE(order) - starts[-1]
    return GroupBy(order.astype(np.intp, copy=False), starts, counts)


# ---- ranks ------------------------------------------------------------------

cdef object ranks_by_numpy(object x, str method):
    """Along the last axis, by NumPy alone; not-a-numbers are items like others."""
    n = x.shape[-1]
    order = np.argsort(x, axis=-1, kind="stable")
    here = np.arange(n)
    if method == "ordinal":
        ranks = np.broadcast_to(here + 1, x.shape)
    else:
        y = np.take_along_axis(x, order, -1)
        begins = np.ones(x.shape, np.bool_)
        begins[..., 1:] = y[..., 1:] != y[..., :-1]
        if method == "dense":
            ranks = np.cumsum(begins, axis=-1)
        else:
            least = np.maximum.accumulate(np.where(begins, here, 0), axis=-1) + 1
            ends = np.ones(x.shape, np.bool_)
            ends[..., :-1] = begins[..., 1:]
            greatest = np.where(ends, here, n)[..., ::-1]
            greatest = np.minimum.accumulate(greatest, axis=-1)[..., ::-1] + 1
            if method == "average":
                ranks = (least + greatest) / 2
            else:
                ranks = least if method == "min" else greatest
    result = np.empty(x.shape, np.float64 if method == "average" else np.intp)
    np.put_along_axis(result, order, ranks, -1)
    return result


cdef object ranks_of_row(ndarray x, str method, ndarray out):
    """Of many items without a not-a-number, into a contiguous array of 8 bytes each."""
    cdef Ranks r
    cdef Entry e
    cdef int rc
    cdef ndarray order, starts, begins
    x = plain_column(x)
    order, begins = runs_of([x])
    order = order.astype(np.int64, copy=False)
    r.kind = rank_kinds[method]
    r.n = cnp.PyArray_SIZE(order)
    r.order = <const int64_t*>cnp.PyArray_DATA(order)
    r.out = <char*>cnp.PyArray_DATA(out)
    r.runs = 0
    r.starts = NULL
    if r.kind != RANK_ORDINAL:
        if x.dtype.kind in "mM" and np.isnat(x[order[-1]]):
            # Here not-a-times differ.
            begins[r.n - np.count_nonzero(np.isnat(x)):] = True
        starts = par_flatnonzero(begins).astype(np.int64, copy=False)
        r.runs = cnp.PyArray_SIZE(starts)
        r.starts = <const int64_t*>cnp.PyArray_DATA(starts)
    with nogil:
        enter(&e)
        rc = ranks_write(e.worker, &r)
        rc = leave(&e, rc)
    check(rc, "the ranks")


cdef class SlicedRank(Slices):
    cdef ndarray x
    cdef ndarray out
    cdef str method
    cdef int along

    cdef object part(self, int64_t lo, int64_t hi):
        index = at(self.along, lo, hi)
        self.out[index] = ranks_by_numpy(self.x[index], self.method)


def par_rank(a, method="average", *, axis=None, progress=None):
    """The ranks of items, from 1, on all cores: ``scipy.stats.rankdata``.

    Parameters
    ----------
    a : array_like
    method : {'average', 'min', 'max', 'dense', 'ordinal'}, optional
        What equal items get: the mean, the least or the greatest of the ranks that
        they would have one after another; 'dense', the least, and the next value the
        next rank; 'ordinal', one rank each, in their order.
    axis : int, optional
        The axis to rank along; None: the flattened array.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray
        Doubles for 'average', otherwise integers.  What has a not-a-number among the
        items that it is ranked with has none of them as its ranks, and all are doubles.

    Raises
    ------
    ValueError
        There is no such method.
    TypeError
        NumPy cannot sort the items.
    numpy.exceptions.AxisError
        There is no such axis.

    Notes
    -----
    A stable ``par_argsort``, the runs of equals as in ``par_group_by``, and one write
    of each rank.  Many short rows are shared, each ranked by NumPy; so are objects,
    records and variable-width strings, alone.

    Examples
    --------
    >>> import pyblitz as pb
    >>> pb.par_rank([30, 10, 30])
    array([2.5, 1. , 2.5])
    >>> pb.par_rank([30, 10, 30], "dense")
    array([2, 1, 2])
    """
    cdef ndarray x, out, row
    cdef SlicedRank s
    if progress is not None:
        return with_progress(progress, par_rank, (a, method), {"axis": axis})
    if method not in rank_kinds:
        raise ValueError(f"method: there is no {method!r}, only {', '.join(map(repr, rank_kinds))}")
    x = np.asarray(a)
    if axis is None:
        x = x.reshape(-1)
        along = 0
    else:
        along = np.lib.array_utils.normalize_axis_index(axis, x.ndim)
    dtype = np.float64 if method == "average" else np.intp
    shape = (<object>x).shape
    if x.size == 0:
        return np.empty(shape, dtype)
    gaps = x.dtype.kind in "fc" and np.isnan(par_max(x))
    if gaps and len(shape) == 1:
        return np.full(shape, np.nan)
    x = np.moveaxis(x, along, -1)
    shape = (<object>x).shape
    n = shape[-1]
    if is_sortable(x) and (n >= LONG_ROW or len(shape) == 1):
        out = np.empty(shape, np.float64 if method == "average" else np.int64)
        for index in np.ndindex(shape[:-1]):
            row = out[index]
            ranks_of_row(x[index], method, row)
        result = out.astype(dtype, copy=False)
    elif is_sortable(x) and x.size >= FEW_ITEMS and len(shape) > 1:
        s = SlicedRank("rank", False)
        s.x, s.method = x, method
        s.out = result = np.empty(shape, dtype)
        s.along = longest_axis(shape, range(len(shape) - 1))
        s.run(max(1, FEW_ITEMS * shape[s.along] // x.size), shape[s.along], False)
    else:
        result = ranks_by_numpy(x, method)
    if gaps:
        result = result.astype(np.float64, copy=False)
        result[np.isnan(x).any(axis=-1)] = np.nan
    return np.moveaxis(result, -1, along)
