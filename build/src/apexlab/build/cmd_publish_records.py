"""`apexlab publish records`: what a registry holds of every cell, checked, for `apexlab site`."""

from __future__ import annotations

from pathlib import Path

import click

from apexlab.build import options
from apexlab.build.errors import files_in_words
from apexlab.verify.errors import OK


@click.command()
@click.argument("name")
@options.records_out
@options.trust_key
@options.repository
@options.identity
@options.issuer
@options.registry_ca
@files_in_words()
def records(
    name: str, out: Path, key: Path | None, repository: str | None, identity: str | None,
    issuer: str, registry_ca: Path | None,
) -> int:  # fmt: skip
    """Collect the records of all cells from the registry, for `apexlab site`.

    NAME is where the images are, without a tag: ghcr.io/OWNER/apexlab. Each cell's tag is checked
    like `publish verify` does it, and what is written comes from signed statements alone. A cell
    without a tag is not published; one that does not pass ends this with 1, and nothing is written.
    """
    # Late, so that --help stays quick.
    from apexlab.build.matrix import load
    from apexlab.build.publish import consumer, reference, sign
    from apexlab.build.publish.registry import Registry
    from apexlab.build.runner import terminate_as_interrupt
    from apexlab.build.site import collect

    collect.check(out)
    place = reference.parse_name(name)
    trust = consumer.trusted(key, repository, identity, issuer)
    matrix = load()
    with terminate_as_interrupt(), sign.Cosign(trust, ca=registry_ca) as cosign:
        found = collect.collect(Registry(place, registry_ca), cosign, matrix, repository,
                                lambda line: click.echo(line, err=True))
    collect.write(out, found)
    click.echo(f"{out}: the records of {len(found)} cells; {len(matrix.cells) - len(found)} are "
               "not published")
    return OK
