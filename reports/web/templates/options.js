// What ECharts is told of one panel: axes, tooltip, series.

function optionOf(view, panel, whole) {
  const series = sideBySide(view.visible(panel), whole.x, view.data.xLog);
  const { x, y } = view.seen ?? whole;
  return {
    animation: false,
    textStyle: { fontFamily: FONT },
    grid: { left: 4, right: 14, top: 10, bottom: 30, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
    tooltip: tooltipOf(view, series),
    xAxis: axis(
      x,
      view.data.xLog,
      { at: xTicks(series, x, view.data.xLog) },
      { name: view.data.xLabel, nameLocation: "middle", nameGap: 26 },
    ),
    yAxis: axis(y, view.logarithmic, ticks(y, view.logarithmic), {}, true),
    series: [
      ...areas(series, view.shown.looks),
      ...lines(series, view.shown.looks, view.logarithmic),
      ...bars(series, view.shown.looks, y[0]),
    ],
  };
}

function tooltipOf(view, series) {
  return {
    trigger: "axis",
    confine: true,
    transitionDuration: 0,
    backgroundColor: ink.paper,
    borderColor: ink.line,
    textStyle: { color: ink.text, fontSize: 13 },
    axisPointer: { type: "line", lineStyle: { color: ink.muted, type: "solid", width: 1 } },
    formatter: (found) => {
      const to = space(view.data.xLog).to;
      const away = (x) => Math.abs(to(x) - to(found[0].value[0])); // points may stand side by side
      const x = series.flatMap((one) => one.x).reduce((best, other) => (away(other) < away(best) ? other : best));
      const rows = series
        .filter((one) => one.x.includes(x) && one.y[one.x.indexOf(x)] !== null)
        .map((one) =>
          element(
            "tr",
            {},
            element("td", {}, swatch(view.shown.looks[one.key], one.kind), one.label),
            element("td", {}, withInterval(one, one.x.indexOf(x))),
          ),
        );
      return element(
        "div",
        { class: "tip" },
        element("p", {}, `${view.data.xLabel.replace(/ *\(.*\)$/, "")}: ${x}`),
        element("table", {}, element("tbody", {}, ...rows)),
      );
    },
  };
}

function withInterval(one, point) {
  const [low, high] = [one.low[point], one.high[point]];
  const known = typeof low === "number" && typeof high === "number" && low !== high;
  return told(one.y[point]) + (known ? ` [${told(low)}, ${told(high)}]` : "");
}

function xTicks(series, [low, high], logarithmic) {
  const xs = [...new Set(series.flatMap((one) => one.x))]
    .filter((x) => x >= low && x <= high)
    .sort((one, other) => one - other);
  return logarithmic && xs.length ? xs : ticks([low, high], false).at;
}

function axis([min, max], logarithmic, { at }, more, lined = false) {
  const label = { color: ink.muted, fontSize: 12, customValues: at, hideOverlap: true, formatter: readable };
  return {
    type: logarithmic ? "log" : "value",
    min,
    max,
    axisLabel: label,
    axisTick: { show: !lined, customValues: at, lineStyle: { color: ink.muted } },
    axisLine: { show: !lined, onZero: false, lineStyle: { color: ink.muted } },
    splitLine: { show: lined, lineStyle: { color: ink.line } },
    minorTick: { show: false },
    nameTextStyle: { color: ink.muted, fontSize: 12 },
    ...more,
  };
}
