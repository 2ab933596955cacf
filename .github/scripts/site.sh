#!/usr/bin/env bash
# The page of all cells, in ./site: from what the registry has of each, signed by this repository.
# REPOSITORY: where the images are.
set -euo pipefail
apexlab publish records "$REPOSITORY" --repository "$GITHUB_REPOSITORY" --out records
apexlab site --out site --records records
