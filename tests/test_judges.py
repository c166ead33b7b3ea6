"""Others' own tests under `pyblitz.enable`, and with `pyblitz.numpy`: a part of what
tests/judges.py runs."""

import importlib.util

import pytest
from judges import judge

if importlib.util.find_spec("numpy._core.tests") is None:
    pytest.skip("NumPy was installed without its tests", allow_module_level=True)


@pytest.mark.parametrize(
    ("module", "rounds"),
    [
        ("numpy._core.tests.test_ufunc", ["forced", "namespace"]),
        ("numpy.lib.tests.test_arraysetops", ["namespace"]),
    ],
    ids=["ufunc", "sets"],
)
def test_numpy(module, rounds):
    row, only = judge([module], ["plain", *rounds])
    for name in rounds:
        assert not only[name]
    assert row["modules, namespace"] == 1
    if "forced" in rounds:
        assert row["forced"] == row["plain"]
        assert row["calls, forced"][0] > 100
