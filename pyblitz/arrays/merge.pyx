# cython: wraparound=True, boundscheck=True
"""``par_merge``, ``par_is_sorted``."""
import operator
from functools import partial

import numpy as np

cimport numpy as cnp
from libc.stdint cimport intptr_t
from numpy cimport ndarray

from pyblitz.arrays.common cimport (
    PyDataType_GetArrFuncs, at, axis_of, longest_axis, may_overlap, ndim_of, numpys, run, run_fn, slices)
from pyblitz.arrays.front cimport (
    MERGE_NS, as_array, check_out, left, left_dtype, pays, private_copy, too_small)
from pyblitz.arrays.front import operation
from pyblitz.arrays.sorting cimport is_direct, sort_fields, sorting_order
from pyblitz.kernels.merge cimport (
    ORDER_COMPARE, IsSorted, MergeTwo, Order, compare_bytes, compare_ucs4, is_sorted,
    merge_two, order_by, order_numbers)

cnp.import_array()

cdef enum:
    # Pairs of a slice that is worth taking the GIL for.
    SLICE_PAIRS = 65536


cdef bint order_of(Order* o, ndarray a):
    """NumPy's order of the items of a contiguous, aligned native array, without the
    GIL; false: there is none."""
    cdef object dtype = a.dtype
    cdef char kind = ord(dtype.kind)
    cdef intptr_t size = cnp.PyArray_ITEMSIZE(a)
    if order_numbers(o, kind, size):
        return True
    if kind in b"SU" and size > 0:
        order_by(o, ORDER_COMPARE, <void*>compare_bytes if kind == b"S" else <void*>compare_ucs4, <void*>size, size)
        return True
    compare = PyDataType_GetArrFuncs(<cnp.PyArray_Descr*>dtype).compare
    if kind in b"fc" and compare != NULL:
        order_by(o, ORDER_COMPARE, <void*>compare, <void*>a, size)
        return True
    return False


# ---- merging ----------------------------------------------------------------

cdef int check_merge(object a, object b, object out) except -1:
    for name, each in (("a", a), ("b", b)):
        if ndim_of(each) != 1:
            raise ValueError(f"{name}: must have one dimension, not {ndim_of(each)}")
    if out is not None:
        check_out(out, (a.size + b.size,), np.result_type(a.dtype, b.dtype), True)
    return 0


def merged_by_numpy(a, b, *, out=None):
    """The same, by NumPy alone."""
    check_merge(a, b, out)
    merged = np.concatenate([a, b])
    if cnp.PyArray_CheckExact(merged):
        merged.sort(kind="stable")          # a copy less
    else:
        merged = numpys.sort(merged, kind="stable")
    if out is None:
        return merged
    out[...] = merged
    return out


@operation("a b out", merged_by_numpy, masked=False)
def par_merge(a, b, *, out=None):
    """Two sorted arrays merged into one, on all cores.

    Parameters
    ----------
    a, b : 1-D array_like
        Sorted as ``np.sort`` does: NaN and NaT last.
    out : ndarray, optional
        Where the result goes, of its length and dtype. It may overlap ``a`` and ``b``.

    Returns
    -------
    ndarray
        What ``np.sort(np.concatenate([a, b]), kind="stable")`` gives: of equal elements,
        those of ``a`` come first. When ``a`` or ``b`` is not sorted, their elements in
        some order. ``out`` if it was given.

    Raises
    ------
    ValueError
        When ``a`` or ``b`` is not of one dimension, or ``out`` has another length or is
        read-only.
    TypeError
        When the types do not go together, or ``out`` has another one.

    Notes
    -----
    O(n) work for n elements in all. The result is cut into equal pieces by co-ranking
    [1]_, so that no thread has more to do than another, whatever the values are. No extra
    memory, except for a copy of what is strided, of another type than the result, or
    overlapped by it. Of types that are no numbers, times or fixed-width strings, NumPy
    sorts the whole.

    .. [1] C. Siebert, J. L. Träff, "Efficient MPI implementation of a parallel, stable
       merge algorithm", 2012.

    Examples
    --------
    >>> pb.par_merge([1, 4, 9], [2, 4])
    array([1, 2, 4, 4, 9])
    """
    cdef ndarray x, y, result
    cdef MergeTwo t
    cdef Order order
    x, y = as_array(a), as_array(b)
    if not pays(x.size + y.size, MERGE_NS):
        return too_small
    check_merge(x, y, out)
    dtype = np.result_type(x.dtype, y.dtype)
    if dtype.kind not in "biufcmMSU":
        return left_dtype(dtype)
    for one in (x.dtype, y.dtype):
        if one.kind != dtype.kind and (dtype.kind == "m" or (dtype.kind in "SU" and one.kind not in "SU")):
            return left("types whose order is not that of what they become")
    dtype = dtype.newbyteorder("=")
    if out is not None and is_direct(out):
        result = out
    else:
        result = np.empty(x.size + y.size, dtype)
    if not order_of(&order, result):
        return left_dtype(dtype)
    x, y = x.astype(dtype, copy=False), y.astype(dtype, copy=False)
    if not is_direct(x) or may_overlap(x, result):
        x = x.copy()
    if not is_direct(y) or may_overlap(y, result):
        y = y.copy()
    t.order = &order
    t.a, t.na = <const char*>cnp.PyArray_DATA(x), cnp.PyArray_SIZE(x)
    t.b, t.nb = <const char*>cnp.PyArray_DATA(y), cnp.PyArray_SIZE(y)
    t.out = <char*>cnp.PyArray_DATA(result)
    run(<run_fn>merge_two, &t, "the merge")
    if out is None or result is out:
        return result
    out[...] = result
    return out


# ---- whether it is sorted ---------------------------------------------------

cdef bint run_sorted(ndarray a, int axis, bint descending, bint strict):
    """For a C-contiguous, aligned native array whose items have an order."""
    cdef IsSorted s
    cdef Order order
    cdef int d
    if not order_of(&order, a):
        raise NotImplementedError(f"no order of {a.dtype}")
    s.order = &order
    s.row = <const char*>cnp.PyArray_DATA(a)
    s.n = cnp.PyArray_DIM(a, axis)
    s.rows = s.stride = 1
    for d in range(cnp.PyArray_NDIM(a)):
        if d < axis:
            s.rows *= cnp.PyArray_DIM(a, d)
        elif d > axis:
            s.stride *= cnp.PyArray_DIM(a, d)
    s.descending = descending
    s.strict = strict
    run(<run_fn>is_sorted, &s, "the check")
    return not s.found


cdef object complex_class(object x):
    """Rises in the order of complex numbers: 0 without a NaN, 1 if the imaginary part is one, 2 if the
    real part is, 3 if both."""
    return 2 * np.isnan(x.real) + np.isnan(x.imag)


cdef bint compared_by_numpy(object x, object y, bint descending, bint strict):
    """Whether each of y belongs behind that of x."""
    if x.dtype.kind == "O":
        if descending:
            x, y = y, x
        return bool(np.all(x < y)) if strict else not np.any(y < x)
    # Real or complex, from the greatest down: NaNs are last all the same.
    before, behind = complex_class(x), complex_class(y)
    wrong = behind < before
    same = behind == before
    for p, q in ((x.real, y.real), (x.imag, y.imag)):
        wrong |= same & (p < q)
        same &= (p == q) | (np.isnan(p) & np.isnan(q))
    return not (wrong.any() or (strict and same.any()))


cdef bint slice_is_sorted(object a, int axis, bint descending, bint strict, bint by_kernel):
    cdef ndarray copy
    if by_kernel:
        copy = np.require(a, a.dtype.newbyteorder("="), "CA")
        return run_sorted(copy, axis, descending, strict)
    a = np.moveaxis(a, axis, -1)
    x, y = a[..., :-1], a[..., 1:]
    if a.dtype.kind in "Ofc":
        return compared_by_numpy(x, y, descending, strict)
    if strict and np.any(x == y):
        return False
    # What a stable sort leaves as it is.
    parts = sort_fields(a, None) if a.ndim == 1 else None
    order = None if parts is None else sorting_order(parts, [descending] * len(parts))
    if order is None:
        order = numpys.argsort(private_copy(a[..., ::-1] if descending else a), axis=-1, kind="stable")
    return bool((order == np.arange((<object>a).shape[-1])).all())


def sorted_part(a, axis, along, descending, strict, by_kernel, found, lo, hi):
    """Slices are along `along`, the order is along `axis`."""
    if not found and not slice_is_sorted(a[at(along, lo, hi + (along == axis))], axis, descending, strict, by_kernel):
        found.append(True)


def looked_at(a, axis=-1, *, descending=None, strict=False):
    """par_is_sorted of what only other libraries compute with."""
    return par_is_sorted(np.asarray(a), None if axis is None else operator.index(axis), descending=descending,
                         strict=strict)


@operation("a", looked_at, masked=False)
def par_is_sorted(a, axis=-1, *, descending=None, strict=False):
    """Whether an array is sorted along an axis, on all cores.

    Parameters
    ----------
    descending : bool, optional
        True: from the greatest down. NaN and NaT are last in both orders,
        as ``par_sort`` has them.
    strict : bool, optional
        True: no two neighbours are equal. (Those of which none is a number are.)

    Returns
    -------
    bool
        True when every row along the axis is sorted: a stable sort would change nothing.

    Raises
    ------
    numpy.exceptions.AxisError
        When there is no such axis.
    TypeError
        When the elements have no order.

    Notes
    -----
    O(n) work: each element is compared with the next; it ends soon after any pair that
    is not in order. No extra memory for numbers, times, complex numbers and fixed-width
    strings in C or Fortran order; of other layouts, slices are copied. Structured and
    variable-width string arrays are sorted in slices, objects compared one by one, under
    the GIL.

    Examples
    --------
    >>> pb.par_is_sorted([1.0, 2.0, 2.0, np.nan])
    True
    >>> pb.par_is_sorted([1.0, 2.0, 2.0, np.nan], strict=True)
    False
    """
    cdef ndarray x
    cdef int ndim, along
    x = as_array(a)
    if axis is None:
        x = x.reshape(-1)
    ndim = cnp.PyArray_NDIM(x)
    along = 0 if axis is None else axis_of(axis, ndim)
    if cnp.PyArray_DIM(x, along) < 2 or cnp.PyArray_SIZE(x) == 0:
        return True
    down, strictly = bool(descending), bool(strict)
    kind = x.dtype.kind
    # Of these the order from the greatest down is not the other one backwards.
    by_kernel = kind in "biumMSU" or (kind in "fc" and not (down and x.dtype.char in "gFDG"))
    by_kernel = by_kernel and x.dtype.itemsize > 0
    if by_kernel and x.dtype.isnative and cnp.PyArray_ISALIGNED(x):
        if cnp.PyArray_IS_C_CONTIGUOUS(x):
            return run_sorted(x, along, down, strictly)
        if cnp.PyArray_IS_F_CONTIGUOUS(x):
            return run_sorted(x.T, ndim - 1 - along, down, strictly)
    if x.dtype.kind in "SUV" and x.dtype.itemsize == 0:
        return not strictly
    shape = (<object>x).shape
    across = longest_axis(shape, range(ndim))
    n = shape[across]
    found = []
    slices("is_sorted", partial(sorted_part, x, along, across, down, strictly, by_kernel, found),
           max(1, SLICE_PAIRS * n // cnp.PyArray_SIZE(x)), n - (across == along), None)
    return not found
