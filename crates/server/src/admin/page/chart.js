// Charts of time, drawn as SVG. A chart knows its series by their names in `/history`.

const SVG = 'http://www.w3.org/2000/svg';
const HEIGHT = 190;
const MARGIN = {top: 18, right: 60, bottom: 34, left: 56};
/** Width of a character of a label, about, in pixels. */
const LABEL_PX = 7;

/** Ticks from 0 to `max` at round numbers; of bytes, round in their unit. */
function linearTicks(max, isBytes) {
  let unit = 1;
  if (isBytes) while (max / unit >= 1024) unit *= 1024;
  const raw = max / unit / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find(factor => factor * power >= raw) * power * unit;
  const count = Math.ceil(max / step - 1e-9);
  return Array.from({length: count + 1}, (_, n) => n * step);
}

/** Powers of ten around what is shown. */
function logTicks(min, max) {
  const from = Math.floor(Math.log10(min));
  const to = Math.max(Math.ceil(Math.log10(max)), from + 1);
  return Array.from({length: to - from + 1}, (_, n) => 10 ** (from + n));
}

/** Where labels of 12 px stand so that none covers another, as near to `wanted` as goes. */
function spread(wanted, top, bottom) {
  const order = wanted.map((y, index) => ({y, index})).sort((a, b) => a.y - b.y);
  for (let n = 1; n < order.length; n++) order[n].y = Math.max(order[n].y, order[n - 1].y + 12.5);
  let limit = bottom;
  for (let n = order.length - 1; n >= 0; n--) {
    order[n].y = Math.max(Math.min(order[n].y, limit), top);
    limit = order[n].y - 12.5;
  }
  const placed = [];
  for (const {y, index} of order) placed[index] = y;
  return placed;
}

/** How long ago, on the axis of time. */
function timeTicks(spanS) {
  const steps = [60, 300, 600, 900, 1800, 3600, 7200, 14400, 21600];
  const step = steps.find(size => spanS / size <= 6);
  const unit = spanS <= 3600 ? [60, 'min'] : [3600, 'h'];
  const ticks = [];
  for (let ago = 0; ago <= spanS; ago += step) ticks.push([ago, ago / unit[0]]);
  return {ticks, title: `${unit[1] === 'h' ? 'hours' : 'minutes'} ago`};
}

class Chart {
  /**
   * `spec`: title, unit, format (a function), series [{name, label, colour, dash}] (`of` where it
   * is computed from the history), and where they are wanted `isLog`, `max` (the end of the axis of a share), `isBytes`, `constants` (a function
   * that returns [{label, colour, value}], dashed lines).
   */
  constructor(host, spec) {
    this.spec = spec;
    this.cursor = null;
    this.right = MARGIN.right;
    this.svg = document.createElementNS(SVG, 'svg');
    this.svg.setAttribute('role', 'img');
    this.svg.setAttribute('tabindex', '0');
    this.readout = element('div', {class: 'readout', hidden: ''});
    const unit = element('small', {}, spec.unit);
    this.figure = element('figure', {}, element('figcaption', {}, spec.title, unit));
    this.figure.append(this.svg, this.readout);
    host.append(this.figure);
    this.svg.addEventListener('pointermove', event => this.point(event));
    this.svg.addEventListener('pointerleave', () => this.show(null));
    this.svg.addEventListener('blur', () => this.show(null));
    this.svg.addEventListener('keydown', event => this.key(event));
  }

  point(event) {
    if (!this.plot) return;
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    const {times, toX} = this.plot;
    let nearest = null;
    times.forEach((time, index) => {
      const far = Math.abs(toX(time) - x);
      if (nearest === null || far < nearest[0]) nearest = [far, index];
    });
    this.show(nearest && nearest[1]);
  }

  key(event) {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (event.key === 'Escape') this.show(null);
    if (!step || !this.plot || this.plot.times.length === 0) return;
    event.preventDefault();
    const last = this.plot.times.length - 1;
    const at = this.cursor === null ? last : this.cursor + step;
    this.show(Math.min(Math.max(at, 0), last));
    const said = this.rows(this.cursor).map(([label, text]) => `${label} ${text}`).join(', ');
    document.getElementById('said').textContent = `${this.spec.title}: ${said}`;
  }

  values(history, series) {
    return series.of ? series.of(history) : history.series[series.name];
  }

  rows(index) {
    const {history} = this.plot;
    return this.spec.series.map(series => {
      const value = this.values(history, series)[index];
      return [series.label, this.spec.format(value === null ? NaN : value), series.colour];
    });
  }

  show(index) {
    this.cursor = index;
    this.readout.hidden = index === null || !this.plot;
    const old = this.svg.querySelector('.cursor');
    if (old) old.remove();
    if (this.readout.hidden) return;
    const {times, toX, bottom, width} = this.plot;
    const x = toX(times[index]);
    const line = document.createElementNS(SVG, 'line');
    const place = {class: 'cursor', x1: x, x2: x, y1: MARGIN.top, y2: bottom};
    for (const [key, value] of Object.entries(place)) line.setAttribute(key, value);
    this.svg.append(line);
    const when = new Date(times[index]).toLocaleTimeString();
    const rows = this.rows(index).map(([label, text, colour]) => element('div', {},
      element('span', {style: `color: var(--${colour})`}, label), element('b', {}, text)));
    this.readout.replaceChildren(element('div', {}, when), ...rows);
    const side = x > width / 2 ? x - this.readout.offsetWidth - 2 : x + 22;
    this.readout.style.left = `${Math.max(side, 4)}px`;
    this.readout.style.top = '44px';
  }

  /** Draws what `history` has of the last `spanS` seconds. */
  draw(history, spanS) {
    const width = this.svg.clientWidth || 400;
    const constants = this.spec.constants ? this.spec.constants() : [];
    // Labels have what the widest so far took, so that the curves do not jump.
    const texts = constants.map(({label, value}) => `${label} ${this.spec.format(value)}`);
    for (const series of this.spec.series) {
      const values = this.values(history, series);
      const last = values.length ? values[values.length - 1] : null;
      texts.push(`${series.label} ${last === null ? '' : this.spec.format(last)}`);
    }
    const wanted = Math.max(...texts.map(text => text.length)) * LABEL_PX + 12;
    this.right = Math.max(this.right, wanted);
    const right = width - this.right;
    const bottom = HEIGHT - MARGIN.bottom;
    const times = history.end_ms;
    const now = times.length ? times[times.length - 1] : Date.now();
    const toX = time => right - (now - time) / 1000 / spanS * (right - MARGIN.left);
    const scale = this.scale(history, constants, bottom);
    const parts = [this.axes(scale, spanS, {width, right, bottom})];
    const labels = [];
    for (const {label, colour, value} of constants) {
      const y = scale.toY(value);
      parts.push(`<path class="curve" stroke="var(--${colour})" stroke-dasharray="5 4"
        d="M${MARGIN.left} ${y.toFixed(1)}H${right}"/>`);
      labels.push({label, colour, value, y});
    }
    const gap = 2.5 * history.step_s * 1000;
    for (const series of this.spec.series) {
      const values = this.values(history, series);
      const dash = series.dash ? ` stroke-dasharray="${series.dash}"` : '';
      parts.push(`<path class="curve" stroke="var(--${series.colour})"${dash}
        d="${this.path(times, values, toX, scale.toY, gap)}"/>`);
      const last = values.length ? values[values.length - 1] : null;
      const known = last === null ? values.findLast(value => value !== null) : last;
      if (known === null || known === undefined) continue;
      labels.push({...series, value: last, y: scale.toY(known)});
    }
    const places = spread(labels.map(({y}) => y + 4), MARGIN.top + 2, bottom + 4);
    labels.forEach(({label, colour, value}, index) => {
      const text = value === null ? '' : this.spec.format(value);
      parts.push(`<text class="label" x="${right + 6}" y="${places[index].toFixed(1)}"
        style="fill: var(--${colour})">${label} ${text}</text>`);
    });
    this.svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    this.svg.innerHTML = parts.join('');
    const latest = labels.map(({label, value}) => `${label} ${this.spec.format(value)}`);
    this.svg.setAttribute('aria-label',
      `${this.spec.title}, ${this.spec.unit}: ${latest.join(', ') || 'nothing yet'}`);
    this.plot = {history, times, toX, bottom, width};
    if (this.cursor !== null) this.show(this.cursor < times.length ? this.cursor : null);
  }

  /** The vertical axis: its ticks, and where a value is drawn. */
  scale(history, constants, bottom) {
    const all = this.spec.series.flatMap(series => this.values(history, series))
      .concat(constants.map(({value}) => value)).filter(isNumber);
    const high = Math.max(0, ...all);
    const height = bottom - MARGIN.top;
    if (this.spec.isLog) {
      const some = all.filter(value => value > 0);
      const ticks = logTicks(Math.min(...some, 100), Math.max(...some, 10));
      const [from, to] = [Math.log10(ticks[0]), Math.log10(ticks[ticks.length - 1])];
      const toY = value => {
        const part = (Math.log10(Math.max(value, ticks[0])) - from) / (to - from);
        return bottom - part * height;
      };
      return {ticks, toY};
    }
    const ticks = this.spec.max ? [0, 0.25, 0.5, 0.75, 1].map(part => part * this.spec.max)
      : linearTicks(high > 0 ? high : this.spec.least || 1, this.spec.isBytes);
    const top = ticks[ticks.length - 1];
    return {ticks, toY: value => bottom - Math.min(value, top) / top * height};
  }

  axes({ticks, toY}, spanS, {right, bottom}) {
    const parts = [];
    for (const tick of ticks) {
      const y = Math.round(toY(tick)) + 0.5;
      parts.push(`<path class="${tick === ticks[0] ? 'axis' : 'grid'}" d="M${MARGIN.left} ${y}H${right}"/>
        <text x="${MARGIN.left - 6}" y="${y + 3.5}" text-anchor="end">${this.tick(tick)}</text>`);
    }
    const time = timeTicks(spanS);
    for (const [ago, shown] of time.ticks) {
      const x = right - ago / spanS * (right - MARGIN.left);
      parts.push(`<path class="axis" d="M${Math.round(x) + 0.5} ${bottom}v4"/>
        <text x="${x}" y="${bottom + 15}" text-anchor="middle">${shown}</text>`);
    }
    parts.push(`<text x="${(MARGIN.left + right) / 2}" y="${bottom + 29}" text-anchor="middle">${time.title}</text>`);
    return parts.join('');
  }

  /** A tick's number, without zeros behind the point. */
  tick(value) {
    return this.spec.format(value).replace(/(\.\d*?)0+(?=\D|$)/, '$1').replace(/\.(?=\D|$)/, '');
  }

  /** A line that breaks where nothing was counted or nobody looked. */
  path(times, values, toX, toY, gap) {
    let isOpen = false;
    let before = null;
    const parts = [];
    values.forEach((value, index) => {
      if (value === null || (before !== null && times[index] - before > gap)) isOpen = false;
      before = times[index];
      if (value === null) return;
      const at = `${toX(times[index]).toFixed(1)} ${toY(value).toFixed(1)}`;
      // A point between two gaps is drawn as a short line.
      parts.push(isOpen ? `L${at}` : `M${at}h.1`);
      isOpen = true;
    });
    return parts.join('');
  }
}
