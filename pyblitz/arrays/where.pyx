# cython: wraparound=True, boundscheck=True
"""``par_where``."""
import numpy as np

cimport numpy as cnp
from libc.stdint cimport int64_t, intptr_t
from numpy cimport ndarray

from pyblitz.arrays.common cimport broadcast_shape, fill_map, make_outputs, run_map
from pyblitz.arrays.copy cimport cast_to, movable, pays_to_move
from pyblitz.arrays.front cimport as_array, left, left_dtype, no_value, too_small
from pyblitz.arrays.front import operation
from pyblitz.arrays.select cimport booleans_apart, mask_of, nonzero
from pyblitz.kernels.map cimport MAP_DIMS, Map, map_bits, map_of_loop
from pyblitz.kernels.where cimport where_loop

cnp.import_array()


cdef bint is_weak(object x):
    """A number of Python's, which takes the other's dtype."""
    return isinstance(x, (int, float, complex)) and not isinstance(x, np.generic)


cdef object typed(ndarray a, object given, cnp.dtype d):
    if a.dtype == d:
        return a
    return np.asarray(given, d) if is_weak(given) else cast_to(a, d)


def chosen(condition, /, *values):
    """The namesake, which gives places where it gets no values."""
    return np.where(condition if values else booleans_apart(condition), *values)


@operation("condition x y", chosen)
def par_where(condition, x=np._NoValue, y=np._NoValue, /):
    """The items of ``x`` where the condition holds, else those of ``y``, on all
    cores: ``np.where``.

    Parameters
    ----------
    condition : array_like
        What is not zero holds.
    x, y : array_like, optional
        Broadcast against the condition and each other.  Without both: where the
        condition holds, as ``np.nonzero``.

    Returns
    -------
    ndarray, or a tuple of them

    Raises
    ------
    TypeError, ValueError
        What ``np.where`` raises for the same mistake.

    Notes
    -----
    O(n) work.  ``x`` or ``y`` of another dtype than the result's is copied first.

    Examples
    --------
    >>> pb.par_where([True, False, True], [1, 2, 3], 0.5)
    array([1. , 0.5, 3. ])
    """
    cdef list ops
    cdef cnp.npy_intp shape[64]
    cdef int ndim, i
    cdef int64_t size = 1
    cdef Map m
    cdef cnp.dtype d, one
    if x is no_value and y is no_value:
        return nonzero(as_array(condition))
    if x is no_value or y is no_value:
        return left("arguments that it refuses")
    ops = [as_array(condition), as_array(x), as_array(y)]
    if not broadcast_shape(ops, 3, &ndim, shape):
        return left("shapes that do not fit")
    for i in range(ndim):
        size *= shape[i]
    if not pays_to_move(size * max(cnp.PyArray_ITEMSIZE(ops[1]), cnp.PyArray_ITEMSIZE(ops[2]))):
        return too_small
    if ndim > MAP_DIMS:
        return left(f"more than {MAP_DIMS} axes")
    d = (<ndarray>ops[1]).dtype
    if d is not (<ndarray>ops[2]).dtype or not d.isnative:
        try:
            d = np.result_type(x if is_weak(x) else ops[1], y if is_weak(y) else ops[2])
        except TypeError:
            d = None
        if d is None:
            return left("dtypes that have none in common")
    one = (<ndarray>ops[1]).dtype
    if not movable(d) or (d.kind not in "biufcmMV" and d.kind != one.kind):
        return left_dtype(d)
    ops[0] = mask_of(ops[0])
    if ops[0] is None:
        return left("a condition of objects or text")
    held = None
    try:
        held = typed(ops[1], x, d), typed(ops[2], y, d)
    except (OverflowError, TypeError, ValueError):
        pass
    if held is None:
        return left("values that the dtype cannot hold")
    ops[1], ops[2] = held
    ops.append(None)
    make_outputs(ops, 3, (None, None, None, d), ndim, shape)
    fill_map(&m, ops, ndim, shape, 3)
    map_of_loop(&m, where_loop(d.itemsize, map_bits(&m, 1)), <void*><intptr_t>d.itemsize)
    run_map(&m, ops, "where")
    return ops[3]
