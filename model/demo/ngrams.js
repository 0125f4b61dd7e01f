"use strict";
// What the words of a text add to the log-odds, as model/classifiers/ngrams.py computes it.

const LONGEST = 2; // words of an n-gram
const LARGEST = 30; // log-odds; no text is surer
const IGNORED = /[\p{M}'’]/gu, SIGN = /[\p{P}\p{S}]/gu, BETWEEN = /[\p{Z}\p{C}]+/gu;

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

class Ngrams {
  constructor(weights, scale) {
    Object.assign(this, { weights, scale, encoder: new TextEncoder() });
    this.decoder = new TextDecoder("utf-8", { ignoreBOM: true }); // a BOM is a character here
  }

  // The log-odds of a text, given as bytes.
  logOdds(bytes) {
    const words = wordsOf(this.decoder.decode(bytes)), buckets = new Set();
    for (let length = 1; length <= LONGEST; length++)
      for (let first = 0; first + length <= words.length; first++) {
        const ngram = this.encoder.encode(words.slice(first, first + length).join(" "));
        buckets.add(crc32(ngram) % this.weights.length);
      }
    let sum = 0;
    for (const bucket of buckets) sum += this.weights[bucket];
    const logOdds = (this.scale * sum) / Math.sqrt(Math.max(buckets.size, 1));
    return Math.max(-LARGEST, Math.min(logOdds, LARGEST));
  }
}
