"use strict";
const table = document.querySelector("#requests");
const said = document.querySelector("#said");

document.querySelector("#theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

function show(button, open) {
  button.setAttribute("aria-expanded", String(open));
  document.getElementById(button.getAttribute("aria-controls")).hidden = !open;
}

function sort(heading) {
  const descending = heading.getAttribute("aria-sort")
    ? heading.getAttribute("aria-sort") === "ascending"
    : heading.dataset.first === "descending";
  const name = heading.dataset.key;
  const sign = descending ? -1 : 1;
  const byText = heading.dataset.type === "text";
  const compare = byText
    ? (a, b) => sign * a.dataset[name].localeCompare(b.dataset[name])
    : (a, b) => sign * (Number(a.dataset[name]) - Number(b.dataset[name]));
  for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  table.append(...[...table.tBodies].sort(compare));
  said.textContent = `Sorted by ${heading.textContent.trim()}, ${descending ? "descending" : "ascending"}.`;
}

if (table) {
  table.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.classList.contains("open")) show(button, button.getAttribute("aria-expanded") !== "true");
    else sort(button.closest("th"));
  });
  const all = document.querySelector("#all");
  all.addEventListener("click", () => {
    const open = all.getAttribute("aria-pressed") !== "true";
    all.setAttribute("aria-pressed", String(open));
    for (const button of table.querySelectorAll(".open")) show(button, open);
  });
  document.querySelector("#find").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    let shown = 0;
    for (const body of table.tBodies) {
      body.hidden = !body.textContent.toLowerCase().includes(wanted);
      shown += body.hidden ? 0 : 1;
    }
    said.textContent = `${shown} requests shown.`;
  });
}
