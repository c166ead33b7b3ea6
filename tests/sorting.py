"""What the tests of sorts share: references in both directions, and adversaries."""

from __future__ import annotations

import functools
import inspect

import numpy as np
from arrays import SORTED

KINDS = [None, "quicksort", "heapsort", "mergesort", "stable"]
# What NumPy 2.5 sorts in both directions; objects, structured types, void and
# StringDType it sorts upwards only.
DTYPES = [*SORTED, "G", ">f2", ">f4", ">D", ">g", "S20"]
NUMPY_DESCENDS = "descending" in inspect.signature(np.sort).parameters

# Around every power of two at which an implementation may change its mind.
POWERS = [256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072]
AROUND = [n + d for n in POWERS for d in (-1, 0, 1)]
AROUND_A_MILLION = [2**20 + d for d in (-1, 0, 1)]

THREADS = (1, 2, 3, 64)


# ---- references -------------------------------------------------------------


def missing_parts(a):
    """0 for what has a value, then what goes last, in its order: for complex numbers
    R + nan j, nan + R j, nan + nan j."""
    if a.dtype.kind == "c":
        return 2 * np.isnan(a.real).astype("u1") + np.isnan(a.imag)
    if a.dtype.kind in "fmM":
        return np.isnat(a) if a.dtype.kind in "mM" else np.isnan(a)
    return np.zeros(a.shape, "u1")


def stable_order(a, axis=-1, descending=None, order=None):
    """The stable permutation; downwards as NumPy 2.5's, by any NumPy."""
    a = np.asarray(a)
    if a.dtype.hasobject or order is not None:
        return found_order(a, axis, descending, order)
    return known_order(a.tobytes(), a.dtype, a.shape, axis, bool(descending))


@functools.lru_cache(maxsize=8)
def known_order(items, dtype, shape, axis, descending):
    """The same options of one array, or what is the same by another name, come in a row."""
    found = found_order(np.frombuffer(items, dtype).reshape(shape), axis, descending)
    found.flags.writeable = False
    return found


def found_order(a, axis, descending, order=None):
    if not descending:
        return np.argsort(a, axis, kind="stable", order=order)
    if axis is None:
        a, axis = a.ravel(), 0
    n = a.shape[axis]
    perm = n - 1 - np.flip(np.argsort(np.flip(a, axis), axis, kind="stable", order=order), axis)
    missing = missing_parts(a)
    if not missing.any():
        return perm
    missing = np.take_along_axis(missing, perm, axis)
    return np.take_along_axis(perm, np.argsort(missing, axis, kind="stable"), axis)


def take_order(a, perm, axis=-1):
    a = np.asarray(a)
    return np.take_along_axis(a.ravel() if axis is None else a, perm, axis or 0)


def is_stable(kind=None, stable=None, **others):
    return bool(stable) or kind in ("stable", "mergesort")


def parts(a):
    return (a.real, a.imag) if a.dtype.kind == "c" else (a,)


def assert_same_values(got, expected):
    """Zeros are equal whatever their sign, and so are NaNs."""
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    for g, e in zip(parts(np.asarray(got)), parts(np.asarray(expected)), strict=True):
        if g.dtype.kind in "fmM":
            assert np.array_equal(g, e, equal_nan=True)
        else:
            assert np.array_equal(g, e)


def assert_same_bits(got, expected):
    """The very elements, as far as they can be told apart."""
    assert_same_values(got, expected)
    if got.dtype.hasobject:
        assert all(x is y for x, y in zip(got.flat, expected.flat, strict=True))
    elif got.dtype.char in "gG":  # which has bytes without a meaning
        for g, e in zip(parts(got), parts(expected), strict=True):
            assert np.array_equal(np.signbit(g), np.signbit(e))
    elif got.dtype.isbuiltin in (0, 1):  # not StringDType, which has pointers
        assert got.tobytes() == expected.tobytes()


def assert_sorted_from(a, got, axis=-1, kind=None, stable=None, descending=None):
    """``got`` is the sorted ``a``: when stable to the bit, otherwise by value."""
    expected = take_order(a, stable_order(a, axis, descending), axis)
    if is_stable(kind, stable):
        assert_same_bits(got, expected)
    else:
        # No more: NumPy's default kernels do not even keep the number of negative zeros.
        assert_same_values(got, expected)


# ---- adversaries ------------------------------------------------------------


def median_of_three_killer(n):
    """Musser's: each median of the first, middle and last is the second least."""
    k = n // 2
    i = np.arange(1, k + 1)
    return np.concatenate([np.where(i % 2 == 1, i, k + i - 1), 2 * i, np.arange(2 * k, n)])


def misplaced(n, source, target):
    """Sorted but for one element."""
    a = np.delete(np.arange(n), source)
    return np.insert(a, target, np.arange(n)[source])


def rng(n):
    return np.random.default_rng(n)


# Keys, of at least 0 and below 2**62.
PATTERNS = {
    "sorted": lambda n: np.arange(n),
    "reversed": lambda n: np.arange(n)[::-1],
    "all equal": lambda n: np.full(n, 7),
    "two values": lambda n: np.arange(n) % 2,
    "two values at random": lambda n: rng(n).integers(0, 2, n) * 2**40,
    "16 distinct": lambda n: rng(n).integers(0, 16, n) * 2**40,
    "1000 distinct": lambda n: rng(n).integers(0, 1000, n) * 2**20,
    "sawtooth": lambda n: np.arange(n) % 1000,
    "falling sawtooth": lambda n: -np.arange(n) % 1000,
    "sorted runs": lambda n: np.sort(rng(n).integers(0, 2**40, (n // 8 + 1, 8)), 0).T.ravel()[:n],
    "organ pipe": lambda n: np.minimum(np.arange(n), np.arange(n)[::-1]),
    "median-of-3 killer": median_of_three_killer,
    "nearly sorted": lambda n: np.arange(n) ^ (rng(n).random(n) < 0.01),
    "few far swaps": lambda n: np.where(
        rng(n).random(n) < 0.01, rng(n + 1).integers(0, n, n), np.arange(n)
    ),
    "sorted, random end": lambda n: np.where(
        np.arange(n) < n - n // 50, np.arange(n), rng(n).integers(0, n, n)
    ),
    "one outlier": lambda n: np.where(np.arange(n) == n // 3, 2**61, np.arange(n) * 7 % 1001),
    "outliers": lambda n: np.where(np.arange(n) % 9999 == 0, 2**61, np.arange(n) % 777),
    "last to the front": lambda n: misplaced(n, n - 1, 0),
    "first to the end": lambda n: misplaced(n, 0, n - 1),
    "one in the middle": lambda n: misplaced(n, n // 2, n // 2 + 1),
    "halves swapped": lambda n: np.roll(np.arange(n), n // 2),
    "zipf": lambda n: np.minimum(rng(n).zipf(1.3, n), 2**40),
    "one heavy value": lambda n: np.where(
        rng(n).random(n) < 0.9, 5, rng(n + 1).integers(0, 2**61, n)
    ),
    "heavy greatest": lambda n: np.where(
        rng(n).random(n) < 0.7, 2**61, rng(n + 1).integers(0, 2**61, n)
    ),
    "powers of two": lambda n: 2 ** rng(n).integers(0, 61, n),
    "low bits": lambda n: 2**60 + rng(n).integers(0, 2**12, n),
    "high bits": lambda n: rng(n).integers(0, 2**12, n) << 48,
    "middle bits": lambda n: rng(n).integers(0, 2**12, n) << 24,
    "high and low bits": lambda n: (
        (rng(n).integers(0, 8, n) << 58) + rng(n + 1).integers(0, 2**40, n)
    ),
    "every second bit": lambda n: rng(n).integers(0, 2**61, n) & 0x1555555555555555,
    "scattered bits": lambda n: rng(n).integers(0, 2**61, n) & 0x1803000FF0000C07,
    "finer and finer": lambda n: rng(n).integers(0, 2**61, n) >> rng(n + 1).integers(0, 61, n),
    "one by one finer": lambda n: 2**61 - (2**61 >> (np.arange(n) * 17 % 61)),
    "two far clusters": lambda n: (
        np.where(rng(n).random(n) < 0.5, 0, 2**61) + rng(n + 1).integers(0, 50, n)
    ),
}


def keys_as(keys, dtype):
    """Keys in another type, in the same order where the type has room for them."""
    d = np.dtype(dtype)
    keys = np.asarray(keys, np.int64)
    n = keys.size
    if d.kind == "S":
        # The most significant byte first, after a common prefix.
        raw = np.full((n, max(d.itemsize, 8)), ord("p"), "u1")
        raw[:, -8:] = keys.astype(">i8")[:, None].view("u1")
        return np.ascontiguousarray(raw[:, -d.itemsize :]).view(d).reshape(n)
    if d.kind == "U":
        width = d.itemsize // 4
        digits = [keys // 1000 ** min(i, 6) % 1000 + 48 for i in range(width)]
        return np.stack(digits[::-1], 1).astype(d.byteorder + "u4").view(d).reshape(n)
    if d.kind in "mM":
        return keys.astype(d.byteorder + "i8").view(d)
    if d.kind == "b":
        return keys % 2 == 1
    if d.kind == "c":
        return ((keys >> 2) + 1j * (keys & 3)).astype(d)
    if d.itemsize == 2 and d.kind == "f":
        keys = keys % 2048
    return keys.astype(d)


def special_floats(n, dtype):
    """What IEEE 754 has beside ordinary numbers, by name."""
    d = np.dtype(dtype)
    native = d.newbyteorder("=")
    r = rng(n)
    info = np.finfo(native)
    tiny = info.smallest_subnormal
    made = {
        "zeros": r.choice(np.array([0.0, -0.0], native), n),
        "zeros and ones": r.choice(np.array([0.0, -0.0, 1, -1], native), n),
        "NaNs": np.full(n, np.nan, native),
        "NaNs but one": np.where(np.arange(n) == n // 2, 1, np.nan),
        "mostly NaNs": np.where(r.random(n) < 0.9, np.nan, r.standard_normal(n)),
        "NaNs of both signs": np.where(
            r.random(n) < 0.5, r.choice(np.array([np.nan, -np.nan]), n), r.standard_normal(n)
        ),
        "sorted, then NaNs": np.where(np.arange(n) < n // 2, np.arange(n) % 2000, np.nan),
        "denormals": (r.integers(-1000, 1000, n).astype(native) * tiny).astype(native),
        "infinities": r.choice(np.array([np.inf, -np.inf, np.nan, 0, 1], native), n),
        "extremes": r.choice(np.array([info.max, info.min, np.inf, info.tiny, -tiny], native), n),
    }
    if native.itemsize <= 8:
        bits = r.integers(0, 256, n * native.itemsize, dtype="u1").view(native)
        made["any bits"] = bits
        pattern = np.where(r.random(n) < 0.5, np.nan, r.standard_normal(n)).astype(native)
        counted = pattern.view(f"u{native.itemsize}")
        counted[np.isnan(pattern)] += (np.arange(n) % 250).astype(counted.dtype)[np.isnan(pattern)]
        made["numbered NaNs"] = pattern
    return {name: a.astype(d) for name, a in made.items()}


def special_integers(n, dtype):
    d = np.dtype(dtype)
    native = d.newbyteorder("=")
    info = np.iinfo(native if d.kind in "iu" else np.int64)
    r = rng(n)
    made = {
        "extremes": r.choice(
            np.array([info.min, info.min + 1, 0, 1, info.max - 1, info.max], info.dtype), n
        ),
        "around zero": r.integers(-3 if info.min else 0, 4, n).astype(info.dtype),
        "any bits": r.integers(info.min, info.max, n, dtype=info.dtype, endpoint=True),
        "falling any bits": np.sort(
            r.integers(info.min, info.max, n, dtype=info.dtype, endpoint=True)
        )[::-1],
        "greatest": np.full(n, info.max, info.dtype),
    }
    return {name: a.view(native).astype(d) for name, a in made.items()}


def special_texts(n, dtype):
    """Long common prefixes, prefixes of one another, zeros inside, the greatest characters."""
    d = np.dtype(dtype)
    unit = "u1" if d.kind == "S" else d.byteorder + "u4"
    width = d.itemsize // np.dtype(unit).itemsize
    greatest = 255 if d.kind == "S" else 0x10FFFF
    r = rng(n)
    made = {}
    for name, prefix in (("last differs", width - 1), ("second half differs", width // 2)):
        a = np.full((n, width), ord("p"), unit)
        a[:, prefix:] = r.integers(97, 123, (n, width - prefix))
        made[name] = a
    a = np.full((n, width), ord("a"), unit)
    a[np.arange(width) >= r.integers(0, width + 1, n)[:, None]] = 0
    made["prefixes of one another"] = a
    made["zeros inside"] = r.integers(0, 2, (n, width)).astype(unit)
    made["few characters"] = r.integers(97, 99, (n, width)).astype(unit)
    made["greatest characters"] = r.choice([1, 127, 128, greatest], (n, width)).astype(unit)
    return {name: np.ascontiguousarray(a).view(d).reshape(n) for name, a in made.items()}


def adversaries(dtype, n):
    """(name, array) of ``n`` elements of ``dtype`` each."""
    d = np.dtype(dtype)
    for name, make in PATTERNS.items():
        with np.errstate(all="ignore"):
            yield name, keys_as(make(n), d)
    with np.errstate(all="ignore"):
        if d.kind in "iumM":
            yield from special_integers(n, d).items()
        elif d.kind == "f":
            yield from special_floats(n, d).items()
        elif d.kind == "c":
            part = d.newbyteorder("=").type(0).real.dtype
            made = special_floats(n, part)
            for name, real in made.items():
                a = np.empty(n, d)
                a.real, a.imag = real, np.roll(real, n // 3)
                yield name, a
                a = a.copy()
                a.imag = made["infinities"]
                yield name + " and infinities", a
        elif d.kind in "SU":
            yield from special_texts(n, d).items()
