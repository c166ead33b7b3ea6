"""Arrays for property tests: every dtype, layout and special value that matters."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

NUMBERS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "g", "F", "D"]
SORTED = [
    *NUMBERS,
    "M8[s]",
    "m8[ns]",
    "M8[D]",
    "S1",
    "S7",
    "U3",
    ">f8",
    ">i4",
    ">u2",
    ">U2",
    ">M8[s]",
]

# Around every threshold of the library: a leaf, a block, the least size of a
# parallel sort, of a counting sort of one byte; and nothing at all.
SIZES = [0, 1, 2, 63, 1000, 16383, 16384, 32767, 32768, 32769, 65537, 100_003]
SHAPES = [
    (0,),
    (0, 5),
    (3, 0),
    (),
    (1,),
    (7,),
    (40_001,),
    (70_000,),
    (300, 301),
    (3, 30_000),
    (30_000, 3),
    (20, 40, 50),
    (1, 50_000),
    (2, 1, 40_000),
]


def values(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Random values with repeats, infinities, NaNs, and both zeros."""
    d = np.dtype(dtype)
    rng = np.random.default_rng(seed)
    n = int(np.prod(shape))
    if d.kind == "b":
        a = rng.random(n) < 0.4
    elif d.kind in "iu":
        info = np.iinfo(d)
        a = rng.integers(info.min, info.max, n, dtype=d.newbyteorder("="), endpoint=True)
        a[rng.random(n) < 0.2] = 3
    elif d.kind in "mM":
        a = rng.integers(-(10**6), 10**6, n)
        a[rng.random(n) < 0.1] = np.iinfo(np.int64).min  # not a time
        a = a.view(d.newbyteorder("="))
    elif d.kind in "SU":
        a = rng.integers(0, 10**5, n).astype(d)
    else:
        a = rng.standard_normal(n).round(2).astype(d.newbyteorder("="))
        specials = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-310])
        if d.kind == "c":
            a = a + 1j * rng.standard_normal(n).round(1).astype(a.real.dtype)
            parts = a.view(a.real.dtype)
        else:
            parts = a
        at = rng.random(parts.size) < 0.2
        with np.errstate(all="ignore"):
            parts[at] = rng.choice(specials, at.sum()).astype(parts.dtype)
    return a.astype(d).reshape(shape)


@st.composite
def arrays(draw, dtypes=tuple(NUMBERS), shapes=tuple(SHAPES)):
    """An array of any layout: contiguous, Fortran, strided, reversed, misaligned."""
    shape = draw(st.sampled_from(shapes))
    a = values(draw(st.sampled_from(dtypes)), shape, draw(st.integers(0, 99)))
    layout = draw(st.sampled_from("CFsrtm"))
    if layout == "F":
        return np.asfortranarray(a)
    if layout == "s" and a.ndim:
        wide = np.empty((*shape[:-1], 2 * shape[-1]), a.dtype)
        wide[..., ::2] = a
        return wide[..., ::2]
    if layout == "r" and a.ndim:
        return a[::-1]
    if layout == "t":
        return a.T
    if layout == "m":
        raw = np.empty(a.nbytes + 1, np.uint8)
        m = raw[1:].view(a.dtype).reshape(shape) if a.size else a
        m[...] = a
        return m
    return a


def assert_same(got, expected):
    """The same type, dtype, shape and values; NaNs in the same places."""
    assert type(got) is type(expected)
    assert np.asarray(got).dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(got, expected, strict=True)
