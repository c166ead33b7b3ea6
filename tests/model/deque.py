"""A model of the deque with the biased owner fence: pyblitz/runtime/deque.pxd, on x86-TSO.

While ``bias`` is BIASED, pops have no fence.  The first thief *revokes*: it makes ``bias``
REVOKING, calls ``membarrier`` and makes it FENCED.  Nobody steals before that, and from then
on pops have their fence, until the owner makes ``bias`` BIASED again.

What it proves, within the bounds, by visiting every state:

- No job is taken twice, by thieves or the owner.
- A thief that takes index ``top`` holds the job that the owner last put there.
- Whenever all are between operations and all stores are in memory, each pushed job was taken
  once or lies in the deque, at ``top <= i < bottom``.
- ``bottom >= top`` whenever the owner is between operations.
- A fork that is not taken back was stolen: so whoever waits for it waits for somebody.
- Nobody gets stuck: all wait for nothing but their own store buffer and ``membarrier``.

That is whatever the policies are: the owner may rebias whenever it has the choice, and a
thief that sees BIASED may revoke or leave it.  There are two designs:

- ``built``, as in deque.pxd and deque.pyx: a pop that cannot be done without a fence loads
  ``bias`` once more; if it is FENCED the pop may rebias, with its own fence behind it.  A thief
  that sees REVOKING tries to revoke like one that sees BIASED.
- The plain one: a pop loads ``bias`` once.  Between two operations the owner may rebias, with a
  fence for that alone.  A thief that sees REVOKING gives up.

And there are two ways to pop.  ``deque_pop`` takes whatever is at ``bottom - 1``.  With
``joins`` the owner takes back the newest fork that it has not joined, by the index that it
remembers, as ``join`` does, or again by ``bottom - 1``, as for lazy forks.  The two differ when
newer forks were stolen.

A ``membarrier`` that fails and leaves ``bias`` REVOKING for ever is covered as well: it is like
a thief that takes no further step.

Bounds: how many ``jobs`` there are at first, and ``pushes`` that follow (``bias`` begins as
BIASED; FENCED is one revocation away); how many ``thieves``; how many ``pops``, and
``attempts`` of each thief, where None is any number.  The owner mixes its operations in every
order; smaller numbers of them are covered too, as states on the way.  With any number of pops
the owner's store buffer needs a bound, ``backlog``: it begins an operation with no more stores
than that in it.  (With ``joins`` there are no more pops than jobs, and no such bound.)  With
any number of pops or attempts a run need not end, and "nobody gets stuck" says only that
somebody can go on.  The other models do end, and only with all idle.

One step is one access to shared memory, as in a listing of the algorithm.  Joined with it are
loads of what only the same thread writes (the owner's of ``bottom`` and cells) and what
happens in registers.

What it does not cover: memory weaker than x86-TSO, compilers, growth and reuse of cells
(indices are as in an endless array), tags (valid together with the job), ``deque_looks`` and
``deque_offers`` (hints), the sleep protocol, an owner that hands its deque to another thread,
whether a thief ever succeeds, more jobs and thieves than the bounds.

MUTATIONS are what must not be left out or turned round: the checker finds each of them.  One
is not among them: a thief without its fence between the loads of ``top`` and ``bias``.
x86-TSO never reorders loads, and a thief's only plain store, of FENCED, may be late without
harm: until then others see REVOKING.  So on x86 that fence orders nothing (NOT_ON_TSO; a test
checks that the model agrees).  For the compiler and ARM it is needed all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from explore import Model
from tso import Tso, machine

FENCED, BIASED, REVOKING = range(3)
BIAS_NAMES = ("FENCED", "BIASED", "REVOKING")
TOP, BOTTOM, BIAS, CELL = range(4)  # shared cells; the deque's own begin at CELL
NO_JOB = -1
OWNER = 0  # the number of its thread; thieves are 1, 2, ...

MUTATIONS = {
    "no_fence_when_fenced": "the pop skips its fence when it sees FENCED",
    "no_fence_when_revoking": "the pop skips its fence when it sees REVOKING",
    "bias_before_bottom": "the pop loads bias before it stores bottom",
    "no_membarrier": "the thief revokes without membarrier",
    "revoke_by_store": "the thief revokes with a store in place of the compare-and-swap",
    "go_on_when_revoking": "the thief that sees REVOKING goes on as if FENCED",
    "bias_before_top": "the thief loads bias before top",
    "rebias_without_fence": "the owner rebiases without a fence after the store",
    "rebias_when_revoking": "the owner rebiases although it sees REVOKING",
    "last_without_cas": "the pop takes the last job without a compare-and-swap",
}
# Found with ``joins`` only.
MUTATIONS_OF_JOINS = {"bottom_below_top": "a pop that finds top > b stores bottom = b + 1, not top"}
NOT_ON_TSO = {"thief_without_fence": "the thief has no fence between top and bias"}


class Owner(NamedTuple):
    pushed: int
    pops_left: int  # negative: any number
    forks: tuple[tuple[int, int], ...]  # (index, job) of those to join, oldest first
    at: str = "idle"
    b: int = 0
    t: int = 0
    j: int = 0  # the job to take back


class Thief(NamedTuple):
    at: str = "idle"
    t: int = 0
    j: int = 0
    again: bool = False  # this attempt has revoked and begun once more
    left: int = -1


class State(NamedTuple):
    m: Tso
    owner: Owner
    thieves: tuple[Thief, ...]
    taken: int = 0  # bit j: job j was taken
    wrong: str = ""


@dataclass(frozen=True)
class Deque:
    jobs: int = 2
    pushes: int = 0
    pops: int | None = None
    thieves: int = 2
    attempts: int | None = None
    backlog: int = 2
    joins: bool = False  # False: deque_pop
    built: bool = True  # False: the plain design
    biased: bool = True  # False: there is no membarrier, bias is FENCED for ever
    put_back: bool = False  # membarrier may fail, and the thief then makes bias BIASED again
    mutation: str = ""

    def mutations(self) -> list[str]:
        """Those that must break this design."""
        return [*MUTATIONS, *(MUTATIONS_OF_JOINS if self.joins else ())]

    def model(self) -> Model[State]:
        assert self.mutation in {"", *MUTATIONS, *MUTATIONS_OF_JOINS, *NOT_ON_TSO}
        cells = (*range(self.jobs), *([NO_JOB] * self.pushes))
        memory = (0, self.jobs, BIASED if self.biased else FENCED, *cells)
        forks = tuple((j, j) for j in range(self.jobs)) if self.joins else ()
        owner = Owner(self.jobs, -1 if self.pops is None else self.pops, forks)
        thief = Thief(left=-1 if self.attempts is None else self.attempts)
        thieves = (thief,) * self.thieves
        initial = State(machine(memory, 1 + self.thieves), owner, thieves)
        return Model(initial, self.successors, self.invariant, quiet, without_names)

    def successors(self, s: State) -> Iterator[tuple[str, State]]:
        threads = ("owner", *(f"thief {i}" for i in range(1, self.thieves + 1)))
        cells = ("top", "bottom", "bias", *(f"cell[{i}]" for i in range(self.jobs + self.pushes)))
        for label, m in s.m.steps(threads, cells):
            yield label, s._replace(m=m)
        for label, after in self.owner_steps(s):
            yield "owner: " + label, after
        for i in range(self.thieves):
            for label, after in self.thief_steps(s, i):
                yield f"{threads[i + 1]}: {label}", after

    def owner_steps(self, s: State) -> Iterator[tuple[str, State]]:
        m, o = s.m, s.owner
        b = o.b
        done = Owner(o.pushed, o.pops_left, o.forks)

        def step(at: Owner, m: Tso = m) -> State:
            return State(m, at, s.thieves, s.taken, s.wrong)

        match o.at:
            case "idle" if self.ends() or len(m.buffers[OWNER]) <= self.backlog:
                b = m.load(OWNER, BOTTOM)
                if o.pushed < self.jobs + self.pushes:
                    after = m.store(OWNER, CELL + b, o.pushed)
                    pushing = o._replace(at="publish", b=b)
                    yield f"push: cell[{b}] = {o.pushed}", step(pushing, after)
                for b, j in self.to_pop(s) if o.pops_left else ():
                    left = max(o.pops_left - 1, -1)
                    popping = Owner(o.pushed, left, o.forks[:-1], "bias", b, j=j)
                    if self.mutation == "bias_before_bottom":
                        yield from self.owner_sees_bias(s, popping, "early ")
                    else:
                        yield f"pop: bottom = {b}", step(popping, m.store(OWNER, BOTTOM, b))
                if not self.built and self.may_rebias(seen := m.load(OWNER, BIAS)):
                    yield f"rebias: bias is {BIAS_NAMES[seen]}", step(o._replace(at="rebias"))
            case "rebias":
                at = "idle" if self.mutation == "rebias_without_fence" else "rebias fence"
                yield "rebias: bias = BIASED", step(o._replace(at=at), m.store(OWNER, BIAS, BIASED))
            case "rebias fence":
                if m.drained(OWNER):
                    yield "rebias: mfence", step(done)
            case "publish":
                after = m.store(OWNER, BOTTOM, b + 1)
                forks = (*o.forks, (b, o.pushed)) if self.joins else ()
                pushed = Owner(o.pushed + 1, o.pops_left, forks)
                yield f"push: bottom = {b + 1}", step(pushed, after)
            case "bias":
                yield from self.owner_sees_bias(s, o)
            case "early look" | "early slow" | "early fence" | "early top":  # bias_before_bottom
                after = m.store(OWNER, BOTTOM, b)
                yield f"pop: bottom = {b}", step(o._replace(at=o.at.removeprefix("early ")), after)
            case "look":
                t = m.load(OWNER, TOP)
                if t < b:
                    yield f"pop: top is {t} < {b}: takes job {o.j} at once", took(step(done), o.j)
                else:
                    yield f"pop: top is {t}: not at once", step(o._replace(at="slow"))
            case "slow":
                yield from self.owner_sees_bias_again(s, o)
            case "rebias in pop":
                fence = self.mutation != "rebias_without_fence"
                rebiased = o._replace(at="fence" if fence else "top")
                yield "pop: bias = BIASED", step(rebiased, m.store(OWNER, BIAS, BIASED))
            case "fence":
                if m.drained(OWNER):
                    yield "pop: mfence", step(o._replace(at="top"))
            case "top":
                t = m.load(OWNER, TOP)
                if t < b:
                    yield f"pop: top is {t} < {b}: takes job {o.j}", took(step(done), o.j)
                elif t == b:
                    yield f"pop: top is {t}: the last", step(o._replace(at="last", t=t))
                else:
                    empty = b + 1 if self.mutation == "bottom_below_top" else t
                    restore = step(o._replace(at="restore", t=empty))
                    yield f"pop: top is {t}: none", self.lost(restore)
            case "last":
                restore = step(o._replace(at="restore", t=o.t + 1))
                if self.mutation == "last_without_cas":
                    after = m.store(OWNER, TOP, o.t + 1)
                    label = f"pop: takes job {o.j}, top = {o.t + 1}"
                    yield label, took(restore._replace(m=after), o.j)
                elif m.drained(OWNER):
                    if (won := m.compare_and_swap(OWNER, TOP, o.t, o.t + 1)) is None:
                        yield "pop: lost the last", self.lost(restore)
                    else:
                        label = f"pop: CAS top to {o.t + 1}: takes job {o.j}"
                        yield label, took(restore._replace(m=won), o.j)
            case "restore":
                yield f"pop: bottom = {o.t}", step(done, m.store(OWNER, BOTTOM, o.t))

    def to_pop(self, s: State) -> list[tuple[int, int]]:
        """Which (index, job) the owner may pop now."""
        newest = s.m.load(OWNER, BOTTOM) - 1
        if not self.joins:
            return [(newest, s.m.load(OWNER, CELL + newest) if newest >= 0 else NO_JOB)]
        return sorted({(b, j) for at, j in s.owner.forks[-1:] for b in (at, newest)})

    def ends(self) -> bool:
        """Whether the owner does."""
        return self.joins or self.pops is not None

    def lost(self, s: State) -> State:
        """After the owner did not get the job that it pops."""
        if self.joins and not s.taken >> s.owner.j & 1:
            return s._replace(wrong=f"fork {s.owner.j} is neither taken back nor stolen")
        return s

    def may_rebias(self, seen: int) -> bool:
        careless = self.mutation == "rebias_when_revoking" and seen == REVOKING
        return self.biased and (seen == FENCED or careless)

    def owner_sees_bias(self, s: State, o: Owner, early: str = "") -> Iterator[tuple[str, State]]:
        if not self.built:
            yield from self.owner_sees_bias_again(s, o, early)
            return
        seen = s.m.load(OWNER, BIAS)
        at = "look" if seen == BIASED else "slow"
        yield f"pop: bias is {BIAS_NAMES[seen]}", s._replace(owner=o._replace(at=early + at))

    def owner_sees_bias_again(
        self, s: State, o: Owner, early: str = ""
    ) -> Iterator[tuple[str, State]]:
        """The look at bias that decides about the fence: the only one in the plain design."""
        seen = s.m.load(OWNER, BIAS)
        skips = {"no_fence_when_fenced": FENCED, "no_fence_when_revoking": REVOKING}
        at = "top" if seen in (BIASED, skips.get(self.mutation)) else "fence"
        label = f"pop: bias is {BIAS_NAMES[seen]}: {at}"
        yield label, s._replace(owner=o._replace(at=early + at))
        if self.built and self.may_rebias(seen):
            yield f"{label}, rebias", s._replace(owner=o._replace(at="rebias in pop"))

    def thief_steps(self, s: State, i: int) -> Iterator[tuple[str, State]]:
        m, thief, me = s.m, s.thieves[i], i + 1
        t = thief.t
        given_up = Thief(left=max(thief.left - 1, -1))

        def step(at: Thief, m: Tso = m) -> State:
            return State(m, s.owner, (*s.thieves[:i], at, *s.thieves[i + 1 :]), s.taken, s.wrong)

        match thief.at:
            case "idle" if thief.left:
                if self.mutation == "bias_before_top":
                    yield from self.thief_sees_bias(s, i)
                else:
                    t = m.load(me, TOP)
                    at = "bias" if self.mutation == "thief_without_fence" else "fence"
                    yield f"steal: top is {t}", step(thief._replace(at=at, t=t))
            case "fence":
                if m.drained(me):
                    yield "steal: mfence", step(thief._replace(at="bias"))
            case "late top":  # bias_before_top only
                t = m.load(me, TOP)
                yield f"steal: top is {t}", step(thief._replace(at="bottom", t=t))
            case "bias":
                yield from self.thief_sees_bias(s, i)
            case "revoke":
                begin = thief._replace(at="membarrier", t=0)
                if self.mutation == "revoke_by_store":
                    yield "steal: bias = REVOKING", step(begin, m.store(me, BIAS, REVOKING))
                elif m.drained(me):
                    if (won := m.compare_and_swap(me, BIAS, BIASED, REVOKING)) is None:
                        yield "steal: lost the revocation", step(given_up)
                    else:
                        if self.mutation == "no_membarrier":
                            begin = begin._replace(at="unbias")
                        yield "steal: CAS bias to REVOKING", step(begin, won)
            case "membarrier":
                if m.drained(me):
                    wait = thief._replace(at="unbias")
                    yield "steal: membarrier begins", step(wait, m.membarrier_begin(me))
                    if self.put_back:
                        yield "steal: membarrier fails", step(thief._replace(at="put back"))
            case "put back":
                yield "steal: bias = BIASED", step(given_up, m.store(me, BIAS, BIASED))
            case "unbias":
                if m.membarrier_can_end(me) or self.mutation == "no_membarrier":
                    after = m.store(me, BIAS, FENCED)
                    label = "steal: bias = FENCED"
                    yield f"{label}, gives up", step(given_up, after)
                    if thief.left > 0 and not thief.again:
                        once_more = Thief(again=True, left=thief.left)
                        yield f"{label}, begins again", step(once_more, after)
            case "bottom":
                b = m.load(me, BOTTOM)
                found = thief._replace(at="cell")
                yield f"steal: bottom is {b}", step(given_up if t >= b else found)
            case "cell":
                j = m.load(me, CELL + t)
                yield f"steal: cell[{t}] is {j}", step(thief._replace(at="take", j=j))
            case "take":
                if m.drained(me):
                    if (won := m.compare_and_swap(me, TOP, t, t + 1)) is None:
                        yield "steal: lost the job", step(given_up)
                    else:
                        there = m.load(OWNER, CELL + t)
                        has = took(step(given_up, won), thief.j)
                        if thief.j != there and not has.wrong:
                            has = has._replace(wrong=f"took job {thief.j}, there is {there}")
                        yield f"steal: CAS top to {t + 1}: takes job {thief.j}", has

    def thief_sees_bias(self, s: State, i: int) -> Iterator[tuple[str, State]]:
        thief = s.thieves[i]
        seen = s.m.load(i + 1, BIAS)
        given_up = Thief(left=max(thief.left - 1, -1))
        if seen == BIASED:
            choices = [(", revokes", thief._replace(at="revoke", t=0)), (", leaves it", given_up)]
        elif seen == REVOKING and self.mutation != "go_on_when_revoking":
            tries = thief._replace(at="revoke", t=0)
            choices = [("", tries if self.built else given_up)]
        else:
            choices = [("", thief._replace(at="late top" if thief.at == "idle" else "bottom"))]
        for choice, after in choices:
            thieves = (*s.thieves[:i], after, *s.thieves[i + 1 :])
            yield f"steal: bias is {BIAS_NAMES[seen]}{choice}", s._replace(thieves=thieves)

    def invariant(self, s: State) -> str | None:
        if s.wrong:
            return s.wrong
        if s.owner.at == "idle" and s.m.load(OWNER, BOTTOM) < s.m.memory[TOP]:
            return "bottom < top"
        if quiet(s):
            top, bottom = s.m.memory[TOP], s.m.memory[BOTTOM]
            there = s.m.memory[CELL + top : CELL + bottom]
            for j in range(s.owner.pushed):
                if (s.taken >> j & 1) + there.count(j) != 1:
                    return f"job {j}: taken {s.taken >> j & 1} times and {there.count(j)} are left"
        return None


def took(s: State, j: int) -> State:
    """After somebody took job j."""
    if j == NO_JOB:
        return s._replace(wrong="took a cell without a job")
    if s.taken >> j & 1:
        return s._replace(wrong=f"job {j} is taken twice")
    return s._replace(taken=s.taken | 1 << j)


def quiet(s: State) -> bool:
    """All are between operations, and all stores are in memory."""
    return s.owner.at == "idle" and all(t.at == "idle" for t in s.thieves) and not any(s.m.buffers)


def without_names(s: State) -> object:
    """The state without the names of the thieves, which are all alike.  At most one has a
    membarrier at a time; with more, as in some mutations, the state is left as it is."""
    m = s.m
    callers = [mask for mask in m.unfenced if mask]
    if len(callers) > 1:
        return s
    caller = sum(callers)
    alike = sorted(
        (thief, m.buffers[i], m.unfenced[i] != 0, caller >> i & 1)
        for i, thief in enumerate(s.thieves, 1)
    )
    return m.memory, m.buffers[OWNER], caller & 1, s.owner, s.taken, s.wrong, *alike
