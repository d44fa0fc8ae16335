// Charts by uPlot, in the page's own colours.
const plots = new Map();

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

const LABEL = "12px system-ui, sans-serif";
const MEAN = "--ink";
const PALETTE = ["--provider", "--validator", "--auditor", "--held", "--burn", "--protocol"];
// With more lines than colours, further lines repeat the colours with other dashes.
const DASHES = [[4, 3], [9, 3], [2, 2]];

function digits(number) {
  return number == null ? "–" : number.toLocaleString("en", { maximumSignificantDigits: 4 });
}

// Dashed vertical lines at given x values, such as the ends of rounds.
function marks(places) {
  const every = Math.ceil(places.length / 60);
  return {
    hooks: {
      drawAxes: (plot) => {
        const { ctx, bbox } = plot;
        ctx.save();
        ctx.strokeStyle = colour("--dim");
        ctx.globalAlpha = 0.45;
        ctx.setLineDash([3, 5]);
        places.forEach((place, at) => {
          if (at % every) return;
          const x = Math.round(plot.valToPos(place, "x", true)) + 0.5;
          ctx.beginPath();
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bbox.top + bbox.height);
          ctx.stroke();
        });
        ctx.restore();
      },
    },
  };
}

// Tick distances for steps and blocks, which are whole numbers.
const WHOLE = { incrs: [1, 2, 5].flatMap((digit) => Array.from({ length: 13 }, (_, zeros) => digit * 10 ** zeros)).sort((a, b) => a - b) };
const STEPS = { label: "step", value: (_, x) => (x == null ? "–" : x.toLocaleString("en")) };

function loss(data) {
  const few = data.steps.length < 60;
  const series = [
    STEPS,
    { label: "mean", stroke: colour(MEAN), width: 2.5, spanGaps: true, points: { show: few, size: 6 }, value: (_, y) => digits(y) },
  ];
  const rows = [data.steps, data.mean];
  Object.entries(data.slots).forEach(([slot, values], at) => {
    series.push({ label: `slot ${slot}`, stroke: colour(PALETTE[at % PALETTE.length]), width: 1.25, dash: DASHES[Math.trunc(at / PALETTE.length) % DASHES.length], spanGaps: true, points: { show: false }, value: (_, y) => digits(y) });
    rows.push(values);
  });
  return {
    rows,
    options: {
      series,
      plugins: [marks(data.ends)],
      scales: { x: { time: false, range: [0, data.until * 1.01] } },
      axes: [axis({ label: "training steps of each slot", labelFont: LABEL, labelSize: 20, ...WHOLE }), axis({ size: 64, label: "loss", labelFont: LABEL, labelSize: 18, values: (_, ticks) => ticks.map(digits) })],
    },
  };
}

// Losses of several orders, each with its own steps; a logarithmic scale leaves out losses that are not positive.
function losses(data) {
  const steps = [...new Set(data.runs.flatMap((run) => run.points.map(([step]) => step)))].sort((a, b) => a - b);
  const scale = data.log ? { distr: 3 } : {};
  const series = [STEPS];
  const rows = [steps];
  data.runs.forEach((run, at) => {
    const known = new Map(run.points);
    series.push({ label: run.label, stroke: colour(at ? PALETTE[(at - 1) % PALETTE.length] : MEAN), width: 2, dash: at > PALETTE.length ? DASHES[1] : undefined, spanGaps: true, points: { show: run.points.length < 60, size: 5 }, value: (_, y) => digits(y) });
    rows.push(steps.map((step) => { const y = known.get(step); return y === undefined || (data.log && !(y > 0)) ? null : y; }));
  });
  return {
    rows,
    options: {
      series,
      scales: { x: { time: false }, y: scale },
      axes: [axis({ label: "training steps of each slot", labelFont: LABEL, labelSize: 20, ...WHOLE }), axis({ size: 64, label: data.log ? "loss, logarithmic" : "loss", labelFont: LABEL, labelSize: 18, values: (_, ticks) => ticks.map(digits) })],
    },
  };
}

function curve(data) {
  return {
    rows: [data.map(([step]) => step), data.map(([, value]) => value)],
    options: {
      series: [
        STEPS,
        { label: "loss", stroke: colour("--accent"), width: 2, points: { show: data.length < 60, size: 6 }, value: (_, y) => digits(y) },
      ],
      scales: { x: { time: false } },
      axes: [axis({ label: "step", labelFont: LABEL, labelSize: 20, ...WHOLE }), axis({ size: 54, values: (_, ticks) => ticks.map(digits) })],
    },
  };
}

function blocks(data) {
  // Limit the scale, because one halt of a day would flatten all other blocks.
  const usual = [...data.seconds].sort((a, b) => a - b)[data.seconds.length >> 1] ?? 1;
  return {
    rows: [data.heights, data.seconds],
    options: {
      series: [
        { label: "block", value: (_, x) => (x == null ? "–" : x.toLocaleString("en")) },
        { label: "seconds", stroke: colour("--accent"), fill: colour("--plain-back"), width: 1.5, points: { show: false }, value: (_, y) => digits(y) },
      ],
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, Math.min(high || 1, 12 * usual || 1) * 1.1] } },
      axes: [axis({ label: "block", labelFont: LABEL, labelSize: 20, ...WHOLE }), axis({ size: 44, label: "s", labelFont: LABEL, labelSize: 16 })],
      legend: { show: false },
    },
  };
}

function depth(data) {
  return {
    rows: [data.map((step) => Number(step.price) / 1e6), data.map((step) => Number(step.free) / 1e15)],
    options: {
      series: [
        { label: "ASSAY/PFLOP", value: (_, x) => digits(x) },
        { label: "PFLOP at this price or below", stroke: colour("--accent"), fill: colour("--plain-back"), width: 2, paths: window.uPlot.paths.stepped({ align: 1 }), points: { show: true, size: 6 }, value: (_, y) => digits(y) },
      ],
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, (high || 1) * 1.1] } },
      axes: [axis({ space: 90, label: "price in ASSAY/PFLOP", labelFont: LABEL, labelSize: 20 }), axis({ size: 60, label: "PFLOP", labelFont: LABEL, labelSize: 18 })],
    },
  };
}

const KINDS = { loss, losses, curve, blocks, depth };

export function drawCharts(anew = false) {
  for (const part of document.querySelectorAll("[data-chart]")) {
    const text = part.dataset.series;
    const known = plots.get(part.id);
    if (!anew && known && known.part === part && known.text === text) continue;
    known?.plot.destroy();
    plots.delete(part.id);
    const { rows, options } = KINDS[part.dataset.chart](JSON.parse(text));
    if (!rows[0].length) continue;
    const last = rows[0].length - 1;
    const rest = { hooks: { setCursor: (plot) => plot.cursor.idx == null && plot.setLegend({ idx: last }, false) } };
    options.plugins = [...(options.plugins ?? []), rest];
    const height = (part.classList.contains("tall") ? 330 : 230) - (options.legend?.show === false ? 0 : 32);
    const plot = new window.uPlot({ ...options, width: part.clientWidth, height, cursor: { y: false } }, rows, part);
    if (options.legend?.show !== false) plot.setLegend({ idx: last }, false);
    plots.set(part.id, { plot, part, text });
  }
}
