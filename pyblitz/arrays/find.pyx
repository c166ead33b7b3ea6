# cython: wraparound=True, boundscheck=True
"""Searches: which element, and where.  What lies behind a hit is not looked at any more."""
import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t
from numpy cimport ndarray

from pyblitz.arrays.evaluate cimport find_node
from pyblitz.arrays.front cimport as_array, Left, convert, left_dtype, pays
from pyblitz.arrays.front import operation
from pyblitz.arrays.nodes cimport node_of
from pyblitz.arrays.predicates cimport is_lazy, predicate_mask, predicate_node
from pyblitz.kernels.find cimport FIND_ANY, FIND_FIRST, FIND_LAST, FindWhich

cnp.import_array()

# Nanoseconds that NumPy takes to compare a byte and look at the result: see front.pays.
cdef double BYTE_NS = 0.0625


cdef object element(ndarray x, object at):
    return None if at < 0 else x.flat[at]


cdef object place(ndarray x, object at):
    return None if at < 0 else at


cdef object find(ndarray x, object predicate, FindWhich which):
    """The position in C order, or -1; or what is left to NumPy."""
    if x.dtype.kind not in "biufcmM":
        return left_dtype(x.dtype)
    if not pays(cnp.PyArray_NBYTES(x), BYTE_NS) or cnp.PyArray_NDIM(x) == 0:
        return find_alone(x, predicate, which)
    return find_node(predicate_node(predicate, node_of(x), "predicate"), which)


cdef object find_alone(ndarray x, object predicate, FindWhich which):
    """The same, by NumPy."""
    cdef int64_t i
    mask = predicate_mask(x, predicate, "predicate", True)
    if mask.shape != (<object>x).shape:
        raise ValueError(f"predicate: a mask of shape {mask.shape} for elements of shape {(<object>x).shape}")
    if mask.size == 0:
        return -1
    mask = mask.reshape(-1)
    i = mask.size - 1 - mask[::-1].argmax() if which == FIND_LAST else mask.argmax()
    return i if mask[i] else -1


def find_first(a, predicate):
    """The namesake of par_find_first."""
    if is_lazy(a):
        return a.find_first(predicate)
    cdef ndarray x = np.asarray(convert(a))
    return element(x, find_alone(x, predicate, FIND_FIRST))


@operation("a", find_first, method="find_first", masked=False)
def par_find_first(a, predicate):
    """The first element, in C order, of which a predicate is true.

    Parameters
    ----------
    a : array_like or ParIter
    predicate : number, array_like of bool, ufunc, compiled kernel or callable
        A number, or another value, is found where an element is equal to it.  Booleans, in
        the shape of ``a``, say of each element whether it is meant.  A ufunc, a kernel (see
        :func:`par_map`) or a Python function of arrays gives a truth value (zero is
        false) for each element; a Python function is called as in :meth:`ParIter.map`.

    Returns
    -------
    scalar or None
        None when there is none.

    Raises
    ------
    TypeError, ValueError
        When the predicate is nothing of these, or does not fit the elements, or does not
        give one value for each; for masked arrays.

    Notes
    -----
    O(n) work. Blocks before a hit are searched to the end, those behind it are not begun:
    the result is exact, whoever found it.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_find_first(np.array([1.0, -2.0, -3.0]), np.signbit)
    np.float64(-2.0)
    """
    cdef ndarray x = as_array(a)
    at = find(x, predicate, FIND_FIRST)
    return at if type(at) is Left else element(x, at)


def find_last(a, predicate):
    """The namesake of par_find_last."""
    if is_lazy(a):
        return a.find_last(predicate)
    cdef ndarray x = np.asarray(convert(a))
    return element(x, find_alone(x, predicate, FIND_LAST))


@operation("a", find_last, method="find_last", masked=False)
def par_find_last(a, predicate):
    """The last element, in C order, of which a predicate is true.

    Parameters
    ----------
    a, predicate
        As for :func:`par_find_first`.

    Returns
    -------
    scalar or None
        None when there is none.

    Raises
    ------
    TypeError, ValueError
        As :func:`par_find_first`.

    Notes
    -----
    O(n) work, from the end.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_find_last(np.array([1.0, -2.0, -3.0]), np.signbit)
    np.float64(-3.0)
    """
    cdef ndarray x = as_array(a)
    at = find(x, predicate, FIND_LAST)
    return at if type(at) is Left else element(x, at)


def find_any(a, predicate):
    """The namesake of par_find_any."""
    if is_lazy(a):
        return a.find_any(predicate)
    cdef ndarray x = np.asarray(convert(a))
    return element(x, find_alone(x, predicate, FIND_ANY))


@operation("a", find_any, method="find_any", masked=False)
def par_find_any(a, predicate):
    """An element of which a predicate is true, whichever is found first.

    Parameters
    ----------
    a, predicate
        As for :func:`par_find_first`.

    Returns
    -------
    scalar or None
        None when there is none. Which one it is may differ from run to run.

    Raises
    ------
    TypeError, ValueError
        As :func:`par_find_first`.

    Notes
    -----
    O(n) work; it ends soon after any hit.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_find_any(np.array([1.0, -2.0, 3.0]), -2)
    np.float64(-2.0)
    """
    cdef ndarray x = as_array(a)
    at = find(x, predicate, FIND_ANY)
    return at if type(at) is Left else element(x, at)


def position(a, predicate):
    """The namesake of par_position."""
    if is_lazy(a):
        return a.position(predicate)
    cdef ndarray x = np.asarray(convert(a))
    return place(x, find_alone(x, predicate, FIND_FIRST))


@operation("a", position, method="position", masked=False)
def par_position(a, predicate):
    """The position of the first element, in C order, of which a predicate is true.

    Parameters
    ----------
    a, predicate
        As for :func:`par_find_first`.

    Returns
    -------
    int or None
        None when there is none.

    Raises
    ------
    TypeError, ValueError
        As :func:`par_find_first`.

    Notes
    -----
    O(n) work. See :func:`par_find_first`.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> pb.par_position([5, 7, 9, 7], 7)
    1
    """
    cdef ndarray x = as_array(a)
    at = find(x, predicate, FIND_FIRST)
    return at if type(at) is Left else place(x, at)
