"""The deque's algorithm is right in every interleaving of a small model, and the checker
would have noticed if it were not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest
from deque import NOT_ON_TSO, Deque
from explore import Model, Result, TooManyStates, explore, itself
from run import MUTANTS, SMALL
from tso import Tso, machine
from tso import replace as put


def counter(broken_at: int, end: int) -> Model[int]:
    """From 0 by steps of 1 or 3 to at most 10."""
    return Model(
        0,
        lambda n: ((f"+{i}", n + i) for i in (1, 3) if n + i <= 10),
        lambda n: f"it is {n}" if n == broken_at else None,
        lambda n: n == end,
    )


def test_explore() -> None:
    assert explore(counter(-1, 10)) == Result(11, 1, 4, frozenset({"+1", "+3"}))
    found = explore(counter(7, 10))
    assert found.broken == "it is 7"
    assert sorted(found.trace) == ["+1", "+3", "+3"], "the shortest"
    stuck = explore(counter(-1, 11))
    assert stuck.broken == "deadlock"
    assert len(stuck.trace) == 4
    with pytest.raises(TooManyStates):
        explore(counter(-1, 10), limit=5)


# ---- the machine ------------------------------------------------------------

X, Y = 0, 1
Program = tuple[tuple[str, int], ...]


class Run(NamedTuple):
    m: Tso
    at: tuple[int, ...]
    seen: tuple[tuple[int, ...], ...]


def outcomes(*programs: Program) -> set[tuple[tuple[int, ...], ...]]:
    """All that the threads' loads can see.  A program is made of ("store", cell), which stores
    1, ("load", cell), ("lock", cell), a compare-and-swap of 0 to 1, ("fence", 0), ("begin", 0)
    and ("end", 0) of a membarrier."""
    found = set()
    names = ("a", "b")[: len(programs)]

    def successors(s: Run) -> Iterator[tuple[str, Run]]:
        for label, m in s.m.steps(names, ("x", "y")):
            yield label, s._replace(m=m)
        for i, program in enumerate(programs):
            if s.at[i] == len(program):
                continue
            what, cell = program[s.at[i]]
            m, seen = s.m, s.seen[i]
            if what == "store":
                m = m.store(i, cell, 1)
            elif what == "load":
                seen = (*seen, m.load(i, cell))
            elif what == "end":
                if not m.membarrier_can_end(i):
                    continue
            elif not m.drained(i):
                continue
            elif what == "begin":
                m = m.membarrier_begin(i)
            elif what == "lock":
                won = m.compare_and_swap(i, cell, 0, 1)
                seen = (*seen, int(won is not None))
                m = won or m
            yield what, Run(m, put(s.at, i, s.at[i] + 1), put(s.seen, i, seen))

    def at_end(s: Run) -> bool:
        assert all(s.m.memory[cell] for p in programs for what, cell in p if what == "store")
        found.add(s.seen)
        return True

    n = len(programs)
    explore(Model(Run(machine((0, 0), n), (0,) * n, ((),) * n), successors, lambda s: None, at_end))
    return found


STORE_X, STORE_Y, LOAD_X, LOAD_Y = ("store", X), ("store", Y), ("load", X), ("load", Y)
FENCE, BEGIN, END = ("fence", 0), ("begin", 0), ("end", 0)
NEITHER = ((0,), (0,))


def test_stores_are_seen_late() -> None:
    """Store buffering: what the fence in a pop is for."""
    assert NEITHER in outcomes((STORE_X, LOAD_Y), (STORE_Y, LOAD_X))
    assert NEITHER in outcomes((STORE_X, FENCE, LOAD_Y), (STORE_Y, LOAD_X))
    assert NEITHER not in outcomes((STORE_X, FENCE, LOAD_Y), (STORE_Y, FENCE, LOAD_X))


def test_a_membarrier_is_a_fence_of_both() -> None:
    assert NEITHER not in outcomes((STORE_X, LOAD_Y), (STORE_Y, BEGIN, END, LOAD_X))
    assert NEITHER in outcomes((STORE_X, LOAD_Y), (STORE_Y, BEGIN, LOAD_X)), "once it has ended"
    assert NEITHER in outcomes((STORE_X, LOAD_Y), (BEGIN, END, STORE_Y, LOAD_X)), "once it began"


def test_a_threads_own_stores_are_seen_at_once_and_in_order() -> None:
    assert outcomes((STORE_X, LOAD_X)) == {((1,),)}
    seen = outcomes((STORE_X, STORE_Y), (LOAD_Y, LOAD_X))
    assert seen == {((), pair) for pair in [(0, 0), (0, 1), (1, 1)]}


def test_one_thread_wins_and_its_stores_are_seen() -> None:
    assert outcomes((("lock", X),), (("lock", X),)) == {((1,), (0,)), ((0,), (1,))}
    seen = outcomes((STORE_X, ("lock", Y)), (LOAD_Y, LOAD_X))
    assert ((1,), (1, 0)) not in seen


# ---- the deque --------------------------------------------------------------

# What a model must have met, by whatever thief: else it shows less than it says.
MET = [
    "pop: CAS top to",
    "pop: bias is FENCED",
    "pop: lost the last",
    "pop: top is",
    "steal: bias is FENCED",
    "steal: bottom is",
    "steal: CAS top to",
    "steal: lost the job",
]
MET_IF_BIASED = [
    "fenced by the membarrier of",
    "flush bias = 1",
    "flush bias = 0",
    "pop: bias is BIASED",
    "pop: bias is REVOKING",
    "steal: CAS bias to REVOKING",
    "steal: bias = FENCED",
    "steal: bias is BIASED, leaves it",
    "steal: bias is BIASED, revokes",
    "steal: bias is REVOKING",
    "steal: lost the revocation",
]


@pytest.mark.parametrize("name", SMALL)
def test_deque(name: str) -> None:
    model, states = SMALL[name]
    result = explore(model.model())
    assert result.broken is None, result
    assert result.states >= 0.9 * states
    assert bool(result.ends) == (model.attempts is not None)
    met = MET + (MET_IF_BIASED if model.biased else [])
    met += ["at once" if model.built else "rebias: mfence"] if model.biased else []
    met += ["push: bottom ="] if model.pushes else []
    met += ["steal: membarrier fails"] if model.put_back else []
    missed = [what for what in met if not any(what in label for label in result.labels)]
    assert not missed


@pytest.mark.parametrize(
    ("design", "mutation"),
    [(design, mutation) for design, model in MUTANTS.items() for mutation in model.mutations()],
)
def test_a_mutation_is_caught(design: str, mutation: str) -> None:
    result = explore(replace(MUTANTS[design], mutation=mutation).model())
    assert result.broken is not None
    wrong = "bottom < top" if mutation == "bottom_below_top" else "is taken twice"
    assert wrong in result.broken, result
    assert result.trace


@pytest.mark.parametrize("mutation", NOT_ON_TSO)
def test_what_x86_forgives(mutation: str) -> None:
    assert explore(Deque(jobs=2, joins=True, mutation=mutation).model()).broken is None


def test_names_of_thieves_do_not_matter() -> None:
    """Leaving them out halves the states, at best, and changes nothing else."""
    model = Deque(jobs=1).model()
    one, other = explore(model), explore(replace(model, key=itself))
    assert one.broken is other.broken is None
    assert one.depth == other.depth
    assert one.states < other.states <= 2 * one.states
