"""python benchmarks/never_slower.py: every function beside NumPy, at every size.

Each public function that has a namesake, or some lines of NumPy that do the same, is called with
arrays of 8 to 2^24 float64, int64, float32 and int32, and some of them with bool and uint8, by one
thread and by two, at each of the levels for which this NumPy has kernels and this processor can be
held to: each in a process of its own.  A cell is red when NumPy's time over ours is below 0.95 and
ours is also more than 1.5 us longer; red cells are measured again before they are called red.

The rows go to benchmarks/results/never_slower/<the processor>.jsonl, so that processors stand
side by side; figures.py draws them.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import machine  # noqa: E402

import pyblitz as pb  # noqa: E402

Row = dict[str, Any]
Call = Callable[[], object]
RNG = np.random.default_rng(0)

# What NumPy may not use, so that it has the kernels of each level.
LEVELS = {"v4": "", "v3": "X86_V4", "v2": "X86_V4 X86_V3"}
THREADS = (1, 2)
LEAST, MOST = 3, 24  # logarithms of the sizes
ENOUGH = 0.95
ADDED = 1.5e-6
BATCH = 2e-4  # seconds of one turn, at least
# After a pause threads sleep and caches are cold, of either: that is to be little of a turn.
LONG_BATCH = 4e-3
TURNS = 5
# Few items are those of so many arrays in turn: of one array a processor learns the branches by
# heart, and sorts it in half of the time.
FEW, SEVERAL = 12, 8
SECONDS = 0.15  # after which a cell of long calls has no more turns

FLOATS = ("float64", "float32")
NUMBERS = ("float64", "int64", "float32", "int32")
BYTES = ("bool", "uint8")
DTYPES = (*NUMBERS, *BYTES)


class Made(NamedTuple):
    """What the calls of one cell are called with."""

    a: Any  # in no order
    b: Any  # another one
    ordered: Any  # a, sorted
    other: Any  # b, sorted
    mask: Any  # half of them true
    where: Any  # places in a, in no order
    few: Any  # whole numbers below 1,000
    to: Any  # what both write to: where an array lies in memory may decide a quarter of the time


def random(n: int, kind: Any) -> Any:
    if kind.kind == "f":
        return RNG.random(n).astype(kind)
    if kind.kind == "i":
        high = min(np.iinfo(kind).max, 1 << 62)
        return RNG.integers(-high, high, n).astype(kind)
    return RNG.integers(0, 2 if kind.kind == "b" else 256, n).astype(kind)


def made(n: int, dtype: str) -> Made:
    a, b = (random(n, np.dtype(dtype)) for _ in range(2))
    ordered = np.sort(a)
    return Made(
        a,
        b,
        ordered,
        np.sort(b),
        RNG.random(n) < 0.5,
        RNG.integers(0, n, n),
        RNG.integers(0, 1000, n),
        a.copy(),
    )


class Function(NamedTuple):
    ours: Callable[[Made], Call]
    numpys: Callable[[Made], Call]
    dtypes: tuple[str, ...] = NUMBERS
    pause: float = 0.0  # seconds at least before a turn, where threads of NumPy's BLAS spin


def same(name: str, dtypes: tuple[str, ...] = NUMBERS, numpys: str | None = None) -> Function:
    """Called with one array."""
    our, their = getattr(pb, "par_" + name), getattr(np, numpys or name)
    return Function(lambda m: lambda: our(m.a), lambda m: lambda: their(m.a), dtypes)


def put(m: Made, function: Callable[..., object]) -> Call:
    return lambda: function(m.to, m.where, m.b)


def topk(m: Made) -> int:
    return min(10, len(m.a))


def numpys_topk(a: Any, k: int) -> object:
    """The values, and where they are."""
    places = np.argpartition(a, a.size - k)[-k:]
    values = a[places]
    order = np.argsort(values)[::-1]
    return values[order], places[order]


def numpys_rank(a: Any) -> Any:
    """Means of equals; floats may have NaNs."""
    order = np.argsort(a, kind="stable")
    ordered = a[order]
    begins = np.r_[True, ordered[1:] != ordered[:-1]]
    ends = np.r_[np.flatnonzero(begins), a.size]
    run = np.cumsum(begins) - 1
    ranks = np.empty(a.size)
    ranks[order] = (ends[run] + ends[run + 1] + 1) / 2
    if a.dtype.kind == "f" and np.isnan(a).any():
        ranks[:] = np.nan
    return ranks


def near_one(m: Made) -> Any:
    return 1 + m.a * 1e-6 if m.a.dtype.kind == "f" else m.a


def filled(m: Made, ours: bool) -> Call:
    return (lambda: pb.par_fill(m.to, 1)) if ours else (lambda: m.to.fill(1))


def negated(m: Made, ours: bool) -> Call:
    if ours:
        return lambda: pb.par_map_inplace(np.negative, m.to)
    return lambda: np.negative(m.to, out=m.to)


def starts(m: Made) -> Any:
    return np.arange(0, m.a.size, max(1, m.a.size // 100))


def reduceat(m: Made, ours: bool) -> Call:
    at = starts(m)
    if ours:
        return lambda: pb.par_reduceat(np.add, m.a, at)
    return lambda: np.add.reduceat(m.a, at)


def edges(m: Made) -> Any:
    return np.linspace(float(m.ordered[0]), float(m.ordered[-1]), 17)[1:-1].astype(m.a.dtype)


def digitized(m: Made, function: Callable[..., object]) -> Call:
    bins = np.unique(edges(m))
    return lambda: function(m.a, bins)


def numpys_group_by(m: Made) -> Call:
    def grouped() -> object:
        order = np.argsort(m.few, kind="stable")
        sorted_ones = m.few[order]
        return order, np.flatnonzero(np.r_[True, sorted_ones[1:] != sorted_ones[:-1]])

    return grouped


def divided(m: Made, lazy: bool) -> Call:
    """One of the divisors is zero."""
    divisors = m.b.copy()
    divisors[m.b.size // 2] = 0

    def call() -> object:
        with np.errstate(divide="ignore"):
            if lazy:
                return (pb.par_iter(m.a) / divisors + m.a).collect()
            return m.a / divisors + m.a

    return call


def filtered(m: Made, lazy: bool) -> Call:
    middle = m.ordered[m.ordered.size // 2]
    if lazy:
        return lambda: pb.par_iter(m.a).filter(lambda v: v > middle).collect()
    return lambda: m.a[m.a > middle]


# By the order of the picture.
FUNCTIONS: dict[str, Function] = {
    "map sqrt": Function(
        lambda m: lambda: pb.par_map(np.sqrt, m.a), lambda m: lambda: np.sqrt(m.a), FLOATS
    ),
    "map sin": Function(
        lambda m: lambda: pb.par_map(np.sin, m.a), lambda m: lambda: np.sin(m.a), FLOATS
    ),
    "map add": Function(
        lambda m: lambda: pb.par_map(np.add, m.a, m.b), lambda m: lambda: np.add(m.a, m.b)
    ),
    "map multiply, a number": Function(
        lambda m: lambda: pb.par_map(np.multiply, m.a, 2), lambda m: lambda: np.multiply(m.a, 2)
    ),
    "map add, of two dtypes": Function(
        lambda m: lambda: pb.par_map(np.add, m.a, m.few), lambda m: lambda: np.add(m.a, m.few)
    ),
    "map_inplace negative": Function(lambda m: negated(m, True), lambda m: negated(m, False)),
    "iter a * 2 + b": Function(
        lambda m: lambda: (pb.par_iter(m.a) * 2 + m.b).collect(), lambda m: lambda: m.a * 2 + m.b
    ),
    "iter sum of squares": Function(
        lambda m: lambda: (pb.par_iter(m.a) ** 2).sum(), lambda m: lambda: (m.a**2).sum()
    ),
    "iter a / b + a, a zero": Function(
        lambda m: divided(m, True), lambda m: divided(m, False), FLOATS
    ),
    "iter filter": Function(lambda m: filtered(m, True), lambda m: filtered(m, False)),
    "where": Function(
        lambda m: lambda: pb.par_where(m.mask, m.a, m.b),
        lambda m: lambda: np.where(m.mask, m.a, m.b),
        DTYPES,
    ),
    "copy": same("copy", DTYPES),
    "fill": Function(lambda m: filled(m, True), lambda m: filled(m, False)),
    "flatten": Function(lambda m: lambda: pb.par_flatten(m.a), lambda m: lambda: m.a.flatten()),
    "concatenate": Function(
        lambda m: lambda: pb.par_concatenate([m.a, m.b]),
        lambda m: lambda: np.concatenate([m.a, m.b]),
    ),
    "repeat": Function(
        lambda m: lambda: pb.par_repeat(m.a, 2), lambda m: lambda: np.repeat(m.a, 2)
    ),
    "take": Function(
        lambda m: lambda: pb.par_take(m.a, m.where),
        lambda m: lambda: np.take(m.a, m.where),
        DTYPES,
    ),
    "put": Function(lambda m: put(m, pb.par_put), lambda m: put(m, np.put)),
    "filter": Function(
        lambda m: lambda: pb.par_filter(m.a, m.mask), lambda m: lambda: m.a[m.mask], DTYPES
    ),
    "partition_by": Function(
        lambda m: lambda: pb.par_partition_by(m.a, m.mask),
        lambda m: lambda: (m.a[m.mask], m.a[~m.mask]),
    ),
    "flatnonzero": Function(
        lambda m: lambda: pb.par_flatnonzero(m.mask),
        lambda m: lambda: np.flatnonzero(m.mask),
        ("float64",),
    ),
    "sum": same("sum", DTYPES),
    "reduce multiply": Function(
        lambda m: lambda: pb.par_reduce(np.multiply, m.a), lambda m: lambda: np.multiply.reduce(m.a)
    ),
    "reduceat": Function(lambda m: reduceat(m, True), lambda m: reduceat(m, False)),
    "prod": same("prod"),
    "min": same("min", DTYPES),
    "max": same("max", DTYPES),
    "minmax": Function(
        lambda m: lambda: pb.par_minmax(m.a), lambda m: lambda: (m.a.min(), m.a.max())
    ),
    "mean": same("mean"),
    "var": same("var"),
    "std": same("std"),
    "nansum": same("nansum", FLOATS),
    "nanmin": same("nanmin", FLOATS),
    "nanmax": same("nanmax", FLOATS),
    "argmin": same("argmin"),
    "argmax": same("argmax"),
    "any, of none": Function(
        lambda m: lambda: pb.par_any(equal(m, 0)), lambda m: lambda: np.any(equal(m, 0)), DTYPES
    ),
    "all": Function(
        lambda m: lambda: pb.par_all(equal(m, 1)), lambda m: lambda: np.all(equal(m, 1)), DTYPES
    ),
    "count_nonzero": same("count_nonzero", DTYPES),
    "dot": Function(
        lambda m: lambda: pb.par_dot(m.a, m.b), lambda m: lambda: np.dot(m.a, m.b), pause=0.005
    ),
    "cumsum": same("cumsum"),
    # Near 1, for products that stay numbers.
    "cumprod": Function(
        lambda m: (lambda x: lambda: pb.par_cumprod(x))(near_one(m)),
        lambda m: (lambda x: lambda: np.cumprod(x))(near_one(m)),
    ),
    "scan maximum": Function(
        lambda m: lambda: pb.par_scan(np.maximum, m.a),
        lambda m: lambda: np.maximum.accumulate(m.a),
    ),
    "find_first, of none": Function(
        lambda m: lambda: pb.par_find_first(m.a, 2),
        lambda m: lambda: (m.a == 2).any() and m.a[(m.a == 2).argmax()],
    ),
    "find_last, of none": Function(
        lambda m: lambda: pb.par_find_last(m.a, 2),
        lambda m: lambda: (m.a == 2).any() and m.a[m.a.size - 1 - (m.a == 2)[::-1].argmax()],
    ),
    "find_any, of none": Function(
        lambda m: lambda: pb.par_find_any(m.a, 2),
        lambda m: lambda: (m.a == 2).any() and m.a[(m.a == 2).argmax()],
    ),
    "position, of none": Function(
        lambda m: lambda: pb.par_position(m.a, 2),
        lambda m: lambda: int((m.a == 2).argmax()) if (m.a == 2).any() else None,
    ),
    "is_sorted": Function(
        lambda m: lambda: pb.par_is_sorted(m.ordered),
        lambda m: lambda: bool((m.ordered[1:] >= m.ordered[:-1]).all()),
    ),
    "sort": same("sort", DTYPES),
    "sort, stable": Function(
        lambda m: lambda: pb.par_sort(m.a, kind="stable"),
        lambda m: lambda: np.sort(m.a, kind="stable"),
    ),
    "argsort": same("argsort"),
    "argsort, stable": Function(
        lambda m: lambda: pb.par_argsort(m.a, kind="stable"),
        lambda m: lambda: np.argsort(m.a, kind="stable"),
    ),
    "lexsort": Function(
        lambda m: lambda: pb.par_lexsort([m.a, m.few]), lambda m: lambda: np.lexsort([m.a, m.few])
    ),
    "sort_by_key": Function(
        lambda m: lambda: pb.par_sort_by_key(m.a, m.b),
        lambda m: lambda: (lambda order: (m.a[order], m.b[order]))(np.argsort(m.a, kind="stable")),
    ),
    "rank": Function(lambda m: lambda: pb.par_rank(m.a), lambda m: lambda: numpys_rank(m.a)),
    "partition": Function(
        lambda m: lambda: pb.par_partition(m.a, m.a.size // 2),
        lambda m: lambda: np.partition(m.a, m.a.size // 2),
    ),
    "argpartition": Function(
        lambda m: lambda: pb.par_argpartition(m.a, m.a.size // 2),
        lambda m: lambda: np.argpartition(m.a, m.a.size // 2),
    ),
    "topk": Function(
        lambda m: lambda: pb.par_topk(m.a, topk(m)),
        lambda m: lambda: numpys_topk(m.a, topk(m)),
    ),
    "topk, in order": Function(
        lambda m: lambda: pb.par_topk(m.ordered, topk(m)),
        lambda m: lambda: numpys_topk(m.ordered, topk(m)),
    ),
    "merge": Function(
        lambda m: lambda: pb.par_merge(m.ordered, m.other),
        lambda m: lambda: np.sort(np.concatenate([m.ordered, m.other]), kind="stable"),
    ),
    "unique": same("unique", DTYPES),
    "group_by": Function(lambda m: lambda: pb.par_group_by(m.few), numpys_group_by, ("int64",)),
    "isin": Function(
        lambda m: lambda: pb.par_isin(m.a, m.b[:1000]), lambda m: lambda: np.isin(m.a, m.b[:1000])
    ),
    "searchsorted": Function(
        lambda m: lambda: pb.par_searchsorted(m.ordered, m.b),
        lambda m: lambda: np.searchsorted(m.ordered, m.b),
    ),
    "digitize": Function(
        lambda m: digitized(m, pb.par_digitize), lambda m: digitized(m, np.digitize)
    ),
    "bincount": Function(
        lambda m: lambda: pb.par_bincount(m.few), lambda m: lambda: np.bincount(m.few), ("int64",)
    ),
    "histogram": same("histogram"),
}


def equal(m: Made, value: int) -> Any:
    """As many as there are items, all of them this."""
    return all_of(value, m.a.size, m.a.dtype)


@functools.lru_cache(2)
def all_of(value: int, n: int, dtype: Any) -> Any:
    return np.full(n, value, dtype)


# ---- one process: a level, and a number of threads ---------------------------


def timed(call: Call, times: int) -> float:
    """Seconds of one call."""
    begun = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begun) / times


def in_turn(calls: list[Call]) -> Call:
    """One of them at a time."""
    if len(calls) == 1:
        return calls[0]
    following = itertools.cycle(calls).__next__
    return lambda: following()()


class Cell:
    """Least seconds of either, in turn."""

    def __init__(self, calls: dict[str, Call], pause: float) -> None:
        self.calls = calls
        self.pause = pause
        once = {who: timed(call, 1) for who, call in calls.items()}
        if max(once.values()) < SECONDS:  # else the first call is as good as any
            once = {who: timed(call, 1) for who, call in calls.items()}
        self.least = dict(once)
        batch = LONG_BATCH if pause else BATCH
        self.times = {
            who: max(1, math.ceil(batch / max(seconds, 1e-7))) for who, seconds in once.items()
        }
        self.turn = 0

    def measure(self, turns: int, seconds: float) -> None:
        begun = time.perf_counter()
        if sum(self.least.values()) > SECONDS and not self.red():
            return
        for _ in range(turns):
            self.turn += 1
            order = list(self.calls)
            for who in order if self.turn % 2 else reversed(order):
                if self.pause:
                    machine.rest(self.pause)
                took = timed(self.calls[who], self.times[who])
                self.least[who] = min(self.least[who], took)
            if time.perf_counter() - begun > seconds and not self.red():
                break

    def red(self) -> bool:
        return is_red(self.least["numpy"], self.least["ours"])


def is_red(numpys: float, ours: float) -> bool:
    """Seconds of either."""
    return numpys / ours < ENOUGH and ours - numpys > ADDED


def measured(only: str, most: int) -> Iterator[Row]:
    """A row for each function and dtype: nanoseconds by the logarithm of the size."""
    for dtype in DTYPES:
        names = [k for k, f in FUNCTIONS.items() if re.search(only, k) and dtype in f.dtypes]
        rows: dict[str, Row] = {
            name: {"name": name, "dtype": dtype, "numpy": [], "ours": []} for name in names
        }
        for size in range(LEAST, most + 1):
            several = [made(1 << size, dtype) for _ in range(SEVERAL if size <= FEW else 1)]
            for name in names:
                function = FUNCTIONS[name]
                cell = Cell(
                    {
                        "numpy": in_turn([function.numpys(m) for m in several]),
                        "ours": in_turn([function.ours(m) for m in several]),
                    },
                    function.pause,
                )
                cell.measure(TURNS, SECONDS)
                for _ in range(2):
                    if cell.red():
                        cell.measure(2 * TURNS, 4 * SECONDS)
                # What comes next is not to be measured beside threads that spin.
                if function.pause:
                    machine.rest(function.pause)
                rows[name]["numpy"].append(round(cell.least["numpy"] * 1e9))
                rows[name]["ours"].append(round(cell.least["ours"] * 1e9))
        yield from rows.values()


# ---- all of them -------------------------------------------------------------


def children(only: str, most: int, levels: list[str]) -> Iterator[Row]:
    for level in levels:
        for threads in THREADS:
            environment = {
                **os.environ,
                "PYBLITZ_NUM_THREADS": str(threads),
                "OMP_NUM_THREADS": str(threads),
                "OPENBLAS_NUM_THREADS": str(threads),
            }
            environment.pop("NPY_DISABLE_CPU_FEATURES", None)
            if LEVELS[level]:
                environment["NPY_DISABLE_CPU_FEATURES"] = LEVELS[level]
            done = subprocess.run(
                [sys.executable, __file__, "--child", "--only", only, "--most", str(most)],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            for line in done.stdout.splitlines():
                yield {"level": level, "threads": threads, **json.loads(line)}


def ratios(rows: list[Row]) -> list[float]:
    return [a / b for r in rows for a, b in zip(r["numpy"], r["ours"], strict=True)]


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def red_cells(rows: list[Row]) -> list[Row]:
    """The worst one first."""
    found = [
        {**{k: r[k] for k in ("level", "threads", "name", "dtype")}, "size": LEAST + i,
         "numpy": a, "ours": b}
        for r in rows
        for i, (a, b) in enumerate(zip(r["numpy"], r["ours"], strict=True))
        if is_red(a / 1e9, b / 1e9)
    ]  # fmt: skip
    return sorted(found, key=lambda cell: cell["numpy"] / cell["ours"])


def report(rows: list[Row]) -> None:
    for level in LEVELS:
        for threads in THREADS:
            here = [r for r in rows if (r["level"], r["threads"]) == (level, threads)]
            if here:
                print(
                    f"{level}, {threads} thread{'s' * (threads > 1)}: NumPy's time over ours, "
                    f"geometric mean {geometric_mean(ratios(here)):.2f}; "
                    f"{len(red_cells(here))} red of {len(ratios(here))} cells"
                )
    for cell in red_cells(rows)[:40]:
        print(
            f"{cell['level']} {cell['threads']} {cell['name']:22} {cell['dtype']:8} "
            f"2^{cell['size']:<3} {cell['numpy'] / 1e3:12.2f} us {cell['ours'] / 1e3:12.2f} us "
            f"{cell['numpy'] / cell['ours']:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Every function beside NumPy, at every size.")
    parser.add_argument("--only", default="", help="names of functions: a regular expression")
    parser.add_argument("--most", type=int, default=MOST, help="the largest size, as a logarithm")
    parser.add_argument("--levels", default=",".join(LEVELS), help="v4, v3, v2: all by default")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        for row in measured(options.only, options.most):
            print(json.dumps(row), flush=True)
        return
    facts = machine.facts()
    has = facts["levels"]
    rows = list(
        children(options.only, options.most, [k for k in options.levels.split(",") if k in has])
    )
    report(rows)
    output = options.output
    if output is None and not options.only and options.most == MOST:
        output = machine.results_here("never_slower")
    if output is None:
        print("not written: --output says where to, for a part of it")
    else:
        machine.write(output, rows, facts)


if __name__ == "__main__":
    main()
