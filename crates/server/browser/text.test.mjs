// S20 in a real browser: whatever a visitor or a member writes is text on every page. The markers below would make an element, run a
// script, open a dialog or break the page's policy if one place forgot; the witness notes each of these.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { arrive, launch, press, signIn } from "./browser.mjs";
import { FIREFOX, PASSWORD, startServer, until } from "./fixtures.mjs";

const EVIL = [
    "\"><img src=x data-evil onerror=alert(1)>",
    "</script><script data-evil>alert(1)</script>",
    "</textarea></title></style><svg data-evil onload=alert(1)>",
    "' data-evil onfocus=alert(1) autofocus x='",
    "javascript:alert(1)//data-evil",
    "{{7*7}}<a data-evil href=javascript:alert(1)>x</a>",
];
/** All of them in one line. */
const ALL = EVIL.join(" ");

let browser;
let server;
let ann;
before(async () => {
    [browser, server] = await Promise.all([launch(), startServer()]);
    // The browser's own name is shown among the sessions.
    ann = await signIn(browser, server.address, { agent: `Mozilla/5.0 ${EVIL[0]}` });
});
after(async () => {
    await browser.close();
    await server.stop();
});

/** Whether a page is what our templates made: nothing of it came out of a marker. */
async function isHarmless(page, what) {
    const made = await page.evaluate(() => {
        const found = [];
        for (const element of document.querySelectorAll("*")) {
            const handlers = [...element.attributes].filter(({ name }) => name.startsWith("on") || name === "data-evil" || name === "style");
            const leads = ["href", "src", "action", "formaction"].map((name) => element.getAttribute(name)).filter((value) => /^\s*(javascript|vbscript|data):/i.test(value ?? ""));
            const isOurs = element.localName !== "script" || element.src.startsWith(`${location.origin}/admin/app.js?v=`);
            if (handlers.length || leads.length || !isOurs || element.localName === "img") found.push(element.outerHTML.slice(0, 200));
        }
        return found;
    });
    assert.deepEqual(made, [], what);
}

/** The words on a page and in its fields. */
const words = (page) => page.evaluate(() => [document.body.textContent, ...[...document.querySelectorAll("input, textarea")].map((field) => field.value)].join("\n"));

async function showsAsText(page, what) {
    await isHarmless(page, what);
    assert.ok((await words(page)).includes("data-evil"), `${what} does not show the marker: this test looks at the wrong place`);
    ann.witness.hasSeenNothing();
}

test("text that members write about links is escaped", async () => {
    const { page } = ann;
    for (const [number, evil] of EVIL.entries()) {
        await page.goto("/admin");
        await page.getByLabel("Where the new link leads").fill(`https://example.com/?q=${encodeURIComponent(evil)}#${evil}`);
        await page.getByText("More options").click();
        await page.getByRole("textbox", { name: "Code" }).fill(`evil-${number}`);
        await page.getByLabel("Title").fill(evil);
        await page.getByRole("textbox", { name: "Tags" }).fill(evil.slice(0, 60));
        await page.getByLabel("Notes").fill(evil);
        await page.getByRole("button", { name: "Shorten" }).click();
        await page.locator(".made").waitFor();
        await showsAsText(page, "the list");
        // What is wrong comes back as it was typed.
        await page.goto(`/admin/links/evil-${number}`);
        await showsAsText(page, "a link");
        await page.getByLabel("Target").fill(evil);
        await page.getByRole("button", { name: "Save" }).click();
        await page.locator("#target-wrong").waitFor();
        await showsAsText(page, "a change that is wrong");
    }
    await page.goto("/admin");
    await page.locator("[data-tick-all]").check();
    await page.getByLabel("Tag to add or remove").fill(EVIL[0].slice(0, 60));
    await page.getByRole("button", { name: "Add tag" }).click();
    await page.getByRole("status").first().waitFor();
    await showsAsText(page, "the list");
    // The list alone comes anew while one types, past the page's own parser.
    const search = page.waitForResponse((answer) => answer.url().includes("part=list"));
    await page.getByLabel("Search").fill("onerror");
    await search;
    await until(() => new URL(page.url()).searchParams.get("q") === "onerror", "the list is new");
    await showsAsText(page, "what was searched for");
    await page.getByRole("link", { name: /^QR code of/ }).first().click();
    await page.locator("#qr img").waitFor();
    assert.equal(await page.locator("[data-evil]").count(), 0);
});

test("visitor input is escaped, also in the live view", async () => {
    const { page } = ann;
    server.rmax(["workspaces", "policy", "--set", "user_agent=512"]);
    server.rmax(["links", "set", "visited", "https://example.com/"]);
    await until(async () => (await server.visit("/visited", { "User-Agent": "curl/8.0" })).status === 301, "the link answers");
    await page.goto("/admin/links/visited?bots=include");
    await page.getByText("Live", { exact: true }).waitFor();
    for (const evil of EVIL) {
        const query = new URLSearchParams({ utm_source: evil, utm_medium: evil, utm_campaign: evil });
        await server.visit(`/visited?${query}`, { "User-Agent": `${FIREFOX} ${evil}`, Referer: `https://news.example/${evil}` });
        await server.visit(`/${encodeURIComponent(evil)}`, { "User-Agent": evil, Referer: evil });
    }
    await until(async () => (await page.locator(".latest tr.new").count()) >= EVIL.length, "the clicks arrive live");
    await showsAsText(page, "clicks that arrive live");
    await until(async () => {
        await page.goto("/admin/stats?bots=include");
        return (await words(page)).includes("data-evil");
    }, "the clicks are counted");
    await showsAsText(page, "statistics");
    await page.goto("/admin/links/visited?bots=include");
    await showsAsText(page, "a link's clicks");
});

test("names of members, keys, files and the workspace are escaped", async () => {
    const { page } = ann;
    await page.goto("/admin/account");
    await page.getByRole("textbox", { name: "Name" }).fill(ALL.slice(0, 250));
    await press(page, "Change the name");
    await page.getByRole("status").first().waitFor();
    await showsAsText(page, "the account");
    assert.match(await page.getByRole("region", { name: "Where you are signed in" }).innerText(), /data-evil/);

    await page.goto("/admin/members");
    await page.getByLabel("E-mail address").fill("eve@example.com");
    await page.getByRole("textbox", { name: "Name" }).fill(EVIL[1]);
    await press(page, "Invite");
    const invitation = await page.locator("#invitation").inputValue();
    await showsAsText(page, "an invitation");
    const eve = await arrive(browser, server.address);
    await eve.page.goto(invitation);
    await eve.page.getByLabel("Name").fill(EVIL[2]);
    await eve.page.getByLabel("Password").fill(PASSWORD);
    await eve.page.getByRole("button", { name: "Join" }).click();
    await eve.page.locator("#list").waitFor();
    await isHarmless(eve.page, "the list of somebody with such a name");
    eve.witness.hasSeenNothing();
    await eve.leave();
    await page.goto("/admin/members");
    await showsAsText(page, "members");
    for (const act of ["Suspend eve@example.com", "Delete eve@example.com"]) {
        await page.goto("/admin/members");
        await press(page, act);
        await page.locator(".card").waitFor();
        await showsAsText(page, act);
    }

    await page.goto("/admin/keys");
    await page.getByLabel("Name").fill(ALL.slice(0, 100));
    await page.getByLabel("links:read").check();
    await press(page, "Make the key");
    await page.locator("#secret").waitFor();
    await showsAsText(page, "a new key");
    await press(page, /^Revoke/);
    await page.locator(".card").waitFor();
    await showsAsText(page, "the question");

    await page.goto("/admin/policy");
    await page.getByLabel("Name", { exact: true }).fill(ALL.slice(0, 250));
    await press(page, "Change the name");
    await page.getByRole("status").first().waitFor();
    await showsAsText(page, "the policy");

    await page.goto("/admin/domains");
    await page.getByLabel("Host").fill(EVIL[0]);
    await press(page, "Add");
    await page.getByText(/^The host /).waitFor();
    await showsAsText(page, "domains");

    await page.goto("/admin/import");
    const rows = EVIL.map((evil, number) => ({ code: `file-${number}`, target: "https://example.com/", title: evil, notes: evil, tags: [evil.slice(0, 60)] }));
    rows.push({ code: ALL, target: "https://example.com/" }, { code: "file-bad", target: EVIL[4] });
    await page.getByLabel("or its contents").fill(rows.map((row) => JSON.stringify(row)).join("\n"));
    await press(page, "Show what would be done");
    await page.getByRole("heading", { name: "Import these links?" }).waitFor();
    await showsAsText(page, "what an import would do");
    await press(page, /^Import \d+ links$/);
    await page.getByRole("heading", { name: "Imported" }).waitFor();
    await showsAsText(page, "what an import did");

    await page.goto("/admin/audit");
    await showsAsText(page, "the log");
});

test("text in a URL is escaped", async () => {
    const { page } = ann;
    const evil = encodeURIComponent(ALL);
    const names = ["q", "tag", "state", "sort", "cursor", "made", "undo", "done", "act", "from", "to", "tz", "range", "bots", "actor", "action", "subject", "before", "preset", "token", "next"];
    const query = names.map((name) => `${name}=${evil}`).join("&");
    for (const path of ["/admin", "/admin/links/evil-0", "/admin/stats", "/admin/audit", "/admin/keys", "/admin/members", "/admin/policy", "/admin/account", "/admin/login", "/admin/setup", `/admin/${evil}`, `/admin/links/${evil}`, `/admin/invite/${evil}`, `/${evil}`, `/${evil}+`, "/evil-0+"]) {
        await page.goto(`${path}?${query}`);
        await isHarmless(page, path.slice(0, 40));
    }
    ann.witness.hasSeenNothing();
});

test("the page monitor reports scripts, requests and dialogs", async () => {
    const { page, witness, leave } = await arrive(browser, server.address);
    const spoil = async (what, expected, act) => {
        await page.goto("/admin/login");
        witness.hasSeenNothing();
        await act();
        await until(() => witness.seen.some((seen) => expected.test(seen)), `${what}: ${witness.seen}`);
        await assert.rejects(isHarmless(page, what));
        witness.seen.length = 0;
    };
    await spoil("an inline script", /^policy: script-src/, () => page.evaluate(() => {
        const script = document.createElement("script");
        script.textContent = "alert(1)";
        document.body.append(script);
    }));
    await spoil("a handler", /^policy: script-src-attr/, () => page.evaluate(() => {
        document.body.insertAdjacentHTML("beforeend", "<p onclick=alert(1)>");
    }));
    await spoil("an image of elsewhere", /^policy: img-src/, () => page.evaluate(() => {
        document.body.insertAdjacentHTML("beforeend", "<img src=https://elsewhere.example/x>");
    }));
    await leave();
});
