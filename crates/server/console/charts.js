// Draws charts again where the page has pictures of them: with axes, with the values below the pointer, and a part of them enlarged by
// drawing over it. A click on a column opens what is in it. What the pictures show is in them as data, and beside them in tables.
'use strict';
(() => {
  const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const language = document.documentElement.lang;
  const number = new Intl.NumberFormat(language, {maximumFractionDigits: 2});
  const percent = new Intl.NumberFormat(language, {style: 'percent', maximumFractionDigits: 1});
  const clock = options => new Intl.DateTimeFormat(language, {timeZone: 'UTC', hourCycle: 'h23', ...options});
  const [hour, day, moment] = [clock({hour: '2-digit', minute: '2-digit'}), clock({day: 'numeric', month: 'short'}), clock({dateStyle: 'medium', timeStyle: 'short'})];
  // Columns of a minute need seconds at most when they are enlarged.
  const times = (plot, splits, axis, space, step) => splits.map(at => (step < 86400 && at % 86400 ? hour : day).format(at * 1000));

  // The colour that the page's style gives to a class of the picture.
  const color = (picture, name) => {
    const probe = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
    probe.setAttribute('class', name);
    picture.append(probe);
    const {fill} = getComputedStyle(probe);
    probe.remove();
    return fill;
  };
  const axes = () => ({stroke: style('--dim'), font: '12px system-ui, sans-serif', grid: {stroke: style('--grid'), width: 1}, ticks: {stroke: style('--grid'), width: 1}});

  // Columns upon each other: each series is drawn up to the sum of those below it, the highest first.
  const columns = (picture, {unit, first, width, across, series, marked, open}) => {
    const length = Math.max(0, ...series.map(({counts}) => counts.length));
    const starts = Array.from({length}, (_, index) => first + index * width);
    const sums = series.map((_, top) => starts.map((_, index) => series.slice(0, top + 1).reduce((sum, {counts}) => sum + counts[index], 0)));
    const order = series.map((_, index) => index).reverse();
    const isTime = unit === 'time';
    const from = value => isTime ? `${moment.format(value * 1000)} UTC` : `${number.format(value)} – ${number.format(value + width)}`;
    const bars = uPlot.paths.bars({align: 1, size: [0.85, Infinity]});
    return {
      data: [starts, ...order.map(index => sums[index])],
      options: {
        scales: {x: {time: isTime, range: (plot, low, high) => [low, high + width]}, y: {range: (plot, low, high) => [0, Math.max(high, 1) * 1.02]}},
        series: [
          {label: across, value: (plot, value) => value == null ? '–' : from(value)},
          ...order.map(index => ({
            label: series[index].label, fill: color(picture, series[index].class), width: 0, paths: bars, points: {show: false},
            value: (plot, value, place, at) => at == null ? '–' : number.format(series[index].counts[at]),
          })),
        ],
        axes: [{...axes(), ...(isTime ? {values: times} : {})}, {...axes(), size: 52, values: (plot, splits) => splits.map(split => split % 1 ? '' : number.format(split))}],
        hooks: marked == null ? {} : {
          drawClear: [plot => {
            const [left, right] = [starts[marked], starts[marked] + width].map(value => plot.valToPos(value, 'x', true));
            plot.ctx.fillStyle = style('--grid');
            plot.ctx.fillRect(left, plot.bbox.top, Math.max(right - left, 2), plot.bbox.height);
          }],
        },
      },
      pressed: !open || !isTime ? null : plot => {
        const at = starts.findLastIndex(start => start <= plot.posToVal(plot.cursor.left, 'x'));
        const stamp = seconds => new Date(seconds * 1000).toISOString().replace('.000', '');
        if (at >= 0) location.href = `${open}${open.includes('?') ? '&' : '?'}${new URLSearchParams({from: stamp(starts[at]), to: stamp(starts[at] + width)})}`;
      },
    };
  };

  // A curve of shares, with points on it and the line on which both are equal.
  const shares = (picture, {across, up, curve, dots}) => {
    // Several points may have the same share across. Those of the curve stay in their order.
    const rows = [[0], [1], ...curve.map(([x, y]) => [x, y]), ...dots.map(([x, y]) => [x, undefined, y])].sort(([one], [other]) => one - other);
    const all = rows.map(([x]) => x);
    const value = (plot, share) => share == null ? '–' : percent.format(share);
    const values = (plot, splits) => splits.map(split => percent.format(split));
    return {
      data: [all, rows.map(([, y]) => y), rows.map(([, , y]) => y ?? null), all],
      options: {
        scales: {x: {time: false, range: [0, 1]}, y: {range: [0, 1]}},
        series: [
          {label: across, value},
          {label: up, stroke: style('--bar'), width: 2, spanGaps: true, points: {show: false}, value},
          {stroke: style('--bar-warm'), paths: () => null, points: {show: true, size: 8, fill: style('--bar-warm')}, value},
          {stroke: style('--edge-strong'), dash: [4, 4], points: {show: false}, value},
        ],
        axes: [{...axes(), values}, {...axes(), size: 52, values}],
        legend: {show: true},
      },
      square: true,
    };
  };

  const KINDS = {columns, shares};
  const drawn = new Map();
  const draw = picture => {
    const told = JSON.parse(picture.dataset.plot);
    // Where nothing came there is nothing to look at.
    if (told.series && !told.series.length) return;
    const {data, options, pressed, square} = KINDS[told.kind](picture, told);
    const place = document.createElement('div');
    place.className = 'drawn';
    place.setAttribute('aria-hidden', 'true');
    picture.before(place);
    const size = () => {
      const width = Math.max(place.clientWidth, 120);
      return {width, height: square ? Math.min(width, 320) : picture.matches('.tall') ? 200 : 130};
    };
    const plot = new uPlot({...options, ...size(), cursor: {points: {show: square === true}, drag: {x: true, y: false}}}, data, place);
    // A press that draws over nothing is a click.
    if (pressed) {
      let down = null;
      plot.over.addEventListener('pointerdown', event => { down = event.clientX; });
      plot.over.addEventListener('click', event => { if (down !== null && Math.abs(event.clientX - down) < 4) pressed(plot); });
      plot.over.classList.add('opens');
    }
    const resized = new ResizeObserver(() => { const next = size(); if (next.width !== plot.width) plot.setSize(next); });
    resized.observe(place);
    drawn.set(picture, {plot, place, resized, told: picture.dataset.plot});
  };
  const erase = picture => {
    const {plot, place, resized} = drawn.get(picture);
    resized.disconnect();
    plot.destroy();
    place.remove();
    drawn.delete(picture);
  };
  const all = () => {
    for (const picture of drawn.keys()) if (!picture.isConnected || !drawn.get(picture).place.isConnected || drawn.get(picture).told !== picture.dataset.plot) erase(picture);
    for (const picture of document.querySelectorAll('svg[data-plot]')) if (!drawn.has(picture)) draw(picture);
  };
  all();
  // Other parts of the page have come, or other colours.
  document.addEventListener('parts', all);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { for (const picture of [...drawn.keys()]) erase(picture); all(); });
})();
