"""Chromium without a window, driven over its DevTools protocol through two pipes: no driver, no other library."""

import base64
import contextlib
import io
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 20.0


class NoBrowser(Exception):
    """There is no Chromium, and none can be installed: the text says in one sentence why."""


def find_chromium() -> str:
    """Return the path of a Chromium, which root has installed where there is none; NoBrowser."""
    for installs in (True, False):
        for name in NAMES:
            path = shutil.which(name)
            if path is not None:
                return path
        if not installs:
            break
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise NoBrowser("there is no Chromium: install the package chromium, and run it again")
        for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
            done = subprocess.run(["apt-get", *command], capture_output=True, text=True, check=False)
            if done.returncode:
                raise NoBrowser(f"apt-get {command[0]} failed: {done.stderr.strip()[-200:]}")
    raise NoBrowser("Debian's package chromium has no program of a name that is known here")


class Browser:
    """A running Chromium."""

    def __init__(self, program: str) -> None:
        self._home = tempfile.mkdtemp(prefix="assay-browser-")
        read_there, self._write = os.pipe()
        self._read, write_there = os.pipe()
        options = (
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox" if os.geteuid() == 0 else "--no-first-run",
            "--disable-gpu",
            "--disable-extensions",
            "--disable-background-networking",
            "--hide-scrollbars",
            f"--user-data-dir={self._home}",
            "about:blank",
        )
        # It reads from descriptor 3, and writes to 4; other shells than bash have descriptors of one digit only.
        script = f'exec "$0" "$@" 3<&{read_there} 4>&{write_there}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", script, program, *options],
            pass_fds=(read_there, write_there),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_there)
        os.close(write_there)
        self._last = 0
        self._rest = b""
        self.events: list[dict[str, Any]] = []

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            self._send("Browser.close", {}, "")
        for descriptor in (self._write, self._read):
            os.close(descriptor)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    def call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol, and return its result; events on the way are kept."""
        number = self._send(method, parameters, session)
        while True:
            message = self._receive()
            if message.get("id") == number:
                assert "error" not in message, (method, message)
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)

    def page(self) -> "Page":
        """Open an empty page."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session, target)

    def _send(self, method: str, parameters: dict[str, Any], session: str) -> int:
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        return self._last

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._read, 2**20)
            assert data, "the browser has ended"
            self._rest += data
        first, self._rest = self._rest.split(b"\0", 1)
        found: dict[str, Any] = json.loads(first)
        return found


class Page:
    """A page of the browser."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target
        # Parts of complaints that a test expects.
        self.expected: tuple[str, ...] = ()
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self.size(1400, 1000)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def size(self, width: int, height: int) -> None:
        """Give the page a size in pixels."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def dark(self, dark: bool) -> None:
        """Prefer dark or light colours."""
        value = "dark" if dark else "light"
        features = [{"name": "prefers-color-scheme", "value": value}]
        self._call("Emulation.setEmulatedMedia", features=features)

    def open(self, url: str) -> None:
        """Open an address, and wait until its scripts have run."""
        self._call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")
        self.wait("document.querySelector('main') !== null")

    def ask(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        result = self._call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, (expression, result)
        return result["result"].get("value")

    def wait(self, expression: str, seconds: float = SECONDS) -> None:
        """Wait until an expression is true."""
        ends = time.monotonic() + seconds
        while not self.ask(f"Boolean({expression})"):
            assert time.monotonic() < ends, f"waited for {expression}: {self.text()[:2000]}"
            # The page's own next moment, so that nobody waits longer than it needs.
            self.ask("new Promise((done) => setTimeout(done, 50))")

    def text(self) -> str:
        """Return what a person reads."""
        found: str = self.ask("document.body.innerText")
        return found

    def key(self, key: str, code: int) -> None:
        """Press a key."""
        text = "\r" if key == "Enter" else key if len(key) == 1 else ""
        for kind in ("keyDown", "keyUp"):
            self._call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                text=text if kind == "keyDown" else "",
            )

    def click(self, selector: str) -> None:
        """Click an element with the mouse."""
        x, y = self.ask(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])"
            f"(document.querySelector('{selector}').getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def choose(self, selector: str, path: Path) -> None:
        """Choose a file for an input, as a person does."""
        found = self._call("Runtime.evaluate", expression=f"document.querySelector('{selector}')")
        handle = found["result"]["objectId"]
        self._call("DOM.setFileInputFiles", files=[str(path)], objectId=handle)

    def shot(self, path: Path, most: int = 100_000) -> None:
        """Write what is seen, down to the foot of the page or to ``most`` pixels, as PNG, once all is drawn."""
        self.wait("document.readyState === 'complete'")
        charts = "[...document.querySelectorAll('[data-chart]')]"
        self.wait(f"{charts}.every((chart) => chart.querySelector('canvas'))")
        self.ask("scrollTo(0, 0)")
        height = int(self.ask("Math.ceil(document.documentElement.getBoundingClientRect().height)"))
        height = min(height, most)
        clip = {"x": 0, "y": 0, "width": self.ask("innerWidth"), "height": height, "scale": 1}
        made = self._call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        with Image.open(io.BytesIO(base64.b64decode(made["data"]))) as image:
            _with_few_colours(image.convert("RGB")).save(path, optimize=True)

    def complaints(self) -> list[str]:
        """Return what went wrong in the page so far: exceptions, refused loads, dialogs."""
        self.ask("1")
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            match event["method"]:
                case "Runtime.exceptionThrown" | "Page.javascriptDialogOpening":
                    found.append(json.dumps(event["params"]))
                case "Log.entryAdded" if event["params"]["entry"]["level"] == "error":
                    found.append(json.dumps(event["params"]["entry"]))
                case _:
                    continue
        return [text for text in found if not any(part in text for part in self.expected)]

    def requests(self) -> list[str]:
        """Return the addresses that the page has asked so far."""
        return [
            event["params"]["request"]["url"]
            for event in self._browser.events
            if event.get("sessionId") == self._session and event["method"] == "Network.requestWillBeSent"
        ]

    def close(self) -> None:
        """Close the page."""
        self._browser.call("Target.closeTarget", targetId=self._target)


def _with_few_colours(image: Image.Image) -> Image.Image:
    """Return a picture in the colours that matter on it, a third of the bytes: large areas, and what is not grey."""

    def weight(found: tuple[int, tuple[int, ...]]) -> int:
        count, colour = found
        return count * (1 + max(colour) - min(colour))

    counts: Any = image.getcolors(image.width * image.height)
    chosen = sorted(counts, key=weight, reverse=True)[:256]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in chosen for part in colour])
    return image.quantize(palette=palette, dither=Image.Dither.NONE)


@contextlib.contextmanager
def running(program: str) -> Iterator[Browser]:
    """Run a Chromium."""
    browser = Browser(program)
    try:
        yield browser
    finally:
        browser.close()
