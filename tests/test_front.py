"""The front door: what goes to whom, with which arguments, and what comes back."""

import array
import fractions
import inspect
import operator
import pickle
import threading
import warnings

import numpy as np
import pytest
from arrays import assert_same
from test_left_alone import TABLE, HasDlpack, N, form, numbers

import pyblitz as pb
from pyblitz.arrays import front

PUBLIC = [name for name in pb.__all__ if name.startswith("par_") and name != "par_iter"]


class Library:
    """A library with __array_function__: it says what it was called with."""

    def __array_function__(self, fn, types, args, kwargs):
        return fn, args, kwargs


@pytest.mark.parametrize(
    ("ours", "numpys", "args", "options"),
    [
        (pb.par_mean, np.mean, (), {}),
        (pb.par_sum, np.sum, (), {"axis": 1}),
        (pb.par_sum, np.sum, (1,), {}),
        (pb.par_var, np.var, (), {"ddof": 1}),
        (pb.par_cumsum, np.cumsum, (), {}),
        (pb.par_sort, np.sort, (), {}),
        (pb.par_argsort, np.argsort, (), {}),
        (pb.par_partition, np.partition, (3,), {}),
        (pb.par_unique, np.unique, (), {"return_counts": True}),
        (pb.par_isin, np.isin, ([1, 2],), {}),
        (pb.par_take, np.take, ([1],), {}),
        (pb.par_where, np.where, (), {}),
        (pb.par_repeat, np.repeat, (2,), {}),
        (pb.par_histogram, np.histogram, (), {"bins": 5}),
        (pb.par_bincount, np.bincount, (), {}),
        (pb.par_count_nonzero, np.count_nonzero, (), {}),
        (pb.par_any, np.any, (), {}),
        (pb.par_argmax, np.argmax, (), {}),
        (pb.par_nansum, np.nansum, (), {}),
        (pb.par_dot, np.dot, (3,), {}),
        (pb.par_digitize, np.digitize, ([1, 2],), {}),
        (pb.par_searchsorted, np.searchsorted, (3,), {}),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_other_libraries_get_the_very_arguments(ours, numpys, args, options):
    library = Library()
    expected = numpys(library, *args, **options)
    assert ours(library, *args, **options) == expected
    assert ours(library, *args, **options, progress=None) == expected
    assert expected[1:] == ((library, *args), options)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_functions_look_like_functions(name):
    f = getattr(pb, name)
    assert f.__name__ == f.__qualname__ == name
    assert f.__module__ == "pyblitz"
    assert pickle.loads(pickle.dumps(f)) is f
    assert repr(f) == f"<function pyblitz.{name}>"
    parameters = inspect.signature(f).parameters
    assert parameters["progress"].kind is inspect.Parameter.KEYWORD_ONLY
    assert inspect.isroutine(f)
    assert not f.__doc__.startswith(name)
    assert f.__doc__.count("progress : bool or callable") == 1

    class Holder:
        method = f

    assert Holder().method is f


NAMESAKES = [name for name in PUBLIC if hasattr(np, name[4:])]


@pytest.mark.parametrize("name", NAMESAKES)
def test_a_function_takes_what_its_namesake_takes(name):
    """By the same names, in the same order, with the same defaults."""
    try:
        theirs = inspect.signature(getattr(np, name[4:])).parameters
    except ValueError:
        pytest.skip("NumPy tells no signature of it")
    ours = inspect.signature(getattr(pb, name)).parameters
    if "options" in ours:
        theirs = {k: p for k, p in theirs.items() if k in ours}
    for mine, its in zip(ours.values(), theirs.values(), strict=False):
        assert (mine.name, mine.kind) == (its.name, its.kind)
        # Which value says that none was given is nobody's business.
        assert mine.default == its.default or {mine.default, its.default} == {None, np._NoValue}
    assert len(ours) >= len(theirs)


def test_wrong_calls_are_told():
    with pytest.raises(TypeError, match="par_cumsum"):
        pb.par_cumsum()
    with pytest.raises(TypeError, match="unexpected keyword"):
        pb.par_cumsum(np.ones(N), axes=1)
    with pytest.raises(TypeError, match="progress must be"):
        pb.par_cumsum(np.ones(N), progress=3)
    with pytest.raises(TypeError, match="positional"):
        pb.par_map()


# ---- subclasses ---------------------------------------------------------------


INDEX = np.random.default_rng(1).integers(0, N, N)
# What each gives for a subclass in the place of its array.
TYPES = {
    "map": (lambda a: pb.par_map(np.sin, a), np.sin),
    "map of two": (lambda a: pb.par_map(np.arctan2, INDEX, a), lambda a: np.arctan2(INDEX, a)),
    "reduce": (
        lambda a: pb.par_reduce(np.add, a.reshape(-1, 8), axis=1),
        lambda a: np.add.reduce(a.reshape(-1, 8), axis=1),
    ),
    "scan": (lambda a: pb.par_scan(np.add, a), np.add.accumulate),
    "argmin": (
        lambda a: pb.par_argmin(a.reshape(-1, 8), axis=1),
        lambda a: np.argmin(a.reshape(-1, 8), axis=1),
    ),
    **{
        name: (getattr(pb, "par_" + name), getattr(np, name))
        for name in ["sum", "mean", "var", "min", "any", "cumsum", "sort", "argsort", "unique"]
    },
    "take": (lambda a: pb.par_take(a, INDEX), lambda a: np.take(a, INDEX)),
    "take by it": (
        lambda a: pb.par_take(INDEX, a.astype(int)),
        lambda a: np.take(INDEX, a.astype(int)),
    ),
    "repeat": (lambda a: pb.par_repeat(a, 2), lambda a: np.repeat(a, 2)),
    "where": (lambda a: pb.par_where(a > 3, a, a), lambda a: np.where(a > 3, a, a)),
    "filter": (lambda a: pb.par_filter(a, INDEX > 9), lambda a: a[INDEX > 9]),
    "flatten": (pb.par_flatten, lambda a: a.flatten()),
    "partition": (lambda a: pb.par_partition(a, 5), lambda a: np.partition(a, 5)),
    "isin": (lambda a: pb.par_isin(a, [1, 2]), lambda a: np.isin(a, [1, 2])),
    "searchsorted": (
        lambda a: pb.par_searchsorted(INDEX[:9], a),
        lambda a: np.searchsorted(INDEX[:9], a),
    ),
    "concatenate": (lambda a: pb.par_concatenate([a, a]), lambda a: np.concatenate([a, a])),
}


@pytest.mark.parametrize("kind", ["memmap", "subclass", "recarray"])
@pytest.mark.parametrize("name", TYPES)
def test_results_of_subclasses_have_numpys_types(name, kind, partitions_itself):
    a = form(kind, "f8")
    ours, numpys = TYPES[name]
    with pb.stats() as s:
        got = ours(a)
    assert not s.left
    assert type(got) is type(numpys(a))


def test_attributes_of_subclasses_stay():
    class Named(np.ndarray):
        def __array_finalize__(self, other):
            self.name = getattr(other, "name", None)

    a = numbers("f8").view(Named)
    a.name = "lengths"
    for call in (
        lambda: pb.par_map(np.sin, a),
        lambda: pb.par_sort(a),
        lambda: pb.par_cumsum(a),
        lambda: pb.par_map(np.add, np.ones(N), a),
    ):
        got = call()
        assert type(got) is Named
        assert got.name == "lengths"
    out = np.empty(N).view(Named)
    assert pb.par_map(np.sin, a, out=out) is out
    assert np.array_equal(out, np.sin(numbers("f8")))


def test_the_foremost_subclass_decides():
    class Low(np.ndarray):
        __array_priority__ = 1.0

    class High(np.ndarray):
        __array_priority__ = 2.0

    low, high, plain = numbers("f8").view(Low), numbers("f8").view(High), numbers("f8")
    for pair in [(low, high), (high, low), (plain, low), (low, plain), (high, plain)]:
        with pb.stats() as s:
            got = pb.par_map(np.add, *pair)
        assert not s.left
        assert type(got) is type(np.add(*pair))


class Metres(np.ndarray):
    """Computes in its own way."""

    def __array_ufunc__(self, fn, method, *inputs, **options):
        plain = [x.view(np.ndarray) if isinstance(x, Metres) else x for x in inputs]
        return getattr(fn, method)(*plain, **options).view(Metres)


def test_subclasses_of_their_own_ways_are_asked():
    a = numbers("f8").view(Metres)
    with pb.stats() as s:
        got = pb.par_map(np.sin, a)
    assert type(got) is Metres
    assert np.array_equal(got.view(np.ndarray), np.sin(numbers("f8")))
    assert not s.left  # inside, it was shared


# ---- containers ---------------------------------------------------------------


def test_pandas_keeps_what_is_its_own():
    pd = pytest.importorskip("pandas")
    a = pd.Series(numbers("f8"), index=np.arange(N)[::-1], name="km")
    b = pd.Series(numbers("f8"), index=np.arange(N) + 7)
    frame = pd.DataFrame({"x": a, "y": a * 2})
    with pb.stats() as s:
        for fn, args in (
            (np.sin, (a,)),
            (np.add, (a, b)),  # aligned by index
            (np.multiply, (a, 3)),
            (np.hypot, (a, a)),
            (np.less, (a, 5)),
            (np.sqrt, (frame,)),
            (np.arctan2, (frame, frame)),
            (np.sin, (pd.Index(numbers("f8"), name="i"),)),
            (np.sin, (pd.Series(pd.array(numbers("f8"), "Float64")),)),
        ):
            got, expected = pb.par_map(fn, *args), fn(*args)
            assert type(got) is type(expected)
            assert got.equals(expected)
            assert getattr(got, "name", None) == getattr(expected, "name", None)
    assert not s.left
    # Its own operators where they differ from NumPy's.
    whole = pd.Series(np.arange(N) % 3)
    assert pb.par_map(np.floor_divide, whole, whole).equals(np.floor_divide(whole, whole))
    with pytest.raises(ValueError, match="identically-labeled"):
        pb.par_map(np.equal, a, b)
    dates = pd.Series(pd.date_range("2020", periods=N, freq="s"))
    assert pb.par_map(np.subtract, dates, dates).equals(np.subtract(dates, dates))


def test_polars_and_xarray_keep_what_is_their_own():
    pl = pytest.importorskip("polars")
    xr = pytest.importorskip("xarray")
    series = pl.Series("km", numbers("f8"))
    grid = xr.DataArray(numbers("f8").reshape(TABLE), dims=["y", "x"], name="t")
    row = xr.DataArray(np.arange(float(TABLE[1])), dims=["x"])
    with pb.stats() as s:
        got = pb.par_map(np.sin, series)
        assert isinstance(got, pl.Series)
        assert got.name == "km"
        assert got.equals(np.sin(series))
        assert pb.par_map(np.arctan2, grid, row).identical(np.arctan2(grid, row))
    assert not s.left


@pytest.mark.parametrize("n", [3, 100])
def test_what_is_small_and_has_methods_of_its_own_is_given_to_numpy_as_an_array(n):
    """NumPy's functions would call these methods, which take no axis and no out."""
    pl = pytest.importorskip("polars")
    a = np.random.default_rng(1).random(n)
    names = "sum prod min max minmax mean var std any all argmin argmax cumsum cumprod sort argsort"
    for name in names.split():
        ours = getattr(pb, "par_" + name)
        assert_same(np.asarray(ours(pl.Series("x", a))), np.asarray(ours(a)))


def test_calls_import_nothing(script):
    """A program that has given up its rights, or its files, can still call."""
    calls = """
import sys
import numpy as np
import pyblitz as pb
before = set(sys.modules)
pb.par_reduceat(np.add, np.ones(9), [0, 4])
pb.par_concatenate(([1], [2]))
pb.par_map(np.sqrt, [1, 2])
pb.par_sort([2, 1], descending=True)
pb.par_lexsort(([2, 1], [3, 4]))
pb.par_sum(np.ones(9).view(np.recarray))
pb.par_filter([1.0, 2.0], [True, False])
print(set(sys.modules) - before)
"""
    assert script(calls) == "set()\n"


def test_what_few_programs_need_is_imported_when_they_do(script):
    """numpy.ma alone takes some 20 ms."""
    source = """
import sys
import numpy
before = set(sys.modules)
import pyblitz
new = set(sys.modules) - before
print({"numpy.ma", "html", "json", "pandas", "tqdm", "dask"} & new)
"""
    assert script(source) == "set()\n"


def test_masks_are_the_arrays_own_or_refused():
    a = np.ma.masked_greater(numbers("f8"), 90)
    for fn in (np.sin, np.log):
        got, expected = pb.par_map(fn, a), fn(a)
        assert (got.mask == expected.mask).all()
        assert (got.compressed() == expected.compressed()).all()
    both = pb.par_map(np.add, a, np.ma.masked_less(numbers("f8"), 5))
    assert (both.mask == (a.mask | (numbers("f8") < 5))).all()
    refused = {
        "par_topk": lambda m: pb.par_topk(m, 3),
        "par_rank": pb.par_rank,
        "par_group_by": pb.par_group_by,
        "par_sort_by_key": pb.par_sort_by_key,
        "par_position": lambda m: pb.par_position(m, 3),
        "par_find_first": lambda m: pb.par_find_first(m, 3),
        "par_iter": pb.par_iter,
        "par_map": lambda m: pb.par_map(lambda x: x, m),
    }
    for name, call in refused.items():
        for n in (10, N):
            with pytest.raises(TypeError, match="masks"):
                call(a[:n])
            call(a[:n].filled())
        assert name in ("par_iter", *PUBLIC)


@pytest.mark.parametrize("threads", [1, 2])
def test_subok_and_outputs_of_subclasses(pool_size, threads):
    class Sub(np.ndarray):
        pass

    pool_size(threads)
    a = np.arange(200_000.0).view(Sub)
    assert type(pb.par_map(np.sqrt, a)) is Sub
    assert type(pb.par_map(np.sqrt, a, subok=False)) is np.ndarray
    outs = np.empty(a.size), np.empty(a.size)
    for made in (pb.par_map(np.divmod, a, 7, out=outs), pb.par_map(np.divmod, a, 7, *outs)):
        assert made[0] is outs[0]
        assert made[1] is outs[1]
    half = pb.par_map(np.divmod, a, 7, out=(None, outs[1]))
    assert type(half[0]) is Sub
    assert half[1] is outs[1]
    np.testing.assert_array_equal(outs, np.divmod(np.arange(200_000.0), 7))
    out = outs[0].view(Sub)
    assert pb.par_map(np.sqrt, a, out) is out


def test_lazy_arrays_go_where_arrays_go():
    a = numbers("f8")
    x = pb.par_iter(a)
    with pb.stats() as s:
        assert isinstance(pb.par_map(np.sin, x), pb.ParIter)
        assert pb.par_sum(x * 2) == pb.par_sum(a * 2)
        assert np.array_equal(pb.par_sort(x), np.sort(a))
        assert np.array_equal(pb.par_filter(x, a > 5), a[a > 5])
        assert np.array_equal(x[a > 5].collect(), a[a > 5])
    assert not [why for _, why in s.left if "ParIter" not in why]


# ---- what is left alone -------------------------------------------------------


def test_calls_that_numpy_did_alone_are_named(pool_size):
    pool_size(2)  # one thread leaves what it does as fast to NumPy before it looks
    objects = numbers("O")
    with pb.stats() as s:
        pb.par_sort(objects)
        pb.par_sort(objects)
        pb.par_sort(objects[:10])  # too small to be counted
        pb.par_concatenate([objects, objects])
        pb.par_sum(numbers("f8"))
    assert s.left == {("par_sort", "dtype object"): 2, ("par_concatenate", "dtype object"): 1}
    assert "left to NumPy: par_sort of dtype object, 2 calls" in str(s)
    assert "left to NumPy: par_concatenate of dtype object, 1 call\n" in str(s) + "\n"
    with pb.stats() as s:
        pass
    assert not s.left


@pytest.mark.parametrize("kind", [np.asarray, list])
def test_calls_are_as_large_as_their_largest_argument(kind):
    """However many there are, and on whichever road they go."""
    objects = np.full(20_000, fractions.Fraction(1, 3))
    named = ("par_cumsum", "dtype object")
    for n, times in (16_000, 0), (17_000, 1):
        with pb.stats() as s:
            pb.par_cumsum(kind(objects[:n]), out=objects[:n].copy())
        assert s.left.get(named, 0) == times


def test_counts_of_many_threads_add_up():
    objects = numbers("O")[:20_000]

    def call():
        for _ in range(50):
            pb.par_flatnonzero(objects)

    before = front.left_alone().get(("par_flatnonzero", "dtype object"), 0)
    threads = [threading.Thread(target=call) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert front.left_alone()["par_flatnonzero", "dtype object"] == before + 400


def test_what_numpy_refuses_is_not_counted():
    with pb.stats() as s:
        with pytest.raises(TypeError):
            pb.par_sum(np.array(["a"] * N))
        with pytest.raises(np.exceptions.AxisError):
            pb.par_cumsum(np.ones(N), axis=3)
    assert not s.left


def test_axes_are_any_integers():
    a = numbers("f8").reshape(TABLE)
    with pb.stats() as s:
        for axis in (np.int64(1), np.int8(-1), np.array(0)):
            for name in ("sum", "mean", "argmax", "cumsum", "sort", "partition", "any"):
                more = (3,) if name == "partition" else ()
                got = getattr(pb, "par_" + name)(a, *more, axis=axis)
                expected = getattr(np, name)(a, *more, axis=int(axis))
                if more:  # before and after the position in any order
                    assert np.allclose(got[:, 3], expected[:, 3])
                    got, expected = np.sort(got), np.sort(expected)
                assert np.allclose(got, expected)
    assert not s.left
    for axis in (True, 1.0, "a"):
        assert raised(pb.par_sort, a, axis) is raised(np.sort, a, axis)
        assert raised(pb.par_sum, a, axis) is raised(np.sum, a, axis) is TypeError
        assert raised(pb.par_cumsum, a, axis) is raised(np.cumsum, a, axis) is TypeError


def raised(call, *args):
    try:
        call(*args)
    except Exception as e:
        return type(e)


@pytest.mark.parametrize("n", [5, 1000, 200_000])
@pytest.mark.parametrize("name", ["partition", "argpartition", "cumsum", "sort", "take", "repeat"])
def test_what_has_dlpack_alone_is_an_array_to_numpy_too(n, name):
    """Where a call goes to the namesake, which knows no such protocol."""
    a = np.random.default_rng(0).permutation(n).astype("f8")  # whose sums are exact
    args = {"take": ([1, 0],), "repeat": (2,), "cumsum": (), "sort": ()}.get(name, (2,))
    got = getattr(pb, f"par_{name}")(HasDlpack(a), *args)
    if "partition" in name:
        assert (got if name == "partition" else a[got])[2] == np.sort(a)[2]
    else:
        np.testing.assert_array_equal(got, getattr(np, name)(a, *args), strict=True)


# ---- lazy arrays and predicates beside others' classes ------------------------


def others(a):
    """By name, what is beside a lazy array, and whether the result is of its class."""
    yield "Metres", a.view(Metres), True
    for name, made in {
        "pandas": lambda m: m.Series(a, index=np.arange(a.size) + 7),
        "polars": lambda m: m.Series(a),
        "dask.array": lambda m: m.from_array(a, chunks=100),
        "xarray": lambda m: m.DataArray(a, dims="x"),
    }.items():
        module = pytest.importorskip(name)
        yield name, made(module), True
    yield "pyarrow", pytest.importorskip("pyarrow").array(a), False
    yield "memoryview", memoryview(a), False
    yield "array", array.array(a.dtype.char, a), False


@pytest.mark.parametrize(
    ("op", "ufunc"),
    [
        (operator.add, np.add),
        (operator.sub, np.subtract),
        (operator.truediv, np.divide),
        (operator.lt, np.less),
        (operator.eq, np.equal),
    ],
)
def test_operators_of_lazy_arrays_beside_others(op, ufunc):
    """The class of the result is what it is beside a plain array, and so are the values."""
    a = np.arange(1.0, 501.0)
    lazy = pb.par_iter(a)
    for kind, x, own in others(a[::-1].copy()):
        if kind == "polars" and ufunc in (np.less, np.equal):
            with pytest.raises(TypeError, match="No loop"):
                op(a, x)  # it has no comparisons for NumPy's operators
            continue
        want, got = op(a, x), op(lazy, x)
        assert type(got) is (type(want) if own else type(lazy)), kind
        assert_same(np.asarray(got), np.asarray(want))
        assert (type(ufunc(lazy, x)) is not type(lazy)) is own
        # Whose own code comes first, and compares memory or knows no lazy arrays, is left out.
        if kind not in ("Metres", "polars", "pyarrow", "memoryview"):
            assert_same(np.asarray(op(x, lazy)), np.asarray(op(x, a)))


def test_products_of_lazy_matrices():
    x = np.arange(12.0).reshape(4, 3)
    assert_same(pb.par_iter(x) @ pb.par_iter(x.T), x @ x.T)
    assert_same(pb.par_iter(x) @ x.T, x @ x.T)
    assert_same(x @ pb.par_iter(x.T), x @ x.T)


@pytest.mark.parametrize("x", [3.5, np.array(2), np.float32(1)])
def test_nothing_to_iterate_over(x):
    with pytest.raises(TypeError, match="0-d"):
        pb.par_iter(np.arange(3), x)


def test_predicates_see_the_container():
    """With its labels and units, and they may give what it has for unknown truth."""
    pd = pytest.importorskip("pandas")
    pint = pytest.importorskip("pint")
    pl = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    seen = []

    def positive(s):
        seen.append(type(s))
        return s > 0

    s = pd.Series([3, None, -1, 4], index=list("abcd"), dtype="Int64")
    pd.testing.assert_series_equal(pb.par_filter(s, positive), s[s > 0])
    pd.testing.assert_series_equal(pb.par_filter(s, s > 0), s[s > 0])
    assert seen == [pd.Series]
    yes, no = pb.par_partition_by(s, positive)
    assert list(yes.index) == ["a", "d"]
    assert list(no.index) == ["b", "c"]  # each item is in one part
    yes, no = pb.par_partition_by(s, 3)
    assert list(yes.index) == ["a"]
    assert list(no.index) == ["b", "c", "d"]
    with pytest.raises(ValueError, match="mask: an array of shape"):
        pb.par_filter(s, lambda s: np.ones(2, bool))
    with pytest.raises(pd.errors.IndexingError):
        pb.par_filter(s, lambda s: s[:2] > 0)
    unit = pint.UnitRegistry()
    q = np.arange(5.0) * unit.m
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no unit is stripped
        for predicate in (lambda q: q > 200 * unit.cm, q > 2 * unit.m):
            got = pb.par_filter(q, predicate)
            assert got.units == unit.m
            assert_same(got.magnitude, np.array([3.0, 4.0]))
        assert_same(pb.par_filter(q, 300 * unit.cm).magnitude, np.array([3.0]))
    # Masks of which some is unknown, of plain arrays; and what has no index by masks is an array.
    a = np.arange(4)
    for mask in (
        pd.array([True, None, False, True], dtype="boolean"),
        pl.Series([True, None, False, True]),
        pa.array([True, None, False, True]),
        np.ma.array([True, True, False, True], mask=[0, 1, 0, 0]),
    ):
        assert_same(pb.par_filter(a, mask), a[[0, 3]])
    assert_same(pb.par_filter(pl.Series(a), lambda x: x > 1), a[2:])


@pytest.mark.parametrize("n", [10, 10**6])
def test_numbers_beside_functions_stay_numbers(n):
    """As weak as NumPy's operators and functions find them, and options where they are some."""
    a = np.linspace(0, 1, n, dtype=np.float32)
    assert_same(pb.par_map(lambda x, y: x + y, a, 2.0), a + 2.0)
    assert_same(pb.par_map(lambda x, y: x + y, 2, a), 2 + a)
    assert_same(pb.par_map(np.round, a, 2), np.round(a, 2))
    assert_same(pb.par_map(lambda x, y: x + y, a, np.float64(2)), a + np.float64(2))
    with pytest.raises(TypeError, match=r"functools.partial\(fn, decimals"):
        pb.par_map(np.round, a, decimals=2)
    with pytest.raises(ValueError, match="par_cumsum"):
        pb.par_map(np.cumsum, a, 0)


@pytest.mark.parametrize("n", [10, 100_000])
def test_what_a_predicate_does_not_know_is_not_selected(n):
    """Whatever class says so, at each size, and in lazy chains."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    a = np.arange(float(n))
    for predicate in (
        lambda v: np.ma.array(v < 4, mask=v == 2),
        lambda v: np.ma.array(np.where(v < 4, v + 1, 0), mask=v == 2),
        lambda v: pd.array(v < 4, dtype="boolean") & pd.array(np.where(v == 2, None, True)),
        lambda v: pd.Series(np.where(v == 2, None, v < 4), dtype="Int64"),
        lambda v: pl.Series(np.where(v == 2, None, v < 4).tolist()),
        lambda v: pa.array(np.where(v == 2, None, v < 4).tolist()),
        lambda v: np.where(v == 2, None, v < 4),
    ):
        expected = np.array([0.0, 1.0, 3.0])
        assert_same(pb.par_filter(a, predicate), expected)
        assert_same(pb.par_flatnonzero(a, predicate), np.array([0, 1, 3]))
        assert_same(pb.par_iter(a).filter(predicate).collect(), expected)
        assert pb.par_position(a[2:], predicate) == 1


def test_pandas_knows_what_goes_with_what():
    pd = pytest.importorskip("pandas")
    s = pd.Series([3.0, -1, 0, 4, 5], index=list("abcde"))
    mask = pd.Series([True, True, False, False, False], index=list("edcba"))
    pd.testing.assert_series_equal(pb.par_filter(s, mask), s[mask.reindex(s.index)])
    pd.testing.assert_series_equal(pb.par_filter(s, lambda s: (s > 3)[::-1]), s[s > 3])
    df = pd.DataFrame({"x": [1.0, 2, 3], "y": [1.0, -2, -3]})
    pd.testing.assert_frame_equal(pb.par_filter(df, lambda d: d > 0), df[df > 0])
    pd.testing.assert_frame_equal(pb.par_filter(df, df > 0), df[df > 0])
    pd.testing.assert_frame_equal(pb.par_filter(df, lambda d: d["y"] < 0), df[df["y"] < 0])
    pd.testing.assert_frame_equal(pb.par_filter(df, 1.0), df[df == 1.0])
    with pytest.raises(TypeError, match="mask: expected booleans"):
        pb.par_filter(s, [1, 0, 1, 0, 1])
    times = pd.Series(np.arange(6).astype("M8[s]"))
    for time in (pd.Timestamp(3, unit="s"), np.datetime64(3, "s")):
        assert list(pb.par_filter(times, time).index) == [3]
    objects = pd.Series([True, np.nan, None, pd.NA, False], dtype=object)
    assert list(pb.par_filter(s, lambda s: objects).index) == ["a"]
    numba = pytest.importorskip("numba")
    assert list(pb.par_filter(s, numba.njit(lambda v: v > 3)).index) == ["d", "e"]


@pytest.mark.parametrize("n", [10, 300_000])
def test_values_with_units_do_not_lose_them(n):
    pint = pytest.importorskip("pint")
    metre = pint.UnitRegistry().m
    a = np.arange(float(n))
    for call in (
        lambda: pb.par_filter(a, 3 * metre),
        lambda: pb.par_position(a, 3 * metre),
        lambda: pb.par_iter(a).filter(3 * metre).collect(),
        lambda: pb.par_iter(a).position(3 * metre),
    ):
        with pytest.raises(pint.DimensionalityError):
            call()


def test_memoryviews_are_masks():
    a = np.arange(4.0)
    assert_same(pb.par_filter(a, memoryview(a > 2)), a[3:])
    assert_same(pb.par_iter(a)[memoryview(a > 2)].collect(), a[3:])


class Told(np.ndarray):
    """Whose operators are NumPy's."""

    def __repr__(self):
        return "told"


class Last(np.ndarray):
    def __radd__(self, other):
        return type(other)


class Alone:
    __array_ufunc__ = None

    def __eq__(self, other):
        return "one answer"

    def __radd__(self, other):
        return type(other)


class Prior:
    def __init__(self, priority):
        self.__array_priority__ = priority

    def __radd__(self, other):
        return type(other)


class Number(float):
    __array_ufunc__ = None

    def __radd__(self, other):
        return type(other)


def test_operators_are_left_to_whom_numpy_leaves_them():
    a = np.arange(16.0).reshape(4, 4)
    lazy = pb.par_iter(a)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        m = np.matrix(np.eye(4) * 2)
    assert_same(lazy * m, a * m)
    assert_same(m * lazy, m * a)
    for x in (a.view(Last), Alone(), Prior(10), Number(2)):
        assert a + x is np.ndarray
        assert lazy + x is np.ndarray
    for x in (a.view(Told), np.rec.array(a)):
        assert type(lazy + x) is type(lazy)
    assert lazy == Alone() == "one answer"
    assert (lazy == np.polynomial.Polynomial([1])) is (a == np.polynomial.Polynomial([1]))
    masked = np.ma.array(a, mask=a > 3)
    for got, want in [(lazy == masked, a == masked), (lazy + masked, a + masked)]:
        assert type(got) is type(want)
        assert np.array_equal(np.ma.getmaskarray(got), np.ma.getmaskarray(want))


def test_products_in_place():
    x, a = pb.par_iter(np.eye(3)), np.eye(3)
    y = np.arange(9.0).reshape(3, 3)
    x @= y
    a @= y
    assert_same(x.collect(), a)
    x = pb.par_iter(np.arange(3.0))
    with pytest.raises(ValueError, match=r"matmul|multiplication"):
        x @= y[0]


@pytest.mark.parametrize("n", [10, 10**6])
def test_options_beside_functions(n):
    a = np.linspace(-1, 1, n)
    assert_same(pb.par_map(np.clip, a, None, 0.5), np.clip(a, None, 0.5))
    assert_same(pb.par_map(np.round, a, np.int64(1)), np.round(a, 1))
    assert_same(pb.par_map(lambda x, y: y, a, 2.0), np.full(n, 2.0))
    for fn in (lambda x, y: y * 2, lambda x, y: x.max()):  # what is one number is no map
        with pytest.raises(ValueError, match="of shape"):
            pb.par_map(fn, a, 2.0)
    assert pb.par_map(lambda x, k: x if k is None else x * k, 5, None) == 5
