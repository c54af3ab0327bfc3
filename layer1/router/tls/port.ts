/** All that TLS is in a router: the certificates as they are told, and the port they are shown at. */
import type { HttpClient } from '@flynn/kit/http-client';
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import type { Status } from '../api.ts';
import { Certificates } from './certificates.ts';
import type { Deadlines } from '../http1/deadlines.ts';
import type { Challenges } from './challenges.ts';
import { createFallback } from './fallback.ts';
import { followCertificates } from './feed.ts';
import type { CertificateSink } from './feed.ts';
import { TlsListener } from './listener.ts';
import type { TlsListenerOptions } from './listener.ts';
import { profileOptions } from './profile.ts';
import type { TlsProfile } from './profile.ts';
import type { RememberedCertificates } from './remembered.ts';

const expiryCheckMs = 3_600_000;
/** Where others can be shown meanwhile, the controller's are waited for no longer. */
const rememberedMs = 1_000;

type TlsPortOptions = Readonly<{
  port: number;
  host: string;
  profile: TlsProfile;
  accept: TlsListenerOptions['accept'];
  challenges: Challenges;
  fronts: TlsListenerOptions['fronts'];
  deadlines: Deadlines;
  /** What was last known, until the controller has spoken. */
  remembered?: RememberedCertificates;
  log: Logger;
}>;

export class TlsPort implements AsyncDisposable {
  readonly #options: TlsPortOptions;
  readonly #certificates: Certificates;
  readonly #challenges: Challenges;
  readonly #listener: TlsListener;
  readonly #expiryCheck: NodeJS.Timeout;
  #isKnown = false;

  static async create(options: TlsPortOptions): Promise<TlsPort> {
    const profile = profileOptions(options.profile);
    const certificates = new Certificates({ profile, log: options.log });
    const { accept, challenges, fronts, deadlines, log } = options;
    const fallback = await createFallback();
    const listener = new TlsListener({ certificates, challenges, accept, profile, fronts, fallback, deadlines, log });
    return new TlsPort(options, { certificates, challenges, listener });
  }

  private constructor(
    options: TlsPortOptions,
    parts: { certificates: Certificates; challenges: Challenges; listener: TlsListener },
  ) {
    this.#options = options;
    this.#certificates = parts.certificates;
    this.#challenges = parts.challenges;
    this.#listener = parts.listener;
    this.#certificates.replace(options.remembered?.certificates ?? []);
    this.#expiryCheck = setInterval(() => this.#tellExpired(), expiryCheckMs);
    this.#expiryCheck.unref();
  }

  /** Until the signal aborts. */
  async follow(controller: Pick<HttpClient, 'events'>, signal: AbortSignal): Promise<void> {
    const { remembered, log } = this.#options;
    const parts = [this.#certificates, this.#challenges, ...(remembered === undefined ? [] : [remembered])];
    const sink: CertificateSink = {
      replace: (all) => {
        for (const part of parts) part.replace(all);
        if (!this.#isKnown) this.#tellExpired();
        this.#isKnown = true;
      },
      set: (one) => parts.forEach((part) => part.set(one)),
      remove: (id) => parts.forEach((part) => part.remove(id)),
      tickets: (key) => this.#listener.resumeWith(key),
      known: (id) => this.#certificates.get(id),
    };
    await Promise.all([followCertificates({ controller, sink, signal, log }), remembered?.run(signal)]);
  }

  /** Waits for the certificates so long: the first clients are not to be shown the fallback's. Resolves with the port. */
  async listen(options: { deadlineMs: number; signal: AbortSignal }): Promise<number> {
    const { host, port, remembered, log } = this.#options;
    const savedAt = remembered?.inUseSince;
    const deadlineMs = savedAt === undefined ? options.deadlineMs : Math.min(rememberedMs, options.deadlineMs);
    try {
      await waitFor(() => this.#isKnown || undefined, { what: 'the certificates', signal: options.signal, deadlineMs });
    } catch (error) {
      const which = savedAt === undefined ? 'without certificates' : 'with the last known certificates';
      log.warn({ reason: messageOf(error), savedAt }, `listening for TLS ${which} until the controller tells them`);
    }
    return this.#listener.listen({ host, port });
  }

  status(): NonNullable<Status['tls']> {
    const expired = this.#certificates.expired(Date.now()).flatMap(({ domains }) => domains);
    const savedAt = this.#options.remembered?.inUseSince;
    const remembered = savedAt === undefined ? {} : { remembered: savedAt };
    return { certificates: this.#certificates.size, expired, ...remembered, ...this.#listener.counts };
  }

  async stopListening(): Promise<void> {
    await this.#listener.stopListening();
  }

  async settled(options: { deadlineMs: number }): Promise<void> {
    await this.#listener.settled(options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#expiryCheck);
    await this.#listener[Symbol.asyncDispose]();
  }

  #tellExpired(): void {
    for (const { domains, notAfter } of this.#certificates.expired(Date.now())) {
      this.#options.log.error({ domains, notAfter }, 'a certificate has expired and is served still: clients warn');
    }
  }
}
