"""Lazy forks, futures on the stack and ticks, through the cimport API."""

import pytest

SIZES = [1, 2, 3, 8, 64]
CROWDS = [*SIZES, 256, 1000]  # of threads, on however few CPUs
LAZY, EAGER, MIXED, FUTURES, LOOPS = range(5)


@pytest.mark.parametrize("threads", SIZES)
@pytest.mark.parametrize("kind", range(5))
def test_smoke(native, pool_size, threads, kind):
    pool_size(threads)
    for depth in (0, 1, 2, 10):
        assert native.forks.grow(depth, kind) == (2**depth, 0)


@pytest.mark.parametrize("threads", CROWDS)
@pytest.mark.parametrize("kind", range(5))
def test_stress(native, running_pool, crowd, threads, kind):
    """Leaves of several lengths, so that beats fall everywhere; several callers."""
    running_pool(threads)

    def caller():
        return [native.forks.grow(11, kind, steps) for steps in (0, 40, 300, 1000)]

    assert crowd(*[caller] * 4) == [[(2**11, 0)] * 4] * 4


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize("python", [False, True])
def test_failures(native, pool_size, threads, kind, python):
    """Of the leaf, whether it was stolen or not; the pool goes on working."""
    pool_size(threads)
    for at in (0, 1, 700, 1023):
        for steps in (0, 2000):
            if python:
                with pytest.raises(ValueError, match=f"^{at}$"):
                    native.forks.grow(10, kind, steps, at, True)
            else:
                assert native.forks.grow(10, kind, steps, at)[1] == 7
    assert native.forks.grow(10, kind) == (1024, 0)


@pytest.mark.parametrize("threads", [2, 8])
@pytest.mark.parametrize("how", ["eager", "lazy", "future"])
def test_a_sibling_starts_while_a_long_leaf_runs(native, pool_size, threads, how):
    """The leaf ends only when its sibling has started, or after 20 s."""
    pool_size(threads)
    for _ in range(20):
        ns, rc = native.forks.sibling_ns(["eager", "lazy", "future"].index(how), 20_000_000_000)
        assert ns < 20_000_000_000
        assert rc == 0, "another worker ran it"


def test_misuse(native, pool_size):
    pool_size(2)
    with pytest.raises(RuntimeError, match="join_lazy: w is NULL"):
        native.forks.lazy_without_worker()
    with pytest.raises(RuntimeError, match="fork: w is NULL"):
        native.forks.fork_without_worker()
    for how in range(3):
        with pytest.raises(RuntimeError, match="try_join: f is not the newest fork"):
            native.forks.misuse(how)
        assert native.forks.grow(8, FUTURES) == (256, 0), "nothing is lost"
    assert native.forks.tick_nobody()


def test_promoted_forks_are_joined_in_order(native, pool_size):
    """try_join of the older of two promoted forks took back the newer one: the older ran
    twice, and the newer was waited for for ever.  (In a pool of one, nobody steals them.)"""
    pool_size(1)
    with pytest.raises(RuntimeError, match="try_join: f is not the newest fork"):
        native.forks.misuse_promoted()
    assert native.forks.grow(8, FUTURES) == (256, 0)


@pytest.mark.parametrize("membarrier", ["0", "1"])
def test_either_fence(script, membarrier):
    """The same programs with the full fence in every pop, and without where the system can."""
    out = script(
        """
import pyblitz as pb, native_forks
for threads in (2, 8):
    pb.set_num_threads(threads)
    for kind in range(5):
        for depth in (4, 14):
            assert native_forks.grow(depth, kind, 20) == (2**depth, 0)
print("done")
""",
        env={"PYBLITZ_MEMBARRIER": membarrier},
    )
    assert out == "done\n"


@pytest.mark.parametrize(
    ("which", "name"),
    list(enumerate(["try_join", "spawn", "spawn_many", "scope_map", "spawn_on"])),
)
def test_null_is_no_worker(native, pool_size, which, name):
    pool_size(2)
    with pytest.raises(RuntimeError, match=f"{name}: w is NULL, which is no worker"):
        native.forks.call_without_worker(which)
    assert native.forks.grow(8, FUTURES) == (256, 0)
