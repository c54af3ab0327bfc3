/**
 * A proof of who somebody is says at which controller they log in: the nonce in it, which the provider signs, is made of the host
 * name that the client knows the controller by. Another controller that is handed the proof can do nothing with it elsewhere.
 */
import { createHash } from 'node:crypto';

/** `secret` is random, so that a nonce is good once. */
export type Bound = { host: string; secret: string };

export function nonceFor({ host, secret }: Bound): string {
  return createHash('sha256').update(`flynn login\n${host}\n${secret}`).digest('base64url');
}

/** As it is compared: of one port or another, over TLS or not, it is one cluster's. */
export function hostOf(controllerUrl: string): string {
  return new URL(controllerUrl).hostname.replace(/\.$/, '');
}
