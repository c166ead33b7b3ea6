"""How far an operation is: what the listener hears, and that it harms nobody."""

from __future__ import annotations

import contextvars
import gc
import itertools
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import pyblitz as pb
from pyblitz.host.progress import with_progress

VAR = contextvars.ContextVar("VAR", default="none")
A = np.random.default_rng(0).random(2_000_000)
SMALL = A[:100]


class Failure(Exception):
    pass


def slow(x):
    time.sleep(0.004)
    return x


class Listener:
    """Checks what every listener may rely on."""

    def __init__(self):
        self.told, self.times, self.inside = [], [], 0

    def __call__(self, done, total):
        assert self.inside == 0, "one at a time"
        self.inside += 1
        self.told.append((done, total))
        self.times.append(time.monotonic())
        assert type(done) is type(total) is int
        assert 0 <= done <= total
        if len(self.told) > 1:
            assert self.told[-2][0] <= done
            assert self.told[-2][1] <= total
        self.inside -= 1

    def ended(self, total=None):
        assert self.told[-1][0] == self.told[-1][1] == (total or self.told[-1][1])
        gaps = [b - a for a, b in itertools.pairwise(self.times[:-1])]
        assert all(gap > 0.045 for gap in gaps)
        return len(self.told)


@pytest.fixture(params=[1, 2, 3, 8])
def threads(request, pool_size):
    pool_size(request.param)
    return request.param


OPERATIONS = {
    "map": lambda p: with_progress(p, pb.par_map, (np.sqrt, A), {}),
    "map, out": lambda p: with_progress(p, pb.par_map, (np.sqrt, A), {"out": np.empty_like(A)}),
    "sliced": lambda p: with_progress(p, pb.par_map, (np.sqrt, A.astype(">f8")), {}),
    "callable": lambda p: with_progress(p, pb.par_map, (slow, A), {}),
    "reduce": lambda p: with_progress(p, pb.par_reduce, (np.add, A), {}),
    "sliced reduce": lambda p: with_progress(p, pb.par_reduce, (np.add, A.astype(">f8")), {}),
    "sort": lambda p: with_progress(p, pb.par_sort, (A,), {}),
    "merge sort": lambda p: with_progress(p, pb.par_sort, (A,), {"kind": "stable"}),
}
LOOPS = ["map", "map, out", "sliced", "callable", "reduce", "sliced reduce"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_is_told(name, threads):
    expected = OPERATIONS[name](None)
    for _ in range(2):
        listener = Listener()
        assert np.array_equal(OPERATIONS[name](listener), expected)
        listener.ended()
        if name in LOOPS:
            assert listener.told[-1][1] > 0


def test_totals_are_items(threads):
    """Of a loop over n, n; of several, their sum."""
    listener = Listener()
    with_progress(listener, pb.par_map, (np.sqrt, A), {})
    one = listener.told[-1][1]
    assert one == A.size
    listener = Listener()
    with_progress(listener, lambda: [pb.par_map(np.sqrt, A) for _ in range(7)], (), {})
    listener.ended(7 * one)


def test_every_item_counts_once(native, threads):
    """Of a native loop whose leaves find their size while running, too."""
    for n in (1, 2, 1000, 100_000):
        listener = Listener()
        rc, counts, *_ = with_progress(listener, native.capi.mark_all, (n, 0), {})
        assert rc == 0
        assert set(counts) == {1}
        listener.ended(n)


def test_it_is_told_while_it_runs(threads):
    listener = Listener()
    begun = time.monotonic()
    with_progress(listener, pb.par_map, (slow, np.zeros(200 * 65536)), {})
    took = time.monotonic() - begun
    times = listener.ended(200 * 65536)
    # By whoever ends a leaf: every 4 ms at least.
    assert took / 0.2 - 1 < times < took / 0.05 + 2
    # Where the last leaf tells, the end says the same once more.
    assert len({done for done, _ in listener.told}) >= times - 1


def test_small_operations_have_nothing_to_tell():
    listener = Listener()
    assert with_progress(listener, pb.par_map, (np.sqrt, SMALL), {}).size == 100
    assert listener.told == [(0, 0)]


def test_what_leaves_lead_to_does_not_count(threads):
    listener = Listener()

    def block(x):
        # (The first block is asked for its dtype before there is a loop.)
        pb.join(lambda: pb.par_map(np.sqrt, A[:1_000_000]), int)
        if len(begun):
            pb.par_map(np.sqrt, A[:1_000_000])
        begun.append(1)
        return x

    begun = []

    with_progress(listener, pb.par_map, (block, A), {})
    listener.ended(A.size)


def test_inside_an_operation(threads):
    """A listener of an inner operation hears of that one, and the outer one of its own."""
    outer, inner = Listener(), []

    def block(x):
        listener = Listener()
        inner.append(listener)
        with_progress(listener, pb.par_map, (np.sqrt, A[:1_000_000]), {})
        return x

    with_progress(outer, pb.par_map, (block, A), {})
    outer.ended(A.size)
    assert len(inner) > 10
    for listener in inner:
        listener.ended(1_000_000)


def test_detached_tasks_do_not_count(threads):
    listener = Listener()

    def operation():
        pb.spawn(pb.par_map, np.sqrt, A).result()
        pb.par_map(np.sqrt, A)

    with_progress(listener, operation, (), {})
    listener.ended(A.size)


def test_many_at_once(crowd, pool_size):
    """Each listener hears of its own operation."""
    pool_size(3)

    def caller(i):
        n = 1_000_000 + i
        for _ in range(20):
            listener = Listener()
            with_progress(listener, pb.par_map, (np.sqrt, A[:n]), {})
            listener.ended(n)

    crowd(*[lambda i=i: caller(i) for i in range(8)])


def test_it_is_called_in_the_callers_context(threads):
    seen = set()
    token = VAR.set("mine")
    with np.errstate(divide="raise"):
        with_progress(
            lambda done, total: seen.add((VAR.get(), np.geterr()["divide"])),
            pb.par_map,
            (slow, np.zeros(100 * 65536)),
            {},
        )
    VAR.reset(token)
    assert seen == {("mine", "raise")}


@pytest.mark.parametrize("at", [0, 2])
def test_what_the_callable_raises(threads, at):
    """It ends the operation, and comes out."""
    blocks = []

    def block(lo, hi):
        blocks.append(lo)
        time.sleep(0.002)  # so that there is time to be told of

    def bad(done, total):
        told.append(done)
        if len(told) > at:
            raise Failure(done)

    for error in range(3):
        told = []
        blocks.clear()
        with pytest.raises(Failure) as e:
            with_progress(bad, pb.par_for, (4000, block), {"grain": 1})
        assert e.traceback[-1].name == "bad"
        assert e.value.args == (told[-1],)
        assert len(told) == at + 1, error
        assert len(blocks) < 4000, error
    assert (pb.par_map(np.sqrt, A) == np.sqrt(A)).all()


def test_it_is_not_called_again_once_it_raised():
    """Nor by who is in the middle of a leaf at that moment."""
    told, begun, both = [], [], threading.Event()

    def block(lo, hi):
        begun.append(lo)
        if begun[0] == lo:
            time.sleep(0.01)  # so long that another is asked for help, asleep or not
            return
        if len(begun) > 2:
            both.set()
        assert both.wait(20)
        time.sleep(0.06 if begun[1] == lo else 0.2)

    def bad(done, total):
        told.append(done)
        raise Failure(done)

    with pb.ThreadPool(2) as pool, pytest.raises(Failure):
        pool.install(with_progress, bad, pb.par_for, (8, block), {"grain": 1})
    assert told == [2]


def test_what_the_callable_raises_at_the_end():
    def bad(done, total):
        raise Failure

    with pytest.raises(Failure):
        with_progress(bad, pb.par_map, (np.sqrt, SMALL), {})


def test_it_may_call_operations(threads):
    """Which are not what it listens to, and do not call it again."""
    listener = Listener()

    def calls(done, total):
        listener(done, total)
        assert pb.par_reduce(np.maximum, A) == A.max()
        assert pb.join(lambda: 1, lambda: 2) == (1, 2)

    with_progress(calls, pb.par_map, (slow, np.zeros(100 * 65536)), {})
    listener.ended(100 * 65536)


def test_failures_are_not_finished(threads):
    def block(x):
        time.sleep(0.02)  # 8 threads, too, are at it for several tellings
        if len(listener.told) > 1:
            raise Failure
        return x

    listener = Listener()
    with pytest.raises(Failure):
        with_progress(listener, pb.par_map, (block, np.zeros(1000 * 65536, "i1")), {})
    assert all(done < total for done, total in listener.told)
    listener = Listener()
    with pytest.raises(TimeoutError), pb.CancelScope(timeout=0.15):
        with_progress(listener, pb.par_map, (slow, np.zeros(10**9, "i1")), {})
    assert 1 <= len(listener.told) <= 4
    assert all(done < total for done, total in listener.told)


def test_a_cancel_scope_inside(threads):
    """It belongs to the call that is listened to."""
    listener = Listener()

    def operation():
        with pb.CancelScope(timeout=60):
            pb.par_map(np.sqrt, A)

    with_progress(listener, operation, (), {})
    listener.ended(A.size)
    scope = pb.CancelScope()
    with scope:
        with_progress(listener := Listener(), operation, (), {})
    listener.ended(A.size)
    with scope:  # not the listener's any more
        pb.par_map(np.sqrt, A)
    listener.ended(A.size)


@pytest.mark.parametrize("progress", [None, False])
def test_off(progress):
    assert with_progress(progress, pow, (2, 3), {}) == 8


@pytest.mark.parametrize("progress", [1, 0, "yes", [], np.True_])
def test_bad_progress(progress):
    with pytest.raises(TypeError, match="progress must be"):
        with_progress(progress, pow, (2, 3), {})


# ---- tasks ----------------------------------------------------------------------


def test_tasks(threads):
    """Of those that were spawned so far, also by tasks, and whoever runs them."""
    listener = Listener()

    def task(depth):
        time.sleep(0.004)
        if depth:
            futures = [s.spawn(task, depth - 1) for _ in range(2)]
            assert futures[depth % 2].result() is None

    with pb.scope(progress=listener) as s:
        s.spawn(task, 7)
    listener.ended(255)
    assert len(listener.told) > 2
    assert len({total for _, total in listener.told}) > 1


def test_no_tasks():
    listener = Listener()
    with pb.scope(progress=listener):
        pass
    assert listener.told == [(0, 0)]


def test_loops_in_tasks_do_not_count(threads):
    listener = Listener()
    with pb.scope(progress=listener) as s:
        for _ in range(5):
            s.spawn(pb.par_map, np.sqrt, A)
    listener.ended(5)


def test_tasks_that_fail_are_not_finished(threads):
    def task(i):
        time.sleep(0.02)
        if len(listener.told) > 1:
            raise Failure

    futures = []
    listener = Listener()
    s = pb.scope(progress=listener)
    with pytest.raises(Failure), s:
        futures.extend(s.spawn(task, i) for i in range(1000))
    assert all(done < 1000 for done, _ in listener.told)
    listener = Listener()
    with pytest.raises(ZeroDivisionError), pb.scope(progress=listener):
        1 / 0  # noqa: B018
    assert not listener.told


def test_only_tasks_that_returned_are_done(pool_size):
    """Neither the one that failed nor those that were cancelled then."""
    pool_size(3)
    listener, failed, futures = Listener(), threading.Event(), []

    def slow():  # whose end is told of
        assert failed.wait(20)
        time.sleep(0.12)

    def bad():
        failed.set()
        raise Failure

    s = pb.scope(progress=listener)
    with pytest.raises(Failure), s:
        futures.extend(s.spawn(task) for task in (slow, bad, *[int] * 100))
    returned = [f for f in futures if not f.cancelled() and f.exception() is None]
    assert listener.told[-1] == (len(returned), len(futures))
    assert futures[0] in returned


def test_what_the_callable_raises_ends_the_tasks(threads):
    def bad(done, total):
        told.append(done)
        raise Failure(done)

    def task(i):
        begun.append(i)
        time.sleep(0.004)

    for tasks in (0, 1000):
        told, begun, futures = [], [], []
        s = pb.scope(progress=bad)
        with pytest.raises(Failure) as e, s:
            futures.extend(s.spawn(task, i) for i in range(tasks))
        assert e.value.args == (told[0],)
        assert len(told) == 1
        assert len(begun) < 1000
    with pb.scope() as s:
        assert s.spawn(pow, 2, 3).result() == 8


def test_tasks_are_told_of_in_the_callers_context():
    token = VAR.set("mine")
    seen = set()
    with pb.scope(progress=lambda done, total: seen.add(VAR.get())) as s:
        VAR.set("the block's")
        s.spawn(time.sleep, 0.06)
    VAR.reset(token)
    assert seen == {"mine"}


@pytest.mark.parametrize("progress", [1, 0, "yes", [], np.True_])
def test_bad_progress_of_tasks(progress):
    with pytest.raises(TypeError, match="progress must be"), pb.scope(progress=progress):
        raise AssertionError
    with pytest.raises(TypeError, match="positional"):
        pb.scope(progress)


# ---- the bar ------------------------------------------------------------------


@pytest.fixture
def bars(monkeypatch):
    tqdm = pytest.importorskip("tqdm.auto")
    made = []

    class Bar(tqdm.tqdm):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.closed = 0
            made.append(self)

        def close(self):
            super().close()
            self.closed = getattr(self, "closed", 0) + 1

    monkeypatch.setattr(tqdm, "tqdm", Bar)
    return made


def test_bar(threads, bars, capsys):
    with_progress(True, pb.par_map, (slow, np.zeros(100 * 65536)), {})
    (bar,) = bars
    assert bar.closed
    assert bar.n == bar.total == 100 * 65536
    assert "100%" in capsys.readouterr().err


def test_bar_of_tasks(threads, bars, capsys):
    for fails in (False, True):
        try:
            with pb.scope(progress=True) as s:
                for _ in range(60):
                    s.spawn(time.sleep, 0.01)
                if fails:
                    raise Failure
        except Failure:
            assert fails
        bar = bars.pop()
        assert bar.closed
        assert fails or bar.n == bar.total == 60
    assert "60.0/60.0" in capsys.readouterr().err


def test_bar_is_closed_after_a_failure(bars, capsys):
    def bad(x):
        raise Failure

    with pytest.raises(Failure):
        with_progress(True, pb.par_map, (bad, A), {})
    (bar,) = bars
    assert bar.closed
    assert "100%" not in capsys.readouterr().err


def test_without_tqdm(monkeypatch):
    ran = []
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r"pip install 'pyblitz\[progress\]'"):
        with_progress(True, ran.append, (1,), {})
    assert not ran


def test_importing_does_not_import_tqdm(script):
    assert script("import sys, pyblitz\nprint('tqdm' in sys.modules)") == "False\n"


# ---- what stays behind ----------------------------------------------------------


def test_nothing_is_kept():
    gc.collect()
    gc.disable()
    try:
        for fails in (False, True):
            listener = Listener()
            gone = weakref.ref(listener)

            def block(x, fails=fails):
                if fails:
                    raise Failure
                return x

            try:
                with_progress(listener, pb.par_map, (block, A), {})
            except Failure:
                assert fails
            del listener
            assert gone() is None
    finally:
        gc.enable()


def test_ctrl_c(script):
    out = script(
        """
import os, signal, threading, time
import numpy as np, pyblitz as pb
from pyblitz.host.progress import with_progress
pb.set_num_threads(2)
told = []
for _ in range(3):
    threading.Timer(0.15, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with_progress(lambda *a: told.append(a), pb.par_map,
                      (lambda x: time.sleep(0.005) or x, np.zeros(10**9, "i1")), {})
    except KeyboardInterrupt:
        print("interrupted")
assert told and all(done < total for done, total in told)
"""
    )
    assert out == "interrupted\n" * 3


def test_stress(pool_size, monkeypatch):
    """Told by whoever comes by, from many loops of many threads."""
    pool_size(4)
    stop = time.monotonic() + 2
    heard = itertools.count()

    def caller():
        while time.monotonic() < stop:
            listener = Listener()

            def operation():
                for _ in range(200):
                    pb.par_map(np.sqrt, A[:500_000])

            with_progress(listener, operation, (), {})
            for _ in range(listener.ended(200 * 500_000)):
                next(heard)

    callers = [threading.Thread(target=caller) for _ in range(3)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert next(heard) > 10
