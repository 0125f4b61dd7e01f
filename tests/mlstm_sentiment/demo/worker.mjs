// node worker.mjs PAGE < orders.json: a page's worker without a browser. Prints, for each order, the
// messages that came back until one said ready, done or ended; none for one that is "unanswered".
// For the order "tokens" it prints how the worker splits the bytes; for "word", the answer for a text,
// with the references that the text has, such as {"&amp;": "&"}.
import fs from "node:fs";
import vm from "node:vm";

const page = fs.readFileSync(process.argv[2], "utf8");
const part = (id) => page.match(new RegExp(`<script type="[^"]*" id="${id}">([^]*?)</script>`))[1];
const binary = (id) => new Uint8Array(Buffer.from(part(id), "base64")).buffer;

globalThis.onmessage = globalThis.postMessage = null;
vm.runInThisContext(part("worker"));

function answers(order) {
  return new Promise((done) => {
    const found = [];
    globalThis.postMessage = (message) => {
      found.push(message);
      if (message.ready || message.done || message.ended) done(found);
    };
    globalThis.onmessage({ data: order });
  });
}

const encoding = page.match(/"use strict";\n\/\/ Turns a text into the bytes[^]*?(?=\n"use strict";)/)[0];
let references = {}; // what the browser's parser would return
globalThis.document = {
  createElement: () => ({ set innerHTML(text) { this.textContent = references[text] ?? text; } }),
};
const encode = vm.runInThisContext(`(() => { ${encoding}\nreturn encode; })()`);

const about = JSON.parse(part("data"));
await answers({ order: "start", about, module: binary("module"), packed: binary("weights") });
const all = [];
for (const order of JSON.parse(fs.readFileSync(0, "utf8"))) {
  for (const name of ["bytes", "suffix"]) if (order[name]) order[name] = Uint8Array.from(order[name]);
  const data = { slot: 0, serial: 0, number: 0, pace: 0, ...order };
  if (order.order === "tokens") {
    const tokens = vm.runInThisContext("engine").vocabulary.encode(order.bytes);
    all.push(Array.from(tokens));
  } else if (order.order === "word") {
    references = order.references;
    const { bytes, suffix, noAnswer, pieces } = encode(order.text, about);
    const messages = await answers({ slot: 0, serial: 0, order: "read", bytes, suffix });
    const word = noAnswer ? "no answer" : messages.at(-1).verdict.word;
    all.push({ word, shown: pieces.map((piece) => piece.shown).join("") });
  } else if (order.unanswered) globalThis.onmessage({ data });
  else all.push(await answers(data));
}
console.log(JSON.stringify(all));
