"""What holds in the caller holds in what runs for it elsewhere, and nothing comes back."""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import decimal
import threading
import time
import warnings

import numpy as np
import pytest

import pyblitz as pb

VAR = contextvars.ContextVar("VAR", default="none")
LOGS = np.zeros(600_000)  # log: divides by zero, and meets an invalid value
LOGS[7::10_000] = -1
SUMS = np.ones(400_000)
SUMS[[200_000, 300_000]] = np.inf, -np.inf
TABLE = SUMS.reshape(400, 1000)
SWAPPED = TABLE.astype(">f8")
HALF = np.arange(LOGS.size) % 2 == 1


# ---- floating-point errors and warnings ---------------------------------------

# What pyblitz is asked for, and NumPy.
ROADS = {
    "direct": (lambda: pb.par_map(np.log, LOGS[:9]), lambda: np.log(LOGS[:9])),
    "loop": (lambda: pb.par_map(np.log, LOGS), lambda: np.log(LOGS)),
    "swapped": (lambda: pb.par_map(np.log, LOGS.astype(">f8")), lambda: np.log(LOGS.astype(">f8"))),
    "where": (
        lambda: pb.par_map(np.log, LOGS, where=HALF, out=np.zeros(LOGS.size)),
        lambda: np.log(LOGS, where=HALF, out=np.zeros(LOGS.size)),
    ),
    "cast": (lambda: pb.par_map(np.log, LOGS, dtype="f4"), lambda: np.log(LOGS, dtype="f4")),
    "blocks": (lambda: pb.par_map(lambda x: np.log(x), LOGS), lambda: np.log(LOGS)),
    "reduce direct": (lambda: pb.par_reduce(np.add, SUMS[::1000]), lambda: SUMS[::1000].sum()),
    "reduce loop": (lambda: pb.par_reduce(np.add, SUMS), lambda: np.add.reduce(SUMS)),
    "reduce kept": (
        lambda: pb.par_reduce(np.add, TABLE.T, axis=1),
        lambda: np.add.reduce(TABLE.T, axis=1),
    ),
    "reduce cut": (
        lambda: pb.par_reduce(np.add, SWAPPED, axis=None),
        lambda: np.add.reduce(SWAPPED, axis=None),
    ),
    "not associative": (
        lambda: pb.par_reduce(np.subtract, TABLE, axis=0),
        lambda: np.subtract.reduce(TABLE, axis=0),
    ),
}
MODES = ["ignore", "warn", "raise", "call", "log", "print", "mixed", "handler raises", "error"]


def outcome(call, mode):
    """What a call gives, raises, warns and hands to np.seterrcall's function."""
    told, raised, result = [], None, None

    class Handler:
        def __call__(self, *args):
            told.append(args)
            if mode == "handler raises":
                raise LookupError(*args)

        def write(self, text):
            told.append(text)

    how = {
        "mixed": {"divide": "call", "invalid": "raise"},
        "handler raises": {"all": "call"},
        "error": {"all": "warn"},
    }.get(mode, {"all": mode})
    with warnings.catch_warnings(record=mode != "error") as warned:
        warnings.simplefilter("error" if mode == "error" else "always")
        with np.errstate(**how, call=Handler()):
            try:
                result = np.asarray(call()).tobytes()
            except (FloatingPointError, RuntimeWarning, LookupError) as e:
                raised = type(e), str(e)
    return result, raised, told, [str(w.message) for w in warned or ()]


@pytest.fixture(params=["main", "thread", "install", "job"])
def somewhere(request, crowd):
    """Calls a function there."""
    with pb.ThreadPool(3) as pool:
        yield {
            "main": lambda f: f(),
            "thread": lambda f: crowd(f)[0],
            "install": pool.install,
            "job": lambda f: pool.submit(f).result(),
        }[request.param]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("road", ROADS)
def test_errstate(road, mode, running_pool, somewhere, capfd):
    running_pool(3)
    ours, numpys = ROADS[road]
    got = somewhere(lambda: outcome(ours, mode))
    printed = capfd.readouterr()
    expected = outcome(numpys, mode)
    if road == "blocks":  # NumPy says it for each block
        got, expected = ((r, e, set(t), set(w)) for r, e, t, w in (got, expected))
    else:
        assert printed == capfd.readouterr()
    assert got == expected
    assert mode in ("ignore", "print") or expected[1:] != (None, [], []), "nothing was tested"


@pytest.mark.parametrize("mode", ["ignore", "raise", "call"])
def test_errstate_of_kernels(mode):
    log = ctypes.CDLL(None).log
    log.restype, log.argtypes = ctypes.c_double, [ctypes.c_double]
    result, raised, told, _ = outcome(lambda: pb.par_map(log, LOGS), mode)
    assert told == ([("divide by zero", 9), ("invalid value", 9)] if mode == "call" else [])
    if mode == "raise":
        assert raised[0] is FloatingPointError
        assert raised[1].startswith("divide by zero encountered in float64 (float64)")
    else:
        # The C library's: the NaN of NumPy's log has another sign where it goes by AVX2.
        assert result == np.array([log(x) for x in LOGS]).tobytes()


# ---- everything else that belongs to a context --------------------------------


def pick(function):
    return function


@contextlib.contextmanager
def var_set(value):
    token = VAR.set(value)
    yield
    VAR.reset(token)


@contextlib.contextmanager
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def set_decimal():
    decimal.setcontext(decimal.Context(prec=3))


# name: (what holds in the caller, what is read, the change that must not leak)
STATES = {
    "variable": (lambda: var_set("mine"), VAR.get, lambda: VAR.set("changed")),
    "errstate": (
        lambda: np.errstate(divide="raise", under="print"),
        np.geterr,
        lambda: np.seterr(all="ignore"),
    ),
    "errcall": (
        lambda: np.errstate(all="call", call=pick),
        np.geterrcall,
        lambda: np.seterrcall(print),
    ),
    "bufsize": (lambda: np.errstate(all="warn"), np.getbufsize, lambda: np.setbufsize(4096)),
    "decimal": (
        lambda: decimal.localcontext(decimal.Context(prec=7)),
        lambda: decimal.getcontext().prec,
        set_decimal,
    ),
    # Of the whole process before 3.14: nothing may be changed in a callable.
    "warnings": (warnings_are_errors, lambda: warnings.filters[0][0], lambda: None),
}

if np.lib.NumpyVersion(np.__version__) >= "2.2.0":
    # Of the whole process before.
    STATES["print"] = (
        lambda: np.printoptions(precision=3, suppress=True),
        lambda: str(np.array([1 / 3])),
        lambda: np.set_printoptions(precision=5),
    )


class Elsewhere:
    """Calls f, from a function on blocks; sees to it that a second thread does, too."""

    def __init__(self, f, threads):
        self.f, self.threads = f, threads
        self.caller, self.calls, self.met = threading.get_ident(), 0, threading.Event()

    def __call__(self, x):
        if threading.get_ident() != self.caller:
            self.met.set()
        else:
            self.calls += 1
            # Work that is worth a wake; so by the fourth call it has called the others in.
            end = time.perf_counter() + (5e-4 if self.threads > 1 and self.calls < 4 else 0)
            while time.perf_counter() < end:
                pass
            assert self.threads == 1 or self.calls < 4 or self.met.wait(60)
        self.f()
        return x


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("state", STATES)
def test_holds_and_does_not_leak(state, threads, running_pool, somewhere):
    running_pool(threads)
    holds, read, change = STATES[state]
    seen = []

    def look():
        seen.append(read())
        change()

    def caller():
        before = read()
        with holds():
            inside = read()
            blocks = Elsewhere(look, threads)
            with pb.ThreadPool(threads) as pool:
                # In its own pool, the caller has others beside it wherever it is.
                pool.install(start_all, pool)
                pool.install(pb.par_map, blocks, np.zeros((40, 65536), "i1"))
                assert read() == inside
                pool.install(pb.par_map, blocks, np.zeros((40, 65536)))
                assert read() == inside
                # Objects: NumPy calls it, here and now.
                pb.par_map(np.frompyfunc(lambda x: seen.append(read()), 1, 1), np.arange(3))
                for key in (None, "key"):
                    pool.submit(look, affinity=key).result()
                    assert read() == inside
            count = len(seen)
            assert set(map(repr, seen)) == {repr(inside)}
        assert read() == before
        return count

    # i1: blocks of 8 rows; f8: of one; block 0 once
    assert somewhere(caller) == 5 + 40 + 3 + 2


def start_all(pool):
    """Every thread of the pool runs at once."""
    here = threading.Barrier(pool.num_threads)
    jobs = [pool.submit(here.wait, 60) for _ in range(pool.num_threads - 1)]
    here.wait(60)
    for job in jobs:
        job.result()


def test_install_is_a_call():
    """What it changes stays, as after any call."""
    with pb.ThreadPool(2) as pool:
        token = VAR.set("before")
        pool.install(VAR.set, "after")
        assert VAR.get() == "after"
        VAR.reset(token)


@pytest.mark.parametrize("changed", ["prec", "flags"])
def test_a_shared_object_is_shared(changed):
    """The context is copied, what its variables hold is not: as in any task of asyncio."""
    with decimal.localcontext(decimal.Context(prec=7)) as mine:

        def block(x):
            if changed == "prec":
                decimal.getcontext().prec = 3
            else:
                decimal.Decimal(1) / 3
            return x

        pb.par_map(block, np.zeros(1_000_000))
        assert mine.prec == 3 if changed == "prec" else mine.flags[decimal.Inexact]


def test_each_block_has_a_copy_of_its_own():
    """A context is entered by one thread at a time; blocks of one operation may nest."""

    def outer(x):
        assert VAR.get() == "mine"
        VAR.set(f"outer {x[0]}")
        pb.par_map(inner, x)
        assert VAR.get() == f"outer {x[0]}"
        return x

    def inner(x):
        seen.append(VAR.get())
        VAR.set("inner")
        return x

    seen = []
    with var_set("mine"):
        a = np.arange(1_000_000.0)
        pb.par_map(outer, a, check=False)
    assert sorted(seen) == sorted(f"outer {x}" for x in a[::65536])
    assert VAR.get() == "none"
