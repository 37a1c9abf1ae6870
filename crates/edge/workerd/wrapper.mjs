// Stands between the runtime and the Worker in tests: it holds the clock still and makes what the Worker stands on fail. It
// changes nothing of the Worker.
//
// `TEST_NOW_MS` (a variable) is the time. The header `x-test-faults` is JSON: `{"ROUTES": {"get": "throw"}}` and so on, see
// `fault` below; `x-test-now-ms` is the time of one request. `TEST_FAULTS` (a variable) is the same for every request.
import Worker from "./index.js";

const realNow = Date.now;
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

const fault = (kind, real) => {
    if (kind === "throw") return async () => { throw new Error("an outage made for a test"); };
    if (kind === "throw at once") return () => { throw new Error("an outage made for a test"); };
    if (kind === "never") return () => new Promise(() => {});
    if (kind.startsWith("after "))
        return async (...values) => {
            await pause(Number(kind.slice(6)));
            const done = await real(...values);
            console.log(`@late ${values[0]}`);
            return done;
        };
    if (kind.startsWith("value ")) return async () => kind.slice(6);
    throw new Error(`no such fault: ${kind}`);
};

const broken = (binding, kinds) =>
    new Proxy(binding, {
        get(target, name) {
            const value = target[name];
            if (typeof value !== "function") return value;
            const real = value.bind(target);
            return kinds[name] === undefined ? real : fault(kinds[name], real);
        },
    });

const seen = (env) => ({
    writeDataPoint(point) {
        env.ANALYTICS?.writeDataPoint(point);
        console.log("@point " + JSON.stringify(point));
    },
});

const prepare = (env, faults) => {
    const bindings = { ...env, ANALYTICS: seen(env) };
    for (const [name, kinds] of Object.entries(faults)) {
        if (kinds === null) delete bindings[name];
        else bindings[name] = broken(bindings[name], kinds);
    }
    return bindings;
};

export default {
    async fetch(request, env, context) {
        const faults = JSON.parse(request.headers.get("x-test-faults") ?? env.TEST_FAULTS ?? "{}");
        const now = Number(request.headers.get("x-test-now-ms") ?? env.TEST_NOW_MS ?? 0);
        Date.now = now > 0 ? () => now : realNow;
        return new Worker(context, prepare(env, faults)).fetch(request);
    },
    async scheduled(event, env, context) {
        const now = Number(env.TEST_NOW_MS ?? 0);
        Date.now = now > 0 ? () => now : realNow;
        return new Worker(context, prepare(env, {})).scheduled(event);
    },
};
