// Start: what is drawn when it comes into view, what follows from a change of address, of frameworks, of colours.

const views = new Map(); // id of a chart: its view
const DRAWN_AHEAD = 40;
const dark = matchMedia("(prefers-color-scheme: dark)");
let curveInDialog = null;
let turn = 0; // of the dialog: an older one that is still unpacking shows nothing

async function start() {
  readInk(false);
  const library = document.createElement("script");
  const [shown, text] = await Promise.all([unpack("shown"), unpack("echarts")]);
  library.textContent = text;
  document.head.append(library);
  if (matchMedia("(max-width: 68rem)").matches) document.querySelector("nav details").open = false;
  const trials = new TrialsTable(document.getElementById("trials-table"), shown);
  for (const table of document.querySelectorAll("table[data-table]"))
    enhance(table, shown.tables[table.dataset.table], shown);
  for (const figure of document.querySelectorAll("[data-chart]"))
    views.set(figure.dataset.chart, new ChartView(figure, shown.charts[figure.dataset.chart], shown));
  const nearby = new IntersectionObserver(
    (seen) => seen.forEach(({ target, isIntersecting }) => isIntersecting && views.get(target.dataset.chart).start()),
    { rootMargin: "600px" },
  );
  for (const view of views.values()) nearby.observe(view.figure);
  switches(shown);
  linkProblems(shown);
  dark.addEventListener("change", () => (readInk(false), views.forEach((view) => view.draw()), show(shown)));
  addEventListener("beforeprint", () => (readInk(true), print(trials, true)));
  addEventListener("afterprint", () => (readInk(false), print(trials, false)));
  addEventListener("hashchange", () => show(shown));
  dialog.addEventListener("close", leave);
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.getElementById("close").addEventListener("click", () => dialog.close());
  await show(shown);
  for (const words of document.querySelectorAll(".without-script")) words.remove();
  document.documentElement.dataset.ready = "";
  drawIdly([...views.values()].slice(0, DRAWN_AHEAD));
}

// The first charts are drawn before they are scrolled to, whenever there is nothing else to do.
function drawIdly([view, ...others]) {
  if (view) (window.requestIdleCallback ?? setTimeout)(() => (view.isSeen() && view.start(), drawIdly(others)));
}

const dialog = document.getElementById("dialog");
const BY_ADDRESS = "by address";

function switches(shown) {
  const form = document.getElementById("switches");
  for (const [key, , style] of shown.frameworks)
    form.querySelector(`[data-key="${CSS.escape(key)}"]`).replaceWith(swatch(style));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", () => {
    const boxes = [...form.querySelectorAll("[name=framework]")];
    const off = new Set(boxes.filter((box) => !box.checked).map((box) => box.value));
    for (const view of views.values()) view.set({ off });
    document.dispatchEvent(new CustomEvent("frameworks", { detail: off }));
    const names = shown.frameworks.filter(([key]) => off.has(key)).map(([, name]) => name);
    form.querySelector(".status").textContent = names.length
      ? `Left out of charts and tables: ${names.join(", ")}.`
      : "";
  });
  form.reset();
  form.hidden = shown.frameworks.length < 2;
}

// A line on a trial begins with its id.
function linkProblems(shown) {
  const keys = new Set(shown.trials.key);
  for (const item of document.querySelectorAll("#problems li")) {
    const [key] = item.textContent.split(/[: ]/, 1);
    if (!keys.has(key)) continue;
    const rest = item.textContent.slice(key.length);
    item.replaceChildren(element("a", { href: `#trial-${key}` }, key), rest);
  }
}

function print(trials, on) {
  if (on) for (const details of document.querySelectorAll(".opened-in-print")) details.open = true;
  for (const view of views.values()) view.print(on);
  trials.print(on);
}

// The trials that an address names: {title, places}, or null for an address that names none.
function named(hash, shown) {
  const address = decodeURIComponent(hash.slice(1));
  const [, kind, name] = /^(trial|cell|point)-(.+)$/.exec(address) ?? [];
  if (kind === "trial") {
    const place = shown.trials.key.indexOf(name);
    return { title: `Trial ${name}`, places: place < 0 ? [] : [place] };
  }
  const [, id, ...numbers] = /^(.+?)\.(\d+)\.(\d+)(?:\.(\d+))?$/.exec(name ?? "") ?? [];
  const [one, other, third] = numbers.map(Number);
  if (kind === "cell")
    return { title: titleOfCell(id, one, other), places: shown.tables[id]?.trials[one]?.[other] ?? [] };
  if (kind !== "point") return null;
  const trace = shown.charts[id]?.panels[one]?.traces[other];
  return {
    title: `${shown.charts[id]?.title}: ${trace?.label}, ${trace?.x[third]}`,
    places: trace?.trials[third] ?? [],
  };
}

function titleOfCell(id, row, column) {
  const link = document.querySelector(`a[href="#cell-${CSS.escape(id)}.${row}.${column}"]`);
  if (!link) return "Trials";
  const cell = link.closest("td, th");
  const head = link.closest("table").tHead.rows[0].cells[cell.cellIndex].textContent;
  const title = document.getElementById(`${id}-title`).textContent.replace(/: table$/, "");
  return `${title}: ${cell.parentElement.cells[0].firstChild.textContent}, ${head}`;
}

// What an address names is not left folded.
function unfold(target) {
  for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
}

async function show(shown) {
  const found = named(location.hash, shown);
  unfold(found ? null : document.getElementById(decodeURIComponent(location.hash.slice(1))));
  const own = ++turn;
  curveInDialog?.dispose();
  curveInDialog = null;
  if (!found) {
    if (dialog.open) dialog.close(BY_ADDRESS);
    return;
  }
  const body = document.getElementById("dialog-body");
  const single = found.places.length === 1;
  const parts = single
    ? await trialOf(shown, found.places[0])
    : [found.places.length ? listOf(shown, found.places) : element("p", {}, "No such trial is on this page.")];
  if (own !== turn) return;
  const title = document.getElementById("dialog-title");
  title.textContent = single
    ? `Trial ${shown.trials.key[found.places[0]]}`
    : `${found.title}: ${found.places.length} trials`;
  body.replaceChildren(...parts.filter(Boolean));
  if (!dialog.open) dialog.showModal();
  title.focus();
  body.scrollTop = 0;
  const holder = body.querySelector("[data-samples]");
  if (holder) curveInDialog = samplesChart(holder, (await unpack("samples"))[found.places[0]], shown.tracks);
}

// Closed by the reader: the address names the page again, and the way back leads to the trial. Closed by the address:
// nothing is left to do, and by the time that this is heard the address may name a trial again.
function leave() {
  const byAddress = dialog.returnValue === BY_ADDRESS;
  dialog.returnValue = "";
  if (byAddress) return;
  turn++;
  if (isTrials(location.hash)) history.pushState(null, "", location.pathname + location.search);
}

function isTrials(hash) {
  return /^#(trial|cell|point)-/.test(hash);
}

start().catch((error) => {
  const failure = document.getElementById("failure");
  failure.textContent = `Charts and the trials' details cannot be shown: ${error.message}. The tables above are whole.`;
  failure.hidden = false;
  console.error(error);
});
