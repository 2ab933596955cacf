#!/usr/bin/env bash
# Hand the digest and all that was found of it to `apexlab publish`, which decides.
# REPOSITORY: where the digest is; NAME: the cell's; ./digest and ./reports come from the jobs before.
# What `apexlab site` needs to show it goes to ./published/NAME.
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
place=published/$NAME
mkdir -p "$place"
apexlab publish "$REPOSITORY@$(cat digest)" "${arguments[@]}" --json >"$place/published.json"
for report in reports/load.json reports/run.json; do # the last one reached the highest level
    [ ! -e "$report" ] || cp "$report" "$place/verify.json"
done
for result in reports/bench/**/result.json; do
    cp "$result" "$place/"
    [ ! -e "${result%result.json}report.html" ] || cp "${result%result.json}report.html" "$place/"
done
