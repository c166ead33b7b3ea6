"""Forked, spawned and served processes: each has fresh pools, whenever it was made."""

from __future__ import annotations

import ast
import multiprocessing
import os
import sys

import pytest
from programs import EACH, POOL_THREADS

linux = pytest.mark.skipif(sys.platform != "linux", reason="forks with threads")
METHODS = [
    pytest.param(m, marks=linux if m == "fork" else ())
    for m in multiprocessing.get_all_start_methods()
]

# A file, for spawned processes import it.
COMMON = (
    """
import atexit, faulthandler, os, sys, threading
import multiprocessing as mp
from concurrent.futures import ProcessPoolExecutor
import numpy as np
import pyblitz as pb
"""
    + EACH
    + """def check(*pools):
    assert pb.par_map(np.sqrt, A)[9] == 3
    assert pb.par_reduce(np.add, A) == SUM
    assert pb.par_sort(A[::-1])[0] == 0
    assert each(lambda k: k, 9) == list(range(9))
    with pb.ThreadPool(2) as own:
        for pool in (own, *pools):
            assert pool.submit(pow, 2, 3).result() == 8
            assert pool.install(pb.num_threads) == pool.num_threads
            log = []
            jobs = [pool.submit(log.append, k, affinity="key") for k in range(40)]
            for job in jobs: job.result()
            assert log == list(range(40))
    return 7
def watch(seconds=30):
    # A thread, which is not in the children.
    faulthandler.dump_traceback_later(seconds, exit=True)
def fork(child):
    # The status of a child that ends when `child` does; a hang ends, too.
    faulthandler.cancel_dump_traceback_later()
    pid = os.fork()
    if pid == 0:
        try:
            watch()
            child()
        except BaseException:
            __import__("traceback").print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]
"""
)


@pytest.fixture
def program(script, tmp_path):
    """Runs a program whose functions spawned processes find; what it printed.  It must end
    well and say nothing on stderr."""

    def run(source, functions=""):
        (tmp_path / "prog.py").write_text(COMMON + functions)
        start = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom prog import *\n"
        # -Werror would not do: forking with threads warns from 3.12 on.
        done = script(start + source, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    return run


# ---- os.fork ------------------------------------------------------------------

SETUP = """
pb.set_num_threads(3)
own, unused, single = pb.ThreadPool(3), pb.ThreadPool(3), pb.ThreadPool(1)
closed = pb.ThreadPool(2)
closed.close()
caller = threading.get_ident()
parent = os.getpid()
def everything():
    check(own, unused, single)
    try: closed.submit(len, ())
    except RuntimeError: pass
    else: raise AssertionError("closed")
def family():
    everything()
    pb.set_num_threads(2)
    assert fork(lambda: (everything(), fork(everything) and os._exit(2))) == 0
def in_a_block(elsewhere):
    # Forks in one block, in a thread of the pool or in the caller's; both work.
    met, done, forked = threading.Event(), threading.Event(), []
    def block(k):
        here = threading.get_ident() != caller
        if here:
            met.set()
            elsewhere or done.wait(60)      # leaves the others to the caller
        elif k < 2:
            np.sin(A)       # until the others are called in
        else:
            met.wait(60)
        if here == elsewhere and k >= 2 and not forked:
            forked.append(None)
            forked[0] = fork(family)
            done.set()
        return k
    assert each(block, 40) == list(range(40))
    return forked[0]
"""

WHERE = {
    "before use": "fork(family)",
    "after use": "everything(), fork(family)",
    "in install": "own.install(fork, family)",
    "in two": "own.install(unused.install, fork, family)",
    "in a job": "own.submit(fork, family).result()",
    "in a keyed job": "own.submit(fork, family, affinity='key').result()",
    "in a job here": "single.submit(fork, family).result()",
    "in a block of the caller": "in_a_block(False)",
    "in a block elsewhere": "in_a_block(True)",
    "in a job's block": "own.submit(in_a_block, True).result()",
    "in a thread": "crowd(lambda: fork(family))",
    "in a block's thread": "each(lambda k: crowd(lambda: fork(family)) if k == 2 else 0, 9)",
}


@linux
@pytest.mark.parametrize("where", WHERE)
def test_fork(program, where):
    """The child, and the child's child, use everything; the parent goes on."""
    out = program(
        SETUP
        + f"""
def crowd(f):
    results = []
    t = threading.Thread(target=lambda: results.append(f()))
    t.start(), t.join()
    return results[0]
status = {WHERE[where]}
everything()
print(status if type(status) is not tuple and type(status) is not list else
      0 if status[-1] in (0, None) else status)
"""
    )
    assert out == "0\n"


@linux
def test_fork_while_others_are_in_everything(program):
    """The child has none of their operations, locks and jobs."""
    out = program(
        SETUP
        + """
stop = False
def work(f):
    while not stop: f()
def pools():
    with pb.ThreadPool(2) as pool: pool.submit(len, ())
works = [everything, pools, lambda: pb.set_num_threads(3),
         lambda: own.submit(len, (), affinity="key").result()]
threads = [threading.Thread(target=work, args=(f,)) for f in works]
for t in threads: t.start()
statuses = {fork(everything) for _ in range(12)} | {own.submit(fork, everything).result()}
stop = True
for t in threads: t.join()
everything()
print(statuses)
"""
    )
    assert out == "{0}\n"


ENDS = {
    "sys.exit": ("sys.exit(5)", 5, "atexit own "),
    "os._exit": ("os._exit(6)", 6, ""),
    "falls off": ("pass", 0, "atexit own "),
    "raises": ("raise KeyboardInterrupt", None, "atexit own "),
}


@linux
@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("where", ["main", "install", "alone"])
def test_a_child_ends(script, where, how):
    """As any process does: jobs are finished, atexit is called, what it says is flushed.
    In an operation that nobody shares, too."""
    end, status, said = ENDS[how]
    done = script(
        f"""
{COMMON}
own = pb.ThreadPool(3)
check(own)
parent = os.getpid()
atexit.register(lambda: os.getpid() == parent or print("atexit ", end=""))
class Last:
    def __del__(self): os.getpid() == parent or os.write(1, b"")
def life(k=0):
    if k: return k
    pid = os.fork()
    if pid:
        status = os.waitpid(pid, 0)[1]
        print(os.waitstatus_to_exitcode(status), flush=True)
        return k
    watch()
    check(own)
    gate = threading.Event()
    own.submit(lambda: gate.wait() and print("own ", end=""))
    atexit.register(gate.set)
    {end}
    return k
where = {where!r}
life() if where == "main" else own.install(life) if where == "install" else (
    pb.ThreadPool(1).install(each, life, 9))
if os.getpid() == parent: check(own)
""",
        check=False,
    )
    assert done.returncode == 0, done
    assert done.stderr == "" or (how == "raises" and "KeyboardInterrupt" in done.stderr), done
    *child, last = done.stdout.split()
    assert sorted(child) == sorted(said.split())
    assert int(last) == {None: -2}.get(status, status)


@linux
@pytest.mark.parametrize("affinity", [None, "key"])
@pytest.mark.parametrize(
    "end",
    ["os._exit(0)", "pass", "sys.exit(5)", "1 / 0"],
)
def test_a_child_of_a_job_ends(program, end, affinity):
    """It ends with the job, and runs none of the parent's others."""
    out = program(f"""
own = pb.ThreadPool(2)
parent = os.getpid()
def job():
    pid = os.fork()
    if pid: return os.waitpid(pid, 0)[1]
    watch()
    check(own)
    {end}
gate = threading.Event()
first = own.submit(gate.wait, affinity={affinity!r})
jobs = [own.submit(job, affinity={affinity!r})]
jobs += [own.submit(os.write, 1, b"%d " % k, affinity={affinity!r}) for k in range(20)]
gate.set()
print(jobs[0].result(), [j.result() for j in jobs[1:]] and "done", flush=True)
check(own)
""")
    assert sorted(out.split()) == sorted([*map(str, range(20)), "0", "done"])


@linux
@pytest.mark.parametrize("end", ["pass", "sys.exit(0)"])
def test_a_child_leaves_a_shared_operation(program, end):
    """What other threads had taken is not done in the child; it is told so, or exits."""
    out = program(f"""
pb.set_num_threads(2)
caller, parent = threading.get_ident(), os.getpid()
taken, go = threading.Event(), threading.Event()
def block(k):
    if os.getpid() != parent: return k
    if threading.get_ident() != caller:
        taken.set()
        go.wait()
    elif k < 2:
        np.sin(A)
    elif not go.is_set():
        taken.wait()
        pid = os.fork()
        if pid == 0:
            watch(3)
            {end}
            return k
        print(os.waitpid(pid, 0)[1], flush=True)
        go.set()
    return k
try: each(block, 40)
except RuntimeError:
    if os.getpid() == parent: raise
""")
    assert out == "0\n"


# ---- multiprocessing ------------------------------------------------------------

WORKERS = """
def work(k, *args):
    check()
    assert fork(check) == 0 if hasattr(os, "fork") and k == 0 else True
    return k + pb.num_threads() * 100
def target(k, end):
    work(k)
    own = pb.ThreadPool(2)      # open at the end
    own.submit(pow, 2, 3).result()
    exec(end)
def nested(method):
    child = mp.get_context(method).Process(target=work, args=(1,))
    child.start(), child.join()
    return child.exitcode
"""


@pytest.mark.parametrize("used", ["", "check()"])
@pytest.mark.parametrize("method", METHODS)
def test_process(program, method, used):
    """Before the parent's first use and after it, each end."""
    out = program(
        f"""
{used}
context = mp.get_context({method!r})
ends = ["pass", "sys.exit(5)", "os._exit(6)"]
children = [context.Process(target=target, args=(k, end)) for k, end in enumerate(ends)]
for c in children: c.start()
for c in children: c.join()
print([c.exitcode for c in children])
check()
""",
        WORKERS,
    )
    assert out == "[0, 5, 6]\n"


# What a forked child finds depends on where the fork was; others begin anew wherever it was.
EXECUTORS = {
    "fork": ("main", "thread", "block", "job", "working"),
    "spawn": ("main", "block"),
    "forkserver": ("job", "working"),
}


@pytest.mark.parametrize(
    ("method", "where"),
    [
        pytest.param(m, where, marks=linux if m == "fork" else ())
        for m in multiprocessing.get_all_start_methods()
        for where in EXECUTORS[m]
    ],
)
def test_executor(program, method, where):
    """From wherever it is started, also inside operations and while they run."""
    out = program(
        f"""
pb.set_num_threads(2)
def parents():
    with ProcessPoolExecutor(2, mp_context=mp.get_context({method!r})) as executor:
        results = list(executor.map(work, range(3)))
        nest = executor.submit(nested, {method!r}).result()
    check()
    print(*[r % 100 for r in results], nest, flush=True)
stop = False
def busy():
    while not stop: check()
if {where!r} == "main": parents()
if {where!r} == "block":    # the caller's: the others wait for it
    caller, done = threading.get_ident(), threading.Event()
    def block(k):
        if threading.get_ident() != caller: done.wait()
        elif not done.is_set():
            parents()
            done.set()
        return k
    each(block, 5)
if {where!r} == "job":
    with pb.ThreadPool(2) as pool: pool.submit(parents).result()
if {where!r} in ("thread", "working"):
    threads = [threading.Thread(target=busy) for _ in range(2 * ({where!r} == "working"))]
    for t in threads: t.start()
    t = threading.Thread(target=parents)
    t.start(), t.join()
    stop = True
    for t in threads: t.join()
check()
""",
        WORKERS,
    )
    assert out == "0 1 2 0\n"


@linux
@pytest.mark.parametrize("how", ["submit", "fork"])
def test_processes_started_by_a_pool_thread_can_be_terminated(script, how):
    out = script(f"""
import os, signal, subprocess, pyblitz as pb
def start():
    if {how!r} == "submit":
        return subprocess.Popen(["sleep", "60"]).pid
    pid = os.fork()
    return pid or signal.pause()
with pb.ThreadPool(2) as pool:
    pid = pool.submit(start).result()
with open(f"/proc/{{pid}}/status") as f:
    blocked = int(next(line for line in f if line.startswith("SigBlk")).split()[1], 16)
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
print(blocked & 1 << signal.SIGTERM - 1)
""")
    assert out == "0\n"


# What a worker of somebody's pool tells: its process, how many threads it would use, and how many
# of ours it has.
WORKER = (
    POOL_THREADS
    + """
def report(_):
    pb.par_sort(np.arange(3_000_000.0)[::-1])
    return os.getpid(), pb.num_threads(), len(pool_threads())
"""
)


@linux
@pytest.mark.parametrize(
    ("variable", "options", "threads"),
    [
        ("PYBLITZ_NUM_THREADS", {}, 1),
        ("PYBLITZ_NUM_THREADS", {"inner_max_num_threads": 3}, 3),
        # The user's own word, which loky hands on: as many as there are CPUs.
        ("OMP_NUM_THREADS", {}, len(os.sched_getaffinity(0))),
    ],
)
def test_workers_of_loky_share_the_cpus(program, variable, options, threads):
    """As many workers as CPUs have one thread each, or as many as somebody asks loky for."""
    pytest.importorskip("joblib")
    told = program(
        f"""
import joblib
os.environ[{variable!r}] = "7"
n = joblib.cpu_count()
with joblib.parallel_config("loky", n_jobs=n, **{options}):
    print(joblib.Parallel()(joblib.delayed(report)(i) for i in range(4 * n)))
print(pb.num_threads())
""",
        WORKER,
    )
    reports, own = map(ast.literal_eval, told.splitlines())
    assert {n for _, n, _ in reports} == {threads}
    assert all(ours < threads for _, _, ours in reports)
    assert (own == 7) == (variable == "PYBLITZ_NUM_THREADS")


@linux
def test_workers_of_dask_share_the_cpus(program):
    pytest.importorskip("distributed")
    told = program(
        """
from distributed import Client, LocalCluster
with LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=":0") as cluster:
    with Client(cluster) as client:
        print(client.gather(client.map(report, range(8))))
""",
        WORKER,
    )
    reports = ast.literal_eval(told)
    assert len({pid for pid, _, _ in reports}) == 2
    assert {(n, ours) for _, n, ours in reports} == {(1, 0)}


@linux
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python 3.12 makes that lock anew first")
def test_fork_while_a_thread_begins(script):
    """The child hung: up to 3.11.7 Python takes the lock of its thread states in the child
    before it makes it anew, and a thread of ours held it at the fork."""
    out = script("""
import faulthandler, os, time
import native_states
faulthandler.dump_traceback_later(30, exit=True)
for _ in range(20):
    native_states.start(2)
    time.sleep(0.002)   # they are to be at it
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    native_states.stop()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
print("alive", flush=True)
os._exit(0)
""")
    assert out == "alive\n"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_child_of_one_thread_shares_its_calls(script):
    """Its number of threads is the default one again, from its first call on."""
    out = script(
        """
import os
import numpy as np
import pyblitz as pb
def threads():
    tasks = os.listdir("/proc/self/task")
    names = [open(f"/proc/self/task/{task}/comm").read() for task in tasks]
    return sum(name.startswith("pyblitz-") for name in names)
a = np.ones(2_000_000)
pb.set_num_threads(1)
pb.par_map(np.sqrt, a)
pid = os.fork()
if pid == 0:
    for _ in range(20):
        pb.par_map(np.sqrt, a)
    print(threads() > 0, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print(threads())
""",
        env={"PYBLITZ_NUM_THREADS": "3"},
    )
    assert out == "True\n0\n"
