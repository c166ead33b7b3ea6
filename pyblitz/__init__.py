"""pyblitz: Rayon for Python.

Data-parallel NumPy on a work-stealing scheduler, and a cimport API for nogil
jobs of one's own.
"""

import contextlib as _contextlib
import sys as _sys

from pyblitz._array import par_map, par_reduce, par_sort
from pyblitz._python import CancelScope, ThreadPool, num_threads, set_num_threads
from pyblitz._stats import stats, trace

__version__ = "0.1.0"

__all__ = [
    "CancelScope",
    "ThreadPool",
    "num_threads",
    "par_map",
    "par_reduce",
    "par_sort",
    "set_num_threads",
    "stats",
    "trace",
]

if "threadpoolctl" in _sys.modules:
    from pyblitz import _threadpoolctl

    with _contextlib.suppress(ImportError):  # too old to be told
        _threadpoolctl.register()
