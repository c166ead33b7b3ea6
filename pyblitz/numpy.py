"""NumPy's namespace with pyblitz's functions: ``import pyblitz.numpy as np``.

Every public name of NumPy's is here.  Ufuncs, and the functions that pyblitz has, run on all
cores; all else (``random``, ``linalg``, ``fft``, dtypes, constants) is NumPy's own object.
Operators of plain arrays stay NumPy's: ``pyblitz.enable`` and ``par_iter`` share those.
"""

from __future__ import annotations

from typing import Any

import numpy as _numpy

from pyblitz.arrays.front import functions as _functions
from pyblitz.arrays.front import shared_ufunc as _shared_ufunc

__all__ = list(_numpy.__all__)

# Two objects of NumPy's that do the same.
_SAME = {"amax": "max", "amin": "min"}


def _shared() -> dict[str, Any]:
    """What stands here in the place of NumPy's."""
    ours = _functions()
    found = {}
    for name in __all__:
        # Submodules that nobody has asked for are not imported for this.
        given = vars(_numpy).get(name)
        if isinstance(given, _numpy.ufunc):
            found[name] = _shared_ufunc(given)
        elif callable(given):
            own = ours.get(f"par_{_SAME.get(name, getattr(given, '__name__', name))}")
            if own is not None:
                found[name] = own
    return found


globals().update(
    {name: vars(_numpy)[name] for name in __all__ if name in vars(_numpy)},
    __version__=_numpy.__version__,
    __array_api_version__=_numpy.__array_api_version__,
    **_shared(),
)


def __getattr__(name: str) -> Any:
    """A submodule that NumPy imports when it is asked for, or NumPy's error."""
    return getattr(_numpy, name)


def __dir__() -> list[str]:
    return dir(_numpy)
