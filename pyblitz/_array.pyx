# cython: wraparound=True, boundscheck=True
"""The only module that knows NumPy: it checks arguments, picks a kernel,
releases the GIL, and raises what NumPy would raise.

Every operation takes the first of these roads that is open to it:

direct   NumPy itself, in the caller: what is too small to share, what NumPy
         refuses (so that it says so itself), subclasses and other types with
         ``__array_ufunc__``, objects, generalized ufuncs.
loop     A ufunc's own inner loop, or a compiled kernel, on raw pointers by
         every worker, without the GIL.  For aligned native data whose dtypes
         match a loop exactly.
sliced   NumPy itself on slices, by every worker, in a copy of the caller's
         context.  It holds the GIL only around each slice's loop.
"""
import contextvars
import ctypes
import re

import numpy as np

cimport cython
cimport numpy as cnp
from cpython.pycapsule cimport (
    PyCapsule_GetContext, PyCapsule_GetName, PyCapsule_GetPointer)
from libc.stdint cimport int64_t, intptr_t, uint32_t
from libc.string cimport memcpy
from numpy cimport ndarray, ufunc

from pyblitz._python cimport Entry, enter, leave
from pyblitz.kernels.map cimport (
    MAP_DIMS, MAP_OPERANDS, LEAF_BYTES, Kernel, Map, block_loop, loop_fn,
    map_grain, map_normalize, map_run, scalar_loop)
from pyblitz.kernels.reduce cimport Reduce, reduce_blocks, reduce_run
from pyblitz.kernels.sort cimport (
    KEY_FLOAT, KEY_SIGNED, KEY_TIME, KEY_UNSIGNED, SORT_MIN_ITEMS, Sort,
    compare_fn, compare_half, counting_sort, merge_sort, radix_sort, sort_fn, sort_rows)
from pyblitz.runtime.atomic cimport u32_load_relaxed
from pyblitz.runtime.bridge cimport (
    Bridge, bridge_init, bridge_run, combine_fn, leaf_fn)
from pyblitz.runtime.os cimport fe_raise, now_ns
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

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyArray_ArrFuncs:
        sort_fn sort[3]
        compare_fn compare
    PyArray_ArrFuncs* PyDataType_GetArrFuncs(cnp.PyArray_Descr*)
    object PyArray_Empty(int ndim, cnp.npy_intp* shape, cnp.dtype, int fortran)

cdef enum:
    # Elements of a slice that is worth taking the GIL for.
    SLICE_ITEMS = 65536
    # Bytes of one block that a Python function is called with.
    BLOCK_CALL_BYTES = 524288
    # A map that takes less is done before another thread could help.
    DIRECT_NS = 45000
    # Below this NumPy's reduction is done before another thread could help.
    SMALL_REDUCE_BYTES = 131072

# ---- errors -----------------------------------------------------------------

cdef int raised() except -1:
    """For a result of -1 whose exception is set already."""
    return -1


cdef int check(int rc, str what) except -1:
    """Raises what a bridge of this module returned."""
    if rc == -1:
        raised()
    if rc != 0:
        raise MemoryError(f"no memory for {what}")
    return 0


cdef void raise_flags_loop(char** args, const intptr_t* dims, const intptr_t* steps,
                           void* data) noexcept nogil:
    fe_raise((<int*>args[0])[0])


cdef cnp.PyUFuncGenericFunction flag_loops[1]
cdef char flag_types[2]
cdef void* flag_data[1]
flag_loops[0] = <cnp.PyUFuncGenericFunction>raise_flags_loop
flag_types[0] = <char>cnp.NPY_INT
flag_types[1] = <char>cnp.NPY_BOOL
flag_data[0] = NULL
cdef dict flag_raisers = {}     # name -> (ufunc, the bytes of its name)


cdef object report_flags(str name, uint32_t flags):
    """Lets NumPy report floating-point flags that other threads saw, under the
    caller's ``np.errstate``: by a ufunc of that name which does nothing but
    raise them."""
    if flags == 0:
        return
    if name not in flag_raisers:
        text = name.encode()
        flag_raisers[name] = (
            cnp.PyUFunc_FromFuncAndData(
                flag_loops, flag_data, flag_types, 1, 1, 1, cnp.PyUFunc_None,
                text, "", 0),
            text)
    flag_raisers[name][0](np.array(flags, np.intc))


# ---- sliced: NumPy on parts of arrays ---------------------------------------

cdef class Flags:
    """The floating-point flags that NumPy met in a context.  It refers to nothing:
    NumPy keeps it where no garbage collector looks."""
    cdef uint32_t seen

    def _collect(self):
        np.seterrcall(self._note)
        np.seterr(all="call")

    def _note(self, text, flag):
        self.seen |= <uint32_t>flag


cdef class Slices:
    """Calls NumPy on slices of arrays along one axis, from any worker."""
    cdef object context
    cdef Flags flags        # None: NumPy reports them itself
    cdef str what
    cdef object failure     # what the lowest part that failed so far raised
    cdef int64_t failed_lo
    cdef int64_t failed_hi

    def __init__(self, str what, bint collect):
        self.what = what
        self.context = contextvars.copy_context()
        if collect:
            # Whatever a slice meets is reported once, by the caller.
            self.flags = Flags()
            self.context.run(self.flags._collect)

    cdef object part(self, int64_t lo, int64_t hi):
        raise NotImplementedError

    cdef object join(self, int64_t lo, int64_t mid):
        raise NotImplementedError

    def _part(self, lo, hi):
        return self.part(lo, hi)

    def _join(self, lo, mid):
        return self.join(lo, mid)

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

    cdef object run_join(self, int64_t lo, int64_t mid):
        self.context.copy().run(self._join, lo, mid)

    cdef int run(self, int64_t grain, int64_t n, bint joins) except -1:
        cdef Bridge b
        cdef Entry e
        cdef int rc
        bridge_init(&b, <leaf_fn>slice_leaf, <combine_fn>slice_combine if joins else NULL,
                    <void*>self, grain)
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
        (<Slices>ctx).run_join(lo, mid)
    return 0


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


# ---- map --------------------------------------------------------------------

# Ufuncs whose loops are known to need no GIL: NumPy's own.  Others may raise
# from inside the loop, so they are called as a whole, on slices.
cdef set numpy_ufuncs = {u for u in vars(np).values() if isinstance(u, np.ufunc)}


cdef class Resolved:
    """What a ufunc does for given dtypes, as NumPy resolved it."""
    cdef loop_fn loop       # NULL: not to be called without the GIL
    cdef void* data
    cdef tuple dtypes       # of all operands; None: NumPy refused
    # Nanoseconds an element took one thread, about, when last seen; 0: never.
    # It chooses the road of a map, never its result.
    cdef double pace


cdef dict resolved_maps = {}


cdef Resolved resolve(ufunc fn, tuple given, object signature, str casting, bint reduction):
    """``given``: dtype, Python number type (weak), or None for an output that
    is to be made."""
    cdef object key = (fn, given, signature, casting, reduction)
    cdef Resolved r = resolved_maps.get(key)
    if r is None:
        r = resolve_anew(fn, given, signature, casting, reduction)
        if len(resolved_maps) > 4096:
            resolved_maps.clear()
        resolved_maps[key] = r
    return r


cdef Resolved resolve_anew(ufunc fn, tuple given, object signature, str casting, bint reduction):
    cdef Resolved r = Resolved()
    cdef PyUFuncObject* u = <PyUFuncObject*>fn
    cdef int i, k
    cdef bint same
    r.loop = NULL
    try:
        options = {} if signature is None else {"signature": signature}
        if reduction:
            r.dtypes = fn.resolve_dtypes(given, reduction=True, **options)
        else:
            r.dtypes = fn.resolve_dtypes(given, casting=casting, **options)
    except (TypeError, ValueError):
        # NumPy says why when it is called.
        return r
    for dtype in r.dtypes:
        if dtype.hasobject:
            r.dtypes = None
            return r
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
    return fn.nargs <= MAP_OPERANDS


cdef bint is_plain(object x):
    """Whether NumPy would treat it as an array or number of its own."""
    return (cnp.PyArray_CheckExact(x) or isinstance(x, (int, float, complex, np.generic))
            or (not cnp.PyArray_Check(x) and not hasattr(x, "__array_ufunc__")
                and isinstance(x, (list, tuple))))


cdef void extent(ndarray a, char** low, char** high) noexcept:
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
    extent(a, &a0, &a1)
    extent(b, &b0, &b1)
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
    cdef int i, k, d
    cdef ndarray o
    for i in range(inputs, len(ops)):
        if ops[i] is None:
            continue
        o = ops[i]
        if not cnp.PyArray_ISWRITEABLE(o):
            return False
        for d in range(cnp.PyArray_NDIM(o)):
            if cnp.PyArray_STRIDE(o, d) == 0 and cnp.PyArray_DIM(o, d) > 1:
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
    cdef bint c_order = True, f_order = ndim > 1
    cdef ndarray a
    cdef int i
    for i in range(inputs):
        a = ops[i]
        if cnp.PyArray_NDIM(a) == 0:
            continue
        c_order = c_order and cnp.PyArray_NDIM(a) == ndim and cnp.PyArray_IS_C_CONTIGUOUS(a)
        f_order = f_order and cnp.PyArray_NDIM(a) == ndim and cnp.PyArray_IS_F_CONTIGUOUS(a)
    if c_order or f_order:
        for i in range(inputs, len(ops)):
            if ops[i] is None:
                dtype = <cnp.dtype>dtypes[i]
                Py_INCREF_dtype(dtype)
                ops[i] = PyArray_Empty(ndim, shape, dtype, not c_order)
        return 0
    made = np.nditer(
        ops, ["refs_ok", "zerosize_ok"],
        [["readonly"]] * inputs
        + [["writeonly", "allocate", "no_broadcast"] for _ in ops[inputs:]],
        op_dtypes=[None if op is not None else d for op, d in zip(ops, dtypes)], order="K",
        casting="unsafe").operands
    for i in range(inputs, len(ops)):
        if ops[i] is None:
            ops[i] = made[i]
    return 0


cdef extern from *:
    """
    /* PyArray_Empty steals the descriptor. */
    #define pb_incref_dtype(d) Py_INCREF((PyObject *)(d))
    """
    void Py_INCREF_dtype "pb_incref_dtype"(object)


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
            rc = map_run(e.worker, m, map_grain(bytes))
            rc = leave(&e, rc)
        check(rc, "the map")
        report_flags(name, u32_load_relaxed(&m.flags))


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
        m.loop = r.loop
        m.data = r.data
        fill_map(&m, ops, ndim, shape, inputs)
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


# ---- map: compiled kernels --------------------------------------------------

cdef dict c_types = {
    "float": "f4", "double": "f8",
    "signed char": "i1", "unsigned char": "u1", "short": "h", "unsigned short": "H",
    "int": "i", "unsigned int": "I", "unsigned": "I", "long": "l", "unsigned long": "L",
    "long long": "q", "unsigned long long": "Q",
    "ssize_t": "p", "Py_ssize_t": "p", "npy_intp": "p", "intptr_t": "p", "size_t": "P",
    "float32": "f4", "float64": "f8", "npy_float": "f4", "npy_double": "f8",
}
for _bits in (8, 16, 32, 64):
    for _sign in ("int", "uint"):
        for _form in (f"{_sign}{_bits}_t", f"{_sign}{_bits}", f"npy_{_sign}{_bits}"):
            c_types[_form] = f"{_sign[0].replace('i', 'i')}{_bits // 8}"


cdef class CompiledKernel:
    """A C function that was recognised, with what it takes and gives."""
    cdef Kernel kernel
    cdef bint block
    cdef str signature
    cdef object dtype       # of all inputs and the output
    cdef object owner       # keeps the function's memory alive


cdef str canonical(str text):
    """A C type with its words in order and a star for each pointer."""
    words = text.replace("*", " * ").replace("const", " ").split()
    return " ".join(words)


cdef tuple parse_signature(str text):
    """'double (double, double)' as ('double', ['double', 'double'])."""
    found = re.fullmatch(r"\s*([\w\s*]+?)\s*\(([^()]*)\)\s*", text)
    if found is None:
        return None
    args = [canonical(a) for a in found.group(2).split(",")]
    return canonical(found.group(1)), [] if args in ([""], ["void"]) else args


cdef tuple kernel_source(object fn):
    """(address, user data, signature) of a compiled function, or None."""
    if type(fn).__name__ == "LowLevelCallable" and isinstance(fn, tuple):
        fn = tuple.__getitem__(fn, 0)
    if type(fn).__name__ == "PyCapsule":
        name = PyCapsule_GetName(fn)
        if name == NULL:
            raise TypeError("fn: the capsule has no name, so its signature is unknown")
        return (<size_t>PyCapsule_GetPointer(fn, name), <size_t>PyCapsule_GetContext(fn),
                (<bytes>name).decode())
    if isinstance(fn, ctypes._CFuncPtr):
        if fn.argtypes is None:
            raise TypeError("fn: the ctypes function has no argtypes, so its signature is unknown")
        args = ", ".join([ctypes_name(t) for t in fn.argtypes])
        return (ctypes.cast(fn, ctypes.c_void_p).value, 0, f"{ctypes_name(fn.restype)} ({args})")
    if hasattr(fn, "address") and hasattr(fn, "_sig"):      # Numba's cfunc
        args = ", ".join([str(t) for t in fn._sig.args])
        return (fn.address, 0, f"{fn._sig.return_type} ({args})".replace("none", "void"))
    return None


cdef str ctypes_name(object t):
    if t is None:
        return "void"
    if t is ctypes.c_void_p:
        return "void *"
    if hasattr(t, "contents"):
        return ctypes_name(t._type_) + " *"
    return np.dtype(t).name


cdef CompiledKernel as_kernel(object fn):
    """The compiled kernel that ``fn`` is, or None; TypeError when it is one
    whose signature this module cannot call."""
    cdef CompiledKernel k
    source = kernel_source(fn)
    if source is None:
        return None
    address, user, text = source
    k = CompiledKernel()
    k.owner = fn
    k.signature = text
    k.kernel.fn = <void*><size_t>address
    k.kernel.user = <void*><size_t>user
    parsed = parse_signature(text)
    if parsed is not None:
        result, args = parsed
        k.kernel.takes_user = bool(args) and args[-1] == "void *"
        if result == "void":
            k.block = True
            pointers = args[:-2]
            if (len(pointers) in (2, 3) and k.kernel.takes_user
                    and c_types.get(args[-2], "") in ("p", "l", "q", "i8")
                    and len(set(pointers)) == 1 and pointers[0].endswith(" *")):
                k.kernel.inputs = len(pointers) - 1
                k.dtype = c_types.get(pointers[0][:-2])
        else:
            scalars = args[:-1] if k.kernel.takes_user else args
            if len(scalars) in (1, 2) and set(scalars) == {result}:
                k.kernel.inputs = len(scalars)
                k.dtype = c_types.get(result)
    if k.dtype is None:
        raise TypeError(
            f"fn: cannot call a kernel of signature {text!r}; expected T (T), T (T, T), either "
            "with a last void *, or void (const T *, T *, intptr_t, void *) with one or two "
            "inputs, for one real number type T")
    k.dtype = np.dtype(k.dtype)
    k.kernel.itemsize = k.dtype.itemsize
    return k


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
    m.data = &k.kernel
    m.loop = block_loop if k.block else scalar_loop(
        <char>ord(k.dtype.kind), k.kernel.itemsize, k.kernel.inputs)
    fill_map(&m, ops, ndim, shape, len(arrays))
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


# ---- reduce -----------------------------------------------------------------

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
        if isinstance(getattr(op, "ufunc", None), ufunc):      # Numba's DUFunc
            return direct_reduce(op, a, axis, dtype, out, keepdims, initial, where)
        raise TypeError(f"op: expected a ufunc, not {type(op).__name__}")
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


# ---- sort -------------------------------------------------------------------

cdef dict key_kinds = {
    "b": KEY_UNSIGNED, "u": KEY_UNSIGNED, "i": KEY_SIGNED, "f": KEY_FLOAT,
    "m": KEY_TIME, "M": KEY_TIME,
}


cdef bint wants_stable(object kind, object stable):
    return bool(stable) or (kind is not None and str(kind)[:1].lower() in "sm")


cdef object sort_into(ndarray source, ndarray result, bint stable, bint in_place):
    """Sorts the rows of a contiguous array along its last axis into another, or
    in place when both are one.  ``in_place``: the caller has no other copy."""
    cdef Sort s
    cdef Entry e
    cdef int rc = 0
    cdef int64_t rows, row
    cdef PyArray_ArrFuncs* f = PyDataType_GetArrFuncs(cnp.PyArray_DESCR(result))
    cdef object copy = None
    cdef str kind = result.dtype.kind
    cdef int ndim = cnp.PyArray_NDIM(result)
    cdef bint counts, radix, by_row
    s.n = cnp.PyArray_DIM(result, ndim - 1)
    s.itemsize = cnp.PyArray_ITEMSIZE(result)
    s.arr = <void*>result
    s.compare = f.compare
    if kind == "f" and s.itemsize == 2:
        s.compare = compare_half
    s.leaf = f.sort[2] if stable or half_is_wrong(kind, s.itemsize) else f.sort[0]
    rows = cnp.PyArray_SIZE(result) // s.n
    # Equal keys of these types cannot be told apart, so any order is stable;
    # floats can, by the sign of zero.
    radix = kind in key_kinds and (kind != "f" or not stable) and s.leaf != NULL
    counts = radix and s.itemsize <= 2 and s.n >= (16384 if s.itemsize == 1 else 1048576)
    radix = radix and (s.itemsize == 4 or s.itemsize == 8)
    if radix or counts:
        s.kind = key_kinds[kind]
    by_row = (rows >= 16 or s.n < SORT_MIN_ITEMS) and not counts
    if source is result and not by_row and (radix or in_place):
        copy = source.copy()
        source = copy
    s.src = <const char*>cnp.PyArray_DATA(source)
    s.dst = <char*>cnp.PyArray_DATA(result)
    with nogil:
        enter(&e)
        if by_row:
            rc = sort_rows(e.worker, &s, rows)
        else:
            for row in range(rows):
                if counts:
                    rc = counting_sort(e.worker, &s)
                elif radix:
                    rc = radix_sort(e.worker, &s)
                else:
                    rc = merge_sort(e.worker, &s)
                if rc != 0:
                    break
                s.src += s.n * s.itemsize
                s.dst += s.n * s.itemsize
        if rc != 0 and in_place and not by_row:
            # In the middle items are here twice and there not at all.
            memcpy(cnp.PyArray_DATA(result), cnp.PyArray_DATA(source), cnp.PyArray_NBYTES(result))
        rc = leave(&e, rc)
    check(rc, "the sort")


def par_sort(a, axis=-1, kind=None, order=None, *, stable=None, out=None):
    """A sorted copy of an array, on all cores: ``np.sort``.

    Parameters
    ----------
    a : array_like
    axis : int or None, optional
        The axis to sort along, the last one by default; None sorts the
        flattened array.
    kind : {'quicksort', 'mergesort', 'heapsort', 'stable'}, optional
        As for ``np.sort``: 'mergesort' and 'stable' keep equal elements in
        their order, the others need not.
    order : str or list of str, optional
        Fields to compare, for structured arrays.
    stable : bool, optional
        True is ``kind='stable'``.
    out : ndarray, optional
        Where the result goes, of the shape and dtype of the result; ``out=a``
        sorts in place.  When the sort fails (no memory, Ctrl-C, a CancelScope), another
        ``out`` than ``a`` may hold anything, and ``a`` its own elements in some order.

    Returns
    -------
    ndarray
        ``out`` if it was given.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        What ``np.sort`` raises for the same mistake; an ``out`` of another
        shape or dtype, or read-only.

    Notes
    -----
    O(n log n) work.  Not-a-number and not-a-time go last, as in NumPy.

    - Integers, times and floats of 4 or 8 bytes: one parallel pass of
      most-significant-digit radix sort into buckets that fit into a cache, each
      then sorted by NumPy's own kernel.
    - Booleans, integers and floats of 1 or 2 bytes: counting sort.
    - Complex numbers, fixed-width strings, and floats when a stable sort is
      asked for: merge sort, its merges cut into equal parts by co-ranking.
    - Many rows: one after another by NumPy's kernel, the rows shared.
    - Structured, object and variable-width string arrays: NumPy, alone.

    Extra memory: one copy of a row in place or merging, otherwise none of the
    size of the array; ``axis`` other than the last needs one copy.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_sort([3.0, np.nan, 1.0])
    array([ 1.,  3., nan])
    """
    cdef ndarray x, result, rows
    cdef int ndim, along
    if not cnp.PyArray_CheckExact(a):
        if out is not None and a is not out and not is_plain(a):
            a = np.asarray(a)
        elif not is_plain(a):
            return sorted_by_numpy(a, axis, kind, order, stable, out)
        else:
            a = np.asarray(a)
    x = a
    if out is not None:
        check_sort_out(x, axis, out)
    ndim = cnp.PyArray_NDIM(x)
    if (cnp.PyArray_SIZE(x) * cnp.PyArray_ITEMSIZE(x) < SORT_MIN_ITEMS
            or x.dtype.hasobject or x.dtype.kind not in "biufcmMSU" or x.dtype.itemsize == 0
            or order is not None):
        return sorted_by_numpy(x, axis, kind, order, stable, out)
    # What is wrong with the arguments, in NumPy's words.
    np.sort(np.empty((1,) * ndim, x.dtype), axis, kind, stable=stable)
    if axis is None:
        x = x.reshape(-1) if x.flags.c_contiguous else x.ravel()
        ndim, along = 1, 0
    else:
        along = axis if axis >= 0 else axis + ndim
    if cnp.PyArray_SIZE(x) < SORT_MIN_ITEMS:
        return sorted_by_numpy(a, axis, kind, order, stable, out)
    native = x.dtype.newbyteorder("=")
    is_stable = wants_stable(kind, stable)
    if native.kind in "SUc" or native.itemsize > 8:
        if PyDataType_GetArrFuncs(<cnp.PyArray_Descr*>native).compare == NULL:
            return sorted_by_numpy(a, axis, kind, order, stable, out)
    target = out
    if (out is not None and along == ndim - 1 and out.dtype.isnative
            and cnp.PyArray_IS_C_CONTIGUOUS(out) and cnp.PyArray_ISALIGNED(out)):
        result = out
    else:
        # The layout of np.sort's copy, if the rows are contiguous in it.
        result = np.empty(np.moveaxis(x, along, -1).shape, native)
    rows = x if along == ndim - 1 else np.moveaxis(x, along, -1)
    if not (rows.dtype == native and cnp.PyArray_IS_C_CONTIGUOUS(rows) and cnp.PyArray_ISALIGNED(rows)):
        if may_overlap(rows, result):
            rows = rows.astype(native, order="C")
        else:
            result[...] = rows
            rows = result
    elif cnp.PyArray_DATA(rows) == cnp.PyArray_DATA(result):
        rows = result
    elif may_overlap(rows, result):
        rows = rows.copy()
    sort_into(rows, result, is_stable, rows is target)
    if result is target:
        return target
    sorted_ = result if along == ndim - 1 else np.moveaxis(result, -1, along)
    if target is not None:
        target[...] = sorted_
        return target
    if axis is None:
        return sorted_.astype(x.dtype, copy=False)
    # As np.sort's copy: in the array's own layout and byte order.
    target = np.empty_like(x)
    if target.dtype == sorted_.dtype and target.strides == sorted_.strides:
        return sorted_
    target[...] = sorted_
    return target


cdef bint half_is_wrong(str kind, int64_t itemsize):
    """Half precision: NumPy's default kernel (seen in 2.4.6 with AVX-512) leaves
    arrays of some 10,000 items and more out of order; its stable one is right."""
    return kind == "f" and itemsize == 2


cdef object sorted_by_numpy(object a, object axis, object kind, object order, object stable, object out):
    if cnp.PyArray_CheckExact(a) and half_is_wrong(a.dtype.kind, a.dtype.itemsize):
        if stable is None and kind in (None, "quicksort", "heapsort"):
            kind = "stable"
    if out is None:
        return np.sort(a, axis, kind, order, stable=stable)
    if out is a and axis is not None:
        out.sort(axis, kind, order, stable=stable)
    else:
        out[...] = np.sort(a, axis, kind, order, stable=stable)
    return out


cdef object check_sort_out(object a, object axis, object out):
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out: must be an array, not {type(out).__name__}")
    shape = (a.size,) if axis is None else a.shape
    if out.shape != shape:
        raise ValueError(f"out: shape {out.shape} does not match that of the result, {shape}")
    if out.dtype != a.dtype:
        raise TypeError(f"out: dtype {out.dtype} does not match that of the result, {a.dtype}")
    if not out.flags.writeable:
        raise ValueError("out: output array is read-only")
