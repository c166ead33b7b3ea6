"""Jobs with keys: one at a time, in order, on one worker."""

import sys
import threading
import time

import pytest

import pyblitz as pb

SIZES = [1, 2, 3, 8, 64]
CROWDS = [*SIZES, 256, 1000]  # of threads, on however few CPUs


@pytest.mark.parametrize("threads", SIZES)
def test_order_and_exclusion(native, pool_size, threads):
    pool_size(threads)
    keys = native.forks.Keys(100, 100_000)
    keys.submit(0, 100, 1000)
    keys.wait()
    ran, disorder, overlap, workers = keys.outcome()
    assert (ran, disorder, overlap) == (100_000, 0, 0)
    # In a pool of one they run as guests, on whichever slot is free.
    assert workers == 1


@pytest.mark.parametrize("threads", CROWDS)
@pytest.mark.parametrize("waits", [False, True], ids=["short", "waiting"])
def test_stress(native, running_pool, crowd, threads, waits):
    """Several submitters, each of its own keys; jobs that wait for others in the middle do
    not let a second job of their key in."""
    running_pool(threads)
    rounds = 30 if waits else 1000
    keys = native.forks.Keys(40, 40 * rounds)
    crowd(*[lambda i=i: keys.submit(10 * i, 10 * i + 10, rounds, 0, 50, waits) for i in range(4)])
    keys.wait()
    assert keys.outcome()[:3] == (40 * rounds, 0, 0)


def test_keys_share_the_load(native, pool_size):
    """Of 100 keys some run on each of the workers."""
    pool_size(3)
    with pb.ThreadPool(3) as pool:
        seen = {k: pool.submit(threading.get_ident, affinity=k) for k in range(100)}
        again = {k: pool.submit(threading.get_ident, affinity=k) for k in range(100)}
        assert {k: f.result() for k, f in seen.items()} == {k: f.result() for k, f in again.items()}
        idents = [f.result() for f in seen.values()]
        assert len(set(idents)) == 2
        assert min(idents.count(i) for i in set(idents)) > 20


def test_order_survives_a_new_pool_size(native, pool_size):
    """While keys are busy the pool is replaced again and again."""
    sizes = [3, 1, 2, 8, 1, 4] * 5
    keys = native.forks.Keys(20, 20 * 200 * len(sizes))
    for turn, threads in enumerate(sizes):
        pool_size(threads)
        keys.submit(0, 20, 200, 200 * turn, 100)
    keys.wait()
    assert keys.outcome()[:3] == (20 * 200 * len(sizes), 0, 0)


def test_mail_does_not_starve_behind_a_key():
    """A key that always has one more job, and a call for every thread of the pool."""
    jobs, served, me = 0, threading.Event(), threading.get_ident()

    def call():
        if threading.get_ident() != me:
            served.set()

    with pb.ThreadPool(2) as pool:

        def again():
            nonlocal jobs
            jobs += 1
            if jobs < 20_000 and not served.is_set():
                pool.submit(again, affinity=1)

        for _ in range(3):
            pool.submit(again, affinity=1)
        pool.install(pb.broadcast, call)
    assert served.is_set()
    assert jobs < 20_000


def test_neither_keyed_nor_shared_work_starves(pool_size):
    """One worker, flooded with jobs of one key and with shared jobs: between two shared jobs
    at most 32 keyed ones run, and between two turns of the key one shared job."""
    log = []
    with pb.ThreadPool(2) as pool:
        gate = threading.Event()
        pool.submit(gate.wait)
        done = [pool.submit(log.append, "k", affinity=1) for _ in range(3200)]
        done += [pool.submit(log.append, "s") for _ in range(100)]
        gate.set()
        for f in done:
            f.result()
    text = "".join(log)
    assert (text.count("k"), text.count("s")) == (3200, 100)
    both = text[: min(text.rindex("k"), text.rindex("s"))]
    assert max(map(len, both.split("s"))) <= 32
    assert max(map(len, both.split("k"))) <= 2


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_submit_with_affinity(threads):
    state = {}

    def bump(key, by=1):
        before = state.get(key, 0)
        time.sleep(0)
        state[key] = before + by
        return state[key]

    with pb.ThreadPool(threads) as pool:
        futures = [pool.submit(bump, i % 7, by=2, affinity=i % 7) for i in range(700)]
        assert [f.result() for f in futures[-7:]] == [200] * 7
        assert pool.submit(lambda: 1 / 1, affinity=(1, "x")).result() == 1
        assert isinstance(pool.submit(lambda: 1 / 0, affinity="y").exception(), ZeroDivisionError)
    assert state == dict.fromkeys(range(7), 200)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_job_may_submit_to_its_own_key(threads):
    log = []
    with pb.ThreadPool(threads) as pool:

        def job(n):
            log.append(n)
            if n:
                pool.submit(job, n - 1, affinity="me")
            log.append(n)

        pool.submit(job, 5, affinity="me")
        while len(log) < 12:
            time.sleep(0.001)
    assert log == [5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0], "one after the other"


def test_unhashable_key():
    with pb.ThreadPool(2) as pool:
        with pytest.raises(TypeError, match="affinity must be hashable, and list is not"):
            pool.submit(len, [], affinity=[])
        assert pool.submit(len, [], affinity=()).result() == 0


def test_close_runs_what_was_accepted():
    log = []
    for _ in range(20):
        pool = pb.ThreadPool(3)
        for i in range(200):
            pool.submit(log.append, i, affinity=i % 5)
        pool.close()
        with pytest.raises(RuntimeError, match="closed"):
            pool.submit(len, [], affinity=1)
    assert len(log) == 4000


def test_a_refused_thread_passes_its_keys_on(script):
    out = script("""
import resource, pyblitz as pb
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
pool = pb.ThreadPool(4)
resource.setrlimit(resource.RLIMIT_AS, (used + (5 << 20), hard))
log = []
futures = [pool.submit(log.append, i, affinity=i % 10) for i in range(1000)]
for f in futures:
    f.result()
print(all([i for i in log if i % 10 == k] == list(range(k, 1000, 10)) for k in range(10)))
""")
    assert out == "True\n"


def test_a_forked_child_has_its_own_keys(script):
    out = script("""
import os, threading, pyblitz as pb
pool = pb.ThreadPool(2)
gate = threading.Event()
stuck = pool.submit(gate.wait, affinity="k")      # the lane is busy when we fork
pid = os.fork()
if pid == 0:
    print(pool.submit(len, "abc", affinity="k").result(), flush=True)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
gate.set()
print(stuck.result())
""")
    assert out == "3\nTrue\n"


def test_a_keyed_job_that_forks(script):
    """The child went on with the parent's copy of the queue."""
    out = script("""
import os, threading, pyblitz as pb
pool = pb.ThreadPool(2)
gate = threading.Event()
pool.submit(gate.wait, affinity="k")
def write(i):
    os.write(1, b"%d" % i)
child = pool.submit(os.fork, affinity="k")      # it ends when its one thread does
done = [pool.submit(write, i, affinity="k") for i in range(5)]
gate.set()
for f in done:
    f.result()
os.waitpid(child.result(), 0)
""")
    assert out == "01234"


@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="free-threaded Python cannot run in the child of a fork that it is not told of",
)
def test_a_child_of_c_has_its_own_keys(script):
    """Of a fork that Python does not know of."""
    out = script("""
import ctypes, os, pyblitz as pb, native_forks
pb.set_num_threads(2)
keys = native_forks.Keys(1, 1000)
keys.submit(0, 1, 500, 0, 100_000)      # busy when we fork
pid = ctypes.PyDLL(None).fork()
if pid == 0:
    mine = native_forks.Keys(1, 10)
    mine.submit(0, 1, 10)
    mine.wait()
    os.write(1, repr(mine.outcome()[:3]).encode())
    os._exit(0)
os.waitpid(pid, 0)
keys.wait()
""")
    assert out == "(10, 0, 0)"
