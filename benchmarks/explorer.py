"""How long the explorer takes to answer, in headless Chromium: cached plans, and while one runs.

Milliseconds from a key on the slider to the new error bars, measured inside the page.
"""

import statistics
import tempfile
from pathlib import Path

from tests.explore import browser

ANSWER = """
const [key, done] = arguments;
const slider = document.querySelector('.q-slider[role=slider], .q-slider [role=slider]')
    || document.querySelector('.q-slider');
const words = () => [...document.querySelectorAll('section')].map(s => s.innerText).join();
const before = words();
const began = performance.now();
new MutationObserver((_, seen) => {
  const now = words();
  if (now !== before && /Epsilon [0-9.]+, noise scale/.test(now)
      && now.match(/Epsilon [0-9.]+, noise scale/)[0]
         !== before.match(/Epsilon [0-9.]+, noise scale/)[0]) {
    seen.disconnect();
    done(performance.now() - began);
  }
}).observe(document.body, {subtree: true, childList: true, characterData: true});
slider.dispatchEvent(new KeyboardEvent('keydown', {keyCode: key, which: key, bubbles: true}));
slider.dispatchEvent(new KeyboardEvent('keyup', {keyCode: key, which: key, bubbles: true}));
"""
LEFT, RIGHT = 37, 39


def main() -> None:
    home = Path(tempfile.mkdtemp())
    with (
        browser.served(home / "folder") as address,
        browser.browser(home / "profile") as page,
    ):
        page.driver.set_script_timeout(120)
        page.open(address)
        page.press("Use the demo data")
        page.sees("Read: 2,016 entries")
        page.press("Next: beliefs")
        page.press("Region")
        page.sees("What “region” means")
        page.press("Next: question")
        page.sees("noise scale")
        first = [page.driver.execute_async_script(ANSWER, RIGHT) for _ in range(3)]
        for _ in range(3):
            page.driver.execute_async_script(ANSWER, LEFT)
        again = [
            page.driver.execute_async_script(ANSWER, key)
            for _ in range(5)
            for key in (RIGHT, RIGHT, LEFT, LEFT)
        ]
        print(f"new epsilon:    {statistics.median(first):6.0f} ms (median of {len(first)})")
        print(f"cached epsilon: {statistics.median(again):6.0f} ms (median of {len(again)})")
        print(f"                {max(again):6.0f} ms (largest)")
        page.press("2 Beliefs")
        page.press("Test all classes on people held out")
        page.sees("Testing classes on people held out …")
        page.press("3 Question")
        page.sees("noise scale")
        busy = [page.driver.execute_async_script(ANSWER, key) for key in (RIGHT, LEFT) * 5]
        print(f"while a plan runs: {statistics.median(busy):3.0f} ms (median of {len(busy)})")


if __name__ == "__main__":
    main()
