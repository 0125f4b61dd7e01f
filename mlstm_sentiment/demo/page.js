// The page: colours texts while the model reads them, and handles the controls.

const LENGTH = 300; // characters that the model writes at most at one time
const SPEAK_AFTER = 900; // milliseconds without typing until a screen reader reads the result
const MOST_CHARACTERS = 10000; // of a text: each is an element of the page
const FULL = `only the first ${MOST_CHARACTERS.toLocaleString("en")} characters are read`;
const NO_ANSWER = "no answer"; // no text, or a placeholder
const UNFAMILIAR = "too short, or unlike the texts that the model knows";
const HALF_AT_END = /[\ud800-\udbff]$/; // of an emoji: JavaScript counts it as two characters
const DOWN = 0.68, UP = 0.6; // of a letter's size: from it to the curve's zero, and the curve's height
const REPAINT_EVERY = 120; // milliseconds, while the model reads a long text

const find = (id) => document.getElementById(id);
const about = JSON.parse(find("data").textContent);
const worker = new Worker(
  URL.createObjectURL(new Blob([find("worker").textContent], { type: "text/javascript" })));
const panels = new Map(); // slot: Panel
let hear = null; // passes the worker's answers on to the browser's console
let unit = about.unit, shadedBy = "unit", current = null, writer = null, serial = 0;

const binary = (id) => Uint8Array.from(atob(find(id).textContent), (c) => c.charCodeAt(0)).buffer;
const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(2);
const clipped = (value) => Math.max(-1, Math.min(1, value));
const isKnown = () => unit === about.head?.neuron.index; // do we know what its high values mean?
const polarity = () => (isKnown() ? about.head.neuron.polarity : 1);
const limit = () => about.limits[unit];

// One text with its letters, its values and its elements of the page.
class Panel {
  constructor(slot, name) {
    this.slot = slot;
    this.pieces = [];
    this.values = [];
    this.odds = [];
    this.unpainted = Infinity; // the first byte whose letter shows an old value
    this.verdict = null; // the result for the whole text, once it is read
    this.element = find("panel").content.cloneNode(true).firstElementChild;
    this.text = this.element.querySelector("textarea");
    this.mirror = this.element.querySelector(".mirror");
    this.zero = this.element.querySelector(".trace text");
    this.text.id = "text" + slot;
    this.text.maxLength = MOST_CHARACTERS;
    this.name(name);
    this.element.querySelector(".close").hidden = slot === 0;
    this.element.querySelector(".close").onclick = () => (uncompare(), current.text.focus());
    this.text.oninput = () => this.changed();
    this.text.onfocus = () => {
      current = this;
      this.leaving = false;
    };
    this.text.onkeydown = (event) => this.pressed(event);
    find("panels").append(this.element);
    new ResizeObserver(() => this.draw()).observe(this.mirror);
    labelReadout(this);
  }

  name(name) {
    this.element.querySelector("h2").textContent = name;
    this.text.setAttribute("aria-label", name);
  }

  set(text) {
    this.text.value = text.slice(0, MOST_CHARACTERS).replace(HALF_AT_END, "");
    this.changed();
  }

  // Read the text as it is now, also what the model itself has written.
  changed(byModel = false) {
    if (!byModel) stop();
    const { bytes, pieces, suffix, noAnswer } = encode(this.text.value, about);
    this.pieces = pieces;
    this.noAnswer = noAnswer;
    this.serial = ++serial;
    this.verdict = this.coming = null;
    this.letters();
    worker.postMessage({ order: "read", slot: this.slot, serial, bytes, suffix });
    sayIfFull();
    remember();
  }

  // Show the pieces in the mirror; elements of unchanged text stay.
  letters() {
    const spans = this.mirror.children, { lastChild } = this.mirror;
    if (lastChild && lastChild.nodeType === Node.TEXT_NODE) lastChild.remove();
    this.pieces.forEach((piece, index) => {
      const span = spans[index] ?? this.mirror.appendChild(document.createElement("span"));
      if (span.textContent === piece.shown) return;
      span.textContent = piece.shown;
      uncolour(span);
      this.unpainted = Math.min(this.unpainted, Math.max(piece.end, 0)); // and all that moved with it
    });
    while (spans.length > this.pieces.length) spans[spans.length - 1].remove();
    if (this.text.value.endsWith("\n")) this.mirror.append("\u200b"); // height for an empty last line
  }

  // Store the worker's values of the bytes from a place on; the next frame shows them.
  take({ serial, from, values, odds, done, verdict }) {
    this.values.splice(from, Infinity, ...values); // what comes after is of an earlier text or unit
    this.odds.splice(from, Infinity, ...odds);
    this.unpainted = Math.min(this.unpainted, from);
    if (done && serial === this.serial) this.coming = verdict;
    if (done) requestAnimationFrame(() => this.show());
    else this.waiting ??= setTimeout(() => this.show(), REPAINT_EVERY);
  }

  show() {
    this.waiting = clearTimeout(this.waiting);
    if (this.unpainted < Infinity) this.paint(this.unpainted);
    this.unpainted = Infinity;
    if (!this.coming) return;
    this.verdict = this.coming;
    this.coming = null;
    this.tell();
  }

  // The position on the colour scale, -1 to 1, of a byte's letter.
  level(byte) {
    if (shadedBy === "unit") return clipped((polarity() * this.values[byte]) / limit());
    return beyond(sigmoid(this.odds[byte]), about.head.threshold);
  }

  paint(from = 0) {
    this.pieces.forEach(({ end }, index) => {
      const span = this.mirror.children[index];
      if (end < 0) return uncolour(span); // never read
      if (end < from) return;
      const level = this.level(end);
      if (Number.isNaN(level)) return uncolour(span); // not read yet
      span.className = level < 0 ? "low" : "high";
      span.style.setProperty("--share", Math.abs(level).toFixed(3));
    });
    this.draw();
  }

  // The curve under the letters of every line, over a line for zero.
  draw() {
    const box = this.mirror.getBoundingClientRect(), size = parseFloat(getComputedStyle(this.mirror).fontSize);
    const lines = [];
    let line, place;
    this.pieces.forEach(({ end }, index) => {
      const level = end < 0 ? NaN : this.level(end);
      const rect = [...this.mirror.children[index].getClientRects()].at(-1);
      if (Number.isNaN(level) || !rect?.width) return;
      const x = rect.left + rect.width / 2 - box.left, zero = rect.bottom - box.top + DOWN * size;
      // Another line of the text; or where its direction turns, a jump.
      const isApart = !line || Math.abs(zero - line.zero) > size / 2 || Math.abs(x - place) > 4 * size;
      if (isApart) lines.push((line = { zero, xs: [], ys: [] }));
      place = x;
      line.xs.push(x);
      line.ys.push(zero - UP * size * level);
    });
    const paths = { zero: "", area: "", line: "" };
    for (const { zero, xs, ys } of lines) {
      const [first, last] = [xs[0], xs.at(-1)].map((x) => x.toFixed(1));
      const points = xs.map((x, index) => `${x.toFixed(1)},${ys[index].toFixed(1)}`).join("L");
      paths.zero += `M${first},${zero.toFixed(1)}H${last}`;
      paths.line += `M${points}`;
      paths.area += `M${first},${zero.toFixed(1)}L${points}L${last},${zero.toFixed(1)}Z`;
    }
    for (const [name, path] of Object.entries(paths))
      this.element.querySelector(`.${name}`).setAttribute("d", path);
    this.element.querySelector(".trace g").replaceChildren(...lines.map(({ zero, xs }) => {
      const mark = this.zero.cloneNode(true);
      mark.setAttribute("x", Math.min(...xs) - size / 2);
      mark.setAttribute("y", zero + size / 6);
      return mark;
    }));
  }

  get probability() {
    return this.verdict && about.head ? sigmoid(this.verdict.odds) : null;
  }

  // The one answer for the text, in a word.
  get word() {
    return this.noAnswer ? NO_ANSWER : this.verdict.word;
  }

  // Show the result for the text, and after a pause read it out.
  tell() {
    const value = polarity() * this.verdict.value, { probability } = this;
    const part = (name) => this.element.querySelector(name);
    gauge(part(".unit"), signed(value), 0.5 + clipped(value / limit()) / 2);
    let said = `unit ${unit} at ${signed(value)}`;
    if (probability !== null) {
      const { classes, threshold } = about.head, { word, noAnswer } = this;
      const shown = noAnswer ? "–" : percent(probability);
      gauge(part(".probability"), shown, noAnswer ? threshold : probability, threshold);
      const rule = threshold === 0.5 ? "" : ` (threshold ${Number(threshold.toPrecision(3))})`;
      const more = {
        [NO_ANSWER]: `: ${noAnswer}`,
        unfamiliar: `: ${UNFAMILIAR}`,
        neutral: ` (${percent(sigmoid(this.verdict.neutral))})`,
      }[word] ?? rule;
      const words = `label: ${word}${more}`;
      part(".label").textContent = words;
      said = noAnswer ? words : `${shown} ${classes[1]}, ${words}, ${said}`;
    }
    part(".trace").setAttribute("aria-label", `letter by letter; at the end ${said}`);
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => (part(".spoken").textContent = said), SPEAK_AFTER);
    difference();
  }

  pressed(event) {
    if (event.key === "Escape") {
      this.leaving = !writer; // the next Tab leaves the text field
      stop();
    } else if (event.key === "Tab" && !event.shiftKey && !this.leaving) {
      event.preventDefault();
      writeOn(this);
    } else if (event.key !== "Tab") this.leaving = false;
  }
}

function uncolour(span) {
  span.className = "";
  span.style.removeProperty("--share");
}

function percent(probability) {
  if (probability < 0.001 || probability > 0.999) return probability < 0.5 ? "< 0.1 %" : "> 99.9 %";
  return `${(100 * probability).toFixed(1)} %`;
}

// How far a probability lies beyond the threshold, at which label and colour change: -1 to 1.
function beyond(probability, threshold) {
  const gap = probability - threshold;
  return gap / ((gap > 0 ? 1 - threshold : threshold) || 1);
}

// Show a number, and a bar from one place to another, 0 to 1.
function gauge(element, text, to, from = 0.5) {
  element.querySelector("strong").textContent = text;
  element.querySelector("i").className = to < from ? "low" : "high";
  const { style } = element.querySelector(".gauge");
  style.setProperty("--from", from.toFixed(3));
  style.setProperty("--to", to.toFixed(3));
}

function labelReadout({ element }) {
  const positive = element.querySelector(".probability");
  positive.hidden = !about.head;
  if (about.head) positive.querySelector(".name").textContent = about.head.classes[1];
  element.querySelector(".unit .name").textContent = `unit ${unit}`;
}

// -- writing

async function writeOn(panel) {
  stop();
  await ready;
  if (panels.get(panel.slot) !== panel) return; // removed while the model was loading
  // A piece of a word includes the space before it; a cleaned text ends in none.
  const isTrimmed = about.profile.clean || about.vocabulary;
  const text = isTrimmed ? panel.text.value.trimEnd() : panel.text.value;
  if (text !== panel.text.value) panel.set(text);
  writer = { panel, number: ++serial, count: 0 };
  find("write").textContent = "Stop";
  say("writing");
  const { slot } = panel, { number } = writer;
  worker.postMessage({ order: "write", slot, number, length: LENGTH, ...manner() });
}

function manner() {
  const value = polarity() * Number(find("value").value);
  return {
    temperature: Number(find("temperature").value),
    clamp: find("clamp").checked ? { unit, value } : null,
  };
}

// The sliders also work while the model writes.
function steer() {
  if (writer) worker.postMessage({ order: "steer", ...manner() });
}

function stop() {
  if (!writer) return;
  writer = null;
  worker.postMessage({ order: "stop" });
  find("write").textContent = "Continue the text";
  say("");
}

function written({ number, written: text, ended }) {
  if (number !== writer?.number) return; // from a writer that was stopped
  if (ended) return ending();
  const { panel } = writer, { text: area } = panel;
  if (area.value.length + text.length > MOST_CHARACTERS) {
    stop();
    return say(FULL);
  }
  const atEnd = area.selectionEnd === area.value.length;
  area.value += text;
  if (atEnd) area.setSelectionRange(area.value.length, area.value.length);
  writer.count += text.length;
  panel.changed(true);
}

function ending() {
  const { count } = writer;
  stop();
  say(count < LENGTH ? "the model has ended the review" : `${count} characters written`);
}

// -- two texts

function compare(text = "") {
  if (!panels.has(1)) panels.set(1, new Panel(1, "Second text"));
  panels.get(0).name("First text");
  panels.get(1).set(text);
  find("compare").hidden = true;
}

function uncompare() {
  stop();
  panels.get(1).element.remove();
  panels.delete(1);
  worker.postMessage({ order: "forget", slot: 1 });
  panels.get(0).name("Your text");
  find("compare").hidden = false;
  difference();
  sayIfFull();
  remember();
  current = panels.get(0);
}

function difference() {
  const line = find("difference"), [one, other] = [panels.get(0), panels.get(1)];
  // Of an empty text there is nothing to say.
  line.hidden = ![one, other].every((panel) => panel?.verdict && panel.text.value.trim());
  if (line.hidden) return;
  const higher = (gap) => (gap < 0 ? "second" : "first");
  const gap = polarity() * (one.verdict.value - other.verdict.value);
  const by = Math.abs(gap).toFixed(2); // what rounds to nothing is equal
  const words = [`Unit ${unit}: the ${higher(gap)} text is higher by ${by}.`];
  if (!Number(by)) words[0] = `Unit ${unit}: both texts are equally high.`;
  if (about.head) {
    const difference = one.probability - other.probability, likely = `likely ${about.head.classes[1]}`;
    const points = (100 * Math.abs(difference)).toFixed(1);
    const more = `The ${higher(difference)} text is more ${likely}, by ${points} points.`;
    words.unshift(Number(points) ? more : `Both texts are equally ${likely}.`);
  }
  line.textContent = words.join(" ");
}

// -- the address

let remembering = 0;

function remember() {
  clearTimeout(remembering);
  remembering = setTimeout(() => {
    const address = fragment();
    if (location.hash.slice(1) !== address) history.replaceState(null, "", "#" + address);
  }, 400);
}

function fragment() {
  const parts = new URLSearchParams();
  parts.set("text", panels.get(0).text.value);
  if (panels.has(1)) parts.set("with", panels.get(1).text.value);
  if (unit !== about.unit) parts.set("unit", unit);
  return parts.toString();
}

// Show the texts that the address names; return whether it names any.
function recall() {
  const parts = new URLSearchParams(location.hash.slice(1));
  if (!parts.has("text")) return false;
  look(Number(parts.get("unit") ?? about.unit));
  panels.get(0).set(parts.get("text"));
  if (parts.has("with")) compare(parts.get("with"));
  else if (panels.has(1)) uncompare();
  return true;
}

async function share() {
  history.replaceState(null, "", "#" + fragment());
  try {
    await navigator.clipboard.writeText(location.href);
    say("the link is copied");
  } catch {
    say("the link is this page's address");
  }
}

// -- settings

function look(number) {
  if (!Number.isInteger(number) || number < 0 || number >= about.units) return;
  unit = number;
  find("unit").value = unit;
  find("clamped-unit").textContent = unit;
  find("note").textContent = isKnown()
    ? `High values mean ${about.head.classes[1]}; if needed, the unit's sign is flipped.`
    : "We do not know what high values of this unit mean; its sign is not flipped.";
  [find("low").textContent, find("high").textContent] = unitPoles();
  legend();
  const slider = find("value"), most = 2 * limit();
  Object.assign(slider, { min: -most, max: most, step: most / 40, value: limit() });
  slider.oninput();
  panels.forEach(labelReadout);
  worker.postMessage({ order: "unit", unit });
  remember();
}

const unitPoles = () => (isKnown() ? about.head.classes : ["low", "high"]);

function legend() {
  const poles = shadedBy === "unit" ? unitPoles() : about.head.classes;
  [find("lowest").textContent, find("highest").textContent] = poles;
  const meansNothing = poles !== about.head?.classes; // green and red would mislead
  const palette = meansNothing || find("palette").checked ? "blue-orange" : "";
  document.documentElement.dataset.palette = palette;
}

function say(text) {
  find("status").textContent = text;
}

// Say so while a text is as long as it may be: one place is left where half an emoji would stand.
function sayIfFull() {
  const isFull = ({ text }) => text.value.length >= MOST_CHARACTERS - 1;
  if ([...panels.values()].some(isFull)) say(FULL);
  else if (find("status").textContent === FULL) say("");
}

function controls() {
  for (const text of about.examples) {
    const chip = document.createElement("button");
    chip.textContent = text;
    chip.onclick = () => panels.get(0).set(text);
    find("examples").append(chip);
  }
  find("value").oninput = () => {
    find("clamped").textContent = signed(Number(find("value").value));
    find("value").setAttribute("aria-valuetext", find("clamped").textContent);
    steer();
  };
  find("temperature").oninput = () => {
    find("warmth").textContent = Number(find("temperature").value).toFixed(2);
    steer();
  };
  find("temperature").oninput();
  find("clamp").onchange = steer;
  find("value").onpointerdown = find("value").onkeydown = () => (find("clamp").checked = true);
  find("unit").max = about.units - 1;
  find("unit").onchange = ({ target }) => {
    look(target.valueAsNumber);
    target.value = unit; // also if the number typed is no unit
  };
  find("palette").onchange = legend;
  find("shade").hidden = !about.head;
  find("shade").onchange = ({ target }) => {
    shadedBy = target.value;
    legend();
    panels.forEach((panel) => panel.paint());
  };
  find("write").onclick = () => (writer ? stop() : writeOn(current));
  find("compare").onclick = () => {
    compare();
    panels.get(1).text.focus();
  };
  find("share").onclick = share;
  addEventListener("hashchange", () => location.hash.slice(1) !== fragment() && recall());
}

// -- for the browser's console and for tests: the model without the page

const received = { values: [], odds: [] }; // the worker sends only what differs from the last text

// Read a text; return the unit's value and the probability as Python does, and those of every byte.
function read(text) {
  const { bytes, suffix, noAnswer } = encode(text, about);
  return asked("read", { bytes, suffix }, (answer, done) => {
    for (const name of ["values", "odds"])
      received[name].splice(answer.from, Infinity, ...answer[name]);
    if (!answer.done) return;
    const { value, odds } = answer.verdict;
    const probability = odds === null ? null : sigmoid(odds);
    const chance = answer.verdict.neutral ?? null;
    const neutral = chance === null ? null : sigmoid(chance);
    const word = odds !== null && noAnswer ? NO_ANSWER : answer.verdict.word;
    const { values } = received;
    done({ bytes: [...bytes], value, probability, neutral, word, values: [...values], odds: [...received.odds] });
  });
}

// Continue a text, without pauses for the eye; clamp: {unit, value} or null.
async function write(text, { length = 100, temperature = 0, clamp = null } = {}) {
  await read(text);
  let all = "";
  const order = { length, temperature, clamp, pace: 0 };
  return asked("write", order, ({ written: more = "", ended }, done) => {
    all += more;
    if (ended) done(all);
  });
}

async function asked(order, details, take) {
  await ready;
  return new Promise((done) => {
    hear = (answer) => take(answer, done);
    worker.postMessage({ order, slot: "console", ...details });
  });
}

let before = Promise.resolve(); // the console's call before

// The worker keeps one text for the console, so calls wait for each other.
const inTurn = (call) => (...details) =>
  (before = before.catch(() => {}).then(() => call(...details)));

// -- the start

const ready = new Promise((begun, failed) => {
  worker.onmessage = ({ data }) => {
    if (data.ready) begun();
    else if (data.failed) failed(new Error(data.failed));
    else if (data.slot === "console") hear(data);
    else if ("verdict" in data) panels.get(data.slot)?.take(data);
    else written(data);
  };
});

controls();
panels.set(0, (current = new Panel(0, "Your text")));
say("loading the model");
{
  const [module, packed] = [binary("module"), binary("weights")];
  worker.postMessage({ order: "start", module, packed, about }, [module, packed]);
}
look(unit);
if (!recall()) panels.get(0).set(about.examples[0]);
ready.then(() => say("")).then(
  sayIfFull, (error) => say(`the model could not start: ${error.message}`));
window.sentimentNeuron = { ready, read: inTurn(read), write: inTurn(write) };
