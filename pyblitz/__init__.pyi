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
_T2 = TypeVar("_T2")
_T3 = TypeVar("_T3")
_Array = npt.NDArray[Any]
_Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
_SortKind = Literal["quicksort", "mergesort", "heapsort", "stable"]

__version__: str
__all__ = [
    "CancelScope",
    "ThreadPool",
    "broadcast",
    "join",
    "num_threads",
    "par_map",
    "par_reduce",
    "par_sort",
    "scope",
    "set_num_threads",
    "spawn",
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
@overload
def join(f: Callable[[], _T], /) -> tuple[_T]: ...
@overload
def join(f: Callable[[], _T], g: Callable[[], _T2], /) -> tuple[_T, _T2]: ...
@overload
def join(
    f: Callable[[], _T], g: Callable[[], _T2], h: Callable[[], _T3], /
) -> tuple[_T, _T2, _T3]: ...
@overload
def join(*functions: Callable[[], _T]) -> tuple[_T, ...]: ...
def broadcast(f: Callable[[], _T]) -> list[_T]: ...
def spawn(fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]: ...

@disjoint_base
class scope:
    def spawn(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]: ...
    def __enter__(self) -> scope: ...
    def __exit__(
        self,
        type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

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
