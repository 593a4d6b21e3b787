"""The page in a real browser: it renders, filters and sorts, by mouse, keyboard and address, wide and narrow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("selenium")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select
from tests.conformance.report.browser import chromium, emulate, requests, show
from tests.conformance.report.documents import document, documents, large_page, narrowed, whole_page
from tests.conformance.report.test_page import HOSTILE, hostile

from halfulp.conformance.report import page

Driver = Any


def write(results: Sequence[Any], path: Path) -> None:
    """Write the page of some documents."""
    path.write_text(page.render(results), "utf-8")


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "several.html"
    path.write_text(whole_page(), "utf-8")
    return path


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two operator versions and three runtimes, which is shown in a quarter of the time."""
    path = tmp_path_factory.mktemp("page") / "few.html"
    names = ("onnxruntime", "openvino", "torch")
    write([narrowed(found, "onnx.PRelu-16", "onnx.Pow-15") for found in documents(*names)], path)
    return path


@pytest.fixture(autouse=True)
def nothing_in_the_console(driver: Driver) -> Iterator[None]:
    driver.get_log("browser")
    yield
    assert [entry["message"] for entry in driver.get_log("browser")] == []


def ask(driver: Driver, expression: str, *arguments: Any) -> Any:
    """Return the value of an expression in the page."""
    return driver.execute_script(f"return {expression}", *arguments)


def visible(driver: Driver, selector: str) -> list[Any]:
    """Return the elements that a selector finds and that a person sees."""
    return [element for element in driver.find_elements(By.CSS_SELECTOR, selector) if element.is_displayed()]


def texts(driver: Driver, selector: str) -> list[str]:
    """Return the texts of all elements that a selector finds."""
    found: list[str] = ask(
        driver, "[...document.querySelectorAll(arguments[0])].map((e) => e.textContent.trim())", selector
    )
    return found


def count(driver: Driver) -> str:
    return str(driver.find_element(By.ID, "count").text)


def test_it_renders_and_asks_for_nothing(driver: Driver, several: Path) -> None:
    requests(driver)
    show(driver, several)
    assert driver.title == "Conformance of 4 runtimes"
    assert len(visible(driver, "table.heat")) == 8
    assert len(visible(driver, "#grids table")) == 3
    assert len(visible(driver, "#findings tr.case")) == 100
    assert count(driver) == "584 of 584 findings, 223 of 223 rows"
    assert set(requests(driver)) == {several.as_uri()}


def test_its_policy_stops_what_would_use_the_network(driver: Driver, few: Path) -> None:
    show(driver, few)
    stopped = driver.execute_async_script(
        "const done = arguments[0]; fetch('http://127.0.0.1:9/').then(() => done(false), () => done(true))"
    )
    assert stopped
    messages = [entry["message"] for entry in driver.get_log("browser")]
    assert any("Content Security Policy" in message for message in messages)


def test_filters_narrow_everything_that_is_shown(driver: Driver, several: Path) -> None:
    show(driver, several)
    driver.find_element(By.CSS_SELECTOR, "input[name=verdict][value=wrong]").click()
    driver.find_element(By.CSS_SELECTOR, "input[name=target][value='1']").click()
    Select(driver.find_element(By.ID, "f-operator")).select_by_visible_text("onnx.Pow")
    Select(driver.find_element(By.ID, "f-version")).select_by_visible_text("15")
    Select(driver.find_element(By.ID, "f-type")).select_by_visible_text("bfloat16")
    assert (
        ask(driver, "location.hash") == "#verdict=wrong&target=1&operator=onnx.Pow&version=15&type=bfloat16"
    )
    # bfloat16 with each of the 12 exponents, and the other wrong bases with a bfloat16 exponent
    assert count(driver) == "28 of 584 findings, 14 of 223 rows"
    assert all("bfloat16" in text for text in texts(driver, "#findings tr.case code"))
    assert set(texts(driver, "#findings tr.case .open .sign")) == {"≠"}
    assert len(visible(driver, "table.heat")) == 1
    assert len(visible(driver, "table.heat tbody")) == 1
    assert len(visible(driver, "#distances table")) == 1
    bars = texts(driver, "#distances [data-target='1'] [data-bucket='0'] .number")
    assert bars[0] == f"{14 * 3900:,}"
    assert len(visible(driver, "#grids table")) == 1
    Select(driver.find_element(By.ID, "f-group")).select_by_visible_text("special")
    assert count(driver).startswith("14 of 584")
    driver.find_element(By.CSS_SELECTOR, "button[type=reset]").click()
    assert count(driver) == "584 of 584 findings, 223 of 223 rows"
    assert ask(driver, "location.hash") == ""


def test_text_is_searched_as_it_is_typed(driver: Driver, several: Path) -> None:
    show(driver, several)
    driver.find_element(By.ID, "f-text").send_keys("invalid/2")
    driver.execute_async_script("setTimeout(arguments[0], 300)")
    assert texts(driver, "#findings tr.case code") == ["onnx.Pow-7/float32,float32/invalid/2"] * 2
    assert driver.find_element(By.ID, "count").get_attribute("aria-live") == "polite"


def test_what_is_allowed_is_marked_and_can_be_hidden(driver: Driver, tmp_path: Path) -> None:
    found = narrowed(document("onnxruntime"), "onnx.PRelu-16")
    found["cases"][0]["allowed"] = True
    found["summary"]["allowed"] = 1
    write([found], tmp_path / "allowed.html")
    show(driver, tmp_path / "allowed.html")
    assert texts(driver, "#findings .tag") == ["allowed"]
    assert count(driver).startswith("5 of 5 findings")
    driver.find_element(By.NAME, "allowed").click()
    assert texts(driver, "#findings .tag") == []
    assert count(driver).startswith("4 of 5 findings")


def test_nothing_found_is_said(driver: Driver, several: Path) -> None:
    show(driver, several, hash="#text=no+such+thing")
    assert visible(driver, "#none")
    assert not visible(driver, "#findings tr.case")
    assert count(driver) == "0 of 584 findings, 0 of 223 rows"


def test_the_address_holds_the_state(driver: Driver, several: Path) -> None:
    address = "#verdict=wrong&target=0&group=values&sort=-wrong&rows=-0&grid=onnx.Pow-15%2Fint64%2Cint64"
    show(driver, several, hash=address)
    assert driver.find_element(By.CSS_SELECTOR, "input[name=verdict][value=wrong]").is_selected()
    assert Select(driver.find_element(By.ID, "f-group")).first_selected_option.text == "values"
    assert driver.find_element(By.ID, "grid").get_attribute("value") == "onnx.Pow-15/int64,int64"
    assert texts(driver, "#t-findings th[aria-sort=descending]") == ["Wrong"]
    assert texts(driver, "#t-compare th[aria-sort=descending]") == ["onnxruntime"]
    assert count(driver).startswith("23 of 584")
    driver.execute_script("location.hash = '#verdict=accepted'")
    assert driver.execute_async_script(
        "setTimeout(() => arguments[0](document.querySelector('#count').textContent), 50)"
    ).startswith("6 of 584")


def test_sorting_by_columns(driver: Driver, several: Path) -> None:
    show(driver, several, hash="#target=1,2")
    driver.find_element(By.CSS_SELECTOR, "#t-findings th[data-sort=ulp] button").click()
    shown = texts(driver, "#findings tr.case td:nth-child(4)")
    assert shown[0] == "special"
    numbers = [float("inf") if text == "special" else float(text or 0) for text in shown]
    assert numbers == sorted(numbers, reverse=True)
    driver.find_element(By.CSS_SELECTOR, "#t-findings th[data-sort=ulp] button").click()
    assert texts(driver, "#t-findings th[aria-sort=ascending]") == ["ulp"]
    assert texts(driver, "#findings tr.case td:nth-child(4)")[0] == ""

    driver.find_element(By.CSS_SELECTOR, "#t-compare th[data-sort='1'] button").click()
    order = {"refused": 4, "wrong": 3, "within": 2, "exact": 1}
    found = texts(driver, "#t-compare tbody tr td[data-target='1'] .verdict")
    ranks = [order[text[1:]] for text in found]
    assert ranks == sorted(ranks, reverse=True)


def test_a_square_leads_to_its_findings(driver: Driver, several: Path) -> None:
    show(driver, several)
    square = "[data-target='1'] a[data-key='onnx.Pow-15/float64,float64']"
    driver.find_element(By.CSS_SELECTOR, square).click()
    assert len(visible(driver, "#findings tr.case")) == 2
    assert all(
        text.startswith("onnx.Pow-15/float64,float64/") for text in texts(driver, "#findings tr.case code")
    )
    assert ask(driver, "document.activeElement.id") == "h-findings"


def test_a_finding_opens_with_its_program_and_copies_it(driver: Driver, few: Path) -> None:
    show(driver, few, hash="#target=1&text=onnx.Pow-15/float64,float64/special")
    (button,) = visible(driver, "#findings button.open")
    assert not visible(driver, "#findings tr.detail")
    button.click()
    assert button.get_attribute("aria-expanded") == "true"
    facts = driver.find_element(By.CSS_SELECTOR, "#findings tr.detail dl").text
    assert "0xbff0000000000000" in facts
    assert "MPFR agrees" in facts
    program = driver.find_element(By.CSS_SELECTOR, "#findings pre").text
    compile(program, "<program>", "exec")
    assert "import openvino" in program
    assert "Z = Pow (X, Y)" in program
    driver.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    driver.find_element(By.CSS_SELECTOR, "#findings .copy").click()
    copied = driver.execute_async_script("navigator.clipboard.readText().then(arguments[0], arguments[0])")
    assert copied.strip() == program.strip()
    assert driver.find_element(By.CSS_SELECTOR, "#findings .copy").text == "Copied"
    assert driver.find_element(By.ID, "announce").get_attribute("textContent") == "Program copied"
    button.click()
    assert not visible(driver, "#findings tr.detail")


def test_what_depends_on_the_surroundings_is_listed(driver: Driver, few: Path) -> None:
    show(driver, few, hash="#verdict=wrong")
    (link, *_) = visible(driver, "#reproducibility td a")
    assert link.text.endswith("differ")
    link.click()
    assert ask(driver, "document.activeElement.closest('details').id") == "differs-2-position"
    assert "0.7, 2.5 gives 0.40996" in visible(driver, "#differs-2-position li")[0].text
    # The address keeps the state.
    assert ask(driver, "location.hash") == "#verdict=wrong"


def test_keyboard(driver: Driver, several: Path) -> None:
    show(driver, several)

    def press(*keys: str) -> dict[str, Any]:
        driver.switch_to.active_element.send_keys(*keys)
        found: dict[str, Any] = ask(
            driver,
            "(() => { const e = document.activeElement, s = getComputedStyle(e);"
            " return {tag: e.tagName, text: e.textContent.trim(), key: e.dataset.key || '',"
            " outline: s.outlineStyle + ' ' + s.outlineWidth}; })()",
        )
        return found

    # From the top: the way past the filters, the switch, the sections.
    assert press(Keys.TAB)["text"] == "Skip to the results"
    theme = press(Keys.TAB)
    assert theme["text"] == "Dark"
    assert theme["outline"] == "solid 2px"
    assert press(Keys.TAB)["text"] == "Summary"
    assert press(Keys.TAB)["text"] == "Versions and types"
    assert press(Keys.ENTER)["text"] == "Versions and types"
    assert ask(driver, "document.activeElement.id") == "h-heatmaps"
    # The first table: its region, then its first square; arrow keys move, and skip empty places.
    assert press(Keys.TAB)["tag"] == "DIV"
    assert press(Keys.TAB)["key"] == "onnx.Pow-1/float64,float64"
    assert press(Keys.ARROW_DOWN)["key"] == "onnx.Pow-7/float64,float64"
    assert press(Keys.ARROW_DOWN)["key"] == "onnx.Pow-12/float64,float64"
    assert press(Keys.ARROW_RIGHT)["key"] == "onnx.Pow-12/float64,float32"
    moved = press(Keys.ARROW_DOWN)
    assert moved["key"] == "onnx.Pow-12/float32,float32"
    assert moved["outline"] == "solid 2px"
    assert (
        ask(driver, "document.activeElement.closest('table').querySelectorAll('a[tabindex=\"0\"]').length")
        == 1
    )
    assert press(Keys.ENTER)["text"] == "Findings"
    # On through the headings of the table to the first finding.
    for name in ("Verdict", "Case", "Target", "ulp", "Wrong"):
        assert press(Keys.TAB)["text"] == name
    assert press(Keys.TAB)["tag"] == "BUTTON"
    assert press(Keys.ENTER)["tag"] == "BUTTON"
    assert press(Keys.TAB)["text"] == "Copy"


def contrast_of(driver: Driver, selector: str) -> tuple[str, str]:
    colours: list[str] = ask(
        driver,
        "[...document.querySelectorAll(arguments[0])].slice(0, 1).map((e) => getComputedStyle(e))"
        ".flatMap((s) => [s.color, s.backgroundColor])",
        selector,
    )
    return colours[0], colours[1]


def test_light_and_dark(driver: Driver, few: Path) -> None:
    show(driver, few)
    light = contrast_of(driver, "body")
    assert driver.find_element(By.ID, "theme").text == "Dark"
    driver.find_element(By.ID, "theme").click()
    chosen = contrast_of(driver, "body")
    assert chosen != light
    assert driver.find_element(By.ID, "theme").get_attribute("aria-label") == "Switch to light colours"
    show(driver, few, dark=True)
    assert contrast_of(driver, "body") == chosen
    driver.find_element(By.ID, "theme").click()
    assert contrast_of(driver, "body") == light


def test_no_width_scrolls_the_page_sideways(driver: Driver, tmp_path: Path) -> None:
    # The longest names that there are.
    long = json.dumps(narrowed(document("openvino"), "onnx.PRelu-16"))
    long = long.replace("onnx.PRelu-16", "directml.ACTIVATION_PARAMETERIZED_RELU-5_1")
    path = tmp_path / "long.html"
    write([document("onnxruntime"), json.loads(long)], path)
    for width in (320, 360, 768, 1280, 1920):
        show(driver, path, width=width, hash="#text=-1")
        driver.execute_script("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
        for button in visible(driver, "#findings button.open")[:3]:
            driver.execute_script("arguments[0].click()", button)
        assert ask(driver, "document.documentElement.scrollWidth") <= width
        assert ask(driver, "document.body.scrollWidth") <= width


def test_what_documents_say_stays_text(driver: Driver, tmp_path: Path) -> None:
    versions = ("onnx.PRelu-16", "onnx.Pow-7")
    write([narrowed(hostile(), *versions), narrowed(document("torch"), *versions)], tmp_path / "hostile.html")
    show(driver, tmp_path / "hostile.html")
    for button in visible(driver, "#findings button.open")[:5]:
        driver.execute_script("arguments[0].click()", button)
    driver.execute_script("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    assert ask(driver, "document.querySelectorAll('img, script[src]').length") == 0
    assert HOSTILE in ask(driver, "document.querySelector('#t-compare th[data-target]').textContent")
    assert ask(driver, "document.querySelectorAll('script').length") == 2


def test_without_javascript_it_can_be_read(driver: Driver, several: Path) -> None:
    emulate(driver, "Emulation.setScriptExecutionDisabled", value=True)
    try:
        show(driver, several)
        assert len(visible(driver, "table.heat")) == 8
        assert len(visible(driver, "#t-compare tbody tr")) == 223
        assert len(visible(driver, "#findings noscript li, #findings .static li")) == 100
        assert visible(driver, "#specials table")
        assert not visible(driver, "#filters, #theme, #t-findings, button")
    finally:
        emulate(driver, "Emulation.setScriptExecutionDisabled", value=False)


def processor_time(driver: Driver) -> float:
    """Return the seconds of a processor's time that the page has taken: a busy machine takes no more of them."""
    emulate(driver, "Performance.enable", timeDomain="threadTicks")
    metrics = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "ThreadTime"))


def test_thousands_of_findings_stay_quick(driver: Driver, tmp_path: Path) -> None:
    (tmp_path / "x.html").write_text(large_page(), "utf-8")
    show(driver, tmp_path / "x.html")
    assert count(driver).startswith("3,447 of 3,447")
    assert len(driver.find_elements(By.CSS_SELECTOR, "#findings tr.case")) == 100
    before = processor_time(driver)
    driver.execute_script(
        "document.querySelector('input[name=verdict][value=wrong]').click();"
        "document.querySelector('#t-findings th[data-sort=ulp] button').click()"
    )
    assert 0 < processor_time(driver) - before < 3
    driver.execute_script("document.querySelector('#more').click()")
    assert len(driver.find_elements(By.CSS_SELECTOR, "#findings tr.case")) == 200
    assert ask(driver, "document.activeElement.closest('tr').sectionRowIndex") == 100


def test_it_prints(driver: Driver, few: Path) -> None:
    show(driver, few)
    printed = driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert len(printed["data"]) > 100_000


@pytest.mark.parametrize(("width", "dark"), [(360, False), (1280, True)])
def test_accessibility_by_the_rules_of_axe(driver: Driver, tmp_path: Path, width: int, dark: bool) -> None:
    axe = pytest.importorskip("axe_core_python.selenium").Axe()
    # Some of all there is: the rules look at each element for itself.
    few = [narrowed(found, "onnx.PRelu-16", "onnx.Pow-7") for found in documents("onnxruntime", "openvino")]
    write(few, tmp_path / "few.html")
    show(driver, tmp_path / "few.html", width=width, dark=dark)
    driver.execute_script("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    for button in visible(driver, "#findings button.open")[:2]:
        driver.execute_script("arguments[0].click()", button)
    found = axe.run(driver)
    problems = [(rule["id"], rule["help"], rule["nodes"][0]["html"][:200]) for rule in found["violations"]]
    assert problems == [], json.dumps(problems, indent=1)
    assert len(found["passes"]) > 20
