"""What a process makes when it is first asked for, asked for by many threads at once: it is made
once, or all but one of those that were made are given back unused.  pyblitz/runtime/README.md,
5.18, lists what there is."""

import os

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

ROUNDS = 15
# Each child has nothing yet: what its parent had made is the parent's.  At last comes the parent
# itself, in which nothing of pyblitz has run either.
PROGRAM = """
import os, sys, threading, traceback
import native_capi, native_forks, native_runtime
import pyblitz as pb

sys.setswitchinterval(1e-6)     # so that they meet in the middle of things
{before}

def at_once(n, first):
    '''first(i) in n threads, none of which begins before all are there.'''
    barrier = threading.Barrier(n)
    results = [None] * n
    def main(i):
        barrier.wait()
        results[i] = first(i)
    threads = [threading.Thread(target=main, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results

def here():
    return threading.get_native_id()

def check():
{check}

for _ in range({rounds}):
    child = os.fork()
    if child == 0:
        try:
            check()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
check()
print("done")
"""
# name: (threads of the global pool, before, check)
FIRST = {
    # A pool of two has one thread for such a job, so two pools would show as two threads.
    "the global pool": (
        2,
        "",
        """
        seen = at_once(16, lambda i: [pb.spawn(here).result() for _ in range(5)])
        assert len({thread for row in seen for thread in row}) == 1, seen
        assert pb.num_threads() == 2
        """,
    ),
    # Jobs of one key, from everywhere: two lanes of it would run them at the same time, and on
    # two workers.
    "the lanes of the process": (
        4,
        "",
        """
        keys = native_forks.Keys(1, 16 * 50)
        at_once(16, lambda i: keys.submit(0, 1, 50, 0, 50))
        keys.wait()     # for all, so none was lost
        assert keys.outcome()[2:] == (0, 1)
        """,
    ),
    "the threads of the pool": (
        4,
        "",
        """
        seen = at_once(8, lambda i: pb.broadcast(here))
        assert all(row[1:] == seen[0][1:] for row in seen), seen
        assert len(set(seen[0])) == 4
        """,
    ),
    # More callers inside than the first block has: they make the next one.
    "a block of guests": (
        2,
        "",
        """
        inside = threading.Barrier(80)
        def first(i):
            with pb.scope() as s:
                inside.wait(60)
                index = native_capi.inside()[1]
                futures = [s.spawn(pow, i, 2) for _ in range(3)]
                inside.wait(60)
            assert [f.result() for f in futures] == [i * i] * 3
            return index
        assert len(set(at_once(80, first))) == 80
        """,
    ),
    "the pool of a number of threads": (
        4,
        "",
        """
        def first(i):
            with pb.threads(2):
                return pb.spawn(here).result()
        assert len(set(at_once(16, first))) == 1
        """,
    ),
    # It made one for each of those who came first, and forgot all but the last: jobs were not
    # done when close returned, and those of one key ran at the same time.
    "a ThreadPool after a fork": (
        4,
        "pool = pb.ThreadPool(2)",
        """
        jobs = at_once(16, lambda i: [pool.submit(here, affinity="key") for _ in range(5)])
        pool.close()
        jobs = [job for row in jobs for job in row]
        assert all(job.done() for job in jobs)
        assert len({job.result() for job in jobs}) == 1
        """,
    ),
    "a ThreadPool whose __init__ is called twice": (
        4,
        "",
        """
        pool = pb.ThreadPool.__new__(pb.ThreadPool)
        def first(i):
            try:
                pool.__init__(2)
            except RuntimeError as e:
                assert "called twice" in str(e)
                return 0
            return 1
        assert sum(at_once(8, first)) == 1
        assert pool.submit(pow, 2, 10).result() == 1024
        pool.close()
        """,
    ),
}


@pytest.mark.parametrize("what", FIRST)
def test_made_once(script, what):
    threads, before, check = FIRST[what]
    out = script(
        PROGRAM.format(before=before, check=check.replace("\n        ", "\n    "), rounds=ROUNDS),
        env={"PYBLITZ_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1"},
    )
    assert out == "done\n"
