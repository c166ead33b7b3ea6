"""Stopping what runs: by time, by `cancel`, by a signal, and because a sibling failed."""

import threading
import time
from concurrent.futures import CancelledError

import numpy as np
import pytest

import pyblitz as pb

KERNELS = ["run", "join", "lazy", "fork", "for", "nested", "scope"]


def doze(x):
    """A block that takes its time, and lets others have theirs."""
    time.sleep(0.005)
    return x


# Operations that would take minutes, or for ever.
LONG = {
    "function": lambda: pb.par_map(doze, np.zeros(10**9, np.int8)),
    "loop": lambda: [pb.par_map(np.sin, A, out=B) for _ in range(10**6)],
    "sliced": lambda: [pb.par_map(np.sin, A.astype(">f8")) for _ in range(10**6)],
    "reduce": lambda: [pb.par_reduce(np.add, A) for _ in range(10**7)],
    "sort": lambda: [pb.par_sort(A) for _ in range(10**6)],
    "merge": lambda: [pb.par_sort(A.astype(np.complex128)) for _ in range(10**6)],
    "counting": lambda: [pb.par_sort(A.astype(np.int8)) for _ in range(10**6)],
}
A = np.random.default_rng(0).random(2_000_000) * 100
B = np.empty_like(A)
A.flags.writeable = False


def usable():
    """Whether everything still works."""
    assert pb.par_map(np.sqrt, A).sum() == np.sqrt(A).sum()
    assert (pb.par_sort(A) == np.sort(A)).all()


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("operation", LONG)
def test_timeout(pool_size, operation, threads):
    pool_size(threads)
    with pytest.raises(TimeoutError, match="CancelScope"), pb.CancelScope(timeout=0.05) as scope:
        LONG[operation]()
    assert scope.cancelled()
    usable()


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("how", KERNELS)
def test_timeout_of_kernels(native, pool_size, how, threads):
    pool_size(threads)
    spinner = native.poll.Spinner()
    with pytest.raises(TimeoutError), pb.CancelScope(timeout=0.05):
        spinner.spin(how)
    assert spinner.stopped == spinner.running >= 1
    usable()


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("how", KERNELS)
def test_cancel_from_another_thread(native, pool_size, crowd, how, threads):
    """Of two that run the same, one is stopped; then the other."""
    pool_size(threads)
    spinners = [native.poll.Spinner() for _ in range(2)]
    scopes = [pb.CancelScope() for _ in range(2)]

    def work(i):
        with pytest.raises(CancelledError, match="cancelled"), scopes[i]:
            spinners[i].spin(how)
        return spinners[1 - i].stopped

    def cancel():
        for spinner in spinners:
            spinner.wait(1)
        scopes[0].cancel()
        while spinners[0].stopped < spinners[0].running:
            time.sleep(0)
        assert spinners[1].stopped == 0
        scopes[1].cancel()

    crowd(lambda: work(0), lambda: work(1), cancel)
    assert all(s.stopped == s.running for s in spinners)
    usable()


def test_cancel_a_loop(pool_size):
    pool_size(2)
    begun = threading.Event()

    def block(x):
        begun.set()
        return doze(x)

    scope = pb.CancelScope()
    threading.Thread(target=lambda: begun.wait() and scope.cancel()).start()
    with pytest.raises(CancelledError), scope:
        pb.par_map(block, np.zeros(10**9, np.int8))
    usable()


@pytest.mark.parametrize("how", ["collect", "sum"])
def test_one_thread_stops_after_a_block_of_a_function(pool_size, how):
    """Not after as many as a leaf may have of what takes little time."""
    pool_size(1)
    blocks = []
    scope = pb.CancelScope()

    def block(x):
        if len(x) > 1000:  # it is first shown a few
            blocks.append(len(x))
            scope.cancel()
        return np.asarray(x)

    with pytest.raises(CancelledError), scope:
        getattr(pb.par_iter(np.ones(262_144)).map(lambda x: block(x)), how)()
    assert len(blocks) == 1
    usable()


def test_cancelled_before():
    """What begins in a cancelled block raises at once, however small its leaves."""
    scope = pb.CancelScope()
    assert not scope.cancelled()
    scope.cancel()
    with pytest.raises(CancelledError), scope:
        pb.par_sort(A)
    out = np.zeros_like(A)
    with pytest.raises(CancelledError), scope:  # again
        pb.par_map(np.sqrt, A, out=out)
    assert not out.any()
    usable()


def test_nested_blocks():
    """The outer one stops what runs in the inner one, not the other way round."""
    with pytest.raises(TimeoutError), pb.CancelScope(timeout=0.02), pb.CancelScope() as inner:
        LONG["sort"]()
    assert inner.cancelled()
    with pb.CancelScope() as outer:
        with pytest.raises(TimeoutError), pb.CancelScope(timeout=0.02):
            LONG["sort"]()
        assert not outer.cancelled()
        usable()
        outer.cancel()
        with pytest.raises(CancelledError):
            pb.par_sort(A)


@pytest.mark.parametrize("threads", [1, 3])
def test_inside_an_operation(native, pool_size, threads):
    """A block in a callable stops what the callable calls, and nothing else."""
    pool_size(threads)
    timed_out = []

    def block(x):
        try:
            with pb.CancelScope(timeout=0.01):
                native.poll.Spinner().spin("join")
        except TimeoutError:
            timed_out.append(x.size)
        return pb.par_map(np.negative, x)

    a = A[:600_000]
    assert (pb.par_map(block, a, check=False) == -a).all()
    assert sum(timed_out) == a.size
    # And one around the whole stops what the callables call.
    with pytest.raises(TimeoutError), pb.CancelScope(timeout=0.05):
        pb.par_map(lambda x: native.poll.Spinner().spin("for"), A)
    usable()


def test_install_is_inside_the_block(native):
    with pb.ThreadPool(2) as pool:
        with pytest.raises(TimeoutError), pb.CancelScope(timeout=0.02):
            pool.install(native.poll.Spinner().spin, "join")
        with pb.CancelScope() as scope:
            future = pool.submit(lambda: pb.par_sort(A)[0])
            scope.cancel()
        assert future.result() == A.min(), "a submitted job is not a part of the block"


@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("how", ["for", "loops", "scope"])
def test_siblings_of_a_failure_stop(native, pool_size, how, threads):
    """A kernel that polls ends when an earlier item, or another task, has failed."""
    pool_size(threads)
    spinner = native.poll.Spinner()
    with pytest.raises(KeyError):
        spinner.spin(how, 0, 1)
    assert spinner.stopped == spinner.running >= 1
    usable()


def test_leaving_blocks_in_the_wrong_order():
    a, b = pb.CancelScope(), pb.CancelScope()
    a.__enter__()
    b.__enter__()
    with pytest.raises(RuntimeError, match="reverse order"):
        a.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="in use"):
        a.__enter__()
    with pytest.raises(RuntimeError, match="in use"):
        a.__init__()
    b.__exit__(None, None, None)
    a.__exit__(None, None, None)
    errors = []

    def elsewhere():
        try:
            a.__exit__(None, None, None)
        except RuntimeError as e:
            errors.append(str(e))

    with a:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert "in the thread that entered it" in errors[0]
    usable()


@pytest.mark.parametrize(
    ("timeout", "error"), [("soon", TypeError), (-1, ValueError), (float("nan"), ValueError)]
)
def test_bad_timeout(timeout, error):
    with pytest.raises(error, match="timeout must be"):
        pb.CancelScope(timeout)


# ---- Ctrl-C -----------------------------------------------------------------

CTRL_C = """
import os, signal, threading, time, sys
import numpy as np, pyblitz as pb, native_poll
sys.path.insert(0, {tests!r})
import test_cancel
pb.set_num_threads({threads})
spinner = native_poll.Spinner()
operations = dict(test_cancel.LONG)
for how in test_cancel.KERNELS:
    operations["kernel " + how] = lambda how=how: spinner.spin(how)
def interrupt_what_spins():
    # Not after some time: before the operation begins, it would be Python that raises.
    begun = spinner.running + 1
    def interrupt():
        spinner.wait(begun)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
"""


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_ctrl_c(script, threads):
    """Every long operation ends in the KeyboardInterrupt, not in what it leads to, and then
    everything works."""
    out = script(
        CTRL_C.format(tests=__file__.rsplit("/", 1)[0], threads=threads)
        + """
for name, operation in operations.items():
    try:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        operation()
    except KeyboardInterrupt:
        pass
assert spinner.stopped == spinner.running
test_cancel.usable()
print(len(operations))
"""
    )
    assert out.split() == [str(len(LONG) + len(KERNELS))]


def test_ctrl_c_again_and_again(script):
    """A handler that raised once is forgotten where the operation ends: inside `install`, the
    next operation runs, and is interrupted in turn."""
    out = script(
        CTRL_C.format(tests=__file__.rsplit("/", 1)[0], threads=2)
        + """
def main():
    for _ in range(3):
        try:
            interrupt_what_spins()
            operations["kernel nested"]()
        except KeyboardInterrupt:
            test_cancel.usable()
            print("interrupted")
with pb.ThreadPool(2) as pool:
    pool.install(main)
with pb.CancelScope():
    main()
"""
    )
    assert out.split() == ["interrupted"] * 6


def test_ctrl_c_that_a_callable_swallows(script):
    """What was stopped because of it is not finished, so the whole raises all the same."""
    out = script(
        CTRL_C.format(tests=__file__.rsplit("/", 1)[0], threads=2)
        + """
main = threading.main_thread()
def block(x):
    if threading.current_thread() is main:
        try:
            interrupt_what_spins()
            spinner.spin("join")
        except KeyboardInterrupt:
            print("swallowed")
    return x
try:
    pb.par_map(block, test_cancel.A)
except KeyboardInterrupt:
    print("raised")
test_cancel.usable()
"""
    )
    *swallowed, last = out.split()
    assert set(swallowed) == {"swallowed"}
    assert last == "raised"


def test_a_block_on_a_pool_thread_serves_its_mail(native):
    """A broadcast from inside it reaches the thread that is in it."""

    def job():
        with pb.CancelScope(timeout=60):
            return sum(native.capi.call_roll())

    with pb.ThreadPool(3) as pool:
        assert pool.submit(job).result() == 2, "the pool's own threads"


def test_a_block_that_is_never_left(native):
    """It ends with the job that entered it, and does not keep the pool from closing.  To close its
    generator then is no mistake, to go on with it is one."""
    kept = []

    def block():
        with pb.CancelScope(timeout=60):
            yield

    def job():
        kept.append(block())
        next(kept[-1])

    with pb.ThreadPool(2) as pool:
        pool.submit(job).result()
        pool.submit(job).result()
        assert pool.submit(native.capi.fib, 15).result() == 610
    kept[0].close()
    with pytest.raises(RuntimeError, match="this CancelScope ended when the function returned"):
        next(kept[1])


def test_a_function_that_leaves_a_block_of_its_callers():
    """While it is asked what it gives, and no operation has begun.  What is around it stays."""

    def block():
        with pb.CancelScope():
            yield

    outer, inner = block(), block()
    next(outer)
    next(inner)
    lazy = pb.par_iter(np.arange(10.0)).map(lambda x: (inner.close(), x)[1], check=False)
    assert next(outer, "left") == "left"
    assert lazy.sum() == 45.0


@pytest.mark.parametrize("make", [pb.CancelScope, lambda: pb.threads(2)])
def test_a_block_that_was_ended_is_not_entered_before_it_is_left(make):
    """The first to leave it, late, ended it for who was in it by then."""
    block, kept = make(), []

    def enters():
        with block:
            yield

    def leaves_open():
        kept.append(enters())
        next(kept[0])

    pb.join(leaves_open)
    with pytest.raises(RuntimeError, match="has not left it yet"):
        block.__enter__()
    kept.pop().close()
    with block:
        assert pb.join(lambda: 1) == (1,)


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_the_graver_of_two_failures_is_raised(error):
    """The function's, or that of a block that it leaves open."""
    kept = []

    def block():
        with pb.scope() as s:
            yield s.spawn(fails)

    def fails():
        raise error("in a block")

    def leaves():
        kept.append(block())
        next(kept[-1]).exception()
        raise ZeroDivisionError

    with pb.ThreadPool(2) as pool, pytest.raises((ZeroDivisionError, SystemExit)) as raised:
        pool.install(leaves)
    assert raised.type is (SystemExit if error is SystemExit else ZeroDivisionError)
    assert len(pb.broadcast(int)) == pb.num_threads()


def test_ctrl_c_inside_another_pools_operation(script):
    """It comes out of the operation around that, too, though a callable swallows it."""
    out = script(
        CTRL_C.format(tests=__file__.rsplit("/", 1)[0], threads=2)
        + """
main = threading.main_thread()
other = pb.ThreadPool(2)
def block(x):
    if threading.current_thread() is main and not swallowed:
        try:
            interrupt_what_spins()
            other.install(spinner.spin, "join")
        except KeyboardInterrupt:
            swallowed.append(True)
    return x
swallowed = []
try:
    pb.par_map(block, test_cancel.A, out=test_cancel.B)
except KeyboardInterrupt:
    print("raised", swallowed)
test_cancel.usable()
"""
    )
    assert out.split() == ["raised", "[True]"]


# The main thread waits for `sleeps`, which runs in another.
WAIT = """
import signal, threading, time
import pyblitz as pb
pb.set_num_threads(2)
main = threading.get_ident()
begun = threading.Event()
def wait(what):
    if what == "join":
        pb.join(begun.wait, sleeps)
    else:
        with pb.scope() as s:
            s.spawn(sleeps)
            begun.wait()
"""


@pytest.mark.parametrize("what", ["join", "scope"])
def test_a_handler_is_not_kept_waiting_by_other_signals(script, what):
    """Those of a profiler's timer interrupt each wait before it has lasted 20 ms: the wait
    goes on with what is left, and Python looks after its signals when that is over."""
    out = script(
        f"""{WAIT}
ran, ticks = [], []
signal.signal(signal.SIGUSR1, lambda *_: ran.append(time.monotonic()))
signal.signal(signal.SIGALRM, lambda *_: ticks.append(1))
def sleeps():
    # In another thread, which no signal interrupts.
    assert threading.get_ident() != main
    begun.set()
    time.sleep(0.2)
    signal.pthread_kill(main, signal.SIGUSR1)
    sent.append(time.monotonic())
    time.sleep(1)
sent = []
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
wait({what!r})
signal.setitimer(signal.ITIMER_REAL, 0)
print(ran[0] - sent[0], len(ticks))
"""
    )
    late, ticks = map(float, out.split())
    assert late < 0.5
    # Of some sixty times 20 ms.
    assert ticks > 20


@pytest.mark.parametrize("what", ["join", "scope"])
@pytest.mark.parametrize("raises", [False, True])
def test_handlers_run_while_what_was_stopped_ends(script, what, raises):
    """A wait that was told to stop goes on until the other half ends: Python looks after its
    signals all the same, and what a handler raises comes out.  (It ran when the wait was over.)"""
    out = script(
        f"""{WAIT}
ran, sent = [], []
def handler(*_):
    ran.append(time.monotonic())
    if {raises}:
        raise KeyError("of the handler")
signal.signal(signal.SIGUSR1, handler)
def sleeps():
    assert threading.get_ident() != main
    begun.set()
    time.sleep(0.3)         # the time is up
    sent.append(time.monotonic())
    signal.pthread_kill(main, signal.SIGUSR1)
    time.sleep(1)
try:
    with pb.CancelScope(timeout=0.1):
        wait({what!r})
except (KeyError, TimeoutError) as e:
    print(type(e).__name__, ran[0] - sent[0])
"""
    )
    error, late = out.split()
    assert error == ("KeyError" if raises else "TimeoutError")
    assert float(late) < 0.5
