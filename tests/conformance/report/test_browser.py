"""The page in a real browser: it renders, filters its findings, and can be read without JavaScript, wide and narrow."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("selenium")

from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select
from tests.conformance.report.browser import chromium, emulate, requests, show
from tests.conformance.report.documents import document, documents, whole_page

from halfulp.conformance.report import render

Driver = Any


def write(results: Sequence[Any], path: Path) -> None:
    """Write the page of some documents."""
    path.write_text(render(results), "utf-8")


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "several.html"
    path.write_text(whole_page(), "utf-8")
    return path


@pytest.fixture(autouse=True)
def nothing_in_the_console(driver: Driver) -> Iterator[None]:
    driver.get_log("browser")
    yield
    assert [entry["message"] for entry in driver.get_log("browser")] == []


def visible(driver: Driver, selector: str) -> list[Any]:
    """Return the elements that a selector finds and that a person sees."""
    return [element for element in driver.find_elements(By.CSS_SELECTOR, selector) if element.is_displayed()]


def count(driver: Driver) -> str:
    return str(driver.find_element(By.ID, "count").text)


def test_it_renders_filters_and_asks_for_nothing(driver, several):
    cases = [found["cases"] for found in documents()]
    total = sum(map(len, cases))
    within = [case for case in cases[1] if case["verdict"] == "within" and "Pow-7/float32" in case["id"]]
    assert 0 < len(within) < len(cases[1])
    requests(driver)
    show(driver, several)
    assert driver.title == "Conformance of 4 runtimes"
    assert len(visible(driver, "table.heat")) == 7  # in one nothing of Pow was checked
    assert count(driver) == f"{total} of {total} findings"
    assert set(requests(driver)) == {several.as_uri()}
    Select(driver.find_element(By.NAME, "verdict")).select_by_visible_text("within")
    Select(driver.find_element(By.NAME, "target")).select_by_visible_text("by place")
    driver.find_element(By.NAME, "text").send_keys("onnx.Pow-7/float32")
    assert count(driver) == f"{len(within)} of {total} findings"
    assert len(visible(driver, "#findings li[data-verdict=within][data-target='1']")) == len(within)
    assert len(visible(driver, "#findings li")) == len(within)
    driver.find_element(By.CSS_SELECTOR, "button[type=reset]").click()
    assert driver.execute_async_script("setTimeout(() => arguments[0](true), 50)")
    assert count(driver) == f"{total} of {total} findings"


def test_without_javascript_it_can_be_read(driver, several):
    emulate(driver, "Emulation.setScriptExecutionDisabled", value=True)
    try:
        show(driver, several)
        assert len(visible(driver, "table.heat")) == 7
        listed = driver.find_elements(By.CSS_SELECTOR, "#findings li")
        assert len(listed) == sum(len(found["cases"]) for found in documents())
        assert visible(driver, "#specials table")
        assert not visible(driver, "#filters")
    finally:
        emulate(driver, "Emulation.setScriptExecutionDisabled", value=False)


def test_no_width_scrolls_the_page_sideways(driver, tmp_path):
    # The longest names that there are.
    long = json.dumps(document("by place"))
    long = long.replace("onnx.PRelu-9", "directml.ACTIVATION_PARAMETERIZED_RELU-5_1")
    path = tmp_path / "long.html"
    write([document("reference"), json.loads(long)], path)
    for width in (320, 768, 1280):
        show(driver, path, width=width)
        driver.execute_script("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("width", "dark"), [(360, False), (1280, True)])
def test_accessibility_by_the_rules_of_axe(driver, tmp_path, width, dark):
    axe = pytest.importorskip("axe_core_python.selenium").Axe()
    # Some of all there is: the rules look at each element for itself.
    few = [found | {"cases": found["cases"][:9]} for found in documents("reference", "by place")]
    write([found | {"specials": found["specials"][:1]} for found in few], tmp_path / "few.html")
    show(driver, tmp_path / "few.html", width=width, dark=dark)
    driver.execute_script("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    found = axe.run(driver)
    problems = [(rule["id"], rule["help"], rule["nodes"][0]["html"][:200]) for rule in found["violations"]]
    assert problems == [], json.dumps(problems, indent=1)
    assert len(found["passes"]) > 20
