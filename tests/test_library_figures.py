"""The sections of docs/figures.md about the array library and the sorts, and their charts, from
rows made up here: what was missed is named, what is absent breaks nothing."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parent.parent
SPEED = {"goal": "x best peer", "value": 1.2, "limit": 0.9524, "met": True}
FACTS = {
    "cpu": "a CPU",
    "cpus": 2,
    "system": "Linux",
    "python": "CPython",
    "numpy": "2",
    "compiler": "cc",
    "git_commit": "0123456789abcdef",
    "date": "2026-01-01T00:00",
    "load": 0.0,
    "peers": {"torch": "not installed"},
}


def row(what, name, n, goals, **more):
    ns = {"pyblitz": 1.0 * n, "NumPy": 2.0 * n, "Polars": 9.0 * n, "Polars, streaming": 4.0 * n}
    return {
        "what": what,
        "name": name,
        "n": n,
        "dtype": "float64",
        "ns": ns,
        "ns_min": ns,
        "ratio_numpy": 2.0,
        "ratio_peer": 2.0,
        "best_peer": "NumPy",
        "goals": goals,
        "met": all(g["met"] for g in goals),
        "runs": 3,
        **more,
    }


@pytest.fixture
def figures(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("figures", ROOT / "benchmarks" / "figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "RESULTS", tmp_path)

    def written(rows, name="library"):
        lines = [json.dumps(r) for r in (FACTS, *rows)]
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "a-kind.jsonl").write_text("\n".join(lines) + "\n")
        return module

    # Nothing was measured.
    assert module.kind_pages() == {}
    return written


def labels_of(svg):
    texts = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(t.itertext()) for t in texts]


def test_all_met(figures):
    page = figures([row("reduction", "par_sum", 10**5, [SPEED])]).library_page("a-kind")
    assert "1 of 1 rows meet their goals" in page
    assert "| `par_sum`, float64 | 1.2 NumPy |" in page
    assert page.endswith("Nowhere: every goal is met.\n")


def test_losses_are_named(figures):
    slow = {**SPEED, "value": 0.5, "met": False}
    absent = {**SPEED, "value": None, "met": False}
    rows = [
        row("reduction", "par_sum", 10**5, [slow], best_peer="Polars"),
        row("move", "par_take(a, index)", 10**7, [absent], missing="AttributeError"),
        row("expression", "a*b", 10**4, [], best_peer="torch", ratio_peer=0.8),
        row("move", "par_where(c, x, y)", 10**7, [absent], failed="ValueError"),
    ]
    page = figures(rows).library_page("a-kind")
    losses = page[page.index("Where pyblitz loses") :]
    assert "`par_sum`, 10^5 float64: x best peer (Polars): 0.5, goal 0.9524" in losses
    assert "moves, missing: `par_take(a, index)`" in losses
    assert "torch is faster: 0.8" in losses
    assert "failed (ValueError)" in losses
    assert "**0.5** Polars" in page


def test_chart(figures):
    """A line and a label for everyone who was there; Polars is the faster of its two ways."""
    rows = [
        row("expression", "a*b + np.sin(a)*2 - b**2", 10**k, [], best_peer="NumPy") for k in (4, 5)
    ] + [row("reduction", "par_sum", 10**k, [SPEED]) for k in (5, 6)]
    module = figures(rows)
    texts = labels_of(module.library_chart.draw(rows))
    for label in ("pyblitz 1", "NumPy 2", "Polars 4"):
        assert texts.count(label) == 2
    assert not any("torch" in t for t in texts)


NUMPY_GOAL = {"goal": "x NumPy", "value": 2.0, "limit": 1.8, "met": True}
PARTS_OF_SORTING = [
    "random",
    "dtypes",
    "patterns",
    "stable",
    "argsort",
    "unique",
    "lexsort",
    "group_by",
    "rows",
    "relatives",
]


def test_sorting_all_met(figures):
    """Every part has a table, and every row is in it."""
    rows = [
        row(what, f"par_{what}", 10**7, [NUMPY_GOAL, SPEED], dtype="int64")
        for what in PARTS_OF_SORTING
    ]
    rows.append(row("small", "par_small", 100, [SPEED], over_ns=300.0))
    memory = {"goal": "MiB", "value": 76.3, "limit": 92, "met": True}
    sizes = {"bytes": 80_000_000, "numpy_bytes": 0}
    rows.append(row("memory", "par_sort(a, out=a)", 10**7, [memory], **sizes))
    page = figures(rows, "sorting").sorting_page("a-kind")
    assert f"{len(rows)} of {len(rows)} rows meet their goals" in page
    for what in PARTS_OF_SORTING:
        assert f"| `par_{what}`, int64 | 10^7 | 10 | 20 | 40 | 2 | 1.2 |" in page
    assert "| `par_small`, 10^2 | 0.2 | 0.30 | yes |" in page
    assert "| `par_sort(a, out=a)`, 10^7 | 76.3 | 1.000 | 0.0 | yes |" in page
    assert page.endswith("Nowhere: every goal is met.\n")


def test_sorting_losses_are_named(figures):
    slow = {**SPEED, "value": 0.5, "met": False}
    absent = {**NUMPY_GOAL, "value": None, "met": False}
    rows = [
        row("random", "par_sort(a)", 10**6, [NUMPY_GOAL, slow], best_peer="Rayon", ratio_peer=0.5),
        row("random", "par_sort(a)", 10**3, [], best_peer="torch", ratio_peer=0.7),
        row("argsort", "par_argsort(a)", 10**7, [absent], missing="AttributeError"),
        row("small", "par_sort", 10, [SPEED], over_ns=300.0, ratio_peer=0.8),
    ]
    page = figures(rows, "sorting").sorting_page("a-kind")
    losses = page[page.index("Where pyblitz loses") :].splitlines()[2:]
    assert losses == [
        "- random: `par_sort(a)`, 10^6 float64: x best peer (Rayon): 0.5, goal 0.9524.",
        "- random: `par_sort(a)`, 10^3 float64: torch is faster: 0.7.",
        "- argsort, missing: `par_argsort(a)`.",
    ]
    assert "**0.5**" in page


def test_enable_chart(figures):
    """A bar for each operator on a million elements and each program, the longest first."""
    rows = [
        {"what": what, "name": name, "seconds": {"NumPy": gain, "enabled": 1.0}, **more}
        for what, name, gain, more in [
            ("operator", "a + b", 1.25, {"n": 10**6}),
            ("operator", "a < b", 9.0, {"n": 10**5}),
            ("operator", "exp(a)", 1.5, {"n": 10**6}),
            ("program", "n-body", 3.0, {}),
        ]
    ]
    texts = labels_of(figures(rows, "enable").enable_chart.draw(rows))
    assert texts[2:6] == ["exp(a)", "1.50", "a + b", "1.25"]
    assert texts[-2:] == ["n-body", "3.00"]
    assert "a < b" not in texts


def test_sorting_chart(figures):
    """Labels of all who were there, in one column, though some have no largest array."""
    ns = {"Rayon": 30.0, "pyblitz": 10.0}
    rows = [
        row("random", "par_sort(a)", n, [], dtype="int64", ns={k: v * n for k, v in ns.items()})
        for n in (10**3, 10**4)
    ]
    rows.append(row("random", "par_sort(a)", 10**5, [], dtype="int64", ns={"pyblitz": 1.2e6}))
    rows.append(row("random", "par_sort(a)", 10**6, [], ns={"pyblitz": 1.0}))  # float64
    module = figures(rows, "sorting")
    svg = module.sorting_chart.draw(rows)
    texts = labels_of(svg)
    assert "pyblitz 12" in texts
    assert "Rayon 30" in texts
    places = [
        t.get("x")
        for t in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
        if "".join(t.itertext()) in ("pyblitz 12", "Rayon 30")
    ]
    assert len(places) == 2
    assert len(set(places)) == 1


def test_never_slower(figures, tmp_path):
    """What is slower by a little is not red; the page names the worst of each function."""
    module = figures([], "library")
    rows = [
        {"level": level, "threads": 2, "name": name, "dtype": "int64", "numpy": n, "ours": o}
        for level, name, n, o in [
            ("v4", "sort", [1000, 100_000, 100_000], [2000, 50_000, 120_000]),
            ("v4", "sum", [1000, 100_000, 100_000], [3000, 100_000, 10_000]),
            ("v3", "sort", [1000, 100_000, 100_000], [1000, 200_000, 104_000]),
        ]
    ]
    reds = module.never_slower.red_cells(rows)
    assert [(c["level"], c["name"], c["size"]) for c in reds] == [
        ("v4", "sum", 3),
        ("v3", "sort", 4),
        ("v4", "sort", 5),
    ]
    text = module.never_slower_section({**FACTS, "cpu_kind": "a kind"}, rows, "x.svg")
    assert "| sort | 2 | int64, 2^4, v3, 2 | 100.0 | 200.0 | 0.50 |" in text
    assert "| sum | 1 | int64, 2^3, v4, 2 | 1.0 | 3.0 | 0.33 |" in text
    assert "| v3 | 2 | 0.78 | 1 of 3 |" in text
    svg = module.never_slower_chart.draw(rows, "a kind")
    assert labels_of(svg)[1:3] == ["v4, 2 threads", "24"]
    # Three red cells, and one run of each other colour next to each other.
    red = next(
        p.get("d")
        for p in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}path")
        if p.get("class") == "h0"
    )
    assert red.count("M") == 3
