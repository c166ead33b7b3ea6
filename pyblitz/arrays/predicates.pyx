# cython: wraparound=True, boundscheck=True
"""Masks, values and predicates: see predicates.pxd."""
import datetime

import numpy as np

cimport numpy as cnp
from numpy cimport ndarray

from pyblitz.arrays.compiled cimport is_compiled
from pyblitz.arrays.evaluate cimport apply, collect
from pyblitz.arrays.front cimport bare, convert, is_masked, overrides
from pyblitz.arrays.nodes cimport Node, node_of

cnp.import_array()

# Lazy arrays stand above this module: their class, and how it makes a node of a function.
cdef object lazy_type = None
cdef object call_lazily = None


def lazy_arrays(cls, how):
    """``how(fn, node)``: the node of a function of elements, or of a lazy array beside them."""
    global lazy_type, call_lazily
    lazy_type, call_lazily = cls, how


cdef bint is_lazy(object what):
    return lazy_type is not None and isinstance(what, lazy_type)


cdef bint is_value(object what, object dtype):
    """Whether something that is no function is one element's value."""
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


cdef object known(object mask):
    """Booleans of which some may be unknown, and are not selected; anything else as it is."""
    cdef str kind = str(getattr(mask, "dtype", getattr(mask, "type", None))).lower()
    if not kind.startswith("bool"):
        return mask
    if is_masked(mask):
        return mask.filled(False)
    if hasattr(mask, "fill_null"):      # of Polars and pyarrow
        return mask.fill_null(False)
    return mask if isinstance(mask.dtype, np.dtype) else mask.to_numpy(bool, na_value=False)


cdef object truth_of(object found):
    mask = np.asarray(convert(known(found)))
    return mask if mask.dtype == np.bool_ else mask != 0


cdef tuple stands_for(object what, object dtype, str name):
    if isinstance(what, (int, float, complex, np.generic)):
        return STANDS_VALUE, what
    if not isinstance(what, np.ndarray):
        if is_lazy(what) and what.dtype != np.bool_:
            raise TypeError(f"{name}: expected booleans, a value, a ufunc, a compiled kernel or a callable, "
                            f"not a lazy array of {what.dtype}")
        if is_lazy(what) or is_compiled(what) or callable(what):
            return STANDS_FUNCTION, bare(what)
    if is_value(what, dtype):
        return STANDS_VALUE, of_kind(what, dtype.kind)
    mask = convert(known(what))
    if isinstance(mask, np.ndarray) and mask.ndim > 0 and mask.dtype == np.bool_:
        return STANDS_MASK, np.asarray(mask)
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
    made = apply(np.equal, (node, thing), {}) if kind == STANDS_VALUE else call_lazily(thing, node)
    if type(made) is not Node:
        raise TypeError(f"{name}: must give one value for each element")
    return made if (<Node>made).dtype == np.bool_ else apply(np.not_equal, (made, 0), {})


cdef ndarray predicate_mask(object a, object what, str name, bint alone):
    kind, thing = stands_for(what, a.dtype, name)
    if kind == STANDS_MASK:
        return thing
    if not alone or (kind == STANDS_FUNCTION and (is_lazy(thing) or is_compiled(thing))):
        return collect([predicate_node(thing, node_of(np.atleast_1d(a)), name)], None)[0].reshape(a.shape)
    # Not NumPy's operator, which compares anything.
    mask = truth_of(thing(a) if kind == STANDS_FUNCTION else np.equal(a, thing))
    return fitting(mask, a.shape, name)
