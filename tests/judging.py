"""A pytest plugin for others' tests: ``-p judging``.  Enables pyblitz first if PYBLITZ_JUDGE says
so, and writes what became of each test to the file PYBLITZ_VERDICTS."""

import json
import os

import pyblitz as pb

verdicts = {}
if os.environ.get("PYBLITZ_JUDGE"):
    pb.enable()
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
        json.dump({"verdicts": verdicts, "calls": counts[0], "shared": counts[1]}, f)
