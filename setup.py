"""Builds the Cython modules; everything else is in pyproject.toml.

Environment:
    PYBLITZ_BUILD    "debug": invariants checked, deques of 4 cells, biased after 2 pops,
                     delays and failures at named points (runtime/chaos.h)
                     "thread", "address", "undefined": the sanitizer, on "debug"
    PYBLITZ_CFLAGS   for the C compiler, after all others
"""

import gc
import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("PYBLITZ_BUILD", "")
CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
# Loops over data are worth every optimization, and what small calls and lazy arrays go through
# most of them.  The rest calls Python and NumPy, and is made small: it is hardly faster at -O2
# (0.03 us of a call), and would be half as large again.
HOT = ("pyblitz/kernels/", "pyblitz/runtime/")
WARM = (
    "pyblitz/arrays/elementwise",
    "pyblitz/arrays/evaluate",
    "pyblitz/arrays/front",
    "pyblitz/arrays/iter",
    "pyblitz/arrays/map",
    "pyblitz/arrays/nodes",
    "pyblitz/arrays/program",
    "pyblitz/host/blocks",
    "pyblitz/host/cancel",
    "pyblitz/host/forks",
    "pyblitz/host/futures",
    "pyblitz/host/interpreter",
    "pyblitz/host/pools",
    "pyblitz/host/tasks",
)

compile_args = ["-std=c11", "-fno-math-errno", "-ffp-contract=off", "-Wall", "-Wextra"]
# Cython's own constructs, not ours: unused helpers and parameters, and the
# missing fields of its static type objects.
compile_args += ["-Wno-unused-parameter", "-Wno-unused-function"]
compile_args += ["-Wno-missing-field-initializers", "-Wno-cast-function-type"]
# gcc 12 follows None into branches that Cython's helpers take for other types only.
compile_args += ["-Wno-array-bounds"]
link_args = []
macros = [("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")]
macros += [("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION")]
if BUILD:
    macros += [("PYBLITZ_DEBUG", "1")]
    macros += [("PYBLITZ_DEQUE_CAPACITY", "4"), ("PYBLITZ_BIAS_AFTER", "2")]
    compile_args += ["-g"]
    if BUILD != "debug":
        compile_args += [f"-fsanitize={BUILD}", "-fno-omit-frame-pointer"]
        link_args += [f"-fsanitize={BUILD}"]
else:
    # The installed size: Python's own flags ask for -g, five sixths of it; without the linker flag,
    # headers and code have pages of their own, in 65 files.
    compile_args += ["-g0"]
    if sys.platform == "linux":
        link_args += ["-Wl,--strip-all", "-Wl,-z,noseparate-code"]
if sys.platform == "linux":
    # The thread-local current worker is read at every entry.
    compile_args += ["-ftls-model=initial-exec"]


def extension(source):
    name = ".".join(source.with_suffix("").parts)
    path = source.as_posix()
    level = "-O3" if path.startswith(HOT) else "-O2" if path.startswith(WARM) else "-Os"
    return Extension(
        name,
        [path],
        include_dirs=[HERE],
        extra_compile_args=[level, *compile_args, *os.environ.get("PYBLITZ_CFLAGS", "").split()],
        extra_link_args=link_args,
        define_macros=macros,
        depends=[header.as_posix() for header in headers],
    )


class BuildExt(build_ext):
    """Cython and NumPy are asked for when something is built, and not by requests for metadata."""

    def finalize_options(self):
        super().finalize_options()
        # Here, for an editable install forgets what setup() is told of a command.
        self.parallel = self.parallel or CPUS

    def run(self):
        import numpy
        from Cython.Build import cythonize

        for ext in self.extensions:
            ext.include_dirs.append(numpy.get_include())
        # Half of Cython's time; its processes inherit it where they are forked.
        gc.disable()
        made = cythonize(
            self.extensions,
            # Beside the sources, C files would be taken for sources.
            build_dir="build/cython",
            nthreads=CPUS if CPUS > 1 else 0,
            compiler_directives={
                "language_level": 3,
                "boundscheck": False,
                "wraparound": False,
                "cdivision": True,
                "initializedcheck": False,
                "embedsignature": True,
                "freethreading_compatible": True,
                # None of our classes is pickled by its fields: what would refuse it took 0.3 MB.
                "auto_pickle": False,
            },
        )
        gc.enable()
        sources = {ext.name: ext.sources for ext in made}
        for files in sources.values():
            mend(Path(files[0]))
        for ext in self.extensions:
            ext.sources = sources[ext.name]

        # The longest first, so that no core waits for one of them at the end: the kernels of all
        # levels, which are in headers, and then by what Cython made.
        def first(ext):
            return not ext.name.endswith(".levels"), -os.path.getsize(ext.sources[0])

        self.extensions.sort(key=first)
        super().run()


class Sdist(sdist):
    """The repository; on its own, setuptools packs what it installs and little else."""

    def make_distribution(self):
        files = self.filelist
        files.include("*.md")
        files.include(".gitignore")
        for folder in (".ci", ".github", "benchmarks", "docs", "examples", "pyblitz", "tests"):
            files.graft(folder)
        for pattern in ("*.so", "*.pyd", "*.py[co]", "*.html", "*.o"):
            files.global_exclude(pattern)
        files.files = [name for name in files.files if not generated(Path(name))]
        super().make_distribution()


def mend(path):
    """Code of Cython 3.3.0 and 3.3.1 gives up twice what a list comprehension has no memory to
    append: once where that failed, and once where the item is left."""
    wrong = "int result = PyList_Append(list, x);\n    Py_DECREF(x);"
    right = "int result = PyList_Append(list, x);\n    if (likely(result == 0)) Py_DECREF(x);"
    code = path.read_text()
    if wrong in code:
        path.write_text(code.replace(wrong, right))


def generated(path):
    """Whether Cython or a build wrote it."""
    return path.suffix in {".c", ".cpp"} and path.with_suffix(".pyx").exists()


headers = sorted(Path("pyblitz").glob("**/*.h"))
if __name__ == "__main__":
    setup(
        cmdclass={"build_ext": BuildExt, "sdist": Sdist},
        ext_modules=[extension(source) for source in sorted(Path("pyblitz").glob("**/*.pyx"))],
    )
elif __name__ == "__mp_main__":
    # In a process of Cython's that was not forked: Python 3.14, or macOS.
    gc.disable()
