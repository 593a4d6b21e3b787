// Light or dark, the wide and the narrow page, and the first drawing.

const theme = byId("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : dark.matches;
}

function nameTheme() {
  theme.textContent = isDark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", isDark() ? "Switch to light colours" : "Switch to dark colours");
}

theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
});
dark.addEventListener("change", nameTheme);
nameTheme();
theme.hidden = false;

// Links within the page only scroll: the address keeps the state.
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (!link || event.defaultPrevented) return;
  event.preventDefault();
  const place = byId(link.hash.slice(1));
  if (place.tagName === "DETAILS") place.open = true;
  const goal = place.querySelector("h2, summary");
  if (goal.tagName === "H2") goal.tabIndex = -1;
  goal.scrollIntoView();
  goal.focus({ preventScroll: true });
});

for (const element of document.querySelectorAll(".scripted, #filters")) element.hidden = false;
const wide = matchMedia("(min-width: 62rem)");
byId("filters").open = wide.matches;
wide.addEventListener("change", () => { byId("filters").open = wide.matches; });

function showAddress() {
  readAddress();
  sortCompare();
  for (const listener of listeners) listener({});
}
addEventListener("hashchange", showAddress);
showAddress();
