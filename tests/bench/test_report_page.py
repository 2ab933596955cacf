"""The report as a page: complete, of one piece, readable by all, and blind to hostile names."""

import copy
import itertools
import math
import re
from html.parser import HTMLParser

import made_ops
import made_result as made
import pytest

from apexlab.bench.report import words
from apexlab.bench.report.page import page as pages
from apexlab.bench.report.page import rows
from apexlab.bench.report.page.charts import charts
from apexlab.bench.report.page.draw import ROLES
from apexlab.bench.report.page.page import page
from apexlab.verify.render import printable

TRAIN = {
    "all": {}, "stand-in": {"label": "stand-in"}, "none": {"label": None},
    "cpu": {"label": None, "device": "cpu", "ladder": "classic"},
    "one-round": {"ladder": "classic", "rounds": 1}, "cut": {"ladder": "modern", "finished": 2},
    "nothing": {"ladder": "classic", "finished": 0}, "two-gpus": {"ladder": "classic", "gpus": 2},
    "flat": {"ladder": "classic", "flat": True}, "alone": {"names": ["torch-fp32"]},
}  # fmt: skip
OPS = {"ops": {}, "ops-cpu": {"label": None, "device": "cpu", "quick": True},
       "ops-stand-in": {"label": "stand-in", "ops": ("adam",), "failed": ("torch-fused",)}}
NAMES = (*TRAIN, "awkward", *OPS)
CHARTS = {"ladder", "parts", "memory", "phases", "losses", "rounds"}
VOID = {"meta", "br", "link", "img", "input", "hr"}
# All that the page is made of. Anything else came from a name.
TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "section", "h1", "h2", "h3",
    "p", "ul", "li", "dl", "dt", "dd", "strong", "span", "div", "table", "thead", "tbody", "tr",
    "th", "td", "details", "summary", "pre", "code", "figure", "figcaption", "footer", "svg", "g",
    "path",
    "use", "defs", "text", "rect", "pattern", "clippath",
}  # fmt: skip
SCRIPT = "<script>alert(1)</script>"
HOSTILE = f"{SCRIPT} \x1b[31m \x00 \u202e & ' \" #fe0001 \udc80"


class Page(HTMLParser):
    """What a reader of the page sees, and what it is made of."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open, self.texts = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    def all(self, tag):
        return [attributes for found, attributes in self.tags if found == tag]

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


@pytest.fixture(scope="module")
def results():
    found = {name: made.result(**given) for name, given in TRAIN.items()}
    found |= {name: made_ops.result(**given) for name, given in OPS.items()}
    return {**found, "awkward": made.awkward()}


@pytest.fixture(scope="module")
def written(results):
    return {name: page(result) for name, result in results.items()}


def figures(text):
    return re.findall(r"<figure.*?</figure>", text, re.DOTALL)


def style(text):
    return re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]


def colours(text):
    """The colours of (light, dark, paper): those of all pages, and this page's own."""
    found = {"": {}, "@media (prefers-color-scheme: dark) {": {}, "@media print {": {}}
    for where, block in re.findall(r"(@media [^{]*\{)?\s*:root \{(.*?)\}", style(text), re.DOTALL):
        found[where].update(re.findall(r"--([\w-]+): (#\w+)", block))
    return tuple(found.values())


# -- of one piece


@pytest.mark.parametrize("name", NAMES)
def test_it_needs_nothing_from_outside_and_no_script(written, name):
    seen = Page(written[name])
    assert seen.open == []
    assert {tag for tag, _ in seen.tags} <= TAGS
    assert all(value.startswith("#") for key, value in seen.attributes if key == "href")
    keys = {key for key, _ in seen.attributes}
    assert not keys & {"src", "srcset", "action"} and not [key for key in keys if key[:2] == "on"]
    outside = re.compile(r"url\((?!#)|@import|https?:")
    assert not [value for key, value in seen.attributes if value and outside.search(value)]
    assert not outside.search(style(written[name]))
    assert "default-src 'none'" in written[name]


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_unique_and_every_reference_has_its_target(written, name):
    seen = Page(written[name])
    ids = [value for key, value in seen.attributes if key == "id"]
    assert len(ids) == len(set(ids))
    refer = [value for key, value in seen.attributes if key == "aria-labelledby"]
    refer += [found for key, value in seen.attributes if value and key not in ("id", "aria-label")
              for found in re.findall(r"(?:^|\()#([\w-]+)", value)]
    assert refer and set(refer) <= set(ids)


def test_a_result_of_all_scenarios_stays_small(written, results):
    assert len(results["all"]["scenarios"]) == 21
    assert results["all"]["plan"]["rounds"] == 5
    assert max(len(text.encode()) for text in written.values()) <= 1.5e6


@pytest.mark.parametrize("name", ["all", "ops"])
def test_equal_results_give_equal_pages(written, results, name):
    assert page(copy.deepcopy(results[name])) == written[name]


# -- what it says, in which order


def test_the_answer_comes_first_and_the_limits_last(written, results):
    ids = [each.get("id") for each in Page(written["two-gpus"]).all("section")]
    assert ids == ["noise", "ladder", "scenarios", "costs", "details", "rounds", "gpus",
                   "environment", "record", "method", "limits"]
    text = Page(written["all"]).text
    result = results["all"]
    assert text.index(result["headline"]) < text.index(result["advice"][0]["part"]) \
        < text.index("Noise and warnings")


@pytest.mark.parametrize("name", NAMES)
def test_every_piece_of_advice_is_there_under_its_verdict(written, results, name):
    text = Page(written[name].split("</header>")[0]).text
    for each in results[name]["advice"]:
        group = pages._ADVICE[each["verdict"]][0]
        assert text.index(group) < text.index(each["part"], text.index(group))
        assert pages._said(each, results[name]) in text


@pytest.mark.parametrize("name", ["all", "cpu", "stand-in", "ops"])
def test_what_holds_for_all_advice_is_not_said_again_with_each(written, name):
    advice = Page(written[name].split("</header>")[0]).text
    assert "with this torch, at this shape" not in advice and "This holds for" not in advice
    assert "use it: " not in advice and "says nothing about Apex." not in advice.split("stand-in,")


@pytest.mark.parametrize("name", [*TRAIN, "awkward"])
def test_every_scenario_is_in_the_table_with_its_state(written, results, name):
    place = written[name].split('id="scenarios"')[1].split("</section>")[0]
    text = Page(f"<div>{place.split('>', 1)[1]}</div>").text
    for each in results[name]["scenarios"]:
        assert each["title"] in text
        if each["time"]:
            assert words.seconds(each["time"]["median"]) in text
        else:
            assert printable(each["why"]) in text
    for warning in results[name]["warnings"]:
        assert warning in Page(written[name]).text


def test_settings_proof_and_kernels_of_each_scenario_are_there(written, results):
    place = written["all"].split('id="details"')[1].split("</section>")[0]
    for each in results["all"]["scenarios"]:
        details = place.split(f"{each['title']}: ")[1].split("</details>")[0]
        assert f"<dd>{each['settings']['optimizer']}</dd>" in details
        assert each["proof"]["verdict"] in details and "kernels a step" in details
    assert "multi_tensor_apply_kernel&lt;TensorListMetadata&lt;4&gt;" in place


@pytest.mark.parametrize("name", list(OPS))
def test_every_operation_is_in_its_table_or_said_to_be_left_out(written, results, name):
    text = Page(written[name]).text
    for point in results[name]["points"]:
        assert point["title"] in text and printable(point["why"]).rstrip(".") in text
        if point["cold_us"]:
            assert words.microseconds(point["cold_us"]["median"]) in text


# -- charts


@pytest.mark.parametrize("name", NAMES)
def test_every_chart_has_a_finding_a_label_and_its_figures_as_a_table(written, name):
    found = figures(written[name])
    for figure in found:
        seen = Page(figure)
        svg, = seen.all("svg")
        title = re.search(r"<figcaption><strong>(.*?)</strong>", figure)[1]
        assert title and svg["role"] == "img" and len(svg["aria-label"]) > len(title)
        assert len(seen.all("tr")) > 1 and all("scope" in each for each in seen.all("th"))
    assert len(found) >= (0 if name == "nothing" else 1)


def test_there_is_a_chart_for_each_question(results):
    assert set(charts(results["all"])) == CHARTS
    assert set(charts(results["alone"])) == {"memory", "phases"}


@pytest.mark.parametrize("name", ["all", "ops"])
def test_the_drawings_take_every_colour_from_the_page(written, name):
    for figure in figures(written[name]):
        used = set(re.findall(r"var\(--(\w+)\)", figure))
        assert used and used <= set(ROLES)
        assert not re.search(r"(?:fill|stroke): ?#|(?:fill|stroke)=\"#", figure)
    light, dark, paper = colours(written[name])
    assert set(ROLES) <= set(light) and set(light) == set(dark) == set(paper)


def test_the_ladder_draws_each_speed_with_its_interval_and_says_the_verdict(results):
    chart = charts(results["all"])["ladder"]
    texts = [each.text for each in chart.drawing.iter("text")]
    for each in results["all"]["scenarios"][1:]:
        speed = each["speedup"]
        assert f"{words.ratio(speed['ratio'])} {speed['verdict']}" in texts
        row = next(row for row in chart.rows if row[0] == each["title"])
        assert row[2:] == (words.ratio(speed["ratio"]), words.span(speed), speed["verdict"])
    assert chart.title.startswith("Fastest is torch-fused-amp-bf16-compile: 8.")


def test_what_is_not_decided_is_not_called_the_fastest(results):
    result = copy.deepcopy(results["all"])
    for each in result["scenarios"]:
        if each["speedup"]:
            each["speedup"]["verdict"] = "UNDECIDED"
    baseline = result["plan"]["baseline"]
    assert charts(result)["ladder"].title == f"Nothing is sure to be faster than {baseline}"


def test_a_faster_scenario_has_a_longer_bar():
    result = made.result(ladder="classic", factors={"torch-amp-fp16": 2.0})
    drawing = charts(result)["ladder"].drawing
    bars = [each for each in drawing.iter("path") if "var(--fast)" in each.get("style")]
    lengths = [max(xs) - min(xs) for each in bars if (
        xs := [float(x) for x in re.findall(r"[ML] ([\d.]+) ", each.get("d"))])]
    speeds = [each["speedup"]["ratio"] for each in result["scenarios"]
              if each["speedup"] and each["speedup"]["verdict"] == "FAST"]
    assert len(lengths) == len(speeds) == 2
    assert (lengths[0] < lengths[1]) == (speeds[0] < speeds[1])


def test_colour_is_never_all_that_tells_two_verdicts_apart(results):
    drawing = charts(results["all"])["parts"].drawing
    patterns = list(drawing.iter("pattern"))
    assert len(patterns) >= 3  # of SLOW, SAME and UNDECIDED; FAST is plain
    assert len({each.find("path").get("d") for each in patterns}) == len(patterns)


def test_what_failed_or_trained_differently_is_in_the_charts_without_a_bar(results):
    result = copy.deepcopy(results["awkward"])
    entry = next(each for each in result["scenarios"] if each["name"] == "apex-amp-fp16")
    entry["speedup"], entry["parity"] = None, {"verdict": "fail", "why": "it drifts"}
    found = charts(result)
    told = {row[0]: row[-1] for row in found["ladder"].rows}
    assert told["torch-fused-amp-bf16-graph"] == "failed"
    assert told["torch-tf32"] == "not available" and told["apex-amp-fp16"] == "parity failed"
    assert "1 of" in found["losses"].title and "trained differently" in found["losses"].title
    assert any(each.text == "apex-amp-fp16 (failed)" for each in
               found["losses"].drawing.iter("text"))


def test_a_loss_that_is_no_number_leaves_a_gap(results):
    result = copy.deepcopy(results["all"])
    result["scenarios"][0]["losses"][3:6] = [None] * 3
    assert "nan" not in re.sub(r"[a-z]{4,}", "", str(charts(result)["losses"].drawing.attrib))
    assert Page(page(result)).open == []


@pytest.mark.parametrize("ends", [(0.92, 1.4), (0.95, 8.7), (0.97, 1.03), (0.3, 20), (0.99, 1.2)])
def test_ticks_of_ratios_never_touch(ends):
    ticks = rows.ratio_ticks(*ends)
    assert len(ticks) >= 2 and 1 in ticks
    scale = rows.WIDTH / math.log(ends[1] / ends[0])
    assert all(scale * math.log(b / a) > 35 for a, b in itertools.pairwise(ticks))


# -- labels


@pytest.mark.parametrize("name", ["stand-in", "ops-stand-in"])
def test_figures_of_the_stand_in_are_called_that_everywhere(written, name):
    text = written[name]
    assert text.index('class="banner"') < text.index("<h1")
    for figure in figures(text):
        assert "With the stand-in: " in figure and "apex" not in figure.lower()
    for table in re.findall(r"<table>.*?</table>", text, re.DOTALL):
        assert "apex" not in table.lower().replace("apex's kernels", "")


def test_the_banner_is_there_for_the_stand_in_alone(written):
    assert pages.STAND_IN not in written["all"] and "banner" not in Page(written["all"]).text


def test_what_was_not_proven_goes_under_what_ran(written, results):
    entry = next(each for each in results["awkward"]["scenarios"] if each["name"] == "apex-tf32")
    assert entry["title"] != "apex-tf32"
    for part in (*figures(written["awkward"]), written["awkward"].split('id="scenarios"')[1]
                 .split("</section>")[0]):
        assert "apex-tf32" not in part
    assert f"{printable(entry['title'])}: asked for was apex-tf32" in Page(written["awkward"]).text


def test_an_interrupted_run_says_so_at_the_top(written):
    for name in ("cut", "nothing"):
        assert written[name].index(pages._PARTIAL[:30]) < written[name].index("<h1")
    assert pages._PARTIAL[:30] not in written["all"]


# -- for everyone


@pytest.mark.parametrize("name", NAMES)
def test_headings_go_down_one_step_at_a_time_and_what_scrolls_takes_the_keyboard(written, name):
    seen = Page(written[name])
    levels = [int(tag[1]) for tag, _ in seen.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    for each in seen.all("div"):
        if each.get("class") == "scroll":
            assert each["tabindex"] == "0" and each["role"] == "group" and each["aria-label"]
    assert seen.all("html")[0]["lang"] == "en"


def test_it_is_made_for_light_and_dark_for_a_phone_and_for_paper(written):
    for part in ("prefers-color-scheme: dark", "max-width: 44rem", "@media print",
                 'name="viewport"', "overflow-x: auto"):
        assert part in written["all"]


def luminance(colour):
    colour = colour.lstrip("#")
    colour = "".join(2 * char for char in colour) if len(colour) == 3 else colour
    parts = [int(colour[at:at + 2], 16) / 255 for at in (0, 2, 4)]
    parts = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
             for part in parts]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_every_text_and_every_mark_stands_out_from_what_is_behind_it(written):
    for named in colours(written["all"]):
        for text in ("ink", "soft", "link", "good", "bad", "fast", "slow", "same"):
            for back in ("back", "page"):
                assert contrast(named[text], named[back]) >= 4.5, (text, back)
        for each in ("good", "bad", "note", "fast", "slow", "same"):
            assert contrast(named["ink"], named[f"{each}-back"]) >= 4.5
            assert contrast(named[each], named[f"{each}-back"]) >= 4.5, each
        for role in ROLES:
            if re.fullmatch(r"c\d", role):
                assert contrast(named[role], named["back"]) >= 3, role


# -- hostile names


def poisoned(value):
    """The same document with every free text replaced."""
    kept = {"kind", "state", "verdict", "noise", "schema", "label", "name", "role", "against",
            "scenario", "baseline", "op", "flags", "changes"}
    if isinstance(value, dict):
        return {key: each if key in kept else poisoned(each) for key, each in value.items()}
    if isinstance(value, list):
        return [poisoned(each) for each in value]
    return HOSTILE if isinstance(value, str) else value


@pytest.mark.parametrize("name", ["awkward", "two-gpus", "ops"])
def test_hostile_names_are_text_and_nothing_else(results, name):
    result = copy.deepcopy(results[name])
    result = {**poisoned(result), "record": {"source": HOSTILE}, "warnings": [HOSTILE]}
    result["environment"]["variables"] = {HOSTILE: HOSTILE}
    result["environment"]["apex"]["label"] = "Apex"
    text = page(result)
    assert all(char.isprintable() or char == "\n" for char in text)
    seen = Page(text)
    assert seen.open == [] and {tag for tag, _ in seen.tags} <= TAGS
    assert seen.text.count("alert(1)") > 20 and text.encode()
