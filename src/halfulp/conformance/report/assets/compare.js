// The rows of all targets side by side, and the histograms of those rows that the filters leave.

const compare = byId("t-compare");
const compareRows = [...compare.tBodies[0].rows];

function rowPasses(key) {
  const found = data.rows[key];
  const shown = Object.keys(found).filter(targetPasses);
  return keyPasses(key) && shown.some((target) => verdictPasses(found[target].verdict))
    // The id of a case lets its row pass.
    && (textPasses(key, ...shown.map((target) => found[target].message)) || state.text.startsWith(`${key}/`));
}

function compareValue(row, name) {
  if (name === "operator") return [compareRows.indexOf(row)];
  if (name === "types") return [parts(row.dataset.key).types.map((type) => data.types.indexOf(type) + 100).join()];
  const found = data.rows[row.dataset.key][name];
  return found ? [data.verdicts[found.verdict].severity, found.max_ulp || 0] : [-1];
}

function sortCompare() {
  const { name, descending } = parseSort(state.rows, "operator");
  compare.tBodies[0].append(...inOrder(compareRows, (row) => compareValue(row, name), descending));
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

function percent(count, total) {
  if (count === 0 || count === total) return count ? "100 %" : total ? "0 %" : "0";
  const far = Math.min(count, total - count) / total * 100;
  const digits = far < 1 ? Math.max(1, -Math.floor(Math.log10(far))) : 1;
  return (100 * count / total).toFixed(digits).replace(/\.?0+$/, "") + " %";
}

function showDistances() {
  for (const panel of document.querySelectorAll("#distances .panel")) {
    const counts = new Map();
    let total = 0;
    for (const [key, found] of Object.entries(data.rows)) {
      const row = found[panel.dataset.target];
      if (!row || !row.histogram || !rowPasses(key)) continue;
      data.buckets.forEach((bucket, number) => {
        counts.set(bucket, (counts.get(bucket) || 0) + row.histogram[number]);
        total += row.histogram[number];
      });
    }
    for (const line of panel.querySelectorAll("[data-bucket]")) {
      const count = counts.get(line.dataset.bucket) || 0;
      const width = count ? 100 * Math.log10(count + 1) / Math.log10(total + 1) : 0;
      line.querySelector("rect").setAttribute("width", width.toFixed(1));
      const [elements, share] = line.querySelectorAll(".number");
      elements.textContent = count.toLocaleString("en");
      share.textContent = count ? percent(count, total) : "0";
    }
  }
}
listeners.push(showDistances);
