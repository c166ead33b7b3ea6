# cython: wraparound=True, boundscheck=True
"""What a sorted order is good for: ``par_lexsort``, ``par_sort_by_key``,
``par_group_by``, ``par_rank``."""
from collections import namedtuple
from functools import partial

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from numpy cimport ndarray

from pyblitz.arrays.common cimport at, longest_axis, ndim_of, numpys, run, run_fn, slices
from pyblitz.arrays.front cimport (
    ORDER_NS, RANK_NS, Left, computes_alike, handed_member, is_masked, left, left_dtype, member,
    own_code, owns_functions, pays, private_copy, too_small)
from pyblitz.arrays.front import operation
from pyblitz.arrays.map import par_map
from pyblitz.arrays.copy import par_copy
from pyblitz.arrays.gather import par_take
from pyblitz.arrays.select import par_flatnonzero
from pyblitz.arrays.sorting cimport (
    Fields, Rows, missing_rank, numpy_orders, rows_of, sort_by_numpy, sorting_order, sorting_runs)
from pyblitz.kernels.rank cimport (
    RANK_AVERAGE, RANK_DENSE, RANK_GREATEST, RANK_LEAST, RANK_ORDINAL, Ranks, ranks_write)

cnp.import_array()

cdef enum:
    # Items of a slice of short rows.
    SLICE_OF_ROWS = 4096
    # Rows of so many are worth all threads, one row after another.
    LONG_ROW = 65536

cdef dict rank_kinds = {
    "average": RANK_AVERAGE, "min": RANK_LEAST, "max": RANK_GREATEST, "dense": RANK_DENSE,
    "ordinal": RANK_ORDINAL,
}


# ---- orders of any keys -----------------------------------------------------

cdef bint is_missing(object k) except -1:
    """Whether an object is a NaN or NaT, of whatever class: not equal to itself; or pandas's NA."""
    if k is None or isinstance(k, (int, str, bytes)):
        return False
    if type(k).__name__ == "NAType":
        return True     # which says nothing when it is compared
    unequal = k != k
    return isinstance(unequal, (bool, np.bool_)) and bool(unequal)


cdef object missing_in(ndarray key):
    """Which items are NaNs, of what NumPy alone can compare, or has several NaNs of; None: there is none."""
    cdef char kind = key.descr.kind
    if kind == b"O":
        found = np.array([is_missing(k) for k in (<object>key).flat], np.bool_).reshape((<object>key).shape)
    elif kind in b"fc" or (kind == b"T" and is_missing(getattr(key.dtype, "na_object", None))):
        found = np.isnan(key)
    else:
        return None
    return found if found.any() else None


cdef ndarray codes_of(object key, bint descending, bint nones):
    """Integers in the order of items that NumPy alone can compare.  Last in both directions:
    NaNs, then, if it may be one of them, None."""
    gap = missing_in(key)
    if gap is not None:
        gap = gap.astype(np.int64)
    if nones and key.dtype.kind == "O":
        none = np.array([k is None for k in key.flat], np.bool_).reshape(key.shape)
        gap = 2 * none if gap is None else gap + 2 * none
    result = np.empty(key.shape, np.int64)
    here = slice(None) if gap is None else gap == 0
    # With the index its sort is stable, if all that items know is what is less.
    values, _, codes = numpys.unique(key[here], return_index=True, return_inverse=True)
    codes = codes.reshape(key[here].shape)
    result[here] = values.size - 1 - codes if descending else codes
    if gap is not None:
        result[gap != 0] = values.size + gap[gap != 0]
    return result


cdef bint is_sortable(ndarray key):
    """Whether kernels know its order, which is NumPy's."""
    cdef cnp.dtype d = key.descr
    return d.kind in b"biufcmMSU" and d.type_num != cnp.NPY_LONGDOUBLE and d.type_num != cnp.NPY_CLONGDOUBLE


cdef ndarray plain_column(ndarray key):
    if not is_sortable(key) or cnp.PyArray_ISCARRAY_RO(key):
        return key
    return par_copy(key, "C", dtype=key.dtype.newbyteorder("="))


cdef Left add_columns(list columns, list downs, ndarray key, bint down, bint alone, bint nones):
    """The key, or what has its order and can be sorted together with others.  Numbering what
    NumPy alone can compare is left to be done, unless this is `alone`."""
    cdef Left declined
    if is_sortable(key):
        columns.append(plain_column(key))
        downs.append(down)
    elif key.dtype.names and all([key.dtype[name].shape == () for name in key.dtype.names]):
        for name in key.dtype.names:
            declined = add_columns(columns, downs, key[name], down, alone, nones)
            if declined is not None:
                return declined
    elif alone:
        columns.append(codes_of(key, down, nones))
        downs.append(False)
    else:
        return left_dtype(key.dtype)
    return None


cdef object order_by_columns(list keys, list downs, bint alone):
    cdef list columns = [], column_downs = []
    if len(keys) == 1 and is_sortable(keys[0]) and numpy_orders(keys[0], downs[0]):
        # As par_argsort does.
        return sort_by_numpy(numpys.argsort, private_copy(keys[0]), -1, None, None, True, False)
    for key, down in zip(keys, downs):
        declined = add_columns(columns, column_downs, key, down, alone, False)
        if declined is not None:
            return declined
    return sorting_order(columns, column_downs)


cdef object one_nan(ndarray key):
    """Complex numbers are NaNs if a part of them is, and all are equal."""
    if key.dtype.kind == "c":
        bad = np.isnan(key)
        if bad.any():
            return np.where(bad, np.nan, key).astype(key.dtype, copy=False)
    return key


cdef list downs_of(object descending, int n):
    """One bool, or as many as there are keys."""
    if isinstance(descending, (list, tuple, np.ndarray)):
        if len(descending) != n:
            raise ValueError(f"descending: {len(descending)} of them do not match {n} keys")
        return [bool(d) for d in descending]
    return [bool(descending)] * n


cdef int refuse_rounded(object given, ndarray key, str name) except -1:
    """Of a column of integers of which some are missing, libraries make doubles."""
    if cnp.PyArray_CheckExact(given) or key.dtype != np.float64:
        return 0
    if not str(getattr(given, "dtype", getattr(given, "type", ""))).lower().startswith(("int", "uint")):
        return 0
    if (np.abs(key) >= 2.0 ** 53).any():
        raise ValueError(f"{name}: integers of which some are missing are compared as doubles, which do not tell "
                         "those beyond 2**53 apart; drop or fill what is missing")
    return 0


cdef list columns_of(object keys, str function):
    """The keys, 1-D and of one length; None: there is one, which is no member of a list."""
    cdef list result
    if (type(keys) is tuple or type(keys) is list) and keys and (
            isinstance(keys[0], (list, tuple)) or ndim_of(keys[0]) > 0):
        result = [member(key, f"keys[{i}]", function) for i, key in enumerate(keys)]
    else:
        result = [member(keys, "keys", function)]
        keys = [keys]
    for i, key in enumerate(result):
        name = "keys" if len(result) == 1 else f"keys[{i}]"
        refuse_rounded(keys[i], key, name)
        if key.ndim != 1:
            raise ValueError(f"{name}: must have one dimension, not {key.ndim}")
        if key.size != result[0].size:
            raise ValueError(
                f"{name}: length {key.size} does not match that of keys[0], {result[0].size}")
    return result


# ---- np.lexsort -------------------------------------------------------------

cdef object lexsort_rows(list rows, object axis, list downs):
    """The last one is compared first.  Of one shape, and sortable."""
    cdef Fields fields
    cdef Rows r
    cdef ndarray out
    shape = rows[0].shape
    if axis != -1:
        numpys.lexsort(np.empty((1,) * (len(shape) + 1)), axis)     # NumPy's opinion of it
    if len(shape) == 1:
        return sorting_order(rows[::-1], downs[::-1]).astype(np.intp, copy=False)
    r = rows_of(rows[0], axis, None)
    fields = Fields()
    for key, down in zip(rows[::-1], downs[::-1]):
        fields.add(np.moveaxis(key, r.along, -1).reshape(-1, shape[r.along]), down)
    out = np.empty((<object>r.rows).shape, np.intp)
    fields.order(1, out, None)
    return r.give(out, True)


cdef bint any_down(object descending):
    if descending is False:
        return False
    return bool(descending) if not isinstance(descending, (list, tuple, np.ndarray)) else any(descending)


cdef object privately(object key):
    """What is no array may share its memory with somebody, too."""
    if isinstance(key, ndarray):
        return private_copy(key)
    return key if owns_functions(type(key)) else np.array(key)


cdef object lexsorted_upwards(object keys, object axis):
    if isinstance(keys, ndarray):
        keys = private_copy(keys)
    elif type(keys) is tuple or type(keys) is list:
        keys = [privately(key) for key in keys]
    return numpys.lexsort(keys, axis)


def lexsorted_by_numpy(keys, axis=-1, *, descending=False):
    """The namesake; with another direction, that of integers in the order of the keys."""
    if not any_down(descending):
        return lexsorted_upwards(keys, axis)
    rows = [member(key, f"keys[{i}]", "par_lexsort") for i, key in enumerate(keys)]
    downs = downs_of(descending, len(rows))
    numpys.lexsort([np.broadcast_to(False, key.shape) for key in rows], axis)   # what is wrong with them
    for i, key in enumerate(rows):
        if not is_sortable(key):
            rows[i], downs[i] = codes_of(key, downs[i], False), False
    if rows[0].ndim == 0 or rows[0].size == 0:
        return numpys.lexsort([np.broadcast_to(False, key.shape) for key in rows], axis)
    return lexsort_rows(rows, axis, downs)


@operation("", lexsorted_by_numpy)
def par_lexsort(keys, axis=-1, *, descending=False):
    """The order that sorts by several keys, on all cores: ``np.lexsort``.

    Parameters
    ----------
    keys : sequence of array_like, or array
        The last one is compared first; those before it decide between equals.  Of one
        shape; the rows of an array are keys.
    axis : int, optional
        The axis to sort along, the last one by default.
    descending : bool, or sequence of bool, optional
        Whether from the greatest down: by all keys, or one for each of them.
        NaN and NaT are last all the same, and equals keep their order.

    Returns
    -------
    ndarray of int
        Indices along the axis.  Equal items keep their order.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.lexsort`` raises for the same mistake; ``descending`` has not as many as
        there are keys.

    Notes
    -----
    As a stable ``par_argsort``: the keys are sorted together, not one after another.
    Keys of objects, records, variable-width strings, extended precision and big-endian text:
    NumPy, alone.

    Examples
    --------
    >>> names, ages = np.array(["Li", "Ada", "Bo"]), np.array([30, 25, 30])
    >>> pb.par_lexsort((names, ages))       # by age, then by name
    array([1, 2, 0])
    >>> pb.par_lexsort((names, ages), descending=[False, True])
    array([2, 0, 1])
    """
    cdef bint down = any_down(descending), several = type(keys) is tuple or type(keys) is list
    if several and descending is not False:
        downs_of(descending, len(keys))     # raises, if it does not match them
    if (not down and several and keys and cnp.PyArray_CheckExact(keys[0])
            and not pays(cnp.PyArray_SIZE(<ndarray>keys[0]), ORDER_NS)):
        return lexsorted_upwards(keys, axis)
    if not several:
        if (isinstance(keys, ndarray) and not computes_alike(type(keys))) or (
                owns_functions(type(keys)) and type(keys).__array_function__ is not np.ndarray.__array_function__):
            return left(own_code(type(keys)))
        keys = member(keys, "keys", "par_lexsort")
        if keys.ndim < 2:
            return too_small
    rows = []
    for i, key in enumerate(keys):
        if not cnp.PyArray_CheckExact(key):
            if is_masked(key) and not down:
                return left("masked arrays")
            if owns_functions(type(key)) and not isinstance(key, np.ndarray):
                return left(own_code(type(key)))
            key = member(key, f"keys[{i}]", "par_lexsort")
        rows.append(key)
        if key.shape != rows[0].shape:
            return left("keys of different shapes")
        if not is_sortable(key):
            return left_dtype(key.dtype)
        if key.dtype.kind in "Uc" and not key.dtype.isnative and not down:
            # np.lexsort (2.4.6) compares the bytes.
            return left("big-endian text or complex numbers")
    downs = downs_of(descending, len(rows))
    if not rows or rows[0].ndim == 0 or rows[0].size == 0 or (not down and not pays(rows[0].size, ORDER_NS)):
        return too_small
    if sizeof(Py_ssize_t) != 8:
        return left("indices of 32 bits")
    return lexsort_rows(rows, axis, downs)


# ---- records that are columns -----------------------------------------------

cdef object picked(object a, ndarray order):
    """Rows in that order.  Of a few, an index takes a tenth of what ``take`` does."""
    if cnp.PyArray_CheckExact(a) and not pays(cnp.PyArray_SIZE(<ndarray>a), RANK_NS):
        return a[order]
    return par_take(a, order, axis=0)


cdef object sort_by_key(object keys, tuple values, object descending, bint alone):
    cdef ndarray order
    cdef list columns = columns_of(keys, "par_sort_by_key")
    cdef int64_t n = columns[0].shape[0]
    for i, value in enumerate(values):
        if ndim_of(value) == 0:
            raise ValueError(f"values[{i}]: must have a dimension of the length of the keys")
        if value.shape[0] != n:
            raise ValueError(f"values[{i}]: length {value.shape[0]} does not match that of the keys, {n}")
    found = order_by_columns(columns, downs_of(descending, len(columns)), alone)
    if type(found) is Left:
        return found
    order = found
    columns = [picked(key, order) for key in columns]
    first = columns[0]
    if type(keys) in (tuple, list) and keys and (len(columns) > 1 or ndim_of(keys[0]) > 0):
        first = tuple(columns)
    return (first, *[picked(value, order) for value in values])


def sorted_by_key_alone(keys, *values, stable=None, descending=None):
    """Keys that NumPy alone can compare; arrays that only other libraries compute with."""
    return sort_by_key(keys, tuple([np.asarray(value) for value in values]), descending, True)


@operation("*", sorted_by_key_alone, masked=False)
def par_sort_by_key(keys, *values, stable=None, descending=None):
    """Sorts arrays together by one of them or several, on all cores.

    Parameters
    ----------
    keys : 1-D array_like, or tuple or list of such
        What is compared, as ``np.sort`` does.  Of several keys, of one length, the first
        is compared first; the next ones decide between equals.
    *values : array_like
        Each as long as the keys along its first axis.
    stable : bool, optional
        Items of equal keys keep their order, whatever is asked for.
    descending : bool, or sequence of bool, optional
        From the greatest down, by all keys or one for each of them; NaN and
        NaT still last, and equals still in their order.

    Returns
    -------
    tuple of ndarray
        The sorted keys, and each of the values in the same order.  Of several keys the
        first item is a tuple of them.

    Raises
    ------
    ValueError
        A key is not 1-D, an array is of another length, or ``descending`` has not as
        many as there are keys.
    TypeError
        NumPy cannot sort the keys, or an array is masked.

    Notes
    -----
    A stable ``par_argsort`` of the keys, and a ``par_take`` for each array.  Keys of
    objects, variable-width strings and extended precision are
    first numbered by ``np.unique``, alone.  Extra memory: the order, 8 bytes an item, and
    what sorting it takes.

    Examples
    --------
    >>> keys, names = pb.par_sort_by_key([3, 1, 2], ["c", "a", "b"])
    >>> keys, names
    (array([1, 2, 3]), array(['a', 'b', 'c'], dtype='<U1'))
    >>> (year, month), sales = pb.par_sort_by_key(([1999, 1998, 1999], [3, 7, 2]), [10, 20, 30])
    >>> sales
    array([20, 30, 10])
    """
    return sort_by_key(keys, values, descending, False)


# ---- groups -----------------------------------------------------------------

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


cdef object group_by(object keys, object descending, bint alone):
    cdef ndarray order, starts, counts
    cdef list given = columns_of(keys, "par_group_by"), columns = [], downs = []
    cdef int64_t n
    for key, down in zip(given, downs_of(descending, len(given))):
        declined = add_columns(columns, downs, key, down, alone, True)
        if declined is not None:
            return declined
    order, begins = sorting_runs([one_nan(key) for key in columns], downs)
    starts = par_flatnonzero(begins)
    n = cnp.PyArray_SIZE(starts)
    counts = np.empty(n, np.intp)
    if n:
        par_map(np.subtract, starts[1:], starts[:-1], out=counts[:-1])
        counts[-1] = cnp.PyArray_SIZE(order) - starts[-1]
    return GroupBy(order.astype(np.intp, copy=False), starts, counts)


def grouped_alone(keys, *, descending=False):
    """Keys that NumPy alone can compare."""
    return group_by(keys, descending, True)


@operation("", grouped_alone, masked=False)
def par_group_by(keys, *, descending=False):
    """Which items have equal keys, on all cores.

    Parameters
    ----------
    keys : 1-D array_like, or tuple or list of such
        Of several keys, of one length, the first is compared first.  NaNs are
        equal to each other, and so are NaTs.  Among objects, None is a key of its
        own.
    descending : bool, or sequence of bool, optional
        Whether the groups of the greatest keys are first: by all keys, or one for each of
        them.  NaN, NaT and None are last all the same.

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
        A key is not 1-D, or of another length than the first; ``descending`` has not as
        many as there are keys.
    TypeError
        NumPy cannot sort a key, or it is masked.

    Notes
    -----
    O(n log n) work at most: a stable ``par_argsort``, which knows where its keys differ
    from those before them, so that no sorted copy of the keys is made.  Records are as many
    keys as they have fields; objects, variable-width strings and extended precision are first
    numbered by ``np.unique``, alone.
    Extra memory: a byte for each item, and what sorting takes.

    Examples
    --------
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
    theirs = handed_member("par_group_by", keys)
    if theirs is not None:
        return theirs(keys, descending=descending)
    return group_by(keys, descending, False)


# ---- ranks ------------------------------------------------------------------

cdef object ranks_by_numpy(object x, str method):
    """Along the last axis, by NumPy alone; NaNs are items like others."""
    n = x.shape[-1]
    x = private_copy(x)
    order = numpys.argsort(x, axis=-1, kind="stable")
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
    """Of many items without a NaN, into a contiguous array of 8 bytes each."""
    cdef Ranks r
    cdef ndarray order, starts, begins
    x = plain_column(x)
    order, begins = sorting_runs([x], None)
    r.kind = rank_kinds[method]
    r.n = cnp.PyArray_SIZE(order)
    r.order = <const int64_t*>cnp.PyArray_DATA(order)
    r.out = <char*>cnp.PyArray_DATA(out)
    r.runs = 0
    r.starts = NULL
    if r.kind != RANK_ORDINAL:
        if x.dtype.kind in "mM" and np.isnat(x[order[-1]]):
            # Here NaTs differ.
            begins[r.n - np.count_nonzero(np.isnat(x)):] = True
        starts = par_flatnonzero(begins).astype(np.int64, copy=False)
        r.runs = cnp.PyArray_SIZE(starts)
        r.starts = <const int64_t*>cnp.PyArray_DATA(starts)
    run(<run_fn>ranks_write, &r, "the ranks")


def rank_part(x, out, method, along, lo, hi):
    index = at(along, lo, hi)
    out[index] = ranks_by_numpy(x[index], method)


cdef object rank_array(object a, object method, object axis, bint alone):
    cdef ndarray x, out, row
    cdef Rows r
    if type(method) is not str or method not in rank_kinds:
        raise ValueError(f"method: there is no {method!r}, only {', '.join(map(repr, rank_kinds))}")
    x = np.asarray(a)
    r = rows_of(x, axis, None)
    x = r.rows
    dtype = np.float64 if method == "average" else np.intp
    shape = (<object>x).shape
    if x.size == 0:
        return np.empty((<object>r.array).shape, dtype)
    # Of many numbers all threads look first whether there is one.
    gaps = None if x.dtype.kind in "fc" and missing_rank(x) is None else missing_in(x)
    if gaps is not None and len(shape) == 1:
        return np.full(shape, np.nan)
    n = shape[-1]
    if alone:
        result = ranks_by_numpy(x, method)
    elif not is_sortable(x):
        return left_dtype(x.dtype)
    elif n >= LONG_ROW or len(shape) == 1:
        out = np.empty(shape, np.float64 if method == "average" else np.int64)
        for index in np.ndindex(shape[:-1]):
            row = out[index]
            ranks_of_row(x[index], method, row)
        result = out.astype(dtype, copy=False)
    elif not pays(x.size, RANK_NS):
        return too_small
    else:
        result = np.empty(shape, dtype)
        along = longest_axis(shape, range(len(shape) - 1))
        slices("rank", partial(rank_part, x, result, method, along),
               max(1, SLICE_OF_ROWS * shape[along] // x.size), shape[along], None)
    if gaps is not None:
        result = result.astype(np.float64, copy=False)
        result[gaps.any(axis=-1)] = np.nan
    return np.moveaxis(result, -1, r.along)


def ranked_by_numpy(a, method="average", *, axis=None):
    """The same, by NumPy alone."""
    return rank_array(a, method, axis, True)


@operation("a", ranked_by_numpy, masked=False)
def par_rank(a, method="average", *, axis=None):
    """The ranks of items, from 1, on all cores: ``scipy.stats.rankdata``.

    Parameters
    ----------
    method : {'average', 'min', 'max', 'dense', 'ordinal'}, optional
        What equal items get: the mean, the least or the greatest of the ranks that
        they would have one after another; 'dense', the least, and the next value the
        next rank; 'ordinal', one rank each, in their order.
    axis : int, optional
        The axis to rank along; None: the flattened array.

    Returns
    -------
    ndarray
        The ranks: doubles for 'average', integers for the other methods.  If a row has a
        NaN, every rank in that row is NaN, and the result is of doubles.  NaTs come after all
        times, and no two of them are equal.

    Raises
    ------
    ValueError
        There is no such method.
    TypeError
        NumPy cannot sort the items, or they are masked.
    numpy.exceptions.AxisError
        There is no such axis.

    Notes
    -----
    A stable ``par_argsort``, the runs of equals as in ``par_group_by``, and one write
    of each rank.  Many short rows are shared, each ranked by NumPy; objects, records,
    variable-width strings and extended precision NumPy sorts alone.

    Examples
    --------
    >>> pb.par_rank([30, 10, 30])
    array([2.5, 1. , 2.5])
    >>> pb.par_rank([30, 10, 30], "dense")
    array([2, 1, 2])
    """
    return rank_array(a, method, axis, False)
