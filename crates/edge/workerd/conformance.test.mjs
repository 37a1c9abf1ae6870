// The conformance table in workerd: what core decides and the native server answers is what the Worker answers.
//
// `RLINKS_CONFORMANCE` names the file that `cargo run -p rlinks-edge --example conformance` printed.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { ask, start } from "./harness.mjs";

const table = JSON.parse(readFileSync(process.env.RLINKS_CONFORMANCE, "utf8"));
// What is no request for one URL (two hosts, none, `OPTIONS *`, framing that cannot be read) the platform refuses before it asks a
// Worker.
const platforms = ({ on, then, when }) =>
    on === "http" &&
    (then.form === "bare" || when.hosts.length !== 1 || /[@,]/.test(when.hosts[0]) || !when.target.startsWith("/"));
// What only `explain` is asked is no request.
const requests = table.rows.filter((row) => row.on !== "explain");
const rows = requests.filter((row) => row.on !== "native" && !platforms(row));

// One Worker for all rows with the same policy.
const nameOf = (profile, row) => `${profile}-${groups.indexOf(groupOf(row))}`;
const groupOf = (row) => JSON.stringify([row.preset, row.policy]);
const groups = [...new Set(rows.map(groupOf))];

let edge;
before(async () => {
    const workers = ["fabric", "edge"].flatMap((profile) =>
        groups.map((group, index) => {
            const [preset, policy] = JSON.parse(group);
            const vars = { RMAX_PROFILE: profile, RMAX_PRESET: preset, TEST_NOW_MS: String(table.now_ms) };
            // What one row left in a cache must not answer the next.
            if (profile === "edge") vars.TEST_FAULTS = JSON.stringify({ CACHE_KV: { get: "throw", put: "throw" } });
            if (Object.keys(policy).length > 0) vars.RMAX_POLICY = JSON.stringify(policy);
            return { name: `${profile}-${index}`, vars, cache: false };
        }),
    );
    edge = await start(workers);
});
after(() => edge?.stop());

const values = (answer, name) => answer.headers.filter(([key]) => key === name).map(([, value]) => value);
const absences = new Map();

function differences(row, answer) {
    const { then } = row;
    const wrong = [];
    if (answer.status !== then.status) wrong.push(`status: want ${then.status}, got ${answer.status}`);
    for (const [name, want] of then.headers) {
        // Whether a connection is kept is the platform's.
        if (name === "connection") continue;
        const got = values(answer, name);
        if (JSON.stringify(got) !== JSON.stringify(want === null ? [] : [want])) wrong.push(`${name}: want ${want}, got ${got}`);
    }
    if (values(answer, "x-request-id").length !== 1) wrong.push("no X-Request-Id");
    if (then.form === "error") {
        const { error = {} } = answer.body.startsWith("{") ? JSON.parse(answer.body) : {};
        const ts = new Date(table.now_ms).toISOString().replace(".000", "");
        const sound = error.code === then.code && error.status === then.status && error.message && error.details === null && error.ts === ts;
        if (!sound) wrong.push(`envelope: want ${then.code}, got ${answer.body}`);
    }
    if (then.form === "redirect" && answer.body !== "") wrong.push(`a redirect has a body: ${answer.body}`);
    if (row.when.method === "HEAD" && answer.body !== "") wrong.push("HEAD has a body");
    for (const text of then.shows) if (!answer.body.includes(text)) wrong.push(`the body does not show ${text}`);
    if (answer.status === 404 && row.when.method === "GET") {
        // A 404 never says why: of each kind there is one.
        const kind = `${values(answer, "content-type")}`;
        if (!absences.has(kind)) absences.set(kind, { id: row.id, body: answer.body });
        if (absences.get(kind).body !== answer.body) wrong.push(`this 404 can be told from the one of ${absences.get(kind).id}`);
    }
    return wrong;
}

async function run(row, address) {
    const answer = await ask(address, row.when);
    const wrong = differences(row, answer);
    if (row.when.method === "GET") {
        const head = await ask(address, { ...row.when, method: "HEAD" });
        const same = (name) => `${values(head, name)}` === `${values(answer, name)}`;
        const differs = ["location", "cache-control", "content-type", "vary", "x-robots-tag"].filter((name) => !same(name));
        if (head.status !== answer.status || head.body !== "" || differs.length > 0) {
            wrong.push(`HEAD gets something else: ${head.status} ${differs} ${head.body}`);
        }
    }
    if (wrong.length === 0) return "";
    const [given, when, then] = row.text;
    return `\n${row.id} (conformance/redirects.md:${row.line})\n  given ${given}\n  when  ${when}\n  then  ${then}\n  ->    ${wrong.join("\n  ->    ")}\n`;
}

// Rows with the same Worker run one after the other, for they share its stores; the Workers run side by side.
async function runAll(profile, chosen, prepare) {
    absences.clear();
    const faults = await Promise.all(
        groups.map(async (group) => {
            let found = "";
            for (const row of chosen.filter((row) => groupOf(row) === group)) {
                const name = nameOf(profile, row);
                const clean = await prepare(name, row);
                found += await run(row, await edge.address(name));
                await clean();
            }
            return found;
        }),
    );
    assert.ok(faults.join("") === "", `of ${chosen.length} rows these do not hold:\n${faults.join("")}`);
}

test("every row holds in workerd, from KV", async () => {
    await runAll("fabric", rows, async (name, row) => {
        const routes = await edge.kv("ROUTES", name);
        for (const [key, object] of Object.entries(row.kv)) await routes.put(key, JSON.stringify(object));
        return () => Promise.all(Object.keys(row.kv).map((key) => routes.delete(key)));
    });
    const others = requests.length - rows.length;
    assert.ok(others * 10 <= requests.length, `${others} of ${requests.length} rows do not run: more than a tenth`);
});

test("every row D1 can hold gets the same answer from D1", async () => {
    const fitting = rows.filter((row) => row.d1 !== null);
    assert.ok(fitting.length > 300, `${fitting.length} rows run`);
    const databases = new Map();
    await runAll("edge", fitting, async (name, row) => {
        if (!databases.has(name)) databases.set(name, await edge.db(name));
        const db = databases.get(name);
        const insert = "insert into links (slug, target, status, expires_at, created_at, updated_at) values (?1, ?2, ?3, ?4, 1, 1)";
        const bury = "insert into tombstones (slug, deleted_at) values (?1, 1)";
        const statements = row.d1.map((link) =>
            link.deleted
                ? db.prepare(bury).bind(link.slug)
                : db.prepare(insert).bind(link.slug, link.target, link.status, link.expires_at),
        );
        if (statements.length > 0) await db.batch(statements);
        return () => db.batch([db.prepare("delete from links"), db.prepare("delete from tombstones")]);
    });
});
