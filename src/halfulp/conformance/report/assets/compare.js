// The rows of all targets side by side.

const compare = byId("t-compare");
const compareRows = [...compare.tBodies[0].rows];
const place = new Map(compareRows.map((row, number) => [row, number]));

function rowPasses(key) {
  const found = data.rows[key];
  const shown = Object.keys(found).filter(targetPasses);
  return keyPasses(key) && shown.some((target) => verdictPasses(found[target].verdict))
    // The id of a case lets its row pass.
    && (textPasses(key, ...shown.map((target) => found[target].message)) || state.text.startsWith(`${key}/`));
}

function compareValue(row, name) {
  if (name === "operator") return [place.get(row)];
  if (name === "types") return [parts(row.dataset.key).types.map((type) => data.types.indexOf(type) + 100).join()];
  const found = data.rows[row.dataset.key][name];
  return found ? [data.verdicts[found.verdict].severity, found.max_ulp || 0] : [-1];
}

function inOrder(a, b) {
  for (let i = 0; i < Math.min(a.length, b.length); i += 1) {
    if (a[i] < b[i]) return -1;
    if (a[i] > b[i]) return 1;
  }
  return 0;
}

function sortCompare() {
  const { name, descending } = parseSort(state.rows, "operator");
  const values = new Map(compareRows.map((row) => [row, compareValue(row, name)]));
  const sorted = [...compareRows].sort((a, b) =>
    inOrder(values.get(a), values.get(b)) * (descending ? -1 : 1) || place.get(a) - place.get(b));
  compare.tBodies[0].append(...sorted);
  showSort(compare, name, descending);
}

listeners.push((changes) => {
  let count = 0;
  for (const row of compareRows) {
    row.hidden = !rowPasses(row.dataset.key);
    count += row.hidden ? 0 : 1;
  }
  compare.dataset.count = count;
  if ("rows" in changes) sortCompare();
});
sortable(compare, (name, descending) => change({ rows: (descending ? "-" : "") + name }),
  data.targets.map((_, number) => String(number)));
