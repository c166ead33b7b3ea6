"""A module cimports only from those below it: see "Layering" in the design."""

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
    ["kernels.*"],
    ["_python", "capi", "_tasks"],
    ["arrays.common", "arrays.compiled"],
    ["arrays.nodes"],
    ["arrays.program"],
    ["arrays.evaluate"],
    ["arrays.*"],
    ["__init__"],
]
WITHIN_A_ROW = {
    ("runtime.scope", "runtime.join"),
    ("runtime.bridge", "runtime.join"),
    ("kernels.*", "kernels.map"),
    ("kernels.count", "kernels.search"),
    ("kernels.find", "kernels.move"),
    ("kernels.select", "kernels.radix"),
    ("kernels.argsort", "kernels.radix"),
    ("kernels.merge", "kernels.radix"),
    ("kernels.member", "kernels.distinct"),
    ("capi", "_python"),
    ("_tasks", "_python"),
    ("arrays.*", "arrays.argsort"),
    ("arrays.*", "arrays.merge"),
    ("arrays.partition", "arrays.order"),
}

CIMPORT = re.compile(r"^(?:from\s+([\w.]+)\s+cimport\s+(\([^)]*\)|.*)|cimport\s+(.*))$", re.M)


def module_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


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


FILES = [
    path
    for suffix in ("*.pxd", "*.pyx")
    for path in sorted(ROOT.rglob(suffix))
    if not (path.name == "__init__.pxd" and path.parent != ROOT)
]


def test_the_files_are_found():
    assert {"__init__", "capi", "runtime.pool", "runtime.atomic"} <= set(map(module_of, FILES))


def test_cimports_are_found():
    source = "from pyblitz.a cimport (\n    x,\n    y)\nfrom pyblitz.runtime cimport join as rt\n"
    source += "cimport pyblitz.b\nfrom libc.math cimport sin\nfrom pyblitz cimport run\n"
    assert cimports(source) == {"a", "b", "runtime.join", "__init__"}
    assert cimports((ROOT / "runtime/sleep.pxd").read_text()) >= {"runtime.injector", "runtime.os"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_layers(path):
    me = module_of(path)
    for other in cimports(path.read_text()) - {me}:
        below = row_of(other) < row_of(me)
        beside = {(me, other), (me.split(".")[0] + ".*", other)} & WITHIN_A_ROW
        below |= row_of(other) == row_of(me) and bool(beside)
        assert below, f"{me} may not cimport {other}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_the_arrays_know_numpy(path):
    knows = re.search(r"^\s*(from|c?import)\s+numpy", path.read_text(), re.M)
    assert not knows or module_of(path).startswith("arrays.")
