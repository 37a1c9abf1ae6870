// The list of links: searched while one types, filtered, sorted, paged, changed many at a time, and driven from the keyboard.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { LOOKS, clipboard, fits, launch, press, signIn } from "./browser.mjs";
import { startServer, until } from "./fixtures.mjs";

let browser;
let server;
before(async () => {
    [browser, server] = await Promise.all([launch(), startServer({ seed: ["--links", "120", "--clicks", "500"] })]);
});
after(async () => {
    await browser.close();
    await server.stop();
});

const rows = (page) => page.locator("[data-row]");
const count = async (page) => Number.parseInt(await page.locator(".count").innerText(), 10);
const codes = (page) => page.locator("[data-row] .short").evaluateAll((links) => links.map((link) => link.pathname.split("/").pop()));
/** The list has come anew once it has so many links. */
const has = (page, number) => until(async () => (await rows(page).count()) && (await count(page)) === number, `${number} links in the list`);

for (const { name, ...look } of LOOKS) {
    test(`search follows what is typed, and the address follows the search (${name})`, async () => {
        server.rmax(["links", "set", "needle", "https://example.com/haystack", "--title", "Where is the needle", "--tag", "sewing"]);
        const { page, witness, leave } = await signIn(browser, server.address, look);
        await has(page, 121);
        await page.getByRole("searchbox", { name: "Search" }).pressSequentially("haysta");
        await has(page, 1);
        assert.deepEqual(await codes(page), ["needle"]);
        assert.equal(new URL(page.url()).search, "?q=haysta");
        await fits(page, "one link found");
        await page.getByRole("searchbox", { name: "Search" }).pressSequentially("zzz");
        await page.getByRole("heading", { name: "Nothing found" }).waitFor();
        await page.getByRole("link", { name: "Show all links" }).click();
        await has(page, 121);

        // A tag leads to its links; a state to those that are in it.
        await page.goto("/admin?q=needle");
        await page.getByRole("link", { name: "sewing" }).click();
        await until(() => new URL(page.url()).searchParams.get("tag") === "sewing", "the tag is in the address");
        assert.deepEqual(await codes(page), ["needle"]);
        server.rmax(["links", "disable", "needle"]);
        await page.goto("/admin");
        await page.getByLabel("State").selectOption({ label: "Disabled" });
        await until(async () => (await codes(page)).includes("needle") && (await rows(page).count()) === (await page.locator(".badge.disabled").count()), "disabled links alone");
        server.rmax(["links", "enable", "needle"]);
        witness.hasSeenNothing();
        await leave();
    });
}

test("pages follow each other without a gap", async () => {
    const { page, witness, leave } = await signIn(browser, server.address);
    await page.getByLabel("Order").selectOption({ index: 1 });
    await until(() => new URL(page.url()).searchParams.has("sort"), "the order is in the address");
    const seen = [];
    for (;;) {
        seen.push(...(await codes(page)));
        const next = page.getByRole("link", { name: "Next page" });
        if (!(await next.count())) break;
        const first = (await codes(page))[0];
        await next.click();
        await until(async () => (await codes(page))[0] !== first, "another page");
    }
    assert.equal(new Set(seen).size, seen.length);
    assert.equal(seen.length, await count(page));
    witness.hasSeenNothing();
    await leave();
});

for (const { name, ...look } of LOOKS) {
    test(`selected links are tagged, disabled, deleted after confirmation, and restored (${name})`, async () => {
        for (const code of ["bulk-a", "bulk-b"]) server.rmax(["links", "set", code, "https://example.com/bulk"]);
        const { page, witness, leave } = await signIn(browser, server.address, look);
        const open = (state = "") => page.goto(`/admin?q=bulk&state=${state}`);
        const tickAll = async () => {
            for (const box of await page.locator("[data-row] .tick input").all()) await box.check();
        };
        await open();
        assert.equal(await page.getByRole("group", { name: "With the links you tick" }).isVisible(), false, "out of the way until needed");
        await tickAll();
        await fits(page, "ticked links");
        await page.getByText("2 ticked", { exact: true }).waitFor();
        await page.getByRole("button", { name: "Clear" }).click();
        assert.equal(await page.locator(".tick input:checked").count(), 0);
        await tickAll();
        await page.getByLabel("Tag to add or remove").fill("together");
        // Enter in the field adds the tag, and does nothing else.
        await Promise.all([page.waitForEvent("domcontentloaded"), page.keyboard.press("Enter")]);
        await page.getByText("2 links were tagged.").waitFor();
        assert.equal(await page.locator(".tag", { hasText: "together" }).count(), 2);

        await tickAll();
        await press(page, "Disable");
        await until(async () => (await page.locator(".badge.disabled").count()) === 2, "both are disabled");
        await tickAll();
        await press(page, "Enable");
        await until(async () => (await page.locator(".badge.active").count()) === 2, "both are active");

        await tickAll();
        const bulk = page.getByRole("group", { name: "With the links you tick" });
        const sure = page.getByRole("dialog", { name: "Delete 2 links?" });
        await bulk.getByRole("button", { name: "Delete" }).click();
        await sure.getByRole("button", { name: "Cancel" }).click();
        assert.equal(await rows(page).count(), 2);
        await bulk.getByRole("button", { name: "Delete" }).click();
        await fits(page, "the question");
        await sure.getByRole("button", { name: "Delete" }).click();
        await press(page, "Undo");
        await open();
        await has(page, 2);

        // A deleted link can also be found again, and restored, later.
        server.rmax(["links", "delete", "bulk-a", "--yes"]);
        await open("deleted");
        await has(page, 1);
        await tickAll();
        await press(page, "Restore");
        await open();
        await has(page, 2);
        witness.hasSeenNothing();
        await leave();
    });
}

test("everything has a keyboard shortcut", async () => {
    const { page, witness, leave } = await signIn(browser, server.address);
    const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);
    await page.keyboard.press("c");
    assert.equal(await focused(), "target");
    await page.keyboard.press("Escape");
    await page.keyboard.press("/");
    assert.equal(await focused(), "q");
    const shown = await page.locator("[data-row] .short").allInnerTexts();
    await page.keyboard.press("ArrowDown");
    assert.equal(await focused(), shown[0], "from the search into what it found");
    await page.keyboard.press("/");
    await page.keyboard.press("Escape");

    await page.keyboard.press("ArrowDown");
    assert.equal(await focused(), shown[0]);
    await page.keyboard.press("ArrowDown");
    assert.equal(await focused(), shown[1]);
    await page.keyboard.press("ArrowUp");
    assert.equal(await focused(), shown[0]);
    await page.keyboard.press("x");
    assert.equal(await page.locator("[data-row] .tick input").first().isChecked(), true);
    await page.keyboard.press("y");
    await page.getByText("Copied", { exact: true }).waitFor();
    assert.ok((await clipboard(page)).endsWith(shown[0]));

    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await fits(page, "the keys");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Enter");
    await until(() => page.url().includes("/admin/links/"), "Enter opens the link");
    // Letters in a field are letters.
    await page.locator("#edit").getByLabel("Title").pressSequentially("c/?xy");
    assert.match(await page.locator("#edit").getByLabel("Title").inputValue(), /c\/\?xy$/);
    witness.hasSeenNothing();
    await leave();
});

test("the back button undoes a filter", async () => {
    const { page, witness, leave } = await signIn(browser, server.address);
    const all = await count(page);
    await page.getByLabel("State").selectOption({ label: "Deleted" });
    await page.getByText("No link is deleted.").waitFor();
    assert.equal(await page.locator("[data-found]").textContent(), "Nothing found");
    await page.goBack();
    await has(page, all);
    assert.equal(await page.getByLabel("State").inputValue(), "");
    assert.equal(await page.locator("[data-found]").textContent(), `${all} links`);
    assert.equal(await page.locator("#list").getAttribute("aria-live"), null, "a screen reader hears the number, not every row");
    witness.hasSeenNothing();
    await leave();
});

test("the list stays when the connection is lost", async () => {
    const { context, page, witness, leave } = await signIn(browser, server.address);
    const before = await codes(page);
    await context.setOffline(true);
    await page.getByRole("searchbox", { name: "Search" }).pressSequentially("x");
    await page.getByText("No connection. Try again.").waitFor();
    assert.deepEqual(await codes(page), before);
    await context.setOffline(false);
    assert.deepEqual(witness.seen.filter((seen) => !seen.includes("ERR_INTERNET_DISCONNECTED")), []);
    await leave();
});

for (const { name, ...look } of LOOKS) {
    test(`a long list of long links keeps its lines (${name})`, async (t) => {
        const own = await startServer();
        t.after(own.stop);
        const tags = Array.from({ length: 20 }, (_, number) => ["--tag", `a tag of some length ${number}`]).flat();
        own.rmax(["links", "set", "long", `https://example.com/${"x".repeat(1900)}`, "--title", "t".repeat(300), ...tags]);
        own.rmax(["links", "set", "turned", "https://example.com/", "--title", "\u202Eturned"]);
        own.rmax(["links", "disable", "turned"]);
        const { page, witness, leave } = await signIn(browser, own.address, look);
        await fits(page, "long links");
        const heights = await page.locator("[data-row]").evaluateAll((found) => found.map((row) => row.offsetHeight));
        assert.ok(heights.every((height) => height < 330), `rows of ${heights} pixels`);
        const badge = page.locator(".badge.disabled");
        assert.ok((await badge.boundingBox()).height < 30, "a state is one word on one line");
        // What turns the direction of text ends with its own title: the dots of the address after it stay where they are.
        assert.equal(await page.locator(".title", { hasText: "turned" }).evaluate((title) => getComputedStyle(title).unicodeBidi), "isolate");
        witness.hasSeenNothing();
        await leave();
    });
}
