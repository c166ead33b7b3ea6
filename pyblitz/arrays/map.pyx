# cython: wraparound=True, boundscheck=True
"""``par_map``."""
import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t, intptr_t
from numpy cimport ndarray, ufunc

from pyblitz.arrays.common cimport (
    SLICE_ITEMS, Resolved, Slices, at, broadcast_shape, fill_map, is_plain, longest_axis,
    make_outputs, may_overlap, outputs_are_safe, report_flags, resolve, run_map, same_memory)
from pyblitz.arrays.compiled cimport CompiledKernel, as_kernel
from pyblitz.kernels.map cimport LEAF_BYTES, MAP_DIMS, Map, block_loop, map_of_loop, scalar_loop
from pyblitz.runtime.os cimport now_ns

cnp.import_array()

cdef enum:
    # Bytes of one block that a Python function is called with.
    BLOCK_CALL_BYTES = 524288
    # A map that takes less is done before another thread could help.
    DIRECT_NS = 45000


# ---- ufuncs -----------------------------------------------------------------

cdef class SlicedMap(Slices):
    cdef object fn
    cdef list ins           # broadcast to the full shape
    cdef tuple outs
    cdef dict options
    cdef object where
    cdef int axis

    cdef object part(self, int64_t lo, int64_t hi):
        index = at(self.axis, lo, hi)
        options = self.options
        if self.where is not None:
            options = {**options, "where": self.where[index]}
        self.fn(*[a[index] for a in self.ins], out=tuple([o[index] for o in self.outs]), **options)


cdef object direct_map(object fn, tuple arrays, object out, object where, object dtype, object casting):
    options = {}
    if out is not None:
        options["out"] = out
    if where is not True:
        options["where"] = where
    if dtype is not None:
        options["dtype"] = dtype
    if casting != "same_kind":
        options["casting"] = casting
    return fn(*arrays, **options)


cdef object map_ufunc(ufunc fn, tuple arrays, object out, object where, object dtype, object casting):
    cdef int inputs = fn.nin, outputs = fn.nout, i, ndim
    cdef cnp.npy_intp shape[64]
    cdef int64_t size = 1, bytes = 0, begun
    cdef list ops = [], given = []
    cdef tuple outs
    cdef Resolved r
    cdef Map m
    cdef ndarray a
    cdef bint fast = where is True
    if len(arrays) != inputs or fn.signature is not None or type(casting) is not str:
        return direct_map(fn, arrays, out, where, dtype, casting)
    if out is None:
        outs = (None,) * outputs
    else:
        outs = out if type(out) is tuple else (out,)
        if len(outs) != outputs:
            return direct_map(fn, arrays, out, where, dtype, casting)
    for x in arrays:
        if not is_plain(x):
            return direct_map(fn, arrays, out, where, dtype, casting)
        if type(x) is int or type(x) is float or type(x) is complex:
            given.append(type(x))
            # its dtype is known only when the others' are
            ops.append(np.asarray(0.0))
        else:
            if not cnp.PyArray_CheckExact(x):
                x = np.asarray(x)
            given.append((<ndarray>x).dtype)
            ops.append(x)
    for x in outs:
        if x is not None and not cnp.PyArray_CheckExact(x):
            return direct_map(fn, arrays, out, where, dtype, casting)
        given.append(None if x is None else (<ndarray>x).dtype)
        ops.append(x)
    if where is not True:
        if not is_plain(where):
            return direct_map(fn, arrays, out, where, dtype, casting)
        ops.append(np.asarray(where))
        if (<ndarray>ops[inputs + outputs]).dtype != np.bool_:
            return direct_map(fn, arrays, out, where, dtype, casting)
        # The mask takes part in broadcasting as one more input.
        ops.insert(0, ops.pop())
    if not broadcast_shape(ops, inputs + (where is not True), &ndim, shape):
        return direct_map(fn, arrays, out, where, dtype, casting)
    mask = ops.pop(0) if where is not True else None
    for i in range(ndim):
        size *= shape[i]
    for x in ops:
        bytes += 8 if x is None else cnp.PyArray_ITEMSIZE(<ndarray>x)
    if size * bytes <= LEAF_BYTES:
        return direct_map(fn, arrays, out, where, dtype, casting)

    r = resolve(fn, tuple(given), None if dtype is None else signature_of(fn, dtype), casting, False)
    if r.pace * size < DIRECT_NS and r.pace > 0:
        begun = now_ns()
        result = direct_map(fn, arrays, out, where, dtype, casting)
        # A first call is slowed by page faults: believe what is faster.
        r.pace = min(2 * r.pace, <double>(now_ns() - begun) / size)
        return result
    if r.dtypes is None or not outputs_are_safe(ops, inputs):
        return direct_map(fn, arrays, out, where, dtype, casting)
    if mask is not None and not outputs_are_safe([mask] + ops[inputs:], 1):
        return direct_map(fn, arrays, out, where, dtype, casting)
    for i in range(inputs):
        if type(given[i]) is type:
            try:
                ops[i] = np.asarray(arrays[i], r.dtypes[i])
            except OverflowError:
                # An error for most ufuncs, but a comparison has an answer.
                return direct_map(fn, arrays, out, where, dtype, casting)
    if r.loop != NULL and fast and ndim <= MAP_DIMS:
        for i in range(len(ops)):
            a = ops[i]
            if a is not None and (a.dtype != r.dtypes[i] or not cnp.PyArray_ISALIGNED(a)):
                fast = False
                break
    else:
        fast = False
    make_outputs(ops, inputs, r.dtypes, ndim, shape)
    if fast:
        fill_map(&m, ops, ndim, shape, inputs)
        map_of_loop(&m, r.loop, r.data)
        begun = now_ns()
        run_map(&m, ops, fn.__name__)
        # As if it had run alone: an estimate from below.
        r.pace = <double>(now_ns() - begun) / size
    else:
        slice_map(fn, ops, inputs, mask, dtype, casting, ndim, shape, size)
    return ops[inputs] if outputs == 1 else tuple(ops[inputs:])


cdef tuple signature_of(ufunc fn, object dtype):
    return (None,) * fn.nin + (np.dtype(dtype),) * fn.nout


cdef object slice_map(ufunc fn, list ops, int inputs, object mask, object dtype, object casting,
                      int ndim, cnp.npy_intp* shape, int64_t size):
    cdef SlicedMap s
    cdef tuple full = tuple([shape[i] for i in range(ndim)])
    s = SlicedMap(fn.__name__, True)
    s.fn = fn
    s.ins = [np.broadcast_to(a, full) for a in ops[:inputs]]
    s.outs = tuple(ops[inputs:])
    s.options = {"casting": casting}
    if dtype is not None:
        s.options["dtype"] = dtype
    s.where = None if mask is None else np.broadcast_to(mask, full)
    s.axis = longest_axis(full, range(ndim))
    if size > 0:
        s.run(max(1, SLICE_ITEMS * full[s.axis] // size), full[s.axis], False)
        report_flags(fn.__name__, s.flags.seen)


# ---- compiled kernels -------------------------------------------------------

cdef object map_kernel(CompiledKernel k, tuple arrays, object out):
    cdef int ndim, i
    cdef cnp.npy_intp shape[64]
    cdef list ops = []
    cdef Map m
    if len(arrays) != k.kernel.inputs:
        raise TypeError(f"fn: the kernel {k.signature!r} takes {k.kernel.inputs} arrays, "
                        f"not {len(arrays)}")
    for i, x in enumerate(arrays):
        a = np.asarray(x, k.dtype) if isinstance(x, (int, float)) else np.asarray(x)
        if a.dtype != k.dtype:
            raise TypeError(f"arrays[{i}]: the kernel {k.signature!r} takes {k.dtype}, "
                            f"not {a.dtype}")
        ops.append(np.require(a, requirements="A"))
    if type(out) is tuple and len(out) == 1:
        out = out[0]
    if out is not None:
        if not isinstance(out, np.ndarray):
            raise TypeError("out: must be an array")
        if out.dtype != k.dtype:
            raise TypeError(f"out: the kernel {k.signature!r} gives {k.dtype}, not {out.dtype}")
        if not cnp.PyArray_ISWRITEABLE(out):
            raise ValueError("out: output array is read-only")
    ops.append(out)
    if not broadcast_shape(ops, len(arrays), &ndim, shape):
        np.broadcast(*ops[:-1])     # raises if it is the inputs
        raise ValueError(f"out: shape {out.shape} does not match that of the inputs")
    if ndim > MAP_DIMS:
        raise ValueError(f"arrays: at most {MAP_DIMS} dimensions, not {ndim}")
    full = tuple([shape[i] for i in range(ndim)])
    result = out
    direct = outputs_are_safe(ops, len(arrays)) and (out is None or cnp.PyArray_ISALIGNED(out))
    if k.block:
        for i in range(len(arrays)):
            ops[i] = np.ascontiguousarray(np.broadcast_to(ops[i], full))
        direct = direct and (out is None or out.flags.c_contiguous)
    if not direct or out is None:
        ops[len(arrays)] = np.empty(full, k.dtype)
        if out is None:
            result = ops[len(arrays)]
    fill_map(&m, ops, ndim, shape, len(arrays))
    map_of_loop(&m, block_loop if k.block else scalar_loop(
        <char>ord(k.dtype.kind), k.kernel.itemsize, k.kernel.inputs), &k.kernel)
    run_map(&m, ops, k.signature)
    if not direct:
        result[...] = ops[len(arrays)]
    return result[()] if out is None and ndim == 0 else result


# ---- map: a Python function on blocks ---------------------------------------

cdef class BlockMap(Slices):
    cdef object fn
    cdef list ins
    cdef object out
    cdef object casting
    cdef object first       # the result of block 0, computed to learn the dtype
    cdef bint fixed         # that dtype is the result's

    cdef object call(self, int64_t lo, int64_t hi):
        result = np.asanyarray(self.fn(*[a[lo:hi] for a in self.ins]))
        expected = (hi - lo,) + self.ins[0].shape[1:]
        if result.shape != expected:
            raise ValueError(
                f"fn returned an array of shape {result.shape} for a block of shape {expected}; "
                "it must be elementwise")
        return result

    cdef object part(self, int64_t lo, int64_t hi):
        if lo == 0 and self.first is not None:
            result, self.first = self.first, None
        else:
            result = self.call(lo, hi)
        if self.out is None:
            self.first = result
        elif self.fixed and not np.can_cast(result.dtype, self.out.dtype, "safe"):
            raise TypeError(
                f"fn returned {result.dtype} for a block, but {self.out.dtype} for the first one; "
                "give dtype= or out=")
        else:
            np.copyto(self.out[lo:hi], result, casting=self.casting)


cdef object map_blocks(object fn, tuple arrays, object out, object dtype, object casting):
    cdef BlockMap s
    cdef int64_t n, grain, row_bytes
    if not arrays:
        raise TypeError("par_map: at least one array is needed")
    ins = list(np.broadcast_arrays(*[np.asarray(a) for a in arrays]))
    if type(out) is tuple and len(out) == 1:
        out = out[0]
    if out is not None:
        if not isinstance(out, np.ndarray):
            raise TypeError("out: must be an array")
        if out.shape != ins[0].shape:
            raise ValueError(f"out: shape {out.shape} does not match {ins[0].shape}")
        if not out.flags.writeable:
            raise ValueError("out: output array is read-only")
    if ins[0].ndim == 0:
        scalar = map_blocks(fn, tuple([a[np.newaxis] for a in ins]),
                            None if out is None else out[np.newaxis], dtype, casting)
        return scalar[0] if out is None else out
    n = ins[0].shape[0]
    row_bytes = max([a[:1].nbytes for a in ins]) if n else 1
    grain = max(<int64_t>1, BLOCK_CALL_BYTES // max(row_bytes, <int64_t>1))
    s = BlockMap("block ", False)
    s.fn = fn
    s.ins = ins
    s.casting = casting
    s.first = None
    if out is not None:
        for a in ins:
            if may_overlap(out, a) and not same_memory(out, a):
                # Blocks would read what other blocks wrote.
                s.ins = [b.copy() for b in ins]
                break
    if out is None:
        try:
            s.run_part(0, min(grain, n))
        except BaseException as error:
            s.tell(error)
            raise
        s.fixed = dtype is None
        out = np.empty(ins[0].shape, s.first.dtype if dtype is None else dtype)
    s.out = out
    if n > 0:
        s.run(grain, n, False)
    return out


def par_map(fn, *arrays, out=None, where=True, dtype=None, casting="same_kind"):
    """Applies a function to every element, on all cores.

    Parameters
    ----------
    fn : ufunc, compiled kernel, or callable
        A ufunc: the call means ``fn(*arrays, ...)`` and gives the same values,
        dtype, shape, warnings and exceptions.

        A compiled kernel over one number type T, ``T f(T)`` or ``T f(T, T)``,
        either with a last ``void *``, or ``void f(const T *, T *, intptr_t,
        void *)`` on blocks with one or two inputs: a ``PyCapsule`` named by its
        signature, a ``scipy.LowLevelCallable``, a ctypes function with
        ``argtypes``, or a Numba ``cfunc``.  It runs without the GIL.

        Any other callable is called on blocks: with slices of the (broadcast)
        arrays along their first axis, some 512 KiB each, in any order and from
        any thread, and must return an array of the block's shape.  It holds the
        GIL, except inside NumPy's own loops.  Without ``dtype`` and ``out``, the
        first block's dtype is the result's, and every other block must fit it.

        Kernels and callables see plain arrays: masks and other subclasses'
        properties are for ufuncs only.
    *arrays : array_like
        The inputs, broadcast against each other.
    out : ndarray or tuple of ndarray, optional
        Where the results go.  When ``fn`` raises, it holds the results of the
        blocks that were done before.
    where : array_like of bool, optional
        Ufuncs only: where to compute.
    dtype : dtype, optional
        The type of the result, and for a ufunc of the calculation.
    casting : str, optional
        What casts to allow: as for ufuncs.

    Returns
    -------
    ndarray or scalar, or a tuple of them
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError
        What NumPy raises for the same mistake; for kernels and blocks: a
        signature that cannot be called or does not fit the dtypes, a result of
        another shape than its block, options that only ufuncs have.

    Notes
    -----
    O(n) work.  The caller starts alone and calls others in when time has shown
    that there is enough to share, so a small call costs what NumPy costs.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_map(np.add, [1, 2, 3], 0.5)
    array([1.5, 2.5, 3.5])
    >>> pb.par_map(lambda x: x * x, np.arange(4))
    array([0, 1, 4, 9])
    """
    cdef CompiledKernel k
    if isinstance(fn, ufunc):
        return map_ufunc(fn, arrays, out, where, dtype, casting)
    if isinstance(getattr(fn, "ufunc", None), ufunc):       # Numba's DUFunc
        # One element of each makes it compile the loop for these types.
        fn(*[np.asarray(a).reshape(-1)[:1] for a in arrays])
        return map_ufunc(fn.ufunc, arrays, out, where, dtype, casting)
    k = as_kernel(fn)
    if k is None and not callable(fn):
        raise TypeError(f"fn: expected a ufunc, a compiled kernel or a callable, not {type(fn).__name__}")
    if where is not True:
        raise TypeError("where: only a ufunc takes it")
    if k is None:
        return map_blocks(fn, arrays, out, dtype, casting)
    if dtype is not None and np.dtype(dtype) != k.dtype:
        raise TypeError(f"dtype: the kernel {k.signature!r} gives {k.dtype}, not {np.dtype(dtype)}")
    return map_kernel(k, arrays, out)
