"""python benchmarks/join.py: what a fork costs, and how soon a job is done.

Writes benchmarks/results/join.jsonl and prints it as a table.  Rows:

- join: a join of two empty leaves in a full binary tree of depth 20, over the
  two plain calls (through a function pointer) of the same tree, for pools of 1
  and 2 threads.  Trees with and without joins are timed in turn.
- latency: one job from a thread outside a pool of 2 threads that has slept for
  20 ms, from submit until the caller, polling, sees its flag; latency_blocked:
  until the caller, asleep, was woken by it.
- warm, warm_blocked: the same, back to back.

Each also with Rayon (benchmarks/rust), whose runs alternate with pyblitz's, if
cargo and Debian's librust-rayon-dev are here; else a row says what is missing.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import machine  # noqa: E402

import pyblitz  # noqa: E402

DEPTH = 20
IDLE = 0.02
JOBS = 200
CRATES = pathlib.Path("/usr/share/cargo/registry")  # where Debian puts its crates

Row = dict[str, Any]


def compiled(directory: pathlib.Path) -> ModuleType:
    """_join.pyx, built in ``directory``."""
    shutil.copy(HERE / "_join.pyx", directory)
    (directory / "setup.py").write_text(
        "from Cython.Build import cythonize\n"
        "from setuptools import Extension, setup\n"
        "setup(name='_join', ext_modules=cythonize("
        "[Extension('_join', ['_join.pyx'], extra_compile_args=['-O3'])]))\n"
    )
    package = pathlib.Path(pyblitz.__file__).resolve().parent.parent
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
        sys.exit(done.stdout)
    (library,) = directory.glob("_join.*.so")
    spec = importlib.util.spec_from_file_location("_join", library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rayon(directory: pathlib.Path) -> tuple[Callable[[str], list[Row]] | None, str]:
    """The Rust program, built in ``directory``, as a function of the row wanted;
    and Rayon's version.  Or None, and why not."""
    cargo = shutil.which("cargo", path=f"{pathlib.Path.home()}/.cargo/bin:{os.environ['PATH']}")
    versions = sorted(CRATES.glob("rayon-[0-9]*"))
    if cargo is None:
        return None, "there is no cargo"
    if not versions:
        return None, f"there is no rayon in {CRATES} (Debian: librust-rayon-dev)"
    source = directory / "rust"
    shutil.copytree(HERE / "rust", source, ignore=shutil.ignore_patterns("target", "Cargo.lock"))
    done = subprocess.run(
        [
            *(cargo, "build", "--release", "--offline", "--quiet"),
            *("--config", 'source.crates-io.replace-with="debian"'),
            *("--config", f'source.debian.directory="{CRATES}"'),
        ],
        cwd=source,
        env={**os.environ, "CARGO_TARGET_DIR": str(source / "target")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        return None, f"cargo failed: {done.stdout.strip().splitlines()[-1]}"
    program = source / "target" / "release" / "rayon-peer"

    def run(what: str) -> list[Row]:
        output = subprocess.run([program, what], check=True, capture_output=True, text=True)
        return [json.loads(line) for line in output.stdout.splitlines()]

    return run, versions[-1].name


def summary(who: str, what: str, threads: int, values: list[float], **more: object) -> Row:
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


def join_rows(module: ModuleType, peer: Callable[[str], list[Row]] | None, runs: int) -> list[Row]:
    tree = module.EmptyTree(DEPTH)
    pools = {n: pyblitz.ThreadPool(n) for n in (1, 2)}
    theirs: list[Row] = []
    funcs: dict[str, Callable[[], object]] = {"plain": tree.plain}
    funcs |= {str(n): partial(pool.install, tree.forked) for n, pool in pools.items()}
    if peer is not None:
        funcs["rayon"] = lambda: theirs.extend(peer("join"))
    seconds = machine.interleave(funcs, runs, warmup=1)
    for pool in pools.values():
        pool.close()

    scale = 1e9 / tree.joins
    plain = [scale * s for s in seconds["plain"]]
    rows = []
    for n in pools:
        total = [scale * s for s in seconds[str(n)]]
        row = summary("pyblitz", "join", n, [t - p for t, p in zip(total, plain, strict=True)])
        # The least of each on its own: the difference of two runs that were
        # disturbed alike may be less.
        row["ns_min"] = round(min(total) - min(plain), 3)
        row |= {"total_ns_min": round(min(total), 3), "plain_ns_min": round(min(plain), 3)}
        rows.append(row)
    for n in pools:
        own = [row for row in theirs if row["threads"] == n][1:]  # the first warmed up
        if own:
            row = summary("rayon", "join", n, [row["ns"] for row in own])
            least = {k: min(r[k] for r in own) for k in ("total_ns", "plain_ns")}
            row["ns_min"] = round(least["total_ns"] - least["plain_ns"], 3)
            row |= {f"{k}_min": v for k, v in least.items()}
            rows.append(row)
    return rows


def latency_rows(
    module: ModuleType, peer: Callable[[str], list[Row]] | None, what: str, runs: int
) -> list[Row]:
    """A run is the median of JOBS jobs."""
    idle = IDLE if what == "latency" else 0.0
    ours: dict[str, list[float]] = {what: [], f"{what}_blocked": []}
    theirs: dict[str, list[float]] = {}
    before = pyblitz.num_threads()
    pyblitz.set_num_threads(2)
    try:
        module.submit_ns(JOBS, 0)  # starts the thread
        for _ in range(runs):
            for name, times in ours.items():
                blocking = name != what
                times.append(statistics.median(module.submit_ns(JOBS, idle, blocking)))
            for row in peer(what) if peer is not None else ():
                theirs.setdefault(row["what"], []).append(row["ns"])
    finally:
        pyblitz.set_num_threads(before)
    return [
        summary(who, name, 2, times, jobs=JOBS)
        for who, results in (("pyblitz", ours), ("rayon", theirs))
        for name, times in results.items()
    ]


def table(rows: list[Row]) -> str:
    lines = [f"{'what':<18}{'who':<10}{'threads':>7}{'min ns':>14}{'median ns':>14}{'runs':>6}"]
    for row in rows:
        if "missing" in row:
            lines.append(f"{row['what']:<18}{row['who']:<10}{row['missing']}")
        else:
            lines.append(
                f"{row['what']:<18}{row['who']:<10}{row['threads']:>7}"
                f"{row['ns_min']:>14,.2f}{row['ns_median']:>14,.2f}{row['runs']:>6}"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="What a fork costs, and how soon a job is done.")
    parser.add_argument("--runs", type=int, default=15, help="of the trees (default 15)")
    parser.add_argument("--latency-runs", type=int, default=3, help="of 200 jobs each (default 3)")
    parser.add_argument("--output", default=machine.RESULTS / "join.jsonl", type=pathlib.Path)
    options = parser.parse_args()
    facts = machine.facts()  # now, for the load that is not ours
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch)
        module = compiled(directory)
        peer, version = rayon(directory)
        rows = join_rows(module, peer, options.runs)
        for what in ("latency", "warm"):
            rows += latency_rows(module, peer, what, options.latency_runs)
    if peer is None:
        rows.append({"what": "all", "who": "rayon", "missing": version})
    facts["rayon"] = version if peer is not None else None
    machine.write(options.output, rows, facts)
    print(f"{facts['cpu']}, {facts['cpus']} cpus, load {facts['load']:.2f}, {facts['date']}")
    print(table(rows))
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
