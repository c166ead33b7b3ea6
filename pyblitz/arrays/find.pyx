# cython: wraparound=True, boundscheck=True
"""Searches: which element, and where.  What lies behind a hit is not looked at any more."""
import numpy as np

cimport numpy as cnp
from libc.stdint cimport uint8_t
from numpy cimport ndarray

from pyblitz.arrays.evaluate cimport find_node
from pyblitz.arrays.front cimport FIND_NS, as_array, Left, convert, left_dtype, pays
from pyblitz.arrays.front import operation
from pyblitz.arrays.nodes cimport node_of
from pyblitz.arrays.predicates cimport fitting, is_lazy, predicate_mask, predicate_node
from pyblitz.kernels.find cimport FIND_ANY, FIND_FIRST, FIND_LAST, FindWhich, true_at

cnp.import_array()


cdef object find(ndarray x, object predicate, FindWhich which):
    """The position in C order, or -1; or what is left to NumPy."""
    if x.dtype.kind not in "biufcmM":
        return left_dtype(x.dtype)
    if not pays(cnp.PyArray_NBYTES(x), FIND_NS) or cnp.PyArray_NDIM(x) == 0:
        return find_alone(x, predicate, which)
    return find_node(predicate_node(predicate, node_of(x), "predicate"), which)


cdef object find_alone(ndarray x, object predicate, FindWhich which):
    """The same, by NumPy."""
    cdef ndarray mask
    mask = np.ascontiguousarray(
        fitting(predicate_mask(x, predicate, "predicate", True), (<object>x).shape, "predicate"))
    return true_at(<const uint8_t*>cnp.PyArray_DATA(mask), cnp.PyArray_SIZE(mask), which)


cdef object position_or_none(object at):
    return None if type(at) is not Left and at < 0 else at


cdef object element(ndarray x, object at):
    at = position_or_none(at)
    return at if at is None or type(at) is Left else x.flat[at]


def namesake(name, which):
    """Of a lazy array its method; of others the same by NumPy alone."""
    def alone(a, predicate):
        if is_lazy(a):
            return getattr(a, name)(predicate)
        x = np.asarray(convert(a))
        at = find_alone(x, predicate, which)
        return position_or_none(at) if name == "position" else element(x, at)

    return alone


@operation("a", namesake("find_first", FIND_FIRST), method="find_first", masked=False)
def par_find_first(a, predicate):
    """The first element, in C order, of which a predicate is true.

    Parameters
    ----------
    a : array_like

    Returns
    -------
    scalar or None
        None when there is none.

    Notes
    -----
    O(n) work. Blocks before a hit are searched to the end, those behind it are not begun:
    the result is exact, whoever found it.

    Examples
    --------
    >>> pb.par_find_first(np.array([1.0, -2.0, -3.0]), np.signbit)
    np.float64(-2.0)
    """
    cdef ndarray x = as_array(a)
    return element(x, find(x, predicate, FIND_FIRST))


@operation("a", namesake("find_last", FIND_LAST), method="find_last", masked=False)
def par_find_last(a, predicate):
    """The last element, in C order, of which a predicate is true.

    Returns
    -------
    scalar or None
        None when there is none.

    Notes
    -----
    O(n) work, from the end.

    Examples
    --------
    >>> pb.par_find_last(np.array([1.0, -2.0, -3.0]), np.signbit)
    np.float64(-3.0)
    """
    cdef ndarray x = as_array(a)
    return element(x, find(x, predicate, FIND_LAST))


@operation("a", namesake("find_any", FIND_ANY), method="find_any", masked=False)
def par_find_any(a, predicate):
    """An element of which a predicate is true, whichever is found first.

    Returns
    -------
    scalar or None
        None when there is none. Which one it is may differ from run to run.

    Notes
    -----
    O(n) work; it ends soon after any hit.

    Examples
    --------
    >>> pb.par_find_any(np.array([1.0, -2.0, 3.0]), -2)
    np.float64(-2.0)
    """
    cdef ndarray x = as_array(a)
    return element(x, find(x, predicate, FIND_ANY))


@operation("a", namesake("position", FIND_FIRST), method="position", masked=False)
def par_position(a, predicate):
    """The position of the first element, in C order, of which a predicate is true.

    Returns
    -------
    int or None
        None when there is none.

    Notes
    -----
    O(n) work. See :func:`par_find_first`.

    Examples
    --------
    >>> pb.par_position([5, 7, 9, 7], 7)
    1
    """
    return position_or_none(find(as_array(a), predicate, FIND_FIRST))
