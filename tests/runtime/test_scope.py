"""Scopes, their tasks, and broadcast, through the cimport API."""

import pytest

import pyblitz as pb

SIZES = [1, 2, 3, 8, 64]
CROWDS = [*SIZES, 256, 1000]  # of threads, on however few CPUs


def nodes(levels, fan):
    return sum(fan**k for k in range(1, levels + 1))


@pytest.mark.parametrize("threads", SIZES)
def test_smoke(native, pool_size, threads):
    pool_size(threads)
    assert native.capi.scope_tree(1, 10) == 10
    assert native.capi.scope_tree(3, 7) == nodes(3, 7)


def test_many_tasks(native, pool_size):
    pool_size(2)
    assert native.capi.scope_tree(1, 200_000) == 200_000
    assert native.capi.scope_tree(17, 2) == nodes(17, 2)


@pytest.mark.parametrize("threads", CROWDS)
def test_stress(native, running_pool, crowd, threads):
    running_pool(threads)

    def caller():
        return [native.capi.scope_tree(1 + i % 4, 2 + i % 5) for i in range(60)]

    expected = [nodes(1 + i % 4, 2 + i % 5) for i in range(60)]
    assert crowd(*[caller] * 6) == [expected] * 6


@pytest.mark.parametrize("threads", SIZES)
def test_nested_scopes_spawn_into_the_outer(native, pool_size, crowd, threads):
    """An inner scope that ends waits for its own tasks, and for those alone."""
    pool_size(threads)

    def caller():
        return [native.capi.scope_nested() for _ in range(10)]

    assert crowd(*[caller] * 4) == [[(101 * 20, 0)] * 10] * 4


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("python", [False, True])
@pytest.mark.parametrize("at", [0, 1, 50, 99, 100])
def test_failures(native, pool_size, threads, python, at):
    """One task fails, or the body (100): the others are dropped or done, never left."""
    pool_size(threads)
    for _ in range(20):
        failure, begun, ended = native.capi.scope_failing(100, at, python)
        if python:
            assert isinstance(failure, ValueError)
            assert failure.args == ("body" if at == 100 else "task",)
        else:
            assert failure == 9
        assert begun == ended <= 100
        if threads == 1:
            assert begun == (0 if at == 100 else at + 1)


@pytest.mark.parametrize("threads", SIZES)
def test_broadcast(native, pool_size, threads):
    """Once in every thread of the pool, and in the caller."""
    pool_size(threads)
    for _ in range(20):
        roll = native.capi.call_roll()
        assert roll[: threads - 1] == [1] * (threads - 1)
        assert sum(roll[threads - 1 :]) == 1


@pytest.mark.parametrize("threads", SIZES)
def test_concurrent_broadcasts(native, pool_size, crowd, threads):
    """From several callers, and from inside parallel work."""
    pool_size(threads)
    for roll in crowd(*[lambda: [native.capi.call_roll(10) for _ in range(10)]] * 3):
        for counts in roll:
            # A worker's own call runs in it as one of the pool's; a caller's counts extra.
            assert counts[: threads - 1] == [10] * (threads - 1)
            assert 1 <= sum(counts[threads - 1 :]) <= 10


@pytest.mark.parametrize("failing", [0, 1, 3])
def test_broadcast_failing(native, pool_size, failing):
    pool_size(4)
    for _ in range(20):
        with pytest.raises(ValueError, match=f"^{failing}$"):
            native.capi.call_roll(1, failing)
        assert sum(native.capi.call_roll()) == 4


def test_in_a_pool_of_its_own(native):
    with pb.ThreadPool(3) as pool:
        assert sum(pool.install(native.capi.call_roll)) == 3
        assert pool.install(native.capi.scope_tree, 3, 7) == nodes(3, 7)


def test_what_is_spawned_on_top_of_a_wait(native, pool_size, crowd):
    """A task bound to a waiting worker opens a scope, which empties the worker's deque below
    the wait, and then spawns: the new task lay below the mark of what to put away, and
    everybody slept.  The caller is not the main thread, which looks for signals."""
    pool_size(2)
    for _ in range(200):
        assert crowd(native.forks.below_a_wait) == [4]
