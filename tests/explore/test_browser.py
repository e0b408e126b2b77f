"""The explorer in a real browser, from the demo's data to a verified release.

The pictures of the documentation are made here: PUFFERKIT_PICTURES=docs/images keeps them.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.explore import browser

pytestmark = pytest.mark.slow


@pytest.fixture
def page(tmp_path):
    pytest.importorskip("nicegui")
    pytest.importorskip("selenium")
    if browser.CHROMIUM is None or browser.DRIVER is None:
        if "chromium" in os.environ.get("PUFFERKIT_REQUIRE", "").split():
            pytest.fail("PUFFERKIT_REQUIRE names chromium, but chromium or chromedriver is missing")
        pytest.skip("no Chromium on this machine; apt-get install chromium chromium-driver")
    with (
        browser.served(tmp_path / "folder") as address,
        browser.browser(tmp_path / "profile") as page,
    ):
        page.address, page.folder = address, tmp_path / "folder"
        page.open(address)
        yield page


def keep(page, name, tmp_path):
    """A picture of the page, for the documentation if it is asked for."""
    folder = Path(os.environ.get("PUFFERKIT_PICTURES", tmp_path / "pictures"))
    page.picture(folder / f"{name}.png")


def wider_than_the_screen(page):
    return page.driver.execute_script(
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


def timed(page, script):
    """Milliseconds in the browser until a script's condition holds after its action."""
    return page.driver.execute_async_script(script)


def test_from_the_demo_data_to_a_verified_release(page, tmp_path):
    page.press("Use the demo data")
    page.sees("12 subjects, 24,192 entries")
    page.sees("Read: 2,016 entries")
    keep(page, "explorer-data", tmp_path)

    page.press("Next: beliefs")
    page.press("Region")
    page.sees("promised to whoever knows the chain in force")
    page.press("Single chain")
    page.sees(r"single chain\s+0\.0")
    keep(page, "explorer-beliefs", tmp_path)

    page.press("Next: question")
    page.sees(r"influence_curve: 95% of shares within 0\.0")
    page.sees("whoever thought 1 in 10 that an entry has a value may think at most 1 in 4.3")
    page.press("Compare all mechanisms")
    page.sees("Error against epsilon\n")
    page.sees("does not hide entries that others predict")
    keep(page, "explorer-question", tmp_path)

    page.press("4 Release")
    page.write("Account: whose series", "anna")
    page.press("Set the budget")
    page.sees("It takes 1 of the 3 that remain: fits")
    double_click(page, "Release")
    page.sees("Released: relative frequencies, epsilon 1")
    page.sees("It takes 0 of the 2 that remain: fits")
    keep(page, "explorer-release", tmp_path)

    python, command = code_on(page)
    record = released(python, command)
    assert record["epsilon"] == 1.0

    page.press("Next: account")
    page.sees("Together epsilon 1 of 3")
    assert page.sees("nothing wrong").count("relative frequencies, entries 1 to 2016") == 1
    page.press("Verify relative frequencies, epsilon 1")
    page.sees("ok: reported scale")
    keep(page, "explorer-account", tmp_path)

    page.driver.refresh()
    page.sees("Together epsilon 1 of 3")

    page.press("Dark")
    page.resize(400)
    for step in ("1 Data", "2 Beliefs", "3 Question", "4 Release", "5 Account"):
        page.press(step)
        page.sees({"3 Question": "95% of shares", "5 Account": "Together"}.get(step, "file|class"))
        assert wider_than_the_screen(page) <= 0, step
        if step == "3 Question":
            keep(page, "explorer-narrow", tmp_path)

    [origin] = page.asked()
    assert page.address.split("/")[2] == origin
    assert [line for line in page.complaints() if "dispose" not in line] == []


def double_click(page, words):
    from selenium.webdriver import ActionChains

    button = page.element(f"//button[not(@disabled)][.//*[text()='{words}']]")
    ActionChains(page.driver).double_click(button).perform()


def code_on(page):
    blocks = page.driver.find_elements("css selector", "pre.pk-code")
    return [block.text for block in blocks]


def released(python, command):
    """Both codes run as they stand; they give the record that the ledger has."""
    ours = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    one = subprocess.run([sys.executable, "-c", python], capture_output=True, text=True, check=True)
    command = command.replace("pufferkit", f"{sys.executable} -m pufferkit", 1)
    two = subprocess.run(command, shell=True, env=ours, capture_output=True, text=True, check=True)
    assert json.loads(one.stdout) == json.loads(two.stdout)
    return json.loads(one.stdout)


def test_the_page_answers_while_a_long_plan_runs_and_the_plan_can_be_stopped(page):
    page.press("Use the demo data")
    page.sees("Read: 2,016 entries")
    page.press("Next: beliefs")
    page.press("Test all classes on people held out")
    page.sees("Testing classes on people held out")
    page.press("Region")
    page.sees("What “region” means")
    page.driver.refresh()
    page.sees("Testing classes on people held out …")
    page.press("3 Question")
    page.sees("95% of shares within")
    page.press("Stop")
    end = time.monotonic() + 60
    while "Testing classes on people held out …" in page.text():
        assert time.monotonic() < end
    page.press("2 Beliefs")
    page.sees("Your classes")


def test_a_file_by_its_path_by_keyboard_and_errors_in_the_library_s_words(page, tmp_path):
    from selenium.webdriver.common.keys import Keys

    path = page.element("(//label[.//*[text()='Path on this machine']]//input)[1]")
    path.send_keys(str(tmp_path / "nothing.csv"), Keys.ENTER)
    page.sees("nothing.csv is not a file")
    rows = "\n".join(f"{n % 24:02d}:{n % 60:02d},{n % 7 * 100}" for n in range(60))
    (tmp_path / "meter.csv").write_text(
        f"power\n{chr(10).join(r.split(',')[1] for r in rows.split())}\n"
    )
    path = page.element("(//label[.//*[text()='Path on this machine']]//input)[1]")
    path.send_keys(Keys.CONTROL, "a")
    path.send_keys(str(tmp_path / "meter.csv"), Keys.ENTER)
    page.sees("Cut points")
    page.write("Cut points", "300, 100")
    page.press("Read the file")
    page.sees(r"cuts: must increase, got \[300.0, 100.0\]")
    page.press("Four levels, equally full")
    time.sleep(1)
    page.press("Read the file")
    page.sees("Levels of the public file")
    assert "Read: " not in page.text()
