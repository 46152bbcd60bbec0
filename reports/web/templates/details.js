// One trial, or the trials behind a number, in the dialog.

const GROUPS = { spec: "What was asked", facts: "What the worker reported", machine: "The machine" };

function trialLink(shown, place) {
  const key = shown.trials.key[place];
  return element("a", { href: `#trial-${key}` }, key);
}

// Several trials as a list, with the figures of the table of all trials.
function listOf(shown, found) {
  const { trials } = shown;
  const names = new Map(shown.frameworks);
  const heads = [
    "Trial",
    "Framework",
    "Batch size",
    "Repeat",
    "Status",
    ...trials.figures.map((figure) => `${figure.label}, ${figure.unit}`),
  ];
  const rows = found.map((place) => {
    const words = [
      names.get(trials.framework[place]),
      trials.batch[place],
      trials.repeat[place],
      trials.status[place],
    ];
    const numbers = trials.figures.map((figure) => numberText(figure.values[place], figure.decimals));
    return [trialLink(shown, place), ...words.map(String), ...numbers];
  });
  return table(heads, rows, "The trials behind this number");
}

function table(heads, rows, label, words = false) {
  return element(
    "div",
    { class: "scroll", role: "region", tabindex: "0", "aria-label": label },
    element(
      "table",
      { class: words ? "words" : null, "aria-label": label },
      element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))),
      element(
        "tbody",
        {},
        ...rows.map((row) =>
          element(
            "tr",
            {},
            ...row.map((cell, place) => element(place ? "td" : "th", place ? {} : { scope: "row" }, cell)),
          ),
        ),
      ),
    ),
  );
}

// The stored result of one trial, from its place in the columns: {spec: {...}, figures: {name: {...}}, ...}.
function resultOf(columns, place) {
  const groups = ["spec", "facts", "machine", "figures", "checks"];
  const result = Object.fromEntries(groups.map((group) => [group, Object.create(null)]));
  for (const [key, column] of Object.entries(columns)) {
    const value = column[place];
    const dot = key.indexOf(".");
    const [group, rest] = [key.slice(0, dot), key.slice(dot + 1)];
    if (value === null) continue;
    if (dot < 0) result[key] = value;
    else if (group in GROUPS) result[group][rest] = value;
    else {
      const last = rest.lastIndexOf(".");
      (result[group][rest.slice(0, last)] ??= {})[rest.slice(last + 1)] = value;
    }
  }
  return result;
}

// The parts of a trial that the page holds, each in a section of its own; what it does not hold says so.
async function trialOf(shown, place) {
  const [results, epochs, samples, logs] = await Promise.all(["results", "epochs", "samples", "logs"].map(unpack));
  const names = new Map(shown.frameworks);
  const { trials } = shown;
  const result = place < (results?.folder.length ?? 0) ? resultOf(results, place) : null;
  const folder = result ? `${result.folder}/` : "its folder below trials/";
  const absent = (what, file) =>
    element("p", { class: "small" }, `${what} left out of this page for its size: see ${file} in ${folder}.`);
  const lead = [
    names.get(trials.framework[place]),
    `batch size ${trials.batch[place]}`,
    `repeat ${trials.repeat[place]}`,
    trials.status[place],
  ];
  const section = trials.section[place];
  return [
    element("p", { class: "lead" }, `${lead.join(", ")}.`),
    result?.attempts ? element("p", { class: "caution" }, `Attempts: ${result.attempts}.`) : null,
    result?.reason ? element("p", { class: "caution" }, `Reason: ${result.reason}`) : null,
    element(
      "p",
      {},
      section
        ? `Section ${shown.sections.length > 1 ? `${section}: ` : ""}${shown.sections[section - 1]}.`
        : "In no table: a newer trial of the same cell replaced it.",
    ),
    result
      ? element(
          "p",
          { class: "small" },
          `Started ${result.started_at}; took ${numberText(result.wall_s, 1)} s. ` +
            `Files: ${folder} in the results folder.`,
        )
      : absent("Figures, checks and conditions are", "result.json"),
    heading("Samples"),
    place < (samples?.length ?? 0) ? curve(shown, samples[place]) : absent("Samples are", "samples.csv"),
    ...(result ? partsOf(result) : []),
    heading("Epochs"),
    place < (epochs?.length ?? 0) ? epochsOf(epochs[place]) : absent("Epochs are", "result.json"),
    heading("Log"),
    place < (logs?.length ?? 0) ? logOf(logs[place]) : absent("The log is", "log.txt"),
  ];
}

function partsOf(result) {
  return [
    heading("Figures"),
    figuresOf(result.figures),
    heading("Checks"),
    checksOf(result.checks),
    heading("Conditions"),
    ...Object.entries(GROUPS).map(([key, label]) => group(label, result[key])),
  ];
}

function heading(text) {
  return element("h3", {}, text);
}

function curve(shown, samples) {
  if (samples === null) return element("p", { class: "small" }, "No samples were stored.");
  if (samples.reason) return element("p", { class: "small" }, samples.reason);
  const words = samplesWords(samples, shown.tracks);
  const rows = Object.keys(samples.tracks).length;
  return element(
    "figure",
    { class: "samples" },
    element("div", { class: `samples-chart rows-${rows}`, role: "img", "aria-label": words, "data-samples": true }),
    element("figcaption", {}, element("p", { class: "small" }, words)),
  );
}

function figuresOf(figures) {
  const rows = Object.entries(figures).map(([name, { label, unit, value, samples, source, reason }]) => [
    element("span", {}, label, " ", element("code", {}, name)),
    value === undefined ? "–" : `${readable(value)} ${unit}`.trim(),
    String(samples ?? ""),
    value === undefined ? `unknown: ${reason}` : source,
  ]);
  if (!rows.length) return element("p", { class: "small" }, "None: the trial did not get so far.");
  return table(["Figure", "Value", "Samples", "Source, or why it is unknown"], rows, "Figures of the trial", true);
}

function checksOf(checks) {
  const rows = Object.entries(checks).map(([name, { passed, detail }]) => [
    name,
    element("span", { class: passed ? null : "failed" }, passed ? "passed" : "failed"),
    detail,
  ]);
  return rows.length
    ? table(["Check", "Outcome", "What was found"], rows, "Checks of the trial", true)
    : element("p", { class: "small" }, "None was made.");
}

function epochsOf(epochs) {
  if (!epochs.length) return element("p", { class: "small" }, "None was finished.");
  const rows = epochs.map(([seconds, train, test, accuracy], place) => [
    String(place + 1),
    numberText(seconds),
    numberText(train, 4),
    numberText(test, 4),
    numberText(accuracy, 2),
  ]);
  return table(["Epoch", "Training, s", "Training loss", "Test loss", "Test accuracy, %"], rows, "Epochs of the trial");
}

function group(label, values) {
  const known = Object.entries(values);
  const list = element(
    "dl",
    {},
    ...known.flatMap(([key, value]) => [element("dt", {}, key), element("dd", {}, String(value))]),
  );
  return element(
    "details",
    {},
    element("summary", {}, `${label} (${known.length})`),
    known.length ? list : element("p", { class: "small" }, "Nothing."),
  );
}

function logOf(text) {
  if (text === null) return element("p", { class: "small" }, "No log was stored.");
  if (text === "") return element("p", { class: "small" }, "Empty: the worker printed nothing.");
  return element("pre", { tabindex: "0", role: "region", "aria-label": "Log of the trial" }, text);
}
