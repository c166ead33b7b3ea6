"""What is packed and installed, without compiling anything; .ci/run installs and runs it."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = [".ci", ".github", "benchmarks", "docs", "examples", "pyblitz", "tests"]
# Of builds and test runs in the tree itself.
LEFTOVERS = shutil.ignore_patterns(
    "*.so", "*.pyd", "*.html", "*.o", "*.egg-info", "build", "target", "__pycache__", ".*_cache"
)
METADATA = """
import os
from setuptools import build_meta as backend
os.makedirs("out")
for hook in ("get_requires_for_build_sdist", "get_requires_for_build_wheel",
             "get_requires_for_build_editable"):
    print(hook, getattr(backend, hook)())
backend.prepare_metadata_for_build_wheel("out")
backend.prepare_metadata_for_build_editable("out")
backend.build_sdist("out")
"""


def python(directory, *command, check=True):
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=directory,
        env=dict(os.environ, PYTHONPATH=str(directory / "stubs")),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert not check or done.returncode == 0, done.stdout
    return done.stdout


def files(directory):
    return {p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file()}


@pytest.fixture
def clone(tmp_path):
    """The repository, where Cython and NumPy cannot be imported."""
    directory = tmp_path / "clone"
    for folder in FOLDERS:
        if (ROOT / folder).exists():
            shutil.copytree(ROOT / folder, directory / folder, ignore=LEFTOVERS)
    for pattern in ("*.md", "setup.py", "pyproject.toml", "LICENSE"):
        for path in ROOT.glob(pattern):
            shutil.copy(path, directory)
    for path in directory.rglob("*.pyx"):
        path.with_suffix(".c").unlink(missing_ok=True)
        path.with_suffix(".cpp").unlink(missing_ok=True)
    for name in ("Cython", "numpy"):
        stub = directory / "stubs" / name / "__init__.py"
        stub.parent.mkdir(parents=True)
        stub.write_text(f"raise ImportError('{name} was asked for')")
    return directory


@pytest.mark.parametrize("hook", ["build_wheel", "build_editable"])
def test_all_cpus_compile(clone, hook):
    (clone / "stubs" / "numpy" / "__init__.py").write_text("def get_include(): return '.'\n")
    (clone / "stubs" / "Cython" / "__init__.py").write_text("")
    (clone / "stubs" / "Cython" / "Build.py").write_text(
        "import sys\n"
        "def cythonize(extensions, nthreads, **options):\n"
        "    sys.exit(f'jobs: {nthreads}, {sys._getframe(1).f_locals[\"self\"].parallel}')\n"
    )
    said = python(
        clone, "-c", f"from setuptools import build_meta as b; b.{hook}('out')", check=False
    )
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert said.splitlines()[-1] == f"jobs: {cpus if cpus > 1 else 0}, {cpus}"


def test_metadata_and_sdist(clone):
    """All sources, nothing generated, and neither Cython nor NumPy to get there."""
    sources = {name for name in files(clone) if not name.startswith("stubs/")}
    must = {"CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml", "setup.py", ".ci/run"}
    must |= {"pyblitz/py.typed", "pyblitz/__init__.pyi", "pyblitz/__init__.pxd"}
    must |= {"pyblitz/runtime/pool.pyx", "pyblitz/runtime/os.h", "benchmarks/peers/openmp.c"}
    must |= {"docs/cython.md", "examples/cython/blitzdemo/fib.pyx", "tests/test_build.py"}
    assert must <= sources
    for name in ("pyblitz/runtime/pool.c", "pyblitz/capi.cpython-311-darwin.so"):
        (clone / name).write_text("generated")
    (clone / "pyblitz/__pycache__").mkdir()
    (clone / "pyblitz/__pycache__/_info.cpython-311.pyc").write_text("generated")

    python(clone, "-c", METADATA)
    with tarfile.open(next((clone / "out").glob("*.tar.gz"))) as archive:
        packed = {m.name.partition("/")[2] for m in archive if m.isfile()}
    added = {name for name in packed if "egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    assert packed - added == sources
    assert not list(clone.glob("build/**/*.c"))
    # What was asked above would have been noticed.
    assert "was asked for" in python(clone, "setup.py", "build_ext", check=False)


def test_installed_files(clone):
    """What is needed to import and to cimport."""
    (clone / "pyblitz/runtime/pool.c").write_text("generated")
    python(clone, "setup.py", "--quiet", "build_py", "--build-lib", "installed")
    suffixes = {".py", ".pxd", ".h", ".pyi", ".typed", ".md"}
    expected = {n for n in files(clone / "pyblitz") if Path(n).suffix in suffixes}
    expected.add("py.typed")
    assert files(clone / "installed" / "pyblitz") == expected
    assert {"arrays/__init__.py", "kernels/simd/lanes.h", "capi.pxd", "__init__.pyi"} <= expected


def test_processes_of_cython_build_nothing(clone):
    """Where they are not forked (Python 3.14, macOS), each runs setup.py under this name."""
    run = "import runpy; runpy.run_path('setup.py', run_name='__mp_main__')"
    python(clone, "-c", run, "build_ext", "--inplace")
    assert not (clone / "build").exists()


def test_import_without_extensions(tmp_path):
    for folder in ("pyblitz", "pyblitz/host"):
        (tmp_path / folder).mkdir()
        for path in (ROOT / folder).glob("*.py"):
            shutil.copy(path, tmp_path / folder)
    output = python(tmp_path, "-c", "import pyblitz", check=False)
    last = output.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: {tmp_path / 'pyblitz'} has no compiled modules")
    assert "`pip install .`" in last
    assert "`pip install -e .`" in last
    assert "During handling" not in output
    # Another module that is missing is named as ever.
    (tmp_path / "pyblitz" / "host" / "build.py").write_text("import no_such_module")
    assert "No module named 'no_such_module'" in python(
        tmp_path, "-c", "import pyblitz", check=False
    )
