"""python benchmarks/arrays.py: par_map, par_reduce and par_sort beside NumPy.

Writes benchmarks/results/arrays/<the processor>.jsonl and prints it as a table.  Two threads;
pyblitz and NumPy take turns in one process; a ratio is NumPy's median time over
pyblitz's.  Rows:

- large: ten million elements.
- limit: what two threads can gain at most here, where memory bounds the time:
  two Python threads that each run NumPy on one half, again and again.
- sweep: for each operation, the worst size among the powers of two up to 10^7,
  by the time over NumPy's that exceeds a tenth of it.
- small: 1,000 elements, and what pyblitz adds to NumPy's time.
- idle: CPU time of a process with a used pool that does nothing.
- callers: four Python threads in a loop of par_reduce.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import machine  # noqa: E402

import pyblitz as pb  # noqa: E402

Row = dict[str, Any]
Pair = tuple[Callable[[], Any], Callable[[], Any]]
LARGE = 10**7
REPEAT = 8  # calls of a row of "limit" between two meetings of its threads
RNG = np.random.default_rng(2026)


def random(dtype: str, n: int) -> Any:
    if dtype.startswith("float"):
        return RNG.random(n).astype(dtype)
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, n, dtype=dtype, endpoint=True)


def medians(pair: Pair, runs: int) -> tuple[float, float]:
    """Median nanoseconds of pyblitz and of NumPy."""
    seconds = machine.interleave({"pyblitz": pair[0], "numpy": pair[1]}, runs, warmup=2)
    return (
        1e9 * statistics.median(seconds["pyblitz"]),
        1e9 * statistics.median(seconds["numpy"]),
    )


def row(what: str, name: str, n: int, pair: Pair, runs: int) -> Row:
    ours, numpys = medians(pair, runs)
    return {
        "what": what,
        "name": name,
        "n": n,
        "pyblitz_ns": round(ours),
        "numpy_ns": round(numpys),
        "ratio": round(numpys / ours, 3),
        "over_ns": round(ours - numpys),
        "runs": runs,
    }


def operations(n: int) -> dict[str, Pair]:
    a, b = random("float64", n), random("float64", n)
    out, out2 = np.empty(n), np.empty(n)
    pairs: dict[str, Pair] = {
        "par_map(np.exp, a, out=o)": (
            lambda: pb.par_map(np.exp, a, out=out),
            lambda: np.exp(a, out=out2),
        ),
        "par_map(np.add, a, b)": (lambda: pb.par_map(np.add, a, b), lambda: np.add(a, b)),
        "par_reduce(np.add, a)": (lambda: pb.par_reduce(np.add, a), lambda: np.add.reduce(a)),
    }
    for dtype in ("int64", "float64", "int32", "float32"):
        x = random(dtype, n)
        pairs[f"par_sort(a), {dtype}"] = (
            lambda x=x: pb.par_sort(x),  # type: ignore[misc]
            lambda x=x: np.sort(x),  # type: ignore[misc]
        )
    return pairs


def large_rows(runs: int) -> list[Row]:
    return [
        row("large", name, LARGE, pair, max(3, runs // 4) if "sort" in name else runs)
        for name, pair in operations(LARGE).items()
    ]


class Halves:
    """Two threads of Python's own, each with one half of the arrays."""

    def __init__(self, fn: Callable[..., Any], arrays: list[Any]) -> None:
        self.start, self.end = threading.Barrier(3), threading.Barrier(3)
        self.stop = False
        for parts in zip(*[np.array_split(a, 2) for a in arrays], strict=True):
            threading.Thread(target=self.work, args=(fn, parts), daemon=True).start()

    def work(self, fn: Callable[..., Any], parts: tuple[Any, ...]) -> None:
        while True:
            self.start.wait()
            if self.stop:
                return
            for _ in range(REPEAT):
                fn(*parts)
            self.end.wait()

    def __call__(self) -> None:
        self.start.wait()
        self.end.wait()

    def close(self) -> None:
        self.stop = True
        self.start.wait()


def limit_rows(runs: int) -> list[Row]:
    a, b, out = random("float64", LARGE), random("float64", LARGE), np.empty(LARGE)
    rows = []
    for name, fn, arrays, alone in (
        ("np.add.reduce(a)", np.add.reduce, [a], lambda: np.add.reduce(a)),
        (
            "np.add(a, b, out=o)",
            lambda x, y, o: np.add(x, y, out=o),
            [a, b, out],
            lambda: np.add(a, b, out=out),
        ),
    ):
        halves = Halves(fn, arrays)

        def one(alone: Callable[[], Any] = alone) -> None:
            for _ in range(REPEAT):
                alone()

        found = row("limit", name, LARGE, (halves, one), max(3, runs // 4))
        for key in ("pyblitz_ns", "numpy_ns", "over_ns"):
            found[key] //= REPEAT
        rows.append(found)
        halves.close()
    return rows


def sweep_rows(runs: int) -> list[Row]:
    """The worst size of each operation: where time over 1.1 of NumPy's, in
    units of what is allowed beside that (1.5 us), is largest."""
    worst: dict[str, Row] = {}
    for n in [2**k for k in range(24)] + [LARGE]:
        for name, pair in operations(n).items():
            slow = "sort" in name and n > 2**19
            found = row("sweep", name, n, pair, 3 if slow else 11 if n > 2**19 else 4 * runs)
            ratio = found["pyblitz_ns"] / found["numpy_ns"]
            found["within"] = ratio <= 1.1 or found["over_ns"] <= 1500
            excess = min(ratio - 1.1, (found["over_ns"] - 1500) / 1500)
            if name not in worst or excess > worst[name]["excess"]:
                worst[name] = {**found, "excess": round(excess, 3)}
    return list(worst.values())


def small_rows(runs: int) -> list[Row]:
    return [row("small", name, 1000, pair, 40 * runs) for name, pair in operations(1000).items()]


def idle_row(seconds: float) -> Row:
    pb.par_reduce(np.add, random("float64", 10**6))
    time.sleep(0.1)
    begun = time.process_time()
    time.sleep(seconds)
    used = time.process_time() - begun
    return {"what": "idle", "name": f"{seconds:g} s", "cpu_ns": round(1e9 * used)}


def callers_row(calls: int) -> Row:
    arrays = [random("float64", 10**5) for _ in range(4)]
    expected = [pb.par_reduce(np.add, a) for a in arrays]
    wrong = [0] * 4

    def caller(i: int) -> None:
        for _ in range(calls // 4):
            wrong[i] += pb.par_reduce(np.add, arrays[i]) != expected[i]

    threads = [threading.Thread(target=caller, args=(i,)) for i in range(4)]
    begun = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return {
        "what": "callers",
        "name": "4 threads, par_reduce of 10^5",
        "calls": calls,
        "wrong": int(sum(wrong)),
        "seconds": round(time.perf_counter() - begun, 3),
    }


def table(rows: list[Row]) -> str:
    lines = [f"{'':8}{'':32}{'n':>10}{'pyblitz us':>13}{'NumPy us':>13}{'ratio':>8}"]
    for r in rows:
        head = f"{r['what']:8}{r['name']:32}"
        if "ratio" in r:
            lines.append(
                f"{head}{r['n']:>10}{r['pyblitz_ns'] / 1e3:>13,.1f}"
                f"{r['numpy_ns'] / 1e3:>13,.1f}{r['ratio']:>8.2f}"
            )
        elif r["what"] == "idle":
            lines.append(f"{head}{r['cpu_ns'] / 1e6:>10.3f} ms of CPU")
        else:
            lines.append(f"{head}{r['calls']:>10} calls, {r['wrong']} wrong")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="par_map, par_reduce, par_sort beside NumPy.")
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--idle", type=float, default=10.0, help="seconds of the idle row")
    parser.add_argument("--calls", type=int, default=10**5, help="of the callers row")
    parser.add_argument("--output", type=pathlib.Path, default=machine.results_here("arrays"))
    args = parser.parse_args()
    pb.set_num_threads(2)
    facts = machine.facts()
    rows = [
        *large_rows(args.runs),
        *limit_rows(args.runs),
        *small_rows(args.runs),
        *sweep_rows(args.runs),
        idle_row(args.idle),
        callers_row(args.calls),
    ]
    machine.write(args.output, rows, facts)
    print(table(rows))


if __name__ == "__main__":
    main()
