// The page's state: filters, sorting and choices. It is kept in the address, so that a link shows the same page.

const data = JSON.parse(document.getElementById("data").textContent);
const LISTS = ["verdict", "target", "allowed"];
const FIELDS = ["operator", "version", "type", "group", "text"];
const TEXTS = [...FIELDS, "sort", "rows", "grid"];
const state = {};
const listeners = [];

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of LISTS) state[name] = new Set((given.get(name) || "").split(",").filter(Boolean));
  for (const name of TEXTS) state[name] = given.get(name) || "";
}

function writeAddress() {
  const kept = new URLSearchParams();
  for (const name of LISTS) if (state[name].size) kept.set(name, [...state[name]].join(","));
  for (const name of TEXTS) if (state[name]) kept.set(name, state[name]);
  const hash = kept.toString();
  history.replaceState(null, "", hash ? "#" + hash : location.pathname + location.search);
}

// Change some of the state and tell everything that shows it.
function change(changes) {
  Object.assign(state, changes);
  writeAddress();
  for (const listener of listeners) listener(changes);
}

function byId(id) {
  return document.getElementById(id);
}

// Make an element: make("td", {class: "number"}, "text", child). Text is never read as HTML.
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function sign(verdict) {
  return make("span", { class: `sign v-${verdict}`, "aria-hidden": "true" }, data.verdicts[verdict].sign);
}

function short(number) {
  if (Math.abs(number) < 10000) return String(Number(number.toPrecision(4)));
  return number.toExponential(1).replace(".0e", "e").replace("e+", "e");
}

// The parts of a key such as "onnx.Pow-15/float32,int64".
function parts(key) {
  const [operator, types] = key.split("/");
  const cut = operator.lastIndexOf("-");
  return { family: operator.slice(0, cut), version: operator.slice(cut + 1), operator, types: types.split(",") };
}

// Whether the filters of operator, version and type let a key pass.
function keyPasses(key) {
  const found = parts(key);
  return (!state.operator || found.family === state.operator)
    && (!state.version || found.version === state.version)
    && (!state.type || found.types.includes(state.type));
}

function targetPasses(number) {
  return !state.target.size || state.target.has(String(number));
}

function verdictPasses(verdict) {
  return !state.verdict.size || state.verdict.has(verdict);
}

function textPasses(...texts) {
  const wanted = state.text.toLowerCase();
  return !wanted || texts.some((text) => text && text.toLowerCase().includes(wanted));
}
