#!/usr/bin/env bash
# The new pins and what changed, in the folder new/; says whether anything did.
set -euo pipefail
pins=build/src/apexlab/build/pins.toml
mkdir -p new
cp "$pins" new/pins.toml
python -m apexlab.build.refresh new/pins.toml >new/changes.md
changed=false
if [ -s new/changes.md ]; then
    changed=true
fi
cat new/changes.md
echo "changed=$changed" >>"$GITHUB_OUTPUT"
