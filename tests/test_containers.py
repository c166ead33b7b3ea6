"""Little to live on: quotas, one CPU, refused threads, small stacks, small address spaces."""

import contextlib
import errno
import os
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux's ways to be short of it")

BUILD = os.environ.get("PYBLITZ_BUILD", "debug")
plain_build = pytest.mark.skipif(BUILD != "debug", reason="sanitizers need the memory")

# What every program here does: each part of the package, against what is right.
WORK = """
import os, resource, threading, concurrent.futures
import numpy as np
import pyblitz as pb
import native_capi as capi
A = np.random.default_rng(0).random(200_000)
B = A.astype(">f8")
T = A.reshape(200, 1000)
U = (A * 200).astype("u1")
ONES = np.ones(200_000, "f4")
JOBS = [
    (lambda: pb.par_map(np.sqrt, A), np.sqrt(A)),
    (lambda: pb.par_map(np.sqrt, B), np.sqrt(A)),
    (lambda: pb.par_map(lambda x: x + 1, A), A + 1),
    (lambda: pb.par_reduce(np.maximum, A), A.max()),
    (lambda: pb.par_reduce(np.maximum, T, axis=1), T.max(1)),
    (lambda: pb.par_sort(A), np.sort(A)),
    (lambda: pb.par_sort(A, kind="stable"), np.sort(A)),
    (lambda: pb.par_sort(T, axis=0), np.sort(T, axis=0)),
    (lambda: pb.par_sort(U), np.sort(U)),
    (lambda: (pb.par_iter(A) * 2 + 1).sum() > 2e5, True),
    (lambda: pb.par_dot(ONES[::2], ONES[::-2]), 100_000),
    (lambda: pb.par_copy(T.T), T.T),
    (lambda: pb.par_take(A, U), A[U]),
    (lambda: pb.par_bincount(U), np.bincount(U)),
    (lambda: pb.par_histogram(A, 50)[0], np.histogram(A, 50)[0]),
    (lambda: pb.par_reduceat(np.add, U, [0, 4000], dtype="f8"),
     np.add.reduceat(U, [0, 4000], dtype="f8")),
    (lambda: capi.fib(15), 610),
    (lambda: capi.scope_tree(3, 5), 155),
    (lambda: capi.mark_all(1000, 7)[1], [1] * 1000),
]
def pooled():
    with pb.ThreadPool(4) as pool:
        futures = [pool.submit(pow, 2, k, affinity=k % 3 or None) for k in range(30)]
        return [f.result() for f in futures] + [pool.install(capi.fib, 10)]
JOBS.append((pooled, [2**k for k in range(30)] + [55]))
def work():
    '''How many of the jobs had memory enough; the others said so.'''
    done = 0
    for job, expected in JOBS:
        try:
            got = job()
        except MemoryError:
            continue
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (limits[1],) * 2)    # the comparison needs some
        assert np.array_equal(got, expected), (job, got)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        done += 1
    return done
def pool_threads():
    names = (open(f"/proc/self/task/{t}/comm").read() for t in os.listdir("/proc/self/task"))
    return sum(name.startswith("pyblitz-") for name in names)
def vsz():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[0]) * resource.getpagesize()
"""
ALL = 20


# ---- control groups ---------------------------------------------------------


@pytest.fixture
def group():
    """group(quota in us or None, ...) makes nested control groups of this machine; returns
    how to enter the innermost one.  They go away at the end."""
    root = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError):
        if "cpu" in (root / "cgroup.subtree_control").read_text().split():
            v2 = True
        elif (root / "cgroup.controllers").exists():
            pytest.skip("cgroup v2: no cpu controller for groups below the root")
        else:
            root, v2 = root / "cpu", False
    if not os.access(root / "cgroup.procs", os.W_OK):
        root, v2 = root / "cpu", False
    if not (root / "cgroup.procs").exists() or not os.access(root, os.W_OK):
        pytest.skip("no control group that this user may write to is mounted")
    made = []

    def make(*quotas):
        path = root
        for i, quota in enumerate(quotas):
            if v2 and i:
                (path / "cgroup.subtree_control").write_text("+cpu")
            path = path / f"pyblitz-test-{os.getpid()}-{i}"
            try:
                path.mkdir()
                made.append(path)
                if v2:
                    (path / "cpu.max").write_text(f"{quota or 'max'} 100000")
                elif quota:
                    (path / "cpu.cfs_quota_us").write_text(str(quota))
            except OSError as e:
                pytest.skip(f"no quotas for groups here: {e}")
        return lambda: (path / "cgroup.procs").write_text(str(os.getpid()))

    yield make
    for path in reversed(made):
        path.rmdir()


@pytest.mark.parametrize(
    ("quotas", "cpus"),
    [((50_000,), 0.5), ((150_000,), 1.5), ((100_000, None), 1.0), ((300_000, 50_000), 0.5)],
)
def test_a_real_quota(script, group, quotas, cpus):
    """A process in a group of the kernel's own, nested or not."""
    out = script(
        f"{WORK}\nfrom pyblitz.host.config import cgroup_quota\n"
        "print(cgroup_quota(), pb.num_threads(), work(), capi.inside()[0])",
        preexec_fn=group(*quotas),
        env={"PYBLITZ_NUM_THREADS": ""},
    )
    threads = min(int(np.ceil(cpus)), len(os.sched_getaffinity(0)))
    assert out.split() == [str(cpus), str(threads), str(ALL), str(threads)]


# ---- CPUs -------------------------------------------------------------------


@pytest.mark.parametrize("threads", ["", "4"])
@pytest.mark.parametrize("cpu", [0, -1])
def test_one_cpu(script, cpu, threads):
    """The mask gives the number; more threads than that still get to the end."""
    one = sorted(os.sched_getaffinity(0))[cpu]
    out = script(
        f"{WORK}\nprint(pb.num_threads(), work(), sum(capi.call_roll()), pool_threads())",
        preexec_fn=lambda: os.sched_setaffinity(0, {one}),
        env={"PYBLITZ_NUM_THREADS": threads},
    )
    n = int(threads or 1)
    assert out.split() == [str(n), str(ALL), str(n), str(n - 1)]


# ---- threads ----------------------------------------------------------------


@pytest.mark.skipif(os.getuid() != 0, reason="needs a user of its own to be limited exactly")
@pytest.mark.parametrize("room", [0, 1, 2])
def test_a_limit_on_threads(script, room):
    """RLIMIT_NPROC ends the starts half way: the rest of the pool does the work."""
    out = script(
        f"""{WORK}
os.setuid(61_000 + os.getpid() % 1000)      # root is not limited
resource.setrlimit(resource.RLIMIT_NPROC, (len(os.listdir("/proc/self/task")) + {room},) * 2)
pb.set_num_threads(6)
roll = sum(capi.call_roll())
done = [work() for _ in range(5)]
tally = capi.Tally()
capi.submit_many(tally, 100)
tally.reach(100)
print(roll, pool_threads(), set(done), tally.value)
try:
    threading.Thread(target=int).start()
except RuntimeError:
    print("no thread is left")
""",
        env={"OPENBLAS_NUM_THREADS": "1"},
    )
    assert out.splitlines()[0] == f"{room + 1} {room} {{{ALL}}} 100"
    assert out.splitlines()[1:] == ["no thread is left"]


@plain_build
def test_a_limit_on_threads_for_anyone(script):
    """Not below what runs already: every start is refused."""
    script(
        f"""{WORK}
if os.getuid() == 0:
    os.setuid(61_000 + os.getpid() % 1000)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
pb.set_num_threads(4)
assert work() == {ALL} and pool_threads() == 0
""",
        env={"OPENBLAS_NUM_THREADS": "1"},
    )


@pytest.mark.skipif(os.getuid() != 0, reason="needs a user of its own to be limited exactly")
def test_jobs_of_a_thread_that_python_does_not_know_where_no_thread_starts(script):
    """It has the only place, and runs what it submits: exceptions are heard of all the same."""
    out = script(
        f"""{WORK}
import sys
heard = []
sys.unraisablehook = lambda u: heard.append(repr(u.exc_value))
os.setuid(61_000 + os.getpid() % 1000)
resource.setrlimit(resource.RLIMIT_NPROC, (len(os.listdir("/proc/self/task")) + 1,) * 2)
pb.set_num_threads(3)
print(capi.stranger("u", "k", "e"), heard, pool_threads())
""",
        env={"OPENBLAS_NUM_THREADS": "1"},
    )
    assert out == """[0, 0, 0] ["KeyError('here')", "KeyError('here')"] 0\n"""


# ---- stacks -----------------------------------------------------------------


@plain_build
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_stack_of_a_call(native, pool_size, threads):
    """A caller that Python does not know, on the least stack that threads have (16 KiB);
    a page is enough once the pool runs.

    Measured (gcc 12, x86-64): run, submit 375 bytes; join 520 to 590; scope 890;
    parallel_for 740 and 230 more for each halving: 3,000 for 1,000 items one by one.  A call
    that starts a thread: 5,300 to 8,500, of which most are glibc's (dynamic linking)."""
    stack_of, least = native.stack.stack_of, native.stack.LEAST
    pool_size(threads)
    kernels = {"run": 1, "join": 2, "parallel_for": 1000, "scope": 1000, "submit": 1, "fail": 1}
    assert set(kernels) == set(native.stack.WHAT)
    native.capi.inside()  # makes the pool, but starts no thread
    for what, n in kernels.items():
        used, ran = stack_of(what, least)
        assert ran == n
        assert used < least - 4096
    native.capi.call_roll()
    for what, n in kernels.items():
        used, ran = zip(*[stack_of(what, least) for _ in range(50)], strict=True)
        assert set(ran) == {n}
        assert max(used) < 4096, what


def test_a_python_thread_with_a_small_stack(script):
    """Python's least: 32 KiB."""
    out = script(f"""{WORK}
pb.set_num_threads(3)
def fails(x):
    raise LookupError(x[0])
def main():
    for _ in range(3):
        results.append(work())
        try:
            pb.par_map(fails, A)
        except LookupError as e:
            results.append(bool(e.args[0] == A[0]))
results = []
threading.stack_size(32768)
for _ in range(2):
    t = threading.Thread(target=main)
    t.start()
    t.join()
print(results)
""")
    assert out == f"{[ALL, True] * 6}\n"


# ---- memory -----------------------------------------------------------------


@plain_build
@pytest.mark.parametrize("room", [0, 1 << 16, 1 << 19, 1 << 21, 1 << 23, 1 << 24, 1 << 26, 1 << 28])
def test_low_memory(script, room):
    """From just above what the imports need: MemoryError or the right result, and with the
    limit gone all of them."""
    out = script(f"""{WORK}
limit = vsz() + {room}
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
done = [work() for _ in range(3)]
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
pb.set_num_threads(3)
print(max(done), work(), sum(capi.call_roll()))
""")
    done, later, roll = map(int, out.split())
    assert (later, roll) == (ALL, 3)
    # Between them, threads take what arrays would need.
    assert done == ALL if room == 1 << 28 else room > 1 << 16 or done < ALL


@plain_build
def test_failures_without_memory_to_tell_of_them(script):
    """Of two that find no memory for their record the lower one counts, also when it is the second.
    (The loop returned 0, as if all of it had been done: sums were of what the others had.)"""
    out = script(f"""{WORK}
pb.set_num_threads(2)
capi.call_roll()
limit = vsz() + (1 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
print(*[capi.fails_twice_without_memory() for _ in range(3)])
""")
    assert out == f"{errno.ENOMEM} {errno.ENOMEM} {errno.ENOMEM}\n"


@plain_build
def test_no_memory_for_the_state_of_a_thread(script):
    """A thread that Python has no memory for is refused, as one that the system has no place for,
    the first time and after it retired: what was for it runs elsewhere, and it is tried again.  It
    crashed; then it started late, and what was bound to it waited for ever."""
    out = script(f"""{WORK}
import native_states, time
pb.set_num_threads(3)
native_states.starve(3)
assert sum(capi.call_roll()) == 1
end = time.monotonic() + 60
while sum(capi.call_roll()) < 3:
    assert time.monotonic() < end
    time.sleep(0.05)
assert native_states.refused() == 3
with pb.ThreadPool(2, idle_timeout=0.001) as pool:
    for k in range(3):
        native_states.starve(1)
        while native_states.refused() < 1:
            assert pool.submit(pow, 2, k, affinity=k % 2).result() == 2**k
            time.sleep(0.001)   # as long as its threads stay idle
native_states.starve(1 << 60)
with pb.ThreadPool(3) as pool:
    futures = [pool.submit(pow, 2, k, affinity=k % 3 or None) for k in range(30)]
    assert [f.result() for f in futures] == [2**k for k in range(30)]
    assert native_states.refused() >= 2
native_states.starve(0)
print(work())
""")
    assert out == f"{ALL}\n"


@plain_build
def test_no_memory_for_a_large_pool(script):
    """16,384 threads that have no room: nothing is left of them, and what was goes on."""
    out = script(f"""{WORK}
import gc
pb.set_num_threads(3)
capi.call_roll()
def fails(function):
    try:
        function(16384)
    except MemoryError as e:
        return "no memory for a pool of 16384 threads" in str(e)
resource.setrlimit(resource.RLIMIT_AS, (vsz() + (8 << 20), resource.RLIM_INFINITY))
assert fails(pb.set_num_threads) and fails(pb.ThreadPool)
before = vsz()
for _ in range(50):
    assert fails(pb.set_num_threads) and fails(pb.ThreadPool)
grown = vsz() - before
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
assert pb.num_threads() == 3 and sum(capi.call_roll()) == 3
with pb.ThreadPool(16384) as pool:
    assert pool.submit(pow, 2, 3).result() == 8
print(work(), grown <= 1 << 20)
""")
    assert out == f"{ALL} True\n"
