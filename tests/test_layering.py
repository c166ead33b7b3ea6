"""A module cimports and imports only from those below it: see docs/architecture.md."""

import graphlib
import re
from pathlib import Path

import pytest

import pyblitz

ROOT = Path(pyblitz.__file__).resolve().parent

# From the bottom up; modules of one row know nothing of each other, except for those in
# WITHIN_A_ROW.  A folder's "*" are those of its modules that no row names.
ROWS = [
    ["runtime.atomic", "runtime.chaos", "runtime.os"],
    ["runtime.stats", "runtime.job", "runtime.call"],
    ["runtime.deque", "runtime.injector", "runtime.lazy"],
    ["runtime.latch", "runtime.counters"],
    ["runtime.sleep"],
    ["runtime.pool"],
    ["runtime.join", "runtime.scope", "runtime.bridge", "runtime.lane"],
    ["kernels.blocks", "kernels.numbers", "kernels.prefetch", "kernels.simd.levels"],
    ["kernels.*"],
    ["host.config", "host.futures"],
    ["host.build", "host.interpreter"],
    ["host.blocks"],
    ["host.pools", "host.cancel"],
    ["host.threadpool", "host.forks", "host.progress"],
    ["capi", "host.executor", "host.recording", "host.tasks", "_html"],
    # The front door, and what engines share.
    ["arrays.front", "arrays.memory"],
    ["arrays.common", "arrays.compiled"],
    # Engines.
    ["arrays.copy", "arrays.nodes"],
    ["arrays.program"],
    ["arrays.evaluate"],
    [
        "arrays.fold",
        "arrays.predicates",
        "arrays.elementwise",
        "arrays.gufunc",
        "arrays.blocks",
        "arrays.sorting",
    ],
    ["arrays.select"],
    # Derived: functions of one noun, then what is made of several.
    [
        "arrays.argsort",
        "arrays.count",
        "arrays.find",
        "arrays.gather",
        "arrays.join",
        "arrays.map",
        "arrays.merge",
        "arrays.reduce",
        "arrays.scan",
        "arrays.search",
        "arrays.sort",
        "arrays.where",
    ],
    ["arrays.iter", "arrays.order", "arrays.unique"],
    ["arrays.partition"],
    ["_enable"],
    ["_stats"],
    ["__init__"],
    # Of dask arrays.
    ["dask.graphs"],
    ["dask.arguments", "dask.cuts"],
    [
        "dask.count",
        "dask.map",
        "dask.reduce",
        "dask.search",
        "dask.sets",
        "dask.sort",
        "dask.topk",
    ],
    ["dask.groups"],
    ["_info", "_threadpoolctl", "dask", "joblib", "numpy"],
    ["__main__"],
]
WITHIN_A_ROW = {
    ("runtime.scope", "runtime.join"),
    ("runtime.bridge", "runtime.join"),
    ("kernels.*", "kernels.map"),
    ("kernels.map", "kernels.filter"),
    ("kernels.count", "kernels.search"),
    ("kernels.keys", "kernels.radix"),
    ("kernels.select", "kernels.keys"),
    ("kernels.argsort", "kernels.distinct"),
    ("kernels.argsort", "kernels.radix"),
    ("kernels.member", "kernels.distinct"),
    ("kernels.loops", "kernels.reduce"),
    ("kernels.sorts", "kernels.argsort"),
    ("kernels.sorts", "kernels.loops"),
    ("kernels.sorts", "kernels.keys"),
    ("kernels.sorts", "kernels.radix"),
}

# What a program may ask for when it runs, although it stands above: said in its comment there.
WHEN_RUN = {("__init__", "_threadpoolctl")}

CIMPORT = re.compile(r"^(?:from\s+([\w.]+)\s+cimport\s+(\([^)]*\)|.*)|cimport\s+(.*))$", re.M)


def module_of(path):
    """Without "pyblitz."; a folder's __init__ is the module of the folder's name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def row_of(module):
    rows = {name: i for i, row in enumerate(ROWS) for name in row}
    return rows[module] if module in rows else rows[module.split(".")[0] + ".*"]


def cimports(text):
    """The modules of pyblitz, without "pyblitz.", that a source cimports."""
    found = set()
    for source, names, plain in CIMPORT.findall(text):
        names = re.sub(r"#.*", "", (names or plain).strip("()"))
        names = [n.split(" as ")[0].strip() for n in names.split(",") if n.strip()]
        if plain:
            full = names
        elif source in ("pyblitz.runtime", "pyblitz.kernels"):
            full = [f"{source}.{n}" for n in names]
        else:
            full = [source]
        found |= {"pyblitz.__init__" if f == "pyblitz" else f for f in full}
    return {f.removeprefix("pyblitz.") for f in found if f.startswith("pyblitz.")}


IMPORT = re.compile(
    r"^\s*(?:from\s+pyblitz([\w.]*)\s+import\s+(\([^)]*\)|.*)|import\s+pyblitz([\w.]*))", re.M
)


def imports(text):
    """The same of Python's imports, wherever they stand."""
    found = set()
    for source, names, plain in IMPORT.findall(text):
        module = source[1:]
        names = [n.split(" as ")[0].strip(" ()\n") for n in names.split(",")]
        if module and module not in FOLDERS:
            found.add(module)
        elif names == [""]:
            found.add(plain[1:] or "__init__")
        else:
            full = [f"{module}.{n}".lstrip(".") for n in names if n]
            package = module if module in MODULES else "__init__"
            found |= {n if n in MODULES else package for n in full}
    return found


def uses(path):
    text = path.read_text()
    return (cimports(text) | imports(text)) - {module_of(path)}


FILES = [
    path
    for suffix in ("*.pxd", "*.pyx", "*.py")
    for path in sorted(ROOT.rglob(suffix))
    if path.stat().st_size  # The __init__ of most folders is empty.
]
MODULES = {module_of(path) for path in FILES}
FOLDERS = {module.rpartition(".")[0] for module in MODULES} - {""}


def test_the_files_are_found():
    names = {"__init__", "capi", "dask", "dask.sort", "runtime.pool", "runtime.atomic"}
    assert names <= set(map(module_of, FILES))


def test_cimports_are_found():
    source = "from pyblitz.a cimport (\n    x,\n    y)\nfrom pyblitz.runtime cimport join as rt\n"
    source += "cimport pyblitz.b\nfrom libc.math cimport sin\nfrom pyblitz cimport run\n"
    assert cimports(source) == {"a", "b", "runtime.join", "__init__"}
    assert cimports((ROOT / "runtime/sleep.pxd").read_text()) >= {"runtime.injector", "runtime.os"}


def test_imports_are_found():
    source = (
        "from pyblitz.a import x\n    from pyblitz.b import (\n        y,\n    )\nimport pyblitz\n"
    )
    source += "from pyblitz.host import config\nfrom pyblitz import stats\nimport numpy as np\n"
    assert imports(source) == {"a", "b", "host.config", "__init__"}
    assert imports("from pyblitz.dask import cuts, par_sort\n") == {"dask.cuts", "dask"}
    assert imports("import pyblitz.dask\nfrom pyblitz import dask\n") == {"dask"}
    assert imports((ROOT / "dask/__init__.py").read_text()) >= {"dask.groups", "arrays.front"}
    assert imports((ROOT / "arrays/partition.pyx").read_text()) >= {"arrays.map", "arrays.argsort"}


def test_every_module_has_a_row():
    named = {name for row in ROWS for name in row if not name.endswith("*")}
    assert named <= MODULES
    assert {m for m in MODULES if not m.startswith(("kernels.", "runtime."))} <= named


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_layers(path):
    me = module_of(path)
    for other in uses(path):
        if (me, other) in WHEN_RUN:
            continue
        below = row_of(other) < row_of(me)
        beside = {(me, other), (me.split(".")[0] + ".*", other)} & WITHIN_A_ROW
        below |= row_of(other) == row_of(me) and bool(beside)
        assert below, f"{me} may not use {other}"


def test_there_is_no_cycle():
    graph = {}
    for path in FILES:
        graph.setdefault(module_of(path), set()).update(
            other for other in uses(path) if (module_of(path), other) not in WHEN_RUN
        )
    graphlib.TopologicalSorter(graph).prepare()


COMPILED = [path for path in FILES if path.suffix != ".py"]


@pytest.mark.parametrize("path", COMPILED, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_the_arrays_know_numpy(path):
    knows = re.search(r"^\s*(from|c?import)\s+numpy", path.read_text(), re.M)
    assert not knows or module_of(path).startswith(("arrays.", "_enable"))
