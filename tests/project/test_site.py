"""The built site in a real browser, read from the disk: `make docs` first."""

import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.explore import browser

pytestmark = pytest.mark.slow
SITE = Path(__file__).parents[2] / "site"
WIDTHS, SCHEMES = (1280, 400), ("light", "dark")


@contextmanager
def opened(width=1280, scheme="light"):
    webdriver = pytest.importorskip("selenium.webdriver")
    required = "chromium" in os.environ.get("PUFFERKIT_REQUIRE", "").split()
    if not (SITE / "index.html").exists() or browser.CHROMIUM is None or browser.DRIVER is None:
        assert not required, "the site, chromium or chromedriver is missing"
        pytest.skip("no site (make docs) or no Chromium on this machine")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = browser.CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service(browser.DRIVER))
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        yield driver
    finally:
        driver.quit()


def show(driver, page):
    assert (SITE / page).exists()
    driver.get((SITE / page).as_uri())


def until(driver, script):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, 60).until(lambda _: driver.execute_script(f"return {script}"))


FORMULAS = """(() => {
    const marked = [...document.querySelectorAll(".arithmatex")]
    return marked.length && marked.every(one => one.querySelector("mjx-container")) && marked.length
})()"""
CUT = """return [...document.querySelectorAll("mjx-container")].filter(formula => {
    const inside = formula.querySelector("svg").getBoundingClientRect()
    if (inside.width < 5 || inside.height < 5) return true // squeezed to nothing
    for (let box = formula; box !== document.body; box = box.parentElement) {
        if (getComputedStyle(box).overflowX === "auto") return false // can be scrolled
    }
    return inside.left < 0 || inside.right > document.documentElement.clientWidth + 1
}).map(formula => formula.parentElement.textContent)"""


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_formulas_are_set_and_not_cut(width, scheme):
    with opened(width, scheme) as driver:
        show(driver, "theory.html")
        assert until(driver, FORMULAS) > 100
        assert driver.execute_script(CUT) == []
        assert not driver.execute_script("return document.querySelectorAll('mjx-merror').length")
        colours = "getComputedStyle(document.querySelector('{}')).color"
        assert driver.execute_script(
            f"return {colours.format('mjx-container')} === {colours.format('article p')}"
        )
        shown = driver.execute_script("return document.body.dataset.mdColorScheme")
        assert shown == {"light": "default", "dark": "slate"}[scheme]


LOOKED_AT = ("index", "figures", "quick-start", "theory", "raw-files", "command-line")
WIDE_BLOCKS = """return [...document.querySelectorAll("pre code")]
    .filter(code => code.scrollWidth > code.clientWidth + 1)
    .filter(code => innerWidth > 400 || !code.closest(".ruled") ||
        getComputedStyle(code).overflowX !== "auto") // tables are scrolled on a telephone
    .map(code => code.textContent.slice(0, 80))"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", LOOKED_AT)
def test_pages_are_no_wider_than_the_screen(page, width):
    with opened(width) as driver:
        show(driver, f"{page}.html")
        root = "document.documentElement"
        assert driver.execute_script(f"return {root}.scrollWidth <= {root}.clientWidth")
        assert driver.execute_script(WIDE_BLOCKS) == []
        broken = "[...document.images].filter(i => i.complete && !i.naturalWidth).length"
        assert driver.execute_script(f"return {broken}") == 0


def test_search_answers_from_the_disk():
    with opened() as driver:
        show(driver, "index.html")
        driver.find_element("css selector", "input.md-search__input").send_keys("quilt")
        found = "[...document.querySelectorAll('.md-search-result__item')].map(e => e.textContent)"
        results = until(driver, f"({found}.length ? {found} : null)")
        assert any("quilt" in result.lower() for result in results)


def test_a_page_leads_on_and_can_be_copied_and_pointed_at():
    with opened() as driver:
        show(driver, "quick-start.html")
        count = "return document.querySelectorAll({!r}).length"
        assert (
            driver.execute_script(count.format(".md-footer__link--prev, .md-footer__link--next"))
            == 2
        )
        until(driver, "document.querySelectorAll('.md-clipboard, .md-code__button').length > 4")
        assert driver.execute_script(count.format("h2 > a.headerlink")) > 3
        assert driver.execute_script(count.format(".output")) > 3


def test_nothing_is_fetched_from_elsewhere():
    with opened() as driver:
        for page in ("index.html", "theory.html", "figures.html"):
            show(driver, page)
            until(driver, "document.readyState === 'complete'")
            names = driver.execute_script(
                "return performance.getEntriesByType('resource').map(entry => entry.name)"
            )
            assert [name for name in names if not name.startswith(("file:", "data:"))] == []
