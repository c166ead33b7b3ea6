"""Sums, extremes and moments: NumPy's values, dtypes and shapes; sums within its bound."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from arrays import arrays, assert_same, values
from hypothesis import given, settings
from hypothesis import strategies as st

import pyblitz as pb

EXACT = ["min", "max", "argmin", "argmax", "any", "all", "count_nonzero", "nanmin", "nanmax"]
ROUNDED = ["sum", "prod", "mean", "var", "std", "nansum"]
DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "g", "F", "D"]
DTYPES += [">f8", ">i4", ">u2", "M8[s]", "m8[ns]"]
NO_AXIS_TUPLE = {"argmin", "argmax"}


def outcome(f):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = f()
        except Exception as e:
            result = e
    return result, {str(w.message).split(" encountered")[0] for w in seen}


def check(name, a, *, rounded=False, **options):
    got, warned = outcome(lambda: getattr(pb, "par_" + name)(a, **options))
    expected, should = outcome(lambda: getattr(np, name)(a, **options))
    if isinstance(expected, Exception):
        assert type(got) is type(expected), (got, expected)
        return
    if isinstance(got, Exception):
        raise got
    if not rounded or np.asarray(expected).dtype.kind not in "fc":
        assert_same(got, expected)
        assert warned == should
        return
    assert type(got) is type(expected)
    assert np.asarray(got).dtype == np.asarray(expected).dtype
    assert np.shape(got) == np.shape(expected)
    loose = {"f2": 2e-2, "f4": 1e-4, "F": 1e-4}.get(a.dtype.newbyteorder("=").str[1:], 1e-9)
    loose = 1e-4 if "f4" in (options.get("dtype"), a.dtype) or a.dtype.char == "F" else loose
    np.testing.assert_allclose(got, expected, rtol=loose, atol=loose)


def axes_of(a, name):
    made = [None, *range(-a.ndim, a.ndim), a.ndim]
    if a.ndim > 1 and name not in NO_AXIS_TUPLE:
        made += [(0, 1), tuple(range(a.ndim)), (0, 0), ()]
    return made


@settings(max_examples=250)
@given(arrays(DTYPES), st.sampled_from(EXACT), st.data())
def test_exact(a, name, data):
    options = {"axis": data.draw(st.sampled_from(axes_of(a, name)))}
    if data.draw(st.booleans()):
        options["keepdims"] = data.draw(st.booleans())
    check(name, a, **options)


@settings(max_examples=200)
@given(arrays(DTYPES), st.sampled_from(ROUNDED), st.data())
def test_rounded(a, name, data):
    a = a.copy()
    if a.dtype.kind in "fc":
        # Small and finite, so that a product is near one and a sum far from overflow.
        a[~np.isfinite(a)] = 1
        a = a % 3 if a.dtype.kind == "f" else a
        a = (a * 0 + 1 if name == "prod" else a).astype(a.dtype)
    options = {"axis": data.draw(st.sampled_from(axes_of(a, name)))}
    if data.draw(st.booleans()):
        options["keepdims"] = data.draw(st.booleans())
    check(name, a, rounded=True, **options)


@pytest.mark.parametrize("name", EXACT + ROUNDED)
@pytest.mark.parametrize("n", [10, 60_000])
def test_options(name, n):
    a = values("i4", (3, n), 1)
    f = values("f8", (3, n), 1)
    f[~np.isfinite(f)] = 2
    where = f > 0.5
    for x in (a, f):
        if name not in ("argmin", "argmax", "count_nonzero"):
            more = {"initial": 1} if name in ("min", "max", "nanmin", "nanmax") else {}
            check(name, x, rounded=True, where=where, **more)
            check(name, x, rounded=True, where=where[:1], axis=1, **more)
            check(name, x, rounded=True, where=[True], axis=0, **more)
        if name in ("sum", "prod", "mean", "var", "std", "nansum") and name != "prod":
            check(name, x, rounded=True, dtype="f4")
            check(name, x, rounded=True, dtype="g", axis=1)
        if name in ("sum", "nansum", "min", "max", "nanmin", "nanmax"):
            check(name, x, rounded=True, initial=5)
            check(name, x, rounded=True, initial=-2.5, axis=1)
        if name in ("var", "std"):
            for ddof in (1, 0.5, 3 * n, 3 * n + 1, n):
                check(name, x, rounded=True, ddof=ddof)
                check(name, x, rounded=True, ddof=ddof, axis=0)
            check(name, x, rounded=True, correction=1)
            check(name, x, rounded=True, mean=np.mean(x, keepdims=True))
        if name != "count_nonzero":
            expected = getattr(np, name)(x, axis=1)
            out = np.empty(3, expected.dtype)
            assert getattr(pb, "par_" + name)(x, axis=1, out=out) is out
            np.testing.assert_allclose(out, expected, rtol=1e-9)


@pytest.mark.parametrize("name", EXACT + ROUNDED)
def test_subclasses_and_lists(name):
    a = np.arange(1.0, 100_001)
    for x in [np.ma.masked_less(a % 7, 2), a[:5].tolist(), (1, 2), 3.0, np.float64(3), [], [[]]]:
        got, _ = outcome(lambda x=x: getattr(pb, "par_" + name)(x))
        expected, _ = outcome(lambda x=x: getattr(np, name)(x))
        if isinstance(expected, Exception):
            assert type(got) is type(expected)
        else:
            assert type(got) is type(expected)
            np.testing.assert_array_equal(got, expected)


# ---- NaN, ties, signs ------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "F", "D", "M8[s]", "m8[ns]"])
@pytest.mark.parametrize("at", [(), (0,), (99_999,), (50_000, 70_000), (16_383, 16_384)])
def test_not_a_number(dtype, at):
    a = np.arange(100_000).astype("i8") % 1000 + 1
    a = a.astype(dtype)
    a[list(at)] = "NaT" if dtype[0] in "mM" else np.nan
    for name in ["min", "max", "argmin", "argmax"]:
        check(name, a)
        check(name, a[::-1])
        check(name, a.reshape(10, -1), axis=1)
        check(name, a.reshape(-1, 10), axis=0)
    if dtype[0] not in "mM":
        for name in ["nanmin", "nanmax", "any", "all", "count_nonzero"]:
            check(name, a)
        for name in ["sum", "mean", "var", "nansum"]:
            check(name, a, rounded=True)


def test_all_not_a_number():
    a = np.full((4, 50_000), np.nan)
    for name in ["nanmin", "nanmax", "nansum"]:
        check(name, a)
        check(name, a, axis=0)
        check(name, a, axis=1)
    # No integer is NaN; what they start from may be.
    ints, nothing = np.arange(200_000), np.zeros(200_000, bool)
    for name in ["nanmin", "nanmax"]:
        got = np.empty(())
        with pytest.warns(RuntimeWarning, match="All-NaN"):
            getattr(pb, f"par_{name}")(ints, where=nothing, initial=np.nan, out=got)
        assert np.isnan(got)


@pytest.mark.parametrize("dtype", ["?", "i1", "i8", "f4", "f8", "D"])
def test_ties(dtype, pool_size):
    rng = np.random.default_rng(1)
    a = rng.integers(0, 3, 300_001).astype(dtype)
    for threads in (1, 2, 3, 8):
        pool_size(threads)
        for _ in range(20):
            lo = int(rng.integers(0, 100_000))
            assert pb.par_argmin(a[lo:]) == a[lo:].argmin()
            assert pb.par_argmax(a[lo:]) == a[lo:].argmax()
            assert pb.par_argmax(a[lo::2]) == a[lo::2].argmax()
            assert pb.par_argmin(a[lo:][::-1]) == a[lo:][::-1].argmin()


def test_signs_of_zero():
    for n in (5, 100_000):
        for zero in (0.0, -0.0):
            a = np.full(n, zero)
            for name in ["sum", "mean", "min", "max"]:
                got, expected = getattr(pb, "par_" + name)(a), getattr(np, name)(a)
                assert np.signbit(got) == np.signbit(expected), (name, n, zero)


# ---- sums ----------------------------------------------------------------------------------


def bound(products, u):
    """Of NumPy's pairwise sum: blocks of 128 in eight accumulators, then a tree."""
    n = len(products)
    steps = 16 + 3 + max(0, math.ceil(math.log2(max(n, 2) / 128)))
    return steps * u / (1 - steps * u) * math.fsum(abs(products))


DATA = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "cancelling": lambda rng, n: np.concatenate(
        [a := rng.standard_normal(n // 2) * 1e10, -a[::-1], np.ones(n % 2)]
    ),
    "wide": lambda rng, n: rng.standard_normal(n) * 10.0 ** rng.integers(-15, 15, n),
    "growing": lambda rng, n: np.arange(1.0, n + 1) ** 2,
    "ones": lambda rng, n: np.full(n, 0.1),
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("n", [1000, 16_385, 100_003, 1_000_003])
def test_errors_of_sums(data, n):
    a = DATA[data](np.random.default_rng(n), n)
    true, limit = math.fsum(a), bound(a, 2.0**-53)
    # Products of fewer are NumPy's BLAS's, which adds them as it likes.
    products_are_ours = n > 40_000
    for got in [
        pb.par_sum(a),
        pb.par_sum(a[::-1]),
        pb.par_nansum(a),
        pb.par_mean(a) * n,
        pb.par_sum(np.repeat(a, 2)[::2]),
        pb.par_iter(a).sum(),
        *([pb.par_dot(a, np.ones(n))] if products_are_ours else []),
    ]:
        # The mean is rounded once more.
        assert abs(got - true) <= limit + 2.0**-52 * abs(true)
    f = a.astype("f4")
    true, limit = math.fsum(f), bound(f.astype("f8"), 2.0**-24)
    assert abs(float(pb.par_sum(f)) - true) <= limit
    b = np.random.default_rng(n + 1).standard_normal(n)
    products = a * b
    # Each product is rounded once, of which fsum knows nothing.
    limit = bound(products, 2.0**-53) + 2.0**-53 * math.fsum(abs(products))
    assert not products_are_ours or abs(pb.par_dot(a, b) - math.fsum(products)) <= limit


@pytest.mark.parametrize("n", [1_000, 100_003, 1_000_003])
def test_errors_of_variances(n):
    """Far from zero, where one pass would lose all digits."""
    a = np.random.default_rng(1).standard_normal(n) + 1e8
    mean = math.fsum(a) / n
    true = math.fsum((a - mean) ** 2) / n
    for got in (pb.par_var(a), pb.par_std(a) ** 2, pb.par_iter(a).var()):
        assert abs(got - true) <= 1e-9 * true


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "F", "D"])
def test_same_bits(dtype, pool_size):
    rng = np.random.default_rng(1)
    a = (rng.standard_normal((61, 5003)) / 3).astype(dtype)
    made = {}
    for threads in (1, 2, 3, 8, 2):
        pool_size(threads)
        for name in ROUNDED:
            for axis in (None, 0, 1):
                for i, x in enumerate([a, a.T, a[:, ::2]]):
                    got = repr(np.ravel(getattr(pb, "par_" + name)(x, axis=axis)).tolist())
                    assert made.setdefault((name, axis, i), got) == got
        flat = a.reshape(-1)
        got = repr(np.ravel(pb.par_dot(flat, flat[::-1])).tolist())
        assert made.setdefault("dot", got) == got


# ---- dot -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES[:17])
@pytest.mark.parametrize("n", [0, 1, 1000, 50_000])
def test_dot(dtype, n):
    a = values(dtype, (n,), 1)
    b = values(dtype, (n,), 2)
    if a.dtype.kind in "fc":
        a[~np.isfinite(a)] = 1
        b[~np.isfinite(b)] = 1
    for x, y in [(a, b), (a[::-1], b), (a[::2], b[::2]), (a, 3), (a, b.astype("f8"))]:
        with np.errstate(all="ignore"):
            got, expected = pb.par_dot(x, y), np.dot(x, y)
        assert type(got) is type(expected)
        assert got.dtype == expected.dtype
        loose = {"f2": 0.1, "f4": 1e-3, "F": 1e-3}.get(dtype, 1e-10)
        np.testing.assert_allclose(got, expected, rtol=loose, atol=loose * max(n, 1) ** 0.5)


@pytest.mark.parametrize("n", [10, 300_000])
def test_dot_into_an_array_of_no_axis(n):
    for dtype in ("f8", "i8", "f2"):
        a, out = (np.arange(n) % 100 == 0).astype(dtype), np.empty((), dtype)
        got, expected = pb.par_dot(a, a, out=out), np.dot(a, a)
        assert type(got) is type(expected)
        assert got == expected == out


def test_dot_of_matrices():
    a = values("i8", (300, 200), 1)
    b = values("i8", (200, 70), 2)
    for x, y in [(a, b), (a[::-1], b), (b.T, a.T), (a, b[:, 0]), (a[0], b)]:
        assert_same(pb.par_dot(x, y), np.dot(x, y))
    out = np.empty((300, 70), int)
    assert pb.par_dot(a, b, out) is out
    np.testing.assert_array_equal(out, a @ b)
    assert_same(pb.par_dot(a, b, out=None), np.dot(a, b))
    for x, y in [(a, a), (a, b[:3]), (a[0], b[0])]:
        with pytest.raises(ValueError):
            pb.par_dot(x, y)


def test_minmax():
    for dtype in DTYPES:
        for shape in [(5,), (100_000,), (300, 301), (30_000, 3)]:
            a = values(dtype, shape, 1)
            for axis in (None, 0, -1):
                for x in (a, a.T, a[::-1]):
                    least, greatest = pb.par_minmax(x, axis)
                    assert_same(least, np.min(x, axis))
                    assert_same(greatest, np.max(x, axis))
    for n in (3, 1000, 300_000):  # along no axis, each element is reduced alone
        for got, expected in zip(pb.par_minmax(np.arange(n), ()), [np.arange(n)] * 2, strict=True):
            np.testing.assert_array_equal(got, expected, strict=True)
    with pytest.raises(ValueError):
        pb.par_minmax([])
    with pytest.raises(np.exceptions.AxisError):
        pb.par_minmax(np.ones(100_000), 1)


def test_memory_is_bounded(script):
    """Below 16 MiB, whatever n."""
    out = script(
        """
import sys
import numpy as np, pyblitz as pb
def peak():
    if sys.platform != "linux":
        return 0
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1])
a = np.ones(12_000_000)
b = np.ones(12_000_000, "i2")
pb.par_sum(a)
before = peak()
for x in (a, b, a[::-1]):
    for f in (pb.par_sum, pb.par_mean, pb.par_var, pb.par_std, pb.par_min, pb.par_argmax, pb.par_minmax,
              pb.par_all, pb.par_count_nonzero, pb.par_nansum, pb.par_nanmax):
        f(x)
    pb.par_dot(x, x)
    pb.par_find_last(x, 7)
print(peak() - before)
"""  # noqa: E501
    )
    assert int(out) < 16 * 1024


@pytest.mark.parametrize("name", ["sum", "prod"])
@pytest.mark.parametrize("dtype", ["i1", "i4", "u2", "f2", "?"])
def test_zero_in_a_given_type(name, dtype):
    """NumPy's own start, which a zero is reduced from once more, does not widen it."""
    for a in [np.zeros(300_000, dtype), np.zeros((600, 500), dtype), np.zeros(300_000, "i8")]:
        check(name, a, dtype=dtype)
        check(name, a, dtype=dtype, initial=0)
        check(name, a[::2], dtype=dtype)
        out = np.ones((), dtype)
        assert getattr(pb, "par_" + name)(a, out=out) is out
        assert out == 0


def test_a_wrong_axis_is_forgotten():
    """It once spoilt what was known of sums of that dtype, for good."""
    a = np.ones(100_000)
    for bad in (5, "a", 1.5):
        for f in (pb.par_sum, pb.par_max, pb.par_mean):
            with pytest.raises((TypeError, np.exceptions.AxisError)):
                f(a, axis=bad)
    x = pb.par_iter(a)
    assert (x.mean(), x.var(), x.max()) == (1, 0, 1)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("ddof", [0, 1, 2, 1.5, 99, -2.5, np.nan, -np.inf])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((300_000, 3), 0), ((3, 300_000), 1), ((3000, 100), 1), ((100, 3000), 0), ((1, 300_000), 1),
     ((300, 10, 100), (0, 1)), ((2, 200_000), 0), ((200_000, 99), 1)],
)  # fmt: skip
def test_along_an_axis_nothing_warns(shape, axis, ddof):
    """One element of each row was asked for the dtype, which has no degree of freedom."""
    a = np.random.default_rng(0).random(shape)
    for ours, theirs in ((pb.par_std, np.std), (pb.par_var, np.var)):
        with warnings.catch_warnings(record=True) as expected:
            warnings.simplefilter("always")
            result = theirs(a, axis, ddof=ddof)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            got = ours(a, axis, ddof=ddof)
        np.testing.assert_allclose(got, result, rtol=1e-12)
        assert {str(w.message) for w in said} == {str(w.message) for w in expected}
        if not expected:
            with np.errstate(all="raise"):
                ours(a, axis, ddof=ddof)
