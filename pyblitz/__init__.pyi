from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import ContextDecorator
from types import TracebackType
from typing import (
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    ParamSpec,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    overload,
)

import numpy as np
import numpy.typing as npt
from typing_extensions import Never, disjoint_base

from pyblitz._stats import stats, trace

_P = ParamSpec("_P")
_T = TypeVar("_T")
_T2 = TypeVar("_T2")
_T3 = TypeVar("_T3")
_Array = npt.NDArray[Any]
_Axes = SupportsIndex | tuple[SupportsIndex, ...] | None
_ScalarT = TypeVar("_ScalarT", bound=np.generic)
_FloatT = TypeVar("_FloatT", bound=np.floating[Any])
# Whose sums are wider.
_Signed: TypeAlias = np.bool | np.int8 | np.int16 | np.int32
_Unsigned: TypeAlias = np.uint8 | np.uint16 | np.uint32
# Lazy arrays have no `__array__` here: with one, NumPy's stubs say that a ufunc of them is a
# plain array.
_ArrayLike: TypeAlias = npt.ArrayLike | ParIter
_AnyArray = TypeVar("_AnyArray", bound=npt.NDArray[Any])
_Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
_Side = Literal["left", "right"]
_IndexMode = Literal["raise", "wrap", "clip"]
_Order = Literal["K", "A", "C", "F"]
_RankMethod = Literal["average", "min", "max", "dense", "ordinal"]
_SortKind = Literal["quicksort", "mergesort", "heapsort", "stable"]
_Progress = bool | Callable[[int, int], Any] | None

__version__: str
__all__ = [
    "CancelScope",
    "GroupBy",
    "ParChunks",
    "ParIter",
    "ParZip",
    "ThreadPool",
    "TopK",
    "broadcast",
    "disable",
    "enable",
    "enabled",
    "join",
    "num_threads",
    "par_all",
    "par_any",
    "par_argmax",
    "par_argmin",
    "par_argpartition",
    "par_argsort",
    "par_bincount",
    "par_concatenate",
    "par_copy",
    "par_count_nonzero",
    "par_cumprod",
    "par_cumsum",
    "par_digitize",
    "par_dot",
    "par_fill",
    "par_filter",
    "par_find_any",
    "par_find_first",
    "par_find_last",
    "par_flatnonzero",
    "par_flatten",
    "par_for",
    "par_group_by",
    "par_histogram",
    "par_is_sorted",
    "par_isin",
    "par_iter",
    "par_lexsort",
    "par_map",
    "par_map_inplace",
    "par_max",
    "par_mean",
    "par_merge",
    "par_min",
    "par_minmax",
    "par_nanmax",
    "par_nanmin",
    "par_nansum",
    "par_partition",
    "par_partition_by",
    "par_position",
    "par_prod",
    "par_put",
    "par_rank",
    "par_reduce",
    "par_reduceat",
    "par_repeat",
    "par_scan",
    "par_searchsorted",
    "par_sort",
    "par_sort_by_key",
    "par_std",
    "par_sum",
    "par_take",
    "par_topk",
    "par_unique",
    "par_var",
    "par_where",
    "scope",
    "set_num_threads",
    "spawn",
    "stats",
    "threads",
    "trace",
]

@overload
def par_bincount(
    x: _ArrayLike,
    /,
    weights: None = None,
    minlength: SupportsIndex = 0,
    *,
    progress: _Progress = None,
) -> npt.NDArray[np.intp]: ...
@overload
def par_bincount(
    x: _ArrayLike,
    /,
    weights: _ArrayLike | None = None,
    minlength: SupportsIndex = 0,
    *,
    progress: _Progress = None,
) -> npt.NDArray[np.float64]: ...
@overload
def par_cumprod(
    a: npt.NDArray[Never] | npt.NDArray[np.object_],
    axis: SupportsIndex | None = None,
    dtype: npt.DTypeLike | None = None,
    out: _Array | None = None,
    *,
    progress: _Progress = None,
) -> _Array: ...
@overload
def par_cumprod(
    a: npt.NDArray[_Signed],
    axis: SupportsIndex | None = None,
    dtype: None = None,
    out: None = None,
    *,
    progress: _Progress = None,
) -> npt.NDArray[np.int64]: ...
@overload
def par_cumprod(
    a: npt.NDArray[_Unsigned],
    axis: SupportsIndex | None = None,
    dtype: None = None,
    out: None = None,
    *,
    progress: _Progress = None,
) -> npt.NDArray[np.uint64]: ...
@overload
def par_cumprod(
    a: npt.NDArray[_ScalarT],
    axis: SupportsIndex | None = None,
    dtype: None = None,
    out: None = None,
    *,
    progress: _Progress = None,
) -> npt.NDArray[_ScalarT]: ...
@overload
def par_cumprod(
    a: Any,
    axis: SupportsIndex | None = None,
    *,
    dtype: type[_ScalarT],
    out: None = None,
    progress: _Progress = None,
) -> npt.NDArray[_ScalarT]: ...
@overload
def par_cumprod(
    a: _ArrayLike,
    axis: SupportsIndex | None = None,
    dtype: npt.DTypeLike | None = None,
    *,
    out: _AnyArray,
    progress: _Progress = None,
) -> _AnyArray: ...
@overload
def par_cumprod(
    a: _ArrayLike,
    axis: SupportsIndex | None = None,
    dtype: npt.DTypeLike | None = None,
    out: _Array | None = None,
    *,
    progress: _Progress = None,
) -> _Array: ...
@overload
def par_cumsum(
    a: npt.NDArray[Never] | npt.NDArray[np.object_],
    axis: SupportsIndex | None = None,
    dtype: npt.DTypeLike | None = None,
    out: _Array | None = None,
    *,
    progress: _Progress = None,
) -> _Array: ...
@overload
def par_cumsum(
    a: npt.NDArray[_Signed],
    axis: SupportsIndex | None = None,
    dtype: None = None,
    out: None = None,
    *,
    progress: _Progress = None,
) -> npt.NDArray[np.int64]: ...
@overload
def par_cumsum(
    a: npt.NDArray[_Unsigned],
    axis: SupportsIndex | None = None,
    dtype: None = None,
    out: None = None,
    *,
    progress: _Progress = None,
) -> npt.NDArray[np.uint64]: ...
@overload
def par_cumsum(
    a: npt.NDArray[_ScalarT],
    axis: SupportsIndex | None = None,
    dtype: None = None,
    out: None = None,
    *,
    progress: _Progress = None,
) -> npt.NDArray[_ScalarT]: ...
@overload
def par_cumsum(
    a: Any,
    axis: SupportsIndex | None = None,
    *,
    dtype: type[_ScalarT],
    out: None = None,
    progress: _Progress = None,
) -> npt.NDArray[_ScalarT]: ...
@overload
def par_cumsum(
    a: _ArrayLike,
    axis: SupportsIndex | None = None,
    dtype: npt.DTypeLike | None = None,
    *,
    out: _AnyArray,
    progress: _Progress = None,
) -> _AnyArray: ...
@overload
def par_cumsum(
    a: _ArrayLike,
    axis: SupportsIndex | None = None,
    dtype: npt.DTypeLike | None = None,
    out: _Array | None = None,
    *,
    progress: _Progress = None,
) -> _Array: ...
@overload
def par_digitize(
    x: _Array | ParIter | Sequence[Any],
    bins: _ArrayLike,
    right: bool = False,
    *,
    progress: _Progress = None,
) -> npt.NDArray[np.intp]: ...
@overload
def par_digitize(
    x: _ArrayLike, bins: _ArrayLike, right: bool = False, *, progress: _Progress = None
) -> Any: ...
def par_histogram(
    a: _ArrayLike,
    bins: SupportsIndex | str | _ArrayLike = 10,
    range: Sequence[float] | None = None,
    density: bool | None = None,
    weights: _ArrayLike | None = None,
    *,
    progress: _Progress = None,
) -> tuple[_Array, _Array]: ...
@overload
def par_map(
    fn: Any,
    *arrays: _ArrayLike,
    out: _AnyArray,
    where: _ArrayLike = True,
    dtype: npt.DTypeLike | None = None,
    casting: _Casting = "same_kind",
    elementwise: bool = False,
    check: bool = True,
    progress: _Progress = None,
    **options: Any,
) -> _AnyArray: ...
@overload
def par_map(
    fn: Callable[..., npt.NDArray[_ScalarT]],
    *arrays: _Array,
    out: None = None,
    where: _ArrayLike = True,
    dtype: None = None,
    casting: _Casting = "same_kind",
    elementwise: Literal[False] = False,
    check: bool = True,
    progress: _Progress = None,
    **options: Any,
) -> npt.NDArray[_ScalarT]: ...
@overload
def par_map(
    fn: Any,
    *arrays: _ArrayLike,
    out: _Array | tuple[_Array | None, ...] | None = None,
    where: _ArrayLike = True,
    dtype: npt.DTypeLike | None = None,
    casting: _Casting = "same_kind",
    elementwise: bool = False,
    check: bool = True,
    progress: _Progress = None,
    **options: Any,
) -> Any: ...
def par_map_inplace(
    fn: Any,
    a: _AnyArray,
    *,
    where: _ArrayLike = True,
    casting: _Casting = "same_kind",
    elementwise: bool = False,
    check: bool = True,
    progress: _Progress = None,
) -> _AnyArray: ...
def par_fill(
    a: _Array,
    value: Any,
    *,
    progress: _Progress = None,
) -> None: ...
def par_for(
    n: SupportsIndex,
    kernel: Any,
    *,
    grain: SupportsIndex | None = None,
    progress: _Progress = None,
) -> None: ...
@overload
def par_filter(
    a: npt.NDArray[_ScalarT], mask: Any, *, progress: _Progress = None
) -> npt.NDArray[_ScalarT]: ...
@overload
def par_filter(a: _ArrayLike, mask: Any, *, progress: _Progress = None) -> _Array: ...
@overload
def par_partition_by(
    a: npt.NDArray[_ScalarT], mask: Any, *, progress: _Progress = None
) -> tuple[npt.NDArray[_ScalarT], npt.NDArray[_ScalarT]]: ...
@overload
def par_partition_by(
    a: _ArrayLike, mask: Any, *, progress: _Progress = None
) -> tuple[_Array, _Array]: ...
def par_flatnonzero(
    a: _ArrayLike,
    predicate: Any = None,
    *,
    progress: _Progress = None,
) -> npt.NDArray[np.intp]: ...
@overload
def par_take(
    a: npt.NDArray[_ScalarT],
    indices: _Array,
    axis: SupportsIndex | None = None,
    out: None = None,
    mode: _IndexMode = "raise",
    *,
    progress: _Progress = None,
) -> npt.NDArray[_ScalarT]: ...
@overload
def par_take(
    a: _ArrayLike,
    indices: _ArrayLike,
    axis: SupportsIndex | None = None,
    *,
    out: _AnyArray,
    mode: _IndexMode = "raise",
    progress: _Progress = None,
) -> _AnyArray: ...
@overload
def par_take(
    a: _ArrayLike,
    indices: _ArrayLike,
    axis: SupportsIndex | None = None,
    out: _Array | None = None,
    mode: _IndexMode = "raise",
    *,
    progress: _Progress = None,
) -> Any: ...
def par_put(
    a: _Array,
    ind: _ArrayLike,
    v: _ArrayLike,
    mode: _IndexMode = "raise",
    *,
    progress: _Progress = None,
) -> None: ...
@overload
def par_where(
    condition: _ArrayLike, /, *, progress: _Progress = None
) -> tuple[npt.NDArray[np.intp], ...]: ...
@overload
def par_where(
    condition: _ArrayLike, x: Any, y: Any, /, *, progress: _Progress = None
) -> _Array: ...
@overload
def par_concatenate(
    arrays: Sequence[npt.NDArray[_ScalarT]],
    /,
    axis: SupportsIndex | None = 0,
    out: None = None,
    *,
    dtype: None = None,
    casting: _Casting = "same_kind",
    progress: _Progress = None,
) -> npt.NDArray[_ScalarT]: ...
@overload
def par_concatenate(
    arrays: _ArrayLike | Sequence[Any],
    /,
    axis: SupportsIndex | None = 0,
    out: None = None,
    *,
    dtype: type[_ScalarT],
    casting: _Casting = "same_kind",
    progress: _Progress = None,
) -> npt.NDArray[_ScalarT]: ...
@overload
def par_concatenate(
    arrays: _ArrayLike | Sequence[Any],
    /,
    axis: SupportsIndex | None = 0,
    *,
    out: _AnyArray,
    dtype: npt.DTypeLike | None = None,
    casting: _Casting = "same_kind",
    progress: _Progress = None,
) -> _AnyArray: ...
@overload
def par_concatenate(
    arrays: _ArrayLike | Sequence[Any],
    /,
    axis: SupportsIndex | None = 0,
    out: _Array | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    casting: _Casting = "same_kind",
    progress: _Progress = None,
) -> _Array: ...
@overload
def par_repeat(
    a: npt.NDArray[_ScalarT],
    repeats: _ArrayLike,
    axis: SupportsIndex | None = None,
    *,
    progress: _Progress = None,
) -> npt.NDArray[_ScalarT]: ...
@overload
def par_repeat(
    a: _ArrayLike,
    repeats: _ArrayLike,
    axis: SupportsIndex | None = None,
    *,
    progress: _Progress = None,
) -> _Array: ...
@overload
def par_flatten(
    a: npt.NDArray[_ScalarT], order: _Order = "C", *, progress: _Progress = None
) -> npt.NDArray[_ScalarT]: ...
@overload
def par_flatten(a: _ArrayLike, order: _Order = "C", *, progress: _Progress = None) -> _Array: ...
@overload
def par_copy(
    a: npt.NDArray[_ScalarT],
    order: _Order = "K",
    subok: bool = False,
    *,
    dtype: None = None,
    out: None = None,
    casting: _Casting | None = None,
    progress: _Progress = None,
) -> npt.NDArray[_ScalarT]: ...
@overload
def par_copy(
    a: _ArrayLike,
    order: _Order = "K",
    subok: bool = False,
    *,
    dtype: type[_ScalarT],
    out: None = None,
    casting: _Casting | None = None,
    progress: _Progress = None,
) -> npt.NDArray[_ScalarT]: ...
@overload
def par_copy(
    a: _ArrayLike,
    order: _Order = "K",
    subok: bool = False,
    *,
    dtype: npt.DTypeLike | None = None,
    out: _AnyArray,
    casting: _Casting | None = None,
    progress: _Progress = None,
) -> _AnyArray: ...
@overload
def par_copy(
    a: _ArrayLike,
    order: _Order = "K",
    subok: bool = False,
    *,
    dtype: npt.DTypeLike | None = None,
    out: _Array | None = None,
    casting: _Casting | None = None,
    progress: _Progress = None,
) -> _Array: ...
def par_reduce(
    op: Any,
    a: Any,
    axis: _Axes = 0,
    dtype: npt.DTypeLike | None = None,
    out: _Array | tuple[_Array] | None = None,
    keepdims: bool = False,
    initial: Any = ...,
    where: _ArrayLike = True,
    *,
    combine: Any = None,
    progress: _Progress = None,
) -> Any: ...
@overload
def par_sum(
    a: npt.NDArray[Never] | npt.NDArray[np.object_],
    axis: _Axes = None,
    dtype: npt.DTypeLike | None = None,
    out: _Array | None = None,
    keepdims: Any = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> Any: ...
@overload
def par_sum(
    a: npt.NDArray[_Signed],
    axis: None = None,
    dtype: None = None,
    out: None = None,
    keepdims: Literal[False] = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> np.int64: ...
@overload
def par_sum(
    a: npt.NDArray[_Unsigned],
    axis: None = None,
    dtype: None = None,
    out: None = None,
    keepdims: Literal[False] = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> np.uint64: ...
@overload
def par_sum(
    a: npt.NDArray[_ScalarT],
    axis: None = None,
    dtype: None = None,
    out: None = None,
    keepdims: Literal[False] = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> _ScalarT: ...
@overload
def par_sum(
    a: Any,
    axis: None = None,
    *,
    dtype: type[_ScalarT],
    out: None = None,
    keepdims: Literal[False] = ...,
    initial: Any = ...,
    where: Any = ...,
    progress: _Progress = None,
) -> _ScalarT: ...
@overload
def par_sum(
    a: Any,
    axis: _Axes = None,
    dtype: npt.DTypeLike | None = None,
    *,
    out: _AnyArray,
    keepdims: Any = ...,
    initial: Any = ...,
    where: Any = ...,
    progress: _Progress = None,
) -> _AnyArray: ...
@overload
def par_sum(
    a: Any,
    axis: _Axes = None,
    dtype: npt.DTypeLike | None = None,
    out: _Array | None = None,
    keepdims: Any = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> Any: ...
@overload
def par_prod(
    a: npt.NDArray[Never] | npt.NDArray[np.object_],
    axis: _Axes = None,
    dtype: npt.DTypeLike | None = None,
    out: _Array | None = None,
    keepdims: Any = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> Any: ...
@overload
def par_prod(
    a: npt.NDArray[_Signed],
    axis: None = None,
    dtype: None = None,
    out: None = None,
    keepdims: Literal[False] = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> np.int64: ...
@overload
def par_prod(
    a: npt.NDArray[_Unsigned],
    axis: None = None,
    dtype: None = None,
    out: None = None,
    keepdims: Literal[False] = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> np.uint64: ...
@overload
def par_prod(
    a: npt.NDArray[_ScalarT],
    axis: None = None,
    dtype: None = None,
    out: None = None,
    keepdims: Literal[False] = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> _ScalarT: ...
@overload
def par_prod(
    a: Any,
    axis: None = None,
    *,
    dtype: type[_ScalarT],
    out: None = None,
    keepdims: Literal[False] = ...,
    initial: Any = ...,
    where: Any = ...,
    progress: _Progress = None,
) -> _ScalarT: ...
@overload
def par_prod(
    a: Any,
    axis: _Axes = None,
    dtype: npt.DTypeLike | None = None,
    *,
    out: _AnyArray,
    keepdims: Any = ...,
    initial: Any = ...,
    where: Any = ...,
    progress: _Progress = None,
) -> _AnyArray: ...
@overload
def par_prod(
    a: Any,
    axis: _Axes = None,
    dtype: npt.DTypeLike | None = None,
    out: _Array | None = None,
    keepdims: Any = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> Any: ...
@overload
def par_nansum(
    a: npt.NDArray[_FloatT],
    axis: None = None,
    dtype: None = None,
    out: None = None,
    keepdims: Literal[False] = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> _FloatT: ...
@overload
def par_nansum(
    a: Any,
    axis: _Axes = None,
    dtype: npt.DTypeLike | None = None,
    *,
    out: _AnyArray,
    keepdims: Any = ...,
    initial: Any = ...,
    where: Any = ...,
    progress: _Progress = None,
) -> _AnyArray: ...
@overload
def par_nansum(
    a: Any,
    axis: _Axes = None,
    dtype: npt.DTypeLike | None = None,
    out: _Array | None = None,
    keepdims: Any = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> Any: ...
@overload
def par_min(
    a: npt.NDArray[np.object_],
    axis: _Axes = None,
    out: _Array | None = None,
    keepdims: Any = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> Any: ...
@overload
def par_min(
    a: npt.NDArray[_ScalarT],
    axis: None = None,
    out: None = None,
    keepdims: Literal[False] = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> _ScalarT: ...
@overload
def par_min(
    a: Any,
    axis: _Axes = None,
    *,
    out: _AnyArray,
    keepdims: Any = ...,
    initial: Any = ...,
    where: Any = ...,
    progress: _Progress = None,
) -> _AnyArray: ...
@overload
def par_min(
    a: Any,
    axis: _Axes = None,
    out: _Array | None = None,
    keepdims: Any = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> Any: ...
@overload
def par_max(
    a: npt.NDArray[np.object_],
    axis: _Axes = None,
    out: _Array | None = None,
    keepdims: Any = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> Any: ...
@overload
def par_max(
    a: npt.NDArray[_ScalarT],
    axis: None = None,
    out: None = None,
    keepdims: Literal[False] = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> _ScalarT: ...
@overload
def par_max(
    a: Any,
    axis: _Axes = None,
    *,
    out: _AnyArray,
    keepdims: Any = ...,
    initial: Any = ...,
    where: Any = ...,
    progress: _Progress = None,
) -> _AnyArray: ...
@overload
def par_max(
    a: Any,
    axis: _Axes = None,
    out: _Array | None = None,
    keepdims: Any = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> Any: ...
@overload
def par_nanmin(
    a: npt.NDArray[_ScalarT],
    axis: None = None,
    out: None = None,
    keepdims: Literal[False] = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> _ScalarT: ...
@overload
def par_nanmin(
    a: Any,
    axis: _Axes = None,
    *,
    out: _AnyArray,
    keepdims: Any = ...,
    initial: Any = ...,
    where: Any = ...,
    progress: _Progress = None,
) -> _AnyArray: ...
@overload
def par_nanmin(
    a: Any,
    axis: _Axes = None,
    out: _Array | None = None,
    keepdims: Any = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> Any: ...
@overload
def par_nanmax(
    a: npt.NDArray[_ScalarT],
    axis: None = None,
    out: None = None,
    keepdims: Literal[False] = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> _ScalarT: ...
@overload
def par_nanmax(
    a: Any,
    axis: _Axes = None,
    *,
    out: _AnyArray,
    keepdims: Any = ...,
    initial: Any = ...,
    where: Any = ...,
    progress: _Progress = None,
) -> _AnyArray: ...
@overload
def par_nanmax(
    a: Any,
    axis: _Axes = None,
    out: _Array | None = None,
    keepdims: Any = ...,
    initial: Any = ...,
    where: Any = ...,
    *,
    progress: _Progress = None,
) -> Any: ...
@overload
def par_minmax(
    a: npt.NDArray[np.object_], axis: _Axes = None, *, progress: _Progress = None
) -> tuple[Any, Any]: ...
@overload
def par_minmax(
    a: npt.NDArray[_ScalarT], axis: None = None, *, progress: _Progress = None
) -> tuple[_ScalarT, _ScalarT]: ...
@overload
def par_minmax(a: Any, axis: _Axes = None, *, progress: _Progress = None) -> tuple[Any, Any]: ...
@overload
def par_mean(
    a: npt.NDArray[_FloatT],
    axis: None = None,
    dtype: None = None,
    out: None = None,
    keepdims: Literal[False] = ...,
    *,
    where: Any = ...,
    progress: _Progress = None,
) -> _FloatT: ...
@overload
def par_mean(
    a: npt.NDArray[np.bool | np.integer[Any]],
    axis: None = None,
    dtype: None = None,
    out: None = None,
    keepdims: Literal[False] = ...,
    *,
    where: Any = ...,
    progress: _Progress = None,
) -> np.float64: ...
@overload
def par_mean(
    a: Any,
    axis: _Axes = None,
    dtype: npt.DTypeLike | None = None,
    *,
    out: _AnyArray,
    keepdims: Any = ...,
    where: Any = ...,
    progress: _Progress = None,
) -> _AnyArray: ...
@overload
def par_mean(
    a: Any,
    axis: _Axes = None,
    dtype: npt.DTypeLike | None = None,
    out: _Array | None = None,
    keepdims: Any = ...,
    *,
    where: Any = ...,
    progress: _Progress = None,
) -> Any: ...
@overload
def par_var(
    a: npt.NDArray[_FloatT],
    axis: None = None,
    dtype: None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: Literal[False] = ...,
    *,
    progress: _Progress = None,
    **options: Any,
) -> _FloatT: ...
@overload
def par_var(
    a: npt.NDArray[np.bool | np.integer[Any]],
    axis: None = None,
    dtype: None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: Literal[False] = ...,
    *,
    progress: _Progress = None,
    **options: Any,
) -> np.float64: ...
@overload
def par_var(
    a: Any,
    axis: _Axes = None,
    dtype: npt.DTypeLike | None = None,
    *,
    out: _AnyArray,
    ddof: float = 0,
    keepdims: Any = ...,
    progress: _Progress = None,
    **options: Any,
) -> _AnyArray: ...
@overload
def par_var(
    a: Any,
    axis: _Axes = None,
    dtype: npt.DTypeLike | None = None,
    out: _Array | None = None,
    ddof: float = 0,
    keepdims: Any = ...,
    *,
    progress: _Progress = None,
    **options: Any,
) -> Any: ...
@overload
def par_std(
    a: npt.NDArray[_FloatT],
    axis: None = None,
    dtype: None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: Literal[False] = ...,
    *,
    progress: _Progress = None,
    **options: Any,
) -> _FloatT: ...
@overload
def par_std(
    a: npt.NDArray[np.bool | np.integer[Any]],
    axis: None = None,
    dtype: None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: Literal[False] = ...,
    *,
    progress: _Progress = None,
    **options: Any,
) -> np.float64: ...
@overload
def par_std(
    a: Any,
    axis: _Axes = None,
    dtype: npt.DTypeLike | None = None,
    *,
    out: _AnyArray,
    ddof: float = 0,
    keepdims: Any = ...,
    progress: _Progress = None,
    **options: Any,
) -> _AnyArray: ...
@overload
def par_std(
    a: Any,
    axis: _Axes = None,
    dtype: npt.DTypeLike | None = None,
    out: _Array | None = None,
    ddof: float = 0,
    keepdims: Any = ...,
    *,
    progress: _Progress = None,
    **options: Any,
) -> Any: ...
@overload
def par_argmin(
    a: Any,
    axis: None = None,
    out: None = None,
    *,
    keepdims: Literal[False] = ...,
    progress: _Progress = None,
) -> np.intp: ...
@overload
def par_argmin(
    a: Any,
    axis: SupportsIndex | None = None,
    *,
    out: _AnyArray,
    keepdims: Any = ...,
    progress: _Progress = None,
) -> _AnyArray: ...
@overload
def par_argmin(
    a: Any,
    axis: SupportsIndex | None = None,
    out: _Array | None = None,
    *,
    keepdims: Any = ...,
    progress: _Progress = None,
) -> Any: ...
@overload
def par_argmax(
    a: Any,
    axis: None = None,
    out: None = None,
    *,
    keepdims: Literal[False] = ...,
    progress: _Progress = None,
) -> np.intp: ...
@overload
def par_argmax(
    a: Any,
    axis: SupportsIndex | None = None,
    *,
    out: _AnyArray,
    keepdims: Any = ...,
    progress: _Progress = None,
) -> _AnyArray: ...
@overload
def par_argmax(
    a: Any,
    axis: SupportsIndex | None = None,
    out: _Array | None = None,
    *,
    keepdims: Any = ...,
    progress: _Progress = None,
) -> Any: ...
@overload
def par_any(
    a: Any,
    axis: None = None,
    out: None = None,
    keepdims: Literal[False] = ...,
    *,
    where: Any = ...,
    progress: _Progress = None,
) -> np.bool: ...
@overload
def par_any(
    a: Any,
    axis: _Axes = None,
    *,
    out: _AnyArray,
    keepdims: Any = ...,
    where: Any = ...,
    progress: _Progress = None,
) -> _AnyArray: ...
@overload
def par_any(
    a: Any,
    axis: _Axes = None,
    out: _Array | None = None,
    keepdims: Any = ...,
    *,
    where: Any = ...,
    progress: _Progress = None,
) -> Any: ...
@overload
def par_all(
    a: Any,
    axis: None = None,
    out: None = None,
    keepdims: Literal[False] = ...,
    *,
    where: Any = ...,
    progress: _Progress = None,
) -> np.bool: ...
@overload
def par_all(
    a: Any,
    axis: _Axes = None,
    *,
    out: _AnyArray,
    keepdims: Any = ...,
    where: Any = ...,
    progress: _Progress = None,
) -> _AnyArray: ...
@overload
def par_all(
    a: Any,
    axis: _Axes = None,
    out: _Array | None = None,
    keepdims: Any = ...,
    *,
    where: Any = ...,
    progress: _Progress = None,
) -> Any: ...
def par_count_nonzero(
    a: Any,
    axis: _Axes = None,
    *,
    keepdims: bool = False,
    progress: _Progress = None,
) -> Any: ...
def par_dot(
    a: Any,
    b: Any,
    out: _Array | None = None,
    *,
    progress: _Progress = None,
) -> Any: ...
def par_find_first(
    a: Any,
    predicate: Any,
    *,
    progress: _Progress = None,
) -> Any: ...
def par_find_last(
    a: Any,
    predicate: Any,
    *,
    progress: _Progress = None,
) -> Any: ...
def par_find_any(
    a: Any,
    predicate: Any,
    *,
    progress: _Progress = None,
) -> Any: ...
def par_position(
    a: Any,
    predicate: Any,
    *,
    progress: _Progress = None,
) -> int | None: ...
@overload
def par_iter(array: Any, /) -> ParIter: ...
@overload
def par_iter(*arrays: Any) -> tuple[ParIter, ...]: ...

@disjoint_base
class ParIter:
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None
    ndim: int
    size: int
    __hash__: ClassVar[None]  # type: ignore[assignment]
    __array_priority__: int
    def __init__(self, *args: Never) -> None: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __iter__(self) -> Iterator[Any]: ...
    # `Any`, for NumPy's stubs of ufuncs give what this does.
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any: ...
    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any: ...
    def __arrow_array__(self, type: Any = None) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def to_dask_array(self) -> Any: ...
    def __getitem__(
        self, index: slice | ParIter | npt.NDArray[np.bool] | Sequence[bool], /
    ) -> ParIter: ...
    def __add__(self, other: Any, /) -> ParIter: ...
    def __radd__(self, other: Any, /) -> ParIter: ...
    def __sub__(self, other: Any, /) -> ParIter: ...
    def __rsub__(self, other: Any, /) -> ParIter: ...
    def __mul__(self, other: Any, /) -> ParIter: ...
    def __rmul__(self, other: Any, /) -> ParIter: ...
    def __matmul__(self, other: Any, /) -> Any: ...
    def __rmatmul__(self, other: Any, /) -> Any: ...
    def __imatmul__(self, other: Any, /) -> ParIter: ...
    def __truediv__(self, other: Any, /) -> ParIter: ...
    def __rtruediv__(self, other: Any, /) -> ParIter: ...
    def __floordiv__(self, other: Any, /) -> ParIter: ...
    def __rfloordiv__(self, other: Any, /) -> ParIter: ...
    def __mod__(self, other: Any, /) -> ParIter: ...
    def __rmod__(self, other: Any, /) -> ParIter: ...
    def __and__(self, other: Any, /) -> ParIter: ...
    def __rand__(self, other: Any, /) -> ParIter: ...
    def __or__(self, other: Any, /) -> ParIter: ...
    def __ror__(self, other: Any, /) -> ParIter: ...
    def __xor__(self, other: Any, /) -> ParIter: ...
    def __rxor__(self, other: Any, /) -> ParIter: ...
    def __lshift__(self, other: Any, /) -> ParIter: ...
    def __rlshift__(self, other: Any, /) -> ParIter: ...
    def __rshift__(self, other: Any, /) -> ParIter: ...
    def __rrshift__(self, other: Any, /) -> ParIter: ...
    def __divmod__(self, other: Any, /) -> tuple[ParIter, ParIter]: ...
    def __rdivmod__(self, other: Any, /) -> tuple[ParIter, ParIter]: ...
    def __pow__(self, other: Any, modulo: None = None, /) -> ParIter: ...
    def __rpow__(self, other: Any, modulo: None = None, /) -> ParIter: ...
    def __lt__(self, other: Any, /) -> ParIter: ...
    def __le__(self, other: Any, /) -> ParIter: ...
    def __gt__(self, other: Any, /) -> ParIter: ...
    def __ge__(self, other: Any, /) -> ParIter: ...
    def __eq__(self, other: object, /) -> ParIter: ...  # type: ignore[override]
    def __ne__(self, other: object, /) -> ParIter: ...  # type: ignore[override]
    def __iadd__(self, other: Any, /) -> ParIter: ...
    def __isub__(self, other: Any, /) -> ParIter: ...
    def __imul__(self, other: Any, /) -> ParIter: ...
    def __itruediv__(self, other: Any, /) -> ParIter: ...
    def __ifloordiv__(self, other: Any, /) -> ParIter: ...
    def __imod__(self, other: Any, /) -> ParIter: ...
    def __ipow__(self, other: Any, modulo: None = None, /) -> ParIter: ...
    def __iand__(self, other: Any, /) -> ParIter: ...
    def __ior__(self, other: Any, /) -> ParIter: ...
    def __ixor__(self, other: Any, /) -> ParIter: ...
    def __ilshift__(self, other: Any, /) -> ParIter: ...
    def __irshift__(self, other: Any, /) -> ParIter: ...
    def __neg__(self) -> ParIter: ...
    def __pos__(self) -> ParIter: ...
    def __invert__(self) -> ParIter: ...
    def __abs__(self) -> ParIter: ...
    @overload
    def clip(self, min: Any = None, max: Any = None, out: None = None) -> ParIter: ...
    @overload
    def clip(self, min: Any = None, max: Any = None, *, out: _AnyArray) -> _AnyArray: ...
    def astype(self, dtype: npt.DTypeLike, copy: bool = True) -> ParIter: ...
    def map(
        self, fn: Any, *, dtype: npt.DTypeLike | None = None, check: bool = True
    ) -> ParIter: ...
    def zip(self, *others: Any) -> ParZip: ...
    def enumerate(self) -> ParZip: ...
    def chain(self, *others: Any) -> ParIter: ...
    def chunks(self, n: SupportsIndex) -> ParChunks: ...
    def windows(self, n: SupportsIndex) -> ParChunks: ...
    def step_by(self, step: SupportsIndex) -> ParIter: ...
    def rev(self) -> ParIter: ...
    def take(self, n: SupportsIndex) -> ParIter: ...
    def skip(self, n: SupportsIndex) -> ParIter: ...
    def filter(self, predicate: Any) -> ParIter: ...
    def mask(self, predicate: Any) -> ParIter: ...
    def flatten(self) -> ParIter: ...
    def inspect(self, fn: Callable[[_Array], Any]) -> ParIter: ...
    def collect(self, out: _Array | None = None, *, progress: _Progress = None) -> _Array: ...
    def reduce(self, op: Any, initial: Any = ..., *, progress: _Progress = None) -> Any: ...
    def sum(
        self, axis: Any = None, *, initial: Any = ..., progress: _Progress = None, **options: Any
    ) -> Any: ...
    def prod(
        self, axis: Any = None, *, initial: Any = ..., progress: _Progress = None, **options: Any
    ) -> Any: ...
    def min(
        self, axis: Any = None, *, initial: Any = ..., progress: _Progress = None, **options: Any
    ) -> Any: ...
    def max(
        self, axis: Any = None, *, initial: Any = ..., progress: _Progress = None, **options: Any
    ) -> Any: ...
    def mean(self, axis: Any = None, *, progress: _Progress = None, **options: Any) -> Any: ...
    def var(
        self, axis: Any = None, *, ddof: float = 0, progress: _Progress = None, **options: Any
    ) -> Any: ...
    def std(
        self, axis: Any = None, *, ddof: float = 0, progress: _Progress = None, **options: Any
    ) -> Any: ...
    def any(
        self, predicate: Any = None, *, progress: _Progress = None, **options: Any
    ) -> np.bool: ...
    def all(
        self, predicate: Any = None, *, progress: _Progress = None, **options: Any
    ) -> np.bool: ...
    def count(self, predicate: Any = None, *, progress: _Progress = None) -> int: ...
    def position(self, predicate: Any, *, progress: _Progress = None) -> int | None: ...
    def find_first(self, predicate: Any, *, progress: _Progress = None) -> Any: ...
    def find_last(self, predicate: Any, *, progress: _Progress = None) -> Any: ...
    def find_any(self, predicate: Any, *, progress: _Progress = None) -> Any: ...
    def for_each(self, fn: Callable[[_Array], Any], *, progress: _Progress = None) -> None: ...
    def sort(self, *, progress: _Progress = None, **options: Any) -> _Array: ...

class ParZip:
    def __init__(self, *values: Any) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[ParIter]: ...
    def map(
        self, fn: Any, *, dtype: npt.DTypeLike | None = None, check: bool = True
    ) -> ParIter: ...
    def filter(self, predicate: Any) -> ParZip: ...
    def step_by(self, step: SupportsIndex) -> ParZip: ...
    def rev(self) -> ParZip: ...
    def take(self, n: SupportsIndex) -> ParZip: ...
    def skip(self, n: SupportsIndex) -> ParZip: ...
    def collect(self) -> tuple[_Array, ...]: ...
    def count(self) -> int: ...

class ParChunks:
    def __init__(self, source: ParIter, n: SupportsIndex, step: SupportsIndex) -> None: ...
    def __len__(self) -> int: ...
    def map(self, fn: Callable[[_Array], Any]) -> ParIter: ...
    def for_each(self, fn: Callable[[_Array], Any]) -> None: ...
    def reduce(self, op: np.ufunc) -> ParIter: ...
    def sum(self) -> ParIter: ...
    def min(self) -> ParIter: ...
    def max(self) -> ParIter: ...
    def mean(self) -> ParIter: ...
    def flatten(self) -> ParIter: ...
    def collect(self) -> list[_Array]: ...

def par_reduceat(
    op: np.ufunc,
    a: _ArrayLike,
    indices: _ArrayLike,
    axis: SupportsIndex = 0,
    dtype: npt.DTypeLike | None = None,
    out: _Array | tuple[_Array] | None = None,
    *,
    progress: _Progress = None,
) -> Any: ...
def par_scan(
    op: np.ufunc,
    a: _ArrayLike,
    axis: SupportsIndex = 0,
    dtype: npt.DTypeLike | None = None,
    out: _Array | tuple[_Array] | None = None,
    *,
    progress: _Progress = None,
) -> Any: ...
@overload
def par_searchsorted(
    a: _ArrayLike,
    v: str | bytes | complex | np.generic,
    side: _Side = "left",
    sorter: _ArrayLike | None = None,
    *,
    progress: _Progress = None,
) -> np.intp: ...
@overload
def par_searchsorted(
    a: _ArrayLike,
    v: _Array | ParIter | Sequence[Any],
    side: _Side = "left",
    sorter: _ArrayLike | None = None,
    *,
    progress: _Progress = None,
) -> npt.NDArray[np.intp]: ...
@overload
def par_searchsorted(
    a: _ArrayLike,
    v: _ArrayLike,
    side: _Side = "left",
    sorter: _ArrayLike | None = None,
    *,
    progress: _Progress = None,
) -> Any: ...
def par_argsort(
    a: _ArrayLike,
    axis: SupportsIndex | None = -1,
    kind: _SortKind | None = None,
    order: str | Sequence[str] | None = None,
    *,
    stable: bool | None = None,
    descending: bool | None = None,
    out: _Array | None = None,
    less: Any = None,
    progress: _Progress = None,
) -> npt.NDArray[np.intp]: ...
@overload
def par_sort(
    a: npt.NDArray[_ScalarT],
    axis: SupportsIndex | None = -1,
    kind: _SortKind | None = None,
    order: str | Sequence[str] | None = None,
    *,
    stable: bool | None = None,
    descending: bool | None = None,
    out: _Array | None = None,
    less: Any = None,
    progress: _Progress = None,
) -> npt.NDArray[_ScalarT]: ...
@overload
def par_sort(
    a: _ArrayLike,
    axis: SupportsIndex | None = -1,
    kind: _SortKind | None = None,
    order: str | Sequence[str] | None = None,
    *,
    stable: bool | None = None,
    descending: bool | None = None,
    out: _AnyArray,
    less: Any = None,
    progress: _Progress = None,
) -> _AnyArray: ...
@overload
def par_sort(
    a: _ArrayLike,
    axis: SupportsIndex | None = -1,
    kind: _SortKind | None = None,
    order: str | Sequence[str] | None = None,
    *,
    stable: bool | None = None,
    descending: bool | None = None,
    out: _Array | None = None,
    less: Any = None,
    progress: _Progress = None,
) -> _Array: ...

class GroupBy(NamedTuple):
    order: npt.NDArray[np.intp]
    starts: npt.NDArray[np.intp]
    counts: npt.NDArray[np.intp]

class TopK(NamedTuple):
    values: _Array
    indices: npt.NDArray[np.intp]

def par_lexsort(
    keys: Any,
    axis: SupportsIndex = -1,
    *,
    descending: bool | Sequence[bool] = False,
    progress: _Progress = None,
) -> Any: ...
def par_sort_by_key(
    keys: _ArrayLike | Sequence[_ArrayLike],
    *values: _ArrayLike,
    stable: bool | None = None,
    descending: bool | Sequence[bool] | None = None,
    progress: _Progress = None,
) -> tuple[Any, ...]: ...
def par_group_by(
    keys: _ArrayLike | Sequence[_ArrayLike],
    *,
    descending: bool | Sequence[bool] = False,
    progress: _Progress = None,
) -> GroupBy: ...
@overload
def par_rank(
    a: _ArrayLike,
    method: Literal["average"] = "average",
    *,
    axis: SupportsIndex | None = None,
    progress: _Progress = None,
) -> npt.NDArray[np.float64]: ...
@overload
def par_rank(
    a: _ArrayLike,
    method: Literal["min", "max", "dense", "ordinal"],
    *,
    axis: SupportsIndex | None = None,
    progress: _Progress = None,
) -> npt.NDArray[np.intp]: ...
@overload
def par_rank(
    a: _ArrayLike,
    method: _RankMethod = "average",
    *,
    axis: SupportsIndex | None = None,
    progress: _Progress = None,
) -> _Array: ...
@overload
def par_partition(
    a: npt.NDArray[_ScalarT],
    kth: SupportsIndex | _ArrayLike,
    axis: SupportsIndex | None = -1,
    kind: Literal["introselect"] = "introselect",
    order: str | Sequence[str] | None = None,
    *,
    progress: _Progress = None,
) -> npt.NDArray[_ScalarT]: ...
@overload
def par_partition(
    a: _ArrayLike,
    kth: SupportsIndex | _ArrayLike,
    axis: SupportsIndex | None = -1,
    kind: Literal["introselect"] = "introselect",
    order: str | Sequence[str] | None = None,
    *,
    progress: _Progress = None,
) -> _Array: ...
def par_argpartition(
    a: _ArrayLike,
    kth: SupportsIndex | _ArrayLike,
    axis: SupportsIndex | None = -1,
    kind: Literal["introselect"] = "introselect",
    order: str | Sequence[str] | None = None,
    *,
    progress: _Progress = None,
) -> npt.NDArray[np.intp]: ...
def par_topk(
    a: _ArrayLike,
    k: SupportsIndex,
    axis: SupportsIndex | None = -1,
    *,
    largest: bool = True,
    sorted: bool = True,
    progress: _Progress = None,
) -> TopK: ...
@overload
def par_unique(
    ar: npt.NDArray[_ScalarT],
    return_index: Literal[False] = False,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    axis: SupportsIndex | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    progress: _Progress = None,
) -> npt.NDArray[_ScalarT]: ...
@overload
def par_unique(
    ar: npt.NDArray[_ScalarT],
    return_index: Literal[True],
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    axis: SupportsIndex | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    progress: _Progress = None,
) -> tuple[npt.NDArray[_ScalarT], npt.NDArray[np.intp]]: ...
@overload
def par_unique(
    ar: npt.NDArray[_ScalarT],
    return_index: Literal[False] = False,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[False] = False,
    axis: SupportsIndex | None = None,
    equal_nan: bool = True,
    sorted: bool = True,
    progress: _Progress = None,
) -> tuple[npt.NDArray[_ScalarT], npt.NDArray[np.intp]]: ...
@overload
def par_unique(
    ar: npt.NDArray[_ScalarT],
    return_index: Literal[False] = False,
    return_inverse: Literal[False] = False,
    *,
    return_counts: Literal[True],
    axis: SupportsIndex | None = None,
    equal_nan: bool = True,
    sorted: bool = True,
    progress: _Progress = None,
) -> tuple[npt.NDArray[_ScalarT], npt.NDArray[np.intp]]: ...
@overload
def par_unique(
    ar: _ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: SupportsIndex | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    progress: _Progress = None,
) -> Any: ...
def par_isin(
    element: _ArrayLike,
    test_elements: _ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Literal["sort", "table"] | None = None,
    progress: _Progress = None,
) -> npt.NDArray[np.bool]: ...
@overload
def par_merge(
    a: _ArrayLike, b: _ArrayLike, *, out: _AnyArray, progress: _Progress = None
) -> _AnyArray: ...
@overload
def par_merge(
    a: _ArrayLike, b: _ArrayLike, *, out: _Array | None = None, progress: _Progress = None
) -> _Array: ...
def par_is_sorted(
    a: _ArrayLike,
    axis: SupportsIndex | None = -1,
    *,
    descending: bool | None = None,
    strict: bool = False,
    progress: _Progress = None,
) -> bool: ...
def enable(*, ufuncs: bool = True, sorts: bool = True, sums: bool = False) -> None: ...
def disable() -> None: ...

class enabled(ContextDecorator):
    def __init__(self, *, ufuncs: bool = True, sorts: bool = True, sums: bool = False) -> None: ...
    def __enter__(self) -> enabled: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

@disjoint_base
class threads:
    def __init__(self, n: SupportsIndex) -> None: ...
    def __enter__(self) -> threads: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

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
    def __init__(self, *, progress: _Progress = None) -> None: ...
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

class ThreadPool(Executor):
    num_threads: int
    @property
    def max_workers(self) -> int: ...
    def __init__(
        self,
        num_threads: SupportsIndex | None = None,
        *,
        max_workers: SupportsIndex | None = None,
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
    def map(
        self,
        fn: Callable[..., _T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[_T]: ...
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> ThreadPool: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
