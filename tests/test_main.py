"""``python -m pyblitz``, the demonstration."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import numpy as np

import pyblitz as pb
from pyblitz import __main__ as demo
from pyblitz.kernels.simd import levels


def test_demonstration(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "pyblitz"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{pb.num_threads()} threads" in done.stdout
    assert "All answers agree." in done.stdout
    for name in ("par_map", "par_reduce", "par_sort"):
        assert done.stdout.count(name) >= 3


def test_info(tmp_path):
    """What the bug report asks for, one fact a line."""
    lowest = levels.names()[0]
    done = subprocess.run(
        [sys.executable, "-m", "pyblitz", "--info"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={
            **os.environ,
            "PYBLITZ_NUM_THREADS": "3",
            "PYBLITZ_MEMBARRIER": "0",
            "PYBLITZ_CPU": lowest,
        },
    )
    facts = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert facts["pyblitz"] == pb.__version__
    assert facts["python"].endswith(platform.python_version())
    assert facts["numpy"] == np.__version__
    assert facts["threads"] == "3"
    assert facts["membarrier"] == "False"
    assert facts["simd"] == lowest
    assert "PYBLITZ_NUM_THREADS" in facts["environment"]
    assert int(facts["cpus"]) >= 1
    assert demo.main(["--what"]) == 2


def test_a_wrong_answer_fails(monkeypatch, capsys):
    def wrong(n, rng):
        return [("wrong", lambda: np.array([1]), lambda: np.array([2]), demo.same)]

    monkeypatch.setattr(demo, "cases", wrong)
    assert demo.main() == 1
    assert "DIFFER" in capsys.readouterr().out


def test_version_is_the_metadatas():
    import re
    from pathlib import Path

    text = (Path(__file__).resolve().parent.parent / "pyproject.toml").read_text()
    assert re.search(r'^version = "(.+)"$', text, re.M)[1] == pb.__version__
