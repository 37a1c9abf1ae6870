// A stand-in for the part of Cloudflare's REST API that `rmax` speaks, over the real key-value storage of miniflare (workerd).
//
// It prints the base address of the API on its first line and ends when its stdin does, so a test that dies leaves nothing behind.
// RLINKS_TEST_MINIFLARE is the folder miniflare was installed into; TOKEN, ACCOUNT, ROUTES and HITS are what the API knows.
// POST /control takes {"page": n, "faults": [...], "meanwhile": [...]}; GET /control gives what was asked so far:
//   a fault answers `times` requests that match with a status, once it has let `after` of them through, and a meanwhile puts or deletes a key after the request numbered
//   `nth` that matches: somebody else's change.
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";

const folder = process.env.RLINKS_TEST_MINIFLARE;
const { Miniflare } = createRequire(path.join(folder, "package.json"))("miniflare");
const { TOKEN, ACCOUNT, ROUTES, HITS } = process.env;

const miniflare = new Miniflare({
    modules: true,
    script: "export default { fetch() { return new Response(null, { status: 404 }) } }",
    compatibilityDate: "2026-07-01",
    cf: false,
    kvNamespaces: { ROUTES, HITS },
});
const namespaces = {
    [ROUTES]: await miniflare.getKVNamespace("ROUTES"),
    [HITS]: await miniflare.getKVNamespace("HITS"),
};

const control = { page: 1000, faults: [], meanwhile: [] };
const asked = [];

class Refusal extends Error {
    constructor(status, code, message, headers = {}) {
        super(message);
        Object.assign(this, { status, code, headers });
    }
}

function found(result, result_info) {
    return { body: JSON.stringify({ success: true, errors: [], messages: [], result, result_info }) };
}

function refused({ status, code, message, headers }) {
    const body = { success: false, errors: [{ code, message }], messages: [], result: null };
    return { status, headers, body: JSON.stringify(body) };
}

// What the real API refuses too. A stand-in that takes anything would prove nothing.
const most = (list, count) => {
    if (!Array.isArray(list) || list.length > count) throw new Refusal(400, 10001, `at most ${count} keys`);
    return list;
};
const aKey = (key) => {
    if (typeof key !== "string" || key === "" || Buffer.byteLength(key) > 512) throw new Refusal(414, 10029, "bad key");
    return key;
};
const anEnd = ({ expiration_ttl: ttl }) => {
    if (ttl !== undefined && ttl < 60) throw new Refusal(400, 10033, "expiration_ttl must be at least 60");
    return ttl === undefined ? {} : { expirationTtl: ttl };
};

async function someAtOnce(list, work) {
    for (let from = 0; from < list.length; from += 20) await Promise.all(list.slice(from, from + 20).map(work));
}

const operations = {
    async "GET values"({ namespace, key }) {
        const value = await namespace.get(aKey(key), "arrayBuffer");
        if (value === null) throw new Refusal(404, 10009, "get: 'key not found'");
        return { type: "application/octet-stream", body: Buffer.from(value) };
    },
    async "PUT values"({ namespace, key, body }) {
        await namespace.put(aKey(key), new Uint8Array(body).buffer);
        return found({});
    },
    async "DELETE values"({ namespace, key }) {
        await namespace.delete(aKey(key));
        return found({});
    },
    async "GET keys"({ namespace, query }) {
        const limit = Number(query.get("limit") ?? 1000);
        if (!(limit >= 10 && limit <= 1000)) throw new Refusal(400, 10001, "limit must be from 10 to 1000");
        const options = { prefix: query.get("prefix") ?? undefined, cursor: query.get("cursor") ?? undefined };
        const page = await namespace.list({ ...options, limit: Math.min(limit, control.page) });
        return found(page.keys, { count: page.keys.length, cursor: page.list_complete ? "" : page.cursor });
    },
    async "POST bulk/get"({ namespace, json }) {
        const { keys, type } = json();
        if (type !== "text") throw new Refusal(400, 10001, "this stand-in gives text only");
        const values = {};
        await someAtOnce(most(keys, 100), async (key) => (values[key] = await namespace.get(aKey(key))));
        return found({ values });
    },
    async "PUT bulk"({ namespace, json }) {
        const pairs = most(json(), 10_000);
        await someAtOnce(pairs, (pair) => namespace.put(aKey(pair.key), pair.value, anEnd(pair)));
        return found({ successful_key_count: pairs.length, unsuccessful_keys: [] });
    },
    async "POST bulk/delete"({ namespace, json }) {
        const keys = most(json(), 10_000);
        for (const key of keys) await namespace.delete(aKey(key));
        return found({ successful_key_count: keys.length, unsuccessful_keys: [] });
    },
};

async function answer(method, url, headers, body) {
    const line = `${method} ${decodeURIComponent(url.pathname)}`;
    const matches = ({ match, times }) => times > 0 && new RegExp(match).test(line);
    const fault = control.faults.find((fault) => matches(fault) && !((fault.after ??= 0) && fault.after--));
    if (fault) {
        fault.times -= 1;
        if (fault.result) return found(fault.result);
        if (fault.raw !== undefined) return { status: fault.status, body: fault.raw, headers: fault.headers };
        throw new Refusal(fault.status, fault.code ?? 10001, fault.message ?? "injected", fault.headers);
    }
    if (headers.authorization !== `Bearer ${TOKEN}`) throw new Refusal(403, 10000, "Authentication error");
    const [account, storage, kv, list, id, ...rest] = url.pathname.split("/").slice(4).map(decodeURIComponent);
    if (account !== ACCOUNT || `${storage}/${kv}/${list}` !== "storage/kv/namespaces") {
        throw new Refusal(404, 7003, `Could not route to ${url.pathname}`);
    }
    if (!namespaces[id]) throw new Refusal(404, 10013, "namespace not found");
    const [kind, key] = rest[0] === "values" ? ["values", rest.slice(1).join("/")] : [rest.join("/")];
    const operation = operations[`${method} ${kind}`];
    if (!operation) throw new Refusal(404, 7003, `Could not route to ${url.pathname}`);
    const parsed = () => {
        try {
            return JSON.parse(body.toString());
        } catch {
            throw new Refusal(400, 10012, "could not parse the body");
        }
    };
    return operation({ namespace: namespaces[id], key, query: url.searchParams, body, json: parsed });
}

async function somebodyElse(method, url) {
    const line = `${method} ${decodeURIComponent(url.pathname)}`;
    for (const change of control.meanwhile.filter(({ match }) => new RegExp(match).test(line))) {
        change.nth -= 1;
        if (change.nth !== 0) continue;
        if (change.value === undefined) await namespaces[change.namespace].delete(change.key);
        else await namespaces[change.namespace].put(change.key, change.value);
    }
}

const server = http.createServer(async (request, response) => {
    const url = new URL(request.url, "http://stand-in");
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    let said;
    if (url.pathname === "/control") {
        if (request.method === "POST") Object.assign(control, JSON.parse(body.toString()));
        said = { body: JSON.stringify(asked) };
    } else {
        asked.push(`${request.method} ${decodeURIComponent(url.pathname)}`);
        try {
            said = await answer(request.method, url, request.headers, body);
        } catch (error) {
            said = refused(error instanceof Refusal ? error : new Refusal(500, 10001, String(error)));
        }
        await somebodyElse(request.method, url);
    }
    const length = Buffer.byteLength(said.body);
    const headers = { "content-type": said.type ?? "application/json", "content-length": length, ...said.headers };
    response.writeHead(said.status ?? 200, headers);
    response.end(said.body);
});

server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/client/v4`));
process.stdin.resume();
process.stdin.on("end", async () => {
    await miniflare.dispose();
    process.exit();
});
