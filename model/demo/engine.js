"use strict";
// The model in WebAssembly's memory: reads tokens, keeps its state, predicts the next token.

const MULTIPLE = 16;
const LARGEST_TABLE = 256; // tokens whose input to the first layer is computed beforehand

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
    this.vocabulary = about.vocabulary ? new Subwords(about.vocabulary) : new Bytes();
    const weights = this.room(packed.byteLength);
    const { H } = this, V = about.symbols, L = about.layers;
    this.hasTable = V <= LARGEST_TABLE;
    this.table = this.room(this.hasTable ? 4 * V * 5 * H : 0); // the input for each token, [V, 5H]
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
    if (this.hasTable)
      for (let v = 0; v < V; v++) this.embed(v, this.table + 4 * v * 5 * H);
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

  // Compute the first layer's input for a token, [5H], at a place in memory.
  embed(token, place) {
    const E = this.about.padded_embedding;
    const whole = new Int8Array(this.memory, this.place("embedding") + token * E, E);
    const scale = this.floats("embedding.scale", this.about.symbols)[token];
    const x = new Float32Array(this.memory, this.z, E);
    for (let e = 0; e < E; e++) x[e] = whole[e] * scale;
    this.product("layers.0.w_x", this.z, place, 5 * this.H, E);
  }

  // Read one token from the live state.
  step(token) {
    const { H } = this;
    let { xProj } = this;
    if (this.hasTable) xProj = this.table + 4 * token * 5 * H;
    else this.embed(token, xProj);
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

  // The bits that a token costs as the next one.
  bits(token) {
    const logits = this.logits();
    let most = -Infinity, sum = 0;
    for (const logit of logits) most = Math.max(most, logit);
    for (const logit of logits) sum += Math.exp(logit - most);
    return (Math.log(sum) + most - logits[token]) / Math.LN2;
  }

  // The logits of the next token, [V].
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

// The steps of a head, as steps.py has them: each makes a function of the values from what is saved of
// it. `noted` collects what a step says besides; `tilt` is the log-odds of the text's n-grams.
const STEPS = {
  standardize: ({ center, scale }) => (x) => x.map((value, k) => (value - center[k]) / scale[k]),
  affine: ({ weight, bias }) => (x) => Float64Array.from(bias, (start, row) => {
    let sum = start;
    for (let k = 0; k < x.length; k++) sum += weight[row * x.length + k] * x[k];
    return sum;
  }),
  prelu: ({ slope }) => (x) => x.map((value) => (value < 0 ? slope * value : value)),
  probabilities: ({ classes, exclusive }) => (x) => {
    const mean = new Float64Array(classes), heads = x.length / classes;
    for (let from = 0; from < x.length; from += classes) {
      const logits = x.subarray(from, from + classes);
      (exclusive ? softmax(logits) : logits.map(sigmoid)).forEach((chance, index) => {
        mean[index] += chance / heads;
      });
    }
    return mean;
  },
  ngrams: ({ positive }) => (x, { tilt }) => {
    const moved = x.map((chance, index) => chance * Math.exp(tilt * (positive[index] - 0.5)));
    const whole = moved.reduce((one, other) => one + other);
    return moved.map((chance) => chance / whole);
  },
  stars: () => (x) => x,
  neutral: ({ column, slope, offset, smallest }) => (x, noted) => {
    noted.neutral = slope * logRatio(x[column], 1 - x[column], smallest) + offset;
    return x;
  },
  positive: ({ weights, smallest }) => (x) => {
    const share = (of) => x.reduce((sum, chance, index) => sum + chance * of(weights[index]), 0);
    const odds = logRatio(share((weight) => weight), share((weight) => 1 - weight), smallest);
    return Float64Array.of(odds);
  },
  calibration: ({ slope, offset }) => (x) => x.map((value) => slope * value + offset),
  log_odds: () => (x) => x.map((chance) => logRatio(chance, 1 - chance, Number.MIN_VALUE)),
  sigmoid: () => (x) => x, // the page takes log-odds
};

// A head of two classes.
class Head {
  constructor(engine) {
    const { head } = engine.about, { state, pooling } = head.features;
    Object.assign(this, { familiarity: head.familiarity, pooling, ngrams: null });
    this.state = state === "cell" ? engine.cell : engine.hidden;
    this.steps = head.steps.map((step, number) => {
      const arrays = Object.entries(step.sizes).map(([field, size]) => {
        const kind = step.step === "ngrams" ? Int8Array : Float32Array;
        return [field, new kind(engine.memory, engine.place(`head.${number}.${field}`), size)];
      });
      const saved = { ...step, ...Object.fromEntries(arrays) };
      if (step.step === "ngrams") this.ngrams = new Ngrams(saved.weights, saved.scale);
      return STEPS[step.step](saved);
    });
  }

  // The log-odds of the positive class, and those that a text takes no side, if the head has them.
  odds(features, tilt) {
    const noted = { tilt, neutral: null };
    const [positive] = this.steps.reduce((values, step) => step(values, noted), features);
    return { positive, neutral: noted.neutral };
  }
}

function logRatio(one, other, smallest) {
  return Math.log(Math.max(one, smallest)) - Math.log(Math.max(other, smallest));
}

function softmax(logits) {
  const most = Math.max(...logits), powers = logits.map((logit) => Math.exp(logit - most));
  const sum = powers.reduce((one, other) => one + other);
  return powers.map((power) => power / sum);
}

// A position in a text: the model's state there, and the pooled states of all tokens before it.
class Place {
  constructor(engine) {
    this.engine = engine;
    const pooling = engine.head ? engine.head.pooling : [];
    this.count = 0; // tokens read
    this.bits = 0; // what predicting them has cost; counted only if the classifier asks for it
    this.state = new Float32Array(engine.live.length);
    this.pools = pooling.map((kind) => ({ kind, values: new Float64Array(engine.H) }));
  }

  copy() {
    const other = new Place(this.engine);
    other.count = this.count;
    other.bits = this.bits;
    other.state.set(this.state);
    this.pools.forEach((pool, index) => other.pools[index].values.set(pool.values));
    return other;
  }

  // Read tokens one by one; call `seen` after each.
  read(tokens, seen) {
    const { engine } = this;
    engine.live.set(this.state);
    for (const token of tokens) {
      if (engine.head?.familiarity) this.bits += engine.bits(token);
      engine.step(token);
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

  // The log-odds of the text's answers, as if it ended here; tilt: those of its n-grams.
  odds(tilt) {
    const { head, about: { units } } = this.engine; // without the padding
    const features = new Float64Array(this.pools.length * units);
    this.pools.forEach(({ kind, values }, index) => {
      const factor = kind === "mean" ? 1 / Math.max(this.count, 1) : 1;
      for (let k = 0; k < units; k++) features[index * units + k] = values[k] * factor;
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

const KEEP_EVERY = 64; // tokens between two saved positions
const BLANK = 32; // a byte that ends a word

// A text while it is read, with the values of unit and classifier for every byte: those after its
// token; white space at the beginning of a token has those before it.
class Reading {
  constructor(engine) {
    this.engine = engine;
    this.bytes = this.tokens = this.ends = new Uint8Array(0);
    this.restart();
  }

  // Forget everything that was read.
  restart() {
    this.values = [];
    this.odds = [];
    this.saved = [new Place(this.engine)]; // every 64 tokens
    this.here = this.saved[0].copy();
    this.bag = null; // the n-grams of the words that have ended
  }

  // Read these bytes from where their tokens differ from those read before; return how many bytes
  // of the text keep their values.
  aim(bytes) {
    const tokens = this.engine.vocabulary.encode(bytes);
    const same = Math.min(common(this.tokens, tokens), this.here.count);
    this.bytes = bytes;
    this.tokens = tokens;
    let end = 0;
    this.ends = Array.from(tokens, (token) => (end += this.engine.vocabulary.lengths[token]));
    this.bag = null;
    if (same < this.here.count) {
      this.here = this.before(same).copy();
      this.saved.length = Math.floor(same / KEEP_EVERY) + 1;
      this.values.length = this.odds.length = this.end(this.here.count);
    }
    return this.values.length;
  }

  // The last saved position that is not beyond a token.
  before(token) {
    return this.saved[Math.floor(token / KEEP_EVERY)];
  }

  // How many bytes the first `count` tokens stand for.
  end(count) {
    return count ? this.ends[count - 1] : 0;
  }

  get done() {
    return this.here.count >= this.tokens.length;
  }

  // Continue reading until the time is up; return whether all is read.
  advance(deadline, unit) {
    while (!this.done && performance.now() < deadline) {
      const from = this.here.count;
      const next = Math.min(this.tokens.length, (Math.floor(from / 16) + 1) * 16);
      this.here.read(this.tokens.subarray(from, next), (place) => this.note(place, unit));
      if (next % KEEP_EVERY === 0) this.saved.push(this.here.copy());
    }
    return this.done;
  }

  note(place, unit) {
    const end = this.end(place.count), value = this.engine.cell[unit];
    const odds = place.pools.length ? place.odds(this.tilt(end)).positive : null;
    const before = [this.values.at(-1) ?? 0, this.odds.at(-1) ?? odds]; // at first, the zero state
    const first = this.values.length + this.engine.vocabulary.blanks[this.tokens[place.count - 1]];
    while (this.values.length < end) {
      const isBefore = this.values.length < first;
      this.values.push(isBefore ? before[0] : value);
      if (odds !== null) this.odds.push(isBefore ? before[1] : odds);
    }
  }

  // The log-odds of the n-grams of all words that have ended in the first `count` bytes.
  tilt(count) {
    const { ngrams } = this.engine.head;
    if (!ngrams) return 0;
    this.bag ??= new Bag(ngrams);
    const size = this.bytes.lastIndexOf(BLANK, count - 1) + 1;
    if (size > this.bag.size) this.bag.add(this.bytes.subarray(this.bag.size, size));
    return this.bag.logOdds;
  }

  // The result for the text: unit and log-odds after the profile's suffix, and the whole's bits.
  verdict(suffix, unit) {
    const whole = new Uint8Array([...this.bytes, ...suffix]);
    const tokens = this.engine.vocabulary.encode(whole), same = common(this.tokens, tokens);
    const end = (same < this.here.count ? this.before(same) : this.here).copy();
    end.read(tokens.subarray(end.count));
    const tilt = this.engine.head?.ngrams?.logOdds(this.bytes) ?? 0;
    const { positive: odds, neutral } = end.pools.length ? end.odds(tilt) : { positive: null };
    const value = end.state[end.state.length - this.engine.H + unit];
    const verdict = { value, odds, neutral, bits: end.bits, characters: whole.length };
    const { head, profile } = this.engine.about;
    const frame = new TextEncoder().encode(profile.prefix + profile.suffix).length;
    return { ...verdict, word: head && wordOf(head, verdict, frame) };
  }
}

// How many tokens two sequences have in common at their beginning.
function common(one, other) {
  let same = 0;
  while (same < one.length && same < other.length && one[same] === other[same]) same++;
  return same;
}

// Which byte may come next in UTF-8: Unicode 15, table 3-7, as in the model's own sampler.
const CONTINUATIONS = [
  [[0x00, 0x7f, 0], [0xc2, 0xdf, 1], [0xe0, 0xe0, 2], [0xe1, 0xec, 3], [0xed, 0xed, 4],
    [0xee, 0xef, 3], [0xf0, 0xf0, 5], [0xf1, 0xf3, 6], [0xf4, 0xf4, 7]],
  [[0x80, 0xbf, 0]], [[0xa0, 0xbf, 1]], [[0x80, 0xbf, 1]], [[0x80, 0x9f, 1]],
  [[0x90, 0xbf, 3]], [[0x80, 0xbf, 3]], [[0x80, 0x8f, 3]],
];

function afterByte(state, byte) {
  if (state < 0) return -1;
  const range = CONTINUATIONS[state].find(([first, last]) => first <= byte && byte <= last);
  return range ? range[2] : -1;
}

// The state after each token in each state, [8][V]; -1 if it may not follow, or has no bytes.
function continuations(vocabulary) {
  return CONTINUATIONS.map((_, state) => Int8Array.from(vocabulary.spellings,
    (bytes) => (bytes.length ? bytes.reduce(afterByte, state) : -1)));
}

const DECODER = new TextDecoder("utf-8", { ignoreBOM: true }); // a BOM is a character here

// Continues from a position token by token, in valid UTF-8; a unit may be clamped to a value.
class Writer {
  // clamp: {unit, value} or null; random: numbers from 0 to 1, one per token.
  constructor({ temperature, clamp, random = Math.random }) {
    Object.assign(this, { temperature, clamp, random });
  }

  begin(place) {
    const { vocabulary } = place.engine;
    vocabulary.after ??= continuations(vocabulary);
    Object.assign(this, { place, vocabulary, utf8: 0 });
  }

  // Draw a token, read it, and return it.
  next() {
    if (this.clamp) this.place.clamp(this.clamp.unit, this.clamp.value);
    const after = this.vocabulary.after[this.utf8];
    const token = draw(this.place.logits(), after, this.temperature, this.random());
    this.utf8 = after[token];
    this.place.read([token]);
    return token;
  }

  // Draw tokens to the end of a character.
  characters() {
    const bytes = [];
    do bytes.push(...this.vocabulary.spellings[this.next()]); while (this.utf8 !== 0);
    return DECODER.decode(new Uint8Array(bytes));
  }
}

function draw(logits, after, temperature, uniform) {
  const allowed = Array.from(logits.keys()).filter((token) => after[token] >= 0);
  const best = allowed.reduce((one, other) => (logits[other] > logits[one] ? other : one));
  if (temperature === 0) return best;
  const chances = allowed.map((token) => Math.exp((logits[token] - logits[best]) / temperature));
  let left = uniform * chances.reduce((sum, chance) => sum + chance, 0);
  return allowed[chances.findIndex((chance) => (left -= chance) < 0)] ?? best;
}
