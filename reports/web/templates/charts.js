// Charts: ECharts draws; what is shown is decided here. One drawing a panel, all panels of a chart on the same scales.

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
const DOTTED = [2, 3];
const DASHED = [7, 3];
const PRINTED = { width: 660, height: 250, gap: 24, panel: 190 }; // pixels of 1/96 inch, on an A4 page

let ink = null; // the colours of the page, read when they change

function readInk(light) {
  document.documentElement.classList.toggle("light", light);
  const style = getComputedStyle(document.documentElement);
  ink = Object.fromEntries(
    ["text", "muted", "line", "paper", "faint"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
  );
  document.documentElement.classList.remove("light");
}

const FARTHER = 1.3;
const OF_SEVERAL = { colour: "#000000", symbol: "circle", size: 8, dashes: [] }; // a label of several frameworks

class ChartView {
  constructor(figure, data, shown) {
    Object.assign(this, {
      figure,
      data,
      shown,
      id: figure.dataset.chart,
      logarithmic: data.yLog,
      off: new Set(),
      seen: null,
      panels: [],
    });
    this.stacked = data.panels.some((panel) => panel.series.some((one) => one.kind === "part"));
    const holder = figure.querySelector(".panels");
    if (data.panels.length > 1) holder.classList.add("several", data.panels.length % 3 ? "by-two" : "by-three");
    holder.before(element("p", { class: "y-label" }, data.yLabel));
    for (const panel of data.panels) {
      const drawing = element("div", {
        class: "drawing",
        role: "img",
        "aria-label": [data.title, panel.title].filter(Boolean).join(": "),
        "aria-describedby": `${this.id}-alt`,
      });
      const heading = panel.title ? element("p", { class: "panel-title" }, panel.title) : null;
      holder.append(element("div", { class: "panel" }, heading, drawing));
      this.panels.push({ panel, drawing, chart: null });
    }
    this.controls();
  }

  controls() {
    const holder = this.figure.querySelector(".controls");
    const values = this.data.panels
      .flatMap((panel) => panel.series.flatMap((one) => one.y))
      .filter((value) => value !== null);
    const scale = (name, checked) =>
      element(
        "label",
        {},
        element("input", {
          type: "radio",
          name: `${this.id}-scale`,
          value: name,
          checked,
          onchange: () => this.set({ logarithmic: name === "log", seen: null }),
        }),
        name === "log" ? " logarithmic" : " linear",
      );
    const switchable = !this.stacked && values.some((value) => value > 0) && values.every((value) => value >= 0);
    const zoom = (label, text, change) =>
      element("button", { type: "button", "aria-label": label, title: label, onclick: change }, text);
    const pans = [
      zoom("Move left", "←", () => this.zoom(1, -0.25, 0)),
      zoom("Move right", "→", () => this.zoom(1, 0.25, 0)),
      zoom("Move down", "↓", () => this.zoom(1, 0, -0.25)),
      zoom("Move up", "↑", () => this.zoom(1, 0, 0.25)),
      zoom("Show all", "Reset", () => this.set({ seen: null })),
    ];
    this.pans = element("span", { class: "pans", hidden: true }, ...pans);
    holder.append(
      this.legend(),
      element(
        "div",
        { class: "tools" },
        switchable
          ? element(
              "fieldset",
              {},
              element("legend", {}, "Value axis"),
              scale("linear", !this.logarithmic),
              scale("log", this.logarithmic),
            )
          : null,
        element(
          "div",
          { role: "group", "aria-label": "Zoom", class: "zoom" },
          zoom("Zoom in", "+", () => this.zoom(0.5, 0, 0)),
          zoom("Zoom out", "−", () => this.zoom(2, 0, 0)),
          this.pans,
        ),
      ),
    );
    holder.hidden = false;
    this.figure.querySelector("details").addEventListener("toggle", ({ target }) => {
      if (target.open && !target.querySelector("table"))
        target.append(...this.data.panels.map((panel, place) => this.numbers(panel, place)));
    });
  }

  legend() {
    const series = new Map();
    for (const one of this.data.panels.flatMap((panel) => panel.series)) {
      const same = series.get(one.label);
      series.set(one.label, same && same.key !== one.key ? { ...one, key: null } : one);
    }
    const entry = (one) =>
      element("li", { "data-key": one.key }, swatch(this.shown.looks[one.key] ?? OF_SEVERAL, one.kind), one.label);
    return element("ul", { class: "legend", "aria-label": "Legend" }, ...[...series.values()].map(entry));
  }

  // A panel's numbers as a table, made when it is asked for.
  numbers(panel, place) {
    const xs = [...new Set(panel.series.flatMap((one) => one.x))].sort((one, other) => one - other);
    const cell = (one, series, x) => {
      const point = one.x.indexOf(x);
      const link = one.trials[point] ? this.link(place, series, point) : null;
      const text = point < 0 ? "" : withInterval(one, point);
      return element("td", {}, link ? element("a", { href: link, class: "trials" }, text) : text);
    };
    return element(
      "div",
      { class: "scroll", role: "region", tabindex: "0", "aria-label": `${this.data.title} ${panel.title}: numbers` },
      element(
        "table",
        {},
        element("caption", {}, [panel.title, this.data.yLabel].filter(Boolean).join(": ")),
        element(
          "thead",
          {},
          element(
            "tr",
            {},
            element("th", { scope: "col" }, this.data.xLabel),
            ...xs.map((x) => element("th", { scope: "col" }, String(x))),
          ),
        ),
        element(
          "tbody",
          {},
          ...panel.series.map((one, series) =>
            element("tr", {}, element("th", { scope: "row" }, one.label), ...xs.map((x) => cell(one, series, x))),
          ),
        ),
      ),
    );
  }

  link(panel, series, point) {
    return `#point-${this.id}.${panel}.${series}.${point}`;
  }

  set(change) {
    Object.assign(this, change);
    this.pans.hidden = this.seen === null;
    const off = new Set(this.shown.frameworks.filter(([key]) => this.off.has(key)).map(([, name]) => name));
    for (const { panel, drawing } of this.panels) drawing.parentElement.hidden = off.has(panel.title);
    for (const item of this.figure.querySelectorAll(".legend li")) item.hidden = this.off.has(item.dataset.key);
    this.draw();
  }

  visible(panel) {
    return panel.series.map((one, place) => ({ ...one, place })).filter((one) => !this.off.has(one.key));
  }

  // [x, y] of everything that is shown, over all panels, so that panels can be compared.
  whole() {
    const panels = this.panels
      .filter(({ drawing }) => !drawing.parentElement.hidden)
      .map(({ panel }) => this.visible(panel));
    const series = panels.flat();
    const stacks = panels.flatMap((one) => cumulated(one).flatMap((part) => part.top));
    const values = [...series.flatMap((one) => one.y), ...stacks].filter((value) => value !== null);
    // Bars that reach far go on beyond the frame: points decide what is seen.
    const [least, most] = [
      Math.min(...values) / FARTHER,
      Math.min(Math.max(...values) * FARTHER, this.data.fullScale ?? Infinity),
    ];
    const ends = series.flatMap((one) => [...one.low, ...one.high]);
    values.push(...ends.filter((end) => end !== null && end >= least && end <= most));
    const xs = series.flatMap((one) => one.x);
    return {
      x: spanOfX(xs.length ? xs : [1, 2], this.data.xLog),
      y: spanOfY(values, this.logarithmic, this.data.fullScale),
    };
  }

  zoom(factor, right, up) {
    const whole = this.whole();
    const seen = this.seen ?? whole;
    const next = {
      x: moved(seen.x, whole.x, this.data.xLog, factor, right),
      y: moved(seen.y, whole.y, this.logarithmic, factor, up),
    };
    const all = factor > 1 && next.x[0] <= whole.x[0] && next.x[1] >= whole.x[1] && next.y[1] >= whole.y[1];
    this.set({ seen: all ? null : next });
  }

  start() {
    if (this.started) return;
    this.started = true;
    for (const [place, { drawing }] of this.panels.entries()) {
      const chart = echarts.init(drawing, null, { renderer: "svg" });
      this.panels[place].chart = chart;
      chart.on("click", (event) => {
        const [, series] = String(event.seriesId).split("-").map(Number);
        if (this.panels[place].panel.series[series]?.trials[event.dataIndex])
          location.hash = this.link(place, series, event.dataIndex);
      });
      boxZoom(chart, (x, y) => this.set({ seen: { x, y } }));
    }
    new ResizeObserver(() => this.panels.forEach(({ chart }) => chart.resize())).observe(this.figure);
    this.draw();
  }

  draw() {
    if (!this.started) return;
    const whole = this.whole();
    for (const { panel, chart } of this.panels) chart.setOption(optionOf(this, panel, whole), { notMerge: true });
  }

  print(on) {
    this.start();
    const beside = this.panels.length === 1 ? 1 : this.panels.length % 3 ? 2 : 3;
    const width = (PRINTED.width - (beside - 1) * PRINTED.gap) / beside;
    const height = beside === 1 ? PRINTED.height : PRINTED.panel;
    for (const { chart } of this.panels) chart.resize(on ? { width, height } : { width: "auto", height: "auto" });
    this.draw();
    for (const { chart } of this.panels) chart.getZr().flush();
  }
}
