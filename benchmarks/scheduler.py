"""python benchmarks/scheduler.py: what the scheduler costs, beside Rayon, oneTBB and
OpenMP.

Writes benchmarks/results/scheduler/<the processor>.jsonl and prints it as a table;
benchmarks/README.md says what each row is.  Peers that cannot be built here are named with the
reason.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import machine  # noqa: E402
from peers import peers as others  # noqa: E402

import pyblitz  # noqa: E402

DEPTH = 20
NODES = 10_000_000
FIB = 35
JOBS = 200
TASKS = 1_000_000
KEYS = 1_000
ITERATIONS = 1_000
ITERATION_NS = 700
IDLE = 0.02
LEAF_NS = 1e9

Row = dict[str, Any]
Peers = Mapping[str, Callable[[str, int], list[Row]]]


def compiled(directory: pathlib.Path, name: str) -> ModuleType:
    """The module ``name``.pyx of this folder, built in ``directory`` if it is not there yet."""
    if not any(directory.glob(f"{name}.*.so")):
        build(directory, name)
    (library,) = directory.glob(f"{name}.*.so")
    spec = importlib.util.spec_from_file_location(name, library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(directory: pathlib.Path, name: str) -> None:
    shutil.copy(HERE / f"{name}.pyx", directory)
    package = pathlib.Path(pyblitz.__file__).resolve().parent.parent
    (directory / "setup.py").write_text(
        "from Cython.Build import cythonize\n"
        "from setuptools import Extension, setup\n"
        f"setup(name={name!r}, ext_modules=cythonize("
        f"[Extension({name!r}, [{name + '.pyx'!r}], include_dirs=[{str(package)!r}],"
        " extra_compile_args=['-O3'])]))\n"
    )
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(done.stdout)


def row(what: str, threads: int, values: list[float], who: str = "pyblitz", **more: object) -> Row:
    """``values``: nanoseconds, one for each run."""
    return {
        "what": what,
        "who": who,
        "threads": threads,
        "ns_min": round(min(values), 3),
        "ns_median": round(statistics.median(values), 3),
        "runs": len(values),
        **more,
    }


def theirs(peers: Peers, what: str, rounds: int) -> list[Row]:
    """The rows that peers print for ``what``, in the form of ours."""
    rows = []
    for who, peer in peers.items():
        for r in peer(what, rounds):
            more = {k: v for k, v in r.items() if k in ("plain_ns", "ideal_ns", "total_ns")}
            rows.append(row(r["what"], r["threads"], r["ns_all"], who, **more))
            rows[-1]["ns_min"] = round(r["ns"], 3)
    return rows


def over_plain(
    names: Mapping[str, Callable[[], object]],
    threads: int,
    plain: Callable[[], object],
    runs: int,
    each: float,
) -> list[Row]:
    """Rows of what forks add to ``plain``, all in turn; ``each``: forks or nodes."""
    seconds = machine.interleave({"plain": plain, **names}, runs)
    base = [s * 1e9 / each for s in seconds.pop("plain")]
    rows = []
    for what, times in seconds.items():
        total = [s * 1e9 / each for s in times]
        differences = [t - p for t, p in zip(total, base, strict=True)]
        rows.append(row(what, threads, differences))
        # The least of each on its own: of two runs that were disturbed alike the
        # difference may be less.
        rows[-1] |= {
            "ns_min": round(min(total) - min(base), 3),
            "total_ns_min": round(min(total), 3),
            "total_ns_median": round(statistics.median(total), 3),
            "plain_ns_min": round(min(base), 3),
        }
    return rows


def trees(module: ModuleType, runs: int) -> list[Row]:
    tree = module.EmptyTree(DEPTH)
    big = module.Tree(NODES)
    small = module.Tree(1000)
    rows = []
    for threads in (1, 2):
        pyblitz.set_num_threads(threads)
        empty = {"join": tree.forked, "join_lazy": tree.lazy}
        rows += over_plain(empty, threads, tree.plain, runs, tree.joins)
        sums = {f"treesum {how}": partial(big.sum, how) for how in ("lazy", "forked")}
        rows += over_plain(sums, threads, partial(big.sum, "plain"), runs, NODES)
        fibs = {f"fib {how}": partial(module.fib, FIB, how) for how in ("lazy", "forked")}
        rows += over_plain(fibs, threads, partial(module.fib, FIB, "plain"), runs, 1)
    pyblitz.set_num_threads(8)
    repeat = 2000
    sums = {f"treesum_small {how}": partial(small.sum, how, repeat) for how in ("lazy", "forked")}
    rows += over_plain(sums, 8, partial(small.sum, "plain", repeat), runs, repeat)
    return rows


def loops(module: ModuleType, runs: int) -> list[Row]:
    pyblitz.set_num_threads(2)
    steps = module.calibrate(ITERATION_NS)
    shared, ideal = [], []
    for _ in range(runs):
        shared.append(statistics.median(module.loop(ITERATIONS, steps, True) for _ in range(JOBS)))
        ideal.append(
            statistics.median(module.loop(ITERATIONS, steps, False) for _ in range(JOBS // 4)) / 2
        )
    return [row("parallel_for", 2, shared, ideal_ns=round(statistics.median(ideal), 3))]


def latencies(module: ModuleType, runs: int) -> list[Row]:
    times: dict[str, list[float]] = {}
    for _ in range(runs):
        # A new thread for each run: where Linux puts it decides between two values.
        pyblitz.set_num_threads(1)
        pyblitz.set_num_threads(2)
        module.submit_ns(JOBS, 0)
        for what, idle, jobs in (("latency", IDLE, JOBS), ("warm", 0.0, 10 * JOBS)):
            for suffix, blocking in (("", False), ("_blocked", True)):
                found = module.submit_ns(jobs, idle, blocking)
                times.setdefault(what + suffix, []).append(statistics.median(found))
        # What the system itself takes to wake a thread that sleeps on a futex.
        times.setdefault("futex", []).append(statistics.median(module.wake_ns(JOBS, IDLE)))
    futex = row("latency", 2, times.pop("futex"), "a futex alone")
    return [row(what, 2, values) for what, values in times.items()] + [futex]


def siblings(module: ModuleType) -> list[Row]:
    pyblitz.set_num_threads(2)
    module.submit_ns(1, 0)
    rows = []
    for how in ("eager", "lazy"):
        times = []
        for _ in range(3):
            time.sleep(IDLE)
            times.append(module.sibling_ns(LEAF_NS, how))
        rows.append(row(f"sibling {how}", 2, times))
    return rows


def tasks(module: ModuleType, runs: int, threads: int) -> list[Row]:
    pyblitz.set_num_threads(threads)
    times: dict[str, list[float]] = {"spawn": [], "spawn_many": [], "scope_map": [], "keyed": []}
    for _ in range(runs):
        for what in ("spawn", "spawn_many", "scope_map"):
            times[what].append(module.tasks(TASKS, what) / TASKS)
        ns, disorder, ran = module.keyed(TASKS, KEYS)
        assert (disorder, ran) == (0, TASKS)
        times["keyed"].append(ns / TASKS)
    return [row(what, threads, values) for what, values in times.items()]


def table(rows: list[Row]) -> str:
    lines = [f"{'what':<22}{'who':<16}{'threads':>7}{'min ns':>18}{'median ns':>18}{'runs':>6}"]
    for r in rows:
        if "missing" in r:
            lines.append(f"{r['what']:<22}{r['who']:<16}{r['missing']}")
        else:
            lines.append(
                f"{r['what']:<22}{r['who']:<16}{r['threads']:>7}"
                f"{r['ns_min']:>18,.2f}{r['ns_median']:>18,.2f}{r['runs']:>6}"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="What the scheduler costs.")
    parser.add_argument("--runs", type=int, default=9, help="of each row (default 9)")
    parser.add_argument("--peer-rounds", type=int, default=3, help="of each peer's (default 3)")
    parser.add_argument("--output", default=machine.results_here("scheduler"), type=pathlib.Path)
    options = parser.parse_args()
    facts = machine.facts()  # now, for the load that is not ours
    before = pyblitz.num_threads()
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch)
        module = compiled(directory, "_scheduler")
        (directory / "peers").mkdir()
        peers = others.available(directory / "peers")
        runs, rounds = options.runs, options.peer_rounds
        few = max(1, runs // 3)
        # Ours and theirs in turn, subject by subject.
        rows = trees(module, runs)
        for what in ("join", "fib", "treesum", "treesum_small"):
            rows += theirs(peers, what, 1 if what in ("fib", "treesum") else rounds)
        rows += loops(module, few) + theirs(peers, "parallel_for", few)
        rows += latencies(module, min(5, runs))
        rows += theirs(peers, "latency", 1) + theirs(peers, "warm", rounds)
        rows += siblings(module)
        rows += tasks(module, runs, 1) + tasks(module, runs, 2) + theirs(peers, "spawn", rounds)
        for who, why in others.missing(directory / "peers").items():
            rows.append({"what": "all", "who": who, "missing": why})
        facts["peers"] = others.versions(directory / "peers")
    pyblitz.set_num_threads(before)
    machine.write(options.output, rows, facts)
    print(f"{facts['cpu']}, {facts['cpus']} cpus, load {facts['load']:.2f}, {facts['date']}")
    print(table(rows))
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
