// Members: invited by an admin, joining with a browser of their own, and seeing what their role may.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { LOOKS, arrive, clipboard, fits, launch, press, signIn } from "./browser.mjs";
import { PASSWORD, startServer, until } from "./fixtures.mjs";

let browser;
before(async () => {
    browser = await launch();
});
after(() => browser.close());

/** What each role finds at the top, and whether it can make a link. */
const ROLES = {
    viewer: { tabs: ["Links", "Statistics", "Export", "Account"], makes: false },
    member: { tabs: ["Links", "Statistics", "Keys", "Import", "Account"], makes: true },
    admin: { tabs: ["Links", "Statistics", "Keys", "Audit log", "Members", "Domains", "Policy", "Import", "Account"], makes: true },
};
const ADMINS_ALONE = ["/admin/audit", "/admin/members", "/admin/domains", "/admin/policy"];

for (const { name, ...look } of LOOKS) {
    test(`a member of each role is invited, joins, and sees the pages of that role (${name})`, async (t) => {
        const server = await startServer();
        t.after(server.stop);
        server.rmax(["links", "set", "parity", "https://example.com/"]);
        const ann = await signIn(browser, server.address, look);
        for (const [role, { tabs, makes }] of Object.entries(ROLES)) {
            const email = `${role}@example.com`;
            await ann.page.goto("/admin/members");
            await ann.page.getByLabel("E-mail address").fill(email);
            await ann.page.getByLabel("Role", { exact: true }).selectOption(role);
            await press(ann.page, "Invite");
            const invitation = await ann.page.getByLabel("Invitation").inputValue();
            await ann.page.getByRole("button", { name: "Copy" }).click();
            await until(async () => (await clipboard(ann.page)) === invitation, "the invitation is copied");
            await fits(ann.page, "an invitation");

            const { page, witness, leave } = await arrive(browser, server.address, look);
            await page.goto(invitation);
            await page.getByText(`You are invited as ${email}, with the role ${role}.`).waitFor();
            await fits(page, "joining");
            await page.getByLabel("Name").fill(`The ${role}`);
            await page.getByLabel("Password").fill(PASSWORD);
            await page.getByRole("button", { name: "Join" }).click();
            await page.locator("#list").waitFor();

            assert.deepEqual(await page.getByRole("navigation", { name: "Main" }).getByRole("link").allInnerTexts(), tabs);
            assert.equal((await page.getByLabel("Where the new link leads").count()) === 1, makes);
            await page.locator(".short", { hasText: "/parity" }).click();
            await page.getByRole("heading", { name: "History" }).waitFor();
            assert.equal((await page.getByRole("button", { name: "Save" }).count()) === 1, makes);
            for (const path of ADMINS_ALONE) {
                const answer = await page.goto(path);
                assert.equal(answer.status(), role === "admin" ? 200 : 403, `${path} for a ${role}`);
            }
            await fits(page, "what others may not see");
            witness.hasSeenNothing();
            await leave();
        }

        // Who is demoted or suspended is so at once.
        const member = await signIn(browser, server.address, { email: "member@example.com", ...look });
        await ann.page.goto("/admin/members");
        await ann.page.getByLabel("Role of member@example.com").selectOption("viewer");
        await press(ann.page, /^Change the role of member@example\.com/);
        await ann.page.getByRole("status").getByText("The role was changed").waitFor();
        await member.page.goto("/admin");
        assert.equal(await member.page.getByLabel("Where the new link leads").count(), 0);
        await press(ann.page, "Suspend member@example.com");
        await fits(ann.page, "the question");
        await press(ann.page, "Suspend");
        await ann.page.getByRole("status").getByText("The member was suspended").waitFor();
        await member.page.goto("/admin");
        await member.page.getByRole("heading", { name: "Sign in" }).waitFor();
        await press(ann.page, "Let in again member@example.com");
        await press(ann.page, "Delete member@example.com");
        await press(ann.page, "Delete the account");
        await ann.page.getByRole("status").getByText("The account was deleted").waitFor();
        assert.equal(await ann.page.getByText("member@example.com").count(), 0);
        ann.witness.hasSeenNothing();
    });
}
