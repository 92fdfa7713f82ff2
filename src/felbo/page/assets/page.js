"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const media = matchMedia("(prefers-color-scheme: dark)");
  const style = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  const colours = () => {
    const axis = { gridcolor: style("--line"), zerolinecolor: style("--line"), linecolor: style("--line") };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: style("--ink"), size: 13 }, axis,
    };
  };
  const withColours = (layout) => {
    const { axis, ...rest } = colours();
    return {
      margin: { l: 52, r: 12, t: 8, b: 46 },
      // Anchored at its bottom, a legend of several lines makes room for itself above the chart.
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      ...layout, ...rest,
      xaxis: { automargin: true, ...axis, ...layout.xaxis },
      yaxis: { automargin: true, ...axis, ...layout.yaxis },
    };
  };
  const config = { responsive: true, displaylogo: false, displayModeBar: false };
  const draw = () => {
    for (const [name, chart] of Object.entries(page.charts)) {
      const place = document.getElementById("chart-" + name);
      const data = chart.data.map((trace) => ({ ...trace, textfont: { color: style("--ink") } }));
      if (place) Plotly.react(place, data, withColours(chart.layout), config);
    }
  };

  const toggle = document.getElementById("theme");
  const isDark = () => (root.dataset.theme || (media.matches ? "dark" : "light")) === "dark";
  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    draw();
  });
  media.addEventListener("change", draw);

  const score = document.getElementById("score");
  const share = document.getElementById("share");
  const answer = document.getElementById("answer");
  const tell = () => {
    const curve = page.curves[score.value];
    const wanted = Number(share.value) / 100;
    let place = curve.coverage.findIndex((value) => value >= wanted - 1e-9);
    if (place < 0) place = curve.coverage.length - 1;
    const sign = curve.negated ? "≥" : "≤";
    const threshold = curve.negated ? -curve.threshold[place] : curve.threshold[place];
    answer.textContent =
      `Accepting ${(100 * curve.coverage[place]).toFixed(1)} % of the predictions ` +
      `(${score.value} ${sign} ${threshold.toPrecision(3)}): ` +
      `${(100 * (1 - curve.risk[place])).toFixed(2)} % of them are right.`;
  };
  if (score) {
    score.addEventListener("change", tell);
    share.addEventListener("input", tell);
    tell();
  }
  draw();
})();
