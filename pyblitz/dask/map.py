"""Maps: functions are called with blocks, in the worker that has them."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize

import pyblitz as pb
from pyblitz.dask.arguments import dask_array, one_element, refuse, whole
from pyblitz.dask.graphs import Values, task_names


def _map_block(*blocks: Any, call: Any) -> Values:
    return np.asarray(call(*blocks))


def _inputs(arrays: tuple[Any, ...]) -> list[Any]:
    """Scalars as they are, all others as dask arrays; their shapes go together."""
    inputs = [
        x
        if np.ndim(x) == 0 and not isinstance(x, da.Array)
        else dask_array(x, "par_map", f"arrays[{i}]")
        for i, x in enumerate(arrays)
    ]
    shapes = [x.shape for x in inputs if isinstance(x, da.Array)]
    np.broadcast_shapes(*(shape for shape in shapes if not np.isnan(shape).any()))
    return inputs


def _whole_rows(inputs: list[Any]) -> list[Any]:
    """The inputs, whole along all axes of the result but its first one."""
    ndim = max((x.ndim for x in inputs if isinstance(x, da.Array)), default=0)
    return [
        whole(x, range(max(0, x.ndim - ndim + 1), x.ndim)) if isinstance(x, da.Array) else x
        for x in inputs
    ]


def _map_ufunc(fn: np.ufunc, arrays: tuple[Any, ...], dtype: Any, options: dict[str, Any]) -> Any:
    """dask's own call of a ufunc."""
    inputs = [x if np.ndim(x) == 0 else da.asanyarray(x) for x in arrays]
    return fn(*inputs, **({} if dtype is None else {"dtype": dtype}), **options)


def _map_blocks(fn: Any, inputs: list[Any], dtype: Any, options: dict[str, Any]) -> da.Array:
    """The results of calls with the blocks that lie beside each other, as broadcasting has it."""
    of_numba = isinstance(getattr(fn, "ufunc", None), np.ufunc)
    if callable(fn) and not options["elementwise"] and not of_numba:
        inputs = _whole_rows(inputs)
    if dtype is not None:
        options = {**options, "dtype": dtype}
    call = partial(pb.par_map, fn, **options)
    ones = [one_element(x) if isinstance(x, da.Array) else x for x in inputs]
    if dtype is None:
        # This also raises at once what is wrong with any arrays of these types.
        dtype = np.asarray(call(*ones)).dtype
    ndim = max((np.ndim(x) for x in ones), default=0)
    indices = [tuple(range(x.ndim))[::-1] if isinstance(x, da.Array) else None for x in inputs]
    (name,) = task_names(tokenize(fn, inputs, dtype, options), "map")
    return da.blockwise(
        partial(_map_block, call=call if of_numba else partial(call, dtype=dtype)),
        tuple(range(ndim))[::-1],
        *chain.from_iterable(zip(inputs, indices, strict=True)),
        name=name,
        dtype=dtype,
        meta=np.empty((0,) * ndim, dtype),
    )


def par_map(
    fn: Any,
    *arrays: Any,
    dtype: Any = None,
    elementwise: Any = False,
    check: Any = True,
    **options: Any,
) -> Any:
    """Applies a function to every element of dask arrays, as a lazy dask array.

    Parameters
    ----------
    fn : ufunc, compiled kernel, or callable
        Of a ufunc, the call is dask's own.  Others are called with blocks, by `pyblitz.par_map`
        in the worker that has them; in other processes this must be what can be pickled.
        Without ``dtype`` a callable is called with ones first, to see of what type its result is.
    *arrays : dask.array.Array, array_like or scalar
        The inputs, broadcast against each other.  For a callable on blocks, all that has one
        index of the first axis is brought together: it may be row by row.
    dtype : dtype, optional
        The type of the result; of a ufunc, dask casts what has been computed.
    elementwise, check : bool, optional
        As for `pyblitz.par_map`; what is checked is each block by itself.
    **options
        ``casting``; for ufuncs, what dask takes.

    Returns
    -------
    dask.array.Array, or a tuple of them

    Raises
    ------
    TypeError, ValueError
        What `pyblitz.par_map` raises for the same mistake, also when it is computed; for
        ``out`` with a function that is no ufunc; of masked arrays.

    Notes
    -----
    O(n) work.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import pyblitz.dask
    >>> a = da.from_array(np.array([3, 1, 2, 5, 4, 0]), chunks=2)
    >>> pyblitz.dask.par_map(lambda x: x * x, a).compute()
    array([ 9,  1,  4, 25, 16,  0])
    """
    if isinstance(fn, np.ufunc):
        return _map_ufunc(fn, arrays, dtype, options)
    refuse(out=options.pop("out", None))
    if options.pop("where", True) is not True:
        raise TypeError("where: only a ufunc takes it")
    options = {"elementwise": elementwise, "check": check, **options}
    return _map_blocks(fn, _inputs(arrays), dtype, options)
