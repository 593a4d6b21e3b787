// The filters of the findings. Without this script the page shows all of them.

const form = document.getElementById("filters");
const items = [...document.querySelectorAll("#findings li")];
const texts = items.map((item) => item.textContent.toLowerCase());

function filter() {
  const wanted = Object.fromEntries(new FormData(form));
  const text = wanted.text.toLowerCase();
  items.forEach((item, place) => {
    item.hidden = !(texts[place].includes(text)
      && (!wanted.verdict || item.dataset.verdict === wanted.verdict)
      && (!wanted.target || item.dataset.target === wanted.target)
      && !(wanted.allowed && "allowed" in item.dataset));
  });
  const shown = items.filter((item) => !item.hidden).length;
  document.getElementById("count").textContent = `${shown} of ${items.length} findings`;
}

form.addEventListener("input", filter);
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(filter)); // once the controls are empty
addEventListener("hashchange", () => form.reset()); // a link may lead to a finding that is hidden
form.hidden = false;
filter();
