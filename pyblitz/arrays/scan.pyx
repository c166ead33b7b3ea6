# cython: wraparound=True, boundscheck=True
"""``par_scan``, ``par_cumsum``, ``par_cumprod``, ``par_reduceat``."""
import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from numpy cimport ndarray, ufunc

from pyblitz._progress import with_progress
from pyblitz._python cimport Entry, enter, leave
from pyblitz.arrays.common cimport (
    SLICE_ITEMS, Resolved, Slices, at, check, is_associative, is_plain, longest_axis, may_overlap,
    outputs_are_safe, report_flags, resolve)
from pyblitz.kernels.scan cimport (
    SCAN_ADD_F32, SCAN_ADD_F64, SCAN_ADD_U32, SCAN_ADD_U64, SCAN_LOOP, Scan, scan_run)
from pyblitz.runtime.atomic cimport u32_load_relaxed

cnp.import_array()

cdef enum:
    # Below this NumPy's scan is done before another thread could help.
    SMALL_SCAN_BYTES = 131072
    # Fewer rows than this are scanned one after another, each by all workers.
    FEW_ROWS = 16

cdef dict sum_kinds = {
    "i4": SCAN_ADD_U32, "u4": SCAN_ADD_U32, "i8": SCAN_ADD_U64, "u8": SCAN_ADD_U64,
    "f4": SCAN_ADD_F32, "f8": SCAN_ADD_F64,
}


# ---- scans ------------------------------------------------------------------

cdef class SlicedScan(Slices):
    """op.accumulate on slices along a kept axis."""
    cdef object op
    cdef ndarray a
    cdef ndarray out
    cdef object dtype
    cdef int along
    cdef int axis

    cdef object part(self, int64_t lo, int64_t hi):
        index = at(self.axis, lo, hi)
        self.op.accumulate(self.a[index], self.along, self.dtype, self.out[index])


cdef class SlicedCopy(Slices):
    cdef ndarray a
    cdef ndarray out

    cdef object part(self, int64_t lo, int64_t hi):
        np.copyto(self.out[lo:hi], self.a[lo:hi], casting="unsafe")


cdef object copy_row(ndarray a, ndarray out):
    cdef SlicedCopy s = SlicedCopy("accumulate", True)
    s.a = a
    s.out = out
    s.run(SLICE_ITEMS, cnp.PyArray_SIZE(a), False)
    # What NumPy says of a cast, as in the copy that it would make.
    report_flags("cast", s.flags.seen)


cdef int scan_row(ufunc op, ndarray a, ndarray out, Resolved r) except -1:
    """Scans one row into another, which may be the same memory."""
    cdef Scan s
    cdef Entry e
    cdef int rc
    cdef int64_t n = cnp.PyArray_SIZE(a)
    cdef object dtype = r.dtypes[2]
    cdef ndarray source = a
    s.loop = r.loop
    s.data = r.data
    s.itemsize = cnp.PyArray_ITEMSIZE(out)
    if a.dtype != dtype or not cnp.PyArray_ISALIGNED(a):
        copy_row(a, out)
        source = out
    elif dtype.kind in "fc" and cnp.PyArray_DATA(a) == cnp.PyArray_DATA(out):
        # It may have to be begun anew.
        a = source = np.empty(n, dtype)
        copy_row(out, source)
    s.src = <const char*>cnp.PyArray_DATA(source)
    s.dst = <char*>cnp.PyArray_DATA(out)
    s.src_stride = cnp.PyArray_STRIDE(source, 0)
    s.dst_stride = cnp.PyArray_STRIDE(out, 0)
    s.kind = SCAN_LOOP
    if op is np.add and s.src_stride == s.itemsize and s.dst_stride == s.itemsize:
        s.kind = sum_kinds.get(dtype.str[1:], SCAN_LOOP)
    with nogil:
        enter(&e)
        rc = scan_run(e.worker, &s, n)
        rc = leave(&e, rc)
    check(rc, "the scan")
    if u32_load_relaxed(&s.flags):
        # Where infinities and the like belong, only NumPy's own order tells.
        op.accumulate(a, 0, dtype, out)
    return 0


cdef object direct_scan(object op, object a, object axis, object dtype, object out):
    # Only what was given: other types see NumPy's own defaults.
    options = {}
    if axis != 0 or type(axis) is not int:
        options["axis"] = axis
    if dtype is not None:
        options["dtype"] = dtype
    if out is not None:
        options["out"] = out
    return op.accumulate(a, **options)


cdef object scan(ufunc op, ndarray x, int axis, object dtype, object out):
    """The result, or None: NumPy is to do it alone.  For x that is not small."""
    cdef Resolved r
    cdef SlicedScan s
    cdef ndarray result
    cdef int ndim = cnp.PyArray_NDIM(x), kept_axis
    cdef int64_t size = cnp.PyArray_SIZE(x), rows
    cdef bint one_row
    if op.nin != 2 or op.nout != 1 or op.signature is not None:
        return None
    if axis < 0:
        axis += ndim
    if axis < 0 or axis >= ndim:
        return None
    r = resolve(op, (None if out is None else (<ndarray>out).dtype, x.dtype, None),
                None if dtype is None else (np.dtype(dtype), None, None), "unsafe", True)
    if r.dtypes is None or r.dtypes[0] != r.dtypes[2]:
        return None
    shape = tuple([cnp.PyArray_DIM(x, d) for d in range(ndim)])
    if out is not None:
        result = out
        if (result.dtype != r.dtypes[2] or out.shape != shape
                or not cnp.PyArray_ISALIGNED(result) or not outputs_are_safe([x, out], 1)
                or (may_overlap(result, x) and result.dtype != x.dtype)):
            return None
    rows = size // shape[axis]
    # A running sum of halves is rounded too much to be begun in the middle.
    one_row = (r.loop != NULL and is_associative(op) and rows < FEW_ROWS
               and shape[axis] * <int64_t>r.dtypes[2].itemsize > SMALL_SCAN_BYTES
               and r.dtypes[0] == r.dtypes[1] and r.dtypes[2].char != "e")
    kept_axis = longest_axis(shape, [d for d in range(ndim) if d != axis])
    if not one_row and (kept_axis < 0 or shape[kept_axis] < 2):
        return None
    if out is None:
        result = np.empty_like(x, r.dtypes[2])
    if one_row:
        for index in np.ndindex(*shape[:axis], *shape[axis + 1:]):
            row = index[:axis] + (slice(None),) + index[axis:]
            scan_row(op, x[row], result[row], r)
        return result
    s = SlicedScan("accumulate", True)
    s.op = op
    s.a = x
    s.out = result
    # A given `out` decides the dtype; of times, the unit may not be named.
    s.dtype = dtype if r.dtypes[2].kind in "mM" else r.dtypes[2]
    s.along = axis
    s.axis = kept_axis
    s.run(max(1, SLICE_ITEMS * shape[kept_axis] // size), shape[kept_axis], False)
    report_flags("accumulate", s.flags.seen)
    return result


def par_scan(op, a, axis=0, dtype=None, out=None, *, progress=None):
    """Running results of a binary ufunc, on all cores: ``op.accumulate``.

    Parameters
    ----------
    op : ufunc
        With two inputs and one output.
    a : array_like
    axis : int, optional
        What to accumulate along; the first axis by default.
    dtype : dtype, optional
        The type of the calculation and the result.
    out : ndarray, optional
        Where the results go; it may be ``a``.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``op.accumulate`` raises for the same mistake.

    Notes
    -----
    O(n) work.  One row is cut into blocks, whose totals are combined from left to
    right while they are accumulated [1]_: both depend on the length alone, so the
    result has the same bits for any number of threads, run after run.  Rounding
    operations (sums and products of floats) are grouped otherwise than in NumPy,
    which goes strictly from left to right, so they may be rounded otherwise; the
    error of a sum is no worse, and mostly less.  Where any step raises a
    floating-point flag (an overflow, an invalid operation), NumPy does the row
    alone, so infinities and not-a-numbers are where it puts them.  A row of floats
    that is accumulated in place is copied first.

    Many rows are shared whole.  One row with an operation that is not associative,
    such as ``np.subtract``, NumPy does alone.

    References
    ----------
    .. [1] D. Merrill, M. Garland, "Single-pass parallel prefix scan with decoupled
       look-back", NVIDIA, 2016.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_scan(np.maximum, [3, 1, 4, 1, 5])
    array([3, 3, 4, 4, 5])
    >>> pb.par_scan(np.add, np.ones((2, 3)), axis=1)
    array([[1., 2., 3.],
           [1., 2., 3.]])
    """
    if progress is not None:
        return with_progress(progress, par_scan, (op, a, axis, dtype, out), {})
    if not isinstance(op, ufunc):
        if isinstance(getattr(op, "ufunc", None), ufunc):      # Numba's DUFunc
            return direct_scan(op, a, axis, dtype, out)
        raise TypeError(f"op: expected a ufunc, not {type(op).__name__}")
    if not cnp.PyArray_CheckExact(a):
        if not is_plain(a):
            return direct_scan(op, a, axis, dtype, out)
        a = np.asarray(a)
    if cnp.PyArray_NBYTES(<ndarray>a) <= SMALL_SCAN_BYTES or type(axis) is not int:
        return direct_scan(op, a, axis, dtype, out)
    target = out[0] if type(out) is tuple and len(out) == 1 else out
    if target is not None and not cnp.PyArray_CheckExact(target):
        return direct_scan(op, a, axis, dtype, out)
    result = scan(op, a, axis, dtype, target)
    return direct_scan(op, a, axis, dtype, out) if result is None else result


cdef object cumulate(object fn, ufunc op, object a, object axis, object dtype, object out):
    """np.cumsum or np.cumprod."""
    if (not cnp.PyArray_CheckExact(a) or cnp.PyArray_NBYTES(<ndarray>a) <= SMALL_SCAN_BYTES
            or (axis is not None and type(axis) is not int)
            or not (out is None or cnp.PyArray_CheckExact(out))):
        return fn(a, axis, dtype, out)
    x = a.ravel() if axis is None else a
    result = scan(op, x, 0 if axis is None else axis, dtype, out)
    return fn(a, axis, dtype, out) if result is None else result


def par_cumsum(a, axis=None, dtype=None, out=None, *, progress=None):
    """Running sums, on all cores: ``np.cumsum``.

    Parameters
    ----------
    a : array_like
    axis : int, optional
        What to sum along; by default all elements, as one row.
    dtype : dtype, optional
        The type of the sums; that of ``a``, but at least the platform's integer.
    out : ndarray, optional
        Where the sums go; it may be ``a``.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.cumsum`` raises for the same mistake.

    Notes
    -----
    As ``par_scan``: the same bits for any number of threads; floats may be rounded
    otherwise than in NumPy, with an error that is no worse.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_cumsum([1, 2, 3])
    array([1, 3, 6])
    """
    if progress is not None:
        return with_progress(progress, par_cumsum, (a, axis, dtype, out), {})
    return cumulate(np.cumsum, np.add, a, axis, dtype, out)


def par_cumprod(a, axis=None, dtype=None, out=None, *, progress=None):
    """Running products, on all cores: ``np.cumprod``.

    Parameters
    ----------
    a : array_like
    axis : int, optional
        What to multiply along; by default all elements, as one row.
    dtype : dtype, optional
        The type of the products; that of ``a``, but at least the platform's integer.
    out : ndarray, optional
        Where the products go; it may be ``a``.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.cumprod`` raises for the same mistake.

    Notes
    -----
    As ``par_scan``: the same bits for any number of threads; floats may be rounded
    otherwise than in NumPy, and where products overflow or underflow, NumPy does
    the row alone.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_cumprod([1, 2, 3])
    array([1, 2, 6])
    """
    if progress is not None:
        return with_progress(progress, par_cumprod, (a, axis, dtype, out), {})
    return cumulate(np.cumprod, np.multiply, a, axis, dtype, out)


# ---- reductions of segments --------------------------------------------------

cdef class SlicedReduceat(Slices):
    """op.reduceat for ranges of the indices."""
    cdef object op
    cdef ndarray a
    cdef ndarray indices    # not decreasing
    cdef object cuts        # part i has the indices cuts[i] .. cuts[i + 1]
    cdef ndarray out
    cdef object dtype
    cdef int axis

    cdef object part(self, int64_t lo, int64_t hi):
        lo, hi = self.cuts[lo], self.cuts[hi]
        if lo == hi:
            return
        first, last, end = self.indices[lo], self.indices[hi - 1], cnp.PyArray_DIM(self.a, self.axis)
        if hi < cnp.PyArray_SIZE(self.indices):
            # Of equal indices, all but the last stand for one element.
            end = max(self.indices[hi], last + 1)
        self.op.reduceat(self.a[at(self.axis, first, end)], self.indices[lo:hi] - first, self.axis,
                         self.dtype, self.out[at(self.axis, lo, hi)])


cdef object direct_reduceat(object op, object a, object indices, object axis, object dtype,
                            object out):
    options = {}
    if axis != 0 or type(axis) is not int:
        options["axis"] = axis
    if dtype is not None:
        options["dtype"] = dtype
    if out is not None:
        options["out"] = out
    return op.reduceat(a, indices, **options)


cdef object reduceat(ufunc op, ndarray x, object indices, int axis, object dtype, object out):
    """The result, or None: NumPy is to do it alone."""
    cdef Resolved r
    cdef SlicedReduceat s
    cdef ndarray result
    cdef int ndim = cnp.PyArray_NDIM(x)
    cdef int64_t size = cnp.PyArray_SIZE(x), n, parts
    if op.nin != 2 or op.nout != 1 or op.signature is not None:
        return None
    if axis < 0:
        axis += ndim
    if axis < 0 or axis >= ndim:
        return None
    if not is_plain(indices):
        return None
    indices = np.asarray(indices)
    n = cnp.PyArray_DIM(x, axis)
    if (indices.ndim != 1 or indices.dtype.kind not in "iu" or indices.dtype.itemsize > 8
            or indices.dtype == np.uint64 or indices.size < 2):
        return None
    # Of the platform's type, and our own: nobody changes them any more.
    indices = indices.astype(np.intp)
    if indices[0] < 0 or indices[-1] >= n or (indices[1:] < indices[:-1]).any():
        return None
    r = resolve(op, (None if out is None else (<ndarray>out).dtype, x.dtype, None),
                None if dtype is None else (np.dtype(dtype), None, None), "unsafe", True)
    if r.dtypes is None or r.dtypes[0] != r.dtypes[2]:
        return None
    shape = tuple([indices.size if d == axis else cnp.PyArray_DIM(x, d) for d in range(ndim)])
    if out is not None:
        result = out
        if (result.dtype != r.dtypes[2] or out.shape != shape
                or not outputs_are_safe([x, out], 1) or may_overlap(result, x)):
            return None
    else:
        result = np.empty(shape, r.dtypes[2])
    # Parts of as many elements, as far as whole segments allow.
    parts = max(<int64_t>2, min(size // SLICE_ITEMS, <int64_t>64))
    s = SlicedReduceat("reduceat", True)
    s.op = op
    s.a = x
    s.indices = indices
    first = int(indices[0])
    targets = np.array([first + (n - first) * i // parts for i in range(1, parts)], np.intp)
    s.cuts = [0, *np.searchsorted(indices, targets).tolist(), indices.size]
    s.out = result
    s.dtype = dtype if r.dtypes[2].kind in "mM" else r.dtypes[2]
    s.axis = axis
    s.run(1, parts, False)
    report_flags("reduceat", s.flags.seen)
    return result


def par_reduceat(op, a, indices, axis=0, dtype=None, out=None, *, progress=None):
    """Reduces segments of an array by a ufunc, on all cores: ``op.reduceat``.

    Parameters
    ----------
    op : ufunc
        With two inputs and one output.
    a : array_like
    indices : array_like of int
        Where the segments begin.  Segment i ends where the next begins; if that is
        not later, it is the one element at ``indices[i]``.
    axis : int, optional
        What to reduce along; the first axis by default.
    dtype : dtype, optional
        The type of the calculation and the result.
    out : ndarray, optional
        Where the results go.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError, IndexError, numpy.exceptions.AxisError
        What ``op.reduceat`` raises for the same mistake.

    Notes
    -----
    O(n) work.  The list of segments is cut into parts of about as many elements,
    and NumPy does each, so every segment has NumPy's own bits.  A segment is never
    cut: one that has nearly all elements is one thread's.  Indices that decrease
    somewhere are left to NumPy alone.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_reduceat(np.add, np.arange(8), [0, 4, 6])
    array([ 6,  9, 13])
    """
    if progress is not None:
        return with_progress(progress, par_reduceat, (op, a, indices, axis, dtype, out), {})
    if not isinstance(op, ufunc):
        if isinstance(getattr(op, "ufunc", None), ufunc):      # Numba's DUFunc
            return direct_reduceat(op, a, indices, axis, dtype, out)
        raise TypeError(f"op: expected a ufunc, not {type(op).__name__}")
    if (not cnp.PyArray_CheckExact(a) or cnp.PyArray_NBYTES(<ndarray>a) <= SMALL_SCAN_BYTES
            or type(axis) is not int):
        return direct_reduceat(op, a, indices, axis, dtype, out)
    target = out[0] if type(out) is tuple and len(out) == 1 else out
    if target is not None and not cnp.PyArray_CheckExact(target):
        return direct_reduceat(op, a, indices, axis, dtype, out)
    result = reduceat(op, a, indices, axis, dtype, target)
    return direct_reduceat(op, a, indices, axis, dtype, out) if result is None else result
