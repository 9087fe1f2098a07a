'use strict';
// Numbers for people. Every function takes NaN, null or undefined for "nothing was counted".

const NOTHING = '–';
const isNumber = value => typeof value === 'number' && Number.isFinite(value);

/** Three digits that count. */
function digits(value) {
  const size = Math.abs(value);
  if (size >= 100 || value === 0) return value.toFixed(0);
  return size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function scaled(value, base, units) {
  let power = 0;
  let size = Math.abs(value);
  while (size >= base * 0.9995 && power < units.length - 1) {
    size /= base;
    power += 1;
  }
  const shown = value < 0 ? -size : size;
  return [power === 0 && Number.isInteger(shown) ? String(shown) : digits(shown), units[power]];
}

const format = {
  /** A count or a rate: `12.3 k`. */
  count(value) {
    if (!isNumber(value)) return NOTHING;
    return scaled(value, 1000, ['', 'k', 'M', 'G', 'T']).join(' ').trim();
  },
  /** Bytes: `1.50 MiB`. */
  bytes(value) {
    if (!isNumber(value)) return NOTHING;
    return scaled(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']).join(' ');
  },
  /** Microseconds: `85.0 µs`, `1.20 ms`. */
  micros(value) {
    if (!isNumber(value)) return NOTHING;
    return scaled(value, 1000, ['µs', 'ms', 's']).join(' ');
  },
  /** A part of a whole. */
  percent(value) {
    if (!isNumber(value)) return NOTHING;
    const percent = 100 * value;
    return `${percent > 99.95 || percent < 0.05 ? percent.toFixed(0) : percent.toFixed(1)} %`;
  },
  /** A quotient. */
  ratio(value) {
    return isNumber(value) ? digits(value) : NOTHING;
  },
  /** Seconds: `2 d 3 h`, `4 min 5 s`. */
  seconds(value) {
    if (!isNumber(value)) return NOTHING;
    const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
    const first = parts.findIndex(([size]) => value >= size);
    if (first < 0) return '0 s';
    const shown = [];
    let rest = Math.floor(value);
    for (const [size, unit] of parts.slice(first, first + 2)) {
      shown.push(`${Math.floor(rest / size)} ${unit}`);
      rest %= size;
    }
    return shown.filter(part => !part.startsWith('0 ')).join(' ');
  },
};

/** A number and its unit apart, for a tile. */
function apart(text) {
  const cut = text.indexOf(' ');
  return cut < 0 ? [text, ''] : [text.slice(0, cut), text.slice(cut + 1)];
}

/** An element with attributes and children; text is never read as HTML. */
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
