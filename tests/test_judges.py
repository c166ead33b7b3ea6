"""Others' own tests under `pyblitz.enable`, and with `pyblitz.numpy`: a part of what
tests/judges.py runs."""

import importlib.util

import pytest
from judges import judge

if importlib.util.find_spec("numpy._core.tests") is None:
    pytest.skip("NumPy was installed without its tests", allow_module_level=True)


def test_numpy():
    row, only = judge(["numpy._core.tests.test_umath"], ["plain", "forced"])
    assert not only["forced"]
    assert row["forced"] == row["plain"]
    assert row["calls, forced"][0] > 100


@pytest.mark.parametrize(
    "modules",
    [
        ["numpy._core.tests.test_ufunc"],
        [f"numpy.lib.tests.{name}" for name in ("test_arraysetops", "test_nanfunctions")],
    ],
    ids=["ufunc", "lib"],
)
def test_namespace(modules):
    row, only = judge(modules, ["plain", "namespace"])
    assert not only["namespace"]
    assert row["modules, namespace"] == len(modules)
