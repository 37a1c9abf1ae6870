// Profile `edge` in workerd: D1 is the truth, KV and the Cache API stand in front of it, and each may be away.
import assert from "node:assert/strict";
import http from "node:http";
import { after, before, beforeEach, test } from "node:test";
import { fetchPath, keys, start, TOKEN, until } from "./harness.mjs";
import { REFUSED, SERIALISED } from "./vectors.mjs";

const ACCOUNT = "acct";
let edge, db, cache, analytics;

before(async () => {
    analytics = await startAnalytics();
    edge = await start([
        {
            name: "edge",
            vars: {
                RMAX_PROFILE: "edge", ANALYTICS_ACCOUNT: ACCOUNT, ANALYTICS_TOKEN: "analytics token",
                ANALYTICS_API: analytics.url,
            },
        },
    ]);
    [db, cache] = [await edge.db(), await edge.kv("CACHE_KV")];
});
after(async () => {
    await edge?.stop();
    await analytics?.stop();
});
let made = 0;
let code;
beforeEach(async () => {
    for (const table of ["links", "tombstones", "watermarks"]) await db.prepare(`delete from ${table}`).run();
    for (const key of await keys(cache)) await cache.delete(key);
    analytics.reset();
    // Each test has a code of its own, so that this data centre's cache of one does not answer another.
    code = `Code_${++made}`;
});

// A stand-in of Cloudflare's analytics SQL API: it checks the token and answers what a test gives it.
async function startAnalytics() {
    let answers, asked, status;
    const reset = () => ([answers, asked, status] = [[], [], 200]);
    reset();
    const server = http.createServer(async (request, response) => {
        let sql = "";
        for await (const part of request) sql += part;
        const right = request.headers.authorization === "Bearer analytics token" && request.url === `/client/v4/accounts/${ACCOUNT}/analytics_engine/sql`;
        asked.push(sql);
        response.writeHead(right ? status : 403, { "content-type": "application/json" });
        response.end(JSON.stringify({ meta: [], data: answers.shift() ?? [], rows: 0 }));
    });
    await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
    return {
        url: `http://127.0.0.1:${server.address().port}/client/v4`,
        reset,
        answer: (...lists) => answers.push(...lists),
        fail: (code) => (status = code),
        asked: () => asked,
        stop: () => new Promise((done) => { server.close(done); server.closeAllConnections(); }),
    };
}

const get = (path, options) => fetchPath(edge, path, options);
const api = async (method, path, body, { headers = {}, ...options } = {}) => {
    const text = body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body);
    const all = { authorization: `Bearer ${TOKEN}`, ...(text === undefined ? {} : { "content-type": "application/json" }), ...headers };
    const answer = await get(`/api/v1${path}`, { method, body: text, headers: all, ...options });
    const said = await answer.text();
    return { status: answer.status, headers: answer.headers, body: said === "" ? undefined : JSON.parse(said) };
};
const create = async (more = {}) => {
    const answer = await api("POST", "/links", { code, target: "https://a.example/", ...more });
    assert.equal(answer.status, 201, JSON.stringify(answer.body));
    return answer.body;
};
const insert = (slug, target = "https://a.example/", expiresAt = null) =>
    db.prepare("insert into links (slug, target, status, expires_at, created_at, updated_at) values (?1, ?2, 302, ?3, 1, 1)").bind(slug, target, expiresAt).run();
const rowOf = (slug) => db.prepare("select * from links where slug = ?1").bind(slug).first();
const cron = async () => (await edge.mf.getWorker("edge")).scheduled({ cron: "0 3 * * *" });
const dropNear = async (slug) => (await edge.mf.getCaches("edge")).default.delete(`https://rmax.to/__admin__/cache/${slug}`);
const nearHas = async (slug) => (await (await edge.mf.getCaches("edge")).default.match(`https://rmax.to/__admin__/cache/${slug}`)) !== undefined;
const away = { DB: { batch: "throw", prepare: "throw at once" } };
const noKv = { CACHE_KV: { get: "throw", put: "throw", delete: "throw" } };

// ---- redirects and caches ----

test("the first request asks D1, and fills KV and this data centre's cache", async () => {
    await insert(code);
    const answer = await get(`/${code}?x=1`);
    assert.deepEqual(
        [answer.status, answer.headers.get("location"), answer.headers.get("cache-control")],
        [302, "https://a.example/", "public, max-age=300"],
    );
    const entry = await until(() => cache.get(`L:${code}`, "json"), "the entry in KV");
    assert.deepEqual([entry.target, entry.status, entry.expiresAt, entry.version], ["https://a.example/", 302, null, 1]);
    await until(() => nearHas(code), "the entry in the Cache API");
    // From here on the truth is not needed.
    assert.equal((await get(`/${code}`, { faults: away })).status, 302);
    await dropNear(code);
    assert.equal((await get(`/${code}?another=query`, { faults: away })).status, 302);
});

test("an expired link is gone whatever the caches hold", async () => {
    const soon = Math.floor(Date.now() / 1000) + 30;
    await insert(code, "https://a.example/", soon);
    assert.equal((await get(`/${code}`)).status, 302);
    await until(() => cache.get(`L:${code}`), "the entry in KV");
    await until(() => nearHas(code), "the entry near");
    assert.equal((await get(`/${code}`, { nowMs: soon * 1000 })).status, 302, "at the instant");
    assert.equal((await get(`/${code}`, { nowMs: soon * 1000 + 1 })).status, 404, "after it");
    await dropNear(code);
    assert.equal((await get(`/${code}`, { nowMs: soon * 1000 + 1 })).status, 404, "from KV");
});

test("the life of an entry in KV is never below what KV accepts", async () => {
    await insert(code, "https://a.example/", Math.floor(Date.now() / 1000) + 5);
    assert.equal((await get(`/${code}`)).status, 302);
    await until(() => cache.get(`L:${code}`), "the entry in KV");
    const [{ expiration }] = (await cache.list({ prefix: `L:${code}` })).keys;
    assert.ok(expiration >= Math.floor(Date.now() / 1000) + 50, `${expiration}`);
});

test("an unknown code is cached as unknown until it is created", async () => {
    assert.equal((await get(`/${code}`)).status, 404);
    const absent = await until(() => cache.get(`NEG:${code}`, "json"), "the absence in KV");
    assert.equal(absent.notFound, true);
    assert.equal((await get(`/${code}`, { faults: away })).status, 404, "D1 is not asked");
    await create();
    assert.equal(await cache.get(`NEG:${code}`), null);
    assert.equal((await get(`/${code}`)).status, 302);
});

test("a stale negative entry in KV is ignored", async () => {
    await cache.put(`NEG:${code}`, JSON.stringify({ notFound: true, cached: Math.floor(Date.now() / 1000) - 61 }));
    await insert(code);
    assert.equal((await get(`/${code}`)).status, 302);
});

test("random codes do not fill KV without a bound", async () => {
    const nowMs = Date.now() + 3_600_000;
    for (let n = 0; n < 90; n++) assert.equal((await get(`/${code}-${n}`, { nowMs })).status, 404);
    await until(async () => (await keys(cache, "NEG:")).length >= 60, "absences");
    assert.equal((await keys(cache, "NEG:")).length, 60);
});

test("a malformed entry in KV is ignored", async () => {
    await insert(code);
    for (const value of ["{", "null", '{"target":"javascript:1","status":302,"version":1,"cached":1}', "x".repeat(1_000_000)]) {
        await cache.put(`L:${code}`, value);
        await dropNear(code);
        assert.equal((await get(`/${code}`)).status, 302, value.slice(0, 60));
    }
});

test("a stale entry is loaded from D1 again, so a deletion KV missed takes effect", async () => {
    const cached = Math.floor(Date.now() / 1000) - 3601;
    const stale = { target: "https://gone.example/", status: 302, expiresAt: null, version: 1, cached };
    await cache.put(`L:${code}`, JSON.stringify(stale));
    assert.equal((await get(`/${code}`)).status, 404);
    await until(async () => (await cache.get(`L:${code}`)) === null, "the old entry to go");
});

test("a slow reader does not put an old value back", async () => {
    await create();
    await cache.delete(`L:${code}`);
    // It has read D1 and is slow to write KV; meanwhile the link is deleted everywhere.
    const slow = get(`/${code}`, { faults: { CACHE_KV: { put: "after 400" } } });
    assert.equal((await slow).status, 302);
    assert.equal((await api("DELETE", `/links/${code}`)).status, 204);
    await until(() => edge.logs.includes(`@late L:${code}`), "the late write");
    await until(async () => (await cache.get(`L:${code}`)) === null, "its removal");
    await until(async () => !(await nearHas(code)), "its removal near");
    assert.equal((await get(`/${code}`)).status, 404);
});

// ---- events ----

test("every redirect is an event, from a cache or not; nothing else is", async () => {
    await create();
    const mine = () => edge.points.filter((point) => point.indexes[0] === code);
    const headers = { referer: "https://news.example/a?secret=1", "user-agent": "x".repeat(300) };
    for (let n = 0; n < 5; n++) await get(`/${code}`, { headers, cf: { country: "NL", colo: "AMS" } });
    await get(`/${code}`, { method: "HEAD" });
    await get(`/${code}+`);
    await get(`/${code}x`);
    await get(`/${code}`, { headers: { "user-agent": "last" } });
    await until(() => mine().some((point) => point.blobs[4] === "last"), "the last event");
    assert.equal(mine().length, 6);
    assert.deepEqual(mine()[0], { blobs: [code, "https://news.example/a", "NL", "AMS", "x".repeat(256)], indexes: [code] });
});

test("an analytics outage changes nothing", async () => {
    await create();
    assert.equal((await get(`/${code}`, { faults: { ANALYTICS: { writeDataPoint: "throw at once" } } })).status, 302);
    assert.equal((await get(`/${code}`, { faults: { ANALYTICS: null } })).status, 302);
});

// ---- degraded ----

test("without D1, caches serve what they have, stale entries too, and the rest is 503", async () => {
    const cached = Math.floor(Date.now() / 1000) - 7200;
    const entry = { target: "https://a.example/", status: 302, expiresAt: null, version: 1, cached };
    await cache.put(`L:${code}`, JSON.stringify(entry));
    for (const faults of [away, { DB: { batch: "never" } }, { DB: null }]) {
        assert.equal((await get(`/${code}`, { faults })).status, 302, JSON.stringify(faults));
        const unknown = await get(`/${code}x`, { faults, headers: { accept: "application/json" } });
        assert.equal(unknown.status, 503);
        assert.equal((await unknown.json()).error.code, "KV_UNAVAILABLE");
    }
    for (const [method, path, body] of [["POST", "/links", { target: "https://a.example/" }], ["GET", "/links"], ["GET", `/links/${code}`], ["PATCH", `/links/${code}`, {}], ["DELETE", `/links/${code}`], ["GET", `/check/${code}`], ["GET", `/links/${code}/stats`]]) {
        const answer = await api(method, path, body, { faults: away });
        assert.equal(answer.status, 503, `${method} ${path}`);
        assert.equal(answer.body.error.code, "KV_UNAVAILABLE");
    }
});

test("when KV is down or slow, D1 answers", async () => {
    await insert(code);
    for (const faults of [noKv, { CACHE_KV: { get: "never", put: "never", delete: "never" } }, { CACHE_KV: null }]) {
        await dropNear(code);
        assert.equal((await get(`/${code}`, { faults })).status, 302, JSON.stringify(faults));
        assert.equal((await get(`/${code}x`, { faults })).status, 404);
    }
    await dropNear(code);
    const answer = await api("PATCH", `/links/${code}`, { target: "https://b.example/" }, { faults: noKv });
    assert.equal(answer.status, 200);
    await dropNear(code);
    assert.equal((await get(`/${code}`, { faults: noKv })).headers.get("location"), "https://b.example/");
});

// ---- the API ----

test("the API requires the token", async () => {
    for (const headers of [{ authorization: "" }, { authorization: "Bearer wrong" }, { authorization: `Basic ${TOKEN}` }, { authorization: `Bearer ${TOKEN}x` }]) {
        const answer = await api("GET", "/links", undefined, { headers });
        assert.equal(answer.status, 401);
        assert.equal(answer.body.error.code, "UNAUTHENTICATED");
        assert.equal(answer.headers.get("www-authenticate"), "Bearer");
    }
    assert.equal((await api("GET", "/links/nobody")).status, 404);
});

test("guessing at the token is limited for each network", async () => {
    const guess = (address, authorization = "Bearer wrong") =>
        api("GET", "/links", undefined, { headers: { authorization, "cf-connecting-ip": address } });
    const statuses = [];
    for (let number = 0; number < 12; number++) statuses.push((await guess(`198.51.100.${number}`)).status);
    assert.deepEqual([statuses[0], statuses[11]], [401, 429], `${statuses}`);
    assert.equal((await guess("198.51.100.99", `Bearer ${TOKEN}`)).status, 429, "from there not even the right one counts");
    assert.equal((await guess("203.0.113.1", `Bearer ${TOKEN}`)).status, 200);

    // A request without a token guesses nothing, so it keeps nobody out.
    for (let number = 0; number < 12; number++) assert.equal((await guess("192.0.2.1", "")).status, 401);
    assert.equal((await guess("192.0.2.1", `Bearer ${TOKEN}`)).status, 200);
});

test("a link is created, read, changed and deleted, and every cache follows", async () => {
    const created = await api("POST", "/links", { code, target: "https://a.example", expires_at: "2099-01-01" });
    assert.equal(created.status, 201);
    assert.equal(created.headers.get("location"), `/api/v1/links/${code}`);
    const link = created.body;
    assert.deepEqual(Object.keys(link), ["id", "code", "short_url", "target", "redirect_status", "expires_at", "expired", "created_at", "updated_at", "clicks"]);
    assert.deepEqual(
        [typeof link.id, link.code, link.short_url, link.target, link.redirect_status, link.expires_at, link.expired, link.clicks],
        ["string", code, `https://rmax.to/${code}`, "https://a.example/", 302, "2099-01-01T00:00:00Z", false, 0],
    );
    assert.equal((await cache.get(`L:${code}`, "json")).target, "https://a.example/");
    assert.equal((await get(`/${code}`)).headers.get("location"), "https://a.example/");
    assert.deepEqual((await api("GET", `/links/${code}`)).body, link);

    const changed = await api("PATCH", `/links/${code}`, { target: "https://b.example/", redirect_status: 308, expires_at: null });
    assert.equal(changed.status, 200);
    assert.ok(changed.body.updated_at > link.updated_at, "a version always moves");
    assert.equal((await cache.get(`L:${code}`, "json")).target, "https://b.example/");
    const answer = await get(`/${code}`);
    assert.deepEqual([answer.status, answer.headers.get("location")], [308, "https://b.example/"]);
    const same = await api("PATCH", `/links/${code}`, { target: "https://b.example/" });
    assert.equal(same.body.updated_at, changed.body.updated_at, "nothing changed, nothing written");

    assert.equal((await api("DELETE", `/links/${code}`)).status, 204);
    assert.equal(await cache.get(`L:${code}`), null);
    assert.equal((await get(`/${code}`)).status, 404);
    assert.equal((await api("GET", `/links/${code}`)).status, 404);
    assert.equal((await api("DELETE", `/links/${code}`)).status, 404);
});

test("a deleted code stays taken", async () => {
    await create();
    await api("DELETE", `/links/${code}`);
    const again = await api("POST", "/links", { code, target: "https://a.example/" });
    assert.deepEqual([again.status, again.body.error.code, again.body.error.details], [409, "CODE_TAKEN", { deleted: true }]);
    assert.deepEqual((await api("GET", `/check/${code}`)).body.available, false);
});

test("concurrent creations of one code make one link", async () => {
    const all = await Promise.all(Array.from({ length: 8 }, (_, n) => api("POST", "/links", { code, target: `https://a.example/${n}` })));
    assert.deepEqual(all.map((answer) => answer.status).sort(), [201, 409, 409, 409, 409, 409, 409, 409]);
    assert.equal(all.find((answer) => answer.status === 409).body.error.details.deleted, false);
    const winner = all.find((answer) => answer.status === 201).body;
    assert.equal((await get(`/${code}`)).headers.get("location"), winner.target);
});

test("the quota of live links holds, expired ones do not count", async () => {
    const now = Math.floor(Date.now() / 1000);
    const fill = "with recursive n(i) as (select 1 union all select i + 1 from n where i < ?1) insert into links (slug, target, status, expires_at, created_at, updated_at) select ?2 || i, 'https://a.example/', 302, ?3, 1, 1 from n";
    await db.prepare(fill).bind(999, "live", null).run();
    await db.prepare(fill).bind(50, "over", now - 10).run();
    await create();
    const full = await api("POST", "/links", { target: "https://a.example/" });
    assert.deepEqual([full.status, full.body.error.code], [409, "QUOTA_EXCEEDED"]);
});

test("a generated code is eight letters and digits", async () => {
    const answer = await api("POST", "/links", { target: "https://a.example/" });
    assert.match(answer.body.code, /^[0-9A-Za-z]{8}$/);
    assert.equal((await get(`/${answer.body.code}`)).status, 302);
});

test("invalid fields are named", async () => {
    const fields = async (method, path, body) => {
        const answer = await api(method, path, body);
        assert.deepEqual([answer.status, answer.body.error.code], [400, "VALIDATION_FAILED"], JSON.stringify(answer.body));
        return answer.body.error.details.fields.map(({ field, code }) => `${field} ${code}`).sort();
    };
    assert.deepEqual(await fields("POST", "/links", { target: "ftp://a.example/", code: "a b", title: "T", redirect_status: 200 }), ["title unknown_field"]);
    assert.deepEqual(await fields("POST", "/links", { target: "ftp://a.example/", code: "a b", redirect_status: 200 }), ["code bad_characters", "redirect_status bad_status", "target scheme"]);
    assert.deepEqual(await fields("POST", "/links", {}), ["target required"]);
    assert.deepEqual(await fields("POST", "/links", { target: "https://rmax.to/x" }), ["target loop"]);
    assert.deepEqual(await fields("POST", "/links", { target: "https://a.example/", code: "Admin" }), ["code reserved"]);
    assert.deepEqual(await fields("POST", "/links", { target: "https://a.example/", expires_at: 1 }), ["expires_at past"]);
    assert.deepEqual(await fields("POST", "/links", { target: "https://a.example/", expires_at: 1_900_000_000_000 }), ["expires_at milliseconds"]);
    assert.deepEqual(await fields("GET", "/links?limit=0"), ["limit bad_characters"]);
    await create();
    assert.deepEqual(await fields("PATCH", `/links/${code}`, { code: "other" }), ["code immutable"]);
    const status = async (method, path, body, headers) => (await api(method, path, body, { headers })).status;
    assert.equal(await status("POST", "/links", "{"), 400);
    assert.equal(await status("POST", "/links", '{"target":"https://a.example/","target":"https://b.example/"}'), 400);
    assert.equal(await status("POST", "/links", JSON.stringify({ target: "x".repeat(70_000) })), 413);
    assert.equal(await status("POST", "/links", "target=x", { "content-type": "application/x-www-form-urlencoded" }), 415);
    const wrong = await api("PUT", "/links");
    assert.deepEqual([wrong.status, wrong.headers.get("allow")], [405, "GET, HEAD, POST"]);
});

test("forbidden targets are refused, and others are sent as the parser serialised them", async () => {
    for (const target of [...REFUSED, `https://a.example/${"x".repeat(2048)}`]) {
        const answer = await api("POST", "/links", { target });
        // NUL is refused with the whole body.
        const code = target.includes("\u0000") ? "BAD_REQUEST" : "VALIDATION_FAILED";
        assert.deepEqual([answer.status, answer.body.error?.code], [400, code], JSON.stringify([target.slice(0, 80), answer.body]));
    }
    for (const [target, location] of SERIALISED) {
        const { body } = await api("POST", "/links", { target });
        assert.equal((await get(`/${body.code}`)).headers.get("location"), location, target);
    }
});

test("lists are newest first and go on where they stopped", async () => {
    for (let n = 0; n < 5; n++) {
        await db.prepare("insert into links (slug, target, status, created_at, updated_at) values (?1, 'https://a.example/', 302, ?2, 1)").bind(`${code}-${n}`, 100 + Math.floor(n / 2)).run();
    }
    const seen = [];
    let cursor;
    do {
        const page = await api("GET", `/links?limit=2${cursor ? `&cursor=${cursor}` : ""}`);
        assert.deepEqual([page.status, page.body.total], [200, 5]);
        seen.push(...page.body.data.map((link) => link.code));
        cursor = page.body.next_cursor;
    } while (cursor);
    assert.deepEqual(seen, [4, 3, 2, 1, 0].map((n) => `${code}-${n}`));
});

test("check says whether a code is free, and why not", async () => {
    assert.deepEqual((await api("GET", `/check/${code}`)).body, { available: true, reason: null });
    await create();
    for (const taken of [code, "api", "a.b"]) {
        const answer = await api("GET", `/check/${taken}`);
        assert.equal(answer.body.available, false);
        assert.ok(answer.body.reason.length > 5);
    }
});

test("statistics are the total of D1 and the last days of Analytics Engine", async () => {
    await create();
    await db.prepare("update links set visit_count = 41 where slug = ?1").bind(code).run();
    analytics.answer(
        [{ value: "2026-01-12 00:00:00", clicks: "3" }, { value: "2026-01-13 00:00:00", clicks: 4 }],
        [{ value: "https://news.example/", clicks: "7" }],
        [{ value: "NL", clicks: "5" }],
    );
    const { body } = await api("GET", `/links/${code}/stats`);
    assert.deepEqual([body.clicks, body.total.clicks, body.complete], [41, 7, true]);
    assert.deepEqual(body.series[0], { start: "2026-01-12T00:00:00Z", clicks: 3 });
    assert.deepEqual([body.referrers, body.countries], [[{ value: "https://news.example/", clicks: 7 }], [{ value: "NL", clicks: 5 }]]);
    assert.ok(analytics.asked().every((sql) => sql.includes("SUM(_sample_interval)") && sql.includes(`'${code}'`)));
    analytics.fail(500);
    const without = (await api("GET", `/links/${code}/stats`)).body;
    assert.deepEqual([without.clicks, without.complete, without.series], [41, false, []]);
});

// ---- the clock ----

test("the daily run removes expired links everywhere and leaves their codes taken", async () => {
    const now = Math.floor(Date.now() / 1000);
    await insert(code, "https://a.example/", now - 5);
    await insert(`${code}-later`, "https://a.example/", now + 500);
    await insert(`${code}-ever`);
    for (const slug of [code, `${code}-later`]) {
        await cache.put(`L:${slug}`, JSON.stringify({ target: "https://a.example/", status: 302, expiresAt: null, version: 1, cached: now }));
        await get(`/${slug}`);
    }
    await until(() => nearHas(code), "the entry near");
    await cron();
    await until(async () => (await rowOf(code)) === null, "the purge");
    await until(async () => (await cache.get(`L:${code}`)) === null, "KV to forget");
    await until(async () => !(await nearHas(code)), "the Cache API to forget");
    assert.equal((await get(`/${code}`)).status, 404);
    const again = await api("POST", "/links", { code, target: "https://a.example/" });
    assert.deepEqual([again.status, again.body.error.details.deleted], [409, true]);
    assert.ok((await rowOf(`${code}-later`)) !== null && (await rowOf(`${code}-ever`)) !== null);
    assert.notEqual(await cache.get(`L:${code}-later`), null);
});

test("events are folded into visit_count once, past a watermark, and change no version", async () => {
    await insert(code);
    analytics.answer([{ slug: code, visits: "12" }, { slug: "nobody", visits: 3 }]);
    await cron();
    await until(async () => (await rowOf(code)).visit_count === 12, "the first fold");
    const first = (await db.prepare("select at from watermarks").first()).at;
    assert.equal((await rowOf(code)).updated_at, 1);
    assert.ok(first <= Math.floor(Date.now() / 1000) - 300, "what has not settled is left");
    // Nothing new has settled: a second run at the same second adds nothing; after that it begins where the first ended.
    await db.prepare("update watermarks set at = ?1").bind(first - 100).run();
    analytics.answer([{ slug: code, visits: "5" }]);
    await cron();
    await until(async () => (await rowOf(code)).visit_count === 17, "the second fold");
    assert.ok(analytics.asked().at(-1).includes(`timestamp > toDateTime(${first - 100})`));
    assert.equal((await api("GET", `/links/${code}`)).body.clicks, 17);
});

test("a run that fails moves neither counts nor watermark", async () => {
    await insert(code);
    analytics.fail(500);
    const before = analytics.asked().length;
    await cron();
    await until(() => analytics.asked().length > before, "the question");
    assert.equal((await rowOf(code)).visit_count, 0);
    assert.equal(await db.prepare("select at from watermarks").first(), null);
});
