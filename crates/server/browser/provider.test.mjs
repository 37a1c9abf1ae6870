// Signing in with an OpenID provider, there and back in a real browser: the policy that keeps forms at home must let people leave.
//
// `RLINKS_TEST_OIDC` names the folder the provider is installed in (scripts/with-oidc).
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { arrive, isAccessible, launch, signIn } from "./browser.mjs";
import { startServer } from "./fixtures.mjs";

// Where the provider sends people back to. The browser knows which port is meant.
const HOME = "http://localhost";
const EVIL = "\"><img src=x data-evil onerror=alert(1)></script><script data-evil>alert(1)</script>";

let provider;
let issuer;
let server;
let browser;
before(async () => {
    const script = fileURLToPath(new URL("../tests/it/support/oidc_provider.mjs", import.meta.url));
    provider = spawn("node", [script], { stdio: ["pipe", "pipe", "ignore"] });
    const [line] = await once(createInterface({ input: provider.stdout }), "line");
    issuer = line.replace("listening at ", "");
    server = await startServer({
        settings: {
            RMAX_OIDC_ISSUER: issuer,
            RMAX_OIDC_CLIENT_ID: "rlinks-web",
            RMAX_OIDC_CLIENT_SECRET: "the-secret-of-the-web-client",
            RMAX_OIDC_REDIRECT_URI: `${HOME}/admin/oidc/callback`,
            RMAX_OIDC_PROVISION: JSON.stringify([{ workspace: "main", role: "member" }]),
        },
    });
    browser = await launch([`MAP localhost ${new URL(server.address).host}`]);
});
after(async () => {
    await browser?.close();
    await server?.stop();
    // It ends with its standard input.
    provider.stdin.end();
});

for (const script of [true, false]) {
    test(`somebody goes to the provider and comes back signed in, ${script ? "with" : "without"} a script; their name there is text here`, async () => {
        const login = script ? "eve" : "mallory";
        await fetch(`${issuer}/test/account`, { method: "POST", body: JSON.stringify({ sub: login, name: EVIL }) });
        const { page, witness, leave } = await arrive(browser, HOME, { script });
        await page.goto("/admin");
        if (script) await isAccessible(page, "signing in");
        witness.hasSeenNothing();
        await page.getByRole("button", { name: "Sign in with your organisation" }).click();
        await page.waitForURL((address) => address.origin === issuer);
        // The provider's own pages: who one is, and whether we may know.
        await page.locator("[name=login]").fill(login);
        await page.locator("[name=password]").fill("any");
        await page.locator("button[type=submit]").click();
        await page.getByText("Authorize", { exact: true }).or(page.getByText("Continue", { exact: true })).first().waitFor();
        await page.locator("button[type=submit]").click();
        await page.locator("#list").waitFor();
        assert.equal(new URL(page.url()).origin, HOME);
        // What those pages load is not our business.
        witness.seen.length = 0;

        for (const path of ["/admin", "/admin/account"]) {
            await page.goto(path);
            assert.equal(await page.locator(".who").innerText(), EVIL);
            assert.equal(await page.locator("[data-evil]").count(), 0);
        }
        await leave();
        const ann = await signIn(browser, HOME);
        await ann.page.goto("/admin/members");
        assert.equal(await ann.page.getByRole("cell", { name: EVIL, exact: true }).count(), script ? 1 : 2);
        assert.equal(await ann.page.locator("[data-evil]").count(), 0);
        for (const seen of [witness, ann.witness]) seen.hasSeenNothing();
        await ann.leave();
    });
}
