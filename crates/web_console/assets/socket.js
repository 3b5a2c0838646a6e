// PubSub over one WebSocket, which is opened again when it is closed.
//
// In: subscriptions as method and parameters. Out: their notifications, in order.
// Bounds: one connection; it is opened again after 0.5 s, then after twice as long each time, at most 8 s.
// Invariant: after a reconnect every subscription is made again. What happened in between is not sent: `onOpen` says
// when that may be.

import { parse } from './json.js';

const RETRY_MS_MIN = 500;
const RETRY_MS_MAX = 8_000;

export class PubSub {
  #url;
  #socket = null;
  #retryMs = RETRY_MS_MIN;
  #nextId = 1;
  // Subscriptions by the id of their last request, and by the number that the node gave them.
  #byRequest = new Map();
  #byNumber = new Map();
  #subscriptions = new Set();
  #listeners = new Set();
  isOpen = false;

  constructor(url) {
    this.#url = url;
  }

  // Calls `listener` with true when the connection is open, and with false when it is not.
  onState(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  open() {
    const socket = new WebSocket(this.#url);
    this.#socket = socket;
    socket.onopen = () => {
      this.#retryMs = RETRY_MS_MIN;
      this.#setOpen(true);
      this.#subscriptions.forEach((subscription) => this.#request(subscription));
    };
    socket.onmessage = ({ data }) => this.#receive(parse(data));
    socket.onclose = () => {
      this.#byRequest.clear();
      this.#byNumber.clear();
      this.#setOpen(false);
      setTimeout(() => this.open(), this.#retryMs);
      this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS_MAX);
    };
  }

  // Subscribes, now or as soon as the connection is open; the returned function ends it.
  subscribe(method, params, onResult, onError = () => {}) {
    const subscription = { method, params, onResult, onError, number: null };
    this.#subscriptions.add(subscription);
    if (this.isOpen) this.#request(subscription);
    return () => {
      this.#subscriptions.delete(subscription);
      this.#end(subscription);
    };
  }

  #request(subscription) {
    const id = this.#nextId++;
    subscription.number = null;
    this.#byRequest.set(id, subscription);
    this.#send(id, `${subscription.method}Subscribe`, subscription.params);
  }

  #end({ method, number }) {
    if (number === null || !this.#byNumber.has(number)) return;
    // Equal subscriptions of one connection share a number.
    const others = this.#byNumber.get(number).filter((it) => this.#subscriptions.has(it));
    if (others.length > 0) {
      this.#byNumber.set(number, others);
      return;
    }
    this.#byNumber.delete(number);
    this.#send(this.#nextId++, `${method}Unsubscribe`, [number]);
  }

  #send(id, method, params) {
    this.#socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }));
  }

  #receive(message) {
    if (message.method) {
      const { subscription, result } = message.params;
      (this.#byNumber.get(subscription) ?? []).forEach((it) => it.onResult(result));
      return;
    }
    const subscription = this.#byRequest.get(message.id);
    this.#byRequest.delete(message.id);
    if (!subscription) return;
    if (message.error) {
      subscription.onError(new Error(message.error.message));
      return;
    }
    subscription.number = message.result;
    this.#byNumber.set(message.result, [...(this.#byNumber.get(message.result) ?? []), subscription]);
    if (!this.#subscriptions.has(subscription)) this.#end(subscription);
  }

  #setOpen(isOpen) {
    this.isOpen = isOpen;
    this.#listeners.forEach((listener) => listener(isOpen));
  }
}
