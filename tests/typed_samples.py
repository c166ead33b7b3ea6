"""What mypy and pyright are to say of calls, and what these give: see test_types.py."""

from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import assert_type

import pyblitz as pb
import pyblitz.numpy as pnp

F8 = npt.NDArray[np.float64]
F4 = npt.NDArray[np.float32]
I8 = npt.NDArray[np.int64]
IP = npt.NDArray[np.intp]

f8: F8 = np.linspace(0, 1, 1000)
f4: F4 = f8.astype(np.float32)
i8: I8 = np.arange(1000, dtype=np.int64) % 7
i2: npt.NDArray[np.int16] = i8.astype(np.int16)
u1: npt.NDArray[np.uint8] = i8.astype(np.uint8)
c16: npt.NDArray[np.complex128] = f8.astype(np.complex128)
yes: npt.NDArray[np.bool] = f8 > 0.5
rows: F8 = f8.reshape(10, 100)
out: F8 = np.empty(1000)
twice: I8 = np.empty(2000, np.int64)
anything: npt.NDArray[Any] = f8
objects: npt.NDArray[np.object_] = i8.astype(np.object_)
lazy = pb.par_iter(f8)

# ---- sums, extremes, moments
assert_type(pb.par_sum(f8), np.float64)
assert_type(pb.par_sum(c16), np.complex128)
assert_type(pb.par_sum(i2), np.int64)
assert_type(pb.par_sum(u1), np.uint64)
assert_type(pb.par_sum(yes), np.int64)
assert_type(pb.par_sum(i2, dtype=np.float32), np.float32)
assert_type(pb.par_sum(rows, axis=0), Any)
assert_type(pb.par_sum(rows, axis=0, out=out[:100]), F8)
assert_type(pb.par_sum(anything), Any)
assert_type(pb.par_sum(objects), Any)
assert_type(pb.par_max(objects), Any)
assert_type(pb.par_prod(f4), np.float32)
assert_type(pb.par_nansum(f4), np.float32)
assert_type(pb.par_max(i2), np.int16)
assert_type(pb.par_nanmin(f4), np.float32)
assert_type(pb.par_minmax(i8), tuple[np.int64, np.int64])
assert_type(pb.par_mean(f4), np.float32)
assert_type(pb.par_mean(i2), np.float64)
assert_type(pb.par_std(yes), np.float64)
assert_type(pb.par_var(f8), np.float64)
assert_type(pb.par_argmax(f8), np.intp)
assert_type(pb.par_any(f8), np.bool)
assert_type(pb.par_all(yes, axis=0, keepdims=True), Any)
assert_type(pb.par_cumsum(f4), F4)
assert_type(pb.par_cumsum(i2), I8)
assert_type(pb.par_cumprod(u1), npt.NDArray[np.uint64])
assert_type(pb.par_cumsum(i2, dtype=np.float64), F8)

# ---- sorts and searches
assert_type(pb.par_sort(f4), F4)
assert_type(pb.par_sort(f4, descending=True), F4)
assert_type(pb.par_sort([3, 1, 2]), npt.NDArray[Any])
assert_type(pb.par_argsort(f8), IP)
assert_type(pb.par_partition(i8, 10), I8)
assert_type(pb.par_unique(i8), I8)
assert_type(pb.par_unique(i8, return_counts=True), tuple[I8, IP])
assert_type(pb.par_unique(i8, return_index=True, return_counts=True), Any)
assert_type(pb.par_isin(i8, [1, 2]), npt.NDArray[np.bool])
assert_type(pb.par_merge(np.sort(i8), np.sort(i8)), npt.NDArray[Any])
assert_type(pb.par_merge(np.sort(i8), np.sort(i8), out=twice), I8)
assert_type(pb.par_rank(f8), F8)
assert_type(pb.par_rank(f8, "dense"), IP)
assert_type(pb.par_topk(f8, 3).indices, IP)
assert_type(pb.par_searchsorted(f8, f8), IP)
assert_type(pb.par_searchsorted(f8, 0.5), np.intp)
assert_type(pb.par_searchsorted(i8.astype(np.str_), "3"), np.intp)
assert_type(pb.par_digitize(f8, [0.5]), IP)
assert_type(pb.par_position(f8, 1.0), int | None)

# ---- moving and counting
assert_type(pb.par_filter(f4, yes), F4)
assert_type(pb.par_partition_by(i8, yes), tuple[I8, I8])
assert_type(pb.par_take(f8, i8), F8)
assert_type(pb.par_where(yes, f4, i8), npt.NDArray[Any])
assert_type(pb.par_where(yes), tuple[IP, ...])
assert_type(pb.par_concatenate([f4, f4]), F4)
assert_type(pb.par_concatenate([f4, f8], dtype=np.float32), F4)
assert_type(pb.par_concatenate([f4, [1.0], lazy]), npt.NDArray[Any])
assert_type(pb.par_repeat(f4, 2), F4)
assert_type(pb.par_flatten(rows), F8)
assert_type(pb.par_copy(f8), F8)
assert_type(pb.par_copy(f8, dtype=np.float32), F4)
assert_type(pb.par_bincount(i8), IP)
assert_type(pb.par_bincount(i8, f8), F8)


# ---- functions
def half(x: F8) -> F4:
    return (x / 2).astype(np.float32)


assert_type(pb.par_map(half, f8), F4)
assert_type(pb.par_map(np.add, f8, i8, out=out), F8)
assert_type(pb.par_map(np.sqrt, 2.0), Any)

# ---- lazy arrays
assert_type(np.sqrt(lazy).collect(), Any)
assert_type((np.sqrt(lazy) + 1).sum(), Any)
assert_type(lazy * 2, pb.ParIter)
assert_type((1 - lazy).filter(lambda v: v > 0.5).collect(), npt.NDArray[Any])
assert_type(pb.par_sort(lazy), npt.NDArray[Any])
assert_type(lazy.any(), np.bool)
assert_type(pb.par_any(lazy), np.bool)
assert_type(lazy[yes], pb.ParIter)
assert_type(pb.par_map(np.sqrt, lazy), Any)

# ---- pools and tasks
with pb.threads(2):
    assert_type(pb.num_threads(), int)
with pb.ThreadPool(2) as pool:
    assert_type(pool.submit(pow, 2, 10).result(), int)
    assert_type(list(pool.map(len, ["a", "bc"])), list[int])
    assert_type(pool.install(pb.par_sum, f8), np.float64)
assert_type(pb.join(lambda: 1, lambda: "two"), tuple[int, str])

# ---- NumPy's namespace, as NumPy's own
assert_type(pnp.sort(f4), F4)
assert_type(pnp.cumsum(f4), F4)
