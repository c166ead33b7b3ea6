"""The runtime's own sources hold under C11 memory orders, in every run of small scenarios, and the
checker notices weaker orders.  c11/run.py checks every order, and larger scenarios."""

from __future__ import annotations

import platform
import sys

import pytest
from c11.build import build, installed
from c11.checker import CXX20_SEQUENCES, NO_SC_ACCESSES, Checker, sites_of
from c11.unneeded import UNNEEDED

pytestmark = [
    pytest.mark.skipif(not installed(), reason="gcc is not here, whose -fsanitize=thread is used"),
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"),
        reason="the checker switches stacks, and knows how to on Linux on x86-64 and aarch64",
    ),
]

# Scenarios that are searched through in no time, and their states; no fewer than 9 in 10 is
# accepted, for fewer would mean that steps were lost.
SMALL = {
    "deque, two pops": 10_800,
    "deque, the last job": 15_200,
    "deque, growth": 2_300,
    "deque, tags": 4_600,
    "deque, biased": 17_500,
    "deque, biased and full": 14_800,
    "deque, bias begins": 8_700,
    "deque, refused": 16_400,
    "injector": 240,
    "injector, two takers": 820,
    "inbox": 34_000,
    "latch": 650,
    "count latch": 270,
    "count latch, a late share": 930,
    "parker, tokens": 170,
    "parker, two tokens": 3_700,
    "parker, time-outs": 670,
    "lock latch": 60,
    "sleep, one job": 2_200,
    "sleep, spawned": 4_800,
    "sleep, retirement": 7_200,
    "stats": 990,
    "stats, the next recording": 12_000,
}
# By scenario, mutations that it notices.
BITE = {
    "deque, two pops": (
        "deque.pyx deque_take_back_slow fence_seq_cst: removed",
        "deque.pxd deque_steal fence_seq_cst: removed",
    ),
    "deque, growth": (
        "deque.pxd deque_put i64_store_release: relaxed",
        "deque.pxd deque_use ptr_store_release: relaxed",
        "deque.pxd deque_steal i64_load_acquire #2: relaxed",
        "deque.pxd deque_steal ptr_load_acquire: relaxed",
    ),
    "deque, tags": ("deque.pxd deque_offers ptr_load_acquire: relaxed",),
    "deque, biased and full": (
        "deque.pxd deque_take_back compiler_barrier #1: removed",
        "os.h pb_membarrier membarrier: removed",
    ),
    "deque, refused": (
        "deque.pyx deque_take_back_slow fence_seq_cst: removed",
        "os.h pb_membarrier membarrier: removed",
    ),
    "injector": (
        "injector.pxd injector_push ptr_cas_release: relaxed",
        "injector.pxd injector_take ptr_exchange_acquire: relaxed",
    ),
    "inbox": (
        "injector.pxd inbox_take u32_exchange_acquire: relaxed",
        "injector.pxd inbox_take u32_store_release: relaxed",
    ),
    "count latch": (
        "latch.pxd latch_is_set u32_load_acquire: relaxed",
        "latch.pxd latch_set u32_exchange_acq_rel: acquire",
        "latch.pxd count_down i64_fetch_sub_acq_rel: acquire",
        "latch.pxd count_down i64_fetch_sub_acq_rel: release",
    ),
    "parker, tokens": (
        "os.h pb_park u32_exchange_acquire #2: relaxed",
        "os.h pb_unpark u32_exchange_acq_rel: acquire",
    ),
    "sleep, spawned": ("sleep.pyx no_work_found fence_seq_cst: removed",),
    "sleep, retirement": (
        "sleep.pyx retire u32_store_seq_cst: relaxed",
        "sleep.pyx try_to_wake u32_cas_seq_cst: release",
    ),
    "sleep, a start, and retirement": ("sleep.pyx fall_asleep u32_load_acquire: relaxed",),
    "stats": (
        "stats.pyx note_slowly i64_store_release #3: relaxed",
        "stats.pyx note_slowly u32_store_release #2: relaxed",
        "stats.pyx stats_read u32_load_acquire #1: relaxed",
    ),
    "sleep, mail": (
        "sleep.pyx post_injected fence_seq_cst: removed",
        "sleep.pyx post_bound fence_seq_cst: removed",
        "sleep.pyx fall_asleep fence_seq_cst: removed",
    ),
}
# Of what is too large to be searched through here.
BOUNDS = {
    "sleep, a start, and retirement": {"preemptions": 2, "max_states": 60_000},
    "sleep, mail": {"preemptions": 2, "max_states": 60_000},
}


# By scenario, accesses that only the path it is named for comes to.
REACHED = {
    "deque, refused": "deque.pyx deque_take_back_slow u32_store_release",
    "sleep, retirement": "sleep.pyx retire fence_seq_cst",
    "sleep, a start, and retirement": "sleep.pyx retire fence_seq_cst",
    "sleep, refused": "sleep.pyx wake_any fence_seq_cst",
    "sleep, dead, a lane": "sleep.pyx wake_for_returned fence_seq_cst",
    "sleep, refused, mail": "sleep.pyx return_mail fence_seq_cst",
    "sleep, refused, revived": "sleep.pyx revive u32_store_seq_cst",
}


@pytest.fixture(scope="module")
def checker(tmp_path_factory):
    built = tmp_path_factory.mktemp("c11")
    build(built)
    with Checker(built) as checker:
        yield checker


def fours(*results):
    return sorted(int(result) for result in results)


ALL_PAIRS = fours("0000", "0100", "1000", "1100")
NO_OLD = fours("0000", "0100", "1100")
NO_BOTH_OLD = fours("0100", "1000", "1100")
SIXTEEN = fours(*(f"{n:04b}" for n in range(16)))
NO_DISAGREEMENT = [n for n in SIXTEEN if n != 1010]
LITMUS = {
    "SB": (ALL_PAIRS, ALL_PAIRS),
    "SB+fences": (NO_BOTH_OLD, NO_BOTH_OLD),
    "SB+sc": (NO_BOTH_OLD, ALL_PAIRS),
    "MP": (NO_OLD, NO_OLD),
    "MP+relaxed": (ALL_PAIRS, ALL_PAIRS),
    "MP+fences": (NO_OLD, NO_OLD),
    # The second reader's 1 is the other thread's, before the release: it publishes nothing.
    "MP+rmw": (fours("0000", "0100", "1000", "1100", "2100"),) * 2,
    "MP+store": (
        fours("0000", "0100", "1100", "2100"),
        fours("0000", "0100", "1100", "2000", "2100"),
    ),
    "IRIW": (SIXTEEN, SIXTEEN),
    "IRIW+sc": (NO_DISAGREEMENT, SIXTEEN),
    "IRIW+fences": (NO_DISAGREEMENT, NO_DISAGREEMENT),
    "CoRR": (fours("0000", "0100", "0200", "1100", "1200", "2200"),) * 2,
    "2+2W": ([11, 12, 21, 22],) * 2,
    "RMW": (fours("0120", "0210", "1020", "1200", "2010", "2100"),) * 2,
    "WRC": (NO_OLD, NO_OLD),
    "SC, then relaxed": (NO_OLD, ALL_PAIRS),
}


@pytest.mark.parametrize("name", LITMUS)
def test_the_memory_is_that_of_c11(checker, name):
    """Classical programs of two to four threads: just the results that C11 allows, and those that
    it allows without what the weaker mode takes away."""
    c11, weaker = LITMUS[name]
    assert checker.explore(name)["outcomes"] == c11
    assert checker.explore(name, weaker=NO_SC_ACCESSES | CXX20_SEQUENCES)["outcomes"] == weaker


def test_a_race_is_noticed(checker):
    found = checker.explore("race")
    assert found["broken"] == "a read races with a write"
    assert [step.split()[1] for step in found["trace"]] == ["0", "1"]


@pytest.mark.parametrize("name", SMALL)
def test_the_sources_hold(checker, name):
    found = checker.explore(name)
    assert found["broken"] is None, "\n".join([found["broken"], *found["trace"]])
    assert found["complete"]
    assert found["states"] >= 0.9 * SMALL[name]


@pytest.mark.parametrize("name", BITE)
def test_weaker_orders_are_noticed(checker, name):
    bounds = BOUNDS.get(name, {})
    sound = checker.explore(name, **bounds)
    assert sound["broken"] is None
    mutations = {m.name: m for s in sites_of(sound) for m in s.mutations()}
    for mutation in BITE[name]:
        found = checker.explore(name, mutations=[mutations[mutation].key()], **bounds)
        assert found["broken"], f"{mutation} was not noticed"
        assert found["trace"]


@pytest.mark.parametrize("name", REACHED)
def test_rare_paths_are_reached(checker, name):
    found = checker.explore(name, preemptions=1, max_states=10_000)
    assert found["broken"] is None
    assert REACHED[name] in {site.name for site in sites_of(found)}


def test_a_search_may_be_incomplete(checker):
    found = checker.explore("deque, two pops", max_states=1000)
    assert not found["complete"]
    assert found["broken"] is None


def test_what_is_unneeded_says_why():
    for name, reason in UNNEEDED.items():
        assert len(reason) > 20, name
