/** Which certificate is shown for a route's name? Pure. */
import type { Certificate } from '@flynn/controller/certificates/model';
import type { RouteView } from '@flynn/controller/routes/api';
import type { Tone } from '../parts/tone.ts';

export const certificateTone: Readonly<Record<Certificate['state'], Tone>> = {
  ready: 'good',
  waiting: 'busy',
  failing: 'bad',
  expired: 'bad',
};

/** One for the very name goes before one for all names beside it. */
export function certificateOf(
  { type, domain }: Pick<RouteView, 'type' | 'domain'>,
  all: readonly Certificate[],
): Certificate | undefined {
  if (type === 'tcp' || domain === undefined) return undefined;
  const wild = `*.${domain.split('.').slice(1).join('.')}`;
  return all.find(({ domains }) => domains.includes(domain)) ?? all.find(({ domains }) => domains.includes(wild));
}
