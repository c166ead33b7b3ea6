"""Cuts: where blocks that are in order are cut, so that each share of the result is exact.

Samples of every block give a range in which each cut must lie.  What lies in these ranges tells
where exactly.  Among equals the block comes first that comes first in the array, and in a block
the position: so every share has exactly its size, whatever the values are.  The way to cut is that
of P. J. Varman, S. D. Scheufler, B. R. Iyer and G. R. Ricard, "Merging multiple lists on
hierarchical-memory multiprocessors" (1991), with the samples of H. Shi and J. Schaeffer, "Parallel
sorting by regular sampling" (1992).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import pyblitz as pb
from pyblitz.dask.graphs import Indices, Values

# How many samples are taken of each block, for each block that there is.  To place the cuts
# exactly, tasks look at 2 / SAMPLES of all elements at most.
SAMPLES = 128


class Sorted(NamedTuple):
    """A block in order, and where each element was before, if that is asked for."""

    values: Values
    places: Indices | None


class Element(NamedTuple):
    """An element of an ordered block: its value, alone in an array, and where it is."""

    value: Values
    block: int
    position: int


# Two elements between which a cut lies: of all elements, at most as many as the cut's rank are
# before the first one, and at least as many before the second one, which is None for the end.
Bounds = tuple[Element, Element | None]

# How many elements of a block are before a cut for certain, and the values of those that may be.
Window = tuple[int, Values]


def sample_of(block: Sorted, step: int) -> Values:
    return block.values[::step].copy()


def find_bounds(
    samples: list[Values], lengths: list[int], steps: list[int], ranks: list[int], descending: bool
) -> list[Bounds]:
    """For each rank, the two samples between which its cut lies."""
    block = np.repeat(np.arange(len(samples)), [len(s) for s in samples])
    number = np.concatenate([np.arange(len(s)) for s in samples])
    values = np.concatenate(samples)
    order = pb.par_argsort(values, stable=True, descending=descending)
    block, number, values = block[order], number[order], values[order]
    step, length = np.array(steps)[block], np.array(lengths)[block]
    # So many more elements are before the next sample than before this one, at least and at most.
    at_least = np.where(number == 0, 1, step)
    at_most = np.minimum((number + 1) * step, length) - np.minimum(number * step, length)
    before_at_least = np.concatenate([[0], np.cumsum(at_least)[:-1]])
    before_at_most = np.concatenate([[0], np.cumsum(at_most)[:-1]])

    def element(q: int) -> Element:
        return Element(values[q : q + 1], int(block[q]), int(number[q] * step[q]))

    found: list[Bounds] = []
    for rank in ranks:
        low = int(np.searchsorted(before_at_most, rank, "right")) - 1
        high = int(np.searchsorted(before_at_least, rank, "left"))
        found.append((element(low), element(high) if high < len(values) else None))
    return found


def _sides(values: Values, wanted: Values, descending: bool) -> tuple[Indices, Indices]:
    """How many values of a block are before each wanted one, and how many are not after it."""
    if not descending:
        return np.searchsorted(values, wanted, "left"), np.searchsorted(values, wanted, "right")
    n, m = len(values), len(wanted)
    if values.dtype.kind != "c":
        # The block is searched backwards, but what is no number or no time is last all the same.
        last = n - int(np.count_nonzero(values != values))
        upwards, unordered = values[:last][::-1], wanted != wanted
        left = np.where(unordered, last, last - np.searchsorted(upwards, wanted, "right"))
        right = np.where(unordered, n, last - np.searchsorted(upwards, wanted, "left"))
        return left, right
    # A stable sort places the wanted values before their equals where they come before all of the
    # block, and after their equals where they come after it.
    order = pb.par_argsort(np.concatenate([wanted, values, wanted]), stable=True, descending=True)
    where = np.empty(n + 2 * m, np.intp)
    where[order] = np.arange(n + 2 * m)
    ranks = np.cumsum((order >= m) & (order < m + n), dtype=np.intp)
    return ranks[where[:m]], ranks[where[m + n :]]


def _count_before(block: Sorted, i: int, elements: list[Element], descending: bool) -> list[int]:
    """How many elements of block ``i`` are before each of these elements."""
    if not elements:
        return []
    wanted = np.concatenate([e.value for e in elements])
    left, right = _sides(block.values, wanted, descending)
    return [
        e.position if e.block == i else int(left[k] if e.block < i else right[k])
        for k, e in enumerate(elements)
    ]


def take_windows(block: Sorted, bounds: list[Bounds], i: int, descending: bool) -> list[Window]:
    """What lies between the bounds of each cut in block ``i``."""
    low = _count_before(block, i, [b[0] for b in bounds], descending)
    ends = iter(_count_before(block, i, [b[1] for b in bounds if b[1] is not None], descending))
    high = [len(block.values) if b[1] is None else next(ends) for b in bounds]
    return [(lo, block.values[lo:hi].copy()) for lo, hi in zip(low, high, strict=True)]


def find_cuts(
    windows: list[list[Window]], lengths: list[int], ranks: list[int], descending: bool
) -> Indices:
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


def cut_piece(block: Any, cuts: Indices, j: int, i: Any = ...) -> Any:
    """Piece ``j`` of a tuple of arrays, all of which are cut alike: by column ``i`` of the cuts,
    if these have columns.  It is a copy: the block may go when all its pieces are there."""
    part = slice(*cuts[j : j + 2, i])
    return type(block)._make(x if x is None else x[part].copy() for x in block)
