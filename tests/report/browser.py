"""A headless Chromium that tests drive: DevTools messages over two pipes, no port, no library, no network."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAIT_S = 60
_LAUNCH = (  # Chromium reads file 3 and writes file 4
    "import os, sys; r, w = os.dup(int(sys.argv[1])), os.dup(int(sys.argv[2]));"
    " os.dup2(r, 3); os.dup2(w, 4); os.set_inheritable(3, True); os.set_inheritable(4, True);"
    " os.execv(sys.argv[3], sys.argv[3:])"
)
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
KEYS = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, "Space": 32}


class Browser:
    """One tab. ``said``: console messages and uncaught errors; ``asked``: addresses it wanted, its own file apart."""

    def __init__(self, out: int, back: int) -> None:
        self.out, self.back, self.rest = out, back, b""
        self.number, self.session = 0, None
        self.said: list[str] = []
        self.asked: list[str] = []
        self.saved: list[str] = []

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and return its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == self.number:
                if "error" in told:
                    raise AssertionError(f"{method}: {told['error']}")
                return told["result"]
            self._note(told)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            got = os.read(self.back, 1 << 20)
            if not got:
                raise AssertionError("the browser ended")
            self.rest += got
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def _note(self, told: dict[str, Any]) -> None:
        method, params = told.get("method"), told.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.said.append(str([one.get("value", one.get("description")) for one in params["args"]]))
        elif method == "Runtime.exceptionThrown":
            self.said.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.said.append(str(params["entry"]["text"]))
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        elif method == "Browser.downloadProgress" and params["state"] == "completed":
            self.saved.append(params["guid"])

    def start(self, folder: Path) -> None:
        """Take the first tab and listen to what it says and asks for."""
        self.send(
            "Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder), eventsEnabled=True
        )
        made = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=made, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def open(self, page: Path, anchor: str = "") -> None:
        """Go to a page and wait until every chart of it is drawn."""
        self.send("Page.navigate", url=page.as_uri() + anchor)
        self.until("document.readyState === 'complete'")
        self.until(
            "document.querySelectorAll('[data-spec]').length === document.querySelectorAll('[data-spec] svg').length"
        )

    def run(self, script: str) -> Any:
        """Return what a script of the test gives in the page."""
        told = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise AssertionError(f"{script}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until a script gives something true."""
        end = time.monotonic() + WAIT_S
        while not self.run(script):
            if time.monotonic() > end:
                raise AssertionError(f"never true: {script}; said: {self.said}")
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        """Press the mouse in the middle of the first element of a selector."""
        place = self.run(
            f"(() => {{ const it = document.querySelector({json.dumps(selector)});"
            " it.scrollIntoView({ block: 'center', behavior: 'instant' }); const box = it.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send(
                "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1
            )

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.send("Input.insertText", text=text)

    def key(self, name: str) -> None:
        """Press one key."""
        more = {"text": {"Enter": "\r", "Space": " "}[name]} if name in {"Enter", "Space"} else {}
        named = " " if name == "Space" else name
        facts = {"key": named, "code": name, "windowsVirtualKeyCode": KEYS[name]}
        self.send("Input.dispatchKeyEvent", type="keyDown" if more else "rawKeyDown", **facts, **more)
        self.send("Input.dispatchKeyEvent", type="keyUp", **facts)

    def dark(self) -> None:
        """Prefer dark colours from here on."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])

    def wide(self, width: int, height: int = 900) -> None:
        """Set the size of the window in pixels."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def paper(self) -> bytes:
        """Print to PDF."""
        return base64.b64decode(self.send("Page.printToPDF", printBackground=True)["data"])

    def picture(self, *, whole: bool = True) -> bytes:
        """Take a picture, PNG."""
        return base64.b64decode(
            self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        )

    def strangers(self) -> list[str]:
        """Return the addresses asked for that are not files, data or blobs."""
        return [url for url in self.asked if not url.startswith(("file:", "data:", "blob:", "about:"))]


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """Start Debian's Chromium with a profile and downloads below ``folder``; skip where there is none."""
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("needs Debian's chromium, which is not here")
    (read, out), (back, write) = os.pipe(), os.pipe()
    profile, downloads = folder / "profile", folder / "downloads"
    downloads.mkdir(parents=True)
    command = [sys.executable, "-S", "-c", _LAUNCH, str(read), str(write), found, *_FLAGS]
    process = subprocess.Popen(
        [*command, f"--user-data-dir={profile}"],
        pass_fds=(read, write),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(read)
    os.close(write)
    one = Browser(out, back)
    try:
        one.start(downloads)
        yield one
    finally:
        process.terminate()
        process.wait(30)
        os.close(out)
        os.close(back)
