"""Counts: each block is counted, and the counts of all blocks are added by fours."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask.base import is_dask_collection, tokenize

import pyblitz as pb
from pyblitz.dask.arguments import beside, dask_array, dask_row
from pyblitz.dask.graphs import Values, block_keys, join_by_fours, lazy_array, task_names


def _added(counts: list[Values]) -> Values:
    """The sum of counts that may differ in length."""
    total = np.zeros(max(map(len, counts)), counts[0].dtype)
    for each in counts:
        total[: len(each)] += each
    return total


# ---- of numbers -------------------------------------------------------------


def _at_least(counts: Values, length: int) -> Values:
    return np.pad(counts, (0, max(0, length - len(counts))))


def par_bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> da.Array:
    """How often each number occurs in a dask array, as a lazy dask array.

    Parameters
    ----------
    x : dask.array.Array of int
        It must have one axis, and no negative numbers.
    weights : dask.array.Array or array_like, optional
        What each number counts, instead of one; they are as many as the numbers.
    minlength : int, optional
        How many bins there are at least.

    Returns
    -------
    dask.array.Array
        It has one chunk, whose size is known when it is computed; sooner, if ``minlength`` is more
        than any number of this type.

    Raises
    ------
    ValueError
        When ``x`` has several axes, or there is another number of weights, or ``minlength`` is
        negative; when it is computed, of a negative number.
    TypeError
        When ``x`` has no integers, or of masked arrays.

    Notes
    -----
    O(n) work; the counts of blocks are added by fours, which may round sums of weights otherwise
    than NumPy does.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import pyblitz.dask
    >>> x = da.from_array(np.array([3, 1, 3, 2, 1, 3]), chunks=2)
    >>> pyblitz.dask.par_bincount(x).compute()
    array([0, 2, 1, 3])
    """
    x = dask_row(x, "par_bincount", "x")
    sources = [x]
    if weights is not None:
        sources.append(beside(x, weights, "par_bincount", "weights"))
    # This raises at once what is wrong with any arrays of these types.
    call: Any = pb.par_bincount
    dtype = call(*(np.ones(1, s.dtype) for s in sources), minlength=minlength).dtype
    minlength = operator.index(minlength)
    count, added, name = task_names(
        tokenize(*(s.name for s in sources), minlength), "count", "added", "bincount"
    )
    blocks = range(x.numblocks[0])
    tasks: dict[Any, Any] = {(count, i): (call, *((s.name, i) for s in sources)) for i in blocks}
    last = join_by_fours(tasks, added, [(count, i) for i in blocks], _added)
    tasks[name, 0] = (partial(_at_least, length=minlength), last)
    most = np.iinfo(x.dtype).max if x.dtype.kind in "iu" else 1
    return lazy_array(name, tasks, sources, ((minlength if most < minlength else np.nan,),), dtype)


# ---- in bins ----------------------------------------------------------------


def _given(x: Any) -> Any:
    return x


def _extremes(block: Values) -> tuple[Any, Any] | None:
    return pb.par_minmax(block) if block.size else None


def _outer(extremes: list[tuple[Any, Any] | None]) -> tuple[Any, Any]:
    """The least and the greatest element of all; if there is none, what NumPy takes."""
    some = [e for e in extremes if e is not None]
    if not some:
        return 0, 1
    return np.min([least for least, _ in some]), np.max([greatest for _, greatest in some])


def _outer_edges(a: da.Array, given: Any, known: bool) -> da.Array:
    """The outer edges of a histogram, as the only block of an array."""
    extremes, name = task_names(tokenize(a.name, given, known), "extremes", "outer")
    tasks: dict[Any, Any] = {}
    if known:
        tasks[name, 0] = (partial(_given, given),)
    else:
        tasks.update({(extremes, i): (_extremes, key) for i, key in enumerate(block_keys(a))})
        tasks[name, 0] = (_outer, list(tasks))
    return lazy_array(name, tasks, [a], ((1,),), object)


def _edges(outer: Any, bins: Any, dtype: Any) -> Values:
    return np.histogram_bin_edges(np.empty(0, dtype), bins, outer)


def _lazy_edges(outer: da.Array, bins: Any, of_values: Any, like: Values) -> da.Array:
    """The edges of bins, when the outer ones are known; they are as many as ``like`` has."""
    (name,) = task_names(tokenize(outer.name, bins), "edges")
    tasks = {(name, 0): (partial(_edges, bins=bins, dtype=of_values), (outer.name, 0))}
    return lazy_array(name, tasks, [outer], ((len(like),),), like.dtype)


def _count_block(block: Values, outer: Any, *weights: Values, bins: Any) -> Values:
    return np.asarray(pb.par_histogram(block, bins, outer, None, *weights)[0])


def _density(counts: Values, edges: Values) -> Values:
    return np.asarray(counts / np.array(np.diff(edges), float) / counts.sum())


def _lazy_counts(
    sources: list[da.Array], outer: da.Array, edges: da.Array, bins: Any, density: bool, dtype: Any
) -> da.Array:
    """The counts of values, or of weights if there are two sources, or densities of them."""
    count, added, name = task_names(
        tokenize(*(s.name for s in sources), outer.name, bins, density),
        *("count", "added", "histogram"),
    )
    tasks: dict[Any, Any] = {}
    for i, (key, *weights) in enumerate(zip(*map(block_keys, sources), strict=True)):
        tasks[count, i] = (partial(_count_block, bins=bins), key, (outer.name, 0), *weights)
    last = join_by_fours(tasks, added, list(tasks), _added)
    tasks[name, 0] = (_density, last, (edges.name, 0)) if density else (_given, last)
    of_result = np.result_type(dtype, float) if density else dtype
    return lazy_array(name, tasks, [*sources, edges], ((edges.shape[0] - 1,),), of_result)


def _histogram(
    sources: list[da.Array], bins: Any, range: Any, density: bool
) -> tuple[da.Array, Any]:
    """The histogram of values, and of weights if there are two sources."""
    # NumPy raises here what is wrong with any arrays of these types.
    nothing: list[Any] = [np.empty(0, s.dtype) for s in sources]
    edges = np.histogram_bin_edges(nothing[0], bins, range)
    dtype = np.histogram(np.empty(0), edges, None, None, *nothing[1:])[0].dtype
    values, *weights = sources
    if values.dtype == np.bool:
        # NumPy converts them, too, and has warned of it above.
        values = values.astype(np.uint8)
    known = range is not None or np.ndim(bins) > 0
    outer = _outer_edges(values, range, known)
    lazy_edges = _lazy_edges(outer, bins, values.dtype, edges)
    hist = _lazy_counts([values, *weights], outer, lazy_edges, bins, density, dtype)
    return hist, edges if known else lazy_edges


def par_histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[da.Array, Any]:
    """Counts values of a dask array in bins, as a lazy dask array.

    Parameters
    ----------
    a : dask.array.Array
        Its values are counted as those of one row.
    bins : int or sequence of scalars, optional
        The number of bins of one width, or all edges.
    range : (float, float), optional
        The outer edges.  Without them, if edges are not given, the array is computed twice: first
        for its least and its greatest value.
    density : bool, optional
        Whether to return densities instead of counts.
    weights : dask.array.Array or array_like, optional
        What each value counts, instead of one; they have the shape of ``a``.

    Returns
    -------
    hist : dask.array.Array
        It has one chunk.
    bin_edges : numpy.ndarray or dask.array.Array
        As from ``da.histogram``, an array of NumPy's, unless they are not known before the
        values are.  With lazy ``bins`` or ``range``, both are from ``da.histogram``.

    Raises
    ------
    ValueError
        When ``bins`` or ``range`` are wrong for NumPy, or ``weights`` have another shape.
    TypeError
        Of masked arrays, or of types of which NumPy has no histogram.
    NotImplementedError
        When ``bins`` is the name of a rule.

    Notes
    -----
    O(n) work for bins of one width, O(n log(bins)) for given edges; the counts of blocks are
    added by fours, which may round sums of weights otherwise than NumPy does.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import pyblitz.dask
    >>> a = da.from_array(np.array([3, 1, 3, 2, 1, 3]), chunks=2)
    >>> hist, edges = pyblitz.dask.par_histogram(a, bins=[1, 2, 3, 4])
    >>> hist.compute()
    array([2, 1, 3])
    """
    if isinstance(bins, str):
        raise NotImplementedError("bins: for dask arrays a number or edges, not the name of a rule")
    sources = [dask_array(a, "par_histogram")]
    if weights is not None:
        sources.append(beside(sources[0], weights, "par_histogram", "weights"))
    of_range = range if isinstance(range, (tuple, list)) else ()
    if any(map(is_dask_collection, (bins, range, *of_range))):
        return tuple(da.histogram(sources[0], bins, range, False, *sources[1:], density=density))
    return _histogram(sources, bins, range, bool(density))
