// What one request costs in workerd: CPU of its whole process, which also plays Cloudflare's KV, D1 and caches here. What they cost
// alone is seen from a few lines of JavaScript that make the same calls and decide nothing.
import { readFileSync } from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";

const { Miniflare } = createRequire(`${process.env.RLINKS_EDGE_NPM}/package.json`)("miniflare");
const requests = Number(process.argv[2]);
const build = new URL("../crates/edge/build/", import.meta.url);
const read = (name) => readFileSync(new URL(name, build));
const worker = [
    { type: "ESModule", path: "index.js", contents: read("index.js").toString() },
    { type: "CompiledWasm", path: "index_bg.wasm", contents: read("index_bg.wasm") },
];
const bare = [
    {
        type: "ESModule",
        path: "bare.mjs",
        contents: `export default { async fetch(request, env, context) {
            const { pathname } = new URL(request.url);
            if (pathname === "/health") return new Response("ok");
            const { target } = JSON.parse(await env.ROUTES.get("route:" + pathname.slice(1), { cacheTtl: 60 }));
            if (request.method === "GET") context.waitUntil(env.HITS.put("hit:" + crypto.randomUUID(), "{}"));
            return new Response(null, { status: 301, headers: { location: target } });
        } };`,
    },
];
const route = (code) => ({ v: 1, code, target: "https://a.example/page?x=1", status: "active", rules: { https_only: true, no_loop: true, expires_at: null } });

async function start(modules, vars) {
    const mf = new Miniflare({
        host: "127.0.0.1", port: 0, cf: false, handleRuntimeStdio() {},
        workers: [{
            name: "w", modules, compatibilityDate: "2026-07-01", bindings: { HASH_KEY: "k", RMAX_DOMAIN: "127.0.0.1", ...vars },
            kvNamespaces: ["ROUTES", "HITS", "CACHE_KV"], d1Databases: ["DB"],
            analyticsEngineDatasets: { ANALYTICS: { dataset: "events" } },
            unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }],
        }],
    });
    await mf.ready;
    const routes = await mf.getKVNamespace("ROUTES", "w");
    await routes.put("route:ok", JSON.stringify(route("ok")));
    const db = await mf.getD1Database("DB", "w");
    const migrations = readFileSync(new URL("../deploy/cloudflare/migrations/0001_create_links.sql", import.meta.url), "utf8");
    for (const sql of migrations.replaceAll(/--.*$/gm, "").split(";").map((one) => one.trim()).filter(Boolean)) await db.prepare(sql).run();
    await db.prepare("insert into links (slug, target, created_at, updated_at) values ('ok', 'https://a.example/page?x=1', 1, 1)").run();
    return { mf, url: new URL(await mf.unsafeGetDirectURL("w")) };
}

const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
const ask = (url, path, method = "GET") =>
    new Promise((done, fail) => {
        const began = process.hrtime.bigint();
        const headers = { "user-agent": "Mozilla/5.0 (X11; Linux x86_64)", "cf-connecting-ip": "203.0.113.7", accept: "text/html" };
        const options = { host: url.hostname, port: url.port, method, path, agent, headers };
        const request = http.request(options, (answer) => {
            answer.resume();
            answer.on("end", () => done({ status: answer.statusCode, ms: Number(process.hrtime.bigint() - began) / 1e6 }));
        });
        request.on("error", fail);
        request.end();
    });

// The CPU of our child processes, in milliseconds.
function cpuMs() {
    const children = readFileSync(`/proc/self/task/${process.pid}/children`, "utf8").trim().split(" ").filter(Boolean);
    return children.reduce((sum, pid) => {
        const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /, "").split(" ");
        return sum + (Number(fields[11]) + Number(fields[12])) * 10;
    }, 0);
}

async function load(url, path, count, method) {
    let left = count;
    const one = async () => { while (left-- > 0) await ask(url, path, method); };
    await Promise.all(Array.from({ length: 16 }, one));
}

async function measure(name, modules, vars, path, status, method) {
    const { mf, url } = await start(modules, vars);
    const first = await ask(url, path, method);
    if (first.status !== status) throw new Error(`${name}: ${first.status}`);
    await load(url, path, requests / 4, method);
    const [cpu, began] = [cpuMs(), Date.now()];
    await load(url, path, requests, method);
    const [spent, seconds] = [cpuMs() - cpu, (Date.now() - began) / 1000];
    console.log(`${name}: first request ${first.ms.toFixed(1)} ms, CPU ${((spent * 1000) / requests).toFixed(0)} us a request, ${(requests / seconds).toFixed(0)} requests/s`);
    await mf.dispose();
}

for (let round = 1; round <= 3; round++) {
    console.log(`round ${round}`);
    await measure("  nothing but an answer, JavaScript ", bare, {}, "/health", 200);
    await measure("  nothing but an answer, Worker     ", worker, {}, "/health", 200);
    await measure("  KV read (HEAD), JavaScript        ", bare, {}, "/ok", 301, "HEAD");
    await measure("  KV read (HEAD), Worker (fabric)   ", worker, { RMAX_PROFILE: "fabric" }, "/ok", 301, "HEAD");
    await measure("  KV and a hit, JavaScript          ", bare, {}, "/ok", 301);
    await measure("  KV and a hit, Worker (fabric)     ", worker, { RMAX_PROFILE: "fabric" }, "/ok", 301);
    await measure("  cache and an event, Worker (edge) ", worker, { RMAX_PROFILE: "edge" }, "/ok", 302);
}
agent.destroy();
