// Process texts with the engine in WebAssembly: node in_wasm.mjs engine.wasm request.json
//
// request.json has a model's arrays in base64 and the tokens of texts; the results go to stdout.
import { readFileSync } from "node:fs";

const [module, request] = process.argv.slice(2);
const asked = JSON.parse(readFileSync(request, "utf8"));
const { instance } = await WebAssembly.instantiate(readFileSync(module));
const engine = instance.exports;
const SIZES = { pointer: 4, float: 4, int64: 8, align: 8 };

function put(bytes) {
  const place = engine.engine_take(bytes.length);
  new Uint8Array(engine.memory.buffer).set(bytes, place);
  return place;
}

const array = (base64) => (base64 === null ? 0 : put(Buffer.from(base64, "base64")));

// The bytes of a structure of engine.h: fields are [kind, value].
function structure(fields) {
  const bytes = Buffer.alloc(fields.length * 8 + 8);
  let end = 0;
  for (const [kind, value] of fields) {
    end = Math.ceil(end / SIZES[kind]) * SIZES[kind];
    if (kind === "align") continue;
    if (kind === "pointer") bytes.writeUInt32LE(value, end);
    else if (kind === "float") bytes.writeFloatLE(value, end);
    else bytes.writeBigInt64LE(BigInt(value), end);
    end += SIZES[kind];
  }
  return bytes.subarray(0, Math.ceil(end / 8) * 8);
}

const pointer = (value) => ["pointer", value], int64 = (value) => ["int64", value];
const matrix = (stored) => [
  ["align"], pointer(array(stored.data)), pointer(array(stored.scale)), pointer(array(stored.gain)),
  int64(stored.rows), int64(stored.columns), int64(stored.bits)];

const layers = asked.layers.map((layer) => structure([
  ...["mx", "x", "mh", "h"].flatMap((name) => matrix(layer[name])), pointer(array(layer.b))]));
const model = engine.engine_prepare(put(structure([
  int64(asked.hidden), int64(asked.embedding), int64(asked.vocabulary), int64(layers.length),
  pointer(put(Buffer.concat(layers))), ...matrix(asked.embed), ...matrix(asked.decoder),
  pointer(array(asked.bias)), int64(asked.parts), int64(0)])));
if (!model || !engine.engine_prepare_decoder(model)) throw new Error("no memory");

const texts = asked.texts, total = texts.reduce((sum, tokens) => sum + tokens.length, 0);
const offsets = [0n];
for (const tokens of texts) offsets.push(offsets.at(-1) + BigInt(tokens.length));
const bytesOf = (typed) => new Uint8Array(typed.buffer);
const mean = engine.engine_take(texts.length * asked.hidden * 4);
const last = engine.engine_take(texts.length * asked.hidden * 4);
const nats = engine.engine_take(total * 4 + 4);
const job = put(structure([
  int64(texts.length),
  pointer(put(bytesOf(Int32Array.from(texts.flat())))),
  pointer(put(bytesOf(BigInt64Array.from(offsets)))),
  pointer(put(bytesOf(BigInt64Array.from(texts.map((_, n) => BigInt(n)))))),
  ...[8, 8, 8].map((bytes) => pointer(engine.engine_take(bytes))), // next, stop, done
  int64(asked.lanes), int64(0), int64(0),
  pointer(put(bytesOf(BigInt64Array.of(BigInt(layers.length - 1))))), int64(1),
  pointer(last), pointer(mean), pointer(0), pointer(0),
  pointer(0), int64(0), pointer(0), pointer(nats),
  pointer(0), pointer(0), int64(0), int64(0), int64(0), // no excess
  ...Array(4).fill(pointer(0)), int64(-1), int64(0), ["float", NaN], ["float", NaN]]));
const processed = Number(engine.engine_read(model, job));
const floats = (place, count) =>
  Buffer.from(new Uint8Array(engine.memory.buffer, place, count * 4)).toString("base64");
console.log(JSON.stringify({
  processed,
  mean: floats(mean, texts.length * asked.hidden),
  last: floats(last, texts.length * asked.hidden),
  nats: floats(nats, total),
}));
