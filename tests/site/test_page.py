"""The page as text: what is in it for each cell, and that values stay values."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import made_records as made
import pytest

from apexlab.build.matrix import load
from apexlab.build.publish import evidence
from apexlab.build.rows import minor, numbers
from apexlab.build.site import gpus, records
from apexlab.build.site.cell import add_cell
from apexlab.build.site.page import page
from apexlab.build.site.published import slug_of
from apexlab.verify.arch import Arch

MATRIX = load()
VOID = {"meta", "link", "br", "hr", "img", "input"}
HOSTILE = "</code><script>alert(1)</script>\"'>&\u202e\x1b[31m"


class Page(HTMLParser):
    """The page as a reader of HTML has it: `text` by the id of what is around it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.open, self.text = [], [], {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag not in VOID:
            self.open.append((tag, given.get("id")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, name in self.open:
            self.text[name] = self.text.get(name, "") + data

    def all(self, tag):
        return [given for name, given in self.tags if name == tag]


def made_page(tmp_path, report=None, demo=False, said=None, result=None) -> str:
    folder = made.put(tmp_path, report, said, result)
    shown, _ = records.read(folder, MATRIX, demo)
    return page(MATRIX, shown, demo)


@pytest.fixture(scope="module")
def empty():
    return Page(page(MATRIX, {}, False))


def test_every_cell_is_in_the_table_and_has_its_details(empty):
    slugs = [slug_of(cell) for cell in MATRIX.cells]
    links = [a["href"] for a in empty.all("a")]
    assert len(set(slugs)) == len(slugs) and all(f"#{slug}" in links for slug in slugs)
    assert [a["id"] for a in empty.all("article")] == slugs
    assert empty.open == []


def test_a_cell_without_a_record_says_so_plainly_and_names_no_image(empty):
    for cell in MATRIX.cells:
        text = empty.text[slug_of(cell)]
        assert "Not published yet" in text and "docker pull" not in text
        assert f"make image TORCH={minor(cell.torch)} CUDA={cell.cuda}" in text


def test_a_published_cell_has_what_a_person_needs(tmp_path):
    text = Page(made_page(tmp_path, result=made.bench("apex"))).text[made.SLUG]
    for part in (f"docker pull {made.IMAGE}:{made.SLUG}", made.DIGEST,
                 f"{made.SLUG}-20260203-abababab", "4.21 GB", "13 MB",
                 "proven: run on NVIDIA H200 (9.0)", "Made up for a test",
                 "--repository team/apexlab", "cosign verify ", "Every extension ran on a GPU"):
        assert part in text, part
    assert "Not published yet" not in text


def test_a_cell_that_was_only_loaded_is_not_called_run(tmp_path):
    report = made.at_load(made.report())
    text = Page(made_page(tmp_path, report)).text[made.SLUG]
    assert "loaded, not run" in text and "its kernels were not run" in text
    assert "ran on a GPU" not in text and "Not measured in this image" in text


def test_an_image_that_a_key_signed_is_checked_with_the_key(tmp_path):
    said = made.published(made.report(), trust=dict.fromkeys(("identity", "issuer", "repository")))
    text = Page(made_page(tmp_path, said=said)).text[made.SLUG]
    assert "--key cosign.pub" in text and "--repository" not in text


def test_a_stand_in_is_called_that_at_the_top_in_its_row_and_in_its_details(tmp_path):
    seen = Page(made_page(tmp_path, made.report("standin"), demo=True))
    whole = seen.text[None]
    assert whole.index("Demonstration") < whole.index("Find the image")
    assert "this is not Apex" in seen.text[made.SLUG]
    assert f"{made.SLUG} (stand-in, not Apex)" in whole and "0 of 22 cells" in whole
    assert "Demonstration" not in page(MATRIX, {}, False)


def test_nothing_is_loaded_from_elsewhere(tmp_path):
    text = made_page(tmp_path, result=made.bench("apex"))
    seen = Page(text)
    assert not [given for _, given in seen.tags if "src" in given or "action" in given]
    for given in seen.all("a"):
        assert re.fullmatch(r"#torch[\d.]+-cuda[\d.]+|records/torch[\d.]+-cuda[\d.]+/"
                            r"(verify|result)\.json|records/[\w.-]+/report\.html", given["href"])
    assert [given["href"] for given in seen.all("link")] == ["data:,"]
    assert "@import" not in text and "url(" not in text


def test_every_pair_that_is_no_cell_says_why_and_names_cells_that_are(empty):
    slugs = {slug_of(cell) for cell in MATRIX.cells}
    torches = {minor(one.torch) for one in MATRIX.wheels}
    pairs = {f"torch{torch}-cuda{kit.cuda}" for torch in torches for kit in MATRIX.toolkits}
    assert {given["id"] for given in empty.all("li") if "id" in given} == \
        {f"no-{pair}" for pair in pairs - slugs}
    assert slugs <= pairs
    text = empty.text["no-torch2.4-cuda12.9"]
    assert "torch 2.4 has no wheels for CUDA 12.9" in text
    assert "torch 2.4.1 · CUDA 12.4" in text and "torch 2.8.0 · CUDA 12.9" in text


def test_hostile_values_are_text_and_nothing_else(tmp_path):
    report = made.report()
    for one in report["extensions"]:
        one["name"] = HOSTILE
    report["environment"]["devices"][0]["name"] = HOSTILE
    said = made.published(report, created=HOSTILE, published=HOSTILE,
                          trust={"identity": HOSTILE, "issuer": HOSTILE, "repository": HOSTILE})
    result = made.bench("apex", headline=HOSTILE, advice=[{"sentence": HOSTILE}, HOSTILE])
    folder = made.put(tmp_path, report, said, result, text="<p>")
    text = page(MATRIX, records.read(folder, MATRIX, False)[0], False)
    seen = Page(text)
    assert seen.open == [] and len(seen.all("script")) == 1
    assert seen.text[made.SLUG].count("alert(1)") > 10, seen.text[made.SLUG]
    assert all(char.isprintable() or char == "\n" for char in text)


def test_a_value_of_the_trust_cannot_add_a_command_to_copy(tmp_path):
    report = made.report()
    trust = {"identity": "x'; curl evil #", "issuer": "$(evil)", "repository": "a/b; evil"}
    text = Page(made_page(tmp_path, report, said=made.published(report, trust=trust)))
    shown = text.text[made.SLUG]
    assert "'a/b; evil'" in shown and "'$(evil)'" in shown and "x'; curl" not in shown


ODD = [None, True, -1, 0, 7, 10**400, 1e308, float("inf"), "", HOSTILE, [], [[]], {}, {"a": {}}]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """What is known of the published cell."""
    return records.read(made.put(tmp_path_factory.mktemp("records")), MATRIX, False)[0][made.SLUG]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: str(odd)[:20])
def test_a_benchmark_with_anything_in_it_makes_a_page_all_the_same(one, odd):
    for name in ("scenarios", "speedup", "ratio", "low", "high", "title", "verdict"):
        speed = {"ratio": 2.0, "low": 1.9, "high": 2.1, "verdict": "FAST", name: odd}
        result = {"headline": odd, "advice": odd, "plan": {"baseline": odd}, "scenarios": [
            odd, {"title": "x", "speedup": speed, name: odd}]}
        for given in (result, {**result, "scenarios": odd, "plan": odd, "advice": [odd]}):
            measured = evidence.Measured("made", given, None, None, True)
            place = ET.Element("div")
            add_cell(place, MATRIX, made.CELL, replace(one, measured=measured))
            text = ET.tostring(place, encoding="unicode", method="html")
            assert Page(text).open == [] and len(text) < 50_000
            assert all(0 <= float(width) <= 100 for width in re.findall(r'width="([^"]*)"', text))


def test_sizes_that_cannot_be_are_left_out(tmp_path):
    report = made.report()
    for one in report["record"]["built"]:
        one["bytes"] = 9 * 10**15
    text = Page(made_page(tmp_path, report)).text[made.SLUG]
    assert "Apex's extensions" not in text and "4.21 GB" in text


# -- speeds


def test_the_chart_shows_each_speed_with_its_interval_the_fastest_first(tmp_path):
    seen = Page(made_page(tmp_path, made.report("standin"), True, result=made.bench("standin")))
    text = seen.text[made.SLUG]
    measured = [one for one in made.MEASURED["scenarios"] if one["speedup"]]
    assert len(measured) > 2
    ranked = sorted(measured, key=lambda one: -one["speedup"]["ratio"])
    places = [text.index(f"{one['title']}{one['speedup']['ratio']:.3g}×") for one in ranked]
    assert places == sorted(places)
    widths = [float(one["width"]) for one in seen.all("rect")]
    assert widths[0] == 100 and widths == sorted(widths, reverse=True)
    assert len(widths) == len(measured)


def test_a_benchmark_that_compared_nothing_has_no_chart(tmp_path):
    text = made_page(tmp_path, result=made.bench("apex", scenarios=[]))
    assert "How many times as fast" not in text and "<rect" not in text


# -- the matrix goes on, and images stay


def test_an_older_image_is_described_by_its_own_record(tmp_path):
    report = made.report()
    report["record"]["torch"]["version"] = report["environment"]["torch"] = "2.11.9+cu130"
    report["record"]["apex"]["commit"] = "a" * 40
    report["record"]["archs"] = ["9.0"]
    report["record"]["images"] = {"base": {"name": "docker.io/nvidia/cuda:13.0.2-base-ubuntu26.04"}}
    seen = Page(made_page(tmp_path, report))
    text = seen.text[made.SLUG]
    for part in ("torch2.11.9+cu130", f"Apex{'a' * 40}", "built for9.0", "systemubuntu26.04",
                 "The next image of this cell will have torch 2.11.0 and Apex "
                 f"{made.CELL.ref[:8]}"):
        assert part in text, part
    row = f"{made.SLUG}proven: run on NVIDIA H200 (9.0)3.10ubuntu26.04aaaaaaaa9.0"
    assert row in seen.text["all"]


def test_an_image_as_the_matrix_has_it_says_nothing_of_a_next_one(tmp_path):
    assert "The next image" not in made_page(tmp_path)
    standin = made_page(tmp_path / "2", made.report("standin"), demo=True)
    assert "The next image" not in standin


# -- for everyone


def test_headings_go_down_one_step_at_a_time_and_what_scrolls_takes_the_keyboard(empty):
    levels = [int(tag[1]) for tag, _ in empty.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    for tag, given in empty.tags:
        if given.get("class") == "scroll" or tag == "pre":
            assert given["tabindex"] == "0" and given["aria-label"]
    ids = [given["id"] for _, given in empty.tags if "id" in given]
    assert len(ids) == len(set(ids)) and empty.all("html")[0]["lang"] == "en"


# -- GPUs


@pytest.mark.parametrize(("torch", "cuda", "capability", "good", "says"), [
    ("2.4.1", "12.4", "9.0", True, "machine code"), ("2.4.1", "12.4", "8.9", True, "machine code"),
    ("2.4.1", "12.4", "10.0", False, "torch 2.4.1 for CUDA 12.4 itself"),
    ("2.8.0", "12.8", "7.0", False, "Apex in this image"),
    ("2.8.0", "12.6", "7.0", True, "machine code"),
    ("2.11.0", "13.0", "10.3", True, "machine code"),
])
def test_a_gpu_needs_code_in_torch_and_in_apex(torch, cuda, capability, good, says):
    cell = next(one for one in MATRIX.cells if (one.torch, one.cuda) == (torch, cuda))
    gpu = next(one for one in gpus.GPUS if one.capability == capability)
    found = gpus.fit(MATRIX, cell, gpu)
    assert found.good is good and says in found.text


def test_a_published_image_runs_where_its_own_extensions_have_code_for_it(tmp_path):
    # The cell is to be built for six architectures; this report saw machine code for one.
    text = Page(made_page(tmp_path)).text[made.SLUG]
    assert "H100, H200 (9.0): yes" in text
    assert "A100, A30 (8.0): no: Apex in this image has no code for it" in text


def test_one_extension_without_code_for_a_gpu_is_named():
    cell, hopper = MATRIX.cells[-1], next(one for one in gpus.GPUS if one.capability == "9.0")
    judged = {"amp_C": ("sm_80",), "syncbn": ("sm_90",), "mlp_cuda": ("sm_80", "compute_80")}
    found = gpus.fit(MATRIX, cell, hopper, judged)
    assert not found.good and found.text == "in part: no code for it in amp_C"
    found = gpus.fit(MATRIX, cell, hopper, {**judged, "amp_C": ("sm_90",)})
    assert found.good and "the driver compiles" in found.text


def test_the_nearest_cell_for_a_gpu_keeps_torch_where_it_can_and_has_code_for_it():
    volta = gpus.GPUS[0]
    cell = next(one for one in MATRIX.cells if (one.torch, one.cuda) == ("2.8.0", "12.9"))
    near = gpus.nearest(MATRIX, cell, volta)
    assert (near.torch, near.cuda) == ("2.8.0", "12.6")
    assert gpus.nearest(MATRIX, cell, gpus.Gpu("none", Arch(1, 0))) is None
    for one in MATRIX.cells:
        for gpu in gpus.GPUS:
            assert gpus.fit(MATRIX, gpus.nearest(MATRIX, one, gpu), gpu).good


def test_the_choices_start_with_the_newest_version(empty):
    values = [given["value"] for given in empty.all("option")]
    torches = values[:values.index(max((kit.cuda for kit in MATRIX.toolkits), key=numbers))]
    assert torches == sorted(torches, key=numbers, reverse=True)


def test_the_scripts_hash_in_the_policy_is_that_of_the_script():
    import base64
    import hashlib

    text = page(MATRIX, {}, False)
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert Path(gpus.__file__).with_name("choose.js").read_text() == script
