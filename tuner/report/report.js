"use strict";
// The table of problems: sorted by a press on a column, filtered by words, the same after a refresh.
const table = document.getElementById("layers"), filter = document.getElementById("filter");
const rows = [...table.tBodies], kept = `report ${location.pathname}`;
const state = { words: "", column: null, descending: true, open: [] };
try { Object.assign(state, JSON.parse(sessionStorage.getItem(kept))); } catch { /* the page works without */ }
const keep = () => { try { sessionStorage.setItem(kept, JSON.stringify(state)); } catch { /* as above */ } };

function sort() {
  for (const button of table.tHead.querySelectorAll("button")) {
    button.removeAttribute("aria-sort");
    if (button.textContent === state.column) {
      button.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
    }
  }
  if (state.column === null) return;
  const cell = (row) => [...row.rows[0].cells].find((one) => one.dataset.column === state.column);
  const sign = state.descending ? -1 : 1;
  const order = (a, b) => {
    const [x, y] = [a, b].map((row) => cell(row)?.dataset.value ?? "");
    if (x === "" || y === "") return (x === "") - (y === "");  // unknown ones are last in both directions
    return sign * (isNaN(x) ? x.localeCompare(y, undefined, { numeric: true }) : x - y);
  };
  table.append(...rows.toSorted(order));
}

function show() {
  const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const has = row.dataset.words.toLowerCase().split(" ");
    // c=64 is not c=640; any other word may be a part of one.
    row.hidden = !words.every((word) => has.some((one) => (word.includes("=") ? one === word : one.includes(word))));
    shown += !row.hidden;
  }
  document.getElementById("shown").textContent = words.length ? `${shown} of ${rows.length} problems` : "";
}

async function unpack(pre) {
  const bytes = Uint8Array.from(atob(pre.dataset.packed), (one) => one.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  pre.textContent = await new Response(stream).text();
}

async function copy(button) {
  const said = button.textContent;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "copied";
  } catch {
    window.prompt("Copy the command:", button.dataset.copy);
  }
  setTimeout(() => { button.textContent = said; }, 1500);
}

filter.value = state.words;
filter.addEventListener("input", () => { state.words = filter.value; keep(); show(); });
table.tHead.addEventListener("click", (event) => {
  const column = event.target.closest("button")?.textContent;
  if (column === undefined) return;
  state.descending = state.column === column ? !state.descending : true;
  state.column = column;
  keep();
  sort();
});
table.addEventListener("click", (event) => {
  if (event.target.matches("[data-copy]")) copy(event.target);
});
table.addEventListener("toggle", (event) => {
  const pre = event.target.querySelector(":scope > pre[data-packed]");
  if (event.target.open && pre?.textContent === "") unpack(pre);
  state.open = rows.filter((row) => row.querySelector("details").open).map((row) => row.dataset.key);
  keep();
}, true);
for (const row of rows) row.querySelector("details").open = state.open.includes(row.dataset.key);
sort();
show();
