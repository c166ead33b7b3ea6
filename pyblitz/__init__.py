"""pyblitz: Rayon for Python.

Data-parallel NumPy on a work-stealing scheduler, and a cimport API for nogil
jobs of one's own.
"""

from pyblitz.host.config import enable_at_import as _enable_at_import
from pyblitz.host.config import refuse_subinterpreters

refuse_subinterpreters()
del refuse_subinterpreters

import contextlib as _contextlib  # noqa: E402
import sys as _sys  # noqa: E402

try:
    from pyblitz.host.build import choose_simd as _choose_simd
except ModuleNotFoundError as error:
    if error.name != "pyblitz.host.build":
        raise
    raise ImportError(
        f"{__path__[0]} has no compiled modules for this Python: in the directory above it, run "
        "`pip install -e .`, or run `pip install .` and start Python elsewhere",
        name="pyblitz",
    ) from None

_choose_simd()

from pyblitz._enable import disable, enable, enabled  # noqa: E402
from pyblitz._stats import stats, trace  # noqa: E402
from pyblitz.arrays.argsort import par_argsort  # noqa: E402
from pyblitz.arrays.copy import par_copy, par_flatten  # noqa: E402
from pyblitz.arrays.count import par_bincount, par_histogram  # noqa: E402
from pyblitz.arrays.find import (  # noqa: E402
    par_find_any,
    par_find_first,
    par_find_last,
    par_position,
)
from pyblitz.arrays.gather import par_put, par_take  # noqa: E402
from pyblitz.arrays.iter import ParChunks, ParIter, ParZip, par_iter  # noqa: E402
from pyblitz.arrays.join import par_concatenate, par_repeat  # noqa: E402
from pyblitz.arrays.map import par_fill, par_for, par_map, par_map_inplace  # noqa: E402
from pyblitz.arrays.merge import par_is_sorted, par_merge  # noqa: E402
from pyblitz.arrays.order import (  # noqa: E402
    GroupBy,
    par_group_by,
    par_lexsort,
    par_rank,
    par_sort_by_key,
)
from pyblitz.arrays.partition import (  # noqa: E402
    TopK,
    par_argpartition,
    par_partition,
    par_topk,
)
from pyblitz.arrays.reduce import (  # noqa: E402
    par_all,
    par_any,
    par_argmax,
    par_argmin,
    par_count_nonzero,
    par_dot,
    par_max,
    par_mean,
    par_min,
    par_minmax,
    par_nanmax,
    par_nanmin,
    par_nansum,
    par_prod,
    par_reduce,
    par_std,
    par_sum,
    par_var,
)
from pyblitz.arrays.scan import par_cumprod, par_cumsum, par_reduceat, par_scan  # noqa: E402
from pyblitz.arrays.search import par_digitize, par_searchsorted  # noqa: E402
from pyblitz.arrays.select import (  # noqa: E402
    par_filter,
    par_flatnonzero,
    par_partition_by,
)
from pyblitz.arrays.sort import par_sort  # noqa: E402
from pyblitz.arrays.unique import par_isin, par_unique  # noqa: E402
from pyblitz.arrays.where import par_where  # noqa: E402
from pyblitz.host.cancel import CancelScope  # noqa: E402
from pyblitz.host.executor import ThreadPool  # noqa: E402
from pyblitz.host.forks import broadcast, join  # noqa: E402
from pyblitz.host.pools import num_threads, set_num_threads  # noqa: E402
from pyblitz.host.tasks import scope, spawn  # noqa: E402
from pyblitz.host.threadpool import threads  # noqa: E402

__version__ = "0.1.0"

__all__ = [
    "CancelScope",
    "GroupBy",
    "ParChunks",
    "ParIter",
    "ParZip",
    "ThreadPool",
    "TopK",
    "broadcast",
    "disable",
    "enable",
    "enabled",
    "join",
    "num_threads",
    "par_all",
    "par_any",
    "par_argmax",
    "par_argmin",
    "par_argpartition",
    "par_argsort",
    "par_bincount",
    "par_concatenate",
    "par_copy",
    "par_count_nonzero",
    "par_cumprod",
    "par_cumsum",
    "par_digitize",
    "par_dot",
    "par_fill",
    "par_filter",
    "par_find_any",
    "par_find_first",
    "par_find_last",
    "par_flatnonzero",
    "par_flatten",
    "par_for",
    "par_group_by",
    "par_histogram",
    "par_is_sorted",
    "par_isin",
    "par_iter",
    "par_lexsort",
    "par_map",
    "par_map_inplace",
    "par_max",
    "par_mean",
    "par_merge",
    "par_min",
    "par_minmax",
    "par_nanmax",
    "par_nanmin",
    "par_nansum",
    "par_partition",
    "par_partition_by",
    "par_position",
    "par_prod",
    "par_put",
    "par_rank",
    "par_reduce",
    "par_reduceat",
    "par_repeat",
    "par_scan",
    "par_searchsorted",
    "par_sort",
    "par_sort_by_key",
    "par_std",
    "par_sum",
    "par_take",
    "par_topk",
    "par_unique",
    "par_var",
    "par_where",
    "scope",
    "set_num_threads",
    "spawn",
    "stats",
    "threads",
    "trace",
]

if _enable_at_import():
    enable()

if "threadpoolctl" in _sys.modules:
    from pyblitz import _threadpoolctl

    with _contextlib.suppress(ImportError):  # too old to be told
        _threadpoolctl.register()
