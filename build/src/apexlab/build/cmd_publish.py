"""`apexlab publish`: give a verified image its tags, attestations and signature; check one."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from apexlab.build import options
from apexlab.build.cmd_publish_records import records
from apexlab.build.errors import RefusedError, files_in_words
from apexlab.verify.errors import OK, UsageError

if TYPE_CHECKING:
    from apexlab.build.publish.decide import Refusal
    from apexlab.build.publish.evidence import Measured, Verified
    from apexlab.build.publish.promote import Promotion, Statement, Step
    from apexlab.build.publish.sign import Trust
    from apexlab.build.publish.subject import Subject
    from apexlab.build.rows import Cell

DEFAULT = "image"


class WithDefault(click.Group):
    """`apexlab publish DIGEST` is `apexlab publish image DIGEST`: what is no subcommand and no
    question for help belongs to the image."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "-h", "--help"):
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


@click.group(cls=WithDefault,
             subcommand_metavar="DIGEST --report FILE... | verify IMAGE | records NAME")
def publish() -> None:
    """Give a verified image its tags, attestations and signature.

    DIGEST is an image that was pushed without a tag to stay, REGISTRY/NAME@sha256:... . It gets
    tags only with a verify report that was made in this very digest, that is good, and that reached
    the level its cell asks for. `apexlab publish image --help` lists the options.
    """


@publish.command(DEFAULT)
@click.argument("digest")
@options.report
@options.bench
@options.sign_key
@options.publish_level
@options.replace
@options.allow_stand_in
@options.registry_ca
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@options.as_json
@files_in_words()
def image(
    digest: str, reports: tuple[Path, ...], bench: tuple[Path, ...], key: Path | None,
    level: str | None, replace: tuple[str, ...], allow_stand_in: bool, registry_ca: Path | None,
    dry_run: bool, as_json: bool,
) -> int:  # fmt: skip
    """Publish the image with this DIGEST (REGISTRY/NAME@sha256:...).

    Attaches the verify reports, the benchmark, the list of its packages and its provenance as
    signed attestations, signs the digest, and then gives it its tags. Run it again after a lost
    connection: it does what is left.
    """
    # Late, so that --help stays quick.
    from datetime import datetime, timezone

    from apexlab.build.matrix import load
    from apexlab.build.publish import decide, evidence, promote, reference, sign, subject, tags
    from apexlab.build.publish.registry import Registry
    from apexlab.build.runner import terminate_as_interrupt
    from apexlab.verify import output

    place = reference.parse_digest(digest)
    if dry_run and as_json:
        raise UsageError("--json says what was published, and --dry-run publishes nothing.")
    if bad := [one for one in replace if not reference.DIGEST.fullmatch(one)]:
        raise UsageError(f"--replace {bad[0]!r} is not a digest: sha256: and 64 digits.")
    read = [evidence.verified(evidence.read(path), str(path)) for path in reports]
    results = [evidence.measured(evidence.read(path), str(path)) for path in bench]
    with ExitStack() as stack:
        stack.enter_context(terminate_as_interrupt())
        trust = _own_trust(key, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        cosign = stack.enter_context(sign.Cosign(trust, key, registry_ca))
        registry, matrix = Registry(place, registry_ca, write=True), load()
        what = subject.read(registry)
        cell = decide.cell_of(what.record, matrix)
        rules = decide.Rules(datetime.now(timezone.utc), level, allow_stand_in)
        _refuse(decide.refusals(what, read, results, cell, rules))
        assert cell is not None  # noqa: S101 - refused above
        promotion = promote.Promotion(registry, cosign, what, _statements(what, read, results),
                                      tags.names(what, cell, matrix))
        holders = promotion.holders()
        _refuse(tags.refusals(promotion.tags, holders, what, replace))
        if dry_run:
            for step in promotion.plan(holders):
                click.echo(_line(step, "would be done"))
            return OK
        # A reader of the progress that left (`2>&1 | head`) must not stop it half-way.
        promotion.run(holders, _best(read), lambda step: output.complain(_line(step)))
        # --json is what `apexlab site` reads: published.json.
        text = _document(promotion, cell, read) if as_json else _summary(promotion, cell, read)
    click.echo(text)
    return OK


@publish.command()
@click.argument("image_name", metavar="IMAGE")
@options.trust_key
@options.repository
@options.identity
@options.issuer
@options.trust_level
@options.registry_ca
@files_in_words()
def verify(
    image_name: str, key: Path | None, repository: str | None, identity: str | None, issuer: str,
    level: str, registry_ca: Path | None,
) -> int:  # fmt: skip
    """Check an image that was published: signature, report, packages, provenance.

    IMAGE is a tag or a digest. Say whom you trust: --key, or the repository whose workflow signs.
    """
    from apexlab.build.publish import consumer, reference, sign
    from apexlab.build.publish.registry import Registry
    from apexlab.build.runner import terminate_as_interrupt
    from apexlab.verify.render import printable

    place = reference.parse(image_name)
    trust = consumer.trusted(key, repository, identity, issuer)
    with terminate_as_interrupt(), sign.Cosign(trust, ca=registry_ca) as cosign:
        checked = consumer.check(Registry(place, registry_ca), cosign, level)
    click.echo(f"VERIFIED   {checked.reference.by_digest}")
    mark = "" if checked.source == "apex" else "NOT APEX, "
    click.echo(printable(f"{mark}{checked.built} · level {checked.level}"))
    for name, found in checked.statements.items():
        click.echo(f"{name:<14} {f'signed ({len(found)})' if found else 'none'}")
    for report in checked.reports:
        where = ", ".join(report.gpus) or "no GPU"
        click.echo(printable(f"report         {report.verdict} at {report.level}, {where}, "
                             f"{report.document.get('created')}"))
    click.echo("With cosign alone:")
    for line in consumer.commands(checked.reference, trust):
        click.echo(f"  {line}")
    return OK


publish.add_command(records)


def _own_trust(key: Path | None, folder: Path) -> Trust:
    """Whose signatures count as our own: those of the key, or of this repository's workflows."""
    from apexlab.build.publish import sign

    if key is not None:
        return sign.Trust(key=sign.public_key(key, folder))
    return sign.Trust(identity=sign.own_identity(os.environ))


def _statements(what: Subject, reports: list[Verified], results: list[Measured],
                ) -> list[Statement]:
    from apexlab.build.publish import consumer, provenance, sbom
    from apexlab.build.publish.promote import Statement

    return [
        *(Statement(f"verify report {one.where}", consumer.VERIFY, one.document)
          for one in reports),
        *(Statement(f"benchmark {one.where}", consumer.BENCH, one.document) for one in results),
        Statement("SBOM", sbom.PREDICATE, sbom.sbom(what)),
        Statement("provenance", provenance.PREDICATE,
                  provenance.provenance(what, provenance.builder(os.environ))),
    ]


def _refuse(found: tuple[Refusal, ...]) -> None:
    if found:
        text = "".join(f"\n- {one.code}: {one.message}" for one in found)
        raise RefusedError(f"This image gets no tag, for {len(found)} reason(s):{text}")


def _best(reports: list[Verified]) -> str:
    from apexlab.verify.report import LEVELS

    return max((one.level for one in reports), key=LEVELS.index)


def _line(step: Step, new: str = "done") -> str:
    return f"{'was there' if step.there else new:<13}  {step.act}"


def _document(promotion: Promotion, cell: Cell, reports: list[Verified]) -> str:
    from apexlab.build.site.published import document

    return json.dumps(document(promotion, cell, _best(reports), os.environ), indent=2)


def _summary(promotion: Promotion, cell: Cell, reports: list[Verified]) -> str:
    """Verdict first, then what is known, then the command for whoever pulls it."""
    image, record = promotion.subject.image, promotion.subject.record
    names = [image.reference.tagged(tag.name) for tag in promotion.tags]
    keyless = promotion.cosign.trust.key is None
    whom = f"--repository {os.environ.get('GITHUB_REPOSITORY')}" if keyless else "--key cosign.pub"
    return "\n".join([
        f"PUBLISHED   {image.reference.by_digest}",
        *(f"tag         {name}" for name in names),
        f"{record.short_source} · torch {record.torch.get('version')} · CUDA {cell.cuda} · "
        f"verified at level {_best(reports)}",
        f"next        apexlab publish verify {names[0]} {whom}",
    ])
