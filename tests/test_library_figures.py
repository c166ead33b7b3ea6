"""The section of docs/figures.md about the array library, and its chart, from rows made up
here: what was missed is named, what is absent breaks nothing."""

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

    def written(rows):
        lines = [json.dumps(r) for r in (FACTS, *rows)]
        (tmp_path / "library.jsonl").write_text("\n".join(lines) + "\n")
        return module

    assert module.library_page() == ""  # nothing was measured
    return written


def test_all_met(figures):
    page = figures([row("reduction", "par_sum", 10**5, [SPEED])]).library_page()
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
    page = figures(rows).library_page()
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
    svg = ElementTree.fromstring(module.library_chart.draw(rows))
    texts = ["".join(t.itertext()) for t in svg.iter("{http://www.w3.org/2000/svg}text")]
    for label in ("pyblitz 1", "NumPy 2", "Polars 4"):
        assert texts.count(label) == 2
    assert not any("torch" in t for t in texts)
