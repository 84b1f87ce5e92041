// A server that a test holds in its hand: one page as the daemon makes it, and its stream of changes.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

const ASSETS = new URL("../../src/views/page/assets/", import.meta.url);
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'";

/** Writes rows of a table; each is a name and a value. */
export function table(rows) {
    const cells = rows.map(([name, value]) =>
        `<tr data-href="/placements/${name}"><th scope="row"><a href="/placements/${name}">${name}</a></th>`
        + `<td data-value="${value}">${value}</td>`
        + `<td><button class="copy" type="button" data-copy="gitfleet status ${name}" aria-label="Copy">copy</button></td></tr>`);
    return `<table><tbody>${cells.join("")}</tbody></table>`;
}

export class Double {
    /** What stands in <main>. */
    content = table([["web", "1/2"], ["api", "2/2"]]) + "<details><summary>more</summary><p>open</p></details>"
        + '<form><input name="note" value=""><select><option>one</option><option>two</option></select></form>';
    /** How <main> is answered. */
    status = 200;
    /** How the stream is answered. */
    streamStatus = 200;
    /** How often <main> alone was asked for. */
    fetched = 0;
    version = 0;
    streams = new Set();

    async start(port = 0) {
        this.server = createServer((request, answer) => this.answer(request, answer));
        await new Promise((resolve) => this.server.listen(port, "127.0.0.1", resolve));
        this.port = this.server.address().port;
        return this;
    }

    get url() {
        return `http://127.0.0.1:${this.port}/`;
    }

    /** Ends everything at once, as a crash does. */
    async stop() {
        this.streams.clear();
        this.server.closeAllConnections();
        await new Promise((resolve) => this.server.close(resolve));
    }

    /** Says that something changed. */
    change(content = this.content) {
        this.content = content;
        this.version += 1;
        for (const stream of this.streams) stream.write(this.event());
    }

    event() {
        return `event: summary\nid: 1-${this.version}\ndata: {}\n\n`;
    }

    main() {
        return `<main id="main" tabindex="-1" data-version="1-${this.version}">${this.content}</main>`;
    }

    page() {
        const links = [["f", "/"], ["p", "/placements"], ["c", "/clusters"], ["e", "/events"]];
        const nav = links.map(([key, href]) => `<a data-key="${key}" href="${href}">${href}</a>`).join(" ");
        return `<!DOCTYPE html><html lang="en"><head><title>page</title><link rel="stylesheet" href="/page.css"><link rel="icon" href="/icon.svg">`
            + `<script src="/morph.js" defer></script><script src="/page.js" defer></script></head>`
            + `<body data-stream="/stream"><header><nav>${nav}</nav><input id="search"><p id="connection" role="status">live</p>`
            + `<button id="pause" aria-pressed="false">Pause updates</button></header>${this.main()}`
            + `<div id="announce" aria-live="polite" class="visually-hidden"></div>`
            + `<dialog id="keys"><form method="dialog"><label><input id="keys-on" type="checkbox" checked> single keys</label>`
            + `<button>Close</button></form></dialog></body></html>`;
    }

    answer(request, answer) {
        const { pathname } = new URL(request.url, this.url);
        const asset = ["/page.css", "/page.js", "/morph.js"].includes(pathname);
        if (asset) {
            const type = pathname.endsWith(".css") ? "text/css" : "text/javascript";
            answer.writeHead(200, { "Content-Type": type }).end(readFileSync(new URL(`.${pathname}`, ASSETS)));
        } else if (pathname === "/icon.svg") {
            answer.writeHead(200, { "Content-Type": "image/svg+xml" }).end("<svg xmlns=\"http://www.w3.org/2000/svg\"/>");
        } else if (pathname === "/stream") {
            answer.writeHead(this.streamStatus, { "Content-Type": "text/event-stream" });
            if (this.streamStatus !== 200) return answer.end();
            answer.write(":\n\n");
            this.streams.add(answer);
            request.on("close", () => this.streams.delete(answer));
            if (request.headers["last-event-id"] !== `1-${this.version}`) answer.write(this.event());
        } else {
            const alone = request.headers["gitfleet-fragment"] === "main";
            this.fetched += alone ? 1 : 0;
            answer.writeHead(alone ? this.status : 200, { "Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": POLICY });
            answer.end(alone ? this.main() : this.page());
        }
    }
}
