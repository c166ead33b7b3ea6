"""Sets: the distinct values of each block, cut by value, and brought together range by range.

All blocks together have few of equal values, so that ranges of values need no exact cuts: samples
tell what lies between them.  Each range is one block of the result.  If the inverse is asked for,
each block also remembers which of its own values each element is, and each range, which of its
values those of the blocks are.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.base import tokenize

import pyblitz as pb
from pyblitz.dask.arguments import dask_array, flat, native_order, need_sizes, one_element, whole
from pyblitz.dask.cuts import SAMPLES, cut_piece
from pyblitz.dask.graphs import (
    Indices,
    Values,
    block_corners,
    block_keys,
    lazy_array,
    member_of,
    task_names,
)

# Distinct values are cut into as many ranges as there are blocks, unless these were more pieces.
PIECES = 16384


class _Wanted(NamedTuple):
    """What is asked for beside the values."""

    places: bool
    inverse: bool
    counts: bool


class _Distinct(NamedTuple):
    """Distinct values in order; where each is first and how often it occurs, if that is wanted."""

    values: Values
    places: Indices | None
    counts: Indices | None


class _Merged(NamedTuple):
    """What is distinct in one range; and for each block, which of these values its own are."""

    values: Values
    places: Indices | None
    counts: Indices | None
    which: list[Indices]


# ---- in a block -------------------------------------------------------------


def _distinct(
    block: Values, wanted: _Wanted, corner: list[int], shape: tuple[int, ...], how: dict[str, Any]
) -> tuple[_Distinct, Indices | None]:
    """What is distinct in a block, and for each of its elements, which of the values it is."""
    found: Any = pb.par_unique(block, *wanted, **how)
    members = iter(found if type(found) is tuple else (found,))
    values = next(members)
    places, inverse, counts = (next(members) if each else None for each in wanted)
    if places is not None:
        inside = np.unravel_index(places, block.shape[: len(shape)])
        there = tuple(x + first for x, first in zip(inside, corner, strict=True))
        places = np.ravel_multi_index(there, shape)
    return _Distinct(values, places, counts), inverse


def _take_sample(part: _Distinct, ranges: int) -> tuple[Values, int]:
    """A sample, and how many values each of it stands for.  NaNs stay together: it has none."""
    values = part.values[part.values == part.values]
    step = max(1, len(values) // (SAMPLES * ranges))
    return values[::step].copy(), step


def _splitters(samples: list[tuple[Values, int]], ranges: int) -> Values:
    """Values between ranges of nearly as many values; if there are no samples, there are none."""
    values = np.concatenate([s for s, _ in samples])
    order = pb.par_argsort(values, stable=True)
    before = np.cumsum(
        np.repeat([step for _, step in samples], [len(s) for s, _ in samples])[order]
    )
    wanted = np.arange(1, ranges) * (before[-1] / ranges) if len(values) else []
    return np.asarray(values[order[np.searchsorted(before, wanted)]])


def _cuts_by_value(part: _Distinct, splitters: Values, ranges: int) -> Indices:
    inner = pb.par_searchsorted(part.values, splitters) if len(splitters) else [0] * (ranges - 1)
    return np.array([0, *inner, len(part.values)])


# ---- in a range -------------------------------------------------------------


def _merge(parts: list[_Distinct], inverse: bool, how: dict[str, Any]) -> _Merged:
    values = np.concatenate([p.values for p in parts])
    if not inverse and parts[0].places is None and parts[0].counts is None:
        return _Merged(pb.par_unique(values, **how), None, None, [])
    # If the index is asked for, too, NaNs that differ stay in their order.
    values, _, which = pb.par_unique(values, return_index=True, return_inverse=True, **how)
    which = which.reshape(-1)
    places = counts = None
    if parts[0].places is not None:
        places = np.full(len(values), np.iinfo(np.intp).max)
        np.minimum.at(places, which, np.concatenate([p.places for p in parts]))
    if parts[0].counts is not None:
        counts = np.zeros(len(values), np.intp)
        np.add.at(counts, which, np.concatenate([p.counts for p in parts]))
    ends = np.cumsum([len(p.values) for p in parts[:-1]], dtype=np.intp)
    return _Merged(values, places, counts, np.split(which, ends))


def _ranges(a: da.Array, wanted: _Wanted, how: dict[str, Any]) -> tuple[da.Array, da.Array | None]:
    """Blocks that are `_Merged`, one for each range, and the inverse in the blocks of ``a``."""
    keys = block_keys(a)
    p, axes = len(keys), a.ndim if how["axis"] is None else 1
    ranges = max(1, min(p, PIECES // p)) if how["axis"] is None else 1
    found, distinct, sample, splitters, cuts, piece, name = task_names(
        tokenize(a.name, wanted, how),
        *("found", "distinct", "sample", "splitters", "cuts", "piece", "unique"),
    )
    tasks: dict[Any, Any] = {splitters: (tuple,)}
    if ranges > 1:
        choose = partial(_splitters, ranges=ranges)
        tasks[splitters] = (choose, [(sample, i) for i in range(p)])
    options: dict[str, Any] = {"wanted": wanted, "shape": a.shape[:axes], "how": how}
    corners = block_corners(a, axes) if wanted.places else [[]] * p
    for i, (key, corner) in enumerate(zip(keys, corners, strict=True)):
        tasks[found, i] = (partial(_distinct, corner=corner, **options), key)
        tasks[distinct, i] = (operator.itemgetter(0), (found, i))
        tasks[sample, i] = (partial(_take_sample, ranges=ranges), (distinct, i))
        tasks[cuts, i] = (partial(_cuts_by_value, ranges=ranges), (distinct, i), splitters)
        for j in range(ranges):
            tasks[piece, i, j] = (partial(cut_piece, j=j), (distinct, i), (cuts, i))
    merge = partial(_merge, inverse=wanted.inverse, how=how)
    for j in range(ranges):
        tasks[name, j] = (merge, [(piece, i, j) for i in range(p)])
    merged = lazy_array(name, tasks, [a], ((np.nan,) * ranges,), object)
    return merged, _lazy_inverse(a, merged, found, axes) if wanted.inverse else None


# ---- and back, for the inverse ----------------------------------------------


def _size(merged: _Merged) -> int:
    return len(merged.values)


def _sent_back(merged: _Merged, i: int) -> Indices:
    return merged.which[i]


def _inverse(inside: Indices, sent_back: list[Indices], sizes: list[int]) -> Indices:
    """For each element of a block, which of all values it is."""
    begins = np.cumsum([0, *sizes[:-1]])
    which = np.concatenate([own + begin for own, begin in zip(sent_back, begins, strict=True)])
    return np.asarray(pb.par_take(which, inside))


def _lazy_inverse(a: da.Array, merged: da.Array, found: str, axes: int) -> da.Array:
    """The inverse in the blocks of ``a``, from the ranges and from what was found in its blocks."""
    inside, size, sizes, back, name = (
        f"{merged.name}-{kind}" for kind in ("inside", "size", "sizes", "back", "inverse")
    )
    ranges = range(merged.numblocks[0])
    tasks: dict[Any, Any] = {sizes: (list, [(size, j) for j in ranges])}
    for j in ranges:
        tasks[size, j] = (_size, (merged.name, j))
    for i, at in enumerate(np.ndindex(*a.numblocks)):
        tasks[inside, i] = (operator.itemgetter(1), (found, i))
        for j in ranges:
            tasks[back, i, j] = (partial(_sent_back, i=i), (merged.name, j))
        tasks[(name, *at[:axes])] = (_inverse, (inside, i), [(back, i, j) for j in ranges], sizes)
    return lazy_array(name, tasks, [merged], a.chunks[:axes], np.intp)


# ---- the function -----------------------------------------------------------


def _laid_out(a: da.Array, axis: Any, equal_nan: bool) -> da.Array:
    """The array in an order that suits: the axis of its subarrays is first, and these are whole;
    or its elements are in one axis, if their order counts."""
    if axis is not None:
        return whole(da.moveaxis(a, axis, 0), range(1, a.ndim))
    if a.ndim == 0 or (a.ndim > 1 and not equal_nan):
        # NaNs that differ are in the order of the flattened array.
        return flat(a)
    return a


def _results(a: da.Array, axis: Any, wanted: _Wanted, equal_nan: bool) -> list[da.Array]:
    """Values, and what is wanted, of the elements, or of the subarrays along an axis."""
    laid_out = _laid_out(a, axis, equal_nan)
    if wanted.places:
        need_sizes(laid_out, "ar")
    subarrays = axis is not None
    how = {"axis": 0 if subarrays else None, "equal_nan": equal_nan}
    laid_out = native_order(laid_out)
    merged, inverse = _ranges(laid_out, wanted, how)
    chunks = (merged.chunks[0], *laid_out.chunks[1:]) if subarrays else merged.chunks
    values = member_of(merged, 0, chunks, laid_out.dtype).astype(a.dtype)
    results = [da.moveaxis(values, 0, axis) if subarrays else values]
    if wanted.places:
        results.append(member_of(merged, 1, merged.chunks, np.intp))
    if inverse is not None:
        has_shape = subarrays or inverse.ndim == a.ndim
        results.append(inverse if has_shape else inverse.reshape(a.shape))
    if wanted.counts:
        results.append(member_of(merged, 2, merged.chunks, np.intp))
    return results


def par_unique(
    ar: Any,
    return_index: Any = False,
    return_inverse: Any = False,
    return_counts: Any = False,
    axis: Any = None,
    *,
    equal_nan: Any = True,
    sorted: Any = True,
) -> Any:
    """The distinct values of a dask array, sorted, as a lazy dask array.

    Parameters
    ----------
    ar : dask.array.Array
        It is flattened, unless ``axis`` is given.
    return_index, return_inverse, return_counts, equal_nan : bool, optional
        As for `pyblitz.par_unique`.
    axis : int or None, optional
        Subarrays along this axis are compared: those of all blocks are brought together in one
        task.
    sorted : bool, optional
        They are sorted in any case.

    Returns
    -------
    dask.array.Array, or a tuple of them
        Values, indices and counts have as many chunks as ``ar`` has, if these are 128 at most;
        of p blocks more, 16,384 / p.  Their sizes are known when they are computed, and some may
        be empty.  The inverse has the shape and, of a flattened array, the chunks of ``ar``.

    Raises
    ------
    ValueError
        When ``return_index`` is given, and chunk sizes are not known.
    TypeError
        Of masked arrays, or when NumPy cannot sort the values.
    numpy.exceptions.AxisError
        When there is no such axis.

    Notes
    -----
    O(n log n) work at most.  What is distinct in each block is cut into ranges of values, and
    each range is brought together in one task.  For p blocks there are p**2 pieces, up to 16,384.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import pyblitz.dask
    >>> a = da.from_array(np.array([3, 1, 3, 2, 1, 3]), chunks=2)
    >>> [x.compute().tolist() for x in pyblitz.dask.par_unique(a, return_counts=True)]
    [[1, 2, 3], [2, 1, 3]]
    """
    a = dask_array(ar, "par_unique", "ar")
    pb.par_unique(one_element(a), axis=axis)
    wanted = _Wanted(bool(return_index), bool(return_inverse), bool(return_counts))
    # In one axis, subarrays are elements.
    results = _results(a, axis if a.ndim > 1 else None, wanted, bool(equal_nan))
    return results[0] if len(results) == 1 else tuple(results)
