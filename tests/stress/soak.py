"""Everything at once, for as long as you like:

    python tests/stress/soak.py [--minutes 1] [--callers 4] [--seed 0] [--scale 1] [--only KIND ...]

CALLERS threads, the main one among them, do one thing after another: joins, loops, scopes,
tasks and futures, jobs and keyed jobs, mail for one worker, array operations, failures,
cancellations, timeouts, signals, forks, recordings; in the global pool, in pools of their own,
in pools inside pools, in pools that all share, and in pools that are dropped while they work.
Inputs are written while they are read.  All the while a profiler's timer strikes a thousand
times a second.  The main thread also replaces the global pool and the shared ones, and is
interrupted.

Each operation knows what must come out: something else, a future without a result, or work that
was lost or done twice, is a loss.  A caller that has done nothing for two minutes hangs: all
stacks are printed, and the exit code says so.  First each caller does each thing once.  SEED
decides the order of what each does, and the numbers that each operation draws.

With PYBLITZ_BUILD=debug and a package built so, PYBLITZ_CHAOS=RATE strikes at the named points
of runtime/chaos.h.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import faulthandler
import functools
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pyblitz as pb

HANG_SECONDS = 120
MANY_LOSSES = 20  # after which it ends
TICK_SECONDS = 0.001  # of the profiler's timer
WRITTEN_ITEMS = 60_000
# Of the values that are written, and what is added to some of them: powers of two, since NumPy's
# copies read and write by bytes, so that an item may have some of one value and some of another.
LIMIT, BEYOND = 1 << 10, 1 << 20


class Interrupt(BaseException):
    """What the signal's handler raises in the main thread."""


class Shared:
    """What all callers of a soak have in common."""

    def __init__(self, seed: int) -> None:
        self.lock = threading.Lock()
        self.pools = [pb.ThreadPool(n) for n in (3, 2, 5)]
        self.callers: set[int] = set()  # identifiers of threads that are in the soak
        self.ticks = 0
        self.sent: collections.deque[float] = collections.deque()  # signals, not yet handled
        self.latest = 0.0  # seconds until a signal's handler ran, the most
        self.interrupting = False
        self.row = np.random.default_rng(seed).integers(0, LIMIT, WRITTEN_ITEMS)

    def tick(self, number: int, frame: FrameType | None) -> None:
        self.ticks += 1
        while frame is not None:  # as a profiler does
            frame = frame.f_back

    def handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        with contextlib.suppress(IndexError):  # it may be interrupted by itself
            while True:
                self.latest = max(self.latest, now - self.sent.popleft())
        if self.interrupting:
            self.interrupting = False
            raise Interrupt

    def kill(self, thread: int) -> None:
        with self.lock:  # a thread that has ended has no identifier
            if thread in self.callers:
                self.sent.append(time.monotonic())
                signal.pthread_kill(thread, signal.SIGUSR1)

    def strike(self) -> None:
        self.interrupting = True
        self.kill(threading.main_thread().ident or 0)


def values(found: Any) -> bool:
    """Of those that were written, wherever they now are."""
    found = np.asarray(found)
    return bool(np.all((found % BEYOND < LIMIT) & (found // BEYOND < 2) & (found >= 0)))


def places(found: Any, n: int = WRITTEN_ITEMS) -> bool:
    found = np.asarray(found)
    return found.size == 0 or (found.min() >= 0 and found.max() < n)


def many(found: np.ndarray) -> bool:
    """Each value occurs at most as often as there are items."""
    return found.size <= BEYOND + LIMIT and found.min() >= 0 and found.max() <= WRITTEN_ITEMS


# Of an array x that another thread writes, and what still holds of the result.
WRITTEN: dict[str, Callable[[np.ndarray], bool]] = {
    "sort": lambda x: values(pb.par_sort(x)),
    "argsort": lambda x: places(pb.par_argsort(x)),
    "partition": lambda x: values(pb.par_partition(x, x.size // 3)),
    "topk": lambda x: values(pb.par_topk(x, 9).values),
    "unique": lambda x: values(pb.par_unique(x)),
    "isin": lambda x: pb.par_isin(x, x[:500]).dtype == np.bool_,
    "merge": lambda x: values(pb.par_merge(np.arange(LIMIT).repeat(50), x)),
    "rank": lambda x: places(pb.par_rank(x, "ordinal") - 1),
    "sort_by_key": lambda x: values(pb.par_sort_by_key(x, x)[1]),
    "group_by": lambda x: places(pb.par_group_by(x).order),
    "lexsort": lambda x: places(pb.par_lexsort([x, x])),
    "filter": lambda x: values(pb.par_filter(x, x < LIMIT // 2)),
    "mask": lambda x: values(pb.par_filter(x, x.view(np.bool_)[: x.size])),
    "partition_by": lambda x: all(map(values, pb.par_partition_by(x, x.view(np.bool_)[: x.size]))),
    "flatnonzero": lambda x: places(pb.par_flatnonzero(x)),
    "nonzero": lambda x: places(pb.par_where(x.view(np.bool_))[0], 8 * x.size),
    "where": lambda x: values(pb.par_where(x < LIMIT // 2, x, 7)),
    "bincount": lambda x: many(pb.par_bincount(x)),
    "histogram": lambda x: many(pb.par_histogram(x, 50)[0]),
    "digitize": lambda x: places(pb.par_digitize(x, np.arange(9)), 10),
    "searchsorted": lambda x: places(pb.par_searchsorted(np.arange(LIMIT), x), LIMIT + 1),
    "edges": lambda x: places(pb.par_searchsorted(x, np.arange(x.size)), x.size + 1),
    "take": lambda x: values(pb.par_take(np.arange(LIMIT), x)),
    "put": lambda x: pb.par_put(np.zeros(LIMIT), x, 1.0) is None,
    "repeat": lambda x: values(pb.par_repeat(np.arange(x.size) % LIMIT, x)),
    "max": lambda x: values(pb.par_max(x)),
    "cumsum": lambda x: pb.par_cumsum(x)[-1] >= 0,
    "find": lambda x: (pb.par_position(x, 5) or 0) < x.size,
}


class Soak:
    """The operations.  Each returns how many it did, after checking them."""

    def __init__(self, native: SimpleNamespace, shared: Shared, seed: int, scale: int) -> None:
        self.capi, self.forks, self.poll = native.capi, native.forks, native.poll
        self.shared = shared
        self.random = random.Random()
        self.scale = scale
        self.a = np.random.default_rng(seed).random(100_000 * scale)

    def pool(self) -> pb.ThreadPool:
        """One that others use too."""
        return self.random.choice(self.shared.pools)

    # -- compiled tasks

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

    def spawn_on(self) -> int:
        pool, n = self.pool(), self.random.randrange(1, 500)
        index = self.random.randrange(pool.num_threads - 1)
        assert pool.install(self.forks.on_worker, index, n) == (n, 0)
        return n

    def mail(self) -> int:
        pool = self.pool()
        workers, n, hops = (
            pool.num_threads - 1,
            self.random.randrange(1, 60),
            self.random.randrange(9),
        )
        assert pool.install(self.forks.mail, workers, n, hops) == 3 * n * (hops + 1)
        return 3 * n * (hops + 1)

    # -- Python's tasks

    def tasks(self) -> int:
        n = self.random.randrange(2, 12)

        def fib(k: int) -> int:
            if k < 2:
                return k
            one: Future[int] = s.spawn(fib, k - 1)
            return fib(k - 2) + one.result()

        with pb.scope() as s:
            other = s.spawn(pow, n, 2)
            assert fib(n) == self.capi.fib(n)
        assert other.result(timeout=0) == n * n
        squares = pb.join(*[functools.partial(pow, i, 2) for i in range(n)])
        assert squares == tuple(i * i for i in range(n))
        return n

    def failing_tasks(self) -> int:
        n = self.random.randrange(1, 40)
        bad = self.random.randrange(n)

        def task(i: int) -> int:
            if i >= bad:
                raise KeyError(i)
            return self.capi.fib(8)

        futures: list[Future[int]] = []
        with pytest.raises(KeyError) as raised, pb.scope() as s:
            futures.extend(s.spawn(task, i) for i in range(n))
        assert raised.value.args == (bad,), "the first one's"
        assert all(f.done() for f in futures)
        assert [f.result() for f in futures[:bad]] == [21] * bad
        return bad + 1

    def spawn(self) -> int:
        n = self.random.randrange(1, 100)
        self.ended([pb.spawn(pow, i, 2) for i in range(n)], [i * i for i in range(n)])
        return n

    @staticmethod
    def ended(futures: list[Future[Any]], expected: list[Any]) -> None:
        _, lost = wait(futures, timeout=HANG_SECONDS / 2)
        assert not lost, f"{len(lost)} of {len(futures)} futures were lost"
        assert [f.result() for f in futures] == expected

    # -- pools

    def own_pool(self) -> int:
        n = self.random.randrange(1, 50)
        options: dict[str, Any] = self.random.choice(
            [{}, {"idle_timeout": 0.0}, {"idle_timeout": 0.001, "keep": 1}]
        )
        pool = pb.ThreadPool(self.random.randrange(1, 6), **options)
        futures = [pool.submit(pow, i, 2) for i in range(n)]
        assert pool.install(self.capi.fib, 15) == 610
        if self.random.randrange(2):
            pool.close()
        self.ended(futures, [i * i for i in range(n)])
        return n

    def shared_pool(self) -> int:
        n, pool = self.random.randrange(1, 50), self.pool()
        seen: dict[int, list[int]] = collections.defaultdict(list)
        inner = self.a[: self.random.randrange(1, 20_000)]
        futures = [
            *(pool.submit(seen[i % 3].append, i, affinity=(id(seen), i % 3)) for i in range(n)),
            pool.submit(pb.par_sum, inner),
        ]
        assert pool.install(self.capi.fib, 12) == 144
        self.ended(futures, [None] * n + [pb.par_sum(inner)])
        assert all(seen[key] == list(range(key, n, 3)) for key in seen), "each once, in order"
        return n

    def nested_pools(self) -> int:
        """A pool inside a job of a pool ..."""
        plan = [
            (self.random.randrange(1, 4), self.random.choice(["install", "submit", "join"]))
            for _ in range(self.random.randrange(1, 4))
        ]

        def down(level: int) -> int:
            if level == len(plan):
                return self.capi.fib(12)
            size, how = plan[level]
            with pb.ThreadPool(size) as pool:
                if how == "install":
                    return pool.install(down, level + 1)
                if how == "submit":
                    return pool.submit(down, level + 1).result()
                one, two = pb.join(
                    lambda: pool.install(down, level + 1),
                    lambda: pool.submit(down, level + 1).result(),
                )
                assert one == two
                return one

        assert down(0) == 144
        return len(plan)

    def dropped_pool(self) -> int:
        """Nobody closes it: its jobs are done, or said to be cancelled."""
        n = self.random.randrange(1, 50)
        pool: Any = pb.ThreadPool(self.random.randrange(1, 6))
        futures = [pool.submit(self.capi.fib, 10 + i % 5) for i in range(n)]
        if self.random.randrange(2):
            futures.append(pool.submit(lambda pool: 0, pool))  # the last reference is a job's
        del pool
        _, lost = wait(futures, timeout=HANG_SECONDS / 2)
        assert not lost, f"{len(lost)} of {len(futures)} futures were lost"
        assert all(f.cancelled() or f.result() in {0, 55, 89, 144, 233, 377} for f in futures)
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

    # -- arrays

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

    def written(self) -> int:
        """Another thread writes what is read: an exception, or what could be."""
        names = self.random.sample(list(WRITTEN), 3)
        x = self.shared.row.copy()
        states = [x.copy(), np.sort(x), x + BEYOND, np.full_like(x, 5)]
        if "repeat" in names:  # not too often
            x &= 3
            names, states = ["repeat"], [x.copy(), x | 4, 0 * x, -x]
        self.random.shuffle(states)
        done = threading.Event()

        def write() -> None:
            while not done.is_set():
                for state in states:
                    np.bitwise_or(state, 0, out=x)  # whole items: half of -1 is a large number

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for name in names:
                with contextlib.suppress(IndexError, ValueError):
                    assert WRITTEN[name](x), f"par_{name} of what another thread writes"
        finally:
            done.set()
            writer.join()
        return len(names)

    # -- what stops

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

    def signal(self) -> int:
        """For a thread that may wait, or compute, or be this one."""
        with self.shared.lock:
            thread = self.random.choice(sorted(self.shared.callers))
        self.shared.kill(thread)
        return 1

    def record(self) -> int:
        try:
            s = pb.stats()
        except RuntimeError:  # another thread records
            return 0
        with s:
            self.arrays()
        assert s.seconds > 0
        return 1

    def fork(self) -> int:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            ok = False
            try:
                # The timer is not the child's.  This one prints its stacks, and ends it.
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                faulthandler.register(signal.SIGALRM, chain=True)
                signal.alarm(HANG_SECONDS // 2)
                ok = self.capi.fib(15) == 610 and self.arrays() == 1 and self.own_pool() > 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0 if ok else 1)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status == 0, f"the child's exit code is {status}"
        return 1

    # -- of the main thread only: what belongs to the process, and what signals raise

    def resize(self) -> int:
        pb.set_num_threads(self.random.randrange(1, 9))
        return 1

    def replace(self) -> int:
        """A shared pool is dropped, by the last one who uses it."""
        i = self.random.randrange(len(self.shared.pools))
        self.shared.pools[i] = pb.ThreadPool(self.random.randrange(2, 7))
        return 1

    def interrupt(self) -> int:
        """As Ctrl-C does."""
        operation = self.random.choice(
            [self.join, self.loop, self.scope, self.callables, self.tasks]
        )

        timer = threading.Timer(self.random.random() * 0.02, self.shared.strike)
        try:
            timer.start()
            while True:
                operation()
        except Interrupt:
            return 1
        finally:
            timer.cancel()
            timer.join()


MIXED = {  # how often, beside the others
    "join": 3,
    "loop": 3,
    "failing_loop": 3,
    "scope": 3,
    "inject": 3,
    "spawn_on": 3,
    "mail": 3,
    "tasks": 3,
    "failing_tasks": 3,
    "spawn": 3,
    "own_pool": 2,
    "shared_pool": 3,
    "nested_pools": 2,
    "dropped_pool": 2,
    "keyed": 2,
    "arrays": 3,
    "callables": 2,
    "failing_callable": 2,
    "written": 2,
    "timeout": 2,
    "cancel": 2,
    "signal": 4,
    "record": 2,
    "fork": 1,
}
ALONE = {"resize": 6, "replace": 4, "interrupt": 4}


class Result:
    def __init__(self, callers: int, seed: int) -> None:
        self.callers, self.seed = callers, seed
        self.seconds = 0.0
        self.done: collections.Counter[str] = collections.Counter()  # operations of each kind
        self.losses: list[str] = []
        self.ticks = 0
        self.latest = 0.0

    def row(self) -> str:
        return (
            f"| {self.callers} callers | {self.seconds / 60:.1f} min | seed {self.seed} "
            f"| {sum(self.done.values()):,} operations | {len(self.losses)} losses "
            f"| {self.ticks:,} ticks | a handler after {self.latest:.3f} s at most |"
        )


@contextlib.contextmanager
def signals(shared: Shared, result: Result) -> Iterator[None]:
    """The profiler's timer, and handlers for this soak's signals."""

    def lost(unraisable: Any) -> None:
        where = unraisable.object
        if isinstance(unraisable.exc_value, Interrupt):
            threading.Timer(0.01, shared.strike).start()  # it waits for one
            if not str(where).startswith("pyblitz"):
                return  # in a destructor, or a callback: as Python does
        result.losses.append(f"unraisable: {unraisable.exc_value!r} in {where!r}")
        hook(unraisable)

    hook, sys.unraisablehook = sys.unraisablehook, lost
    before = {
        signal.SIGALRM: signal.signal(signal.SIGALRM, shared.tick),
        signal.SIGUSR1: signal.signal(signal.SIGUSR1, shared.handle),
    }
    signal.setitimer(signal.ITIMER_REAL, TICK_SECONDS, TICK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = hook


def watch(present: dict[int, tuple[float, int, str]], over: threading.Event, seed: int) -> None:
    """Ends the process when one of the callers hangs; faulthandler does when Python does."""
    while not over.wait(1):
        # The main thread is in `present` from the beginning to the end.
        faulthandler.dump_traceback_later(HANG_SECONDS + 30, exit=True)
        for number, (since, turn, kind) in list(present.items()):
            if time.monotonic() - since > HANG_SECONDS:
                print(f"seed {seed}: caller {number} hangs in its operation {turn}, {kind}")
                sys.stdout.flush()
                faulthandler.dump_traceback(all_threads=True)
                os._exit(2)
    faulthandler.cancel_dump_traceback_later()


def soak(
    native: SimpleNamespace,
    callers: int,
    scale: int,
    seconds: float,
    seed: int,
    without: set[str] | frozenset[str] = frozenset(),
) -> Result:
    """To be called by the main thread.  Each caller does each thing once, and then, until the
    time is over, one or another."""
    result, shared = Result(callers, seed), Shared(seed)
    lock, over = threading.Lock(), threading.Event()
    present: dict[int, tuple[float, int, str]] = {}
    begun = time.monotonic()

    def work(number: int) -> None:
        operations = Soak(native, shared, seed * 1000 + number, scale)
        order = random.Random(f"{seed} {number}")
        weights = {**MIXED, **(ALONE if number == 0 else {})}
        kinds = [kind for kind in weights if kind not in without]
        first = order.sample(kinds, len(kinds))
        turn = 0
        while turn < len(first) or time.monotonic() - begun < seconds:
            if len(result.losses) >= MANY_LOSSES or over.is_set():
                return
            if turn < len(first):
                kind = first[turn]
            else:
                kind = order.choices(kinds, [weights[kind] for kind in kinds])[0]
            present[number] = (time.monotonic(), turn, kind)
            operations.random = random.Random(f"{seed} {number} {turn}")
            try:
                n = getattr(operations, kind)()
            except (Exception, Interrupt, pytest.fail.Exception) as error:
                told = "".join(traceback.format_exception(error))
                result.losses.append(f"caller {number}, operation {turn}, {kind}: {told}")
                n = 0
            with lock:
                result.done[kind] += n
            turn += 1

    def call(number: int) -> None:
        with shared.lock:
            shared.callers.add(threading.get_ident())
        try:
            work(number)
        finally:
            present.pop(number, None)
            with shared.lock:
                shared.callers.remove(threading.get_ident())

    before = pb.num_threads()
    crowd = [threading.Thread(target=call, args=(i,)) for i in range(1, callers)]
    watchdog = threading.Thread(target=watch, args=(present, over, seed))
    watchdog.start()
    with signals(shared, result):
        try:
            for thread in crowd:
                thread.start()
            call(0)
        except BaseException:  # Ctrl-C
            over.set()
            raise
        finally:
            for thread in crowd:
                if thread.ident is not None:
                    thread.join()
            over.set()
            watchdog.join()
    if shared.sent:
        result.losses.append(f"{len(shared.sent)} signals had no handler")
    pb.set_num_threads(before)
    result.seconds = time.monotonic() - begun
    result.ticks, result.latest = shared.ticks, shared.latest
    return result


def main() -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from conftest import build_native

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--callers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", type=int, default=1, help="makes operations larger")
    parser.add_argument("--only", nargs="+", default=[], choices=[*MIXED, *ALONE])
    parser.add_argument("--without", nargs="+", default=[], choices=[*MIXED, *ALONE])
    options = parser.parse_args()
    print(*(f"{name}={value}" for name, value in vars(options).items()), flush=True)
    without = {*options.without}
    if options.only:
        without |= {*MIXED, *ALONE} - {*options.only}
    with tempfile.TemporaryDirectory() as target:
        names = build_native(Path(target))
        sys.path.insert(0, target)
        native = SimpleNamespace(
            **{name.removeprefix("native_"): __import__(name) for name in names}
        )
        result = soak(
            native, options.callers, options.scale, 60 * options.minutes, options.seed, without
        )
    for loss in result.losses:
        print(loss)
    for kind, n in sorted(result.done.items()):
        print(f"{n:>12,} {kind}")
    print(result.row())
    print(f"{sum(result.done.values()):>12,} operations, {len(result.losses)} losses")
    return 1 if result.losses else 0


if __name__ == "__main__":
    sys.exit(main())
