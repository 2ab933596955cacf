#!/usr/bin/env bash
# A hosted runner has about 14 GB free, and an image with torch needs 25 while it is built. What is
# removed here no job of this repository uses; what a later runner has elsewhere is left alone.
set -euo pipefail
df -h /
for unused in /usr/share/dotnet /usr/local/lib/android /opt/ghc /usr/local/.ghcup \
    /opt/hostedtoolcache/CodeQL /usr/local/share/powershell /usr/share/swift; do
    if [ -d "$unused" ]; then
        sudo rm -rf "$unused"
    fi
done
# nvcc's peaks are short. The driver sizes its jobs by the memory alone, so that swap is only what
# keeps a peak that was larger than predicted from ending the job.
if [ ! -e /apexlab-swap ]; then
    sudo fallocate -l 10G /apexlab-swap
    sudo chmod 600 /apexlab-swap
    sudo mkswap /apexlab-swap
    sudo swapon /apexlab-swap
fi
df -h /
free -h
