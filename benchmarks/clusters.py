"""python benchmarks/clusters.py: dask arrays, beside what dask has.

Writes benchmarks/results/clusters.jsonl and prints it, in some minutes; ``--quick`` takes small
arrays and writes nothing.  Workers are processes of one thread each, on this machine.  The parts,
by ``what``:

- sort: an array whose blocks lie in two workers, by `pyblitz.dask`, by `sort_values` of
  dask.dataframe, and gathered in one worker for `np.sort`; until the result lies in the workers.
  With it, the greatest share that one of the result's blocks has, of what it would be.
- growth: the same sort by `pyblitz.dask` in 10 to 80 blocks, by one and by two workers.
- topk: the 100 greatest, by `pyblitz.dask` and `da.topk`.
- unique, bincount, histogram, searchsorted: by `pyblitz.dask` and dask.array.
- percentiles: three items of a sort by `pyblitz.dask`, and `da.percentile`, which is not exact.
- killed: a sort in three workers, one of which is killed in the middle, and the same undisturbed.
- memory: 2 GB under four workers of 400 MB, and the most that a worker took.

The contestants take turns; of each the least of its runs.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import machine
import numpy as np
from distributed import Client, LocalCluster, get_client, wait

import pyblitz.dask

Row = dict[str, Any]


@contextlib.contextmanager
def cluster(workers: int, memory: str = "4GB") -> Iterator[Any]:
    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=memory,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as there,
        Client(there) as client,
    ):
        yield client


def ours(dask_scheduler: Any) -> bool:
    """Whether results of a sort of ours are still there."""
    return any("pyblitz" in str(key) for key in dask_scheduler.tasks)


def seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    result = call().persist()
    wait(result)
    took = time.perf_counter() - began
    # Otherwise the next run finds it there, by the same names.
    del result
    while get_client().run_on_scheduler(ours):
        time.sleep(0.01)
    return took


def fastest(calls: Mapping[str, Callable[[], Any]], runs: int) -> dict[str, float]:
    """The first run of each is not counted."""
    best: dict[str, float] = {}
    for turn in range(runs + 1):
        for name, call in calls.items():
            took = seconds(call)
            if turn:
                best[name] = min(took, best.get(name, took))
    return best


def blocks_of(values: Any, n: int) -> Any:
    x = da.from_array(values, chunks=-(-len(values) // n)).persist()
    wait(x)
    return x


def gathered(x: Any) -> Any:
    return x.rechunk(-1).map_blocks(np.sort, dtype=x.dtype)


def data(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "random": rng.random(n),
        "Zipf": rng.zipf(1.3, n).astype(float),
        "all equal": np.ones(n),
        "sorted": np.arange(float(n)),
    }


def greatest_share(lengths: Any) -> float:
    lengths = list(lengths)
    return float(max(lengths) * len(lengths) / sum(lengths))


def sorts(n: int, runs: int) -> Iterator[Row]:
    with cluster(2):
        for name, values in data(n).items():
            x = blocks_of(values, 20)
            frame = dd.from_dask_array(x, columns="x").to_frame().persist()
            calls = {
                "pyblitz": partial(pyblitz.dask.par_sort, x),
                "dask.dataframe": partial(frame.sort_values, "x"),
                "gathered": partial(gathered, x),
            }
            best = fastest(calls, runs)
            shares = {
                "pyblitz": greatest_share(pyblitz.dask.par_sort(x).chunks[0]),
                "dask.dataframe": greatest_share(
                    frame.sort_values("x").map_partitions(len).compute()
                ),
            }
            yield {"what": "sort", "name": name, "n": n, "seconds": best, "shares": shares}


def growth(n: int, runs: int) -> Iterator[Row]:
    values = data(n)["random"]
    for workers in (1, 2):
        with cluster(workers):
            for p in (10, 20, 40, 80):
                x = blocks_of(values, p)
                best = fastest({"pyblitz": partial(pyblitz.dask.par_sort, x)}, runs)
                yield {"what": "growth", "workers": workers, "blocks": p, "n": n, "seconds": best}


def greatest(n: int, runs: int) -> Iterator[Row]:
    with cluster(2):
        x = blocks_of(data(n)["random"], 20)
        calls = {
            "pyblitz": lambda: pyblitz.dask.par_topk(x, 100).values,
            "dask": lambda: da.topk(x, 100),
        }
        yield {"what": "topk", "n": n, "seconds": fastest(calls, runs)}


def functions(n: int, runs: int) -> Iterator[Row]:
    """Of integers up to a thousand, and of as many different ones as there are."""
    rng = np.random.default_rng(0)
    for name, values in {"few": rng.integers(0, 1000, n), "all": rng.permutation(n)}.items():
        with cluster(2):
            x = blocks_of(values, 20)
            places = blocks_of(np.arange(0, n, 100), 20)
            calls: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
                "unique": (pyblitz.dask.par_unique, da.unique),
                "bincount": (pyblitz.dask.par_bincount, da.bincount),
                "histogram": (
                    lambda x: pyblitz.dask.par_histogram(x, 100, (0, n))[0],
                    lambda x: da.histogram(x, 100, (0, n))[0],
                ),
                "searchsorted": (
                    partial(pyblitz.dask.par_searchsorted, places),
                    partial(da.searchsorted, places),
                ),
                "percentiles": (
                    lambda x: pyblitz.dask.par_sort(x)[[n // 100, n // 2, n - n // 100]],
                    lambda x: da.percentile(x, [1, 50, 99]),
                ),
            }
            for what, (ours_of, dasks) in calls.items():
                best = fastest({"pyblitz": partial(ours_of, x), "dask": partial(dasks, x)}, runs)
                yield {"what": what, "name": name, "n": n, "seconds": best}


def killed(n: int) -> Row:
    took: dict[str, float] = {}
    for name in ("undisturbed", "killed"):
        with cluster(3) as client:
            x = da.random.default_rng(1).random(n, chunks=n // 30)
            began = time.perf_counter()
            y = pyblitz.dask.par_sort(x).persist()
            if name == "killed":
                time.sleep(took["undisturbed"] / 2)
                os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
            wait(y)
            took[name] = time.perf_counter() - began
            assert bool(da.all(y[1:] >= y[:-1]).compute())
    return {"what": "killed", "n": n, "seconds": took}


def most_memory() -> float:
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024.0 for line in f if line.startswith("VmHWM"))


def memory(n: int) -> Row:
    with (
        dask.config.set({"distributed.worker.memory.target": 0.25}),
        cluster(4, "400MB") as client,
    ):
        before = client.run(os.getpid)
        x = da.random.default_rng(1).random(n, chunks=2_500_000)
        began = time.perf_counter()
        y = pyblitz.dask.par_sort(x).persist()
        wait(y)
        took = time.perf_counter() - began
        ordered = bool(da.all(y[1:] >= y[:-1]).compute())
        most = max(client.run(most_memory).values())
        same = client.run(os.getpid) == before
    return {
        "what": "memory",
        "n": n,
        "seconds": {"pyblitz": took},
        "ordered": ordered,
        "most": most,
        "none killed": same,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    facts = machine.facts()
    n, runs = (1_000_000, 1) if quick else (20_000_000, 2)
    rows: list[Row] = []

    def tell(row: Row) -> None:
        rows.append(row)
        print(row, flush=True)

    for part in (sorts(n, runs), growth(n, runs), greatest(n, runs), functions(n, runs)):
        for row in part:
            tell(row)
    tell(killed(3 * n))
    tell(memory(20_000_000 if quick else 250_000_000))
    if not quick:
        machine.write(machine.RESULTS / "clusters.jsonl", rows, facts)


if __name__ == "__main__":
    main()
