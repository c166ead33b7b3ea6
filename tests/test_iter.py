"""par_iter: an expression gives what NumPy gives for it, and adaptors what their names say."""

from __future__ import annotations

import contextvars
import ctypes
import gc
import html
import itertools
import math
import operator
import sys
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from arrays import arrays, assert_same, values
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyblitz.arrays.evaluate import set_few_bytes
from pyblitz.arrays.front import left_alone

import pyblitz as pb
from pyblitz.kernels.simd import levels

DTYPES = ["?", "i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "g", "F", "D", ">f8", ">i4"]
OPERATORS = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.and_,
    operator.or_,
    operator.xor,
    operator.lt,
    operator.le,
    operator.eq,
    operator.ne,
    operator.ge,
    operator.gt,
    operator.lshift,
    operator.rshift,
]
UFUNCS = sorted(
    {u for u in vars(np).values() if isinstance(u, np.ufunc) and u.signature is None},
    key=lambda u: u.__name__,
)
UNARY = [u for u in UFUNCS if u.nin == 1]
BINARY = [u for u in UFUNCS if u.nin == 2]
SCALARS = [0, 1, 2, -1, 300, 2**63, -(2**70), True, 1.5, 1e300, 1j, np.float32(2), np.int8(3)]
SCALARS += [np.uint64(7), np.array(300), np.array(1.5), float("nan")]


SOMETHING = contextvars.ContextVar("SOMETHING")
FEW = set_few_bytes(0)
set_few_bytes(FEW)


@pytest.fixture(scope="module", autouse=True)
def small_ones_by_programs():
    """Small arrays stand for large ones here, which a program computes; `check` tries both."""
    set_few_bytes(0)
    yield
    set_few_bytes(FEW)


def outcome(f):
    """What a call gives or raises; and what it warns of, each once."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = f()
        except Exception as e:
            result = e
    return result, {str(w.message) for w in seen}


def done(x):
    """Computed."""
    if isinstance(x, tuple):
        return tuple(done(part) for part in x)
    return x.collect() if isinstance(x, pb.ParIter) else x


def check(expression, *inputs, lazy=None):
    """The same of lazy arrays as of arrays."""
    made = pb.par_iter(*inputs) if lazy is None else lazy
    made = made if isinstance(made, tuple) else (made,)
    got, warned = outcome(lambda: done(expression(*made)))
    expected, should = outcome(lambda: expression(*inputs))
    set_few_bytes(FEW)
    few, few_warned = outcome(lambda: done(expression(*made)))
    set_few_bytes(0)
    if isinstance(got, Exception):
        assert type(few) is type(got)
    else:
        assert_same(few, got)
        assert few_warned == warned
    if isinstance(expected, Exception):
        assert isinstance(got, Exception), (got, expected)
        kind = type(expected)
        assert type(got) is kind or (issubclass(kind, TypeError) and type(got) is TypeError), got
        return
    if isinstance(got, Exception):
        raise got
    if isinstance(expected, tuple):
        for g, e in zip(got, expected, strict=True):
            assert_same(g, e)
    else:
        assert_same(got, expected)
    # NumPy may warn of one thing twice, and names the step; all that it says is said.
    assert {w.split(" encountered")[0] for w in warned} == {
        w.split(" encountered")[0] for w in should
    }


CAST = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]


@pytest.mark.parametrize("of", CAST)
def test_every_cast(of):
    """Each pair of types has a loop of its own, for items side by side and apart."""
    a = values(of, (20_000,), 1)
    for to in CAST:
        if np.result_type(of, to) == np.dtype(to) != np.dtype(of):
            for x in (a, a[::-3]):
                check(lambda x, y: x + y, x, np.zeros(x.size, to))


@settings(max_examples=150)
@given(arrays(DTYPES), st.sampled_from(UNARY))
def test_unary(a, fn):
    assume(a.ndim > 0)
    check(lambda x: fn(x), a)


@settings(max_examples=200)
@given(arrays(DTYPES), arrays(DTYPES), st.sampled_from(BINARY + OPERATORS), st.booleans())
def test_binary(a, b, fn, row):
    assume(a.ndim > 0 and b.ndim > 0)
    if row:
        b = b[:1]
    try:
        assume(np.prod(np.broadcast_shapes(a.shape, b.shape)) < 500_000)
    except ValueError:
        a, b = a.reshape(-1)[:1000], b.reshape(-1)[:1000]
    check(lambda x, y: fn(x, y), a, b)


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i8", "u8", "f2", "f4", "f8", "g", "F"])
@pytest.mark.parametrize("swapped", [False, True])
def test_scalars(dtype, swapped):
    """Weak Python numbers, out of range or not, and NumPy's own."""
    a = np.array([0, 1, 100, 3, 0, 7]).astype(dtype)
    for c in SCALARS:
        for fn in [*OPERATORS[:14], operator.pow]:
            if swapped:
                check(lambda x, fn=fn, c=c: fn(c, x), a)
            else:
                check(lambda x, fn=fn, c=c: fn(x, c), a)


@pytest.mark.parametrize("dtype", ["?", "u1", "i8", "f4", "f8", "D", ">f8"])
def test_operations_that_were_asked_for_lately(dtype):
    """Whose loops are known: other shapes, filters, numbers and arrays are seen all the same."""
    a = values(dtype, (6,), 1)
    for _ in range(2):
        for c in (2, 2.0, 2j, True, 255, 2, 10**400):
            check(lambda x, c=c: x * c, a)
            check(lambda x, c=c: c - x, a)
        for c in (2, 0, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**400):
            check(lambda x, c=c: np.logical_and(x, c), a)
            check(lambda x, c=c: np.logical_xor(c, x), a)
        check(lambda x: x * a, a)
        check(lambda x: x * a[:1], a)
        check(lambda x: x * a.reshape(6, 1), a)
        check(lambda x, y: x * y, a.reshape(6, 1), a)
        check(lambda x: x * a[:5], a)
        check(lambda x: x * a[None, ::2].repeat(2, 1), a)
        check(np.sqrt, a)
        # Those that one filter keeps, and those that others do.
        x = pb.par_iter(a)
        kept = x.filter(a != a[0])
        assert_same((kept * kept).collect(), a[a != a[0]] * a[a != a[0]])
        for other in (x.filter(a != a[0]), x):
            with pytest.raises(ValueError, match="the same filter"):
                kept * other
        # Of no axis: what is in it now.
        number = np.array(3, dtype)
        made = x * number, number * x
        number[...] = 1
        for product in made:
            assert_same(product.collect(), a * np.array(3, dtype))
        # In two parts, as chain leaves them.
        both = x.chain(x)
        for product in (both * both, both * np.append(a, a)):
            assert_same(product.collect(), np.append(a, a) * np.append(a, a))


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "f2", "f4", "f8", "g", "F", "D"])
def test_powers(dtype):
    a = np.array([0, 1, 2, 3, 9, 5]).astype(dtype)
    for n in [
        0,
        1,
        2,
        3,
        5,
        0.5,
        -0.5,
        -1,
        -2,
        2.0,
        1.0,
        1j,
        True,
        np.float32(2),
        np.int64(2),
        np.array(2),
    ]:
        check(lambda x, n=n: x**n, a)
        check(lambda x, n=n: n**x, a)
    check(lambda x, y: x**y, a, a)
    check(lambda x: np.power(x, 2), a)


TIMES = {
    "+": lambda t, d, h: t + d,
    "-": lambda t, d, h: t - t[::-1],
    "units": lambda t, d, h: d + h,
    "*": lambda t, d, h: d * 2 + d * 1.5,
    "/": lambda t, d, h: d / h,
    "//": lambda t, d, h: d // h,
    "%": lambda t, d, h: d % h,
    "divmod": lambda t, d, h: divmod(d, h),
    "<": lambda t, d, h: t < t + d,
    "int": lambda t, d, h: d + 1,
    "scalar": lambda t, d, h: t + np.timedelta64(1, "D"),
    "== scalar": lambda t, d, h: t == np.datetime64("1970-01-01T00:00:02"),
    "abs": lambda t, d, h: abs(-d),
    "isnat": lambda t, d, h: np.isnat(t),
    "t + t": lambda t, d, h: t + t,
    "d ** 2": lambda t, d, h: d**2,
    "chain": lambda t, d, h: (t + h - t) * 3 - d,
    "float": lambda t, d, h: h * 0.5 + d,
}


@pytest.mark.parametrize("name", TIMES)
def test_times(name):
    t = values("M8[s]", (40_000,), 1)
    d = values("m8[ms]", (40_000,), 2)
    h = values("m8[h]", (40_000,), 3)
    check(TIMES[name], t, d, h)


@st.composite
def programs(draw):
    """Instructions of a random expression with shared parts: (function, operands)."""
    floats = [np.add, np.subtract, np.multiply, np.maximum, np.hypot, np.copysign, np.arctan2]
    lines = []
    for i in range(draw(st.integers(1, 40))):
        fn = draw(st.sampled_from([*floats, np.sin, np.negative, np.abs, "modf", "f4", "<"]))
        lines.append((fn, draw(st.integers(0, 10**6)), draw(st.integers(0, 10**6)), i))
    return lines


def run(lines, *inputs):
    made = list(inputs)
    for fn, i, j, _ in lines:
        a, b = made[i % len(made)], made[j % len(made)]
        if fn == "modf":
            made += np.modf(a)
        elif fn == "f4":
            made.append(a.astype(np.float32))
        elif fn == "<":
            made.append((a < b) * a)
        else:
            made.append(fn(a, b) if fn.nin == 2 else fn(a))
    return made[-1]


@settings(max_examples=120)
@given(programs(), st.sampled_from([1, 100, 4096, 4097, 20_000]), st.integers(0, 99))
def test_registers_are_used_again(lines, n, seed):
    """Bit for bit, whatever is shared."""
    rng = np.random.default_rng(seed)
    inputs = [rng.standard_normal(n), rng.standard_normal(n).astype("f4"), rng.standard_normal(n)]
    with np.errstate(all="ignore"):
        expected = run(lines, *inputs)
        got = run(lines, *pb.par_iter(*inputs)).collect()
    assert got.dtype == expected.dtype
    assert got.tobytes() == expected.tobytes()


ARITHMETIC = [np.add, np.multiply, np.subtract, np.divide]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "u4", "i8", "u8", "D"])
@pytest.mark.parametrize("first", [*ARITHMETIC, np.square])
@pytest.mark.parametrize("second", ARITHMETIC)
def test_two_operations_in_one_pass(dtype, first, second, simd_level):
    """The same bits at each level, whichever operands are rows, numbers, or lie apart."""
    most = 2**14 if dtype == "f2" else 2**30
    rng = np.random.default_rng(0)
    x, y, z = (rng.integers(-most, most, 103).astype(dtype) for _ in range(3))
    y[3] = z[5] = 0
    one = x[:1].reshape(1, 1)
    table = np.repeat(x[:, None], 4, axis=1)
    for a, b, c in [(x, y, z), (x, 3, z), (3, y, z), (x, y, 3), (x, 3, 5), (3, y, 5), (x, x, x),
                    (x[::-1], y, z), (x[::2], y[::2], z[:52]), (one, table, x[:4]),
                    (table.T, y, table.T)]:  # fmt: skip
        if first is np.square and not isinstance(a, np.ndarray):
            a = b
        lazy = [pb.par_iter(v) if isinstance(v, np.ndarray) else v for v in (a, b, c)]
        for level in levels.names():
            simd_level(level)
            with np.errstate(all="ignore"):
                for turned in (False, True):

                    def both(a, b, c, turned=turned):
                        between = first(a) if first.nin == 1 else first(a, b)
                        return second(c, between) if turned else second(between, c)

                    assert_same(both(*lazy).collect(), both(a, b, c))


def test_which_operations_are_done_in_one_pass():
    a = pb.par_iter(np.arange(20_000.0))
    b = pb.par_iter(np.ones(20_000))
    assert "add(multiply(a0:float64[20000], 2.0), a1:float64[20000])" in repr(a * 2 + b)
    assert "divide(a0:float64[20000], subtract(a1:float64[20000], 2.0))" in repr(b / (a - 2))
    assert "add(subtract(" not in repr((a - 2) + (a - 2))
    assert "multiply(t0, multiply(a0:float64[20000], 2.0))" in repr((a - 2) * (a * 2))
    assert "subtract(a0:float64[20000], square(a1:float64[20000]))" in repr(b - a**2)
    twice = a - 2
    kept, added = twice.zip(twice + b).collect()
    assert np.array_equal(kept, np.arange(20_000.0) - 2)
    assert np.array_equal(added, kept + 1)


@pytest.mark.parametrize(("dtype", "bits"), [("f4", "u4"), ("f8", "u8")])
def test_of_two_nans_the_first_one_stays(dtype, bits, simd_level):
    """In each place of a vector, and behind the last one, at each level."""
    quiet = np.array(np.nan, dtype).view(bits)
    x, y, z = (np.full(43, quiet | k, bits).view(dtype) for k in (1, 2, 3))
    ones = np.ones(43, dtype)
    for level in levels.names():
        simd_level(level)
        for first, second in itertools.product(ARITHMETIC, ARITHMETIC):
            for a, b, turned in [(x, y, 0), (x, y, 1), (x, ones, 0), (x, ones, 1), (ones, x, 1)]:
                between = first(pb.par_iter(a), pb.par_iter(b))
                got = second(z, between) if turned else second(between, pb.par_iter(z))
                stays = (z if turned else x).view(bits)
                assert np.array_equal(got.collect().view(bits), stays), (level, first, second)


@pytest.mark.parametrize("n", [5, 511, 512, 513, 20_001])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_which_of_two_operations_met_an_error(n, dtype):
    """Each warns for itself, as in NumPy, whatever its place in the block."""
    large = np.finfo(dtype).max
    for at in (0, n // 2, n - 1):
        for value in (0.0, large, np.inf, np.nan, -large):
            x = np.ones(n, dtype)
            x[at] = value
            y = np.full(n, 2, dtype)
            for expression in (
                lambda x, y: x * y + 1,
                lambda x, y: x * y - x * y,
                lambda x, y: (x + y) * x,
                lambda x, y: 1 / (x * y),
                lambda x, y: y / x - x,
                lambda x, y: x / (y - 2),
                lambda x, y: (x - x) / (y - 2),
                lambda x, y: x - y / x,
                lambda x, y: x**2 * y,
                lambda x, y: y / x**2,
            ):
                lazy = expression(pb.par_iter(x), pb.par_iter(y))
                for into in (None, x.copy(), y.copy()):
                    expected, should = outcome(lambda: expression(x, y))  # noqa: B023
                    got, warned = outcome(lambda: lazy.collect(into))  # noqa: B023
                    assert_same(got, expected)
                    assert warned == should
                # What is read is written.
                own = x.copy()
                lazy = expression(pb.par_iter(own), pb.par_iter(y))
                got, warned = outcome(lambda: lazy.collect(own))  # noqa: B023
                assert_same(got, expected)
                assert warned == should


@pytest.mark.parametrize("n", [0, 1, 4095, 4096, 4097, 16383, 16384, 16385, 70_000])
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_sizes(n, threads, pool_size):
    pool_size(threads)
    a, b = values("f8", (n,), 1), values("f4", (n,), 2)
    with np.errstate(all="ignore"):
        check(lambda x, y: np.sin(x) * 2 - y * y + x / (y + 1), a, b)
        x, y = pb.par_iter(a, b)
        mask = (a > 0) & (b < 1)
        assert_same(x.filter((x > 0) & (y < 1)).collect(), a[mask])
        assert x.count(lambda v: v > 0) == (a > 0).sum()


def layouts():
    a = values("f8", (30, 40, 20), 5)
    raw = np.empty(a.nbytes + 1, np.uint8)
    odd = raw[1:].view("f8").reshape(a.shape)
    odd[...] = a
    return {
        "C": a,
        "F": np.asfortranarray(a),
        "axes": np.ascontiguousarray(a.transpose(2, 0, 1)).transpose(1, 2, 0),
        "reversed": a[::-1, :, ::-1],
        "strided": np.repeat(a, 2, 2)[:, :, ::2],
        "broadcast": np.broadcast_to(a[:, :, :1], a.shape),
        "row": a[0],
        "column": a[:, :1],
        "odd": odd,
        "swapped": a.astype(">f8"),
    }


@pytest.mark.parametrize("one", layouts())
@pytest.mark.parametrize("two", layouts())
def test_memory_order(one, two):
    """Below the size where NumPy writes into its own temporaries."""
    a, b = layouts()[one], layouts()[two]
    with np.errstate(all="ignore"):
        expected = a + np.sqrt(b)
        x, y = pb.par_iter(a, b)
        got = (x + np.sqrt(y)).collect()
    assert_same(got, expected)
    assert got.strides == expected.strides
    assert pb.par_iter(a).collect().strides == np.copy(a, order="K").strides


def test_memory_order_looks_at_no_value():
    a = np.asfortranarray(np.full((200, 300), np.nan))
    with np.errstate(all="raise"):
        assert (pb.par_iter(a).astype("f4") + np.float32(1)).collect().flags.f_contiguous


def test_many_dimensions():
    a = values("f8", (2,) * 9 + (200,), 1)[..., ::2]
    with np.errstate(all="ignore"):
        check(lambda x: x + 1, a)
        check(lambda x: x * 2.0 + x, a.T)
        x = pb.par_iter(a)
        assert x.count(lambda v: v > 0) == (a > 0).sum()
        assert x.position(1e9) is None
        out = np.empty(a.shape[::-1]).T
        assert (x + 1).collect(out) is out
        np.testing.assert_array_equal(out, a + 1)


# ---- expressions that are too large for one program ---------------------------------


@pytest.mark.parametrize("n", [2, 16, 17, 40])
@pytest.mark.parametrize("filtered", [False, True])
def test_many_arrays(n, filtered):
    parts = [np.full(50_000, i + 0.5) for i in range(n)]
    x = sum(pb.par_iter(*parts))
    a = sum(parts)
    if filtered:
        x = x.filter(lambda v: v > 0)
    assert_same(x.collect(), a)
    assert x.sum() == a.sum()
    assert x.min() == a.min()
    assert x.max() == a.max()
    assert x.any()
    assert x.count(lambda v: v > 0) == 50_000
    assert x.find_first(lambda v: v > 0) == a[0]
    assert "ParIter" in repr(x)
    out = np.empty(50_000)
    assert_same(x.collect(out), a)


@pytest.mark.parametrize("n", [100, 127, 128, 129, 300, 3000])
def test_many_steps(n):
    a = np.full(20_000, 0.25)
    x = pb.par_iter(a)
    for _ in range(n):
        x = x + 1.0
    assert_same(x.collect(), a + n)
    assert x.filter(lambda v: v > 0).sum() == (a + n).sum()


def test_many_steps_of_a_filter():
    a = np.arange(20_000.0)
    x = pb.par_iter(a).filter(lambda v: v % 2 == 0)
    for _ in range(200):
        x = x + 1.0
    y = x.filter(lambda v: v % 4 == 0)
    for _ in range(200):
        y = y + 1.0
    b = a[a % 2 == 0] + 200
    assert_same(y.collect(), b[b % 4 == 0] + 200)


def test_shared_steps_run_once():
    """2 ** 200 additions are not made."""
    x = pb.par_iter(np.ones(1000) * 2.0**-100)
    y = pb.par_iter(np.ones((30, 30), order="F"))
    for _ in range(200):
        x = x + x
        y = (y + y) / 2
    assert_same(x.collect(), np.full(1000, 2.0**100))
    np.testing.assert_array_equal(y.collect(), np.ones((30, 30)))


def test_very_deep():
    x = pb.par_iter(np.zeros(10))
    for _ in range(50_000):
        x = x + 1
    np.testing.assert_array_equal(x[2:4].collect(), [50_000, 50_000])
    del x


# ---- adaptors ---------------------------------------------------------------------


def test_adaptors_by_position():
    a = values("f8", (50_000,), 1)
    x = pb.par_iter(a)
    with np.errstate(all="ignore"):
        for y, b in [(x, a), (x * 2, a * 2), (x.filter(lambda v: v > 0), a[a > 0])]:
            assert_same(y.rev().collect(), b[::-1].copy())
            assert_same(y.take(7).collect(), b[:7].copy())
            assert_same(y.take(10**9).collect(), b.copy())
            assert_same(y.skip(49_000).collect(), b[49_000:].copy())
            assert_same(y.skip(3).step_by(7).rev().take(100).collect(), b[3::7][::-1][:100].copy())
            assert_same(y.chain(y.rev()).collect(), np.concatenate([b, b[::-1]]))
            assert_same(
                y.chain(y)[3 : len(b) + 5].collect(), np.concatenate([b, b])[3 : len(b) + 5]
            )
            i, v = y.enumerate().collect()
            assert_same(i, np.arange(len(b)))
            assert_same(v, b.copy())
            p, q = y.enumerate().rev().step_by(3).collect()
            assert_same(p, np.arange(len(b))[::-1][::3].copy())
            assert_same(q, b[::-1][::3].copy())
    for bad in [lambda: x.take(-1), lambda: x.skip(-1), lambda: x.step_by(0), lambda: x.chunks(0)]:
        with pytest.raises(ValueError):
            bad()
    for bad in [lambda: x.take("a"), lambda: x.chunks(1.5), lambda: x[0], lambda: x.inspect(3)]:
        with pytest.raises(TypeError):
            bad()


@pytest.mark.parametrize("n", [5, 50_000])
def test_positions_count_whatever_lies_reversed(n):
    """A pass may go through memory the other way round, but not where positions count."""
    a = np.arange(n * 1.0)
    k = np.arange(n)
    x = pb.par_iter(a).rev()
    assert_same(x.enumerate().map(lambda i, v: i * v).sum(), (k * a[::-1]).sum())
    assert_same(x.enumerate().map(lambda i, v: v - i).max(), (a[::-1] - k).max())
    _, v = x.enumerate().filter(lambda i, v: i < 2)
    assert v.sum() == a[-2:].sum()
    for out in [np.empty(n)[::-1], np.empty(2 * n)[::-2]]:
        pb.par_iter(a).enumerate().map(lambda i, v: i * v).collect(out)
        assert_same(out.copy(), k * a)
    rows = np.arange(6 * n).reshape(n, 6)
    for b in (rows[::-1], np.asfortranarray(rows), rows[:, ::-1].T):
        y = pb.par_iter(b).flatten()
        assert_same(y.enumerate().map(operator.mul).sum(), (np.arange(6 * n) * b.ravel()).sum())


@pytest.mark.parametrize("n", [5, 3_000])
def test_positions_are_broadcast(n):
    i, _ = pb.par_iter(np.arange(n)).enumerate()
    k = np.arange(n)
    rows = np.arange(3 * n).reshape(3, n)
    for m in (rows, np.asfortranarray(rows), rows[::-1, ::-1], rows.reshape((1,) * 7 + (3, n))):
        assert_same((i + m).collect(), k + m)
        assert_same((i * m).sum(), (k * m).sum())
        assert_same((m - (i * 2 + i)).max(), (m - k * 3).max())
        assert_same((i + m).flatten().collect(), (k + m).ravel())
        assert_same((i[::-2] + m[..., ::2]).collect(), k[::-2] + m[..., ::2])
    assert_same((i + rows)[0:1].collect(), (k + rows)[0:1])
    assert_same((i + rows)[::-1].collect(), (k + rows)[::-1])
    single, _ = pb.par_iter(np.ones(1)).enumerate()
    assert_same((single + k)[1:].collect(), k[1:])
    assert_same((single + k).filter(lambda v: v > 2).collect(), k[3:])


@pytest.mark.parametrize("cuts", [(1, 3), (3, 1), (0, 4), (2, 2)])
def test_chains_side_by_side(cuts):
    """Parts of other lengths, and arrays of more dimensions, as the whole would be."""
    a, b = np.arange(4.0), np.arange(4.0) * 10
    x = pb.par_iter(a[: cuts[0]]).chain(a[cuts[0] :])
    y = pb.par_iter(b[: cuts[1]]).chain(b[cuts[1] :])
    assert_same((x + y).collect(), a + b)
    assert_same(x.zip(y).map(np.add).collect(), a + b)
    assert_same((x + b).collect(), a + b)
    assert_same((b.reshape(4, 1) + x).collect(), b.reshape(4, 1) + a)
    assert_same((x + np.ones((4, 4))).collect(), a + np.ones((4, 4)))
    assert_same((x + np.ones((3, 4))).collect(), a + np.ones((3, 4)))
    assert_same(x.filter(y > 10).collect(), a[b > 10])
    assert_same(x.filter(lambda v: v > 1).collect(), a[a > 1])
    assert x.filter(lambda v: v > 1).sum() == a[a > 1].sum()
    assert (x.sum(), x.min(), x.max(), x.mean(), x.var()) == (6, 0, 3, 1.5, 1.25)
    assert x.find_last(lambda v: v < 2) == 1
    assert x.position(2) == 2
    with pytest.raises(ValueError):
        x + np.ones(3)


def test_chains_of_rows():
    a = np.arange(12.0).reshape(4, 3)
    x = pb.par_iter(a[:1]).chain(a[1:])
    assert x.shape == (4, 3)
    row, column = np.arange(3.0), np.arange(4.0).reshape(4, 1)
    assert_same((x + row).collect(), a + row)
    assert_same((x + column).collect(), a + column)
    assert_same((x * a).collect(), a * a)
    assert_same(x.flatten().collect(), a.reshape(-1))
    assert_same(
        (pb.par_iter([1.0]).chain([2.0]) + np.arange(4.0).reshape(2, 2)).collect(),
        np.array([1.0, 2.0]) + np.arange(4.0).reshape(2, 2),
    )


def test_what_is_computed_on_the_way_is_not_kept():
    """What is in an array when the chain ends counts, each time."""
    a = np.arange(10.0)
    x = pb.par_iter(a).filter(lambda v: v > 3)
    y = pb.par_iter(a).chain(a)
    assert x.take(2).collect().tolist() == [4, 5]
    assert y.take(2).collect().tolist() == [0, 1]
    a += 100
    assert x.take(2).collect().tolist() == [100, 101]
    assert len(x) == 10
    assert y.collect().tolist() == [*a, *a]


def test_filters():
    a = values("f8", (100_003,), 1)
    i = np.arange(100_003)
    x, y = pb.par_iter(a, i)
    with np.errstate(all="ignore"):
        f = x.filter(lambda v: v > 0)
        b = a[a > 0]
        assert_same(f.collect(), b)
        assert_same((f * 2 + f).collect(), b * 2 + b)
        assert_same(f.filter(lambda v: v < 1).collect(), b[b < 1])
        assert_same(
            f.filter(lambda v: v < 1).filter(lambda v: v > 0.5).map(np.sqrt).collect(),
            np.sqrt(b[(b < 1) & (b > 0.5)]),
        )
        p, q = x.zip(y).filter(lambda v, k: (v > 0) & (k % 3 == 0)).collect()
        both = (a > 0) & (i % 3 == 0)
        assert_same(p, a[both])
        assert_same(q, i[both])
        assert f.count() == len(f) == f.size == len(b)
        assert f.any() and f.max() == b.max() and f.find_last(lambda v: v < 1) == b[b < 1][-1]
        assert f.position(lambda v: v > 1) == np.flatnonzero(b > 1)[0]
        assert_same(f.sort().copy(), np.sort(b))
        assert_same(x.filter(np.isnan).count(), int(np.isnan(a).sum()))
        assert_same(x.filter(0.0).collect(), a[a == 0.0])
        none = x.filter(lambda v: v > np.inf)
        assert none.collect().shape == (0,)
        assert none.sum() == 0 and none.count() == 0 and not none.any() and none.all()
        with pytest.raises(ValueError):
            none.max()
        with pytest.raises(ValueError):
            f + np.ones(len(b))
        for other in (x, x.chain(x), f.chain(x), x.chain(f)):
            for pair in ((f, other), (other, f)):
                with pytest.raises(ValueError, match="same filter"):
                    operator.add(*pair)
        eight = x.filter(lambda v: v > 0).zip(*[x.filter(lambda v: v > 0)] * 7)
        assert all(np.array_equal(z, b) for z in eight.collect())
    with pytest.raises(ValueError):
        pb.par_iter(np.ones((3, 3))).filter(np.isnan)


def test_masks_lie_beside_what_they_mask():
    """A mask of other elements is refused, as NumPy does; it is not broadcast."""
    a = np.arange(6.0)
    x = pb.par_iter(a)
    f = x.filter(x > 2)
    other = x.filter(x > 2)
    short, three = pb.par_iter(np.array([1.0]), np.array([1, 0, 1]))
    ends = [
        lambda v, m: v.filter(m).collect(),
        lambda v, m: v[m].collect(),
        lambda v, m: v.mask(m).collect(),
        lambda v, m: v.any(m),
        lambda v, m: v.all(m),
        lambda v, m: v.count(m),
        lambda v, m: v.position(m),
        lambda v, m: v.find_first(m),
        lambda v, m: v.zip(v).filter(m).collect(),
    ]
    for end in ends:
        for v, m in [
            (x, f > 3),
            (x, short > 0),
            (x, three > 0),
            (pb.par_iter(np.array([7.0])), three > 0),
            (x.chain(x), short > 0),
            (x.chain(x), f.chain(f) > 3),
            (f, other > 3),
            (f, x > 3),
            (f, a > 3),
            (f, short > 0),
            (f.chain(x), x.chain(f) > 3),
        ]:
            with pytest.raises(ValueError):
                end(v, m)
    with pytest.raises(ValueError):
        f.zip(other).filter(f > 3)


def test_masks_after_a_filter():
    """One that a filter does not know is of the elements that were kept."""
    a = np.arange(6.0)
    x = pb.par_iter(a)
    f, b = x.filter(x > 2), a[a > 2]
    plain = np.array([True, False, True])
    for mask in (plain, pb.par_iter(plain), pb.par_iter(plain * 3) > 1):
        assert_same(f[mask].collect(), b[plain])
        assert_same(f.filter(mask).map(np.sqrt).collect(), np.sqrt(b[plain]))
        assert_same(f.mask(mask).collect(), plain)
        assert f.count(mask) == 2 and f.any(mask) and not f.all(mask)
        assert f.position(~mask) == 1 and f.find_last(mask) == 5
        p, q = f.zip(f * 2).filter(mask).collect()
        assert_same(p, b[plain])
        assert_same(q, b[plain] * 2)
    assert_same(f.filter(f > 3).collect(), b[b > 3])
    assert f.position(f > 3) == 1
    assert (f.find_first(f > 3), f.find_last(f > 3), f.find_any(f > 4)) == (4, 5, 5)
    assert f.find_first(f > 9) is None
    each = f.filter(lambda v: np.array([t > 3 for t in v]))
    assert_same(each.collect(), b[b > 3])
    assert f.position(lambda v: np.array([t > 3 for t in v])) == 1
    both, whole = f.chain(x), np.concatenate([b, a])
    assert_same(both.filter(both > 3).collect(), whole[whole > 3])
    assert_same(both.filter(whole > 3).collect(), whole[whole > 3])
    assert both.position(both < 1) == 3


def test_predicates_where_numpy_does_the_rest():
    a = np.arange(6.0).reshape(2, 3)
    x = pb.par_iter(a)
    for fn in (lambda v: v > 5, lambda v: v < 9, lambda v: v > 2):
        for axis in (0, 1, -1):
            assert_same(x.any(fn, axis=axis), np.any(fn(a), axis=axis))
            assert_same(
                x.all(fn, axis=axis, keepdims=True), np.all(fn(a), axis=axis, keepdims=True)
            )
    t = pb.par_iter(np.array(["2020-01-01", "2025-01-01"], "M8[D]"))
    early, late = np.datetime64("2020-01-01"), np.datetime64("2030-01-01")
    assert t.any(lambda v: v > early) and not t.any(lambda v: v > late)
    assert t.all(lambda v: v < late) and not t.all(lambda v: v > early)
    assert x.any() and not x.all()


def test_a_zip_of_several_filters():
    """Each filter has its own pass."""
    a = values("f4", (50_000,), 1)
    x = pb.par_iter(a)
    f, g = (x.filter(lambda v: v > 1) for _ in range(2))
    b = a[a > 1]
    for lazy, expected in [((f, g), (b, b)), ((f, -f, g, f), (b, -b, b, b))]:
        for got, e in zip(lazy[0].zip(*lazy[1:]).collect(), expected, strict=True):
            assert_same(got, e)
    assert_same(f.zip(g).map(np.add).collect(), b + b)
    with pytest.raises(ValueError, match="same filter"):
        f + g
    with pytest.raises(ValueError, match="shapes differ"):
        f.zip(f.filter(lambda v: v < 2)).collect()
    with pytest.raises(ValueError, match="shapes differ"):
        f.chain(f).zip(f.chain(x)).collect()


def test_chunks_are_of_a_lazy_array():
    for bad in ([1, 2, 3], np.arange(3), None, pb.par_iter([1, 2]).chunks(1)):
        with pytest.raises(TypeError, match="source"):
            pb.ParChunks(bad, 2, 2)
    x = pb.par_iter(np.arange(5))
    for step in (0, -1, 3, 1.5):
        with pytest.raises(ValueError, match="step"):
            pb.ParChunks(x, 2, step)
    assert [c.tolist() for c in pb.ParChunks(x, 2, 2).collect()] == [[0, 1], [2, 3], [4]]
    assert len(pb.ParChunks(x, 2, 1)) == 4
    with pytest.raises(TypeError, match="op: expected a ufunc"):
        x.chunks(2).reduce(max)
    assert x.chunks(2).reduce(np.maximum).collect().tolist() == [1, 3, 4]


@pytest.mark.parametrize("size", [0, 1, 10, 4097])
@pytest.mark.parametrize("n", [1, 3, 10, 5000])
def test_chunks_and_windows(size, n):
    a = np.arange(float(size))
    x = pb.par_iter(a)
    rows = [a[i : i + n] for i in range(0, size, n)]
    assert len(x.chunks(n)) == len(rows)
    assert [r.tolist() for r in x.chunks(n).collect()] == [r.tolist() for r in rows]
    assert x.chunks(n).sum().collect().tolist() == [r.sum() for r in rows]
    assert x.chunks(n).flatten().collect().tolist() == a.tolist()
    if n < 100:
        views = [a[i : i + n] for i in range(size - n + 1)]
        assert len(x.windows(n)) == len(views)
        assert x.windows(n).max().collect().tolist() == [v.max() for v in views]
        assert [r.tolist() for r in x.windows(n).collect()] == [v.tolist() for v in views]
        assert x.windows(n).flatten().collect().tolist() == [e for v in views for e in v]


def test_flatten():
    for a in layouts().values():
        assert_same(pb.par_iter(a).flatten().collect(), a.copy().reshape(-1))
        with np.errstate(all="ignore"):
            assert_same((pb.par_iter(a) * 2 + 1).flatten().collect(), (a * 2 + 1).reshape(-1))


# ---- functions ----------------------------------------------------------------------


def in_another_context(v):
    """But in the same errstate."""
    token = SOMETHING.set(1)
    try:
        return v * 2
    finally:
        SOMETHING.reset(token)


class Incomparable:
    def __eq__(self, other):
        raise ValueError("which is not to be asked")

    __hash__ = None


def in_a_context_of_its_own(v):
    """Of what cannot be compared."""
    token = SOMETHING.set(Incomparable())
    try:
        return v * 2
    except ValueError:
        return v * 3
    finally:
        SOMETHING.reset(token)


def in_another_errstate(v):
    with np.errstate(divide="raise"):
        return v * 2


def test_a_function_is_not_its_attribute():
    """`functools.wraps` copies what may be a ufunc."""

    def over(v):
        return v > 0.5

    over.ufunc = np.isnan
    a = np.linspace(0, 1, 1001)
    x = pb.par_iter(a)
    for n in (x.count(over), x.map(over).sum(), pb.par_map(over, a).sum()):
        assert n == 500


def test_functions_traced_and_not():
    a = values("f8", (100_000,), 1)
    x = pb.par_iter(a)
    with np.errstate(all="ignore"):
        for fn in [
            np.sin,
            lambda v: v * 2 + np.cos(v),
            lambda v: np.where(v > 0, v, -v),
            lambda v: v if v.sum is None else np.clip(v, -1, 1),
            lambda v: np.array([t * 2 for t in v]),
            lambda v: 3.0,
            lambda v: v > 0,
        ]:
            expected = np.broadcast_to(fn(a), a.shape).copy()
            assert_same(x.map(fn).collect(), expected)
            f = x.filter(lambda v: v > 0).map(fn)
            assert_same(f.collect(), np.broadcast_to(fn(a[a > 0]), f.collect().shape).copy())
        assert "GIL" not in repr(x.map(lambda v: v * 2 + np.cos(v)))
        assert "GIL" not in repr(x.map(lambda v: np.where(v > 0, v, np.clip(v, -1, 1))))
        assert "GIL" in repr(x.map(lambda v: np.interp(v, [0, 1], [0, 1])))
        assert "GIL" not in repr(x.map(in_another_context))
        assert "GIL" in repr(x.map(in_another_errstate))
        token = SOMETHING.set(Incomparable())
        assert_same(x.map(in_a_context_of_its_own).collect(), a * 2)
        assert "GIL" not in repr(x.map(in_a_context_of_its_own))
        SOMETHING.reset(token)
        assert_same(
            x.zip(a[::-1]).map(lambda v, w: np.where(v > w, v, w)).collect(),
            np.where(a > a[::-1], a, a[::-1]),
        )


LIMIT = 0.5


def calls_of(fn, times, use):
    """How often fn is called while `use` is."""
    calls = 0

    def profile(frame, event, arg):
        nonlocal calls
        calls += event == "call" and frame.f_code is fn.__code__

    sys.setprofile(profile)
    try:
        for _ in range(times):
            use(fn)
    finally:
        sys.setprofile(None)
    return calls


def above(limit):
    return lambda v: v > limit


def among(above, below):
    return lambda v: (v > above) & (v < below)


def far(v):
    """With a large number."""
    w = v * 100_000
    return w > 1e5


@pytest.mark.parametrize(
    "fn",
    [
        far,
        lambda v: v > 0.5,
        lambda v: 1 - v * v >= -v,
        lambda v: v > LIMIT,
        lambda v: v,
        above(0.5),
        above(np.float64(0.5)),
    ],
)
def test_functions_of_operators_are_asked_twice(fn):
    """They can only stand for the same again, of any array of the dtype."""
    for i, a in enumerate([values("f8", (50,), 1), values("f8", (7,), 2), np.eye(4)]):
        x = pb.par_iter(a)
        assert calls_of(fn, 5, x.map) == (2 if i == 0 else 0)
        assert_same(x.map(fn).collect(), np.asarray(fn(a)))
    x = pb.par_iter(a[1])
    assert calls_of(fn, 5, x.mask) == 0
    assert_same(x.filter(fn).collect(), a[1][fn(a[1]) != 0])
    # Of what a filter keeps, and of another expression.
    kept = a[1][a[1] < 0.7]
    assert_same((x.filter(lambda v: v < 0.7) * 3).filter(fn).collect(), kept[fn(kept * 3) != 0] * 3)
    b = np.arange(5, dtype="f4")
    assert_same(pb.par_iter(b).map(fn).collect(), np.asarray(fn(b)))


def power(m):
    return lambda v: v**m


def scaled(m):
    """Beside a number of the code, which may be the same one."""
    return lambda v: v * 2 > m


def power_and_more(m):
    return lambda v: v**m + m


def far_from(m):
    """Beside small numbers of the code, which Python 3.14 has in its instructions."""
    return lambda v: v * 2 + 3 > m


def clipped(low, high):
    return lambda v: ((v > low) & (v < high)) * v


@pytest.mark.parametrize("number", [float, np.float64])
@pytest.mark.filterwarnings("ignore:invalid")
def test_functions_of_operators_and_other_numbers_are_asked_twice(number):
    a = values("f8", (50,), 1)
    x = pb.par_iter(a)
    for make, count in ((above, 1), (scaled, 1), (clipped, 2)):
        for i, m in enumerate((0.125, 0.25, 0.5, 0.75, 1.5, 0.125)):
            fn = make(*[number(m + k) for k in range(count)])
            calls = calls_of(fn, 1, x.map)
            assert calls == 0 or i < 2
            assert_same(x.map(fn).collect(), np.asarray(fn(a)))
            assert_same(x.filter(fn).collect(), a[fn(a) != 0])


def test_functions_of_other_numbers_stand_for_others():
    """Exponents, one number in two places, other types, and what the dtype does not hold."""
    for dtype in ("f8", "f4", "i4", "u1"):
        a = np.arange(1, 9, dtype=dtype)
        x = pb.par_iter(a)
        for make, numbers in (
            (power, [2, 2, 3, 3, 2, 1, 4, 0.5, 0.5, 2.0, 3.0, 4.0]),
            (power_and_more, [5, 5, 2, 3, 3, 1, 1, 2, 0.5, 0.5, 3.0, 2.0]),
            (far_from, [3, 3, 5, 2, 7, 9.5, 9.5, 3.0, 7.0]),
            (scaled, [2, 2, 3, 5, 2, 7.5, 7.5, 3.5, 2, np.float64(3), 2.0, -1, 300, 4]),
            (above, [1, 2, 3, 2.5, 2.5, 3.5, 300, -1, 3]),
        ):
            for m in numbers:
                fn = make(m)
                assert_same(x.map(fn).collect(), fn(a))
        for low, high in ((2, 2), (2, 2), (2, 5), (1, 7), (3, 3.5), (3, 3.5), (2, 4), (2.5, 4.5)):
            fn = clipped(low, high)
            assert_same(x.map(fn).collect(), fn(a))
    # Where a power is rounded otherwise than a root.
    for dtype in ("g", "D"):
        a = np.arange(1, 1001).astype(dtype) / 7
        for m in (3.0, 3.0, 0.5, 0.5, 3.0):
            assert_same(pb.par_iter(a).map(power(m)).collect(), a**m)
    bytes_ = pb.par_iter(np.arange(9, dtype="u1"))

    def plus(m):
        return lambda v: v + m

    for m in (1, 2, 3):
        assert_same(bytes_.map(plus(m)).collect(), np.arange(9, dtype="u1") + m)
    with pytest.raises(OverflowError):
        bytes_.map(plus(300))
    assert_same(bytes_.map(plus(4)).collect(), np.arange(9, dtype="u1") + 4)


def test_functions_of_others_are_asked_again(monkeypatch):
    """Whose cells, global names, defaults or code may be others, or that do more than apply
    operators."""
    a = np.arange(5.0)
    x = pb.par_iter(a)
    limit = 1.5

    def cell(v):
        return v > limit

    def default(v, *, least=1.5):
        return v > least

    def counts(v):
        nonlocal limit
        limit += 1
        return v > 1

    def writes(v):
        nonlocal limit
        limit = 7.0
        return v > 1

    def by_global(v):
        return v > LIMIT

    def kept(fn):
        """By its third call, before which it would have been remembered."""
        return {x.filter(fn).count() for _ in range(3)}

    assert kept(cell) == {3}
    limit = 2.5
    assert kept(cell) == {2}
    assert kept(above(0.5)) == {4}
    assert kept(above(3.5)) == {1}
    low = 0.5
    for high, n in ((1.5, 1), (3.5, 3), (1.5, 1)):
        assert kept(among(low, high)) == {n}
    cell.__code__ = above(0.5).__code__.replace(co_name="another")
    assert kept(cell) == {2}
    assert kept(by_global) == {4}
    monkeypatch.setitem(globals(), "LIMIT", 3.5)
    assert kept(by_global) == {1}
    monkeypatch.delitem(globals(), "LIMIT")
    with pytest.raises(NameError, match="LIMIT"):
        x.filter(by_global).count()
    assert kept(default) == {3}
    default.__kwdefaults__ = {"least": 3.5}
    assert kept(default) == {1}
    del limit
    with pytest.raises(NameError, match="limit"):
        x.filter(cell).count()
    limit = 0.0
    assert calls_of(counts, 3, x.filter) == 3
    assert limit == 3.0
    assert calls_of(writes, 3, x.filter) == 3
    assert limit == 7.0


def test_numbers_that_change_while_a_function_is_asked(monkeypatch):
    """By another thread; here by a profiler."""
    x = pb.par_iter(np.arange(5.0))

    def fn(v):
        return v > LIMIT

    def profile(frame, event, arg):
        if frame.f_code is fn.__code__:
            monkeypatch.setitem(globals(), "LIMIT", 3.5 if event == "call" else 2.5)

    x.filter(fn)
    sys.setprofile(profile)
    x.filter(fn)
    sys.setprofile(None)
    for limit, kept in ((0.5, 4), (2.5, 2), (3.5, 1), (0.5, 4)):
        monkeypatch.setitem(globals(), "LIMIT", limit)
        assert x.filter(fn).count() == kept


class Names(dict):
    def __missing__(self, name):
        raise NameError(name)


def test_names_of_a_namespace_that_is_no_plain_dict():
    names = Names(__builtins__=__builtins__, LIMIT=2.5)
    exec("clipped = lambda v: v.clip(1, 3)\nabove = lambda v: v > LIMIT", names)
    x = pb.par_iter(np.arange(5.0))
    assert_same(x.map(names["clipped"]).collect(), np.clip(np.arange(5.0), 1, 3))
    assert calls_of(names["above"], 3, x.filter) == 3
    assert x.filter(names["above"]).count() == 2


def test_functions_that_are_asked_twice_warn_each_time():
    zero = np.float64(0)
    x = pb.par_iter(np.arange(5.0))
    for fn in (lambda v: v > 1 / zero, lambda v: v * (zero / zero)):
        for _ in range(3):
            with pytest.warns(RuntimeWarning):
                x.map(fn)
    halves = pb.par_iter(np.ones(3, "f2"))
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="overflow"):
            halves.map(lambda v: v + 1e6)
    # Of numbers that are to be times, NumPy 2.5 warns.
    times = pb.par_iter(np.arange(5).astype("m8[s]"))
    assert calls_of(lambda v: v + 1, 3, times.map) == 3


def test_functions_inside_another_errstate_are_asked_again():
    """So that they stand for the same the second time."""
    other = pb.par_iter(np.arange(1.0, 6.0))

    def reciprocal(t):
        return 1 / t

    def strict(v):
        with np.errstate(divide="raise"):
            return pb.par_iter(v).map(reciprocal)

    def strict_of_another(v):
        with np.errstate(divide="raise"):
            return other.map(reciprocal)

    x = pb.par_iter(np.arange(1.0, 6.0))
    for fn in (strict, strict_of_another):
        reciprocal.__code__ = reciprocal.__code__.replace(co_name=fn.__name__)
        first = repr(x.map(fn))
        for _ in range(3):
            x.map(reciprocal)
        assert repr(x.map(fn)) == first != repr(x.map(reciprocal))


def test_what_functions_stood_for_holds_no_array():
    a = np.arange(5.0)
    gone = weakref.ref(a)
    x = pb.par_iter(a)
    for _ in range(3):
        x.map(lambda v: v + 1.25)
        x.filter(lambda v: v * v > 1.25)
    del a, x
    gc.collect()
    assert gone() is None


def test_one_function_of_two_dtypes():
    """Common subexpressions are of one dtype and one kind."""

    def fn(v):
        return np.where(v > 0, v / 3, v)

    a = np.arange(1.0, 10_000)
    x = pb.par_iter(a)
    f4, f8 = x.map(fn, dtype=np.float32).zip(x.map(fn, dtype=np.float64)).collect()
    assert_same(f4, fn(a).astype("f4"))
    assert_same(f8, fn(a))
    seen, mapped = x.inspect(fn).zip(x.map(fn)).collect()
    assert_same(seen, a)
    assert_same(mapped, fn(a))


def test_functions_of_five_arrays():
    def last(*v):
        return np.select([v[0] >= 0], [v[-1]])

    a = [np.arange(10.0) + i for i in range(6)]
    lazy = pb.par_iter(*a)
    one = lazy[0].zip(*lazy[1:5]).map(last)
    two = lazy[0].zip(*lazy[1:4], lazy[5]).map(last)
    assert_same((one * 100 + two).collect(), a[4] * 100 + a[5])
    many = lazy[0].zip(*[a[0]] * 11).map(last)
    with pytest.raises(ValueError, match="arrays in one step"):
        many.collect()


class Unhashable:
    __hash__ = None

    def __eq__(self, other):
        return True

    def __call__(self, v):
        return np.where(v > 3, v, 0)


def test_functions_need_not_be_hashable():
    assert pb.par_iter(np.arange(6.0)).map(Unhashable()).collect().tolist() == [0, 0, 0, 0, 4, 5]


@pytest.mark.parametrize("where", ["map", "filter", "inspect", "for_each", "chunks"])
def test_exceptions_of_functions(where):
    """They come out with a traceback, and the pool goes on."""

    def bad(v):
        if np.asarray(v).max() > 90_000:
            raise LookupError("here")
        return v > 0

    x = pb.par_iter(np.arange(100_000.0))
    ends = {
        "map": lambda: x.map(bad).collect(),
        "filter": lambda: x.filter(bad).sum(),
        "inspect": lambda: x.inspect(bad).sum(),
        "for_each": lambda: x.for_each(bad),
        "chunks": lambda: x.chunks(1000).map(bad),
    }
    for _ in range(3):
        with pytest.raises(LookupError, match="here"):
            ends[where]()
        assert x.sum() == 4999950000


def test_functions_that_are_not_elementwise():
    x = pb.par_iter(np.arange(100_000.0))
    with pytest.raises(ValueError, match="elementwise"):
        x.map(lambda v: np.asarray(v)[:3]).collect()
    with pytest.raises(TypeError):
        x.map(lambda v: "a").collect()
    with pytest.raises(TypeError):
        x.map(3)


def test_inspect_sees_each_element_once():
    seen = []
    a = np.arange(100_000)
    pb.par_iter(a).filter(lambda v: v % 2 == 0).inspect(lambda b: seen.append(b)).count(
        lambda v: v > 0
    )
    assert sorted(np.concatenate(seen)) == list(range(0, 100_000, 2))
    seen.clear()
    pb.par_iter(a).for_each(seen.append)
    assert sorted(np.concatenate(seen)) == a.tolist()


# ---- compiled kernels ----------------------------------------------------------------


def block_kernel():
    """x -> 2 x, of rows without gaps; keeps the function alive."""
    address = ctypes.POINTER(ctypes.c_double)
    made = ctypes.CFUNCTYPE(None, address, address, ctypes.c_ssize_t, ctypes.c_void_p)

    @made
    def double(a, out, n, _):
        for i in range(n):
            out[i] = 2 * a[i]

    return double


@pytest.fixture(scope="module")
def numba_kernels():
    numba = pytest.importorskip("numba")
    types = numba.types
    scalar = numba.cfunc(types.double(types.double))(lambda v: v * 2 + 1)
    two = numba.cfunc(types.double(types.double, types.double))(lambda v, w: v * 2 + w)

    def block(a, out, n, _):
        u = numba.carray(a, n)
        v = numba.carray(out, n)
        for i in range(n):
            v[i] = 2 * u[i]

    pointer = types.CPointer(types.double)
    block = numba.cfunc(types.void(pointer, pointer, types.intp, types.voidptr))(block)
    return scalar, two, block


def test_kernels(numba_kernels):
    scalar, two, block = numba_kernels
    a = np.random.default_rng(1).standard_normal(70_000)
    x = pb.par_iter(a)
    assert_same(x.map(scalar).collect(), a * 2 + 1)
    assert_same(x.zip(a[::-1]).map(two).collect(), a * 2 + a[::-1])
    assert_same((x.filter(lambda v: v > 0).map(scalar) + 1).collect(), (a[a > 0] * 2 + 1) + 1)
    for lazy, b in [
        (x.map(block), a * 2),
        (x.map(block).rev(), a[::-1] * 2),
        (x.map(block).step_by(3), a[::3] * 2),
        (x.map(block).rev().skip(5).step_by(2) + 1, a[::-1][5:][::2] * 2 + 1),
        (x.rev().map(block), a[::-1] * 2),
        ((x * 1).map(block).map(block), a * 4),
        (x.filter(lambda v: v > 0).map(block), a[a > 0] * 2),
    ]:
        assert_same(lazy.collect(), b)
    # Beside arrays of two dimensions in any order.
    m = np.random.default_rng(2).standard_normal((300, 70))
    row = m[0].copy()
    for b in [m, np.asfortranarray(m), m[::-1, ::-1]]:
        assert_same((pb.par_iter(row).map(block) + b).collect(), row * 2 + b)
        assert_same(pb.par_iter(b).map(block).collect(), b * 2)
        out = np.empty(m.shape[::-1]).T
        assert_same(pb.par_iter(b).map(block).collect(out), b * 2)
    assert_same(pb.par_iter(np.ones(1)).map(block).map(block).collect(), np.full(1, 4.0))
    assert_same((pb.par_iter(np.ones(1)).map(block) + a).collect(), a + 2)
    for bad in [lambda: pb.par_iter(np.arange(5)).map(scalar), lambda: x.map(two)]:
        with pytest.raises(TypeError):
            bad()
    assert_same(x.map(scalar, dtype="f8").collect(), a * 2 + 1)
    for kernel in (scalar, block):
        with pytest.raises(TypeError, match="dtype: the kernel"):
            x.map(kernel, dtype="f4")


# ---- ends -------------------------------------------------------------------------------


def test_collect_into():
    a = np.arange(50_000.0)
    x = pb.par_iter(a)
    for out in [
        np.empty(50_000),
        np.empty(50_000, "f4"),
        np.empty(100_000)[::2],
        np.empty(50_000, ">f8"),
        np.empty(50_000)[::-1],
        np.empty(50_000, complex),
    ]:
        assert (x * 2).collect(out) is out
        np.testing.assert_array_equal(out, (a * 2).astype(out.dtype))
    for bad, error in [
        (np.empty(4), ValueError),
        (np.empty((50_000, 1)), ValueError),
        (np.zeros(50_000, int), TypeError),
        (np.broadcast_to(0.0, 50_000), ValueError),
        ([0] * 50_000, TypeError),
    ]:
        before = np.array(bad)
        with pytest.raises(error):
            (x * 2).collect(bad)
        with pytest.raises(error):
            x.filter(lambda v: v >= 0).collect(bad)
        np.testing.assert_array_equal(before, bad)


def test_an_out_that_overlaps_itself():
    """Each element has the last of its values."""
    a = np.arange(420_000.0).reshape(700, 600)
    got, expected = (
        np.lib.stride_tricks.as_strided(np.zeros(420_000), a.shape, (8 * 300, 8)) for _ in range(2)
    )
    expected[...] = np.sqrt(a) + 1
    assert (pb.par_iter(a).map(np.sqrt) + 1).collect(got) is got
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("n", [10, 50_000])
def test_out_overlaps(n):
    def fresh():
        return np.arange(n * 1.0)

    a = fresh()
    assert_same((pb.par_iter(a) * 2 + a).collect(a), fresh() * 3)
    a = fresh()
    (pb.par_iter(a)[1:] + a[:-1]).collect(a[1:])
    assert_same(a, np.concatenate([[0.0], fresh()[1:] + fresh()[:-1]]))
    a = fresh()
    assert_same((pb.par_iter(a) + a[::-1]).collect(a), fresh() + fresh()[::-1])
    a = fresh()
    a += pb.par_iter(a)[::-1]
    assert_same(a, fresh() + fresh()[::-1])
    a = fresh()
    pb.par_iter(a).rev().collect(a)
    assert_same(a, fresh()[::-1].copy())
    a = fresh()
    half = a.view("f4")[:n]
    pb.par_iter(a).collect(half)
    assert_same(half, fresh().astype("f4"))
    a = fresh()
    pb.par_iter(a).chain(a[:0]).rev().collect(a)
    assert_same(a, fresh()[::-1].copy())
    a = fresh()
    b = a[: n // 2]
    pb.par_iter(a[n // 2 :]).chain(b).collect(a)
    assert_same(a, np.concatenate([fresh()[n // 2 :], fresh()[: n // 2]]))
    a = fresh()
    pb.par_iter(a).filter(lambda v: v > -1)[::-1].collect(a)
    assert_same(a, fresh()[::-1].copy())


def test_ufuncs_with_outputs():
    a = np.arange(5.0)

    def both(expression):
        check(lambda x: expression(x), a)

    both(lambda x: np.add(x, a, out=np.zeros((3, 5))))
    both(lambda x: np.add(x, a, out=np.zeros(5, int), casting="unsafe"))
    both(lambda x: np.add(x, a, out=np.zeros(5, int)))
    both(lambda x: np.add(x, a, out=np.zeros(4)))
    both(lambda x: np.add(x, a, out=np.broadcast_to(0.0, 5)))
    both(lambda x: np.modf(x, out=(None, np.zeros(5)))[1])
    both(lambda x: np.add(x, a, where=a > 2, out=np.zeros(5)))
    both(lambda x: np.add(x, a, dtype="f4"))
    both(lambda x: np.add(x, a, dtype="i4"))
    both(lambda x: np.add(x, a, signature="dd->d"))
    both(lambda x: np.add.outer(x, a))
    both(lambda x: np.add.accumulate(x))
    both(lambda x: np.add.reduce(x))
    both(lambda x: np.matmul(x, a))
    both(lambda x: x + np.ones(3))
    both(lambda x: x + "a")
    both(lambda x: x == None)  # noqa: E711
    both(lambda x: x != "a")
    both(lambda x: -(x > 1))
    both(lambda x: ~x)
    both(lambda x: ~(x > 1))
    both(lambda x: (x > 1) - (x > 2))


@pytest.mark.parametrize("n", [3, 50_000])
@pytest.mark.parametrize(
    ("fn", "types"), [(np.divmod, "dd"), (np.modf, "dd"), (np.frexp, "di"), (np.frexp, "d")]
)
def test_outs_that_the_other_output_reads(fn, types, n):
    """All outputs are of what was in the arrays before."""
    more = (3,) * (fn.nin - 1)
    for place in range(types.count("d")):
        made = []
        for lazy in (pb.par_iter, np.asarray):
            a = np.arange(7.0, 7 + n) / 4
            out = [np.empty(n, t) for t in types] + [None] * (2 - len(types))
            out[place] = a
            made.append(fn(lazy(a), *more, out=tuple(out)))
        for got, expected in zip(*map(done, made), strict=True):
            assert_same(got, expected)


def test_objects_are_refused():
    x = pb.par_iter(np.arange(5.0))
    for bad in [
        lambda: x + np.array([1, "a", None, 2, 3], object),
        lambda: pb.par_iter(["a"]),
        lambda: pb.par_iter(None),
        lambda: x.astype("U3"),
        lambda: x * np.array([1] * 5, object),
        pb.par_iter,
    ]:
        with pytest.raises(TypeError):
            bad()


NUMPYS = ["sum", "prod", "min", "max", "mean", "var", "std", "any", "all"]


def to_where(mask, x, y):
    return np.where(mask, x, y)


@pytest.mark.parametrize("x", DTYPES)
@pytest.mark.parametrize("y", ["?", "u1", "i4", "f4", "f8", "D", ">i4"])
def test_where(x, y):
    """Each pair of types, side by side and apart; masks of numbers, and bools of any byte."""
    a, b = values(x, (5_000,), 1), values(y, (5_000,), 2)
    with np.errstate(all="ignore"):
        check(to_where, a > 1, a, b)
        check(to_where, a[::-2], a[::2], b[1::2])
        check(lambda u, v: np.where(u == v, u, np.where(v != 0, v, u)), a, b)
    odd = (np.arange(5_000) % 5).astype("u1").view("?")
    check(to_where, odd, a, b)
    check(to_where, odd[:, np.newaxis], a[:7], b[:1])


@pytest.mark.parametrize("dtype", np.typecodes["AllInteger"] + np.typecodes["AllFloat"])
def test_numbers_of_numpy(dtype):
    """With all their bits, of this dtype and of others, and as often as they are met."""
    a = np.array([0, 1, 100, 3, 0, 7]).astype(dtype)
    extreme = np.finfo(dtype) if a.dtype.kind in "fc" else np.iinfo(dtype)
    ours = [a.dtype.type(extreme.min), a.dtype.type(extreme.max), a.dtype.type(3)]
    if a.dtype.kind in "fc":
        ours += [a.dtype.type(1) + extreme.eps, extreme.tiny / 2, a.dtype.type("nan")]
    if a.dtype.kind == "c":
        ours = [c + 1j * c[()] for c in ours]
    others = [np.bool_(True), np.int8(3), np.float64(0.1), np.longdouble(0.1), np.complex64(1j)]
    for c in ours + others:
        for _ in range(2):
            check(lambda x, c=c: x > c, a)
            check(lambda x, c=c: x * c, a)
            check(lambda x, c=c: c - x, a)
            check(lambda x, c=c: np.maximum(c, x) * c, a)
    check(lambda x: x + np.timedelta64(1, "s"), a)


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i8", "u8", "f2", "f4", "f8", "g", "F"])
def test_where_of_scalars(dtype):
    a = np.array([0, 1, 100, 3, 0, 7]).astype(dtype)
    for c in SCALARS:
        check(lambda x, c=c: np.where(x != 0, x, c), a)
        check(lambda x, c=c: np.where(x != 0, c, x), a)
        check(lambda x, c=c: np.where(x != 0, c, 1), a)
        check(lambda x, c=c: np.where(c, x, 0), a)
    for c in ["a", None, [1, 2, 3, 4, 5, 6], [1, 2], b"x", np.datetime64("2020")]:
        check(lambda x, c=c: np.where(x != 0, x, c), a)
        check(lambda x, c=c: np.where(x != 0, c, c), a)


def test_where_of_times():
    days = np.arange(5).astype("M8[D]")
    check(lambda d: np.where(d > days[2], d, np.datetime64("NaT")), days)
    check(lambda d, s: np.where(d > days[2], d, s), days, days.astype("M8[s]"))
    times = days - days[0]
    check(lambda m: np.where(m, 1.5, m == times[1]), times)
    check(lambda m: np.where(m > times[1], m, 3), times.astype(">m8[D]"))


@pytest.mark.parametrize(
    "condition",
    [
        np.array([None, 1, 0.0], object),
        None,
        "a",
        "",
        np.datetime64("NaT"),
        np.nan,
        0,
        2**70,
        np.array(["", "a", "b"]),
        np.array(["NaT", 0, 1], "m8[s]"),
        np.array([0, 1, 2], "M8[s]"),
    ],
    ids=repr,
)
def test_what_is_true_for_where(condition):
    a = np.arange(3.0)
    check(lambda x: np.where(condition, x, -1.0), a)


def test_where_of_no_axis_reads_at_once():
    """As ufuncs read scalars."""
    a = np.arange(3.0)
    number, mask = np.array(1.0), np.array(True)
    x = pb.par_iter(a)
    made = np.where(x > 0, number, x), np.where(mask, x, -1.0)
    number[...], mask[...] = 7, False
    assert_same(made[0].collect(), np.array([0.0, 1, 1]))
    assert_same(made[1].collect(), a)


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i8", "u8", "f2", "f4", "f8", "g", "F"])
def test_clip(dtype):
    """By name and as a method; bounds that the dtype cannot hold, none, arrays, NaN and zeros."""
    a = values(dtype, (1_000,), 1)
    bounds = [None, 0, -1, 3, 300, -300, 2**63, -(2**70), 1.5, -0.0, float("nan"), np.int8(3), 1j]
    if np.lib.NumpyVersion(np.__version__) < "2.1.0" and a.dtype.kind in "iu":
        # It refuses numbers that the dtype cannot hold; of later ones we have the answer.
        info = np.iinfo(a.dtype)
        bounds = [b for b in bounds if type(b) is not int or info.min <= b <= info.max]
    for low in bounds:
        for high in bounds:
            check(lambda x, low=low, high=high: np.clip(x, low, high), a)
    check(lambda x: x.clip(min=1), a)
    check(lambda x: np.clip(x, max=2), a)
    check(lambda x: np.clip(x, a[::-1], 2), a)
    check(lambda x: np.clip(a, x, x), a)
    check(lambda x: np.clip(x, 0, [[1], [2]]), a)
    check(lambda x: np.clip(x, 0), a)
    check(lambda x: np.clip(x, 0, 1, dtype="f4", casting="unsafe"), a)
    out = np.zeros(1_000, a.dtype)
    if dtype != "?":
        assert np.clip(pb.par_iter(a), 0, 1, out=out) is out
        assert_same(out, np.clip(a, 0, 1))


@pytest.mark.parametrize("n", [10, 200_000])
def test_where_and_clip_stay_lazy(n):
    """In one pass with the rest; in chains and after filters, too."""
    a = np.random.default_rng(1).standard_normal(n)
    x = pb.par_iter(a)
    made = np.where(x > 0, np.clip(x, 0.5, None), x * 2)
    assert isinstance(made, pb.ParIter)
    assert "where(" in repr(made)
    assert "GIL" not in repr(made)
    expected = np.where(a > 0, np.clip(a, 0.5, None), a * 2)
    assert_same(made.collect(), expected)
    assert np.isclose(made.sum(), np.sum(expected))
    kept = x.filter(lambda v: v < 1)
    assert_same(np.where(kept > 0, kept, 0).collect(), np.where(a[a < 1] > 0, a[a < 1], 0))
    with pytest.raises(ValueError, match="filter"):
        np.where(kept > 0, x, 0)
    two = x.chain(x * 3)
    both = np.concatenate([a, a * 3])
    assert_same(np.where(two > 0, two, both[::-1]).collect(), np.where(both > 0, both, both[::-1]))
    assert_same(two.clip(0, 1).collect(), both.clip(0, 1))
    assert_same(made[1:-1:2].collect(), expected[1:-1:2])
    assert made.find_first(lambda v: v > 0.4) == expected[expected > 0.4][0]


def test_other_functions_of_numpy_get_the_elements():
    """Those that NumPy would ask a class for, of lazy arrays alone and among others."""
    a = np.arange(6.0)
    x = pb.par_iter(a)
    assert_same(np.where(x > 2)[0], np.where(a > 2)[0])
    assert_same(np.concatenate([x, a, [1]]), np.concatenate([a, a, [1]]))
    assert_same(np.linalg.norm(x), np.linalg.norm(a))
    assert_same(np.sort(x * -1), np.sort(-a))
    assert_same(np.interp(x, a, x * 2), a * 2)
    assert_same(np.round(x / 3, 2), np.round(a / 3, 2))
    with pytest.raises(ValueError, match="both or neither"):
        np.where(x > 2, x)

    if hasattr(np, "astype"):
        assert_same(np.astype(x * 2, "f4"), np.astype(a * 2, "f4"))
        with pytest.raises(TypeError):
            np.astype(x, "no dtype")
    assert_same(np.flip(x), a[::-1])
    assert_same(np.hstack((0, x)), np.hstack((0, a)))
    assert_same(np.zeros(3, like=x), np.zeros(3))
    assert np.array2string(x) == np.array2string(a)


def test_other_owners_of_functions_see_arrays():
    """Many refuse what they do not know."""

    class Strict(np.ndarray):
        def __array_function__(self, fn, types, args, kwargs):
            if any(t not in (Strict, np.ndarray) for t in types):
                return NotImplemented
            return super().__array_function__(fn, types, args, kwargs)

    a = np.arange(6.0)
    x, strict = pb.par_iter(a), a.view(Strict)
    assert_same(np.asarray(np.where(strict > 2, x, 0)), np.where(a > 2, a, 0))
    assert_same(np.asarray(np.concatenate([[x * 2], [strict]])), np.stack([a * 2, a]))


@pytest.mark.parametrize("n", [10, 200_000])
def test_functions_of_ours_compute_it_first(n):
    """And share it: no lazy array is handed to NumPy's function of the same name."""
    a = np.random.default_rng(1).permutation(n) * 1.0
    x = pb.par_iter(a)
    before = left_alone()
    assert_same(pb.par_where(x > 2, x, 0), np.where(a > 2, a, 0))
    assert_same(pb.par_concatenate([x, x]), np.concatenate([a, a]))
    assert_same(pb.par_lexsort([x, x]), np.lexsort([a, a]))
    assert_same(pb.par_cumsum(x), np.cumsum(a))
    assert left_alone() == before


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [10, 200_000])
def test_functions_of_ours_compute_it_once(pool_size, monkeypatch, threads, n):
    """Also where they leave it to NumPy then."""
    pool_size(threads)
    a = np.random.default_rng(1).permutation(n) * 1.0
    seen = []

    def twice(v):
        seen.append(len(v))
        return np.array([2 * x for x in v.tolist()])

    x = pb.par_iter(a).map(twice, dtype=float)
    for f, numpys in (
        (pb.par_copy, np.copy),
        (pb.par_sort, np.sort),
        (pb.par_cumsum, np.cumsum),
        (pb.par_flatten, np.copy),
        (lambda y: pb.par_concatenate([y, a]), lambda y: np.concatenate([y, a])),
        (lambda y: pb.par_lexsort((a, y)), lambda y: np.lexsort((a, y))),
    ):
        seen.clear()
        assert_same(f(x), numpys(a * 2))
        assert sum(seen) == n


@pytest.mark.parametrize("name", NUMPYS)
@pytest.mark.parametrize("dtype", ["f8", "i4", "?"])
def test_functions_of_numpy(name, dtype):
    """np.f(x) and par_f(x), as of the array."""
    a = np.arange(24).reshape(4, 6).astype(dtype)
    numpys = getattr(np, name)
    for f in [numpys, getattr(pb, "par_" + name)]:
        for options in [{}, {"axis": 0}, {"axis": (0, 1)}, {"axis": -1, "keepdims": True}]:
            expected = numpys(a, **options)
            np.testing.assert_allclose(f(pb.par_iter(a), **options), expected, rtol=1e-14)
        with pytest.raises(np.exceptions.AxisError):
            f(pb.par_iter(a), axis=7)
    x = pb.par_iter(a).flatten()
    np.testing.assert_allclose(getattr(np, name)(x, axis=0), getattr(np, name)(a), rtol=1e-14)


def test_handed_to_functions():
    a = np.random.default_rng(1).standard_normal(200_000)
    x = pb.par_iter(a)
    assert_same(pb.par_map(np.sin, x * 2).collect(), np.sin(a * 2))
    assert_same(pb.par_sort(x * 2), np.sort(a * 2))
    assert_same(np.asarray(x * 2), a * 2)
    assert_same(np.array(x, "f4"), a.astype("f4"))
    assert_same(x.sort(), np.sort(a))
    assert pb.par_argmin(x) == a.argmin()
    assert pb.par_count_nonzero(x) == np.count_nonzero(a)
    assert pb.par_minmax(x) == (a.min(), a.max())
    assert abs(pb.par_dot(x, x) - a @ a) < 1e-8
    assert pb.par_reduce(np.maximum, x) == a.max()
    assert pb.par_find_first(x, lambda v: v > 1) == a[a > 1][0]
    assert list(pb.par_iter([1, 2])) == [1, 2]
    with pytest.raises(ValueError):
        bool(x)
    with pytest.raises(ValueError):
        np.array(x, copy=False)


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u4", "i8", "f2", "f4", "f8", "g", "F", "D", "m8[s]", "M8[s]"]
)
@pytest.mark.parametrize("n", [0, 1, 5, 70_000])
@pytest.mark.parametrize("filtered", [False, True])
def test_reductions(dtype, n, filtered):
    a = (
        np.arange(n).astype("i8").astype(dtype)
        if dtype[0] in "mM"
        else (np.arange(n) % 50).astype(dtype)
    )
    x = pb.par_iter(a)
    if filtered:
        x = x.filter(x == a)
    for name in [name for name in NUMPYS if name != "prod" or dtype in ("?", "i1", "u4", "i8")]:
        got, _ = outcome(lambda name=name: getattr(x, name)())
        expected, _ = outcome(lambda name=name: getattr(np, name)(a))
        if isinstance(expected, Exception):
            assert isinstance(got, type(expected)) or isinstance(got, TypeError), (name, got)  # noqa: SIM101
        elif name in ("any", "all"):
            assert got == expected
        else:
            assert type(got) is type(expected), name
            if dtype[0] not in "mM":
                np.testing.assert_allclose(
                    got, expected, rtol=2e-3 if dtype == "f2" else 1e-5, err_msg=name
                )
            else:
                assert_same(got, expected)
    for ddof in (1, n, n + 3):
        if dtype in ("f8", "i8"):
            got, warned = outcome(lambda ddof=ddof: x.var(ddof=ddof))
            expected, should = outcome(lambda ddof=ddof: np.var(a, ddof=ddof))
            np.testing.assert_allclose(got, expected, rtol=1e-12)
            assert warned == should


def test_sums_of_halves_in_several_parts():
    """Only the whole is rounded to half precision, and may overflow."""
    a = np.full(70, 1000, "f2")
    for parts in [
        (a, -a),
        (a, -a, a[:3]),
        (a[:0], a[:65]),
        (a, a),
        (a, a * np.inf),
        (a[:0], a[:0]),
    ]:
        x, whole = pb.par_iter(parts[0]).chain(*parts[1:]), np.concatenate(parts)
        for lazy in (x, x.filter(lambda v: v != 3)):
            for options in ({}, {"initial": 1000}):
                got, warned = outcome(lambda lazy=lazy, o=options: lazy.sum(**o))
                expected, should = outcome(lambda whole=whole, o=options: np.sum(whole, **o))
                assert_same(got, expected)
                assert warned == should


def test_no_initial_value_for_several_parts():
    x = pb.par_iter([1.0, 2.0]).chain([3.0])
    assert x.sum(initial=None) == 6
    assert x.reduce(np.multiply, initial=None) == 6
    with pytest.raises(ValueError):
        x.take(0).chain(x.take(0)).sum(initial=None)


def test_sums_have_the_same_bits(pool_size):
    a = np.random.default_rng(1).standard_normal(1_000_003)
    made = set()
    for threads in (1, 2, 3, 8):
        pool_size(threads)
        x = pb.par_iter(a)
        f = x.filter(lambda v: v > 0)
        made.add(
            np.array(
                [x.sum(), (x * 2).sum(), f.sum(), f.mean(), x.var(), x.chain(x).sum()]
            ).tobytes()
        )
    assert len(made) == 1


# ---- warnings, errors, memory ---------------------------------------------------------------


def test_what_a_sum_meets_is_not_the_steps():
    """Also in a block that is followed by others, whose steps once reported it, or dropped it."""
    a = np.zeros(400_000)
    a[100_000:100_004] = 1.5e308
    for lazy in (pb.par_iter(a) * 1, pb.par_iter(a).map(lambda v: v + 0), -pb.par_iter(a)):
        got, warned = outcome(lazy.sum)
        assert np.isinf(got)
        assert warned == {"overflow encountered in reduce"}


def test_what_a_search_warns_of_does_not_depend_on_what_ran_before(pool_size):
    """Beyond the hit as much is computed as the first time, however long an element took since."""
    pool_size(1)
    a = np.ones(100_000)
    a[5] = 0.01
    # Each has a form that no other test has, so that nobody knows yet how long it takes.
    forms = {300: np.greater, 600: np.greater_equal, 900: np.not_equal}
    for zero, compare in forms.items():
        a[zero] = 0
        found = compare(np.float_power(pb.par_iter(a), -0.7), 1.5 if zero < 900 else 1.0)
        first = outcome(found.any)
        assert first == (True, {"divide by zero encountered in float_power"})
        for _ in range(3):
            with np.errstate(all="ignore"):
                assert found.sum() == 2
            assert outcome(found.any) == first
        a[zero] = 1


def test_stretches_warn_as_numpy_does():
    huge = np.full(100_000, 1e308)
    for stretches in (pb.par_iter(huge).chunks(2), pb.par_iter(huge).windows(2)):
        for end in (stretches.sum, stretches.mean, lambda s=stretches: s.reduce(np.add)):
            with pytest.warns(RuntimeWarning, match="overflow encountered in reduce"):
                assert np.isinf(end().collect()).all()
            with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
                end()
        with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
            stretches.map(lambda v: v[0] * 2)


@pytest.mark.parametrize("n", [3, 100_000])
def test_truths_are_numpys(n):
    """Of Python's, ``~x.any()`` would be true."""
    x = pb.par_iter(np.arange(n))
    for truth in (x.any(), x.all(), x.any(lambda v: v > n), (x < n).all()):
        assert type(truth) is np.bool_
    assert not ~x.any()


def test_warnings_and_errstate():
    a = np.arange(100_000.0)
    cases = [
        (lambda x: 1 / x, "divide by zero encountered in divide"),
        (lambda x: np.log(x - 3.5), "invalid value encountered in log"),
        (lambda x: np.exp(x), "overflow encountered in exp"),
        (lambda x: (x * 1e300).astype("f4"), "overflow encountered in cast"),
    ]
    x = pb.par_iter(a)
    for expression, text in cases:
        with pytest.warns(RuntimeWarning, match=text):
            expression(x).collect()
        with np.errstate(all="raise"):
            lazy = expression(x)
            for end in [
                lazy.collect,
                lazy.sum,
                lambda lazy=lazy: lazy.filter(lambda v: v > 0).collect(),
            ]:
                with pytest.raises(FloatingPointError, match=text):
                    end()
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            expression(x).collect()
    assert x.sum() == a.sum()


def test_integers_to_negative_powers():
    x = pb.par_iter(np.arange(100_000))
    for bad in [
        lambda: (x ** pb.par_iter(np.full(100_000, -1))).collect(),
        lambda: (x**-1).collect(),
    ]:
        with pytest.raises(ValueError, match="negative integer powers"):
            bad()
    assert x.sum() == 4999950000


def test_integer_division_by_zero():
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        assert_same((pb.par_iter(np.arange(5)) % 0).collect(), np.zeros(5, int))


def test_nothing_leaks():
    a = np.arange(1000.0)
    x = pb.par_iter(a)

    def once():
        y = x * 2 + 1
        y.collect()
        y.filter(lambda v: v > 5).map(lambda v: np.where(v > 9, v, 0)).sum()
        y.chain(y).rev().enumerate().collect()
        y.chunks(100).sum().collect()
        try:  # noqa: SIM105
            y.map(lambda v: 1 / 0).collect()
        except ZeroDivisionError:
            pass

    once()
    gc.collect()
    before, objects = sys.getrefcount(a), len(gc.get_objects())
    for _ in range(1000):
        once()
    gc.collect()
    assert sys.getrefcount(a) == before
    assert len(gc.get_objects()) - objects < 500


def test_memory_of_fused_pipelines(script):
    """Below 16 MiB, whatever n."""
    out = (
        script("""
import numpy as np, pyblitz as pb
def peak():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1])
a = np.ones(12_000_000)
x = pb.par_iter(a)
(x * 2).sum()
before = peak()
((x - x.mean()) ** 2).sum()
(np.sin(x) * 2 - x ** 2).filter(lambda v: v > 0).count()
(x + 1).filter(lambda v: v > 5).max(initial=0)
x.map(lambda v: np.where(v > 0, v, 1)).sum()
(x > 3).any(); x.var(); x.position(lambda v: v * 2 > 7); (x + x.rev()).min()
(x.astype("f4") * 2).sum(); x.count(lambda v: v > 0)
print(peak() - before)
""")
        if sys.platform == "linux"
        else "0"
    )
    assert int(out) < 16 * 1024


def test_cancelled_in_the_middle():
    a = np.random.default_rng(1).standard_normal(4_000_000)
    x = pb.par_iter(a)
    y = x
    for _ in range(60):
        y = np.sin(y) + 0.1
    for _ in range(3):
        with pytest.raises(TimeoutError), pb.CancelScope(timeout=0.05):
            y.sum()
        assert x.count() == 4_000_000
        assert x.max() == a.max()


@pytest.mark.parametrize("n", [2, 300_000])
def test_a_shared_step_is_done_once(n):
    """In a few elements, too: what it warns of, it warns of once."""
    set_few_bytes(FEW)
    try:
        a = np.full(n, np.inf)
        z = pb.par_iter(a)
        y = z - z
        for end in (lambda: (y * y).collect(), lambda: (y * y).sum(), lambda: (y + y * y).max()):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                end()
            assert [str(w.message) for w in seen] == ["invalid value encountered in subtract"]
    finally:
        set_few_bytes(0)


@pytest.fixture
def small_ones_without_programs():
    set_few_bytes(FEW)
    yield
    set_few_bytes(0)


def used_the_pool(call):
    with pb.stats() as s:
        call()
    # A thread of the pool may still come back from an earlier call; a caller has left it.
    return any(w.busy for w in s.workers if w.name.startswith("caller"))


EXPRESSIONS = [
    lambda x, y: x * 2 + y,
    lambda x, y: (x - y) * (x - y) + x,
    lambda x, y: np.where(x > y, x, 3) + np.minimum(x, y),
    lambda x, y: (x > 1).astype("f4") + y,
    lambda x, y: ((x == y) | (x < 1)) & ~(y > 2),
    lambda x, y: abs(x) / (y + 1) - 0.5,
    lambda x, y: x + (x + (x + (x + (x + (x + (x + (x + (x + y)))))))),
]


@pytest.mark.parametrize("dtype", ["?", "i1", "i4", "i8", "u8", "f2", "f4", "f8", "g", "D", ">f8"])
@pytest.mark.parametrize("shape", [(0,), (1,), (5, 7), (500,), (501,), (2049,), (8192,), (9000,)])
@pytest.mark.filterwarnings("ignore:invalid", "ignore:divide", "ignore:overflow")
@pytest.mark.usefixtures("small_ones_without_programs")
def test_a_few_elements_are_numpys(dtype, shape):
    """And what is made of them is what is made of the array."""
    x, y = values(dtype, shape, 3), values(dtype, shape, 4)
    for expression in EXPRESSIONS:
        got, _ = outcome(lambda f=expression: f(*pb.par_iter(x, y)).collect())
        expected, _ = outcome(lambda f=expression: f(x, y))
        if isinstance(expected, Exception):
            assert type(got) is type(expected)
            continue
        assert_same(got, expected)
        if max(x.nbytes, expected.nbytes) > FEW:
            continue
        for end in ("sum", "prod", "max", "any") if x.size else ("sum", "prod", "any"):
            of_few = getattr(expression(*pb.par_iter(x, y)), end)()
            assert_same(np.asarray(of_few), np.asarray(getattr(pb.par_iter(expected), end)()))


KEEPS = [
    lambda x, y: x != y,
    lambda x, y: (x == y) | (x + y == 0),
    lambda x, y: x != x,
    lambda x, y: y,
]


@pytest.mark.parametrize("dtype", ["?", "i1", "i8", "f4", "f8", "D", ">f8"])
@pytest.mark.parametrize("n", [0, 1, 500, 2048, 2049])
@pytest.mark.filterwarnings("ignore:invalid", "ignore:divide", "ignore:overflow")
@pytest.mark.usefixtures("small_ones_without_programs")
def test_what_a_filter_keeps_of_a_few_elements_is_numpys(dtype, n):
    a, b = values(dtype, (n,), 3), values(dtype, (n,), 4)
    mask = values("?", (n,), 5)
    for made, keep in itertools.product((lambda x: x, lambda x: x + 1), KEEPS):
        wanted = mask if keep is KEEPS[-1] else keep(a, b)
        expected = made(a)[wanted]
        x, y = pb.par_iter(a, mask if keep is KEEPS[-1] else b)
        kept = made(x).filter(keep(x, y))
        assert_same(kept.collect(), expected)
        assert_same((kept + kept).collect(), expected + expected)
        assert_same(kept.count(), expected.size)
        assert_same(made(x).count(keep(x, y)), expected.size)
        if dtype != "D":
            assert_same(kept.max(initial=0), expected.max(initial=0))
        assert_same(kept.filter(kept == kept).collect(), expected[expected == expected])
        assert_same(kept.sum(), pb.par_iter(expected).sum())


@pytest.mark.parametrize("dtype", ["?", "i2", "i4", "f8", "D", "g", ">i4"])
@pytest.mark.parametrize("step", [1, 3, -2])
@pytest.mark.parametrize("n", [20, 3000, 40_000])
@pytest.mark.filterwarnings("ignore:invalid", "ignore:overflow")
def test_what_a_filter_keeps_of_any_layout_is_numpys(dtype, step, n):
    a, mask = values(dtype, (n,), 3)[::step], values("?", (n,), 5)[::step]
    x = pb.par_iter(a)
    for wanted in (mask, np.zeros_like(mask), np.ones_like(mask)):
        kept = x.filter(wanted)
        assert_same(kept.collect(), a[wanted])
        assert_same((kept + kept).collect(), (a + a)[wanted])
        assert_same((x + x).filter(wanted).collect(), (a + a)[wanted])
        kept = x.filter(wanted).filter(lambda v: v == v)
        assert_same(kept.collect(), a[wanted][a[wanted] == a[wanted]])


@pytest.mark.usefixtures("small_ones_without_programs")
def test_a_few_elements_are_kept_without_the_pool():
    a = np.arange(2000.0)
    x = pb.par_iter(a)
    for end in ("collect", "count"):
        assert not used_the_pool(getattr(x.filter(lambda v: v > 3), end))
        assert not used_the_pool(getattr((x * 2).filter(a > 3), end))
    assert not used_the_pool(lambda: x.count(lambda v: v > 3))


@pytest.mark.usefixtures("small_ones_without_programs")
def test_a_few_elements_and_their_filter_warn_once():
    a = np.arange(2000.0)
    x = pb.par_iter(a)
    y = 1 / x
    for kept in (
        y.filter(x.mask(lambda v: v > 3)),
        y.filter(x.mask(lambda v: np.array([t > 3 for t in v]))),
        y.filter(lambda v: v > 0.001),
        (y + 1).filter(y > 0.001),
        x.filter(y + 1 > 1.001),
        (y > 0.001).filter(y > 0.001),
    ):
        for end in (kept.collect, kept.sum, kept.count, kept.mean):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                end()
            assert [str(w.message) for w in seen] == ["divide by zero encountered in divide"]
    with np.errstate(divide="ignore"):
        b = 1 / a
        assert_same((y + 1).filter(y > 0.001).collect(), (b + 1)[b > 0.001])
        assert_same((y > 0.001).filter(y > 0.001).collect(), np.ones((b > 0.001).sum(), bool))
        assert_same(x.filter(y + 1 > 1.001).collect(), a[b + 1 > 1.001])
        shared = y > 0.001
        assert_same(np.where(shared, y, x).filter(shared).collect(), b[b > 0.001])
        assert_same(shared.filter(shared).collect(), np.ones((b > 0.001).sum(), bool))
    # Of which there are too many steps for both.
    z = x + 1 + 1 + 1 + 1
    assert_same(z.filter(x * 2 * 2 * 2 * 2 > 3).collect(), (a + 4)[a * 16 > 3])


@pytest.mark.usefixtures("small_ones_without_programs")
@pytest.mark.parametrize("n", [10, 300, 1000, 2048, 2049])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_a_mean_is_that_of_the_sum(n, dtype):
    for seed in range(20):
        a = (np.random.default_rng(seed).random(n) * 100).astype(dtype)
        for x in (pb.par_iter(a).filter(a > 10), pb.par_iter(a) * 3 + 1):
            assert x.mean() == x.sum() / x.count()
            if n < 2049:
                made = pb.par_iter(x.collect())
                assert_same(x.mean(), made.mean())
                assert_same(x.var(), made.var())


@pytest.mark.usefixtures("small_ones_without_programs")
def test_arrays_that_got_another_shape_meanwhile():
    """What is computed is what was asked for."""
    for n, which in itertools.product((2000, 50_000), ([0], [1], [0, 1])):
        a = np.arange(float(n))
        mask = a > 3
        x = pb.par_iter(a).filter(mask)
        for i in which:
            (a, mask)[i].shape = (40, -1)
        assert_same(x.collect(), np.arange(4.0, n))
    for n in (2000, 50_000):
        a = np.arange(float(n))
        mask = a > 3
        x = pb.par_iter(a).filter(mask)
        mask.dtype = np.int16
        with pytest.raises(IndexError, match=f"an array of {n} elements has {n // 2} now"):
            x.collect()


@pytest.mark.usefixtures("small_ones_without_programs")
def test_what_a_few_elements_met_is_told_of_each_step():
    a = np.ones(8192, "f4")
    a[5000] = 0  # beyond the first block
    x = pb.par_iter(a)
    steps = [lambda x: 1 / x, lambda x: x - x, lambda x: (x + 1e30) * 1e30]
    for dtype, names in (
        ("f4", ["divide", "subtract", "multiply"]),
        ("f8", ["divide", "subtract"]),
    ):
        y = x.astype(dtype)
        made = steps[0](y) * steps[1](steps[0](y)) + steps[2](y)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            made.collect()
        assert [str(w.message).split()[-1] for w in seen] == [names[0], names[0], *names[1:]]
        with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="in divide"):
            made.collect()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        (pb.par_iter(a.astype("f8") * 1e300).astype("f4") + np.float32(1)).collect()
    assert [str(w.message) for w in seen] == ["overflow encountered in cast"]


@pytest.mark.usefixtures("small_ones_without_programs")
def test_a_few_elements_need_no_pool_and_dear_ones_do():
    x = pb.par_iter(np.ones(8000))
    few = x.take(100)
    assert not used_the_pool(lambda: np.sin(few).collect())
    assert not used_the_pool(lambda: (np.sin(few) + few).collect())
    assert not used_the_pool(lambda: (x * 2 + x).collect())
    assert used_the_pool(lambda: np.sin(x).collect())
    assert used_the_pool(lambda: (np.sin(x) + x).collect())
    # Long ones are not made short by a short result.
    wide = pb.par_iter(np.ones(60_000))
    assert used_the_pool(lambda: ((wide > 0) & (wide < 3)).collect())


def test_sums_of_products():
    """They are added as they are made."""
    a = np.random.default_rng(3).random(70_001)
    x = pb.par_iter(a)
    kept = x.filter(lambda v: v > 0.5)
    chosen = a[a > 0.5]
    # A number first, which says nothing of what is kept; it once was asked.
    for got, terms in [
        ((2 * kept).sum(), 2 * chosen),
        ((kept * 2).sum(), chosen * 2),
        ((kept * kept).sum(), chosen * chosen),
        ((kept**2).sum(), chosen**2),
        ((2 * x).sum(), 2 * a),
        ((x * 3.0).sum(), a * 3.0),
    ]:
        assert got == pytest.approx(math.fsum(terms), rel=1e-15)
    # The bits of the sum of the products.
    for n in (70_001, 8_193, 32_768, 300_000):
        for dtype in ("f4", "f8", "i4", "u4", "i8", "u8"):
            b = (np.random.default_rng(n).random(n) * 2**31).astype(dtype)
            y = pb.par_iter(b)
            for terms, expected in ((y * y, b * b), (y**2, b**2)):
                assert_same(terms.sum(), pb.par_sum(expected))
            if dtype[0] in "iu":
                assert_same((y * 3).sum(), pb.par_sum(b * 3))
    assert (2 * x.filter(lambda v: v > 2)).sum() == 0


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_of_products_keep_the_sign_of_zero(dtype):
    zeros = np.zeros(70_001, dtype)
    for a, b in [(zeros, zeros), (zeros, -zeros), (-zeros, -zeros)]:
        x, y = pb.par_iter(a, b)
        assert np.signbit((x * y).sum()) == np.signbit((a * b).sum())
        assert np.signbit(pb.par_dot(a, b)) == np.signbit(np.dot(a, b))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_of_products_warn_as_their_steps(dtype):
    big = np.full(70_001, np.sqrt(np.finfo(dtype).max) * 2, dtype)
    large = np.full(70_001, np.sqrt(np.finfo(dtype).max) / 2, dtype)
    none = np.zeros(70_001, dtype)
    endless = np.full(70_001, np.inf, dtype)
    for a, b in [(big, big), (large, large), (none, endless), (big, -big)]:
        x, y = pb.par_iter(a, b)
        for n in (70_001, 9):
            got, warned = outcome((x[:n] * y[:n]).sum)
            expected, should = outcome(lambda a=a[:n], b=b[:n]: (a * b).sum())
            assert_same(got, expected)
            assert warned == should
    assert outcome((pb.par_iter(big) ** 2).sum)[1] == {"overflow encountered in square"}
    assert outcome((pb.par_iter(large) ** 2).sum)[1] == {"overflow encountered in reduce"}


def test_functions_in_sums_of_products_are_called_once():
    """Whatever the products meet: underflow is not told of, overflow is."""
    for item in (1e-200, 1e200):
        a = np.full(70_001, item)
        seen = []
        x = pb.par_iter(a).inspect(lambda v, seen=seen: seen.append(len(v)))
        with np.errstate(over="ignore"):
            assert (x * a).sum() == (a * a).sum()
        assert sum(seen) == 70_001
        with np.errstate(over="raise"):
            assert isinstance(outcome((x * a).sum)[0], FloatingPointError) == (item > 1)
        assert sum(seen) == 140_002


@pytest.mark.parametrize("n", [1, 3, 8, 21, 1_003])
def test_errors_beside_nans(n):
    """In vectors and in the items behind them."""
    a = np.full(n, 1e200)
    for expression in (
        lambda x: np.nan * (x * x),
        lambda x: np.nan + (x * x),
        lambda x: np.nan + x / 0,
        lambda x: np.nan * np.square(x),
        lambda x: (x * x) * np.nan,
        lambda x: (x * x) + np.nan,
    ):
        _, warned = outcome(expression(pb.par_iter(a)).collect)
        assert len(warned) == 1
        assert warned == outcome(lambda e=expression: e(a))[1]


def test_products_of_many_axes():
    x, y = np.arange(6.0).reshape((6,) + (1,) * 8), np.arange(6.0).reshape((1,) * 8 + (6,))
    for a, b in [(x, y), (y, x), (x, np.arange(6.0)), (np.arange(1.0, 7.0), x)]:
        lazy = pb.par_iter(a) * b
        assert_same(lazy.collect(), a * b)
        assert lazy.sum() == (a * b).sum()
        assert lazy.mean() == (a * b).mean()


@pytest.mark.parametrize("dtype", [">f8", ">i2", "f8"])
def test_many_axes_in_other_order(dtype):
    shape = (2, 1, 1, 1, 1, 1, 1, 1, 3)
    a = np.asfortranarray(np.arange(6).reshape(shape).astype(dtype))
    assert_same(pb.par_iter(a).collect(), a)
    assert np.array_equal(pb.par_iter(a).astype(">f8").collect(), a)


def test_a_zip_of_other_orders():
    a, b = np.asfortranarray(np.arange(2_000.0).reshape(40, 50)), np.ones((40, 50))
    b[::3] = np.nan
    for first, second in [(a, np.isnan(b)), (np.isnan(b), a)]:
        x = pb.par_iter(a) if first is a else np.isnan(pb.par_iter(b))
        y = pb.par_iter(a) if second is a else np.isnan(pb.par_iter(b))
        got = x.zip(y).collect()
        assert_same(got[0], first)
        assert_same(got[1], second)


# ---- programs that come again -----------------------------------------------


def random_expression(rng, leaves, depth):
    """A function of the arrays.  There are few forms of these, so that each comes again and again,
    and many that differ in one place only."""
    if depth == 0 or rng.random() < 0.15:
        k = rng.integers(len(leaves) + 2)
        if k >= len(leaves):
            number = [2, 3.0, 2, 0.5][rng.integers(4)]
            return lambda arrays: number
        return lambda arrays: arrays[leaves[k]]
    a, b, c = (random_expression(rng, leaves, depth - 1) for _ in range(3))
    match rng.integers(8):
        case 0 | 1 | 2:
            op = [np.add, np.subtract, np.multiply, np.true_divide][rng.integers(4)]
            return lambda arrays: op(a(arrays), b(arrays))
        case 3:
            return lambda arrays: np.square(a(arrays))
        case 4:
            return lambda arrays: np.where(np.less(a(arrays), b(arrays)), b(arrays), c(arrays))
        case 5:
            return lambda arrays: np.maximum(a(arrays), b(arrays))
        case 6:
            dtype = ["f4", "f8"][rng.integers(2)]

            def cast(arrays):
                made = a(arrays)
                return made.astype(dtype) if hasattr(made, "astype") else made

            return cast
        case _:
            return lambda arrays: np.negative(a(arrays))


def test_other_arrays_in_the_form_of_others():
    rng = np.random.default_rng(50)
    kinds = ["f8", "f4", "i8", "f8", "f4"]
    tried = 0
    for _ in range(400):
        leaves = rng.integers(0, 4, rng.integers(1, 4))
        expression = random_expression(rng, leaves, rng.integers(1, 4))
        for n in rng.choice([1, 2, 63, 700, 5_000], 3):
            made = [(rng.random(2 * n) * 9 + 1).astype(kind) for kind in kinds]
            step = rng.integers(1, 3)
            arrays = [a[: n * step : step] for a in made]
            if rng.random() < 0.3:
                arrays[1] = arrays[0]
            if rng.random() < 0.3:
                arrays[3] = arrays[3][:1]
            with np.errstate(all="ignore"):
                expected = expression(arrays)
                lazy = expression(pb.par_iter(*arrays))
                if not isinstance(lazy, pb.ParIter):
                    continue
                tried += 1
                assert_same(lazy.collect(), expected)
                if expected.dtype.kind == "f":
                    out = np.empty(expected.shape, "f8")
                    assert_same(lazy.collect(out), expected.astype("f8"))
                    assert lazy.max() == expected.max() or np.isnan(expected).any()
                    # Written over what is read.
                    if lazy.shape == arrays[0].shape:
                        assert_same(lazy.collect(arrays[0]), expected.astype("f8"))
    assert tried > 800


def test_an_idle_program_keeps_no_array():
    class Watched(np.ndarray):
        pass

    for end in (lambda z: z.collect(), lambda z: z.sum(), lambda z: (z > 0).any()):
        base = np.arange(10_000.0).view(Watched)
        seen = weakref.ref(base)
        a = np.asarray(base)
        z = pb.par_iter(a) * 2 + a
        end(z)
        end(z)
        del a, z, base
        gc.collect()
        assert seen() is None


def test_a_form_after_an_error():
    a, none = np.full(5_000, 1.5e308), np.empty(0)
    for _ in range(3):
        with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="add"):
            (pb.par_iter(a) / 2 + a).collect()
        with pytest.warns(RuntimeWarning, match="overflow encountered in add"):
            assert np.isinf((pb.par_iter(a) / 2 + a).collect()).all()
        assert_same((pb.par_iter(a[:9]) / 2 + 1.0).collect(), a[:9] / 2 + 1.0)
        b = np.arange(7.0)
        assert_same((pb.par_iter(b) / 2 + b).collect(), b / 2 + b)
        with pytest.warns(RuntimeWarning, match="overflow encountered in add"):
            (pb.par_iter(a) / 2 + a).max()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert (pb.par_iter(none) / 2 + none).sum() == 0


def test_a_form_within_itself():
    """Who is told of an error computes the same of something else."""
    a, b = np.full(5_000, 1e308), np.arange(3.0)
    within = []

    def told(kind, flags):
        within.append((pb.par_iter(b) * 4 + b).collect())

    with np.errstate(over="call", call=told):
        for _ in range(3):
            assert np.isinf((pb.par_iter(a) * 4 + a).collect()).all()
    assert len(within) == 3
    for made in within:
        assert_same(made, b * 4 + b)


def test_a_form_of_nothing():
    """Also after somebody has looked at it."""
    none, some = np.empty(0), np.arange(9.0)
    for _ in range(3):
        for a in (none, some, none):
            x = pb.par_iter(a)
            assert "multiply" in repr(x * x - a)
            assert_same((x * x - a).collect(), a * a - a)
            assert (x * x > a).sum() == (a * a > a).sum()
            assert (x * x > a).any() == (a * a > a).any()


def test_more_forms_than_are_kept():
    a = np.arange(1, 9.0)
    ops = [operator.add, operator.sub, operator.mul]
    for _ in range(2):
        for chosen in itertools.product(ops, repeat=5):
            x, expected = pb.par_iter(a), a
            for k, op in enumerate(chosen):
                x, expected = op(x, k + 2), op(expected, k + 2)
            assert_same(x.collect(), expected)


def test_one_form_by_many_threads():
    def some(k):
        a = np.arange(k, k + 3_000.0)
        for _ in range(200):
            assert np.array_equal((pb.par_iter(a) * k + a).collect(), a * k + a)
            assert (pb.par_iter(a) * k + a).max() == (a * k + a)[-1]
        return k

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(some, range(1, 9))) == list(range(1, 9))


# ---- in others' hands -------------------------------------------------------


@pytest.mark.parametrize("n", [5, 300_000])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1", "?", "M8[ms]", ">f8"])
def test_columns_of_other_libraries(n, dtype):
    a = np.arange(n).astype(dtype)
    lazy = pb.par_iter(a)[::-1]
    expected = a[::-1]
    columns = {
        "polars": lambda m: m.Series(lazy).to_numpy(),
        "pyarrow": lambda m: m.array(lazy).to_numpy(zero_copy_only=False),
        "pandas": lambda m: m.Series(lazy).to_numpy(),
        "xarray": lambda m: m.DataArray(lazy).to_numpy(),
        "dask.array": lambda m: m.asarray(lazy).compute(),
    }
    for name, column in columns.items():
        got = column(pytest.importorskip(name))
        assert got.dtype.newbyteorder("=") == expected.dtype.newbyteorder("="), name
        np.testing.assert_array_equal(got, expected)
    assert pytest.importorskip("pyarrow").array(pb.par_iter([1, 2]), type="f8").type == "double"


@pytest.mark.parametrize("a", [np.ones(3, "c16"), np.ones((3, 2)), np.ones(3, "g")])
def test_what_is_no_column(a):
    """Not the addresses of objects, as polars has it."""
    with pytest.raises(TypeError, match="is no column"):
        pytest.importorskip("polars").Series(pb.par_iter(a))


def test_columns_without_polars(script):
    """What takes Arrow's columns, and is not polars, has pyarrow for it."""
    pytest.importorskip("pyarrow")
    assert script(
        "import numpy as np, pyarrow as pa, pyblitz as pb, sys\n"
        "c = pa.chunked_array(pb.par_iter(np.arange(3)) * 2)\n"
        "assert 'polars' not in sys.modules\n"
        "print(c.to_pylist())"
    ).split() == ["[0,", "2,", "4]"]


@pytest.mark.parametrize(
    "lazy",
    [
        np.sqrt(pb.par_iter([1.0, 2.0]) * 2).filter(lambda v: v < 3),
        pb.par_iter([1.0]).zip([2.0]),
        pb.par_iter([1.0, 2.0]).chunks(2),
    ],
)
def test_in_a_notebook(lazy):
    assert html.unescape(lazy._repr_html_()) == f"<pre>{lazy!r}</pre>"
    assert lazy._repr_html_().count("<") == 2


# ---- likely mistakes, and data of others ------------------------------------


@pytest.mark.parametrize("n", [10, 300_000])
@pytest.mark.parametrize("dtype", [">i2", ">i4", ">f4", ">f8", ">c16", ">M8[s]"])
def test_filters_keep_the_byte_order(dtype, n):
    """Their elements were bytes of the machine's order in arrays of the other one."""
    a = np.arange(n).astype(dtype)
    mask = np.arange(n) % 3 > 0
    x = pb.par_iter(a)
    assert_same(x[mask].collect(), a[mask])
    assert_same(x[mask][::2].collect(), a[mask][::2])
    assert_same(x[::2][mask[::2]].collect(), a[::2][mask[::2]])
    assert_same(x.zip(x).filter(lambda v, w: v == w).collect()[1], a)
    assert_same(np.asarray(x.filter(mask)), a[mask])
    assert x[mask].find_first(a[5]) == a[5]
    out = np.empty(mask.sum(), dtype)
    assert x[mask].collect(out) is out
    assert_same(out, a[mask])
    native = pb.par_iter(a.astype(a.dtype.newbyteorder("=")))
    assert_same(native[mask].astype(dtype).collect(), a[mask])
    assert_same(x.inspect(lambda v: None)[mask].collect(), a[mask])
    assert_same(x.map(np.array, dtype=dtype)[mask].collect(), a[mask])
    if a.dtype.kind != "M":
        y = pb.par_iter(a)
        y += 1
        assert_same(y[mask].collect(), (a + 1).astype(dtype)[mask])


NOT_ELEMENTWISE = {
    "above the mean": (lambda v: v > v.mean(), bool),
    "the greatest": (lambda v: v == v.max(), bool),
    "the least": (lambda v: v == v.min(), bool),
    "ranks": (lambda v: v.argsort().argsort() < 3, bool),
    "shares": (lambda v: v / v.sum(), float),
    "running sums": (lambda v: np.add.accumulate(v), float),
}


@pytest.mark.parametrize("shape", [(300_000,), (100_000, 3), (3, 100_000)])
@pytest.mark.parametrize("name", NOT_ELEMENTWISE)
@pytest.mark.parametrize("in_order", [False, True])
def test_functions_that_look_at_others(name, shape, in_order):
    """Silently wrong they were: such a function saw its block only."""
    fn, gives = NOT_ELEMENTWISE[name]
    a = np.random.default_rng(0).standard_normal(math.prod(shape))
    a = (np.sort(a) if in_order else a).reshape(shape)
    x = pb.par_iter(a)
    calls = [lambda: x.map(fn).collect(), lambda: x.zip(x).map(lambda v, w: fn(v)).collect()]
    if gives is bool:
        calls += [
            lambda: x.flatten().filter(fn).collect(),
            lambda: x.count(fn),
            lambda: x.flatten().position(fn),
            lambda: x.any(fn),
            lambda: pb.par_filter(a, fn),
            lambda: pb.par_find_first(a, fn),
            lambda: pb.par_partition_by(a, fn),
            lambda: pb.par_flatnonzero(a, fn),
        ]
    for call in calls:
        with pytest.raises(ValueError, match="fn is not elementwise"):
            call()
    assert x.map(fn, check=False).collect().shape == shape


@pytest.mark.parametrize("fn", [np.cumsum, np.sort, np.fft.fft])
def test_functions_known_to_look_at_others(fn):
    with pytest.raises(ValueError, match="is not elementwise; call"):
        pb.par_iter(np.arange(9.0)).map(fn)


def test_functions_of_a_whole_block():
    """They gave one number for each block."""
    x = pb.par_iter(np.arange(300_000.0))
    for fn in (lambda v: float(np.asarray(v).sum()), np.linalg.norm):
        with pytest.raises(ValueError, match="fn is not elementwise"):
            x.map(fn)
    assert_same(x.map(lambda v: 2.5 + 0 * len(np.asarray(v))).collect(), np.full(300_000, 2.5))


def test_functions_may_write_to_their_blocks():
    a = np.arange(300_000.0)

    def double(v):
        v[v > 10] *= 2
        return v

    def is_negative(v):
        return np.negative(v, out=v) < -5

    np.testing.assert_array_equal(pb.par_iter(a).map(double).collect(), double(a.copy()))
    np.testing.assert_array_equal(pb.par_iter(a).filter(is_negative).collect(), a[a > 5])


def test_the_check_says_and_shows_nothing():
    """Warnings come when the chain ends, and who looks at the elements is shown each once."""
    z = np.ones(300_000)
    z[150_000] = 0

    def same(v):
        return np.array(v)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lazy = (1 / pb.par_iter(z)).map(same, dtype=float)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        lazy.collect()
    seen = []
    lazy = pb.par_iter(z).inspect(lambda v: seen.append(v.size)).map(same, dtype=float)
    assert not seen
    lazy.collect()
    assert sum(seen) == z.size


def test_functions_that_round_otherwise_are_elementwise():
    a = np.random.default_rng(0).random(300_000, "f4")
    x = pb.par_iter(a)

    def power(v):
        return np.asarray(v) ** np.float32(1.7) + np.sin(np.asarray(v))

    np.testing.assert_allclose(x.map(power).collect(), power(a), rtol=1e-5)
    assert x.count(lambda v: np.asarray(v) > 0.5) == np.count_nonzero(a > 0.5)


def test_integers_are_no_mask():
    x, index = pb.par_iter([10, 20, 30]), pb.par_iter([2, 0, 1])
    a = np.array([10, 20, 30])
    for call in (
        lambda: x[index],
        lambda: x.filter(index),
        lambda: x.count(index),
        lambda: x.position(index),
        lambda: pb.par_filter(a, index),
        lambda: pb.par_partition_by(a, index),
    ):
        with pytest.raises(TypeError, match="not a lazy array of int64"):
            call()


def test_lazy_arrays_are_not_written_to():
    """They have no memory: what was written was lost, or the calls never ended."""
    x = pb.par_iter(np.arange(5.0))
    a = np.ones(5)
    for call in (
        lambda: np.add(a, 1, out=x),
        lambda: np.add(x, 1, out=x),
        lambda: np.divmod(x, 2, out=(None, x)),
        lambda: np.clip(x, 0, 1, out=x),
        lambda: np.sum(x, out=x),
        lambda: np.add.reduce(a, out=x),
        lambda: np.mean(a, out=x),
        lambda: np.matmul(x, x, out=x),
        lambda: np.copyto(x, 5),
        lambda: np.put(x, [0], 5),
        lambda: np.add.at(x, [0], 1),
        lambda: np.put(a=x, ind=[1], v=[5.0]),
        lambda: np.copyto(dst=x, src=a),
        lambda: np.place(arr=x, mask=[True] * 5, vals=[1.0]),
        lambda: np.cumsum(a, 0, None, x),
        lambda: pb.par_map(np.sqrt, a, out=x),
        lambda: pb.par_map(np.negative, x, out=x),
        lambda: pb.par_sum(a, out=x),
        lambda: pb.par_sort(a, out=x),
        lambda: pb.par_argsort(a, out=x),
        lambda: pb.par_cumsum(a, out=x),
        lambda: pb.par_copy(a, out=x),
        lambda: pb.par_concatenate([a, a], out=x),
        lambda: pb.par_take(a, [0], out=x),
        lambda: pb.par_fill(x, 7),
        lambda: pb.par_put(x, [0], 9),
        lambda: pb.par_map_inplace(np.negative, x),
    ):
        with pytest.raises(TypeError, match="lazy array"):
            call()
    np.testing.assert_array_equal(x.collect(), np.arange(5.0))


IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv]
IN_PLACE += [operator.imod, operator.ipow, operator.iand, operator.ior, operator.ixor]
IN_PLACE += [operator.ilshift, operator.irshift]


@pytest.mark.parametrize("op", IN_PLACE)
@pytest.mark.parametrize("dtype", ["u1", "i4", "i8", "f2", "f4", "f8", "D", ">i4"])
@pytest.mark.parametrize(
    "other", [3, 1.5, 0.5, -1, 1j, [1, 2, 3], np.array([1, 2, 3], "i4"), np.array([1.0, 2, 3])]
)
def test_in_place_operators_keep_the_dtype(op, dtype, other):
    def done(x):
        try:
            with np.errstate(all="ignore"):
                return np.asarray(op(x, other))
        except (TypeError, ValueError, OverflowError) as error:
            return type(error)

    a = np.arange(1, 4).astype(dtype)
    expected, got = done(a.copy()), done(pb.par_iter(a))
    if isinstance(expected, type):
        assert got is expected
    else:
        assert_same(got, expected)


def test_in_place_operators_keep_the_shape():
    x = pb.par_iter(np.ones(3))
    with pytest.raises(ValueError, match="non-broadcastable output"):
        x += np.ones((2, 3))


def test_times_equal_no_numbers():
    t = np.arange(3).astype("M8[s]")
    assert_same((pb.par_iter(t) == 1).collect(), t == 1)
    assert_same((pb.par_iter(t) != 1).collect(), t != 1)
    with pytest.raises(TypeError):
        pb.par_iter(t) < 1  # noqa: B015


@pytest.mark.parametrize("n", [1, 70_001, 400_001])
@pytest.mark.parametrize("cut", [np.s_[::2], np.s_[1::2], np.s_[::-1], np.s_[::-3]])
def test_booleans_behind_a_cast_that_does_nothing(cut, n):
    """Their bytes lie apart: a count went through those between them, and beyond the array."""
    a = np.zeros(3 * n, bool)
    a[1::2] = True
    a = a[cut][:n]
    x = pb.par_iter(a).astype(bool)
    assert x.sum() == a.sum()
    assert x.max() == a.max()
    assert x.min() == a.min()
    assert pb.par_count_nonzero(x) == np.count_nonzero(a)
    assert x.any() == a.any()
    assert x.all() == a.all()
    at = np.flatnonzero(a)
    assert x.position(True) == (at[0] if at.size else None)


def test_extremes_of_booleans_look_at_everything():
    """A search would end at a hit: what warns, raises or is shown behind it was lost, and which of
    that depended on who was faster."""
    n = 600_000
    x = np.full(n, 3.0)
    x[n // 2], x[n - 1] = 1.0, 0.0
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        assert (1 / pb.par_iter(x) > 0.5).max()
    seen = []
    assert pb.par_iter(x).inspect(lambda part: seen.append(part.size)).map(np.isfinite).max()
    assert sum(seen) >= n

    def raises(part):
        if part[-1] == 0.0:
            raise ZeroDivisionError
        return part > 0.0

    for extreme in (pb.ParIter.max, pb.ParIter.min):
        with pytest.raises(ZeroDivisionError):
            extreme(pb.par_iter(x).map(raises, dtype=bool, check=False))


# ---- what two readings found


BOTH = pytest.mark.parametrize("n", [8, 100_000])


@BOTH
def test_no_map_makes_objects_or_text(n):
    x = pb.par_iter(np.arange(float(n)))
    for fn in (lambda v: v * 2, lambda v: np.interp(v, [0, 9], [0, 9])):
        for dtype in (object, "U3", "S2", [("a", "f8")]):
            with pytest.raises(TypeError, match="dtype: expected a number or time, not"):
                x.map(fn, dtype=dtype)


@BOTH
def test_map_casts_within_a_kind_only(n):
    """Whether the function can be traced or not, and as `par_map` does."""
    a = np.arange(float(n))
    for fn in (lambda v: v * 1.5, lambda v: np.interp(v, [0, 9], [0, 9])):
        with pytest.raises(TypeError):
            pb.par_iter(a).map(fn, dtype=int).collect()
        with pytest.raises(TypeError):
            pb.par_map(fn, a, dtype=int)
        got = pb.par_iter(a).map(fn, dtype="f4").collect()
        assert_same(got, fn(a).astype("f4"))


@pytest.mark.filterwarnings("ignore:overflow")  # of products
@BOTH
def test_reductions_take_an_axis_in_the_first_place(n):
    a = np.arange(float(2 * n)).reshape(n, 2)
    x, row = pb.par_iter(a), pb.par_iter(a[:, 0])
    for name in ("sum", "prod", "min", "max", "mean", "var", "std"):
        for axis in (0, 1, -1, (0, 1), None):
            expected = getattr(a, name)(axis)
            np.testing.assert_allclose(getattr(x, name)(axis), expected, rtol=1e-12)
        np.testing.assert_allclose(getattr(row, name)(0), getattr(a[:, 0], name)(0), rtol=1e-12)
    for name in ("any", "all"):
        for axis in (0, 1, np.int64(1)):
            with pytest.raises(TypeError, match="an axis, which is axis="):
                getattr(x, name)(axis)
            assert_same(getattr(x, name)(axis=axis), getattr(a, name)(axis))
        assert getattr(row, name)(2.0) == getattr(np, name)(a[:, 0] == 2)


@pytest.mark.parametrize("n", [8, 100_000])
@pytest.mark.parametrize("dtype", ["u8", "i8", "u4", "i4"])
def test_searches_do_not_wrap_numbers(n, dtype):
    top = np.iinfo(dtype).max
    a = np.full(n, top, dtype)
    a[n // 2] = 1
    for v in (np.int64(-1), np.int32(-1), np.uint64(2**64 - 1), np.uint32(2**32 - 1), np.array(-1)):
        expected = np.equal(a, v)
        x = pb.par_iter(a)
        where = int(np.argmax(expected)) if expected.any() else None
        assert (x == v).any() == expected.any()
        assert x.position(v) == where
        assert pb.par_position(a, v) == where
        assert x.count(v) == np.count_nonzero(expected)
    assert pb.par_position(a, 1) == n // 2


@BOTH
def test_times_without_a_unit_get_their_sources(n):
    times = (np.arange(n) + 700).astype("M8[s]")
    x, d = pb.par_iter(times), np.timedelta64(1500, "ms")
    spans = x.astype("m8")
    assert spans.dtype == "m8[s]"
    assert_same((spans + d).collect(), times.astype("m8") + d)
    assert_same((spans > d).collect(), times.astype("m8") > d)
    back = pb.par_iter(times.astype("m8[s]")).astype("M8")
    assert_same((back + d).collect(), times.astype("m8[s]").astype("M8") + d)
    traced = x.map(lambda v: v - np.datetime64(0, "s"), dtype="m8")
    blocks = x.map(lambda v: np.array(v) - np.datetime64(0, "s"), dtype="m8")
    for got in (traced, blocks):
        assert_same(got.collect(), times - np.datetime64(0, "s"))


@BOTH
@pytest.mark.parametrize("dtype", ["i8", "f4", "u1", "?", "m8[s]"])
def test_a_start_after_chain_is_cast(n, dtype):
    a = np.arange(n).astype(dtype)
    whole, x = np.concatenate([a, a]), pb.par_iter(a).chain(a)
    starts = {"m": [np.timedelta64(5, "ms"), np.timedelta64(5, "s")]}.get(
        whole.dtype.kind, [7.5, 0.5, np.float64(0.5), 300, float("nan")]
    )
    for op in ("max", "min", "sum"):
        for start in starts:
            expected = outcome(lambda o=op, s=start: getattr(whole, o)(initial=s))[0]
            got = outcome(lambda o=op, s=start: getattr(x, o)(initial=s))[0]
            assert type(got) is type(expected)
            if not isinstance(expected, Exception):
                np.testing.assert_allclose(got, expected, rtol=1e-5)
    empty = pb.par_iter(a).filter(np.zeros(n, bool)).chain(a)
    assert empty.max(initial=a[0]) == a.max()


@BOTH
def test_a_start_that_is_no_identity_says_nothing(n):
    """SciPy's ufuncs have a zero there."""
    special = pytest.importorskip("scipy.special")
    a = np.linspace(1, 2, n)
    for op in (special.elliprc, special.agm, special.boxcox):
        with np.errstate(all="ignore"):
            expected = op.reduce(np.concatenate([a, a]))
            np.testing.assert_equal(pb.par_iter(a).chain(a).reduce(op), expected)
            np.testing.assert_equal(
                pb.par_reduce(op, a.reshape(4, -1), axis=1), op.reduce(a.reshape(4, -1), axis=1)
            )


@pytest.mark.parametrize("n", [8, 200_000])
def test_errstate_inside_a_function(n):
    a = np.arange(float(n))
    x = pb.par_iter(a)

    def safe(v):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(v == 0, 0.0, 1 / v)

    def strict(v):
        with np.errstate(divide="raise"):
            return 1 / v

    with np.errstate(all="raise"):
        assert_same(x.map(safe).collect(), safe(a))
        assert_same(pb.par_filter(a, lambda v: safe(v) > 0.2), a[safe(a) > 0.2])
        assert pb.par_position(a, lambda v: safe(v) == 0.25) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FloatingPointError):
            x.map(strict).collect()
    assert "GIL" not in repr(x.map(lambda v: v * 2))


def test_windows_cannot_be_written():
    """They lie over each other, as those of `sliding_window_view`; chunks do not."""

    def shift(w):
        w -= w[0]
        return w[-1]

    for n in (8, 20_000):
        x = pb.par_iter(np.arange(float(n)))
        with pytest.raises(ValueError, match="read-only"):
            x.windows(3).map(shift)
        assert_same(x.chunks(4).map(shift).collect(), np.full(n // 4, 3.0))


def test_slices_in_a_loop_do_not_double():
    a = x = np.random.default_rng(5).integers(0, 100, 2000)
    y = pb.par_iter(a)
    for _ in range(40):
        x, y = x[1:] - x[:-1], y[1:] - y[:-1]
    assert_same(y.collect(), x)
    assert_same(y[5:9].collect(), x[5:9])


@BOTH
def test_a_zip_of_two_filters_is_one_of_arrays(n):
    a = np.arange(float(n))
    f, g = pb.par_iter(a).filter(lambda v: v > 1), pb.par_iter(a).filter(lambda v: v < n - 2)
    p, q = a[a > 1], a[a < n - 2]
    assert_same(f.zip(g).map(lambda u, v: u + v).collect(), p + q)
    for got, kept in zip(f.zip(g).filter(lambda u, v: u + v > 4).collect(), (p, q), strict=True):
        assert_same(got, kept[p + q > 4])
    short = pb.par_iter(a).filter(lambda v: v > 2)
    with pytest.raises(ValueError, match="zip: shapes differ"):
        f.zip(short).map(lambda u, v: u + v)


@BOTH
def test_chunks_of_numpys_integers(n):
    x = pb.par_iter(np.arange(n))
    assert len(x.chunks(np.int8(3)).collect()) == -(-n // 3)
    assert len(x.windows(np.uint8(3))) == n - 2
    seen = []
    x.chunks(4).for_each(lambda c: seen.append(c[0]) or c * 2)
    assert sorted(seen) == list(range(0, n, 4))


def test_rows_of_another_shape_do_not_follow_a_filter():
    kept = pb.par_iter(np.arange(4.0)).filter(lambda v: v > 1)
    with pytest.raises(ValueError, match="chain: rows of shape"):
        kept.chain(np.ones((2, 2)))
    with pytest.raises(ValueError, match="chain: rows of shape"):
        pb.par_iter(np.ones((2, 2))).chain(kept)


@BOTH
def test_functions_of_python_are_not_merged(n):
    rng, x = np.random.default_rng(1), pb.par_iter(np.arange(float(n)))

    def noise(v):
        return np.interp(v, [0, 1], [0, 0]) + rng.random(v.shape)

    one, two = x.map(noise, check=False), x.map(noise, check=False)
    assert (one - two).any()
    assert not (one - one).any()


@pytest.mark.filterwarnings("ignore:invalid")
def test_a_product_of_one_complex_number():
    for value in (complex(-np.inf, 0), complex(0, np.inf), 2j):
        a = np.array([value])
        np.testing.assert_equal(pb.par_iter(a).prod(), a.prod())
        np.testing.assert_equal(pb.par_prod(a), a.prod())


def test_means_of_no_windows_have_their_dtype():
    for dtype in ("f4", "i4", "f8", "F"):
        few, some = np.zeros(3, dtype), np.zeros(9, dtype)
        means = [pb.par_iter(a).windows(5).mean() for a in (few, some)]
        assert means[0].dtype == means[1].dtype
        assert means[0].size == 0


def test_classes_that_compute_otherwise_are_refused():
    class Unit(np.ndarray):
        def __array_ufunc__(self, fn, method, *inputs, **options):
            return NotImplemented

    class Named(np.ndarray):
        pass

    a = np.ones((2, 2))
    for kind in (np.matrix, Unit):
        with pytest.raises(TypeError, match="computes otherwise than arrays"):
            pb.par_iter(a.view(kind))
    assert_same(pb.par_iter(a.view(Named)).collect(), a)
