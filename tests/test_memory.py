"""Results begin on a cache line where that is faster; otherwise their memory is as NumPy's."""

import gc
import tracemalloc

import numpy as np
import pytest
from numpy._core.multiarray import get_handler_name

import pyblitz as pb

N = 65536  # doubles: 512 KB


def results(n=N):
    a = np.random.default_rng(0).random(n)
    f = np.asfortranarray(a.reshape(2, -1))
    return [
        (pb.par_map(np.exp, a), np.exp(a)),
        (pb.par_map(np.exp, f), np.exp(f)),
        (pb.par_where(a > 0.5, a, -a), np.where(a > 0.5, a, -a)),
        ((pb.par_iter(a) * 2 + 1).collect(), a * 2 + 1),
        ((pb.par_iter(f) * 2).collect(), f * 2),
    ]


def test_results_begin_on_a_cache_line(pool_size):
    pool_size(2)  # NumPy is not asked to do it alone
    ours = 0
    for got, expected in results():
        np.testing.assert_array_equal(got, expected, strict=True)
        assert got.strides == expected.strides
        ours += get_handler_name(got if got.base is None else got.base) == "pyblitz_cache_lines"
        assert got.ctypes.data % 64 == 0 or get_handler_name(got) == "default_allocator"
    assert ours >= 2  # NumPy may have done others alone
    # NumPy's own are as they were.
    assert get_handler_name() == get_handler_name(np.empty(N)) == "default_allocator"


@pytest.mark.parametrize("n", [100, 600_000])
def test_small_and_large_ones_are_numpys(n):
    for got, expected in results(n):
        np.testing.assert_array_equal(got, expected, strict=True)
        owner = got if got.base is None else got.base
        assert get_handler_name(owner) == "default_allocator"


@pytest.mark.parametrize("more", [1, N // 2, 5 * N])
def test_they_are_resized(more, pool_size):
    pool_size(2)
    ours = [r for r in results() if get_handler_name(r[0]) == "pyblitz_cache_lines"]
    assert ours
    for got, expected in ours:
        if got.ndim == 1:
            for n in (N + more, N - more if more < N else 10, 0, N):
                kept = min(got.size, n)
                got.resize(n, refcheck=False)
                np.testing.assert_array_equal(got[:kept], expected[:kept])
                expected = np.r_[expected[:kept], np.zeros(n - kept)]
                np.testing.assert_array_equal(got, expected)
                assert n == 0 or got.ctypes.data % 64 == 0


def test_memory_errors_leave_numpys_allocator():
    huge = np.broadcast_to(np.float64(1), (1 << 40,))
    with pytest.raises(MemoryError):
        pb.par_map(np.add, huge, huge)
    assert get_handler_name(np.empty(N)) == "default_allocator"


def test_they_are_given_back(pool_size):
    pool_size(2)
    a = np.ones(N)
    pb.par_map(np.exp, a)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = [pb.par_map(np.exp, a) for _ in range(50)]
        held, _ = tracemalloc.get_traced_memory()
        assert held - before >= 50 * a.nbytes
        del kept
        after, _ = tracemalloc.get_traced_memory()
        assert after - before < 10_000
    finally:
        tracemalloc.stop()
