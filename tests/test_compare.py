"""The command that compares a change's speed with its parent's (benchmarks/compare.py)."""

import subprocess
import sys
from pathlib import Path

import pytest

import pyblitz

PACKAGE = Path(pyblitz.__file__).resolve().parent
COMPARE = Path(__file__).resolve().parent.parent / "benchmarks" / "compare.py"

SLOWED = """
import time
import pyblitz
fn = pyblitz.par_sum
def slowed(a):
    time.sleep(1e-4)
    return fn(a)
pyblitz.par_sum = slowed
"""


@pytest.mark.parametrize(
    ("which", "mark"),
    [("after", "slower"), pytest.param("before", "faster", marks=pytest.mark.full)],
)
def test_a_slower_call_is_seen(tmp_path, which, mark):
    for name in ("before", "after"):
        tree = tmp_path / name
        tree.mkdir()
        (tree / "pyblitz").symlink_to(PACKAGE)
        (tree / "sitecustomize.py").write_text(SLOWED if name == which else "")
    done = subprocess.run(
        [
            *(sys.executable, str(COMPARE), str(tmp_path / "before"), str(tmp_path / "after")),
            *("--only", "par_sum(f8), 1,000", "--threads", "1"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    rows = [row for row in done.stdout.splitlines() if row.startswith("par_sum")]
    assert len(rows) == 1, done.stdout + done.stderr
    assert rows[0].endswith(mark)
    assert done.returncode == (mark == "slower")


@pytest.mark.slow
@pytest.mark.full
def test_native_rows(tmp_path):
    """Kernels that are built against each of the two."""
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyblitz").symlink_to(PACKAGE)
    done = subprocess.run(
        [
            *(sys.executable, str(COMPARE), str(tmp_path / "before"), str(tmp_path / "after")),
            *("--only", "native", "--threads", "2"),
        ],
        capture_output=True,
        text=True,
        timeout=600,
    )
    rows = [row for row in done.stdout.splitlines() if ", native  " in row]
    assert len(rows) == 4, done.stdout + done.stderr
    assert all(" us" in row for row in rows), done.stdout
