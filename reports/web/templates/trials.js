// The table of all trials: made page by page from the columns, so that ten thousand are as quick as ten.

const ROWS = 50;
const PRINTED_ROWS = 300;

class TrialsTable {
  constructor(holder, shown) {
    Object.assign(this, { shown, trials: shown.trials, text: "", off: new Set(), page: 0, sort: null });
    this.columns = this.columnsOf();
    this.all = shown.trials.key.map((_, place) => place);
    this.words = null;
    this.build(holder);
    document.addEventListener("frameworks", (event) => ((this.off = event.detail), this.changed()));
    this.changed();
  }

  columnsOf() {
    const { trials, shown } = this;
    const names = new Map(shown.frameworks);
    return [
      { label: "Trial", words: true, value: (place) => trials.key[place] },
      { label: "Framework", words: true, value: (place) => names.get(trials.framework[place]) },
      { label: "Batch size", value: (place) => trials.batch[place] },
      { label: "Repeat", value: (place) => trials.repeat[place] },
      { label: "Status", words: true, value: (place) => trials.status[place] },
      ...(trials.attempt.some(Boolean)
        ? [{ label: "Attempt", words: true, value: (place) => trials.attempt[place] || "the only one" }]
        : []),
      ...(shown.sections.length > 1
        ? [{ label: "Section", value: (place) => trials.section[place] || "replaced" }]
        : []),
      ...trials.figures.map((figure) => ({
        label: `${figure.label}, ${figure.unit}`,
        value: (place) => figure.values[place],
        text: (value) => numberText(value, figure.decimals),
      })),
    ];
  }

  build(holder) {
    const heads = this.columns.map((column) =>
      element("th", { scope: "col", class: column.words ? "left" : null }, column.label),
    );
    this.body = element("tbody");
    this.status = element("span", { class: "count", role: "status" });
    this.pager = element("div", { class: "pager", role: "group", "aria-label": "Pages of the table" });
    const table = element(
      "table",
      { "aria-labelledby": "trials-title" },
      element("thead", {}, element("tr", {}, ...heads)),
      this.body,
    );
    heads.forEach((heading, column) =>
      sortable(heading, (direction) => ((this.sort = direction ? [column, direction] : null), this.changed())),
    );
    holder.append(
      element(
        "div",
        { class: "filter" },
        filterBox((text) => ((this.text = text), this.changed())),
        this.status,
      ),
      element("div", { class: "scroll", role: "region", tabindex: "0", "aria-labelledby": "trials-title" }, table),
      this.pager,
    );
  }

  // Every word that is typed must be in the row: "pytorch 128" are PyTorch's trials of batch size 128.
  fits(place, wanted) {
    this.words ??= this.all.map((one) =>
      ` ${this.columns
        .filter((column) => !column.text)
        .map((column) => column.value(one))
        .join(" ")} `.toLowerCase(),
    );
    return wanted.every((word) =>
      /^\d+$/.test(word) ? this.words[place].includes(` ${word} `) : this.words[place].includes(word),
    );
  }

  changed() {
    const wanted = this.text.split(/\s+/).filter(Boolean);
    let found = this.all.filter((place) => !this.off.has(this.trials.framework[place]));
    if (wanted.length) found = found.filter((place) => this.fits(place, wanted));
    if (this.sort) {
      const [column, direction] = this.sort;
      const keys = new Map(found.map((place) => [place, this.columns[column].value(place)]));
      found.sort((one, other) => compare(keys.get(one), keys.get(other), direction) || one - other);
    }
    this.found = found;
    this.page = 0;
    const all = this.all.length.toLocaleString("en");
    this.status.textContent =
      found.length < this.all.length ? `${found.length.toLocaleString("en")} of ${all} trials` : `${all} trials`;
    this.show();
  }

  show(most = ROWS) {
    const first = this.page * ROWS;
    this.body.replaceChildren(...this.found.slice(first, first + most).map((place) => this.row(place)));
    const pages = Math.ceil(this.found.length / ROWS);
    const turn = (label, page) =>
      element(
        "button",
        {
          type: "button",
          disabled: page < 0 || page >= pages,
          onclick: () => (
            (this.page = page),
            this.show(),
            this.pager.querySelector(`[data-label="${label}"]:enabled, button:enabled`)?.focus()
          ),
          "data-label": label,
        },
        label,
      );
    this.pager.hidden = pages < 2;
    this.pager.replaceChildren(
      turn("First", this.page ? 0 : -1),
      turn("Previous", this.page - 1),
      element(
        "span",
        { role: "status" },
        `${first + 1} to ${Math.min(first + ROWS, this.found.length)} of ${this.found.length.toLocaleString("en")}`,
      ),
      turn("Next", this.page + 1),
      turn("Last", this.page < pages - 1 ? pages - 1 : -1),
    );
  }

  row(place) {
    return element(
      "tr",
      {},
      ...this.columns.map((column, number) => {
        const value = column.value(place);
        if (!number) return element("th", { scope: "row" }, element("a", { href: `#trial-${value}` }, value));
        return element(
          "td",
          { class: column.words ? "left" : null },
          column.text ? column.text(value) : String(value ?? "–"),
        );
      }),
    );
  }

  print(on) {
    this.page = on ? 0 : this.page;
    this.show(on ? PRINTED_ROWS : ROWS);
  }
}
