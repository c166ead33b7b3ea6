"""NumPy's namespace with pyblitz's functions: ``import pyblitz.numpy as np``.

Every public name of NumPy's is here.  Ufuncs, and functions of which there is a ``par_`` one, are
objects that are equal to NumPy's, look like them and run on all cores; all else (``random``,
``linalg``, ``fft``, dtypes, constants) is NumPy's own.
Operators of plain arrays stay NumPy's: ``pyblitz.enable`` and ``par_iter`` share those.
"""

from __future__ import annotations

from typing import Any

import numpy as _numpy

from pyblitz.arrays.front import shared as _shared

__all__ = list(_numpy.__all__)

# Submodules that nobody has asked for are not imported for this.
for _name in __all__:
    if _name in vars(_numpy):
        _given = vars(_numpy)[_name]
        _ours = _shared(_given)
        globals()[_name] = _given if _ours is None else _ours
del _name, _given, _ours
__version__ = _numpy.__version__
__array_api_version__ = _numpy.__array_api_version__


def __getattr__(name: str) -> Any:
    """A submodule that NumPy imports when it is asked for, or NumPy's error."""
    if name == "__path__":
        # This is no package, of which Python would load other copies.
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_numpy, name)


def __dir__() -> list[str]:
    return [name for name in dir(_numpy) if name != "__path__"]
