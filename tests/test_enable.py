"""NumPy's own loops and sorts, shared: nothing but the time changes."""

import importlib
import inspect
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from functools import partial

import numpy as np
import pytest
from arrays import values

import pyblitz as pb
from pyblitz import _enable

OLD_SORTS = np.lib.NumpyVersion(np.__version__) < "2.5.0"
if not OLD_SORTS:
    pytestmark = pytest.mark.filterwarnings("ignore:pyblitz.enable. NumPy .* keeps its sorts")


@pytest.fixture
def shared(monkeypatch, running_pool):
    """Every call is shared that can be, from one element on, by three threads."""
    running_pool(3)
    monkeypatch.setenv("PYBLITZ_SHARE_FROM", "1")
    yield
    pb.disable()


@pytest.fixture
def usual(running_pool):
    running_pool(2)
    yield
    pb.disable()


def outcome(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = call()
        except Exception as e:
            result = type(e), str(e)
    return result, sorted(str(w.message) for w in seen)


def bits(result):
    if isinstance(result, tuple):
        return tuple(bits(r) for r in result)
    a = np.asarray(result)
    if a.dtype.char in "gG":  # ten bytes of sixteen
        a = np.ascontiguousarray(a).view(np.uint8).reshape(-1, 16)[:, :10]
    return str(np.asarray(result).dtype), np.shape(result), a.tobytes()


def same(*calls, **options):
    """As without: bits, warnings, exceptions.  To enable takes milliseconds, and so does to
    disable: of many calls, do it once."""
    pb.disable()
    expected = [outcome(call) for call in calls]
    pb.enable(**options)
    got = [outcome(call) for call in calls]
    pb.disable()
    for (result, warned), (theirs, they_warned) in zip(got, expected, strict=True):
        assert warned == they_warned
        if isinstance(theirs, tuple) and isinstance(theirs[0], type):
            assert result == theirs
        else:
            assert bits(result) == bits(theirs)


UFUNCS = {
    name: fn
    for name, fn in sorted(vars(np).items())
    if isinstance(fn, np.ufunc) and fn.__name__ == name and fn.signature is None
}


def operands(fn, types, n, layout):
    made = []
    for i, char in enumerate(types[: fn.nin]):
        dtype = np.dtype(char + "8[s]") if char in "mM" else np.dtype(char)
        a = values(dtype.str if char not in "gG" else char, (2 * n,), i)
        if fn.__name__ in ("left_shift", "right_shift", "power", "ldexp") and dtype.kind in "iu":
            a = a % 7
        a = {"c": a[:n], "s": a[::2], "r": a[:n][::-1], "one": a[:1]}[
            layout if i == 0 or layout != "one" else "c"
        ]
        made.append(a)
    return made


@pytest.mark.parametrize("name", UFUNCS)
def test_every_loop(shared, name):
    fn = UFUNCS[name]
    calls = []
    for loop in fn.types:
        types = loop.replace("->", "")
        if "O" in types:
            continue
        for layout in ("c", "s", "r", "one"):
            calls.append(partial(fn, *operands(fn, types, 999, layout)))
    with np.errstate(all="warn"):
        same(*calls)


def test_loops_are_replaced_and_put_back(shared, native):
    before = {name: native.enable.table(fn) for name, fn in UFUNCS.items()}
    for _ in range(3):
        pb.enable()
        pb.enable()
        replaced = sum(
            a != b
            for name, fn in UFUNCS.items()
            for a, b in zip(native.enable.table(fn), before[name], strict=True)
        )
        assert replaced > 900
        assert _enable.replaced()[0] >= replaced
        pb.disable()
        pb.disable()
        assert {name: native.enable.table(fn) for name, fn in UFUNCS.items()} == before
    assert _enable.replaced() == (0, 0, 0)


def test_other_threads_take_part(shared):
    a = np.arange(100_000.0)
    pb.enable()
    with pb.stats() as s:
        for _ in range(50):
            np.sqrt(a)
            a.max()
    assert s.taken["sqrt"][0] == 50
    assert s.taken["maximum"][0] >= 50  # NumPy 2.0 asks for some thousand elements at a time
    end = time.monotonic() + 30
    with pb.stats() as s:
        while not all(s.taken.get(name, (0, 0))[1] for name in ("sqrt", "maximum")):
            assert time.monotonic() < end
            np.sqrt(a)
            a.max()
    pb.disable()
    calls = s.taken["sqrt"]
    np.sqrt(a)
    assert s.taken["sqrt"] == calls


def test_what_takes_long_is_shared(usual):
    a = np.linspace(0, 1, 2_000_000)
    pb.enable()
    with pb.stats() as s:
        for _ in range(5):
            np.sin(a)
            np.sin(a[:20])
    assert s.taken["sin"][0] == 5
    assert s.taken["sin"][1] > 0


# ---- what must not be shared --------------------------------------------------


def test_num_threads_and_threadpoolctl_limit_it(usual, pool_size):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    from pyblitz import _threadpoolctl

    _threadpoolctl.register()
    a = np.random.default_rng(0).random(2_000_000)

    def shared():
        with pb.stats() as s:
            for _ in range(20):
                np.exp(a)
        return s.taken["exp"][1] > 0

    pb.enable()
    assert shared()
    with threadpoolctl.threadpool_limits(1):
        assert not shared()
    assert shared()
    pool_size(1)
    assert not shared()


def test_items_that_depend_on_each_other(shared):
    a = values("f8", (5000,), 1)
    c = values("D", (5000,), 2)
    k = values("i8", (5000,), 3)
    for call in [
        lambda: np.add.accumulate(k),
        lambda: np.multiply.accumulate(a),
        lambda: np.add.reduceat(k, [0, 7, 900]),
        lambda: np.add(k[:-1], k[1:], out=k.copy()[1:]),
        lambda: np.subtract.outer(k[:50], k[:60]),
    ]:
        same(call)

    def at():
        x = np.zeros(9, np.int64)
        np.add.at(x, k[:100] % 9, k[:100])
        return x

    def in_place():
        x = k.copy()
        x[1:] += x[:-1]
        y = c.copy()
        y.real *= y.imag
        y.imag += y.real
        return x, y

    same(at)
    same(in_place)


@pytest.mark.parametrize(
    ("offsets", "steps"),
    [
        ((0, 4096, 8), (8, 8, 8)),  # out is an input, one further
        ((8, 4096, 0), (8, 8, 8)),
        ((0, 4096, 4), (8, 8, 8)),  # half an item further
        ((0, 4096, 0), (8, 8, 16)),
        ((0, 0, 0), (8, 8, 8)),
        ((0, 8, 8), (16, 16, 16)),  # the parts of complex numbers
        ((2048, 4096, 1024), (-8, 8, 8)),
        ((0, 4096, 8192), (0, 8, 0)),  # all to one place
        ((0, 4096, 8192), (8, 8, 4)),  # each over half of the one before
    ],
)
def test_a_loop_called_with_operands_that_overlap(shared, native, offsets, steps):
    """As a library may that calls a loop from the table itself."""
    i = np.add.types.index("dd->d")

    def call():
        memory = np.arange(4096.0)
        native.enable.call_loop(np.add, i, [memory] * 3, list(offsets), list(steps), 120)
        return memory

    same(call)


def test_other_libraries_loops_are_kept(shared, native):
    a = np.arange(10.0)
    native.enable.put_counting(np.add)
    try:
        pb.enable()
        assert np.array_equal(a + a, 2 * a)
        assert native.enable.counted() > 0
        pb.disable()
        before = native.enable.counted()
        assert np.array_equal(a + a, 2 * a)
        assert native.enable.counted() == before + 1
    finally:
        assert native.enable.take_counting_back(np.add)
    # One that comes after us, and calls what it found, which is ours.
    pb.enable()
    native.enable.put_counting(np.add)
    try:
        pb.disable()
        assert np.array_equal(a + a, 2 * a)
        assert native.enable.counted() == 1
        pb.enable()
        assert np.array_equal(a + a, 2 * a)
        pb.disable()
    finally:
        assert native.enable.take_counting_back(np.add)
    assert np.array_equal(a + a, 2 * a)


# ---- reductions ---------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "g", "D", "m8[s]"]
)
def test_reductions(shared, dtype):
    calls = []
    for n in (1, 2, 7, 1000, 100_001):
        a = values(dtype, (n,), n)
        for name in ("add", "multiply", "maximum", "minimum", "fmax", "fmin", "bitwise_and",
                     "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor", "gcd",
                     "subtract"):  # fmt: skip
            fn = getattr(np, name)
            for x in (a, a[::-1], np.repeat(a, 2)[::2]):
                calls.append(partial(fn.reduce, x))
            calls.append(partial(fn.reduce, a, initial=a[0]))
    same(*calls)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_extremes_that_differ_in_their_bits(shared, dtype):
    rng = np.random.default_rng(0)
    for _ in range(30):
        a = rng.choice(np.array([0.0, -0.0, 1.0]), 40_000).astype(dtype)
        for x in (a, -a, abs(a), -abs(a)):
            same(x.min, x.max)
        a[rng.integers(0, a.size, 3)] = rng.choice([np.nan, -np.nan], 3)
        same(*(partial(fn.reduce, a) for fn in (np.maximum, np.minimum, np.fmax, np.fmin)))


def test_any_and_all_end_early(usual):
    a = np.zeros(50_000_000, bool)
    a[10] = True
    pb.enable()
    began = time.process_time()
    for _ in range(100):
        assert a.any()
        assert not a.all()
    assert time.process_time() - began < 1.0  # reading all of it takes longer


def test_sums_only_when_asked_for(running_pool):
    a = values("f8", (3_000_001,), 1)
    a = np.where(np.isfinite(a), a, 0.1)
    expected = np.add.reduce(a)
    sums = set()
    for threads in (2, 3, 8):
        running_pool(threads)
        with pb.enabled():
            assert np.add.reduce(a) == expected
        with pb.enabled(sums=True), pb.stats() as s:
            sums.add(np.add.reduce(a))
        assert s.taken["add"][0] > 0
    assert len(sums) == 1
    assert np.isclose(sums.pop(), expected, rtol=1e-13)
    assert np.add.reduce(a) == expected


# ---- exceptions, flags --------------------------------------------------------


def test_exceptions_of_loops(shared):
    k = np.arange(-5, 5000)
    same(lambda: np.power(k, k))
    same(lambda: np.power(k[5:], -k[5:]))
    with np.errstate(all="raise"):
        same(lambda: np.divide(1.0, np.arange(5000.0)))
        same(lambda: np.sqrt(-np.arange(5000.0)))
        same(lambda: np.exp(np.arange(5000.0)))
        same(lambda: np.floor_divide(7, np.arange(5000)))
    singular = np.ones((500, 3, 3))
    same(lambda: np.linalg.inv(singular))
    regular = np.random.default_rng(0).random((500, 3, 3))
    for fn in (np.linalg.inv, np.linalg.det, np.linalg.eigvals, np.linalg.svd, np.linalg.qr):
        same(
            lambda fn=fn: tuple(fn(regular)) if fn in (np.linalg.svd, np.linalg.qr) else fn(regular)
        )
    same(lambda: np.linalg.solve(regular, regular[:, :, :1]))


def test_only_their_own_flags_are_told(shared):
    """The thread has others when it comes, and when it goes."""
    a = np.full(5000, 2.0)
    pb.enable()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(50):
            np.sqrt(a)
            with np.errstate(all="ignore"):
                np.sqrt(-a)


# ---- where it is called -------------------------------------------------------


def test_threads_blocks_and_tasks(shared):
    a = values("f4", (70_000,), 5)
    k = np.random.default_rng(1).integers(0, 9, 70_000)
    expected = np.sqrt(abs(a)).tobytes(), np.sort(k).tobytes(), k.max()

    def work(*_):
        for _ in range(20):
            assert (np.sqrt(abs(a)).tobytes(), np.sort(k).tobytes(), k.max()) == expected
        return True

    pb.enable()
    with np.errstate(invalid="ignore"):
        results = []
        threads = [threading.Thread(target=lambda: results.append(work())) for _ in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert results == [True] * 6
        with pb.scope() as s:
            futures = [s.spawn(work) for _ in range(6)]
        assert all(f.result() for f in futures)
        got = pb.par_map(lambda v: np.sqrt(np.abs(v)), a)
        assert got.tobytes() == expected[0]


def test_nothing_stops_a_call_in_the_middle(shared):
    """A CancelScope that is cancelled, or a signal, would leave a part of it unwritten."""
    a = np.arange(1_000_000.0)
    pb.enable()
    with pb.CancelScope() as c:
        c.cancel()
        assert np.array_equal(np.sqrt(a) ** 2 - a, np.sqrt(a) ** 2 - a)
        assert np.sqrt(a)[-1] == np.sqrt(999_999.0)
    with pb.CancelScope(timeout=1e-9):
        assert np.sqrt(a)[-1] == np.sqrt(999_999.0)
    strikes = []
    before = signal.signal(signal.SIGALRM, lambda *_: strikes.append(1))
    signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)
    try:
        while len(strikes) < 50:
            assert np.sqrt(a)[-1] == np.sqrt(999_999.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_fork_and_exit(script):
    out = script("""
import os, numpy as np, pyblitz as pb
pb.set_num_threads(3)
pb.enable()
a = np.arange(1_000_000.0)
np.sqrt(a)
pid = os.fork()
if pid == 0:
    assert np.sqrt(a)[-1] == np.sqrt(999_999.0)
    np.sort(a[::-1])
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
import atexit, threading
atexit.register(lambda: print(np.sqrt(a)[4]))
threading.Thread(target=lambda: [np.sqrt(a) for _ in range(100)], daemon=True).start()
""", env={"PYBLITZ_SHARE_FROM": "1"})  # fmt: skip
    assert out.split() == ["7", "2.0"]


# ---- sorts --------------------------------------------------------------------


@pytest.mark.skipif(not OLD_SORTS, reason="NumPy 2.5 keeps its sorts elsewhere")
@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "M8[s]"]
)
def test_sorts(shared, dtype):
    for n in (16_384, 100_003):
        a = values(dtype, (n,), n)
        kinds = ["stable", "heapsort"]
        for kind in kinds:
            same(lambda a=a, kind=kind: np.sort(a, kind=kind))
            same(lambda a=a, kind=kind: np.argsort(a, kind=kind))
        same(lambda a=a: np.argsort(a))
        same(lambda a=a: np.unique(a))
        same(lambda a=a: np.unique(a, return_index=True, return_inverse=True))
        if a.dtype.kind == "f":
            a = a[a != 0]  # which of two zeros is first depends on the processor
        same(lambda a=a: np.sort(a))
        same(lambda a=a: np.sort(a[: a.size // 2 * 2].reshape(2, -1), axis=1))


@pytest.mark.skipif(not OLD_SORTS, reason="NumPy 2.5 keeps its sorts elsewhere")
def test_orders_without_ties_are_shared_and_others_numpys(shared):
    rng = np.random.default_rng(0)
    unique, ties = rng.permutation(100_000), rng.integers(0, 50_000, 100_000)
    pb.enable()
    with pb.stats() as s:
        np.argsort(unique)
    assert s.taken["sort"] == (1, 1)
    with pb.stats() as s:
        np.argsort(ties)
    assert s.taken["sort"] == (1, 0)
    with pb.stats() as s:
        np.argsort(ties, kind="stable")
    assert s.taken["sort"] == (1, 1)


@pytest.fixture
def by_name(monkeypatch, usual):
    """As with a NumPy that keeps its sorts where they cannot be reached."""
    if OLD_SORTS:
        monkeypatch.setattr(_enable, "sorts_arrive", lambda: False)


BY_NAME = ["sort", "argsort", "lexsort", "unique"]


def test_sorts_by_name(by_name):
    before = [getattr(np, name) for name in BY_NAME]
    with pytest.warns(RuntimeWarning, match="keeps its sorts.*are shared by these names"):
        pb.enable()
    assert _enable.replaced()[2] == len(BY_NAME)
    for name, theirs in zip(BY_NAME, before, strict=True):
        ours = getattr(np, name)
        assert ours is not theirs
        assert (ours.__name__, ours.__doc__, ours.__module__) == (name, theirs.__doc__, "numpy")
        # Libraries with __array_function__ look in a dictionary.
        assert {ours: 1}[theirs] == {theirs: 1}[ours] == 1
        assert pickle.loads(pickle.dumps(ours)) is ours
        assert inspect.unwrap(ours) is inspect.unwrap(theirs)
    pb.enable(sorts=False)
    assert [getattr(np, name) for name in BY_NAME] == before
    assert [vars(np)[name] for name in BY_NAME] == before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pb.enabled():
            assert np.sort is not before[0]
            with pb.enabled(sorts=False):
                assert np.sort is before[0]
            assert np.sort is not before[0]
        assert np.sort is before[0]


@pytest.mark.filterwarnings("ignore:pyblitz.enable")
def test_what_another_has_put_there_stays(by_name):
    before, mine = np.sort, lambda *args: "mine"
    try:
        pb.enable()
        np.sort = mine
        assert _enable.replaced()[2] == len(BY_NAME) - 1
        pb.enable()
        assert np.sort is mine
        pb.disable()
        assert np.sort is mine
    finally:
        np.sort = before


def test_a_warning_that_is_an_error_changes_nothing(by_name):
    before = np.sort
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="keeps its sorts"), pb.enabled():
            pass
    assert _enable.replaced() == (0, 0, 0)
    assert np.sort is before


@pytest.mark.filterwarnings("ignore:pyblitz.enable")
def test_the_namespace_is_pickled_by_name(by_name):
    numpys = importlib.import_module("pyblitz.numpy")
    pb.enable()
    for name in BY_NAME:
        assert pickle.loads(pickle.dumps(getattr(numpys, name))) == getattr(numpys, name)


@pytest.mark.filterwarnings("ignore:pyblitz.enable")
def test_other_libraries_are_handed_what_was_given(by_name):
    class Library:
        def __array_function__(self, function, types, args, kwargs):
            return function, args, kwargs

    library = Library()
    calls = [lambda: np.argsort(library), lambda: np.argsort(library, 0), lambda: np.sort(library)]
    expected = [call() for call in calls]
    pb.enable()
    assert [call() for call in calls] == expected


@pytest.mark.filterwarnings("ignore:pyblitz.enable")
@pytest.mark.parametrize("n", [3, 200_000])
def test_sorts_by_name_are_numpys(by_name, n):
    ties = np.random.default_rng(0).integers(0, n // 2 + 1, n)
    calls = {
        "sort": lambda: np.sort(ties),
        "sort, by keyword": lambda: np.sort(a=ties, kind="stable"),
        "sort of rows": lambda: np.sort(np.stack([ties, ties[::-1]]), axis=0),
        "sort of a list": lambda: np.sort([3, 1, 2]),
        "argsort": lambda: np.argsort(ties),
        "argsort, stable": lambda: np.argsort(ties, stable=True),
        "argsort, mergesort": lambda: np.argsort(ties, kind="mergesort"),
        "lexsort": lambda: np.lexsort((ties, ties % 7)),
        "unique": lambda: np.unique(ties, return_inverse=True),
        "sort of floats": lambda: np.sort(np.where(ties % 5 == 0, np.nan, ties / 7 + 1)),
        "wrong kind": lambda: np.sort(ties, kind="nonsense"),
        "no argument": lambda: np.argsort(),
    }
    expected = {name: outcome(call) for name, call in calls.items()}
    pb.enable()
    for name, call in calls.items():
        with pb.stats() as s:
            got = outcome(call)
        if isinstance(got[0], tuple) and isinstance(got[0][0], type):
            assert got[0][0] is expected[name][0][0]
            continue
        assert bits(got[0]) == bits(expected[name][0])
        entered = any(w.name.startswith("caller") and w.busy > 0 for w in s.workers)
        assert entered == (n > 3 and name not in ("argsort", "sort of a list")), name


# ---- the switch ---------------------------------------------------------------


def test_enabled_is_what_was_before_afterwards(usual):
    assert _enable.replaced() == (0, 0, 0)
    with pb.enabled(sorts=False):
        loops = _enable.replaced()
        assert loops[0] > 900
        assert loops[2] == 0
        with pb.enabled(ufuncs=False):
            assert _enable.replaced()[0] == 0
            assert _enable.replaced()[2] == (64 if OLD_SORTS else 4)
        assert _enable.replaced() == loops
    assert _enable.replaced() == (0, 0, 0)

    @pb.enabled(sorts=False)
    def inside():
        return _enable.replaced()

    assert inside() == loops
    assert _enable.replaced() == (0, 0, 0)


def test_programs(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, numpy as np, pyblitz as pb, helper\n"
        "from pyblitz import _enable\n"
        "print(__name__, sys.argv[1:], _enable.replaced()[0] > 900, helper.x)\n"
    )
    (tmp_path / "helper.py").write_text("x = 3\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(tmp_path)])}

    def run(*arguments, **more):
        return subprocess.run(
            [sys.executable, *arguments],
            env={**env, **more},
            capture_output=True,
            text=True,
            check=False,
        )

    for arguments in (["-m", "pyblitz", str(program)], ["-m", "pyblitz", "-m", "program"]):
        done = run(*arguments, "a", "-b")
        assert done.stdout == "__main__ ['a', '-b'] True 3\n", done.stderr
    done = run(str(program), PYBLITZ_ENABLE="1")
    assert done.stdout == "__main__ [] True 3\n", done.stderr
    done = run(str(program), PYBLITZ_ENABLE="0")
    assert done.stdout == "__main__ [] False 3\n", done.stderr
    assert (
        "PYBLITZ_ENABLE must be 0 or 1, not 'yes'" in run(str(program), PYBLITZ_ENABLE="yes").stderr
    )
    assert run("-m", "pyblitz", "-m").returncode == 2


def test_scipys_special_functions(shared):
    special = pytest.importorskip("scipy.special")
    x = np.linspace(-3, 8, 5001)
    for fn in (special.gamma, special.erf, special.expit, special.j1, special.xlogy):
        same(lambda fn=fn: fn(*[x] * fn.nin))
    with special.errstate(all="raise"):
        same(lambda: special.gammaln(-np.arange(5000.0)))
        same(lambda: special.gamma(-np.arange(5000.0)))
    pb.enable()
    with pb.stats() as s:
        special.gamma(x)
    assert s.taken["gamma"][0] == 1
