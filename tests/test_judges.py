"""Others' own tests under `pyblitz.enable`, and with `pyblitz.numpy`: a part of what
tests/judges.py runs."""

import importlib.util

import pytest
from judges import judge

if importlib.util.find_spec("numpy._core.tests") is None:
    pytest.skip("NumPy was installed without its tests", allow_module_level=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "modules",
    [
        ["numpy.lib.tests.test_arraysetops"],
        pytest.param(["numpy.lib.tests.test_nanfunctions"], marks=pytest.mark.full),
        pytest.param(["numpy._core.tests.test_ufunc"], marks=pytest.mark.full),
        pytest.param(["numpy._core.tests.test_umath"], marks=pytest.mark.full),
    ],
    ids=["sets", "nans", "ufunc", "umath"],
)
def test_numpy(modules):
    row, only = judge(modules, ["plain", "forced", "namespace"])
    assert not only["forced"]
    assert row["forced"] == row["plain"]
    assert row["calls, forced"][0] > 100
    assert not only["namespace"]
    assert row["modules, namespace"] == len(modules)
