from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Literal, ParamSpec, SupportsIndex, TypeVar, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

from pyblitz._stats import stats, trace

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Array = npt.NDArray[Any]
_Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
_IndexMode = Literal["raise", "wrap", "clip"]
_Order = Literal["K", "A", "C", "F"]
_SortKind = Literal["quicksort", "mergesort", "heapsort", "stable"]

__version__: str
__all__ = [
    "CancelScope",
    "ThreadPool",
    "num_threads",
    "par_concatenate",
    "par_copy",
    "par_filter",
    "par_flatnonzero",
    "par_flatten",
    "par_map",
    "par_partition_by",
    "par_put",
    "par_reduce",
    "par_repeat",
    "par_sort",
    "par_take",
    "par_where",
    "set_num_threads",
    "stats",
    "trace",
]

def par_map(
    fn: Any,
    *arrays: npt.ArrayLike,
    out: _Array | tuple[_Array | None, ...] | None = None,
    where: npt.ArrayLike = True,
    dtype: npt.DTypeLike | None = None,
    casting: _Casting = "same_kind",
) -> Any: ...
def par_filter(a: npt.ArrayLike, mask: npt.ArrayLike) -> Any: ...
def par_partition_by(a: npt.ArrayLike, mask: npt.ArrayLike) -> tuple[Any, Any]: ...
def par_flatnonzero(a: npt.ArrayLike) -> npt.NDArray[np.intp]: ...
def par_take(
    a: npt.ArrayLike,
    indices: npt.ArrayLike,
    axis: SupportsIndex | None = None,
    out: _Array | None = None,
    mode: _IndexMode = "raise",
) -> Any: ...
def par_put(
    a: _Array, ind: npt.ArrayLike, v: npt.ArrayLike, mode: _IndexMode = "raise"
) -> None: ...
def par_where(condition: npt.ArrayLike, x: Any = ..., y: Any = ..., /) -> Any: ...
def par_concatenate(
    arrays: npt.ArrayLike | Sequence[npt.ArrayLike],
    /,
    axis: SupportsIndex | None = 0,
    out: _Array | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    casting: _Casting = "same_kind",
) -> _Array: ...
def par_repeat(
    a: npt.ArrayLike, repeats: npt.ArrayLike, axis: SupportsIndex | None = None
) -> _Array: ...
def par_flatten(a: npt.ArrayLike, order: _Order = "C") -> _Array: ...
def par_copy(
    a: npt.ArrayLike,
    dtype: npt.DTypeLike | None = None,
    order: _Order = "K",
    out: _Array | None = None,
    casting: _Casting | None = None,
) -> _Array: ...
def par_reduce(
    op: np.ufunc,
    a: npt.ArrayLike,
    axis: SupportsIndex | tuple[SupportsIndex, ...] | None = 0,
    dtype: npt.DTypeLike | None = None,
    out: _Array | tuple[_Array] | None = None,
    keepdims: bool = False,
    initial: Any = ...,
    where: npt.ArrayLike = True,
) -> Any: ...
def par_sort(
    a: npt.ArrayLike,
    axis: SupportsIndex | None = -1,
    kind: _SortKind | None = None,
    order: str | Sequence[str] | None = None,
    *,
    stable: bool | None = None,
    out: _Array | None = None,
) -> _Array: ...
def num_threads() -> int: ...
def set_num_threads(n: SupportsIndex) -> None: ...

@disjoint_base
class CancelScope:
    def __init__(self, timeout: float | None = None) -> None: ...
    def cancel(self) -> None: ...
    def cancelled(self) -> bool: ...
    def __enter__(self) -> CancelScope: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

@disjoint_base
class ThreadPool:
    num_threads: int
    def __init__(
        self,
        num_threads: SupportsIndex | None = None,
        *,
        pin: Iterable[SupportsIndex] | bool | None = None,
        idle_timeout: float | None = None,
        keep: SupportsIndex = 0,
    ) -> None: ...
    def install(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T: ...
    @overload
    def submit(
        self, fn: Callable[..., _T], /, *args: Any, affinity: Hashable, **kwargs: Any
    ) -> Future[_T]: ...
    @overload
    def submit(
        self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]: ...
    def close(self) -> None: ...
    def __enter__(self) -> ThreadPool: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
