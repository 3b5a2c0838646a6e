// A line over the last minutes, with the value under the pointer. It is as wide as what is known: from 20 s on.

import { h, setText, svg } from './dom.js';

const WIDTH = 1_000;
const HEIGHT = 160;
const SPAN_MS_MIN = 20_000;

// The smallest of 1, 2, 5, 10, 20, 50, ... that is not below a value.
export function niceCeiling(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((it) => it >= value);
}

export function createPlot({ spanMs, label, text }) {
  const area = svg('path', { class: 'area' });
  const line = svg('path', { class: 'line' });
  const cursor = svg('path', { class: 'cursor' });
  const grid = svg('path', { class: 'grid', d: `M0 1H${WIDTH}M0 ${HEIGHT / 2}H${WIDTH}M0 ${HEIGHT - 1}H${WIDTH}` });
  const drawing = svg(
    'svg',
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
    grid, area, line, cursor,
  );
  const [top, middle] = [h('span', { class: 'top-label' }), h('span', { class: 'middle-label' })];
  const tip = h('span', { class: 'plot-tip', hidden: true });
  const begin = h('span');
  const node = h(
    'div', { class: 'plot' },
    h('div', { class: 'plot-area' }, drawing, top, middle, tip),
    h('div', { class: 'plot-axis' }, begin, h('span', {}, 'now')),
  );
  let drawn = [];

  drawing.addEventListener('pointermove', (event) => {
    const box = drawing.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * WIDTH;
    const nearest = drawn.reduce((best, it) => (!best || Math.abs(it.x - x) < Math.abs(best.x - x) ? it : best), null);
    if (!nearest) return;
    cursor.setAttribute('d', `M${nearest.x.toFixed(1)} 0V${HEIGHT}`);
    tip.hidden = false;
    tip.style.left = `${Math.min(Math.max((nearest.x / WIDTH) * 100, 8), 92)}%`;
    setText(tip, `${text(nearest.value)}, ${new Date(nearest.at).toLocaleTimeString('sv-SE')}`);
  });
  drawing.addEventListener('pointerleave', () => {
    tip.hidden = true;
    cursor.removeAttribute('d');
  });

  // Draws the points, which end now.
  function update(points, now) {
    const age = points.length > 0 ? now - points[0].at : 0;
    const span = Math.min(Math.max(age, SPAN_MS_MIN), spanMs);
    setText(begin, span < spanMs ? `${Math.round(span / 1_000)} s ago` : `${Math.round(spanMs / 60_000)} min ago`);
    const ceiling = niceCeiling(Math.max(4, ...points.map((it) => it.value)));
    drawn = points.map(({ at, value }) => ({
      at, value,
      x: WIDTH * (1 - Math.max(0, now - at) / span),
      y: HEIGHT - (HEIGHT - 4) * (value / ceiling) - 1,
    })).filter(({ x }) => x >= 0);
    const path = drawn.map(({ x, y }, index) => `${index === 0 ? 'M' : 'L'}${x.toFixed(1)} ${y.toFixed(1)}`).join('');
    line.setAttribute('d', path);
    area.setAttribute('d', drawn.length > 1 ? `${path}L${drawn.at(-1).x.toFixed(1)} ${HEIGHT}L${drawn[0].x.toFixed(1)} ${HEIGHT}Z` : '');
    setText(top, text(ceiling));
    setText(middle, text(ceiling / 2));
  }

  return { node, update };
}
