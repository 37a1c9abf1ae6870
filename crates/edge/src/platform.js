// What the Worker asks of Cloudflare, each in one call: crossing between WebAssembly and JavaScript costs more than
// anything that is done here. Nothing is decided here.

const within = (milliseconds, promise) => {
    let timer;
    const late = new Promise((_, refuse) => {
        timer = setTimeout(() => refuse(new Error(`no answer within ${milliseconds} ms`)), milliseconds);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
};

// Longer texts are not carried over: nothing of ours is that long. `undefined` says so, `null` says that there is none.
const MAX_TEXT_CHARS = 256 * 1024;
const bounded = (text) => (text !== null && text.length > MAX_TEXT_CHARS ? undefined : text);

export function now() {
    return Date.now();
}

export function randomBytes(count) {
    return crypto.getRandomValues(new Uint8Array(count));
}

export function logError(text) {
    console.error(text);
}

// The lines of `EdgeRequest::parse`. No header can hold a line break.
export function edgeRequest(request) {
    const headers = request.headers;
    const cf = request.cf;
    return [
        request.method,
        request.url,
        headers.get("accept") ?? "",
        headers.get("user-agent") ?? "",
        headers.get("referer") ?? "",
        headers.get("cf-connecting-ip") ?? "",
        cf?.country ?? "",
        cf?.colo ?? "",
        headers.get("authorization") ?? "",
        headers.get("content-type") ?? "",
    ].join("\n");
}

// The values of these names, in lines.
export function settings(env, names) {
    const value = (name) => (typeof env[name] === "string" ? env[name].replaceAll("\n", " ") : "");
    return names.split("\n").map(value).join("\n");
}

// The whole answer; `head` is lines of `name:value`.
export function answer(status, head, body) {
    const headers = new Headers();
    for (const line of head.split("\n")) {
        const end = line.indexOf(":");
        if (end > 0) headers.append(line.slice(0, end), line.slice(end + 1));
    }
    const id = crypto.getRandomValues(new Uint32Array(2));
    headers.set("x-request-id", [...id].map((part) => part.toString(16).padStart(8, "0")).join(""));
    return new Response(body === "" ? null : body, { status, headers });
}

// A body of at most so many bytes; `undefined` when there are more.
export async function body(request, most) {
    if (request.body === null) return new Uint8Array();
    const parts = [];
    let length = 0;
    for await (const part of request.body) {
        length += part.byteLength;
        if (length > most) return undefined;
        parts.push(part);
    }
    return new Uint8Array(await new Blob(parts).arrayBuffer());
}

export async function kvGet(env, binding, key, cacheTtl, milliseconds) {
    return bounded(await within(milliseconds, env[binding].get(key, { cacheTtl })));
}

// Two keys at once: a list of two.
export function kvGetBoth(env, binding, first, second, cacheTtl, milliseconds) {
    const get = async (key) => bounded(await env[binding].get(key, { cacheTtl }));
    return within(milliseconds, Promise.all([get(first), get(second)]));
}

export function kvPut(env, binding, key, value, expirationTtl, milliseconds) {
    return within(milliseconds, env[binding].put(key, value, { expirationTtl }));
}

export function kvDelete(env, binding, key, milliseconds) {
    return within(milliseconds, env[binding].delete(key));
}

// Appends to the log of hits, after the answer has left.
export function appendHit(env, context, key, value) {
    const written = Promise.resolve()
        .then(() => env.HITS.put(key, value))
        .catch((error) => console.error(`a hit was lost: ${error}`));
    context.waitUntil(written);
}

// Statements as JSON, `[[text, ...values], ...]`, in one transaction; their rows as JSON.
export async function d1(env, statements, milliseconds) {
    const prepared = JSON.parse(statements).map(([text, ...values]) => env.DB.prepare(text).bind(...values));
    const results = await within(milliseconds, env.DB.batch(prepared));
    return JSON.stringify(results.map((result) => result.results));
}

export async function cacheGet(url) {
    const found = await caches.default.match(url);
    return found === undefined ? null : bounded(await found.text());
}

export function cachePut(url, value, seconds) {
    const headers = { "content-type": "application/json", "cache-control": `public, max-age=${seconds}` };
    return caches.default.put(url, new Response(value, { headers }));
}

export function cacheDelete(url) {
    return caches.default.delete(url);
}

// One event. It returns at once, and whatever is wrong with analytics stops nothing.
export function writePoint(env, lines) {
    const blobs = lines.split("\n");
    try {
        env.ANALYTICS.writeDataPoint({ blobs, indexes: [blobs[0]] });
    } catch (error) {
        console.error(`an event was lost: ${error}`);
    }
}

export async function analytics(url, token, query, milliseconds) {
    const headers = { authorization: `Bearer ${token}` };
    const asked = async () => {
        const response = await fetch(url, { method: "POST", headers, body: query });
        if (!response.ok) throw new Error(`the analytics API answered ${response.status}`);
        return response.text();
    };
    return within(milliseconds, asked());
}
