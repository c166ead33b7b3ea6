"""Another thread writes what a function reads.

What comes of it is nothing to rely on, as it is of several moments; but nothing is read or
written out of bounds, results hold no memory that was never written, and what nobody wrote
meanwhile is in its place.  Fresh memory is poisoned, so that it tells.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading

import numpy as np
import pytest

import pyblitz as pb

pytestmark = pytest.mark.races

N = 200_000
CALLS = 10
M_PERTURB = -6  # of glibc's mallopt


@pytest.fixture(autouse=True)
def poison():
    """What malloc gives is full of 0xA5, where it is glibc's; a sanitizer has its own."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        yield
        return
    mallopt(M_PERTURB, 0x5A)
    yield
    mallopt(M_PERTURB, 0)


@contextlib.contextmanager
def writing(write):
    """Another thread calls it, again and again."""
    begun, done = threading.Event(), threading.Event()

    def main():
        while not done.is_set():
            write()
            begun.set()

    writer = threading.Thread(target=main)
    writer.start()
    begun.wait()
    try:
        yield
    finally:
        done.set()
        writer.join()


def written(a, *states):
    """One state after another is written over the array, without the GIL."""

    def write():
        for state in states:
            a[...] = state

    return writing(write)


def repeatedly(a, *states):
    """As `written`, of few items: one state after another, in one call without the GIL."""
    lines = np.array(states).reshape(len(states), -1).view(f"V{a.nbytes}")[:, 0]
    lines = np.resize(lines, 4_000_000 // a.size)
    # All of the array is one item, which each line is written over.
    over = np.lib.stride_tricks.as_strided(a.reshape(-1).view(lines.dtype), lines.shape, (0,))
    return written(over, lines)


class Subclass(np.ndarray):
    """As np.memmap is one, which other processes may write, too."""


FORMS = {"array": np.asarray, "subclass": lambda a: a.view(Subclass), "buffer": memoryview}


def assert_orders(a):
    """Of what is written meanwhile: each item once, in groups that have items."""
    everything = np.arange(len(a))
    assert (np.sort(pb.par_argsort(a)) == everything).all()
    groups = pb.par_group_by(a)
    assert (np.sort(groups.order) == everything).all()
    assert groups.counts.sum() == len(a)
    assert (groups.counts > 0).all()


def flickering(a, at, *values):
    """One item is written all the time, so that two looks at it hardly ever agree."""
    values = np.tile(np.array(values, a.dtype), 50_000)
    # As many times as there are values, all in one place.
    item = np.lib.stride_tricks.as_strided(a[at:], values.shape, (0,))

    def write():
        item[...] = values

    return writing(write)


def calls_until(seen, least=CALLS):
    """So many calls, and more until one saw what it is for: which state a call finds is chance."""
    for call in range(100 * least):
        if call >= least and seen:
            return
        yield call
    pytest.fail(f"{100 * least} calls never saw it")


def two_masks():
    """That differ all over, with items that are selected by both, and by neither."""
    rng = np.random.default_rng(0)
    masks = [rng.random(N) < 0.2, rng.random(N) < 0.8]
    for mask in masks:
        mask[::7] = True
        mask[3::7] = False
    return masks


def always_and_ever(masks):
    return masks[0] & masks[1], masks[0] | masks[1]


WIDE = ["i4", "f8", "c16", "i4,i2", "i8,i8,i8"]
EVERY = ["u1", "i2", *WIDE]


def numbered(dtype):
    """Items that are no poison, and all different where the type is wide enough."""
    numbers = np.arange(N) % {"u1": 100, "i2": 30_000}.get(dtype, N)
    a = np.zeros(N, dtype)
    if a.dtype.names:
        for name in a.dtype.names:
            a[name] = numbers % 30_000
        a["f0"] = numbers
    else:
        a[...] = numbers
    return a


def numbers_of(a):
    """The numbers of such items, after a look whether all of each is there."""
    if not a.dtype.names:
        assert not a.imag.any()
        return a.real.astype("i8")
    for name in a.dtype.names[1:]:
        assert (a[name] == a["f0"] % 30_000).all()
    return a["f0"].astype("i8")


def assert_of(got, states):
    """Nothing but bytes that were there in one of the states.  None of these has a negative
    number, as poison is; a copy of memory may tear even a word."""
    got, states = np.asarray(got), [np.asarray(state) for state in states]
    if got.dtype.names:
        for name in got.dtype.names:
            assert_of(got[name], [state[name] for state in states])
        return
    part = {"S": "u1", "U": "u4", "c": "f8", "M": "i8", "b": "u1"}.get(got.dtype.kind)
    if part:
        got, states = got.view(part), [state.view(part) for state in states]
    most = max(int(state.max()) for state in states)
    # Of a float that has the first bytes of one and the rest of another the exponent is greater.
    assert got.min() >= 0
    assert float(got.max()) < (2.0**40 if got.dtype.kind == "f" else 1 << most.bit_length())


# ---- masks


@pytest.mark.parametrize("dtype", EVERY)
def test_filter(dtype):
    a = numbered(dtype)
    masks = two_masks()
    always, ever = always_and_ever(masks)
    mask = masks[0].copy()
    with written(mask, *masks):
        for _ in range(CALLS):
            got = numbers_of(pb.par_filter(a, mask))
            assert always.sum() <= got.size <= ever.sum()
            assert 0 <= got.min() <= got.max() < N
            if dtype in WIDE:
                assert_selected(got, always, ever)


def assert_selected(at, always, ever):
    """Each once, in their order; those that all states select, and none that no state does."""
    assert (np.diff(at) > 0).all()
    assert ever[at].all()
    found = np.zeros(N, bool)
    found[at] = True
    assert found[always].all()


@pytest.mark.parametrize("dtype", EVERY)
def test_partition_by(dtype):
    a = numbered(dtype)
    masks = two_masks()
    mask = masks[0].copy()
    with written(mask, *masks):
        for _ in range(CALLS):
            yes, no = map(numbers_of, pb.par_partition_by(a, mask))
            counts = np.bincount(np.concatenate([yes, no]))
            assert (counts == np.bincount(numbers_of(a))).all()


@pytest.mark.parametrize("find", [pb.par_flatnonzero, lambda m: pb.par_where(m)[0]])
def test_flatnonzero(find):
    masks = two_masks()
    always, ever = always_and_ever(masks)
    mask = masks[0].copy()
    with written(mask, *masks):
        for _ in range(4 * CALLS):
            assert_selected(find(mask), always, ever)


@pytest.mark.parametrize("at", [10, N // 2, N - 1])
def test_one_item_of_the_mask(at):
    a = numbered("i8")
    mask = np.arange(N) % 3 == 0
    always, ever = mask.copy(), mask.copy()
    always[at], ever[at] = False, True
    with flickering(mask, at, False, True):
        for _ in range(CALLS):
            assert_selected(pb.par_filter(a, mask), always, ever)
            assert_selected(pb.par_flatnonzero(mask), always, ever)
            yes, no = pb.par_partition_by(a, mask)
            assert (np.sort(np.concatenate([yes, no])) == a).all()
            assert_selected(yes, always, ever)


def test_nonzero_in_two_dimensions():
    mask = np.zeros((400, N // 400), bool)
    mask[:, ::3] = True
    ever = mask.copy()
    ever[200, 0] = True
    with flickering(mask.reshape(-1), 200 * mask.shape[1], False, True):
        for _ in range(20 * CALLS):
            rows, columns = pb.par_where(mask)
            assert ever[rows, columns].all()
            assert (np.diff(rows * mask.shape[1] + columns) > 0).all()


def test_lazy_filter():
    a = numbered("i8")
    masks = two_masks()
    mask = masks[0].copy()
    with written(mask, *masks):
        for _ in range(CALLS):
            assert_selected(pb.par_iter(a)[mask].collect(), *always_and_ever(masks))


@pytest.mark.parametrize(
    "select",
    [pb.par_filter, lambda a, mask: pb.par_iter(a).filter(mask).collect()],
    ids=["now", "lazily"],
)
def test_filter_of_a_few(select):
    """What a mask selects is counted before it is taken."""
    a = np.arange(2000)
    masks = [a % 3 == 0, a % 2 == 1]
    mask = masks[0].copy()
    with repeatedly(mask, *masks):
        for _ in range(100 * CALLS):
            got = select(a, mask)
            assert (np.diff(got) > 0).all()
            assert (masks[0] | masks[1])[got].all()


def test_lazy_filter_of_two():
    """Each was once kept by a look of its own at the mask, and the second said how many."""
    a, b = numbered("c16"), numbered("f8")
    mask = np.arange(N) % 3 == 0
    with flickering(mask, N // 2, False, True):
        for _ in range(10 * CALLS):
            x, y, _ = pb.par_iter(a).zip(b, mask).filter(lambda x, y, wanted: wanted).collect()
            assert x.size == y.size
            for kept in (x.real, y):
                assert (np.diff(kept) > 0).all()
                assert 0 <= kept[0] <= kept[-1] < N


def test_counts_and_searches():
    masks = two_masks()
    always, ever = always_and_ever(masks)
    mask = masks[0].copy()
    with written(mask, *masks):
        for _ in range(CALLS):
            assert always.sum() <= pb.par_count_nonzero(mask) <= ever.sum()
            for find in (pb.par_find_first, pb.par_find_last, pb.par_find_any):
                assert pb.par_any(mask)
                assert find(mask, mask) is not None
            assert 0 <= pb.par_position(mask, mask) <= 7


def test_a_hit_that_goes():
    """Found by vectors, and then looked for by itself: not beyond the mask."""
    mask = np.zeros(N, bool)
    lazy = pb.par_iter(mask).astype(bool)
    with flickering(mask, N - 1, False, True):
        for _ in range(100 * CALLS):
            assert pb.par_position(mask, mask) in (None, N - 1)
            assert lazy.position(True) in (None, N - 1)
            # The item is read once more.
            assert pb.par_find_last(mask[::-1], mask[::-1]) in (None, True, False)


# ---- repeats


@pytest.mark.parametrize("dtype", EVERY)
@pytest.mark.parametrize("states", [(0, 5), (1, 2)])
def test_repeat(dtype, states):
    a = numbered(dtype)
    repeats = np.ones(N, np.int64)
    first, second = np.full(N, states[0]), np.full(N, states[0])
    second[::3] = states[1]
    with written(repeats, first, second):
        for _ in range(CALLS):
            got = pb.par_repeat(a, repeats)
            assert N * first[1] <= got.size <= N * states[1]
            if got.size:
                numbers = numbers_of(got)
                assert 0 <= numbers.min() <= numbers.max() < N
            if dtype in WIDE:
                times = np.bincount(numbers_of(got), minlength=N)
                assert (times[first == second] == first[first == second]).all()


def test_repeat_along_an_axis():
    """Out of bounds once: where items end was not what had been summed up."""
    a = np.arange(60_000).reshape(3, 20_000)
    repeats = np.ones(20_000, np.int64)
    with flickering(repeats, 10_000, 0, 1, 50_000):
        for _ in range(10 * CALLS):
            got = pb.par_repeat(a, repeats, axis=1)
            times = got.shape[1] - 19_999
            assert times in (0, 1, 50_000)
            assert (got[:, :10_000] == a[:, :10_000]).all()
            assert (got[:, 10_000 : 10_000 + times] == a[:, 10_000:10_001]).all()
            assert (got[:, 10_000 + times :] == a[:, 10_001:]).all()


def test_repeats_that_are_negative_for_a_moment():
    a, repeats = np.arange(N), np.ones(N, np.int64)
    with flickering(repeats, N // 2, 1, -1):
        for _ in range(CALLS):
            try:
                got = pb.par_repeat(a, repeats)
            except ValueError:
                continue
            assert np.array_equal(got, a)


# ---- counting


@pytest.mark.parametrize("dtype", ["i2", "u2", "i4", "u4", "i8"])
@pytest.mark.parametrize("weighed", [False, True])
def test_bincount(dtype, weighed):
    """Out of bounds once: items that had been found to be bins were read again."""
    a = np.arange(N, dtype=dtype) % 8
    most = 39 << 8  # of one byte, so that a copy of bytes does not tear it
    # Not one of those that NumPy finds the number of bins by.
    at = N // 2 + 1
    expected = np.bincount(np.delete(a, at))
    weights = np.ones(N) if weighed else None
    with flickering(a, at, 0, most):
        for _ in range(20 * CALLS):
            got = pb.par_bincount(a, weights)
            assert got.sum() == N
            assert got.size in (8, most + 1)
            assert (got[:8] - expected).sum() == (got.size == 8)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [199, 16_001])
@pytest.mark.parametrize("weighed", [False, True])
def test_bincount_of_few(n, weighed, form):
    """Which NumPy counts alone."""
    a = np.arange(n) % 8
    x, weights = FORMS[form](a), np.ones(n) if weighed else None
    with repeatedly(a, a.copy(), a + 60_000) if n < 1000 else written(a, a.copy(), a + 60_000):
        for _ in range(1_000):
            assert pb.par_bincount(x, weights).sum() == n


@pytest.mark.parametrize("weighed", [False, True])
def test_bincount_of_other_numbers(weighed):
    low, high = np.arange(N) % 8, np.arange(N) % 10_000
    a = low.copy()
    weights = np.ones(N) if weighed else None
    with written(a, low, high):
        for _ in range(CALLS):
            got = pb.par_bincount(a, weights)
            assert got.sum() == N
            assert 8 <= got.size <= 1 << 14


@pytest.mark.parametrize("weighed", [False, True])
def test_bincount_of_as_many_bins_as_items(weighed):
    """Which NumPy counts alone: out of bounds once, as it trusts what it has read before."""
    low, high = np.arange(N) % 8, np.arange(N) + 7 * N
    a = low.copy()
    weights = np.ones(N) if weighed else None
    with written(a, low, high):
        for _ in range(20 * CALLS):
            assert pb.par_bincount(a, weights).sum() == N


@pytest.mark.parametrize("dtype", ["i4", "f4", "f8"])
@pytest.mark.parametrize("bins", [50, [0.0, 10.0, 20.0, 100.0]])
def test_histogram(dtype, bins):
    low = np.arange(N).astype(dtype) % 90
    a = low.copy()
    with written(a, low, low * 1000, 50):
        for _ in range(CALLS):
            counts, edges = pb.par_histogram(a, bins, range=(0, 100))
            assert 0 <= counts.min() <= counts.sum() <= N
            # NumPy's own, where the call is left to it.
            with contextlib.suppress(IndexError):
                counts, edges = pb.par_histogram(a, bins)
                assert 0 <= counts.min() <= counts.sum() <= N
                assert edges.size == counts.size + 1


def test_histogram_of_what_is_not_finite_for_a_moment():
    a = np.arange(N, dtype="f8")
    numbers = a.copy()
    with written(a, numbers, np.nan):
        for _ in range(CALLS):
            with contextlib.suppress(ValueError):
                counts, _ = pb.par_histogram(a, 20)
                assert 0 <= counts.min() <= counts.sum() <= N


def test_histogram_by_weights():
    a, weights = np.arange(N) % 100.0, np.ones(N)
    with written(weights, 1, 2):
        for _ in range(CALLS):
            counts, _ = pb.par_histogram(a, 50, range=(0, 100), weights=weights)
            assert N <= counts.sum() <= 2 * N


# ---- partitions


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8", "f4", "f8", "M8[s]"])
def test_partition(dtype):
    rng = np.random.default_rng(1)
    states = [rng.integers(0, 1000, N), rng.integers(0, 1_000_000, N)]
    states = [s.astype(dtype) if dtype != "M8[s]" else s.view(dtype) for s in states]
    a = states[0].copy()
    with written(a, *states):
        for _ in range(CALLS):
            for k in (N // 2, 5):
                got = pb.par_partition(a, k)
                assert_of(got, states)
                assert (got[:k] <= got[k]).all()
                assert (got[k:] >= got[k]).all()
                order = pb.par_argpartition(a, k)
                assert (np.sort(order) == np.arange(N)).all()


@pytest.mark.parametrize("k", [10, N // 3])
@pytest.mark.parametrize("in_order", [True, False])
def test_topk(k, in_order):
    rng = np.random.default_rng(2)
    states = [rng.random(N), rng.random(N) * 9]
    a = states[0].copy()
    rows = a.reshape(50, -1)
    with written(a, *states):
        for _ in range(CALLS):
            values, indices = pb.par_topk(a, k, sorted=in_order)
            assert np.unique(indices).size == k
            assert 0 <= indices.min() <= indices.max() < N
            assert_of(values, states)
            indices = pb.par_topk(rows, 5).indices
            assert 0 <= indices.min() <= indices.max() < rows.shape[1]


# ---- indices


@pytest.mark.parametrize("index", ["i4", "i8"])
@pytest.mark.parametrize("dtype", ["u1", "i8", "i4,i2"])
def test_take(index, dtype):
    a = numbered(dtype)
    good = np.random.default_rng(3).permutation(N).astype(index)
    bad = good.copy()
    bad[1::1000] = np.iinfo(index).max
    bad[2::1000] = np.iinfo(index).min
    at = good.copy()
    refused = []
    with written(at, good, bad):
        for _ in calls_until(refused):
            for mode in ("raise", "wrap", "clip"):
                try:
                    got = numbers_of(pb.par_take(a, at, mode=mode))
                    assert 0 <= got.min() <= got.max() < N
                except IndexError as e:
                    refused.append(e)
                    assert mode == "raise"
            with contextlib.suppress(IndexError):
                rows = pb.par_take(a.reshape(2, -1), at % (N // 2), axis=1)
                assert rows.shape == (2, N)


@pytest.mark.parametrize(("length", "count"), [(N, N), (1_000_000, N), (1_000, 1_000)])
def test_put(length, count):
    """Once a TypeError: there was no bad index any more to be named."""
    room = np.zeros(length + 2000, "i8")
    a = room[1000:-1000]
    good = np.random.default_rng(4).permutation(count)
    bad = good.copy()
    bad[count // 2] = 1 << 40
    at = good.copy()
    refused = []
    with written(at, good, bad) if count == N else repeatedly(at, good, bad):
        for _ in calls_until(refused, 4 * CALLS):
            try:
                pb.par_put(a, at, 7)
            except IndexError as e:
                refused.append(e)
            pb.par_put(a, at, [7, 8], mode="wrap")
            pb.par_put(a, at, [7, 8], mode="clip")
    assert np.isin(a, [0, 7, 8]).all()
    assert not room[:1000].any()
    assert not room[-1000:].any()


def test_put_names_an_index_that_is_good_again():
    """The same, with an array whose index is good whenever it is looked at one by one."""
    a = np.zeros(1_000_000)
    at = np.arange(N)
    states = at.copy(), at.copy()
    states[1][:] = a.size
    said = set()
    with written(at, *states):
        for _ in calls_until(said, 20 * CALLS):
            try:
                pb.par_put(a, at, 7.0)
            except IndexError as e:
                said.add(str(e))
    for text in said:
        assert "out of bounds for axis 0 with size 1000000" in text


def test_searchsorted():
    rng = np.random.default_rng(5)
    row, keys = np.sort(rng.random(N)), rng.random(N)
    rows = row.copy(), rng.random(N), np.full(N, np.nan)
    with written(row, *rows), written(keys, keys.copy(), np.nan, 2.0):
        for _ in range(CALLS):
            for side in ("left", "right"):
                got = pb.par_searchsorted(row, keys, side)
                assert 0 <= got.min() <= got.max() <= N


def test_searchsorted_by_a_sorter():
    """That is beyond the row for a moment: refused, or no place beyond it is read."""
    rng = np.random.default_rng(5)
    row, keys = rng.random(N), rng.random(N)
    order = np.argsort(row)
    sorter = order.copy()
    with written(sorter, order, 7 * N, order, -7 * N):
        for _ in range(CALLS):
            with contextlib.suppress(ValueError):
                got = pb.par_searchsorted(row, keys, sorter=sorter)
                assert 0 <= got.min() <= got.max() <= N


def test_digitize_by_bins():
    """That are in no order for a moment: refused, or a place among them."""
    keys, bins = np.random.default_rng(5).random(N), np.linspace(0, 1, 1000)
    edges = bins.copy()
    with written(edges, bins, bins[::-1], np.resize([0.5, 0.1], bins.size)):
        for _ in range(CALLS):
            with contextlib.suppress(ValueError):
                got = pb.par_digitize(keys, edges)
                assert 0 <= got.min() <= got.max() <= bins.size


# ---- distinct items and members


@pytest.mark.parametrize(
    "dtype", ["?", "u1", "i2", "i4", "i8", "f2", "f4", "f8", "M8[s]", "c16", "S4"]
)
@pytest.mark.parametrize("many", [False, True])
def test_unique(dtype, many):
    rng = np.random.default_rng(6)
    most = 40 if not many else 100 if np.dtype(dtype).itemsize == 1 else 30_000
    states = [rng.integers(0, 20, N), rng.integers(0 if many else 20, most, N)]
    states = [s.view(dtype) if dtype == "M8[s]" else s.astype(dtype) for s in states]
    a = states[0].copy()
    with written(a, *states):
        for _ in range(CALLS // 3):
            assert_of(pb.par_unique(a), states)
            values, first, inverse, counts = pb.par_unique(a, True, True, True)
            assert_of(values, states)
            assert values.size == first.size == counts.size
            assert counts.sum() == N
            assert 0 <= first.min() <= first.max() < N
            assert 0 <= inverse.min() <= inverse.max() < values.size


@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "i8", "f4", "f8"])
def test_isin(dtype):
    rng = np.random.default_rng(7)
    most = 100 if dtype == "u1" else 30_000
    a = rng.integers(0, most, N).astype(dtype)
    members = rng.integers(0, most, N // 2).astype(dtype)
    members[0] = 1
    other = rng.integers(0, 20, members.size).astype(dtype)
    other[0] = 1
    with written(members, members.copy(), other), written(a, a.copy(), 1, 2):
        for _ in range(CALLS):
            got = pb.par_isin(a, members)
            assert np.isin(got.view("u1"), [0, 1]).all()
    a[:] = 1
    assert pb.par_isin(a, members).all()


# ---- orders


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8", "f4", "f8", "c16", "S12", "U5", "i8,f8"])
def test_orders(dtype):
    rng = np.random.default_rng(8)
    n = 70_000
    d = np.dtype(dtype)
    states = []
    for most in (10**9, 50):
        numbers = rng.integers(0, most if d.itemsize > 2 else 50, n)
        state = np.zeros(n, d)
        if d.names:
            state["f0"], state["f1"] = numbers, numbers[::-1]
        else:
            state[...] = numbers.astype(d)
        states.append(state)
    states.append(np.sort(states[0]))
    a = states[0].copy()
    everything = np.arange(n)
    with written(a, *states):
        for _ in range(CALLS // 5):
            assert_of(pb.par_sort(a, stable=True), states)
            assert_orders(a)
            if not d.names:
                assert (np.sort(pb.par_lexsort((a, a[::-1]))) == everything).all()
                ranks = pb.par_rank(a)
                assert 1 <= ranks.min() <= ranks.max() <= n
                assert (np.sort(pb.par_rank(a, "ordinal")) == everything + 1).all()
            keys, places = pb.par_sort_by_key(a, everything)
            assert_of(keys, states)
            assert (np.sort(places) == everything).all()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("dtype", "n"),
    [("u1", 9_999), ("F", 599), *((t, 199) for t in ("?", "u1", "i2", "u2", "f2", "f8", "F"))],
)
def test_orders_of_few(dtype, n, form, full):
    """NumPy's own, which read an item more than once, are given what nobody else writes."""
    rng = np.random.default_rng(9)
    states = rng.integers(0, 60_000, (8, n)).astype(dtype)
    if n == 199:
        states[0], states[1] = 0, 1
    a, everything = states[0].copy(), np.arange(n)
    x, rows = FORMS[form](a), FORMS[form](a.reshape(1, n))
    with repeatedly(a, *states):
        for _ in range(500 if full else 100):
            for order in (
                pb.par_argsort(x),
                pb.par_argsort(rows)[0],
                pb.par_argsort(x, descending=True),
                pb.par_lexsort((x, x)),
                pb.par_sort_by_key(x, everything)[1],
                pb.par_argpartition(x, n // 2),
                pb.par_argpartition(x, [n // 3, n // 2]),
                pb.par_rank(x, "ordinal") - 1,
                pb.par_rank(rows, "ordinal", axis=1)[0] - 1,
            ):
                assert (np.sort(order) == everything).all()


@pytest.mark.parametrize("dtype", ["f8", "D"])
@pytest.mark.parametrize("kth", [20_000, [20_000, 40_000]])
def test_argpartition_of_a_row(kth, dtype):
    """With its pivots gone, NumPy's runs past the end."""
    n = 60_000
    a = (np.random.default_rng(3).random(n) + 1).astype(dtype)
    a[0] = 0
    states = [a.copy()] * 3 + [np.full(n, -1.0)] * 3
    with written(a, *states):
        for _ in range(20 * CALLS):
            assert (np.sort(pb.par_argpartition(a, kth)) == np.arange(n)).all()


@pytest.mark.parametrize(
    ("rows", "n", "dtype"), [(60, 100, "u2"), (600, 100, "u2"), (60, 300, "f4")]
)
def test_orders_of_rows(rows, n, dtype):
    """By NumPy, alone or in parts; or by vectors."""
    states = np.random.default_rng(5).integers(1, 60_000, (3, rows, n)).astype(dtype)
    states[0], states[0, :, 0], states[1] = 50_000, 0, 0
    a = states[0].copy()
    with repeatedly(a, *states):
        for _ in range(20 * CALLS):
            for order in (
                pb.par_rank(a, "ordinal", axis=1) - 1,
                pb.par_argpartition(a, 30, axis=1),
            ):
                assert (np.sort(order) == np.arange(n)).all()


@pytest.mark.parametrize("form", FORMS)
def test_choices_of_few(form):
    """Masks that are counted, and read again."""
    n = 4_000
    states = np.array([np.zeros(n, bool), np.ones(n, bool), np.arange(n) % 3 == 0])
    mask, a = states[0].copy(), np.arange(n)
    x = FORMS[form](mask)
    with repeatedly(mask, *states):
        for _ in range(2_000):
            for chosen in (
                pb.par_filter(a, x),
                pb.par_filter(a.view(Subclass), x),
                np.sort(np.concatenate(pb.par_partition_by(a, x))),
                pb.par_flatnonzero(x),
                *pb.par_where(x),
            ):
                assert (np.diff(chosen) > 0).all()
                assert chosen.size == 0 or 0 <= chosen[0] <= chosen[-1] < n


@pytest.mark.parametrize("form", FORMS)
def test_repeats_and_segments_of_few(form):
    n = 3_000
    a = np.ones(n)
    repeats = np.ones(n, int)
    with repeatedly(repeats, repeats.copy(), repeats * 50):
        for _ in range(500):
            assert (pb.par_repeat(a, FORMS[form](repeats)) == 1).all()
    starts = np.arange(0, n, 2)
    x = FORMS[form](starts)
    with repeatedly(starts, starts.copy(), starts + 10**9):
        for _ in range(2_000):
            with contextlib.suppress(IndexError):
                assert (pb.par_reduceat(np.add, a, x) <= n).all()


def test_numbers_that_were_in_order():
    """Found to ascend, and then written over: what ties is looked for in words that are not."""
    states = np.arange(N) // 50, np.arange(N)[::-1] // 70
    a, b = states[0].copy(), np.arange(N) % 3
    everything = np.arange(N)
    with written(a, *states):
        for _ in range(CALLS):
            assert (np.sort(pb.par_lexsort((b, a))) == everything).all()
            assert (np.sort(pb.par_argsort(a, descending=True)) == everything).all()


def test_few_distinct_numbers():
    """They are counted, as others than those whose range was looked for."""
    rng = np.random.default_rng(8)
    states = [rng.integers(0, most, N) for most in (1000, 7, 10**6)]
    states += [states[0] - 10**9, np.full(N, -5)]
    a = states[0].copy()
    with written(a, *states):
        for _ in range(CALLS):
            assert_orders(a)


def test_few_values():
    """They are numbered, and then ranked by items that may be others by then."""
    rng = np.random.default_rng(9)
    states = [rng.integers(0, 700, N) * 10**16, rng.integers(0, 7, N) * -(10**17)]
    a = states[0].copy()
    with written(a, *states):
        for _ in range(CALLS):
            assert_orders(a)


@pytest.mark.parametrize("dtype", ["i4", "f8", "S6"])
def test_merge(dtype):
    a, b = numbered(dtype), numbered(dtype)
    falling = a[::-1].copy()
    with written(a, a.copy(), falling), written(b, falling, b.copy()):
        for _ in range(CALLS):
            got = pb.par_merge(a, b)
            assert got.size == 2 * N
            assert_of(got, [falling])
            assert pb.par_is_sorted(a) in (True, False)


# ---- one pass and two of running results


@pytest.mark.parametrize("dtype", ["i8", "f8"])
def test_scans_and_extremes(dtype):
    a = np.ones(N, dtype)
    with written(a, 1, 2):
        for _ in range(CALLS):
            sums = pb.par_cumsum(a)
            assert sums.min() >= 1
            assert sums.max() <= 4 * N
            assert 0 <= pb.par_argmax(a) < N
            assert 0 <= pb.par_argmin(a) < N
            assert pb.par_minmax(a)[0] in (1, 2)


def test_reduceat_by_indices():
    """That are beyond the row for a moment: refused, or sums of what is in it."""
    a, starts = np.ones(N), np.arange(0, N, 10)
    indices = starts.copy()
    with written(indices, starts, 7 * N, starts, -1):
        for _ in range(CALLS):
            with contextlib.suppress(IndexError):
                got = pb.par_reduceat(np.add, a, indices)
                assert 1 <= got.min() <= got.max() <= N


def test_moments_and_products():
    a, ones = np.ones(N), np.ones(N)
    with written(a, 1, 3):
        for _ in range(CALLS):
            assert 1 <= pb.par_mean(a) <= 3
            assert 0 <= pb.par_std(a) <= 2
            assert N <= pb.par_dot(a, ones) <= 3 * N
            assert pb.par_all(a)
