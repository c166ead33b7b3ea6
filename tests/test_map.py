"""par_map is the ufunc's call; on kernels and callables, what its docstring says."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from arrays import arrays, assert_same, values
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pyblitz as pb

UNARY = [np.negative, np.sqrt, np.exp, np.isnan, np.sign, np.conjugate, np.rint, np.modf, np.frexp]
BINARY = [
    np.add,
    np.multiply,
    np.true_divide,
    np.maximum,
    np.less,
    np.logical_or,
    np.power,
    np.floor_divide,
    np.divmod,
    np.arctan2,
    np.bitwise_xor,
    np.copysign,
]


def outcome(f):
    """What a call gives, warns and raises."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = f()
        except Exception as e:
            result = (type(e), str(e))
    return result, sorted({str(w.message) for w in seen})


def check(ours, numpys):
    (got, warned), (expected, should) = outcome(ours), outcome(numpys)
    if isinstance(expected, tuple):
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            if isinstance(e, type):
                assert g is e
            elif isinstance(e, str):
                assert g == e
            else:
                assert_same(g, e)
    else:
        assert_same(got, expected)
    assert warned == should


@settings(max_examples=150)
@given(arrays(), st.sampled_from(UNARY))
def test_unary(a, fn):
    check(lambda: pb.par_map(fn, a), lambda: fn(a))


@settings(max_examples=200)
@given(arrays(), arrays(), st.sampled_from(BINARY), st.booleans())
def test_binary_broadcast(a, b, fn, row):
    if row and b.ndim:
        b = b[:1]
    with contextlib.suppress(ValueError):
        # A column and a row may make an array larger than memory.
        assume(np.prod(np.broadcast_shapes(a.shape, b.shape)) < 1_000_000)
    check(lambda: pb.par_map(fn, a, b), lambda: fn(a, b))


@settings(max_examples=60)
@given(
    arrays(), st.sampled_from([2, 0.5, 1j, True, np.float32(2), 300, -1]), st.sampled_from(BINARY)
)
def test_scalars_are_as_weak_as_in_numpy(a, scalar, fn):
    check(lambda: pb.par_map(fn, a, scalar), lambda: fn(a, scalar))


@settings(max_examples=60)
@given(
    arrays(dtypes=("f4", "f8", "i4")),
    st.sampled_from(["f8", "f4", "i8", "D"]),
    st.integers(0, 9),
    st.sampled_from(["same_kind", "unsafe", "no"]),
)
def test_out_where_dtype_casting(a, out_dtype, seed, casting):
    where = values("?", a.shape, seed)
    ours, theirs = np.zeros(a.shape, out_dtype), np.zeros(a.shape, out_dtype)
    check(
        lambda: pb.par_map(np.add, a, a, out=ours, where=where, casting=casting),
        lambda: np.add(a, a, out=theirs, where=where, casting=casting),
    )
    np.testing.assert_array_equal(ours, theirs)
    check(
        lambda: pb.par_map(np.multiply, a, a, dtype=out_dtype, casting=casting),
        lambda: np.multiply(a, a, dtype=out_dtype, casting=casting),
    )


def test_overlap():
    a = np.arange(200_000.0)
    expected = a.copy()
    expected[1:] = a[:-1] + 1
    pb.par_map(np.add, a[:-1], 1, out=a[1:])
    np.testing.assert_array_equal(a, expected)
    b = np.arange(90_000.0).reshape(300, 300)
    expected = b + b.T
    assert pb.par_map(np.add, b, b.T, out=b) is b
    np.testing.assert_array_equal(b, expected)
    where = values("?", a.shape, 1)
    expected = a.copy()
    np.add(expected[:-1], 1, out=expected[1:], where=where[1:])
    for _ in range(3):
        np.full(a.size - 1, np.nan)  # what memory may hold that is not written
    pb.par_map(np.add, a[:-1], 1, out=a[1:], where=where[1:])
    np.testing.assert_array_equal(a, expected)


def test_layout_is_numpys():
    for a in (
        np.asfortranarray(values("f8", (300, 400), 1)),
        values("f8", (300, 400), 1)[:, ::2],
        values("f8", (30, 40, 50), 1).transpose(1, 2, 0),
    ):
        assert pb.par_map(np.negative, a).strides == np.negative(a).strides


@pytest.mark.filterwarnings("ignore:.where. used without .out.")
@pytest.mark.parametrize("shape", [(2, 1, 40_000), (300, 1, 301), (300, 301, 1), (300, 301)])
def test_axes_of_length_1_have_numpys_strides(shape):
    """Which are others where NumPy casts, has two outputs, another shape or a mask, than where it
    runs one loop over everything: results in Fortran's order once had those of the latter."""
    f = np.asfortranarray(values("f4", shape, 1))
    mask = values("?", shape, 2)
    for a in (f, f.astype("f8"), f.swapaxes(0, -1), np.ascontiguousarray(f)):
        for fn, b, options in (
            (np.add, a, {}),
            (np.add, a, {"signature": "dd->d"}),
            (np.add, np.float64(2), {}),
            (np.add, a[:1], {}),
            (np.add, a, {"order": "A", "signature": "dd->d"}),
            (np.add, a, {"order": "F"}),
            (np.add, a, {"where": mask if a.shape == shape else mask.T}),
            (np.modf, None, {}),
        ):
            ins = (a,) if b is None else (a, b)
            got, expected = pb.par_map(fn, *ins, **options), fn(*ins, **options)
            outs = zip(got, expected, strict=True) if b is None else [(got, expected)]
            for g, e in outs:
                assert (g.strides, g.dtype) == (e.strides, e.dtype), (fn, a.strides, options)


def test_errstate_holds():
    a = np.zeros(200_000)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        pb.par_map(np.log, a)
    for data in (a, a.astype(">f8")):  # without the GIL, and sliced
        with (
            np.errstate(divide="raise"),
            pytest.raises(FloatingPointError, match="divide by zero encountered in log"),
        ):
            pb.par_map(np.log, data)
    calls = []
    with np.errstate(divide="call", call=lambda *args: calls.append(args)):
        pb.par_map(np.log, a)
    assert calls == [("divide by zero", 1)]


def test_subclasses_and_array_ufunc_are_numpys():
    m = np.ma.masked_array(np.arange(200_000.0), np.arange(200_000) % 2 == 0)
    assert isinstance(pb.par_map(np.sqrt, m), np.ma.MaskedArray)

    class Other:
        def __array_ufunc__(self, *args, **kwargs):
            return "mine"

    assert pb.par_map(np.add, np.zeros(200_000), Other()) == "mine"


def test_gufunc_and_object_go_to_numpy():
    a = np.random.default_rng(0).random((300, 300))
    np.testing.assert_array_equal(pb.par_map(np.matmul, a, a), a @ a)
    o = np.arange(100_000).astype(object)
    assert pb.par_map(np.add, o, 1)[-1] == 100_000


def test_results_do_not_depend_on_the_number_of_threads(pool_size):
    a = values("f8", (300_001,), 5)
    seen = set()
    for n in (1, 2, 3, 8):
        pool_size(n)
        with np.errstate(all="ignore"):
            seen.add(pb.par_map(np.sin, a).tobytes())
    assert len(seen) == 1


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "F", "D", "g"])
def test_numpys_loops_give_the_same_wherever_a_row_is_cut(dtype):
    """Rows that are no one stretch of memory are cut where the clock says: no result may tell."""
    rng = np.random.default_rng(0)
    for fn in list(vars(np).values()):
        if not isinstance(fn, np.ufunc) or fn.signature is not None:
            continue
        rows = [(rng.standard_normal(1001) * 50).astype(dtype) for _ in range(fn.nin)]
        for row in rows:
            row[rng.integers(0, 1001, 20)] = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan], 20)
        with np.errstate(all="ignore"):
            try:
                whole = fn(*rows)
            except TypeError:
                continue  # it has no loop of them
            for cut in (1, 37, 513, 998):
                parts = fn(*[row[:cut] for row in rows]), fn(*[row[cut:] for row in rows])
                if fn.nout == 1:
                    np.testing.assert_array_equal(np.concatenate(parts), whole, fn.__name__)
                else:
                    for first, second, expected in zip(*parts, whole, strict=True):
                        np.testing.assert_array_equal(
                            np.concatenate([first, second]), expected, fn.__name__
                        )


# ---- kernels ----------------------------------------------------------------


def square_cfunc(kind="f8"):
    numba = pytest.importorskip("numba", reason="the extra that has Numba is not installed")
    scalar = {"f8": numba.float64, "i4": numba.int32}[kind]
    return numba.cfunc(scalar(scalar))(lambda x: x * x)


@pytest.mark.parametrize("n", [0, 10, 300_000])
def test_numba_cfunc(n):
    a = np.arange(n, dtype=float)
    np.testing.assert_array_equal(pb.par_map(square_cfunc(), a), a * a)
    i = np.arange(n, dtype="i4")
    np.testing.assert_array_equal(pb.par_map(square_cfunc("i4"), i[::-1]), i[::-1] * i[::-1])


def test_what_takes_long_is_shared_though_it_is_cast(pool_size):
    """By slices, of which there are several."""
    pool_size(2)
    a = np.random.default_rng(0).random(40_000)
    b = a.astype("f4")
    with pb.stats() as s:
        got = pb.par_map(np.arctan2, a, b)
    assert sum(w.promotions + w.steals for w in s.workers) > 0
    assert_same(got, np.arctan2(a, b))


def test_numba_vectorize():
    numba = pytest.importorskip("numba", reason="the extra that has Numba is not installed")
    twice = numba.vectorize(lambda x: 2 * x)
    a = np.arange(300_000.0)
    np.testing.assert_array_equal(pb.par_map(twice, a), 2 * a)


def test_ctypes_function():
    hypot = ctypes.CDLL(None).hypot
    hypot.argtypes, hypot.restype = [ctypes.c_double, ctypes.c_double], ctypes.c_double
    a = values("f8", (100_001,), 1)
    b = values("f8", (100_001,), 2)
    np.testing.assert_allclose(pb.par_map(hypot, a, b), np.hypot(a, b), rtol=1e-15)
    with pytest.raises(TypeError, match="takes 2 arrays, not 1"):
        pb.par_map(hypot, a)
    hypot.argtypes = None
    with pytest.raises(TypeError, match="argtypes"):
        pb.par_map(hypot, a, b)


def block_kernel():
    numba = pytest.importorskip("numba", reason="the extra that has Numba is not installed")
    signature = numba.void(
        numba.types.CPointer(numba.float64),
        numba.types.CPointer(numba.float64),
        numba.intp,
        numba.types.voidptr,
    )

    @numba.cfunc(signature)
    def plus_one(a, o, n, user):
        for i in range(n):
            o[i] = a[i] + 1

    return plus_one


def test_block_kernel_on_any_layout():
    a = np.arange(400_000.0).reshape(1000, 400)
    kernel = block_kernel()
    for x in (a, a.T, a[::3, ::2], a[::-1], a[:, 0]):
        np.testing.assert_array_equal(pb.par_map(kernel, x), x + 1)
        out = np.empty_like(x.T).T
        assert pb.par_map(kernel, x, out=out) is out
        np.testing.assert_array_equal(out, x + 1)
    b = a.copy()
    pb.par_map(kernel, b[:-1], out=b[1:])
    np.testing.assert_array_equal(b[1:], a[:-1] + 1)


def test_low_level_callable_with_user_data():
    scipy = pytest.importorskip("scipy", reason="the extra that has SciPy is not installed")
    numba = pytest.importorskip("numba", reason="the extra that has Numba is not installed")

    @numba.cfunc(numba.float64(numba.float64, numba.types.CPointer(numba.float64)))
    def scaled(x, user):
        return x * user[0]

    factor = ctypes.c_double(2.5)
    kernel = scipy.LowLevelCallable(
        ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_void_p)(scaled.address),
        ctypes.cast(ctypes.pointer(factor), ctypes.c_void_p),
    )
    assert kernel.signature == "double (double, void *)"
    a = np.arange(100_000.0)
    np.testing.assert_array_equal(pb.par_map(kernel, a), a * 2.5)


def capsule(signature: bytes | None):
    new = ctypes.pythonapi.PyCapsule_New
    new.argtypes, new.restype = (
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
        ctypes.py_object,
    )
    address = ctypes.cast(ctypes.CDLL(None).fabs, ctypes.c_void_p).value
    capsule.names.append(signature)  # the capsule does not keep its name alive
    return new(address, signature, None)


capsule.names = []


def test_capsule():
    a = values("f8", (100_000,), 3)
    np.testing.assert_array_equal(pb.par_map(capsule(b"double (double)"), a), np.abs(a))


@pytest.mark.parametrize(
    "signature",
    [
        b"double (int)",
        b"double (double, double, double, double, double)",
        b"char *(char *)",
        b"nonsense",
        b"void (double *, double *)",
        b"int (*)(int)",
    ],
)
def test_capsule_of_another_signature_is_refused(signature):
    with pytest.raises(TypeError, match="signature"):
        pb.par_map(capsule(signature), np.zeros(10))
    np.testing.assert_array_equal(pb.par_map(np.abs, [-1.0]), [1.0])


def test_capsule_without_a_name_is_refused():
    with pytest.raises(TypeError, match="signature"):
        pb.par_map(capsule(None), np.zeros(10))


def test_kernel_dtype_mismatch_names_both():
    with pytest.raises(TypeError, match=r"double \(double\).*float64.*int64"):
        pb.par_map(capsule(b"double (double)"), np.zeros(10, np.int64))
    with pytest.raises(TypeError, match="float32"):
        pb.par_map(capsule(b"double (double)"), np.zeros(10), out=np.zeros(10, np.float32))


# ---- Python functions on blocks ---------------------------------------------


@settings(max_examples=40)
@given(arrays(dtypes=("f8", "i4", ">f4", "U3")))
def test_callable_on_blocks(a):
    if a.dtype.kind == "U":
        got, expected = pb.par_map(np.char.upper, a), np.char.upper(a)
    else:
        got, expected = pb.par_map(lambda x: x * 2 + 1, a), a * 2 + 1
    assert np.asarray(got).dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    "shapes", [((1000, 1), (600,)), ((600,), (1000, 1)), ((1, 600), (1000, 1))]
)
def test_a_small_column_and_a_small_row_are_a_large_plane(shapes, pool_size):
    pool_size(2)  # one thread leaves it to NumPy
    a, b = (np.arange(np.prod(shape), dtype=float).reshape(shape) for shape in shapes)
    with pb.stats() as s:
        got = pb.par_map(np.hypot, a, b)
    assert any(w.name.startswith("caller") and w.busy > 0 for w in s.workers)
    np.testing.assert_array_equal(got, np.hypot(a, b))


def test_calls_whose_price_is_known(pool_size):
    """They are NumPy's own: of arrays of a type that was timed before, and of others."""
    pool_size(2)
    rng = np.random.default_rng(4)
    for _ in range(3):
        for n in (9_000, 40_000, 200_000):
            for dtype in ("f8", "i8", ">f8"):
                a, b = (rng.integers(-99, 99, n).astype(dtype) for _ in range(2))
                np.testing.assert_array_equal(pb.par_map(np.add, a, b), a + b, strict=True)
                out = np.empty_like(a)
                assert pb.par_map(np.subtract, a, b, out=out) is out
                np.testing.assert_array_equal(out, a - b)
                assert pb.par_map(np.add, a, b[::-1], out=a) is a
                np.testing.assert_array_equal(a, out + b + b[::-1])
                assert pb.par_map(np.add, a.reshape(2, -1), b.reshape(2, -1)).shape == (2, n // 2)
                assert pb.par_map(np.add, a, b[:1]).shape == (n,)
                with pytest.raises(ValueError, match="broadcast"):
                    pb.par_map(np.add, a, b[:-1])
                with pytest.raises(TypeError, match="cast"):
                    pb.par_map(np.sqrt, a, out=np.empty(n, int), casting="no")
        with np.errstate(invalid="raise"), pytest.raises(FloatingPointError, match="sqrt"):
            pb.par_map(np.sqrt, np.full(20_000, -1.0))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("fn", [np.negative, np.add, np.less, np.true_divide])
def test_rows_of_one_type_whose_loop_is_known(fn, order, pool_size):
    """From the second call on they need not be looked at as others are; the results are the
    same wherever they lie."""
    pool_size(2)
    rng = np.random.default_rng(5)
    rows = [rng.integers(1, 99, (300, 400)).astype("f4", order=order) for _ in range(fn.nin)]
    whole = [np.zeros((301, 400), "f4", order=order) for _ in rows]
    turned = [*rows[:-1], rows[-1].T.reshape(rows[-1].shape)] if fn.nin == 2 else rows
    for _ in range(3):
        for ins in (rows, turned, [a.T for a in rows], [a.ravel("K") for a in rows]):
            got, expected = pb.par_map(fn, *ins), fn(*ins)
            np.testing.assert_array_equal(got, expected, strict=True)
            assert got.strides == expected.strides
        if fn is np.less:
            continue
        got = rows[0].copy(order)
        assert pb.par_map(fn, got, *rows[1:], out=got) is got
        np.testing.assert_array_equal(got, fn(*rows))
        # The result lies over what is read, one row further.
        for w, a in zip(whole, rows, strict=True):
            w[:-1] = a
        pb.par_map(fn, *[w[:-1] for w in whole], out=whole[0][1:])
        np.testing.assert_array_equal(whole[0][1:], fn(*rows))
        got.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            pb.par_map(fn, *rows, out=got)
        np.testing.assert_array_equal(got, fn(*rows))


@pytest.mark.parametrize(
    "dtypes", ["i4 f8", "f8 i4", "u1 f4", "i8 i8", "?  i2", "f2 f4", ">i4 f8", "m8[s] i8"]
)
@pytest.mark.parametrize("fn", [np.true_divide, np.multiply, np.add, np.less])
def test_operands_that_are_cast_broadcast_or_numbers(fn, dtypes, pool_size):
    """The first time, when nothing is known of such a call, and later."""
    pool_size(2)
    rng = np.random.default_rng(6)
    a, b = (rng.integers(0, 9, (300, 400)).astype(dtype) for dtype in dtypes.split())
    away = rng.random(a.shape) < 0.5
    unwriteable = np.zeros(a.shape, "f4")
    unwriteable.flags.writeable = False

    def called(call, *ins, **options):
        out = options.pop("out", None)
        into = {} if out is None else {"out": out.copy() if out.flags.writeable else out}
        made = call(*[into["out"] if x is out else x for x in ins], **into, **options)
        assert out is None or made is into["out"]
        return made

    calls = [
        ((a, b), {}),
        ((a, b.T.copy().T), {}),
        ((a, b[:1]), {}),
        ((a[:, :1], b), {}),
        ((a[:, :1], b[:1]), {}),
        ((a, 3), {}),
        ((2.5, b), {}),
        ((a, 10**30), {}),
        ((a, b), {"out": np.zeros(a.shape)}),
        ((a, b), {"out": np.zeros(a.shape, "f4")}),
        ((a, b), {"out": np.zeros(a.shape, bool)}),
        ((a, 1e200), {"out": np.zeros(a.shape, "f4")}),
        ((1e300, b[:, ::2]), {}),
        ((1e300, b), {"out": unwriteable}),
        ((a, b), {"out": np.zeros((2, *a.shape))}),
        ((a, b), {"out": b}),
        ((a, b), {"out": np.zeros(a.shape), "where": away}),
        ((a, b), {"dtype": "f8"}),
        ((a, b), {"casting": "no"}),
    ]
    for _ in range(3):
        for ins, options in calls:
            ours = functools.partial(called, functools.partial(pb.par_map, fn), *ins, **options)
            check(ours, functools.partial(called, fn, *ins, **options))
    with np.errstate(divide="raise", invalid="raise"):
        check(lambda: pb.par_map(fn, a, b), lambda: fn(a, b))


@pytest.mark.parametrize("dtype", ["i4", "?", "f8"])
def test_numbers_that_have_no_c_type_are_refused_as_by_numpy(dtype):
    a = np.ones(140_000, dtype)
    for number in (-(2**70), 2**64, 2**63):
        ours = functools.partial(pb.par_map, np.logical_and, a, number)
        for _ in range(3):
            check(ours, functools.partial(np.logical_and, a, number))


@pytest.mark.parametrize("whole", [True, False])
def test_an_out_that_overlaps_itself(whole):
    """As NumPy has it, which computes into memory of its own and then copies in order."""
    results = []
    for f in (pb.par_map, lambda fn, *args, **kwargs: fn(*args, **kwargs)):
        memory = np.arange(400_000)
        out = np.lib.stride_tricks.as_strided(memory, (700, 600), (8 * 300, 8))
        a = out if whole else memory[:600]
        assert f(np.invert, a, out=out) is out
        results.append(memory)
    np.testing.assert_array_equal(*results)
    with pytest.raises(ValueError, match="out: its elements overlap each other"):
        pb.par_map(lambda x: x + 1, np.zeros((700, 600), int), out=out)
    np.testing.assert_array_equal(*results)


def test_outs_of_any_layout_are_shared():
    a = np.random.default_rng(0).random((300, 20, 50))
    cube = np.empty((600, 40, 100))
    for out in (cube[::2, ::2, ::-2], cube.T[:50, :20, :300].T, cube[:300, :20, 3:53]):
        with pb.stats() as s:
            pb.par_map(np.sqrt, a, out=out)
        assert not s.left
        np.testing.assert_array_equal(out, np.sqrt(a))


def test_callable_on_blocks_broadcasts_and_casts():
    a, b = np.arange(200_000.0).reshape(500, 400), np.arange(400.0)
    np.testing.assert_array_equal(pb.par_map(lambda x, y: x + y, a, b), a + b)
    out = np.empty(a.shape, np.float32)
    assert pb.par_map(lambda x: x + 1, a, out=out) is out
    np.testing.assert_array_equal(out, (a + 1).astype(np.float32))
    with pytest.raises(TypeError, match="Cannot cast"):
        pb.par_map(lambda x: x + 0.5, a, out=np.empty(a.shape, np.int64))
    assert pb.par_map(lambda x: x > 3, a, dtype=np.int8).dtype == np.int8


def test_callable_sees_each_element_once():
    a = np.arange(1_000_000)
    total = []
    pb.par_map(lambda x: (total.append(x.sum()), x)[1], a, check=False)
    assert sum(total) == a.sum()
    assert len(total) > 4


def test_the_check_is_one_call_of_a_few_rows():
    a = np.arange(1_000_000)
    sizes = []
    pb.par_map(lambda x: (sizes.append(x.size), x)[1], a)
    assert sum(sizes) == a.size + min(sizes)
    assert min(sizes) <= 8


ROLLING = np.ones(3) / 3
NOT_ELEMENTWISE = {
    "running sum": lambda x: x.cumsum(),
    "roll": lambda x: np.roll(x, 1),
    "sort": lambda x: np.sort(-x),
    "gradient": lambda x: np.gradient(x),
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(),
    "standardising": lambda x: (x - x.mean()) / x.std(),
    "fft": lambda x: np.abs(np.fft.fft(x)),
    "rolling mean": lambda x: np.convolve(x, ROLLING, "same"),
    "seeded generator": lambda x: x + np.random.default_rng(1).random(x.shape),
    "rank": lambda x: x.argsort(),
    "of the block's length": lambda x: x / len(x),
    "compares with neighbours": lambda x: np.concatenate([[False], x[1:] > x[:-1]]),
}


@pytest.mark.parametrize("name", NOT_ELEMENTWISE)
def test_what_is_not_elementwise_is_found(name):
    fn = NOT_ELEMENTWISE[name]
    for a in (np.random.default_rng(0).random(200_000), np.linspace(3, 0, 300_000)):
        before = a.copy()
        with pytest.raises(ValueError, match=r"fn is not elementwise.*par_cumsum.*check=False"):
            pb.par_map(fn, a)
        with pytest.raises(ValueError, match="fn is not elementwise"):
            pb.par_map(fn, a, out=np.empty(a.shape))
        np.testing.assert_array_equal(a, before)
        assert pb.par_map(fn, a, check=False).shape == a.shape
        # of one block, it is called as it is
        np.testing.assert_array_equal(pb.par_map(fn, a[:100]), fn(a[:100]))


def test_what_stops_the_check_is_told_as_it_is():
    a = np.random.default_rng(0).random(200_000)

    def slow_on_few(x):
        if x.size < 100:
            raise TimeoutError("of the caller's scope")
        return x

    with pytest.raises(TimeoutError, match="scope"):
        pb.par_map(slow_on_few, a)


def test_what_is_elementwise_passes_the_check():
    a = np.random.default_rng(0).normal(0, 1e3, 400_000)
    a[::1000] = np.nan
    a[1::1000] = np.inf
    table = a.reshape(-1, 8)
    with np.errstate(all="ignore"):
        for fn in (
            lambda x: np.sin(x) ** 2 + np.cos(x) ** 2,
            lambda x: x - np.sin(x) * 1e-9 - x,
            lambda x: np.exp(-x * x),
            lambda x: x > 0,
            lambda x: x.astype("f4"),
            lambda x: np.where(x > 0, x, 1j),
        ):
            got = pb.par_map(fn, a)
            np.testing.assert_array_equal(got, fn(a))
    # By rows of the first axis.
    clean = np.nan_to_num(table, posinf=0)
    rows = pb.par_map(lambda x: x / (1 + np.abs(x).sum(axis=1, keepdims=True)), clean)
    np.testing.assert_array_equal(rows, clean / (1 + np.abs(clean).sum(axis=1, keepdims=True)))
    # In place, the rows are those of before.
    b = a.copy()
    np.testing.assert_array_equal(pb.par_map_inplace(lambda x: x * 2, b), a * 2)


@pytest.mark.parametrize(
    ("fn", "hint"),
    [(np.cumsum, "par_cumsum"), (np.sort, "par_sort"), (np.roll, "whole"), (np.fft.fft, "whole")],
)
def test_functions_known_not_to_be_elementwise_are_refused(fn, hint):
    for n in (10, 200_000):
        with pytest.raises(ValueError, match=f"{fn.__name__} is not elementwise.*{hint}"):
            pb.par_map(fn, np.zeros(n))


@pytest.mark.parametrize("n", [10, 200_000])
def test_functions_of_scalars_are_told_from_functions_of_arrays(n):
    import math

    a = np.arange(1.0, n + 1)
    for fn, error in (
        (lambda x: x if x > 3 else 0.0, ValueError),
        (math.sqrt, TypeError),
        (lambda x: None, TypeError),
    ):
        with pytest.raises(error, match="elementwise=True"):
            pb.par_map(fn, a)
    np.testing.assert_array_equal(pb.par_map(math.sqrt, a, elementwise=True), np.sqrt(a))


def test_later_elements_do_not_lose_what_the_first_one_lacked():
    assert pb.par_map(lambda x: x, [1, 2], elementwise=True).tolist() == [1, 2]
    for each in ([1, 0.5], [0, 1j], [True, 2]):
        with pytest.raises(TypeError, match="give dtype= or out="):
            pb.par_map(lambda i: each[i], [0, 1], elementwise=True)  # noqa: B023
    assert pb.par_map(lambda i: (1.5, 2)[i], [0, 1], elementwise=True).tolist() == [1.5, 2]
    got = pb.par_map(lambda i: (1, 0.5)[i], [0, 1], elementwise=True, dtype=float)
    assert got.tolist() == [1, 0.5]
    with pytest.raises(TypeError, match="returned None"):
        pb.par_map(lambda i: None, [0, 1], elementwise=True)


def test_callable_runs_in_the_callers_context():
    import contextvars

    var = contextvars.ContextVar("var", default="none")
    var.set("mine")
    seen = set()

    def block(x):
        seen.add(var.get())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return np.log(x)

    with np.errstate(all="ignore"):
        pb.par_map(block, np.zeros(1_000_000))
    assert seen == {"mine"}


@pytest.mark.parametrize("bad", [0, 1, -1, None])
def test_callable_that_raises(bad):
    """In the first block, the second, the last, every one: the first in order wins."""
    a = np.arange(1_000_000.0)
    block = 65536
    blocks = -(-a.size // block)

    def fn(x):
        i = int(x[0]) // block
        if bad is None or i == bad % blocks:
            raise LookupError(i)
        return x

    for _ in range(3):
        with pytest.raises(LookupError) as e:
            pb.par_map(fn, a)
        assert e.value.args == (0 if bad is None else bad % blocks,)
        assert e.traceback[-1].name == "fn"
        if hasattr(e.value, "add_note"):
            assert any("pyblitz: in block" in note for note in e.value.__notes__)
    np.testing.assert_array_equal(pb.par_map(np.sqrt, a), np.sqrt(a))


def test_callable_of_another_shape():
    with pytest.raises(ValueError, match=r"shape \(\) for a block of shape \(10,\)"):
        pb.par_map(lambda x: x.mean(), np.zeros(10))
    with pytest.raises(ValueError, match="elementwise"):
        pb.par_map(lambda x: x[1:], np.zeros(10**6))


def test_callable_whose_later_blocks_do_not_fit_the_first():
    a = np.arange(200_000)

    def text(x):
        return np.array([str(v) for v in x])

    with pytest.raises(TypeError, match="give dtype= or out="):
        pb.par_map(text, a)
    assert pb.par_map(text, a, dtype="U9")[-1] == "199999"
    a %= 100
    assert pb.par_map(lambda x: x if x[0] else x.astype("i1"), a, dtype="i8")[-1] == 99


def test_kernel_on_a_scalar_gives_a_scalar():
    assert type(pb.par_map(capsule(b"double (double)"), -1.0)) is np.float64


def test_nested_calls():
    a = np.arange(1_000_000.0)
    got = pb.par_map(lambda x: pb.par_map(np.sqrt, x) + pb.par_reduce(np.add, x) * 0, a)
    np.testing.assert_array_equal(got, np.sqrt(a))


# ---- bad input --------------------------------------------------------------

BIG = np.zeros(200_000)


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f(np.add, BIG),
        lambda f: f(np.add, BIG, BIG, BIG, BIG),
        lambda f: f(np.add, BIG, np.zeros(3)),
        lambda f: f(np.add, BIG, "text"),
        lambda f: f(np.add, BIG, None),
        lambda f: f(np.invert, BIG),
        lambda f: f(np.sqrt, BIG, out=np.zeros(7)),
        lambda f: f(np.sqrt, BIG, out=[1, 2]),
        lambda f: f(np.sqrt, BIG, out=np.broadcast_to(np.zeros(1), BIG.shape)),
        lambda f: f(np.sqrt, BIG, out=np.zeros(200_000, np.int8)),
        lambda f: f(np.sqrt, BIG, out=(None, None)),
        lambda f: f(np.sqrt, BIG, dtype="no such"),
        lambda f: f(np.sqrt, BIG, dtype=np.int64),
        lambda f: f(np.sqrt, BIG, casting="no such"),
        lambda f: f(np.sqrt, BIG, casting=3),
        lambda f: f(np.sqrt, BIG, where=np.zeros(3, bool)),
        lambda f: f(np.power, np.full(200_000, 2), np.full(200_000, -1)),
    ],
)
def test_bad_input_raises_what_numpy_raises(call):
    def numpys(fn, *arrays, **options):
        return fn(*arrays, **options)

    with pytest.raises(Exception) as expected:  # noqa: PT011 - NumPy says which
        call(numpys)
    with pytest.raises(type(expected.value)) as got:
        call(pb.par_map)
    assert str(got.value) == str(expected.value)
    assert not BIG.any()
    np.testing.assert_array_equal(pb.par_map(np.sqrt, [4.0]), [2.0])


@pytest.mark.parametrize(
    "call",
    [
        lambda: pb.par_map(3, BIG),
        lambda: pb.par_map(lambda x: x),
        lambda: pb.par_map(lambda x: x, BIG, where=BIG > 0),
        lambda: pb.par_map(lambda x: x, BIG, out=[1]),
        lambda: pb.par_map(),
    ],
)
def test_wrong_types(call):
    with pytest.raises(TypeError):
        call()


def test_read_only_out_of_a_callable():
    out = np.zeros(10)
    out.flags.writeable = False
    for fn in (lambda x: x + 1, np.sqrt):
        with pytest.raises(ValueError, match="read-only"):
            pb.par_map(fn, np.ones(10), out=out)
    assert not out.any()


# ---- every keyword of a ufunc -----------------------------------------------


@settings(max_examples=60)
@given(
    arrays(dtypes=("f4", "f8", "i4")),
    st.sampled_from(
        [
            {"order": "C"},
            {"order": "F"},
            {"order": "A"},
            {"order": "K"},
            {"order": "X"},
            {"order": 3},
            {"subok": False},
            {"subok": "yes"},
            {"signature": "dd->d"},
            {"sig": "dd->d"},
            {"sig": ("f4", "f4", "f4")},
            {"sig": (None, None, np.float32), "casting": "unsafe"},
            {"signature": (np.float64, np.float64, None)},
            {"signature": "ff->f", "casting": "unsafe"},
            {"signature": "??->?"},
            {"signature": "nonsense"},
            {"signature": (None,) * 3},
            {"signature": "dd->d", "sig": "dd->d"},
            {"signature": "dd->d", "dtype": "f8"},
            {"axis": 0},
            {"keepdims": True},
            {"no_such": 1},
        ]
    ),
    st.booleans(),
)
def test_keywords(a, options, into):
    def call(f):
        more = {"out": np.zeros(a.shape, "f8", "F")} if into else {}
        return f(np.add, a, a, **options, **more)

    def numpys(fn, *arrays, **options):
        return fn(*arrays, **options)

    check(lambda: call(pb.par_map), lambda: call(numpys))
    (got, _), (expected, _) = outcome(lambda: call(pb.par_map)), outcome(lambda: call(numpys))
    if isinstance(expected, np.ndarray) and expected.size:
        assert got.strides == expected.strides


@pytest.mark.parametrize("fn", [np.maximum, np.add, np.negative])
def test_calls_that_are_timed_are_those_that_were_made(fn, pool_size):
    """Of np.maximum a third argument by position is deprecated."""
    pool_size(2)
    x = np.random.default_rng(0).random(20_000)
    out = np.empty_like(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(20):
            assert pb.par_map(fn, *[x] * fn.nin, out=out) is out
            assert np.array_equal(out, fn(*[x] * fn.nin))


def test_outputs_by_position():
    a = values("f4", (100_003,), 1)
    one, two = np.empty(a.shape), np.empty(a.shape, "i4")
    np.testing.assert_array_equal(pb.par_map(np.negative, a, one), -a)
    np.testing.assert_array_equal(one, -a)
    with np.errstate(all="ignore"):
        got = pb.par_map(np.frexp, a, None, two)
        expected = np.frexp(a)
    assert got[1] is two
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_array_equal(g, e)
    check(lambda: pb.par_map(np.negative, a, one, out=one), lambda: np.negative(a, one, out=one))


# ---- gufuncs ----------------------------------------------------------------

G = np.random.default_rng(7)
STACK = G.integers(0, 9, (4000, 6, 7)).astype(float)
DEEP = G.random((3, 1000, 5, 5)).transpose(1, 0, 2, 3)
LAPACK = np.linalg._umath_linalg
SVD = getattr(LAPACK, "svd_s", None) or LAPACK.svd_n_s  # NumPy 2.0

GUFUNC_CALLS = [
    lambda f: f(np.matmul, STACK, STACK.transpose(0, 2, 1)),
    lambda f: f(np.matmul, STACK, STACK[0].T),
    lambda f: f(np.matmul, STACK, STACK[0, 0]),
    lambda f: f(np.matmul, STACK[0, :, 0], STACK),
    lambda f: f(np.matmul, STACK.astype(int), STACK.transpose(0, 2, 1).astype("i2")),
    lambda f: f(np.matmul, STACK[:, None], STACK.transpose(0, 2, 1)[None, :50]),
    lambda f: f(np.matmul, STACK, STACK, axes=[(1, 2), (2, 1), (1, 2)]),
    lambda f: f(np.matmul, STACK, STACK, axes=[(-2, -1), (-1, -2), (0, 1)]),
    lambda f: f(np.matmul, STACK, STACK.transpose(0, 2, 1), dtype="f4", casting="same_kind"),
    lambda f: f(np.matmul, STACK, STACK.transpose(0, 2, 1), signature="FF->F", casting="unsafe"),
    lambda f: f(np.vecdot, STACK, STACK),
    lambda f: f(np.vecdot, STACK, STACK, axis=1),
    lambda f: f(np.vecdot, STACK, STACK, axis=0),
    lambda f: f(np.vecdot, STACK, STACK, keepdims=True),
    lambda f: f(np.vecdot, STACK, STACK, axis=-2, keepdims=True),
    lambda f: f(np.vecdot, STACK, STACK, axes=[0, 0, ()]),
    lambda f: f(np.vecdot, STACK, STACK[0], axes=[2, 1]),
    lambda f: f(np.vecdot, STACK.T, STACK[0].T, axis=1),
    lambda f: f(np.vecdot, STACK, STACK, order="F"),
    lambda f: f(np.vecdot, STACK * 1j, STACK, subok=False),
    lambda f: f(np.vecdot, np.full((40_000, 9), 1e300), np.full(9, 1e300)),
    lambda f: f(LAPACK.inv, DEEP),
    lambda f: f(LAPACK.inv, np.zeros((2000, 5, 5))),
    lambda f: f(SVD, DEEP),
    lambda f: f(LAPACK.eig, DEEP),
    lambda f: f(LAPACK.slogdet, DEEP),
    lambda f: f(LAPACK.solve, DEEP, DEEP[:1]),
    # refused by NumPy
    lambda f: f(np.matmul, STACK, STACK),
    lambda f: f(np.matmul, STACK, STACK[:7].transpose(0, 2, 1)),
    lambda f: f(np.matmul, STACK, 3.0),
    lambda f: f(np.matmul, STACK, STACK.transpose(0, 2, 1), axis=0),
    lambda f: f(np.vecdot, STACK, STACK, where=STACK[..., 0] > 3),
    lambda f: f(np.vecdot, STACK, STACK, axis=9),
    lambda f: f(np.vecdot, STACK, STACK, axis=0.5),
    lambda f: f(np.vecdot, STACK, STACK, axes=[0, 0, 0]),
    lambda f: f(np.vecdot, STACK, STACK, axes=3),
    lambda f: f(np.vecdot, STACK, STACK, keepdims="no"),
    lambda f: f(np.vecdot, STACK, STACK, out=np.zeros((4000, 7))),
    lambda f: f(np.vecdot, STACK, STACK, out=np.zeros((4000, 6), int)),
    lambda f: f(np.vecdot, STACK),
    lambda f: f(np.vecdot, STACK, STACK, casting="no such"),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("call", GUFUNC_CALLS)
def test_gufuncs(call):
    def numpys(fn, *arrays, **options):
        return fn(*arrays, **options)

    check(lambda: call(pb.par_map), lambda: call(numpys))
    expected, _ = outcome(lambda: call(numpys))
    if isinstance(expected, np.ndarray):
        assert call(pb.par_map).strides == expected.strides


def test_gufuncs_report_a_flag_once():
    """However many slices met it."""
    calls = []
    with np.errstate(invalid="call", call=lambda *a: calls.append(a)):
        pb.par_map(LAPACK.inv, np.zeros((20_000, 5, 5)))
    assert calls == [("invalid value", 8)]


def test_gufuncs_are_shared(pool_size):
    """A slice takes some 250 us."""
    pool_size(2)
    a = np.ones((500, 50, 50), int)
    with pb.stats() as s:
        pb.par_map(np.matmul, a, a)
    assert sum(w.promotions for w in s.workers) > 10


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_gufunc_outputs(threads, pool_size):
    pool_size(threads)
    a = G.random((3000, 5, 5))
    expected = a @ a
    out = np.zeros(a.shape, "f8", "F")
    assert pb.par_map(np.matmul, a, a, out=out) is out
    # Before NumPy 2.3 the order of `out` decides who multiplies, and so the last bits.
    np.testing.assert_array_equal(out, np.matmul(a, a, out=np.zeros(a.shape, "f8", "F")))
    u = np.zeros_like(a)
    got = pb.par_map(SVD, a, out=(u, None, None))
    assert got[0] is u
    for g, e in zip(got, SVD(a), strict=True):
        np.testing.assert_array_equal(g, e)
    b = a.copy()
    assert pb.par_map(np.matmul, b, b, out=b) is b
    np.testing.assert_array_equal(b, expected)
    b = a.copy()
    pb.par_map(np.matmul, b[1:], b[1:], out=b[:-1])
    np.testing.assert_array_equal(b[:-1], expected[1:])


def test_numba_ufuncs_of_uneven_work():
    numba = pytest.importorskip("numba", reason="the extra that has Numba is not installed")

    @numba.vectorize
    def count(x):
        n = 0
        while x > 1:
            x = x // 2 if x % 2 == 0 else 3 * x + 1
            n += 1
        return n

    a = np.arange(100_003)
    np.testing.assert_array_equal(pb.par_map(count, a), count(a))
    b = a[:99_000].reshape(99, -1).T
    np.testing.assert_array_equal(pb.par_map(count, b), count(b))

    @numba.vectorize(["f8(f8, f8)"])
    def plus(x, y):
        return x + y

    x = np.arange(100_003.0)
    np.testing.assert_array_equal(pb.par_map(plus, x, 2), x + 2)
    with pytest.raises(TypeError):
        pb.par_map(plus, x, "text")


# ---- a callable for each element --------------------------------------------


@pytest.mark.parametrize("n", [1, 3, 70_003])
def test_elementwise(n):
    a = np.arange(n)
    types = set()

    def fn(x):
        types.add(type(x))
        return x / 2

    assert_same(pb.par_map(fn, a, elementwise=True), np.vectorize(fn)(a))
    assert int in types
    calls = []
    pb.par_map(lambda x: calls.append(x) or 0, a, elementwise=True)
    assert sorted(calls) == list(range(n))


def test_elementwise_dtypes_and_shapes():
    a = np.arange(200_000).reshape(400, 500)
    row = np.arange(500.0)

    def fn(x, y):
        return x + y if x % 2 else -1

    got = pb.par_map(fn, a, row, elementwise=True, dtype=float)
    np.testing.assert_array_equal(got, np.where(a % 2, a + row, -1))
    # the first result is an int
    with pytest.raises(TypeError, match="float64 for some elements, but int64"):
        pb.par_map(fn, a, row, elementwise=True)
    out = np.empty(a.shape, "f4")
    assert pb.par_map(fn, a, row, elementwise=True, out=out, casting="unsafe") is out
    np.testing.assert_array_equal(out, got.astype("f4"))
    assert pb.par_map(str, [5, 10], elementwise=True).tolist() == ["5", "10"]
    numbers = np.arange(100_000)  # of several blocks, the later ones with longer texts
    assert_same(pb.par_map(str, numbers, elementwise=True), numbers.astype(object).astype(str))
    assert pb.par_map(lambda x: {x}, [5, 10], elementwise=True).tolist() == [{5}, {10}]
    assert pb.par_map(lambda x: x + 1, 5, elementwise=True) == 6
    assert pb.par_map(fn, a[:0], row, elementwise=True, dtype="i4").dtype == "i4"
    with pytest.raises(ValueError, match="dtype"):
        pb.par_map(fn, a[:0], row, elementwise=True)
    with pytest.raises(ZeroDivisionError):
        pb.par_map(lambda x: 1 // x, a, elementwise=True)
    with pytest.raises(TypeError, match="at least one array"):
        pb.par_map(fn, elementwise=True)
    # those that are elementwise anyhow
    assert_same(pb.par_map(np.sqrt, row, elementwise=True), np.sqrt(row))


@pytest.mark.skipif(
    getattr(sys, "_is_gil_enabled", lambda: True)(), reason="with a GIL threads gain nothing"
)
def test_few_dear_elements_are_shared():
    seen = set()

    def dear(x):
        seen.add(threading.get_ident())
        time.sleep(0.002)
        return x

    assert_same(pb.par_map(dear, np.arange(100), elementwise=True), np.arange(100))
    assert len(seen) > 1


# ---- par_map_inplace --------------------------------------------------------


@settings(max_examples=60)
@given(arrays(), st.sampled_from([np.negative, np.sqrt, np.exp, np.square]), st.booleans())
def test_inplace(a, fn, unsafe):
    ours, theirs = a.copy(order="K"), a.copy(order="K")
    casting = "unsafe" if unsafe else "same_kind"

    def numpys():
        return fn(theirs, out=theirs, casting=casting)

    if unsafe:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = outcome(lambda: pb.par_map_inplace(fn, ours, casting=casting))[0]
            expected = outcome(numpys)[0]
        assert (got is ours) == (expected is theirs)
    else:
        check(lambda: pb.par_map_inplace(fn, ours), numpys)
    np.testing.assert_array_equal(ours, theirs)


def test_inplace_of_every_kind_of_function():
    n = 300_001
    for fn, expected in [
        (np.negative, -np.arange(n) * 1.0),
        (lambda x: x + 1, np.arange(n) + 1.0),
        (capsule(b"double (double)"), np.arange(n) * 1.0),
    ]:
        a = np.arange(n) * 1.0
        assert pb.par_map_inplace(fn, a) is a
        np.testing.assert_array_equal(a, expected)
    a = np.arange(100)
    pb.par_map_inplace(lambda x: x * 3, a[::-2], elementwise=True)
    np.testing.assert_array_equal(
        a, np.where(np.arange(100) % 2, np.arange(100) * 3, np.arange(100))
    )
    where = np.arange(n) % 3 == 0
    a = np.arange(n) * 1.0
    pb.par_map_inplace(np.negative, a, where=where)
    np.testing.assert_array_equal(a, np.where(where, -1.0, 1.0) * np.arange(n))


@pytest.mark.parametrize("bad", [[1.0], 3.0, None, "text", (1, 2)])
def test_inplace_and_fill_need_an_array(bad):
    with pytest.raises(TypeError, match="a: expected an array"):
        pb.par_map_inplace(np.sqrt, bad)
    with pytest.raises(TypeError, match="a: expected an array"):
        pb.par_fill(bad, 1)


def test_inplace_needs_a_writeable_array():
    a = np.ones(300_000)
    a.flags.writeable = False
    for fn in (np.negative, lambda x: -x, capsule(b"double (double)")):
        with pytest.raises(TypeError, match="read-only"):
            pb.par_map_inplace(fn, a)
    assert (a == 1).all()
    with pytest.raises(TypeError, match="Cannot cast"):
        pb.par_map_inplace(np.sqrt, np.ones(300_000, int))


# ---- par_fill ---------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("size", [5, 9_000_007])
@pytest.mark.parametrize(
    "value",
    [3, -1, 300, 2**70, 0.5, 1e300, np.nan, 1j, True, "7", b"text", None, "x", [1], [1, 2],
     np.float64(2.5), np.array([4]), np.datetime64(3, "s"), np.timedelta64(4, "s"), object()],
    ids=lambda value: "object" if type(value) is object else repr(value),
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["?", "i1", "u8", ">i4", "f4", "g", "c16", "M8[s]", "S5", "U5",
                                   "i2,f8", "O"])  # fmt: skip
def test_fill(dtype, value, size):
    size = min(size, 9_000_000 // np.dtype(dtype).itemsize + 10) if dtype != "O" else size % 1001
    ours, theirs = np.zeros(size, dtype), np.zeros(size, dtype)
    check(lambda: pb.par_fill(ours, value), lambda: theirs.fill(value))
    if dtype == "g":  # whose bytes are not all used
        np.testing.assert_array_equal(ours, theirs)
    else:
        assert ours.tobytes() == theirs.tobytes()


def test_fill_any_layout(pool_size):
    pool_size(2)  # one thread leaves it to NumPy
    for a in (
        np.zeros((4000, 3000))[::2, ::2],
        np.zeros((400, 3000)).T[::-1],
        np.zeros((3, 400_000)),
        np.zeros((400_000, 3)),
        np.frombuffer(bytearray(8 * 1_200_000 + 1), "f8", 1_200_000, 1),
    ):
        with pb.stats() as s:
            pb.par_fill(a, 7)
        assert any(w.name.startswith("caller") and w.busy > 0 for w in s.workers)
        assert (a == 7).all()
    whole = np.zeros((1000, 4000))
    pb.par_fill(whole[:, 1::2], 1)
    assert whole.sum() == 2_000_000
    assert not whole[:, ::2].any()
    a = np.zeros(1_200_000)
    a.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        pb.par_fill(a, 7)
    assert not a.any()
    m = np.ma.zeros(1_200_000)
    pb.par_fill(m, 3)
    assert (m == 3).all()


@pytest.mark.parametrize("n", [5, 20_000])
@pytest.mark.parametrize("number", [1, 1.0, 1j, np.int64(1), True])
@pytest.mark.parametrize("casting", ["no", "equiv", "safe"])
def test_numbers_of_pythons_with_any_casting(n, number, casting):
    """NumPy 2.4.6 crashes when it is asked which loop it would take with casting="equiv"."""
    a = np.ones(n)
    for call in (
        lambda: pb.par_map(np.add, a, number, casting=casting),
        lambda: np.add(pb.par_iter(a), number, casting=casting).collect(),
    ):
        check(call, lambda: np.add(a, number, casting=casting))


@pytest.mark.parametrize("types", ["lq", "ql", "LQ", "QL"])
def test_types_of_one_size_that_are_asked_for(types):
    """C has two of 8 bytes (or of 4), equal as dtypes: the second got the first one's result."""
    first, second = types
    a = np.arange(300_000, dtype=np.int32 if first in "lq" else np.uint32)
    for fn in (np.add, np.bitwise_xor):
        for char in (first, second):
            mapped, scanned = pb.par_map(fn, a, a, dtype=char), pb.par_scan(fn, a, dtype=char)
            assert mapped.dtype.char == fn(a, a, dtype=char).dtype.char
            assert scanned.dtype.char == fn.accumulate(a, dtype=char).dtype.char
    x, y = a.astype(first), a.astype(second)
    assert pb.par_dot(x, y).dtype.char == np.dot(x, y).dtype.char


@pytest.mark.parametrize("shape", [(20_000, 1), (1, 20_000), (20_000, 1, 1), (20_000,), (100, 300)])
def test_where_leaves_alone_in_an_out_that_is_the_input(shape, pool_size):
    """Of a view with other strides along axes of length 1 NumPy makes a temporary, all of which it
    copies back."""
    pool_size(2)
    a = np.arange(float(np.prod(shape))).reshape(shape)
    mask = a % 2 == 0
    expected = np.where(mask, a < 5, a)
    assert pb.par_map(np.less, a, 5, out=a, where=mask) is a
    assert np.array_equal(a, expected)
