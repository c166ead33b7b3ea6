"""Lint and types are clean, and the stubs name what exists."""

from __future__ import annotations

import re
import shutil
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


@pytest.mark.slow
def test_no_performance_hint_and_no_warning(tmp_path):
    """Every module compiles without a hint from Cython or a warning from C.  In a copy, so
    that nobody's build is disturbed."""
    shutil.copytree(
        ROOT / "pyblitz",
        tmp_path / "pyblitz",
        ignore=shutil.ignore_patterns("*.c", "*.so", "__pycache__"),
    )
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", "built"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    bad = [line for line in lines if re.search(r"performance hint|warning:", line)]
    assert not bad, "\n".join(bad)
