# cython: wraparound=True, boundscheck=True
"""The front door: see front.pxd."""
import contextlib
import functools
import inspect
import operator
import re
import sys
import threading
import types
import warnings

import numpy as np

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdlib cimport llabs
from libc.string cimport memcpy
from numpy cimport ndarray, ufunc

from pyblitz.host.config import share_from
from pyblitz.host.progress import with_progress

cnp.import_array()

cdef extern from "Python.h":
    """
    /* CPython calls an object of such a type by the pointer at that offset: PEP 590. */
    static void pb_set_vectorcall(PyObject *type, Py_ssize_t offset, int method) {
        ((PyTypeObject *)type)->tp_vectorcall_offset = offset;
        ((PyTypeObject *)type)->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
        if (method)
            ((PyTypeObject *)type)->tp_flags |= Py_TPFLAGS_METHOD_DESCRIPTOR;
        PyType_Modified((PyTypeObject *)type);
    }
    """
    void set_vectorcall "pb_set_vectorcall"(object type, Py_ssize_t offset, bint method)
    object PyObject_Vectorcall(object fn, PyObject** args, size_t nargsf, PyObject* names)
    Py_ssize_t PyVectorcall_NARGS(size_t nargsf)
    PyObject* Py_None
    ctypedef struct PyTypeObject:
        pass
    PyTypeObject* Py_TYPE(PyObject*)
    PyTypeObject PyLong_Type, PyFloat_Type, PyBool_Type, PyComplex_Type, PyTuple_Type, PyList_Type
    bint PyType_IsSubtype(PyTypeObject*, PyTypeObject*)

cdef extern from "numpy/arrayobject.h":
    PyTypeObject PyArray_Type, PyGenericArrType_Type

cdef enum:
    # `stats` names no call that was left to NumPy if none of its arguments has more bytes.
    NOTED_BYTES = 131072
    NOWHERE = 1000
    # A ufunc's call with more arguments than these is unpacked like those of containers.
    MOST_ARGS = 15
    # Members of a list of keys that are looked at for a library of their own.
    HANDED_MEMBERS = 8


# ---- what things cost -------------------------------------------------------
# All are nanoseconds on one thread.  benchmarks/costs.py measures each of them, and prints what
# it finds beside what stands here.

# A call is shared if it takes NumPy longer than this: another thread needs so long to come.
cdef double SHARE_NS = 4000.0
# The same for calls of ufuncs that have been timed; and for those whose arrays NumPy casts, of which an
# expression is made.
cdef double DIRECT_NS = 10000.0
cdef double DIRECT_CAST_NS = 40000.0

# What NumPy needs for one byte: to move it, to reduce it, to find something in it, in a gufunc,
# in a product of two rows by its BLAS, to look whether it is true.
cdef double MOVE_NS = 0.03
cdef double REDUCE_NS = 0.031
cdef double FIND_NS = 0.0625
cdef double GUFUNC_NS = 0.125
cdef double DOT_NS = 0.013
cdef double TRUTH_NS = 0.0105

# What NumPy needs for one item: in its fastest reductions, to look whether it is zero, to count it
# into a bin of a histogram and into that of its own number, to multiply it, to accumulate it, to put
# it somewhere, to search for it, to sort it, to call a ufunc of it that is dear; and, of a few hundred: to
# sort its index stably, the same by two keys, to find out by a hash or by comparisons whether it occurs
# twice.
cdef double ITEM_NS = 0.25
cdef double NONZERO_NS = 0.25
cdef double COUNT_NS = 0.125
cdef double BIN_NS = 1.0
cdef double FACTOR_NS = 0.5
cdef double DEAR_NS = 2.0
cdef double SCAN_NS = 0.25
cdef double PUT_NS = 2.0
cdef double KEY_NS = 2.0
cdef double SORT_NS = 8.0
cdef double ARGSORT_NS = 20.0
cdef double ORDER_NS = 20.0
cdef double HASH_NS = 32.0

# These are less than NumPy needs for an item, so that only larger calls are shared: our way first
# takes samples or clears tables, or NumPy has vectors.  They are for ranks, merges, distinct values
# that NumPy sorts, distinct floats, distinct values of two bytes, membership, partitions, the first
# few of each row, what is accumulated or reduced in segments by NumPy's own loop, whole numbers that are
# accumulated (NumPy needs 1 ns for one, for a float 4), the orders of complex
# numbers and (for each byte) of integers of 1 and 2 bytes, whose digits NumPy counts, and bytes side by
# side: of 256 and 512 KB a copy by two threads takes 1.1 to 1.3 times as long as by one (two kinds of
# AMD's processors and two of Intel's).
cdef double RANK_NS = 1.0
cdef double MERGE_NS = 0.2
cdef double UNIQUE_NS = 0.5
cdef double FLOATS_NS = 0.06
cdef double SHORTS_NS = 0.031
cdef double ISIN_NS = 1.0
cdef double PARTITION_NS = 0.125
cdef double FIRST_NS = 0.031
cdef double LOOP_NS = 0.031
cdef double WHOLE_NS = 0.125
cdef double COMPLEX_NS = 6.0
cdef double DIGIT_NS = 0.04
cdef double STRAIGHT_NS = 0.0038

# A pool of one thread leaves no more bytes than these to NumPy in one call: Python's signal
# handlers wait until NumPy is done.
cdef int64_t ALONE_BYTES = 1 << 26

if share_from():
    # For tests: nothing is too small.
    SHARE_NS = DIRECT_NS = DIRECT_CAST_NS = 0.0
    ALONE_BYTES = -1


# ---- what is left to NumPy --------------------------------------------------

cdef ndarray private_copy(ndarray a):
    cdef ndarray made
    if not (cnp.PyArray_CheckExact(a) and cnp.PyArray_IS_C_CONTIGUOUS(a) and cnp.PyArray_ISNOTSWAPPED(a)
            and cnp.PyArray_TYPE(a) < cnp.NPY_OBJECT):
        return cnp.PyArray_NewCopy(a, cnp.NPY_KEEPORDER)
    # Without what NumPy makes ready for a cast: most are small.
    made = cnp.PyArray_EMPTY(cnp.PyArray_NDIM(a), cnp.PyArray_DIMS(a), cnp.PyArray_TYPE(a), 0)
    memcpy(cnp.PyArray_DATA(made), cnp.PyArray_DATA(a), cnp.PyArray_NBYTES(a))
    return made


cdef class Left:
    def __cinit__(self, str why):
        self.why = why


no_value = np._NoValue
too_small = Left(None)
cdef dict lefts = {}        # reason -> what plans return
cdef dict counts = {}       # (function, reason) -> calls
cdef object counting = threading.Lock()


cdef Left left(str why):
    found = lefts.get(why)
    if found is None:
        if len(lefts) > 4096:
            lefts.clear()       # each dtype is a reason, and users can make any number of dtypes
        found = lefts[why] = Left(why)
    return found


cdef Left left_dtype(object dtype):
    kind = {"O": "object", "V": "record or void", "T": "StringDType"}.get(dtype.kind, dtype.name)
    return left(f"dtype {kind}")


def left_alone():
    """How many large calls were left to their namesake: {(function, reason): calls}."""
    return dict(counts)


cdef object count_left(str name, str why, int64_t bytes):
    if bytes <= NOTED_BYTES:
        return
    # Not a critical section: the dictionary's own operations would end it (Python 3.13).
    with counting:
        counts[name, why] = counts.get((name, why), 0) + 1


cdef int64_t bytes_of(object x):
    """Of its items, as far as it says so without being converted; else 0."""
    if cnp.PyArray_CheckExact(x):
        return cnp.PyArray_NBYTES(x)
    n = getattr(x, "nbytes", None)
    if type(n) is int:
        return n
    if type(x) is list or type(x) is tuple:
        return max(<int64_t>(8 * len(x)), largest(x) if len(x) < 64 else 0)
    return 0


cdef int64_t largest(object values):
    """The bytes of the largest of the values."""
    cdef int64_t most = 0
    for x in values:
        most = max(most, bytes_of(x))
    return most


# ---- what users have --------------------------------------------------------

cdef inline bint is_plain(PyObject* x) noexcept:
    """An array of NumPy's own, a number, or nothing."""
    cdef PyTypeObject* t = Py_TYPE(x)
    return (t == &PyArray_Type or t == &PyLong_Type or t == &PyFloat_Type or x == Py_None
            or t == &PyBool_Type or t == &PyComplex_Type
            or PyType_IsSubtype(t, &PyGenericArrType_Type))


cdef int check_out(object out, tuple shape=None, object dtype=None, bint swapped=False) except -1:
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out: must be an array, not {type(out).__name__}")
    if shape is not None and out.shape != shape:
        raise ValueError(f"out: shape {out.shape} does not match that of the result, {shape}")
    if dtype is not None and out.dtype != dtype and not (
            swapped and out.dtype.newbyteorder("=") == dtype.newbyteorder("=")):
        raise TypeError(f"out: dtype {out.dtype} does not match that of the result, {dtype}")
    if not cnp.PyArray_ISWRITEABLE(out):
        raise ValueError("out: output array is read-only")
    return 0


cdef bint overlaps_itself(ndarray a) noexcept:
    cdef int64_t reach = cnp.PyArray_ITEMSIZE(a), step
    cdef uint64_t done = 0
    cdef int i, d, shortest
    if cnp.PyArray_IS_C_CONTIGUOUS(a) or cnp.PyArray_SIZE(a) == 0:
        return False
    for i in range(cnp.PyArray_NDIM(a)):
        shortest = -1
        for d in range(cnp.PyArray_NDIM(a)):
            if not done >> d & 1 and (shortest < 0 or llabs(cnp.PyArray_STRIDE(a, d))
                                      < llabs(cnp.PyArray_STRIDE(a, shortest))):
                shortest = d
        done |= <uint64_t>1 << shortest
        step = llabs(cnp.PyArray_STRIDE(a, shortest))
        if cnp.PyArray_DIM(a, shortest) > 1:
            if step < reach:
                return True
            reach += step * (cnp.PyArray_DIM(a, shortest) - 1)
    return False


cdef inline bint plain_out(PyObject* x) noexcept:
    return x == Py_None or (Py_TYPE(x) == &PyArray_Type and not overlaps_itself(<ndarray>x))


cdef inline bint plain_axis(PyObject* x) noexcept:
    return Py_TYPE(x) == &PyLong_Type or x == Py_None or Py_TYPE(x) == &PyTuple_Type


cdef object array_ufunc = np.ndarray.__array_ufunc__
cdef object array_function = np.ndarray.__array_function__
cdef object absent = object()
# Classes that stand above: NumPy's functions ask them, ours compute them first.
lazy_classes = set()


cdef tuple classes_of_their_own():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # NumPy 2.5 will do without one of them
        return np.matrix, getattr(np.char, "chararray", np.matrix)


cdef tuple computing_otherwise = classes_of_their_own()


cdef bint computes_alike(object t):
    """Whether a subclass of arrays computes as arrays do."""
    return (t.__array_ufunc__ is array_ufunc and t.__array_function__ is array_function
            and not issubclass(t, computing_otherwise))


cdef bint is_masked(object x):
    """There is no masked array while nobody has imported numpy.ma: a call of ours does not."""
    if not isinstance(x, np.ndarray) or cnp.PyArray_CheckExact(x):
        return False
    ma = sys.modules.get("numpy.ma")
    return ma is not None and isinstance(x, getattr(ma, "MaskedArray", ()))


cdef bint owns_functions(object t):
    """Whether a class that is no array's answers for NumPy's functions."""
    return hasattr(t, "__array_function__") and t not in lazy_classes


cdef object from_dlpack(object x):
    """As an array, if it can be one by no other protocol; NumPy's functions do not look for it."""
    return np.from_dlpack(x) if not hasattr(x, "__array__") and hasattr(x, "__dlpack__") else x


cdef int refuse_lazy(str name, object x) except -1:
    for part in x if type(x) is tuple else (x,):
        if type(part) in lazy_classes:
            raise TypeError(f"{name}: expected an array to write to, not a lazy array, which has no memory; "
                            "collect() gives one")
    return 0


cdef object convert(object x):
    """As a plain array, without a copy if that can be."""
    a = np.asarray(from_dlpack(x))
    # Of what NumPy knows nothing, its own function says what is wrong.
    return x if a.ndim == 0 and a.dtype.hasobject else a


cdef object listed(list_or_tuple):
    """As an array; itself where that cannot be, so that NumPy says why in its own words."""
    a = list_or_tuple
    try:
        a = np.asarray(list_or_tuple)
    except (TypeError, ValueError):
        pass
    return a


cdef bint takes_numpys_arguments(object x, str method):
    return hasattr(x, method) and type(x).__module__.split(".")[0] not in ("polars", "torch", "pyarrow")


cdef object plain_array(object x):
    return np.asarray(x)


cdef object refuse_mask(str name, str function):
    raise TypeError(f"{name}: {function} knows no masks; give the array's compressed() or filled()")


cdef object member(object x, str name, str function):
    if cnp.PyArray_CheckExact(x):
        return x
    if is_masked(x):
        refuse_mask(name, function)
    return np.asarray(convert(x))


cdef object computed(object x, bint whole=False):
    if type(x) in lazy_classes:
        return np.asarray(x)
    # A list of numbers may be long.
    if (type(x) is list or type(x) is tuple) and x and (
            whole or type(x[0]) is np.ndarray or not is_plain(<PyObject*>x[0])):
        # Another list is made for a lazy array alone: one of two thousand million takes 16 GB.
        for i, y in enumerate(x):
            z = computed(y, whole)
            if z is not y:
                return type(x)([*x[:i], z, *[computed(later, whole) for later in x[i + 1:]]])
    return x


cdef object rewrap(object result, object x, Gives gives, tuple context):
    """A result as the namesake would return it for an argument of x's type."""
    if gives == GIVES_FIRST:
        if type(result) is tuple:
            return rewrap(result[0], x, GIVES_ITEM, context), *result[1:]
        gives = GIVES_ITEM
    if type(result) is tuple:
        return tuple([rewrap(r, x, gives, None if context is None else (context[0], context[1], i))
                      for i, r in enumerate(result)])
    if gives == GIVES_ROWS and not isinstance(result, np.ndarray):
        return result
    # An index of a np.recarray without fields gives an array.
    if gives == GIVES_WRAP or gives == GIVES_ROWS or (gives == GIVES_ITEM and type(x[:0]) is type(x)):
        return x.__array_wrap__(np.asarray(result), context, not isinstance(result, np.ndarray))
    if gives == GIVES_SAME and isinstance(result, np.ndarray):
        result = result.view(type(x))
        result.__array_finalize__(x)
    return result


# ---- ufuncs -----------------------------------------------------------------

cdef dict public = {}       # name -> Operation


@cython.auto_pickle(False)
cdef class InPlace:
    # Has the attributes of NumPy's object, and is equal to it.

    def __init__(self, given, called, name=None):
        self.vector = <vector_fn>call_in_place
        self.given = given
        self.called = called
        self.__name__ = given.__name__ if name is None else name
        self.__module__ = getattr(given, "__module__", "numpy")     # NumPy 2.0's ufuncs have none

    @property
    def __doc__(self):
        return self.given.__doc__

    @property
    def __wrapped__(self):
        return getattr(self.given, "__wrapped__", self.given)   # what others find behind NumPy's

    def __call__(self, *args, **kwargs):
        return self.called(*args, **kwargs)

    def __get__(self, instance, owner):
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name):
        return getattr(self.given, name)

    def __eq__(self, other):
        return self.given == ((<InPlace>other).given if isinstance(other, InPlace) else other)

    def __hash__(self):
        return hash(self.given)

    def __repr__(self):
        return f"<shared {self.given!r}>"

    def __reduce__(self):
        # Not NumPy's own, which cannot be pickled while `enable` has this in its place.
        if vars(np).get(self.__name__) is self:
            return self.__name__
        return shared_by_name, (self.__name__,)


cdef object call_in_place(object self, PyObject** args, size_t nargsf, PyObject* names):
    return PyObject_Vectorcall((<InPlace>self).called, args, nargsf, names)


# What NumPy's ufuncs and their methods take by name; what else is given, they refuse.
cdef frozenset call_options = frozenset(
    "out where axes axis keepdims casting order dtype subok signature sig".split())
cdef frozenset method_options = frozenset("array indices axis dtype out keepdims initial where".split())


@cython.auto_pickle(False)
cdef class Ufunc(InPlace):
    # A ufunc that runs on all cores, with a ufunc's whole face: what `pyblitz.numpy` has, and
    # what a container's `__array_ufunc__` is called with in the ufunc's place.

    def __init__(self, fn, name=None):
        InPlace.__init__(self, fn, public["par_map"], name)
        self.vector = <vector_fn>vectorcall_ufunc

    @property
    def __doc__(self):
        return self.given.__doc__       # a class without one of its own has None

    @property
    def __class__(self):
        return ufunc        # what isinstance looks at

    def __get__(self, instance, owner):
        return self         # as a ufunc, no method of a class that has it as an attribute

    def __call__(self, *args, **kwargs):
        self.used = True
        if not call_options.issuperset(kwargs):
            return self.given(*args, **kwargs)
        return self.called(self.given, *args, **kwargs)

    cdef object by_method(self, str method, str name, tuple args, dict kwargs):
        """A method that has a function: with NumPy's own keywords."""
        self.used = True
        if not method_options.issuperset(kwargs):
            return getattr(self.given, method)(*args, **kwargs)
        if "array" in kwargs and not args:
            args = (kwargs.pop("array"),)
        return public[name](self.given, *args, **kwargs)

    def reduce(self, *args, **kwargs):
        return self.by_method("reduce", "par_reduce", args, kwargs)

    def accumulate(self, *args, **kwargs):
        return self.by_method("accumulate", "par_scan", args, kwargs)

    def reduceat(self, *args, **kwargs):
        return self.by_method("reduceat", "par_reduceat", args, kwargs)

    def outer(self, *args, **kwargs):
        self.used = True
        if len(args) == 2 and self.given.nin == 2 and self.given.signature is None:
            first, second = [np.asarray(x) if is_plain(<PyObject*>x) or type(x) is list else x for x in args]
            if type(first) is np.ndarray and type(second) is np.ndarray:
                return self(first.reshape(first.shape + (1,) * second.ndim), second, **kwargs)
        return self.alone("outer", "containers", args, kwargs)

    def at(self, *args, **kwargs):
        self.used = True
        return self.alone("at", "indices that may repeat", args, kwargs)

    cdef object alone(self, str method, str why, tuple args, dict kwargs):
        result = getattr(self.given, method)(*args, **kwargs)
        count_left(f"{self.__name__}.{method}", why, largest(args))
        return result

    def __reduce__(self):
        return shared, (self.given,)


cdef tuple unpacked(PyObject** args, Py_ssize_t n, PyObject* names):
    """The arguments of a call by PEP 590 as a list and a dictionary."""
    given = [<object>args[i] for i in range(n)]
    named = {}
    if names != NULL:
        named = {name: <object>args[n + i] for i, name in enumerate(<tuple>names)}
    return given, named


cdef object vectorcall_ufunc(object self, PyObject** args, size_t nargsf, PyObject* names):
    """par_map, with the ufunc in front of the arguments."""
    cdef Ufunc fn = <Ufunc>self
    cdef PyObject* all_of_them[MOST_ARGS + 1]
    cdef Py_ssize_t n = PyVectorcall_NARGS(nargsf), named = 0 if names == NULL else len(<tuple>names)
    fn.used = True
    if n + named > MOST_ARGS or (named and not call_options.issuperset(<tuple>names)):
        given, kwargs = unpacked(args, n, names)
        return fn.given(*given, **kwargs)
    all_of_them[0] = <PyObject*>fn.given
    memcpy(all_of_them + 1, args, (n + named) * sizeof(PyObject*))
    return PyObject_Vectorcall(fn.called, all_of_them, n + 1, names)


cdef dict stand_ins = {}
# Two functions of NumPy's that do the same.
cdef dict second_names = {"amax": "max", "amin": "min"}


cdef dict handed_over = {}      # class of containers -> {name: function of these}


def hand_over(cls, functions):
    """Leaves calls with arrays of a library to functions that know them, by the public names."""
    handed_over[cls] = functions


cdef object handed(str name, object t):
    for cls, functions in handed_over.items():
        if name in functions and issubclass(t, cls):
            return functions[name]
    return None


cdef object handed_member(str name, object x):
    for part in x[:HANDED_MEMBERS] if type(x) is tuple or type(x) is list else (x,):
        found = handed(name, type(part))
        if found is not None:
            return found
    return None


def shared_by_name(str name):
    now = vars(np)[name]
    return shared((<InPlace>now).given if type(now) is InPlace else now)


def shared(given):
    """The one object that stands for a ufunc or function of NumPy's, or None."""
    given = bare(given)
    if isinstance(given, ufunc):
        if given not in stand_ins:
            stand_ins.setdefault(given, Ufunc(given))
        return stand_ins[given]
    name = getattr(given, "__name__", None)
    ours = public.get(f"par_{second_names.get(name, name)}")
    if ours is not None and given not in stand_ins:
        stand_ins.setdefault(given, InPlace(given, ours))
    return None if ours is None else stand_ins[given]


cdef bint overrides(object t):
    return getattr(t, "__array_ufunc__", None) not in (None, array_ufunc)


cdef str own_code(object t):
    return f"{t.__name__}, by {t.__module__.split('.')[0]}'s own code"


class StandIn:
    """In the place of a container, to learn what its protocol would be called with."""

    def __init__(self, x):
        self.x = x

    def __array_ufunc__(self, fn, method, *inputs, **options):
        return inputs, options


cdef object stand_in(object x):
    if type(x) is tuple:
        return tuple([stand_in(y) for y in x])
    return StandIn(x) if overrides(type(x)) else x


cdef object given_for(object x):
    if type(x) is tuple:
        return tuple([given_for(y) for y in x])
    return x.x if type(x) is StandIn else x


cdef dict pandas_operators = {
    np.add: True, np.subtract: True, np.multiply: True, np.true_divide: True,
    np.equal: False, np.not_equal: False, np.less: False, np.less_equal: False,
    np.greater: False, np.greater_equal: False,
}


cdef Ufunc ufunc_for(object fn, tuple inputs):
    """In the place of ``fn``, for containers.  pandas hands ufuncs of operators' names to its
    operators, which are serial.  Where the two are the same, for numbers of NumPy's, the
    name is another one: comparisons besides ask for the same labels."""
    pd = sys.modules.get("pandas")
    aligns = pandas_operators.get(fn)
    if pd is None or aligns is None or any([isinstance(x, pd.RangeIndex) for x in inputs]):
        return Ufunc(fn)        # (a RangeIndex may stay one)
    first = None
    for x in inputs:
        if isinstance(x, (pd.Series, pd.Index)):
            if not isinstance(x.dtype, np.dtype) or x.dtype.kind not in "iufc":
                return Ufunc(fn)
            if not aligns and isinstance(x, pd.Index):
                return Ufunc(fn)        # whose comparisons give plain arrays
            index = x.index if isinstance(x, pd.Series) else x
            if first is None:
                first = index
            elif not aligns and not index.equals(first):
                return Ufunc(fn)
        elif not is_plain(<PyObject*>x):
            return Ufunc(fn)
    return Ufunc(fn, "par_" + fn.__name__)


# ---- docstrings -------------------------------------------------------------

# Parameters of several functions, by name, or by name and default.
cdef dict described = {
    "a": "a : array_like",
    "axis=None": """axis : None or int or tuple of int
    What to reduce along; all axes by default.""",
    "axis=-1": """axis : int or None
    Along which axis, by default the last one; None: of the flattened array.""",
    "axis=0": """axis : int
    Along which axis, by default the first one.""",
    "dtype": """dtype : dtype
    The type of the calculation and the result.""",
    "out": """out : ndarray
    Where the result goes.""",
    "keepdims": """keepdims : bool
    Whether reduced axes stay, with length one.""",
    "initial": """initial : scalar
    What to start from.""",
    "where": """where : array_like of bool
    Which elements to include.""",
    "ddof": """ddof : float
    The divisor is the number of elements less this.""",
    "casting": """casting : str
    What casts to allow.""",
    "stable": """stable : bool
    True is ``kind='stable'``.""",
    "order=None": """order : str or list of str
    Fields to compare first, for structured arrays.""",
    "mode": """mode : {'raise', 'wrap', 'clip'}
    What to do about indices out of bounds.""",
    "descending": """descending : bool
    True sorts from the greatest element down; NaN and NaT are last all the
    same, and a stable sort keeps equal elements in their order. As in NumPy 2.5.""",
    "less": """less : compiled function
    ``int less(const void *a, const void *b, void *data)``, whether the element at ``a`` goes
    before that at ``b``; see the kernels of ``par_map`` for what it may be. The sort is then
    stable.""",
    "predicate": """predicate : number, array_like of bool, ufunc, compiled kernel or callable
    A number, or another value, means the elements that are equal to it.  Booleans, in the
    shape of the elements, say of each whether it is meant.  A ufunc, a kernel (see
    :func:`par_map`) or a Python function of arrays gives a truth value (zero is false) for
    each element; a Python function is called as in :meth:`ParIter.map`.""",
    "mask": """mask : array_like of bool, number, ufunc, compiled kernel or callable
    Of the shape of ``a``, or of its first axes: then it means rows.  Or a value or
    predicate of the items, as for :func:`par_find_first`.""",
    "op": """op : ufunc
    With two inputs and one output.""",
    "kth": """kth : int or sequence of int
    The positions whose items are to be where sorting would put them, with what is less
    before them and what is greater after them.  Negative ones count from the end.""",
    "kind=introselect": "kind : {'introselect'}",
    "options": """**options
    What NumPy's function of this name takes besides: it then does the call.""",
    "progress": """progress : bool or callable
    True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
    now and then.""",
}
cdef object section = re.compile(r"\n\n(Parameters|Attributes|Returns|Raises|Notes|References|Examples)\n-+\n")


cdef str documented(str text, object signature, str raises, str notes):
    """A docstring made complete: with those parameters that are the same everywhere, with what
    most functions return and raise, and with the import that its examples need."""
    head, *parts = section.split(inspect.cleandoc(text).rstrip())
    sections = dict(zip(parts[::2], parts[1::2]))
    given, entries = {}, {}
    for entry in re.split(r"\n(?=\S)", sections.get("Parameters", "")):
        given.update(dict.fromkeys(re.split(r" :|\n", entry)[0].split(", "), entry))
    for name, p in signature.parameters.items():
        starred = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + name
        if name != "self":
            entry = given.get(starred) or described.get(f"{name}={p.default}") or described.get(name, "")
            if entry and starred not in given and p.default is not p.empty:
                entry = re.sub("$", ", optional", entry, count=1, flags=re.M)
            entries[entry] = None       # once, where it describes several
    sections["Parameters"] = "\n".join(filter(None, entries))
    if "out" in signature.parameters:
        what = "ndarray or scalar" if "keepdims" in signature.parameters else "ndarray"
        sections.setdefault("Returns", what + "\n    ``out`` if it was given.")
    sections.setdefault("Raises", raises)
    sections.setdefault("Notes", notes)
    sections["Examples"] = ">>> import numpy as np, pyblitz as pb\n" + sections["Examples"]
    return "".join([head] + [f"\n\n{name}\n{'-' * len(name)}\n{sections[name]}" for name in (
        "Parameters", "Returns", "Raises", "Notes", "References", "Examples") if sections.get(name)]) + "\n"


# What is raised, by a parameter that a function has.
cdef dict raises_by_parameter = {
    "predicate": """TypeError, ValueError
    When the predicate is nothing of these, or does not fit the elements, or does not give
    one value for each.""",
    "mask": """IndexError
    The shape of the mask is another.
TypeError
    The mask is neither of booleans nor a value or predicate that fits the items.""",
    "less": """TypeError, ValueError, numpy.exceptions.AxisError
    What NumPy raises for the same mistake; an ``out`` of another shape or dtype, or
    read-only; as in NumPy 2.5, ``descending`` beside a ``kind``, or of objects and records.
RuntimeError
    As in NumPy 2.5, ``descending`` of variable-width strings.""",
    "step": """ValueError
    When ``step`` is not positive.""",
    "n": """ValueError
    When ``n`` is negative.""",
}


cdef str raises_of(object namesake, object parameters, bint masked):
    """What it raises if its docstring does not say it."""
    for name in raises_by_parameter:
        if name in parameters:
            text = raises_by_parameter[name]
            return text if masked else text[:-1] + "; for masked arrays."
    if namesake is None or getattr(np, namesake.__name__, None) is not namesake:
        return None     # it does
    errors = "TypeError, ValueError" + (", numpy.exceptions.AxisError" if "axis" in parameters else "")
    return f"{errors}\n    What ``np.{namesake.__name__}`` raises for the same mistake."


def complete_methods(cls):
    """Completes the docstrings of the public methods of a class, but for those that end chains,
    which do it themselves."""
    for name, method in vars(cls).items():
        if not name.startswith("_") and callable(method) and type(method) is not ending:
            signature = inspect.signature(method)
            method.__doc__ = documented(method.__doc__, signature, raises_of(None, signature.parameters, True), None)


# ---- operations -------------------------------------------------------------

cdef object with_parameter(object fn):
    """Its signature, with ``progress``."""
    signature = inspect.signature(fn)
    parameters = list(signature.parameters.values())
    at = len(parameters) - (parameters[-1].kind is inspect.Parameter.VAR_KEYWORD)
    parameters.insert(at, inspect.Parameter("progress", inspect.Parameter.KEYWORD_ONLY, default=None))
    return signature.replace(parameters=parameters)


cdef class Received:
    """A call's arguments on their way to a plan."""


@cython.auto_pickle(False)
cdef class Operation:
    def __init__(self, plan, namesake, arrays, own, method, of_ufunc, gives, masked, ns, twice):
        cdef int i
        code = plan.__code__
        positional = code.co_argcount
        self.plan = plan
        self.namesake = namesake
        self.method = method
        self.of_ufunc = of_ufunc
        self.gives = gives
        self.masked = masked
        self.ns = ns
        self.names = code.co_varnames[:positional]
        self.own = tuple(own.split())
        self.slots = {}
        self.variadic = NOWHERE
        self.sized = NOWHERE
        for name in arrays.split():
            if name.startswith("*"):
                self.variadic = positional
                continue
            is_out = name == "out" or name.endswith("!")
            name = name.rstrip("!")
            self.slots[name] = is_out
            if name in self.names:
                i = self.names.index(name)
                self.arrays |= <uint64_t>1 << i
                self.outs |= <uint64_t>is_out << i
                self.sized = min(self.sized, i)
        for name in twice.split():
            self.twice |= <uint64_t>1 << self.names.index(name)
        self.axis = self.names.index("axis") if "axis" in self.names else NOWHERE
        self.vector = <vector_fn>operate
        self.__name__ = self.__qualname__ = plan.__name__
        self.__module__ = "pyblitz"
        self.__wrapped__ = plan

    @property
    def __doc__(self):
        cdef str text = self.plan.__doc__
        signature = self.__signature__
        # The first line is the signature, which Cython has put there.
        return documented(text.split("\n", 1)[1].lstrip("\n"), signature, raises_of(
            self.namesake, signature.parameters, self.masked), "O(n) work.")

    @property
    def __signature__(self):
        return with_parameter(self.plan)

    def __call__(self, *args, **kwargs):
        return self.receive(args, kwargs)

    def __get__(self, instance, owner):
        return self         # no method of a class that has it as an attribute

    def __repr__(self):
        return f"<function pyblitz.{self.__name__}>"

    def __reduce__(self):
        return self.__name__

    cdef bint all_plain(self, PyObject** args, Py_ssize_t n, PyObject* names) except -1:
        """Whether all arrays among the arguments are NumPy's own, and nothing is the door's."""
        cdef Py_ssize_t i
        for i in range(n):
            if i >= self.variadic or self.arrays >> i & 1:
                if not is_plain(args[i]) or (i < self.variadic and self.outs >> i & 1 and not plain_out(args[i])):
                    return False
            elif Py_TYPE(args[i]) == &PyList_Type or Py_TYPE(args[i]) == &PyTuple_Type:
                for x in <object>args[i]:
                    if type(x) in lazy_classes:
                        return False
        if self.axis < n and not plain_axis(args[self.axis]):
            return False
        if names != NULL:
            given = <tuple>names
            for i in range(len(given)):
                name = given[i]
                if name == "progress" or name in self.own or (name == "axis" and not plain_axis(args[n + i])):
                    return False
                if not plain_out(args[n + i]):
                    is_out = self.slots.get(name)
                    if is_out or (is_out is not None and not is_plain(args[n + i])):
                        return False
        return True

    cdef bint is_read_twice(self, object where) except -1:
        """Whether the namesake does that with an argument, given by position or by name."""
        if type(where) is str:
            where = self.names.index(where) if where in self.names else NOWHERE
        return where < 64 and self.twice >> <int>where & 1

    cdef object ask_namesake(self, PyObject** args, Py_ssize_t n, PyObject* names):
        """With the very arguments of the call, but for copies of what it reads twice."""
        cdef PyObject* mine[MOST_ARGS]
        cdef Py_ssize_t i, count = n + (0 if names == NULL else len(<tuple>names))
        cdef list copies = []
        if self.twice and count <= MOST_ARGS:
            for i in range(count):
                mine[i] = args[i]
                if Py_TYPE(args[i]) == &PyArray_Type and self.is_read_twice(i if i < n else (<tuple>names)[i - n]):
                    copies.append(private_copy(<ndarray>args[i]))
                    mine[i] = <PyObject*>copies[-1]
            args = mine
        if self.namesake is not None:
            return PyObject_Vectorcall(self.namesake, args, n, names)
        if n == 0:
            raise TypeError(f"{self.__name__}: {self.names[0]} is given by position")
        fn = <object>args[0]
        return PyObject_Vectorcall(fn if self.method is None else getattr(fn, self.method), args + 1, n - 1, names)

    cdef bint is_small(self, PyObject* x) noexcept:
        """Whether x, which `ns` is about, is too small to share.  What is no array is one item."""
        return not pays(cnp.PyArray_SIZE(<ndarray><object>x) if Py_TYPE(x) == &PyArray_Type else 1, self.ns)

    cdef dict without_own(self, dict kwargs):
        return {name: x for name, x in kwargs.items() if name not in self.own} if self.own else kwargs

    cdef object for_namesake(self, object where, object x):
        return private_copy(x) if isinstance(x, np.ndarray) and self.is_read_twice(where) else x

    cdef object converted(self, object where, object given, object mine):
        """Of an argument that became `mine`, what the namesake gets.  What shares its memory with
        somebody is copied only as an array; a list does not, and NumPy converts it in its own way."""
        if type(given) in lazy_classes:
            return mine
        if isinstance(given, (np.ndarray, list, tuple)) or not isinstance(mine, np.ndarray):
            return given
        # NumPy's function would call a method that takes other arguments than NumPy's.
        others = self.method is not None and hasattr(given, self.method) and (
            not takes_numpys_arguments(given, self.method))
        return mine if others or self.is_read_twice(where) else given

    cdef object go_back(self, str why, tuple args, dict kwargs, int64_t bytes=0):
        """To the namesake, from the slow road.  bytes: of what they became, at least."""
        args = tuple([from_dlpack(x) for x in args])
        kwargs = {name: from_dlpack(x) for name, x in self.without_own(kwargs).items()}
        if self.twice:
            args = tuple([self.for_namesake(i, x) for i, x in enumerate(args)])
            kwargs = {name: self.for_namesake(name, x) for name, x in kwargs.items()}
        if self.namesake is not None:
            result = self.namesake(*args, **kwargs)
        elif not args:
            raise TypeError(f"{self.__name__}: {self.names[0]} is given by position")
        else:
            fn = args[0] if self.method is None else getattr(args[0], self.method)
            result = fn(*args[1:], **kwargs)
        if why is not None:
            count_left(self.__name__, why, max(bytes, largest(args), largest(kwargs.values())))
        return result

    cdef object by_protocol(self, tuple args, dict kwargs):
        """A ufunc's call or method on containers, by their own ``__array_ufunc__``."""
        cdef Ufunc own
        fn = args[0]
        method = "__call__" if self.method is None else self.method
        # NumPy says what the protocol's arguments are.
        inputs, options = getattr(fn, method)(
            *[stand_in(x) for x in args[1:]],
            **{name: stand_in(x) for name, x in self.without_own(kwargs).items()})
        inputs = tuple([given_for(x) for x in inputs])
        options = {name: given_for(x) for name, x in options.items()}
        own = ufunc_for(fn, inputs)
        asked = []
        for x in inputs + options.get("out", ()):
            t = type(x)
            if overrides(t) and t not in asked:
                asked.append(t)
        # A subclass before what it is derived from.
        for t in sorted(asked, key=lambda t: -len(t.__mro__)):
            x = next(x for x in inputs + options.get("out", ()) if type(x) is t)
            # In the place of operators of pandas's, which say nothing of what floating point met.
            with np.errstate(all="ignore") if own.__name__ != fn.__name__ else contextlib.nullcontext():
                result = t.__array_ufunc__(x, own, method, *inputs, **options)
            if result is not NotImplemented:
                if not own.used:
                    count_left(self.__name__, own_code(t), largest(args))
                return result
        return self.go_back("a container without an answer", args, kwargs)

    cdef bint take_axis(self, list given, dict named) except -1:
        """``axis``: any integer; False: NumPy says what is wrong with it."""
        cdef object into = given if self.axis < len(given) else named if "axis" in named else None
        if self.axis == NOWHERE or into is None:
            return True
        where = self.axis if into is given else "axis"
        x = into[where]
        if plain_axis(<PyObject*>x):
            return True
        if isinstance(x, bool) or not hasattr(x, "__index__"):
            return False
        into[where] = operator.index(x)
        return True

    cdef str take(self, Received r, object into, object where, str name, bint is_out):
        """One argument as a plain array; or why NumPy, or its own library, is asked instead."""
        cdef object x = into[where], t = type(x)
        if is_masked(x):
            # Of a ufunc's call, its __array_wrap__ knows what to do with masks.
            if not r.is_ufunc or self.method is not None or is_out:
                if not self.masked and not r.is_ufunc:
                    refuse_mask(name, self.__name__)
                return "masked arrays"
        if isinstance(x, np.ndarray):
            if not computes_alike(t):
                r.asks = r.is_ufunc and overrides(t)
                return None if r.asks else f"{t.__name__}, which computes otherwise"
            into[where] = x.view(np.ndarray)
            first = name != "where" if r.is_ufunc else where == self.sized or name == self.names[self.sized]
            if not is_out and first and (
                    r.wrapper is None or x.__array_priority__ > r.wrapper.__array_priority__):
                r.wrapper = x
        elif type(x) is list or type(x) is tuple:
            if not is_out:
                into[where] = listed(x)
                return "a list that is no array" if into[where] is x else None
        elif owns_functions(t):
            r.owner = t
            return own_code(t)
        elif getattr(t, "__array_ufunc__", absent) is not absent:
            if r.is_ufunc:
                r.asks = True
            elif is_out or (self.method is not None and (
                    takes_numpys_arguments(x, self.method) or hasattr(t, "__array_wrap__"))):
                return own_code(t)
            else:
                into[where] = convert(x)
        elif self.method is not None and not r.is_ufunc and takes_numpys_arguments(x, self.method):
            return own_code(t)
        elif not is_out:
            into[where] = convert(x)
            if into[where] is x and (r.is_ufunc or self.namesake is not None):
                return "what NumPy knows nothing of"
        return None

    cdef str take_all(self, Received r):
        """All of them, in place; or why the namesake is asked instead."""
        cdef bint numpys = r.is_ufunc or self.namesake is not None
        if not self.take_axis(r.given, r.named) and numpys:
            return "an axis that is no integer"
        slots = [i for i in range(len(r.given)) if i >= self.variadic or self.arrays >> i & 1]
        for where in slots + [name for name in r.named if name in self.slots]:
            into = r.given if type(where) is int else r.named
            name = where if type(where) is str else self.names[where] if where < self.variadic and (
                where < len(self.names)) else f"arrays[{where - self.variadic}]"
            is_out = self.slots.get(name, False)
            x = into[where]
            for one in (x if type(x) is tuple else (x,)) if is_out else ():
                if isinstance(one, np.ndarray) and overlaps_itself(one):
                    if not numpys:
                        raise ValueError(f"{name}: its elements overlap each other")
                    return "an out whose elements overlap"
            if is_out and type(x) is tuple and len(x) == 1:
                x = into[where] = x[0]
            if is_out and isinstance(x, np.ndarray):
                r.target = x
            if name == "out" and numpys and not isinstance(x, np.ndarray) and type(x) is not tuple and (
                    x is not None and not hasattr(type(x), "__array_ufunc__")):
                return "an out that is no array"
            if not is_plain(<PyObject*>x) and type(x) is not str:
                why = self.take(r, into, where, name, is_out)
                if why is not None:
                    return why
        return None

    cdef int refuse_lazy_outs(self, tuple args, dict kwargs) except -1:
        for name, is_out in self.slots.items():
            if is_out:
                i = self.names.index(name) if name in self.names else NOWHERE
                if i < len(args) and i < self.variadic:
                    refuse_lazy(name, args[i])
                elif name in kwargs:
                    refuse_lazy(name, kwargs[name])
        return 0

    cdef object receive(self, tuple args, dict kwargs):
        """The slow road: what is not plain."""
        cdef Received r
        if "progress" in kwargs:
            kwargs = dict(kwargs)
            progress = kwargs.pop("progress")
            return with_progress(progress, self, args, kwargs)
        self.refuse_lazy_outs(args, kwargs)
        r = Received.__new__(Received)
        if self.method is None and not self.of_ufunc:
            args = tuple([computed(x) for x in args])
            kwargs = {name: computed(x) for name, x in kwargs.items()}
        if self.of_ufunc:
            args = tuple([bare(x) for x in args[:1]]) + args[1:]
            kwargs = {name: bare(x) for name, x in kwargs.items()}
        r.given, r.named = list(args), dict(kwargs)
        r.is_ufunc = self.of_ufunc and len(args) > 0 and isinstance(args[0], ufunc)
        why = self.take_all(r)
        if why is not None:
            theirs = None if r.owner is None else handed(self.__name__, r.owner)
            if theirs is not None:
                return theirs(*args, **kwargs)
            return self.go_back(why, args, kwargs)
        if r.asks:
            return self.by_protocol(args, kwargs)
        if r.is_ufunc and r.named.get("subok") is False:
            r.wrapper = None
        if r.wrapper is not None and max(largest(r.given), largest(r.named.values())) <= NOTED_BYTES:
            return self.go_back(None, args, kwargs)
        # What was not given is the plan's to refuse.
        sized = absent
        if self.ns > 0:
            sized = r.given[self.sized] if self.sized < len(r.given) else r.named.get(self.names[self.sized], absent)
        small = sized is not absent and self.is_small(<PyObject*>sized)
        result = too_small if small else self.plan(*r.given, **r.named)
        if type(result) is Left:
            args = tuple([self.converted(i, x, r.given[i]) for i, x in enumerate(args)])
            kwargs = {name: self.converted(name, x, r.named[name]) for name, x in kwargs.items()}
            return self.go_back((<Left>result).why, args, kwargs, max(largest(r.given), largest(r.named.values())))
        if r.target is not None and result is not None:
            return r.target
        if r.wrapper is None:
            return result
        if not r.is_ufunc or self.method is not None:
            return rewrap(result, r.wrapper, self.gives, None)
        results = [self.written_or(r, args, one, i) for i, one in enumerate(
            result if type(result) is tuple else (result,))]
        return tuple(results) if type(result) is tuple else results[0]

    cdef object written_or(self, Received r, tuple args, object result, int i):
        """A ufunc's result: the very array that was given for it, or one of the caller's type."""
        for mine, given in zip(r.given, args):
            if result is mine:
                return given
        out = r.named.get("out")
        for given in out if type(out) is tuple else ():
            if result is given:
                return given
        return rewrap(result, r.wrapper, self.gives, (args[0], args[1:], i))


cdef object operate(object self, PyObject** args, size_t nargsf, PyObject* names):
    """What CPython calls when an Operation is called."""
    cdef Operation op = <Operation>self
    cdef Py_ssize_t n = PyVectorcall_NARGS(nargsf), i
    cdef int64_t bytes = 0
    if ((op.of_ufunc and (n == 0 or type(<object>args[0]) is Ufunc)) or (op.ns > 0 and op.sized >= n)
            or not op.all_plain(args, n, names)):
        given, kwargs = unpacked(args, n, names)
        return op.receive(tuple(given), kwargs)
    if op.ns > 0 and (not op.of_ufunc or type(<object>args[0]) is ufunc) and op.is_small(args[op.sized]):
        return op.ask_namesake(args, n, names)
    result = PyObject_Vectorcall(op.plan, args, n, names)
    if type(result) is not Left:
        return result
    why = (<Left>result).why
    result = op.ask_namesake(args, n, names)
    if why is not None:
        for i in range(n if names == NULL else n + len(<tuple>names)):
            bytes = max(bytes, bytes_of(<object>args[i]))
        count_left(op.__name__, why, bytes)
    return result


@cython.auto_pickle(False)
cdef class ending:
    """A method that ends a chain: the same, with ``progress``."""

    def __init__(self, method):
        self.vector = <vector_fn>end
        self.method = method
        functools.update_wrapper(self, method, ["__module__", "__name__", "__qualname__"])

    @property
    def __doc__(self):
        signature = self.__signature__
        return documented(self.method.__doc__, signature, raises_of(
            getattr(np, self.__name__, None), signature.parameters, True), None)

    @property
    def __signature__(self):
        return with_parameter(self.method)

    def __call__(self, *args, **kwargs):
        progress = kwargs.pop("progress", None)
        return with_progress(progress, self.method, args, kwargs)

    def __get__(self, instance, owner):
        return self if instance is None else types.MethodType(self, instance)


cdef object end(object self, PyObject** args, size_t nargsf, PyObject* names):
    cdef Py_ssize_t n = PyVectorcall_NARGS(nargsf)
    if names != NULL and "progress" in <tuple>names:
        given, kwargs = unpacked(args, n, names)
        return self.__call__(*given, **kwargs)
    return PyObject_Vectorcall((<ending>self).method, args, n, names)


def operation(arrays, namesake=None, *, own="", method=None, of_ufunc=False, gives="array", masked=True, ns=0.0,
              twice=""):
    """Makes a public function of a plan.

    Parameters
    ----------
    arrays : str
        The names of the parameters that are arrays, with a ``!`` if they are written to, as
        ``out`` is; ``*`` for all that are given by position after the others.
    namesake : callable, optional
        What gives the same from NumPy alone.  None: the function's first argument, or that
        one's ``method``.
    own : str, optional
        Keywords that the namesake does not know.
    method : str, optional
        What NumPy's function calls on what is no array: ``np.sum`` of a Series is its ``sum``.
    gives : {"array", "wrap", "rows", "same", "item", "first"}, optional
        Of what type results for subclasses of arrays are.
    masked : bool, optional
        Whether the namesake knows masked arrays.
    ns : float, optional
        Nanoseconds that one item of the first array takes NumPy, to decide before the plan.  Not
        beside ``own``: the namesake gets what is too small without these.
    twice : str, optional
        Those of the arrays of which the namesake gets copies: see ``private_copy``.
    """
    kinds = {"array": GIVES_ARRAY, "wrap": GIVES_WRAP, "rows": GIVES_ROWS, "same": GIVES_SAME, "item": GIVES_ITEM,
             "first": GIVES_FIRST}

    def made(plan):
        op = Operation(plan, namesake, arrays, own, method, of_ufunc, kinds[gives], masked, ns, twice)
        public[op.__name__] = op
        return op

    return made


cdef Operation an_operation = Operation.__new__(Operation)
cdef ending an_ending = ending.__new__(ending)
set_vectorcall(Operation, <char*>&an_operation.vector - <char*><void*>an_operation, False)
cdef Ufunc a_ufunc = Ufunc.__new__(Ufunc)
for cls in (InPlace, Ufunc):
    set_vectorcall(cls, <char*>&a_ufunc.vector - <char*><void*>a_ufunc, False)
set_vectorcall(ending, <char*>&an_ending.vector - <char*><void*>an_ending, True)
