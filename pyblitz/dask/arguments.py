"""Arguments: what was given becomes dask arrays of the form that a function needs, or an error."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from dask.base import is_dask_collection

from pyblitz.dask.graphs import Values


def refuse(**options: Any) -> None:
    """Raises for each option that was given, as it has no meaning for dask arrays."""
    for name, value in options.items():
        if value is not None:
            raise TypeError(f"{name}: not for dask arrays")


def dask_array(a: Any, function: str, name: str = "a") -> da.Array:
    """The argument of this name as a dask array, which may have no mask."""
    if not is_dask_collection(a):
        a = np.asanyarray(a)
        # dask does not know the size of objects, and so cannot choose chunks of them.
        a = da.from_array(a, chunks=-1 if a.dtype.hasobject else "auto")
    a = da.asarray(a)
    if isinstance(a._meta, np.ma.MaskedArray):
        raise TypeError(f"{name}: {function} of dask arrays knows no masks")
    return a


def dask_row(a: Any, function: str, name: str = "a") -> da.Array:
    """The argument of this name as a dask array, which must have one axis."""
    a = dask_array(a, function, name)
    if a.ndim != 1:
        raise ValueError(f"{name}: must have one dimension, not {a.ndim}")
    return a


def need_sizes(a: da.Array, name: str = "a") -> None:
    """Raises if dask does not know how large the chunks are."""
    if np.isnan(a.shape).any():
        raise ValueError(
            f"{name}: the sizes of its chunks are not known: call {name}.compute_chunk_sizes()"
        )


def one_element(a: da.Array) -> Values:
    """An array of one element that has the type and the axes of ``a``.

    A function of pyblitz or NumPy that is called with it raises at once what is wrong with its
    other arguments: what is wrong there is wrong with any array of this type."""
    return np.ones((1,) * a.ndim, a.dtype)


def beside(a: da.Array, x: Any, function: str, name: str) -> da.Array:
    """The argument of this name in the blocks of ``a``, whose shape it must have."""
    x = dask_array(x, function, name)
    if np.isnan(x.shape + a.shape).any():
        if x.numblocks != a.numblocks:
            raise ValueError(
                f"{name}: the sizes of all chunks must be known here: call compute_chunk_sizes()"
            )
        return x
    if x.shape != a.shape:
        raise ValueError(f"{name}: shape {x.shape} does not match {a.shape}")
    return x.rechunk(a.chunks)


def native_order(a: da.Array) -> da.Array:
    """The array in native byte order, the only one in which dask joins blocks."""
    return a if a.dtype.isnative else a.astype(a.dtype.newbyteorder("="))


def _single(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.names:
        return np.dtype([(name, _single(dtype[name])) for name in dtype.names])
    return np.dtype(np.float32) if dtype.char == "e" else dtype


def comparable(a: da.Array) -> da.Array:
    """The same in a type that NumPy's functions compare in one way: in records of half precision
    some of them take NaNs for the least."""
    a = native_order(a)
    return a if a.dtype.names is None or _single(a.dtype) == a.dtype else a.astype(_single(a.dtype))


def flat(a: da.Array) -> da.Array:
    """The array in one axis.  dask cannot ravel every array of no elements: those are made anew."""
    return a.ravel() if a.size else da.empty(0, dtype=a.dtype)


def whole(a: da.Array, axes: Any) -> da.Array:
    """The array in one piece along these axes; its blocks may be made shorter along the others."""
    if all(a.numblocks[d] == 1 for d in axes):
        return a
    others = {} if a.dtype.hasobject else dict.fromkeys(range(a.ndim), "auto")
    return a.rechunk({**others, **dict.fromkeys(axes, -1)})
