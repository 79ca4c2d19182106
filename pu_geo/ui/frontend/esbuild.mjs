// Bundles src/main.js into one file, styles included, and puts the licences of what is in it beside it.

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { build } from "esbuild";

const target = process.argv[2] ?? "dist/damage_view.js";
const { metafile } = await build({
  entryPoints: ["src/main.js"],
  outfile: target,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "none",
  loader: { ".css": "text" },
  metafile: true,
});

const packages = new Set(Object.keys(metafile.inputs).map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]).filter(Boolean));
const texts = [...packages].sort().map((name) => {
  const folder = join("node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((each) => /^(licen[cs]e|copying)/i.test(each));
  return `${name} ${version} (${license})\n\n${file ? readFileSync(join(folder, file), "utf8") : "No licence file in the package."}`;
});
writeFileSync(join(dirname(target), "LICENSES.txt"), texts.join("\n\n----\n\n"));
console.log(`${target}: ${(metafile.outputs[target].bytes / 1024).toFixed(0)} kB, with ${[...packages].sort().join(", ")}`);
