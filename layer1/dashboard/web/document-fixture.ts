/** As much of a document as the pages need to be drawn and pressed without a browser. For tests. */

import type { StreamEvent } from './api/streams.ts';

type Listener = (event: unknown) => void;

export class FakeElement {
  readonly localName: string;
  readonly ownerDocument: FakeDocument;
  readonly nodeType: number;
  readonly namespaceURI = 'http://www.w3.org/1999/xhtml';
  readonly style = {};
  parentNode: FakeElement | null = null;
  childNodes: FakeElement[] = [];
  /** Of a text. */
  data = '';
  readonly #attributes = new Map<string, unknown>();
  readonly #listeners = new Map<string, Listener>();

  constructor(ownerDocument: FakeDocument, localName: string) {
    this.ownerDocument = ownerDocument;
    this.localName = localName;
    this.nodeType = localName === '#text' ? 3 : 1;
  }

  get firstChild(): FakeElement | null {
    return this.childNodes[0] ?? null;
  }

  get nextSibling(): FakeElement | null {
    const beside = this.parentNode?.childNodes ?? [];
    return beside[beside.indexOf(this) + 1] ?? null;
  }

  get textContent(): string {
    return this.data + this.childNodes.map(({ textContent }) => textContent).join('');
  }

  insertBefore(child: FakeElement, before: FakeElement | null): FakeElement {
    child.remove();
    const at = before === null ? this.childNodes.length : this.childNodes.indexOf(before);
    if (at < 0) throw new Error(`<${this.localName}> does not have what a child is to stand before`);
    this.childNodes.splice(at, 0, child);
    child.parentNode = this;
    return child;
  }

  removeChild(child: FakeElement): FakeElement {
    this.childNodes = this.childNodes.filter((known) => known !== child);
    child.parentNode = null;
    return child;
  }

  remove(): void {
    this.parentNode?.removeChild(this);
  }

  setAttribute(name: string, value: unknown): void {
    this.#attributes.set(name, value);
  }

  removeAttribute(name: string): void {
    this.#attributes.delete(name);
  }

  attribute(name: string): unknown {
    return this.#attributes.get(name);
  }

  addEventListener(name: string, listener: Listener): void {
    this.#listeners.set(name, listener);
  }

  removeEventListener(name: string): void {
    this.#listeners.delete(name);
  }

  showModal(): void {}

  focus(): void {}

  /** Nothing has a place to be scrolled to. */
  querySelector(): null {
    return null;
  }

  /** Itself and all that is in it, as it stands. */
  *all(): Generator<FakeElement> {
    yield this;
    for (const child of this.childNodes) yield* child.all();
  }

  /** Events do not bubble. */
  dispatch(type: string): void {
    const event = { type, currentTarget: this, target: this, preventDefault: () => {} };
    this.#listeners.get(type)?.call(this, event);
  }
}

export class FakeDocument {
  visibilityState: 'visible' | 'hidden' = 'visible';
  title = '';
  readonly root: FakeElement = this.createElement('body');
  readonly #watchers = new Set<Listener>();

  createElement(name: string): FakeElement {
    return new FakeElement(this, name);
  }

  createElementNS(_namespace: string, name: string): FakeElement {
    return this.createElement(name);
  }

  createTextNode(data: string): FakeElement {
    const text = this.createElement('#text');
    text.data = data;
    return text;
  }

  getElementById(id: string): FakeElement | null {
    return this.root.all().find((element) => element.attribute('id') === id) ?? null;
  }

  addEventListener(type: string, listener: Listener): void {
    if (type === 'visibilitychange') this.#watchers.add(listener);
  }

  removeEventListener(_type: string, listener: Listener): void {
    this.#watchers.delete(listener);
  }

  /** As somebody goes to another tab of the browser, or comes back. */
  show(visibilityState: 'visible' | 'hidden'): void {
    this.visibilityState = visibilityState;
    for (const listener of this.#watchers) listener({ type: 'visibilitychange' });
  }

  /** The button with that text or label, which can be pressed; `within`: the first element of that name. */
  button(name: string, within = 'body'): FakeElement {
    const place = this.root.all().find(({ localName }) => localName === within);
    const found = place
      ?.all()
      .find(
        (element) =>
          element.localName === 'button' && (element.attribute('aria-label') ?? element.textContent) === name,
      );
    if (found === undefined) throw new Error(`no button "${name}" in <${within}> of: ${this.root.textContent}`);
    if (found.attribute('disabled') === true) throw new Error(`the button "${name}" is disabled`);
    return found;
  }

  /** As somebody clicks it; of one that sends a form the form is sent. */
  press(name: string, within?: string): void {
    const button = this.button(name, within);
    button.dispatch('click');
    if (button.attribute('type') !== 'submit') return;
    let form = button.parentNode;
    while (form !== null && form.localName !== 'form') form = form.parentNode;
    form?.dispatch('submit');
  }
}

/** Of acting-fixture.tsx. */
export type OpenPage = Readonly<{
  document: FakeDocument;
  /** On the stream of changes. */
  tell: (event: StreamEvent) => void;
  close: () => Promise<void>;
}>;
