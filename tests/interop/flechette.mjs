// The rows of a file as flechette reads them, printed as JSON.
//
//     NODE_PATH=.../node_modules node flechette.mjs FILE

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

// `require` looks into NODE_PATH, `import` does not.
const require = createRequire(import.meta.url);
const { CompressionType, setCompressionCodec, tableFromIPC } = require("@uwdata/flechette");
const { decompress } = require("fzstd");

setCompressionCodec(CompressionType.ZSTD, { decode: (data) => decompress(data).slice() });

// Numbers of a list are a typed array, which JSON would show as an object, unless one is null.
console.log(JSON.stringify(tableFromIPC(readFileSync(process.argv[2])).toArray()));
