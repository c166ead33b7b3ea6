"""Lint and types are clean, and the stubs name what exists.  (That the build gives neither
hints nor warnings .ci/run looks up in what the installation printed.)"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pyblitz as pb

ROOT = Path(__file__).resolve().parent.parent


def run(*command):
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", [("ruff", "check", "."), ("ruff", "format", "--check", ".")])
def test_ruff(command):
    run(*command)


def test_cython_lint():
    """Of a C loop that only counts, the variable has no use: `_` would be a Python object."""
    sources = ["pyblitz", "tests/native", "benchmarks", "examples"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "cython_lint.cython_lint",
            "--max-line-length=120",
            "--ignore=E741",
            *sources,
        ],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    said = [x for x in done.stdout.splitlines() if "Loop control variable" not in x]
    assert not said, "\n".join(said)
    assert not done.stderr


def test_mypy():
    run("mypy")


def test_stubs_are_complete():
    run(
        "mypy.stubtest",
        "pyblitz",
        "--allowlist",
        str(ROOT / "tests" / "stubtest.txt"),
        "--ignore-unused-allowlist",
        "--mypy-config-file",
        str(ROOT / "pyproject.toml"),
    )


def test_all_is_what_the_stubs_say():
    text = (ROOT / "pyblitz" / "__init__.pyi").read_text()
    names = re.findall(r'^    "(\w+)",$', text, re.M)
    assert sorted(names) == sorted(pb.__all__)


def test_the_namespace_is_typed_as_numpys():
    lines = ["np.sqrt(np.zeros(3))", "np.add.reduce", "np.sort([1, 2])", "np.linalg.inv", "np.pi"]

    def revealed(module):
        program = f"import {module} as np\n" + "".join(f"reveal_type({x})\n" for x in lines)
        # Compiled modules have no stubs: mypy says so of each that a stub of ours imports.
        command = [sys.executable, "-m", "mypy", "--config-file=/dev/null", "-c", program]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        return [line for line in done.stdout.splitlines() if line.startswith("<string>")]

    assert revealed("pyblitz.numpy") == revealed("numpy")
    assert len(revealed("numpy")) == len(lines)
