/** For tests: the API of all kinds, as short as they use it. */
import { hasCode } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { generic } from './api.ts';

export const flynn = (kind: string) => ({ group: 'flynn', version: 'v1', kind });

/** `client`: asked for at each call, for it may come to be later. */
export function callsTo(client: () => HttpClient) {
  return {
    apply: (kind: string, body: object, query: { dryRun?: boolean } = {}) =>
      client().call(generic.apply, { params: flynn(kind), body, query }),
    get: (kind: string, name: string) => client().call(generic.get, { params: { ...flynn(kind), name } }),
  };
}

export const invalid = (pattern: RegExp) => (error: unknown) =>
  hasCode(error, 'invalid') && pattern.test(error.message);

export const paths = ({ changes }: { changes: readonly { path: string }[] }) => changes.map(({ path }) => path);
