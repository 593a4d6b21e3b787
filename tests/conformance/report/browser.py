"""A headless Chromium: Debian's, with its driver. A test that it can't run here is skipped, with the reason."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")


@contextmanager
def chromium() -> Iterator[Any]:
    """Give a driver of a fresh browser; every message of its console and network is recorded."""
    webdriver = pytest.importorskip("selenium.webdriver")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no chromium and chromedriver on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    # A container gives root no sandbox, and little shared memory; no name is ever resolved.
    for argument in (
        *("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", "no-first-run"),
        *("host-resolver-rules=MAP * ~NOTFOUND", "force-color-profile=srgb"),
    ):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_script_timeout(600)  # a busy machine is no fault
    try:
        yield driver
    finally:
        driver.quit()


def show(driver: Any, page: Path, *, width: int = 1280, dark: bool = False) -> None:
    """Open a page in a window of a width, with light or dark colours preferred."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    emulate(driver, "Emulation.setDeviceMetricsOverride", **size)
    # Without motion, so that what a test clicks stays where it is.
    preferred = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
    features = [{"name": name, "value": value} for name, value in preferred.items()]
    emulate(driver, "Emulation.setEmulatedMedia", features=features)
    driver.get(page.as_uri())


def emulate(driver: Any, command: str, **parameters: Any) -> None:
    """Give a command of the browser's own protocol."""
    driver.execute_cdp_cmd(command, parameters)


def requests(driver: Any) -> list[str]:
    """Return the address of everything that was asked for since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [each["params"] for each in messages if each["method"] == "Network.requestWillBeSent"]
    return [each["request"]["url"] for each in sent]
