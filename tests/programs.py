"""What programs that tests run in processes of their own begin with."""

import ctypes
import gc
import inspect
import os
import sys
import sysconfig
import threading
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

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def held(*objects):
    """What this process has: objects that the garbage collector knows, references to these,
    blocks of Python's memory, bytes of all memory, and bytes that C has allocated."""
    if FREE_THREADED:
        # At a process's second thread, 3.13 makes functions and classes immortal: the collector
        # knows them no more.  Here before anything is counted.
        t = threading.Thread(target=int)
        t.start()
        t.join()
        # An immortal class has 2**32 - 1 references for ever; later versions count a class's
        # instances by thread, elsewhere.  Other objects' counts are exact.
        objects = [o for o in objects if not isinstance(o, type)]
    for _ in range(3):
        gc.collect()
    with open("/proc/self/statm") as f:
        resident = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    references, allocated = sum(map(sys.getrefcount, objects)), from_malloc()
    return len(gc.get_objects()), references, sys.getallocatedblocks(), resident, allocated


class MallInfo(ctypes.Structure):
    _fields_ = [(f"f{i}", ctypes.c_size_t) for i in range(10)]


def from_malloc():
    """Zero where the C library cannot tell."""
    call = getattr(ctypes.pythonapi, "mallinfo2", None)
    if call is None:
        return 0
    call.restype = MallInfo
    info = call()
    return info.f4 + info.f7  # hblkhd, uordblks: mapped, and in use of the arenas


def assert_nothing_leaked(before, after, rounds):
    growth = [b - a for a, b in zip(before, after, strict=True)]
    objects, references, blocks, resident, allocated = growth
    assert objects <= 0, growth
    assert references <= 0, growth
    # Interned and cached by Python itself.  A free-threaded one keeps up to 254 for each thread
    # until no other can be reading them (the chunks of its obmalloc.c).
    assert blocks < (1000 if FREE_THREADED else 100), growth
    # A block of malloc's has 32 bytes at least.
    assert allocated < 16 * rounds, growth
    # The allocator of a free-threaded Python, mimalloc, keeps hundreds of bytes a round of what
    # one thread has allocated and another freed: there only mappings, of whole pages, show here.
    assert resident < (2048 * rounds if FREE_THREADED else 2**20), growth
    return growth


HELD = (
    "import ctypes, gc, os, sys, sysconfig, threading\n"
    'FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))\n'
) + "".join(inspect.getsource(f) for f in (held, MallInfo, from_malloc, assert_nothing_leaked))

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
