// What ECharts is given for one panel: axes, tooltip, series. Places, spans and styles come with the data.

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';

// Black is the text and white the paper, whichever colours the reader's page has.
const colourOf = (colour) => ({ "#000000": ink.text, "#FFFFFF": ink.paper })[colour] ?? colour;

function optionOf(view, panel, whole) {
  const traces = view.visible(panel);
  const { data, logarithmic } = view;
  const { x, y } = view.seen ?? whole;
  const batches = data.xLog ? [...new Set(traces.flatMap((trace) => trace.x))].sort((a, b) => a - b) : undefined;
  return {
    animation: false,
    textStyle: { fontFamily: FONT },
    grid: { left: 4, right: 14, top: 10, bottom: 30, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
    tooltip: { ...tip(), formatter: (points) => tipOf(view, traces, points[0].value[0]) },
    xAxis: {
      ...axis(x, data.xLog, batches?.filter((place) => place >= x[0] && place <= x[1])),
      axisTick: { customValues: batches, lineStyle: { color: ink.muted } },
      axisLine: { onZero: false, lineStyle: { color: ink.muted } },
      splitLine: { show: false },
      minInterval: 1,
      name: data.xLabel,
      nameLocation: "middle",
      nameGap: 26,
    },
    yAxis: axis(y, logarithmic, logarithmic ? logarithmicTicks(y) : undefined, data.fullScale),
    series: [...areas(traces), ...lines(traces, logarithmic), ...bars(traces, y[0])],
  };
}

// `ticks` are the library's own where none are given; an end that is no round number has no label and no line.
function axis([min, max], logarithmic, ticks, fullScale = null) {
  const showMin = Boolean(ticks) || min === 0;
  const showMax = Boolean(ticks) || max === fullScale || typeof max !== "number";
  return {
    type: logarithmic ? "log" : "value",
    min,
    max,
    axisLabel: {
      color: ink.muted,
      fontSize: 12,
      customValues: ticks,
      hideOverlap: true,
      formatter: readable,
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

function logarithmicTicks([low, high]) {
  const powers = Array.from({ length: 40 }, (_, place) => place - 20);
  const choices = FACTORS.map((factors) =>
    powers
      .flatMap((power) => factors.map((factor) => Number(`${factor.toFixed(1)}e${power}`)))
      .filter((tick) => tick >= low && tick <= high),
  );
  return choices.find((ticks) => ticks.length >= ENOUGH) ?? choices.at(-1);
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
  const { to } = space(view.data.xLog);
  const away = (x) => Math.abs(to(x) - to(at)); // points may stand side by side
  const x = traces.flatMap((trace) => trace.x).reduce((best, other) => (away(other) < away(best) ? other : best));
  const rows = traces
    .map((trace) => [trace, trace.x.indexOf(x)])
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
    element("p", {}, `${view.data.xLabel.replace(/ *\(.*\)$/, "")}: ${x}`),
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
      data: trace.x.map((x, point) => [x, trace.above[point]]),
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
      data: trace.at.map((x, point) => [x, logarithmic && trace.y[point] <= 0 ? null : trace.y[point]]),
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
        borderWidth: 1.5,
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
      .map((low, point) => [trace.at[point], low, trace.high[point]])
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
