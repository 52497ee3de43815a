"""Calibration: labels, splits, sweep, certificate, limits, profile.

The package has the name of the verb. Once any of it is imported, ``agentlens.calibrate`` is this package, so the
package can be called: it is `agentlens.calibrating.calibrate`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentlens.calibrating import Calibration


class _Verb(ModuleType):
    """A package that is called as the verb it is named after."""

    def __call__(self, *args: Any, **settings: Any) -> Calibration:
        """Return `agentlens.calibrating.calibrate` of the same arguments."""
        from agentlens.calibrating import calibrate

        return calibrate(*args, **settings)


sys.modules[__name__].__class__ = _Verb
