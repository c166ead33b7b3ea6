"""Sorting by a compiled comparison: every kind of function, and every kind of nonsense."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess

import numpy as np
import pytest
from arrays import arrays, values
from hypothesis import given, settings
from hypothesis import strategies as st

import pyblitz as pb

SOURCE = """
#include <stdint.h>
#include <string.h>
typedef struct { int32_t key, at; } item;
#define KEY(p) (((const item *)(p))->key)
int less(const void *a, const void *b, void *u) { return KEY(a) < KEY(b); }
int less_alone(const void *a, const void *b) { return KEY(a) < KEY(b); }
_Bool truth(const void *a, const void *b, void *u) { return KEY(a) < KEY(b); }
_Bool truth_alone(const void *a, const void *b) { return KEY(a) < KEY(b); }
signed char minus(const void *a, const void *b, void *u) { return -(KEY(a) < KEY(b)); }
int minus_one(const void *a, const void *b, void *u) { return -(KEY(a) < KEY(b)); }
int big(const void *a, const void *b, void *u) { return KEY(a) < KEY(b) ? 1 << 30 : 0; }
int not_strict(const void *a, const void *b, void *u) { return KEY(a) <= KEY(b); }
int always(const void *a, const void *b, void *u) { return 1; }
int never(const void *a, const void *b, void *u) { return 0; }
int difference(const void *a, const void *b, void *u) { return KEY(a) - KEY(b); }
int circular(const void *a, const void *b, void *u) { return (KEY(b) - KEY(a) + 300) % 3 == 1; }
int random_(const void *a, const void *b, void *u) {
    static _Thread_local uint64_t x = 88172645463325252u;
    x ^= x << 13; x ^= x >> 7; x ^= x << 17;
    return x >> 63;
}
/* by the remainder of a division by *u */
int remainder_(const void *a, const void *b, void *u) {
    int32_t m = *(const int32_t *)u;
    return KEY(a) % m < KEY(b) % m;
}
int bytes3(const void *a, const void *b, void *u) { return memcmp(a, b, 3) < 0; }
int double_(const double *a, const double *b, void *u) { return *a < *b; }
int swapped(const void *a, const void *b, void *u) {
    uint16_t x, y;
    memcpy(&x, a, 2), memcpy(&y, b, 2);
    return x < y;
}
int through(const void *a, const void *b, void *u) {
    const double *x = u;
    return x[*(const int64_t *)a] < x[*(const int64_t *)b];
}
"""
ITEM = np.dtype([("key", "i4"), ("at", "i4")])
# Around runs, chunks, pieces, and rows that are sorted together.
LENGTHS = [0, 1, 2, 7, 8, 9, 17, 1000, 8191, 8192, 8193, 16_385, 32_769, 100_001]
KINDS = ["less", "less_alone", "truth", "truth_alone", "minus", "minus_one", "big"]
NONSENSE = ["not_strict", "always", "never", "difference", "circular", "random_"]


@pytest.fixture(scope="module")
def lib(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler is installed")
    target = tmp_path_factory.mktemp("less")
    (target / "less.c").write_text(SOURCE)
    command = [compiler, "-O1", "-fwrapv", "-shared", "-fPIC", "less.c", "-o", "less.so"]
    subprocess.run(command, cwd=target, check=True)
    lib = ctypes.CDLL(str(target / "less.so"))
    pointer = ctypes.c_void_p
    for name in [*KINDS, *NONSENSE, "remainder_", "bytes3", "swapped", "through"]:
        fn = getattr(lib, name)
        fn.argtypes = [pointer] * (2 if name.endswith("alone") else 3)
        fn.restype = ctypes.c_bool if "truth" in name else ctypes.c_int
    lib.minus.restype = ctypes.c_byte
    number = ctypes.POINTER(ctypes.c_double)
    lib.double_.argtypes, lib.double_.restype = [number, number, pointer], ctypes.c_int
    return lib


def tagged(n, seed=0, keys=100):
    a = np.empty(n, ITEM)
    a["key"] = np.random.default_rng(seed).integers(0, keys, n)
    a["at"] = np.arange(n)
    return a


def by_key(a, *, descending=False):
    keys = -a["key"] if descending else a["key"]
    return a[np.argsort(keys, kind="stable")]


@pytest.mark.parametrize("name", KINDS)
def test_every_kind(lib, name, pool_size):
    pool_size(2)
    for n in LENGTHS:
        a = tagged(n)
        before = a.copy()
        for down in (None, False, True):
            got = pb.par_sort(a, less=getattr(lib, name), descending=down)
            np.testing.assert_array_equal(got, by_key(a, descending=down))
        np.testing.assert_array_equal(a, before)


PATTERNS = {
    "sorted": lambda n: np.arange(n),
    "reversed": lambda n: np.arange(n)[::-1],
    "reversed with equals": lambda n: np.arange(n)[::-1] // 3,
    "equal": lambda n: np.full(n, 7),
    "organ pipe": lambda n: np.minimum(np.arange(n), np.arange(n)[::-1]),
    "sawtooth": lambda n: np.arange(n) % 1000,
    "nearly sorted": lambda n: np.arange(n) ^ (np.random.default_rng(0).random(n) < 0.01),
    "second half first": lambda n: (np.arange(n) + n // 2) % n,
    "one low last": lambda n: np.where(np.arange(n) == n - 1, -1, np.arange(n)),
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(lib, pattern):
    a = tagged(60_000)
    a["key"] = PATTERNS[pattern](60_000)
    np.testing.assert_array_equal(pb.par_sort(a, less=lib.less), by_key(a))
    np.testing.assert_array_equal(
        pb.par_sort(a, less=lib.less, descending=True), by_key(a, descending=True)
    )


def test_same_for_any_number_of_threads(lib, pool_size):
    a = tagged(300_000, keys=1000)
    seen = set()
    for threads in (1, 2, 3, 8, 64):
        pool_size(threads)
        for less in (lib.less, lib.not_strict, lib.circular):
            seen.add((less.__name__, pb.par_sort(a, less=less).tobytes()))
    assert len(seen) == 3


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_loses_nothing(lib, name, pool_size):
    """Nothing is written around the array, and what was in it is still there."""
    for threads in (1, 2, 8):
        pool_size(threads)
        for n in LENGTHS:
            whole = tagged(n + 2000)
            before = whole.copy()
            a = whole[1000 : n + 1000]
            assert pb.par_sort(a, less=getattr(lib, name), out=a) is a
            for edge in (slice(None, 1000), slice(n + 1000, None)):
                np.testing.assert_array_equal(whole[edge], before[edge])
            np.testing.assert_array_equal(np.sort(a["at"]), np.arange(1000, n + 1000))
            np.testing.assert_array_equal(a["key"], before["key"][a["at"]])
            if name == "never":
                np.testing.assert_array_equal(whole, before)


def test_rows_of_nonsense(lib):
    a = tagged(100_000).reshape(500, 200)
    for name in NONSENSE:
        b = pb.par_sort(a, less=getattr(lib, name))
        assert (np.sort(b["at"], axis=1) == a["at"]).all()


class Callback:
    """A Python function as a compiled one."""

    TYPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)

    def __new__(cls, fn):
        return cls.TYPE(fn)


def test_a_callback_of_ctypes():
    a = np.random.default_rng(0).integers(0, 999, 3000)
    less = Callback(
        lambda a, b, _: (
            ctypes.c_int64.from_address(a).value % 7 < (ctypes.c_int64.from_address(b).value % 7)
        )
    )
    expected = a[np.argsort(a % 7, kind="stable")]
    np.testing.assert_array_equal(pb.par_sort(a, less=less), expected)


def until(native, left):
    scipy = pytest.importorskip("scipy")
    return scipy.LowLevelCallable.from_cython(
        native.kernels, "less_until", ctypes.cast(ctypes.pointer(left), ctypes.c_void_p)
    )


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_one_that_raises(native, pool_size, threads):
    """In a chunk, among ranks, in a merge: the exception comes out, and in place all
    elements are there."""
    pool_size(threads)
    rng = np.random.default_rng(0)
    start = rng.integers(0, 2**40, 60_000)
    left = ctypes.c_longlong(2**60)
    less = until(native, left)
    np.testing.assert_array_equal(pb.par_sort(start, less=less), np.sort(start))
    calls = 2**60 - left.value
    for n in [0, 1, 2, 9, 5000, *rng.integers(10, calls * 9 // 10, 30)]:
        left.value = int(n)
        a = start.copy()
        with pytest.raises(ZeroDivisionError, match="less"):
            pb.par_sort(a, less=less, out=a)
        np.testing.assert_array_equal(np.sort(a), np.sort(start))
        left.value = min(int(n), 10_000)
        with pytest.raises(ZeroDivisionError, match="less"):
            pb.par_sort(start.reshape(300, 200), less=less)
    left.value = 2**60
    np.testing.assert_array_equal(pb.par_sort(start, less=less), np.sort(start))


def test_cancelled_in_the_middle(native, pool_size):
    pool_size(2)
    a = np.random.default_rng(0).permutation(100_000)
    less = Callback(
        lambda a, b, _: (
            ctypes.c_int64.from_address(a).value < (ctypes.c_int64.from_address(b).value)
        )
    )
    with pytest.raises(TimeoutError), pb.CancelScope(timeout=0.05):
        pb.par_sort(a, less=less, out=a)
    np.testing.assert_array_equal(np.sort(a), np.arange(100_000))


def test_user_data(lib):
    scipy = pytest.importorskip("scipy")
    modulus = ctypes.c_int32(17)
    data = ctypes.cast(ctypes.pointer(modulus), ctypes.c_void_p)
    a = tagged(50_000)
    less = scipy.LowLevelCallable(lib.remainder_, data)
    expected = a[np.argsort(a["key"] % 17, kind="stable")]
    np.testing.assert_array_equal(pb.par_sort(a, less=less), expected)


def test_capsules_of_cython(native):
    capsules = native.kernels.__pyx_capi__
    a = values("i4", (50_000,), 1).astype("f8")
    np.testing.assert_array_equal(pb.par_sort(a, less=capsules["less_of_doubles"]), np.sort(a))
    expected = a[np.argsort(a * a, kind="stable")]
    np.testing.assert_array_equal(pb.par_sort(a, less=capsules["before_by_magnitude"]), expected)


def test_numba():
    numba = pytest.importorskip("numba")
    types = numba.types
    double, void = types.CPointer(types.float64), types.voidptr
    a = np.random.default_rng(0).random(50_000)
    for signature in (
        types.intc(double, double, void),
        types.intc(double, double),
        types.boolean(double, double, void),
        types.int8(double, double),
    ):
        if len(signature.args) == 3:
            less = numba.cfunc(signature)(lambda a, b, user: a[0] > b[0])
        else:
            less = numba.cfunc(signature)(lambda a, b: a[0] > b[0])
        np.testing.assert_array_equal(pb.par_sort(a, less=less), np.sort(a)[::-1])
    item = numba.from_dtype(ITEM)
    less = numba.cfunc(types.intc(types.CPointer(item), types.CPointer(item), void))(
        lambda a, b, user: numba.carray(a, 1)[0].key < numba.carray(b, 1)[0].key
    )
    b = tagged(50_000)
    np.testing.assert_array_equal(pb.par_sort(b, less=less), by_key(b))

    @numba.cfunc(types.intc(void, void, void))
    def untyped(a, b, user):
        return numba.carray(a, 1, np.float64)[0] < numba.carray(b, 1, np.float64)[0]

    np.testing.assert_array_equal(pb.par_sort(a, less=untyped), np.sort(a))


def test_cffi(lib):
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()
    address = ctypes.cast(lib.double_, ctypes.c_void_p).value
    less = ffi.cast("int (*)(const double *, const double *, void *)", address)
    a = np.random.default_rng(0).random(50_000)
    np.testing.assert_array_equal(pb.par_sort(a, less=less), np.sort(a))


def test_other_items(lib):
    rng = np.random.default_rng(0)
    text = rng.integers(97, 100, 60_000, np.uint8).view("S6")
    expected = text[np.argsort(text.astype("S3"), kind="stable")]
    np.testing.assert_array_equal(pb.par_sort(text, less=lib.bytes3), expected)
    z = rng.integers(0, 50, 20_000).astype("D") + 1j * rng.random(20_000)
    expected = z[np.argsort(z.real, kind="stable")]
    np.testing.assert_array_equal(pb.par_sort(z, less=lib.double_), expected)
    # native copies of what is byte-swapped
    b = rng.integers(0, 2**16, 20_000).astype(">u2")
    got = pb.par_sort(b, less=lib.swapped)
    assert got.dtype == b.dtype
    np.testing.assert_array_equal(got, np.sort(b))
    # indices, by what they are of
    scipy = pytest.importorskip("scipy")
    x = rng.random(20_000)
    less = scipy.LowLevelCallable(lib.through, ctypes.c_void_p(x.ctypes.data))
    got = pb.par_sort(np.arange(20_000), less=less)
    np.testing.assert_array_equal(got, np.argsort(x, kind="stable"))


@settings(max_examples=60)
@given(arrays(dtypes=("f8", ">f8")), st.data())
def test_axis_layout_and_out(a, data):
    numba = pytest.importorskip("numba")
    if a.ndim == 0:
        return
    a = np.where(np.isnan(a), 0, a).astype(a.dtype)
    axis = data.draw(st.sampled_from([None, *range(-a.ndim, a.ndim)]))
    less = less_of_numba(numba)
    before = a.copy()
    expected = np.sort(a, axis, kind="stable")
    got = pb.par_sort(a, axis, less=less)
    assert (got.dtype, got.shape, got.strides) == (expected.dtype, expected.shape, expected.strides)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(a, before)
    out = np.empty(expected.shape, a.dtype, order=data.draw(st.sampled_from("CF")))
    assert pb.par_sort(a, axis, less=less, out=out) is out
    np.testing.assert_array_equal(out, expected)
    if axis is not None:
        assert pb.par_sort(a, axis, less=less, out=a) is a
        np.testing.assert_array_equal(a, expected)


@functools.cache
def less_of_numba(numba):
    double = numba.types.CPointer(numba.types.float64)
    return numba.cfunc(numba.types.intc(double, double))(lambda a, b: a[0] < b[0])


def test_overlapping_out(lib):
    a = np.random.default_rng(0).random(50_001)
    expected = np.concatenate([a[:1], np.sort(a[:-1])])
    pb.par_sort(a[:-1], out=a[1:], less=lib.double_)
    np.testing.assert_array_equal(a, expected)


def test_what_is_refused(lib):
    a = np.arange(10.0)[::-1].copy()
    before = a.copy()
    untyped = ctypes.CDLL(None).abs
    for less, error, says in (
        (lambda a, b: a < b, TypeError, "cmp_to_key"),
        (3, TypeError, "compiled function"),
        (np.less, TypeError, "compiled function"),
        (untyped, TypeError, "argtypes"),
    ):
        with pytest.raises(error, match=says):
            pb.par_sort(a, less=less)
    pointer = ctypes.c_void_p
    for result, args in (
        (ctypes.c_int, [pointer]),
        (ctypes.c_int, [pointer] * 4),
        (ctypes.c_int, [ctypes.c_double] * 2),
        (None, [pointer] * 2),
        (ctypes.c_double, [pointer] * 2),
        (ctypes.c_int64, [pointer] * 2),
        (ctypes.c_int, [pointer, pointer, ctypes.c_int]),
    ):
        with pytest.raises(TypeError, match="less: cannot call"):
            pb.par_sort(a, less=ctypes.CFUNCTYPE(result, *args)(("abs", ctypes.CDLL(None))))
    for items, says in (
        (np.arange(10, dtype="f4"), "compares float64"),
        (np.arange(10), "compares float64"),
        (np.arange(10).astype("M8[s]"), "compares float64"),
        (np.arange(10).astype(object), "plain memory"),
        (np.array(["a"], np.dtypes.StringDType()), "plain memory"),
    ):
        with pytest.raises(TypeError, match=says):
            pb.par_sort(items, less=lib.double_)
    for options, error in (
        ({"axis": 1}, np.exceptions.AxisError),
        ({"axis": "x"}, TypeError),
        ({"kind": "none such"}, ValueError),
        ({"order": "key"}, ValueError),
        ({"out": np.empty(9)}, ValueError),
        ({"out": np.empty(10, "f4")}, TypeError),
        ({"out": [1]}, TypeError),
    ):
        with pytest.raises(error):
            pb.par_sort(a, less=lib.double_, **options)
    with pytest.raises(np.exceptions.AxisError):
        pb.par_sort(np.array(1.0), less=lib.double_)
    np.testing.assert_array_equal(a, before)


@pytest.mark.parametrize("name", ["less", "truth_alone", "minus"])
def test_argsort(lib, name, pool_size):
    pool_size(2)
    for n in LENGTHS:
        a = tagged(n)
        before = a.copy()
        for down in (None, True):
            got = pb.par_argsort(a, less=getattr(lib, name), descending=down)
            assert got.dtype == np.intp
            np.testing.assert_array_equal(got, by_key(a, descending=down)["at"])
        np.testing.assert_array_equal(a, before)


def test_argsort_by_nonsense(lib, pool_size):
    for threads in (1, 2, 8):
        pool_size(threads)
        for name in NONSENSE:
            got = pb.par_argsort(tagged(50_000), less=getattr(lib, name))
            np.testing.assert_array_equal(np.sort(got), np.arange(50_000))


@settings(max_examples=30)
@given(arrays(dtypes=("f8", ">f8")), st.data())
def test_argsort_axis_layout_and_out(a, data):
    numba = pytest.importorskip("numba")
    if a.ndim == 0:
        return
    a = np.where(np.isnan(a), 0, a).astype(a.dtype)
    axis = data.draw(st.sampled_from([None, *range(-a.ndim, a.ndim)]))
    expected = np.argsort(a, axis, kind="stable")
    got = pb.par_argsort(a, axis, less=less_of_numba(numba))
    np.testing.assert_array_equal(got, expected, strict=True)
    out = np.empty(expected.shape, np.intp, order=data.draw(st.sampled_from("CF")))
    assert pb.par_argsort(a, axis, less=less_of_numba(numba), out=out) is out
    np.testing.assert_array_equal(out, expected)


def test_masks_are_refused():
    """They would be dropped, or kept beside other elements."""

    @ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_double)
    )
    def less(a, b):
        return a[0] < b[0]

    masked = np.ma.masked_array([3.0, -1, 2], [0, 1, 0])
    plain = np.array([3.0, -1, 2])
    for fn in (pb.par_sort, pb.par_argsort):
        with pytest.raises(TypeError, match=r"a: par_.*sort knows no masks"):
            fn(masked, less=less)
    with pytest.raises(TypeError, match="out: par_sort knows no masks"):
        pb.par_sort(plain, out=masked, less=less)
    assert masked.mask.tolist() == [False, True, False]
    assert masked.data.tolist() == [3, -1, 2]
