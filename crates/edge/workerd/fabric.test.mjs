// Profile `fabric` in workerd: KV is the truth, hits are appended, nothing else is written, and broken KV is never a 500.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { fetchPath, keys, start, TOKEN, until } from "./harness.mjs";
import { REFUSED, SERIALISED } from "./vectors.mjs";

let edge, routes, hits;
before(async () => {
    edge = await start([{ name: "fabric", vars: { RMAX_PROFILE: "fabric" } }]);
    [routes, hits] = [await edge.kv("ROUTES"), await edge.kv("HITS")];
});
after(() => edge?.stop());
beforeEach(async () => {
    for (const space of [routes, hits]) for (const key of await keys(space)) await space.delete(key);
});

const route = (code, more = {}) => ({
    v: 1, code, target: "https://a.example/page?x=1", status: "active",
    created_at: "2026-01-12T12:41:00Z", updated_at: "2026-01-12T12:41:00Z", created_by: "max@rmax.ai",
    meta: { notes: null, tags: [] }, rules: { https_only: true, no_loop: true, expires_at: null },
    stats: { hits: 0, last_hit: null }, ...more,
});
const put = (code, more) => routes.put(`route:${code}`, JSON.stringify(route(code, more)));
const get = (path, options) => fetchPath(edge, path, options);
const json = { accept: "application/json" };

async function expect(path, status, code, options = {}) {
    const answer = await get(path, { ...options, headers: { ...json, ...options.headers } });
    const body = await answer.text();
    assert.equal(answer.status, status, `${path}: ${body}`);
    if (code) assert.equal(JSON.parse(body).error.code, code);
    return answer;
}

test("each redirect appends one hit, with the network and not the address", async () => {
    await put("parity");
    const headers = {
        "cf-connecting-ip": "203.0.113.77", "user-agent": "Test/1", referer: "https://u:p@news.example/a?secret=1",
    };
    for (let n = 0; n < 20; n++) {
        const answer = await get("/parity", { headers, cf: { country: "NL", colo: "AMS" } });
        assert.equal(answer.status, 301);
        assert.equal(answer.headers.get("location"), "https://a.example/page?x=1");
    }
    const written = await until(async () => ((await keys(hits)).length === 20 ? keys(hits) : undefined), "20 hits");
    assert.match(written[0], /^hit:parity:\d{8}:[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const value = await hits.get(written[0]);
    const hit = JSON.parse(value);
    assert.deepEqual(Object.keys(hit), ["ts", "code", "country", "ua_hash", "referrer", "ip_prefix"]);
    assert.deepEqual(
        [hit.code, hit.country, hit.referrer, hit.ip_prefix],
        ["parity", "NL", "https://news.example/a", "203.0.113.0/24"],
    );
    assert.match(hit.ua_hash, /^[0-9a-f]{16}$/);
    for (const secret of ["203.0.113.77", "Test/1", "secret", "u:p"]) assert.ok(!value.includes(secret), secret);
});

test("a request that is not a click leaves no hit", async () => {
    await put("parity");
    await put("off", { status: "disabled" });
    await get("/parity", { method: "HEAD" });
    await get("/parity+");
    for (const path of ["/nope", "/off", "/__admin__", "/", "/health", "/parity/x"]) await get(path);
    await get("/parity", { method: "POST", body: "x" });
    await get("/parity");
    await until(async () => (await keys(hits)).length > 0, "the one hit");
    assert.equal((await keys(hits)).length, 1);
});

test("a hit is recorded under the code as it is stored", async () => {
    await put("parity");
    assert.equal((await get("/PARITY")).status, 301);
    const [key] = await until(async () => ((await keys(hits)).length ? keys(hits) : undefined), "a hit");
    assert.ok(key.startsWith("hit:parity:"), key);
});

test("a slow, full or missing hit log delays and changes no response", async () => {
    await put("parity");
    for (const faults of [{ HITS: { put: "never" } }, { HITS: { put: "throw" } }, { HITS: { put: "throw at once" } }, { HITS: null }]) {
        const answer = await get("/parity", { faults });
        assert.equal(answer.status, 301, JSON.stringify(faults));
    }
});

test("ROUTES is never written, and no admin endpoint exists", async () => {
    await put("parity");
    const faults = { ROUTES: { put: "throw at once", delete: "throw at once" } };
    const before = await keys(routes);
    const authorized = { ...json, authorization: `Bearer ${TOKEN}` };
    assert.equal((await get("/parity", { faults })).status, 301);
    for (const [method, path] of [["POST", "/api/v1/links"], ["GET", "/api/v1/links"], ["DELETE", "/api/v1/links/parity"], ["GET", "/admin"], ["GET", "/metrics"]]) {
        const body = method === "POST" ? "{}" : undefined;
        const answer = await get(path, { method, body, headers: authorized, faults });
        assert.equal(answer.status, 404, `${method} ${path}`);
    }
    assert.deepEqual(await keys(routes), before);
});

test("the order of the steps: disabled before expired before a loop", async () => {
    const past = { https_only: true, no_loop: true, expires_at: "2020-01-01T00:00:00Z" };
    await put("a", { status: "disabled", rules: past, target: "https://rmax.to/x" });
    await put("b", { rules: past, target: "https://rmax.to/x" });
    await put("c", { target: "https://rmax.to/x" });
    await expect("/a", 404, "NOT_FOUND");
    await expect("/b", 410, "EXPIRED");
    await expect("/c", 500, "LOOP_DETECTED");
});

test("objects that are broken, newer or huge are not served, and never a 500", async () => {
    const objects = {
        "not-json": "{", empty: "", list: "[]", text: '"x"', nothing: "null", binary: "\u0000\u0001",
        newer: JSON.stringify(route("newer", { v: 2 })), "no-v": JSON.stringify(route("no-v", { v: undefined })),
        "no-target": JSON.stringify(route("no-target", { target: undefined })),
        "bad-target": JSON.stringify(route("bad-target", { target: "javascript:alert(1)" })),
        "bad-status": JSON.stringify(route("bad-status", { status: "paused" })),
        "bad-rules": JSON.stringify(route("bad-rules", { rules: { no_loop: "no" } })),
        "bad-expiry": JSON.stringify(route("bad-expiry", { rules: { expires_at: "soon" } })),
        "bad-redirect": JSON.stringify(route("bad-redirect", { redirect_status: 200 })),
        "anothers": JSON.stringify(route("someone")),
        huge: JSON.stringify(route("huge", { meta: { notes: "x".repeat(300_000) } })),
        vast: JSON.stringify(route("vast", { meta: { notes: "x".repeat(5_000_000) } })),
        deep: `{"v":1,"code":"deep","target":"https://a.example/","status":"active","x":${"[".repeat(10_000)}${"]".repeat(10_000)}}`,
    };
    for (const [code, value] of Object.entries(objects)) {
        await routes.put(`route:${code}`, value);
        await expect(`/${code}`, 404, "NOT_FOUND");
    }
    await put("parity");
    assert.equal((await get("/parity")).status, 301, "the Worker goes on");
});

test("forbidden targets are not served from KV either", async () => {
    for (const target of REFUSED) {
        await put("odd", { target });
        const answer = await get("/odd");
        assert.deepEqual([answer.status, answer.headers.get("location")], [404, null], JSON.stringify(target));
    }
    for (const [target, location] of SERIALISED) {
        await put("odd", { target });
        assert.equal((await get("/odd")).headers.get("location"), location, target);
    }
});

test("unknown fields are ignored, version 0 is upgraded in memory", async () => {
    await routes.put("route:odd", '{"v":1,"code":"odd","target":"https://a.example/","status":"active","__proto__":{"status":"disabled"},"constructor":1,"future":{"x":[1]},"stats":"none"}');
    assert.equal((await get("/odd")).status, 301);
    await routes.put("route:old", '{"v":0,"code":"old","url":"https://old.example/","enabled":true,"expires":null}');
    const answer = await get("/old");
    assert.deepEqual([answer.status, answer.headers.get("location")], [301, "https://old.example/"]);
    assert.deepEqual(JSON.parse(await routes.get("route:old")).v, 0, "and not in KV");
});

test("an outage of KV is 503, never 404", async () => {
    for (const kind of ["throw", "throw at once", "never"]) {
        const answer = await expect("/parity", 503, "KV_UNAVAILABLE", { faults: { ROUTES: { get: kind } } });
        assert.equal(answer.headers.get("retry-after"), "2");
    }
    await expect("/parity", 503, "KV_UNAVAILABLE", { faults: { ROUTES: null } });
    const health = await get("/health", { faults: { ROUTES: { get: "throw" } } });
    assert.equal(health.status, 200);
});

test("a slow KV is waited for, stale values redirect, and malformed ones are not found", async () => {
    await put("parity");
    assert.equal((await get("/parity", { faults: { ROUTES: { get: "after 300" } } })).status, 301);
    const stale = JSON.stringify(route("parity", { target: "https://old.example/" }));
    const answer = await get("/parity", { faults: { ROUTES: { get: `value ${stale}` } } });
    assert.equal(answer.headers.get("location"), "https://old.example/");
    await expect("/parity", 404, "NOT_FOUND", { faults: { ROUTES: { get: "value <html>" } } });
});
