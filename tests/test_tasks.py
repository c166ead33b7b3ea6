"""Python functions as forks and tasks: join, scope, spawn, broadcast."""

# ruff: noqa: B023, PT012 -- closures run before their loop goes on; blocks raise what tasks did

from __future__ import annotations

import concurrent.futures
import contextlib
import contextvars
import gc
import itertools
import sys
import threading
import time
import traceback
import weakref
from concurrent.futures import CancelledError

import numpy as np
import pytest
from programs import HELD

import pyblitz as pb

VAR = contextvars.ContextVar("VAR", default="none")
A = np.random.default_rng(0).random(2_000_000)
THREADS = [1, 2, 3, 8]


class Failure(Exception):
    pass


def fail(x=None):
    raise Failure(x)


def doze(seconds=0.005):
    time.sleep(seconds)


def usable():
    """Whether everything still works."""
    assert pb.join(lambda: 1, lambda: 2) == (1, 2)
    assert pb.par_map(np.sqrt, A).sum() == np.sqrt(A).sum()


@pytest.fixture(params=THREADS)
def threads(request, pool_size):
    pool_size(request.param)
    return request.param


@pytest.fixture(params=["main", "thread", "install", "job", "task", "block"])
def somewhere(request, crowd, threads):
    """Calls a function there."""

    def task(f):
        with pb.scope() as s:
            return s.spawn(f).result()

    def block(f):
        results = []
        pb.par_map(lambda x: results.append(f()) or x, np.zeros(200_000))
        return results[0]

    with pb.ThreadPool(3) as pool:
        yield {
            "main": lambda f: f(),
            "thread": lambda f: crowd(f)[0],
            "install": lambda f: pool.install(f),
            "job": lambda f: pool.submit(f).result(),
            "task": task,
            "block": block,
        }[request.param]


# ---- join ---------------------------------------------------------------------


def test_join(somewhere):
    def nested():
        return pb.join(lambda: pb.join(lambda: 1, lambda: 2), lambda: pb.join(lambda: 3))

    for n in (1, 2, 3, 5, 16, 100):
        assert somewhere(lambda n=n: pb.join(*[lambda i=i: i * i for i in range(n)])) == tuple(
            i * i for i in range(n)
        )
    assert somewhere(nested) == ((1, 2), (3,))


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_join_is_parallel_at_once(pool_size, n):
    """All meet: none of them could do that alone."""
    pool_size(n)
    for _ in range(20):
        here = threading.Barrier(n)
        assert sorted(pb.join(*[lambda here=here: here.wait(60)] * n)) == list(range(n))


def test_join_in_order_where_there_is_one_thread(pool_size):
    pool_size(1)
    log = []
    pb.join(*[lambda i=i: log.append(i) for i in range(50)])
    assert log == list(range(50))


@pytest.mark.parametrize(
    ("functions", "message"),
    [((), "one callable at least"), ((int, 3), "argument 2 must be callable, and int is not")],
)
def test_join_bad_arguments(functions, message):
    with pytest.raises(TypeError, match=message):
        pb.join(*functions)


def test_join_raises_the_first_in_order(threads):
    """Whoever was first in time; with its traceback, and nothing added."""

    def bad(i):
        doze(0.0005 * ((i * 7) % 5))
        raise Failure(i)

    for failing in itertools.combinations(range(6), 2):
        ran = []

        def side(i, failing=failing, ran=ran):
            ran.append(i)
            if i in failing:
                bad(i)

        with pytest.raises(Failure) as e:
            pb.join(*[lambda i=i: side(i) for i in range(6)])
        assert e.value.args == (failing[0],)
        assert e.traceback[-1].name == "bad"
        assert not hasattr(e.value, "__notes__")
        assert set(range(failing[0])) <= set(ran)
        assert len(ran) == len(set(ran))
    usable()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("size", [2, 4])
def test_an_exit_stops_all(native, pool_size, size, error):
    """Only one thread hears of Ctrl-C: what comes before it stops, too, and it comes out."""
    pool_size(size)

    def exits():
        spinner.wait(1)
        raise error("me")

    for name in ("join", "scope"):
        spinner = native.poll.Spinner()
        with pytest.raises(error, match="me"):
            if name == "join":
                pb.join(lambda: spinner.spin("run"), exits)
            else:
                with pb.scope() as s:
                    s.spawn(spinner.spin, "run")
                    s.spawn(exits)
        assert spinner.stopped == spinner.running == 1
    usable()


def test_join_does_not_begin_what_comes_after_a_failure(threads):
    """The others are busy, so nobody has begun it."""
    begun = threading.Semaphore(0)
    go = threading.Event()

    def hold():
        begun.release()
        go.wait(60)

    jobs = [pb.spawn(hold) for _ in range(threads - 1)]
    for _ in jobs:
        begun.acquire()
    ran = []
    with pytest.raises(Failure):
        pb.join(*[lambda i=i: ran.append(i) for i in range(3)], fail, *[lambda: ran.append(9)] * 20)
    assert ran == [0, 1, 2]
    go.set()
    for job in jobs:
        job.result()


def test_join_waits_for_what_has_begun(pool_size):
    pool_size(2)
    for _ in range(20):
        begun, done = threading.Event(), []

        def slow(begun=begun, done=done):
            begun.set()
            doze()
            done.append(1)

        with pytest.raises(Failure):
            pb.join(lambda begun=begun: begun.wait(60) and fail(), slow)
        assert done == [1]


@pytest.mark.parametrize("size", [2, 4])
def test_join_stops_operations_after_a_failure(native, pool_size, size):
    """What would take for ever stops, because a sibling before it failed; what comes before
    the failure does not."""
    pool_size(size)
    spinner = native.poll.Spinner()

    def bad():
        spinner.wait(1)
        fail()

    with pytest.raises(Failure):
        pb.join(bad, lambda: spinner.spin("run"))
    assert spinner.stopped == spinner.running == 1
    got = []
    with pytest.raises(Failure):
        pb.join(lambda: doze() or got.append(pb.par_map(np.sqrt, A)[0]), fail)
    assert got == [np.sqrt(A[0])]


def test_join_stops_when_something_further_out_failed(native, pool_size):
    """A join inside a join, on whatever thread."""
    pool_size(3)
    spinner = native.poll.Spinner()

    def bad():
        spinner.wait(1)
        fail()

    with pytest.raises(Failure):
        pb.join(bad, lambda: pb.join(lambda: spinner.spin("for"), lambda: 1))
    assert spinner.stopped == spinner.running


def test_context(threads):
    def look(name):
        seen = VAR.get(), np.geterr()["divide"]
        VAR.set(name)
        np.seterr(divide="ignore")
        return seen

    token = VAR.set("mine")
    with np.errstate(divide="raise"):
        expected = ("mine", "raise")
        assert pb.join(*[lambda: look("changed")] * 9) == (expected,) * 9
        assert set(pb.broadcast(lambda: look("changed"))) == {expected}
        with pb.scope() as s:
            tasks = [s.spawn(look, "changed") for _ in range(20)]
            VAR.set("later")
            other = s.spawn(look, "changed")
            VAR.set("mine")
            results = [t.result() for t in tasks]
        assert results == [expected] * 20
        assert other.result() == ("later", "raise")
        assert pb.spawn(look, "changed").result() == expected
        assert (VAR.get(), np.geterr()["divide"]) == expected
        with pytest.raises(FloatingPointError):
            pb.join(lambda: 1, lambda: np.log(np.zeros(1)))
    VAR.reset(token)


# ---- stopping -----------------------------------------------------------------


def endless():
    while True:
        pb.par_map(np.sqrt, A)


STOPPED = {
    "join": lambda: pb.join(endless, endless),
    "join of sleepers": lambda: pb.join(*[doze] * 10**4),
    "broadcast": lambda: pb.broadcast(endless),
    "scope": lambda: in_scope(endless, 5),
    "scope of sleepers": lambda: in_scope(doze, 10**4),
    "result": lambda: in_scope(endless, 5, True),
}


def in_scope(f, n, ask=False):
    with pb.scope() as s:
        futures = [s.spawn(f) for _ in range(n)]
        if ask:
            for future in futures:
                future.result()


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("name", STOPPED)
def test_timeout(pool_size, name, size):
    pool_size(size)
    with pytest.raises(TimeoutError, match="CancelScope"), pb.CancelScope(timeout=0.05):
        STOPPED[name]()
    usable()


@pytest.mark.parametrize("name", STOPPED)
def test_cancel(pool_size, name):
    pool_size(3)
    scope = pb.CancelScope()
    threading.Timer(0.05, scope.cancel).start()
    with pytest.raises(CancelledError, match="cancelled"), scope:
        STOPPED[name]()
    with pytest.raises(CancelledError), scope:  # from the beginning
        STOPPED[name]()
    usable()


def test_nothing_begins_in_a_cancelled_block(threads):
    ran = []
    scope = pb.CancelScope()
    with pytest.raises(CancelledError), scope, pb.scope() as s:
        scope.cancel()
        futures = [s.spawn(ran.append, i) for i in range(20)]
    with pytest.raises(CancelledError), pb.CancelScope() as scope:
        scope.cancel()
        pb.join(lambda: ran.append(1))
    assert not ran
    assert all(f.done() for f in futures)


def test_a_detached_task_is_no_part_of_the_block(pool_size):
    pool_size(2)
    go = threading.Event()
    with pb.CancelScope() as scope:
        future = pb.spawn(lambda: go.wait(60) and pb.par_map(np.sqrt, A)[0])
        scope.cancel()
        go.set()
        assert future.result() == np.sqrt(A[0])


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_anywhere(script):
    """A future's lock was left held: whoever ended its task waited for ever."""
    out = script("""
import random, signal
import pyblitz as pb
def handler(*args):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handler)
pb.set_num_threads(3)
def fib(s, k):
    if k < 2:
        return k
    one = s.spawn(fib, s, k - 1)
    return fib(s, k - 2) + one.result()
draw = random.Random(0)
for i in range(600):
    armed = True
    try:
        signal.setitimer(signal.ITIMER_REAL, draw.random() * 0.004 + 1e-6)
        while True:
            with pb.scope() as s:
                fib(s, 9)
    except KeyboardInterrupt:
        pass
with pb.scope() as s:
    print(fib(s, 9))
""")
    assert out == "34\n"


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("times", [1, 3])
def test_ctrl_c_while_a_task_ends(script, size, times):
    """In the wait for the future's lock a handler may raise: it was lost there, and the future had
    no result."""
    out = script(f"""
import _thread
import pyblitz as pb
from pyblitz.host import futures
pb.set_num_threads({size})
class Lock(_thread.RLock):
    calls = 0
    def acquire(self, *args):
        self.calls += 1
        if 1 < self.calls <= 1 + {times}:
            raise KeyboardInterrupt
        return super().acquire(*args)
Condition = futures.Condition
futures.Condition = lambda: Condition(Lock())
try:
    with pb.scope() as s:
        future = s.spawn(int, 7)
except KeyboardInterrupt:
    futures.Condition = Condition
    print("interrupted", [future.result(timeout=5)])
with pb.scope() as s:
    print(s.spawn(int, 8).result())
""")
    assert out == "interrupted [7]\n8\n"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("size", [1, 3])
def test_ctrl_c(script, size):
    out = script(
        f"""
import signal, sys, time
sys.path.insert(0, {__file__.rsplit("/", 1)[0]!r})
import pyblitz as pb, test_tasks
pb.set_num_threads({size})
# No thread sends it: without a GIL the main thread may free the Thread in the same moment, in a
# weak reference's callback, where an exception is lost.
signal.signal(signal.SIGALRM, signal.default_int_handler)
if {size} > 1:
    # Whoever waits for what sleeps elsewhere.
    test_tasks.STOPPED["join, elsewhere"] = lambda: pb.join(
        lambda: time.sleep(0.01), lambda: [time.sleep(0.001) for _ in range(200)])
for name, operation in test_tasks.STOPPED.items():
    for _ in range(3):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.03)
            operation()
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError(name)
    test_tasks.usable()
print("alive")
"""
    )
    assert out == "alive\n"


# ---- scope --------------------------------------------------------------------


def test_scope(somewhere):
    def run():
        log = []
        with pb.scope() as s:
            futures = [s.spawn(lambda i=i: log.append(i) or i) for i in range(200)]
        assert sorted(log) == list(range(200))
        return [f.result() for f in futures]

    assert somewhere(run) == list(range(200))


def test_scope_passes_arguments(threads):
    with pb.scope() as s:
        assert s.spawn(dict, [(1, 2)], x=3, fn=4, self=5).result() == {
            1: 2,
            "x": 3,
            "fn": 4,
            "self": 5,
        }


def test_tasks_of_tasks(somewhere):
    """All that they spawn is done when the block ends."""

    def run():
        count = itertools.count()

        def node(depth):
            next(count)
            if depth:
                for _ in range(3):
                    s.spawn(node, depth - 1)

        with pb.scope() as s:
            s.spawn(node, 6)
        return next(count)

    assert somewhere(run) == (3**7 - 1) // 2


def test_a_long_chain(threads):
    """Each task spawns the next one: the stack does not grow."""
    count = itertools.count()

    def link(n):
        next(count)
        if n:
            s.spawn(link, n - 1)

    with pb.scope() as s:
        s.spawn(link, 20_000)
    assert next(count) == 20_001


def test_results_inside(somewhere):
    """Asked for in any order, by the block and by tasks, begun or not."""

    def fib(s, n):
        if n < 2:
            return n
        a, b = s.spawn(fib, s, n - 1), s.spawn(fib, s, n - 2)
        return (b.result() + a.result()) if n % 2 else (a.result() + b.result())

    def run():
        with pb.scope() as s:
            futures = [s.spawn(fib, s, n) for n in (5, 12, 3, 9)]
            return [f.result() for f in reversed(futures)]

    assert somewhere(run) == [34, 2, 144, 5]


def test_wait_and_as_completed(running_pool):
    """Those who know nothing of scopes rely on the other threads, or on none."""
    for size in THREADS:
        running_pool(size)
        for _ in range(100):
            with pb.scope() as s:
                futures = [s.spawn(pow, i, 2) for i in range(5)]
                done = [f.result() for f in concurrent.futures.as_completed(futures, timeout=60)]
                assert sorted(done) == [0, 1, 4, 9, 16]
                assert s.spawn(int).result(timeout=60) == 0


def test_other_threads_ask(threads, crowd):
    """Whoever asks for a result helps, and may spawn; the block waits for him."""
    for _ in range(30):
        count = itertools.count()
        futures = []

        def task(i, count=count):
            next(count)
            doze(0.0001)
            s.spawn(next, count)
            return i

        with pb.scope() as s:
            futures += [s.spawn(task, i) for i in range(12)]
            results = crowd(*[lambda: [f.result() for f in futures]] * 3)
        assert results == [list(range(12))] * 3
        assert next(count) == 24


def test_other_threads_ask_while_it_ends(threads):
    """A claim and the end of the block race; what was claimed is waited for."""
    claimed = 0
    for k in range(300):
        done, ready = [], threading.Event()
        futures = []

        def task(done=done):
            me = threading.get_ident()
            doze(0.0002)
            done.append(me)

        def ask(ready=ready, futures=futures):
            ready.wait(60)
            # The last first, which nobody has begun.
            for f in reversed(futures):
                f.result()

        thread = threading.Thread(target=ask)
        thread.start()
        with pb.scope() as s:
            # More than the pool can begin at once, so that some are left for who asks.
            futures += [s.spawn(task) for _ in range(threads + 2)]
            ready.set()
            doze(0.00003 * (k % 10))
        assert len(done) == threads + 2
        claimed += thread.ident in done
        thread.join()
    assert threads == 1 or claimed, "nothing was tested"


def test_a_task_waits_for_an_outer_scopes_task(threads):
    with pb.scope() as outer:
        first = outer.spawn(doze)

        def task():
            with pb.scope() as inner:
                return inner.spawn(first.result).result(), outer.spawn(lambda: 7).result()

        assert [f.result() for f in [outer.spawn(task) for _ in range(20)]] == [(None, 7)] * 20


def test_a_child_waits_for_its_parent(threads):
    """The parent has spawned it, and does not wait: it ends first, wherever that is."""
    for _ in range(20):
        known, parents, children = threading.Event(), [], []

        def child():
            return parents[0].result() + 1

        def parent():
            known.wait(60)
            children.append(s.spawn(child))
            return 1

        def grandparent():
            parents.append(s.spawn(parent))
            known.set()

        with pb.scope() as s:
            s.spawn(grandparent)
        assert children[0].result() == 2


def test_a_task_that_waits_for_itself(threads):
    box = []
    known = threading.Event()

    def task():
        known.wait(0 if threads == 1 else 60)
        return (box or futures)[0].result()

    with pytest.raises(RuntimeError, match="would wait for itself"), pb.scope() as s:
        if threads == 1:
            # It runs inside `spawn`.
            futures = []

            def starter():
                box.append(s.spawn(task))
                return None

            s.spawn(starter)
        else:
            box.append(s.spawn(task))
            known.set()
    usable()


def test_a_wait_serves_broadcasts(pool_size):
    """A task waits for one that broadcasts."""
    pool_size(3)
    for _ in range(10):
        begun = threading.Event()

        def roll(begun=begun):
            begun.set()
            doze(0.002)
            return len(pb.broadcast(int))

        with pb.scope() as s:
            a = s.spawn(roll)
            begun.wait(60)
            waiters = [s.spawn(a.result) for _ in range(3)]
        assert {w.result() for w in waiters} <= {2, 3}


def test_scope_raises_the_first_in_spawn_order(threads):
    def bad(i):
        doze(0.0005 * ((i * 7) % 5))
        raise Failure(i)

    for failing in itertools.combinations(range(6), 2):
        ran = []

        def task(i, failing=failing, ran=ran):
            ran.append(i)
            if i in failing:
                bad(i)

        with pytest.raises(Failure) as e, pb.scope() as s:
            futures = [s.spawn(task, i) for i in range(6)]
        assert e.value.args == (failing[0],)
        assert e.traceback[-1].name == "bad"
        assert set(range(failing[0])) <= set(ran)
        for i, f in enumerate(futures):
            if i < failing[0]:
                assert f.result() is None
            elif i == failing[0]:
                assert f.exception() is e.value
            else:
                assert f.cancelled() == (i not in ran)
    usable()


def test_later_tasks_are_dropped(pool_size):
    pool_size(1)
    ran = []
    with pytest.raises(Failure), pb.scope() as s:
        s.spawn(ran.append, 0)
        s.spawn(fail)
        later = s.spawn(ran.append, 1)
        assert later.cancelled()
    assert ran == [0]
    # A block that finds that out for itself is not what failed.
    with pytest.raises(Failure), pb.scope() as s:
        s.spawn(fail)
        s.spawn(int).result()


def test_what_follows_from_a_failure_does_not_hide_it(pool_size):
    """A task waits for one that was dropped because of another's failure."""
    for size in (1, 2, 3):
        pool_size(size)
        for _ in range(20):

            def parent(kinds=(Failure,)):
                bad, dropped = s.spawn(fail), s.spawn(doze)
                assert type(bad.exception()) in kinds
                return dropped.result()

            def one_of_two():
                # The other's failure may come first, and drop this one's.
                return parent((Failure, CancelledError))

            with pytest.raises(Failure), pb.scope() as s:
                s.spawn(parent)
            with pytest.raises(Failure), pb.scope() as s:
                s.spawn(pb.join, one_of_two, one_of_two)


def test_the_block_raises(threads):
    """What has not begun is dropped, what has is waited for; its own exception comes out."""
    for _ in range(20):
        begun, ended = [], []

        def task(i, begun=begun, ended=ended):
            begun.append(i)
            doze(0.001)
            ended.append(i)
            if i == 0:
                fail("a task")

        with pytest.raises(Failure, match="the block"), pb.scope() as s:
            futures = [s.spawn(task, i) for i in range(30)]
            fail("the block")
        assert sorted(begun) == sorted(ended)
        assert len(begun) < 30 or threads == 1
        assert [f.cancelled() for f in futures] == [i not in begun for i in range(30)]


def test_a_task_that_is_about_to_begin_when_the_block_raises(pool_size):
    """Either it begins, or it is cancelled: it has no exception of pyblitz's own."""
    pool_size(2)
    held, leave = threading.Event(), threading.Event()

    def hold(future):
        with future._condition:
            held.set()
            leave.wait()
            # The block's end waits for the task, which may wait for this lock.
            doze(0.05)

    for _ in range(5):
        begun = []
        held.clear()
        leave.clear()
        with pytest.raises(Failure, match="the block"), pb.scope() as s:
            future = s.spawn(begun.append, 1)
            holder = threading.Thread(target=hold, args=(future,))
            holder.start()
            held.wait()
            doze(0.05)  # a thread of the pool comes to the lock
            leave.set()
            fail("the block")
        holder.join()
        assert future.cancelled() == (not begun)
        assert future.cancelled() or future.exception() is None


def test_a_result_that_raises_comes_out_of_the_block(threads):
    with pytest.raises(Failure, match="1") as e, pb.scope() as s:
        futures = [s.spawn(fail, 1), s.spawn(doze)]
        futures[0].result()
    assert e.traceback[-1].name == "fail"
    with pytest.raises(Failure), pb.scope() as s:  # though the block swallowed it
        with pytest.raises(Failure):
            s.spawn(fail).result()
        assert isinstance(s.spawn(int).exception, object)


@pytest.mark.parametrize("size", [2, 4])
def test_a_failure_stops_later_tasks_operations(native, pool_size, size):
    pool_size(size)
    spinner = native.poll.Spinner()

    def bad():
        spinner.wait(1)
        fail()

    with pytest.raises(Failure), pb.scope() as s:
        s.spawn(bad)
        s.spawn(spinner.spin, "run")
    assert spinner.stopped == spinner.running
    spinner = native.poll.Spinner()
    with pytest.raises(KeyError), pb.scope() as s:
        future = s.spawn(spinner.spin, "run")
        spinner.wait(1)
        raise KeyError
    assert isinstance(future.exception(), CancelledError)
    usable()


def test_a_future_that_is_cancelled_does_not_run(pool_size):
    pool_size(2)
    gate, ran = threading.Event(), []
    with pb.scope() as s:
        busy = s.spawn(gate.wait, 60)
        while not busy.running():
            doze(0.001)
        futures = [s.spawn(ran.append, i) for i in range(10)]
        cancelled = [f.cancel() for f in futures[::2]]
        gate.set()
    assert all(cancelled)
    assert sorted(ran) == [1, 3, 5, 7, 9]
    for f in futures[::2]:
        with pytest.raises(CancelledError):
            f.result()


def test_scope_misuse(crowd):
    s = pb.scope()
    with pytest.raises(RuntimeError, match="not inside the block"):
        s.spawn(int)
    with pytest.raises(RuntimeError, match="in the thread that entered it"):
        s.__exit__(None, None, None)
    with s:
        with pytest.raises(RuntimeError, match="entered once"):
            s.__enter__()
        with pytest.raises(TypeError, match="fn must be callable, and int is not"):
            s.spawn(3)

        def elsewhere():
            with pytest.raises(RuntimeError, match="in the thread that entered it"):
                s.__exit__(None, None, None)
            with pytest.raises(RuntimeError, match="not inside the block"):
                s.spawn(int)

        crowd(elsewhere)
        with pb.ThreadPool(2) as pool, pytest.raises(RuntimeError, match="another pool"):
            pool.install(s.spawn, int)
        inner = pb.scope()
        inner.__enter__()
        with pytest.raises(RuntimeError, match="reverse order"):
            s.__exit__(None, None, None)
        inner.__exit__(None, None, None)
        cancel = pb.CancelScope()
        cancel.__enter__()
        with pytest.raises(RuntimeError, match="reverse order"):
            s.__exit__(None, None, None)
        cancel.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="not inside the block"):
        s.spawn(int)
    with pytest.raises(RuntimeError, match="entered once"), s:
        pass
    usable()


def test_a_scope_is_entered_by_one(script):
    """Also when another comes while the first makes the pool, which runs Python."""
    out = script("""
import pyblitz as pb
from pyblitz.host import pools as host
s = pb.scope()
number = host.default_num_threads
def meanwhile():
    host.default_num_threads = number
    try:
        s.__enter__()
    except RuntimeError as e:
        print(e)
    return number()
host.default_num_threads = meanwhile
with s:
    f = s.spawn(pow, 2, 3)
print(f.result())
""")
    assert out == "a scope is entered once\n8\n"


def test_a_scope_that_was_not_entered(pool_size):
    """It can be entered later."""
    pool_size(2)
    s = pb.scope()
    with pb.CancelScope() as stopped:
        stopped.cancel()
        with pytest.raises(CancelledError), s:
            raise AssertionError
    with s:
        f = s.spawn(pow, 2, 3)
    assert f.result() == 8


def test_a_block_that_is_never_left(script):
    """It does not keep the interpreter from ending."""
    out = script(
        """
import threading, pyblitz as pb
pb.set_num_threads(3)
def block():
    with pb.scope() as s:
        s.spawn(int)
        yield
kept = [block(), block()]
next(kept[0])
thread = threading.Thread(target=next, args=(kept[1],))
thread.start()
thread.join()
print("end")
"""
    )
    assert out == "end\n"


def test_fork_inside_a_block(script):
    out = script(
        """
import os, pyblitz as pb
pb.set_num_threads(2)
with pb.scope() as s:
    futures = [s.spawn(int) for _ in range(3)]
    for f in futures:
        f.result()
    pid = os.fork()
    if pid == 0:
        try:
            s.spawn(int)
        except RuntimeError as e:
            assert "not inside" in str(e)
        else:
            os._exit(3)
        if pb.join(lambda: 1, lambda: 2) != (1, 2):
            os._exit(4)
        with pb.scope() as inner:
            if inner.spawn(lambda: 5).result() != 5:
                os._exit(5)
        os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
print("end")
"""
    )
    assert out == "end\n"


def test_fork_while_a_task_runs(script):
    """The child ends its copy of the block, though the thread that has the task is not in it; it
    waited for that for ever."""
    out = script(
        """
import os, threading, time, pyblitz as pb
pb.set_num_threads(3)
begun, go = threading.Event(), threading.Event()
s = pb.scope()
with s:
    future = s.spawn(lambda: (begun.set(), go.wait(60)))
    begun.wait()
    pid = os.fork()
    if pid == 0:
        try:
            s.__exit__(None, None, None)
        except RuntimeError as e:
            assert "forked" in str(e)
            assert "another thread" in str(future.exception(timeout=0))
            os._exit(0)
        os._exit(3)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        time.sleep(0.01)
    else:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        status = 9
    go.set()
assert os.waitstatus_to_exitcode(status) == 0
assert future.result()
print("end")
"""
    )
    assert out == "end\n"


def test_what_a_dropped_task_calls_back(pool_size):
    """Who asked for it is in the block until then: a block that is told to stop drops the task
    itself, and waited for its future only."""
    pool_size(2)
    begun, called, seen = threading.Event(), threading.Event(), []

    def slow(future):
        called.set()
        time.sleep(0.3)
        seen.append(future)

    def task():
        begun.set()
        c.cancel()
        time.sleep(0.3)  # the end of the block hears of it
        future = s.spawn(int)
        future.add_done_callback(slow)
        threading.Thread(target=future.exception).start()
        assert called.wait(60)

    with pytest.raises(CancelledError), pb.CancelScope() as c, pb.scope() as s:
        s.spawn(task)
        assert begun.wait(60)
    assert len(seen) == 1
    usable()


def test_blocks_in_a_block_that_is_left():
    """A block of tasks refers to the CancelScope that it was entered in."""

    def inside():
        cancel, s = pb.CancelScope(), pb.scope()
        cancel.__enter__()
        s.__enter__()
        with pytest.raises(RuntimeError, match="reverse order"):
            cancel.__exit__(None, None, None)
        future = s.spawn(pow, 2, 3)
        s.__exit__(None, None, None)
        cancel.__exit__(None, None, None)
        return future.result()

    assert inside() == 8
    with pb.ThreadPool(2) as pool:
        assert pool.install(inside) == 8
    with pb.scope() as s:
        assert s.spawn(inside).result() == 8


def test_more_callers_than_slots(crowd, pool_size):
    """Past the first 64 callers, whose places are made with the pool."""
    pool_size(2)
    here = threading.Barrier(80)

    def caller():
        with pb.scope() as s:
            here.wait(60)
            futures = [s.spawn(pow, i, 2) for i in range(5)]
            done = concurrent.futures.wait(futures, 60)[0]
            assert len(done) == 5
            assert pb.join(lambda: 1, lambda: 2) == (1, 2)
            here.wait(60)
        return [f.result() for f in futures]

    assert crowd(*[caller] * 80) == [[0, 1, 4, 9, 16]] * 80


def test_many_callers(crowd, threads):
    """Scopes, joins and broadcasts of many threads at once; every task counted."""
    counts = [itertools.count() for _ in range(6)]

    def caller(i):
        def task(depth):
            next(counts[i])
            if depth:
                a = s.spawn(task, depth - 1)
                pb.join(lambda: task(depth - 1), lambda: next(counts[i]))
                if depth % 2:
                    a.result()

        for k in range(10):
            with pb.scope() as s:
                s.spawn(task, 4)
                if k % 5 == i % 5:
                    assert len(pb.broadcast(int)) == threads

    crowd(*[lambda i=i: caller(i) for i in range(6)])
    # tasks(d) = 2 tasks(d - 1) + 2, tasks(0) = 1
    assert [next(c) for c in counts] == [10 * 46] * 6


# ---- broadcast and spawn --------------------------------------------------------


def test_broadcast(threads):
    for _ in range(20):
        here = threading.Barrier(threads)

        def meet(here=here):
            here.wait(60)
            return threading.get_ident()

        idents = pb.broadcast(meet)
        assert idents[0] == threading.get_ident()
        assert len(set(idents)) == threads


def test_broadcast_on_a_threads_of_the_pool():
    with pb.ThreadPool(4) as pool:
        idents = pool.submit(lambda: (threading.get_ident(), pb.broadcast(threading.get_ident)))
        me, all_of_them = idents.result()
        assert all_of_them[0] == me
        assert len(set(all_of_them)) == 3


def test_broadcast_failures(threads):
    """The first of the list is raised; calls before a failing one have run."""
    main = threading.get_ident()

    def bad(where):
        mine = threading.get_ident() == main
        ran.append(mine)
        if mine:
            doze(0.001)
        if where in ("all", "main" if mine else "others"):
            raise Failure(mine)

    for where in ("all", "main", "others") if threads > 1 else ("all", "main"):
        ran = []
        with pytest.raises(Failure) as e:
            pb.broadcast(lambda: bad(where))
        assert e.value.args == (where != "others",)
        assert e.traceback[-1].name == "bad"
        assert True in ran
    with pytest.raises(TypeError, match="f must be callable"):
        pb.broadcast(3)
    usable()


def test_spawn(threads):
    futures = [pb.spawn(pow, i, 2) for i in range(100)]
    assert [f.result(60) for f in futures] == [i * i for i in range(100)]
    e = pb.spawn(fail, 3).exception(60)
    assert type(e) is Failure
    assert [t.name for t in traceback.extract_tb(e.__traceback__)][-1] == "fail"
    assert pb.spawn(dict, fn=1, affinity=2).result(60) == {"fn": 1, "affinity": 2}
    with pytest.raises(TypeError, match="fn must be callable"):
        pb.spawn(None)


def test_spawn_uses_the_current_pool():
    with pb.ThreadPool(2) as pool:
        there = pool.submit(threading.get_ident).result()
        assert pool.install(pb.spawn, threading.get_ident).result() == there


def test_spawn_while_the_pool_is_replaced(pool_size):
    """Every task runs, whatever becomes of its pool."""
    futures = []
    for i in range(300):
        pool_size(1 + i % 4)
        futures += [pb.spawn(pow, i, 2), pb.spawn(doze, 0.0001)]
    assert [f.result(60) for f in futures[::2]] == [i * i for i in range(300)]


def test_spawned_tasks_are_waited_for_at_the_end(script):
    out = script(
        """
import time, pyblitz as pb
pb.set_num_threads(2)
def late(i):
    time.sleep(0.01)
    print(i, flush=True)
for i in range(5):
    pb.spawn(late, i)
"""
    )
    assert sorted(out.split()) == list("01234")


# ---- what stays behind ----------------------------------------------------------


@pytest.mark.parametrize("how", ["join", "scope", "result", "spawn", "broadcast"])
def test_nothing_is_kept(threads, how):
    """At once, without the garbage collector."""

    class Thing:
        pass

    def task(x):
        return x

    def run():
        x = Thing()
        gone.append(weakref.ref(x))
        if how == "join":
            return pb.join(*[lambda: task(x)] * 5) and None
        if how == "broadcast":
            return pb.broadcast(lambda: task(x)) and None
        if how == "spawn":
            return pb.spawn(task, x).result() and None
        with pb.scope() as s:
            for _ in range(5):
                future = s.spawn(task, x)
                if how == "result":
                    future.result()

    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            gone = []
            run()
            deadline = time.monotonic() + 10  # the job's last reference: just after its result
            while gone[0]() is not None and how == "spawn" and time.monotonic() < deadline:
                doze(0.001)
            assert gone[0]() is None
    finally:
        gc.enable()


LEAKS = {
    "join": "pb.join(fail, int, fail)",
    "join, last": "pb.join(int, int, int, fail)",
    "scope": "in_scope(s_fail)",
    "scope, results": "in_scope(s_ask)",
    "scope, block": "in_scope(fail)",
    "scope, dropped": "in_scope(s_drop)",
    "scope, cancelled": "in_cancelled()",
    "spawn": "pb.spawn(fail).result()",
    "broadcast": "pb.broadcast(fail)",
    "misuse": "ended.spawn(fail)",
}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nothing_leaks(script):
    """Over thousands of failures of each kind: no object more than before, and no memory."""
    print(
        script(
            HELD
            + """
import numpy as np, pyblitz as pb
pb.set_num_threads(3)
class Failure(Exception):
    pass
def fail(x=None):
    raise Failure(x)
def s_fail(s):
    for f in (int, fail, int, fail):
        s.spawn(f)
def s_ask(s):
    for f in [s.spawn(f) for f in (int, int, fail, int)]:
        f.result()
def s_drop(s):
    for _ in range(5):
        s.spawn(int)
    raise Failure
def in_scope(f):
    with pb.scope() as s:
        f(s)
def in_cancelled():
    try:
        with pb.CancelScope() as c, pb.scope() as s:
            for _ in range(3):
                s.spawn(int)
            c.cancel()
            s.spawn(pb.par_map, np.sqrt, A)
    except pb_cancelled:
        fail()
    fail()
from concurrent.futures import CancelledError as pb_cancelled
A = np.zeros(100_000)
with pb.scope() as ended:
    pass
def run(call, n):
    for _ in range(n):
        try:
            exec(call)
        except (Failure, RuntimeError):
            continue
        raise AssertionError("did not fail")
for name, call in calls.items():
    call = compile(call, name, "exec")
    run(call, 500)
    before = held(Failure, A)
    run(call, 2_000)
    print(name, flush=True)
    print(assert_nothing_leaked(before, held(Failure, A), 2_000))
""".replace("calls.items()", f"{LEAKS!r}.items()")
        )
    )


def test_mail_that_waits_for_one_who_broadcasts(pool_size):
    """Whose broadcast has a part for the very thread that waits for him."""
    pool_size(3)
    for _ in range(5):
        futures, seen, waits = [], [], threading.Event()

        def broadcasts(waits=waits):
            waits.wait(60)
            time.sleep(0.02)  # until they do
            return len(pb.broadcast(lambda: 1))

        def part(futures=futures, waits=waits):
            waits.set()
            try:
                return futures[0].result()
            except RuntimeError as e:
                # On top of the task's own broadcast, in the thread that runs it.
                return 0 if "further out in this thread" in str(e) else str(e)

        with pb.scope() as s:
            futures.append(s.spawn(broadcasts))
            caller = threading.Thread(target=lambda seen=seen: seen.append(pb.broadcast(part)))
            caller.start()
            assert futures[0].result() in (2, 3)
        caller.join(60)
        assert not caller.is_alive()
        assert set(seen[0]) <= {0, 2, 3}


@pytest.mark.parametrize(
    "call",
    [
        "pb.broadcast(leaves_one)",
        "pb.join(leaves_one, leaves_one, leaves_one)",
        "pb.broadcast(lambda: pb.join(leaves_one, leaves_one))",
        "in_scope(lambda s: pb.broadcast(lambda: s.spawn(leaves_one).result()))",
        "in_scope(lambda s: [s.spawn(leaves_one) for _ in range(10)])",
        "in_scope(calls_back)",
        "in_scope(lambda s: [s.spawn(int) for _ in range(10)], progress=leaves_one)",
        "pb.par_map(leaves_one, np.arange(300_000.0))",
        "pb.par_iter(np.arange(300_000)).map(leaves_one).sum()",
        "pb.par_map(np.sqrt, np.arange(4e6), progress=leaves_one)",
        "pb.par_for(20, leaves_one)",
        "[pool.install(leaves_one) for _ in range(3)]",
        "in_pool(lambda pool: [pool.submit(leaves_one) for _ in range(3)])",
        "in_pool(lambda pool: [pool.submit(leaves_one, affinity=1) for _ in range(3)])",
        "pb.broadcast(lambda: [pool.install(leaves_one) for _ in range(3)])",
        "pb.par_filter(np.ones(8), lambda x: leaves_one(x > 0))",
        "pb.par_filter(np.ones(8, object), lambda x: leaves_one(x > 0))",
        "pb.join(in_handler)",
    ],
)
def test_blocks_that_a_function_leaves_open(call, script):
    """They end with it: they referred to its stack, and the process died when a task of theirs
    was run later.  Their tasks run or are dropped, and the pool goes on."""
    out = script(f"""
import signal, threading, numpy as np, pyblitz as pb
pb.set_num_threads(3)
pool = pb.ThreadPool(2)
left, ran, dropped = [], [], []
def block():
    with pb.CancelScope() as c, pb.scope() as outer:
        tasks = [outer.spawn(ran.append, 1)]
        with pb.threads(2), pb.scope() as s:
            tasks.append(s.spawn(ran.append, 2))
            yield c, tasks
def leaves_one(x=None, *_):
    generator = block()
    left.append((generator, *next(generator)))
    return x
def in_scope(f, **options):
    with pb.scope(**options) as s:
        f(s)
def in_pool(f):
    with pb.ThreadPool(2) as pool:
        f(pool)
def calls_back(s):
    go = threading.Event()
    for _ in range(3):
        s.spawn(go.wait).add_done_callback(lambda future: leaves_one())
    go.set()
def in_handler():
    numbers = np.random.default_rng(0).random(3_000_000)
    signal.signal(signal.SIGALRM, leaves_one)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    while not left:
        pb.par_sort(numbers)
{call}
def deep(n):
    return deep(n - 1) + 1 if n else 0
deep(100)
assert all(future.done() for _, _, tasks in left for future in tasks)
assert not any(c.cancelled() for _, c, _ in left)
for generator, _, _ in left:
    generator.close()
pool.close()
print(len(left) > 0, len(ran) <= 2 * len(left), pb.broadcast(pb.num_threads))
""")
    assert out.split("\n")[0] == "True True [3, 3, 3]"


def test_blocks_that_the_callback_of_a_dropped_task_leaves_open(pool_size):
    """They end with it, too: a CancelScope referred to the one around, which was gone."""
    pool_size(3)
    left = []

    def block():
        with pb.CancelScope() as inner, pb.threads(2):
            yield inner

    def leaves_one(future):
        assert future.cancelled()
        generator = block()
        left.append((generator, next(generator)))

    began = threading.Event()

    def task():
        began.set()
        while not c.cancelled():
            time.sleep(0.001)
        time.sleep(0.1)  # until the scope waits
        s.spawn(int).add_done_callback(leaves_one)

    with contextlib.suppress(CancelledError), pb.CancelScope() as c, pb.scope() as s:
        s.spawn(task)
        assert began.wait(60)
        c.cancel()
    ((generator, inner),) = left
    assert not inner.cancelled()
    generator.close()
    assert pb.num_threads() == 3


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize(
    "call",
    [
        lambda leaves: pb.join(int, leaves),
        lambda leaves: pb.broadcast(leaves),
        lambda leaves: with_scope(lambda s: s.spawn(leaves)),
        lambda leaves: with_scope(lambda s: s.spawn(leaves).result()),
        lambda leaves: pb.par_map(lambda x: leaves() or x, np.arange(300_000.0)),
        lambda leaves: in_pool(lambda pool: pool.install(leaves)),
    ],
)
def test_what_a_block_that_is_left_open_raises(call, error, pool_size):
    """Whoever has called the function gets it: exits and Ctrl-C were lost."""
    kept = []

    def block():
        with pb.scope() as s:
            yield s.spawn(raises)

    def raises():
        raise error("in a block")

    def leaves():
        kept.append(block())
        next(kept[-1]).exception()

    pool_size(3)
    with pytest.raises(error, match="in a block"):
        call(leaves)
    # A thread that is still in a block is in the pool of then.
    pool_size(2)
    assert len(pb.broadcast(int)) == 2


def with_scope(f):
    with pb.scope() as s:
        f(s)


def in_pool(f):
    with pb.ThreadPool(2) as pool:
        f(pool)


@pytest.mark.parametrize(
    "inner", ["pb.broadcast(lambda: pb.join(int, int))", "np.sin(large)", "pb.join(int, int)"]
)
def test_a_call_in_a_leaf(inner, script):
    """Halves of the loop that were promoted in it got the call of the inner operation, which lies
    on a stack that goes: threads that stole them were told to stop, or the process died."""
    out = script(f"""
import threading, time, numpy as np, pyblitz as pb
pb.set_num_threads(3)
pb.enable()
main, large, calls = threading.main_thread(), np.random.rand(300_000), []
def deep(n):
    return max(map(deep, [n - 1])) + 1 if n else len(sorted([3, 1, 2], key=lambda v: -v))
def f(x):
    if threading.current_thread() is main:
        calls.append(x)
        if len(calls) == 2:
            {inner}
        for _ in range(4):
            deep(25)
    else:
        time.sleep(0.0002)
    return x
end = time.monotonic() + 2
while time.monotonic() < end:
    calls.clear()
    pb.par_map(f, np.arange(400_000.0))
print("done")
""")
    assert out == "done\n"


def test_a_task_that_a_part_spawns_and_asks_for_broadcasts(script):
    """It hung.  A part joins; the stolen half spawns a task into the scope around it all, and asks
    for it, when a third thread has it.  That task broadcasts: its part for the thread that joins
    was of the same level as this thread's wait, which did not serve it."""
    out = script("""
import threading, pyblitz as pb
pb.set_num_threads(4)
main, one = threading.get_ident(), threading.Lock()
stolen, begun = threading.Event(), threading.Event()
def rolls():
    begun.set()
    return len(pb.broadcast(int))
def asks():
    stolen.set()
    future = s.spawn(rolls)
    begun.wait()
    return future.result()
def part():
    if threading.get_ident() != main and one.acquire(blocking=False):
        return pb.join(stolen.wait, asks)[1]
with pb.scope() as s:
    print(sorted(filter(None, pb.broadcast(part))))
""")
    assert out.split() == ["[3]"]


def test_a_broadcast_on_top_of_a_deeper_wait(script):
    """It hung.  A task waits for a future; on top of that lies a part of a broadcast of a lower
    level, which broadcasts, too.  One part of that is for a thread that waits, at the task's
    level, for the task itself."""
    out = script("""
import threading, pyblitz as pb
begun, go, known, over, stolen, nested = (threading.Event() for _ in range(6))
pb.set_num_threads(3)
futures = []
def ends():
    begun.set()
    go.wait()
def hold():
    # In no thread of the global pool.
    with pb.scope() as s:
        future = s.spawn(ends)
        begun.wait()
        futures.append(future)
        known.set()
        over.wait()
other = pb.ThreadPool(2)
holder = threading.Thread(target=other.install, args=(hold,))
holder.start()
known.wait()

one = threading.Lock()
def task():
    global thread
    thread = threading.get_ident()
    stolen.set()
    futures[0].result()
def inner():
    if threading.get_ident() != first.ident and one.acquire(blocking=False):
        pb.join(stolen.wait, task)
def outer():
    if threading.get_ident() == first.ident:
        pb.broadcast(inner)
def unrelated():
    if threading.get_ident() == thread:
        nested.set()
        pb.broadcast(int)
first = threading.Thread(target=pb.broadcast, args=(outer,))
first.start()
stolen.wait()
second = threading.Thread(target=pb.broadcast, args=(unrelated,))
second.start()
nested.wait()
go.set()
first.join()
second.join()
over.set()
holder.join()
print("done")
""")
    assert out == "done\n"
