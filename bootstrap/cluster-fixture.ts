/** A cluster as its first `up` settles it, for tests: nothing of it is on any machine. */
import { type Cluster, readOptions, settle } from './settings.ts';

export function made(): Cluster {
  let secrets = 0;
  return settle(readOptions({}), undefined, {
    hostname: 'h1',
    address: '192.0.2.7',
    now: new Date(0),
    newSecret: () => `secret${(secrets += 1)}`,
    authority: { certificate: 'CERTIFICATE', privateKey: 'PRIVATE KEY' },
  });
}
