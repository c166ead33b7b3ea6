"""Compiled functions of the user's own: every kind, every form, every C number."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import warnings

import numpy as np
import pytest
from arrays import values

import pyblitz as pb

# C type -> dtype; what a capsule's name may call it otherwise.
TYPES = {
    "_Bool": "?",
    "int8_t": "i1",
    "int16_t": "i2",
    "int32_t": "i4",
    "int64_t": "i8",
    "uint8_t": "u1",
    "uint16_t": "u2",
    "uint32_t": "u4",
    "uint64_t": "u8",
    "float": "f4",
    "double": "f8",
    "float _Complex": "c8",
    "double _Complex": "c16",
}
REAL = [t for t in TYPES if "Complex" not in t]
INPUTS = (1, 2, 3, 4)


def c_source():
    """mix_<dtype>_<inputs>[_user|_block]: a, a - b, a - b * c, a - b * c + d; plus *user."""
    text = "#define _GNU_SOURCE\n#include <stdint.h>\n#include <time.h>\n"
    for c_type, code in TYPES.items():
        code = code.replace("?", "b1")
        for n in INPUTS:
            args = ", ".join(f"{c_type} {x}" for x in "abcd"[:n])
            pointers = ", ".join(f"const {c_type} *{x}" for x in "abcd"[:n])
            minus = "^" if c_type == "_Bool" else "-"
            plus = "^" if c_type == "_Bool" else "+"
            value = ["a", f"a {minus} b", f"a {minus} b * c", f"a {minus} b * c {plus} d"][n - 1]
            item = value
            for x in "abcd":
                item = item.replace(x, f"{x}[i]")
            text += f"""
{c_type} mix_{code}_{n}({args}) {{ return {value}; }}
{c_type} mix_{code}_{n}_user({args}, void *u) {{ return ({value}) {plus} *({c_type} *)u; }}
void mix_{code}_{n}_block({pointers}, {c_type} *o, intptr_t n, void *u) {{
    {c_type} more = u ? *({c_type} *)u : 0;
    for (intptr_t i = 0; i < n; i++) o[i] = ({item}) {plus} more;
}}
"""
    return (
        text
        + """
int64_t seen[100000];
static _Thread_local char me;
int64_t who_after(int64_t ns) {
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000000 + now.tv_nsec - from.tv_nsec < ns);
    return (int64_t)(intptr_t)&me;
}
void count(intptr_t lo, intptr_t hi) { for (; lo < hi; lo++) seen[lo]++; }
int count_user(intptr_t lo, intptr_t hi, void *u) {
    for (; lo < hi; lo++) ((int64_t *)u)[lo] += hi - lo > 0;
    return 0;
}
void widest(intptr_t lo, intptr_t hi, void *u) {
    int64_t *w = u;
    w[lo] = hi;
}
int fail_from(intptr_t lo, intptr_t hi, void *u) {
    const int64_t *u64 = u;     /* from where on, and the code */
    return hi > u64[0] ? (int)u64[1] : 0;
}
"""
    )


@pytest.fixture(scope="module")
def lib(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler is installed")
    target = tmp_path_factory.mktemp("kernels")
    (target / "mix.c").write_text(c_source())
    command = [compiler, "-O1", "-fwrapv", "-ffp-contract=off", "-shared", "-fPIC", "mix.c"]
    subprocess.run([*command, "-o", "mix.so"], cwd=target, check=True)
    return ctypes.CDLL(str(target / "mix.so"))


def mixed(ops):
    boolean = ops[0].dtype == bool
    minus = np.bitwise_xor if boolean else np.subtract
    plus = np.bitwise_xor if boolean else np.add
    with np.errstate(all="ignore"):
        if len(ops) == 1:
            return ops[0].copy()
        if len(ops) == 2:
            return minus(ops[0], ops[1])
        result = minus(ops[0], ops[1] * ops[2])
        return result if len(ops) == 3 else plus(result, ops[3])


def capsule(fn, signature, user=None):
    new = ctypes.pythonapi.PyCapsule_New
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    new.restype = ctypes.py_object
    set_context = ctypes.pythonapi.PyCapsule_SetContext
    set_context.argtypes = [ctypes.py_object, ctypes.c_void_p]
    name = signature.encode()
    capsule.alive.append(name)  # the capsule does not keep its name alive
    made = new(ctypes.cast(fn, ctypes.c_void_p).value, name, None)
    if user is not None:
        capsule.alive.append(user)
        set_context(made, user.ctypes.data)
    return made


capsule.alive = []


def small(code, n, seed):
    """Values whose sums and products are exact, so that every order gives the same."""
    rng = np.random.default_rng(seed)
    if code == "?":
        return rng.random(n) < 0.5
    if np.dtype(code).kind in "iu":
        info = np.iinfo(code)
        return rng.integers(info.min, info.max, n, dtype=code, endpoint=True)
    a = rng.integers(-50, 50, n).astype(code)
    return a + (1j * rng.integers(-50, 50, n)).astype(code) if code[0] == "c" else a


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("c_type", TYPES)
def test_every_number_and_number_of_inputs(lib, c_type, inputs):
    code = TYPES[c_type]
    ops = [small(code, 20_011, k) for k in range(inputs)]
    name = f"mix_{code.replace('?', 'b1')}_{inputs}"
    user = small(code, 1, 9) if code != "?" else np.array([True])
    args = ", ".join([c_type] * inputs)
    pointers = ", ".join([f"const {c_type}*"] * inputs)
    kernels = [
        (capsule(getattr(lib, name), f"{c_type} ({args})"), False),
        (capsule(getattr(lib, name + "_user"), f"{c_type} ({args}, void *)", user), True),
        (
            capsule(
                getattr(lib, name + "_block"), f"void ({pointers}, {c_type} *, intptr_t, void *)"
            ),
            False,
        ),
        (
            capsule(
                getattr(lib, name + "_block"),
                f"void ({pointers}, {c_type} *, Py_ssize_t, void *)",
                user,
            ),
            True,
        ),
    ]
    for kernel, added in kernels:
        for x in (ops, [a[::-2] for a in ops], [a[:20_000].reshape(40, 500).T for a in ops]):
            expected = mixed(x)
            if added:
                expected = expected ^ user if code == "?" else expected + user
            got = pb.par_map(kernel, *x)
            assert got.dtype == np.dtype(code)
            np.testing.assert_array_equal(got, expected, strict=True)
            out = np.zeros_like(expected[::-1])[::-1]
            assert pb.par_map(kernel, *x, out=out) is out
            np.testing.assert_array_equal(out, expected)


def test_broadcast_numbers_and_many_dimensions(lib):
    kernel = capsule(lib.mix_f8_3, "double (double, double, double)")
    a, b = np.arange(600.0).reshape(20, 30), np.arange(30.0)
    np.testing.assert_array_equal(pb.par_map(kernel, a, b, 2), a - b * 2)
    np.testing.assert_array_equal(pb.par_map(kernel, a, 0.5, np.float64(2)), a - 0.5 * 2)
    deep = np.arange(2.0**12).reshape((2,) * 12).transpose(3, 1, 0, *range(4, 12), 2)
    for fn in (
        kernel,
        capsule(lib.mix_f8_3_block, "void (double*, double*, double*, double*, long, void*)"),
    ):
        np.testing.assert_array_equal(pb.par_map(fn, deep, deep, 2), deep - deep * 2)
        out = np.zeros((2,) * 12).T
        pb.par_map(fn, deep, deep, 2, out=out)
        np.testing.assert_array_equal(out, deep - deep * 2)
    assert pb.par_map(kernel, 1, 2, 3) == -5
    assert pb.par_map(kernel, np.zeros((0, 3)), 1, 1).shape == (0, 3)
    fortran = np.asfortranarray(a)
    assert pb.par_map(kernel, fortran, 1, 1).strides == fortran.strides


def test_overlap_is_as_if_there_was_none(lib):
    for kernel in (
        capsule(lib.mix_f8_2, "double (double, double)"),
        capsule(lib.mix_f8_2_block, "void (double *, double *, double *, long, void *)"),
    ):
        a = values("i4", (100_001,), 3).astype("f8")
        expected = a[1:] - a[:-1]
        pb.par_map(kernel, a[1:], a[:-1], out=a[1:])
        np.testing.assert_array_equal(a[1:], expected)
        b = np.arange(90_000.0).reshape(300, 300)
        expected = b - b.T
        assert pb.par_map(kernel, b, b.T, out=b) is b
        np.testing.assert_array_equal(b, expected)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_block_kernel_sees_the_same_blocks_whatever_the_threads(lib, pool_size, threads):
    """Each block is 1024 elements, but the last: a kernel that notes where blocks begin."""
    pool_size(threads)
    numba = pytest.importorskip("numba", reason="the extra that has Numba is not installed")
    pointer = numba.types.CPointer(numba.int64)

    @numba.cfunc(numba.void(pointer, pointer, numba.intp, numba.types.voidptr))
    def mark(a, o, n, user):
        for i in range(n):
            o[i] = a[0] * 10_000 + n

    a = np.arange(100_001)
    first = a // 1024 * 1024
    expected = first * 10_000 + np.minimum(1024, a.size - first)
    np.testing.assert_array_equal(pb.par_map(mark, a), expected)


# ---- kinds of functions -----------------------------------------------------


def test_cython_capi(native):
    capi = native.kernels.__pyx_capi__
    a, b = np.arange(50_000.0), np.ones(50_000)
    np.testing.assert_array_equal(pb.par_map(capi["half"], a), a / 2)
    z = a + 2j
    np.testing.assert_array_equal(pb.par_map(capi["turn"], z), z * 1j)
    scipy = pytest.importorskip("scipy", reason="the extra that has SciPy is not installed")
    weight = ctypes.c_double(3)
    pointer = ctypes.cast(ctypes.pointer(weight), ctypes.c_void_p)
    kernel = scipy.LowLevelCallable.from_cython(native.kernels, "weighted", pointer)
    np.testing.assert_array_equal(pb.par_map(kernel, a, b), a + 3)


def user_data_kinds(weight):
    yield ctypes.cast(weight.ctypes.data, ctypes.c_void_p)
    yield capsule(ctypes.c_void_p(weight.ctypes.data), "void *")
    cffi = pytest.importorskip("cffi", reason="the extra that has cffi is not installed")
    ffi = cffi.FFI()
    yield ffi.cast("void *", weight.ctypes.data)
    yield ffi.cast("double *", weight.ctypes.data)


def test_low_level_callable_of_every_kind_with_user_data_of_every_kind(lib):
    scipy = pytest.importorskip("scipy", reason="the extra that has SciPy is not installed")
    cffi = pytest.importorskip("cffi", reason="the extra that has cffi is not installed")
    numba = pytest.importorskip("numba", reason="the extra that has Numba is not installed")
    address = ctypes.cast(lib.mix_f8_1_user, ctypes.c_void_p).value
    proto = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_void_p)
    functions = [
        capsule(lib.mix_f8_1_user, "double (double, void *)"),
        proto(address),
        cffi.FFI().cast("double (*)(double, void *)", address),
    ]
    a = np.arange(10_000.0)
    weight = np.array([2.5])
    for fn in functions:
        for user in user_data_kinds(weight):
            kernel = scipy.LowLevelCallable(fn, user)
            np.testing.assert_array_equal(pb.par_map(kernel, a), a + 2.5)
    plain = scipy.LowLevelCallable(numba.cfunc("f8(f8)")(lambda x: x + 1).ctypes)
    np.testing.assert_array_equal(pb.par_map(plain, a), a + 1)


def test_cffi_function_pointer(lib):
    cffi = pytest.importorskip("cffi", reason="the extra that has cffi is not installed")
    ffi = cffi.FFI()
    for c_type in REAL:
        name = f"mix_{TYPES[c_type].replace('?', 'b1')}_2"
        address = ctypes.cast(getattr(lib, name), ctypes.c_void_p).value
        fn = ffi.cast(f"{c_type} (*)({c_type}, {c_type})", address)
        ops = [small(TYPES[c_type], 5000, k) for k in (1, 2)]
        np.testing.assert_array_equal(pb.par_map(fn, *ops), mixed(ops))
    fn = ffi.cast("void (*)(const float *, float *, intptr_t, void *)",
                  ctypes.cast(lib.mix_f4_1_block, ctypes.c_void_p).value)  # fmt: skip
    a = np.arange(5000, dtype="f4")
    np.testing.assert_array_equal(pb.par_map(fn, a), a)

    @ffi.callback("double(double)")
    def python(x):
        return x + 1

    np.testing.assert_array_equal(pb.par_map(python, np.arange(100.0)), np.arange(100.0) + 1)
    for wrong, match in [
        (ffi.new("double *"), "not a function pointer"),
        (ffi.cast("double (*)(double, ...)", 8), "cannot call"),
        (ffi.cast("double (*)(double)", 0), "null"),
    ]:
        with pytest.raises(TypeError, match=match):
            pb.par_map(wrong, np.zeros(5))


def test_ctypes_of_every_number(lib):
    for c_type in REAL:
        code = TYPES[c_type]
        fn = getattr(lib, f"mix_{code.replace('?', 'b1')}_2")
        kind = ctypes.c_bool if code == "?" else np.ctypeslib.as_ctypes_type(np.dtype(code))
        prototype = ctypes.CFUNCTYPE(kind, kind, kind)
        ops = [small(code, 5000, k) for k in (1, 2)]
        kernel = prototype(ctypes.cast(fn, ctypes.c_void_p).value)
        np.testing.assert_array_equal(pb.par_map(kernel, *ops), mixed(ops))
    callback = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: x * 2)
    a = np.arange(3000.0)
    np.testing.assert_array_equal(pb.par_map(callback, a), a * 2)


def test_ctypes_function_that_needs_the_gil_is_refused():
    fn = ctypes.PYFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: x)
    with pytest.raises(TypeError, match="GIL"):
        pb.par_map(fn, np.zeros(5))


def test_numba_cfunc_of_every_number():
    numba = pytest.importorskip("numba", reason="the extra that has Numba is not installed")
    for name in ("boolean", "int8", "uint16", "int64", "uint64", "float32", "complex128"):
        t = getattr(numba, name)
        kernel = numba.cfunc(t(t, t))(lambda x, y: x if x == y else y)
        code = "?" if name == "boolean" else np.dtype(name).str
        ops = [small(code.strip("<|"), 5000, k) for k in (1, 2)]
        np.testing.assert_array_equal(pb.par_map(kernel, *ops), ops[1], strict=True)
    kernel = numba.cfunc("c8(c8)")(lambda x: x)
    with pytest.raises(TypeError, match="complex64"):
        pb.par_map(kernel, np.zeros(5, "c8"))


def test_floating_point_flags_are_told():
    numba = pytest.importorskip("numba", reason="the extra that has Numba is not installed")
    kernel = numba.cfunc("f8(f8)", error_model="numpy")(lambda x: 1.0 / x)
    a = np.ones(100_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pb.par_map(kernel, a)
    a[77_777] = 0
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        assert np.isinf(pb.par_map(kernel, a)).sum() == 1
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        pb.par_map(kernel, a)


def test_numba_vectorize_reduces_as_it_does_itself(pool_size):
    numba = pytest.importorskip("numba", reason="the extra that has Numba is not installed")

    @numba.vectorize(identity=0)
    def total(x, y):
        return x + y

    @numba.vectorize(["i8(i8, i8)"])
    def minus(x, y):
        return x - y

    a = np.arange(300_000).reshape(1000, 300)
    for op, into in ((total, np.add), (minus, np.subtract)):
        for x in (a, a.astype(float) if op is total else a, a[:3], a[:, ::2].T):
            for axis in (0, 1):
                expected = into.reduce(x, axis)
                for threads in (1, 2, 3):
                    pool_size(threads)
                    got = pb.par_reduce(op, x, axis)
                    np.testing.assert_array_equal(got, expected, strict=True)
    assert pb.par_reduce(total, a, None) == a.sum()
    assert pb.par_reduce(total, a.ravel()) == a.sum()
    with pytest.raises(ValueError, match="reorderable"):
        pb.par_reduce(minus, np.zeros((2, 200_000), int), (0, 1))


# ---- refused ----------------------------------------------------------------


@pytest.mark.parametrize(
    "signature",
    [
        "long double (long double)",
        "char (char)",
        "int (double)",
        "double (double, float)",
        "double (void *)",
        "double ()",
        "double (void)",
        "double (double, double, double, double, double)",
        "double (double, double *)",
        "void (double *, intptr_t, void *)",
        "void (double *, double *, int, void *)",
        "void (double *, double *, uintptr_t, void *)",
        "void (double *, float *, intptr_t, void *)",
        "void (double *, double *, intptr_t)",
        "void (double **, double **, intptr_t, void *)",
        "double *(double *)",
        "some text",
        "",
    ],
)
def test_other_signatures_are_refused(lib, signature):
    with pytest.raises(TypeError, match="signature") as e:
        pb.par_map(capsule(lib.mix_f8_1, signature), np.zeros(10))
    assert repr(signature) in str(e.value)


def test_words_of_c_integers():
    numba = pytest.importorskip("numba", reason="the extra that has Numba is not installed")
    a = np.arange(100)
    kernel = numba.cfunc("i8(i8)")(lambda x: x + 1)
    for name in ("long", "long int", "signed long", "long long int", "int long", "Py_ssize_t"):
        fn = capsule(ctypes.c_void_p(kernel.address), f"{name} ({name})")
        np.testing.assert_array_equal(pb.par_map(fn, a), a + 1)
    with pytest.raises(TypeError, match="takes uint64, not int64"):
        pb.par_map(capsule(ctypes.c_void_p(kernel.address), "unsigned long (unsigned long)"), a)


def test_mismatches_spell_out_both(lib):
    kernel = capsule(lib.mix_i4_2, "int32_t (int32_t, int32_t)")
    i, f = np.zeros(10, "i4"), np.zeros(10)
    for call, match in [
        (lambda: pb.par_map(kernel, i, f), r"arrays\[1\].*'int32_t .*takes int32, not float64"),
        (lambda: pb.par_map(kernel, i, 0.5), r"takes int32, not float64"),
        (lambda: pb.par_map(kernel, i.astype(">i4"), i), r"takes int32, not >i4"),
        (lambda: pb.par_map(kernel, i), "takes 2 arrays, not 1"),
        (lambda: pb.par_map(kernel, i, i, i), "takes 2 arrays, not 3"),
        (lambda: pb.par_map(kernel, i, i, out=f), "gives int32, not float64"),
        (lambda: pb.par_map(kernel, i, i, dtype="f8"), "gives int32, not float64"),
        (lambda: pb.par_map(kernel, i, i, where=i == 0), "where: only a ufunc"),
        (lambda: pb.par_map(kernel, i, i, order="C"), "order: only a ufunc"),
        (lambda: pb.par_map(kernel, i, i, out=[0] * 10), "must be an array"),
    ]:
        with pytest.raises(TypeError, match=match):
            call()
    with pytest.raises(OverflowError):
        pb.par_map(kernel, i, 2**40)
    with pytest.raises(ValueError, match="broadcast"):
        pb.par_map(kernel, i, i[:3])
    with pytest.raises(ValueError, match="shape"):
        pb.par_map(kernel, i, i, out=np.zeros(3, "i4"))
    assert not i.any()
    assert not f.any()


# ---- uneven work ------------------------------------------------------------


def test_uneven_work_is_shared(lib, running_pool):
    """Nearly all the work is in the last quarter: a leaf of 128 KiB would keep it."""
    running_pool(2)
    kernel = capsule(lib.who_after, "int64_t (int64_t)")
    a = np.zeros(4096, np.int64)
    a[-1000:] = 30_000
    for _ in range(20):  # the other thread may be late on a busy machine
        if len(set(pb.par_map(kernel, a)[-1000:].tolist())) == 2:
            return
    pytest.fail("one thread did all of it")


# ---- par_for ----------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 7, 1000, 99_999])
@pytest.mark.parametrize("grain", [None, 1, 64, 10**6])
def test_par_for_does_each_item_once(lib, n, grain):
    seen = np.zeros(100_000, np.int64)
    kernel = capsule(lib.count_user, "int (intptr_t, intptr_t, void *)", seen)
    pb.par_for(n, kernel, grain=grain)
    assert (seen[:n] == 1).all()
    assert not seen[n:].any()
    if n > 1000 and grain == 1:
        return
    counts = np.zeros(n, int)

    def python(lo, hi):
        assert 0 <= lo < hi <= n
        counts[lo:hi] += 1

    assert pb.par_for(n, python, grain=grain) is None
    assert (counts == 1).all()


def test_par_for_without_user_data(lib):
    counts = np.ctypeslib.as_array((ctypes.c_int64 * 100_000).in_dll(lib, "seen"))
    counts[:] = 0
    lib.count.argtypes, lib.count.restype = [ctypes.c_ssize_t, ctypes.c_ssize_t], None
    pb.par_for(50_000, lib.count)
    pb.par_for(0, lib.count)
    assert (counts[:50_000] == 1).all()
    assert not counts[50_000:].any()


def test_par_for_cuts_at_multiples_of_grain(lib):
    ends = np.zeros(1000, np.int64)
    pb.par_for(1000, capsule(lib.widest, "void (long, long, void*)", ends), grain=300)
    assert {int(lo): int(ends[lo]) for lo in np.flatnonzero(ends)} == {
        0: 300,
        300: 600,
        600: 900,
        900: 1000,
    }
    seen = []
    pb.par_for(1000, lambda lo, hi: seen.append((lo, hi)), grain=300)
    assert sorted(seen) == [(0, 300), (300, 600), (600, 900), (900, 1000)]


@pytest.mark.parametrize("code", [1, -1, 5, -7])
def test_par_for_names_the_code_of_a_failure(lib, code):
    user = np.array([500, code])
    kernel = capsule(lib.fail_from, "int (intptr_t, intptr_t, void *)", user)
    with pytest.raises(RuntimeError, match=f"code {code}$"):
        pb.par_for(100_000, kernel)
    user[0] = 10**9
    pb.par_for(100_000, kernel)


def test_par_for_with_a_kernel_that_raises(native):
    kernel = native.kernels.__pyx_capi__["raise_at_seven"]
    with pytest.raises(KeyError):
        pb.par_for(100, kernel, grain=1)
    pb.par_for(7, kernel)


def test_par_for_with_a_callable_that_raises():
    def python(lo, hi):
        if hi > 30:
            raise LookupError(lo)

    for _ in range(5):
        with pytest.raises(LookupError) as e:
            pb.par_for(100, python, grain=10)
        assert e.value.args == (30,)
        if hasattr(e.value, "add_note"):
            assert any("pyblitz: in range [30:40]" in note for note in e.value.__notes__)


def test_par_for_carries_the_context():
    seen = []

    def python(lo, hi):
        np.float64(1) / np.float64(0)
        seen.append(np.geterr()["divide"])

    with np.errstate(divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        pb.par_for(50, python, grain=1)
    assert seen == ["ignore"] * 50


def test_par_for_bad_input(lib):
    def python(lo, hi):
        raise AssertionError

    for call, error, match in [
        (lambda: pb.par_for(-1, python), ValueError, "n: must not be negative"),
        (lambda: pb.par_for(1.5, python), TypeError, "integer"),
        (lambda: pb.par_for(5, python, grain=0), ValueError, "grain: must be at least 1"),
        (lambda: pb.par_for(5, python, grain=2.0), TypeError, "integer"),
        (lambda: pb.par_for(5, None), TypeError, "kernel: expected a callable"),
        (
            lambda: pb.par_for(5, capsule(lib.mix_f8_1, "double (double)")),
            TypeError,
            r"'double \(double\)'.*void or int",
        ),
        (
            lambda: pb.par_for(5, capsule(lib.count, "void (int, int)")),
            TypeError,
            "void or int",
        ),
        (
            lambda: pb.par_for(5, capsule(lib.count, "long (long, long)")),
            TypeError,
            "void or int",
        ),
    ]:
        with pytest.raises(error, match=match):
            call()
    pb.par_for(0, python)


def test_leaves_of_a_map_end_where_simd_steps_do(native):
    """All but the last: so a result does not depend on where leaves are cut, even where a
    loop of NumPy does otherwise with what is left over at its end."""
    for size in (0, 1, 2, 3, 8, 12, 24, 100, 4096, 10**6):
        for pace in (0, 0.1, 3, 77, 10**6, 1e300):
            grain = native.kernels.grain(size, pace)
            assert grain >= 64
            assert grain % 64 == 0


def test_a_leaf_of_a_map_is_short_once_its_pace_is_known(native):
    assert native.kernels.grain(16, 0) == 8192
    assert native.kernels.grain(16, 10) < 1000


def test_what_was_shared_is_not_what_one_thread_takes(native):
    """Else a call that pays when it is shared is too short to share the next time, and is done
    alone each second time."""
    pace = native.kernels.pace
    assert pace(0, 5, 2) == 5
    assert 29 < pace(30, 16, 2) < 30
    assert pace(30, 16, 1) == 16
    assert pace(16, 30, 2) == 30
    assert 31 < pace(1000, 16, 2) < 32
    assert 29 < pace(30, 5, 8) < 30
    assert 124 < pace(1000, 16, 64) < 128
    # Nor is it what one thread took once, for ever.
    known = 30
    for _ in range(100):
        known = pace(known, 16, 2)
    assert known == 16


def test_a_reduction_has_a_block_for_each_thread_where_its_items_are_dear(native):
    """An expression with a sine of 10,000 numbers takes 100 us."""
    block = native.kernels.reduction_block
    for size in (2, 4, 8, 16):
        assert block(10_000, size, True) <= 2500
        for n in (1 << k for k in range(11, 40)):
            assert block(n, size, True) <= max(n // 8, 2048)
            assert block(n, size, True) <= block(2 * n, size, True) <= block(1 << 40, size, False)


def test_half_of_the_blocks_is_half_of_the_items(native):
    cheap, few = range(33_000, 3_000_000, 7_919), range(2_100, 99_000, 997)
    for dear, lengths in ((False, cheap), (True, few)):
        for n in lengths:
            grain = native.kernels.reduction_block(n, 8, dear)
            blocks = -(-n // grain)
            assert (blocks + 1) // 2 * grain <= 0.54 * n


def test_copies_between_any_offsets_in_a_page(native):
    """Those where glibc's memcpy is slow on some processors go another way."""
    rng = np.random.default_rng(0)
    for n in (0, 1, 255, 2047, 2048, 2049, 2303, 10_000):
        source = rng.bytes(n)
        for difference in (1, 2, 16, 31, 62, 63, 64, 65, 100, 2048):
            assert native.kernels.copied(source, difference) == (source, 77, 77)
