"use strict";
// Log-odds from the words of a text or its letters, as mlstm_sentiment/head/ngrams.py computes them.

const LONGEST = 2; // words of an n-gram
const LETTERS = [2, 3]; // in a run of letters
const LARGEST = 30; // log-odds; no text is surer
const IGNORED = /[\p{M}'’]/gu, SIGN = /[\p{P}\p{S}\p{Cn}]/gu;
const BETWEEN = /[\p{Z}\p{Cc}\p{Cf}\p{Co}\p{Cs}]+/gu;

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = (rest >>> 1) ^ (rest & 1 ? 0xedb88320 : 0);
  return rest;
});

function crc32(bytes) {
  let rest = 0xffffffff;
  for (const byte of bytes) rest = (rest >>> 8) ^ CRC_TABLE[(rest ^ byte) & 0xff];
  return (rest ^ 0xffffffff) >>> 0;
}

// The words of a text in lower case without accents; each sign is a word.
function wordsOf(text) {
  const letters = Array.from(text.normalize("NFKD"), (letter) => letter.toLowerCase()).join("");
  const spaced = letters.replace(IGNORED, "").replace(SIGN, " $& ").replace(BETWEEN, " ");
  return spaced.split(" ").filter((word) => word);
}

// The words of a text and the pairs of neighbours, given word by word.
function wordsAndPairs() {
  const recent = [];
  return (word) => {
    recent.push(word);
    const ngrams = recent.map((_, first) => recent.slice(first).join(" "));
    if (recent.length === LONGEST) recent.shift();
    return ngrams;
  };
}

// The runs of letters of a word, with a blank on both sides of it.
const runsOfLetters = () => (word) => {
  if (/[^\p{L}]/u.test(word)) return [];
  const letters = Array.from(` ${word} `);
  return LETTERS.flatMap((size) =>
    letters.slice(size - 1).map((_, first) => letters.slice(first, first + size).join("")));
};

// The weights of the n-grams. begin: returns a function from each word to the n-grams that it ends.
class Ngrams {
  constructor(weights, scale, begin = wordsAndPairs) {
    Object.assign(this, { weights, scale, begin, encoder: new TextEncoder() });
    this.decoder = new TextDecoder("utf-8", { ignoreBOM: true }); // a BOM is a character here
  }

  // The log-odds of a text, given as bytes.
  logOdds(bytes) {
    return new Bag(this).add(bytes).logOdds;
  }
}

// The distinct n-grams of a text that grows word by word.
class Bag {
  constructor(ngrams) {
    Object.assign(this, { ngrams, size: 0, ending: ngrams.begin(), buckets: new Set(), sum: 0 });
  }

  // Add the words of the bytes that follow; between two calls a word has ended.
  add(bytes) {
    this.size += bytes.length;
    for (const word of wordsOf(this.ngrams.decoder.decode(bytes)))
      for (const ngram of this.ending(word)) this.count(ngram);
    return this;
  }

  count(ngram) {
    const { weights, encoder } = this.ngrams;
    const bucket = crc32(encoder.encode(ngram)) % weights.length;
    if (this.buckets.has(bucket)) return;
    this.buckets.add(bucket);
    this.sum += weights[bucket];
  }

  get logOdds() {
    const logOdds = (this.ngrams.scale * this.sum) / Math.sqrt(Math.max(this.buckets.size, 1));
    return Math.fround(Math.max(-LARGEST, Math.min(logOdds, LARGEST))); // fp32, as in Python
  }
}
