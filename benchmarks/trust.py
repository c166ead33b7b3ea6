"""python benchmarks/trust.py [--seconds S]: how pyblitz behaves when things go wrong.

Writes benchmarks/results/trust.jsonl and prints it: the delay of KeyboardInterrupt in 100 tries
over long operations of all kinds, what 10^4 failures leave behind, and how many operations soaks
of everything at once (tests/stress/soak.py) did: three beside each other, for S seconds, of few
callers, of many, and of a crowd.  It needs the test extra.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent / "tests"
sys.path[:0] = [str(HERE), str(TESTS), str(TESTS / "stress")]

import machine  # noqa: E402
import numpy as np  # noqa: E402

import pyblitz  # noqa: E402

Row = dict[str, Any]

CALLERS = (4, 16, 100)

# In a process of its own: it is the main thread's signals that matter.
INTERRUPTED = """
import json, os, signal, sys, threading, time
import pyblitz as pb, native_poll
import test_cancel
# A shell gives what it starts in the background none.
signal.signal(signal.SIGINT, signal.default_int_handler)
pb.set_num_threads(2)
spinner = native_poll.Spinner()
operations = dict(test_cancel.LONG)
for how in test_cancel.KERNELS:
    operations["kernel: " + how] = lambda how=how: spinner.spin(how)
delays = []
sent = 0
def interrupt():
    global sent
    sent = time.perf_counter()
    os.kill(os.getpid(), signal.SIGINT)
for k in range(100):
    name = list(operations)[k % len(operations)]
    timer = threading.Timer(0.05 + k * 0.0007, interrupt)
    timer.start()
    try:
        operations[name]()
    except KeyboardInterrupt:
        delays.append((name, (time.perf_counter() - sent) * 1e3))
    timer.join()
print(json.dumps(delays))
"""


def interrupts(native: str) -> list[Row]:
    package = str(pathlib.Path(pyblitz.__file__).resolve().parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([package, native, str(TESTS)])},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    delays = json.loads(done.stdout)
    ms = sorted(delay for _, delay in delays)
    worst = max(delays, key=lambda pair: pair[1])
    return [
        {
            "what": "KeyboardInterrupt",
            "tries": len(ms),
            "median_ms": ms[len(ms) // 2],
            "worst_ms": worst[1],
            "worst_in": worst[0],
        }
    ]


def resident() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def failures() -> list[Row]:
    """Bytes and objects that 10^4 failures of a shared operation leave behind."""
    a = np.zeros(200_000)

    def block(x: object) -> object:
        raise KeyError("no")

    def fail(times: int) -> None:
        for _ in range(times):
            with contextlib.suppress(KeyError):
                pyblitz.par_map(block, a)

    fail(2_000)
    gc.collect()
    objects, bytes_ = len(gc.get_objects()), resident()
    fail(10_000)
    gc.collect()
    return [
        {
            "what": "failures",
            "failures": 10_000,
            "objects": len(gc.get_objects()) - objects,
            "bytes": resident() - bytes_,
        }
    ]


def soaked(seconds: float) -> list[Row]:
    began = time.perf_counter()
    soaks = {
        callers: subprocess.Popen(
            [
                *(sys.executable, str(TESTS / "stress" / "soak.py"), "--seed", "1"),
                *("--callers", str(callers), "--minutes", str(seconds / 60)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for callers in CALLERS
    }
    rows = []
    for callers, soak in soaks.items():
        out, err = soak.communicate()
        last = out.strip().splitlines()[-1] if out else ""
        ok = soak.returncode == 0
        rows.append(
            {
                "what": "soak",
                "callers": callers,
                "seconds": time.perf_counter() - began,
                "operations": int(last.split()[0].replace(",", "")) if ok else 0,
                "lost_or_twice": 0 if ok else 1,
                "error": "" if ok else err[-2000:],
            }
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    seconds = parser.parse_args().seconds
    from conftest import build_native  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory() as native:
        build_native(pathlib.Path(native))
        facts = machine.facts()
        rows = interrupts(native) + failures() + soaked(seconds)
    for row in rows:
        print(row)
    machine.write(machine.RESULTS / "trust.jsonl", rows, facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
