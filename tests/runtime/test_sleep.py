"""The sleep protocol: nobody sleeps over a job, and threads start when they are woken."""

import threading

import pytest


@pytest.fixture
def dormitory(native):
    return native.sleep.Dormitory


def test_a_wake_starts_a_thread(native, dormitory):
    d = dormitory(3)
    assert d.fields == (3, 3, 0)
    for k in range(3):
        assert d.wake_any()
        assert sorted(d.started) == list(range(k + 1)), "one at a time, none twice"
        assert d.fields[:2] == (2 - k, 3), "awake, but without work"
    assert d.states == [native.sleep.AWAKE] * 3
    assert not d.wake_any()
    assert not d.wake(1)
    assert len(d.started) == 3


def test_a_thread_that_does_not_start(native, dormitory):
    t = native.sleep
    d = dormitory(3, refuse=0b011)
    assert d.wake_any(), "the third"
    assert d.started == [0, 1, 2]
    assert d.states == [t.DEAD, t.DEAD, t.AWAKE]
    assert d.dead == 2
    assert d.fields[:2] == (0, 1), "the dead are neither asleep nor inactive"
    assert not d.wake_any()
    assert not d.wake(0)
    assert d.started == [0, 1, 2], "it is not tried again"


def test_mail_to_the_dead_is_returned(dormitory):
    d = dormitory(2, refuse=0b01)
    assert d.mail_once(0), "to one that dies of it"
    assert d.counts == (1, 1)
    assert d.mail_once(0), "to one that is dead"
    assert d.counts == (2, 2)
    assert not d.mail_once(1), "to one that starts, and would look"
    assert d.counts == (2, 2)
    assert d.started == [0, 1]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("posters", [1, 3])
def test_stress(dormitory, crowd, workers, posters):
    """Ends only when every job was seen, however posting and falling asleep interleave."""
    jobs = 10_000
    d = dormitory(workers, awake=True)
    done = threading.Barrier(posters, action=d.end)

    def post():
        slept = d.post(jobs // posters)
        done.wait()
        return slept

    results = crowd(*[lambda i=i: d.live(i) for i in range(workers)], *[post] * posters)
    assert 0 < sum(results[:workers]) <= jobs
    assert max(results[workers:]) > 0, "there were sleepers"
    assert d.fields[:2] == (0, 0)


@pytest.mark.parametrize("workers", [1, 3])
def test_stress_mail(dormitory, crowd, workers):
    """Mail is for one worker: only that one can see it."""
    d = dormitory(workers, awake=True)
    done = threading.Barrier(workers, action=d.end)

    def post(i):
        d.post(2_000, i)
        done.wait()

    results = crowd(
        *[lambda i=i: d.live(i) for i in range(workers)],
        *[lambda i=i: post(i) for i in range(workers)],
    )
    assert results[:workers] == [2_000] * workers
    assert d.fields[:2] == (0, 0)


@pytest.mark.parametrize("workers", [1, 3])
def test_end(dormitory, crowd, workers):
    """However deep they sleep or not."""
    for _ in range(100):
        d = dormitory(workers, awake=True)
        crowd(*[lambda i=i, d=d: d.live(i) for i in range(workers)], d.end)
        assert d.fields[:2] == (0, 0)
