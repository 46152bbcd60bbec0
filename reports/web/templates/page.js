// Sorting and filtering of tables, and unfolding. Everything else works without scripts.
"use strict";

const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
const DIRECTION = { none: 0, ascending: 1, descending: -1 };
const FILTERED_FROM = 6; // rows: a shorter table is seen at once
const byText = new Intl.Collator("en", { numeric: true }).compare;

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Numbers before words, whichever way they are sorted.
function compare(one, other, direction) {
  const [first, second] = [Number(one.dataset.n ?? NaN), Number(other.dataset.n ?? NaN)];
  if (isNaN(first) !== isNaN(second)) return isNaN(first) ? 1 : -1;
  return direction * (isNaN(first) ? byText(one.textContent, other.textContent) : first - second);
}

class SortedTable {
  constructor(table) {
    this.table = table;
    this.rows = [...table.tBodies].flatMap((body) => [...body.rows]);
    this.homes = this.rows.map((row) => row.parentElement); // the repeats of one cell have one of their own
    this.heads = [...table.tHead.rows[0].cells];
    this.heads.forEach((head, column) => this.addButton(head, column));
    if (this.rows.length >= FILTERED_FROM) this.addFilter();
  }

  addButton(head, column) {
    const button = element("button", { type: "button", class: "sort" }, ...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => this.sort(column, NEXT[head.getAttribute("aria-sort")]));
  }

  sort(column, order) {
    this.heads.forEach((head, place) => head.setAttribute("aria-sort", place === column ? order : "none"));
    const direction = DIRECTION[order];
    if (!direction) return this.rows.forEach((row, place) => this.homes[place].append(row));
    const sorted = [...this.rows].sort((one, other) => compare(one.cells[column], other.cells[column], direction));
    this.homes[0].append(...sorted);
  }

  addFilter() {
    this.input = element("input", { type: "search", autocomplete: "off", spellcheck: "false" });
    this.count = element("span", { class: "count", role: "status" });
    this.input.addEventListener("input", () => this.filter());
    const label = element("label", {}, "Filter rows ", this.input);
    this.table.closest(".scroll").before(element("div", { class: "filter" }, label, this.count));
  }

  // Every word that is typed must be in the row, a number as a whole: "pytorch 128" is PyTorch at batch size 128.
  filter() {
    const wanted = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let seen = 0;
    for (const row of this.rows) {
      const text = ` ${[...row.cells].map((cell) => cell.textContent).join(" ")} `.toLowerCase();
      row.hidden = !wanted.every((word) => text.includes(/^\d+$/.test(word) ? ` ${word} ` : word));
      seen += !row.hidden;
    }
    this.count.textContent = seen < this.rows.length ? `${seen} of ${this.rows.length} rows` : "";
  }

  // As published: an address may lead to any row.
  restore() {
    this.sort(-1, "none");
    if (this.input?.value) this.filter((this.input.value = ""));
  }
}

const tables = [...document.querySelectorAll("table")].map((table) => new SortedTable(table));

function unfold() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  tables.find(({ table }) => table.contains(target))?.restore();
  target?.scrollIntoView();
}

if (matchMedia("(max-width: 68rem)").matches) document.querySelector("nav details").open = false;
addEventListener("hashchange", unfold);
addEventListener("beforeprint", () => document.querySelectorAll(".opened-in-print").forEach((part) => (part.open = true)));
unfold();
document.documentElement.dataset.ready = "";
