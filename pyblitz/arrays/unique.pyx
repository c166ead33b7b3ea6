# cython: wraparound=True, boundscheck=True
"""``par_unique``, ``par_isin``."""
import inspect

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy
from numpy cimport ndarray

from pyblitz._progress import with_progress
from pyblitz._python cimport Entry, enter, leave
from pyblitz.arrays.argsort cimport sorting_order
from pyblitz.arrays.common cimport check
from pyblitz.arrays.map import par_map
from pyblitz.arrays.move import par_take
from pyblitz.arrays.search import par_searchsorted
from pyblitz.arrays.sort import par_sort
from pyblitz.kernels.distinct cimport (
    DISTINCT_LIMIT, Distinct, distinct_free, distinct_inverse, distinct_may_be_few, distinct_run)
from pyblitz.kernels.member cimport (
    MEMBER_F32, MEMBER_F64, MEMBER_I8, MEMBER_I16, MEMBER_I32, MEMBER_I64, MEMBER_TIME,
    MEMBER_U8, MEMBER_U16, MEMBER_U32, MEMBER_U64, Bits, Keys, MemberKind, bits_ask, bits_put,
    keys_ask, keys_free, keys_put)
from pyblitz.kernels.runs cimport (
    RUN_BYTES, RUN_C64, RUN_C128, RUN_F16, RUN_F32, RUN_F64, Runs, runs_blocks, runs_count,
    runs_write)
from pyblitz.runtime.atomic cimport atomic_u32

cnp.import_array()

cdef enum:
    # Fewer items are NumPy's.  Of two bytes, more: their tables have to be cleared.
    FEW_ITEMS = 8192
    FEW_SHORTS = 131072
    # A table of bits has at most so many for each item of the two arrays; a hash table
    # at most so many members.
    ITEM_BITS = 16
    MOST_KEYS = 1 << 24
    # Least items to look for.
    FEW_ELEMENTS = 4096

cdef dict run_kinds = {
    "f2": RUN_F16, "f4": RUN_F32, "f8": RUN_F64, "c8": RUN_C64, "c16": RUN_C128,
}
cdef dict member_kinds = {
    "b1": MEMBER_U8, "i1": MEMBER_I8, "u1": MEMBER_U8, "i2": MEMBER_I16, "u2": MEMBER_U16,
    "i4": MEMBER_I32, "u4": MEMBER_U32, "i8": MEMBER_I64, "u8": MEMBER_U64,
    "f4": MEMBER_F32, "f8": MEMBER_F64, "M8": MEMBER_TIME, "m8": MEMBER_TIME,
}
cdef bint has_sorted = "sorted" in inspect.signature(np.unique).parameters


# ---- unique -----------------------------------------------------------------

cdef object unique_by_numpy(object ar, object index, object inverse, object counts, object axis,
                            object equal_nan, object ordered):
    if has_sorted:
        return np.unique(ar, index, inverse, counts, axis, equal_nan=equal_nan, sorted=ordered)
    return np.unique(ar, index, inverse, counts, axis, equal_nan=equal_nan)


cdef ndarray copy_of(const int64_t* items, int64_t n):
    cdef ndarray a = np.empty(n, np.int64)
    memcpy(cnp.PyArray_DATA(a), items, n * sizeof(int64_t))
    return a


cdef bint may_be_none(ndarray x):
    """Whether there are not-a-numbers or not-a-times of this type."""
    return x.dtype.kind in "fcmM"


cdef list unique_of_few(ndarray x, bint index, bint inverse, bint counts, bint equal_nan):
    """Values, index, inverse and counts, of what was asked for; None: there are more than
    a few values."""
    cdef Distinct d
    cdef Entry e
    cdef int rc
    cdef ndarray first, ranks, back
    cdef object order, values, result = None
    d.items = <const char*>cnp.PyArray_DATA(x)
    d.n = cnp.PyArray_SIZE(x)
    d.size = cnp.PyArray_ITEMSIZE(x)
    d.floats = x.dtype.kind == "f"
    # Not-a-numbers that are to differ are another road's if there are two.
    d.counting = counts or (not equal_nan and may_be_none(x))
    # Of few items, tables of which little is used take longer to make than to fill.
    d.limit = min(<int64_t>DISTINCT_LIMIT, d.n // 8)
    if not distinct_may_be_few(&d):
        return None
    with nogil:
        enter(&e)
        rc = distinct_run(e.worker, &d)
        rc = leave(&e, rc)
    try:
        check(rc, "the distinct items")
        if d.many:
            return None
        first = copy_of(d.first, d.count)
        values = x[first]
        order = np.argsort(values)
        values = values[order]
        if not equal_nan and may_be_none(x) and np.isnan(values[-1]) and d.counts[order[-1]] > 1:
            return None
        made = [values]
        if index:
            made.append((<object>first)[order].astype(np.intp, copy=False))
        if inverse:
            ranks = np.empty(d.count, np.int64)
            (<object>ranks)[order] = np.arange(d.count)
            back = np.empty(d.n, np.int64)
            with nogil:
                enter(&e)
                rc = distinct_inverse(e.worker, &d, <const int64_t*>cnp.PyArray_DATA(ranks),
                                      <int64_t*>cnp.PyArray_DATA(back))
                rc = leave(&e, rc)
            check(rc, "the inverse")
            made.append(back.view(np.intp))
        if counts:
            made.append(copy_of(d.counts, d.count)[order].astype(np.intp, copy=False))
        return made
    finally:
        distinct_free(&d)


cdef int64_t count_numbers(ndarray x):
    """Items of a sorted row before the not-a-numbers or not-a-times at its end."""
    cdef int64_t n = cnp.PyArray_SIZE(x), lo = 0, mid
    if not may_be_none(x) or not np.isnan(x[-1]):
        return n
    while lo < n:
        mid = (lo + n) >> 1
        if np.isnan(x[mid]):
            n = mid
        else:
            lo = mid + 1
    return lo


cdef list unique_of_sorted(ndarray x, ndarray order, bint index, bint inverse, bint counts,
                           bint equal_nan):
    """As unique_of_few.  order: where each item of x was, in the row that is meant; or
    None."""
    cdef Runs r
    cdef Entry e
    cdef int rc
    cdef int64_t runs, n = cnp.PyArray_SIZE(x)
    cdef ndarray before, values = None, starts = None, firsts = None, back = None
    r.kind = run_kinds.get(x.dtype.str[1:], RUN_BYTES)
    r.items = <const char*>cnp.PyArray_DATA(x)
    r.itemsize = cnp.PyArray_ITEMSIZE(x)
    r.n = n
    r.numbers = count_numbers(x)
    r.equal_nan = equal_nan
    before = np.empty(runs_blocks(&r) + 1, np.int64)
    r.before = <int64_t*>cnp.PyArray_DATA(before)
    with nogil:
        enter(&e)
        rc = runs_count(e.worker, &r)
        rc = leave(&e, rc)
    check(rc, "the runs")
    runs = before[-1]
    r.values = NULL
    r.starts = r.index = r.inverse = NULL
    r.order = NULL
    if runs == n:
        values = x
    else:
        values = np.empty(runs, x.dtype)
        r.values = <char*>cnp.PyArray_DATA(values)
    if counts:
        starts = np.empty(runs + 1, np.int64)
        (<object>starts)[runs] = n
        r.starts = <int64_t*>cnp.PyArray_DATA(starts)
    if order is not None:
        r.order = <const int64_t*>cnp.PyArray_DATA(order)
    if index and runs == n:
        firsts = order
    elif index:
        firsts = np.empty(runs, np.int64)
        r.index = <int64_t*>cnp.PyArray_DATA(firsts)
    if inverse:
        back = np.empty(n, np.int64)
        r.inverse = <int64_t*>cnp.PyArray_DATA(back)
    if r.values != NULL or counts or r.index != NULL or inverse:
        with nogil:
            enter(&e)
            rc = runs_write(e.worker, &r)
            rc = leave(&e, rc)
        check(rc, "the runs")
    made = [values]
    if index:
        made.append(firsts.view(np.intp))
    if inverse:
        made.append(back.view(np.intp))
    if counts:
        made.append(par_map(np.subtract, starts[1:], starts[:-1]).view(np.intp))
    return made


cdef list unique(ndarray x, bint index, bint inverse, bint counts, bint equal_nan):
    """As unique_of_few; None: NumPy is to do it alone."""
    cdef list made
    cdef ndarray order
    cdef str kind = x.dtype.kind
    cdef int64_t size = cnp.PyArray_ITEMSIZE(x)
    if kind not in "biufcmMSU" or size == 0 or sizeof(Py_ssize_t) != 8:
        return None
    if (kind == "f" and size > 8) or (kind == "c" and size > 16):
        return None
    if kind in "mM" and not equal_nan and np.isnat(x).any():
        # Here NumPy's versions, and its own roads, differ.
        return None
    if kind in "biufmM":
        # Half-precision floats NumPy may sort wrong: see half_is_wrong in arrays/sort.
        if size == 2 and kind != "f" and cnp.PyArray_SIZE(x) < FEW_SHORTS:
            return None
        made = unique_of_few(x, index, inverse, counts, equal_nan)
        if made is not None:
            return made
    if not index and not inverse:
        # Of equal floats, which can be told apart by the sign of zero, the first one.
        return unique_of_sorted(
            par_sort(x, stable=True if kind in "fc" else None), None, False, False, counts,
            equal_nan)
    order = sorting_order([x], False)
    if order is None:
        return None
    return unique_of_sorted(par_take(x, order), order, index, inverse, counts, equal_nan)


def par_unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *,
               equal_nan=True, sorted=True, progress=None):
    """The distinct values of an array, sorted, on all cores: ``np.unique``.

    Parameters
    ----------
    ar : array_like
        Flattened, unless ``axis`` is given.
    return_index : bool, optional
        Whether to return where each value is first.
    return_inverse : bool, optional
        Whether to return, for each item, which of the values it is.
    return_counts : bool, optional
        Whether to return how often each value occurs.
    axis : int or None, optional
        Distinct subarrays along this axis: by NumPy, alone, if there are more axes.
    equal_nan : bool, optional
        Whether not-a-numbers (and not-a-times) are one value.
    sorted : bool, optional
        False allows any order.  Below some thousand items it is NumPy's; otherwise they
        are sorted in any case.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    unique : ndarray
        Of equal values that can be told apart, 0.0 and -0.0, the first one.
    unique_indices, unique_inverse, unique_counts : ndarray of int
        In a tuple with the values, those that were asked for.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.unique`` raises for the same mistake.

    Notes
    -----
    - Items of one or two bytes are counted in tables: O(n) work.
    - Numbers and times of four or eight bytes of which a sample shows that they have
      few distinct values (up to 16,384, and n / 8) are counted in hash tables, one for each of up
      to 32 blocks, which are then merged: O(n) work.
    - Of others, and of complex numbers and fixed-width strings, a sorted copy is made by
      ``par_sort``, or a sorted order when indices are wanted; then the places where a
      value begins are counted, and the values moved there: O(n log n) work.
    - Other types are NumPy's, alone.

    Extra memory: some megabytes for tables, or what sorting takes: a copy of the array,
    and with indices its order.

    Examples
    --------
    >>> import pyblitz as pb
    >>> pb.par_unique([3, 1, 3, 2], return_counts=True)
    (array([1, 2, 3]), array([1, 1, 2]))
    """
    cdef ndarray a, x
    cdef list made
    if progress is not None:
        return with_progress(
            progress, par_unique, (ar, return_index, return_inverse, return_counts, axis),
            {"equal_nan": equal_nan, "sorted": sorted})
    if (not cnp.PyArray_CheckExact(ar) or cnp.PyArray_SIZE(<ndarray>ar) < FEW_ITEMS
            or not (axis is None or (cnp.PyArray_NDIM(<ndarray>ar) == 1 and type(axis) is int
                                     and -1 <= axis <= 0))):
        return unique_by_numpy(
            ar, return_index, return_inverse, return_counts, axis, equal_nan, sorted)
    a = ar
    made = None
    if a.dtype.kind in "biufcmMSU":
        x = np.require(a.reshape(-1), a.dtype.newbyteorder("="), "CA")
        made = unique(x, return_index, return_inverse, return_counts, equal_nan)
    if made is None:
        return unique_by_numpy(
            ar, return_index, return_inverse, return_counts, axis, equal_nan, sorted)
    made[0] = made[0].astype(a.dtype, copy=False)
    if return_inverse:
        at = 2 if return_index else 1
        made[at] = made[at].reshape((<object>a).shape)
    return made[0] if len(made) == 1 else tuple(made)


# ---- isin -------------------------------------------------------------------

cdef object isin_bits(ndarray e, ndarray t, object low, object high, bint invert):
    """For integers: t, whose extremes these are, as a table of bits."""
    cdef Bits bits
    cdef Entry entry
    cdef int rc
    cdef ndarray words, result
    cdef MemberKind e_kind = member_kinds[e.dtype.str[1:]], t_kind = member_kinds[t.dtype.str[1:]]
    cdef const void* items = cnp.PyArray_DATA(e)
    cdef const void* members = cnp.PyArray_DATA(t)
    cdef int64_t n = cnp.PyArray_SIZE(e), m = cnp.PyArray_SIZE(t)
    cdef uint8_t* out
    # What e cannot hold is not in it.
    info = np.iinfo(np.uint8 if e.dtype == np.bool_ else e.dtype)
    low, high = max(low, int(info.min)), min(high, int(info.max))
    if low > high:
        return np.full(n, invert)
    bits.low = <uint64_t>(low & 0xFFFFFFFFFFFFFFFF)
    bits.range = <uint64_t>(high - low)
    words = np.zeros((high - low) // 32 + 1, np.uint32)
    bits.words = <atomic_u32*>cnp.PyArray_DATA(words)
    result = np.empty(n, np.bool_)
    out = <uint8_t*>cnp.PyArray_DATA(result)
    with nogil:
        enter(&entry)
        rc = bits_put(entry.worker, &bits, members, m, t_kind)
        if rc == 0:
            rc = bits_ask(entry.worker, &bits, items, n, e_kind, invert, out)
        rc = leave(&entry, rc)
    check(rc, "the members")
    return result


cdef object isin_keys(ndarray e, ndarray t, bint invert):
    """For items of one type, of 4 or 8 bytes: t as a hash table.  None: too many of t
    have one hash."""
    cdef Keys keys
    cdef Entry entry
    cdef int rc
    cdef ndarray result
    cdef const void* items = cnp.PyArray_DATA(e)
    cdef const void* members = cnp.PyArray_DATA(t)
    cdef int64_t n = cnp.PyArray_SIZE(e)
    cdef uint8_t* out
    keys.kind = member_kinds[e.dtype.str[1:3]]
    keys.n = cnp.PyArray_SIZE(t)
    result = np.empty(n, np.bool_)
    out = <uint8_t*>cnp.PyArray_DATA(result)
    with nogil:
        enter(&entry)
        rc = keys_put(entry.worker, &keys, members)
        if rc == 0 and not keys.crowded:
            rc = keys_ask(entry.worker, &keys, items, n, invert, out)
        keys_free(&keys)
        rc = leave(&entry, rc)
    check(rc, "the members")
    return None if keys.crowded else result


cdef object isin_sorted(ndarray e, ndarray t, bint invert):
    """For items of one type: a search for each in t, sorted."""
    t = par_sort(t)
    near = par_take(t, par_searchsorted(t, e), mode="clip")
    return par_map(np.not_equal if invert else np.equal, near, e)


cdef ndarray plain(ndarray a, object dtype):
    """Its items in a row, of this type."""
    return np.require(a.reshape(-1), dtype, "CA")


cdef object isin(ndarray e, ndarray t, bint invert, object kind):
    """The result, flat; None: NumPy is to do it alone."""
    cdef str of_e = e.dtype.kind, of_t = t.dtype.kind
    cdef int64_t n = cnp.PyArray_SIZE(e), m = cnp.PyArray_SIZE(t)
    if m == 0 or sizeof(Py_ssize_t) != 8 or not (kind is None or type(kind) is str):
        return None
    if kind is not None and kind != "sort" and kind != "table":
        return None
    if of_e in "biu" and of_t in "biu":
        t = plain(t, t.dtype.newbyteorder("="))
        low, high = int(t.min()), int(t.max())
        if kind == "table" and t.dtype.kind != "b" and high - low > np.iinfo(t.dtype).max:
            return None
        if kind == "table" or high - low <= ITEM_BITS * (n + m):
            return isin_bits(plain(e, e.dtype.newbyteorder("=")), t, low, high, invert)
        # Of one signed and one unsigned type of eight bytes, NumPy makes floats.
        if np.result_type(e, t).kind not in "iu" or e.dtype.itemsize < 4:
            return None
        info = np.iinfo(e.dtype)
        if low < info.min or high > info.max:
            t = t[(t >= max(low, info.min)) & (t <= min(high, info.max))]
            if t.size == 0:
                return np.full(n, invert)
        common = e.dtype.newbyteorder("=")
    elif kind == "table":
        return None
    elif of_e in "biuf" and of_t in "biuf":
        common = np.result_type(e, t, np.float32)
        if common.itemsize > 8:
            return None
        if common == np.float64 and e.dtype == np.float32:
            # Rather than doubles of e, those of t that are floats.
            wide = plain(t, common)
            with np.errstate(all="ignore"):
                t = wide.astype(np.float32)
            t = t[t == wide]
            if t.size == 0:
                return np.full(n, invert)
            common = t.dtype
    elif of_e == of_t and (of_e in "SUc" or (of_e in "mM" and e.dtype == t.dtype)):
        common = np.result_type(e, t).newbyteorder("=")
        if common.itemsize == 0:
            return None
    else:
        return None
    e, t = plain(e, common), plain(t, common)
    result = None
    if common.kind in "iufmM" and cnp.PyArray_SIZE(t) <= MOST_KEYS:
        result = isin_keys(e, t, invert)
    return isin_sorted(e, t, invert) if result is None else result


def par_isin(element, test_elements, assume_unique=False, invert=False, *, kind=None,
             progress=None):
    """Which items are among others, on all cores: ``np.isin``.

    Parameters
    ----------
    element : array_like
        The items.
    test_elements : array_like
        What they are to be among.
    assume_unique : bool, optional
        Makes no difference here; NumPy gives wrong answers when it is not true.
    invert : bool, optional
        Whether to say instead which are not.
    kind : {None, 'sort', 'table'}, optional
        As for ``np.isin``; the answer is the same for all.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray of bool
        Of the shape of ``element``.

    Raises
    ------
    RuntimeError, ValueError
        What ``np.isin`` raises for the same mistake.

    Notes
    -----
    - Integers, where the range of ``test_elements`` is not much greater than both arrays
      are long, or for ``kind='table'``: a table of bits.  O(n + m) work and range / 8
      bytes.
    - Numbers and times: a hash table of ``test_elements`` (open addressing, linear
      probing), built and asked in parallel.  O(n + m) work, 16 to 64 bytes for each
      of ``test_elements``.
    - Complex numbers, fixed-width strings, more than 16,777,216 ``test_elements``, and
      those that were chosen to have one hash: ``par_sort`` and ``par_searchsorted``.
      O((n + m) log m) work.
    - Other types, and small arrays: NumPy, alone.

    Examples
    --------
    >>> import pyblitz as pb
    >>> pb.par_isin([1, 5, 2, 5], [5, 7])
    array([False,  True, False,  True])
    """
    cdef ndarray e
    if progress is not None:
        return with_progress(
            progress, par_isin, (element, test_elements, assume_unique, invert), {"kind": kind})
    if (not cnp.PyArray_CheckExact(element)
            or cnp.PyArray_SIZE(<ndarray>element) < FEW_ELEMENTS
            or not (cnp.PyArray_CheckExact(test_elements) or type(test_elements) is list
                    or type(test_elements) is tuple)):
        return np.isin(element, test_elements, assume_unique, invert, kind=kind)
    e = element
    result = isin(e, np.asarray(test_elements), invert, kind)
    if result is None:
        return np.isin(element, test_elements, assume_unique, invert, kind=kind)
    return result.reshape((<object>e).shape)
