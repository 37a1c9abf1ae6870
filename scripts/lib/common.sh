# shellcheck shell=bash
# What every stage shares. Source it first; it leaves the shell in the root of the repository.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Tools and builds are kept outside the repository, so that `git clean` does not cost a download.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rlinks
mkdir -p "$cache"

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

# Sets `long` to yes or no from a stage's arguments.
parse_stage_arguments() {
    long=no
    local argument
    for argument in "$@"; do
        case $argument in
            --long) long=yes ;;
            *) die "unknown argument '$argument': a stage takes only --long" ;;
        esac
    done
    # shellcheck disable=SC2034  # read by the stages
    readonly long
}

# Runs `cargo test` and also fails when the filter matched no test: a renamed module must not turn a
# stage into one that proves nothing.
cargo_test_some() {
    local output status=0
    output=$(mktemp)
    cargo test "$@" 2>&1 | tee "$output" || status=$?
    if [ "$status" = 0 ] && ! grep -Eq '^test result: ok\. [1-9]' "$output"; then
        say "error: no test ran: cargo test $*"
        status=1
    fi
    rm -f "$output"
    return "$status"
}
