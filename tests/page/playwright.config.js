import { defineConfig } from "@playwright/test";

// One browser, Debian's: nothing is downloaded. GITFLEET_CHROMIUM names another.
export default defineConfig({
    testMatch: "*.spec.js",
    outputDir: "../../target/page-tests",
    timeout: 60_000,
    expect: { timeout: 20_000 },
    // Each test has a daemon of its own.
    fullyParallel: true,
    workers: 2,
    retries: 0,
    forbidOnly: true,
    reporter: "list",
    use: {
        browserName: "chromium",
        locale: "en-GB",
        timezoneId: "UTC",
        viewport: { width: 1280, height: 800 },
        launchOptions: {
            executablePath: process.env.GITFLEET_CHROMIUM ?? "/usr/bin/chromium",
            // Chromium's sandbox does not work for root, who runs the tests in containers.
            chromiumSandbox: process.getuid?.() !== 0,
        },
    },
});
