"""The greatest elements: those of each block, and then those of all of these."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize

import pyblitz as pb
from pyblitz.dask.arguments import dask_array, need_sizes
from pyblitz.dask.cuts import Sorted
from pyblitz.dask.graphs import Indices, Values, lazy_array, member_of, task_names


def _best(values: Values, start: int, k: int, largest: bool) -> Sorted:
    """The best elements of a block that begins at ``start``."""
    top = pb.par_topk(values, min(k, len(values)), largest=largest)
    return Sorted(top.values, top.indices + start)


def _best_of(best: list[Sorted], k: int, largest: bool, sorted: bool) -> tuple[Values, Indices]:
    values = np.concatenate([b.values for b in best])
    top = pb.par_topk(values, k, largest=largest, sorted=sorted)
    # np.concatenate gives native byte order.
    as_it_was = top.values.astype(best[0].values.dtype, copy=False)
    return as_it_was, np.concatenate([b.places for b in best])[top.indices]


def _best_of_row(a: da.Array, k: int, largest: Any, sorted: Any) -> Any:
    best, top = task_names(tokenize(a.name, k, largest, sorted), "best", "topk")
    starts = np.cumsum([0, *a.chunks[0]]).tolist()
    tasks: dict[Any, Any] = {
        (best, i): (partial(_best, start=start, k=k, largest=largest), (a.name, i))
        for i, start in enumerate(starts[:-1])
    }
    choose = partial(_best_of, k=k, largest=largest, sorted=sorted)
    tasks[top, 0] = (choose, [(best, i) for i in range(a.numblocks[0])])
    chunks = ((k,),)
    both = lazy_array(top, tasks, [a], chunks, object)
    return pb.TopK(member_of(both, 0, chunks, a.dtype), member_of(both, 1, chunks, np.intp))


def par_topk(a: Any, k: Any, axis: Any = -1, *, largest: Any = True, sorted: Any = True) -> Any:
    """The ``k`` greatest elements, or the least, of a dask array of one axis, and where they are.

    Parameters
    ----------
    a : dask.array.Array
        It must have one axis, and the sizes of its chunks must be known.
    k : int
        It may be from 0 to the length of the array.
    axis : int, optional
        There is only one.
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
    a = dask_array(a, "par_topk")
    need_sizes(a)
    if axis is not None:
        np.lib.array_utils.normalize_axis_index(axis, a.ndim)
    if a.ndim != 1:
        raise NotImplementedError("a: par_topk takes dask arrays of one axis")
    k, n = operator.index(k), a.shape[0]
    if not 0 <= k <= n:
        raise ValueError(f"k: must be from 0 to {n}, the length of the axis, not {k}")
    return _best_of_row(a, k, largest, sorted)
