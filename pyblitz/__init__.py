"""pyblitz: Rayon for Python.

Data-parallel NumPy on a work-stealing scheduler, and a cimport API for nogil
jobs of one's own.
"""

from pyblitz._config import refuse_subinterpreters

refuse_subinterpreters()
del refuse_subinterpreters

import contextlib as _contextlib  # noqa: E402
import sys as _sys  # noqa: E402

from pyblitz._python import CancelScope, ThreadPool, num_threads, set_num_threads  # noqa: E402
from pyblitz._stats import stats, trace  # noqa: E402
from pyblitz.arrays.map import par_map  # noqa: E402
from pyblitz.arrays.move import (  # noqa: E402
    par_concatenate,
    par_copy,
    par_filter,
    par_flatnonzero,
    par_flatten,
    par_partition_by,
    par_put,
    par_repeat,
    par_take,
    par_where,
)
from pyblitz.arrays.reduce import par_reduce  # noqa: E402
from pyblitz.arrays.sort import par_sort  # noqa: E402

__version__ = "0.1.0"

__all__ = [
    "CancelScope",
    "ThreadPool",
    "num_threads",
    "par_concatenate",
    "par_copy",
    "par_filter",
    "par_flatnonzero",
    "par_flatten",
    "par_map",
    "par_partition_by",
    "par_put",
    "par_reduce",
    "par_repeat",
    "par_sort",
    "par_take",
    "par_where",
    "set_num_threads",
    "stats",
    "trace",
]

if "threadpoolctl" in _sys.modules:
    from pyblitz import _threadpoolctl

    with _contextlib.suppress(ImportError):  # too old to be told
        _threadpoolctl.register()
