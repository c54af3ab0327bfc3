/** What a client says of who it is, by HTTP Basic (RFC 7617). */
import { hash, randomBytes } from 'node:crypto';

export type Credentials = {
  readonly user: string;
  readonly password: string;
  /** Of both: the same for the same ones in this process, and telling nobody anything. */
  readonly digest: Buffer;
};

/** More is no user and no password that anybody has here. */
const maxLength = 1_024;
const shape = /^basic +([A-Za-z0-9+/]+={0,2}) *$/i;
/** Nobody sees a digest made with it, so that it stands before what is hashed is as good as an HMAC, in a tenth of the time. */
const key = randomBytes(32).toString('base64');

/** Of the field `authorization`; undefined for anything else, as a token for the app. */
export function readBasic(field: string | undefined): Credentials | undefined {
  if (field === undefined || field.length > maxLength) return undefined;
  const [, token] = shape.exec(field) ?? [];
  if (token === undefined) return undefined;
  const text = Buffer.from(token, 'base64').toString('utf8');
  const colon = text.indexOf(':');
  if (colon < 0) return undefined;
  const digest = hash('sha256', key + text, 'buffer');
  return { user: text.slice(0, colon), password: text.slice(colon + 1), digest };
}

/** What asks for them. `host` is as the client wrote it. */
export function challengeFor(host: string): string[] {
  const realm = /^[\w.:[\]-]+$/.test(host) ? host : 'this address';
  return ['www-authenticate', `Basic realm="${realm}", charset="UTF-8"`];
}
