"""Dask arrays: ``import pyblitz.dask``, and ``pb.par_sort`` and others take them.

Then the functions of this package give lazy dask arrays for dask arrays, also by their names in
`pyblitz` and `pyblitz.numpy`.  All others are dask's own.

A sort of one axis (`sort`) cuts its blocks so that each block of the result has exactly its share,
whatever the values are (`cuts`); groups of equal keys (`groups`) are found in such an order.
Distinct values (`sets`) are found in each block, and these are cut by value alone: of equal values
all blocks together have few.  What is searched for in a sorted array (`search`) goes to the block
that has its place, and comes back.  What remains needs no cuts (`topk`, `reduce`, `count`, `map`).
"""

from __future__ import annotations

import dask.array as da

from pyblitz.arrays.front import hand_over
from pyblitz.dask.count import par_bincount, par_histogram
from pyblitz.dask.groups import par_group_by
from pyblitz.dask.map import par_map
from pyblitz.dask.reduce import par_argmax, par_argmin, par_reduce
from pyblitz.dask.search import par_searchsorted
from pyblitz.dask.sets import par_unique
from pyblitz.dask.sort import par_argsort, par_sort
from pyblitz.dask.topk import par_topk

__all__ = [
    "par_argmax",
    "par_argmin",
    "par_argsort",
    "par_bincount",
    "par_group_by",
    "par_histogram",
    "par_map",
    "par_reduce",
    "par_searchsorted",
    "par_sort",
    "par_topk",
    "par_unique",
]

HANDED_OVER = {name: globals()[name] for name in __all__}
hand_over(da.Array, HANDED_OVER)
