"""Everything at once, for as long as you like:

    [THREADS=4] [SCALE=1] [SECONDS=60] [SEED=0] python tests/stress/soak.py

THREADS threads each do one thing after another, drawn by SEED: joins, loops, scopes, jobs and
keyed jobs from outside, array operations, failures, cancellations, timeouts, pools of their
own, recordings; one of them also replaces the global pool and forks the process.  Each knows
exactly what must come out, so an operation that is lost or done twice is an error.  SCALE
makes operations larger.  The watchdog prints all stacks after 60 seconds without progress.

With PYBLITZ_BUILD=debug and a package built so, PYBLITZ_CHAOS=RATE strikes at the named points
of runtime/chaos.h.
"""

from __future__ import annotations

import collections
import faulthandler
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import pyblitz as pb

Done = collections.Counter  # operations of each kind


class Soak:
    """The operations.  Each returns how many it did, after checking them."""

    def __init__(self, native: SimpleNamespace, seed: int, scale: int) -> None:
        self.capi, self.poll = native.capi, native.poll
        self.random = random.Random(seed)
        self.scale = scale
        self.a = np.random.default_rng(seed).random(100_000 * scale)

    def join(self) -> int:
        depth = self.random.randrange(5, 10 + self.scale)
        nodes, intruders, _ = self.capi.tree(1, depth, self.random.choice(["join", "for", "scope"]))
        assert (nodes, intruders) == (2 ** (depth + 1) - 1, 0), (nodes, intruders, depth)
        return nodes

    def loop(self) -> int:
        n = self.random.randrange(1, 20_000 * self.scale)
        grain = self.random.choice([0, 1, 7, 1000])
        _, counts, *_ = self.capi.mark_all(n, grain)
        assert set(counts) == {1}
        return n

    def failing_loop(self) -> int:
        n = self.random.randrange(1, 5_000 * self.scale)
        fails = bytearray(n)
        bad = [self.random.randrange(n) for _ in range(3)]
        for i in bad:
            fails[i] = 1
        _, counts, *_ = self.capi.mark_all(n, 1, bytes(fails))
        first = min(bad)
        assert set(counts[: first + 1]) == {1}, "what is before the first failure has run"
        assert set(counts) <= {0, 1}
        return first + 1

    def scope(self) -> int:
        levels = self.random.randrange(2, 5)
        tasks = self.capi.scope_tree(levels, 6)
        assert tasks == sum(6**i for i in range(1, levels + 1)), tasks
        return tasks

    def inject(self) -> int:
        n = self.random.randrange(1, 2000 * self.scale)
        tally = self.capi.Tally()
        self.capi.submit_many(tally, n)
        tally.reach(n)
        assert tally.value == n
        return n

    def keyed(self) -> int:
        seen: dict[int, list[int]] = collections.defaultdict(list)
        n = self.random.randrange(1, 300 * self.scale)
        with pb.ThreadPool(self.random.randrange(1, 5)) as pool:
            for i in range(n):
                pool.submit(seen[i % 7].append, i, affinity=(id(self), i % 7))
        for key, items in seen.items():
            assert items == list(range(key, n, 7)), "each once, in order"
        return n

    def arrays(self) -> int:
        part = self.a[: self.random.randrange(1, self.a.size)]
        what = self.random.randrange(3)
        if what == 0:
            assert np.array_equal(pb.par_map(np.sqrt, part), np.sqrt(part))
        elif what == 1:
            assert np.array_equal(pb.par_sort(part), np.sort(part))
        else:
            assert pb.par_reduce(np.maximum, part) == part.max()
        return 1

    def callables(self) -> int:
        """Nested, and from several levels."""
        inner = self.a[:70_000]
        expected = inner.max()

        def block(x: np.ndarray) -> np.ndarray:
            assert pb.par_reduce(np.maximum, inner) == expected
            return -x

        assert np.array_equal(pb.par_map(block, self.a), -self.a)
        return 1

    def failing_callable(self) -> int:
        def block(x: np.ndarray) -> np.ndarray:
            raise KeyError(float(x.flat[0]))

        with pytest.raises(KeyError) as raised:
            pb.par_map(block, self.a)
        assert raised.value.args == (self.a[0],), "the first block's"
        return 1

    def timeout(self) -> int:
        spinner = self.poll.Spinner()
        how = self.random.choice(["run", "join", "lazy", "fork", "for", "nested", "scope"])
        scope = pb.CancelScope(timeout=self.random.random() * 0.01)
        with pytest.raises(TimeoutError), scope:
            spinner.spin(how)
        assert spinner.stopped == spinner.running
        return 1

    def cancel(self) -> int:
        scope = pb.CancelScope()
        timer = threading.Timer(self.random.random() * 0.01, scope.cancel)
        timer.start()
        try:
            with scope:
                while True:
                    pb.par_sort(self.a)
        except CancelledError:
            return 1
        finally:
            timer.join()

    def own_pool(self) -> int:
        n = self.random.randrange(1, 50)
        options = self.random.choice(
            [{}, {"idle_timeout": 0.0}, {"idle_timeout": 0.001, "keep": 1}]
        )
        pool = pb.ThreadPool(self.random.randrange(1, 6), **options)
        futures = [pool.submit(pow, i, 2) for i in range(n)]
        assert pool.install(self.capi.fib, 15) == 610
        if self.random.randrange(2):
            pool.close()
        assert [f.result() for f in futures] == [i * i for i in range(n)]
        return n

    def record(self) -> int:
        try:
            s = pb.stats()
        except RuntimeError:  # another thread records
            return 0
        with s:
            self.arrays()
        assert s.seconds > 0
        return 1

    # -- of one thread only, for they change what belongs to the process

    def resize(self) -> int:
        n = self.random.randrange(1, 9)
        pb.set_num_threads(n)
        return 1

    def fork(self) -> int:
        pid = os.fork()
        if pid == 0:
            ok = False
            try:
                ok = self.capi.fib(15) == 610 and self.arrays() == 1 and self.own_pool() > 0
            finally:
                os._exit(0 if ok else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "the child failed"
        return 1


MIXED = [
    "join",
    "loop",
    "failing_loop",
    "scope",
    "inject",
    "keyed",
    "arrays",
    "callables",
    "failing_callable",
    "timeout",
    "cancel",
    "own_pool",
    "record",
]
ALONE = ["resize", "resize", "resize", "fork"]


def soak(
    native: SimpleNamespace, threads: int, scale: int, seconds: float, seed: int, forks: bool = True
) -> Done:
    """How many operations of each kind were done; the first error is raised."""
    done: Done = Done()
    errors: list[BaseException] = []
    lock = threading.Lock()
    end = time.monotonic() + seconds

    def work(number: int) -> None:
        operations = Soak(native, seed * 1000 + number, scale)
        kinds = MIXED if number else MIXED + (ALONE if forks else ALONE[:-1])
        while time.monotonic() < end and not errors:
            kind = operations.random.choice(kinds)
            operation: Callable[[], int] = getattr(operations, kind)
            try:
                n = operation()
            except BaseException as e:
                errors.append(e)
                return
            with lock:  # free-threaded, the watchdog is not safe to set from two threads
                done[kind] += n
                faulthandler.dump_traceback_later(60, exit=True)

    before = pb.num_threads()
    crowd = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    faulthandler.cancel_dump_traceback_later()
    pb.set_num_threads(before)
    if errors:
        raise errors[0]
    return done


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from conftest import build_native

    number = {
        name: float(os.environ.get(name, default))
        for name, default in [("THREADS", 4), ("SCALE", 1), ("SECONDS", 60), ("SEED", 0)]
    }
    print(*(f"{name}={value:g}" for name, value in number.items()), flush=True)
    with tempfile.TemporaryDirectory() as target:
        names = build_native(Path(target))
        sys.path.insert(0, target)
        native = SimpleNamespace(
            **{name.removeprefix("native_"): __import__(name) for name in names}
        )
        done = soak(
            native,
            int(number["THREADS"]),
            int(number["SCALE"]),
            number["SECONDS"],
            int(number["SEED"]),
        )
    for kind, n in sorted(done.items()):
        print(f"{n:>12,} {kind}")
    print(f"{sum(done.values()):>12,} operations, none lost and none done twice")


if __name__ == "__main__":
    main()
