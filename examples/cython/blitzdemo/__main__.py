"""python -m blitzdemo: runs the three, beside their serial twins."""

import math
import sys
import time

import numpy as np

import pyblitz
from blitzdemo.fib import fib, fib_serial
from blitzdemo.mandelbrot import mandelbrot, mandelbrot_serial
from blitzdemo.treesum import Tree, array_sum, array_sum_serial

failures = 0


def timed(fn, *args):
    start = time.perf_counter()
    result = fn(*args)
    return result, (time.perf_counter() - start) * 1e3


def compare(name, parallel, serial, args=(), shown=str, same=lambda a, b: a == b):
    """Runs both, checks that they agree and prints a line."""
    global failures
    expected, serial_ms = timed(serial, *args)
    result, parallel_ms = timed(parallel, *args)
    ok = bool(same(result, expected))
    failures += not ok
    print(
        f"{name:<22} {shown(result):>22}  {serial_ms:8.1f} ms  {parallel_ms:8.1f} ms  "
        f"{'ok' if ok else 'WRONG: ' + shown(expected)}"
    )


def main():
    global failures
    print(f"{pyblitz.num_threads()} threads")
    print(f"{'':<22} {'result':>22}  {'serial':>11}  {'pyblitz':>11}")

    compare("fib(36)", fib, fib_serial, (36,))

    compare(
        "mandelbrot 600 x 400",
        mandelbrot,
        mandelbrot_serial,
        (600, 400),
        shown=lambda image: f"{int(image.sum())} steps",
        same=np.array_equal,
    )

    values = np.random.default_rng(1).random(1_000_000)
    tree = Tree(values[:200_000])
    compare("tree of 200000 nodes", tree.sum, tree.sum_serial, shown=repr)
    compare(
        "array of 1000000",
        array_sum,
        array_sum_serial,
        (values,),
        shown=repr,
        same=lambda a, b: math.isclose(a, b, rel_tol=1e-12),
    )

    values[123_456] = math.nan
    try:
        Tree(values[:200_000]).sum()
    except ValueError as error:
        print(f"{'tree with a NaN':<22} ValueError: {error}")
    else:
        failures += 1
        print(f"{'tree with a NaN':<22} WRONG: no exception")

    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
