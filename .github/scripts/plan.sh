#!/usr/bin/env bash
# What the jobs of images.yml are made from. BASE: the commit to compare with; all cells without.
set -euo pipefail
since=()
if [ -n "$BASE" ]; then
    since=(--changed-since "$BASE")
fi
matrix=$(apexlab matrix --format github "${since[@]}")
{
    echo "matrix=$matrix"
    # Registries take no capital letters.
    echo "image=ghcr.io/${GITHUB_REPOSITORY,,}"
} >>"$GITHUB_OUTPUT"
echo "$matrix"
