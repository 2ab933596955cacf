"""The pure parts: levels, tags, layers, packages, statements, and what cosign is told."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import io
import json
import re
import tarfile
from datetime import datetime, timezone
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from made_images import (
    BORN,
    CELL,
    DPKG,
    FALLBACK,
    LATER,
    TORCH,
    at_load,
    digest_of,
    labels,
    layer,
    layers_of,
    record,
    report_of,
)

from apexlab.build.errors import RefusedError
from apexlab.build.matrix import load
from apexlab.build.publish import (
    contents,
    decide,
    evidence,
    provenance,
    reference,
    sbom,
    sign,
    tags,
)
from apexlab.build.publish.packages import Package, of_files
from apexlab.build.publish.registry import Manifest
from apexlab.build.publish.subject import Image, Subject, moment
from apexlab.verify.errors import UsageError
from apexlab.verify.record import parse_record

NOW = datetime(2026, 3, 1, tzinfo=timezone.utc)
PLACE = reference.parse("ghcr.io/me/apexlab@sha256:" + "a" * 64)
RULES = decide.Rules(NOW)


def subject(bench=True, **more) -> Subject:
    files = read(*layers_of(record(**more), bench))
    image = Image(PLACE, Manifest(b"{}", ""), moment(BORN), {}, {})
    return Subject(image, parse_record(files[contents.RECORD], "test"), of_files(files))


def read(*layers: bytes, digests=None) -> dict[str, bytes]:
    """What is seen of these layers, when they come under these digests."""
    by_digest = dict(zip(digests or map(digest_of, layers), layers, strict=True))
    named = [contents.Layer(name, len(data)) for name, data in by_digest.items()]
    return contents.read(named, lambda name: contextlib.nullcontext(io.BytesIO(by_digest[name])))


# -- what is asked for


@pytest.mark.parametrize(("evidence", "asked", "level"), [
    ("none", None, "load"), ("reported", None, "load"), ("built", None, "load"),
    ("proven", None, "run"), ("none", "run", "run"), ("proven", "load", "run"),
])
def test_a_proven_cell_is_proven_again_and_an_option_only_raises_the_level(evidence, asked, level):
    cell = dataclasses.replace(CELL, evidence=evidence)
    assert decide.level_of(cell, decide.Rules(NOW, asked)) == level


def test_without_any_report_nothing_is_published():
    assert "level" in [one.code for one in decide.refusals(subject(), (), (), CELL, RULES)]


def codes(report: dict, **more) -> set[str]:
    """Why an image of this record is refused with this report."""
    image = subject(**more)
    image = dataclasses.replace(image, image=dataclasses.replace(
        image.image, labels=labels(record(**more))))
    return {one.code for one in decide.refusals(
        image, (evidence.verified(report, "report.json"),), (), CELL, RULES)}


GOOD = report_of(PLACE.digest, record())


def test_the_real_report_of_this_image_is_good_at_both_levels():
    assert codes(GOOD) == set() and codes(at_load(GOOD)) == set()


@pytest.mark.parametrize(("change", "code"), [
    ({"image": "sha256:" + "1" * 64}, "other-digest"),
    ({"image": None}, "no-digest"),
    ({"created": "2026-02-03T04:05:05+00:00"}, "older"),
    ({"created": "2026-03-01T01:00:00+00:00"}, "future"),
    ({"created": None}, "no-time"),
    ({"created": "2026-02-03T05:00:00"}, "no-time"),
    ({"record": None}, "other-record"),
    ({"record": record(created=LATER)}, "other-record"),
    ({"kind": "wheel"}, "no-site"),
    ({"level_reached": "static"}, "level"),
    ({"exit_code": 4, "verdict": "incomplete"}, "not-ok"),
    ({"exit_code": 0, "verdict": "incomplete"}, "not-ok"),
    ({"exit_code": 1}, "not-ok"),
    ({"environment": {**GOOD["environment"], "torch": "2.11.0+cu126"}}, "other-torch"),
    ({"extensions": [{**one, "sha256": "0" * 64} for one in GOOD["extensions"]]}, "other-files"),
    ({"extensions": [{**one, "status": "loaded"} for one in GOOD["extensions"]]}, "extensions"),
    ({"extensions": GOOD["extensions"][1:]}, "extensions"),
    ({"environment": {**GOOD["environment"], "devices": []}}, "contradiction"),
    ({"findings": [{"code": "x", "severity": "fallback", "message": "", "fix": "",
                    "extensions": []}]}, "contradiction"),
], ids=lambda value: value if isinstance(value, str) else " ".join(value))
def test_each_fault_of_a_report_is_a_reason_of_its_own(change, code):
    assert codes({**GOOD, **change}) == {code}


@pytest.mark.parametrize(("change", "found"), [
    ({}, set()), ({"created": "2026-02-03T04:05:05+00:00"}, {"older-bench"}),
    ({"state": "partial"}, {"part-bench"}), ({"record": None}, {"other-bench"}),
], ids=str)
def test_a_benchmark_is_of_this_image_and_whole(change, found):
    result = evidence.measured({"schema": "apexlab.bench/1", "created": LATER, "record": record(),
                                **change}, "result.json")
    image = dataclasses.replace(subject(), image=dataclasses.replace(
        subject().image, labels=labels(record())))
    assert {one.code for one in decide.refusals(
        image, (evidence.verified(GOOD, "report.json"),), (result,), CELL, RULES)} == found


def test_the_fallback_that_an_h200_saw_is_refused():
    found = record(FALLBACK)
    assert "not-ok" in codes(report_of(PLACE.digest, found, FALLBACK),
                             requested=found["requested"], built=found["built"])


def test_latest_is_the_newest_torch_with_its_newest_cuda():
    cell = tags.newest(load())
    assert all((one.torch, one.cuda) == (cell.torch, cell.cuda)
               or [int(n) for n in one.torch.split(".")] <= [int(n) for n in cell.torch.split(".")]
               for one in load().cells)


@pytest.mark.parametrize(("image", "slug"), [
    (subject(), "torch2.11-cuda13.0"),
    (subject(bench=False), "torch2.11-cuda13.0-runtime"),
    (subject(profile="full"), "torch2.11-cuda13.0-full"),
    (subject(bench=False, source="Some Thing"), "torch2.11-cuda13.0-runtime-some-thing"),
], ids=["bench", "runtime", "full", "stand-in"])  # fmt: skip
def test_an_image_gets_a_tag_that_stays_and_one_that_moves(image, slug):
    stays, moves = tags.names(image, CELL, load())
    assert (stays.name, stays.moves) == (f"{slug}-20260203-aaaaaaaa", False)
    assert (moves.name, moves.moves) == (slug, True)


# -- names of images


@pytest.mark.parametrize("text", [
    "ghcr.io/me/apexlab", "127.0.0.1:5000/x/y:tag", "localhost:5000/x", "vm:5443/a/b",
])
def test_a_name_is_read_in_its_parts(text):
    assert reference.parse(text).registry == text.split("/")[0]


@pytest.mark.parametrize("text", [
    "apexlab", "me/apexlab", "ghcr.io/Me/apexlab", "ghcr.io/me/apexlab@sha256:12", "", "https://x/y",
    "ghcr.io/me/x@sha256:" + "A" * 64, "-x/y", "-x:5000/y", "ghcr.io/me/x:\u0442\u0435\u0433",
    "localhost:99999/x", "localhost:0/x", "ghcr.io/me/../x", "ghcr.io/me/x:v1\n",
])
def test_what_is_no_full_name_is_refused(text):
    with pytest.raises(UsageError):
        reference.parse(text)


@pytest.mark.parametrize("text", ["ghcr.io/me/x:v1", "ghcr.io/me/x:v1@sha256:" + "a" * 64])
def test_a_tag_is_not_taken_for_a_digest(text):
    with pytest.raises(UsageError):
        reference.parse_digest(text)


# -- what is in an image


def with_members(*members: tuple[str, bytes | None, bytes]) -> bytes:
    """A layer of (name, content, type); None for no content."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name, content, kind in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "elsewhere" if kind == tarfile.SYMTYPE else ""
            member.size = len(content or b"")
            tar.addfile(member, io.BytesIO(content or b""))
    return gzip.compress(raw.getvalue())


BASE = layer({contents.RECORD: "old", contents.DPKG: DPKG})


@pytest.mark.parametrize(("above", "seen"), [
    (layer({contents.RECORD: "new"}), b"new"),
    (layer({"./" + contents.RECORD: "new"}), b"new"),
    (layer({"opt/apexlab/.wh.record.json": ""}), None),
    (layer({"opt/.wh.apexlab": ""}), None),
    (layer({"opt/apexlab/.wh..wh..opq": ""}), None),
    (layer({"opt/apexlab/.wh..wh..opq": "", contents.RECORD: "new"}), b"new"),
    (with_members((contents.RECORD, None, tarfile.SYMTYPE)), None),
    (with_members(("opt/apexlab", None, tarfile.SYMTYPE)), None),
    (with_members(("opt/apexlab", None, tarfile.DIRTYPE)), b"old"),
    (layer({"opt/apexlab/record.json.bak": "x"}), b"old"),
], ids=["newer", "dot", "whiteout", "folder", "opaque", "opaque-and-new", "link", "folder-is-link",
        "folder-again", "beside"])  # fmt: skip
def test_a_later_layer_decides_what_a_file_is(above, seen):
    files = read(BASE, above)
    assert files.get(contents.RECORD) == seen
    assert contents.DPKG in files


@pytest.mark.parametrize("data", [b"no archive", BASE[:-20], BASE + b"x", b"", BASE[::-1]],
                         ids=["other", "short", "long", "empty", "turned"])
def test_a_layer_that_is_not_what_its_digest_says_is_refused(data):
    with pytest.raises(RefusedError, match="not what its digest says"):
        contents.read([contents.Layer(digest_of(BASE), len(BASE))],
                      lambda _: contextlib.nullcontext(io.BytesIO(data)))


@pytest.mark.parametrize("data", [b"no archive" * 100, gzip.compress(b"no archive" * 100, mtime=0),
                                  b"\x28\xb5\x2f\xfd" * 200])
def test_a_layer_that_is_no_archive_is_never_an_empty_one(data):
    with pytest.raises(RefusedError, match="cannot be read"):
        read(data)


def test_a_name_that_climbs_is_refused():
    with pytest.raises(RefusedError, match="may be any other"):
        read(layer({"tmp/../" + contents.RECORD: "{}"}))


def test_a_file_that_is_far_too_large_is_refused():
    with pytest.raises(RefusedError, match="far more"):
        read(layer({contents.RECORD: b"\0" * (contents.MOST + 1)}))


def test_packages_are_those_that_are_installed():
    site = "/opt/venv/lib/python3.10/site-packages"
    assert subject().packages == (
        Package("deb", "libc6", "2.36-9+deb12u13", "amd64"),
        Package("pypi", "apexlab-bench", "0.1.0", home=site),
        Package("pypi", "apexlab-verify", "0.1.0", home=site),
        Package("pypi", "torch", TORCH, home=site))


def test_the_list_of_packages_follows_its_standard_and_names_the_digest():
    document = sbom.sbom(subject())
    assert JsonStrictValidator(SchemaVersion.V1_5).validate_str(json.dumps(document)) is None
    assert document["metadata"]["component"]["version"] == PLACE.digest
    urls = {one.get("purl") for one in document["components"]}
    assert "pkg:pypi/torch@2.11.0%2Bcu130" in urls
    assert "pkg:deb/ubuntu/libc6@2.36-9%2Bdeb12u13?arch=amd64" in urls
    assert CELL.ref in {one.get("version") for one in document["components"]}


def test_the_statements_are_the_same_in_every_run():
    assert sbom.sbom(subject()) == sbom.sbom(subject())
    one = provenance.provenance(subject(), "x")
    assert one == provenance.provenance(subject(), "x")
    (apex,) = [entry for entry in one["buildDefinition"]["resolvedDependencies"]
               if "gitCommit" in entry.get("digest", {})]
    assert apex["uri"] == f"git+https://github.com/NVIDIA/apex.git@{CELL.ref}"


# -- whose signature counts


ACTIONS = {"GITHUB_REPOSITORY": "me/ap.ex", "ACTIONS_ID_TOKEN_REQUEST_URL": "https://x",
           "GITHUB_ACTIONS": "true", "GITHUB_WORKFLOW_REF": "me/ap.ex/.github/workflows/i.yml@main"}


def test_in_a_workflow_the_identity_is_that_of_this_repository_alone():
    identity = sign.own_identity(ACTIONS)
    own = "https://github.com/me/ap.ex/.github/workflows/images.yml@refs/heads/main"
    assert re.match(identity, own)
    for other in (own.replace("ap.ex", "apxex"), own.replace("me/", "you/"), "x" + own,
                  own.replace("ap.ex", "ap.ex2")):
        assert not re.match(identity, other)
    assert sign.Trust(identity=identity).options == (
        "--certificate-identity-regexp", identity, "--certificate-oidc-issuer",
        "https://token.actions.githubusercontent.com")


def test_without_a_key_and_outside_of_a_workflow_there_is_nothing_to_sign_with():
    with pytest.raises(UsageError, match="--key FILE"):
        sign.own_identity({"GITHUB_REPOSITORY": "me/x"})


@pytest.mark.parametrize("name", ["me/x|.*", "me", "me/x/y", "me/", "me/x\n"])
def test_a_repository_is_never_a_pattern_for_many(name):
    with pytest.raises(UsageError, match="OWNER/NAME"):
        sign.identity_of(name)


def test_a_key_needs_no_public_log():
    trust = sign.Trust(key=Path("cosign.pub"))
    assert trust.options == ("--key", "cosign.pub", "--private-infrastructure")


@pytest.mark.parametrize(("said", "words"), [
    ({"apex": "a" * 40}, f"apex: provenance {'a' * 40}, record {CELL.ref}"),
    ({"archs": ["9.0"]}, "archs: provenance ['9.0']"),
    ({"torch": None}, "torch: provenance None"),
])
def test_a_provenance_is_held_against_the_record(said, words):
    image = subject()
    made = provenance.provenance(image, "x")
    assert provenance.disagreements(made, image.record) == []
    made["buildDefinition"]["externalParameters"].update(said)
    (found,) = provenance.disagreements(made, image.record)
    assert words in found


@pytest.mark.parametrize("made", [{}, [], None, {"buildDefinition": {"externalParameters": [1]}}])
def test_what_is_no_provenance_agrees_with_nothing(made):
    assert provenance.disagreements(made, subject().record)


@pytest.mark.parametrize(("tag", "fits"), [
    ("", True), ("latest", True), ("mine", True), ("torch2.11-cuda13.0", True),
    ("torch2.11-cuda13.0-runtime", True), ("torch2.11-cuda13.0-20260203-aaaaaaaa", True),
    ("torch2.11-cuda13.0-20260203-bbbbbbbb", False), ("torch2.11-cuda12.9", False),
    ("torch2.1-cuda13.0", False), ("torch2.11-cuda13.01", False), ("x-20260203-bbbbbbbb", False),
])
def test_a_tag_that_was_moved_to_another_signed_image_is_noticed(tag, fits):
    image = Image(dataclasses.replace(PLACE, tag=tag), Manifest(b"{}", ""), moment(BORN),
                  labels(record()), {})
    reports = (evidence.verified(GOOD, "report.json"),)
    assert {one.code for one in decide.consumer_refusals(image, reports, "run")} == \
        (set() if fits else {"other-tag"})


def test_who_built_it_is_the_workflow_or_a_person():
    assert provenance.builder(ACTIONS) == \
        "https://github.com/me/ap.ex/.github/workflows/i.yml@main"
    assert provenance.builder({}) == provenance.LOCAL_BUILDER


@pytest.mark.parametrize(("text", "seen"), [
    ("2026-02-03T04:05:06.123456789Z", BORN), (BORN, BORN), ("2026-02-03T05:05:06+01:00", BORN),
    ("0001-01-01T00:00:00+01:00", None),
    ("2026-02-03T04:05:06", None), ("yesterday", None), (None, None), (7, None),
])
def test_a_time_is_read_as_engines_and_python_write_it(text, seen):
    assert moment(text) == (moment(seen) if seen else None)
