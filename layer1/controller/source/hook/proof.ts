/**
 * Does a request show that its sender knows the secret? As git services do it: GitHub, Gitea, Forgejo and Bitbucket sign the body
 * as it is with HMAC-SHA256; GitLab sends the secret, or signs as Standard Webhooks has it.
 *
 * What proves nothing is passed over, however much of it there is: who has a good proof could as well leave the rest out. How old
 * it is is not asked: to send it again makes a look at the repository, and no more.
 */
import { createHmac } from 'node:crypto';
import type { Hmac } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { isSameSecret } from '@flynn/kit/secrets';
import { signingKeyOf } from '../../notifications/signature.ts';

/** `sha256=HEX`; GitHub's and Gitea's `x-hub-signature` is SHA-1, and is not looked at. */
const named = ['x-hub-signature-256', 'x-hub-signature'] as const;
/** HEX. */
const bare = ['x-gitea-signature', 'x-forgejo-signature', 'x-gogs-signature'] as const;

export class Proof {
  readonly #isToken: boolean;
  readonly #ofBody: Signed;
  readonly #ofMessage: Signed;

  constructor(headers: IncomingHttpHeaders, secret: string) {
    this.#isToken = tokensOf(headers).filter((token) => isSameSecret(token, secret)).length > 0;
    this.#ofBody = new Signed(bodySignatures(headers), () => createHmac('sha256', secret), 'hex');
    const [id = '', at = ''] = [textOf(headers, 'webhook-id'), textOf(headers, 'webhook-timestamp')];
    const begun = () => createHmac('sha256', signingKeyOf(secret)).update(`${id}.${at}.`);
    this.#ofMessage = new Signed(messageSignatures(headers), begun, 'base64');
  }

  /** The next part of the body as it came. */
  update(chunk: Buffer): void {
    this.#ofBody.update(chunk);
    this.#ofMessage.update(chunk);
  }

  /** Once all of the body was given. */
  isGood(): boolean {
    const [ofBody, ofMessage] = [this.#ofBody.isGood(), this.#ofMessage.isGood()];
    return this.#isToken || ofBody || ofMessage;
  }
}

/** Whether there is anything that could be one: without it nobody need read the body. */
export function hasProof(headers: IncomingHttpHeaders): boolean {
  return [tokensOf, bodySignatures, messageSignatures].some((of) => of(headers).length > 0);
}

/** One hash over the body, and what it is said to be. */
class Signed {
  readonly #claims: readonly string[];
  readonly #hmac: Hmac | undefined;
  readonly #encoding: 'hex' | 'base64';

  constructor(claims: readonly string[], begin: () => Hmac, encoding: 'hex' | 'base64') {
    this.#claims = claims;
    this.#hmac = claims.length === 0 ? undefined : begin();
    this.#encoding = encoding;
  }

  update(chunk: Buffer): void {
    this.#hmac?.update(chunk);
  }

  isGood(): boolean {
    const digest = this.#hmac?.digest(this.#encoding);
    return digest !== undefined && this.#claims.filter((claim) => isSameSecret(claim, digest)).length > 0;
  }
}

function tokensOf(headers: IncomingHttpHeaders): string[] {
  const token = textOf(headers, 'x-gitlab-token');
  return token === undefined || token === '' ? [] : [token];
}

function bodySignatures(headers: IncomingHttpHeaders): string[] {
  const claims = [
    ...named.map((name) => /^sha256=([\da-f]{64})$/i.exec(textOf(headers, name) ?? '')?.[1]),
    ...bare.map((name) => /^[\da-f]{64}$/i.exec(textOf(headers, name) ?? '')?.[0]),
  ];
  return [...new Set(claims.flatMap((claim) => claim?.toLowerCase() ?? []))];
}

/** `v1,BASE64`, several with spaces between them. */
function messageSignatures(headers: IncomingHttpHeaders): string[] {
  const claims = (textOf(headers, 'webhook-signature') ?? '').split(' ');
  return claims.flatMap((claim) => /^v1,([A-Za-z\d+/]{43}=)$/.exec(claim)?.[1] ?? []);
}

function textOf(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value : undefined;
}
