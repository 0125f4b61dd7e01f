// Splits a text into the tokens of a model, as mlstm_sentiment/text/subwords.py does with SentencePiece.

const MARK = "\u2581"; // SentencePiece's mark for a space; in a text it is spelled in bytes
const UNKNOWN_PENALTY = 10; // SentencePiece's, below the score of the unlikeliest piece
const WHITE_SPACE = [9, 10, 11, 12, 13, 32];
const MOST_CACHED = 20000; // words whose tokens are remembered

// Every byte is a token.
class Bytes {
  constructor() {
    this.spellings = Array.from({ length: 256 }, (_, byte) => [byte]);
    this.lengths = new Uint8Array(256).fill(1);
    this.blanks = new Uint8Array(256);
  }

  encode(bytes) {
    return bytes;
  }
}

// A vocabulary of pieces; a character without a piece is spelled in bytes.
class Subwords {
  // kind: bpe or unigram; pieces: each token's text, null for one that is no piece; scores: of each
  // token; bytes: the token of each byte.
  constructor({ kind, pieces, scores, bytes }) {
    const encoder = new TextEncoder();
    this.split = kind === "bpe" ? merged : likeliest;
    this.bytes = bytes;
    this.scores = scores;
    this.tokens = new Map(pieces.map((piece, token) => [piece, token]));
    this.tokens.delete(null);
    this.spellings = pieces.map((piece) => (piece === null ? [] : Array.from(encoder.encode(piece))));
    bytes.forEach((token, byte) => (this.spellings[token] = [byte]));
    this.lengths = Uint8Array.from(this.spellings, ({ length }) => length);
    this.blanks = Uint8Array.from(this.spellings, (bytes) =>
      Math.max(bytes.findIndex((byte) => !WHITE_SPACE.includes(byte)), 0)); // before a letter
    const texts = [...this.tokens.keys()];
    this.longest = Math.max(...texts.map((piece) => Array.from(piece).length));
    this.unknown = Math.min(...texts.map((piece) => this.score(piece))) - UNKNOWN_PENALTY;
    // Where no piece goes beyond the space that begins it, words are split one by one.
    this.words = texts.some((piece) => piece.lastIndexOf(" ") > 0) ? /[^]+/gu : /[^ ]+| [^ ]*/gu;
    this.cache = new Map();
    this.encoder = encoder;
    this.decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  }

  score(piece) {
    return this.scores[this.tokens.get(piece)];
  }

  // The tokens of a text, given as bytes of valid UTF-8.
  encode(bytes) {
    const tokens = [];
    for (const part of this.decoder.decode(bytes).split(new RegExp(`(${MARK}+)`, "u"))) {
      if (part.startsWith(MARK)) tokens.push(...this.spelled(part));
      else for (const [word] of part.matchAll(this.words)) tokens.push(...this.of(word));
    }
    return Uint16Array.from(tokens);
  }

  of(word) {
    if (!this.cache.has(word)) {
      if (this.cache.size >= MOST_CACHED) this.cache.clear();
      const parts = this.split(this, Array.from(word));
      const tokens = parts.flatMap((part) => this.tokens.get(part) ?? this.spelled(part));
      this.cache.set(word, tokens);
    }
    return this.cache.get(word);
  }

  spelled(text) {
    return Array.from(this.encoder.encode(text), (byte) => this.bytes[byte]);
  }
}

// Byte-pair encoding: merge the neighbours that make the piece of the best score, the leftmost
// first, until none do.
function merged(vocabulary, letters) {
  const parts = [...letters], after = letters.map((_, at) => at + 1);
  const before = letters.map((_, at) => at - 1), queue = new Queue();
  const offer = (left, right) => {
    if (left < 0 || right >= parts.length) return;
    const piece = parts[left] + parts[right], score = vocabulary.score(piece);
    if (score !== undefined) queue.add({ score, left, right, size: piece.length });
  };
  for (let at = 1; at < parts.length; at++) offer(at - 1, at);
  for (let best; (best = queue.take()); ) {
    const { left, right, size } = best;
    if (parts[left] === null || parts[right] === null) continue;
    if (parts[left].length + parts[right].length !== size) continue; // merged with others since
    parts[left] += parts[right];
    parts[right] = null;
    after[left] = after[right];
    if (after[right] < parts.length) before[after[right]] = left;
    offer(before[left], left);
    offer(left, after[left]);
  }
  return parts.filter((part) => part !== null);
}

// A heap: the best score first, of equal ones the leftmost.
class Queue {
  items = [];

  static isFirst(one, other) {
    return one.score > other.score || (one.score === other.score && one.left < other.left);
  }

  add(item) {
    const { items } = this;
    let at = items.push(item) - 1;
    for (let up; at > 0 && Queue.isFirst(item, items[(up = (at - 1) >> 1)]); at = up)
      items[at] = items[up];
    items[at] = item;
  }

  take() {
    const { items } = this, first = items[0], last = items.pop();
    if (!items.length) return first;
    let at = 0;
    for (let down; (down = 2 * at + 1) < items.length; at = down) {
      if (down + 1 < items.length && Queue.isFirst(items[down + 1], items[down])) down++;
      if (!Queue.isFirst(items[down], last)) break;
      items[at] = items[down];
    }
    items[at] = last;
    return first;
  }
}

// Unigram: the split whose pieces have the highest sum of scores, in single precision.
function likeliest(vocabulary, letters) {
  const best = [{ score: 0, from: 0 }];
  for (let from = 0; from < letters.length; from++) {
    let piece = "";
    for (let to = from + 1; to <= Math.min(from + vocabulary.longest, letters.length); to++) {
      piece += letters[to - 1];
      const own = vocabulary.score(piece) ?? (to === from + 1 ? vocabulary.unknown : undefined);
      if (own === undefined) continue;
      const score = Math.fround(best[from].score + own);
      if (!best[to] || score > best[to].score) best[to] = { score, from };
    }
  }
  const parts = [];
  for (let to = letters.length; to > 0; to = best[to].from)
    parts.unshift(letters.slice(best[to].from, to).join(""));
  return parts;
}
