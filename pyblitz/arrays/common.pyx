# cython: wraparound=True, boundscheck=True
"""What the operations on arrays share: see common.pxd."""
import contextvars
import operator
import types

import numpy as np

cimport cython
cimport numpy as cnp
from cpython.function cimport PyFunction_Check
from cpython.unicode cimport PyUnicode_AsUTF8
from libc.stdint cimport int64_t, intptr_t, uint32_t
from numpy cimport ndarray, ufunc

from pyblitz.host.interpreter cimport check
from pyblitz.host.pools cimport Entry, enter, leave
from pyblitz.arrays.front cimport overlaps_itself
from pyblitz.arrays.memory cimport empty
from pyblitz.kernels.cast cimport cast_loop
from pyblitz.kernels.map cimport STEP_ARGS, Map, loop_fn, map_grain, map_normalize, map_run
from pyblitz.kernels.numbers cimport (
    NO_NUMBER, NUMBER_C64, NUMBER_C128, NUMBER_F16, NUMBER_F32, NUMBER_F64, NUMBER_I8, NUMBER_TIME,
    NUMBER_U8)
from pyblitz.runtime.atomic cimport i64_store_relaxed, u32_load_relaxed
from pyblitz.runtime.bridge cimport Bridge, bridge_init, bridge_run, combine_halves_fn, leaf_fn
from pyblitz.runtime.pool cimport Worker

cnp.import_array()
cnp.import_umath()

cdef extern from "numpy/ufuncobject.h":
    # The fields by their C names: NumPy's own .pxd hides some of them from 2.5 on.
    ctypedef struct PyUFuncObject:
        int nargs
        int ntypes
        const char* types
        void** functions
        void** data

    int PyUFunc_GiveFloatingpointErrors(const char* name, int flags) except -1

# By these names they are NumPy's own even while `enable` has put ours in NumPy's namespace.
numpys = types.SimpleNamespace(sort=np.sort, argsort=np.argsort, lexsort=np.lexsort, unique=np.unique)

# ---- kinds of numbers -------------------------------------------------------

cdef NumberKind number_of(cnp.dtype d) noexcept:
    cdef char kind = d.kind
    cdef int size = d.itemsize, k
    if not cnp.PyDataType_ISNOTSWAPPED(d):
        return NO_NUMBER
    if kind == c"i" or kind == c"u" or kind == c"b":
        k = NUMBER_I8 if kind == c"i" else NUMBER_U8
        while size > 1:
            size >>= 1
            k += 1
        return <NumberKind>k
    if kind == c"f" and size <= 8:
        return NUMBER_F64 if size == 8 else NUMBER_F32 if size == 4 else NUMBER_F16
    if kind == c"c" and size <= 16:
        return NUMBER_C128 if size == 16 else NUMBER_C64
    return NUMBER_TIME if kind == c"m" or kind == c"M" else NO_NUMBER


# ---- errors -----------------------------------------------------------------

cdef int run(run_fn fn, void* ctx, str what) except -1:
    cdef Entry e
    cdef int rc
    with nogil:
        enter(&e)
        rc = fn(e.worker, ctx)
        rc = leave(&e, rc)
    return check(rc, what)


cdef int report_flags(str name, uint32_t flags) except -1:
    """Has NumPy report the floating-point flags that other threads saw in the operation of that name,
    as the caller's ``np.errstate`` says.  Both number them alike."""
    if flags:
        PyUFunc_GiveFloatingpointErrors(PyUnicode_AsUTF8(name), <int>flags)
    return 0


# ---- sliced: NumPy on parts of arrays ---------------------------------------

cdef bint is_half(cnp.dtype dtype):
    return dtype is not None and dtype.kind == b"f" and dtype.itemsize == 2


cdef class Flags:
    """The floating-point flags that NumPy met in a context.  It refers to nothing:
    NumPy keeps it where no garbage collector looks."""

    def _collect(self):
        np.seterrcall(self._note)
        np.seterr(all="call")

    def _note(self, text, flag):
        self.seen |= <uint32_t>flag


cdef class Slices:
    """Calls NumPy on slices of arrays along one axis, from any worker."""

    def __init__(self, str what, bint collect):
        self.what = what
        self.context = contextvars.copy_context()
        if collect:
            # Whatever a slice meets is reported once, by the caller.
            self.flags = Flags()
            self.context.run(self.flags._collect)

    cdef object part(self, int64_t lo, int64_t hi):
        raise NotImplementedError

    cdef object combine(self, int64_t lo, int64_t mid):
        raise NotImplementedError

    def _part(self, lo, hi):
        try:
            return self.part(lo, hi)
        except SystemError as e:
            # NumPy's (2.4.6), where a ufunc's reduction has no memory: NULL, and no exception.
            if "without setting an exception" in str(e):
                raise MemoryError(f"no memory for {self.what}") from None
            raise

    def _combine(self, lo, mid):
        return self.combine(lo, mid)

    cdef object run_part(self, int64_t lo, int64_t hi):
        # A context cannot be entered twice at a time: each call has its copy.
        try:
            return self.context.copy().run(self._part, lo, hi)
        except BaseException as e:
            with cython.critical_section(self):
                if self.failure is None or lo < self.failed_lo:
                    self.failure, self.failed_lo, self.failed_hi = e, lo, hi
            raise

    cdef object tell(self, object error):
        """Notes where ``error``, which the caller is to see, was raised, if in a part.
        Once, and not in the parts: they may all have raised one and the same object."""
        failure, self.failure = self.failure, None
        if error is failure and hasattr(BaseException, "add_note"):
            try:
                BaseException.add_note(
                    error, f"pyblitz: in {self.what}[{self.failed_lo}:{self.failed_hi}]")
            except Exception:
                pass        # the error matters more than the note

    cdef object run_combine(self, int64_t lo, int64_t mid):
        self.context.copy().run(self._combine, lo, mid)

    cdef int run(self, int64_t grain, int64_t n, bint combines) except -1:
        # grain < 0: -grain items at first, then as many as take SLICE_NS.
        cdef Bridge b
        cdef Entry e
        cdef int rc
        bridge_init(&b, <leaf_fn>slice_leaf, <combine_halves_fn>slice_combine if combines else NULL,
                    <void*>self, max(grain, <int64_t>0))
        if grain < 0:
            b.leaf_ns = SLICE_NS
            i64_store_relaxed(&b.span, -grain)
        with nogil:
            enter(&e)
            rc = bridge_run(e.worker, &b, n)
            rc = leave(&e, rc)
        try:
            return check(rc, "the operation")
        except BaseException as error:
            self.tell(error)
            raise


cdef int slice_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) except -1 nogil:
    with gil:
        (<Slices>ctx).run_part(lo, hi)
    return 0


cdef int slice_combine(Worker* w, void* ctx, int64_t lo, int64_t mid,
                       int64_t hi) except -1 nogil:
    with gil:
        (<Slices>ctx).run_combine(lo, mid)
    return 0


cdef class Calls(Slices):
    """One function of lo and hi."""
    cdef object call

    cdef object part(self, int64_t lo, int64_t hi):
        self.call(lo, hi)


cdef int slices(str what, object part, int64_t grain, int64_t n, str reports) except -1:
    cdef Calls s = Calls(what, reports is not None)
    s.call = part
    s.run(grain, n, False)
    if reports is not None:
        report_flags(reports, s.flags.seen)
    return 0


cdef int ndim_of(object x) except -1:
    return cnp.PyArray_NDIM(<ndarray>x) if cnp.PyArray_CheckExact(x) else np.ndim(x)


cdef int axis_of(object axis, int ndim) except -1:
    return np.lib.array_utils.normalize_axis_index(operator.index(axis), ndim)


cdef set axes_of(object axis, int ndim):
    if axis is None:
        return set(range(ndim))
    return set(np.lib.array_utils.normalize_axis_tuple(axis, ndim))


cdef tuple at(int axis, int64_t lo, int64_t hi):
    """The index of lo:hi along ``axis``."""
    return (slice(None),) * axis + (slice(lo, hi),)


cdef int longest_axis(tuple shape, object among):
    """The longest of the axes, the first of equals; -1: none."""
    cdef int best = -1
    for axis in among:
        if best < 0 or shape[axis] > shape[best]:
            best = axis
    return best


# ---- loops ------------------------------------------------------------------

# Ufuncs whose loops are known to need no GIL: NumPy's own.  Others may raise
# from inside the loop, so they are called as a whole, on slices.
cdef set numpy_ufuncs = {u for u in vars(np).values() if isinstance(u, np.ufunc)}


class _Asked:
    """Tells which ufunc a method of arrays is."""

    def __array_ufunc__(self, fn, method, *inputs, **options):
        return fn


# It has no public name.
cdef object clip = np.empty(0).clip(_Asked(), _Asked())
numpy_ufuncs.add(clip)


# What takes no longer than a division, and of single precision what NumPy does by vectors everywhere.
cdef set quick_ufuncs = {np.add, np.subtract, np.multiply, np.divide, np.negative, np.positive, np.absolute,
                         np.fabs, np.square, np.sqrt, np.reciprocal, np.conjugate, np.maximum, np.minimum, np.fmax,
                         np.fmin, np.sign, np.signbit, np.copysign, np.equal, np.not_equal, np.less, np.less_equal,
                         np.greater, np.greater_equal, np.logical_and, np.logical_or, np.logical_xor,
                         np.logical_not, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert, np.left_shift,
                         np.right_shift, np.isnan, np.isinf, np.isfinite, np.isnat, np.floor, np.ceil, np.trunc,
                         np.rint, np.deg2rad, np.rad2deg, np.radians, np.degrees, clip}
cdef set quick_singles = {np.exp, np.log, np.sin, np.cos, np.tanh}
cdef object single = np.dtype(np.float32)


cdef loop_fn number_cast(cnp.dtype of, cnp.dtype to) noexcept:
    if not cnp.PyDataType_ISNOTSWAPPED(of) or not cnp.PyDataType_ISNOTSWAPPED(to):
        return NULL
    return cast_loop(of.kind, of.itemsize, to.kind, to.itemsize)


cdef bint is_quick(object fn):
    return fn in quick_ufuncs


cdef bint is_dear(object fn, tuple dtypes) except -1:
    """See Resolved.  By these alone: it decides how sums are rounded."""
    if any([is_half(dtype) for dtype in dtypes]):
        return True
    return fn not in quick_ufuncs and not (fn in quick_singles and dtypes[0] == single)


cdef class Resolved:
    """What a ufunc does for given dtypes, as NumPy resolved it."""


cdef dict resolved_maps = {}        # ufunc -> {what it is given: Resolved}
# Those that were asked for last: to find one in the dicts takes as long as np.add of 4,000 numbers.
cdef list last_resolved = [None] * LATELY_PLACES


cdef int keep_lately(list places, Py_ssize_t place, object x) except -1:
    # With bounds checked, as in all of this file, what is read is held while another thread writes.
    places[place + 1] = places[place]
    places[place] = x
    return 0


cdef Resolved found_lately(list places, ufunc fn, object first, object second):
    """What was asked for with these two first; None: nothing was."""
    cdef Py_ssize_t i, place = lately_place(<void*>fn, <void*>first, <void*>second)
    cdef Resolved r
    for i in range(place, place + 2):
        r = places[i]
        if r is not None and r.fn is fn and r.asked[0] is first and r.asked[1] is second:
            return r
    return None


cdef Resolved resolved_of(ufunc fn, object first, object second):
    return found_lately(last_resolved, fn, first, second)


cdef inline Py_ssize_t place_of(ufunc fn, tuple given) noexcept:
    return lately_place(<void*>fn, <void*>given[0], <void*>given[len(given) // 2])


cdef Resolved resolved_lately(ufunc fn, tuple given):
    cdef Py_ssize_t i, k, place = place_of(fn, given)
    cdef Resolved r
    for i in range(place, place + 2):
        r = last_resolved[i]
        if r is None or r.fn is not fn:
            continue
        for k in range(len(given)):
            if <void*>given[k] != <void*>r.asked[k]:
                break
        else:
            return r
    return None


cdef Resolved resolve(ufunc fn, tuple given, object signature, str casting, bint reduction):
    """``given``: dtype, Python number type (weak), or None for an output that
    is to be made."""
    cdef bint plain = signature is None and not reduction and casting == "same_kind"
    cdef Resolved r = resolved_lately(fn, given) if plain else None
    cdef tuple key = given
    cdef dict known
    if r is not None:
        return r
    known = resolved_maps.get(fn)
    if known is None:
        if len(resolved_maps) > 1024:
            resolved_maps.clear()
        known = resolved_maps.setdefault(fn, {})
    if not plain:
        key = (given, signature, casting, reduction)
    r = known.get(key)
    asked = given if signature is None else given + signature
    if r is not None and not are_identical(asked, r.asked):
        # C has two types of one size, which are equal as dtypes.
        key = (key, tuple([getattr(x, "char", None) for x in asked]))
        r = known.get(key)
    if r is None:
        r = resolve_anew(fn, given, signature, casting, reduction)
        r.asked = asked
        if len(known) > 1024:
            known.clear()
        known[key] = r
    if plain:
        keep_lately(last_resolved, place_of(fn, given), r)
    return r


# A table of its own: a call with something that has no dtype is asked for as (None, dtype), too.
cdef list last_reductions = [None] * LATELY_PLACES


cdef Resolved resolve_reduction(ufunc op, object dtype):
    cdef Resolved r = found_lately(last_reductions, op, None, dtype)
    if r is None:
        r = resolve(op, (None, dtype, None), None, "unsafe", True)
        keep_lately(last_reductions, place_of(op, r.asked), r)
    return r


cdef bint are_identical(tuple given, tuple other) noexcept:
    """Of two that are equal."""
    cdef Py_ssize_t i
    for i in range(len(given)):
        if given[i] is not other[i] and isinstance(given[i], cnp.dtype) and (
                (<cnp.dtype>given[i]).type_num != (<cnp.dtype>other[i]).type_num):
            return False
    return True


cdef Resolved resolve_anew(ufunc fn, tuple given, object signature, str casting, bint reduction):
    cdef Resolved r = Resolved()
    cdef PyUFuncObject* u = <PyUFuncObject*>fn
    cdef int i, k
    cdef bint same
    r.fn = fn
    r.loop = NULL
    r.associative = is_associative(fn)
    if casting == "equiv" and any([type(x) is type for x in given]):
        return r            # of numbers of Python's NumPy's own function crashes (2.4.6)
    try:
        options = {} if signature is None else {"signature": signature}
        if reduction:
            r.dtypes = fn.resolve_dtypes(given, reduction=True, **options)
        else:
            r.dtypes = fn.resolve_dtypes(given, casting=casting, **options)
    except (TypeError, ValueError):
        # NumPy says why when it is called.
        r.dtypes = None
    if r.dtypes is None:
        return r
    for dtype in r.dtypes:
        if dtype.hasobject:
            r.dtypes = None
            return r
    r.dear = is_dear(fn, r.dtypes)
    r.numeric = fn.signature is None and all([dtype.isnative and dtype.kind in "biufcmM" for dtype in r.dtypes])
    r.folds = reduction and r.dtypes[0] == r.dtypes[2] and r.dtypes[2].kind in "biufcmM"
    if fn not in numpy_ufuncs or not may_skip_gil(fn, r.dtypes):
        return r
    for i in range(u.ntypes):
        same = True
        for k in range(u.nargs):
            same = same and u.types[i * u.nargs + k] == (<cnp.dtype>r.dtypes[k]).type_num
        if same:
            r.loop = <loop_fn>u.functions[i]
            r.data = u.data[i] if u.data != NULL else NULL
            break
    return r


cdef bint may_skip_gil(ufunc fn, tuple dtypes):
    # An integer to a negative integer power raises from inside the loop.
    if fn is np.power and dtypes[0].kind in "iu":
        return False
    return fn.nargs <= STEP_ARGS


cdef object numbas_ufunc(object fn):
    # A function of Python's is itself, whatever attributes of another it was given.
    inner = None if PyFunction_Check(fn) else getattr(fn, "ufunc", None)
    return inner if isinstance(inner, ufunc) else None


cdef bint is_numpys(object fn):
    return fn in numpy_ufuncs


idempotent = {np.minimum, np.maximum, np.fmin, np.fmax}


cdef bint is_associative(object op):
    """Whether neighbours may be combined in any grouping."""
    return op in idempotent or (op.identity is not None and (is_numpys(op) or has_identity(op)))


cdef bint has_identity(object op):
    """Whether its identity is one.  That of others may be a zero that says nothing (SciPy's)."""
    few = np.array([2, 3, 5])
    same = False
    try:
        with np.errstate(all="ignore"):
            same = np.array_equal(op(op.identity, few), few) and np.array_equal(op(few, op.identity), few)
    except Exception:
        pass
    return same


cdef void array_extent(ndarray a, char** low, char** high) noexcept:
    """The bytes that an array may touch."""
    cdef int i
    cdef intptr_t reach
    low[0] = high[0] = <char*>cnp.PyArray_DATA(a)
    for i in range(cnp.PyArray_NDIM(a)):
        reach = (cnp.PyArray_DIM(a, i) - 1) * cnp.PyArray_STRIDE(a, i)
        if reach < 0:
            low[0] += reach
        else:
            high[0] += reach
    high[0] += cnp.PyArray_ITEMSIZE(a)


cdef bint may_overlap(ndarray a, ndarray b) noexcept:
    cdef char* a0
    cdef char* a1
    cdef char* b0
    cdef char* b1
    if cnp.PyArray_SIZE(a) == 0 or cnp.PyArray_SIZE(b) == 0:
        return False
    array_extent(a, &a0, &a1)
    array_extent(b, &b0, &b1)
    return a0 < b1 and b0 < a1


cdef bint same_memory(ndarray a, ndarray b) noexcept:
    """Element i of one is element i of the other."""
    cdef int i
    if (cnp.PyArray_DATA(a) != cnp.PyArray_DATA(b)
            or cnp.PyArray_NDIM(a) != cnp.PyArray_NDIM(b)
            or cnp.PyArray_ITEMSIZE(a) != cnp.PyArray_ITEMSIZE(b)):
        return False
    for i in range(cnp.PyArray_NDIM(a)):
        if (cnp.PyArray_DIM(a, i) != cnp.PyArray_DIM(b, i)
                or cnp.PyArray_STRIDE(a, i) != cnp.PyArray_STRIDE(b, i)):
            return False
    return True


cdef bint outputs_are_safe(list ops, int inputs) noexcept:
    """Given outputs are writeable, do not overlap each other or themselves, and
    an input only where it is the same memory."""
    cdef int i, k
    cdef ndarray o
    for i in range(inputs, len(ops)):
        if ops[i] is None:
            continue
        o = ops[i]
        if not cnp.PyArray_ISWRITEABLE(o) or overlaps_itself(o):
            return False
        for k in range(i):
            if ops[k] is not None and may_overlap(o, ops[k]) and (
                    k >= inputs or not same_memory(o, ops[k])):
                return False
    return True


cdef bint broadcast_shape(list ops, int inputs, int* ndim, cnp.npy_intp* shape) noexcept:
    """The common shape of the operands; false when there is none, or when a
    given output has another."""
    cdef ndarray a
    cdef int i, k, d
    cdef cnp.npy_intp n
    ndim[0] = 0
    for op in ops:
        if op is not None:
            ndim[0] = max(ndim[0], cnp.PyArray_NDIM(<ndarray>op))
    for d in range(ndim[0]):
        shape[d] = 1
    for op in ops:
        if op is None:
            continue
        a = op
        for k in range(cnp.PyArray_NDIM(a)):
            d = ndim[0] - cnp.PyArray_NDIM(a) + k
            n = cnp.PyArray_DIM(a, k)
            if shape[d] == 1:
                shape[d] = n
            elif n != 1 and n != shape[d]:
                return False
    for i in range(inputs, len(ops)):
        if ops[i] is None:
            continue
        a = ops[i]
        if cnp.PyArray_NDIM(a) != ndim[0]:
            return False
        for d in range(ndim[0]):
            if cnp.PyArray_DIM(a, d) != shape[d]:
                return False
    return True


cdef int make_outputs(list ops, int inputs, tuple dtypes, int ndim, cnp.npy_intp* shape) except -1:
    """Allocates the outputs that were not given, in the memory order that NumPy
    would choose."""
    # Fortran's order where NumPy runs one loop over everything.  Elsewhere it asks its
    # iterator, as below, which has other strides for axes of length 1.
    cdef bint c_order = True, f_order = ndim > 1 and len(ops) == inputs + 1
    cdef ndarray a
    cdef int i
    for i in range(inputs):
        a = ops[i]
        if cnp.PyArray_NDIM(a) == 0:
            continue
        c_order = c_order and cnp.PyArray_NDIM(a) == ndim and cnp.PyArray_IS_C_CONTIGUOUS(a)
        f_order = (f_order and cnp.PyArray_NDIM(a) == ndim and cnp.PyArray_IS_F_CONTIGUOUS(a)
                   and cnp.PyArray_ISALIGNED(a) and a.dtype == dtypes[i]
                   and cnp.PyArray_CompareLists(cnp.PyArray_DIMS(a), shape, ndim))
    if c_order or f_order:
        for i in range(inputs, len(ops)):
            if ops[i] is None:
                ops[i] = empty(ndim, shape, dtypes[i], not c_order)
        return 0
    ops[:] = allocated(ops, inputs, dtypes, "K")
    return 0


cdef object made_like(ndarray a, object dtype):
    """An array of its shape, in the memory order that NumPy would choose for what it computes of it."""
    ops = [a, None]
    make_outputs(ops, 1, (a.dtype, dtype), cnp.PyArray_NDIM(a), cnp.PyArray_DIMS(a))
    return ops[1]


cdef list allocated(list ops, int inputs, tuple dtypes, str order):
    made = np.nditer(
        ops, ["refs_ok", "zerosize_ok"],
        [["readonly"]] * inputs
        + [["writeonly", "allocate", "no_broadcast"] for _ in ops[inputs:]],
        op_dtypes=[None if op is not None else d for op, d in zip(ops, dtypes)], order=order,
        casting="unsafe").operands
    return [made[i] if op is None else op for i, op in enumerate(ops)]


cdef int fill_map(Map* m, list ops, int ndim, cnp.npy_intp* shape, int first_output) noexcept:
    """Pointers and strides of the operands, broadcast to the shape."""
    cdef ndarray a
    cdef int k, d, own
    m.operands = len(ops)
    m.dims = ndim
    m.size = 1
    for d in range(ndim):
        m.shape[d] = shape[d]
        m.size *= shape[d]
    for k in range(m.operands):
        a = ops[k]
        m.base[k] = <char*>cnp.PyArray_DATA(a)
        for d in range(ndim):
            own = d - (ndim - cnp.PyArray_NDIM(a))
            if own < 0 or (cnp.PyArray_DIM(a, own) == 1 and shape[d] != 1):
                m.strides[d][k] = 0
            else:
                m.strides[d][k] = cnp.PyArray_STRIDE(a, own)
    map_normalize(m, first_output)
    return 0


cdef object run_map(Map* m, list ops, str name):
    """Runs the loop over all elements; reports floating-point flags."""
    cdef int64_t bytes = 0
    cdef int rc = 0
    cdef Entry e
    for a in ops:
        if cnp.PyArray_NDIM(<ndarray>a) > 0:
            bytes += cnp.PyArray_ITEMSIZE(<ndarray>a)
    if m.size > 0:
        with nogil:
            enter(&e)
            rc = map_run(e.worker, m, map_grain(bytes, m.pace))
            rc = leave(&e, rc)
        check(rc, "the map")
        report_flags(name, u32_load_relaxed(&m.one.flags))
