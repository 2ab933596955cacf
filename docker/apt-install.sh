#!/bin/sh
# Install Debian or Ubuntu packages in a build step. APT_MIRROR, where it is set, takes the place
# of the archive, for this call only: the image keeps the sources of its base.
set -eu
scratch=$(mktemp -d)
clean=/etc/apt/apt.conf.d/docker-clean
restore() {
    [ ! -f "$scratch/docker-clean" ] || mv "$scratch/docker-clean" "$clean"
    rm -rf "$scratch"
}
trap restore EXIT

# Base images empty apt's folders after each call, and with them the cache mounts of the step.
[ ! -f "$clean" ] || mv "$clean" "$scratch/"
packages=$*
set -- --quiet
if [ -n "${APT_MIRROR:-}" ]; then
    # shellcheck source=/dev/null
    . /etc/os-release
    parts=main
    [ "$ID" != ubuntu ] || parts="main universe"
    echo "deb $APT_MIRROR $VERSION_CODENAME $parts" >"$scratch/sources.list"
    set -- "$@" -o Dir::Etc::SourceList="$scratch/sources.list" -o Dir::Etc::SourceParts=/dev/null
fi
export DEBIAN_FRONTEND=noninteractive
apt-get "$@" update
# shellcheck disable=SC2086 # a list of packages
apt-get "$@" install --yes --no-install-recommends $packages
