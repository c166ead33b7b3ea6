# cython: wraparound=True, boundscheck=True
"""``par_scan``, ``par_cumsum``, ``par_cumprod``, ``par_reduceat``."""
from functools import partial

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t, intptr_t
from numpy cimport ndarray, ufunc

from pyblitz.arrays.common cimport (
    SLICE_ITEMS, Resolved, at, axis_of, idempotent, longest_axis, may_overlap, numbas_ufunc,
    made_like, number_cast, outputs_are_safe, report_flags, resolve, run, run_fn, slices)
from pyblitz.arrays.front cimport (
    LOOP_NS, SCAN_NS, WHOLE_NS, alone, as_array, check_out, count_left, Left, left, left_dtype, pays, too_small)
from pyblitz.arrays.front import operation
from pyblitz.kernels.map cimport loop_fn
from pyblitz.kernels.scan cimport (
    SCAN_F32, SCAN_F64, SCAN_LOOP, SCAN_U32, SCAN_U64, Scan, scan_run)
from pyblitz.kernels.segments cimport Segments, segments_run
from pyblitz.runtime.atomic cimport u32_load_relaxed

cnp.import_array()

cdef enum:
    # Fewer rows than this are scanned one after another, each by all workers.
    FEW_ROWS = 16

cdef dict kinds = {
    "i4": SCAN_U32, "u4": SCAN_U32, "i8": SCAN_U64, "u8": SCAN_U64, "f4": SCAN_F32, "f8": SCAN_F64,
}


# ---- scans ------------------------------------------------------------------

def scan_part(op, a, along, dtype, out, axis, lo, hi):
    """op.accumulate on a slice along a kept axis."""
    index = at(axis, lo, hi)
    op.accumulate(a[index], along, dtype, out[index])


def copy_part(a, out, lo, hi):
    np.copyto(out[lo:hi], a[lo:hi], casting="unsafe")


cdef int copy_row(ndarray a, ndarray out) except -1:
    # What NumPy says of a cast, as in the copy that it would make.
    return slices("accumulate", partial(copy_part, a, out), SLICE_ITEMS, cnp.PyArray_SIZE(a), "cast")


cdef loop_fn cast_without_flags(ndarray a, object dtype):
    """NULL: none, or one that may have something to say."""
    if not cnp.PyArray_ISALIGNED(a) or not np.can_cast(a.dtype, dtype):
        return NULL
    return number_cast(a.dtype, dtype)


cdef int scan_row(ufunc op, ndarray a, ndarray out, Resolved r) except -1:
    """Scans one row into another, which may be the same memory."""
    cdef Scan s
    cdef int64_t n = cnp.PyArray_SIZE(a)
    cdef object dtype = r.dtypes[2]
    cdef ndarray source = a
    s.loop = r.loop
    s.data = r.data
    s.itemsize = cnp.PyArray_ITEMSIZE(out)
    s.cast = NULL
    if a.dtype != dtype or not cnp.PyArray_ISALIGNED(a):
        s.cast = cast_without_flags(a, dtype)
        if s.cast == NULL:
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
    s.product = op is np.multiply
    if (s.product or op is np.add) and s.dst_stride == s.itemsize and (
            s.cast != NULL or s.src_stride == s.itemsize):
        s.kind = kinds.get(dtype.str[1:], SCAN_LOOP)
    s.exact = dtype.kind in "biu"
    s.n = n
    run(<run_fn>scan_run, &s, "the scan")
    if u32_load_relaxed(&s.flags):
        # Where infinities and the like belong, only NumPy's own order tells.
        op.accumulate(a, 0, dtype, out)
    return 0


cdef Resolved resolve_for(ufunc op, ndarray x, object dtype, object out):
    """None: what it accumulates is not of the type of its results."""
    cdef Resolved r = resolve(op, (None if out is None else (<ndarray>out).dtype, x.dtype, None),
                              None if dtype is None else (np.dtype(dtype), None, None), "unsafe", True)
    return None if r.dtypes is None or r.dtypes[0] != r.dtypes[2] else r


cdef object axis_in(object axis):
    """The axis in a tuple of one, which methods of ufuncs take and other functions do not."""
    if type(axis) is tuple and len(axis) == 1 and not isinstance(axis[0], (bool, np.bool_)):
        return axis[0]
    return axis


cdef object scan(ufunc op, ndarray x, object axis, object dtype, object out):
    """``op.accumulate``, or what is left to it."""
    cdef Resolved r
    cdef ndarray result
    cdef int ndim = cnp.PyArray_NDIM(x), along, kept
    cdef int64_t size = cnp.PyArray_SIZE(x), rows
    cdef bint one_row
    # Extremes: it is NumPy's loop in each of two passes.
    if not pays(size, SCAN_NS) or (dtype is None and x.dtype.kind in "biu" and not pays(size, WHOLE_NS)) or (
            op in idempotent and (alone(cnp.PyArray_NBYTES(x)) or not pays(size, LOOP_NS))):
        return too_small
    if op.nin != 2 or op.nout != 1 or op.signature is not None or axis is None or ndim == 0:
        return left("a ufunc that cannot accumulate")
    if type(axis) is tuple:
        return left("axes that it refuses")
    along = axis_of(axis, ndim)
    r = resolve_for(op, x, dtype, out)
    if r is None:
        return left_dtype(x.dtype)
    shape = tuple([cnp.PyArray_DIM(x, d) for d in range(ndim)])
    if out is not None:
        result = out
        check_out(out)      # NumPy 2.2 writes to one that is read-only
        if out.shape != shape:
            return left("an out of another shape")
        if (result.dtype != r.dtypes[2] or not cnp.PyArray_ISALIGNED(result)
                or not outputs_are_safe([x, out], 1) or (may_overlap(result, x) and result.dtype != x.dtype)):
            # What it could not hold, or would overwrite before it is read.
            made = scan(op, x, along, r.dtypes[2] if dtype is None else dtype, None)
            if type(made) is not Left:
                np.copyto(out, made, casting="unsafe")
                made = out
            return made
    rows = size // shape[along]
    # A running sum of halves is rounded too much to be begun in the middle.
    one_row = (r.loop != NULL and r.associative and rows < FEW_ROWS and pays(shape[along], SCAN_NS)
               and r.dtypes[0] == r.dtypes[1] and r.dtypes[2].char != "e")
    kept = longest_axis(shape, [d for d in range(ndim) if d != along])
    if not one_row and (kept < 0 or shape[kept] < 2):
        return left("one row in half precision" if r.dtypes[2].char == "e" else
                    "one row by a ufunc that is not associative, or takes the GIL")
    if out is None:
        result = made_like(x, r.dtypes[2])
    if one_row:
        for index in np.ndindex(*shape[:along], *shape[along + 1:]):
            row = index[:along] + (slice(None),) + index[along:]
            scan_row(op, x[row], result[row], r)
        return result
    # A given `out` decides the dtype; of times, the unit may not be named.
    slices("accumulate", partial(
        scan_part, op, x, along, dtype if r.dtypes[2].kind in "mM" else r.dtypes[2], result, kept),
        max(1, SLICE_ITEMS * shape[kept] // size), shape[kept], "accumulate")
    return result


@operation("a out", of_ufunc=True, method="accumulate", gives="wrap", ns=SCAN_NS)
def par_scan(op, a, axis=0, dtype=None, out=None):
    """Running results of a binary ufunc, on all cores: ``op.accumulate``.

    Parameters
    ----------
    out : ndarray, optional
        Where the results go; it may be ``a``.

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
    alone, so infinities and NaNs are where it puts them.  A row of floats
    that is accumulated in place is copied first.

    Many rows are shared whole.  One row with an operation that is not associative,
    such as ``np.subtract``, NumPy does alone.

    References
    ----------
    .. [1] D. Merrill, M. Garland, "Single-pass parallel prefix scan with decoupled
       look-back", NVIDIA, 2016.

    Examples
    --------
    >>> pb.par_scan(np.maximum, [3, 1, 4, 1, 5])
    array([3, 3, 4, 4, 5])
    >>> pb.par_scan(np.add, np.ones((2, 3)), axis=1)
    array([[1., 2., 3.],
           [1., 2., 3.]])
    """
    return scan(op, as_array(a), axis_in(axis), dtype, out) if isinstance(op, ufunc) else no_ufunc(op)


cdef object no_ufunc(object op):
    if numbas_ufunc(op) is not None:
        return left("a ufunc of Numba's")
    raise TypeError(f"op: expected a ufunc, not {type(op).__name__}")


cdef object cumulate(ufunc op, object a, object axis, object dtype, object out):
    """cumsum and cumprod."""
    x = as_array(a)
    return scan(op, x.ravel() if axis is None else x, 0 if axis is None else axis, dtype, out)


@operation("a out", np.cumsum, method="cumsum", gives="wrap", ns=SCAN_NS)
def par_cumsum(a, axis=None, dtype=None, out=None):
    """Running sums, on all cores: ``np.cumsum``.

    Parameters
    ----------
    axis : int, optional
        What to sum along; by default all elements, as one row.
    dtype : dtype, optional
        The type of the sums; that of ``a``, but at least the platform's integer.
    out : ndarray, optional
        Where the sums go; it may be ``a``.

    Notes
    -----
    As ``par_scan``: the same bits for any number of threads; floats may be rounded
    otherwise than in NumPy, with an error that is no worse.

    Examples
    --------
    >>> pb.par_cumsum([1, 2, 3])
    array([1, 3, 6])
    """
    return cumulate(np.add, a, axis, dtype, out)


@operation("a out", np.cumprod, method="cumprod", gives="wrap", ns=SCAN_NS)
def par_cumprod(a, axis=None, dtype=None, out=None):
    """Running products, on all cores: ``np.cumprod``.

    Parameters
    ----------
    axis : int, optional
        What to multiply along; by default all elements, as one row.
    dtype : dtype, optional
        The type of the products; that of ``a``, but at least the platform's integer.
    out : ndarray, optional
        Where the products go; it may be ``a``.

    Notes
    -----
    As ``par_scan``: the same bits for any number of threads; floats may be rounded
    otherwise than in NumPy, and where products overflow or underflow, NumPy does
    the row alone.

    Examples
    --------
    >>> pb.par_cumprod([1, 2, 3])
    array([1, 2, 6])
    """
    return cumulate(np.multiply, a, axis, dtype, out)


# ---- reductions of segments --------------------------------------------------

def segments_part(op, a, indices, cuts, out, dtype, axis, lo, hi):
    """op.reduceat on the segments of the parts lo .. hi; part i has those from cuts[i] up to
    cuts[i + 1].  indices: not decreasing."""
    lo, hi = cuts[lo], cuts[hi]
    if lo == hi:
        return
    first, last, end = indices[lo], indices[hi - 1], a.shape[axis]
    if hi < indices.size:
        # Of equal indices, all but the last stand for one element.
        end = max(indices[hi], last + 1)
    op.reduceat(a[at(axis, first, end)], indices[lo:hi] - first, axis, dtype, out[at(axis, lo, hi)])


cdef bint in_order(const intptr_t* indices, int64_t count, int64_t n) noexcept nogil:
    """Whether none is out of bounds, or below the one before."""
    cdef int64_t i
    for i in range(1, count):
        if indices[i] < indices[i - 1]:
            return False
    return indices[0] >= 0 and indices[count - 1] < n


cdef bint reduce_row(ufunc op, ndarray x, ndarray indices, ndarray result, Resolved r) except -1:
    """The segments of one row, without the GIL.  False: not of these types."""
    cdef Segments s
    cdef object dtype = r.dtypes[2]
    s.cast = NULL
    if r.loop == NULL or r.dtypes[0] != r.dtypes[1] or dtype.itemsize > 32 or not cnp.PyArray_ISALIGNED(result):
        return False
    if x.dtype != dtype or not cnp.PyArray_ISALIGNED(x):
        # NumPy casts floats some at a time, too, and sums those pairwise: other bits.
        s.cast = cast_without_flags(x, dtype) if dtype.kind in "iu" else NULL
        if s.cast == NULL:
            return False
    s.loop = r.loop
    s.data = r.data
    s.src = <const char*>cnp.PyArray_DATA(x)
    s.stride = cnp.PyArray_STRIDE(x, 0)
    s.n = cnp.PyArray_DIM(x, 0)
    s.starts = <const intptr_t*>cnp.PyArray_DATA(indices)
    s.segments = cnp.PyArray_SIZE(indices)
    s.dst = <char*>cnp.PyArray_DATA(result)
    s.dst_stride = cnp.PyArray_STRIDE(result, 0)
    s.itemsize = dtype.itemsize
    run(<run_fn>segments_run, &s, "reduceat")
    report_flags("reduceat", u32_load_relaxed(&s.flags))
    return True


cdef object reduceat(ufunc op, ndarray x, object indices, object axis, object dtype, object out):
    """``op.reduceat``, or what is left to it."""
    cdef Resolved r
    cdef ndarray result
    cdef int ndim = cnp.PyArray_NDIM(x), along
    cdef int64_t size = cnp.PyArray_SIZE(x), n, parts
    # NumPy's loops of these have vectors for a segment.
    if not pays(size, LOOP_NS if op is np.add or op in idempotent else SCAN_NS) or alone(cnp.PyArray_NBYTES(x)):
        return too_small
    if op.nin != 2 or op.nout != 1 or op.signature is not None or axis is None or ndim == 0:
        return left("a ufunc that cannot reduce")
    if type(axis) is tuple:
        return left("axes that it refuses")
    along = axis_of(axis, ndim)
    n = cnp.PyArray_DIM(x, along)
    if indices.ndim != 1 or indices.dtype.kind not in "iu" or indices.dtype == np.uint64 or indices.size < 2:
        return left("indices that are no integers, or one")
    # Of the platform's type, and our own: nobody changes them any more.
    indices = indices.astype(np.intp)
    if not in_order(<const intptr_t*>cnp.PyArray_DATA(indices), cnp.PyArray_SIZE(indices), n):
        # This copy: of indices that are written meanwhile, NumPy reads what is beyond the row.
        count_left("par_reduceat", "indices that fall", cnp.PyArray_NBYTES(x))
        return op.reduceat(x, indices, axis, dtype, out)
    r = resolve_for(op, x, dtype, out)
    if r is None:
        return left_dtype(x.dtype)
    shape = tuple([indices.size if d == along else cnp.PyArray_DIM(x, d) for d in range(ndim)])
    if out is None:
        result = np.empty(shape, r.dtypes[2])
    else:
        result = out
        check_out(out)      # NumPy 2.2 writes to one that is read-only
        if out.shape != shape:
            return left("an out of another shape")
        if result.dtype != r.dtypes[2] or not outputs_are_safe([x, out], 1) or may_overlap(result, x):
            # Of times, the unit may not be named.
            made = reduceat(op, x, indices, along, r.dtypes[2] if dtype is None and r.dtypes[2].kind not in "mM"
                            else dtype, None)
            if type(made) is Left:
                return made
            np.copyto(out, made, casting="unsafe")
            return out
    if ndim == 1 and reduce_row(op, x, indices, result, r):
        return result
    # Parts of as many elements, as far as whole segments allow.
    parts = max(<int64_t>2, min(size // SLICE_ITEMS, <int64_t>64))
    first = int(indices[0])
    targets = np.array([first + (n - first) * i // parts for i in range(1, parts)], np.intp)
    cuts = [0, *np.searchsorted(indices, targets).tolist(), indices.size]
    slices("reduceat", partial(
        segments_part, op, x, indices, cuts, result, dtype if r.dtypes[2].kind in "mM" else r.dtypes[2], along),
        1, parts, "reduceat")
    return result


@operation("a indices out", of_ufunc=True, method="reduceat", gives="wrap", ns=SCAN_NS, twice="indices")
def par_reduceat(op, a, indices, axis=0, dtype=None, out=None):
    """Reduces segments of an array by a ufunc, on all cores: ``op.reduceat``.

    Parameters
    ----------
    indices : array_like of int
        Where the segments begin.  Segment i ends where the next begins; if that is
        not later, it is the one element at ``indices[i]``.

    Raises
    ------
    TypeError, ValueError, IndexError, numpy.exceptions.AxisError
        What ``op.reduceat`` raises for the same mistake.

    Notes
    -----
    O(n) work.  Every segment is reduced by NumPy's own loop, so it has NumPy's bits.  A segment
    is never cut: one that has nearly all elements is one thread's.  Indices that decrease
    somewhere are left to NumPy alone.

    Examples
    --------
    >>> pb.par_reduceat(np.add, np.arange(8), [0, 4, 6])
    array([ 6,  9, 13])
    """
    if not isinstance(op, ufunc):
        return no_ufunc(op)
    return reduceat(op, as_array(a), as_array(indices), axis_in(axis), dtype, out)
