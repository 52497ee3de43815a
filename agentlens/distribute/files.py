"""Files on any path Spark reaches, through Hadoop's own file systems: the driver reads and writes the small ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentlens.distribute.engine import told
from agentlens.errors import EngineError

_PUT_IN_ONE_STEP = frozenset(
    {"s3a", "s3", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "oss", "cosn", "obs"}
)
"""Object stores: a file appears whole when it is closed, and a rename would be a copy."""


def system_of(jvm: Any, conf: Any, path: str) -> tuple[Any, Any]:
    """Return the file system of a path and the path in it.

    A relative path of this machine begins where this process stands now, not where Java was started.
    """
    place = jvm.org.apache.hadoop.fs.Path(path)
    system = place.getFileSystem(conf)
    if not place.isAbsolute() and system.getUri().getScheme() == "file":
        place = jvm.org.apache.hadoop.fs.Path(Path.cwd().as_posix(), path.removeprefix("file:"))
    return system, place


class Files:
    """One folder and what is below it. Paths are relative to it, with forward slashes."""

    def __init__(self, session: Any, root: str) -> None:
        """Find the file system of the folder.

        Raises
        ------
        EngineError
            No file system is known for the path's scheme, or it does not answer.
        """
        with told(root):
            self._jvm = session._jvm  # noqa: SLF001 - the only way to Hadoop's file systems
            conf = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
            system, top = system_of(self._jvm, conf, root)
            self.root: str = system.makeQualified(top).toString().rstrip("/")
            self.scheme: str = system.getUri().getScheme()
            # Checksums beside local files would no longer fit once another program has written the file.
            self._fs = system.getRawFileSystem() if self.scheme == "file" else system

    def at(self, path: str) -> str:
        """Return the whole path, as Spark takes it."""
        return f"{self.root}/{path}" if path else self.root

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a file, None where there is none."""
        with told(self.at(path)):
            place = self._place(path)
            if not self._fs.exists(place):
                return None
            stream = self._fs.open(place)
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def write(self, path: str, data: bytes) -> None:
        """Put a file in place, whole or not at all, over one that may be there."""
        with told(self.at(path)):
            if self.scheme in _PUT_IN_ONE_STEP:
                self._create(path, data)
                return
            folder, _, name = path.rpartition("/")
            fresh = f"{folder}/.{name}.new" if folder else f".{name}.new"
            self._create(fresh, data)
            if not self._replace(fresh, path):
                raise EngineError(f"{self.at(path)}: the file could not be put in place")

    def sizes(self, folder: str = "") -> dict[str, int]:
        """Return the files below a folder by relative path, with their bytes; empty where there is no folder."""
        with told(self.at(folder)):
            place = self._place(folder)
            if not self._fs.exists(place):
                return {}
            found: dict[str, int] = {}
            listing = self._fs.listFiles(place, True)
            while listing.hasNext():
                status = listing.next()
                if (path := self._inside(status.getPath().toString())) is not None:
                    found[path] = int(status.getLen())
            return dict(sorted(found.items()))

    def delete(self, path: str) -> None:
        """Delete a file or a folder with all below it; nothing happens where there is none."""
        with told(self.at(path)):
            self._fs.delete(self._place(path), True)

    def _create(self, path: str, data: bytes) -> None:
        stream = self._fs.create(self._place(path), True)
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()

    def _replace(self, fresh: str, path: str) -> bool:
        if self.scheme == "file":  # POSIX replaces in one step
            return bool(self._fs.rename(self._place(fresh), self._place(path)))
        hadoop = self._jvm.org.apache.hadoop.fs
        context = hadoop.FileContext.getFileContext(self._fs.getUri(), self._fs.getConf())
        options = getattr(hadoop, "Options$Rename")
        over = self._jvm.java.lang.reflect.Array.newInstance(options.OVERWRITE.getClass(), 1)
        over[0] = options.OVERWRITE
        context.rename(self._place(fresh), self._place(path), over)
        return True

    def _place(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.at(path))

    def _inside(self, whole: str) -> str | None:
        """Path relative to the root: file systems write ``file:/a`` and ``file:///a`` for the same place."""
        root, found = (text.replace(":///", ":/", 1) for text in (self.root, whole))
        return found[len(root) + 1 :] if found.startswith(root + "/") else None
