"""What every benchmark shares: the machine's facts, a file of JSON lines, and
runs in turn.

Times are only compared with times of the same run: the contestants take turns,
so that a slow minute of the machine is a slow minute for all of them.
"""

from __future__ import annotations

import datetime
import importlib
import json
import os
import pathlib
import platform
import re
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def first_line_of(*command: str) -> str | None:
    """The first line that the command prints, or None when it fails."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.split("\n")[0].strip() if done.returncode == 0 else None


def version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def pyblitz_version() -> str | None:
    """Of the package that is installed, else of the tree around this file."""
    found = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    return version_of("pyblitz") or (found[1] if found else None)


def git_commit() -> str | None:
    """With "+" when tracked files differ from it, results apart."""
    commit = first_line_of("git", "rev-parse", "HEAD")
    changed = first_line_of(
        *("git", "status", "--porcelain", "--untracked-files=no"),
        *("--", ".", ":!benchmarks/results"),
    )
    return f"{commit}+" if commit and changed else commit


def kind_of_cpu() -> str:
    """Its maker, family and model, which say more than names do: amd-26-2."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    found = dict(re.findall(r"^(vendor_id|cpu family|model)\s*: (.+)$", text, re.MULTILINE))
    if len(found) < 3:
        return re.sub(r"\W+", "-", platform.processor() or platform.machine()).lower()
    maker = {"AuthenticAMD": "amd", "GenuineIntel": "intel"}.get(found["vendor_id"], "other")
    return f"{maker}-{found['cpu family']}-{found['model']}"


def numpy_levels() -> list[str]:
    """The x86-64 levels for which NumPy has kernels that run here, the best one first."""
    core = importlib.import_module("numpy._core._multiarray_umath")
    return [v for v in ("v4", "v3", "v2") if core.__cpu_features__.get(f"X86_{v.upper()}")]


def facts() -> dict[str, Any]:
    """The facts of this machine, environment and commit."""
    from pyblitz import _info as info
    from pyblitz.host.config import available_cpus, cgroup_quota

    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    return {
        "cpu": info.cpu_model(),
        "cpu_kind": kind_of_cpu(),
        "levels": numpy_levels(),
        "cpus": available_cpus(),
        "cpus_of_machine": os.cpu_count(),
        "cgroup_quota": cgroup_quota(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": version_of("numpy"),
        "cython": version_of("Cython"),
        "pyblitz": pyblitz_version(),
        # The one that is here now; the package may have come as a wheel.
        "compiler": first_line_of(compiler, "--version"),
        "git_commit": git_commit(),
        "load": os.getloadavg()[0],
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def results_here(name: str) -> pathlib.Path:
    """Where a benchmark writes whose figures are those of one kind of processor."""
    return RESULTS / name / f"{kind_of_cpu()}.jsonl"


def write(
    path: str | os.PathLike[str],
    rows: Iterable[Mapping[str, Any]],
    facts: Mapping[str, Any],
) -> None:
    """Writes JSON lines: the facts, then one line for each row.  A file that was
    there is replaced, as a whole or not at all."""
    target = pathlib.Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(dict(line)) for line in (facts, *rows)]
    partial = target.with_name(target.name + ".partial")
    partial.write_text("\n".join(lines) + "\n")
    partial.replace(target)


def rest(least: float) -> None:
    """Sleeps until threads of this process that spin on when they are done have ended that (those
    of OpenBLAS take 25 ms on one processor and 120 ms on another), or for a second."""
    end = time.monotonic() + 1
    busy = True
    while busy and time.monotonic() < end:
        used = time.process_time()
        time.sleep(least)
        busy = time.process_time() - used > least / 4


def interleave(
    funcs: Mapping[str, Callable[[], object]], repeat: int, warmup: int = 1, pause: float = 0.0
) -> dict[str, list[float]]:
    """Seconds of ``repeat`` calls of each function, taken in turn after
    ``warmup`` rounds that do not count.  Every other round goes backwards, so
    that nobody always follows the same neighbour.  ``pause``: seconds between
    two calls at least, for neighbours whose threads spin on when they are done."""
    seconds: dict[str, list[float]] = {name: [] for name in funcs}
    order = list(funcs.items())
    for turn in range(warmup + repeat):
        for name, func in order if turn % 2 == 0 else reversed(order):
            if pause:
                rest(pause)
            start = time.perf_counter()
            func()
            took = time.perf_counter() - start
            if turn >= warmup:
                seconds[name].append(took)
    return seconds
