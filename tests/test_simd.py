"""Each level of the processor gives the same bits, and is chosen as its page says."""

from __future__ import annotations

import functools
import operator
import os
import pathlib
import subprocess
import sys
import sysconfig

import numpy as np
import pytest
from sorting import assert_same_bits

import pyblitz as pb
from pyblitz.kernels.simd import levels

# What sorts are said to take, so that each is taken: NumPy's of words, pieces, that of floats,
# and ours of words, or else as NumPy's.
WAYS = [
    (1, 10**6, 10**6),
    (1, 10**6, 10**6, 2),
    (10**6, 10**6, 1),
    (20_000, 10**6, 10**6),
    (20_000, 10**6, 10**6, 10**6),
    (10**9, 1000, 10**9),
]
SIZES = [1, 7, 8, 15, 16, 17, 255, 256, 257, 1000, 4096, 100_003]


@pytest.mark.parametrize("level", levels.names())
def test_the_environment_holds_it_down(level):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import pyblitz.kernels.simd.levels as m; import pyblitz; print(m.chosen())",
        ],
        env={**os.environ, "PYBLITZ_CPU": level},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == level


def test_a_level_that_is_not_here_is_refused():
    done = subprocess.run(
        [sys.executable, "-c", "import pyblitz"],
        env={**os.environ, "PYBLITZ_CPU": "v9"},
        capture_output=True,
        text=True,
    )
    assert "ValueError: PYBLITZ_CPU must be one of" in done.stderr
    assert "'v9'" in done.stderr
    with pytest.raises(KeyError):
        levels.choose("v9")


@pytest.mark.parametrize("arm", ["0", "1"])
def test_what_other_processors_are_given_compiles(arm, tmp_path):
    """With vectors of 16 bytes that the compiler makes by itself, and with those of ARM."""
    here = pathlib.Path(pb.__file__).parent
    for header in [*here.glob("kernels/simd/*.h"), *here.glob("kernels/*.h")]:
        copy = tmp_path / "pyblitz" / header.relative_to(here)
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = header.read_text().replace("defined(__x86_64__)", "0")
        copy.write_text(text.replace("defined(__aarch64__)", arm))
    (tmp_path / "levels.c").write_text(
        '#include "pyblitz/kernels/simd/kernels.h"\n'
        "const void *levels(void);\nconst void *levels(void) { return pb_levels; }\n"
    )
    flags = "-std=c11 -Wall -Wextra -Werror -Wno-unused-function -fsyntax-only"
    done = subprocess.run(
        [*sysconfig.get_config_var("CC").split(), *flags.split(), f"-I{tmp_path}", "levels.c"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_have_the_same_bits(dtype, n, simd_level):
    a = np.random.default_rng(n).standard_normal(n).astype(dtype)
    found = []
    for level in levels.names():
        simd_level(level)
        found.append((pb.par_sum(a), pb.par_dot(a, a), pb.par_reduce(np.add, a)))
    assert found.count(found[0]) == len(found)


def sum_of_row(a):
    """In lanes of 256 bytes, which are halved."""
    lanes = 256 // a.itemsize
    if a.size < lanes:
        return functools.reduce(operator.add, a, a.dtype.type(-0.0))
    sums = a[:lanes].copy()
    for at in range(lanes, a.size, lanes):
        more = a[at : at + lanes]
        sums[: more.size] += more
    while sums.size > 1:
        sums = sums[: sums.size // 2] + sums[sums.size // 2 :]
    return sums[0]


def sum_of_rows(a):
    """Of rows of 512 items: of neighbours, and so on.  Of more than 64 in two halves, of which the
    first has one more if their number is odd."""
    if a.size > 64 * 512:
        half = -(-(a.size // 2) // 512) * 512
        return sum_of_rows(a[:half]) + sum_of_rows(a[half:])
    sums = [sum_of_row(a[at : at + 512]) for at in range(0, a.size, 512)]
    while len(sums) > 1:
        odd = sums[len(sums) & ~1 :]
        sums = [x + y for x, y in zip(sums[::2], sums[1::2], strict=False)] + odd
    return sums[0]


def sum_of_blocks(a):
    """Of about as many blocks as a power of two.  None has more than 128 KiB, or 256 where those
    would be more than 16."""
    most = 131072 // a.itemsize
    if a.size > 16 * most:
        most *= 2
    blocks = 1
    while blocks * most < a.size:
        blocks *= 2
    rows = -(-a.size // (512 * blocks))
    return sum_of_halves([a[at : at + 512 * rows] for at in range(0, a.size, 512 * rows)])


def sum_of_halves(blocks):
    if len(blocks) == 1:
        return sum_of_rows(blocks[0])
    half = (len(blocks) + 1) // 2
    return sum_of_halves(blocks[:half]) + sum_of_halves(blocks[half:])


ROWS = [5, 100, 511, 512, 513, 1_025, 1_600, 2_048, 2_561, 5_121, 10_000, 16_384, 31_232]


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_are_those_of_a_tree(dtype, n, simd_level):
    """Whose shape the length alone decides, as kernels/simd/lanes.h says."""
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((2, n)).astype(dtype)
    for level in levels.names():
        simd_level(level)
        x = pb.par_iter(a)  # none of whose sums is so small that it is NumPy's
        assert x.sum() == sum_of_rows(a)
        assert (x * b).sum() == sum_of_rows(a * b)


@pytest.mark.parametrize("n", [32_769, 100_000, 262_145, 1_000_003])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_are_those_of_blocks(dtype, n, pool_size):
    a = np.random.default_rng(n).standard_normal(n).astype(dtype)
    expected = sum_of_blocks(a)
    for threads in (1, 2, 5):
        pool_size(threads)
        assert pb.par_sum(a) == expected
        assert pb.par_sum(np.repeat(a, 2)[::2]) == expected


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8", "f4", "f8", "i2", "F", ">i4", ">f8"])
def test_what_is_not_zero_is_counted(dtype, simd_level):
    """Zeros with a sign are none; NaNs, subnormals and single bits are not zero; with steps, and
    more than 65,536 side by side, too."""
    rng = np.random.default_rng(1)
    some = np.array([0, 0, 1, -1 if "u" not in dtype else 1, 3], dtype)
    if "f" in dtype:
        some = np.append(some, np.array([-0.0, np.nan, 5e-324, -np.inf], dtype))
    bit = np.zeros(100_000, dtype)
    bit.view("u1")[:: 7 * bit.itemsize] = 1 << rng.integers(0, 8)
    for a in (rng.choice(some, 300_001), np.ones(140_000, dtype), bit, np.zeros(90_000, dtype)):
        for level in levels.names():
            simd_level(level)
            for b in (a, a[3:], a[::2], a[::-1], a[: len(a) // 8 * 8].reshape(8, -1).T):
                found = pb.par_count_nonzero(b)
                assert found == np.count_nonzero(b)
                assert type(found) is type(np.count_nonzero(b))


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8", "q", "Q", ">i4", ">u8"])
def test_integers_wrap_as_numpys_do(dtype, simd_level):
    """Sums of 4 bytes are of 8; products of 4 bytes wrap at 4; with steps and backwards, too."""
    info = np.iinfo(dtype)
    rng = np.random.default_rng(2)
    a = rng.integers(
        info.min, info.max, 300_001, dtype=np.dtype(dtype).newbyteorder("="), endpoint=True
    )
    a = a.astype(dtype)
    a[::3] = info.max
    a[1::7] = info.min
    b = a[::-1].copy()
    for level in levels.names():
        simd_level(level)
        for x, y in ((a, b), (a[:1], b[:1]), (a[5:], b[5:]), (a[::2], b[::2]), (a[::-1], b)):
            for found, expected in (
                (pb.par_sum(x), np.sum(x)),
                (pb.par_iter(x).sum(), np.sum(x)),
                (pb.par_sum(x, initial=3), np.sum(x, initial=3)),
                ((pb.par_iter(x) + y).sum(), np.sum(x + y)),
                (pb.par_dot(x, y), np.dot(x, y)),
            ):
                assert found == expected
                assert type(found) is type(expected)


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 127, 128, 129, 700, 100_003])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u4", "u8", "i2", ">f8", "m8[s]", "F"])
def test_extremes_are_found_wherever_they_are(dtype, n, simd_level):
    """At each place of a vector, at any distance from a line of the cache; NaNs, infinities, the
    limits of integers, and zeros as those of each extreme alone."""
    rng = np.random.default_rng(n)
    numbers = (100 + 100 * rng.random(n + 16)).astype(dtype)
    kind = numbers.dtype.kind
    values = {
        "f": [-np.inf, np.inf, -1.5, 0.0, -0.0, np.nan],
        "i": [-(2 ** (8 * numbers.itemsize - 1)), 2 ** (8 * numbers.itemsize - 1) - 1, 0],
        "u": [0, 2 ** (8 * numbers.itemsize) - 1],
        "m": [np.timedelta64("NaT"), -5, 10_000],
        "c": [np.nan, -1j, 1000j],
    }[kind]
    places = range(n) if n < 200 else rng.integers(0, n, 20)
    for level in levels.names():
        simd_level(level)
        for i, at in enumerate(places):
            a = numbers[i % 16 :][:n].copy() if i % 3 else numbers[i % 16 :][:n]
            for value in values:
                kept = a.copy()
                a[at] = value
                if value == 0:
                    a[at // 2] = a[-1] = -a[at]  # the other zero, before and behind
                with np.errstate(all="raise"):
                    found = pb.par_minmax(a)
                assert_same_bits(np.array(found), np.array([pb.par_min(a), pb.par_max(a)]))
                np.testing.assert_array_equal(found, [np.min(a), np.max(a)])
                assert type(found[0]) is type(found[1]) is type(np.min(a))
                a[:] = kept


@pytest.mark.parametrize("n", [1, 31, 32, 33, 64, 1000, 4096, 70_001])
def test_bytes_that_are_not_zero_are_found(n, simd_level):
    """At either end, in the middle, of any value; one that is zero among others; none."""
    for level in levels.names():
        simd_level(level)
        for at in sorted({0, n // 3, n // 2, n - 1}):
            for value in (1, 128):
                mask = np.zeros(n, np.uint8)
                mask[at] = value
                for m in (mask.view(bool), mask.view(bool)[::-1].copy()):
                    assert pb.par_position(m, m) == np.argmax(m)
                    assert pb.par_find_any(np.arange(n), m) == np.argmax(m)
                assert pb.par_any(mask.view(bool))
                assert not pb.par_all(mask.view(bool)) or n == 1
            full = np.full(n, 255, np.uint8)
            assert pb.par_all(full.view(bool))
            full[at] = 0
            assert not pb.par_all(full.view(bool))
        assert pb.par_position(np.zeros(n), 1) is None


@pytest.mark.parametrize("words", ["u4", "u8"])
@pytest.mark.parametrize("parts", [16, 32, 64, 128, 256])
def test_parts_are_those_of_searchsorted(words, parts, simd_level, native):
    """Keys that are splitters, lie between them, or are at the ends of the range."""
    rng = np.random.default_rng(parts)
    splitters = np.sort(rng.integers(0, np.iinfo(words).max, parts - 1, dtype=words))
    splitters[3:6] = splitters[3]
    splitters[-2:] = np.iinfo(words).max
    for n in (1, 5, 8, 16, 100, 255, 256):
        keys = rng.integers(0, np.iinfo(words).max, n, dtype=words, endpoint=True)
        keys[: n // 2] = rng.choice(splitters, n // 2)
        keys[-1] = rng.choice(np.array([0, np.iinfo(words).max], words))
        expected = np.searchsorted(splitters, keys, side="right")
        for level in levels.names():
            simd_level(level)
            assert np.array_equal(native.kernels.parts_of(keys, splitters), expected), level


@pytest.mark.parametrize("words", ["u4", "u8"])
@pytest.mark.parametrize("parts", [4, 8])
@pytest.mark.parametrize("room", [0, 3, 1000, "of others"])
def test_words_go_to_their_parts_and_nowhere_else(words, parts, room, simd_level, native):
    """Each region has just so much room, or more, or those have that stay empty; what is behind it
    is somebody else's."""
    rng = np.random.default_rng(parts)
    most = np.iinfo(words).max
    for n in (1, 5, 8, 16, 17, 100, 255, 256):
        splitters = np.sort(rng.integers(0, most, parts - 1, dtype=words))
        splitters[1] = splitters[0]  # one part has none
        keys = rng.integers(0, most, n, dtype=words, endpoint=True)
        keys[: n // 2] = rng.choice(splitters, n // 2)
        if room == "of others":
            keys[:] = splitters[-1]
        part = np.searchsorted(splitters, keys, side="right")
        counts = np.bincount(part, minlength=parts)
        rooms = np.where(counts, 0, 1000) if room == "of others" else np.full(parts, room)
        starts = np.cumsum(np.r_[0, (counts + rooms)[:-1]])
        expected = np.full(starts[-1] + counts[-1] + rooms[-1] + 64, 7, words)
        for p in range(parts):
            expected[starts[p] : starts[p] + counts[p]] = keys[part == p]
        for level in levels.names():
            simd_level(level)
            mid = np.full_like(expected, 7)
            to = starts.copy()
            found = native.kernels.moved(keys, splitters, to, starts + counts + rooms, mid)
            if found is None:
                continue
            assert found == (True, counts.tolist())
            assert np.array_equal(to, starts + counts)
            for p in range(parts):
                used = slice(starts[p], starts[p] + counts[p])
                assert np.array_equal(mid[used], expected[used]), "in their order"
            assert (mid[-64:] == 7).all()
            if room == 0:
                assert np.array_equal(mid, expected)
            # One word too many for any part stops it, and is not written.
            for p in np.flatnonzero(counts):
                ends = starts + counts + rooms
                ends[p] = starts[p] + counts[p] - 1
                mid = np.full_like(expected, 7)
                assert native.kernels.moved(keys, splitters, starts.copy(), ends, mid)[0] is False
                assert mid[ends[p]] in (7, *expected[starts[p] + counts[p] + rooms[p] :][:1])


def words_of_all_sorts(words, n, rng):
    """Arrays of n words, and what each is."""
    most = np.iinfo(words).max
    some = rng.integers(0, most, n, dtype=words, endpoint=True)
    ramp = np.arange(n).astype(words)
    yield "random", some
    yield "few", rng.choice(np.array([0, 1, 5, most - 1, most], words), n)
    yield "small and large", np.where(some % 2, some % 100, most - some % 100).astype(words)
    yield "the last", np.full(n, most, words)
    yield "the last, and one less", most - (some % 50 == 0).astype(words)
    yield "equal", np.full(n, 7, words)
    yield "ascending", ramp
    yield "descending", ramp[::-1].copy()
    yield "organ pipes", np.minimum(ramp, ramp[::-1])
    yield "saw", ramp % np.array(37, words)


@pytest.mark.parametrize("dtype", ["u4", "u8", "i4", "i8"])
@pytest.mark.parametrize("level", levels.names())
def test_our_leaf_sorts_and_writes_nowhere_else(dtype, level, simd_level, native):
    """Each number of rows of each network, and those on which words are parted, at any address."""
    simd_level(level)
    words = f"u{dtype[1]}"
    rng = np.random.default_rng(3)
    for n in [*range(1, 600), 1000, 1023, 4097, 30_011]:
        for what, a in words_of_all_sorts(words, n, rng):
            around = rng.integers(0, 9, n + 128, dtype=words).view(dtype)
            lo = 61 + n % 4
            around[lo : lo + n] = a.view(dtype)
            expected = around.copy()
            expected[lo : lo + n].sort()
            if not native.kernels.leaf_sorted(around, lo, lo + n):
                assert level not in (("v3",) if dtype[0] == "i" else ("v3", "v4"))
                return
            assert np.array_equal(around, expected), (n, what)


@pytest.mark.parametrize("dtype", ["u4", "u8", "i4", "i8", "f8"])
@pytest.mark.parametrize("level", levels.names())
def test_our_leaf_stops_where_it_is_told_to(dtype, level, simd_level, native):
    """It asks before it parts many words, and not for fewer; what it leaves are the same words."""
    simd_level(level)
    rng = np.random.default_rng(7)
    a = rng.integers(0, 1 << 30, 3_000_000).astype(dtype)
    expected = np.sort(a)
    for after in (0, 1, 8):
        b = a.copy()
        stopped = native.kernels.leaf_stopped(b, after)
        if stopped is None:
            assert level not in (("v3",) if dtype[0] == "i" else ("v3", "v4"))
            return
        if stopped[0]:
            assert stopped[1] == -1
            assert not np.array_equal(b, expected)
            b.sort()
        assert np.array_equal(b, expected)
        # It asks for all three million, and for what is more than one million of them.
        assert stopped[0] == (after < 2)
    b = a[: 1 << 20].copy()
    assert native.kernels.leaf_stopped(b, 0) == (False, 0)
    assert np.array_equal(b, np.sort(a[: 1 << 20]))


@pytest.mark.parametrize("level", levels.names())
def test_doubles_are_sorted_as_doubles(level, simd_level, native):
    """Also infinities, which stand beside what fills the rows; as many zeros come out as go in."""
    simd_level(level)
    rng = np.random.default_rng(5)
    special = np.array([0.0, -0.0, np.inf, -np.inf, 5e-324, -5e-324, 1.0])
    for n in [*range(1, 400), 1023, 4097]:
        for a in (rng.standard_normal(n), rng.choice(special, n), np.full(n, np.inf)):
            around = rng.standard_normal(n + 128)
            lo = 61 + n % 4
            around[lo : lo + n] = a
            expected = around.copy()
            expected[lo : lo + n].sort()
            if not native.kernels.leaf_sorted(around, lo, lo + n):
                assert level != "v3"
                return
            assert np.array_equal(around, expected), n


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("level", levels.names())
def test_where_subnormals_are_zeros_none_is_lost(dtype, level, simd_level, leaves_take, native):
    """As torch.set_flush_denormal asks for: two that are equal then, by a leaf sort of floats, once
    came out as two of one of them. (Small arrays are NumPy's, for which all are equal then.)"""
    simd_level(level)
    tiny = np.finfo(dtype).smallest_subnormal
    rng = np.random.default_rng(6)
    for way in WAYS:
        leaves_take(*way)
        for n in (5000, 20_000):
            a = (rng.integers(-1000, 1000, n).astype(dtype) * tiny).astype(dtype)
            a[::7] = -0.0
            expected = pb.par_sort(a)
            found = native.kernels.with_subnormals_as_zeros(lambda a=a: pb.par_sort(a))
            assert_same_bits(found, expected)


@pytest.mark.parametrize("words", ["u4", "u8"])
@pytest.mark.parametrize("pivots", [0, 1, 3, 10])
def test_what_pivots_could_not_part_is_sorted(words, pivots, native):
    rng = np.random.default_rng(4)
    for n in (100, 129, 1000, 20_001):
        for what, a in words_of_all_sorts(words, n, rng):
            expected = np.sort(a)
            native.kernels.sorted_with_few_pivots(a, pivots)
            assert np.array_equal(a, expected), (n, what)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_floats_of_all_bits_sort_the_same(dtype, simd_level, leaves_take, pool_size):
    """NaNs of both signs and all payloads, zeros of both signs, infinities, subnormals."""
    words = np.dtype(dtype.replace("f", "u"))
    rng = np.random.default_rng(0)
    for n in (20_000, 50_000, 200_000):
        any_bits = rng.integers(0, np.iinfo(words).max, n, dtype=words, endpoint=True).view(dtype)
        special = rng.choice(np.array([0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, 5e-324], dtype), n)
        numbers = np.where(np.isnan(any_bits), special, any_bits)
        for a in (any_bits, special, numbers, np.where(rng.random(n) < 0.5, any_bits, special)):
            found = []
            for way in WAYS:
                for level in levels.names():
                    leaves_take(*way)
                    simd_level(level)
                    pool_size(2)
                    found.append(pb.par_sort(a))
            for other in found[1:]:
                assert_same_bits(other, found[0])
            expected = np.sort(a)
            assert np.array_equal(found[0], expected, equal_nan=True)
            zeros = np.signbit(found[0][found[0] == 0])
            assert np.array_equal(zeros, np.sort(zeros)[::-1]), "zeros with a sign come first"


@pytest.mark.parametrize("dtype", ["i4", "f4", "u8", "f8", "c16", "i2"])
def test_what_masks_select(dtype, simd_level, pool_size):
    """Of words by vectors, while there is room; blocks end where the next one's items begin."""
    rng = np.random.default_rng(6)
    pool_size(2)
    for n in (1, 7, 8, 31, 32, 33, 40, 4099, 70_001, 300_000):
        a = rng.integers(-100, 100, n).astype(dtype)
        for share in (0.0, 0.001, 0.03, 0.5, 0.97, 1.0):
            mask = rng.random(n) < share
            odd = mask.view(np.uint8) * rng.integers(1, 256, n).astype(np.uint8)
            for level in levels.names():
                simd_level(level)
                assert_same_bits(pb.par_filter(a, mask), a[mask])
                yes, no = pb.par_partition_by(a, mask)
                assert_same_bits(yes, a[mask])
                assert_same_bits(no, a[~mask])
                assert_same_bits(pb.par_flatnonzero(mask), np.flatnonzero(mask))
                # Any byte but 0 is true.
                assert_same_bits(pb.par_flatnonzero(odd.view(bool)), np.flatnonzero(mask))
