"""Other libraries with threads of their own, in one process: from inside and around."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc"),
    pytest.mark.skipif(
        os.environ.get("PYBLITZ_BUILD", "debug") != "debug", reason="others' code is not sanitized"
    ),
]

# So many threads each library is told to use (PB: pyblitz).
PB = 4
N = 3
ENV = {
    "PYBLITZ_NUM_THREADS": str(PB),
    **dict.fromkeys(
        ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS"),
        str(N),
    ),
}

# check(f, expected): f(block) on blocks, on all threads at once, and around; from the main
# thread, from several threads, inside a ThreadPool, in turn with pyblitz's own operations.
HARNESS = """
import os, threading, time
import numpy as np
import pyblitz as pb
import native_capi as capi
pb.num_threads()
A = np.arange(400_000.0).reshape(40, 10_000)        # 40 blocks: see wide()
def wide(f):
    '''f(rows) for each row of A, by par_map; its results have A's shape.'''
    rows = np.lib.stride_tricks.as_strided(A, (40, 1, 10_000), (80_000, 0, 8))
    big = np.broadcast_to(rows, (40, 7, 10_000))     # a block is one row
    out = np.empty(big.shape)
    def block(x):
        assert x.shape[0] == 1, x.shape
        return np.broadcast_to(f(x[0, 0])[None, None], x.shape)
    pb.par_map(block, big, out=out)
    return out[:, 0]
def own():
    assert pb.par_reduce(np.maximum, A, axis=None) == A.max()
    assert np.array_equal(pb.par_sort(A[::-1].ravel()), np.sort(A.ravel()))
    assert capi.fib(15) == 610
def check(f, expected, rounds=5):
    '''expected: of f(row), for all rows.'''
    for _ in range(rounds):
        assert np.array_equal(f(A[3]), expected[3])
        assert np.array_equal(wide(f), expected)
        own()
    def caller():
        assert np.array_equal(f(A[5]), expected[5])
        assert np.array_equal(wide(f), expected)
        own()
    errors = []
    threading.excepthook = errors.append
    threads = [threading.Thread(target=caller) for _ in range(3)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert not errors, errors
    with pb.ThreadPool(3) as pool:
        assert np.array_equal(pool.install(wide, f), expected)
        jobs = [pool.submit(f, row) for row in A]
        assert all(np.array_equal(j.result(), e) for j, e in zip(jobs, expected))
    assert np.array_equal(f(A[3]), expected[3])
def os_threads():
    with open("/proc/self/status") as s:
        return next(int(line.split()[1]) for line in s if line.startswith("Threads:"))
before = os_threads()
"""


@pytest.fixture
def neighbour(script):
    """Runs a program after HARNESS, with every library's number of threads set."""

    def run(source, env=None):
        return script(HARNESS + source, env={**ENV, **(env or {})})

    return run


def test_openblas(neighbour):
    """One set of threads for the process, however many call: PB - 1 + N - 1 beside main."""
    out = neighbour(f"""
I = np.ones((100, 100))
S = I + 100 * np.eye(100)
def f(row):
    if row[0] % 80_000 == 0:
        x = np.linalg.solve(S, row[:100])
        assert np.allclose(np.dot(S, x), row[:100])
    return row * np.dot(I, I)[3, 4]
check(f, A * 100, rounds=1)
big = np.ones((600, 600))
assert (big @ big == 600).all()
print(os_threads())
assert os_threads() <= 1 + {PB} - 1 + {N} - 1, os_threads()
""")
    assert int(out) > 1


@pytest.fixture(scope="module")
def openmp(tmp_path_factory):
    """The path of a library of two loops with OpenMP."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    path = tmp_path_factory.mktemp("openmp")
    (path / "loops.c").write_text("""
#include <omp.h>
#include <stdint.h>
void twice(const double *x, double *y, intptr_t n, void *user) {
  #pragma omp parallel for schedule(dynamic, 500)
  for (intptr_t i = 0; i < n; i++) y[i] = 2 * x[i];
}
double sum(const double *x, intptr_t n) {
  double s = 0;
  #pragma omp parallel for reduction(+ : s)
  for (intptr_t i = 0; i < n; i++) s += x[i];
  return s;
}
int team(void) { return omp_get_max_threads(); }
""")
    library = path / "loops.so"
    command = [compiler, "-O2", "-fopenmp", "-shared", "-fPIC", "-o", str(library)]
    done = subprocess.run([*command, str(path / "loops.c")], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no OpenMP: {done.stderr.strip()[:100]}")
    return str(library)


OPENMP = """
import ctypes
lib = ctypes.CDLL({!r})
double_p, long_p = ctypes.POINTER(ctypes.c_double), ctypes.c_ssize_t
lib.twice.argtypes, lib.twice.restype = [double_p, double_p, long_p, ctypes.c_void_p], None
lib.sum.argtypes, lib.sum.restype = [double_p, long_p], ctypes.c_double
def pointer(a):
    return a.ctypes.data_as(double_p)
def twice(row):
    row = np.ascontiguousarray(row)
    y = np.empty_like(row)
    lib.twice(pointer(row), pointer(y), row.size, None)
    assert lib.sum(pointer(y), y.size) == 2 * row.sum()
    return y
"""


def test_openmp(neighbour, openmp):
    """A team for each thread that enters: (PB callers) x (N - 1) more; and the harness's own
    3 threads and 2 of its pool, which end, but whose teams may yet be ending."""
    out = neighbour(f"""
{OPENMP.format(openmp)}
assert lib.team() == {N}
check(twice, 2 * A)
# As a compiled kernel: by every worker, without the GIL.
flat = A.ravel()
for _ in range(5):
    assert np.array_equal(pb.par_map(lib.twice, flat), 2 * flat)
    own()
print(os_threads())
assert os_threads() - before <= {PB} - 1 + ({PB} + 3 + 2) * ({N} - 1), os_threads()
""")
    assert int(out) > PB, "the test tests something"


def test_openmp_and_fork(neighbour, openmp):
    """A child of a process that used both has pyblitz afresh.  GNU's OpenMP itself may not be
    used in a child by a thread that used it before the fork (it waits for threads that are
    not there); in the child's new threads it may."""
    neighbour(f"""
{OPENMP.format(openmp)}
check(twice, 2 * A, rounds=2)
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        own()
        with pb.ThreadPool(3) as pool:
            assert np.array_equal(pool.submit(twice, A[1]).result(), 2 * A[1])
        own()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    check(twice, 2 * A, rounds=1)
""")


NUMBA = """
import numba
try:
    numba.njit(parallel=True)(lambda n: np.ones(n))(10)
except ValueError as e:
    print("missing:", e)
    raise SystemExit
assert numba.threading_layer() == os.environ["NUMBA_THREADING_LAYER"]
def loop(row):
    y = np.empty_like(row)
    for i in numba.prange(row.size):
        y[i] = 2 * row[i]
    return y
holding, free = numba.njit(parallel=True)(loop), numba.njit(parallel=True, nogil=True)(loop)
@numba.vectorize(["f8(f8)"], target="parallel")
def parallel_ufunc(x):
    return 2 * x
"""


@pytest.mark.parametrize(
    "layer",
    [*(pytest.param(name, marks=pytest.mark.full) for name in ("tbb", "omp")), "workqueue"],
)
def test_numba(neighbour, layer):
    """parallel=True and target="parallel".  The layer workqueue, which Numba takes when it
    finds no other, must not be entered by two threads at once, whoever's they are, GIL or
    not (Numba gives it up): there, inside blocks, under a lock."""
    pytest.importorskip("numba")
    guarded = layer == "workqueue"
    out = neighbour(
        f"""{NUMBA}
lock = threading.Lock()
def guarded(f):
    def locked(row):
        with lock:
            return f(row)
    return locked if {guarded} else f
for f in (holding, free, parallel_ufunc):
    check(guarded(f), 2 * A, rounds=2)
B = np.arange(1_000_000.0)
for _ in range(5):
    if not {guarded}:
        assert np.array_equal(pb.par_map(parallel_ufunc, B), 2 * B)     # on slices
        assert np.array_equal(pb.par_map(free, B), 2 * B)
    assert np.array_equal(parallel_ufunc(B), 2 * B)
    own()
print(os_threads() - before)
# omp has a team for each thread that enters, the others one for all; and Numba loads
# SciPy's OpenBLAS.
teams = {PB} + 3 + 2 if "{layer}" == "omp" else 1
assert os_threads() - before <= {PB} - 1 + teams * {N} + {N} - 1, os_threads()
""",
        env={"NUMBA_THREADING_LAYER": layer},
    )
    if out.startswith("missing"):
        pytest.skip(f"numba has no {layer} here")
    assert int(out) > 0


def test_numba_ends_the_process_rather_than_to_compute_nonsense(script):
    """Its layer workqueue, entered by two threads at once: it raises SIGABRT, also in ours."""
    pytest.importorskip("numba")
    done = script(
        HARNESS
        + NUMBA
        + """
import faulthandler
faulthandler.disable()      # it reads the frames of threads that go on, and may crash at it
a = np.arange(4_000_000.0)
for _ in range(200):
    assert np.array_equal(pb.par_map(parallel_ufunc, a), 2 * a)
""",
        env={**ENV, "NUMBA_THREADING_LAYER": "workqueue"},
        check=False,
    )
    assert "Concurrent access has been detected" in done.stderr
    assert done.returncode == -signal.SIGABRT


@pytest.mark.parametrize(
    "use",
    [
        "torch.mul(torch.from_numpy(np.array(row)), 2).numpy()",
        "(torch.from_numpy(np.array(row)).view(100, 100) @ (2 * torch.eye(100).double()))"
        ".reshape(-1).numpy()",
    ],
    ids=["elementwise", "matrix"],
)
def test_torch(neighbour, use):
    """Its threads are OpenMP's: a team for each thread that enters; one for gradients."""
    pytest.importorskip("torch", reason="the extra `neighbours`")
    out = neighbour(f"""
import torch
torch.set_num_threads({N})
def f(row):
    return {use}
check(f, 2 * A, rounds=3)
big = torch.ones(2_000_000, dtype=torch.float64)
assert float((big * 2).sum()) == 4_000_000
def gradient(row):
    y = torch.ones(10, requires_grad=True)
    (y * 3).sum().backward()
    return row * float(y.grad[0])
check(gradient, 3 * A, rounds=2)
print(os_threads() - before)
assert os_threads() - before <= {PB} - 1 + ({PB} + 3 + 2) * {N}, os_threads()
""")
    assert int(out) > 0


def test_polars(neighbour):
    """Its pool is Rayon: N threads; N each for two runtimes of input and output; jemalloc's."""
    pytest.importorskip("polars", reason="the extra `neighbours`")
    out = neighbour(f"""
import polars as pl
def f(row):
    frame = pl.DataFrame({{"k": np.arange(row.size) % 7, "v": np.array(row)}})
    sums = frame.lazy().group_by("k").agg(pl.col("v").sum()).sort("k").collect()
    assert np.isclose(sums["v"].sum(), row.sum())
    ordered = frame.sort("v", descending=True)["v"].to_numpy()
    return (frame.select(pl.col("v") * 2)["v"]).to_numpy() + (ordered[0] - row[-1])
check(f, 2 * A, rounds=3)
# The other way round: pyblitz in a function that polars calls, perhaps in its threads.
frame = pl.DataFrame({{"k": np.repeat(np.arange(40), 10_000), "v": A.ravel()}})
def best(s):
    own()
    return float(pb.par_reduce(np.maximum, np.asarray(s)))
got = frame.group_by("k", maintain_order=True).agg(
    pl.col("v").map_batches(best, return_dtype=pl.Float64, returns_scalar=True))
assert np.array_equal(got["v"].to_numpy(), A.max(1))
print(os_threads() - before)
assert os_threads() - before <= {PB} - 1 + 3 * {N} + 8, os_threads()
""")
    assert int(out) > 0


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_joblib(neighbour, backend):
    """Inside: joblib's workers call pyblitz.  Around: blocks and jobs call joblib."""
    pytest.importorskip("joblib", reason="the extra `neighbours`")
    out = neighbour(f"""
from joblib import Parallel, delayed
def largest(row):
    import pyblitz, numpy
    wide = numpy.tile(row, 20)
    assert (pyblitz.par_map(numpy.negative, wide) == -wide).all()
    return float(pyblitz.par_reduce(numpy.maximum, wide))
def total(rows):
    return Parallel(n_jobs={N}, backend="{backend}")(delayed(largest)(r) for r in rows)
assert total(A[:8]) == list(A[:8].max(1))
with pb.ThreadPool(2) as pool:
    assert pool.submit(total, A[:4]).result() == list(A[:4].max(1))
    assert pool.install(total, A[4:8]) == list(A[4:8].max(1))
lock = threading.Lock()     # loky's workers are one set for all threads
def f(row):
    with lock:
        return row + total(row[None])[0]
if "{backend}" == "threading":
    check(f, A + A.max(1)[:, None], rounds=1)
else:
    def rarely(row):
        return f(row) if row[0] % 100_000 == 0 else row + row.max()
    assert np.array_equal(wide(rarely), A + A.max(1)[:, None])
own()
print(os_threads() - before)
# threading: workers end with the call.  loky: a manager, a queue feeder, a wakeup each.
assert os_threads() - before <= {PB} - 1 + {N} + 4, os_threads()
""")
    assert int(out) > 0


# ---- threadpoolctl ----------------------------------------------------------

CONTROL = """
def listed():
    return [i["num_threads"] for i in tc.threadpool_info() if i["user_api"] == "pyblitz"]
def used():
    return capi.inside()[0]
"""


@pytest.mark.parametrize(
    "imports",
    [
        "import threadpoolctl as tc, pyblitz as pb",
        "import pyblitz as pb, sys; assert 'threadpoolctl' not in sys.modules\n"
        "import threadpoolctl as tc; assert not [i for i in tc.threadpool_info()"
        " if i['user_api'] == 'pyblitz']\n"
        "from pyblitz import _threadpoolctl\n"
        "for _ in range(2): _threadpoolctl.register()",
    ],
    ids=["before", "after"],
)
def test_threadpoolctl(script, imports):
    """Listed once, limited by either name, restored; a limit on others leaves the pool alone."""
    pytest.importorskip("threadpoolctl", reason="the extra `neighbours`")
    out = script(
        f"""
{imports}
import numpy as np, native_capi as capi
{CONTROL}
assert listed() == [4] == [used()], listed()
info = next(i for i in tc.threadpool_info() if i["user_api"] == "pyblitz")
assert info["version"] == pb.__version__ and "pools" in info["filepath"]
for limits in (dict(limits=1), dict(limits=2, user_api="pyblitz"), dict(limits={{"pyblitz": 3}})):
    with tc.threadpool_limits(**limits):
        n = limits["limits"]
        n = n if isinstance(n, int) else n["pyblitz"]
        assert listed() == [n] == [used()] == [pb.num_threads()]
        with tc.threadpool_limits(7, user_api="pyblitz"):
            assert used() == 7
        assert used() == n
    assert listed() == [4] == [used()]
with tc.threadpool_limits(10**6, user_api="pyblitz"):
    assert listed() == [16384]
# Inside other pools the limit is still the global one's, and is given back.
def inside():
    with tc.threadpool_limits(1):
        return pb.num_threads(), listed()
with pb.ThreadPool(3) as pool:
    assert pool.install(inside) == (3, [1])
    assert pool.submit(inside).result() == (3, [1])
assert listed() == [4] == [used()]
print("limited")
""",
        env={"PYBLITZ_NUM_THREADS": "4"},
    )
    assert out == "limited\n"


def test_a_limit_on_others_keeps_the_threads(script):
    """threadpoolctl gives every library its number back: that ends no thread of ours."""
    pytest.importorskip("threadpoolctl", reason="the extra `neighbours`")
    script(
        """
import os, threadpoolctl as tc, pyblitz as pb, numpy as np, native_capi as capi
def ids():
    return sorted(t for t in os.listdir("/proc/self/task")
                  if open(f"/proc/self/task/{t}/comm").read().startswith("pyblitz-"))
capi.call_roll()
before = ids()
assert len(before) == 3
for _ in range(5):
    with tc.threadpool_limits(1, user_api="blas"):
        assert capi.inside()[0] == 4
    with tc.threadpool_limits({"pyblitz": 4}):
        capi.fib(10)
capi.call_roll()
assert ids() == before
""",
        env={"PYBLITZ_NUM_THREADS": "4"},
    )


@pytest.mark.parametrize("old", ["", "register = None; del register", "del LibController"])
def test_import_without_threadpoolctl(script, tmp_path, old):
    """Not imported by us; none, or one without a registry, is no obstacle."""
    (tmp_path / "threadpoolctl.py").write_text(f"class LibController: pass\n{old}\n")
    loads = "import threadpoolctl; " if old else ""
    assert (
        script(
            f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {loads}import pyblitz\n"
            "print('threadpoolctl' in sys.modules, pyblitz.par_sort([2, 1]))"
        )
        == f"{bool(old)} [1 2]\n"
    )
