"""par_filter, par_partition_by, par_take, par_put, par_where, ...: as NumPy does it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from arrays import NUMBERS, arrays, assert_same, values
from hypothesis import given, settings
from hypothesis import strategies as st

import pyblitz as pb

# Of every word that items are moved as, and of none; with parts, and with references.
ITEMS = [
    *NUMBERS,
    "S1",
    "S3",
    "U2",
    "M8[s]",
    ">f8",
    ">i4",
    "S16",
]
SIZES = [0, 1, 7, 8, 9, 1000, 16385, 32769, 100_003, 140_000]
THREADS = [1, 2, 3, 8]


def outcome(f):
    """What a call gives, warns and raises."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = f()
        except Exception as e:
            result = type(e)
    return result, {(str(w.message), w.category) for w in seen}


def check(ours, numpys):
    (got, warned), (expected, should) = outcome(ours), outcome(numpys)
    assert warned == should
    if isinstance(expected, type):
        assert got is expected
    elif isinstance(expected, tuple):
        assert type(got) is tuple
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            assert_same(g, e)
    else:
        assert_same(got, expected)


def mask_of(shape, seed, density):
    """Random, with stretches of one value; density 0 and 1: of that value alone."""
    rng = np.random.default_rng(seed)
    mask = rng.random(shape) < density
    flat = mask.reshape(-1)
    if flat.size > 2000 and 0 < density < 1:
        flat[300:900] = True
        flat[-900:-300] = False
    return mask


masks = st.tuples(st.integers(0, 99), st.sampled_from([0, 0.01, 0.5, 0.99, 1]))


# ---- selection --------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ITEMS)
@pytest.mark.parametrize("n", [0, 7, 1000, 140_001])
@pytest.mark.parametrize("density", [0, 0.003, 0.5, 0.997, 1])
def test_filter_every_item(dtype, n, density):
    a, mask = values(dtype, (n,), 1), mask_of(n, 2, density)
    assert_same(pb.par_filter(a, mask), a[mask])
    yes, no = pb.par_partition_by(a, mask)
    assert_same(yes, a[mask])
    assert_same(no, a[~mask])


@settings(max_examples=150)
@given(arrays(dtypes=tuple(ITEMS)), masks, st.integers(0, 3), st.sampled_from("CFs"))
def test_filter_any_layout(a, mask, depth, layout):
    m = mask_of(a.shape[: max(depth, 1)] if depth else a.shape, *mask)
    if layout == "F":
        m = np.asfortranarray(m)
    elif layout == "s" and m.ndim:
        wide = np.zeros((*m.shape[:-1], 2 * m.shape[-1]), bool)
        wide[..., ::2] = m
        m = wide[..., ::2]
    check(lambda: pb.par_filter(a, m), lambda: a[m])
    check(lambda: pb.par_partition_by(a, m), lambda: (a[m], a[~m]))
    check(lambda: (pb.par_flatnonzero(m),), lambda: (np.flatnonzero(m),))


@pytest.mark.parametrize("n", [10, 1000])
def test_flatnonzero_refuses_a_mask_of_another_shape(n):
    a = np.zeros((n, 2 * n))
    with pytest.raises(
        ValueError, match=rf"an array of shape \({2 * n}, {n}\) for elements of shape"
    ):
        pb.par_flatnonzero(a, a.T == 0)


@pytest.mark.parametrize("row", [1, 2, 3, 5, 16, 40, 1000, 30_000])
def test_filter_rows(row):
    a = np.random.default_rng(0).integers(0, 99, (300_000 // row + 1, row))
    mask = mask_of(len(a), 1, 0.5)
    assert_same(pb.par_filter(a, mask), a[mask])
    assert_same(pb.par_partition_by(a, mask)[1], a[~mask])


def test_any_byte_of_a_mask_but_0_selects():
    bytes_ = np.random.default_rng(0).integers(0, 256, 200_000).astype(np.uint8) * (
        mask_of(200_000, 1, 0.5)
    )
    a = np.arange(200_000)
    expected = np.flatnonzero(bytes_)
    assert_same(pb.par_filter(a, bytes_.view(bool)), expected)
    assert_same(pb.par_flatnonzero(bytes_.view(bool)), expected)


def test_filter_is_not_a_view():
    a = np.zeros(100_000)
    pb.par_filter(a, np.ones(100_000, bool))[:] = 1
    yes, no = pb.par_partition_by(a, np.zeros(100_000, bool))
    no[:] = 1
    assert not a.any()
    assert yes.base is None
    assert no.base is None


@pytest.mark.parametrize("n", [5, 200_000])
def test_filter_refuses(n):
    a = np.arange(n)
    for f in (pb.par_filter, pb.par_partition_by):
        with pytest.raises(IndexError):
            f(a, np.ones(n + 1, bool))
        with pytest.raises(IndexError):
            f(a, np.ones((n, 1), bool))
        with pytest.raises(TypeError, match="expected booleans"):
            f(a, np.ones(n, int))


def test_filter_other_types():
    a, mask = np.arange(300_000.0), mask_of(300_000, 0, 0.5)
    masked = np.ma.array(a, mask=~mask)
    got = pb.par_filter(masked, mask)
    assert type(got) is np.ma.MaskedArray
    np.testing.assert_array_equal(got, masked[mask])
    objects = a.astype(object)
    assert_same(pb.par_filter(objects, mask), objects[mask])
    assert_same(pb.par_filter([1, 2, 3], [True, False, True]), np.array([1, 3]))
    records = np.zeros(100_000, [("x", "f8"), ("y", "i2")])
    records["x"] = a[:100_000]
    assert_same(pb.par_filter(records, mask[:100_000]), records[mask[:100_000]])


def test_nothing_is_written_past_the_end_of_a_block(pool_size):
    """Eight items at a time are stored to both sides, wanted or not, while there is room for
    eight.  Here each block ends with seven of one side and nine of the other; what is stored
    past its end is what another thread has stored there before."""
    at = np.arange(1_000_000)
    a = (at % 251).astype("u1")  # of which 32,768 are a block
    for mask in (at % 16 < 7, at % 16 >= 7, at % 16 >= 9):
        yes, no = a[mask], a[~mask]
        for threads in (2, 3):
            pool_size(threads)
            for _ in range(40):
                got = pb.par_partition_by(a, mask)
                assert np.array_equal(got[0], yes)
                assert np.array_equal(got[1], no)
                assert np.array_equal(pb.par_filter(a, mask), yes)
                assert np.array_equal(pb.par_flatnonzero(mask), at[mask])


@settings(max_examples=100)
@given(arrays(dtypes=(*NUMBERS, ">f8", "M8[s]", "S3")), st.booleans())
def test_flatnonzero_and_nonzero(a, sparse):
    if sparse:
        a = a.copy(order="K")
        a[mask_of(a.shape, 0, 0.9)] = np.zeros((), a.dtype)
    check(lambda: (pb.par_flatnonzero(a),), lambda: (np.flatnonzero(a),))
    check(lambda: pb.par_where(a), lambda: np.where(a))


def test_zero_is_what_numpy_says():
    a = np.array([0.0, -0.0, np.nan, 1e-310, np.inf] * 10_000)
    with np.errstate(all="raise"):
        assert_same(pb.par_flatnonzero(a), np.flatnonzero(a))


# ---- gathering --------------------------------------------------------------


@pytest.mark.parametrize("dtype", ITEMS)
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_take_every_item(dtype, mode):
    a = values(dtype, (5000,), 1)
    bound = 5000 if mode == "raise" else 20_000
    for kind in ("i8", "i4", "i2", "u1", "u4", "?", ">i8"):
        low = 0 if kind[0] == "u" else -bound  # NumPy wraps step by step
        index = np.random.default_rng(0).integers(low, bound, 70_001).astype(kind)
        check(
            lambda index=index: pb.par_take(a, index, mode=mode),
            lambda index=index: np.take(a, index, mode=mode),
        )


@settings(max_examples=150)
@given(arrays(), st.integers(-4, 4), st.sampled_from(SIZES), st.integers(0, 2), st.data())
def test_take_any_axis(a, axis, count, dims, data):
    axis = data.draw(st.sampled_from([None, axis]))
    n = a.size if axis is None else a.shape[axis] if -a.ndim <= axis < a.ndim else 3
    rows = a.size // max(n, 1)
    count = min(count, 3_000_000 // max(rows, 1))
    index = np.random.default_rng(count).integers(-max(n, 1), max(n, 1), count)
    if dims == 2:
        index = index[: count // 6 * 6].reshape(6, -1)[::2]
    check(lambda: pb.par_take(a, index, axis), lambda: np.take(a, index, axis))


@pytest.mark.parametrize("dtype", ["f8", "S3"])
@pytest.mark.parametrize("count", [1, 3, 200, 5000])
def test_take_columns(dtype, count):
    a = values(dtype, (max(60_000 // count, 20), 20), 0)
    index = np.random.default_rng(0).integers(-20, 20, count)
    assert_same(pb.par_take(a, index, axis=1), np.take(a, index, axis=1))


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_take_out(mode):
    a, index = np.arange(50_000.0), np.random.default_rng(0).integers(-9, 50_000, 60_000)
    out = np.empty(60_000)
    assert pb.par_take(a, index, out=out, mode=mode) is out
    assert_same(out, np.take(a, index, mode=mode))
    strided = np.empty(120_000)[::2]
    assert pb.par_take(a, index, out=strided, mode=mode) is strided
    assert_same(strided.copy(), np.take(a, index, mode=mode))


def test_take_into_itself():
    a, index = np.arange(60_000.0), np.random.default_rng(0).integers(0, 60_000, 60_000)
    expected = np.take(a, index)
    pb.par_take(a, index, out=a)
    assert_same(a, expected)
    index2 = index.copy()
    pb.par_take(np.arange(60_000), index2, out=index2)
    assert_same(index2, index)


@pytest.mark.parametrize("n", [100, 50_000])
@pytest.mark.parametrize("at", [0, -1, 31])
@pytest.mark.parametrize("bad", [10**6, -(10**6), 2**62, -(2**63)])
def test_a_bad_index_is_found_before_anything_is_written(n, at, bad):
    a = np.arange(float(n))
    index = np.arange(n)
    index[at] = bad
    out = np.full(n, 7.0)
    for axis in (None, 0):
        with pytest.raises(IndexError, match="out of bounds"):
            pb.par_take(a, index, axis, out)
        with pytest.raises(IndexError, match="out of bounds"):
            pb.par_take(a, index, axis)
    assert (out == 7).all()
    with pytest.raises(IndexError, match="out of bounds"):
        pb.par_put(out, index, a)
    with pytest.raises(IndexError, match="out of bounds"):
        pb.par_put(np.resize(out, 700_000), index, a)
    assert (out == 7).all()


@pytest.mark.parametrize("n", [5, 100_000])
def test_take_refuses(n):
    a, index = np.arange(n), np.zeros(n, int)
    for args in [
        (a, index.astype(float)),
        (a, index.astype("u8")),
        (a, index, 1),
        (a, index, -2),
        (a, index, 0, np.empty(n - 1, int)),
        (a, index, 0, np.empty(n, float)),
        (a, index, 0, None, "nonsense"),
        (a, ["x"] * n),
        (np.empty(0), index),
        (a, index, "x"),
    ]:
        check(lambda args=args: pb.par_take(*args), lambda args=args: np.take(*args))
    out = np.empty(n, int)
    out.flags.writeable = False
    check(lambda: pb.par_take(a, index, None, out), lambda: np.take(a, index, None, out))


# ---- scattering -------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "F", "D", "g", "S3", ">i4", "U7"])
@pytest.mark.parametrize("order", ["random", "rising", "same", "falling", "rising to the end"])
@pytest.mark.parametrize(("count", "threads"), [(1_000, 1), *((100_000, n) for n in THREADS)])
def test_put_the_last_wins(pool_size, dtype, order, count, threads):
    pool_size(threads)
    n = 45 * count // np.dtype(dtype).itemsize
    index = np.random.default_rng(0).integers(-n, n, count)
    if order == "rising":
        index = np.unique(index)
    elif order == "same":
        index[:] = 5
    elif order == "falling":
        index = np.arange(n)[::-1][:count]
    elif order == "rising to the end":
        index = np.arange(count)
        index[-1] = index[-2]
    for v in (values(dtype, (count,), 1), values(dtype, (7,), 2), values(dtype, (), 3)):
        got, expected = np.zeros(n, dtype), np.zeros(n, dtype)
        assert pb.par_put(got, index, v) is None
        np.put(expected, index, v)
        assert_same(got, expected)


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_put_modes_and_layouts(mode):
    bound = 700_000 if mode == "raise" else 3_000_000
    index = np.random.default_rng(0).integers(-bound, bound, 60_000)
    for make in (
        lambda: np.zeros(700_000),
        lambda: np.zeros((700, 1000)),
        lambda: np.zeros((700, 1000), order="F"),
        lambda: np.zeros(1_400_000)[::2],
        lambda: np.zeros(700_000, np.float32),
        lambda: np.zeros(700_000, object),
    ):
        got, expected = make(), make()
        pb.par_put(got, index, np.arange(60_000), mode)
        np.put(expected, index, np.arange(60_000), mode)
        assert_same(got, expected)


@pytest.mark.parametrize("n", [1_000, 700_000])
def test_put_from_itself(n):
    got = np.arange(n)
    expected = got.copy()
    index = np.random.default_rng(0).integers(0, n, n)
    pb.par_put(got, index, got[::-1])
    np.put(expected, index, expected[::-1])
    assert_same(got, expected)
    rising = np.arange(1, n)
    pb.par_put(got, rising, got[:-1])
    np.put(expected, rising, expected[:-1].copy())
    assert_same(got, expected)
    got, expected = index.copy(), index.copy()
    pb.par_put(got, got, 1)
    np.put(expected, expected.copy(), 1)
    assert_same(got, expected)


@pytest.mark.parametrize("n", [5, 700_000])
def test_put_refuses(n):
    index = np.zeros(n, int)
    frozen = np.zeros(n)
    frozen.flags.writeable = False
    for args in [
        (np.zeros(n), index.astype(float), 1),
        (np.zeros(n), index, "x"),
        (np.zeros(n), index, 1, "nonsense"),
        (frozen, index, 1),
        ([0.0] * 5, [0], 1),
        (np.zeros(0), index, 1),
        (np.zeros(n), index, []),
        (np.zeros(n), index, 1j),
    ]:
        check(
            lambda args=args: (np.asarray(pb.par_put(*args)),),
            lambda args=args: (np.asarray(np.put(*args)),),
        )
    assert not frozen.any()


# ---- where ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ITEMS)
def test_where_every_item(dtype):
    x, y, c = values(dtype, (70_001,), 1), values(dtype, (70_001,), 2), mask_of(70_001, 3, 0.5)
    for args in [(x, y), (x[:1], y), (x, y[0]), (x[:1], y[:1]), (x[::-1], y)]:
        check(lambda args=args: pb.par_where(c, *args), lambda args=args: np.where(c, *args))
        check(lambda args=args: pb.par_where(x, *args), lambda args=args: np.where(x, *args))


@settings(max_examples=200)
@given(
    arrays(dtypes=("?", "i4", "f8")),
    arrays(),
    st.sampled_from([0, 1.5, 2j, True, np.float32(2), 300, -1, [1.5]]),
    st.booleans(),
)
def test_where_broadcast_and_promotion(c, x, y, swap):
    try:
        size = np.prod(np.broadcast_shapes(c.shape, x.shape))
    except ValueError:
        size = 0
    if size > 1_000_000:
        return
    args = (y, x) if swap else (x, y)
    check(lambda: pb.par_where(c, *args), lambda: np.where(c, *args))


@settings(max_examples=100)
@given(arrays(shapes=((70_000,),)), arrays(shapes=((70_000,), (1,), ())), st.integers(0, 9))
def test_where_two_dtypes(x, y, seed):
    c = mask_of(70_000, seed, 0.5)
    check(lambda: pb.par_where(c, x, y), lambda: np.where(c, x, y))


def test_where_layout():
    x = np.asfortranarray(np.random.default_rng(0).random((300, 301)))
    c = x > 0.5
    got = pb.par_where(c, x, 0)
    assert got.flags.f_contiguous
    assert_same(got, np.where(c, x, 0))
    assert_same(pb.par_where(c, x, x.copy(order="C")), x)
    assert_same(pb.par_where(c[:, :1], x, 1), np.where(c[:, :1], x, 1))


def test_where_refuses():
    c = np.ones(100_000, bool)
    for args in [(c, 1), (c, np.zeros(3), 1), (c, "x", np.zeros(100_000)), (c, c, np.array({}))]:
        check(lambda args=args: pb.par_where(*args), lambda args=args: np.where(*args))


# ---- joining ----------------------------------------------------------------


@settings(max_examples=150)
@given(st.lists(arrays(dtypes=("f8", "i4", "F", "?")), min_size=1, max_size=3), st.data())
def test_concatenate(parts, data):
    if data.draw(st.booleans()):
        parts = [parts[0], parts[0][::-1] if parts[0].ndim else parts[0], parts[0]]
    axis = data.draw(st.sampled_from([None, 0, 1, -1, 2]))
    options = data.draw(
        st.sampled_from([{}, {"dtype": "f4"}, {"dtype": "c8", "casting": "unsafe"}])
    )
    check(
        lambda: pb.par_concatenate(parts, axis, **options),
        lambda: np.concatenate(parts, axis, **options),
    )


@pytest.mark.parametrize("dtype", ["u1", "f8", "S3", ">i4"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("order", ["C", "F"])
def test_concatenate_uneven(dtype, axis, order):
    parts = []
    for i, n in enumerate([3, 0, 40, 1, 7]):
        shape = [40, 50, 30]
        shape[axis] = n
        parts.append(np.array(values(dtype, tuple(shape), i), order=order))
    got, expected = pb.par_concatenate(parts, axis), np.concatenate(parts, axis)
    assert_same(got, expected)
    assert got.strides == expected.strides
    assert_same(pb.par_concatenate(tuple(parts), None), np.concatenate(parts, None))


def test_concatenate_many_small():
    parts = np.split(
        np.arange(300_000), np.sort(np.random.default_rng(0).integers(0, 300_000, 9999))
    )
    assert_same(pb.par_concatenate(parts), np.arange(300_000))
    assert_same(pb.par_concatenate([np.arange(100_000), [1, 2]]), np.r_[np.arange(100_000), 1, 2])
    columns = [np.arange(50_000.0)[:, None]] * 3
    assert_same(pb.par_concatenate(columns, 1), np.concatenate(columns, 1))
    stack = np.arange(300_000).reshape(3, 10, -1)
    assert_same(pb.par_concatenate(stack), np.concatenate(stack))


def test_concatenate_layout_is_numpys():
    a = np.arange(120_000).reshape(20, 60, 100).transpose(1, 2, 0)
    for axis in range(3):
        got, expected = pb.par_concatenate([a, a], axis), np.concatenate([a, a], axis)
        assert_same(got, expected)
        assert got.strides == expected.strides


def test_concatenate_out():
    a, b = np.arange(50_000), np.arange(60_000.0)
    out = np.zeros(110_000)
    assert pb.par_concatenate([a, b], out=out) is out
    assert_same(out, np.concatenate([a, b]))
    # NumPy reads what it wrote: so be it.
    got, expected = np.arange(110_000.0), np.arange(110_000.0)
    for f, x in ((pb.par_concatenate, got), (np.concatenate, expected)):
        f([x[60_000:], x[:60_000]], out=x)
    assert_same(got, expected)


@pytest.mark.parametrize("n", [5, 100_000])
def test_concatenate_refuses(n):
    a, b = np.zeros(n), np.zeros((n, 2))
    for args, options in [
        (([a, b],), {}),
        (([b, np.zeros((n, 3))],), {}),
        (([a, a], 1), {}),
        (([a, a], -2), {}),
        (([a, a], "x"), {}),
        (([],), {}),
        ((a,), {}),
        (([a, 1.0],), {}),
        (([a, a], 0, np.zeros(n)), {}),
        (([a, a], 0, np.zeros(2 * n, int)), {}),
        (([a, a], 0, np.zeros(2 * n)), {"dtype": "f8"}),
        (([a, a],), {"dtype": "i4"}),
        (([a, a],), {"casting": "nonsense"}),
        (([a, a], 0, [0]), {}),
    ]:
        check(
            lambda args=args, options=options: pb.par_concatenate(*args, **options),
            lambda args=args, options=options: np.concatenate(*args, **options),
        )
    out = np.full(2 * n, 7)
    with pytest.raises(TypeError):
        pb.par_concatenate([a, a], out=out)
    assert (out == 7).all()


# ---- repetition -------------------------------------------------------------


@settings(max_examples=100)
@given(
    arrays(dtypes=tuple(ITEMS)), st.sampled_from([0, 1, 2, 3, 5, 17]), st.integers(-3, 3), st.data()
)
def test_repeat(a, n, axis, data):
    axis = data.draw(st.sampled_from([None, axis]))
    check(lambda: pb.par_repeat(a, n, axis), lambda: np.repeat(a, n, axis))
    check(lambda: pb.par_repeat(a, [n], axis), lambda: np.repeat(a, [n], axis))
    length = a.size if axis is None else a.shape[axis] if -a.ndim <= axis < a.ndim else 1
    for kind in ("i8", "i4", "u1"):
        counts = np.random.default_rng(n).integers(0, n + 1, length).astype(kind)
        check(
            lambda counts=counts: pb.par_repeat(a, counts, axis),
            lambda counts=counts: np.repeat(a, counts, axis),
        )


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "D", "S3"])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_repeat_a_few_times_each(dtype, n):
    """By a loop for each number; leaves begin in the middle of an item, and end there."""
    for items in (100_000, 100_003, 333_331):
        a = np.arange(items).astype(dtype)
        assert_same(pb.par_repeat(a, n), np.repeat(a, n))
    b = np.arange(300_000).reshape(3, -1).astype(dtype)
    assert_same(pb.par_repeat(b, n, axis=1), np.repeat(b, n, axis=1))


def test_repeat_uneven():
    a = np.arange(100_000)
    counts = np.zeros(100_000, int)
    counts[[0, 777, 99_999]] = 5, 200_000, 3
    assert_same(pb.par_repeat(a, counts), np.repeat(a, counts))
    assert_same(pb.par_repeat(np.arange(2.0), 200_000), np.repeat(np.arange(2.0), 200_000))


@pytest.mark.parametrize("n", [5, 50_000])
def test_repeat_refuses(n):
    a = np.zeros(n)
    negative = np.ones(n, int)
    negative[3] = -1
    for args in [
        (a, -1),
        (a, 1.5),
        (a, negative),
        (a, np.ones(n + 1, int)),
        (a, np.ones((n, 1), int)),
        (a, 2, 1),
        (a, 2, "x"),
        (a, np.ones(n)),
    ]:
        check(lambda args=args: pb.par_repeat(*args), lambda args=args: np.repeat(*args))


def test_concatenate_chooses_numpys_dtype():
    """Python's numbers are weak, and records are packed."""
    a = np.ones(400_000, "f4")
    assert_same(pb.par_concatenate([a, 2.0], axis=None), np.concatenate([a, 2.0], axis=None))
    padded = np.zeros(100_000, {"names": ["x"], "formats": ["i4"], "offsets": [8], "itemsize": 12})
    padded["x"] = np.arange(100_000)
    assert_same(pb.par_concatenate([padded, padded]), np.concatenate([padded, padded]))


# ---- copies -----------------------------------------------------------------


@settings(max_examples=200)
@given(
    arrays(dtypes=tuple(ITEMS)),
    st.sampled_from([None, "f4", "i2", "c16", "?", ">f8", "S4"]),
    st.sampled_from("KCFA"),
)
def test_copy(a, dtype, order):
    got = outcome(lambda: pb.par_copy(a, order, dtype=dtype))[0]
    expected = outcome(lambda: np.array(a, dtype, order=order))[0]
    check(lambda: pb.par_copy(a, order, dtype=dtype), lambda: np.array(a, dtype, order=order))
    if isinstance(got, np.ndarray):
        assert not np.may_share_memory(got, a) or not a.size
        # Where an axis of one element lies is nobody's business.
        long = [d for d, n in enumerate(a.shape) if n > 1]
        assert [got.strides[d] for d in long] == [expected.strides[d] for d in long] or not a.size
    check(lambda: pb.par_flatten(a, order), lambda: a.flatten(order))


@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_flatten_what_is_repeated_as_it_lies_in_memory(axes, pool_size):
    """An axis of stride 0 lies nowhere: NumPy leaves it where it is."""
    pool_size(2)
    a = np.broadcast_to(np.arange(3000.0).reshape(30, 1, 100), (30, 66, 100)).transpose(axes)
    assert_same(pb.par_flatten(a, "K"), a.flatten("K"))


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "D", "S3"])
@pytest.mark.parametrize(
    "shape",
    [
        (512, 512),
        (300, 701),
        (2, 70_000),
        (70_000, 2),
        (5, 30_000),
        (40, 50, 60),
        (3, 2, 9, 70, 80),
    ],
)
def test_copy_between_orders(dtype, shape):
    a = values(dtype, shape, 0)
    assert_same(pb.par_copy(a.T, order="C"), np.array(a.T, order="C"))
    assert_same(pb.par_copy(a, order="F"), np.array(a, order="F"))
    axes = np.random.default_rng(1).permutation(a.ndim)
    b = a[::-1, ::-1].transpose(axes)
    assert_same(pb.par_copy(b, order="C"), np.array(b, order="C"))
    out = np.zeros(tuple(2 * n for n in b.shape), dtype)[
        tuple(slice(None, None, 2) for _ in b.shape)
    ]
    assert pb.par_copy(b, out=out) is out
    assert_same(out, np.array(b))


@pytest.mark.parametrize("source", NUMBERS)
@pytest.mark.parametrize("target", NUMBERS)
def test_copy_cast(source, target):
    a = values(source, (300, 301), 0)
    for dtype, casting in ((target, None), (target, "same_kind"), (target, "safe")):
        numpys = casting or "unsafe"
        check(
            lambda dtype=dtype, casting=casting: pb.par_copy(a, dtype=dtype, casting=casting),
            lambda dtype=dtype, casting=numpys: a.astype(dtype, casting=casting),
        )
    for casting in ("same_kind", "unsafe"):
        check(
            lambda casting=casting: copied(pb.par_copy, a, target, casting),
            lambda casting=casting: copied(copyto, a, target, casting),
        )


def copyto(a, out, casting):
    np.copyto(out, a, casting=casting)


def copied(f, a, dtype, casting):
    out = np.zeros(a.shape, dtype)
    f(a, out=out, casting=casting)
    return out


def test_copy_out():
    out = np.zeros((300, 400))
    assert pb.par_copy(np.arange(400), out=out) is out
    assert_same(out, np.broadcast_to(np.arange(400.0), (300, 400)).copy())
    pb.par_copy(out[:, ::-1], out=out)
    assert_same(out, np.broadcast_to(np.arange(400.0)[::-1], (300, 400)).copy())
    pb.par_copy(3, out=out)
    assert (out == 3).all()
    frozen = np.zeros((300, 400))
    frozen.flags.writeable = False
    for f in (pb.par_copy, lambda a, out: np.copyto(out, a)):
        with pytest.raises(ValueError, match="read-only"):
            f(out, out=frozen)
        with pytest.raises(ValueError, match="broadcast"):
            f(np.zeros(399), out=out)
        with pytest.raises(TypeError, match="Cannot cast"):
            f(out, out=np.zeros((300, 400), int))
    with pytest.raises(TypeError, match="not together"):
        pb.par_copy(out, dtype="f4", out=out)


def test_copy_cast_reports_once():
    a = np.full(200_000, 1e300)
    with pytest.warns(RuntimeWarning, match="overflow encountered in cast") as seen:
        pb.par_copy(a, dtype="f4")
    assert len(seen) == 1
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="in cast"):
        pb.par_copy(a, dtype="f4")


# ---- all --------------------------------------------------------------------


@pytest.mark.parametrize("threads", THREADS)
def test_any_number_of_threads(pool_size, threads):
    pool_size(threads)
    rng = np.random.default_rng(0)
    a, mask, index = (
        rng.random(1_000_003),
        rng.random(1_000_003) < 0.3,
        rng.integers(0, 10**6, 10**6),
    )
    for _ in range(3):
        assert_same(pb.par_filter(a, mask), a[mask])
        yes, no = pb.par_partition_by(a, mask)
        assert_same(yes, a[mask])
        assert_same(no, a[~mask])
        assert_same(pb.par_flatnonzero(mask), np.flatnonzero(mask))
        assert_same(pb.par_take(a, index), np.take(a, index))
        assert_same(pb.par_where(mask, a, 0), np.where(mask, a, 0))
        assert_same(pb.par_concatenate([a, a[::2]]), np.concatenate([a, a[::2]]))
        assert_same(pb.par_repeat(a, mask), np.repeat(a, mask))
        assert_same(pb.par_copy(a[::-1]), a[::-1].copy())
        square = a[:1_000_000].reshape(1000, 1000)
        assert_same(pb.par_flatten(square, "F"), square.flatten("F"))


@pytest.mark.parametrize(
    "call",
    [
        lambda np_, a: np_.take(a, np.zeros(200_000, int)),
        lambda np_, a: np_.repeat(a, 3),
        lambda np_, a: np_.concatenate([a, a]),
        lambda np_, a: np_.where(a > 0.5, a, 0),
    ],
    ids=["take", "repeat", "concatenate", "where"],
)
@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("kind", [np.matrix, np.ma.array, lambda a: a.astype(object), list])
def test_other_types_are_numpys(call, kind):
    class Ours:
        take = staticmethod(pb.par_take)
        repeat = staticmethod(pb.par_repeat)
        concatenate = staticmethod(pb.par_concatenate)
        where = staticmethod(pb.par_where)

    a = np.random.default_rng(0).random(100_000)
    given = kind(a)
    if kind is list and call(np, a).size == 100_000:
        return  # a list is not compared with a number
    got, expected = call(Ours, given), call(np, given)
    assert type(got) is type(expected)
    np.testing.assert_array_equal(got, expected, strict=True)


# ---- masks, values and predicates -------------------------------------------

SELECTIONS = {
    "filter": (pb.par_filter, lambda a, m: (a[m],)),
    "partition_by": (pb.par_partition_by, lambda a, m: (a[m], a[~m])),
    "flatnonzero": (pb.par_flatnonzero, lambda a, m: (np.flatnonzero(m),)),
}


def tuple_of(x):
    return x if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("name", SELECTIONS)
@pytest.mark.parametrize("n", [20, 100_000])
def test_masks_values_and_predicates(name, n):
    pd = pytest.importorskip("pandas")
    ours, numpys = SELECTIONS[name]
    a = np.arange(n, dtype=float)
    mask = a % 3 == 1
    for what in (
        mask,
        mask.tolist(),
        tuple(mask.tolist()),
        pd.Series(mask),
        np.ma.array(np.ones(n, bool), mask=~mask),
        pb.par_iter(a) % 3 == 1,
        lambda v: v % 3 == 1,
        lambda v: np.asarray(v) % 3 == 1,
    ):
        for got, expected in zip(tuple_of(ours(a, what)), numpys(a, mask), strict=True):
            assert_same(got, expected)
    for value in (7, 7.0, np.float32(7), np.array(7)):
        for got, expected in zip(tuple_of(ours(a, value)), numpys(a, a == 7), strict=True):
            assert_same(got, expected)
    for got, expected in zip(tuple_of(ours(a, np.signbit)), numpys(a, a < 0), strict=True):
        assert_same(got, expected)
    for bad in (np.arange(n), a, [1] * n, [1.5], {1}, {}, pd.Series(a)):
        with pytest.raises(TypeError, match="expected booleans"):
            ours(a, bad)
    with pytest.raises((IndexError, ValueError)):
        ours(a, mask[1:])


@pytest.mark.parametrize("name", SELECTIONS)
@pytest.mark.parametrize("n", [20, 100_000])
def test_a_predicate_is_evaluated_once(name, n):
    """Also when somebody looks at the progress."""
    a, seen = np.arange(float(n)), []

    def predicate(v):
        seen.append(np.asarray(v).size)  # which cannot be traced
        return np.asarray(v) > 5

    for progress in (None, lambda done, total: None):
        seen.clear()
        SELECTIONS[name][0](a, predicate, progress=progress)
        # Of one more the dtype of the results was learned; a few were computed in other company.
        assert sum(seen) <= n + 1 + (80 if n > 1000 else 0)


def test_filter_of_containers():
    pd = pytest.importorskip("pandas")
    for n in (10, 100_000):
        a = np.arange(n)
        mask = a % 3 == 0
        series = pd.Series(a, name="x")
        pd.testing.assert_series_equal(pb.par_filter(series, mask), series[mask])
        pd.testing.assert_series_equal(pb.par_filter(series, series > 5), series[series > 5])
        assert_same(pb.par_filter(pb.par_iter(a), mask), a[mask])
        assert_same(pb.par_filter(a.tolist(), mask), a[mask])
        assert_same(pb.par_filter(memoryview(a), mask), a[mask])
        assert_same(pb.par_partition_by(a.tolist(), mask)[1], a[~mask])


# ---- what is shared ---------------------------------------------------------


def shared(call):
    """The result; some worker had a part in it."""
    totals = []
    result = call(progress=lambda done, total: totals.append(total))
    assert totals
    assert totals[-1] > 0
    return result


N = 200_000
FLOATS = np.random.default_rng(0).random(N)
ODD = np.frombuffer(np.zeros(N * 8 + 1, np.uint8).data, np.uint8)[1:].view("f8")
INDEX = np.random.default_rng(1).integers(0, N, N)


@pytest.mark.parametrize(
    "a", [FLOATS.astype(">f8"), ODD, FLOATS[::-2], np.resize(FLOATS, 2 * N).astype("f2")]
)
def test_any_layout_is_shared(a):
    n = len(a)
    mask, index = np.arange(n) % 3 == 0, INDEX % n
    row = np.int64(0)
    for ours, numpys in (
        (lambda **p: pb.par_filter(a, mask, **p), a[mask]),
        (lambda **p: pb.par_flatnonzero(a, **p), np.flatnonzero(a)),
        (lambda **p: pb.par_flatnonzero(a, np.signbit, **p), np.flatnonzero(np.signbit(a))),
        (lambda **p: pb.par_take(a, index.astype(">i8"), row, **p), np.take(a, index)),
        (lambda **p: pb.par_repeat(a, 3, row, **p), np.repeat(a, 3)),
        (lambda **p: pb.par_repeat(a, np.full(n, 2, ">i4"), **p), np.repeat(a, 2)),
        (lambda **p: pb.par_concatenate([a, a], row, **p), np.concatenate([a, a])),
        (lambda **p: pb.par_where(mask, a, 0, **p), np.where(mask, a, 0)),
        (lambda **p: pb.par_copy(a, dtype=">f4", **p), a.astype(">f4")),
        (lambda **p: pb.par_flatten(a.reshape(2, -1).T, "K", **p), a.reshape(2, -1).T.flatten("K")),
    ):
        assert_same(shared(ours), numpys)


def test_straight_copies_are_shared_from_a_megabyte_on():
    for n, parts in ((100_000, False), (200_000, True)):
        a = FLOATS[:n]
        for ours, expected in (
            (pb.par_copy, a),
            (pb.par_flatten, a),
            (lambda a, **p: pb.par_concatenate([a[:999], a[999:]], **p), a),
        ):
            totals = []
            result = ours(a, progress=lambda done, total, seen=totals: seen.append(total))
            assert_same(result, expected)
            assert (totals[-1] > 0) == parts


def test_copies_that_were_serial():
    times = (FLOATS * 1e6).astype("M8[s]")
    words = FLOATS.astype("S9")
    for a, dtype in ((times, "M8[ms]"), (words, "S5"), (words, "S20"), (FLOATS + 1j, bool)):
        assert_same(shared(lambda a=a, d=dtype, **p: pb.par_copy(a, dtype=d, **p)), a.astype(dtype))
    with pytest.warns(np.exceptions.ComplexWarning) as seen:
        got = shared(lambda **p: pb.par_copy(FLOATS + 1j, dtype="f4", **p))
    assert len(seen) == 1
    assert_same(got, FLOATS.astype("f4"))
    a, expected = FLOATS.copy(), FLOATS.copy()
    shared(lambda **p: pb.par_copy(a[:-1], out=a[1:], **p))
    expected[1:] = expected[:-1].copy()
    assert_same(a, expected)
    out = np.zeros((2, N), "i2")
    shared(lambda **p: pb.par_copy(7, out=out, **p))
    assert (out == 7).all()
    square = FLOATS[:160_000].reshape(400, 400)
    odd = np.moveaxis(square.reshape(20, 20, 400)[:, ::-1], 0, 2)
    assert_same(shared(lambda **p: pb.par_flatten(odd, "K", **p)), odd.flatten("K"))


def test_outputs_that_were_serial():
    for out in (np.empty(N, "f4"), np.empty(2 * N)[::2], np.empty(N, ">f8")):
        assert shared(lambda o=out, **p: pb.par_take(FLOATS, INDEX, out=o, **p)) is out
        np.testing.assert_array_equal(out, FLOATS[INDEX].astype(out.dtype))
    a = FLOATS.copy()
    shared(lambda **p: pb.par_take(a, INDEX, out=a, **p))
    assert_same(a, FLOATS[INDEX])
    got, expected = FLOATS.copy(), FLOATS.copy()
    shared(lambda **p: pb.par_concatenate([got[5:], got[:5]], out=got, **p))
    np.concatenate([expected[5:], expected[:5]], out=expected)
    assert_same(got, expected)
    big = np.zeros((1000, 1000), order="F")
    expected = big.copy("K")
    shared(lambda **p: pb.par_put(big, INDEX, FLOATS[::-1], **p))
    np.put(expected, INDEX, FLOATS[::-1])
    assert_same(big, expected)


def test_where_of_records_and_times():
    records = np.zeros(N, [("x", "f8"), ("y", "i2")])
    records["x"] = FLOATS
    mask = FLOATS > 0.5
    for x, y in ((records, records[::-1]), (FLOATS.astype("S4"), np.bytes_(b"abcdefg"))):
        assert_same(
            shared(lambda x=x, y=y, **p: pb.par_where(mask, x, y, **p)), np.where(mask, x, y)
        )
    times = np.where(mask, 0, INDEX).astype(">m8[s]")
    assert_same(shared(lambda **p: pb.par_flatnonzero(times, **p)), np.flatnonzero(times))


def test_containers_are_converted(tmp_path):
    pd = pytest.importorskip("pandas")
    series = pd.Series(FLOATS)
    disk = np.memmap(tmp_path / "a", "f8", mode="w+", shape=(N,))
    disk[:] = FLOATS * 200
    records = np.rec.fromarrays([FLOATS, INDEX], names="x,y")
    for parts in (
        [series, FLOATS],
        [disk, disk],
        [records, records],
        [[1, 2], series],
        (3.0 * disk,),
    ):
        got = shared(lambda a=parts, **p: pb.par_concatenate(a, **p))
        expected = np.concatenate(parts)
        assert type(got) is type(expected)
        np.testing.assert_array_equal(got, expected, strict=True)
    mask = INDEX % 2 == 0
    for a in (disk, records):
        for got, expected in (
            (shared(lambda a=a, **p: pb.par_filter(a, mask, **p)), a[mask]),
            (shared(lambda a=a, **p: pb.par_take(a, INDEX, **p)), np.take(a, INDEX)),
            (shared(lambda a=a, **p: pb.par_repeat(a, 2, **p)), np.repeat(a, 2)),
            (shared(lambda a=a, **p: pb.par_flatten(a, **p)), a.flatten()),
            (shared(lambda a=a, **p: pb.par_copy(a, **p)), np.array(a)),
        ):
            assert type(got) is type(expected)
            np.testing.assert_array_equal(got, expected, strict=True)
    assert_same(pb.par_where(series > 0.5, series, 0), np.where(series > 0.5, series, 0))


def test_what_is_left_is_counted(pool_size):
    pool_size(2)  # one thread leaves what it does as fast to NumPy before it looks
    from pyblitz.arrays.front import left_alone

    objects = FLOATS.astype(object)
    before = left_alone().get(("par_concatenate", "dtype object"), 0)
    pb.par_concatenate([objects, objects])
    assert left_alone()[("par_concatenate", "dtype object")] == before + 1


@pytest.mark.parametrize("n", [3, 300_000])
def test_nothing_is_put_anywhere(n):
    a = np.arange(n)
    pb.par_put(a, [n + 5], [])
    pb.par_put(a, np.full(300_000, n + 5), np.empty(0))
    np.testing.assert_array_equal(a, np.arange(n))


@pytest.mark.parametrize("n", [10, 5000])
@pytest.mark.parametrize(("dtype", "values"), [("i1", [300]), ("u1", [-1]), ("M8[s]", [1.5])])
def test_put_of_a_list_that_does_not_fit(dtype, values, n):
    """As NumPy: an array's values are cast, a list's refused, and nothing is written."""
    a = np.zeros(5000, dtype)
    with pytest.raises((OverflowError, ValueError)) as expected:
        np.put(a.copy(), np.arange(n), values)
    with pytest.raises(expected.type):
        pb.par_put(a, np.arange(n), values)
    assert (a == np.zeros((), dtype)).all()
    if dtype != "M8[s]":
        pb.par_put(a, np.arange(n), np.array(values))
        np.put(b := np.zeros(5000, dtype), np.arange(n), np.array(values))
        assert np.array_equal(a, b)
