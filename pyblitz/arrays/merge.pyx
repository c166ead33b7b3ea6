# cython: wraparound=True, boundscheck=True
"""``par_merge``, ``par_is_sorted``, and sorting by a user's comparison."""
import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t, intptr_t
from numpy cimport ndarray

from pyblitz._progress import with_progress
from pyblitz._python cimport Entry, enter, leave
from pyblitz.arrays.argsort cimport sort_fields, sorting_order
from pyblitz.arrays.common cimport Slices, at, check, is_plain, longest_axis, may_overlap
from pyblitz.arrays.compiled cimport CompiledKernel, as_less
from pyblitz.kernels.merge cimport (
    ORDER_COMPARE, ORDER_LESS, ORDER_LESS_ALONE, ORDER_TRUTH, ORDER_TRUTH_ALONE, MergeSort,
    MergeTwo, Order, OrderForm, Sorted, compare_bytes, compare_fn, compare_ucs4, is_sorted,
    merge_sort, merge_two, order_by, order_numbers, sort_rows)
from pyblitz.runtime.atomic cimport atomic_u32, u32_load_relaxed, u32_store_relaxed

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyArray_ArrFuncs:
        compare_fn compare
    PyArray_ArrFuncs* PyDataType_GetArrFuncs(cnp.PyArray_Descr*)

cdef enum:
    # Items of a result that is made before another thread could help.
    SMALL_MERGE = 4096
    # Rows of more items are sorted one after the other, each by all.
    LONG_ROW = 32768
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
    if kind == b"S" and size > 0:
        order_by(o, ORDER_COMPARE, <void*>compare_bytes, <void*>size, size)
        return True
    if kind == b"U" and size > 0:
        order_by(o, ORDER_COMPARE, <void*>compare_ucs4, <void*>size, size)
        return True
    compare = PyDataType_GetArrFuncs(<cnp.PyArray_Descr*>dtype).compare
    if kind in b"fc" and compare != NULL:
        order_by(o, ORDER_COMPARE, <void*>compare, <void*>a, size)
        return True
    return False


cdef bint is_direct(ndarray a):
    """Whether kernels can read it as it lies."""
    return a.dtype.isnative and cnp.PyArray_IS_C_CONTIGUOUS(a) and cnp.PyArray_ISALIGNED(a)


cdef int check_axis(int ndim, object axis) except -1:
    """In NumPy's words."""
    if type(axis) is not int or not -ndim <= axis < ndim:
        np.sort(np.empty((1,) * ndim, "?"), axis)
    return 0


# ---- a user's comparison ----------------------------------------------------

cdef OrderForm form_of(CompiledKernel k):
    if k.gives_int:
        return ORDER_LESS if k.kernel.takes_user else ORDER_LESS_ALONE
    return ORDER_TRUTH if k.kernel.takes_user else ORDER_TRUTH_ALONE


cdef CompiledKernel less_for(object less, object dtype):
    """The comparison, if it is one of items of that type."""
    cdef CompiledKernel k = as_less(less)
    if k is None:
        raise TypeError(
            f"less: must be a compiled function, int (const void *, const void *, void *), not "
            f"{type(less).__name__}; to compare by Python, sort an array of objects that "
            "functools.cmp_to_key made")
    if dtype.hasobject or dtype.kind == "T":
        raise TypeError(f"less: compares plain memory, which items of {dtype} are not")
    if k.dtype is not None and dtype.kind in "biufmM":
        # What lies in arrays of other types is the function's own business.
        ours = np.dtype("i8") if dtype.kind in "mM" else dtype.newbyteorder("=")
        if k.dtype != ours:
            raise TypeError(f"less: {k.signature!r} compares {k.dtype}, not {dtype}")
    return k


cdef object sort_rows_by(ndarray rows, ndarray result, CompiledKernel less, bint descending):
    """Sorts along the last axis of a C-contiguous array into another, or in place when
    both are one."""
    cdef MergeSort s
    cdef Entry e
    cdef int64_t count, row
    cdef int rc = 0
    cdef intptr_t size = cnp.PyArray_ITEMSIZE(result)
    s.n = cnp.PyArray_DIM(result, cnp.PyArray_NDIM(result) - 1)
    if s.n == 0 or cnp.PyArray_SIZE(result) == 0:
        return
    count = cnp.PyArray_SIZE(result) // s.n
    s.src = <const char*>cnp.PyArray_DATA(rows)
    s.dst = <char*>cnp.PyArray_DATA(result)
    s.leaf = NULL
    s.arr = NULL
    order_by(&s.order, form_of(less), less.kernel.fn, less.kernel.user, size)
    s.order.descending = descending
    with nogil:
        enter(&e)
        if s.n < LONG_ROW:
            rc = (sort_rows(e.worker, &s, count) if count > 1 else merge_sort(e.worker, &s))
        else:
            for row in range(count):
                rc = merge_sort(e.worker, &s)
                if rc != 0:
                    break
                s.src += s.n * size
                s.dst += s.n * size
        rc = leave(&e, rc)
    check(rc, "the sort")


cdef object check_out(object out, tuple shape, object dtype, bint swapped):
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out: must be an array, not {type(out).__name__}")
    if out.shape != shape:
        raise ValueError(f"out: shape {out.shape} does not match that of the result, {shape}")
    if out.dtype != dtype and not (swapped and out.dtype.newbyteorder("=") == dtype):
        raise TypeError(f"out: dtype {out.dtype} does not match that of the result, {dtype}")
    if not out.flags.writeable:
        raise ValueError("out: output array is read-only")


cdef object sort_by_kernel(ndarray a, object axis, object less, bint descending, object out,
                           bint indices):
    cdef CompiledKernel k = less_for(less, a.dtype)
    cdef ndarray rows, result
    cdef int ndim, along
    check_axis(cnp.PyArray_NDIM(a), axis)
    if out is not None:
        check_out(out, (a.size,) if axis is None else (<object>a).shape,
                  np.dtype(np.intp) if indices else a.dtype, False)
    if axis is None:
        rows, ndim, along = a.reshape(-1), 1, 0
    else:
        ndim = cnp.PyArray_NDIM(a)
        along = axis if axis >= 0 else axis + ndim
        rows = a if along == ndim - 1 else np.moveaxis(a, along, -1)
    if indices:
        # Pairs of an item and its index, which the comparison takes for items: it reads
        # what it compares without a detour.
        pairs = np.empty((<object>rows).shape, np.dtype(
            [("item", a.dtype.newbyteorder("=")), ("index", np.intp)], align=True))
        pairs["item"] = rows
        pairs["index"] = np.arange((<object>rows).shape[ndim - 1])
        sort_rows_by(pairs, pairs, k, descending)
        found = pairs["index"] if along == ndim - 1 else np.moveaxis(pairs["index"], -1, along)
        if out is None:
            return found.copy()
        out[...] = found
        return out
    native = a.dtype.newbyteorder("=")
    if out is not None and along == ndim - 1 and is_direct(out):
        result = out
    else:
        result = np.empty((<object>rows).shape, native)
    if rows.dtype == native and cnp.PyArray_IS_C_CONTIGUOUS(rows) and cnp.PyArray_ISALIGNED(rows):
        if cnp.PyArray_DATA(rows) == cnp.PyArray_DATA(result):
            rows = result
        elif may_overlap(rows, result):
            rows = rows.copy()
    else:
        rows = rows.astype(native, order="C")
        if result is not out:
            result = rows
    sort_rows_by(rows, result, k, descending)
    if result is out:
        return out
    found = result if along == ndim - 1 else np.moveaxis(result, -1, along)
    if out is None:
        if axis is None:
            return found.astype(a.dtype, copy=False)
        # As np.sort's copy: in the array's own layout and byte order.
        out = np.empty_like(a, subok=False)
        if out.dtype == found.dtype and out.strides == found.strides:
            return found
    out[...] = found
    return out


# ---- merging ----------------------------------------------------------------

def par_merge(a, b, *, out=None, progress=None):
    """Two sorted arrays merged into one, on all cores.

    Parameters
    ----------
    a, b : 1-D array_like
        Sorted as ``np.sort`` does: not-a-number and not-a-time last.
    out : ndarray, optional
        Where the result goes, of its length and dtype. It may overlap ``a`` and ``b``.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

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
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_merge([1, 4, 9], [2, 4])
    array([1, 2, 4, 4, 9])
    """
    cdef ndarray x, y, result
    cdef MergeTwo t
    cdef Order order
    cdef Entry e
    cdef int rc
    if progress is not None:
        return with_progress(progress, par_merge, (a, b), {"out": out})
    plain = is_plain(a) and is_plain(b)
    if plain:
        a, b = np.asarray(a), np.asarray(b)
    for name, each in (("a", a), ("b", b)):
        if np.ndim(each) != 1:
            raise ValueError(f"{name}: must have one dimension, not {np.ndim(each)}")
    if out is not None:
        check_out(out, (a.size + b.size,), np.result_type(a.dtype, b.dtype), True)
    if not plain or a.size + b.size < SMALL_MERGE:
        return merged_by_numpy(a, b, out)
    dtype = np.result_type(a.dtype, b.dtype)
    if dtype.kind not in "biufcmMSU":
        return merged_by_numpy(a, b, out)
    dtype = dtype.newbyteorder("=")
    if out is not None and is_direct(out):
        result = out
    else:
        result = np.empty(a.size + b.size, dtype)
    if not order_of(&order, result):
        return merged_by_numpy(a, b, out)
    x, y = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
    if not is_direct(x) or may_overlap(x, result):
        x = x.copy()
    if not is_direct(y) or may_overlap(y, result):
        y = y.copy()
    t.order = &order
    t.a, t.na = <const char*>cnp.PyArray_DATA(x), cnp.PyArray_SIZE(x)
    t.b, t.nb = <const char*>cnp.PyArray_DATA(y), cnp.PyArray_SIZE(y)
    t.out = <char*>cnp.PyArray_DATA(result)
    with nogil:
        enter(&e)
        rc = merge_two(e.worker, &t)
        rc = leave(&e, rc)
    check(rc, "the merge")
    if out is None or result is out:
        return result
    out[...] = result
    return out


cdef object merged_by_numpy(object a, object b, object out):
    merged = np.sort(np.concatenate([a, b]), kind="stable")
    if out is None:
        return merged
    out[...] = merged
    return out


# ---- whether it is sorted ---------------------------------------------------

cdef bint run_sorted(ndarray a, int axis, bint descending, bint strict):
    """For a C-contiguous, aligned native array whose items have an order."""
    cdef Sorted s
    cdef Order order
    cdef Entry e
    cdef int rc, d
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
    with nogil:
        enter(&e)
        rc = is_sorted(e.worker, &s)
        rc = leave(&e, rc)
    check(rc, "the check")
    return not s.found


cdef object complex_class(object x):
    """Numbers, those with a part that is none, those with two: from first to last."""
    return 2 * np.isnan(x.real) + np.isnan(x.imag)


cdef bint compared_by_numpy(object x, object y, bint descending, bint strict):
    """Whether each of y belongs behind that of x."""
    if x.dtype.kind == "O":
        if descending:
            x, y = y, x
        return bool(np.all(x < y)) if strict else not np.any(y < x)
    # Real or complex, from the greatest down: what is no number is still last.
    before, behind = complex_class(x), complex_class(y)
    wrong = behind < before
    same = behind == before
    for p, q in ((x.real, y.real), (x.imag, y.imag)):
        wrong |= same & (p < q)
        same &= (p == q) | (np.isnan(p) & np.isnan(q))
    return not (wrong.any() or (strict and same.any()))


cdef class SlicedSorted(Slices):
    """par_is_sorted for slices of an array."""
    cdef ndarray a
    cdef int axis           # that the order is along
    cdef int along          # that slices are along
    cdef bint descending
    cdef bint strict
    cdef bint by_kernel
    cdef atomic_u32 found

    cdef object part(self, int64_t lo, int64_t hi):
        # relaxed: only to save work; the caller reads after the join
        if u32_load_relaxed(&self.found):
            return
        if not self.is_sorted(self.a[at(self.along, lo, hi + (self.along == self.axis))]):
            u32_store_relaxed(&self.found, 1)

    cdef bint is_sorted(self, object a):
        cdef ndarray copy
        if self.by_kernel:
            copy = np.require(a, a.dtype.newbyteorder("="), "CA")
            return run_sorted(copy, self.axis, self.descending, self.strict)
        a = np.moveaxis(a, self.axis, -1)
        x, y = a[..., :-1], a[..., 1:]
        if a.dtype.kind in "Ofc":
            return compared_by_numpy(x, y, self.descending, self.strict)
        if self.strict and np.any(x == y):
            return False
        # What a stable sort leaves as it is.
        parts = sort_fields(a, None) if a.ndim == 1 else None
        order = None if parts is None else sorting_order(parts, self.descending)
        if order is None:
            order = np.argsort(a[..., ::-1] if self.descending else a, axis=-1, kind="stable")
        return bool((order == np.arange((<object>a).shape[-1])).all())


def par_is_sorted(a, axis=-1, *, descending=None, strict=False, progress=None):
    """Whether an array is sorted along an axis, on all cores.

    Parameters
    ----------
    a : array_like
    axis : int or None, optional
        The last one by default; None looks at the flattened array.
    descending : bool, optional
        True: from the greatest down. Not-a-number and not-a-time are last in both orders,
        as ``par_sort`` has them.
    strict : bool, optional
        True: no two neighbours are equal. (Those of which none is a number are.)
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    bool
        True when every row along the axis is sorted: ``par_sort`` would change nothing.

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
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_is_sorted([1.0, 2.0, 2.0, np.nan])
    True
    >>> pb.par_is_sorted([1.0, 2.0, 2.0, np.nan], strict=True)
    False
    """
    cdef ndarray x
    cdef SlicedSorted sliced
    cdef int ndim, along
    if progress is not None:
        return with_progress(progress, par_is_sorted, (a, axis),
                             {"descending": descending, "strict": strict})
    x = np.asarray(a)
    check_axis(cnp.PyArray_NDIM(x), axis)
    if axis is None:
        x = x.reshape(-1)
        ndim, along = 1, 0
    else:
        ndim = cnp.PyArray_NDIM(x)
        along = axis if axis >= 0 else axis + ndim
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
    sliced = SlicedSorted("is_sorted", False)
    sliced.a, sliced.axis, sliced.by_kernel = x, along, by_kernel
    sliced.descending, sliced.strict = down, strictly
    u32_store_relaxed(&sliced.found, 0)
    shape = (<object>x).shape
    sliced.along = longest_axis(shape, range(ndim))
    n = shape[sliced.along]
    sliced.run(max(1, SLICE_PAIRS * n // cnp.PyArray_SIZE(x)), n - (sliced.along == along), False)
    return not u32_load_relaxed(&sliced.found)
