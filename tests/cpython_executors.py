"""python tests/cpython_executors.py: CPython's own tests of executors, with pyblitz's thread pool.

They come with Python; of its thread pool's those are left out that look into its private parts.
Prints a line for each test that failed, and at last how many ran.
"""

import functools
import importlib
import sys
import unittest
from pathlib import Path

import pyblitz as pb

# Why each is left out.
LEFT_OUT = {
    "test_default_workers": "how many there are by default",
    "test_saturation": "_threads",
    "test_idle_thread_reuse": "_threads",
    "test_thread_initializer": "initializer",
    "test_initializer": "initializer",  # of Python 3.10
    "test_threads_terminate": "_threads",
    "test_context_manager_shutdown": "_threads",
    "test_del_shutdown": "_threads",
    "test_thread_names_assigned": "thread_name_prefix",
    "test_thread_names_default": "thread_name_prefix",
    "test_shutdown_no_wait": "_threads",
    "test_cancel_futures": "that one of fifty jobs has begun when the last was submitted; it wants "
    "the GIL for that",
}


def make_pool(max_workers=None, **options):
    return pb.ThreadPool(max_workers=max_workers, **options)


def with_ours(run):
    """Programs of their own import the executor by its name, in isolation."""
    here = [str(Path(__file__).parent), str(Path(pb.__file__).parent.parent)]
    ours = f"import sys; sys.path[:0] = {here}; from cpython_executors import make_pool"

    @functools.wraps(run)
    def call(option, program, **env):
        return run(option, program.replace("from concurrent.futures import make_pool", ours), **env)

    return call


def main():
    parts = ["executor", "test_as_completed", "test_shutdown", "test_thread_pool", "test_wait"]
    try:
        modules = [
            importlib.import_module(f"test.test_concurrent_futures.{part}")
            for part in [*parts, "util"]
        ]
    except ModuleNotFoundError:  # before Python 3.12
        modules = [importlib.import_module("test.test_concurrent_futures")]
    modules[-1].ThreadPoolMixin.executor_type = staticmethod(make_pool)
    for module in modules:
        if hasattr(module, "assert_python_ok"):
            module.assert_python_ok = with_ours(module.assert_python_ok)
    suite = unittest.TestSuite()
    for module in modules:
        for tests in unittest.defaultTestLoader.loadTestsFromModule(module):
            for test in tests:
                name = test.id().rsplit(".")[-1]
                if isinstance(test, modules[-1].ThreadPoolMixin) and name not in LEFT_OUT:
                    suite.addTest(test)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    return 0 if result.wasSuccessful() and result.testsRun else 1


if __name__ == "__main__":
    sys.exit(main())
