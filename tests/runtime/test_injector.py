"""The injector: any thread adds, a consumer takes all, in order of arrival."""

import pytest


def test_smoke(native):
    q = native.injector.Queue(6)
    assert not q.has_jobs()
    assert q.take() == []
    q.push(3)
    q.push(1)
    assert q.has_jobs()
    assert q.take() == [3, 1]
    assert not q.has_jobs()
    q.push(0)
    q.push_chain(2, 5)
    q.push(5)
    assert q.take() == [0, 2, 3, 4, 5]
    assert q.take() == []


@pytest.mark.parametrize("chain", [1, 10])
def test_spsc(native, crowd, chain):
    q = native.injector.Queue(1_000_000)
    _, (taken, disorder) = crowd(lambda: q.produce(0, chain), q.consume)
    assert (taken, disorder) == (1_000_000, 0)
    assert q.taken_once() == q.n


def test_stampede(native, crowd):
    q = native.injector.Queue(100_000)
    q.produce(0)
    taken = crowd(*[q.consume] * 4)
    # All of them at once, to one.
    assert sorted(t for t, _ in taken) == [0, 0, 0, 100_000]


@pytest.mark.parametrize("producers", [2, 4])
@pytest.mark.parametrize("consumers", [1, 3])
@pytest.mark.parametrize("chain", [1, 5])
def test_stress(native, crowd, producers, consumers, chain):
    q = native.injector.Queue(500_000 * producers, producers)
    work = [lambda p=p: q.produce(p, chain) for p in range(producers)]
    results = crowd(*work, *[q.consume] * consumers)[producers:]
    assert sum(taken for taken, _ in results) == q.n
    assert [disorder for _, disorder in results] == [0] * consumers
    assert q.taken_once() == q.n
