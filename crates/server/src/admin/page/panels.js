// What stands on the page: tiles, charts, and tables, from `/status`, `/history` and `/models`.

/** Charts in the order in which they stand; see `Chart` for the fields. */
function chartSpecs(state) {
  const line = (name, label, colour, dash) => ({name, label, colour, dash});
  const predicted = () => {
    const value = predictedAmplification(state.models);
    return isNumber(value) ? [{label: 'model', colour: 'c5', value}] : [];
  };
  const limit = () => {
    const value = state.status && state.status.memory.maxmemory;
    return value ? [{label: 'limit', colour: 'c2', value}] : [];
  };
  return [
    {title: 'Throughput', unit: 'keys a second', format: format.count, least: 10, series: [
      line('reads', 'reads', 'c1'), line('writes', 'writes', 'c2'), line('misses', 'misses', 'c5')]},
    {title: 'Latency of bursts', unit: 'log scale, ± a factor of 2', format: format.micros, isLog: true,
      series: [line('p50_us', 'p50', 'c1'), line('p90_us', 'p90', 'c3'), line('p99_us', 'p99', 'c2'),
        line('p999_us', 'p99.9', 'c4'), line('max_us', 'max', 'c5', '2 2')]},
    {title: 'Latency of reads by stage', unit: 'log scale, of a burst on a worker', format: format.micros,
      isLog: true, series: [
        line('stage_queue_us', 'queue', 'c5'), line('stage_memory_us', 'memory', 'c1'),
        line('stage_filter_us', 'filter', 'c6'), line('stage_index_us', 'index', 'c4'),
        line('stage_cache_us', 'cache', 'c3'), line('stage_device_us', 'device', 'c2'),
        line('stage_search_us', 'search', 'c1', '5 3'), line('stage_other_us', 'other', 'c5', '2 2')]},
    {title: 'Hit ratio', unit: 'keys found of keys read', format: format.percent, max: 1,
      series: [line('hit_ratio', 'hits', 'c3')]},
    {title: 'Memory', unit: 'bytes', format: format.bytes, isBytes: true, constants: limit, least: 1,
      series: [line('used_bytes', 'used', 'c1'), line('index_bytes', 'indexes', 'c3'),
        line('clients_bytes', 'clients', 'c4')]},
    {title: 'Write amplification', unit: 'bytes for each byte put, over 30 rows', format: format.ratio,
      constants: predicted, least: 1,
      series: [{...line('write_amplification', 'measured', 'c1'), of: smoothAmplification}]},
    {title: 'Background work', unit: 'bytes written a second', format: format.bytes, isBytes: true,
      least: 1024, series: [
        line('user_bytes_written', 'users', 'c5', '5 3'), line('log_bytes_written', 'log', 'c1'),
        line('flush_bytes_written', 'flush', 'c3'), line('compaction_bytes_written', 'compact', 'c2'),
        line('merge_bytes_written', 'merge', 'c4')]},
    {title: 'Space', unit: 'bytes of all stores', format: format.bytes, isBytes: true, least: 1024,
      series: [line('disk_bytes', 'files', 'c1'), line('live_bytes', 'live', 'c3'),
        line('dead_bytes', 'dead', 'c2')]},
    {title: 'Writes held up, entries gone', unit: 'a second', format: format.count, least: 10,
      series: [line('slowed_writes', 'slowed', 'c2'), line('evictions', 'evicted', 'c4'),
        line('expirations', 'expired', 'c5')]},
    {title: 'Network', unit: 'bytes a second', format: format.bytes, isBytes: true, least: 1024,
      series: [line('bytes_received', 'in', 'c1'), line('bytes_sent', 'out', 'c2')]},
    {title: 'Processor', unit: 'cores that are busy', format: format.ratio, least: 1,
      series: [line('cpu', 'cores', 'c1')]},
    {title: 'Connections', unit: 'open', format: format.count, least: 10,
      series: [line('clients', 'open', 'c1')]},
  ];
}

/** Rows over which write amplification is taken: a single second may have compactions only. */
const AMPLIFICATION_ROWS = 30;

/** Bytes written for each byte put, over the rows up to each; null before anything was put. */
function smoothAmplification(history) {
  const {series} = history;
  if (history.amplification) return history.amplification;
  const written = ['log', 'flush', 'compaction', 'merge'].map(name => series[`${name}_bytes_written`]);
  const users = series.user_bytes_written;
  let [all, put] = [0, 0];
  history.amplification = users.map((value, row) => {
    const sum = at => written.reduce((bytes, values) => bytes + (values[at] || 0), 0);
    all += sum(row);
    put += value || 0;
    if (row >= AMPLIFICATION_ROWS) {
      all -= sum(row - AMPLIFICATION_ROWS);
      put -= users[row - AMPLIFICATION_ROWS] || 0;
    }
    return put > 1 ? all / put : null;
  });
  return history.amplification;
}

/** The write amplification that the model of the first database on a device predicts. */
function predictedAmplification(models) {
  for (const {figures} of models || []) {
    const found = (figures || []).find(({name}) => name === 'write amplification');
    if (found) return found.predicted;
  }
  return NaN;
}

/** The last value of a series; NaN if nothing was counted. */
function latest(history, name) {
  const values = history.series[name];
  const value = values.length ? values[values.length - 1] : null;
  return value === null ? NaN : value;
}

/** The sum of a field over all databases; NaN if no database has it. */
function total(status, field) {
  const some = status.databases.map(database => database[field]).filter(isNumber);
  return some.length ? some.reduce((a, b) => a + b, 0) : NaN;
}

/** What the server is among others: [role, how far the replicas are, or the link is]. */
function roleOf({replication}) {
  if (replication.role === 'slave') {
    const whom = `${replication.master_host}:${replication.master_port}`;
    const behind = replication.master_last_io_seconds_ago;
    return replication.master_link_status === 'up'
      ? ['replica', `of ${whom}, heard ${format.seconds(behind)} ago`] : ['replica', `of ${whom}: link down`];
  }
  const replicas = Object.entries(replication).filter(([name]) => /^slave\d+$/.test(name))
    .map(([, text]) => Object.fromEntries(text.split(',').map(pair => pair.split('='))));
  if (replicas.length === 0) return ['primary', 'no replica'];
  const behind = Math.max(...replicas.map(({offset}) => replication.master_repl_offset - offset));
  const lag = Math.max(...replicas.map(replica => Number(replica.lag)));
  return ['primary', `${replicas.length} replicas, ${format.bytes(Math.max(behind, 0))} and ${lag} s behind`];
}

function tiles(state) {
  const {status, history, models} = state;
  const {memory, clients, stats} = status;
  const now = name => latest(history, name);
  const written = status.databases.filter(database => database.user_bytes_written > 0)
    .map(database => database.write_amplification).find(isNumber);
  const expected = predictedAmplification(models);
  const keys = total(status, 'entries_estimate');
  const dead = total(status, 'dead_bytes');
  return [
    ['Requests a second', format.count(now('requests')),
      `${format.count(stats.total_commands_processed)} in all`],
    ['Reads a second', format.count(now('reads')), `${format.count(stats.keyspace_hits)} hits in all`],
    ['Writes a second', format.count(now('writes')), `${format.count(now('slowed_writes'))} slowed a second`],
    ['Hit ratio', format.percent(now('hit_ratio')), `${format.count(stats.keyspace_misses)} misses in all`],
    ['p99 of bursts', format.micros(now('p99_us')), `p50 ${format.micros(now('p50_us'))}`],
    ['Memory used', format.bytes(memory.used_memory),
      memory.maxmemory ? `of ${format.bytes(memory.maxmemory)}` : 'no limit was set'],
    ['Write amplification', format.ratio(written),
      isNumber(expected) ? `the model: ${format.ratio(expected)}` : 'no model of this engine'],
    ['Keys', format.count(keys), isNumber(dead) ? `${format.bytes(dead)} dead` : 'estimated'],
    ['Disk free', status.disk ? format.bytes(status.disk.free_bytes) : NOTHING,
      status.disk ? `of ${format.bytes(status.disk.bytes)}` : 'nothing is on a disk'],
    ['Connections', format.count(clients.connected_clients), `of ${format.count(clients.maxclients)} at most`],
    ['Role', ...roleOf(status)],
  ];
}

function showTiles(state) {
  const host = document.getElementById('tiles');
  host.replaceChildren(...tiles(state).map(([title, text, more]) => {
    const [value, unit] = apart(text);
    const output = element('output', {}, value, element('i', {}, unit ? ` ${unit}` : ''));
    return element('div', {class: 'tile'}, element('b', {}, title), output, element('span', {title: more}, more));
  }));
}

/** What takes memory: [name, bytes, colour], the rest of what is used last. */
function memoryParts(status) {
  const {memory, databases} = status;
  const parts = [];
  for (const database of databases) {
    const add = (what, bytes, colour) => {
      if (isNumber(bytes) && bytes > 0) parts.push([`db ${database.db} ${what}`, bytes, colour]);
    };
    if (database.in_memory) add('entries', database.log_bytes - (database.free_bytes || 0), 'c1');
    add('indexes', database.index_bytes, 'c3');
    add('block cache', database.block_cache_bytes, 'c6');
    add('management', database.management_bytes, 'c5');
  }
  parts.push(['clients', memory.clients_bytes, 'c4']);
  const known = parts.reduce((sum, [, bytes]) => sum + bytes, 0);
  parts.push(['program and buffers', Math.max(memory.used_memory - known, 0), 'c2']);
  return parts;
}

function showMemory(status) {
  const {memory} = status;
  const parts = memoryParts(status);
  const used = parts.reduce((sum, [, bytes]) => sum + bytes, 0);
  const whole = Math.max(memory.maxmemory, used) || 1;
  document.getElementById('memory-sum').textContent = memory.maxmemory
    ? `${format.bytes(memory.used_memory)} of ${format.bytes(memory.maxmemory)} (${format.percent(memory.used_memory / memory.maxmemory)}); resident with files ${format.bytes(memory.used_memory_rss)}`
    : `${format.bytes(memory.used_memory)}; no limit was set`;
  const bar = document.getElementById('memory-bar');
  bar.replaceChildren(...parts.map(([name, bytes, colour]) => element('i', {
    style: `width: ${(100 * bytes / whole).toFixed(3)}%; background: var(--${colour})`, title: name})));
  bar.setAttribute('aria-label', parts.map(([name, bytes]) => `${name} ${format.bytes(bytes)}`).join(', '));
  const free = memory.maxmemory - memory.used_memory;
  const rows = parts.concat(free > 0 ? [['free', free, 'grid']] : []);
  document.getElementById('memory-parts').replaceChildren(...rows.map(([name, bytes, colour]) =>
    element('li', {}, element('i', {style: `background: var(--${colour})`}), element('span', {}, name), format.bytes(bytes))));
}

/** A table; `columns`: [title, class, what of a row]. */
function table(columns, rows, nothing) {
  if (rows.length === 0) return element('p', {class: 'empty'}, nothing);
  const head = element('tr', {}, ...columns.map(([title, kind]) => element('th', {class: kind, scope: 'col'}, title)));
  const body = rows.map(row => element('tr', {}, ...columns.map(([, kind, of]) => {
    const text = String(of(row));
    return element('td', kind.includes('long') ? {class: kind, title: text} : {class: kind}, text);
  })));
  return element('table', {}, element('thead', {}, head), element('tbody', {}, ...body));
}

function showTables(status) {
  document.getElementById('clients-sum').textContent = status.client_list.length < status.clients.connected_clients
    ? `the ${status.client_list.length} that hold most memory, of ${status.clients.connected_clients}`
    : String(status.clients.connected_clients);
  document.getElementById('clients').replaceChildren(table([
    ['Address', '', row => row.address], ['Name', 'long', row => row.name || row.library || NOTHING],
    ['User', 'wide', row => row.user], ['DB', 'n wide', row => row.db],
    ['Last command', '', row => row.command || NOTHING], ['Memory', 'n', row => format.bytes(row.bytes)],
    ['Idle', 'n wide', row => format.seconds(row.idle_s)], ['Age', 'n wide', row => format.seconds(row.age_s)],
  ], status.client_list, 'Nobody is connected.'));
  document.getElementById('slow-sum').textContent = 'the newest first; the limit is CONFIG GET slowlog-log-slower-than';
  document.getElementById('slow').replaceChildren(table([
    ['When', '', row => new Date(row.unix_s * 1000).toLocaleTimeString()],
    ['Took', 'n', row => format.micros(row.micros)], ['Request', 'long', row => row.request],
    ['Address', 'wide', row => row.address],
  ], status.slow_requests, 'No burst of requests was slow.'));
  document.getElementById('jobs').replaceChildren(table([
    ['Job', '', row => row.kind], ['How far', 'long', row => row.state],
  ], status.jobs, 'No backup, check, compaction or save was begun since the start.'));
}

function showDatabases(status, models) {
  const open = new Set([...document.querySelectorAll('.database details[open]')].map(node => node.dataset.db));
  document.getElementById('databases').replaceChildren(...status.databases.map(database => {
    const model = (models || []).find(({db}) => db === database.db) || {};
    const where = database.in_memory ? 'in memory' : 'on the device';
    const title = element('h3', {}, `Database ${database.db}: ${database.engine}`,
      element('small', {}, `${where}, ${format.count(database.entries_estimate)} keys`));
    const list = element('dl', {}, ...databaseRows(database).flatMap(([name, text]) =>
      [element('dt', {}, name), element('dd', {}, text)]));
    const inside = element('div', {class: 'inside'}, list);
    if (model.figures) inside.append(figureTable(model.figures));
    const words = (model.words || ['The models know nothing of this engine.']).map(text => element('li', {}, text));
    const why = element('div', {}, element('ul', {}, ...words));
    if (model.text) {
      const more = element('details', {'data-db': database.db}, element('summary', {}, 'What one option changed would do'),
        element('pre', {}, model.text));
      more.open = open.has(String(database.db));
      why.append(more);
    }
    inside.append(why);
    return element('article', {class: 'database'}, title, inside);
  }));
}

function databaseRows(database) {
  const rows = [
    ['live bytes', format.bytes(database.live_bytes)], ['dead bytes', format.bytes(database.dead_bytes)],
    ['bytes of files', format.bytes(database.disk_bytes)], ['device reads a get', format.ratio(database.device_reads_per_get)],
    ['index bytes a key', format.ratio(database.index_bytes_per_key)], ['flushes', format.count(database.flushes)],
    ['compactions', format.count(database.compactions)], ['conversions', format.count(database.conversions)],
    ['merges', format.count(database.merges)], ['evictions', format.count(database.evictions)],
    ['free bytes', format.bytes(database.free_bytes)],
  ];
  return rows.filter(([, text]) => text !== NOTHING);
}

/** Figures that are off by more than a quarter stand out. */
const DRIFT_PERCENT_MAX = 25;

function figureTable(figures) {
  const made = table([
    ['Figure', '', row => row.name], ['Predicted', 'n', row => format.ratio(row.predicted)],
    ['Measured', 'n', row => format.ratio(row.measured)],
    ['Drift', 'n', row => isNumber(row.drift_percent) ? `${row.drift_percent > 0 ? '+' : ''}${row.drift_percent.toFixed(0)} %` : NOTHING],
  ], figures, '');
  [...made.querySelectorAll('tbody tr')].forEach((row, index) => {
    if (Math.abs(figures[index].drift_percent) > DRIFT_PERCENT_MAX) row.lastChild.className = 'n off';
  });
  return made;
}

/** Every field as INFO has it; made only if somebody looks. */
function showFields(status) {
  if (!document.getElementById('all').open) return;
  const named = ['server', 'clients', 'memory', 'persistence', 'stats', 'replication', 'cpu']
    .map(name => [name, '', status[name]]);
  const databases = status.databases.map(database => [`database ${database.db}`, `db${database.db}_`, database]);
  const group = ([title, prefix, fields]) => {
    const rows = Object.entries(fields || {}).flatMap(([name, value]) =>
      [element('dt', {}, prefix + name), element('dd', {'data-field': prefix + name}, String(value))]);
    return element('div', {}, element('h3', {}, title), element('dl', {}, ...rows));
  };
  document.getElementById('fields').replaceChildren(...[...named, ...databases].map(group));
}
