// Charts: ECharts draws; what is shown is decided here. One drawing a panel, all panels of a chart on the same scales.

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

// An axis in its own space: logarithmic ones are even there.
function space(logarithmic) {
  return logarithmic
    ? { to: Math.log10, from: (value) => 10 ** value }
    : { to: (value) => value, from: (value) => value };
}

// `factor` < 1 zooms in about the middle; `shift` moves by parts of what is seen. Never beyond `whole`.
function moved(seen, whole, logarithmic, factor, shift) {
  const { to, from } = space(logarithmic);
  const [low, high] = seen.map(to);
  const [least, most] = whole.map(to);
  const width = Math.min((high - low) * factor, most - least);
  const middle = (low + high) / 2 + shift * (high - low);
  const start = Math.min(Math.max(middle - width / 2, least), most - width);
  return [from(start), from(start + width)];
}

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
    this.stacked = data.panels.some((panel) => panel.traces.some((trace) => trace.style.area));
    const holder = figure.querySelector(".panels");
    if (data.panels.length > 1) holder.classList.add("several", data.panels.length % 3 ? "by-two" : "by-three");
    this.yLabel = element("p", { class: "y-label" });
    holder.before(this.yLabel);
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
    this.enlarging(figure.querySelector(".larger"));
  }

  // A small chart beside others can have the whole width, with everything that operates it.
  enlarging(button) {
    if (!button) return;
    button.hidden = false;
    button.addEventListener("click", () => {
      const enlarged = this.figure.classList.toggle("enlarged");
      button.setAttribute("aria-pressed", enlarged);
      button.textContent = enlarged ? "Smaller" : "Larger";
    });
  }

  controls() {
    const holder = this.figure.querySelector(".controls");
    const values = this.data.panels
      .flatMap((panel) => panel.traces.flatMap((trace) => trace.y))
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
    const entries = this.data.legend.map(({ key, label, style }) =>
      element("li", { "data-key": key }, swatch(style), label),
    );
    return element("ul", { class: "legend", "aria-label": "Legend" }, ...entries);
  }

  // A panel's numbers as a table, made when it is asked for.
  numbers(panel, place) {
    const xs = [...new Set(panel.traces.flatMap((trace) => trace.x))].sort((one, other) => one - other);
    const cell = (trace, number, x) => {
      const point = trace.x.indexOf(x);
      const link = trace.trials[point]?.length ? this.link(place, number, point) : null;
      const text = point < 0 ? "" : withInterval(trace, point);
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
            element("th", { scope: "col" }, this.data.xName),
            ...xs.map((x) => element("th", { scope: "col" }, String(x))),
          ),
        ),
        element(
          "tbody",
          {},
          ...panel.traces.map((trace, number) =>
            element("tr", {}, element("th", { scope: "row" }, trace.label), ...xs.map((x) => cell(trace, number, x))),
          ),
        ),
      ),
    );
  }

  link(panel, trace, point) {
    return `#point-${this.id}.${panel}.${trace}.${point}`;
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
    return panel.traces.map((trace, place) => ({ ...trace, place })).filter((trace) => !this.off.has(trace.key));
  }

  // [x, y] of everything that is shown, over all panels, so that panels can be compared.
  whole() {
    const spans = this.panels
      .filter(({ drawing }) => !drawing.parentElement.hidden)
      .flatMap(({ panel }) => this.visible(panel))
      .map((trace) => (this.logarithmic ? trace.logarithmic : trace.linear))
      .filter(Boolean);
    const low = Math.min(...spans.map((span) => span[0]));
    const high = Math.max(...spans.map((span) => span[1]));
    return { x: this.data.xSpan, y: high > low ? [low, high] : [this.logarithmic ? 0.1 : 0, 1] };
  }

  zoom(factor, right, up) {
    const whole = this.whole();
    const seen = this.seen ?? whole;
    const next = {
      x: moved(seen.x, whole.x, this.data.xScale === "log", factor, right),
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
        const [, trace] = String(event.seriesId).split("-").map(Number);
        if (this.panels[place].panel.traces[trace]?.trials[event.dataIndex]?.length)
          location.hash = this.link(place, trace, event.dataIndex);
      });
      boxZoom(chart, (x, y) => this.set({ seen: { x, y } }));
    }
    new ResizeObserver(() => {
      this.panels.forEach(({ chart }) => chart.resize());
      this.draw(); // as many labels as there is room for now
    }).observe(this.figure);
    this.draw();
  }

  // What is folded has no size to be drawn in.
  isSeen() {
    return this.figure.checkVisibility();
  }

  draw() {
    if (!this.started) return;
    const whole = this.whole();
    const note = this.logarithmic ? "logarithmic" : this.cut((this.seen ?? whole).y) ? this.data.notFromZero : "";
    this.yLabel.textContent = note ? `${this.data.yLabel} (${note})` : this.data.yLabel;
    for (const { panel, chart } of this.panels)
      chart.setOption(optionOf(this, panel, whole, chart.getWidth(), chart.getHeight()), { notMerge: true });
  }

  // Whether heights are no amounts, for the value axis starts above 0.
  cut([low]) {
    return !this.logarithmic && low > 0;
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

// A rectangle drawn with the mouse is zoomed into; fingers scroll the page.
function boxZoom(chart, zoomed) {
  const zr = chart.getZr();
  const mouse = ({ event }) => (event.pointerType ?? "mouse") === "mouse" && !String(event.type).startsWith("touch");
  let from = null;
  const rectangle = ({ offsetX, offsetY }) => ({
    x: Math.min(from[0], offsetX),
    y: Math.min(from[1], offsetY),
    width: Math.abs(offsetX - from[0]),
    height: Math.abs(offsetY - from[1]),
  });
  const show = (shape) =>
    chart.setOption({
      graphic: [
        {
          id: "box",
          type: "rect",
          $action: "replace",
          silent: true,
          z: 50,
          shape,
          style: { fill: ink.muted, opacity: 0.18 },
          invisible: !shape.width,
        },
      ],
    });
  zr.on("mousedown", (event) => {
    if (mouse(event) && chart.containPixel({ gridIndex: 0 }, [event.offsetX, event.offsetY]))
      from = [event.offsetX, event.offsetY];
  });
  zr.on("mousemove", (event) => from && show(rectangle(event)));
  const end = (event) => {
    if (!from) return;
    const box = rectangle(event);
    const corners = [
      [box.x, box.y + box.height],
      [box.x + box.width, box.y],
    ].map((pixel) => chart.convertFromPixel({ gridIndex: 0 }, pixel));
    from = null;
    show({ x: 0, y: 0, width: 0, height: 0 });
    if (box.width > 8 && box.height > 8) zoomed([corners[0][0], corners[1][0]], [corners[0][1], corners[1][1]]);
  };
  zr.on("mouseup", end);
  zr.on("globalout", () => from && ((from = null), show({ x: 0, y: 0, width: 0, height: 0 })));
}
