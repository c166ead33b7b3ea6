# cython: wraparound=True, boundscheck=True
"""Masks, values and predicates: see predicates.pxd."""
import datetime

import numpy as np

cimport numpy as cnp
from numpy cimport ndarray

from pyblitz.arrays.compiled cimport is_compiled
from pyblitz.arrays.evaluate cimport apply, values_of
from pyblitz.arrays.front cimport bare, convert, is_masked, overrides
from pyblitz.arrays.nodes cimport Node, node_of
from pyblitz.host.blocks cimport called_alone

cnp.import_array()

# Lazy arrays stand above this module: their class, and how it makes a node of a function.
cdef object lazy_type = None
cdef object call_lazily = None


def lazy_arrays(cls, how):
    """``how(fn, node)``: the node of a function of elements, or of a lazy array beside them."""
    global lazy_type, call_lazily
    lazy_type, call_lazily = cls, how


cdef str library_of(object x):
    return type(x).__module__.partition(".")[0]


cdef bint is_lazy(object what):
    return lazy_type is not None and isinstance(what, lazy_type)


cdef bint is_value(object what, object dtype):
    """Whether something that is no function is one element's value."""
    if isinstance(what, memoryview):
        return False        # a scalar to NumPy
    if np.isscalar(what) or isinstance(what, (datetime.date, datetime.timedelta)):
        return True
    if isinstance(what, np.ndarray) or overrides(type(what)):
        return np.ndim(what) == 0
    # Of objects, what else is in no sequence; None in other arrays is a mistake.
    return dtype.kind == "O" and not hasattr(what, "__len__") and not hasattr(what, "__array__")


cdef object of_kind(object value, str kind):
    """Dates of Python's as NumPy's."""
    if kind == "M" and isinstance(value, datetime.date):
        return np.datetime64(value)
    if kind == "m" and isinstance(value, datetime.timedelta):
        return np.timedelta64(value)
    return value


cdef bint has_unknowns(object x):
    """Whether its class has a way to say that an element is not known."""
    if isinstance(x, np.ndarray):
        return is_masked(x)
    return library_of(x) in ("pandas", "polars", "pyarrow") and hasattr(x, "__len__") and (
        not isinstance(getattr(x, "dtype", None), np.dtype))


cdef bint is_boolean(object x):
    dtype = getattr(x, "dtype", None)
    if isinstance(dtype, np.dtype):
        return dtype == np.bool_
    if dtype is None and library_of(x) == "pyarrow":
        dtype = getattr(x, "type", None)
    if library_of(x) == "pandas" and getattr(x, "ndim", 0) == 2:    # a DataFrame
        return all([str(t).lower().startswith("bool") for t in x.dtypes])
    return str(dtype).lower().startswith("bool")


cdef object known(object x):
    """What is unknown is not selected."""
    if not has_unknowns(x):
        return x
    if is_masked(x):
        return (x != 0).filled(False)
    if hasattr(x, "to_numpy") and library_of(x) == "pandas":
        return x.to_numpy(dtype=bool, na_value=False)
    return np.asarray(x.cast("bool" if library_of(x) == "pyarrow" else bool).fill_null(False))


def is_true(x):
    """Of an object: None, pandas's NA and NaN say that it is unknown."""
    return x is not None and type(x).__name__ != "NAType" and bool(x) and bool(x == x)


cdef object truth_of(object found):
    mask = np.asarray(convert(known(found)))
    if mask.dtype == object:
        return np.frompyfunc(is_true, 1, 1)(mask).astype(bool)
    return mask if mask.dtype == np.bool_ else mask != 0


cdef class Known:
    """A predicate that tells NumPy's arrays where it tells what has elements that are not known."""
    cdef object predicate

    def __init__(self, predicate):
        self.predicate = predicate

    def __call__(self, *values):
        found = self.predicate(*values)
        if found is None or is_lazy(found):
            return found
        found = known(found)
        return truth_of(found) if isinstance(found, np.ndarray) and found.dtype == object else found


cdef object of_known(object predicate):
    return Known(predicate)


cdef tuple stands_for(object what, object dtype, str name):
    if isinstance(what, (int, float, complex, np.generic)):
        return STANDS_VALUE, what
    if not isinstance(what, np.ndarray):
        if is_lazy(what) and what.dtype.kind != "b":
            raise TypeError(f"{name}: expected booleans, a value, a ufunc, a compiled kernel or a callable, "
                            f"not a lazy array of {what.dtype}")
        if is_lazy(what) or callable(what) or is_compiled(what):
            return STANDS_FUNCTION, bare(what)
    if is_value(what, dtype):
        return STANDS_VALUE, of_kind(what, dtype.kind)
    mask = convert(known(what) if has_unknowns(what) and is_boolean(what) else what)
    if isinstance(mask, np.ndarray) and mask.ndim > 0 and (
            mask.dtype == np.bool_ or (mask.size == 0 and isinstance(what, (list, tuple)))):
        return STANDS_MASK, np.asarray(mask, np.bool_)
    given = f"an array of {mask.dtype}" if isinstance(mask, np.ndarray) else type(what).__name__
    raise TypeError(f"{name}: expected booleans, a value, a ufunc, a compiled kernel or a callable, not {given}")


cdef object fitting(object mask, object shape, str name):
    if mask.shape != shape:
        raise ValueError(f"{name}: an array of shape {mask.shape} for elements of shape {shape}; "
                         "it must be one number, or give a truth value for each element")
    return mask


cdef Node predicate_node(object what, Node node, str name):
    kind, thing = stands_for(what, node.dtype, name)
    if kind == STANDS_MASK:
        return node_of(fitting(thing, node.shape, name))
    if kind == STANDS_VALUE and overrides(type(thing)):
        # With a unit, say: NumPy's comparison asks it.
        return node_of(fitting(truth_of(np.equal(values_of(node), thing)), node.shape, name))
    if kind == STANDS_VALUE:
        made = apply(np.equal, [node, thing], {})
    else:
        made = call_lazily(thing, node)
    if type(made) is not Node:
        raise TypeError(f"{name}: must give one value for each element")
    return made if (<Node>made).dtype == np.bool_ else apply(np.not_equal, [made, 0], {})


cdef ndarray predicate_mask(object a, object what, str name, bint alone):
    kind, thing = stands_for(what, a.dtype, name)
    if kind == STANDS_MASK:
        return thing
    if not alone or (kind == STANDS_FUNCTION and (is_lazy(thing) or is_compiled(thing))):
        return values_of(predicate_node(thing, node_of(np.atleast_1d(a)), name)).reshape(a.shape)
    # Not NumPy's operator, which compares anything.
    mask = truth_of(called_alone(thing, (a,)) if kind == STANDS_FUNCTION else np.equal(a, thing))
    return fitting(mask, a.shape, name)
