"""What fails: which exception the caller sees, what stops, what is written, what stays behind."""

import gc
import re
import sys
import threading
import traceback
import weakref

import numpy as np
import pytest
from programs import FREE_THREADED, HELD

import pyblitz as pb

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, sets RLIMIT_AS")
notes = pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")

# Each row is a block of a call of a Python function.
ROWS = np.zeros((1000, 64), "S8192")


class Failure(Exception):
    pass


class Base(BaseException):
    pass


class Unnotable(Failure):
    def add_note(self, note):
        raise RuntimeError("hides the failure")


def numbered(rows):
    """An array whose rows are blocks, and begin with their number, in 64 MiB at most."""
    a = np.empty((rows, 524288 // 8))
    a[:, 0] = range(rows)
    return a


def failing(error, at, calls=None):
    """A function on blocks that raises error(i) in those blocks i that `at` accepts."""

    def block(x):
        i = int(x[0, 0])
        if calls is not None:
            calls.append(i)
        if at(i):
            raise error(i)
        return x[:, :1].repeat(x.shape[1], 1)

    return block


@pytest.fixture(params=[1, 2, 4])
def threads(request, pool_size):
    pool_size(request.param)
    return request.param


# ---- which exception --------------------------------------------------------


@pytest.mark.parametrize(
    "error", [Failure, KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration, Base]
)
@pytest.mark.parametrize("first", [0, 1, 37, 63])
def test_callable(threads, error, first):
    """The lowest block's own exception, with the frame that raised it and one note."""
    a = numbered(64)
    for out in (None, np.empty_like(a)):
        with pytest.raises(error) as e:
            pb.par_map(failing(error, lambda i: i >= first), a, out=out)
        assert type(e.value) is error
        assert e.value.args == (first,)
        frames = [f.name for f in traceback.extract_tb(e.value.__traceback__)]
        assert frames[-1] == "block"
        assert frames[0] == "test_callable"
        if sys.version_info >= (3, 11):
            assert e.value.__notes__ == [f"pyblitz: in block [{first}:{first + 1}]"]


@notes
def test_one_note_though_all_blocks_raise_one_object(threads):
    for error in [Failure() for _ in range(5)]:
        with pytest.raises(Failure) as e:
            pb.par_map(failing(lambda i, e=error: e, lambda i: i >= 3), numbered(64))
        assert e.value.__notes__ == ["pyblitz: in block [3:4]"]


@pytest.mark.parametrize("first", [0, 5])
def test_an_exception_that_takes_no_notes(threads, first):
    def error(i):
        e = Failure(i)
        e.__notes__ = None
        return e

    for kind in (Unnotable, error):
        with pytest.raises(Failure) as e:
            pb.par_map(failing(kind, lambda i: i == first), numbered(16))
        assert e.value.args == (first,)


@notes
def test_nested_calls_note_each_level(threads):
    inner = numbered(4)

    def outer(x):
        pb.par_map(failing(Failure, lambda i: i == 2), inner)

    with pytest.raises(Failure) as e:
        pb.par_map(outer, numbered(2))
    assert e.value.__notes__ == ["pyblitz: in block [2:3]", "pyblitz: in block [0:1]"]


def test_frompyfunc(threads):
    """Objects are NumPy's alone: its exception, unchanged."""

    def element(x, y=0):
        if x == 150_000:
            raise Failure(x)
        return x + y

    def fails(call, *args):
        with pytest.raises(Failure) as e:
            call(*args)
        assert e.traceback[-1].name == "element"

    a = np.arange(200_000)
    fails(pb.par_map, np.frompyfunc(element, 1, 1), a)
    fails(pb.par_map, np.frompyfunc(element, 2, 1), a, 1.5)
    add = np.frompyfunc(lambda x, y: element(y), 2, 1, identity=0)
    fails(pb.par_reduce, add, a)


def test_ufuncs_that_raise_in_their_loops(threads):
    """Called on slices: NumPy's integer power, and a ufunc of Numba's."""
    base = np.arange(1, 1_000_001)
    exponent = np.where(base < 300_000, 1, -1)
    with pytest.raises(ValueError, match="Integers to negative integer powers") as e:
        pb.par_map(np.power, base, exponent)
    if sys.version_info >= (3, 11):
        # One thread leaves all of it to NumPy.
        notes = ["pyblitz: in power[262144:327680]"] if threads > 1 else []
        assert getattr(e.value, "__notes__", []) == notes
    numba = pytest.importorskip("numba")

    @numba.vectorize(["f8(f8)"])
    def picky(x):
        if x > 500_000:
            raise LookupError("too much")
        return x

    with pytest.raises(LookupError, match="too much") as e:
        pb.par_map(picky, base.astype("f8"))
    if sys.version_info >= (3, 11):
        # Slices of others' ufuncs are cut by time.
        (note,) = e.value.__notes__
        lo, hi = map(int, re.fullmatch(r"pyblitz: in picky\[(\d+):(\d+)\]", note).groups())
        assert lo <= 500_000 < hi


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: pb.par_map(np.log, np.zeros(10**6)), "divide by zero encountered in log"),
        (lambda: pb.par_map(np.log, np.zeros(10**6, ">f8")), "divide by zero encountered in log"),
        (lambda: pb.par_map(lambda x: np.log(x), np.zeros(10**6)), "divide by zero .* in log"),
        (lambda: pb.par_reduce(np.add, np.full(10**6, 1e308)), "overflow encountered in reduce"),
        (
            lambda: pb.par_reduce(np.add, np.full((10, 10**5), 1e308), axis=1),
            "overflow encountered in reduce",
        ),
    ],
    ids=["loop", "sliced", "callable", "reduce", "sliced reduce"],
)
def test_errstate(threads, call, name):
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match=name):
        call()

    def handler(text, flag):
        raise Failure(text)

    with np.errstate(all="call", call=handler), pytest.raises(Failure) as e:
        call()
    assert e.traceback[-1].name == "handler"


@pytest.mark.parametrize("error", [Failure, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_native_kernels(native, threads, error):
    """The left side's exception wins, whoever ran the right one."""

    def left():
        raise error("left")

    def right():
        raise error("right")

    for sides in ((left, right), (left, int), (int, right)):
        with pytest.raises(error) as e:
            native.capi.call_join(*sides)
        winner = next(f for f in sides if f is not int)
        assert e.value.args == (winner.__name__,)
        assert e.traceback[-1].name == winner.__name__
        assert not hasattr(e.value, "__notes__")
    with pytest.raises(ValueError, match=r"^7$"):
        raise native.capi.mark_all(1000, 3, bytes(7) + b"\1" * 993, True)[0]


@pytest.mark.parametrize("affinity", [None, "key"])
@pytest.mark.parametrize("error", [Failure, KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("size", [1, 3])
def test_jobs(size, error, affinity):
    """A job's exception stays in its future, whatever it is, and the pool goes on."""

    def job():
        raise error("x")

    with pb.ThreadPool(size) as pool:
        futures = [pool.submit(job, affinity=affinity) for _ in range(20)]
        for f in futures:
            e = f.exception(60)
            assert type(e) is error
            assert [t.name for t in traceback.extract_tb(e.__traceback__)][-1] == "job"
        with pytest.raises(error):
            pool.install(job)
        assert pool.submit(pow, 2, 3, affinity=affinity).result(60) == 8


@pytest.mark.parametrize(
    ("crash", "report"),
    [
        ("ctypes.string_at(8)", "Segmentation fault"),
        ("signal.raise_signal(signal.SIGABRT)", "Aborted"),
        ("os.abort()", "Aborted"),
    ],
)
def test_a_crash_in_a_pool_thread(script, crash, report):
    """It ends the process, and faulthandler says where it was.  (Blocked signals once hid
    the first, and let the second go on.)"""
    done = script(
        f"""
import ctypes, os, signal
import pyblitz as pb
def job():
    {crash}
with pb.ThreadPool(2) as pool:
    pool.submit(job).result()
""",
        check=False,
    )
    assert done.returncode < 0
    assert f"Fatal Python error: {report}" in done.stderr
    assert " in job" in done.stderr


# ---- what stops -------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 3, 500])
def test_siblings_stop(threads, first):
    """All blocks below the failing one, and beyond it few."""
    ran = []

    def block(x):
        i = (x.ctypes.data - ROWS.ctypes.data) // ROWS[0].nbytes
        ran.append(i)
        if i >= first:
            raise Failure(i)
        return np.zeros(x.shape, "i1")

    with pytest.raises(Failure) as e:
        pb.par_map(block, ROWS, out=np.empty(ROWS.shape, "i1"))
    assert e.value.args == (first,)
    assert set(range(first)) <= set(ran)
    assert len(ran) == len(set(ran))
    # Each thread fails at most once in what it is at, and once in each of the
    # halves that it had given away (log2 of 1000 of them).
    assert sum(i >= first for i in ran) <= 10 * threads


def test_nobody_runs_after_the_exception_arrived(threads):
    ended = threading.Event()

    def block(x):
        assert not ended.is_set()
        raise Failure

    for _ in range(50):
        ended.clear()
        with pytest.raises(Failure):
            pb.par_map(block, ROWS[:64], out=np.empty((64, 64)))
        ended.set()


# ---- what is written --------------------------------------------------------

A = np.arange(200_000.0)
BAD_CALLS = {
    "map: shapes": lambda a, out: pb.par_map(np.add, a, a[:-1], out=out),
    "map: casting": lambda a, out: pb.par_map(np.add, a, a, out=out, casting="no", dtype="f4"),
    "map: where": lambda a, out: pb.par_map(np.add, a, a, out=out, where=np.ones(3, bool)),
    "map: types": lambda a, out: pb.par_map(np.left_shift, a, a, out=out),
    "map: outs": lambda a, out: pb.par_map(np.modf, a, out=(out, out, out)),
    "callable: shapes": lambda a, out: pb.par_map(lambda x: x, a, a[:-1], out=out),
    "callable: out": lambda a, out: pb.par_map(lambda x: x, a[1:], out=out),
    "callable: where": lambda a, out: pb.par_map(lambda x: x, a, out=out, where=a > 3),
    "callable: result": lambda a, out: pb.par_map(lambda x: x[1:], a, out=out),
    "callable: casting": lambda a, out: pb.par_map(lambda x: x * 1j, a, out=out),
    "reduce: axis": lambda a, out: pb.par_reduce(np.add, a, axis=1, out=out),
    "reduce: out": lambda a, out: pb.par_reduce(np.add, a, out=out),
    "reduce: types": lambda a, out: pb.par_reduce(np.left_shift, a, out=out[0]),
    "reduce: where": lambda a, out: pb.par_reduce(np.maximum, a, out=out[:1][0], where=a > 0),
    "sort: axis": lambda a, out: pb.par_sort(a, axis=1, out=out),
    "sort: kind": lambda a, out: pb.par_sort(a, kind="rubbish", out=out),
    "sort: both": lambda a, out: pb.par_sort(a, kind="stable", stable=True, out=out),
    "sort: order": lambda a, out: pb.par_sort(a, order="x", out=out),
    "sort: out": lambda a, out: pb.par_sort(a[:-1], out=out),
    "sort: dtype": lambda a, out: pb.par_sort(a.astype("f4"), out=out),
}


@pytest.mark.parametrize("call", BAD_CALLS.values(), ids=BAD_CALLS)
def test_bad_input_writes_nothing(threads, call):
    a = A[::-1].copy()
    out = np.full(A.shape, -7.0)
    with pytest.raises((TypeError, ValueError)):
        call(a, out)
    np.testing.assert_array_equal(a, A[::-1])
    np.testing.assert_array_equal(out, -7.0)
    # In place: what was to be overwritten is as before.
    with pytest.raises((TypeError, ValueError)):
        call(a, a)
    np.testing.assert_array_equal(a, A[::-1])


def test_out_holds_what_was_done_before(threads):
    """Every block below the failing one, and of the others all or nothing."""
    a = numbered(64)
    out = np.full(a.shape, -7.0)
    with pytest.raises(Failure):
        pb.par_map(failing(Failure, lambda i: i in (20, 40)), a, out=out)
    assert (out[:20] == np.arange(20)[:, None]).all()
    assert (out[20] == -7).all()
    assert (out[40] == -7).all()
    for i in range(21, 64):
        assert (out[i] == -7).all() or (out[i] == i).all()


@pytest.mark.parametrize("dtype", ["i8", "i1", "c8"], ids=["radix", "counting", "merge"])
def test_a_sort_in_place_that_is_stopped_loses_nothing(threads, dtype):
    """The caller's only copy, wherever it is when the time is up."""
    a = np.random.default_rng(0).integers(0, 100, 500_000).astype(dtype)
    count = np.bincount(a.real.astype(int))
    stopped, timeout, done = 0, 2e-5, False
    while not done:
        b = a.copy()
        try:
            with pb.CancelScope(timeout):
                pb.par_sort(b, out=b)
            done = True
        except TimeoutError:
            stopped += 1
            timeout *= 1.2
        assert (np.bincount(b.real.astype(int)) == count).all()
    assert (b[1:] >= b[:-1]).all()
    assert stopped


# ---- out of memory ----------------------------------------------------------

LIMITED = """
import ctypes, resource
def limited(room, f, *args, **kwargs):
    '''f, with so many more bytes of address space; None if they are not enough.'''
    # What others have freed is no room for it.
    getattr(ctypes.CDLL(None), "malloc_trim", int)(0)
    with open("/proc/self/statm") as s:
        used = int(s.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))
    try:
        return f(*args, **kwargs)
    except MemoryError:
        return None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
"""


@linux
def test_out_of_memory_in_the_middle(script):
    """The right result or MemoryError; `out` holds what its docstring says; the pool lives."""
    out = script(f"""
{LIMITED}
import numpy as np, pyblitz as pb, native_capi as capi
pb.set_num_threads(3)
capi.call_roll()
r = np.random.default_rng(0)
A = r.random(400_000)
T = A.reshape(400, 1000)
BIG = A.astype(">f8")
INTS = r.integers(0, 50, A.size)
HEAVY = np.where(r.random(A.size) < 0.5, 0.25, A)
TEXT = INTS.astype("S12")
COMPLEX = np.round(A, 2) + 1j * A
HALF = INTS.astype("u2").repeat(2)
def halves(x):
    return np.concatenate([x, x])[:len(x)] / 2
calls = {{
    "map": (lambda: pb.par_map(np.sqrt, A), np.sqrt(A)),
    "sliced map": (lambda: pb.par_map(np.sqrt, BIG), np.sqrt(A)),
    "callable": (lambda: pb.par_map(halves, A), A / 2),
    "reduce": (lambda: pb.par_reduce(np.maximum, A), A.max()),
    "sliced reduce": (lambda: pb.par_reduce(np.maximum, T, axis=1), T.max(1)),
    "sort columns": (lambda: pb.par_sort(T, axis=0), np.sort(T, axis=0)),
}}
for name, a in dict(radix=A, heavy=HEAVY, text=TEXT, complex=COMPLEX, counting=HALF).items():
    calls["sort " + name] = (lambda a=a: pb.par_sort(a), np.sort(a))
calls["sort stably"] = (lambda: pb.par_sort(A, kind="stable"), np.sort(A))
FEW = INTS * 10**16
for name, a in dict(numbers=A, few=FEW, text=TEXT, heavy=HEAVY).items():
    calls["order " + name] = (lambda a=a: pb.par_argsort(a), np.argsort(a, kind="stable"))
calls["unique"] = (lambda: pb.par_unique(FEW), np.unique(FEW))
done = short = 0
for name, (call, expected) in calls.items():
    for room in (0, 2**16, 2**20, 2**21, 2**22, 7 * 2**20, 2**24, 2**27):
        got = limited(room, call)
        if got is None:
            short += 1
        else:
            done += 1
            assert np.array_equal(got, expected), (name, room)
assert short >= len(calls) and done >= len(calls), (short, done)

# A given out: blocks that were done, or what was there; the caller's own elements.
for room in (0, 2**16, 2**20, 2**21, 2**22):
    out = np.full(A.size, -7.0)
    if limited(room, pb.par_map, halves, A, out=out) is None:
        assert ((out == -7) | (out == A / 2)).all()
    for name, (a, kind) in dict(
        radix=(A, None), heavy=(HEAVY, None), merge=(A, "stable"), text=(TEXT, None),
        complex=(COMPLEX, None), counting=(HALF, None), columns=(T, None),
    ).items():
        b = a.copy()
        if limited(room, pb.par_sort, b, axis=0, kind=kind, out=b) is None:
            assert np.array_equal(np.sort(b, axis=None), np.sort(a, axis=None)), name
        else:
            assert np.array_equal(b, np.sort(a, axis=0)), name

# Jobs and their futures.
with pb.ThreadPool(3) as pool:
    def job(n):
        # Of malloc, in every build: a free-threaded Python has a GiB of address space from the
        # start, and takes what its own objects need from there, whatever the limit.
        return np.empty(n, "i1").size
    def ask():
        return [pool.submit(job, 2**26) for _ in range(5)]
    for room in (2**20, 2**30):
        def some():
            return [f.exception() for f in ask()]
        got = limited(room, some)
        kind = MemoryError if room < 2**26 else type(None)
        assert len(got) == 5 and all(isinstance(e, kind) for e in got), got
assert capi.fib(18) == 2584 and sum(capi.call_roll()) == 3
print("alive")
""")
    assert out == "alive\n"


# ---- what stays behind ------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda a: pb.par_map(np.sqrt, a),
        lambda a: pb.par_map(np.sqrt, a.astype(">f8")),
        lambda a: pb.par_map(np.sqrt, a.view(a.dtype.newbyteorder())),
        lambda a: pb.par_map(np.add, a, a, where=a > 0, out=np.zeros_like(a)),
        lambda a: pb.par_map(lambda x: x + 1, a),
        lambda a: pb.par_reduce(np.add, a),
        lambda a: pb.par_reduce(np.add, a.reshape(100, -1), axis=1),
        lambda a: pb.par_reduce(np.add, a, where=a > 0),
        lambda a: pb.par_sort(a),
    ],
)
def test_arrays_are_released(call):
    """At once, without the garbage collector.  (Sliced calls once kept theirs for ever.)"""
    gc.collect()
    gc.disable()
    try:
        a = np.ones(300_000)
        gone = weakref.ref(a)
        with np.errstate(all="ignore"):
            call(a)
        del a
        assert gone() is None
    finally:
        gc.enable()


LEAKS = {
    "callable": "pb.par_map(fail, A, out=out)",
    "callable, first block": "pb.par_map(fail, A)",
    "cycle": "pb.par_map(cycle, A, out=out)",
    "one object": "pb.par_map(same, A, out=out)",
    "ufunc": "pb.par_map(np.power, INTS, MINUS)",
    "sliced, errstate": "pb.par_map(np.log, ZEROS)",
    "reduce, errstate": "pb.par_reduce(np.add, HUGE, axis=1)",
    "reduce": "pb.par_reduce(np.add, TEXT)",
    "sort": "pb.par_sort(A, axis=3)",
    "sort, out": "pb.par_sort(A, out=out)",
    "install": "pool.install(fail, A)",
    "submit": "pool.submit(fail, A).result()",
    "submit, key": "pool.submit(fail, A, affinity=1).result()",
    "submit, one thread": "alone.submit(fail, A).result()",
    "submit, closed": "closed.submit(fail, A)",
    "native run": "capi.call(fail)",
    "native join": "capi.call_join(fail, fail)",
    "native for": "raised(capi.mark_all(64, 1, b'\\1' * 64, True))",
    "native scope": "raised(capi.scope_failing(20, 7, True))",
    "native broadcast": "capi.call_roll(1, 0)",
}


@linux
@pytest.mark.parametrize("call", LEAKS.values(), ids=LEAKS)
def test_nothing_leaks(script, call):
    """Over 3,000 failures: no object more than before, and no memory."""
    print(
        script(f"""
{HELD}
import numpy as np, pyblitz as pb, native_capi as capi
pb.set_num_threads(3)
A = np.zeros((4, 524288 // 8))
out = np.empty((4, 1))[:, [0] * A.shape[1]].astype("i1")
INTS = np.arange(1, 140_001)
MINUS = np.full(INTS.size, -1)
ZEROS = np.zeros(70_000, ">f8")
HUGE = np.full((20, 2000), 1e308)
TEXT = np.zeros(20_000, "U3")
pool, alone, closed = pb.ThreadPool(3), pb.ThreadPool(1), pb.ThreadPool(2)
closed.close()
class Failure(Exception):
    pass
def fail(x=None):
    raise Failure(x)
def cycle(x):
    e = Failure(x)
    e.me = [e]
    raise e
def same(x, e=Failure()):
    raise e.with_traceback(None)
def raised(result):
    raise result[0]
def run(n):
    with np.errstate(all="raise"):
        for _ in range(n):
            try:
                {call}
            except (Failure, ValueError, TypeError, RuntimeError, FloatingPointError) as e:
                if hasattr(e, "__notes__"):
                    del e.__notes__
                continue
            raise AssertionError("did not fail")
run(500)
before = held(Failure, A, out, INTS)
run(3000)
print(assert_nothing_leaked(before, held(Failure, A, out, INTS), 3000))
""")
    )


def test_no_memory_while_numpy_refuses(script):
    """Where NumPy refuses, its exception is taken and thrown away; a failing allocation may have
    left it without a traceback."""
    pytest.importorskip("_testcapi", reason="this Python has no test modules")
    out = script(f"""
import _testcapi
import numpy as np
import pyblitz as pb
n = 300_000
x, i, t = np.zeros(n), np.zeros(n, "i4"), np.zeros(n, "M8[s]")
calls = [
    lambda: pb.par_where(x > 0, x, t),
    lambda: pb.par_where(x > 0, i, 2**70),
    lambda: pb.par_searchsorted(x, t),
    lambda: pb.par_map(np.add, x, x, signature=("x1", None, None)),
    lambda: pb.par_map(np.add, t, t),
    lambda: pb.par_sort([[1, 2], [3]]),
]
fail, stop = _testcapi.set_nomemory, _testcapi.remove_mem_hooks
def outcome(call, k):
    if {FREE_THREADED}:
        # If there is no memory for a new list's items, PyList_New of a free-threaded CPython gives
        # the unfinished list to list_dealloc, which frees the items that the list had in its
        # previous life (https://github.com/python/cpython/issues/152125): `[x, y]` is enough.
        # These had none, and their places are the next that are taken.
        tuple([] for _ in range(200))
    try:
        fail(k, k + 1)
        call()
    except Exception as e:
        stop()
        return type(e)
    stop()
for call in calls:
    outcome(call, 10**9)    # CPython crashes where it has no memory for a thread's first context
    raised = {{outcome(call, k) for k in range(150)}}
    assert MemoryError in raised and type(None) not in raised, raised
    assert any(issubclass(e, (TypeError, ValueError, OverflowError)) for e in raised), raised
print("raised")
""")
    assert out == "raised\n"


@pytest.mark.skipif(FREE_THREADED, reason="its PyList_New frees items that it has not made")
def test_no_reference_is_lost_without_memory(script):
    """Code of Cython 3.3.0 and 3.3.1, which setup.py mends, gave one up twice that could not be
    appended to a list."""
    pytest.importorskip("_testcapi", reason="this Python has no test modules")
    out = script("""
import sys
import _testcapi
import numpy as np
import pyblitz as pb
pb.set_num_threads(1)   # Python 3.11 dies of a thread that begins without memory for its state
rows, keys = [[1, 2], [3]], [np.arange(100_000), np.arange(100_000)]
calls = [
    lambda: pb.par_sort(rows),
    lambda: pb.par_map(np.add, rows, rows),
    lambda: pb.par_lexsort(keys),
    lambda: pb.par_iter(keys[0]).chain(keys[1]).sum(),
    lambda: pb.par_concatenate(keys),
]
def held():
    return [sys.getrefcount(x) for x in (rows, *rows, keys, *keys)]
def outcome(call, k):
    try:
        _testcapi.set_nomemory(k, k + 1)
        call()
    except Exception as e:
        _testcapi.remove_mem_hooks()
        return type(e)
    _testcapi.remove_mem_hooks()
for call in calls:
    outcome(call, 10**9)
    before = held()
    raised = set()
    for k in range(120):
        raised.add(outcome(call, k))
        # CPython keeps some: up to 3.11 a tuple that it has no memory to make a list of.
        assert all(now >= then for now, then in zip(held(), before)), k
    assert MemoryError in raised, raised
print("kept")
""")
    assert out == "kept\n"
