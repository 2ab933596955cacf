#!/usr/bin/env bash
# Run `apexlab verify` once on every node of a Slurm allocation and merge the reports:
#
#   sbatch --nodes 4 --gpus-per-node 8 --exclusive verify/deploy/slurm.sh
#
# REPORTS: a folder that all nodes share (default: reports here); each job has one of its own in it,
# so that no report of an earlier one stands for a node that left none. Without a container apexlab
# has to be on the PATH of the nodes; with the pyxis plugin the image is named by IMAGE.
#SBATCH --job-name apexlab-verify
#SBATCH --ntasks-per-node 1
#SBATCH --time 00:30:00
set -euo pipefail
reports=${REPORTS:-reports}/$SLURM_JOB_ID
reports=$(mkdir -p "$reports" && cd "$reports" && pwd)
container=()
if [ -n "${IMAGE:-}" ]; then
    container=(--container-image "$IMAGE" --container-mounts "$reports:$reports")
fi
# A node on which something is found keeps no other from its report.
# shellcheck disable=SC2016 # the node's own shell expands it
srun --ntasks-per-node 1 --kill-on-bad-exit=0 "${container[@]}" sh -c '
    apexlab verify --json >"$1/.$SLURMD_NODENAME.part" || true
    mv "$1/.$SLURMD_NODENAME.part" "$1/$SLURMD_NODENAME.json"' sh "$reports" || true
apexlab verify merge "$reports" --expect "$SLURM_JOB_NUM_NODES" --html "$reports/nodes.html"
