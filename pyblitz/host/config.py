"""What the environment says: how many threads the machine grants this process, and its variables.

The default honours what the process may really use: the CPUs of its affinity
mask, and the quota of its control group (v1 or v2), which neither
``os.cpu_count`` nor ``os.process_cpu_count`` knows.
"""

from __future__ import annotations

import importlib
import math
import operator
import os
import sys

ENVIRONMENT_VARIABLE = "PYBLITZ_NUM_THREADS"
SPIN_MICROSECONDS = 200
MAX_SPIN_MICROSECONDS = 1_000_000
MAX_THREADS = 16384


def refuse_subinterpreters() -> None:
    """ImportError in any but the main interpreter, before NumPy or Cython refuse it in
    words that name neither it nor pyblitz."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = importlib.import_module(name)
        except ImportError:
            continue
        if interpreters.get_current() != interpreters.get_main():
            raise ImportError(
                "pyblitz cannot be used in a sub-interpreter: its threads belong to the main one",
                name="pyblitz",
            )
        return


def check_count(value: object, name: str, least: int = 1, most: float = math.inf) -> int:
    """``value`` as a number of things, or TypeError or ValueError naming it."""
    try:
        n = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if not least <= n <= most:
        wanted = "be greater than 0" if least else "not be negative"
        if most != math.inf:
            wanted = f"be from {least} to {most}"
        raise ValueError(f"{name} must {wanted}, not {n}")
    return n


def asymmetric_fences() -> bool:
    """Whether forks may leave their fences to thieves (membarrier), where the
    system can do that: unless PYBLITZ_MEMBARRIER is 0."""
    return os.environ.get("PYBLITZ_MEMBARRIER", "1").strip() != "0"


def places_threads() -> bool:
    """Whether a thread that is called in may be kept off its waker's CPU until it runs: unless
    PYBLITZ_AFFINITY is 0, for sandboxes that end a process which calls sched_setaffinity."""
    return os.environ.get("PYBLITZ_AFFINITY", "1").strip() != "0"


def check_pin(pin: object) -> tuple[int, ...]:
    """The CPUs that a pool's threads are to stay on, in turn; empty: any.

    Raises TypeError, ValueError, or OSError where the system refuses."""
    if pin is None or pin is False:
        return ()
    if not hasattr(os, "sched_setaffinity"):
        raise OSError("pin: this system does not place threads on CPUs")
    allowed = sorted(os.sched_getaffinity(0))
    if pin is True:
        cpus = allowed[1:] + allowed[:1]
    else:
        try:
            if isinstance(pin, str | bytes):
                raise TypeError
            cpus = [operator.index(cpu) for cpu in pin]  # type: ignore[attr-defined]
        except TypeError:
            raise TypeError(
                f"pin must be None, True or a sequence of CPU numbers, not {pin!r}"
            ) from None
        if not cpus:
            raise ValueError("pin must name at least one CPU")
        for cpu in cpus:
            if cpu not in allowed:
                names = ", ".join(map(str, allowed))
                raise ValueError(f"pin: this process may not use CPU {cpu}, but {names}")
    try:
        # The right to do it at all, in this thread and undone at once.
        os.sched_setaffinity(0, cpus[:1])
        os.sched_setaffinity(0, allowed)
    except OSError as e:
        raise OSError(e.errno, f"pin: the system refuses to place threads: {e.strerror}") from e
    return tuple(cpus)


def check_seconds(value: object, name: str) -> int | None:
    """Seconds as nanoseconds, None as None, or TypeError or ValueError."""
    if value is None:
        return None
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}") from None
    if not 0 <= seconds <= 1e9:
        raise ValueError(f"{name} must be from 0 to 1e9 seconds, not {seconds}")
    return int(seconds * 1e9)


def check_idle(idle_timeout: object, keep: object) -> tuple[int, int]:
    """Nanoseconds after which an idle thread ends, -1 for never, and how many
    stay; or TypeError or ValueError."""
    n = check_count(keep, "keep", 0)
    ns = check_seconds(idle_timeout, "idle_timeout")
    return -1 if ns is None else ns, min(n, MAX_THREADS)


def available_cpus() -> int:
    """CPUs in the affinity mask of this process."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count() or 1


def _read(path: str) -> str | None:
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return None


def cgroup_quota(
    mount: str = "/sys/fs/cgroup", membership: str = "/proc/self/cgroup"
) -> float | None:
    """CPUs' worth of time that the control group grants, or None without limit.

    The tightest limit from the process's group up to the root counts, as for
    the kernel.
    """
    limits: list[float] = []
    for line in (_read(membership) or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        number, controllers, path = parts
        if number == "0" and not controllers:
            base, v2 = mount, True
        elif "cpu" in controllers.split(","):
            base, v2 = os.path.join(mount, "cpu"), False
        else:
            continue
        # Inside a container the path may lead to nowhere; the mount is then
        # the process's own group.
        group = path.strip("/")
        while True:
            limit = _quota_of(os.path.join(base, group), v2)
            if limit is not None:
                limits.append(limit)
            if not group:
                break
            group = os.path.dirname(group)
    return min(limits) if limits else None


def _quota_of(directory: str, v2: bool) -> float | None:
    if v2:
        words = (_read(os.path.join(directory, "cpu.max")) or "").split()
    else:
        words = [
            (_read(os.path.join(directory, name)) or "").strip()
            for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        ]
    try:
        quota, period = float(words[0]), float(words[1])
    except (IndexError, ValueError):  # no file, or "max"
        return None
    return quota / period if quota > 0 and period > 0 else None


def granted_by_outer_pool() -> float:
    """How many threads a process pool grants this process, if it is a worker of loky's or dask's:
    these set OMP_NUM_THREADS in their workers.  Elsewhere OMP_NUM_THREADS does not count."""
    processes = sys.modules.get("multiprocessing.process")
    if processes is None or processes.parent_process() is None:
        return math.inf
    if not processes.current_process().name.startswith(("LokyProcess", "Dask Worker")):
        return math.inf
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else math.inf


def default_num_threads() -> int:
    """PYBLITZ_NUM_THREADS, else the CPUs that this process may use; in a worker of a process
    pool at most what that grants."""
    text = os.environ.get(ENVIRONMENT_VARIABLE, "").strip()
    if text:
        try:
            n = int(text)
        except ValueError:
            raise ValueError(f"{ENVIRONMENT_VARIABLE} must be an integer, not {text!r}") from None
        check_count(n, ENVIRONMENT_VARIABLE, 1, MAX_THREADS)
    else:
        n = available_cpus()
        quota = cgroup_quota()
        if quota is not None:
            n = min(n, math.ceil(quota))
    return int(max(1, min(n, granted_by_outer_pool(), MAX_THREADS)))


def enable_at_import() -> bool:
    """PYBLITZ_ENABLE: whether importing pyblitz is to enable it."""
    text = os.environ.get("PYBLITZ_ENABLE", "").strip()
    if text not in ("", "0", "1"):
        raise ValueError(f"PYBLITZ_ENABLE must be 0 or 1, not {text!r}")
    return text == "1"


def share_from() -> int:
    """PYBLITZ_SHARE_FROM, for tests: from how many elements on `enable` is to share every call
    that can be shared; 0: where it pays.  Any other number also takes all calls of public functions
    past what only large ones go through."""
    text = os.environ.get("PYBLITZ_SHARE_FROM", "").strip() or "0"
    if not text.isdecimal():
        raise ValueError(f"PYBLITZ_SHARE_FROM must be a number of elements, not {text!r}")
    return int(text)


def spin_microseconds(num_threads: int) -> int:
    """PYBLITZ_SPIN: how long a thread without work looks for some before it sleeps, while that pays
    and nobody else wants its CPU; 0: only for some rounds.  So it is, too, where there are
    more threads than CPUs, or a quota would pay for it."""
    text = os.environ.get("PYBLITZ_SPIN", "").strip() or str(SPIN_MICROSECONDS)
    if not text.isdecimal() or int(text) > MAX_SPIN_MICROSECONDS:
        raise ValueError(
            f"PYBLITZ_SPIN must be a number of microseconds, at most {MAX_SPIN_MICROSECONDS}, "
            f"not {text!r}"
        )
    quota = cgroup_quota()
    granted = available_cpus() if quota is None else min(available_cpus(), quota)
    return int(text) if num_threads <= granted else 0


def simd_level(names: list[str]) -> str:
    """PYBLITZ_CPU: the level of vector instructions that kernels may use, of those that the
    processor has, which are given from the lowest one up; the highest one by default."""
    level = os.environ.get("PYBLITZ_CPU", "").strip() or names[-1]
    if level not in names:
        raise ValueError(f"PYBLITZ_CPU must be one of {', '.join(names)} here, not {level!r}")
    return level
