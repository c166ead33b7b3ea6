"""No silent serial path: every large call is shared, or is counted as left to NumPy.

Each function is called with every dtype, layout, container and option; it must give what its
namesake gives, and either enter the pool or stand in the list of docs/left-to-numpy.md, which
this file writes: ``python tests/test_left_alone.py``.
"""

from __future__ import annotations

import array
import functools
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
from pyblitz.arrays.front import hand_over

import pyblitz as pb

PAGE = Path(__file__).resolve().parent.parent / "docs" / "left-to-numpy.md"
N = 200_000
ROUNDED = {"sum", "prod", "mean", "var", "std", "nansum", "cumsum", "cumprod", "dot"}

# Of each function: what is called with a module's functions (NumPy's, or ours) and an array.
# ours and NumPy's namesake, as functions of one array.
CALLS = {
    "map": (lambda a: pb.par_map(np.sin, a), np.sin),
    "map two": (lambda a: pb.par_map(np.arctan2, a, a), lambda a: np.arctan2(a, a)),
    "reduce": (lambda a: pb.par_reduce(np.maximum, a), np.maximum.reduce),
    "scan": (lambda a: pb.par_scan(np.maximum, a), np.maximum.accumulate),
    "reduceat": (
        lambda a: pb.par_reduceat(np.maximum, a, [0, 50_000, 120_000]),
        lambda a: np.maximum.reduceat(a, [0, 50_000, 120_000]),
    ),
    **{
        name: (getattr(pb, "par_" + name), getattr(np, name))
        for name in [
            "sum",
            "prod",
            "min",
            "max",
            "mean",
            "var",
            "std",
            "argmin",
            "argmax",
            "any",
            "all",
            "count_nonzero",
            "nansum",
            "nanmin",
            "nanmax",
            "cumsum",
            "cumprod",
            "sort",
            "unique",
            "flatnonzero",
        ]
    },
    "argsort": (
        lambda a: pb.par_argsort(a, kind="stable"),
        lambda a: np.argsort(a, kind="stable"),
    ),
    "dot": (lambda a: pb.par_dot(a, a), lambda a: np.dot(a, a)),
    "where": (lambda a: pb.par_where(a, a, a), lambda a: np.where(a, a, a)),
    "take": (lambda a: pb.par_take(a, INDEX), lambda a: np.take(a, INDEX)),
    "repeat": (lambda a: pb.par_repeat(a, 2), lambda a: np.repeat(a, 2)),
    "concatenate": (lambda a: pb.par_concatenate([a, a]), lambda a: np.concatenate([a, a])),
    "searchsorted": (
        lambda a: pb.par_searchsorted(in_order(a), a),
        lambda a: np.searchsorted(in_order(a), a),
    ),
    "digitize": (lambda a: pb.par_digitize(a, [10, 50]), lambda a: np.digitize(a, [10, 50])),
    "bincount": (pb.par_bincount, np.bincount),
    "histogram": (lambda a: pb.par_histogram(a)[0], lambda a: np.histogram(a)[0]),
    "isin": (lambda a: pb.par_isin(a, [3, 5]), lambda a: np.isin(a, [3, 5])),
    "partition": (
        lambda a: np.asarray(pb.par_partition(a, 1000))[1000],
        lambda a: np.asarray(np.partition(a, 1000))[1000],
    ),
    "argpartition": (
        lambda a: as_numpys(a)[np.asarray(pb.par_argpartition(a, 1000))[1000]],
        lambda a: as_numpys(a)[np.asarray(np.argpartition(a, 1000))[1000]],
    ),
    "put": (lambda a: put(pb.par_put, a), lambda a: put(np.put, a)),
    "lexsort": (lambda a: pb.par_lexsort([a, a]), lambda a: np.lexsort([a, a])),
    "copy": (pb.par_copy, np.array),
}
pytestmark = pytest.mark.usefixtures("partitions_itself")
BY_VECTORS = "one row that its vector instructions partition"
INDEX = np.random.default_rng(1).integers(0, N, N)


def put(fn, a):
    b = as_numpys(a).copy()
    fn(b, INDEX, 1)
    return b


def as_numpys(a):
    return np.from_dlpack(a) if isinstance(a, HasDlpack) else np.asarray(a)


def in_order(a):
    return np.sort(as_numpys(a))


class Sub(np.ndarray):
    """Changes nothing about arithmetic."""


class HasArray:
    def __init__(self, a):
        self.a = a

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.a, dtype)


class HasDlpack:
    def __init__(self, a):
        self.a = a

    def __dlpack__(self, **options):
        return self.a.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.a.__dlpack_device__()


def numbers(dtype):
    rng = np.random.default_rng(3)
    # Of one byte it takes more of them to be worth a second thread.
    a = rng.integers(0, 100, N if np.dtype(dtype).itemsize > 1 else 2 * N)
    if np.dtype(dtype).kind in "SU":
        return a.astype(dtype)
    if np.dtype(dtype).kind == "M":
        return a.astype("i8").view(dtype)
    return a.astype(dtype)


def unaligned(a):
    raw = np.empty(a.nbytes + 1, np.uint8)[1:].view(a.dtype)
    raw[...] = a
    return raw


def memmap(a):
    with tempfile.TemporaryFile() as file:
        m = np.memmap(file, a.dtype, "w+", shape=a.shape)
    m[...] = a
    return m


DTYPES = [
    "?",
    "i1",
    "u1",
    "i2",
    "u2",
    "i4",
    "u4",
    "i8",
    "u8",
    "f2",
    "f4",
    "f8",
    "g",
    "F",
    "D",
    "M8[s]",
    "m8[ns]",
    "S3",
    "U3",
    ">f8",
    ">i4",
    ">f4",
    ">D",
    "O",
]
FORMS = {
    **{f"dtype {np.dtype(d).str if d[0] == '>' else np.dtype(d).name}": d for d in DTYPES},
    "unaligned": lambda d: unaligned(numbers(d)),
    "every other": lambda d: np.repeat(numbers(d), 2)[::2],
    "reversed": lambda d: numbers(d)[::-1],
    "memmap": lambda d: memmap(numbers(d)),
    "subclass": lambda d: numbers(d).view(Sub),
    "recarray": lambda d: np.rec.array(numbers(d)),
    "masked": lambda d: np.ma.masked_greater(numbers(d), 90),
    "list": lambda d: numbers(d).tolist(),
    "array.array": lambda d: array.array(numbers(d).dtype.char, numbers(d)),
    "memoryview": lambda d: memoryview(numbers(d)),
    "__array__": lambda d: HasArray(numbers(d)),
    "__dlpack__": lambda d: HasDlpack(numbers(d)),
}


@functools.cache
def units():
    return pytest.importorskip("pint").UnitRegistry()


LIBRARIES = {
    "pandas Series": lambda d: pytest.importorskip("pandas").Series(numbers(d)),
    "Polars Series": lambda d: pytest.importorskip("polars").Series(numbers(d)),
    "xarray DataArray": lambda d: pytest.importorskip("xarray").DataArray(numbers(d)),
    "pint Quantity": lambda d: numbers(d) * units().meter,
    "pyarrow array": lambda d: pytest.importorskip("pyarrow").array(numbers(d)),
    "dask array": lambda d: pytest.importorskip("dask.array").from_array(numbers(d)),
    "torch tensor": lambda d: pytest.importorskip("torch").from_numpy(numbers(d)),
}
# torch is no part of the extra "test": its row is the same as __dlpack__'s.
LISTED = [name for name in [*FORMS, *LIBRARIES] if name != "torch tensor"]
TABLE = (200, 1000)
OPTIONS = {
    "axis=np.int64(0)": {"axis": np.int64(0)},
    "axis=1": {"axis": 1},
    "keepdims=1": {"keepdims": 1},
    "where=": {"where": numbers("i8").reshape(TABLE) > 30},
    "dtype=": {"dtype": np.float64},
    "dtype=f4": {"dtype": np.float32},
}
REDUCTIONS = ["sum", "min", "max", "mean", "var", "std", "any", "all", "nansum", "nanmin", "nanmax"]


def outcome(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except Exception as e:
            return e


def plain(x):
    if hasattr(x, "dask"):
        x = x.compute()
    if hasattr(x, "magnitude"):
        x = x.magnitude
    return np.ma.getdata(x) if isinstance(x, np.ma.MaskedArray) else np.asarray(x)


def same(name, got, expected):
    """Values, dtype and type; the values alone where NumPy knows nothing of the container."""
    if isinstance(expected, Exception):
        return isinstance(got, type(expected)) or isinstance(expected, type(got))
    assert not isinstance(got, Exception), got
    if hasattr(expected, "units"):
        assert got.units == expected.units
    x, y = plain(got), plain(expected)
    assert x.dtype == y.dtype, (x.dtype, y.dtype)
    assert x.shape == y.shape
    if isinstance(expected, np.ma.MaskedArray):
        assert (np.ma.getmaskarray(got) == np.ma.getmaskarray(expected)).all()
        keep = ~np.ma.getmaskarray(expected)
        x, y = x[keep], y[keep]
    if x.dtype.kind in "fc" and name.split()[0] in ROUNDED:
        eps = 1e-2 if x.dtype.itemsize < 4 else 1e-3 if x.dtype.char in "fF" else 1e-4
        with np.errstate(all="ignore"):
            assert np.allclose(x, y, rtol=eps, equal_nan=True)
    else:
        assert ((x == y) | ((x != x) & (y != y))).all()
    return True


def how(name, call, expected):
    """ "shared", or why it was left alone; AssertionError when it is neither."""
    with pb.stats() as s:
        got = outcome(call)
    assert same(name, got, expected), (got, expected)
    if any(why == BY_VECTORS for _, why in s.left):
        return "shared"  # elsewhere; see the page
    if s.left:
        return "; ".join(why for _, why in s.left)
    if isinstance(expected, Exception):
        return "refused"
    if any(w.name.startswith("caller") and w.busy > 0 for w in s.workers):
        return "shared"
    raise AssertionError("one thread did it, and nobody was told")


# What these move side by side, one thread moves, up to so many bytes (STRAIGHT_NS of front.pyx).
MOVES, STRAIGHT_BYTES = {"copy", "concatenate"}, 1_052_631


def form(name, dtype):
    made = {**FORMS, **LIBRARIES}[name]
    return numbers(made) if isinstance(made, str) else made(dtype)


# What is converted: NumPy's own function asks these for a method that they lack, or that
# takes other arguments, or makes objects of them.
CONVERTED = {"list", "array.array", "memoryview", "__array__", "__dlpack__", "pyarrow array"}
CONVERTED |= {"torch tensor", "Polars Series"}
# What Polars refuses itself: the methods of ufuncs.
ASKED = {("Polars Series", "reduce"), ("Polars Series", "scan"), ("Polars Series", "reduceat")}


def found(form_name):
    """{function: how} of one dtype, layout or container."""
    result = {}
    for name, (ours, numpys) in CALLS.items():
        dtype = "i8" if name == "bincount" or form_name == "list" else "f8"
        a, given = form(form_name, dtype), numbers(dtype)
        if name in MOVES and type(a) is np.ndarray and a.nbytes <= STRAIGHT_BYTES:
            a = np.resize(a, STRAIGHT_BYTES // a.itemsize + 1)
        converted = form_name in CONVERTED and (form_name, name) not in ASKED
        expected = outcome(lambda f=numpys, a=given if converted else a: f(a))
        try:
            result[name] = how(name, lambda f=ours, a=a: f(a), expected)
        except AssertionError as e:
            raise AssertionError(f"{name} of {form_name}: {e}") from e
    return result


def found_options():
    result = {}
    a = numbers("f8").reshape(TABLE)
    for name in REDUCTIONS:
        for text, options in OPTIONS.items():
            call, numpys = getattr(pb, "par_" + name), getattr(np, name)
            if "where" in options and name in ("min", "max", "nanmin", "nanmax"):
                options = {**options, "initial": 50}
            expected = outcome(lambda f=numpys, o=options: f(a, **o))
            if not isinstance(expected, Exception):
                result[name, text] = how(name, lambda f=call, o=options: f(a, **o), expected)
    return result


@pytest.fixture(scope="module", autouse=True)
def no_sorts_of_dask_arrays():
    """Whatever tests have run before: `pyblitz.dask` is an import of its own."""
    ours = sys.modules.get("pyblitz.dask")
    if ours is not None:
        hand_over(ours.da.Array, {})
    yield
    if ours is not None:
        hand_over(ours.da.Array, ours.HANDED_OVER)


@pytest.fixture(scope="module")
def seen():
    return {}


@pytest.mark.parametrize("name", [*FORMS, *LIBRARIES])
def test_every_call_is_shared_or_told(name, seen):
    form(name, "f8")
    seen[name] = found(name)


def test_options_are_shared():
    alone = {key: why for key, why in found_options().items() if why != "shared"}
    assert not alone


def names_of(calls):
    return {"map" if name.startswith("map") else name for name in calls}


def page(seen):
    """The list, as a table: of each reason, the functions and what they were given."""
    rows = {}
    for what, calls in seen.items():
        for name, why in calls.items():
            if why not in ("shared", "refused"):
                rows.setdefault((what, why), []).append(name)
    text = (
        "`pb.stats()` names each large call that was left to NumPy, or to a container's own code: "
        "`left to NumPy: par_sort of dtype object, 3 calls`. This list is written by "
        "`tests/test_left_alone.py`, which calls these functions with every dtype, layout and "
        f"container: {', '.join(sorted(names_of(CALLS)))}. What is not in the table is shared, "
        "or NumPy refuses it. A call with unusual options can be left to NumPy for other reasons, "
        "which are not listed. What is too small to share, and what a pool of one thread "
        "leaves to NumPy because it is as fast, is not named. One thing more depends on the "
        "processor: where NumPy partitions by fast vector instructions (AVX2, or AVX-512 but on "
        "Zen 4), one row of up to a million floats, two million integers of 8 bytes or 32 million "
        f"integers of 4 bytes is left to it (`{BY_VECTORS}`), but for what is done here "
        "faster than by its AVX2 (from 65,536 numbers of 8 bytes or 131,072 integers of 4 on; "
        "floats of 4 bytes from 256 on); "
        "`par_argpartition` of up to half a million numbers is left to it only where pyblitz has "
        "no such instructions."
    )
    lines = [
        "# What NumPy does alone",
        "",
        *textwrap.wrap(text, 96, break_long_words=False, break_on_hyphens=False),
        "",
        "| given | why | functions (`par_`) |",
        "| --- | --- | --- |",
    ]
    for (what, why), names in rows.items():
        lines.append(f"| {what} | {why} | {', '.join(sorted(names_of(names)))} |")
    return "\n".join(lines) + "\n"


def test_the_list_is_what_the_document_says(seen):
    assert PAGE.read_text() == page({n: seen.get(n) or found(n) for n in LISTED})


if __name__ == "__main__":
    PAGE.write_text(page({name: found(name) for name in LISTED}))
    sys.exit(0)
