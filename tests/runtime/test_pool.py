"""The pool: guests, the fairness of its queues, who runs what."""

import threading

import pytest

import pyblitz as pb


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_many_guests(native, crowd, threads):
    """100 callers inside at once, more than a block of guests: all are right."""
    callers = 100
    barrier = threading.Barrier(callers)
    indexes = []
    with pb.ThreadPool(threads) as pool:

        def inside():
            barrier.wait()
            indexes.append(native.capi.inside()[1])
            who = native.runtime.guest()
            assert native.capi.fib(14) == 377
            assert native.capi.mark_all(300, 2)[:2] == (0, [1] * 300)
            assert native.capi.scope_tree(3, 5) == 155
            assert sum(native.capi.call_roll()) == threads
            barrier.wait()
            return who

        guests = crowd(*[lambda: pool.install(inside)] * callers)
    assert len(set(indexes)) == callers, "no two have the same worker_index"
    assert all(guest and left == 0 for guest, _, left in guests)
    assert sorted(index for _, index, _ in guests) == list(range(callers))


def test_places_are_used_again(native):
    with pb.ThreadPool(2) as pool:
        for _ in range(200):
            assert pool.install(native.runtime.guest) == (True, 0, 0)


def test_places_are_bounded_by_the_callers_present(native, crowd):
    """However often those come in who find the first 64 places taken."""
    come, go = threading.Barrier(66), threading.Event()
    with pb.ThreadPool(2) as pool:

        def stays():
            come.wait()
            go.wait()

        def comes_and_goes():
            come.wait()
            for _ in range(10_000):
                pool.install(int)
            return pool.install(native.runtime.places)

        def end():
            try:
                return comes_and_goes()
            finally:
                go.set()

        seen = crowd(*[lambda: pool.install(stays)] * 64, comes_and_goes, end)
    assert set(seen[64:]) == {1 + 64 + 64}


def test_a_slot_for_each_pool(native):
    """A thread that is inside two pools is a guest of both, of the innermost for now."""
    with pb.ThreadPool(2) as a, pb.ThreadPool(3) as b:

        def inside():
            before = native.capi.inside()
            return before, b.install(native.capi.inside), native.capi.inside()

        assert a.install(inside) == ((2, 1, True), (3, 2, True), (2, 1, True))
    assert native.runtime.guest() is None


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_background_workers_are_no_guests(native, threads):
    with pb.ThreadPool(threads) as pool:
        workers = [pool.submit(native.runtime.guest).result() for _ in range(50)]
        indexes = [pool.submit(native.capi.inside).result()[1] for _ in range(50)]
    assert {guest for guest, *_ in workers} == {False}
    assert set(indexes) <= set(range(threads - 1))


def test_guests_are_helped(native, crowd):
    """The others steal from a caller, however many there are: a join whose halves wait for
    each other ends."""
    callers = 100
    barrier = threading.Barrier(callers)
    with pb.ThreadPool(3) as pool:

        def inside():
            barrier.wait()
            meet = threading.Barrier(2, timeout=60)
            return native.capi.call_join(lambda: meet.wait() and 0, lambda: meet.wait() and 0)

        assert crowd(*[lambda: pool.install(inside)] * callers) == [0] * callers


@pytest.mark.parametrize("threads", [2, 3])
def test_no_starvation(native, pool_size, crowd, threads):
    """Injected jobs are served though callers keep the workers busy, and the other way
    round: ends when each kind of work has been done so often."""
    pool_size(threads)
    injected, flood = native.capi.Tally(), native.capi.Tally()
    done = threading.Event()

    def inject():
        for i in range(200):
            native.capi.submit_many(injected, 10)
            injected.reach(10 * (i + 1))
        done.set()

    def busy():
        while not done.is_set():
            native.capi.flood(flood, flood.value + 1_000)

    crowd(inject, busy, busy)
    assert injected.value == 2_000


def test_no_starvation_by_a_chain_of_tasks(native):
    """A worker whose own jobs never run out looks at the injector all the same."""
    with pb.ThreadPool(2) as pool:
        stop = threading.Event()

        def again():
            if not stop.is_set():
                pool.submit(again)

        pool.submit(again)
        for k in range(100):
            assert pool.submit(pow, 2, k).result(timeout=60) == 2**k
        stop.set()
