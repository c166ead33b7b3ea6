"""What the pool runs, and how: waits, the bridge, joins, scopes; pool.py has the rest."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from simulate.parts import NEVER, Body, Bridge, Job, Policy, Program, Scope, Worker
from simulate.pool import Pool

__all__ = ["Bridge", "Job", "Policy", "Program", "Scope", "Sim", "Worker"]

LEAF_NS = 4000.0


class Sim(Pool):
    """Runs programs on a pool of one guest and ``workers - 1`` background workers."""

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
                count = self.policy.looks_per_yield if self.policy.wait == "chain" else looks
                w.spinning = True
                self.at(self.now + self.resting(looks, count), w, None)
                looks -= count
                yield None
                w.spinning = False
            else:
                f.asleep = True
                w.slept_at = self.now
                yield None
                f.asleep = False

    def wait_any(self, w: Worker, f: Job) -> Program:
        """Is one of the idle until f is done."""
        rounds = looks = 0
        jec = 0
        self.start_looking(w)
        while not f.done:
            job = w.tasks.pop() if w.tasks else None
            if job is not None:
                self.popped(w)
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
        yield work
        if isinstance(work, float):
            w.work += work
            self.ran(lo, hi)
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
        if not w.lazy or w.forks or w.block_until <= self.now or self.alone:
            return
        self.holders[w.index] = None
        when = max(self.now, self.next_look(w))
        if w.lazy[0].seen >= 0:
            when = max(when, w.lazy[0].seen + self.patience())
        if when < w.block_until and when < w.beat_due:
            w.beat += 1
            w.beat_due = when
            self.made += 1
            heapq.heappush(self.heap, (when, self.made, self.beaten, w, w.beat, None))

    def next_look(self, w: Worker) -> float:
        """The end of its fuse: a beat after the last look, or when somebody asked."""
        if self.asked_at > w.beaten_at:
            return self.asked_at
        return w.beaten_at + self.policy.beat

    def patience(self) -> float:
        """How long a lazy fork has waited before it is shown."""
        return self.policy.beat if self.searching else self.policy.beat_asleep

    def beaten(self, w: Worker, beat: int, _: Any) -> None:
        if beat == w.beat:
            w.beat_due = NEVER
            if w.block_until > self.now:
                self.look_at_lazy(w)
                self.arm_beat(w)

    def look_at_lazy(self, w: Worker) -> None:
        """The beat: shows the oldest at once in a stolen job, else when it has waited."""
        w.beaten_at = self.now
        w.debt += self.costs.clock
        if not w.lazy or w.forks or self.alone:
            return
        oldest = w.lazy[0]
        if w.fresh:
            w.fresh = False
            if self.searching or self.sleeping:
                self.show_lazy(w)
                return
        if oldest.seen < 0:
            oldest.seen = self.now
        elif self.now >= oldest.seen + self.patience():
            self.show_lazy(w)

    def show_lazy(self, w: Worker) -> None:
        self.holders.pop(w.index, None)
        woken = self.wakes
        self.promote(w)
        if self.policy.show_wakes and self.wakes == woken:
            self.wake(w)

    def join(self, w: Worker, a: Body, b: Body) -> Program:
        """As the policy says: eager or lazy."""
        f = Job(b, w)
        if self.policy.joins == "eager":
            while w.lazy:
                self.promote(w)
            w.debt += self.costs.fork_eager if self.biased(w) else self.costs.fork_fenced
            self.push_fork(w, f)
        else:
            w.debt += self.costs.fork_lazy
            w.lazy.append(f)
            if w.fresh or self.now >= self.next_look(w):
                self.look_at_lazy(w)
        yield a(w)
        if not f.promoted:
            w.lazy.pop()
            yield b(w)
        elif self.pop_fork(w, f):
            yield b(w)
        else:
            yield self.wait(w, f)

    def biased(self, w: Worker) -> bool:
        return self.machine.biased and w.fenced <= 0

    def forks_ns(self, w: Worker, n: int) -> float:
        """What n joins in a block cost their worker."""
        if self.policy.joins != "eager":
            return n * self.costs.fork_lazy
        fenced = min(n, max(w.fenced, 0)) if self.machine.biased else n
        w.fenced -= n
        return fenced * self.costs.fork_fenced + (n - fenced) * self.costs.fork_eager

    # ---- scopes ---------------------------------------------------------------------

    def spawn(self, w: Worker, scope: Scope, body: Body) -> None:
        def run(other: Worker) -> Program:
            yield body(other)
            self.count_down(other, scope, 1)

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
        self.batch(w, scope, 0, n, body, block)

    def batch(
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
                self.batch(other, scope, mid, end, body, block)
                end = mid
            other.debt += self.costs.task * (end - lo - 1)
            yield body(other, lo, end)
            self.count_down(other, scope, end - lo)

        w.debt += self.costs.task
        self.push(w, w.tasks, Job(run, w, scope))

    def count_down(self, w: Worker, scope: Scope, n: int) -> None:
        """One atomic operation for the tasks of a turn, or until its own run out."""
        scope.count -= n
        w.held += n
        if not w.tasks or w.held >= self.policy.turn:
            w.held = 0
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
                self.popped(w)
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
                yield self.resting(looks)
            elif scope.count:
                scope.asleep = True
                w.slept_at = self.now
                yield None
            scope.waited = False
