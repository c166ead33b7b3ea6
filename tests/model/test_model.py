"""The protocols are right in every interleaving of small models, and the checker would have
noticed if they were not.  run.py checks every mutation, and larger sizes."""

from __future__ import annotations

import functools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cases import FULL, HARMLESS, MUTANTS, SMALL
from spin import HERE, Incomplete, Spin, check, installed, mutations, quickly

pytestmark = pytest.mark.skipif(not installed(), reason="the model checker spin is not here")

FILES = sorted(path.name for path in HERE.glob("*.pml"))
# Of each model, one that loses work, and a defect that the code once had; run.py checks them all.
BITE = {
    *("no_membarrier", "ring_before_copies", "no_entering", "gone_no_wake", "reap_locked"),
    *("keeps_tasks", "tasks_under", "deeper_under", "no_fence_1", "sleeper_uncounts"),
    *("no_wait_claimed", "revive_by_store", "total_after_state", "recompute_in_place"),
    *("claim_torn", "popped_forgotten", "no_hand_over", "result_waits", "wait_no_mail"),
    *("put_torn", "lost_is_put", "rest_last", "pool_after", "park_by_store", "timeout_store"),
    *("leave_torn", "ends_at_empty", "nests", "waits_only"),
}
# Of many states; what they have, smaller ones have too.  Left to run.py.
LARGE = {
    *("sleep, jobs", "sleep, jobs, rollover", "sleep, jobs, mail", "sleep, forks"),
    *("sleep, refused", "joins, growth and reuse", "waits, twice", "tasks, fail"),
    *("sleep, forks, rollover", "waits, on top", "tasks, cancelled", "pool, all refused"),
    *("sleep, places", "scan, integers", "tasks, asked, alone"),
}


def check_all(cases):
    """Their results; Spin and the compiler run beside each other."""
    with ThreadPoolExecutor(os.cpu_count()) as executor:
        return list(executor.map(functools.partial(check, compiler=quickly()), cases))


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_the_protocols_hold(file):
    assert set(SMALL) >= LARGE
    small = {name: case for name, case in SMALL.items() if name not in LARGE}
    cases = {name: case for name, case in small.items() if case[0].file == file}
    results = check_all(model for model, _ in cases.values())
    for (name, (_, states)), result in zip(cases.items(), results, strict=True):
        assert result.broken is None, f"{name}: {result}"
        # Fewer would mean that the model lost some of its steps.
        assert result.states >= 0.9 * states, name


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_the_models_bite(file):
    mutants = [m for m in MUTANTS if m.file == file and m.mutation in BITE]
    assert len(mutants) >= 2
    for model, result in zip(mutants, check_all(mutants), strict=True):
        assert result.broken is not None, f"{model.mutation} was not noticed"
        assert result.trace


@pytest.mark.parametrize("file", FILES)
def test_every_mutation_is_checked_somewhere(file):
    checked = {m.mutation for m in (*MUTANTS, *HARMLESS) if m.file == file}
    assert checked == set(mutations(file))
    for model, _ in (*SMALL.values(), *FULL.values()):
        model.flags()


def test_what_is_no_result(tmp_path):
    """A search that stopped early, or a name that the model does not know."""
    model, _ = SMALL["joins"]
    with pytest.raises(Incomplete):
        check(model, depth=50)
    with pytest.raises(ValueError, match="no mutation"):
        check(Spin("deque.pml", (), "no_such_thing"))
    with pytest.raises(ValueError, match="JOBZ"):
        check(Spin("deque.pml", (("JOBZ", 1),)))
    assert Path("deque.pml.trail").exists() is False, "nothing is left here"
