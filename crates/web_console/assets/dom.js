// Elements from code. Text is always text: there is no way here from a string to HTML.
//
// Shape: `h('a', { href: '#/node', class: 'x', onclick: f }, 'text', element, [more])`.
// Invariant: a link leads to a view of the console or to the node's own API, whatever its text is.

const SVG = 'http://www.w3.org/2000/svg';
const LINKS = ['#/', '/v1/'];

export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) setProperty(element, name, value);
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false).map(toNode));
  return element;
}

function setProperty(element, name, value) {
  if (value === undefined || value === null || value === false) return;
  if (typeof value === 'function') {
    element.addEventListener(name.slice('on'.length), value);
    return;
  }
  if (name === 'href' && !LINKS.some((start) => value.startsWith(start))) throw new Error(`not a link: ${value}`);
  if (name.startsWith('on')) throw new Error(`not a function: ${name}`);
  element.setAttribute(name, value === true ? '' : value);
}

function toNode(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}

// Replaces what an element shows.
export function show(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined).map(toNode));
}

// Changes a text node's parent only if its text differs: a screen reader and the layout see real changes only.
export function setText(element, text) {
  const value = String(text);
  if (element.textContent !== value) element.textContent = value;
}
