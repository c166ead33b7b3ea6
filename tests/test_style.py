"""Lint and types are clean, and the stubs name what exists.  (That the build gives neither
hints nor warnings .ci/run looks up in what the installation printed.)"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cython_lint.cython_lint import PYCODESTYLE_CODES

import pyblitz as pb

ROOT = Path(__file__).resolve().parent.parent


STUBTEST = [
    *("mypy.stubtest", "pyblitz", "--ignore-unused-allowlist"),
    *("--allowlist", str(ROOT / "tests" / "stubtest.txt")),
    *("--mypy-config-file", str(ROOT / "pyproject.toml")),
]
# Commands to run in turn, as they share a cache.  Each keeps one CPU busy for seconds.
CYTHON = ["pyblitz", "tests/native", "benchmarks", "examples"]
CHECKS = {
    "types": [["mypy"], STUBTEST],
    "ruff": [["ruff", "check", "."], ["ruff", "format", "--check", "."]],
    # Which starts pycodestyle for each file if it is let to.
    "cython-lint": [["cython_lint.cython_lint", "--no-pycodestyle", *CYTHON]],
    "pycodestyle": [
        [
            "pycodestyle",
            "--max-line-length=120",
            f"--ignore={','.join(sorted({*PYCODESTYLE_CODES, 'E741'}))}",
            *(str(path) for top in CYTHON for path in sorted((ROOT / top).rglob("*.p[yx][xd]"))),
        ]
    ],
}


def run(commands):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return [
        subprocess.run(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        for command in commands
    ]


@pytest.fixture(scope="module")
def checked():
    """What each of them says, run as many at once as there are CPUs."""
    with ThreadPoolExecutor(os.cpu_count()) as executor:
        return dict(zip(CHECKS, executor.map(run, CHECKS.values()), strict=True))


@pytest.mark.parametrize("name", CHECKS)
def test_lint_and_types(name, checked):
    """Of a C loop that only counts, the variable has no use: `_` would be a Python object."""
    for done in checked[name]:
        if name == "cython-lint":
            said = [x for x in done.stdout.splitlines() if "Loop control variable" not in x]
            assert not said, "\n".join(said)
            assert not done.stderr
        else:
            assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_leaves_an_except_clause():
    """Cython (3.3.1) lets go of the traceback on the way out, which may be NULL where there was
    no memory for one: a crash.  At the end of the clause it looks."""
    found = []
    for path in sorted(ROOT.glob("pyblitz/**/*.pyx")):
        lines = path.read_text().splitlines()
        for i, line in enumerate(lines):
            if not line.lstrip().startswith("except"):
                continue
            depth = len(line) - len(line.lstrip())
            for k in range(i + 1, len(lines)):
                inside = lines[k].lstrip()
                if inside and len(lines[k]) - len(inside) <= depth:
                    break
                if re.match(r"(return|break|continue)\b", inside):
                    found.append(f"{path.relative_to(ROOT)}:{k + 1}: {inside}")
    assert not found, "\n".join(found)


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
