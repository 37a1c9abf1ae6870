// Pictures of the main pages for docs/images, with links and clicks that `rmax dev seed` makes. scripts/screenshots runs it.
import { mkdirSync } from "node:fs";

import { NARROW, WIDE, launch, signIn } from "./browser.mjs";
import { startServer, until } from "./fixtures.mjs";

const [folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });

const server = await startServer({ seed: ["--links", "240", "--clicks", "20000", "--days", "90"] });
const browser = await launch();
try {
    for (const [miss, times] of [["pricing", 9], ["careers", 6], ["spring-sale", 4], ["wp-login.php", 3], ["parity2", 2]]) {
        for (let time = 0; time < times; time += 1) await server.visit(`/${miss}`);
    }
    const ann = await signIn(browser, server.address);
    await until(async () => {
        await ann.page.goto("/admin/stats");
        return (await ann.page.locator("main").innerText()).includes("pricing");
    }, "what was asked for in vain is counted");
    server.rmax(["domains", "add", "go.example.com"]);
    await ann.page.goto("/admin?sort=clicks");
    const most = await ann.page.locator(".short").first().getAttribute("href");
    await ann.leave();

    /** Opens a page, lets `prepare` do something to it, and takes a picture of its upper part, `height` tall. */
    const shoot = async (name, path, { size = WIDE, scheme = "light", height = size.height, prepare } = {}) => {
        const { page, leave } = await signIn(browser, server.address, { size: { ...size, height }, scheme, reducedMotion: "reduce" });
        await page.goto(path);
        await page.evaluate(() => {
            // Where it is installed, a font that is closer to what most systems have. There is no scroll bar to keep room for.
            document.body.style.fontFamily = "Inter, system-ui, sans-serif";
            document.documentElement.style.scrollbarGutter = "auto";
        });
        await prepare?.(page);
        await page.mouse.move(0, 0);
        await page.screenshot({ path: `${folder}/${name}.png`, caret: "hide" });
        await leave();
    };
    const scrollTo = (selector) => (page) => page.locator(selector).evaluate((part) => scrollTo(0, part.getBoundingClientRect().top - 16));

    await shoot("links", "/admin?sort=clicks", { height: 760 });
    await shoot("links-dark", "/admin?sort=clicks", {
        scheme: "dark",
        height: 760,
        prepare: async (page) => {
            for (const row of [0, 1]) await page.locator("[data-row] .tick input").nth(row).check();
        },
    });
    await shoot("links-narrow", "/admin?sort=clicks", { size: NARROW, height: 760 });
    await shoot("link", `${most}?range=30d`, { height: 1000 });
    await shoot("statistics", "/admin/stats?range=90d", { height: 900 });
    await shoot("policy", "/admin/policy", { prepare: scrollTo("section[aria-labelledby=preset-title]"), height: 680 });
    await shoot("keys", "/admin/keys", {
        height: 700,
        prepare: async (page) => {
            await page.getByLabel("Name").fill("blog");
            await page.getByLabel("links:read").check();
            await page.getByLabel("links:write").check();
        },
    });
} finally {
    await browser.close();
    await server.stop();
}
