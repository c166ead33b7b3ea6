"""A pool in simulated time: events, deques, sleeping and waking, searching.

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
from collections.abc import Callable
from typing import Any

import numpy as np

from simulate.costs import Machine
from simulate.parts import NEVER, Job, Line, Policy, Program, Worker


class Pool:
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
        for w in self.workers:
            w.fenced = self.policy.bias_after
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
        self.places(workers)

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
        if was_empty or queue is w.forks:  # of a batch, the first half only is posted
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
        w.fenced -= 1
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
        if v.fenced <= 0 and self.machine.biased:
            cost += costs.revoke_thief
            v.debt += costs.revoke_owner
            v.fenced = self.policy.bias_after
        self.steals += 1
        job.thief = w
        w.more = bool(v.forks or v.tasks)
        if not w.more:
            self.hide(v)
        elif self.n_sweeping:
            self.offer(v.index)
        if v.forks:
            tag = v.forks[0].tag
            if tag is not None and tag.thief is v and tag.owner.waits is tag and tag.owner.spinning:
                self.notice(v, tag.owner)
        elif v.block_until > self.now:
            self.arm_beat(v)  # it may show its next one
        return job, cost

    def execute(self, w: Worker, job: Job) -> Program:
        """Runs a job that w took from a queue."""
        base, sharing, fresh = w.base, w.sharing, w.fresh
        w.base, w.sharing, w.fresh = job, True, True
        yield job.body(w)
        w.base, w.sharing, w.fresh = base, sharing, fresh
        if job.scope is None:
            self.finish(w, job)

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

    def one_more(self, rounds: int) -> int:
        """After one more look that found nothing: those at many others count for several."""
        others = min(self.others(), self.policy.rounds_of_a_look)
        return min(rounds + others, self.policy.rounds)

    def others(self) -> int:
        """How many a searcher looks at in a round."""
        return max(len(self.workers) - 1, 1)

    def yields(self, last: int, looks: int) -> int:
        """How often a thread yields in so many looks, of which the last has this number."""
        each = self.policy.looks_per_yield
        return last // each - (last - looks) // each

    def searched(self, last: int) -> float:
        """What is after a look at each of the others, the last of which has this number."""
        return self.costs.yielding if self.yields(last, self.others()) else self.costs.spin

    def resting(self, last: int, looks: int = 1) -> float:
        """What is between so many looks at one, of which the last has this number."""
        yields = self.yields(last, looks)
        return yields * self.costs.yielding + (looks - yields) * self.costs.spin

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

    def places(self, n: int) -> None:
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

    def sweep(self, w: Worker) -> Program:
        """Looks at all others once: a job, or None at the end of the sweep."""
        self.begin_sweep(w)
        return (yield None)

    def begin_sweep(self, w: Worker) -> None:
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
        self.plan(w, max(time, self.now), victim)

    def plan(self, w: Worker, time: float, victim: int) -> None:
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
            self.plan(w, float(times[best]), victim)
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
        rounds = looks = 0
        jec = 0
        while True:
            job = w.tasks.pop() if w.tasks else None
            if job is not None:
                self.popped(w)
            else:
                job = yield self.sweep(w)
            job = job or self.injected(w)
            if job is not None:
                self.work_found(w)
                while job is not None:
                    yield self.execute(w, job)
                    if w.tasks:
                        job = w.tasks.pop()
                        self.popped(w)
                    else:
                        job = (yield self.sweep(w)) or self.injected(w)
                self.start_looking(w)
                rounds = 0
            elif rounds < self.policy.rounds:
                rounds = self.one_more(rounds)
                looks += self.others()
                self.ask()
                yield self.searched(looks)
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

    def popped(self, w: Worker) -> None:
        self.hide(w)
        w.more = bool(w.tasks)

    def ran(self, lo: int, hi: int) -> None:
        """Items lo .. hi, for the account."""
        self.items += hi - lo
        if self.parts is not None:
            self.parts.append((lo, hi))

    def arm_beat(self, w: Worker) -> None:
        """See engine.py."""
        raise NotImplementedError
