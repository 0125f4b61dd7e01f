"use strict";
// The model in WebAssembly's memory: reads bytes, keeps its state, predicts the next byte.

const MULTIPLE = 16;

class Engine {
  // about: the page's description of the model; packed: its weights, in the layout of packing.py.
  static async create(module, about, packed) {
    const { instance } = await WebAssembly.instantiate(module);
    return new Engine(instance.exports, about, packed);
  }

  constructor(wasm, about, packed) {
    this.wasm = wasm;
    this.about = about;
    this.H = about.padded_units;
    this.base = align(wasm.__heap_base.value);
    this.end = this.base;
    const weights = this.room(packed.byteLength);
    const { H } = this, V = about.symbols, L = about.layers;
    this.table = this.room(4 * V * 5 * H); // the first layer's input for each byte, [V, 5H]
    this.state = this.room(4 * L * 2 * H); // h and c of each layer, [L, 2, H]
    this.xProj = this.room(4 * 5 * H);
    this.m = this.room(4 * H);
    this.q = this.room(2 * 2 * Math.max(H, about.padded_embedding));
    this.z = this.room(4 * Math.max(4 * H, about.padded_embedding));
    this.scores = this.room(4 * V);
    const missing = this.end - wasm.memory.buffer.byteLength;
    if (missing > 0) wasm.memory.grow(Math.ceil(missing / 65536));
    this.memory = wasm.memory.buffer;
    new Uint8Array(this.memory).set(new Uint8Array(packed), weights);
    this.makeTable();
    const size = 2 * L * H;
    this.live = new Float32Array(this.memory, this.state, size);
    this.cell = this.live.subarray(size - H); // of the last layer
    this.hidden = this.live.subarray(size - 2 * H, size - H);
    this.head = about.head && new Head(this);
  }

  room(bytes) {
    const place = this.end;
    this.end = align(place + bytes);
    return place;
  }

  place(name) {
    return this.base + this.about.places[name];
  }

  floats(name, length) {
    return new Float32Array(this.memory, this.place(name), length);
  }

  product(name, x, y, rows, columns) {
    this.wasm.product(this.place(name), this.place(name + ".scale"), x, this.q, y, rows, columns);
  }

  makeTable() {
    const V = this.about.symbols, E = this.about.padded_embedding, { H } = this;
    const whole = new Int8Array(this.memory, this.place("embedding"), V * E);
    const scale = this.floats("embedding.scale", V);
    const x = new Float32Array(this.memory, this.z, E);
    for (let v = 0; v < V; v++) {
      for (let e = 0; e < E; e++) x[e] = whole[v * E + e] * scale[v];
      this.product("layers.0.w_x", this.z, this.table + 4 * v * 5 * H, 5 * H, E);
    }
  }

  // Read one byte from the live state.
  step(byte) {
    const { H } = this;
    let xProj = this.table + 4 * byte * 5 * H;
    for (let layer = 0; layer < this.about.layers; layer++) {
      const of = `layers.${layer}.`, h = this.state + 4 * layer * 2 * H;
      if (layer > 0) {
        xProj = this.xProj;
        this.product(of + "w_x", h - 4 * 2 * H, xProj, 5 * H, H);
      }
      this.wasm.step(
        xProj, this.place(of + "w_mh"), this.place(of + "w_mh.scale"),
        this.place(of + "w_h"), this.place(of + "w_h.scale"), this.place(of + "b"),
        h, h + 4 * H, this.m, this.q, this.z, H);
    }
  }

  // The logits of the next byte, [V].
  logits() {
    const V = this.about.symbols;
    const h = this.state + 4 * (this.about.layers - 1) * 2 * this.H;
    this.product("decoder", h, this.scores, V, this.H);
    const bias = this.floats("decoder.b", V);
    return new Float32Array(this.memory, this.scores, V).map((score, v) => score + bias[v]);
  }
}

function align(place) {
  return Math.ceil(place / MULTIPLE) * MULTIPLE;
}

// The classifier, in the form that head.py describes.
class Head {
  constructor(engine) {
    const { head } = engine.about;
    Object.assign(this, head, { state: head.state === "cell" ? engine.cell : engine.hidden });
    this.ngrams = head.ngrams && new Ngrams(
      new Int8Array(engine.memory, engine.place("head.ngrams"), head.ngrams.buckets),
      head.ngrams.scale);
    let columns = head.pooling.length * engine.H;
    this.maps = head.maps.map(({ rows, prelu }, index) => {
      const weight = engine.floats(`head.${index}`, rows * columns);
      columns = rows;
      return { weight, bias: engine.floats(`head.${index}.b`, rows), prelu };
    });
  }

  // The log-odds of the positive class; the log-odds `tilt` of n-grams move each class by its share.
  odds(features, tilt) {
    const logits = this.maps.reduce(affine, features), classes = this.shares.length;
    let positive = 0, negative = 0; // means over the heads
    const heads = logits.length / classes;
    for (let from = 0; from < logits.length; from += classes) {
      const each = softmax(logits.subarray(from, from + classes));
      each.forEach((chance, index) => {
        const moved = (chance * Math.exp(tilt * (this.shares[index] - 0.5))) / heads;
        positive += moved * this.shares[index];
        negative += moved * (1 - this.shares[index]);
      });
    }
    const whole = positive + negative;
    const log = (chance) => Math.log(Math.max(chance / whole, this.smallest));
    return this.slope * (log(positive) - log(negative)) + this.offset;
  }
}

function affine(x, { weight, bias, prelu }) {
  return Float64Array.from(bias, (start, row) => {
    let sum = start;
    for (let k = 0; k < x.length; k++) sum += weight[row * x.length + k] * x[k];
    return prelu !== null && sum < 0 ? prelu * sum : sum;
  });
}

function softmax(logits) {
  const most = Math.max(...logits), powers = logits.map((logit) => Math.exp(logit - most));
  const sum = powers.reduce((one, other) => one + other);
  return powers.map((power) => power / sum);
}

// A position in a text: the model's state there, and the pooled states of all bytes before it.
class Place {
  constructor(engine) {
    this.engine = engine;
    const pooling = engine.head ? engine.head.pooling : [];
    this.count = 0; // bytes read
    this.state = new Float32Array(engine.live.length);
    this.pools = pooling.map((kind) => ({ kind, values: new Float64Array(engine.H) }));
  }

  copy() {
    const other = new Place(this.engine);
    other.count = this.count;
    other.state.set(this.state);
    this.pools.forEach((pool, index) => other.pools[index].values.set(pool.values));
    return other;
  }

  // Read bytes one by one; call `seen` after each.
  read(bytes, seen) {
    const { engine } = this;
    engine.live.set(this.state);
    for (const byte of bytes) {
      engine.step(byte);
      for (const pool of this.pools) addTo(pool, engine.head.state, this.count);
      this.count += 1;
      if (seen) seen(this);
    }
    this.state.set(engine.live);
  }

  // Clamp a unit of the last layer to a value, as the sampler in Python does.
  clamp(unit, value) {
    this.state[this.state.length - this.engine.H + unit] = value;
  }

  logits() {
    this.engine.live.set(this.state);
    return this.engine.logits();
  }

  // The log-odds of the positive class, as if the text ended here; tilt: those of its n-grams.
  odds(tilt) {
    const { head, H } = this.engine, features = new Float64Array(this.pools.length * H);
    this.pools.forEach(({ kind, values }, index) => {
      const share = kind === "mean" ? 1 / Math.max(this.count, 1) : 1;
      for (let k = 0; k < H; k++) features[index * H + k] = values[k] * share;
    });
    return head.odds(features, tilt);
  }
}

function addTo({ kind, values }, cell, before) {
  for (let k = 0; k < cell.length; k++) {
    if (kind === "mean") values[k] += cell[k];
    else if (kind === "last" || before === 0) values[k] = cell[k];
    else if (kind === "max") values[k] = Math.max(values[k], cell[k]);
    else if (kind === "min") values[k] = Math.min(values[k], cell[k]);
    else throw new Error(`unknown pooling: ${kind}`);
  }
}

const KEEP_EVERY = 64; // bytes between two saved positions
const BLANK = 32; // a byte that ends a word

// A text while it is read, with the values of unit and classifier after every byte.
class Reading {
  constructor(engine) {
    this.engine = engine;
    this.bytes = new Uint8Array(0);
    this.restart();
  }

  // Forget everything that was read.
  restart() {
    this.values = [];
    this.odds = [];
    this.kept = [new Place(this.engine)]; // every 64 bytes
    this.here = this.kept[0].copy();
    this.bag = null; // the n-grams of the words that have ended
  }

  // Read these bytes from where they differ from those read before; return that position.
  aim(bytes) {
    let same = 0;
    while (same < this.here.count && this.bytes[same] === bytes[same]) same++;
    this.bytes = bytes;
    this.bag = null;
    if (same < this.here.count) {
      this.kept.length = Math.floor(same / KEEP_EVERY) + 1;
      this.here = this.kept[this.kept.length - 1].copy();
      this.values.length = this.odds.length = this.here.count;
    }
    return this.here.count;
  }

  get done() {
    return this.here.count >= this.bytes.length;
  }

  // Continue reading until the time is up; return whether all is read.
  advance(deadline, unit) {
    while (!this.done && performance.now() < deadline) {
      const from = this.here.count;
      const next = Math.min(this.bytes.length, (Math.floor(from / 16) + 1) * 16);
      this.here.read(this.bytes.subarray(from, next), (place) => this.note(place, unit));
      if (next % KEEP_EVERY === 0) this.kept.push(this.here.copy());
    }
    return this.done;
  }

  note(place, unit) {
    this.values.push(this.engine.cell[unit]);
    if (!place.pools.length) return;
    this.odds.push(place.odds(this.tilt(place.count)));
  }

  // The log-odds of the n-grams of all words that have ended in the first `count` bytes.
  tilt(count) {
    const { ngrams } = this.engine.head;
    if (!ngrams) return 0;
    if (!this.bag) {
      const size = this.bytes.lastIndexOf(BLANK, count - 1) + 1;
      this.bag = new Bag(ngrams).add(this.bytes.subarray(0, size));
    } else if (this.bytes[count - 1] === BLANK)
      this.bag.add(this.bytes.subarray(this.bag.size, count));
    return this.bag.logOdds;
  }

  // The result for the text: unit and log-odds after the profile's suffix.
  verdict(suffix, unit) {
    const end = this.here.copy();
    end.read(suffix);
    const tilt = this.engine.head?.ngrams?.logOdds(this.bytes) ?? 0;
    const odds = end.pools.length ? end.odds(tilt) : null;
    return { value: end.state[end.state.length - this.engine.H + unit], odds };
  }
}

// Which byte may come next in UTF-8: Unicode 15, table 3-7, as in the model's own sampler.
const CONTINUATIONS = [
  [[0x00, 0x7f, 0], [0xc2, 0xdf, 1], [0xe0, 0xe0, 2], [0xe1, 0xec, 3], [0xed, 0xed, 4],
    [0xee, 0xef, 3], [0xf0, 0xf0, 5], [0xf1, 0xf3, 6], [0xf4, 0xf4, 7]],
  [[0x80, 0xbf, 0]], [[0xa0, 0xbf, 1]], [[0x80, 0xbf, 1]], [[0x80, 0x9f, 1]],
  [[0x90, 0xbf, 3]], [[0x80, 0xbf, 3]], [[0x80, 0x8f, 3]],
];

function after(state, byte) {
  const found = CONTINUATIONS[state].find(([first, last]) => first <= byte && byte <= last);
  return found ? found[2] : -1;
}

const DECODER = new TextDecoder("utf-8", { ignoreBOM: true }); // a BOM is a character here

// Continues from a position byte by byte, in valid UTF-8; a unit may be clamped to a value.
class Writer {
  // clamp: {unit, value} or null; random: numbers from 0 to 1, one per byte.
  constructor({ temperature, clamp, random = Math.random }) {
    Object.assign(this, { temperature, clamp, random });
  }

  begin(place) {
    Object.assign(this, { place, utf8: 0 });
  }

  // Draw a byte, read it, and return it.
  next() {
    if (this.clamp) this.place.clamp(this.clamp.unit, this.clamp.value);
    const byte = draw(this.place.logits(), this.utf8, this.temperature, this.random());
    this.utf8 = after(this.utf8, byte);
    this.place.read([byte]);
    return byte;
  }

  // Draw bytes to the end of a character.
  character() {
    const bytes = [];
    do bytes.push(this.next()); while (this.utf8 !== 0);
    return DECODER.decode(new Uint8Array(bytes));
  }
}

function draw(logits, utf8, temperature, share) {
  const allowed = Array.from(logits.keys()).filter((byte) => after(utf8, byte) >= 0);
  const best = allowed.reduce((one, other) => (logits[other] > logits[one] ? other : one));
  if (temperature === 0) return best;
  const chances = allowed.map((byte) => Math.exp((logits[byte] - logits[best]) / temperature));
  let left = share * chances.reduce((sum, chance) => sum + chance, 0);
  return allowed[chances.findIndex((chance) => (left -= chance) < 0)] ?? best;
}
