// Charts by uPlot, in the page's own colours.
const made = new Map();

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function axis(more = {}) {
  return {
    stroke: colour("--dim"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line"), width: 1 },
    font: "12px system-ui, sans-serif",
    ...more,
  };
}

const PALETTE = ["--provider", "--validator", "--auditor", "--held", "--burn", "--protocol"];

function digits(number) {
  return number == null ? "–" : Number(number.toPrecision(4)).toString();
}

function loss(data) {
  const series = [
    { label: "step", value: (_, x) => (x == null ? "–" : x.toLocaleString("en")) },
    { label: "mean", stroke: colour("--accent"), width: 2.5, points: { show: data.steps.length < 60, size: 6 }, value: (_, y) => digits(y) },
  ];
  const rows = [data.steps, data.mean];
  Object.entries(data.slots).forEach(([slot, values], at) => {
    series.push({ label: `slot ${slot}`, stroke: colour(PALETTE[at % PALETTE.length]), width: 1, dash: [4, 3], points: { show: false }, value: (_, y) => digits(y) });
    rows.push(values);
  });
  const boundaries = {
    hooks: {
      drawAxes: (plot) => {
        const { ctx, bbox } = plot;
        ctx.save();
        ctx.strokeStyle = colour("--dim");
        ctx.globalAlpha = 0.35;
        ctx.setLineDash([3, 5]);
        const every = Math.ceil(data.steps.length / 60);
        data.steps.forEach((step, at) => {
          if (at % every) return;
          const x = Math.round(plot.valToPos(step, "x", true)) + 0.5;
          ctx.beginPath();
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bbox.top + bbox.height);
          ctx.stroke();
        });
        ctx.restore();
      },
    },
  };
  const last = data.steps[data.steps.length - 1];
  return {
    rows,
    options: {
      series,
      plugins: [boundaries],
      scales: { x: { time: false, range: [0, last + data.round_steps / 2] } },
      axes: [axis({ label: "training steps of each slot", labelFont: "12px system-ui, sans-serif", labelSize: 20 }), axis({ size: 60, values: (_, ticks) => ticks.map(digits) })],
    },
  };
}

function blocks(data) {
  return {
    rows: [data.heights, data.seconds],
    options: {
      series: [
        { label: "block", value: (_, x) => (x == null ? "–" : x.toLocaleString("en")) },
        { label: "seconds", stroke: colour("--accent"), fill: colour("--plain-back"), width: 1.5, points: { show: false }, value: (_, y) => digits(y) },
      ],
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, (high || 1) * 1.1] } },
      axes: [axis(), axis({ size: 44 })],
      legend: { show: false },
    },
  };
}

function depth(data, part) {
  const work = Number(part.dataset.work);
  const prices = data.map((step) => (Number(step.price) * work) / 1e15 / 1e6);
  return {
    rows: [prices, data.map((step) => Number(step.free) / work)],
    options: {
      series: [
        { label: `ASSAY/${part.dataset.unit}`, value: (_, x) => digits(x) },
        { label: `${part.dataset.unit} at this price or below`, stroke: colour("--accent"), fill: colour("--plain-back"), width: 2, paths: window.uPlot.paths.stepped({ align: 1 }), points: { show: true, size: 6 }, value: (_, y) => digits(y) },
      ],
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, (high || 1) * 1.1] } },
      axes: [axis({ label: `price in ASSAY/${part.dataset.unit}`, labelFont: "12px system-ui, sans-serif", labelSize: 20 }), axis({ size: 60, label: part.dataset.unit, labelFont: "12px system-ui, sans-serif", labelSize: 18 })],
    },
  };
}

const KINDS = { loss, blocks, depth };

export function drawCharts(anew = false) {
  for (const part of document.querySelectorAll("[data-chart]")) {
    const text = part.dataset.series;
    const known = made.get(part.id);
    if (!anew && known && known.part === part && known.text === text) continue;
    known?.plot.destroy();
    made.delete(part.id);
    const { rows, options } = KINDS[part.dataset.chart](JSON.parse(text), part);
    if (!rows[0].length) continue;
    const height = (part.classList.contains("tall") ? 280 : 170) - (options.legend?.show === false ? 0 : 30);
    const plot = new window.uPlot({ ...options, width: part.clientWidth, height, cursor: { y: false } }, rows, part);
    made.set(part.id, { plot, part, text });
  }
}
