// A server of our own on a free port, with a data folder that is gone afterwards: the real binary, started as an operator starts it.
//
// `RLINKS_RMAX` names the binary.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

export const PASSWORD = "correct horse battery staple";
export const ANN = "ann@example.com";

const rmax = process.env.RLINKS_RMAX ?? fail("RLINKS_RMAX does not name the binary: run scripts/stage/47-browser");

function fail(message) {
    throw new Error(message);
}

/**
 * Starts a server. With `admin` there is Ann, who can sign in; with `seed` (arguments of `rmax dev seed`) there are links and clicks.
 * `settings` are more variables.
 */
export async function startServer({ admin = true, seed, settings = {} } = {}) {
    const folder = mkdtempSync(join(tmpdir(), "rlinks-browser-"));
    // Nothing of whoever runs this: a configuration file or a variable could name another store.
    const ours = Object.entries(process.env).filter(([name]) => !name.startsWith("RMAX_"));
    const env = { ...Object.fromEntries(ours), RMAX_DATA: join(folder, "data"), RMAX_IDENTITY: ANN, XDG_CONFIG_HOME: join(folder, "config"), ...settings };
    const run = (args, input = "") => execFileSync(rmax, args, { cwd: folder, env, input, encoding: "utf8", stdio: ["pipe", "pipe", "pipe"] });
    const addPerson = (email, name, role) => run(["users", "create", "--email", email, "--name", name, "--role", role, "--password-stdin"], PASSWORD);
    if (seed) run(["dev", "seed", ...seed]);
    if (admin) addPerson(ANN, "Ann Example", "admin");

    // The death signal keeps a killed test run from leaving a server behind.
    const server = spawn("setpriv", ["--pdeathsig", "TERM", rmax, "serve", "--listen", "127.0.0.1:0"], { cwd: folder, env, stdio: ["ignore", "ignore", "pipe"] });
    const log = [];
    const lines = createInterface({ input: server.stderr }).on("line", (line) => log.push(line));
    const gone = once(server, "exit");
    /** The first group of the first line of the log that fits, once there is one. */
    const said = async (pattern) => {
        for (;;) {
            const found = log.map((line) => pattern.exec(line)).find(Boolean);
            if (found) return found[1];
            const ended = await Promise.race([once(lines, "line").then(() => false), gone.then(() => true)]);
            if (ended) fail(`the server is gone and never said ${pattern}:\n${log.join("\n")}`);
        }
    };
    const address = await said(/serving redirects on (http:\/\/[0-9.:]+)/);

    return {
        address,
        said,
        rmax: run,
        addPerson,
        /** A visitor, with what their browser would send. */
        visit: (path, headers = {}) => fetch(address + path, { redirect: "manual", headers: { "User-Agent": FIREFOX, ...headers } }),
        /** What a program does, with a key. */
        api: async (key, method, path, body) => {
            const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
            const answer = await fetch(`${address}/api/v1${path}`, { method, headers, body: body && JSON.stringify(body) });
            const text = await answer.text();
            return { status: answer.status, json: text ? JSON.parse(text) : undefined };
        },
        stop: async () => {
            server.kill("SIGTERM");
            await gone;
            rmSync(folder, { recursive: true, force: true });
            const faults = log.filter((line) => /panicked| ERROR /.test(line));
            if (faults.length) fail(`the server's log has errors:\n${faults.join("\n")}`);
        },
    };
}

/** A visitor's browser that is no bot. */
export const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/** Waits until `look` gives something true. */
export async function until(look, what, milliseconds = 30_000) {
    const end = Date.now() + milliseconds;
    for (;;) {
        const found = await look();
        if (found) return found;
        if (Date.now() > end) fail(`waited in vain: ${what}`);
        await new Promise((next) => setTimeout(next, 50));
    }
}
