"""The Vega libraries as one script, out of the installed package: nothing is fetched."""

from __future__ import annotations

from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import lru_cache
from multiprocessing import get_context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_AHEAD: list[Future[str]] = []


@lru_cache(maxsize=1)
def vega_library() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script; it takes seconds once, then nothing.

    Under `bundled_ahead` it is waited for rather than made here.
    """
    if _AHEAD:
        try:
            return _AHEAD[0].result()
        except BrokenProcessPool:  # it was ended from outside: made here, then
            pass
    return bundle()


def bundle() -> str:
    """Bundle the libraries that come with vl-convert."""
    import vl_convert

    script = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    return str(script)


@contextmanager
def bundled_ahead() -> Iterator[None]:
    """Have the script made in a second process while the body does something else.

    Bundling keeps the interpreter to itself, so a thread would not do.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with suppress(OSError):  # no second process to be had
            _AHEAD.append(pool.submit(bundle))
        try:
            yield
        finally:
            _AHEAD.clear()
