"""What programs that tests run in processes of their own begin with."""

import inspect
import os
import time


def pool_threads():
    """The names of this process's pool threads."""
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as f:
                names.append(f.read().strip())
        except OSError:  # ended meanwhile
            continue
    return sorted((n for n in names if n.startswith("pyblitz-")), key=lambda n: int(n[8:]))


def wait_for_threads_to_end(before=()):
    """Those that came since; the watchdog ends a wait in vain.  Linux lists a thread for a
    moment after pthread_join."""
    while len(pool_threads()) > len(before):
        time.sleep(0.001)


POOL_THREADS = "import os, time\n" + "".join(
    inspect.getsource(f) for f in (pool_threads, wait_for_threads_to_end)
)

# `each(f, n)` calls f(0) .. f(n - 1) in n blocks.
EACH = """
A = np.arange(1_000_000.0)
SUM = A.sum()
ITEM = np.zeros((), "V524288")      # beside it, each element is a block
def each(f, n):
    blocks = lambda ks, _: np.array([f(int(k)) for k in ks])
    out = np.zeros(n, int)
    return pb.par_map(blocks, np.arange(n), np.broadcast_to(ITEM, n), out=out).tolist()
"""
