// One trial, or the trials behind a number, in the dialog.

const GROUPS = { spec: "What was asked", facts: "What the worker reported", machine: "The machine" };

function trialLink(shown, place) {
  const key = at(shown.trials.key, place);
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
      names.get(at(trials.framework, place)),
      at(trials.batch, place),
      at(trials.repeat, place),
      at(trials.status, place),
    ];
    const numbers = trials.figures.map((figure) => told(at(figure.values, place), figure.decimals));
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

// The parts of a trial that the page holds, each in a section of its own; what it does not hold says so.
async function trialOf(shown, place) {
  const [conditions, figures, checks, epochs, logs, samples] = await Promise.all(
    ["conditions", "figures", "checks", "epochs", "logs", "samples"].map(unpack),
  );
  const names = new Map(shown.frameworks);
  const status = at(shown.trials.status, place);
  const folder = conditions ? `trials/${at(conditions.folder, place)}/` : "its folder below trials/";
  const absent = (what, file) =>
    element("p", { class: "small" }, `${what} left out of this page for its size: see ${file} in ${folder}.`);
  const lead = [
    names.get(at(shown.trials.framework, place)),
    `batch size ${at(shown.trials.batch, place)}`,
    `repeat ${at(shown.trials.repeat, place)}`,
    status,
  ];
  const section = at(shown.trials.section, place);
  return [
    element("p", { class: "lead" }, `${lead.join(", ")}.`),
    conditions && at(conditions.reason, place)
      ? element("p", { class: "caution" }, `Reason: ${at(conditions.reason, place)}`)
      : null,
    element(
      "p",
      {},
      section
        ? `Section ${shown.sections.length > 1 ? `${section}: ` : ""}${shown.sections[section - 1]}.`
        : "In no table: a newer trial of the same cell replaced it.",
    ),
    conditions
      ? element(
          "p",
          { class: "small" },
          `Started ${at(conditions.started_at, place)}; took ${told(at(conditions.wall_s, place), 1)} s. ` +
            `Files: ${folder} in the results folder.`,
        )
      : null,
    heading("Samples"),
    samples ? curve(shown, samples[place], folder) : absent("Samples are", "samples.csv"),
    heading("Figures"),
    figures ? figuresOf(figures, place) : absent("Figures are", "result.json"),
    heading("Checks"),
    checks ? checksOf(checks, place) : absent("Checks are", "result.json"),
    heading("Epochs"),
    epochs ? epochsOf(epochs[place]) : absent("Epochs are", "result.json"),
    heading("Conditions"),
    ...(conditions
      ? Object.entries(GROUPS).map(([key, label]) => group(label, conditions[key], place))
      : [absent("Conditions are", "result.json")]),
    heading("Log"),
    logs && at(logs.there, place) ? logOf(at(logs.text, place)) : absent("The log is", "log.txt"),
  ];
}

function heading(text) {
  return element("h3", {}, text);
}

function curve(shown, samples, folder) {
  if (samples === false)
    return element(
      "p",
      { class: "small" },
      `No curve here, to keep this page small; the raw samples are in ${folder}samples.csv.`,
    );
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

function figuresOf(figures, place) {
  const own = figures.filter((figure) => at(figure.there, place));
  if (!own.length) return element("p", { class: "small" }, "None: the trial did not get so far.");
  const rows = own.map((figure) => {
    const value = at(figure.values, place);
    const reason = at(figure.reason, place);
    return [
      element("span", {}, figure.label, " ", element("code", {}, figure.name)),
      value === null ? "–" : `${readable(value)} ${figure.unit}`.trim(),
      at(figure.samples, place) === null ? "" : String(at(figure.samples, place)),
      value === null ? `unknown: ${reason}` : at(figure.source, place),
    ];
  });
  return table(["Figure", "Value", "Samples", "Source, or why it is unknown"], rows, "Figures of the trial", true);
}

function checksOf(checks, place) {
  const rows = Object.entries(checks.passed)
    .filter(([, column]) => at(column, place) !== null)
    .map(([name, column]) => {
      const passed = at(column, place);
      const detail = checks.detail[name] ? at(checks.detail[name], place) : null;
      return [name, element("span", { class: passed ? null : "failed" }, passed ? "passed" : "failed"), detail ?? ""];
    });
  return rows.length
    ? table(["Check", "Outcome", "What was found"], rows, "Checks of the trial", true)
    : element("p", { class: "small" }, "None was made.");
}

function epochsOf(epochs) {
  if (!epochs.length) return element("p", { class: "small" }, "None was finished.");
  const rows = epochs.map(([seconds, train, test, accuracy], place) => [
    String(place + 1),
    told(seconds),
    told(train, 4),
    told(test, 4),
    told(accuracy, 2),
  ]);
  return table(["Epoch", "Training, s", "Training loss", "Test loss", "Test accuracy, %"], rows, "Epochs of the trial");
}

function group(label, columns, place) {
  const known = Object.entries(columns)
    .map(([key, column]) => [key, at(column, place)])
    .filter(([, value]) => value !== null);
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
