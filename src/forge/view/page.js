'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const { boxes, scopes, values } = data;
const $ = id => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';

const ROW_GAP = 34, PORT_GAP = 22, PADDING = 16, HEADER = 26, BOX_GAP = 26, BEND_GAP = 12, BEND_WIDTH = 6, PORT_WIDTH = 8;
const LABEL_HEIGHT = 24, LINE_HEIGHT = 15;
const SMALLEST = 0.0005, LARGEST = 4, READABLE = 0.3, MOST_OPEN = 20000, MOST_HITS = 200, MOST_EDGES = 1500;

const state = {
  root: data.graphs.find(g => g.name === 'main').scope,
  open: new Set(),
  selected: '',
  hits: [], hit: -1, hitBoxes: new Set(), holders: new Set(),
  colour: 'operator',
  x: 0, y: 0, k: 1,
};

/* Elements. Texts of the model become text nodes, never markup. */

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.filter(c => c !== null && c !== undefined));
  return made;
}

function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/* Layout. Rows and order come with the page; opened boxes push the cells of their row apart. */

function spread(wanted, weights, distances) {
  const offsets = [0], pools = [];
  for (const d of distances) offsets.push(offsets[offsets.length - 1] + d);
  wanted.forEach((target, i) => {
    let mean = target - offsets[i], weight = weights[i], count = 1;
    while (pools.length && pools[pools.length - 1][0] > mean) {
      const [m, w, c] = pools.pop();
      mean = (mean * weight + m * w) / (weight + w);
      weight += w;
      count += c;
    }
    pools.push([mean, weight, count]);
  });
  return pools.flatMap(([mean, , count]) => Array(count).fill(mean)).map((m, i) => m + offsets[i]);
}

/** A cell with its size; `near` and `far` are how far it reaches to the left and right of where its edges meet it. */
function measured([kind, ref, x], path) {
  const half = (kind === '.' ? BEND_WIDTH : PORT_WIDTH) / 2;
  if (kind !== 'b') return { kind, ref, x, near: half, far: half, h: 0 };
  const box = boxes[ref], own = path ? `${path}/${ref}` : `${ref}`;
  if (box.inside === undefined || !state.open.has(own)) return { kind, ref, x, path: own, near: box.w / 2, far: box.w / 2, h: box.h };
  const inner = layout(box.inside, own), w = Math.max(inner.w + 2 * PADDING, box.w);
  const near = inner.meeting + (w - inner.w) / 2;
  return { kind, ref, x, path: own, inner, near, far: w - near, h: inner.h + HEADER + PADDING };
}

function layout(scope, path) {
  const cells = [], rows = [];
  let y = 0, left = Infinity, right = -Infinity;
  for (const given of scopes[scope].rows) {
    const row = given.map(cell => measured(cell, path));
    const isPorts = row.length > 0 && row.every(cell => cell.kind === 'i' || cell.kind === 'o');
    if (isPorts && row[0].kind === 'o') y -= ROW_GAP - PORT_GAP;
    const distances = row.slice(1).map((cell, i) =>
      row[i].far + cell.near + (row[i].kind === '.' || cell.kind === '.' ? BEND_GAP : BOX_GAP));
    const weights = row.map(cell => (cell.inner ? 20 : cell.kind === 'b' ? 2 : 1));
    const height = Math.max(0, ...row.map(cell => cell.h));
    spread(row.map(cell => cell.x), weights, distances).forEach((x, i) => Object.assign(row[i], { x, y: y + height / 2 }));
    for (const cell of row) {
      left = Math.min(left, cell.x - cell.near);
      right = Math.max(right, cell.x + cell.far);
      cells.push(cell);
      cell.row = rows.length;
    }
    rows.push({ top: y, bottom: y + height });
    y += height + (isPorts && row[0].kind === 'i' ? PORT_GAP : ROW_GAP);
  }
  if (left > right) left = right = 0;
  for (const cell of cells) cell.x -= left;
  const ports = cells.filter(cell => cell.kind === 'i' || cell.kind === 'o');
  const meeting = ports.length ? ports.reduce((sum, port) => sum + port.x, 0) / ports.length : (right - left) / 2;
  return { scope, cells, rows, meeting, ports: new Map(ports.map(c => [c.kind + c.ref, c.x])), w: right - left,
           h: Math.max(0, y - (y ? ROW_GAP : 0)) };
}

/** Where the edge of a value meets a box, along x: at the port of an opened group, else where all edges meet the box. */
function meeting(cell, kind, value) {
  const port = cell.inner?.ports.get(kind + value);
  return port === undefined ? cell.x : cell.x + port - cell.inner.meeting;
}

function edgePath(placed, dx, dy, upper, lower, bends, upperX, lowerX) {
  const { rows } = placed;
  const at = (x, y) => `${(x + dx).toFixed(1)},${(y + dy).toFixed(1)}`;
  const start = upper.kind === 'i' ? -HEADER : upper.y + upper.h / 2;
  const end = lower.kind === 'o' ? placed.h + PADDING : lower.y - lower.h / 2;
  let x = upperX, y = rows[upper.row].bottom, text = `M${at(x, start)}`;
  if (y > start) text += `V${(y + dy).toFixed(1)}`;
  const curve = (x2, y2) => {
    const middle = (y + y2) / 2;
    text += Math.abs(x - x2) < 0.5 ? `L${at(x2, y2)}` : `C${at(x, middle)} ${at(x2, middle)} ${at(x2, y2)}`;
    [x, y] = [x2, y2];
  };
  for (const bend of bends) {
    curve(bend.x, rows[bend.row].top);
    if (rows[bend.row].bottom > y) { y = rows[bend.row].bottom; text += `V${(y + dy).toFixed(1)}`; }
  }
  curve(lowerX, rows[lower.row].top);
  if (end > y + 0.5) text += `V${(end + dy).toFixed(1)}`;
  return { text, top: start + dy, bottom: end + dy };
}

/** All that is seen, with absolute positions: frames of opened boxes, boxes, and edges. */
let drawing = { frames: [], boxes: [], edges: [], at: new Map(), w: 0, h: 0 };

function arrange() {
  const placed = layout(state.root, '');
  drawing = { frames: [], boxes: [], edges: [], at: new Map(), w: placed.w, h: placed.h };
  flatten(placed, 0, 0);
}

function flatten(placed, dx, dy) {
  for (const cell of placed.cells) {
    if (cell.kind !== 'b') continue;
    const item = { path: cell.path, ref: cell.ref, x: cell.x + dx - cell.near, y: cell.y + dy - cell.h / 2,
                   w: cell.near + cell.far, h: cell.h,
                   opened: Boolean(cell.inner), row: cell.row, scope: placed };
    drawing.at.set(cell.path, item);
    if (!cell.inner) { drawing.boxes.push(item); continue; }
    drawing.frames.push(item);
    flatten(cell.inner, item.x + (item.w - cell.inner.w) / 2, item.y + HEADER);
  }
  for (const [from, to, chain, carried, reversed] of scopes[placed.scope].edges) {
    const source = placed.cells[from], target = placed.cells[to], seen = new Set();
    const [upper, lower] = reversed ? [target, source] : [source, target];
    for (const value of carried) {
      const upperX = meeting(upper, reversed ? 'i' : 'o', value), lowerX = meeting(lower, reversed ? 'o' : 'i', value);
      const key = `${upperX.toFixed(1)} ${lowerX.toFixed(1)}`;
      if (seen.has(key)) continue;
      seen.add(key);
      const bends = chain.map(c => placed.cells[c]);
      const path = edgePath(placed, dx, dy, upper, lower, bends, upperX, lowerX);
      const xs = [upperX, lowerX, ...bends.map(b => b.x)];
      const plain = target.kind === 'o' || Boolean(target.inner?.ports.has(`i${value}`));
      drawing.edges.push({ ...path, number: drawing.edges.length, left: Math.min(...xs) + dx, right: Math.max(...xs) + dx, values: carried, plain, reversed,
                           ends: [source.path, target.path] });
    }
  }
}

/* Drawing: only what is in sight, and without texts where they could not be read. */

const drawn = new Map();
let detailed = true, frameAsked = false;

function isSeen(left, top, right, bottom) {
  const { width, height } = viewport(), margin = 200 / state.k;
  const x = -state.x / state.k, y = -state.y / state.k;
  return right >= x - margin && left <= x + width / state.k + margin && bottom >= y - margin && top <= y + height / state.k + margin;
}

let size = null;
function viewport() {
  size ??= $('canvas').getBoundingClientRect();
  return size;
}
addEventListener('resize', () => { size = null; redraw(); });

function redraw() {
  if (frameAsked) return;
  frameAsked = true;
  requestAnimationFrame(() => { frameAsked = false; draw(); });
}

function draw() {
  $('view').setAttribute('transform', `translate(${state.x},${state.y}) scale(${state.k})`);
  $('scale').textContent = state.k < 0.1 ? `${(100 * state.k).toFixed(1)}%` : `${Math.round(100 * state.k)}%`;
  const close = state.k >= READABLE;
  if (close !== detailed) { detailed = close; clearDrawn(); }
  const wanted = new Map();
  for (const item of drawing.frames)
    if (isSeen(item.x, item.y, item.x + item.w, item.y + item.h)) wanted.set(`f${item.path}`, item);
  for (const item of drawing.boxes)
    if (isSeen(item.x, item.y, item.x + item.w, item.y + item.h)) wanted.set(`b${item.path}`, item);
  if (detailed) for (const edge of seenEdges()) wanted.set(`e${edge.number}`, edge);
  else if (drawing.edges.length) wanted.set('all', null);
  for (const [key, { made }] of drawn) if (!wanted.has(key)) { made.remove(); drawn.delete(key); }
  const added = { f: [], b: [], e: [], a: [] };
  for (const [key, item] of wanted) if (!drawn.has(key)) {
    const made = makers[key[0]](item);
    drawn.set(key, { made, item });
    added[key[0]].push(made);
  }
  $('groups').append(...added.f);
  $('boxes').append(...added.b);
  $('edges').append(...added.e, ...added.a);
  drawMap();
}

/** Edges in sight; where they are too many to be told apart, those that lead to or from boxes in sight, the shortest first. */
function seenEdges() {
  const seen = drawing.edges.filter(edge => isSeen(edge.left, edge.top, edge.right, edge.bottom));
  if (seen.length <= MOST_EDGES) return seen;
  const isAt = path => {
    const item = drawing.at.get(path);
    return item && isSeen(item.x, item.y, item.x + item.w, item.y + item.h);
  };
  const reach = edge => edge.right - edge.left + edge.bottom - edge.top;
  return seen.filter(edge => edge.ends.some(isAt)).sort((a, b) => reach(a) - reach(b)).slice(0, MOST_EDGES);
}

function clearDrawn() {
  drawn.clear();
  for (const id of ['groups', 'edges', 'boxes']) $(id).replaceChildren();
}

function refresh() {
  clearDrawn();
  draw();
}

function allEdges() {
  return shape('path', { class: 'edge plain', d: drawing.edges.map(e => e.text).join(''),
                         style: `stroke-width:${Math.min(12, 0.7 / state.k)}` });
}

const makers = { f: frame, b: boxShape, e: edgeShape, a: allEdges };
const classes = {
  f: item => `group${marks(item)}`,
  b: item => `box ${boxes[item.ref].kind}${marks(item)}`,
  e: edge => {
    const lit = state.selected && edge.ends.includes(state.selected);
    return `edge${edge.plain ? ' plain' : ''}${edge.reversed ? ' up' : ''}${lit ? ' lit' : ''}`;
  },
  a: () => 'edge plain',
};

/** Shows what is selected and found on what is drawn. */
function remark() {
  for (const [key, { made, item }] of drawn) made.setAttribute('class', classes[key[0]](item));
}

function edgeShape(edge) {
  const made = shape('path', { d: edge.text, class: classes.e(edge) });
  const [first, ...others] = edge.values.map(v => values[v]);
  if (first) made.append(shape('title', {}, `${first.name} ${first.type}${others.length ? ` and ${others.length} more` : ''}`));
  return made;
}

function marks(item) {
  const selected = item.path === state.selected ? ' selected' : '';
  const hit = state.hitBoxes.has(item.ref) ? ' hit' : state.holders.has(item.ref) && !item.opened ? ' holds-hit' : '';
  return selected + hit;
}

function frame(item) {
  const box = boxes[item.ref];
  const made = shape('g', { class: classes.f(item), transform: `translate(${item.x},${item.y})`, 'data-path': item.path });
  made.append(shape('rect', { class: 'frame', width: item.w, height: item.h, rx: 10 }));
  if (!detailed) return made;
  made.append(shape('text', { class: 'label', x: 30, y: 18 }, box.label), sign(15, 13, '−'));
  return made;
}

function sign(x, y, kind) {
  const made = shape('g', { class: 'toggle', 'data-toggle': '1', transform: `translate(${x},${y})` });
  made.append(shape('circle', { class: 'badge', r: 7 }), shape('path', { class: 'sign', d: kind === '+' ? 'M-3.5,0H3.5M0,-3.5V3.5' : 'M-3.5,0H3.5' }));
  return made;
}

function boxShape(item) {
  const box = boxes[item.ref], { w, h } = item, name = box.name || box.label;
  const made = shape('g', { class: classes.b(item), transform: `translate(${item.x},${item.y})`, 'data-path': item.path,
                            role: 'img', 'aria-label': `${box.op ?? box.kind} ${name}` });
  const fill = fillOf(box), round = box.kind === 'input' || box.kind === 'output' ? 12 : 6;
  if (box.inside !== undefined) made.append(shape('rect', { class: 'stack', x: 4, y: 4, width: w, height: h, rx: round }));
  made.append(shape('rect', { class: 'body', width: w, height: h, rx: round }));
  if (fill) {
    const cut = box.lines.length ? LABEL_HEIGHT : h;
    const d = `M0,${cut}V${round}a${round},${round} 0 0 1 ${round},-${round}H${w - round}a${round},${round} 0 0 1 ${round},${round}V${cut}`;
    made.append(box.lines.length ? shape('path', { d: `${d}z`, style: `fill:${fill}` })
                                 : shape('rect', { width: w, height: h, rx: round, style: `fill:${fill}` }));
  }
  if (!detailed) return made;
  const label = shape('text', { class: fill ? 'label white' : 'label', x: 10, y: 17 }, box.label);
  made.append(label);
  box.lines.forEach((line, i) => {
    const y = LABEL_HEIGHT + 14 + i * LINE_HEIGHT;
    made.append(shape('text', { class: line.startsWith('→') ? 'line out' : 'line', x: 10, y }, line));
  });
  if (box.inside !== undefined) made.append(sign(w - 14, 12, '+'));
  made.append(shape('title', {}, box.name ? `${box.op ?? box.kind} ${box.name}` : box.label));
  return made;
}

/* Colours. */

const largest = {};
function amount(box, what) {
  const cost = box.cost;
  if (!cost) return 0;
  return what === 'flops' ? cost.flopsAtOne : what === 'traffic' ? cost.bytesAtOne : cost.parameterBytes;
}
for (const what of ['flops', 'traffic', 'parameters'])
  largest[what] = boxes.reduce((most, box) => (box.kind === 'node' ? Math.max(most, amount(box, what)) : most), 0);

function fillOf(box) {
  if (state.colour === 'operator') return box.category ? data.categories[box.category].color : '';
  if (box.kind !== 'node' && box.kind !== 'group') return '';
  const share = largest[state.colour] ? Math.min(1, amount(box, state.colour) / largest[state.colour]) : 0;
  return `color-mix(in oklab, var(--hot) ${(100 * Math.sqrt(share)).toFixed(0)}%, var(--cold))`;
}

function drawLegend() {
  const legend = $('legend');
  if (state.colour === 'operator') {
    const used = new Set(boxes.map(box => box.category));
    legend.replaceChildren(...Object.entries(data.categories).filter(([key]) => used.has(key)).map(([, { label, color }]) =>
      element('div', {}, element('i', { style: `background:${color}` }), label)),
      element('div', {}, element('i', { style: 'border:1px solid var(--edge);border-radius:7px' }), 'input, output'),
      element('div', {}, element('i', { style: 'border:1px solid var(--edge);box-shadow:2px 2px 0 var(--edge)' }), 'group: double click opens'));
    return;
  }
  const name = { flops: 'FLOPs', traffic: 'bytes moved', parameters: 'bytes of weights' }[state.colour];
  const most = state.colour === 'flops' ? count(largest.flops) : bytes(largest[state.colour]);
  legend.replaceChildren(element('b', {}, name), element('div', { class: 'scale' }),
    element('div', { style: 'justify-content:space-between' }, element('span', {}, '0'), element('span', {}, most)),
    element('small', {}, 'of one node, by square root; symbolic sizes count as 1'));
}

/* The small map. */

function mapScale() {
  const { width, height } = $('map');
  return Math.min((width - 16) / (drawing.w || 1), (height - 16) / (drawing.h || 1));
}

function drawMap() {
  const map = $('map'), pen = map.getContext('2d'), k = mapScale(), style = getComputedStyle(map);
  const left = (map.width - k * drawing.w) / 2, top = (map.height - k * drawing.h) / 2;
  pen.clearRect(0, 0, map.width, map.height);
  pen.fillStyle = style.color;
  pen.globalAlpha = 0.12;
  for (const f of drawing.frames) pen.fillRect(left + f.x * k, top + f.y * k, Math.max(1, f.w * k), Math.max(1, f.h * k));
  pen.globalAlpha = 0.45;
  for (const b of drawing.boxes) pen.fillRect(left + b.x * k, top + b.y * k, Math.max(1, b.w * k), Math.max(1, b.h * k));
  pen.globalAlpha = 1;
  pen.strokeStyle = '#e8590c';
  pen.lineWidth = 2;
  const { width, height } = viewport();
  pen.strokeRect(left - state.x / state.k * k, top - state.y / state.k * k, width / state.k * k, height / state.k * k);
}

function mapMove(event) {
  if (!event.buttons) return;
  const map = $('map'), area = map.getBoundingClientRect(), k = mapScale();
  const x = ((event.clientX - area.left) * map.width / area.width - (map.width - k * drawing.w) / 2) / k;
  const y = ((event.clientY - area.top) * map.height / area.height - (map.height - k * drawing.h) / 2) / k;
  moveTo(x, y, state.k);
}

/* Zooming and moving. */

function zoomBy(factor, x = viewport().width / 2, y = viewport().height / 2) {
  const k = Math.min(LARGEST, Math.max(SMALLEST, state.k * factor));
  state.x = x - (x - state.x) * k / state.k;
  state.y = y - (y - state.y) * k / state.k;
  state.k = k;
  redraw();
}

function moveTo(x, y, k) {
  const { width, height } = viewport();
  Object.assign(state, { k, x: width / 2 - x * k, y: height / 2 - y * k });
  redraw();
}

function fit() {
  const { width, height } = viewport();
  const k = Math.min(1, Math.max(SMALLEST, Math.min((width - 60) / (drawing.w || 1), (height - 60) / (drawing.h || 1))));
  moveTo(drawing.w / 2, drawing.h / 2, k);
}

/** The whole picture where its texts can be read then, else its beginning. */
function firstSight() {
  fit();
  const readable = 0.62;
  if (state.k >= readable) return;
  const { width, height } = viewport();
  const k = Math.max(readable, Math.min(0.9, (width - 80) / drawing.w));
  const upper = drawing.boxes.filter(item => item.y < 0.6 * height / k);
  moveTo(upper.reduce((sum, item) => sum + item.x + item.w / 2, 0) / upper.length, (height / 2 - 24) / k, k);
}

function bring(path) {
  const item = drawing.at.get(path);
  if (!item) return;
  const k = Math.max(state.k, 0.8), { width, height } = viewport();
  const tall = item.h * k > height - 80 || item.w * k > width - 80;
  moveTo(item.x + item.w / 2, tall ? item.y + (height / 2 - 40) / k : item.y + item.h / 2, k);
}

/* Opening, closing, selecting. */

function relayout(anchor) {
  const before = anchor && drawing.at.get(anchor);
  arrange();
  const after = anchor && drawing.at.get(anchor);
  if (before && after) {
    state.x += (before.x + before.w / 2 - after.x - after.w / 2) * state.k;
    state.y += (before.y - after.y) * state.k;
  }
  refresh();
}

function last(path) {
  return boxes[+path.slice(path.lastIndexOf('/') + 1)];
}

function toggle(path) {
  if (last(path).inside === undefined) return;
  if (state.open.has(path)) state.open.delete(path); else state.open.add(path);
  relayout(path);
}

/** Opens every group and function, outer ones first, while few enough boxes are seen. */
function openAll() {
  let level = scopes[state.root].rows.flat().filter(c => c[0] === 'b').map(c => `${c[1]}`), seen = level.length;
  while (level.length) {
    const following = [];
    for (const path of level) {
      const inside = last(path).inside;
      if (inside === undefined) continue;
      const members = scopes[inside].rows.flat().filter(c => c[0] === 'b');
      if (seen + members.length > MOST_OPEN) continue;
      seen += members.length;
      state.open.add(path);
      following.push(...members.map(c => `${path}/${c[1]}`));
    }
    level = following;
  }
  relayout();
  fit();
}

function closeAll() {
  state.open.clear();
  relayout();
  firstSight();
}

function select(path) {
  state.selected = path;
  remark();
  showPanel();
}

/** The path of a box from the graph that is shown, or from the graph that it is in. */
function pathTo(number) {
  const path = [number];
  let scope = boxes[number].scope;
  for (let turns = 0; turns < 1000 && scope !== state.root && scopes[scope].owner !== null; turns++) {
    path.unshift(scopes[scope].owner);
    scope = boxes[scopes[scope].owner].scope;
  }
  return [scope, path];
}

function reveal(number) {
  const [scope, path] = pathTo(number);
  if (scope !== state.root) showGraph(scope);
  let changed = false, outer = '';
  for (const box of path.slice(0, -1)) {
    outer = outer ? `${outer}/${box}` : `${box}`;
    if (!state.open.has(outer)) { state.open.add(outer); changed = true; }
  }
  if (changed) { arrange(); refresh(); }
  const own = path.join('/');
  select(own);
  bring(own);
}

function showGraph(scope) {
  state.root = scope;
  state.selected = '';
  state.open = new Set(data.open[scope]);
  const graph = data.graphs.findIndex(g => g.scope === scope);
  $('graph').selectedIndex = graph;
  arrange();
  refresh();
  firstSight();
  showPanel();
}

/* Search. */

const haystack = boxes.map(box => ({
  name: [box.name, box.label, box.place].filter(Boolean).join(' ').toLowerCase(),
  op: (box.op ?? (box.kind === 'node' ? '' : box.kind)).toLowerCase(),
  attr: (box.attributes ?? []).map(a => `${a.name}=${a.text}`).join(' ').toLowerCase(),
  type: [...(box.operands ?? []), ...(box.results ?? [])].map(v => v.type).concat(box.lines).join(' ').toLowerCase(),
  values: [...(box.operands ?? []), ...(box.results ?? [])].map(v => v.name).join(' ').toLowerCase(),
}));

function find(query) {
  const terms = query.toLowerCase().split(/\s+/).filter(Boolean).map(term => {
    const [, field, text] = /^(name|op|attr|type):(.*)$/.exec(term) ?? [null, null, term];
    return { field, text };
  });
  const fits = (hay, { field, text }) => (field ? hay[field].includes(text) : Object.values(hay).some(part => part.includes(text)));
  return terms.length ? boxes.flatMap((_, i) => (terms.every(term => fits(haystack[i], term)) ? [i] : [])) : [];
}

function search() {
  const query = $('search').value.trim();
  state.hits = find(query);
  state.hit = -1;
  state.hitBoxes = new Set(state.hits);
  state.holders = new Set();
  for (const number of state.hits)
    for (let owner = scopes[boxes[number].scope].owner; owner !== null && !state.holders.has(owner); owner = scopes[boxes[owner].scope].owner)
      state.holders.add(owner);
  $('canvas').classList.toggle('searching', query !== '');
  $('count').textContent = query ? `${state.hits.length} found` : '';
  $('hits').hidden = !state.hits.length;
  $('hits').replaceChildren(...state.hits.slice(0, MOST_HITS).map((number, i) => {
    const box = boxes[number];
    return element('li', {}, element('button', { onclick: () => goTo(i), tabindex: -1 },
      element('b', {}, box.op ?? (box.kind === 'group' ? box.label : box.kind)),
      element('span', {}, box.name || box.place || box.results?.[0]?.name || '')));
  }));
  remark();
}

function goTo(index) {
  if (!state.hits.length) return;
  state.hit = (index + state.hits.length) % state.hits.length;
  reveal(state.hits[state.hit]);
  $('count').textContent = `${state.hit + 1} of ${state.hits.length}`;
  [...$('hits').querySelectorAll('button')].forEach((button, i) => button.classList.toggle('current', i === state.hit));
  $('hits').hidden = true;
}

/* The panel. */

function scaled(value, units, base) {
  let k = 0;
  while (value >= base && k < units.length - 1) { value /= base; k++; }
  return `${k && value < 100 ? value.toPrecision(3) : Math.round(value)} ${units[k]}`.trim();
}
const count = value => (typeof value === 'number' ? scaled(value, ['', 'k', 'M', 'G', 'T', 'P'], 1000) : value ?? 'unknown');
const bytes = value => (typeof value === 'number' ? scaled(value, ['B', 'KiB', 'MiB', 'GiB', 'TiB'], 1024) : value ?? 'unknown');
const exact = value => (typeof value === 'number' ? value.toLocaleString('en') : undefined);

const heading = text => element('h3', {}, text);
const rowsOf = (rows, kind = '') => element('table', { class: kind }, ...rows.map(cells => element('tr', {}, ...cells)));
const cell = (text, attributes = {}) => element('td', attributes, text);
const link = number => element('button', { class: 'link', onclick: () => reveal(number) }, titleOf(boxes[number]));
const titleOf = box => (box.kind === 'node' ? `${box.label}${box.name ? ` ${box.name}` : ''}` : `${box.kind} ${box.name ?? box.label}`);

function costTable(cost, isWhole = false) {
  const rows = [['FLOPs', count(cost.flops), exact(cost.flops)], ['bytes read and written', bytes(cost.bytes), exact(cost.bytes)]];
  if (cost.parameters) rows.push(['weights', count(cost.parameters), exact(cost.parameters)], ['bytes of weights', bytes(cost.parameterBytes), exact(cost.parameterBytes)]);
  if (typeof cost.flops === 'number' && cost.flops && cost.bytes) rows.push(['FLOPs per byte', (cost.flops / cost.bytes).toPrecision(3)]);
  const whole = data.graphs.find(g => g.scope === state.root)?.cost.flopsAtOne;
  if (whole && !isWhole && typeof cost.flops === 'number' && cost.flops) rows.push(['share of FLOPs', `${(100 * cost.flopsAtOne / whole).toPrecision(3)}%`]);
  return rowsOf(rows.map(([name, text, title]) => [cell(name), cell(String(text).replaceAll('*', '·\u200b'), { class: String(text).length > 16 ? 'long' : 'n', title })]), 'numbers');
}

function valueEntry(value, formal) {
  const ends = value.to ?? (value.from === null || value.from === undefined ? [] : [value.from]);
  const links = ends.slice(0, 30).flatMap((number, i) => (i ? [', ', link(number)] : [link(number)]));
  if (ends.length > 30) links.push(` and ${ends.length - 30} more`);
  return element('div', { class: 'value' },
    element('b', {}, formal ?? ''), formal && value.name ? ` ${value.name}` : value.name ?? '',
    element('div', {}, element('code', {}, value.type)),
    value.constant === undefined ? null : element('div', {}, element('code', {}, value.constant)),
    element('small', {}, bytes(value.bytes), value.constant === undefined ? '' : ' constant'),
    links.length ? element('div', {}, value.to ? 'to ' : 'from ', ...links) : null);
}

function operatorTable(operators) {
  return rowsOf(operators.slice(0, 40).map(([name, number]) =>
    [element('td', {}, element('button', { class: 'link', onclick: () => { $('search').value = `op:${name}`; search(); } }, name)), cell(String(number), { class: 'n' })]), 'numbers');
}

function crumbs(path) {
  const parts = path.split('/'), made = [];
  parts.slice(0, -1).forEach((_, i) => {
    const outer = parts.slice(0, i + 1).join('/');
    made.push(element('button', { class: 'link', onclick: () => { select(outer); bring(outer); } }, last(outer).label), ' › ');
  });
  return made.length ? element('div', { class: 'crumbs' }, ...made) : null;
}

function showPanel() {
  const panel = $('panel');
  panel.scrollTop = 0;
  if (!state.selected) return panel.replaceChildren(...modelPanel());
  const box = last(state.selected);
  const dot = box.category ? element('i', { style: `background:${data.categories[box.category].color}` }) : null;
  const parts = [crumbs(state.selected), element('h2', {}, dot, box.op ?? box.label)];
  if (box.name && box.name !== box.label) parts.push(element('div', { class: 'name' }, box.name));
  if (box.place && box.place !== box.name) parts.push(element('div', { class: 'name' }, box.place));
  if (box.kind === 'group') parts.push(element('div', { class: 'name' }, `${box.nodes} nodes`));
  if (data.docs[box.op]) parts.push(element('p', { class: 'doc' }, ...data.docs[box.op].split('``').map((text, i) => (i % 2 ? element('code', {}, text) : text))));
  if (box.attributes?.length) parts.push(heading('Attributes'), rowsOf(box.attributes.map(a =>
    [cell(a.name), element('td', { class: a.default ? 'default' : '', title: a.default ? 'the default' : undefined }, element('code', {}, a.text))])));
  if (box.operands?.length) parts.push(heading(box.kind === 'output' ? 'Value' : 'Inputs'), ...box.operands.map(v => valueEntry(v, v.formal)));
  if (box.results?.length) parts.push(heading(box.kind === 'input' ? 'Value' : 'Outputs'), ...box.results.map(v => valueEntry(v)));
  if (box.cost) parts.push(heading('Cost'), costTable(box.cost));
  if (box.operators) parts.push(heading('Operators'), operatorTable(box.operators));
  return panel.replaceChildren(...parts.filter(Boolean));
}

function modelPanel() {
  const graph = data.graphs.find(g => g.scope === state.root);
  const ends = kind => scopes[state.root].rows.flat().filter(c => c[0] === 'b' && boxes[c[1]].kind === kind).map(c => boxes[c[1]]);
  const parts = [element('h2', {}, graph.name === 'main' ? data.name : `@${graph.name}`), element('div', { class: 'name' }, `${graph.nodes} nodes`)];
  parts.push(heading('Inputs'), ...ends('input').map(b => valueEntry(b.results[0])));
  parts.push(heading('Outputs'), ...ends('output').map(b => valueEntry(b.operands[0])));
  parts.push(heading('Cost'), costTable(graph.cost, true), heading('Operators'), operatorTable(graph.operators));
  return parts;
}

/* Events. */

const canvas = $('canvas');
const pathOf = event => event.target.closest('[data-path]')?.dataset.path ?? '';
let drag = null;

canvas.addEventListener('wheel', event => {
  event.preventDefault();
  const { left, top } = viewport(), step = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
  zoomBy(Math.exp(-Math.max(-240, Math.min(240, event.deltaY * step)) * (event.ctrlKey ? 0.01 : 0.0018)), event.clientX - left, event.clientY - top);
}, { passive: false });

canvas.addEventListener('pointerdown', event => {
  if (event.button) return;
  drag = { x: event.clientX, y: event.clientY, path: pathOf(event), toggles: Boolean(event.target.closest('[data-toggle]')), moved: false };
  canvas.focus({ preventScroll: true });
});
addEventListener('pointermove', event => {
  if (!drag) return;
  const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
  if (!drag.moved && Math.hypot(dx, dy) < 4) return;
  drag.moved = true;
  canvas.classList.add('dragging');
  Object.assign(drag, { x: event.clientX, y: event.clientY });
  state.x += dx;
  state.y += dy;
  redraw();
});
addEventListener('pointerup', () => {
  canvas.classList.remove('dragging');
  const ended = drag;
  drag = null;
  if (!ended || ended.moved) return;
  $('hits').hidden = true;
  if (ended.toggles) toggle(ended.path);
  else if (ended.path !== state.selected) select(ended.path);
});
addEventListener('pointercancel', () => { drag = null; });
canvas.addEventListener('dblclick', event => {
  const item = [...drawing.frames, ...drawing.boxes].find(i => i.path === state.selected);
  if (item && !event.target.closest('[data-toggle]')) toggle(item.path);
});

$('map').addEventListener('pointerdown', mapMove);
$('map').addEventListener('pointermove', mapMove);
$('zoom-in').addEventListener('click', () => zoomBy(1.3));
$('zoom-out').addEventListener('click', () => zoomBy(1 / 1.3));
$('fit').addEventListener('click', fit);
$('expand').addEventListener('click', openAll);
$('collapse').addEventListener('click', closeAll);
$('theme').addEventListener('click', turnTheme);
$('help-button').addEventListener('click', () => $('help').showModal());
$('colour').addEventListener('change', event => { state.colour = event.target.value; drawLegend(); refresh(); });
$('graph').addEventListener('change', event => showGraph(data.graphs[event.target.selectedIndex].scope));

let searchTimer = 0;
$('search').addEventListener('input', () => { clearTimeout(searchTimer); searchTimer = setTimeout(search, 100); });
$('search').addEventListener('keydown', event => {
  if (event.key === 'Enter') { clearTimeout(searchTimer); if (!state.hits.length) search(); goTo(state.hit + (event.shiftKey ? -1 : 1)); }
  else if (event.key === 'ArrowDown') goTo(state.hit + 1);
  else if (event.key === 'ArrowUp') goTo(state.hit - 1);
  else if (event.key === 'Escape') { $('search').value = ''; search(); canvas.focus(); }
  else return;
  event.preventDefault();
});
$('search').addEventListener('focus', () => { $('hits').hidden = !state.hits.length; });

function turnTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = dark ? 'light' : 'dark';
  redraw();
}

function neighbour(key) {
  const item = drawing.at.get(state.selected);
  if (!item) return '';
  if (key === 'ArrowLeft' || key === 'ArrowRight') {
    const row = item.scope.cells.filter(c => c.kind === 'b' && c.row === item.row);
    return row[row.findIndex(c => c.path === item.path) + (key === 'ArrowLeft' ? -1 : 1)]?.path ?? '';
  }
  const [here, there] = key === 'ArrowDown' ? [0, 1] : [1, 0];
  return drawing.edges.find(e => e.ends[here] === item.path && e.ends[there])?.ends[there] ?? '';
}

function arrow(event) {
  const step = { ArrowLeft: [80, 0], ArrowRight: [-80, 0], ArrowUp: [0, 80], ArrowDown: [0, -80] }[event.key];
  if (state.selected && !event.shiftKey) {
    const next = neighbour(event.key);
    if (next) { select(next); bring(next); }
    return;
  }
  state.x += step[0];
  state.y += step[1];
  redraw();
}

const keys = {
  '/': () => { $('search').focus(); $('search').select(); },
  '+': () => zoomBy(1.3), '=': () => zoomBy(1.3), '-': () => zoomBy(1 / 1.3), 0: fit,
  f: () => bring(state.selected), e: openAll, c: closeAll, d: turnTheme, '?': () => $('help').showModal(),
  Enter: () => state.selected && toggle(state.selected), ' ': () => state.selected && toggle(state.selected),
  Escape: () => select(''),
  ArrowLeft: arrow, ArrowRight: arrow, ArrowUp: arrow, ArrowDown: arrow,
};
addEventListener('keydown', event => {
  if (event.target.closest('input, select, dialog, button') || event.ctrlKey || event.metaKey || event.altKey) return;
  const action = keys[event.key] ?? keys[event.key.toLowerCase()];
  if (!action) return;
  event.preventDefault();
  action(event);
});

$('title').textContent = data.name;
$('graph').replaceChildren(...data.graphs.map(g => element('option', {}, g.name === 'main' ? 'main' : `@${g.name}`)));
$('graph').hidden = data.graphs.length < 2;
drawLegend();
showGraph(state.root);
