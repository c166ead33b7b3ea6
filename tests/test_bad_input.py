"""One table of mistakes: a namesake raises what NumPy's function raises, and writes nothing."""

from __future__ import annotations

import functools
import itertools
import warnings

import numpy as np
import pytest

import pyblitz as pb

BIG = 100_000  # well above every size that goes straight to NumPy
SMALL = 12


class Number:
    """What NumPy makes an object array of."""


@functools.cache
def arrays_of(n):
    """What may stand for an array."""
    return {
        "floats": np.arange(n * 1.0) % 7 + 1,  # whose product has no zero
        "ints": np.arange(n) % 7 + 1,
        "bools": np.arange(n) % 3 == 0,
        "complex": np.exp(np.arange(n) * 1j),
        "times": np.arange(n).astype("M8[s]"),
        "durations": np.arange(n).astype("m8[s]"),
        "rows": (np.arange(n * 1.0) % 7 + 1).reshape(-1, 4),
        "no rows": np.empty((0, n)),
        "empty": np.empty(0),
        "scalar": np.float64(3),
        "zero-d": np.array(3),
        "strings": np.arange(n).astype("U6"),
        "bytes": np.arange(n).astype("S6"),
        "objects": np.array([Number() for _ in range(7)]),
        "mixed": np.array([1, "a", None, 2.5], object),
        "numbers as objects": np.arange(9).astype(object),
        "structured": np.zeros(n, [("a", "i4"), ("b", "f8")]),
        "ragged": [[1, 2], [3]],
        "list": list(range(9)),
        "list of strings": ["a", "b"],
        "None": None,
        "string": "abc",
        "dict": {"a": 1},
        "set": {1, 2},
        "type": int,
        "huge int": [2**70, 1],
    }


AXES = [None, 0, 1, -1, 5, -5, "a", 1.5, (0,), (0, 0), (0, 9), [0], True, object()]
DTYPES = ["f4", "i4", "nonsense", object, 3, "U5", "M8[s]"]
OTHERS = [None, "a", [1, 2, 3], [[1], [2, 3]], object(), -1, 2.5]


def outs(shape, dtype):
    """Outputs that do not fit, or hardly."""
    fixed = np.zeros(shape, dtype)
    fixed.flags.writeable = False
    return [
        np.zeros(3),
        np.zeros((2, 2, 2)),
        np.zeros(shape, "i1"),
        np.zeros(shape, "U1"),
        np.zeros(shape, object),
        np.zeros(shape, "M8[s]"),
        fixed,
        [0],
        "a",
        3,
    ]


def reduction(tuples=True, dtype=False, initial=False, where=True):
    """Mistakes in the options of a reduction."""
    made = [{"axis": a} for a in AXES] + [{"keepdims": "a"}, {"keepdims": None}, {"nonsense": 1}]
    made += [{"out": o} for shape in [(), (1,), (4,)] for o in outs(shape, "f8")]
    made += [{"axis": 0, "out": o} for o in outs((4,), "f8")]
    made += [{"dtype": d} for d in DTYPES]
    made += [{"initial": x} for x in ["a", None, 1j, [1, 2], Number()]]
    made += [
        {"where": x} for x in ["a", None, [True, False], np.ones(3), np.ones((2, 3), bool), 1, []]
    ]
    return made


VAR = [{"ddof": x} for x in ["a", None, 1j, 10**9, -1, 0.5, [1]]] + [
    {"correction": 1, "ddof": 1},
    {"mean": "a"},
]
# name -> the options to try, beside an array of each kind
OPTIONS = {
    **dict.fromkeys(
        ["sum", "prod", "mean", "min", "max", "any", "all", "nansum", "nanmin", "nanmax"],
        reduction(),
    ),
    **dict.fromkeys(["argmin", "argmax", "count_nonzero"], reduction()),
    **dict.fromkeys(["var", "std"], reduction() + VAR),
    "sort": [{"axis": a} for a in AXES]
    + [{"kind": k} for k in ["quick", "nonsense", 3]]
    + [{"order": "a"}, {"nonsense": 1}],
    "argsort": [{"axis": a} for a in AXES]
    + [{"kind": k} for k in ["quick", "nonsense", "", 3]]
    + [{"order": "a"}, {"kind": "stable", "stable": True}, {"nonsense": 1}],
    "unique": [{"axis": a} for a in AXES]
    + [{"axis": a, "return_counts": True} for a in AXES]
    + [{k: True} for k in ["return_index", "return_inverse", "return_counts"]]
    + [{"return_inverse": o} for o in OTHERS]
    + [{"equal_nan": x} for x in [False, None]]
    + [{"nonsense": 1}],
    "lexsort": [{"axis": a} for a in AXES] + [{"nonsense": 1}],
    "cumsum": reduction(),
    "cumprod": reduction(),
    "flatnonzero": [{"nonsense": 1}],
    "bincount": [{"weights": o} for o in OTHERS]
    + [{"minlength": m} for m in (-1, "a", None, 2.5, 20)],
    "histogram": [{"bins": b} for b in [0, -1, 2.5, "a", "auto", [3, 1], [1], None, [[1, 2]]]]
    + [{"range": r} for r in [(1,), (2, 1), (np.nan, 1), "ab", 3]]
    + [{"weights": o} for o in OTHERS],
    "copy": [{"order": o} for o in ["x", 3, None]],
}


def calls():
    """(name, positional arguments after the first array, options), one mistake or none each."""
    for name, options in OPTIONS.items():
        for given in [{}, *options]:
            yield name, (), given
    indices = [
        [0, 1],
        [-1],
        [10**7],
        [-(10**7)],
        [1.5],
        "a",
        None,
        [[0], [1, 2]],
        [True],
        np.empty(0, int),
        3,
        [2**70],
    ]
    for i in indices:
        for given in [
            {},
            {"mode": "wrap"},
            {"mode": "clip"},
            {"mode": "nonsense"},
            {"axis": 0},
            {"axis": 7},
            {"out": np.zeros(2, "i1")},
            {"out": [0]},
        ]:
            yield "take", (i,), given
        for v in [1, [1, 2], "a", None, 1j, [[1], [2, 3]]]:
            for mode in ["raise", "wrap", "clip", "nonsense"]:
                if (
                    mode != "raise"
                    or v in (1, [1, 2])
                    or str(i) not in ("[10000000]", "[-10000000]")
                ):  # one mistake at a time
                    yield "put", (i, v), {"mode": mode}
    for o in OTHERS:
        yield "searchsorted", (o,), {}
        yield "searchsorted", (o,), {"side": "middle"}
        yield "searchsorted", (3,), {"sorter": o}
        yield "digitize", (o,), {}
        yield "isin", (o,), {}
        yield "isin", (o,), {"kind": "table"}
        yield "isin", ([1, 3],), {"kind": o}
        yield "isin", ([1, 3],), {"invert": o}
        yield "digitize", (np.array([1, 3, 2]),), {}
        yield "repeat", (o,), {}
        yield "repeat", (2,), {"axis": o}
        yield "where", (o, 1), {}
        yield "where", (o,), {}
        yield "dot", (o,), {}
        yield "dot", (np.ones(5),), {"out": o}
        yield "dot", (np.ones((5, 5)),), {"out": o}
        yield "concatenate", (), {"axis": o}
        yield "concatenate", (), {"out": o}
        yield "concatenate", (), {"dtype": o}
        yield "scan", (), {"axis": o}
        yield "scan", (), {"out": o}
        yield "reduceat", (o,), {}
        yield "reduceat", ([0, 3],), {"axis": o}
        yield "minmax", (), {"axis": o}
        yield "flatten", (), {"order": o}
        yield "isin", (o,), {}
        yield "isin", (o,), {"invert": True}
        yield "isin", ([1, 2],), {"kind": o}
        yield "isin", ([1, 2],), {"axis": o}
    for kth in [0, -1, [1, 3], [], 10**7, -(10**7), [0, 10**7], 2.5, "a", None, True, [[1], [2]]]:
        for name in ("partition", "argpartition"):
            yield name, (kth,), {}
            yield name, (kth,), {"axis": None}
    for name in ("partition", "argpartition"):
        for axis in AXES:
            yield name, (2,), {"axis": axis}
        for given in [{"kind": "nonsense"}, {"kind": 3}, {"order": "a"}, {"nonsense": 1}]:
            yield name, (2,), given
    for out in [np.zeros(3), np.zeros((), "i4"), [0]]:
        yield "dot", (np.ones(BIG),), {"out": out}


def settled(f, indices=False):
    """Of a permutation or a partition, what does not depend on how ties are broken."""

    def call(a, *kth, axis=-1, **options):
        made = f(a, *kth, axis=axis, **options)
        along = 0 if axis is None else axis
        items = np.sort(made, along)
        if indices:
            a = np.asarray(a)
            made = np.take_along_axis(a.ravel() if axis is None or not a.ndim else a, made, along)
        return items, np.take(made, np.asarray(kth[0], np.intp), along) if kth else made

    return call


CALLS = list(calls())
# NumPy's and pyblitz's function, where they are not namesakes.
SAME = {
    "scan": [np.add.accumulate, functools.partial(pb.par_scan, np.add)],
    "reduceat": [np.add.reduceat, functools.partial(pb.par_reduceat, np.add)],
    "minmax": [lambda a, **k: (np.min(a, **k), np.max(a, **k)), pb.par_minmax],
    "argsort": [settled(np.argsort, True), settled(lambda *a, **k: pb.par_argsort(*a, **k), True)],
    "partition": [settled(np.partition), settled(lambda *a, **k: pb.par_partition(*a, **k))],
    "argpartition": [
        settled(np.argpartition, True),
        settled(lambda *a, **k: pb.par_argpartition(*a, **k), True),
    ],
    "flatten": [lambda a, **k: np.asarray(a).flatten(**k), pb.par_flatten],
}
# Known and wanted differences: pyblitz's own parameters.
OURS = {("sort", "out")}


def snapshot(*values):
    return [
        (v.dtype, v.shape, v.tobytes() if not v.dtype.hasobject else v.tolist())
        for v in values
        if isinstance(v, np.ndarray)
    ]


def result_of(f):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return f()
        except Exception as e:
            return e


def agree(got, expected):
    if isinstance(expected, Exception):
        return type(got) is type(expected)
    if isinstance(got, Exception):
        return False
    if isinstance(expected, tuple):
        return len(got) == len(expected) and all(map(agree, got, expected))
    g, e = np.asarray(got), np.asarray(expected)
    if g.dtype != e.dtype or g.shape != e.shape:
        return False
    if e.dtype.kind in "fc":
        return np.allclose(g, e, rtol=1e-4, equal_nan=True)
    if e.dtype.kind in "biu":
        return np.array_equal(g, e)
    return g.tolist() == e.tolist() or (
        e.dtype.kind in "mM" and np.array_equal(g, e, equal_nan=True)
    )


def copied(x):
    """Each call has arrays of its own, read-only as the given ones."""
    if not isinstance(x, np.ndarray):
        return x
    made = x.copy()
    made.flags.writeable = x.flags.writeable
    return made


def compare(name, kind, n, args, options):
    """What is wrong, or None."""
    made = []
    for f in SAME.get(name) or [getattr(np, name), getattr(pb, "par_" + name)]:
        a = copied(arrays_of(n)[kind])
        rest = [copied(x) for x in args]
        given = {k: copied(x) for k, x in options.items()}
        before = snapshot(a, *rest, *given.values())
        result = result_of(functools.partial(f, a, *rest, **given))
        after = snapshot(a, *rest, *given.values())
        made.append((result, before, after))
    (expected, *theirs), (got, before, after) = made
    what = f"{name}({kind}[{n}], *{args!r:.80}, **{options!r:.80})"
    if not agree(got, expected):
        return f"{what}: {type(got).__name__} {got!r:.100}, not {type(expected).__name__} {expected!r:.100}"  # noqa: E501
    # NumPy itself writes into some outputs, of strings and objects, before it fails.
    if isinstance(got, Exception) and before != after and theirs[0] == theirs[1]:
        return f"{what}: wrote before it raised {got!r:.100}"
    return None


@pytest.mark.parametrize("n", [SMALL, BIG])
@pytest.mark.parametrize("name", sorted({call[0] for call in CALLS}))
def test_mistakes(name, n):
    wrong = []
    for called, args, options in CALLS:
        if called != name or (name, *options)[:2] in OURS:
            continue
        # All kinds with the plain call; the options with the kinds that get far.
        kinds = (
            arrays_of(SMALL)
            if not options and not args
            else ["floats", "ints", "rows", "bools", "list", "mixed"]
        )
        for kind in kinds:
            if n == BIG and not isinstance(arrays_of(SMALL)[kind], np.ndarray):
                continue
            if getattr(options.get("out"), "dtype", None) == object and (
                name in ("any", "all") or kind == "mixed" or np.__version__ < "2.4"
            ):
                # Which may crash NumPy by itself: np.all(objects, out=objects) in 2.4, and in
                # 2.2 np.cumprod(numbers, out=objects).
                continue
            if n == BIG and "prod" in name and options.get("dtype") is object:
                continue  # numbers of a hundred thousand digits
            message = compare(name, kind, n, args, options)
            if message is not None:
                wrong.append(message)
    assert not wrong, "\n".join([f"{len(wrong)} differences", *wrong[:40]])
    assert pb.par_sum(np.ones(BIG)) == BIG  # the pool works


UFUNC_MISTAKES = [
    {"axis": 9},
    {"axis": "a"},
    {"dtype": "nonsense"},
    {"dtype": "U3"},
    {"out": np.zeros(3)},
    {"out": [0]},
    {"initial": "a"},
    {"where": "a"},
    {"where": np.ones(3, bool)},
    {"keepdims": "a"},
    {"nonsense": 1},
]


@pytest.mark.parametrize("n", [SMALL, BIG])
@pytest.mark.parametrize(
    "fn", [np.add, np.maximum, np.subtract, np.sin, np.divmod, np.matmul, np.logical_or]
)
def test_mistakes_of_reductions(fn, n):
    for kind, options in itertools.product(
        ["floats", "rows", "ints", "mixed", "None", "ragged", "strings"], [{}, *UFUNC_MISTAKES]
    ):
        if (options or fn.signature) and (
            kind == "ragged" or fn.nin != 2 or fn.nout != 1 or fn.signature
        ):
            continue  # of two mistakes NumPy may name the other
        expected = result_of(lambda: fn.reduce(arrays_of(n)[kind], **options))
        got = result_of(lambda: pb.par_reduce(fn, arrays_of(n)[kind], **options))
        assert agree(got, expected), (fn, kind, options, got, expected)


@pytest.mark.parametrize("n", [SMALL, BIG])
@pytest.mark.parametrize("fn", [np.sin, np.add, np.divmod, np.bitwise_and])
def test_mistakes_of_maps(fn, n):
    more = [
        {},
        {"dtype": "nonsense"},
        {"dtype": "i1"},
        {"casting": "nonsense"},
        {"where": "a"},
        {"where": np.ones(3, bool)},
        {"out": np.zeros(3)},
        {"out": [0]},
        {"out": np.zeros(n, "i1")},
        {"nonsense": 1},
    ]
    for kind, options in itertools.product(arrays_of(SMALL), more):
        if n == BIG and not isinstance(arrays_of(SMALL)[kind], np.ndarray):
            continue
        if options and kind == "ragged":
            continue  # of two mistakes NumPy may name the other
        for count in (1, 2, 3):
            expected = result_of(
                lambda: fn(
                    *[arrays_of(n)[kind]] * count,
                    **{k: copied(v) for k, v in options.items()},
                )
            )
            got = result_of(
                lambda: pb.par_map(
                    fn,
                    *[arrays_of(n)[kind]] * count,
                    **{k: copied(v) for k, v in options.items()},
                )
            )
            assert agree(got, expected), (fn, kind, options, count, got, expected)


@pytest.mark.parametrize("name", [name for name in pb.__all__ if name.startswith("par_")])
def test_no_arguments_and_unknown_keywords(name):
    f = getattr(pb, name)
    with pytest.raises(TypeError):
        f()
    with pytest.raises(TypeError):
        f(np.arange(3), np.arange(3), utter_nonsense=1)
