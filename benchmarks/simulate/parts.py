"""What the simulated pool is made of, and what can be chosen about it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

# What a generator yields is what its worker does next; see pool.py.
Program: TypeAlias = Generator[Any, Any, Any]
Body: TypeAlias = Callable[["Worker"], "Program | float"]

NEVER = float("inf")


@dataclass(frozen=True)
class Policy:
    """The choices to compare, and the constants of the runtime."""

    # What whoever waits for a stolen fork takes meanwhile: "leapfrog": from its thief, what was
    # forked by the fork itself; "chain": also from those whom the thief waits for in turn;
    # "any": any job.
    wait: str = "leapfrog"
    victim: str = "random"  # or "nearest": a sweep goes from near to far
    wake: int = 1  # sleepers woken at a time
    guests_first: bool = True  # or each guest is met in its turn
    joins: str = "lazy"  # or "eager": what a tree's join is
    count: str = "shared"  # or "local": where a scope counts its tasks
    counters: str = "shared"  # or "free": as if the word of the counters cost nothing
    rounds: int = 128  # empty sweeps before an idle worker sleeps
    rounds_of_a_look: int = 4  # at most: of each other worker one
    looks: int = 256  # of a wait, before it sleeps
    looks_per_yield: int = 16  # of both; after the others it pauses
    share_awake: float = 5_000.0
    share_asleep: float = 80_000.0
    beat: float = 5_000.0
    beat_asleep: float = 10_000.0
    bias_after: int = 4096  # fenced pops, until a deque is biased
    turn: int = 64  # tasks that are counted at once
    # Whether showing a lazy fork wakes a sleeper although somebody searches.
    show_wakes: bool = False


class Job:
    """What a deque holds: a fork with its latch, or a task of a scope."""

    __slots__ = ("asleep", "body", "done", "owner", "promoted", "scope", "seen", "tag", "thief")

    def __init__(self, body: Body, owner: Worker, scope: Scope | None = None) -> None:
        self.body = body
        self.owner = owner
        self.scope = scope
        self.tag: Job | None = None  # the job below which a fork was made
        self.thief: Worker | None = None
        self.seen = -1.0  # when a beat first met this lazy fork
        self.promoted = False
        self.done = False
        self.asleep = False  # whether its owner sleeps on its latch


class Line:
    """A cache line that many workers change."""

    __slots__ = ("free", "last", "version")

    def __init__(self) -> None:
        self.free = 0.0
        self.last = 0
        self.version = 0


class Scope:
    __slots__ = ("asleep", "count", "line", "owner", "waited")

    def __init__(self, owner: Worker) -> None:
        self.owner = owner
        self.count = 0
        self.line = Line()
        self.waited = False
        self.asleep = False


class Bridge:
    """One data-parallel call.  ``leaf(w, lo, hi)`` says how long items take, or what they run.
    ``grain`` 0: leaves as long as LEAF_NS."""

    __slots__ = ("done", "grain", "leaf", "n", "span", "start")

    def __init__(self, leaf: Callable[[Worker, int, int], Program | float], grain: int) -> None:
        self.leaf = leaf
        self.grain = grain
        self.span = 1
        self.n = 0
        self.done = 0
        self.start = 0.0


class Worker:
    __slots__ = (
        "base",
        "beat",
        "beat_due",
        "beaten_at",
        "block_until",
        "busy_until",
        "debt",
        "fenced",
        "forks",
        "fresh",
        "held",
        "index",
        "lazy",
        "more",
        "pending",
        "seen",
        "sharing",
        "slept_at",
        "spinning",
        "stack",
        "sweeping",
        "tasks",
        "token",
        "victim",
        "waits",
        "work",
    )

    def __init__(self, index: int) -> None:
        self.index = index
        self.stack: list[Program] = []
        self.token = 0  # of the event that goes on with this worker
        self.debt = 0.0
        self.forks: deque[Job] = deque()
        self.tasks: deque[Job] = deque()
        self.lazy: deque[Job] = deque()
        self.base: Job | None = None
        self.sharing = index > 0
        self.fresh = False  # took a job, and has not forked since
        # -- searching and waiting
        self.sweeping = False
        self.victim = -1
        self.more = False
        self.pending: list[Job] = []  # stolen forks that it has to wait for, oldest first
        self.waits: Job | None = None
        self.spinning = False
        self.slept_at = -NEVER
        # -- the beat of lazy joins
        self.beaten_at = 0.0  # when it looked last
        self.beat = 0  # token of the planned look
        self.beat_due = NEVER
        self.block_until = -1.0
        # -- its deques' cache lines
        self.busy_until = 0.0
        self.fenced = 0  # pops until its deque is biased
        self.held = 0  # tasks it ran, and has not counted down
        self.seen = -1
        self.work = 0.0
