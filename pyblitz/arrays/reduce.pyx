# cython: wraparound=True, boundscheck=True
"""``par_reduce``."""
import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from numpy cimport ndarray, ufunc

from pyblitz._python cimport Entry, enter, leave
from pyblitz.arrays.common cimport (
    SLICE_ITEMS, Resolved, Slices, at, check, is_plain, longest_axis, may_overlap, report_flags,
    resolve)
from pyblitz.kernels.reduce cimport Reduce, reduce_blocks, reduce_run
from pyblitz.runtime.atomic cimport u32_load_relaxed

cnp.import_array()

cdef enum:
    # Below this NumPy's reduction is done before another thread could help.
    SMALL_REDUCE_BYTES = 131072

cdef object no_initial = np._NoValue

# Associative ufuncs without an identity; for these, `initial` may be applied
# any number of times.
cdef set idempotent = {np.minimum, np.maximum, np.fmin, np.fmax}


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


cdef bint is_associative(object op):
    """Whether neighbours may be combined in any grouping."""
    return op.identity is not None or op in idempotent


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


cdef object reduce_row(ufunc op, ndarray a, Resolved r, object initial):
    """All elements of a contiguous array, by the ufunc's own loop: a scalar."""
    cdef Reduce red
    cdef Entry e
    cdef int rc
    cdef int64_t n = cnp.PyArray_SIZE(a), blocks
    cdef ndarray partials
    red.loop = r.loop
    red.data = r.data
    red.items = <char*>cnp.PyArray_DATA(a)
    red.itemsize = red.stride = cnp.PyArray_ITEMSIZE(a)
    blocks = reduce_blocks(n, red.itemsize, &red.grain)
    partials = np.empty(blocks, a.dtype)
    red.partials = <char*>cnp.PyArray_DATA(partials)
    with nogil:
        enter(&e)
        rc = reduce_run(e.worker, &red, n)
        rc = leave(&e, rc)
    check(rc, "the reduction")
    report_flags("reduce", u32_load_relaxed(&red.flags))
    result = partials[0]
    if initial is not no_initial or result == 0:
        # NumPy's own start: `initial`, or the identity, which shows in the sign
        # of a zero.
        result = op.reduce(partials[:1], 0, None, None, False, initial)
    return result


cdef object place(object result, object out, tuple kept, object keepdims, int ndim):
    """The result as reduce would return it: in ``out``, in the right shape, and
    0-d arrays as scalars."""
    if keepdims:
        result = result.reshape(kept)
    if out is not None:
        out[...] = result
        return out
    return result if result.ndim else result[()]


def par_reduce(op, a, axis=0, dtype=None, out=None, keepdims=False, initial=np._NoValue, where=True):
    """Reduces an array by a binary ufunc, on all cores: ``op.reduce``.

    Parameters
    ----------
    op : ufunc
        With two inputs and one output.
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
        What to start from.
    where : array_like of bool, optional
        Which elements to include.

    Returns
    -------
    ndarray or scalar
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``op.reduce`` raises for the same mistake.

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
    cdef ndarray x
    cdef Resolved r
    cdef SlicedReduce s
    cdef int ndim, kept_axis, cut_axis
    cdef int64_t size
    if not isinstance(op, ufunc):
        if not isinstance(getattr(op, "ufunc", None), ufunc):
            raise TypeError(f"op: expected a ufunc, not {type(op).__name__}")
        # Numba's DUFunc: a call on nothing makes it compile the loop for these types.
        one = np.asarray(a).reshape(-1)[:0]
        try:
            op(one, one)
        except Exception:
            # It says itself what is wrong.
            return direct_reduce(op, a, axis, dtype, out, keepdims, initial, where)
        op = op.ufunc
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
    if ndim == 1 and axis == 0 and out is None and where is True and not keepdims and dtype is None:
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
        r.dtypes = None
    if (r.dtypes is None or not axes or r.dtypes[0] != r.dtypes[2]
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

    if len(axes) == ndim and where is True and loop_fits(op, x, r):
        return place(np.asarray(reduce_row(op, x, r, initial)), out, kept, keepdims, ndim)

    kept_axis = longest_axis(shape, [d for d in range(ndim) if d not in axes])
    cut_axis = longest_axis(shape, sorted(axes))
    s = SlicedReduce("reduce", True)
    s.op = op
    s.a = x
    s.where = None if where is True else np.broadcast_to(where, shape)
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
