"""The bake definition, from real plans of the real matrix."""

from __future__ import annotations

import json

import pytest

from apexlab.build import bake, source
from apexlab.build.matrix import load
from apexlab.build.resolve import resolve

MATRIX = load()
PLAN = resolve(MATRIX, "2.6", "12.4")
OFFLINE = resolve(MATRIX, "2.6", "12.4", base="offline", archs="9.0")


def only_target(plan=PLAN, **options):
    return next(iter(bake.definition([plan], bake.BakeOptions(**options))["target"].values()))


def test_a_cell_becomes_images_requirement_and_architectures():
    args = only_target()["args"]
    assert args["BASE_IMAGE"] == "docker.io/nvidia/cuda:12.4.1-base-ubuntu22.04"
    assert args["DEVEL_IMAGE"] == "docker.io/nvidia/cuda:12.4.1-devel-ubuntu22.04"
    assert args["TORCH_REQUIREMENT"] == "torch==2.6.0"
    assert args["ARCHS"] == PLAN.arch_list
    assert args["APEX_REF"] == PLAN.ref
    assert not {"TORCH_INDEX", "PYTHON", "JOBS", "MEMORY"} & set(args)


def test_a_torch_from_another_index_brings_its_address():
    args = only_target(resolve(MATRIX, "2.4", "12.4"))["args"]
    assert args["TORCH_REQUIREMENT"] == "torch==2.4.1+cu124"
    assert args["TORCH_INDEX"].endswith("/cu124")


def test_the_offline_base_is_named_after_cuda_and_system():
    args = only_target(OFFLINE, base="offline")["args"]
    assert args["BASE_IMAGE"] == "apexlab/offline:12.4-base-debian12"


def test_an_image_from_a_registry_is_pinned_and_a_local_one_cannot_be():
    nvidia, local = bake.images(PLAN, "nvidia"), bake.images(OFFLINE, "offline")
    digests = dict.fromkeys([*nvidia.values(), *local.values()], "sha256:ab")
    args = only_target(digests=digests)["args"]
    assert args["BASE_IMAGE"] == nvidia["base"] + "@sha256:ab"
    assert json.loads(args["IMAGES"])["base"] == {"name": nvidia["base"], "digest": "sha256:ab"}
    args = only_target(OFFLINE, base="offline", digests=digests)["args"]
    assert args["BASE_IMAGE"] == local["base"]
    assert json.loads(args["IMAGES"])["devel"]["digest"] == "sha256:ab"


def test_the_default_is_the_bench_image_under_its_own_name_and_latest():
    target = only_target()
    assert target["target"] == "bench"
    assert target["tags"] == ["apexlab:torch2.6-cuda12.4", "apexlab:latest"]
    assert only_target(target="runtime")["tags"][0] == "apexlab:torch2.6-cuda12.4-runtime"


def test_a_tag_takes_the_place_of_both_names():
    assert only_target(tag="mine:1")["tags"] == ["mine:1"]


def test_of_several_images_none_is_the_latest():
    plans = [PLAN, resolve(MATRIX, "2.11", "13.0")]
    made = bake.definition(plans, bake.BakeOptions())
    assert made["group"]["default"]["targets"] == list(made["target"])
    assert all("apexlab:latest" not in target["tags"] for target in made["target"].values())


def test_target_names_hold_no_dots_which_bake_refuses():
    assert bake.target_name(PLAN) == "torch2_6-cuda12_4"


def test_a_wheel_is_exported_and_tags_nothing():
    target = only_target(target="wheel", out="there")
    assert target["target"] == "wheel-export"
    assert target["output"] == ["type=local,dest=there"]
    assert "tags" not in target


def test_a_folder_replaces_the_stage_that_fetches_apex(standin_source):
    target = only_target(source=standin_source)
    assert target["contexts"] == {"apex": str(standin_source.path)}
    assert "APEX_REF" not in target["args"]
    assert "APEX_REPO" not in target["args"]
    assert target["labels"]["dev.apexlab.source"] == "standin"
    assert target["labels"]["dev.apexlab.apex"] == standin_source.tree


def test_a_mirror_of_apex_keeps_the_commit():
    args = only_target(apex_repo="https://mirror.example/apex.git")["args"]
    assert args["APEX_REPO"] == "https://mirror.example/apex.git"
    assert args["APEX_REF"] == PLAN.ref


def test_certificates_travel_as_a_secret_and_nowhere_else():
    target = only_target(ca="/etc/ca.pem")
    assert target.pop("secret") == ["id=ca,src=/etc/ca.pem"]
    assert "ca.pem" not in json.dumps(target)


def test_a_comma_in_a_path_is_part_of_the_path():
    target = only_target(ca="/etc/a, b.pem", target="wheel", out="there,too")
    assert target["secret"] == ['id=ca,"src=/etc/a, b.pem"']
    assert target["output"] == ['type=local,"dest=there,too"']


def test_text_that_bake_would_take_for_a_template_stays_text():
    args = only_target(build_args={"PIP_INDEX_URL": "https://x/${y}/%{z}"})["args"]
    assert args["PIP_INDEX_URL"] == "https://x/$${y}/%%{z}"


def test_labels_name_the_cell_and_claim_no_licence_for_what_is_not_ours():
    labels = only_target(revision="abc")["labels"]
    assert labels["dev.apexlab.torch"] == "2.6.0"
    assert labels["dev.apexlab.apex"] == PLAN.ref
    assert labels["dev.apexlab.evidence"] == PLAN.evidence
    assert labels["org.opencontainers.image.revision"] == "abc"
    assert not [key for key in labels if key.endswith("licenses")]


@pytest.mark.parametrize("cell", MATRIX.cells, ids=lambda cell: f"{cell.torch}-{cell.cuda}")
def test_every_cell_has_a_definition_that_is_json(cell):
    plan = resolve(MATRIX, cell.torch, cell.cuda)
    json.dumps(bake.definition([plan], bake.BakeOptions()))


@pytest.fixture
def standin_source(pytestconfig):
    return source.inspect(pytestconfig.rootpath / "tests" / "standin")
