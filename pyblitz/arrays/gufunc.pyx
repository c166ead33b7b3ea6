# cython: wraparound=True, boundscheck=True
"""Calls of generalised ufuncs on arrays: see gufunc.pxd."""
import re

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from numpy cimport ndarray, ufunc

from pyblitz.arrays.common cimport (
    FIRST_ITEMS, SLICE_ITEMS, Slices, at, longest_axis, may_overlap, numpys, outputs_are_safe,
    report_flags)
from pyblitz.arrays.front cimport left, left_dtype

cnp.import_array()

cdef enum:
    # Operations on one matrix from which a BLAS shares them among threads of its own.
    BLAS_SHARES = 262144


cdef class SlicedGufunc(Slices):
    cdef object fn
    cdef list ins
    cdef list axes          # of each operand: which is the shared loop dimension; -1: none
    cdef tuple outs
    cdef dict options
    # What the call is made of.
    cdef list cores         # names of each operand's core dimensions
    cdef list core_axes     # and which axes they are
    cdef list loop_axes     # the others
    cdef tuple full         # the shape of the loop
    cdef int loops          # the number of loop dimensions
    cdef int shared         # the loop dimension that is cut
    cdef int64_t work       # operations in all, about
    cdef int64_t each       # and of one item

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
    return np.empty([shape[d] for d in axes], dtype).transpose(numpys.argsort(axes))


cdef object read_call(SlicedGufunc s, tuple arrays, dict extra):
    """The dimensions of a call; ValueError and the like where NumPy is to say what is wrong."""
    cdef int n
    s.ins = [np.asarray(x) for x in arrays]
    # Core dimensions that an operand lacks are lacking in all.
    cores = core_dims(s.fn)
    missing = set()
    for x, core in zip(s.ins, cores):
        if x.ndim < len(core):
            missing.update([name for name in core if name.endswith("?")])
    cores = [[name for name in core if name not in missing] for core in cores]
    if extra.get("keepdims", False):
        cores = cores[:s.fn.nin] + [cores[0]] * s.fn.nout
    s.cores = cores
    s.loops = max([x.ndim - len(core) for x, core in zip(s.ins, cores)])
    ndims = [x.ndim for x in s.ins] + [s.loops + len(core) for core in cores[s.fn.nin:]]
    s.core_axes = core_axes(s.fn, ndims, cores, extra)
    s.loop_axes = [[d for d in range(n) if d not in core] for n, core in zip(ndims, s.core_axes)]
    s.full = np.broadcast_shapes(
        *[tuple([x.shape[d] for d in own]) for x, own in zip(s.ins, s.loop_axes)])
    sizes = {name: x.shape[d] for x, core, own in zip(s.ins, cores, s.core_axes)
             for name, d in zip(core, own)}
    s.work = s.each = work_of_item(s.fn, sizes)
    for n in s.full:
        s.work *= n
    s.shared = longest_axis(s.full, range(s.loops))


cdef list place_outputs(SlicedGufunc s, tuple outs, object casting):
    """Given outputs, and those that are made, in NumPy's memory order."""
    # A call on nothing tells the results' types and core dimensions.
    none = s.fn(*s.cut(s.ins, 0, 0, 0), **s.options)
    made = []
    walk = loop_order([x[tuple([0 if d in core else slice(None) for d in range(x.ndim)])]
                       for x, core in zip(s.ins, s.core_axes)], s.loops)
    for i, (given, empty) in enumerate(
            zip(outs, none if type(none) is tuple else (none,)), s.fn.nin):
        if type(empty) is not np.ndarray or empty.dtype.hasobject:
            raise ValueError
        whole = list(empty.shape)
        whole[s.axes[i]] = s.full[s.shared]
        if given is None:
            given = empty_in_order(
                whole, empty.dtype, [s.loop_axes[i][d] for d in walk] + list(s.core_axes[i]))
        elif (not cnp.PyArray_CheckExact(given) or given.shape != tuple(whole)
                or not np.can_cast(empty.dtype, given.dtype, casting)):
            raise ValueError
        made.append(given)
    for x in s.ins:
        for given in made:
            if may_overlap(x, given):
                raise ValueError
    if not outputs_are_safe(s.ins + made, s.fn.nin):
        raise ValueError
    return made


cdef object map_gufunc(ufunc fn, tuple arrays, object out, object where, object dtype,
                       object casting, dict extra):
    cdef SlicedGufunc s = SlicedGufunc(fn.__name__, True)
    cdef int i, k
    cdef tuple outs = (None,) * fn.nout if out is None else out if type(out) is tuple else (out,)
    if (where is not True or len(outs) != fn.nout or extra.get("order", "K") != "K" or len(arrays) != fn.nin
            or type(extra.get("keepdims", False)) is not bool):
        return left("unusual options of a generalised ufunc")
    s.fn = fn
    made = None
    try:
        read_call(s, arrays, extra)
        for x in s.ins:
            if (<ndarray>x).dtype.hasobject:
                return left_dtype(x.dtype)
        if s.shared < 0 or s.full[s.shared] < 2 or s.work < 2 * SLICE_ITEMS:
            return left("a generalised ufunc without a dimension to share")
        if s.each >= BLAS_SHARES and (fn in lapack_ufuncs or (
                fn is np.matmul and np.result_type(*[a.dtype for a in s.ins]).char in "fdFD")):
            return left("large matrices of floats, which its BLAS shares itself")
        s.axes = []
        for i in range(fn.nargs):
            k = s.shared - (s.loops - len(s.loop_axes[i]))
            k = s.loop_axes[i][k] if k >= 0 else -1
            s.axes.append(-1 if i < fn.nin and k >= 0 and s.ins[i].shape[k] == 1 else k)
        s.options = {k: v for k, v in extra.items() if k != "order"}
        if dtype is not None:
            s.options["dtype"] = dtype
        if casting != "same_kind":
            s.options["casting"] = casting
        made = place_outputs(s, outs, casting)
    except Exception:
        pass
    if made is None:
        return left("a generalised ufunc's arguments")      # not to be shared, or wrong
    s.outs = tuple(made)
    # What an item takes is only guessed (it may be a matrix to invert).
    s.run(-max(1, FIRST_ITEMS * s.full[s.shared] // s.work), s.full[s.shared], False)
    report_flags(fn.__name__, s.flags.seen)
    return made[0] if fn.nout == 1 else tuple(made)
