# cython: wraparound=True, boundscheck=True
"""``par_concatenate``, ``par_repeat``."""
import operator
from collections.abc import Sequence

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from numpy cimport ndarray

from pyblitz.arrays.common cimport at, axis_of, may_overlap, run, run_fn
from pyblitz.arrays.copy cimport (
    cast_to, contiguous, copy_into, movable, native_row, pays_to_copy, pays_to_move, shape_of, takes_items)
from pyblitz.arrays.front cimport (
    as_array, computes_alike, convert, is_masked, left, left_dtype, own_code, owns_functions, private_copy,
    too_small)
from pyblitz.arrays.front import operation
from pyblitz.kernels.copy cimport Join, join_run
from pyblitz.kernels.map cimport MAP_DIMS
from pyblitz.kernels.repeat cimport Repeat, ends_run, repeat_run
from pyblitz.runtime.pool cimport Worker

cnp.import_array()

cdef enum:
    # Pieces of fewer bytes are joined by loops over each array, not one by one.
    SMALL_PIECE = 64


# ---- par_concatenate --------------------------------------------------------

cdef int join_rows(list arrays, ndarray out, int axis) except -1:
    """C order, the same dtype."""
    cdef Join j
    cdef int d
    cdef int64_t k = 0, end = 0
    cdef ndarray sources, ends, x
    sources = np.empty(len(arrays), np.intp)
    ends = np.empty(len(arrays), np.int64)
    j.dst = <char*>cnp.PyArray_DATA(out)
    j.src = <const char**>cnp.PyArray_DATA(sources)
    j.ends = <const int64_t*>cnp.PyArray_DATA(ends)
    j.outer = 1
    for d in range(axis):
        j.outer *= cnp.PyArray_DIM(out, d)
    for x in arrays:
        if cnp.PyArray_SIZE(x) == 0:
            continue
        end += cnp.PyArray_SIZE(x) // j.outer * cnp.PyArray_ITEMSIZE(x)
        (<const char**>j.src)[k] = <const char*>cnp.PyArray_DATA(x)
        (<int64_t*>j.ends)[k] = end
        k += 1
    j.parts = k
    return run(<run_fn>join_run, &j, "the result")


cdef object joined_layout(list arrays, int axis, tuple shape, cnp.dtype dtype):
    """An array for the result in the memory order that NumPy would choose."""
    # Corners have the strides of the wholes.
    corner = np.concatenate([a[(slice(0, 2),) * len(shape)] for a in arrays], axis)
    order = sorted(range(len(shape)), key=lambda d: -abs(corner.strides[d]))
    result = np.empty([shape[d] for d in order], dtype)
    return result.transpose([order.index(d) for d in range(len(shape))])


cdef object members(object arrays, list ops):
    """Fills ops with plain arrays; returns the subclass that the result is of, or None, or what
    is left to NumPy."""
    cdef double most = 0        # of arrays
    cdef object subtype = None
    for a in arrays:
        if not cnp.PyArray_CheckExact(a):
            t = type(a)
            if is_masked(a):
                return left("masked arrays")
            if isinstance(a, np.ndarray):
                if not computes_alike(t):
                    return left(f"{t.__name__}, which computes otherwise")
                # As NumPy does: the first of the highest priority.
                if a.__array_priority__ > most:
                    most, subtype = a.__array_priority__, t
                a = a.view(np.ndarray)
            elif owns_functions(t):
                return left(own_code(t))
            elif t is int or t is float or t is complex:
                return left("Python's numbers, whose type is the others'")
            else:
                a = convert(a)
                if type(a) is not np.ndarray:
                    return left("dtype object")
        ops.append(a)
    return subtype


cdef tuple joined_shape(list ops, int along, bint flat):
    """Of the result; None: they do not fit."""
    cdef ndarray x, first = ops[0]
    cdef int d, ndim = cnp.PyArray_NDIM(first)
    cdef int64_t total = 0
    for x in ops:
        if flat:
            total += cnp.PyArray_SIZE(x)
            continue
        if cnp.PyArray_NDIM(x) != ndim:
            return None
        for d in range(ndim):
            if d != along and cnp.PyArray_DIM(x, d) != cnp.PyArray_DIM(first, d):
                return None
        total += cnp.PyArray_DIM(x, along)
    if flat:
        return (total,)
    shape = shape_of(first)
    return shape[:along] + (total,) + shape[along + 1:]


cdef object join_arrays(list ops, object axis, ndarray out, object dtype, str casting):
    """``np.concatenate``, or what is left to it."""
    cdef ndarray x, first = ops[0], result
    cdef int64_t bytes = 0, rows = 1, done = 0, n
    cdef bint c_order = True, f_order = True, same = True, apart = True, flat = axis is None
    cdef int d, ndim = cnp.PyArray_NDIM(first), along
    cdef cnp.dtype t
    for x in ops:
        bytes += cnp.PyArray_NBYTES(x)
        c_order = c_order and cnp.PyArray_IS_C_CONTIGUOUS(x)
        f_order = f_order and cnp.PyArray_IS_F_CONTIGUOUS(x)
        same = same and cnp.PyArray_DESCR(x) == cnp.PyArray_DESCR(first)
    if not pays_to_move(bytes) or (same and c_order and not pays_to_copy(bytes)):
        return too_small
    if ndim == 0 and not flat:
        return left("arguments that it refuses")
    if ndim > MAP_DIMS and not flat:
        return left(f"more than {MAP_DIMS} axes")
    along = 0 if flat else axis_of(axis, ndim)
    shape = joined_shape(ops, along, flat)
    if shape is None:
        return left("shapes that do not fit")
    if (same and out is None and dtype is None and casting == "same_kind" and first.dtype.isnative
            and first.dtype.names is None):
        t = first.dtype
    else:
        # NumPy's choice, and its permission.
        empty = list({(<ndarray>a).dtype: np.empty(0, (<ndarray>a).dtype) for a in ops}.values())
        t = np.concatenate(empty, 0, None if out is None else np.empty(0, out.dtype),
                           dtype=dtype, casting=casting).dtype
    if not movable(t) or first.dtype.hasobject:
        return left_dtype(t)
    if out is not None:
        if shape_of(out) != shape or not takes_items(out):
            return left("an out that it may refuse")
        for x in ops:
            # NumPy reads what it wrote, array after array: so be it.
            apart = apart and not may_overlap(x, out)
        result = out
    elif flat or c_order:
        result = np.empty(shape, t)
    else:
        result = joined_layout(ops, along, shape, t)
    c_order = c_order and cnp.PyArray_IS_C_CONTIGUOUS(result)
    f_order = f_order and cnp.PyArray_IS_F_CONTIGUOUS(result) and not flat
    if same and first.dtype == t and apart and (c_order or f_order):
        for d in range(along) if c_order else range(along + 1, ndim):
            rows *= shape[d]
        if bytes // rows >= SMALL_PIECE * len(ops):
            if c_order:
                join_rows(ops, result, along)
            else:
                join_rows([a.T for a in ops], result.T, ndim - 1 - along)
            return result
    for x in ops:
        n = cnp.PyArray_SIZE(x) if flat else cnp.PyArray_DIM(x, along)
        part = result[at(along, done, done + n)]
        copy_into(part.reshape(shape_of(x)) if flat else part, x, "unsafe")
        done += n
    return result


@operation("out", np.concatenate)
def par_concatenate(arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind"):
    """Joins arrays along an axis, on all cores: ``np.concatenate``.

    Parameters
    ----------
    arrays : sequence of array_like
        Of the same shape, except along the axis.
    axis : int, optional
        None: they are flattened first.
    dtype : dtype, optional
        Of the result; not together with ``out``.

    Notes
    -----
    O(n) work.  The result is cut into parts of the same size, wherever the arrays
    end: many small arrays are joined as fast as a few large ones.  Where
    ``out`` lies over an array, they are copied one after another, as in NumPy.

    Examples
    --------
    >>> pb.par_concatenate([np.arange(3), [7, 8]])
    array([0, 1, 2, 7, 8])
    """
    cdef list ops = []
    if type(arrays) is not list and type(arrays) is not tuple and not isinstance(arrays, (np.ndarray, Sequence)):
        return left("what is no sequence of arrays")
    if cnp.PyArray_Check(arrays) and (arrays.ndim < 2 or not pays_to_move(arrays.nbytes)):
        return too_small
    if len(arrays) == 0:
        return left("what is no sequence of arrays")
    if type(casting) is not str or not (out is None or cnp.PyArray_CheckExact(out)):
        return left("arguments that it may refuse")
    subtype = members(arrays, ops)
    if not (subtype is None or isinstance(subtype, type)):
        return subtype
    result = join_arrays(ops, axis, out, dtype, casting)
    return result.view(subtype) if subtype is not None and out is None and type(result) is np.ndarray else result


# ---- par_repeat -------------------------------------------------------------

cdef struct EndsCall:
    const int64_t* counts
    int64_t n
    int64_t* ends
    int64_t bits
    bint changed


cdef int run_ends(Worker* w, void* ctx) noexcept nogil:
    cdef EndsCall* e = <EndsCall*>ctx
    return ends_run(w, e.counts, e.n, e.ends, &e.bits, &e.changed)


cdef object ends_of(ndarray counts):
    """Where the repetitions of each item end; None: a count is negative, or the sum might have
    wrapped."""
    cdef EndsCall e
    cdef ndarray ends = np.empty(cnp.PyArray_SIZE(counts), np.int64)
    e.counts = <const int64_t*>cnp.PyArray_DATA(counts)
    e.n = cnp.PyArray_SIZE(counts)
    e.ends = <int64_t*>cnp.PyArray_DATA(ends)
    run(run_ends, &e, "the ends")
    if e.changed:
        # By another thread, which does not know the copy.
        return ends_of(counts.copy())
    return None if e.bits < 0 or e.bits >= 1 << 31 or e.n >= 1 << 31 else ends


@operation("a repeats", np.repeat, method="repeat", gives="same", twice="repeats")
def par_repeat(a, repeats, axis=None):
    """Repeats each item, on all cores: ``np.repeat``.

    Parameters
    ----------
    repeats : int or array_like of int
        How often; one for all, or one for each along the axis.
    axis : int, optional
        None: of the flattened array.

    Returns
    -------
    ndarray

    Notes
    -----
    O(n + m) work for n items and m results.  The results are cut into parts of the
    same size, however uneven the repeats are.

    Examples
    --------
    >>> pb.par_repeat([7, 8], [1, 3])
    array([7, 8, 8, 8])
    """
    cdef ndarray x = as_array(a), counts, ends, result
    cdef Repeat r
    cdef int d, along
    cdef int64_t each = -1
    if type(repeats) is int and not pays_to_move(cnp.PyArray_NBYTES(x) * min(max(repeats, 1), 1 << 31)):
        return too_small
    counts = as_array(repeats)
    if cnp.PyArray_NDIM(counts) > 1 or counts.dtype.kind not in "biu" or (
            not np.can_cast(counts.dtype, np.int64, "safe")):
        return left("repeats that it may refuse")
    if cnp.PyArray_SIZE(counts) == 1:
        each = counts.reshape(-1)[0]
        if each <= 0 or each >= 1 << 31:
            return too_small if each == 0 else left("repeats that it may refuse")
        if not pays_to_move(cnp.PyArray_NBYTES(x) * each):
            return too_small
    elif not pays_to_move(cnp.PyArray_NBYTES(x)):
        return too_small
    if cnp.PyArray_SIZE(x) == 0:
        return too_small
    if not movable(x.dtype):
        return left_dtype(x.dtype)
    if axis is None or cnp.PyArray_NDIM(x) == 0:
        along = 0 if axis is None else axis_of(axis, 1)
        x = contiguous(x).reshape(-1)
    else:
        along = axis_of(axis, cnp.PyArray_NDIM(x))
        x = contiguous(x)
    shape = shape_of(x)
    r.itemsize = cnp.PyArray_ITEMSIZE(x)
    r.length = shape[along]
    r.outer = 1
    for d in range(along):
        r.outer *= shape[d]
    for d in range(along + 1, cnp.PyArray_NDIM(x)):
        r.itemsize *= shape[d]
    r.each = each
    r.ends = NULL
    if each > 0:
        # Its size is checked before it is used.
        r.total = operator.index(int(r.length) * int(each))
    else:
        if cnp.PyArray_SIZE(counts) != r.length:
            return left("repeats that it may refuse")
        made = ends_of(native_row(cast_to(counts, np.dtype(np.int64))))
        if made is None:
            return np.repeat(a, private_copy(counts), axis)
        ends = made
        r.ends = <const int64_t*>cnp.PyArray_DATA(ends)
        r.total = ends[r.length - 1]
    result = np.empty(shape[:along] + (r.total,) + shape[along + 1:], x.dtype)
    if r.total == 0:
        return result
    r.src = <const char*>cnp.PyArray_DATA(x)
    r.dst = <char*>cnp.PyArray_DATA(result)
    run(<run_fn>repeat_run, &r, "the repetition")
    return result
