"""A short soak; soak.py runs it for as long as you like."""

import os

import pytest
from soak import ALONE, MIXED, soak


@pytest.mark.parametrize("callers", [2, 8])
def test_soak(native, callers):
    """Each caller does each thing once."""
    sanitizer = os.environ.get("PYBLITZ_BUILD", "")
    # A sanitizer's own threads do not survive a fork; and one reports what races on purpose.
    without = {"fork"} if sanitizer in {"thread", "address"} else set()
    without |= {"written"} if sanitizer == "thread" else set()
    result = soak(native, callers, 1, 0, callers, without)
    assert not result.losses, "\n".join(result.losses)
    assert {*MIXED, *ALONE} - without == result.done.keys()
    assert result.ticks > 0


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
