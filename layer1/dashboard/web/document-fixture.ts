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

  get isConnected(): boolean {
    return this === this.ownerDocument.root || this.parentNode?.isConnected === true;
  }

  contains(other: FakeElement): boolean {
    return this.all().some((element) => element === other);
  }

  /** By an attribute alone, as `[name="value"]`. */
  closest(selector: string): FakeElement | null {
    const [, name = '', value] = /^\[(\w+)="(\w+)"\]$/.exec(selector) ?? [];
    return this.attribute(name) === value ? this : (this.parentNode?.closest(selector) ?? null);
  }

  /** What had the focus before has it again once it is closed. */
  #before: FakeElement | undefined;

  showModal(): void {
    this.#before = this.ownerDocument.activeElement;
    this.focus();
  }

  close(): void {
    this.#before?.focus();
  }

  focus(): void {
    this.ownerDocument.focused = this;
  }

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
  readonly body: FakeElement = this.root;
  focused: FakeElement | undefined;

  /** What is not in it any more has no focus. */
  get activeElement(): FakeElement {
    return this.focused?.isConnected === true ? this.focused : this.body;
  }

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
    button.focus();
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
