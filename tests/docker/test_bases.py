"""The bases without a registry: what they are made of, and where their packages come from."""

from __future__ import annotations

import pytest

from apexlab.build import image_bases
from apexlab.build.matrix import load
from apexlab.verify.errors import UsageError


@pytest.fixture
def root(pytestconfig):
    return pytestconfig.rootpath


@pytest.mark.parametrize("cuda", ["12.4", "13.0"])
def test_every_package_is_pinned(root, cuda):
    bases = image_bases.read(root, cuda)
    assert all("==" in wheel for wheel in bases.wheels)
    assert not bases.deb or "=" in bases.deb
    assert bases.version.startswith(cuda)


def test_the_system_is_the_one_of_the_matrix(root):
    assert image_bases.read(root, "12.4").os in {system.name for system in load().systems}


def test_the_images_are_made_anew_when_an_input_changes(root, tmp_path):
    before = image_bases.read(root, "12.4").inputs
    for name in ("offline/toolkits.toml", "offline/Dockerfile", "offline/toolkit.sh",
                 "apt-install.sh"):  # fmt: skip
        file = tmp_path / "docker" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text((root / "docker" / name).read_text())
    assert image_bases.read(tmp_path, "12.4").inputs == before
    script = tmp_path / "docker" / "offline" / "toolkit.sh"
    script.write_text(script.read_text() + "\n")
    assert image_bases.read(tmp_path, "12.4").inputs != before


def test_a_cuda_without_packages_is_refused(root):
    with pytest.raises(UsageError, match=r"12\.4 and 13\.0"):
        image_bases.read(root, "12.6")


def test_the_mirror_is_the_machines_own_in_both_formats(tmp_path):
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (parts / "debian.sources").write_text(
        "Types: deb\n# a comment\nURIs: https://one.example/debian\nSuites: trixie trixie-updates\n"
        "Components: main\n\nTypes: deb\nURIs: https://one.example/debian-security\n"
        "Suites: trixie-security\nComponents: main\n")
    (tmp_path / "sources.list").write_text(
        "# deb https://no.example/debian bookworm main\n"
        "deb [arch=amd64] https://vendor.example/linux/debian bookworm stable\n"
        "deb https://two.example/debian bookworm main contrib\n")
    found = list(image_bases.mirrors(tmp_path, "bookworm"))
    assert found == ["https://two.example/debian", "https://one.example/debian"]


def test_a_machine_that_is_not_debian_has_no_mirror(tmp_path):
    (tmp_path / "sources.list").write_text("deb http://archive.example/ubuntu jammy main\n")
    assert list(image_bases.mirrors(tmp_path, "bookworm")) == []
