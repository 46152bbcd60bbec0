// The series of a chart as ECharts wants them, in the looks of the frameworks and of the memory's parts.

const PUBLISHED = { "published-table": "dotted", "published-chart": "dashed" };

function colourOf(look) {
  return look.colour === "#000000" ? ink.text : look.colour; // black would not be seen on a dark page
}

function dashesOf(look, kind) {
  if (kind === "published-table") return DOTTED;
  return kind === "published-chart" ? DASHED : (look.dashes ?? []);
}

// Parts stacked in the order in which they come: what each begins and ends at.
function cumulated(series) {
  const below = new Map();
  return series
    .filter((one) => one.kind === "part")
    .map((one) => {
      const top = one.y.map((value, point) => {
        if (value === null) return null;
        below.set(one.x[point], (below.get(one.x[point]) ?? 0) + value);
        return below.get(one.x[point]);
      });
      return { ...one, top };
    });
}

// The highest is drawn first, each from 0 on, so that every lower one covers it.
function areas(series, looks) {
  return cumulated(series)
    .reverse()
    .map((one, place) => ({
      id: `part-${one.place}`,
      name: one.label,
      type: "line",
      data: one.x.map((x, point) => [x, one.top[point]]),
      symbol: "circle",
      symbolSize: 5,
      showSymbol: one.x.length === 1,
      color: colourOf(looks[one.key]),
      lineStyle: { color: ink.paper, width: 1 },
      areaStyle: { color: colourOf(looks[one.key]), opacity: 1, origin: 0 },
      z: 2 + place / 100,
    }));
}

const BESIDE = 0.008; // distance of two frameworks' points where there are bars: part of the axis

const barred = (one) => one.low.some((low, point) => low !== null && low !== one.high[point]);

// Series with bars, moved aside so that no bar hides another: their `at` are places on the axis, `x` stay what they are.
function sideBySide(series, span, logarithmic) {
  const { to, from } = space(logarithmic);
  const step = BESIDE * (to(span[1]) - to(span[0]));
  const keys = [...new Set(series.filter(barred).map((one) => one.key))];
  return series.map((one) => {
    const aside = barred(one) ? (keys.indexOf(one.key) - (keys.length - 1) / 2) * step : 0;
    return { ...one, at: one.x.map((x) => (aside ? from(to(x) + aside) : x)) };
  });
}

function lines(series, looks, logarithmic) {
  const fitted = new Set(series.filter((one) => one.kind === "fit").map((one) => one.key));
  return series
    .filter((one) => one.kind !== "part")
    .map((one) => {
      const look = looks[one.key];
      const published = one.kind in PUBLISHED;
      const joined = one.kind !== "measured" || !fitted.has(one.key);
      return {
        id: `line-${one.place}`,
        name: one.label,
        type: "line",
        clip: true,
        data: one.at.map((x, point) => [
          x,
          one.y[point] !== null && (!logarithmic || one.y[point] > 0) ? one.y[point] : null,
        ]),
        symbol: one.kind === "fit" ? "none" : look.symbol,
        showAllSymbol: true,
        symbolSize: published ? look.size * 0.6 : look.size,
        cursor: one.trials.length ? "pointer" : "default",
        lineStyle: {
          color: colourOf(look),
          width: joined ? (published || one.kind === "fit" ? 1.2 : 1.8) : 0,
          type: dashesOf(look, one.kind).length ? dashesOf(look, one.kind) : "solid",
          opacity: published ? 0.65 : 1,
        },
        itemStyle: {
          color: one.kind === "published-table" ? colourOf(look) : "transparent",
          borderColor: colourOf(look),
          borderWidth: 1.5,
          opacity: published ? 0.65 : 1,
        },
        emphasis: { scale: 1.25, itemStyle: { borderWidth: 2.2 }, lineStyle: { width: published ? 1.6 : 2.2 } },
        z: published ? 3 : 4,
      };
    });
}

// From low to high at every point that has both.
function bars(series, looks, bottom) {
  return series.filter(barred).map((one) => ({
    id: `bar-${one.place}`,
    type: "custom",
    clip: true,
    silent: true,
    encode: { x: 0, y: [1, 2] },
    tooltip: { show: false },
    data: one.at
      .map((x, point) => [x, one.low[point], one.high[point]])
      .filter(([, low, high]) => low !== null && high !== null),
    renderItem: (_, api) => {
      const [x, low] = api.coord([api.value(0), Math.max(api.value(1), bottom)]);
      const high = api.coord([api.value(0), api.value(2)])[1];
      const cap = looks[one.key].size / 3;
      const style = { stroke: colourOf(looks[one.key]), lineWidth: 1.2, fill: "none" };
      const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
      const ends = [line(x - cap, high, x + cap, high)];
      if (api.value(1) >= bottom) ends.push(line(x - cap, low, x + cap, low)); // else it goes on below the frame
      return { type: "group", children: [line(x, low, x, high), ...ends] };
    },
    z: 3,
  }));
}

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = {
  circle: "M11,6 a5,5 0 1,0 10,0 a5,5 0 1,0 -10,0 Z",
  rect: "M11.5,1.5 h9 v9 h-9 Z",
  triangle: "M16,1 L21,10.5 H11 Z",
  diamond: "M16,0.5 L21.5,6 L16,11.5 L10.5,6 Z",
};

// A sample of a series' line and marker, beside its name.
function swatch(look, kind) {
  const made = document.createElementNS(SVG, "svg");
  const add = (name, attributes) => {
    const child = made.appendChild(document.createElementNS(SVG, name));
    for (const [key, value] of Object.entries(attributes)) child.setAttribute(key, value);
  };
  made.setAttribute("viewBox", "0 0 32 12");
  made.setAttribute("class", "swatch");
  made.setAttribute("aria-hidden", "true");
  const colour = look.colour === "#000000" ? "currentColor" : look.colour;
  if (kind === "part") {
    add("rect", { x: 8, y: 0, width: 16, height: 12, fill: colour });
    return made;
  }
  const small = kind in PUBLISHED;
  add("line", {
    x1: 0,
    y1: 6,
    x2: 32,
    y2: 6,
    stroke: colour,
    "stroke-width": small ? 1.2 : 1.8,
    "stroke-dasharray": dashesOf(look, kind).join(" "),
  });
  if (kind === "fit") return made;
  const path = { fill: kind === "published-table" ? colour : "var(--paper)", stroke: colour, "stroke-width": 1.5 };
  const shape = SHAPES[look.symbol];
  if (shape) add("path", { d: shape, ...path, ...(small ? { transform: "translate(6.4 2.4) scale(0.6)" } : {}) });
  else add("path", { d: look.symbol.replace("path://", ""), ...path, transform: "translate(11 1)" });
  return made;
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
