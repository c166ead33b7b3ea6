"""A pytest plugin for others' tests: ``-p judging``.  If PYBLITZ_JUDGE is "enable" it enables
pyblitz first; if it is "namespace", test modules that ask for NumPy get `pyblitz.numpy`.  What
became of each test is written to the file PYBLITZ_VERDICTS."""

import builtins
import json
import os

import pyblitz as pb

verdicts = {}
modules = set()
asked = os.environ.get("PYBLITZ_JUDGE")
if asked == "enable":
    pb.enable()
elif asked == "namespace":
    import pyblitz.numpy

    really = builtins.__import__

    def instead(name, globals=None, locals=None, fromlist=(), level=0):
        module = really(name, globals, locals, fromlist, level)
        importer = (globals or {}).get("__file__") or ""
        if name == "numpy" and "/tests/test_" in importer:
            modules.add(importer)
            return pyblitz.numpy
        return module

    builtins.__import__ = instead
stats = pb.stats()


def pytest_runtest_logreport(report):
    # A test that failed in its setup or teardown has failed.
    if report.when == "call" or report.failed or (report.when == "setup" and report.skipped):
        known = verdicts.get(report.nodeid)
        if known not in ("failed", "skipped"):
            verdicts[report.nodeid] = "xfailed" if hasattr(report, "wasxfail") else report.outcome


def pytest_sessionfinish(session):
    taken = stats.taken.values()
    counts = [sum(calls) for calls in zip(*taken, strict=True)] or [0, 0]
    with open(os.environ["PYBLITZ_VERDICTS"], "w") as f:
        found = {"verdicts": verdicts, "calls": counts[0], "shared": counts[1]}
        json.dump(found | {"modules": len(modules)}, f)
