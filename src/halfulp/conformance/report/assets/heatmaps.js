// The heatmaps: filters dim squares, arrow keys move between them, and a square leads to its findings.

const heats = [...document.querySelectorAll("table.heat")];

function showHeatmaps() {
  for (const operator of document.querySelectorAll(".operator")) {
    operator.hidden = Boolean(state.operator) && operator.dataset.operator !== state.operator;
  }
  for (const table of heats) {
    const target = table.closest("[data-target]").dataset.target;
    for (const body of table.tBodies) {
      body.hidden = Boolean(state.version) && body.dataset.version !== state.version;
    }
    for (const link of table.querySelectorAll("a")) {
      const row = data.rows[link.dataset.key][target];
      link.parentElement.classList.toggle("dim", !(keyPasses(link.dataset.key) && verdictPasses(row.verdict)));
    }
  }
}
listeners.push(showHeatmaps);

for (const table of heats) {
  // One stop of the Tab key for each table; the arrow keys do the rest.
  table.querySelectorAll("a").forEach((link, place) => { link.tabIndex = place ? -1 : 0; });
  table.addEventListener("keydown", moveInHeatmap);
  table.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link) return;
    event.preventDefault();
    change({
      target: data.targets.length > 1 ? new Set([link.closest("[data-target]").dataset.target]) : new Set(),
      verdict: new Set(), operator: "", version: "", type: "", group: "", text: link.dataset.key + "/",
      grid: data.grids.cells[link.dataset.key] ? link.dataset.key : state.grid,
    });
    byId("h-findings").scrollIntoView();
    byId("h-findings").focus({ preventScroll: true });
  });
}
byId("h-findings").tabIndex = -1;

function moveInHeatmap(event) {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const step = steps[event.key];
  const link = event.target.closest("a");
  if (!step || !link) return;
  event.preventDefault();
  const table = link.closest("table");
  // A row has one or two heads, so squares are counted from the right.
  const squares = [...table.querySelectorAll("tbody:not([hidden]) tr")].map((row) => [...row.querySelectorAll("td")]);
  let row = squares.findIndex((cells) => cells.includes(link.parentElement));
  let column = squares[row].indexOf(link.parentElement);
  for (;;) {
    row += step[0];
    column += step[1];
    if (!squares[row] || !squares[row][column]) return;
    const next = squares[row][column].querySelector("a");
    if (next) {
      link.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
      return;
    }
  }
}
