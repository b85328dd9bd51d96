// Ask the endpoint once a second, and show what it says.

import { Charts } from "./charts.js";
import { short, span } from "./format.js";
import { Past } from "./past.js";
import * as tables from "./tables.js";

const POLL_MS = 1000;
const HIDDEN_MS = 10_000;
const POINTS = 600; // that the endpoint keeps of each width
const WIDTHS = [1, 10, 100, 1000];
const INKS = 8;

const base = document.body.dataset.page;
const $ = (id) => document.getElementById(id);
const charts = new Charts($("charts"), (zoomed) => ($("unzoom").hidden = !zoomed));

let past = new Past();
let held = { run: "", width: 1, workload: "", stage: "" }; // what the points and figures at hand are of
let state = { phase: "" };
let options = "";

async function ask() {
  const asked = { ...held, since: past.revision };
  const response = await fetch(`${base}/data?${new URLSearchParams(asked)}`, { headers: { Accept: "application/json" } });
  if (response.redirected) location.reload(); // to the login
  if (!response.ok) throw new Error(`the master answered ${response.status}`);
  const answer = await response.json();
  const run = answer.state.run?.id ?? "";
  if (run !== held.run) {
    begin({ run, width: 1, workload: "", stage: "" });
    charts.setZoom(null);
    if (run) return ask();
  } else if (held.width === asked.width && held.workload === asked.workload && held.stage === asked.stage) {
    past.take(answer.points);
  } else {
    return ask(); // something else has been chosen meanwhile
  }
  state = answer.state;
  show();
}

function begin(changes) {
  const points = "run" in changes || "width" in changes || "workload" in changes;
  held = { ...held, ...changes };
  if (points) past = new Past();
}

// A whole long run is drawn from wider points than its last minutes.
function chooseWidth() {
  const chosen = Number($("width").value);
  if (chosen) return chosen;
  const interval = state.run?.interval_s ?? 1;
  const seconds = Math.min(Number($("range").value) || Infinity, state.elapsed_s ?? 0);
  return WIDTHS.find((width) => seconds / (interval * width) <= POINTS) ?? WIDTHS.at(-1);
}

function show() {
  document.body.dataset.phase = state.phase;
  const { run } = state;
  $("empty").hidden = state.phase !== "idle";
  $("shown").hidden = !run;
  $("message").hidden = !state.sentence;
  $("message").textContent = state.sentence ?? "";
  $("message").className = state.phase === "refused" || state.status === "failed" ? "banner bad" : "banner";
  $("phase").textContent = state.status && state.status !== "finished" ? state.status : state.phase;
  $("stop").hidden = !["running", "draining", "preparing"].includes(state.phase);
  $("stop").textContent = state.phase === "draining" ? "Stop now" : "Stop";
  $("rate").hidden = state.phase !== "running" || state.loop !== "open";
  $("locust").textContent = state.phase === "ended" || state.phase === "refused" ? "New run" : "Locust";
  tables.validity($("validity"), state);
  tables.notes($("notes"), state.notes ?? []);
  if (!run) {
    $("title").textContent = "r1perf";
    $("about").textContent = "";
    $("clock").textContent = "";
    $("progress").hidden = true;
    document.title = `${state.phase} · r1perf`;
    return;
  }
  header(run);
  tables.tiles($("tiles"), state);
  tables.sla($("sla"), state.sla ?? [], state.phase);
  choices(run);
  const width = chooseWidth();
  if (width !== held.width) begin({ width });
  draw(run);
  tables.figures($("figures"), state.table ?? [], run.workloads, nothing());
  tables.counts($("counts"), state, run.workloads);
  tables.stages($("stages"), state);
  tables.throughput($("throughput"), state.throughput, held.stage);
}

// Say why there are no figures: usually a warmup or a ramp goes on, which is not judged.
function nothing() {
  if (held.stage || state.phase === "ended") return "nothing was measured";
  const judged = (state.stages ?? []).some((stage) => stage.judged && stage.start_s != null);
  return judged ? "nothing is measured so far" : "no judged stage has begun; another can be chosen above";
}

function header(run) {
  const model = run.target.includes(run.model) ? "" : run.model;
  const workers = run.workers === 1 ? "1 worker" : `${run.workers} workers`;
  $("title").textContent = run.scenario;
  $("about").textContent = [run.target, model, workers, state.loop && `${state.loop} loop`, state.archive].filter(Boolean).join(" · ");
  const elapsed = span(state.elapsed_s ?? 0);
  const window_ = run.window_s == null ? "" : ` of ${span(run.window_s)}`;
  const stage = state.stage ? ` · stage ${state.stage}` : "";
  $("clock").textContent = state.phase === "ended" ? elapsed : `${elapsed}${window_}${stage}`;
  $("progress").hidden = run.window_s == null || state.phase === "ended";
  $("progress").value = run.window_s ? Math.min((state.elapsed_s ?? 0) / run.window_s, 1) : 0;
  document.title = `${run.scenario} · ${state.phase} · r1perf`;
}

// Fill the selectors anew where what can be chosen has changed, and keep what is chosen.
function choices(run) {
  const reached = (state.stages ?? []).filter((stage) => stage.start_s != null).map((stage) => stage.name);
  const interval = run.interval_s;
  const widths = WIDTHS.filter((width) => width === 1 || (state.elapsed_s ?? 0) > 3 * width * interval);
  const now = JSON.stringify([run.id, run.workloads, reached, widths]);
  if (now === options) return;
  options = now;
  offer($("workload"), [["", "all"], ...run.workloads.map((name) => [name, name])], held.workload);
  offer($("stage"), [["", "judged stages"], ...reached.map((name) => [name, name])], held.stage);
  offer($("width"), [["", "automatic"], ...widths.map((width) => [width, `${short(width * interval)} s`])], $("width").value);
}

function offer(select, pairs, chosen) {
  select.replaceChildren(
    ...pairs.map(([value, label]) => {
      const option = document.createElement("option");
      option.value = value;
      option.textContent = label;
      return option;
    }),
  );
  select.value = pairs.some(([value]) => String(value) === chosen) ? chosen : "";
}

function draw(run) {
  const rows = past.ordered();
  const step = held.width * run.interval_s;
  const elapsed = Math.max(state.elapsed_s ?? 0, run.interval_s);
  const whole = state.phase === "ended" || run.window_s == null ? elapsed : Math.max(elapsed, Math.min(run.window_s, elapsed * 2 + 30));
  const last = Number($("range").value);
  const outcomes = new Set(rows.flatMap((row) => Object.keys(row.outcomes ?? {})));
  charts.draw(rows, {
    selected: held.workload ? [held.workload] : run.workloads,
    perChunk: state.tokens_per_chunk ?? {},
    outcomes,
    stages: state.stages ?? [],
    live: state.phase !== "ended",
    range: last && elapsed > last ? [elapsed - last, elapsed] : [0, whole],
    middle: (row) => (row.number + 0.5) * step,
    seconds: (row) => row.length * run.interval_s,
    ink: (name) => `w${run.workloads.indexOf(name) % INKS}`,
  });
}

async function poll() {
  try {
    await ask();
    document.body.classList.remove("lost");
  } catch (error) {
    document.body.classList.add("lost");
    $("phase").textContent = "no answer from the master";
    console.info(String(error));
  }
  setTimeout(poll, document.hidden ? HIDDEN_MS : POLL_MS);
}

// Ask for something; return what is wrong with it, "" where nothing is.
async function act(button, name, value) {
  button.disabled = true;
  try {
    const response = await fetch(`${base}/act`, { method: "POST", body: new URLSearchParams({ act: name, value }) });
    const text = (await response.text()).trim();
    await ask();
    return response.ok ? "" : text;
  } catch (error) {
    return String(error);
  } finally {
    button.disabled = false;
  }
}

for (const name of ["workload", "stage"]) {
  $(name).addEventListener("change", () => {
    begin({ [name]: $(name).value });
    ask().catch(() => {});
  });
}
$("range").addEventListener("change", () => (charts.setZoom(null), show()));
$("width").addEventListener("change", () => (show(), ask().catch(() => {})));
$("log").addEventListener("change", () => charts.setLog($("log").checked));
$("unzoom").addEventListener("click", () => charts.setZoom(null));
$("stop").addEventListener("click", () => act($("stop"), "stop", state.phase === "draining" ? "now" : ""));
$("rate").addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = $("rate").elements.value;
  const wrong = await act(event.submitter, "rate", field.value);
  field.setCustomValidity(wrong);
  if (wrong) field.reportValidity();
  else field.value = "";
});
$("rate").addEventListener("input", () => $("rate").elements.value.setCustomValidity(""));
document.addEventListener("visibilitychange", () => document.hidden || ask().catch(() => {}));
poll();
