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
from apexlab.build.site.published import PUBLIC_KEY, slug_of
from apexlab.build.site.records import REPORT, RESULT, VERIFY, Shown
from apexlab.build.site.speeds import add_speeds
from apexlab.verify.html.elements import add, code_block, details, items, link, pairs, table


def add_cell(parent: ET.Element, matrix: Matrix, cell: Cell, shown: Shown | None) -> None:
    """One article, which a link and the chooser can name."""
    slug = slug_of(cell)
    place = add(parent, "article", id=slug, aria_labelledby=f"{slug}-title",
                data_torch=minor(cell.torch), data_cuda=cell.cuda)
    add(place, "h3", f"torch {cell.torch} · CUDA {cell.cuda}", id=f"{slug}-title", tabindex="-1")
    if shown is None:
        _unpublished(place, cell)
    else:
        _image(place, cell, shown)
        _proof(place, shown)
        _bench(place, shown)
        _check(place, shown)
    _gpus(place, matrix, cell, shown)
    _inside(place, matrix, cell, shown)


def _unpublished(place: ET.Element, cell: Cell) -> None:
    add(place, "p", "Not published yet.", style="state open")
    add(place, "p", "There is no image to pull. From a checkout, on a machine with Docker, this "
                    "builds it:")
    code_block(place, "The command that builds it",
               [f"make image TORCH={minor(cell.torch)} CUDA={cell.cuda}"])


def _image(place: ET.Element, cell: Cell, shown: Shown) -> None:
    said = shown.published
    name = f"{said['image']}:{words.tag_of(shown)}"
    if shown.stand_in:
        add(place, "p", f"Stand-in ({said['source']}): this is not Apex. It shows how the page "
                        "works.", style="banner")
    add(place, "p", f"Published, {words.in_short(shown)}.", style="state good")
    code_block(place, "The commands that pull and use it", [
        f"docker pull {name}",
        f"docker pull {said['image']}@{said['digest']}   # this very image, whatever the tag is "
        "by then",
        f"docker run --rm --gpus all {name}   # verifies it on your GPU"])
    staying = ", ".join(tag["name"] for tag in said["tags"] if not tag["moves"])
    pairs(place, (
        ("image", name), ("digest", said["digest"]), ("tag that never moves", staying),
        ("to download", words.size(said["bytes"])),
        ("Apex's extensions", words.size(_extensions_size(shown))), ("made", said["created"]),
        ("verified", str(shown.verified.document.get("created") or "")),
        ("published", said["published"] or "")), ("image", "digest", "tag that never moves"))
    if later := words.moved_on(cell, shown):
        add(place, "p", later)


def _extensions_size(shown: Shown) -> int | None:
    sizes = [one.bytes for one in shown.record.built]
    return sum(sizes) if sizes and all(isinstance(one, int) for one in sizes) else None


def _proof(place: ET.Element, shown: Shown) -> None:
    slug = shown.slug
    add(place, "h4", "What is proven")
    add(place, "p", words.proven(shown))
    extensions = shown.verified.document["extensions"]
    table(details(place, f"{len(extensions)} extensions, one by one"), f"Extensions of {slug}",
          ("extension", "status", "code for", "calls proven"), (
              (one["name"], one["status"], " ".join((*one["targets"], *one["ptx"])),
               _calls(one["proofs"])) for one in extensions))
    last = add(place, "p")
    link(last, "The whole verify report (JSON)", f"records/{slug}/{VERIFY}")


def _calls(proofs: list[dict[str, Any]]) -> str:
    good = sum(one["verdict"] == "proven" for one in proofs)
    return f"{good} of {len(proofs)}" if proofs else "not called"


def _bench(place: ET.Element, shown: Shown) -> None:
    add(place, "h4", "Does it pay?")
    if shown.measured is None:
        add(place, "p", "Not measured in this image.")
        return
    result = shown.measured.document
    add(place, "p", str(result.get("headline", "")))
    add_speeds(place, f"Speeds in {shown.slug}", result)
    advice = result.get("advice")
    sentences = [str(each.get("sentence", "")) for each in advice if isinstance(each, dict)] \
        if isinstance(advice, list) else []
    if sentences:
        items(details(place, "Part by part"), sentences)
    last = add(place, "p")
    if shown.page is not None:
        link(last, "Charts and every scenario", f"records/{shown.slug}/{REPORT}").tail = " · "
    link(last, "The result (JSON)", f"records/{shown.slug}/{RESULT}")


def _check(place: ET.Element, shown: Shown) -> None:
    said, trust = shown.published, shown.published["trust"]
    add(place, "h4", "Check the signature")
    image = reference.parse(f"{said['image']}@{said['digest']}")
    if trust["identity"]:
        whom = Trust(identity=trust["identity"], issuer=trust["issuer"] or "")
        option = shlex.join(("--repository", trust["repository"]) if trust["repository"] else
                            ("--identity", trust["identity"]))
        add(place, "p", "Signed by the workflow of the repository, with no key to keep:")
    else:
        whom, option = Trust(key=Path(PUBLIC_KEY)), f"--key {PUBLIC_KEY}"
        add(place, "p", f"Signed with a key; {PUBLIC_KEY} is its public half, from whoever "
                        "publishes:")
    code_block(place, "The commands that check the signature", [
        f"apexlab publish verify {image.by_digest} {option}", "# or with cosign alone:",
        *consumer.commands(image, whom)])


def _gpus(place: ET.Element, matrix: Matrix, cell: Cell, shown: Shown | None) -> None:
    judged = None if shown is None else {
        one["name"]: (*one["targets"], *one["ptx"])
        for one in shown.verified.document["extensions"] if one["targets"] or one["ptx"]}
    add(place, "h4", "On which GPU")
    list_ = add(place, "ul", style="gpus")
    for gpu in gpus.GPUS:
        found = gpus.fit(matrix, cell, gpu, judged)
        item = add(list_, "li", data_gpu=gpu.capability, style="good" if found.good else "bad")
        add(item, "strong", f"{gpu.names} ({gpu.capability})").tail = f": {found.text}"
        other = None if found.good else gpus.nearest(matrix, cell, gpu)
        if other is not None:
            last = item[-1]
            last.tail = f"{last.tail}. The nearest that has: "
            link(item, f"torch {other.torch} · CUDA {other.cuda}", f"#{slug_of(other)}")


def _inside(place: ET.Element, matrix: Matrix, cell: Cell, shown: Shown | None) -> None:
    toolkit, inside = matrix.toolkit(cell.cuda), words.inside(cell, shown)
    add(place, "h4", "What it is made of")
    pairs(place, (
        ("torch", inside.torch), ("source" if shown and shown.stand_in else "Apex", inside.apex),
        ("Python", inside.python), ("system", inside.system), ("built for", inside.archs),
        ("oldest driver", toolkit.driver_min if toolkit else ""),
        ("evidence", f"{cell.evidence}: {words.EVIDENCE[cell.evidence]}"),
        ("source of it", cell.source), ("note", cell.note)), ("Apex", "source"))
