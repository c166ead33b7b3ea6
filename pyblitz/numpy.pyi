# As NumPy's own, with its types.
from numpy import *  # noqa: F403
from numpy import __all__ as __all__
from numpy import __array_api_version__ as __array_api_version__
from numpy import __version__ as __version__
