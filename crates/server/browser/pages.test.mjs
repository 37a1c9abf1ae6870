// Every page there is: nothing sticks out at 320 px, axe has nothing serious to say in light and in dark, nothing moves while it
// loads, and the first page is small.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { LOOKS, NARROW, WIDE, arrive, fits, isAccessible, launch, signIn, standsStill } from "./browser.mjs";
import { startServer, until } from "./fixtures.mjs";

let browser;
let server;
let code;
before(async () => {
    [browser, server] = await Promise.all([launch(), startServer({ seed: ["--links", "120", "--clicks", "3000"] })]);
    const links = JSON.parse(server.rmax(["--json", "links", "list", "--limit", "2"]));
    code = (links.data ?? links)[0].code;
    server.rmax(["links", "set", "gone", "https://example.com/"]);
    server.rmax(["links", "delete", "gone", "--yes"]);
    server.rmax(["keys", "create", "--name", "blog"]);
    server.rmax(["domains", "add", "go.example.com"]);
    server.rmax(["users", "create", "--email", "bob@example.com", "--name", "Bob", "--role", "member"]);
});
after(async () => {
    await browser.close();
    await server.stop();
});

/** Looks at the page that is open, wide and narrow, light and dark. */
async function look(page, what) {
    for (const { name, size, scheme } of [...LOOKS].reverse()) {
        await page.setViewportSize(size);
        await page.emulateMedia({ colorScheme: scheme });
        await fits(page, `${what} at ${name}`);
        await isAccessible(page, `${what} at ${name}`);
    }
}

/** Pages that have an address. */
const SIGNED_IN = {
    "the list": () => "/admin",
    "nothing found": () => "/admin?q=zzzz",
    "deleted links": () => "/admin?state=deleted",
    "a link": () => `/admin/links/${code}?range=90d`,
    "a deleted link": () => "/admin/links/gone",
    statistics: () => "/admin/stats?range=90d",
    "a range that is wrong": () => "/admin/stats?from=never&to=2026-01-01",
    keys: () => "/admin/keys",
    "the log": () => "/admin/audit",
    members: () => "/admin/members",
    domains: () => "/admin/domains",
    policy: () => "/admin/policy",
    import: () => "/admin/import",
    account: () => "/admin/account",
    "no page": () => "/admin/nowhere",
};

test("pages with a URL of their own, wide and narrow, light and dark", async (t) => {
    const { page, witness, leave } = await signIn(browser, server.address);
    for (const [what, path] of Object.entries(SIGNED_IN)) {
        await t.test(what, async () => {
            await page.goto(path());
            await look(page, what);
        });
    }
    witness.hasSeenNothing();
    await leave();
});

const click = (page, name) => page.getByRole("button", { name }).first().click();

/** Pages that are the answer to a form, and what opens over a page. */
const ANSWERS = {
    "a new link": async (page) => {
        await page.goto("/admin");
        await page.getByLabel("Where the new link leads").fill("https://example.com/");
        await click(page, "Shorten");
        await page.locator(".made").waitFor();
    },
    "a new link that is wrong": async (page) => {
        await page.goto("/admin");
        await page.getByLabel("Where the new link leads").fill("nonsense");
        await page.getByText("More options").click();
        await page.getByRole("textbox", { name: "Code" }).fill("???");
        await click(page, "Shorten");
        await page.locator("#target-wrong").waitFor();
    },
    "ticked links": async (page) => {
        await page.goto("/admin");
        await page.locator("[data-row] .tick input").first().check();
    },
    "the keys": async (page) => {
        await page.goto("/admin");
        await page.keyboard.press("?");
        await page.getByRole("dialog", { name: "Keys" }).waitFor();
    },
    "a QR code": async (page) => {
        await page.goto("/admin");
        await page.getByRole("link", { name: /^QR code of/ }).first().click();
        await page.locator("#qr img").waitFor();
    },
    "the question before links are deleted": async (page) => {
        await page.goto("/admin");
        await page.locator("[data-row] .tick input").first().check();
        await click(page, "Delete");
        await page.getByRole("dialog", { name: /^Delete \d+ links?\?$/ }).waitFor();
    },
    "the menu": async (page) => {
        await page.goto("/admin");
        await page.locator(".menu summary").click();
    },
    "a change that is wrong": async (page) => {
        await page.goto(`/admin/links/${code}`);
        await page.getByLabel("Target").fill("nonsense");
        await click(page, "Save");
        await page.locator("#target-wrong").waitFor();
    },
    "a new key": async (page) => {
        await page.goto("/admin/keys");
        await page.getByLabel("Name").fill("another");
        await page.getByLabel("links:read").check();
        await click(page, "Make the key");
        await page.locator("#secret").waitFor();
    },
    "the question before a key is revoked": async (page) => {
        await page.goto("/admin/keys");
        await click(page, "Revoke blog");
        await page.getByRole("heading", { name: /^Revoke the key/ }).waitFor();
    },
    "an invitation": async (page) => {
        await page.goto("/admin/members");
        await page.getByLabel("E-mail address").fill(`${Date.now()}@example.com`);
        await click(page, "Invite");
        await page.locator("#invitation").waitFor();
    },
    "the question before a member is deleted": async (page) => {
        await page.goto("/admin/members");
        await click(page, "Delete bob@example.com");
        await page.getByRole("heading", { name: /^Delete the account of/ }).waitFor();
    },
    "a policy that would change": async (page) => {
        await page.goto("/admin/policy?preset=platform");
        await click(page, "Show what would change");
        await page.getByRole("heading", { name: "Change the policy?" }).waitFor();
    },
    "what an import would do": async (page) => {
        await page.goto("/admin/import");
        await page.getByLabel("or its contents").fill('{"code":"from-a-file","target":"https://example.com/"}\n{"code":"wrong","target":"nonsense"}');
        await click(page, "Show what would be done");
        await page.getByRole("heading", { name: "Import these links?" }).waitFor();
    },
};

test("pages that answer a form, wide and narrow, light and dark", async (t) => {
    const { page, witness, leave } = await signIn(browser, server.address);
    for (const [what, reach] of Object.entries(ANSWERS)) {
        await t.test(what, async () => {
            await reach(page);
            await look(page, what);
        });
    }
    witness.hasSeenNothing();
    await leave();
});

test("pages for visitors who are not signed in, wide and narrow, light and dark", async (t) => {
    const { page, witness, leave } = await arrive(browser, server.address);
    const invitation = server.rmax(["users", "create", "--email", "carol@example.com"]).match(/http\S+\/admin\/invite\/\S+/)?.[0];
    const pages = {
        "signing in": "/admin/login",
        "an invitation": new URL(invitation).pathname,
        "an invitation that is over": "/admin/invite/nonsense",
        "where a link leads": `/${code}+`,
        "a code that leads nowhere": "/nobody-made-this",
        "a code that is gone": "/gone",
        "the API's description": "/api/docs",
    };
    for (const [what, path] of Object.entries(pages)) {
        await t.test(what, async () => {
            await page.goto(path);
            await look(page, what);
        });
    }
    witness.hasSeenNothing();
    await leave();
});

test("nothing moves while a page loads", async () => {
    for (const size of [WIDE, NARROW]) {
        const { page, witness, leave } = await signIn(browser, server.address, { size });
        for (const [what, path] of Object.entries(SIGNED_IN)) {
            await page.goto(path());
            await standsStill(page, `${what} at ${size.width} px`);
        }
        witness.hasSeenNothing();
        await leave();
    }
});

test("the first page is under 100 kB in all", async () => {
    const { page, context, leave } = await signIn(browser, server.address);
    for (const path of ["/admin/login", "/admin"]) {
        const session = await context.newCDPSession(page);
        await session.send("Network.enable");
        await session.send("Network.clearBrowserCache");
        let bytes = 0;
        let answers = 0;
        session.on("Network.loadingFinished", (loaded) => {
            bytes += loaded.encodedDataLength;
            answers += 1;
        });
        await page.goto(path, { waitUntil: "networkidle" });
        assert.ok(answers >= 4, `the page, two styles and a script: ${answers} answers`);
        assert.ok(bytes > 1000 && bytes < 100_000, `${path} took ${bytes} bytes`);
        await session.detach();
    }
    await leave();
});

test("the theme follows the system until one is chosen", async () => {
    const { page, witness, leave } = await signIn(browser, server.address);
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await page.emulateMedia({ colorScheme: "dark" });
    const dark = await ground();
    assert.notEqual(light, dark);
    for (const [choice, colour] of [["Light", light], ["Dark", dark], ["Light", light]]) {
        await page.locator(".menu summary").click();
        await page.getByRole("button", { name: choice, exact: true }).click();
        await until(async () => (await ground()) === colour, `${choice} is chosen`);
        for (const system of ["light", "dark"]) {
            await page.emulateMedia({ colorScheme: system });
            await page.reload();
            assert.equal(await ground(), colour, `${choice} holds when the system is ${system}`);
        }
    }
    await page.locator(".menu summary").click();
    await page.getByRole("button", { name: "System", exact: true }).click();
    await until(async () => (await ground()) === dark, "as the system says");
    witness.hasSeenNothing();
    await leave();
});

test("the layout and accessibility checks detect faults", async () => {
    const { page, leave } = await signIn(browser, server.address);
    const spoil = (style) => page.evaluate((text) => {
        const part = document.createElement("p");
        part.textContent = "spoilt";
        for (const [name, value] of Object.entries(text)) part.style.setProperty(name, value);
        document.querySelector("main").prepend(part);
    }, style);
    await fits(page, "before");
    await standsStill(page, "before");
    await isAccessible(page, "before");
    await spoil({ color: "#ccc", background: "#fff" });
    await assert.rejects(isAccessible(page, "pale"), /color-contrast/);
    await assert.rejects(standsStill(page, "moved"), /moved/);
    await page.setViewportSize(NARROW);
    await spoil({ width: "3000px" });
    await assert.rejects(fits(page, "wide"), /wide is/);
    await leave();
});
