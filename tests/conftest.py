"""What the tests share: the test-only native modules, a watchdog, crowds of threads."""

import contextlib
import faulthandler
import importlib
import os
import signal
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest

import pyblitz as pb

HERE = Path(__file__).resolve().parent
PACKAGE_ROOT = Path(pb.__file__).resolve().parent.parent
BUILD = os.environ.get("PYBLITZ_BUILD", "")

# Modules over the lock-free parts alone: they share no struct with the built package, so
# they always check invariants and always start at 4 cells, where growth races theft.
LOCK_FREE = {"native_deque", "native_injector", "native_latch"}
MACROS = [("PYBLITZ_DEQUE_CAPACITY", "4"), ("PYBLITZ_BIAS_AFTER", "2"), ("PYBLITZ_DEBUG", "1")]


def pytest_configure(config):
    # In the background of a shell it is ignored, here and in all children.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # The real stderr: during a test it is captured, and what is captured dies with the process.
    config.watchdog_fd = os.dup(2)


@pytest.fixture(autouse=True)
def watchdog(request):
    """A hang prints every thread's stack and ends the run."""
    slow = request.node.get_closest_marker("slow")
    timeout = 600 if slow else 120
    faulthandler.dump_traceback_later(timeout, exit=True, file=request.config.watchdog_fd)
    yield
    faulthandler.cancel_dump_traceback_later()


def build_native(target):
    from Cython.Build import cythonize
    from setuptools import Extension, setup

    flags = ["-std=c11", "-O2", "-g", "-Wall", "-Werror", "-Wno-unused-function"]
    link = []
    if sys.platform == "linux":
        flags.append("-ftls-model=initial-exec")
    if BUILD not in ("", "debug"):
        flags += [f"-fsanitize={BUILD}", "-fno-omit-frame-pointer"]
        link.append(f"-fsanitize={BUILD}")
    sources = sorted((HERE / "native").glob("*.pyx"))
    extensions = [
        Extension(
            source.stem,
            [str(source)],
            include_dirs=[str(PACKAGE_ROOT)],
            define_macros=MACROS if BUILD or source.stem in LOCK_FREE else [],
            extra_compile_args=flags,
            extra_link_args=link,
        )
        for source in sources
    ]
    setup(
        name="pyblitz-native-tests",
        packages=[],
        py_modules=[],
        script_args=[
            "--quiet",
            "build_ext",
            f"--build-lib={target}",
            f"--build-temp={target / 'o'}",
        ],
        ext_modules=cythonize(
            extensions,
            build_dir=str(target / "c"),
            include_path=[str(PACKAGE_ROOT)],
            quiet=True,
            force=True,
            compiler_directives={
                "language_level": 3,
                "boundscheck": False,
                "wraparound": False,
                "cdivision": True,
                "freethreading_compatible": True,
            },
        ),
    )
    return [source.stem for source in sources]


@pytest.fixture(scope="session")
def native(tmp_path_factory):
    """The modules of tests/native, as attributes; ``path`` is where they are."""
    target = tmp_path_factory.mktemp("native")
    names = build_native(target)
    sys.path.insert(0, str(target))
    try:
        modules = {name.removeprefix("native_"): importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(target))
    return types.SimpleNamespace(path=target, **modules)


@pytest.fixture
def pool_size():
    """Sets the global pool's number of threads; afterwards it is as before."""
    before = pb.num_threads()
    yield pb.set_num_threads
    pb.set_num_threads(before)


@pytest.fixture
def running_pool(native, pool_size):
    """As pool_size; and every thread of the pool runs before the test does."""

    def size(threads):
        pool_size(threads)
        assert sum(native.capi.call_roll()) == threads

    return size


@pytest.fixture
def crowd():
    """crowd(f, g, ...) calls all at once, each in a thread of its own, and returns their
    results; the first exception is raised here, after all have ended."""

    def call(*functions):
        barrier = threading.Barrier(len(functions))
        results = [None] * len(functions)
        errors = []

        def main(i, function):
            try:
                barrier.wait()
                results[i] = function()
            except BaseException as e:
                errors.append(e)

        threads = [threading.Thread(target=main, args=a) for a in enumerate(functions)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if errors:
            raise errors[0]
        return results

    return call


@pytest.fixture
def script(native):
    """Runs a program in a process of its own, which can import the native modules too;
    returns what it printed."""

    def run(source, *, check=True, env=None, **kwargs):
        path = os.pathsep.join([str(PACKAGE_ROOT), str(native.path)])
        with contextlib.suppress(KeyError):
            path += os.pathsep + os.environ["PYTHONPATH"]
        done = subprocess.run(
            [sys.executable, "-Xfaulthandler", "-Wignore::DeprecationWarning", "-c", source],
            env={**os.environ, "PYTHONPATH": path, **(env or {})},
            capture_output=True,
            text=True,
            timeout=60,
            **kwargs,
        )
        if check:
            assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
            return done.stdout
        return done

    return run
