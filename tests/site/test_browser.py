"""The page in a real Chromium: the way a person goes through it, by mouse and by keyboard, on a
wide screen and on a phone, in light and in dark, with a script and without; and what axe finds."""

from __future__ import annotations

import subprocess
import sys

import made_records as made
import pytest
from looks import PHONE, WIDE, keep, opener, violations

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The demonstration's page, with one published cell and the benchmark's page beside it."""
    place = tmp_path_factory.mktemp("site")
    folder = made.put(place / "records", made.report("standin"), result=made.bench("standin"))
    subprocess.run([sys.executable, "-c", "from apexlab.verify.main import main; main()", "site",
                    "--out", place / "site", "--records", folder, "--demo"], check=True)
    return (place / "site" / "index.html").as_uri()


@pytest.fixture
def visit(chromium, home):
    """Opens the page; after the test, nothing may have been asked of anyone else, nor failed."""
    with opener(chromium) as open_:
        yield lambda url=home, **settings: open_(url, **settings)


def field(page, name: str):
    return page.get_by_role("combobox", name=name, exact=True)


def shown(page) -> list[str]:
    return [one.get_attribute("id") for one in page.locator("article").all() if one.is_visible()]


def test_choosing_torch_cuda_and_gpu_leads_to_the_image(visit):
    page = visit()
    assert len(shown(page)) == 1  # the newest
    field(page, "PyTorch").select_option("2.11")
    field(page, "CUDA").select_option("13.0")
    field(page, "GPU").select_option("9.0")
    assert shown(page) == [made.SLUG] and page.url.endswith(f"#{made.SLUG}")
    said = page.get_by_role("status").inner_text()
    assert "torch 2.11.0 · CUDA 13.0" in said and "proven" in said and "machine code" in said
    assert page.get_by_text(f"docker pull {made.IMAGE}:{made.SLUG}").is_visible()
    assert page.locator("article:visible .chosen").inner_text().startswith("H100, H200")
    page.get_by_text("13 extensions, one by one").click()
    assert page.get_by_role("rowheader", name="amp_C").is_visible()
    keep(page, "chosen")
    page.get_by_role("link", name="Charts and every scenario").click()
    assert page.locator("figure svg").first.is_visible()


def test_a_pair_that_does_not_exist_leads_to_the_nearest_that_does(visit):
    page = visit()
    field(page, "PyTorch").select_option("2.4")
    field(page, "CUDA").select_option("12.9")
    field(page, "GPU").select_option("7.0")
    said = page.get_by_role("status")
    assert shown(page) == [] and "no wheels for CUDA 12.9" in said.inner_text()
    assert said.locator("li").count() == 2  # of this GPU, for each that is near
    keep(page, "nearest")
    said.get_by_role("link", name="torch 2.4.1 · CUDA 12.4").first.click()
    assert shown(page) == ["torch2.4-cuda12.4"]
    assert field(page, "CUDA").input_value() == "12.4"


def test_a_gpu_that_an_image_lacks_leads_to_one_that_has_it(visit):
    page = visit()
    field(page, "PyTorch").select_option("2.8")
    field(page, "CUDA").select_option("12.9")
    field(page, "GPU").select_option("7.0")
    page.get_by_role("status").get_by_role("link").click()
    assert shown(page) == ["torch2.8-cuda12.6"]
    assert "yes: machine code" in page.get_by_role("status").inner_text()


def test_a_link_of_the_table_shows_its_cell_again_and_again(visit):
    page = visit()
    link = page.get_by_role("table").first.get_by_role("link", name="torch 2.11.0 · CUDA 12.9")
    for _ in range(2):
        page.get_by_role("table").first.locator("a").last.scroll_into_view_if_needed()
        link.click()
        assert shown(page) == ["torch2.11-cuda12.9"]
        assert page.evaluate("document.activeElement.textContent") == "torch 2.11.0 · CUDA 12.9"
        assert "Not published yet." in page.get_by_role("status").inner_text()


def test_the_way_back_shows_the_cell_before(visit):
    page = visit()
    table = page.get_by_role("table").first
    for name in ("torch 2.11.0 · CUDA 12.9", "torch 2.8.0 · CUDA 12.6"):
        table.get_by_role("link", name=name).click()
    page.go_back()
    page.wait_for_function("location.hash === '#torch2.11-cuda12.9'")
    assert shown(page) == ["torch2.11-cuda12.9"]


def test_an_address_with_a_cell_opens_it(visit, home):
    assert shown(visit(f"{home}#torch2.6-cuda12.4")) == ["torch2.6-cuda12.4"]
    assert len(shown(visit(f"{home}#<img src=x>"))) == 1


def test_the_keyboard_alone_gets_there(visit):
    page = visit()
    names = []
    for _ in range(3):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.name"))
    assert names == ["torch", "cuda", "gpu"]
    page.keyboard.type("H100")
    assert field(page, "GPU").input_value() == "9.0"
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"


def test_without_a_script_all_of_it_is_there_to_read(visit):
    page = visit(java_script_enabled=False)
    assert not page.locator("#choose").is_visible()
    rows = page.locator("#all table tbody tr")
    assert rows.count() == len(shown(page)) == 22
    assert made.SLUG in rows.filter(has_text="torch 2.11.0 · CUDA 13.0").inner_text()
    assert rows.filter(has_text="not published yet").count() == 21


@pytest.mark.parametrize("width", [360, 320])
def test_a_phone_scrolls_down_and_not_sideways(visit, width):
    page = visit(viewport={**PHONE, "width": width})
    for torch, cuda in (("2.11", "13.0"), ("2.4", "12.9"), ("2.4", "12.4")):
        field(page, "PyTorch").select_option(torch)
        field(page, "CUDA").select_option(cuda)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        keep(page, f"phone-{width}-{torch}-{cuda}")
    assert field(page, "GPU").bounding_box()["height"] >= 40


@pytest.mark.parametrize(("zoom", "text"), [(2, 1), (4, 1), (1, 2)])
def test_twice_as_large_it_still_does_not_scroll_sideways(visit, zoom, text):
    # A zoom gives a page fewer and larger pixels; a browser's setting enlarges the text alone.
    page = visit(viewport={"width": 1280 // zoom, "height": 900 // zoom},
                 device_scale_factor=zoom)
    page.evaluate(f"document.documentElement.style.fontSize = '{100 * text}%'")
    field(page, "PyTorch").select_option("2.11")
    field(page, "CUDA").select_option("13.0")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280 // zoom
    keep(page, f"zoom-{zoom}-text-{text}")


def test_nothing_moves_by_itself(visit):
    page = visit()
    assert page.evaluate("""[...document.querySelectorAll('*')].filter((one) => {
        const style = getComputedStyle(one);
        return style.animationName !== 'none' || parseFloat(style.transitionDuration) > 0
            || style.scrollBehavior !== 'auto';
    }).length""") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_scheme_has_its_colours(visit, scheme):
    page = visit(color_scheme=scheme)
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    bright = sum(map(int, colour.removeprefix("rgb(").rstrip(")").split(","))) > 380
    assert bright is (scheme == "light")
    keep(page, scheme)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("pair", [("2.11", "13.0"), ("2.4", "12.9"), None], ids=str)
def test_axe_finds_nothing(visit, axe, scheme, view, pair):
    page = visit(color_scheme=scheme, viewport=view)
    if pair is None:  # what a reader without a script has: everything at once
        page.evaluate("for (const one of document.querySelectorAll('[hidden]')) one.hidden = 0")
    else:
        field(page, "PyTorch").select_option(pair[0])
        field(page, "CUDA").select_option(pair[1])
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = 1")
    assert violations(page, axe) == []


@pytest.mark.parametrize(("spoil", "rule"), [
    ("document.querySelector('label').replaceWith(document.querySelector('select'))",
     "select-name"),
    ("document.querySelector('.lead').style.color = '#bbb'", "color-contrast"),
    ("document.documentElement.removeAttribute('lang')", "html-has-lang"),
])
def test_axe_would_find_a_fault(visit, axe, spoil, rule):
    page = visit()
    page.evaluate(spoil)
    assert [one for one in violations(page, axe) if one.startswith(rule)]
