// The tables and tiles. Every text goes in as text, never as markup: names and error texts come from elsewhere.

import { NONE, count, digits, duration, percent, rate, share, span, words } from "./format.js";

export const METRICS = {
  ttft: "TTFT", ttfo: "TTFO", thinking: "thinking", itl: "ITL", tpot: "TPOT", e2e: "E2E", schedule_delay: "schedule delay",
};

const FIGURES = ["mean", "p50", "p90", "p95", "p99", "max"];

const FAILED = new Set([
  "rate_limited", "overloaded", "client_error", "server_error", "timeout", "connect_error", "stream_error", "stream_broken",
  "filtered", "rerouted",
]);

export function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text != null) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function row(cells, tag = "td") {
  const line = document.createElement("tr");
  line.append(...cells.map((cell) => (cell instanceof Element ? cell : make(tag, cell))));
  return line;
}

function fill(table, head, body) {
  const top = document.createElement("thead");
  top.appendChild(row(head, "th"));
  const rest = document.createElement("tbody");
  rest.append(...body);
  table.replaceChildren(top, rest);
}

// A percentile is its bucket's upper edge: it is never shown above the exact maximum beside it. `data-value` is run.json's.
function figure(series, name) {
  const value = series[name];
  const shown = name.startsWith("p") ? Math.min(value, series.max) : value;
  return make("td", duration(shown), { "data-figure": name, "data-value": value, title: `${value} ms` });
}

export function figures(table, rows, workloads, nothing) {
  const body = [];
  for (const workload of workloads.length === 1 ? [null] : [null, ...workloads]) {
    const mine = Object.keys(METRICS).map((metric) => rows.find((one) => one.metric === metric && (one.workload ?? null) === workload));
    if (!mine.some(Boolean)) continue;
    if (workloads.length > 1) {
      body.push(row([make("th", workload ?? "all workloads", { colspan: FIGURES.length + 2, class: "group", scope: "rowgroup" })]));
    }
    for (const series of mine.filter(Boolean)) {
      const name = make("th", METRICS[series.metric], { scope: "row" });
      const line = row([name, make("td", count(series.count), { "data-figure": "count", "data-value": series.count }), ...FIGURES.map((one) => figure(series, one))]);
      line.dataset.metric = series.metric;
      line.dataset.workload = workload ?? "";
      body.push(line);
    }
  }
  if (!body.length) body.push(row([make("td", nothing, { colspan: FIGURES.length + 2, class: "none" })]));
  fill(table, ["", "count", ...FIGURES], body);
}

export function counts(table, state, workloads) {
  const several = workloads.length > 1;
  const total = state.counts?.scheduled ?? 0;
  const body = Object.entries(state.counts ?? {})
    .filter(([name, n]) => n || name === "scheduled" || name === "in_flight" || name === "ok")
    .map(([name, n]) => {
      const why = Object.entries(state.reasons?.[name] ?? {}).map(([reason, times]) => `${reason} ${count(times)}`);
      const label = make("th", null, { scope: "row" });
      if (name !== "scheduled" && name !== "in_flight") label.appendChild(make("i")).style.background = `var(--${name})`;
      label.append(words(name));
      if (why.length) label.appendChild(make("small", why.join(", ")));
      const line = row([
        label,
        make("td", count(n), { "data-value": n }),
        make("td", name === "scheduled" ? "" : share(n, total)),
        ...(several ? workloads.map((one) => make("td", count(state.workload_counts?.[one]?.[name] ?? 0), { "data-workload": one, "data-value": state.workload_counts?.[one]?.[name] ?? 0 })) : []),
      ]);
      line.dataset.outcome = name;
      if (FAILED.has(name) && n) line.className = "failed";
      return line;
    });
  fill(table, ["", "requests", "share", ...(several ? workloads : [])], body);
}

export function stages(table, state) {
  const body = (state.stages ?? []).map((stage) => {
    const name = make("th", stage.name, { scope: "row" });
    if (stage.note) name.appendChild(make("small", stage.note));
    return row([
      name,
      make("td", stage.says, { class: "words" }),
      stage.start_s == null ? NONE : `${span(stage.start_s)} – ${span(stage.end_s)}`,
      stage.judged ? "yes" : "no",
    ]);
  });
  fill(table, ["", make("th", "plan", { class: "words" }), "window", "judged"], body);
}

export function throughput(holder, rates, stage) {
  const shown = [
    ["requests/s", rates?.requests_per_s],
    ["output tok/s", rates?.output_tokens_per_s],
    ["input tok/s", rates?.input_tokens_per_s],
    ["total tok/s", rates?.total_tokens_per_s],
    ["total tok/s per GPU", rates?.total_tokens_per_s_per_gpu],
  ].filter(([, value]) => value != null);
  if (!shown.length) return holder.replaceChildren();
  const list = document.createElement("dl");
  for (const [label, value] of shown) {
    const item = document.createElement("div");
    item.append(make("dt", label), make("dd", digits(value), { title: String(value) }));
    list.appendChild(item);
  }
  holder.replaceChildren(make("h2", `Throughput, ${stage ? `stage ${stage}` : "judged stages"}`), list);
}

// The present while a run goes on; after its end what it came to, over the judged stages.
export function tiles(holder, state) {
  const { now, counts: all = {} } = state;
  const found = (metric) => (state.table ?? []).find((one) => one.metric === metric && one.workload == null);
  const failed = Object.entries(all).reduce((sum, [name, n]) => sum + (FAILED.has(name) ? n : 0), 0);
  const us = (value) => duration(value == null ? null : value / 1000);
  const figure = (metric, name) => duration(found(metric) ? Math.min(found(metric)[name], found(metric).max) : null);
  const lately = now ? ` · ${span(now.seconds)}` : ""; // what these seconds brought
  const list = now
    ? [
        [`output tok/s${lately}`, `${now.tokens_known ? "" : "~"}${rate(now.output_tokens_per_s)}`, `${rate(now.chunks_per_s)} chunks/s`],
        [`completed/s${lately}`, rate(now.completed_per_s), `scheduled ${rate(now.scheduled_per_s)}, sent ${rate(now.sent_per_s)}`],
        ["in flight", count(now.in_flight), now.waiting ? `${count(now.waiting)} waiting` : `${count(now.conversations)} conversations begun`],
        [`TTFT p95${lately}`, us(now.ttft_p95), `p50 ${us(now.ttft_p50)}`],
        [`ITL p95${lately}`, us(now.itl_p95), `p50 ${us(now.itl_p50)}`],
        ["failed", count(failed), `${share(failed, now.done)} of ${count(now.done)} done`, failed > 0],
        [`generator CPU${lately}`, percent(now.cpu), `delay up to ${duration(now.delay_max_ns / 1e6)}, lag ${duration(now.loop_lag_max_ns / 1e6)}`],
      ]
    : [
        ["output tok/s", rate(state.throughput?.output_tokens_per_s), "judged stages"],
        ["completed/s", rate(state.throughput?.requests_per_s), `scheduled ${rate(state.throughput?.scheduled_per_s)}`],
        ["requests", count(all.scheduled), `${count(all.in_flight)} in flight`],
        ["TTFT p95", figure("ttft", "p95"), `p50 ${figure("ttft", "p50")}`],
        ["ITL p95", figure("itl", "p95"), `p50 ${figure("itl", "p50")}`],
        ["failed", count(failed), `${share(failed, all.scheduled)} of all`, failed > 0],
        ["schedule delay p99", figure("schedule_delay", "p99"), `max ${figure("schedule_delay", "max")}`],
      ];
  holder.replaceChildren(
    ...list.map(([label, value, more, bad]) => {
      const tile = make("div", null, { class: bad ? "tile bad" : "tile" });
      tile.append(make("span", label), make("b", value), make("small", more));
      return tile;
    }),
  );
}

export function sla(holder, clauses, phase) {
  holder.hidden = !clauses.length;
  holder.replaceChildren(
    ...clauses.map((one) => {
      const verdict = one.verdict ?? (phase === "ended" ? "not judged" : "pending");
      const item = one.lines ? make("details", null, { class: `clause ${verdict}` }) : make("div", null, { class: `clause ${verdict}` });
      const head = one.lines ? item.appendChild(make("summary")) : item;
      head.append(make("span", verdict, { class: "verdict" }), " ", make("code", one.clause));
      if (one.says) head.append(" ", make("small", one.says));
      if (one.lines) item.append(make("pre", one.lines));
      return item;
    }),
  );
}

export function validity(holder, state) {
  const found = state.validity;
  holder.hidden = !found;
  if (!found) return;
  const ended = state.phase === "ended";
  holder.className = `banner ${found.valid ? "good" : "bad"}`;
  if (found.valid) {
    holder.replaceChildren(make("b", ended ? "valid" : "valid so far"), " ", make("span", "the generator kept up"));
    return;
  }
  const list = document.createElement("ul");
  list.append(...found.reasons.map((reason) => make("li", reason)));
  holder.replaceChildren(make("b", ended ? "invalid" : "invalid so far"), " ", list);
}

export function notes(section, list) {
  section.hidden = !list.length;
  section.querySelector("ul").replaceChildren(
    ...[...list].reverse().map(([ms, text]) => {
      const item = document.createElement("li");
      item.append(make("time", new Date(ms).toLocaleTimeString("en-GB"), { datetime: new Date(ms).toISOString() }), make("span", text));
      return item;
    }),
  );
}
