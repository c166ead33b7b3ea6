"""The cimport API as an outside author meets it: examples/cython is built out of
tree and run, docs/cython.md and docs/kernels.md are compiled and called, C++ works, and
an extension that was built for another interface is refused by name."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

import pyblitz

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = pathlib.Path(pyblitz.__file__).resolve().parent
DEMO = ROOT / "examples" / "cython"
GUIDE = ROOT / "docs" / "cython.md"
# Of a build in the tree itself.
LEFTOVERS = shutil.ignore_patterns("*.c", "*.so", "build", "*.egg-info", "__pycache__")


def python(*args, cwd, path=(), env=None):
    """Runs Python in ``cwd``; ``path`` comes first in sys.path.  Without a
    failing exit it gives what was printed, both streams together."""
    env = {**os.environ, **(env or {})}
    env["PYTHONPATH"] = os.pathsep.join([*map(str, path), env.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *map(str, args)],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What an author's Python needs in front of its path to find pyblitz: nothing,
    if it is installed; else the directory that this process found it in."""
    try:
        python("-c", "import pyblitz.capi", cwd=tmp_path_factory.mktemp("elsewhere"))
    except AssertionError:
        return [PACKAGE.parent]
    return []


def build(directory, path):
    """Builds in place.  The build itself is part of what is tested: no warnings
    from Cython, and no hints that something takes the GIL."""
    flags = {"CFLAGS": "-O1 -g0 " + os.environ.get("CFLAGS", "")}  # built once, run for seconds
    output = python("setup.py", "build_ext", "--inplace", cwd=directory, path=path, env=flags)
    assert "performance hint" not in output, output
    assert "warning: " not in output, output
    return output


def module(directory, source, name, setup=""):
    """A project of one module in ``directory``."""
    directory.mkdir(exist_ok=True)
    (directory / f"{name}.pyx").write_text(textwrap.dedent(source))
    (directory / "setup.py").write_text(
        setup
        or textwrap.dedent(
            f"""
            from Cython.Build import cythonize
            from setuptools import setup
            setup(name="{name}", ext_modules=cythonize("{name}.pyx", language_level=3))
            """
        )
    )
    return directory


# ---- examples/cython --------------------------------------------------------


@pytest.fixture(scope="module")
def demo(tmp_path_factory, found):
    directory = tmp_path_factory.mktemp("demo") / "blitzdemo-project"
    shutil.copytree(DEMO, directory, ignore=LEFTOVERS)
    build(directory, found)
    return directory


@pytest.mark.parametrize("threads", [1, 3])
def test_demo_runs(demo, found, monkeypatch, threads):
    monkeypatch.setenv("PYBLITZ_NUM_THREADS", str(threads))
    output = python("-m", "blitzdemo", cwd=demo, path=found)
    lines = output.splitlines()
    assert lines[0] == f"{threads} threads"
    for name in ("fib(36)", "mandelbrot 600 x 400", "tree of 200000 nodes", "array of 1000000"):
        (line,) = (line for line in lines if line.startswith(name))
        assert line.endswith(" ok"), output
    assert "14930352" in output
    assert lines[-1].split("  ")[-1].strip() == "ValueError: a node holds no number"


def test_demo_results(demo, found):
    """The functions against answers that are not their own serial twins', and
    their bad arguments; in a process of its own, which imports what was built."""
    python(
        "-c",
        textwrap.dedent(
            """
            import math
            import numpy as np
            import pyblitz
            from blitzdemo.fib import fib, fib_serial
            from blitzdemo.mandelbrot import mandelbrot, mandelbrot_serial
            from blitzdemo.treesum import Tree, array_sum, array_sum_serial

            def raises(exception, fn, *args):
                try:
                    fn(*args)
                except exception:
                    return True

            assert [fib(n) for n in range(12)] == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]
            assert fib(30) == fib_serial(30) == 832040
            assert raises(ValueError, fib, -1) and raises(ValueError, fib, 93)

            image = mandelbrot(50, 25, 40)
            assert image.shape == (25, 50) and image.dtype == np.intc
            assert image[12, 40] == 40 and image[0, 0] < 3      # c = 0, c = -2 - 1.25i
            assert np.array_equal(image, mandelbrot_serial(50, 25, 40))
            assert raises(ValueError, mandelbrot, 0, 5)

            for n in (0, 1, 2, 3, 1000, 65537):
                values = np.random.default_rng(n).random(n)
                tree = Tree(values)
                assert tree.sum() == tree.sum_serial()
                assert math.isclose(tree.sum(), math.fsum(values), rel_tol=1e-12)
                assert math.isclose(array_sum(values), math.fsum(values), rel_tol=1e-12)
                assert array_sum_serial(values) == sum(values.tolist())
                sums = set()
                for threads in (1, 2, 3, 8):
                    with pyblitz.ThreadPool(threads) as pool:
                        sums.add(pool.install(array_sum, values))
                assert len(sums) == 1

            values = np.ones(1000)
            for i in (0, 500, 999):
                values[i] = math.nan
                assert raises(ValueError, Tree(values).sum)
                values[i] = 1
                assert Tree(values).sum() == 1000                # the next call works
            """
        ),
        cwd=demo,
        path=found,
    )


def test_demo_installs(demo, found, tmp_path):
    """As a package, with pip, into a directory of its own; what was compiled is there."""
    pytest.importorskip("pip")
    source = tmp_path / "source"
    shutil.copytree(demo, source)
    target = tmp_path / "target"
    python(
        *("-m", "pip", "install", "--no-build-isolation", "--no-deps", "--quiet"),
        *("--disable-pip-version-check", "--no-index", "--target", target, source),
        cwd=tmp_path,
        path=found,
    )
    output = python("-m", "blitzdemo", cwd=tmp_path, path=[target, *found])
    assert "WRONG" not in output


# ---- docs/cython.md ---------------------------------------------------------


def declarations():
    """Name to signature, as __init__.pxd and capi.pxd have them."""
    public = (PACKAGE / "__init__.pxd").read_text()
    capi = (PACKAGE / "capi.pxd").read_text()
    names = dict(re.findall(r"(\w+_abi\d+) as (\w+)", public))
    names |= {n: n for n in ("join_lazy", "fork", "try_join", "tick", "task_init")}
    found = {}
    for result, name, rest in re.findall(
        r"^cdef (?:inline )?([\w* ]+?) ?\b(\w+)(\(.*?nogil):?$",
        capi,
        flags=re.MULTILINE | re.DOTALL,
    ):
        if name in names:
            found[names[name]] = " ".join(f"{result} {names[name]}{rest}".split())
    assert sorted(found) == sorted(names.values())
    return found


def test_guide_has_every_function():
    page = GUIDE.read_text()
    # Below the functions that a heading names, their signatures, in any order.
    sections = {}
    for heading, text in re.findall(r"^### (`[^\n]*`)\n\n```text\n(.*?)\n```", page, re.M | re.S):
        named = re.findall(r"`(\w+)`", heading)
        signatures = [" ".join(one.split()) for one in re.findall(r".*?nogil$", text, re.M | re.S)]
        found = {re.search(r"(\w+)\(", one)[1]: one for one in signatures}
        assert set(named) <= set(found) <= {*named, "task_init"}
        sections |= found
    assert sections == declarations()


def test_guide_runs(found, tmp_path):
    blocks = re.findall(r"^```cython\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    project = module(tmp_path / "guide", "\n\n".join(blocks), "guide")
    build(project, found)
    python(
        "-c",
        textwrap.dedent(
            """
            import os
            import numpy as np
            import guide
            import pyblitz

            items = np.arange(-5000, 5000)
            squares = items**2
            assert guide.largest(items) == 4999
            assert guide.count_odd(items) == 5000
            guide.square_in_place(items)
            assert np.array_equal(items, squares)

            for empty in (guide.square_in_place, guide.count_odd):
                assert not empty(np.empty(0, dtype=np.int64))

            ratios = np.arange(1.0, 100001.0)
            guide.invert(ratios)
            assert ratios[-1] == 1e-5
            ratios[[700, 70000]] = 0
            for _ in range(20):
                try:
                    guide.invert(ratios)
                except ValueError as error:
                    assert str(error) == "item 700 is 0"
                else:
                    raise AssertionError("no exception")

            values = np.random.default_rng(1).normal(size=100000)
            assert guide.extent(values) == (values.min(), values.max())
            assert guide.extent(np.empty(0)) == (np.inf, -np.inf)
            text = np.random.default_rng(2).integers(0, 256, 300000, dtype=np.uint8)
            assert guide.byte_counts(text) == np.bincount(text, minlength=256).tolist()
            assert guide.byte_counts(text[:0]) == [0] * 256

            seen = np.zeros(1025, dtype=np.int64)
            guide.visit(seen)
            assert seen[0] == seen[1024] == 0 and (seen[1:1024] == 1).all()

            amounts = np.random.default_rng(3).integers(-9, 10, size=(50, 400))
            least = np.minimum(np.cumsum(amounts, axis=1).min(axis=1), 0)
            assert guide.least_balances(amounts) == least.tolist()
            assert guide.least_balances(amounts[:0]) == []
            assert guide.fib(25) == 75025
            try:
                with pyblitz.CancelScope(timeout=0.05):
                    guide.count_for_ever()
            except TimeoutError:
                stopped = True
            assert stopped
            assert guide.count_even(items) == 5000 and guide.count_even(items[:0]) == 0
            before = items.copy()
            guide.negative(items)
            assert np.array_equal(items, -before)

            numbers = np.random.default_rng(4).normal(size=100000)
            begins = numbers.copy()
            intervals = np.stack([begins, begins + np.arange(100000) % 100], axis=1)
            expected = intervals[np.argsort(intervals[:, 1] - intervals[:, 0], kind="stable")]
            guide.sort_numbers_and_intervals(numbers, intervals)
            assert np.array_equal(numbers, np.sort(begins))
            assert np.array_equal(intervals, expected)

            reader, writer = os.pipe()
            guide.ring_later(writer)
            assert os.read(reader, 1) == b"!"
            """
        ),
        cwd=project,
        path=found,
    )


# ---- docs/kernels.md --------------------------------------------------------


def test_kernels_page(found, tmp_path):
    """Its Cython blocks are a module, and its Python blocks, in order, a program."""
    for name in ("numba", "scipy", "cffi"):
        pytest.importorskip(name)
    page = (ROOT / "docs" / "kernels.md").read_text()
    source, program = (
        "\n\n".join(re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
        for language in ("cython", "python")
    )
    assert source
    project = module(tmp_path / "kernels", source, "mykernels")
    build(project, found)
    (project / "page.py").write_text(program)
    python("page.py", cwd=project, path=found)


# ---- C++, and another interface ---------------------------------------------


def test_cplusplus(found, tmp_path):
    """A C++ extension cimports the same names and uses the standard library."""
    project = module(
        tmp_path / "cpp",
        """
        # distutils: language = c++
        from libcpp.vector cimport vector
        from pyblitz cimport (
            Fork, Scope, Task, Worker, broadcast, current_worker, fork, join, join_lazy,
            num_workers, parallel_for, parallel_reduce, run, scope, scope_map, sort, sort_f32,
            sort_f64, sort_i32, sort_i64, sort_u32, sort_u64, spawn, spawn_many,
            spawn_on, submit, submit_keyed, task_init, tick, try_join, worker_index)

        cdef int fill(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) noexcept nogil:
            cdef vector[int]* v = <vector[int]*>ctx
            cdef Py_ssize_t i
            for i in range(lo, hi):
                v[0][i] = <int>i
            return 0

        cdef int fill_one(Worker* w, void* ctx) noexcept nogil:
            (<int*>ctx)[0] += 1 if current_worker() == w else 1000
            return 0

        cdef int fill_all(Worker* w, Scope* s, void* ctx) nogil:
            cdef Fork f
            cdef int rc = 0
            spawn(w, s, fill_one, ctx)
            join(w, fill_one, <int*>ctx + 1, fill_one, <int*>ctx + 2)
            join_lazy(w, fill_one, <int*>ctx + 3, fill_one, <int*>ctx + 4)
            fork(w, &f, fill_one, <int*>ctx + 5)
            tick(w)
            if not try_join(w, &f, &rc):
                fill_one(w, <int*>ctx + 5)
            scope_map(w, s, fill_one, <int*>ctx + 6, sizeof(int), 2)
            return 0

        def total(n):
            cdef vector[int] v
            v.resize(n)
            with nogil:
                parallel_for(NULL, <Py_ssize_t>v.size(), fill, &v, 0)
            return sum(v)

        def eight():
            cdef int[8] counts = [0, 0, 0, 0, 0, 0, 0, 0]
            with nogil:
                scope(NULL, fill_all, counts)
            return list(counts)
        """,
        "blitzcpp",
    )
    build(project, found)
    assert (project / "blitzcpp.cpp").exists()
    output = python(
        "-c", "import blitzcpp as b; print(b.total(1000), b.eight())", cwd=project, path=found
    )
    assert output.split("\n")[0] == "499500 [1, 1, 1, 1, 1, 1, 1, 1]"


SMALL = """
    from pyblitz cimport Worker, join

    cdef int nothing(Worker* w, void* ctx) noexcept nogil:
        return 0

    def call():
        cdef int result
        with nogil:
            result = join(NULL, nothing, NULL, nothing, NULL)
        return result
    """


def other_declarations(directory, change):
    """A copy of the public declarations in ``directory``, through ``change``."""
    copy = directory / "pyblitz"
    copy.mkdir(parents=True)
    (copy / "__init__.py").write_text("")
    for name in ("__init__.pxd", "capi.pxd"):
        text = (PACKAGE / name).read_text()
        (copy / name).write_text(change(text))
    return directory


def import_error(project, name, found):
    code = f"""
        try:
            import {name}
        except ImportError as error:
            print(type(error).__name__, error)
        except TypeError as error:
            print(type(error).__name__, error)
        else:
            print("no error", {name}.call())
        import pyblitz
        print("and pyblitz itself has", pyblitz.num_threads() > 0)
        """
    return python("-c", textwrap.dedent(code), cwd=project, path=found)


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        # The control: an unchanged copy does as well as the original.
        ("blitzsame", lambda text: text, ["no error 0"]),
        (
            "blitznext",
            lambda text: re.sub(r"_abi\d+\b", "_abi999", text),
            ["ImportError", "does not export", "_abi999"],
        ),
        # The number stayed and a signature changed: Cython's own check.
        (
            "blitzother",
            lambda text: text.replace("void* bctx", "const void* bctx", 1),
            ["TypeError", "join_abi", "wrong signature"],
        ),
    ],
    ids=["same", "other number", "other signature"],
)
def test_other_interface(found, tmp_path, name, change, says):
    """Built against other declarations, imported with the pyblitz that is here."""
    others = other_declarations(tmp_path / "others", change)
    project = module(tmp_path / "project", SMALL, name)
    build(project, [others])
    output = import_error(project, name, found)
    for words in says:
        assert words in output, output
    assert "and pyblitz itself has True" in output
