# cython: wraparound=True, boundscheck=True
"""``par_unique``, ``par_isin``."""
import inspect

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy
from numpy cimport ndarray

from pyblitz.arrays.common cimport axis_of, number_of, numpys, run, run_fn
from pyblitz.arrays.front cimport (
    FLOATS_NS, HASH_NS, ISIN_NS, SHORTS_NS, UNIQUE_NS, as_array, Left, left, left_dtype, pays, too_small)
from pyblitz.arrays.front import operation
from pyblitz.arrays.map import par_map
from pyblitz.arrays.gather import par_put, par_take
from pyblitz.arrays.join import par_repeat
from pyblitz.arrays.select import par_flatnonzero
from pyblitz.arrays.search import par_searchsorted
from pyblitz.arrays.sort cimport sort
from pyblitz.arrays.sorting cimport are_halves, sort_fields, sorting_order, sorting_runs
from pyblitz.kernels.distinct cimport (
    DISTINCT_LIMIT, Distinct, distinct_free, distinct_inverse, distinct_may_be_few, distinct_run)
from pyblitz.kernels.member cimport (
    Bits, Keys, bits_ask, bits_put, keys_ask, keys_free, keys_put)
from pyblitz.kernels.numbers cimport NumberKind
from pyblitz.kernels.runs cimport Runs, runs_blocks, runs_count, runs_write
from pyblitz.runtime.atomic cimport atomic_u32
from pyblitz.runtime.pool cimport Worker

cnp.import_array()

cdef enum:
    # A table of bits has at most so many for each item of the two arrays; a hash table
    # at most so many members.
    ITEM_BITS = 16
    MOST_KEYS = 1 << 24

cdef bint has_sorted = "sorted" in inspect.signature(np.unique).parameters
# NumPy 2.2 makes records of what lies along an axis, and compares those.  With no index asked for, it
# would import numpy.ma to look for a mask.
cdef bint axis_merges_nans = np.unique(np.full(2, np.nan), return_index=True, axis=0)[0].size == 1


# ---- unique -----------------------------------------------------------------

def unique_by_numpy(ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *,
                    equal_nan=True, sorted=True):
    """The namesake, whatever the version of NumPy."""
    if are_halves(ar):
        # Which it may sort wrong: see sorted_by_numpy in arrays/sort.
        made = unique_by_numpy(ar.astype(np.float32), return_index, return_inverse, return_counts, axis,
                               equal_nan=equal_nan, sorted=sorted)
        return (made[0].astype(ar.dtype), *made[1:]) if type(made) is tuple else made.astype(ar.dtype)
    if cnp.PyArray_CheckExact(ar):
        if has_sorted:
            return numpys.unique(
                ar, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan, sorted=sorted)
        return numpys.unique(ar, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan)
    # Other libraries' do not know all options.
    options = {}
    for name, given, usual in (
            ("return_index", return_index, False), ("return_inverse", return_inverse, False),
            ("return_counts", return_counts, False), ("axis", axis, None), ("equal_nan", equal_nan, True)):
        if given is not usual:
            options[name] = given
    if has_sorted and sorted is not True:
        options["sorted"] = sorted
    return numpys.unique(ar, **options)


cdef ndarray copy_of(const int64_t* items, int64_t n):
    cdef ndarray a = np.empty(n, np.int64)
    memcpy(cnp.PyArray_DATA(a), items, n * sizeof(int64_t))
    return a


cdef bint may_be_none(ndarray x):
    """Whether there are NaNs or NaTs of this type."""
    return x.dtype.kind in "fcmM"


cdef struct Back:
    Distinct* d
    const int64_t* ranks
    int64_t* out


cdef int run_back(Worker* w, Back* b) noexcept nogil:
    return distinct_inverse(w, b.d, b.ranks, b.out)


cdef list unique_of_few(ndarray x, bint index, bint inverse, bint counts, bint equal_nan):
    """Values, index, inverse and counts, of what was asked for; None: there are more than
    a few values."""
    cdef Distinct d
    cdef Back b
    cdef ndarray first, ranks, back
    cdef object order, values
    d.items = <const char*>cnp.PyArray_DATA(x)
    d.n = cnp.PyArray_SIZE(x)
    d.size = cnp.PyArray_ITEMSIZE(x)
    d.floats = x.dtype.kind == "f"
    # The counts tell whether there are two NaNs: if these are to differ, this function gives up.
    d.counting = counts or (not equal_nan and may_be_none(x))
    # Of few items, tables of which little is used take longer to make than to fill.
    d.limit = min(<int64_t>DISTINCT_LIMIT, d.n // 8)
    d.numbers = NULL
    if not distinct_may_be_few(&d):
        return None
    try:
        run(<run_fn>distinct_run, &d, "the distinct items")
        if d.many:
            return None
        first = copy_of(d.first, d.count)
        values = x[first]
        order = numpys.argsort(values)
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
            b.d = &d
            b.ranks = <const int64_t*>cnp.PyArray_DATA(ranks)
            b.out = <int64_t*>cnp.PyArray_DATA(back)
            run(<run_fn>run_back, &b, "the inverse")
            made.append(back.view(np.intp))
        if counts:
            made.append(copy_of(d.counts, d.count)[order].astype(np.intp, copy=False))
        return made
    finally:
        distinct_free(&d)


cdef int64_t count_numbers(ndarray x):
    """Items of a sorted row before the NaNs or NaTs at its end."""
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
    cdef int64_t runs, n = cnp.PyArray_SIZE(x)
    cdef ndarray before, values = None, starts = None, firsts = None, back = None
    r.kind = number_of(x.dtype)
    r.items = <const char*>cnp.PyArray_DATA(x)
    r.itemsize = cnp.PyArray_ITEMSIZE(x)
    r.n = n
    r.numbers = count_numbers(x)
    r.equal_nan = equal_nan
    before = np.empty(runs_blocks(&r) + 1, np.int64)
    r.before = <int64_t*>cnp.PyArray_DATA(before)
    run(<run_fn>runs_count, &r, "the runs")
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
        run(<run_fn>runs_write, &r, "the runs")
    made = [values]
    if index:
        made.append(firsts.view(np.intp))
    if inverse:
        made.append(back.view(np.intp))
    if counts:
        made.append(par_map(np.subtract, starts[1:], starts[:-1]).view(np.intp))
    return made


cdef object unique_of_records(ndarray x, bint index, bint inverse, bint counts):
    """As unique_of_few.  Of records NumPy never calls those equal that have a NaN."""
    cdef ndarray order, begins, starts
    cdef int64_t n = cnp.PyArray_SIZE(x)
    parts = sort_fields(x, None)
    if parts is None:
        return left_dtype(x.dtype)
    order, begins = sorting_runs([x], None)
    for part in parts:
        if part.dtype.kind in "fcmM":
            gap = np.isnan(part)
            if gap.any():
                begins |= par_take(gap, order)
    starts = par_flatnonzero(begins)
    firsts = par_take(order, starts)
    lengths = np.empty(cnp.PyArray_SIZE(starts), np.intp)
    par_map(np.subtract, starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1] = n - starts[-1]
    made = [par_take(x, firsts)]
    if index:
        made.append(firsts.astype(np.intp, copy=False))
    if inverse:
        back = np.empty(n, np.intp)
        par_put(back, order, par_repeat(np.arange(lengths.size), lengths))
        made.append(back)
    if counts:
        made.append(lengths)
    return made


# NumPy 2.3 hashes integers.
cdef bint has_hash = hasattr(np._core._multiarray_umath, "_unique_hash")


cdef bint pays_to_be_unique(ndarray a, bint plain):
    """plain: the distinct values are asked for, and nothing else."""
    cdef char kind = a.descr.kind
    cdef int64_t n = cnp.PyArray_SIZE(a)
    # Half-precision floats NumPy may sort wrong: see sorted_by_numpy in arrays/sort.
    if kind == b"f" and plain and cnp.PyArray_ITEMSIZE(a) > 2:
        return pays(n, FLOATS_NS)
    if kind in b"iu" and cnp.PyArray_ITEMSIZE(a) == 2:
        return pays(n, SHORTS_NS)
    if kind in b"fc" or kind in b"iu" and not (plain and has_hash):
        return pays(n, UNIQUE_NS)
    # Of one byte, which NumPy sorts by counting, half the time.
    return pays(n // 2 if kind in b"biu" and cnp.PyArray_ITEMSIZE(a) == 1 else n, HASH_NS)


cdef object unique(ndarray x, bint index, bint inverse, bint counts, bint equal_nan):
    """As unique_of_few, or what is left to NumPy."""
    cdef ndarray order
    cdef str kind = x.dtype.kind
    cdef int64_t size = cnp.PyArray_ITEMSIZE(x)
    if size == 0:
        return left("items of no bytes")
    if kind == "V":
        return unique_of_records(x, index, inverse, counts)
    if kind not in "biufcmMSU" or x.dtype.char in "gG":
        return left_dtype(x.dtype)
    if kind in "mM" and not equal_nan and np.isnat(x).any():
        # Here NumPy's versions, and its own roads, differ.
        return left("NaTs that differ")
    if kind in "biufmM":
        made = unique_of_few(x, index, inverse, counts, equal_nan)
        if made is not None:
            return made
    if not index and not inverse:
        # Of equal floats, which can be told apart by the sign of zero, the first one.
        made = sort(x, -1, None, kind in "fc", False, None)
        if type(made) is Left:
            return made
        return unique_of_sorted(made, None, False, False, counts, equal_nan)
    order = sorting_order([x], None)
    return unique_of_sorted(par_take(x, order), order, index, inverse, counts, equal_nan)


@operation("ar", unique_by_numpy, gives="first")
def par_unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *,
               equal_nan=True, sorted=True):
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
        Whether NaNs (and NaTs) are one value.
    sorted : bool, optional
        False allows any order.  Of few items, which NumPy finds, it is NumPy's; otherwise they
        are sorted in any case.

    Returns
    -------
    unique : ndarray
        Of equal values that can be told apart, 0.0 and -0.0, the first one; of up to 66,000
        floats the one that ``np.unique`` gives.
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
    - Of records the sorted order says where values begin.
    - Objects, variable-width strings, extended precision, records with fields of several
      items, of half or of extended precision, and NaTs that are to differ are
      NumPy's, alone.

    Extra memory: some megabytes for tables, or what sorting takes: a copy of the array,
    and with indices its order.

    Examples
    --------
    >>> pb.par_unique([3, 1, 3, 2], return_counts=True)
    (array([1, 2, 3]), array([1, 1, 2]))
    """
    cdef ndarray a = as_array(ar), x
    if not pays_to_be_unique(a, not (return_index or return_inverse or return_counts)):
        return too_small
    if axis is not None and (cnp.PyArray_NDIM(a) != 1 or axis_of(axis, 1) != 0):
        return left("subarrays along an axis")
    if axis is not None and not axis_merges_nans and a.dtype.kind in "fcmM":
        return left("NaNs along an axis, each of which this NumPy keeps")
    if sizeof(Py_ssize_t) != 8:
        return left("indices of 32 bits")
    x = a.reshape(-1)
    if a.dtype.kind in "biufcmMSU":
        x = np.require(x, a.dtype.newbyteorder("="), "CA")
    made = unique(x, return_index, return_inverse, return_counts, equal_nan)
    if type(made) is Left:
        return made
    made[0] = made[0].astype(a.dtype, copy=False)
    if return_inverse:
        at = 2 if return_index else 1
        made[at] = made[at].reshape((<object>a).shape)
    return made[0] if len(made) == 1 else tuple(made)


# ---- isin -------------------------------------------------------------------

cdef struct AskBits:
    Bits bits
    const void* members
    int64_t m               # how many members
    NumberKind member_kind
    const void* items
    int64_t n               # how many items
    NumberKind item_kind
    bint invert
    uint8_t* out


cdef int run_bits(Worker* w, AskBits* a) noexcept nogil:
    cdef int rc = bits_put(w, &a.bits, a.members, a.m, a.member_kind)
    if rc != 0:
        return rc
    return bits_ask(w, &a.bits, a.items, a.n, a.item_kind, a.invert, a.out)


cdef object isin_bits(ndarray e, ndarray t, object low, object high, bint invert):
    """For integers: t, whose extremes these are, as a table of bits."""
    cdef AskBits a
    cdef ndarray words, result
    a.items, a.n, a.item_kind = cnp.PyArray_DATA(e), cnp.PyArray_SIZE(e), number_of(e.dtype)
    a.members, a.m, a.member_kind = cnp.PyArray_DATA(t), cnp.PyArray_SIZE(t), number_of(t.dtype)
    a.invert = invert
    a.bits.low = <uint64_t>(low & 0xFFFFFFFFFFFFFFFF)
    a.bits.range = <uint64_t>(high - low)
    words = np.zeros((high - low) // 32 + 1, np.uint32)
    a.bits.words = <atomic_u32*>cnp.PyArray_DATA(words)
    result = np.empty(a.n, np.bool_)
    a.out = <uint8_t*>cnp.PyArray_DATA(result)
    run(<run_fn>run_bits, &a, "the members")
    return result


cdef struct AskKeys:
    Keys keys
    const void* members
    const void* items
    int64_t n
    bint invert
    uint8_t* out


cdef int run_membership(Worker* w, AskKeys* a) noexcept nogil:
    cdef int rc = keys_put(w, &a.keys, a.members)
    if rc == 0 and not a.keys.crowded:
        rc = keys_ask(w, &a.keys, a.items, a.n, a.invert, a.out)
    keys_free(&a.keys)
    return rc


cdef object isin_keys(ndarray e, ndarray t, bint invert):
    """For items of one type, of 4 or 8 bytes: t as a hash table.  None: too many of t
    have one hash."""
    cdef AskKeys a
    cdef ndarray result
    a.items, a.n = cnp.PyArray_DATA(e), cnp.PyArray_SIZE(e)
    a.members = cnp.PyArray_DATA(t)
    a.keys.kind = number_of(e.dtype)
    a.keys.n = cnp.PyArray_SIZE(t)
    a.invert = invert
    result = np.empty(a.n, np.bool_)
    a.out = <uint8_t*>cnp.PyArray_DATA(result)
    run(<run_fn>run_membership, &a, "the members")
    return None if a.keys.crowded else result


cdef object isin_sorted(ndarray e, ndarray t, bint invert):
    """For items of one type: a search for each in t, sorted."""
    t = sort(t, -1, None, False, False, None)
    near = par_take(t, par_searchsorted(t, e), mode="clip")
    return par_map(np.not_equal if invert else np.equal, near, e)


cdef ndarray flat_row(ndarray a, object dtype):
    """Its items in a row, of this type."""
    return np.require(a.reshape(-1), dtype, "CA")


cdef object isin(ndarray e, ndarray t, bint invert, object kind):
    """The result, flat; or what is left to NumPy."""
    cdef str of_e = e.dtype.kind, of_t = t.dtype.kind
    cdef int64_t n = cnp.PyArray_SIZE(e), m = cnp.PyArray_SIZE(t)
    if m == 0 or not (kind is None or (type(kind) is str and (kind == "sort" or kind == "table"))):
        return left("arguments that it may refuse")
    if sizeof(Py_ssize_t) != 8:
        return left("indices of 32 bits")
    if of_e in "biu" and of_t in "biu":
        t = flat_row(t, t.dtype.newbyteorder("="))
        low, high = int(t.min()), int(t.max())
        if kind == "table" and t.dtype.kind != "b" and high - low > np.iinfo(t.dtype).max:
            return left("arguments that it may refuse")
        # What e cannot hold is not in it.
        info = np.iinfo(np.uint8 if of_e == "b" else e.dtype)
        least, greatest = max(low, int(info.min)), min(high, int(info.max))
        if least > greatest:
            return np.full(n, invert)
        # Of one and two bytes there is no other way: a table has 8,192 bytes at most.
        if kind == "table" or e.dtype.itemsize <= 2 or greatest - least <= ITEM_BITS * (n + m):
            return isin_bits(flat_row(e, e.dtype.newbyteorder("=")), t, least, greatest, invert)
        if np.result_type(e, t).kind not in "iu":
            return left("signed among unsigned integers")       # of which NumPy makes floats
        if least > low or greatest < high:
            t = t[(t >= least) & (t <= greatest)]
            if t.size == 0:
                return np.full(n, invert)
        common = e.dtype.newbyteorder("=")
    elif kind == "table":
        return left("arguments that it may refuse")
    elif of_e in "biuf" and of_t in "biuf":
        common = np.result_type(e, t, np.float32)
        if common.itemsize > 8:
            return left_dtype(common)
        if common == np.float64 and e.dtype == np.float32:
            # Rather than doubles of e, those of t that are floats.
            wide = flat_row(t, common)
            with np.errstate(all="ignore"):
                t = wide.astype(np.float32)
            t = t[t == wide]
            if t.size == 0:
                return np.full(n, invert)
            common = t.dtype
    elif of_e == of_t and (of_e in "SUc" or (of_e in "mM" and e.dtype == t.dtype)):
        common = np.result_type(e, t).newbyteorder("=")
        if common.itemsize == 0:
            return left("items of no bytes")
        if common.char == "G":
            return left_dtype(common)
    else:
        return left(f"{e.dtype} among {t.dtype}")
    e, t = flat_row(e, common), flat_row(t, common)
    result = None
    if common.kind in "iufmM" and cnp.PyArray_SIZE(t) <= MOST_KEYS:
        result = isin_keys(e, t, invert)
    return isin_sorted(e, t, invert) if result is None else result


@operation("element test_elements", np.isin)
def par_isin(element, test_elements, assume_unique=False, invert=False, *, kind=None):
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
    - Integers, where the range of ``test_elements`` is at most 16 times as long as both arrays
      together, or ``element`` has items of one or two bytes, or for ``kind='table'``: a table of
      bits.  O(n + m) work and range / 8 bytes.
    - Numbers and times: a hash table of ``test_elements`` (open addressing, linear
      probing), built and asked in parallel.  O(n + m) work, 16 to 64 bytes for each
      of ``test_elements``.
    - Complex numbers, fixed-width strings, more than 16,777,216 ``test_elements``, and
      those that were chosen to have one hash: ``par_sort`` and ``par_searchsorted``.
      O((n + m) log m) work.
    - Other types, and small arrays: NumPy, alone.

    Examples
    --------
    >>> pb.par_isin([1, 5, 2, 5], [5, 7])
    array([False,  True, False,  True])
    """
    cdef ndarray e = np.asarray(element)
    if not pays(cnp.PyArray_SIZE(e), ISIN_NS):
        return too_small
    result = isin(e, np.asarray(test_elements), invert, kind)
    return result if type(result) is Left else result.reshape((<object>e).shape)
