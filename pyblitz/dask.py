"""Sorts of dask arrays: ``import pyblitz.dask``, and ``pb.par_sort`` takes them.

Then `par_sort`, `par_argsort`, `par_topk` and `par_reduce` of dask arrays give lazy dask arrays,
and so do ``np.sort`` and ``np.argsort`` of `pyblitz.numpy`.

A sort of one axis in p blocks: each block is sorted.  Samples of every block give a range in which
each cut must lie.  What lies in these ranges tells where exactly.  Then each block is cut, into p
pieces; the pieces that lie between the same cuts are brought together and sorted.  Among equals
the block comes first that comes first in the array, and in a block the position: so every block
of the result has exactly its share, whatever the values are, and the sort is stable.  The way to
cut is that of P. J. Varman, S. D. Scheufler, B. R. Iyer and G. R. Ricard, "Merging multiple lists
on hierarchical-memory multiprocessors" (1991), with the samples of H. Shi and J. Schaeffer,
"Parallel sorting by regular sampling" (1992).
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

import pyblitz as pb
from pyblitz.arrays.front import hand_over

__all__ = ["par_argsort", "par_reduce", "par_sort", "par_topk"]

_Array = npt.NDArray[Any]
_Indices = npt.NDArray[np.int64]

# Of each block, for each block that there is.  At most 2 / SAMPLES of all elements are looked at
# to place the cuts exactly.
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
    """For each rank two elements: at most so many are before the first one, and at least so many
    before the second one, which is None for the end."""
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
    if not descending:
        left = np.searchsorted(values, wanted, "left")
        right = np.searchsorted(values, wanted, "right")
    elif values.dtype.kind != "c":
        # Backwards, but for what is no number or no time, which is last all the same.
        last = n - int(np.count_nonzero(values != values))
        upwards, unordered = values[:last][::-1], wanted != wanted
        left = np.where(unordered, last, last - np.searchsorted(upwards, wanted, "right"))
        right = np.where(unordered, n, last - np.searchsorted(upwards, wanted, "left"))
    else:
        # Where a sort places keys that come before all, and keys that come after all.
        m = len(keys)
        order = pb.par_argsort(
            np.concatenate([wanted, values, wanted]), stable=True, descending=True
        )
        where = np.empty(n + 2 * m, np.intp)
        where[order] = np.arange(n + 2 * m)
        ranks = np.cumsum((order >= m) & (order < m + n), dtype=np.intp)
        left, right = ranks[where[:m]], ranks[where[m + n :]]
    return [
        key.position if key.block == i else int(left[k] if key.block < i else right[k])
        for k, key in enumerate(keys)
    ]


def _windows(
    block: _Sorted, bounds: list[tuple[_Key, _Key | None]], i: int, descending: bool
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


def _piece(block: _Sorted, cuts: _Indices, i: int, j: int) -> _Sorted:
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
    # np.concatenate gives native byte order.
    as_it_was = top.values.astype(best[0].values.dtype, copy=False)
    return as_it_was, np.concatenate([b.places for b in best])[top.indices]


def _known(a: da.Array) -> None:
    if np.isnan(a.shape).any():
        raise ValueError("a: the sizes of its chunks are not known: call a.compute_chunk_sizes()")


def _array(a: Any, function: str) -> da.Array:
    a = da.asarray(a)
    if isinstance(a._meta, np.ma.MaskedArray):
        raise TypeError(f"a: {function} of dask arrays knows no masks")
    return a


def _refuse(**options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise TypeError(f"{name}: not for dask arrays")


def _sort_row(a: da.Array, descending: bool, places: bool) -> da.Array:
    """One axis, from block to block.  What tasks are told is bound to them: in a graph, a number
    could be the name of somebody's task."""
    lengths = [n for n in a.chunks[0] if n]
    blocks = [(a.name, i) for i, n in enumerate(a.chunks[0]) if n]
    p, total = len(blocks), sum(lengths)
    ranks = [total * j // p for j in range(p + 1)]
    steps = [max(1, n // (SAMPLES * p)) for n in lengths]
    token = tokenize(a.name, descending, places)
    ordered, sample, bounds, windows, cuts, piece, name = (
        f"pyblitz-{what}-{token}"
        for what in ("block", "sample", "bounds", "windows", "cuts", "piece", "sort")
    )
    starts = np.cumsum([0, *lengths]).tolist()
    way: dict[str, Any] = {"descending": descending}
    shares: dict[str, Any] = {"lengths": lengths, "ranks": ranks[1:-1]}
    tasks: dict[Any, Any] = {
        bounds: (partial(_bounds, steps=steps, **shares, **way), [(sample, i) for i in range(p)]),
        cuts: (partial(_cuts, **shares, **way), [(windows, i) for i in range(p)]),
    }
    for i, block in enumerate(blocks):
        sort = partial(_sort_block, start=starts[i], places=places, **way)
        tasks[ordered, i] = (sort, block)
        tasks[sample, i] = (partial(_sample, step=steps[i]), (ordered, i))
        tasks[windows, i] = (partial(_windows, i=i, **way), (ordered, i), bounds)
        for j in range(p):
            tasks[piece, i, j] = (partial(_piece, i=i, j=j), (ordered, i), cuts)
        tasks[name, i] = (partial(_bring_together, **way), [(piece, k, i) for k in range(p)])
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=[a])
    chunks = (tuple(int(n) for n in np.diff(ranks)),)
    return da.Array(graph, name, chunks, dtype=np.dtype(np.intp) if places else a.dtype)


def _sorted(a: Any, axis: Any, places: bool, descending: Any, **options: Any) -> da.Array:
    fn = pb.par_argsort if places else pb.par_sort
    a = _array(a, fn.__name__)
    # What is wrong with an argument is wrong of any array of this type.
    fn(np.empty((1,) * a.ndim, a.dtype), axis=axis, descending=descending, **options)
    if axis is None:
        _known(a)
        a, axis = (a.ravel() if a.size else da.empty(0, dtype=a.dtype)), 0
    axis = np.lib.array_utils.normalize_axis_index(axis, a.ndim)
    dtype = np.dtype(np.intp) if places else a.dtype
    if a.numblocks[axis] > 1 or a.ndim == 1:
        _known(a)
        if a.size == 0:
            return da.empty(a.shape, dtype=dtype)
    if a.ndim == 1:
        # dask joins blocks in native byte order only.
        native = a if a.dtype.isnative else a.astype(a.dtype.newbyteorder("="))
        result = _sort_row(native, bool(descending), places)
        return result if a.dtype.isnative or places else result.astype(dtype)
    if a.numblocks[axis] > 1:
        # Whole rows; for that, blocks have fewer of them.
        others = {} if a.dtype.hasobject else dict.fromkeys(range(a.ndim), "auto")
        a = a.rechunk({**others, axis: -1})
    return a.map_blocks(fn, axis=axis, stable=True, descending=bool(descending), dtype=dtype)


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
        Along which axis; None: of the flattened array.  Of an array of several axes each row
        is brought together, and must fit into memory.
    kind : {'quicksort', 'mergesort', 'heapsort', 'stable'}, optional
    stable : bool, optional
        Sorts of dask arrays are always stable, whatever is given.
    descending : bool, optional
        From the greatest element down, as in `pyblitz.par_sort`.
    order, out, less : None
        Not for dask arrays.

    Returns
    -------
    dask.array.Array
        Of one axis: as many chunks as ``a`` has that are not empty, whose sizes differ by at
        most one.

    Raises
    ------
    ValueError
        When chunk sizes are not known, or ``kind`` is none of these.
    TypeError
        When ``order``, ``out`` or ``less`` is given, or of masked arrays.
    numpy.exceptions.AxisError
        When there is no such axis.

    Notes
    -----
    O(n log n) work; each element is sent once to where it belongs.  A task has up to three
    blocks in hand.  For p blocks there are p**2 pieces, and some 128 * p**2 samples in one task.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import pyblitz.dask
    >>> a = da.from_array(np.array([3, 1, 2, 5, 4, 0]), chunks=2)
    >>> pyblitz.dask.par_sort(a).compute()
    array([0, 1, 2, 3, 4, 5])
    """
    _refuse(order=order, out=out, less=less)
    return _sorted(a, axis, False, descending, kind=kind, stable=stable)


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
    As for :func:`par_sort`, but with each element goes its index, of 8 bytes: up to three blocks
    of both are in hand, and the block's order besides.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import pyblitz.dask
    >>> a = da.from_array(np.array([3, 1, 2, 5, 4, 0]), chunks=2)
    >>> pyblitz.dask.par_argsort(a).compute()
    array([5, 1, 2, 0, 4, 3])
    """
    _refuse(order=order, out=out, less=less)
    return _sorted(a, axis, True, descending, kind=kind, stable=stable)


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
        When ``k`` is no integer, or of masked arrays.
    numpy.exceptions.AxisError
        When there is no such axis.
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
    a = _array(a, "par_topk")
    _known(a)
    if axis is not None:
        np.lib.array_utils.normalize_axis_index(axis, a.ndim)
    if a.ndim != 1:
        raise NotImplementedError("a: par_topk takes dask arrays of one axis")
    k, n = operator.index(k), a.shape[0]
    if not 0 <= k <= n:
        raise ValueError(f"k: must be from 0 to {n}, the length of the axis, not {k}")
    token = tokenize(a.name, k, largest, sorted)
    best, top = f"pyblitz-best-{token}", f"pyblitz-topk-{token}"
    starts = np.cumsum([0, *a.chunks[0]]).tolist()
    tasks: dict[Any, Any] = {
        (best, i): (partial(_best, start=start, k=k, largest=largest), (a.name, i))
        for i, start in enumerate(starts[:-1])
    }
    choose = partial(_best_of, k=k, largest=largest, sorted=sorted)
    tasks[top] = (choose, [(best, i) for i in range(a.numblocks[0])])
    results = []
    for which, dtype in enumerate((a.dtype, np.dtype(np.intp))):
        name = f"{top}-{which}"
        layer = {**tasks, (name, 0): (operator.itemgetter(which), top)}
        graph = HighLevelGraph.from_collections(name, layer, dependencies=[a])
        results.append(da.Array(graph, name, ((k,),), dtype=dtype))
    return pb.TopK(*results)


# Of which parts can be reduced, and their results.
ASSOCIATIVE = {
    np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.gcd, np.lcm, np.hypot,
    np.logaddexp, np.logaddexp2, np.logical_and, np.logical_or, np.logical_xor, np.bitwise_and,
    np.bitwise_or, np.bitwise_xor,
}  # fmt: skip


def _reduced(x: _Array, op: np.ufunc, dtype: Any, axis: Any, keepdims: bool) -> Any:
    return pb.par_reduce(op, x, axis=axis, dtype=dtype, keepdims=keepdims)


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
        Of two inputs.  Unless it is one of NumPy's that are associative (sums, products,
        extremes, bits, gcd …), whole rows are brought together.
    a : dask.array.Array
    axis : None or int or tuple of int, optional
        The first one by default, as for a ufunc; None: all.
    dtype : dtype, optional
        Of the calculation and the result.
    out, **options : None
        Not for dask arrays.
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
    _refuse(out=out, **options)
    a = da.asarray(a)
    one = np.ones((1,) * a.ndim, a.dtype)
    of_type = np.asarray(op.reduce(one, axis=axis, dtype=dtype, keepdims=True)).dtype
    if a.ndim == 0:
        axis = ()
    along = range(a.ndim) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, a.ndim)
    if op not in ASSOCIATIVE:
        a = a.rechunk(dict.fromkeys(along, -1))
    elif any(0 in a.chunks[d] for d in along):
        # Of no elements some ufuncs have no result.
        a = a.rechunk({d: tuple(n for n in a.chunks[d] if n) or (0,) for d in along})
    fn = partial(_reduced, op=op, dtype=dtype)
    return da.reduction(
        a, chunk=fn, aggregate=fn, axis=axis, keepdims=bool(keepdims), dtype=of_type
    )


HANDED_OVER = {name: globals()[name] for name in __all__}
hand_over(da.Array, HANDED_OVER)
