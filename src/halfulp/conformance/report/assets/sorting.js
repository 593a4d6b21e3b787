// Sortable columns: the text of a <th data-sort> becomes a button; aria-sort says which way it is sorted.

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
