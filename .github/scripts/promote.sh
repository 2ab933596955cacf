#!/usr/bin/env bash
# Hand the digest and all that was found of it to `apexlab publish`, which decides.
# REPOSITORY: where the digest is; ./digest and ./reports come from the jobs before.
set -euo pipefail
arguments=()
for report in reports/load.json reports/run.json; do
    if [ -e "$report" ]; then
        arguments+=(--report "$report")
    fi
done
shopt -s globstar nullglob
for result in reports/bench/**/result.json; do
    arguments+=(--bench "$result")
done
apexlab publish "$REPOSITORY@$(cat digest)" "${arguments[@]}"
