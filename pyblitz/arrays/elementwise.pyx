# cython: wraparound=True, boundscheck=True
"""Calls of ufuncs on arrays: see elementwise.pxd."""
import numpy as np

cimport numpy as cnp
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_New
from libc.stdint cimport int64_t
from numpy cimport ndarray, ufunc

from pyblitz.arrays.common cimport (
    FIRST_ITEMS, SLICE_ITEMS, Resolved, Slices, allocated, at, broadcast_shape, fill_map, is_numpys, is_quick,
    longest_axis, make_outputs, outputs_are_safe, report_flags, resolve, resolved_lately, run_map)
from pyblitz.arrays.evaluate cimport collect
from pyblitz.arrays.front cimport DEAR_NS, DIRECT_CAST_NS, DIRECT_NS, alone, left, left_dtype, too_small
from pyblitz.arrays.memory cimport empty
from pyblitz.arrays.nodes cimport Node, node_of, number_node, set_new, ufunc_node
from pyblitz.kernels.blocks cimport LEAF_BYTES
from pyblitz.kernels.map cimport MAP_DIMS, Map, map_of_loop, pace_after
from pyblitz.runtime.os cimport now_ns

cnp.import_array()

cdef enum:
    # No call whose arrays have no more bytes is shared; of a quick ufunc it is the second number.
    SMALL_BYTES = 8192
    SMALL_QUICK_BYTES = 65536
    # Of a slice whose items take long.
    DEAR_SLICE_ITEMS = 16384
    # As many as there may be: no leaf depends on such a pace.
    MANY_THREADS = 8


cdef object power = np.power        # whose loop raises for integers


cdef inline bint is_a_leaf(int64_t bytes, bint quick) noexcept:
    """Of all operands together: nobody would come to share it."""
    return bytes <= (LEAF_BYTES if quick else 2 * SMALL_BYTES)


cdef bint are_small(tuple arrays, int64_t limit) except -1:
    cdef int64_t bytes = 0
    cdef ndarray first = None
    for x in arrays:
        if cnp.PyArray_CheckExact(x):
            bytes += cnp.PyArray_NBYTES(<ndarray>x)
            if first is None and cnp.PyArray_NDIM(<ndarray>x) > 0:
                first = x
            # A small column and a small row are broadcast to a large plane.
            elif cnp.PyArray_NDIM(<ndarray>x) > 0 and (
                    cnp.PyArray_NDIM(<ndarray>x) > 1 or cnp.PyArray_NDIM(first) > 1):
                if (<object>x).shape != (<object>first).shape:
                    return False
    return bytes <= limit


cdef bint as_fast_alone(ufunc fn, tuple given, int64_t bytes) except -1:
    """Whether one thread would do what NumPy does: of numbers, by a loop that does not raise, for we say where."""
    if not alone(bytes) or fn is power or not is_numpys(fn):
        return False
    for x in given:
        if isinstance(x, cnp.dtype) and (<cnp.dtype>x).kind not in b"biufc":
            return False
    return True


cdef bint needs_cast(Resolved r, tuple given) except -1:
    """Whether NumPy casts an array for its loop."""
    cdef Py_ssize_t i
    if r.dtypes is None:
        return True
    for i in range(len(given)):
        if isinstance(given[i], cnp.dtype) and given[i] is not r.dtypes[i]:
            return True
    return False


cdef struct Operands:
    int64_t size        # elements of the result
    int64_t bytes       # of one element of all operands together
    bint alike          # whether all arrays have its shape


cdef bint fits_into(ndarray x, ndarray whole) noexcept:
    """Whether x is broadcast to the shape of `whole`."""
    cdef int i, k = cnp.PyArray_NDIM(whole) - cnp.PyArray_NDIM(x)
    if k < 0:
        return False
    for i in range(cnp.PyArray_NDIM(x)):
        if cnp.PyArray_DIM(x, i) != cnp.PyArray_DIM(whole, k + i) and cnp.PyArray_DIM(x, i) != 1:
            return False
    return True


cdef inline bint is_pythons(object x) noexcept:
    return type(x) is int or type(x) is float


cdef tuple plain_operands(tuple arrays, object out, Operands* o):
    """What `resolve` is given for arrays and numbers of Python's, if one of the arrays has the shape of the result;
    else None."""
    cdef ndarray whole = None
    cdef tuple given
    cdef Py_ssize_t i, n = len(arrays)
    for x in arrays:
        if cnp.PyArray_CheckExact(x):
            if whole is None or cnp.PyArray_SIZE(<ndarray>x) > cnp.PyArray_SIZE(whole):
                whole = x
        elif not is_pythons(x):
            return None
    if whole is None or out is not None and not (
            cnp.PyArray_CheckExact(out) and cnp.PyArray_SAMESHAPE(<ndarray>out, whole)):
        return None
    o.size = cnp.PyArray_SIZE(whole)
    o.bytes = cnp.PyArray_ITEMSIZE(whole if out is None else <ndarray>out)
    o.alike = True
    given = PyTuple_New(n + 1)
    for i in range(n):
        if not cnp.PyArray_CheckExact(arrays[i]):
            set_new(given, i, type(arrays[i]))
            continue
        if not fits_into(<ndarray>arrays[i], whole):
            return None
        o.bytes += cnp.PyArray_ITEMSIZE(<ndarray>arrays[i])
        o.alike = o.alike and cnp.PyArray_SAMESHAPE(<ndarray>arrays[i], whole)
        set_new(given, i, <object>cnp.PyArray_DESCR(<ndarray>arrays[i]))
    set_new(given, n, None if out is None else <object>cnp.PyArray_DESCR(<ndarray>out))
    return given


cdef object call_timed(Resolved r, int64_t size, ufunc fn, tuple arrays, dict options):
    """NumPy's own call, which took little time so far; options: those that are not the default, or None."""
    cdef int64_t begun = now_ns()
    result = fn(*arrays) if options is None else fn(*arrays, **options)
    # A first call is slowed by page faults: believe what is faster.
    if r.pace > 0:
        r.pace = min(2 * r.pace, <double>(now_ns() - begun) / size)
    return result


cdef class SlicedMap(Slices):
    cdef object fn
    cdef list ins           # broadcast to the full shape, or of no dimension
    cdef tuple outs
    cdef dict options
    cdef object where       # a mask of the full shape, or None
    cdef int axis           # the one that is cut
    cdef int64_t unit       # how many elements along the axis are one item: cuts are between items
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
        self.fn(*[a[index] if a.ndim > 0 else a for a in self.ins], out=tuple([o[index] for o in self.outs]), **options)


cdef tuple plain_signature(ufunc fn, object given):
    """A ufunc's ``signature`` as one dtype or None for each operand; None if it is
    of another form."""
    if type(given) is str:
        given = tuple(given.replace("->", ""))
    if type(given) is not tuple or len(given) != fn.nargs:
        return None
    cdef tuple dtypes = None
    try:
        dtypes = tuple([None if t is None else np.dtype(t) for t in given])
    except TypeError:
        pass
    return dtypes


cdef tuple signature_of(ufunc fn, object dtype):
    return (None,) * fn.nin + (np.dtype(dtype),) * fn.nout


cdef object broadcast(ndarray a, tuple shape):
    """Of this shape; itself, if it has it.  A view has other strides along axes of length 1, so that
    NumPy no longer sees that an output is this very input: it then writes to a temporary, and copies
    also what ``where=`` leaves alone there (2.4.6)."""
    return a if (<object>a).shape == shape else np.broadcast_to(a, shape)


cdef int64_t slice_items(ufunc fn, Resolved r):
    """Of a slice, by what an item takes NumPy; of a user's ufunc nobody knows, and the first is small."""
    if not is_numpys(fn):
        return FIRST_ITEMS
    return DEAR_SLICE_ITEMS if r.dear and r.dtypes[0].kind in "fc" else SLICE_ITEMS


cdef object slice_map(ufunc fn, Resolved r, list ops, int inputs, object mask, tuple signature, object casting,
                      int ndim, cnp.npy_intp* shape, int64_t size):
    cdef SlicedMap s
    cdef int64_t n
    cdef tuple full = tuple([shape[i] for i in range(ndim)])
    s = SlicedMap(fn.__name__, True)
    s.fn = fn
    # One number stays one: NumPy 2.2 takes the square of x ** 2.0 if both are, not of
    # 2.0 as often as there are elements.
    s.ins = [broadcast(a, full) if a.ndim > 0 else a for a in ops[:inputs]]
    s.outs = tuple(ops[inputs:])
    s.options = {"casting": casting}
    if signature is not None:
        s.options["signature"] = signature
    s.where = None if mask is None else broadcast(mask, full)
    s.axis = longest_axis(full, range(ndim))
    s.unit = 1
    if size > 0:
        n = full[s.axis]
        if is_numpys(fn):
            s.run(max(1, slice_items(fn, r) * n // size), n, False)
        else:
            # Those after the first are sized by time, in steps that leave each element where it was in a
            # SIMD loop.
            s.unit = 64 if ndim == 1 else 1
            s.n = n
            s.run(-max(1, slice_items(fn, r) * n // size // s.unit), (n + s.unit - 1) // s.unit, False)
        report_flags(fn.__name__, s.flags.seen)


cdef class UfuncCall:
    """The arguments of a ufunc's call, as operands."""
    cdef ufunc fn
    cdef int inputs, outputs, ndim
    cdef cnp.npy_intp shape[64]
    cdef int64_t size       # elements of the result
    cdef int64_t bytes      # of one element of all operands together
    cdef list ops           # None: an output to be made
    cdef list given         # their dtypes, as `resolve` takes them
    cdef object mask        # where=, or None
    cdef tuple signature
    cdef str order          # the result's memory order

    cdef object take_operands(self, tuple arrays, tuple outs, object where):
        """None, or what is left to NumPy."""
        cdef int i
        for x in arrays:
            if type(x) is int or type(x) is float or type(x) is complex:
                self.given.append(type(x))
                # its dtype is known only when the others' are
                self.ops.append(np.asarray(0.0))
            else:
                if not cnp.PyArray_CheckExact(x):
                    x = np.asarray(x)
                self.given.append((<ndarray>x).dtype)
                self.ops.append(x)
        for x in outs:
            if x is not None and not cnp.PyArray_CheckExact(x):
                return left("an out that is no array")
            self.given.append(None if x is None else (<ndarray>x).dtype)
            self.ops.append(x)
        if where is not True:
            self.mask = np.asarray(where)
            if (<ndarray>self.mask).dtype != np.bool_:
                return left("where= that is not of booleans")
        # The mask takes part in broadcasting as one more input.
        masks = [] if self.mask is None else [self.mask]
        if not broadcast_shape(masks + self.ops, self.inputs + len(masks), &self.ndim, self.shape):
            return left("shapes that do not fit")
        self.size = 1
        for i in range(self.ndim):
            self.size *= self.shape[i]
        for x in self.ops:
            self.bytes += 8 if x is None else cnp.PyArray_ITEMSIZE(<ndarray>x)
        return None

    cdef object take_options(self, object dtype, dict options):
        if dtype is not None:
            self.signature = signature_of(self.fn, dtype)
        for key, value in options.items():
            if key in ("signature", "sig") and self.signature is None:
                self.signature = plain_signature(self.fn, value)
                if self.signature is None:
                    return left("an unusual signature=")
            elif key == "order" and type(value) is str and value in ("C", "F", "A", "K"):
                self.order = value
            elif key != "subok" or type(value) is not bool:     # arrays here have no subclass
                return left("unusual options")
        return None

    cdef bint fits(self, Resolved r) except -1:
        """Whether the loop can be called on the operands as they are."""
        cdef ndarray a
        cdef int i
        if r.loop == NULL or self.mask is not None or self.ndim > MAP_DIMS:
            return False
        for i in range(len(self.ops)):
            a = self.ops[i]
            if a is not None and (a.dtype != r.dtypes[i] or not cnp.PyArray_ISALIGNED(a)):
                return False
        return True


cdef list separate_outputs(UfuncCall c):
    """In the place of given outputs that overlap an input, arrays of their own; None: not all
    can be written to by several threads."""
    masks = [] if c.mask is None else [c.mask]
    result = list(c.ops)
    for i in range(c.inputs, len(c.ops)):
        if c.ops[i] is None:
            continue
        if not outputs_are_safe([c.ops[i]], 0):
            return None
        if not outputs_are_safe(masks + c.ops[:c.inputs] + [c.ops[i]], c.inputs + len(masks)) or (
                masks and not outputs_are_safe(masks + [c.ops[i]], 1)):
            # Where a mask leaves it alone, it stays as it is.
            result[i] = c.ops[i].copy() if masks else np.empty_like(c.ops[i])
    return result if outputs_are_safe(result[c.inputs:], 0) else None


cdef object why_no_loop(list given):
    for t in given:
        if isinstance(t, np.dtype) and t.kind in "OTV":
            return left_dtype(t)
    return left("types for which it has no loop")


cdef object compute(UfuncCall c, Resolved r, tuple outs, object casting):
    """The results, by the ufunc's loop or by NumPy on slices."""
    cdef Map m
    cdef int i
    cdef bint fast = c.fits(r)
    cdef list ops = c.ops
    if c.mask is not None:
        # Its memory order counts too.
        ops = allocated([c.mask] + ops, c.inputs + 1, (None,) + r.dtypes, c.order)[1:]
    elif c.order != "K":
        ops = allocated(ops, c.inputs, r.dtypes, c.order)
    make_outputs(ops, c.inputs, r.dtypes, c.ndim, c.shape)
    if fast:
        fill_map(&m, ops, c.ndim, c.shape, c.inputs)
        run_loop(&m, r, ops, c.fn)
    else:
        slice_map(c.fn, r, ops, c.inputs, c.mask, c.signature, casting, c.ndim, c.shape, c.size)
    for i in range(c.outputs):
        if outs[i] is not None and outs[i] is not ops[c.inputs + i]:
            # It was computed apart.
            outs[i][...] = ops[c.inputs + i]
            ops[c.inputs + i] = outs[i]
    return ops[c.inputs] if c.outputs == 1 else tuple(ops[c.inputs:])


cdef int run_loop(Map* m, Resolved r, list ops, ufunc fn) except -1:
    """The ufunc's loop, of operands that are in the map."""
    map_of_loop(m, r.loop, r.data)
    m.pace = r.pace if r.pace > 0 or not r.dear else DEAR_NS
    m.dear = r.dear
    run_map(m, ops, fn.__name__)
    r.pace = m.pace
    return 0


cdef object map_rows(ufunc fn, Resolved r, list ops, ndarray out):
    """The call on arrays of one shape whose elements lie side by side, all in one order, and on numbers; None:
    they do not, or NumPy's loop takes other types."""
    cdef Map m
    cdef ndarray a, first = None
    cdef Node number
    cdef list arrays
    cdef bint c_order = True, f_order = True
    cdef int i
    if r.loop == NULL:
        return None
    ops.append(out)
    for i in range(len(ops)):
        if ops[i] is None or is_pythons(ops[i]):
            continue
        a = ops[i]
        first = a if first is None else first
        c_order = c_order and cnp.PyArray_IS_C_CONTIGUOUS(a)
        f_order = f_order and cnp.PyArray_IS_F_CONTIGUOUS(a)
        if not (c_order or f_order) or not cnp.PyArray_ISALIGNED(a) or (
                <PyObject*>cnp.PyArray_DESCR(a) != <PyObject*>r.dtypes[i]):
            return None
    if out is not None:
        arrays = [x for x in ops if not is_pythons(x)]
        if not outputs_are_safe(arrays, len(arrays) - 1):
            return None
    # Last, for NumPy may warn of a number that it converts.
    for i in range(fn.nin):
        if is_pythons(ops[i]):
            number = number_node(ops[i], r.dtypes[i]) if (<cnp.dtype>r.dtypes[i]).kind != b"m" else None
            if number is None:
                return None
            ops[i] = number.what
    if out is None:
        out = empty(cnp.PyArray_NDIM(first), cnp.PyArray_DIMS(first), r.dtypes[fn.nin], not c_order)
        ops[fn.nin] = out
    m.operands = len(ops)
    m.dims = 1
    m.size = m.shape[0] = cnp.PyArray_SIZE(first)
    for i in range(m.operands):
        a = ops[i]
        m.base[i] = <char*>cnp.PyArray_DATA(a)
        m.strides[0][i] = cnp.PyArray_ITEMSIZE(a) if cnp.PyArray_SAMESHAPE(a, first) else 0
    run_loop(&m, r, ops, fn)
    return out


cdef object map_cast(UfuncCall c, Resolved r, tuple arrays, object out):
    """Of operands that NumPy casts for its loop: as an expression of casts and the loop, in one pass.  None: no
    expression does what NumPy does."""
    cdef int64_t begun
    cdef object node, result
    cdef cnp.npy_intp[64] shape
    cdef int ndim
    if r.loop == NULL or not r.numeric or c.mask is not None or c.outputs != 1 or c.signature is not None or (
            c.order != "K"):
        return None
    for dtype in r.dtypes:
        if (<cnp.dtype>dtype).kind in b"mM":
            return None     # their casts may warn
    for x in c.ops:
        if x is not None and not (cnp.PyArray_ISALIGNED(<ndarray>x) and cnp.PyArray_ISNOTSWAPPED(<ndarray>x)):
            return None
    # What a result meets that is cast NumPy reports as the ufunc's; an out may have a larger shape.
    if out is not None and ((<ndarray>out).dtype != r.dtypes[c.inputs] or not outputs_are_safe([out], 0)
                            or not broadcast_shape(c.ops[:c.inputs], c.inputs, &ndim, shape)
                            or ndim != c.ndim or not cnp.PyArray_CompareLists(shape, c.shape, ndim)):
        return None
    node = ufunc_node(c.fn, [node_of(x) for x in arrays], {})
    if type(node) is not Node:
        return None
    begun = now_ns()
    result = collect([node], out)[0]
    r.pace = pace_after(r.pace, <double>(now_ns() - begun) / c.size, MANY_THREADS)
    return result


cdef object small_or_timed(ufunc fn, tuple arrays, object out, object dtype, object casting, dict options):
    """Of a call with all inputs and no mask: what it comes to, if it is small, or took NumPy little time so
    far, or is one of rows; None: none of these."""
    cdef bint quick = is_quick(fn), small = are_small(arrays, SMALL_QUICK_BYTES)
    cdef Operands o
    cdef tuple given = None
    cdef Resolved r
    if small and (quick or are_small(arrays, SMALL_BYTES)):
        return too_small
    if fn.nout == 1 and dtype is None and not options and casting == "same_kind":
        given = plain_operands(arrays, out, &o)
    if given is None:
        return too_small if small else None
    if is_a_leaf(o.size * o.bytes, quick) or as_fast_alone(fn, given, o.size * o.bytes):
        return too_small
    r = resolved_lately(fn, given)
    if r is None:
        return None
    if 0 < r.pace * o.size < (DIRECT_CAST_NS if needs_cast(r, given) else DIRECT_NS):
        return call_timed(r, o.size, fn, arrays, None if out is None else {"out": out})
    return map_rows(fn, r, list(arrays), out) if o.alike else None


cdef object map_ufunc(ufunc fn, tuple arrays, object out, object where, object dtype,
                      object casting, dict options):
    cdef UfuncCall c
    cdef Resolved r
    cdef int i
    cdef tuple outs
    cdef object done, made
    cdef Node number
    if len(arrays) == fn.nin and where is True:
        done = small_or_timed(fn, arrays, out, dtype, casting, options)
        if done is not None:
            return done
    c = UfuncCall.__new__(UfuncCall)
    c.fn, c.inputs, c.outputs, c.ops, c.given, c.order = fn, fn.nin, fn.nout, [], [], "K"
    if len(arrays) != c.inputs:
        if not c.inputs < len(arrays) <= c.inputs + c.outputs or out is not None:
            return left("another number of arguments")
        # Outputs by position.
        out = arrays[c.inputs:] + (None,) * (c.inputs + c.outputs - len(arrays))
        arrays = arrays[:c.inputs]
    outs = (None,) * c.outputs if out is None else out if type(out) is tuple else (out,)
    if type(casting) is not str or len(outs) != c.outputs:
        return left("an unusual casting= or out=")
    declined = c.take_operands(arrays, outs, where)
    if declined is None and is_a_leaf(c.size * c.bytes, is_quick(fn)):
        return too_small
    if declined is None:
        declined = c.take_options(dtype, options)
    if declined is not None:
        return declined
    r = resolve(fn, tuple(c.given), c.signature, casting, False)
    if (r.pace * c.size < (DIRECT_NS if c.fits(r) else DIRECT_CAST_NS) and r.pace > 0) or (
            alone(c.size * c.bytes) and c.fits(r)):
        if out is not None:
            options = {**options, "out": outs}
        if dtype is not None:
            options = {**options, "dtype": dtype}
        return call_timed(r, c.size, fn, arrays, {**options, "where": where, "casting": casting})
    if r.dtypes is None:
        return why_no_loop(c.given)
    if not c.fits(r):
        if is_numpys(fn) and alone(c.size * c.bytes):
            return too_small        # all would be this thread's
        made = map_cast(c, r, arrays, outs[0]) if casting == "same_kind" and c.size > 0 else None
        if made is not None:
            return made
        if c.size <= slice_items(fn, r):
            return too_small        # it would be one slice
    ops = separate_outputs(c)
    if ops is None:
        return left("outputs that overlap")
    for i in range(c.inputs):
        if type(c.given[i]) is type:
            number = number_node(arrays[i], r.dtypes[i]) if (<cnp.dtype>r.dtypes[i]).kind != b"m" else node_of(
                np.asarray(arrays[i], r.dtypes[i]))
            if number is None:
                # An error for most ufuncs, but a comparison has an answer.
                return left("numbers beyond the dtype")
            ops[i] = number.what
    c.ops = ops
    return compute(c, r, outs, casting)
