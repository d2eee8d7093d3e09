"""Chromium without a window, driven through a pipe by the debugging protocol."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def chromium() -> str | None:
    """Return the path of a Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """A page in a browser. Leaving the block ends the process."""

    def __init__(self, folder: Path, width: int = 1600, height: int = 1000, scheme: str = "light") -> None:
        self._to_read, to_write = os.pipe()
        from_read, self._from_write = os.pipe()
        program = chromium()
        assert program is not None
        flags = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--remote-debugging-pipe", f"--window-size={width},{height}",
            f"--user-data-dir={folder}", "--hide-scrollbars",
        ]  # fmt: skip

        def lay_pipes() -> None:  # the protocol uses descriptors 3 and 4
            # Copy both ends to high numbers first: either end may be 3 or 4.
            read, write = (fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (from_read, to_write))
            os.dup2(read, 3)
            os.dup2(write, 4)

        self._process = subprocess.Popen(
            [program, *flags],
            preexec_fn=lay_pipes,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(from_read)
        os.close(to_write)
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.prefer(scheme)

    def prefer(self, scheme: str) -> None:
        """Set the colour scheme. Nothing moves smoothly: a test would look while it moves."""
        wanted = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in wanted.items()]
        self.call("Emulation.setEmulatedMedia", features=features)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; return the result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._from_write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self.events.append(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._to_read, 1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(text))

    def open(self, path: Path, fragment: str = "") -> float:
        """Open a page; return the milliseconds until the page was ready."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=path.as_uri() + fragment)
        ready = """new Promise(done => { const look = () => document.documentElement?.dataset.ready
            ? requestAnimationFrame(() => done(performance.now())) : setTimeout(look, 5); look(); })"""
        return float(self.run(ready))

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page; wait for a promise."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def run_until(self, script: str, wanted: Any, seconds: float = 30) -> Any:
        """Run an expression until it gives the wanted value or the time is over; return the last value."""
        end = time.monotonic() + seconds
        while (value := self.run(script)) != wanted and time.monotonic() < end:
            self.run("new Promise(done => setTimeout(done, 20))")
        return value

    def click(self, x: float, y: float) -> None:
        """Click with the mouse."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=x,
                y=y,
                button="left" if kind != "mouseMoved" else "none",
                clickCount=1,
            )

    def press(self, key: str) -> None:
        """Press a key."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, path: Path) -> None:
        """Write a screenshot into a PNG file."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session = None
        self.call("Browser.close")
        self._process.wait(30)
        os.close(self._to_read)
        os.close(self._from_write)
