"""`apexlab site`: the folder that it writes, and what it refuses to replace."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import made_records as made
import pytest

from apexlab.verify import main


@pytest.fixture
def site(capsys):
    """Runs the command; what became of it."""

    def run(*args) -> SimpleNamespace:
        code = main.run(["site", *map(str, args)])
        out, err = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=out, stderr=err)

    return run


@pytest.fixture
def folder(tmp_path):
    return made.put(tmp_path / "records", result=made.bench("apex"))


def files(out) -> list[str]:
    return sorted(str(one.relative_to(out)) for one in out.rglob("*") if one.is_file())


def test_the_site_has_the_page_and_the_files_that_it_links_to(site, tmp_path, folder):
    out = tmp_path / "site"
    done = site("--out", out, "--records", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{out}/index.html: 1 of 22 cells published\n"
    place = f"records/{made.SLUG}"
    assert files(out) == ["index.html", *(f"{place}/{name}" for name in (
        "published.json", "report.html", "result.json", "verify.json"))]


def test_without_records_nothing_is_published_yet(site, tmp_path):
    done = site("--out", tmp_path / "site")
    assert done.returncode == 0 and "0 of 22" in done.stdout
    assert files(tmp_path / "site") == ["index.html"]


def test_a_second_run_replaces_the_site_and_leaves_nothing_behind(site, tmp_path, folder):
    out = tmp_path / "site"
    site("--out", out, "--records", folder)
    assert site("--out", out).returncode == 0
    assert files(out) == ["index.html"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["records", "site"]


def test_a_folder_that_is_no_site_is_not_touched(site, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    done = site("--out", tmp_path)
    assert done.returncode == 2 and "is no site of apexlab" in done.stderr
    assert files(tmp_path) == ["thesis.tex"]


def test_the_records_are_not_replaced_by_the_site(site, tmp_path):
    out = tmp_path / "site"
    site("--out", out)
    folder = made.put(out / "mine")
    done = site("--out", out, "--records", folder)
    assert done.returncode == 2 and "Keep them elsewhere" in done.stderr
    assert (folder / made.SLUG / "verify.json").exists()


def test_a_refusal_leaves_the_old_site(site, tmp_path, folder):
    out = tmp_path / "site"
    site("--out", out, "--records", folder)
    before = (out / "index.html").read_text()
    (folder / made.SLUG / "verify.json").write_text("{}")
    done = site("--out", out, "--records", folder)
    assert done.returncode == 1 and done.stderr.startswith("apexlab: ")
    assert (out / "index.html").read_text() == before


def test_a_stand_in_is_left_out_aloud_and_shown_for_a_demonstration(site, tmp_path):
    folder, out = made.put(tmp_path / "records", made.report("standin")), tmp_path / "site"
    done = site("--out", out, "--records", folder)
    assert done.returncode == 0 and made.SLUG in done.stderr and "0 of 22" in done.stdout
    assert made.DIGEST not in (out / "index.html").read_text() and files(out) == ["index.html"]
    assert site("--out", out, "--records", folder, "--demo").returncode == 0
    assert made.DIGEST in (out / "index.html").read_text()


def test_a_demonstration_without_records_is_refused(site, tmp_path):
    done = site("--out", tmp_path / "site", "--demo")
    assert done.returncode == 2 and "--records" in done.stderr
    assert not (tmp_path / "site").exists()


# -- where it is to go


def test_a_site_with_a_file_of_somebody_else_in_it_is_not_replaced(site, tmp_path, folder):
    out = tmp_path / "site"
    assert site("--out", out, "--records", folder).returncode == 0
    for name in ("CNAME", "records/notes.txt", f"records/{made.SLUG}/thesis.tex"):
        (out / name).write_text("years of work")
        done = site("--out", out)
        assert done.returncode == 2 and f"{name} in it was not written by" in done.stderr
        (out / name).unlink()
    assert site("--out", out).returncode == 0


def test_a_link_to_a_site_stays_one_and_the_site_behind_it_is_replaced(site, tmp_path, folder):
    out, link = tmp_path / "served" / "site", tmp_path / "link"
    link.symlink_to(out)
    for records in ((), ("--records", folder)):  # new, and then replaced
        assert site("--out", link, *records).returncode == 0
        assert link.is_symlink() and "index.html" in files(out)
    assert made.DIGEST in (out / "index.html").read_text()
    assert sorted(one.name for one in out.parent.iterdir()) == ["site"]


def test_a_link_to_a_folder_that_is_no_site_is_not_followed_into_it(site, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "index.html").write_text("<p>mine")
    (tmp_path / "link").symlink_to(tmp_path / "home")
    done = site("--out", tmp_path / "link")
    assert done.returncode == 2 and files(tmp_path / "home") == ["index.html"]


@pytest.mark.parametrize("name", ["file", "file/below", "pipe"])
def test_what_is_no_folder_is_not_replaced(site, tmp_path, name):
    (tmp_path / "file").write_text("kept")
    os.mkfifo(tmp_path / "pipe")
    done = site("--out", tmp_path / name)
    assert done.returncode in (2, 4) and done.stderr and (tmp_path / "file").read_text() == "kept"


def test_a_place_that_cannot_be_written_to_is_said(site):
    done = site("--out", "/proc/self/site")
    assert done.returncode == 4 and done.stderr.startswith("apexlab: The system refused: ")


def test_a_folder_whose_page_is_a_pipe_is_no_site(site, tmp_path):
    os.mkfifo(tmp_path / "index.html")  # to read it would wait for ever
    assert site("--out", tmp_path).returncode == 2


def test_records_that_do_not_exist_are_said(site, tmp_path):
    done = site("--out", tmp_path / "site", "--records", tmp_path / "nowhere")
    assert done.returncode == 2 and "nowhere" in done.stderr and not (tmp_path / "site").exists()


def test_where_the_new_site_cannot_take_its_place_the_old_one_is_put_back(
        site, tmp_path, folder, monkeypatch):
    out = tmp_path / "site"
    assert site("--out", out, "--records", folder).returncode == 0
    rename = Path.rename

    def full(self, target):
        if self.name == "new":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", full)
    assert site("--out", out).returncode == 4
    assert made.DIGEST in (out / "index.html").read_text()
