"""The digest key on the workers: never sent with a task, always the driver's own.

Two keys give digests that can not be compared, so a worker says which key it needs by its id and refuses any other.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentlens.errors import AgentlensError, EngineError
from agentlens.normalise.digest import Key, default_config_dir
from agentlens.normalise.rows import Normaliser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.normalise.tables import Tables


@dataclass(frozen=True, kw_only=True)
class WorkerNormaliser:
    """A normaliser without its key. ``key_file``: where workers find it, beside the places of `Key.load`."""

    key_id: str
    tables: Tables
    keep_content: bool
    fingerprint: str
    key_file: str | None = None

    @classmethod
    def of(cls, normaliser: Normaliser, key_file: str | Path | None = None) -> WorkerNormaliser:
        """Take the secret out."""
        return cls(
            key_id=normaliser.key.key_id,
            tables=normaliser.tables,
            keep_content=normaliser.keep_content,
            fingerprint=normaliser.fingerprint,
            key_file=None if key_file is None else str(Path(key_file).absolute()),
        )

    def made(self) -> Normaliser:
        """Put it together again on a worker.

        Raises
        ------
        EngineError
            The worker has no key of this id.
        """
        for key in _keys(self.key_file):
            if key.key_id == self.key_id:
                return Normaliser(
                    key=key, tables=self.tables, keep_content=self.keep_content, fingerprint=self.fingerprint
                )
        raise EngineError(
            f"a worker has no digest key {self.key_id}; accepted: AGENTLENS_KEY in its environment, the file of "
            "--key-file at the same path on every worker, or sent there with spark-submit --files"
        )


def _keys(key_file: str | None) -> Iterator[Key]:
    """Every key this worker can see."""
    files = [default_config_dir() / "key"]
    if key_file is not None:
        files = [Path(key_file), Path(Path(key_file).name), *_sent(key_file), *files]
    for path in files:
        if path.is_file():
            try:
                yield Key.load(file=path)
            except AgentlensError:
                continue
    if os.environ.get("AGENTLENS_KEY", "").strip():
        yield Key.load()
    yield Key.public_demo()


def _sent(key_file: str) -> list[Path]:
    """Where Spark puts files that were sent to the workers."""
    from pyspark import SparkFiles

    try:
        return [Path(SparkFiles.get(Path(key_file).name))]
    except (AssertionError, OSError):  # none were sent
        return []
