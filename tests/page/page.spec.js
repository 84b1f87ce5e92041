// The pages of a real daemon: what people look for, by mouse, by keyboard and by eye.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { Fleet, TOKEN, cluster, placement } from "./fleet.js";
import { expect, test as guarded } from "./guard.js";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PICTURES = fileURLToPath(new URL("../../target/page-pictures/", import.meta.url));
/** Text that would do harm where it is taken for HTML. */
const HOSTILE = `"><img src=x onerror=alert(1)><script>alert(2)</script></main>`;
const FILES = { "web.yaml": placement("web", "1"), "api.yaml": placement("api", "1"), "logging.yaml": placement("logging", "1", false) };
/** Every kind of page, by a name for its pictures. */
const PAGES = {
    fleet: "", placement: "placements/web", diff: "placements/web?tab=diff", explain: "placements/web?tab=explain",
    "placement-events": "placements/web?tab=events", history: "placements/web?tab=history",
    clusters: "clusters", cluster: "clusters/dev-eu", events: "events", groups: "?group=state", "clusters-by-label": "placements/web?group=stage",
};

const test = guarded.extend({
    files: [FILES, { option: true }],
    http: ["", { option: true }],
    fleet: async ({ context, files, http }, use) => {
        const fleet = await Fleet.start(files, http);
        await use(fleet);
        // First the browser: it would complain about a daemon that goes away.
        await context.close();
        await fleet.end();
    },
});

const connection = (page) => page.locator("#connection");
const row = (page, name) => page.locator(`tr[data-href$="/placements/${name}"]`);
/** Waits until both staged placements ask for a person. */
const waiting = (page) => expect(page.locator("#needs .need")).toHaveCount(2);

test("what needs a person is seen at once, and found in one click", async ({ page, fleet }) => {
    await page.goto(fleet.url);
    await waiting(page);
    const need = page.locator("#needs .need").filter({ hasText: "web" });
    await expect(need).toBeInViewport();
    await expect(need).toContainText("waits for a person");
    await expect(need).toContainText("gitfleet approve web-0 staging");
    await need.getByRole("link", { name: "web", exact: true }).click();
    await expect(page.getByRole("heading", { level: 1 })).toContainText("web");
    await expect(page.locator("#needs")).toBeInViewport();
    await expect(page.locator("#needs")).toContainText("production: 5 clusters");
});

test("a run is drawn over what is simulated of it, and follows what happens", async ({ page, fleet }) => {
    await page.goto(fleet.url);
    await waiting(page);
    await page.goto(`${fleet.url}placements/web`);
    const times = page.getByRole("region", { name: "Times, as a picture" });
    await expect(times).toContainText("simulated");
    await expect(times.locator("desc")).toContainText(/staging: waiting for approval.*? simulated 5m/);
    await expect(times.locator("desc")).toContainText("production: not begun, simulated");
    fleet.tell("approve", "web-0", "staging");
    await expect(times.locator("desc")).toContainText(/production: done, \d/);
    await expect(times.locator("desc")).toContainText("simulated");
});

test("placements in groups: by a link, with what is done in one line, walked by keys", async ({ page, fleet }) => {
    await page.goto(fleet.url);
    await waiting(page);
    await expect(row(page, "logging")).toContainText("up to date");
    await page.getByRole("navigation", { name: "Filters" }).getByRole("link", { name: "strategy" }).click();
    await expect(page).toHaveURL(/\?group=strategy$/);
    const closed = page.locator("#group-rolling\\%20update");
    await expect(closed).toContainText("rolling update: 1 placement, ✓ all up to date");
    await expect(row(page, "logging")).toHaveCount(0);
    await expect(page.locator("#group-steps")).toContainText("2 waiting for a person");
    await page.waitForLoadState();
    await page.keyboard.press("j");
    await expect(closed.getByRole("link")).toBeFocused();
    await page.keyboard.press("j");
    await expect(row(page, "api").getByRole("link").first()).toBeFocused();
    fleet.tell("approve", "web-0", "staging");
    await expect(page.locator("#group-steps")).toContainText("1 waiting for a person, ✓ 1 up to date");
    await closed.getByRole("link").click();
    await expect(row(page, "logging")).toHaveCount(1);
    await expect(row(page, "api")).toHaveCount(0);
    await page.goto(`${fleet.url}placements/web`);
    await page.getByRole("navigation", { name: "Groups of clusters" }).getByRole("link", { name: "stage" }).last().click();
    await expect(page.getByRole("heading", { name: "stage=production, 5 clusters" })).toBeVisible();
});

test("an approval appears in an open page by itself", async ({ page, fleet }) => {
    await page.goto(fleet.url);
    await waiting(page);
    fleet.tell("approve", "web-0", "staging");
    await expect(page.locator("#needs .need")).toHaveCount(1);
    await expect(row(page, "web")).toContainText("5/5");
    await expect(row(page, "web")).toContainText("up to date");
    await expect(connection(page)).toHaveText("live");
});

test("a tour by keyboard alone", async ({ page, fleet, context }) => {
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.goto(fleet.url);
    await waiting(page);
    await page.keyboard.press("Tab");
    await expect(page.getByText("Skip to the content")).toBeFocused();
    await page.keyboard.press("Enter");
    await expect(page.locator("main")).toBeFocused();
    await page.keyboard.press("y");
    await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toMatch(/^gitfleet approve (web|api)-0 staging/);
    await page.keyboard.press("j");
    await expect(row(page, "api").getByRole("link").first()).toBeFocused();
    await page.keyboard.press("j");
    await expect(row(page, "web").getByRole("link").first()).toBeFocused();
    await page.keyboard.press("Enter");
    await expect(page).toHaveURL(/\/placements\/web$/);
    // The script runs when the page is loaded.
    await page.waitForLoadState();
    for (const [key, path] of [["c", "/clusters"], ["e", "/events"], ["p", "/#placements"], ["f", "/"]]) {
        await page.keyboard.press("g");
        await page.keyboard.press(key);
        await expect(page).toHaveURL(new URL(path, fleet.url).href);
        await page.waitForLoadState();
    }
    await page.keyboard.press(".");
    await expect(page).toHaveURL(/trouble=1/);
    await page.waitForLoadState();
    await expect(row(page, "logging")).toHaveCount(0);
    await page.keyboard.press("/");
    await expect(page.locator("#search")).toBeFocused();
    await page.keyboard.type("api");
    await page.keyboard.press("Enter");
    await expect(page).toHaveURL(/q=api/);
    await page.waitForLoadState();
    await expect(row(page, "web")).toHaveCount(0);
    await page.keyboard.press("?");
    await expect(page.getByRole("dialog")).toBeVisible();
    await page.keyboard.press("Escape");
    await expect(page.getByRole("dialog")).toBeHidden();
});

test("focus, place and text stay while the fleet changes", async ({ page, fleet }) => {
    await page.setViewportSize({ width: 800, height: 500 });
    await page.goto(fleet.url);
    await waiting(page);
    await page.locator("#search").fill("half a name");
    const link = row(page, "web").getByRole("link").first();
    await link.focus();
    const place = () => link.evaluate((element) => Math.round(element.getBoundingClientRect().top));
    const before = await place();
    fleet.commit("two more before it", { "a.yaml": placement("aaa", "1", false), "b.yaml": placement("aab", "1", false) });
    await expect(row(page, "aab")).toHaveCount(1);
    await expect(link).toBeFocused();
    await expect(page.locator("#search")).toHaveValue("half a name");
    expect(Math.abs((await place()) - before), "the row moved on the screen").toBeLessThan(120);
});

test.describe("when the daemon goes away", () => {
    test.use({ tolerated: /Failed to load resource|net::ERR/ });

    test("the page says since when, and comes back by itself", async ({ page, fleet }) => {
        await page.goto(fleet.url);
        await waiting(page);
        await fleet.kill();
        await expect(connection(page)).toHaveText(/^connection lost, as of \d\d:\d\d$/);
        fleet.commit("while nobody looked", { "new.yaml": placement("new", "1", false) });
        await fleet.run();
        await expect(connection(page)).toHaveText("live");
        await expect(row(page, "new")).toContainText("up to date");
    });
});

test("hostile texts stay texts", async ({ page, fleet }) => {
    await page.goto(fleet.url);
    await waiting(page);
    fleet.tell("approve", "web-0", "staging", "--message", HOSTILE);
    fleet.commit(HOSTILE, { "web.yaml": placement("web", HOSTILE) });
    fleet.tell("pause", "api", "--reason", HOSTILE);
    for (const path of [...Object.values(PAGES), `?q=${encodeURIComponent(HOSTILE)}`, `events?placement=${encodeURIComponent(HOSTILE)}`]) {
        await page.goto(fleet.url + path);
        await expect(page.locator("main")).toHaveCount(1);
        await expect(page.locator("main img, main script")).toHaveCount(0);
    }
    await page.goto(`${fleet.url}placements/api`);
    await expect(page.locator("main")).toContainText("<script>alert(2)</script>");
});

test.describe("a page that is not there", () => {
    test.use({ tolerated: /404/ });

    test("says so, and repeats no markup", async ({ page, fleet }) => {
        for (const path of ["placements/none", `placements/${encodeURIComponent(HOSTILE)}`, "clusters/none", "commits/0123456"]) {
            const answer = await page.goto(fleet.url + path);
            expect(answer.status(), path).toBe(404);
            await expect(page.locator("img, script:not([src])")).toHaveCount(0);
        }
    });
});

test.describe("a fleet in which much happens", () => {
    const NAMES = ["billing", "catalog", "checkout", "inventory", "payments", "search"];
    const staged = (value) => Object.fromEntries(NAMES.map((name) => [`${name}.yaml`, placement(name, value)]));
    test.use({ files: { ...FILES, ...staged("1"), "dns.yaml": placement("dns", "1", false) } });

    test("passes axe on every page, fits 320 pixels, and is drawn", async ({ page, fleet }) => {
        test.setTimeout(300_000);
        await page.goto(fleet.url);
        await expect(page.locator("#needs .need")).toHaveCount(8);
        for (const name of ["web", "billing", "catalog", "checkout"]) fleet.tell("approve", `${name}-0`, "staging");
        for (const name of ["web", "billing", "catalog", "checkout"]) await expect(row(page, name)).toContainText("up to date");
        fleet.tell("pause", "inventory", "--reason", "a sale begins today");
        fleet.commit("Raise the limit of the shop", { "web.yaml": placement("web", "2"), "us.yaml": cluster("prod-us-1", "production") });
        await expect(row(page, "web")).toContainText("waiting for a person");
        const commit = fleet.git("rev-parse", "HEAD").trim();
        fleet.commit("Add a mistake", { "dns.yaml": placement("dns", "1").replace("spec:", "spek:") });
        await expect(page.locator("main")).toContainText("refused");
        for (const [name, path] of Object.entries({ ...PAGES, commit: `commits/${commit}` })) {
            for (const colorScheme of ["light", "dark"]) {
                await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
                for (const width of [320, 800, 1600]) await checked(page, fleet.url + path, `${name}-${width}-${colorScheme}`, width);
            }
        }
        await page.emulateMedia({ media: "print", colorScheme: "light" });
        await page.goto(fleet.url);
        await page.screenshot({ path: `${PICTURES}print.png`, fullPage: true });
    });
});

/** Loads a page in a window of a width, draws it, and checks that it fits and that axe finds nothing. */
async function checked(page, url, name, width) {
    await page.setViewportSize({ width, height: 900 });
    await page.goto(url);
    // The folder of the test is another one each time.
    await page.locator(".source .url").evaluateAll((places) => places.forEach((place) => (place.textContent = "https://git.example/platform/fleet.git")));
    await page.screenshot({ path: `${PICTURES}${name}.png`, fullPage: true });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    expect.soft(wide, `${name} is wider than ${width} pixels`).toBeLessThanOrEqual(width);
    await page.evaluate(AXE);
    const { violations } = await page.evaluate(() => window.axe.run());
    const found = violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html} ${node.failureSummary}`));
    expect.soft(found, `axe on ${name}`).toEqual([]);
}

test("pages allow nothing from elsewhere", async ({ page, fleet }) => {
    await page.goto(fleet.url);
    await waiting(page);
    for (const path of Object.values(PAGES)) {
        const headers = (await page.goto(fleet.url + path)).headers();
        const policy = headers["content-security-policy"] ?? "";
        for (const part of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "form-action 'self'", "frame-ancestors 'none'"]) {
            expect(policy, path).toContain(part);
        }
        expect(await page.locator("[style], style, script:not([src])").count(), `${path} has inline style or script`).toBe(0);
    }
});

test.describe("pictures", () => {
    // Chromium asks for an icon of its own accord.
    test.use({ tolerated: /404/ });

    test("stand alone", async ({ page, fleet }) => {
        await page.goto(fleet.url);
        await waiting(page);
        for (const [name, path, words] of [["graph", "placements/web/graph.svg", "staging"], ["badge", "badge/web.svg", "waiting for a person"]]) {
            const answer = await page.goto(fleet.url + path);
            expect(answer.headers()["content-type"]).toContain("image/svg+xml");
            expect(await answer.text()).toContain(words);
            // Of what is no well-formed XML the browser would show an error.
            expect(await page.evaluate(() => document.documentElement.localName)).toBe("svg");
            await expect(page.locator("parsererror")).toHaveCount(0);
            await page.screenshot({ path: `${PICTURES}${name}.png` });
        }
    });
});

test.describe("without script", () => {
    test.use({ javaScriptEnabled: false });

    test("the page shows the same, searches, and loads itself again", async ({ page, fleet }) => {
        await expect(async () => {
            await page.goto(fleet.url);
            expect(await page.locator("#needs .need").count()).toBe(2);
        }).toPass();
        await expect(page.locator('meta[http-equiv="refresh"]')).toHaveCount(1);
        await expect(page.locator("button.copy").first()).toBeHidden();
        await page.locator("#search").fill("api");
        await page.locator("#search").press("Enter");
        await expect(row(page, "api")).toHaveCount(1);
        await expect(row(page, "web")).toHaveCount(0);
    });
});

test.describe("with commands", () => {
    test.use({ http: "  page: command\n  tokens: [{name: ann, tokenFile: ./token}]\n" });

    test("a person signs in, sees what a gate opens, and approves it", async ({ page, fleet }) => {
        await page.goto(fleet.url);
        await waiting(page);
        await expect(page.locator(".act-approve"), "nobody is known yet").toHaveCount(0);
        await page.getByRole("link", { name: "Sign in" }).click();
        await page.getByLabel(/token/i).fill(TOKEN);
        await page.getByRole("button", { name: "Sign in" }).click();
        await expect(page.locator("header")).toContainText("ann");
        await page.goto(fleet.url);
        await page.locator("#needs .need").filter({ hasText: "web" }).getByRole("link", { name: "approve" }).click();
        await expect(page.locator("main")).toContainText("production");
        await expect(page.locator("main")).toContainText("What changes");
        await page.screenshot({ path: `${PICTURES}approve-1600-light.png`, fullPage: true });
        await page.getByLabel(/Why/).fill("seen in staging");
        await page.locator("main").getByRole("button").click();
        await expect(page.locator("main [role=status]").first()).toContainText("approved");
        await page.goto(`${fleet.url}placements/web?tab=history`);
        await expect(page.locator("main")).toContainText("ann");
        await expect(page.locator("main")).toContainText("seen in staging");
    });
});

test.describe("where reading needs a token", () => {
    // The daemon may not have read the placement yet: the page says that it is not there, and shows it when it is.
    test.use({ http: "  read: token\n  readTokens: [{name: screen, tokenFile: ./token}]\n", tolerated: /404/ });

    test("a link leads through the form and back, and the page is live there", async ({ page, fleet }) => {
        await page.goto(`${fleet.url}placements/web`);
        await expect(page).toHaveURL(/\/sign-in\?/);
        await expect(page.locator("main")).not.toContainText("staging");
        await page.getByLabel(/token/i).fill(TOKEN);
        await page.getByRole("button", { name: "Sign in" }).click();
        await expect(page).toHaveURL(/\/placements\/web$/);
        await expect(page.locator("#needs")).toContainText("staging waits for a person");
        await expect(connection(page)).toHaveText("live");
    });
});
