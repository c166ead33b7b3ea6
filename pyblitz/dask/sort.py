"""Sorts: each block is sorted, cut, and the pieces that belong together are sorted again.

A sort of p blocks cuts each of them into p pieces (see `cuts`); the pieces that lie between the
same cuts are brought together, in the order of their blocks, and sorted.  As each of these sorts is
stable, so is the whole.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize

import pyblitz as pb
from pyblitz.dask.arguments import (
    comparable,
    dask_array,
    flat,
    need_sizes,
    one_element,
    refuse,
    whole,
)
from pyblitz.dask.cuts import (
    SAMPLES,
    Sorted,
    cut_piece,
    find_bounds,
    find_cuts,
    sample_of,
    take_windows,
)
from pyblitz.dask.graphs import Values, lazy_array, task_names


def _sort_block(values: Values, start: int, descending: bool, places: bool) -> Sorted:
    if values.dtype.hasobject and any(x != x for x in values.tolist()):
        raise ValueError(
            "NaN among objects has no place in an order, so blocks cannot be joined; give numbers"
        )
    if not places:
        return Sorted(pb.par_sort(values, stable=True, descending=descending), None)
    if values.dtype.names and all(values.dtype[x].kind in "biufmMSU" for x in values.dtype.names):
        # Groups use as many keys as records have fields; a sort would compare records one by one.
        order = pb.par_group_by(values).order
    else:
        order = pb.par_argsort(values, stable=True, descending=descending)
    return Sorted(pb.par_take(values, order), order + start)


def _bring_together(pieces: list[Sorted], descending: bool) -> Values:
    """One block of the result: values, or their places if the pieces have them."""
    values = np.concatenate([p.values for p in pieces])
    if pieces[0].places is None:
        return np.asarray(pb.par_sort(values, stable=True, descending=descending))
    order = pb.par_argsort(values, stable=True, descending=descending)
    return np.asarray(pb.par_take(np.concatenate([p.places for p in pieces]), order))


def sort_row(
    a: da.Array, descending: bool, places: bool, bring_together: Any = _bring_together
) -> da.Array:
    """The blocks that ``bring_together`` makes of pieces, of a row whose sizes are known.

    There are as many as the row has blocks that are not empty, and their sizes differ by at most
    one.  With places, pieces have the indices of their elements, too."""
    lengths = [n for n in a.chunks[0] if n]
    blocks = [(a.name, i) for i, n in enumerate(a.chunks[0]) if n]
    p, total = len(blocks), sum(lengths)
    ranks = [total * j // p for j in range(p + 1)]
    steps = [max(1, n // (SAMPLES * p)) for n in lengths]
    token = tokenize(a.name, descending, places, bring_together.__name__)
    ordered, sample, bounds, windows, cuts, piece, name = task_names(
        token, "block", "sample", "bounds", "windows", "cuts", "piece", "sort"
    )
    starts = np.cumsum([0, *lengths]).tolist()
    way: dict[str, Any] = {"descending": descending}
    shares: dict[str, Any] = {"lengths": lengths, "ranks": ranks[1:-1], **way}
    tasks: dict[Any, Any] = {
        bounds: (partial(find_bounds, steps=steps, **shares), [(sample, i) for i in range(p)]),
        cuts: (partial(find_cuts, **shares), [(windows, i) for i in range(p)]),
    }
    for i, block in enumerate(blocks):
        sort = partial(_sort_block, start=starts[i], places=places, **way)
        tasks[ordered, i] = (sort, block)
        tasks[sample, i] = (partial(sample_of, step=steps[i]), (ordered, i))
        tasks[windows, i] = (partial(take_windows, i=i, **way), (ordered, i), bounds)
        for j in range(p):
            tasks[piece, i, j] = (partial(cut_piece, j=j, i=i), (ordered, i), cuts)
        tasks[name, i] = (partial(bring_together, **way), [(piece, k, i) for k in range(p)])
    chunks = (tuple(int(n) for n in np.diff(ranks)),)
    return lazy_array(name, tasks, [a], chunks, np.dtype(np.intp) if places else a.dtype)


def _sorted(a: Any, axis: Any, places: bool, descending: Any, **options: Any) -> da.Array:
    """What `par_sort` gives, or, with places, `par_argsort`."""
    fn = pb.par_argsort if places else pb.par_sort
    a = dask_array(a, fn.__name__)
    fn(one_element(a), axis=axis, descending=descending, **options)
    if axis is None:
        need_sizes(a)
        a, axis = flat(a), 0
    axis = np.lib.array_utils.normalize_axis_index(axis, a.ndim)
    dtype = np.dtype(np.intp) if places else a.dtype
    if a.numblocks[axis] > 1 or a.ndim == 1:
        need_sizes(a)
        if a.size == 0:
            return da.empty(a.shape, dtype=dtype)
    if a.ndim == 1:
        result = sort_row(comparable(a), bool(descending), places)
        return result if places else result.astype(dtype)
    a = whole(a, [axis])
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
        The sizes of its chunks must be known.
    axis : int or None, optional
        Which axis to sort along; None sorts the flattened array.  Of an array of several axes each
        row is brought together, and must fit into memory.
    kind : {'quicksort', 'mergesort', 'heapsort', 'stable'}, optional
    stable : bool, optional
        Sorts of dask arrays are always stable, whatever is given.
    descending : bool, optional
        Whether the greatest element is first, as in `pyblitz.par_sort`.
    order, out, less : None
        These are not for dask arrays.

    Returns
    -------
    dask.array.Array
        Of one axis it has as many chunks as ``a`` has that are not empty, and their sizes differ
        by at most one.

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
    refuse(order=order, out=out, less=less)
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
        It is of type intp; of one axis, it has indices of the whole array.

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
    refuse(order=order, out=out, less=less)
    return _sorted(a, axis, True, descending, kind=kind, stable=stable)
