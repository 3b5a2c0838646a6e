'use strict';
const SHOWN_MAX = 200000;
const one = (from, what) => from.querySelector(what);
const node = (name, told, text) => {
  const made = document.createElement(name);
  if (told) made.className = told;
  if (text !== undefined) made.textContent = text;
  return made;
};
const quoted = (text) => "'" + text.replaceAll("'", "'\\''") + "'";

// What a form asks for; an error tells which field is wrong.
function request(form) {
  let path = form.dataset.path;
  const query = [], headers = [], body = {};
  for (const field of form.elements) {
    const { place, kind } = field.dataset;
    const text = field.value.trim();
    if (!place) continue;
    if (place === 'accept') { if (text) headers.push(['accept', text]); continue; }
    if (!text) continue;
    const list = text.split(/[\s,]+/).filter(Boolean);
    if (place === 'path') path = path.replace('{' + field.name + '}', encodeURIComponent(text));
    else if (place === 'query') query.push(field.name + '=' + (kind === 'list' ? list.map(encodeURIComponent).join(',') : encodeURIComponent(text)));
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
  const told = headers.map(([name, value]) => ' -H ' + quoted(name + ': ' + value)).join('');
  return 'curl ' + quoted(location.origin + path) + told + (body === undefined ? '' : ' -d ' + quoted(body)) + raw;
}

// JSON with lines and colours, its numbers digit by digit: JavaScript's would be rounded.
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
  const answer = one(form, '.answer'), button = one(form, '.send'), wrong = one(form, '.wrong');
  let asked;
  try { asked = request(form); } catch (err) { wrong.textContent = err.message; return; }
  wrong.textContent = '';
  button.disabled = true;
  const began = performance.now();
  try {
    const got = await fetch(asked.path, { method: asked.verb, headers: asked.headers, body: asked.body });
    const bytes = await got.arrayBuffer();
    const took = Math.round(performance.now() - began);
    const status = one(answer, '.status');
    status.textContent = got.status + ' ' + got.statusText;
    status.className = 'status ' + (got.ok || got.status === 304 ? 'good' : 'bad');
    const slot = got.headers.get('hydrant-slot');
    const at = slot === null ? '' : ', slot ' + slot + ' ' + got.headers.get('hydrant-commitment');
    one(answer, '.at').textContent = ' · ' + bytes.byteLength + ' bytes in ' + took + ' ms' + at;
    one(answer, '.heads pre').textContent = [...got.headers].map(([name, value]) => name + ': ' + value).join('\n');
    const pre = one(answer, ':scope > pre');
    if ((got.headers.get('content-type') ?? '').startsWith('application/json')) show(pre, new TextDecoder().decode(bytes));
    else pre.textContent = [...new Uint8Array(bytes.slice(0, 4096))].map((byte) => byte.toString(16).padStart(2, '0')).join(' ') + (bytes.byteLength > 4096 ? ' …' : '');
    answer.hidden = false;
  } catch (err) { wrong.textContent = String(err); }
  button.disabled = false;
}

async function copy(button, text) {
  // Without TLS only loopback has a clipboard.
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else { getSelection().selectAllChildren(one(button.parentElement, '.command')); document.execCommand('copy'); }
  button.textContent = 'Copied';
  setTimeout(() => { button.textContent = 'Copy'; }, 1200);
}

// What openapi.json tells of an answer, as a tree that opens where one looks.
const found = (told, schema) => {
  const name = schema.$ref?.split('/').pop();
  return name ? { ...told.components.schemas[name], ...schema, named: name } : schema;
};
function kindOf(told, schema) {
  const it = found(told, schema);
  if (it.named) return it.named;
  if (it.anyOf) return [...new Set(it.anyOf.map((form) => kindOf(told, form)))].join(' or ');
  if (it.enum) return it.enum.map((word) => JSON.stringify(word)).join(' | ');
  if (it.prefixItems) return '[' + it.prefixItems.map((item) => kindOf(told, item)).join(', ') + ']';
  const kinds = [it.type].flat().filter(Boolean).map((kind) => (kind === 'array' && it.items ? 'list of ' + kindOf(told, it.items) : kind === 'integer' && it.format ? it.format : kind));
  return kinds.join(' or ') || 'anything';
}
function members(told, schema) {
  const it = found(told, schema), needed = it.required ?? [];
  if (it.properties) return Object.entries(it.properties).map(([name, member]) => [name + (needed.includes(name) ? '' : '?'), member]);
  if (it.anyOf) {
    const forms = it.anyOf.filter((form) => form.type !== 'null');
    return forms.length === 1 ? members(told, forms[0]) : forms.filter((form) => members(told, form).length).map((form) => ['', form]);
  }
  return it.items ? members(told, it.items) : [];
}
function tree(told, schema) {
  const list = node('ul', 'tree');
  for (const [name, member] of members(told, schema)) {
    const item = node('li'), inner = members(told, member);
    const head = inner.length ? node('summary') : item;
    if (name) head.append(node('b', '', name), ' ');
    head.append(node('i', '', kindOf(told, member).slice(0, 300)), ' ', node('em', '', found(told, member).description ?? ''));
    if (inner.length) {
      const open = node('details');
      open.append(head);
      open.addEventListener('toggle', () => { if (open.open && !one(open, 'ul')) open.append(tree(told, member)); });
      item.append(open);
    }
    list.append(item);
  }
  return list;
}

let description;
const openapi = () => (description ??= fetch('/v1/openapi.json').then((got) => got.json()));

// Puts what this node can answer into the fields of a form that are empty, once it is looked at.
async function begin(form) {
  const told = await openapi(), operation = told.paths[form.dataset.path][form.dataset.verb.toLowerCase()];
  for (const param of operation.parameters) {
    const field = form.elements[param.name];
    if (param.required && param.example !== undefined && !field.value) field.value = [param.example].flat().join('\n');
  }
  const good = Object.entries(operation.responses).find(([status]) => status[0] === '2')[1];
  const schema = good.content['application/json'].schema, whole = node('p');
  const { description, ...shape } = found(told, schema);
  whole.append(node('i', '', shape.type === 'array' ? kindOf(told, { ...shape, named: undefined, $ref: undefined }) : kindOf(told, schema)), ' ' + (description ?? ''));
  one(form, '.told-answer').append(whole, tree(told, schema));
  tell(form);
}

function tell(form) {
  const told = one(form, '.command'), wrong = one(form, '.wrong');
  try { told.textContent = command(request(form)); wrong.textContent = ''; } catch (err) { wrong.textContent = err.message; }
}

for (const form of document.forms) {
  const route = form.closest('details');
  form.addEventListener('input', () => tell(form));
  form.addEventListener('submit', (event) => { event.preventDefault(); send(form); });
  one(form, '.copy').addEventListener('click', (event) => copy(event.target, one(form, '.command').textContent));
  route.addEventListener('toggle', () => { if (route.open && !route.dataset.begun) { route.dataset.begun = '1'; begin(form); } });
  tell(form);
}
const open = () => {
  const route = document.getElementById(location.hash.slice(1));
  if (route?.matches('details')) { route.open = true; route.scrollIntoView(); }
};
addEventListener('hashchange', open);
open();
