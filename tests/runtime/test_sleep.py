"""The sleep protocol: nobody sleeps over a job, and threads start when they are woken."""

import os
import threading

import pytest

from pyblitz.host.config import spin_microseconds


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


US, MS = 1_000, 1_000_000


def test_spinning_while_it_pays(native):
    """After a sleep that spinning would have saved; half as long after each time in vain."""
    events = [
        ("looks", 9, 0, US),  # not before it has slept
        ("slept", 300 * US, MS),
        ("slept", 150 * US, 2 * MS),
        ("looks", 999, 3 * MS, US),
        ("slept", 300 * US, 4 * MS),
        ("looks", 999, 5 * MS, US),
        ("finds", 20, 6 * MS, US, US),  # it paid
        *[("looks", 999, k * MS, US) for k in range(7, 13)],
        ("slept", 199 * US, 20 * MS),
    ]
    expected = [0, 0, 200 * US, 200, 100 * US, 100, 20, 200, 100, 50, 25, 13, 0, 200 * US]
    assert native.sleep.spins(200 * US, events) == expected
    assert not any(native.sleep.spins(0, events))


def test_no_spinning_where_others_want_the_cpu(native):
    """Two looks that come late, for they ran; and for a while after the second."""
    events = [
        ("slept", 50 * US, MS),
        ("looks", 9, 2 * MS, 199 * US),
        ("looks", 9, 3 * MS, 201 * US),
        ("looks", 9, 4 * MS, US),
        ("slept", 50 * US, 5 * MS),
        ("looks", 9, 6 * MS, 201 * US),
        ("slept", 50 * US, 7 * MS),
        *[("wish", (70 + k) * MS // 10, (70 + k) * MS // 10 + 9) for k in range(20)],
        ("slept", 50 * US, 256 * MS),
        ("slept", 50 * US, 257 * MS),
        ("looks", 999, 258 * MS, US),
    ]
    expected = [200 * US, 2, 1, 0, 200 * US, 1, 0, *[False] * 20, 0, 200 * US, 200]
    assert native.sleep.spins(200 * US, events) == expected


@pytest.mark.parametrize(("later", "spins"), [(199 * US, 200 * US), (MS, 0), (51 * MS, 200 * US)])
def test_once_is_not_often(native, later, spins):
    """The host had the CPU, or all CPUs at once."""
    events = [
        ("slept", 50 * US, MS),
        ("looks", 9, 2 * MS, 201 * US),
        ("slept", 50 * US, 2 * MS + 202 * US),
        ("looks", 9, 2 * MS + later, 201 * US),
        ("slept", 50 * US, 2 * MS + 202 * US + later),
    ]
    assert native.sleep.spins(200 * US, events) == [200 * US, 1, 200 * US, 1, spins]


def test_several_that_come_late_are_once(native):
    """And the next one, that is later than the first of them, is the second time."""
    events = [("slept", 50 * US, MS)]
    for begun in (2 * MS, 2 * MS + 150 * US, 2 * MS + 300 * US):
        events += [("looks", 9, begun, 201 * US), ("slept", 50 * US, begun + 202 * US)]
    assert native.sleep.spins(200 * US, events) == [200 * US, 1, 200 * US, 1, 200 * US, 1, 0]


def test_work_that_is_found_late_was_not_found_by_spinning(native):
    """Others had the CPU meanwhile: it stops, and the second time so do all who would begin."""
    events = [
        ("slept", 50 * US, MS),
        ("finds", 20, 2 * MS, US, 201 * US),
        ("looks", 9, 3 * MS, US),
        ("slept", 50 * US, 4 * MS),
        ("finds", 20, 5 * MS, US, 201 * US),
        ("slept", 50 * US, 6 * MS),
        ("slept", 50 * US, 300 * MS),
        ("wanted", 0, 300 * MS),
        ("looks", 9, 301 * MS, US),
        ("looks", 9, 551 * MS, US),
    ]
    found = native.sleep.spins(200 * US, events)
    assert found == [200 * US, 20, 0, 200 * US, 20, 0, 200 * US, 0, 9]


def test_wishes_wake_one(native):
    """After eight in a row that spinning would have met, and after twice as many each time until it
    has paid; once for a piece of work, however often it asks."""
    start, far = 10 * MS, 300 * US

    def wishes(n, start, gap):
        return [("wish", start + k * gap, start + k * gap + 5) for k in range(n)]

    def woken(events):
        found = native.sleep.spins(200 * US, events)
        return [
            i
            for i, (event, is_so) in enumerate(zip(events, found, strict=True))
            if event[0] == "wish" and is_so
        ]

    assert woken(wishes(60, start, 50 * US)) == [8, 24, 56]
    assert woken(wishes(60, start, far)) == []
    assert woken(wishes(8, start, 50 * US) + wishes(9, 2 * start, 50 * US)) == [16]
    assert woken([("wish", start, start + k) for k in range(60)]) == []
    paid = [("slept", 0, 5 * start), ("finds", 1, 5 * start, US, US)]
    assert woken(wishes(9, start, 50 * US) + paid + wishes(9, 6 * start, 50 * US)) == [8, 19]
    many = woken(wishes(9_000, start, 50 * US))
    assert many[-1] - many[-2] == 1024


def test_wishes_that_follow_each_other_soon(native):
    """Also where nobody spins, or somebody else wants the CPU."""
    begun = [10 * MS, 10 * MS + 150 * US, 10 * MS + 340 * US, 10 * MS + 545 * US, 20 * MS]
    events = [("wish again", start, start + 5 * US) for start in begun]
    # The same one a second time, and one that began before the last.
    events += [("wish again", 20 * MS, 20 * MS + 9 * US), ("wish again", 19 * MS, 20 * MS + 9 * US)]
    for spin in (0, 200 * US):
        for wanted in ([], [("wanted", 0, 10 * MS)]):
            found = native.sleep.spins(spin, wanted + events)
            assert found == [False, True, True, False, False, False, False]


QUIET = """
import os
import resource
import time
import numpy as np
import pyblitz as pb


def busy():
    '''CPU seconds of this machine, how many of them are this process, and how often a CPU was taken
    from it.'''
    with open("/proc/stat") as file:
        user, nice, system, _, _, *rest = map(int, file.readline().split()[1:9])
    of_all = (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")
    return of_all, time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


TAKEN = 20    # a quiet machine takes a CPU away 3 to 8 times, one with others at work 150 and more


def quiet_runs(run, n, share=0.02, taken=TAKEN):
    '''What up to n runs give, of those in which, and in the 0.3 s before which, others had at most
    this share of a CPU: who is kept from one twice does not spin for 0.25 s.  None begins after
    20 s.'''
    end = time.perf_counter() + 20
    for _ in range(n):
        if time.perf_counter() > end:
            return
        began, (all_before, own_before, taken_before) = time.perf_counter(), busy()
        took = 0
        while took < 0.3:
            result = run()
            took = time.perf_counter() - began
        all_after, own_after, taken_after = busy()
        others = all_after - all_before - (own_after - own_before)
        if others < share * took + 0.02 and taken_after - taken_before <= taken:
            yield result


pb.set_num_threads(2)
"""

SLEEPS = (
    QUIET
    + """
a = np.ones(2_000_000)     # more than worth a wake


def sleeps():
    with pb.stats() as seen:
        for _ in range(200):
            pb.par_sum(a)
            end = time.perf_counter() + 3e-4
            while time.perf_counter() < end:
                pass
    return sum(w.sleeps for w in seen.workers if w.name[0] == 'p')


found = 'disturbed'
for n in quiet_runs(sleeps, 20):
    found = 'often' if n > 100 else 'seldom'
    if (found == 'often') == (os.environ["PYBLITZ_SPIN"] == "0"):
        break
print(found)
"""
)


needs_cpus = pytest.mark.skipif(
    spin_microseconds(2) == 0 or not os.path.exists("/proc/stat"),
    reason="threads spin where each has a CPU of its own",
)


@pytest.mark.alone
@needs_cpus
@pytest.mark.parametrize(("spin", "expected"), [("0", "often"), ("5000", "seldom")])
def test_threads_spin_between_calls(script, spin, expected):
    """They sleep in less than half of 200 gaps of 0.3 ms, in one of some runs; without spinning,
    in more."""
    found = script(SLEEPS, env={"PYBLITZ_SPIN": spin}).strip()
    if found == "disturbed":
        pytest.skip("others used the CPUs all the while, and nobody spins there")
    assert found == expected


SHORT = (
    QUIET
    + """
a = np.ones(120_000)


def jobs():
    with pb.stats() as seen:
        for _ in range(400):
            pb.par_sum(a)
            end = time.perf_counter() + 1e-4
            while time.perf_counter() < end:
                pass
    return sum(w.jobs for w in seen.workers if w.name[0] == 'p')


most = -1
for n in quiet_runs(jobs, 20):
    most = max(most, n)
    if most > 40:
        break
print(most)
"""
)


@pytest.mark.alone
@needs_cpus
def test_calls_too_short_for_a_wake_are_shared_by_who_spins(script):
    """10 us of work each 0.1 ms, 400 times, in the best of some runs.  Without spinning, 0 are."""
    most = int(script(SHORT, env={"PYBLITZ_SPIN": "2000"}))
    if most < 0:
        pytest.skip("others used the CPUs all the while, and nobody spins there")
    assert most > 40


@pytest.mark.alone
@needs_cpus
def test_idle_threads_sleep(script):
    """Soon after the last call, however well spinning paid before it.  The main thread does not
    count: where idle memory is taken away, it needs a millisecond to wake up in."""
    source = (
        SLEEPS
        + """
def others():
    return time.process_time() - time.thread_time()
time.sleep(0.1)
before = others()
time.sleep(1)
print((others() - before) * 1e3)
"""
    )
    assert float(script(source, env={"PYBLITZ_SPIN": "5000"}).split()[1]) < 1


APART = (
    QUIET
    + """
import native_runtime


def apart():
    found = 0
    for _ in range(30):
        time.sleep(0.01)    # until it sleeps, and its CPU has halted
        left, right = native_runtime.halves()
        found += left != right
    return found


most = -1
# Halves on one CPU take it from each other; others take it from both where they use more of it.
for n in quiet_runs(apart, 20, share=0.2, taken=1000):
    most = max(most, n)
    if most > 25:
        break
time.sleep(0.01)
everywhere = os.sched_getaffinity(0)
tasks = map(int, os.listdir("/proc/self/task"))
print(most, all(os.sched_getaffinity(task) == everywhere for task in tasks))
"""
)


@pytest.mark.alone
@needs_cpus
def test_who_is_called_in_has_a_cpu_of_its_own(script):
    """In a virtual machine Linux woke it on the caller's, beside an idle one, and both halves of
    what followed took turns there for milliseconds.  Afterwards it may run everywhere again."""
    most, everywhere = script(APART).split()
    assert everywhere == "True"
    if int(most) < 0:
        pytest.skip("others used the CPUs all the while, and nobody has one of its own then")
    assert int(most) > 25


@pytest.mark.alone
@needs_cpus
def test_who_is_woken_keeps_to_the_cpus_that_it_may_have(script):
    """Its own, if they are fewer than the process has."""
    script("""
import os
import time
import pyblitz as pb
import native_runtime

pb.set_num_threads(2)
native_runtime.halves()
one = {min(os.sched_getaffinity(0))}
others = [int(task) for task in os.listdir("/proc/self/task") if int(task) != os.getpid()]
assert others
for task in others:
    os.sched_setaffinity(task, one)
for _ in range(20):
    time.sleep(0.01)
    native_runtime.halves()
    assert all(os.sched_getaffinity(task) == one for task in others)
""")
