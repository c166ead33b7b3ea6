"""What the tests share: the test-only native modules, a watchdog, crowds of threads, and
whether random examples are the same in every run or explored."""

import contextlib
import faulthandler
import gc
import importlib
import os
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import pyblitz as pb
from pyblitz.kernels.simd import levels

HERE = Path(__file__).resolve().parent
PACKAGE_ROOT = Path(pb.__file__).resolve().parent.parent
BUILD = os.environ.get("PYBLITZ_BUILD", "")

# Modules over the lock-free parts alone: they share no struct with the built package, so
# they always check invariants and always start at 4 cells, where growth races theft.
LOCK_FREE = {"native_deque", "native_injector", "native_latch"}
MACROS = [("PYBLITZ_DEQUE_CAPACITY", "4"), ("PYBLITZ_BIAS_AFTER", "2"), ("PYBLITZ_DEBUG", "1")]

# The same examples in every run, on a machine however slow.
settings.register_profile(
    "fixed",
    max_examples=50,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore",
    derandomize=False,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


def pytest_addoption(parser):
    parser.addoption(
        "--explore",
        type=float,
        default=0,
        metavar="MINUTES",
        help="only the tests of random examples, with new ones for about so many minutes",
    )
    parser.addoption(
        "--full",
        action="store_true",
        help="also what is marked as full; and what goes on for long at its full length",
    )


def pytest_configure(config):
    # With pytest-xdist: files in their order, and not those of the fewest tests last, which are the
    # longest.
    config.option.loadscopereorder = False
    # And a process that died is not replaced: the next one would run the same test.
    config.option.maxworkerrestart = 0
    # Before a test module is imported: its decorators take what is not theirs from here.
    settings.load_profile("explore" if config.getoption("explore") else "fixed")
    # In the background of a shell it is ignored, here and in all children.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # The real stderr: during a test it is captured, and what is captured dies with the process.
    config.watchdog_fd = os.dup(2)


def pytest_collection_modifyitems(config, items):
    """Begins with a long file, which alone would be left at last; with --explore, what has no
    random examples would only do again what it does by default; and without --full, what is marked
    so is left out, and most combinations of parameters of which one_in so many are enough."""
    items.sort(key=lambda item: item.path.name != "test_writers.py")
    if config.getoption("explore"):
        chosen = [item for item in items if getattr(item.obj, "is_hypothesis_test", False)]
    elif not config.getoption("full"):
        numbers = {}
        chosen = [item for item in items if not is_left_to_full(item, numbers)]
    else:
        return
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen


def is_left_to_full(item, numbers):
    """Of one_in(n) a combination whose values have numbers that add up to a multiple of n is not.
    numbers: of the values so far, by test and place; pytest's own are of combinations."""
    if one_in := item.get_closest_marker("one_in"):
        total = 0
        for place, value in enumerate(item.callspec._idlist):
            known = numbers.setdefault((item.nodeid.partition("[")[0], place), {})
            total += known.setdefault(value, len(known))
        if total % one_in.args[0]:
            return True
    return item.get_closest_marker("full") is not None


def pytest_collection_finish(session):
    """The ten thousand tests themselves are not looked through whenever garbage is collected."""
    gc.collect()
    gc.freeze()


def shared_by_all(config):
    """The directory of all processes of pytest-xdist, for which pytest has no public name."""
    return Path(config._tmp_path_factory.getbasetemp()).parent


@contextlib.contextmanager
def locked(path, how="EX"):
    """The file, which other processes lock only afterwards, or only as shared, too."""
    import fcntl

    with path.open("a") as f:
        fcntl.flock(f, getattr(fcntl, f"LOCK_{how}"))
        try:
            yield path
        finally:
            fcntl.flock(f, fcntl.LOCK_UN)  # also for a child that has it open


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """A test that is to be alone waits for those that run, and those to come wait for it."""
    if not hasattr(item.config, "workerinput"):
        return (yield)
    turnstile, inside = (shared_by_all(item.config) / name for name in ("turnstile", "inside"))
    with contextlib.ExitStack() as stack:
        faulthandler.dump_traceback_later(900, exit=True, file=item.config.watchdog_fd)
        with locked(turnstile):
            alone = item.get_closest_marker("alone")
            stack.enter_context(locked(inside, "EX" if alone else "SH"))
        faulthandler.cancel_dump_traceback_later()
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Exploring, each test has an equal share of the time, and runs again until it is over."""
    minutes = item.config.getoption("explore")
    end = time.monotonic() + 60 * minutes / len(item.session.items)
    result = yield
    while time.monotonic() < end:
        arm(item)
        item.runtest()
    return result


def arm(item):
    """From here on the test, or a round of it, has its time."""
    timeout = 600 if item.get_closest_marker("slow") else 120
    faulthandler.dump_traceback_later(timeout, exit=True, file=item.config.watchdog_fd)


@pytest.fixture(autouse=True)
def watchdog(request):
    """A hang prints every thread's stack and ends the process."""
    arm(request.node)
    yield
    faulthandler.cancel_dump_traceback_later()


def build_native(target):
    from Cython.Build import cythonize
    from setuptools import Extension, setup

    flags = [
        "-std=c11",
        "-O1",
        "-g" if BUILD else "-g0",
        "-Wall",
        "-Werror",
        "-Wno-unused-function",
    ]
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
            include_dirs=[str(PACKAGE_ROOT), np.get_include()],
            define_macros=MACROS if BUILD or source.stem in LOCK_FREE else [],
            extra_compile_args=flags,
            extra_link_args=link,
        )
        for source in sources
    ]
    gc.disable()  # as in setup.py
    try:
        setup(
            name="pyblitz-native-tests",
            packages=[],
            py_modules=[],
            script_args=[
                "--quiet",
                "build_ext",
                f"--parallel={os.cpu_count()}",
                f"--build-lib={target}",
                f"--build-temp={target / 'o'}",
            ],
            ext_modules=cythonize(
                extensions,
                build_dir=str(target / "c"),
                include_path=[str(PACKAGE_ROOT)],
                quiet=True,
                force="PYBLITZ_NATIVE" not in os.environ,
                compiler_directives={
                    "language_level": 3,
                    "boundscheck": False,
                    "wraparound": False,
                    "cdivision": True,
                    "freethreading_compatible": True,
                },
            ),
        )
    finally:
        gc.enable()
    return [source.stem for source in sources]


@pytest.fixture(scope="session")
def native(request, tmp_path_factory):
    """The modules of tests/native, as attributes; ``path`` is where they are."""
    if "PYBLITZ_NATIVE" in os.environ:  # built once for many runs: see mutants.py
        target = Path(os.environ["PYBLITZ_NATIVE"])
        target.mkdir(parents=True, exist_ok=True)
        with locked(target / "lock"):
            names = build_native(target)
    elif hasattr(request.config, "workerinput"):  # one of several processes of pytest-xdist
        target = shared_by_all(request.config) / "native"
        with locked(target.with_suffix(".lock")) as lock:
            names = lock.read_text().split() or build_native(target)
            lock.write_text(" ".join(names))
    else:
        target = tmp_path_factory.mktemp("native")
        names = build_native(target)
    sys.path.insert(0, str(target))
    try:
        modules = {name.removeprefix("native_"): importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(target))
    return types.SimpleNamespace(path=target, **modules)


@pytest.fixture(scope="session")
def full(request):
    """Whether what goes on for long has its full length."""
    return request.config.getoption("full")


@pytest.fixture
def pool_size():
    """Sets the global pool's number of threads; afterwards it is as before."""
    before = pb.num_threads()
    yield pb.set_num_threads
    pb.set_num_threads(before)


@pytest.fixture
def simd_level():
    """Chooses the level of the processor that kernels are for; afterwards it is as before."""
    before = levels.chosen()
    yield levels.choose
    levels.choose(before)


@pytest.fixture
def partitions_itself(native):
    """As on a processor on which NumPy has no fast vector instructions for it."""
    before = native.kernels.numpys_partitions_are(0)
    yield native.kernels.numpys_partitions_are
    native.kernels.numpys_partitions_are(before)


@pytest.fixture
def leaves_take(native):
    """Sets what a word is said to take NumPy's sort, in pieces, and as floats; afterwards
    it is timed."""
    yield native.kernels.leaves_take
    native.kernels.leaves_take(0, 0, 0)


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
