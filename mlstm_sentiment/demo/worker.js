// Runs the model in a thread of its own, so that the page never waits for it.

const SLICE = 30; // milliseconds of reading before it looks for new messages
const PACE = 18; // milliseconds between two written characters, so that one can follow

let engine, unit, pumping = false;
let writer = null; // the one at work
const slots = new Map(); // name: {reading, serial, suffix, sent}

const pause = (milliseconds = 0) => new Promise((done) => setTimeout(done, milliseconds));

const ORDERS = {
  async start({ module, about, packed }) {
    engine = await Engine.create(module, about, packed);
    unit = about.unit;
    postMessage({ ready: true });
  },
  // Read this text; the beginning that was read before is not read again.
  read({ slot, serial, bytes, suffix }) {
    const state = slots.get(slot) ?? { reading: new Reading(engine) };
    const sent = state.reading.aim(bytes);
    slots.set(slot, Object.assign(state, { serial, suffix, sent, pending: true }));
    pump();
  },
  // The next text of this slot is read from its beginning.
  forget({ slot }) {
    slots.delete(slot);
  },
  // Show another unit: the texts are read again.
  unit(order) {
    unit = order.unit;
    for (const slot of slots.values()) {
      slot.reading.restart();
      Object.assign(slot, { sent: 0, pending: true });
    }
    pump();
  },
  // Continue the text of a slot, once it is read.
  async write({ slot, number, length, temperature, clamp, pace = PACE }) {
    const reading = slots.get(slot)?.reading;
    const mine = (writer = new Writer({ temperature, clamp }));
    const goesOn = () => reading && mine === writer; // a forgotten text is never read to its end
    while (goesOn() && !reading.done) await pause(SLICE);
    if (goesOn()) mine.begin(reading.here.copy());
    for (let room = length, ended = false; room > 0 && !ended && goesOn(); ) {
      const [text, ...after] = mine.characters().split("\n"); // which ends a review
      const letters = Array.from(text).slice(0, room);
      ended = after.length > 0;
      room -= letters.length;
      if (letters.length) postMessage({ slot, number, written: letters.join("") });
      await pause(pace * letters.length);
    }
    postMessage({ slot, number, ended: true });
  },
  // Change how it writes while it writes.
  steer({ temperature, clamp }) {
    if (writer) Object.assign(writer, { temperature, clamp });
  },
  stop() {
    writer = null;
  },
};

// Messages wait until the model is loaded.
let started = Promise.resolve();
onmessage = ({ data }) => {
  if (data.order !== "start") return started.then(() => ORDERS[data.order](data));
  started = ORDERS.start(data);
  started.catch((error) => postMessage({ failed: error.message }));
};

async function pump() {
  if (pumping) return;
  pumping = true;
  for (let next; (next = nextPending()); await pause()) advance(...next);
  pumping = false;
}

function nextPending() {
  return [...slots].find(([, slot]) => slot.pending);
}

function advance(name, slot) {
  const { reading, suffix, serial } = slot;
  const done = reading.advance(performance.now() + SLICE, unit);
  const from = slot.sent;
  slot.sent = reading.values.length;
  slot.pending = !done;
  postMessage({
    slot: name, serial, from, done,
    values: reading.values.slice(from),
    odds: reading.odds.slice(from),
    verdict: done ? reading.verdict(suffix, unit) : null,
  });
}
