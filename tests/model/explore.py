"""A small explicit-state model checker.

It visits every state that can be reached from the initial one, breadth first: so what it
finds broken, it reports with a shortest trace.  No randomness, no sampling: "not broken"
means that the invariant holds in every reachable state of the model, within its bounds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)


def itself(state: Hashable) -> Hashable:
    return state


@dataclass(frozen=True)
class Model(Generic[S]):
    initial: S
    # All that can happen next: what it is called in a trace, and the state after it.
    successors: Callable[[S], Iterable[tuple[str, S]]]
    # What is wrong with a state, or None.
    invariant: Callable[[S], str | None]
    # Whether a state may be without successors; any other such state is a deadlock.
    may_end: Callable[[S], bool]
    # States with equal keys are visited once; for models with symmetries.  Traces are
    # still made of states as they were reached.
    key: Callable[[S], Hashable] = itself


@dataclass(frozen=True)
class Result:
    states: int
    ends: int  # how many states had no successors
    depth: int  # the length of the longest of all shortest traces
    labels: frozenset[str]  # of all steps that were taken from some state
    broken: str | None = None
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.broken is None:
            return f"holds in {self.states} states, {self.ends} ends, depth {self.depth}"
        steps = (f"{i:4}. {label}" for i, label in enumerate(self.trace, 1))
        return "\n".join([f"BROKEN after {self.states} states: {self.broken}", *steps])


class TooManyStates(Exception):
    pass


def explore(model: Model[S], limit: int = 20_000_000) -> Result:
    """Visits all states, or those up to the first broken one.  More than ``limit`` states are
    an error, not a result."""
    # How each state was reached first: the state before it, and the label.
    came: dict[S, tuple[S, str] | None] = {model.initial: None}
    seen = {model.key(model.initial)}
    labels: set[str] = set()
    ends = depth = 0

    def result(broken: str | None = None, at: S | None = None) -> Result:
        trace: list[str] = []
        while at is not None and (step := came[at]) is not None:
            at, label = step
            trace.append(label)
        return Result(len(seen), ends, depth, frozenset(labels), broken, tuple(reversed(trace)))

    if broken := model.invariant(model.initial):
        return result(broken, model.initial)
    todo = deque([(0, model.initial)])
    while todo:
        depth, state = todo.popleft()
        stuck = True
        for label, after in model.successors(state):
            stuck = False
            labels.add(label)
            key = model.key(after)
            if key in seen:
                continue
            seen.add(key)
            came[after] = state, label
            if broken := model.invariant(after):
                return result(broken, after)
            todo.append((depth + 1, after))
        if stuck:
            ends += 1
            if not model.may_end(state):
                return result("deadlock", state)
        if len(seen) > limit:
            raise TooManyStates(f"more than {limit}")
    return result()
