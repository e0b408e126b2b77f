"""How long the explorer takes to answer, in headless Chromium: cached plans, and while one runs.

Milliseconds from a key on the slider to the new error bars, measured inside the page.
"""

import statistics
import tempfile
import time
from pathlib import Path

from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.explore import browser

WATCH = """
const told = () => (document.body.innerText.match(/Epsilon [0-9.]+, noise scale/) || [''])[0];
window.times = [];
let began = 0, last = told();
document.addEventListener('keydown', () => { began = performance.now(); }, true);
new MutationObserver(() => {
  const now = told();
  if (now && now !== last) { last = now; window.times.push(performance.now() - began); }
}).observe(document.body, {subtree: true, childList: true, characterData: true});
"""


def answer(page: browser.Page, key: str) -> float:
    """Milliseconds from a key on the slider to the answer for the new epsilon."""
    before = page.driver.execute_script("return window.times.length")
    page.driver.execute_script("document.querySelector('.q-slider [tabindex]').focus()")
    ActionChains(page.driver).send_keys(key).perform()
    while page.driver.execute_script("return window.times.length") == before:
        time.sleep(0.01)
    return float(page.driver.execute_script("return window.times.at(-1)"))


def main() -> None:
    home = Path(tempfile.mkdtemp())
    with (
        browser.served(home / "folder") as (address, _),
        browser.browser(home / "profile") as page,
    ):
        page.open(address)
        page.press("Use the demo data")
        page.sees("Read: 2,016 entries")
        page.press("Next: beliefs")
        page.press("Take this")
        page.sees("What “Like these people” means")
        page.press("Next: question")
        page.sees("noise scale")
        page.driver.execute_script(WATCH)
        first = [answer(page, Keys.ARROW_RIGHT) for _ in range(3)]
        for _ in range(3):
            answer(page, Keys.ARROW_LEFT)
        keys = [Keys.ARROW_RIGHT] * 2 + [Keys.ARROW_LEFT] * 2
        again = [answer(page, key) for key in keys * 5]
        print(f"first time:     {statistics.median(first):6.0f} ms (median of {len(first)})")
        print(f"cached epsilon: {statistics.median(again):6.0f} ms (median of {len(again)})")
        print(f"                {max(again):6.0f} ms (largest)")
        page.press("2 Beliefs")
        page.unfold("Other ways")
        page.press("Test all on people held out")
        page.sees("Testing beliefs on people held out …")
        page.press("3 Question")
        page.sees("noise scale")
        busy = [answer(page, key) for key in (Keys.ARROW_RIGHT, Keys.ARROW_LEFT) * 5]
        print(f"while a plan runs: {statistics.median(busy):3.0f} ms (median of {len(busy)})")


if __name__ == "__main__":
    main()
