/** What shows an authority that a name leads here: answers over plain HTTP, and certificates for its own protocol. */
import { createSecureContext } from 'node:tls';
import type { SecureContext } from 'node:tls';
import type { ServedCertificate } from '@flynn/controller/certificates/model';
import type { Answer, Policy } from '../exchange.ts';

/** RFC 8737: spoken by authorities alone, and ended after the handshake. */
export const challengeProtocol = 'acme-tls/1';
const pathPrefix = '/.well-known/acme-challenge/';

/** INVARIANT. There is exactly what the certificates under way have; a token is an authority's and cannot be guessed. */
export class Challenges {
  readonly #byId = new Map<string, ServedCertificate['challenges']>();
  readonly #answers = new Map<string, string>();
  readonly #certificates = new Map<string, { certificate: string; privateKey: string }>();

  set({ id, challenges }: ServedCertificate): void {
    if (challenges.length === 0 && !this.#byId.has(id)) return;
    if (challenges.length === 0) this.#byId.delete(id);
    else this.#byId.set(id, challenges);
    this.#index();
  }

  remove(id: string): void {
    if (this.#byId.delete(id)) this.#index();
  }

  replace(all: readonly ServedCertificate[]): void {
    this.#byId.clear();
    for (const { id, challenges } of all) if (challenges.length > 0) this.#byId.set(id, challenges);
    this.#index();
  }

  /** Of whatever host: an authority asks for the name, and the token says enough. */
  answerTo(target: string): string | undefined {
    if (this.#answers.size === 0 || !target.startsWith(pathPrefix)) return undefined;
    return this.#answers.get(target.slice(pathPrefix.length));
  }

  /** Whether connections have to be looked at: at nearly all times not. */
  get hasCertificates(): boolean {
    return this.#certificates.size > 0;
  }

  contextFor(serverName: string): SecureContext | undefined {
    const found = this.#certificates.get(serverName.toLowerCase());
    return found && createSecureContext({ cert: found.certificate, key: found.privateKey });
  }

  #index(): void {
    this.#answers.clear();
    this.#certificates.clear();
    for (const challenge of [...this.#byId.values()].flat()) {
      if (challenge.type === 'http-01') this.#answers.set(challenge.token, challenge.answer);
      else this.#certificates.set(challenge.domain, challenge);
    }
  }
}

/** Before all routes, so that no app, redirect, password or maintenance page keeps a certificate from being had. */
export function answeringChallenges(policy: Policy, challenges: Pick<Challenges, 'answerTo'>): Policy {
  return {
    admit(head, client) {
      const answer = client.isTls ? undefined : challenges.answerTo(head.target);
      return answer === undefined ? policy.admit(head, client) : { answer: plain(answer) };
    },
    refuse: (status, code, message, client) => policy.refuse(status, code, message, client),
  };
}

function plain(body: string): Answer {
  return { status: 200, code: '', fields: ['content-type', 'application/octet-stream'], body };
}
