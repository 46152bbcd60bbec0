// What ECharts is given for one panel: axes, tooltip, series. Places, spans and styles come with the data.

const BREAK = [[0, 0], [0, 5], [3, 7], [-3, 10], [3, 13], [-3, 16], [0, 18], [0, 23]]; // pixels
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';

// Black is the text and white the paper, whichever colours the reader's page has.
const colourOf = (colour) => ({ "#000000": ink.text, "#FFFFFF": ink.paper })[colour] ?? colour;

// `width` and `height` are those of the whole drawing, in pixels.
function optionOf(view, panel, whole, width, height) {
  const { data, logarithmic } = view;
  const { x, y } = view.seen ?? whole;
  const traces = view.visible(panel).map((trace) => ({ ...trace, drawnAt: aside(trace, data, x, width) }));
  const most = Math.floor((height - BELOW) / LABEL.height);
  const amounts = logarithmic ? logarithmicTicks(y, most) : evenTicks(y, Math.min(7, most / 2));
  const inside = width - BESIDE - LABEL.digit * Math.max(...amounts.map((amount) => readable(amount).length));
  const named = data.xScale === "linear" ? numbered(x, inside) : placed(data, traces, x, inside);
  const rows = Math.max(1, ...[...named.values()].map((name) => name.split("\n").length));
  const below = axis(x, data.xScale === "log", [...named.keys()], (at) => named.get(at));
  return {
    animation: false,
    textStyle: { fontFamily: FONT },
    grid: { left: 4, right: 14, top: 10, bottom: 30, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
    tooltip: { ...tip(), formatter: (points) => tipOf(view, traces, points[0].value[0]) },
    xAxis: {
      ...below,
      axisLabel: { ...below.axisLabel, verticalAlign: "top" },
      axisTick: { customValues: [...named.keys()], lineStyle: { color: ink.muted } },
      axisLine: { onZero: false, lineStyle: { color: ink.muted } },
      splitLine: { show: false },
      name: data.xLabel,
      nameLocation: "middle",
      nameGap: 12 + LABEL.height * rows,
    },
    yAxis: axis(y, logarithmic, amounts),
    series: [
      ...areas(traces),
      ...lines(traces, logarithmic),
      ...bars(traces, y[0]),
      ...(view.cut(y) ? [breakMark(traces, y[0])] : []),
    ],
  };
}

const LABEL = { digit: 7.7, height: 14, rows: 3 }; // pixels at 12 pixels' size; of the axis below
const BESIDE = 26; // pixels beside the axes and their labels
const BELOW = 60; // of what stands below and above

// Where a trace's points are drawn: as far aside as its bars need, in pixels whatever is zoomed into.
function aside(trace, data, x, width) {
  const { to, from } = space(data.xScale === "log");
  const shift = (trace.aside / width) * (to(x[1]) - to(x[0]));
  return trace.at.map((at) => (shift ? from(to(at) + shift) : at));
}

// {place on the axis: its name}. Neighbours too close for names side by side have them in rows; without room, no tick.
function placed(data, traces, [low, high], width) {
  const { to } = space(data.xScale === "log");
  const pixels = width / (to(high) - to(low));
  const ends = Array(LABEL.rows).fill(-Infinity);
  const named = new Map();
  for (const at of [...new Set(traces.flatMap((trace) => trace.at))].sort((one, other) => one - other)) {
    const name = readable(data.places?.[at] ?? at);
    const half = ((name.length + 1) * LABEL.digit) / 2;
    const row = ends.findIndex((end) => to(at) * pixels - half >= end);
    if (row < 0 || at < low || at > high) continue;
    named.set(at, "\n".repeat(row) + name);
    ends[row] = to(at) * pixels + half;
  }
  return named;
}

// The same of an axis of amounts: whole numbers.
function numbered([low, high], width) {
  const most = Math.min(10, width / ((readable(Math.ceil(high)).length + 2) * LABEL.digit));
  return new Map(evenTicks([low, high], most, 1).map((tick) => [tick, readable(tick)]));
}

// Multiples of 1, 2 or 5 times a power of ten, `most` at most and one more, no closer than `least`.
function evenTicks([low, high], most, least = 0) {
  const room = Math.max((high - low) / Math.max(most, 1), least);
  const power = 10 ** Math.floor(Math.log10(room));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= room * (1 - 1e-9));
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: Math.max(0, count) }, (_, place) => Number(((first + place) * step).toPrecision(12)));
}

// `ticks` are the library's own where none are given; an end that is no round number has no label and no line.
function axis([min, max], logarithmic, ticks, formatter = readable) {
  const showMin = Boolean(ticks) || min === 0;
  const showMax = Boolean(ticks) || typeof max !== "number";
  return {
    type: logarithmic ? "log" : "value",
    min,
    max,
    axisLabel: {
      color: ink.muted,
      fontSize: 12,
      lineHeight: LABEL.height,
      customValues: ticks,
      hideOverlap: !ticks,
      formatter,
      showMinLabel: showMin ? null : false,
      showMaxLabel: showMax ? null : false,
    },
    axisTick: { show: false, customValues: ticks },
    axisLine: { show: false },
    splitLine: { lineStyle: { color: ink.line }, showMinLine: showMin, showMaxLine: showMax },
    minorTick: { show: false },
    nameTextStyle: { color: ink.muted, fontSize: 12 },
  };
}

// Factors of powers of ten: the first of these with enough ticks is taken.
const FACTORS = [
  [1, 2, 5],
  [1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9],
  Array.from({ length: 90 }, (_, tenth) => 1 + tenth / 10),
];
const ENOUGH = 4;

// `most` at most: powers of ten where there would be more.
function logarithmicTicks([low, high], most) {
  const powers = Array.from({ length: 40 }, (_, place) => place - 20);
  const choices = FACTORS.map((factors) =>
    powers
      .flatMap((power) => factors.map((factor) => Number(`${factor.toFixed(1)}e${power}`)))
      .filter((tick) => tick >= low && tick <= high),
  );
  const ticks = choices.find((choice) => choice.length >= ENOUGH) ?? choices.at(-1);
  if (ticks.length <= most) return ticks;
  const tens = ticks.filter((tick) => tick.toExponential().startsWith("1e"));
  return tens.filter((_, place) => place % Math.ceil(tens.length / most) === 0);
}

function tip() {
  return {
    trigger: "axis",
    confine: true,
    transitionDuration: 0,
    backgroundColor: ink.paper,
    borderColor: ink.line,
    textStyle: { color: ink.text, fontSize: 13 },
    axisPointer: { type: "line", lineStyle: { color: ink.muted, type: "solid", width: 1 } },
  };
}

function tipOf(view, traces, at) {
  const { to } = space(view.data.xScale === "log");
  const away = (place) => Math.abs(to(place) - to(at)); // points may stand side by side
  const place = traces.flatMap((trace) => trace.at).reduce((best, other) => (away(other) < away(best) ? other : best));
  const rows = traces
    .map((trace) => [trace, trace.at.indexOf(place)])
    .filter(([trace, point]) => point >= 0 && trace.y[point] !== null)
    .map(([trace, point]) =>
      element(
        "tr",
        {},
        element("td", {}, swatch(trace.style), trace.label),
        element("td", {}, withInterval(trace, point)),
      ),
    );
  return element(
    "div",
    { class: "tip" },
    element("p", {}, `${view.data.xName}: ${view.data.places?.[place] ?? place}`),
    element("table", {}, element("tbody", {}, ...rows)),
  );
}

function withInterval(trace, point) {
  const [low, high] = [trace.low[point], trace.high[point]];
  const known = typeof low === "number" && typeof high === "number" && low !== high;
  return numberText(trace.y[point]) + (known ? ` [${numberText(low)}, ${numberText(high)}]` : "");
}

// The highest is drawn first, each from 0 on, so that every lower one covers it.
function areas(traces) {
  return traces
    .filter((trace) => trace.style.area)
    .reverse()
    .map((trace, place) => ({
      id: `part-${trace.place}`,
      name: trace.label,
      type: "line",
      data: trace.at.map((at, point) => [at, trace.above[point]]),
      symbol: "circle",
      symbolSize: 5,
      showSymbol: trace.x.length === 1,
      color: colourOf(trace.style.fill),
      lineStyle: { color: ink.paper, width: 1 },
      areaStyle: { color: colourOf(trace.style.fill), opacity: 1, origin: 0 },
      z: 2 + place / 100,
    }));
}

function lines(traces, logarithmic) {
  return traces
    .filter((trace) => !trace.style.area)
    .map(({ style, ...trace }) => ({
      id: `line-${trace.place}`,
      name: trace.label,
      type: "line",
      clip: true,
      data: trace.drawnAt.map((x, point) => [x, logarithmic && trace.y[point] <= 0 ? null : trace.y[point]]),
      symbol: style.marker ? `path://${style.marker}` : "none",
      showAllSymbol: true,
      symbolSize: style.size,
      cursor: trace.trials.length ? "pointer" : "default",
      lineStyle: {
        color: colourOf(style.colour),
        width: style.width,
        type: style.line.length ? style.line : "solid",
        opacity: style.opacity,
      },
      itemStyle: {
        color: style.fill ? colourOf(style.fill) : "transparent",
        borderColor: colourOf(style.colour),
        borderWidth: Math.min(1.5, 1.5 * (style.width || 1)), // 0: points that no line joins
        opacity: style.opacity,
      },
      emphasis: { scale: 1.25, itemStyle: { borderWidth: 2.2 }, lineStyle: { width: style.width * 1.25 } },
      z: style.opacity < 1 ? 3 : 4,
    }));
}

// From low to high at every point that has both.
function bars(traces, bottom) {
  return traces.map(({ style, ...trace }) => ({
    id: `bar-${trace.place}`,
    type: "custom",
    clip: true,
    silent: true,
    encode: { x: 0, y: [1, 2] },
    tooltip: { show: false },
    data: trace.low
      .map((low, point) => [trace.drawnAt[point], low, trace.high[point]])
      .filter(([, low, high]) => low !== null && high !== null && low !== high),
    renderItem: (_, api) => {
      const [x, low] = api.coord([api.value(0), Math.max(api.value(1), bottom)]);
      const high = api.coord([api.value(0), api.value(2)])[1];
      const cap = style.size / 3;
      const stroke = { stroke: colourOf(style.colour), lineWidth: 1.2, fill: "none" };
      const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style: stroke });
      const ends = [line(x - cap, high, x + cap, high)];
      if (api.value(1) >= bottom) ends.push(line(x - cap, low, x + cap, low)); // else it goes on below the frame
      return { type: "group", children: [line(x, low, x, high), ...ends] };
    },
    z: 3,
  }));
}

// A zigzag at the foot of the value axis.
function breakMark(traces, bottom) {
  return {
    id: "break",
    type: "custom",
    clip: false,
    silent: true,
    tooltip: { show: false },
    data: [[traces[0].drawnAt[0], bottom]],
    renderItem: ({ coordSys: { x, y, height } }) => ({
      type: "polyline",
      shape: { points: BREAK.map(([right, up]) => [x + right, y + height - up]) },
      style: { stroke: ink.text, lineWidth: 1.2, fill: "none" },
    }),
    z: 5,
  };
}

const SVG = "http://www.w3.org/2000/svg";

// A sample of a series' line and marker, beside its name.
function swatch(style) {
  const sample = document.createElementNS(SVG, "svg");
  const add = (name, attributes) => {
    const child = sample.appendChild(document.createElementNS(SVG, name));
    for (const [key, value] of Object.entries(attributes)) child.setAttribute(key, value);
  };
  const paint = (colour) => ({ "#000000": "currentColor", "#FFFFFF": "var(--paper)" })[colour] ?? colour;
  sample.setAttribute("viewBox", "0 0 32 12");
  sample.setAttribute("class", "swatch");
  sample.setAttribute("aria-hidden", "true");
  sample.setAttribute("opacity", style.opacity);
  const stroke = paint(style.colour);
  if (style.area) {
    add("rect", { x: 8, y: 0, width: 16, height: 12, fill: paint(style.fill) });
    return sample;
  }
  const dashes = style.line.join(" ");
  add("line", { x1: 0, y1: 6, x2: 32, y2: 6, stroke, "stroke-width": style.width, "stroke-dasharray": dashes });
  const size = style.size / 10;
  const transform = `translate(${16 - 5 * size} ${6 - 5 * size}) scale(${size})`;
  const fill = paint(style.fill) || "var(--paper)";
  add("path", { d: style.marker, fill, stroke, "stroke-width": 1.5 / (size || 1), transform });
  return sample;
}
