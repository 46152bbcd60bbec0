// Tables: sorted by their headings, filtered by text and by framework, each number leading to its trials.
// No library: those that sort and filter build their own table from their own data, where these tables are in the page
// already, for readers without JavaScript; and what is needed is this file.

const NEXT = { none: "ascending", ascending: "descending", descending: "none" };

// A heading that sorts; `sort` is given the direction, 1 or -1, or 0 for the order as published.
function sortable(heading, sort) {
  const button = element("button", { type: "button", class: "sort" });
  button.append(...heading.childNodes);
  heading.append(button);
  heading.setAttribute("aria-sort", "none");
  button.addEventListener("click", () => {
    const next = NEXT[heading.getAttribute("aria-sort")];
    for (const other of heading.parentElement.children) other.setAttribute("aria-sort", "none");
    heading.setAttribute("aria-sort", next);
    sort({ none: 0, ascending: 1, descending: -1 }[next]);
  });
}

const FILTERED_FROM = 6; // rows: a shorter table is seen at once

function enhance(table, data, shown) {
  const rows = [...table.tBodies[0].rows];
  const numbers = new Map(rows.map((row, place) => [row, data.numbers[place]]));
  rows.forEach((row, place) => linkCells(row, table.dataset.table, place, data.trials[place], shown));
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const key = (row) => numbers.get(row)[column] ?? row.cells[column].textContent;
    sortable(heading, (direction) => {
      const order = direction ? [...rows].sort((one, other) => compare(key(one), key(other), direction)) : rows;
      table.tBodies[0].append(...order);
    });
  });
  const frameworks = rows.map((row) => namesIn(row.cells[0].textContent, shown.frameworks));
  const state = { text: "", off: new Set() };
  const count = element("span", { class: "count", role: "status" });
  const apply = () => {
    let seen = 0;
    rows.forEach((row, place) => {
      const fits =
        row.textContent.toLowerCase().includes(state.text) && !frameworks[place].some((key) => state.off.has(key));
      row.hidden = !fits;
      seen += fits;
    });
    count.textContent = seen < rows.length ? `${seen} of ${rows.length} rows` : "";
  };
  if (rows.length >= FILTERED_FROM || frameworks.some((names) => names.length)) {
    const input = rows.length >= FILTERED_FROM ? filterBox((text) => ((state.text = text), apply())) : null;
    table.closest(".scroll").before(element("div", { class: "filter" }, input, count));
  }
  document.addEventListener("frameworks", (event) => ((state.off = event.detail), apply()));
}

function filterBox(changed) {
  const input = element("input", { type: "search", autocomplete: "off", spellcheck: "false" });
  input.addEventListener("input", () => changed(input.value.trim().toLowerCase()));
  return element("label", {}, "Filter rows ", input);
}

// The frameworks that a row names: "TensorFlow minus PyTorch" is of two.
function namesIn(text, frameworks) {
  const words = ` ${text.replace(/[^\p{L}\p{N}]+/gu, " ")} `;
  return frameworks.filter(([, name]) => words.includes(` ${name} `)).map(([key]) => key);
}

// A cell's own text becomes a link; its footnote marks stay links of their own.
function linkCells(row, table, place, trials, shown) {
  trials.forEach((places, column) => {
    const text = places.length && row.cells[column]?.firstChild;
    if (!text) return;
    const single = places.length === 1;
    const href = single ? `#trial-${shown.trials.key[places[0]]}` : `#cell-${table}.${place}.${column}`;
    const link = element("a", { class: "trials", href });
    text.replaceWith(link);
    link.append(text);
  });
}
