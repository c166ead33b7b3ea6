"""What a bug report should say: versions, the machine, and what was found on it."""

from __future__ import annotations

import os
import platform
import re
import sys
from typing import Any

import numpy as np

import pyblitz
from pyblitz.host.build import built, features
from pyblitz.host.config import available_cpus, cgroup_quota


def cpu_model() -> str:
    try:
        with open("/proc/cpuinfo") as f:
            found = re.search(r"^model name\s*:\s*(.+)$", f.read(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


def info() -> dict[str, Any]:
    """Name and value of each fact."""
    return {
        "pyblitz": pyblitz.__version__,
        "pyblitz_path": os.path.dirname(pyblitz.__file__),
        **built(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()),
        "cpu": cpu_model(),
        "cpus_of_machine": os.cpu_count(),
        "cpus": available_cpus(),
        "cgroup_quota": cgroup_quota(),
        "threads": pyblitz.num_threads(),
        **features(),
        "environment": {k: v for k, v in os.environ.items() if k.startswith("PYBLITZ_")},
    }
