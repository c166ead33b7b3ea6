"""`pyblitz.numpy`: NumPy's names, and behind them what runs on all cores."""

import copy
import importlib
import inspect
import pickle
import subprocess
import sys

import numpy
import pytest

import pyblitz as pb
import pyblitz.numpy as np

N = 2_000_000  # of fewer, cheap calls are left to NumPy where it is fast
A = numpy.random.default_rng(3).random(N)
K = numpy.random.default_rng(4).integers(-9, 9, N)
UFUNCS = sorted({f.__name__ for f in vars(numpy).values() if isinstance(f, numpy.ufunc)})


def enters(call):
    """Whether the call used the pool, and what it gave."""
    with pb.stats() as s:
        got = call()
    return any(w.name.startswith("caller") and w.busy > 0 for w in s.workers), got


def test_every_public_name_is_there():
    assert np.__all__ == numpy.__all__
    # But for submodules, which NumPy imports when somebody asks.
    there = {name for name in numpy.__all__ if not inspect.ismodule(getattr(numpy, name))}
    assert there <= set(vars(np))
    assert np.__version__ == numpy.__version__
    for name in numpy.__all__:
        ours, theirs = getattr(np, name), getattr(numpy, name)
        assert ours is theirs or (ours == theirs and callable(ours)) or theirs != theirs


def test_what_has_a_namesake_is_ours():
    """Of all public functions: none is forgotten."""
    named = [name[4:] for name in pb.__all__ if name.startswith("par_") and name[4:] in np.__all__]
    assert len(named) > 30
    for name in [*named, "amax", "amin", "concat"]:
        ours, theirs = getattr(np, name), getattr(numpy, name)
        assert ours is not theirs
        assert ours == theirs
        assert {ours: 1}[theirs] == {theirs: 1}[ours] == 1
        assert (ours.__name__, ours.__doc__, ours.__module__) == (
            theirs.__name__,
            theirs.__doc__,
            "numpy",
        )
        assert inspect.unwrap(ours) is inspect.unwrap(theirs)
        assert inspect.isroutine(ours)
        assert pickle.loads(pickle.dumps(ours)) is ours
        assert copy.copy(ours) is ours


def test_functions_run_on_all_cores():
    calls = [
        (lambda np: np.sort(A)),
        (lambda np: np.amax(a=A)),
        (lambda np: np.unique(K, return_counts=True)[1]),
        (lambda np: np.concat([A, K])),
        (lambda np: np.where(A > 0.5, A, K)),
    ]
    for call in calls:
        entered, got = enters(lambda call=call: call(np))
        assert entered
        numpy.testing.assert_array_equal(got, call(numpy), strict=True)
    assert np.sort([1, 3, 2], descending=True).tolist() == [3, 2, 1]
    with pytest.raises(TypeError, match=r"positional argument"):
        np.sort()


def test_other_libraries_find_their_functions():
    """They look into a dictionary that was made with these names, or with NumPy's."""

    class Library:
        known = {np.sum: "sum", numpy.mean: "mean"}  # noqa: RUF012

        def __array_function__(self, function, types, args, kwargs):
            return self.known[function]

    assert np.sum(Library()) == "sum"
    assert np.mean(Library()) == "mean"


def test_every_name_that_is_listed_is_there():
    """Private ones, too: NumPy's own tests ask for all that `dir` says."""
    for name in dir(np):
        getattr(np, name)
    assert set(dir(numpy)) - set(dir(np)) == {"__path__"}


def test_it_is_no_package():
    """Python would load second copies of NumPy's submodules."""
    assert not hasattr(np, "__path__")
    with pytest.raises(ModuleNotFoundError, match="is not a package"):
        importlib.import_module("pyblitz.numpy.linalg")
    assert np.linalg is numpy.linalg


def test_all_else_is_numpys():
    for name in ["random", "linalg", "fft", "strings", "ndarray", "float64", "nan", "einsum"]:
        assert getattr(np, name) is getattr(numpy, name)
    with pytest.raises(AttributeError, match="module 'numpy' has no attribute 'nothing'"):
        _ = np.nothing


def test_submodules_are_not_imported_early():
    source = (
        "import sys, numpy; before = set(sys.modules); import pyblitz; "
        "middle = set(sys.modules); import pyblitz.numpy as np; "
        "print([m for m in set(sys.modules) - middle if m.startswith('numpy')]); "
        "print(np.testing.assert_equal.__name__)"
    )
    out = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert out.stdout.split("\n")[:2] == ["[]", "assert_equal"]


# ---- ufuncs as objects ---------------------------------------------------------


@pytest.mark.parametrize("name", UFUNCS)
def test_a_ufunc_has_a_ufuncs_face(name):
    ours, theirs = getattr(np, name), getattr(numpy, name)
    assert ours is not theirs
    assert isinstance(ours, numpy.ufunc)
    for attribute in ["nin", "nout", "nargs", "ntypes", "types", "identity", "signature"]:
        assert getattr(ours, attribute) == getattr(theirs, attribute)
    assert ours.__name__ == theirs.__name__
    assert ours.__doc__ == theirs.__doc__
    assert ours.__module__ == getattr(theirs, "__module__", "numpy")  # NumPy 2.0's have none
    assert repr(theirs) in repr(ours)
    assert ours == theirs == ours
    assert not ours != theirs  # noqa: SIM202
    assert {theirs: 1}[ours] == {ours: 1}[theirs] == 1
    assert copy.copy(ours) is ours
    assert copy.deepcopy(ours) is ours
    assert pickle.loads(pickle.dumps(ours)) is ours
    assert callable(ours)
    assert inspect.unwrap(ours) is theirs


def test_ufuncs_differ():
    assert np.add != np.subtract
    assert np.add != numpy.subtract
    assert np.add != 3
    with pytest.raises(AttributeError, match="nothing"):
        _ = np.add.nothing


CALLS = {
    "call": lambda np: np.arctan2(A, K),
    "named": lambda np: np.multiply(A, 2, dtype="f4", casting="same_kind"),
    "out": lambda np: np.subtract(A, K, out=numpy.empty(N)),
    "where": lambda np: np.negative(A, out=A.copy(), where=A > 0.5),
    "two results": lambda np: np.divmod(K, 3)[1],
    "strings": lambda np: np.equal(K.astype("U2"), "3"),
    "gufunc": lambda np: np.vecdot(K.reshape(-1, 4), K.reshape(-1, 4)),
    "reduce": lambda np: np.add.reduce(K),
    "reduce rows": lambda np: np.maximum.reduce(A.reshape(100, -1), axis=0, keepdims=True),
    "accumulate": lambda np: np.maximum.accumulate(A),
    "reduceat": lambda np: np.add.reduceat(A, numpy.arange(0, N, 1000)),
    "outer": lambda np: np.multiply.outer(A[:1500], K[:900]),
    "outer of planes": lambda np: np.add.outer(
        K.reshape(2, -1)[:, :900], K.reshape(4, -1)[:, :333]
    ),
    "outer of a list": lambda np: np.add.outer([1, 2, 3], A),
    "outer of a number": lambda np: np.add.outer(3, A),
    "outer, out": lambda np: np.multiply.outer(
        A[:1000], A[:900], out=numpy.empty((1000, 900), "f4"), casting="unsafe"
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_methods(name, pool_size):
    pool_size(2)  # one thread leaves some to NumPy
    expected = CALLS[name](numpy)
    entered, got = enters(lambda: CALLS[name](np))
    assert entered
    numpy.testing.assert_array_equal(got, expected, strict=True)


def test_arguments_by_name():
    assert np.add.reduce(array=K) == K.sum()
    assert np.add.accumulate(array=K)[-1] == K.sum()
    assert np.add.reduceat(array=K, indices=[0])[0] == K.sum()
    for call in [
        lambda: np.add(A, A, elementwise=True),
        lambda: np.add(A, A, progress=True),
        lambda: np.add(A, A, fn=1),
        lambda: np.add.outer(A[:9], A, elementwise=True),
        lambda: np.add.reduce(a=A),
        lambda: np.add.reduce(A, combine=1),
    ]:
        with pytest.raises(TypeError, match=r"unexpected keyword|required|missing"):
            call()
    assert pb.par_reduce(op=np.add, a=K) == K.sum()
    assert pb.par_scan(op=np.add, a=K)[-1] == K.sum()


def test_functions_are_methods_and_ufuncs_are_not():
    class Row(list):
        total = np.sum
        first = np.sqrt

    assert Row([1, 2]).total() == 3
    assert Row([1, 2]).first(9.0) == 3


def test_at_is_numpys_and_counted():
    got, expected = A.copy(), A.copy()
    with pb.stats() as s:
        np.add.at(got, K, 2.5)
    numpy.add.at(expected, K, 2.5)
    numpy.testing.assert_array_equal(got, expected)
    assert "add.at of indices that may repeat, 1 call" in str(s)


@pytest.mark.parametrize(
    "call",
    [
        lambda np: np.add(A),
        lambda np: np.add(A, A, A, A),
        lambda np: np.add(A, A, nothing=1),
        lambda np: np.add(A, A[:3]),
        lambda np: np.add(*[A] * 20),
        lambda np: np.sqrt.reduce(A),
        lambda np: np.add.reduce(A, axis=3),
        lambda np: np.sqrt.outer(A, A),
        lambda np: np.add.outer(A),
        lambda np: np.add.outer(A, A, A),
        lambda np: np.matmul.outer(A, A),
        lambda np: np.add.at(A, "x", 3),
        lambda np: np.divmod.accumulate(A),
        pytest.param(
            lambda np: np.sum(x for x in [1, 2]),
            marks=pytest.mark.skipif(
                numpy.lib.NumpyVersion(numpy.__version__) < "2.4.0", reason="a warning, before"
            ),
        ),
    ],
)
def test_mistakes_are_told_in_numpys_words(call):
    with pytest.raises((TypeError, ValueError, IndexError, RuntimeError)) as expected:
        call(numpy)
    with pytest.raises(type(expected.value)) as got:
        call(np)
    assert str(got.value) == str(expected.value)


def test_the_longest_call():
    """Two inputs, an output, and every keyword."""
    out = numpy.empty(N)
    options = {"where": True, "casting": "same_kind", "order": "K", "subok": True}
    for types in [{"dtype": "f8"}, {"signature": "dd->d"}]:
        assert np.add(A, K, out=out, **options, **types) is out
        numpy.testing.assert_array_equal(out, A + K)


def test_containers_keep_what_is_theirs():
    pd = pytest.importorskip("pandas")
    series = pd.Series(A, index=K, name="x")
    entered, got = enters(lambda: np.sqrt(series))
    assert entered
    pd.testing.assert_series_equal(got, numpy.sqrt(series))
    masked = numpy.ma.masked_less(A, 0.5)
    got = np.add(masked, 1)
    assert isinstance(got, numpy.ma.MaskedArray)
    numpy.testing.assert_array_equal(got.mask, masked.mask)
    lazy = np.sqrt(pb.par_iter(A))
    assert isinstance(lazy, pb.ParIter)


def test_ours_in_the_place_of_numpys():
    """Wherever pyblitz takes a ufunc."""
    same = numpy.testing.assert_array_equal
    same(pb.par_map(np.sqrt, A), numpy.sqrt(A))
    same(pb.par_map_inplace(np.sqrt, A.copy()), numpy.sqrt(A))
    assert pb.par_reduce(np.add, K) == K.sum()
    same(pb.par_scan(np.maximum, A), numpy.maximum.accumulate(A))
    same(pb.par_reduceat(np.add, K, [0, 5]), numpy.add.reduceat(K, [0, 5]))
    assert pb.par_iter(A).map(np.sqrt).reduce(np.maximum) == numpy.sqrt(A.max())
    same(pb.par_filter(A - 0.5, np.signbit), (A - 0.5)[A < 0.5])
    assert pb.par_iter(A).filter(np.signbit).collect().size == 0
    assert pb.par_map(np.add, [1, 2], 3).tolist() == [4, 5]
    pd = pytest.importorskip("pandas")
    assert isinstance(pb.par_map(np.sqrt, pd.Series(A)), pd.Series)


class Sub(numpy.ndarray):
    pass


@pytest.mark.parametrize("n", [400, N])
def test_a_plain_out_is_returned(n):
    for name, call in {
        "ufunc": lambda np, a, out: np.sqrt(a, out=out),
        "reduce": lambda np, a, out: np.add.reduce(a, out=out[:1].reshape(())),
        "sum": lambda np, a, out: np.sum(a.reshape(-1, 2), axis=1, out=out[: n // 2]),
        "take": lambda np, a, out: np.take(a, numpy.arange(n), out=out),
        "cumsum": lambda np, a, out: np.cumsum(a, out=out),
    }.items():
        for a in (A[:n].view(Sub), numpy.ma.masked_less(A[:n] - 0.5, 0)):
            if name != "ufunc" and isinstance(a, numpy.ma.MaskedArray):
                continue
            with numpy.errstate(all="ignore"):
                mine, theirs = numpy.zeros(n), numpy.zeros(n)
                got, expected = call(np, a, mine), call(numpy, a, theirs)
            assert type(got) is type(expected), name
            numpy.testing.assert_allclose(mine, theirs, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("n", [3, 500])
def test_matrices(n):
    m = numpy.matrix(numpy.random.default_rng(0).random((n, n)))
    for call in [
        lambda np: np.exp(m),
        lambda np: np.divmod(m, 2)[1],
        lambda np: np.add.reduce(m),
        lambda np: np.sum(m, axis=0),
    ]:
        got, expected = call(np), call(numpy)
        assert type(got) is type(expected)
        numpy.testing.assert_allclose(got, expected, rtol=1e-12)


def test_arguments_with_methods_of_their_own():
    class Bag:
        def __array__(self, dtype=None, copy=None):
            return A

        def sum(self, axis=None, dtype=None, out=None):
            return "mine"

    assert np.sum(Bag()) == "mine"
    sparse = pytest.importorskip("scipy.sparse")
    s = sparse.random(300, 300, 0.5, format="csr", random_state=0)
    assert np.sum(s) == numpy.sum(s)
    assert np.max(s) == numpy.max(s)
    pd = pytest.importorskip("pandas")
    for n in (10, N):
        index = pd.Index(A[:n])
        assert type(np.cumsum(index)) is type(numpy.cumsum(index))
        assert type(np.equal(index, 2)) is type(numpy.equal(index, 2))


def test_count_nonzero_of_a_subclass():
    a = A.view(Sub)
    for options in ({}, {"axis": 1}, {"keepdims": True}):
        got, expected = (f.count_nonzero(a.reshape(2, -1), **options) for f in (np, numpy))
        assert type(got) is type(expected)
        numpy.testing.assert_array_equal(got, expected)


def test_copy_and_digitize_of_numbers():
    assert type(np.digitize(3, [1, 2, 30])) is type(numpy.digitize(3, [1, 2, 30]))

    class Library:
        def __array_function__(self, function, types, args, kwargs):
            return function, args, kwargs

    library = Library()
    assert np.copy(library, "F") == numpy.copy(library, "F")


def test_a_ufunc_that_is_enabled_is_the_same():
    with pb.enabled():
        numpy.testing.assert_array_equal(np.exp(A), numpy.exp(A))
