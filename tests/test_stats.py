"""Counts and times of the workers, and the timeline."""

import itertools
import json
import os
import re
import threading
from xml.etree import ElementTree

import numpy as np
import pytest
from pyblitz.host.recording import Recording

import pyblitz as pb

A = np.random.default_rng(0).random(1_000_000)
SHOWN = {"busy", "waiting", "searching", "sleeping"}


def caller(stats):
    return [w for w in stats.workers if w.name.startswith("caller")]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_second_is_accounted_for(running_pool, threads):
    """A thread of the pool does one thing at a time, and always something."""
    running_pool(threads)
    with pb.stats() as s:
        for _ in range(3):
            pb.par_sort(A)
        assert len(s.workers) == threads, "it can be read while it runs"
    workers = s.workers
    assert [w.name for w in workers] == [f"pyblitz-{i + 1}" for i in range(threads - 1)] + [
        "caller 1"
    ]
    for w in workers[:-1]:
        assert w.busy + w.idle == pytest.approx(s.seconds, abs=2e-3)
    assert 0 < workers[-1].busy + workers[-1].waiting <= s.seconds
    assert workers[-1].searching == workers[-1].sleeping == 0
    before = s.seconds, workers
    pb.par_sort(A)
    assert (s.seconds, s.workers) == before, "it ended with the block"


@pytest.mark.parametrize("spans", [False, True])
def test_what_is_read_while_workers_note_it_adds_up(native, running_pool, spans):
    """A reader gets the times of one moment: no span is counted twice, or overlaps another."""
    running_pool(3)
    done = threading.Event()

    def work():
        while not done.is_set():
            tally = native.capi.Tally()
            native.capi.submit_many(tally, 5000)
            tally.reach(5000)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(30):
            recording = Recording(spans)
            try:
                for _ in range(5):
                    seconds, workers = recording.read()
                    for _, _, _, times, kept in workers:
                        assert sum(times) == pytest.approx(seconds * 1e9, abs=2)
                        if not spans or len(kept) > 65_536:
                            continue
                        assert kept[0][0] == 0
                        assert kept[-1][1] == sum(times)
                        assert all(a[1] == b[0] for a, b in itertools.pairwise(kept))
            finally:
                recording.finish()
    finally:
        done.set()
        thread.join()


def test_counts(native, running_pool):
    """One call that every thread takes a part of: each part is a job that was taken."""
    running_pool(4)
    with pb.stats() as s:
        assert sum(native.capi.call_roll()) == 4
    assert sum(w.jobs for w in s.workers) == 3
    assert sum(w.steals for w in s.workers) == 0, "they were mail"
    with pb.stats() as s:
        native.capi.tree(1, 12, "join")
    stolen = sum(w.steals for w in s.workers)
    assert sum(w.jobs for w in s.workers) == stolen
    with pb.stats() as s:
        pass
    assert not caller(s)
    assert not any(w.jobs + w.steals + w.promotions for w in s.workers)


def test_wakes(pool_size):
    """Threads that were never started sleep: the first job of each wakes it."""
    pool_size(4)
    with pb.stats() as s:
        assert len(pb.broadcast(threading.get_ident)) == 4
    assert all(w.wakes >= 1 for w in s.workers[:3])


def test_a_pool_of_its_own(pool_size):
    """Those of the pool that operations here use, and no other's."""
    pool_size(2)
    with pb.ThreadPool(3) as pool:
        s = pool.install(pb.stats)
        with s:
            pb.par_sort(A)
            # The installed call itself is its only caller.
            assert [w.name for w in s.workers] == ["pyblitz-1", "pyblitz-2", "caller 1"]
            pool.submit(pb.par_sort, A).result()
            pool.close()
        assert sum(w.jobs for w in s.workers) >= 1


def test_a_pool_that_is_replaced(pool_size):
    """It ends there; what it has seen stays."""
    pool_size(2)
    with pb.stats() as s:
        pb.par_sort(A)
        pool_size(3)
        pool_size(2)
        seen = s.workers
        assert len(seen) == 2
        pb.par_sort(A)
    assert s.workers == seen
    with pb.stats():
        pass


def test_one_at_a_time(tmp_path):
    with (
        pb.stats(),
        pytest.raises(RuntimeError, match="at work"),
        pb.trace(tmp_path / "x.json"),
    ):
        pass
    with pb.stats():
        pass


def test_printed(pool_size):
    pool_size(2)
    with pb.stats() as s:
        pb.par_sort(A)
    head, *rows = str(s).splitlines()
    assert head.split() == list(s.workers[0]._fields)
    assert [re.split(r"\s{2,}", row.strip())[0] for row in rows] == ["pyblitz-1", "caller 1"]


def test_in_a_notebook(pool_size):
    pool_size(2)
    with pb.stats() as s:
        pb.par_sort(A)
        pb.par_sort(np.arange(50_000).astype(object))
    # One document, with what was named in it quoted.
    page = ElementTree.fromstring(f"<div>{s._repr_html_()}</div>".replace("&#9632;", "#"))
    rows = [[cell.text for cell in row] for row in page.iter("tr")]
    assert [row[0] for row in rows] == ["worker", "pyblitz-1", "caller 1"]
    assert [int(row[2]) for row in rows[1:]] == [w.jobs for w in s.workers]
    for bar, w in zip(list(page.iter("td"))[1::4], s.workers, strict=True):
        parts = {one.get("title").split(":")[0]: one.get("style") for one in bar.iter("span")}
        assert list(parts) == ["busy", "waiting", "searching", "sleeping"]
        assert f"width:{100 * w.busy / s.seconds:.2f}%" in parts["busy"]
    assert [one.text for one in page.iter("li")] == [
        "left to NumPy: par_sort of dtype object, 1 call"
    ]


# ---- traces -----------------------------------------------------------------


def spans_of(path):
    """{thread: [(begin, end, what)]} in microseconds, as a viewer would read it."""
    with open(path) as f:
        events = json.load(f)["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    spans = {}
    for e in events:
        if e["ph"] == "X":
            span = (e["ts"], e["ts"] + e["dur"], e["name"])
            spans.setdefault(names[e["tid"]], []).append(span)
    return spans


def test_trace(running_pool, tmp_path):
    """Spans follow each other without gap or overlap, and are what the times are sums of."""
    running_pool(3)
    path = tmp_path / "trace.json"
    with pb.trace(path) as s:
        pb.par_sort(A)
        pb.par_map(np.exp, A)
    spans = spans_of(path)
    for w in s.workers:
        mine = spans[w.name]
        assert {what for _, _, what in mine} <= SHOWN
        for (_, end, _), (begin, _, _) in itertools.pairwise(mine):
            assert begin >= end - 1e-3
        for what in SHOWN:
            total = sum(e - b for b, e, one in mine if one == what)
            assert total == pytest.approx(1e6 * getattr(w, what), rel=1e-6, abs=1)
    assert s.workers[-1].name == "caller 1"


def test_a_trace_that_cannot_be_written(tmp_path):
    """It says so before anything is recorded."""
    with pytest.raises(FileNotFoundError):
        pb.trace(tmp_path / "no" / "where.json")
    with pytest.raises(TypeError):
        pb.trace(None)
    with pb.stats():
        pass


def test_a_trace_of_what_fails(tmp_path, pool_size):
    pool_size(2)  # one thread leaves it to NumPy
    path = tmp_path / "trace.json"
    with pytest.raises(ZeroDivisionError), pb.trace(path):
        pb.par_map(lambda x: 1 / 0, A)
    assert spans_of(path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_fork(script):
    """The child's pool is another one; the parent's recording goes on in the parent."""
    out = script("""
import os, numpy as np, pyblitz as pb
a = np.random.default_rng(1).random(500_000)
pb.set_num_threads(2)
with pb.stats() as s:
    pb.par_sort(a)
    pid = os.fork()
    if pid == 0:
        s.__exit__(None, None, None)
        with pb.stats() as mine:
            pb.par_sort(a)
        os._exit(len(mine.workers))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2
    pb.par_sort(a)
print(len(s.workers))
""")
    assert out.split() == ["2"]


def test_stress(pool_size, crowd):
    """Recordings begin and end while many threads work."""
    pool_size(4)
    done = threading.Event()

    def work():
        while not done.is_set():
            pb.par_sort(A[:100_000])
        return True

    def record():
        for _ in range(50):
            with pb.stats() as s:
                pb.par_map(np.sqrt, A)
            for w in s.workers:
                if w.name.startswith("pyblitz"):
                    assert w.busy + w.idle == pytest.approx(s.seconds, abs=0.1)
                else:
                    assert w.busy + w.idle <= s.seconds + 0.1
        done.set()
        return True

    assert crowd(work, work, record) == [True] * 3
