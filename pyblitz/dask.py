"""Sorts of dask arrays: ``import pyblitz.dask``, and ``pb.par_sort`` takes them.

Then `par_sort`, `par_argsort`, `par_topk` and `par_reduce` of dask arrays give lazy dask arrays,
and so do ``np.sort`` and ``np.argsort`` of `pyblitz.numpy`.  Nothing is gathered in one place.

A sort of one axis in p blocks: each block is sorted.  Evenly spaced samples of all of them tell
within which bounds each block is to be cut so that as many elements as wanted are less.  The
elements between these bounds tell where exactly.  Then each block is cut, into p pieces; the pieces
that lie between the same cuts are brought together and sorted.  What comes first among equals
is told by the block, and in there by the position: so each result has exactly its share,
whatever the values are, and the sort is stable.  The way to cut is that of P. J. Varman, S. D.
Scheufler, B. R. Iyer and G. R. Ricard, "Merging multiple lists on hierarchical-memory
multiprocessors" (1991), with the samples of H. Shi and J. Schaeffer, "Parallel sorting by regular
sampling" (1992).
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

import pyblitz as pb
from pyblitz.arrays.front import hand_over

__all__ = ["par_argsort", "par_reduce", "par_sort", "par_topk"]

_Array = npt.NDArray[Any]
_Indices = npt.NDArray[np.int64]

# Samples of a block, for each block that there is: what lies between two of them, and is looked
# at for exact cuts, is about two in so many of all elements.
SAMPLES = 128


class _Sorted(NamedTuple):
    """A block in order, and where each element was before, if that is asked for."""

    values: _Array
    places: _Indices | None


class _Key(NamedTuple):
    """An element, by value and then by where it is."""

    value: Any
    block: int
    position: int


def _sort_block(values: _Array, start: int, descending: bool, places: bool) -> _Sorted:
    if not places:
        return _Sorted(pb.par_sort(values, stable=True, descending=descending), None)
    order = pb.par_argsort(values, stable=True, descending=descending)
    return _Sorted(pb.par_take(values, order), order + start)


def _sample(block: _Sorted, step: int) -> _Array:
    return block.values[::step].copy()


def _bounds(
    samples: list[_Array], lengths: list[int], steps: list[int], ranks: list[int], descending: bool
) -> list[tuple[_Key, _Key | None]]:
    """For each rank, an element that no more than so many are before, and one that no fewer
    are before, or None for the end."""
    block = np.repeat(np.arange(len(samples)), [len(s) for s in samples])
    number = np.concatenate([np.arange(len(s)) for s in samples])
    values = np.concatenate(samples)
    order = pb.par_argsort(values, stable=True, descending=descending)
    block, number, values = block[order], number[order], values[order]
    step, length = np.array(steps)[block], np.array(lengths)[block]
    # How many more are before the next sample than before this one: at least, at most.
    at_least = np.where(number == 0, 1, step)
    at_most = np.minimum((number + 1) * step, length) - np.minimum(number * step, length)
    before_at_least = np.concatenate([[0], np.cumsum(at_least)[:-1]])
    before_at_most = np.concatenate([[0], np.cumsum(at_most)[:-1]])

    def key(q: int) -> _Key:
        return _Key(values[q : q + 1], int(block[q]), int(number[q] * step[q]))

    found = []
    for rank in ranks:
        low = int(np.searchsorted(before_at_most, rank, "right")) - 1
        high = int(np.searchsorted(before_at_least, rank, "left"))
        found.append((key(low), key(high) if high < len(values) else None))
    return found


def _places(block: _Sorted, i: int, keys: list[_Key], descending: bool) -> list[int]:
    """How many elements of block ``i`` are before each key."""
    values, n = block.values, len(block.values)
    if not keys:
        return []
    wanted = np.concatenate([key.value for key in keys])
    if descending:
        # As a sort places them, whatever is last in it: before what is equal, and after.
        m = len(keys)
        order = pb.par_argsort(
            np.concatenate([wanted, values, wanted]), stable=True, descending=True
        )
        where = np.empty(n + 2 * m, np.intp)
        where[order] = np.arange(n + 2 * m)
        ranks = np.cumsum((order >= m) & (order < m + n), dtype=np.intp)
        left, right = ranks[where[:m]], ranks[where[m + n :]]
    else:
        left = np.searchsorted(values, wanted, "left")
        right = np.searchsorted(values, wanted, "right")
    return [
        key.position if key.block == i else int(left[k] if key.block < i else right[k])
        for k, key in enumerate(keys)
    ]


def _windows(
    block: _Sorted, i: int, bounds: list[tuple[_Key, _Key | None]], descending: bool
) -> list[tuple[int, _Array]]:
    """For each cut: how many are before it for certain, and those that may be."""
    low = _places(block, i, [b[0] for b in bounds], descending)
    ends = iter(_places(block, i, [b[1] for b in bounds if b[1] is not None], descending))
    high = [len(block.values) if b[1] is None else next(ends) for b in bounds]
    return [(lo, block.values[lo:hi].copy()) for lo, hi in zip(low, high, strict=True)]


def _cuts(
    windows: list[list[tuple[int, _Array]]], lengths: list[int], ranks: list[int], descending: bool
) -> _Indices:
    """Row by row, how many elements of each block are among the first ``rank`` of all; the first
    row is for none, and the last for all."""
    rows = [[0] * len(windows)]
    for j, rank in enumerate(ranks):
        starts = [of_block[j][0] for of_block in windows]
        parts = [of_block[j][1] for of_block in windows]
        block = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        order = pb.par_argsort(np.concatenate(parts), stable=True, descending=descending)
        more = np.bincount(block[order[: rank - sum(starts)]], minlength=len(parts))
        rows.append([int(lo + n) for lo, n in zip(starts, more, strict=True)])
    return np.array([*rows, lengths])


def _piece(block: _Sorted, i: int, j: int, cuts: _Indices) -> _Sorted:
    part = slice(*cuts[j : j + 2, i])
    # A copy: the block may go when all its pieces are there.
    return _Sorted(
        block.values[part].copy(), None if block.places is None else block.places[part].copy()
    )


def _bring_together(pieces: list[_Sorted], descending: bool) -> _Array:
    values = np.concatenate([p.values for p in pieces])
    if pieces[0].places is None:
        return np.asarray(pb.par_sort(values, stable=True, descending=descending))
    order = pb.par_argsort(values, stable=True, descending=descending)
    return np.asarray(pb.par_take(np.concatenate([p.places for p in pieces]), order))


def _best(values: _Array, start: int, k: int, largest: bool) -> _Sorted:
    top = pb.par_topk(values, min(k, len(values)), largest=largest)
    return _Sorted(top.values, top.indices + start)


def _best_of(best: list[_Sorted], k: int, largest: bool, sorted: bool) -> tuple[_Array, _Indices]:
    values = np.concatenate([b.values for b in best])
    top = pb.par_topk(values, k, largest=largest, sorted=sorted)
    return top.values, np.concatenate([b.places for b in best])[top.indices]


def _known(a: da.Array) -> None:
    if np.isnan(a.shape).any():
        raise ValueError(
            "a: its chunks have no known sizes: call a.compute_chunk_sizes() before it is sorted"
        )


def _sooner(p: int, key: tuple[str, int, int]) -> int:
    """All pieces of a block at once: it may have to come from disk, and may then go."""
    return p - key[1]


def _sort_row(a: da.Array, descending: bool, places: bool) -> da.Array:
    """One axis, from block to block."""
    dtype = np.dtype(np.intp) if places else a.dtype
    lengths = [n for n in a.chunks[0] if n]
    blocks = [(a.name, i) for i, n in enumerate(a.chunks[0]) if n]
    if not blocks:
        return a.astype(dtype)
    p, total = len(blocks), sum(lengths)
    ranks = [total * j // p for j in range(p + 1)]
    steps = [max(1, n // (SAMPLES * p)) for n in lengths]
    token = tokenize(a.name, descending, places)
    ordered, sample, bounds, windows, cuts, piece, name = (
        f"pyblitz-{what}-{token}"
        for what in ("block", "sample", "bounds", "windows", "cuts", "piece", "sort")
    )
    tasks: dict[Any, Any] = {}
    for i, (block, start) in enumerate(
        zip(blocks, np.cumsum([0, *lengths]).tolist(), strict=False)
    ):
        tasks[ordered, i] = (_sort_block, block, start, descending, places)
        tasks[sample, i] = (_sample, (ordered, i), steps[i])
        tasks[windows, i] = (_windows, (ordered, i), i, bounds, descending)
    samples = [(sample, i) for i in range(p)]
    tasks[bounds] = (_bounds, samples, lengths, steps, ranks[1:-1], descending)
    tasks[cuts] = (_cuts, [(windows, i) for i in range(p)], lengths, ranks[1:-1], descending)
    pieces = {(piece, i, j): (_piece, (ordered, i), i, j, cuts) for i in range(p) for j in range(p)}
    results = {
        (name, j): (_bring_together, [(piece, i, j) for i in range(p)], descending)
        for j in range(p)
    }
    graph = HighLevelGraph(
        {
            **a.dask.layers,
            ordered: MaterializedLayer(tasks),
            piece: MaterializedLayer(pieces, annotations={"priority": partial(_sooner, p)}),
            name: MaterializedLayer(results),
        },
        {
            **a.dask.dependencies,
            ordered: set(a.__dask_layers__()),
            piece: {ordered},
            name: {piece},
        },
    )
    chunks = (tuple(int(n) for n in np.diff(ranks)),)
    return da.Array(graph, name, chunks, dtype=dtype)


def _sorted(a: Any, axis: Any, places: bool, descending: Any, refused: dict[str, Any]) -> da.Array:
    for name, value in refused.items():
        if value is not None:
            raise TypeError(f"{name}: not for dask arrays")
    a = da.asarray(a)
    _known(a)
    if axis is None:
        a, axis = a.ravel(), 0
    axis = np.lib.array_utils.normalize_axis_index(axis, a.ndim)
    if a.ndim == 1:
        # dask joins blocks in native byte order only.
        native = a.astype(a.dtype.newbyteorder("="))
        result = _sort_row(native, bool(descending), places)
        return result if places else result.astype(a.dtype)
    # Whole rows, of which others make way for the length.
    if a.numblocks[axis] > 1:
        a = a.rechunk({i: -1 if i == axis else "auto" for i in range(a.ndim)})
    fn = pb.par_argsort if places else pb.par_sort
    return a.map_blocks(
        fn,
        axis=axis,
        stable=True,
        descending=bool(descending),
        dtype=np.intp if places else a.dtype,
    )


def par_sort(
    a: Any,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: Any = None,
    out: Any = None,
    less: Any = None,
) -> da.Array:
    """A sorted copy of a dask array, as a lazy dask array; always stable.

    Parameters
    ----------
    a : dask.array.Array
        Of known chunk sizes.
    axis : int or None, optional
        Along which axis; None: of the flattened array.  With several axes, rows are brought
        together, so that each must fit into memory.
    kind : {'quicksort', 'mergesort', 'heapsort', 'stable'}, optional
        All are stable here.
    stable : bool, optional
        The same.
    descending : bool, optional
        From the greatest element down, as in `pyblitz.par_sort`.
    order, out, less : None
        Not for dask arrays.

    Returns
    -------
    dask.array.Array
        Of one axis: as many chunks as ``a`` has, whose sizes differ by at most one.

    Raises
    ------
    ValueError
        When chunk sizes are not known.
    TypeError
        When ``order``, ``out`` or ``less`` is given.
    numpy.exceptions.AxisError
        When there is no such axis.

    Notes
    -----
    O(n log n) work; each element is sent once to where it belongs.  A task has one block of
    ``a``, or of the result, in hand, and as much again.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import pyblitz.dask
    >>> a = da.from_array(np.array([3, 1, 2, 5, 4, 0]), chunks=2)
    >>> pyblitz.dask.par_sort(a).compute()
    array([0, 1, 2, 3, 4, 5])
    """
    return _sorted(a, axis, False, descending, {"order": order, "out": out, "less": less})


def par_argsort(
    a: Any,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: Any = None,
    out: Any = None,
    less: Any = None,
) -> da.Array:
    """The indices that would sort a dask array, as a lazy dask array; always stable.

    Parameters
    ----------
    a, axis, kind, order, stable, descending, out, less
        As for :func:`par_sort`.

    Returns
    -------
    dask.array.Array
        Of type intp; of one axis, indices of the whole array.

    Raises
    ------
    ValueError, TypeError, numpy.exceptions.AxisError
        As by :func:`par_sort`.

    Notes
    -----
    As for :func:`par_sort`; with each element goes its index, of 8 bytes.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import pyblitz.dask
    >>> a = da.from_array(np.array([3, 1, 2, 5, 4, 0]), chunks=2)
    >>> pyblitz.dask.par_argsort(a).compute()
    array([5, 1, 2, 0, 4, 3])
    """
    return _sorted(a, axis, True, descending, {"order": order, "out": out, "less": less})


def par_topk(a: Any, k: Any, axis: Any = -1, *, largest: Any = True, sorted: Any = True) -> Any:
    """The ``k`` greatest elements, or the least, of a dask array of one axis, and where they are.

    Parameters
    ----------
    a : dask.array.Array
        Of one axis, with known chunk sizes.
    k : int
        From 0 to the length of the array.
    axis : int, optional
        The only one.
    largest, sorted : bool, optional
        As for `pyblitz.par_topk`.

    Returns
    -------
    pyblitz.TopK
        Two lazy dask arrays of one chunk.

    Raises
    ------
    ValueError
        When chunk sizes are not known, or ``k`` is negative or more than there are.
    TypeError
        When ``k`` is no integer.
    NotImplementedError
        With more than one axis.

    Notes
    -----
    O(n) work; one task has the ``k`` of each block in hand.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import pyblitz.dask
    >>> a = da.from_array(np.array([3, 1, 2, 5, 4, 0]), chunks=2)
    >>> [x.compute().tolist() for x in pyblitz.dask.par_topk(a, 2)]
    [[5, 4], [3, 4]]
    """
    a = da.asarray(a)
    _known(a)
    if a.ndim != 1 or axis not in (-1, 0):
        raise NotImplementedError("a: par_topk takes dask arrays of one axis")
    k, n = operator.index(k), a.shape[0]
    if not 0 <= k <= n:
        raise ValueError(f"k: must be from 0 to {n}, the length of the axis, not {k}")
    token = tokenize(a.name, k, largest, sorted)
    best, top = f"pyblitz-best-{token}", f"pyblitz-topk-{token}"
    starts = np.cumsum([0, *a.chunks[0]]).tolist()
    tasks: dict[Any, Any] = {
        (best, i): (_best, (a.name, i), start, k, largest) for i, start in enumerate(starts[:-1])
    }
    tasks[top] = (_best_of, [(best, i) for i in range(a.numblocks[0])], k, largest, sorted)
    results = []
    for which, dtype in enumerate((a.dtype, np.dtype(np.intp))):
        name = f"{top}-{which}"
        layer = {**tasks, (name, 0): (operator.getitem, top, which)}
        graph = HighLevelGraph.from_collections(name, layer, dependencies=[a])
        results.append(da.Array(graph, name, ((k,),), dtype=dtype))
    return pb.TopK(*results)


def _reduced(x: _Array, op: np.ufunc, axis: Any, keepdims: bool) -> Any:
    return pb.par_reduce(op, x, axis=axis, keepdims=keepdims)


def par_reduce(
    op: np.ufunc, a: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False
) -> da.Array:
    """``op.reduce`` of a dask array, as a lazy dask array.

    Parameters
    ----------
    op : numpy.ufunc
        Of two inputs, and associative.
    a : dask.array.Array
    axis : None or int or tuple of int, optional
        The first one by default, as for a ufunc; None: all.
    dtype : dtype, optional
        Of the calculation and the result.
    out : None
        Not for dask arrays.
    keepdims : bool, optional
        Whether reduced axes stay, with length one.

    Returns
    -------
    dask.array.Array

    Raises
    ------
    TypeError
        When ``out`` is given, or ``op`` does not take such elements.

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
    if out is not None:
        raise TypeError("out: not for dask arrays")
    a = da.asarray(a)
    a = a if dtype is None else a.astype(dtype)
    fn = partial(_reduced, op=op)
    return da.reduction(
        a,
        chunk=fn,
        aggregate=fn,
        axis=axis,
        keepdims=bool(keepdims),
        dtype=op.reduce(np.ones(1, a.dtype)).dtype,
    )


hand_over(
    da.Array,
    {
        "par_sort": par_sort,
        "par_argsort": par_argsort,
        "par_topk": par_topk,
        "par_reduce": par_reduce,
    },
)
