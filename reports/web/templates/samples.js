// The samples of one trial as a small chart: usage and memory against time, the steady window marked.

function samplesChart(holder, samples, tracks) {
  const chart = echarts.init(holder, null, { renderer: "svg" });
  const shown = Object.keys(samples.tracks).map(Number);
  const time = (place) => samples.from + (place + 0.5) * samples.step;
  const each = 100 / shown.length;
  const start = Math.min(0, samples.from);
  const end = samples.from + samples.step * samples.tracks[shown[0]].length;
  const window = samples.window && {
    silent: true,
    itemStyle: { color: ink.faint },
    data: [[{ xAxis: samples.window[0] }, { xAxis: samples.window[1] }]],
  };
  chart.setOption({
    animation: false,
    textStyle: { fontFamily: FONT },
    grid: shown.map((_, row) => ({
      left: 52,
      right: 12,
      top: `${row * each + 8}%`,
      height: `${each - 20}%`,
    })),
    title: shown.map((place, row) => ({
      text: tracks[place][0],
      left: 4,
      top: `${row * each}%`,
      textStyle: { fontSize: 12, fontWeight: "normal", color: ink.text },
    })),
    tooltip: {
      ...tip(),
      formatter: (found) => {
        const values = found.map((one) => `${numberText(one.value[1])} ${tracks[one.seriesId][1]}`);
        return element("div", { class: "tip" }, `${numberText(found[0].value[0], 1)} s: ${values.join(", ")}`);
      },
    },
    axisPointer: { link: [{ xAxisIndex: "all" }] },
    xAxis: shown.map((_, row) => ({
      ...axis([start, end], false),
      axisLine: { onZero: false, lineStyle: { color: ink.muted } },
      splitLine: { show: false },
      gridIndex: row,
      name: row === shown.length - 1 ? "Time since the worker's start, s" : "",
      nameLocation: "middle",
      nameGap: 24,
    })),
    // A share is shown against the whole.
    yAxis: shown.map((place, row) => ({
      ...axis([0, tracks[place][1] === "%" ? ({ max }) => Math.max(100, max) : null], false),
      gridIndex: row,
    })),
    series: shown.map((place, row) => ({
      id: String(place),
      type: "line",
      xAxisIndex: row,
      yAxisIndex: row,
      showSymbol: false,
      step: "middle",
      color: ink.text,
      lineStyle: { width: 1.3, color: ink.text },
      data: samples.tracks[place].map((value, at) => [time(at), value]),
      markArea: window || undefined,
    })),
  });
  return chart;
}

// What the small chart shows, in words.
function samplesWords(samples, tracks) {
  const sentences = Object.entries(samples.tracks).map(([place, values]) => {
    const known = values.filter((value) => value !== null);
    return `${tracks[place][0]}: ${numberText(Math.min(...known))} to ${numberText(Math.max(...known))}`;
  });
  const edges = samples.window?.map((edge) => numberText(edge, 1));
  const window = edges
    ? ` The steady window, shaded, is from ${edges[0]} to ${edges[1]} s.`
    : " No steady window was reached.";
  return `${sentences.join("; ")}.${window}`;
}
