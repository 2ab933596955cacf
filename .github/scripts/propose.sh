#!/usr/bin/env bash
# One pull request with the new pins in $NEW, and the build of the cells that they concern: a pull
# request that a workflow opened starts no workflow by itself.
# NEW holds pins.toml and changes.md; GH_TOKEN may write.
set -euo pipefail
branch=refresh/base-images
cp "$NEW/pins.toml" build/src/apexlab/build/pins.toml
git config user.name "github-actions[bot]"
git config user.email "41898282+github-actions[bot]@users.noreply.github.com"
git switch --create "$branch"
git commit --message "Pin the base images to what their registry has" build/src/apexlab/build/pins.toml
gh auth setup-git
git push --force origin "$branch"
title="Newest digests of the base images"
if [ -z "$(gh pr list --head "$branch" --state open --json number --jq '.[].number')" ]; then
    gh pr create --head "$branch" --base main --title "$title" --body-file "$NEW/changes.md"
else
    gh pr edit "$branch" --title "$title" --body-file "$NEW/changes.md"
fi
gh workflow run images.yml --ref "$branch" --field changed-since=origin/main
