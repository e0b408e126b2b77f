"""A real browser on a real server, for the tests of the explorer; and its pictures."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
WAIT = 180

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


@contextmanager
def served(folder: Path, log: Path = Path(os.devnull)):
    """The command as a person runs it; gives the address that it prints, and the process."""
    command = [sys.executable, "-m", "pufferkit", "explore", str(folder), "--no-browser"]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


@contextmanager
def browser(profile: Path, width: int = 1200, dark: bool = False):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    shade = ["--force-dark-mode"] if dark else []
    for flag in (*FLAGS, *shade, f"--user-data-dir={profile}", f"--window-size={width},1000"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield Page(driver, width)
    finally:
        driver.quit()


class Page:
    """What a person does, by the words on the page."""

    def __init__(self, driver, width):
        self.driver, self.width = driver, width
        self.origins: set[str] = set()

    def open(self, address: str) -> None:
        self.driver.get(address)
        self.sees("pufferkit explorer")

    def text(self) -> str:
        return self.driver.execute_script("return document.body.innerText")

    def sees(self, words: str, wait: float = WAIT) -> str:
        """Wait for words, as a regular expression; the whole text of the page then."""
        end = time.monotonic() + wait
        while time.monotonic() < end:
            text = self.text()
            if re.search(words, text):
                return text
            time.sleep(0.05)
        raise AssertionError(f"{words!r} did not appear; the page says:\n{self.text()}")

    def element(self, path: str, wait: float = WAIT):
        from selenium.common.exceptions import WebDriverException

        end = time.monotonic() + wait
        while time.monotonic() < end:
            try:
                for found in self.driver.find_elements("xpath", path):
                    if found.is_displayed() and found.is_enabled():
                        return found
            except WebDriverException:
                pass
            time.sleep(0.05)
        raise AssertionError(f"{path} is not there; the page says:\n{self.text()}")

    def press(self, words: str) -> None:
        """Press the first button or tab with these words."""
        from selenium.common.exceptions import WebDriverException

        path = (
            f"//button[not(@disabled)][.//*[text()='{words}'] or .='{words}']"
            f"|//*[@role='tab'][.//*[text()='{words}']]"
        )
        for _ in range(20):
            try:
                button = self.element(path)
                self.driver.execute_script("arguments[0].scrollIntoView({block:'center'})", button)
                button.click()
                return
            except WebDriverException:
                time.sleep(0.2)
        raise AssertionError(f"{words!r} cannot be pressed")

    def unfold(self, words: str) -> None:
        """Open the details whose summary begins with these words."""
        self.element(f"//summary[starts-with(normalize-space(.), '{words}')]").click()

    def write(self, label: str, text: str, number: int = 1) -> None:
        from selenium.webdriver.common.keys import Keys

        field = self.element(
            f"(//label[.//*[text()='{label}']]//input|//input[@aria-label='{label}'])[{number}]"
        )
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text, Keys.TAB)

    def choose(self, label: str, words: str) -> None:
        """One of a list that opens below a field."""
        self.element(f"//label[.//*[text()='{label}']]").click()
        self.element(f"//div[contains(@class, 'q-menu')]//*[contains(text(), '{words}')]").click()

    def focused(self) -> str:
        """What the control that has the keyboard calls itself."""
        return self.driver.execute_script(
            "const e = document.activeElement;"
            "const named = e.closest('[role=slider]') || e;"
            "return (named.getAttribute('aria-label') || e.innerText || '').trim()"
        )

    def at(self, words: str, wait: float = 60) -> None:
        """Wait until the control or heading with these words has the keyboard."""
        end = time.monotonic() + wait
        while self.focused() != words:
            assert time.monotonic() < end, f"at {self.focused()!r}, not at {words!r}"
            time.sleep(0.05)

    def keys(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def tab_to(self, words: str, most: int = 60) -> None:
        """Press Tab until the control with these words has the keyboard."""
        from selenium.webdriver.common.keys import Keys

        passed = []
        for _ in range(most):
            if self.focused() == words:
                return
            self.keys(Keys.TAB)
            passed.append(self.focused())
        raise AssertionError(f"Tab does not come to {words!r}, only to {passed}")

    def picture(self, path: Path) -> None:
        """The whole page as it is."""
        time.sleep(0.4)
        height = self.driver.execute_script("return document.documentElement.scrollHeight")
        self.resize(self.width, height)
        time.sleep(0.4)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(path))
        self.resize(self.width)

    def resize(self, width: int, height: int = 900) -> None:
        self.width = width
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def asked(self) -> set[str]:
        """Schemes and hosts of all requests so far, those of sockets included."""
        for line in self.driver.get_log("performance"):
            message = json.loads(line["message"])["message"]
            url = message.get("params", {}).get("request", {}).get("url") or (
                message.get("params", {}).get("url") if "webSocket" in message["method"] else None
            )
            if url and urlsplit(url).scheme in ("http", "https", "ws", "wss"):
                self.origins.add(urlsplit(url).netloc)
        return self.origins

    def complaints(self) -> list[str]:
        """Errors in the console of the browser."""
        return [
            line["message"] for line in self.driver.get_log("browser") if line["level"] == "SEVERE"
        ]
