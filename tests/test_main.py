"""``python -m pyblitz``, the demonstration."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

import pyblitz as pb
from pyblitz import __main__ as demo


def test_demonstration(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "pyblitz"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{pb.num_threads()} threads" in done.stdout
    assert "All answers agree." in done.stdout
    for name in ("par_map", "par_reduce", "par_sort"):
        assert done.stdout.count(name) >= 3


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
