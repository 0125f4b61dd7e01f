"use strict";
// The engine, in C, in WebAssembly's memory: it reads tokens, keeps its state, predicts the next one.
class Engine {
  // about: the page's description of the model; packed: the arrays of its file, see Packer in page.py.
  static async create(module, about, packed) {
    const { instance } = await WebAssembly.instantiate(module);
    return new Engine(instance.exports, about, packed);
  }

  constructor(wasm, about, packed) {
    Object.assign(this, { wasm, about, packed });
    this.vocabulary = about.vocabulary ? new Subwords(about.vocabulary) : new Bytes();
    const { StoredLayer, StoredModel, Job } = about.structures, { model, units: H, layers: L } = about;
    const base = this.put(new Uint8Array(packed, 0, about.model_bytes)); // of all arrays
    const layers = model.layer.map((layer) => structure(StoredLayer, layer, base));
    const stored = { ...model, layer: this.put(Uint8Array.from(layers.flatMap((layer) => [...layer]))) - base };
    this.model = wasm.engine_prepare(this.put(structure(StoredModel, stored, base)));
    if (!this.model || !wasm.engine_prepare_decoder(this.model)) throw new Error("no memory");
    this.states = 2 * L * H;
    this.state = this.take(4 * this.states); // h and c of each layer, [2, L, H]
    this.token = this.take(4);
    this.nats = this.take(4);
    this.scores = this.take(4 * about.symbols);
    this.next = this.take(8);
    const [h, c] = [this.state, this.state + 2 * this.states];
    const job = {
      texts: 1, tokens: this.token, offsets: this.put(new Uint8Array(BigInt64Array.of(0n, 1n).buffer)),
      order: this.take(8), next: this.next, stop: this.take(4), done: this.take(8), lanes: 1,
      first_h: h, first_c: c, final_h: h, final_c: c, clamp_layer: -1,
    };
    this.job = this.put(structure(Job, job));
    this.costlyJob = this.put(structure(Job, { ...job, nats: this.nats }));
    this.head = about.head && new Head(this);
  }

  take(bytes) {
    const place = this.wasm.engine_take(bytes);
    if (!place) throw new Error("no memory");
    return place;
  }

  put(bytes) {
    const place = this.take(bytes.length);
    new Uint8Array(this.wasm.memory.buffer).set(bytes, place);
    return place;
  }

  // Views last until the memory grows.
  floats(place, count) {
    return new Float32Array(this.wasm.memory.buffer, place, count);
  }

  get live() {
    return this.floats(this.state, this.states);
  }

  // Of the last layer.
  part(name) {
    const { units, layers } = this.about;
    return this.floats(this.state + 4 * units * (name === "cell" ? 2 * layers - 1 : layers - 1), units);
  }

  // Read one token from the live state; return the bits that predicting it costs, if asked for.
  step(token, isCostly = false) {
    const memory = new DataView(this.wasm.memory.buffer);
    memory.setInt32(this.token, token, true);
    memory.setBigInt64(this.next, 0n, true);
    const read = this.wasm.engine_read(this.model, isCostly ? this.costlyJob : this.job);
    if (read !== 1n) throw new Error("no memory");
    return isCostly ? this.floats(this.nats, 1)[0] / Math.LN2 : null;
  }

  // The logits of the next token, [V].
  logits() {
    const { units, layers, symbols } = this.about;
    const h = this.state + 4 * units * (layers - 1);
    if (!this.wasm.engine_logits(this.model, 1n, h, this.scores)) throw new Error("no memory");
    return this.floats(this.scores, symbols);
  }
}

const SIZES = { pointer: 4, float: 4, int64: 8, double: 8 };
const SETTERS = {
  pointer: (view, place, value) => view.setUint32(place, value, true),
  float: (view, place, value) => view.setFloat32(place, value, true),
  int64: (view, place, value) => view.setBigInt64(place, BigInt(value), true),
  double: (view, place, value) => view.setFloat64(place, value, true),
};

// The bytes of a structure of engine.h; fields: their names and kinds, in order. What has no value is
// zero. base: what to add to each pointer.
function structure(fields, values, base = 0) {
  const view = new DataView(new ArrayBuffer(1024));
  const align = (place, to) => Math.ceil(place / to) * to;
  const write = (fields, values, from) => {
    let place = align(from, 8);
    for (const [name, kind] of Object.entries(fields)) {
      if (typeof kind === "object") {
        place = write(kind, values[name], place);
        continue;
      }
      place = align(place, SIZES[kind]);
      const value = values[name] ?? null;
      if (value !== null) SETTERS[kind](view, place, kind === "pointer" ? base + value : value);
      place += SIZES[kind];
    }
    return align(place, 8);
  };
  return new Uint8Array(view.buffer, 0, write(fields, values, 0));
}

// The steps of a head, as steps.py has them: each makes a function of the values from what is saved of
// it. `noted` collects what a step says besides; `tilts` are the log-odds of the text's n-grams, one
// for each such step.
const STEPS = {
  standardize: ({ center, scale }) => (x) => x.map((value, k) => (value - center[k]) / scale[k]),
  affine: ({ weight, bias }) => (x) => weighted(weight, bias, x),
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
  ngrams: ({ positive, place }) => (x, { tilts }) => {
    const moved = x.map((chance, index) => chance * Math.exp(tilts[place] * (positive[index] - 0.5)));
    const whole = moved.reduce((one, other) => one + other);
    return moved.map((chance) => chance / whole);
  },
  language: () => (x) => x,
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
  learned: ({ weight }) => (x, noted) => {
    noted.learned = weighted(weight, new Float64Array(weight.length / x.length), x);
    return x;
  },
  correction: ({ slopes, offsets }) => (x, noted) => {
    const corrected = (value, k) => slopes[k] * value + offsets[k] + noted.learned[k];
    if (slopes.length > x.length) noted.neutral = corrected(noted.neutral, x.length);
    return x.map(corrected);
  },
  log_odds: () => (x) => x.map((chance) => logRatio(chance, 1 - chance, Number.MIN_VALUE)),
  sigmoid: () => (x) => x, // the page takes log-odds
};

// A head of two classes.
class Head {
  constructor(engine) {
    const { head } = engine.about, { state, pooling } = head.features;
    Object.assign(this, { familiarity: head.familiarity, state, pooling, ngrams: [], language: null });
    this.steps = head.steps.map((step) => {
      const arrays = Object.entries(step.arrays).map(([field, { place, size }]) => {
        const kind = field === "weights" ? Int8Array : Float32Array;
        return [field, new kind(engine.packed, place, size)];
      });
      const saved = { ...step, ...Object.fromEntries(arrays), place: this.ngrams.length };
      if (step.step === "ngrams") this.ngrams.push(new Ngrams(saved.weights, saved.scale));
      if (step.step === "language")
        this.language = { letters: new Ngrams(saved.weights, saved.scale, runsOfLetters), ...step };
      return STEPS[step.step](saved);
    });
  }

  // The log-odds of the positive class, and those that a text takes no side, if the head has them.
  odds(features, tilts) {
    const noted = { tilts, neutral: null };
    const [positive] = this.steps.reduce((values, step) => step(values, noted), features);
    return { positive, neutral: noted.neutral };
  }

  // Whether a text, given as bytes, may be in another language; true if the head cannot say.
  isForeign(bytes) {
    return !this.language || this.language.letters.logOdds(bytes) > this.language.limit;
  }
}

// Sums of x, each with its row of weights and its bias.
function weighted(weight, bias, x) {
  return Float64Array.from(bias, (start, row) => {
    let sum = start;
    for (let k = 0; k < x.length; k++) sum += weight[row * x.length + k] * x[k];
    return sum;
  });
}

function logRatio(one, other, smallest) {
  return Math.log(Math.max(one, smallest)) - Math.log(Math.max(other, smallest));
}

function softmax(logits) {
  const most = Math.max(...logits), powers = logits.map((logit) => Math.exp(logit - most));
  const sum = powers.reduce((one, other) => one + other);
  return powers.map((power) => power / sum);
}

const SUMMED = 64; // tokens whose states are summed in fp32, as in engine.c

// A position in a text: the model's state there, and the pooled states of all tokens before it.
class Place {
  constructor(engine) {
    const { head, states, about: { units } } = engine;
    this.engine = engine;
    this.count = 0; // tokens read
    // Bits above what a familiar text costs, until they are far from zero; see Familiarity in Python.
    this.excess = head?.familiarity ? -head.familiarity.bits : null;
    this.state = new Float32Array(states);
    this.pools = (head?.pooling ?? []).map((kind) =>
      ({ kind, values: new Float64Array(units), recent: new Float32Array(units) }));
  }

  copy() {
    const other = new Place(this.engine);
    Object.assign(other, { count: this.count, excess: this.excess });
    other.state.set(this.state);
    this.pools.forEach(({ values, recent }, index) => {
      other.pools[index].values.set(values);
      other.pools[index].recent.set(recent);
    });
    return other;
  }

  // Read tokens one by one; call `seen` after each.
  read(tokens, seen) {
    const { engine, engine: { head, vocabulary } } = this;
    engine.live.set(this.state);
    for (const token of tokens) {
      const isOpen = this.excess !== null && Math.abs(this.excess) <= head.familiarity.margin;
      const bits = engine.step(token, isOpen);
      if (isOpen) this.excess += bits - head.familiarity.bits_per_character * vocabulary.lengths[token];
      if (head) for (const pool of this.pools) addTo(pool, engine.part(head.state), this.count);
      this.count += 1;
      if (seen) seen(this);
    }
    this.state.set(engine.live);
  }

  // Clamp a unit of the last layer to a value, as the sampler in Python does.
  clamp(unit, value) {
    this.state[this.state.length - this.engine.about.units + unit] = value;
  }

  logits() {
    this.engine.live.set(this.state);
    return this.engine.logits();
  }

  // The log-odds of the text's answers, as if it ended here; tilts: those of its n-grams.
  odds(tilts) {
    const { head, about: { units } } = this.engine;
    const features = new Float64Array(this.pools.length * units);
    this.pools.forEach(({ kind, values, recent }, index) => {
      const count = Math.max(this.count, 1);
      features.set(kind === "mean"
        ? Float32Array.from(values, (sum, k) => (sum + recent[k]) / count) : values, index * units);
    });
    return head.odds(features, tilts);
  }
}

function addTo({ kind, values, recent }, state, before) {
  if (kind === "last" || (kind !== "mean" && before === 0)) return values.set(state);
  for (let k = 0; k < state.length; k++) {
    if (kind === "mean") recent[k] += state[k];
    else if (kind === "max") values[k] = Math.max(values[k], state[k]);
    else values[k] = Math.min(values[k], state[k]);
  }
  if (kind !== "mean" || (before + 1) % SUMMED) return;
  for (let k = 0; k < state.length; k++) values[k] += recent[k];
  recent.fill(0);
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
    this.bags = null; // the n-grams of the words that have ended
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
    this.bags = null;
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
    const end = this.end(place.count), value = this.engine.part("cell")[unit];
    const odds = place.pools.length ? place.odds(this.tilts(end)).positive : null;
    const before = [this.values.at(-1) ?? 0, this.odds.at(-1) ?? odds]; // at first, the zero state
    const first = this.values.length + this.engine.vocabulary.blanks[this.tokens[place.count - 1]];
    while (this.values.length < end) {
      const isBefore = this.values.length < first;
      this.values.push(isBefore ? before[0] : value);
      if (odds !== null) this.odds.push(isBefore ? before[1] : odds);
    }
  }

  // The log-odds of the n-grams of all words that have ended in the first `count` bytes.
  tilts(count) {
    this.bags ??= this.engine.head.ngrams.map((ngrams) => new Bag(ngrams));
    const size = this.bytes.lastIndexOf(BLANK, count - 1) + 1;
    return this.bags.map((bag) => {
      if (size > bag.size) bag.add(this.bytes.subarray(bag.size, size));
      return bag.logOdds;
    });
  }

  // The result for the text: unit and log-odds after the profile's suffix.
  verdict(suffix, unit) {
    const whole = new Uint8Array([...this.bytes, ...suffix]);
    const tokens = this.engine.vocabulary.encode(whole), same = common(this.tokens, tokens);
    const end = (same < this.here.count ? this.before(same) : this.here).copy();
    end.read(tokens.subarray(end.count));
    const own = this.engine.head;
    const tilts = own?.ngrams.map((ngrams) => ngrams.logOdds(this.bytes)) ?? [];
    const { positive: odds, neutral } = end.pools.length ? end.odds(tilts) : { positive: null };
    const value = end.state[end.state.length - this.engine.about.units + unit];
    const isUnfamiliar = end.excess > 0 && (own?.isForeign(this.bytes) ?? true);
    const verdict = { value, odds, neutral, isUnfamiliar, characters: whole.length };
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
