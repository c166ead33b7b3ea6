"""Builds the Cython modules; everything else is in pyproject.toml.

Environment:
    PYBLITZ_BUILD    "debug": invariants checked, deques of 4 cells, biased after 2 pops,
                     delays and failures at named points (runtime/chaos.h)
                     "thread", "address", "undefined": the sanitizer, on "debug"
    PYBLITZ_CFLAGS   for the C compiler, after all others
"""

import os
import sys

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("PYBLITZ_BUILD", "")
CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

compile_args = ["-std=c11", "-O3", "-fno-math-errno", "-ffp-contract=off", "-Wall", "-Wextra"]
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
if sys.platform == "linux":
    # The thread-local current worker is read at every entry.
    compile_args += ["-ftls-model=initial-exec"]

MODULES = [
    "runtime/stats",
    "runtime/deque",
    "runtime/sleep",
    "runtime/pool",
    "runtime/join",
    "runtime/lane",
    "runtime/bridge",
    "runtime/scope",
    "_python",
    "capi",
    "_tasks",
    "kernels/map",
    "kernels/move",
    "kernels/reduce",
    "kernels/cast",
    "kernels/find",
    "kernels/collect",
    "kernels/scan",
    "kernels/search",
    "kernels/count",
    "kernels/radix",
    "kernels/argsort",
    "kernels/select",
    "kernels/rank",
    "kernels/distinct",
    "kernels/member",
    "kernels/runs",
    "kernels/merge",
    "kernels/user",
    "arrays/common",
    "arrays/compiled",
    "arrays/nodes",
    "arrays/program",
    "arrays/evaluate",
    "arrays/count",
    "arrays/map",
    "arrays/move",
    "arrays/reduce",
    "arrays/scan",
    "arrays/search",
    "arrays/merge",
    "arrays/argsort",
    "arrays/sort",
    "arrays/order",
    "arrays/partition",
    "arrays/unique",
    "arrays/iter",
    "arrays/find",
]

compile_args += os.environ.get("PYBLITZ_CFLAGS", "").split()

extensions = [
    Extension(
        "pyblitz." + module.replace("/", "."),
        [f"pyblitz/{module}.pyx"],
        include_dirs=[HERE] + ([numpy.get_include()] if module.startswith("arrays/") else []),
        extra_compile_args=compile_args,
        extra_link_args=link_args,
        define_macros=macros,
        depends=["pyblitz/kernels/lanes.h"]
        + [f"pyblitz/runtime/{h}.h" for h in ("atomic", "chaos", "os")],
    )
    for module in MODULES
]

setup(
    options={"build_ext": {"parallel": CPUS}},
    ext_modules=cythonize(
        extensions,
        nthreads=CPUS if CPUS > 1 else 0,
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "embedsignature": True,
            "freethreading_compatible": True,
        },
    ),
)
