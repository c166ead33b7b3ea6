"""The stubs: what type checkers say of the samples is what the samples give."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "tests" / "typed_samples.py"


@pytest.mark.parametrize("checker", [["mypy", "--strict", "--config-file="], ["pyright"]])
def test_checkers(checker):
    """Run where they find pyblitz, whichever way it is installed."""
    env = {**os.environ, "MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", *checker, str(SAMPLES)],
        capture_output=True,
        text=True,
        env=env,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def is_of(value, wanted):
    """Whether a value is of a type as it is written in the samples."""
    if wanted is Any:
        return True
    origin, args = get_origin(wanted), get_args(wanted)
    if origin is UnionType:
        return any(is_of(value, one) for one in args)
    if origin is np.ndarray:
        (dtype,) = get_args(args[1])
        return type(value) is np.ndarray and (dtype is Any or value.dtype == np.dtype(dtype))
    if origin is tuple:
        args = [args[0]] * len(value) if args[-1] is ... else args
        return len(value) == len(args) and all(map(is_of, value, args))
    if origin is list:
        return type(value) is list and all(is_of(x, args[0]) for x in value)
    return type(value) is wanted or (wanted is type(None) and value is None) or wanted is None


def test_values(monkeypatch):
    checked = []

    def check(value, wanted):
        assert is_of(value, wanted), (len(checked), type(value), wanted)
        checked.append(wanted)

    monkeypatch.setattr("typing_extensions.assert_type", check)
    code = SAMPLES.read_text()
    exec(compile(code, str(SAMPLES), "exec"), {"__name__": "samples"})
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    assert len(checked) == sum(getattr(c.func, "id", "") == "assert_type" for c in calls) > 60
