'use strict';
const SHOWN_MAX = 200000;
const one = (from, selector) => from.querySelector(selector);
const node = (name, className, text) => {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};
const quoted = (text) => "'" + text.replaceAll("'", "'\\''") + "'";

// The request of a form. Throws an error that names the invalid field.
function request(form) {
  let path = form.dataset.path;
  const query = [], headers = [], body = {};
  for (const field of form.elements) {
    const { in: paramIn, kind } = field.dataset;
    const text = field.value.trim();
    if (!paramIn) continue;
    if (paramIn === 'accept') { if (text) headers.push(['accept', text]); continue; }
    if (!text) continue;
    const list = text.split(/[\s,]+/).filter(Boolean);
    if (paramIn === 'path') path = path.replace('{' + field.name + '}', encodeURIComponent(text));
    else if (paramIn === 'query') query.push(field.name + '=' + (kind === 'list' ? list.map(encodeURIComponent).join(',') : encodeURIComponent(text)));
    else if (kind === 'list') body[field.name] = list;
    else if (kind === 'json') {
      try { body[field.name] = JSON.parse(text); } catch (err) { throw new Error(field.name + ': ' + err.message); }
    } else body[field.name] = text.replace(/\s+/g, '');
  }
  const isPost = form.dataset.verb === 'POST';
  if (isPost) headers.unshift(['content-type', 'application/json']);
  return { verb: form.dataset.verb, path: path + (query.length ? '?' + query.join('&') : ''), headers, body: isPost ? JSON.stringify(body) : undefined };
}

function command({ path, headers, body }) {
  const raw = headers.some(([name]) => name === 'accept') ? ' --output bytes' : '';
  const flags = headers.map(([name, value]) => ' -H ' + quoted(name + ': ' + value)).join('');
  return 'curl ' + quoted(location.origin + path) + flags + (body === undefined ? '' : ' -d ' + quoted(body)) + raw;
}

// JSON with lines and colours. Numbers are copied as text, because JavaScript would round them.
function* pretty(text) {
  let depth = 0, before = '';
  const line = () => '\n' + '  '.repeat(depth);
  for (const [token] of text.matchAll(/"(?:\\.|[^"\\])*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    const opens = token === '{' || token === '[', closes = token === '}' || token === ']';
    const follows = before === '{' || before === '[';
    if (closes) { depth -= 1; if (!follows) yield ['', line()]; } else if (follows || before === ',') yield ['', line()];
    if (opens) depth += 1;
    before = token;
    if (token === ':') yield ['', ': '];
    else if (token[0] === '"') yield ['string', token];
    else if (/^[-\d]/.test(token)) yield ['number', token];
    else yield [/^[tfn]/.test(token) ? 'word' : '', token];
  }
}

function show(pre, text) {
  const parts = [...pretty(text.slice(0, SHOWN_MAX))];
  pre.replaceChildren(...parts.map(([kind, part], at) => {
    if (!kind) return document.createTextNode(part);
    return node('span', kind === 'string' ? (parts[at + 1]?.[1] === ': ' ? 'key' : 'text') : kind, part);
  }));
  if (text.length > SHOWN_MAX) pre.append('\n… ' + (text.length - SHOWN_MAX) + ' more characters');
}

async function send(form) {
  const view = one(form, '.response'), button = one(form, '.send'), error = one(form, '.error');
  let req;
  try { req = request(form); } catch (err) { error.textContent = err.message; return; }
  error.textContent = '';
  button.disabled = true;
  const start = performance.now();
  try {
    const response = await fetch(req.path, { method: req.verb, headers: req.headers, body: req.body });
    const bytes = await response.arrayBuffer();
    const ms = Math.round(performance.now() - start);
    const status = one(view, '.status');
    status.textContent = response.status + ' ' + response.statusText;
    status.className = 'status ' + (response.ok || response.status === 304 ? 'good' : 'bad');
    const slot = response.headers.get('hydrant-slot');
    const at = slot === null ? '' : ', slot ' + slot + ' ' + response.headers.get('hydrant-commitment');
    one(view, '.at').textContent = ' · ' + bytes.byteLength + ' bytes in ' + ms + ' ms' + at;
    one(view, '.headers pre').textContent = [...response.headers].map(([name, value]) => name + ': ' + value).join('\n');
    const pre = one(view, ':scope > pre');
    const type = response.headers.get('content-type') ?? '';
    if (type.startsWith('application/json')) show(pre, new TextDecoder().decode(bytes));
    else if (type.startsWith('text/')) pre.textContent = new TextDecoder().decode(bytes);
    else pre.textContent = [...new Uint8Array(bytes.slice(0, 4096))].map((byte) => byte.toString(16).padStart(2, '0')).join(' ') + (bytes.byteLength > 4096 ? ' …' : '');
    view.hidden = false;
  } catch (err) { error.textContent = String(err); }
  button.disabled = false;
}

async function copy(button, text) {
  // Without TLS, only pages of loopback addresses have a clipboard.
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else { getSelection().selectAllChildren(one(button.parentElement, '.command')); document.execCommand('copy'); }
  button.textContent = 'Copied';
  setTimeout(() => { button.textContent = 'Copy'; }, 1200);
}

// The schema of a response in openapi.json, as a tree whose nodes are built when they are opened.
const resolve = (spec, schema) => {
  const name = schema.$ref?.split('/').pop();
  return name ? { ...spec.components.schemas[name], ...schema, named: name } : schema;
};
function kindOf(spec, schema) {
  const it = resolve(spec, schema);
  if (it.named) return it.named;
  if (it.oneOf) return [...new Set(it.oneOf.map((form) => kindOf(spec, form)))].join(' or ');
  if (it.enum) return it.enum.map((word) => JSON.stringify(word)).join(' | ');
  if (it.prefixItems) return '[' + it.prefixItems.map((item) => kindOf(spec, item)).join(', ') + ']';
  const kinds = [it.type].flat().filter(Boolean).map((kind) => (kind === 'array' && it.items ? 'list of ' + kindOf(spec, it.items) : kind === 'integer' && it.format ? it.format : kind));
  return kinds.join(' or ') || 'anything';
}
function members(spec, schema) {
  const it = resolve(spec, schema), required = it.required ?? [];
  if (it.properties) return Object.entries(it.properties).map(([name, member]) => [name + (required.includes(name) ? '' : '?'), member]);
  if (it.oneOf) {
    const forms = it.oneOf.filter((form) => form.type !== 'null');
    return forms.length === 1 ? members(spec, forms[0]) : forms.filter((form) => members(spec, form).length).map((form) => ['', form]);
  }
  return it.items ? members(spec, it.items) : [];
}
function tree(spec, schema) {
  const list = node('ul', 'tree');
  for (const [name, member] of members(spec, schema)) {
    const item = node('li'), inner = members(spec, member);
    const head = inner.length ? node('summary') : item;
    if (name) head.append(node('b', '', name), ' ');
    head.append(node('i', '', kindOf(spec, member).slice(0, 300)), ' ', node('em', '', resolve(spec, member).description ?? ''));
    if (inner.length) {
      const open = node('details');
      open.append(head);
      open.addEventListener('toggle', () => { if (open.open && !one(open, 'ul')) open.append(tree(spec, member)); });
      item.append(open);
    }
    list.append(item);
  }
  return list;
}

let description;
const openapi = () => (description ??= fetch('{openapi}').then((response) => response.json()));

// When a form is opened, fills its empty required fields with examples that this node can serve.
async function fill(form) {
  const spec = await openapi(), operation = spec.paths[form.dataset.path][form.dataset.verb.toLowerCase()];
  for (const param of operation.parameters) {
    const field = form.elements[param.name];
    if (param.required && param.example !== undefined && !field.value) field.value = [param.example].flat().join('\n');
  }
  const success = Object.entries(operation.responses).find(([status]) => status[0] === '2')[1];
  const schema = Object.values(success.content)[0].schema, intro = node('p');
  const { description, ...shape } = resolve(spec, schema);
  intro.append(node('i', '', shape.type === 'array' ? kindOf(spec, { ...shape, named: undefined, $ref: undefined }) : kindOf(spec, schema)), ' ' + (description ?? ''));
  one(form, '.schema').append(intro, tree(spec, schema));
  showCommand(form);
}

function showCommand(form) {
  const pre = one(form, '.command'), error = one(form, '.error');
  try { pre.textContent = command(request(form)); error.textContent = ''; } catch (err) { error.textContent = err.message; }
}

for (const form of document.forms) {
  const route = form.closest('details');
  form.addEventListener('input', () => showCommand(form));
  form.addEventListener('submit', (event) => { event.preventDefault(); send(form); });
  one(form, '.copy').addEventListener('click', (event) => copy(event.target, one(form, '.command').textContent));
  route.addEventListener('toggle', () => { if (route.open && !route.dataset.filled) { route.dataset.filled = '1'; fill(form); } });
  showCommand(form);
}
const open = () => {
  const route = document.getElementById(location.hash.slice(1));
  if (route?.matches('details')) { route.open = true; route.scrollIntoView(); }
};
addEventListener('hashchange', open);
open();
