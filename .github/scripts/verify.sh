#!/usr/bin/env bash
# Verify the image IMAGE, a name with a digest, at LEVEL; the JSON report goes to REPORT. With a GPU
# for LEVEL=run. The exit code is verify's own.
set -euo pipefail
gpus=()
if [ "$LEVEL" = run ]; then
    gpus=(--gpus all)
fi
docker pull --quiet "$IMAGE"
mkdir -p "$(dirname "$REPORT")"
code=0
docker run --rm "${gpus[@]}" "$IMAGE" verify --level "$LEVEL" --image-digest "${IMAGE##*@}" \
    --json >"$REPORT" || code=$?
cat "$REPORT"
exit "$code"
