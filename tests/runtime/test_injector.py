"""The injector: any thread adds, a consumer takes all, in order of arrival."""

import pytest


def test_smoke(native):
    q = native.injector.Queue(6)
    assert not q.has_jobs()
    assert q.take() == []
    assert q.push(3), "the first"
    assert not q.push(1)
    assert q.has_jobs()
    assert q.take() == [3, 1]
    assert not q.has_jobs()
    assert q.push(0)
    assert q.take() == [0]
    assert q.take() == []


def test_spsc(native, crowd):
    q = native.injector.Queue(1_000_000)
    first, (taken, disorder) = crowd(lambda: q.produce(0), q.consume)
    assert (taken, disorder) == (1_000_000, 0)
    assert first >= 1
    assert q.taken_once() == q.n


def test_stampede(native, crowd):
    q = native.injector.Queue(100_000)
    assert q.produce(0) == 1
    taken = crowd(*[q.consume] * 4)
    # All of them at once, to one.
    assert sorted(t for t, _ in taken) == [0, 0, 0, 100_000]


@pytest.mark.parametrize("producers", [2, 4])
@pytest.mark.parametrize("consumers", [1, 3])
def test_stress(native, crowd, producers, consumers):
    q = native.injector.Queue(500_000 * producers, producers)
    work = [lambda p=p: q.produce(p) for p in range(producers)]
    results = crowd(*work, *[q.consume] * consumers)[producers:]
    assert sum(taken for taken, _ in results) == q.n
    assert [disorder for _, disorder in results] == [0] * consumers
    assert q.taken_once() == q.n
