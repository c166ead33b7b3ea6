"""What was compiled how, and what of it this machine can run."""
from pyblitz.runtime.atomic cimport CHECKED, DEQUE_CAPACITY
from pyblitz.runtime.os cimport membarrier_register

from pyblitz.host.config import asymmetric_fences, simd_level
from pyblitz.kernels.simd import levels


def choose_simd():
    """Which vector instructions the kernels use: the best of this machine, or PYBLITZ_CPU."""
    levels.choose(simd_level(levels.names()))


cdef extern from *:
    """
    #ifdef __VERSION__
    #define PB_COMPILER __VERSION__
    #else
    #define PB_COMPILER "unknown"
    #endif
    #ifdef FUTEX_WAIT_PRIVATE
    #define PB_HAS_FUTEX 1
    #else
    #define PB_HAS_FUTEX 0
    #endif
    """
    const char* PB_COMPILER
    bint PB_HAS_FUTEX
    int CYTHON_HEX_VERSION


def built():
    """How these modules were compiled."""
    cdef int v = CYTHON_HEX_VERSION
    return {"cython": f"{v >> 24}.{v >> 16 & 255}.{v >> 8 & 255}",
            "compiler": PB_COMPILER.decode(),
            "debug_build": bool(CHECKED),
            "deque_capacity": DEQUE_CAPACITY}


def features():
    """What the system offers, and is used."""
    return {"membarrier": asymmetric_fences() and membarrier_register(),
            "futex": PB_HAS_FUTEX, "simd": levels.chosen()}
