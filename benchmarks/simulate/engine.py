"""The scheduler as a deterministic discrete-event simulation.

Each worker is a stack of generators that read like the runtime's own functions.  What a
generator yields is what it does next:

- a number: lets that many ns pass;
- another generator: calls it, and goes on with what it returns;
- None: waits until somebody resumes it.

Between two yields a worker's actions happen at one instant; small costs are added to
``Worker.debt``, which is paid at the next yield.  Events of the same time are taken in the order
in which they were made, and all random numbers come from one seed: the same input gives the same
events.

A sweep over the victims is one event, not one for each victim: it is known when the sweep's
pointer passes whom, so whoever shows a job is met by the searcher that passes there first.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from simulate.costs import Machine

Program: TypeAlias = Generator[Any, Any, Any]
Body: TypeAlias = Callable[["Worker"], "Program | float"]

NEVER = float("inf")
LEAF_NS = 4000.0


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
    rounds: int = 32  # empty sweeps before an idle worker sleeps
    looks: int = 200  # of a wait, before it sleeps
    share_awake: float = 5_000.0
    share_asleep: float = 40_000.0
    beat: float = 5_000.0
    beat_asleep: float = 20_000.0
    # Whether showing a lazy fork wakes a sleeper although somebody searches.
    show_wakes: bool = False


class Job:
    """What a deque holds: a fork with its latch, or a task of a scope."""

    __slots__ = ("asleep", "body", "done", "made", "owner", "promoted", "scope", "tag", "thief")

    def __init__(self, body: Body, owner: Worker, scope: Scope | None = None) -> None:
        self.body = body
        self.owner = owner
        self.scope = scope
        self.tag: Job | None = None  # the job below which a fork was made
        self.thief: Worker | None = None
        self.made = 0.0
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
        "biased_at",
        "block_until",
        "busy_until",
        "debt",
        "eager",
        "forks",
        "fresh",
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
        self.eager = False
        self.biased_at = NEVER
        self.seen = -1
        self.work = 0.0


class Sim:
    """A pool of one guest, worker 0, and ``workers - 1`` background workers that sleep."""

    def __init__(
        self,
        machine: Machine,
        workers: int,
        policy: Policy | None = None,
        seed: int = 1,
        trace: bool = False,
    ) -> None:
        self.machine = machine
        self.costs = machine.costs
        self.policy = policy or Policy()
        self.random = random.Random(seed)
        self.now = 0.0
        self.over = False
        self.workers = [Worker(i) for i in range(workers)]
        self.alone = workers == 1
        self.heap: list[tuple[float, int, Callable[[Worker, int, Any], None], Worker, int, Any]]
        self.heap = []
        self.made = 0
        # -- the counters word
        self.searching = 0
        self.sleeping = 0
        self.sleepers = 0  # bit i: worker i sleeps and may be claimed
        self.hint = 1
        self.jec = 0
        self.counters = Line()
        # -- who shows jobs, and who looks
        self.visible = np.zeros(workers, dtype=bool)
        self.n_visible = 0
        self.n_sweeping = 0
        self.began = np.zeros(workers)
        self.turn = np.zeros(workers, dtype=np.int64)
        self.until = np.full(workers, -NEVER)  # when a sweep ends or meets its victim
        self.inbox: deque[Job] = deque()
        self.holders: dict[int, None] = {}  # in a block, with lazy forks and nothing shown
        self.asked_at = -NEVER  # when a searcher last asked them to look
        self.streams: dict[int, int] = {}
        # -- what happened
        self.steals = 0
        self.looks = 0
        self.wakes = 0
        self.events = 0
        self.items = 0
        self.deepest = 0
        self.parts: list[tuple[int, int]] | None = [] if trace else None
        self._places(workers)

    # ---- events --------------------------------------------------------------------

    def run(self, root: Callable[[Worker], Program]) -> float:
        """Runs the root in the guest; the time at which it ended, in ns."""
        for w in self.workers[1:]:
            w.stack.append(self.background(w))
            self.step(w, None)
        guest = self.workers[0]
        guest.stack.append(self.guest(guest, root))
        self.at(0.0, guest, None)
        heap = self.heap
        pop = heapq.heappop
        while not self.over:
            if not heap:
                raise RuntimeError("everybody waits for somebody")
            self.now, _, handle, w, token, value = pop(heap)
            self.events += 1
            handle(w, token, value)
        return self.now

    def forget(self) -> None:
        """Keeps the figures only."""
        self.workers = []
        self.heap = []

    def guest(self, w: Worker, root: Callable[[Worker], Program]) -> Program:
        yield root(w)
        yield 0.0  # what it still owes
        self.over = True

    def at(self, time: float, w: Worker, value: Any) -> None:
        """Goes on with a worker then, and not as was planned before."""
        w.token += 1
        self.made += 1
        heapq.heappush(self.heap, (time, self.made, self.resume, w, w.token, value))

    def resume(self, w: Worker, token: int, value: Any) -> None:
        if token == w.token:
            self.step(w, value)

    def step(self, w: Worker, value: Any) -> None:
        stack = w.stack
        while True:
            try:
                what = stack[-1].send(value)
            except StopIteration as end:
                stack.pop()
                if not stack:
                    return
                value = end.value
                continue
            if what is None:
                return
            if type(what) is float or type(what) is int:
                w.token += 1
                self.made += 1
                time = self.now + w.debt + what
                w.debt = 0.0
                heapq.heappush(self.heap, (time, self.made, self.resume, w, w.token, None))
                return
            stack.append(what)
            if len(stack) > self.deepest:
                self.deepest = len(stack)
            value = None

    # ---- cache lines ---------------------------------------------------------------

    def far(self, a: Worker, b: Worker) -> float:
        """Until b sees what a wrote."""
        return self.costs.transfer[self.machine.distance(a.index, b.index)]

    def touch(self, w: Worker, line: Line) -> None:
        """A read-modify-write; those of several workers go one after the other."""
        if line is self.counters and self.policy.counters == "free":
            return
        own = self.now + w.debt
        begin = max(own, line.free)
        cost = self.costs.atomic
        if line.last != w.index:
            cost += self.costs.transfer[self.machine.distance(line.last, w.index)]
        line.free = begin + cost
        line.last = w.index
        line.version += 1
        w.debt += line.free - own

    # ---- jobs: show, take, run -----------------------------------------------------

    def push(self, w: Worker, queue: deque[Job], job: Job) -> None:
        """Onto one of w's deques, and tells those who should know."""
        was_empty = not queue
        queue.append(job)
        self.post(w, was_empty)
        self.show(w)

    def show(self, w: Worker) -> None:
        if not self.visible[w.index]:
            self.visible[w.index] = True
            self.n_visible += 1
        if self.n_sweeping:
            self.offer(w.index)

    def hide(self, w: Worker) -> None:
        if not w.forks and not w.tasks:
            self.visible[w.index] = False
            self.n_visible -= 1

    def push_fork(self, w: Worker, job: Job) -> None:
        job.promoted = True
        job.tag = w.base
        self.push(w, w.forks, job)
        base = w.base
        while base is not None:
            owner = base.owner
            if owner.waits is base:
                if base.asleep:  # tell_waiter
                    self.rouse(w, owner)
                elif owner.spinning and len(w.forks) == 1:
                    self.notice(w, owner)
                break
            # With "chain" this may also serve who waits further up.
            base = base.tag if self.policy.wait == "chain" else None

    def pop_fork(self, w: Worker, job: Job) -> bool:
        """False when it was stolen."""
        if not w.forks or w.forks[-1] is not job:
            return False
        w.forks.pop()
        self.hide(w)
        return True

    def promote(self, w: Worker) -> None:
        """The oldest lazy fork."""
        job = w.lazy.popleft()
        w.debt += self.costs.fork_fenced
        self.push_fork(w, job)

    def take(self, w: Worker, v: Worker) -> tuple[Job, float]:
        """Steals v's oldest job; and what that costs."""
        job = (v.forks or v.tasks).popleft()
        costs = self.costs
        level = self.machine.distance(w.index, v.index)
        begin = max(self.now, v.busy_until)
        v.busy_until = begin + costs.transfer[level]  # thieves of one deque queue up
        cost = begin - self.now + costs.steal[level]
        if v.eager and self.machine.biased:
            if self.now >= v.biased_at:
                cost += costs.revoke_thief
                v.debt += costs.revoke_owner
            v.biased_at = self.now + costs.rebias
        self.steals += 1
        job.thief = w
        w.more = bool(v.forks or v.tasks)
        if not w.more:
            self.hide(v)
        elif self.n_sweeping:
            self.offer(v.index)
        if v.forks:
            tag = v.forks[0].tag
            if tag is not None and tag.thief is v and tag.owner.waits is tag:
                if tag.owner.spinning:
                    self.notice(v, tag.owner)
        elif v.block_until > self.now:
            self.arm_beat(v)
        return job, cost

    def execute(self, w: Worker, job: Job) -> Program:
        """Runs a job that w took from a queue."""
        if job.scope is None:
            base, sharing, fresh = w.base, w.sharing, w.fresh
            w.base, w.sharing, w.fresh = job, True, True
            yield job.body(w)
            w.base, w.sharing, w.fresh = base, sharing, fresh
            self.finish(w, job)
        else:
            yield self.run_task(w, job, job.scope)

    def finish(self, w: Worker, job: Job) -> None:
        """Sets a stolen fork's latch."""
        job.done = True
        owner = job.owner
        if owner.waits is not job:
            return
        if job.asleep:
            self.rouse(w, owner)
        elif owner.spinning:
            self.notice(w, owner)
        elif owner.sweeping:
            self.stop_sweep(owner)
            self.notice(w, owner)

    def notice(self, w: Worker, waiter: Worker) -> None:
        """A waiter that spins sees what w wrote."""
        waiter.spinning = False
        when = self.now + w.debt + self.far(w, waiter) + self.costs.spin / 2
        self.at(when, waiter, None)

    def rouse(self, w: Worker, sleeper: Worker) -> None:
        """Wakes a worker that sleeps on a latch."""
        job = sleeper.waits
        if job is not None:
            job.asleep = False
        if self.sleepers >> sleeper.index & 1:  # with "any" it is one of the idle
            self.sleepers ^= 1 << sleeper.index
            self.sleeping -= 1
            self.searching += 1
        self.stand_up(w, sleeper)

    def stand_up(self, w: Worker, sleeper: Worker) -> None:
        own = self.now + w.debt
        w.debt += self.costs.wake_call
        short = own - sleeper.slept_at < self.costs.doze
        self.wakes += 1
        self.at(own + (self.costs.wake_soon if short else self.costs.wake), sleeper, None)

    # ---- posting and waking --------------------------------------------------------

    def post(self, w: Worker, was_empty: bool) -> None:
        if self.alone:
            return
        line = self.counters
        if w.seen != line.version:
            if line.last != w.index:
                w.debt += self.costs.transfer[self.machine.distance(line.last, w.index)]
            w.seen = line.version
        if self.jec & 1 == 0:
            self.jec += 1
            self.touch(w, line)
        if self.sleeping and (self.searching == 0 or not was_empty):
            self.wake(w)

    def wake(self, w: Worker) -> None:
        for _ in range(self.policy.wake):
            if not self.sleepers:
                return
            after = self.sleepers >> self.hint
            index = self.hint if after else 0
            after = after or self.sleepers
            index += (after & -after).bit_length() - 1
            self.hint = index
            self.sleepers ^= 1 << index
            self.sleeping -= 1
            self.searching += 1
            self.touch(w, self.counters)
            sleeper = self.workers[index]
            if sleeper.waits is not None:
                sleeper.waits.asleep = False
            self.stand_up(w, sleeper)

    def work_found(self, w: Worker) -> None:
        self.searching -= 1
        self.touch(w, self.counters)
        if self.sleeping and (w.more or (self.searching == 0 and self.n_visible)):
            self.wake(w)

    def start_looking(self, w: Worker) -> None:
        self.searching += 1
        self.touch(w, self.counters)

    # ---- searching -----------------------------------------------------------------

    def _places(self, n: int) -> None:
        """Where each worker is, for ``arrivals``."""
        group, socket = self.machine.group, self.machine.socket
        index = np.arange(n)
        self.g0 = index // group * group
        self.gn = np.minimum(self.g0 + group, n) - self.g0
        self.s0 = index // socket * socket
        self.sn = np.minimum(self.s0 + socket, n) - self.s0
        near, far, other = self.costs.look
        levels = np.array([self.gn, self.sn - self.gn, n - self.sn], dtype=float)
        self.sweep_ns = near * levels[0] + far * levels[1] + other * levels[2]
        self.look_ns = self.sweep_ns / n
        self.level1 = self.gn * near
        self.level2 = self.level1 + (self.sn - self.gn) * far

    def arrivals(self, ws: Any, vs: Any) -> Any:
        """When the sweeps of ``ws`` look at ``vs``; one of them is a number."""
        n = len(self.workers)
        turn, began = self.turn[ws], self.began[ws]
        first = self.look_ns[ws]
        if self.policy.victim == "nearest":
            near, far, other = self.costs.look
            g0, gn, s0, sn = self.g0[ws], self.gn[ws], self.s0[ws], self.sn[ws]
            in_group = (vs >= g0) & (vs < g0 + gn)
            in_socket = (vs >= s0) & (vs < s0 + sn)
            k0 = (vs - g0 - turn) % gn
            k1 = (vs - g0 - gn) % sn
            k1 = (k1 - turn) % np.maximum(sn - gn, 1)
            k2 = (vs - s0 - sn) % n
            k2 = (k2 - turn) % np.maximum(n - sn, 1)
            times = began + np.where(
                in_group,
                near * (k0 + 1),
                np.where(
                    in_socket, self.level1[ws] + far * (k1 + 1), self.level2[ws] + other * (k2 + 1)
                ),
            )
        elif self.policy.guests_first:
            times = began + first * ((vs - 1 - turn) % max(n - 1, 1) + 1)
        else:
            times = began + first * ((vs - turn) % n + 1)
        if self.policy.guests_first:
            return np.where(vs == 0, began + first, times + first)
        return times

    def sweep(self, w: Worker) -> None:
        """Begins to look at all others once.  The caller yields what this returns, and goes on
        with a job, or with None at the end of the sweep."""
        i = w.index
        began = self.now + w.debt
        w.debt = 0.0
        w.sweeping = True
        self.n_sweeping += 1
        self.looks += 1
        self.began[i] = began
        self.turn[i] = self.random.randrange(1 << 30)
        self.aim(w, began)

    def aim(self, w: Worker, after: float) -> None:
        """Where the pointer, having come as far as ``after``, stops next."""
        i = w.index
        time = float(self.began[i] + self.sweep_ns[i] + self.look_ns[i])
        victim = -1
        if self.n_visible:
            vs = np.flatnonzero(self.visible)
            times = self.arrivals(i, vs)
            times[(times <= after) | (vs == i)] = NEVER
            best = int(times.argmin())
            if times[best] < time:
                time, victim = float(times[best]), int(vs[best])
        self._plan(w, max(time, self.now), victim)

    def _plan(self, w: Worker, time: float, victim: int) -> None:
        w.victim = victim
        self.until[w.index] = time
        w.token += 1
        self.made += 1
        heapq.heappush(self.heap, (time, self.made, self.looked, w, w.token, None))

    def offer(self, victim: int) -> None:
        """A job appeared: who passes there first?"""
        while victim >= 0:
            ws = np.flatnonzero(self.until > self.now)
            if not len(ws):
                return
            times = self.arrivals(ws, victim)
            times[(times <= self.now) | (times >= self.until[ws]) | (ws == victim)] = NEVER
            best = int(times.argmin())
            if times[best] == NEVER:
                return
            w = self.workers[int(ws[best])]
            left = w.victim
            self._plan(w, float(times[best]), victim)
            # Whom it would have gone to, somebody else may go to.
            victim = left if left >= 0 and left != victim and self.visible[left] else -1

    def looked(self, w: Worker, token: int, _: Any) -> None:
        """The pointer is where ``aim`` said."""
        if token != w.token:
            return
        v = self.workers[w.victim] if w.victim >= 0 else None
        if v is not None and not v.forks and not v.tasks:
            self.aim(w, self.now)
            return
        self.stop_sweep(w)
        if v is None:
            self.step(w, None)
        else:
            job, cost = self.take(w, v)
            self.at(self.now + cost, w, job)

    def stop_sweep(self, w: Worker) -> None:
        self.until[w.index] = -NEVER
        w.sweeping = False
        w.victim = -1
        self.n_sweeping -= 1

    def ask(self) -> None:
        """An empty-handed searcher asks those who keep lazy forks to look at once."""
        self.asked_at = self.now
        for i in list(self.holders):
            w = self.workers[i]
            if w.block_until <= self.now or w.forks or not w.lazy:
                del self.holders[i]
            else:
                self.arm_beat(w)

    # ---- a background worker's life -------------------------------------------------

    def background(self, w: Worker) -> Program:
        # As in the runtime: it sleeps, and whoever wakes it counts it as searching.
        self.sleepers |= 1 << w.index
        self.sleeping += 1
        yield None
        rounds = 0
        jec = 0
        while True:
            job = w.tasks.pop() if w.tasks else None
            if job is not None:
                self._popped(w)
            else:
                job = yield self.sweep(w)
            job = job or self.injected(w)
            if job is not None:
                self.work_found(w)
                while job is not None:
                    yield self.execute(w, job)
                    if w.tasks:
                        job = w.tasks.pop()
                        self._popped(w)
                    else:
                        job = (yield self.sweep(w)) or self.injected(w)
                self.start_looking(w)
                rounds = 0
            elif rounds < self.policy.rounds:
                rounds += 1
                self.ask()
                yield self.costs.yielding
            elif rounds == self.policy.rounds:
                jec = self.announce(w)
                rounds += 1
                yield self.costs.yielding
            elif self.jec != jec:
                rounds = self.policy.rounds
            else:
                self.lie_down(w)
                yield None
                rounds = 0

    def inject(self, w: Worker, job: Job) -> None:
        """From a thread that is no worker of the pool; here w stands for it."""
        self.inbox.append(job)
        self.post(w, True)

    def injected(self, w: Worker) -> Job | None:
        if not self.inbox:
            return None
        job = self.inbox.popleft()
        w.debt += self.costs.atomic + self.far(job.owner, w)
        w.more = bool(self.inbox)
        return job

    def announce(self, w: Worker) -> int:
        if self.jec & 1:
            self.jec += 1
            self.touch(w, self.counters)
        return self.jec

    def lie_down(self, w: Worker) -> None:
        self.searching -= 1
        self.sleeping += 1
        self.touch(w, self.counters)
        self.sleepers |= 1 << w.index
        w.slept_at = self.now
        w.debt = 0.0

    def _popped(self, w: Worker) -> None:
        self.hide(w)
        w.more = bool(w.tasks)

    # ---- waiting for a stolen fork --------------------------------------------------

    def wait(self, w: Worker, f: Job) -> Program:
        w.waits = f
        w.pending.append(f)
        if self.policy.wait == "any":
            yield self.wait_any(w, f)
        else:
            yield self.leapfrog(w, f)
        w.pending.pop()
        w.waits = None

    def below(self, f: Job) -> Worker | None:
        """A worker whose oldest fork was made below f."""
        thief = f.thief
        if thief is None or f.done:
            return None
        if thief.forks and thief.forks[0].tag is f:
            return thief
        if self.policy.wait == "chain":
            for g in thief.pending:
                if g.tag is f:
                    found = self.below(g)
                    if found is not None:
                        return found
        return None

    def leapfrog(self, w: Worker, f: Job) -> Program:
        """Helps with what was made below f, else spins, else sleeps."""
        costs = self.costs
        looks = self.policy.looks
        yield 0.0
        while not f.done:
            victim = self.below(f)
            if victim is not None:
                w.waits = None
                job, cost = self.take(w, victim)
                yield cost
                yield self.execute(w, job)
                w.waits = f
                looks = self.policy.looks
                yield 0.0
            elif looks > 0:
                # With "leapfrog", what it looks for is noticed at once; a chain of thieves is
                # looked at between two yields.
                count = 8 if self.policy.wait == "chain" else looks
                looks -= count
                w.spinning = True
                self.at(self.now + count * costs.spin + count // 8 * costs.yielding, w, None)
                yield None
                w.spinning = False
            else:
                f.asleep = True
                w.slept_at = self.now
                yield None
                f.asleep = False

    def wait_any(self, w: Worker, f: Job) -> Program:
        """Is one of the idle until f is done."""
        rounds = 0
        jec = 0
        self.start_looking(w)
        while not f.done:
            job = w.tasks.pop() if w.tasks else None
            if job is not None:
                self._popped(w)
            else:
                job = yield self.sweep(w)
            if job is not None:
                w.waits = None
                self.work_found(w)
                yield self.execute(w, job)
                self.start_looking(w)
                w.waits = f
                rounds = 0
            elif f.done:
                break
            elif rounds < self.policy.rounds:
                rounds += 1
                self.ask()
                yield self.costs.yielding
            elif rounds == self.policy.rounds:
                jec = self.announce(w)
                rounds += 1
                yield self.costs.yielding
            elif self.jec != jec:
                rounds = self.policy.rounds
            else:
                f.asleep = True
                self.lie_down(w)
                yield None
                f.asleep = False
                rounds = 0
        self.searching -= 1
        self.touch(w, self.counters)

    # ---- the bridge -----------------------------------------------------------------

    def bridge(self, w: Worker, b: Bridge, n: int) -> Program:
        sharing = w.sharing
        b.n = n
        b.done = 0
        w.debt += self.costs.clock
        b.start = self.now + w.debt
        yield self.bridge_node(w, b, 0, n)
        w.sharing = sharing

    def bridge_node(self, w: Worker, b: Bridge, lo: int, hi: int) -> Program:
        if hi - lo <= (b.grain or b.span):
            yield self.bridge_leaf(w, b, lo, hi)
            return
        if b.grain:
            leaves = -(-(hi - lo) // b.grain)
            mid = lo + b.grain * ((leaves + 1) >> 1)
        else:
            mid = lo + ((hi - lo + 1) >> 1)
        w.debt += self.costs.node
        f = Job(lambda other: self.bridge_node(other, b, mid, hi), w)
        w.lazy.append(f)
        if w.sharing:
            self.promote(w)
        yield self.bridge_node(w, b, lo, mid)
        if not f.promoted:
            w.lazy.pop()
            yield self.bridge_node(w, b, mid, hi)
        elif self.pop_fork(w, f):
            yield self.bridge_node(w, b, mid, hi)
        else:
            yield self.wait(w, f)

    def bridge_leaf(self, w: Worker, b: Bridge, lo: int, hi: int) -> Program:
        if not b.grain:
            w.debt += 2 * self.costs.clock
        begun = self.now
        work = b.leaf(w, lo, hi)
        if isinstance(work, float):
            w.work += work
        yield work
        self.ran(lo, hi, isinstance(work, float))
        if not b.grain:
            took = self.now - begun
            if took < LEAF_NS / 2:
                b.span = max(b.span, 2 * (hi - lo))
            elif took > 4 * LEAF_NS and hi - lo > 1:
                b.span = (hi - lo) >> 1
        if w.lazy and not w.sharing:
            w.debt += self.costs.clock
            b.done += hi - lo
            if self.worth_sharing(b):
                w.sharing = True
                while w.lazy:
                    self.promote(w)

    def worth_sharing(self, b: Bridge) -> bool:
        if self.alone:
            return False
        left = self.policy.share_awake if self.searching else self.policy.share_asleep
        return (self.now - b.start) * (b.n - b.done) >= left * b.done

    def ran(self, lo: int, hi: int, counts: bool = True) -> None:
        if counts:
            self.items += hi - lo
            if self.parts is not None:
                self.parts.append((lo, hi))

    def stream(self, w: Worker, ns: float, size: float) -> Program:
        """Work that moves ``size`` bytes: its socket's workers share its memory."""
        costs = self.costs
        socket = w.index // self.machine.socket
        users = self.streams.get(socket, 0) + 1
        self.streams[socket] = users
        rate = min(costs.core_bandwidth, costs.socket_bandwidth / users)
        w.work += max(ns, size / costs.core_bandwidth)
        yield max(ns, size / rate)
        self.streams[socket] -= 1

    # ---- joins ----------------------------------------------------------------------

    def block(self, w: Worker, ns: float) -> float:
        """Work that forks all the time, too finely to simulate each fork: others cannot steal
        from it, but beats fall into it.  To be yielded."""
        w.block_until = self.now + w.debt + ns
        w.beat_due = NEVER
        w.beat += 1
        if w.lazy and not w.forks:
            self.arm_beat(w)
        return ns

    def arm_beat(self, w: Worker) -> None:
        """Plans the next look at the oldest lazy fork, if it falls into this block."""
        if not w.lazy or w.forks or w.block_until <= self.now:
            return
        self.holders[w.index] = None
        when = max(self.now, w.lazy[0].made + self.patience(), self.next_look(w))
        if when < w.block_until and when < w.beat_due:
            w.beat += 1
            w.beat_due = when
            self.made += 1
            heapq.heappush(self.heap, (when, self.made, self.beaten, w, w.beat, None))

    def next_look(self, w: Worker) -> float:
        if self.asked_at > w.beaten_at:
            return self.asked_at
        return w.beaten_at + self.policy.beat

    def patience(self) -> float:
        """How long a lazy fork has waited before it is shown."""
        return self.policy.beat if self.searching else self.policy.beat_asleep

    def beaten(self, w: Worker, beat: int, _: Any) -> None:
        if beat != w.beat:
            return
        w.beat_due = NEVER
        if w.block_until > self.now and w.lazy and not w.forks:
            if self.now >= w.lazy[0].made + self.patience():
                self.look_at_lazy(w)
            else:  # meanwhile everybody fell asleep
                self.arm_beat(w)

    def look_at_lazy(self, w: Worker) -> None:
        w.beaten_at = self.now
        self.holders.pop(w.index, None)
        if not self.alone:
            self.show_lazy(w)

    def show_lazy(self, w: Worker) -> None:
        woken = self.wakes
        self.promote(w)
        if self.policy.show_wakes and self.wakes == woken:
            self.wake(w)

    def join(self, w: Worker, a: Body, b: Body) -> Program:
        """As the policy says: eager or lazy."""
        f = Job(b, w)
        eager = self.policy.joins == "eager"
        if eager:
            while w.lazy:
                self.promote(w)
            w.debt += self.fork_ns(w)
            self.push_fork(w, f)
        else:
            w.debt += self.costs.fork_lazy
            f.made = self.now + w.debt
            w.lazy.append(f)
            if w.fresh:
                w.fresh = False
                self.show_lazy(w)
            elif not w.forks and self.now >= self.next_look(w):
                if f.made >= w.lazy[0].made + self.patience():
                    self.look_at_lazy(w)
        yield a(w)
        if not f.promoted:
            w.lazy.pop()
            yield b(w)
        elif self.pop_fork(w, f):
            yield b(w)
        else:
            yield self.wait(w, f)

    def fork_ns(self, w: Worker) -> float:
        """What one join costs its worker now."""
        if self.policy.joins != "eager":
            return self.costs.fork_lazy
        if not w.eager:
            w.eager = True
            w.biased_at = self.now
        if self.machine.biased and self.now >= w.biased_at:
            return self.costs.fork_eager
        return self.costs.fork_fenced

    # ---- scopes ---------------------------------------------------------------------

    def run_task(self, w: Worker, job: Job, scope: Scope) -> Program:
        base, sharing, fresh = w.base, w.sharing, w.fresh
        w.base, w.sharing, w.fresh = job, True, True
        yield job.body(w)
        w.base, w.sharing, w.fresh = base, sharing, fresh

    def spawn(self, w: Worker, scope: Scope, body: Body) -> None:
        def run(other: Worker) -> Program:
            yield body(other)
            self.count_down(other, scope, 1, self.policy.count == "local")

        scope.count += 1
        if self.policy.count == "shared":
            self.touch(w, scope.line)
        w.debt += self.costs.task
        self.push(w, w.tasks, Job(run, w, scope))

    def spawn_many(
        self, w: Worker, scope: Scope, n: int, body: Callable[[Worker, int, int], Any], block: int
    ) -> None:
        """Tasks 0 .. n as one; at most ``block`` of them are run as one piece."""
        scope.count += n
        self._batch(w, scope, 0, n, body, block)

    def _batch(
        self,
        w: Worker,
        scope: Scope,
        lo: int,
        hi: int,
        body: Callable[[Worker, int, int], Any],
        block: int,
    ) -> None:
        def run(other: Worker) -> Program:
            end = hi
            while end - lo > block:
                mid = lo + ((end - lo + 1) >> 1)
                self._batch(other, scope, mid, end, body, block)
                end = mid
            other.debt += self.costs.task * (end - lo - 1)
            yield body(other, lo, end)
            self.count_down(other, scope, end - lo, True)

        w.debt += self.costs.task
        self.push(w, w.tasks, Job(run, w, scope))

    def count_down(self, w: Worker, scope: Scope, n: int, local: bool) -> None:
        """One atomic operation, or (``local``) one when the worker's own tasks run out."""
        scope.count -= n
        if not local or not w.tasks:
            self.touch(w, scope.line)
        if scope.count == 0 and scope.waited:
            self.wake_scope(w, scope)

    def wake_scope(self, w: Worker, scope: Scope) -> None:
        owner = scope.owner
        if scope.asleep:
            scope.asleep = False
            self.stand_up(w, owner)
        elif owner.sweeping:
            self.stop_sweep(owner)
            self.notice(w, owner)

    def scope_end(self, w: Worker, scope: Scope) -> Program:
        """Helps until all tasks are done."""
        looks = 0
        while scope.count:
            if w.tasks:
                job = w.tasks.pop()
                self._popped(w)
                yield self.execute(w, job)
                looks = 0
                continue
            scope.waited = True
            if self.alone:
                raise RuntimeError("tasks are left, and nobody runs them")
            found = yield self.sweep(w)
            if found is not None:
                scope.waited = False
                yield self.execute(w, found)
                looks = 0
            elif scope.count and looks < self.policy.looks:
                looks += 1
                yield self.costs.yielding if looks % 8 == 0 else self.costs.spin
            elif scope.count:
                scope.asleep = True
                w.slept_at = self.now
                yield None
            scope.waited = False
