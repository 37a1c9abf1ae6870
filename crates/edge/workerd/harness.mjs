// Runs the built Worker in workerd, the runtime Cloudflare runs, with real KV, D1 and caches of miniflare.
//
// `RLINKS_EDGE_NPM` names the folder that has `crates/edge/package.json` installed; without it, it is looked for as usual.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import net from "node:net";
import { createInterface } from "node:readline";

const npm = process.env.RLINKS_EDGE_NPM;
const { Miniflare } = createRequire(npm ? `${npm}/package.json` : import.meta.url)("miniflare");

const here = (path) => new URL(path, import.meta.url);
const build = process.env.RLINKS_EDGE_BUILD ? new URL(`file://${process.env.RLINKS_EDGE_BUILD}/`) : here("../build/");

const modules = [
    { type: "ESModule", path: "wrapper.mjs", contents: readFileSync(here("wrapper.mjs"), "utf8") },
    { type: "ESModule", path: "index.js", contents: readFileSync(new URL("index.js", build), "utf8") },
    { type: "CompiledWasm", path: "index_bg.wasm", contents: readFileSync(new URL("index_bg.wasm", build)) },
];

// Tables as wrangler makes them.
const migrations = ["0001_create_links", "0002_tombstones", "0003_watermarks"].map((name) =>
    readFileSync(here(`../../../deploy/cloudflare/migrations/${name}.sql`), "utf8"),
);

export const TOKEN = "a token for tests only, and long enough";

/** Starts workerd with these Workers: `[{ name, vars, cache }]`. */
export async function start(workers) {
    const points = [];
    const logs = [];
    const line = (text) => {
        if (text.startsWith("@point ")) points.push(JSON.parse(text.slice(7)));
        else logs.push(text);
    };
    const mf = new Miniflare({
        host: "127.0.0.1",
        port: 0,
        cf: false,
        unsafeTriggerHandlers: true,
        handleRuntimeStdio(out, errors) {
            createInterface({ input: out }).on("line", line);
            createInterface({ input: errors }).on("line", line);
        },
        workers: workers.map(({ name, vars, cache = true }) => ({
            name,
            cache,
            modules,
            compatibilityDate: "2026-07-01",
            bindings: { HASH_KEY: "a key for tests only", ADMIN_TOKEN: TOKEN, RMAX_DOMAIN: "rmax.to", ...vars },
            kvNamespaces: { ROUTES: `${name}-routes`, HITS: `${name}-hits`, CACHE_KV: `${name}-cache` },
            d1Databases: { DB: `${name}-db` },
            analyticsEngineDatasets: { ANALYTICS: { dataset: "edge_shortener_events" } },
            unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }],
        })),
    });
    await mf.ready;
    const db = async (name) => {
        const database = await mf.getD1Database("DB", name);
        for (const text of migrations) {
            const statements = text.replaceAll(/--.*$/gm, "").split(";").map((sql) => sql.trim()).filter(Boolean);
            for (const sql of statements) await database.prepare(sql).run();
        }
        return database;
    };
    return {
        mf,
        points,
        logs,
        kv: (binding, name = workers[0].name) => mf.getKVNamespace(binding, name),
        db: (name = workers[0].name) => db(name),
        address: async (name = workers[0].name) => new URL(await mf.unsafeGetDirectURL(name)),
        stop: () => mf.dispose(),
    };
}

/** One request, byte for byte, and its answer: `{ status, headers: [[name, value]], body }`. */
export function ask(address, { method, target, hosts, headers = [], body = "" }) {
    const framed = headers.some(([name]) => ["content-length", "transfer-encoding"].includes(name.toLowerCase()));
    const lines = [`${method} ${target} HTTP/1.1`, ...hosts.map((host) => `Host: ${host}`)];
    for (const [name, value] of headers) lines.push(`${name}: ${value}`);
    if (body !== "" && !framed) lines.push(`Content-Length: ${Buffer.byteLength(body)}`);
    lines.push("Connection: close", "", body);
    return new Promise((done, fail) => {
        let bytes = Buffer.alloc(0);
        const socket = net.connect(Number(address.port), address.hostname, () => socket.write(lines.join("\r\n")));
        socket.setTimeout(30_000, () => socket.destroy(new Error("no answer within 30 s")));
        socket.on("error", fail);
        socket.on("data", (part) => {
            bytes = Buffer.concat([bytes, part]);
            // workerd takes seconds to close a connection it was asked to close: an answer is whole when it is whole.
            const answer = parse(bytes, method);
            if (answer === undefined) return;
            done(answer);
            socket.destroy();
        });
        socket.on("close", () => fail(new Error(`no whole answer: ${JSON.stringify(bytes.toString("latin1").slice(0, 200))}`)));
    });
}

// The answer, if all of it is there.
function parse(bytes, method) {
    const end = bytes.indexOf("\r\n\r\n");
    if (end < 0) return undefined;
    const [first, ...lines] = bytes.subarray(0, end).toString("latin1").split("\r\n");
    const headers = lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]);
    const status = Number(first.split(" ")[1]);
    const rest = bytes.subarray(end + 4);
    const header = (name) => headers.find(([key]) => key === name)?.[1];
    let body;
    if (method === "HEAD" || status === 204) body = rest;
    else if (header("transfer-encoding") === "chunked") body = unchunk(rest);
    else if (rest.length >= Number(header("content-length") ?? 0)) body = rest;
    return body === undefined ? undefined : { status, headers, body: body.toString("utf8") };
}

function unchunk(bytes) {
    const parts = [];
    for (let at = 0; ; ) {
        const line = bytes.indexOf("\r\n", at);
        const length = parseInt(bytes.subarray(at, line).toString("latin1"), 16);
        if (line < 0 || Number.isNaN(length) || bytes.length < line + 2 + length) return undefined;
        if (length === 0) return Buffer.concat(parts);
        parts.push(bytes.subarray(line + 2, line + 2 + length));
        at = line + 2 + length + 2;
    }
}

/** A request as a browser or a program makes it. */
export async function fetchPath(edge, path, { faults, nowMs, headers = {}, name, ...rest } = {}) {
    const extra = { ...headers };
    if (faults) extra["x-test-faults"] = JSON.stringify(faults);
    if (nowMs) extra["x-test-now-ms"] = String(nowMs);
    const worker = name ? await edge.mf.getWorker(name) : undefined;
    const options = { redirect: "manual", headers: extra, ...rest };
    const url = path.startsWith("http") ? path : `https://rmax.to${path}`;
    return worker ? worker.fetch(url, options) : edge.mf.dispatchFetch(url, options);
}

/** Waits until `look` gives something true. */
export async function until(look, what, milliseconds = 10_000) {
    const end = Date.now() + milliseconds;
    for (;;) {
        const found = await look();
        if (found) return found;
        if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
        await new Promise((next) => setTimeout(next, 20));
    }
}

/** Every key of a namespace. */
export async function keys(namespace, prefix = "") {
    const names = [];
    let cursor;
    do {
        const page = await namespace.list({ prefix, cursor });
        names.push(...page.keys.map((key) => key.name));
        cursor = page.list_complete ? undefined : page.cursor;
    } while (cursor);
    return names;
}
