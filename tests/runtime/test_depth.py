"""Stacks are as deep as programs are, however many jobs there are."""

import concurrent.futures
import contextlib
import threading
import time

import pytest

import pyblitz as pb


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_mail_of_a_crowd_does_not_nest(native, pool_size, threads):
    """Each letter waits for a fork that another worker took, with all the others in the box:
    none of them is run on top of that wait."""
    pool_size(threads)
    assert native.depth.crowd(2_000, 20_000) == (2_000, 1)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("levels", [1, 2, 4])
def test_mail_nests_as_the_program_does(native, pool_size, threads, levels):
    """Of broadcasts in broadcasts the inner ones' parts run on top of the outer ones' waits,
    or nobody would get on."""
    pool_size(threads)
    for _ in range(5):
        ran, asked, deepest = native.depth.calls_in_calls(levels, 10_000)
        assert ran == asked >= (threads - 1) ** levels
        assert deepest <= levels


@pytest.mark.parametrize("threads", [2, 4])
def test_many_broadcasts_at_once(native, pool_size, crowd, threads):
    """Of unrelated callers, whose parts wait for each other's workers."""
    pool_size(threads)
    levels = 3
    seen = crowd(*[lambda: [native.depth.calls_in_calls(levels, 5_000) for _ in range(5)]] * 4)
    for results in seen:
        for ran, asked, deepest in results:
            assert ran == asked
            # A letter of one caller may lie on top of another's of a lower level.
            assert deepest <= levels


@contextlib.contextmanager
def held_future():
    """The future of a task of a scope that has begun, in no thread of the global pool, and an event
    that ends it.  Who waits for such a one serves mail, and parts of broadcasts of any level."""
    begun, go, made, over = (threading.Event() for _ in range(4))
    futures = []

    def task():
        begun.set()
        assert go.wait(60)

    def scope():
        with pb.scope() as s:
            future = s.spawn(task)
            # Not asked for before, or whoever asks would run it.
            assert begun.wait(60)
            futures.append(future)
            made.set()
            assert over.wait(60)

    with pb.ThreadPool(2) as other:
        thread = threading.Thread(target=other.install, args=(scope,))
        thread.start()
        try:
            assert made.wait(60)
            yield futures[0], go
        finally:
            go.set()
            over.set()
            thread.join()


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("levels", [1, 2])
def test_broadcasts_in_waits_for_a_future_nest_as_their_callers_do(
    native, pool_size, crowd, threads, levels
):
    """All of them have a part on each stack at the same time, whichever waits for the future first:
    one for each broadcast that somebody waits for, and no more, however often that is done."""
    pool_size(threads)
    callers, rounds = 4, 3
    # On top of a wait for a fork may lie a part of a deeper broadcast, and that would wait here for
    # what is under it (runtime/README.md, 9).
    forks = levels == 1
    # Parts of the callers' broadcasts; and of those that each of these parts makes.
    outer = callers * threads
    inner = 0 if levels == 1 else callers * (threads + (threads - 1) ** 2)
    meter = native.depth.Meter(100_000)
    for _ in range(rounds):
        with held_future() as (future, go):
            waiting = []  # an append of which one thread finds itself the last

            def wait(future=future, go=go, waiting=waiting):
                waiting.append(None)
                if len(waiting) == (inner or outer):
                    go.set()
                future.result()

            part = wait if levels == 1 else lambda wait=wait: meter.call_all(wait, forks)
            crowd(*[lambda part=part: meter.call_all(part, forks)] * callers)
    ran, deepest = meter.outcome()
    assert ran == rounds * (outer + inner)
    # One thread's stack has a part of each caller's, and of those that all their parts make.
    assert deepest == callers + (callers * threads if levels == 2 else 0)


def test_no_letters_between_broadcasts(native, pool_size, crowd):
    """A part of a broadcast on top of a letter that waits has its level at least: where it waits
    for a fork the next letter does not come, on top of which there would be the next part."""
    pool_size(3)
    callers, letters = 4, 200
    meter = native.depth.Meter(1_000_000)
    at_home = []  # parts in the thread that the letters are for
    home, known = [], threading.Event()
    with held_future() as (future, go):

        def letter():
            home.append(threading.get_ident())
            known.set()
            future.result()

        def post():
            # On the second worker; the letters that it writes are of the second level.
            if not home:
                meter.post(0, letters, letter)

        def part():
            if threading.get_ident() == home[0]:
                at_home.append(None)
                if len(at_home) == callers:
                    go.set()
            future.result()

        def caller():
            assert known.wait(60)
            meter.call_all(part)

        crowd(lambda: meter.post(1, 1, post), *[caller] * callers)
    ran, deepest = meter.outcome()
    assert ran == 1 + letters + callers * 3
    assert deepest == callers + 1


N = 100_000


@pytest.mark.parametrize("keys", [None, "one", "many"])
def test_jobs_that_submit_jobs_queue(native, pool_size, keys):
    """A pool without threads runs them here, one after the other."""
    pool_size(1)
    ran, deepest = native.depth.chain(N, keys is not None, keys == "many")
    assert (ran, deepest) == (N, 1)


LIMITED = """
if os.getuid() == 0:
    os.setuid(61_000 + os.getpid() % 1000)      # root is not limited
HARD = resource.getrlimit(resource.RLIMIT_NPROC)[1]
resource.setrlimit(resource.RLIMIT_NPROC, (1, HARD))
"""
BEGIN = """
import os, resource, threading, time
import native_capi as capi, native_depth as depth
import pyblitz as pb
"""
REFUSED = BEGIN + LIMITED


@pytest.mark.parametrize("keys", [None, "one", "many"])
def test_jobs_that_submit_jobs_queue_where_threads_are_refused(script, keys):
    script(
        f"""{REFUSED}
pb.set_num_threads(3)
assert depth.chain({N}, {keys is not None}, {keys == "many"}) == ({N}, 1)
assert pb.num_threads() == 1
""",
        env={"OPENBLAS_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize("how", ["spawn", "submit", "keyed"])
def test_a_chain_in_python(pool_size, how):
    pool_size(1)
    ran = []
    with pb.ThreadPool(1) as pool:

        def link(k):
            ran.append(k)
            if k < 20_000:
                if how == "spawn":
                    pb.spawn(link, k + 1)
                elif how == "submit":
                    pool.submit(link, k + 1)
                else:
                    pool.submit(link, k + 1, affinity=k)

        pool.submit(link, 1)
        assert ran == list(range(1, 20_001))


def test_a_job_that_asks_for_what_it_submitted():
    """In a pool of one thread it lies behind that job, and is run where it is asked for."""
    with pb.ThreadPool(1) as pool:

        def fib(n):
            if n < 2:
                return n
            below = [pool.submit(fib, n - k) for k in (1, 2)]
            assert not any(b.done() for b in below)
            return sum(b.result() for b in below)

        assert pool.submit(fib, 10).result() == 55

        def fails():
            error = pool.submit(lambda: 1 / 0).exception()
            return pool.submit(lambda: 7).result(timeout=60), repr(error)

        assert pool.submit(fails).result() == (7, "ZeroDivisionError('division by zero')")


def test_who_asks_for_one_job_waits_for_no_other():
    """Of those that lie behind a job it runs as many as come first, and with a timeout no more
    than there is time for.  (It ran all that lay there.)"""
    ran = []
    with pb.ThreadPool(1) as pool:

        def asks():
            jobs = [pool.submit(ran.append, k) for k in range(20)]
            jobs[4].result()
            early = len(ran)
            with pytest.raises(concurrent.futures.TimeoutError):
                jobs[-1].result(timeout=0)
            with pytest.raises(concurrent.futures.TimeoutError):
                jobs[-1].exception(timeout=-1)
            late = len(ran)
            # One begins before the time is up.
            slow = [pool.submit(time.sleep, 0.2) for _ in range(20)]
            with pytest.raises(concurrent.futures.TimeoutError):
                slow[-1].result(timeout=0.1)
            return early, late, len(ran), sum(job.done() for job in slow)

        assert pool.submit(asks).result() == (5, 5, 20, 1)
        assert pool.submit(int).result() == 0
    assert ran == list(range(20))


@pytest.mark.parametrize("keys", [False, True])
def test_jobs_run_here_without_the_gil_where_threads_are_refused(script, keys):
    """What they wait for may need it."""
    script(
        f"""{REFUSED}
pb.set_num_threads(3)
for _ in range(3):
    assert capi.a_job_holds_the_gil({keys}) == 0
""",
        env={"OPENBLAS_NUM_THREADS": "1"},
    )


def test_waking_is_no_recursion(script):
    """4,095 threads that are refused, one after the other, on a stack of 256 kB.  Of four times
    as many, glibc 2.43 takes 25 times as long to refuse them."""
    script(
        f"""{BEGIN}
threading.stack_size(1 << 18)
pool = pb.ThreadPool(4096)
begin, results = threading.Event(), []
def caller():
    begin.wait()
    results.append(pool.submit(pow, 2, 10).result(timeout=60))
t = threading.Thread(target=caller)
t.start()
{LIMITED}
begin.set()
t.join()
assert results == [1024], results
""",
        env={"OPENBLAS_NUM_THREADS": "1"},
    )


def test_refused_threads_are_tried_again(script):
    """When the system grants them later, they come, and `num_threads` says what there is."""
    script(
        f"""{REFUSED}
pb.set_num_threads(4)
def roll():
    return sum(capi.call_roll())
assert (roll(), pb.num_threads()) == (1, 1)
resource.setrlimit(resource.RLIMIT_NPROC, (HARD, HARD))
end = time.monotonic() + 60
while roll() < 4:
    assert time.monotonic() < end
    time.sleep(0.05)
assert pb.num_threads() == 4
tally = capi.Tally()
capi.submit_many(tally, 1000)
tally.reach(1000)
""",
        env={"OPENBLAS_NUM_THREADS": "1"},
    )
