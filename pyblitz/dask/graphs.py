"""Graphs: how tasks are named, and how they become lazy arrays.

What a task is told, beside results of other tasks, is bound to its function by `partial`: a number
that stood in the graph itself could be the name of somebody's task.
"""

from __future__ import annotations

import operator
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.highlevelgraph import HighLevelGraph

# What a block is when it is computed, and what tells places in an array.
Values = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]


def task_names(token: str, *kinds: str) -> list[str]:
    """A name for each kind of task; the token says what the tasks compute, and of what."""
    return [f"pyblitz-{kind}-{token}" for kind in kinds]


def lazy_array(
    name: str, tasks: dict[Any, Any], sources: list[Any], chunks: Any, dtype: Any
) -> da.Array:
    """The array whose blocks are the tasks of this name, which use blocks of the sources."""
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=sources)
    return da.Array(graph, name, chunks, dtype=dtype)


def member_of(blocks: da.Array, which: int, chunks: Any, dtype: Any) -> da.Array:
    """An array of one member of each block, where blocks are tuples."""
    name, other_axes = f"{blocks.name}-{which}", (0,) * (len(chunks) - 1)
    tasks = {
        (name, j, *other_axes): (operator.itemgetter(which), (blocks.name, j))
        for j in range(blocks.numblocks[0])
    }
    return lazy_array(name, tasks, [blocks], chunks, dtype)


def block_keys(a: da.Array) -> list[Any]:
    """The keys of an array's blocks, in C order."""
    return [(a.name, *at) for at in np.ndindex(*a.numblocks)]


def block_corners(a: da.Array, axes: int) -> list[list[int]]:
    """For each block, in C order: the index of its first element, along the first axes."""
    starts = [np.cumsum([0, *chunks]).tolist() for chunks in a.chunks[:axes]]
    return [[starts[d][k] for d, k in enumerate(at[:axes])] for at in np.ndindex(*a.numblocks)]


def join_by_fours(tasks: dict[Any, Any], name: str, keys: list[Any], join: Any) -> Any:
    """Adds tasks that join results by fours until one is left, and gives the key of that one."""
    level = 0
    while len(keys) > 1:
        for i in range(0, len(keys), 4):
            tasks[name, level, i // 4] = (join, keys[i : i + 4])
        keys = [(name, level, i) for i in range(-(-len(keys) // 4))]
        level += 1
    return keys[0]
