"""Groups: the order of the keys, in blocks as a sort gives them, and where its groups begin.

A group may go on in the next blocks.  So each block tells the others its first and its last key
(`_Ends`), and is told where it begins, and whether its first group began before (`_Joint`).
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.base import tokenize

import pyblitz as pb
from pyblitz.dask.arguments import beside, comparable, dask_row, need_sizes
from pyblitz.dask.cuts import Sorted
from pyblitz.dask.graphs import Indices, Values, lazy_array, member_of, task_names
from pyblitz.dask.sort import sort_row


class _Group(NamedTuple):
    """One block of the order: where in it another key begins, and its first and its last key."""

    order: Indices
    starts: Indices
    first: Values
    last: Values


class _Ends(NamedTuple):
    """What other blocks need to know of a block."""

    first: Values
    last: Values
    length: int
    starts: Indices  # These are the first two, as no more are looked at.


class _Joint(NamedTuple):
    """Where a block begins, how many of its groups began before, and where the next one begins."""

    begin: int
    continued: int
    next_start: int


def _group(pieces: list[Sorted], descending: bool) -> _Group:
    """One block, of the pieces that a sort brings together."""
    values = np.concatenate([p.values for p in pieces])
    order, starts, _ = pb.par_group_by(values, descending=descending)
    places = pb.par_take(np.concatenate([p.places for p in pieces]), order)
    return _Group(places, starts, values[order[:1]], values[order[-1:]])


def _ends(group: _Group) -> _Ends:
    return _Ends(group.first, group.last, len(group.order), group.starts[:2].copy())


def _joints(ends: list[_Ends]) -> list[_Joint]:
    begins = np.cumsum([0, *(end.length for end in ends)]).tolist()
    continued = [0] + [
        int(pb.par_group_by(np.concatenate([left.last, right.first])).starts.size == 1)
        for left, right in pairwise(ends)
    ]
    # This goes from the last block to the first, as it depends on the blocks that follow.
    joints: list[_Joint] = []
    following = begins[-1]
    for end, begin, before in zip(reversed(ends), begins[-2::-1], reversed(continued), strict=True):
        joints.append(_Joint(begin, before, following))
        if before < len(end.starts):
            following = begin + int(end.starts[before])
    return joints[::-1]


def _runs(group: _Group, joints: list[_Joint], j: int) -> tuple[Indices, Indices]:
    """The starts and the counts of the groups that begin in block ``j``."""
    begin, continued, next_start = joints[j]
    starts = group.starts[continued:] + begin
    return starts, np.diff(starts, append=next_start)


def _records(*keys: Values) -> Values:
    records = np.empty(len(keys[0]), [(f"f{i}", key.dtype) for i, key in enumerate(keys)])
    for i, key in enumerate(keys):
        records[f"f{i}"] = key
    return records


def _one_nan(key: Values) -> Values:
    """Complex keys with one NaN for all: those that differ would not lie side by side."""
    return np.where(np.isnan(key), key.dtype.type(complex(np.nan, np.nan)), key)


def _rows(keys: Any) -> list[da.Array]:
    """The keys, in the same blocks."""
    several = type(keys) in (tuple, list) and len(keys) > 0 and np.ndim(keys[0]) > 0
    rows: list[da.Array] = []
    for i, key in enumerate(keys if several else [keys]):
        name = f"keys[{i}]" if several else "keys"
        row = comparable(dask_row(key, "par_group_by", name))
        need_sizes(row, name)
        if row.dtype.kind == "c":
            row = row.map_blocks(_one_nan, dtype=row.dtype)
        rows.append(beside(rows[0], row, "par_group_by", name) if rows else row)
    return rows


def _one_key(rows: list[da.Array]) -> da.Array:
    """The only key, or records of several."""
    if len(rows) == 1:
        return rows[0]
    dtype = np.dtype([(f"f{i}", row.dtype) for i, row in enumerate(rows)])
    return comparable(da.map_blocks(_records, *rows, dtype=dtype, meta=np.empty(0, dtype)))


def _groups_of(key: da.Array, descending: bool) -> Any:
    """The groups of a row that is not empty."""
    groups = sort_row(key, descending, True, _group)
    ends, joints, runs = task_names(tokenize(groups.name), "ends", "joints", "runs")
    p = groups.numblocks[0]
    tasks: dict[Any, Any] = {joints: (_joints, [(ends, j) for j in range(p)])}
    for j in range(p):
        tasks[ends, j] = (_ends, (groups.name, j))
        tasks[runs, j] = (partial(_runs, j=j), (groups.name, j), joints)
    unknown = ((np.nan,) * p,)
    starts_and_counts = lazy_array(runs, tasks, [groups], unknown, object)
    return pb.GroupBy(
        member_of(groups, 0, groups.chunks, np.intp),
        member_of(starts_and_counts, 0, unknown, np.intp),
        member_of(starts_and_counts, 1, unknown, np.intp),
    )


def par_group_by(keys: Any, *, descending: Any = False) -> Any:
    """Which elements of a dask array, or of several, have equal keys.

    Parameters
    ----------
    keys : dask.array.Array, or tuple or list of such
        Each must have one axis, of one length, and the sizes of its chunks must be known.  Of
        several keys, the first is compared first.  NaNs are equal to each other.
    descending : bool, optional
        Whether the groups of the greatest keys are first.  With several keys they cannot be.

    Returns
    -------
    pyblitz.GroupBy
        Three lazy dask arrays: ``order``, in chunks as those of :func:`par_argsort`; ``starts``
        and ``counts``, whose chunk sizes are known when they are computed.

    Raises
    ------
    ValueError
        When a key has several axes or another length than the first; when chunk sizes are not
        known.
    TypeError
        Of masked arrays; when NumPy cannot sort a key.
    NotImplementedError
        When ``descending`` is given with several keys.

    Notes
    -----
    The work is that of :func:`par_argsort`.  A group may be in several chunks of the order.  None
    and NaN among objects cannot be compared here.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import pyblitz.dask
    >>> keys = da.from_array(np.array([7, 5, 7, 6, 5, 7]), chunks=2)
    >>> [x.compute().tolist() for x in pyblitz.dask.par_group_by(keys)]
    [[1, 4, 3, 0, 2, 5], [0, 2, 3], [2, 1, 3]]
    """
    rows = _rows(keys)
    # This raises at once what is wrong with any arrays of these types.
    pb.par_group_by([np.ones(1, row.dtype) for row in rows], descending=descending)
    down = bool(np.any(descending))
    if down and len(rows) > 1:
        raise NotImplementedError("descending: par_group_by of several dask arrays goes up")
    key = _one_key(rows)
    if key.size == 0:
        return pb.GroupBy(*(da.empty(0, dtype=np.intp) for _ in range(3)))
    return _groups_of(key, down)
