# cython: wraparound=True, boundscheck=True
"""``par_map``, ``par_map_inplace``, ``par_fill``, ``par_for``."""
import contextvars
import operator
import re

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t, uint32_t
from numpy cimport ndarray, ufunc

from pyblitz._progress import with_progress
from pyblitz._python cimport Entry, enter, leave
from pyblitz.arrays.common cimport (
    SLICE_ITEMS, Resolved, Slices, at, broadcast_shape, check, fill_map, is_numpys, is_plain,
    longest_axis, make_outputs, may_overlap, outputs_are_safe, report_flags, resolve, run_map,
    same_memory)
from pyblitz.arrays.compiled cimport CompiledKernel, as_kernel, as_range_kernel
from pyblitz.kernels.map cimport LEAF_BYTES, MAP_DIMS, Map, map_of_loop
from pyblitz.kernels.user cimport (
    MINUS_ONE, Blocks, Ranges, blocks_run, ranges_run, scalar_loop, scalars_run)
from pyblitz.runtime.atomic cimport u32_load_relaxed
from pyblitz.runtime.os cimport now_ns

cnp.import_array()

cdef enum:
    # Bytes of one block that a Python function is called with.
    BLOCK_CALL_BYTES = 524288
    # A map that takes less is done before another thread could help.
    DIRECT_NS = 45000
    # A gufunc on less is done before it is known how to share it.
    SMALL_GUFUNC_BYTES = 32768
    # Elements of a first slice whose cost is unknown.
    FIRST_ITEMS = 4096
    # A slice of what is filled.
    FILL_BYTES = 2097152
    # Operations on one matrix from which a BLAS shares them among threads of its own.
    BLAS_SHARES = 262144


# ---- ufuncs -----------------------------------------------------------------

cdef class SlicedMap(Slices):
    cdef object fn
    cdef list ins           # broadcast to the full shape
    cdef tuple outs
    cdef dict options
    cdef object where
    cdef int axis
    cdef int64_t unit       # elements of an item along the axis
    cdef int64_t n          # unit > 1: the length of the axis

    cdef object tell(self, object error):
        if self.unit > 1:
            self.failed_lo, self.failed_hi = self.failed_lo * self.unit, min(self.failed_hi * self.unit, self.n)
        Slices.tell(self, error)

    cdef object part(self, int64_t lo, int64_t hi):
        if self.unit > 1:
            lo, hi = lo * self.unit, min(hi * self.unit, self.n)
        index = at(self.axis, lo, hi)
        options = self.options
        if self.where is not None:
            options = {**options, "where": self.where[index]}
        self.fn(*[a[index] for a in self.ins], out=tuple([o[index] for o in self.outs]), **options)


cdef object direct_map(object fn, tuple arrays, object out, object where, object dtype,
                       object casting, dict extra):
    options = dict(extra)
    if out is not None:
        options["out"] = out
    if where is not True:
        options["where"] = where
    if dtype is not None:
        options["dtype"] = dtype
    if casting != "same_kind":
        options["casting"] = casting
    return fn(*arrays, **options)


cdef bint are_small(tuple arrays, int64_t limit):
    """Whether they are NumPy's own arrays and numbers, and all of no more bytes."""
    cdef int64_t bytes = 0
    for x in arrays:
        if cnp.PyArray_CheckExact(x):
            bytes += cnp.PyArray_NBYTES(<ndarray>x)
        elif not isinstance(x, (int, float, complex, np.generic)):
            return False
    return bytes <= limit


cdef tuple plain_signature(ufunc fn, object given):
    """A ufunc's ``signature`` as one dtype or None for each operand; None if it is
    of another form."""
    if type(given) is str:
        given = tuple(given.replace("->", ""))
    if type(given) is not tuple or len(given) != fn.nargs:
        return None
    try:
        return tuple([None if t is None else np.dtype(t) for t in given])
    except TypeError:
        return None


cdef object map_ufunc(ufunc fn, tuple arrays, object out, object where, object dtype,
                      object casting, dict extra):
    cdef int inputs = fn.nin, outputs = fn.nout, i, ndim
    cdef cnp.npy_intp shape[64]
    cdef int64_t size = 1, bytes = 0, begun
    cdef list ops = [], given = []
    cdef tuple outs, signature = None
    cdef str order = "K"
    cdef Resolved r
    cdef Map m
    cdef ndarray a
    cdef bint fast = where is True
    if type(casting) is not str:
        return direct_map(fn, arrays, out, where, dtype, casting, extra)
    if len(arrays) != inputs:
        if not inputs < len(arrays) <= inputs + outputs or out is not None:
            return direct_map(fn, arrays, out, where, dtype, casting, extra)
        # Outputs by position.
        out = arrays[inputs:] + (None,) * (inputs + outputs - len(arrays))
        arrays = arrays[:inputs]
    if fn.signature is not None:
        if are_small(arrays, SMALL_GUFUNC_BYTES):
            return direct_map(fn, arrays, out, where, dtype, casting, extra)
        return map_gufunc(fn, arrays, out, where, dtype, casting, extra)
    if out is None:
        outs = (None,) * outputs
    else:
        outs = out if type(out) is tuple else (out,)
        if len(outs) != outputs:
            return direct_map(fn, arrays, out, where, dtype, casting, extra)
    for x in arrays:
        if not is_plain(x):
            return direct_map(fn, arrays, out, where, dtype, casting, extra)
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
            return direct_map(fn, arrays, out, where, dtype, casting, extra)
        given.append(None if x is None else (<ndarray>x).dtype)
        ops.append(x)
    if where is not True:
        if not is_plain(where):
            return direct_map(fn, arrays, out, where, dtype, casting, extra)
        ops.append(np.asarray(where))
        if (<ndarray>ops[inputs + outputs]).dtype != np.bool_:
            return direct_map(fn, arrays, out, where, dtype, casting, extra)
        # The mask takes part in broadcasting as one more input.
        ops.insert(0, ops.pop())
    if not broadcast_shape(ops, inputs + (where is not True), &ndim, shape):
        return direct_map(fn, arrays, out, where, dtype, casting, extra)
    mask = ops.pop(0) if where is not True else None
    for i in range(ndim):
        size *= shape[i]
    for x in ops:
        bytes += 8 if x is None else cnp.PyArray_ITEMSIZE(<ndarray>x)
    if size * bytes <= LEAF_BYTES:
        return direct_map(fn, arrays, out, where, dtype, casting, extra)

    if dtype is not None:
        signature = signature_of(fn, dtype)
    for key, value in extra.items():
        if key in ("signature", "sig") and signature is None:
            signature = plain_signature(fn, value)
            if signature is None:
                return direct_map(fn, arrays, out, where, dtype, casting, extra)
        elif key == "order" and type(value) is str and value in ("C", "F", "A", "K"):
            order = value
        elif key != "subok" or type(value) is not bool:     # arrays here have no subclass
            return direct_map(fn, arrays, out, where, dtype, casting, extra)
    r = resolve(fn, tuple(given), signature, casting, False)
    if r.pace * size < DIRECT_NS and r.pace > 0:
        begun = now_ns()
        result = direct_map(fn, arrays, out, where, dtype, casting, extra)
        # A first call is slowed by page faults: believe what is faster.
        r.pace = min(2 * r.pace, <double>(now_ns() - begun) / size)
        return result
    if r.dtypes is None or not outputs_are_safe(ops, inputs):
        return direct_map(fn, arrays, out, where, dtype, casting, extra)
    if mask is not None and not outputs_are_safe([mask] + ops[inputs:], 1):
        return direct_map(fn, arrays, out, where, dtype, casting, extra)
    for i in range(inputs):
        if type(given[i]) is type:
            try:
                ops[i] = np.asarray(arrays[i], r.dtypes[i])
            except OverflowError:
                # An error for most ufuncs, but a comparison has an answer.
                return direct_map(fn, arrays, out, where, dtype, casting, extra)
    if r.loop != NULL and fast and ndim <= MAP_DIMS:
        for i in range(len(ops)):
            a = ops[i]
            if a is not None and (a.dtype != r.dtypes[i] or not cnp.PyArray_ISALIGNED(a)):
                fast = False
                break
    else:
        fast = False
    if mask is not None:
        # Its memory order counts too.
        ops = ordered_outputs([mask] + ops, inputs + 1, (None,) + r.dtypes, order)[1:]
    elif order != "K":
        ops = ordered_outputs(ops, inputs, r.dtypes, order)
    make_outputs(ops, inputs, r.dtypes, ndim, shape)
    if fast:
        fill_map(&m, ops, ndim, shape, inputs)
        map_of_loop(&m, r.loop, r.data)
        begun = now_ns()
        run_map(&m, ops, fn.__name__)
        # As if it had run alone: an estimate from below.
        r.pace = <double>(now_ns() - begun) / size
    else:
        slice_map(fn, ops, inputs, mask, signature, casting, ndim, shape, size)
    return ops[inputs] if outputs == 1 else tuple(ops[inputs:])


cdef tuple signature_of(ufunc fn, object dtype):
    return (None,) * fn.nin + (np.dtype(dtype),) * fn.nout


cdef list ordered_outputs(list ops, int inputs, tuple dtypes, str order):
    """The operands, with outputs in that memory order where none were given."""
    made = np.nditer(
        ops, ["refs_ok", "zerosize_ok"],
        [["readonly"]] * inputs
        + [["writeonly", "allocate", "no_broadcast"] for _ in ops[inputs:]],
        op_dtypes=[None if op is not None else d for op, d in zip(ops, dtypes)], order=order,
        casting="unsafe").operands
    return [made[i] if op is None else op for i, op in enumerate(ops)]


cdef object slice_map(ufunc fn, list ops, int inputs, object mask, tuple signature, object casting,
                      int ndim, cnp.npy_intp* shape, int64_t size):
    cdef SlicedMap s
    cdef int64_t n
    cdef tuple full = tuple([shape[i] for i in range(ndim)])
    s = SlicedMap(fn.__name__, True)
    s.fn = fn
    s.ins = [np.broadcast_to(a, full) for a in ops[:inputs]]
    s.outs = tuple(ops[inputs:])
    s.options = {"casting": casting}
    if signature is not None:
        s.options["signature"] = signature
    s.where = None if mask is None else np.broadcast_to(mask, full)
    s.axis = longest_axis(full, range(ndim))
    s.unit = 1
    if size > 0:
        n = full[s.axis]
        if is_numpys(fn):
            s.run(max(1, SLICE_ITEMS * n // size), n, False)
        else:
            # Nobody knows what a user's ufunc takes: slices are sized by time, in
            # steps that leave each element where it was in a SIMD loop.
            s.unit = 64 if ndim == 1 else 1
            s.n = n
            s.run(-max(1, FIRST_ITEMS * n // size // s.unit), (n + s.unit - 1) // s.unit, False)
        report_flags(fn.__name__, s.flags.seen)


# ---- gufuncs ----------------------------------------------------------------

cdef class SlicedGufunc(Slices):
    cdef object fn
    cdef list ins
    cdef list axes          # of each operand: which is the shared loop dimension; -1: none
    cdef tuple outs
    cdef dict options

    cdef list cut(self, object arrays, int first, int64_t lo, int64_t hi):
        return [a if self.axes[first + i] < 0 else a[at(self.axes[first + i], lo, hi)]
                for i, a in enumerate(arrays)]

    cdef object part(self, int64_t lo, int64_t hi):
        self.fn(*self.cut(self.ins, 0, lo, hi),
                out=tuple(self.cut(self.outs, len(self.ins), lo, hi)), **self.options)


cdef dict core_dimensions = {}


cdef list core_dims(object fn):
    """The names of each operand's core dimensions; of optional ones with their "?"."""
    cdef str text = fn.signature
    if text not in core_dimensions:
        core_dimensions[text] = [
            [name.strip().replace("|1", "") for name in group.split(",") if name.strip()]
            for group in re.findall(r"\(([^()]*)\)", text)]
    return core_dimensions[text]


cdef list core_axes(ufunc fn, list ndims, list cores, dict extra):
    """The axes of each operand's core dimensions, in their order, counted from the
    first; ValueError if that cannot be known.  ndims: of outputs too."""
    cdef int i
    axes = extra.get("axes")
    if "axis" in extra:
        axes = [(extra["axis"],) if core else () for core in cores]
    elif axes is None:
        axes = [tuple(range(-len(core), 0)) for core in cores]
    if type(axes) is not list:
        raise ValueError
    axes = [a if type(a) is tuple else (a,) for a in axes]
    if len(axes) == fn.nin:
        # Outputs have kept dimensions where the inputs have them, or none.
        axes = axes + [axes[0] if core else () for core in cores[fn.nin:]]
    if len(axes) != fn.nargs:
        raise ValueError
    for a, core in zip(axes, cores):
        if len(a) != len(core):
            raise ValueError
    return [np.lib.array_utils.normalize_axis_tuple(a, n) for a, n in zip(axes, ndims)]


# What np.linalg calls, of LAPACK: of matrices, in cubic time.
cdef set lapack_ufuncs = {u for u in vars(getattr(np.linalg, "_umath_linalg", np.linalg)).values()
                          if isinstance(u, ufunc) and u.signature is not None}


cdef int64_t work_of_item(object fn, dict sizes):
    """A guess at the operations that one item of a gufunc takes."""
    cdef int64_t work = 1, longest = 1
    for n in sizes.values():
        work *= n
        longest = max(longest, <int64_t>n)
    return work * longest * (longest if len(sizes) == 1 else 1) if fn in lapack_ufuncs else work


cdef object loop_order(list loop_views, int loops):
    """The loop dimensions from outermost to innermost, as NumPy would walk them."""
    if loops < 2:
        return range(loops)
    made = np.nditer(
        loop_views + [None], ["refs_ok", "zerosize_ok"],
        [["readonly"]] * len(loop_views) + [["writeonly", "allocate"]],
        op_dtypes=[None] * len(loop_views) + [np.int8]).operands[-1]
    return sorted(range(loops), key=lambda d: -made.strides[d])


cdef object empty_in_order(list shape, object dtype, list axes):
    """An array of that shape whose axes are so in memory, outermost first."""
    return np.empty([shape[d] for d in axes], dtype).transpose(np.argsort(axes))


cdef object map_gufunc(ufunc fn, tuple arrays, object out, object where, object dtype,
                       object casting, dict extra):
    cdef SlicedGufunc s
    cdef int i, k, shared, loops
    cdef int64_t n, each, work
    cdef tuple outs
    cdef list ops = [], cores, axes, loop_axes
    if out is None:
        outs = (None,) * fn.nout
    else:
        outs = out if type(out) is tuple else (out,)
    try:
        if where is not True or len(outs) != fn.nout or extra.get("order", "K") != "K":
            raise ValueError
        for x in arrays:
            if not is_plain(x) or isinstance(x, (int, float, complex)):
                raise ValueError
            ops.append(np.asarray(x))
        for x in ops:
            if (<ndarray>x).dtype.hasobject:
                raise ValueError
        # Core dimensions that an operand lacks are lacking in all.
        cores = core_dims(fn)
        missing = set()
        for x, core in zip(ops, cores):
            if x.ndim < len(core):
                missing.update([name for name in core if name.endswith("?")])
        cores = [[name for name in core if name not in missing] for core in cores]
        keepdims = extra.get("keepdims", False)
        if type(keepdims) is not bool:
            raise ValueError
        if keepdims:
            cores = cores[:fn.nin] + [cores[0]] * fn.nout
        loops = max([x.ndim - len(core) for x, core in zip(ops, cores)])
        ndims = [x.ndim for x in ops] + [loops + len(core) for core in cores[fn.nin:]]
        axes = core_axes(fn, ndims, cores, extra)
        loop_axes = [[d for d in range(n) if d not in core] for n, core in zip(ndims, axes)]
        full = np.broadcast_shapes(
            *[tuple([x.shape[d] for d in own]) for x, own in zip(ops, loop_axes)])
        sizes = {name: x.shape[d] for x, core, own in zip(ops, cores, axes)
                 for name, d in zip(core, own)}
        each = work_of_item(fn, sizes)
        work = each
        for n in full:
            work *= n
        shared = longest_axis(full, range(loops))
        if shared < 0 or full[shared] < 2 or work < 2 * SLICE_ITEMS:
            raise ValueError
        if each >= BLAS_SHARES and (fn in lapack_ufuncs or (
                fn is np.matmul and np.result_type(*[a.dtype for a in ops]).char in "fdFD")):
            raise ValueError
        s = SlicedGufunc(fn.__name__, True)
        s.fn = fn
        s.ins = ops
        s.axes = []
        for i in range(fn.nargs):
            k = shared - (loops - len(loop_axes[i]))
            k = loop_axes[i][k] if k >= 0 else -1
            s.axes.append(-1 if i < fn.nin and k >= 0 and ops[i].shape[k] == 1 else k)
        s.options = {k: v for k, v in extra.items() if k != "order"}
        if dtype is not None:
            s.options["dtype"] = dtype
        if casting != "same_kind":
            s.options["casting"] = casting
        # A call on nothing tells the results' types and core dimensions.
        none = fn(*s.cut(ops, 0, 0, 0), **s.options)
        made = []
        walk = loop_order([x[tuple([0 if d in core else slice(None) for d in range(x.ndim)])]
                           for x, core in zip(ops, axes)], loops)
        for i, (given, empty) in enumerate(
                zip(outs, none if type(none) is tuple else (none,)), fn.nin):
            if type(empty) is not np.ndarray or empty.dtype.hasobject:
                raise ValueError
            whole = list(empty.shape)
            whole[s.axes[i]] = full[shared]
            if given is None:
                given = empty_in_order(
                    whole, empty.dtype, [loop_axes[i][d] for d in walk] + list(axes[i]))
            elif (not cnp.PyArray_CheckExact(given) or given.shape != tuple(whole)
                    or not np.can_cast(empty.dtype, given.dtype, casting)):
                raise ValueError
            made.append(given)
        for x in ops:
            for given in made:
                if may_overlap(x, given):
                    raise ValueError
        if not outputs_are_safe(ops + made, fn.nin):
            raise ValueError
    except Exception:
        # Not to be shared, or wrong: NumPy says why.
        return direct_map(fn, arrays, out, where, dtype, casting, extra)
    s.outs = tuple(made)
    # What an item takes is only guessed (it may be a matrix to invert).
    s.run(-max(1, FIRST_ITEMS * full[shared] // work), full[shared], False)
    report_flags(fn.__name__, s.flags.seen)
    return made[0] if fn.nout == 1 else tuple(made)


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
    if not broadcast_shape(ops, inputs, &ndim, shape):
        np.broadcast(*ops[:-1])     # raises if it is the inputs
        raise ValueError(f"out: shape {out.shape} does not match that of the inputs")
    result = run_kernel(k, ops, ndim, shape)
    return result[()] if out is None and ndim == 0 else result


cdef object run_kernel(CompiledKernel k, list ops, int ndim, cnp.npy_intp* shape):
    """ops: the inputs and the output, which may be None; returns that."""
    cdef int i, inputs = k.kernel.inputs, rc = 0
    cdef object out = ops[inputs]
    cdef tuple full = tuple([shape[i] for i in range(ndim)])
    cdef bint flat = k.block or ndim > MAP_DIMS, columns = flat and ndim > 1, straight
    cdef cnp.npy_intp size
    cdef uint32_t flags
    cdef Blocks blocks
    cdef Entry e
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
        with nogil:
            enter(&e)
            rc = leave(&e, blocks_run(e.worker, &blocks))
        flags = u32_load_relaxed(&blocks.flags)
    else:
        fill_map(&m, ops, ndim, shape, inputs)
        map_of_loop(&m, scalar_loop(<char>ord(k.dtype.kind), k.kernel.itemsize), &k.kernel)
        with nogil:
            enter(&e)
            rc = leave(&e, scalars_run(e.worker, &m))
        flags = u32_load_relaxed(&m.one.flags)
    check(rc, "the map")
    report_flags(k.signature, flags)
    return out


# ---- Python functions on blocks and elements --------------------------------

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
            raise not_elementwise(result.shape, expected)
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


cdef class Elementwise:
    """A function of scalars, as one on blocks."""
    cdef object each        # on arrays of objects
    cdef object dtype       # of the results; None: as the first one's

    def __call__(self, *blocks):
        results = self.each(*[b.astype(object) for b in blocks])
        if self.dtype is None and results.size:
            self.dtype = np.asarray(results.flat[0]).dtype
            if self.dtype.kind in "SU":
                # As long as the longest, which the block decides.
                self.dtype = np.dtype(self.dtype.char)
        return results if self.dtype is None else results.astype(self.dtype)


cdef object map_elements(object fn, tuple arrays, object out, object dtype, object casting):
    cdef Elementwise each = Elementwise()
    each.each = np.frompyfunc(fn, len(arrays), 1) if arrays else None
    if dtype is not None and out is None:
        each.dtype = np.dtype(dtype)
    elif dtype is None and out is None and np.broadcast(*arrays).size == 0:
        raise ValueError("dtype: without an element to call fn with, it must be given")
    return map_blocks(each, arrays, out, dtype, casting)


cdef object map_one_block(object fn, tuple arrays):
    """The result, where there is one block only and nothing to convert; else None."""
    for a in arrays:
        if not cnp.PyArray_CheckExact(a) or a.ndim == 0 or a.shape != arrays[0].shape:
            return None
        if cnp.PyArray_NBYTES(<ndarray>a) > BLOCK_CALL_BYTES or not len(a):
            return None
    result = np.asarray(contextvars.copy_context().run(fn, *[a[:] for a in arrays]))
    expected = arrays[0].shape
    if result.shape != expected:
        raise not_elementwise(result.shape, expected)
    # Never one of the inputs.
    return result.copy()


cdef object not_elementwise(tuple shape, tuple expected):
    return ValueError(
        f"fn returned an array of shape {shape} for a block of shape {expected}; "
        "it must be elementwise")


cdef object map_blocks(object fn, tuple arrays, object out, object dtype, object casting):
    cdef BlockMap s
    cdef int64_t n, grain, row_bytes
    if not arrays:
        raise TypeError("par_map: at least one array is needed")
    if out is None and dtype is None:
        result = map_one_block(fn, arrays)
        if result is not None:
            return result
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


def par_map(fn, *arrays, out=None, where=True, dtype=None, casting="same_kind", elementwise=False,
            progress=None, **options):
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
    elementwise : bool, optional
        Whether a callable takes scalars, as in ``np.vectorize``: it is called once
        for each element, with Python's numbers, and holds the GIL all the time, so
        threads gain nothing except on a free-threaded Python.  Without ``dtype`` and
        ``out``, the first result's type is that of all.
    **options
        Ufuncs only: what else a ufunc takes, that is ``signature`` (or ``sig``),
        ``order``, ``subok``, and for a generalised one ``axes``, ``axis``,
        ``keepdims``.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

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

    A compiled kernel's cost may differ from element to element: it is shared in
    parts of some microseconds.  A kernel on blocks is called with 1024 elements, the
    last time with fewer.

    A BLAS has threads of its own: stacks of matrices of floats of some 64 rows and
    more are left to NumPy.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_map(np.add, [1, 2, 3], 0.5)
    array([1.5, 2.5, 3.5])
    >>> pb.par_map(lambda x: x * x, np.arange(4))
    array([0, 1, 4, 9])
    >>> pb.par_map(lambda x: "odd" if x % 2 else "even", np.arange(3), elementwise=True)
    array(['even', 'odd', 'even'], dtype='<U4')
    """
    cdef CompiledKernel k
    if progress is not None:
        return with_progress(
            progress, par_map, (fn, *arrays),
            {"out": out, "where": where, "dtype": dtype, "casting": casting, "elementwise": elementwise, **options})
    if isinstance(fn, ufunc):
        return map_ufunc(fn, arrays, out, where, dtype, casting, options)
    if isinstance(getattr(fn, "ufunc", None), ufunc):       # Numba's DUFunc and GUFunc
        if (<ufunc>fn.ufunc).signature is not None or are_small(arrays, LEAF_BYTES):
            return direct_map(fn, arrays, out, where, dtype, casting, options)
        # A call on nothing makes it compile the loop for these types.
        fn(*[np.asarray(a).reshape(-1)[:0] for a in arrays[:(<ufunc>fn.ufunc).nin]])
        return map_ufunc(fn.ufunc, arrays, out, where, dtype, casting, options)
    k = as_kernel(fn)
    if k is None and not callable(fn):
        raise TypeError(f"fn: expected a ufunc, a compiled kernel or a callable, not {type(fn).__name__}")
    if where is not True:
        raise TypeError("where: only a ufunc takes it")
    for name in options:
        raise TypeError(f"{name}: only a ufunc takes it")
    if k is None:
        if elementwise:
            return map_elements(fn, arrays, out, dtype, casting)
        return map_blocks(fn, arrays, out, dtype, casting)
    if dtype is not None and np.dtype(dtype) != k.dtype:
        raise TypeError(f"dtype: the kernel {k.signature!r} gives {k.dtype}, not {np.dtype(dtype)}")
    return map_kernel(k, arrays, out)


def par_map_inplace(fn, a, *, where=True, casting="same_kind", elementwise=False, progress=None):
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
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

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
    >>> import numpy as np, pyblitz as pb
    >>> a = np.array([1.0, 4.0, 9.0])
    >>> pb.par_map_inplace(np.sqrt, a)
    array([1., 2., 3.])
    """
    if progress is not None:
        return with_progress(
            progress, par_map_inplace, (fn, a),
            {"where": where, "casting": casting, "elementwise": elementwise})
    if not isinstance(a, np.ndarray):
        raise TypeError(f"a: expected an array, not {type(a).__name__}")
    if not cnp.PyArray_ISWRITEABLE(a):
        raise TypeError("a: the array is read-only")
    return par_map(fn, a, out=a, where=where, casting=casting, elementwise=elementwise)


# ---- par_fill ---------------------------------------------------------------

cdef class Filling(Slices):
    cdef object a
    cdef object value       # of a's dtype
    cdef int axis

    cdef object part(self, int64_t lo, int64_t hi):
        self.a[at(self.axis, lo, hi)] = self.value


def par_fill(a, value, *, progress=None):
    """Sets every element of an array to one value, on all cores: ``a.fill(value)``.

    Parameters
    ----------
    a : ndarray
        Is changed.
    value : scalar
        Cast to the type of ``a`` as ``ndarray.fill`` does.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

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
    >>> import numpy as np, pyblitz as pb
    >>> a = np.empty(3)
    >>> pb.par_fill(a, 7)
    >>> a
    array([7., 7., 7.])
    """
    cdef Filling s
    cdef int64_t n
    if progress is not None:
        return with_progress(progress, par_fill, (a, value), {})
    if not isinstance(a, np.ndarray):
        raise TypeError(f"a: expected an array, not {type(a).__name__}")
    if (not cnp.PyArray_CheckExact(a) or cnp.PyArray_NBYTES(a) <= FILL_BYTES
            or not cnp.PyArray_ISWRITEABLE(a) or (<ndarray>a).dtype.hasobject):
        return a.fill(value)
    s = Filling("fill", False)
    s.a = a
    # One element, as NumPy casts it; it warns and raises here.
    s.value = np.empty((), a.dtype)
    s.value.fill(value)
    s.axis = longest_axis(a.shape, range(a.ndim))
    n = a.shape[s.axis]
    s.run(max(1, FILL_BYTES * n // cnp.PyArray_NBYTES(a)), n, False)


# ---- par_for ----------------------------------------------------------------

cdef class RangeCalls(Slices):
    cdef object fn

    cdef object part(self, int64_t lo, int64_t hi):
        self.fn(lo, hi)


def par_for(n, kernel, *, grain=None, progress=None):
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
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

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
    >>> import numpy as np, pyblitz as pb
    >>> squares = np.empty(5, int)
    >>> def fill(lo, hi):
    ...     squares[lo:hi] = np.arange(lo, hi) ** 2
    >>> pb.par_for(5, fill)
    >>> squares
    array([ 0,  1,  4,  9, 16])
    """
    cdef CompiledKernel k
    cdef RangeCalls s
    cdef Ranges r
    cdef Entry e
    cdef int64_t items = operator.index(n), step = 0
    cdef int rc
    if progress is not None:
        return with_progress(progress, par_for, (n, kernel), {"grain": grain})
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
        s = RangeCalls("range ", False)
        s.fn = kernel
        s.run(-1 if step == 0 else step, items, False)
        return
    r.kernel = k.kernel
    r.gives_int = k.gives_int
    with nogil:
        enter(&e)
        rc = leave(&e, ranges_run(e.worker, &r, items, step))
    if rc != 0 and rc != -1:
        code = -1 if rc == MINUS_ONE else rc
        raise RuntimeError(f"kernel: {k.signature!r} failed with code {code}")
    check(rc, "the ranges")
