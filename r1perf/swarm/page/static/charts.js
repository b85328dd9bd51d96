// The charts: one definition each, drawn by uPlot, with a common cursor, zoom and stage bands.

import { NONE, clock, count, digits, duration, percent, short, shortDuration, words } from "./format.js";
import { tokensOf } from "./past.js";

const RANKS = ["p50", "p95", "p99"];
const LATENCIES = { ttft: "TTFT", itl: "ITL", ttfo: "TTFO", thinking: "Thinking time", tpot: "TPOT", e2e: "E2E" };

const OUTCOMES = [
  "ok", "truncated", "cancelled", "dropped", "lost", "rate_limited", "overloaded", "timeout", "client_error", "server_error",
  "connect_error", "stream_error", "stream_broken", "filtered", "rerouted",
];

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const line = (label, ink, of, more = {}) => ({ label, ink, of, ...more });

function latency(metric) {
  return {
    id: metric,
    title: LATENCIES[metric],
    unit: "ms",
    log: true,
    write: duration,
    tick: shortDuration,
    series: () => RANKS.map((rank, n) => line(rank, rank, (row) => row.percentiles[metric]?.[n] ?? null, { spanGaps: true })),
  };
}

// `series(view)` says what is drawn: `of(row, view)` returns a value, null for none. `stacked` ones are sums from below.
const CHARTS = [
  latency("ttft"),
  latency("itl"),
  {
    id: "tokens",
    title: "Output tokens per second",
    write: digits,
    tick: short,
    series: (view) => [
      line("tok/s", "w0", (row) => tokensOf(row, view.selected, view.perChunk) / view.seconds(row), { fill: true }),
    ],
  },
  {
    id: "rates",
    title: "Requests per second",
    write: digits,
    tick: short,
    series: (view) => [
      line("scheduled", "p50", (row) => (row.counters.scheduled ?? 0) / view.seconds(row)),
      line("sent", "p95", (row) => (row.counters.sent ?? 0) / view.seconds(row), { dash: [5, 4] }),
      line("completed", "ok", (row) => (row.counters.completed ?? 0) / view.seconds(row)),
    ],
  },
  {
    id: "in_flight",
    title: "Requests in flight",
    stacked: true,
    write: (n) => (Number.isInteger(n) ? count(n) : digits(n)),
    tick: short,
    series: (view) => view.selected.map((name) => line(name, view.ink(name), (row) => row.inFlight[name] ?? 0, { fill: true })),
  },
  {
    id: "outcomes",
    title: "Outcomes per second",
    stacked: true,
    bars: true,
    write: digits,
    tick: short,
    series: (view) =>
      OUTCOMES.filter((name) => view.outcomes.has(name)).map((name) =>
        line(words(name), name, (row) => (row.outcomes[name] ?? 0) / view.seconds(row)),
      ),
  },
  latency("ttfo"),
  latency("thinking"),
  latency("tpot"),
  latency("e2e"),
  {
    id: "cpu",
    title: "Generator: CPU of the busiest worker",
    write: percent,
    tick: (share) => `${short(100 * share)} %`,
    most: 1,
    series: () => [line("share of one core", "p50", (row) => row.cpu, { fill: true })],
  },
  {
    id: "delay",
    title: "Generator: schedule delay and loop lag",
    unit: "ms",
    log: true,
    write: duration,
    tick: shortDuration,
    series: () => [
      line("delay p99", "p50", (row) => row.percentiles.schedule_delay?.[2] ?? null, { spanGaps: true }),
      line("delay max", "p95", (row) => row.delay),
      line("loop lag max", "muted", (row) => row.lag, { dash: [3, 3] }),
    ],
  },
];

export class Charts {
  // `onZoom(zoomed)` is told when people zoom in or out.
  constructor(parent, onZoom) {
    this.parent = parent;
    this.onZoom = onZoom;
    this.log = false;
    this.zoom = null;
    this.range = [0, 60];
    this.stages = [];
    this.drawn = new Map();
    for (const chart of CHARTS) {
      const figure = document.createElement("figure");
      figure.className = "card";
      figure.id = `chart-${chart.id}`;
      const caption = figure.appendChild(document.createElement("figcaption"));
      caption.appendChild(document.createElement("h2")).textContent = chart.title;
      const legend = caption.appendChild(document.createElement("div"));
      legend.className = "legend";
      const holder = figure.appendChild(document.createElement("div"));
      holder.className = "plot";
      parent.appendChild(figure);
      this.drawn.set(chart.id, { chart, legend, holder, plot: null, names: "" });
    }
    new ResizeObserver(() => this.fit()).observe(parent);
  }

  // Draw these rows; `view` says which workloads are selected, and how long a row is.
  draw(rows, view) {
    this.rows = rows;
    this.view = view;
    this.range = view.range;
    this.stages = view.stages;
    const x = rows.map((row) => view.middle(row));
    for (const drawn of this.drawn.values()) this.#update(drawn, x);
  }

  setLog(log) {
    this.log = log;
    this.rebuild();
  }

  setZoom(zoom) {
    this.zoom = zoom;
    this.onZoom(zoom !== null);
    const [min, max] = zoom ?? this.range;
    for (const { plot } of this.drawn.values()) plot?.setScale("x", { min, max });
  }

  rebuild() {
    for (const drawn of this.drawn.values()) drawn.names = "";
    if (this.view) this.draw(this.rows, this.view);
  }

  fit() {
    for (const { plot, holder } of this.drawn.values()) plot?.setSize(size(holder));
  }

  #update(drawn, x) {
    const series = drawn.chart.series(this.view);
    const values = series.map(({ of }) => this.rows.map((row) => (row.gap ? null : of(row, this.view))));
    const names = JSON.stringify(series.map(({ label, ink }) => [label, ink]));
    if (names !== drawn.names) {
      drawn.plot?.destroy();
      drawn.series = series;
      drawn.names = names;
      drawn.plot = drawn.holder.uplot = this.#plot(drawn);
      this.#legend(drawn);
    }
    drawn.values = values;
    drawn.plot.setData([x, ...(drawn.chart.stacked ? sums(values) : values)]);
    this.#say(drawn);
  }

  #plot(drawn) {
    const { chart, series, holder } = drawn;
    const axis = { stroke: () => color("muted"), font: "11px system-ui, sans-serif", ticks: { show: false } };
    const grid = { stroke: () => color("grid"), width: 1 };
    const logarithmic = this.log && chart.log;
    const options = {
      ...size(holder),
      padding: [14, 18, 0, 0],
      legend: { show: false },
      cursor: {
        points: { size: 6 },
        drag: { x: true, y: false, setScale: false },
        sync: { key: "r1perf", filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
        bind: { dblclick: () => () => this.setZoom(null) },
      },
      scales: {
        x: { time: false, range: () => this.zoom ?? this.range },
        y: logarithmic
          ? { distr: 3, log: 10 }
          : { range: (u, min, max) => [0, Math.max((max ?? 0) * 1.05, chart.most ?? 0) || 1] },
      },
      axes: [
        { ...axis, grid, size: 26, space: 60, incrs: INCREMENTS, values: (u, ticks) => ticks.map(clock) },
        { ...axis, grid, size: 58, space: 32, values: (u, ticks) => ticks.map((tick) => (tick == null ? "" : chart.tick(tick))) },
      ],
      series: [{}, ...order(series, chart.stacked).map((one) => this.#series(one, chart))],
      hooks: {
        drawClear: [(u) => this.#bands(u)],
        setCursor: [() => this.#say(drawn)],
        setSelect: [(u) => this.#select(u)],
      },
    };
    return new uPlot(options, [[], ...series.map(() => [])], holder);
  }

  #series(one, chart) {
    const stroke = () => color(one.ink);
    // Stacked areas cover what lies below them, so they are solid; others let the grid through.
    const fill = chart.stacked ? stroke : one.fill ? () => `${color(one.ink)}2e` : undefined;
    return {
      label: one.label,
      stroke,
      fill,
      width: chart.bars ? 0 : 1.5,
      dash: one.dash,
      spanGaps: Boolean(one.spanGaps),
      paths: chart.bars ? uPlot.paths.bars({ size: [1, 24], gap: 1 }) : undefined,
      points: chart.stacked ? { show: false } : { size: 4, fill: stroke, show: few },
    };
  }

  // Stages stand behind the lines, the judged ones shaded.
  #bands(u) {
    const { ctx } = u;
    const { left, top, width, height } = u.bbox;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, 0, width, top + height);
    ctx.clip();
    ctx.font = `${10 * ratio}px system-ui, sans-serif`;
    ctx.textBaseline = "top";
    ctx.textAlign = "left";
    this.stages.forEach((stage) => {
      if (stage.start_s == null || stage.end_s == null) return;
      const from = u.valToPos(stage.start_s, "x", true);
      const to = u.valToPos(stage.end_s, "x", true);
      if (to < left || from > left + width) return;
      if (stage.judged) {
        ctx.fillStyle = color("band");
        ctx.fillRect(from, top, to - from, height);
      }
      ctx.fillStyle = color("edge");
      ctx.fillRect(Math.round(from), top, ratio, height);
      ctx.fillStyle = color("muted");
      const shown = Math.max(from, left) + 3 * ratio;
      if (ctx.measureText(stage.name).width + 6 * ratio < to - shown + 3 * ratio) ctx.fillText(stage.name, shown, 1 * ratio);
    });
    ctx.restore();
  }

  #select(u) {
    const { left, width } = u.select;
    if (width > 4) this.setZoom([u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
    if (width) u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  #legend(drawn) {
    drawn.legend.replaceChildren(
      ...drawn.series.map((one) => {
        const item = document.createElement("span");
        const swatch = item.appendChild(document.createElement("i"));
        swatch.style.background = `var(--${one.ink})`;
        item.append(one.label, " ");
        item.appendChild(document.createElement("b"));
        return item;
      }),
    );
  }

  // Show the values under the cursor; else, while a run goes on, the latest.
  #say(drawn) {
    if (!drawn.plot || !drawn.values) return;
    const at = drawn.plot.cursor.idx;
    [...drawn.legend.children].forEach((item, n) => {
      const values = drawn.values[n] ?? [];
      const value = at == null ? (this.view.live ? values.findLast((one) => one != null) : undefined) : values[at];
      item.lastChild.textContent = value == null ? (at == null ? "" : NONE) : drawn.chart.write(value);
    });
  }
}

const INCREMENTS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

const size = (holder) => ({ width: Math.max(holder.clientWidth, 120), height: 170 });

// What lies on top of others is drawn first, as the whole of what is below it.
const order = (series, stacked) => (stacked ? [...series].reverse() : series);

function sums(values) {
  const below = [];
  const raised = values.map((column) => column.map((value, i) => (value == null ? null : (below[i] = (below[i] ?? 0) + value))));
  return raised.reverse();
}

// One value, or two, make no line to speak of: they are shown as points.
function few(u, i) {
  return u.data[i].filter((value) => value != null).length < 3;
}

