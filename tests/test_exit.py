"""The end of the interpreter, whatever runs then; imports from odd places."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest
from programs import EACH

# Races with the end are run so often; more where delays at named points widen them.
TIMES = 8 if os.environ.get("PYBLITZ_BUILD") == "debug" else 2

COMMON = (
    """
import atexit, os, sys, threading, time
import numpy as np
import pyblitz as pb
"""
    + EACH
    + """def check():
    assert pb.par_reduce(np.add, A) == SUM
    assert pb.par_sort(A[::-1])[0] == 0
    assert each(lambda k: k, 9) == list(range(9))
    with pb.ThreadPool(2) as pool:
        assert pool.submit(pow, 2, 3).result() == pool.install(pow, 2, 3) == 8
        assert pool.submit(pow, 2, 4, affinity="key").result() == 16
"""
)


@pytest.fixture
def quiet(script):
    """Runs a program, which must end well and say nothing on stderr; what it printed."""

    def run(source, common=COMMON, **kwargs):
        done = script(common + source, check=False, **kwargs)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    return run


# ---- work at the end --------------------------------------------------------

WORK = {
    "map": "pb.par_map(np.sin, A)",
    "blocks": "each(lambda k: k, 40)",
    "reduce": "pb.par_reduce(np.add, A)",
    "pools": "check()",
    "replace": "pb.set_num_threads(2); some()",
    "kept pools": "keep[i % 9:] = [p := pb.ThreadPool(3)]; p.submit(some); p.install(some)",
    "forgotten pools": "pb.ThreadPool(2).submit(time.sleep, 0)",
    "keys": "keep[:] = [own.submit(some, affinity=k) for k in range(5)]; keep[-1].result()",
}


@pytest.mark.parametrize(
    ("work", "daemon"),
    [*((work, True) for work in WORK), ("map", False), ("pools", False), ("keys", False)],
)
def test_threads_at_work(quiet, work, daemon):
    """Daemons are cut off in the middle, others end by themselves."""
    for _ in range(TIMES if daemon else 1):
        quiet(f"""
pb.set_num_threads(3)
own = pb.ThreadPool(2)
kept = []
some = lambda: each(lambda k: pb.par_map(np.sin, A[:50_000]).size, 4)
busy = threading.Barrier(4)
def work():
    kept.append(keep := [])     # to live until the end
    for i in range(1_000_000 if {daemon} else 5):
        try:
            {WORK[work]}
        except RuntimeError as e:
            # Only at the end.
            assert "closed" in str(e) or "shutting down" in str(e), e
        if i == 2:
            busy.wait()
for _ in range(3):
    threading.Thread(target=work, daemon={daemon}).start()
busy.wait()
""")


def test_first_use_of_all_by_a_daemon(quiet):
    for _ in range(TIMES):
        quiet("""
begin = threading.Barrier(3)
def use():
    begin.wait()
    try:
        check()
    except RuntimeError as e:
        assert "closed" in str(e)       # by the end
for _ in range(2): threading.Thread(target=use, daemon=True).start()
begin.wait()
""")


def test_the_global_pool_made_while_the_end_begins(quiet):
    """It has no threads then.  (Once it had, when the end came while the number was found.)"""
    out = quiet(
        """
from pyblitz.host import pools
def slow():
    asked.set()
    ended.wait()
    return 4
asked, used = threading.Event(), threading.Event()
pools.default_num_threads = slow
threading.Thread(target=lambda: (check(), numbers.append(pb.num_threads()), used.set()),
                 daemon=True).start()
asked.wait()
""",
        """
import atexit, threading
ended, numbers = threading.Event(), []
@atexit.register        # before pyblitz registers its own: so called after it
def last():
    ended.set()
    used.wait()
    print(numbers)
"""
        + COMMON,
    )
    assert out == "[1]\n"


def test_pools_are_made_while_the_end_looks_for_them(quiet):
    """(Once the set of open pools must not change meanwhile.)"""
    for _ in range(TIMES):
        quiet("""
sys.setswitchinterval(1e-6)
keep = [pb.ThreadPool(1) for _ in range(1000)]
def work():
    while True:
        try:
            with pb.ThreadPool(1): pass
        except RuntimeError:
            pass        # the end has closed it
for _ in range(2): threading.Thread(target=work, daemon=True).start()
""")


def test_the_number_is_set_inside_an_operation_at_the_end(quiet):
    """It is refused.  (Once it waited for the end, which waited for the operation.)"""
    out = quiet("""
inside, ending = threading.Event(), threading.Event()
atexit.register(ending.set)         # called before pyblitz's own
def block(k):
    inside.set()
    ending.wait()
    try:
        while True:
            pb.set_num_threads(2)
    except RuntimeError as e:
        os.write(1, f"{e}\\n".encode())
    return k
threading.Thread(target=each, args=(block, 1), daemon=True).start()
inside.wait()
""")
    assert out == "set_num_threads: the interpreter is shutting down\n"


def test_a_pool_that_a_daemon_is_closing(quiet):
    """What it accepted is finished all the same."""
    out = quiet("""
ending = threading.Event()
atexit.register(ending.set)
def job(k):
    ending.wait()
    os.write(1, b"%d " % k)
def work():
    for k in range(40): pool.submit(job, k)
    pool.close()
pool = pb.ThreadPool(3)
threading.Thread(target=work, daemon=True).start()
while "closed" not in repr(pool): time.sleep(0)
""")
    assert sorted(map(int, out.split())) == list(range(40))


@pytest.mark.parametrize("how", ["sys.exit()", "pass"])
def test_pending_futures(quiet, how):
    """They are done, keyed or not, with their callbacks."""
    out = quiet(f"""
done = []
pool = pb.ThreadPool(3)
gate = threading.Event()
futures = [pool.submit(lambda k: gate.wait() and each(lambda i: i, 5) and k, k,
                       affinity=k % 3 or None) for k in range(30)]
for f in futures: f.add_done_callback(lambda f: done.append(f.result()))
one = pb.ThreadPool(1)
one.submit(done.append, 30)
atexit.register(gate.set)
threading.Thread(target=atexit.register, args=(len, ())).start()
class Last:
    def __del__(self): os.write(1, repr(sorted(done)).encode())
last = Last()
{how}
""")
    assert out == repr(list(range(31)))


USE = """
def use(where):
    check()
    os.write(1, f"{where} ".encode())
"""


def test_used_in_atexit_del_and_late_threads(quiet):
    """All roads are open until the last line of Python."""
    before = """
import atexit
atexit.register(lambda: use("atexit-after"))
"""
    for _ in range(TIMES):
        out = quiet(
            USE
            + """
class Late:
    def __init__(self, where): self.where = where
    def __del__(self, use=use): use(self.where)
late, circle = Late("del"), Late("circle")
circle.me = circle
atexit.register(use, "atexit-before")
def thread():
    threading.main_thread().join()
    use("thread")
threading.Thread(target=thread).start()
pool = pb.ThreadPool(2)
pool.submit(use, "job").result()
""",
            before + COMMON,
        )
        expected = {"job", "thread", "atexit-before", "atexit-after", "del", "circle"}
        assert set(out.split()) == expected


@pytest.mark.parametrize("when", ["import", "use"])
def test_first_used_when_main_has_ended(quiet, when):
    """By a thread that is waited for."""
    out = quiet(
        f"""
import os, threading
common = {COMMON + "check()"!r}
if {when == "use"}:
    import pyblitz
def thread():
    threading.main_thread().join()
    exec(common, {{}})
    os.write(1, b"done")
threading.Thread(target=thread).start()
""",
        "",
    )
    assert out == "done"


# ---- imports ------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("how", ["threading.Thread(target=load)", "Runner()"])
def test_imported_by_a_thread(quiet, how):
    """Then it works in the main thread too, and Ctrl-C is seen there: in the first of many
    blocks that wait, one after the other."""
    out = quiet(
        f"""
import os, signal, threading, _thread
def load():
    global common
    exec({COMMON!r}, globals())
    check()
    loaded.set()
class Runner:
    def start(self): _thread.start_new_thread(load, ())
loaded = threading.Event()
{how}.start()
loaded.wait()
check()
calls = 0
def block(k):
    global calls
    calls += 1
    if calls == 2:
        os.kill(os.getpid(), signal.SIGINT)
    return k
seen = 0
def handler(*args):
    global seen
    seen += 1
    raise KeyboardInterrupt
signal.signal(signal.SIGINT, handler)
with pb.ThreadPool(1) as pool:
    try: pool.install(each, block, 1_000_000)
    except KeyboardInterrupt: print("interrupted", seen, calls < 1_000_000)
# Without the GIL: nothing but pyblitz sees the signal.
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
import native_capi
try: native_capi.nest(9, 9)
except KeyboardInterrupt: print("interrupted", seen)
check()
""",
        "",
    )
    assert out == "interrupted 1 True\ninterrupted 2\n"


def test_imported_again(quiet):
    """Reloaded, or removed and imported: it is one and the same scheduler."""
    quiet("""
import importlib
first, open_ = pb, pb.ThreadPool(2)
for names in [], ["pyblitz"], ["pyblitz.host.config"], [n for n in sys.modules if "pyblitz" in n]:
    assert importlib.reload(pb) is pb
    check()
    for name in names:
        del sys.modules[name]
    import pyblitz as pb
    check()
    first.set_num_threads(3)
    assert pb.num_threads() == 3
    pb.set_num_threads(2)
    assert first.num_threads() == 2
    assert pb.ThreadPool is first.ThreadPool
    assert open_.install(pb.num_threads) == 2
    for name in "host.pools", "arrays.map":
        importlib.reload(sys.modules["pyblitz." + name])
        check()
""")


def test_imported_by_many_threads_at_once(quiet):
    for _ in range(3):
        quiet(
            f"""
import threading
begin = threading.Barrier(6)
def load():
    begin.wait()
    exec({COMMON + "check()"!r}, {{}})
for _ in range(6): threading.Thread(target=load).start()
""",
            "",
        )


INTERPRETERS = next(
    (m for m in ("_interpreters", "_xxsubinterpreters") if importlib.util.find_spec(m)), None
)


@pytest.mark.skipif(INTERPRETERS is None, reason="this Python has no sub-interpreters to test")
@pytest.mark.parametrize(
    ("outer", "inner"),
    [("", ""), ("import numpy", ""), ("import pyblitz", ""), ("", "import array, threading")],
)
def test_subinterpreters_are_refused(script, outer, inner):
    """In pyblitz's words, whoever has imported what; and the main one may go on."""
    out = script(f"""
import sys
{outer}
import {INTERPRETERS} as interpreters
other = interpreters.create()
def run(source):
    try: failed = interpreters.run_string(other, source)
    except Exception as e: failed = e
    assert failed is None, failed
run('''
{inner}
for _ in range(2):
    try:
        import pyblitz
    except ImportError as e:
        print(e)
''')
interpreters.destroy(other)
{COMMON}
check()
print("main")
""")
    message = "pyblitz cannot be used in a sub-interpreter: its threads belong to the main one"
    assert out.splitlines() == [message, message, "main"]


def test_what_ends_with_a_thread_may_ask_for_the_number_of_threads(script):
    """The threads of a replaced pool are joined without the lock that it takes."""
    out = script("""
import threading
import numpy as np, pyblitz as pb
local, main, said = threading.local(), threading.get_ident(), []
class Bye:
    def __del__(self):
        said.append(pb.num_threads())
def leaf(block):
    if threading.get_ident() != main and not hasattr(local, "bye"):
        local.bye = Bye()
        elsewhere.set()
    return block * 2
elsewhere = threading.Event()
pb.set_num_threads(2)
while not elsewhere.is_set():
    pb.par_map(leaf, np.arange(8e6))
pb.set_num_threads(3)
print(said)
""")
    assert out.split() == ["[3]"]
