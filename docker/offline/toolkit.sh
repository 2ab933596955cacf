#!/bin/sh
# Put a CUDA toolkit together under $1, with the layout of NVIDIA's own: bin, include, lib64, nvvm.
# WHEELS: requirements, from PyPI. DEB and DEB_SUITE: for CUDA 12, the Debian package that has nvcc
# and the Debian release that has the package; it is unpacked and not installed.
set -eu
cuda=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

unpack_deb() {
    # The release is not this image's own, so apt gets a state of its own as well: nothing else
    # of that release may be installed here by accident.
    mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
        awk '/^deb |^URIs:/ { print $2; exit }')
    mkdir -p "$work/lists/partial" "$work/archives/partial"
    cd "$work"
    echo "deb $mirror $DEB_SUITE non-free" >sources.list
    set -- -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work" -o APT::Sandbox::User=root
    apt-get --quiet "$@" update
    apt-get --quiet "$@" download "$DEB"
    dpkg-deb --extract ./*.deb "$work/deb"
}

copy_wheels() {
    # CUDA 13's wheels share one folder, which is a toolkit already; CUDA 12's have one each.
    for part in "$work"/wheels/nvidia/*/; do
        for folder in bin include nvvm; do
            [ ! -d "$part$folder" ] || cp -a "$part$folder/." "$cuda/$folder/"
        done
        [ ! -d "${part}lib" ] || cp -a "${part}lib/." "$cuda/lib64/"
    done
}

copy_deb() {
    # Debian spreads the compiler over /usr; nvcc looks for these files beside itself.
    tools=$work/deb/usr/lib/nvidia-cuda-toolkit
    cp -a "$tools/bin/nvcc" "$tools/bin/crt" "$cuda/bin/"
    for tool in ptxas fatbinary cudafe++ nvlink bin2c cuobjdump nvdisasm cu++filt; do
        cp -a "$work/deb/usr/bin/$tool" "$cuda/bin/"
    done
    mkdir -p "$cuda/nvvm/bin" "$cuda/nvvm/libdevice"
    cp -a "$tools/bin/cicc" "$cuda/nvvm/bin/"
    cp -a "$tools/libdevice/." "$cuda/nvvm/libdevice/"
    # Debian's profile names Debian's folders. This one finds everything from nvcc's own place.
    cat >"$cuda/bin/nvcc.profile" <<'PROFILE'
TOP              = $(_HERE_)/..
CICC_PATH        = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH            += $(CICC_PATH):$(_HERE_):
INCLUDES        += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES        =+ $(_SPACE_) "-L$(TOP)/lib64"
PROFILE
}

mkdir -p "$cuda/bin" "$cuda/include" "$cuda/lib64" "$cuda/nvvm"
ln -s lib64 "$cuda/lib"
# shellcheck disable=SC2086 # a list of requirements
python3 -m pip install --quiet --no-deps --no-compile --no-cache-dir --root-user-action ignore \
    --target "$work/wheels" $WHEELS
copy_wheels
if [ -n "${DEB:-}" ]; then
    unpack_deb
    copy_deb
fi

# Wheels lose the executable bit on some tools, and have no `libcudart.so` for the linker.
chmod a+x "$cuda"/bin/* "$cuda/nvvm/bin/cicc"
for library in "$cuda"/lib64/lib*.so.*; do
    plain=${library%%.so.*}.so
    [ -e "$plain" ] || ln -s "${library##*/}" "$plain"
done
"$cuda/bin/nvcc" --version
