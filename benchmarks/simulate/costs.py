"""What things cost, in nanoseconds, and where each number comes from.

``here()`` is this machine: what benchmarks/results says, else the fallbacks below.
``two_sockets()`` and ``mesh()`` are published machines: latencies between cores as they were
measured by others, and what the system costs there, which is approximate.
"""

from __future__ import annotations

import json
import pathlib
from dataclasses import dataclass, field, fields, replace
from typing import Any

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "results"

Row = dict[str, Any]


@dataclass(frozen=True)
class Costs:
    """All in ns.  A tuple is by distance: same group, same socket, another socket."""

    # -- the owner's side: what one thread alone pays
    fork_eager: float = 3.0  # join over two calls, owner's pop without a fence
    fork_fenced: float = 5.5  # the same with a fence, until the deque is biased again
    fork_lazy: float = 1.8  # join_lazy over two calls
    node: float = 10.0  # bookkeeping of one inner node of the bridge
    task: float = 12.0  # push and pop of a task
    clock: float = 22.0
    atomic: float = 6.0  # a read-modify-write of a line that is already here
    # -- between cores
    transfer: tuple[float, float, float] = (60.0, 60.0, 60.0)
    look: tuple[float, float, float] = (10.0, 10.0, 10.0)  # one victim of a sweep
    steal: tuple[float, float, float] = (150.0, 150.0, 150.0)
    # -- the system
    yielding: float = 400.0
    spin: float = 20.0  # one look of a wait
    wake_call: float = 2000.0  # what the waker pays
    wake: float = 15000.0  # until a thread that slept for long runs
    wake_soon: float = 4000.0  # the same if it fell asleep less than `doze` ago
    doze: float = 200_000.0
    revoke_thief: float = 8500.0  # membarrier
    revoke_owner: float = 5000.0
    # -- memory, bytes per ns
    core_bandwidth: float = 12.0
    socket_bandwidth: float = 16.0


@dataclass(frozen=True)
class Machine:
    """Costs and distances.  Worker i runs on core i; cores are grouped by a shared cache, and
    groups by socket.  Beyond its real size a machine is continued by more such sockets."""

    name: str
    title: str
    costs: Costs
    group: int
    socket: int
    cores: int  # that it really has
    biased: bool = True  # eager joins leave out the fence, and a thief pays for it
    sources: dict[str, str] = field(default_factory=dict)

    def distance(self, a: int, b: int) -> int:
        """0: same group; 1: same socket; 2: another socket."""
        if a // self.group == b // self.group:
            return 0
        return 1 if a // self.socket == b // self.socket else 2

    def table(self) -> list[Row]:
        """One row for each cost, with its source."""
        rows = []
        for item in fields(Costs):
            value = getattr(self.costs, item.name)
            rows.append(
                {
                    "what": "cost",
                    "machine": self.name,
                    "name": item.name,
                    "ns": list(value) if isinstance(value, tuple) else value,
                    "source": self.sources.get(item.name, "fallback"),
                }
            )
        return rows


# ---- this machine ---------------------------------------------------------------


def measured(directory: pathlib.Path = RESULTS) -> dict[tuple[str, int], Row]:
    """pyblitz's rows of scheduler.jsonl and of sleeping.jsonl, by what
    and threads; and what a futex alone takes."""
    found: dict[tuple[str, int], Row] = {}
    for name in ("scheduler", "sleeping"):
        path = directory / f"{name}.jsonl"
        if not path.exists():
            continue
        for line in path.read_text().splitlines()[1:]:
            row = json.loads(line)
            if row.get("who") == "a futex alone":
                row |= {"who": "pyblitz", "what": "futex"}
            if row.get("who") == "pyblitz" and "ns_min" in row:
                found[row["what"], int(row.get("threads", 2))] = row | {"file": path.name}
    return found


def here(directory: pathlib.Path = RESULTS) -> Machine:
    """This machine.  What one thread alone pays is read from the rows with one thread; what
    takes two threads to measure is a fallback, so that those rows remain to be predicted."""
    rows = measured(directory)
    found: dict[str, float] = {}
    sources = dict.fromkeys((item.name for item in fields(Costs)), "placeholder")
    for name, what in (("fork_eager", "join"), ("fork_lazy", "join_lazy")):
        if row := rows.get((what, 1)):
            found[name] = max(0.1, row["ns_min"])
            sources[name] = f"{row['file']}: {what}, 1 thread"
    # Rows of their own, if somebody measures them.
    for name in ("wake", "wake_soon", "wake_call", "yielding", "clock", "revoke_thief"):
        for threads in (1, 2):
            if row := rows.get((name, threads)):
                found[name] = row["ns_min"]
                sources[name] = f"{row['file']}: {name}"
    if row := rows.get(("futex", 2)):
        found["wake"] = row["ns_min"] - Costs().transfer[0]
        sources["wake"] = f"{row['file']}: a futex alone, less a transfer"
    # With join measured, but not join_lazy, the runtime was the one whose pop has a fence.
    biased = ("join_lazy", 1) in rows or ("join", 1) not in rows
    if not biased:
        found["fork_fenced"] = found["fork_eager"]
        sources["fork_fenced"] = sources["fork_eager"]
    elif "fork_eager" in found:
        found["fork_fenced"] = found["fork_eager"] + 5.0
    return Machine(
        name="here",
        title="this machine's costs, all cores equally far",
        costs=replace(Costs(), **found),  # type: ignore[arg-type]
        group=1 << 20,
        socket=1 << 20,
        cores=2,
        biased=biased,
        sources=sources,
    )


# ---- published machines ---------------------------------------------------------

# [c2c] N. Viennot, core-to-core-latency, https://github.com/nviennot/core-to-core-latency:
#   medians of a compare-and-swap that goes to and fro.  Two EPYC 7R13 (Milan, groups of 8):
#   23 ns in a group, 107 ns between groups, 197 ns between sockets.  (There the second socket
#   is as slow inside as between the sockets, which its author finds odd; not modelled.)
#   Two Xeon 8375C (Ice Lake, 2 x 32 cores, a mesh): 51 ns in a socket, 108 ns between them.
# [switch] B. Sigoure, "How long does it take to make a context switch?", 2010,
#   https://blog.tsunanet.net/2010/11/how-long-does-it-take-to-make-context.html: futexes on
#   Xeons of those years, 1 - 4 us.  Approximate for today's servers; deep idle states cost
#   more (tens of us), a busy-polling idle loop less.
# [stream] Eight channels of DDR4-3200 are 204.8 GB/s a socket in theory (AMD and Intel data
#   sheets); STREAM reaches some 80 % of it.  One core alone: some 20 GB/s.  Approximate.
# [look] A line that did not change is in the cache (2 ns); one that did costs a transfer, but
#   the loads of a sweep do not depend on each other, so about four overlap: an estimate.
# [barrier] membarrier interrupts each core that runs a thread of the process: an estimate that
#   takes over this machine's order of magnitude.
C2C = "core-to-core-latency (N. Viennot)"
PUBLISHED = {
    "transfer": C2C,
    "look": "2 ns + a quarter of a transfer: estimate",
    "steal": "30 ns + two transfers: estimate, as measured here",
    "wake": "approximate: 2 - 5 us for a futex on servers",
    "wake_soon": "approximate: 2 - 5 us for a futex on servers",
    "wake_call": "approximate: the waker's half of a context switch",
    "core_bandwidth": "approximate: one core of a DDR4-3200 server",
    "socket_bandwidth": "approximate: 80 % of eight channels of DDR4-3200",
}


def published(
    name: str,
    title: str,
    group: int,
    transfer: tuple[float, float, float],
    directory: pathlib.Path,
) -> Machine:
    own = here(directory)
    near, far, other = transfer
    sources = {k: f"as here ({v})" for k, v in own.sources.items()} | PUBLISHED
    return Machine(
        name=name,
        title=title,
        costs=replace(
            own.costs,
            transfer=transfer,
            look=(2 + near / 4, 2 + far / 4, 2 + other / 4),
            steal=(30 + 2 * near, 30 + 2 * far, 30 + 2 * other),
            wake_call=1500.0,
            wake=5000.0,
            wake_soon=2500.0,
            core_bandwidth=20.0,
            socket_bandwidth=160.0,
        ),
        group=group,
        socket=32,
        cores=64,
        biased=own.biased,
        sources=sources,
    )


def two_sockets(directory: pathlib.Path = RESULTS) -> Machine:
    """Two sockets of 32 cores that share caches in groups of eight, as EPYC Milan does."""
    title = "two sockets of 32 cores, groups of 8 (EPYC Milan)"
    return published("two-sockets", title, 8, (23.0, 107.0, 197.0), directory)


def mesh(directory: pathlib.Path = RESULTS) -> Machine:
    """Two sockets of 32 cores, all cores of a socket equally far: Xeon 8375C."""
    title = "two sockets of 32 cores, a mesh (Xeon Ice Lake)"
    return published("mesh", title, 32, (51.0, 51.0, 108.0), directory)


MACHINES = {"here": here, "two-sockets": two_sockets, "mesh": mesh}
