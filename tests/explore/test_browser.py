"""The explorer in a real browser, from the demo's data to a verified release.

The pictures of the documentation are made here: PUFFERKIT_PICTURES=docs/images keeps them.
"""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import pufferkit as pk
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
        tempfile.TemporaryDirectory(prefix="explorer-") as short,  # it is seen in the pictures
        browser.served(Path(short) / "book") as (address, process),
        browser.browser(tmp_path / "profile") as page,
    ):
        page.address, page.folder, page.killed = address, Path(short) / "book", process.kill
        page.open(address)
        yield page


def keep(page, name, tmp_path):
    """A picture of the page, for the documentation if it is asked for."""
    folder = Path(os.environ.get("PUFFERKIT_PICTURES", tmp_path / "pictures"))
    page.picture(folder / f"{name}.png")
    no_findings(page)


def wider_than_the_screen(page):
    return page.driver.execute_script(
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


def timed(page, script):
    """Milliseconds in the browser until a script's condition holds after its action."""
    return page.driver.execute_async_script(script)


def test_from_the_demo_data_to_a_verified_release(page, tmp_path):
    no_findings(page)
    page.press("Use the demo data")
    page.sees("12 subjects, 24,192 entries")
    page.sees("Read: 2,016 entries")
    keep(page, "explorer-data", tmp_path)

    page.press("Next: beliefs")
    page.press("Take this")
    page.sees("Like these people: 95% of shares")
    page.sees("Holds against adversaries who know the chain in force")
    page.press("Test it on the last three public people")
    page.sees("Verdict: ")
    keep(page, "explorer-beliefs", tmp_path)

    page.press("Next: question")
    page.sees(r"95% of shares are within 0\.0\S+ of the truth, which lies between 0 and 1;")
    page.sees("1 in 4.3")
    page.press("Compare all mechanisms")
    page.sees("room to improve")
    page.sees("Error against epsilon\n")
    keep(page, "explorer-question", tmp_path)
    page.choose("About", "by time")
    page.sees("95% of counts")
    page.choose("About", "shares and counts")
    page.sees("95% of shares")

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
    page.sees("Ok: reported scale")
    keep(page, "explorer-account", tmp_path)

    page.driver.refresh()
    page.sees("Together epsilon 1 of 3")
    dark_and_narrow(page, tmp_path)

    [origin] = page.asked()
    assert page.address.split("/")[2] == origin
    assert [line for line in page.complaints() if "dispose" not in line] == []


def dark_and_narrow(page, tmp_path):
    page.press("Dark")
    page.element("//div[@role='switch'][.//*[text()='Tutorial']]").click()
    page.resize(400)
    for step in ("1 Data", "2 Beliefs", "3 Question", "4 Release", "5 Account"):
        page.press(step)
        page.sees(
            {"3 Question": "95% of shares", "5 Account": "Together"}.get(
                step, "file|adversary|Budget"
            )
        )
        page.sees("Tutorial\n.*[.]")
        assert wider_than_the_screen(page) <= 0, step
        no_findings(page)
        if step == "3 Question":
            keep(page, "explorer-narrow", tmp_path)


AXE = os.environ.get("PUFFERKIT_AXE")
"""A copy of axe.min.js (npm install axe-core); without it findings are not looked for."""


def no_findings(page):
    """What axe-core finds on the page as it is, which is nothing."""
    if AXE is None:
        return
    page.driver.execute_script(Path(AXE).read_text(encoding="utf-8"))
    findings = page.driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run(document).then((r) => done(r.violations.map((v) => [v.id, v.nodes[0].html])))"
    )
    assert findings == []


def double_click(page, words):
    from selenium.webdriver import ActionChains

    button = page.element(f"//button[not(@disabled)][.//*[text()='{words}']]")
    ActionChains(page.driver).double_click(button).perform()


def code_on(page):
    blocks = page.driver.find_elements("css selector", ".pk-code")
    return [block.text for block in blocks]


def released(python, command):
    """Both codes run as they stand; they give the record that the ledger has."""
    ours = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    one = subprocess.run([sys.executable, "-c", python], capture_output=True, text=True, check=True)
    command = command.replace("pufferkit", f"{sys.executable} -m pufferkit", 1)
    two = subprocess.run(command, shell=True, env=ours, capture_output=True, text=True, check=True)
    record = json.loads(two.stdout)
    record.pop("read_from")  # the file and its columns, which the page does not write
    assert json.loads(one.stdout) == record
    return json.loads(one.stdout)


def test_the_page_answers_while_a_long_plan_runs_and_the_plan_can_be_stopped(page):
    page.press("Use the demo data")
    page.sees("Read: 2,016 entries")
    page.press("Next: beliefs")
    page.unfold("Other ways")
    page.press("Test all on people held out")
    page.sees(r"Testing beliefs on people held out … \d+%")
    page.press("Take this")
    page.sees("What “Like these people” means")
    page.driver.refresh()
    page.sees("Testing beliefs on people held out …")
    page.press("3 Question")
    page.sees("95% of shares")
    page.press("Stop")
    end = time.monotonic() + 60
    while "Testing beliefs on people held out …" in page.text():
        assert time.monotonic() < end
    page.press("2 Beliefs")
    page.sees("Your choice")


def test_a_file_by_its_path_by_keyboard_and_errors_without_python(page, tmp_path):
    from selenium.webdriver.common.keys import Keys

    place = "(//label[.//*[text()='Path']]//input)[2]"  # of the public file
    page.element(place).send_keys(str(tmp_path / "nothing.csv"), Keys.ENTER)
    page.sees("nothing.csv is not a file")
    (tmp_path / "meter.csv").write_text("power\n" + "".join(f"{n % 7 * 100}\n" for n in range(60)))
    page.element(place).send_keys(Keys.CONTROL, "a")
    page.element(place).send_keys(str(tmp_path / "meter.csv"), Keys.ENTER)
    page.sees("Cut points")
    page.write("Cut points", "300, 100")
    page.press("Read the file")
    page.sees("Cut points: must increase, got 300.0, 100.0")
    page.press("Four levels, equally full")
    time.sleep(1)
    page.press("Read the file")
    page.sees("It is drawn once it was compared")
    assert page.driver.find_elements("css selector", "main img") == []


def test_the_whole_path_by_keyboard_alone(page):
    from selenium.webdriver.common.keys import Keys

    def press(words):
        page.tab_to(words)
        page.keys(Keys.ENTER)

    press("Use the demo data")
    page.sees("Read: 2,016 entries")
    every_control_can_be_reached(page)
    press("Next: beliefs")
    page.at("What may an adversary know?")
    press("Take this")
    page.sees("Holds against adversaries who know the chain in force")
    page.at("Take this")  # the page was drawn anew, and one is where one was
    every_control_can_be_reached(page)
    press("Next: question")
    page.at("Question")
    page.sees(r"Epsilon 1, noise scale 0\.013")
    press("About")
    page.keys(Keys.ARROW_DOWN, Keys.ENTER)
    page.sees("95% of counts")
    page.tab_to("Usual values of epsilon")
    page.keys(Keys.ARROW_RIGHT)
    page.sees(r"Epsilon 1\.5, noise scale")
    press("Mechanism")
    page.keys(Keys.ARROW_DOWN, Keys.ENTER)
    page.sees("influence_curve: the influence curve")
    every_control_can_be_reached(page)
    press("Next: release")
    page.at("Budget")
    page.tab_to("Account: whose series")
    page.keys("anna")  # what Tab comes to is selected
    press("Set the budget")
    page.sees("that remain: fits")
    page.sees("the noise drowns the answer")
    page.tab_to("Release it all the same")
    page.keys(Keys.SPACE)
    press("Release")
    page.sees("Released: histogram for each hour, epsilon 1.5")
    every_control_can_be_reached(page)
    press("Next: account")
    page.at("Account “anna”")
    page.sees("Together epsilon 1.5 of 3")
    press("Verify histogram for each hour, epsilon 1.5")
    page.sees("Ok: reported scale")
    every_control_can_be_reached(page)


def every_control_can_be_reached(page):
    """Every control that is drawn takes the keyboard itself, or one of its group does."""
    left_out = page.driver.execute_script("""
      const controls = [...document.querySelectorAll(
        'main button, main input, main textarea, main summary, main a, main [role=tab],'
        + 'main [role=radio], main [role=slider], main [role=switch], main [role=checkbox]')];
      const seen = (e) => e.checkVisibility() && !e.disabled && e.type !== 'file';
      const group = (e) => e.closest('[role=tablist], [role=radiogroup], .q-slider, .q-field');
      const takes = (e) => e.tabIndex >= 0;
      return controls.filter(seen).filter((e) => !takes(e)
        && ![...(group(e)?.querySelectorAll('*') || [])].some(takes)).map((e) => e.outerHTML);
    """)
    assert left_out == []


def test_a_file_dropped_on_the_page_is_read_and_stays_in_the_folder(page):
    rows = "state\n" + "rest\nwalk\nwalk\n" * 40
    page.driver.execute_script(
        """
        const dropped = new DataTransfer();
        dropped.items.add(new File([arguments[0]], arguments[1], {type: 'text/csv'}));
        const place = document.querySelectorAll('.q-uploader')[0];
        const give = (kind, where) => where.dispatchEvent(
          new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer: dropped}));
        give('dragover', place);
        setTimeout(() => give('drop', place.querySelector('.q-uploader__dnd') || place), 200);
        """,
        rows,
        "..\\..\\my week.csv",
    )
    page.sees("private-.*my-week.csv")
    page.press("Read the file")
    page.sees("Read: 120 entries")
    [kept] = page.folder.glob("private-*")
    assert kept.read_text() == rows
    assert kept.stat().st_mode & 0o777 == 0o600
    assert [path for path in page.folder.parent.iterdir() if "week" in path.name] == []


def test_two_tabs_and_a_server_that_is_killed_give_one_value_for_one_charge(page, tmp_path):
    page.press("Use the demo data")
    page.sees("Read: 2,016 entries")
    page.press("Next: beliefs")
    page.press("Take this")
    page.sees("What “Like these people” means")
    page.press("4 Release")
    page.press("Set the budget")
    page.sees(r"It takes [\d.]+ of the 3 that remain: fits")
    first = page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    page.open(page.address)
    page.sees(r"It takes [\d.]+ of the 3 that remain: fits")
    second = page.driver.current_window_handle
    for tab in (first, second):
        page.driver.switch_to.window(tab)
        page.press("Release")
    for tab in (first, second):
        page.driver.switch_to.window(tab)
        page.driver.refresh()
        page.sees("It takes 0 of the 2[.0-9]* that remain: fits")
        page.sees("Released: relative frequencies, epsilon 1")  # charged first, then drawn
        assert page.text().count("Released: relative frequencies, epsilon 1") == 1
    page.driver.switch_to.window(second)
    page.press("3 Question")
    page.sees("noise scale")
    page.write("Epsilon", "0.5")
    page.sees(r"Epsilon 0\.5, noise scale")
    page.press("4 Release")
    page.press("Release")
    page.killed()
    with pk.Ledger(str(page.folder / "ledger.db")) as ledger:
        charges = [entry for entry in ledger.entries() if entry.kind == "charge"]
        assert ledger.verify() == []
    assert charges
    assert all(entry.value is not None for entry in charges)


SOCKET = "_nicegui_ws/socket.io/?EIO=4&transport=websocket"
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def test_the_door_of_a_real_server(tmp_path):
    pytest.importorskip("nicegui")
    with browser.served(tmp_path, log=tmp_path / "log") as (address, _):
        _, _, here, token, _ = address.split("/")
        port = int(here.split(":")[1])

        def status(path, **headers):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.putrequest("GET", path, skip_host=True)
            for name, value in {"Host": here, **headers}.items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            told = answer.status, answer.getheader("referrer-policy"), answer.read(500_000)
            connection.close()
            return told

        code, referrer, page = status(f"/{token}/")
        assert (code, referrer) == (200, "no-referrer")
        assert b"http://" not in page.replace(b"http://www.w3.org", b"")
        assert b"https://" not in page
        for path, headers in {
            "/": {},
            f"/{token}": {"Host": f"evil.example:{port}"},
            f"/{token}/": {"Host": "evil.example"},
            f"/{token}/ ": {"Origin": "http://evil.example"},
            f"/{token[:-1]}/": {},
            f"/%2e/{token}/": {},
            f"//{token}/": {},
            "/openapi.json": {},
            f"/{SOCKET}": UPGRADE,
            f"/{token}/{SOCKET}": {**UPGRADE, "Origin": "http://evil.example"},
            f"/{token}/{SOCKET} ": {**UPGRADE, "Host": f"evil.example:{port}"},
        }.items():
            assert status(path.strip(), **headers)[0] in (400, 403), (path, headers)
        assert status(f"/{token}/{SOCKET}", **UPGRADE, Origin=f"http://{here}")[0] == 101
        for path in ("../../../etc/passwd", "..%2f..%2f..%2fetc%2fpasswd", "_nicegui/../etc"):
            assert b"root:" not in status(f"/{token}/{path}")[2]
    assert token not in (tmp_path / "log").read_text()
