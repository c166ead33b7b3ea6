# cython: wraparound=True, boundscheck=True
"""``par_reduce`` and its relatives: sums, extremes, moments, dot products."""
import warnings

import numpy as np

cimport numpy as cnp
from libc.stdint cimport INT64_MAX, int64_t
from libc.string cimport memcpy
from numpy cimport ndarray, ufunc

from pyblitz._progress import with_progress
from pyblitz.arrays.common cimport (
    SLICE_ITEMS, Resolved, Slices, at, idempotent, is_associative, is_plain, longest_axis,
    may_overlap, report_flags, resolve)
from pyblitz.arrays.compiled cimport CompiledKernel, as_kernel
from pyblitz.arrays.evaluate cimport (
    apply, count_node, find_node, fold_kernel, fold_node, program_of, reduce_node, reduce_two,
    run_reduce, set_fold)
from pyblitz.arrays.nodes cimport call_kernel, cast, node_of, side_by_side
from pyblitz.arrays.program cimport Program
from pyblitz.kernels.find cimport FIND_ANY
from pyblitz.kernels.map cimport Map
from pyblitz.kernels.reduce cimport (
    Reduce, arg_fn, zero_nans_double, zero_nans_float)

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyArray_ArrFuncs:
        arg_fn argmax
        arg_fn argmin
    PyArray_ArrFuncs* PyDataType_GetArrFuncs(cnp.PyArray_Descr*)

cdef enum:
    # Below this NumPy's reduction is done before another thread could help.
    SMALL_REDUCE_BYTES = 131072

cdef object no_initial = np._NoValue


cdef class SlicedReduce(Slices):
    """op.reduce on slices: along a kept axis into parts of the output, or along
    a reduced axis into partial results that a fixed tree joins."""
    cdef object op
    cdef ndarray a
    cdef object where
    cdef dict options       # without out, initial and where
    cdef object initial
    cdef bint initial_once
    cdef int axis
    cdef object out         # kept axis: the whole; reduced axis: None
    cdef list partials
    cdef int64_t grain

    cdef object part(self, int64_t lo, int64_t hi):
        index = at(self.axis, lo, hi)
        options = dict(self.options)
        if self.where is not None:
            options["where"] = self.where[index]
        if self.initial is not no_initial and (lo == 0 or not self.initial_once):
            options["initial"] = self.initial
        if self.out is not None:
            self.op.reduce(self.a[index], out=self.out[index], **options)
        else:
            self.partials[lo // self.grain] = self.op.reduce(self.a[index], **options)

    cdef object join(self, int64_t lo, int64_t mid):
        left, right = lo // self.grain, mid // self.grain
        self.op(self.partials[left], self.partials[right], out=self.partials[left])
        self.partials[right] = None


cdef bint loop_fits(object op, ndarray x, Resolved r):
    """Whether the ufunc's own loop can reduce all of x as one row."""
    return (r.dtypes is not None and r.loop != NULL and is_associative(op)
            and r.dtypes[0] is x.dtype and r.dtypes[1] is x.dtype
            and r.dtypes[2] is x.dtype and cnp.PyArray_ISALIGNED(x)
            and (cnp.PyArray_IS_C_CONTIGUOUS(x) or cnp.PyArray_IS_F_CONTIGUOUS(x)))


cdef object direct_reduce(object op, object a, object axis, object dtype, object out,
                          object keepdims, object initial, object where):
    # Only what was given: other types see NumPy's own defaults.
    options = {}
    if axis != 0 or type(axis) is not int:
        options["axis"] = axis
    if dtype is not None:
        options["dtype"] = dtype
    if out is not None:
        options["out"] = out
    if keepdims is not False:
        options["keepdims"] = keepdims
    if initial is not no_initial:
        options["initial"] = initial
    if where is not True:
        options["where"] = where
    return op.reduce(a, **options)


cdef void map_of_row(Map* m, ndarray a) noexcept:
    """All elements of a contiguous array, in memory order, without a step."""
    m.operands = m.dims = 1
    m.registers = m.constants = m.n_steps = 0
    m.size = m.shape[0] = cnp.PyArray_SIZE(a)
    m.sizes[0] = m.strides[0][0] = cnp.PyArray_ITEMSIZE(a)
    m.base[0] = <char*>cnp.PyArray_DATA(a)
    m.block = INT64_MAX


cdef object reduce_row(ufunc op, ndarray a, Resolved r, object initial):
    """All elements of a contiguous array, by the ufunc's own loop: a scalar."""
    cdef Map m
    cdef Reduce red
    map_of_row(&m, a)
    red.map = &m
    red.arg = NULL
    red.folds = 1
    set_fold(&red.fold[0], op, r, 0)
    run_reduce(&red)
    result = np.empty((), a.dtype)
    memcpy(cnp.PyArray_DATA(<ndarray>result), red.result.acc[0], cnp.PyArray_ITEMSIZE(a))
    if initial is not no_initial or result == 0:
        # NumPy's own start: `initial`, or the identity, which shows in the sign
        # of a zero.
        return started(op, result, initial)
    return result[()]


cdef object started(object op, ndarray result, object initial):
    """From NumPy's own start, in the same type.  Of times, the unit may not be named."""
    return op.reduce(result.reshape(1), 0, None if result.dtype.kind in "mM" else result.dtype, None, False,
                     initial)


cdef object place(object result, object out, tuple kept, object keepdims, int ndim):
    """The result as reduce would return it: in ``out``, in the right shape, and
    0-d arrays as scalars."""
    if keepdims:
        result = result.reshape(kept)
    if out is not None:
        out[...] = result
        return out
    return result if result.ndim else result[()]


def par_reduce(op, a, axis=0, dtype=None, out=None, keepdims=False, initial=np._NoValue,
               where=True, *, combine=None, progress=None):
    """Reduces an array by a binary ufunc, on all cores: ``op.reduce``.

    Parameters
    ----------
    op : ufunc or compiled kernel
        With two inputs and one output. A kernel ``T op(T, T)`` (as for
        :func:`par_map`) reduces a whole array of T, or one of one dimension: it gets what
        was accumulated and an element, and must not care about grouping, or come with
        ``combine``.
    a : array_like
    axis : None or int or tuple of int, optional
        What to reduce along; the first axis by default, as in ``op.reduce``.
    dtype : dtype, optional
        The type of the calculation and the result.
    out : ndarray, optional
        Where the result goes.
    keepdims : bool, optional
        Whether reduced axes stay, with length one.
    initial : scalar, optional
        What to start from. For a kernel, an identity: each block of elements starts from it.
    where : array_like of bool, optional
        Which elements to include.
    combine : compiled kernel, optional
        For a kernel: what joins the accumulated values of two stretches of elements.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray or scalar
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``op.reduce`` raises for the same mistake; for kernels: a signature that cannot
        be called or does not fit the dtype, options that only ufuncs have.

    Notes
    -----
    O(n) work.  The elements are cut into blocks, and the blocks' results are
    combined in a tree, both of which depend on the shape alone: the result has
    the same bits for any number of threads, run after run.  Rounding operations
    (sums and products of floats, ``np.logaddexp``, ``np.hypot``) are grouped
    otherwise than in NumPy, so they may be rounded otherwise; the error bound of
    a sum is that of pairwise summation, as NumPy's is.

    An operation that is not associative, such as ``np.subtract``, is shared
    along axes that are kept; without one, NumPy does it alone.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_reduce(np.add, np.arange(100_000))
    np.int64(4999950000)
    >>> pb.par_reduce(np.maximum, np.eye(3), axis=1)
    array([1., 1., 1.])
    """
    cdef CompiledKernel k
    if progress is not None:
        return with_progress(
            progress, par_reduce, (op, a, axis, dtype, out, keepdims, initial, where),
            {"combine": combine})
    if isinstance(op, ufunc):
        if combine is not None:
            raise TypeError("combine: only a compiled kernel takes it")
        return reduce_ufunc(op, a, axis, dtype, out, keepdims, initial, where)
    if isinstance(getattr(op, "ufunc", None), ufunc):
        # Numba's DUFunc: a call on nothing makes it compile the loop for these types.
        one = np.asarray(a).reshape(-1)[:0]
        try:
            op(one, one)
        except Exception:
            # It says itself what is wrong.
            return direct_reduce(op, a, axis, dtype, out, keepdims, initial, where)
        return reduce_ufunc(op.ufunc, a, axis, dtype, out, keepdims, initial, where)
    k = as_kernel(op)
    if k is None:
        raise TypeError(f"op: expected a ufunc or a compiled kernel, not {type(op).__name__}")
    a = np.asarray(a)
    if (dtype is not None and np.dtype(dtype) != k.dtype) or out is not None or keepdims or where is not True:
        raise TypeError("dtype, out, keepdims and where: only a ufunc takes them")
    if axis is not None and not (a.ndim == 1 and axis in (0, -1)):
        raise TypeError("axis: a kernel reduces the whole array; give axis=None")
    joined = None
    if combine is not None:
        joined = as_kernel(combine)
        if joined is None:
            raise TypeError(f"combine: expected a compiled kernel, not {type(combine).__name__}")
    return fold_kernel(k, joined, [node_of(np.atleast_1d(a))], initial)


cdef object reduce_ufunc(object op, object a, object axis, object dtype, object out, object keepdims,
                         object initial, object where):
    cdef ndarray x
    cdef Resolved r
    cdef SlicedReduce s
    cdef int ndim, kept_axis, cut_axis
    cdef int64_t size
    if not cnp.PyArray_CheckExact(a):
        if not is_plain(a):
            return direct_reduce(op, a, axis, dtype, out, keepdims, initial, where)
        a = np.asarray(a)
    x = a
    size = cnp.PyArray_SIZE(x)
    ndim = cnp.PyArray_NDIM(x)
    if (size * cnp.PyArray_ITEMSIZE(x) <= SMALL_REDUCE_BYTES or (<ufunc>op).nin != 2
            or (<ufunc>op).nout != 1 or (<ufunc>op).signature is not None
            or not (out is None or cnp.PyArray_CheckExact(out)
                    or (type(out) is tuple and len(out) == 1))):
        return direct_reduce(op, a, axis, dtype, out, keepdims, initial, where)
    if type(out) is tuple:
        out = out[0]
    # What is unusual is taken or refused by NumPy, which is strict about some of it.
    if type(keepdims) is not bool or not (axis is None or type(axis) is int or type(axis) is tuple):
        return direct_reduce(op, a, axis, dtype, out, keepdims, initial, where)
    if where is not True and not (cnp.PyArray_CheckExact(where) and where.dtype == np.bool_):
        return direct_reduce(op, a, axis, dtype, out, keepdims, initial, where)
    if ((axis is None or (ndim == 1 and type(axis) is int and axis == 0)) and out is None and where is True
            and keepdims is False and dtype is None):
        # The most common call, without the general one's bookkeeping.
        r = resolve(op, (None, x.dtype, None), None, "unsafe", True)
        if loop_fits(op, x, r):
            return reduce_row(op, x, r, initial)
    r = resolve(op, (None if out is None else out.dtype, x.dtype, None),
                None if dtype is None else (np.dtype(dtype), None, None), "unsafe", True)
    # What the reduction is, in axes; NumPy explains what is wrong with it.
    try:
        axes = set(range(ndim) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, ndim))
    except (TypeError, ValueError):
        return direct_reduce(op, a, axis, dtype, out, keepdims, initial, where)
    if (r.dtypes is None or not axes or r.dtypes[0] != r.dtypes[2] or r.dtypes[2].kind not in "biufcmM"
            or (where is not True and not is_plain(where))):
        return direct_reduce(op, a, axis, dtype, out, keepdims, initial, where)
    shape = tuple([cnp.PyArray_DIM(x, d) for d in range(ndim)])
    kept = tuple([1 if d in axes else shape[d] for d in range(ndim)])
    small = tuple([shape[d] for d in range(ndim) if d not in axes])
    if out is not None and (
            out.dtype != r.dtypes[2] or out.shape != (kept if keepdims else small)
            or not cnp.PyArray_ISWRITEABLE(out) or may_overlap(out, x)):
        return direct_reduce(op, a, axis, dtype, out, keepdims, initial, where)
    associative = is_associative(op)
    if len(axes) > 1 and not associative:
        return direct_reduce(op, a, axis, dtype, out, keepdims, initial, where)

    if len(axes) == ndim and where is True and associative:
        if loop_fits(op, x, r):
            return place(np.asarray(reduce_row(op, x, r, initial)), out, kept, keepdims, ndim)
        found = fold_node(op, node_of(x), r)
        if found is not None:
            result = found[0]
            if initial is not no_initial or result == 0:
                result = np.asarray(started(op, result, initial))
            return place(result, out, kept, keepdims, ndim)

    kept_axis = longest_axis(shape, [d for d in range(ndim) if d not in axes])
    cut_axis = longest_axis(shape, sorted(axes))
    s = SlicedReduce("reduce", True)
    s.op = op
    s.a = x
    try:
        s.where = None if where is True else np.broadcast_to(where, shape)
    except ValueError:
        return direct_reduce(op, a, axis, dtype, out, keepdims, initial, where)
    # A given `out` decides the dtype; of times, the unit may not be named.
    s.options = {"axis": tuple(sorted(axes)), "keepdims": True,
                 "dtype": dtype if out is None or r.dtypes[2].kind in "mM" else r.dtypes[2]}
    s.initial = initial
    if kept_axis >= 0 and (shape[kept_axis] >= 32 or not associative):
        s.axis = kept_axis
        s.initial_once = False
        result = np.empty(kept, r.dtypes[2])
        s.out = result
    elif associative:
        s.axis = cut_axis
        s.initial_once = op not in idempotent
        s.out = None
    else:
        return direct_reduce(op, a, axis, dtype, out, keepdims, initial, where)
    # At least a slice's worth, at most 64 slices.
    s.grain = max(1, SLICE_ITEMS * shape[s.axis] // size, shape[s.axis] // 64)
    if s.out is None:
        s.partials = [None] * (-(-shape[s.axis] // s.grain))
        s.run(s.grain, shape[s.axis], True)
        result = s.partials[0]
    else:
        s.run(s.grain, shape[s.axis], False)
    report_flags("reduce", s.flags.seen)
    return place(result.reshape(small), out, kept, keepdims, ndim)


# ---- namesakes --------------------------------------------------------------
# What NumPy's functions of these names do, in terms of the above.  Arrays that are not
# plain go to NumPy's own function, which asks them for their method.

cdef bint is_small(object a):
    """Plain, and too small to share."""
    return cnp.PyArray_CheckExact(a) and cnp.PyArray_NBYTES(<ndarray>a) <= SMALL_REDUCE_BYTES


cdef dict given(dict options):
    return {name: value for name, value in options.items() if value is not no_initial}


cdef object reduce_as(object op, object namesake, object a, object axis, object dtype, object out,
                      object keepdims, object initial, object where):
    if not is_plain(a):
        options = given({"axis": axis, "out": out, "keepdims": keepdims, "initial": initial, "where": where})
        if dtype is not None:
            options["dtype"] = dtype
        return namesake(a, **options)
    return reduce_ufunc(op, a, axis, dtype, out, False if keepdims is no_initial else keepdims, initial,
                        True if where is no_initial else where)


cdef class KeptAxis(Slices):
    """A function of an array along some axes, on slices of another axis."""
    cdef object fn
    cdef object a
    cdef object out
    cdef dict options
    cdef int axis

    cdef object part(self, int64_t lo, int64_t hi):
        index = at(self.axis, lo, hi)
        self.out[index] = self.fn(self.a[index], **self.options)


cdef object along_kept(object fn, ndarray a, object axis, object keepdims, dict options):
    """``fn(a, axis=axis, ...)``, shared along an axis that stays, or None when there is none
    that is long enough."""
    cdef KeptAxis s
    cdef int ndim = cnp.PyArray_NDIM(a), kept
    if axis is None:
        return None
    axes = np.lib.array_utils.normalize_axis_tuple(axis, ndim)
    shape = (<object>a).shape
    kept = longest_axis(shape, [d for d in range(ndim) if d not in axes])
    if kept < 0 or shape[kept] < 32:
        return None
    options = {**options, "axis": axis, "keepdims": True}
    whole = tuple([1 if d in axes else shape[d] for d in range(ndim)])
    s = KeptAxis(fn.__name__, True)
    s.fn = fn
    s.a = a
    s.axis = kept
    s.options = options
    one = fn(a[at(kept, 0, 1)], **options)      # its dtype, and what is wrong with the arguments
    s.out = np.empty(whole, one.dtype)
    s.run(max(1, SLICE_ITEMS * shape[kept] // max(cnp.PyArray_SIZE(a), 1), shape[kept] // 64), shape[kept], False)
    report_flags(fn.__name__, s.flags.seen)
    return s.out if keepdims is True else s.out.reshape(tuple([shape[d] for d in range(ndim) if d not in axes]))


def par_sum(a, axis=None, dtype=None, out=None, keepdims=np._NoValue, initial=np._NoValue,
            where=np._NoValue, *, progress=None):
    """The sum of array elements, on all cores: ``np.sum``.

    Parameters
    ----------
    a : array_like
    axis : None or int or tuple of int, optional
        What to sum along; all axes by default.
    dtype : dtype, optional
        The type of the calculation and the result.
    out : ndarray, optional
        Where the result goes.
    keepdims : bool, optional
        Whether reduced axes stay, with length one.
    initial : scalar, optional
        What to start from.
    where : array_like of bool, optional
        Which elements to include.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray or scalar
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.sum`` raises for the same mistake.

    Notes
    -----
    O(n) work. Floats are summed pairwise (Higham, 1993), in blocks and a tree that depend on
    the shape alone: the same bits for any number of threads, and an error bound no greater
    than NumPy's.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_sum(np.arange(100_000))
    np.int64(4999950000)
    """
    if progress is not None:
        return with_progress(
            progress, par_sum, (a, axis, dtype, out, keepdims, initial, where),
            {})
    return reduce_as(np.add, np.sum, a, axis, dtype, out, keepdims, initial, where)


def par_prod(a, axis=None, dtype=None, out=None, keepdims=np._NoValue, initial=np._NoValue,
             where=np._NoValue, *, progress=None):
    """The product of array elements, on all cores: ``np.prod``.

    Parameters
    ----------
    a, axis, dtype, out, keepdims, initial, where
        As for :func:`par_sum`.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray or scalar
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.prod`` raises for the same mistake.

    Notes
    -----
    O(n) work. See :func:`par_reduce`.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_prod(np.arange(1, 6))
    np.int64(120)
    """
    if progress is not None:
        return with_progress(
            progress, par_prod, (a, axis, dtype, out, keepdims, initial, where),
            {})
    return reduce_as(np.multiply, np.prod, a, axis, dtype, out, keepdims, initial, where)


def par_min(a, axis=None, out=None, keepdims=np._NoValue, initial=np._NoValue, where=np._NoValue,
            *, progress=None):
    """The least array element, on all cores: ``np.min``; not-a-number if there is one.

    Parameters
    ----------
    a, axis, out, keepdims, initial, where
        As for :func:`par_sum`.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray or scalar
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.min`` raises for the same mistake.

    Notes
    -----
    O(n) work.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_min([[3, 1], [2, 5]], axis=1)
    array([1, 2])
    """
    if progress is not None:
        return with_progress(progress, par_min, (a, axis, out, keepdims, initial, where), {})
    return reduce_as(np.minimum, np.min, a, axis, None, out, keepdims, initial, where)


def par_max(a, axis=None, out=None, keepdims=np._NoValue, initial=np._NoValue, where=np._NoValue,
            *, progress=None):
    """The greatest array element, on all cores: ``np.max``; not-a-number if there is one.

    Parameters
    ----------
    a, axis, out, keepdims, initial, where
        As for :func:`par_sum`.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray or scalar
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.max`` raises for the same mistake.

    Notes
    -----
    O(n) work.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_max([[3, 1], [2, 5]], axis=1)
    array([3, 5])
    """
    if progress is not None:
        return with_progress(progress, par_max, (a, axis, out, keepdims, initial, where), {})
    return reduce_as(np.maximum, np.max, a, axis, None, out, keepdims, initial, where)


def par_minmax(a, axis=None, *, progress=None):
    """The least and the greatest element, in one pass over the array.

    Parameters
    ----------
    a : array_like
    axis : None or int or tuple of int, optional
        What to reduce along; all axes by default.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    least, greatest : ndarray or scalar
        What ``np.min`` and ``np.max`` give.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.min`` raises for the same mistake.

    Notes
    -----
    O(n) work.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_minmax(np.array([3.0, 1.0, 2.0]))
    (np.float64(1.0), np.float64(3.0))
    """
    if progress is not None:
        return with_progress(progress, par_minmax, (a, axis), {})
    if is_plain(a):
        a = np.asarray(a)
        if not is_small(a) and (axis is None or a.ndim == 1 and axis in (0, -1)):
            node = node_of(a)
            found = reduce_two(np.minimum, node, np.maximum, node)
            if found is not None:
                return found[0], found[1]
    return par_min(a, axis), par_max(a, axis)


cdef bint is_odd(object axis, object keepdims):
    """What some functions of NumPy refuse and its reductions take."""
    return type(axis) is bool or not (keepdims is no_initial or type(keepdims) is bool)


cdef object mean_type(object dtype):
    """What NumPy sums in for a mean of this type, or None."""
    if dtype.kind in "biu":
        return np.dtype(np.float64)
    return np.dtype(np.float32) if dtype == np.float16 else dtype if dtype.kind in "fc" else None


def par_mean(a, axis=None, dtype=None, out=None, keepdims=np._NoValue, *, where=np._NoValue,
             progress=None):
    """The arithmetic mean, on all cores: ``np.mean``.

    Parameters
    ----------
    a, axis, dtype, out, keepdims, where
        As for :func:`par_sum`; integers are averaged as float64.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray or scalar
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.mean`` raises for the same mistake.

    Notes
    -----
    O(n) work. The sum is that of :func:`par_sum`.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_mean(np.arange(5))
    np.float64(2.0)
    """
    if progress is not None:
        return with_progress(progress, par_mean, (a, axis, dtype, out, keepdims), {"where": where})
    if type(a) is list or type(a) is tuple:
        a = np.asarray(a)
    if (not cnp.PyArray_CheckExact(a) or is_small(a) or where is not no_initial or out is not None
            or dtype is not None or is_odd(axis, keepdims) or mean_type(a.dtype) is None):
        return np.mean(a, axis, dtype, out, **given({"keepdims": keepdims, "where": where}))
    kept = keepdims is not no_initial and bool(keepdims)
    total = reduce_ufunc(np.add, a, axis, mean_type(a.dtype), None, kept, no_initial, True)
    size = np.size(total)
    if size == 0:
        return np.mean(a, axis, **given({"keepdims": keepdims}))
    result = np.true_divide(total, a.size // size)
    want = a.dtype if a.dtype.kind in "fc" else result.dtype
    return result.astype(want, copy=False)


cdef tuple moments(ndarray a, object ddof):
    """The variance of all elements, in the type of the mean."""
    kind = mean_type(a.dtype)
    node = node_of(a) if a.dtype == kind else cast(node_of(a), kind)
    n = a.size
    mean = kind.type(reduce_node(np.add, node, no_initial) / n)
    rest = apply(np.subtract, (node, mean), {})
    total = reduce_node(np.add, apply(np.multiply, (rest, rest), {}), no_initial)
    return kind.type(total / (n - ddof)), a.dtype if a.dtype.kind == "f" else kind


def par_var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=np._NoValue, *, progress=None,
            **options):
    """The variance, on all cores: ``np.var``.

    Parameters
    ----------
    a, axis, dtype, out, keepdims
        As for :func:`par_mean`.
    ddof : float, optional
        The divisor is the number of elements less this.
    **options
        ``where``, ``mean`` and ``correction``, as for ``np.var``.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray or scalar
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.var`` raises for the same mistake.

    Notes
    -----
    O(n) work, two passes over the array: the mean, then the squared distances from it,
    without a temporary of the array's size.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_var(np.array([1.0, 2.0, 3.0, 4.0]))
    np.float64(1.25)
    """
    if progress is not None:
        return with_progress(progress, par_var, (a, axis, dtype, out, ddof, keepdims), {**options})
    return spread(np.var, a, axis, dtype, out, ddof, keepdims, options)


def par_std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=np._NoValue, *, progress=None,
            **options):
    """The standard deviation, on all cores: ``np.std``.

    Parameters
    ----------
    a, axis, dtype, out, ddof, keepdims, **options
        As for :func:`par_var`.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray or scalar
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.std`` raises for the same mistake.

    Notes
    -----
    O(n) work. See :func:`par_var`.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_std(np.array([1.0, 1.0, 3.0, 3.0]))
    np.float64(1.0)
    """
    if progress is not None:
        return with_progress(progress, par_std, (a, axis, dtype, out, ddof, keepdims), {**options})
    return spread(np.std, a, axis, dtype, out, ddof, keepdims, options)


cdef object spread(object namesake, object a, object axis, object dtype, object out, object ddof,
                   object keepdims, dict options):
    if type(a) is list or type(a) is tuple:
        a = np.asarray(a)
    if not (not cnp.PyArray_CheckExact(a) or is_small(a) or options or out is not None or dtype is not None
            or is_odd(axis, keepdims) or a.dtype.kind not in "biuf" or a.dtype == np.float16
            or type(ddof) is not int):
        if axis is None or (a.ndim == 1 and type(axis) is int and axis in (0, -1)):
            if keepdims in (no_initial, False) and a.size - ddof > 0:
                value, kind = moments(a, ddof)
                return kind.type(np.sqrt(value) if namesake is np.std else value)
        else:
            found = along_kept(namesake, a, axis, keepdims, {"ddof": ddof})
            if found is not None:
                return found
    return namesake(a, axis, dtype, out, ddof, **given({"keepdims": keepdims}), **options)


cdef object arg_reduce(object namesake, bint least, object a, object axis, object out, object keepdims):
    cdef ndarray x
    cdef cnp.dtype dtype
    cdef arg_fn f = NULL
    if type(a) is list or type(a) is tuple:
        a = np.asarray(a)
    if cnp.PyArray_CheckExact(a) and not is_small(a) and out is None:
        x = a
        dtype = a.dtype
        if dtype.kind in "biufcmM" and dtype.isnative:
            f = (PyDataType_GetArrFuncs(cnp.PyArray_DESCR(x)).argmin if least
                 else PyDataType_GetArrFuncs(cnp.PyArray_DESCR(x)).argmax)
        if f != NULL and (axis is None or (cnp.PyArray_NDIM(x) == 1 and type(axis) is int and axis in (0, -1))) \
                and keepdims is no_initial:
            return arg_row(x, f)
        if axis is not None and f != NULL and type(axis) is int:
            found = along_kept(namesake, x, axis, keepdims, {})
            if found is not None:
                return found
    return namesake(a, axis, out, **given({"keepdims": keepdims}))


cdef object arg_row(ndarray x, arg_fn f):
    cdef Map m
    cdef Reduce red
    cdef Program program
    if cnp.PyArray_IS_C_CONTIGUOUS(x) and cnp.PyArray_ISALIGNED(x):
        map_of_row(&m, x)
        red.map = &m
        red.fold[0].slots[0] = 0
    else:
        # In C order, a block at a time, side by side.
        program = program_of([side_by_side(node_of(x))], None, True)
        red.map = &program.m
        red.fold[0].slots[0] = program.slots[0]
    red.folds = 0
    red.arg = f
    red.arr = <void*>x
    red.fold[0].itemsize = cnp.PyArray_ITEMSIZE(x)
    run_reduce(&red)
    return np.intp(red.result.at)


def par_argmin(a, axis=None, out=None, *, keepdims=np._NoValue, progress=None):
    """The position of the least element, on all cores: ``np.argmin``.

    Parameters
    ----------
    a : array_like
    axis : int, optional
        What to search along; by default the array in C order.
    out : ndarray, optional
        Where the result goes.
    keepdims : bool, optional
        Whether the axis stays, with length one.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray of int or int
        The first of equals; that of the first not-a-number if there is one.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.argmin`` raises for the same mistake.

    Notes
    -----
    O(n) work.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_argmin(np.array([3, 1, 2, 1]))
    np.int64(1)
    """
    if progress is not None:
        return with_progress(progress, par_argmin, (a, axis, out), {"keepdims": keepdims})
    return arg_reduce(np.argmin, True, a, axis, out, keepdims)


def par_argmax(a, axis=None, out=None, *, keepdims=np._NoValue, progress=None):
    """The position of the greatest element, on all cores: ``np.argmax``.

    Parameters
    ----------
    a, axis, out, keepdims
        As for :func:`par_argmin`.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray of int or int
        The first of equals; that of the first not-a-number if there is one.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.argmax`` raises for the same mistake.

    Notes
    -----
    O(n) work.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_argmax(np.array([3, 1, 3, 1]))
    np.int64(0)
    """
    if progress is not None:
        return with_progress(progress, par_argmax, (a, axis, out), {"keepdims": keepdims})
    return arg_reduce(np.argmax, False, a, axis, out, keepdims)


cdef object truth(object namesake, object op, object compare, object a, object axis, object out,
                  object keepdims, object where):
    """any, and all as "not any that is not"."""
    if type(a) is list or type(a) is tuple:
        a = np.asarray(a)
    if is_odd(axis, keepdims) or not cnp.PyArray_CheckExact(a) or is_small(a) or a.dtype.kind not in "biufc":
        return namesake(a, axis, out, **given({"keepdims": keepdims, "where": where}))
    if (axis is None and out is None and keepdims in (no_initial, False) and where is no_initial):
        node = node_of(a)
        mask = node if compare is np.not_equal and a.dtype == np.bool_ else apply(compare, (node, 0), {})
        found = find_node(mask, FIND_ANY) >= 0
        return np.bool_(found if compare is np.not_equal else not found)
    return reduce_ufunc(op, a, axis, None, out, keepdims is not no_initial and keepdims,
                        no_initial, True if where is no_initial else where)


def par_any(a, axis=None, out=None, keepdims=np._NoValue, *, where=np._NoValue, progress=None):
    """Whether any element is true (not zero), on all cores: ``np.any``.

    Parameters
    ----------
    a : array_like
    axis : None or int or tuple of int, optional
        What to look along; all axes by default.
    out, keepdims, where
        As for :func:`par_sum`.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray of bool or bool

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.any`` raises for the same mistake.

    Notes
    -----
    O(n) work; over all axes it stops soon after the first hit.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_any(np.zeros(1_000_000))
    np.False_
    """
    if progress is not None:
        return with_progress(progress, par_any, (a, axis, out, keepdims), {"where": where})
    return truth(np.any, np.logical_or, np.not_equal, a, axis, out, keepdims, where)


def par_all(a, axis=None, out=None, keepdims=np._NoValue, *, where=np._NoValue, progress=None):
    """Whether all elements are true (not zero), on all cores: ``np.all``.

    Parameters
    ----------
    a, axis, out, keepdims, where
        As for :func:`par_any`.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray of bool or bool

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.all`` raises for the same mistake.

    Notes
    -----
    O(n) work; over all axes it stops soon after the first zero.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_all(np.arange(1_000_000))
    np.False_
    """
    if progress is not None:
        return with_progress(progress, par_all, (a, axis, out, keepdims), {"where": where})
    return truth(np.all, np.logical_and, np.equal, a, axis, out, keepdims, where)


def par_count_nonzero(a, axis=None, *, keepdims=False, progress=None):
    """How many elements are not zero, on all cores: ``np.count_nonzero``.

    Parameters
    ----------
    a : array_like
    axis : None or int or tuple of int, optional
        What to count along; all axes by default.
    keepdims : bool, optional
        Whether the axes stay, with length one.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    int or ndarray of int

    Raises
    ------
    TypeError, numpy.exceptions.AxisError
        What ``np.count_nonzero`` raises for the same mistake.

    Notes
    -----
    O(n) work.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> int(pb.par_count_nonzero(np.arange(1_000_000)))
    999999
    """
    if progress is not None:
        return with_progress(progress, par_count_nonzero, (a, axis), {"keepdims": keepdims})
    if type(a) is list or type(a) is tuple:
        a = np.asarray(a)
    if cnp.PyArray_CheckExact(a) and not is_small(a) and a.dtype.kind in "biufc":
        if axis is None and not keepdims:
            count = count_node(node_of(a) if a.dtype == np.bool_ else apply(np.not_equal, (node_of(a), 0), {}))
            return type(np.count_nonzero(np.empty(0)))(count)
        found = None if is_odd(axis, keepdims) else along_kept(np.count_nonzero, a, axis, keepdims, {})
        if found is not None:
            return found
    return np.count_nonzero(a, axis, keepdims=keepdims)


def par_dot(a, b, out=None, *, progress=None):
    """The dot product of two arrays, on all cores: ``np.dot``.

    Parameters
    ----------
    a, b : array_like
        Two rows give a scalar, rows and matrices what ``np.dot`` gives.
    out : ndarray, optional
        Where the result goes.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray or scalar
        ``out`` if it was given.

    Raises
    ------
    ValueError
        What ``np.dot`` raises for the same mistake.

    Notes
    -----
    O(n) work for rows. Products of floats are summed pairwise, as in :func:`par_sum`: the
    same bits for any number of threads. Matrices of floats go to NumPy, whose BLAS has
    threads of its own; the rows of a matrix of integers are shared.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_dot(np.arange(4.0), np.ones(4))
    np.float64(6.0)
    """
    cdef ndarray x, y
    if progress is not None:
        return with_progress(progress, par_dot, (a, b, out), {})
    if not (cnp.PyArray_CheckExact(a) and cnp.PyArray_CheckExact(b)) or is_small(a):
        return np.dot(a, b) if out is None else np.dot(a, b, out)
    x = a
    y = b
    if out is None and x.dtype == y.dtype and x.dtype.isnative:
        if cnp.PyArray_NDIM(x) == 1 == cnp.PyArray_NDIM(y) and cnp.PyArray_SIZE(x) == cnp.PyArray_SIZE(y):
            if x.dtype.kind in "iuf" and x.dtype != np.float16:
                return dot_rows(x, y)
        elif (cnp.PyArray_NDIM(x) == 2 == cnp.PyArray_NDIM(y) and x.dtype.kind in "iu"
                and cnp.PyArray_DIM(x, 1) == cnp.PyArray_DIM(y, 0)):
            return dot_matrices(x, y)
    return np.dot(a, b) if out is None else np.dot(a, b, out)


cdef object dot_rows(ndarray x, ndarray y):
    product = apply(np.multiply, (node_of(x), node_of(y)), {})
    # In NumPy's own type, which a sum would widen.
    value = fold_node(np.add, product, resolve(
        np.add, (None, x.dtype, None), (x.dtype, None, None), "unsafe", True))[0][()]
    return value + x.dtype.type(0)      # NumPy starts from a zero, whose sign stays


cdef class RowsDot(Slices):
    cdef object a
    cdef object b
    cdef object out

    cdef object part(self, int64_t lo, int64_t hi):
        np.dot(self.a[lo:hi], self.b, self.out[lo:hi])


cdef object dot_matrices(ndarray x, ndarray y):
    cdef RowsDot s
    cdef int64_t rows = cnp.PyArray_DIM(x, 0)
    s = RowsDot("dot ", False)
    s.a = x
    s.b = y
    s.out = np.empty((rows, cnp.PyArray_DIM(y, 1)), x.dtype)
    s.run(max(1, rows // 64), rows, False)
    return s.out


cdef CompiledKernel zeroing(object dtype):
    """not-a-number -> zero."""
    cdef CompiledKernel k = CompiledKernel()
    k.kernel.fn = <void*>zero_nans_double if dtype == np.float64 else <void*>zero_nans_float
    k.kernel.inputs = 1
    k.kernel.itemsize = dtype.itemsize
    k.block = True
    k.signature = "not-a-number as zero"
    k.dtype = dtype
    return k


def par_nansum(a, axis=None, dtype=None, out=None, keepdims=np._NoValue, initial=np._NoValue,
               where=np._NoValue, *, progress=None):
    """The sum of the elements that are numbers, on all cores: ``np.nansum``.

    Parameters
    ----------
    a, axis, dtype, out, keepdims, initial, where
        As for :func:`par_sum`.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray or scalar
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.nansum`` raises for the same mistake.

    Notes
    -----
    O(n) work. See :func:`par_sum`.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_nansum(np.array([1.0, np.nan, 2.0]))
    np.float64(3.0)
    """
    if progress is not None:
        return with_progress(
            progress, par_nansum, (a, axis, dtype, out, keepdims, initial, where),
            {})
    if type(a) is list or type(a) is tuple:
        a = np.asarray(a)
    if cnp.PyArray_CheckExact(a) and not is_small(a) and a.dtype.kind in "biuf" and not is_odd(axis, keepdims):
        if a.dtype.kind != "f":
            return reduce_as(np.add, np.sum, a, axis, dtype, out, keepdims, initial, where)
        if out is None and where is no_initial and dtype is None and a.dtype.isnative and a.dtype.char in "df":
            if axis is None and keepdims in (no_initial, False):
                return reduce_node(np.add, call_kernel(zeroing(a.dtype), (node_of(a),)), initial)
            if axis is not None and initial is no_initial:
                found = along_kept(np.nansum, a, axis, keepdims, {})
                if found is not None:
                    return found
    options = given({"keepdims": keepdims, "initial": initial, "where": where})
    return np.nansum(a, axis, dtype, out, **options)


cdef object nan_extreme(object op, object namesake, object a, object axis, object out, object keepdims,
                        object initial, object where):
    options = given({"keepdims": keepdims, "initial": initial, "where": where})
    if is_odd(axis, keepdims) or not cnp.PyArray_CheckExact(a) or is_small(a) or a.dtype.kind not in "biuf" or out is not None:
        return namesake(a, axis, out, **options)
    result = reduce_ufunc(op, a, axis, None, None, keepdims is not no_initial and keepdims, initial,
                          True if where is no_initial else where)
    if np.isnan(result).any():
        warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=2)
    return result


def par_nanmin(a, axis=None, out=None, keepdims=np._NoValue, initial=np._NoValue,
               where=np._NoValue, *, progress=None):
    """The least element that is a number, on all cores: ``np.nanmin``.

    Parameters
    ----------
    a, axis, out, keepdims, initial, where
        As for :func:`par_sum`.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray or scalar
        ``out`` if it was given. Not-a-number, with a RuntimeWarning, where there is none.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.nanmin`` raises for the same mistake.

    Notes
    -----
    O(n) work.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_nanmin(np.array([3.0, np.nan, 2.0]))
    np.float64(2.0)
    """
    if progress is not None:
        return with_progress(progress, par_nanmin, (a, axis, out, keepdims, initial, where), {})
    return nan_extreme(np.fmin, np.nanmin, a, axis, out, keepdims, initial, where)


def par_nanmax(a, axis=None, out=None, keepdims=np._NoValue, initial=np._NoValue,
               where=np._NoValue, *, progress=None):
    """The greatest element that is a number, on all cores: ``np.nanmax``.

    Parameters
    ----------
    a, axis, out, keepdims, initial, where
        As for :func:`par_sum`.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    ndarray or scalar
        ``out`` if it was given. Not-a-number, with a RuntimeWarning, where there is none.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.nanmax`` raises for the same mistake.

    Notes
    -----
    O(n) work.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_nanmax(np.array([3.0, np.nan, 2.0]))
    np.float64(3.0)
    """
    if progress is not None:
        return with_progress(progress, par_nanmax, (a, axis, out, keepdims, initial, where), {})
    return nan_extreme(np.fmax, np.nanmax, a, axis, out, keepdims, initial, where)
