"""Searches: each element goes to the block of the sorted array that has its place, and comes back.

The first elements of the sorted array's blocks (`_Heads`) tell which block that is.  A block of
what is searched for is ordered by that (`_Route`), cut, and sent; what is found is put back in
the order that it had.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.base import tokenize

import pyblitz as pb
from pyblitz.dask.arguments import dask_array, dask_row
from pyblitz.dask.graphs import Indices, Values, block_keys, lazy_array, task_names


class _Heads(NamedTuple):
    """The first elements of the sorted array's blocks that are not empty, which blocks these are,
    and where each block begins, empty or not."""

    firsts: Values
    blocks: Indices
    begins: Indices


class _Route(NamedTuple):
    """Elements in the order of the blocks that they are sent to; that order, in the shape that the
    elements had; and where the elements for each block begin."""

    values: Values
    order: Indices
    cuts: Indices


def _head(block: Values) -> tuple[Values, int]:
    return block[:1].copy(), len(block)


def _heads(heads: list[tuple[Values, int]]) -> _Heads:
    lengths = np.array([n for _, n in heads])
    blocks = np.flatnonzero(lengths)
    return _Heads(
        np.concatenate([first for first, _ in heads]),
        blocks if len(blocks) else np.array([0]),
        np.cumsum([0, *lengths[:-1]]),
    )


def _route(v: Values, heads: _Heads, side: Any) -> _Route:
    elements = v.reshape(-1)
    last_before = pb.par_searchsorted(heads.firsts, elements, side) - 1
    blocks = heads.blocks[np.maximum(last_before, 0)]
    order = pb.par_argsort(blocks, stable=True)
    cuts = np.searchsorted(blocks[order], np.arange(len(heads.begins) + 1))
    return _Route(pb.par_take(elements, order), order.reshape(v.shape), cuts)


def _sent(route: _Route, j: int) -> Values:
    return route.values[slice(*route.cuts[j : j + 2])].copy()


def _search(block: Values, sent: Values, heads: _Heads, j: int, side: Any) -> Indices:
    return np.asarray(pb.par_searchsorted(block, sent, side) + heads.begins[j])


def _put_back(found: list[Indices], order: Indices) -> Indices:
    result = np.empty(order.size, np.intp)
    result[order.reshape(-1)] = np.concatenate(found)
    return result.reshape(order.shape)


def _search_in_blocks(a: da.Array, v: da.Array, side: Any) -> da.Array:
    p, keys = a.numblocks[0], block_keys(v)
    head, heads, route, order, piece, found, name = task_names(
        tokenize(a.name, v.name, side),
        *("head", "heads", "route", "order", "piece", "found", "searchsorted"),
    )
    tasks: dict[Any, Any] = {heads: (_heads, [(head, j) for j in range(p)])}
    for j in range(p):
        tasks[head, j] = (_head, (a.name, j))
    for i, key in enumerate(keys):
        tasks[route, i] = (partial(_route, side=side), key, heads)
        tasks[order, i] = (operator.attrgetter("order"), (route, i))
        for j in range(p):
            tasks[piece, i, j] = (partial(_sent, j=j), (route, i))
            search = partial(_search, j=j, side=side)
            tasks[found, i, j] = (search, (a.name, j), (piece, i, j), heads)
        tasks[(name, *key[1:])] = (_put_back, [(found, i, j) for j in range(p)], (order, i))
    return lazy_array(name, tasks, [a, v], v.chunks, np.intp)


def _search_whole(a: Values, v: Values, side: Any) -> Indices:
    return np.asarray(pb.par_searchsorted(a, v, side))


def _search_in_one_block(a: da.Array, v: da.Array, side: Any) -> da.Array:
    (name,) = task_names(tokenize(a.name, v.name, side), "searchsorted")
    search = partial(_search_whole, side=side)
    tasks = {(name, *key[1:]): (search, (a.name, 0), key) for key in block_keys(v)}
    return lazy_array(name, tasks, [a, v], v.chunks, np.intp)


def _in_order(a: Any, sorter: Any) -> Any:
    """The array as its sorter sorts it."""
    if not isinstance(a, da.Array) and not isinstance(sorter, da.Array):
        a = np.asarray(a)
        # This raises what is wrong with the sorter.
        np.searchsorted(a, a[:0], sorter=sorter)
        return pb.par_take(a, sorter)
    a, sorter = dask_row(a, "par_searchsorted"), dask_row(sorter, "par_searchsorted", "sorter")
    if sorter.dtype.kind not in "iu":
        raise TypeError("sorter: must only contain integers")
    if sorter.shape != a.shape:
        raise ValueError(f"sorter: shape {sorter.shape} does not match that of a, {a.shape}")
    return a[sorter]


def par_searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> da.Array:
    """Where elements belong in a sorted array, as a lazy dask array.

    Parameters
    ----------
    a : dask.array.Array or array_like
        It must have one axis, and be sorted, or ``sorter`` must sort it.
    v : dask.array.Array or array_like
        What to insert there.
    side : {'left', 'right'}, optional
        Whether the place is before equal elements, or after them.
    sorter : dask.array.Array or array_like of int, optional
        Indices that sort ``a``, as from :func:`par_argsort`; dask brings ``a[sorter]`` together.

    Returns
    -------
    dask.array.Array
        It is of type intp, and in the chunks of ``v``.

    Raises
    ------
    ValueError
        When ``a`` has several axes, ``side`` is neither of these, or ``sorter`` has another length.
    TypeError
        When the types of ``a`` and ``v`` have no common one, ``sorter`` has no integers, or of
        masked arrays.

    Notes
    -----
    O(len(v) log(len(a))) work: each element is sent to the block of ``a`` that has its place, and
    its place is sent back.  For p blocks of ``a`` and m of ``v`` there are m * p pieces.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import pyblitz.dask
    >>> a = da.from_array(np.array([1, 2, 2, 5, 8, 9]), chunks=2)
    >>> pyblitz.dask.par_searchsorted(a, [2, 7, 10]).compute()
    array([1, 4, 6])
    """
    if sorter is not None:
        a = _in_order(a, sorter)
    if not isinstance(a, da.Array):
        a = da.from_array(np.asarray(a), chunks=-1)
    a, v = dask_row(a, "par_searchsorted"), dask_array(v, "par_searchsorted", "v")
    # This raises at once what is wrong with any arrays of these types.
    n = 0 if a.dtype.hasobject or v.dtype.hasobject else 1
    np.searchsorted(np.ones(n, a.dtype), np.ones(n, v.dtype), side)
    if a.numblocks[0] == 1:
        return _search_in_one_block(a, v, side)
    return _search_in_blocks(a, v, side)
