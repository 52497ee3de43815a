"""The key that turns content into digests, and where it comes from.

Digests are keyed so that a lake can be shared without letting anyone test guesses ("was the argument
``rm -rf /``?") against it. The key is never written into a lake, a log or a message; its id is.
"""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

from agentlens.errors import InputError, SettingsError

MIN_BYTES: Final = 16
_BLAKE_KEY_MAX: Final = 64
_DEMO: Final = b"agentlens public demonstration key: protects nothing"

ACTION: Final = b"action"
EVIDENCE: Final = b"evidence"
DURABLE: Final = b"durable"
_KEY_ID: Final = b"key_id"


@dataclass(frozen=True, slots=True)
class Key:
    """A digest key.

    ``origin`` says where it came from, in words for the user; ``made`` is true when this call created the
    key file. The secret is in no ``repr``.
    """

    secret: bytes = field(repr=False)
    origin: str = "given"
    made: bool = False

    def __post_init__(self) -> None:
        """Refuse a key that could be guessed; fold a long one to what blake2b takes."""
        if len(self.secret) < MIN_BYTES:
            raise SettingsError(
                f"the digest key from {self.origin} has {len(self.secret)} bytes; accepted: at least {MIN_BYTES}"
            )
        if len(self.secret) > _BLAKE_KEY_MAX:
            object.__setattr__(self, "secret", blake2b(self.secret, digest_size=_BLAKE_KEY_MAX).digest())

    @classmethod
    def public_demo(cls) -> Key:
        """Return the fixed, public key of ``agentlens demo``: the same bytes on every machine, no secrecy."""
        return cls(_DEMO, origin="the public demonstration key")

    @classmethod
    def load(
        cls, file: str | Path | None = None, env: str = "AGENTLENS_KEY", config_dir: str | Path | None = None
    ) -> Key:
        """Find the key: a file, else an environment variable, else the user's own, made on first use.

        Parameters
        ----------
        file : path, optional
            Key file; its bytes without outer white space are the key.
        env : str
            Name of the environment variable.
        config_dir : path, optional
            Configuration folder; the platform's own by default.

        Raises
        ------
        SettingsError
            The key is shorter than 16 bytes.
        InputError
            The key file cannot be read or made.

        """
        if file is not None:
            return cls(_read(Path(file)), origin=f"the file {file}")
        text = os.environ.get(env, "").strip()
        if text:
            return cls(text.encode("utf-8", "surrogateescape"), origin=f"the environment variable {env}")
        return cls._own(Path(config_dir) if config_dir is not None else default_config_dir())

    @classmethod
    def _own(cls, folder: Path) -> Key:
        path = folder / "key"
        if path.exists():
            return cls(_read(path), origin=f"the file {path}")
        made = _make(path)
        return cls(_read(path), origin=f"the file {path}", made=made)

    @property
    def key_id(self) -> str:
        """16 hex characters that name the key and reveal nothing of it."""
        return blake2b(b"", key=self.secret, digest_size=8, person=_KEY_ID).hexdigest()

    def digest(self, data: bytes, person: bytes = ACTION) -> str:
        """Digest bytes: 32 hex characters. Different ``person`` values never collide by construction.

        >>> Key.public_demo().digest(b"x") == Key.public_demo().digest(b"x", person=b"evidence")
        False
        """
        return blake2b(data, key=self.secret, digest_size=16, person=person).hexdigest()


def default_config_dir() -> Path:
    """Return the user's configuration folder for this package (it may not exist)."""
    if sys.platform == "win32":
        base = os.environ.get("APPDATA")
        return Path(base) / "agentlens" if base else Path.home() / "AppData" / "Roaming" / "agentlens"
    base = os.environ.get("XDG_CONFIG_HOME")
    return Path(base) / "agentlens" if base else Path.home() / ".config" / "agentlens"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes().strip()
    except OSError as error:
        raise InputError.at(
            str(path),
            f"the key file cannot be read ({error.strerror})",
            accepted="a readable file of 16 bytes or more",
        ) from error


def _make(path: Path) -> bool:
    """Write a new key, readable by its owner only; false when another process was first.

    The file appears under its name only when it is complete, so nobody ever reads half a key.
    """
    aside = path.with_name(f".key.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as out:
            out.write(secrets.token_hex(32) + "\n")
        try:
            os.link(aside, path)
        except FileExistsError:
            return False
        finally:
            aside.unlink()
    except OSError as error:
        raise InputError.at(
            str(path),
            f"no digest key was given and none can be made here ({error.strerror})",
            accepted="--key-file FILE or AGENTLENS_KEY",
        ) from error
    return True
