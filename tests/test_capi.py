"""The cimport API at its edges: entering, submit, errors, the binary contract."""

import ctypes
import gc
import sys
import threading

import numpy as np
import pyblitz.capi
import pytest
from arrays import values

import pyblitz as pb

SIZES = [1, 2, 3, 8, 64]


def test_run_enters_and_leaves(native, pool_size):
    for threads in SIZES:
        pool_size(threads)
        assert not native.capi.is_worker()
        workers, index, right = native.capi.inside()
        assert (workers, right) == (threads, True)
        assert threads - 1 <= index < threads - 1 + 64, "a thread that called in"
        assert not native.capi.is_worker()


def test_run_returns_and_raises(native):
    assert native.capi.call(lambda: 42) == 42
    assert native.capi.call(native.capi.is_worker) == 1
    with pytest.raises(KeyError, match="'gone'") as caught:
        native.capi.call(lambda: {}["gone"])
    assert caught.traceback[-1].name == "<lambda>"
    assert not native.capi.is_worker()


def test_run_in_run_is_the_same_worker(native, pool_size):
    pool_size(2)
    inner = []
    native.capi.call(lambda: inner.append(native.capi.inside()))
    native.capi.call(lambda: native.capi.call(lambda: inner.append(native.capi.inside())))
    assert inner == [(2, 1, True)] * 2


def test_set_num_threads_inside_an_operation(native, pool_size):
    """What runs goes on in its pool; the next operation uses the new one."""
    pool_size(3)
    seen = []

    def inside():
        pb.set_num_threads(5)
        seen.append(native.capi.inside()[0])
        seen.append(native.capi.fib(15))

    native.capi.call(inside)
    assert seen == [3, 610]
    assert native.capi.inside()[0] == 5


def test_set_num_threads_among_callers(native, pool_size, crowd):
    """Callers that enter while the pool is replaced get the old one or the new one."""

    def callers():
        for _ in range(2_000):
            assert native.capi.inside()[0] in (1, 2, 3, 4)

    def replace():
        for i in range(300):
            pb.set_num_threads(2 + i % 3)

    pool_size(2)
    crowd(callers, callers, callers, replace)


@pytest.mark.parametrize("threads", SIZES)
def test_submit(native, pool_size, crowd, threads):
    pool_size(threads)
    tally = native.capi.Tally()
    crowd(*[lambda: native.capi.submit_many(tally, 5_000)] * 8)
    if threads > 1:
        tally.reach(40_000)
    assert tally.value == 40_000


@pytest.mark.parametrize("threads", [2, 3])
def test_submitted_jobs_submit(native, pool_size, threads):
    pool_size(threads)
    tallies = [native.capi.submit_chain(2_000) for _ in range(10)]
    for t in tallies:
        # Wraps to -1 when the chain has ended.
        while t.value > -1:
            threading.Event().wait(0.001)
    assert {t.value for t in tallies} == {-1}


@pytest.mark.parametrize("threads", [1, 2])
def test_submit_failing(native, pool_size, monkeypatch, threads):
    seen = []
    told = threading.Event()

    def hook(unraisable):
        seen.append(repr(unraisable.exc_value))
        told.set()

    monkeypatch.setattr(sys, "unraisablehook", hook)
    pool_size(threads)
    native.capi.submit_failing()
    assert told.wait(60)
    assert seen == ["ValueError('nobody waits for this')"]


def test_no_reference_is_lost(native, pool_size):
    """Exceptions that lose against a lower index are dropped, not leaked."""
    pool_size(3)

    class Loser(Exception):
        pass

    def fail():
        raise Loser

    for _ in range(200):
        with pytest.raises(Loser):
            native.capi.call_join(fail, fail)
    gc.collect()
    assert not [o for o in gc.get_objects() if type(o) is Loser]


NUMBERS = ["i4", "i8", "u4", "u8", "f4", "f8"]
# Around chunks, runs and pieces.
LENGTHS = [0, 1, 2, 7, 8, 9, 33, 8191, 8192, 8193, 32769, 70_001, 300_000]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_sort_numbers(native, pool_size, dtype):
    for threads in (1, 3):
        pool_size(threads)
        for n in LENGTHS:
            padded = values(dtype, (n + 16,), n)
            a = padded[8 : n + 8]
            around = padded[:8].tobytes(), padded[n + 8 :].tobytes()
            expected = np.sort(a)
            if n:
                native.capi.sort_numbers(a.view("u1"), dtype)
            np.testing.assert_array_equal(a, expected)
            assert (padded[:8].tobytes(), padded[n + 8 :].tobytes()) == around


def tagged(n, size, seed=0):
    """Records of an int32 key with many repeats, where it was, and padding."""
    a = np.zeros(n, np.dtype({"names": ["key", "at"], "formats": ["i4", "i4"], "itemsize": size}))
    a["key"] = np.random.default_rng(seed).integers(-50, 50, n)
    a["at"] = np.arange(n)
    return a


@pytest.mark.parametrize(
    ("size", "how"),
    [(8, "keys"), (12, "keys"), (16, "keys"), (40, "keys"), (8, "minus one"), (40, "minus one")],
)
def test_sort_is_stable(native, pool_size, size, how):
    seen = set()
    for threads in (1, 2, 3, 8):
        pool_size(threads)
        for n in LENGTHS[1:] if threads == 2 else LENGTHS[-1:]:
            a = tagged(n, size)
            expected = a[np.argsort(a["key"], kind="stable")]
            native.capi.sort_items(a.view("u1"), size, how)
            assert (a["key"] == expected["key"]).all()
            assert (a["at"] == expected["at"]).all()
        seen.add(a.tobytes())
    assert len(seen) == 1


@pytest.mark.parametrize("how", ["not strict", "always", "never", "random"])
def test_sort_by_no_order(native, pool_size, how):
    for threads in (1, 2, 8):
        pool_size(threads)
        for n in LENGTHS[1:]:
            padded = tagged(n + 200, 12)
            before = np.frombuffer(padded.tobytes(), padded.dtype)
            a = padded[100 : n + 100]
            native.capi.sort_items(a.view("u1"), 12, how)
            assert padded[:100].tobytes() == before[:100].tobytes()
            assert padded[n + 100 :].tobytes() == before[n + 100 :].tobytes()
            assert (a["key"] == before["key"][a["at"]]).all()
            assert (np.sort(a["at"]) == np.arange(100, n + 100)).all()
            if how == "never":
                assert (a["at"] == np.arange(100, n + 100)).all()


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_sort_by_what_raises(native, pool_size, threads):
    """Wherever it raises, in a chunk, in a search for ranks or in a merge, all is there."""
    pool_size(threads)
    calls = native.capi.sort_items(tagged(150_000, 8).view("u1"), 8)
    for until in [0, 1, 5, 20_000, *np.linspace(1, calls - 1, 40).astype(int)]:
        a = tagged(150_000, 8)
        key = a["key"].copy()
        with pytest.raises(ZeroDivisionError):
            native.capi.sort_items(a.view("u1"), 8, "raising", until)
        assert (np.sort(a["at"]) == np.arange(150_000)).all()
        assert (a["key"] == key[a["at"]]).all()


def test_sort_refuses(native):
    a = tagged(100, 8)
    with pytest.raises(RuntimeError, match="sort: w is NULL"):
        native.capi.sort_items(a.view("u1"), 8, nobody=True)
    with pytest.raises(ValueError, match="sort: n must not be negative"):
        native.capi.sort_items(a.view("u1"), 8, n=-1)
    with pytest.raises(MemoryError, match="sort"):
        native.capi.sort_items(a.view("u1"), 8, n=2**62)
    for dtype in NUMBERS:
        name = f"sort_{dtype[0]}{8 * int(dtype[1])}"
        with pytest.raises(RuntimeError, match=f"{name}: w is NULL"):
            native.capi.sort_numbers(a.view("u1"), dtype, nobody=True)
        with pytest.raises(ValueError, match=f"{name}: n must not be negative"):
            native.capi.sort_numbers(a.view("u1"), dtype, n=-1)
    assert (a["at"] == np.arange(100)).all()


# Without a GIL, Python 3.13 stops the world for the second thread of a process, and whoever spins
# in C stops nowhere.
STARTED = "" if getattr(sys, "_is_gil_enabled", lambda: True)() else "native_capi.call_roll()"


@pytest.mark.parametrize("where", ["outside", "in a kernel", "in a kernel with its worker"])
@pytest.mark.parametrize("what", ["join", "for", "scope", "broadcast"])
def test_a_holder_of_the_gil_waits_for_one_who_needs_it(script, what, where):
    """It hung: the other half could not raise, for the one that waited held the GIL."""
    out = script(f"""
import pyblitz as pb, native_capi
pb.set_num_threads(2)
{STARTED}
for _ in range(20):
    try:
        native_capi.hold_the_gil({what!r}, {where != "outside"}, {"its" in where})
    except ValueError as e:
        print(e)
    assert not native_capi.is_worker()
""")
    assert out == "on the right\n" * 20


@pytest.mark.parametrize("threads", [1, 2])
def test_a_kernel_runs_without_the_gil_of_its_caller(native, pool_size, threads):
    """Not only its waits: it may itself wait for a thread that needs the GIL."""
    pool_size(threads)
    assert native.capi.holds_the_gil() == 0


@pytest.fixture
def unheard(monkeypatch):
    """What sys.unraisablehook was told."""
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda u: seen.append(repr(u.exc_value)))
    return seen


RIGHT = "ValueError('on the right')"


@pytest.mark.parametrize("threads", [2, 3])
def test_a_thread_that_python_does_not_know(native, pool_size, unheard, threads):
    """The caller gets -1, and sys.unraisablehook the exception; it vanished.  What follows in
    that thread finds no trace of it."""
    pool_size(threads)
    what = ["j!", "f!", "s!", "h"] if threads == 3 else ["j!", "f!", "s!", "b!", "h"]
    steps = [s for step in what for s in (step, "e")]
    assert native.capi.stranger("0", "e", *steps, "7", "-", "j") == [
        0, 0, *[-1, 0] * len(what), 7, -1, 0
    ]  # fmt: skip
    assert unheard == [RIGHT] * (len(what) - 1) + ["KeyError('here')"]
    assert not native.capi.is_worker()


def test_mistakes_in_a_thread_that_python_does_not_know(native, unheard):
    assert native.capi.stranger("n", "e", "g", "e") == [-1, 0] * 2
    assert [e[:30] for e in unheard] == [
        "RuntimeError('poll: w is NULL,",
        "ValueError('parallel_for: grai",
    ]


@pytest.mark.parametrize("threads", [1, 2])
def test_submit_from_a_thread_that_python_does_not_know(native, pool_size, unheard, threads):
    pool_size(threads)
    assert native.capi.stranger("u", "k", "e", "u", "e") == [0] * 5
    for _ in range(60_000):
        if len(unheard) == 3:
            break
        threading.Event().wait(0.001)
    assert unheard == ["KeyError('here')"] * 3


def test_a_thread_that_is_joined_under_the_gil(script):
    """It calls kernels that do not need the GIL, and neither does their end."""
    out = script(f"""
import pyblitz as pb, native_capi
pb.set_num_threads(2)
{STARTED}
print(native_capi.stranger_joined_under_the_gil("0", "7", "j", "f", "s"))
""")
    assert out == "[0, 7, 0, 0, 0]\n"


def thread_states():
    """How many threads Python knows."""
    api = ctypes.pythonapi
    for name in ["PyInterpreterState_Get", "PyInterpreterState_ThreadHead", "PyThreadState_Next"]:
        getattr(api, name).restype = ctypes.c_void_p
    state = api.PyInterpreterState_ThreadHead(ctypes.c_void_p(api.PyInterpreterState_Get()))
    n = 0
    while state:
        n += 1
        state = api.PyThreadState_Next(ctypes.c_void_p(state))
    return n


def test_threads_that_python_did_not_know_leave_nothing(native, pool_size, unheard):
    pool_size(1)
    before = thread_states()
    for _ in range(200):
        assert native.capi.stranger("h", "0") == [-1, 0]
    assert len(unheard) == 200
    for _ in range(60_000):
        if thread_states() <= before:
            break
        threading.Event().wait(0.001)
    assert thread_states() <= before


@pytest.mark.parametrize("how", ["spawn", "array", "map", "on"])
def test_spawn_by_a_worker_of_another_pool(native, pool_size, how):
    """Its tasks would be on deques that nobody who waits for them looks at."""
    pool_size(2)
    with pb.ThreadPool(2) as other:

        def body():
            native.capi.spawn_into(how)
            with pytest.raises(RuntimeError, match="another pool than the scope's"):
                other.install(native.capi.spawn_into, how)

        assert native.capi.scope_around(body) == (3 if how == "map" else 1)


BINS = 101_000  # 808 KB of counts


def histogram(native, items, bins=BINS, **options):
    counts = np.zeros(bins + 1, np.int64)
    copies = native.capi.histogram(items, counts, **options)
    return counts[:-1], copies


def items_of(n, bins):
    return np.random.default_rng(n).integers(0, bins, n).astype("i4")


@pytest.mark.parametrize("commutative", [False, True])
def test_large_accumulators(script, commutative):
    """Of 808 KB each, for 4,000 items: there were 1,000 of them, of 813 MB."""
    out = script(f"""
import resource, numpy as np, pyblitz as pb, native_capi
pb.set_num_threads(4)
items = np.random.default_rng(1).integers(0, {BINS}, 4000).astype("i4")
counts = np.zeros({BINS} + 1, "i8")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
copies = native_capi.histogram(items, counts, {commutative})
assert (counts[:-1] == np.bincount(items, minlength={BINS})).all()
print(copies, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
""")
    copies, kilobytes = map(int, out.split())
    assert 1 <= copies <= (4 if commutative else 16)
    assert kilobytes < 20_000


@pytest.mark.parametrize(
    ("bins", "n", "most"),
    [(0, 5000, 1024), (127, 100_000, 1024), (2_047, 100_000, 64), (100_000, 100, 16), (9, 3, 3)],
)
def test_blocks_of_grain_0(native, pool_size, bins, n, most):
    """As many on any number of threads, and no more than 1 MiB of them, or 16."""
    items = np.zeros(n, "i4") if bins == 0 else items_of(n, bins)
    seen = set()
    for threads in (1, 2, 5):
        pool_size(threads)
        bins_and_one = max(bins, 1)
        counts, copies = histogram(native, items, bins_and_one)
        assert (counts == np.bincount(items, minlength=bins_and_one)).all()
        seen.add(copies)
    assert len(seen) == 1
    assert most * 0.9 <= seen.pop() <= most


@pytest.mark.parametrize("grain", [0, 1, 7, 100_000])
@pytest.mark.parametrize("threads", SIZES)
def test_commutative_reduction(native, pool_size, crowd, threads, grain):
    """An accumulator for each participant at most, whoever calls."""
    pool_size(threads)

    def caller():
        for n in (1, 2, 1000, 20_000):
            items = items_of(n, 50)
            counts, copies = histogram(native, items, 50, commutative=True, grain=grain)
            assert (counts == np.bincount(items, minlength=50)).all()
            assert 1 <= copies <= min(pb.num_threads(), n)

    caller()
    crowd(caller, caller, caller)
    with pb.ThreadPool(3) as other:
        native.capi.call(lambda: other.install(caller))


def test_commutative_reduction_fails(native, pool_size):
    pool_size(3)
    items = items_of(5000, 50)
    counts = np.zeros(51, np.int64)
    for grain in (0, 10):
        with pytest.raises(ValueError, match="1000"):
            native.capi.histogram(items, counts, True, grain, fails=True)
        assert not counts.any(), "it still holds the identity"
    with pytest.raises(ValueError, match="parallel_reduce_commutative: grain must not be"):
        native.capi.histogram(items, counts, True, -1)
    with pytest.raises(ValueError, match="parallel_reduce: grain must not be negative"):
        native.capi.histogram(items, counts, False, -1)


def test_the_table():
    """What an extension of version 1 finds, for as long as there is a version 1."""
    assert sorted(pyblitz.capi.__pyx_capi__) == [
        "broadcast_abi1",
        "current_worker_abi1",
        "fuse_burnt_abi1",
        "join_abi1",
        "lazy_join_slow_abi1",
        "no_worker_abi1",
        "num_workers_abi1",
        "parallel_for_abi1",
        "parallel_reduce_abi1",
        "parallel_reduce_commutative_abi1",
        "poll_abi1",
        "run_abi1",
        "scope_abi1",
        "scope_map_abi1",
        "sort_abi1",
        "sort_f32_abi1",
        "sort_f64_abi1",
        "sort_i32_abi1",
        "sort_i64_abi1",
        "sort_u32_abi1",
        "sort_u64_abi1",
        "spawn_abi1",
        "spawn_many_abi1",
        "spawn_on_abi1",
        "submit_abi1",
        "submit_keyed_abi1",
        "try_join_slow_abi1",
        "worker_index_abi1",
    ]


def test_another_version_is_an_import_error(script):
    """An extension of version 1 meets a pyblitz whose interface has number 9."""
    out = script("""
import pyblitz.capi
table = pyblitz.capi.__pyx_capi__
for name in list(table):
    table[name.replace("abi1", "abi9")] = table.pop(name)
try:
    import native_capi
except ImportError as e:
    print(e)
""")
    assert "abi1" in out
    assert "pyblitz.capi" in out
