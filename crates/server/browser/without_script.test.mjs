// The essentials with JavaScript switched off: every page works without it, with a press of a button more.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { LOOKS, fits, launch, press, signIn } from "./browser.mjs";
import { startServer, until } from "./fixtures.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

for (const { name, ...look } of LOOKS) {
    test(`a link is made, found, changed, disabled, deleted after one question and restored without a script (${name})`, async (t) => {
        const server = await startServer();
        t.after(server.stop);
        const { page, witness } = await signIn(browser, server.address, { script: false, ...look });
        await page.getByRole("heading", { name: "No links yet" }).waitFor();

        await page.getByLabel("Where the new link leads").fill("https://example.com/first");
        await page.getByText("More options").click();
        await page.getByRole("textbox", { name: "Code" }).fill("parity");
        await press(page, "Shorten");
        assert.equal(await page.locator(".made-url").getAttribute("href"), `${server.address}/parity`);
        assert.equal(await page.getByRole("button", { name: "Copy" }).count(), 0, "nothing is offered that cannot be done");
        await fits(page, "the list without a script");
        const leadsTo = (target) => until(async () => (await server.visit("/parity")).headers.get("location") === target, `leads to ${target}`);
        await leadsTo("https://example.com/first");

        await page.getByLabel("Search").fill("first");
        await press(page, "Show");
        assert.equal(new URL(page.url()).searchParams.get("q"), "first");
        await page.locator(".short", { hasText: "/parity" }).click();
        await page.getByLabel("Target").fill("nonsense");
        await press(page, "Save");
        await page.locator("#target-wrong").waitFor();
        await page.getByLabel("Target").fill("https://example.com/second");
        await page.getByLabel("Expires").fill("2037-07-01T12:00:00");
        await press(page, "Save");
        await page.locator("time[datetime^='2037-07-01T12:00:00']").first().waitFor();
        await leadsTo("https://example.com/second");
        await fits(page, "a link without a script");
        await press(page, "Disable");
        await page.locator("h1 .badge.disabled").waitFor();
        await press(page, "Enable");
        await page.locator("h1 .badge.active").waitFor();

        // Many at once; the question is a page of its own.
        await page.goto("/admin");
        await page.getByLabel("Tick parity").check();
        await page.getByLabel("Tag to add or remove").fill("spring");
        await Promise.all([page.waitForEvent("domcontentloaded"), page.getByLabel("Tag to add or remove").press("Enter")]);
        await page.getByText("1 link was tagged.").waitFor();
        await page.locator(".tag", { hasText: "spring" }).waitFor();
        await page.getByLabel("Tick parity").check();
        await press(page, "Delete");
        await page.getByRole("heading", { name: "Delete this link?" }).waitFor();
        await fits(page, "the question");
        assert.equal((await server.visit("/parity")).status, 301, "not yet");
        await press(page, "Delete");
        await page.getByRole("button", { name: "Undo" }).waitFor();
        await until(async () => (await server.visit("/parity")).status !== 301, "deleted");
        await page.goto("/admin?state=deleted");
        await page.getByLabel("Tick parity").check();
        await press(page, "Restore");
        await leadsTo("https://example.com/second");
        await page.goto("/admin/links/parity");
        await page.locator(".history li").last().getByRole("button", { name: "Make it this again" }).click();
        await leadsTo("https://example.com/first");
        witness.hasSeenNothing();
    });
}

test("keys, themes and signing out work without JavaScript", async (t) => {
    const server = await startServer();
    t.after(server.stop);
    const { page, witness } = await signIn(browser, server.address, { script: false });
    await page.goto("/admin/keys");
    await page.getByLabel("Name").fill("blog");
    await page.getByLabel("links:read").check();
    await press(page, "Make the key");
    const key = await page.getByLabel("Key", { exact: true }).inputValue();
    assert.equal((await server.api(key, "GET", "/links")).status, 200);
    // A reload sends the form again, and makes no second key.
    await page.reload();
    await page.getByText("You have made the key “blog” since").waitFor();
    assert.equal(await page.getByRole("row", { name: /blog/ }).count(), 1);
    await page.goto("/admin/keys");
    await press(page, "Revoke blog");
    await press(page, "Revoke the key");
    await page.getByRole("row", { name: /blog/ }).getByText("revoked").waitFor();
    assert.equal((await server.api(key, "GET", "/links")).status, 401);

    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await page.locator(".menu summary").click();
    await press(page, "Dark");
    await until(async () => (await ground()) !== light, "dark");
    await page.locator(".menu summary").click();
    await press(page, "Sign out");
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    witness.hasSeenNothing();
});
