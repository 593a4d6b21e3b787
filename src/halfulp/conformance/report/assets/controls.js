// The controls: filters and sortable columns, from the state into the controls and back.

const form = byId("filters").querySelector("form");

function showFilters() {
  for (const name of LISTS) {
    for (const box of form.querySelectorAll(`input[name="${name}"]`)) box.checked = state[name].has(box.value);
  }
  for (const name of FIELDS) {
    if (form.elements[name] && form.elements[name].value !== state[name]) form.elements[name].value = state[name];
  }
}

function readFilters() {
  const changes = {};
  for (const name of LISTS) {
    changes[name] = new Set([...form.querySelectorAll(`input[name="${name}"]:checked`)].map((box) => box.value));
  }
  for (const name of FIELDS) {
    changes[name] = form.elements[name] ? form.elements[name].value : "";
  }
  change(changes);
}

let typing = 0;
form.elements.text.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(readFilters, 150);
});
form.addEventListener("change", () => {
  clearTimeout(typing);
  readFilters();
});
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(readFilters)); // once the controls are empty
listeners.push(showFilters);

// Tables, panels and columns of a target that is filtered away.
listeners.push(() => {
  for (const element of document.querySelectorAll("main [data-target]")) {
    element.hidden = !targetPasses(element.dataset.target);
  }
});

// A sortable column: the text of its <th data-sort> becomes a button; aria-sort says which way it is sorted.
// chosen(name, descending) is called on a click; first says which columns begin descending.
function sortable(table, chosen, first = []) {
  for (const head of table.querySelectorAll("th[data-sort]")) {
    const button = make("button", { type: "button", class: "sort" }, ...head.childNodes);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      chosen(head.dataset.sort, now ? now === "ascending" : first.includes(head.dataset.sort));
    });
  }
}

function showSort(table, name, descending) {
  for (const head of table.querySelectorAll("th[data-sort]")) {
    if (head.dataset.sort === name) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
}

// A sort as the address has it: "-ulp" is descending by ulp.
function parseSort(text, otherwise) {
  const given = text || otherwise;
  return { name: given.replace(/^-/, ""), descending: given.startsWith("-") };
}

// Items, which are in their own order, sorted by lists of values.
function inOrder(items, value, descending) {
  const values = new Map(items.map((item) => [item, value(item)]));
  return [...items].sort((a, b) => {
    const [first, second] = [values.get(a), values.get(b)];
    const place = first.findIndex((each, number) => each !== second[number]);
    if (place < 0) return 0;
    return (first[place] < second[place]) === descending ? 1 : -1;
  });
}
