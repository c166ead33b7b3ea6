"""python benchmarks/sorting.py: the sorts beside NumPy, Polars, torch, pyarrow, pandas, oneTBB,
libstdc++'s parallel mode and Rayon.

Writes benchmarks/results/sorting/<the processor>.jsonl and prints it as a table, in some twelve
minutes and 8 GB; ``--quick``, ``--only NAME`` and ``--output`` are those of library.py, and so are
the rows: two threads for everyone, all contestants of a row in one process, in turn, each result
compared with NumPy's first.  A peer that takes longer than a second has one run.  The native
peers are shared libraries that are compiled here (peers/sorts.h): what does not build has no
column.  They sort in place, so that a copy is made for them, as np.sort and par_sort do.  No
array has a NaN: the peers differ in where it goes.  The parts, by ``what``:

- random: par_sort of random integers of the whole range and of floats in [0, 1), 10^3 to 10^8;
  at 10^8 with the fastest of the peers only.
- dtypes: par_sort of the dtypes that have a way of their own; strings at 10^6.  Polars and
  pyarrow give bools as NumPy's bytes; "Polars, bits" does not, and is no peer.
- patterns: par_sort of int64 that are sorted, reversed, all equal, 16 distinct, 1,000 distinct,
  sorted but for 1 % of them at random places, and Zipf's (exponent 1.5); and of float64 that are
  normally distributed.
- stable: par_sort(a, kind="stable").
- argsort: par_argsort, plain and stable.
- unique: par_unique.  The peers may give the values in any order, which is less work.
- lexsort: par_lexsort of int32 of 100 values, int64 of 1,000 values and random float64.
- group_by: order, starts and counts of groups of int64.  NumPy: a stable argsort and where
  neighbours differ.  pandas: groupby().indices.  Polars: row numbers by group, in any order.
- rows: par_sort of 1,000 rows.
- relatives: par_partition, par_argpartition, par_topk (100), par_isin (in a hundredth as many),
  par_merge (of two halves), par_rank, par_sort_by_key and par_searchsorted (in 10^5), beside
  the shortest way there is in NumPy.
- small: what each adds to NumPy's time at 10, 100 and 1,000 elements.
- memory: the peak of an in-place par_sort over the memory before.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import contest  # before NumPy: it says how many threads there are
import numpy as np
from contest import (
    ARROW,
    BITS,
    NUMPY,
    PANDAS,
    POLARS,
    PYBLITZ,
    TORCH,
    Contest,
    Data,
    Goal,
    Measured,
    Row,
    best_peer,
    child,
    entrants,
    extra,
    goal,
    over,
    pb,
    peers,
    row,
    small_row,
)
from peers import peers as programs

TBB, GNU, RAYON, SCIPY = "TBB", "GNU parallel", "Rayon", "SciPy"
VERSIONS = ("polars", "torch", "pyarrow", "pandas", "scipy")
LEVEL = round(1 / 1.05, 4)  # not behind by more than 5 %
RANDOM = ("int64", "float64", "int32", "float32")
STRINGS = ("S16", "U8")
DTYPES = ("int8", "uint8", "int16", "bool", "datetime64[us]", "complex128", *STRINGS)
FASTEST = (PYBLITZ, NUMPY, POLARS, RAYON)
TOP = 100
RNG = np.random.default_rng(2026)

Table = Mapping[str, Callable[..., Any]]


class Effort(contest.Effort):
    """How long it may take, and how large the arrays are."""

    def __init__(self, quick: bool) -> None:
        super().__init__(quick)
        self.seconds = 0.1 if quick else 1.5
        self.once = 1.0
        self.block = 0.002 if quick else contest.BLOCK
        self.sizes = [10**k for k in (range(3, 6) if quick else range(3, 8))]
        self.large = 10**5 if quick else 10**7
        self.huge = 10**6 if quick else 10**8
        self.strings = 10**5 if quick else 10**6
        self.memory = 10**7 if quick else 10**8


# ---- the native peers -------------------------------------------------------


class Natives:
    """The libraries of peers/, compiled when first asked for."""

    @cached_property
    def _built(self) -> tuple[dict[str, Any], dict[str, str]]:
        with tempfile.TemporaryDirectory() as scratch:
            built = programs.libraries(pathlib.Path(scratch))
            loaded, missing = {}, dict(built.missing)
            for name, path in built.programs.items():
                try:
                    library: Any = ctypes.CDLL(str(path))
                except OSError as error:
                    missing[name] = str(error)
                    continue
                library.sort_items.argtypes = [
                    ctypes.c_char_p,
                    ctypes.c_void_p,
                    ctypes.c_size_t,
                    ctypes.c_int,
                ]
                library.sort_version.restype = ctypes.c_char_p
                loaded[name] = library
        return loaded, missing

    def sorts(self, a: Data, stable: bool = False) -> dict[str, Callable[[], Any]]:
        """Of those that can."""
        loaded = {k: v for k, v in self._built[0].items() if not (stable and k == TBB)}
        return {
            name: partial(self._sort, library, a.np, stable) for name, library in loaded.items()
        }

    def versions(self) -> dict[str, str]:
        loaded, missing = self._built
        said = {
            name: library.sort_version().decode().removeprefix(f"{name} ")
            for name, library in loaded.items()
        }
        return {**said, **{name: f"not built: {why}" for name, why in missing.items()}}

    @staticmethod
    def _sort(library: Any, array: Any, stable: bool) -> Any:
        out = array.copy()
        dtype = "int64" if out.dtype.kind == "M" else out.dtype.name
        if out.dtype.kind in "SU":
            dtype = out.dtype.str[1:]
        if library.sort_items(dtype.encode(), out.ctypes.data, out.size, stable):
            raise TypeError(f"no sort of {dtype}")
        return out


natives = Natives()


# ---- data and results -------------------------------------------------------


class Columns:
    """Columns of one length, as each peer wants them together."""

    def __init__(self, **columns: Any) -> None:
        self.np: dict[str, Any] = columns

    @cached_property
    def torch(self) -> dict[str, Any]:
        return {name: peers.torch.from_numpy(x) for name, x in self.np.items()}

    @cached_property
    def polars(self) -> Any:
        return peers.polars.DataFrame(self.np)

    @cached_property
    def arrow(self) -> Any:
        return peers.arrow.table(self.np)

    @cached_property
    def pandas(self) -> Any:
        return peers.pandas.DataFrame(self.np)


def ready(names: Sequence[str], *data: Data | Columns) -> None:
    """Makes what the peers want of the data, so that a first run has nothing to convert."""
    ways = {POLARS: "polars", BITS: "polars", TORCH: "torch", ARROW: "arrow", PANDAS: "pandas"}
    for name in names:
        for x in data:
            if name in ways:
                with contextlib.suppress(Exception):  # comes again when it is asked for
                    getattr(x, ways[name])
    if ARROW in names:
        _ = peers.compute


def arrays(result: Any) -> list[Any]:
    """The result, or its columns, as NumPy's arrays."""
    if isinstance(result, tuple):
        return [np.asarray(x) for x in result]
    if hasattr(result, "get_columns"):
        return [np.asarray(x) for x in result.get_columns()]
    if hasattr(result, "column_names"):
        return [np.asarray(x) for x in result.columns]
    if hasattr(result, "columns"):
        return [np.asarray(result[name]) for name in result.columns]
    return [np.asarray(result)]


def differ(got: list[Any], wanted: list[Any]) -> str | None:
    if len(got) != len(wanted):
        return f"wrong: {len(got)} arrays for {len(wanted)}"
    for g, w in zip(got, wanted, strict=True):
        if g.shape != w.shape:
            return f"wrong: shape {g.shape} for {w.shape}"
        if not np.array_equal(g.astype(w.dtype) if g.dtype.kind in "OT" else g, w):
            return "wrong: values differ from NumPy's"
    return None


def measured(
    contest_: Contest,
    effort: Effort,
    read: Callable[[Any], list[Any]] = arrays,
    slow_rounds: int = 3,
) -> Measured:
    return contest.measure(
        contest_,
        effort,
        read=read,
        agree=differ,
        once=effort.once,
        slow_rounds=slow_rounds,
        block=effort.block,
    )


def joined(table: Table, *data: Data | Columns) -> dict[str, Callable[[], Any]]:
    """The contest of those of the table who are here."""
    found = entrants(table, *data)
    ready(list(found), *data)
    return found


def goals_of(found: Measured, **least: float) -> list[Goal]:
    """numpy=, polars=...: how many times as fast as these; peer=: as the best.  Who is not
    here is no goal."""
    names = {"numpy": NUMPY, "polars": POLARS, "torch": TORCH, "pandas": PANDAS}
    made = []
    for key, limit in least.items():
        if key == "peer":
            made.append(goal("x best peer", over(found, best_peer(found)), limit))
        elif key == "numpy" or peers.has(names[key]):
            made.append(goal(f"x {names[key]}", over(found, names[key]), limit))
    return made


def random(dtype: str, n: int) -> Any:
    if dtype.startswith("float"):
        return RNG.random(n, np.dtype(dtype).type)
    if dtype == "complex128":
        return RNG.random(n) + 1j * RNG.random(n)
    if dtype == "bool":
        return RNG.random(n) < 0.5
    if dtype.startswith("datetime64"):
        return RNG.integers(0, 2**50, n).astype(dtype)
    if dtype in STRINGS:
        length = int(dtype[1:])
        letters = RNG.integers(ord("a"), ord("z") + 1, n * length)
        return letters.astype("uint8" if dtype[0] == "S" else "uint32").view(dtype)
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, n, dtype, endpoint=True)


# ---- sorts ------------------------------------------------------------------

SORT: Table = {
    PYBLITZ: lambda a: pb.par_sort(a.np),
    NUMPY: lambda a: np.sort(a.np),
    POLARS: lambda a: a.polars.sort(),
    TORCH: lambda a: a.torch.sort().values,
    ARROW: lambda a: peers.compute.take(a.arrow, peers.compute.array_sort_indices(a.arrow)),
    PANDAS: lambda a: a.pandas.sort_values(),
}
# Polars and pyarrow have a bit for each bool, which is no array that NumPy's users can use.
BOOLS: Table = {
    **SORT,
    POLARS: lambda a: a.polars.sort().to_numpy(),
    BITS: lambda a: a.polars.sort(),
    ARROW: lambda a: SORT[ARROW](a).to_numpy(zero_copy_only=False),
}
# What these do not sort.
LACKING = {
    POLARS: ("complex128",),
    TORCH: ("datetime64[us]", "complex128", *STRINGS),
    ARROW: ("complex128",),
}


def sort_row(
    what: str,
    name: str,
    array: Any,
    effort: Effort,
    least: Mapping[str, float],
    who: Sequence[str] | None = None,
    rounds: int = 3,
) -> Row:
    a, dtype = Data(array), str(array.dtype)
    if array.dtype.kind in "SU":
        dtype = array.dtype.str[1:]
    table = {
        k: f
        for k, f in (BOOLS if dtype == "bool" else SORT).items()
        if dtype not in LACKING.get(k, ()) and (who is None or k in who)
    }
    sorts = {k: f for k, f in natives.sorts(a).items() if who is None or k in who}
    found = measured({**joined(table, a), **sorts}, effort, slow_rounds=rounds)
    return row(what, name, array.size, dtype.split("[")[0], found, goals_of(found, **least))


def least_of(dtype: str, n: int) -> dict[str, float]:
    """What two threads are to reach with random numbers."""
    if n < 10**5:
        return {}
    small = 1.5 if np.dtype(dtype).itemsize == 8 else 1.2
    return {"numpy": {10**5: small, 10**6: 1.8}.get(n, 2.0), "peer": 1.0}


def random_rows(effort: Effort) -> Iterator[Row]:
    for dtype in RANDOM:
        for n in effort.sizes:
            least = least_of(dtype, n)
            yield sort_row("random", "par_sort(a)", random(dtype, n), effort, least)
        if dtype in RANDOM[:2]:
            a = random(dtype, effort.huge)
            least = least_of(dtype, effort.huge)
            patient = Effort(effort.quick)
            patient.once = float(10**3)
            yield sort_row("random", "par_sort(a)", a, patient, least, FASTEST, rounds=2)


def held_child(effort: Effort) -> Iterator[Row]:
    """One thread beside NumPy, then two beside the fastest."""
    for dtype in RANDOM:
        for n in effort.sizes:
            a = random(dtype, n)
            with pb.threads(1):
                one = (PYBLITZ, NUMPY)
                yield sort_row("held", "one thread", a, effort, {"numpy": 1.0}, one)
            yield sort_row("held", "par_sort(a)", a, effort, least_of(dtype, n), FASTEST)


def held_rows(effort: Effort) -> Iterator[Row]:
    """NumPy with AVX2's kernels, as on most laptops and older AMD."""
    quick = ["--quick"] if effort.quick else []
    held = {"NPY_DISABLE_CPU_FEATURES": "X86_V4"}
    yield from child("sorting.py", "--child", "held", *quick, environment=held)


def dtypes_rows(effort: Effort) -> Iterator[Row]:
    for dtype in DTYPES:
        n = effort.strings if dtype in STRINGS else effort.large
        least = {"numpy": 3.0, "peer": 1.0}
        yield sort_row("dtypes", "par_sort(a)", random(dtype, n), effort, least)


def nearly(n: int) -> Any:
    """Sorted, and then 1 % of the places exchange what they hold."""
    a = np.sort(random("int64", n))
    places = RNG.permutation(n)[: n // 100]
    a[places] = a[RNG.permutation(places)]
    return a


PATTERNS: dict[str, Callable[[int], Any]] = {
    "sorted": lambda n: np.sort(random("int64", n)),
    "reverse": lambda n: np.sort(random("int64", n))[::-1].copy(),
    "equal": lambda n: np.full(n, 7, "int64"),
    "16 distinct": lambda n: random("int64", 16)[RNG.integers(0, 16, n)],
    "1,000 distinct": lambda n: RNG.integers(0, 1000, n),
    "nearly sorted": nearly,
    "Zipf": lambda n: RNG.zipf(1.5, n),
    "normal": lambda n: RNG.standard_normal(n),
}


def patterns_rows(effort: Effort) -> Iterator[Row]:
    for name, make in PATTERNS.items():
        yield sort_row("patterns", name, make(effort.large), effort, {"peer": LEVEL})


STABLE: Table = {
    PYBLITZ: lambda a: pb.par_sort(a.np, kind="stable"),
    NUMPY: lambda a: np.sort(a.np, kind="stable"),
    TORCH: lambda a: a.torch.sort(stable=True).values,
    PANDAS: lambda a: a.pandas.sort_values(kind="stable"),
}


def stable_rows(effort: Effort) -> Iterator[Row]:
    for dtype in RANDOM[:2]:
        a = Data(random(dtype, effort.large))
        found = measured({**joined(STABLE, a), **natives.sorts(a, stable=True)}, effort)
        name = 'par_sort(a, kind="stable")'
        yield row("stable", name, effort.large, dtype, found, goals_of(found, numpy=4.0))


def rows_rows(effort: Effort) -> Iterator[Row]:
    table: Table = {
        PYBLITZ: lambda a: pb.par_sort(a.np),
        NUMPY: lambda a: np.sort(a.np),
        TORCH: lambda a: a.torch.sort(dim=-1).values,
    }
    for dtype in RANDOM[:2]:
        a = Data(random(dtype, effort.large).reshape(1000, -1))
        found = measured(joined(table, a), effort)
        name = "par_sort(a), {} x {}".format(*a.np.shape)
        yield row("rows", name, effort.large, dtype, found, goals_of(found, numpy=1.9))


# ---- orders -----------------------------------------------------------------

ARGSORT: dict[str, Table] = {
    "par_argsort(a)": {
        PYBLITZ: lambda a: pb.par_argsort(a.np),
        NUMPY: lambda a: np.argsort(a.np),
        POLARS: lambda a: a.polars.arg_sort(),
        TORCH: lambda a: a.torch.argsort(),
        ARROW: lambda a: peers.compute.array_sort_indices(a.arrow),
    },
    'par_argsort(a, kind="stable")': {
        PYBLITZ: lambda a: pb.par_argsort(a.np, kind="stable"),
        NUMPY: lambda a: np.argsort(a.np, kind="stable"),
        POLARS: lambda a: a.polars.to_frame().select(
            peers.polars.arg_sort_by("a", maintain_order=True)
        ),
        TORCH: lambda a: a.torch.argsort(stable=True),
        ARROW: lambda a: peers.compute.array_sort_indices(a.arrow),
    },
}


def argsort_rows(effort: Effort) -> Iterator[Row]:
    for dtype in RANDOM[:2]:
        a = Data(random(dtype, effort.large))

        def values(result: Any, array: Any = a.np) -> list[Any]:
            """Of equal ones a sort that is not stable may take any first."""
            return [array[arrays(result)[0]]]

        for name, table in ARGSORT.items():
            found = measured(joined(table, a), effort, arrays if "stable" in name else values)
            goals = goals_of(found, numpy=4.0, torch=1.0, polars=1.0)
            yield row("argsort", name, effort.large, dtype, found, goals)


LEXSORT: Table = {
    PYBLITZ: lambda c: pb.par_lexsort((c.np["z"], c.np["y"], c.np["x"])),
    NUMPY: lambda c: np.lexsort((c.np["z"], c.np["y"], c.np["x"])),
    POLARS: lambda c: c.polars.select(peers.polars.arg_sort_by("x", "y", "z")),
    ARROW: lambda c: peers.compute.sort_indices(
        c.arrow, sort_keys=[(name, "ascending") for name in "xyz"]
    ),
    PANDAS: lambda c: c.pandas.sort_values(["x", "y", "z"]).index,
}


def lexsort_rows(effort: Effort) -> Iterator[Row]:
    n = effort.large
    columns = Columns(
        x=RNG.integers(0, 100, n, "int32"), y=RNG.integers(0, 1000, n), z=RNG.random(n)
    )
    found = measured(joined(LEXSORT, columns), effort)
    goals = goals_of(found, numpy=3.0, polars=1.0)
    yield row("lexsort", "par_lexsort((z, y, x))", n, "mixed", found, goals)


def numpy_group_by(keys: Any) -> tuple[Any, Any, Any]:
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1])
    return order, starts, np.diff(starts, append=keys.size)


GROUP_BY: Table = {
    PYBLITZ: lambda c: tuple(pb.par_group_by(c.np["k"])),
    NUMPY: lambda c: numpy_group_by(c.np["k"]),
    POLARS: lambda c: c.polars.lazy().with_row_index().group_by("k").agg("index").collect(),
    PANDAS: lambda c: c.pandas.groupby("k").indices,
}


def groups(result: Any) -> list[Any]:
    """(order, starts, counts) of anyone's groups, in the order of their keys."""
    if isinstance(result, tuple):
        return arrays(result)
    if isinstance(result, dict):
        parts = [result[key] for key in sorted(result)]
        order, counts = np.concatenate(parts), np.array([len(part) for part in parts])
    else:
        result = result.sort("k")
        order = np.asarray(result["index"].explode())
        counts = np.asarray(result["index"].list.len()).astype(np.intp)
    return [order, np.cumsum(counts) - counts, counts]


def group_by_rows(effort: Effort) -> Iterator[Row]:
    n = effort.large
    for distinct in (1000, n // 10):
        columns = Columns(k=random("int64", distinct)[RNG.integers(0, distinct, n)])
        found = measured(joined(GROUP_BY, columns), effort, groups)
        goals = goals_of(found, numpy=3.0, pandas=3.0, polars=1.0)
        name = f"par_group_by(k), {distinct:,} keys"
        yield row("group_by", name, n, "int64", found, goals)


# ---- relatives --------------------------------------------------------------

UNIQUE: Table = {
    PYBLITZ: lambda a: pb.par_unique(a.np),
    NUMPY: lambda a: np.unique(a.np),
    POLARS: lambda a: a.polars.unique(),
    TORCH: lambda a: a.torch.unique(),
    ARROW: lambda a: peers.compute.unique(a.arrow),
    PANDAS: lambda a: a.pandas.unique(),
}
UNIQUE_ALL: Table = {
    PYBLITZ: lambda a: pb.par_unique(a.np, return_inverse=True, return_counts=True),
    NUMPY: lambda a: np.unique(a.np, return_inverse=True, return_counts=True),
    TORCH: lambda a: a.torch.unique(return_inverse=True, return_counts=True),
}


def in_order(result: Any) -> list[Any]:
    return [np.sort(x) for x in arrays(result)]


def unique_rows(effort: Effort) -> Iterator[Row]:
    n = effort.large
    few = random("int64", 1000)[RNG.integers(0, 1000, n)]
    for name, array in (("all distinct", random("int64", n)), ("1,000 distinct", few)):
        found = measured(joined(UNIQUE, Data(array)), effort, in_order)
        goals = goals_of(found, numpy=1.0, polars=1.0, pandas=1.0)
        yield row("unique", f"par_unique(a), {name}", n, "int64", found, goals)
    found = measured(joined(UNIQUE_ALL, Data(few)), effort)
    name = "par_unique(a), inverse and counts"
    yield row("unique", name, n, "int64", found, goals_of(found, numpy=1.0))


def numpy_topk(a: Any) -> tuple[Any, Any]:
    best = np.argpartition(a, a.size - TOP)[a.size - TOP :]
    best = best[np.argsort(a[best])[::-1]]
    return a[best], best


def numpy_rank(a: Any) -> Any:
    """The mean of the places of all that are equal, from 1 on."""
    order, starts, counts = numpy_group_by(a)
    ranks = np.empty(a.size)
    ranks[order] = np.repeat(starts + (counts + 1) / 2, counts)
    return ranks


def numpy_sort_by_key(k: Any, v: Any) -> tuple[Any, Any]:
    order = np.argsort(k)
    return k[order], v[order]


def torch_sort_by_key(k: Any, v: Any) -> tuple[Any, Any]:
    ordered = k.sort()
    return ordered.values, v[ordered.indices]


def parted(values: Any) -> list[Any]:
    """What every partition at the middle has in common."""
    middle = values.size // 2
    low, high = values[:middle], values[middle + 1 :]
    apart = low.max() <= values[middle] <= high.min()
    return [values[middle], np.asarray(apart), np.asarray(np.bitwise_xor.reduce(values))]


def relatives(n: int) -> Iterator[tuple[str, Table, tuple[Any, ...], Callable[[Any], list[Any]]]]:
    """(name, contestants, data, what of a result is compared)."""
    a = Data(random("int64", n))
    middle = n // 2
    yield (
        "par_partition(a, n // 2)",
        {
            PYBLITZ: lambda a: pb.par_partition(a.np, middle),
            NUMPY: lambda a: np.partition(a.np, middle),
        },
        (a,),
        lambda r: parted(np.asarray(r)),
    )
    yield (
        "par_argpartition(a, n // 2)",
        {
            PYBLITZ: lambda a: pb.par_argpartition(a.np, middle),
            NUMPY: lambda a: np.argpartition(a.np, middle),
        },
        (a,),
        lambda r: parted(a.np[r]),
    )
    yield (
        f"par_topk(a, {TOP})",
        {
            PYBLITZ: lambda a: tuple(pb.par_topk(a.np, TOP)),
            NUMPY: lambda a: numpy_topk(a.np),
            POLARS: lambda a: a.polars.top_k(TOP),
            TORCH: lambda a: a.torch.topk(TOP),
            ARROW: lambda a: peers.compute.take(
                a.arrow, peers.compute.top_k_unstable(a.arrow, TOP)
            ),
            PANDAS: lambda a: a.pandas.nlargest(TOP),
        },
        (a,),
        lambda r: [np.sort(arrays(r)[0])],
    )
    some = np.concatenate([random("int64", n // 200), RNG.choice(a.np, n // 200)])
    yield (
        "par_isin(a, some)",
        {
            PYBLITZ: lambda a, b: pb.par_isin(a.np, b.np),
            NUMPY: lambda a, b: np.isin(a.np, b.np),
            POLARS: lambda a, b: a.polars.is_in(b.polars.implode()),
            TORCH: lambda a, b: peers.torch.isin(a.torch, b.torch),
            ARROW: lambda a, b: peers.compute.is_in(a.arrow, value_set=b.arrow),
            PANDAS: lambda a, b: a.pandas.isin(b.np),
        },
        (a, Data(some)),
        arrays,
    )
    halves = (Columns(k=np.sort(random("int64", n // 2))) for _ in range(2))
    yield (
        "par_merge(a, b)",
        {
            PYBLITZ: lambda a, b: pb.par_merge(a.np["k"], b.np["k"]),
            NUMPY: lambda a, b: np.sort(np.concatenate([a.np["k"], b.np["k"]]), kind="stable"),
            POLARS: lambda a, b: a.polars.merge_sorted(b.polars, "k"),
        },
        tuple(halves),
        arrays,
    )
    stats = contest.optional("scipy.stats")
    rank: dict[str, Callable[..., Any]] = {
        PYBLITZ: lambda a: pb.par_rank(a.np),
        NUMPY: lambda a: numpy_rank(a.np),
        POLARS: lambda a: a.polars.rank("average"),
        PANDAS: lambda a: a.pandas.rank(),
    }
    if stats is not None:
        rank[SCIPY] = lambda a: stats.rankdata(a.np)
    yield "par_rank(a)", rank, (Data(RNG.integers(0, n // 10, n)),), arrays
    yield (
        "par_sort_by_key(k, v)",
        {
            PYBLITZ: lambda c: tuple(pb.par_sort_by_key(c.np["k"], c.np["v"])),
            NUMPY: lambda c: numpy_sort_by_key(c.np["k"], c.np["v"]),
            POLARS: lambda c: c.polars.sort("k"),
            TORCH: lambda c: torch_sort_by_key(c.torch["k"], c.torch["v"]),
            ARROW: lambda c: c.arrow.sort_by("k"),
            PANDAS: lambda c: c.pandas.sort_values("k"),
        },
        (Columns(k=a.np, v=RNG.random(n)),),
        arrays,
    )
    yield (
        "par_searchsorted(sorted, a)",
        {
            PYBLITZ: lambda s, a: pb.par_searchsorted(s.np, a.np),
            NUMPY: lambda s, a: np.searchsorted(s.np, a.np),
            POLARS: lambda s, a: s.polars.search_sorted(a.polars, side="left"),
            TORCH: lambda s, a: peers.torch.searchsorted(s.torch, a.torch),
        },
        (Data(np.sort(random("int64", min(n, 10**5)))), a),
        arrays,
    )


def relatives_rows(effort: Effort) -> Iterator[Row]:
    for name, table, data, read in relatives(effort.large):
        found = measured(joined(table, *data), effort, read)
        yield row("relatives", name, effort.large, "int64", found, goals_of(found, peer=1.0))


# ---- small arrays and memory ------------------------------------------------


def small_rows(effort: Effort) -> Iterator[Row]:
    for n in (10, 100, 1000):
        a, b = random("int64", n), random("int64", n)
        calls: dict[str, tuple[Any, ...]] = {
            "sort": (a,),
            "argsort": (a,),
            "unique": (a,),
            "lexsort": ((b, a),),
            "partition": (a, n // 2),
            "isin": (a, b),
        }
        for name, args in calls.items():

            def ours(name: str = name, args: tuple[Any, ...] = args) -> Any:
                return getattr(pb, "par_" + name)(*args)

            numpys = partial(getattr(np, name), *args)
            yield small_row("par_" + name, n, "int64", ours, numpys, effort)


def memory_child(effort: Effort) -> Row:
    """In a process of its own, with nothing in it but the array."""
    n = effort.memory
    rng = np.random.default_rng(2026)
    made: Row = {"what": "memory", "name": "par_sort(a, out=a)", "n": n, "dtype": "int64"}
    value = None
    try:
        a = rng.integers(-(2**62), 2**62, n)
        _, made["numpy_bytes"] = extra(a.sort)
        del a
        a = rng.integers(-(2**62), 2**62, n)
        _, value = extra(lambda: pb.par_sort(a, out=a))
        made["right"] = all(
            bool((a[i : i + 10**6] <= a[i + 1 : i + 10**6 + 1]).all())
            for i in range(0, n - 10**6, 10**6)
        )
    except Exception as error:
        note = f"{type(error).__name__}: {error}"[:200]
        made["missing" if contest.lacks(note) else "failed"] = note
    made["bytes"] = value
    limit = n * 8 // 2**20 + 16
    made["goals"] = [goal("MiB", None if value is None else value / 2**20, limit, at_most=True)]
    made["met"] = made["goals"][0]["met"] and made.get("right", False)
    return made


def memory_rows(effort: Effort) -> Iterator[Row]:
    quick = ["--quick"] if effort.quick else []
    yield from child("sorting.py", "--child", "memory", *quick)


# ---- the whole --------------------------------------------------------------

PARTS: dict[str, Callable[[Effort], Iterator[Row]]] = {
    "random": random_rows,
    "held": held_rows,
    "dtypes": dtypes_rows,
    "patterns": patterns_rows,
    "stable": stable_rows,
    "argsort": argsort_rows,
    "unique": unique_rows,
    "lexsort": lexsort_rows,
    "group_by": group_by_rows,
    "rows": rows_rows,
    "relatives": relatives_rows,
    "small": small_rows,
    "memory": memory_rows,
}
WITH_NATIVES = {"random", "held", "dtypes", "patterns", "stable"}


def main() -> None:
    parser = contest.parser_of("The sorts beside their peers.", PARTS)
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    effort = Effort(args.quick)
    pb.set_num_threads(contest.THREADS)
    if args.child:
        for found in held_child(effort) if args.child == "held" else [memory_child(effort)]:
            print(json.dumps(found), flush=True)
        return
    versions = peers.versions(VERSIONS)
    if WITH_NATIVES & set(args.only or PARTS):
        versions.update(natives.versions())
    contest.run("sorting", PARTS, effort, versions, args)


if __name__ == "__main__":
    main()
