"""python benchmarks/costs.py: what the array library believes that things cost, measured.

pyblitz/arrays/front.pyx has a table of nanoseconds by which every function decides whether a
call is large enough to be shared: ``pays``.  This measures each of them on this machine,
prints it beside what stands in the table, and writes benchmarks/results/costs.jsonl:

- what an item (or a byte) takes NumPy on one thread, in an array of the size at which we begin
  to share, and in one that is sixteen times as large;
- at the size where sharing begins, the whole call by NumPy and by us: where ours takes much
  longer, the table says too much, and where it is over much sooner, too little;
- what help from another thread costs, in a pool that is awake and in one that sleeps.
"""

from __future__ import annotations

import argparse
import functools
import pathlib
import re
import statistics
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import machine  # noqa: E402

import pyblitz as pb  # noqa: E402

TABLE = machine.ROOT / "pyblitz" / "arrays" / "front.pyx"
LARGE = 16

Row = dict[str, Any]
Call = Callable[[], object]
RNG = np.random.default_rng(0)


class Cost(NamedTuple):
    unit: str
    # Of so many units: what NumPy is called with, and what we are.
    calls: Callable[[int], tuple[Call, Call]]


def table() -> dict[str, float]:
    """What stands in the code."""
    found = re.findall(r"^cdef double (\w+_NS) = ([\d.]+)$", TABLE.read_text(), re.M)
    return {name: float(ns) for name, ns in found}


def doubles(n: int) -> Any:
    return RNG.random(max(n, 1))


def both(
    numpys: Callable[..., object], ours: Callable[..., object], *args: object
) -> tuple[Call, Call]:
    return lambda: numpys(*args), lambda: ours(*args)


def finding(n: int) -> tuple[Call, Call]:
    a = doubles(n // 8)
    return lambda: (a == 2.0).argmax(), lambda: pb.par_find_first(a, 2.0)


def stacked(n: int) -> tuple[Call, Call]:
    a = doubles(n // 16).reshape(-1, 1)[: n // 128 * 8].reshape(-1, 8)
    return both(np.vecdot, lambda *x: pb.par_map(np.vecdot, *x), a, a)


def putting(n: int) -> tuple[Call, Call]:
    a = np.zeros(1 << 20)
    where = RNG.integers(0, a.size, n)
    return both(np.put, pb.par_put, a, where, 1.0)


def merging(n: int) -> tuple[Call, Call]:
    a, b = np.sort(doubles(n // 2)), np.sort(doubles(n - n // 2))
    return lambda: np.sort(np.concatenate([a, b]), kind="stable"), lambda: pb.par_merge(a, b)


def texts(n: int) -> Any:
    return RNG.integers(0, 10**6, n).astype("S8")


def with_counts(n: int) -> tuple[Call, Call]:
    a = RNG.integers(0, 1 << 40, n)
    return (
        lambda: np.unique(a, return_counts=True),
        lambda: pb.par_unique(a, return_counts=True),
    )


def firsts(n: int) -> tuple[Call, Call]:
    a = doubles(n)
    return lambda: np.argpartition(a, -10)[-10:], lambda: pb.par_topk(a, 10)


def ordering(a: Any) -> tuple[Call, Call]:
    return lambda: np.argsort(a, kind="stable"), lambda: pb.par_argsort(a)


COSTS = {
    "MOVE_NS": Cost(
        "byte",
        lambda n: both(
            lambda a: a.astype(np.float32),
            lambda a: pb.par_copy(a, dtype=np.float32),
            doubles(n // 4),
        ),
    ),
    "STRAIGHT_NS": Cost("byte", lambda n: both(np.array, pb.par_copy, doubles(n // 8))),
    "REDUCE_NS": Cost("byte", lambda n: both(np.sum, pb.par_sum, doubles(n // 8))),
    "FIND_NS": Cost("byte", finding),
    "GUFUNC_NS": Cost("byte", stacked),
    "TRUTH_NS": Cost("byte", lambda n: both(np.any, pb.par_any, np.zeros(n, bool))),
    "DOT_NS": Cost("byte", lambda n: both(np.dot, pb.par_dot, doubles(n // 8), doubles(n // 8))),
    "ITEM_NS": Cost("item", lambda n: both(np.mean, pb.par_mean, doubles(n).astype(np.float32))),
    "NONZERO_NS": Cost(
        "item", lambda n: both(np.flatnonzero, pb.par_flatnonzero, doubles(n) < 0.5)
    ),
    "COUNT_NS": Cost("item", lambda n: both(np.histogram, pb.par_histogram, doubles(n))),
    "BIN_NS": Cost("item", lambda n: both(np.bincount, pb.par_bincount, RNG.integers(0, 64, n))),
    "FACTOR_NS": Cost("item", lambda n: both(np.prod, pb.par_prod, RNG.integers(1, 9, n))),
    "DEAR_NS": Cost(
        "item",
        lambda n: both(np.logaddexp.reduce, lambda a: pb.par_reduce(np.logaddexp, a), doubles(n)),
    ),
    "LOOP_NS": Cost(
        "item",
        lambda n: both(np.maximum.accumulate, lambda a: pb.par_scan(np.maximum, a), doubles(n)),
    ),
    "WHOLE_NS": Cost("item", lambda n: both(np.cumsum, pb.par_cumsum, RNG.integers(0, 64, n))),
    "SCAN_NS": Cost("item", lambda n: both(np.cumsum, pb.par_cumsum, doubles(n))),
    "PUT_NS": Cost("item", putting),
    "KEY_NS": Cost(
        "item",
        lambda n: both(np.searchsorted, pb.par_searchsorted, np.sort(doubles(1024)), doubles(n)),
    ),
    "SORT_NS": Cost("item", lambda n: both(np.sort, pb.par_sort, doubles(n))),
    "ARGSORT_NS": Cost("item", lambda n: ordering(doubles(n))),
    "COMPLEX_NS": Cost("item", lambda n: ordering(doubles(n) + 1j)),
    "DIGIT_NS": Cost("byte", lambda n: ordering(RNG.integers(0, 999, n // 2).astype(np.int16))),
    "ORDER_NS": Cost("item", lambda n: both(np.lexsort, pb.par_lexsort, (doubles(n), doubles(n)))),
    "RANK_NS": Cost(
        "item",
        lambda n: both(lambda a: np.argsort(a, kind="stable"), pb.par_rank, doubles(n)),
    ),
    "HASH_NS": Cost("item", lambda n: both(np.unique, pb.par_unique, texts(n))),
    "FLOATS_NS": Cost("item", lambda n: both(np.unique, pb.par_unique, doubles(n))),
    "MERGE_NS": Cost("item", merging),
    "UNIQUE_NS": Cost("item", with_counts),
    "SHORTS_NS": Cost(
        "item",
        lambda n: both(np.unique, pb.par_unique, RNG.integers(0, 1 << 15, n).astype(np.int16)),
    ),
    "ISIN_NS": Cost("item", lambda n: both(np.isin, pb.par_isin, doubles(n), doubles(1024))),
    "PARTITION_NS": Cost(
        "item", lambda n: both(np.partition, pb.par_partition, doubles(n), n // 2)
    ),
    "FIRST_NS": Cost("item", firsts),
}


def several(call: Call, times: int) -> None:
    # No result is kept: new memory for each would be most of what is measured.
    for _ in range(times):
        call()


def seconds(calls: dict[str, Call], batch: float, repeat: int) -> dict[str, float]:
    """Of one call each: the least of several batches of so many seconds, in turn."""
    batches: dict[str, Call] = {}
    sizes: dict[str, int] = {}
    for name, call in calls.items():
        once = min(machine.interleave({name: call}, 2)[name])
        sizes[name] = max(1, int(batch / max(once, 1e-7)))
        batches[name] = functools.partial(several, call, sizes[name])
    taken = machine.interleave(batches, repeat)
    return {name: min(taken[name]) / sizes[name] for name in calls}


def measured(name: str, ns: float, share_ns: float, batch: float, repeat: int) -> Row:
    """One cost, in arrays that are just large enough to be shared."""
    cost = COSTS[name]
    n = int(1.1 * share_ns / ns)
    numpys, ours = cost.calls(n)
    large, _ = cost.calls(LARGE * n)
    took = seconds({"numpy": numpys, "ours": ours, "large": large}, batch, repeat)
    return {
        "cost": name,
        "unit": cost.unit,
        "stands": ns,
        "measured": round(took["numpy"] * 1e9 / n, 4),
        "large": round(took["large"] * 1e9 / (LARGE * n), 4),
        "shared_from": n,
        "numpy_us": round(took["numpy"] * 1e6, 2),
        "pyblitz_us": round(took["ours"] * 1e6, 2),
    }


# Calls that take NumPy about as long as it costs to share them.
SHARED = {
    "SHARE_NS": lambda: both(np.sum, pb.par_sum, doubles(18_000)),
    "DIRECT_NS": lambda: both(np.sqrt, lambda a: pb.par_map(np.sqrt, a), doubles(10_000)),
    "DIRECT_CAST_NS": lambda: both(
        np.sqrt, lambda a: pb.par_map(np.sqrt, a), np.arange(25_000, dtype=np.int32)
    ),
}


def sharing(name: str, ns: float, batch: float, repeat: int) -> list[Row]:
    """What a shared call takes beyond its part of the work."""
    numpys, ours = SHARED[name]()
    warm = seconds({"numpy": numpys, "ours": ours}, batch, repeat)
    # In 20 ms all workers have gone to sleep; NumPy finds its caches as cold.
    slept = machine.interleave({"numpy": numpys, "ours": ours}, 5 * repeat, pause=0.02)
    cold = {name: statistics.median(times) for name, times in slept.items()}
    threads = pb.num_threads()
    return [
        {
            "cost": name,
            "unit": f"call, {how}",
            "stands": ns,
            "measured": round(1e9 * (took["ours"] - took["numpy"] / threads)),
            "threads": threads,
            "numpy_us": round(took["numpy"] * 1e6, 2),
            "pyblitz_us": round(took["ours"] * 1e6, 2),
        }
        for how, took in (("warm", warm), ("cold", cold))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description="What things cost, beside what stands in the code."
    )
    parser.add_argument("--repeat", type=int, default=15, help="batches of each (default 15)")
    parser.add_argument("--batch", type=float, default=0.005, help="seconds of one (default 0.005)")
    parser.add_argument("--output", default=machine.RESULTS / "costs.jsonl", type=pathlib.Path)
    options = parser.parse_args()
    facts = machine.facts()
    stand = table()
    rows: list[Row] = []
    for name, ns in stand.items():
        if name in SHARED:
            rows += sharing(name, ns, options.batch, options.repeat)
        else:
            rows.append(measured(name, ns, stand["SHARE_NS"], options.batch, options.repeat))
    machine.write(options.output, rows, facts)
    print("cost          of          stands  measured     large  shared from  NumPy us   ours us")
    for row in rows:
        print(
            f"{row['cost']:13} {row['unit']:10} {row['stands']:7} {row['measured']:9} "
            f"{row.get('large', ''):9} {row.get('shared_from', ''):12} {row['numpy_us']:9} "
            f"{row['pyblitz_us']:9}"
        )
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
