// Bundle the sources into the package's assets. `--check` says whether the committed bundle is that of the sources.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const assets = join(here, "..", "dynamask_mlflow", "report", "assets");

// Everything that decides what the bundle holds: the sources, how they are built, and the builder's version.
export function digest() {
  const hash = createHash("sha256");
  const sources = readdirSync(join(here, "src")).sort();
  for (const name of [...sources.map((file) => "src/" + file), "build.mjs", "package-lock.json"]) {
    hash.update(name + "\0");
    hash.update(readFileSync(join(here, name)));
    hash.update("\0");
  }
  return hash.digest("hex") + "\n";
}

async function bundle() {
  const result = await build({
    absWorkingDir: here,
    entryPoints: { report: "src/main.ts", "report.style": "src/style.css" },
    bundle: true,
    write: false,
    outdir: "out",
    format: "iife",
    target: "es2022",
    charset: "utf8",
    minify: true,
    legalComments: "none",
  });
  const files = Object.fromEntries(
    result.outputFiles.map((file) => [file.path.endsWith(".css") ? "report.css" : "report.js", file.text]),
  );
  return { ...files, "sources.sha256": digest() };
}

const files = await bundle();
let stale = false;
for (const [name, text] of Object.entries(files)) {
  const path = join(assets, name);
  if (!process.argv.includes("--check")) writeFileSync(path, text);
  else if (readFileSync(path, "utf8") !== text) {
    console.error(
      `Expected ${name} to be the bundle of the sources, but it is not: run npm run build in frontend/.`,
    );
    stale = true;
  }
}
process.exitCode = stale ? 1 : 0;
