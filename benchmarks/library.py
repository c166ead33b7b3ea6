"""python benchmarks/library.py: the array library beside NumPy, numexpr, Numba, torch,
Polars and dask.

Writes benchmarks/results/library/<the processor>.jsonl and prints it as a table, in some eight
minutes; ``--quick`` takes small arrays and few runs, ``--only NAME`` one part, and neither writes
unless ``--output`` says where.  Two threads for everyone; a peer that is not installed has no
column (``pip install pyblitz[bench]`` has them all).  All contestants of a row work on the
same arrays in one process, in turn, with a pause between two of them in which the threads of
the one before stop spinning; each result is compared with NumPy's first.  A row holds the
median and the least nanoseconds of each contestant, NumPy's time and the best peer's over
pyblitz's (above 1: pyblitz is faster; NumPy is a peer too), and its goals.  What pyblitz does
not have is "missing".  The parts, by ``what``:

- expression: a*b + np.sin(a)*2 - b**2 through par_iter, a fresh result; also one thread.
- squares: the sum of (a - a.mean())**2, 10^7 elements, fused.
- reduction: par_sum, par_min, par_max, par_dot, par_argmin and par_any (of zeros: all of them
  are read) at 10^5 to 10^8.  At 10^8 also "C loop": two threads of C that add up all words of
  the same memory, the bandwidth that reading has here.
- search: par_any and par_find_first, the first hit at 1 % of 10^8, beside the whole scan.
- move: a[mask] (half of it), cumsum, take (random index), where, bincount (1,000 bins),
  histogram (100 bins), searchsorted (in 10^4 numbers) at 10^7.
- mandelbrot: 1000 x 1000 points, a Numba cfunc and a Cython function through par_map, with one
  thread and two, beside Numba's prange untuned.  Each of Numba's threading layers has a
  process of its own, where the contestants take turns.
- callable: a Python function with NumPy inside, on blocks, with one thread and two.
- small: what each operation adds to NumPy's time at 1,000 elements.
- memory: the peak of a process over its memory before, in a pipeline that ends in a scalar.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import contest  # before NumPy: it says how many threads there are
import numpy as np
from contest import (
    DASK,
    LOOP,
    NUMBA,
    NUMEXPR,
    NUMPY,
    ONE,
    POLARS,
    PYBLITZ,
    STREAM,
    TORCH,
    Data,
    Row,
    best_peer,
    child,
    entrants,
    extra,
    goal,
    measure,
    over,
    pb,
    peers,
    row,
    small_row,
)

VERSIONS = ("numexpr", "numba", "torch", "polars", "dask", "tbb")
LAYERS = ("tbb", "omp", "workqueue")
SEARCHED = 10**4  # numbers that keys are looked for in
BINS = 1000
RNG = np.random.default_rng(2026)


class Effort(contest.Effort):
    """How long it may take, and how large the arrays are."""

    def __init__(self, quick: bool) -> None:
        super().__init__(quick)
        self.expression = [10**4, 10**5] if quick else [10**4, 10**5, 10**6, 10**7]
        self.reductions = [10**5, 10**6] if quick else [10**5, 10**6, 10**7, 10**8]
        self.large = 10**6 if quick else 10**7
        self.huge = 10**6 if quick else 10**8
        self.side = 200 if quick else 1000
        self.memory = 10**7 if quick else 10**8


def evaluate(text: str, **arrays: Data) -> Any:
    return peers.numexpr.evaluate(text, local_dict={k: a.np for k, a in arrays.items()})


def col(name: str = "a") -> Any:
    return peers.polars.col(name)


def streamed(frame: Any, expression: Any) -> Any:
    return frame.select(expression).collect(engine="streaming").to_series()


# ---- pipelines --------------------------------------------------------------


def our_expression(a: Any, b: Any) -> Any:
    x, y = pb.par_iter(a, b)
    return (x * y + np.sin(x) * 2 - y**2).collect()


def eager_expression(a: Any, b: Any) -> Any:
    return a * b + np.sin(a) * 2 - b**2


def polars_expression() -> Any:
    return col("a") * col("b") + col("a").sin() * 2 - col("b") ** 2


def frame_of(a: Data, b: Data) -> Any:
    return peers.polars.DataFrame({"a": a.np, "b": b.np})


EXPRESSION: dict[str, Callable[..., Any]] = {
    PYBLITZ: lambda a, b, f: our_expression(a.np, b.np),
    NUMPY: lambda a, b, f: eager_expression(a.np, b.np),
    NUMEXPR: lambda a, b, f: evaluate("a*b + sin(a)*2 - b**2", a=a, b=b),
    NUMBA: lambda a, b, f: peers.loops.expression(a.np, b.np),
    TORCH: lambda a, b, f: a.torch * b.torch + peers.torch.sin(a.torch) * 2 - b.torch**2,
    POLARS: lambda a, b, f: f.np.select(polars_expression()).to_series(),
    STREAM: lambda a, b, f: streamed(f.np.lazy(), polars_expression()),
    DASK: lambda a, b, f: eager_expression(a.dask, b.dask).compute(),
}


def expression_rows(effort: Effort) -> Iterator[Row]:
    with pb.ThreadPool(1) as one:
        for n in effort.expression:
            a, b = Data(RNG.random(n)), Data(RNG.random(n))
            frame = Data(frame_of(a, b) if peers.polars is not None else None)
            found = measure(entrants(EXPRESSION, a, b, frame), effort, one=one)
            goals = [
                goal("x NumPy", over(found, NUMPY), 1.0),
                goal("x numexpr", over(found, NUMEXPR), 1.0),
                goal("x one thread", over(found, ONE), 1.9),
            ]
            if peers.numexpr is None:
                del goals[1]
            yield row("expression", "a*b + np.sin(a)*2 - b**2", n, "float64", found, goals)


def our_squares(a: Any) -> Any:
    x = pb.par_iter(a)
    return ((x - x.mean()) ** 2).sum()


def polars_squares() -> Any:
    return ((col() - col().mean()) ** 2).sum()


def numexpr_squares(a: Data) -> Any:
    mean = evaluate("sum(a)", a=a) / a.np.size
    return peers.numexpr.evaluate("sum((a - m)**2)", local_dict={"a": a.np, "m": mean})


SQUARES: dict[str, Callable[..., Any]] = {
    PYBLITZ: lambda a: our_squares(a.np),
    NUMPY: lambda a: ((a.np - a.np.mean()) ** 2).sum(),
    NUMEXPR: numexpr_squares,
    NUMBA: lambda a: peers.loops.squares(a.np),
    TORCH: lambda a: ((a.torch - a.torch.mean()) ** 2).sum(),
    POLARS: lambda a: ((a.polars - a.polars.mean()) ** 2).sum(),
    STREAM: lambda a: streamed(a.frame, polars_squares()),
    DASK: lambda a: ((a.dask - a.dask.mean()) ** 2).sum().compute(),
}


def squares_rows(effort: Effort) -> Iterator[Row]:
    a = Data(RNG.random(effort.large))
    with pb.ThreadPool(1) as one:
        found = measure(entrants(SQUARES, a), effort, one=one)
    goals = [
        goal("x NumPy", over(found, NUMPY), 2.5),
        goal("x best peer", over(found, best_peer(found)), 1.0),
    ]
    yield row("squares", "sum of (a - a.mean())**2", effort.large, "float64", found, goals)


# ---- reductions -------------------------------------------------------------

READER = r"""
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
typedef uint64_t lanes __attribute__((vector_size(32)));
typedef struct { const char* p; size_t bytes; uint64_t sum; } part;

static void* add_up(void* given) {
    part* t = given;
    lanes s[8] = {0}, x[8];
    const char* end = t->p + t->bytes / sizeof x * sizeof x;
    for (const char* p = t->p; p < end; p += sizeof x) {
        memcpy(x, p, sizeof x);
        for (int k = 0; k < 8; k++) s[k] += x[k];
    }
    uint64_t sum = 0;
    for (int k = 0; k < 8; k++)
        for (int i = 0; i < 4; i++) sum += s[k][i];
    t->sum = sum;
    return NULL;
}

uint64_t read_all(const char* p, size_t bytes) {
    size_t half = bytes / 2 / 256 * 256;
    part low = {p, half, 0}, high = {p + half, bytes - half, 0};
    pthread_t other;
    if (pthread_create(&other, NULL, add_up, &high)) add_up(&high);
    else { add_up(&low); pthread_join(other, NULL); return low.sum + high.sum; }
    add_up(&low);
    return low.sum + high.sum;
}
"""


def reader(directory: pathlib.Path) -> Callable[..., int] | None:
    """read_all of READER: adds up all words of a memory, with two threads; None without a
    compiler."""
    (directory / "reader.c").write_text(READER)
    library = directory / "reader.so"
    for more in (["-march=native"], []):
        command = [
            "cc",
            "-O3",
            *more,
            "-shared",
            "-fPIC",
            "-pthread",
            "reader.c",
            "-o",
            str(library),
        ]
        with contextlib.suppress(OSError):
            if subprocess.run(command, cwd=directory, capture_output=True).returncode == 0:
                read: Any = ctypes.CDLL(str(library)).read_all
                read.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
                read.restype = ctypes.c_uint64
                return read  # type: ignore[no-any-return]
    return None


REDUCTIONS: dict[str, dict[str, Callable[..., Any]]] = {
    "par_sum": {
        PYBLITZ: lambda a, b: pb.par_sum(a.np),
        NUMPY: lambda a, b: np.sum(a.np),
        NUMEXPR: lambda a, b: evaluate("sum(a)", a=a),
        NUMBA: lambda a, b: peers.loops.sum_of(a.np),
        TORCH: lambda a, b: a.torch.sum(),
        POLARS: lambda a, b: a.polars.sum(),
        STREAM: lambda a, b: streamed(a.frame, col().sum()),
        DASK: lambda a, b: a.dask.sum().compute(),
    },
    "par_min": {
        PYBLITZ: lambda a, b: pb.par_min(a.np),
        NUMPY: lambda a, b: np.min(a.np),
        NUMEXPR: lambda a, b: evaluate("min(a)", a=a),
        NUMBA: lambda a, b: peers.loops.least(a.np),
        TORCH: lambda a, b: a.torch.min(),
        POLARS: lambda a, b: a.polars.min(),
        STREAM: lambda a, b: streamed(a.frame, col().min()),
        DASK: lambda a, b: a.dask.min().compute(),
    },
    "par_max": {
        PYBLITZ: lambda a, b: pb.par_max(a.np),
        NUMPY: lambda a, b: np.max(a.np),
        NUMEXPR: lambda a, b: evaluate("max(a)", a=a),
        NUMBA: lambda a, b: peers.loops.most(a.np),
        TORCH: lambda a, b: a.torch.max(),
        POLARS: lambda a, b: a.polars.max(),
        STREAM: lambda a, b: streamed(a.frame, col().max()),
        DASK: lambda a, b: a.dask.max().compute(),
    },
    "par_dot": {
        PYBLITZ: lambda a, b: pb.par_dot(a.np, b.np),
        NUMPY: lambda a, b: np.dot(a.np, b.np),
        NUMEXPR: lambda a, b: evaluate("sum(a * b)", a=a, b=b),
        NUMBA: lambda a, b: peers.loops.dot(a.np, b.np),
        TORCH: lambda a, b: peers.torch.dot(a.torch, b.torch),
        POLARS: lambda a, b: a.polars.dot(b.polars),
        DASK: lambda a, b: peers.dask.dot(a.dask, b.dask).compute(),
    },
    "par_argmin": {
        PYBLITZ: lambda a, b: pb.par_argmin(a.np),
        NUMPY: lambda a, b: np.argmin(a.np),
        NUMBA: lambda a, b: peers.loops.argmin(a.np),
        TORCH: lambda a, b: a.torch.argmin(),
        POLARS: lambda a, b: a.polars.arg_min(),
        STREAM: lambda a, b: streamed(a.frame, col().arg_min()),
        DASK: lambda a, b: peers.dask.argmin(a.dask).compute(),
    },
    "par_any": {
        PYBLITZ: lambda a, b: pb.par_any(a.np),
        NUMPY: lambda a, b: np.any(a.np),
        NUMBA: lambda a, b: peers.loops.any_of(a.np),
        TORCH: lambda a, b: a.torch.any(),
        POLARS: lambda a, b: (a.polars != 0).any(),
        STREAM: lambda a, b: streamed(a.frame, (col() != 0).any()),
        DASK: lambda a, b: a.dask.any().compute(),
    },
}


def numbers(dtype: str, n: int, most: int) -> Any:
    """Random; integers within +-most, so that neither a sum nor a product overflows."""
    return RNG.random(n) if dtype == "float64" else RNG.integers(-most, most, n)


def zeros(dtype: str, n: int) -> Any:
    """Written, so that their pages exist."""
    a = np.empty(n, dtype)
    a.fill(0)
    return a


def reduction_row(
    op: str, a: Data, b: Data, effort: Effort, read: Callable[..., int] | None
) -> Row:
    n, dtype = a.np.size, str(a.np.dtype)
    contest = entrants(REDUCTIONS[op], a, b)
    inputs = [a.np, b.np] if op == "par_dot" else [a.np]
    huge = n == effort.huge
    if huge and read is not None:

        def loop() -> None:
            for x in inputs:
                read(x.ctypes.data, x.nbytes)

        contest[LOOP] = loop
    found = measure(contest, effort)
    goals = [goal("x best peer", over(found, best_peer(found)), round(1 / 1.05, 4))]
    more: Row = {}
    if huge:
        share = over(found, LOOP)
        goals.append(goal("of the C loop's bandwidth", share, 0.9))
        if LOOP in found.median:
            bytes_ = sum(x.nbytes for x in inputs)
            more["gb_per_s"] = {
                who: round(bytes_ / found.median[who], 2)
                for who in (PYBLITZ, LOOP)
                if who in found.median
            }
    return row("reduction", op, n, dtype, found, goals, **more)


def reduction_rows(effort: Effort) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as scratch:
        read = reader(pathlib.Path(scratch))
        for n in effort.reductions:
            for dtype in ("float64", "int64"):
                a, b = Data(numbers(dtype, n, 2**40)), Data(numbers(dtype, n, 2**7))
                for op in REDUCTIONS:
                    if op != "par_any":
                        yield reduction_row(op, a, b, effort, read)
                del a, b
                a = Data(zeros(dtype, n))
                yield reduction_row("par_any", a, a, effort, read)
                del a


SEARCHES: dict[str, dict[str, Callable[..., Any]]] = {
    "par_any(a)": {
        PYBLITZ: lambda a: pb.par_any(a.np),
        NUMPY: lambda a: np.any(a.np),
        NUMBA: lambda a: peers.loops.any_of(a.np),
        TORCH: lambda a: a.torch.any(),
    },
    "par_find_first(a, 1.0)": {
        PYBLITZ: lambda a: pb.par_find_first(a.np, 1.0),
        NUMPY: lambda a: a.np[np.argmax(a.np == 1.0)],
        NUMBA: lambda a: a.np[peers.loops.find_first(a.np, 1.0)],
    },
}


def search_rows(effort: Effort) -> Iterator[Row]:
    """A hit stands between two scans of everything, so that nothing of it is in a cache."""
    n = effort.huge
    full, hit = Data(zeros("float64", n)), Data(zeros("float64", n))
    hit.np[n // 100] = 1.0
    for name, table in SEARCHES.items():
        contest: dict[str, Callable[[], Any]] = {
            "full": partial(table[PYBLITZ], full),
            PYBLITZ: partial(table[PYBLITZ], hit),
            "again": partial(table[PYBLITZ], full),
            **{k: f for k, f in entrants(table, hit).items() if k != PYBLITZ},
        }
        # NumPy's result of a hit is the first that is compared.
        found = measure(contest, effort, block=0.0, unchecked=("full", "again"))
        scan = min((found.median.pop(k) for k in ("full", "again") if k in found.median), default=0)
        for part in (found.least, found.notes):
            for k in ("full", "again"):
                part.pop(k, None)
        share = found.median[PYBLITZ] / scan if scan and PYBLITZ in found.median else None
        goals = [goal("of the full scan", share, 0.02, at_most=True)]
        yield row("search", name, n, "float64", found, goals, full_scan_ns=round(scan, 1))


# ---- moves ------------------------------------------------------------------

MOVES: dict[str, dict[str, Callable[..., Any]]] = {
    "par_filter(a, mask)": {
        PYBLITZ: lambda a, m: pb.par_filter(a.np, m.np),
        NUMPY: lambda a, m: a.np[m.np],
        NUMBA: lambda a, m: peers.loops.filtered(a.np, m.np),
        TORCH: lambda a, m: a.torch[m.torch],
        POLARS: lambda a, m: a.polars.filter(m.polars),
        DASK: lambda a, m: a.dask[m.dask].compute(),
    },
    "par_cumsum(a)": {
        PYBLITZ: lambda a: pb.par_cumsum(a.np),
        NUMPY: lambda a: np.cumsum(a.np),
        NUMBA: lambda a: peers.loops.cumsum(a.np),
        TORCH: lambda a: peers.torch.cumsum(a.torch, 0),
        POLARS: lambda a: a.polars.cum_sum(),
        DASK: lambda a: peers.dask.cumsum(a.dask, axis=0).compute(),
    },
    "par_take(a, index)": {
        PYBLITZ: lambda a, i: pb.par_take(a.np, i.np),
        NUMPY: lambda a, i: np.take(a.np, i.np),
        NUMBA: lambda a, i: peers.loops.take(a.np, i.np),
        TORCH: lambda a, i: peers.torch.take(a.torch, i.torch),
        POLARS: lambda a, i: a.polars.gather(i.polars),
    },
    "par_where(c, x, y)": {
        PYBLITZ: lambda c, x, y: pb.par_where(c.np, x.np, y.np),
        NUMPY: lambda c, x, y: np.where(c.np, x.np, y.np),
        NUMEXPR: lambda c, x, y: evaluate("where(c, x, y)", c=c, x=x, y=y),
        NUMBA: lambda c, x, y: peers.loops.where(c.np, x.np, y.np),
        TORCH: lambda c, x, y: peers.torch.where(c.torch, x.torch, y.torch),
        POLARS: lambda c, x, y: x.polars.zip_with(c.polars, y.polars),
        DASK: lambda c, x, y: peers.dask.where(c.dask, x.dask, y.dask).compute(),
    },
    "par_bincount(k)": {
        PYBLITZ: lambda k: pb.par_bincount(k.np),
        NUMPY: lambda k: np.bincount(k.np),
        NUMBA: lambda k: peers.loops.bincount(k.np, BINS),
        TORCH: lambda k: peers.torch.bincount(k.torch),
        DASK: lambda k: peers.dask.bincount(k.dask, minlength=BINS).compute(),
    },
    "par_histogram(a, 100, (0, 1))": {
        PYBLITZ: lambda a: pb.par_histogram(a.np, bins=100, range=(0, 1))[0],
        NUMPY: lambda a: np.histogram(a.np, bins=100, range=(0, 1))[0],
        NUMBA: lambda a: peers.loops.histogram(a.np, 100),
        TORCH: lambda a: peers.torch.histc(a.torch, 100, 0, 1),
        POLARS: lambda a: a.polars.hist(bins=np.linspace(0, 1, 101).tolist())["count"],
        DASK: lambda a: peers.dask.histogram(a.dask, bins=100, range=(0, 1))[0].compute(),
    },
    "par_searchsorted(sorted, keys)": {
        PYBLITZ: lambda s, k: pb.par_searchsorted(s.np, k.np),
        NUMPY: lambda s, k: np.searchsorted(s.np, k.np),
        NUMBA: lambda s, k: peers.loops.searchsorted(s.np, k.np),
        TORCH: lambda s, k: peers.torch.searchsorted(s.torch, k.torch),
        POLARS: lambda s, k: s.polars.search_sorted(k.polars, side="left"),
        DASK: lambda s, k: peers.dask.searchsorted(s.dask, k.dask).compute(),
    },
}


def move_data(name: str, n: int) -> list[Data]:
    a = RNG.random(n)
    makers: dict[str, Callable[[], list[Any]]] = {
        "par_filter": lambda: [a, RNG.random(n) < 0.5],
        "par_cumsum": lambda: [a],
        "par_take": lambda: [a, RNG.integers(0, n, n)],
        "par_where": lambda: [RNG.random(n) < 0.5, a, RNG.random(n)],
        "par_bincount": lambda: [RNG.integers(0, BINS, n)],
        "par_histogram": lambda: [a],
        "par_searchsorted": lambda: [np.sort(RNG.random(min(n, SEARCHED))), a],
    }
    return [Data(x) for x in makers[name.split("(")[0]]()]


def move_rows(effort: Effort) -> Iterator[Row]:
    n = effort.large
    for name, table in MOVES.items():
        data = move_data(name, n)
        # A peer may put a value that is on an edge into the bin beside.
        rtol = 1e-4 if "histogram" in name else 1e-9
        found = measure(entrants(table, *data), effort, rtol=rtol)
        goals = [
            goal("x NumPy", over(found, NUMPY), 1.7),
            goal("x best peer", over(found, best_peer(found)), 1.0),
        ]
        dtype = "int64" if "bincount" in name else "float64"
        yield row("move", name, n, dtype, found, goals)


# ---- kernels and functions --------------------------------------------------


def mandelbrot_child(layer: str, module: str, effort: Effort) -> Iterator[Row]:
    """In a process of its own, because Numba's threading layer is chosen once.  ``module``: a
    directory with the Cython kernel, or ""."""
    n = effort.side
    grid = np.meshgrid(np.linspace(-2.0, 0.5, n), np.linspace(-1.25, 1.25, n))
    x, y = (np.ascontiguousarray(g) for g in grid)
    kernels: dict[str, Any] = {}
    if peers.loops is not None:
        kernels["Numba cfunc"] = peers.loops.escape_kernel
    if module:
        sys.path.insert(0, module)
        kernels["Cython kernel"] = importlib.import_module("_mandelbrot").__pyx_capi__["escape"]
    prange = f"Numba prange, {layer}"
    with pb.ThreadPool(1) as one:
        for kernel, fn in kernels.items():
            contest: dict[str, Callable[[], Any]] = {PYBLITZ: partial(pb.par_map, fn, x, y)}
            if layer:
                contest[prange] = lambda: peers.loops.mandelbrot(x, y)
            found = measure(contest, effort, one=one)
            goals = [goal("x one thread", over(found, ONE), 1.95)]
            if prange in found.median:
                # Numba says which layer it really is.
                layer = importlib.import_module("numba").threading_layer()
                goals.append(goal(f"x {prange}", over(found, prange), 1.0))
            yield row("mandelbrot", kernel, n * n, "float64", found, goals, layer=layer or None)


def mandelbrot_rows(effort: Effort) -> Iterator[Row]:
    quick = ["--quick"] if effort.quick else []
    nothing = {"n": effort.side**2, "dtype": "float64", "ns": {}, "ns_min": {}, "goals": []}
    with tempfile.TemporaryDirectory() as scratch:
        module = scratch
        try:
            importlib.import_module("scheduler").compiled(pathlib.Path(scratch), "_mandelbrot")
        except (SystemExit, ImportError) as error:
            module = ""
            yield {
                "what": "mandelbrot",
                "name": "Cython kernel",
                **nothing,
                "failed": f"not compiled: {str(error)[-200:]}",
                "met": False,
            }
        for layer in LAYERS if peers.has(NUMBA) else ("",):
            options = ("--child", "mandelbrot", "--layer", layer, "--module", module, *quick)
            try:
                yield from child(
                    "library.py",
                    *options,
                    environment={"NUMBA_THREADING_LAYER": layer or "default"},
                )
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                yield {
                    "what": "mandelbrot",
                    "name": f"Numba's layer {layer}",
                    **nothing,
                    "layer": layer,
                    "unavailable": str(error)[:200],
                }


def block_function(x: Any) -> Any:
    return np.sqrt(np.sin(x) ** 2 + np.cos(x) ** 2 * x)


def callable_rows(effort: Effort) -> Iterator[Row]:
    a = RNG.random(effort.large)
    with pb.ThreadPool(1) as one:
        contest = {
            PYBLITZ: lambda: pb.par_map(block_function, a),
            NUMPY: lambda: block_function(a),
        }
        found = measure(contest, effort, one=one)
    goals = [goal("x one thread", over(found, ONE), 1.8)]
    name = "np.sqrt(np.sin(x)**2 + np.cos(x)**2 * x)"
    yield row("callable", name, effort.large, "float64", found, goals)


# ---- small arrays -----------------------------------------------------------


def small_pairs(n: int) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """pyblitz's and NumPy's way of each operation."""
    a, b, out = RNG.random(n), RNG.random(n), np.empty(n)
    k = RNG.integers(0, n, n)
    mask = a < 0.5
    edges = np.linspace(0, 1, 101)
    starts = np.arange(0, n, 10)
    target, target2 = a.copy(), a.copy()

    def put(into: Any) -> Callable[[], Any]:
        return lambda: np.put(into, k, b)

    def fill() -> None:
        out[...] = 2.0

    def same(name: str, *args: Any, **options: Any) -> None:
        """A namesake."""

        def ours() -> Any:
            return getattr(pb, "par_" + name)(*args, **options)

        pairs[f"par_{name}"] = (ours, partial(getattr(np, name), *args, **options))

    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "par_map(np.exp)": (lambda: pb.par_map(np.exp, a), lambda: np.exp(a)),
        "par_map(np.add)": (lambda: pb.par_map(np.add, a, b), lambda: np.add(a, b)),
        "par_reduce(np.add)": (lambda: pb.par_reduce(np.add, a), lambda: np.add.reduce(a)),
        "par_reduceat(np.add)": (
            lambda: pb.par_reduceat(np.add, a, starts),
            lambda: np.add.reduceat(a, starts),
        ),
        "par_scan(np.add)": (lambda: pb.par_scan(np.add, a), lambda: np.add.accumulate(a)),
        "par_minmax": (lambda: pb.par_minmax(a), lambda: (a.min(), a.max())),
        "par_filter": (lambda: pb.par_filter(a, mask), lambda: a[mask]),
        "par_partition_by": (
            lambda: pb.par_partition_by(a, mask),
            lambda: np.concatenate([a[mask], a[~mask]]),
        ),
        "par_find_first": (
            lambda: pb.par_find_first(a, 2.0),
            lambda: np.flatnonzero(a == 2.0)[:1],
        ),
        "par_put": (lambda: pb.par_put(target, k, b), put(target2)),
        "par_fill": (lambda: pb.par_fill(out, 2.0), fill),
        "par_map_inplace(np.sqrt)": (
            lambda: pb.par_map_inplace(np.sqrt, out),
            lambda: np.sqrt(out, out=out),
        ),
        "par_iter, expression": (lambda: our_expression(a, b), lambda: eager_expression(a, b)),
        "par_iter, filter": (
            lambda: pb.par_iter(a).filter(lambda v: v > 0.5).collect(),
            lambda: a[a > 0.5],
        ),
        "par_iter, sum of squares": (
            lambda: our_squares(a),
            lambda: ((a - a.mean()) ** 2).sum(),
        ),
    }
    one_array = (
        "sort sum prod mean var std min max argmin argmax any all count_nonzero nansum nanmin "
        "nanmax cumsum cumprod flatnonzero copy"
    )
    for name in one_array.split():
        same(name, a)
    same("dot", a, b)
    same("take", a, k)
    same("where", mask, a, b)
    same("concatenate", [a, b])
    same("repeat", a, 2)
    same("bincount", k)
    same("histogram", a, bins=100, range=(0, 1))
    same("searchsorted", edges, a)
    same("digitize", a, edges)
    return pairs


def small_rows(effort: Effort) -> Iterator[Row]:
    n = 1000
    for name, (ours, numpys) in small_pairs(n).items():
        yield small_row(name, n, "float64", ours, numpys, effort)


# ---- memory -----------------------------------------------------------------

PIPELINES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "(x*y + np.sin(x)*2 - y**2).sum()": (
        lambda x, y: (x * y + np.sin(x) * 2 - y**2).sum(),
        lambda a, b: (a * b + np.sin(a) * 2 - b**2).sum(),
    ),
    "((x - x.mean())**2).sum()": (
        lambda x, y: ((x - x.mean()) ** 2).sum(),
        lambda a, b: ((a - a.mean()) ** 2).sum(),
    ),
    "np.sqrt(x*x + y*y).max()": (
        lambda x, y: np.sqrt(x * x + y * y).max(),
        lambda a, b: np.sqrt(a * a + b * b).max(),
    ),
    "(x*y > 2).any()": (
        lambda x, y: (x * y > 2).any(),
        lambda a, b: (a * b > 2).any(),
    ),
    "(x*y).mean()": (
        lambda x, y: (x * y).mean(),
        lambda a, b: (a * b).mean(),
    ),
    "par_sum(x*y + 1)": (
        lambda x, y: pb.par_sum(x * y + 1),
        lambda a, b: np.sum(a * b + 1),
    ),
    "x.filter(x > 0.5).sum()": (
        lambda x, y: x.filter(x > 0.5).sum(),
        lambda a, b: a[a > 0.5].sum(),
    ),
}


def memory_child(name: str, effort: Effort) -> Row:
    """In a process of its own, with nothing in it but the two arrays."""
    n = effort.memory
    rng = np.random.default_rng(2026)
    a, b = np.empty(n), np.empty(n)
    rng.random(out=a)
    rng.random(out=b)
    ours, numpys = PIPELINES[name]
    made: Row = {"what": "memory", "name": name, "n": n, "dtype": "float64"}
    value = None
    try:
        result, value = extra(lambda: ours(*pb.par_iter(a, b)))
        expected, eager = extra(lambda: numpys(a, b))
        made["numpy_bytes"] = eager
        made["right"] = bool(np.allclose(result, expected, rtol=1e-9))
    except Exception as error:
        missing = isinstance(error, AttributeError)
        made["missing" if missing else "failed"] = f"{type(error).__name__}: {error}"[:200]
    made["bytes"] = value
    made["goals"] = [goal("MiB", None if value is None else value / 2**20, 16, at_most=True)]
    made["met"] = made["goals"][0]["met"] and made.get("right", False)
    return made


def memory_rows(effort: Effort) -> Iterator[Row]:
    quick = ["--quick"] if effort.quick else []
    for name in PIPELINES:
        yield from child("library.py", "--child", "memory", "--pipeline", name, *quick)


# ---- the whole --------------------------------------------------------------

PARTS: dict[str, Callable[[Effort], Iterator[Row]]] = {
    "expression": expression_rows,
    "squares": squares_rows,
    "reduction": reduction_rows,
    "search": search_rows,
    "move": move_rows,
    "mandelbrot": mandelbrot_rows,
    "callable": callable_rows,
    "small": small_rows,
    "memory": memory_rows,
}


def main() -> None:
    parser = contest.parser_of("The array library beside its peers.", PARTS)
    for name in ("--child", "--layer", "--module", "--pipeline"):  # see child()
        parser.add_argument(name, default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    effort = Effort(args.quick)
    pb.set_num_threads(contest.THREADS)
    if args.child:
        if args.child == "memory":
            print(json.dumps(memory_child(args.pipeline, effort)))
        else:
            for made in mandelbrot_child(args.layer, args.module, effort):
                print(json.dumps(made), flush=True)
        return
    contest.run("library", PARTS, effort, peers.versions(VERSIONS), args)


if __name__ == "__main__":
    main()
