"""Others' own tests, with and without `pyblitz.enable`:

    python tests/judges.py [SUITE ...] [--write] [--rounds plain,enabled,forced]

They come with the wheels of NumPy, pandas, SciPy, scikit-learn and xarray; a library that is not
here is left out.  Each suite runs as it is (plain), under `enable` (enabled), and so that every
call is shared from one element on (forced); NumPy's also with `pyblitz.numpy` in the place of
`numpy` in the test modules (namespace).  Tests that fail only with pyblitz are named, and
make the exit code 1, but for those that are excused below.  --write keeps what was
found in benchmarks/results/judges.jsonl, beside what is known of the other suites.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

# What pytest is asked to run; "-k" and the like may follow.
SUITES = {
    "numpy": [
        "numpy._core",
        "numpy.lib",
        "numpy.ma",
        "numpy.random",
        "numpy.polynomial",
        "numpy.linalg",
        "numpy.fft",
    ],
    "pandas": [
        "pandas.tests.arithmetic",
        "pandas.tests.reductions",
        "pandas.tests.groupby",
        "pandas.tests.series.methods.test_sort_values",
        "pandas.tests.frame.methods.test_sort_values",
        "pandas.tests.test_sorting",
    ],
    "scipy": ["scipy.special", "scipy.stats", "scipy.ndimage"],
    "sklearn": ["sklearn.preprocessing", "sklearn.metrics", "sklearn.ensemble"],
    "xarray": [
        "xarray.tests.test_dataarray",
        "xarray.tests.test_dataset",
        "xarray.tests.test_computation",
    ],
}
# By a part of a test's name: why it may fail with `pyblitz.numpy`, in words that its authors would
# accept.
EXCUSED = {
    "::test_pickle_withstring": "a pickle of NumPy's ufunc gives NumPy's ufunc",
    "::test_load_ufunc_pickle": "the same",
    "::test__array_namespace__": "the namespace of an array is NumPy",
    "::TestDevice::test___array_namespace__": "the same",
    "::test_np_save_load": "puts a type into the namespace, and pickle looks for it in NumPy's",
    "::test_type_pickle": "the same",
    "::test_function_like": "asks for the very type that NumPy's functions have",
    "::test_signature_error_message_simple": "asks for NumPy's name in the message",
    "_with_mean_keyword_": "asks for the last bit of a rounded mean",
    "::test_ufunc_docstring": "writes to a docstring, which is NumPy's",
    "::TestAdd_newdoc_ufunc::": "a function of NumPy's in C for its own ufuncs only",
    "::test_ufunc_override_mro": "operands that have refused are asked once more, by NumPy itself, "
    "which then says so in its own words",
}
DISTRIBUTIONS = {"sklearn": "scikit-learn"}
# Rounds that run at once; some of NumPy's tests take 18 GB.
MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
PARALLEL = int(min(os.cpu_count() or 1, MEMORY // 20e9)) or 1
ROUNDS = {
    "plain": {},
    "enabled": {"PYBLITZ_JUDGE": "enable"},
    # More threads than CPUs, so that parts are run by others than the caller.
    "forced": {
        "PYBLITZ_JUDGE": "enable",
        "PYBLITZ_SHARE_FROM": "1",
        "PYBLITZ_NUM_THREADS": "3",
    },
    "namespace": {
        "PYBLITZ_JUDGE": "namespace",
        "PYBLITZ_SHARE_FROM": "1",
        "PYBLITZ_NUM_THREADS": "3",
    },
}


def run(targets: list[str], env: dict[str, str]) -> dict:
    """Verdicts of each test, calls and shared calls."""
    with tempfile.TemporaryDirectory() as place:
        verdicts = Path(place) / "verdicts.json"
        path = os.pathsep.join([str(HERE), str(ROOT), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "pytest", "-q", "-p", "judging", "-p", "no:cacheprovider"]
        command += ["-W", "ignore", "--pyargs", *targets]
        done = subprocess.run(
            command,
            cwd=place,
            env={**os.environ, **env, "PYTHONPATH": path, "PYBLITZ_VERDICTS": str(verdicts)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 1) or not verdicts.exists():  # of pytest: some failed
            raise RuntimeError(f"{' '.join(targets)}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return json.loads(verdicts.read_text())


def judge(targets: list[str], rounds: list[str]) -> tuple[dict, dict[str, list[str]]]:
    """A row of the table, and which tests fail only with pyblitz, in each round."""
    row, only, plain = {}, {}, {}
    with ThreadPoolExecutor(PARALLEL) as executor:
        results = list(executor.map(lambda name: run(targets, ROUNDS[name]), rounds))
    for name, result in zip(rounds, results, strict=True):
        verdicts = result["verdicts"]
        row[name] = sum(v == "passed" for v in verdicts.values())
        if name == "plain":
            plain = verdicts
            row["failed without"] = sum(v == "failed" for v in verdicts.values())
        else:
            if name == "namespace":
                row["modules, namespace"] = result["modules"]
            else:
                row[f"calls, {name}"] = [result["calls"], result["shared"]]
            only[name] = [
                test
                for test, v in verdicts.items()
                if v == "failed"
                and plain.get(test) != "failed"
                and not (name == "namespace" and any(known in test for known in EXCUSED))
            ]
            row[f"only {name}"] = only[name]
    return row, only


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], metavar="SUITE")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--rounds", default=",".join(ROUNDS))
    options = parser.parse_args()
    sys.path.append(str(ROOT))
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import machine

    file = machine.RESULTS / "judges.jsonl"
    lines = file.read_text().splitlines()[1:] if file.exists() else []
    rows = {row["what"]: row for row in map(json.loads, lines)}
    wrong = 0
    for name in options.suites or SUITES:
        if importlib.util.find_spec(name) is None:
            print(f"{name}: not here")
            continue
        rounds = [r for r in options.rounds.split(",") if name == "numpy" or r != "namespace"]
        row, only = judge(SUITES[name], rounds)
        version = importlib.metadata.version(DISTRIBUTIONS.get(name, name))
        commit = machine.git_commit()
        rows[name] = {
            **{"what": name, "version": version, "commit": commit, "tests": SUITES[name]},
            **row,
        }
        print({k: v for k, v in rows[name].items() if k != "tests"}, flush=True)
        wrong += sum(map(len, only.values()))
        if options.write:
            kept = [rows[known] for known in SUITES if known in rows]
            machine.write(file, kept, machine.facts())
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
