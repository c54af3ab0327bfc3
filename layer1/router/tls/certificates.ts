/** Which certificate is shown for a server name? Contexts are made when they are first asked for, and the newest kept. */
import { createSecureContext } from 'node:tls';
import type { SecureContext, SecureContextOptions } from 'node:tls';
import type { ServedCertificate } from '@flynn/controller/certificates/model';
import type { Logger } from '@flynn/kit/log';

/** Some 40 KB each: names beyond the busiest so many pay for a context (about a millisecond) now and then. */
const maxContexts = 5_000;

type WithKey = ServedCertificate & { readonly certificate: string; readonly privateKey: string };

/**
 * INVARIANTS. A name's own certificate comes before that of a wildcard, which stands for exactly one label. Of several
 * for one name people's own comes before an authority's, then the one that is good longest. One that has expired comes after all
 * that have not, and is served if there is no other: a warning is better than another name's certificate.
 */
export class Certificates {
  readonly #options: SecureContextOptions;
  readonly #log: Logger;
  readonly #byId = new Map<string, ServedCertificate>();
  readonly #byName = new Map<string, WithKey[]>();
  /** The one used last is the last one. */
  readonly #contexts = new Map<string, SecureContext>();
  readonly #broken = new Set<string>();

  /** The profile's options go for every context. */
  constructor(options: { profile: SecureContextOptions; log: Logger }) {
    this.#options = options.profile;
    this.#log = options.log;
  }

  get size(): number {
    return this.#byId.size;
  }

  get(id: string): ServedCertificate | undefined {
    return this.#byId.get(id);
  }

  /** Those that are over, as long as they are served. */
  expired(nowMs: number): ServedCertificate[] {
    return [...this.#byId.values()].filter((certificate) => isOver(certificate, nowMs));
  }

  set(certificate: ServedCertificate): void {
    const before = this.#byId.get(certificate.id);
    if (before !== undefined) this.#unlist(before);
    // What changed may be its challenges alone.
    if (before?.certificate !== certificate.certificate || before?.privateKey !== certificate.privateKey) {
      this.#contexts.delete(certificate.id);
      this.#broken.delete(certificate.id);
    }
    this.#byId.set(certificate.id, certificate);
    if (!hasKey(certificate)) return;
    for (const name of certificate.domains) {
      const sharing = [...(this.#byName.get(name) ?? []), certificate];
      this.#byName.set(name, sharing.toSorted(byPrecedence));
    }
  }

  remove(id: string): void {
    const known = this.#byId.get(id);
    if (known === undefined) return;
    this.#unlist(known);
    this.#byId.delete(id);
    this.#contexts.delete(id);
    this.#broken.delete(id);
  }

  /** These and no others, at once. */
  replace(all: readonly ServedCertificate[]): void {
    const ids = new Set(all.map(({ id }) => id));
    for (const id of this.#byId.keys()) if (!ids.has(id)) this.remove(id);
    for (const certificate of all) this.set(certificate);
  }

  /** Undefined for a name nobody has a certificate for. */
  contextFor(serverName: string, nowMs = Date.now()): SecureContext | undefined {
    const name = serverName.toLowerCase().replace(/\.$/, '');
    const dot = name.indexOf('.');
    const candidates = [
      ...(this.#byName.get(name) ?? []),
      ...(dot > 0 ? (this.#byName.get(`*${name.slice(dot)}`) ?? []) : []),
    ];
    for (const candidate of candidates.toSorted((a, b) => Number(isOver(a, nowMs)) - Number(isOver(b, nowMs)))) {
      const context = this.#contextOf(candidate);
      if (context !== undefined) return context;
    }
    return undefined;
  }

  #contextOf({ id, certificate, privateKey, domains }: WithKey): SecureContext | undefined {
    if (this.#broken.has(id)) return undefined;
    const known = this.#contexts.get(id);
    if (known !== undefined) {
      this.#contexts.delete(id);
      this.#contexts.set(id, known);
      return known;
    }
    try {
      const context = createSecureContext({ ...this.#options, cert: certificate, key: privateKey });
      this.#contexts.set(id, context);
      if (this.#contexts.size > maxContexts) {
        for (const oldest of this.#contexts.keys().take(1)) this.#contexts.delete(oldest);
      }
      return context;
    } catch (error) {
      // The controller has tried it, so this is a matter of versions: the others must not suffer, and one line is enough.
      this.#broken.add(id);
      this.#log.error({ err: error, certificate: id, domains }, 'this certificate cannot be served');
      return undefined;
    }
  }

  #unlist({ id, domains }: ServedCertificate): void {
    for (const name of domains) {
      const left = (this.#byName.get(name) ?? []).filter((one) => one.id !== id);
      if (left.length === 0) this.#byName.delete(name);
      else this.#byName.set(name, left);
    }
  }
}

function hasKey(certificate: ServedCertificate): certificate is WithKey {
  return certificate.certificate !== undefined && certificate.privateKey !== undefined;
}

function isOver({ notAfter }: ServedCertificate, nowMs: number): boolean {
  return notAfter !== undefined && Date.parse(notAfter) <= nowMs;
}

function byPrecedence(a: WithKey, b: WithKey): number {
  if (a.source !== b.source) return a.source === 'own' ? -1 : 1;
  return Date.parse(b.notAfter ?? '') - Date.parse(a.notAfter ?? '') || (a.id < b.id ? -1 : 1);
}
