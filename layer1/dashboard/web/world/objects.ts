/** Objects of one kind by their ids, and those of each app by themselves: a page of all apps asks for these of every one. */
export class Objects<T> {
  readonly #all = new Map<string, T>();
  readonly #ofApps = new Map<string, Map<string, T>>();
  readonly #appOf: (object: T) => string | undefined;

  /** `appOf`: undefined of what belongs to no app. */
  constructor(appOf: (object: T) => string | undefined) {
    this.#appOf = appOf;
  }

  get(id: string): T | undefined {
    return this.#all.get(id);
  }

  ids(): string[] {
    return [...this.#all.keys()];
  }

  /** In the order in which they were first put, as those of an app are. */
  all(): T[] {
    return [...this.#all.values()];
  }

  of(app: string): T[] {
    return [...(this.#ofApps.get(app)?.values() ?? [])];
  }

  put(id: string, object: T): void {
    const app = this.#appOf(object);
    const before = this.#all.get(id);
    if (before !== undefined && this.#appOf(before) !== app) this.delete(id);
    this.#all.set(id, object);
    if (app === undefined) return;
    const own = this.#ofApps.get(app) ?? new Map<string, T>();
    own.set(id, object);
    this.#ofApps.set(app, own);
  }

  delete(id: string): void {
    const object = this.#all.get(id);
    if (object === undefined) return;
    this.#all.delete(id);
    const app = this.#appOf(object);
    const own = app === undefined ? undefined : this.#ofApps.get(app);
    own?.delete(id);
    if (app !== undefined && own?.size === 0) this.#ofApps.delete(app);
  }
}
