"use strict";
// Keeps an open page up to date, and makes it usable by keyboard. Without this script the page shows the same, as of when it was loaded.
//
// The server renders everything: this script fetches the page's <main> again when the event stream says that something changed.
// Tests: tests/page. Types: tsc --checkJs, as tests/page/tsconfig.json says.

(() => {
    /** Milliseconds after a change in which further ones are collected. */
    const COLLECT = 250;
    /** Milliseconds until <main> is fetched though nothing changed: ages grow. */
    const AGE = 60_000;
    /** Milliseconds that an answer may take. */
    const ANSWER = 20_000;
    /** Milliseconds until a refused stream is tried again; a random part is added, so that many pages do not ask at once. */
    const RETRY = 10_000;
    /** Milliseconds without any sign of the server; a stream lasts 50 s, and each begins with a sign. */
    const SILENCE = 75_000;
    /** Milliseconds that a changed value is marked. */
    const MARK = 5_000;
    /** Milliseconds between two announcements to screen readers. */
    const ANNOUNCE = 10_000;
    /** Changes that one announcement names; the rest is counted. */
    const NAMED = 3;
    /** Milliseconds in which a second key follows `g`. */
    const SECOND_KEY = 1_500;
    /** Where a browser remembers that single keys are turned off. */
    const KEYS = "gitfleet-keys";

    /** Where changes are told; absent on a page that stays as it is, such as one that asks whether to approve. */
    const address = document.body.dataset.stream;
    const connection = document.getElementById("connection");
    const announcer = document.getElementById("announce");

    /** @type {EventSource | undefined} */
    let stream;
    /** Errors of the stream since it was last open. */
    let failures = 0;
    let paused = false;
    /** When the page was known to be up to date. */
    let heard = Date.now();
    /** When <main> was fetched; where that failed, so long ago that it is due soon. */
    let fetched = Date.now();

    // What is shown of the connection.

    /** @returns {string} the time until which the page is right, as the reader's clock shows it */
    function asOf() {
        return new Date(heard).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    }

    /**
     * @param {"live" | "polled" | "lost" | "paused"} state
     * @param {string} words
     */
    function say(state, words) {
        if (!connection) return;
        connection.dataset.state = state;
        // The same words again would be read out again.
        if (connection.textContent !== words) connection.textContent = words;
    }

    function live() {
        failures = 0;
        heard = Date.now();
        if (!paused) say("live", "live");
    }

    function lost() {
        if (!paused) say("lost", `connection lost, as of ${asOf()}`);
    }

    // The event stream.

    function connect() {
        stream?.close();
        stream = undefined;
        // A browser keeps few connections to one host: a page that nobody sees leaves its own to others.
        if (!address || paused || document.hidden) return;
        const opened = new EventSource(address);
        stream = opened;
        opened.addEventListener("open", live);
        opened.addEventListener("summary", (event) => {
            live();
            const version = event.lastEventId;
            if (!version || version !== main()?.dataset.version) refresh();
        });
        opened.addEventListener("error", () => {
            failures += 1;
            if (opened.readyState === EventSource.CLOSED) retry(opened);
            // One error is how a stream ends; the browser opens the next by itself.
            else if (failures > 1) lost();
        });
    }

    /**
     * Asks without a stream, which was refused, and for another one.
     * @param {EventSource} refused
     */
    async function retry(refused) {
        if (await refresh()) say("polled", `updates every ${(RETRY * 1.5) / 1000} s`);
        await elapsed(RETRY * (1 + Math.random()));
        if (stream === refused) connect();
    }

    /** @param {number} time */
    function elapsed(time) {
        return new Promise((resolve) => setTimeout(resolve, time));
    }

    setInterval(() => {
        if (!stream || paused) return;
        const now = Date.now();
        // After sleep, or with a network that swallows everything, no error comes.
        if (now - heard > SILENCE) {
            lost();
            connect();
        } else if (now - fetched > AGE) {
            refresh();
        }
    }, 5_000);

    function returned() {
        if (document.hidden || paused) return connect();
        connect();
        refresh();
    }
    document.addEventListener("visibilitychange", returned);
    window.addEventListener("pageshow", (event) => event.persisted && returned());
    window.addEventListener("pagehide", () => stream?.close());
    window.addEventListener("online", returned);
    window.addEventListener("offline", () => address && lost());

    // What changed is fetched and shown.

    function main() {
        return document.querySelector("main");
    }

    /** @type {Promise<boolean> | undefined} */
    let fetching;
    let again = false;

    /** Fetches <main>, at most once at a time; tells whether it came. */
    function refresh() {
        if (!address || paused || document.hidden) return Promise.resolve(false);
        again = true;
        fetching ??= (async () => {
            let came = true;
            while (again && !paused) {
                await elapsed(COLLECT);
                again = false;
                came = await fetchMain();
            }
            fetching = undefined;
            return came;
        })();
        return fetching;
    }

    async function fetchMain() {
        try {
            const answer = await fetch(location.href, {
                headers: { "Gitfleet-Fragment": "main" },
                cache: "no-store",
                signal: AbortSignal.timeout(ANSWER),
            });
            // Whoever may not read any more sees why, and how to sign in.
            if (answer.redirected || answer.status === 401 || answer.status === 403) {
                location.reload();
                return false;
            }
            const page = new DOMParser().parseFromString(await answer.text(), "text/html");
            const fresh = page.querySelector("main");
            if (!fresh || answer.status >= 500) throw new Error(`the answer is ${answer.status}`);
            fetched = heard = Date.now();
            if (stream?.readyState === EventSource.OPEN) live();
            if (!paused) show(fresh);
            return true;
        } catch {
            // Tried again soon: there may be no other change to ask for.
            fetched = Date.now() - AGE + RETRY;
            lost();
            return false;
        }
    }

    /**
     * Turns <main> into a fresh one, and leaves as it is what its reader did: focus, text, what is open.
     * @param {HTMLElement} fresh
     */
    function show(fresh) {
        const old = main();
        if (!old) return;
        name(old);
        name(fresh);
        const before = values(old);
        const place = focused();
        Idiomorph.morph(old, fresh, {
            morphStyle: "outerHTML",
            ignoreActiveValue: true,
            callbacks: {
                beforeNodeMorphed: (node) => !isTouched(node),
                beforeAttributeUpdated: (attribute, element) => !isReaders(attribute, element),
            },
        });
        restore(place);
        const title = main()?.dataset.title;
        if (title) document.title = title;
        mark(before);
    }

    /**
     * Gives rows without an id one, so that a row stays the same when others come before it.
     * @param {HTMLElement} root
     */
    function name(root) {
        /** @type {Map<string, number>} */
        const seen = new Map();
        for (const row of allRows(root)) {
            if (row.id && !row.id.startsWith("row ")) continue;
            const count = (seen.get(row.dataset.href ?? "") ?? 0) + 1;
            seen.set(row.dataset.href ?? "", count);
            row.id = `row ${count} ${row.dataset.href}`;
        }
    }

    /**
     * Tells whether a field holds what its reader put there.
     * @param {Node} node
     */
    function isTouched(node) {
        if (node instanceof HTMLInputElement) {
            return node.value !== node.defaultValue || node.checked !== node.defaultChecked;
        }
        if (node instanceof HTMLTextAreaElement) return node.value !== node.defaultValue;
        if (!(node instanceof HTMLSelectElement)) return false;
        return node.selectedIndex !== Math.max(0, [...node.options].findIndex((option) => option.defaultSelected));
    }

    /**
     * Tells whether an attribute is the reader's: what is open stays open, and the focused row keeps its place.
     * @param {string} attribute
     * @param {Element} element
     */
    function isReaders(attribute, element) {
        if (attribute === "open") return element instanceof HTMLDetailsElement || element instanceof HTMLDialogElement;
        return attribute === "tabindex" && element === document.activeElement;
    }

    /** Says where the focus is: in which row, the how manieth, and on what there. */
    function focused() {
        const element = document.activeElement;
        const row = element?.closest("[data-href]");
        if (!(element instanceof HTMLElement) || !(row instanceof HTMLElement)) return undefined;
        return { element, id: row.id, position: rows().indexOf(row), inside: inside(row).indexOf(element) };
    }

    /** @param {ReturnType<typeof focused>} place */
    function restore(place) {
        if (!place || (document.activeElement === place.element && place.element.closest("[data-href]")?.id === place.id)) return;
        const all = rows();
        const row = document.getElementById(place.id) ?? all[Math.min(place.position, all.length - 1)];
        if (row) (inside(row)[place.inside] ?? target(row)).focus({ preventScroll: true });
    }

    /** @param {HTMLElement} row */
    function inside(row) {
        return /** @type {HTMLElement[]} */ ([...row.querySelectorAll("a[href], button, input, select, summary")]);
    }

    // Changed values are marked and announced.

    /** @type {Map<string, number>} until when the values with these keys are marked */
    const marks = new Map();
    /** @type {string[]} */
    let unsaid = [];
    let saidAt = 0;

    /**
     * Returns what <main> shows, by what it is the value of.
     * @param {HTMLElement} root
     */
    function values(root) {
        /** @type {Map<string, {element: HTMLElement, value: string}>} */
        const found = new Map();
        /** @type {Map<string, number>} */
        const counts = new Map();
        for (const element of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-value]"))) {
            const owner = element.id || element.closest("[data-href], [id]")?.id || "";
            const count = (counts.get(owner) ?? 0) + 1;
            counts.set(owner, count);
            found.set(`${owner} ${count}`, { element, value: element.dataset.value ?? "" });
        }
        return found;
    }

    /** @param {ReturnType<typeof values>} before */
    function mark(before) {
        const root = main();
        if (!root) return;
        const until = Date.now() + MARK;
        for (const [key, { element, value }] of values(root)) {
            const known = before.get(key);
            if (known && known.value !== value) {
                marks.set(key, until);
                unsaid.push(`${caption(element)}${element.textContent?.trim().replace(/\s+/g, " ")}`);
            }
            element.classList.toggle("changed", marks.has(key));
        }
        setTimeout(unmark, MARK + 50);
        if (unsaid.length > 0) setTimeout(announce, Math.max(0, saidAt + ANNOUNCE - Date.now()));
    }

    function unmark() {
        const root = main();
        for (const [key, until] of marks) if (until <= Date.now()) marks.delete(key);
        if (root) for (const [key, { element }] of values(root)) element.classList.toggle("changed", marks.has(key));
    }

    /**
     * Returns what a value belongs to.
     * @param {Element} element
     */
    function caption(element) {
        const text = element.closest("[data-href]")?.querySelector("th, a")?.textContent?.trim();
        return text ? `${text}: ` : "";
    }

    function announce() {
        if (!announcer || unsaid.length === 0 || Date.now() < saidAt + ANNOUNCE) return;
        const more = unsaid.length - NAMED;
        announcer.textContent = unsaid.slice(0, NAMED).join("; ") + (more > 0 ? `; and ${more} more changes` : "");
        unsaid = [];
        saidAt = Date.now();
    }

    // Buttons.

    document.getElementById("pause")?.addEventListener("click", (event) => {
        paused = !paused;
        /** @type {Element} */ (event.currentTarget).setAttribute("aria-pressed", String(paused));
        if (paused) say("paused", `paused, as of ${asOf()}`);
        returned();
    });

    document.addEventListener("click", (event) => {
        const button = event.target instanceof Element ? event.target.closest("button.copy") : undefined;
        if (button instanceof HTMLElement) copy(button);
    });

    /**
     * Copies what an element has to copy, and says so.
     * @param {HTMLElement} element
     */
    async function copy(element) {
        const text = element.dataset.copy ?? "";
        // Browsers offer the clipboard on secure pages only; the other way is old and works everywhere.
        const done = await (navigator.clipboard?.writeText(text).then(() => true, () => false) ?? copySelected(text));
        element.classList.add(done ? "copied" : "uncopied");
        setTimeout(() => element.classList.remove("copied", "uncopied"), 2_000);
        if (announcer) announcer.textContent = done ? `copied: ${text}` : "could not copy";
        saidAt = Date.now();
    }

    /** @param {string} text */
    function copySelected(text) {
        const active = document.activeElement;
        const field = document.createElement("textarea");
        field.className = "visually-hidden";
        field.value = text;
        document.body.append(field);
        field.select();
        const done = document.execCommand("copy");
        field.remove();
        if (active instanceof HTMLElement) active.focus({ preventScroll: true });
        return done;
    }

    // Keys.

    /** Returns the rows that the reader sees. */
    function rows() {
        return allRows(main()).filter((row) => row.getClientRects().length > 0);
    }

    /** @param {HTMLElement | null} root */
    function allRows(root) {
        return /** @type {HTMLElement[]} */ ([...(root?.querySelectorAll("[data-href]") ?? [])]);
    }

    /**
     * Returns what has the focus when a row has it.
     * @param {HTMLElement} row
     */
    function target(row) {
        const link = row.querySelector("a[href]");
        if (link instanceof HTMLElement) return link;
        row.tabIndex = -1;
        return row;
    }

    /** @param {1 | -1} step */
    function walk(step) {
        const all = rows();
        const at = all.findIndex((row) => row.contains(document.activeElement));
        const row = at < 0 ? all[step > 0 ? 0 : all.length - 1] : all[at + step];
        if (!row) return;
        target(row).focus({ preventScroll: true });
        row.scrollIntoView({ block: "nearest" });
    }

    function open() {
        const row = document.activeElement;
        if (!(row instanceof HTMLElement) || !row.dataset.href) return false;
        const address = new URL(row.dataset.href, location.href);
        if (address.origin === location.origin) location.assign(address);
        return true;
    }

    /** Copies the first command of the row that has the focus, else of the page. */
    function copyFirst() {
        const row = document.activeElement?.closest("[data-href], li");
        const found = (row ?? main())?.querySelector("[data-copy]");
        if (found instanceof HTMLElement) copy(found);
        else if (announcer) announcer.textContent = "no command to copy here";
    }

    function help() {
        const dialog = document.getElementById("keys");
        if (dialog instanceof HTMLDialogElement && !dialog.open) dialog.showModal();
    }
    document.getElementById("help")?.addEventListener("click", help);

    /** @param {string} id */
    function click(id) {
        document.getElementById(id)?.click();
    }

    /** @type {Record<string, () => void>} */
    const COMMANDS = {
        "/": () => document.getElementById("search")?.focus(),
        "?": help,
        ".": () => click("trouble"),
        j: () => walk(1),
        k: () => walk(-1),
        y: copyFirst,
    };

    const keys = document.getElementById("keys-on");
    if (keys instanceof HTMLInputElement) {
        keys.checked = remembered() !== "off";
        keys.addEventListener("change", () => localStorage.setItem(KEYS, keys.checked ? "on" : "off"));
    }

    /** Returns what the reader chose. A browser may keep nothing. */
    function remembered() {
        try {
            return localStorage.getItem(KEYS);
        } catch {
            return null;
        }
    }

    /** @param {EventTarget | null} place */
    function isTyping(place) {
        return place instanceof HTMLElement && (place.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(place.tagName));
    }

    /** Until when the next key is the second one. */
    let second = 0;

    document.addEventListener("keydown", (event) => {
        if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
        if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
        if (event.key === "Enter") {
            if (open()) event.preventDefault();
            return;
        }
        if (remembered() === "off") return;
        const isSecond = Date.now() < second;
        second = 0;
        const link = isSecond ? document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`) : undefined;
        const command = COMMANDS[event.key];
        if (link instanceof HTMLElement) link.click();
        else if (event.key === "g") second = Date.now() + SECOND_KEY;
        else if (command && !isSecond) command();
        else return;
        event.preventDefault();
    });

    const search = document.getElementById("search");
    search?.addEventListener("keydown", (event) => event.key === "Escape" && search.blur());

    connect();
})();
