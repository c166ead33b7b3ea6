# cython: wraparound=True, boundscheck=True
"""``par_iter``: expressions of arrays that are computed in one pass.

Operators and ufuncs on a ``ParIter`` build nodes (nodes.pxd); adaptors that choose
elements by position are pushed down to the arrays, as views; what ends the chain makes
one program of it all and runs that.
"""
import array
import math
import operator
import threading
import weakref
from inspect import signature
from types import FunctionType

import numpy as np

cimport cython
cimport numpy as cnp
from cpython.contextvars cimport PyContext_CopyCurrent
from cpython.object cimport Py_EQ, Py_NE
from libc.stdint cimport int64_t, uint32_t
from numpy cimport ndarray, ufunc

from pyblitz._html import plan
from pyblitz.arrays.blocks cimport CHECKED_ITEMS, check_items, refuse_known
from pyblitz.arrays.common cimport SLICE_ITEMS, Slices, clip, is_half, numbas_ufunc, report_flags
from pyblitz.arrays.compiled cimport CompiledKernel, as_kernel, check_dtype
from pyblitz.arrays.copy cimport native
from pyblitz.arrays.evaluate cimport (
    apply, apply_where, collect, count_node, few_values, find_node, run_for_effects, values_of)
from pyblitz.arrays.fold cimport (
    any_of, fold_kernel, fold_node, mean_of, reduce_parts, variance_of)
from pyblitz.arrays.front cimport (
    Ufunc, bare, check_out, computed, computes_alike, member, no_value, overrides, refuse_lazy)
from pyblitz.arrays.front import complete_methods, ending, lazy_classes
from pyblitz.arrays.nodes cimport (
    NODE_BLOCKS, NODE_CONSTANT, NODE_INDEX, NODE_INPUT, NODE_LOOK, Expression, Node, call_kernel, cast,
    depends, expression_of, function_of, index_node, keep, kept_node, node_of, operation_node,
    other_filter, remember, result_of, simple_node, sliced)
from pyblitz.arrays.predicates cimport (
    STANDS_MASK, STANDS_VALUE, fitting, of_known, stands_for, truth_of)
from pyblitz.arrays.predicates import lazy_arrays
from pyblitz.arrays.program cimport plan_of
from pyblitz.arrays.sort import par_sort
from pyblitz.host.blocks cimport called_alone
from pyblitz.kernels.find cimport FIND_ANY, FIND_FIRST, FIND_LAST
from pyblitz.runtime.atomic cimport atomic_u32, u32_fetch_add_seq_cst, u32_load_relaxed

cnp.import_array()

cdef enum:
    # A function that gets blocks of so many elements in all is checked; fewer may be one block.
    CHECKED_FROM = 4096
    # An expression of more nodes is computed before it is sliced.
    MOST_SLICED = 64

# NumPy's, without a look into its module at each operator.
cdef object add = np.add, subtract = np.subtract, multiply = np.multiply, power = np.power
cdef object true_divide = np.true_divide, floor_divide = np.floor_divide, remainder = np.remainder
cdef object bitwise_and = np.bitwise_and, bitwise_or = np.bitwise_or, bitwise_xor = np.bitwise_xor
cdef object left_shift = np.left_shift, right_shift = np.right_shift, invert = np.invert
cdef object negative = np.negative, positive = np.positive, absolute = np.absolute
cdef object square = np.square
cdef object where = np.where, astype = getattr(np, "astype", None)      # since NumPy 2.1
cdef dict no_options = {}
# By Py_LT, Py_LE, and so on.
cdef tuple comparisons = (np.less, np.less_equal, np.equal, np.not_equal, np.greater, np.greater_equal)


class _Untraceable(TypeError):
    """A function wants to know values that are not computed yet."""


# Of each thread: the context, and so NumPy's errstate, in which the function was called that is being traced.
cdef object tracing = threading.local()
# How many threads trace one, for that is asked in less time.
cdef atomic_u32 tracers


cdef object traced_in():
    """The context of this thread's; None: it traces none."""
    # relaxed: only what this thread itself adds matters to it
    return getattr(tracing, "context", None) if u32_load_relaxed(&tracers) > 0 else None


cdef bint is_errstate_another() except -1:
    """Than when the function was called."""
    cdef bint same = False
    before = traced_in()
    if before is None:
        return True
    try:
        # Equal contexts have the same, and that is soon told.
        same = PyContext_CopyCurrent() == before
    except Exception:
        # Somebody's variable cannot be compared.
        pass
    return not same and np.geterr() != before.run(np.geterr)


cdef ParIter wrap(list parts, bint traced=False):
    cdef ParIter x = ParIter.__new__(ParIter)
    if traced and is_errstate_another():
        raise _Untraceable("a step knows no np.errstate, and is made while its function is traced")
    x.parts = parts
    x.traced = traced
    return x


cdef object wrapped(object nodes, bint traced):
    """What apply gave, as the caller sees it."""
    if type(nodes) is tuple:
        return tuple([wrap([n], traced) for n in nodes])
    return wrap([nodes], traced)


def par_iter(*arrays):
    """Lazy arrays: what is written with them is computed in one pass, on all cores.

    Operators and ufuncs on a lazy array give another one. Nothing is computed until a
    method that ends the chain is called (``collect``, ``sum``, ``any``, ...) or it is handed
    to a function that needs its elements. Then all steps run on one block of some thousand
    elements before the next, so that no temporary of the arrays' size exists.

    Parameters
    ----------
    *arrays : array_like
        At least one. Arrays are not copied: what is in them when the chain ends counts.

    Returns
    -------
    ParIter or tuple of ParIter
        One for each array.

    Raises
    ------
    TypeError
        Without an array; for numbers and arrays of no axis, as ``iter`` does; for objects,
        strings and structured arrays; for masked arrays, matrices, and other subclasses that
        compute otherwise than arrays.

    Notes
    -----
    Values and dtypes are what NumPy gives for the same expression; common subexpressions
    are computed once, and what consists of numbers only when it is written. Floating-point
    warnings come when the chain ends. What needs the GIL (Python functions that do not
    work on lazy arrays, ufuncs of others) is called with one block after another.
    ``print(x)`` shows the plan.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> x, y = pb.par_iter(np.arange(5.0), np.ones(5))
    >>> (np.sqrt(x) * 2 - y).collect()
    array([-1.        ,  1.        ,  1.82842712,  2.46410162,  3.        ])
    >>> ((x - x.mean()) ** 2).sum()
    np.float64(10.0)
    >>> x.filter(lambda v: v % 2 == 0).map(np.square).collect()
    array([ 0.,  4., 16.])
    """
    if not arrays:
        raise TypeError("par_iter: at least one array is needed")
    if len(arrays) == 1:
        return lazy_of(arrays[0], 0)
    return tuple([lazy_of(a, i) for i, a in enumerate(arrays)])


cdef ParIter lazy_of(object a, int i):
    """An argument of par_iter, the one at i."""
    if isinstance(a, ParIter):
        return a
    if not cnp.PyArray_CheckExact(a):
        given = type(a)
        a = member(a, f"arrays[{i}]", "par_iter")
        if issubclass(given, np.ndarray) and not computes_alike(given):
            raise TypeError(f"arrays[{i}]: {given.__name__} computes otherwise than arrays; give np.asarray of it")
    if (<cnp.dtype>cnp.PyArray_DESCR(<ndarray>a)).kind not in b"biufcmM":
        raise TypeError(f"par_iter: expected arrays of numbers or times, not {a.dtype}")
    if not cnp.PyArray_NDIM(<ndarray>a):
        raise TypeError(f"par_iter: iteration over a 0-d array (arrays[{i}])")
    return wrap([node_of(a)])


cdef bint is_scalar(object x):
    return isinstance(x, (int, float, complex, np.generic)) or (isinstance(x, np.ndarray) and x.ndim == 0)


cdef list lengths(list parts):
    return [(<Node>p).shape[0] for p in parts]


cdef list splits(Node node, list sizes):
    """A node cut into parts of these lengths."""
    made = []
    start = 0
    for size in sizes:
        made.append(select(node, slice(start, start + size)))
        start += size
    return made


cdef list operand_parts(object x, list like):
    """An operand's parts beside those of another."""
    cdef Node n
    if isinstance(x, ParIter):
        if fits((<ParIter>x).parts, like):
            return (<ParIter>x).parts
        n = (<ParIter>x).settled().parts[0]
    else:
        n = node_of(x)
    if len(like) == 1:
        return [n]
    if n.kind == NODE_CONSTANT:
        return [n] * len(like)
    if n.shape is None or any([(<Node>p).shape is None for p in like]):
        raise other_filter()
    if len(n.shape) < len((<Node>like[0]).shape) or n.shape[0] == 1:
        return [n] * len(like)
    sizes = lengths(like)
    if n.shape[0] != sum(sizes):
        raise ValueError(f"operands could not be broadcast together with lengths {n.shape[0]} and {sum(sizes)}")
    return splits(n, sizes)


cdef bint fits(list parts, list like):
    """Whether parts lie beside those of another."""
    cdef Node a, b
    if len(parts) != len(like):
        return False
    if len(parts) > 1:
        for x, y in zip(parts, like):
            a, b = x, y
            if a.domain is not b.domain or (a.shape is None) != (b.shape is None) or (
                    a.shape is not None and (len(a.shape) != len(b.shape) or a.shape[0] != b.shape[0])):
                return False
    return True


cdef bint splittable(object x, ParIter like):
    """Whether operand_parts can cut it: its first axis is that of the parts, or it has none."""
    if is_scalar(x):
        return True
    shape = x.shape if isinstance(x, ParIter) else np.shape(x)
    if shape is None or like.shape is None:
        return True
    if len(shape) != like.ndim:
        return len(shape) < like.ndim
    return shape[0] == like.shape[0] or (shape[0] == 1 and like.shape[0] != 1)


cdef object array_function = np.ndarray.__array_function__


class _OfTheClass:
    """A method that NumPy finds, for it looks at the class; who looks at the object, and would
    keep what has it as an array of its own (xarray), converts it."""

    def __init__(self, fn):
        self.fn = fn

    def __get__(self, x, owner=None):
        if x is not None:
            raise AttributeError(self.fn.__name__)
        return self.fn


# Functions that write to their first parameter, and its name.
cdef dict writers = {np.copyto: "dst", np.put: "a", np.place: "arr", np.putmask: "a",
                     np.put_along_axis: "arr", np.fill_diagonal: "a"}
cdef dict places_of_out = {}    # function -> which positional parameter `out` is, or -1


cdef int place_of_out(object fn) except -2:
    if fn not in places_of_out:
        try:
            names = list(signature(fn).parameters)
        except (TypeError, ValueError):
            names = []
        places_of_out[fn] = names.index("out") if "out" in names else -1
    return places_of_out[fn]


def _array_function(x, fn, types, args, kwargs):
    cdef bint ours = all([t is ParIter or t.__array_function__ is array_function for t in types])
    if ours and fn is where and len(args) == 3:
        try:
            return call(fn, args, no_options)
        except (OverflowError, TypeError):
            pass        # NumPy does it, or says why not
    if fn in writers:
        refuse_lazy(fn.__name__, args[0] if args else kwargs.get(writers[fn]))
    place = place_of_out(fn)
    refuse_lazy("out", args[place] if 0 <= place < len(args) else kwargs.get("out"))
    # Where NumPy asks for what lazy arrays have, too, nothing need be computed; astype asks for arrays.
    if ours and hasattr(ParIter, fn.__name__) and fn is not astype:
        return fn._implementation(*args, **kwargs)
    # Of arrays it is NumPy's, or that of others that ask to be asked.
    arrays, named = computed(tuple(args), True), {name: computed(a, True) for name, a in kwargs.items()}
    if arrays is not args or any([named[name] is not a for name, a in kwargs.items()]):
        return fn(*arrays, **named)
    # None is an argument: it is like= that is lazy.
    return getattr(fn, "_implementation", fn)(*args, **kwargs) if ours else NotImplemented


cdef object applied(object fn, list args, dict options):
    return apply_where(args) if fn is where else apply(fn, args, options)


cdef ParIter simple_call(object fn, tuple inputs):
    """``fn(*inputs)`` where simple_node does it, or None."""
    cdef bint traced = False
    cdef object a, b = None
    cdef Node n
    if type(fn) is not ufunc or len(inputs) > 2:
        return None
    a = inputs[0]
    if len(inputs) == 2:
        b = inputs[1]
    if type(a) is ParIter:
        if len((<ParIter>a).parts) > 1:
            return None
        traced = (<ParIter>a).traced
        a = (<ParIter>a).parts[0]
    if type(b) is ParIter:
        if len((<ParIter>b).parts) > 1:
            return None
        traced = traced or (<ParIter>b).traced
        b = (<ParIter>b).parts[0]
    n = simple_node(fn, a, b)
    return None if n is None else wrap([n], traced)


cdef object call(object fn, tuple inputs, dict options):
    """A ufunc, or np.where, on lazy arrays and others."""
    cdef ParIter x = None if options else simple_call(fn, inputs)
    return general_call(fn, inputs, options) if x is None else x


cdef object general_call(object fn, tuple inputs, dict options):
    """The same, of whatever simple_call does not do."""
    cdef ParIter x, first = None
    cdef list one = []
    cdef bint traced = False
    for a in inputs:
        if isinstance(a, ParIter):
            x = a
            traced = traced or x.traced
            if first is None or len(x.parts) > len(first.parts):
                first = x
            a = x.parts[0]
        one.append(a)
    if len(first.parts) == 1:
        return wrapped(applied(fn, one, options), traced)
    if len(first.parts) > 1 and not all([splittable(a, first) for a in inputs]):
        inputs = tuple([(<ParIter>a).settled() if isinstance(a, ParIter) else a for a in inputs])
        return call(fn, inputs, options)
    columns = [operand_parts(a, first.parts) if not is_scalar(a) else [a] * len(first.parts) for a in inputs]
    results = [applied(fn, list(row), options) for row in zip(*columns)]
    if fn is where or fn.nout == 1:
        return wrap(results, traced)
    return tuple([wrap(list(column), traced) for column in zip(*results)])


cdef Node select(Node node, object index):
    """``node[index]`` for a slice of the first axis."""

    def how(part):
        cdef Node p = part
        if len(p.shape) < len(node.shape) or (p.shape[0] == 1 and node.shape[0] != 1):
            return p        # broadcast along that axis
        if p.kind == NODE_INDEX:
            start, step = p.what
            places = range(p.shape[0])[index]
            return index_node(start + step * places.start, step * places.step, len(places))
        return node_of(p.what[index])

    return sliced(node, how)


cdef ParIter predicate_of(object what, tuple values):
    """The mask that a mask, value, ufunc, kernel or function stands for, lazily."""
    made = result_of_operators(what, values)
    if made is None:
        made = predicate_anew(what, values)
    if not isinstance(made, ParIter):
        raise TypeError("predicate: must give one value for each element")
    if (<cnp.dtype>(<Node>(<ParIter>made).parts[0]).dtype).kind != b"b":
        made = call(np.not_equal, (made, 0), {})
    return made


cdef object predicate_anew(object what, tuple values):
    """The same, as numbers or truth values."""
    cdef ParIter x = values[0]
    if type(what) is ParIter and (<cnp.dtype>(<Node>(<ParIter>what).parts[0]).dtype).kind == b"b":
        return beside(what, x)
    kind, thing = stands_for(what, x.dtype, "predicate")
    if kind == STANDS_MASK:
        return beside(wrap([node_of(thing)]), x)
    if kind == STANDS_VALUE:
        mask = np.equal(x, thing)
        # Beside a class of its own, which NumPy asks, it need not be lazy.
        return mask if type(mask) is ParIter else par_iter(truth_of(mask))
    return beside(thing, x) if isinstance(thing, ParIter) else mapped_truth(thing, values)


cdef ParIter beside(ParIter mask, ParIter x):
    """A mask that was given, which must have a value for each element of x, and no other."""
    if mask.has_shape():
        fitting(mask, x.shape if x.has_shape() else (x.size,), "predicate")
    elif not fits(mask.parts, x.parts) or (<Node>mask.parts[0]).domain is not (<Node>x.parts[0]).domain:
        raise other_filter()
    return mask


cdef object mapped_truth(object fn, tuple values):
    """The same of a predicate."""
    if isinstance(fn, ufunc) or numbas_ufunc(fn) is not None or as_kernel(fn) is not None:
        return mapped(fn, values, None)
    refuse_known(fn)
    return mapped_function(of_known(fn), values, None, True)


cdef ParIter result_of_operators(object fn, tuple values):
    """What a function gives that only applies operators to one lazy array and to numbers; None: that is
    not known of it."""
    cdef ParIter x = values[0]
    cdef Node node
    cdef Expression e
    if type(fn) is not FunctionType or len(values) > 1 or len(x.parts) > 1:
        return None
    # Inside another one that is asked, there may be another errstate.
    if traced_in() is not None:
        return None
    node = x.parts[0]
    e = expression_of(fn, node)
    if e is None:
        return None
    if e.steps is not None:
        node = result_of(e, node)
        return None if node is None else wrap([node])
    made = expressions_of(function_of(e), [(node,)], None)
    if made is None:
        return None
    remember(e, node, made[0])
    return wrap(made)


cdef bint is_looked_at(Node node) except -1:
    """Whether somebody is shown the elements, each once."""
    return any([(<Node>part).kind == NODE_LOOK for part in depends(node)])


cdef object some_items(Node node):
    """CHECKED_ITEMS of them, side by side, from the middle."""
    cdef int64_t n = node.shape[0], rows = -(-CHECKED_ITEMS * n // math.prod(node.shape))
    cdef int64_t first = n // 2 - rows // 2
    with np.errstate(all="ignore"):     # said when the chain ends
        return values_of(select(node, slice(first, first + rows))).reshape(-1)[:CHECKED_ITEMS]


cdef dict with_axis(object axis, dict options):
    """What NumPy's function is asked for, if not for all axes."""
    if axis is not None:
        options["axis"] = axis
    return options


cdef bint has_no_unit(object dtype) except -1:
    return dtype.kind in "mM" and np.datetime_data(dtype)[0] == "generic"


cdef object number_dtype(object dtype, object source):
    """A dtype that was asked for.  A time without a unit gets that of its source, as NumPy's do."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "biufcmM":
        raise TypeError(f"dtype: expected a number or time, not {dtype}")
    return np.empty(0, source).astype(dtype).dtype if source is not None and has_no_unit(dtype) else dtype


cdef object asked_for_expression(object fn, tuple row):
    """What a function gives for lazy arrays that know no values; None: it wants to know some."""
    before = traced_in()
    result = None
    u32_fetch_add_seq_cst(&tracers, 1)
    try:
        if before is None:
            tracing.context = PyContext_CopyCurrent()
        result = called_alone(fn, tuple([wrap([n], True) for n in row]))
    except Exception:
        pass
    finally:
        tracing.context = before
        u32_fetch_add_seq_cst(&tracers, <uint32_t>-1)
    return result


cdef object mapped(object fn, tuple values, object dtype, bint checked=True):
    """``fn`` of lazy arrays, element by element."""
    cdef CompiledKernel k
    cdef ParIter made = None if dtype is not None else result_of_operators(fn, values)
    if made is not None:
        return made
    fn = bare(fn)
    if dtype is not None:
        dtype = number_dtype(dtype, None)
    if isinstance(fn, ufunc):
        return call(fn, values, {} if dtype is None else {"dtype": dtype})
    if numbas_ufunc(fn) is not None:
        fn(*[np.ones(1, v.dtype) for v in values])
        return call(fn.ufunc, values, {} if dtype is None else {"dtype": dtype})
    k = as_kernel(fn)
    if k is None and not callable(fn):
        raise TypeError(f"fn: expected a ufunc, a compiled kernel or a callable, not {type(fn).__name__}")
    if k is not None:
        check_dtype(k, dtype)
        return wrap([call_kernel(k, row) for row in rows_of(values)])
    if checked:
        refuse_known(fn)
    return mapped_function(fn, values, dtype, checked)


cdef list rows_of(tuple values):
    """The nodes of each part."""
    cdef ParIter x = values[0]
    if len(values) == 1:
        return [(p,) for p in x.parts]
    return list(zip(*[operand_parts(v, x.parts) for v in values]))


cdef ParIter mapped_function(object fn, tuple values, object dtype, bint checked):
    """The same of a function of Python's."""
    cdef list rows = rows_of(values), made = expressions_of(fn, rows, dtype)
    return wrap(mapped_blocks(fn, rows, dtype, checked) if made is None else made)


cdef list expressions_of(object fn, list rows, object dtype):
    """Of a function of arrays, which is asked for the expression that it stands for; None: for none."""
    cdef Node n
    made = []
    for row in rows:
        result = asked_for_expression(fn, row)
        if not isinstance(result, ParIter) or len((<ParIter>result).parts) != 1:
            return None
        n = (<ParIter>result).parts[0]
        if n.shape != (<Node>row[0]).shape or n.domain is not (<Node>row[0]).domain:
            return None
        if dtype is None:
            made.append(n)
            continue
        wanted = number_dtype(dtype, n.dtype)
        if not np.can_cast(n.dtype, wanted, "same_kind"):
            raise TypeError(f"dtype: what fn gives, {n.dtype}, is not cast to {wanted}: that is no cast of the same "
                            "kind")
        made.append(n if n.dtype == wanted else cast(n, wanted))
    return made


cdef list mapped_blocks(object fn, list rows, object dtype, bint checked):
    """Of one that is called with blocks."""
    cdef Node n
    made = []
    for row in rows:
        n = row[0]
        if n.shape is None:
            row = tuple([node_of(a) for a in collect(list(row), None)])
            n = row[0]
        if dtype is None or has_no_unit(dtype):
            # The first element tells.
            one = [values_of(select(v, slice(0, 1))).reshape(-1)[:1] for v in row]
            found = np.asarray(called_alone(fn, tuple(one))).dtype
            if found.kind not in "biufcmM":
                raise TypeError(f"fn returned {found}; expected numbers or times")
            dtype = found if dtype is None else number_dtype(dtype, found)
        if checked and math.prod(n.shape) >= CHECKED_FROM and not any([is_looked_at(v) for v in row]):
            check_items(fn, [some_items(v) for v in row])
            checked = False
        made.append(operation_node(NODE_BLOCKS, fn, row, dtype))
    return made


@cython.auto_pickle(False)
@cython.c_api_binop_methods(True)
@cython.freelist(16)
cdef class ParIter:
    """A lazy array: see :func:`par_iter`, which makes them.

    Operators, comparisons and ufuncs work as on arrays and give lazy arrays. A lazy array
    is used any number of times; each end runs it anew. All ends take ``progress``, as the
    functions do: True, or a function of (done, total).

    Attributes
    ----------
    dtype : numpy.dtype
    shape : tuple of int, or None after a filter
    ndim, size : int

    Raises
    ------
    TypeError
        When it is called: lazy arrays come from :func:`par_iter`.

    Examples
    --------
    >>> import pyblitz as pb
    >>> x = pb.par_iter([1.0, 2.0, 3.0])
    >>> (x * x).sum()
    np.float64(14.0)
    """
    cdef list parts         # nodes; more than one after chain
    cdef bint traced        # a function is being asked for its expression

    __array_priority__ = 1000
    __hash__ = None
    __signature__ = signature(lambda *args: None)

    def __init__(self, *args):
        raise TypeError("ParIter: use par_iter")

    # ---- what it is

    @property
    def dtype(self):
        return (<Node>self.parts[0]).dtype

    @property
    def shape(self):
        cdef Node n = self.parts[0]
        if not self.has_shape():
            return None
        return n.shape if len(self.parts) == 1 else (sum(lengths(self.parts)),) + n.shape[1:]

    @property
    def ndim(self):
        return self.axes()

    cdef bint has_shape(self) noexcept:
        """Whether it has a shape: none of its parts is filtered."""
        for p in self.parts:
            if (<Node>p).shape is None:
                return False
        return True

    cdef Py_ssize_t axes(self) except -1:
        cdef tuple shape = (<Node>self.parts[0]).shape
        return 1 if shape is None else len(shape)

    @property
    def size(self):
        """Its number of elements, which after a filter are counted now."""
        self.known()
        if not self.has_shape():
            return self.count()
        return int(np.prod(self.shape, dtype=object))

    def __len__(self):
        self.known()
        return self.size if self.shape is None else self.shape[0]

    def __repr__(self):
        shape = "" if self.shape is None else list(self.shape)
        text = f"<ParIter of {self.dtype}{shape}"
        for part in self.parts:
            text += "\n" + plan_of([part])
        return text + ">"

    def _repr_html_(self):
        return plan(self)

    cdef object known(self):
        """Before its elements are looked at."""
        if self.traced:
            raise _Untraceable("a lazy array has no values yet")

    cdef ParIter settled(self):
        """The same of one part, computed now if it has several."""
        if len(self.parts) == 1:
            return self
        return wrap([node_of(self.collect())])

    def __bool__(self):
        self.known()
        raise ValueError("The truth value of a lazy array is ambiguous. Use x.any() or x.all()")

    def __iter__(self):
        self.known()
        return iter(self.collect())

    def __array__(self, dtype=None, copy=None):
        self.known()
        if copy is False:
            raise ValueError("a lazy array has no memory: it cannot be had without a copy")
        a = self.collect()
        return a if dtype is None else a.astype(dtype, copy=False)

    def __arrow_array__(self, type=None):
        # pa.array(x)
        import pyarrow
        return pyarrow.array(native(self.__array__()), type=type)

    def __arrow_c_stream__(self, requested_schema=None):
        # pl.Series(x), and whatever else takes a column of Arrow's.
        a = native(self.__array__())
        if a.ndim != 1 or a.dtype.kind not in "biufMm" or a.dtype.itemsize > 8:
            raise TypeError(f"a lazy array of {a.ndim} axes and dtype {a.dtype} is no column")
        try:
            import pyarrow
            column = pyarrow.chunked_array([a])
        except ImportError:
            import polars
            column = polars.Series(a)
        return column.__arrow_c_stream__(requested_schema)

    def to_dask_array(self):
        """The values as a dask array: what ``dask.array.asarray`` asks for.

        Returns
        -------
        dask.array.Array
            Of dask's own chunks.  The values are computed now, by pyblitz.

        Raises
        ------
        ImportError
            When there is no dask (the extra ``dask``).

        Examples
        --------
        >>> import dask.array as da, numpy as np, pyblitz as pb
        >>> da.asarray(pb.par_iter(np.arange(4)) * 2).compute()
        array([0, 2, 4, 6])
        """
        # Without it dask would take our method `chunks` for its attribute of that name.
        import dask.array
        return dask.array.from_array(self.__array__())

    def __getitem__(self, index):
        if not isinstance(index, slice):
            if callable(index) or np.ndim(index) == 0 and not isinstance(index, ParIter):
                raise TypeError("a lazy array is indexed with slices of its first axis and with masks")
            return self.filter(index)
        node = self.placed().settled().parts[0]
        # A slice copies the expression: x = x[1:] - x[:-1] in a loop would double it each time.
        if not self.traced and len(depends(node)) > MOST_SLICED and 2 * len(range(len(self))[index]) > len(self):
            node = node_of(values_of(node))
        return wrap([select(node, index)])

    # ---- operators and ufuncs

    def __array_ufunc__(self, fn, method, *inputs, out=None, where=True, **options):
        cdef ParIter x
        if type(fn) is Ufunc:
            # It runs on all cores anyhow.
            (<Ufunc>fn).used = True
            fn = bare(fn)
        if out is None and where is True and not options and method == "__call__":
            x = simple_call(fn, inputs)
            if x is not None:
                return x
        if out is not None:
            refuse_lazy("out", out)
        if method == "at":
            refuse_lazy(fn.__name__, inputs[0])
        if method == "reduce" and isinstance(inputs[0], ParIter):
            self.known()
            if set(options) - {"axis", "initial", "keepdims"} or options.get("keepdims") or where is not True:
                return fn.reduce(np.asarray(inputs[0]), out=out, where=where, **options)
            x = inputs[0]
            axis = options.get("axis", 0)
            if out is None and (axis is None or (axis in (0, -1) and x.ndim == 1)):
                return x.reduce(fn, initial=options.get("initial", no_value))
            return fn.reduce(np.asarray(x), out=out, **options)
        if (method != "__call__" or where is not True or fn.signature is not None
                or (options and set(options) - {"dtype", "casting"}) or has_own_code(inputs)):
            self.known()
            if where is not True:
                options["where"] = np.asarray(where)
            return getattr(fn, method)(
                *[np.asarray(a) if isinstance(a, ParIter) else a for a in inputs],
                **({} if out is None else {"out": out}), **options)
        result = general_call(fn, inputs, options)
        if out is None:
            return result
        self.known()
        results = result if isinstance(result, tuple) else (result,)
        for r, o in zip(results, out):
            if o is not None and (type(o) is not np.ndarray or (r.shape is not None and o.shape != r.shape)
                                  or not o.flags.writeable
                                  or (len(results) > 1 and (<ParIter>r).reads(o))
                                  or not np.can_cast(r.dtype, o.dtype, options.get("casting", "same_kind"))
                                  or not np.can_cast(r.dtype, o.dtype, "same_kind")):
                # An output of another shape or type, which NumPy takes or refuses; or one of several, where
                # the others read it.
                return fn(*[np.asarray(a) if isinstance(a, ParIter) else a for a in inputs],
                          out=out, **options)
        ends = [r if o is None else r.collect(o) for r, o in zip(results, out)]
        return ends[0] if len(ends) == 1 else tuple(ends)

    __array_function__ = _OfTheClass(_array_function)

    # Each is called with a lazy array on either side.

    def __add__(a, b):
        return binary(add, a, b)

    def __sub__(a, b):
        return binary(subtract, a, b)

    def __mul__(a, b):
        return binary(multiply, a, b)

    def __truediv__(a, b):
        return binary(true_divide, a, b)

    def __floordiv__(a, b):
        return binary(floor_divide, a, b)

    def __mod__(a, b):
        return binary(remainder, a, b)

    def __divmod__(a, b):
        return binary(np.divmod, a, b)

    def __and__(a, b):
        return binary(bitwise_and, a, b)

    def __or__(a, b):
        return binary(bitwise_or, a, b)

    def __xor__(a, b):
        return binary(bitwise_xor, a, b)

    def __lshift__(a, b):
        return binary(left_shift, a, b)

    def __rshift__(a, b):
        return binary(right_shift, a, b)

    def __matmul__(a, b):
        # NumPy's: BLAS has the whole of both.
        return operator.matmul(computed(a), computed(b))

    def __pow__(a, b, modulo):
        if modulo is not None:
            return NotImplemented
        fn = None
        if isinstance(a, ParIter):
            if before_2_3:
                a, b = old_power(a, b)
            fn = power_of(a.dtype, b)
        return binary(power, a, b) if fn is None else call(fn, (a,), no_options)

    def __richcmp__(self, other, int which):
        cdef bint anything = which == Py_EQ or which == Py_NE
        try:
            made = binary(comparisons[which], self, other)
        except TypeError:
            if not anything:
                raise
            made = NotImplemented
        if made is NotImplemented and anything:
            # NumPy's operator compares anything.
            made = computed(self) == other if which == Py_EQ else computed(self) != other
            if type(made) is np.ndarray and made.ndim and made.dtype == np.bool_:
                return par_iter(made)
        return made

    # As with arrays, the dtype stays, or NumPy's exception says that it cannot.

    def __iadd__(self, other):
        return after_in_place(add, self, other, self + other)

    def __isub__(self, other):
        return after_in_place(subtract, self, other, self - other)

    def __imul__(self, other):
        return after_in_place(multiply, self, other, self * other)

    def __itruediv__(self, other):
        return after_in_place(true_divide, self, other, self / other)

    def __ifloordiv__(self, other):
        return after_in_place(floor_divide, self, other, self // other)

    def __imod__(self, other):
        return after_in_place(remainder, self, other, self % other)

    def __imatmul__(self, other):
        return par_iter(operator.imatmul(np.array(computed(self)), computed(other)))

    def __ipow__(self, other):
        return after_in_place(power, self, other, self ** other)

    def __iand__(self, other):
        return after_in_place(bitwise_and, self, other, self & other)

    def __ior__(self, other):
        return after_in_place(bitwise_or, self, other, self | other)

    def __ixor__(self, other):
        return after_in_place(bitwise_xor, self, other, self ^ other)

    def __ilshift__(self, other):
        return after_in_place(left_shift, self, other, self << other)

    def __irshift__(self, other):
        return after_in_place(right_shift, self, other, self >> other)

    def __neg__(self):
        return call(negative, (self,), no_options)

    def __pos__(self):
        return call(positive, (self,), no_options)

    def __invert__(self):
        return call(invert, (self,), no_options)

    def __abs__(self):
        return call(absolute, (self,), no_options)

    def clip(self, min=None, max=None, out=None, **options):
        """Its elements, held between two bounds, as ``ndarray.clip``.

        Parameters
        ----------
        min, max : array_like, optional
            Without one of them there is no such bound.
        out : ndarray, optional
            Computed now, into this array.

        Raises
        ------
        TypeError
            When there is no common dtype.

        Examples
        --------
        >>> pb.par_iter([1, 5, 9]).clip(2, 8).collect()
        array([2, 5, 8])
        """
        if min is None and max is None:
            np.clip(np.empty(0, self.dtype), None, None)    # NumPy 2.0 refuses
        if self.dtype.kind in "iu":
            # What Python's numbers beyond the dtype mean for NumPy.
            info = np.iinfo(self.dtype)
            min = None if type(min) is int and min <= info.min else min
            max = None if type(max) is int and max >= info.max else max
        bounds = [(fn, bound) for fn, bound in ((np.maximum, min), (np.minimum, max)) if bound is not None]
        if not bounds:
            bounds = [(np.positive, None)]
        fn = bounds[0][0] if len(bounds) == 1 else clip
        return self.__array_ufunc__(
            fn, "__call__", self, *[bound for _, bound in bounds if bound is not None],
            out=None if out is None else (out,), **options)

    def astype(self, dtype, copy=True):
        """Its elements as another dtype, as ``ndarray.astype``.  ``copy`` is what libraries ask
        arrays for; nothing lazy is copied.

        Raises
        ------
        TypeError
            When it is no dtype of numbers or times.

        Examples
        --------
        >>> pb.par_iter([1, 2]).astype(float).collect()
        array([1., 2.])
        """
        dtype = number_dtype(dtype, self.dtype)
        return wrap([cast(p, dtype) for p in self.parts], self.traced)

    # ---- adaptors

    cdef ParIter placed(self):
        """Itself with elements that have positions: after a filter, they are computed now."""
        if self.has_shape():
            return self
        return wrap([node_of(self.collect())])

    def map(self, fn, *, dtype=None, check=True):
        """``fn`` of each element.

        Parameters
        ----------
        fn : ufunc, compiled kernel, or callable
            As in :func:`par_map`. A Python function is first called with the lazy array; if
            that gives a lazy array of the same length, its expression is part of the plan.
            Otherwise it is called under the GIL with one block of elements after another. A
            function that only applies operators, to the array and to numbers, is not called
            again while these are of the same types (with powers: the same numbers).
        dtype : dtype, optional
            Of the result. Without it, a function that is called with blocks is called once
            more, with the first element, to tell.
        check : bool, optional
            A function that is called with blocks gives something else than for the whole array, if
            it is not element by element (as ``v / v.sum()``). So it is called three times more, with a
            few of the elements, when there are thousands. False: not for this function.

        Raises
        ------
        TypeError, ValueError
            When ``fn`` cannot be called so, or gives something else than one number for each
            element, or is seen not to be element by element.

        Examples
        --------
        >>> pb.par_iter([1.0, 4.0]).map(np.sqrt).collect()
        array([1., 2.])
        """
        return mapped(fn, (self,), dtype, check)

    def zip(self, *others):
        """Its elements side by side with those of others of the same length.

        Raises
        ------
        ValueError
            When lengths differ.

        Examples
        --------
        >>> pb.par_iter([1, 2]).zip([10, 20]).map(lambda a, b: a + b).collect()
        array([11, 22])
        """
        return ParZip(self, *others)

    def enumerate(self):
        """Positions and elements, zipped.

        Raises
        ------
        ValueError
            When it has more than one dimension.

        Examples
        --------
        >>> pb.par_iter([5, 6]).enumerate().map(lambda i, v: i * v).collect()
        array([0, 6])
        """
        cdef ParIter x = self.placed()
        indices, start = [], 0
        for part in x.parts:
            indices.append(index_node(start, 1, (<Node>part).shape[0]))
            start += (<Node>part).shape[0]
        if self.ndim != 1:
            raise ValueError("enumerate: expected one dimension; flatten() first")
        return ParZip(wrap(indices), x)

    def chain(self, *others):
        """Its elements, then those of others, which must have the same dtype and row shape.

        Raises
        ------
        TypeError, ValueError
            When dtypes or the shapes of rows differ.

        Examples
        --------
        >>> pb.par_iter([1, 2]).chain([3]).collect()
        array([1, 2, 3])
        """
        parts = list(self.parts)
        for other in others:
            x = par_iter(other)
            if x.dtype != self.dtype:
                raise TypeError(f"chain: dtype {x.dtype} is not {self.dtype}; use astype")
            # What a filter has kept has one dimension.
            row, mine = [() if y.shape is None else y.shape[1:] for y in (x, self)]
            if row != mine:
                raise ValueError(f"chain: rows of shape {row} do not fit rows of {mine}")
            parts += (<ParIter>x).parts
        return wrap(parts)

    def chunks(self, n):
        """Stretches of ``n`` elements, the last one maybe shorter.

        Raises
        ------
        TypeError, ValueError
            When ``n`` is no positive integer.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).chunks(2).sum().collect()
        array([3, 3])
        """
        return ParChunks(self, n, n)

    def windows(self, n):
        """All stretches of ``n`` neighbours.

        Raises
        ------
        TypeError, ValueError
            When ``n`` is no positive integer.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).windows(2).max().collect()
        array([2, 3])
        """
        return ParChunks(self, n, 1)

    def step_by(self, step):
        """Every ``step``-th element, from the first on.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).step_by(2).collect()
        array([1, 3])
        """
        if step < 1:
            raise ValueError(f"step: must be positive, not {step}")
        return self[::step]

    def rev(self):
        """From the last to the first.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).rev().collect()
        array([3, 2, 1])
        """
        return self[::-1]

    def take(self, n):
        """The first ``n`` elements, or all if there are fewer.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).take(2).collect()
        array([1, 2])
        """
        if n < 0:
            raise ValueError(f"n: must not be negative, not {n}")
        return self[:n]

    def skip(self, n):
        """All but the first ``n`` elements.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).skip(2).collect()
        array([3])
        """
        if n < 0:
            raise ValueError(f"n: must not be negative, not {n}")
        return self[n:]

    def filter(self, predicate):
        """The elements for which a predicate is true.

        Parameters
        ----------
        predicate : ufunc, compiled kernel, callable, mask (of booleans, lazy or not), or a value
            What ``map`` would make of it, taken as true or false; a value keeps the elements
            that are equal to it.

        Raises
        ------
        TypeError, ValueError
            When the predicate does not give one value for each element; when there is more than
            one dimension.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).filter(lambda v: v > 1).collect()
        array([2, 3])
        """
        cdef ParIter mask
        cdef list masks
        self.flat()
        mask = predicate_of(predicate, (self,))
        if not self.has_shape() and mask.has_shape():
            # Of what is kept, which is computed now.
            return self.placed().filter(mask)
        masks = operand_parts(mask, self.parts)
        return wrap([kept_node(self.parts[i], keep(masks[i])) for i in range(len(masks))])

    def mask(self, predicate):
        """Whether a predicate is true, for each element; what ``filter`` keeps them by.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).mask(lambda v: v > 1).collect()
        array([False,  True,  True])
        """
        return predicate_of(predicate, (self,))

    cdef object flat(self):
        if self.axes() != 1:
            raise ValueError(f"expected one dimension, not {self.axes()}; flatten() first")

    def flatten(self):
        """All elements in C order, in one dimension.

        Examples
        --------
        >>> pb.par_iter([[1, 2], [3, 4]]).flatten().collect()
        array([1, 2, 3, 4])
        """
        cdef Node n = self.parts[0]
        if self.ndim == 1:
            return self
        if len(self.parts) > 1:
            return self.settled().flatten()
        shape = n.shape

        def how(part):
            return node_of((<Node>part).what.reshape(-1))

        for part in depends(n):
            if (<Node>part).kind == NODE_INDEX or ((<Node>part).kind == NODE_INPUT and (
                    (<Node>part).shape != shape or not (<Node>part).what.flags.c_contiguous)):
                return wrap([node_of(self.collect().reshape(-1))])
        return wrap([sliced(n, how)])

    def inspect(self, fn):
        """The same; shows each block of elements to ``fn`` as it passes, from any thread.

        Raises
        ------
        TypeError
            When ``fn`` is not callable.

        Examples
        --------
        >>> pb.par_iter([1, 2]).inspect(print).sum()
        [1 2]
        np.int64(3)
        """
        if not callable(fn):
            raise TypeError(f"fn: expected a callable, not {type(fn).__name__}")
        return wrap([operation_node(NODE_LOOK, fn, (p,), (<Node>p).dtype) for p in self.parts])

    # ---- ends

    cdef bint reads(self, object out) except -1:
        """Whether one of its arrays may lie where ``out`` does."""
        for p in self.parts:
            for part in depends(p):
                if (<Node>part).kind == NODE_INPUT and np.may_share_memory(out, (<Node>part).what):
                    return True
        return False

    @ending
    def collect(self, out=None):
        """All elements, as an array.

        Parameters
        ----------
        out : ndarray, optional
            Where they go.

        Raises
        ------
        TypeError, ValueError
            When ``out`` is no array, does not have the result's shape, cannot hold its dtype, or
            is read-only.

        Examples
        --------
        >>> (pb.par_iter([1, 2]) * 2).collect()
        array([2, 4])
        """
        self.known()
        if out is not None:
            check_out(out)
        if len(self.parts) == 1:
            return values_of(self.parts[0]) if out is None else collect([self.parts[0]], out)[0]
        if out is None:
            if not self.has_shape():
                return np.concatenate([values_of(p) for p in self.parts])
            out = np.empty(self.shape, self.dtype)
        if self.shape is None or out.shape != self.shape or self.reads(out):
            whole = self.collect()
            check_out(out, whole.shape)
            np.copyto(out, whole)
            return out
        start = 0
        for p in self.parts:
            end = start + (<Node>p).shape[0]
            collect([p], out[start:end])
            start = end
        return out

    @ending
    def reduce(self, op, initial=no_value):
        """All elements combined by a ufunc (``op.reduce``, over all axes), or by a compiled
        kernel ``T op(T, T)`` that does not care about grouping.

        Parameters
        ----------
        op : ufunc or compiled kernel

        Raises
        ------
        TypeError
            When ``op`` is neither.
        ValueError
            Without elements, where ``op`` has no identity.

        Examples
        --------
        >>> pb.par_iter([1, 5, 3]).reduce(np.maximum)
        np.int64(5)
        """
        self.known()
        op = bare(op)
        kernel = None if isinstance(op, ufunc) else as_kernel(op)
        if kernel is None and not isinstance(op, ufunc):
            raise TypeError(f"op: expected a ufunc or a compiled kernel, not {type(op).__name__}")
        if kernel is not None:
            return fold_kernel(kernel, None, self.parts, initial)
        return reduce_parts(op, self.parts, initial)

    cdef bint takes(self, dict options) except -1:
        """Whether what NumPy's function of this name was given asks for no more than the
        reduction of all elements.  (``np.sum(x)`` calls ``x.sum(axis=None, out=None)``.)"""
        self.known()
        if not options:
            return True
        axis = options.get("axis")
        return (not options.keys() - {"axis", "dtype", "out"} and options.get("dtype") is None
                and options.get("out") is None
                and (axis is None or (type(axis) is int and axis in (0, -1) and self.ndim == 1)))

    cdef object reduced(self, object numpys, object op, object axis, object initial, dict options):
        if not self.takes(with_axis(axis, options)):
            return numpys(self.collect(), initial=initial, **options)
        return reduce_parts(op, self.parts, initial)

    @ending
    def sum(self, axis=None, *, initial=no_value, **options):
        """``np.sum`` of all elements; floats are summed pairwise, in blocks.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).sum()
        np.int64(6)
        """
        return self.reduced(np.sum, np.add, axis, initial, options)

    @ending
    def prod(self, axis=None, *, initial=no_value, **options):
        """``np.prod`` of all elements.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).prod()
        np.int64(6)
        """
        return self.reduced(np.prod, np.multiply, axis, initial, options)

    @ending
    def min(self, axis=None, *, initial=no_value, **options):
        """``np.min`` of all elements.

        Examples
        --------
        >>> pb.par_iter([3, 1, 2]).min()
        np.int64(1)
        """
        return self.reduced(np.min, np.minimum, axis, initial, options)

    @ending
    def max(self, axis=None, *, initial=no_value, **options):
        """``np.max`` of all elements.

        Examples
        --------
        >>> pb.par_iter([3, 1, 2]).max()
        np.int64(3)
        """
        return self.reduced(np.max, np.maximum, axis, initial, options)

    @ending
    def mean(self, axis=None, **options):
        """``np.mean`` of all elements.

        Examples
        --------
        >>> pb.par_iter([1, 2]).mean()
        np.float64(1.5)
        """
        if not self.takes(with_axis(axis, options)) or self.dtype.kind in "mM":
            return np.mean(self.collect(), **options)
        value = mean_of(self.parts)
        return np.empty(0, self.dtype).mean() if value is None else value

    @ending
    def var(self, axis=None, *, ddof=0, **options):
        """``np.var`` of all elements: two passes.

        Examples
        --------
        >>> pb.par_iter([1, 3]).var()
        np.float64(1.0)
        """
        if not self.takes(with_axis(axis, options)) or self.dtype.kind in "mM" or is_half(self.dtype):
            return np.var(self.collect(), ddof=ddof, **options)
        value = variance_of(self.parts, ddof)
        return np.var(self.collect(), ddof=ddof) if value is None else value

    @ending
    def std(self, axis=None, *, ddof=0, **options):
        """``np.std`` of all elements: two passes.

        Examples
        --------
        >>> pb.par_iter([1, 3]).std()
        np.float64(1.0)
        """
        if not self.takes(with_axis(axis, options)) or self.dtype.kind in "mM" or is_half(self.dtype):
            return np.std(self.collect(), ddof=ddof, **options)
        return np.sqrt(self.var(ddof=ddof))

    cdef ParIter asked(self, object predicate):
        """Of what `any` and `all` want the truth."""
        self.known()
        if isinstance(predicate, (int, np.integer)) and not isinstance(predicate, bool):
            raise TypeError("predicate: an integer may be meant as an axis, which is axis=, or as a value, of which "
                            "x == value asks")
        return self if predicate is None else predicate_of(predicate, (self,))

    cdef ParIter truths(self):
        return self if self.dtype == np.bool_ else self != 0

    @ending
    def any(self, predicate=None, **options):
        """Whether the predicate (by default: is not zero) is true of an element; stops at
        the first that is found.

        Parameters
        ----------
        predicate : float, array_like of bool, ufunc, compiled kernel or callable, optional
            As for :func:`par_find_first`; but no integer, which NumPy's function would take for an axis:
            write ``(x == 3).any()``.
        **options
            What NumPy's function of this name takes besides: it then does the call.

        Examples
        --------
        >>> pb.par_iter([0, 3]).any()
        np.True_
        """
        cdef ParIter x = self.asked(predicate)
        if not x.takes(options) or x.dtype.kind == "M":
            return np.any(x.collect(), **options)
        return np.bool_(any_of(x.truths().parts))

    @ending
    def all(self, predicate=None, **options):
        """Whether the predicate (by default: is not zero) is true of all elements; stops at
        the first of which it is not.

        Parameters
        ----------
        predicate : float, array_like of bool, ufunc, compiled kernel or callable, optional
            As for :meth:`any`.
        **options
            What NumPy's function of this name takes besides: it then does the call.

        Examples
        --------
        >>> pb.par_iter([0, 3]).all()
        np.False_
        """
        cdef ParIter x = self.asked(predicate)
        if not x.takes(options) or x.dtype.kind == "M":
            return np.all(x.collect(), **options)
        return np.bool_(not any_of((<ParIter>(~x.truths())).parts))

    @ending
    def count(self, predicate=None):
        """How many elements there are, or of how many the predicate is true.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).count(lambda v: v > 1)
        2
        """
        self.known()
        if predicate is None:
            if self.has_shape():
                return self.size
            few = few_values(self.parts[0], True) if len(self.parts) == 1 else None
            if few is not None:
                return few.size
            predicate = self == self
            return sum([fold_node(np.add, cast(p, np.dtype(np.int64)), None)[1] for p in (<ParIter>predicate).parts])
        mask = predicate_of(predicate, (self,))
        return sum([count_node(p) for p in (<ParIter>mask).parts])

    @ending
    def position(self, predicate):
        """The position, in C order, of the first element of which it is true, or None.

        Examples
        --------
        >>> pb.par_iter([5, 7]).position(7)
        1
        """
        return self.search(predicate, FIND_FIRST)

    cdef object search(self, object predicate, int which):
        self.known()
        parts = predicate_of(predicate, (self,)).placed().parts
        starts = np.cumsum([0] + [int(np.prod((<Node>p).shape, dtype=object)) for p in parts]).tolist()
        order = range(len(parts))
        for i in reversed(order) if which == FIND_LAST else order:
            at = find_node(parts[i], which)
            if at >= 0:
                return int(starts[i] + at)
        return None

    cdef object item(self, object at):
        """The element at a position, computed alone."""
        cdef Node n
        if at is None:
            return None
        x = self.placed().flatten()
        for p in (<ParIter>x).parts:
            n = p
            if at < n.shape[0]:
                return values_of(select(n, slice(at, at + 1)))[0]
            at -= n.shape[0]

    @ending
    def find_first(self, predicate):
        """The first element of which it is true, or None.

        Examples
        --------
        >>> pb.par_iter([5, 7, 9]).find_first(lambda v: v > 6)
        np.int64(7)
        """
        return self.item(self.search(predicate, FIND_FIRST))

    @ending
    def find_last(self, predicate):
        """The last element of which it is true, or None.

        Examples
        --------
        >>> pb.par_iter([5, 7, 9]).find_last(lambda v: v > 6)
        np.int64(9)
        """
        return self.item(self.search(predicate, FIND_LAST))

    @ending
    def find_any(self, predicate):
        """An element of which it is true, the first that is found, or None.

        Examples
        --------
        >>> pb.par_iter([5, 7, 1]).find_any(lambda v: v > 6)
        np.int64(7)
        """
        return self.item(self.search(predicate, FIND_ANY))

    @ending
    def for_each(self, fn):
        """Calls ``fn`` with each block of elements, from any thread, in any order.

        Raises
        ------
        TypeError
            When ``fn`` is not callable.

        Examples
        --------
        >>> pb.par_iter([1, 2]).for_each(print)
        [1 2]
        """
        self.known()
        for p in (<ParIter>self.inspect(fn)).parts:
            run_for_effects(p)

    @ending
    def sort(self, **options):
        """All elements, sorted by :func:`par_sort`, as a new array.

        Parameters
        ----------
        **options
            Those of :func:`par_sort`.

        Raises
        ------
        TypeError, ValueError
            As :func:`par_sort`.

        Examples
        --------
        >>> pb.par_iter([3, 1, 2]).sort()
        array([1, 2, 3])
        """
        a = self.collect()
        return par_sort(a, out=a, **options)


cdef dict operators = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul,
    np.true_divide: operator.truediv, np.floor_divide: operator.floordiv,
    np.remainder: operator.mod, np.divmod: divmod, np.power: operator.pow,
    np.bitwise_and: operator.and_, np.bitwise_or: operator.or_, np.bitwise_xor: operator.xor,
    np.left_shift: operator.lshift, np.right_shift: operator.rshift,
    np.less: operator.lt, np.less_equal: operator.le, np.equal: operator.eq,
    np.not_equal: operator.ne, np.greater: operator.gt, np.greater_equal: operator.ge,
}


cdef object binary(object fn, object a, object b):
    if is_operand(a) and is_operand(b):
        return call(fn, (a, b), no_options)
    other = b if isinstance(a, ParIter) else a
    if answers_operators(other):
        # Such a class has operators of its own, which take arrays, and not always lazy ones.
        return operators[fn](computed(a), computed(b))
    if isinstance(other, np.ndarray) or is_array_like(type(other)):
        return call(fn, (a, b), no_options)
    return NotImplemented


cdef object after_in_place(ufunc fn, ParIter x, object other, object result):
    """What ``x`` is after ``fn(x, other, out=x)``; result: what the operator gave, which is somebody
    else's if ``other`` has answered."""
    if type(result) is not ParIter or (result.dtype == x.dtype and result.shape == x.shape):
        return result
    # NumPy says whether it takes such a result.
    if np.ndim(other):
        other = np.empty(0, other.dtype if type(other) is ParIter else np.asarray(other).dtype)
    fn(np.empty(0, x.dtype), other, out=np.empty(0, x.dtype))
    if result.shape != x.shape:
        raise ValueError(f"non-broadcastable output operand with shape {x.shape} doesn't match the broadcast "
                         f"shape {result.shape}")
    return result.astype(x.dtype)


cdef bint is_operand(object x):
    """What no class of its own answers for."""
    # The common ones first.
    if type(x) is ParIter or type(x) is int or type(x) is float or cnp.PyArray_CheckExact(x):
        return True
    if type(x) is bool or type(x) is complex or type(x) is list or type(x) is tuple:
        return True
    return isinstance(x, np.generic) or (
        isinstance(x, (int, float, complex, list, tuple)) and not answers_operators(x))


cdef object answers = weakref.WeakKeyDictionary()       # class -> whether it has operators of its own
cdef list operator_names = [f"__{side}{name}__" for side in ("", "r") for name in (
    "add sub mul truediv floordiv mod divmod pow and or xor lshift rshift matmul".split())] + [
    f"__{name}__" for name in "lt le eq ne gt ge".split()]


cdef bint answers_operators(object x):
    """Whether NumPy's operators leave the answer to its class."""
    t = type(x)
    if isinstance(x, np.ndarray):
        if t not in answers:
            answers[t] = not computes_alike(t) or any([
                getattr(t, name) is not getattr(np.ndarray, name) for name in operator_names])
        return answers[t]
    if hasattr(t, "__array_ufunc__"):
        return True
    priority = getattr(x, "__array_priority__", 0)
    return isinstance(priority, (int, float)) and priority > 0


cdef bint has_own_code(tuple operands):
    """Whether the class of one answers for ufuncs, with code of its own that wants arrays."""
    for x in operands:
        if not is_operand(x) and overrides(type(x)):
            return True
    return False


cdef bint is_array_like(object t):
    """Whether NumPy's operators make an array of it."""
    return issubclass(t, (memoryview, array.array)) or any([hasattr(t, name) for name in (
        "__array__", "__array_interface__", "__dlpack__")])


cdef bint before_2_3 = np.lib.NumpyVersion(np.__version__) < "2.3.0"


cdef tuple old_power(object a, object exponent):
    """Operands for which NumPy's ``**`` of today does what that of 2.2 and before did for
    these: exponents that another function stands for did not count for the type."""
    if type(exponent) is float or (
            isinstance(exponent, (np.number, np.ndarray)) and exponent.ndim == 0
            and exponent.dtype.kind in "iuf"):
        kind = a.dtype.kind
        if kind in "fc" and exponent in (0, 0.5, 1, 2, -1):
            return a, float(exponent)
        if kind in "biu" and exponent == 2:
            whole = type(exponent) is not float and exponent.dtype.kind in "iu"
            return a if whole or kind == "b" else a.astype(np.float64), 2
    return a, exponent


cdef dict powers = {2: square, 1: positive, 0.5: np.sqrt, -1: np.reciprocal}


cdef object power_of(object dtype, object exponent):
    """The ufunc that NumPy's ``**`` takes for some exponents, or None."""
    if type(exponent) is not int and type(exponent) is not float:
        return None
    if dtype.kind in "fc":
        return powers.get(exponent)
    return square if dtype.kind in "biu" and type(exponent) is int and exponent == 2 else None


class ParZip:
    """Lazy arrays side by side: functions take one argument for each.

    Raises
    ------
    ValueError
        When shapes differ.

    Examples
    --------
    >>> import pyblitz as pb
    >>> pb.par_iter([1, 2]).zip([3, 4]).map(lambda a, b: a + b).collect()
    array([4, 6])
    """

    def __init__(self, *values):
        self._values = tuple([par_iter(v) for v in values])
        shapes = {v.shape for v in self._values}
        if len(shapes) > 1:
            raise ValueError(f"zip: shapes differ: {[v.shape for v in self._values]}")

    def __len__(self):
        return len(self._values[0])

    def __iter__(self):
        return iter(self._values)

    def __repr__(self):
        return "<ParZip of\n" + ",\n".join([repr(v) for v in self._values]) + ">"

    def _repr_html_(self):
        return plan(self)

    def _together(self):
        """The values, of one filter or of none: what different filters have kept is computed."""
        domains = {(<Node>p).domain for v in self._values for p in (<ParIter>v).parts}
        if len(domains) > 1 and not any([(<ParIter>v).has_shape() for v in self._values]):
            return tuple([wrap([node_of(a)]) for a in self.collect()])
        return self._values

    def _each(self, name, *args):
        return ParZip(*[getattr(v, name)(*args) for v in self._values])

    def map(self, fn, *, dtype=None, check=True):
        """``fn`` of the elements of one place, one lazy array.

        Raises
        ------
        TypeError, ValueError
            As :meth:`ParIter.map`.

        Examples
        --------
        >>> pb.par_iter([1, 2]).zip([3, 4]).map(lambda a, b: a * b).collect()
        array([3, 8])
        """
        return mapped(fn, self._together(), dtype, check)

    def filter(self, predicate):
        """The places for which a predicate of their elements is true.

        Examples
        --------
        >>> pb.par_iter([1, 2]).zip([3, 1]).filter(lambda a, b: a < b).collect()
        (array([1]), array([3]))
        """
        cdef tuple values = self._together()
        cdef ParIter first = values[0], mask = predicate_of(predicate, values)
        if not first.has_shape() and mask.has_shape():
            return ParZip(*[(<ParIter>v).placed() for v in values]).filter(mask)
        domains = [keep(m) for m in operand_parts(mask, first.parts)]
        return ParZip(*[wrap([kept_node(p, d) for p, d in zip(operand_parts(v, first.parts), domains)])
                        for v in values])

    def step_by(self, step):
        """Every ``step``-th place.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).enumerate().step_by(2).collect()
        (array([0, 2]), array([1, 3]))
        """
        return self._each("step_by", step)

    def rev(self):
        """From the last place to the first.

        Examples
        --------
        >>> pb.par_iter([5, 6]).enumerate().rev().collect()
        (array([1, 0]), array([6, 5]))
        """
        return self._each("rev")

    def take(self, n):
        """The first ``n`` places.

        Examples
        --------
        >>> pb.par_iter([5, 6]).enumerate().take(1).collect()
        (array([0]), array([5]))
        """
        return self._each("take", n)

    def skip(self, n):
        """All but the first ``n`` places.

        Examples
        --------
        >>> pb.par_iter([5, 6]).enumerate().skip(1).collect()
        (array([1]), array([6]))
        """
        return self._each("skip", n)

    def collect(self):
        """A tuple of arrays, computed in one pass, or one for each filter.

        Raises
        ------
        ValueError
            When filters have kept different numbers of elements.

        Examples
        --------
        >>> pb.par_iter([5, 6]).enumerate().collect()
        (array([0, 1]), array([5, 6]))
        """
        cdef ParIter first = self._values[0]
        first.known()
        cdef dict passes = {}       # filter -> the nodes that are computed in its pass
        if any([len((<ParIter>v).parts) > 1 for v in self._values]):
            arrays = tuple([v.collect() for v in self._values])
        elif first.has_shape():
            return tuple(collect([(<ParIter>v).parts[0] for v in self._values], None))
        else:
            nodes = [(<ParIter>v).parts[0] for v in self._values]
            for n in nodes:
                passes.setdefault((<Node>n).domain, []).append(n)
            made = {domain: iter(collect(group, None)) for domain, group in passes.items()}
            arrays = tuple([next(made[(<Node>n).domain]) for n in nodes])
        if len({len(a) for a in arrays}) > 1:
            raise ValueError(f"zip: shapes differ: {[a.shape for a in arrays]}")
        return arrays

    def count(self):
        """How many places there are.

        Examples
        --------
        >>> pb.par_iter([5, 6]).enumerate().count()
        2
        """
        return self._values[0].count()


class ParChunks:
    """Stretches of a lazy array, from :meth:`ParIter.chunks` and :meth:`ParIter.windows`.

    Raises
    ------
    TypeError, ValueError
        When the source is no lazy array, the length of a stretch is no positive integer, or the step
        is neither 1 nor that length.

    Examples
    --------
    >>> import pyblitz as pb
    >>> pb.par_iter([1, 2, 3, 4]).chunks(2).sum().collect()
    array([3, 7])
    """

    def __init__(self, source, n, step):
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
            raise TypeError(f"n: expected an integer, not {type(n).__name__}")
        if n < 1:
            raise ValueError(f"n: must be positive, not {n}")
        if not isinstance(source, ParIter):
            raise TypeError(f"source: expected a lazy array, not {type(source).__name__}")
        if step != 1 and step != n:
            raise ValueError(f"step: must be 1 or {n}, not {step}")
        (<ParIter>source).flat()
        source = (<ParIter>source).placed()
        self._source, self._n, self._step = source, int(n), int(step)
        size = len(source)
        if step == 1:
            self._length = max(size - self._n + 1, 0)
        else:
            self._length = -(-size // self._n)

    def __len__(self):
        return self._length

    def __repr__(self):
        what = "windows" if self._step == 1 else "chunks"
        return f"<ParChunks: {self._length} {what} of {self._n} of\n{self._source!r}>"

    def _repr_html_(self):
        return plan(self)

    def _rows(self, lo, hi):
        """Stretches lo .. hi as arrays, from one piece of the source."""
        start = lo * self._step
        piece = self._source[start:(hi - 1) * self._step + self._n].collect()
        # Windows lie over each other.
        piece.flags.writeable = self._step >= self._n
        return [piece[i:i + self._n] for i in range(0, (hi - lo) * self._step, self._step)]

    def _run(self, fn, str name="the expression"):
        """What fn gives of each stretch; name: what warnings of NumPy's call it."""
        cdef Chunked c = Chunked("chunk ", True)
        c.chunks = self
        c.fn = fn
        c.results = [None] * self._length
        if self._length:
            c.run(max(1, SLICE_ITEMS // 2 // max(self._step, self._n // 8)), self._length, False)
            report_flags(name, c.flags.seen)
        return c.results

    def map(self, fn):
        """``fn`` of each stretch (an array), as a lazy array of its results.

        Raises
        ------
        Exception
            What ``fn`` raises.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).chunks(2).map(len).collect()
        array([2, 1])
        """
        return self._array(self._run(fn))

    def _array(self, list results):
        return par_iter(np.array(results) if results else np.empty(0))

    def for_each(self, fn):
        """Calls ``fn`` with each stretch, from any thread, in any order.

        Raises
        ------
        Exception
            What ``fn`` raises.

        Examples
        --------
        >>> pb.par_iter([1, 2]).chunks(2).for_each(print)
        [1 2]
        """
        self._run(fn)

    def reduce(self, op):
        """Each stretch combined by a ufunc, as a lazy array.

        Raises
        ------
        TypeError
            When ``op`` is no ufunc.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).windows(2).reduce(np.multiply).collect()
        array([2, 6])
        """
        op = bare(op)
        if not isinstance(op, ufunc):
            raise TypeError(f"op: expected a ufunc, not {type(op).__name__}")
        results = self._run(op.reduce, "reduce")
        return par_iter(np.array(results) if results else op.reduce(np.empty((0, self._n), self._source.dtype), axis=1))

    def sum(self):
        """The sum of each stretch.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).windows(2).sum().collect()
        array([3, 5])
        """
        return self.reduce(np.add)

    def min(self):
        """The least element of each stretch.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).windows(2).min().collect()
        array([1, 2])
        """
        return self.reduce(np.minimum)

    def max(self):
        """The greatest element of each stretch.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).chunks(2).max().collect()
        array([2, 3])
        """
        return self.reduce(np.maximum)

    def mean(self):
        """The mean of each stretch.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).windows(2).mean().collect()
        array([1.5, 2.5])
        """
        results = self._run(np.mean, "reduce")
        return par_iter(np.array(results) if results else np.empty((0, self._n), self._source.dtype).mean(1))

    def flatten(self):
        """The elements again, one stretch after another.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).windows(2).flatten().collect()
        array([1, 2, 2, 3])
        """
        return self._source if self._step != 1 or self._n == 1 else par_iter(
            np.concatenate(self._run(np.copy)) if self._length else np.empty(0, self._source.dtype))

    def collect(self):
        """A list of arrays.

        Examples
        --------
        >>> pb.par_iter([1, 2, 3]).chunks(2).collect()
        [array([1, 2]), array([3])]
        """
        return self._run(np.copy)


cdef class Chunked(Slices):
    cdef object chunks
    cdef object fn
    cdef list results

    cdef object part(self, int64_t lo, int64_t hi):
        for i, row in enumerate(self.chunks._rows(lo, hi)):
            self.results[lo + i] = self.fn(row)


def node_beside(fn, node):
    """For predicates: the node of a lazy array, or of a function of elements."""
    cdef ParIter beside = wrap([node])
    mask = fn if isinstance(fn, ParIter) else mapped_truth(fn, (beside,))
    if not isinstance(mask, ParIter):
        return None
    parts = (<ParIter>mask).parts
    fitting(mask, (<Node>node).shape, "predicate")
    return parts[0] if len(parts) == 1 else node_of(mask.collect())


lazy_arrays(ParIter, node_beside)
lazy_classes.add(ParIter)
for _class in (ParIter, ParZip, ParChunks):
    complete_methods(_class)
