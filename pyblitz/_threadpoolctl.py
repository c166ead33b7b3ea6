"""Lets threadpoolctl see and limit the global pool.

``import pyblitz`` registers it if threadpoolctl was imported before; otherwise call
``register()`` from here once.  Then ``threadpool_info()`` lists pyblitz, and
``threadpool_limits(1)``, or with ``user_api="pyblitz"``, is ``set_num_threads`` for a
while: operations that run go on where they are, and a ``ThreadPool`` keeps its size.
"""

from __future__ import annotations

import threading

from pyblitz.host.config import MAX_THREADS
from pyblitz.host.pools import global_num_threads, set_num_threads

_lock = threading.Lock()
_registered = False


def register() -> None:
    """Registers pyblitz with threadpoolctl, once; ImportError if that has no registry."""
    global _registered
    from threadpoolctl import LibController, register

    class Controller(LibController):  # type: ignore[misc]
        user_api = internal_api = "pyblitz"
        # The module that has the pool; others of that name lack the symbol.
        filename_prefixes = ("pools.",)
        check_symbols = ("pyblitz_thread_pool",)

        def get_num_threads(self) -> int:
            return int(global_num_threads())

        def set_num_threads(self, num_threads: int) -> None:
            # It restores every library's number after a limit of any: keep the pool.
            if num_threads != global_num_threads():
                set_num_threads(min(num_threads, MAX_THREADS))

        def get_version(self) -> str:
            import pyblitz

            return pyblitz.__version__

    with _lock:
        if not _registered:
            register(Controller)
            _registered = True
