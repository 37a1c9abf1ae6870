// People in a real Chromium, and a witness beside each of them who notes what must never happen on any page.
//
// `RLINKS_CHROMIUM` names the browser, `RLINKS_BROWSER_NPM` the folder that has package.json of this folder installed.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { ANN, PASSWORD } from "./fixtures.mjs";

const npm = process.env.RLINKS_BROWSER_NPM;
const require = createRequire(npm ? `${npm}/package.json` : import.meta.url);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const WIDE = { width: 1280, height: 900 };
export const NARROW = { width: 320, height: 700 };
// Headless Chromium says that it is headless, and would be counted as a bot.
const CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36";

/** A browser that reaches this machine and nothing else. `rules` lead other names here. */
export function launch(rules = []) {
    const names = [...rules, "MAP * ~NOTFOUND", "EXCLUDE 127.0.0.1"].join(", ");
    const quiet = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
    return chromium.launch({
        executablePath: process.env.RLINKS_CHROMIUM ?? "/usr/bin/chromium",
        args: ["--no-sandbox", "--disable-gpu", ...quiet, `--host-resolver-rules=${names}`],
    });
}

/** Somebody with a browser of their own, at a server. */
export async function arrive(browser, address, { size = WIDE, scheme = "light", script = true, agent = CHROME, zone = "Europe/Amsterdam", ...more } = {}) {
    const context = await browser.newContext({
        baseURL: address,
        viewport: size,
        colorScheme: scheme,
        javaScriptEnabled: script,
        userAgent: agent,
        timezoneId: zone,
        locale: "en-GB",
        permissions: ["clipboard-read", "clipboard-write"],
        ...more,
    });
    context.setDefaultTimeout(30_000);
    const witness = await watch(context, address);
    const page = await context.newPage();
    return { context, page, witness, leave: () => context.close() };
}

/** The same, signed in. */
export async function signIn(browser, address, { email = ANN, password = PASSWORD, ...more } = {}) {
    const person = await arrive(browser, address, more);
    await person.page.goto("/admin/login");
    await fillSignIn(person.page, email, password);
    await person.page.locator("#list").waitFor();
    return person;
}

export async function fillSignIn(page, email, password) {
    await page.getByLabel("E-mail address").fill(email);
    await page.getByLabel("Password").fill(password);
    await press(page, "Sign in");
}

/** Sends a form by its button, and waits for the page that answers: what is looked for next must not be found on the one before. */
export async function press(page, name) {
    const button = page.getByRole("button", { name, exact: true }).first();
    await Promise.all([page.waitForEvent("domcontentloaded"), button.click()]);
}

/** Notes what no page may do: run what is not ours, load from elsewhere, break a rule of its own policy, open a dialog, fail. */
async function watch(context, address) {
    const seen = [];
    await context.exposeBinding("tellTheWitness", (_, what) => seen.push(what));
    await context.addInitScript(() => {
        const tell = globalThis.tellTheWitness;
        document.addEventListener("securitypolicyviolation", (event) => tell(`policy: ${event.violatedDirective} ${event.blockedURI} on ${location.pathname}`));
        globalThis.layoutShifts = [];
        const name = (node) => (node?.nodeType === 1 ? node.outerHTML.slice(0, 80) : String(node?.textContent).slice(0, 80));
        new PerformanceObserver((list) => {
            for (const shift of list.getEntries()) {
                if (!shift.hadRecentInput) globalThis.layoutShifts.push(`${shift.value}: ${shift.sources.map((source) => name(source.node)).join(", ")}`);
            }
        }).observe({ type: "layout-shift", buffered: true });
    });
    // A form that comes back with its errors is a 400, and the console says so; what else failed to load is seen below.
    const isAnswer = (text) => /^Failed to load resource: the server responded with a status of 4/.test(text);
    context.on("console", (message) => {
        if (["error", "warning"].includes(message.type()) && !isAnswer(message.text())) seen.push(`console: ${message.text()}`);
    });
    context.on("weberror", (error) => seen.push(`error: ${error.error()}`));
    context.on("dialog", async (dialog) => {
        seen.push(`dialog: ${dialog.message()}`);
        await dialog.dismiss();
    });
    context.on("request", (request) => {
        const isOurs = request.url().startsWith(`${address}/`) || request.url().startsWith("data:");
        if (!isOurs && !request.isNavigationRequest()) seen.push(`elsewhere: ${request.url()}`);
    });
    context.on("response", (response) => {
        if (response.status() >= (response.request().isNavigationRequest() ? 500 : 400)) seen.push(`answer: ${response.status()} ${response.url()}`);
    });
    return {
        seen,
        /** Nothing happened that must not. */
        hasSeenNothing: () => assert.deepEqual(seen, []),
    };
}

/** Nothing sticks out to the side, and nothing is squeezed to a column of letters. What is wide scrolls inside of its own box. */
export async function fits(page, what) {
    const { width, wide, culprits, squeezed } = await page.evaluate(() => {
        const inner = document.documentElement.clientWidth;
        const sticksOut = (element) => element.getBoundingClientRect().right > inner + 1 && !element.closest(".scroll, .tabs, .sr");
        const isSqueezed = (cell) => {
            const inside = document.createRange();
            inside.selectNodeContents(cell);
            const { width, height } = inside.getBoundingClientRect();
            // A heading that is there for screen readers alone is squeezed on purpose.
            const isSeen = cell.parentElement.parentElement.clientWidth > 1;
            return isSeen && width < 48 && height > 90;
        };
        return {
            squeezed: [...document.querySelectorAll("th, td")].filter(isSqueezed).slice(0, 3).map((cell) => cell.textContent),
            width: document.scrollingElement.scrollWidth,
            wide: innerWidth,
            culprits: [...document.querySelectorAll("body *")].filter(sticksOut).slice(0, 3).map((element) => element.outerHTML.slice(0, 120)),
        };
    });
    assert.deepEqual(squeezed, [], `${what} has columns of letters`);
    assert.ok(width <= wide, `${what} is ${width} wide in a window of ${wide}: ${culprits.join("\n")}`);
}

/** axe finds nothing serious, and no two parts of the page that are called the same. */
export async function isAccessible(page, what) {
    if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(`${axe};0`);
    const faults = await page.evaluate(async () => {
        const { violations } = await globalThis.axe.run({ resultTypes: ["violations"] });
        const bad = violations.filter((fault) => ["serious", "critical"].includes(fault.impact) || fault.id === "landmark-unique");
        return bad.map((fault) => `${fault.impact} ${fault.id}: ${fault.nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`).join(" | ")}`);
    });
    assert.deepEqual(faults, [], what);
}

/** Nothing moved since the page came, without anybody touching it. */
export async function standsStill(page, what) {
    await page.evaluate(() => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(next)))));
    assert.deepEqual(await page.evaluate(() => globalThis.layoutShifts), [], what);
}

/** What is in the clipboard. */
export const clipboard = (page) => page.evaluate(() => navigator.clipboard.readText());

/** How pages are looked at: each width once, each theme once. */
export const LOOKS = [
    { name: "1280 px, light", size: WIDE, scheme: "light" },
    { name: "320 px, dark", size: NARROW, scheme: "dark" },
];
