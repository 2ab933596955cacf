#!/usr/bin/env bash
# The definition is apexlab's own; only where its result goes is another: to the registry, by digest.
# TORCH, CUDA, REPOSITORY and CELL come from the action.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
apexlab image --torch "$TORCH" --cuda "$CUDA" --dry-run >"$work/asked.json"
python "$here/by_digest.py" "$REPOSITORY" "$CELL" <"$work/asked.json" >"$work/definition.json"
# One plain manifest: SBOM and provenance are attached when the image was verified, by
# `apexlab publish`, and the digest that is verified is the one that gets the tags.
export BUILDX_NO_DEFAULT_ATTESTATIONS=1 BUILDX_BAKE_ENTITLEMENTS_FS=0
docker buildx bake --progress plain --file "$work/definition.json" --metadata-file "$work/made.json"
digest=$(python "$here/by_digest.py" --digest <"$work/made.json")
echo "$REPOSITORY@$digest"
echo "digest=$digest" >>"$GITHUB_OUTPUT"
