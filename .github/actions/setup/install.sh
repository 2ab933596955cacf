#!/usr/bin/env bash
# Every package by its hash: what is installed here may run beside a token that can publish.
set -euo pipefail
python -m pip install --quiet --disable-pip-version-check --require-hashes \
    --requirement .github/requirements.txt
python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
    --no-index ./verify ./build
apexlab --version
