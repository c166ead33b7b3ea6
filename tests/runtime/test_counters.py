"""The packed word of the sleep protocol: sleeping, inactive, jobs event counter."""

import random
import signal

import pytest


def test_smoke(native):
    k = native.latch.Count64(3)
    assert k.fields == (3, 3, 0), "threads that were not started count as sleeping"
    k.sub_sleeping()
    k.sub_inactive()
    assert k.fields == (2, 2, 0)


def test_the_jec_goes_both_ways(native):
    """A poster makes it odd, a sleeper even: it never sticks at either."""
    k = native.latch.Count64()
    for turn in range(0, 100, 2):
        assert k.announce_sleepy() == turn
        assert k.announce_sleepy() == turn
        assert k.post_event() == turn + 1
        assert k.post_event() == turn + 1


def test_a_post_keeps_the_sleeper_awake(native):
    k = native.latch.Count64()
    k.add_inactive()
    jec = k.announce_sleepy()
    k.post_event()
    assert not k.add_sleeping(jec)
    assert k.fields == (0, 1, jec + 1)
    # Another one got sleepy since: still not the number that was remembered.
    assert k.announce_sleepy() == jec + 2
    assert not k.add_sleeping(jec)
    assert k.add_sleeping(jec + 2)
    assert k.fields == (1, 1, jec + 2)


def test_rollover(native):
    """The carry leaves the word: the other fields do not notice."""
    k = native.latch.Count64()
    k.store(5, 0xFFFF, 0xFFFFFFFF)
    assert k.announce_sleepy() == 0
    assert k.fields == (5, 0xFFFF, 0)
    assert k.add_sleeping(0)
    assert not k.add_sleeping(0xFFFFFFFE)
    assert k.fields == (6, 0xFFFF, 0)


@pytest.mark.parametrize("seed", range(20))
def test_model(native, seed):
    rng = random.Random(seed)
    k = native.latch.Count64()
    sleeping = inactive = jec = 0
    for _ in range(2_000):
        match rng.randrange(6):
            case 0 if inactive < 0xFFFF:
                k.add_inactive()
                inactive += 1
            case 1 if inactive > sleeping:
                k.sub_inactive()
                inactive -= 1
            case 2 if inactive > sleeping:
                guess = rng.choice([jec, jec - 1, jec + 1]) & 0xFFFFFFFF
                assert k.add_sleeping(guess) == (guess == jec)
                sleeping += guess == jec
            case 3 if sleeping:
                k.sub_sleeping()
                sleeping -= 1
            case 4:
                jec += jec & 1
                assert k.announce_sleepy() == jec
            case 5:
                jec |= 1
                assert k.post_event() == jec
        assert k.fields == (sleeping, inactive, jec)


def test_stress(native, crowd):
    k = native.latch.Count64()
    slept = crowd(
        *[lambda: k.churn(50_000)] * 2,
        *[lambda: k.post(50_000)] * 2,
    )
    assert slept[2:] == [0, 0], "a posted counter is odd"
    assert slept[0] + slept[1] > 0
    assert k.fields[:2] == (0, 0)


@pytest.mark.parametrize("step", ["sub_sleeping()", "sub_inactive()", "add_sleeping(0)"])
def test_invariants_are_checked(script, step):
    """0 <= sleeping <= inactive, in debug builds."""
    done = script(f"import native_latch; native_latch.Count64().{step}", check=False)
    assert done.returncode == -signal.SIGABRT
    assert "broken invariant" in done.stderr
