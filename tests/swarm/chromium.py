"""Debian's Chromium without a screen, for tests of pages: `browser` gives one, fresh; without it they are skipped, and say so."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait
from services import missing

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
).split()


class Browser:
    """One window."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str, width: int = 1280, height: int = 900, *, dark: bool = False) -> None:
        """Go to a page, in a window of this size; what was complained of before is forgotten."""
        self.driver.get("about:blank")
        self.complaints()
        self.look(width, height, dark=dark)
        self.driver.get(url)

    def look(self, width: int, height: int, *, dark: bool = False) -> None:
        """Give the window a size and its user a taste."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        taste = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": taste})

    def all(self, selector: str) -> list[WebElement]:
        """Return the elements that a CSS selector finds."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        """Return the one element that it finds."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """Return the text of that element as it is seen."""
        return self.one(selector).text

    def run(self, script: str, *arguments: object) -> Any:
        """Run a script in the page and return what it returns."""
        return self.driver.execute_script(script, *arguments)

    def until(self, holds: Callable[[], Any], what: str, seconds: float = 15) -> Any:
        """Wait until something holds, and return it; an element that was replaced meanwhile is looked for again."""
        waiting = WebDriverWait(self.driver, seconds, 0.1, ignored_exceptions=[StaleElementReferenceException])
        return waiting.until(lambda _: holds(), f"{what}: not in {seconds} s")

    def complaints(self) -> list[str]:
        """Return what the console was told since the last time: errors, and what the page's policy forbade."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """Start Chromium with its profile in this folder."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        missing("chromium")
    options = Options()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    window = webdriver.Chrome(options=options, service=Service(driver, log_output=str(folder / "chromedriver.log")))
    try:
        yield Browser(window)
    finally:
        window.quit()
