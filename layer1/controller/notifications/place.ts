/** Where a notification may lead. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { Outside } from '@flynn/kit/outside';
import { hideSecrets } from '@flynn/log-aggregator/drain-url';
import type { Deps } from '../deps.ts';
import { insideNetworks } from '../hosts/inside-networks.ts';
import { bareHost } from './sender.ts';

const lookMs = 5_000;

/** Throws `invalid` saying what an address of a receiver looks like. */
export function checkReceiver(text: string): URL {
  const refuse = (why: string): FlynnError => {
    const shown = URL.canParse(text) ? hideSecrets(text) : text;
    return new FlynnError('invalid', `"${shown}" is no receiver of notifications: ${why}`);
  };
  if (!URL.canParse(text)) throw refuse('it is not a URL; write https://HOST/PATH');
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refuse('write https://HOST/PATH, or http://');
  if (url.hostname === '') throw refuse('it names no host; write https://HOST/PATH');
  if (url.hash !== '') throw refuse('what follows a # is never sent; leave it out');
  if (text.includes('***')) throw refuse('this is how it is shown: give the address with its secrets');
  return url;
}

/** What lies outside of the cluster at this moment. */
export async function openOutside(deps: Pick<Deps, 'store' | 'cell'>, signal: AbortSignal): Promise<Outside> {
  const outside = new Outside();
  outside.setInside(await insideNetworks(deps, signal));
  return outside;
}

/** Throws `denied` where it leads into the cluster. A name that nobody knows now is judged when it is connected to. */
export async function checkOutside(deps: Pick<Deps, 'store' | 'cell'>, url: URL, signal: AbortSignal): Promise<void> {
  const outside = await openOutside(deps, signal);
  const host = bareHost(url);
  try {
    outside.check(host);
    await leadsOutside(outside, host, AbortSignal.any([signal, AbortSignal.timeout(lookMs)]));
  } catch (error) {
    if (!hasCode(error, 'denied')) return;
    throw new FlynnError(
      'denied',
      `${host} is inside the cluster, or this machine itself: an admin of the cluster may say that it is meant, with --inside (isInside: true)`,
      { cause: error },
    );
  }
}

/** Throws `denied` for what no admin means: where clouds tell their machines secrets. */
export function checkChosen(url: URL): void {
  const host = bareHost(url);
  try {
    Outside.chosen(host).check(host);
  } catch (error) {
    throw new FlynnError('denied', `${host} is of this machine's own link: no receiver is there`, { cause: error });
  }
}

function leadsOutside(outside: Outside, host: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
    outside.lookup(host, {}, (error) => (error === null ? resolve() : reject(error)));
  });
}
