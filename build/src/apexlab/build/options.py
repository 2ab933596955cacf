"""The options of build's commands, each defined once."""

from __future__ import annotations

from pathlib import Path

import click

# -- which cell

torch = click.option("--torch", metavar="V", help="The torch version: 2.4 (its newest), or 2.4.1.")
cuda = click.option("--cuda", metavar="V", help="The CUDA version: 12.4.")

# -- how to compile

archs = click.option(
    "--archs", metavar="LIST",
    help="GPU architectures: 8.0,9.0+PTX. Default: those of the cell.")
profile = click.option(
    "--profile", default="core", show_default=True, metavar="NAME",
    help="The extensions: core, or full for all that the Apex commit has.")
jobs = click.option(
    "--jobs", type=click.IntRange(min=1),
    help="Files compiled at once, at most. Default: what cores and memory allow.")
memory = click.option(
    "--memory", metavar="SIZE",
    help="Memory that the build may use: 16G. A lower limit that is found still holds.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")

# -- which image, and from what

target = click.option(
    "--target", type=click.Choice(["runtime", "bench", "wheel"]), default="bench",
    show_default=True,
    help="The slim image, the one with measurements and torch.compile, or only the wheel.")
base = click.option(
    "--base", default="nvidia", show_default=True, metavar="NAME",
    help="The base images: nvidia's, or offline for bases that are built here.")
apex_source = click.option(
    "--apex-source", metavar="URL|DIR",
    help="Another repository of Apex (a mirror), or a folder with its source.")
apex_ref = click.option(
    "--apex-ref", metavar="COMMIT", help="Another commit of Apex than the cell's, in full.")
python = click.option("--python", metavar="V", help="Another Python than the base's own: 3.12.")
ca = click.option(
    "--ca", envvar=["APEXLAB_CA", "SSL_CERT_FILE"], show_envvar=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="A bundle of certificates for the build steps, where a private authority is needed.")
build_args = click.option(
    "--build-arg", "build_args", multiple=True, metavar="NAME=VALUE",
    help="A build argument of docker/Dockerfile, for mirrors: PIP_INDEX_URL=https://...")

# -- publishing

_file = click.Path(exists=True, dir_okay=False, path_type=Path)
report = click.option(
    "--report", "reports", type=_file, multiple=True, required=True, metavar="FILE",
    help="A report of `apexlab verify --image-digest DIGEST --json`; may be given several times.")
bench = click.option(
    "--bench", type=_file, multiple=True, metavar="FILE",
    help="The result.json of `apexlab bench` in this image, to attach it.")
sign_key = click.option(
    "--key", type=_file, metavar="FILE",
    help="The private key of cosign to sign with (password: COSIGN_PASSWORD). Without one the "
         "identity of the workflow signs, in GitHub Actions.")
publish_level = click.option(
    "--level", type=click.Choice(["load", "run"]),
    help="The level that a report has to reach; at least what the cell asks for.")
trust_level = click.option(
    "--level", type=click.Choice(["load", "run"]), default="load", show_default=True,
    help="The level that a signed report has to reach.")
replace = click.option(
    "--replace", multiple=True, metavar="sha256:...",
    help="An image that may lose its tag, although it is newer or somebody else's.")
allow_stand_in = click.option(
    "--allow-stand-in", is_flag=True,
    help="For trials: publish what is not Apex, under tags that say so.")
registry_ca = click.option(
    "--registry-ca", envvar=["APEXLAB_REGISTRY_CA", "SSL_CERT_FILE"], show_envvar=True, type=_file,
    metavar="FILE", help="The certificate authority of a registry of your own.")
trust_key = click.option("--key", type=_file, metavar="FILE", help="The public key you trust.")
repository = click.option(
    "--repository", metavar="OWNER/NAME",
    help="The repository on github.com whose workflows you trust.")
identity = click.option(
    "--identity", metavar="REGEXP", help="The identity in the signing certificate you trust.")
issuer = click.option(
    "--issuer", metavar="URL", default="https://token.actions.githubusercontent.com",
    show_default=True, help="Who vouched for that identity.")

# -- the page

out = click.option(
    "--out", required=True, metavar="DIR", type=click.Path(file_okay=False, path_type=Path),
    help="Where the site goes; a site that is there is replaced.")
records_out = click.option(
    "--out", required=True, metavar="DIR", type=click.Path(file_okay=False, path_type=Path),
    help="Where the records go: a new folder, or an empty one.")
records = click.option(
    "--records", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder for each published cell, with its published.json, verify.json and result.json.")
