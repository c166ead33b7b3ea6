"""Batches of tasks, and tasks that are bound to a worker, through the cimport API."""

import os

import pytest

import pyblitz as pb

SIZES = [1, 2, 3, 8, 64]
CROWDS = [*SIZES, 256, 1000]  # of threads, on however few CPUs
KINDS = {"spawn": 0, "spawn_many": 1, "scope_map": 2}


@pytest.mark.parametrize("threads", SIZES)
@pytest.mark.parametrize("how", KINDS)
def test_smoke(native, pool_size, threads, how):
    pool_size(threads)
    for n in (0, 1, 2, 3, 63, 64, 65, 1000, 100_000):
        assert native.forks.batch(n, KINDS[how]) == (n, n, 0)


@pytest.mark.parametrize("threads", CROWDS)
@pytest.mark.parametrize("how", KINDS)
def test_stress(native, running_pool, crowd, threads, how):
    """From several callers, with tasks that take time; the memory is used again."""
    running_pool(threads)

    def caller():
        return [native.forks.batch(n, KINDS[how], 100, -1, 5) for n in (1, 7, 300, 2000)]

    assert crowd(*[caller] * 4) == [[(n, n, 0) for n in (1, 7, 300, 2000)]] * 4


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("how", KINDS)
def test_failures(native, pool_size, threads, how):
    """None runs twice, and the failing one ran."""
    pool_size(threads)
    for at in (0, 1, 500, 999):
        once, ran, rc = native.forks.batch(1000, KINDS[how], 20, at)
        assert rc == 9
        assert 1 <= once == ran <= 1000


def test_bad_counts(native):
    with pytest.raises(ValueError, match="spawn_many: n must not be negative, not -1"):
        native.forks.batch_of_less_than_none(False)
    with pytest.raises(ValueError, match="scope_map: n must not be negative, not -5"):
        native.forks.batch_of_less_than_none(True)


@pytest.mark.parametrize("threads", [2, 3, 8, 64])
def test_spawn_on(native, pool_size, crowd, threads):
    pool_size(threads)
    for index in {0, (threads - 1) // 2, threads - 2}:
        assert native.forks.on_worker(index, 100) == (100, 0)
    places = [lambda i=i: native.forks.on_worker(i % (threads - 1), 500) for i in range(6)]
    assert crowd(*places) == [(500, 0)] * 6


@pytest.mark.parametrize("index", [-1, 2, 1000])
def test_spawn_on_nobody(native, pool_size, index):
    pool_size(3)
    with pytest.raises(ValueError, match=f"index must be from 0 to 1.*not {index}"):
        native.forks.on_worker(index, 1)
    pool_size(1)
    with pytest.raises(ValueError, match="a pool of one thread has no thread"):
        native.forks.on_worker(0, 1)


def test_spawn_on_a_refused_thread(script):
    """The scope's owner runs what is bound to a thread that the system refuses."""
    out = script("""
import resource, pyblitz as pb, native_forks
pb.set_num_threads(4)
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
# No room for a thread's stack.
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), hard))
print([sum(native_forks.on_worker(i, 10)) for i in range(3)])
""")
    assert out == "[10, 10, 10]\n"
    assert pb.num_threads() >= 1


@pytest.mark.skipif(
    os.environ.get("PYBLITZ_BUILD", "") == "", reason="only debug builds look for it"
)
def test_a_task_published_twice(script):
    done = script("import native_forks; native_forks.publish_twice()", check=False)
    assert done.returncode != 0
    assert "a task is published once at a time" in done.stderr
