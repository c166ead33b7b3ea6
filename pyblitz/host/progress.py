"""How far an operation or a block of tasks is: for its ``progress`` parameter."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pyblitz.host.cancel import Listener, ProgressScope

_T = TypeVar("_T")
Progress = bool | None | Callable[[int, int], object]


@contextlib.contextmanager
def listening(progress: Progress) -> Iterator[Listener | None]:
    """The listener that ``progress`` asks for, or None; a bar ends with the block.

    ``progress``: None or False, nobody looks; True, a bar of tqdm; or a callable that
    gets ``(done, total)``, in a copy of this context, from whatever thread has ended a
    leaf or task: one at a time, every 50 ms at most, and at the end, if there was no failure,
    with ``done == total``.  Neither ever decreases.  ``total`` grows when the operation
    has several loops, or a task spawns others.  What the callable raises ends the operation.
    """
    if progress is None or progress is False:
        yield None
    elif progress is True:
        with _Bar() as bar:
            yield Listener(bar.show, contextvars.copy_context())
    elif callable(progress):
        yield Listener(progress, contextvars.copy_context())
    else:
        raise TypeError(f"progress must be a bool, a callable or None, not {progress!r}")


def with_progress(
    progress: Progress, fn: Callable[..., _T], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> _T:
    """``fn(*args, **kwargs)``, whose operations count the items that they have done."""
    with listening(progress) as listener:
        if listener is None:
            return fn(*args, **kwargs)
        with ProgressScope(listener):
            result = fn(*args, **kwargs)
        listener.tell(True)
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
