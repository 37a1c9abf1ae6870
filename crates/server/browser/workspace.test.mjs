// The workspace's pages, each used once as it is meant to be: keys, files, policy, log, domains, statistics, one's own account.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { LOOKS, clipboard, fillSignIn, fits, launch, press, signIn } from "./browser.mjs";
import { ANN, PASSWORD, startServer, until } from "./fixtures.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

const isDone = (page, words) => page.getByRole("status").getByText(words).waitFor();

for (const { name, ...look } of LOOKS) {
    test(`a key is shown once, opens the API, and stops working when revoked (${name})`, async (t) => {
        const server = await startServer();
        t.after(server.stop);
        const { page, witness } = await signIn(browser, server.address, look);
        await page.getByRole("link", { name: "Keys" }).click();
        await page.getByLabel("Name").fill("blog");
        for (const scope of await page.getByRole("group", { name: "What it may do" }).getByRole("checkbox").all()) await scope.uncheck();
        await press(page, "Make the key");
        await page.getByText(/^Scopes /).waitFor();
        assert.equal(await page.getByLabel("Name").inputValue(), "blog");
        await page.getByLabel("links:read").check();
        await page.getByLabel("links:write").check();
        await press(page, "Make the key");

        const key = await page.getByLabel("Key", { exact: true }).inputValue();
        await page.getByRole("button", { name: "Copy" }).click();
        await until(async () => (await clipboard(page)) === key, "the key is copied");
        await fits(page, "a new key");
        assert.equal((await server.api(key, "POST", "/links", { target: "https://example.com/", code: "by-key" })).status, 201);
        assert.equal((await server.api(key, "DELETE", "/links/by-key")).status, 403, "it may no more than it was given");
        await page.goto("/admin/keys");
        assert.ok(!(await page.content()).includes(key), "it is shown once");

        await press(page, "Revoke blog");
        await page.getByRole("heading", { name: "Revoke the key “blog”?" }).waitFor();
        await fits(page, "the question");
        await press(page, "Revoke the key");
        await page.getByRole("row", { name: /blog/ }).getByText("revoked").waitFor();
        assert.equal((await server.api(key, "GET", "/me")).status, 401);
        witness.hasSeenNothing();
    });
}

test("a file is previewed, imported and reported; nothing happens before that", async (t) => {
    const server = await startServer();
    t.after(server.stop);
    server.rmax(["links", "set", "there", "https://example.com/there"]);
    const { page, witness } = await signIn(browser, server.address);
    await page.getByRole("link", { name: "Import" }).click();
    await press(page, "Show what would be done");
    await page.getByText("Choose a file, or paste its contents").waitFor();

    const rows = [
        { code: "new-one", target: "https://example.com/one" },
        { code: "new-two", target: "https://example.com/two" },
        { code: "there", target: "https://example.com/other" },
        { code: "wrong", target: "javascript:alert(1)" },
    ];
    const buffer = Buffer.from(rows.map((row) => JSON.stringify(row)).join("\n"));
    await page.getByLabel("File (at most 16 MiB)").setInputFiles({ name: "links.jsonl", mimeType: "application/jsonl", buffer });
    await press(page, "Show what would be done");
    await page.getByRole("heading", { name: "Import these links?" }).waitFor();
    const outcome = async () => [await page.locator("#created").innerText(), await page.locator("#conflicting").innerText(), await page.locator("#refused").innerText()];
    assert.deepEqual(await outcome(), ["2", "1", "1"]);
    assert.equal((await server.visit("/new-one")).status, 404, "nothing was done yet");
    await press(page, "Import 2 links");
    await page.getByRole("heading", { name: "Imported" }).waitFor();
    assert.deepEqual(await outcome(), ["2", "1", "1"]);
    await until(async () => (await server.visit("/new-one")).headers.get("location") === "https://example.com/one", "the new link answers");
    assert.equal((await server.visit("/there")).headers.get("location"), "https://example.com/there");

    await page.goto("/admin/import");
    const waiting = page.waitForEvent("download");
    await page.getByRole("link", { name: "CSV" }).click();
    const stream = await (await waiting).createReadStream();
    let text = "";
    for await (const part of stream) text += part;
    assert.match(text, /new-two/);
    witness.hasSeenNothing();
});

test("a policy change is previewed, saved, and applies from then on", async (t) => {
    const server = await startServer();
    t.after(server.stop);
    server.rmax(["links", "set", "parity", "https://example.com/"]);
    const { page, witness } = await signIn(browser, server.address);
    const status = async () => (await server.visit("/parity")).status;
    assert.equal(await status(), 301);
    server.rmax(["links", "disable", "parity"]);
    await until(async () => (await status()) === 404, "disabled");

    await page.getByRole("link", { name: "Policy" }).click();
    await page.getByLabel("Shortest code").fill("no number");
    await press(page, "Show what would change");
    await page.getByRole("alert").getByText("Nothing was changed").waitFor();
    await page.goto("/admin/policy");
    await page.locator("#answers\\.disabled").selectOption("410");
    await press(page, "Show what would change");
    const differences = page.getByRole("table", { name: "What would change" });
    assert.match(await differences.innerText(), /404[\s\S]*410/);
    assert.equal(await differences.getByRole("row").count(), 2, "one rule, under its heading");
    await press(page, "Save the policy");
    await page.getByRole("status").first().waitFor();
    await until(async () => (await status()) === 410, "the policy binds");

    // A preset fills the form and changes nothing by itself.
    await page.getByRole("link", { name: "Fill the form from team" }).click();
    await page.getByText("The form shows the preset team").waitFor();
    await page.goto("/admin/policy");
    assert.equal(await page.locator("#answers\\.disabled").inputValue(), "410");

    await page.getByLabel("Name", { exact: true }).fill("Our links");
    await press(page, "Change the name");
    await page.getByRole("status").first().waitFor();
    assert.equal(await page.getByLabel("Name", { exact: true }).inputValue(), "Our links");
    witness.hasSeenNothing();
});

test("the audit log is shown, verified and exported", async (t) => {
    const server = await startServer();
    t.after(server.stop);
    const { page, witness } = await signIn(browser, server.address);
    await page.getByLabel("Where the new link leads").fill("https://example.com/");
    await press(page, "Shorten");
    await page.locator(".made").waitFor();
    await page.getByRole("link", { name: "Audit log" }).click();
    await isDone(page, "Verified: the chain holds");
    await page.getByRole("combobox", { name: "What was done" }).fill("link.create");
    await press(page, "Filter");
    const rows = page.getByRole("region", { name: "What was done" }).locator("tbody tr:not(.details)");
    assert.equal(await rows.count(), 1);
    assert.match(await rows.innerText(), /\d:\d\d:\d\d[\s\S]*ann@example\.com/, "when, to the second, and who");
    const details = page.locator("tr.details");
    await details.getByText("Details").click();
    assert.match(await details.innerText(), /target\s+https:\/\/example\.com\//);
    await page.getByLabel("From").fill("yesterday");
    await press(page, "Filter");
    await page.getByText(/^The time /).waitFor();
    const waiting = page.waitForEvent("download");
    await page.getByRole("link", { name: "Download the log" }).click();
    const path = await (await waiting).path();
    assert.match(server.rmax(["audit", "verify", "--file", path]), /\S/);
    witness.hasSeenNothing();
});

test("a domain is added, made primary, and removed after confirmation", async (t) => {
    const server = await startServer();
    t.after(server.stop);
    const { page, witness } = await signIn(browser, server.address);
    await page.getByRole("link", { name: "Domains" }).click();
    await page.getByLabel("Host").fill("https://go.example.com/path");
    await press(page, "Add");
    await page.getByText(/^The host /).waitFor();
    for (const host of ["go.example.com", "links.example.com"]) {
        await page.getByLabel("Host").fill(host);
        await press(page, "Add");
        if (host === "go.example.com") {
            await page.getByText(`such as ${new URL(server.address).host}`).waitFor();
            await fits(page, "the question");
            await press(page, "Add the domain");
        }
        await page.getByRole("row", { name: host }).waitFor();
    }
    await press(page, /^Make primary.*links\.example\.com$/);
    await page.getByRole("row", { name: /links\.example\.com primary/ }).waitFor();
    await press(page, "Remove go.example.com");
    await page.getByRole("heading", { name: "Remove go.example.com?" }).waitFor();
    await press(page, "Remove the domain");
    await isDone(page, "The domain was removed");
    assert.equal(await page.getByRole("row", { name: "go.example.com" }).count(), 0);
    witness.hasSeenNothing();
});

test("statistics count people, top links and not-found codes", async (t) => {
    const server = await startServer();
    t.after(server.stop);
    server.rmax(["links", "set", "parity", "https://example.com/"]);
    const { page, witness } = await signIn(browser, server.address);
    await until(async () => (await server.visit("/parity", { Referer: "https://news.example/today" })).status === 301, "the link answers");
    await server.visit("/nobody-made-this");
    await until(async () => {
        await page.goto("/admin/stats");
        const text = await page.locator("main").innerText();
        return text.includes("nobody-made-this") && text.includes("news.example");
    }, "the click and the miss are counted");
    assert.match(await page.getByRole("region", { name: "Links clicked most" }).innerText(), /parity\s+1/);
    await page.getByRole("link", { name: "A year" }).click();
    await page.locator(".ranges a[aria-current]", { hasText: "A year" }).waitFor();
    await page.getByText("The same as a table").click();
    await page.getByRole("region", { name: "Clicks and visitors as a table" }).waitFor();
    witness.hasSeenNothing();
});

test("an account: another password and name, signed out elsewhere, everywhere, and deleted", async (t) => {
    const server = await startServer();
    t.after(server.stop);
    server.addPerson("bob@example.com", "Bob", "member");
    const bob = { email: "bob@example.com" };
    const [here, there] = [await signIn(browser, server.address, bob), await signIn(browser, server.address, bob)];
    const { page, witness } = here;
    const isOut = async (person) => {
        await person.page.goto("/admin/account");
        await person.page.getByRole("heading", { name: "Sign in" }).waitFor();
    };
    await page.goto("/admin/account");
    assert.equal(await page.getByRole("region", { name: "Where you are signed in" }).locator("tbody tr").count(), 2);

    await page.getByLabel("Current password").fill("not this one, surely");
    await page.getByLabel("New password").fill("another horse battery staple");
    await press(page, "Change the password");
    await page.getByRole("alert").getByText("The current password is not this one").waitFor();
    await page.getByLabel("Current password").fill(PASSWORD);
    await page.getByLabel("New password").fill("another horse battery staple");
    await press(page, "Change the password");
    await isDone(page, "Your password was changed");
    await isOut(there);

    await page.getByRole("textbox", { name: "Name" }).fill("Robert");
    await press(page, "Change the name");
    await isDone(page, "Your name was changed");
    assert.equal(await page.locator(".who").innerText(), "Robert");

    await fillSignIn(there.page, bob.email, "another horse battery staple");
    await there.page.getByRole("heading", { name: "Account", exact: true }).waitFor();
    await press(page, "Sign out everywhere");
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await isOut(here);
    await isOut(there);

    await fillSignIn(page, bob.email, "another horse battery staple");
    await page.getByRole("heading", { name: "Account", exact: true }).waitFor();
    await page.getByLabel("Type your e-mail address to confirm").fill(ANN);
    await page.locator("#delete_password").fill("another horse battery staple");
    await press(page, "Delete the account");
    await page.getByRole("alert").waitFor();
    assert.ok(await page.getByRole("alert").evaluate((alert) => alert.getBoundingClientRect().top < innerHeight), "what is wrong is in sight");
    assert.equal(await page.evaluate(() => document.activeElement.id), "delete_email");
    await page.getByLabel("Type your e-mail address to confirm").fill(bob.email);
    await page.locator("#delete_password").fill("another horse battery staple");
    await press(page, "Delete the account");
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await fillSignIn(page, bob.email, "another horse battery staple");
    await page.getByRole("alert").getByText("E-mail address or password is wrong").waitFor();
    witness.hasSeenNothing();
});
