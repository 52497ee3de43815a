"""Settings files: TOML, read in one way, refused with one line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from agentlens.errors import SettingsError


def read_toml(path: str | Path, what: str) -> dict[str, Any]:
    """Read a settings file.

    Parameters
    ----------
    path, what
        The file, and what it is called in an error ("rule file").

    Raises
    ------
    SettingsError
        When the file can not be read or is no TOML in UTF-8.
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError.value(what, str(path), f"a readable file ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError.value(what, str(path), f"TOML ({error})") from error
