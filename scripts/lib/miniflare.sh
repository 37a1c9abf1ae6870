# shellcheck shell=bash
# Miniflare, Cloudflare's runtime on this machine, from npm into the cache folder. Source common.sh first.

miniflare_version=4.20260730.0
# shellcheck disable=SC2154  # common.sh sets it
miniflare_home=$cache/miniflare-$miniflare_version

# Installs it where it is missing. Two at once wait for each other.
fetch_miniflare() {
    (
        flock 8
        [ ! -e "$miniflare_home/ready" ] || exit 0
        command -v npm >/dev/null || die "please install Node with npm"
        say "fetching miniflare $miniflare_version"
        rm -rf "$miniflare_home"
        # The programs inside come as packages of their own, so no script of anybody's has to run.
        npm install --prefix "$miniflare_home" --no-save --ignore-scripts --no-audit --no-fund --loglevel error \
            "miniflare@$miniflare_version" 8>&-
        touch "$miniflare_home/ready"
    ) 8>"$cache/miniflare.lock"
}
