"""Latches: set once, and whoever sets one that its owner sleeps on must wake it."""

import pytest


def test_smoke(native):
    t = native.latch
    latch = t.Latch()
    assert (latch.state, latch.is_set()) == (t.UNSET, False)
    assert latch.get_sleepy()
    assert latch.state == t.SLEEPY
    assert latch.fall_asleep()
    assert latch.state == t.SLEEPING
    assert latch.set(), "its owner sleeps: the setter must wake it"
    assert latch.is_set()


@pytest.mark.parametrize("state", ["UNSET", "SLEEPY", "SLEEPING", "SET"])
def test_transitions(native, state):
    t = native.latch
    before = getattr(t, state)

    def after(step):
        latch = t.Latch(before)
        return getattr(latch, step)(), latch.state

    was = {"UNSET": before == t.UNSET, "SLEEPY": before == t.SLEEPY}
    assert after("get_sleepy") == (was["UNSET"], t.SLEEPY if was["UNSET"] else before)
    assert after("fall_asleep") == (was["SLEEPY"], t.SLEEPING if was["SLEEPY"] else before)
    assert after("wake_up") == (None, t.SET if before == t.SET else t.UNSET)
    assert after("set") == (before == t.SLEEPING, t.SET)


def test_stress(native, crowd):
    """However set and sleep interleave, a sleeper is woken and nobody else is."""
    rounds = 20_000
    latch = native.latch.Latch()
    (asleep, awake), duties = crowd(lambda: latch.own(rounds), lambda: latch.strike(rounds))
    assert asleep == duties
    assert asleep + awake == rounds


def test_count_latch(native):
    latch = native.latch.Count()
    latch.count_up()
    latch.count_up()
    assert latch.count_down() is None
    assert latch.count_down() is None
    assert not latch.is_set(), "the owner's own share is left"
    assert latch.count_down() is None, "nobody sleeps"
    assert latch.is_set()


def test_count_latch_wakes_its_owner(native):
    latch = native.latch.Count()
    latch.count_up()
    assert latch.count_down() is None
    assert latch.sleep()
    assert latch.count_down() is True


def test_count_latch_stress(native, crowd):
    latch = native.latch.Count()
    assert latch.sleep()
    assert crowd(*[lambda: latch.churn(200_000)] * 3) == [0, 0, 0]
    assert not latch.is_set()
    assert latch.count_down() is True
