"""The one table of what things cost, and the benchmark that measures it."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import pyblitz as pb

ROOT = Path(__file__).resolve().parent.parent
ARRAYS = ROOT / "pyblitz" / "arrays"


@pytest.fixture(scope="module")
def costs():
    spec = importlib.util.spec_from_file_location("costs", ROOT / "benchmarks" / "costs.py")
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before  # benchmarks has an arrays.py, as the tests have
    return module


def test_the_script_measures_what_the_table_has(costs):
    stand = costs.table()
    assert set(stand) == {*costs.COSTS, *costs.SHARED}
    assert all(ns > 0 for ns in stand.values())


def test_there_is_one_table(costs):
    """Every cost is declared for the other modules, used by one, and stands nowhere else."""
    declared, used = set(), set()
    for path in sorted(ARRAYS.glob("*.p[xy][dx]")):
        text = re.sub(r"#.*", "", path.read_text())
        if path.name == "front.pxd":
            for line in re.findall(r"^cdef double (.*)$", text, re.M):
                declared |= set(line.split(", "))
        if path.name == "front.pyx":
            continue
        assert not re.search(r"_NS\b *=[^=]", text.replace("SLICE_NS", "")), path.name
        assert not re.search(r"\bpays\([^\n]*, *[\d.]+\)", text), path.name
        assert not re.search(r"\bns=[\d.]", text), path.name
        used |= set(re.findall(r"(?:pays\(.*|ns=|/ )\b(\w+_NS)\b", text))
    assert declared == set(costs.table())
    assert used | set(costs.SHARED) == declared


def test_each_cost_is_measured(costs):
    """Quickly: what matters here is that every call works, and that ours gives as much."""
    stand = costs.table()
    for name in costs.COSTS:
        row = costs.measured(name, stand[name], stand["SHARE_NS"], 1e-5, 1)
        assert row["stands"] == stand[name]
        assert row["measured"] > 0
        assert row["large"] > 0
    for name in costs.SHARED:
        rows = costs.sharing(name, stand[name], 1e-5, 1)
        assert [row["unit"] for row in rows] == ["call, warm", "call, cold"]


ALONE = {
    "map": lambda a: pb.par_map(np.add, a, a),
    "map_inplace": lambda a: pb.par_map_inplace(np.negative, a),
    "copy": lambda a: pb.par_copy(a),
    "flatten": lambda a: pb.par_flatten(a.reshape(4, -1)),
    "concatenate": lambda a: pb.par_concatenate([a, a]),
    "accumulate": lambda a: pb.par_scan(np.maximum, a),
}


@pytest.mark.parametrize("name", ALONE)
def test_one_thread_leaves_to_numpy_what_that_does_as_fast(name, pool_size):
    """Where nobody may stop it: then it has to look up, now and then."""
    call, a = ALONE[name], np.ones(2_000_000)
    for threads in (1, 2):
        pool_size(threads)
        call(a)
        with pb.stats() as seen:
            call(a)
        assert any(w.busy for w in seen.workers) == (threads > 1)
        with pytest.raises(TimeoutError), pb.CancelScope(timeout=0):
            call(a)
