// What every test of the page checks beside its own matter: no request leaves this machine, and the browser complains about nothing.
import { fileURLToPath } from "node:url";
import { expect, test as base } from "@playwright/test";

/** The hosts that a page may ask. */
const OWN = new Set(["127.0.0.1"]);

export { expect };

export const test = base.extend({
    /** What the browser may complain about in this test, as a pattern: a server that goes away is told on its console. */
    tolerated: [/^$/, { option: true }],

    /** Watches everything that the context asks for and complains about. */
    guarded: [
        async ({ context, tolerated }, use) => {
            const asked = new Set();
            const complaints = [];
            // For whoever works on them: the files of the source, in place of those in the binary.
            if (process.env.GITFLEET_ASSETS) {
                await context.route(/\/assets\/page\.(css|js)/, (route, request) => {
                    const { pathname } = new URL(request.url());
                    route.fulfill({ path: fileURLToPath(new URL(`../../src/views/page${pathname}`, import.meta.url)) });
                });
            }
            context.on("request", (request) => asked.add(request.url()));
            context.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
            context.on("weberror", (error) => complaints.push(String(error.error())));
            context.on("dialog", (dialog) => complaints.push(`a dialog says ${dialog.message()}`));
            await use();
            const elsewhere = [...asked].filter((url) => !OWN.has(new URL(url).hostname));
            expect(elsewhere, "requests to other hosts").toEqual([]);
            expect(complaints.filter((text) => !tolerated.test(text)), "complaints of the browser").toEqual([]);
        },
        { auto: true },
    ],
});
