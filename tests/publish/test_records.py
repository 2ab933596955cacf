"""What the page is made from, collected from a real registry: signed statements and no more."""

from __future__ import annotations

import json
import subprocess

import pytest
from made_images import CELL, LATER, Repository, at_load, labels, layers_of, record, report_of

from apexlab.build.matrix import load
from apexlab.build.publish import provenance
from apexlab.build.site import records
from apexlab.verify.record import parse_record

pytestmark = pytest.mark.docker
SLUG, OTHER = "torch2.11-cuda13.0", "torch2.11-cuda12.9"
MEASURED = {"schema": "apexlab.bench/1", "kind": "train", "state": "complete", "summary": {}}


def other_record(**more) -> dict:
    """Of a second cell."""
    cell = next(one for one in load().cells if (one.torch, one.cuda) == ("2.11.0", "12.9"))
    return record(torch={"version": "2.11.0+cu129", "cuda": "12.9"}, apex={"commit": cell.ref},
                  archs=[str(arch) for arch in cell.archs], **more)


def of_torch(report: dict) -> dict:
    """With the environment of the image's own torch."""
    torch = report["record"]["torch"]
    return {**report, "environment": {**report["environment"], "torch": torch["version"],
                                      "cuda": torch["cuda"]}}


def collect(repository, out, *options: str, **environ):
    trust = options or ("--key", str(repository.place.public))
    return repository.place.start("publish", "records", repository.path, "--out", str(out),
                                  *trust, **environ)()


def read(folder):
    return records.read(folder, load(), demo=False)[0]


@pytest.fixture(scope="module")
def two(place, tmp_path_factory):
    """(repository, {slug: digest}) with two cells: one measured and run, one only loaded."""
    repository, digests = Repository(place, "test/records"), {}
    digests[SLUG] = repository.push()
    file = tmp_path_factory.mktemp("bench") / "result.json"
    file.write_text(json.dumps({**MEASURED, "created": LATER, "record": repository.record}))
    full = report_of(digests[SLUG], repository.record)
    done = repository.publish(digests[SLUG], at_load(full), full, options=("--bench", str(file)))
    assert done.returncode == 0, done.stderr
    digests[OTHER] = repository.push(other_record())
    done = repository.publish(
        digests[OTHER], at_load(of_torch(report_of(digests[OTHER], repository.record))))
    assert done.returncode == 0, done.stderr
    return repository, digests


def test_every_cell_that_has_a_tag_is_collected_and_the_others_are_not_published(two, tmp_path):
    repository, digests = two
    done = collect(repository, tmp_path / "records")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path}/records: the records of 2 cells; 20 are not published\n"
    assert f"{SLUG}  level run\n" in done.stderr and f"{OTHER}  level load\n" in done.stderr
    assert done.stderr.count("not published\n") == 20
    shown = read(tmp_path / "records")
    assert {slug: one.published["digest"] for slug, one in shown.items()} == digests
    assert shown[SLUG].verified.level == "run" and shown[OTHER].verified.level == "load"
    assert shown[SLUG].measured is not None and shown[OTHER].measured is None


def test_what_is_collected_is_what_was_signed(two, tmp_path):
    repository, digests = two
    assert collect(repository, tmp_path / "records").returncode == 0
    one = read(tmp_path / "records")[SLUG]
    assert one.verified.document["image"] == digests[SLUG]
    tags = {tag["name"]: tag["moves"] for tag in one.published["tags"]}
    assert tags == {SLUG: True, f"{SLUG}-20260203-{digests[SLUG][7:15]}": False}
    assert one.published["image"] == repository.path and one.published["bytes"] > 0
    assert one.published["source"] == "apex" and one.published["published"] is None
    assert sorted(path.name for path in (tmp_path / "records" / SLUG).iterdir()) == [
        "published.json", "result.json", "verify.json"]


def test_the_site_is_made_from_it(two, tmp_path):
    repository, digests = two
    assert collect(repository, tmp_path / "records").returncode == 0
    done = repository.place.start("site", "--out", str(tmp_path / "site"), "--records",
                                  str(tmp_path / "records"))()
    assert done.returncode == 0 and "2 of 22 cells published" in done.stdout
    assert digests[OTHER] in (tmp_path / "site" / "index.html").read_text()


def test_a_registry_without_any_of_the_cells_is_no_error(repository, tmp_path):
    done = collect(repository, tmp_path / "records")
    assert done.returncode == 0 and "0 cells; 22 are not published" in done.stdout
    assert read(tmp_path / "records") == {}


def published(repository) -> str:
    digest = repository.push()
    assert repository.publish(digest, report_of(digest, repository.record)).returncode == 0
    return digest


def nothing_is_written(done, tmp_path) -> bool:
    return done.returncode == 1 and list(tmp_path.iterdir()) == []


def test_one_tag_that_is_not_signed_stops_all_and_every_such_tag_is_named(repository, tmp_path):
    published(repository)
    foreign = {**labels(repository.record), "x": "y"}
    for slug in (OTHER, "torch2.4-cuda12.4"):
        repository.push_layers(layers_of(repository.record), foreign, tag=slug)
    done = collect(repository, tmp_path / "records")
    assert nothing_is_written(done, tmp_path), done.stderr
    assert f"- {OTHER}: " in done.stderr and "- torch2.4-cuda12.4: " in done.stderr
    assert f"- {SLUG}: " not in done.stderr and "no signature of whom you trust" in done.stderr


def test_a_signed_image_under_the_tag_of_another_cell_is_refused(repository, tmp_path):
    digest = published(repository)
    body = repository.ask("GET", f"manifests/{digest}", headers={
        "Accept": "application/vnd.oci.image.manifest.v1+json"}).json()
    assert repository.put(body, OTHER) == digest
    done = collect(repository, tmp_path / "records")
    assert nothing_is_written(done, tmp_path), done.stderr
    assert f"- {OTHER}: " in done.stderr and "saw torch 2.11.0+cu130 with CUDA 13.0" in done.stderr


@pytest.mark.parametrize(("pushed", "options", "under"), [
    ({"bench": False}, (), f"{SLUG}-runtime"),
    ({"record_": record(source="standin", apex={"commit": None, "tree": "7" * 64})},
     ("--allow-stand-in",), f"{SLUG}-standin"),
])
def test_a_signed_image_that_has_a_tag_of_its_own_is_refused_under_the_plain_one(
        repository, tmp_path, pushed, options, under):
    digest = repository.push(**pushed)
    done = repository.publish(digest, report_of(digest, repository.record), options=options)
    assert done.returncode == 0, done.stderr
    assert collect(repository, tmp_path / "records").returncode == 0  # it is no cell's image yet
    (tmp_path / "records").rmdir()
    body = repository.ask("GET", f"manifests/{digest}", headers={
        "Accept": "application/vnd.oci.image.manifest.v1+json"}).json()
    repository.put(body, SLUG)
    done = collect(repository, tmp_path / "records")
    assert nothing_is_written(done, tmp_path) and f"belongs under {under}" in done.stderr


def test_somebody_elses_signature_stops_it(two, tmp_path):
    repository, _ = two
    keys = tmp_path / "keys"
    keys.mkdir()
    subprocess.run(["cosign", "generate-key-pair"], cwd=keys, check=True, capture_output=True,
                   env=repository.place.environ())
    done = collect(repository, tmp_path / "records", "--key", str(keys / "cosign.pub"))
    assert done.returncode == 1 and not (tmp_path / "records").exists()


def test_an_image_from_before_the_matrix_moved_on_is_shown_as_it_is(repository, tmp_path):
    # Signed and published when the cell had another patch version and another commit of Apex.
    ours = record(torch={"version": "2.11.1+cu130", "cuda": "13.0"}, apex={"commit": "a" * 40})
    digest = repository.push(ours, tag=SLUG)
    assert CELL.ref != "a" * 40
    report = of_torch(report_of(digest, ours))
    sbom = {"components": [{"name": "apexlab-bench", "version": "0.1.0",
                            "purl": "pkg:pypi/apexlab-bench@0.1.0"}],
            "metadata": {"component": {"version": digest}}}
    asked = provenance.asked(parse_record(json.dumps(ours), "test"))
    file = tmp_path / "statement.json"
    sign = ("--key", str(repository.place.key), "--tlog-upload=false", "--yes")
    for kind, said in (("urn:apexlab:verify:1", report),
                       ("https://cyclonedx.org/bom", sbom),
                       ("https://slsa.dev/provenance/v1",
                        {"buildDefinition": {"externalParameters": asked}})):
        file.write_text(json.dumps(said))
        done = repository.cosign(
            "attest", *sign, "--type", kind, "--predicate", str(file),
            f"{repository.path}@{digest}")
        assert done.returncode == 0, done.stderr
    assert repository.cosign("sign", *sign, f"{repository.path}@{digest}").returncode == 0
    done = collect(repository, tmp_path / "records")
    assert done.returncode == 0, done.stderr
    assert read(tmp_path / "records")[SLUG].verified.torch == "2.11.1+cu130"
    assert read(tmp_path / "records")[SLUG].published["tags"] == [{"name": SLUG, "moves": True}]


def test_a_registry_that_does_not_answer_writes_nothing_and_ends_with_4(two, tmp_path):
    repository, _ = two
    away = Repository(repository.place.at("127.0.0.1:1"), "test/records")
    done = collect(away, tmp_path / "records")
    assert done.returncode == 4 and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "options", "says"), [
    (":torch2.4-cuda12.4", ("--key",), "looks at all of them"), ("", (), "whom you trust"),
])
def test_usage_is_looked_at_first(two, tmp_path, name, options, says):
    repository, _ = two
    trust = ("--key", str(repository.place.public)) if options else ()
    done = repository.place.start("publish", "records", repository.path + name, "--out",
                                  str(tmp_path / "records"), *trust)()
    assert done.returncode == 2 and says in done.stderr


def test_records_of_another_time_are_not_mixed_with_new_ones(two, tmp_path):
    repository, _ = two
    (tmp_path / SLUG).mkdir()
    done = collect(repository, tmp_path)
    assert done.returncode == 2 and "Name a new folder" in done.stderr
    assert list((tmp_path / SLUG).iterdir()) == []
