// Asks the server each second, draws what it says, and says so if it is gone.

const POLL_MS = 1000;
const MODELS_MS = 10000;
const TIMEOUT_MS = 5000;
const RETRY_MS_MAX = 15000;

const state = {status: null, history: null, models: [], span: 300, askedModels: 0, failures: 0};
const charts = chartSpecs(state).map(spec => new Chart(document.getElementById('charts'), spec));

async function ask(path) {
  const response = await fetch(path, {signal: AbortSignal.timeout(TIMEOUT_MS), cache: 'no-store'});
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

/** Adds rows to those that are there; another step, or a server that began anew, replaces them. */
function take(history, more) {
  const {end_ms: ends} = history || {end_ms: []};
  if (!history || history.step_s !== more.step_s) return more;
  const keep = Math.max(ends.length + more.end_ms.length - more.steps, 0);
  const joined = {step_s: more.step_s, steps: more.steps, end_ms: ends.concat(more.end_ms).slice(keep), series: {}};
  for (const [name, values] of Object.entries(more.series)) {
    joined.series[name] = history.series[name].concat(values).slice(keep);
  }
  return joined;
}

async function refresh() {
  const span = state.span;
  const ends = state.history ? state.history.end_ms : [];
  const after = ends.length ? ends[ends.length - 1] : 0;
  const wantsModels = Date.now() - state.askedModels > MODELS_MS;
  const [status, history, models] = await Promise.all([
    ask('status'), ask(`history?span=${span}&after=${after}`), wantsModels ? ask('models') : state.models]);
  if (span !== state.span) return;
  const isAnother = state.status && state.status.server.run_id !== status.server.run_id;
  state.history = take(isAnother ? null : state.history, history);
  if (wantsModels) state.askedModels = Date.now();
  Object.assign(state, {status, models});
  draw();
}

function draw() {
  const {status, history, models, span} = state;
  if (!status || !history) return;
  const {server} = status;
  document.getElementById('about').textContent =
    `${server.silica_version} · port ${server.tcp_port} · up ${format.seconds(server.uptime_in_seconds)}`;
  charts.forEach(chart => chart.draw(history, span));
  showTiles(state);
  showMemory(status);
  showDatabases(status, models);
  showTables(status);
  showFields(status);
}

function say(text, isGone) {
  const node = document.getElementById('link-text');
  if (node.textContent !== text) node.textContent = text;
  document.documentElement.classList.toggle('is-gone', isGone);
}

let timer = 0;

async function poll() {
  clearTimeout(timer);
  if (document.hidden) return;
  let wait = POLL_MS;
  try {
    await refresh();
    state.failures = 0;
    say('live', false);
  } catch (error) {
    wait = Math.min(POLL_MS * 2 ** state.failures, RETRY_MS_MAX);
    state.failures += 1;
    say(`the server does not answer; trying again in ${wait / 1000} s`, true);
  }
  clearTimeout(timer);
  timer = setTimeout(poll, wait);
}

document.getElementById('spans').addEventListener('click', event => {
  const span = Number(event.target.dataset.span);
  if (!span) return;
  for (const button of event.currentTarget.querySelectorAll('button')) {
    button.setAttribute('aria-pressed', String(button === event.target));
  }
  Object.assign(state, {span, history: null});
  poll();
});

const THEMES = ['auto', 'light', 'dark'];

function setTheme(theme) {
  document.getElementById('theme').textContent = `Theme: ${theme}`;
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

/** What the browser keeps for this page; it may keep nothing. */
const kept = {
  get: () => { try { return localStorage.getItem('silica-theme'); } catch { return null; } },
  set: theme => { try { localStorage.setItem('silica-theme', theme); } catch { /* It forgets. */ } },
};

document.getElementById('theme').addEventListener('click', () => {
  const now = document.documentElement.dataset.theme || 'auto';
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  kept.set(next);
  setTheme(next);
});

// An address that ends in `#all` shows every field from the start.
document.getElementById('all').open = location.hash === '#all';
setTheme(THEMES.includes(kept.get()) ? kept.get() : 'auto');
document.getElementById('all').addEventListener('toggle', () => state.status && showFields(state.status));
document.addEventListener('visibilitychange', poll);
addEventListener('resize', draw);
poll();
