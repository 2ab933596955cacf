"""What GitHub runs, held against our rules. None of it can run here: it is linted, its scripts are
called, and each linter is seen to fail."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
ACTIONS = {path.parent.name: path for path in (GITHUB / "actions").glob("*/action.yml")}
OURS = "$/.github/actions/"
# Every write that any job may do, and nothing else.
WRITES = {
    ("images.yml", "build"): {"packages"},
    ("images.yml", "promote"): {"packages", "id-token"},
    ("images.yml", "pages"): {"pages", "id-token"},
    ("refresh.yml", "propose"): {"contents", "pull-requests", "actions"},
}


def load(path: Path) -> dict:
    content = yaml.safe_load(path.read_text())
    content["on"] = content.pop(True, content.get("on"))  # YAML 1.1 takes `on` for a truth value
    return content


def jobs() -> list[tuple[str, str, dict]]:
    return [(path.name, name, job) for path in WORKFLOWS
            for name, job in load(path)["jobs"].items()]


def steps() -> list[tuple[str, dict]]:
    """(where, step) of all jobs and of all composite actions."""
    in_jobs = [(f"{file}:{name}", step) for file, name, job in jobs() for step in job["steps"]]
    return in_jobs + [(name, step) for name, path in ACTIONS.items()
                      for step in load(path)["runs"]["steps"]]


def test_there_are_the_three_workflows():
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "images.yml", "refresh.yml"]


# -- who may do what


def test_every_action_is_pinned_by_its_full_commit_and_says_which_version_that_is():
    lines = [line for path in (*WORKFLOWS, *ACTIONS.values())
             for line in path.read_text().splitlines() if "uses:" in line]
    foreign = [line for line in lines if OURS not in line]
    assert len(foreign) > 10
    for line in foreign:
        assert re.search(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


def test_one_version_of_each_action_is_used():
    pins = {}
    for _, step in steps():
        name, _, commit = step.get("uses", "").partition("@")
        if commit:
            assert pins.setdefault(name, commit) == commit, name


def test_a_workflow_gives_nothing_and_each_job_says_what_it_needs():
    for path in WORKFLOWS:
        assert load(path)["permissions"] == {}, path.name
    for file, name, job in jobs():
        assert isinstance(job.get("permissions"), dict), f"{file}:{name}"


def test_no_job_may_write_more_than_the_table_says():
    found = {}
    for file, name, job in jobs():
        writes = {scope for scope, right in job["permissions"].items() if right == "write"}
        assert set(job["permissions"].values()) <= {"read", "write"}
        if writes:
            found[file, name] = writes
    assert found == WRITES
    assert [key for key, scopes in found.items() if "packages" in scopes] == [
        ("images.yml", "build"), ("images.yml", "promote")]


def runs_for_pull_requests(workflow: dict, name: str) -> bool:
    """Whether a pull request can start this job. A job behind one that was left out runs only
    where its condition starts with !cancelled() and does not ask for more."""
    job = workflow["jobs"][name]
    condition = str(job.get("if", ""))
    if "pull_request" not in workflow["on"] or "github.event_name != 'pull_request'" in condition:
        return False
    needs = job.get("needs", [])
    out = [one for one in ([needs] if isinstance(needs, str) else needs)
           if not runs_for_pull_requests(workflow, one)]
    return not out or not ("cancelled()" not in condition or any(
        f"needs.{one}.result != 'skipped'" in condition
        or f"needs.{one}.result == 'success'" in condition for one in out))


def test_a_pull_request_reaches_only_jobs_that_read():
    reached = [(path.name, name) for path in WORKFLOWS for name in load(path)["jobs"]
               if runs_for_pull_requests(load(path), name)]
    assert reached == [("ci.yml", "lint"), ("ci.yml", "test"), ("ci.yml", "rings"),
                       ("images.yml", "plan"), ("images.yml", "try")]
    for file, name in reached:
        job = load(GITHUB / "workflows" / file)["jobs"][name]
        assert job["permissions"] == {"contents": "read"}
        assert "environment" not in job and "token" not in json.dumps(job)
        assert job["runs-on"] == "ubuntu-24.04"  # a runner of our own is not for strangers' code


@pytest.mark.parametrize(("old", "new"), [
    ("github.event_name != 'pull_request' && needs", "needs"),
    ("!cancelled() && needs.build.result != 'skipped' }}", "!cancelled() }}"),
])  # fmt: skip
def test_that_check_sees_a_job_that_a_pull_request_can_reach(old, new):
    text = (GITHUB / "workflows" / "images.yml").read_text()
    assert old in text
    workflow = yaml.safe_load(text.replace(old, new))
    workflow["on"] = workflow.pop(True)
    reached = [name for name in workflow["jobs"] if runs_for_pull_requests(workflow, name)]
    assert "build" in reached or "load" in reached


def test_nothing_runs_a_strangers_code_with_our_rights_and_no_secret_is_used():
    for path in WORKFLOWS:
        assert not {"pull_request_target", "workflow_run", "issue_comment"} & set(load(path)["on"])
        assert "secrets." not in path.read_text() and "secrets:" not in path.read_text()


def test_no_checkout_leaves_a_token_behind():
    found = [step for _, step in steps() if step.get("uses", "").startswith("actions/checkout@")]
    assert len(found) > 5
    assert all(step["with"]["persist-credentials"] is False for step in found)


def test_no_cache_reaches_a_job_that_signs_or_that_gives_tags():
    signing = [(file, job) for file, _, job in jobs() if "id-token" in job["permissions"]]
    assert len(signing) == 2
    for _, job in signing:
        for step in job["steps"]:
            used = step.get("uses", "")
            text = json.dumps(step)
            if used.startswith(OURS):
                text += json.dumps(load(ACTIONS[used.removeprefix(OURS)])["runs"])
            assert "cache" not in text and "buildx" not in text, used


def test_what_is_installed_beside_a_token_is_locked_by_hash():
    script = (GITHUB / "actions" / "setup" / "install.sh").read_text()
    assert "--require-hashes" in script and "--no-index ./verify ./build" in script
    locked = (GITHUB / "requirements.txt").read_text()
    for line in re.findall(r"^\w.*", locked, re.MULTILINE):
        assert re.match(r"[\w.-]+==\S+ (; .* )?\\$", line), line
    assert "://" not in locked


def test_all_that_the_two_distributions_need_is_locked():
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    locked = (GITHUB / "requirements.txt").read_text()
    names = {re.sub(r"[-_.]+", "-", name).lower()
             for name in re.findall(r"^([\w.-]+)==", locked, re.MULTILINE)}
    for member in ("verify", "build"):
        project = tomllib.loads((ROOT / member / "pyproject.toml").read_text())
        wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
        for one in wanted:
            name = re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", one)[0]).lower()
            if name != "apexlab-verify" and "python_version < " not in one:
                assert name in names, f"{name}: lock .github/requirements.in anew"


def test_no_expression_reaches_a_shell_but_through_the_environment():
    for where, step in steps():
        assert "${{" not in step.get("run", ""), where


def test_a_job_that_is_run_again_may_leave_its_files_again():
    # An artifact's name is taken for the whole run, its repetitions included.
    found = [step["with"] for _, step in steps() if "/upload-artifact@" in step.get("uses", "")]
    assert len(found) == 4 and all(one["overwrite"] is True for one in found)
    names = [one["name"] for one in found]
    assert len(set(names)) == len(names) and not [name for name in names if "/" in name]


def test_only_one_run_publishes_at_a_time():
    workflow = load(GITHUB / "workflows" / "images.yml")
    assert workflow["concurrency"] == {
        "group": "images-${{ startsWith(github.ref, 'refs/tags/') && 'refs/heads/main' || "
                 "github.ref }}",
        "cancel-in-progress": "${{ github.event_name == 'pull_request' }}"}
    assert "github.ref == 'refs/heads/main' || startsWith(github.ref, 'refs/tags/v')" in \
        workflow["jobs"]["promote"]["if"]


def test_every_job_ends_by_itself():
    for file, name, job in jobs():
        assert 0 < job["timeout-minutes"] <= 360, f"{file}:{name}"


# -- what it is made of


def test_our_own_actions_get_the_inputs_that_they_have():
    used = [(where, step) for where, step in steps() if step.get("uses", "").startswith(OURS)]
    assert {step["uses"].removeprefix(OURS) for _, step in used} == set(ACTIONS)
    for where, step in used:
        inputs = load(ACTIONS[step["uses"].removeprefix(OURS)]).get("inputs", {})
        given = set(step.get("with", {}))
        assert given <= set(inputs), where
        assert {name for name, one in inputs.items() if one.get("required")} <= given, where


def test_every_script_that_is_called_is_there_and_may_run():
    called = {word for _, step in steps() for word in re.findall(
        r"\.github/scripts/[\w.-]+", step.get("run", ""))}
    assert called == {str(path.relative_to(ROOT)) for path in (GITHUB / "scripts").iterdir()}
    for name in [*called, *(path.relative_to(ROOT) for path in GITHUB.rglob("*.sh"))]:
        assert os.access(ROOT / name, os.X_OK), name


def test_the_jobs_of_all_cells_are_the_planners():
    with_matrix = {name: job["strategy"]["matrix"] for file, name, job in jobs()
                   if file == "images.yml" and "strategy" in job}
    assert set(with_matrix) == {"try", "build", "load", "gpu", "promote"}
    assert set(with_matrix.values()) == {"${{ fromJSON(needs.plan.outputs.matrix) }}"}


def test_nothing_is_promoted_that_was_not_verified_on_its_digest():
    promote = load(GITHUB / "workflows" / "images.yml")["jobs"]["promote"]
    assert set(promote["needs"]) == {"plan", "build", "load", "gpu"}
    assert promote["strategy"]["max-parallel"] == 1
    runs = [step["run"] for step in promote["steps"] if "run" in step]
    assert runs == [".github/scripts/promote.sh"]


# -- the scripts, called


def call(script: str, tmp_path: Path, programs: dict[str, str] | None = None, **environ: str):
    """Run a script as a step would: (exit code, its outputs, what it printed)."""
    out = tmp_path / "output"
    out.write_text("")
    stubs = tmp_path / "stubs"
    stubs.mkdir(exist_ok=True)
    for name, text in (programs or {}).items():
        (stubs / name).write_text(text)
        (stubs / name).chmod(0o755)
    done = subprocess.run(
        [ROOT / script], cwd=environ.pop("cwd", ROOT), capture_output=True, text=True,
        env={**os.environ, "PATH": f"{stubs}:{BIN}:{os.environ['PATH']}",
             "GITHUB_OUTPUT": str(out), **environ})
    outputs = dict(line.split("=", 1) for line in out.read_text().splitlines())
    return done.returncode, outputs, done.stdout + done.stderr


def test_the_plan_has_every_cell_and_on_a_pull_request_the_changed_ones(tmp_path):
    code, every, said = call(".github/scripts/plan.sh", tmp_path, BASE="",
                             GITHUB_REPOSITORY="Some-One/apexLab")
    assert code == 0, said
    assert every["image"] == "ghcr.io/some-one/apexlab"
    code, some, said = call(".github/scripts/plan.sh", tmp_path, BASE="HEAD",
                            GITHUB_REPOSITORY="a/b")
    assert code == 0, said
    names = [{one["name"] for one in json.loads(plan["matrix"])["include"]}
             for plan in (some, every)]
    assert names[0] < names[1]
    assert len(names[1]) <= 256  # what GitHub takes
    assert all(re.fullmatch(r"[\w.-]+", name) for name in names[1])  # in names of artifacts


def test_a_plan_that_cannot_be_made_ends_the_run(tmp_path):
    code, outputs, _ = call(".github/scripts/plan.sh", tmp_path, BASE="no-such-commit",
                            GITHUB_REPOSITORY="a/b")
    assert code == 2 and outputs == {}


def test_the_base_of_the_plan_is_the_pull_requests():
    plan = load(GITHUB / "workflows" / "images.yml")["jobs"]["plan"]["steps"]
    assert plan[0]["with"]["fetch-depth"] == 0
    assert plan[-1]["env"]["BASE"].startswith("${{ github.event.pull_request.base.sha ||")


ECHO = "#!/bin/sh\nprintf '%s\\n' \"$@\"\n"


@pytest.mark.parametrize("there", [
    {}, {"report": "load.json"}, {"report": "run.json", "bench": "bench/a b/result.json"}])
def test_promotion_hands_over_what_was_found(tmp_path, there):
    (tmp_path / "digest").write_text("sha256:ab\n")
    for name in there.values():
        (tmp_path / "reports" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "reports" / name).touch()
    code, _, said = call(".github/scripts/promote.sh", tmp_path, {"apexlab": ECHO},
                         REPOSITORY="ghcr.io/a/b", cwd=str(tmp_path))
    words = [word for option, name in there.items() for word in (f"--{option}", f"reports/{name}")]
    assert code == 0, said
    assert said.splitlines() == ["publish", "ghcr.io/a/b@sha256:ab", *words]


def test_a_refusal_of_publish_ends_the_job(tmp_path):
    (tmp_path / "digest").write_text("sha256:ab\n")
    code, _, _ = call(".github/scripts/promote.sh", tmp_path, {"apexlab": "#!/bin/sh\nexit 1\n"},
                      REPOSITORY="ghcr.io/a/b", cwd=str(tmp_path))
    assert code == 1


def test_the_site_is_made_from_what_the_registry_has_of_all_cells(tmp_path):
    code, _, said = call(".github/scripts/site.sh", tmp_path, {"apexlab": ECHO},
                         REPOSITORY="ghcr.io/a/b", GITHUB_REPOSITORY="A/b")
    assert code == 0, said
    assert " ".join(said.split()) == (
        "publish records ghcr.io/a/b --repository A/b --out records "
        "site --out site --records records")
    site = load(GITHUB / "workflows" / "images.yml")["jobs"]["site"]
    assert site["permissions"] == {"contents": "read", "packages": "read"}
    assert not [step for step in site["steps"] if "download-artifact" in step.get("uses", "")]


def test_a_tag_that_does_not_pass_ends_the_job_of_the_site(tmp_path):
    code, _, said = call(".github/scripts/site.sh", tmp_path, {
        "apexlab": "#!/bin/sh\necho \"$1\"\n[ \"$2\" != records ]\n"},
        REPOSITORY="ghcr.io/a/b", GITHUB_REPOSITORY="A/b")
    assert code == 1 and said == "publish\n"


@pytest.mark.parametrize("ended", [0, 1, 4, 5])
def test_the_verdict_is_kept_with_the_report_and_the_digest(tmp_path, ended):
    docker = f"#!/bin/sh\n[ \"$1\" = pull ] && exit 0\necho \"$@\"\nexit {ended}\n"
    code, _, said = call(".github/scripts/verify.sh", tmp_path, {"docker": docker},
                         IMAGE="r/i@sha256:ab", LEVEL="load", REPORT=str(tmp_path / "r" / "a.json"))
    assert code == ended, said
    assert (tmp_path / "r" / "a.json").read_text().split() == [
        "run", "--rm", "r/i@sha256:ab", "verify", "--level", "load", "--image-digest", "sha256:ab",
        "--json"]


def test_the_image_is_pushed_by_digest_and_under_no_name(tmp_path):
    made = {"buildx.build.warnings": [],
            "torch2_6-cuda12_4": {"containerimage.digest": "sha256:ab"}}
    docker = f"""#!/bin/sh
[ "$1 $2" = "buildx bake" ] || exit 9
cat "$6"
echo '{json.dumps(made)}' >"$8"
"""
    code, outputs, said = call(
        ".github/actions/build-by-digest/build.sh", tmp_path, {"docker": docker}, TORCH="2.6",
        CUDA="12.4", REPOSITORY="ghcr.io/a/b", CELL="torch2.6-cuda12.4")
    assert code == 0, said
    assert outputs == {"digest": "sha256:ab"}
    definition, _ = json.JSONDecoder().raw_decode(said[said.index("{"):])
    [target] = definition["target"].values()
    assert "tags" not in target
    assert target["output"] == [
        "type=image,name=ghcr.io/a/b,push-by-digest=true,name-canonical=true,push=true"]
    assert target["args"]["TORCH_REQUIREMENT"] == "torch==2.6.0"


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(["git", "-C", folder, *identity, *words], capture_output=True, text=True,
                          check=True).stdout


@pytest.mark.parametrize(("open_", "verb"), [("", "create"), ("7", "edit")])
def test_the_refresh_is_one_pull_request_with_the_pins_alone(tmp_path, open_, verb):
    pins = "build/src/apexlab/build/pins.toml"
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(origin))
    git(tmp_path, "clone", "--quiet", str(origin), str(clone))
    (clone / pins).parent.mkdir(parents=True)
    (clone / pins).write_text("[image]\n")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message", "first")
    git(clone, "push", "--quiet", "origin", "HEAD:main")
    (clone / "new").mkdir()
    (clone / "new" / "pins.toml").write_text('[image]\n"a:1" = "sha256:ab"\n')
    (clone / "new" / "changes.md").write_text("what changed\n")
    gh = f"""#!/bin/sh
echo gh "$@" >&2
[ "$1 $2" = "pr list" ] && printf %s "{open_}"
exit 0
"""
    code, _, said = call(".github/scripts/propose.sh", tmp_path, {"gh": gh}, NEW="new",
                         cwd=str(clone))
    assert code == 0, said
    assert git(origin, "diff", "--name-only", "main", "refresh/base-images").split() == [pins]
    assert f"gh pr {verb} " in said
    assert ("gh workflow run images.yml --ref refresh/base-images "
            "--field changed-since=origin/main") in said


@pytest.mark.parametrize("change", ["", "| base image | pinned to | now |"])
def test_the_refresh_says_whether_a_pin_changed(tmp_path, change):
    shutil.copytree(ROOT / "build" / "src" / "apexlab" / "build",
                    tmp_path / "build" / "src" / "apexlab" / "build")
    python = f"#!/bin/sh\necho \"$@\" >&2\nprintf %s '{change}'\n"
    code, outputs, said = call(".github/scripts/refresh.sh", tmp_path, {"python": python},
                               cwd=str(tmp_path))
    assert code == 0, said
    assert "-m apexlab.build.refresh new/pins.toml" in said
    assert outputs == {"changed": "true" if change else "false"}
    assert (tmp_path / "new" / "pins.toml").exists()


# -- the linters, each seen to fail


@pytest.fixture(scope="module")
def lint(tmp_path_factory):
    """`lint(target, file, old, new)`: what that target of make says of a copy with one change."""
    # The programs are those of the environment that runs the tests; npm's part is made once.
    venv = ROOT / ".cache" / "lint"
    (venv / "lint").mkdir(parents=True, exist_ok=True)
    (venv / "ok").touch()
    os.utime(venv / "ok", (0, 0))

    def run(target: str, file: str = "", old: str = "", new: str = ""):
        tree = tmp_path_factory.mktemp("tree")
        for part in ("Makefile", ".github", "verify/deploy"):
            place = tree / part
            place.parent.mkdir(exist_ok=True)
            source = ROOT / part
            shutil.copytree(source, place) if source.is_dir() else shutil.copy2(source, place)
        (tree / ".git").mkdir()  # where zizmor takes a repository to begin
        if file:
            text = (tree / file).read_text()
            assert old in text
            (tree / file).write_text(text.replace(old, new, 1))
        return subprocess.run(
            ["make", "--silent", f"BIN={BIN}", f"VENV={venv}", f"--old-file={venv}/ok", target],
            cwd=tree, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})

    return run


def test_the_workflows_are_clean(lint):
    done = lint("lint-workflows")
    assert done.returncode == 0, done.stdout + done.stderr


IMAGES, KUBERNETES = ".github/workflows/images.yml", "verify/deploy/kubernetes.yaml"


@pytest.mark.parametrize(("target", "file", "old", "new", "said"), [
    ("zizmor", IMAGES, "run: .github/scripts/site.sh", "run: echo ${{ github.head_ref }}",
     "template-injection"),
    ("zizmor", IMAGES, "@4d04d5d9486b7bd6fa91e7baf45bbb4f8b9deedd # v4.0.0", "@v4",
     "unpinned-uses"),
    ("zizmor", IMAGES, "  pull_request:\n", "  pull_request_target:\n", "dangerous-triggers"),
    ("zizmor", IMAGES, "permissions:\n      contents: read\n    outputs",
     "permissions: write-all\n    outputs", "excessive-permissions"),
    ("zizmor", IMAGES, "          persist-credentials: false\n", "          clean: true\n",
     "artipacked"),
    ("schemas", IMAGES, "timeout-minutes: 10\n", "timeout-minutes: ten\n", "timeout-minutes"),
    ("schemas", ".github/actions/setup/action.yml", "using: composite", "using: composit",
     "'composit'"),
    ("schemas", ".github/dependabot.yml", "interval: weekly", "interval: hourly", "'hourly'"),
    ("actionlint", IMAGES, "${{ matrix.torch }}", "${{ matrxi.torch }}",
     'undefined variable "matrxi"'),
    ("actionlint", IMAGES, "steps.build.outputs", "steps.built.outputs",
     'property "built" is not defined'),
    ("actionlint", IMAGES, "needs: [plan, build]", "needs: [plan, biuld]", "biuld"),
    ("kubernetes", KUBERNETES, "backoffLimit: 0", "backofLimit: 0", "backofLimit"),
    ("kubernetes", KUBERNETES, "restartPolicy: Never", "restartPolicy: [Never]", "restartPolicy"),
])  # fmt: skip
def test_each_linter_fails_on_a_bad_example(lint, target, file, old, new, said):
    done = lint(f"lint-{target}", file, old, new)
    assert done.returncode != 0
    assert said in done.stdout + done.stderr


def test_hadolint_and_shellcheck_fail_on_bad_examples(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN cd /tmp && sudo apt-get install x\n")
    done = subprocess.run([BIN / "hadolint", "--config", ROOT / ".hadolint.yaml",
                           tmp_path / "Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 1 and "DL3006" in done.stdout and "DL3004" in done.stdout
    (tmp_path / "a.sh").write_text("#!/bin/bash\nrm -rf $1/\n")
    done = subprocess.run([BIN / "shellcheck", tmp_path / "a.sh"], capture_output=True, text=True)
    assert done.returncode == 1 and "SC2086" in done.stdout
