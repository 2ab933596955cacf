"""The details of one cell: what to pull, what is proven, where it runs, how to check it. Pure."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from apexlab.build.publish import consumer, reference
from apexlab.build.publish.sign import Trust
from apexlab.build.rows import Cell, Matrix, minor
from apexlab.build.site import gpus, words
from apexlab.build.site.elements import code_block, link, pairs, put, region, row
from apexlab.build.site.published import PUBLIC_KEY, slug_of
from apexlab.build.site.records import REPORT, RESULT, VERIFY, Shown


def add_cell(parent: ET.Element, matrix: Matrix, cell: Cell, shown: Shown | None) -> None:
    """One article, which a link and the chooser can name."""
    slug = slug_of(cell)
    place = put(parent, "article", id=slug, aria_labelledby=f"{slug}-title",
                data_torch=minor(cell.torch), data_cuda=cell.cuda)
    put(place, "h3", f"torch {cell.torch} · CUDA {cell.cuda}", id=f"{slug}-title", tabindex="-1")
    if shown is None:
        _unpublished(place, cell)
    else:
        _image(place, shown)
        _proof(place, shown)
        _bench(place, shown)
        _check(place, shown)
    _gpus(place, matrix, cell, shown)
    _inside(place, matrix, cell)


def _unpublished(place: ET.Element, cell: Cell) -> None:
    put(place, "p", "Not published yet.", class_="state open")
    put(place, "p", "There is no image to pull. From a checkout, on a machine with Docker, this "
                    "builds it:")
    code_block(place, "The command that builds it",
               [f"make image TORCH={minor(cell.torch)} CUDA={cell.cuda}"])


def _image(place: ET.Element, shown: Shown) -> None:
    said = shown.published
    name = f"{said['image']}:{words.tag_of(shown)}"
    if shown.stand_in:
        put(place, "p", f"Stand-in ({said['source']}): this is not Apex. It shows how the page "
                        "works.", class_="banner")
    put(place, "p", f"Published, {words.in_short(shown)}.", class_="state good")
    code_block(place, "The commands that pull and use it", [
        f"docker pull {name}",
        f"docker pull {said['image']}@{said['digest']}   # this very image, whatever the tag is "
        "by then",
        f"docker run --rm --gpus all {name}   # verifies it on your GPU"])
    staying = ", ".join(tag["name"] for tag in said["tags"] if not tag["moves"])
    pairs(place, (
        ("image", name, True), ("digest", said["digest"], True),
        ("tag that never moves", staying, True),
        ("to download", words.size(said["bytes"]), False),
        ("Apex's extensions", words.size(_extensions_size(shown)), False),
        ("made", said["created"], False), ("published", said["published"], False)))


def _extensions_size(shown: Shown) -> int | None:
    sizes = [one.get("bytes") for one in shown.verified.document["record"]["built"]]
    return sum(sizes) if sizes and all(isinstance(one, int) for one in sizes) else None


def _proof(place: ET.Element, shown: Shown) -> None:
    slug = shown.slug
    put(place, "h4", "What is proven")
    put(place, "p", words.proven(shown))
    details = put(place, "details")
    extensions = shown.verified.document["extensions"]
    put(details, "summary", f"{len(extensions)} extensions, one by one")
    table = put(region(details, f"Extensions of {slug}"), "table")
    row(put(table, "thead"), ("extension", "status", "code for", "calls proven"), "th")
    body = put(table, "tbody")
    for one in extensions:
        row(body, (one["name"], one["status"], " ".join((*one["targets"], *one["ptx"])),
                   _calls(one["proofs"])))
    last = put(place, "p")
    link(last, "The whole verify report (JSON)", f"records/{slug}/{VERIFY}")


def _calls(proofs: list[dict[str, Any]]) -> str:
    good = sum(one["verdict"] == "proven" for one in proofs)
    return f"{good} of {len(proofs)}" if proofs else "not called"


def _bench(place: ET.Element, shown: Shown) -> None:
    put(place, "h4", "Does it pay?")
    if shown.measured is None:
        put(place, "p", "Not measured in this image.")
        return
    result = shown.measured.document
    put(place, "p", str(result.get("headline", "")))
    advice = [each for each in result.get("advice") or () if isinstance(each, dict)]
    if advice:
        details = put(place, "details")
        put(details, "summary", "Part by part")
        list_ = put(details, "ul")
        for each in advice:
            put(list_, "li", str(each.get("sentence", "")))
    last = put(place, "p")
    if shown.page:
        link(last, "Charts and every scenario", f"records/{shown.slug}/{REPORT}").tail = " · "
    link(last, "The result (JSON)", f"records/{shown.slug}/{RESULT}")


def _check(place: ET.Element, shown: Shown) -> None:
    said, trust = shown.published, shown.published["trust"]
    put(place, "h4", "Check the signature")
    image = reference.parse(f"{said['image']}@{said['digest']}")
    if trust["identity"]:
        whom = Trust(identity=trust["identity"], issuer=trust["issuer"] or "")
        option = shlex.join(("--repository", trust["repository"]) if trust["repository"] else
                            ("--identity", trust["identity"]))
        put(place, "p", "Signed by the workflow of the repository, with no key to keep:")
    else:
        whom, option = Trust(key=Path(PUBLIC_KEY)), f"--key {PUBLIC_KEY}"
        put(place, "p", f"Signed with a key; {PUBLIC_KEY} is its public half, from whoever "
                        "publishes:")
    code_block(place, "The commands that check the signature", [
        f"apexlab publish verify {image.by_digest} {option}", "# or with cosign alone:",
        *consumer.commands(image, whom)])


def _gpus(place: ET.Element, matrix: Matrix, cell: Cell, shown: Shown | None) -> None:
    judged = None if shown is None else {
        one["name"]: (*one["targets"], *one["ptx"])
        for one in shown.verified.document["extensions"] if one["targets"] or one["ptx"]}
    put(place, "h4", "On which GPU")
    list_ = put(place, "ul", class_="gpus")
    for gpu in gpus.GPUS:
        found = gpus.fit(matrix, cell, gpu, judged)
        item = put(list_, "li", data_gpu=gpu.capability, class_="good" if found.good else "bad")
        put(item, "strong", f"{gpu.names} ({gpu.capability})").tail = f": {found.text}"
        other = None if found.good else gpus.nearest(matrix, cell, gpu)
        if other is not None:
            last = item[-1]
            last.tail = f"{last.tail}. The nearest that has: "
            link(item, f"torch {other.torch} · CUDA {other.cuda}", f"#{slug_of(other)}")


def _inside(place: ET.Element, matrix: Matrix, cell: Cell) -> None:
    toolkit = matrix.toolkit(cell.cuda)
    put(place, "h4", "What it is made of")
    pairs(place, (
        ("Apex", cell.ref, True), ("Python", cell.python, False), ("system", cell.os, False),
        ("built for", " ".join(str(arch) for arch in cell.archs), False),
        ("oldest driver", toolkit.driver_min if toolkit else "", False),
        ("evidence", f"{cell.evidence}: {words.EVIDENCE[cell.evidence]}", False),
        ("source of it", cell.source, False), ("note", cell.note, False)))
