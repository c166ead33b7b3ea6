"""The Chase-Lev deque, at 4 cells: the owner at one end, thieves at the other."""

import os
from functools import partial

import pytest

# The delays of PYBLITZ_CHAOS make them take a tenth of a millisecond each.
MANY = 200_000 if os.environ.get("PYBLITZ_CHAOS") else 2_000_000


@pytest.fixture(params=[True, False], ids=["biased", "fenced"])
def arena(native, request):
    """With deques that become biased after 2 pops, and with the full fence in each."""
    if request.param and not native.deque.HAS_MEMBARRIER:
        pytest.skip("this system has no membarrier")
    return partial(native.deque.Arena, biased=request.param)


def test_is_built_small(native, arena):
    """Otherwise the races below would not meet growth."""
    assert native.deque.CAPACITY == arena(1).capacity == 4


def test_smoke(native, arena):
    d = arena(10)
    assert d.pop() is None
    assert d.steal() == native.deque.EMPTY
    for i in range(10):
        assert d.push(i)
    assert len(d) == 10
    assert [d.pop(), d.steal()[0], d.pop(), d.steal()[0]] == [9, 0, 8, 1]
    assert [d.pop() for _ in range(6)] == [7, 6, 5, 4, 3, 2]
    assert d.pop() is None
    assert d.steal() == native.deque.EMPTY
    assert len(d) == 0


@pytest.mark.parametrize("offset", range(9))
def test_growth_keeps_all(arena, offset):
    """From any position in the ring, also wrapped around its end."""
    d = arena(100)
    for _ in range(offset):
        d.push(0)
        d.steal()
    for i in range(100):
        d.push(i, i + 1)
    assert d.capacity == 128
    assert [d.steal() for _ in range(50)] == [(i, i + 1) for i in range(50)]
    assert [d.pop() for _ in range(50)] == list(range(99, 49, -1))


def test_a_full_ring_is_reused(arena):
    d = arena(4)
    for turn in range(100):
        for i in range(4):
            d.push(i)
        assert [d.steal()[0] for _ in range(4)] == [0, 1, 2, 3], turn
    assert d.capacity == 4


def test_tags(native, arena):
    d = arena(3)
    d.push(0, 7)
    d.push(1, 8)
    d.push(2, 7)
    assert d.bottom_tag() == 7
    assert d.steal(8) == native.deque.EMPTY, "the oldest has another tag"
    assert d.steal(7) == (0, 7)
    assert d.steal(7) == native.deque.EMPTY
    assert d.steal(0) == (1, 8)
    assert d.steal(7) == (2, 7)


def test_bias(native):
    """The owner's pops make the deque biased, a thief ends that, and so on."""
    if not native.deque.HAS_MEMBARRIER:
        pytest.skip("this system has no membarrier")
    d = native.deque.Arena(10)
    for turn in range(3):
        for i in range(10):
            d.push(i)
        assert d.bias == native.deque.FENCED
        pops = [d.pop() for _ in range(4)]
        assert d.bias == native.deque.OWNER, turn
        pops += [d.pop() for _ in range(3)]
        assert pops == [9, 8, 7, 6, 5, 4, 3]
        assert d.steal()[0] == 0
        assert d.bias == native.deque.FENCED
        assert d.pop() == 2
        assert d.steal()[0] == 1
        assert d.pop() is None


def test_never_biased_without_membarrier(native):
    d = native.deque.Arena(100, biased=False)
    for i in range(100):
        d.push(i)
    assert [d.pop() for _ in range(100)] == list(range(99, -1, -1))
    assert d.bias == native.deque.FENCED


def check_all_once(d, popped, thefts):
    assert d.taken_once() == d.n
    assert popped + sum(stolen for stolen, _, _ in thefts) == d.n
    assert [disorder for _, disorder, _ in thefts] == [0] * len(thefts)
    assert [torn for _, _, torn in thefts] == [0] * len(thefts)


def test_spsc(arena, crowd):
    d = arena(MANY)
    popped, theft = crowd(lambda: d.own(0, drain=False, thieves=1), d.thieve)
    assert popped == 0
    check_all_once(d, 0, [theft])


def test_stampede(arena, crowd):
    """All is there before the thieves come."""
    d = arena(MANY)
    assert d.own(0, drain=False) == 0
    thefts = crowd(d.thieve, d.thieve, d.thieve, d.thieve)
    check_all_once(d, 0, thefts)


@pytest.mark.parametrize("thieves", [1, 2, 3])
@pytest.mark.parametrize("pops", [3, 6, 8])
def test_stress(arena, crowd, thieves, pops):
    """With 8 of 8 every pop is of the last item, which owner and thieves race for; there the
    owner may win each time."""
    d = arena(MANY)
    popped, *thefts = crowd(lambda: d.own(pops, thieves=thieves), *[d.thieve] * thieves)
    check_all_once(d, popped, thefts)
    assert 0 < popped < d.n or pops == 8, "there was a race"


@pytest.mark.parametrize("thieves", [1, 2, 3])
def test_growth_races_theft(arena, crowd, thieves):
    """Thousands of young deques: each grows from 4 to 64 cells under the thieves."""
    d = arena(64 * (MANY // 100), MANY // 100)
    popped, *thefts = crowd(lambda: d.own(2, thieves=thieves), *[d.thieve] * thieves)
    check_all_once(d, popped, thefts)


def test_no_starvation(arena, crowd):
    """Ends when every thief has taken something."""
    d = arena(3)
    left, *_ = crowd(lambda: d.feed(3), *[lambda i=i: d.eat(i) for i in range(3)])
    counts = d.counts
    assert left == sum(counts)
    assert min(counts) > 0


def test_asking_for_a_tag_takes_nothing_else(arena, crowd):
    """Item 5000 alone has the tag 5001, and it is taken when it is the oldest."""
    d = arena(10_000)
    d.own(0, drain=False)
    _, (stolen, _, torn) = crowd(d.thieve, lambda: d.thieve(5001))
    assert torn == 0
    assert stolen <= 1
    assert d.counts == [1] * 10_000


def test_where_nobody_can_steal_nothing_is_offered(native, arena):
    """Who waits for a fork sleeps then.  It spun, with its GIL, until its thief's next pop."""
    d = arena(3)
    for i in range(3):
        d.push(i, i + 1)
    assert d.offers(1)
    assert not d.offers(2)
    d.refuse()
    assert not d.offers(1)
    assert d.steal(1) == native.deque.EMPTY
    assert d.pop() == 2
    assert d.offers(1)
    assert d.steal(1) == (0, 1)


def test_membarrier_is_refused_later(script):
    """By a sandbox that is put up when the owners' pops are unfenced already: thieves still
    come by their jobs."""
    out = script("""
import ctypes, os, platform, struct, threading, time
import native_capi as capi
import pyblitz as pb

pb.set_num_threads(2)
begun, go = threading.Event(), threading.Event()
busy = pb.spawn(lambda: begun.set() or go.wait())
begun.wait()                    # nobody is left who could steal
capi.fib(24)                    # thousands of pops: the deque is biased

# seccomp: membarrier gives EPERM, everything else goes on.
number = {"x86_64": 324, "aarch64": 283}[platform.machine()]
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
lines = [(LOAD, 0, 0, 0), (EQUAL, 0, 1, number), (RETURN, 0, 0, 0x00050000 | 1),
         (RETURN, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(lines), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
SECCOMP, SET_MODE_FILTER, ALL_THREADS = {"x86_64": 317, "aarch64": 277}[platform.machine()], 1, 1
if libc.syscall(SECCOMP, SET_MODE_FILTER, ALL_THREADS, program) != 0:
    go.set()
    print(os.strerror(ctypes.get_errno()))
    raise SystemExit
assert libc.syscall(number, 0, 0, 0) == -1

go.set()
# The first thief finds out, and the owner's next pop fences for it.
me = threading.get_ident()
moved, end = 0, time.monotonic() + 20
while moved < 3:
    assert time.monotonic() < end, "nobody steals any more"
    who = []
    capi.call_join(lambda: time.sleep(0.01) or 0, lambda: who.append(threading.get_ident()) or 0)
    moved += who[0] != me
print(moved)
""")
    if out == "Function not implemented\n":
        pytest.skip("no seccomp here, as under qemu-user")
    assert out == "3\n"
