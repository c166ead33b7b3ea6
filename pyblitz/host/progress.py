"""How far an operation is: for its ``progress`` parameter."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pyblitz.host.cancel import ProgressScope

_T = TypeVar("_T")
Progress = bool | None | Callable[[int, int], object]


def with_progress(
    progress: Progress, fn: Callable[..., _T], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> _T:
    """``fn(*args, **kwargs)``, whose operations count the items that they have done.

    ``progress``: None or False, nobody looks; True, a bar of tqdm; or a callable that
    gets ``(done, total)``, in a copy of this context, from whatever thread has ended a
    leaf: one at a time, every 50 ms at most, and at the end, if there was no failure,
    with ``done == total``.  Neither ever decreases.  ``total`` grows when the operation
    has several loops.  What the callable raises ends the operation.
    """
    if progress is None or progress is False:
        return fn(*args, **kwargs)
    if progress is True:
        with _Bar() as bar:
            return _told(bar.show, fn, args, kwargs)
    if not callable(progress):
        raise TypeError(f"progress must be a bool, a callable or None, not {progress!r}")
    return _told(progress, fn, args, kwargs)


def _told(
    callback: Callable[[int, int], object],
    fn: Callable[..., _T],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> _T:
    scope = ProgressScope(callback, contextvars.copy_context())
    with scope:
        result = fn(*args, **kwargs)
    scope.tell(True)
    return result


class _Bar:
    def __init__(self) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError as e:
            raise ImportError(
                "progress=True needs tqdm: pip install 'pyblitz[progress]', or give a callable"
            ) from e
        self._bar = tqdm(total=0, unit="items", unit_scale=True)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.close()

    def show(self, done: int, total: int) -> None:
        self._bar.total = total
        self._bar.update(done - self._bar.n)
