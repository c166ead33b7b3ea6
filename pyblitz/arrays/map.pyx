# cython: wraparound=True, boundscheck=True
"""``par_map``, ``par_map_inplace``, ``par_fill``, ``par_for``."""
import operator
from functools import partial

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t, uint32_t
from numpy cimport ndarray, ufunc

from pyblitz.host.interpreter cimport check as check_result
from pyblitz.host.pools cimport Entry, enter, leave
from pyblitz.arrays.blocks cimport map_blocks, map_elements
from pyblitz.arrays.common cimport (
    at, broadcast_shape, fill_map, longest_axis, make_outputs, numbas_ufunc, outputs_are_safe,
    report_flags, run, run_fn, slices)
from pyblitz.arrays.compiled cimport CompiledKernel, as_kernel, as_range_kernel, check_dtype
from pyblitz.arrays.elementwise cimport are_small, map_ufunc
from pyblitz.arrays.front cimport (
    GUFUNC_NS, SHARE_NS, alone, as_array, bare, check_out, Left, left, too_small)
from pyblitz.arrays.front import operation
from pyblitz.arrays.gufunc cimport map_gufunc
from pyblitz.kernels.blocks cimport LEAF_BYTES
from pyblitz.kernels.map cimport MAP_DIMS, Map, map_of_loop
from pyblitz.kernels.user cimport (
    MINUS_ONE, Blocks, Ranges, blocks_run, ranges_run, scalar_loop, scalars_run)
from pyblitz.runtime.atomic cimport u32_load_relaxed

cnp.import_array()

cdef enum:
    # A slice of what is filled; of no more than four, one thread's caches take as much as two's.
    FILL_BYTES = 2097152


# ---- compiled kernels -------------------------------------------------------

cdef object map_kernel(CompiledKernel k, tuple arrays, object out):
    cdef int ndim, i, inputs = k.kernel.inputs
    cdef cnp.npy_intp shape[64]
    cdef list ops = []
    if len(arrays) != inputs:
        raise TypeError(f"fn: the kernel {k.signature!r} takes {inputs} "
                        f"{'array' if inputs == 1 else 'arrays'}, not {len(arrays)}")
    for i, x in enumerate(arrays):
        # Python's numbers are as weak as in NumPy.
        if type(x) in (int, float, complex) and np.result_type(k.dtype, x) == k.dtype:
            x = k.dtype.type(x)
        a = np.asarray(x)
        if a.dtype != k.dtype:
            raise TypeError(f"arrays[{i}]: the kernel {k.signature!r} takes {k.dtype}, "
                            f"not {a.dtype}")
        ops.append(np.require(a, requirements="A"))
    if out is not None:
        check_out(out)
        if out.dtype != k.dtype:
            raise TypeError(f"out: the kernel {k.signature!r} gives {k.dtype}, not {out.dtype}")
    ops.append(out)
    if not broadcast_shape(ops, inputs, &ndim, shape):
        np.broadcast(*ops[:-1])     # raises if it is the inputs
        raise ValueError(f"out: shape {out.shape} does not match that of the inputs")
    result = run_kernel(k, ops, ndim, shape)
    return result[()] if out is None and ndim == 0 else result


cdef object run_kernel(CompiledKernel k, list ops, int ndim, cnp.npy_intp* shape):
    """ops: the inputs and the output, which may be None; returns that."""
    cdef int i, inputs = k.kernel.inputs
    cdef object out = ops[inputs]
    cdef tuple full = tuple([shape[i] for i in range(ndim)])
    cdef bint flat = k.block or ndim > MAP_DIMS, columns = flat and ndim > 1, straight
    cdef cnp.npy_intp size
    cdef uint32_t flags
    cdef Blocks blocks
    cdef Map m
    if out is not None:
        # What it would overwrite before it is read, or could not write at all, goes
        # through an array of its own.
        straight = outputs_are_safe(ops, inputs) and cnp.PyArray_ISALIGNED(out)
        if flat and straight:
            straight = out.flags.c_contiguous or out.flags.f_contiguous
        if not straight:
            out[...] = run_kernel(k, ops[:inputs] + [None], ndim, shape)
            return out
    if flat:
        for x in ops:
            columns = columns and (x is None or (x.flags.f_contiguous and x.shape == full))
        if out is not None and not columns and not out.flags.c_contiguous:
            out[...] = run_kernel(k, ops[:inputs] + [None], ndim, shape)
            return out
        # One row, in the order of memory if all agree on one.
        order = "F" if columns else "C"
        if out is None:
            out = np.empty(full, k.dtype, order)
        ops = [np.asarray(np.broadcast_to(x, full), order=order).reshape(-1, order=order)
               for x in ops[:inputs]] + [out.reshape(-1, order=order)]
        size = out.size
        ndim, shape = 1, &size
    elif out is None:
        make_outputs(ops, inputs, (k.dtype,) * (inputs + 1), ndim, shape)
        out = ops[inputs]
    if k.block:
        blocks.kernel = k.kernel
        blocks.n = shape[0]
        for i in range(inputs + 1):
            blocks.base[i] = <char*>cnp.PyArray_DATA(<ndarray>ops[i])
        run(<run_fn>blocks_run, &blocks, "the map")
        flags = u32_load_relaxed(&blocks.flags)
    else:
        fill_map(&m, ops, ndim, shape, inputs)
        map_of_loop(&m, scalar_loop(<char>ord(k.dtype.kind), k.kernel.itemsize), &k.kernel)
        run(<run_fn>scalars_run, &m, "the map")
        flags = u32_load_relaxed(&m.one.flags)
    report_flags(k.signature, flags)
    return out


# ---- par_map ----------------------------------------------------------------

@operation("* out where", own="elementwise check", of_ufunc=True, gives="wrap", masked=False)
def par_map(fn, *arrays, out=None, where=True, dtype=None, casting="same_kind", elementwise=False,
            check=True, **options):
    """Applies a function to every element, on all cores.

    Parameters
    ----------
    fn : ufunc, compiled kernel, or callable
        A ufunc: the call means ``fn(*arrays, ...)`` and gives the same values,
        dtype, shape, warnings and exceptions.  A generalised one, such as
        ``np.matmul``, is shared along its longest loop dimension.

        A compiled kernel over one number type T (a boolean, an integer, a float
        or complex of C's) with one to four inputs: ``T f(T, ...)``, optionally with
        a last ``void *`` for user data, or on blocks ``void f(const T *, ..., T *,
        intptr_t, void *)``.  It may be a ``PyCapsule`` named by its signature (as in
        the ``__pyx_capi__`` of Cython's modules), a ``scipy.LowLevelCallable``, a
        ctypes function with ``argtypes``, a cffi function pointer, or a Numba
        ``cfunc``.  It runs without the GIL.

        Any other callable is called on blocks: with slices of the (broadcast)
        arrays along their first axis, some 512 KiB each, in any order and from
        any thread, and must return an array of the block's shape.  It holds the
        GIL, except inside NumPy's own loops.  Without ``dtype`` and ``out``, the
        first block's dtype is the result's, and every other block must fit it.  It must be
        element by element, or row by row of the first axis: see ``check``.

        Kernels and callables see plain arrays: masks and other subclasses'
        properties are for ufuncs only.
    *arrays : array_like
        The inputs, broadcast against each other. A callable on blocks gets numbers and None
        as they are: Python's take the arrays' dtype, as in NumPy, and some may be options.
    out : ndarray or tuple of ndarray, optional
        Where the results go.  When ``fn`` raises, it holds the results of the
        blocks that were done before.
    where : array_like of bool, optional
        Ufuncs only: where to compute.
    dtype : dtype, optional
        The type of the result, and for a ufunc of the calculation.
    casting : str, optional
        What casts to allow: as for ufuncs.
    elementwise : bool, optional
        Whether a callable takes scalars, as in ``np.vectorize``: it is called once
        for each element, with Python's numbers.  It holds the GIL all the time, so threads
        gain nothing except in a free-threaded Python, where parts are sized by the time
        that they take.  Without ``dtype`` and
        ``out``, the first result's type is that of all, and a later one that does not fit
        it raises TypeError.
    check : bool, optional
        Whether, of a callable that was called with several blocks, some rows are computed
        once more in other company: where they differ beyond rounding, a ValueError says so
        (a running sum, a sort, a softmax over the array, random numbers).  It is one more
        call, of eight rows; arrays of fewer than 1024 rows are not checked.
    **options
        Ufuncs only: what else a ufunc takes, that is ``signature`` (or ``sig``),
        ``order``, ``subok``, and for a generalised one ``axes``, ``axis``,
        ``keepdims``.

    Returns
    -------
    ndarray or scalar, or a tuple of them
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError
        What NumPy raises for the same mistake; a function of NumPy's that is not element by
        element; for kernels and blocks: masked arrays, a function that is not elementwise, a
        signature that cannot be called or does not fit the dtypes, a result of
        another shape than its block, options that only ufuncs have.

    Notes
    -----
    O(n) work.  The caller starts alone and calls others in when time has shown
    that there is enough to share, so a small call costs what NumPy costs.

    A compiled kernel's cost may differ from element to element: it is shared in
    parts of some microseconds.  A kernel on blocks is called with 1024 elements, the
    last time with fewer.

    A BLAS has threads of its own: stacks of matrices of floats of some 64 rows and
    more are left to NumPy.

    Examples
    --------
    >>> pb.par_map(np.add, [1, 2, 3], 0.5)
    array([1.5, 2.5, 3.5])
    >>> pb.par_map(lambda x: x * x, np.arange(4))
    array([0, 1, 4, 9])
    >>> pb.par_map(lambda x: "odd" if x % 2 else "even", np.arange(3), elementwise=True)
    array(['even', 'odd', 'even'], dtype='<U4')
    """
    cdef CompiledKernel k
    if isinstance(fn, ufunc):
        if (<ufunc>fn).signature is None:
            return map_ufunc(fn, arrays, out, where, dtype, casting, options)
        if are_small(arrays, <int64_t>(SHARE_NS / GUFUNC_NS)):
            return too_small
        return map_gufunc(fn, arrays, out, where, dtype, casting, options)
    if numbas_ufunc(fn) is not None:
        if (<ufunc>fn.ufunc).signature is not None:
            return left("a generalised ufunc of Numba's")
        if are_small(arrays, LEAF_BYTES):
            return too_small
        # A call on nothing makes it compile the loop for these types.
        fn(*[as_array(a).reshape(-1)[:0] for a in arrays[:(<ufunc>fn.ufunc).nin]])
        return map_ufunc(fn.ufunc, arrays, out, where, dtype, casting, options)
    k = as_kernel(fn)
    if k is None and not callable(fn):
        raise TypeError(f"fn: expected a ufunc, a compiled kernel or a callable, not {type(fn).__name__}")
    if where is not True:
        raise TypeError("where: only a ufunc takes it")
    for name in options:
        raise TypeError(f"{name}: only a ufunc takes it"
                        + ("" if k is not None else f"; give functools.partial(fn, {name}=...)"))
    if k is None:
        if elementwise:
            return map_elements(fn, arrays, out, dtype, casting)
        return map_blocks(fn, arrays, out, dtype, casting, check)
    check_dtype(k, dtype)
    return map_kernel(k, arrays, out)


def mapped_inplace(fn, a, *, where=True, casting="same_kind", elementwise=False, check=True):
    if not isinstance(a, np.ndarray):
        raise TypeError(f"a: expected an array, not {type(a).__name__}")
    return par_map(fn, a, out=a, where=where, casting=casting, elementwise=elementwise, check=check)


@operation("a! where", mapped_inplace, masked=False)
def par_map_inplace(fn, a, *, where=True, casting="same_kind", elementwise=False, check=True):
    """Replaces every element of an array by what a function gives for it, on all
    cores: ``par_map(fn, a, out=a)``.

    Parameters
    ----------
    fn : ufunc, compiled kernel, or callable
        Of one input and one output; see ``par_map``.
    a : ndarray
        Is changed.
    where : array_like of bool, optional
        Ufuncs only: what to replace.
    casting : str, optional
        What casts of the results to the type of ``a`` to allow.
    elementwise : bool, optional
        Whether a callable takes scalars instead of blocks.
    check : bool, optional
        Whether some rows of a callable's are computed twice: see ``par_map``.

    Returns
    -------
    ndarray
        ``a`` itself.

    Raises
    ------
    TypeError
        ``a`` is not an array, or is read-only.
    TypeError, ValueError
        What ``par_map`` raises.

    Notes
    -----
    O(n) work, no memory of the size of the array.

    Examples
    --------
    >>> a = np.array([1.0, 4.0, 9.0])
    >>> pb.par_map_inplace(np.sqrt, a)
    array([1., 2., 3.])
    """
    if not isinstance(a, np.ndarray):
        raise TypeError(f"a: expected an array, not {type(a).__name__}")
    if not cnp.PyArray_ISWRITEABLE(a):
        raise TypeError("a: the array is read-only")
    fn = bare(fn)
    if isinstance(fn, ufunc) and (<ufunc>fn).signature is None:
        result = map_ufunc(fn, (a,), a, where, None, casting, {})
        if type(result) is Left and (<Left>result).why is None:
            # NumPy looks at each argument that it is told.
            return (fn(a, out=a) if where is True and casting == "same_kind"
                    else fn(a, out=a, where=where, casting=casting))
        return result
    return par_map(fn, a, out=a, where=where, casting=casting, elementwise=elementwise, check=check)


# ---- par_fill ---------------------------------------------------------------

def fill_part(a, value, axis, lo, hi):
    a[at(axis, lo, hi)] = value


def filled(a, value):
    if not isinstance(a, np.ndarray):
        raise TypeError(f"a: expected an array, not {type(a).__name__}")
    a.fill(value)


@operation("a!", filled)
def par_fill(a, value):
    """Sets every element of an array to one value, on all cores: ``a.fill(value)``.

    Parameters
    ----------
    a : ndarray
        Is changed.
    value : scalar
        Cast to the type of ``a`` as ``ndarray.fill`` does.

    Raises
    ------
    TypeError
        ``a`` is not an array.
    TypeError, ValueError, OverflowError
        What ``a.fill`` raises for the same mistake.

    Notes
    -----
    O(n) work, bound by the speed of memory.

    Examples
    --------
    >>> a = np.empty(3)
    >>> pb.par_fill(a, 7)
    >>> a
    array([7., 7., 7.])
    """
    cdef int axis
    if not isinstance(a, np.ndarray):
        raise TypeError(f"a: expected an array, not {type(a).__name__}")
    if (cnp.PyArray_NBYTES(a) <= 4 * FILL_BYTES or alone(cnp.PyArray_NBYTES(a))
            or not cnp.PyArray_ISWRITEABLE(a)):
        return too_small
    if (<ndarray>a).dtype.hasobject:
        return left("dtype object")
    # One element, as NumPy casts it; it warns and raises here.
    one = np.empty((), a.dtype)
    one.fill(value)
    axis = longest_axis(a.shape, range(a.ndim))
    n = a.shape[axis]
    slices("fill", partial(fill_part, a, one, axis), max(1, FILL_BYTES * n // cnp.PyArray_NBYTES(a)), n, None)


# ---- par_for ----------------------------------------------------------------

@operation("")
def par_for(n, kernel, *, grain=None):
    """Calls a function on ranges that together are 0, 1, ..., n - 1, on all cores.

    Parameters
    ----------
    n : int
        The number of items.
    kernel : callable or compiled kernel
        A Python callable, ``kernel(lo, hi)``, which does the items from ``lo`` up to
        ``hi``, that one excluded.  It is called in any order, from any thread, in the
        caller's context, and holds the GIL except where NumPy or others let go of it.

        Or a compiled function, ``void`` or ``int (intptr_t lo, intptr_t hi)``,
        optionally with a last ``void *`` for user data, of any kind that ``par_map``
        knows.  It runs without the GIL; a result other than 0 is a failure.
    grain : int, optional
        How many items to a range; the last one may have fewer.  By default as many
        as make a call worth its cost, found while running, so that the ranges differ
        from run to run.

    Raises
    ------
    RuntimeError
        A compiled kernel failed; it names the code.
    TypeError, ValueError
        Another signature; a negative ``n``; a ``grain`` below one.
    BaseException
        What the callable raised.  Of several failures, that of the lowest range
        is told; ranges that have not begun are not called any more.

    Notes
    -----
    One call in the worst case for each item, of which none is done twice.  No memory
    but the stack's.

    Examples
    --------
    >>> squares = np.empty(5, int)
    >>> def fill(lo, hi):
    ...     squares[lo:hi] = np.arange(lo, hi) ** 2
    >>> pb.par_for(5, fill)
    >>> squares
    array([ 0,  1,  4,  9, 16])
    """
    cdef CompiledKernel k
    cdef Ranges r
    cdef Entry e
    cdef int64_t items = operator.index(n), step = 0
    cdef int rc
    if items < 0:
        raise ValueError(f"n: must not be negative, not {items}")
    if grain is not None:
        step = operator.index(grain)
        if step < 1:
            raise ValueError(f"grain: must be at least 1, not {step}")
    k = as_range_kernel(kernel)
    if k is None:
        if not callable(kernel):
            raise TypeError("kernel: expected a callable or a compiled kernel, "
                            f"not {type(kernel).__name__}")
        slices("range ", kernel, -1 if step == 0 else step, items, None)
        return
    r.kernel = k.kernel
    r.gives_int = k.gives_int
    with nogil:
        enter(&e)
        rc = leave(&e, ranges_run(e.worker, &r, items, step))
    if rc != 0 and rc != -1:
        code = -1 if rc == MINUS_ONE else rc
        raise RuntimeError(f"kernel: {k.signature!r} failed with code {code}")
    check_result(rc, "the ranges")
