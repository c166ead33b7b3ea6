"""par_reduce is ufunc.reduce, with the same bits for any number of threads."""

from __future__ import annotations

import math

import numpy as np
import pytest
from arrays import NUMBERS, arrays, values
from hypothesis import given, settings
from hypothesis import strategies as st
from test_map import outcome

import pyblitz as pb

OPS = [
    np.add,
    np.multiply,
    np.minimum,
    np.maximum,
    np.fmax,
    np.logical_and,
    np.logical_or,
    np.bitwise_or,
    np.subtract,
    np.logaddexp,
    np.true_divide,
]


def check(op, a, **options):
    got, warned = outcome(lambda: pb.par_reduce(op, a, **options))
    expected, should = outcome(lambda: op.reduce(a, **options))
    if isinstance(expected, tuple):
        assert got == expected
        return
    assert type(got) is type(expected)
    g, e = np.asarray(got), np.asarray(expected)
    assert g.dtype == e.dtype
    assert g.shape == e.shape
    if e.dtype.kind in "fc" and op not in (np.minimum, np.maximum, np.fmax):
        # Another grouping: other rounding, and overflow in other places.
        with np.errstate(all="ignore"):
            seen = {k: v for k, v in options.items() if k in ("axis", "keepdims", "where")}
            scale = np.asarray(np.add.reduce(np.abs(a), dtype=e.dtype, **seen)).real
            fine = np.isfinite(g) & np.isfinite(e) & np.isfinite(scale)
            eps = float(np.finfo(e.dtype).eps)
            if op is np.add:
                assert (np.abs(g - e)[fine] <= 64 * eps * (scale[fine] + 3)).all()
                assert (np.isfinite(g) == np.isfinite(e)).all()
            else:
                np.testing.assert_allclose(g[fine], e[fine], rtol=1e5 * eps)
    else:
        np.testing.assert_array_equal(g, e)
        assert warned == should


@settings(max_examples=250)
@given(arrays(dtypes=tuple(d for d in NUMBERS if d != "f2")), st.sampled_from(OPS), st.data())
def test_reduce(a, op, data):
    axis = data.draw(st.sampled_from([None, *range(-a.ndim, a.ndim)]))
    if a.ndim > 1 and data.draw(st.booleans()):
        axis = data.draw(st.sampled_from([(0, 1), (1, 0), (-1,), ()]))
    check(op, a, axis=axis, keepdims=data.draw(st.booleans()))


@settings(max_examples=80)
@given(arrays(dtypes=("i4", "f4", "f8", "u1")), st.data())
def test_options(a, data):
    op = data.draw(st.sampled_from([np.add, np.maximum, np.logical_or]))
    options = {"axis": data.draw(st.sampled_from([None, *range(a.ndim)])), "initial": 3}
    if data.draw(st.booleans()):
        options["where"] = values("?", a.shape, data.draw(st.integers(0, 9)))
    if data.draw(st.booleans()) and op is not np.logical_or:
        options["dtype"] = data.draw(st.sampled_from(["f8", "i8"]))
    check(op, a, **options)


def test_out():
    a = values("i4", (300, 400), 1)
    for axis in (0, 1, None):
        expected = np.add.reduce(a, axis)
        out = np.zeros(np.shape(expected), np.int64)
        assert pb.par_reduce(np.add, a, axis, out=out) is out
        np.testing.assert_array_equal(out, expected)
        assert pb.par_reduce(np.add, a, axis, out=(out,)) is out
        kept = np.zeros(np.add.reduce(a, axis, keepdims=True).shape, np.int64)
        pb.par_reduce(np.add, a, axis, out=kept, keepdims=True)
        np.testing.assert_array_equal(kept.reshape(np.shape(expected)), expected)


@pytest.mark.parametrize("shape", [(1_000_003,), (1000, 1001), (3, 200_000), (200_000, 3)])
@pytest.mark.parametrize("dtype", ["f4", "f8", ">f8", "D"])
def test_same_bits_for_any_number_of_threads(pool_size, shape, dtype):
    a = (np.random.default_rng(3).standard_normal(shape) * 1e3).astype(dtype)
    for axis in (None, *range(len(shape))):
        bits = set()
        for n in (1, 2, 3, 8):
            pool_size(n)
            for _ in range(3):
                bits.add(np.asarray(pb.par_reduce(np.add, a, axis)).tobytes())
        assert len(bits) == 1


@pytest.mark.parametrize("n", [10**5, 10**6])
def test_error_is_that_of_pairwise_summation(n):
    a = np.random.default_rng(1).standard_normal(n) * 10.0 ** np.arange(n).astype(int).__mod__(9)
    exact = math.fsum(a)
    bound = 2 * np.finfo(float).eps * math.log2(n) * np.abs(a).sum()
    assert abs(pb.par_reduce(np.add, a) - exact) <= bound
    numpys = abs(np.add.reduce(a) - exact)
    assert abs(pb.par_reduce(np.add, a) - exact) <= max(4 * numpys, bound / 16)


@pytest.mark.parametrize("op", [np.maximum, np.minimum, np.fmax, np.fmin])
def test_backwards(op):
    """NumPy 2.1 leaves out an item of what lies backwards in memory, if there is an out."""
    a = values("i2", (30_000, 3), 5)
    for x in (a[:, ::-1], a[::-1, ::-1], a.T[::-1]):
        for axis in (0, 1):
            given = {"axis": axis, "where": x > -9, "initial": 7}
            for options in ({"axis": axis}, given):
                expected = op.reduce(x, **options)
                np.testing.assert_array_equal(pb.par_reduce(op, x, **options), expected)
                out = np.empty_like(expected)
                assert pb.par_reduce(op, x, out=out, **options) is out
                np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8", "i2", ">i4"])
@pytest.mark.parametrize("n", [1, 3, 5, 4096, 131_073, 131_074, 200_003])
def test_products_of_integers(pool_size, dtype, n):
    """They wrap, and come out the same in any order: odd numbers have no product of 0."""
    info = np.iinfo(dtype)
    a = np.random.default_rng(n).integers(info.min, info.max, n, info.dtype.newbyteorder("="))
    a = (a | 1).astype(dtype)
    apart = np.zeros(3 * n, dtype)
    apart[::3] = a
    for x in (a, a[::-1], apart[::3], a.reshape(-1, 1).T):
        expected = np.multiply.reduce(x, axis=None)
        assert expected != 0
        two = x.dtype.type(2)
        for threads in (1, 2, 7):
            pool_size(threads)
            # What is small par_reduce leaves to NumPy, and par_iter does not.
            assert pb.par_iter(x).prod() == expected
            assert (pb.par_iter(x) + two).prod() == (x + two).prod()
            if n > 100_000:
                check(np.multiply, x, axis=None)
                check(np.multiply, x, axis=None, initial=-3 if info.min else 3)
                assert pb.par_prod(x) == expected
    assert pb.par_prod(a[:0]) == 1


def test_products_of_booleans():
    for n in (1, 200_000):
        a = np.ones(n, bool)
        for x in (a, a[::2], a.reshape(-1, 1).T):
            check(np.multiply, x, axis=None)
        for at in (0, n // 2, n - 1):
            a[at] = False
            check(np.multiply, a)
            check(np.multiply, a, initial=7)
            assert pb.par_prod(a) == 0
            assert (pb.par_iter(a) & True).prod() == 0
            a[at] = True


def test_negative_zero():
    a = np.full(200_000, -0.0)
    assert np.signbit(pb.par_reduce(np.add, a)) == np.signbit(np.add.reduce(a))


def test_subclasses_and_objects_are_numpys():
    m = np.ma.masked_array(np.ones(200_000), np.arange(200_000) % 2)
    assert pb.par_reduce(np.add, m) == np.add.reduce(m)
    assert pb.par_reduce(np.add, np.arange(200_000).astype(object)) == 199_999 * 100_000


BIG = np.zeros((200, 1000))


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f(np.add, BIG, axis=2),
        lambda f: f(np.add, BIG, axis=-3),
        lambda f: f(np.add, BIG, axis=(0, 0)),
        lambda f: f(np.add, BIG, axis="x"),
        lambda f: f(np.add, BIG, axis=1.5),
        lambda f: f(np.subtract, BIG, axis=None),
        lambda f: f(np.sqrt, BIG),
        lambda f: f(np.divmod, BIG),
        lambda f: f(np.add, BIG, out=np.zeros(3)),
        lambda f: f(np.add, BIG, out=[1]),
        lambda f: f(np.add, BIG, dtype="no such"),
        lambda f: f(np.bitwise_and, BIG),
        lambda f: f(np.maximum, BIG, where=BIG > 0),
        lambda f: f(np.maximum, BIG[:, :0], axis=1),
        lambda f: f(np.add, BIG, where=np.zeros(7, bool)),
        lambda f: f(np.add, BIG, initial="text"),
        lambda f: f(np.add, BIG, axis=0, out=np.broadcast_to(np.zeros(1), 1000)),
    ],
)
def test_bad_input_raises_what_numpy_raises(call):
    with pytest.raises(Exception) as expected:  # noqa: PT011 - NumPy says which
        call(lambda op, *args, **options: op.reduce(*args, **options))
    with pytest.raises(type(expected.value)):
        call(pb.par_reduce)
    assert pb.par_reduce(np.add, [1, 2]) == 3


def test_op_must_be_a_ufunc():
    for op in (sum, None, "add"):
        with pytest.raises(TypeError, match="op: expected a ufunc"):
            pb.par_reduce(op, BIG)


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[ns]"])
def test_times(dtype):
    a = values(dtype, (60_000,), 1)
    a[np.isnat(a)] = np.array(5, dtype)
    for op in (np.maximum, np.minimum, np.fmin):
        for x, axis in ((a, 0), (a.reshape(300, 200), 0), (a.reshape(300, 200), None)):
            np.testing.assert_array_equal(
                pb.par_reduce(op, x, axis), op.reduce(x, axis), strict=True
            )
    if dtype[0] == "m":
        assert pb.par_reduce(np.add, a) == np.add.reduce(a)
        assert pb.par_reduce(np.add, a, where=a > a[0]) == np.add.reduce(a, where=a > a[0])


def test_other_types_see_numpys_defaults():
    """What was not given is not handed on: a strict type would refuse it."""

    class Strict:
        def __array_ufunc__(self, ufunc, method, *args, **kwargs):
            return method, kwargs

    assert pb.par_reduce(np.add, Strict()) == np.add.reduce(Strict())
    assert pb.par_reduce(np.add, Strict(), 1) == np.add.reduce(Strict(), 1)
    m = np.ma.masked_array(np.ones((400, 1000)), False)
    out = np.zeros(1000)
    pb.par_reduce(np.add, m, out=(out,))
    assert (out == 400).all()


def test_pandas():
    pd = pytest.importorskip("pandas", reason="the extra `examples` is not installed")
    for n in (3, 100_000):
        series = pd.Series(np.arange(float(n)))
        assert pb.par_reduce(np.add, series) == np.add.reduce(series)


def test_numba_ufunc():
    numba = pytest.importorskip("numba", reason="the extra that has Numba is not installed")
    plus = numba.vectorize(["f8(f8,f8)"], identity=0)(lambda a, b: a + b)
    assert pb.par_reduce(plus, np.ones(50_000)) == 50_000


def test_one_warning():
    a = np.random.default_rng(0).random(600_000)
    a[[300_000, 599_999]] = np.nan
    check(np.logaddexp, a)
    assert (
        outcome(lambda: pb.par_reduce(np.logaddexp, a))[1]
        == (outcome(lambda: np.logaddexp.reduce(a))[1])
    )


def test_an_overflow_between_blocks_is_told():
    """Each block's sum is finite, and only those of several are not."""
    a = np.zeros(800_000)
    a[::100_000] = 6e307
    for x in (a, np.where(a > 0, 1e38, 0).astype("f4")):
        got, warned = outcome(lambda x=x: pb.par_reduce(np.add, x))
        assert got == np.inf
        assert warned == ["overflow encountered in reduce"]
        with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
            pb.par_reduce(np.add, x)


def test_a_bad_axis_is_forgotten():
    """It once spoilt what was remembered of the operation and dtype."""
    a = np.arange(300_000, dtype="u2")
    with pytest.raises(np.exceptions.AxisError):
        pb.par_reduce(np.add, a.astype("f8"), axis=3)
    assert pb.par_iter(a).mean() == a.mean()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_dot_says_that_it_was_the_dot(dtype):
    a = np.ones(400_000, dtype)
    b = a.copy()
    b[[3, 399_999]] = -np.inf, np.inf
    with np.errstate(invalid="raise"):
        with pytest.raises(FloatingPointError, match="invalid value encountered in dot"):
            pb.par_dot(a, b)
        assert pb.par_dot(a, a / 1000) > 300


@pytest.mark.parametrize("order", ["<", ">"])
def test_sums_of_halves_are_rounded_once(order, pool_size):
    """Parts of them were, and overflowed."""
    pool_size(2)
    high = np.repeat(np.array([6e4, -6e4], f"{order}f2"), 50_000)
    some = (np.random.default_rng(0).standard_normal(200_000) * 100).astype(f"{order}f2")
    zeros = np.full(100_000, -0.0, f"{order}f2")
    for a in (high, some, zeros, some.reshape(4, -1)):
        for options in ({}, {"initial": np.float16(5)}):
            # NumPy rounds, or overflows, with each buffer of the other byte order; to 2.2 always.
            expected = np.sum(a, dtype="f8", **options).astype("f2")
            for got in (
                pb.par_sum(a, **options),
                pb.par_reduce(np.add, a, axis=None, **options),
                pb.par_iter(a.reshape(-1)).sum(**options),
            ):
                assert got.dtype == expected.dtype
                assert np.signbit(got) == np.signbit(expected)
                np.testing.assert_allclose(got, expected, rtol=1e-3)
    with pytest.warns(RuntimeWarning, match="overflow encountered in reduce"):
        assert pb.par_sum(np.abs(high)) == np.inf


@pytest.mark.parametrize("order", ["<", ">"])
def test_halves_in_either_byte_order(order, pool_size):
    """Their means are of sums in single precision: those of half precision overflow."""
    pool_size(2)
    a = np.random.default_rng(0).random(100_000).astype(f"{order}f2")
    for fn in (np.mean, np.var, np.std):
        ours = getattr(pb, f"par_{fn.__name__}")
        for got, expected in [
            (ours(a), fn(a)),
            (ours(a, where=a > 0.5), fn(a, where=a > 0.5)),
            (getattr(pb.par_iter(a), fn.__name__)(), fn(a)),
        ]:
            assert got.dtype == expected.dtype
            np.testing.assert_allclose(got, expected, rtol=2e-3)


@pytest.mark.parametrize(
    "a",
    [
        np.arange(40_000.0),
        np.arange(40_000.0)[::-1],
        np.arange(40_000.0, dtype="f4"),
        np.arange(40_000.0).astype("D"),
        np.tile([1e10, 1e-10], 50_000),
        np.repeat([1e10, 1e-10], 50_000),
        np.repeat([1e-10, 1e10], 50_000),
        np.r_[1.0, np.nan, np.full(40_000, 0.5)],
        np.r_[np.nan, np.full(40_000, 10.0)],
        np.r_[np.full(40_000, 10.0), np.nan],
    ],
    ids=["zero", "last", "single", "complex", "turns", "large", "small", "nan", "before", "after"],
)
def test_products_of_which_parts_overflow_and_others_vanish(a):
    """The parts' product is NaN.  In NumPy's order what came first stays, and no more is told."""
    both = np.stack([a, a], 1)
    for ours, numpys in (
        (lambda: pb.par_prod(a), lambda: np.prod(a)),
        (
            lambda: pb.par_reduce(np.multiply, a, initial=2.0),
            lambda: np.multiply.reduce(a, initial=2.0),
        ),
        (lambda: pb.par_prod(both, axis=0), lambda: np.prod(both, axis=0)),
        (lambda: pb.par_iter(a).prod(), lambda: np.prod(a)),
        (lambda: (pb.par_iter(a) * 1).prod(), lambda: np.prod(a)),
        (lambda: pb.par_iter(a).chain(a).prod(), lambda: np.prod(np.r_[a, a])),
        (lambda: pb.par_iter(a[:20_000]).chain(a[20_000:]).prod(), lambda: np.prod(a)),
    ):
        (got, warned), (expected, should) = outcome(ours), outcome(numpys)
        np.testing.assert_array_equal(got, expected, strict=True)
        assert warned == should


@pytest.mark.parametrize("name", ["sum", "prod", "max", "any", "all", "mean", "cumsum", "cumprod"])
def test_results_lie_in_memory_as_numpys_do(name):
    x = np.random.default_rng(0).random((40, 50, 60))
    for a in (
        x,
        np.asfortranarray(x),
        x.transpose(1, 0, 2),
        x[::-1, :, ::2],
        np.broadcast_to(x[0], x.shape),
        np.broadcast_to(x[:, :1], x.shape),
    ):
        for axis in range(3):
            got = getattr(pb, f"par_{name}")(a, axis=axis)
            assert got.strides == getattr(np, name)(a, axis=axis).strides


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("least", [False, True])
def test_which_zero_or_nan_an_extreme_is_does_not_depend_on_the_threads(pool_size, dtype, least):
    """Where one thread might leave it to NumPy, whose own order gives other ones."""
    rng = np.random.default_rng(9)
    nans = np.array([np.nan, -np.nan], dtype)
    rows = []
    for n in 4 * [150_000, 300_007]:
        rest = rng.random(n).astype(dtype) * (1 if least else -1)
        for several in (np.array([0.0, -0.0], dtype), nans):
            for few in (3, 50, n // 2):
                a = rest.copy()
                a[rng.integers(0, n, few)] = rng.choice(several, few)
                rows.append(a)
    found = []
    for threads in (1, 2, 5):
        pool_size(threads)
        extreme = pb.par_min if least else pb.par_max
        found.append([extreme(a).tobytes() for a in rows])
    assert found[0] == found[1] == found[2]
    for threads in (1, 2):
        pool_size(threads)
        for a in rows:
            b = np.where(np.isnan(a) | (a == 0), dtype == "f4", a)
            expected = (np.min if least else np.max)(b)
            got = (pb.par_min if least else pb.par_max)(b)
            assert got == expected
            assert type(got) is type(expected)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_product_of_rows_with_steps_has_the_same_bits(pool_size, dtype):
    """Copied row by row, as long as the rows of those side by side."""
    rng = np.random.default_rng(4)
    for n in (100_000, 131_072, 200_003, 1_000_003):  # fewer are NumPy's
        a, b = (rng.standard_normal(n).astype(dtype) for _ in range(2))
        wide = np.zeros((2, n, 3), dtype)
        wide[0, :, 1], wide[1, :, 1] = a, b
        expected = pb.par_dot(a, b)
        for threads in (1, 2, 3):
            pool_size(threads)
            assert pb.par_dot(a, b) == expected
            assert pb.par_dot(wide[0, :, 1], wide[1, :, 1]) == expected
            assert pb.par_dot(wide[0, ::-1, 1][::-1], b) == expected
        exact = np.dot(a.astype("g"), b.astype("g"))
        scale = np.abs(a.astype("g")) @ np.abs(b.astype("g"))
        assert abs(expected - exact) <= 80 * np.finfo(dtype).eps * scale


def test_a_product_of_negative_zeros_is_a_positive_one():
    for dtype in ("f4", "f8", "i4", "i8"):
        a, b = np.full(200_000, -0.0).astype(dtype), np.ones(200_000, dtype)
        got, expected = pb.par_dot(a, b), np.dot(a, b)
        assert got == expected
        assert np.signbit(got) == np.signbit(expected)
        assert type(got) is type(expected)


# ---- dear operations ---------------------------------------------------------


def test_what_was_folded_before_decides_no_bits(pool_size):
    """Equal expressions are one program, and a dear ufunc has it cut into smaller blocks."""
    pool_size(2)
    x = np.random.default_rng(3).random(20_000)

    def expression():
        return pb.par_iter(x) * x * 0.7

    before = expression().sum()
    pb.par_reduce(np.logaddexp, expression())
    assert expression().sum() == before


DEAR = [np.logaddexp, np.logaddexp2, np.hypot, np.gcd, np.lcm]


@pytest.mark.parametrize("op", DEAR, ids=lambda op: op.__name__)
@pytest.mark.parametrize("n", [2000, 2048, 2049, 5000, 33_000])
def test_reductions_by_dear_ufuncs(pool_size, op, n):
    """They are shared from some 2,000 items on, in blocks that depend on their number alone."""
    rng = np.random.default_rng(n)
    x = rng.integers(1, 9, n) if op in (np.gcd, np.lcm) else rng.random(n)
    expected = op.reduce(x)
    results = set()
    for threads in (1, 2, 3):
        pool_size(threads)
        found = pb.par_reduce(op, x)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert found.dtype == expected.dtype
        results.add(found.tobytes())
    assert len(results) == 1


DEAR_CALLS = {
    "sum of sines": lambda x: pb.par_iter(x).map(np.sin).sum(),
    "logaddexp": lambda x: pb.par_reduce(np.logaddexp, x),
    "map": lambda x: pb.par_map(np.sin, x),
    "extremes of halves": lambda x: pb.par_minmax(np.tile(x, 5).astype("f2")),
}


@pytest.mark.parametrize("call", DEAR_CALLS.values(), ids=list(DEAR_CALLS))
def test_a_few_thousand_dear_items_are_shared(pool_size, call):
    """They take 40 us.  (Whether another thread is there in time is up to the system: so once in
    many calls.)"""
    pool_size(2)
    x = np.random.default_rng(4).random(4000)

    def steals():
        with pb.stats() as recording:
            for _ in range(50):
                call(x)
        return sum(worker.steals for worker in recording.workers)

    assert any(steals() for _ in range(100))
