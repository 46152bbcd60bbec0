// Choice, bars, charts and table over the cells of all sources. The address holds the choice.
"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const CHOICES = Object.keys(DATA.choices);
const [SPEED, MEMORY, ENERGY, ACCURACY] = DATA.quantities.map((each) => each.name);
const ROWS = 200; // of the table at first, and bars: the rest on demand
const LINES = 12; // of a chart: more cannot be told apart by eye
const ALL = "", BEST = "best"; // values of menus: every one; each line's best by the quantity
const NS = "http://www.w3.org/2000/svg";

const CELLS = DATA.cells.map(([source, ...parts]) => {
  const cell = { source: DATA.sources[source] };
  CHOICES.forEach((name, place) => (cell[name] = name === "batch" ? String(parts[place]) : DATA.texts[parts[place]]));
  const [settings, reported, software, trials, ...values] = parts.slice(CHOICES.length);
  [cell.settings, cell.reported, cell.software] = [settings, reported, software].map((text) => DATA.texts[text]);
  cell.trials = trials;
  DATA.quantities.forEach((each, place) => (cell[each.name] = values[place]));
  return cell;
});
const figureOf = (cell, quantity) => quantity.figures[cell.device];
// Cells of a CPU and of a GPU may have different figures of one quantity, as the memory of the host and of the GPU.
const areMixed = (cells, quantity) => new Set(cells.filter((cell) => Array.isArray(cell[quantity.name])).map((cell) => figureOf(cell, quantity))).size > 1;
const mean = (cell, name) => (Array.isArray(cell[name]) ? cell[name][0] : NaN);

function make(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function draw(name, attributes, ...children) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Numbers by size, then words by alphabet.
const byValue = new Intl.Collator("en", { numeric: true }).compare;

// Everything that is shown follows from this and the data.
class Choice {
  constructor() {
    const given = new URLSearchParams(location.hash.slice(1));
    this.by = {};
    for (const name of CHOICES) {
      const value = given.get(name) ?? (given.size ? ALL : this.usual(name));
      this.by[name] = value === ALL || (name === "batch" && value === BEST) || CELLS.some((cell) => cell[name] === value) ? value : ALL;
    }
    this.quantity = DATA.quantities.find((each) => each.name === given.get("by")) ?? DATA.quantities[0];
    this.descending = given.get("order") !== "ascending";
    this.sorted = DATA.quantities.some((each) => each.name === given.get("sort")) || CHOICES.includes(given.get("sort")) ? given.get("sort") : this.quantity.name;
  }

  // At first one machine, network and data set: those with most cells; only alike things are compared.
  usual(name) {
    if (name === "batch") return BEST;
    if (["framework", "report", "label"].includes(name)) return ALL;
    const counts = new Map();
    for (const cell of this.matching(name)) counts.set(cell[name], (counts.get(cell[name]) ?? 0) + 1);
    return [...counts].sort((one, other) => other[1] - one[1])[0]?.[0] ?? ALL;
  }

  matching(but) {
    return CELLS.filter((cell) => CHOICES.every((name) => name === but || [undefined, ALL, BEST].includes(this.by[name]) || cell[name] === this.by[name]));
  }

  get address() {
    const parts = new URLSearchParams();
    for (const name of CHOICES) parts.set(name, this.by[name]);
    parts.set("by", this.quantity.name);
    parts.set("sort", this.sorted);
    parts.set("order", this.descending ? "descending" : "ascending");
    return `#${parts}`;
  }
}

// What was asked for, without the batch size; who checked it does not count.
const requestOf = (cell) => [...CHOICES.filter((name) => name !== "batch" && name !== "label").map((name) => cell[name]), cell.settings].join("\n");
// A line of a chart: cells that differ in nothing but the batch size, and who checked them.
const lineOf = (cell) => [requestOf(cell), cell.reported, cell.software].join("\n");

function groupBy(cells, key) {
  const groups = new Map();
  for (const cell of cells) groups.get(key(cell))?.push(cell) ?? groups.set(key(cell), [cell]);
  return groups;
}

// Those conditions of a cell that not all of these cells have.
function tellApart(cells, conditionsOf) {
  const lists = cells.map(conditionsOf);
  const common = new Set(lists[0]?.filter((each) => lists.every((list) => list.includes(each))));
  return (cell) => conditionsOf(cell).filter((each) => !common.has(each));
}

// The same among the cells of each group.
function tellApartWithin(cells, groupOf, conditionsOf) {
  const groups = new Map([...groupBy(cells, groupOf)].map(([group, alike]) => [group, tellApart(alike, conditionsOf)]));
  return (cell) => groups.get(groupOf(cell))(cell);
}

// What tells these cells apart, in few words. What was reported differs between machines, and the software between
// frameworks: these are told apart only among cells of one machine, and of one request.
function nameCells(cells) {
  const differing = CHOICES.filter((name) => name !== "framework" && new Set(cells.map((cell) => cell[name])).size > 1);
  const settingsOf = tellApart(cells, (cell) => cell.settings.split("; "));
  const reportedOf = tellApartWithin(cells, (cell) => cell.machine, (cell) => cell.reported.split("; "));
  const softwareOf = tellApartWithin(cells, requestOf, (cell) => cell.software.split("; "));
  return (cell) => [
    cell.framework,
    ...differing.map((name) => (name === "batch" ? `batch ${cell.batch}` : cell[name])),
    ...settingsOf(cell),
    ...reportedOf(cell),
    ...softwareOf(cell),
  ];
}

const format = (value) => (Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3))));
// "812 [800, 824] images/s (2 of 3)": how many of the cell's trials are in the mean, if not all.
function write(cell, quantity, unit = "") {
  if (!Array.isArray(cell[quantity.name])) return cell[quantity.name];
  const [value, low, high, n = cell.trials.length] = cell[quantity.name];
  const interval = low == null ? "" : ` [${format(low)}, ${format(high)}]`;
  return `${format(value)}${interval}${unit && ` ${unit}`}${n < cell.trials.length ? ` (${n} of ${cell.trials.length})` : ""}`;
}
const notesOf = (cell, quantity) => (cell[quantity.name].length > 4 ? `; ${DATA.texts[cell[quantity.name][4]]}` : "");
const link = (cell, quantity) => make("a", { href: `${cell.source.page}#trial-${cell.trials[0]}`, title: `${cell.source.name}: ${cell.trials.join(", ")}${notesOf(cell, quantity)}` }, write(cell, quantity));

function showMenus(choice, change) {
  const form = document.getElementById("choice");
  form.replaceChildren();
  const menu = (label, options, value, act) => {
    const select = make("select", { name: label });
    for (const [key, text] of options) select.append(make("option", key === value ? { value: key, selected: "" } : { value: key }, text));
    select.addEventListener("change", () => act(select.value));
    form.append(make("label", {}, label, select));
  };
  menu("Quantity", DATA.quantities.map((each) => [each.name, `${each.label}, ${each.unit}`]), choice.quantity.name, (value) => {
    choice.quantity = DATA.quantities.find((each) => each.name === value);
    choice.sorted = value;
    choice.descending = choice.quantity.better >= 0;
    change();
  });
  for (const name of CHOICES) {
    const values = [...new Set(choice.matching(name).map((cell) => cell[name]))].sort(byValue);
    if (choice.by[name] !== ALL && choice.by[name] !== BEST && !values.includes(choice.by[name])) values.push(choice.by[name]);
    const first = name === "batch" ? [[BEST, "best of each"], [ALL, "all"]] : [[ALL, "all"]];
    menu(DATA.choices[name], [...first, ...values.map((value) => [value, value])], choice.by[name], (value) => {
      choice.by[name] = value;
      change();
    });
  }
}

// The bars: each line at its best batch size, or every cell.
function pick(choice, cells) {
  const { name, better } = choice.quantity;
  const known = cells.filter((cell) => !isNaN(mean(cell, name)));
  const order = (one, other) => (better < 0 ? 1 : -1) * (mean(one, name) - mean(other, name));
  const shown = choice.by.batch === BEST ? [...groupBy(known, lineOf).values()].map((line) => line.sort(order)[0]) : known;
  return shown.sort(order);
}

function showBars(choice, cells) {
  const shown = pick(choice, cells), { name, label, unit } = choice.quantity;
  const section = document.getElementById("bars"), named = nameCells(shown);
  section.replaceChildren();
  const most = Math.max(...shown.slice(0, ROWS).map((cell) => cell[name][2] ?? cell[name][0])), mixed = areMixed(shown, choice.quantity);
  for (const cell of shown.slice(0, ROWS)) {
    const [value, low, high] = cell[name], [framework, ...rest] = named(cell);
    const first = shown.find((other) => figureOf(other, choice.quantity) === figureOf(cell, choice.quantity));
    if (mixed) rest.push(figureOf(cell, choice.quantity).toLowerCase());
    const track = make("div", { class: "track" });
    track.append(make("div", { class: "fill", style: `width:${(100 * value) / most}%;background:${DATA.frameworks[cell.framework].colour}` }));
    if (low != null) track.append(make("div", { class: "interval", style: `left:${(100 * Math.max(low, 0)) / most}%;width:${(100 * (high - Math.max(low, 0))) / most}%` }));
    const ratio = shown.length > 1 ? `, ${(value / mean(first, name)).toFixed(2)}x` : "";
    section.append(make("div", { class: "bar" },
      make("span", {}, framework, make("span", { class: "conditions" }, rest.length ? ` ${rest.join(", ")}` : "")),
      track, make("span", {}, link(cell, choice.quantity), ratio)));
  }
  const once = shown.some((cell) => cell[name][1] == null);
  document.getElementById("said").textContent = shown.length
    ? `${label}, ${unit}: ${shown.length === 1 ? "1 bar" : `${shown.length} bars`}, relative to the first${mixed ? " of the same figure" : ""}${shown.length > ROWS ? `; ${ROWS} are drawn` : ""}. A thin line is the 95 % interval of repeats${once ? "; bars without one rest on one value; their order is uncertain" : ""}.`
    : `No value of ${label.toLowerCase()} for this choice.`;
}

function showCharts(choice, cells) {
  const section = document.getElementById("charts");
  section.replaceChildren();
  const lines = [...groupBy(cells, lineOf).values()].filter((line) => new Set(line.map((cell) => cell.batch)).size > 1);
  if (!lines.length) return;
  const named = nameCells(lines.slice(0, LINES).flat());
  for (const name of [SPEED, MEMORY, ACCURACY]) section.append(drawChart(DATA.quantities.find((each) => each.name === name), lines, named));
}

function drawChart(quantity, lines, named) {
  const [width, height, left, bottom, top] = [420, 250, 58, 30, 10];
  const known = lines.slice(0, LINES).map((line) => line.filter((cell) => !isNaN(mean(cell, quantity.name))).sort((one, other) => one.batch - other.batch));
  const every = known.flat(), mixed = areMixed(every, quantity), sizes = [...new Set(every.map((cell) => Number(cell.batch)))].sort((one, other) => one - other);
  const most = Math.max(...every.map((cell) => cell[quantity.name][2] ?? cell[quantity.name][0]));
  const [first, last] = [Math.log(sizes[0]), Math.log(sizes.at(-1))];
  const x = (size) => left + 8 + ((width - left - 20) * (Math.log(size) - first)) / (last - first || 1);
  const y = (value) => height - bottom - ((height - bottom - top) * value) / (most || 1);
  const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${quantity.label} against batch size` });
  picture.append(draw("line", { class: "axis", x1: left, x2: width, y1: y(0), y2: y(0) }), draw("line", { class: "axis", x1: left, x2: left, y1: top, y2: y(0) }));
  for (const share of [0, 0.5, 1]) picture.append(draw("text", { x: left - 6, y: y(share * most) + 4, "text-anchor": "end" }, every.length ? format(share * most) : ""));
  sizes.filter((_, place) => place % Math.ceil(sizes.length / 9) === 0).forEach((size) => picture.append(draw("text", { x: x(size), y: height - 12, "text-anchor": "middle" }, String(size))));
  known.forEach((line, number) => {
    if (!line.length) return;
    const colour = DATA.frameworks[line[0].framework].colour, dash = ["", "6 3", "2 2", "9 3 2 3"][number % 4];
    picture.append(draw("polyline", { points: line.map((cell) => `${x(cell.batch).toFixed(1)},${y(mean(cell, quantity.name)).toFixed(1)}`).join(" "), fill: "none", stroke: colour, "stroke-width": 1.8, "stroke-dasharray": dash }));
    for (const cell of line) {
      const [value, low, high] = cell[quantity.name];
      if (low != null) picture.append(draw("line", { x1: x(cell.batch), x2: x(cell.batch), y1: y(Math.max(low, 0)), y2: y(high), stroke: colour }));
      const title = draw("title", {}, `${named(cell).join(", ")}${mixed ? `, ${figureOf(cell, quantity)}` : ""}: ${write(cell, quantity, quantity.unit)}${notesOf(cell, quantity)}`);
      picture.append(draw("a", { href: `${cell.source.page}#trial-${cell.trials[0]}` }, draw("circle", { cx: x(cell.batch), cy: y(value), r: 3.5, fill: colour }, title)));
    }
  });
  const hidden = lines.length > LINES ? ` ${LINES} of ${lines.length} lines are drawn: choose fewer.` : "";
  return make("figure", {}, picture, make("figcaption", {}, `${quantity.label}, ${quantity.unit}, against batch size${mixed ? `: ${[...new Set(every.map((cell) => figureOf(cell, quantity)))].join(" and ")}, two different figures` : ""}.${every.length ? "" : " No value."}${hidden}`));
}

function showTable(choice, cells, change) {
  const table = document.getElementById("cells"), more = document.getElementById("more");
  const columns = [...CHOICES.map((name) => [name, DATA.choices[name]]), ...DATA.quantities.map((each) => [each.name, `${each.label}, ${each.unit}`])];
  const head = make("tr", {});
  for (const [name, label] of columns) {
    const button = make("button", { type: "button" }, label);
    button.addEventListener("click", () => {
      choice.descending = choice.sorted === name ? !choice.descending : (DATA.quantities.find((each) => each.name === name)?.better ?? -1) >= 0;
      choice.sorted = name;
      change();
    });
    head.append(make("th", { scope: "col", "aria-sort": choice.sorted !== name ? "none" : choice.descending ? "descending" : "ascending" }, button));
  }
  head.append(make("th", { scope: "col" }, "Conditions"));
  table.tHead.replaceChildren(head);
  const key = CHOICES.includes(choice.sorted) ? null : choice.sorted, sign = choice.descending ? -1 : 1;
  const sorted = [...cells].sort((one, other) => {
    if (!key) return sign * byValue(one[choice.sorted], other[choice.sorted]);
    const [a, b] = [mean(one, key), mean(other, key)];
    return isNaN(a) || isNaN(b) ? isNaN(a) - isNaN(b) : sign * (a - b);
  });
  const mixed = DATA.quantities.filter((each) => areMixed(cells, each));
  const valueOf = (cell, each) => make("td", { class: "number" }, ...(Array.isArray(cell[each.name]) ? [link(cell, each), mixed.includes(each) ? ` (${figureOf(cell, each)})` : ""] : [cell[each.name]]));
  const rowOf = (cell) => make("tr", {},
    ...CHOICES.map((name) => make("td", name === "batch" ? { class: "number" } : {}, name === "report" ? make("a", { href: cell.source.page }, cell.report) : cell[name])),
    ...DATA.quantities.map((each) => valueOf(cell, each)),
    make("td", { class: "conditions" }, [cell.settings, cell.reported, cell.software].join("; ")));
  table.tBodies[0].replaceChildren(...sorted.slice(0, ROWS).map(rowOf));
  more.hidden = sorted.length <= ROWS;
  more.textContent = `Show all ${sorted.length.toLocaleString("en")} rows`;
  more.onclick = () => {
    table.tBodies[0].append(...sorted.slice(ROWS).map(rowOf));
    more.hidden = true;
  };
}

function show(choice) {
  const change = () => {
    // Menus and the table's head are made anew: the focus goes on to what takes the place of the one that had it.
    const { name, parentElement } = document.activeElement, column = parentElement?.cellIndex;
    history.replaceState(null, "", choice.address);
    show(choice);
    const buttons = document.querySelectorAll("#cells thead button");
    (column === undefined ? document.querySelector(`select[name="${name}"]`) : buttons[column])?.focus({ preventScroll: true });
  };
  const cells = choice.matching();
  showMenus(choice, change);
  showBars(choice, cells);
  showCharts(choice, cells);
  showTable(choice, cells, change);
}

window.addEventListener("hashchange", () => show(new Choice()));
window.addEventListener("beforeprint", () => {
  const more = document.getElementById("more");
  if (!more.hidden) more.onclick();
});
show(new Choice());
document.documentElement.dataset.ready = "";
