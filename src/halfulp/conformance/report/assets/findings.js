// The findings: as many rows as are looked at, and a finding's details only once it is opened.

const STEP = 100;
const findings = byId("t-findings");
const narrow = matchMedia("(max-width: 40rem)");
let shownCases = [];
let drawn = 0;

const allCases = data.cases.map((found) => {
  const [operator, types, group] = found.id.split("/");
  const example = found.example;
  const gist = example
    ? `${example.inputs.map((input) => input.value).join(", ")} gives ${example.got.value}, not ${example.expected.value}`
    : found.message || (found.clause ? `breaks ${found.clause}` : "");
  return { ...found, key: `${operator}/${types}`, group, gist, words: `${found.id}\n${found.message || ""}\n${gist}` };
});

const sortValues = {
  verdict: (found) => [data.verdicts[found.verdict].urgency, found.allowed ? 0 : 1, special(found) ? 1 : 0, found.max_ulp || 0, found.wrong || 0],
  id: (found) => [data.order[found.key], found.id],
  target: (found) => [found.target],
  ulp: (found) => [special(found) ? Infinity : found.max_ulp || 0],
  wrong: (found) => [found.elements ? found.wrong / found.elements : 0],
};

function special(found) {
  return Boolean(found.example) && found.example.ulp === null;
}

function showFindings(changes) {
  const changed = Object.keys(changes);
  if (changed.length && changed.every((name) => ["grid", "rows"].includes(name))) return;
  const { name, descending } = parseSort(state.sort, "-verdict");
  const value = sortValues[name] || sortValues.verdict;
  const passing = allCases.filter((found) => targetPasses(found.target) && verdictPasses(found.verdict)
    && (!state.group || found.group === state.group) && !(state.allowed.size && found.allowed)
    && keyPasses(found.key) && textPasses(found.words));
  shownCases = inOrder(passing, value, descending);
  showSort(findings, name, descending);
  drawn = 0;
  findings.tBodies[0].replaceChildren();
  drawMore();
  byId("none").hidden = shownCases.length > 0;
  findings.dataset.count = shownCases.length;
  const rows = compare.dataset.count;
  byId("count").textContent = `${shownCases.length.toLocaleString("en")} of ${allCases.length.toLocaleString("en")} findings, `
    + `${rows} of ${compareRows.length} rows`;
}
listeners.push(showFindings);

function drawMore() {
  const next = shownCases.slice(drawn, drawn + STEP);
  drawn += next.length;
  findings.tBodies[0].append(...next.map(caseRow));
  const left = shownCases.length - drawn;
  byId("more").hidden = left === 0;
  byId("more").textContent = `Show ${Math.min(left, STEP)} more of ${left.toLocaleString("en")}`;
}
byId("more").addEventListener("click", () => {
  const first = drawn;
  drawMore();
  const row = findings.tBodies[0].querySelectorAll("tr.case")[first];
  row.querySelector("button").focus();
});

// How many columns are seen; a narrow page leaves some out.
function columns() {
  return [...findings.tHead.rows[0].cells].filter((cell) => cell.offsetParent !== null).length;
}
narrow.addEventListener("change", () => {
  for (const cell of findings.querySelectorAll("tr.detail > td")) cell.colSpan = columns();
});

// An id that breaks after its parts, where it must.
function idText(id) {
  const code = make("code");
  for (const part of id.split(/(?<=[/,])/)) code.append(part, make("wbr"));
  return code;
}

function caseRow(found) {
  const open = make("button", { type: "button", class: "open", "aria-expanded": "false" }, sign(found.verdict),
    make("span", { class: "word" }, found.verdict), make("span", { class: "unseen" }, `: details of ${found.id}`));
  const ulp = special(found) ? "special" : found.max_ulp ? short(found.max_ulp) : "";
  const wrong = found.elements && found.wrong ? `${found.wrong.toLocaleString("en")} of ${found.elements.toLocaleString("en")}` : "";
  const several = data.targets.length > 1;
  const row = make("tr", { class: "case" }, make("td", {}, open),
    make("td", {}, idText(found.id), found.allowed ? make("span", { class: "tag" }, "allowed") : null,
      several ? make("span", { class: "gist narrow-shows" }, data.targets[found.target]) : null,
      make("span", { class: "gist" }, found.gist)),
    several ? make("td", { class: "narrow-hides" }, data.targets[found.target]) : null,
    make("td", { class: "number" }, ulp), make("td", { class: "number narrow-hides" }, wrong));
  open.addEventListener("click", () => {
    const closed = open.getAttribute("aria-expanded") === "false";
    open.setAttribute("aria-expanded", String(closed));
    if (!closed) row.nextElementSibling.remove();
    else row.after(make("tr", { class: "detail" }, make("td", { colspan: columns() }, ...details(found))));
  });
  return row;
}

function details(found) {
  const facts = [];
  const fact = (name, ...content) => facts.push(make("dt", {}, name), make("dd", {}, ...content));
  const number = (element) => [make("code", {}, element.value), " ", make("code", { class: "bits" }, element.bits)];
  if (found.message) fact("message", found.message);
  if (found.clause) fact("clause", make("code", {}, found.clause));
  fact("shapes", make("code", {}, found.shapes.map((shape) => `[${shape.join(", ")}]`).join(" ")));
  if (Object.keys(found.attributes || {}).length) fact("attributes", make("code", {}, JSON.stringify(found.attributes)));
  if ((found.constants || []).length) fact("constants", `input ${found.constants.join(", ")}`);
  if (found.example) {
    const example = found.example;
    if (example.index.length) fact("at index", make("code", {}, `[${example.index.join(", ")}]`));
    example.inputs.forEach((input, place) => fact(["x", "y"][place] || `input ${place}`, ...number(input)));
    fact("expected", ...number(example.expected), found.confirmed ? ` (${found.confirmed} agrees)` : "");
    fact("got", ...number(example.got));
    if (example.ulp !== null) fact("off by", `${short(example.ulp)} ulp`);
  }
  if (found.elements && found.wrong) fact("wrong", `${found.wrong.toLocaleString("en")} of ${found.elements.toLocaleString("en")} elements`);
  const text = found.program.map((piece) => data.pieces[piece]).join("");
  const copy = copyButton(text);
  return [make("dl", {}, ...facts), make("div", { class: "program" },
    make("div", {}, make("b", {}, "A program that shows it"), copy),
    make("pre", { tabindex: "0", "aria-label": "Program" }, make("code", {}, text)))];
}

function copyButton(text) {
  const button = make("button", { type: "button", class: "copy" }, "Copy");
  button.addEventListener("click", () => copyText(text, button));
  return button;
}

for (const program of document.querySelectorAll(".differing .program")) {
  program.querySelector("pre").before(copyButton(program.querySelector("code").textContent));
}

async function copyText(text, button) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Where the page may not write the clipboard: mark the text, for the person to copy.
    const range = document.createRange();
    range.selectNodeContents(button.closest(".program").querySelector("code"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    done = document.execCommand("copy");
  }
  button.textContent = done ? "Copied" : "Marked";
  byId("announce").textContent = done ? "Program copied" : "Program marked; copy it with the keyboard";
  setTimeout(() => { button.textContent = "Copy"; byId("announce").textContent = ""; }, 2000);
}
sortable(findings, (name, descending) => change({ sort: (descending ? "-" : "") + name }), ["verdict", "ulp", "wrong"]);
