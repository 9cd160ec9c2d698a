// The rows of a file as flechette reads them, printed as JSON.
//
//     NODE_PATH=.../node_modules node flechette.mjs FILE

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

// `require` looks into NODE_PATH, `import` does not.
const { tableFromIPC } = createRequire(import.meta.url)("@uwdata/flechette");

// Numbers of a list are a typed array, which JSON would show as an object, unless one is null.
console.log(JSON.stringify(tableFromIPC(readFileSync(process.argv[2])).toArray()));
