"use strict";
// Turns a text into the bytes that the model reads, as mlstm_sentiment/text does in Python.

const ENCODER = new TextEncoder();
const GRAPHEMES = new Intl.Segmenter(undefined, { granularity: "grapheme" });
// What Python's html.unescape finds, and what its str.strip removes.
const REFERENCE = /&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\t\n\f <&#;]{1,32};?)/gu; // u: counted in code points
const BLANK =
  "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]*";
const LEADING = new RegExp("^" + BLANK), TRAILING = new RegExp(BLANK + "$");
const DROPPED = /^[\x01-\x08\x0b\x0e-\x1f\x7f]$|^\p{Noncharacter_Code_Point}$/u; // as numeric references

// Return the bytes of a text after the profile's prefix, less its HTML tags, and its pieces: each has
// what is shown as one character, and the position of its last byte, -1 if the model does not read it.
// noAnswer: why it is no answer, or "".
function encode(text, { profile, tags, placeholders }) {
  const plain = withoutTags(text, tags);
  const pieces = profile.clean ? cleaned(plain.text) : graphemes(plain.text);
  const whole = pieces.map((piece) => piece.read).join("");
  const first = profile.clean ? LEADING.exec(whole)[0].length : 0;
  const last = profile.clean ? Math.max(first, TRAILING.exec(whole).index) : whole.length;
  const parts = [utf8(profile.prefix)];
  let place = 0, count = parts[0].length;
  for (const piece of pieces) {
    const begin = Math.max(place, first), end = Math.min(place + piece.read.length, last);
    const part = utf8(whole.slice(begin, Math.max(begin, end)));
    place += piece.read.length;
    count += part.length;
    piece.end = part.length ? count - 1 : -1;
    parts.push(part);
  }
  const shown = plain.origins ? withHidden(text, pieces, plain.origins) : pieces;
  return { bytes: joined(parts, count), pieces: shown, suffix: utf8(profile.suffix),
    noAnswer: reasonOfNoAnswer(plain.text, placeholders) };
}

// Return why a text is no answer, as mlstm_sentiment/reading/no_answer.py does without a header; "" for an answer.
function reasonOfNoAnswer(text, { no_text, cells }) {
  const blanks = new RegExp(BLANK.replace(/\*$/, "+"), "g");
  const single = text.replace(REFERENCE, reference).replace(blanks, " ").replace(/^ | $/g, "");
  const plain = single.toUpperCase().toLowerCase().replaceAll("\u2019", "'");
  if (!plain) return no_text;
  const bare = plain.replace(/^[ .!'"\u201c\u201d]+|[ .!'"\u201c\u201d]+$/g, "");
  const cell = [plain, bare].find((each) => Object.hasOwn(cells, each));
  return cell === undefined ? "" : cells[cell];
}

// Return a text without its HTML tags, as Python does, and where each character of it was, -1 for a
// space in the place of a tag; without these places if it has no tags.
function withoutTags(text, { marked_up, block, inline }) {
  if (!new RegExp(marked_up, "i").test(text)) return { text };
  let plain = text;
  let origins = Array.from({ length: text.length }, (_, index) => index); // of UTF-16
  const replace = (pattern, by) => {
    let from = 0, left = "", places = [];
    for (const match of plain.matchAll(pattern)) {
      left += plain.slice(from, match.index) + by;
      places = places.concat(origins.slice(from, match.index), by ? [-1] : []);
      from = match.index + match[0].length;
    }
    plain = left + plain.slice(from);
    origins = places.concat(origins.slice(from));
  };
  replace(new RegExp(inline, "gi"), "");
  replace(new RegExp(block, "gi"), " ");
  replace(new RegExp(BLANK.replace(/\*$/, "{2,}"), "g"), " ");
  replace(new RegExp(LEADING, "g"), "");
  replace(new RegExp(TRAILING, "g"), "");
  return { text: plain, origins };
}

// Return the pieces of a text without tags, and between them what was left out of the text.
function withHidden(text, pieces, origins) {
  const all = [], hide = (from, to) => {
    if (to > from) all.push({ shown: text.slice(from, to), read: "", end: -1 });
  };
  let place = 0, at = 0;
  for (const piece of pieces) {
    const own = origins.slice(place, (place += piece.shown.length)).filter((index) => index >= 0);
    if (own.length) hide(at, own[0]);
    all.push({ ...piece, shown: own.length ? text.slice(own[0], own.at(-1) + 1) : "" });
    if (own.length) at = own.at(-1) + 1;
  }
  hide(at, text.length);
  return all;
}

function graphemes(text) {
  return Array.from(GRAPHEMES.segment(text), ({ segment }) => ({ shown: segment, read: segment }));
}

// Resolves HTML references and turns line breaks into spaces.
function cleaned(text) {
  const pieces = [];
  let from = 0;
  for (const match of text.matchAll(REFERENCE)) {
    pieces.push(...graphemes(text.slice(from, match.index)));
    const read = reference(match[0]);
    if (read === match[0]) pieces.push(...graphemes(read));
    else pieces.push({ shown: match[0], read });
    from = match.index + match[0].length;
  }
  pieces.push(...graphemes(text.slice(from)));
  for (const piece of pieces) piece.read = piece.read.replaceAll("\n", " ");
  return pieces;
}

function reference(text) {
  const parser = document.createElement("textarea");
  parser.innerHTML = text;
  const read = parser.textContent; // value would turn a carriage return into a line break
  return text[1] === "#" && DROPPED.test(read) ? "" : read;
}

function utf8(text) {
  return ENCODER.encode(text.replace(/\p{Surrogate}/gu, "?")); // lone surrogates, as in Python
}

function joined(parts, count) {
  const bytes = new Uint8Array(count);
  let place = 0;
  for (const part of parts) {
    bytes.set(part, place);
    place += part.length;
  }
  return bytes;
}
