# cython: wraparound=True, boundscheck=True
"""``par_reduce`` and its relatives: sums, extremes, moments, dot products."""
import math
import warnings
from functools import partial

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from numpy cimport ndarray, ufunc

from pyblitz.arrays.common cimport (
    SLICE_ITEMS, PyArray_ArrFuncs, PyDataType_GetArrFuncs, Resolved, Slices, at, axes_of,
    idempotent, is_half, is_quick, longest_axis, made_like, numbas_ufunc, report_flags, resolve, resolve_reduction,
    slices)
from pyblitz.arrays.compiled cimport CompiledKernel, as_kernel
from pyblitz.arrays.copy cimport native
from pyblitz.arrays.evaluate cimport apply, count_node, find_node, values_of
from pyblitz.arrays.fold cimport (
    any_of, arg_row, dot_row, extremes_of, extremes_row, fold_kernel, is_lost, is_row, mean_of, mean_type,
    reduce_array, reduce_node, sum_rounded, variance_of)
from pyblitz.arrays.front cimport (
    DEAR_NS, DOT_NS, FACTOR_NS, ITEM_NS, REDUCE_NS, TRUTH_NS, alone, as_array, Left, left, left_dtype, no_value, pays,
    too_small)
from pyblitz.arrays.front import operation
from pyblitz.arrays.nodes cimport Node, call_kernel, cast, node_of
from pyblitz.kernels.find cimport FIND_NONZERO, FIND_ZERO
from pyblitz.kernels.reduce cimport arg_fn, zero_nans_double, zero_nans_float

cnp.import_array()

cdef enum:
    # Along axes that are kept, from so many on each is one's own; fewer are done one after
    # another, each by all.
    MANY_ROWS = 32
    # From so many on one pass of ours takes less than two of NumPy's.
    EXTREMES_BYTES = 4096

# NumPy 2.1 and older, given an out, begin with the first item of what lies backwards, and leave out
# the one that is first in memory.
cdef bint misses_the_last = np.maximum.reduce(np.array([[2, 1]])[:, ::-1], 1, out=np.empty(1, int))[0] != 2


# ---- any ufunc --------------------------------------------------------------

cdef class SlicedReduce(Slices):
    """op.reduce on slices: along a kept axis into parts of the output, or along
    a reduced axis into partial results that a fixed tree joins."""
    cdef object op
    cdef ndarray a
    cdef object where
    cdef dict options       # without out, initial and where
    cdef object initial
    cdef bint initial_once  # whether only the first slice starts from initial
    cdef int axis
    cdef object out         # kept axis: the whole; reduced axis: None
    cdef list partials      # results of slices
    cdef int64_t grain      # items of a slice along the axis

    cdef object part(self, int64_t lo, int64_t hi):
        index = at(self.axis, lo, hi)
        options = dict(self.options)
        if self.where is not None:
            options["where"] = self.where[index]
        if self.initial is not no_value and (lo == 0 or not self.initial_once):
            options["initial"] = self.initial
        if self.out is not None:
            self.op.reduce(self.a[index], out=self.out[index], **options)
        else:
            self.partials[lo // self.grain] = self.op.reduce(self.a[index], **options)

    cdef object combine(self, int64_t lo, int64_t mid):
        one, two = lo // self.grain, mid // self.grain
        self.op(self.partials[one], self.partials[two], out=self.partials[one])
        self.partials[two] = None


cdef object direct_reduce(object op, object a, object axis, object dtype, object out,
                          object keepdims, object initial, object where):
    options = {}
    if axis != 0 or type(axis) is not int:
        options["axis"] = axis
    if dtype is not None:
        options["dtype"] = dtype
    if out is not None:
        options["out"] = out
    if keepdims is not False and keepdims is not no_value:
        options["keepdims"] = keepdims
    if initial is not no_value:
        options["initial"] = initial
    if where is not True and where is not no_value:
        options["where"] = where
    return op.reduce(a, **options)


cdef object placed_in_out(object result, object out, tuple kept, object keepdims):
    """The result as reduce would return it: in ``out``, in the right shape, and
    0-d arrays as scalars."""
    if keepdims:
        result = result.reshape(kept)
    if out is not None:
        out[...] = result
        return out
    return result if result.ndim else result[()]


cdef object into(object out, object result):
    """The result, in ``out`` if that is an array for it; or what is left to NumPy."""
    if out is None or type(result) is Left:
        return result
    if not cnp.PyArray_CheckExact(out) or out.dtype != result.dtype or out.shape != np.shape(result) or (
            not cnp.PyArray_ISWRITEABLE(out)):
        return left("an out of another shape or dtype")
    out[...] = result
    return out


cdef int truth_of(object flag) except -2:
    """Of ``keepdims`` and its like; -1: it is unusual, and NumPy's to take or to refuse."""
    if flag is no_value:
        return 0
    return bool(flag) if isinstance(flag, (bool, int, np.bool_, np.integer)) else -1


cdef bint is_slow(object op, ndarray x) except -1:
    """Whether NumPy takes longer for an item than to read it, and so many are there that we are faster.  It
    multiplies integers one after another."""
    cdef cnp.dtype d = x.descr
    if d.kind in b"iu" and d.itemsize >= 4 and pays(cnp.PyArray_SIZE(x), FACTOR_NS) and op is np.multiply:
        return True
    return pays(cnp.PyArray_SIZE(x), DEAR_NS) and (d.type_num == cnp.NPY_FLOAT16 or not is_quick(op))


cdef bint is_same_alone(object op, ndarray x) except -1:
    """Whether one thread alone leaves it to NumPy: an extreme of integers, none of whose equals are
    different, as zeros and NaNs of floats are."""
    return x.descr.kind in b"iu" and op in idempotent and alone(cnp.PyArray_NBYTES(x)) and (
        cnp.PyArray_ISNOTSWAPPED(x))


cdef object reduce_ufunc(object op, ndarray x, object axis, object dtype, object out, object keepdims,
                         object initial, object where):
    """``op.reduce``, or what is left to it."""
    cdef Resolved r
    cdef int ndim = cnp.PyArray_NDIM(x), keeps
    cdef bint plain
    if where is not True and where is not no_value and not (
            where is np.True_ or (cnp.PyArray_CheckExact(where) and where.dtype == np.bool_)):
        return left("where= that is not of booleans")
    plain = ((axis is None or (ndim == 1 and type(axis) is int and axis == 0)) and out is None and dtype is None
             and (where is True or where is no_value) and (keepdims is False or keepdims is no_value))
    if ndim == 0 or not (pays(cnp.PyArray_NBYTES(x), REDUCE_NS) or (plain and is_slow(op, x))) or (
            plain and is_same_alone(op, x)):
        # NumPy's namesakes are slower than their ufunc's method.
        return direct_reduce(op, x, axis, dtype, out, keepdims, initial, where)
    if plain:
        # The most common call, without the general one's bookkeeping.
        r = resolve_reduction(op, x.descr)
        if r.folds and r.associative:
            return reduce_array(op, x, initial, r)
    keeps = truth_of(keepdims)
    if (<ufunc>op).nin != 2 or (<ufunc>op).nout != 1 or (<ufunc>op).signature is not None:
        return left("a ufunc that cannot reduce")
    if keeps < 0 or not (out is None or cnp.PyArray_CheckExact(out)):
        return left("an unusual keepdims or out")
    if where is no_value or where is np.True_:
        where = True
    r = resolve(op, (None if out is None else out.dtype, x.dtype, None),
                None if dtype is None else (np.dtype(dtype), None, None), "unsafe", True)
    if not r.folds:
        return left_dtype(x.dtype)
    return reduce_axes(op, x, axes_of(axis, ndim), dtype, out, keeps, initial, where, r)


cdef object reduce_axes(object op, ndarray x, set axes, object dtype, object out, bint keepdims, object initial,
                        object where, Resolved r):
    """The same along these axes, of what can be shared."""
    cdef SlicedReduce s
    cdef int ndim = cnp.PyArray_NDIM(x), kept_axis, cut_axis
    cdef int64_t size = cnp.PyArray_SIZE(x)
    cdef bint associative = r.associative
    shape = tuple([cnp.PyArray_DIM(x, d) for d in range(ndim)])
    kept = tuple([1 if d in axes else shape[d] for d in range(ndim)])
    small = tuple([shape[d] for d in range(ndim) if d not in axes])
    if not axes:
        return left("no axis")
    if out is not None and (out.shape != (kept if keepdims else small) or not cnp.PyArray_ISWRITEABLE(out)):
        return left("an out of another shape")
    if len(axes) > 1 and not associative:
        return left(f"np.{op.__name__}, which is not associative, along several axes")
    if len(axes) == ndim and where is True and associative and out is None and dtype is None:
        return placed_in_out(np.asarray(reduce_array(op, x, initial, r)), out, kept, keepdims)
    kept_axis = longest_axis(shape, [d for d in range(ndim) if d not in axes])
    cut_axis = longest_axis(shape, sorted(axes))
    if not associative and kept_axis < 0:
        return left(f"np.{op.__name__}, which is not associative, along all axes")
    s = SlicedReduce("reduce", True)
    s.op = op
    s.a = x
    if where is not True:
        try:
            s.where = np.broadcast_to(where, shape)
        except ValueError:
            pass
        if s.where is None:
            return left("where= of another shape")
    if misses_the_last and op in idempotent:
        forwards = tuple([slice(None, None, -1 if d in axes and cnp.PyArray_STRIDE(x, d) < 0 else 1)
                          for d in range(ndim)])
        s.a = x[forwards]
        s.where = None if s.where is None else s.where[forwards]
    # A given `out` decides the dtype; of times, the unit may not be named.
    s.options = {"axis": tuple(sorted(axes)), "keepdims": True,
                 "dtype": dtype if out is None or r.dtypes[2].kind in "mM" else r.dtypes[2]}
    s.initial = initial
    if kept_axis >= 0 and (shape[kept_axis] >= MANY_ROWS or not associative):
        s.axis = kept_axis
        s.initial_once = False
        result = made_like(x[tuple([slice(1) if d in axes else slice(None) for d in range(ndim)])], r.dtypes[2])
        s.out = result
    else:
        s.axis = cut_axis
        s.initial_once = op not in idempotent
        s.out = None
    # At least a slice's worth, at most 64 slices.
    s.grain = max(1, SLICE_ITEMS * shape[s.axis] // size, shape[s.axis] // 64)
    if s.out is None:
        s.partials = [None] * (-(-shape[s.axis] // s.grain))
        s.run(s.grain, shape[s.axis], True)
        result = s.partials[0]
        if is_lost(op, result, s.flags.seen):
            return direct_reduce(op, x, tuple(sorted(axes)), dtype, out, keepdims, initial, where)
    else:
        s.run(s.grain, shape[s.axis], False)
    report_flags("reduce", s.flags.seen)
    return placed_in_out(result.reshape(small), out, kept, keepdims)


@operation("a out where", own="combine", of_ufunc=True, method="reduce", gives="wrap", masked=False)
def par_reduce(op, a, axis=0, dtype=None, out=None, keepdims=False, initial=np._NoValue,
               where=True, *, combine=None):
    """Reduces an array by a binary ufunc, on all cores: ``op.reduce``.

    Parameters
    ----------
    op : ufunc or compiled kernel
        With two inputs and one output. A kernel ``T op(T, T)`` (as for
        :func:`par_map`) reduces a whole array of T, or one of one dimension: it gets what
        was accumulated and an element, and must not care about grouping, or come with
        ``combine``.
    axis : None or int or tuple of int, optional
        What to reduce along; the first axis by default, as in ``op.reduce``.
    initial : scalar, optional
        What to start from. For a kernel, an identity: each block of elements starts from it.
    combine : compiled kernel, optional
        For a kernel: what joins the accumulated values of two stretches of elements.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``op.reduce`` raises for the same mistake; for kernels: a signature that cannot
        be called or does not fit the dtype, options that only ufuncs have.

    Notes
    -----
    O(n) work.  The elements are cut into blocks, and the blocks' results are
    combined in a tree, both of which depend on shape, dtype and ``op`` alone: the result has
    the same bits for any number of threads, run after run.  Rounding operations
    (sums and products of floats, ``np.logaddexp``, ``np.hypot``) are grouped
    otherwise than in NumPy, so they may be rounded otherwise; the error bound of
    a sum is that of pairwise summation, as NumPy's is.

    An operation that is not associative, such as ``np.subtract``, is shared
    along axes that are kept; without one, NumPy does it alone.

    Examples
    --------
    >>> pb.par_reduce(np.add, np.arange(100_000))
    np.int64(4999950000)
    >>> pb.par_reduce(np.maximum, np.eye(3), axis=1)
    array([1., 1., 1.])
    """
    cdef CompiledKernel k
    a = as_array(a)
    if isinstance(op, ufunc):
        if combine is not None:
            raise TypeError("combine: only a compiled kernel takes it")
        return reduce_ufunc(op, a, axis, dtype, out, keepdims, initial, where)
    if numbas_ufunc(op) is not None:
        # A call on nothing makes it compile the loop for these types.
        one = a.reshape(-1)[:0]
        known = True
        try:
            op(one, one)
        except Exception:
            known = False
        if not known:
            return left("a ufunc of Numba's for other types")      # it says itself what is wrong
        return reduce_ufunc(op.ufunc, a, axis, dtype, out, keepdims, initial, where)
    k = as_kernel(op)
    if k is None:
        raise TypeError(f"op: expected a ufunc or a compiled kernel, not {type(op).__name__}")
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


# ---- namesakes --------------------------------------------------------------

@operation("a out where", np.sum, method="sum", gives="wrap")
def par_sum(a, axis=None, dtype=None, out=None, keepdims=np._NoValue, initial=np._NoValue,
            where=np._NoValue):
    """The sum of array elements, on all cores: ``np.sum``.

    Notes
    -----
    O(n) work. Floats are summed pairwise (Higham, 1993), in blocks and a tree that depend on
    the shape and dtype: the same bits for any number of threads, and an error bound no greater
    than NumPy's.

    Examples
    --------
    >>> pb.par_sum(np.arange(100_000))
    np.int64(4999950000)
    """
    return reduce_ufunc(np.add, as_array(a), axis, dtype, out, keepdims, initial, where)


@operation("a out where", np.prod, method="prod", gives="wrap")
def par_prod(a, axis=None, dtype=None, out=None, keepdims=np._NoValue, initial=np._NoValue,
             where=np._NoValue):
    """The product of array elements, on all cores: ``np.prod``.

    Notes
    -----
    O(n) work. See :func:`par_reduce`. Where some blocks of floats overflow and others vanish,
    NumPy multiplies once more in its own order, in which what came first stays.

    Examples
    --------
    >>> pb.par_prod(np.arange(1, 6))
    np.int64(120)
    """
    return reduce_ufunc(np.multiply, as_array(a), axis, dtype, out, keepdims, initial, where)


@operation("a out where", np.min, method="min", gives="wrap")
def par_min(a, axis=None, out=None, keepdims=np._NoValue, initial=np._NoValue, where=np._NoValue,
            *):
    """The least array element, on all cores: ``np.min``; NaN if there is one.

    Examples
    --------
    >>> pb.par_min([[3, 1], [2, 5]], axis=1)
    array([1, 2])
    """
    return reduce_ufunc(np.minimum, as_array(a), axis, None, out, keepdims, initial, where)


@operation("a out where", np.max, method="max", gives="wrap")
def par_max(a, axis=None, out=None, keepdims=np._NoValue, initial=np._NoValue, where=np._NoValue,
            *):
    """The greatest array element, on all cores: ``np.max``; NaN if there is one.

    Examples
    --------
    >>> pb.par_max([[3, 1], [2, 5]], axis=1)
    array([3, 5])
    """
    return reduce_ufunc(np.maximum, as_array(a), axis, None, out, keepdims, initial, where)


def least_and_greatest(a, axis=None):
    if type(a) is ndarray:
        return np.minimum.reduce(a, axis), np.maximum.reduce(a, axis)   # what these do, after some Python
    return np.min(a, axis), np.max(a, axis)


@operation("a", least_and_greatest, method="min", gives="wrap")
def par_minmax(a, axis=None):
    """The least and the greatest element, in one pass over the array.

    Returns
    -------
    least, greatest : ndarray or scalar
        What ``np.min`` and ``np.max`` give.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.min`` raises for the same mistake.

    Examples
    --------
    >>> pb.par_minmax(np.array([3.0, 1.0, 2.0]))
    (np.float64(1.0), np.float64(3.0))
    """
    x = as_array(a)
    cdef bint flat = x.nbytes >= EXTREMES_BYTES and (
        axis is None or (x.ndim == 1 and len(axes_of(axis, 1)) == 1))
    if not pays(x.nbytes, REDUCE_NS) and not is_slow(np.minimum, x):
        found = extremes_row(x) if flat else None
        return too_small if found is None else found
    if flat and x.dtype.kind in "biufmM":
        return extremes_of(x)
    least = reduce_ufunc(np.minimum, x, axis, None, None, False, no_value, True)
    return least if type(least) is Left else (
        least, reduce_ufunc(np.maximum, x, axis, None, None, False, no_value, True))


# ---- moments ----------------------------------------------------------------

cdef object count_elements(ndarray x, object axis, object keepdims, object where, object total):
    """How many elements each of the results is made of; None: of none in some."""
    if where is True or where is no_value:
        return x.size // np.size(total) if np.size(total) and x.size else None
    counts = reduce_ufunc(np.add, np.broadcast_to(where, (<object>x).shape), axis, np.intp, None, keepdims,
                          no_value, True)
    return counts if type(counts) is Left or np.all(counts > 0) else None


cdef object mean(ndarray x, object axis, object dtype, object out, object keepdims, object where):
    """``np.mean``, or what is left to it."""
    kind = mean_type(x.dtype) if dtype is None else np.dtype(dtype)
    if kind is None or kind.kind not in "fc":
        return left_dtype(x.dtype)
    if out is not None and out.dtype != kind:
        return left("an out of another dtype")
    total = reduce_ufunc(np.add, x, axis, kind, None, keepdims, no_value, where)
    if type(total) is Left:
        return total
    count = count_elements(x, axis, keepdims, where, total)
    if count is None or type(count) is Left:
        return left("means of nothing")
    result = np.true_divide(total, count, dtype=kind)
    if out is None and is_half(x.dtype) and dtype is None:
        return result.astype(np.float16)
    return into(out, result)


@operation("a out where", np.mean, method="mean", gives="wrap", ns=ITEM_NS)
def par_mean(a, axis=None, dtype=None, out=None, keepdims=np._NoValue, *, where=np._NoValue):
    """The arithmetic mean, on all cores: ``np.mean``.

    Parameters
    ----------
    dtype : dtype, optional
        The type of the calculation and the result; integers are averaged as float64.

    Notes
    -----
    O(n) work. The sum is that of :func:`par_sum`.

    Examples
    --------
    >>> pb.par_mean(np.arange(5))
    np.float64(2.0)
    """
    x = as_array(a)
    if not pays(x.nbytes, REDUCE_NS):
        return too_small
    if truth_of(keepdims) < 0:
        return left("an unusual keepdims")
    if axis is None and dtype is None and out is None and where is no_value and truth_of(keepdims) == 0 and (
            mean_type(x.dtype) is not None and x.size):
        return mean_of([node_of(x)])
    return mean(x, axis, dtype, out, keepdims, where)


def rows_part(fn, a, out, options, axis, lo, hi):
    index = at(axis, lo, hi)
    out[index] = fn(a[index], **options)


cdef object along_kept(object fn, object row, ndarray a, object axis, object keepdims, dict options):
    """NumPy's ``fn`` along axes, each row of the kept ones by itself; ``row``: the same of one
    whole row, shared among all."""
    cdef int ndim = cnp.PyArray_NDIM(a), kept
    axes = axes_of(axis, ndim)
    shape = (<object>a).shape
    whole = tuple([1 if d in axes else shape[d] for d in range(ndim)])
    small = tuple([shape[d] for d in range(ndim) if d not in axes])
    if 0 in shape:
        return left("nothing")
    kept = longest_axis(shape, [d for d in range(ndim) if d not in axes])
    # Its dtype, and what is wrong with the arguments.  Of zeros, and of enough, so that it warns of
    # nothing.
    numpys = {**options, "axis": axis, "keepdims": True}
    enough = 2 + max(0, int(options.get("ddof", 0)))
    one = fn(np.zeros([min(shape[d], enough) if d in axes else 1 for d in range(ndim)], a.dtype), **numpys)
    out = np.empty(whole, one.dtype)
    if kept >= 0 and shape[kept] >= MANY_ROWS:
        slices(fn.__name__, partial(rows_part, fn, a, out, numpys, kept),
               max(1, SLICE_ITEMS * shape[kept] // max(cnp.PyArray_SIZE(a), 1), shape[kept] // 64), shape[kept],
               fn.__name__)
    else:
        order = [d for d in range(ndim) if d not in axes] + sorted(axes)
        rows = np.transpose(a, order)
        flat = out.reshape(small)
        for index in np.ndindex(*small):
            flat[index] = row(rows[index], **options)
    if truth_of(keepdims) == 1:
        return out
    return out.reshape(small) if small else out.reshape(())[()]


cdef object variance(ndarray x, object ddof):
    """Of all elements; None: of too few."""
    return variance_of([node_of(x)], ddof)


def var_row(a, ddof):
    return variance(a, ddof)


def std_row(a, ddof):
    return np.sqrt(variance(a, ddof))


cdef object spread(object namesake, object row, ndarray x, object axis, object dtype, object out, object ddof,
                   object keepdims, dict options):
    """``np.var`` or ``np.std``, or what is left to it."""
    cdef object deviations, count
    if not pays(cnp.PyArray_NBYTES(x), REDUCE_NS):
        return too_small
    where = options.get("where", True)
    if is_half(x.dtype) and dtype is None:
        return left_dtype(x.dtype)      # NumPy's sums overflow there
    if (x.dtype.kind not in "biufc" or options.keys() - {"where"} or not isinstance(ddof, (int, float))
            or (isinstance(ddof, float) and not math.isfinite(ddof))
            or truth_of(keepdims) < 0 or cnp.PyArray_SIZE(x) == 0):
        return left_dtype(x.dtype) if x.dtype.kind not in "biufc" else left("correction=, mean= or an unusual option")
    x = native(x)
    if dtype is None and out is None and where is True and x.dtype.kind != "c":
        if axis is None or cnp.PyArray_NDIM(x) == 1:
            axes_of(axis, cnp.PyArray_NDIM(x))
            if cnp.PyArray_SIZE(x) <= ddof:
                return left("more degrees of freedom than elements")
            value = row(x, ddof)
            return value if truth_of(keepdims) == 0 else np.full((1,) * cnp.PyArray_NDIM(x), value)
        if math.prod([cnp.PyArray_DIM(x, d) for d in axes_of(axis, cnp.PyArray_NDIM(x))]) <= ddof:
            return left("more degrees of freedom than elements")
        return along_kept(namesake, row, x, axis, keepdims, {"ddof": ddof})
    # As NumPy computes it, step by step, each step shared.
    if not (out is None or cnp.PyArray_CheckExact(out)) or (dtype is not None and np.dtype(dtype).kind != "f"):
        return left("an unusual out or dtype")
    center = mean(x, axis, dtype, None, True, where)
    if type(center) is Left:
        return center
    deviations = values_of(apply(np.subtract, [x, center], {}))
    if deviations.dtype.kind == "c":
        square = np.square
        deviations = values_of(apply(np.add, [apply(square, [deviations.real], {}),
                                              apply(square, [deviations.imag], {})], {}))
    else:
        deviations = values_of(apply(np.multiply, [deviations, deviations], {}))
    total = reduce_ufunc(np.add, deviations, axis, dtype, None, keepdims, no_value, where)
    if type(total) is Left:
        return total
    count = count_elements(x, axis, keepdims, where, total)
    if count is None or type(count) is Left or np.any(np.less_equal(count, ddof)):
        return left("more degrees of freedom than elements")
    result = np.true_divide(total, np.subtract(count, ddof), dtype=total.dtype)
    if namesake is np.std:
        result = np.sqrt(result)
    return into(out, result)


@operation("a out where", np.var, method="var", gives="wrap", ns=ITEM_NS)
def par_var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=np._NoValue, *,
            **options):
    """The variance, on all cores: ``np.var``.

    Parameters
    ----------
    ddof : float, optional
        The divisor is the number of elements less this.
    **options
        ``where``, ``mean`` and ``correction``, as for ``np.var``.

    Notes
    -----
    O(n) work, two passes over the array: the mean, then the squared distances from it,
    without a temporary of the array's size.

    Examples
    --------
    >>> pb.par_var(np.array([1.0, 2.0, 3.0, 4.0]))
    np.float64(1.25)
    """
    return spread(np.var, var_row, as_array(a), axis, dtype, out, ddof, keepdims, options)


@operation("a out where", np.std, method="std", gives="wrap", ns=ITEM_NS)
def par_std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=np._NoValue, *,
            **options):
    """The standard deviation, on all cores: ``np.std``.

    Parameters
    ----------
    **options
        As for :func:`par_var`.

    Notes
    -----
    O(n) work. See :func:`par_var`.

    Examples
    --------
    >>> pb.par_std(np.array([1.0, 1.0, 3.0, 3.0]))
    np.float64(1.0)
    """
    return spread(np.std, std_row, as_array(a), axis, dtype, out, ddof, keepdims, options)


# ---- positions of extremes --------------------------------------------------

cdef arg_fn arg_loop(ndarray x, bint least):
    cdef PyArray_ArrFuncs* f = PyDataType_GetArrFuncs(cnp.PyArray_DESCR(x))
    return f.argmin if least else f.argmax


def argmin_row(a):
    return arg_row(a, arg_loop(a, True))


def argmax_row(a):
    return arg_row(a, arg_loop(a, False))


cdef object arg_reduce(object namesake, object row, object a, object axis, object out, object keepdims):
    cdef ndarray x = as_array(a)
    cdef int64_t bytes = cnp.PyArray_NBYTES(x)
    if not pays(bytes, REDUCE_NS) or (alone(bytes) and cnp.PyArray_ISNOTSWAPPED(x)):
        return too_small
    if x.dtype.kind not in "biufcmM":
        return left_dtype(x.dtype)
    if truth_of(keepdims) < 0 or type(axis) is tuple:
        return left("an unusual axis or keepdims")
    x = native(x)
    ndim = cnp.PyArray_NDIM(x)
    if axis is None or ndim == 1:
        axes_of(axis, ndim)
        result = row(x)
        if truth_of(keepdims) == 1:
            result = np.full((1,) * ndim, result)
    else:
        result = along_kept(namesake, row, x, axis, keepdims, {})
    return into(out, result)


@operation("a out", np.argmin, method="argmin", gives="same", ns=ITEM_NS)
def par_argmin(a, axis=None, out=None, *, keepdims=np._NoValue):
    """The position of the least element, on all cores: ``np.argmin``.

    Parameters
    ----------
    axis : int, optional
        What to search along; by default the array in C order.

    Returns
    -------
    ndarray of int or int
        The first of equals; that of the first NaN if there is one.

    Examples
    --------
    >>> pb.par_argmin(np.array([3, 1, 2, 1]))
    np.int64(1)
    """
    return arg_reduce(np.argmin, argmin_row, a, axis, out, keepdims)


@operation("a out", np.argmax, method="argmax", gives="same", ns=ITEM_NS)
def par_argmax(a, axis=None, out=None, *, keepdims=np._NoValue):
    """The position of the greatest element, on all cores: ``np.argmax``.

    Parameters
    ----------
    axis : int, optional
        What to search along; by default the array in C order.

    Returns
    -------
    ndarray of int or int
        The first of equals; that of the first NaN if there is one.

    Examples
    --------
    >>> pb.par_argmax(np.array([3, 1, 3, 1]))
    np.int64(0)
    """
    return arg_reduce(np.argmax, argmax_row, a, axis, out, keepdims)


# ---- truth ------------------------------------------------------------------

cdef Node mask_node(ndarray x):
    """Where it is not zero."""
    return node_of(x) if x.dtype == np.bool_ else apply(np.not_equal, [x, 0], {})


cdef Node items_node(ndarray x):
    """The array itself, where kernels look at what it has; or that mask."""
    cdef cnp.dtype dtype = x.dtype
    if cnp.PyArray_IS_C_CONTIGUOUS(x) and cnp.PyArray_ISALIGNED(x) and x.dtype.isnative:
        if dtype.kind in b"biu" and dtype.itemsize == 1:
            return node_of(x.view(np.uint8))
        if dtype.kind in b"iuf" and dtype.itemsize in (4, 8):
            return node_of(x)
    return mask_node(x)


cdef object any_or_all(object op, bint negated, object a, object axis, object out, object keepdims, object where):
    """any, and all as "not any that is not"."""
    cdef ndarray x = as_array(a)
    if x.dtype == np.bool_ and (alone(cnp.PyArray_NBYTES(x)) or not pays(cnp.PyArray_NBYTES(x), TRUTH_NS)):
        return too_small
    if not pays(cnp.PyArray_NBYTES(x), REDUCE_NS):
        return too_small
    if x.dtype.kind not in "biufc":
        return left_dtype(x.dtype)
    if axis is None and out is None and truth_of(keepdims) == 0 and (where is no_value or where is True):
        return np.bool_((find_node(items_node(x), FIND_ZERO if negated else FIND_NONZERO) >= 0) != negated)
    return reduce_ufunc(op, x, axis, None, out, keepdims, no_value, where)


@operation("a out where", np.any, method="any", gives="wrap", ns=ITEM_NS)
def par_any(a, axis=None, out=None, keepdims=np._NoValue, *, where=np._NoValue):
    """Whether any element is true (not zero), on all cores: ``np.any``.

    Returns
    -------
    ndarray of bool or bool

    Notes
    -----
    O(n) work; over all axes it stops soon after the first hit.

    Examples
    --------
    >>> pb.par_any(np.zeros(1_000_000))
    np.False_
    """
    return any_or_all(np.logical_or, False, a, axis, out, keepdims, where)


@operation("a out where", np.all, method="all", gives="wrap", ns=ITEM_NS)
def par_all(a, axis=None, out=None, keepdims=np._NoValue, *, where=np._NoValue):
    """Whether all elements are true (not zero), on all cores: ``np.all``.

    Returns
    -------
    ndarray of bool or bool

    Notes
    -----
    O(n) work; over all axes it stops soon after the first zero.

    Examples
    --------
    >>> pb.par_all(np.arange(1_000_000))
    np.False_
    """
    return any_or_all(np.logical_and, True, a, axis, out, keepdims, where)


@operation("a", np.count_nonzero, gives="rows", ns=ITEM_NS)
def par_count_nonzero(a, axis=None, *, keepdims=False):
    """How many elements are not zero, on all cores: ``np.count_nonzero``.

    Returns
    -------
    int or ndarray of int

    Examples
    --------
    >>> int(pb.par_count_nonzero(np.arange(1_000_000)))
    999999
    """
    x = as_array(a)
    if not pays(x.nbytes, REDUCE_NS) or x.ndim == 0:
        return too_small
    if x.dtype.kind not in "biufc":
        return left_dtype(x.dtype)
    if truth_of(keepdims) < 0:
        return left("an unusual keepdims")
    if axis is None and truth_of(keepdims) == 0:
        # NumPy has vectors for these.
        if cnp.PyArray_IS_C_CONTIGUOUS(x) and x.dtype.kind in "biu" and (
                alone(cnp.PyArray_NBYTES(x)) or not pays(cnp.PyArray_NBYTES(x), TRUTH_NS)):
            return too_small
        return type(np.count_nonzero(np.empty(0)))(count_node(items_node(x)))
    mask = values_of(mask_node(x))
    return reduce_ufunc(np.add, mask, axis, np.intp, None, keepdims, no_value, True)


# ---- products ---------------------------------------------------------------

def dot_part(a, b, out, lo, hi):
    np.dot(a[lo:hi], b, out[lo:hi])


cdef bint are_plain_rows(ndarray x, ndarray y):
    """Numbers of four or eight bytes side by side, as many."""
    cdef cnp.dtype dtype = x.descr
    if dtype is not y.descr or not cnp.PyDataType_ISNOTSWAPPED(dtype) or not is_row(x) or not is_row(y):
        return False
    return (cnp.PyArray_NDIM(x) == 1 and cnp.PyArray_NDIM(y) == 1 and cnp.PyArray_SIZE(x) == cnp.PyArray_SIZE(y) > 0
            and dtype.kind in b"iuf" and dtype.itemsize in (4, 8))


@operation("a b out", np.dot, ns=ITEM_NS)
def par_dot(a, b, out=None):
    """The dot product of two arrays, on all cores: ``np.dot``.

    Parameters
    ----------
    a, b : array_like
        Two rows give a scalar, rows and matrices what ``np.dot`` gives.

    Returns
    -------
    ndarray or scalar
        ``out`` if it was given and has an axis.

    Notes
    -----
    O(n) work for rows. Products of floats are summed pairwise, as in :func:`par_sum`: the
    same bits for any number of threads. Short rows (of double, up to 38,000 elements) and
    matrices of floats go to NumPy, whose BLAS has threads and an order of its own; the rows of
    a matrix of integers are shared.

    Examples
    --------
    >>> pb.par_dot(np.arange(4.0), np.ones(4))
    np.float64(6.0)
    """
    cdef ndarray x = as_array(a), y = as_array(b)
    # A BLAS has numbers of these types.
    cdef bint of_blas = x.descr.type_num in (cnp.NPY_FLOAT, cnp.NPY_DOUBLE, cnp.NPY_CFLOAT, cnp.NPY_CDOUBLE)
    cdef bint large = pays(cnp.PyArray_NBYTES(x), DOT_NS)
    if not of_blas:
        large = pays(cnp.PyArray_SIZE(x), ITEM_NS)
    if not large:
        return too_small
    if out is None and are_plain_rows(x, y):
        return dot_row(x, y)
    if x.dtype.kind not in "biufc" or y.dtype.kind not in "biufc":
        return left_dtype(x.dtype if x.dtype.kind not in "biufc" else y.dtype)
    kind = np.result_type(x, y)
    if x.dtype == y.dtype and x.dtype.num != y.dtype.num:
        # C has two types of one size; which of them NumPy's function gives is its own.
        kind = np.dot(np.zeros(1, x.dtype), np.zeros(1, y.dtype)).dtype
    if not kind.isnative:
        kind = kind.newbyteorder("=")
    if x.ndim == y.ndim == 1 and x.size == y.size:
        result = dot_rows(x, y, kind)
    elif x.ndim == 2 and y.ndim in (1, 2) and x.shape[1] == y.shape[0] and kind.char not in "fdFD":
        result = np.empty((<object>x).shape[:1] + (<object>y).shape[1:], kind)
        rows = max(len(x), 1)
        slices("dot ", partial(dot_part, x.astype(kind, copy=False), y.astype(kind, copy=False), result),
               max(1, rows // 64), len(x), None)
    else:
        return left("matrices of floats, which its BLAS shares itself, or several dimensions")
    if out is not None and not out.flags.c_contiguous:
        return left("an out that it refuses")
    made = into(out, result)
    return made[()] if made is out and out.ndim == 0 else made      # as NumPy does


cdef object dot_rows(ndarray x, ndarray y, object kind):
    if kind == np.bool_:
        return np.bool_(any_of([apply(np.logical_and, [x, y], {})]))
    if (kind.kind in "iuf" and kind.itemsize in (4, 8) and x.dtype == kind and y.dtype == kind
            and is_row(x) and is_row(y) and x.size > 0):
        return kind.type(dot_row(x, y))
    # Products of halves are summed as NumPy's are, in single precision.
    wide = np.dtype(np.float32) if kind == np.float16 else kind
    product = apply(np.multiply, [cast(node_of(x), wide), cast(node_of(y), wide)], {})
    return sum_rounded([product], kind, wide.type(0), "dot")    # NumPy starts from a zero, whose sign stays


# ---- without NaNs -----------------------------------------------------------

cdef CompiledKernel zeroing(object dtype):
    """NaN -> zero."""
    cdef CompiledKernel k = CompiledKernel()
    k.kernel.fn = <void*>zero_nans_double if dtype == np.float64 else <void*>zero_nans_float
    k.kernel.inputs = 1
    k.kernel.itemsize = dtype.itemsize
    k.block = True
    k.signature = "NaN as zero"
    k.dtype = dtype
    return k


def zero_part(a, axis, lo, hi):
    part = a[at(axis, lo, hi)]
    np.copyto(part, 0, where=np.isnan(part))


@operation("a out where", np.nansum, gives="wrap", ns=ITEM_NS)
def par_nansum(a, axis=None, dtype=None, out=None, keepdims=np._NoValue, initial=np._NoValue,
               where=np._NoValue):
    """The sum of the elements that are numbers, on all cores: ``np.nansum``.

    Notes
    -----
    O(n) work. See :func:`par_sum`.

    Examples
    --------
    >>> pb.par_nansum(np.array([1.0, np.nan, 2.0]))
    np.float64(3.0)
    """
    x = as_array(a)
    if not pays(x.nbytes, REDUCE_NS) or x.ndim == 0:
        return too_small
    if x.dtype.kind not in "biufc":
        return left_dtype(x.dtype)
    if x.dtype.kind in "fc":
        if (axis is None and out is None and where is no_value and dtype is None and truth_of(keepdims) == 0
                and x.dtype.isnative and x.dtype.char in "df"):
            return reduce_node(np.add, call_kernel(zeroing(x.dtype), (node_of(x),)), initial, None)
        cut = longest_axis(x.shape, range(x.ndim))
        x = x.astype(x.dtype.newbyteorder("="))
        slices("nansum ", partial(zero_part, x, cut), max(1, SLICE_ITEMS * x.shape[cut] // max(x.size, 1)),
               x.shape[cut], None)
    return reduce_ufunc(np.add, x, axis, dtype, out, keepdims, initial, where)


cdef object nan_extreme(object op, object a, object axis, object out, object keepdims, object initial, object where):
    cdef ndarray x = as_array(a)
    if not pays(cnp.PyArray_NBYTES(x), REDUCE_NS):
        return too_small
    if x.dtype.kind not in "biuf":
        return left_dtype(x.dtype)
    result = reduce_ufunc(op, x, axis, None, out, keepdims, initial, where)
    if type(result) is not Left and result.dtype.kind == "f":
        bad = result != result
        if bad.any() if isinstance(bad, np.ndarray) else bad:
            warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=2)
    return result


@operation("a out where", np.nanmin, gives="wrap", ns=ITEM_NS)
def par_nanmin(a, axis=None, out=None, keepdims=np._NoValue, initial=np._NoValue,
               where=np._NoValue):
    """The least element that is a number, on all cores: ``np.nanmin``.

    Returns
    -------
    ndarray or scalar
        ``out`` if it was given. NaN, with a RuntimeWarning, where there is none.

    Examples
    --------
    >>> pb.par_nanmin(np.array([3.0, np.nan, 2.0]))
    np.float64(2.0)
    """
    return nan_extreme(np.fmin, a, axis, out, keepdims, initial, where)


@operation("a out where", np.nanmax, gives="wrap", ns=ITEM_NS)
def par_nanmax(a, axis=None, out=None, keepdims=np._NoValue, initial=np._NoValue,
               where=np._NoValue):
    """The greatest element that is a number, on all cores: ``np.nanmax``.

    Returns
    -------
    ndarray or scalar
        ``out`` if it was given. NaN, with a RuntimeWarning, where there is none.

    Examples
    --------
    >>> pb.par_nanmax(np.array([3.0, np.nan, 2.0]))
    np.float64(3.0)
    """
    return nan_extreme(np.fmax, a, axis, out, keepdims, initial, where)
