"""What benchmarks/contest.py makes of a contestant that is wrong, absent or slow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# In a process of its own, because the module says in the environment how many threads all have.
PROGRAM = """
import json, sys, time
sys.path.insert(0, "benchmarks")
import contest
import numpy as np

def late():
    time.sleep(0.02)
    return right()

def right():
    return np.arange(5.0)

def wrong():
    return np.arange(5.0)[::-1]

effort = contest.Effort(True)
rivals = {"NumPy": right, "Polars": wrong, "torch": lambda: 1 // 0, "pandas": late}
rows = {}
for name, ours in {
    "right": right,
    "wrong": wrong,
    "missing": lambda: contest.pb.par_no_such_thing(),
    "no option": lambda: contest.pb.par_sort(right(), no_such_option=1),
    "broken": lambda: contest.pb.par_sort(5, axis=7),
}.items():
    found = contest.measure({"pyblitz": ours, **rivals}, effort, once=0.01, pause=0.0)
    goals = [contest.goal("x NumPy", contest.over(found, "NumPy"), 0.0)]
    rows[name] = contest.row("what", name, 5, "float64", found, goals)
print(json.dumps(rows))
"""


@pytest.fixture(scope="module")
def rows():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_who_is_right_has_a_time(rows):
    row = rows["right"]
    assert set(row["ns"]) == {"pyblitz", "NumPy", "pandas"}
    assert row["met"]
    assert row["best_peer"] == "NumPy"
    assert row["ratio_peer"] == row["ratio_numpy"] > 0


def test_who_is_wrong_has_a_note(rows):
    notes = rows["right"]["notes"]
    assert notes["Polars"] == "wrong: values differ from NumPy's"
    assert notes["torch"].startswith("ZeroDivisionError")


def test_who_is_slow_has_one_run(rows):
    row = rows["right"]
    assert row["once"] == ["pandas"]
    assert row["ns"]["pandas"] == row["ns_min"]["pandas"] > 2e7


@pytest.mark.parametrize(
    ("name", "key", "note"),
    [
        ("wrong", "failed", "wrong: values"),
        ("missing", "missing", "AttributeError"),
        ("no option", "missing", "TypeError"),
        ("broken", "failed", "AxisError"),
    ],
)
def test_pyblitz_without_a_time(rows, name, key, note):
    row = rows[name]
    assert row[key].startswith(note)
    assert {"missing", "failed"} & set(row) == {key}
    assert "pyblitz" not in row["ns"]
    assert row["goals"][0]["value"] is None
    assert not row["met"]
