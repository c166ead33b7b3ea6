"""Reductions: blocks are reduced, and their results by fours; and the places of extremes."""

from __future__ import annotations

import operator
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.base import tokenize

import pyblitz as pb
from pyblitz.dask.arguments import dask_array, need_sizes, one_element, refuse
from pyblitz.dask.graphs import (
    Indices,
    Values,
    block_corners,
    block_keys,
    join_by_fours,
    lazy_array,
    task_names,
)

# With these, parts can be reduced, and then their results.
ASSOCIATIVE = {
    np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.gcd, np.lcm, np.hypot,
    np.logaddexp, np.logaddexp2, np.logical_and, np.logical_or, np.logical_xor, np.bitwise_and,
    np.bitwise_or, np.bitwise_xor,
}  # fmt: skip


def _reduce_block(x: Values, op: np.ufunc, dtype: Any, axis: Any, keepdims: bool) -> Any:
    return pb.par_reduce(op, x, axis=axis, dtype=dtype, keepdims=keepdims)


def _reducible(a: da.Array, op: np.ufunc, axis: Any) -> da.Array:
    """The array in blocks that can be reduced one by one, along these axes."""
    along = range(a.ndim) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, a.ndim)
    if op not in ASSOCIATIVE:
        return a.rechunk(dict.fromkeys(along, -1))
    if any(0 in a.chunks[d] for d in along):
        # Some ufuncs have no result for an empty block.
        return a.rechunk({d: tuple(n for n in a.chunks[d] if n) or (0,) for d in along})
    return a


def _reduced(op: np.ufunc, a: da.Array, axis: Any, dtype: Any, keepdims: bool) -> da.Array:
    of_type = np.asarray(op.reduce(one_element(a), axis=axis, dtype=dtype, keepdims=True)).dtype
    if a.ndim == 0:
        axis = ()
    a = _reducible(a, op, axis)
    fn = partial(_reduce_block, op=op, dtype=dtype)
    return da.reduction(a, chunk=fn, aggregate=fn, axis=axis, keepdims=keepdims, dtype=of_type)


def par_reduce(
    op: np.ufunc,
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    **options: Any,
) -> da.Array:
    """``op.reduce`` of a dask array, as a lazy dask array.

    Parameters
    ----------
    op : numpy.ufunc
        It must have two inputs.  Unless it is one of NumPy's that are associative (sums, products,
        extremes, bits, gcd …), whole rows are brought together.
    a : dask.array.Array
    axis : None or int or tuple of int, optional
        By default it is the first one, as for a ufunc; None reduces all.
    dtype : dtype, optional
        The type of the calculation and of the result.
    out, **options : None
        These are not for dask arrays.
    keepdims : bool, optional
        Whether reduced axes stay, with length one.

    Returns
    -------
    dask.array.Array

    Raises
    ------
    TypeError
        When ``op`` is no ufunc, or does not take such elements; when ``out`` or another option is
        given.
    numpy.exceptions.AxisError
        When there is no such axis.

    Notes
    -----
    O(n) work; dask joins the results of blocks by fours.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import pyblitz.dask
    >>> a = da.from_array(np.array([3, 1, 2, 5, 4, 0]), chunks=2)
    >>> int(pyblitz.dask.par_reduce(np.maximum, a).compute())
    5
    """
    if not isinstance(op, np.ufunc):
        raise TypeError(f"op: expected a ufunc, not {type(op).__name__}")
    refuse(out=out, **options)
    return _reduced(op, da.asarray(a), axis, dtype, bool(keepdims))


class _Extreme(NamedTuple):
    """The extreme of one block, alone in an array, and where it is in the whole array."""

    value: Values
    place: int


def _find_extreme(
    block: Values, corner: list[int], shape: tuple[int, ...], least: bool
) -> list[_Extreme]:
    """The first extreme of a block; an empty block has none."""
    if block.size == 0:
        return []
    inside = int(pb.par_argmin(block) if least else pb.par_argmax(block))
    at = np.add(np.unravel_index(inside, block.shape), corner)
    place = int(np.ravel_multi_index(tuple(at), shape))
    return [_Extreme(block.reshape(-1)[inside : inside + 1], place)]


def _first_extreme(found: list[list[_Extreme]], least: bool) -> list[_Extreme]:
    """The extreme of several blocks; among equals, the one that is first in the array."""
    some = sorted(chain.from_iterable(found), key=operator.attrgetter("place"))
    if not some:
        return []
    values = np.concatenate([e.value for e in some])
    return [some[int(np.argmin(values) if least else np.argmax(values))]]


def _place(found: list[_Extreme], shape: tuple[int, ...]) -> Indices:
    return np.full(shape, found[0].place)


def _place_of_extreme(a: da.Array, keepdims: bool, least: bool) -> da.Array:
    extreme, first, name = task_names(
        tokenize(a.name, keepdims, least), "extreme", "first", "argmin" if least else "argmax"
    )
    tasks: dict[Any, Any] = {}
    for i, (key, corner) in enumerate(zip(block_keys(a), block_corners(a, a.ndim), strict=True)):
        find = partial(_find_extreme, corner=corner, shape=a.shape, least=least)
        tasks[extreme, i] = (find, key)
    last = join_by_fours(tasks, first, list(tasks), partial(_first_extreme, least=least))
    shape = (1,) * a.ndim if keepdims else ()
    tasks[(name, *(0 for _ in shape))] = (partial(_place, shape=shape), last)
    return lazy_array(name, tasks, [a], tuple((n,) for n in shape), np.intp)


def _arg_extreme(a: Any, axis: Any, out: Any, keepdims: Any, least: bool) -> da.Array:
    """What `par_argmin` gives for the least, and `par_argmax` for the greatest element."""
    refuse(out=out)
    keepdims = keepdims is not np._NoValue and bool(keepdims)
    function = "par_argmin" if least else "par_argmax"
    a = dask_array(a, function)
    (np.argmin if least else np.argmax)(one_element(a), axis=axis)
    if axis is not None and a.ndim > 1:
        return (da.argmin if least else da.argmax)(a, axis=operator.index(axis), keepdims=keepdims)
    need_sizes(a)
    if a.size == 0:
        raise ValueError(f"a: {function} of an empty array")
    return _place_of_extreme(a, keepdims, least)


def par_argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = np._NoValue) -> Any:
    """The position of the least element of a dask array, as a lazy dask array.

    Parameters
    ----------
    a : dask.array.Array
        The sizes of its chunks must be known, along the axes in question.
    axis : int or None, optional
        Which axis to look along; None looks at the flattened array.  Along one of several axes the
        call is dask's own.
    out : None
        It is not for dask arrays.
    keepdims : bool, optional
        Whether reduced axes stay, with length one.

    Returns
    -------
    dask.array.Array
        It is of type intp; among equals, it is the position of the first one, in C order.

    Raises
    ------
    ValueError
        Of an empty array, or when chunk sizes are not known.
    TypeError
        When ``out`` is given, or of masked arrays.
    numpy.exceptions.AxisError
        When there is no such axis.

    Notes
    -----
    O(n) work; the extremes of blocks are compared by fours.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import pyblitz.dask
    >>> a = da.from_array(np.array([3, 1, 2, 5, 4, 1]), chunks=2)
    >>> int(pyblitz.dask.par_argmin(a).compute())
    1
    """
    return _arg_extreme(a, axis, out, keepdims, True)


def par_argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = np._NoValue) -> Any:
    """The position of the greatest element of a dask array, as a lazy dask array.

    Parameters
    ----------
    a, axis, out, keepdims
        As for :func:`par_argmin`.

    Returns
    -------
    dask.array.Array
        It is of type intp; among equals, it is the position of the first one, in C order.

    Raises
    ------
    ValueError, TypeError, numpy.exceptions.AxisError
        As by :func:`par_argmin`.

    Notes
    -----
    O(n) work; the extremes of blocks are compared by fours.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import pyblitz.dask
    >>> a = da.from_array(np.array([3, 1, 2, 5, 4, 5]), chunks=2)
    >>> int(pyblitz.dask.par_argmax(a).compute())
    3
    """
    return _arg_extreme(a, axis, out, keepdims, False)
