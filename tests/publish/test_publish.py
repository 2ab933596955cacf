"""Publishing into a real registry with a real cosign, and what somebody who pulls can check."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from datetime import datetime, timezone

import pytest
from made_images import (
    CELL,
    DPKG,
    FALLBACK,
    LATER,
    Repository,
    at_load,
    labels,
    layer,
    layers_of,
    record,
    report_of,
)

from apexlab.build.matrix import load
from apexlab.build.publish import consumer, provenance, sbom
from apexlab.build.publish.tags import newest

pytestmark = pytest.mark.docker
TYPES = (consumer.VERIFY, sbom.PREDICATE, provenance.PREDICATE)
MOVING = "torch2.11-cuda13.0"


def staying(digest: str, born: str = "20260203") -> str:
    return f"{MOVING}-{born}-{digest[7:15]}"


@pytest.fixture(scope="module")
def published(place):
    """(repository, digest) of an image that was published; for tests that only look."""
    repository = Repository(place, "test/published")
    digest = repository.push()
    done = repository.publish(digest, report_of(digest, repository.record))
    assert done.returncode == 0, done.stderr
    return repository, digest


def trusted(repository) -> list[str]:
    return ["--key", str(repository.place.public), "--private-infrastructure"]


def predicates(repository, which: str, kind: str) -> list[dict]:
    """What cosign, and nothing of ours, finds of a type."""
    done = repository.cosign("verify-attestation", *trusted(repository), "--type", kind,
                             repository.path + which)
    assert done.returncode == 0, done.stderr
    return [json.loads(base64.b64decode(json.loads(line)["payload"]))
            for line in done.stdout.splitlines()]


def nothing_was_published(repository, digest) -> bool:
    """No tag, no signature, no statement."""
    ours = digest.replace(":", "-")
    names = repository.ask("GET", "tags/list").json().get("tags") or []
    return not [name for name in names if name.startswith((MOVING, "latest", ours))]


# -- what publishing does


def test_the_verified_digest_is_the_digest_that_has_the_tags(published):
    repository, digest = published
    assert repository.tags() == {MOVING: digest, staying(digest): digest}


def test_somebody_with_cosign_alone_can_check_the_tag_and_every_statement(published):
    repository, digest = published
    done = repository.cosign("verify", *trusted(repository), f"{repository.path}:{MOVING}")
    assert done.returncode == 0 and digest in done.stdout
    for kind in TYPES:
        (statement,) = predicates(repository, f":{MOVING}", kind)
        assert statement["subject"][0]["digest"]["sha256"] == digest.removeprefix("sha256:")
    (statement,) = predicates(repository, f":{MOVING}", consumer.VERIFY)
    assert statement["predicate"] == report_of(digest, repository.record)


def test_the_labels_and_what_was_proven_are_under_the_signature(published):
    repository, digest = published
    done = repository.cosign("verify", *trusted(repository), "-a", "dev.apexlab.level=run", "-a",
                             f"dev.apexlab.apex={CELL.ref}", f"{repository.path}@{digest}")
    assert done.returncode == 0, done.stderr
    assert repository.cosign("verify", *trusted(repository), "-a", "dev.apexlab.level=load",
                             f"{repository.path}@{digest}").returncode != 0


def test_what_an_engine_built_and_pushed_is_what_an_engine_pulls_by_the_tag(
        engine, repository, tmp_path):
    ours = record()
    (tmp_path / "record.json").write_text(json.dumps(ours))
    (tmp_path / "status").write_text(DPKG)
    marks = "".join(f"LABEL {key}={json.dumps(value)}\n" for key, value in labels(ours).items())
    (tmp_path / "Dockerfile").write_text(
        "FROM scratch\nCOPY status /var/lib/dpkg/\nCOPY record.json /opt/apexlab/\n" + marks)
    throwaway, tag = f"{repository.path}:tmp", f"{repository.path}:{MOVING}-runtime"

    def docker(*arguments):
        done = subprocess.run(["docker", *arguments], env=repository.place.environ(), text=True,
                              capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        docker("build", "--quiet", "--tag", throwaway, str(tmp_path))
        digest = re.search(r"digest: (sha256:\w+)", docker("push", throwaway))[1]
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        done = repository.publish(digest, report_of(digest, ours, created=now))
        assert done.returncode == 0, done.stderr
        docker("rmi", "--force", throwaway)
        docker("pull", "--quiet", tag)
        assert f"{repository.path}@{digest}" in engine.images.get(tag).attrs["RepoDigests"]
    finally:
        subprocess.run(["docker", "rmi", "--force", throwaway, tag], capture_output=True)


def test_a_second_run_finds_all_done_and_adds_nothing(published):
    repository, digest = published
    before = repository.digest(f"{digest.replace(':', '-')}.att")
    done = repository.publish(digest, report_of(digest, repository.record))
    assert done.returncode == 0
    assert {line.split("  ")[0] for line in done.stderr.splitlines()} == {"was there"}
    assert repository.digest(f"{digest.replace(':', '-')}.att") == before


def test_a_dry_run_says_what_would_be_done_and_does_nothing(repository):
    digest = repository.push()
    done = repository.publish(digest, report_of(digest, repository.record), options=("--dry-run",))
    assert done.returncode == 0, done.stderr
    for act in ("attest verify report", "attest SBOM", "attest provenance", "sign",
                f"tag {staying(digest)}", f"tag {MOVING}"):
        assert f"would be done  {act}" in done.stdout
    assert nothing_was_published(repository, digest)


def test_a_report_from_a_machine_with_a_gpu_is_added_to_a_published_image(repository):
    digest = repository.push()
    full = report_of(digest, repository.record)
    assert repository.publish(digest, at_load(full)).returncode == 0
    assert repository.verify(f"@{digest}", "--key", str(repository.place.public), "--level",
                             "run").returncode == 1
    assert repository.publish(digest, full).returncode == 0
    assert len(predicates(repository, f":{MOVING}", consumer.VERIFY)) == 2
    assert repository.verify(f"@{digest}", "--key", str(repository.place.public), "--level",
                             "run").returncode == 0


def test_only_the_newest_cell_is_called_latest(repository):
    cell = newest(load())
    ours = record(torch={"version": f"{cell.torch}+cu132", "cuda": cell.cuda},
                  apex={"commit": cell.ref}, archs=[str(arch) for arch in cell.archs])
    digest = repository.push(ours)
    report = report_of(digest, ours)
    report["environment"]["torch"] = ours["torch"]["version"]
    done = repository.publish(digest, report)
    assert done.returncode == 0, done.stderr
    assert repository.tags()["latest"] == digest and len(repository.tags()) == 3


def test_the_slim_image_has_a_tag_of_its_own(repository):
    digest = repository.push(bench=False)
    assert repository.publish(digest, report_of(digest, repository.record)).returncode == 0
    assert repository.tags()[f"{MOVING}-runtime"] == digest and MOVING not in repository.tags()


def test_an_index_with_attestations_of_the_build_keeps_its_digest(repository):
    child = repository.push()
    body = repository.ask("GET", f"manifests/{child}", headers={
        "Accept": "application/vnd.oci.image.manifest.v1+json"}).content
    media = "application/vnd.oci.image.manifest.v1+json"
    of_build = repository.push_layers([layer({"provenance.json": "{}"})], {})
    index = repository.put({"schemaVersion": 2, "manifests": [
        {"mediaType": media, "digest": child, "size": len(body),
         "platform": {"os": "linux", "architecture": "amd64"}},
        {"mediaType": media, "digest": of_build, "size": 1,
         "platform": {"os": "unknown", "architecture": "unknown"}}]}, kind="index")
    done = repository.publish(index, report_of(index, repository.record))
    assert done.returncode == 0, done.stderr
    assert repository.tags()[MOVING] == index
    assert repository.verify(f":{MOVING}").returncode == 0


def test_a_stand_in_is_published_on_request_alone_and_never_under_a_name_of_apex(repository):
    ours = record(source="standin", apex={"commit": None, "tree": "7" * 64})
    digest = repository.push(ours)
    done = repository.publish(digest, report_of(digest, ours))
    assert done.returncode == 1 and "- stand-in:" in done.stderr
    assert nothing_was_published(repository, digest)
    done = repository.publish(digest, report_of(digest, ours), options=("--allow-stand-in",))
    assert done.returncode == 0, done.stderr
    assert set(repository.tags()) == {
        f"{MOVING}-standin", f"{MOVING}-standin-20260203-{digest[7:15]}"}
    done = repository.verify(f":{MOVING}-standin")
    assert done.returncode == 0 and "NOT APEX" in done.stdout
    assert repository.cosign("verify", *trusted(repository), "-a", "dev.apexlab.source=standin",
                             f"{repository.path}@{digest}").returncode == 0


def test_a_benchmark_of_this_image_is_attached(repository, tmp_path):
    digest = repository.push()
    file = tmp_path / "result.json"
    result = {"schema": "apexlab.bench/1", "kind": "train", "created": LATER, "state": "complete",
              "record": repository.record, "summary": {}}
    file.write_text(json.dumps(result))
    report = report_of(digest, repository.record)
    done = repository.publish(digest, report, options=("--bench", str(file)))
    assert done.returncode == 0, done.stderr
    assert predicates(repository, f":{MOVING}", consumer.BENCH)[0]["predicate"] == result
    file.write_text(json.dumps({**result, "record": record(created="2026-02-01T00:00:00+00:00")}))
    done = repository.publish(digest, report, options=("--bench", str(file)))
    assert done.returncode == 1 and "- other-bench:" in done.stderr


# -- what it refuses: each with an image in the registry, and a report


REFUSED = {
    "other-digest": lambda report: {**report, "image": "sha256:" + "1" * 64},
    "no-digest": lambda report: {**report, "image": None},
    "older": lambda report: {**report, "created": "2026-02-03T04:05:05+00:00"},
    "other-record": lambda report: {
        **report, "record": record(created="2026-02-03T04:05:07+00:00")},
    "not-ok": lambda report: report_of(report["image"], report["record"], FALLBACK),
    "level": lambda report: {**report, "level_reached": "static"},
}


@pytest.mark.parametrize("code", REFUSED)
def test_a_report_that_does_not_speak_for_the_image_publishes_nothing(repository, code):
    digest = repository.push()
    done = repository.publish(digest, REFUSED[code](report_of(digest, repository.record)))
    assert done.returncode == 1 and f"- {code}:" in done.stderr, done.stderr
    assert nothing_was_published(repository, digest)


def test_a_report_of_the_same_build_in_another_image_is_refused(repository):
    # Same record, same wheel; a package that came later may have broken torch.
    other = repository.push()
    report = report_of(other, repository.record)
    digest = repository.push_layers([*layers_of(repository.record), layer({"later": "x"})],
                                    labels(repository.record))
    done = repository.publish(digest, report)
    assert done.returncode == 1 and "- other-digest:" in done.stderr
    assert nothing_was_published(repository, digest)


def test_a_bad_report_is_not_made_up_for_by_a_good_one(repository):
    digest = repository.push()
    done = repository.publish(digest, report_of(digest, repository.record),
                              report_of(digest, repository.record, FALLBACK))
    assert done.returncode == 1 and "- not-ok:" in done.stderr
    assert nothing_was_published(repository, digest)


def test_the_level_can_be_raised(repository):
    digest = repository.push()
    done = repository.publish(digest, at_load(report_of(digest, repository.record)),
                              options=("--level", "run"))
    assert done.returncode == 1 and "- level:" in done.stderr and "--gpus all" in done.stderr
    assert nothing_was_published(repository, digest)


@pytest.mark.parametrize(("pushed", "code"), [
    ({"record_": record(torch={"version": "2.11.0+cu126", "cuda": "12.6"})}, "no-cell"),
    ({"record_": record(apex={"commit": "a" * 40})}, "other-commit"),
    ({"record_": record(archs=["9.0"])}, "architectures"),
    ({"dev.apexlab.torch": "2.10.0"}, "labels"),
    ({"annotations": {"dev.apexlab.torch": "2.10.0"}}, "annotations"),
])
def test_an_image_that_is_not_what_its_tag_would_say_is_refused(repository, pushed, code):
    digest = repository.push(**pushed)
    done = repository.publish(digest, report_of(digest, repository.record))
    assert done.returncode == 1 and f"- {code}:" in done.stderr, done.stderr
    assert nothing_was_published(repository, digest)


def test_an_image_without_a_record_is_refused(repository):
    digest = repository.push_layers(layers_of(None), labels(record()))
    done = repository.publish(digest, report_of(digest, record()))
    assert done.returncode == 1 and "no build record" in done.stderr


def test_a_layer_that_was_changed_in_the_registry_is_refused(repository):
    digest = repository.push(record(created="2026-02-03T04:05:01+00:00"))
    (file,) = [one for one in repository.place.storage.rglob("data")
               if one.read_bytes() == layers_of(repository.record)[1]]
    file.write_bytes(layer({"opt/apexlab/record.json": "{}"}))
    done = repository.publish(digest, report_of(digest, repository.record))
    assert done.returncode == 1 and "not what its digest says" in done.stderr
    assert nothing_was_published(repository, digest)


# -- tags that somebody else has


def test_a_tag_of_somebody_else_is_left_alone_until_a_person_gives_it_up(repository):
    foreign = repository.push(record(profile="full"), tag=MOVING)
    digest = repository.push()
    report = report_of(digest, repository.record)
    done = repository.publish(digest, report)
    assert done.returncode == 1 and "- tag-foreign:" in done.stderr
    assert repository.tags() == {MOVING: foreign}
    done = repository.publish(digest, report, options=("--replace", foreign))
    assert done.returncode == 0, done.stderr
    assert repository.tags()[MOVING] == digest


def test_a_newer_build_takes_the_tag_and_an_older_one_does_not_take_it_back(repository):
    old = repository.push()
    old_report = report_of(old, repository.record)
    assert repository.publish(old, old_report).returncode == 0
    new = repository.push(record(created=LATER), created=LATER)
    assert repository.publish(new, report_of(new, repository.record)).returncode == 0
    assert repository.tags()[MOVING] == new and repository.tags()[staying(old)] == old
    done = repository.publish(old, old_report)
    assert done.returncode == 1 and "- tag-newer:" in done.stderr
    assert repository.tags()[MOVING] == new
    assert repository.publish(old, old_report, options=("--replace", new)).returncode == 0
    assert repository.tags()[MOVING] == old


def test_the_dated_tag_never_moves(repository):
    digest = repository.push()
    foreign = repository.push_layers([layer({"x": "y"})], {}, tag=staying(digest))
    done = repository.publish(digest, report_of(digest, repository.record))
    assert done.returncode == 1 and "- tag-taken:" in done.stderr
    assert repository.tags() == {staying(digest): foreign}


def test_a_tag_that_is_moved_while_we_sign_is_noticed_and_left_alone(repository, tmp_path):
    # A cosign that is the real one, and lets somebody else have the tag before it signs.
    foreign = repository.push_layers([layer({"x": "y"})], {}, tag="elsewhere")
    digest = repository.push()
    report = report_of(digest, repository.record)
    body = repository.ask("GET", "manifests/elsewhere", headers={
        "Accept": "application/vnd.oci.image.manifest.v1+json"}).content
    (tmp_path / "body").write_bytes(body)
    url = f"https://{repository.place.host}/v2/{repository.name}/manifests/{MOVING}"
    script = tmp_path / "cosign"
    script.write_text(f"""#!/bin/sh
if [ "$1" = sign ]; then python3 - <<'END'
import base64, ssl, urllib.request
word = base64.b64encode(b"publisher:loopback only").decode()
request = urllib.request.Request({url!r}, open({str(tmp_path / "body")!r}, "rb").read(), {{
    "Authorization": "Basic " + word,
    "Content-Type": "application/vnd.oci.image.manifest.v1+json"}}, method="PUT")
urllib.request.urlopen(request, context=ssl.create_default_context(
    cafile={str(repository.place.ca)!r}))
END
fi
exec /usr/bin/cosign "$@"
""")
    script.chmod(0o755)
    done = repository.publish(digest, report, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 1 and "moved by somebody else while this ran" in done.stderr
    assert repository.tags()[MOVING] == foreign
    done = repository.publish(digest, report)  # and judged anew it is somebody else's
    assert done.returncode == 1 and "- tag-foreign:" in done.stderr


# -- what somebody who pulls is told


def test_verify_says_what_is_known_and_how_to_check_it_without_us(published):
    repository, digest = published
    done = repository.verify(f":{MOVING}")
    assert done.returncode == 0, done.stderr
    assert f"VERIFIED   {repository.path}@{digest}" in done.stdout and "H200" in done.stdout
    ours = done.stdout.split("With cosign alone:\n")[1]
    ran = subprocess.run(["bash", "-ec", ours], env=repository.place.environ(), text=True,
                         capture_output=True)
    assert ran.returncode == 0 and ran.stdout.count("application/vnd.in-toto+json") == 3


def test_an_image_that_was_put_under_the_tag_by_somebody_else_is_not_verified(repository):
    digest = repository.push()
    assert repository.publish(digest, report_of(digest, repository.record)).returncode == 0
    repository.push_layers([*layers_of(repository.record), layer({"evil": "x"})],
                           labels(repository.record), tag=MOVING)
    assert repository.verify(f":{MOVING}").returncode == 1
    assert repository.cosign("verify", *trusted(repository),
                             f"{repository.path}:{MOVING}").returncode != 0


def test_a_signature_of_somebody_else_does_not_count(published, tmp_path):
    repository, _ = published
    subprocess.run(["cosign", "generate-key-pair"], cwd=tmp_path, check=True, capture_output=True,
                   env=repository.place.environ())
    done = repository.verify(f":{MOVING}", "--key", str(tmp_path / "cosign.pub"))
    assert done.returncode == 1 and "no signature of whom you trust" in done.stderr


def test_a_signed_image_without_its_statements_is_not_verified(repository):
    digest = repository.push(tag=MOVING)
    done = repository.cosign("sign", "--key", str(repository.place.key), "--tlog-upload=false",
                             "--yes", f"{repository.path}@{digest}")
    assert done.returncode == 0, done.stderr
    done = repository.verify(f":{MOVING}")
    assert done.returncode == 1 and "There is no signed verify report" in done.stderr


def test_a_statement_that_was_signed_for_another_image_is_not_taken(repository):
    digest = repository.push(tag=MOVING)
    report = report_of("sha256:" + "1" * 64, repository.record)
    file = repository.place.home / "statement.json"
    for kind in TYPES:
        file.write_text(json.dumps(report if kind == consumer.VERIFY else {"made": "up"}))
        assert repository.cosign("attest", "--key", str(repository.place.key), "--yes", "--type",
                                 kind, "--tlog-upload=false", "--predicate", str(file),
                                 f"{repository.path}@{digest}").returncode == 0
    repository.cosign("sign", "--key", str(repository.place.key), "--tlog-upload=false", "--yes",
                      f"{repository.path}@{digest}")
    done = repository.verify(f":{MOVING}")
    assert done.returncode == 1 and "was made in sha256:1111" in done.stderr


def test_no_rights_and_no_registry_end_with_4_and_say_what_to_do(repository):
    digest = repository.push()
    report = report_of(digest, repository.record)
    done = repository.publish(digest, report, DOCKER_CONFIG="/nonexistent")
    assert done.returncode == 4 and "docker login" in done.stderr
    absent = repository.place.at("127.0.0.1:1")
    done = absent.start("publish", "verify", f"127.0.0.1:1/x@{digest}", "--key",
                        str(absent.public))()
    assert done.returncode == 4 and "Run the same command again" in done.stderr


def test_a_cosign_that_cannot_look_is_no_image_without_a_signature(published, tmp_path):
    # The real one, which trusts no authority here: that is 4, and not the 1 of a bad image.
    repository, digest = published
    script = tmp_path / "cosign"
    script.write_text('#!/bin/sh\nSSL_CERT_FILE=/dev/null exec /usr/bin/cosign "$@"\n')
    script.chmod(0o755)
    done = repository.place.start("publish", "verify", f"{repository.path}@{digest}", "--key",
                                  str(repository.place.public),
                                  PATH=f"{tmp_path}:{os.environ['PATH']}")()
    assert done.returncode == 4 and "cosign verify failed" in done.stderr, done.stderr
