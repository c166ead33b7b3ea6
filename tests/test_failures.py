"""What fails: which exception the caller sees, what stops, what is written, what stays behind."""

import gc
import sys
import weakref

import numpy as np
import pytest

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
    """Over 10^4 failures: no object more than before, and no memory."""
    print(
        script(f"""
import gc, sys
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
def state():
    for _ in range(3):
        gc.collect()
    with open("/proc/self/statm") as f:
        return (len(gc.get_objects()), sys.getrefcount(Failure), sys.getallocatedblocks(),
                int(f.read().split()[1]) * 4096)
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
before = state()
run(10_000)
after = state()
growth = [b - a for a, b in zip(before, after)]
print(growth)
# Blocks: interned and cached by Python itself.
assert growth[0] <= 0 and growth[1] <= 0 and growth[2] < 100 and growth[3] < 2**20, growth
""")
    )
