"""par_scan is ufunc.accumulate; par_cumsum, par_cumprod and par_reduceat are NumPy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from arrays import NUMBERS, arrays, values
from hypothesis import given, settings
from hypothesis import strategies as st
from test_map import check as same_as
from test_map import outcome

import pyblitz as pb
from pyblitz.kernels.simd import levels

EXACT = ["?", "i1", "u2", "i4", "u4", "i8", "u8"]
OPS = [
    np.add,
    np.multiply,
    np.minimum,
    np.maximum,
    np.fmax,
    np.logical_and,
    np.logical_or,
    np.bitwise_xor,
    np.subtract,
    np.logaddexp,
    np.hypot,
]
ROUNDING = (np.add, np.multiply, np.logaddexp, np.hypot, np.subtract)


def check(call, op, axis=0):
    """call(module's functions) against NumPy's: the same, but for rounding."""
    got, warned = outcome(lambda: call(True))
    expected, should = outcome(lambda: call(False))
    if isinstance(expected, tuple):
        assert isinstance(got, tuple)
        assert got[0] is expected[0]
        return
    assert type(got) is type(expected)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    if expected.dtype.kind in "fc" and op in ROUNDING:
        eps = float(np.finfo(expected.dtype).eps)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
            fine = np.isfinite(expected)
            np.testing.assert_array_equal(got[~fine], expected[~fine])
            scale = np.maximum.accumulate(np.abs(np.where(fine, expected, 0)), axis or 0)
            room = expected.shape[axis or 0] if expected.ndim else 1
            assert (np.abs(got - expected)[fine] <= 8 * eps * room * (scale[fine] + 3)).all()
    else:
        np.testing.assert_array_equal(got, expected)
    assert warned == should


@settings(max_examples=100)
@given(arrays(dtypes=tuple(NUMBERS)), st.sampled_from(OPS), st.data())
def test_scan(a, op, data):
    axis = data.draw(st.sampled_from(range(-max(a.ndim, 1), a.ndim or 1)))
    check(lambda ours: (pb.par_scan if ours else type(op).accumulate)(op, a, axis), op, axis)


@settings(max_examples=60)
@given(arrays(dtypes=("?", "i2", "i4", "u8", "f4", "f8", ">f8")), st.data())
def test_cumsum_and_cumprod(a, data):
    axis = data.draw(st.sampled_from([None, *range(-a.ndim, a.ndim)]))
    dtype = data.draw(st.sampled_from([None, "f8", "i4", "i8"]))
    for ours, numpys, op in (
        (pb.par_cumsum, np.cumsum, np.add),
        (pb.par_cumprod, np.cumprod, np.multiply),
    ):
        check(lambda o, f=ours, g=numpys: (f if o else g)(a, axis, dtype), op, axis)


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("n", [16384, 16641, 66_559, 66_560, 66_561, 300_007])
def test_integers_are_exact_at_each_number_of_threads(pool_size, simd_level, dtype, n):
    """By the vectors of each level."""
    a = values(dtype, (n,), 1)
    both = [(threads, level) for level in levels.names() for threads in (1, 2)]
    for threads, level in [*both, (3, levels.chosen()), (8, levels.chosen())]:
        pool_size(threads)
        simd_level(level)
        np.testing.assert_array_equal(pb.par_cumsum(a), np.cumsum(a), strict=True)
        np.testing.assert_array_equal(
            pb.par_cumsum(a, dtype=dtype), np.cumsum(a, dtype=dtype), strict=True
        )
        np.testing.assert_array_equal(pb.par_cumprod(a), np.cumprod(a), strict=True)
        np.testing.assert_array_equal(
            pb.par_scan(np.maximum, a), np.maximum.accumulate(a), strict=True
        )


@pytest.mark.parametrize(
    ("of", "to"),
    [("i2", "i8"), ("?", "u4"), ("u4", "f8"), ("f4", "f8"), ("i8", "i4"), ("f8", "i8")],
)
@pytest.mark.parametrize("step", [1, -1, 3])
def test_what_is_cast_block_by_block_is_what_a_copy_would_be(pool_size, of, to, step):
    """In each layout, and where a cast is not safe, too."""
    a = values(of, (200_011 * abs(step),), 1)[::step]
    a = (
        np.where(np.isfinite(a), a, 1)
        .clip(0 if of[0] == "u" else -9, 9)
        .astype(of)[:: 1 if step == 1 else -1]
    )
    out = np.empty(2 * a.size, to)[::2]
    for threads in (1, 2, 5):
        pool_size(threads)
        for op in (np.add, np.maximum):
            expected = pb.par_scan(op, a.astype(to), dtype=to)
            np.testing.assert_array_equal(pb.par_scan(op, a, dtype=to), expected, strict=True)
            np.testing.assert_array_equal(pb.par_scan(op, a, dtype=to, out=out), expected)


@pytest.mark.parametrize("shape", [(400_003,), (3, 100_000), (100_000, 3), (500, 501)])
@pytest.mark.parametrize("dtype", ["f4", "f8", ">f8", "D", "g"])
def test_same_bits_for_any_number_of_threads(pool_size, shape, dtype):
    a = (np.random.default_rng(3).standard_normal(shape) * 1e3).astype(dtype)
    p = 1 + a / 1e9
    for axis in range(len(shape)):
        bits = set()
        for n in (1, 2, 3, 8):
            pool_size(n)
            for _ in range(2):
                bits.add(
                    pb.par_cumsum(a, axis).astype("D").tobytes()
                    + pb.par_cumprod(p, axis).astype("D").tobytes()
                )
        assert len(bits) == 1


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_error_of_a_product_is_that_of_its_roundings(dtype):
    """n - 1 of them, each by half an epsilon at most and any sign, in whatever grouping."""
    n = 300_000
    x = (1 + np.random.default_rng(1).standard_normal(n) * 1e-3).astype(dtype)
    exact = np.cumprod(x.astype("g"))
    errors = np.abs(pb.par_cumprod(x) / exact - 1)
    assert (errors <= np.sqrt(1 + np.arange(n)) * np.finfo(dtype).eps).all()


@pytest.mark.parametrize("n", [10**5, 4 * 10**5])
def test_error_is_no_worse_than_numpys(n):
    rng = np.random.default_rng(1)
    for a in (rng.random(n), rng.standard_normal(n) * 10.0 ** (np.arange(n) % 9)):
        for dtype in ("f8", "f4"):
            x = a.astype(dtype)
            at = np.linspace(1, n, 25).astype(int)
            exact = np.array([math.fsum(x[:k]) for k in at])
            ours = np.abs(pb.par_cumsum(x)[at - 1] - exact).max()
            numpys = np.abs(np.cumsum(x)[at - 1] - exact).max()
            assert ours <= max(1.05 * numpys, 4 * np.finfo(dtype).eps * np.abs(exact).max())


def test_sums_of_halves_are_numpys():
    """Each step is rounded by so much that only NumPy's own order is near."""
    a = np.random.default_rng(4).random(200_000).astype("f2") - np.float16(0.5)
    for x in (a, a.reshape(2, -1)):
        np.testing.assert_array_equal(pb.par_cumsum(x, -1), np.cumsum(x, -1), strict=True)


def test_negative_zero():
    a = np.full(200_000, -0.0)
    for x in (a, a.astype("f4"), a.reshape(2, -1)):
        assert np.signbit(pb.par_cumsum(x, axis=-1)).all()


def test_infinities_and_overflow_are_where_numpy_puts_them():
    n = 300_000
    a = np.ones(n)
    cases = []
    for at in (0, 5, 70_000, n - 1):
        for bad in (np.inf, -np.inf, np.nan):
            b = a.copy()
            b[at] = bad
            cases.append(b)
    b = np.zeros(n)
    b[100_000:100_002] = 1.5e308
    b[100_002:100_004] = -1.5e308
    b[200_000:200_002] = -1.5e308
    cases += [b, np.where(np.arange(n) == 50_000, np.inf, np.where(a > 0, -np.inf, 1))]
    for b in cases:
        check(lambda ours, b=b: (pb.par_cumsum if ours else np.cumsum)(b), np.add)
        check(
            lambda ours, b=b: (pb.par_cumsum if ours else np.cumsum)(b, 0, None, b.copy()), np.add
        )
    # A zero stays, though the products after it overflow; nothing is lost below one.
    for b in (np.r_[0.0, a * 5], np.r_[np.full(600, 2.0), np.full(90_000, 0.5), a * 2]):
        check(lambda ours, b=b: (pb.par_cumprod if ours else np.cumprod)(b), np.multiply)


def test_overflow_in_place_begins_anew_from_what_was_there():
    a = np.zeros(300_000)
    a[100_000:100_002] = 1.5e308
    with np.errstate(all="ignore"):
        expected = np.cumsum(a)
        assert pb.par_cumsum(a, out=a) is a
    np.testing.assert_array_equal(a, expected)


@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8", "D"])
def test_out(dtype):
    a = (values("i2", (200, 1000), 1) % 100).astype(dtype)
    for x, axis in ((a, 0), (a, 1), (a.reshape(-1), 0), (a.reshape(2, -1), 1)):
        expected = np.add.accumulate(x, axis, dtype)
        out = np.empty_like(expected)
        assert pb.par_scan(np.add, x, axis, None, out) is out
        np.testing.assert_array_equal(out, expected)
        assert pb.par_scan(np.add, x, axis, out=(out,)) is out
        wide = np.empty((*x.shape[:-1], 2 * x.shape[-1]), dtype)[..., ::2]
        assert pb.par_cumsum(x, axis, out=wide) is wide
        np.testing.assert_array_equal(wide, expected)
        inside = x.copy()
        assert pb.par_cumsum(inside, axis, out=inside) is inside
        np.testing.assert_array_equal(inside, expected)


def test_overlap():
    for shift in (-3, 1, 70_000):
        a, b = np.arange(400_000), np.arange(400_000)
        lo, hi = max(0, -shift), max(0, shift)
        got = pb.par_cumsum(a[lo : lo + 300_000], out=a[hi : hi + 300_000])
        expected = np.cumsum(b[lo : lo + 300_000].copy())
        np.testing.assert_array_equal(got, expected)


def test_subclasses_and_objects_are_numpys():
    m = np.ma.masked_array(np.ones(200_000), np.arange(200_000) % 2)
    assert type(pb.par_cumsum(m)) is type(np.cumsum(m))
    o = np.arange(50_000).astype(object)
    np.testing.assert_array_equal(pb.par_cumsum(o), np.cumsum(o), strict=True)
    assert type(pb.par_scan(np.add, m)) is type(np.add.accumulate(m))


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[ns]"])
def test_times(dtype):
    a = values(dtype, (60_000,), 1)
    for x in (a, a.reshape(300, 200)):
        for op in (np.maximum, np.minimum, *([np.add] if dtype[0] == "m" else [])):
            np.testing.assert_array_equal(pb.par_scan(op, x), op.accumulate(x), strict=True)


BIG = np.zeros((200, 1000))
FLAT = np.zeros(200_000)


@pytest.mark.parametrize(
    "call",
    [
        lambda f, c: f(np.add, BIG, axis=2),
        lambda f, c: f(np.add, BIG, axis=-3),
        lambda f, c: f(np.add, BIG, axis="x"),
        lambda f, c: (
            f(np.add, BIG, axis=None) if f is pb.par_scan else np.add.accumulate(BIG, None)
        ),
        lambda f, c: f(np.sqrt, BIG),
        lambda f, c: f(np.divmod, BIG),
        lambda f, c: f(np.add, BIG, out=np.zeros(3)),
        lambda f, c: f(np.add, BIG, out=[1]),
        lambda f, c: f(np.add, BIG, dtype="no such"),
        lambda f, c: f(np.bitwise_and, BIG),
        lambda f, c: c(BIG, 2),
        lambda f, c: c(BIG, "x"),
        lambda f, c: c(BIG, 0, "no such"),
        lambda f, c: c(FLAT, 0, None, np.zeros(3)),
        lambda f, c: c(FLAT, 0, None, [1]),
        lambda f, c: c(BIG.astype("M8[s]")),
    ],
)
def test_bad_input_raises_what_numpy_raises(call):
    with pytest.raises(Exception) as expected:  # noqa: PT011 - NumPy says which
        call(lambda op, *args, **options: op.accumulate(*args, **options), np.cumsum)
    with pytest.raises(type(expected.value)):
        call(pb.par_scan, pb.par_cumsum)
    assert pb.par_cumsum([1, 2])[1] == 3


def test_an_out_that_cannot_be_written():
    """NumPy 2.2 writes there all the same."""
    frozen = np.zeros(FLAT.size)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        pb.par_scan(np.add, np.ones(FLAT.size), out=frozen)
    assert not frozen.any()


def test_op_must_be_a_ufunc():
    for op in (sum, None, "add"):
        for f in (pb.par_scan, lambda op, a: pb.par_reduceat(op, a, np.array([0]))):
            for a in (BIG, BIG[:3]):
                with pytest.raises(TypeError, match="op: expected a ufunc"):
                    f(op, a)


# ---- reduceat ----------------------------------------------------------------


@settings(max_examples=80)
@given(
    arrays(dtypes=("?", "i2", "i8", "f4", "f8", ">f8")),
    st.sampled_from([np.add, np.maximum, np.multiply, np.subtract]),
    st.data(),
)
def test_reduceat(a, op, data):
    if a.ndim == 1 and a.size > 60_000:
        a = np.tile(a, 3)  # sums and extremes of fewer are NumPy's
    axis = data.draw(st.sampled_from(range(-max(a.ndim, 1), a.ndim or 1)))
    n = a.shape[axis] if a.ndim else 1
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    indices = rng.integers(0, max(n, 1), data.draw(st.sampled_from([0, 1, 2, 7, 100, 5000])))
    if data.draw(st.booleans()):
        indices.sort()
    else:
        indices = indices[:200]  # which overlap: each is up to the whole row
    # NumPy calls its loop for each of them in each row.
    indices = indices[: 1 + 500_000 * n // max(a.size, 1)]
    if data.draw(st.booleans()):
        indices = indices.astype(data.draw(st.sampled_from(["i4", "u4", "u8"])))
    got, warned = outcome(lambda: pb.par_reduceat(op, a, indices, axis))
    expected, should = outcome(lambda: op.reduceat(a, indices, axis))
    if isinstance(expected, tuple):
        assert got[0] is expected[0]
    else:
        np.testing.assert_array_equal(got, expected, strict=True)
        assert warned == should


def test_reduceat_of_many_and_of_uneven_segments(pool_size):
    a = np.random.default_rng(1).standard_normal(1_000_000)
    lists = [
        np.arange(0, a.size, 7),
        np.sort(np.random.default_rng(2).integers(0, a.size, 50_000)),
        np.r_[0, 1, 2, 999_000, 999_999],
        np.repeat(500_000, 10),
        np.r_[3, 2, 1],
        np.r_[5, 900_000],
        list(range(10, 999_999, 100)),
    ]
    for threads in (1, 2, 3, 8):
        pool_size(threads)
        for indices in lists:
            for x in (a, a[::-1], a.astype("f4"), (a * 9).astype("i4"), a > 0):
                np.testing.assert_array_equal(
                    pb.par_reduceat(np.add, x, indices), np.add.reduceat(x, indices), strict=True
                )
    for to in ("f8", "i4", "i8", "u1"):
        ours, numpys = (
            f(x, lists[0], dtype=to)
            for f, x in [
                (lambda *args, **kw: pb.par_reduceat(np.add, *args, **kw), (a * 9).astype("i2")),
                (np.add.reduceat, (a * 9).astype("i2")),
            ]
        )
        np.testing.assert_array_equal(ours, numpys, strict=True)
    with pytest.warns(RuntimeWarning, match="overflow encountered in reduceat"):
        pb.par_reduceat(np.add, np.full(200_000, 1e308), [0, 100_000])
    out = np.empty(5)
    assert pb.par_reduceat(np.add, a, lists[2], out=out) is out
    np.testing.assert_array_equal(out, np.add.reduceat(a, lists[2]))


def test_true_is_any_byte_but_0(pool_size):
    """Such bools come from views; each counts as 1."""
    for n in (300, 40_000, 300_000):
        a = (np.arange(n) % 5).astype("u1").view(bool)
        for threads in (1, 3):
            pool_size(threads)
            np.testing.assert_array_equal(pb.par_cumsum(a), np.cumsum(a), strict=True)
            np.testing.assert_array_equal(pb.par_cumsum(a, dtype="f4"), np.cumsum(a, dtype="f4"))
            for at in ([0, 5], [3, 7, n - 1]):
                np.testing.assert_array_equal(
                    pb.par_reduceat(np.add, a, at), np.add.reduceat(a, at), strict=True
                )
            np.testing.assert_array_equal((pb.par_iter(a) + np.int16(1)).collect(), a + np.int16(1))


def test_reduceat_of_times_over_what_it_reads():
    x = np.arange(200_000).astype("m8[s]")
    y = x.copy()
    expected = np.add.reduceat(y, [0, 5, 9], out=y[:3])
    got = pb.par_reduceat(np.add, x, [0, 5, 9], out=x[:3])
    np.testing.assert_array_equal(got, expected, strict=True)
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f(np.add, FLAT, [0, 200_000]),
        lambda f: f(np.add, FLAT, [-1, 5]),
        lambda f: f(np.add, FLAT, [[0, 5]]),
        lambda f: f(np.add, FLAT, [0, 5], axis=1),
        lambda f: f(np.add, FLAT, [0, 5], out=np.zeros(3)),
        lambda f: f(np.sqrt, FLAT, [0, 5]),
        lambda f: f(np.bitwise_and, FLAT, [0, 5]),
    ],
)
def test_reduceat_bad_input(call):
    with pytest.raises(Exception) as expected:  # noqa: PT011 - NumPy says which
        call(lambda op, *args, **options: op.reduceat(*args, **options))
    with pytest.raises(type(expected.value)):
        call(pb.par_reduceat)


@pytest.mark.parametrize("n", [100, 300_000])
@pytest.mark.parametrize("axis", [(0,), (-1,), (0, 1), (), (2,), (True,)])
def test_an_axis_in_a_tuple(n, axis):
    a = np.ones((n, 2), "i4")
    for ours, theirs in (
        (lambda: pb.par_scan(np.add, a, axis=axis), lambda: np.add.accumulate(a, axis=axis)),
        (
            lambda: pb.par_reduceat(np.add, a, [0, 1], axis=axis),
            lambda: np.add.reduceat(a, [0, 1], axis=axis),
        ),
        (lambda: pb.par_cumsum(a, axis=axis), lambda: np.cumsum(a, axis=axis)),
        (lambda: pb.par_cumprod(a, axis=axis), lambda: np.cumprod(a, axis=axis)),
    ):
        same_as(ours, theirs)
