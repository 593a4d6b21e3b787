// The filters' controls: from the state into the controls and back.

const form = byId("filters").querySelector("form");

function showFilters() {
  for (const name of LISTS) {
    for (const box of form.querySelectorAll(`input[name="${name}"]`)) box.checked = state[name].has(box.value);
  }
  for (const name of ["operator", "version", "type", "group", "text"]) {
    if (form.elements[name] && form.elements[name].value !== state[name]) form.elements[name].value = state[name];
  }
}

function readFilters() {
  const changes = {};
  for (const name of LISTS) {
    changes[name] = new Set([...form.querySelectorAll(`input[name="${name}"]:checked`)].map((box) => box.value));
  }
  for (const name of ["operator", "version", "type", "group", "text"]) {
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
form.addEventListener("reset", (event) => {
  event.preventDefault();
  const lists = Object.fromEntries(LISTS.map((name) => [name, new Set()]));
  change({ ...lists, operator: "", version: "", type: "", group: "", text: "" });
});
listeners.push(showFilters);

// Tables, panels and columns of a target that is filtered away.
function showTargets() {
  for (const element of document.querySelectorAll("main [data-target]")) {
    element.hidden = !targetPasses(element.dataset.target);
  }
}
listeners.push(showTargets);
