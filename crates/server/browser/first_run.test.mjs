// The first run: from an empty folder to the first admin, who signs out and in again; and who is not let in.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { LOOKS, arrive, fillSignIn, fits, isAccessible, launch } from "./browser.mjs";
import { ANN, PASSWORD, startServer } from "./fixtures.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

for (const { name, ...look } of LOOKS) {
    test(`the setup URL in the log creates the first admin, once (${name})`, async (t) => {
        const server = await startServer({ admin: false });
        t.after(server.stop);
        const setup = await server.said(/(http:\/\/\S+\/admin\/setup\?token=\S+)/);
        const { page, witness } = await arrive(browser, server.address, look);

        await page.goto(setup);
        await fits(page, "set-up");
        await isAccessible(page, "set-up");
        await page.getByLabel("E-mail address").fill(ANN);
        await page.getByLabel("Name").fill("Ann Example");
        await page.getByLabel("Password").fill("too short");
        await page.getByRole("button", { name: "Create the account" }).click();
        assert.equal(new URL(page.url()).pathname, "/admin/setup", "the browser itself knows how long a password is");
        await page.getByLabel("Password").fill(PASSWORD);
        await page.getByRole("button", { name: "Create the account" }).click();

        // An empty page that says what to do.
        await page.getByRole("heading", { name: "No links yet" }).waitFor();
        assert.match(await page.locator(".empty").innerText(), /Paste a long address/);
        await fits(page, "no links yet");
        await isAccessible(page, "no links yet");

        // Neither this browser nor another gets a second admin out of it.
        for (const person of [{ page }, await arrive(browser, server.address, look)]) {
            const answer = await person.page.goto(setup);
            assert.equal(answer.status(), 404);
            await person.page.getByText("This link has been used, or its time is over").waitFor();
        }

        await page.goto("/admin");
        await page.locator(".menu summary").click();
        await page.getByRole("button", { name: "Sign out" }).click();
        await page.getByRole("heading", { name: "Sign in" }).waitFor();
        await page.goto("/admin");
        await page.getByRole("heading", { name: "Sign in" }).waitFor();
        await fillSignIn(page, ANN, PASSWORD);
        await page.getByRole("heading", { name: "No links yet" }).waitFor();
        witness.hasSeenNothing();
    });
}

test("a failed sign-in is explained, and a lockout says for how long", async (t) => {
    const server = await startServer();
    t.after(server.stop);
    const { page, witness } = await arrive(browser, server.address);
    await page.goto("/admin/keys");
    for (let attempt = 1; attempt <= 10; attempt += 1) {
        await fillSignIn(page, ANN, `wrong password ${attempt}`);
        await page.getByRole("alert").getByText("E-mail address or password is wrong").waitFor();
        assert.equal(await page.getByLabel("E-mail address").inputValue(), ANN, "the address need not be typed again");
    }
    await fillSignIn(page, ANN, PASSWORD);
    await page.getByRole("alert").getByText("Too many sign-ins have failed. Wait 15 minutes and try again").waitFor();
    await page.goto("/admin");
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    witness.hasSeenNothing();
});

test("sign-in returns to the requested page", async (t) => {
    const server = await startServer();
    t.after(server.stop);
    const { page, witness } = await arrive(browser, server.address);
    await page.goto("/admin/keys");
    await fillSignIn(page, ANN, PASSWORD);
    await page.getByRole("heading", { name: "Make a key" }).waitFor();
    witness.hasSeenNothing();
});
