"""python benchmarks/compare.py [BEFORE [AFTER]]: what a change does to speed.

Each is a commit, or the directory of a tree that was built; without them the last commit's
parent, and the tree around this file as it is.  Commits are built in the user's cache, once.
One process of each calls the same functions on the same data, in turn; what seems to differ is
measured again with more turns, in new processes, whose memory lies elsewhere: where small arrays
lie in their cache lines and pages is worth up to half of their time.  Prints each call's time
before and after, and fails when one is slower by more than --percent in all of them.

Rows that end in "native" are those of scheduler.py: its kernels are built against each of the two.
A row whose kernels cannot be built against the older one is not in both.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from types import ModuleType
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent

TURN = 0.01  # seconds at least, by repeated calls
TURNS = 15
PAUSE = 0.001  # seconds between two turns: threads spin for a while after work
PAIRS = 4  # of processes, for what seems to differ
SLEEPS = 5  # jobs in a turn, for threads that sleep before each

Call = Callable[[], object]
Timed = Callable[[int], float]  # nanoseconds of one call, of so many


# ---- what is called: in a process of each -----------------------------------


def line(x: Any) -> Any:
    return (x * 2 + 1).collect()


def squares(x: Any) -> Any:
    return (x * x).sum()


def timed(call: Call, times: int) -> float:
    begun = time.perf_counter_ns()
    for _ in range(times):
        call()
    return (time.perf_counter_ns() - begun) / times


def native(threads: int, directory: pathlib.Path) -> Iterator[tuple[str, Timed]]:
    """What scheduler.py times, by its own kernels; they are built when one is first called."""
    import scheduler

    @cache
    def module() -> ModuleType:
        return scheduler.compiled(directory, "_scheduler")

    @cache
    def tree() -> Any:
        return module().EmptyTree(scheduler.DEPTH)

    def latency(idle: float, times: int) -> float:
        jobs = min(times, SLEEPS) if idle else times
        found: list[float] = module().submit_ns(jobs, idle)
        return statistics.median(found)

    yield f"join, 2 ** {scheduler.DEPTH} leaves, native", partial(timed, lambda: tree().forked())
    yield f"join_lazy, 2 ** {scheduler.DEPTH} leaves, native", partial(timed, lambda: tree().lazy())
    # In a pool of one thread there is nobody to hand a job to.
    if threads > 1:
        yield "submit, threads awake, native", partial(latency, 0.0)
        yield "submit, threads asleep, native", partial(latency, scheduler.IDLE)


def calls(threads: int) -> Iterator[tuple[str, Call]]:
    import numpy as np

    import pyblitz as pb

    pb.set_num_threads(threads)
    rng = np.random.default_rng(1)
    for n in (1_000, 100_000, 2_000_000):
        x, y = rng.random(n), rng.random(n)
        k, few = rng.integers(0, 1 << 60, n), rng.integers(0, 1_000, n)
        where, mask, out = rng.permutation(n), x > 0.5, np.empty(n)
        small = k.astype("i4")
        table: dict[str, Call] = {
            "par_map(np.sqrt, f8)": partial(pb.par_map, np.sqrt, x, out=out),
            "par_map(np.add, f8, f8)": partial(pb.par_map, np.add, x, y, out=out),
            "par_sum(f8)": partial(pb.par_sum, x),
            "par_max(i8)": partial(pb.par_max, k),
            "par_dot(f8, f8)": partial(pb.par_dot, x, y),
            "par_cumsum(f8)": partial(pb.par_cumsum, x),
            "par_sort(i8)": partial(pb.par_sort, k),
            "par_sort(f8)": partial(pb.par_sort, x),
            "par_sort(i4)": partial(pb.par_sort, small),
            "par_argsort(i8)": partial(pb.par_argsort, k),
            "par_unique(1000 values)": partial(pb.par_unique, few),
            "par_partition(f8)": partial(pb.par_partition, x, n // 2),
            "par_bincount": partial(pb.par_bincount, few),
            "par_take(f8)": partial(pb.par_take, x, where),
            "par_filter(f8, mask)": partial(pb.par_filter, x, mask),
            "par_count_nonzero(bool)": partial(pb.par_count_nonzero, mask),
            "par_concatenate([f8, f8])": partial(pb.par_concatenate, [x, y]),
            "par_iter: (x * 2 + 1).collect()": partial(line, pb.par_iter(x)),
            "par_iter: (x * x).sum()": partial(squares, pb.par_iter(x)),
        }
        for name, call in table.items():
            yield f"{name}, {n:,}", call
    pool = pb.ThreadPool(threads)
    yield "ThreadPool.submit(f).result()", lambda: pool.submit(abs, 1).result()
    yield "join(f, g)", partial(pb.join, int, int)


def serve(threads: int, layout: int, directory: pathlib.Path) -> int:
    """Reads the number of a call, and how often to call; says what one took, in nanoseconds."""
    import warnings

    sys.path.append(str(HERE))

    # Before NumPy takes its first memory: what follows lies elsewhere in each layout.
    rng = random.Random(layout)
    held = [bytearray(rng.randrange(16, 4096)) for _ in range(64)]
    del held[::2]

    warnings.simplefilter("ignore")
    table: list[tuple[str, Timed]] = [
        *((name, partial(timed, call)) for name, call in calls(threads)),
        *native(threads, directory),
    ]
    print(json.dumps([name for name, _ in table]), flush=True)
    for line in sys.stdin:
        which, times = (int(word) for word in line.split())
        try:
            took: float | None = table[which][1](times)
        except Exception:  # what the older one had not yet
            took = None
        print(json.dumps(took), flush=True)
    return 0


# ---- the two ----------------------------------------------------------------


class Contestant:
    def __init__(
        self, tree: pathlib.Path, threads: int, layout: int, directory: pathlib.Path
    ) -> None:
        serve = ["--serve", str(threads), str(layout), str(directory)]
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "compare.py"), *serve],
            env={**os.environ, "PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.names: list[str] = self.answer()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a process ended: exit {self.process.wait()}")
        return json.loads(line)

    def took(self, which: int, times: int) -> float | None:
        assert self.process.stdin is not None
        print(which, times, file=self.process.stdin, flush=True)
        found: float | None = self.answer()
        return found

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


Row = tuple[float, float, float]  # nanoseconds before and after, and their ratio


def nearest(row: Row, other: Row | None) -> Row:
    return row if other is None else min(row, other, key=lambda r: abs(math.log(r[2])))


def in_turn(both: list[Contestant], which: int, turns: int) -> Row | None:
    """The least nanoseconds of a call, before and after, and their ratio: that of the least or
    the median of the turns' ratios, whichever is nearer to 1, for noise moves one or the other."""
    first = [c.took(which, 1) for c in both]
    again = [c.took(which, 3) for c in both]
    known = [t for t in first + again if t is not None]
    if len(known) < 4:
        return None
    times = max(1, math.ceil(TURN * 1e9 / max(known[2:])))
    rows = []
    for turn in range(turns):
        row = [0.0, 0.0]
        for i in (0, 1) if turn % 2 == 0 else (1, 0):
            time.sleep(PAUSE)
            row[i] = both[i].took(which, times) or math.nan
        rows.append(row)
    before, after = (min(column) for column in zip(*rows, strict=True))
    ratios = after / before, statistics.median(row[1] / row[0] for row in rows)
    return before, after, min(ratios, key=lambda ratio: abs(math.log(ratio)))


def built(what: str) -> pathlib.Path:
    """The tree of a commit, built."""
    if pathlib.Path(what, "pyblitz").is_dir():
        return pathlib.Path(what).resolve()
    done = subprocess.run(
        ["git", "rev-parse", "--verify", f"{what}^{{commit}}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    commit = done.stdout.strip()
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    # Another Python or NumPy has other modules.
    tree = cache / "pyblitz" / "compare" / f"{commit}-{sys.implementation.cache_tag}"
    if not (tree / "ready").exists():
        print(f"building {commit[:9]} in {tree}", file=sys.stderr)
        shutil.rmtree(tree, ignore_errors=True)
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(tree)], check=True)
        subprocess.run(["git", "checkout", "--quiet", commit], cwd=tree, check=True)
        build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
        subprocess.run(build, cwd=tree, check=True, stdout=subprocess.DEVNULL)
        (tree / "ready").touch()
    return tree


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[2].strip())
    parser.add_argument("before", nargs="?", default="HEAD~1")
    parser.add_argument("after", nargs="?", default=str(ROOT))
    parser.add_argument("--only", default="", help="calls whose name has this in it")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--percent", type=float, default=3.0)
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        threads, layout, directory = options.serve
        return serve(int(threads), int(layout), pathlib.Path(directory))
    trees = [built(options.before), built(options.after)]
    with tempfile.TemporaryDirectory() as scratch:
        return compare(trees, pathlib.Path(scratch), options)


def compare(trees: list[pathlib.Path], scratch: pathlib.Path, options: argparse.Namespace) -> int:
    # Kernels are built once for each tree.
    directories = [scratch / "before", scratch / "after"]
    for directory in directories:
        directory.mkdir()
    bound = 1 + options.percent / 100
    slower = []
    for threads in options.threads:
        print(f"\n{threads} threads{'before':>41}{'after':>12}   after / before")
        rows: dict[str, Row | None] = {}
        for pair in range(PAIRS):
            both = [Contestant(trees[i], threads, 2 * pair + i, directories[i]) for i in (0, 1)]
            for which, name in enumerate(both[1].names):
                row = rows.get(name)
                if pair == 0 and options.only in name:
                    rows[name] = in_turn(both, which, TURNS)
                elif row is not None and not 1 / bound < row[2] < bound:
                    rows[name] = nearest(row, in_turn(both, which, 2 * TURNS))
            for contestant in both:
                contestant.end()
        for name, row in rows.items():
            if row is None:
                print(f"{name:38} is not in both")
                continue
            before, after, ratio = row
            mark = "" if 1 / bound < ratio < bound else "  slower" if ratio > 1 else "  faster"
            print(f"{name:38}{before / 1e3:9.1f} us{after / 1e3:9.1f} us{ratio:10.3f}{mark}")
            if mark == "  slower":
                slower.append(f"{name}, {threads} threads")
        sys.stdout.flush()
    print("\nslower: " + ("; ".join(slower) or "nothing"))
    return len(slower) > 0


if __name__ == "__main__":
    sys.exit(main())
