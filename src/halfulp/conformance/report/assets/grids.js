// The special-value grids of one operator version and types, target by target.

const gridSelect = byId("grid");
const codes = Object.keys(data.verdicts);
const wrongCode = String(codes.indexOf("wrong"));

function wrongIn(key) {
  return Object.entries(data.grids.cells[key]).filter(([target]) => targetPasses(target))
    .reduce((sum, [, [, code]]) => sum + code.split(wrongCode).length - 1, 0);
}

function showGridChoices() {
  const keys = Object.keys(data.grids.cells).filter(keyPasses);
  const counts = new Map(keys.map((key) => [key, wrongIn(key)]));
  // Without a choice: the first of those with the most wrong values.
  const worst = keys.reduce((best, key) => (best === "" || counts.get(key) > counts.get(best) ? key : best), "");
  gridSelect.replaceChildren(...keys.map((key) => {
    const { operator, types } = parts(key);
    const name = `${operator}  ${new Set(types).size > 1 ? types.join(", ") : types[0]}`;
    return make("option", { value: key }, counts.get(key) ? `${name}  (${counts.get(key)} wrong)` : name);
  }));
  const chosen = keys.includes(state.grid) ? state.grid : worst;
  gridSelect.value = chosen;
  gridSelect.disabled = !keys.length;
  const panels = Object.keys(chosen ? data.grids.cells[chosen] : {}).filter(targetPasses)
    .map((target) => gridPanel(chosen, target));
  byId("grids").replaceChildren(...(panels.length ? panels : [make("p", { class: "muted" }, "No grid with these filters.")]));
}

// Long numbers in few characters, where those still tell them apart.
function brief(texts) {
  const shorter = texts.map((text) => {
    const clean = text.trim();
    return clean.length > 8 && Number.isFinite(Number(clean)) ? Number(clean).toPrecision(3).replace("e+", "e") : clean;
  });
  return texts.map((text, place) => (shorter.filter((other) => other === shorter[place]).length > 1 ? text.trim() : shorter[place]));
}

function gridPanel(key, target) {
  const [place, code, got] = data.grids.cells[key][target];
  const { x, y, expected } = data.grids.grids[place];
  const label = data.targets[target];
  const [namesX, namesY] = [brief(x), brief(y)];
  const head = make("tr", {}, make("th", { scope: "col", class: "corner" }, "x \\ y"),
    ...y.map((value, column) => make("th", { scope: "col", title: value }, namesY[column])));
  const body = x.map((value, row) => make("tr", {}, make("th", { scope: "row", title: value }, namesX[row]),
    ...y.map((_, column) => square(row * y.length + column))));

  function square(number) {
    if (expected[number] === null) return make("td");
    const verdict = code ? codes[Number(code[number])] : "exact";
    const right = expected[number];
    const given = number in got ? got[number] : right;
    const unlike = verdict === "wrong" || verdict === "within";
    const [shownGiven, shownRight] = given === right ? brief([given]) : brief([given, right]);
    return make("td", { class: `v-${verdict}`, title: unlike ? `${given}, not ${right}` : given },
      verdict === "exact" ? null : data.verdicts[verdict].sign + " ", shownGiven,
      verdict === "exact" ? null : make("span", { class: "unseen" }, ` ${verdict}`),
      unlike && given !== right ? make("small", {}, `not ${shownRight}`) : null);
  }
  return make("div", { class: "scroll tall panel", role: "region", tabindex: "0", "aria-label": `Special values in ${label}` },
    make("table", { class: "grid" }, make("caption", {}, label), make("thead", {}, head), make("tbody", {}, ...body)));
}

gridSelect.addEventListener("change", () => change({ grid: gridSelect.value }));
listeners.push(showGridChoices);
