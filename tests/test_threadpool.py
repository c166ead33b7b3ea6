"""ThreadPool, the number of threads, and the life of a process around them."""

import concurrent.futures
import gc
import operator
import os
import signal
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from programs import POOL_THREADS, pool_threads, wait_for_threads_to_end

import pyblitz as pb
from pyblitz.host import pools

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
BIG = np.random.default_rng(0).random(1_000_000)
SMALL = BIG[:20_000]


# ---- install and submit -----------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_install(threads):
    with pb.ThreadPool(threads) as pool:
        assert pool.num_threads == threads
        assert pool.install(pb.num_threads) == threads
        assert pool.install(dict, [(1, 2)], a=3) == {1: 2, "a": 3}
        assert pool.install(threading.get_ident) == threading.get_ident()
        assert pool.install(pool.install, pb.num_threads) == threads
        with pytest.raises(ZeroDivisionError):
            pool.install(operator.truediv, 1, 0)
        assert pool.install(pb.num_threads) == threads


def test_install_nests():
    before = pb.num_threads()
    with pb.ThreadPool(2) as a, pb.ThreadPool(3) as b:

        def inside():
            return [pb.num_threads(), b.install(pb.num_threads), pb.num_threads()]

        assert a.install(inside) == [2, 3, 2]
        assert b.install(a.install, b.install, pb.num_threads) == 3
    assert pb.num_threads() == before


# ---- threads ----------------------------------------------------------------


def workers_of_a_map():
    # By NumPy's own loop, however pyblitz was compiled: so it is worth sharing.
    with pb.stats() as s:
        pb.par_map(np.sin, BIG)
    return [w.name for w in s.workers]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_threads_of_a_block(n):
    before = pb.num_threads()
    with pb.threads(n):
        assert pb.num_threads() == n
        # One thread is no pool: NumPy does it.
        names = [f"pyblitz-{i}" for i in range(1, n)] + ["caller 1"]
        assert workers_of_a_map() == (names if n > 1 else [])
        with pb.threads(3):
            assert pb.num_threads() == 3
            assert pb.join(pb.num_threads, pb.num_threads) == (3, 3)
            with pb.threads(3):
                assert pb.num_threads() == 3
        assert pb.num_threads() == n
        with pytest.raises(ZeroDivisionError), pb.threads(4):
            operator.truediv(1, 0)
        assert pb.num_threads() == n
    assert pb.num_threads() == before


def test_threads_within_operations(pool_size):
    """A part of an operation has other threads, and what it computes is right."""
    pool_size(3)

    def part(i):
        with pb.threads(2):
            return pb.num_threads(), float(pb.par_sum(BIG))

    expected = float(pb.par_sum(BIG))
    with pb.scope() as s:
        jobs = [s.spawn(part, i) for i in range(50)]
    assert {job.result() for job in jobs} == {(2, expected)}


def test_threads_again_and_from_many_threads(crowd):
    block = pb.threads(2)
    for _ in range(3):
        with block:
            assert pb.num_threads() == 2
    with block, pytest.raises(RuntimeError, match="this block of threads is in use"):
        block.__enter__()

    def caller():
        for n in [2, 3, 2, 1] * 20:
            with pb.threads(n):
                assert pb.num_threads() == n
                assert pb.par_max(SMALL) == SMALL.max()

    crowd(*[caller] * 8)


@pytest.mark.parametrize(
    "inner", [lambda: pb.threads(3), lambda: pb.threads(2), pb.CancelScope, pb.scope]
)
def test_threads_are_left_in_the_reverse_order(inner):
    outer, inner = pb.threads(2), inner()
    outer.__enter__()
    inner.__enter__()
    with pytest.raises(RuntimeError, match="in the reverse order"):
        outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    outer.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="in the thread that entered it"):
        outer.__exit__(None, None, None)


@pytest.mark.parametrize("outer", [pb.CancelScope, pb.scope])
def test_what_is_around_threads_is_left_after_them(outer):
    outer = outer()
    outer.__enter__()
    with pb.threads(2), pytest.raises(RuntimeError, match="in the reverse order"):
        outer.__exit__(None, None, None)
    outer.__exit__(None, None, None)


def test_threads_are_left_where_they_were_entered():
    failures = []
    block = pb.threads(2)
    block.__enter__()

    def leave():
        try:
            block.__exit__(None, None, None)
        except RuntimeError as error:
            failures.append(str(error))

    other = threading.Thread(target=leave)
    other.start()
    other.join()
    assert failures == ["a block of threads must be left in the thread that entered it"]
    block.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("n", "error", "message"),
    [
        (0, ValueError, "n must be from 1 to 16384, not 0"),
        (1 << 20, ValueError, "n must be from 1 to 16384, not 1048576"),
        (2.0, TypeError, "n must be an integer, not float"),
        (None, TypeError, "n must be an integer, not NoneType"),
    ],
)
def test_bad_numbers_of_threads(n, error, message):
    with pytest.raises(error, match=message):
        pb.threads(n)


@linux
def test_idle_threads_of_a_block_end(script):
    """After a second without work, and what CancelScope says reaches into the block."""
    program = """
import time
import numpy as np, pyblitz as pb
a = np.arange(3_000_000.0)[::-1]
with pb.CancelScope() as scope, pb.threads(9):
    pb.par_sort(a)
    pb.broadcast(int)       # a thread that has not run yet has no name
    assert len(pool_threads()) > 0
    scope.cancel()
    try: pb.par_sort(a)
    except BaseException as error: print(type(error).__name__)
until = time.monotonic() + 20
while len(pool_threads()) and time.monotonic() < until: time.sleep(0.05)
print(len(pool_threads()))
with pb.threads(9): print(pb.par_sum(a) == a.sum())
"""
    assert script(POOL_THREADS + program).split() == ["CancelledError", "0", "True"]


def test_threads_without_init():
    class Careless(pb.threads):
        def __init__(self):
            pass

    with pytest.raises(RuntimeError, match="__init__ was not called"):
        Careless().__enter__()


@pytest.mark.parametrize(
    "leave_it",
    [
        "pb.threads(2).__enter__()",
        "it = block(); next(it)",
        "t = threading.Thread(target=enter); t.start(); t.join()",
        "threading.Thread(target=stay, daemon=True).start(); time.sleep(0.1)",
    ],
)
def test_a_block_that_nobody_leaves(script, leave_it):
    """The interpreter ends all the same, and what was submitted is done."""
    assert (
        script(f"""
import threading, time
import numpy as np, pyblitz as pb
def job():
    time.sleep(0.3)
    print("done", flush=True)
def block():
    with pb.threads(2): yield
def enter():
    global it
    it = block()
    next(it)
def stay():
    with pb.threads(2): time.sleep(100)
with pb.threads(2):
    pb.par_sort(np.arange(3_000_000.0)[::-1])
    pb.spawn(job)
pool = pb.ThreadPool(2)
pool.submit(job)
pb.spawn(job)
{leave_it}
pb.spawn(job)
""").count("done")
        == 4
    )


@linux
def test_threads_and_fork(script):
    """A child has the block's threads afresh, whether it began in it or enters one."""
    assert script("""
import os
import numpy as np, pyblitz as pb
a = np.arange(3_000_000.0)[::-1]
with pb.threads(9): pb.par_sort(a)
pid = os.fork()
with pb.threads(9): ok = pb.par_sort(a)[0] == 0
if pid == 0: os._exit(7 * ok)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
with pb.threads(3):
    pid = os.fork()
    ok = pb.par_sort(a)[0] == 0
if pid == 0: os._exit(7 * ok)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""").split() == ["7", "7"]


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 64])
def test_submit(threads):
    with pb.ThreadPool(threads) as pool:
        futures = [pool.submit(pow, 3, k, mod=1000) for k in range(500)]
        assert [f.result() for f in futures] == [pow(3, k, 1000) for k in range(500)]
        failed = pool.submit(operator.truediv, 1, 0)
        assert isinstance(failed.exception(), ZeroDivisionError)
        assert pool.submit(pb.num_threads).result() == threads


def test_submit_runs_elsewhere_with_two_and_here_with_one():
    with pb.ThreadPool(2) as pool:
        assert pool.submit(threading.get_ident).result() != threading.get_ident()
    with pb.ThreadPool(1) as pool:
        assert pool.submit(threading.get_ident).result() == threading.get_ident()


def test_submit_carries_the_context():
    import contextvars

    var = contextvars.ContextVar("var", default="outside")
    with pb.ThreadPool(2) as pool:
        var.set("inside")
        future = pool.submit(var.get)
        var.set("later")
        assert future.result() == "inside"


@pytest.mark.parametrize("threads", [2, 3, 8, 64])
def test_stress(native, crowd, threads):
    """Many threads submit and install at once."""
    with pb.ThreadPool(threads) as pool:
        ran = native.capi.Tally()

        def caller(k):
            futures = []
            for i in range(200):
                futures.append(pool.submit(operator.mul, i, k))
                if i % 20 == 0:
                    assert pool.install(native.capi.fib, 12) == 144
                    pool.install(native.capi.submit_many, ran, 10)
            return [f.result() for f in futures]

        results = crowd(*[lambda k=k: caller(k) for k in range(8)])
        assert results == [[i * k for i in range(200)] for k in range(8)]
    # Closed: what was accepted is done.
    assert ran.value == 8 * 10 * 10


def test_first_come_first_served():
    """One thread to serve them: in order, though they come in batches."""
    order = []
    gate = threading.Event()
    with pb.ThreadPool(2) as pool:
        pool.submit(gate.wait)
        for i in range(1000):
            pool.submit(order.append, i)
        gate.set()
    assert order == list(range(1000))


def test_no_starvation():
    """An accepted job runs though the ones before it keep submitting more.  (Once each batch
    went on top of the one before it.)"""
    gate = threading.Event()
    ran = 0
    turn = None

    def flood():
        nonlocal ran
        ran += 1
        if turn is None and ran < 20_000:
            pool.submit(flood)
            pool.submit(flood)

    def mine():
        nonlocal turn
        turn = ran

    with pb.ThreadPool(2) as pool:
        pool.submit(gate.wait)
        for _ in range(200):
            pool.submit(flood)
        job = pool.submit(mine)
        gate.set()
        job.result()
    assert turn < 1_000


def test_cancel():
    gate = threading.Event()
    with pb.ThreadPool(2) as pool:
        first = pool.submit(gate.wait)
        second = pool.submit(pow, 2, 2)
        assert second.cancel()
        gate.set()
        assert first.result()
    assert second.cancelled()


# ---- close ------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
def test_closed(threads):
    pool = pb.ThreadPool(threads)
    done = pool.submit(pow, 2, 3)
    pool.close()
    pool.close()
    assert done.done()
    assert repr(pool) == f"ThreadPool(num_threads={threads}, closed)"
    with pytest.raises(RuntimeError, match="closed"):
        pool.install(len, [])
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit(len, [])
    with pytest.raises(RuntimeError, match="closed"), pool:
        pass


@linux
def test_close_finishes_what_was_accepted_and_ends_the_threads():
    before = pool_threads()
    ran = []
    pool = pb.ThreadPool(3)
    gate = threading.Event()
    pool.submit(gate.wait)
    for i in range(300):
        pool.submit(ran.append, i)
    gate.set()
    pool.close()
    assert sorted(ran) == list(range(300))
    wait_for_threads_to_end(before)


@pytest.mark.parametrize("threads", [1, 2])
def test_close_from_inside(threads):
    with pb.ThreadPool(threads) as pool, pb.ThreadPool(2) as other:
        with pytest.raises(RuntimeError, match="from inside itself"):
            pool.install(pool.close)
        with pytest.raises(RuntimeError, match="from inside itself"):
            pool.install(other.install, pool.close)
        if threads > 1:
            error = pool.submit(pool.close).exception()
            assert isinstance(error, RuntimeError)
        assert pool.install(pb.num_threads) == threads


def test_close_while_others_are_inside(crowd):
    """They end, or are refused; nothing is lost and nothing hangs."""
    for _ in range(30):
        pool = pb.ThreadPool(3)
        accepted = []

        def use(pool=pool, accepted=accepted):
            # Not for ever: a close that hangs would fill the memory.
            for _ in range(200_000):
                accepted.append(pool.submit(pow, 2, 5))
                assert pool.install(pow, 2, 3) == 8

        def caller(use=use):
            with pytest.raises(RuntimeError, match="this ThreadPool is closed"):
                use()

        def close(pool=pool, accepted=accepted):
            while len(accepted) < 20:
                time.sleep(0)
            pool.close()

        crowd(caller, caller, close)
        assert {f.result(timeout=0) for f in accepted} == {32}


@linux
def test_forgotten_pool():
    """Without close: its threads end with it."""
    before = pool_threads()
    pool = pb.ThreadPool(3)
    pool.submit(pow, 2, 3).result()
    assert pool_threads() != before
    del pool
    gc.collect()
    wait_for_threads_to_end(before)


@pytest.mark.parametrize("how", ["del", "gc"])
def test_dropping_does_not_wait(script, how):
    """It waited, under whatever lock the caller or the garbage collector held.  What was
    accepted is done all the same."""
    out = script(f"""
import gc, threading, pyblitz as pb
lock = threading.Lock()
def job(i):
    with lock:
        return i
gc.disable()
for round in range(20):
    with lock:
        pool = pb.ThreadPool(2)
        cycle = [pool]
        if {how!r} == "gc":
            cycle.append(cycle)
        jobs = [pool.submit(job, i, affinity=i if i % 2 else None) for i in range(50)]
        del pool, cycle
        gc.collect()
        assert not any(f.done() for f in jobs)
    assert [f.result() for f in jobs] == list(range(50))
print("done")
""")
    assert out == "done\n"


@pytest.mark.parametrize("threads", [1, 2])
def test_dropped_pools_are_finished_at_the_end(script, threads):
    """Also those whose jobs drop another one."""
    out = script(f"""
import threading, time, pyblitz as pb
dropped = threading.Event()
def second():
    time.sleep(0.1)
    print("second", flush=True)
def first():
    pb.ThreadPool({threads}).submit(second)
    dropped.set()
    time.sleep(0.05)
    print("first", flush=True)
pb.ThreadPool({threads}).submit(first)
dropped.wait()
""")
    assert sorted(out.split()) == ["first", "second"]


@linux
def test_dropped_pools_are_freed(script):
    """One by one, and many at once; with threads and without; with what was bound to them."""
    out = script("""
import gc, os, pyblitz as pb
from concurrent.futures import wait
def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
def drop(times):
    for i in range(times):
        pb.ThreadPool(3)
        pool = pb.ThreadPool(2)
        pool.submit(len, "", affinity=i).result()
    pools = [pb.ThreadPool(2) for i in range(times)]
    wait([p.submit(len, "") for p in pools])
for i in range(3):
    drop(50)
before = resident()
for i in range(5):
    drop(50)
print((resident() - before) // 750)
""")
    assert int(out) < 120_000, "one that is not freed takes twice as much"


@pytest.mark.parametrize("threads", [1, 2])
def test_fork_after_dropping(script, threads):
    """The child leaves the parent's pools alone, and ends."""
    out = script(f"""
import os, threading, pyblitz as pb
gate = threading.Event()
pool = pb.ThreadPool({threads})
if {threads} > 1:
    f = pool.submit(gate.wait)
del pool
pid = os.fork()
if pid == 0:
    pool = pb.ThreadPool(2)
    assert pool.submit(pow, 2, 5).result() == 32
    del pool
    pb.set_num_threads(2)
    raise SystemExit(7)
gate.set()
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""")
    assert out == "7\n"


@linux
def test_pools_dropped_by_many_threads(crowd):
    before = pool_threads()

    def drop():
        done = []
        for i in range(100):
            pool = pb.ThreadPool(1 + i % 3)
            done.append(pool.submit(pow, 2, i))
        return [f.result() for f in done]

    assert crowd(drop, drop, drop) == [[2**i for i in range(100)]] * 3
    wait_for_threads_to_end(before)


@linux
def test_pool_whose_last_reference_is_its_own_job():
    """Then it goes in one of its own threads, which cannot wait for itself."""
    before = pool_threads()
    gate = threading.Event()
    pool = pb.ThreadPool(2)
    gone = weakref.ref(pool)
    future = pool.submit(lambda pool: gate.wait(), pool)
    del pool
    gate.set()
    assert future.result()
    deadline = time.monotonic() + 10
    while gone() is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert gone() is None
    wait_for_threads_to_end(before)


# ---- the number of threads --------------------------------------------------


def test_set_num_threads(pool_size):
    for n in (1, 3, 2, 100):
        pool_size(n)
        assert pb.num_threads() == n
    pb.set_num_threads(True + 1)
    assert pb.num_threads() == 2


@pytest.mark.parametrize("bad", [0, -1, 16385, 2**70])
@pytest.mark.parametrize("function", [pb.set_num_threads, pb.ThreadPool])
def test_out_of_range(function, bad):
    with pytest.raises(ValueError, match=f"from 1 to 16384, not {bad}"):
        function(bad)


@pytest.mark.parametrize("bad", ["2", 2.0, [2]])
@pytest.mark.parametrize("function", [pb.set_num_threads, pb.ThreadPool])
def test_not_a_number(function, bad):
    with pytest.raises(TypeError, match=f"must be an integer, not {type(bad).__name__}"):
        function(bad)


def test_none_is_the_default_for_a_pool_only():
    with pytest.raises(TypeError):
        pb.set_num_threads(None)
    with pb.ThreadPool() as pool:
        assert pool.num_threads >= 1


def test_init_twice():
    with pb.ThreadPool(2) as pool:
        with pytest.raises(RuntimeError, match="twice"):
            pool.__init__(3)
        assert pool.install(pb.num_threads) == 2


def test_never_initialised():
    pool = pb.ThreadPool.__new__(pb.ThreadPool)
    with pytest.raises(RuntimeError):
        pool.install(len, [])
    pool.close()


def test_many_threads(native):
    with pb.ThreadPool(1000) as pool:
        assert pool.install(native.capi.fib, 15) == 610
        assert pool.submit(pow, 2, 3).result() == 8


# ---- threads ----------------------------------------------------------------


@linux
def test_threads_start_when_they_are_needed(script):
    out = script(f"""
import os, threading
import pyblitz as pb
from pyblitz.host import pools
import native_capi as capi
{POOL_THREADS}
pb.set_num_threads(4)
print(pool_threads())
capi.fib(0)
print(pool_threads())
with pb.ThreadPool(3) as pool:
    pool.submit(len, []).result()
    print(pool_threads())
    gate, here = threading.Event(), threading.Barrier(3)
    jobs = [pool.submit(lambda: (here.wait(), gate.wait())) for _ in range(2)]
    here.wait()
    print(pool_threads())
    gate.set()
wait_for_threads_to_end()
capi.call_roll()
print(pool_threads())
""")
    two = ["pyblitz-1", "pyblitz-2"]
    assert out.splitlines() == [
        str(x) for x in ([], [], two[:1], two, [*two, "pyblitz-3"])
    ]  # fmt: skip


def test_idle_costs_nothing(script):
    out = script("""
import time
import pyblitz as pb
from pyblitz.host import pools
import native_capi as capi
pb.set_num_threads(4)
for _ in range(20):
    capi.fib(18), capi.call_roll(), capi.scope_tree(3, 5)
time.sleep(0.2)     # until all sleep
before = time.process_time()
time.sleep(2)
print(time.process_time() - before)
""")
    assert float(out) < 0.005


RIGHT_RESULTS = """
def check():
    assert capi.fib(18) == 2584
    rc, counts, _, _ = capi.mark_all(10_000, 7)
    assert rc == 0 and counts == [1] * 10_000
    assert capi.scope_tree(3, 10) == 1110
    assert capi.reduce_span(5000, 3)[:3] == (0, 0, 5000)
"""


@linux
@pytest.mark.skipif(
    os.environ.get("PYBLITZ_BUILD", "debug") != "debug", reason="sanitizers need the memory"
)
@pytest.mark.parametrize("room_for", [0, 1])
def test_threads_that_cannot_start(script, room_for):
    """No address space for their stacks: the work runs on who is there."""
    out = script(f"""
import resource, os, threading
import pyblitz as pb
from pyblitz.host import pools
import native_capi as capi
{RIGHT_RESULTS}
{POOL_THREADS}
stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
assert stack > 0, "threads have stacks of that size"
with open("/proc/self/statm") as f:
    used = int(f.read().split()[0]) * resource.getpagesize()
room = used + stack // 2 + {room_for} * stack
resource.setrlimit(resource.RLIMIT_AS, (room, room))
pb.set_num_threads(4)
for _ in range(5):
    check()
    with pb.ThreadPool(3) as pool:
        assert [pool.submit(pow, 2, k).result() for k in range(20)] == [2**k for k in range(20)]
        assert pool.install(capi.fib, 10) == 55
tally = capi.Tally()
capi.submit_many(tally, 100)
tally.reach(100)
roll = capi.call_roll()
print(len(pool_threads()), sum(roll), tally.value)
""")
    assert out.split() == [str(room_for), str(room_for + 1), "100"]


# ---- fork and exit ----------------------------------------------------------


@linux
def test_fork(script):
    """A child has fresh, unstarted pools; the parent's go on."""
    out = script(f"""
import os, threading
import pyblitz as pb
from pyblitz.host import pools
import native_capi as capi
{RIGHT_RESULTS}
{POOL_THREADS}
pb.set_num_threads(3)
own = pb.ThreadPool(2)
closed = pb.ThreadPool(2)
closed.close()
capi.call_roll()
own.submit(len, []).result()

def child():
    assert pool_threads() == []
    own.close() if generation == 2 else None
    check()
    assert sum(capi.call_roll()) == pb.num_threads()
    if generation < 2:
        assert own.submit(pow, 2, 3).result() == 8
    pb.set_num_threads(4)
    assert sum(capi.call_roll()) == 4
    check()
    try:
        closed.submit(len, [])
    except RuntimeError:
        pass
    else:
        raise AssertionError("closed")

for generation in range(3):
    pid = os.fork()
    if pid == 0:
        child()
        grandchild = os.fork()
        if grandchild == 0:
            check()
            os._exit(0)
        assert os.waitpid(grandchild, 0)[1] == 0
        raise SystemExit(0)     # with atexit
    assert os.waitpid(pid, 0)[1] == 0
    check()
    assert sum(capi.call_roll()) == 3
print("parent")
""")
    assert out == "parent\n"


@linux
def test_fork_inside_an_operation(script):
    """The child is in the middle of a call into a pool that it does not have."""
    out = script("""
import os
import pyblitz as pb
from pyblitz.host import pools
import native_capi as capi
pb.set_num_threads(3)
capi.call_roll()

def inside():
    pid = os.fork()
    if pid == 0:
        assert not capi.is_worker()
        assert capi.fib(15) == 610 and sum(capi.call_roll()) == pb.num_threads()
        return 77
    return os.waitpid(pid, 0)[1]

rc = capi.call(inside)
assert capi.fib(15) == 610
if rc == 77:
    raise SystemExit(0)
print(rc, sum(capi.call_roll()))
""")
    assert out == "0 3\n"


@linux
def test_the_child_of_a_job_that_forks_ends_well(script):
    """Its one thread was a pool's.  What it printed is not lost; it does not do at exit what the
    parent is to do.  From Python 3.13 on it died by a signal: Python took the state of the
    parent's main thread for its own."""
    out = script("""
import atexit, os
import pyblitz as pb
atexit.register(os.write, 1, b"exit ")
pool = pb.ThreadPool(2)
def forks():
    pid = os.fork()
    if pid == 0:
        print("child", end=" ")
    return pid
pid = pool.submit(forks).result()
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), end=" ", flush=True)
""")
    assert out == "child 0 exit "


def test_fork_while_others_work(script):
    out = script(f"""
import os, threading
import pyblitz as pb
from pyblitz.host import pools
import native_capi as capi
{RIGHT_RESULTS}
pb.set_num_threads(3)
stop = False
def work():
    while not stop:
        check()
threads = [threading.Thread(target=work) for _ in range(2)]
for t in threads: t.start()
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        check()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
stop = True
for t in threads: t.join()
print("done")
""")
    assert out == "done\n"


@pytest.mark.parametrize(
    "how", ["pass", "raise SystemExit(0)", "pool.submit(os.write, 1, b'late ')"]
)
def test_exit_finishes_what_was_accepted(script, how):
    out = script(f"""
import os, time, pyblitz as pb, native_capi as capi
pool = pb.ThreadPool(3)
def job(k):
    time.sleep(0.2)
    os.write(1, b"%d\\n" % k)   # print writes the end of the line by itself
for k in range(4): pool.submit(job, k)
tally = capi.Tally()
capi.submit_many(tally, 1000)
{how}
""")
    lines = sorted(out.split())
    assert lines[:4] == ["0", "1", "2", "3"]
    assert lines[4:] == (["late"] if "late" in how else [])


def test_exit_with_daemons_inside(script):
    """Their operations are not waited for for ever, and nothing crashes."""
    for _ in range(5):
        script("""
import threading, pyblitz as pb, native_capi as capi
pb.set_num_threads(3)
def work():
    while True:
        capi.fib(12), capi.mark_all(100, 1), capi.scope_tree(2, 5)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
capi.fib(20)
""")


def test_a_pool_used_at_exit(script):
    out = script("""
import atexit
@atexit.register        # before pyblitz registers its own: so called after it
def last():
    print(native_capi.fib(10), pyblitz.num_threads())
    try: pyblitz.set_num_threads(2)
    except RuntimeError as e: print(e)
import pyblitz, native_capi
pyblitz.set_num_threads(3)
native_capi.fib(20)
""")
    assert out.splitlines()[0].split()[0] == "55"
    assert out.splitlines()[1] == "set_num_threads: the interpreter is shutting down"


@pytest.mark.parametrize("how", ["work", "wait"])
def test_ctrl_c(script, how):
    """Signals are seen in the main thread's operations, at work and in a wait."""
    work = {
        # 9 ** 9 items: seconds.
        "work": "capi.nest(9, 9)",
        # The other half runs in a pool thread and ends only after the interrupt.
        "wait": "capi.hold(tally, 1)",
    }[how]
    out = script(f"""
import os, signal, threading, time
import pyblitz as pb, native_capi as capi
pb.set_num_threads(2)
tally = capi.Tally()
seen = threading.Event()
def handler(*args):
    seen.set()
    raise KeyboardInterrupt
signal.signal(signal.SIGINT, handler)
def interrupt():
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)
    assert seen.wait(30)
    capi.flood(tally, 1)
threading.Thread(target=interrupt).start()
try:
    {work}
except KeyboardInterrupt:
    print("interrupted")
print(capi.fib(15))
""")
    assert out.split() == ["interrupted", "610"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("size", [1, 2])
def test_ctrl_c_in_a_wait_for_a_future(script, size):
    """Its lock was left held, so that the thread that ends it hung, or was released twice."""
    out = script(f"""
import random, signal, pyblitz as pb
def handler(*args):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handler)
draw = random.Random(0)
with pb.ThreadPool({size}) as pool:
    for i in range(1500):
        armed = True
        try:
            signal.setitimer(signal.ITIMER_REAL, draw.random() * 0.002 + 1e-6)
            while True:
                pool.submit(int, 7).result()
        except KeyboardInterrupt:
            pass
    print(pool.submit(int, 8).result(timeout=20))
""")
    assert out == "8\n"


# ---- pinned threads, and threads that retire ---------------------------------


def cpus_of_threads():
    """{name: CPUs that it may run on} of this process's pool threads."""
    found = {}
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as f:
                name = f.read().strip()
            if name.startswith("pyblitz-"):
                found[name] = os.sched_getaffinity(int(task))
        except OSError:  # ended meanwhile
            continue
    return found


def start_all(pool):
    """Every thread of the pool runs at once."""
    n = pool.num_threads - 1
    barrier = threading.Barrier(n + 1)
    futures = [pool.submit(barrier.wait, 60) for _ in range(n)]
    barrier.wait(60)
    for f in futures:
        f.result()


@linux
def test_pin():
    mask = os.sched_getaffinity(0)
    order = sorted(mask)
    with pb.ThreadPool(5, pin=True) as pool:
        start_all(pool)
        expected = order[1:] + order[:1]
        assert cpus_of_threads() == {
            f"pyblitz-{i + 1}": {expected[i % len(expected)]} for i in range(4)
        }
    with pb.ThreadPool(4, pin=[order[-1]]) as pool:
        start_all(pool)
        assert list(cpus_of_threads().values()) == [{order[-1]}] * 3
    for nothing in (None, False):
        with pb.ThreadPool(3, pin=nothing) as pool:
            start_all(pool)
            assert list(cpus_of_threads().values()) == [mask] * 2
    assert os.sched_getaffinity(0) == mask, "the caller stays where it was"


@linux
@pytest.mark.parametrize(
    ("pin", "error", "message"),
    [
        ([100_000], ValueError, "may not use CPU 100000"),
        ([-1], ValueError, "may not use CPU -1"),
        ([], ValueError, "at least one CPU"),
        (1.5, TypeError, "pin must be None, True or a sequence of CPU numbers"),
        ("01", TypeError, "not '01'"),
        ([0.5], TypeError, "pin must be"),
    ],
)
def test_bad_pins(pin, error, message):
    with pytest.raises(error, match=message):
        pb.ThreadPool(2, pin=pin)


@linux
def test_a_system_that_refuses_to_pin(monkeypatch):
    def refuse(pid, cpus):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    with pytest.raises(OSError, match="pin: the system refuses to place threads"):
        pb.ThreadPool(2, pin=True)
    monkeypatch.delattr(os, "sched_setaffinity")
    with pytest.raises(OSError, match="does not place threads"):
        pb.ThreadPool(2, pin=[0])


def wait_for_threads(n):
    """Until this process has n pool threads; the watchdog ends a wait in vain."""
    while len(pool_threads()) != n:
        time.sleep(0.001)


@linux
@pytest.mark.parametrize("keep", [0, 1, 3])
def test_idle_threads_retire(keep):
    with pb.ThreadPool(5, idle_timeout=0.02, keep=keep) as pool:
        for _ in range(3):
            start_all(pool)
            wait_for_threads(keep)
    with pb.ThreadPool(3, idle_timeout=3600) as pool:
        start_all(pool)
        assert len(pool_threads()) == 2


@pytest.mark.parametrize("idle", [0, 0.0001, 0.001])
def test_retirement_races_work(idle):
    """Threads end at any moment around a submission; every job runs, and keys stay in
    order."""
    log = []
    with pb.ThreadPool(3, idle_timeout=idle) as pool:
        for i in range(3000):
            if i % 3 == 0:
                assert pool.submit(operator.add, i, 1).result() == i + 1
            else:
                pool.submit(log.append, i, affinity=i % 3)
            if i % 7 == 0:
                time.sleep(idle)
    assert [i for i in log if i % 3 == 1] == list(range(1, 3000, 3))
    assert [i for i in log if i % 3 == 2] == list(range(2, 3000, 3))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"idle_timeout": -1}, ValueError, "idle_timeout must be from 0"),
        ({"idle_timeout": float("nan")}, ValueError, "idle_timeout must be from 0"),
        ({"idle_timeout": "x"}, TypeError, "idle_timeout must be a number"),
        ({"keep": -1}, ValueError, "keep must not be negative, not -1"),
        ({"keep": 1.5}, TypeError, "keep must be an integer"),
    ],
)
def test_bad_idle_options(options, error, message):
    with pytest.raises(error, match=message):
        pb.ThreadPool(2, **options)


def test_garbage_is_collected_at_any_moment(pool_size, monkeypatch):
    """Pools, and objects that ask for the number of threads as they go, while the number is set:
    found as a hang under AddressSanitizer, of a pool that went with the lock held."""
    collected = []

    class Asks:
        def __del__(self):
            collected.append(pb.num_threads())

    # It is called with the lock held.
    monkeypatch.setattr(pools, "asymmetric_fences", lambda: gc.collect() >= 0, raising=True)
    cycle = [pb.ThreadPool(2), Asks()]
    cycle.append(cycle)
    del cycle
    pool_size(3)
    assert len(collected) == 1


@linux
def test_pools_that_were_replaced_are_freed(script):
    """Each has the places of 64 callers, with their deques."""
    out = script("""
import os, pyblitz as pb
def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
def replace(times):
    for i in range(times):
        pb.set_num_threads(2 + i % 2)
        pb.broadcast(os.getpid)
replace(50)
before = resident()
replace(200)
print((resident() - before) // 200)
""")
    assert int(out) < 10_000


def test_no_memory_to_tell_the_result(script):
    """Python's calls allocate, and exceptions their tracebacks: whoever waits for the job gets its
    result all the same, whichever allocations fail."""
    pytest.importorskip("_testcapi", reason="this Python has no test modules")
    out = script("""
import time, threading
import _testcapi
import pyblitz as pb
from pyblitz.host import pools
def job(k, width):
    time.sleep(0.005)       # until somebody waits
    _testcapi.set_nomemory(k, k + width)
def ends(pool, k, width):
    future = pool.submit(job, k, width)
    began = time.monotonic()
    try:
        future.result(20)
    except MemoryError:     # the job's own, or here
        pass
    _testcapi.remove_mem_hooks()
    assert time.monotonic() - began < 20, (k, width)
    assert future.done()
for width in (1, 2, 3, 10):
    for k in range(30):
        with pb.ThreadPool(2) as pool:
            ends(pool, k, width)
            ends(pool, k, width)    # in a thread that has called Python before
print("told")
""")
    assert out == "told\n"


@pytest.mark.parametrize("ends", ["result", "exception", "cancelled"])
def test_all_who_wait_are_told_once(ends):
    """However often there is no memory for it."""

    class Waiter:
        def __init__(self, fails):
            self.fails, self.told = fails, []

        def tell(self, future):
            if self.fails > 0:
                self.fails -= 1
                raise MemoryError
            self.told.append(future)

        add_result = add_exception = add_cancelled = tell

    def job():
        return 1 // (ends == "result")

    heard, gate = [], threading.Event()
    with pb.ThreadPool(2) as pool:
        for _ in range(2):
            pool.submit(gate.wait)
        future = pool.submit(job)
        waiters = [Waiter(fails) for fails in (0, 3, 1)]
        future._waiters.extend(waiters)
        future.add_done_callback(heard.append)
        if ends == "cancelled":
            assert future.cancel()
        gate.set()
    assert [w.told for w in waiters] == [[future]] * 3
    assert [w.fails for w in waiters] == [0, 0, 0]
    assert heard == [future]
    future._waiters.clear()
    assert concurrent.futures.wait([future], timeout=0).done == {future}
    assert future.cancelled() == (ends == "cancelled")


def test_a_callback_that_fails_stops_no_other(script):
    """Nor does its report: that is the interpreter's then."""
    out = script("""
import concurrent.futures, sys, threading
import pyblitz as pb
from pyblitz.host import pools
def no_memory(*args):
    raise MemoryError
heard, unraisable = [], []
sys.unraisablehook = lambda x: unraisable.append(type(x.exc_value).__name__)
log = concurrent.futures._base.LOGGER
logged, log.exception = [], lambda *args: logged.append(args[1])
for fails in (False, True):
    if fails:
        log.exception = no_memory
    gate = threading.Event()
    with pb.ThreadPool(2) as pool:
        future = pool.submit(gate.wait)
        future.add_done_callback(no_memory)
        future.add_done_callback(heard.append)
        gate.set()
    assert heard[-1] is future
assert len(logged) == 1
print(unraisable)
""")
    assert out == "['MemoryError']\n"


def test_workers_read_no_environment(script):
    """While os.environ is written to, getenv may read what was freed."""
    script("""
import os, threading
import pyblitz as pb
from pyblitz.host import pools
ended = False
def write():
    while not ended:
        for k in range(1000):
            os.environ[f"PB_{k}"] = "x"
        for k in range(1000):
            del os.environ[f"PB_{k}"]
t = threading.Thread(target=write)
t.start()
for _ in range(100):
    with pb.ThreadPool(4) as pool:
        for _ in range(8):
            pool.submit(abs, 1)
ended = True
t.join()
""")
