// The script alone, against a server that does what the test says.
import { Double, table } from "./double.js";
import { expect, test as guarded } from "./guard.js";

const test = guarded.extend({
    server: async ({}, use) => {
        const server = await new Double().start();
        await use(server);
        await server.stop();
    },
});
test.use({ tolerated: /Failed to load resource|net::ERR/ });

const connection = (page) => page.locator("#connection");
const value = (page, name) => page.locator(`tr[data-href="/placements/${name}"] td[data-value]`);
const link = (page, name) => page.getByRole("link", { name, exact: true });

test("a change is shown, marked, announced, and the mark fades", async ({ page, server }) => {
    await page.goto(server.url);
    await expect.poll(() => server.streams.size).toBe(1);
    server.change(table([["web", "2/2"], ["api", "2/2"]]));
    await expect(value(page, "web")).toHaveText("2/2");
    await expect(value(page, "web")).toHaveClass(/changed/);
    await expect(value(page, "api")).not.toHaveClass(/changed/);
    await expect(page.locator("#announce")).toHaveText("web: 2/2");
    await expect(value(page, "web")).not.toHaveClass(/changed/);
});

test("an open page that shows everything asks for nothing", async ({ page, server }) => {
    await page.goto(server.url);
    await expect.poll(() => server.streams.size).toBe(1);
    server.change();
    await expect.poll(() => server.fetched).toBe(1);
});

test("a mark follows its row when others come before it", async ({ page, server }) => {
    await page.goto(server.url);
    await expect.poll(() => server.streams.size).toBe(1);
    server.change(table([["new", "0/1"], ["api", "2/2"], ["web", "2/2"]]));
    await expect(value(page, "web")).toHaveClass(/changed/);
    await expect(page.locator(".changed")).toHaveCount(1);
});

test("many changes at once are one fetch and one announcement, and the next waits ten seconds", async ({ page, server }) => {
    const rows = (done) => table([..."abcdef"].map((name) => [name, `${done}/9`]));
    server.content = rows(0);
    await page.clock.install();
    await page.goto(server.url);
    await expect.poll(() => server.streams.size).toBe(1);
    const announced = page.locator("#announce");
    server.change(rows(1));
    await page.clock.runFor(1_000);
    await expect(value(page, "a")).toHaveText("1/9");
    await page.clock.runFor(100);
    await expect(announced).toHaveText("a: 1/9; b: 1/9; c: 1/9; and 3 more changes");
    server.change(rows(2));
    await page.clock.runFor(1_000);
    await expect(value(page, "a")).toHaveText("2/9");
    await page.clock.runFor(5_000);
    await expect(announced).toHaveText(/1\/9/);
    await page.clock.runFor(6_000);
    await expect(announced).toHaveText(/a: 2\/9/);
    expect(server.fetched).toBe(2);
});

test("focus, text and what is open stay while the page changes around them", async ({ page, server }) => {
    await page.goto(server.url);
    await expect.poll(() => server.streams.size).toBe(1);
    const rest = server.content.slice(server.content.indexOf("<details>"));
    await page.locator("summary").click();
    await page.locator("input[name=note]").fill("half a sent");
    await page.locator("#search").fill("half a name");
    await page.locator("select").selectOption("two");
    await link(page, "web").focus();
    server.change(table([["aaa", "0/1"], ["bbb", "0/1"], ["web", "2/2"]]) + rest);
    await expect(value(page, "web")).toHaveText("2/2");
    await expect(link(page, "web")).toBeFocused();
    await expect(page.locator("details")).toHaveAttribute("open");
    await expect(page.locator("input[name=note]")).toHaveValue("half a sent");
    await expect(page.locator("#search")).toHaveValue("half a name");
    await expect(page.locator("select")).toHaveValue("two");
    server.change(table([["aaa", "0/1"], ["bbb", "1/1"]]) + rest);
    await expect(value(page, "bbb")).toHaveText("1/1");
    await expect(link(page, "bbb"), "the row is gone: the one in its place").toBeFocused();
});

test("typing where a change comes loses neither focus nor letters", async ({ page, server }) => {
    await page.goto(server.url);
    await expect.poll(() => server.streams.size).toBe(1);
    const rest = server.content.slice(server.content.indexOf("<details>"));
    const note = page.locator("input[name=note]");
    await note.focus();
    await page.keyboard.type("abc");
    server.change(table([["web", "2/2"]]) + rest);
    await expect(value(page, "web")).toHaveText("2/2");
    await page.keyboard.type("def");
    await expect(note).toHaveValue("abcdef");
});

test("a lost connection is told with its time, and its return too", async ({ page, server }) => {
    await page.goto(server.url);
    await expect.poll(() => server.streams.size).toBe(1);
    const { port } = server;
    await server.stop();
    await expect(connection(page)).toHaveText(/^connection lost, as of \d\d:\d\d$/);
    await server.start(port);
    server.change(table([["web", "2/2"]]));
    await expect(connection(page)).toHaveText("live");
    await expect(value(page, "web")).toHaveText("2/2");
});

test("a stream that ends as it should is no lost connection", async ({ page, server }) => {
    await page.goto(server.url);
    await expect.poll(() => server.streams.size).toBe(1);
    const said = [];
    await page.exposeFunction("said", (text) => said.push(text));
    await page.evaluate(() => new MutationObserver(() => said(document.getElementById("connection").textContent))
        .observe(document.getElementById("connection"), { childList: true, subtree: true, characterData: true }));
    for (const stream of server.streams) stream.end();
    await expect.poll(() => server.streams.size).toBe(0);
    await expect.poll(() => server.streams.size).toBe(1);
    server.change(table([["web", "2/2"]]));
    await expect(value(page, "web")).toHaveText("2/2");
    expect(said).toEqual([]);
});

test("without a stream the page asks by itself, and says so", async ({ page, server }) => {
    server.streamStatus = 503;
    await page.clock.install();
    await page.goto(server.url);
    await expect(connection(page)).toHaveText("updates every 15 s");
    server.streamStatus = 200;
    await page.clock.runFor(20_000);
    await expect(connection(page)).toHaveText("live");
});

test("silence is a lost connection: a network may swallow everything", async ({ page, server }) => {
    await page.clock.install();
    await page.goto(server.url);
    await expect.poll(() => server.streams.size).toBe(1);
    await expect(connection(page)).toHaveText("live");
    server.status = server.streamStatus = 500;
    await page.clock.runFor(90_000);
    await expect(connection(page)).toHaveText(/^connection lost/);
});

test("a change that cannot be fetched is told, and fetched later", async ({ page, server }) => {
    await page.clock.install();
    await page.goto(server.url);
    await expect.poll(() => server.streams.size).toBe(1);
    server.status = 500;
    server.change(table([["web", "2/2"]]));
    await page.clock.runFor(1_000);
    await expect(connection(page)).toHaveText(/^connection lost/);
    await expect(value(page, "web")).toHaveText("1/2");
    server.status = 200;
    await page.clock.runFor(20_000);
    await expect(value(page, "web")).toHaveText("2/2");
    await expect(connection(page)).toHaveText("live");
});

test("ages grow though nothing changes", async ({ page, server }) => {
    await page.clock.install();
    await page.goto(server.url);
    await expect.poll(() => server.streams.size).toBe(1);
    await page.clock.runFor(70_000);
    await expect.poll(() => server.fetched).toBe(1);
});

test("paused updates wait, and come when the reader continues", async ({ page, server }) => {
    await page.goto(server.url);
    await expect.poll(() => server.streams.size).toBe(1);
    const pause = page.getByRole("button", { name: "Pause updates" });
    await pause.click();
    await expect(connection(page)).toHaveText(/^paused, as of \d\d:\d\d$/);
    await expect(pause).toHaveAttribute("aria-pressed", "true");
    await expect.poll(() => server.streams.size).toBe(0);
    server.change(table([["web", "2/2"]]));
    await pause.click();
    await expect(value(page, "web")).toHaveText("2/2");
    await expect(connection(page)).toHaveText("live");
});

test("who may not read any more is sent to where the page says so", async ({ page, server }) => {
    await page.goto(server.url);
    await expect.poll(() => server.streams.size).toBe(1);
    server.status = 401;
    const loaded = page.waitForEvent("load");
    server.change();
    await loaded;
});

test("a command is copied with the button and with y", async ({ page, server, context }) => {
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    const copied = () => page.evaluate(() => navigator.clipboard.readText());
    await page.goto(server.url);
    await page.locator("button.copy").nth(1).click();
    await expect.poll(copied).toBe("gitfleet status api");
    await expect(page.locator("#announce")).toHaveText("copied: gitfleet status api");
    await page.keyboard.press("k");
    await page.keyboard.press("y");
    await expect.poll(copied).toBe("gitfleet status web");
});

test("a browser without a clipboard copies in the old way", async ({ page, server, context }) => {
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.addInitScript(() => Object.defineProperty(Navigator.prototype, "clipboard", { value: undefined, configurable: true }));
    await page.goto(server.url);
    await page.locator("button.copy").first().click();
    await expect(page.locator("#announce")).toHaveText("copied: gitfleet status web");
    await expect(page.locator("button.copy").first()).toBeFocused();
});

test("single keys can be turned off, and stay off", async ({ page, server }) => {
    await page.goto(server.url);
    await page.keyboard.press("?");
    await page.locator("#keys-on").uncheck();
    await page.keyboard.press("Escape");
    await page.keyboard.press("/");
    await expect(page.locator("#search")).not.toBeFocused();
    await page.reload();
    await page.keyboard.press("/");
    await expect(page.locator("#search")).not.toBeFocused();
});

test("keys with a modifier, and letters in a field, are the browser's", async ({ page, server }) => {
    await page.goto(server.url);
    await page.keyboard.press("Control+k");
    await expect(page.locator("body")).toBeFocused();
    await page.locator("#search").focus();
    await page.keyboard.type("jk/gc?");
    await expect(page.locator("#search")).toHaveValue("jk/gc?");
    expect(page.url()).toBe(server.url);
});
