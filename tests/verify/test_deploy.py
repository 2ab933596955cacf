"""verify on many nodes: the Kubernetes manifest and the Slurm script, as far as one machine can try
them. What a node runs is run here; a cluster is not."""

import json
import os
import re
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

kubernetes_validate = pytest.importorskip("kubernetes_validate")
yaml = pytest.importorskip("yaml")

DEPLOY = Path(__file__).resolve().parents[2] / "verify" / "deploy"
MANIFEST = DEPLOY / "kubernetes.yaml"
MADE = runpy.run_path(str(Path(__file__).parent / "reports" / "made.py"))["EVERY"]
# `apexlab verify --json` gives the report that the node has; everything else is the real command.
APEXLAB = f"""#!/bin/sh
[ "$2" = --json ] || exec {sys.executable} -c 'from apexlab.verify.main import main; main()' "$@"
cat "$NODES/$SLURMD_NODENAME.report"
exit 5
"""
SRUN = """#!/bin/sh
while [ "$1" != sh ]; do shift; done
for node in $(ls "$NODES" | sed 's/.report$//'); do SLURMD_NODENAME=$node "$@" || exit 1; done
"""


def documents() -> list[dict]:
    return list(yaml.safe_load_all(MANIFEST.read_text()))


def pods() -> list[dict]:
    return [one["spec"]["template"]["spec"] for one in documents() if "template" in
            one.get("spec", {})]


def job() -> dict:
    return next(one["spec"] for one in documents() if one["kind"] == "Job")


@pytest.mark.parametrize("version", ["1.31", "1.34", kubernetes_validate.latest_version()])
def test_the_manifest_follows_the_schema_of_kubernetes(version):
    assert [one["kind"] for one in documents()] == [
        "Namespace", "PersistentVolumeClaim", "Job", "Deployment"]
    for document in documents():
        kubernetes_validate.validate(document, version, strict=True)


def test_the_schema_finds_a_field_that_is_none():
    document = next(one for one in documents() if one["kind"] == "Job")
    document["spec"]["paralelism"] = document["spec"].pop("parallelism")
    with pytest.raises(kubernetes_validate.ValidationError, match="paralelism"):
        kubernetes_validate.validate(document, "1.31", strict=True)


def test_no_pod_has_more_rights_than_it_needs():
    # What the namespace's own rule, `restricted`, asks for.
    assert documents()[0]["metadata"]["labels"][
        "pod-security.kubernetes.io/enforce"] == "restricted"
    for pod in pods():
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
            assert set(container["resources"]) == {"limits", "requests"}
            assert re.fullmatch(r"[\w./-]+@sha256:[0-9a-f]{64}", container["image"], re.ASCII)


def test_no_two_pods_judge_one_node_and_none_judges_it_twice():
    [term] = job()["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"]
    labels = job()["template"]["metadata"]["labels"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"] == labels
    assert job()["backoffLimit"] == 0 and job()["template"]["spec"]["restartPolicy"] == "Never"


def test_the_count_is_the_same_in_the_job_and_in_the_line_that_merges():
    expected = int(re.search(r"--expect (\d+)", MANIFEST.read_text())[1])
    assert job()["completions"] == job()["parallelism"] == expected


def stubs(folder: Path, **programs: str) -> dict[str, str]:
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize("ended", [0, 5, 137])
def test_a_pod_leaves_the_report_of_its_node_whatever_verify_found(tmp_path, ended):
    [container] = job()["template"]["spec"]["containers"]
    environ = stubs(tmp_path / "bin", apexlab=f"#!/bin/sh\necho \"$@\"\nexit {ended}\n")
    reports = tmp_path / "reports"
    reports.mkdir()
    [text] = container["args"]
    done = subprocess.run([*container["command"], text.replace("/reports/", f"{reports}/")],
                          env={**environ, "NODE": "gpu-7", "RUN": "a-b-c"},
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (reports / "a-b-c").iterdir()] == ["gpu-7.json"]
    assert (reports / "a-b-c" / "gpu-7.json").read_text() == "verify --json\n"


@pytest.fixture
def slurm(tmp_path):
    """`slurm(nodes, **reports)`: run the script where each node has its report."""

    def run(nodes: int, job: str = "7", **reports):
        place = tmp_path / f"nodes-{job}"
        place.mkdir()
        for number, (name, made) in enumerate(reports.items()):
            text = replace(MADE[made](), seconds=number + 1.0).to_json() if made else ""
            (place / f"{name}.report").write_text(text)
        environ = stubs(tmp_path / f"bin-{job}", apexlab=APEXLAB, srun=SRUN)
        return subprocess.run(
            [DEPLOY / "slurm.sh"], cwd=tmp_path, capture_output=True, text=True,
            env={**environ, "NODES": str(place), "SLURM_JOB_NUM_NODES": str(nodes),
                 "SLURM_JOB_ID": job})

    return run


def test_slurm_merges_what_its_nodes_found(slurm, tmp_path):
    done = slurm(2, red="proven", blue="fallback")
    assert done.returncode == 5, done.stderr
    assert done.stdout.startswith("FALLBACK   2 nodes: 1 fallback, 1 proven")
    made = sorted(path.name for path in (tmp_path / "reports" / "7").iterdir())
    assert made == ["blue.json", "nodes.html", "red.json"]
    assert json.loads((tmp_path / "reports" / "7" / "red.json").read_text())["verdict"] == "proven"


@pytest.mark.parametrize(("nodes", "reports"), [(3, {"a": "proven", "b": "proven"}),
                                                (2, {"a": "proven", "b": ""})])
def test_a_node_of_slurm_that_left_nothing_is_not_silent(slurm, nodes, reports):
    done = slurm(nodes, **reports)
    assert done.returncode == 4 and done.stdout.startswith("INCOMPLETE")


def test_a_report_of_an_earlier_job_does_not_stand_for_a_node_that_left_none(slurm):
    assert slurm(2, "7", a="proven", b="proven").returncode == 0
    done = slurm(2, "8", a="proven")
    assert done.returncode == 4 and done.stdout.startswith("INCOMPLETE"), done.stdout
