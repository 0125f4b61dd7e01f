// node heatmap.mjs PAGE < data.json: a heatmap's script on stand-ins for the elements that it uses.
// data: the texts that the page shows. Prints each text's spans: character, class, share, description.
import fs from "node:fs";
import vm from "node:vm";

class Element {
  constructor(textContent = "") {
    Object.assign(this, { textContent, children: [], listeners: {}, dataset: {}, attributes: {} });
    this.style = { setProperty: (name, value) => (this.style[name] = value) };
  }
  append(...children) {
    for (const child of children) (this.children.push(child), (child.parentElement = this));
  }
  replaceChildren(fragment) {
    this.children = [];
    this.append(...fragment.children);
  }
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  addEventListener(name, listener) {
    this.listeners[name] = listener;
  }
}

const page = fs.readFileSync(process.argv[2], "utf8");
const data = page.match(/<script type="application\/json" id="data">([^]*?)<\/script>/)[1];
const boxes = JSON.parse(fs.readFileSync(0, "utf8")).map((text) => new Element(text));
const named = { data: new Element(data), unit: Object.assign(new Element(), { value: "0" }) };
globalThis.document = {
  getElementById: (id) => (named[id] ??= new Element()),
  createElement: () => new Element(),
  createDocumentFragment: () => new Element(),
  querySelectorAll: (query) => (query === ".text" ? boxes : []),
  querySelector: () => null,
  documentElement: new Element(),
};
vm.runInThisContext(page.match(/<script>([^]*?)<\/script>/)[1]);
const units = JSON.parse(data).units.length;
const shown = [];
for (let unit = 0; unit < units; unit++) {
  named.unit.value = String(unit);
  named.unit.listeners.change();
  shown.push(boxes.map((box) => box.children.map((span) => {
    box.listeners.mouseover({ target: span });
    return [span.textContent, span.className, Number(span.style["--share"]), span.title];
  })));
}
console.log(JSON.stringify(shown));
