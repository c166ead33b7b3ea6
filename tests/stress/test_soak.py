"""A short soak; soak.py runs it for as long as you like."""

import os

import pytest
from soak import ALONE, MIXED, soak


@pytest.mark.parametrize("threads", [2, 8])
def test_soak(native, threads):
    # A sanitizer's own threads do not survive a fork.
    forks = os.environ.get("PYBLITZ_BUILD", "") not in {"thread", "address"}
    done = soak(native, threads, 1, 5, threads, forks)
    kinds = {*MIXED, *ALONE} - (set() if forks else {"fork"})
    assert len(done) >= len(kinds) - 2, "a kind may not be drawn in so short a time"
    assert sum(done.values()) > 1000


@pytest.mark.skipif(not os.environ.get("PYBLITZ_BUILD"), reason="only debug builds have chaos")
def test_chaos_strikes(script):
    """Where every theft fails the caller does everything itself, and nothing hangs."""
    out = script(
        """
import pyblitz as pb, native_capi
pb.set_num_threads(3)
assert sum(native_capi.call_roll()) == 3    # all run: they will try
with pb.stats() as s:
    while not sum(w.failed_steals for w in s.workers):
        assert native_capi.fib(24) == 46368
print(sum(w.steals for w in s.workers))
""",
        env={"PYBLITZ_CHAOS": "1:steal"},
    )
    assert out.split() == ["0"]
