# shellcheck shell=bash
# What walks through the dashboard: Debian's Chromium, driven from Node. Source it after common.sh.

# One folder for each lock file: a changed one is installed anew.
browser_npm=${cache:?source common.sh first}/browser-npm-$(cksum <crates/server/browser/package-lock.json | cut -d ' ' -f 1)

# Installs what is missing. Playwright's own script would fetch a browser: it does not run.
fetch_browser_tools() {
    (
        flock 8
        [ ! -e "$browser_npm/ready" ] || exit 0
        command -v npm >/dev/null || die "please install Node with npm"
        say "fetching playwright and axe"
        rm -rf "$browser_npm"
        mkdir -p "$browser_npm"
        cp crates/server/browser/package.json crates/server/browser/package-lock.json "$browser_npm/"
        npm ci --prefix "$browser_npm" --ignore-scripts --no-audit --no-fund --loglevel error 8>&-
        touch "$browser_npm/ready"
    ) 8>"$cache/browser-npm.lock"
}

# Builds the program and exports what the tests look for.
use_browser() {
    cargo build --locked -p rmax
    RLINKS_RMAX=$(realpath "${CARGO_TARGET_DIR:-target}/debug/rmax")
    RLINKS_CHROMIUM=$(command -v chromium)
    export RLINKS_RMAX RLINKS_CHROMIUM RLINKS_BROWSER_NPM=$browser_npm
}
