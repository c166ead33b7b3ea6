# cython: wraparound=True, boundscheck=True
"""Searches: which element, and where.  What lies behind a hit is not looked at any more."""
import numpy as np

cimport numpy as cnp
from numpy cimport ndarray

from pyblitz._progress import with_progress
from pyblitz.arrays.compiled cimport is_compiled
from pyblitz.arrays.iter import ParIter, par_iter

cnp.import_array()

cdef enum:
    # Below this NumPy has found it before another thread could help.
    SMALL_FIND_BYTES = 65536


cdef object small_mask(object a, object predicate):
    """The mask that a predicate stands for, at once, flat; None where the elements are many."""
    if cnp.PyArray_NBYTES(<ndarray>a) > SMALL_FIND_BYTES and a.dtype.kind in "biufcmM":
        return None
    if isinstance(predicate, ParIter) or is_compiled(predicate):
        return None
    mask = np.asarray(predicate(a) if callable(predicate) else np.equal(a, predicate))
    if mask.shape != a.shape:
        raise ValueError(f"predicate: gave an array of shape {mask.shape} for elements of shape {a.shape}; "
                         "it must be one number, or give a truth value for each element")
    return (mask if mask.dtype == np.bool_ else mask != 0).reshape(-1)


def predicate_mask(a, predicate):
    """What is true of each element, as an array of bool of the same shape."""
    mask = small_mask(a, predicate)
    if mask is None:
        mask = par_iter(a.reshape(-1)).mask(predicate).collect()
    return mask.reshape(a.shape)


cdef object search(object a, object predicate, object name):
    """What the method of that name gives for the lazy array."""
    cdef Py_ssize_t i
    if isinstance(a, ParIter):
        return getattr(a, name)(predicate)
    a = np.asarray(a)
    mask = small_mask(a, predicate)
    if mask is None:
        return getattr(par_iter(a), name)(predicate)
    if mask.size == 0:
        return None
    i = mask.argmax() if name != "find_last" else mask.size - 1 - mask[::-1].argmax()
    if not mask[i]:
        return None
    return i if name == "position" else a.flat[i]


def par_find_first(a, predicate, *, progress=None):
    """The first element, in C order, of which a predicate is true.

    Parameters
    ----------
    a : array_like or ParIter
    predicate : number, ufunc, compiled kernel or callable
        A number is found where an element is equal to it. A ufunc, a kernel (see
        :func:`par_map`) or a Python function of arrays gives a truth value (zero is
        false) for each element; a Python function is called as in :meth:`ParIter.map`.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

    Returns
    -------
    scalar or None
        None when there is none.

    Raises
    ------
    TypeError, ValueError
        When the predicate does not fit the elements, or does not give one value for each.

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
    if progress is not None:
        return with_progress(progress, par_find_first, (a, predicate), {})
    return search(a, predicate, "find_first")


def par_find_last(a, predicate, *, progress=None):
    """The last element, in C order, of which a predicate is true.

    Parameters
    ----------
    a, predicate
        As for :func:`par_find_first`.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

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
    if progress is not None:
        return with_progress(progress, par_find_last, (a, predicate), {})
    return search(a, predicate, "find_last")


def par_find_any(a, predicate, *, progress=None):
    """An element of which a predicate is true, whichever is found first.

    Parameters
    ----------
    a, predicate
        As for :func:`par_find_first`.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

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
    if progress is not None:
        return with_progress(progress, par_find_any, (a, predicate), {})
    return search(a, predicate, "find_any")


def par_position(a, predicate, *, progress=None):
    """The position of the first element, in C order, of which a predicate is true.

    Parameters
    ----------
    a, predicate
        As for :func:`par_find_first`.
    progress : bool or callable, optional
        True shows a bar (of ``tqdm``); a function is called as ``progress(done, total)``
        now and then.

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
    if progress is not None:
        return with_progress(progress, par_position, (a, predicate), {})
    return search(a, predicate, "position")
