// A link's life, as a person lives it: made, copied, followed, changed, switched off, brought back.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { LOOKS, arrive, clipboard, fillSignIn, fits, launch, press, signIn } from "./browser.mjs";
import { ANN, PASSWORD, startServer, until } from "./fixtures.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const TARGET = "https://example.com/a/rather/long/address?with=parameters";

/** The short link that was just made, from the notice. */
const made = (page) => page.locator(".made-url").getAttribute("href");
/** What happened is where one looks, not somewhere above or below. */
const isInSight = (page, what) => until(async () => {
    const box = await what.boundingBox();
    return box && box.y >= 0 && box.y + box.height <= page.viewportSize().height;
}, "it is in sight");
const badge = (page) => page.locator("h1 .badge").innerText();

for (const { name, ...look } of LOOKS) {
    test(`a link is made, copied, followed, watched, changed, disabled and restored (${name})`, async (t) => {
        const server = await startServer();
        t.after(server.stop);
        const { page, witness } = await signIn(browser, server.address, look);

        // Pasted, Enter, copied.
        await page.evaluate((text) => navigator.clipboard.writeText(text), TARGET);
        await page.getByLabel("Where the new link leads").focus();
        await page.keyboard.press("ControlOrMeta+v");
        await page.keyboard.press("Enter");
        const short = await made(page);
        assert.ok(short.startsWith(`${server.address}/`), short);
        await page.getByText("Copied", { exact: true }).waitFor();
        assert.equal(await clipboard(page), short);
        await fits(page, "a new link");

        // A reload neither says nor copies it again.
        await page.evaluate(() => navigator.clipboard.writeText("something else"));
        await page.reload();
        await page.locator("#list").waitFor();
        assert.equal(await page.locator(".made").count(), 0);
        assert.equal(await clipboard(page), "something else");

        // Its page is open and waits for clicks.
        await page.locator("[data-row] .short").first().click();
        await page.getByText("Live", { exact: true }).waitFor();
        await page.getByText("Nobody has followed this link yet").waitFor();
        const visitor = await arrive(browser, server.address);
        const redirect = visitor.page.waitForResponse(short);
        // Where it leads cannot be reached from here; that it leads there is what counts.
        await visitor.page.goto(short).catch(() => {});
        assert.equal((await redirect).headers().location, TARGET);
        const click = page.locator(".latest tr.new");
        await click.waitFor();
        assert.match(await click.innerText(), /Chrome/);
        assert.equal(await page.getByText("Nobody has followed this link yet").count(), 0);
        await until(async () => {
            await page.reload();
            return (await page.locator(".figures").innerText()).match(/Clicks\s+1\b/);
        }, "the click is counted");
        await fits(page, "a link's page");

        // Changed, with what is wrong beside its field.
        const edit = page.locator("#edit");
        await edit.getByLabel("Target").fill("nonsense");
        await edit.getByLabel("Title").fill("Kept while something else is wrong");
        await press(page, "Save");
        await page.locator("#target-wrong").waitFor();
        assert.equal(await edit.getByLabel("Target").getAttribute("aria-invalid"), "true");
        assert.equal(await edit.getByLabel("Title").inputValue(), "Kept while something else is wrong");
        await until(() => page.evaluate(() => document.activeElement.id === "target"), "the field that is wrong has the focus");
        await isInSight(page, page.locator("#target-wrong"));
        await fits(page, "a field error");
        await edit.getByLabel("Target").fill("https://example.com/changed");
        await edit.getByLabel("Tags").fill("spring, print");
        // A time of the viewer's own zone, which is two hours ahead of UTC in summer.
        await edit.getByLabel("Expires").fill("2037-07-01T12:00:00");
        await press(page, "Save");
        await isInSight(page, page.getByRole("status").getByText(/saved/i));
        assert.equal(await edit.getByLabel("Expires").inputValue(), "2037-07-01T12:00");
        assert.equal(await page.locator(".head time[datetime^='2037-07-01T10:00:00']").count(), 1);
        const path = new URL(short).pathname;
        const leadsTo = (target) => until(async () => (await server.visit(path)).headers.get("location") === target, `leads to ${target}`);
        await leadsTo("https://example.com/changed");

        // Off and on again.
        await press(page, "Disable");
        await page.locator("h1 .badge.disabled").waitFor();
        await until(async () => (await server.visit(path)).status === 404, "disabled");
        await press(page, "Enable");
        await page.locator("h1 .badge.active").waitFor();

        // The history says from what to what, and leads back to the beginning.
        const changes = page.locator(".history li");
        await until(async () => / UTC$/.test(await changes.first().locator("time").getAttribute("title")), "the viewer's time, with UTC behind it");
        assert.match(await changes.filter({ hasText: "https://example.com/changed" }).first().innerText(), /Ann Example/);
        await changes.last().getByRole("button", { name: "Make it this again" }).click();
        await until(async () => (await edit.getByLabel("Target").inputValue()) === TARGET, "the first version is back");
        await leadsTo(TARGET);

        // Deleted, and restored from its own page.
        await press(page, "Delete");
        await page.getByText("This link is deleted").or(page.getByRole("button", { name: "Undo" })).first().waitFor();
        await until(async () => [404, 410].includes((await server.visit(path)).status), "deleted");
        await page.goto(`/admin/links${path}`);
        assert.equal(await badge(page), "deleted");
        await press(page, "Restore");
        await page.locator("h1 .badge.active").waitFor();
        await leadsTo(TARGET);
        witness.hasSeenNothing();
    });
}

test("an invalid new link shows its errors beside the fields and keeps what was typed", async (t) => {
    const server = await startServer();
    t.after(server.stop);
    server.rmax(["links", "set", "taken", "https://example.com/"]);
    const { page, witness } = await signIn(browser, server.address);
    await page.getByLabel("Where the new link leads").fill(TARGET);
    await page.getByText("More options").click();
    await page.getByRole("textbox", { name: "Code" }).fill("taken");
    await page.getByLabel("Notes").fill("of some length");
    await press(page, "Shorten");
    await page.locator("#code-wrong").waitFor();
    assert.equal(await page.getByLabel("Notes").inputValue(), "of some length");
    assert.equal(await page.evaluate(() => document.activeElement.id), "code");
    await page.getByRole("textbox", { name: "Code" }).fill("free");
    await press(page, "Shorten");
    assert.equal(await made(page), `${server.address}/free`);
    witness.hasSeenNothing();
});

test("a QR code is shown at once, and comes as SVG and PNG", async (t) => {
    const server = await startServer();
    t.after(server.stop);
    server.rmax(["links", "set", "parity", "https://example.com/"]);
    const { page, witness } = await signIn(browser, server.address);
    await page.getByRole("link", { name: /^QR code of/ }).click();
    const image = page.getByRole("img", { name: /^QR code of .*\/parity$/ });
    await until(() => image.evaluate((drawn) => drawn.complete && drawn.naturalWidth > 0), "the QR code is drawn");
    await fits(page, "a QR code");
    for (const [format, begins] of [["SVG", "<svg"], ["PNG", "\x89PNG"]]) {
        const waiting = page.waitForEvent("download");
        await page.locator("#qr").getByRole("link", { name: format }).click();
        const stream = await (await waiting).createReadStream();
        const first = await new Promise((done) => stream.once("data", done));
        assert.ok(first.toString("latin1").includes(begins), format);
    }
    await page.keyboard.press("Escape");
    assert.equal(await page.locator("#qr").isVisible(), false);
    witness.hasSeenNothing();
});

test("an edit conflict shows both versions", async (t) => {
    const server = await startServer();
    t.after(server.stop);
    server.rmax(["links", "set", "parity", "https://example.com/"]);
    const { page, witness } = await signIn(browser, server.address);
    await page.goto("/admin/links/parity");
    server.rmax(["links", "set", "parity", "https://example.com/faster"]);
    await page.locator("#edit").getByLabel("Target").fill("https://example.com/slower");
    await press(page, "Save");
    const differs = page.getByRole("table", { name: "What differs" });
    assert.match(await differs.innerText(), /slower[\s\S]*faster/);
    await isInSight(page, page.getByText("Somebody else has changed this link"));
    await press(page, "Save");
    await differs.waitFor({ state: "detached" });
    assert.equal(await page.locator("#edit").getByLabel("Target").inputValue(), "https://example.com/slower");
    witness.hasSeenNothing();
});

test("a link is copied over plain http, without the clipboard API", async (t) => {
    const server = await startServer();
    t.after(server.stop);
    server.rmax(["links", "set", "parity", "https://example.com/"]);
    const { page, witness } = await signIn(browser, server.address);
    await page.addInitScript(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
    await page.goto("/admin");
    await page.getByRole("button", { name: /^Copy / }).click();
    await page.getByText("Copied", { exact: true }).waitFor();
    await page.getByRole("searchbox", { name: "Search" }).focus();
    await page.keyboard.press("ControlOrMeta+v");
    assert.equal(await page.getByRole("searchbox", { name: "Search" }).inputValue(), `${server.address}/parity`);
    // Pasted into the search, a short link finds itself.
    await until(() => new URL(page.url()).searchParams.has("q"), "the search has happened");
    assert.equal(await page.locator("[data-row]").count(), 1);
    witness.hasSeenNothing();
});

test("an expired session is explained, and sign-in returns to the same page", async (t) => {
    const server = await startServer();
    t.after(server.stop);
    const { page, witness } = await signIn(browser, server.address);
    server.rmax(["users", "sign-out", "ann@example.com"]);
    await page.getByLabel("Where the new link leads").fill(TARGET);
    await press(page, "Shorten");
    await page.getByText("what you sent last was not saved").waitFor();
    await fillSignIn(page, ANN, PASSWORD);
    assert.equal(await page.getByLabel("Where the new link leads").inputValue(), TARGET);
    await page.goto("/admin/login");
    witness.hasSeenNothing();
});
