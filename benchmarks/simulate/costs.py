"""What things cost, in nanoseconds, and where each number comes from.

``here()`` is this machine: what benchmarks/results says, else the estimates below.
``two_sockets()`` and ``mesh()`` are published machines: latencies between cores as they were
measured by others; what the system costs there is an estimate.

Each cost has a source, which begins with what it is: MEASURED, PUBLISHED or ESTIMATE.
"""

from __future__ import annotations

import json
import pathlib
from dataclasses import dataclass, field, fields, replace
from typing import Any

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "results"
MEASURED, PUBLISHED, ESTIMATE = "measured here", "published", "estimate"

Row = dict[str, Any]
Distances = tuple[float, float, float]


def price(otherwise: float | Distances, meaning: str, unit: str = "ns") -> Any:
    """A cost.  ``otherwise``: an estimate, for machines without results."""
    return field(default=otherwise, metadata={"meaning": meaning, "unit": unit})


def everywhere(ns: float) -> Distances:
    return ns, ns, ns


@dataclass(frozen=True)
class Costs:
    """In ns but for bandwidths.  A tuple is by distance: same group, same socket, another
    socket."""

    # -- the owner's side: what one thread alone pays
    fork_eager: float = price(3.0, "join over two calls, the owner's pop without a fence")
    fork_fenced: float = price(5.5, "the same with a fence, until the deque is biased again")
    fork_lazy: float = price(1.8, "join_lazy over two calls")
    node: float = price(10.0, "an inner node of the bridge and the call of a leaf")
    task: float = price(12.0, "a task that its own worker spawns and runs")
    clock: float = price(22.0, "a look at the clock")
    atomic: float = price(6.0, "a read-modify-write of a line that is already here")
    # -- between cores
    transfer: tuple[float, float, float] = price(
        everywhere(60.0), "a line that another core wrote last"
    )
    look: tuple[float, float, float] = price(everywhere(10.0), "one victim of a sweep")
    steal: tuple[float, float, float] = price(everywhere(150.0), "a theft, after the look")
    # -- the system
    yielding: float = price(400.0, "a yield")
    spin: float = price(20.0, "one look of a wait, and its pause")
    wake_call: float = price(2000.0, "a wake, for the waker")
    wake: float = price(15000.0, "until a thread that slept for long runs")
    wake_soon: float = price(4000.0, "until one runs that fell asleep less than `doze` ago")
    doze: float = price(200_000.0, "from when on a sleeper has slept for long")
    revoke_thief: float = price(8500.0, "a membarrier, for the thief")
    revoke_owner: float = price(5000.0, "the interrupt, for the owner that it stops")
    # -- memory
    core_bandwidth: float = price(12.0, "bytes read and written by one core", "bytes/ns")
    socket_bandwidth: float = price(16.0, "the same by all cores of a socket", "bytes/ns")


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
                    "meaning": item.metadata["meaning"],
                    "unit": item.metadata["unit"],
                    "ns": list(value) if isinstance(value, tuple) else value,
                    "source": self.sources[item.name],
                }
            )
        return rows


# ---- this machine ---------------------------------------------------------------


# The kind of processor that prices.jsonl and sleeping.jsonl are of.
PRICED = "amd-25-17"
NOT_MEASURED = f"{ESTIMATE}: prices.jsonl does not have it"
# No row can tell it: between the two is where the idle time of a CPU begins to matter.
DOZE = f"{ESTIMATE}: between the 50 us and the 20 ms after which wakes are measured"


def lines(directory: pathlib.Path, name: str) -> list[Row]:
    path = directory / f"{name}.jsonl"
    if not path.exists():
        return []
    return [
        json.loads(line) | {"file": f"{name}.jsonl"} for line in path.read_text().splitlines()[1:]
    ]


def measured(directory: pathlib.Path = RESULTS) -> dict[tuple[str, int], Row]:
    """pyblitz's rows of the scheduler and of sleeping.jsonl, by what and threads."""
    return {
        (row["what"], int(row.get("threads", 2))): row
        for name in (f"scheduler/{PRICED}", "sleeping")
        for row in lines(directory, name)
        if row.get("who") == "pyblitz" and "ns_min" in row
    }


def prices(directory: pathlib.Path = RESULTS) -> dict[str, float]:
    """Of prices.jsonl."""
    return {row["what"]: row["price"] for row in lines(directory, "prices") if "price" in row}


def here(directory: pathlib.Path = RESULTS) -> Machine:
    """This machine.  A join is read from the scheduler's rows with one thread, everything else
    from prices.py; never from a row of pyblitz with two threads, for those remain to be
    predicted."""
    rows, priced = measured(directory), prices(directory)
    found: dict[str, Any] = {}
    sources = dict.fromkeys((item.name for item in fields(Costs)), NOT_MEASURED)
    sources["doze"] = DOZE
    for name, what in (("fork_eager", "join"), ("fork_lazy", "join_lazy")):
        if row := rows.get((what, 1)):
            found[name] = max(0.1, row["ns_min"])
            sources[name] = f"{MEASURED}: {row['file']}, {what} with 1 thread"
    for item in fields(Costs):
        if item.name in priced:
            by_distance = isinstance(item.default, tuple)
            value = priced[item.name]
            found[item.name] = everywhere(value) if by_distance else value
            sources[item.name] = f"{MEASURED}: prices.jsonl, {item.name}"
    # With join measured, but not join_lazy, the runtime was the one whose pop has a fence.
    biased = ("join_lazy", 1) in rows or ("join", 1) not in rows
    eager = found.get("fork_eager", Costs.fork_eager)
    if not biased:
        found["fork_fenced"] = eager
        sources["fork_fenced"] = sources["fork_eager"]
    elif "fence" in priced:
        found["fork_fenced"] = eager + priced["fence"]
        sources["fork_fenced"] = f"{MEASURED}: prices.jsonl, fence, and fork_eager"
    elif "fork_eager" in found:
        found["fork_fenced"] = eager + 5.0
    return Machine(
        name="here",
        title="this machine's costs, all cores equally far",
        costs=replace(Costs(), **found),
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
#   takes over what it takes here.
SWITCH = "2 - 5 us for a futex on servers (B. Sigoure, 2010)"
BARRIER = "as here, where it interrupts one core only"
SERVERS = {
    "transfer": f"{PUBLISHED}: core-to-core-latency (N. Viennot)",
    "look": f"{ESTIMATE}: 2 ns and a quarter of a transfer",
    "steal": f"{ESTIMATE}: 30 ns and two transfers, one after the other",
    "wake": f"{ESTIMATE}: {SWITCH}",
    "wake_soon": f"{ESTIMATE}: {SWITCH}",
    "wake_call": f"{ESTIMATE}: the waker's half of a futex's wake",
    "revoke_thief": f"{ESTIMATE}: {BARRIER}",
    "revoke_owner": f"{ESTIMATE}: {BARRIER}",
    "core_bandwidth": f"{ESTIMATE}: one core of a DDR4-3200 server",
    "socket_bandwidth": f"{ESTIMATE}: 80 % of eight channels of DDR4-3200",
}


def published(
    name: str,
    title: str,
    group: int,
    transfer: Distances,
    directory: pathlib.Path,
) -> Machine:
    own = here(directory)
    near, far, other = transfer
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
        sources=own.sources | SERVERS,
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
