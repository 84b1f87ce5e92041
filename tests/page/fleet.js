// A real daemon over a repository and folders as clusters, in a folder of its own that goes with the test.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const TARGET = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL("../../target", import.meta.url));
const GITFLEET = process.env.GITFLEET_PROGRAM ?? join(TARGET, "debug/gitfleet");
/** Milliseconds that a daemon may take until it listens. */
const START = 60_000;
/** Bytes of the token that may command. */
export const TOKEN = "0123456789abcdef0123456789abcdef";

/** Stages of all placements: dev without a gate, a person after staging, then production two at once. */
const STRATEGY = `apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: steps}
spec:
  stages:
    - {name: dev, labelSelector: {matchLabels: {stage: dev}}}
    - name: staging
      labelSelector: {matchLabels: {stage: staging}}
      afterStageTasks: [{type: Approval}]
    - {name: production, labelSelector: {matchLabels: {stage: production}}, maxConcurrency: 2}
`;

/** Returns a cluster in a stage. The configuration has no entry for one without `-eu` in its name. */
export function cluster(name, stage) {
    return `---
apiVersion: cluster.kubernetes-fleet.io/v1
kind: MemberCluster
metadata: {name: ${name}, labels: {stage: ${stage}}}
spec: {}
`;
}

/** Returns a placement of a namespace with a ConfigMap; staged, or all clusters at once. */
export function placement(name, value, staged = true) {
    const annotations = staged ? "gitfleet.io/staged-update-strategy: steps" : "";
    const strategy = staged ? "External" : "RollingUpdate";
    return `---
apiVersion: v1
kind: Namespace
metadata: {name: ${name}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: ${name}}
data: {key: ${JSON.stringify(value)}}
---
apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourcePlacement
metadata: {name: ${name}, annotations: {${annotations}}}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: ${name}}]
  strategy: {type: ${strategy}}
`;
}

/** Returns a port of this machine that is free. */
function freePort() {
    return new Promise((resolve, reject) => {
        const server = createServer();
        server.on("error", reject);
        server.listen(0, "127.0.0.1", () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

export class Fleet {
    /** Starts a daemon over these files of the repository; `http` is more of that section of the configuration. */
    static async start(files = {}, http = "") {
        const fleet = new Fleet();
        fleet.dir = mkdtempSync(join(tmpdir(), "gitfleet-page-"));
        fleet.port = await freePort();
        mkdirSync(join(fleet.dir, "home"));
        const clusters = [cluster("dev-eu", "dev"), cluster("staging-eu", "staging")];
        for (const number of [1, 2, 3, 4, 5]) clusters.push(cluster(`prod-eu-${number}`, "production"));
        fleet.write({ "clusters.yaml": clusters.join(""), "strategy.yaml": STRATEGY, ...files });
        writeFileSync(join(fleet.dir, "token"), `${TOKEN}\n`);
        writeFileSync(join(fleet.dir, "gitfleet.yaml"), `apiVersion: gitfleet.io/v1alpha1
kind: Configuration
source: {url: ./fleet, branch: main}
members:
  - {name: "*-eu*", directory: "./members/{name}"}
store: {path: ./store}
http:
  listen: "127.0.0.1:${fleet.port}"
${http}`);
        fleet.git("init", "-q", "-b", "main");
        fleet.commit("first");
        await fleet.run();
        return fleet;
    }

    get url() {
        return `http://127.0.0.1:${this.port}/`;
    }

    get env() {
        return {
            PATH: process.env.PATH, HOME: join(this.dir, "home"), NO_COLOR: "1", GIT_CONFIG_NOSYSTEM: "1",
            GIT_AUTHOR_NAME: "ann", GIT_AUTHOR_EMAIL: "ann@example.org", GIT_COMMITTER_NAME: "ann", GIT_COMMITTER_EMAIL: "ann@example.org",
        };
    }

    write(files) {
        for (const [path, text] of Object.entries(files)) {
            const file = join(this.dir, "fleet", path);
            mkdirSync(dirname(file), { recursive: true });
            writeFileSync(file, text);
        }
    }

    git(...args) {
        return execFileSync("git", args, { cwd: join(this.dir, "fleet"), env: this.env, encoding: "utf8" });
    }

    /** Writes files and commits them; the daemon sees that by itself. */
    commit(message, files = {}) {
        this.write(files);
        this.git("add", "-A");
        this.git("commit", "-q", "--allow-empty", "-m", message);
    }

    /** Runs a command of gitfleet, which asks the daemon; returns what it prints. */
    tell(...args) {
        const env = { ...this.env, GITFLEET_CONFIG: join(this.dir, "gitfleet.yaml") };
        return execFileSync(GITFLEET, args, { cwd: this.dir, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
    }

    /** Starts the daemon, and waits until it listens. */
    run() {
        this.daemon = spawn(GITFLEET, ["run", "-c", "gitfleet.yaml", "--log-format", "json"], {
            cwd: this.dir, env: this.env, stdio: ["ignore", "ignore", "pipe"],
        });
        let log = "";
        return new Promise((resolve, reject) => {
            const failed = (why) => reject(new Error(`${why}; the daemon said:\n${log}`));
            const timer = setTimeout(() => failed("the daemon does not listen"), START);
            this.daemon.on("error", (error) => failed(`${GITFLEET}: ${error.message}`));
            this.daemon.on("exit", (code) => failed(`the daemon ended with ${code}`));
            // What it logs later is read too, so that it is never kept waiting.
            this.daemon.stderr.on("data", (data) => {
                log += data;
                if (!log.includes('"listening"')) return;
                clearTimeout(timer);
                resolve();
            });
        });
    }

    /** Ends the daemon as a crash does. */
    async kill() {
        if (this.daemon.exitCode !== null || this.daemon.signalCode !== null) return;
        const ended = new Promise((resolve) => this.daemon.once("exit", resolve));
        this.daemon.kill("SIGKILL");
        await ended;
    }

    async end() {
        await this.kill();
        rmSync(this.dir, { recursive: true, force: true });
    }
}
